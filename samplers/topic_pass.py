"""Passes of variational topic models over documents: tables of the topics, and the local step in parallel.

Documents are cut into chunks and these into tasks by their sizes alone; what the tasks put out is taken up in the order
of the documents, so results are the same for any number of threads. Responsibilities are held for a chunk at a time.
"""

from itertools import pairwise

import numpy as np
from scipy import sparse
from scipy.special import gammaln, psi

from expfam.samplers._topic_step import (
    LocalStep,
    Outputs,
    Scratch,
    add_rows,
    expected_inner,
    expected_table,
)
from expfam.structures._threads import run, segments
from expfam.structures.top_l import select_top

LOCALS = {"active": 0, "dense": 1, "tokens": 2}
FIRST_TOPICS = 8  # of each word, from which a document's active topics are taken
TAU = 0.01  # tokens below which an active topic is dropped
_CHUNK_ENTRIES = 1 << 18
_TASKS = 8
_TASK_VALUES = 1 << 21


class Part:
    """Results of some documents: rows, sizes, bounds, topics, counts and responsibilities."""

    def __init__(self, rows, outputs):
        n, pairs, values = outputs.n_docs, outputs.n_pairs, outputs.n_values
        self.rows, self.sizes, self.bounds = rows, outputs.size[:n], outputs.bound[:n]
        self.topics, self.N, self.values = outputs.topics[:pairs], outputs.N[:pairs], outputs.values[:values]
        self.counters = outputs.counters

    def copied(self):
        """The same in memory of its own, without counts of documents."""
        self.topics, self.values, self.N = self.topics.copy(), self.values.copy(), None
        return self


class Counts:
    """Counts of topics in documents of a batch, by place in it: starts (R + 1,), topics, N."""

    def __init__(self, starts, topics, N):
        self.starts, self.topics, self.N = starts, topics, N

    @classmethod
    def joined(cls, parts):
        """Those of consecutive parts."""
        sizes = np.concatenate([part.sizes for part in parts])
        starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        return cls(starts, np.concatenate([p.topics for p in parts]), np.concatenate([p.N for p in parts]))

    def slice(self, start, stop):
        """Arguments of the local step for some places."""
        return self.starts[start : stop + 1], self.topics, self.N


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
        X = sparse.csr_array(data.X)
        X.sort_indices()
        indices, values = X.indices.astype(np.int32, copy=False), X.data.astype(np.float64, copy=False)
        if len(indices) == 0:  # compiled code takes the address of the first entry
            indices, values = np.zeros(1, dtype=np.int32), np.zeros(1)
        self.documents = (X.indptr.astype(np.int64), indices, values)
        self.n_types = np.diff(self.documents[0])
        self.n_words, self.n_topics, self.weight = X.shape[1], n_topics, data.weight
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

    def parts(self, step, rows, stored=None):
        """Results of documents in order, a chunk in memory at a time: yields Part."""
        has_stored = stored is not None and len(stored.topics) > 0  # none where all documents are empty
        for start, stop in self._cut(rows, 0, len(rows), _CHUNK_ENTRIES):
            most = max(1, int(self.n_types[rows[start:stop]].sum()) // _TASKS)
            tasks = [
                (step, rows[a:b], stored.slice(a, b) if has_stored else None)
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

    def _work(self, step, rows, stored):
        types = self.n_types[rows]
        most = int(types.max(initial=1)) or 1
        widths = np.fromiter((step.width(n) for n in types.tolist()), dtype=np.int64, count=len(types))
        width = int(widths.max(initial=16))
        if stored is not None:
            width = max(width, int(np.diff(stored[0]).max(initial=0)) + 16)
        scratch = Scratch(most, width, self.n_topics, self.n_active, self.dtype)
        n_values = max(most * width, min(int((types * width).sum()), _TASK_VALUES))
        n_pairs = max(width, min(len(rows) * width, _TASK_VALUES))
        found, start = [], 0
        while start < len(rows):
            outputs = Outputs(len(rows) - start, n_pairs, n_values, self.dtype)
            stop = step.run(self.documents, rows, start, stored, scratch, outputs)
            found.append(Part(rows[start:stop], outputs))
            start = stop
        return found

    def add(self, part, total, sign=1.0):
        """Add a part's responsibilities to the sums of words (V, K)."""
        add_rows(self.documents, part.rows, self.weight, part.sizes, part.topics, part.values, total, sign)

    def entropy(self, part, tables):
        """What the bound of a part is without the expected log probability of its words: nats."""
        bounds = part.bounds if self.weight is None else part.bounds * self.weight[part.rows]
        expected = expected_inner(
            self.documents, part.rows, self.weight, part.sizes, part.topics, part.values, tables[0], tables
        )
        return float(bounds.sum()) - expected

    def weight_of(self, rows):
        """Weight of some documents together."""
        return float(len(rows)) if self.weight is None else float(self.weight[rows].sum())


def log_evidence_of_topics(word_counts, eta):
    """Sum over topics of log B(eta + counts) - log B(eta): nats."""
    total = eta.sum()
    v, k = np.nonzero(word_counts > 0)
    inner = (gammaln(eta[v] + word_counts[v, k]) - gammaln(eta)[v]).sum()
    return float(inner - (gammaln(total + word_counts.sum(axis=0)) - gammaln(total)).sum())
