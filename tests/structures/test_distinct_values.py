"""The number of distinct values and their smallest gap, against numpy.unique; parts and orders do not matter."""

import pickle

import numpy as np
import pytest
from serving_threads import served

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


@pytest.mark.parametrize("held", [1, 3, 16, 255, 256, 2048])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_many_rows_at_once_hold_what_rows_added_few_at_a_time_hold(kind, held):
    """Many rows begin with limits that are tried; few rows lower them from above."""
    rng = np.random.default_rng(held)
    n = 70_001
    numbers = [rng.integers(0, size, n) for size in (3, held, 4 * held, n // 100, n // 10)]
    gone = np.where(rng.random(n) < 0.99, np.nan, rng.normal(size=n))
    X = np.column_stack([*numbers, rng.normal(size=n), gone, np.full(n, np.nan)]).astype(kind)
    low, high = np.append(np.nanmin(X[:, :-1], axis=0), np.nan), np.append(np.nanmax(X[:, :-1], axis=0), np.nan)
    once, slowly = DistinctValues(low, high, n, held), DistinctValues(low, high, n, held)
    once.add(X)
    step = max(held, 16)
    for first in range(0, n, step):
        slowly.add(X[first : first + step])
    np.testing.assert_array_equal(once.counts(), slowly.counts())
    np.testing.assert_array_equal(once.gaps(), slowly.gaps())
    assert held_by(once) == held_by(slowly)


def held_by(values):
    """What an object holds, column by column, in an order of its own."""
    keys, (lows, highs), held, limits = values.__reduce__()[2]
    is_whole = limits == np.iinfo(np.uint64).max
    of_keys, of_values = np.split(keys, np.cumsum(held)[:-1]), np.cumsum(held[is_whole])[:-1]
    columns = [*of_keys, *np.split(lows, of_values), *np.split(highs, of_values)]
    return [np.sort(column).tolist() for column in columns] + [limits.tolist()]


@pytest.mark.parametrize("n_threads", [2, 3])
@pytest.mark.parametrize("n_columns", [1, 5, 130, 200])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_threads_hold_what_one_holds(kind, n_columns, n_threads):
    """Few columns are divided by rows, many by columns."""
    rng = np.random.default_rng(n_columns)
    n = 1_200_000 // n_columns
    X = rng.normal(size=(n, n_columns)).astype(kind)
    X[:, ::3] = X[:, ::3].round(1)
    extremes = X.min(axis=0), X.max(axis=0)
    alone, shared = DistinctValues(*extremes, n, 64), DistinctValues(*extremes, n, 64)
    alone.add(X)
    with served(n_threads) as team:
        shared.add(X[: n // 2], team)
        shared.add(X[n // 2 :], team)
    assert held_by(shared) == held_by(alone)
    assert held_by(pickle.loads(pickle.dumps(shared))) == held_by(alone)


def test_an_object_without_values_is_merged_and_stored():
    empty = DistinctValues([0.0], [1.0], 10)
    assert empty.counts().tolist() == [0.0]
    assert empty.gaps().tolist() == [np.inf]
    assert held_by(pickle.loads(pickle.dumps(empty))) == held_by(empty)
    empty.add(np.empty((0, 1)))
    values = DistinctValues([0.0], [1.0], 10)
    values.add(np.array([[0.0], [1.0]]))
    assert held_by(empty + values) == held_by(values)
    assert held_by(values + DistinctValues([0.0], [1.0], 10)) == held_by(empty)


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
