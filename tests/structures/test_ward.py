"""Ward's tree by the merge queue, against SciPy and against the same scores in NumPy."""

import gc

import numpy as np
import pytest
from scipy.cluster.hierarchy import linkage

from expfam.structures import MergeQueue, WardPartners


def tree(X, *, size=None, n_threads=1, n_kept=4):
    partners = WardPartners(X, size=size)
    return MergeQueue(len(X), partners, n_threads=n_threads, n_kept=n_kept).run(partners.absorb)


def tree_of_pairs(X, size):
    """All pairs at every merge, by the definition: highest score, then smallest (older id, younger id)."""
    n = len(X)
    center, size, ids = [*X.tolist()], [*size.tolist()], list(range(n))
    center, slots, children, scores = np.array(center), list(range(n)), [], []

    def score(k, l):
        return -(size[k] * size[l] / (size[k] + size[l])) * sum((a - b) * (a - b) for a, b in zip(center[k], center[l]))

    while len(slots) > 1:
        pairs = [(-score(k, l), ids[k], ids[l], k, l) for i, k in enumerate(slots) for l in slots[i + 1 :]]
        value, i, j, k, l = min(pairs)
        children.append((i, j))
        scores.append(-value)
        center[k] = (size[k] * center[k] + size[l] * center[l]) / (size[k] + size[l])
        size[k] += size[l]
        ids[k] = n + len(children) - 1
        slots = [slot for slot in slots if slot not in (k, l)] + [k]
    return children, scores


def test_ward_is_that_of_scipy():
    X = np.random.default_rng(2).normal(size=(200, 5))
    children, scores = tree(X)
    Z = linkage(X, "ward")
    np.testing.assert_array_equal(children, np.sort(Z[:, :2], axis=1))
    np.testing.assert_allclose(np.sqrt(-2 * scores), Z[:, 2], rtol=1e-12)


@pytest.mark.parametrize("n_patterns", [1, 3, None])
def test_merges_are_those_of_all_pairs_to_the_bit(n_patterns):
    for seed in range(12):
        rng = np.random.default_rng(seed)
        n = 2 + 3 * seed
        X = rng.normal(size=(n_patterns or n, 1 + seed % 3))[rng.integers(n_patterns or n, size=n)]
        X = X.round() if seed % 2 else X
        size = rng.integers(1, 3, size=n).astype(float) if seed % 3 else np.ones(n)
        expected = tree_of_pairs(X, size)
        for options in ({}, {"n_kept": 1}, {"n_threads": 3}):
            children, scores = tree(X, size=size, **options)
            assert list(map(tuple, children.tolist())) == expected[0]
            assert scores.tolist() == expected[1]


@pytest.mark.parametrize("n_patterns", [1, 7, 240])
def test_equal_items_cost_no_more_scores_than_others(n_patterns):
    n = 240
    X = np.random.default_rng(0).normal(size=(n_patterns, 3))[np.arange(n) % n_patterns]
    partners = WardPartners(X)
    queue = MergeQueue(n, partners)
    queue.run(partners.absorb)
    assert queue.n_scores <= {1: 1.1, 7: 0.25, 240: 0.1}[n_patterns] * (n - 1) ** 2


def test_a_search_goes_on_after_it_stopped():
    X = np.random.default_rng(6).normal(size=(80, 3))
    children, scores = tree(X)
    partners = WardPartners(X)
    queue = MergeQueue(80, partners)
    first = queue.run(partners.absorb, n_clusters=50)
    assert queue.n_live == 50
    again = MergeQueue.from_arrays(queue.to_arrays(), partners)
    rest = again.run(partners.absorb)
    np.testing.assert_array_equal(np.concatenate([first[0], rest[0]]), children)
    np.testing.assert_array_equal(np.concatenate([first[1], rest[1]]), scores)


def test_the_owner_is_kept_alive():
    queue = MergeQueue(50, WardPartners(np.random.default_rng(0).normal(size=(50, 2))))
    gc.collect()
    assert queue.best() is not None


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match="finite"):
        WardPartners(np.array([[np.nan]]))
    with pytest.raises(ValueError, match="non-empty"):
        WardPartners(np.empty((0, 2)))
    with pytest.raises(ValueError, match="positive"):
        WardPartners(np.eye(2), size=[1.0, 0.0])
    partners = WardPartners(np.eye(3))
    with pytest.raises(ValueError, match="slot 1 twice"):
        partners.absorb(1, 1)
    partners.absorb(0, 1)
    for pair in ((0, 1), (2, 3), (-1, 0)):
        with pytest.raises(IndexError, match="holds no live cluster"):
            partners.absorb(*pair)
