"""The rows in several metrics."""

import numpy as np
from scipy import sparse

from expfam import Dataset, DiagonalGaussian, Multinomial
from expfam.samplers.geometry.metrics import metrics_of

RNG = np.random.default_rng(0)
MIXED = RNG.normal(size=(60, 3)) @ np.array([[1.0, 5.0, 0.0], [0.0, 1.0, 0.0], [2.0, 0.0, 100.0]])


def test_whitened_columns_have_the_identity_as_covariance():
    white = metrics_of(Dataset(MIXED, DiagonalGaussian()), seed=0)["white"]
    assert np.allclose(np.cov(white.T, bias=True), np.eye(3), atol=1e-6)


def test_raw_columns_keep_their_ratios_and_missing_cells_the_mean():
    X = MIXED.copy()
    X[4, 1] = np.nan
    raw = metrics_of(Dataset(X, DiagonalGaussian(missing=True)), seed=0)["raw"]
    assert np.isfinite(raw).all()
    assert abs(raw[4, 1]) < 1e-12
    held = np.nan_to_num(X, nan=np.nanmean(X[:, 1]))
    held -= held.mean(axis=0)
    assert np.allclose(raw, held / np.abs(held).max())


def test_sparse_counts_have_the_coordinates_of_dense_ones():
    X = RNG.poisson(2.0, size=(30, 4))
    found = metrics_of(Dataset(sparse.csr_array(X), Multinomial()), seed=0)
    assert list(found) == ["own", "raw", "log"]
    assert np.array_equal(found["raw"], X)
    assert np.allclose(found["log"], np.log1p(X))


def test_one_column_and_few_rows_are_not_whitened():
    assert "white" not in metrics_of(Dataset(MIXED[:, :1], DiagonalGaussian()), seed=0)
    assert "white" not in metrics_of(Dataset(MIXED[:8], DiagonalGaussian()), seed=0)
    assert "white" in metrics_of(Dataset(MIXED[:9], DiagonalGaussian()), seed=0)
