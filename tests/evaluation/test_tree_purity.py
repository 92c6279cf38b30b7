"""Dendrogram purity against all pairs of rows, and the errors of what is no tree."""

import itertools

import numpy as np
import pytest
from scipy.cluster.hierarchy import linkage
from sklearn.cluster import AgglomerativeClustering

from expfam import BayesianHierarchy, DiagonalGaussian, dendrogram_purity
from expfam.errors import DataError


def by_all_pairs(classes, merges, leaf):
    """Of each pair of one class, the share of that class below their lowest common node."""
    below = [set(np.flatnonzero(leaf == node).tolist()) for node in range(len(merges) + 1)]
    for left, right in merges:
        below.append(below[int(left)] | below[int(right)])
    shares = []
    for i, j in itertools.combinations(range(len(classes)), 2):
        if classes[i] == classes[j]:
            smallest = min((rows for rows in below if {i, j} <= rows), key=len)
            shares.append(np.mean([classes[row] == classes[i] for row in smallest]))
    return np.mean(shares)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("method", ["single", "complete", "average", "ward"])
def test_agrees_with_all_pairs(seed, method):
    rng = np.random.default_rng(seed)
    X, classes = rng.normal(size=(40, 3)), rng.integers(0, 4, 40)
    Z = linkage(X, method)
    expected = by_all_pairs(classes, Z[:, :2], np.arange(40))
    assert dendrogram_purity(classes, Z) == pytest.approx(expected, rel=1e-12)
    assert dendrogram_purity(classes.astype(str), Z[:, :2].astype(int)) == pytest.approx(expected, rel=1e-12)


def test_takes_trees_of_estimators_and_rows_that_share_a_leaf():
    rng = np.random.default_rng(1)
    X, classes = rng.normal(size=(30, 2)), rng.integers(0, 3, 30)
    ward = AgglomerativeClustering().fit(X)
    assert dendrogram_purity(classes, ward) == pytest.approx(by_all_pairs(classes, ward.children_, np.arange(30)))
    links = np.where(np.arange(30) < 12, np.arange(30) // 4, -1)
    tree = BayesianHierarchy(DiagonalGaussian()).fit(X, links=links)
    assert len(tree.children_) == 30 - 9 - 1
    assert dendrogram_purity(classes, tree) == pytest.approx(by_all_pairs(classes, tree.children_, tree.leaf_))


def test_of_a_perfect_and_of_a_shuffled_tree():
    X = np.concatenate([np.zeros((10, 1)), np.full((10, 1), 9.0)]) + np.linspace(0, 0.1, 20)[:, None]
    classes = np.repeat([0, 1], 10)
    Z = linkage(X, "average")
    assert dendrogram_purity(classes, Z) == 1.0
    shuffled = np.random.default_rng(0).permutation(classes)
    assert 0.4 < dendrogram_purity(shuffled, Z) < 0.8


@pytest.mark.parametrize(
    ("classes", "tree", "message"),
    [
        ([0, 1, 2], [[0, 1], [2, 3]], "no two of 3 rows share a class"),
        ([[0, 0]], [[0, 1]], "shape \\(1, 2\\)"),
        ([0, 0, 1], [[0, 1]], "3 leaves need 2 merges"),
        ([0, 0, 1], [[0, 1], [2, 3], [3, 4]], "3 leaves need 2 merges"),
        ([0, 0, 1], [[0, 3], [1, 2]], "merge 0 takes a node that is made later"),
        ([0, 0, 1], [[0, 1], [0, 3]], "a node is merged twice"),
        ([0, 0, 1], [0, 1, 2], "got shape \\(3,\\)"),
    ],
)
def test_what_is_no_tree_is_refused(classes, tree, message):
    with pytest.raises(DataError, match=message):
        dendrogram_purity(classes, tree)


def test_rows_of_another_number_than_fitted_are_refused():
    tree = BayesianHierarchy(DiagonalGaussian()).fit(np.random.default_rng(0).normal(size=(12, 2)))
    with pytest.raises(DataError, match="labels_true has 11 rows, the tree was fitted to 12"):
        dendrogram_purity(np.zeros(11), tree)
