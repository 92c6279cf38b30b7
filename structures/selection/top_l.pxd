# Selection of the largest values of one row, for kernels that run without the gil.

from libc.stdint cimport int32_t

ctypedef fused value_t:
    float
    double

cdef enum:
    TOP_PADDING = 16                    # whole vectors are stored, also past the end

# Write the largest values of a row and their columns to `values` and `indices` (n_top,): largest first, ties by lowest
# index. Returns 0, or 1 if no value of the row is above -inf. `work` (top_work_size(size),) is scratch.
cdef int top_row(const value_t *row, Py_ssize_t size, Py_ssize_t n_top, value_t *values, int32_t *indices,
                 value_t *work) noexcept nogil

cdef inline Py_ssize_t top_work_size(Py_ssize_t size) noexcept nogil:
    return 4 * (size + TOP_PADDING)
