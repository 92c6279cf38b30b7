"""What a variational topic model sums over documents, and the pseudo-counts that raise its bound.

Of the documents' part of the bound the pseudo-counts of topics, alpha, enter as log G(A) - log G(A + N_d) +
sum_k f(alpha_k, N_dk) with f(a, n) = log G(a + n) - log G(a). Lower bounds that touch at the present alpha stand for
them: the first part is convex in A, hence above its tangent; f is convex in log a for n >= 1 (Minka 2000, "Estimating a
Dirichlet distribution"), and for any n f = log G(a + 1 + n) - log G(a + 1) - log(1 + n / a), of which the first
difference is convex in log a (psi(a + 1 + n) - psi(a + 1) is the Laplace transform of a decreasing function) and the
rest in 1 / a. So the bound is above constant + sum_k [c_k log alpha_k - d_k / alpha_k] - b A: sums of c, d and b over
documents are all that learning alpha needs. No counts of documents are kept, and a batch that is visited again
replaces its own.

# Departs from Minka 2000: counts below 1, for which a tangent in log a alone is no bound, have one in 1 / a too.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy import sparse
from scipy.special import gammaln, psi

from expfam.samplers.sums import Additive

LEAST = 1e-3  # pseudo-count of a topic; a topic without documents would end at 0, and never come back
_LEAST_ETA = 1e-6
_ETA_STEPS, _ETA_TOL = 5, 1e-2
_BLOCK = 1 << 20  # counts looked at in one go
_SPARSE_SHARE = 0.6  # of counts that are not 0, below which CSR is the smaller


@dataclass
class TopicSums(Additive):
    """Sums over some documents.

    Attributes
    ----------
    counts : (V, K) float64 ndarray
        Expected number of tokens of each word in each topic.
    rising : (2, K) float64 ndarray
        c and d of the tangents; 0 where alpha is not learned.
    falling : float
        b of the tangents.
    rest : float
        What the bound has of the documents beside topics and tangents, nats.
    weight : float
        Number of documents, or their multiplicities.
    """

    counts: np.ndarray
    rising: np.ndarray
    falling: float = 0.0
    rest: float = 0.0
    weight: float = 0.0

    kept_positive: ClassVar[str] = "counts"

    @classmethod
    def zeros(cls, n_words, n_topics):
        """Of no documents."""
        return cls.of_counts(np.zeros((n_words, n_topics)))

    @classmethod
    def of_counts(cls, counts, *, rest=0.0, weight=0.0):
        """Of words in topics (V, K) whose documents are not known."""
        return cls(counts, np.zeros((2, counts.shape[1])), rest=rest, weight=weight)

    def bound(self, alpha, eta):
        """Lower bound of the log evidence of the documents, nats; `alpha` (K,), `eta` (V,)."""
        return self.documents_bound(alpha) + log_evidence_of_topics(self.counts, eta)

    def documents_bound(self, alpha):
        """Documents' part of the bound, nats."""
        return self.rest + self._tangent(alpha)

    def _tangent(self, alpha):
        c, d = self.rising
        return float((c * np.log(alpha) - d / alpha).sum() - self.falling * alpha.sum())

    def add_tangent(self, alpha, topics, N, weight, lengths):
        """Take the tangent at `alpha` of documents whose bounds are already in `rest`.

        Parameters
        ----------
        alpha : (K,) float64 ndarray
        topics, N : (P,) ndarrays
            Topics of the documents and their counts.
        weight : (P,) float64 ndarray or float
            Of the document of each of these.
        lengths : (weights, tokens) of the documents, ndarrays (R,) or weights a float
        """
        fresh = TopicSums(self.counts, np.zeros_like(self.rising))
        for row, slopes in zip(fresh.rising, rising_slopes(alpha[topics], N)):
            row += np.bincount(topics, weights=weight * slopes, minlength=len(alpha))
        times, tokens = lengths
        fresh.falling = float((times * (psi(alpha.sum() + tokens) - psi(alpha.sum()))).sum())
        self.rest -= fresh._tangent(alpha)
        self.rising += fresh.rising
        self.falling += fresh.falling

    def best_alpha(self, alpha):
        """Pseudo-counts of topics at which the tangents' bound is largest, or the present ones without a tangent."""
        return np.maximum(largest(*self.rising, self.falling), LEAST) if self.falling > 0 else alpha

    def without_counts(self):
        """The same with no counts of words: what a batch is remembered by beside its responsibilities."""
        return self.with_counts(np.zeros((0, self.rising.shape[1])))

    def with_counts(self, counts):
        """The same with other counts of words."""
        return TopicSums(counts, self.rising, self.falling, self.rest, self.weight)

    def add_rest(self, other):
        """Add all but the counts of words, in place."""
        self.rising += other.rising
        self.falling += other.falling
        self.rest += other.rest
        self.weight += other.weight

    # ---- storage -----------------------------------------------------------------------------------------------------

    def compact(self):
        """The same with CSR counts, where these are the smaller."""
        if np.count_nonzero(self.counts) > _SPARSE_SHARE * self.counts.size:
            return self
        return self.with_counts(sparse.csr_array(self.counts))

    def dense(self):
        """The same with counts as an array."""
        return self.with_counts(self.counts.toarray()) if sparse.issparse(self.counts) else self

    def to_arrays(self):
        """As a dict of arrays."""
        scalars = np.array([self.falling, self.rest, self.weight])
        return {"counts": self.counts.copy(), "rising": self.rising.copy(), "scalars": scalars}

    @classmethod
    def from_arrays(cls, arrays):
        """What `to_arrays` gave."""
        counts = arrays["counts"]
        counts = sparse.csr_array(counts) if sparse.issparse(counts) else np.array(counts)
        return cls(counts, np.array(arrays["rising"]), *(float(v) for v in arrays["scalars"]))


