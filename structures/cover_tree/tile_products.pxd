# Nearest rows of several queries, by products with all rows.

from libc.stdint cimport int32_t

from expfam.structures.cover_tree.boxes cimport PackedBoxes
from expfam.structures.cover_tree.neighbours cimport neighbour

cdef class TileProducts:
    cdef PackedBoxes boxes          # which hold the rows in tiles
    cdef const float *norms         # (n_tiles, 16) squared lengths; +inf where there is no row
    cdef const double *lengths      # (n_chunks,) largest length of a row of a chunk
    cdef Py_ssize_t n_tiles
    cdef object arrays

    cdef int nearest(self, const float *Q, Py_ssize_t n_queries, Py_ssize_t k, neighbour *found,
                     Py_ssize_t *sizes) noexcept nogil
    cdef float _limit(self, double length, double worst, Py_ssize_t chunk) noexcept nogil
