"""The case for laws of families: a bound family, its data, clusters, and tools to compare.

A law is a function of a `Case`. It raises AssertionError if the family breaks it, and `Inapplicable` if it does not
apply. `law` collects the laws; the order of definition is the order of reports.
"""

from __future__ import annotations

import copy
import warnings
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from expfam.amounts import counted
from expfam.errors import DataTypeError, DataWarning, ExpFamError
from expfam.families.support import YES_NO

if TYPE_CHECKING:
    import numpy.typing as npt

    from expfam.families.base import Family

LAWS: dict[str, Law] = {}  # in order of definition

_COLUMNS = {"real": 2, "counts": 6, "categories": 3, "binary": 4, "nonnegative": 2, "unit": 3}
_ROWS = 40
_MOVES = (0.2, 1.0)  # least and largest change of log hyper-parameter at which laws are tried again


class Inapplicable(Exception):
    """The law does not apply to this family; the text says why."""


@dataclass(frozen=True)
class Law:
    """One check: its name, the abilities that it needs of a family, and the function."""

    name: str
    needs: tuple[str, ...]
    function: Callable[..., None]

    def why_not(self, subject: Any) -> str | None:
        """Return why the law cannot be tried on a subject, or None.

        The subject is a family or kernel; its `name` and `capabilities` are read.
        """
        missing = [ability for ability in self.needs if ability not in subject.capabilities]
        return f"{subject.name} does not declare the ability {missing[0]!r}" if missing else None

    def __call__(self, case: Any) -> None:
        """Try the law on a case and its `others`.

        RuntimeWarning counts as a failure; DataWarning is ignored.
        """
        reason = self.why_not(case.subject)
        if reason:
            raise Inapplicable(reason)
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            warnings.simplefilter("ignore", DataWarning)
            reasons = [_reason_to_skip(self.function, each, words) for words, each in [("", case), *case.others]]
        if None not in reasons:
            raise Inapplicable(reasons[0])


def _reason_to_skip(function, case, words):
    """Return why a law does not apply to a case, or None if it holds.

    `words` come before the message of a failure.
    """
    try:
        function(case)
    except Inapplicable as reason:
        return str(reason)
    except Exception as error:  # foreign code may raise anything
        if not words:
            raise
        raise AssertionError(f"{words}: {said(error)}") from error
    return None


def said(error: BaseException) -> str:
    """Return the message of an error, with its type unless it is an AssertionError."""
    return str(error) if isinstance(error, AssertionError) else f"{type(error).__name__}: {error}"


