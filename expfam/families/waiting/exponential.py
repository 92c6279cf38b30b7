"""Independent exponential columns with gamma priors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import digamma, gammaln

from expfam.errors import DataWarning
from expfam.families.base import Family
from expfam.families.column_sums import means_of_rows
from expfam.families.independent_columns import check_positive, draw_log_gamma, resolved
from expfam.families.support import check_scales
from expfam.user_warnings import warn

if TYPE_CHECKING:
    import numpy.typing as npt

    from expfam.families.all_rows import AllRows
    from expfam.protocols import Floats


class Exponential(Family):
    """Independent waiting times with a Gamma(a, b) prior on the rate of each column.

    Parameters
    ----------
    a : float or (V,) array_like, positive
        Shape of the prior.
    b : "auto", float or (V,) array_like, positive
        Rate of the prior, in the unit of the data. If ``"auto"``, the prior mean of 1 / rate is the column's mean.

    Examples
    --------
    >>> from expfam import Exponential, Mixture
    >>> Mixture(Exponential(a=2.0), 2, random_state=0).fit([[0.1], [0.2], [0.1], [90.0], [70.0], [80.0]]).labels_
    array([0, 0, 0, 1, 1, 1], dtype=int32)

    Notes
    -----
    theta = -rate, g = -sum log rate; the predictive of a column is Lomax(a + n, b + S).
    """

    support = "nonnegative"
    has_independent_columns = True
    hyper = {"a": "positive", "b": "positive"}
    a: Any
    b: Any

    def __init__(self, a: npt.ArrayLike = 2.0, b: npt.ArrayLike = "auto") -> None:
        self.a, self.b = a, b
        check_positive(self)

    def resolve_rows(self, rows: AllRows) -> dict[str, Any]:
        mean = means_of_rows(rows)
        zero = np.flatnonzero(mean == 0)
        if zero.size:
            message = f"exponential: column {zero[0]} holds zeros only; its prior uses a mean of 1"
            warn(message, DataWarning)
            mean[zero] = 1.0
        check_scales(mean**2, family=self.name)  # the standard deviation of a waiting time is its mean
        a = np.asarray(2.0 if isinstance(self.a, str) else self.a, dtype=np.float64)
        return resolved(self, rows.n_columns, a=np.full(rows.n_columns, 2.0), b=np.maximum(a - 1.0, 0.5) * mean)

    def sufficient_statistics(self, X: Any) -> Any:
        return X

    def log_marginal(self, n: Floats, S: Floats) -> Floats:
        return self.log_marginal_by_column(n, S).sum(axis=1)

    def log_marginal_by_column(self, n: Floats, S: Floats) -> Floats:
        shape = self.a + n[:, None]
        ratio = gammaln(shape) - gammaln(self.a) - n[:, None] * np.log(self.b)
        return ratio - shape * np.log1p(S / self.b)

    def expected_natural(self, n: Floats, S: Floats) -> tuple[Floats, Floats]:
        shape, rate = self.a + n[:, None], self.b + S
        return -shape / rate, (np.log(rate) - digamma(shape)).sum(axis=1)

    def draw_natural(self, n: Floats, S: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
        shape = np.broadcast_to(self.a + n[:, None], S.shape)
        log_rate = draw_log_gamma(shape, rng) - np.log(self.b + S)
        return -np.exp(log_rate), -log_rate.sum(axis=1)

    def map_natural(self, n: Floats, S: Floats) -> tuple[Floats, Floats]:
        """Return the mode theta (K, F) of each posterior in natural coordinates, and its g (K,).

        It exists if a + n > 1; otherwise a + n - 1 is replaced by 1e-3.
        """
        rate = np.maximum(self.a + n[:, None] - 1.0, 1e-3) / (self.b + S)
        return -rate, -np.log(rate).sum(axis=1)

    def log_prior(self, theta: Floats, g: Floats) -> Floats:
        return ((np.asarray(self.a) - 1.0) * np.log(-theta) + self.b * theta).sum(axis=1)

    def log_partition(self, theta: Floats) -> Floats:
        return -np.log(-theta).sum(axis=1)

    def to_params(self, theta: Floats, g: Floats) -> dict[str, Floats]:
        return {"mean": -1.0 / theta, "rate": -theta}

    def sample(self, theta: Floats, size: int, rng: np.random.Generator) -> Floats:
        return rng.exponential(np.repeat(-1.0 / theta, size, axis=0))

    def n_free_parameters(self, n_clusters: int) -> int:
        """Return the number of rates of some clusters."""
        self.require_bound()
        return n_clusters * self.n_statistics_
