# Scores <x, theta_k> + c_k of rows, those near the best one exactly.

from libc.stdint cimport int32_t

from expfam.structures.rows.byte_codes cimport CodedRows, ScoredPoints


cdef class NearScores:
    cdef readonly Py_ssize_t K, F
    cdef ScoredPoints points
    cdef const float[:, ::1] theta
    cdef const float[::1] c, scale
    # Writes out[i K_out + k] for rows i of x, which follow each other at a distance of `stride`: scores in single
    # precision of those that may lie less than `depth` below the best one, upper bounds of the others. Marks rows of
    # which more than a share 1 / MOST_SHARE is near, of which nothing of use is written, and returns their number.
    cdef Py_ssize_t write(self, NearScratch w, const float *x, Py_ssize_t stride, Py_ssize_t n, float depth, float *out,
                          Py_ssize_t width, unsigned char *is_open) noexcept nogil
    cdef void complete(self, NearScratch w, const float[:, ::1] X, Py_ssize_t first, Py_ssize_t last,
                       float[:, ::1] out) noexcept nogil


cdef class NearScratch:
    cdef CodedRows rows
    cdef float[:, ::1] products
    cdef float[::1] dots, balanced
    cdef int32_t[::1] places, every
    cdef unsigned char[::1] is_open
    cdef Py_ssize_t skips, n_skipped            # calls that are to be skipped, and those that were
    cdef readonly Py_ssize_t n_rows, n_near     # rows of the last call, and their scores that were near
    cdef readonly Py_ssize_t n_tried            # rows of all calls
    cdef bint pays(self, Py_ssize_t K) noexcept nogil   # whether so few scores were near that bounds save time
