"""Clusters that hold a row of groups along one column."""

import numpy as np
import pytest

from expfam.samplers.starts.halves import segmented_clusters


def row_of_groups(n_rows, n_groups, column, n_columns=6, seed=0):
    rng = np.random.default_rng(seed)
    classes = rng.integers(0, n_groups, n_rows)
    return rng.normal(size=(n_rows, n_columns)) + 6.0 * classes[:, None] * np.eye(n_columns)[column], classes


def test_each_cluster_is_cut_along_its_own_column():
    first, of_first = row_of_groups(400, 3, column=1)
    second, of_second = row_of_groups(500, 5, column=4, seed=1)
    points = np.concatenate([first, second])
    clusters = [np.arange(400), np.arange(400, 900)]
    found = segmented_clusters(points, clusters)
    assert [one.labels.max() + 1 for one in found] == [5, 3]  # the highest gain first
    assert np.mean(found[0].labels == of_second) > 0.98
    assert np.mean(found[1].labels == of_first) > 0.98
    np.testing.assert_array_equal(found[0].rows, clusters[1])


@pytest.mark.parametrize("draw", ["normal", "standard_t"])
def test_a_cluster_of_one_group_is_left_whole(draw):
    rng = np.random.default_rng(0)
    points = rng.normal(size=(900, 4)) if draw == "normal" else rng.standard_t(3, size=(900, 4))
    assert segmented_clusters(points, [np.arange(900)]) == []


def test_few_rows_and_constant_columns_are_left_whole():
    points, _ = row_of_groups(19, 3, column=0)
    assert segmented_clusters(points, [np.arange(19)]) == []
    assert segmented_clusters(np.ones((50, 2)), [np.arange(50)]) == []


def test_weights_count():
    points, classes = row_of_groups(600, 4, column=0)
    weight = np.where(classes < 3, 1.0, 1e-6)
    (found,) = segmented_clusters(points, [np.arange(600)], weight)
    assert found.labels.max() + 1 == 3
