# The largest values of one row, for kernels that hold the gil no more.

from libc.stdint cimport int32_t

ctypedef fused value_t:
    float
    double

# 0, or 1 when no value of the row is above -inf. `values` and `indices` (n_top,), largest first, ties by lowest index;
# `work` (size,) is used only where `top_needs_work` says so.
cdef int top_row(const value_t *row, Py_ssize_t size, Py_ssize_t n_top, value_t *values, int32_t *indices,
                 value_t *work) noexcept nogil

cdef inline bint top_needs_work(Py_ssize_t size, Py_ssize_t n_top) noexcept nogil:
    return n_top > 32
