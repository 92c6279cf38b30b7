"""What an exponential family is: two functions of its author, everything else derived from them.

A family is log p(x|theta) = <phi(x), theta> - g(theta) + log_base(x) with a conjugate prior on theta. All of it that
a collapsed model needs is the log evidence of a cluster, A(n, S) = log E_prior exp(<S, theta> - n g(theta)), a convex
function of the count n and the sum S of phi, with A(0, 0) = 0. Predictives are differences of A, posterior means its
gradient (Ahmed et al. 2012, eqs. 4-5). Everything is vectorised over K clusters; nothing here depends on a sampler.
"""

import copy
import inspect
import re
import warnings
from abc import ABC, abstractmethod
from functools import lru_cache
from typing import ClassVar

import numpy as np
from scipy import sparse

from expfam.errors import CapabilityError, DataError, ExpFamError
from expfam.families import support as _support
from expfam.families._checked import check_methods
from expfam.families.generic import GenericComponents
from expfam.families.slice_sampling import slice_sample
from expfam.families.support import dense_rows

_OPTIONAL = {  # ability: the method that opens it
    "variational": "expected_natural",
    "draw": "draw_natural",
    "map": "map_natural",
    "sample": "sample",
    "compiled": "components",
}
_BLOCK_BYTES = 1 << 25  # dense temporaries of derived functions stay near this


@lru_cache(maxsize=256)
def _keywords(constructor):
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)  # of a class without a constructor
    return tuple(p.name for p in inspect.signature(constructor).parameters.values() if p.kind not in variable)[1:]


