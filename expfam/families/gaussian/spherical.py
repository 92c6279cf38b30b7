"""Gaussian clusters with one variance for all columns; scoring a datum costs O(K d)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy import sparse

from expfam.errors import DataTypeError
from expfam.families.gaussian._diagonal import SphericalComponents
from expfam.families.gaussian.columns import (
    LOG_2PI,
    PRIOR_SHARE,
    RealFamily,
    per_column,
    require_dense,
    usable_variance,
)
from expfam.families.support import check_hyper
from expfam.params import is_auto

if TYPE_CHECKING:
    import numpy.typing as npt

    from expfam.protocols import Floats


class SphericalGaussian(RealFamily):
    """Gaussian with one known variance and a Gaussian prior on the mean of a cluster.

    The variance is the same for all columns and clusters.

    Parameters
    ----------
    variance : "auto" or float
        Variance s2 of each column within a cluster; a tenth of the mean column variance if "auto".
    mean : "auto", float or (V,) array_like
        Prior location m0 in the coordinates of the data; the column means if "auto", zero for sparse data.
    mean_variance : "auto" or float
        Prior variance v0 of the cluster means; the mean column variance if "auto".

    Attributes
    ----------
    center_ : (V,) float64 ndarray
        Column means at binding; statistics are sums about them. Zeros for sparse data, so that these stay sparse.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import SphericalGaussian
    >>> family = SphericalGaussian(variance=1.0, mean=0.0, mean_variance=1.0).bind([[0.0, 1.0], [2.0, 4.0]])
    >>> n, S = np.array([1.0]), family.sufficient_statistics(np.array([[2.0, 4.0]]))
    >>> family.to_params(*family.map_natural(n, S))["mean"]
    array([[1., 2.]])

    Notes
    -----
    phi = x about `center_`, theta = mu / s2, g = |mu|^2 / (2 s2), log_base = -|x|^2 / (2 s2) - (d/2) log(2 pi s2).
    vn = 1 / (1/v0 + n/s2), mn = vn (m0/v0 + S/s2); A = (d/2) log(vn/v0) + |mn|^2 / (2 vn) - |m0|^2 / (2 v0).
    Only `mean_variance` can be learned: the base measure depends on `variance`, and A does not contain it.
    """

    name = "gaussian_spherical"
    accepts_sparse = True
    hyper = {"mean_variance": "positive"}  # noqa: RUF012
    variance: Any
    mean: Any
    mean_variance: Any

    def __init__(
        self,
        variance: Literal["auto"] | float = "auto",
        mean: npt.ArrayLike = "auto",
        mean_variance: Literal["auto"] | float = "auto",
    ) -> None:
        check_hyper("gaussian_spherical", "variance", variance, vector=False)
        check_hyper("gaussian_spherical", "mean", mean, positive=False)
        check_hyper("gaussian_spherical", "mean_variance", mean_variance, vector=False)
        self.variance, self.mean, self.mean_variance = variance, mean, mean_variance

    def validate(self, X: Any) -> Any:
        """Check data and return them as a dense array or canonical CSR; see `Family.validate`."""
        X = super().validate(X)
        if self.is_bound and np.any(self.center_):
            require_dense(self.name, X)
        return X

    def resolve(self, X: Any) -> dict[str, Any]:
        """Return the hyper-parameters, and the learned center_, resolution_ and variance_floor_."""
        learned, variance = self.resolve_center(X)
        d = X.shape[1]
        if sparse.issparse(X):
            learned["center_"] = np.zeros(d)
            if not is_auto(self.mean) and np.any(self.mean):
                raise DataTypeError(f"{self.name} reads sparse data only with mean=0; got mean={self.mean!r}")
        mean = learned["center_"].copy() if is_auto(self.mean) else per_column(self.name, "mean", self.mean, d)
        scales = {"variance": self.variance, "mean_variance": self.mean_variance}
        if any(is_auto(value) for value in scales.values()):
            typical = float(usable_variance(variance, self.name).mean())
            auto = {"variance": PRIOR_SHARE * typical, "mean_variance": typical}
            scales = {name: auto[name] if is_auto(value) else value for name, value in scales.items()}
        return {**learned, "mean": mean, **{name: float(value) for name, value in scales.items()}}

    def sufficient_statistics(self, X: Any) -> Any:
        """Return phi of each row, x about center_: (N, V) float64, CSR for sparse X."""
        return X.astype(np.float64) if sparse.issparse(X) else X.astype(np.float64) - self.center_

    def log_base(self, X: Any) -> Floats:
        """Return the log base measure of each row: (N,) nats.

        It is -|x - center|^2 / (2 s2) - (d/2) log(2 pi s2).
        """
        phi = self.sufficient_statistics(X)
        squares = phi.multiply(phi).sum(axis=1) if sparse.issparse(phi) else np.einsum("ij,ij->i", phi, phi)
        normal = 0.5 * X.shape[1] * (LOG_2PI + np.log(self.variance))
        return -0.5 * np.asarray(squares, dtype=np.float64).ravel() / self.variance - normal

    def _posterior(self, n, S):
        """Return posterior variance (K,) and location (K, d) of the mean, in centred coordinates."""
        n, S = np.asarray(n, dtype=np.float64), np.asarray(S, dtype=np.float64)
        variance = 1.0 / (1.0 / self.mean_variance + n / self.variance)
        m0 = self.mean - self.center_
        return variance, variance[:, None] * (m0 / self.mean_variance + S / self.variance)

    def log_marginal(self, n: Floats, S: Floats) -> Floats:
        """Return the log evidence A(n, S) of each cluster: (K,) nats, without log-base."""
        variance, mean = self._posterior(n, S)
        m0 = self.mean - self.center_
        lengths = np.einsum("kd,kd->k", mean, mean) / variance - m0 @ m0 / self.mean_variance
        out = 0.5 * (self.n_features_in_ * np.log(variance / self.mean_variance) + lengths)
        bad = np.flatnonzero(~np.isfinite(out))
        if bad.size:
            raise FloatingPointError(f"{self.name}: the evidence of cluster {bad[0]} is not finite")
        return out

    def expected_natural(self, n: Floats, S: Floats) -> tuple[Floats, Floats]:
        """Return the posterior means (E theta, E g) of each cluster: (K, F) and (K,)."""
        variance, mean = self._posterior(n, S)
        squares = np.einsum("kd,kd->k", mean, mean) + self.n_features_in_ * variance
        return mean / self.variance, 0.5 * squares / self.variance

    def draw_natural(self, n: Floats, S: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Draw parameters (Theta, G) from the posterior of each cluster: (K, F) and (K,)."""
        variance, mean = self._posterior(n, S)
        return self._natural(mean + np.sqrt(variance)[:, None] * rng.standard_normal(mean.shape))

    def map_natural(self, n: Floats, S: Floats) -> tuple[Floats, Floats]:
        """Return the mode (Theta, G) of each posterior: (K, F) and (K,). Its mean is mn."""
        return self._natural(self._posterior(n, S)[1])

    def _natural(self, mean):
        return mean / self.variance, 0.5 * np.einsum("kd,kd->k", mean, mean) / self.variance

    def log_prior(self, theta: Floats, g: Floats) -> Floats:
        """Return the unnormalised log prior density in natural coordinates: (K,) nats."""
        off = self.variance * theta - (self.mean - self.center_)
        return -0.5 * np.einsum("kd,kd->k", off, off) / self.mean_variance

    def log_partition(self, theta: Floats) -> Floats:
        """Return g of each natural parameter, s2 |theta|^2 / 2: (K,) nats."""
        return 0.5 * self.variance * np.einsum("kd,kd->k", theta, theta)

    def to_params(self, theta: Floats, g: Floats) -> dict[str, Floats]:
        """Return means (K, V) in the coordinates of the data, and the known variance (K,)."""
        return {"mean": self.variance * theta + self.center_, "variance": np.full(theta.shape[0], self.variance)}

    def from_params(self, mean: npt.ArrayLike, variance: npt.ArrayLike | None = None) -> tuple[Floats, Floats]:
        """Return the natural parameters (Theta, G) of means (K, V).

        A variance, if given, must equal the variance of the family.
        """
        if variance is not None and not np.allclose(variance, self.variance):
            raise ValueError(f"{self.name}: variance must be {self.variance}, the family's; got {variance!r}")
        return self._natural(np.asarray(mean, dtype=np.float64) - self.center_)

    def sample(self, theta: Floats, size: int, rng: np.random.Generator) -> Floats:
        """Draw `size` rows under each parameter: (K * size, V), grouped by parameter."""
        mean = self.variance * theta + self.center_
        noise = rng.standard_normal((theta.shape[0], size, mean.shape[1]))
        return (mean[:, None, :] + np.sqrt(self.variance) * noise).reshape(-1, mean.shape[1])

    def components(
        self, data: Any, capacity: int, *, layout: Literal["features", "clusters"] = "features"
    ) -> SphericalComponents:
        """Return the compiled owner of the statistics of `capacity` clusters."""
        return SphericalComponents(self, data, capacity)
