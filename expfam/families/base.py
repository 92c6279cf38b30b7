"""Base class of the exponential families.

The author of a family writes two methods; the others are derived from them or are optional.
A family is log p(x|theta) = <phi(x), theta> - g(theta) + log_base(x) with a conjugate prior on theta. A collapsed
model needs only the log evidence of a cluster, A(n, S) = log E_prior exp(<S, theta> - n g(theta)). A is a convex
function of the count n and the sum S of phi, with A(0, 0) = 0. Predictives are differences of A, posterior means are
its gradient (Ahmed et al. 2012, eqs. 4-5). All methods are vectorised over K clusters; none depends on a sampler.
"""

from __future__ import annotations

import copy
import inspect
import re
from abc import ABC, abstractmethod
from functools import lru_cache
from math import isfinite
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from scipy import sparse

from expfam.errors import CapabilityError, ExpFamError
from expfam.families import support as _support
from expfam.families._checked import check_methods
from expfam.families.all_rows import RowsHere
from expfam.families.generic import GenericComponents
from expfam.families.questions import DataQuestions
from expfam.families.slice_sampling import MOST_ROUNDS, SETTLED, climb_to_mode, finite, log_target, slice_sample
from expfam.families.support import YES_NO, dense_rows
from expfam.families.weighing import checked_weight, counted_rows, takes_weight
from expfam.user_warnings import warn

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy.typing as npt
    from typing_extensions import Self

    from expfam.families.all_rows import AllRows
    from expfam.protocols import Floats

_OPTIONAL = {  # ability: the method that a family needs for it
    "variational": "expected_natural",
    "draw": "draw_natural",
    "map": "map_natural",
    "sample": "sample",
    "compiled": "components",
}
_LAW = frozenset({"sufficient_statistics", "log_marginal"})  # methods from which all others follow
# optional methods that compute the same law faster, or count its parameters
_RESTATED = ("components", "separable", "log_predictive", "n_free_parameters")
_READ_ROWS = {"sufficient_statistics", "log_base", "log_predictive", "coordinate_map", "neighbour_map"}
_OF_TWO_VALUES = "the family takes 0 and 1: write X = X > 0.5 with a bound of your own, or take family='gaussian_diag'"
_BLOCK_BYTES = 1 << 25  # derived methods work in blocks whose dense temporaries are about this large


def _has_another_law(cls, method):
    """Tell whether a class has another law than the ancestor whose method it inherits."""
    has_changed = False
    for ancestor in cls.__mro__:
        if method in ancestor.__dict__:
            # a base class without a law computes the method from other methods of the family
            return has_changed and not getattr(ancestor.log_marginal, "__isabstractmethod__", False)
        has_changed = has_changed or bool(_LAW & ancestor.__dict__.keys())
    return False


@lru_cache(maxsize=256)
def _keywords(constructor):
    # a class without __init__ has the signature (*args, **kwargs)
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return tuple(p.name for p in inspect.signature(constructor).parameters.values() if p.kind not in variable)[1:]


