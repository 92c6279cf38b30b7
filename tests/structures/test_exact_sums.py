"""Sums that do not depend on the order of the rows, against exact fractions; the least and the largest value."""

import pickle
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from instruction_sets import SETS, output_under
from serving_threads import served

from expfam.structures.rows.exact_sums import ExactSums, column_extremes, sum_entries

VALUES = st.floats(-1e6, 1e6) | st.floats(-1e-6, 1e-6) | st.sampled_from([0.0, -0.0, 1e6, 2.0**-1074, np.nan])
WIDTHS = [1, 2, 3, 7, 31, 64, 65, 513, 1100]


def rows_of(n, F, kind, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, F)) * 10.0 ** rng.integers(-5, 6, (n, F))
    X[rng.random(X.shape) < 0.1] = np.nan
    return X.astype(kind)


def exact_total(column):
    return sum((Fraction(float(x)) for x in column if x == x), Fraction(0))


@settings(max_examples=200, deadline=None)
@given(st.lists(VALUES, min_size=1, max_size=200), st.integers(0, 200), st.randoms(use_true_random=False))
def test_any_order_and_any_division_give_the_same_bits(values, cut, random):
    rows = np.array(values)[:, None]
    whole = ExactSums([1e6], len(rows))
    whole.add(rows)
    random.shuffle(values)
    shuffled = np.array(values)[:, None]
    first, second = ExactSums([1e6], len(rows)), ExactSums([1e6], len(rows))
    first.add(shuffled[:cut])
    second.add(shuffled[cut:])
    second.merge(first)
    assert second.total().tobytes() == whole.total().tobytes()
    error = abs(Fraction(float(whole.total()[0])) - exact_total(values))
    left_out = len(values) * Fraction(10) ** 6 * Fraction(2) ** -(3 * (52 - len(values).bit_length()))
    assert error <= left_out + abs(exact_total(values)) * Fraction(2) ** -51


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("F", WIDTHS)
def test_rows_of_any_width_and_type(F, kind):
    rows = rows_of(130, F, kind)
    low, high, count = column_extremes(rows)
    np.testing.assert_array_equal(low, np.nanmin(rows, axis=0))
    np.testing.assert_array_equal(high, np.nanmax(rows, axis=0))
    np.testing.assert_array_equal(count, np.isfinite(rows).sum(axis=0))
    sums, squares = ExactSums(high - low, len(rows)), ExactSums((high - low) ** 2, len(rows))
    sums.add(rows, low)
    np.testing.assert_allclose(sums.total(), np.nansum(rows - low, axis=0), rtol=1e-14)
    mean = sums.total() / count
    squares.add_squares(rows, low, mean)
    np.testing.assert_allclose(squares.total(), np.nansum((rows - low - mean) ** 2, axis=0), rtol=1e-13)
    again = ExactSums((high - low) ** 2, len(rows))
    for part in np.split(rows[::-1], [1, 5, 70]):
        again.add_squares(np.ascontiguousarray(part), low, mean)
    assert again.total().tobytes() == squares.total().tobytes()


def test_plain_sums_would_depend_on_the_order():
    """Else the tests above would prove nothing."""
    rows = rows_of(500, 40, np.float64)
    rows[np.isnan(rows)] = 0.0
    assert (rows.sum(axis=0) != rows[::-1].sum(axis=0)).any()


def test_sums_of_entries_are_those_of_rows():
    rows = rows_of(90, 7, np.float64)
    rows[np.isnan(rows)] = 0.0
    row, column = np.nonzero(rows)
    order = np.random.default_rng(1).permutation(row.size)
    bounds = np.abs(rows).max(axis=0)
    total = sum_entries(rows[row, column], column, bounds)
    assert total.tobytes() == sum_entries(rows[row, column][order], column[order], bounds).tobytes()
    np.testing.assert_allclose(total, [float(exact_total(values)) for values in rows.T], rtol=1e-15)


def test_pickles_keep_the_sums():
    sums = ExactSums([1.0, 2.0], 10)
    sums.add(np.array([[0.5, 1.5], [0.25, np.nan]]))
    copy = pickle.loads(pickle.dumps(sums))
    copy.add(np.array([[0.25, 0.5]]))
    np.testing.assert_array_equal(copy.total(), [1.0, 2.0])
    np.testing.assert_array_equal(sums.total(), [0.75, 1.5])


@pytest.mark.parametrize("bounds", [[-1.0], [np.nan], [np.inf], [2.0**901], [[1.0]]])
def test_bounds_that_no_sum_has_are_refused(bounds):
    with pytest.raises(ValueError, match="bounds must be a vector"):
        ExactSums(bounds, 3)


def test_other_misuse_is_refused():
    sums = ExactSums([1.0, 1.0], 3)
    with pytest.raises(ValueError, match="n_terms must be from 1"):
        ExactSums([1.0], 0)
    with pytest.raises(ValueError, match="rows must have 2 columns; got 3"):
        sums.add(np.zeros((1, 3)))
    with pytest.raises(ValueError, match="one number for each of 2 columns"):
        sums.add(np.zeros((1, 2)), np.zeros(3))
    with pytest.raises(ValueError, match="cannot be merged exactly"):
        sums.merge(ExactSums([1.0, 2.0], 3))


PROBE = """
import numpy as np
from expfam.structures.rows.distinct_values import DistinctValues
from expfam.structures.rows.exact_sums import ExactSums, column_extremes
rows = np.random.default_rng(0).standard_normal((3000, 37)).round(3)
for kind in (np.float32, np.float64):
    x = rows.astype(kind)
    low, high, count = column_extremes(x)
    sums, values = ExactSums((high - low) ** 2, len(x)), DistinctValues(low, high, len(x))
    sums.add_squares(x, low, -low)
    values.add(x)
    print([part.tobytes().hex() for part in (low, high, count, sums.total(), values.counts(), values.gaps())])
"""


@pytest.mark.parametrize("n_threads", [2, 3])
@pytest.mark.parametrize("F", [1, 7, 64, 1100])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_threads_give_the_same_bits(kind, F, n_threads):
    X = rows_of(700_001 // F, F, kind)
    shift, centre = np.linspace(-1.0, 1.0, F), np.linspace(0.5, 2.0, F)
    bounds = np.full(F, 1e8)
    with served(n_threads) as team:
        for own, other in zip(column_extremes(X), column_extremes(X, team)):
            np.testing.assert_array_equal(own, other)
        alone, shared = ExactSums(bounds, len(X)), ExactSums(bounds, len(X))
        alone.add(X, shift)
        shared.add(X, shift, team)
        np.testing.assert_array_equal(alone.pieces(), shared.pieces())
        alone, shared = ExactSums(bounds**2, len(X)), ExactSums(bounds**2, len(X))
        alone.add_squares(X, shift, centre)
        shared.add_squares(X, shift, centre, team)
        np.testing.assert_array_equal(alone.pieces(), shared.pieces())


def test_all_instruction_sets_give_the_same_bits():
    assert len({output_under(isa, PROBE) for isa in SETS}) == 1
