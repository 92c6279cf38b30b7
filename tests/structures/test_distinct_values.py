"""The number of distinct values and their smallest gap, against numpy.unique; parts and orders do not matter."""

import numpy as np
import pytest

from expfam.structures.rows.distinct_values import DistinctValues


def table(n, seed=0):
    rng = np.random.default_rng(seed)
    columns = [
        rng.integers(0, 50, n) * 0.1,
        rng.normal(size=n).round(2),
        rng.integers(0, n // 2 + 1, n),
        np.full(n, 3.0),
    ]
    return np.column_stack([*columns, rng.normal(size=n)])


def distinct(X, extremes=None):
    low, high = (np.nanmin(X, axis=0), np.nanmax(X, axis=0)) if extremes is None else extremes
    values = DistinctValues(low, high, len(X))
    values.add(X)
    return values


@pytest.mark.parametrize("n", [1, 10, 500, 2048])
def test_up_to_2048_values_are_counted_exactly(n):
    X = table(n)
    values = distinct(X)
    for j, column in enumerate(X.T):
        unique = np.unique(column.round(12))
        assert values.counts()[j] == unique.size
        gap = np.diff(unique).min() if unique.size > 1 else np.inf
        np.testing.assert_allclose(values.gaps()[j], gap, rtol=1e-6)


@pytest.mark.parametrize("n", [2049, 30_000, 200_000])
def test_more_values_are_estimated(n):
    X = table(n)
    values = distinct(X)
    true = np.array([np.unique(column.round(12)).size for column in X.T])
    np.testing.assert_allclose(values.counts(), true, rtol=0.15)  # five standard errors
    exact = true <= 2048
    np.testing.assert_array_equal(values.counts()[exact], true[exact])
    assert np.isnan(values.gaps()[~exact]).all()
    np.testing.assert_allclose(values.gaps()[0], 0.1)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("seed", range(3))
def test_parts_in_any_order_are_the_whole(seed, kind):
    X = table(20_000, seed).astype(kind)
    extremes = X.min(axis=0), X.max(axis=0)
    whole = distinct(X, extremes)
    order = np.random.default_rng(seed).permutation(len(X))
    merged = DistinctValues(*extremes, len(X))
    for rows in np.array_split(X[order], 5):
        merged.merge(distinct(rows, extremes))
    np.testing.assert_array_equal(merged.counts(), whole.counts())
    np.testing.assert_array_equal(merged.gaps(), whole.gaps())


def test_cells_without_a_value_count_nothing():
    X = np.array([[1.0, np.nan], [np.nan, np.nan], [2.0, np.nan]])
    values = DistinctValues([1.0, np.nan], [2.0, np.nan], 3)
    values.add(X)
    np.testing.assert_array_equal(values.counts(), [2.0, 0.0])
    np.testing.assert_array_equal(values.gaps(), [1.0, np.inf])


def test_values_that_differ_by_rounding_are_one():
    values = distinct(np.array([[0.3], [0.1 * 3], [0.0], [0.7]]))
    np.testing.assert_array_equal(values.counts(), [3.0])
    np.testing.assert_allclose(values.gaps(), [0.3])


def test_misuse_is_refused():
    values = DistinctValues([0.0], [1.0], 4)
    with pytest.raises(ValueError, match="rows must have 1 column; got 2"):
        values.add(np.zeros((3, 2)))
    with pytest.raises(ValueError, match="other extremes"):
        values.merge(DistinctValues([0.0], [2.0], 4))
    with pytest.raises(ValueError, match="vectors of one length"):
        DistinctValues([0.0], [1.0, 2.0], 4)
    wide = DistinctValues([0.0, 0.0], [1.0, 1.0], 4)
    with pytest.raises(ValueError, match="side by side"):
        wide.add(np.asfortranarray(np.zeros((3, 2))))
