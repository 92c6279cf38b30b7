# Sums to which the statistics of single rows are added, for samplers that keep sums of their own.

from libc.stdint cimport uint32_t

cdef extern from *:
    """
    #define EXPFAM_ROW_STATISTICS "expfam.row_statistics_v1"
    """
    const char *ROW_STATISTICS "EXPFAM_ROW_STATISTICS"

ctypedef struct row_statistics_v1:  # capsule "expfam.row_statistics_v1", attribute `row_statistics` of components
    uint32_t abi_version            # EXPFAM_ABI
    uint32_t struct_size            # sizeof(row_statistics_v1) of the build that fills it
    void *self                      # valid as long as the owner of the components lives
    # S (F,) += sign phi(x_i); returns EXPFAM_OK, or EXPFAM_PYTHON. It may use the writer's scratch.
    int (*add)(void *self, Py_ssize_t i, double sign, double *S) noexcept nogil
    # Both NULL unless the components keep nothing of a slot that n and S do not determine.
    # S (F,) += sign phi(x_i) of the n `rows`, one after the other. Each thread has its own `work` (work_size,).
    void (*add_rows)(void *self, const Py_ssize_t *rows, Py_ssize_t n, double sign, double *S,
                     double *work) noexcept nogil
    # Slot k of the components then holds n data with the sums S, as if they had come one by one. Writing: one thread.
    int (*set_sums)(void *self, Py_ssize_t k, double n, const double *S) noexcept nogil
    Py_ssize_t work_size


cdef class RowStatistics:
    cdef row_statistics_v1 c
    cdef object owner               # keeps the memory alive that `self` of the struct points to
    cdef object data, raised
    cdef Py_ssize_t F
    cdef object compute(self, Py_ssize_t i, double sign, double *S)


cdef object row_statistics_capsule(row_statistics_v1 *c)
