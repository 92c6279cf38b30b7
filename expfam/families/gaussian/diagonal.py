"""Gaussian clusters with independent columns; scoring a datum costs O(K d)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy.special import gammaln, psi

from expfam.families.gaussian._diagonal import DiagonalComponents
from expfam.families.gaussian._evidence import RateEvidence, StrengthEvidence, posterior_of_columns
from expfam.families.gaussian._modes import log_prior_of_columns, modes_of_columns
from expfam.families.gaussian._natural import GaussianLaw
from expfam.families.gaussian._open_diagonal import OpenDiagonalComponents
from expfam.families.gaussian._statistics import columns_and_squares, seen_columns_and_squares
from expfam.families.gaussian.columns import (
    LOG_2PI,
    PRIOR_SHARE,
    RealFamily,
    per_column,
    strength_bounds,
    usable_variance,
)
from expfam.families.support import check_hyper
from expfam.params import is_auto

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from expfam.families.all_rows import AllRows
    from expfam.protocols import Floats


class DiagonalGaussian(RealFamily):
    """Independent Gaussian columns with unknown means and variances under normal-gamma priors.

    Parameters
    ----------
    mean : "auto", float or (V,) array_like
        Prior location m0 in the coordinates of the data; the column means if "auto".
    mean_strength : "auto", float or (V,) array_like
        Strength k0 of the prior location, as a number of data; 0.1 if "auto".
    shape : float or (V,) array_like
        Shape a0 of the gamma prior on each precision.
    rate : "auto", float or (V,) array_like
        Rate b0 of the gamma prior. If "auto", it is max(shape - 1, 0.5) times a tenth of the column's variance: for
        shapes from 1.5 on the prior mean of each variance is a tenth of the column's variance.
    missing : bool
        Whether NaN stands for a cell that a row lacks; otherwise NaN is refused. Such cells are integrated out: a
        cluster knows of a row only what was observed.

    Attributes
    ----------
    center_ : (V,) float64 ndarray
        Column means of the observed cells at binding; statistics are sums about them.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import DiagonalGaussian
    >>> family = DiagonalGaussian(rate=1.0).bind([[0.0, 1.0], [2.0, 4.0], [1.0, 1.0]])
    >>> family.log_marginal(np.zeros(1), np.zeros((1, 4)))
    array([0.])

    Notes
    -----
    phi = (x, x^2) about `center_`, theta = (lam mu, -lam / 2), g = sum lam mu^2 / 2 - log(lam) / 2.
    With kn = k0 + n, an = a0 + n/2, bn = b0 + (S2 + k0 m0^2 - kn mn^2) / 2,
    A = sum lG(an) - lG(a0) + a0 log b0 - an log bn + log(k0/kn) / 2. The predictive is a product of Student's t
    densities with 2 an degrees of freedom (Murphy 2007, sec. 3).

    With `missing` a column counts its own data, because independent columns factorise: phi = (o, o x, o x^2) with o = 1
    for an observed cell and 0 for a missing one, theta = (-g_j, lam mu, -lam / 2) with the g_j of each column j, and
    g = 0. The posterior given the observed cells is exact if cells are missing at random.
    """

    name = "gaussian_diag"
    has_independent_columns = True
    hyper = {"mean_strength": "positive", "rate": "positive"}  # noqa: RUF012
    learned_by_default = ("mean_strength", "rate")
    mean: Any
    mean_strength: Any
    shape: Any
    rate: Any
    missing: bool

    def __init__(
        self,
        mean: npt.ArrayLike = "auto",
        mean_strength: npt.ArrayLike = "auto",
        shape: npt.ArrayLike = 2.0,
        rate: npt.ArrayLike = "auto",
        missing: bool = False,
    ) -> None:
        check_hyper(self.name, "mean", mean, positive=False)
        check_hyper(self.name, "mean_strength", mean_strength)
        if is_auto(shape):
            raise ValueError(f"{self.name}: shape must be a positive number, or one per column; got 'auto'")
        check_hyper(self.name, "shape", shape)
        check_hyper(self.name, "rate", rate)
        if missing not in (True, False):
            raise ValueError(f"{self.name}: missing must be True or False; got {missing!r}")
        self.mean, self.mean_strength, self.shape, self.rate = mean, mean_strength, shape, rate
        self.missing = missing

    @property
    def allows_missing(self) -> bool:  # type: ignore[override]
        """Return whether NaN stands for a cell that a row lacks."""
        return bool(self.missing)

    @property
    def nonnegative_statistics(self) -> npt.NDArray[np.bool_]:
        """Return which statistics are never negative: the counts of observed cells, (F,) bool."""
        self.require_bound()
        return np.arange(self.n_statistics_) < self.n_statistics_ - 2 * self.n_features_in_

    def resolve_rows(self, rows: AllRows) -> dict[str, Any]:
        """Return the hyper-parameters as (V,) arrays, and the learned attributes.

        These are center_, resolution_ and variance_floor_.
        """
        learned, variance = self.resolve_center(rows)
        d, name = rows.n_columns, self.name
        shape = per_column(name, "shape", self.shape, d)
        strength = PRIOR_SHARE if is_auto(self.mean_strength) else self.mean_strength
        if is_auto(self.rate):
            rate = np.maximum(shape - 1.0, 0.5) * PRIOR_SHARE * usable_variance(variance, name)
        else:
            rate = per_column(name, "rate", self.rate, d)
        mean = learned["center_"].copy() if is_auto(self.mean) else per_column(name, "mean", self.mean, d)
        strength = per_column(name, "mean_strength", strength, d)
        return {**learned, "mean": mean, "mean_strength": strength, "shape": shape, "rate": rate}

    def hyper_bounds(self, name: str) -> tuple[float, float]:
        """Return the bounds of a learned hyper-parameter, as factors of its value at binding.

        The rate stays so large that the prior variance of each column exceeds 0.001 of the column's variance, and the
        variance of rounding in columns with many tied values. A mean strength stays within 0.01 and 1.
        """
        if name != "rate":
            return strength_bounds(self._base_of(name))
        return self.scale_bounds(self._base_of("rate") / np.maximum(self.shape - 1.0, 0.5))

    def _evidence_along(self, name: str, n: Floats, S: Floats) -> Callable[[float], float]:
        """Return the sum of log evidences along a hyper-parameter, without the gamma terms."""
        count, S = self._counts_and_sums(n, S)
        of, other = (RateEvidence, self.mean_strength) if name == "rate" else (StrengthEvidence, self.rate)
        return of(count, S, self.mean - self.center_, self.shape, other, self._base_of(name))

    def _values(self, X):
        """Return the rows that the model is about: the data as float64, or their logarithms."""
        X = X.astype(np.float64)
        return np.log(X) if self.of_logs else X

    def sufficient_statistics(self, X: Any) -> Floats:
        """Return phi of each row about center_, float64.

        It is (x, x^2), or (o, o x, o x^2) if cells may be missing: (N, 2 V) or (N, 3 V).
        """
        X = np.ascontiguousarray(self._values(X))
        return (seen_columns_and_squares if self.missing else columns_and_squares)(X, self.center_)

    def log_base(self, X: Any) -> Floats:
        """Return the log base measure of each row, -log(2 pi) / 2 for each observed cell: (N,) nats."""
        observed = np.count_nonzero(~np.isnan(X), axis=1) if self.missing else np.full(X.shape[0], X.shape[1])
        return -0.5 * LOG_2PI * observed

    def _counts_and_sums(self, n, S):
        """Return counts (K, 1), or (K, d) if cells may be missing, and sums of (x, x^2): (K, 2 d)."""
        S, d = np.asarray(S, dtype=np.float64), self.n_features_in_
        return (S[:, :d], S[:, d:]) if self.missing else (np.asarray(n, dtype=np.float64)[:, None], S)

    def _posterior(self, n, S):
        """Return posterior strength, location, shape and rate, each (K, d), in centred coordinates."""
        *posterior, bad = posterior_of_columns(*self._counts_and_sums(n, S), *self._prior())
        self._check_rates(bad)
        return posterior

    def _prior(self):
        """Return location, strength, shape and rate, each (d,); the location is centred."""
        return self.mean - self.center_, self.mean_strength, self.shape, self.rate

    def _check_rates(self, bad):
        if bad >= 0:
            raise FloatingPointError(f"{self.name}: the posterior rate of cluster {bad} is not finite and positive")

    def log_marginal(self, n: Floats, S: Floats) -> Floats:
        """Return the log evidence A(n, S) of each cluster: (K,) nats, without log-base."""
        return self.log_marginal_by_column(n, S).sum(axis=1)

    def log_marginal_by_column(self, n: Floats, S: Floats) -> Floats:
        """Return the log evidence of each cluster and column: (K, V) nats, without log-base."""
        strength, _, shape, rate = self._posterior(n, S)
        gammas = gammaln(shape) - gammaln(self.shape)
        rates = self.shape * np.log(self.rate) - shape * np.log(rate)
        return gammas + rates + 0.5 * np.log(self.mean_strength / strength)

    def expected_natural(self, n: Floats, S: Floats) -> tuple[Floats, Floats]:
        """Return the posterior means (E theta, E g) of each cluster: (K, F) and (K,)."""
        strength, mean, shape, rate = self._posterior(n, S)
        precision = shape / rate
        g = 0.5 * (1.0 / strength + mean * mean * precision - psi(shape) + np.log(rate))
        return self._joined(mean * precision, -0.5 * precision, g)

    def _natural_law(self):
        """Return the compiled form of `expected_natural`."""
        return GaussianLaw(self, "open" if self.missing else "diagonal")

    def draw_natural(self, n: Floats, S: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Draw parameters (Theta, G) from the posterior of each cluster: (K, F) and (K,)."""
        strength, mean, shape, rate = self._posterior(n, S)
        precision = rng.standard_gamma(shape) / rate
        return self._natural(mean + rng.standard_normal(mean.shape) / np.sqrt(strength * precision), precision)

    def map_natural(self, n: Floats, S: Floats) -> tuple[Floats, Floats]:
        """Return the mode (Theta, G) of each posterior in natural coordinates: (K, F) and (K,).

        It has mean mn and precision (an - 3/2) / bn, with an - 3/2 at least 0.5.
        """
        theta, g, bad = modes_of_columns(*self._counts_and_sums(n, S), *self._prior())
        self._check_rates(bad)
        if self.missing:
            return np.concatenate([-g, theta], axis=1), np.zeros(len(g))
        return theta, g.sum(axis=1)

    def _natural(self, mean, precision):
        g = 0.5 * (mean * mean * precision - np.log(precision))
        return self._joined(mean * precision, -0.5 * precision, g)

    def _joined(self, first, second, g):
        """Return (Theta, G) from the natural parameters of each column and its g, each (K, d)."""
        if self.missing:
            return np.concatenate([-g, first, second], axis=1), np.zeros(len(g))
        return np.concatenate([first, second], axis=1), g.sum(axis=1)

    def _usual(self, theta):
        """Return centred means and precisions (K, d), and which rows lie inside the domain (K,).

        Means and precisions are NaN outside the domain.
        """
        d = self.n_features_in_
        theta = theta[:, -2 * d :]
        inside = (theta[:, d:] < 0).all(axis=1)
        precision = np.where(inside[:, None], -2.0 * theta[:, d:], np.nan)
        return theta[:, :d] / precision, precision, inside

    def log_prior(self, theta: Floats, g: Floats) -> Floats:
        """Return the unnormalised log prior density in natural coordinates: (K,) nats.

        It is -inf outside the domain.
        """
        return log_prior_of_columns(theta[:, -2 * self.n_features_in_ :], *self._prior())

    def log_partition(self, theta: Floats) -> Floats:
        """Return g of each natural parameter: (K,) nats; +inf outside the domain."""
        mean, precision, inside = self._usual(theta)
        natural, g = self._natural(mean, precision)
        if self.missing:  # of complete rows; 0 for all parameters that the other methods return
            d = self.n_features_in_
            g = (theta[:, :d] - natural[:, :d]).sum(axis=1)
        return np.where(inside, g, np.inf)

    def to_params(self, theta: Floats, g: Floats) -> dict[str, Floats]:
        """Return means (K, V) and variances (K, V) in the coordinates of the data."""
        mean, precision, _ = self._usual(theta)
        return {"mean": mean + self.center_, "variance": 1.0 / precision}

    def from_params(self, mean: npt.ArrayLike, variance: npt.ArrayLike) -> tuple[Floats, Floats]:
        """Return the natural parameters (Theta, G) of means (K, V) and variances (K, V)."""
        mean, variance = np.asarray(mean, dtype=np.float64), np.asarray(variance, dtype=np.float64)
        return self._natural(mean - self.center_, 1.0 / variance)

    def sample(self, theta: Floats, size: int, rng: np.random.Generator) -> Floats:
        """Draw `size` rows under each parameter: (K * size, V), grouped by parameter."""
        mean, precision, _ = self._usual(theta)
        noise = rng.standard_normal((theta.shape[0], size, self.n_features_in_))
        rows = (mean + self.center_)[:, None, :] + noise / np.sqrt(precision)[:, None, :]
        return rows.reshape(-1, self.n_features_in_)

    def components(
        self, data: Any, capacity: int, *, layout: Literal["features", "clusters"] = "features"
    ) -> DiagonalComponents | OpenDiagonalComponents:
        """Return the compiled owner of the statistics of `capacity` clusters."""
        return (OpenDiagonalComponents if self.missing else DiagonalComponents)(self, data, capacity)
