"""Independent Poisson columns with gamma priors that share one rate.

phi(x) = x, theta = log lambda, g = sum lambda. The shared rate keeps the predictive of a sparse row at O(nnz): the
zeros enter through the cluster's total alone.
"""

from typing import ClassVar

import numpy as np
from scipy.special import digamma

from expfam.families.base import Family
from expfam.families.counts import pseudocounts as counts
from expfam.families.counts.components import CountComponents


class Poisson(Family):
    """Independent Poisson counts with a Gamma(shape, rate) prior on the intensity of each column.

    Parameters
    ----------
    shape : "auto", float or (V,) array_like, positive
        Shape a_w of the gamma prior. ``"auto"`` is rate * (mean of the column + 1 / N), so that prior and data agree
        in the mean.
    rate : "auto" or float, positive
        Rate b of the gamma prior, the number of rows it is worth; one for all columns. ``"auto"`` is 1.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import Poisson
    >>> family = Poisson(shape=1.0, rate=1.0).bind([[2], [1]])
    >>> family.log_marginal(np.array([2.0]), np.array([[3.0]])).round(6)
    array([-2.60269])

    Notes
    -----
    A(n, S) = sum_w [log G(a_w + S_w) - log G(a_w)] + a log b - (a + S.) log(b + n) with a = sum a_w, S. = sum S_w;
    the predictive of a column is negative binomial with size a_w + S_w and success probability
    (b + n) / (b + n + 1).
    """

    name = "poisson"
    count_model: ClassVar[str] = "poisson"  # what the compiled components are to compute; subclasses inherit it
    support = "counts"
    accepts_sparse = True
    hyper: ClassVar[dict] = {"shape": "positive", "rate": "positive"}

    def __init__(self, shape="auto", rate="auto"):
        counts.check_positive(shape, "shape", self.name)
        counts.check_positive(rate, "rate", self.name, scalar=True)
        self.shape = shape
        self.rate = rate

    def resolve(self, X):
        """Shape and rate."""
        rate = counts.check_positive(self.rate, "rate", self.name, scalar=True)
        rate = 1.0 if isinstance(rate, str) else rate
        shape = counts.check_positive(self.shape, "shape", self.name, size=X.shape[1])
        if isinstance(shape, str):
            shape = rate * (counts.column_means(X) + 1.0 / X.shape[0])
        return {"shape": shape, "rate": rate}

    def sufficient_statistics(self, X):
        """The rows themselves: (N, V), dense or CSR."""
        return X

    def log_base(self, X):
        """Minus the sum of log x! of each row, nats: (N,) float64."""
        return -counts.row_log_gamma(X)

    def _total(self, S):
        a = self.shape
        return float(np.sum(a)) if np.ndim(a) else a * S.shape[1]

    def _length_term(self, total, n, s):
        # a log b - (a + s) log(b + n), written so that an empty cluster gives exactly 0
        return -total * np.log1p(n / self.rate) - s * np.log(self.rate + n)

    def log_marginal(self, n, S):
        """Log evidence of each cluster, nats, without log-base: (K,); `S` (K, V) dense or CSR."""
        return counts.sum_log_rising(self.shape, S) + self._length_term(self._total(S), n, counts.row_sums(S))

    def separable(self):
        """Terms of the evidence by column: see `Family.separable`."""
        self.require_bound()
        a = self.shape
        total = self._total(np.broadcast_to(a, self.n_features_in_)[None])
        return lambda n, s: self._length_term(total, n, s), lambda w, s: counts.log_rising(counts.of_columns(a, w), s)

    def log_predictive(self, X, n, S):
        """Log probability of each row given each cluster's data, nats, without log-base: (N, K) float64."""
        self.require_bound()
        return counts.predict(self, X, n, S)

    def expected_natural(self, n, S):
        """Posterior means of log lambda, (K, V), and of sum lambda, (K,)."""
        theta = digamma(self.shape + S) - np.log(self.rate + n)[:, None]
        return theta, (self._total(S) + S.sum(axis=1)) / (self.rate + n)

    def draw_natural(self, n, S, rng):
        """log lambda drawn from the posterior, (K, V), and sum lambda, (K,)."""
        theta = counts.draw_log_gamma(self.shape + S, rng) - np.log(self.rate + n)[:, None]
        return theta, self.log_partition(theta)

    def map_natural(self, n, S):
        """Mode in natural coordinates, log of (a_w + S_w) / (b + n), (K, V), and sum lambda, (K,)."""
        theta = np.log(self.shape + S) - np.log(self.rate + n)[:, None]
        return theta, self.log_partition(theta)

    def log_prior(self, theta, g):
        """Log density of the prior in natural coordinates, up to a constant, nats: (K,)."""
        return (self.shape * theta).sum(axis=1) - self.rate * np.asarray(g)

    def log_partition(self, theta):
        """Sum of the intensities: (K,)."""
        return np.exp(theta).sum(axis=1)

    def sample(self, theta, size, rng):
        """Rows of counts, `size` of each cluster in turn: (K * size, V) float64."""
        return rng.poisson(np.repeat(np.exp(theta), size, axis=0)).astype(np.float64)

    def to_params(self, theta, g):
        """Intensities: ``{"rate": (K, V)}``."""
        return {"rate": np.exp(theta)}

    def from_params(self, rate):
        """Natural parameters (theta, g) of intensities (K, V), which must be positive."""
        rate = np.asarray(rate, dtype=np.float64)
        if rate.ndim != 2 or not (rate > 0).all():
            raise ValueError("poisson: rate must be a (K, V) array of positive numbers")
        return np.log(rate), rate.sum(axis=1)

    def components(self, data, capacity, *, layout="features"):
        """Compiled components; see `expfam.families.counts.components`."""
        return CountComponents(self, data, capacity, layout=layout)

    def pseudocounts(self):
        """Prior counts of the columns of phi (F,) and their total as an array of one."""
        a = np.ascontiguousarray(np.broadcast_to(np.asarray(self.shape, dtype=np.float64), self.n_features_in_))
        return a, np.array([self._total(a[None])])
