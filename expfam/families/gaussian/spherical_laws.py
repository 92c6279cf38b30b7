"""Three laws of the variance of spherical Gaussian clusters.

It is known, shared by all clusters, or one for each cluster. Arguments are in centred coordinates; `SphericalGaussian`
describes them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy import sparse
from scipy.special import gammaln, psi

from expfam.families.gaussian._statistics import columns_and_length
from expfam.families.gaussian.columns import LOG_2PI, PRIOR_SHARE
from expfam.params import is_auto

if TYPE_CHECKING:
    import numpy.typing as npt

    from expfam.protocols import Floats


class KnownVariance:
    """Law of clusters with one known variance; phi = x."""

    hyper: ClassVar[tuple[str, ...]] = ("mean_variance",)
    from_data: ClassVar[tuple[str, ...]] = ("mean_variance",)
    scale: ClassVar[str] = "variance"

    def __init__(self, family: Any) -> None:
        self.family = family

    @property
    def variance(self) -> float:
        """Return the variance of each column within each cluster."""
        return getattr(self.family, self.scale)  # type: ignore[no-any-return]

    def resolve(self, d: int, typical: float) -> dict[str, float]:
        """Return the two variances, from the number of columns that vary and their mean variance."""
        auto = {self.scale: PRIOR_SHARE * typical, "mean_variance": typical}
        given = {name: getattr(self.family, name) for name in auto}
        return {name: float(auto[name] if is_auto(value) else value) for name, value in given.items()}

    def n_variances(self, n_clusters: int) -> int:
        """Return how many variances of some clusters are unknown."""
        return 0

    def statistics(self, X: Any) -> Floats:
        """Return phi of dense rows (N, V): the centred rows."""
        return np.subtract(X, self.family.center_, dtype=np.float64)

    def sparse_statistics(self, X: Any) -> Any:
        """Return phi of CSR rows (N, V), which have no center: the rows."""
        return X

    def log_base(self, X: Any) -> Floats:
        """Return the log base measure of each row: (N,) nats."""
        squares = _squares(self.family.sufficient_statistics(X))
        return -0.5 * squares / self.variance - 0.5 * self.family.n_varying * (LOG_2PI + np.log(self.variance))

    def _posterior(self, n, S):
        """Return posterior variance (K,) and location (K, d) of the mean."""
        family = self.family
        variance = 1.0 / (1.0 / family.mean_variance + n / self.variance)
        sums, m0 = S[:, : family.n_features_in_], family.mean - family.center_
        return variance, variance[:, None] * (m0 / family.mean_variance + sums / self.variance)

    def predictive(self, n: Floats, S: Floats) -> tuple[Floats, Floats, Floats]:
        """Return degrees of freedom, centred location and variance of a new row."""
        variance, mean = self._posterior(n, S)
        return np.full(len(variance), np.inf), mean, variance + self.variance

    def log_marginal(self, n: Floats, S: Floats) -> Floats:
        """Return the log evidence of each cluster: (K,) nats."""
        family = self.family
        variance, mean = self._posterior(n, S)
        m0 = family.mean - family.center_
        lengths = np.einsum("kd,kd->k", mean, mean) / variance - m0 @ m0 / family.mean_variance
        out = 0.5 * (family.n_varying * np.log(variance / family.mean_variance) + lengths)
        bad = np.flatnonzero(~np.isfinite(out))
        if bad.size:
            raise FloatingPointError(f"{family.name}: the evidence of cluster {bad[0]} is not finite")
        return out

    def expected_natural(self, n: Floats, S: Floats) -> tuple[Floats, Floats]:
        """Return the posterior means of theta and g."""
        variance, mean = self._posterior(n, S)
        return self.natural(mean, self.family.n_varying * variance)

    def draw_natural(self, n: Floats, S: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Draw theta and g from each posterior."""
        variance, mean = self._posterior(n, S)
        noise = self.family.varying * rng.standard_normal(mean.shape)
        return self.natural(mean + np.sqrt(variance)[:, None] * noise)

    def map_natural(self, n: Floats, S: Floats) -> tuple[Floats, Floats]:
        """Return the mode of each posterior."""
        return self.natural(self._posterior(n, S)[1])

    def natural(self, mean: Floats, spread: Floats | float = 0.0) -> tuple[Floats, Floats]:
        """Return the expected theta and g of centred means (K, d).

        The squared distance from them is `spread` (K,) on average.
        """
        return mean / self.variance, 0.5 * (_squares(mean) + spread) / self.variance

    def log_prior(self, theta: Floats) -> Floats:
        """Return the unnormalised log prior density: (K,)."""
        family = self.family
        off = self.variance * theta[:, : family.n_features_in_] - (family.mean - family.center_)
        return -0.5 * _squares(off) / family.mean_variance

    def log_partition(self, theta: Floats) -> Floats:
        """Return the log partition function g of each theta."""
        return 0.5 * self.variance * _squares(theta)

    def usual(self, theta: Floats) -> tuple[Floats, Floats]:
        """Return centred means (K, d) and variances (K,)."""
        mean = self.variance * theta[:, : self.family.n_features_in_]
        return mean, np.full(theta.shape[0], self.variance)

    def from_params(self, mean: Floats, variance: npt.ArrayLike | None) -> tuple[Floats, Floats]:
        """Return theta and g of centred means; a given variance must be the family's."""
        if variance is not None and not np.allclose(variance, self.variance):
            raise ValueError(f"{self.family.name}: variance must be {self.variance}, the family's; got {variance!r}")
        return self.natural(mean)


