"""Passes of variational topic models over documents: tables of the topics and local steps.

Documents are cut into chunks, and chunks into tasks, by their sizes alone. The results of the tasks are collected in
the order of the documents, so they are the same for any number of threads. Only the responsibilities of one chunk are
in memory at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.special import gammaln, psi

from expfam.errors import ArchiveError
from expfam.samplers.topics._local_step import LocalStep, Outputs, Scratch
from expfam.samplers.topics._sums import add_rows, expected_inner
from expfam.samplers.topics._tables import expected_table
from expfam.structures.ground.stored import integers, numbers, offsets
from expfam.structures.ground.threads import run, segments
from expfam.structures.selection.top_l import select_top

if TYPE_CHECKING:
    from expfam.model.data import Dataset
    from expfam.samplers.topics.statistics import TopicSums
    from expfam.samplers.topics.variational import TopicVariational

LOCALS = {"active": 0, "dense": 1, "tokens": 2}
FIRST_TOPICS = 8  # best topics of each word; together they are a document's first active topics
TAU = 0.01  # an active topic with at most this number of tokens is dropped
_CHUNK_ENTRIES = 1 << 18
_TASKS = 8
_TASK_ENTRIES = 1 << 12  # least number of stored entries of a task: a task of fewer takes longer to begin than to do
_TASK_VALUES = 1 << 21


class Part:
    """Results of the documents at the places start..stop-1 of `documents`.

    `entropy` is the result of `TopicPass.entropy`; NaN if it was not asked for.
    """

    entropy: float = np.nan
    documents: Any  # this and the next two are None after `copied`
    places: Any
    N: Any

    def __init__(self, documents: Documents, start: int, stop: int, outputs: Outputs) -> None:
        n, pairs, values = outputs.n_docs, outputs.n_pairs, outputs.n_values
        self.documents, self.places = documents, np.arange(start, stop, dtype=np.int64)
        self.rows, self.sizes, self.bounds = documents.rows[start:stop], outputs.size[:n], outputs.bound[:n]
        self.topics, self.N, self.values = outputs.topics[:pairs], outputs.N[:pairs], outputs.values[:values]
        self.counters = outputs.counters

    def copied(self) -> Part:
        """Copy the kept arrays to own memory, drop documents and counts; return the part itself."""
        self.topics, self.values = self.topics.copy(), self.values.copy()
        self.documents = self.places = self.N = None
        return self

    def counts(self) -> Counts:
        """Return a copy of the counts of topics in the documents."""
        starts = np.concatenate([[0], np.cumsum(self.sizes)]).astype(np.int64)
        return Counts(starts, self.topics.copy(), self.N.copy())


class Counts:
    """Counts of topics in the documents of a batch.

    The document at place i has the topics ``topics[starts[i]:starts[i + 1]]`` with the same entries of `N`; `starts`
    (R + 1,) is int64, `topics` int32, `N` float64.
    """

    def __init__(self, starts: npt.NDArray[Any], topics: npt.NDArray[Any], N: npt.NDArray[Any]) -> None:
        self.starts, self.topics, self.N = starts, topics, N

    @classmethod
    def joined(cls, counts: Sequence[Counts]) -> Counts:
        """Join the counts of consecutive documents."""
        starts = [counts[0].starts[:1]]
        for one in counts:
            starts.append(starts[-1][-1] + one.starts[1:])
        return cls(*(np.concatenate(x) for x in (starts, [c.topics for c in counts], [c.N for c in counts])))

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the counts as a dict of arrays."""
        return {"starts": self.starts, "topics": self.topics, "N": self.N}

    @classmethod
    def from_arrays(cls, arrays: dict[str, Any], n_rows: int, n_topics: int) -> Counts:
        """Restore what `to_arrays` returned.

        Parameters
        ----------
        arrays : dict of ndarrays
            Result of `to_arrays`.
        n_rows, n_topics : int
            Number of documents and of topics, against which the arrays are checked.

        Raises
        ------
        ArchiveError
            For counts that do not fit `n_rows` documents and `n_topics` topics.
        """
        N = arrays["N"]
        topics = integers(arrays, "topics", (len(N),), 0, n_topics, dtype=np.int32)
        check_distinct(np.diff(offsets(arrays, "starts", n_rows, len(N))), topics, n_topics)
        return cls(
            offsets(arrays, "starts", n_rows, len(N)), topics, numbers(arrays, "N", (len(N),), low=0.0, dtype=N.dtype)
        )

    def slice(self, start: int, stop: int) -> tuple[npt.NDArray[Any], ...]:
        """Return the counts of the places start..stop-1, as the local step reads them."""
        return self.starts[start : stop + 1], self.topics, self.N


