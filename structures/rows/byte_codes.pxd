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
