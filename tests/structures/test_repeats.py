"""Counts of repeats in columns, and the rows that are drawn to look for them."""

from itertools import pairwise

import numpy as np
import pytest
from serving_threads import served

from expfam.structures.rows.repeats import drawn_rows, repeats


def counted(rows, low, high):
    """Repeats and values of each column, one value after the other."""
    found = []
    for column, least, largest in zip(rows.T.astype(float), low, high):
        values = column[column == column]
        width = largest - least
        steps = np.floor((values - least) * (1e9 / width if width > 0 else 0.0) + 0.5)
        found.append((values.size - np.unique(steps).size, values.size))
    return np.array(found).T


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("n", [1, 2, 500, 3000])
def test_repeats_are_counted(kind, n):
    rng = np.random.default_rng(n)
    rows = np.column_stack(
        [
            rng.normal(size=n),
            rng.integers(0, 40, n) / 8.0,
            np.where(rng.random(n) < 0.3, np.nan, rng.integers(0, n, n)),
            np.full(n, 2.5),
            rng.integers(0, 2, n) * (1.0 + 2.0**-52),
        ]
    ).astype(kind)
    with np.errstate(invalid="ignore"):
        low, high = np.fmin.reduce(rows).astype(float) - 0.5, np.fmax.reduce(rows).astype(float)
    low, high = np.nan_to_num(low), np.nan_to_num(high)
    expected = counted(rows, low, high)
    columns, enough = np.arange(5), np.full(5, np.inf)
    assert np.array_equal(repeats(rows, None, columns, low, high, enough), expected)
    with served(3) as team:
        assert np.array_equal(repeats(rows, None, columns, low, high, enough, team), expected)
    assert (repeats(rows, None, columns, low, high, np.full(5, 3.0))[0] == np.minimum(expected[0], 3)).all()
    some, others = np.sort(rng.permutation(n)[: n // 2]), np.array([4, 1])
    found = repeats(rows, some, others, low[others], high[others], enough[:2])
    assert np.array_equal(found, counted(rows[some][:, others], low[others], high[others]))


def test_columns_of_wide_rows_are_counted_in_groups():
    rng = np.random.default_rng(0)
    rows, columns = rng.integers(0, 300, (400, 90)) / 4.0, np.flatnonzero(rng.random(90) < 0.7)
    low, high = rows.min(axis=0)[columns], rows.max(axis=0)[columns]
    numbers = np.flatnonzero(rng.random(400) < 0.6)
    found = repeats(rows, numbers, columns, low, high, np.full(columns.size, np.inf))
    assert np.array_equal(found, counted(rows[numbers][:, columns], low, high))


def test_columns_of_no_width_or_an_endless_one_are_all_repeats():
    rows = np.array([[1e308, 3.0], [-1e308, 3.0], [0.0, np.nan]])
    columns, enough = np.arange(2), np.full(2, 9.0)
    n_repeats, n_values = repeats(rows, None, columns, np.array([-1e308, 3.0]), np.array([1e308, 3.0]), enough)
    assert n_repeats.tolist() == [2, 1]
    assert n_values.tolist() == [3, 2]
    nothing = repeats(np.empty((0, 2)), None, columns, np.zeros(2), np.ones(2), enough)
    assert [found.tolist() for found in nothing] == [[0, 0], [0, 0]]
    with pytest.raises(IndexError):
        repeats(rows, np.array([3]), columns, np.zeros(2), np.ones(2), enough)


@pytest.mark.parametrize("n_rows", [1025, 40_000, 1_000_003])
def test_parts_draw_the_rows_that_the_whole_draws(n_rows):
    share = np.sqrt(120 / n_rows)
    whole = drawn_rows(0, n_rows, share)
    assert (np.diff(whole) > 0).all()
    assert whole[0] >= 0
    assert whole[-1] < n_rows
    assert whole.size == pytest.approx(share * n_rows * (1 - share / 2), rel=0.1)
    bounds = sorted([0, 1, 700, 701, n_rows // 3, n_rows - 1, n_rows])
    parts = [drawn_rows(first, stop, share) for first, stop in pairwise(bounds)]
    assert np.array_equal(np.concatenate(parts), whole)


@pytest.mark.parametrize("lag", [1, 2, 37, 20_000])
def test_rows_at_any_distance_are_drawn_together_as_seldom_as_others(lag):
    n_rows, share = 4_000_000, 0.02
    drawn = np.zeros(n_rows + lag, dtype=bool)
    drawn[drawn_rows(0, n_rows, share)] = True
    expected = n_rows * share**2
    assert abs((drawn[:-lag] & drawn[lag:]).sum() - expected) < 6 * np.sqrt(expected) + 0.05 * expected