class Family(ABC):
    """Likelihood with the hyper-parameters of its conjugate prior; a frozen value.

    An author writes `sufficient_statistics` and `log_marginal`; every other method is derived or opens further
    samplers when present. Constructors store their keyword arguments unchanged and do no work.

    Attributes
    ----------
    api_version : int
        Version of this protocol that the class was written for.
    name : str
        Entry-point name, lower snake case; made from the class name if not given.
    support : {"real", "counts", "categories", "binary", "nonnegative", "unit"}
        The values a datum may hold; chooses the checks of `validate` and the data of the conformance kit.
    bounds : (float, float)
        Least and largest value within the support, itself included: a class attribute, or a property where they depend
        on hyper-parameters. Without bounds those of the support count.
    accepts_sparse : bool
        Whether CSR data are read without making them dense.
    hyper : dict
        Hyper-parameters that may be learned, by name; the value is ``"positive"``.
    learned_by_default : tuple of str
        Those of them that estimators learn unless the user gave a value.
    n_features_in_, n_statistics_ : int
        Columns of the data and F, the width of phi; set by `bind`.

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
    hyper: ClassVar[dict] = {}
    learned_by_default: ClassVar[tuple] = ()

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        if "name" not in cls.__dict__:
            cls.name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", cls.__name__).lower()
        check_methods(cls, Family)

    # ---- what an author writes ------------------------------------------------------------------------------------

    @abstractmethod
    def sufficient_statistics(self, X):
        """Sufficient statistics phi of each row: (N, F) ndarray, or CSR for sparse X."""

    @abstractmethod
    def log_marginal(self, n, S):
        """Log evidence A(n, S) of each cluster, its parameter integrated out.

        Parameters
        ----------
        n : (K,) float64 ndarray
            Data per cluster; fractions allowed.
        S : (K, F) float64 ndarray
            Sum of phi per cluster.

        Returns
        -------
        (K,) float64 ndarray
            Nats, without log-base; 0.0 for an empty cluster.

        Notes
        -----
        h(m0 + n, m0 mu0 + S) - h(m0, m0 mu0); Ahmed et al. 2012, eqs. 4-5.
        """

    def log_base(self, X):
        """Log base measure of each row, nats: (N,) float64; zero unless the family overrides it."""
        return np.zeros(X.shape[0])

    def validate(self, X):
        """Data checked against `support` and `bounds`: a C-contiguous array or canonical CSR, the caller's if possible.

        Parameters
        ----------
        X : array_like or sparse matrix, shape (N, V)

        Returns
        -------
        (N, V) ndarray or CSR

        Raises
        ------
        DataError, SupportError
            Naming family, row, column and rule.
        """
        X = _support.as_matrix(
            X, family=self.name, accepts_sparse=self.accepts_sparse, n_features=getattr(self, "n_features_in_", None)
        )
        if self.support == "counts":
            _support.check_counts(X, family=self.name, allow_fractional=getattr(self, "allow_fractional", False))
        elif self.support == "binary":
            _support.check_counts(X, family=self.name)
            _support.check_interval(X, 0, 1, family=self.name)
        elif self.support == "nonnegative":
            _support.check_interval(X, 0, np.inf, family=self.name)
        elif self.support == "unit":
            norms = np.sqrt(np.einsum("ij,ij->i", X, X, dtype=np.float64))
            bad = np.flatnonzero(np.abs(norms - 1.0) > 1e-6)
            if bad.size:
                raise DataError(
                    f"{self.name} needs rows of unit length; row {bad[0]} has length {norms[bad[0]]:.8g}:"
                    " normalise the rows first"
                )
        if tuple(self.bounds) != Family.bounds:
            _support.check_interval(X, *self.bounds, family=self.name)
        return X

    def resolve(self, X):
        """Values that `bind` sets on the bound copy: hyper-parameters given as ``"auto"``, and learned attributes.

        Parameters
        ----------
        X : (N, V) ndarray or CSR, validated

        Returns
        -------
        dict
            Constructor keywords, and names that end in an underscore. Must not depend on the order of rows.
        """
        return {}

    def separable(self):
        """Pair (a, f) with A(n, S) = a(n, S.) + sum_w f(w, S_w) and f(w, 0) = 0, or None where A is not of that form.

        `a` takes (n, total) arrays of one shape; `f` takes (w, s), arrays of column numbers and values.
        """
        return None

    # ---- binding --------------------------------------------------------------------------------------------------

    @property
    def is_bound(self):
        """Whether hyper-parameters are resolved and the number of columns is known."""
        return "n_features_in_" in self.__dict__

    def bind(self, X):
        """Frozen copy with ``"auto"`` hyper-parameters resolved from data; a bound family only checks X.

        Parameters
        ----------
        X : array_like or sparse matrix, shape (N, V)

        Returns
        -------
        Family

        Raises
        ------
        DataError, SupportError
        """
        X = self.validate(X)
        if self.is_bound:
            return self
        bound = copy.copy(self)
        bound.__dict__["n_features_in_"] = int(X.shape[1])
        for name, value in self.resolve(X).items():
            bound.__dict__[name] = value
        bound.__dict__["n_statistics_"] = int(bound.sufficient_statistics(X[:1]).shape[1])
        return bound

    def require_bound(self):
        """Raise unless the family is bound."""
        if not self.is_bound:
            raise ExpFamError(f"{self!r} is not bound to data: call family.bind(X) first")

    def with_hyper(self, **values):
        """Copy with other hyper-parameters; of a bound family, a bound one.

        Examples
        --------
        >>> from expfam import Poisson
        >>> Poisson(shape=1.0, rate=1.0).with_hyper(rate=2.0)
        Poisson(shape=1.0, rate=2.0)
        """
        unknown = set(values) - set(self._parameter_names())
        if unknown:
            raise TypeError(f"{self.name} has no parameter {sorted(unknown)}; it has {self._parameter_names()}")
        other = copy.copy(self)
        for name, value in values.items():
            old = getattr(self, name)
            if self.is_bound and np.ndim(old) == 1 and np.ndim(value) == 0:
                value = np.full(len(old), value, dtype=np.float64)  # a bound family has one for each column
            other.__dict__[name] = value
        return other

    def with_factors(self, factors):
        """Copy that remembers by which factors its hyper-parameters differ from their values at binding."""
        other = copy.copy(self)
        other.__dict__["hyper_factors_"] = factors
        return other

    def __setattr__(self, name, value):
        if self.is_bound:
            raise AttributeError(f"a bound family is frozen; use with_hyper({name}=...) for a copy")
        super().__setattr__(name, value)

    # ---- derived: never overridden, except log_predictive and expected_natural for speed -----------------------------

    @property
    def capabilities(self):
        """Abilities found by presence: subset of {"collapsed", "variational", "draw", "map", "sample", "compiled"}."""
        present = {
            ability
            for ability, method in _OPTIONAL.items()
            if getattr(type(self), method, None) is not getattr(Family, method, None)
        }
        return frozenset(present | {"collapsed"})

    def require(self, ability, user):
        """Raise a CapabilityError naming `user`, the missing method and this family, unless it has `ability`."""
        if ability not in self.capabilities:
            raise CapabilityError(f"{user} needs {_OPTIONAL[ability]}(), which family {self.name!r} does not implement")

    def log_predictive(self, X, n, S):
        """Log probability of each row given each cluster's data, A(n + 1, S + phi) - A(n, S).

        Parameters
        ----------
        X : (N, V) data
        n : (K,) float64
        S : (K, F) float64 or CSR

        Returns
        -------
        (N, K) float64 ndarray, nats, without log-base
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

    def log_likelihood(self, phi, theta, g):
        """<phi(x), theta> - g of each row and cluster: (N, K), nats, without log-base; `phi` dense or CSR."""
        return phi @ np.asarray(theta).T - np.asarray(g)

    def expected_natural(self, n, S):
        """Posterior means (E theta, E g) of each cluster: the gradient (dA/dS, -dA/dn).

        Parameters
        ----------
        n : (K,) float64
        S : (K, F) float64

        Returns
        -------
        (K, F) and (K,) float64 ndarrays

        Notes
        -----
        This default differentiates `log_marginal` by central differences of fourth order, 4 F + 4 calls; it is a
        prototype's crutch: it warns once and refuses more than 64 columns.
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

    def kl(self, n1, S1, n2, S2):
        """KL divergence of posterior (n1, S1) from posterior (n2, S2), by cluster: (K,) nats."""
        theta, g = self.expected_natural(n1, S1)
        cross = np.einsum("kf,kf->k", dense_rows(S1) - dense_rows(S2), theta) - (n1 - n2) * g
        return cross - self.log_marginal(n1, S1) + self.log_marginal(n2, S2)

    def kl_to_prior(self, n, S):
        """KL divergence of posterior (n, S) from the prior, by cluster: (K,) nats."""
        return self.kl(n, S, np.zeros_like(n), np.zeros_like(S))

    def elbo_cluster(self, n, S, n_q, S_q):
        """Bound's term of each cluster with soft statistics (n, S) under the posterior of (n_q, S_q): (K,) nats.

        Equal to A(n, S) where the two coincide, and below it elsewhere.
        """
        theta, g = self.expected_natural(n_q, S_q)
        return np.einsum("kf,kf->k", S - S_q, theta) - (n - n_q) * g + self.log_marginal(n_q, S_q)

    def log_merged(self, n1, S1, n2, S2):
        """Log evidence gained by merging, A(n1 + n2, S1 + S2) - A(n1, S1) - A(n2, S2): (K,) nats."""
        return self.log_marginal(n1 + n2, S1 + S2) - self.log_marginal(n1, S1) - self.log_marginal(n2, S2)

    def posterior_predictive_sample(self, n, S, size, rng):
        """Data drawn from the predictive of one cluster: `size` rows, each with its own parameter.

        Parameters
        ----------
        n : float
        S : (F,) float64
        size : int
        rng : numpy.random.Generator

        Returns
        -------
        (size, V) ndarray
        """
        self.require("draw", "posterior_predictive_sample")
        self.require("sample", "posterior_predictive_sample")
        theta, _ = self.draw_natural(np.full(size, float(n)), np.tile(np.asarray(S, dtype=np.float64), (size, 1)), rng)
        return np.concatenate([self.sample(row[None], 1, rng) for row in theta])

    def total_log_marginal(self, n, S):
        """Sum of `log_marginal` over clusters, nats; `S` may be CSR, which is never made dense as a whole."""
        n = np.asarray(n, dtype=np.float64)
        parts = self.separable() if sparse.issparse(S) else None
        if parts is not None:
            a, f = parts
            total = np.asarray(S.sum(axis=1), dtype=np.float64).ravel()
            return float(a(n, total).sum() + f(S.indices, np.asarray(S.data, dtype=np.float64)).sum())
        return float(sum(part.sum() for part in self._log_marginal_parts(n, S)))

    def _log_marginal_parts(self, n, S):
        """`log_marginal` of some clusters after the others; only their rows of `S`, perhaps CSR, are made dense."""
        rows = max(1, _BLOCK_BYTES // max(1, 8 * S.shape[1]))
        return (self.log_marginal(n[k : k + rows], dense_rows(S[k : k + rows])) for k in range(0, len(n), rows))

    def log_marginal_of_rows(self, n, S):
        """`log_marginal` where `S` may be CSR, which is never made dense as a whole: (K,) nats."""
        return np.concatenate([np.zeros(0), *self._log_marginal_parts(np.asarray(n, dtype=np.float64), S)])

    # ---- learning hyper-parameters -----------------------------------------------------------------------------------

    def hyper_bounds(self, name):
        """Interval in which a learned hyper-parameter must stay, as factors of its value at binding."""
        return 1e-6, 1e6

    def update_hyper(self, n, S, rng, *, names=None):
        """Family with each declared hyper-parameter drawn by one slice-sampling update given the partition.

        Parameters
        ----------
        n : (K,) float64
        S : (K, F) float64 or CSR
        rng : numpy.random.Generator
        names : sequence of str, optional
            Update only these.

        Returns
        -------
        Family

        Notes
        -----
        The target is sum_k A_h(n_k, S_k) plus a log-normal prior on the factor by which the hyper-parameter differs
        from its value at binding (median 1, sd 3 in logs). A vector or matrix is scaled as a whole.
        Stepping out and shrinkage: Neal 2003, "Slice sampling".
        """
        self.require_bound()
        family = self
        factors = dict(getattr(self, "hyper_factors_", {}))
        for name in self.hyper if names is None else names:
            base = np.asarray(getattr(self, name)) / factors.get(name, 1.0)
            with np.errstate(divide="ignore"):  # a bound of 0 is minus infinity in logs
                low, high = np.log(self.hyper_bounds(name))

            def make(t, name=name, base=base, family=family, factors=factors):
                value = base * np.exp(t)
                other = family.with_hyper(**{name: float(value) if value.ndim == 0 else value})
                return other.with_factors({**factors, name: float(np.exp(t))})

            def target(t, make=make):
                return make(t).total_log_marginal(n, S) - 0.5 * (t / 3.0) ** 2

            t = slice_sample(target, float(np.log(factors.get(name, 1.0))), rng, low=low, high=high)
            family = make(t)
            factors = family.hyper_factors_
        return family

    # ---- compiled components -----------------------------------------------------------------------------------------

    def components(self, data, capacity, *, layout="features"):
        """Owner of the C struct with the statistics of `capacity` clusters; the generic one unless overridden."""
        return GenericComponents(self, data, capacity)

    # ---- values ---------------------------------------------------------------------------------------------------

    @classmethod
    def _parameter_names(cls):
        return list(_keywords(cls.__init__))

    def get_params(self, deep=True):
        """Constructor keywords with their present values, as in scikit-learn."""
        return {name: getattr(self, name) for name in self._parameter_names()}

    def set_params(self, **params):
        """Change constructor keywords of an unbound family in place; returns it."""
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

    def differences(self, other):
        """Names of parameters and learned attributes that differ from those of another family of the same class.

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
    return np.array_equal(a, b) if isinstance(a, np.ndarray) or isinstance(b, np.ndarray) else a == b


_warned: set[str] = set()


def _warn_numeric(name):
    if name not in _warned:
        _warned.add(name)
        warnings.warn(
            f"{name} has no expected_natural(); its log_marginal is differentiated numerically, which is slow",
            stacklevel=3,
        )
