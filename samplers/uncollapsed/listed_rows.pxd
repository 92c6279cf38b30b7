# Lists of what rows give to components.

from libc.stdint cimport int32_t, int64_t


cdef class TileLists:
    cdef object arrays
    cdef int32_t[::1] components
    cdef double[::1] weights
    cdef int64_t[::1] starts
    cdef int32_t[::1] lengths
    cdef unsigned char[::1] rough
    cdef readonly Py_ssize_t size, n_rows, width

    cdef bint is_full(self) noexcept nogil
    cdef void put(self, Py_ssize_t i, const float *x, const double *sums, Py_ssize_t width) noexcept nogil
