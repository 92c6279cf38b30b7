"""Soft sums of the rows of a tile, over the responsibilities that are not negligible.

A matrix product adds every row to every component. Where most responsibilities are 0, few rows are added to each
component instead, in the order of the rows. What is left out is below exp(-30) of a row: all of that together is below
the resolution of single precision, in which the product is made. Whether a tile is summed by lists depends on its own
responsibilities alone.
"""

import numpy as np

from libc.stdint cimport int32_t
from libc.string cimport memset

from expfam.samplers.uncollapsed.dense cimport Tile
from expfam.structures.simd.blocks cimport EXPFAM_BLOCK
from expfam.structures.simd.dense_scores cimport expfam_add_near, expfam_add_scaled, expfam_places_above

cdef enum:
    SHARE = 32          # of the components of a row, one of so many at most has an entry
    FIRST_ROWS = 16     # that may have more

_FEWEST_SUMS = 1 << 15  # products with fewer take no longer than lists


def may_list(width, n_columns):
    """Tell whether lists may take less time than a product with so many components."""
    return width * n_columns >= _FEWEST_SUMS


cdef class NearLists:
    """Entries of a tile, and what is needed to add them up.

    Parameters
    ----------
    n_rows : int
        Of a tile.
    width : int
        Components, with those that pad the scores.
    n_columns : int
        Of the rows that are added up.
    """

    def __init__(self, Py_ssize_t n_rows, Py_ssize_t width, Py_ssize_t n_columns):
        self.room = (n_rows + FIRST_ROWS) * width // SHARE + width + 1   # one row more is tried, and a place is written
        self.arrays = (
            np.empty(self.room, dtype=np.int32), np.empty(self.room, dtype=np.int32),
            np.empty(self.room, dtype=np.float32), np.empty(width + 1, dtype=np.int32),
            np.empty(self.room, dtype=np.uintp), np.empty(self.room, dtype=np.float32),
            np.empty(n_columns, dtype=np.float32), np.ones((n_columns + EXPFAM_BLOCK - 1) // EXPFAM_BLOCK),
        )
        self.components, self.rows, self.weights, self.starts = self.arrays[:4]
        self.places, self.factors, self.part, self.ones = self.arrays[4:]
        self.width, self.n_columns, self.size, self.n_rows = width, n_columns, 0, 0

    def clear(self):
        """Begin with a tile."""
        self.size = self.n_rows = 0

    cdef void put(self, Py_ssize_t i, const float *x, const double *sums, float least) noexcept nogil:
        """Keep the responsibilities of row i above `least`; a block whose sum is 0 has none."""
        cdef Py_ssize_t b, e, first, n
        if self.size < 0:
            return
        for b in range((self.width + EXPFAM_BLOCK - 1) // EXPFAM_BLOCK):
            if sums[b] == 0.0:
                continue
            first, e = b * EXPFAM_BLOCK, self.size
            n = expfam_places_above(x + first, least, min(self.width - first, <Py_ssize_t> EXPFAM_BLOCK),
                                    &self.components[e])
            for e in range(e, e + n):
                self.components[e] += <int32_t> first
                self.rows[e], self.weights[e] = <int32_t> i, x[self.components[e]]
            self.size += n
        self.n_rows += 1
        if self.size > (self.n_rows + FIRST_ROWS) * self.width // SHARE:
            self.size = -1

    cdef void add_to(self, Tile tile, double[:, ::1] near) noexcept nogil:
        """Add the rows of the entries to the sums of their components."""
        cdef Py_ssize_t e, k, at, n
        memset(&self.starts[0], 0, (self.width + 1) * sizeof(int32_t))
        for e in range(self.size):
            self.starts[self.components[e] + 1] += 1
        for k in range(self.width):
            self.starts[k + 1] += self.starts[k]
        for e in range(self.size):
            k = self.components[e]
            at = self.starts[k]
            self.places[at], self.factors[at] = <size_t> &tile.phi_view[self.rows[e], 0], self.weights[e]
            self.starts[k] += 1
        at = 0
        for k in range(self.width):                 # each start is now the end of its component
            n = self.starts[k] - at
            if n > 0:
                memset(&self.part[0], 0, self.n_columns * sizeof(float))
                expfam_add_scaled(&self.part[0], <const float **> &self.places[at], &self.factors[at], n,
                                  self.n_columns)
                expfam_add_near(&near[k, 0], &self.part[0], 1.0, &self.ones[0], self.n_columns)
            at = self.starts[k]
