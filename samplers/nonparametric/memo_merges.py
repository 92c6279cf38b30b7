"""Merges of topics from what a stream remembers of documents that it does not keep.

Of each topic of a document it remembers the tokens N, their entropy H, and the sum Q of the squares of their
responsibilities. A topic that takes all of two has N = N_a + N_b. Where a document has one of the two, H and Q are
those of the one. Where it has both, its responsibilities are sums z = x + y, so sum z^2 <= (sqrt Q_a + sqrt Q_b)^2 by
Cauchy and Schwarz, and

    H = - sum z log z >= - N log (sum z^2 / N) >= - N log ((sqrt Q_a + sqrt Q_b)^2 / N)

by Jensen. So the bound of the merged topics holds, and the next local step of the documents can only raise it.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln, xlogy

from expfam.samplers.nonparametric.variational_moves import JudgedTopics, pairs_of_words
from expfam.samplers.topics.statistics import log_evidence_of_topics
from expfam.samplers.variational.alpha_bound import rising_slopes, tangent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from expfam.samplers.topics.local_step import Counts, Part


class Remembered(NamedTuple):
    """What is remembered of the topics of some documents, pair by pair: (P,) arrays.

    Attributes
    ----------
    docs : int64 ndarray
        Document of each pair, counted over all that a stream has learned.
    N, entropy, squares : float64 ndarrays
        Tokens, their entropy in nats, and the sum of the squares of their responsibilities.
    """

    docs: npt.NDArray[np.int64]
    N: npt.NDArray[np.float64]
    entropy: npt.NDArray[np.float64]
    squares: npt.NDArray[np.float64]

    @classmethod
    def joined(cls, first: Remembered, second: Remembered) -> Remembered:
        """Return what is known of the union of two topics."""
        docs, place = np.unique(np.concatenate([first.docs, second.docs]), return_inverse=True)
        n = len(docs)
        N: npt.NDArray[Any] = np.bincount(place, np.concatenate([first.N, second.N]), minlength=n)
        entropy = np.bincount(place, np.concatenate([first.entropy, second.entropy]), minlength=n)
        squares: npt.NDArray[Any] = (
            np.bincount(place, np.sqrt(np.concatenate([first.squares, second.squares])), minlength=n) ** 2
        )
        squares = np.minimum(squares, N)  # no responsibility is above 1
        least = np.maximum(xlogy(N, N) - xlogy(N, squares), 0.0)
        return cls(docs, N, np.where(np.bincount(place, minlength=n) > 1, least, entropy), squares)

    def take(self, places: slice | npt.NDArray[Any]) -> Remembered:
        """Return some of the pairs."""
        return Remembered(self.docs[places], self.N[places], self.entropy[places], self.squares[places])


class RememberedTopic(NamedTuple):
    """One topic of all documents, with what `Column` says of it."""

    pairs: Remembered
    words: npt.NDArray[np.float64]
    slopes: npt.NDArray[np.float64]
    M: float
    rest: float
    behind: tuple[int, ...]

    @property
    def value(self) -> float:
        """Return what the topic adds to the bound at its own pseudo-count, nats."""
        return self.rest + tangent(np.array([self.M]), self.slopes[:, None], 0.0)


class MemoAllocation(JudgedTopics):
    """Topics of all documents that a stream has learned, for merges.

    Parameters
    ----------
    stream : TopicProcessStream
    contributions : sequence of TopicProcessContribution
        Of all its documents.
    """

    columns: list[RememberedTopic]

    def __init__(self, stream: Any, contributions: Sequence[Any]) -> None:
        self.eta, self.sticks = stream.eta, stream.sticks
        self.falling, self.n_groups = stream.sums.falling, stream.sums.weight
        self.weight = np.concatenate([one.occupied.weight for one in contributions])
        self.ends = np.cumsum([one.n_rows for one in contributions])
        docs = np.repeat(np.arange(len(self.weight)), np.concatenate([np.diff(c.counts.starts) for c in contributions]))
        N = np.concatenate([one.counts.N for one in contributions])
        entropy, squares = np.concatenate([one.spread for one in contributions], axis=1)
        topics = np.concatenate([one.counts.topics for one in contributions])
        pairs, order = Remembered(docs, N, entropy, squares), np.argsort(topics, kind="stable")
        cuts = np.searchsorted(topics[order], np.arange(stream.model.n_components + 1))
        M, words = self.sticks.pseudocounts, stream.word_counts
        self.columns = [
            self.column(pairs.take(order[a:b]), words[:, k], float(M[k]), (k,))
            for k, (a, b) in enumerate(pairwise(cuts))
        ]
        self.bound = self.value_of(self.columns, self.sticks)

    def column(
        self, pairs: Remembered, words: npt.NDArray[np.float64], M: float, behind: tuple[int, ...]
    ) -> RememberedTopic:
        """Return a topic at a pseudo-count."""
        slopes, rest = slopes_and_rest(pairs, self.weight, M)
        return RememberedTopic(pairs, words, slopes, M, rest + log_evidence_of_topics(words[:, None], self.eta), behind)

    def near_pairs(self) -> list[tuple[int, int]]:
        """Return pairs (a, b), a < b, of topics of similar words."""
        return pairs_of_words(self.columns, self.eta)

    def merged(self, a: RememberedTopic, b: RememberedTopic) -> RememberedTopic:
        """Return the topic that takes all of two topics."""
        return self.column(Remembered.joined(a.pairs, b.pairs), a.words + b.words, a.M + b.M, a.behind + b.behind)

    def by_document(self) -> list[tuple[npt.NDArray[np.int64], npt.NDArray[np.int32], Remembered]]:
        """Return starts, topics and pairs of each contribution, document by document."""
        parts = [column.pairs for column in self.columns]
        pairs = Remembered(*(np.concatenate(one) for one in zip(*parts)))
        topics = np.repeat(np.arange(len(parts), dtype=np.int32), [len(part.docs) for part in parts])
        order = np.argsort(pairs.docs, kind="stable")
        pairs, topics, starts = pairs.take(order), topics[order], np.append(0, self.ends)
        found = []
        for first, end in pairwise(starts.tolist()):
            cuts = np.searchsorted(pairs.docs, np.arange(first, end + 1)).astype(np.int64)
            here = slice(cuts[0], cuts[-1])
            found.append((cuts - cuts[0], topics[here], pairs.take(here)))
        return found


def slopes_and_rest(
    pairs: Remembered, weight: npt.NDArray[np.float64], M: float
) -> tuple[npt.NDArray[np.float64], float]:
    """Return tangents (2,) of a topic's documents, and what else they add to the bound, nats.

    The tangents are at the pseudo-count `M`; `weight` are the multiplicities of all documents.
    """
    of_pairs = weight[pairs.docs]
    slopes = np.array([(of_pairs * x).sum() for x in rising_slopes(M, pairs.N)])
    value = float((of_pairs * (gammaln(M + pairs.N) - gammaln(M) + pairs.entropy)).sum())
    return slopes, value - tangent(np.array([M]), slopes[:, None], 0.0)


def spread_of(
    parts: Sequence[Part], n_types: npt.NDArray[np.int64], count: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Return entropy and squares of each topic of each document: (2, P) float64.

    `n_types` are the numbers of words of the documents, `count` (E,) the counts of these words.
    """
    sizes = np.concatenate([part.sizes for part in parts]).astype(np.int64)
    r = np.concatenate([part.values for part in parts]).astype(np.float64)
    of_entry = np.repeat(sizes, n_types)
    first, ends = np.repeat(np.cumsum(sizes) - sizes, n_types), np.cumsum(of_entry)
    pair = np.repeat(first - ends + of_entry, of_entry) + np.arange(len(r))
    c, n_pairs = np.repeat(count, of_entry), int(sizes.sum())
    return np.stack([np.bincount(pair, -c * xlogy(r, r), n_pairs), np.bincount(pair, c * r * r, n_pairs)])


def renumbered(counts: Counts, homes: npt.NDArray[np.int64]) -> Counts:
    """Return counts whose topic k is topic ``homes[k]``, another one for each of a document."""
    return type(counts)(counts.starts, homes[counts.topics].astype(np.int32), counts.N)
