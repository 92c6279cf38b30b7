"""Arrays that fill lines of the cache."""

import numpy as np
import pytest

from expfam.structures.ground.arrays import aligned, in_lines

LINE = 64


def bounds(array):
    """Where an array begins and ends in memory."""
    first = array.__array_interface__["data"][0]
    return first, first + array.nbytes


@pytest.mark.parametrize("make", [aligned, in_lines])
@pytest.mark.parametrize("kind", [np.uint8, np.int32, np.float32, np.float64])
@pytest.mark.parametrize("shape", [1, 7, 64, 1000, (3, 5), (2, 16)])
def test_no_other_memory_lies_in_their_lines(shape, kind, make):
    for _ in range(20):
        array = make(shape, kind)
        assert array.dtype == kind
        assert array.shape == (shape if isinstance(shape, tuple) else (shape,))
        taken = array
        while taken.base is not None:
            taken = taken.base
        begin, end = bounds(array)
        assert begin % LINE == 0
        assert bounds(taken)[0] <= begin
        assert -(-end // LINE) * LINE <= bounds(taken)[1]


def test_cells_of_the_first_kind_are_zero():
    assert not aligned((50, 3)).any()


@pytest.mark.parametrize("make", [aligned, in_lines])
@pytest.mark.parametrize("shape", [(0,), (0, 4), (3, 0)])
def test_arrays_may_be_empty(shape, make):
    assert make(shape, np.float32).shape == shape
