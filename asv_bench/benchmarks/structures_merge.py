"""Greedy merging and the inverted index, beside an all-pairs table in NumPy, SciPy's linkage and sparse products."""

import numpy as np
from scipy.cluster.hierarchy import linkage
from scipy.sparse import csr_array

from expfam.structures import InvertedIndex, MergeQueue, WardPartners

from . import data


class NumpyWard:
    """Ward's scores as a Python callable on blocks."""

    def __init__(self, X):
        self.center, self.size = X.copy(), np.ones(len(X))

    def score(self, k, slots):
        gap = self.center[slots] - self.center[k]
        return -(self.size[k] * self.size[slots] / (self.size[k] + self.size[slots])) * np.einsum("ij,ij->i", gap, gap)

    def partners(self, k, ids):
        slots = np.nonzero((ids >= 0) & (ids < ids[k]))[0]
        return slots, self.score(k, slots), -np.inf

    def absorb(self, k, other):
        total = self.size[k] + self.size[other]
        self.center[k] = (self.size[k] * self.center[k] + self.size[other] * self.center[other]) / total
        self.size[k] = total


def all_pairs(n, score, absorb):
    """What one would write in NumPy: a table of all pairs with the maximum of each row kept; O(N^2) memory."""
    table = np.full((n, n), -np.inf)
    for k in range(n - 1):
        table[k, k + 1 :] = score(k, np.arange(k + 1, n))
    best, live, merged = table.max(axis=1), np.ones(n, dtype=bool), []
    for _ in range(n - 1):
        k = int(np.argmax(best))
        gone = int(np.argmax(table[k]))
        merged.append(best[k])
        absorb(k, gone)
        live[gone] = False
        stale = np.flatnonzero(live & ((table[:, k] == best) | (table[:, gone] == best)))
        table[gone] = table[:, gone] = -np.inf
        best[gone] = -np.inf
        others = np.flatnonzero(live)
        others = others[others != k]
        values = score(k, others)
        older = others < k
        table[others[older], k] = values[older]
        table[k] = -np.inf
        table[k, others[~older]] = values[~older]
        best[others[older]] = np.maximum(best[others[older]], values[older])
        rows = np.append(stale, k)
        best[rows] = table[rows].max(axis=1)
    return np.array(merged)


class Ward:
    """The whole tree of rows around Gaussian centres, by the same criterion."""

    params = (["compiled", "callable", "numpy_all_pairs", "scipy"], [2000, 5000])
    param_names = ("way", "n_items")
    timeout = 300
    number = repeat = 1

    def setup(self, way, n_items):
        self.X = data.gaussians(n_items, 50, n_features=10, seed=1)[0]

    def run(self, way):
        if way == "compiled":
            partners = WardPartners(self.X)
            return MergeQueue(len(self.X), partners, n_threads=1).run(partners.absorb)[1]
        if way == "scipy":
            return -(np.square(linkage(self.X, "ward")[:, 2])) / 2
        scores = NumpyWard(self.X)
        if way == "callable":
            return MergeQueue(len(self.X), scores.partners).run(scores.absorb)[1]
        return all_pairs(len(self.X), scores.score, scores.absorb)

    def time_tree(self, way, n_items):
        self.run(way)

    def peakmem_tree(self, way, n_items):
        self.run(way)


class Scores:
    """Scores that the queue asks for, as a share of (N - 1)^2, of random and of equal items."""

    params = (["random", "equal"], [1, 4])
    param_names = ("items", "n_kept")

    def track_scores(self, items, n_kept):
        n = 1000
        X = data.gaussians(n, 50, n_features=2, seed=1)[0]
        partners = WardPartners(X if items == "random" else np.ones_like(X))
        queue = MergeQueue(n, partners, n_kept=n_kept)
        queue.run(partners.absorb)
        return queue.n_scores / (n - 1) ** 2

    track_scores.unit = "of (N - 1)^2"


class Overlap:
    """Inner products of every document with all that share a word, beside rows of a sparse matrix product."""

    params = (["index", "scipy"], [2000, 5000])
    param_names = ("way", "n_items")
    timeout = 300

    def setup(self, way, n_items):
        self.X = data.documents(n_items, 100, mean_length=5, seed=1)[0]
        self.index = InvertedIndex(self.X)
        self.transposed = self.X.T.tocsr()

    def time_scores(self, way, n_items):
        for k in range(0, n_items, 10):
            if way == "index":
                self.index.scores(k)
            else:
                self.X[[k]] @ self.transposed

    def time_build(self, way, n_items):
        if way == "index":
            InvertedIndex(self.X)
        else:
            self.X.T.tocsr()

    def time_merge_all(self, way, n_items):
        if way == "index":
            index = InvertedIndex(self.X)
            for k in range(1, n_items):
                index.merge(0, k)
        else:  # rows of a CSR matrix do not merge in place: pairs by one product for each level
            X = self.X
            while X.shape[0] > 1:
                n = X.shape[0]
                pairs = csr_array((np.ones(n), np.arange(n) // 2, np.arange(n + 1)), shape=(n, (n + 1) // 2))
                X = pairs.T.tocsr() @ X
