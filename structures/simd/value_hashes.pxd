# Declarations of value_hashes.h.

from libc.stdint cimport uint64_t

cdef extern from "value_hashes.h" nogil:
    int (*expfam_float_hashes)(const float *row, Py_ssize_t n, const double *origin, const double *scale,
                               const uint64_t *limit, uint64_t *hashes) noexcept
    int (*expfam_double_hashes)(const double *row, Py_ssize_t n, const double *origin, const double *scale,
                                const uint64_t *limit, uint64_t *hashes) noexcept
