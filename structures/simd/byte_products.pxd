# Declarations of byte_products.h.

from libc.stdint cimport int8_t, int32_t, uint8_t

cdef extern from "byte_products.h" nogil:
    enum: EXPFAM_CODE_POINTS
    enum: EXPFAM_CODE_ROWS
    enum: EXPFAM_CODE_GROUP
    int expfam_byte_isa() noexcept
    void (*expfam_byte_products)(const int8_t *rows, const float *row_scales, const int32_t *sums,
                                 const uint8_t *points, const float *point_scales, Py_ssize_t n_groups,
                                 Py_ssize_t n_blocks, float *out, Py_ssize_t stride) noexcept
    float (*expfam_largest_entry)(const float *x, Py_ssize_t n) noexcept
    int32_t (*expfam_coded)(const float *x, float scale, Py_ssize_t n, int8_t *codes, double *squares) noexcept
