"""Independent Poisson columns with gamma priors that share one rate.

phi(x) = x, theta = log lambda, g = sum lambda. Because the columns share one rate, the predictive of a sparse row
costs O(nnz): zeros enter only through the total of the cluster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from scipy.special import digamma

from expfam.families.base import Family
from expfam.families.column_sums import means_of_rows
from expfam.families.counts import pseudocounts as counts
from expfam.families.counts._natural import CountLaw
from expfam.families.counts.components import CountComponents
from expfam.families.support import dense_rows

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from expfam.families.all_rows import AllRows
    from expfam.protocols import Floats


class Poisson(Family):
    """Independent Poisson counts with a Gamma(shape, rate) prior on each column's intensity.

    Parameters
    ----------
    shape : "auto", float or (V,) array_like, positive
        Shape a_w of the gamma prior. ``"auto"`` is rate * (mean of the column + 1 / N), so that prior and data have
        nearly the same mean.
    rate : "auto" or float, positive
        Rate b of the gamma prior, one number for all columns: the prior is worth b rows. ``"auto"`` is 1.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import Poisson
    >>> family = Poisson(shape=1.0, rate=1.0).bind([[2], [1]])
    >>> family.log_marginal(np.array([2.0]), np.array([[3.0]])).round(6)
    array([-2.60269])

    Notes
    -----
    A(n, S) = sum_w [log G(a_w + S_w) - log G(a_w)] + a log b - (a + S.) log(b + n) with a = sum a_w, S. = sum S_w.
    The predictive of a column is negative binomial with size a_w + S_w and success probability (b + n) / (b + n + 1).
    """

    name = "poisson"
    count_model: ClassVar[str] = "poisson"  # the model that the compiled components compute; subclasses inherit it
    support = "counts"
    accepts_sparse = True
    has_independent_columns = True
    hyper: ClassVar[dict] = {"shape": "positive", "rate": "positive"}
    shape: Any
    rate: Any

    def __init__(self, shape: npt.ArrayLike = "auto", rate: Literal["auto"] | float = "auto") -> None:
        counts.check_positive(shape, "shape", self.name)
        counts.check_positive(rate, "rate", self.name, scalar=True)
        self.shape = shape
        self.rate = rate

    def resolve_rows(self, rows: AllRows) -> dict[str, Any]:
        """Return shape and rate."""
        rate = counts.check_positive(self.rate, "rate", self.name, scalar=True)
        rate = 1.0 if isinstance(rate, str) else rate
        shape = counts.check_positive(self.shape, "shape", self.name, size=rows.n_columns)
        if isinstance(shape, str):
            shape = rate * (means_of_rows(rows) + 1.0 / max(rows.total_weight, 1.0))
        return {"shape": shape, "rate": rate}

    def sufficient_statistics(self, X: Any) -> Any:
        """Return the rows unchanged: (N, V), dense or CSR."""
        return X

    def log_base(self, X: Any) -> Floats:
        """Return minus the sum of log x! of each row: (N,) nats."""
        return -counts.row_log_gamma(X)

    def _total(self, S):
        a = self.shape
        return float(np.sum(a)) if np.ndim(a) else a * S.shape[1]

    def _length_term(self, total, n, s):
        # a log b - (a + s) log(b + n), in a form that is exactly 0 for an empty cluster
        return -total * np.log1p(n / self.rate) - s * np.log(self.rate + n)

    def log_marginal(self, n: Floats, S: Any) -> Floats:
        """Return the log evidence of each cluster: (K,) nats, without log-base.

        `S` (K, V) may be dense or CSR.
        """
        return counts.sum_log_rising(self.shape, S) + self._length_term(self._total(S), n, counts.row_sums(S))

    def log_marginal_by_column(self, n: Floats, S: Any) -> Floats:
        """Return the log evidence of each cluster and column: (K, V) nats, without log-base."""
        S, a = dense_rows(S), np.broadcast_to(self.shape, self.n_features_in_)
        return counts.log_rising(a, S) + self._length_term(a, np.asarray(n)[:, None], S)

    def separable(self) -> tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]:
        """Return the terms of the evidence by column; see `Family.separable`."""
        self.require_bound()
        a = self.shape
        total = self._total(np.broadcast_to(a, self.n_features_in_)[None])
        return lambda n, s: self._length_term(total, n, s), lambda w, s: counts.log_rising(counts.of_columns(a, w), s)

    def log_predictive(self, X: Any, n: Floats, S: Any) -> Floats:
        """Return the log probability of each row given each cluster's data: (N, K) nats.

        The log base measure is left out.
        """
        self.require_bound()
        return counts.predict(self, X, n, S)

    def expected_natural(self, n: Floats, S: Floats) -> tuple[Floats, Floats]:
        """Return the posterior means of log lambda (K, V) and of sum lambda (K,)."""
        theta = digamma(self.shape + S) - np.log(self.rate + n)[:, None]
        return theta, (self._total(S) + S.sum(axis=1)) / (self.rate + n)

    def _natural_law(self):
        """Return the compiled form of `expected_natural`."""
        return CountLaw(self)

    def draw_natural(self, n: Floats, S: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Draw log lambda (K, V) from the posterior; return it and sum lambda (K,)."""
        theta = counts.draw_log_gamma(self.shape + S, rng) - np.log(self.rate + n)[:, None]
        return theta, self.log_partition(theta)

    def map_natural(self, n: Floats, S: Floats) -> tuple[Floats, Floats]:
        """Return the posterior mode in natural coordinates (K, V), and sum lambda (K,).

        The mode is the log of (a_w + S_w) / (b + n).
        """
        theta = np.log(self.shape + S) - np.log(self.rate + n)[:, None]
        return theta, self.log_partition(theta)

    def log_prior(self, theta: Floats, g: Floats) -> Floats:
        """Return the log prior density in natural coordinates, up to a constant: (K,) nats."""
        return (self.shape * theta).sum(axis=1) - self.rate * np.asarray(g)

    def log_partition(self, theta: Floats) -> Floats:
        """Return the sum of the intensities: (K,)."""
        return np.exp(theta).sum(axis=1)

    def sample(self, theta: Floats, size: int, rng: np.random.Generator) -> Floats:
        """Draw `size` rows of counts under each parameter: (K * size, V), grouped by parameter."""
        return rng.poisson(np.repeat(np.exp(theta), size, axis=0)).astype(np.float64)

    def to_params(self, theta: Floats, g: Floats) -> dict[str, Floats]:
        """Return the intensities: ``{"rate": (K, V)}``."""
        return {"rate": np.exp(theta)}

    def from_params(self, rate: npt.ArrayLike) -> tuple[Floats, Floats]:
        """Return the natural parameters (theta, g) of positive intensities (K, V)."""
        rate = np.asarray(rate, dtype=np.float64)
        if rate.ndim != 2 or not (rate > 0).all():
            raise ValueError("poisson: rate must be a (K, V) array of positive numbers")
        return np.log(rate), rate.sum(axis=1)

    def n_free_parameters(self, n_clusters: int) -> int:
        """Return the number of intensities of some clusters."""
        self.require_bound()
        return n_clusters * self.n_statistics_

    def components(
        self, data: Any, capacity: int, *, layout: Literal["features", "clusters"] = "features"
    ) -> CountComponents:
        """Return compiled components; see `expfam.families.counts.components`."""
        return CountComponents(self, data, capacity, layout=layout)

    def pseudocounts(self) -> tuple[Floats, Floats]:
        """Return the pseudo-counts of the columns (V,) and their total (1,)."""
        a = np.ascontiguousarray(np.broadcast_to(np.asarray(self.shape, dtype=np.float64), self.n_features_in_))
        return a, np.array([self._total(a[None])])
