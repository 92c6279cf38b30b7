"""Log-normal clusters: diagonal Gaussian clusters of the logarithms of positive data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from expfam.errors import SupportError
from expfam.families.gaussian.diagonal import DiagonalGaussian
from expfam.families.support import first_where, left_out

if TYPE_CHECKING:
    import numpy.typing as npt

    from expfam.protocols import Floats


class LogNormal(DiagonalGaussian):
    """Independent positive columns whose logarithms are Gaussian, under normal-gamma priors.

    It suits amounts, durations and sizes, which differ by factors and not by differences. A change of the unit of a
    column changes no label.

    Parameters
    ----------
    mean : "auto", float or (V,) array_like
        Prior location of log x; the column means of log x if "auto".
    mean_strength : "auto", float or (V,) array_like
        Strength of the prior location, as a number of data; 0.1 if "auto".
    shape : float or (V,) array_like
        Shape of the gamma prior on each precision of log x.
    rate : "auto", float or (V,) array_like
        Rate of the gamma prior. "auto" is that of `DiagonalGaussian` for log x.
    missing : bool
        Whether NaN stands for a cell that a row lacks, as for `DiagonalGaussian`.
    alike : "auto", bool or (V,) array_like of bool
        Whether log x of a column is alike in all clusters; learned if "auto", as for `DiagonalGaussian`.

    Attributes
    ----------
    center_ : (V,) float64 ndarray
        Column means of log x at binding; statistics are sums about them.
    spread_ : (V,) float64 ndarray
        Column variances of log x at binding.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import LogNormal, Mixture
    >>> X = np.exp(np.repeat([[0.0], [5.0]], 20, axis=0) + 0.1 * np.random.default_rng(0).normal(size=(40, 1)))
    >>> Mixture(LogNormal(), random_state=0).fit(X).cluster_sizes_
    array([20, 20])

    Notes
    -----
    It is `DiagonalGaussian` of log x, with the log base measure - sum log x in addition.
    """

    name = "lognormal"
    support = "nonnegative"
    bounds = (np.nextafter(0.0, 1.0), np.inf)  # zero itself has no logarithm
    of_logs: ClassVar[bool] = True
    asks_for_extremes = False  # it asks for those of the logarithms

    def validate(self, X: Any) -> Any:
        """Check that the data are positive; see `Family.validate`."""
        try:
            return super().validate(X)
        except SupportError:
            row, column, value = first_where(np.asarray(X), lambda v: v <= 0)  # type: ignore[misc]
            raise SupportError(
                f"{self.name} needs positive values; row {row}, column {column} holds {value}"
                f"{': Negative values in data' * (value < 0)}: take gaussian_diag, or"
                f" {left_out('(numpy.asarray(X, float) > 0).all(axis=1)')}"
            ) from None

    def log_base(self, X: Any) -> Floats:
        """Return the log base measure of each row: (N,) nats.

        It is the sum of -log(2 pi) / 2 - log x over the observed cells.
        """
        return super().log_base(X) - np.nansum(self._values(X), axis=1)

    def to_params(self, theta: Floats, g: Floats) -> dict[str, Floats]:
        """Return means, medians and variances (K, V) of the data themselves.

        A mean or variance beyond the largest float64 is infinite.
        """
        location, variance = super().to_params(theta, g).values()
        with np.errstate(over="ignore"):
            mean = np.exp(location + 0.5 * variance)
            return {"mean": mean, "variance": mean * mean * np.expm1(variance), "median": np.exp(location)}

    def from_params(self, mean: npt.ArrayLike, variance: npt.ArrayLike) -> tuple[Floats, Floats]:
        """Return the natural parameters (Theta, G) of means (K, V) and variances (K, V) of the data.

        Parameters
        ----------
        mean : (K, V) array_like of positive float
            Means of the data themselves, not of their logarithms.
        variance : (K, V) array_like of positive float
            Variances of the data themselves.

        Returns
        -------
        theta, g
            As of `DiagonalGaussian.from_params`.
        """
        mean = np.asarray(mean, dtype=np.float64)
        spread = np.log1p(np.asarray(variance, dtype=np.float64) / (mean * mean))
        return super().from_params(np.log(mean) - 0.5 * spread, spread)

    def sample(self, theta: Floats, size: int, rng: np.random.Generator) -> Floats:
        """Draw `size` rows under each parameter: (K * size, V), grouped by parameter."""
        with np.errstate(over="ignore", under="ignore"):
            rows = np.exp(super().sample(theta, size, rng))
        return np.clip(rows, np.finfo(np.float64).tiny, np.finfo(np.float64).max)  # a float64 has no wider range
