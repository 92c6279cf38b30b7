# Responsibilities of the rows of a tile that are not negligible.

from libc.stdint cimport int32_t

from expfam.samplers.uncollapsed.dense cimport Tile


cdef class NearLists:
    cdef object arrays
    cdef int32_t[::1] components, rows
    cdef float[::1] weights
    cdef int32_t[::1] starts            # (width + 1,)
    cdef size_t[::1] places             # (room,) addresses of rows, by component
    cdef float[::1] factors             # (room,)
    cdef float[::1] part                # (n_columns,)
    cdef double[::1] ones
    cdef readonly Py_ssize_t size       # entries, or -1 where there are too many
    cdef Py_ssize_t width, n_columns, room, n_rows

    cdef void put(self, Py_ssize_t i, const float *x, const double *sums, float least) noexcept nogil
    cdef void add_to(self, Tile tile, double[:, ::1] near) noexcept nogil
