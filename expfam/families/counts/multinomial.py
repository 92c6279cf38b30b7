"""Count documents: multinomial rows with a Dirichlet prior on the probabilities of the words.

phi(x) = x, theta = log p and g = 0 (the gauge used in every method), so a cluster is its summed counts. The evidence
separates over words, which is what word-major tables and inverted indices live on. O(nnz) throughout.
"""

import math
import warnings
from typing import ClassVar

import numpy as np
from scipy.special import digamma, gammaln

from expfam.errors import DataWarning
from expfam.families.base import Family
from expfam.families.counts import pseudocounts as counts
from expfam.families.counts.components import CountComponents


class Multinomial(Family):
    """Rows of counts with a Dirichlet prior on the probabilities of the columns.

    Parameters
    ----------
    concentration : "auto", float or (V,) array_like, positive
        Pseudo-counts of the Dirichlet prior. ``"auto"`` is min(0.5, 500 / V): a total mass of at most 500.
    allow_fractional : bool
        Accept non-negative weights that are not integers, such as tf-idf.

    Attributes
    ----------
    length_ : int
        Tokens of a typical row, the rounded mean (at least 1); what `sample` draws. Set by `bind`.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import Multinomial
    >>> family = Multinomial(concentration=1.0).bind([[2, 0], [1, 1]])
    >>> family.log_marginal(np.array([2.0]), np.array([[3.0, 1.0]])).round(6)
    array([-2.995732])

    Notes
    -----
    A(n, S) = sum_w [log G(a_w + S_w) - log G(a_w)] - log G(a + S.) + log G(a) with a = sum a_w and S. = sum S_w
    (Ahmed et al. 2012, eq. 18, is the difference of two of them). Empty rows are legal: their evidence is 0.
    """

    name = "multinomial"
    count_model: ClassVar[str] = "multinomial"  # what the compiled components are to compute; subclasses inherit it
    support = "counts"
    accepts_sparse = True
    hyper: ClassVar[dict] = {"concentration": "positive"}
    learned_by_default: ClassVar[tuple] = ("concentration",)

    def __init__(self, concentration="auto", allow_fractional=False):
        counts.check_positive(concentration, "concentration", self.name)
        self.concentration = concentration
        self.allow_fractional = allow_fractional

    def resolve(self, X):
        """Concentration, and the typical number of tokens of a row."""
        n_words = X.shape[1]
        a = counts.check_positive(self.concentration, "concentration", self.name, size=n_words)
        totals = counts.row_sums(X)
        empty = np.flatnonzero(totals == 0)
        if empty.size:
            warnings.warn(
                f"multinomial: {empty.size} of {X.shape[0]} rows are empty, the first is row {empty[0]};"
                " only the prior of the weights decides their cluster",
                DataWarning,
                stacklevel=3,
            )
        return {
            "concentration": min(0.5, 500.0 / n_words) if isinstance(a, str) else a,
            "length_": max(1, round(math.fsum(totals) / X.shape[0])),
        }

    def sufficient_statistics(self, X):
        """The rows themselves: (N, V), dense or CSR."""
        return X

    def log_base(self, X):
        """Log multinomial coefficient of each row, nats: (N,) float64."""
        return gammaln(counts.row_sums(X) + 1.0) - counts.row_log_gamma(X)

    def _total(self, S):
        a = self.concentration
        return float(np.sum(a)) if np.ndim(a) else a * S.shape[1]

    def log_marginal(self, n, S):
        """Log evidence of each cluster, nats, without log-base: (K,); `S` (K, V) dense or CSR."""
        return counts.sum_log_rising(self.concentration, S) - counts.log_rising(self._total(S), counts.row_sums(S))

    def separable(self):
        """Terms of the evidence by column: see `Family.separable`."""
        self.require_bound()
        a = self.concentration
        total = self._total(np.broadcast_to(a, self.n_features_in_)[None])
        return lambda n, s: -counts.log_rising(total, s), lambda w, s: counts.log_rising(counts.of_columns(a, w), s)

    def log_predictive(self, X, n, S):
        """Log probability of each row given each cluster's data, nats, without log-base: (N, K) float64."""
        self.require_bound()
        return counts.predict(self, X, n, S)

    def expected_natural(self, n, S):
        """Posterior mean of log p, (K, V), and g = 0, (K,)."""
        theta = digamma(self.concentration + S) - digamma(self._total(S) + S.sum(axis=1, keepdims=True))
        return theta, np.zeros(S.shape[0])

    def draw_natural(self, n, S, rng):
        """log p drawn from the posterior Dirichlet, (K, V), and g = 0, (K,)."""
        return counts.log_normalise(counts.draw_log_gamma(self.concentration + S, rng)), np.zeros(S.shape[0])

    def map_natural(self, n, S):
        """Mode in natural coordinates, log of (a_w + S_w) / (a + S.), (K, V), and g = 0, (K,)."""
        p = (self.concentration + S) / (self._total(S) + S.sum(axis=1, keepdims=True))
        return np.log(p), np.zeros(S.shape[0])

    def log_prior(self, theta, g):
        """Log density of the prior in natural coordinates, up to a constant, nats: (K,)."""
        return (self.concentration * theta).sum(axis=1)

    def log_partition(self, theta):
        """Log normaliser of a row of `length_` tokens: (K,); 0 where theta is a vector of log probabilities."""
        top = theta.max(axis=1)
        return self._length() * (top + np.log(np.exp(theta - top[:, None]).sum(axis=1)))

    def _length(self):
        return getattr(self, "length_", 1)

    def sample(self, theta, size, rng):
        """Rows of `length_` tokens (1 if unbound), `size` of each cluster in turn: (K * size, V) float64."""
        p = np.exp(counts.log_normalise(np.asarray(theta, dtype=np.float64)))
        return np.concatenate([rng.multinomial(self._length(), row, size=size) for row in p]).astype(np.float64)

    def to_params(self, theta, g):
        """Probabilities of the columns: ``{"probability": (K, V)}``."""
        return {"probability": np.exp(counts.log_normalise(np.asarray(theta, dtype=np.float64)))}

    def from_params(self, probability):
        """Natural parameters (theta, g) of rows of probabilities (K, V), which must be positive."""
        p = np.asarray(probability, dtype=np.float64)
        if p.ndim != 2 or not (p > 0).all():
            raise ValueError("multinomial: probability must be a (K, V) array of positive numbers")
        return np.log(p / p.sum(axis=1, keepdims=True)), np.zeros(p.shape[0])

    def components(self, data, capacity, *, layout="features"):
        """Compiled components; see `expfam.families.counts.components`."""
        return CountComponents(self, data, capacity, layout=layout)

    def pseudocounts(self):
        """Prior counts of the columns of phi (F,) and of each block of columns that shares a total (one here)."""
        a = np.ascontiguousarray(np.broadcast_to(np.asarray(self.concentration, dtype=np.float64), self.n_features_in_))
        return a, np.array([self._total(a[None])])
