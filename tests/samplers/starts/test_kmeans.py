"""Starting labels from Lloyd runs: runs, rows, coordinates, threads and the named rule."""

import tracemalloc

import numpy as np
import pytest
from kmeans_slow import inertia, squares
from scipy import sparse

from expfam.families.counts.poisson import Poisson
from expfam.families.gaussian.diagonal import DiagonalGaussian
from expfam.model.data import Dataset
from expfam.model.mixture import MixtureModel
from expfam.model.weights import SymmetricDirichlet
from expfam.samplers.starts import kmeans as starts
from expfam.samplers.starts.kmeans import kmeans_labels, lloyd_labels, many_labels, row_tiles
from expfam.samplers.starts.rules import starting_labels


def groups(N=900, k=6, seed=0):
    rng = np.random.default_rng(seed)
    z = rng.permutation(np.arange(N) % k)
    return 30 * rng.normal(size=(k, 4))[z] + rng.normal(size=(N, 4)), z


def same_partition(a, b):
    pairs = len(set(zip(a.tolist(), b.tolist())))
    return pairs == len(set(a.tolist())) == len(set(b.tolist()))


def test_a_run_finds_separated_groups_whatever_units_and_origin():
    X, z = groups()
    labels = lloyd_labels(Dataset(X, DiagonalGaussian()), 6, seed=1, run=0)
    assert labels.dtype == np.int32
    assert same_partition(labels, z)
    moved = Dataset(X * [1e3, 1e-3, 1.0, 8.0] + 1e3, DiagonalGaussian())
    np.testing.assert_array_equal(labels, lloyd_labels(moved, 6, seed=1, run=0))


def test_runs_and_seeds_are_independent_and_repeat():
    data = Dataset(np.random.default_rng(0).normal(size=(500, 3)), DiagonalGaussian())
    labels = [lloyd_labels(data, 8, seed=s, run=r) for s, r in ((0, 0), (0, 1), (0, 2), (1, 0), (0, 1))]
    np.testing.assert_array_equal(labels[1], labels[4])
    for a in range(4):
        for b in range(a):
            assert not same_partition(labels[a], labels[b])


def test_rows_may_be_chosen_and_stored_once():
    X, _ = groups()
    data, chosen = Dataset(X, DiagonalGaussian()), np.arange(3, 900, 7)
    labels = lloyd_labels(data, 9, seed=2, run=1, rows=chosen)
    assert labels.shape == chosen.shape
    tiles = row_tiles(data, seed=2, rows=chosen)
    np.testing.assert_array_equal(labels, lloyd_labels(data, 9, seed=2, run=1, rows=tiles))
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    means = np.array([Z[chosen][labels == k].mean(axis=0) for k in range(9)])
    changed = squares(Z[chosen], means).argmin(axis=1) != labels
    assert changed.mean() < 0.02  # the passes end where little changes


def test_large_data_are_labelled_by_the_centres_of_a_sample(monkeypatch):
    X, z = groups(3000)
    monkeypatch.setattr(starts, "_FEWEST_ROWS", 400)
    monkeypatch.setattr("expfam.samplers.geometry.coordinates._BLOCK_BYTES", 8000)
    data = Dataset(X, DiagonalGaussian())
    labels = kmeans_labels(data, 6, seed=0)
    assert labels.shape == (3000,)
    assert same_partition(labels, z)
    np.testing.assert_array_equal(labels, kmeans_labels(data, 6, seed=0, n_threads=2))
    few = kmeans_labels(data, 3, seed=0)
    assert inertia(X, few) < 1.5 * inertia(X, lloyd_labels(data, 3, seed=0, run=0))


