"""What the laws are tried on: a bound family, data it can produce, clusters made of them, and tools to compare.

A law is a function of a `Case` that raises AssertionError where the law is broken and `Inapplicable` where it does
not apply. `law` collects them; the order of definition is the order of reports.
"""

import copy
import warnings
import zlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse

from expfam.errors import DataTypeError, DataWarning, ExpFamError

LAWS: dict = {}  # name -> Law, in order of definition

_COLUMNS = {"real": 2, "counts": 6, "categories": 3, "binary": 4, "nonnegative": 2, "unit": 3}
_ROWS = 40
_MOVES = (0.2, 1.0)  # least and largest change of the logarithm of a hyper-parameter that laws are tried at


class Inapplicable(Exception):
    """The law does not apply to this family; the text says why."""


@dataclass(frozen=True)
class Law:
    """One check: its name, what it needs the family to be able to do, and the function."""

    name: str
    needs: tuple
    function: object

    def why_not(self, subject):
        """Reason not to try this law on a family or kernel, by its `name` and `capabilities`, or None."""
        missing = [ability for ability in self.needs if ability not in subject.capabilities]
        return f"{subject.name} does not declare the ability {missing[0]!r}" if missing else None

    def __call__(self, case):
        """Try it on a case and its `others`; warnings about numbers are failures, warnings about the data are not."""
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
    """Why a law has nothing to say about a case, None where it holds; `words` come before what is wrong."""
    try:
        function(case)
    except Inapplicable as reason:
        return str(reason)
    except Exception as error:  # a stranger's code may raise anything
        if not words:
            raise
        raise AssertionError(f"{words}: {said(error)}") from error
    return None


def said(error):
    """What an error says: an AssertionError its text alone, others their type too."""
    return str(error) if isinstance(error, AssertionError) else f"{type(error).__name__}: {error}"


def law(*needs, among=LAWS):
    """Collect a function among the laws of families, or others, as one that needs these abilities."""

    def collect(function):
        name = function.__name__
        if name in among:
            raise ValueError(f"two laws are called {name}")
        among[name] = Law(name, needs, function)
        return function

    return collect


class Case:
    """A family with data.

    Parameters
    ----------
    family : Family
        Bound or not.
    X : (N, V) array_like or sparse matrix, optional
        Made up to suit the family's `support` if not given.
    seed : int

    Attributes
    ----------
    given : Family
        As it came.
    family : Family
        Bound.
    X : (N, V) ndarray or CSR
    """

    def __init__(self, family, X=None, *, seed=0):
        self.given, self.seed = family, int(seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)
            X = self._make(family) if X is None else X.copy() if hasattr(X, "copy") else np.array(X)
            self.family = family.bind(X)
            self.X = self.family.validate(X)
        _freeze(self.X)

    def rng(self, name):
        """Generator of one law: the same for the same seed, whatever other laws were tried before."""
        return np.random.default_rng([self.seed, zlib.crc32(name.encode())])

    def _make(self, family):
        if family.is_bound and {"draw", "sample"} <= family.capabilities:
            return drawn_data(family, self.rng("data"))
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
    def subject(self):
        """What the laws are about."""
        return self.family

    @cached_property
    def phi(self):
        """(N, F) float64 statistics of the rows, dense."""
        return statistics(self.family, self.X)

    @property
    def log_base(self):
        """(N,) log base measure."""
        return np.asarray(self.family.log_base(self.X))

    @cached_property
    def others(self):
        """The same data under other values of all that `hyper` names: (words, case), each value once above its own
        and once below."""
        rng, moved = self.rng("other hyper-parameters"), []
        size = rng.uniform(*_MOVES, len(self.family.hyper)) * rng.choice([-1.0, 1.0], len(self.family.hyper))
        for direction in (1.0, -1.0) if len(size) else ():
            factors = np.exp(direction * size)
            values = {name: self._scaled(name, factor) for name, factor in zip(self.family.hyper, factors)}
            words = ", ".join(f"{name} = {_in_words(value)}" for name, value in values.items())
            other = copy.copy(self)
            other.__dict__.pop("phi", None)  # may depend on them
            other.given = other.family = self.family.with_hyper(**values)
            moved.append((f"with {words}", other))
        return moved

    def _scaled(self, name, factor):
        """A hyper-parameter times a factor within its bounds; a vector or matrix as a whole, as learning does."""
        value = np.asarray(getattr(self.family, name)) * np.clip(factor, *self.family.hyper_bounds(name))
        return value if value.ndim else float(value)

    def weights(self, rng, K, *, low=2, high=None, fractional=False):
        """(K, N) random memberships, each cluster of `low` to `high` data."""
        N = self.X.shape[0]
        high = min(N, high or N)
        W = np.zeros((K, N))
        for k in range(K):
            chosen = rng.choice(N, size=rng.integers(min(low, high), high + 1), replace=False)
            W[k, chosen] = rng.uniform(0.05, 1.0, chosen.size) if fractional else 1.0
        return W

    def of(self, W):
        """Statistics (n, S) of memberships, read-only so that a family cannot change them unseen."""
        n, S = W.sum(axis=1), W @ self.phi
        return read_only(n), read_only(S)

    def sparse(self):
        """The case on CSR data; a family may then bind otherwise, without a centre to subtract."""
        try:
            return Case(self.given, sparse.csr_array(self.X), seed=self.seed)
        except DataTypeError as error:
            raise Inapplicable(f"the family came bound to dense data: {error}") from error

    def narrow(self, n_columns):
        """The same kind of family on the first columns of the data, or Inapplicable where it cannot be cut down."""
        V = self.X.shape[1]
        if n_columns >= V:
            return self
        family = self.family if self.given.is_bound else self.given
        params = {name: _cut(value, V, n_columns) for name, value in family.get_params().items()}
        cut = family.support != "unit"  # a part of a unit vector is none
        X = self.X[:, :n_columns] if cut else made_up_data("unit", n_columns, self.rng("narrow"))
        try:
            return Case(type(family)(**params), X, seed=self.seed)
        except (ExpFamError, ValueError) as error:
            raise Inapplicable(f"the family cannot be cut down to {n_columns} of {V} columns: {error}") from error


