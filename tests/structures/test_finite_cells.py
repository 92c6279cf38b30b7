"""Whether all cells are finite, for any place of a bad cell, any width of registers and any number of threads."""

import numpy as np
import pytest
from instruction_sets import SETS, output_under
from serving_threads import served

from expfam.structures.rows.finite_cells import are_finite

KINDS = [np.float32, np.float64]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [1, 7, 16, 33, 65, 200])
def test_a_bad_cell_is_seen_wherever_it_lies(n, kind):
    cells = np.full(n, np.finfo(kind).max, dtype=kind)
    cells[::2] *= -1
    assert are_finite(cells)
    for at in range(n):
        for bad in (np.nan, np.inf, -np.inf):
            changed = cells.copy()
            changed[at] = bad
            assert not are_finite(changed)
            assert are_finite(changed, may_miss=True) == np.isnan(bad)


def test_no_cells_are_finite():
    assert are_finite(np.empty(0))


@pytest.mark.parametrize("at", [0, 65_535, 65_536, 399_999])
@pytest.mark.parametrize("kind", KINDS)
def test_threads_see_it_too(at, kind):
    cells = np.zeros(400_000, dtype=kind)
    with served(3) as team:
        assert are_finite(cells, team=team)
        cells[at] = np.inf
        assert not are_finite(cells, team=team)


def test_all_instruction_sets_agree():
    code = """
import numpy as np
from expfam.structures.rows.finite_cells import are_finite
for kind in (np.float32, np.float64):
    for at in range(40):
        for bad in (np.nan, np.inf, np.finfo(kind).max):
            cells = np.ones(40, dtype=kind)
            cells[at] = bad
            print(are_finite(cells), are_finite(cells, may_miss=True))
"""
    assert len({output_under(isa, code) for isa in SETS}) == 1
