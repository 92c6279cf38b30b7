# The largest values of one row, for kernels that hold the gil no more.

from libc.stdint cimport int32_t

ctypedef fused value_t:
    float
    double

cdef enum:
    TOP_PADDING = 16                    # whole vectors are stored past the end

# 0, or 1 when no value of the row is above -inf. `values` and `indices` (n_top,), largest first, ties by lowest index;
# `work` (top_work_size(size),) is scratch.
cdef int top_row(const value_t *row, Py_ssize_t size, Py_ssize_t n_top, value_t *values, int32_t *indices,
                 value_t *work) noexcept nogil

cdef inline Py_ssize_t top_work_size(Py_ssize_t size) noexcept nogil:
    return 4 * (size + TOP_PADDING)
