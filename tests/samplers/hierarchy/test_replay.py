"""Merges of runs over thousands of data, each the best of all live pairs by evidences worked out anew in NumPy."""

import math

import numpy as np
import pytest
from scipy import sparse
from scipy.special import gammaln

from expfam import Dataset, DiagonalGaussian, DirichletProcess, MixtureModel, Multinomial
from expfam.samplers import HierarchicalClustering

N = 5000
REPLAYED = {0, 1, 2, 17, 1000, 2200, 3300, 4000, 4500, 4800, 4900, 4950, 4980, 4995, 4998}  # merges made before


def short_texts(rng):
    topics = rng.dirichlet(np.full(2000, 0.01), size=60)
    lengths = rng.integers(3, 9, size=N)
    return sparse.csr_array(np.array([rng.multinomial(m, topics[i % 60]) for i, m in enumerate(lengths)]))


def points(rng):
    return rng.normal(size=(N, 3)) + 5 * rng.normal(size=(30, 3))[rng.integers(30, size=N)]


class CountPairs:
    """Log evidences of pairs of multinomial clusters, word by word."""

    def __init__(self, family, n, S):
        prior, words = family.pseudocounts()[0], sparse.csc_array(S)
        self.total, self.mass = prior.sum(), np.asarray(S.sum(axis=1)).ravel()
        self.own, self.shared = np.zeros(len(n)), np.zeros((len(n), len(n)))
        for w, a in enumerate(prior):
            part = slice(words.indptr[w], words.indptr[w + 1])
            rows, values = words.indices[part], words.data[part]
            rise = gammaln(a + values) - gammaln(a)
            both = gammaln(a + values[:, None] + values) - gammaln(a)
            self.own[rows] += rise
            self.shared[np.ix_(rows, rows)] += both - rise[:, None] - rise

    def __call__(self, i):
        mass = self.mass[i, None] + self.mass
        return self.own[i, None] + self.own + self.shared[i] - gammaln(self.total + mass) + gammaln(self.total)


class ColumnPairs:
    """Log evidences of pairs of diagonal Gaussian clusters, column by column."""

    def __init__(self, family, n, S):
        self.family, self.n = family, n
        self.first, self.second = np.split(np.asarray(S), 2, axis=1)  # about the family's centre

    def __call__(self, i):
        family, total = self.family, 0.0
        n = self.n[i, None] + self.n
        for f in range(self.first.shape[1]):
            k0, a0, b0 = family.mean_strength[f], family.shape[f], family.rate[f]
            m0 = family.mean[f] - family.center_[f]
            s = self.first[i, f, None] + self.first[:, f] - n * m0
            q = self.second[i, f, None] + self.second[:, f] - 2 * m0 * (s + n * m0) + n * m0**2
            b = b0 + 0.5 * (q - s**2 / (k0 + n))
            a = a0 + 0.5 * n
            total = total + gammaln(a) - gammaln(a0) + a0 * np.log(b0) - a * np.log(b) + 0.5 * np.log(k0 / (k0 + n))
        return total


CASES = {
    "multinomial": (lambda: Multinomial(concentration=0.05), short_texts, CountPairs),
    "diagonal": (DiagonalGaussian, points, ColumnPairs),
}


def best_of_all(state, alpha, pairs_of):
    """The highest log odds among the live pairs, from the data and the forest alone."""
    tree, family = state.tree(), state.model.family
    label = np.empty(N, dtype=np.int32)
    for rank, root in enumerate(tree.roots):
        label[tree.leaves(root)] = rank
    n, S = state.data.statistics(label, len(tree.roots))
    pairs, weight, best = pairs_of(family, n, S), tree.log_weight[tree.roots], -np.inf
    for start in range(0, len(n), 256):
        i = np.arange(start, min(start + 256, len(n)))
        odds = math.log(alpha) + gammaln(n[i, None] + n) + pairs(i) - weight[i, None] - weight
        odds[np.arange(len(i)), i] = -np.inf
        best = max(best, odds.max())
    return best


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_every_merge_is_the_best_of_all_live_pairs(name):
    family, make, pairs_of = CASES[name]
    data = Dataset(make(np.random.default_rng(1)), family())
    kernel = HierarchicalClustering(n_merges=1)
    state = kernel.init(MixtureModel(data.family, DirichletProcess(0.3)), data)
    for merged in range(N - 1):
        expected = best_of_all(state, 0.3, pairs_of) if merged in REPLAYED else None
        assert kernel.step(state).accepted
        if expected is not None:
            assert state.tree().log_odds[-1] == pytest.approx(expected, abs=1e-7), merged
    assert state.n_clusters == 1
