"""Passes of variational topic models over documents: tables of the topics, and the local step in parallel.

Documents are cut into chunks and these into tasks by their sizes alone; what the tasks put out is taken up in the order
of the documents, so results are the same for any number of threads. Responsibilities are held for a chunk at a time.
"""

from functools import cached_property
from itertools import pairwise

import numpy as np
from scipy import sparse
from scipy.special import gammaln, psi

from expfam.errors import ArchiveError
from expfam.samplers.topics._local_step import LocalStep, Outputs, Scratch
from expfam.samplers.topics._sums import add_rows, expected_inner
from expfam.samplers.topics._tables import expected_table
from expfam.structures.ground.stored import integers, numbers, offsets
from expfam.structures.ground.threads import run, segments
from expfam.structures.top_l import select_top

LOCALS = {"active": 0, "dense": 1, "tokens": 2}
FIRST_TOPICS = 8  # of each word, from which a document's active topics are taken
TAU = 0.01  # tokens below which an active topic is dropped
_CHUNK_ENTRIES = 1 << 18
_TASKS = 8
_TASK_VALUES = 1 << 21


class Part:
    """Results of some documents: rows, sizes, bounds, topics, counts and responsibilities.

    Parameters
    ----------
    documents : Documents
        With those of the part.
    start, stop : int
        Their places in it.
    outputs : Outputs
    """

    def __init__(self, documents, start, stop, outputs):
        n, pairs, values = outputs.n_docs, outputs.n_pairs, outputs.n_values
        self.documents, self.places = documents, np.arange(start, stop, dtype=np.int64)
        self.rows, self.sizes, self.bounds = documents.rows[start:stop], outputs.size[:n], outputs.bound[:n]
        self.topics, self.N, self.values = outputs.topics[:pairs], outputs.N[:pairs], outputs.values[:values]
        self.counters = outputs.counters

    def copied(self):
        """The same in memory of its own, without documents and their counts."""
        self.topics, self.values = self.topics.copy(), self.values.copy()
        self.documents = self.places = self.N = None
        return self

    def counts(self):
        """Counts of topics in the documents, to be kept."""
        starts = np.concatenate([[0], np.cumsum(self.sizes)]).astype(np.int64)
        return Counts(starts, self.topics.copy(), self.N.copy())


class Counts:
    """Counts of topics in documents of a batch, by place in it: starts (R + 1,), topics, N."""

    def __init__(self, starts, topics, N):
        self.starts, self.topics, self.N = starts, topics, N

    @classmethod
    def joined(cls, counts):
        """Those of consecutive documents."""
        starts = [counts[0].starts[:1]]
        for one in counts:
            starts.append(starts[-1][-1] + one.starts[1:])
        return cls(*(np.concatenate(x) for x in (starts, [c.topics for c in counts], [c.N for c in counts])))

    def to_arrays(self):
        """As a dict of arrays."""
        return {"starts": self.starts, "topics": self.topics, "N": self.N}

    @classmethod
    def from_arrays(cls, arrays, n_rows, n_topics):
        """What `to_arrays` gave; ArchiveError unless they are of so many documents and topics."""
        N = arrays["N"]
        topics = integers(arrays, "topics", (len(N),), 0, n_topics, dtype=np.int32)
        check_distinct(np.diff(offsets(arrays, "starts", n_rows, len(N))), topics, n_topics)
        return cls(
            offsets(arrays, "starts", n_rows, len(N)), topics, numbers(arrays, "N", (len(N),), low=0.0, dtype=N.dtype)
        )

    def slice(self, start, stop):
        """Arguments of the local step for some places."""
        return self.starts[start : stop + 1], self.topics, self.N


def check_distinct(sizes, topics, n_topics):
    """Refuse topics of documents, so many of each, that name a topic twice: compiled code has room for each once."""
    document = np.repeat(np.arange(len(sizes)), sizes)
    if len(np.unique(document * n_topics + topics)) != len(topics):
        raise ArchiveError("a document has a topic twice: the file was altered")


class Documents:
    """Some rows as compiled code reads them: CSR parts (R + 1,) int64, int32 and float64, and weights or None."""

    def __init__(self, rows, X, weight):
        self.rows = rows
        indices, counts = X.indices.astype(np.int32, copy=False), X.data.astype(np.float64, copy=False)
        if len(indices) == 0:  # compiled code takes the address of the first entry
            indices, counts = np.zeros(1, dtype=np.int32), np.zeros(1)
        self.csr = (X.indptr.astype(np.int64), indices, counts)
        self.weight = None if weight is None else weight[rows]

    @cached_property
    def lengths(self):
        """Tokens of each document: (R,) float64."""
        indptr, _, counts = self.csr
        ends = np.concatenate([[0.0], np.cumsum(counts)])
        return ends[indptr[1:]] - ends[indptr[:-1]]


