# Search of nearest rows of few columns, by boxes of sixteen.

from libc.stdint cimport int32_t

from expfam.structures.cover_tree.neighbours cimport neighbour

cdef enum:
    MOST_LEVELS = 9                 # 16 ** 9 rows are more than a tree holds

ctypedef struct waiting:
    float square                    # lower bound of the squared distance, up to rounding
    int32_t level                   # of the boxes below; -1 for rows
    int32_t place                   # of the group

cdef class PackedBoxes:
    cdef const float *rows          # (N, F) of the tree
    cdef const float *tiles         # (n_tiles, F, 16), +inf where there is no row
    cdef const int32_t *position    # (n_tiles, 16) of each row, -1 where there is none
    cdef const int32_t *ids         # (N,) datum at each position
    cdef const float *boxes[MOST_LEVELS]    # (groups, 2 F, 16) of each level
    cdef int n_levels
    cdef Py_ssize_t F
    cdef double slack
    cdef object arrays

    cdef Py_ssize_t nearest(self, const float *q, Py_ssize_t k, neighbour *found, Py_ssize_t *n_read) noexcept nogil
    cdef Py_ssize_t _read_tile(self, const float *q, Py_ssize_t k, neighbour *found, Py_ssize_t size, Py_ssize_t tile,
                               float *limit) noexcept nogil
