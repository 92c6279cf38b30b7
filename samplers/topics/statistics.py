"""Sums over documents of a variational topic model, and its pseudo-count of words.

Pseudo-counts of topics, alpha, are learned from tangents of the documents' part of the bound. The tangents are among
the sums: no counts of documents are kept, and a batch that comes again replaces its own sums.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.special import gammaln, psi

from expfam.samplers.variational.alpha_bound import PseudoCountBound, largest, rising_slopes
from expfam.samplers.variational.statistics import Additive
from expfam.structures.ground.stored import matrix, numbers

LEAST = 1e-3  # least pseudo-count of a topic; a topic without documents would fall to 0 and never grow again
_LEAST_ETA = 1e-6
_ETA_STEPS, _ETA_TOL = 5, 1e-2
_BLOCK = 1 << 20  # counts in one block of the sums over all words and topics
_SPARSE_SHARE = 0.6  # share of non-zero counts below which CSR needs less memory


@dataclass
class TopicSums(PseudoCountBound, Additive):
    """Sums over some documents.

    Attributes
    ----------
    counts : (V, K) float64 ndarray
        Expected number of tokens of each word in each topic; CSR after `compact`.
    rising : (2, K) float64 ndarray
        Slopes c and d of the tangents; 0 where alpha is not learned.
    falling : float
        Slope b of the tangents.
    rest : float
        Documents' part of the bound without the tangents, nats.
    weight : float
        Number of documents, or the sum of their weights.
    """

    counts: Any
    rising: npt.NDArray[np.float64]
    falling: float = 0.0
    rest: float = 0.0
    weight: float = 0.0

    kept_positive: ClassVar[str] = "counts"
    least_alpha: ClassVar[float] = LEAST

    @classmethod
    def zeros(cls, n_words: int, n_topics: int) -> TopicSums:
        """Return the sums over no documents."""
        return cls.of_counts(np.zeros((n_words, n_topics)))

    @classmethod
    def of_counts(cls, counts: npt.NDArray[np.float64], *, rest: float = 0.0, weight: float = 0.0) -> TopicSums:
        """Return the sums with given counts of words in topics (V, K), without tangents.

        Parameters
        ----------
        counts : (V, K) float64 ndarray
            Counts of words in topics.
        rest : float
            Documents' part of the bound, nats.
        weight : float
            Number of documents, or the sum of their weights.
        """
        return cls(counts, np.zeros((2, counts.shape[1])), rest=rest, weight=weight)

    def bound(self, alpha: npt.NDArray[np.float64], eta: npt.NDArray[np.float64], seeds: Any = None) -> float:
        """Return the lower bound of the documents' log evidence, nats.

        Parameters
        ----------
        alpha : (K,) float64 ndarray
            Pseudo-count of each topic in a document.
        eta : (V,) float64 ndarray
            Pseudo-count of each word in a topic.
        seeds : (V, K) CSR, optional
            Further pseudo-counts of words in topics.
        """
        return self.documents_bound(alpha) + log_evidence_of_topics(self.counts, eta, seeds)

    def without_counts(self) -> TopicSums:
        """Return the sums without counts of words.

        A batch is remembered by these and its responsibilities, from which the counts follow.
        """
        return self.with_counts(np.zeros((0, self.rising.shape[1])))

    def with_counts(self, counts: Any) -> TopicSums:
        """Return the sums with other counts of words."""
        return TopicSums(counts, self.rising, self.falling, self.rest, self.weight)

    # ---- storage -----------------------------------------------------------------------------------------------------

    def compact(self) -> TopicSums:
        """Return the sums with CSR counts where these need less memory, else the sums themselves."""
        if np.count_nonzero(self.counts) > _SPARSE_SHARE * self.counts.size:
            return self
        return self.with_counts(sparse.csr_array(self.counts))

    def dense(self) -> TopicSums:
        """Return the sums with counts as an ndarray."""
        return self.with_counts(self.counts.toarray()) if sparse.issparse(self.counts) else self

    def to_arrays(self) -> dict[str, Any]:
        """Return the sums as a dict of arrays."""
        scalars = np.array([self.falling, self.rest, self.weight])
        return {"counts": self.counts.copy(), "rising": self.rising.copy(), "scalars": scalars}

    @classmethod
    def from_arrays(cls, arrays: dict[str, Any], shape: tuple[int, ...]) -> TopicSums:
        """Restore what `to_arrays` returned.

        Raises
        ------
        ArchiveError
            Where the counts do not have the shape `shape`, (V, K).
        """
        counts = matrix(arrays, "counts", shape, low=0.0)
        rising = numbers(arrays, "rising", (2, counts.shape[1]))
        return cls(counts, rising, *numbers(arrays, "scalars", (3,)).tolist())


def log_evidence_of_topics(word_counts: Any, eta: npt.NDArray[np.float64], seeds: Any = None) -> float:
    """Return the sum over topics of log B(eta + seeds + counts) - log B(eta + seeds), nats.

    Parameters
    ----------
    word_counts : (V, K) ndarray or CSR
    eta : (V,) float64 ndarray
        Pseudo-count of each word in a topic.
    seeds : (V, K) CSR, optional
        Further pseudo-counts of words in topics.
    """
    if sparse.issparse(word_counts):
        v, n = word_counts.tocoo().coords[0], word_counts.data
    else:
        cells = np.nonzero(word_counts > 0)
        v, n = cells[0], word_counts[cells]
    inner = float(_log_rising(eta[v], n).sum())
    totals = np.full(word_counts.shape[1], eta.sum())
    if seeds is not None:
        found = seeds.tocoo()
        n, own = word_counts[found.coords], eta[found.coords[0]]
        n = n.toarray() if sparse.issparse(n) else n
        inner += float((_log_rising(own + found.data, n) - _log_rising(own, n)).sum())
        totals += seeds.sum(axis=0)
    return inner - float(_log_rising(totals, word_counts.sum(axis=0)).sum())


def _log_rising(a, n):
    return gammaln(a + n) - gammaln(a)


def better_shared_pseudocount(word_counts: npt.NDArray[np.float64], eta: float) -> float:
    """Raise the log evidence of topics by a few steps of the pseudo-count that all words share.

    Parameters
    ----------
    word_counts : (V, K) float64 ndarray
    eta : float
        Present pseudo-count.

    Returns
    -------
    float
        The new pseudo-count.
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