def _in_words(value):
    """A hyper-parameter for a message."""
    return f"{value:.4g}" if np.ndim(value) == 0 else np.array2string(value, precision=4, threshold=6)


def dense(X):
    """A copy of the data as a dense float64 array."""
    return np.array(X.toarray() if sparse.issparse(X) else X, dtype=np.float64)


def statistics(family, X):
    """Phi as a dense float64 array."""
    return dense(family.sufficient_statistics(X))


def read_only(array):
    """The array, made read-only."""
    array = np.ascontiguousarray(array)
    array.setflags(write=False)
    return array


def _freeze(X):
    """A copy is not made: the flag alone is set, on arrays that the kit or `validate` made."""
    for part in (X.data, X.indices, X.indptr) if sparse.issparse(X) else (X,):
        if part.flags.owndata:
            part.setflags(write=False)


def _widths(family):
    """Numbers of columns to try: the bound one, or the usual one, the lengths of array hyper-parameters, and 1."""
    if family.is_bound:
        return [family.n_features_in_]
    lengths = [np.shape(value)[0] for value in family.get_params().values() if np.ndim(value)]
    return list(dict.fromkeys([_COLUMNS[family.support], *lengths, 1]))


def _cut(value, V, n_columns):
    if isinstance(value, str) or not np.ndim(value):
        return value
    array = np.asarray(value)
    return array[tuple(slice(n_columns) if size == V else slice(None) for size in array.shape)]


def drawn_data(family, rng):
    """Rows sampled under four parameters drawn from the prior."""
    F = family.n_statistics_
    theta, _ = family.draw_natural(np.zeros(4), np.zeros((4, F)), rng)
    return np.concatenate([family.sample(row[None], _ROWS // 4, rng) for row in theta])


def bounds_of(family):
    """Least and largest value that a family's data may hold, by its support and its own bounds."""
    least, most = {"counts": (0.0, np.inf), "nonnegative": (0.0, np.inf), "binary": (0.0, 1.0)}.get(
        family.support, (-np.inf, np.inf)
    )
    low, high = getattr(family, "bounds", (-np.inf, np.inf))
    return max(least, float(low)), min(most, float(high))


def made_up_data(support, n_columns, rng, *, n_rows=_ROWS, bounds=None):
    """Rows of a few clusters within a support, and within bounds: (n_rows, n_columns) float64."""
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
    raise ValueError(f"no data can be made up for support {support!r}; give X")


def _into(X, low, high):
    """Real values moved between two bounds; positive ones beyond the one that there is."""
    if np.isfinite(low) and np.isfinite(high):
        return low + (high - low) / (1.0 + np.exp(-X))
    return low + X if np.isfinite(low) else high - X if np.isfinite(high) else X


# ---- comparing -----------------------------------------------------------------------------------------------------


def agree(found, expected, what, *, rel=0.0, abs=0.0):
    """Raise unless two arrays agree to the tolerances; the message holds the worst entry."""
    found, expected = np.asarray(found, dtype=np.float64), np.asarray(expected, dtype=np.float64)
    assert found.shape == expected.shape, f"{what}: shape {found.shape}, expected {expected.shape}"
    if not found.size:
        return
    assert np.isfinite(found).all(), (
        f"{what}: {found[~np.isfinite(found)][0]} where {expected[~np.isfinite(found)][0]} is due"
    )
    excess = np.abs(found - expected) - (rel * np.abs(expected) + abs)
    worst = np.unravel_index(np.argmax(excess), excess.shape)
    assert excess[worst] <= 0, (
        f"{what}: {found[worst]:.17g} is not {expected[worst]:.17g}, difference"
        f" {found[worst] - expected[worst]:.3g}, at {tuple(int(i) for i in worst)}"
    )


def scores(values, expected, floor):
    """z of the mean of each column of (m, c) values, their standard error being no smaller than `floor`."""
    error = values.std(axis=0) / np.sqrt(values.shape[0])
    return (values.mean(axis=0) - expected) / np.maximum(error, floor)


def within(z, limit, what):
    """Raise unless every z-score lies within +-limit."""
    z = np.atleast_1d(z)
    assert np.isfinite(z).all(), f"{what}: not finite"
    assert np.abs(z).max() < limit, f"{what}: {np.abs(z).max():.1f} standard errors off (limit {limit})"


def slope(family, n, S, dn, dS, *, step):
    """First and second derivative of A along (dn, dS), by differences of fourth order: two (K,) arrays."""
    A = [family.log_marginal(n + c * step * dn, S + (c * step)[:, None] * dS) for c in (-2.0, -1.0, 0.0, 1.0, 2.0)]
    first = (A[0] - 8 * A[1] + 8 * A[3] - A[4]) / (12 * step)
    second = (-A[0] + 16 * A[1] - 30 * A[2] + 16 * A[3] - A[4]) / (12 * step**2)
    return first, second