class SharedVariance(KnownVariance):
    """Law of clusters with one variance that can be learned; phi = (x, |x|^2)."""

    hyper: ClassVar[tuple[str, ...]] = ("mean_variance", "shared_variance")
    from_data: ClassVar[tuple[str, ...]] = hyper
    scale: ClassVar[str] = "shared_variance"

    def n_variances(self, n_clusters: int) -> int:
        """Return how many variances of some clusters are unknown."""
        return 1

    def statistics(self, X: Any) -> Floats:
        """Return phi of dense rows (N, V): the centred rows and their squared lengths."""
        return columns_and_length(X, self.family.center_)

    def sparse_statistics(self, X: Any) -> Any:
        """Return phi of CSR rows (N, V), which have no center: the rows and their squared lengths."""
        return _with_squares(X)

    def log_base(self, X: Any) -> Floats:
        """Return the log base measure of each row: (N,) nats."""
        return np.full(X.shape[0], -0.5 * self.family.n_varying * LOG_2PI)

    def _normaliser(self):
        return 0.5 * self.family.n_varying * np.log(self.variance)

    def log_marginal(self, n: Floats, S: Floats) -> Floats:
        """Return the log evidence of each cluster: (K,) nats."""
        return super().log_marginal(n, S) - 0.5 * S[:, -1] / self.variance - n * self._normaliser()

    def natural(self, mean: Floats, spread: Floats | float = 0.0) -> tuple[Floats, Floats]:
        """Return the expected theta and g of centred means (K, d).

        The squared distance from them is `spread` (K,) on average.
        """
        first, g = super().natural(mean, spread)
        return np.concatenate([first, np.full((len(g), 1), -0.5 / self.variance)], axis=1), g + self._normaliser()

    def log_prior(self, theta: Floats) -> Floats:
        """Return the unnormalised log prior density: (K,).

        It is -inf for other precisions than the shared one.
        """
        is_shared = np.isclose(-2.0 * theta[:, -1] * self.variance, 1.0, rtol=1e-9, atol=0.0)
        return np.where(is_shared, super().log_prior(theta), -np.inf)

    def log_partition(self, theta: Floats) -> Floats:
        """Return the log partition function g of each theta; +inf outside the domain."""
        return _log_partition(theta, self.family.n_varying)


