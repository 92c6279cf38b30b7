"""Gaussians with a full covariance under Wishart-type priors: unknown mean, and mean zero.

The precision has a Wishart prior, so the evidence of a cluster is a ratio of multivariate gamma functions and
determinants. Every method needs one Cholesky factorisation of the posterior scale, O(d^3). Symmetric matrices are
packed by `svec`, which keeps Frobenius inner products and norms.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from scipy.special import gammaln, psi

from expfam.families.gaussian._evidence import LocationEvidence, ScaleEvidence
from expfam.families.gaussian._full import GaussianComponents
from expfam.families.gaussian._modes import log_prior_of_full, modes_of_full, posterior_of_full
from expfam.families.gaussian._natural import GaussianLaw
from expfam.families.gaussian._statistics import as_floats, columns_and_products
from expfam.families.gaussian.columns import (
    LOG_2PI,
    PRIOR_SHARE,
    RealFamily,
    check_dof,
    check_scale,
    factor,
    inverse,
    log_det,
    log_det_or_none,
    per_column,
    svec,
    unsvec,
    usable_variance,
)
from expfam.families.gaussian.holes import PredictiveLaw
from expfam.families.support import check_hyper, check_ratio
from expfam.params import is_auto

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from expfam.families.all_rows import AllRows
    from expfam.protocols import Floats


def _multigammaln(x, d):
    """Return the multivariate log-gamma function of order d at each x: (K,).

    The bits are those of SciPy's function, which takes one entry of a list after the other and three times as long.
    """
    return 0.25 * d * (d - 1) * np.log(np.pi) + gammaln(x - 0.5 * np.arange(d)[:, None]).sum(axis=0)


def _multipsi(x, d):
    """Return the derivative of the multivariate log-gamma function of order d at each x: (K,)."""
    return psi(x[:, None] - 0.5 * np.arange(d)).sum(axis=1)


def _as_sums(n: npt.ArrayLike, S: npt.ArrayLike) -> tuple[Floats, Floats]:
    """Return counts and sums as contiguous arrays of double precision."""
    return np.ascontiguousarray(n, dtype=np.float64), np.ascontiguousarray(S, dtype=np.float64)


class _Wishart(RealFamily):
    """Base class of both families: dof and scale, and the evidence given the posterior scale."""

    has_linear_part: ClassVar[bool]
    has_full_covariance: ClassVar[bool] = True
    dof: Any
    scale: Any

    def _resolve_scale(self, d, variance):
        check_ratio(variance, family=self.name)
        check_dof(self.name, self.dof, d)
        dof = float(d + 3 if self.dof is None else self.dof)
        if is_auto(self.scale):
            scale = np.diag(max(dof - d - 1, 1.0) * PRIOR_SHARE * usable_variance(variance, self.name))
        elif np.ndim(self.scale) < 2:
            scale = np.diag(per_column(self.name, "scale", self.scale, d))
        else:
            scale = np.array(self.scale, dtype=np.float64)
            if scale.shape != (d, d):
                raise ValueError(f"{self.name}: scale must have shape ({d}, {d}); got {scale.shape}")
        return {"dof": dof, "scale": scale}

    def _prior_variance(self, scale: Floats) -> Floats:
        return np.diag(scale) / max(self.dof - self.n_features_in_ - 1, 1.0)

    def log_base(self, X: Any) -> Floats:
        """Return the log base measure of each row, -(d/2) log 2 pi: (N,) nats."""
        return np.full(X.shape[0], -0.5 * X.shape[1] * LOG_2PI)

    def n_free_parameters(self, n_clusters: int) -> int:
        """Return the number of means, variances and covariances of some clusters."""
        self.require_bound()
        return n_clusters * self.n_statistics_

    def in_coordinates(self, linear_map: Floats) -> _Wishart:
        """Return a bound family with the same prior for data y = M (x - centre).

        `linear_map` M (d, d) must be invertible. The log evidence of n data y equals the log evidence
        of the data x minus n log|det M|. The centre is 0 for the family of mean zero.
        """
        family: Any = self
        other = family._moved(linear_map) if self.has_linear_part else self
        return other.with_hyper(scale=linear_map @ self.scale @ linear_map.T)

    def mapped_statistics(self, S: Floats, linear_map: Floats) -> Floats:
        """Return the sums of statistics (K, F) of centred data after a linear map (d, d).

        Parameters
        ----------
        S : (K, F) float64 ndarray
            Sums of statistics of centred data.
        linear_map : (d, d) float64 ndarray
            Each datum x becomes ``linear_map @ x``.
        """
        d = self.n_features_in_
        first, second = S[:, : -d * (d + 1) // 2], unsvec(S[:, -d * (d + 1) // 2 :], d)
        linear = [first @ linear_map.T] if self.has_linear_part else []
        return np.concatenate([*linear, svec(linear_map @ second @ linear_map.T)], axis=1)

    def raise_squares(self, n: Floats, S: Floats) -> None:
        """Raise sums of products, in place, to those of rows that do not vary in some directions.

        It acts where the prior does not make up for what the sums lack.
        """
        d, used = self.n_features_in_, np.flatnonzero(n > 0.0)
        first = S[used, :d] if self.has_linear_part else np.zeros((used.size, d))
        about_mean = (
            unsvec(S[used, -d * (d + 1) // 2 :], d) - first[:, :, None] * first[:, None, :] / n[used, None, None]
        )
        try:
            np.linalg.cholesky(about_mean + 0.5 * self.scale)
            return
        except np.linalg.LinAlgError:
            values, vectors = np.linalg.eigh(about_mean)
        lacking = np.maximum(-values, 0.0)
        low = lacking.any(axis=1)
        more = (vectors[low] * lacking[low, None, :]) @ vectors[low].transpose(0, 2, 1)
        S[used[low], -d * (d + 1) // 2 :] += svec(more)

    def _log_evidence(self, n, log_det_n):
        d = self.n_features_in_
        dof = self.dof + n
        log_det_0 = log_det(factor(self.scale[None], self.name))[0]
        gammas = _multigammaln(0.5 * dof, d) - _multigammaln(np.array([0.5 * self.dof]), d)[0]
        return 0.5 * n * d * np.log(2.0) + gammas + 0.5 * (self.dof * log_det_0 - dof * log_det_n)

    def _along_scale(self, base, n, scale):
        """Return the log evidence along the log of the factor of the scale, up to a constant.

        `scale` (K, d, d) is that of the posteriors. In the coordinates in which the prior scale is the identity, its
        factor is added to the eigenvalues of the rest.
        """
        L = factor(base[None], self.name)[0]
        root = np.linalg.inv(L)  # once; `solve` would factor it for each cluster
        rest = root @ (scale - self.scale) @ root.T
        own = np.maximum(np.linalg.eigvalsh(0.5 * (rest + rest.transpose(0, 2, 1))), 0.0)
        return ScaleEvidence(own, self.dof + n, float(self.dof))

    def _expected_log_det(self, n, log_det_n):
        d = self.n_features_in_
        return _multipsi(0.5 * (self.dof + n), d) + d * np.log(2.0) - log_det_n

    def _draw_precision(self, dof, factors, rng):
        """Draw Wishart precisions Lam = M M' by Bartlett's method.

        Return M, the triangle B from which it is made, and log|Lam|.
        """
        K, d = factors.shape[:2]
        B = np.zeros((K, d, d))
        diagonal = np.arange(d)
        B[:, diagonal, diagonal] = np.sqrt(rng.chisquare(dof[:, None] - diagonal))
        B[:, diagonal[:, None] > diagonal] = rng.standard_normal((K, d * (d - 1) // 2))
        M = np.linalg.solve(factors.transpose(0, 2, 1), B)
        return M, B, log_det(B) - log_det(factors)

    def _sample(self, mean, precision, size, rng):
        noise = rng.standard_normal((precision.shape[0], size, precision.shape[1]))
        L = factor(precision, self.name)
        rows = np.linalg.solve(L.transpose(0, 2, 1), noise.transpose(0, 2, 1)).transpose(0, 2, 1)
        return (rows + mean[:, None, :]).reshape(-1, precision.shape[1])


class Gaussian(_Wishart):
    """Gaussian with unknown mean and full covariance under the normal-inverse-Wishart prior.

    Parameters
    ----------
    mean : "auto", float or (V,) array_like
        Prior location m0 in the coordinates of the data; the column means if "auto".
    mean_strength : "auto" or float
        Strength k0 of the prior location, as a number of data; 0.1 if "auto".
    dof : float, optional
        Degrees of freedom nu0 > V - 1; V + 3 if not given.
    scale : "auto", float, (V,) or (V, V) array_like
        Scale matrix Psi0, or its diagonal. If "auto", it is max(dof - V - 1, 1) times a tenth of the column variances:
        for dof >= V + 2 the prior mean of the covariance is a tenth of these.

    Attributes
    ----------
    center_ : (V,) float64 ndarray
        Column means at binding; statistics are sums about them.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import Gaussian
    >>> family = Gaussian(scale=1.0).bind([[0.0, 1.0], [2.0, 4.0], [1.0, 1.0]])
    >>> n, S = np.array([1.0]), family.sufficient_statistics(np.array([[0.0, 1.0]]))
    >>> family.to_params(*family.map_natural(n, S))["mean"].round(3)
    array([[0.091, 1.091]])

    Notes
    -----
    phi = (x, svec xx') about `center_`, theta = (Lam mu, -svec(Lam) / 2), g = mu'Lam mu / 2 - log|Lam| / 2.
    With kn = k0 + n, nun = nu0 + n, and the posterior location mn and scale Psin,
    A = (n d / 2) log 2 + lgG_d(nun/2) - lgG_d(nu0/2) + (nu0/2) log|Psi0| - (nun/2) log|Psin| + (d/2) log(k0/kn).
    The predictive is Student's t with nun - d + 1 degrees of freedom (Murphy 2007, sec. 8).
    """

    name = "gaussian"
    has_linear_part = True
    hyper = {"mean_strength": "positive", "scale": "positive"}  # noqa: RUF012
    learned_by_default = ("mean_strength", "scale")
    mean: Any
    mean_strength: Any

    def __init__(
        self,
        mean: npt.ArrayLike = "auto",
        mean_strength: Literal["auto"] | float = "auto",
        dof: float | None = None,
        scale: npt.ArrayLike = "auto",
    ) -> None:
        check_hyper("gaussian", "mean", mean, positive=False)
        check_hyper("gaussian", "mean_strength", mean_strength, vector=False)
        check_scale("gaussian", scale, dof)
        self.mean, self.mean_strength, self.dof, self.scale = mean, mean_strength, dof, scale

    def resolve_rows(self, rows: AllRows) -> dict[str, Any]:
        """Return the hyper-parameters as arrays, and the learned attributes.

        These are center_, resolution_ and variance_floor_.
        """
        learned, variance = self.resolve_center(rows)
        d = rows.n_columns
        center = learned["center_"]
        mean = center.copy() if is_auto(self.mean) else per_column(self.name, "mean", self.mean, d)
        strength = PRIOR_SHARE if is_auto(self.mean_strength) else float(self.mean_strength)
        return {**learned, "mean": mean, "mean_strength": strength, **self._resolve_scale(d, variance)}

    def prior_from_clusters(self, n: Floats, S: Floats) -> Gaussian:
        """Return the family with a scale of the shape of the pooled covariance within clusters.

        The prior mean of the covariance is then this pooled covariance plus a thousandth of the column variances,
        which keeps it positive definite. The present scale must be the one of ``scale="auto"``; it stays where the
        clusters leave fewer degrees of freedom than there are columns.
        """
        d, used = self.n_features_in_, n > 0
        n, S = n[used], S[used]
        if n.sum() - n.size < d:  # a scale of lower rank is tiny in most directions
            return self
        within = unsvec(S[:, d:].sum(axis=0)[None], d)[0] - (S[:, :d] / n[:, None]).T @ S[:, :d]
        column_variances = np.diag(self.scale) / PRIOR_SHARE  # times the factor of the scale, as in `_resolve_scale`
        factor_of_mean = max(self.dof - d - 1, 1.0)
        return self.with_hyper(scale=factor_of_mean * within / n.sum() + 1e-3 * np.diag(column_variances))

    def implied_for(self, columns: npt.NDArray[np.intp]) -> Gaussian:
        """Return the bound family of some columns: the law that this one implies for them.

        A block of a covariance has the prior of its own block of the scale, with as many fewer degrees of freedom as
        columns are left out.

        Parameters
        ----------
        columns : (V',) intp ndarray

        Examples
        --------
        >>> from expfam import Gaussian
        >>> family = Gaussian().bind([[0.0, 1.0, 7.0], [2.0, 4.0, 9.0]])
        >>> family.dof, family.implied_for([0, 2]).dof, family.implied_for([0, 2]).mean
        (6.0, 5.0, array([1., 8.]))
        """
        at, part = np.asarray(columns, dtype=np.intp), self._copy()
        for name in ("mean", "center_", "resolution_", "variance_floor_"):
            part.__dict__[name] = getattr(self, name)[at]
        part.__dict__.update(scale=self.scale[np.ix_(at, at)], dof=self.dof - (self.n_features_in_ - at.size))
        part.__dict__.update(n_features_in_=at.size, n_statistics_=at.size * (at.size + 3) // 2)
        return part

    def sufficient_statistics(self, X: Any) -> Floats:
        """Return phi of each row, (x, svec xx') about center_: (N, V + V (V + 1) / 2) float64."""
        return columns_and_products(as_floats(X), self.center_, True)

    def _moved(self, linear_map):
        moved = self.with_hyper(mean=linear_map @ (self.mean - self.center_))
        moved.__dict__["center_"] = np.zeros(self.n_features_in_)
        return moved

    def _prior(self) -> tuple[Floats, float, Floats]:
        """Return location, strength and scale as the compiled functions take them."""
        return self.mean - self.center_, float(self.mean_strength), np.ascontiguousarray(self.scale)

    def _posterior(self, n, S):
        """Return posterior strength (K,), location (K, d) and scale (K, d, d), centred."""
        return posterior_of_full(*_as_sums(n, S), *self._prior())

    def predictive_law(self, n: Floats, S: Floats) -> PredictiveLaw:
        """Return the multivariate t law of a new row in each cluster.

        Parameters
        ----------
        n : (K,) float64
        S : (K, F) float64

        Returns
        -------
        PredictiveLaw
        """
        strength, mean, scale = self._posterior(n, S)
        dof = self.dof + np.asarray(n, dtype=np.float64) - self.n_features_in_ + 1.0
        widened = scale * ((strength + 1.0) / (strength * dof))[:, None, None]
        return PredictiveLaw(dof, mean + self.center_, widened)

    def log_marginal(self, n: Floats, S: Floats) -> Floats:
        """Return the log evidence A(n, S) of each cluster: (K,) nats, without log-base."""
        n = np.asarray(n, dtype=np.float64)
        strength, _, scale = self._posterior(n, S)
        shrink = 0.5 * self.n_features_in_ * np.log(self.mean_strength / strength)
        return self._log_evidence(n, log_det(factor(scale, self.name))) + shrink

    def log_marginal_by_column(self, n: Floats, S: Floats) -> Floats:
        """Return the log evidence of each column by itself: (K, d) nats, without log-base.

        The other columns are integrated out, so that a column has an inverse gamma prior of its variance with
        dof - d + 1 degrees of freedom. The evidences of dependent columns do not add up to `log_marginal`.
        """
        n = np.asarray(n, dtype=np.float64)[:, None]
        strength, _, scale = self._posterior(n[:, 0], S)
        dof, own = self.dof - self.n_features_in_ + 1.0, np.diagonal(scale, axis1=1, axis2=2)
        gammas = gammaln(0.5 * (dof + n)) - gammaln(0.5 * dof) + 0.5 * n * np.log(2.0)
        scales = 0.5 * (dof * np.log(np.diag(self.scale)) - (dof + n) * np.log(own))
        return gammas + scales + 0.5 * np.log(self.mean_strength / strength)[:, None]

    def _evidence_from(self, name: str, base: Floats, n: Floats, S: Floats) -> Callable[[float], float]:
        """Return the sum of log evidences along a hyper-parameter, up to a constant."""
        n = np.asarray(n, dtype=np.float64)
        used = n > 0.0
        n, S = n[used], np.asarray(S, dtype=np.float64)[used]
        strength, mean, scale = self._posterior(n, S)
        if name == "scale":
            return self._along_scale(base, n, scale)
        # the posterior scale is that about the mean of the rows, and a multiple of the outer product of `shift`
        shift = (mean - (self.mean - self.center_)) * (strength / n)[:, None]
        own = self.mean_strength * n / strength
        about = scale - own[:, None, None] * shift[:, :, None] * shift[:, None, :]
        q = np.einsum("ki,ki->k", shift, np.linalg.solve(about, shift[:, :, None])[:, :, 0])
        return LocationEvidence(n, q, self.dof + n, float(base), self.n_features_in_)

    def expected_natural(self, n: Floats, S: Floats) -> tuple[Floats, Floats]:
        """Return the posterior means (E theta, E g) of each cluster: (K, F) and (K,)."""
        n = np.asarray(n, dtype=np.float64)
        strength, mean, scale = self._posterior(n, S)
        precision, log_dets = inverse(scale, self.name)
        precision *= (self.dof + n)[:, None, None]
        first = np.einsum("kij,kj->ki", precision, mean)
        spread = self.n_features_in_ / strength + np.einsum("ki,ki->k", first, mean)
        theta = np.concatenate([first, -0.5 * svec(precision)], axis=1)
        return theta, 0.5 * (spread - self._expected_log_det(n, log_dets))

    def _natural_law(self):
        """Return the compiled form of `expected_natural`."""
        return GaussianLaw(self, "full")

    def draw_natural(self, n: Floats, S: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Draw parameters (Theta, G) from the posterior of each cluster: (K, F) and (K,)."""
        n = np.asarray(n, dtype=np.float64)
        strength, mean, scale = self._posterior(n, S)
        C = factor(scale, self.name)
        M, B, log_dets = self._draw_precision(self.dof + n, C, rng)
        noise = rng.standard_normal(mean.shape)[:, :, None]
        mu = mean + (C @ np.linalg.solve(B.transpose(0, 2, 1), noise))[:, :, 0] / np.sqrt(strength)[:, None]
        return self._natural(mu, M @ M.transpose(0, 2, 1), log_dets)

    def map_natural(self, n: Floats, S: Floats) -> tuple[Floats, Floats]:
        """Return the mode (Theta, G) of each posterior in natural coordinates: (K, F) and (K,).

        It has mean mn and covariance Psin / (nun - d - 2), with nun - d - 2 at least 1.
        """
        n, S = _as_sums(n, S)
        theta, g, bad = modes_of_full(n, S, *self._prior(), float(self.dof))
        if bad >= 0:
            raise FloatingPointError(f"{self.name}: the posterior scale of cluster {bad} is not positive definite")
        return theta, g

    @staticmethod
    def _natural(mean, precision, log_dets):
        first = np.einsum("kij,kj->ki", precision, mean)
        theta = np.concatenate([first, -0.5 * svec(precision)], axis=1)
        return theta, 0.5 * (np.einsum("ki,ki->k", first, mean) - log_dets)

    def _usual(self, theta):
        """Return centred mean, precision and its log determinant from natural parameters.

        The log determinant is -inf outside the domain.
        """
        d = self.n_features_in_
        precision = -2.0 * unsvec(theta[:, d:], d)
        log_dets = log_det_or_none(precision)
        mean = np.zeros((theta.shape[0], d))
        inside = np.isfinite(log_dets)
        mean[inside] = np.linalg.solve(precision[inside], theta[inside, :d, None])[:, :, 0]
        return mean, precision, log_dets

    def log_prior(self, theta: Floats, g: Floats) -> Floats:
        """Return the unnormalised log prior density in natural coordinates: (K,) nats.

        It is -inf outside the domain.
        """
        return log_prior_of_full(theta, *self._prior(), float(self.dof))

    def log_partition(self, theta: Floats) -> Floats:
        """Return the log partition function g of each theta: (K,) nats; +inf outside the domain."""
        mean, _, log_dets = self._usual(theta)
        return 0.5 * (np.einsum("ki,ki->k", theta[:, : self.n_features_in_], mean) - log_dets)

    def to_params(self, theta: Floats, g: Floats) -> dict[str, Floats]:
        """Return means (K, V) and covariances (K, V, V) in the coordinates of the data."""
        mean, precision, _ = self._usual(theta)
        return {"mean": mean + self.center_, "covariance": np.linalg.inv(precision)}

    def from_params(self, mean: npt.ArrayLike, covariance: npt.ArrayLike) -> tuple[Floats, Floats]:
        """Return the natural parameters (Theta, G) of means (K, V) and covariances (K, V, V).

        Parameters
        ----------
        mean : (K, V) array_like of float
            In the units of the data.
        covariance : (K, V, V) array_like of float
            Symmetric and positive definite.

        Returns
        -------
        theta : (K, F) float64 ndarray
        g : (K,) float64 ndarray
            Log-partition function of each theta, nats.
        """
        covariance = np.asarray(covariance, dtype=np.float64)
        log_dets = -log_det(factor(covariance, self.name))
        return self._natural(np.asarray(mean, dtype=np.float64) - self.center_, np.linalg.inv(covariance), log_dets)

    def sample(self, theta: Floats, size: int, rng: np.random.Generator) -> Floats:
        """Draw `size` rows under each parameter: (K * size, V), grouped by parameter."""
        mean, precision, _ = self._usual(theta)
        return self._sample(mean + self.center_, precision, size, rng)

    def components(
        self, data: Any, capacity: int, *, layout: Literal["features", "clusters"] = "features"
    ) -> GaussianComponents:
        """Return the compiled owner of the statistics of `capacity` clusters."""
        return GaussianComponents(self, data, capacity)


class ZeroMeanGaussian(_Wishart):
    """Gaussian of mean zero with full covariance under the inverse-Wishart prior.

    Use it for data whose mean is known to be zero, for example for centred image patches.

    Parameters
    ----------
    dof : float, optional
        Degrees of freedom nu0 > V - 1; V + 3 if not given.
    scale : "auto", float, (V,) or (V, V) array_like
        Scale matrix Psi0, or its diagonal. If "auto", it is max(dof - V - 1, 1) times a tenth of the columns' mean
        squares.

    Examples
    --------
    >>> from expfam import ZeroMeanGaussian
    >>> family = ZeroMeanGaussian(scale=2.0).bind([[1.0, -1.0], [0.5, 2.0]])
    >>> family.dof
    5.0

    Notes
    -----
    phi = svec xx', theta = -svec(Lam) / 2, g = -log|Lam| / 2; Psin = Psi0 + S, nun = nu0 + n;
    A = (n d / 2) log 2 + lgG_d(nun/2) - lgG_d(nu0/2) + (nu0/2) log|Psi0| - (nun/2) log|Psin|.
    """

    name = "gaussian_zero"
    has_linear_part = False
    hyper = {"scale": "positive"}  # noqa: RUF012
    learned_by_default = ("scale",)

    def __init__(self, dof: float | None = None, scale: npt.ArrayLike = "auto") -> None:
        check_scale("gaussian_zero", scale, dof)
        self.dof, self.scale = dof, scale

    def resolve_rows(self, rows: AllRows) -> dict[str, Any]:
        """Return the hyper-parameters as arrays, and the learned resolution_ and variance_floor_."""
        learned, variance = self.resolve_center(rows)
        center = learned.pop("center_")
        return {**learned, **self._resolve_scale(rows.n_columns, variance + center**2)}

    def sufficient_statistics(self, X: Any) -> Floats:
        """Return phi of each row, svec xx': (N, V (V + 1) / 2) float64."""
        return columns_and_products(as_floats(X), np.zeros(X.shape[1]), False)

    def _posterior(self, n, S):
        """Return the posterior scale (K, d, d)."""
        return self.scale + unsvec(np.asarray(S, dtype=np.float64), self.n_features_in_)

    def predictive_law(self, n: Floats, S: Floats) -> PredictiveLaw:
        """Return the multivariate t law of a new row in each cluster; see `Gaussian.predictive_law`."""
        dof = self.dof + np.asarray(n, dtype=np.float64) - self.n_features_in_ + 1.0
        scale = self._posterior(n, S) / dof[:, None, None]
        return PredictiveLaw(dof, np.zeros((len(dof), self.n_features_in_)), scale)

    def log_marginal(self, n: Floats, S: Floats) -> Floats:
        """Return the log evidence A(n, S) of each cluster: (K,) nats, without log-base."""
        return self._log_evidence(np.asarray(n, dtype=np.float64), log_det(factor(self._posterior(n, S), self.name)))

    def _evidence_from(self, name: str, base: Floats, n: Floats, S: Floats) -> Callable[[float], float]:
        """Return the sum of log evidences along the scale, up to a constant."""
        n = np.asarray(n, dtype=np.float64)
        return self._along_scale(base, n, self._posterior(n, S))

    def expected_natural(self, n: Floats, S: Floats) -> tuple[Floats, Floats]:
        """Return the posterior means (E theta, E g) of each cluster: (K, F) and (K,)."""
        n, scale = np.asarray(n, dtype=np.float64), self._posterior(n, S)
        precision, log_dets = inverse(scale, self.name)
        theta = svec(precision)
        theta *= -0.5 * (self.dof + n)[:, None]
        return theta, -0.5 * self._expected_log_det(n, log_dets)

    def _natural_law(self):
        """Return the compiled form of `expected_natural`."""
        return GaussianLaw(self, "zero_mean")

    def draw_natural(self, n: Floats, S: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Draw parameters (Theta, G) from the posterior of each cluster: (K, F) and (K,)."""
        C = factor(self._posterior(n, S), self.name)
        M, _, log_dets = self._draw_precision(self.dof + np.asarray(n, dtype=np.float64), C, rng)
        return -0.5 * svec(M @ M.transpose(0, 2, 1)), -0.5 * log_dets

    def map_natural(self, n: Floats, S: Floats) -> tuple[Floats, Floats]:
        """Return the mode (Theta, G) of each posterior in natural coordinates: (K, F) and (K,).

        Its covariance is Psin / (nun - d - 1), with nun - d - 1 at least 1.
        """
        d, scale = self.n_features_in_, self._posterior(n, S)
        weight = np.maximum(self.dof + np.asarray(n, dtype=np.float64) - d - 1.0, 1.0)
        log_dets = d * np.log(weight) - log_det(factor(scale, self.name))
        return -0.5 * svec(weight[:, None, None] * np.linalg.inv(scale)), -0.5 * log_dets

    def _precision(self, theta):
        return -2.0 * unsvec(theta, self.n_features_in_)

    def log_prior(self, theta: Floats, g: Floats) -> Floats:
        """Return the unnormalised log prior density in natural coordinates: (K,) nats.

        It is -inf outside the domain.
        """
        precision = self._precision(theta)
        log_dets = log_det_or_none(precision)
        density = 0.5 * (self.dof - self.n_features_in_ - 1.0) * np.where(np.isfinite(log_dets), log_dets, 0.0)
        return np.where(np.isfinite(log_dets), density - 0.5 * np.einsum("ij,kij->k", self.scale, precision), -np.inf)

    def log_partition(self, theta: Floats) -> Floats:
        """Return the log partition function g of each theta: (K,) nats; +inf outside the domain."""
        return -0.5 * log_det_or_none(self._precision(theta))

    def to_params(self, theta: Floats, g: Floats) -> dict[str, Floats]:
        """Return means (K, V), all zero, and covariances (K, V, V)."""
        covariance = np.linalg.inv(self._precision(theta))
        return {"mean": np.zeros(covariance.shape[:2]), "covariance": covariance}

    def from_params(self, covariance: npt.ArrayLike, mean: npt.ArrayLike | None = None) -> tuple[Floats, Floats]:
        """Return the natural parameters (Theta, G) of covariances (K, V, V).

        Parameters
        ----------
        covariance : (K, V, V) array_like of float
            Symmetric and positive definite.
        mean : (K, V) array_like of float, optional
            Must be zero.

        Returns
        -------
        theta : (K, F) float64 ndarray
        g : (K,) float64 ndarray
            Log-partition function of each theta, nats.

        Raises
        ------
        ValueError
            A mean is not zero.
        """
        if mean is not None and np.any(mean):
            raise ValueError(f"{self.name}: mean must be zero; got {mean!r}")
        covariance = np.asarray(covariance, dtype=np.float64)
        return -0.5 * svec(np.linalg.inv(covariance)), 0.5 * log_det(factor(covariance, self.name))

    def sample(self, theta: Floats, size: int, rng: np.random.Generator) -> Floats:
        """Draw `size` rows under each parameter: (K * size, V), grouped by parameter."""
        return self._sample(np.zeros((theta.shape[0], self.n_features_in_)), self._precision(theta), size, rng)

    def components(
        self, data: Any, capacity: int, *, layout: Literal["features", "clusters"] = "features"
    ) -> GaussianComponents:
        """Return the compiled owner of the statistics of `capacity` clusters."""
        return GaussianComponents(self, data, capacity)
