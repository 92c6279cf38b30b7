# Rows and points as small integers, and bounds of their products.

from libc.stdint cimport int8_t, int32_t, uint8_t


cdef class CodedRows:
    cdef readonly Py_ssize_t room, d
    cdef Py_ssize_t row_bytes
    cdef int8_t[::1] codes
    cdef float[::1] scales
    cdef int32_t[::1] sums
    cdef double[::1] errors         # bounds of |x - code|, with what products round
    cdef double[::1] lengths        # bounds of |code|
    cdef object arrays
    cdef void put(self, Py_ssize_t i, const float *x) noexcept nogil


cdef class CodedPoints:
    cdef readonly Py_ssize_t m, d, width
    cdef Py_ssize_t n_groups
    cdef uint8_t[::1] codes
    cdef int8_t[::1] code
    cdef float[::1] scales
    cdef double[::1] errors         # (m,) bounds of |w - code|
    cdef double[::1] lengths        # (m,) bounds of |w|
    cdef object arrays
    cdef void put(self, Py_ssize_t k, const float *w) noexcept nogil
    # Products of the first n rows with all points: out (n up to a whole number of EXPFAM_CODE_ROWS, stride >= width).
    # Their errors are at most rows.errors[i] * lengths[k] + rows.lengths[i] * errors[k].
    cdef void multiply(self, CodedRows rows, Py_ssize_t n, float *out, Py_ssize_t stride) noexcept nogil


cdef class ScoredPoints(CodedPoints):
    cdef float[:, ::1] terms        # (4, width) bias, length, error of the code, and what else a score rounds
    # Codes point k; its scores <x, w> + bias are wrong by `rounding` beside their products.
    cdef void put_scored(self, Py_ssize_t k, const float *w, float bias, double rounding) noexcept nogil
    # Replaces the products of row i by upper bounds of its scores, and lists the points whose scores may lie at most
    # `depth` below the best one. Scores are wrong by `rounding` for each unit of |x| |w|. Returns the number of points
    # in the list, which has one place more, or 0 where the bounds are of no use.
    cdef Py_ssize_t near(self, CodedRows rows, Py_ssize_t i, float *products, float depth, double rounding,
                         int32_t *places) noexcept nogil
