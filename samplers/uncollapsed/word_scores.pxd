# Scores of sparse rows from lists of parameters by column.

from libc.stdint cimport int32_t, int64_t, uint16_t

from expfam.samplers.uncollapsed.dense cimport DenseScores


cdef class WordScores(DenseScores):
    cdef object arrays
    cdef const int32_t *starts              # (F + 1,) of the lists of columns, or NULL
    cdef const int64_t *wide_starts         # the same where there are too many entries, or NULL
    cdef const uint16_t[::1] clusters       # of the entries, ascending in a list; or None
    cdef const int32_t[::1] wide_clusters   # the same where there are too many clusters, or None
    cdef bint is_narrow                     # whether it is the first
    cdef const double[::1] above            # how much their parameters are above those of empty sums
    cdef Py_ssize_t most                    # entries of a short list
    cdef const int64_t[::1] long_columns    # (H,) with longer lists, ascending
    cdef const float[:, ::1] long_lists     # (H, width)
    # (F,) largest number above of each column, rounded up to a whole number of steps; and the range of the levels
    cdef const uint16_t[::1] steps
    cdef double step, level_range
    cdef const double[::1] level
    cdef const double[:] empty              # one number for all columns has no strides
    cdef const float[::1] narrow_level      # (width,) about the mean

    cdef Py_ssize_t start_of(self, Py_ssize_t column) noexcept nogil
    cdef Py_ssize_t cluster_of(self, Py_ssize_t e) noexcept nogil
    cdef double above_of(self, Py_ssize_t column, Py_ssize_t k) noexcept nogil