def check_distinct(sizes: npt.NDArray[Any], topics: npt.NDArray[Any], n_topics: int) -> None:
    """Raise an ArchiveError where a document has a topic twice.

    Compiled code has room for each topic once.

    Parameters
    ----------
    sizes : (R,) int ndarray
        Number of topics of each document.
    topics : (P,) int ndarray
        Topics of one document after the other.
    n_topics : int

    Raises
    ------
    ArchiveError
    """
    document = np.repeat(np.arange(len(sizes)), sizes)
    if len(np.unique(document * n_topics + topics)) != len(topics):
        raise ArchiveError("a document has a topic twice: the file was altered")


class Documents:
    """Some rows in the form that compiled code reads.

    `csr` has the parts indptr (R + 1,) int64, indices int32 and counts float64 of a CSR matrix, `weight` is (R,) or
    None.
    """

    def __init__(
        self,
        rows: npt.NDArray[Any],
        csr: tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]],
        weight: npt.NDArray[np.float64] | None,
    ) -> None:
        self.rows = rows
        indptr, indices, counts = (x.astype(t, copy=False) for x, t in zip(csr, (np.int64, np.int32, np.float64)))
        if len(indices) == 0:  # compiled code needs the address of a first entry
            indices, counts = np.zeros(1, dtype=np.int32), np.zeros(1)
        self.csr = (indptr, indices, counts)
        self.weight = None if weight is None else weight[rows]

    @cached_property
    def lengths(self) -> npt.NDArray[np.float64]:
        """Return the number of tokens of each document: (R,) float64."""
        indptr, _, counts = self.csr
        ends = np.concatenate([[0.0], np.cumsum(counts)])
        return ends[indptr[1:]] - ends[indptr[:-1]]


def entries_at_work(data: Dataset) -> int:
    """Return the largest number of stored entries of documents in one chunk of a pass."""
    return min(_CHUNK_ENTRIES, data.X.nnz if data.is_sparse else data.X.size)