def entries_at_work(data):
    """Most stored entries of documents that a pass works on at once."""
    return min(_CHUNK_ENTRIES, data.X.nnz if data.is_sparse else data.X.size)


class TopicPass:
    """The documents of a run and how they are worked on.

    Parameters
    ----------
    data : Dataset
    n_topics : int
    settings : TopicVariational
    tau : float
        Tokens below which an active topic is dropped.
    n_first : int
        Topics of each word from which active ones are taken.
    """

    def __init__(self, data, n_topics, settings, *, tau=TAU, n_first=FIRST_TOPICS):
        self.X, self.weight = sparse.csr_array(data.X), data.weight  # canonical: a Dataset sees to that
        self.n_types = np.diff(self.X.indptr)
        self.n_words, self.n_topics = self.X.shape[1], n_topics
        self.settings, self.dtype, self.tau = settings, np.dtype(settings.dtype), tau
        self.local = settings.local_of(n_topics)
        self.n_active = settings.n_active_of(n_topics)
        self.n_first = min(n_topics, self.n_active if self.local == "tokens" else n_first)

    # ---- tables ------------------------------------------------------------------------------------------------------

    def tables(self, word_counts, eta):
        """Tables of the posterior of the topics, as `LocalStep` takes them."""
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

    def step(self, tables, alpha):
        """The local step under some tables."""
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

    def documents_of(self, rows):
        """Some documents; neighbours are a view of the data where these have the types of compiled code."""
        rows = np.asarray(rows)
        if len(rows) and rows[-1] - rows[0] == len(rows) - 1:
            start, stop = self.X.indptr[rows[0]], self.X.indptr[rows[-1] + 1]
            indptr = self.X.indptr[rows[0] : rows[-1] + 2] - start
            parts = (self.X.data[start:stop], self.X.indices[start:stop], indptr)
            return Documents(rows, sparse.csr_array(parts, shape=(len(rows), self.n_words)), self.weight)
        return Documents(rows, self.X[rows], self.weight)

    def parts(self, step, rows, stored=None):
        """Results of documents in ascending order, a chunk in memory at a time: yields Part."""
        has_stored = stored is not None and len(stored.topics) > 0  # none where all documents are empty
        for start, stop in self._cut(rows, 0, len(rows), _CHUNK_ENTRIES):
            documents = self.documents_of(rows[start:stop])
            most = max(1, int(self.n_types[rows[start:stop]].sum()) // _TASKS)
            tasks = [
                (step, documents, a - start, b - start, stored.slice(a, b) if has_stored else None)
                for a, b in self._cut(rows, start, stop, most)
            ]
            for found in run(self._work, tasks, self.settings.n_threads, uses_blas=False):
                yield from found

    def _cut(self, rows, start, stop, n_entries):
        """Bounds of consecutive places with about so many entries each."""
        ends = np.cumsum(self.n_types[rows[start:stop]])
        which = (ends - 1) // n_entries if len(ends) else ends
        cuts = start + np.flatnonzero(np.diff(which)) + 1
        bounds = [start, *cuts.tolist(), stop]
        return [(a, b) for a, b in pairwise(bounds) if b > a]

    def _work(self, step, documents, start, stop, stored):
        types, places = self.n_types[documents.rows[start:stop]], np.arange(start, stop, dtype=np.int64)
        most = int(types.max(initial=1)) or 1
        widths = np.fromiter((step.width(n) for n in types.tolist()), dtype=np.int64, count=len(types))
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
            found.append(Part(documents, start + done, start + end, outputs))
            done = end
        return found

    def add(self, part, total, sign=1.0):
        """Add a part's responsibilities to the sums of words (V, K)."""
        documents, places = part.documents, part.places
        if documents is None:
            documents, places = self.documents_of(part.rows), np.arange(len(part.rows), dtype=np.int64)
        add_rows(documents.csr, places, documents.weight, part.sizes, part.topics, part.values, total, sign)

    def entropy(self, part, tables):
        """What the bound of a part is without the expected log probability of its words: nats."""
        weight = part.documents.weight
        bounds = part.bounds if weight is None else part.bounds * weight[part.places]
        expected = expected_inner(
            part.documents.csr, part.places, weight, part.sizes, part.topics, part.values, tables[0], tables
        )
        return float(bounds.sum()) - expected

    def add_tangent(self, part, sums, alpha):
        """Add the tangent of a part's bound, in alpha, to the sums."""
        lengths, weight = part.documents.lengths[part.places], 1.0
        if part.documents.weight is not None:
            weight = part.documents.weight[part.places]
        of_pairs = weight if np.ndim(weight) == 0 else np.repeat(weight, part.sizes)
        sums.add_tangent(alpha, part.topics, part.N, of_pairs, (weight, lengths))

    def weight_of(self, rows):
        """Weight of some documents together."""
        return float(len(rows)) if self.weight is None else float(self.weight[rows].sum())
