"""Counts and sums by label equal their plain definition, for every layout of the data."""

import numpy as np
import pytest
from scipy import sparse

import expfam.model.statistics as statistics
from expfam import Dataset, DiagonalGaussian, Multinomial, Poisson, SphericalGaussian
from expfam.structures.ground.threads import segments


def plain(phi, labels, K):
    n = np.array([(labels == k).sum() for k in range(K)], dtype=float)
    S = np.array([phi[labels == k].sum(axis=0) for k in range(K)])
    return n, S


@pytest.mark.parametrize("value", [np.int32, np.int64, np.float32, np.float64])
@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("n_clusters", [4, 200_000])  # through a dense table, and cluster by cluster
def test_sparse(value, index, n_clusters):
    rng = np.random.default_rng(0)
    dense = rng.poisson(0.4, (300, 40))
    dense[:, 7] = 0
    X = sparse.csr_array(dense.astype(value))
    X.indices, X.indptr = X.indices.astype(index), X.indptr.astype(index)
    labels = rng.integers(-1, 4, 300)
    labels[labels == 2] = 3  # an empty cluster
    n, S = Dataset(X, Poisson(shape=1.0, rate=1.0)).statistics(labels, n_clusters)
    exact_n, exact_S = plain(dense, labels, 4)
    assert sparse.issparse(S)
    assert S.has_sorted_indices
    assert (S.data != 0).all()
    np.testing.assert_array_equal(n[:4], exact_n)
    np.testing.assert_array_equal(S[:4].toarray(), exact_S)
    assert n[4:].sum() == 0
    assert S[4:].nnz == 0


@pytest.mark.parametrize("n_rows", [1, 63, 64, 65, 1000])
def test_dense(n_rows):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n_rows, 3))
    data = Dataset(X, DiagonalGaussian(mean=0.0, mean_strength=1.0, rate=1.0))
    labels = rng.integers(-1, 5, n_rows)
    n, S = data.statistics(labels, 5)
    exact_n, exact_S = plain(data.phi(0, n_rows), labels, 5)
    np.testing.assert_array_equal(n, exact_n)
    np.testing.assert_allclose(S, exact_S, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("n_rows", [1, 63, 65, 1000, 600_000])  # the last is summed in several blocks
@pytest.mark.parametrize("n_clusters", [3, 40])
def test_sums_have_the_bits_of_their_definition(n_rows, n_clusters):
    """Sums in row order within 64 segments, then over the segments in order."""
    rng = np.random.default_rng(3)
    data = Dataset(rng.normal(size=(n_rows, 1)), DiagonalGaussian(mean=0.0, mean_strength=1.0, rate=1.0))
    labels = rng.integers(-1, n_clusters, n_rows)
    phi, expected = data.phi(0, n_rows), np.zeros((n_clusters, 2))
    for first, last in segments(n_rows):
        part, rows = np.zeros((n_clusters, 2)), labels[first:last] >= 0
        np.add.at(part, labels[first:last][rows], phi[first:last][rows])
        expected += part
    np.testing.assert_array_equal(data.statistics(labels, n_clusters)[1], expected)


@pytest.mark.parametrize(("n_rows", "n_columns"), [(1, 1), (65, 2), (3000, 200), (40_000, 300)])
@pytest.mark.parametrize("is_weighted", [False, True])
def test_a_recount_of_the_clusters_that_change_has_the_bits_of_one_of_all(n_rows, n_columns, is_weighted):
    rng, K = np.random.default_rng(4), 50
    X = rng.normal(size=(n_rows, n_columns)).astype(np.float32)
    data = Dataset(X, SphericalGaussian(mean=0.0, rate=1.0), weight=np.ones(n_rows) if is_weighted else None)
    old = rng.integers(K, size=n_rows).astype(np.int32)
    for clusters in ([], [3, 4], range(K)):  # between which rows move
        new = np.where(np.isin(old, clusters), np.roll(old, 1), old)
        expected = statistics.weighted_statistics(data, new, K)
        found = statistics.recounted_statistics(data, *statistics.weighted_statistics(data, old, K), old, new)
        np.testing.assert_array_equal(found[0], expected[0])
        np.testing.assert_array_equal(found[1], expected[1])


def test_the_order_of_sums_depends_on_the_size_of_the_data_alone(monkeypatch):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(5000, 2)) * 10.0 ** rng.integers(-8, 8, (5000, 2))
    data = Dataset(X, DiagonalGaussian(mean=0.0, mean_strength=1.0, rate=1.0))
    labels = rng.integers(0, 3, 5000)
    first = data.statistics(labels, 3)[1]
    assert (first == data.statistics(labels, 3)[1]).all()
    shares = [sum(data.phi(a, b)[labels[a:b] == 0].sum(axis=0) for a, b in [(0, 2500), (2500, 5000)])]
    np.testing.assert_allclose(first[0], shares[0], rtol=1e-9)


@pytest.mark.parametrize(("n_rows", "n_columns"), [(50, 2), (5000, 3), (9000, 500)])
def test_sums_of_some_rows_have_the_bits_of_labels_that_leave_out_the_others(n_rows, n_columns):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n_rows, n_columns)).astype(np.float32) * rng.choice([1e-3, 1e3], (n_rows, 1))
    data = Dataset(X, DiagonalGaussian(mean=0.0, mean_strength=1.0, rate=1.0))
    for share in (0.0, 0.1, 0.97):
        rows, labels = np.flatnonzero(rng.random(n_rows) < share), np.full(n_rows, -1, dtype=np.int32)
        labels[rows] = rng.integers(0, 4, rows.size)
        found = statistics.sums_of_rows(data, rows, labels[rows], 6)
        np.testing.assert_array_equal(found, data.statistics(labels, 6)[1])


def test_sums_of_some_sparse_rows():
    X = sparse.csr_array(1 + np.random.default_rng(5).poisson(0.5, (60, 7)))
    data, rows = Dataset(X, Multinomial(concentration=1.0)), np.array([2, 3, 50])
    found = statistics.sums_of_rows(data, rows, np.array([1, 0, 1], dtype=np.int32), 2)
    np.testing.assert_array_equal(found.toarray(), [X[[3]].toarray()[0], X[[2, 50]].toarray().sum(axis=0)])


def test_bad_labels_are_refused():
    data = Dataset([[1, 2], [0, 1]], Multinomial(concentration=1.0))
    with pytest.raises(ValueError, match="shape"):
        data.statistics([0], 1)
    with pytest.raises(ValueError, match="labels must be below 2; the largest is 5"):
        data.statistics([0, 5], 2)
    assert statistics.label_statistics(data, [-1, -1], 2)[0].sum() == 0


@pytest.mark.parametrize("is_sparse", [False, True])
def test_weights_of_rows_are_repetitions(is_sparse):
    rng = np.random.default_rng(4)
    X = rng.poisson(2.0, (200, 3)).astype(float)
    X = sparse.csr_array(X) if is_sparse else X
    family, times, labels = Poisson(shape=1.0, rate=1.0), rng.integers(0, 4, 200), rng.integers(5, size=200)
    again = np.repeat(np.arange(200), times)
    n, S = statistics.weighted_statistics(Dataset(X, family, weight=times), labels, 5)
    expected_n, expected_S = statistics.weighted_statistics(Dataset(X[again], family), labels[again], 5)
    np.testing.assert_array_equal(n, expected_n)
    difference = S - expected_S
    np.testing.assert_allclose(difference.toarray() if is_sparse else difference, 0.0, atol=1e-9)