@pytest.mark.parametrize("width", [30, 400])
def test_sparse_counts_are_labelled_projected_or_not(width):
    rng = np.random.default_rng(4)
    z = np.arange(400) % 4
    X = rng.poisson(np.where(np.arange(width)[None] % 4 == z[:, None], 5.0, 0.02))
    for index in (np.int32, np.int64):
        csr = sparse.csr_array(X)
        csr.indices, csr.indptr = csr.indices.astype(index), csr.indptr.astype(index)
        data = Dataset(csr, Poisson())
        assert row_tiles(data, seed=0).n_columns == min(width, 64 if width > 64 else width)
        assert same_partition(kmeans_labels(data, 4, seed=6), z)
        np.testing.assert_array_equal(
            kmeans_labels(data, 4, seed=6), lloyd_labels(data, 4, seed=6, run=0, rows=np.arange(400))
        )


def test_fewer_distinct_rows_or_fewer_rows_than_clusters():
    data = Dataset(np.repeat([[0.0], [1.0], [5.0]], 10, axis=0), DiagonalGaussian())
    assert same_partition(lloyd_labels(data, 8, seed=0, run=0), np.repeat([0, 1, 2], 10))
    assert sorted(lloyd_labels(Dataset([[0.0], [1.0]], DiagonalGaussian()), 5, seed=0, run=0)) == [0, 1]
    with pytest.raises(ValueError, match="from 1 to the 30 rows; got 0"):
        lloyd_labels(data, 0, seed=0, run=0)


def test_the_named_rule_is_the_first_run():
    X, _ = groups()
    data = Dataset(X, DiagonalGaussian())
    model = MixtureModel(data.family, SymmetricDirichlet(7)).bind(data)
    labels = starting_labels("kmeans", model, data, seed=3)
    assert labels.dtype == np.int32
    np.testing.assert_array_equal(labels, lloyd_labels(data, 7, seed=3, run=0))
    few = starting_labels("kmeans", model, data, seed=3, n_clusters=2, n_threads=2)
    np.testing.assert_array_equal(few, lloyd_labels(data, 2, seed=3, run=0))


def test_passes_gain_over_the_seeds():
    X = np.random.default_rng(7).normal(size=(800, 2))
    data = Dataset(X, DiagonalGaussian())
    model = MixtureModel(data.family, SymmetricDirichlet(12)).bind(data)
    for seed in range(5):
        found = [inertia(X, starting_labels(name, model, data, seed=seed)) for name in ("kmeans", "kmeans++")]
        assert found[0] < 0.9 * found[1]


def test_many_clusters_of_rows_in_single_precision_are_divided_without_a_copy_of_these(monkeypatch):
    X = np.random.default_rng(3).normal(size=(30_000, 64)).astype(np.float32)
    data, found = Dataset(X, DiagonalGaussian()), []
    for is_stored in (True, False):
        with monkeypatch.context() as patch:
            if is_stored:
                patch.setattr(starts.Rows, "standardised", lambda rows: None)
            tracemalloc.start()
            found.append(many_labels(data, 70, seed=0, run=0, n_threads=2))
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        assert (peak > X.nbytes) == is_stored
    np.testing.assert_array_equal(*found)


def test_seeds_of_many_clusters_come_from_a_sample_and_the_passes_see_all_rows():
    X, _ = groups(N=1200, k=10)
    data = Dataset(X, DiagonalGaussian())
    sample, many = [], [many_labels(data, 40, seed=0, run=run, n_threads=n) for run, n in ((0, 1), (0, 2), (1, 1))]
    np.testing.assert_array_equal(many[0], many[1])
    assert not same_partition(many[0], many[2])
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    for labels in many:
        assert labels.dtype == np.int32
        assert len(np.unique(labels)) == 40
        means = np.array([Z[labels == k].mean(axis=0) for k in range(40)])
        assert (squares(Z, means).argmin(axis=1) != labels).mean() < 0.02  # as the passes over all rows end
        sample.append(inertia(Z, labels))
    whole = [inertia(Z, lloyd_labels(data, 40, seed=0, run=run)) for run in range(3)]
    assert np.mean(sample) < 1.15 * np.mean(whole)
    few = many_labels(Dataset(X[:20], DiagonalGaussian()), 40, seed=0, run=0)  # no more seeds than rows
    assert sorted(few) == list(range(20))
