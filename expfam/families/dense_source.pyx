"""Statistics of dense rows minus an origin, read where the rows lie.

They are written in the precision of a pass, without the gil.
"""

import numpy as np

from expfam.families.compiled_phi cimport CompiledPhi
from expfam.structures.ground.arrays cimport address
from expfam.structures.rows.row_copies cimport checked_numbers, rows_ahead
from expfam.structures.simd.prefetch cimport expfam_prefetch

from expfam.families.compiled_phi import compiled_phi_of


cdef class DenseSource:
    """Rows of a data set, and the compiled statistics of its family.

    Parameters
    ----------
    X : (N, V) float32 or float64 ndarray
        C-contiguous.
    compiled : CompiledPhi
    origin : (F,) float64 ndarray or None
        Subtracted from the statistics.
    """

    def __init__(self, X, CompiledPhi compiled not None, origin):
        self.X, self.compiled = X, compiled
        self.cells, self.row_bytes, self.is_single = <const char *> address(X), X.strides[0], X.dtype == np.float32
        self.n_rows, self.origin = len(X), origin

    def fill(self, rows, value_t[:, ::1] out):
        """Write the statistics of rows, a slice or numbers (m,), to `out` (m, F)."""
        cdef const Py_ssize_t[::1] numbers = None
        cdef Py_ssize_t start = 0
        cdef double[::1] row = np.empty(self.compiled.n_statistics)
        if isinstance(rows, slice):
            start = rows.start
        else:
            numbers = checked_numbers(rows, self.n_rows)
        if not out.shape[0]:
            return
        with nogil:
            write_phi(self, start, NULL if numbers is None else &numbers[0], out.shape[0], &row[0], &out[0, 0])


cdef void write_phi(DenseSource source, Py_ssize_t start, const Py_ssize_t *numbers, Py_ssize_t R, double *row,
                    value_t *out) noexcept nogil:
    """Write the statistics of R rows from `start` on, or with given numbers, to `out`.

    `row` (F,) is scratch.
    """
    cdef Py_ssize_t i, f, F = source.compiled.n_statistics, size = source.row_bytes, ahead = rows_ahead(size)
    cdef const char *cells
    for i in range(R):
        if numbers == NULL:
            cells = source.cells + (start + i) * size
        else:
            cells = source.cells + numbers[i] * size
            if i + ahead < R:
                expfam_prefetch(source.cells + numbers[i + ahead] * size, size)
        if source.is_single:
            source.compiled.law.of_floats(source.compiled.law, <const float *> cells, row)
        else:
            source.compiled.law.of_doubles(source.compiled.law, <const double *> cells, row)
        if source.origin is None:
            for f in range(F):
                out[i * F + f] = <value_t> row[f]
        else:
            for f in range(F):
                out[i * F + f] = <value_t> (row[f] - source.origin[f])


def dense_source(family, X, origin):
    """Return the `DenseSource` of rows; None if the family has no compiled statistics of them."""
    if not (isinstance(X, np.ndarray) and X.dtype in (np.float32, np.float64) and X.flags.c_contiguous):
        return None
    compiled = compiled_phi_of(family)
    return None if compiled is None or not X.size else DenseSource(X, compiled, origin)
