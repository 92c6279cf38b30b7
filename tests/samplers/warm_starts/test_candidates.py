"""Divisions of rows by k-means and by single columns."""

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from expfam import Dataset, DiagonalGaussian
from expfam.samplers.warm_starts.candidates import Divisions

RNG = np.random.default_rng(0)
SIDES = np.arange(200) % 2


@pytest.mark.parametrize("n_threads", [1, 2])
def test_one_telling_column_is_found(n_threads):
    X = np.column_stack([RNG.normal(size=(200, 20)), SIDES * 20.0 + np.random.default_rng(1).normal(size=200)])
    divisions = Divisions(Dataset(X, DiagonalGaussian()), seed=0, n_threads=n_threads)
    assert adjusted_rand_score(SIDES, divisions.of_best_column(2)) == 1.0
    assert adjusted_rand_score(SIDES, divisions.kmeans("raw", 2)) == 1.0


def test_noise_and_one_cluster_have_no_telling_column():
    divisions = Divisions(Dataset(RNG.normal(size=(2000, 3)), DiagonalGaussian()), seed=0)
    assert divisions.of_best_column(2) is None
    assert divisions.of_best_column(1) is None


def test_threads_do_not_change_a_division():
    data = Dataset(RNG.normal(size=(700, 3)), DiagonalGaussian())
    one, two = (Divisions(data, seed=3, n_threads=n).kmeans("own", 5) for n in (1, 2))
    assert np.array_equal(one, two)


@pytest.mark.parametrize("n_clusters", [6, None])
def test_a_row_of_groups_in_one_column_is_found(n_clusters):
    groups = np.arange(900) % 6
    X = np.random.default_rng(0).normal(size=(900, 5)) + np.outer(groups, [0.0, 0.0, 6.0, 0.0, 0.0])
    divisions = Divisions(Dataset(X / X.std(axis=0), DiagonalGaussian()), seed=0)
    assert adjusted_rand_score(groups, divisions.of_segments(n_clusters)) > 0.98


def test_noise_few_segments_and_one_column_are_no_row_of_groups():
    divisions = Divisions(Dataset(RNG.normal(size=(2000, 3)), DiagonalGaussian()), seed=0)
    assert divisions.of_segments() is None
    assert divisions.of_segments(5) is None
    row = Divisions(Dataset(8.0 * SIDES[:, None] + RNG.normal(size=(200, 3)), DiagonalGaussian()), seed=0)
    assert row.of_segments(3) is None
    line = Divisions(Dataset(6.0 * (np.arange(400) % 5)[:, None], DiagonalGaussian()), seed=0)
    assert line.of_segments(5) is None
