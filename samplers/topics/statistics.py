"""What a variational topic model sums over documents, and the pseudo-count of words that raises its bound.

Pseudo-counts of topics, alpha, are learned from tangents of the documents' urns, which are among the sums: no counts of
documents are kept, and a batch that is visited again replaces its own.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy import sparse
from scipy.special import gammaln, psi

from expfam.errors import ArchiveError
from expfam.samplers.variational.alpha_bound import UrnTangents, largest, rising_slopes
from expfam.samplers.variational.statistics import Additive
from expfam.structures.ground.stored import numbers

LEAST = 1e-3  # pseudo-count of a topic; a topic without documents would end at 0, and never come back
_LEAST_ETA = 1e-6
_ETA_STEPS, _ETA_TOL = 5, 1e-2
_BLOCK = 1 << 20  # counts looked at in one go
_SPARSE_SHARE = 0.6  # of counts that are not 0, below which CSR is the smaller


@dataclass
class TopicSums(UrnTangents, Additive):
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
    least_alpha: ClassVar[float] = LEAST

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
    def from_arrays(cls, arrays, shape):
        """What `to_arrays` gave; ArchiveError unless the counts have that shape (V, K)."""
        counts = arrays["counts"]
        if sparse.issparse(counts):
            numbers({"counts": counts.data}, "counts", (None,), low=0.0)
            counts = sparse.csr_array(counts)
            if counts.shape != tuple(shape):
                raise ArchiveError(f"the counts have shape {counts.shape}, not {tuple(shape)}: the file was altered")
        else:
            counts = numbers(arrays, "counts", shape, low=0.0)
        rising = numbers(arrays, "rising", (2, counts.shape[1]))
        return cls(counts, rising, *numbers(arrays, "scalars", (3,)).tolist())


def log_evidence_of_topics(word_counts, eta):
    """Sum over topics of log B(eta + counts) - log B(eta): nats."""
    total = eta.sum()
    v, k = np.nonzero(word_counts > 0)
    inner = (gammaln(eta[v] + word_counts[v, k]) - gammaln(eta)[v]).sum()
    return float(inner - (gammaln(total + word_counts.sum(axis=0)) - gammaln(total)).sum())


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
