"""Segments of a column: the best ones by enumeration, and what k-means and ties make of them."""

from itertools import combinations

import numpy as np
import pytest

from expfam.samplers.geometry.column_cuts import _FLOOR, best_segments


def gain_of(values, labels, weight=None):
    """Nats by which normal densities of segments with their shares explain values better than one, the slow way."""
    weight = np.ones(len(values)) if weight is None else weight
    mean = np.average(values, weights=weight)
    variance, total = np.average((values - mean) ** 2, weights=weight), 0.0
    for k in np.unique(labels):
        of_k = labels == k
        n = weight[of_k].sum()
        own = np.average((values[of_k] - np.average(values[of_k], weights=weight[of_k])) ** 2, weights=weight[of_k])
        total += n * (np.log(n / weight.sum()) - 0.5 * np.log(max(own, _FLOOR * variance) / variance))
    return total


def highest(values, n_segments, weight=None):
    """Highest gain of all divisions of distinct values into contiguous segments."""
    distinct = np.unique(values)
    return max(
        gain_of(values, np.searchsorted(distinct[list(begins)], values, side="right"), weight)
        for begins in combinations(range(1, len(distinct)), n_segments - 1)
    )


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("n_segments", [2, 3, 4])
@pytest.mark.parametrize("is_weighted", [False, True], ids=["plain", "weighted"])
def test_the_best_segments_are_those_of_enumeration(seed, n_segments, is_weighted, monkeypatch):
    monkeypatch.setattr("expfam.samplers.geometry.column_cuts._PASSES", 0)  # of k-means, which has another aim
    rng = np.random.default_rng(seed)
    values = np.round(rng.normal(size=12) + 3.0 * rng.integers(0, 3, 12), 1)
    weight = rng.uniform(0.5, 3.0, 12) if is_weighted else None
    found = best_segments(values[:, None], weight, n_segments=n_segments)
    assert found.gain == pytest.approx(highest(values, n_segments, weight))
    assert gain_of(values, found.labels, weight) == pytest.approx(found.gain)


@pytest.mark.parametrize("n_groups", [4, 7, 12])
def test_groups_in_a_row_are_found_with_their_number(n_groups):
    rng = np.random.default_rng(n_groups)
    classes = rng.integers(0, n_groups, 3000)
    points = rng.normal(size=(3000, 20))
    points[:, 11] += 6.0 * classes
    found = best_segments(points / points.std(axis=0))
    assert found.column == 11
    assert found.labels.max() + 1 == n_groups
    assert np.mean(found.labels == classes) > 0.98


def test_rows_of_one_group_gain_nothing():
    rows = np.random.default_rng(0).normal(size=(2000, 5))
    assert best_segments(rows) is None
    assert best_segments(rows, n_segments=4).gain < 0.0


def test_equal_values_are_in_one_segment():
    values = np.repeat([0.0, 1.0, 5.0, 9.0], [300, 2, 1, 40])
    found = best_segments(values[:, None], n_segments=3)
    for value in np.unique(values):
        assert len(np.unique(found.labels[values == value])) == 1
    assert len(np.unique(found.labels)) == 3


def test_fewer_distinct_values_than_segments_have_none():
    assert best_segments(np.repeat([[0.0], [1.0]], 5, axis=0), n_segments=3) is None
    assert best_segments(np.ones((5, 2))) is None
