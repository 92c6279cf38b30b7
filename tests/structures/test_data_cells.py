"""Groupings of data: their makers, prototypes, draws and errors."""

import pickle

import numpy as np
import pytest
from scipy import sparse, stats

from expfam.structures import CoverTree, DataCells


def data(n=3000, seed=0):
    rng = np.random.default_rng(seed)
    return 4 * rng.normal(size=(12, 3))[rng.integers(12, size=n)] + rng.normal(size=(n, 3))


def test_members_are_the_groups():
    group = np.random.default_rng(1).permutation(np.arange(500) % 37)
    data_cells = DataCells(group)
    assert len(data_cells) == 37
    for g in range(37):
        assert (
            data_cells.members[data_cells.indptr[g] : data_cells.indptr[g + 1]].tolist()
            == np.flatnonzero(group == g).tolist()
        )
    assert data_cells.sizes.sum() == 500
    with pytest.raises(ValueError):
        data_cells.group[0] = 3


def test_prototypes_are_means_and_radii_are_true():
    X = data()
    group = np.random.default_rng(2).integers(0, 50, len(X))
    one, two = (DataCells(group, phi=X, n_threads=n) for n in (1, 2))
    for g in range(50):
        members = X[group == g]
        np.testing.assert_allclose(one.prototype[g], members.mean(axis=0), rtol=1e-12, atol=1e-13)
        farthest = np.linalg.norm(members - members.mean(axis=0), axis=1).max()
        np.testing.assert_allclose(one.radius[g], farthest, rtol=1e-12)
    assert one.prototype.tobytes() == two.prototype.tobytes()
    assert one.radius.tobytes() == two.radius.tobytes()


def test_many_groups_are_described_whole():
    X = data(40000)
    one, two = (DataCells(np.arange(40000) // 2, phi=X, n_threads=n) for n in (1, 3))
    np.testing.assert_allclose(one.prototype, (X[::2] + X[1::2]) / 2, rtol=1e-12, atol=1e-13)
    assert one.prototype.tobytes() == two.prototype.tobytes()
    whole = DataCells(np.zeros(40000, int), phi=X)
    np.testing.assert_allclose(whole.prototype[0], X.mean(axis=0), rtol=1e-10)


def test_cells_of_a_tree():
    X = data()
    tree = CoverTree(X)
    data_cells = DataCells.from_tree(tree, 100)
    assert data_cells.sizes.max() <= 100
    assert np.array_equal(data_cells.group, tree.assign(tree.frontier(100)))
    exact = DataCells(data_cells.group, phi=X)
    np.testing.assert_allclose(data_cells.prototype, exact.prototype, atol=1e-5)
    # cells are tight: far below the spread of all data
    assert np.median(data_cells.radius) < 0.5 * DataCells(np.zeros(len(X), int), phi=X).radius[0]


def test_large_leaves_are_cut_and_copies_are_kept():
    X = np.concatenate([np.arange(40.0)[:, None], np.full((200, 1), 1e4)])
    data_cells = DataCells.from_tree(CoverTree(X, leaf=64), 10)
    assert np.all(np.sort(data_cells.sizes)[:-1] <= 10)
    assert np.unique(data_cells.group[40:]).size == 1


def test_a_tree_after_inserts_groups_all_data_and_one_after_removals_is_refused():
    tree = CoverTree(data(500))
    tree.insert(data(30, seed=3))
    assert len(DataCells.from_tree(tree, 40).group) == 530
    tree.remove(7)
    with pytest.raises(ValueError, match="datum 7 was removed"):
        DataCells.from_tree(tree, 40)


def test_labels_are_numbered_by_appearance():
    assert DataCells.from_labels(["x", "a", "x", "m"]).group.tolist() == [0, 1, 0, 2]
    assert DataCells.from_labels([9, 2, 9, 5]).group.tolist() == [0, 1, 0, 2]


def test_duplicates_dense_and_sparse():
    rng = np.random.default_rng(4)
    X = rng.integers(0, 3, (200, 4)).astype(float)
    X[5] = 0.0
    X[6] = -0.0
    data_cells = DataCells.from_duplicates(X, phi=X)
    assert len(data_cells) == len(np.unique(X + 0.0, axis=0))
    assert np.all(data_cells.radius == 0)
    assert data_cells.group[5] == data_cells.group[6]
    assert np.array_equal(DataCells.from_duplicates(sparse.csr_array(X)).group, data_cells.group)
    shuffled = sparse.csr_array((np.array([1.0, 2.0, 2.0, 1.0]), np.array([0, 3, 3, 0]), np.array([0, 2, 4])), (2, 4))
    assert len(DataCells.from_duplicates(shuffled)) == 1


def test_drawn_members_are_uniform_in_their_group():
    data_cells = DataCells(np.repeat([0, 1, 2], [1, 5, 7]))
    drawn = data_cells._drawn_members(20000, np.random.default_rng(5))
    assert np.array_equal(data_cells.group[drawn], np.repeat([[0], [1], [2]], 20000, axis=1))
    for g in (1, 2):
        counts = np.bincount(drawn[g] - drawn[g].min())
        assert stats.chisquare(counts).pvalue > 1e-4
        wrong = counts + np.linspace(-300, 300, len(counts))  # a slanted law is seen
        assert stats.chisquare(wrong, np.full(len(wrong), wrong.mean())).pvalue < 1e-4


def test_pickles_keep_everything():
    data_cells = DataCells(np.arange(300) % 7, phi=data(300))
    copy = pickle.loads(pickle.dumps(data_cells))
    assert np.array_equal(copy.group, data_cells.group)
    assert copy.prototype.tobytes() == data_cells.prototype.tobytes()
    assert copy.radius.tobytes() == data_cells.radius.tobytes()
    assert pickle.loads(pickle.dumps(DataCells([0, 1]))).prototype is None


@pytest.mark.parametrize(
    ("group", "options", "words"),
    [
        ([], {}, "at least one integer"),
        ([0.5], {}, "integer"),
        ([0, -1], {}, "datum 1 has group -1"),
        ([0, 2, 2], {}, "group 1 is empty"),
        ([0, 5], {}, "group 5 of 2 data"),
        ([0, 1], {"phi": [[1.0]]}, "a row for each of 2 data"),
        ([0, 1], {"phi": [[1.0], [np.nan]]}, "not finite in group 1"),
    ],
)
def test_bad_groups_are_refused(group, options, words):
    with pytest.raises(ValueError, match=words):
        DataCells(group, **options)


def test_bad_input_of_the_makers_is_refused():
    with pytest.raises(ValueError, match="max_size"):
        DataCells.from_tree(CoverTree([[0.0]]), 0)
    with pytest.raises(ValueError, match="vector"):
        DataCells.from_labels(np.zeros((2, 2)))
    with pytest.raises(ValueError, match="matrix"):
        DataCells.from_duplicates(np.zeros(3))
