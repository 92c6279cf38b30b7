"""Merges of clusters that other partitions do not tell apart."""

import numpy as np
import pytest
from scipy.stats import entropy

from expfam.structures.merging.known_merges import known_merges


def by_terms(tables, classes):
    """The same merges with mutual informations written out, all pairs anew at each step."""
    tables = [np.array(table, dtype=float) for table in tables]
    classes, live = list(classes), list(range(len(tables[0])))
    pairs, heights = [], []

    def told(a, b):
        n = np.array([tables[0][k].sum() for k in (a, b)])
        h = n.sum() * entropy(n)
        informations = []
        for table in tables:
            joint = table[[a, b]] / n.sum()
            independent = np.outer(joint.sum(axis=1), joint.sum(axis=0))
            used = joint > 0
            informations.append(n.sum() * (joint[used] * np.log(joint[used] / independent[used])).sum())
        return np.mean(informations) / np.sqrt(h)

    while len(live) > 1:
        every = [(a, b) for i, a in enumerate(live) for b in live[i + 1 :]]
        allowed = [(a, b) for a, b in every if min(classes[a], classes[b]) < 0 or classes[a] == classes[b]]
        if not allowed:
            allowed, classes = every, [-1] * len(classes)
        a, b = min(allowed, key=lambda pair: told(*pair))
        pairs.append([a, b])
        heights.append(told(a, b))
        for table in tables:
            table[a] += table[b]
        classes[a] = max(classes[a], classes[b])
        live.remove(b)
    return pairs, heights


def drawn_tables(seed, K=9, n_others=3):
    rng = np.random.default_rng(seed)
    labels = np.concatenate([np.arange(K), rng.integers(K, size=300)])
    tables = []
    for _ in range(n_others):
        other = (labels * rng.uniform(0.4, 1.0) + rng.normal(size=labels.size)).astype(int)
        other -= other.min()
        table = np.zeros((K, other.max() + 1))
        np.add.at(table, (labels, other), 1)
        tables.append(table)
    return tables


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("has_classes", [False, True])
def test_merges_are_those_of_mutual_informations(seed, has_classes):
    tables = drawn_tables(seed)
    classes = np.array([0, 1, -1, 0, 2, 1, -1, 2, 0]) if has_classes else np.full(9, -1)
    pairs, heights = known_merges(np.hstack(tables), 3, classes)
    expected, expected_heights = by_terms(tables, classes)
    assert pairs.tolist() == expected
    np.testing.assert_allclose(heights, expected_heights, rtol=1e-9, atol=1e-9)


def test_clusters_of_two_classes_are_joined_last():
    tables = drawn_tables(0)
    classes = np.array([0, 1, 2, 0, 2, 1, 0, 2, 0])
    pairs = known_merges(np.hstack(tables), 3, classes)[0]
    assert all(classes[a] == classes[b] for a, b in pairs[:6])


def test_the_table_stays_as_it_is():
    table = np.hstack(drawn_tables(1))
    before = table.copy()
    known_merges(table, 3, np.full(9, -1))
    np.testing.assert_array_equal(table, before)


def test_one_cluster_has_no_merges():
    pairs, heights = known_merges([[3.0, 1.0]], 1, [-1])
    assert pairs.shape == (0, 2)
    assert heights.shape == (0,)


def test_unfitting_arguments_are_named():
    with pytest.raises(ValueError, match="cluster 1 shares no row"):
        known_merges([[1.0], [0.0]], 1, [-1, -1])
    with pytest.raises(ValueError, match=r"got a table of shape \(2, 1\), n_others=0 and 2 classes"):
        known_merges([[1.0], [2.0]], 0, [-1, -1])
    with pytest.raises(ValueError, match=r"and 1 class$"):
        known_merges([[1.0], [2.0]], 1, [-1])
