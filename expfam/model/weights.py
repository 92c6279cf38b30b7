"""Priors on the weights: symmetric Dirichlet, Dirichlet process, Pitman-Yor process.

All of them are of Gibbs type. Given a partition of n_total data into B clusters, the next datum joins a cluster of n
data with mass n + offset, and opens a new cluster with mass mass[B]. The normaliser depends on n_total alone. So a loop
over data reads one number and one short array, for every prior. The symmetric Dirichlet with K components is a
Pitman-Yor process with a negative discount. Algorithms that store weights (variational, uncollapsed) use the K weights
of the Dirichlet, or the first K sticks of a process, in the given order. Every method costs O(K). Logs are natural.
"""

from __future__ import annotations

import dataclasses
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from scipy.special import betaln, expit, gammaln, psi

from expfam.families.slice_sampling import slice_sample
from expfam.params import POSITIVE, Integer, Real, check_settings, check_value

_KEPT_MASSES = 1024  # clusters up to which log masses of new ones are kept
_LOG_BOUND = 16.0  # learned concentrations stay within exp(+-16), because the target can be flat in its tails


class _Weights:
    """Base of all priors on weights; uses `offset`, `strength` and the two log methods."""

    hyper: ClassVar[dict] = {"alpha": "positive"}
    _constraints: ClassVar[dict[str, Any]] = {"alpha": POSITIVE}

    def __post_init__(self):
        check_settings(self)

    if TYPE_CHECKING:  # the subclasses define these
        __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]]

        @property
        def max_components(self) -> int | None: ...
        @property
        def offset(self) -> float: ...
        @property
        def strength(self) -> float: ...
        def log_new_mass(self, n_total: float, n_clusters: int) -> npt.NDArray[np.float64]: ...
        def log_prior(self, counts: npt.ArrayLike) -> float: ...
    else:
        max_components = None

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the constructor keywords with their values, as in scikit-learn."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    def with_hyper(self, **values: Any) -> Any:
        """Return a copy with other parameters.

        Examples
        --------
        >>> from expfam import PitmanYor
        >>> PitmanYor(alpha=1.0, discount=0.25).with_hyper(alpha=2.0)
        PitmanYor(alpha=2.0, discount=0.25)
        """
        unknown = set(values) - {field.name for field in dataclasses.fields(self)}
        if unknown:
            raise TypeError(
                f"{type(self).__name__} has no parameter {sorted(unknown)}; it has {list(self.get_params())}"
            )
        return dataclasses.replace(self, **values)

    def log_prior_by_number(self, n_total: float, n_clusters: int) -> npt.NDArray[np.float64]:
        """Return the part of `log_prior` that depends on the number of clusters alone.

        Parameters
        ----------
        n_total : float
            Number of data.
        n_clusters : int

        Returns
        -------
        (n_clusters + 1,) float64 ndarray
            For B = 0..n_clusters clusters, nats; -inf for more clusters than the prior allows. `log_prior` of the sizes
            n_k is the number for B plus the sum of log Gamma(n_k + offset). That for B = 0 has no meaning.

        Examples
        --------
        >>> import numpy as np
        >>> from scipy.special import gammaln
        >>> from expfam import DirichletProcess
        >>> n, weights = np.array([3.0, 1.0]), DirichletProcess(alpha=2.0)
        >>> bool(np.isclose(weights.log_prior(n), weights.log_prior_by_number(4, 2)[2] + gammaln(n).sum()))
        True
        """
        opened = np.append(0.0, np.cumsum(self.log_new_mass(n_total, n_clusters)[:n_clusters]))
        constant = gammaln(self.strength) - gammaln(self.strength + n_total)
        return opened - gammaln(1.0 + self.offset) * np.arange(n_clusters + 1.0) + constant

    def posterior_mean(self, n: npt.ArrayLike) -> tuple[npt.NDArray[np.float64], float]:
        """Return the predictive probabilities of the cluster of the next datum.

        Parameters
        ----------
        n : (K,) array_like
            Number of data in each cluster. A slot without data is not counted as a cluster.

        Returns
        -------
        weights : (K,) float64 ndarray
            Probability of each cluster; 0 for empty slots.
        new_weight : float
            Probability of a new cluster. All probabilities sum to 1.
        """
        n = _as_counts(n)
        total, B = n.sum(), int(np.count_nonzero(n))
        if total == 0:
            return np.zeros_like(n), 1.0
        weights = np.where(n > 0, n + self.offset, 0.0) / (total + self.strength)
        return weights, float(np.exp(self.log_new_mass(total, B)[B]) / (total + self.strength))

    def update_hyper(
        self,
        counts: npt.ArrayLike,
        rng: np.random.Generator,
        *,
        shape: float = 1.0,
        rate: float = 1.0,
        order: Literal["sequential", "backward"] = "sequential",
    ) -> Any:
        """Return a copy with a new alpha from one slice-sampling update given a partition.

        Parameters
        ----------
        counts : (K,) array_like
            Number of data in each cluster; zeros are left out.
        rng : numpy.random.Generator
        shape, rate : float
            Gamma prior on the strength: alpha of a process, K alpha of the symmetric Dirichlet.
        order : {"sequential", "backward"}
            Order of the updates where there are several.

        Returns
        -------
        Weights
            An object of the same class; all other parameters are unchanged.

        Notes
        -----
        The target is p(partition | alpha) Gamma(strength; shape, rate) as a density of log alpha, so its exponent is
        `shape` and not `shape - 1`. The strength is restricted to the range from exp(-16) to exp(16). Slice sampling:
        Neal 2003.
        """
        for name, value in (("shape", shape), ("rate", rate)):
            check_value(f"{type(self).__name__}: {name}", value, POSITIVE)
        counts = _as_counts(counts)
        scale = self.strength / self.offset if self.max_components else 1.0

        def target(t):
            return self.with_hyper(alpha=float(np.exp(t) / scale)).log_prior(counts) + shape * t - rate * np.exp(t)

        start = float(np.clip(np.log(self.strength), -_LOG_BOUND, _LOG_BOUND))
        t = slice_sample(target, start, rng, low=-_LOG_BOUND, high=_LOG_BOUND)
        return self.with_hyper(alpha=float(np.exp(t) / scale))


