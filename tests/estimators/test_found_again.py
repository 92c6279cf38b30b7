"""Trees over clusters that other fits do not tell apart, and agreement of all their cuts."""

import numpy as np
import pytest
from scipy.cluster.hierarchy import is_monotonic, is_valid_linkage
from sklearn.metrics import adjusted_rand_score

from expfam.coarsening.found_again import cut_agreements, known_tree, shared_rows
from expfam.coarsening.linkages import cut, node_leaves, sums_of_squares


def drawn_tree(rng, K):
    """A linkage of random merges."""
    live, merges = list(range(K)), np.empty((K - 1, 4))
    for t in range(K - 1):
        a, b = sorted(rng.choice(live, 2, replace=False).tolist())
        live = [k for k in live if k not in (a, b)] + [K + t]
        merges[t] = a, b, t, 2
    return merges


@pytest.mark.parametrize(("A", "B"), [(7, 5), (2, 9), (1, 4), (6, 1), (1, 1)])
def test_all_cuts_agree_as_each_does_by_itself(A, B):
    rng = np.random.default_rng(10 * A + B)
    a, b = (np.concatenate([np.arange(K), rng.integers(K, size=60 - K)]) for K in (A, B))
    trees = drawn_tree(rng, A), drawn_tree(rng, B)
    found = cut_agreements(*trees, shared_rows(a, b, (A, B)))
    for s in range(A):
        for t in range(B):
            expected = adjusted_rand_score(cut(trees[0], A - s)[a], cut(trees[1], B - t)[b])
            assert found[s, t] == pytest.approx(expected, abs=1e-12)


def test_sums_of_squares_follow_the_merges():
    rng = np.random.default_rng(0)
    sizes, tree = rng.integers(1, 30, size=8).astype(float), drawn_tree(rng, 8)
    for s, found in enumerate(sums_of_squares(tree, sizes)):
        assert found == (np.bincount(cut(tree, 8 - s), weights=sizes) ** 2).sum()
    assert node_leaves(tree)[-1].tolist() == [1.0] * 8


def test_pieces_of_groups_are_put_together_first():
    rng = np.random.default_rng(1)
    group = np.repeat(np.arange(4), 100)
    pieces = 3 * group + rng.integers(3, size=400)
    others = [3 * group + rng.integers(3, size=400) for _ in range(5)]
    tree = known_tree([shared_rows(pieces, other, (12, 12)) for other in others])
    assert is_valid_linkage(tree)
    assert is_monotonic(tree)
    assert tree[-1, 3] == 12
    assert adjusted_rand_score(group, cut(tree, 4)[pieces]) == 1.0
    assert tree[8, 2] > 5 * tree[7, 2]  # three merges make one group of two


def test_classes_are_joined_last():
    pieces = np.repeat(np.arange(4), 10)
    table = shared_rows(pieces, pieces // 2, (4, 2))
    assert known_tree([table])[0, :2].tolist() == [0.0, 1.0]
    classes = np.array([0, 1, 0, 1])
    assert cut(known_tree([table], classes), 2).tolist() == [0, 1, 0, 1]