def law(*needs: str, among: dict[str, Law] = LAWS) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that adds a function to the laws, with the abilities that it needs.

    Parameters
    ----------
    *needs : str
        Abilities of a family, see `Family.capabilities`.
    among : dict of str to Law
        The laws that the function is added to, by its name.
    """

    def collect(function):
        name = function.__name__
        if name in among:
            raise ValueError(f"two laws are called {name}")
        among[name] = Law(name, needs, function)
        return function

    return collect


class Case:
    """A family with data, to try laws on.

    `given` is the family as it was given, `family` is bound to the data `X` (N, V). Without X, data are made up that
    suit the family's `support`.
    """

    def __init__(self, family: Family, X: Any = None, *, seed: int = 0) -> None:
        self.given, self.seed = family, int(seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)
            X = self._make(family) if X is None else X.copy() if hasattr(X, "copy") else np.array(X)
            self.family: Any = family.bind(X)  # its optional methods are not in the base class
            self.X = self.family.validate(X)
        _freeze(self.X)

    def rng(self, name: str) -> np.random.Generator:
        """Return a generator that depends on the seed and on `name` alone."""
        return np.random.default_rng([self.seed, zlib.crc32(name.encode())])

    def _make(self, family):
        if family.is_bound and {"draw", "sample"} <= family.capabilities:
            return drawn_data(family, self.rng("data"))
        if family.support == "mixed":
            return made_up_table(family, self.rng("data"))
        failure = None
        for n_columns in _widths(family):
            X = made_up_data(family.support, n_columns, self.rng("data"), bounds=bounds_of(family))
            try:
                family.bind(X)
                return X
            except (ExpFamError, ValueError, IndexError) as error:
                failure = failure or error
        raise ValueError(f"cannot make data for {family!r}; give X: {failure}") from failure

    @property
    def subject(self) -> Family:
        """Return what the laws are about: the bound family."""
        return self.family

    @cached_property
    def phi(self) -> npt.NDArray[np.float64]:
        """Return the statistics of the rows: (N, F) float64, dense."""
        return statistics(self.family, self.X)

    @property
    def log_base(self) -> npt.NDArray[np.float64]:
        """Return the log base measure of each row: (N,)."""
        return np.asarray(self.family.log_base(self.X))

    @cached_property
    def others(self) -> list[tuple[str, Case]]:
        """Return (words, case) pairs with the same data and other values of all hyper-parameters.

        Every value that `hyper` names is once above its own value and once below. Where a bound is the own value, it is
        twice on the other side. What is a yes or no for each column is the opposite in every second column.
        """
        rng, moved = self.rng("other hyper-parameters"), []
        size = rng.uniform(*_MOVES, len(self.family.hyper)) * rng.choice([-1.0, 1.0], len(self.family.hyper))
        for direction in (1.0, -1.0) if len(size) else ():
            factors = np.exp(direction * size)
            values = {name: self._scaled(name, factor) for name, factor in zip(self.family.hyper, factors)}
            words = ", ".join(f"{name} = {_in_words(value)}" for name, value in values.items())
            other = copy.copy(self)
            other.__dict__.pop("phi", None)  # phi may depend on hyper-parameters
            other.given = other.family = self.family.with_hyper(**values)
            moved.append((f"with {words}", other))
        return moved

    def _scaled(self, name, factor):
        """Return a hyper-parameter times a factor within its bounds.

        A vector or matrix is scaled as a whole, as learning does it.
        """
        if self.family.hyper[name] == YES_NO:
            return opposite(getattr(self.family, name), int(factor > 1.0), 2)
        low, high = self.family.hyper_bounds(name)
        if np.clip(factor, low, high) == 1.0:  # the own value is a bound
            factor = factor**-2.0
        value = np.asarray(getattr(self.family, name)) * np.clip(factor, low, high)
        return value if value.ndim else float(value)

    def weights(
        self, rng: np.random.Generator, K: int, *, low: int = 2, high: int | None = None, fractional: bool = False
    ) -> npt.NDArray[np.float64]:
        """Return (K, N) random memberships, with `low` to `high` data in each cluster.

        Parameters
        ----------
        rng : numpy Generator
        K : int
            Number of clusters; a row may be in several.
        low, high : int
            Least and largest number of data of a cluster; N if `high` is not given.
        fractional : bool
            Whether memberships are fractions; if not, they are 0 or 1.
        """
        N = self.X.shape[0]
        high = min(N, high or N)
        W = np.zeros((K, N))
        for k in range(K):
            chosen = rng.choice(N, size=rng.integers(min(low, high), high + 1), replace=False)
            W[k, chosen] = rng.uniform(0.05, 1.0, chosen.size) if fractional else 1.0
        return W

    def of(self, W: npt.NDArray[Any]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Return the statistics (n, S) of memberships, read-only to detect writes by a family."""
        n, S = W.sum(axis=1), W @ self.phi
        return read_only(n), read_only(S)

    def sparse(self) -> Case:
        """Return the case on CSR data.

        A family may bind in another way then, for example without subtracting a centre.
        """
        try:
            return Case(self.given, sparse.csr_array(self.X), seed=self.seed)
        except DataTypeError as error:
            raise Inapplicable(f"the family was given already bound to dense data: {error}") from error

    def narrow(self, n_columns: int) -> Case:
        """Return the same kind of family on the first columns of the data.

        Raise `Inapplicable` if its hyper-parameters cannot be cut.
        """
        V = self.X.shape[1]
        if n_columns >= V:
            return self
        family = self.family if self.given.is_bound else self.given
        params = {name: _cut(value, V, n_columns) for name, value in family.get_params().items()}
        cut = family.support != "unit"  # a part of a unit vector is no unit vector
        X = self.X[:, :n_columns] if cut else made_up_data("unit", n_columns, self.rng("narrow"))
        try:
            return Case(type(family)(**params), X, seed=self.seed)
        except (ExpFamError, ValueError) as error:
            raise Inapplicable(
                f"the family cannot be cut down to {n_columns} of {counted(V, 'column')}: {error}"
            ) from error


def changed(family: Any, name: str, factor: float) -> Any:
    """Return a hyper-parameter times a factor, or the opposite of choices."""
    value = np.asarray(getattr(family, name), dtype=np.float64)
    value = opposite(value) if family.hyper[name] == YES_NO else value * factor
    return value if value.ndim else float(value)


