# Declarations of value_hashes.h.

from libc.stdint cimport uint32_t, uint64_t

cdef extern from "value_hashes.h" nogil:
    int (*expfam_float_hashes)(const float *row, Py_ssize_t n, const double *origin, const double *scale,
                               const uint64_t *limit, uint64_t *hashes, unsigned char *is_low) noexcept
    Py_ssize_t expfam_low_cells(const unsigned char *is_low, Py_ssize_t n, uint32_t *out) noexcept
    int (*expfam_double_hashes)(const double *row, Py_ssize_t n, const double *origin, const double *scale,
                                const uint64_t *limit, uint64_t *hashes, unsigned char *is_low) noexcept
