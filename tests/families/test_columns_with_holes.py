"""Columns that lack the same rows share a logarithm; the scores are those of each column by itself."""

import numpy as np
import pytest

from expfam import Dataset, DiagonalGaussian, LogNormal
from expfam.families.components import Components

SLOTS, ROWS = 20, 300


def cells(rng):
    """Return rows in which columns 0..8 are complete, 9 to 11 lack the same rows, and so do 12 and 13."""
    X = rng.normal(size=(ROWS, 16)) + 4.0 * rng.integers(SLOTS, size=(ROWS, 1))
    for columns in ([9, 10, 11], [12, 13], [14], [15]):
        X[np.ix_(rng.random(ROWS) < 0.3, columns)] = np.nan
    return X[:, rng.permutation(16)]


def loaded(data, X, rng):
    components = Components(data.family, data, SLOTS)
    n, S = data.statistics(rng.integers(SLOTS, size=ROWS).astype(np.int32), SLOTS)
    components.load(n, S)
    return components


def agree(components, n_rows):
    """Compare the scan over all slots with the scores slot by slot, which take one logarithm for each column."""
    slots = np.arange(SLOTS)
    for i in range(n_rows):
        by_slot = components.log_predictive(i, slots)
        np.testing.assert_allclose(components.log_predictive(i)[:SLOTS], by_slot, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    "family",
    [
        DiagonalGaussian(missing=True),
        DiagonalGaussian(missing=True, shape=np.linspace(1.0, 3.0, 16)),
        DiagonalGaussian(missing=True, alike=np.arange(16) % 3 == 0),
        LogNormal(missing=True),
    ],
    ids=["one shape", "several shapes", "alike columns", "logarithms"],
)
def test_scores_are_those_of_each_column_by_itself(family):
    rng = np.random.default_rng(0)
    X = cells(rng)
    data = Dataset(np.exp(X / 20.0) if isinstance(family, LogNormal) else X, family)
    agree(loaded(data, X, rng), ROWS)


def test_rows_with_other_holes_and_outliers_are_scored_too():
    rng = np.random.default_rng(1)
    X = cells(rng)
    data = Dataset(X, DiagonalGaussian(missing=True))
    components = loaded(data, X, rng)
    far = X.copy()
    far[:5] *= 1e30  # products of the columns of a group would leave the range
    components.set_data(Dataset(far, data.family))
    agree(components, 20)
    other = rng.normal(size=(50, 16))
    other[rng.random(other.shape) < 0.3] = np.nan
    other[0] = np.nan
    other[1, :3] = 1e200
    components.set_data(Dataset(other, data.family))
    agree(components, 50)
    # a row that has half of a group: the counts of its columns differ from now on
    components.add(3, 0)
    components.add(4, 1)
    agree(components, 50)


def test_statistics_with_other_counts_are_not_joined():
    rng = np.random.default_rng(2)
    X = np.ones((ROWS, 4)) * rng.normal(size=(ROWS, 1)) + rng.normal(size=(ROWS, 4))
    data = Dataset(X, DiagonalGaussian(missing=True))
    components = loaded(data, X, rng)
    n, S = components.export()
    S = S.copy()
    S[:, 1] = np.floor(S[:, 1] / 2.0)  # column 1 as if half of the rows had lacked it
    components.load(n, S)
    agree(components, ROWS)