def log_evidence_of_topics(word_counts, eta):
    """Sum over topics of log B(eta + counts) - log B(eta): nats."""
    total = eta.sum()
    v, k = np.nonzero(word_counts > 0)
    inner = (gammaln(eta[v] + word_counts[v, k]) - gammaln(eta)[v]).sum()
    return float(inner - (gammaln(total + word_counts.sum(axis=0)) - gammaln(total)).sum())


def rising_slopes(a, n):
    """Slopes c in log a and d in -1 / a of a lower bound of log G(a + n) - log G(a) that touches it, n positive."""
    is_small = n < 1.0
    c = a * (psi(a + is_small + n) - psi(a + is_small))
    return c, np.where(is_small, n * a / (a + n), 0.0)


def largest(c, d, b):
    """Where c log a - d / a - b a is largest, for b positive."""
    return (c + np.sqrt(c * c + 4.0 * b * d)) / (2.0 * b)


def better_shared_pseudocount(word_counts, eta):
    """Pseudo-count of all words in all topics that raises their log evidence, in a few steps.

    Parameters
    ----------
    word_counts : (V, K) float64 ndarray
    eta : float
        The present one.

    Returns
    -------
    float
    """
    n_words, sizes = len(word_counts), word_counts.sum(axis=0)
    flat = word_counts.ravel()
    for _ in range(_ETA_STEPS):
        c = d = 0.0
        for start in range(0, len(flat), _BLOCK):
            block = flat[start : start + _BLOCK]
            slopes = rising_slopes(eta, block[block > 0])
            c, d = c + float(slopes[0].sum()), d + float(slopes[1].sum())
        b = n_words * float((psi(n_words * eta + sizes) - psi(n_words * eta)).sum())
        if not b > 0:
            return eta
        before, eta = eta, max(float(largest(c, d, b)), _LEAST_ETA)
        if abs(eta - before) <= _ETA_TOL * before:
            break
    return eta


__all__ = ["TopicSums", "better_shared_pseudocount", "log_evidence_of_topics"]