def opposite(choices: Any, start: int = 0, step: int = 1) -> npt.NDArray[np.float64]:
    """Return 0 for 1 and 1 for 0 in some columns, from `start` on."""
    found = np.array(choices, dtype=np.float64)
    found[start::step] = 1.0 - found[start::step]
    return found


def _in_words(value):
    """Return a hyper-parameter as text for a message."""
    return f"{value:.4g}" if np.ndim(value) == 0 else np.array2string(value, precision=4, threshold=6)


def dense(X: Any) -> npt.NDArray[np.float64]:
    """Return a copy of the data as a dense float64 array."""
    return np.array(X.toarray() if sparse.issparse(X) else X, dtype=np.float64)


def statistics(family: Family, X: Any) -> npt.NDArray[np.float64]:
    """Return phi of the rows as a dense (N, F) float64 array."""
    return dense(family.sufficient_statistics(X))


def read_only(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the array C-contiguous and read-only."""
    array = np.ascontiguousarray(array)
    array.setflags(write=False)
    return array


def _freeze(X):
    """Make arrays read-only in place; only arrays that the kit or `validate` made are changed."""
    for part in (X.data, X.indices, X.indptr) if sparse.issparse(X) else (X,):
        if part.flags.owndata:
            part.setflags(write=False)


def _widths(family):
    """Return the numbers of columns to try.

    For a bound family this is its own number; else the usual one, the lengths of array hyper-parameters, and 1.
    """
    if family.is_bound:
        return [family.n_features_in_]
    lengths = [np.shape(value)[0] for value in family.get_params().values() if np.ndim(value)]
    return list(dict.fromkeys([_COLUMNS[family.support], *lengths, 1]))


def _cut(value, V, n_columns):
    if isinstance(value, str) or not np.ndim(value):
        return value
    array = np.asarray(value)
    return array[tuple(slice(n_columns) if size == V else slice(None) for size in array.shape)]


def drawn_data(family: Any, rng: np.random.Generator) -> npt.NDArray[Any]:
    """Sample rows under four parameters drawn from the prior."""
    F = family.n_statistics_
    theta, _ = family.draw_natural(np.zeros(4), np.zeros((4, F)), rng)
    return np.concatenate([family.sample(row[None], _ROWS // 4, rng) for row in theta])


def bounds_of(family: Family) -> tuple[float, float]:
    """Return the least and largest value of a family's data, by its support and own bounds."""
    least, most = {"counts": (0.0, np.inf), "nonnegative": (0.0, np.inf), "binary": (0.0, 1.0)}.get(
        family.support, (-np.inf, np.inf)
    )
    low, high = getattr(family, "bounds", (-np.inf, np.inf))
    return max(least, float(low)), min(most, float(high))


def made_up_data(
    support: str,
    n_columns: int,
    rng: np.random.Generator,
    *,
    n_rows: int = _ROWS,
    bounds: tuple[float, float] | None = None,
) -> npt.NDArray[np.float64]:
    """Return (n_rows, n_columns) float64 rows of three clusters within a support and bounds.

    Parameters
    ----------
    support : {"real", "counts", "categories", "binary", "nonnegative", "unit"}
    n_columns : int
    rng : numpy Generator
    n_rows : int
    bounds : (float, float), optional
        Least and largest value.
    """
    shape, label = (n_rows, n_columns), rng.integers(0, 3, n_rows)
    low, high = (-np.inf, np.inf) if bounds is None else bounds
    if support == "real":
        X = rng.normal(size=(3, n_columns))[label] * 2.0 + rng.normal(size=shape) * 0.7 + 1.5
        return _into(np.exp(X) if np.isinf(low) != np.isinf(high) else X, low, high)
    if support == "counts":
        X = rng.poisson(rng.gamma(0.8, 2.5, size=(3, n_columns))[label]).astype(np.float64)
        return np.minimum(X + np.ceil(max(low, 0.0)), high)
    if support == "categories":
        X = np.stack([rng.integers(0, 2 + v % 3, n_rows) for v in range(n_columns)], axis=1)
        X[:4] = [[min(row, 1 + v % 3) for v in range(n_columns)] for row in range(4)]  # every level occurs
        return X.astype(np.float64)
    if support == "binary":
        return (rng.random(shape) < rng.uniform(0.1, 0.9, size=(3, n_columns))[label]).astype(np.float64)
    if support == "nonnegative":
        X = rng.exponential(rng.gamma(2.0, 1.0, size=(3, n_columns))[label])
        return X + max(low, 0.0) if np.isinf(high) else _into(np.log(X), max(low, 0.0), high)
    if support == "unit":
        X = rng.normal(size=(3, n_columns))[label] * 1.5 + rng.normal(size=shape)
        return X / np.linalg.norm(X, axis=1, keepdims=True)
    raise ValueError(f"no data can be made for the support {support!r}; give X")


_HOLES = 0.2  # share of missing cells in made-up tables


def made_up_table(family: Family, rng: np.random.Generator) -> npt.NDArray[np.float64]:
    """Return (40, V) rows that suit the parts of a table, with missing cells; the last has none."""
    parts: Any = family.parts  # type: ignore[attr-defined]
    X = np.empty((_ROWS, sum(len(columns) for _, columns in parts)))
    for part, columns in parts:
        X[:, columns] = made_up_data(part.support, len(columns), rng, bounds=bounds_of(part))
    X[rng.random(X.shape) < _HOLES] = np.nan
    X[-1] = np.nan
    return X


def _into(X, low, high):
    """Map real values to an interval, or positive values to one side of a single bound."""
    if np.isfinite(low) and np.isfinite(high):
        return low + (high - low) / (1.0 + np.exp(-X))
    return low + X if np.isfinite(low) else high - X if np.isfinite(high) else X


# ---- comparing -----------------------------------------------------------------------------------------------------


def agree(found: npt.ArrayLike, expected: npt.ArrayLike, what: str, *, rel: float = 0.0, abs: float = 0.0) -> None:
    """Raise unless two arrays agree within the tolerances; the message names the worst entry.

    Parameters
    ----------
    found, expected : array_like of float
    what : str
        What is compared, for the message.
    rel, abs : float
        The difference may be ``rel * |expected| + abs``.

    Raises
    ------
    AssertionError
    """
    found, expected = np.asarray(found, dtype=np.float64), np.asarray(expected, dtype=np.float64)
    assert found.shape == expected.shape, f"{what}: shape {found.shape}, expected {expected.shape}"
    if not found.size:
        return
    assert np.isfinite(found).all(), (
        f"{what}: {found[~np.isfinite(found)][0]}, expected {expected[~np.isfinite(found)][0]}"
    )
    excess = np.abs(found - expected) - (rel * np.abs(expected) + abs)
    worst = np.unravel_index(np.argmax(excess), excess.shape)
    assert excess[worst] <= 0, (
        f"{what}: {found[worst]:.17g} is not {expected[worst]:.17g}, difference"
        f" {found[worst] - expected[worst]:.3g}, at {tuple(int(i) for i in worst)}"
    )


def scores(values: npt.NDArray[np.float64], expected: npt.ArrayLike, floor: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Return z-scores of the column means of (m, c) values; errors are at least `floor`.

    Parameters
    ----------
    values : (m, c) float64 ndarray
        Independent rows.
    expected : (c,) array_like of float
        Means under the law.
    floor : (c,) array_like of float
        Least standard error, so that rounding does not count.
    """
    error = values.std(axis=0) / np.sqrt(values.shape[0])
    return (values.mean(axis=0) - expected) / np.maximum(error, floor)


def within(z: npt.ArrayLike, limit: float, what: str) -> None:
    """Raise unless every z-score is finite and its absolute value below the limit."""
    z = np.atleast_1d(z)
    assert np.isfinite(z).all(), f"{what}: not finite"
    assert np.abs(z).max() < limit, f"{what}: {np.abs(z).max():.1f} standard errors off (limit {limit})"


def slope(
    family: Family,
    n: npt.NDArray[Any],
    S: npt.NDArray[Any],
    dn: npt.NDArray[Any],
    dS: npt.NDArray[Any],
    *,
    step: npt.NDArray[np.float64],
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return first and second derivative of A along (dn, dS): two (K,) arrays.

    They are differences of fourth order.

    Parameters
    ----------
    family : Family
    n, S : (K,) and (K, F) ndarrays
        Where A is differentiated.
    dn, dS : (K,) and (K, F) ndarrays
        Direction.
    step : (K,) float64 ndarray
        Step of the differences.
    """
    A = [family.log_marginal(n + c * step * dn, S + (c * step)[:, None] * dS) for c in (-2.0, -1.0, 0.0, 1.0, 2.0)]
    first = (A[0] - 8 * A[1] + 8 * A[3] - A[4]) / (12 * step)
    second = (-A[0] + 16 * A[1] - 30 * A[2] + 16 * A[3] - A[4]) / (12 * step**2)
    return first, second