@dataclasses.dataclass(frozen=True)
class SymmetricDirichlet(_Weights):
    """Symmetric Dirichlet prior on the weights of a fixed number of components.

    Parameters
    ----------
    n_components : int
        K, the number of components, at least 1.
    alpha : float, optional
        Concentration **per component**; 1/K if not given, so that the strength K alpha is 1.

    Attributes
    ----------
    offset : float
        alpha: a cluster of n data has mass n + alpha.
    strength : float
        K alpha.
    max_components : int
        K.

    Examples
    --------
    >>> from expfam import SymmetricDirichlet
    >>> SymmetricDirichlet(4, alpha=0.5).posterior_mean([3, 1, 0, 0])
    (array([0.58333333, 0.25      , 0.        , 0.        ]), 0.16666666666666666)
    """

    n_components: int
    alpha: float | None = None

    _constraints: ClassVar = {"n_components": Integer(1), "alpha": (POSITIVE, None)}

    @cached_property
    def max_components(self) -> int:
        """Return K, the largest possible number of clusters."""
        return int(self.n_components)

    @cached_property
    def offset(self) -> float:
        """Return alpha per component; 1/K if it was not given."""
        return 1.0 / self.n_components if self.alpha is None else float(self.alpha)

    @cached_property
    def strength(self) -> float:
        """Return the sum of the concentrations, K alpha."""
        return self.n_components * self.offset

    def log_new_mass(self, n_total: float, n_clusters: int) -> npt.NDArray[np.float64]:
        """Return the log mass of a new cluster for B = 0..n_clusters old clusters.

        The log mass is log(alpha (K - B)).

        Parameters
        ----------
        n_total : float
            Not used by this prior.
        n_clusters : int

        Returns
        -------
        (n_clusters + 1,) float64 ndarray
            Nats, on the scale where an old cluster has mass n + offset; -inf from B = K on.
        """
        if n_clusters <= _KEPT_MASSES:  # a sweep over few rows takes as long
            return _log_new_masses(self.n_components, self.offset, n_clusters).copy()
        return _log_new_masses.__wrapped__(self.n_components, self.offset, n_clusters)

    def log_prior(self, counts: npt.ArrayLike) -> float:
        """Return the log probability of the set partition with these block sizes, nats.

        The probabilities of all partitions of the same data sum to 1.

        Parameters
        ----------
        counts : (B,) array_like
            Sizes; zeros are left out.

        Returns
        -------
        float
            Nats; -inf for more than K blocks.

        Notes
        -----
        The result is the Dirichlet-multinomial probability of the labels times K!/(K - B)!, the number of ways to label
        the blocks.
        """
        n = _occupied(counts)
        K, a = self.n_components, self.offset
        if n.size > K:
            return -np.inf
        all_, one = self._log_gammas
        of_all = _log_gamma(float(K * a + np.add.reduce(n)))
        return float(_log_ways(K, n.size) + all_ - of_all + np.add.reduce(gammaln(n + a) - one))

    @cached_property
    def _log_gammas(self):
        """Return log Gamma(K alpha) and log Gamma(alpha)."""
        return gammaln(self.n_components * self.offset), gammaln(self.offset)

    def expected_log(self, n: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Return the posterior mean of log pi: (K,) float64, nats.

        `n` (K,) is the number of data in each component; fractions are allowed.

        Notes
        -----
        The result is psi(alpha + n_k) - psi(K alpha + sum n).
        """
        n = self._components(n)
        return psi(self.offset + n) - psi(self.strength + n.sum())

    def log_evidence(self, n: npt.ArrayLike) -> float:
        """Return log p(z) of labels with (K,) counts `n`, weights integrated out, nats.

        Fractions are allowed.

        Notes
        -----
        The result is log B(alpha + n) - log B(alpha), where B is the multivariate beta function. This is the
        probability of the labels, not of the partition.
        """
        n, a = self._components(n), self.offset
        return float((gammaln(a + n) - gammaln(a)).sum() + gammaln(self.strength) - gammaln(self.strength + n.sum()))

    def draw_log(self, n: npt.ArrayLike, rng: np.random.Generator) -> npt.NDArray[np.float64]:
        """Draw log pi from its posterior given counts.

        The exponentials sum to 1. The draw is made in logs, so that a component with a small alpha gets a tiny weight
        and not zero.

        Parameters
        ----------
        n : (K,) array_like of float
            Number of data of each component; fractions are allowed.
        rng : numpy Generator

        Returns
        -------
        (K,) float64 ndarray
            Nats.
        """
        return _normalised(_log_gamma_draw(self.offset + self._components(n), rng))

    def map_log(self, n: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Return log pi at its posterior mode given (K,) counts `n`: (K,) float64, nats.

        The mode is that of the density in log-ratio coordinates.

        Notes
        -----
        In these coordinates the mode is the posterior mean (alpha + n_k) / (K alpha + sum n), which exists for every
        alpha. The density in pi has no mode if alpha + n_k < 1.
        """
        return np.log(self.offset + self._components(n)) - np.log(self.strength + np.sum(n))

    def log_density(self, log_pi: npt.ArrayLike) -> float:
        """Return the log prior density of (K,) `log_pi` in log-ratio coordinates, nats.

        `map_log` maximises this density times the likelihood of the counts.
        """
        log_pi = self._components(log_pi, signed=True)
        return float(self.offset * log_pi.sum() + gammaln(self.strength) - self.n_components * gammaln(self.offset))

    def _components(self, n: npt.ArrayLike, signed: bool = False) -> npt.NDArray[np.float64]:
        n = np.asarray(n, dtype=np.float64) if signed else _as_counts(n)
        if n.shape != (self.n_components,):
            raise ValueError(f"{self!r} needs one value per component, shape ({self.n_components},); got {n.shape}")
        return n


class _StickBreaking(_Weights):
    """Process with strength alpha and discount d: pi_k = v_k prod_{j<k} (1 - v_j).

    The sticks have the prior v_k ~ Beta(1 - d, alpha + k d), k = 1, 2, ... Given counts n_k in stick order, they have
    the law Beta(1 - d + n_k, alpha + k d + sum_{j>k} n_j). The order of the sticks matters to the methods that use
    sticks. For the Dirichlet process, put the largest cluster first.
    """

    if TYPE_CHECKING:  # the subclasses define these

        @property
        def alpha(self) -> float: ...
        @property
        def _discount(self) -> float: ...

    @property
    def offset(self) -> float:
        """Return minus the discount: an old cluster of n data has mass n - discount."""
        return -self._discount

    @property
    def strength(self) -> float:
        """Return alpha."""
        return float(self.alpha)

    def log_new_mass(self, n_total: float, n_clusters: int) -> npt.NDArray[np.float64]:
        """Return the log mass of a new cluster for B = 0..n_clusters old clusters.

        The log mass is log(alpha + discount B).

        Parameters
        ----------
        n_total : float
            Not used by this prior.
        n_clusters : int

        Returns
        -------
        (n_clusters + 1,) float64 ndarray
            Nats, on the scale where an old cluster has mass n + offset.
        """
        return np.log(self.alpha + self._discount * np.arange(n_clusters + 1.0))

    def log_prior(self, counts: npt.ArrayLike) -> float:
        """Return the log probability of the set partition with these block sizes, nats.

        The probabilities of all partitions of the same data sum to 1.

        Parameters
        ----------
        counts : (B,) array_like
            Sizes; zeros are left out.

        Returns
        -------
        float
            Nats.

        Notes
        -----
        Pitman 1995, "Exchangeable and partially exchangeable random partitions", proposition 9:
        prod_{b=1}^{B-1} (alpha + b d) prod_k (1 - d)_{n_k - 1} / (alpha + 1)_{N - 1}, where (x)_m is a rising
        factorial.
        """
        n, d = _occupied(counts), self._discount
        if n.size == 0:
            return 0.0
        opened = np.log(self.alpha + d * np.arange(1.0, n.size)).sum()
        blocks = (gammaln(n - d) - gammaln(1.0 - d)).sum()
        return float(opened + blocks - gammaln(self.alpha + n.sum()) + gammaln(self.alpha + 1.0))

    def expected_log(self, n: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Return the posterior mean of log pi of the first K sticks: (K,) float64, nats.

        All K sticks are open: the last one does not have the whole remainder.

        Parameters
        ----------
        n : (K,) array_like
            Number of data of each stick, in stick order; fractions are allowed. No datum belongs to a later stick.

        Notes
        -----
        The result is psi(a_k) - psi(a_k + b_k) + sum_{j<k} [psi(b_j) - psi(a_j + b_j)]; Blei & Jordan 2006. The
        remainder prod (1 - v_k) belongs to the sticks after K, so the exponentials sum to less than 1. An empty last
        stick does not change the values of the others, so bounds (ELBO) with different K can be compared.
        """
        a, b = self._posterior(n)
        total = psi(a + b)
        rest = np.cumsum(psi(b) - total)
        return psi(a) - total + np.concatenate([[0.0], rest[:-1]])[: a.size]

    def log_evidence(self, n: npt.ArrayLike) -> float:
        """Return log p(z) of labels on K open sticks with (K,) counts `n`, nats.

        The sticks are integrated out. Fractions are allowed.

        Notes
        -----
        The result is sum_k log B(a_k, b_k) - log B(1 - d, alpha + k d). Empty last sticks contribute 0. Labels are
        numbers of sticks, and sticks are ordered. `log_prior` is the probability of the partition: it sums over all
        assignments of clusters to sticks.
        """
        a, b = self._posterior(n)
        return float((betaln(a, b) - betaln(*self._prior(a.size))).sum())

    def draw_log(self, n: npt.ArrayLike, rng: np.random.Generator) -> npt.NDArray[np.float64]:
        """Draw log pi from its posterior given counts.

        The K sticks are closed: v_K = 1, so stick K has the whole remainder and the exponentials sum to 1. This is the
        truncated process of Ishwaran & James 2001, which is a different prior from the process itself.

        Parameters
        ----------
        n : (K,) array_like of float
            Number of data of each component, in the order of the sticks; fractions are allowed.
        rng : numpy Generator

        Returns
        -------
        (K,) float64 ndarray
            Nats.
        """
        a, b = self._posterior(n)
        first, rest = _log_gamma_draw(a, rng), _log_gamma_draw(b, rng)
        both = np.logaddexp(first, rest)
        return _closed_sticks(first - both, rest - both)

    def map_log(self, n: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Return log pi at its posterior mode given (K,) counts `n`: (K,) float64, nats.

        The K sticks are closed, and the mode is that of the density of the logits of the sticks.

        Notes
        -----
        The mode is v_k = a_k / (a_k + b_k) and v_K = 1. In these coordinates it is the posterior mean of the sticks and
        always exists.
        """
        a, b = self._posterior(n)
        return _closed_sticks(np.log(a / (a + b)), np.log(b / (a + b)))

    def log_density(self, log_pi: npt.ArrayLike) -> float:
        """Return the log prior density of (K,) `log_pi` on closed sticks, nats.

        It is the density of the logits of the sticks. `map_log` maximises this density times the likelihood of the
        counts.
        """
        log_pi = np.asarray(log_pi, dtype=np.float64)
        left = np.logaddexp.accumulate(log_pi[::-1])[::-1]  # log of the total weight of stick k and all later ones
        a, b = self._prior(log_pi.size)
        log_v, log_rest = log_pi[:-1] - left[:-1], left[1:] - left[:-1]
        return float((a[:-1] * log_v + b[:-1] * log_rest - betaln(a, b)[:-1]).sum())

    def _prior(self, K):
        k = np.arange(1.0, K + 1.0)
        return np.full(K, 1.0 - self._discount), self.alpha + self._discount * k

    def _posterior(self, n):
        n = _as_counts(n)
        a, b = self._prior(n.size)
        later = np.append(np.cumsum(n[::-1])[::-1], 0.0)[1:]
        return a + n, b + later[: n.size]


@dataclasses.dataclass(frozen=True)
class DirichletProcess(_StickBreaking):
    """Dirichlet process prior: about alpha log(N) clusters for N data.

    Parameters
    ----------
    alpha : float
        Concentration, the mass of a new cluster.

    Attributes
    ----------
    offset : float
        0: a cluster of n data has mass n.
    strength : float
        alpha.
    max_components : None

    Examples
    --------
    >>> from expfam import DirichletProcess
    >>> DirichletProcess(alpha=1.0).posterior_mean([3, 1])
    (array([0.6, 0.2]), 0.2)
    """

    alpha: float = 1.0

    _discount: ClassVar[float] = 0.0

    @property
    def offset(self) -> float:
        """Return 0: an old cluster of n data has mass n."""
        return 0.0


@dataclasses.dataclass(frozen=True)
class PitmanYor(_StickBreaking):
    """Pitman-Yor process prior: the number of clusters grows as N ** discount.

    Many of the clusters are small.

    Parameters
    ----------
    alpha : float
        Strength, positive. If there are B clusters, a new one has mass alpha + discount B.
    discount : float in [0, 1)
        A discount of 0 gives the Dirichlet process.

    Attributes
    ----------
    offset : float
        -discount: a cluster of n data has mass n - discount.
    strength : float
        alpha.
    max_components : None

    Examples
    --------
    >>> from expfam import PitmanYor
    >>> PitmanYor(alpha=1.0, discount=0.5).posterior_mean([3, 1])
    (array([0.5, 0.1]), 0.4)
    """

    alpha: float = 1.0
    discount: float = 0.25

    _constraints: ClassVar = {"discount": Real(0, 1, "[)")}

    @property
    def _discount(self):
        return float(self.discount)

    def update_hyper(
        self,
        counts: npt.ArrayLike,
        rng: np.random.Generator,
        *,
        shape: float = 1.0,
        rate: float = 1.0,
        order: Literal["sequential", "backward"] = "sequential",
        learn_discount: bool = True,
    ) -> PitmanYor:
        """Return a copy with a new alpha and a new discount given a partition.

        Each of the two is drawn by one slice-sampling update.

        Parameters
        ----------
        counts : (K,) array_like
            Number of data in each cluster; zeros are left out.
        rng : numpy.random.Generator
        shape, rate : float
            Gamma prior on alpha.
        order : {"sequential", "backward"}
            Whether alpha or the discount is drawn first.
        learn_discount : bool
            Whether to update the discount. A discount of exactly 0 is never updated: it is the Dirichlet process.

        Notes
        -----
        The discount has a uniform prior on (0, 1). It is updated as a logit, which adds the term log d (1 - d).
        """
        counts, new = _as_counts(counts), self
        if order == "backward" and learn_discount:
            new = new._with_discount_drawn(counts, rng)
        new = super(PitmanYor, new).update_hyper(counts, rng, shape=shape, rate=rate)
        if order == "sequential" and learn_discount:
            new = new._with_discount_drawn(counts, rng)
        return new

    def _with_discount_drawn(self, counts, rng):
        if self.discount == 0:
            return self

        def target(t):
            d = float(expit(t))
            return self.with_hyper(discount=d).log_prior(counts) + np.log(d) + np.log1p(-d)

        start = float(np.clip(np.log(self.discount) - np.log1p(-self.discount), -_LOG_BOUND, _LOG_BOUND))
        drawn = slice_sample(target, start, rng, low=-_LOG_BOUND, high=_LOG_BOUND)
        return self.with_hyper(discount=float(expit(drawn)))


def _closed_sticks(log_v, log_rest):
    log_v, log_rest = log_v.copy(), log_rest.copy()
    log_v[-1:] = 0.0
    left = np.concatenate([[0.0], np.cumsum(log_rest[:-1])])[: log_v.size]
    log_pi = log_v + left
    return _normalised(log_pi) if log_pi.size else log_pi  # removes rounding: the weights already sum to 1


def _normalised(log_weights):
    """Return log weights less the log of the sum of the weights."""
    top = log_weights.max()  # `logsumexp` of SciPy takes longer than the rest of a draw
    return log_weights - (top + np.log(np.exp(log_weights - top).sum()))


@lru_cache(maxsize=64)
def _log_new_masses(n_components, offset, n_clusters):
    """Return what `SymmetricDirichlet.log_new_mass` does."""
    free = np.maximum(n_components - np.arange(n_clusters + 1.0), 0.0)
    with np.errstate(divide="ignore"):
        return np.log(offset * free)


@lru_cache(maxsize=64)
def _log_gamma(x):
    """Return log Gamma of a number: of the same rows it is that of one number."""
    return gammaln(x)


@lru_cache(maxsize=256)
def _log_ways(n_components, n_blocks):
    """Return the log of the number of ways to label some blocks."""
    return np.log(n_components - np.arange(n_blocks, dtype=np.float64)).sum()


def _log_gamma_draw(shape, rng):
    # log G(a) = log G(a + 1) + log(U) / a in law (Stuart 1962): no underflow however small a is
    return np.log(rng.standard_gamma(shape + 1.0)) + np.log1p(-rng.random(shape.shape)) / shape


def _as_counts(n: npt.ArrayLike) -> npt.NDArray[np.float64]:
    n = np.asarray(n, dtype=np.float64)
    if n.ndim != 1:
        raise ValueError(f"counts must be one-dimensional; got shape {n.shape}")
    if n.size and not (np.minimum.reduce(n) >= 0.0 and np.maximum.reduce(n) < np.inf):  # NaN is neither
        bad = int(np.argmin(np.isfinite(n) & (n >= 0.0)))
        raise ValueError(f"counts must be finite and non-negative; cluster {bad} holds {n[bad]}")
    return n


def _occupied(counts: npt.ArrayLike) -> npt.NDArray[np.float64]:
    n = _as_counts(counts)
    return n[n > 0]
