"""Deletions of topics by a stream that has one chunk of documents at hand.

The documents at hand take local steps without the topic. What other documents have of it goes to the topic of the most
similar words; as for merges, the bound of these holds by the little that is remembered of them.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from expfam.samplers.nonparametric.memo_merges import Remembered, slopes_and_rest
from expfam.samplers.nonparametric.variational_moves import (
    Allocation,
    Behind,
    pseudocounts_without,
    responsibilities_without,
    roots_of_words,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from expfam.samplers.nonparametric.variational_moves import Column


class ChunkAllocation(Allocation):
    """Topics of the documents at hand, of which one may be left out.

    Parameters
    ----------
    at_hand : DocumentsAtHand
    behind : Behind
        What the topics hold in all other documents.
    others : sequence of TopicProcessContribution
        What is remembered of these.
    """

    def __init__(self, at_hand: Any, behind: Behind, others: Sequence[Any]) -> None:
        self.others = others
        self.weight_of_others = np.concatenate([np.empty(0), *(one.occupied.weight for one in others)])
        self.rests = np.zeros(behind.slopes.shape[1])  # of topics with new tangents; what no trial changes is left out
        super().__init__(at_hand, behind)

    def column(
        self, entries: npt.NDArray[np.int64], r: npt.NDArray[np.float64], M: float, behind: tuple[int, ...] = ()
    ) -> Column:
        """Return a topic with given responsibilities, at a pseudo-count, and what it has behind."""
        found = super().column(entries, r, M, behind)
        return found._replace(rest=found.rest + float(sum(self.rests[k] for k in behind)))

    def tokens_at_hand(self) -> npt.NDArray[np.float64]:
        """Return the tokens of the topics in the documents at hand: (K,)."""
        return np.array([(self.weighted[column.entries] * column.r).sum() for column in self.columns])

    def without(self, k: int) -> list[Column]:
        """Return the topics without one.

        The documents at hand that have it take local steps among the others; other documents give what they have of it
        to the nearest topic.
        """
        K, home = len(self.columns), self._nearest(k)
        gone, taken = self._told(k), self._told(home)
        self.bound = self.value_of(self.columns, self.sticks)
        left = np.delete(np.arange(K), k)
        M, place = pseudocounts_without(self.columns, k), home - (home > k)
        words, slopes, rests = self.behind.words.copy(), self.behind.slopes.copy(), self.rests.copy()
        words[:, home] += words[:, k]
        union = Remembered.joined(taken, gone)
        slopes[:, home], rests[home] = slopes_and_rest(union, self.weight_of_others, float(M[place]))
        of_left = np.stack([self.columns[j].words for j in left], axis=1)
        of_left[:, place] += np.maximum(self.behind.words[:, k], 0.0)
        R = responsibilities_without(self, k, M, of_left)
        R.sort_indices()
        before = (self.behind, self.rests)
        self.behind, self.rests = Behind(words, slopes), rests
        columns = [
            self.column(R.indices[a:b].astype(np.int64), R.data[a:b], float(m), (int(j),))
            for j, m, (a, b) in zip(left, M, pairwise(R.indptr))
        ]
        self.behind, self.rests = before
        columns[place] = columns[place]._replace(behind=(home, k))
        return columns

    def _nearest(self, k):
        """Return the topic whose words are most similar to those of another one."""
        roots = roots_of_words(self.columns, self.eta)
        near = roots @ roots[k]
        near[k] = -1.0
        return int(near.argmax())

    def _told(self, k):
        """Set new tangents of one topic in other documents; return what is remembered of it."""
        pairs, column = remembered_of(self.others, k), self.columns[k]
        self.behind.slopes[:, k], self.rests[k] = slopes_and_rest(pairs, self.weight_of_others, column.M)
        self.columns[k] = self.column(column.entries, column.r, column.M, column.behind)
        return pairs


def remembered_of(contributions: Sequence[Any], k: int) -> Remembered:
    """Return what is remembered of a topic; documents are numbered over all contributions."""
    first, found = 0, [(np.empty(0, dtype=np.int64), *3 * [np.empty(0)])]
    for one in contributions:
        at = np.flatnonzero(one.counts.topics == k)
        docs = first + np.searchsorted(one.counts.starts, at, side="right") - 1
        found.append((docs, one.counts.N[at], *one.spread[:, at]))
        first += one.n_rows
    return Remembered(*(np.concatenate(part) for part in zip(*found)))


def with_homes(
    contribution: Any, homes: npt.NDArray[np.int64], n_topics: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32], Remembered]:
    """Return starts, topics and pairs of a contribution whose topic k is now ``homes[k]``.

    Two topics may have become one.
    """
    counts = contribution.counts
    docs = np.repeat(np.arange(contribution.n_rows), np.diff(counts.starts))
    pairs = Remembered(docs * n_topics + homes[counts.topics], counts.N, *contribution.spread)
    is_first = np.zeros(len(docs), dtype=bool)
    is_first[np.unique(pairs.docs, return_index=True)[1]] = True
    found = Remembered.joined(pairs.take(np.flatnonzero(is_first)), pairs.take(np.flatnonzero(~is_first)))
    starts = np.searchsorted(found.docs, n_topics * np.arange(contribution.n_rows + 1)).astype(np.int64)
    return starts, (found.docs % n_topics).astype(np.int32), found


def try_deletion(allocation: ChunkAllocation, rng: np.random.Generator) -> bool:
    """Try to do without a topic that has at least half of its tokens in the documents at hand.

    Small topics are drawn more often. Return whether the bound rose; then the allocation takes no further trial.
    """
    sizes = allocation.sizes()
    odds = (2.0 * allocation.tokens_at_hand() >= sizes) / (1.0 + sizes)
    if len(odds) < 2 or not odds.any():
        return False
    k = int(rng.choice(len(odds), p=odds / odds.sum()))
    return allocation.accept_if_better(allocation.without(k))
