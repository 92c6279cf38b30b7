"""Copies of rows by number, for all widths of rows and numbers out of range."""

import numpy as np
import pytest

from expfam.families.support import chosen_rows
from expfam.structures.rows.row_copies import copied_rows


@pytest.mark.parametrize("kind", [np.int8, np.float16, np.int32, np.float32, np.float64, np.bool_])
@pytest.mark.parametrize("width", [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 127, 128, 129, 300])
def test_each_row_is_copied_whole(width, kind):
    rng = np.random.default_rng(width)
    X = rng.integers(0, 100, size=(50, width)).astype(kind)
    for rows in (rng.integers(50, size=200), np.array([49]), np.arange(50)[::-1], np.array([-1, 0, -50])):
        copied = copied_rows(X, rows)
        assert copied.dtype == X.dtype
        assert copied.flags.c_contiguous
        assert np.array_equal(copied, X[rows])


def test_cells_that_lie_anywhere_in_memory_are_copied():
    raw = np.arange(4001, dtype=np.uint8)
    X = raw[1:].reshape(500, 8)
    rows = np.random.default_rng(0).permutation(500)
    assert np.array_equal(copied_rows(X, rows), X[rows])


@pytest.mark.parametrize("kind", [np.int32, np.int64, np.uint8])
def test_numbers_of_any_kind_are_taken(kind):
    X = np.arange(12.0).reshape(6, 2)
    assert copied_rows(X, np.array([5, 0, 5], dtype=kind)).tolist() == [[10, 11], [0, 1], [10, 11]]


@pytest.mark.parametrize("bad", [-7, 6, 2**62])
@pytest.mark.parametrize("width", [0, 2])
def test_a_number_out_of_range_is_named(bad, width):
    with pytest.raises(IndexError, match=rf"rows have the numbers 0\.\.5; got {bad}$"):
        copied_rows(np.zeros((6, width)), np.array([0, bad]))


def test_no_rows_and_no_columns():
    assert copied_rows(np.zeros((6, 2)), np.array([], dtype=np.int64)).shape == (0, 2)
    assert copied_rows(np.zeros((6, 0)), np.array([3, 1])).shape == (2, 0)


@pytest.mark.parametrize("X", [np.arange(12.0).reshape(6, 2), np.asfortranarray(np.arange(12.0).reshape(6, 2))])
@pytest.mark.parametrize("rows", [slice(1, 4), np.array([4, 1]), np.array([True, False] * 3)])
def test_chosen_rows_are_those_of_an_index(X, rows):
    assert np.array_equal(chosen_rows(X, rows), X[rows])
