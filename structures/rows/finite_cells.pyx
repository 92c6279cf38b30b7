"""Whether the cells of an array are finite, read by the threads of a team."""

from libc.stdint cimport int64_t

from expfam.structures.ground.spin cimport expfam_taken, expfam_watched
from expfam.structures.ground.team cimport Team
from expfam.structures.simd.finite cimport expfam_finite_doubles, expfam_finite_floats

cdef enum:
    ITEM_CELLS = 1 << 16    # cells that a thread takes at a time

ctypedef fused real:
    float
    double

ctypedef struct reading:
    const void *cells
    Py_ssize_t n
    bint is_single, may_miss
    int64_t n_bad               # items with such cells


def are_finite(const real[::1] cells, *, bint may_miss=False, Team team=None):
    """Tell whether no cell is infinite and none is NaN; NaN is passed over if cells may miss.

    >>> import numpy as np
    >>> from expfam.structures.rows.finite_cells import are_finite
    >>> cells = np.array([1.0, np.nan])
    >>> are_finite(cells), are_finite(cells, may_miss=True)
    (False, True)
    """
    cdef Team readers = Team(1) if team is None else team
    cdef reading job
    job.n, job.is_single, job.may_miss, job.n_bad = cells.shape[0], real is float, may_miss, 0
    if job.n == 0:
        return True
    job.cells = &cells[0]
    with nogil:
        readers.share(look, &job, (job.n + ITEM_CELLS - 1) // ITEM_CELLS)
    return job.n_bad == 0


cdef void look(void *work, Py_ssize_t item, Py_ssize_t thread) noexcept nogil:
    """Look at some cells, unless others were bad."""
    cdef reading *job = <reading *> work
    cdef Py_ssize_t first = item * ITEM_CELLS, n = min(ITEM_CELLS, job.n - first)
    cdef bint is_good
    if expfam_watched(&job.n_bad):
        return
    if job.is_single:
        is_good = expfam_finite_floats(<const float *> job.cells + first, n, job.may_miss)
    else:
        is_good = expfam_finite_doubles(<const double *> job.cells + first, n, job.may_miss)
    if not is_good:
        expfam_taken(&job.n_bad)
