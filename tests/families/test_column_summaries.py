"""Resolutions of real columns: values that repeat are counted, and sorted only where that is not enough."""

import tracemalloc

import numpy as np
import pytest

from expfam.families import column_summaries as summaries
from expfam.families.column_summaries import column_moments, column_summaries
from expfam.structures.rows.distinct_values import STEPS

N = 3000


def columns(seed):
    """Columns of several kinds: fine, rounded, pairs of equal values, few values with rounding errors, with holes."""
    rng = np.random.default_rng(seed)
    fine, tenths = rng.normal(size=N), rng.normal(size=N).round(1)
    pairs = rng.permutation(np.repeat(rng.normal(size=N // 2), 2))
    thirds = rng.integers(0, N // 3, size=N) * 0.1
    noisy = tenths * (1.0 + (rng.random(N) < 0.5) * 2.0**-52)
    holes = np.where(rng.random(N) < 0.2, np.nan, tenths)
    return np.column_stack([fine, tenths, pairs, thirds, noisy, holes, np.full(N, 2.5)])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("seed", range(3))
def test_counted_and_sorted_values_have_the_same_resolution(monkeypatch, seed, dtype):
    X = columns(seed).astype(dtype)
    counted = column_summaries(X)
    monkeypatch.setattr(summaries, "_FEW_ROWS", N)
    for own, other in zip(counted, column_summaries(X)):
        assert np.array_equal(own, other)
    gaps = np.diff(np.unique(X[:, 2].astype(np.float64)))
    gaps = gaps[gaps > np.ptp(X[:, 2]) / STEPS]  # smaller ones are rounding
    expected = [0.0, 0.1, gaps.min(), 0.1, 0.1, 0.1, 0.0]
    assert counted[2] == pytest.approx(expected, rel=1e-4)


def half_repeats(order, n, rng):
    """A column of n values of which half are repeats, or just fewer than half."""
    values = rng.normal(size=n // 2)
    if order == "side by side":
        return np.repeat(values, 2)
    if order == "far apart":
        return np.tile(values, 2)
    if order == "half of them one value":
        return np.concatenate([np.full(n // 2, 0.25), rng.normal(size=n - n // 2)])
    if order == "fewer than half":
        return np.concatenate([np.repeat(values[: n // 5], 2), rng.normal(size=n - 2 * (n // 5))])
    return rng.permutation(np.repeat(values, 2))


@pytest.mark.parametrize("n", [1200, 30_000, 200_000])
@pytest.mark.parametrize("order", ["side by side", "far apart", "half of them one value", "fewer than half", "mixed"])
def test_half_of_the_values_as_repeats_are_seen_in_any_order(order, n, monkeypatch):
    rng = np.random.default_rng(n)
    X = np.column_stack([half_repeats(order, n, rng) for _ in range(5)])
    found = column_summaries(X)[2]
    monkeypatch.setattr(summaries, "_FEW_ROWS", n)
    assert np.array_equal(found, column_summaries(X)[2])
    if order != "half of them one value":  # rounding decides
        assert ((found > 0) == (order != "fewer than half")).all()


def test_values_are_counted_only_in_columns_that_repeat(monkeypatch):
    asked = []
    ask = summaries._AskCounts

    def noted(of_logs, columns, *given):
        asked.append(list(columns))
        return ask(of_logs, columns, *given)

    monkeypatch.setattr(summaries, "_AskCounts", noted)
    X = columns(0)
    expected = column_summaries(X)[2]
    assert asked == [[1, 2, 3, 4, 5]]
    asked.clear()
    assert np.array_equal(column_summaries(X, np.ones(N))[2], expected)  # weights are repeats: all are counted
    assert asked == [[0, 1, 2, 3, 4, 5]]


def test_the_order_of_the_cells_in_memory_does_not_matter():
    X = columns(0)
    for own, other in zip(column_summaries(X), column_summaries(np.asfortranarray(X))):
        assert np.array_equal(own, other)


@pytest.mark.parametrize("is_weighted", [False, True])
def test_moments_of_rows_of_single_precision_need_no_copy_of_these(is_weighted, monkeypatch):
    monkeypatch.setattr(summaries, "_BLOCK_CELLS", 1 << 14)
    X = np.random.default_rng(0).normal(size=(200_000, 16)).astype(np.float32)
    weight = np.full(len(X), 2.0) if is_weighted else None
    tracemalloc.start()
    column_moments(X, weight)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < X.nbytes / 2