class Family(DataQuestions, ABC):
    """Likelihood with the hyper-parameters of its conjugate prior; frozen once bound to data.

    An author writes `sufficient_statistics` and `log_marginal`. The other methods are derived from these two, or are
    optional: each optional method makes further samplers available. A constructor stores its keyword arguments
    unchanged and does no work.

    Attributes
    ----------
    api_version : int
        Version of this protocol that the class was written for.
    name : str
        Entry-point name in lower snake case; made from the class name if not given.
    support : {"real", "counts", "categories", "binary", "nonnegative", "unit"}
        Values that a datum may hold. `validate` and the conformance kit choose their checks and data by it.
    bounds : (float, float)
        Smallest and largest allowed value, both included: a class attribute, or a property if they depend on
        hyper-parameters. By default only the support limits the values.
    accepts_sparse : bool
        Whether the family reads CSR data without making them dense.
    keeps_narrow_rows : bool
        Whether the methods read rows of float16, int8, uint8, int16 and uint16; by default they get a copy in float32.
    allows_missing : bool
        Whether data may hold NaN, which stands for a value that is missing; False by default.
    hyper : dict
        Names of the hyper-parameters that may be learned; each value is ``"positive"``, or ``"yes_no"`` for what is 0
        or 1 for each column: such families have `log_odds_given` and `log_odds_of_yes`.
    learned_by_default : tuple of str
        Hyper-parameters that estimators learn unless the user gave a value.
    worth_hyper : tuple of tuple of str
        Groups of hyper-parameters that count observations: a group times 2 is a prior worth twice as many.
    has_full_covariance : bool
        Whether the number of parameters of a cluster grows with the square of the number of columns.
    has_independent_columns : bool
        Whether the columns are independent given a cluster's parameter, each with a prior of its own, and phi has the
        same statistics of each column, one block of V columns after the other.
    n_features_in_, n_statistics_ : int
        Number of columns of the data, and F, the number of columns of phi; set by `bind`.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.special import betaln
    >>> from expfam import Family, Mixture
    >>> class Geometric(Family):
    ...     support = "counts"
    ...     def __init__(self, a=1.0, b=1.0):
    ...         self.a, self.b = a, b
    ...     def sufficient_statistics(self, X):
    ...         return X
    ...     def log_marginal(self, n, S):
    ...         return betaln(self.a + n, self.b + S[:, 0]) - betaln(self.a, self.b)
    >>> X = np.repeat([[0], [60]], 10, axis=0)
    >>> Mixture(Geometric(), n_steps=50, random_state=0).fit(X).cluster_sizes_
    array([10, 10])
    """

    api_version: ClassVar[int] = 1
    name: ClassVar[str] = "family"
    support: ClassVar[str] = "real"
    bounds: ClassVar[tuple] = (-np.inf, np.inf)
    accepts_sparse: ClassVar[bool] = False
    keeps_narrow_rows: ClassVar[bool] = False
    hyper: ClassVar[dict] = {}
    learned_by_default: ClassVar[tuple] = ()
    worth_hyper: ClassVar[tuple] = ()
    has_full_covariance: ClassVar[bool] = False
    has_independent_columns: ClassVar[bool] = False
    hyper_by_column: ClassVar[tuple[str, ...]] = ()  # hyper-parameters of which columns may have factors of their own
    asks_for_extremes: ClassVar[bool] = False  # whether `resolve` asks the rows for the extremes of their columns
    reads_uncounted_rows: ClassVar[bool] = False  # whether `resolve` is called with rows of weight 0 too
    n_features_in_: int
    n_statistics_: int
    hyper_factors_: dict[str, float | Floats]

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        if "name" not in cls.__dict__:
            cls.name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", cls.__name__).lower()
        for method in _RESTATED:  # inherited, they would still be about the law that this class has replaced
            if _has_another_law(cls, method):
                setattr(cls, method, Family.__dict__[method])
        if "keeps_narrow_rows" not in cls.__dict__ and _READ_ROWS & cls.__dict__.keys():
            cls.keeps_narrow_rows = False  # squares of small integers overflow where a method does not know of them
        check_methods(cls, Family)

    # ---- what an author writes ------------------------------------------------------------------------------------

    @abstractmethod
    def sufficient_statistics(self, X: Any) -> Any:
        """Return the sufficient statistics phi of each row: (N, F) ndarray, or CSR for sparse X."""

    @abstractmethod
    def log_marginal(self, n: Floats, S: Floats) -> Floats:
        """Return the log evidence A(n, S) of each cluster, with its parameter integrated out.

        Parameters
        ----------
        n : (K,) float64 ndarray
            Number of data in each cluster; fractions are allowed.
        S : (K, F) float64 ndarray
            Sum of phi in each cluster.

        Returns
        -------
        (K,) float64 ndarray
            Nats, without log-base; 0.0 for an empty cluster.

        Notes
        -----
        A(n, S) = h(m0 + n, m0 mu0 + S) - h(m0, m0 mu0); Ahmed et al. 2012, eqs. 4-5.
        """

    def log_base(self, X: Any) -> Floats:
        """Return the log base measure of each row: (N,) float64, nats.

        It is zero unless the family overrides this method.
        """
        return np.zeros(X.shape[0])

    def validate(self, X: Any) -> Any:
        """Check data against `support` and `bounds` and return them as a C-contiguous array or CSR.

        Parameters
        ----------
        X : array_like or sparse matrix, shape (N, V)

        Returns
        -------
        (N, V) ndarray or CSR
            Read-only. A CSR result is canonical. The result uses the memory of `X` if no change was needed.

        Raises
        ------
        DataError, SupportError
            The message names family, row, column and rule.
        """
        X = _support.as_matrix(
            X,
            family=self.name,
            accepts_sparse=self.accepts_sparse,
            n_features=getattr(self, "n_features_in_", None),
            allow_nan=self.allows_missing,
            keeps_narrow=self.keeps_narrow_rows,
        )
        if self.support == "counts":
            _support.check_counts(
                X,
                family=self.name,
                allow_fractional=getattr(self, "allow_fractional", False),
                remedy=self._remedy_of_fractions(),
            )
        elif self.support == "binary":
            _support.check_counts(X, family=self.name, remedy=_OF_TWO_VALUES)
            _support.check_interval(X, 0, 1, family=self.name)
        elif self.support == "nonnegative":
            _support.check_interval(X, 0, np.inf, family=self.name)
        elif self.support == "unit":
            self._check_lengths(X)
        if tuple(self.bounds) != Family.bounds:
            _support.check_interval(X, *self.bounds, family=self.name)
        return X

    def _remedy_of_fractions(self):
        """Return what to write for counts with fractions, if the family has a setting for it."""
        if not hasattr(self, "allow_fractional"):
            return None
        return (
            f"for weights such as tf-idf take family={type(self).__name__}(allow_fractional=True), on the command line"
            " --hyper allow_fractional=True"
        )

    def _check_lengths(self, X):
        """Refuse rows of another length than 1, for the support "unit"."""
        _support.check_unit(X, family=self.name)

    def resolve(self, X: Any, weight: Floats | None = None) -> dict[str, Any]:
        """Choose the values that `bind` sets on the bound copy.

        These are the hyper-parameters given as ``"auto"`` and the attributes learned from the data.

        Parameters
        ----------
        X : (N, V) ndarray or CSR, validated
        weight : (N,) float64, optional
            Multiplicity of each row, above 0; None for rows that count once. The values must be those of the rows
            repeated. A method without this parameter gets the rows of weight above 0, each once.

        Returns
        -------
        dict
            Values by name: constructor keywords, and names that end in an underscore. The values must not depend on
            the order of the rows.

        Notes
        -----
        By default it is `resolve_rows` of the rows. A family that overrides `resolve` reads all rows at once: of data
        in parts, it gets a sample of them.
        """
        return self.resolve_rows(RowsHere(X, weight))

    def resolve_rows(self, rows: AllRows) -> dict[str, Any]:
        """Choose what `resolve` chooses, from answers of all rows that are added up.

        The rows may lie in several places. The results must be the same bits wherever they lie.

        Parameters
        ----------
        rows : AllRows
            ``rows.total(question)`` is the sum of the answers of all rows. Weights are above 0.

        Returns
        -------
        dict
            Values by name, as of `resolve`.

        Examples
        --------
        >>> from expfam import Poisson
        >>> from expfam.families.all_rows import RowsHere
        >>> import numpy as np
        >>> Poisson().resolve_rows(RowsHere(np.array([[1.0], [4.0]])))
        {'shape': array([3.]), 'rate': 1.0}
        """
        return {}

    @classmethod
    def resolves_from_rows(cls) -> bool:
        """Return whether `resolve_rows` sets all values: no subclass reads all rows at once.

        Examples
        --------
        >>> from expfam import Poisson
        >>> class AtOnce(Poisson):
        ...     def resolve(self, X, weight=None):
        ...         return super().resolve(X, weight)
        >>> Poisson.resolves_from_rows(), AtOnce.resolves_from_rows()
        (True, False)
        """
        by_rows = ("resolve_rows", "bind_rows")
        at_once = ("resolve", "bind", "_resolved")
        for ancestor in cls.__mro__:
            if any(name in ancestor.__dict__ for name in by_rows):
                return True
            if any(name in ancestor.__dict__ for name in at_once):
                return False
        return True

    def separable(self) -> tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]] | None:
        """Return functions (a, f) with A(n, S) = a(n, S.) + sum_w f(w, S_w), or None.

        S. is the sum of S over the columns w, and f(w, 0) must be 0. Return None if A does not have this form.
        The function `a` has the arguments (n, total), two arrays of one shape. The function `f` has the arguments
        (w, s), arrays of column numbers and values.
        """
        return None

    def of_columns(self, columns: Sequence[int]) -> tuple[Self, npt.NDArray[np.intp]]:
        """Return the same family on some of the columns, and their columns of phi.

        Parameters
        ----------
        columns : sequence of int

        Returns
        -------
        Family
            Bound if this family is.
        (F',) intp ndarray
            Empty if the family is not bound.

        Raises
        ------
        CapabilityError
            The columns depend on each other.

        Examples
        --------
        >>> from expfam import DiagonalGaussian
        >>> family = DiagonalGaussian().bind([[0.0, 1.0, 7.0], [2.0, 4.0, 9.0]])
        >>> part, columns = family.of_columns([2])
        >>> part.mean, columns
        (array([8.]), array([2, 5]))
        """
        if not self.has_independent_columns:
            raise CapabilityError(f"family {self.name!r}: the columns depend on each other, so it has no parts")
        at = np.asarray(columns, dtype=np.intp)
        part = self._copy()
        for name, value in self.__dict__.items():
            if np.ndim(value) == 1:
                part.__dict__[name] = np.asarray(value)[at]
        if not self.is_bound:
            return part, at[:0]
        width, blocks = self.n_features_in_, self.n_statistics_ // self.n_features_in_
        part.__dict__.update(n_features_in_=at.size, n_statistics_=at.size * blocks)
        return part, np.concatenate([at + block * width for block in range(blocks)])

    def prior_from_clusters(self, n: Floats, S: Floats) -> Self:
        """Return a bound family whose "auto" prior has the shape of given clusters.

        Estimators call it once, with the clusters of a start. This default returns the family itself; families whose
        prior fits better if it knows how wide clusters are override it.

        Parameters
        ----------
        n : (K,) float64
            Number of data of each cluster.
        S : (K, F) float64
            Sums of their statistics.

        Returns
        -------
        Family
        """
        return self

    # ---- binding --------------------------------------------------------------------------------------------------

    @property
    def is_bound(self) -> bool:
        """Return whether `bind` has resolved the hyper-parameters and set the number of columns."""
        return "n_features_in_" in self.__dict__

    def bind(self, X: Any, weight: npt.ArrayLike | None = None) -> Self:
        """Return a frozen copy whose ``"auto"`` hyper-parameters are resolved from data.

        A family that is bound already only checks X and returns itself.

        Parameters
        ----------
        X : array_like or sparse matrix, shape (N, V)
        weight : (N,) array_like of non-negative float, optional
            Multiplicity of each row: hyper-parameters are those of the rows repeated.

        Raises
        ------
        DataError, SupportError
            The data do not pass `validate`, whatever their weights.

        Examples
        --------
        >>> from expfam import Poisson
        >>> Poisson().bind([[1], [4]], weight=[3, 1]).shape, Poisson().bind([[1], [1], [1], [4]]).shape
        (array([2.]), array([2.]))
        """
        if self.is_bound:
            self.validate(X)
            return self
        notes = _support.NOTED_EXTREMES.set([] if self.asks_for_extremes else None)
        try:
            X = self.validate(X)
            if weight is not None:
                weight = checked_weight(weight, X.shape[0])
            return self._bound(self._resolved(X, weight), X[:1])
        finally:
            _support.NOTED_EXTREMES.reset(notes)

    def for_kind(self, kind: np.dtype[Any]) -> Self:
        """Return the family for rows of a dtype; itself by default."""
        return self

    def bind_rows(self, rows: AllRows, first: Any) -> Self:
        """Return what `bind` returns, of rows that were validated where they lie.

        Parameters
        ----------
        rows : AllRows
        first : (1, V) ndarray or CSR
            One of the rows.
        """
        return self if self.is_bound else self._bound(self.resolve_rows(rows), first)

    def _bound(self, values, row):
        """Return the bound copy with some values; `row` is a row of the data."""
        bound = copy.copy(self)
        bound.__dict__["n_features_in_"] = int(row.shape[1])
        bound.__dict__.update(values)
        bound.__dict__["n_statistics_"] = int(bound.sufficient_statistics(row).shape[1])
        return bound

    def _resolved(self, X, weight):
        if weight is not None and self.reads_uncounted_rows and takes_weight(self.resolve):
            return self.resolve(X, weight=weight)
        rows, given = counted_rows(self.resolve, X, weight)
        return self.resolve(rows, **given)

    def check_learned(self) -> None:
        """Raise ValueError for learned attributes that `bind` cannot have set.

        Families that were read from a file are checked by it. This default accepts all. Shapes, and whether numbers
        are finite, are checked beside it.
        """

    def complete_saved(self) -> None:
        """Set what a bound family from a file of an earlier version lacks; here it lacks nothing."""

    def opened_for(self, X: Any) -> Self:
        """Return the bound family with statistics that fit the missing values of other data.

        Families whose statistics do not depend on which values are missing return themselves; see `Columns`.

        Parameters
        ----------
        X : (N, V) ndarray or CSR, validated
        """
        return self

    def for_more_rows(self) -> Self:
        """Return the bound family without what the first of many rows have by chance; here nothing."""
        return self

    def open_statistics(self, other: Any, n: Floats, S: Any) -> Any:
        """Return sums S (K, F) of this family in the layout of a family that was opened from it.

        Parameters
        ----------
        other : Family
            Result of `opened_for`, whose layout `S` gets.
        n : (K,) float64 ndarray
            Number of data in each cluster.
        S : (K, F) float64 ndarray or CSR
            Sums of the phi of this family.

        Returns
        -------
        (K, F') float64 ndarray or CSR
            `S` itself for families whose statistics do not depend on which values are missing.
        """
        return S

    def require_bound(self) -> None:
        """Raise ExpFamError unless the family is bound."""
        if not self.is_bound:
            raise ExpFamError(f"{self!r} is not bound to data: call family.bind(X) first")

    def with_hyper(self, **values: Any) -> Self:
        """Return a copy with other hyper-parameters; the copy of a bound family is bound.

        Examples
        --------
        >>> from expfam import Poisson
        >>> Poisson(shape=1.0, rate=1.0).with_hyper(rate=2.0)
        Poisson(shape=1.0, rate=2.0)
        """
        unknown = set(values) - set(self._parameter_names())
        if unknown:
            raise TypeError(f"{self.name} has no parameter {sorted(unknown)}; it has {self._parameter_names()}")
        other = self._copy()
        for name, value in values.items():
            if (type(value) is not np.ndarray or not value.ndim) and self.is_bound and np.ndim(value) == 0:
                old = getattr(self, name)
                if np.ndim(old) == 1:
                    value = np.full(len(old), value, dtype=np.float64)  # a bound family has one value per column
            other.__dict__[name] = value
        return other

    def with_factors(self, factors: Mapping[str, float | Floats]) -> Self:
        """Return a copy with `hyper_factors_`: each hyper-parameter divided by its value at binding."""
        other = self._copy()
        other.__dict__["hyper_factors_"] = factors
        return other

    def _copy(self):
        """Return a shallow copy, in a fifth of the time of `copy.copy`; learning makes thousands."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        return other

    def __setattr__(self, name, value):
        if self.is_bound:
            raise AttributeError(f"a bound family is frozen; use with_hyper({name}=...) for a copy")
        super().__setattr__(name, value)

    # ---- derived: families override only log_predictive and expected_natural, for speed -----------------------------

    @property
    def capabilities(self) -> frozenset[str]:
        """Return the abilities of the family, found by the methods that it defines.

        They are a subset of {"collapsed", "variational", "draw", "map", "sample", "compiled"}.
        """
        present = {
            ability
            for ability, method in _OPTIONAL.items()
            if getattr(type(self), method, None) is not getattr(Family, method, None)
        }
        return frozenset(present | {"collapsed"})

    @property
    def is_compiled(self) -> bool:
        """Whether the family has compiled components, so that moves need no interpreter."""
        return type(self).components is not Family.components

    def require(self, ability: str, user: str) -> None:
        """Raise CapabilityError unless the family has an ability.

        Parameters
        ----------
        ability : {"collapsed", "variational", "draw", "map", "sample", "compiled"}
        user : str
            What needs the ability. The message names it, the missing method and this family.

        Raises
        ------
        CapabilityError
        """
        if ability not in self.capabilities:
            raise CapabilityError(f"{user} needs {_OPTIONAL[ability]}(), which family {self.name!r} does not implement")

    def log_predictive(self, X: Any, n: Floats, S: Any) -> Floats:
        """Return the log probability of each row given the data of each cluster.

        It is A(n + 1, S + phi) - A(n, S), where A is the log evidence of `log_marginal` and phi the row's statistics.

        Parameters
        ----------
        X : (N, V) data
        n : (K,) float64
        S : (K, F) float64 or CSR

        Returns
        -------
        (N, K) float64 ndarray
            Nats, without log-base.
        """
        n, S = np.asarray(n, dtype=np.float64), dense_rows(S)
        phi = self.sufficient_statistics(self.validate(X))
        before = self.log_marginal(n, S)
        out = np.empty((phi.shape[0], n.shape[0]))
        rows = max(1, _BLOCK_BYTES // max(1, 8 * S.size))
        for start in range(0, phi.shape[0], rows):
            block = dense_rows(phi[start : start + rows])
            m = block.shape[0]
            after = self.log_marginal(np.tile(n + 1.0, m), (block[:, None, :] + S[None]).reshape(-1, S.shape[1]))
            out[start : start + m] = after.reshape(m, -1) - before
        return out

    def log_likelihood(self, phi: Any, theta: npt.ArrayLike, g: npt.ArrayLike) -> Floats:
        """Return <phi(x), theta> - g of each row and cluster: (N, K), nats, without log-base.

        Parameters
        ----------
        phi : (N, F) ndarray or CSR
            Sufficient statistics of the rows.
        theta : (K, F) array_like of float
            Natural parameters.
        g : (K,) array_like of float
            Their log-partition function, nats.

        Returns
        -------
        (N, K) float64 ndarray
        """
        return phi @ np.asarray(theta).T - np.asarray(g)

    def expected_natural(self, n: Floats, S: Floats) -> tuple[Floats, Floats]:
        """Return the posterior means (E theta, E g) of each cluster: the gradient (dA/dS, -dA/dn).

        Parameters
        ----------
        n : (K,) float64
        S : (K, F) float64

        Returns
        -------
        (K, F) and (K,) float64 ndarrays

        Notes
        -----
        This default differentiates `log_marginal` by central differences of fourth order, in 4 F + 4 calls. It is
        meant for prototypes of a family: it warns once, and raises CapabilityError if phi has more than 64 columns.
        """
        n, S = np.asarray(n, dtype=np.float64), np.asarray(S, dtype=np.float64)
        if S.shape[1] > 64:
            raise CapabilityError(
                f"family {self.name!r} does not implement expected_natural(), and F = {S.shape[1]} is too wide"
                " to differentiate (64)"
            )
        _warn_numeric(type(self).__name__)
        theta = np.empty_like(S)
        for f in range(S.shape[1]):
            step = np.zeros_like(S)
            step[:, f] = 1e-4 * (1.0 + np.abs(S[:, f]))
            theta[:, f] = self._difference(n, S, np.zeros_like(n), step) / step[:, f]
        h = 1e-4 * (1.0 + n)
        return theta, -self._difference(n, S, h, np.zeros_like(S)) / h

    def _difference(self, n, S, dn, dS):
        values = [self.log_marginal(n + c * dn, S + c * dS) for c in (-2, -1, 1, 2)]
        return (values[0] - 8 * values[1] + 8 * values[2] - values[3]) / 12.0

    def log_merged(self, n1: Floats, S1: Floats, n2: Floats, S2: Floats) -> Floats:
        """Return the log evidence gained by merging pairs of clusters: (K,) nats.

        It is A(n1 + n2, S1 + S2) - A(n1, S1) - A(n2, S2).

        Parameters
        ----------
        n1, n2 : (K,) float64 ndarrays
            Number of data in the first and in the second cluster of each pair.
        S1, S2 : (K, F) float64 ndarrays
            Sums of their phi.
        """
        return self.log_marginal(n1 + n2, S1 + S2) - self.log_marginal(n1, S1) - self.log_marginal(n2, S2)

    def cluster_params(self, n: Floats, S: Any) -> dict[str, Any]:
        """Return the usual parameters of clusters in the units of the data, by name.

        Estimators show them as `params_`. This default is ``to_params(*map_natural(n, S))``: the mode in natural
        coordinates, which has the posterior mean of the mean parameter. A family may override it.

        Parameters
        ----------
        n : (K,) float64
            Number of data in each cluster.
        S : (K, F) float64 or CSR
            Sums of their phi.

        Returns
        -------
        dict
            Arrays with one row a cluster: (K, ...). Of a table, one such dict for each column, see
            `Columns.cluster_params`.

        Raises
        ------
        CapabilityError
            The family implements neither this method nor both `map_natural` and `to_params`.

        Examples
        --------
        >>> import numpy as np
        >>> from expfam import Poisson
        >>> family = Poisson(shape=1.0, rate=1.0).bind([[0, 1], [4, 5]])
        >>> family.cluster_params(np.array([3.0]), np.array([[7.0, 11.0]]))["rate"]
        array([[2., 3.]])
        """
        lacking = [name for name in ("map_natural", "to_params") if not hasattr(self, name)]
        if lacking:
            raise CapabilityError(
                f"family {self.name!r} has no parameters to show: it does not implement {' and '.join(lacking)}; write"
                " map_natural(n, S) and to_params(theta, g), or cluster_params(n, S), which returns a dict of arrays"
            )
        family: Any = self  # with the two optional methods that it has
        params: dict[str, Any] = family.to_params(*family.map_natural(np.asarray(n, dtype=np.float64), dense_rows(S)))
        return params

    def n_free_parameters(self, n_clusters: int) -> int:
        """Return how many free parameters some clusters have together, without their weights.

        `Mixture.bic` asks a bound family for it. What all clusters share counts once, and hyper-parameters of the prior
        do not count.

        Parameters
        ----------
        n_clusters : int

        Returns
        -------
        int

        Raises
        ------
        CapabilityError
            The family does not say it, or it was said of another law, which its class has replaced. Statistics do not
            tell: there may be more of them than free parameters.

        Examples
        --------
        >>> from expfam import Multinomial, SphericalGaussian
        >>> Multinomial().bind([[3, 0, 1], [1, 2, 0]]).n_free_parameters(2)
        4
        >>> SphericalGaussian(variance="shared").bind([[3.0, 0.0], [1.0, 2.0]]).n_free_parameters(2)
        5
        """
        raise CapabilityError(
            f"family {self.name!r} does not say how many free parameters its clusters have: write in class"
            f" {type(self).__name__} def n_free_parameters(self, n_clusters): return n_clusters * self.n_statistics_,"
            " or fewer where statistics depend on each other or clusters share parameters"
        )

    def posterior_predictive_sample(
        self, n: float, S: npt.ArrayLike, size: int, rng: np.random.Generator
    ) -> npt.NDArray[Any]:
        """Draw `size` rows from the predictive of one cluster, each row with its own parameter.

        Parameters
        ----------
        n : float
            Number of data in the cluster.
        S : (F,) float64
            Sum of their phi.
        size : int
        rng : numpy.random.Generator

        Returns
        -------
        (size, V) ndarray
        """
        self.require("draw", "posterior_predictive_sample")
        self.require("sample", "posterior_predictive_sample")
        family: Any = self  # with the two optional methods that were just required
        S = np.tile(np.asarray(S, dtype=np.float64), (size, 1))
        theta, _ = family.draw_natural(np.full(size, float(n)), S, rng)
        return np.concatenate([family.sample(row[None], 1, rng) for row in theta])

    def total_log_marginal(self, n: npt.ArrayLike, S: Any) -> float:
        """Return the sum of `log_marginal` over clusters, in nats.

        Parameters
        ----------
        n : (K,) array_like of float
            Number of data in each cluster.
        S : (K, F) ndarray or CSR
            Sums of their phi. CSR is made dense only in blocks of rows.

        Returns
        -------
        float
        """
        n = np.asarray(n, dtype=np.float64)
        parts = self.separable() if sparse.issparse(S) else None
        if parts is not None:
            a, f = parts
            total = np.asarray(S.sum(axis=1), dtype=np.float64).ravel()
            clusters = np.repeat(np.arange(len(n)), np.diff(S.indptr))
            terms = f(S.indices, np.asarray(S.data, dtype=np.float64))
            value = np.bincount(clusters, weights=terms, minlength=len(n)) + a(n, total)
            step = _block_clusters(S)  # sums are made in the order of those of dense S
            return float(sum(value[k : k + step].sum() for k in range(0, len(n), step)))
        if type(S) is np.ndarray and 0 < len(n) <= _block_clusters(S):  # learning asks thousands of times
            return float(np.add.reduce(self.log_marginal(n, S)))
        return float(sum(part.sum() for part in self._log_marginal_parts(n, S)))

    def _log_marginal_parts(self, n, S):
        """Yield `log_marginal` of one block of clusters after another.

        If `S` is CSR, only the rows of one block are dense at a time.
        """
        rows = _block_clusters(S)
        return (self.log_marginal(n[k : k + rows], dense_rows(S[k : k + rows])) for k in range(0, len(n), rows))

    def log_marginal_of_rows(self, n: npt.ArrayLike, S: Any) -> Floats:
        """Return `log_marginal` of each cluster for `S` dense or CSR: (K,) nats.

        Parameters
        ----------
        n, S
            As of `total_log_marginal`.
        """
        return np.concatenate([np.zeros(0), *self._log_marginal_parts(np.asarray(n, dtype=np.float64), S)])

    # ---- learning hyper-parameters -----------------------------------------------------------------------------------

    def hyper_bounds(self, name: str) -> tuple[float, float]:
        """Return the bounds of a learned hyper-parameter, as factors of its value at binding."""
        return (0.0, 1.0) if self.hyper.get(name) == YES_NO else self._bounds_from(name, self._base_of(name))

    def _bounds_from(self, name: str, base: Floats) -> tuple[float, float]:
        """Return `hyper_bounds`, given the value at binding."""
        return 1e-6, 1e6

    def update_hyper(self, n: Floats, S: Any, rng: np.random.Generator, *, names: Sequence[str] | None = None) -> Self:
        """Draw each declared hyper-parameter by one slice-sampling update, given the partition.

        Parameters
        ----------
        n : (K,) float64
        S : (K, F) float64 or CSR
        rng : numpy.random.Generator
        names : sequence of str, optional
            Update only these hyper-parameters.

        Returns
        -------
        Family
            A copy with the new values.

        Notes
        -----
        The log target is sum_k A_h(n_k, S_k) plus the log density of a log-normal prior. The prior is on the factor by
        which the hyper-parameter differs from its value at binding (median 1, standard deviation 3 in logs). A vector
        or matrix is scaled as a whole. Stepping out and shrinkage follow Neal 2003, "Slice sampling". A yes or no for
        each column is drawn from its probability, given the other hyper-parameters.
        """
        self.require_bound()
        family, kinds = self, self.hyper
        for name in kinds if names is None else names:
            if kinds[name] == YES_NO:
                log_odds = family.log_odds_given(name, n, S)
                chosen = np.log(rng.random(len(log_odds))) < -np.logaddexp(0.0, -log_odds)
                family = family.with_hyper(**{name: chosen.astype(np.float64)})
                continue
            factor = family.__dict__.get("hyper_factors_", {}).get(name, 1.0)
            with np.errstate(divide="ignore"):  # a bound of 0 is minus infinity in logs
                low, high = np.log(self.hyper_bounds(name))
            with np.errstate(invalid="ignore"):  # what is not finite is told by `log_marginal`
                t = slice_sample(family._target_along(name, n, S), float(np.log(factor)), rng, low=low, high=high)
            family = family._at_factor(name, t)
        return family

    def fit_hyper(self, n: Floats, S: Any, *, names: Sequence[str] | None = None) -> Self:
        """Move each declared hyper-parameter to the mode of its log target, given the partition.

        A start uses it: rows move to clusters only after the prior fits these. The target is that of `update_hyper`.

        Parameters
        ----------
        n : (K,) float64
        S : (K, F) float64 or CSR
        names : sequence of str, optional
            Move only these hyper-parameters.

        Returns
        -------
        Family
            A copy with the new values. Nothing is drawn: the result is a function of the arguments.

        Notes
        -----
        One hyper-parameter is moved after the other, in a few rounds, each to about 0.03 in logs.
        """
        self.require_bound()
        family, is_sound = self, False
        bounds = self._log_bounds(self.hyper if names is None else names)
        for _ in range(MOST_ROUNDS if len(bounds) > 1 else 1):
            family, moved, is_sound = family._round_to_modes(bounds, n, S)
            if moved < SETTLED:
                break
        return family if is_sound or family._has_finite_evidence(n, S) else self

    def _round_to_modes(self, bounds, n, S):
        """Move hyper-parameters to their modes, one after the other.

        Return the family, the largest move in logs, and whether the last evidence was computed and finite all along.
        """
        family, largest, is_sound, kinds = self, 0.0, False, self.hyper
        for name, ends in bounds.items():
            if kinds[name] == YES_NO:
                chosen = family.log_odds_given(name, n, S) > 0.0
                if not np.array_equal(chosen, getattr(family, name) > 0.0):
                    family, largest = family.with_hyper(**{name: chosen.astype(np.float64)}), np.inf
                    is_sound = False
                continue
            before = float(np.log(family.__dict__.get("hyper_factors_", {}).get(name, 1.0)))
            t, is_sound = family._mode_along(name, n, S, before, *ends)
            largest = max(largest, abs(t - before))
            family = family._at_factor(name, t)
        return family, largest, is_sound

    def _has_finite_evidence(self, n, S):
        return bool(np.isfinite(finite(lambda t: self.total_log_marginal(n, S))(0.0)))

    def _log_bounds(self, names):
        """Return the logs of the bounds of factors by name; a yes or no has none."""
        kinds, ends = self.hyper, {name: self.hyper_bounds(name) for name in names}
        logs = {name: [float(np.log(end)) if end > 0.0 else -np.inf for end in ends[name]] for name in names}
        return {name: () if kinds[name] == YES_NO else logs[name] for name in names}

    def _mode_along(self, name, n, S, t, low, high):
        """Return a mode of a log target, and whether its evidence was computed and finite all along."""
        with np.errstate(divide="ignore", invalid="ignore"):  # as in `update_hyper`
            evidence = self._evidence_along(name, n, S)
            climb = getattr(evidence, "climb", None)  # of compiled evidences
            if climb is not None and isfinite(found := climb(t, low, high)):
                return found, evidence.is_checked
            return climb_to_mode(finite(self._target_of(evidence, name, n, S)), t, low=low, high=high), False

    def log_hyper_prior(self, names: Sequence[str]) -> float:
        """Return the log prior density of learned hyper-parameters, nats, up to a constant.

        It is that of `update_hyper`: normal in the log of the factor over the value at binding, standard deviation 3.
        """
        factors, kinds = self.__dict__.get("hyper_factors_", {}), self.hyper
        choices = {name: np.count_nonzero(getattr(self, name)) for name in names if kinds[name] == YES_NO}
        of_choices = sum(count * self.log_odds_of_yes(name) for name, count in choices.items() if count)
        scales = (factors.get(name, 1.0) for name in names if name not in choices)
        return of_choices - 0.5 * sum(float(((np.log(factor) / 3.0) ** 2).sum()) for factor in scales)

    def _target_along(self, name, n, S):
        """Return the log target of a hyper-parameter as a function of the log of its factor."""
        return self._target_of(self._evidence_along(name, n, S), name, n, S)

    def _target_of(self, evidence, name, n, S):
        return log_target(evidence, lambda t: self._at_factor(name, t).total_log_marginal(n, S))

    def _at_factor(self, name, t):
        """Return a copy with a hyper-parameter exp(t) times its value at binding."""
        factors, factor = self.__dict__.get("hyper_factors_", {}), np.exp(t)
        value = self._base_of(name) * self._spread_factor(name, factor)
        other = self.with_hyper(**{name: float(value) if value.ndim == 0 else value})
        return other.with_factors({**factors, name: float(factor) if np.ndim(factor) == 0 else factor})

    def _base_of(self, name):
        """Return the value that a hyper-parameter had at binding, without its learned factor."""
        factor = self.__dict__.get("hyper_factors_", {}).get(name, 1.0)
        return np.asarray(getattr(self, name)) / self._spread_factor(name, factor)

    def _spread_factor(self, name, factor):
        """Return the factor of each value of a hyper-parameter: a number, or an array of its shape."""
        return factor

    def alike_columns(self) -> npt.NDArray[np.bool_]:
        """Return which columns tell nothing about clusters: (V,) bool; here none."""
        return np.zeros(self.n_features_in_, dtype=bool)

    def factor_shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of the learned factors of a hyper-parameter.

        It is () if one factor scales the hyper-parameter as a whole, and (V,) if each column has a factor of its own or
        chooses yes or no.
        """
        return (self.n_features_in_,) if self.hyper[name] == YES_NO else ()

    def log_odds_of_yes(self, name: str) -> float:
        """Return the log prior odds that a column has a 1 in a "yes_no" hyper-parameter, nats."""
        raise NotImplementedError(f"{type(self).__name__} has no log_odds_of_yes: write it for {name!r}")

    def log_odds_given(self, name: str, n: Floats, S: Any) -> Floats:
        """Return the log odds of a 1 in each column, given the clusters: (V,) nats.

        They are those of the prior, and how much a 1 raises the log evidence of a column over a 0. Given the other
        hyper-parameters too, columns do not depend on each other.

        Parameters
        ----------
        name : str
            A "yes_no" hyper-parameter.
        n : (K,) float64 ndarray
            Number of data in each cluster.
        S : (K, F) float64 ndarray or CSR
            Sums of their phi.
        """
        raise NotImplementedError(f"{type(self).__name__} has no log_odds_given: write it for {name!r}")

    def _evidence_along(self, name: str, n: Floats, S: Any) -> Callable[[float], float] | None:
        """Return `total_log_marginal` as a function of the log of a factor, or None.

        It is meant up to a constant. The factor is that of `_at_factor`. The function computes what does not depend on
        it only once; where it returns a value that is not finite, `total_log_marginal` decides.
        """
        return self._evidence_from(name, self._base_of(name), n, S)

    def _evidence_from(self, name: str, base: Floats, n: Floats, S: Any) -> Callable[[float], float] | None:
        """Return `_evidence_along`, given the value at binding; None if it is not known."""
        return None

    # ---- compiled components -----------------------------------------------------------------------------------------

    def components(self, data: Any, capacity: int, *, layout: Literal["features", "clusters"] = "features") -> Any:
        """Return the object that holds the statistics of `capacity` clusters and scores rows.

        It owns the C struct that kernels call. This default returns `GenericComponents`, which calls the methods of the
        family; compiled families return an owner of their own. A subclass that
        overrides `sufficient_statistics` or `log_marginal` has this default again, unless it overrides `components`
        too; the same holds for `separable` and `log_predictive`.

        Parameters
        ----------
        data : Dataset
        capacity : int
            Number of clusters for which memory is allocated.
        layout : {"features", "clusters"}
            Counts of clusters are kept in a row for each column of phi, or in a list for each cluster. Families with
            one
            layout ignore it.

        Returns
        -------
        object
            Owner of a `components_v1` struct.
        """
        return GenericComponents(self, data, capacity)

    # ---- values ---------------------------------------------------------------------------------------------------

    @classmethod
    def _parameter_names(cls):
        return list(_keywords(cls.__init__))

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the constructor keywords with their present values, as scikit-learn does."""
        return {name: getattr(self, name) for name in self._parameter_names()}

    def set_params(self, **params: Any) -> Self:
        """Change constructor keywords of an unbound family in place and return the family."""
        for name, value in params.items():
            if name not in self._parameter_names():
                raise ValueError(f"Invalid parameter {name!r} for {self.name}; it has {self._parameter_names()}")
            setattr(self, name, value)
        return self

    def __sklearn_clone__(self):
        return copy.deepcopy(self)

    def __repr__(self):
        parts = []
        for name, value in self.get_params().items():
            if isinstance(value, np.ndarray) and value.ndim:
                text = np.array2string(value, precision=4, threshold=6, edgeitems=2).replace("\n", "")
            elif isinstance(value, (float, np.floating, np.ndarray)):
                text = f"{float(value):.6g}" if float(value) != round(float(value), 1) else repr(float(value))
            else:
                text = repr(value)
            parts.append(f"{name}={text}")
        return f"{type(self).__name__}({', '.join(parts)})"

    def __eq__(self, other):
        return type(self) is type(other) and not self.differences(other)

    __hash__ = None  # type: ignore[assignment]

    def differences(self, other: Family) -> list[str]:
        """Return the names of parameters and learned attributes that differ in another family.

        The other family must be of the same class.

        Examples
        --------
        >>> from expfam import Poisson
        >>> Poisson(shape=1.0, rate=1.0).differences(Poisson(shape=1.0, rate=2.0))
        ['rate']
        """
        mine, theirs = self.__dict__, other.__dict__
        names = sorted(set(mine) | set(theirs))
        return [k for k in names if not (k in mine and k in theirs and _same(mine[k], theirs[k]))]


def _same(a, b):
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(_same(x, y) for x, y in zip(a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_same(a[key], b[key]) for key in a)
    return np.array_equal(a, b) if isinstance(a, np.ndarray) or isinstance(b, np.ndarray) else a == b


_warned: set[str] = set()


def _warn_numeric(name):
    if name not in _warned:
        _warned.add(name)
        warn(
            f"{name} has no expected_natural(); its log_marginal is differentiated numerically, which is slow",
        )


def _block_clusters(S):
    """Return how many clusters have dense statistics at a time."""
    return max(1, _BLOCK_BYTES // max(1, 8 * S.shape[1]))


def bound_family(family: Any, X: Any, weight: npt.ArrayLike | None) -> Any:
    """Return a family bound to weighted rows.

    A family whose own `bind` takes no weights is bound to the rows of weight above 0.

    Parameters
    ----------
    family : Family
    X : array_like or sparse matrix, shape (N, V)
    weight : (N,) array_like of non-negative float, or None

    Examples
    --------
    >>> from expfam import DiagonalGaussian
    >>> from expfam.families.base import bound_family
    >>> bound_family(DiagonalGaussian(), [[0.0], [1.0], [50.0]], [1.0, 3.0, 0.0]).mean
    array([0.75])
    """
    if weight is None:
        return family.bind(X)
    if takes_weight(family.bind):
        return family.bind(X, weight=weight)
    return family.bind(counted_rows(family.bind, family.validate(X), weight)[0])