class OwnVariance:
    """Law of clusters with an unknown variance each; phi = (x, |x|^2).

    Mean and precision have a normal-gamma prior.
    """

    hyper: ClassVar[tuple[str, ...]] = ("mean_strength", "rate")
    from_data: ClassVar[tuple[str, ...]] = ("rate",)

    def __init__(self, family: Any) -> None:
        self.family = family

    def resolve(self, d: int, typical: float) -> dict[str, float]:
        """Return strength, shape and rate, from the columns that vary and their mean variance."""
        family = self.family
        # two rows' worth: for one column the shape is 2, and natural coordinates have a mode in any number of columns
        shape = d + 1.0 if is_auto(family.shape) else float(family.shape)
        rate = max(shape - 1.0, 0.5) * PRIOR_SHARE * typical
        strength = PRIOR_SHARE if is_auto(family.mean_strength) else family.mean_strength
        return {
            "mean_strength": float(strength),
            "shape": shape,
            "rate": rate if is_auto(family.rate) else float(family.rate),
        }

    def n_variances(self, n_clusters: int) -> int:
        """Return how many variances of some clusters are unknown."""
        return n_clusters

    def statistics(self, X: Any) -> Floats:
        """Return phi of dense rows (N, V): the centred rows and their squared lengths."""
        return columns_and_length(X, self.family.center_)

    def sparse_statistics(self, X: Any) -> Any:
        """Return phi of CSR rows (N, V), which have no center: the rows and their squared lengths."""
        return _with_squares(X)

    def log_base(self, X: Any) -> Floats:
        """Return the log base measure of each row: (N,) nats."""
        return np.full(X.shape[0], -0.5 * self.family.n_varying * LOG_2PI)

    def _posterior(self, n, S):
        """Return posterior strength (K,), location (K, d), shape (K,) and rate (K,)."""
        strength, about, shape, rate = self._posterior_sums(n, S)
        return strength, self.family.mean - self.family.center_ + about / strength[:, None], shape, rate

    def _posterior_sums(self, n, S):
        """Return what `_posterior` does, with sums about the prior location for the location."""
        family = self.family
        m0 = family.mean - family.center_
        strength = family.mean_strength + n
        about, second = S[:, :-1], S[:, -1]
        if m0.any():  # sums about the prior location do not cancel the digits of a prior rate that lies far away
            about = S[:, :-1] - n[:, None] * m0
            second = S[:, -1] - (S[:, :-1] + about) @ m0
        rate = family.rate + 0.5 * (second - _squares(about) / strength)
        bad = np.flatnonzero(~(np.isfinite(rate) & (rate > 0)))
        if bad.size:
            raise FloatingPointError(
                f"{family.name}: the posterior rate of cluster {bad[0]} is not finite and positive"
            )
        return strength, about, family.shape + 0.5 * n * family.n_varying, rate

    def predictive(self, n: Floats, S: Floats) -> tuple[Floats, Floats, Floats]:
        """Return degrees of freedom, centred location and squared scale of a new row."""
        strength, mean, shape, rate = self._posterior(n, S)
        return 2.0 * shape, mean, rate * (strength + 1.0) / (shape * strength)

    def log_marginal(self, n: Floats, S: Floats) -> Floats:
        """Return the log evidence of each cluster: (K,) nats."""
        family = self.family
        strength, _, shape, rate = self._posterior_sums(n, S)
        gammas = gammaln(shape) - gammaln(family.shape)
        rates = family.shape * np.log(family.rate) - shape * np.log(rate)
        return gammas + rates + 0.5 * family.n_varying * np.log(family.mean_strength / strength)

    def expected_natural(self, n: Floats, S: Floats) -> tuple[Floats, Floats]:
        """Return the posterior means of theta and g."""
        d = self.family.n_varying
        strength, mean, shape, rate = self._posterior(n, S)
        precision = shape / rate
        g = 0.5 * (d / strength + _squares(mean) * precision - d * (psi(shape) - np.log(rate)))
        return self._theta(mean, precision), g

    def draw_natural(self, n: Floats, S: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Draw theta and g from each posterior."""
        strength, mean, shape, rate = self._posterior(n, S)
        precision = rng.standard_gamma(shape) / rate
        noise = self.family.varying * rng.standard_normal(mean.shape)
        return self.natural(mean + noise / np.sqrt(strength * precision)[:, None], precision)

    def map_natural(self, n: Floats, S: Floats) -> tuple[Floats, Floats]:
        """Return the mode theta of each posterior in natural coordinates, and its g."""
        _, mean, shape, rate = self._posterior(n, S)
        return self.natural(mean, np.maximum(shape - 1.0 - 0.5 * self.family.n_varying, 0.5) / rate)

    @staticmethod
    def _theta(mean, precision):
        return np.concatenate([mean * precision[:, None], -0.5 * precision[:, None]], axis=1)

    def natural(self, mean: Floats, precision: Floats) -> tuple[Floats, Floats]:
        """Return theta and g of centred means (K, d) and precisions (K,)."""
        g = 0.5 * (_squares(mean) * precision - self.family.n_varying * np.log(precision))
        return self._theta(mean, precision), g

    def log_prior(self, theta: Floats) -> Floats:
        """Return the unnormalised log prior density in natural coordinates: (K,).

        It is -inf outside the domain.
        """
        family = self.family
        precision = _precision(theta)
        off = theta[:, :-1] / precision[:, None] - (family.mean - family.center_)
        quadratic = (family.rate + 0.5 * family.mean_strength * _squares(off)) * precision
        logs = (family.shape - 1.0 - 0.5 * family.n_varying) * np.log(precision)
        return np.where(theta[:, -1] < 0, logs - quadratic, -np.inf)

    def log_partition(self, theta: Floats) -> Floats:
        """Return the log partition function g of each theta; +inf outside the domain."""
        return _log_partition(theta, self.family.n_varying)

    def usual(self, theta: Floats) -> tuple[Floats, Floats]:
        """Return centred means (K, d) and variances (K,), NaN outside the domain."""
        precision = _precision(theta)
        return theta[:, :-1] / precision[:, None], 1.0 / precision

    def from_params(self, mean: Floats, variance: npt.ArrayLike | None) -> tuple[Floats, Floats]:
        """Return theta and g of centred means (K, d) and variances (K,)."""
        if variance is None:
            raise ValueError(f"{self.family.name}: each cluster has its own variance; give variance (K,)")
        return self.natural(mean, np.broadcast_to(1.0 / np.asarray(variance, dtype=np.float64), mean.shape[:1]))


def _with_squares(X):
    """Return CSR rows (N, V) with their squared lengths as a further column."""
    return sparse.csr_array(sparse.hstack([X, sparse.csr_array(_squares(X)[:, None])], format="csr"))


def _squares(X):
    if sparse.issparse(X):
        return np.asarray(X.multiply(X).sum(axis=1), dtype=np.float64).ravel()
    return np.einsum("ij,ij->i", X, X)


def _precision(theta):
    return np.where(theta[:, -1] < 0, -2.0 * theta[:, -1], np.nan)


def _log_partition(theta, d):
    precision = _precision(theta)
    g = 0.5 * (_squares(theta[:, :-1]) / precision - d * np.log(precision))
    return np.where(theta[:, -1] < 0, g, np.inf)
