# Scores of the rows of a tile in their best clusters.

from libc.stdint cimport int32_t

from expfam.samplers.uncollapsed.dense cimport DenseScores, Tile


cdef class BestScores:
    cdef DenseScores scores
    cdef object arrays
    cdef double[::1] factor, theta, values
    cdef int32_t[::1] starts, rows

    cdef void sort(self, Tile tile, const int32_t[::1] labels) noexcept nogil
    cdef double total(self, Tile tile, const double[::1] weight, const int32_t[::1] labels,
                      Py_ssize_t place) noexcept nogil