class TopicPass:
    """The documents of a run, with the settings of the local step on them.

    An active topic with at most `tau` tokens is dropped. The `n_first` best topics of each word of a document are
    together its first active topics.
    """

    def __init__(
        self,
        data: Dataset,
        n_topics: int,
        settings: TopicVariational,
        *,
        tau: float = TAU,
        n_first: int = FIRST_TOPICS,
    ) -> None:
        self.X, self.weight = sparse.csr_array(data.X), data.weight  # a Dataset holds canonical CSR
        self.n_types = np.diff(self.X.indptr)
        self.n_words, self.n_topics = self.X.shape[1], n_topics
        self.settings, self.dtype, self.tau = settings, np.dtype(settings.dtype), tau
        self.local = settings.local_of(n_topics)
        self.n_active = settings.n_active_of(n_topics)
        self.n_first = min(n_topics, self.n_active if self.local == "tokens" else n_first)

    # ---- tables ------------------------------------------------------------------------------------------------------

    def tables(self, word_counts: npt.NDArray[np.float64], eta: npt.NDArray[np.float64]) -> tuple[Any, ...]:
        """Compute the tables of the posterior of the topics, in the order of `LocalStep`."""
        V, K = word_counts.shape
        sums = psi(word_counts.sum(axis=0) + eta.sum())
        B, shift = np.empty((V, K), dtype=self.dtype), np.empty(V)
        tasks = [(word_counts, eta, sums, B, shift, a, b) for a, b in segments(V)]
        run(expected_table, tasks, self.settings.n_threads, uses_blas=False)
        if self.local == "dense":
            first = np.zeros((V, 1), dtype=np.int32)
        else:
            first = np.ascontiguousarray(select_top(B, self.n_first, n_threads=self.settings.n_threads)[1])
        return B, shift, sums, word_counts, eta, first

    def step(self, tables: tuple[Any, ...], alpha: npt.NDArray[np.float64]) -> LocalStep:
        """Return the local step under given tables and pseudo-counts of topics (K,)."""
        s = self.settings
        return LocalStep(
            tables,
            alpha,
            gammaln(alpha),
            local=LOCALS[self.local],
            n_active=self.n_active,
            max_iterations=s.max_iterations,
            n_restarts=s.n_restarts,
            restart_iterations=s.restart_iterations,
            tol=s.tol,
            tau=self.tau,
            is_best=s.documents == "best",
        )

    # ---- documents ---------------------------------------------------------------------------------------------------

    def documents_of(self, rows: npt.ArrayLike) -> Documents:
        """Return some documents in the form that compiled code reads.

        Neighbouring documents are a view of the data where these have the types of compiled code.
        """
        rows = np.asarray(rows)
        if len(rows) and rows[-1] - rows[0] == len(rows) - 1:
            start, stop = self.X.indptr[rows[0]], self.X.indptr[rows[-1] + 1]
            indptr = self.X.indptr[rows[0] : rows[-1] + 2] - start
            return Documents(rows, (indptr, self.X.indices[start:stop], self.X.data[start:stop]), self.weight)
        X = self.X[rows]
        return Documents(rows, (X.indptr, X.indices, X.data), self.weight)

    def parts(
        self,
        step: LocalStep,
        rows: npt.NDArray[np.int64],
        stored: Counts | None = None,
        *,
        entropy_under: tuple[Any, ...] | None = None,
    ) -> Iterator[Part]:
        """Yield the results of the local step for ascending documents, with one chunk in memory.

        Parameters
        ----------
        step : LocalStep
            Result of the method `step`.
        rows : (R,) int64 ndarray
            Numbers of the documents, ascending.
        stored : Counts, optional
            Counts of topics in these documents after an earlier local step.
        entropy_under : tuple, optional
            Tables under which the threads also compute the entropy of each part.
        """
        if stored is not None and len(stored.topics) == 0:  # all documents are empty
            stored = None
        for start, stop in self._cut(rows, 0, len(rows), _CHUNK_ENTRIES):
            documents = self.documents_of(rows[start:stop])
            most = max(_TASK_ENTRIES, int(self.n_types[rows[start:stop]].sum()) // _TASKS)
            tasks = [
                (step, documents, a - start, b - start, None if stored is None else stored.slice(a, b), entropy_under)
                for a, b in self._cut(rows, start, stop, most)
            ]
            for found in run(self._work, tasks, self.settings.n_threads, uses_blas=False):
                yield from found

    def _cut(self, rows, start, stop, n_entries):
        """Return the bounds (a, b) of consecutive places with about `n_entries` entries each."""
        ends = np.cumsum(self.n_types[rows[start:stop]])
        which = (ends - 1) // n_entries if len(ends) else ends
        cuts = start + np.flatnonzero(np.diff(which)) + 1
        bounds = [start, *cuts.tolist(), stop]
        return [(a, b) for a, b in pairwise(bounds) if b > a]

    def _work(self, step, documents, start, stop, stored, entropy_under):
        types, places = self.n_types[documents.rows[start:stop]], np.arange(start, stop, dtype=np.int64)
        most = int(types.max(initial=1)) or 1
        different, which = np.unique(types, return_inverse=True)
        widths = np.array([step.width(n) for n in different.tolist()], dtype=np.int64)[which]
        width = int(widths.max(initial=16))
        if stored is not None:
            width = max(width, int(np.diff(stored[0]).max(initial=0)) + 16)
        scratch = Scratch(most, width, self.n_topics, self.n_active, self.dtype)
        n_values = max(most * width, min(int((types * width).sum()), _TASK_VALUES))
        n_pairs = max(width, min(len(places) * width, _TASK_VALUES))
        found, done = [], 0
        while done < len(places):
            outputs = Outputs(len(places) - done, n_pairs, n_values, self.dtype)
            end = step.run(documents.csr, places, done, stored, scratch, outputs)
            part = Part(documents, start + done, start + end, outputs)
            if entropy_under is not None:
                part.entropy = self.entropy(part, entropy_under)
            found.append(part)
            done = end
        return found

    def add(self, part: Part, total: npt.NDArray[np.float64], sign: float = 1.0) -> None:
        """Add `sign` times a part's responsibilities to `total`, the counts of words (V, K).

        Parameters
        ----------
        part : Part
        total : (V, K) float64 ndarray
            Changed in place.
        sign : float
            1 to add, -1 to subtract.
        """
        documents, places = part.documents, part.places
        if documents is None:
            documents, places = self.documents_of(part.rows), np.arange(len(part.rows), dtype=np.int64)
        add_rows(documents.csr, places, documents.weight, part.sizes, part.topics, part.values, total, sign)

    def entropy(self, part: Part, tables: tuple[Any, ...]) -> float:
        """Return the bound of a part without the expected log probability of its words, nats."""
        weight = part.documents.weight
        bounds = part.bounds if weight is None else part.bounds * weight[part.places]
        expected = expected_inner(
            part.documents.csr, part.places, weight, part.sizes, part.topics, part.values, tables[0], tables
        )
        return float(bounds.sum()) - expected

    def add_tangent(self, part: Part, sums: TopicSums, alpha: npt.NDArray[np.float64]) -> None:
        """Add to the sums the tangent of a part's bound as a function of alpha (K,).

        Parameters
        ----------
        part : Part
        sums : TopicSums
            Changed in place.
        alpha : (K,) float64 ndarray
            Where the tangent touches the bound.
        """
        lengths, weight = part.documents.lengths[part.places], 1.0
        if part.documents.weight is not None:
            weight = part.documents.weight[part.places]
        of_pairs = weight if np.ndim(weight) == 0 else np.repeat(weight, part.sizes)
        sums.add_tangent(alpha, part.topics, part.N, of_pairs, (weight, lengths))

    def weight_of(self, rows: npt.NDArray[Any]) -> float:
        """Return the total weight of some documents."""
        return float(len(rows)) if self.weight is None else float(self.weight[rows].sum())
