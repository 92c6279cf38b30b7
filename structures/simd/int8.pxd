# Declarations of int8.h.

from libc.stdint cimport int8_t, int32_t, uint8_t

cdef extern from "int8.h" nogil:
    enum: EXPFAM_INT8_GROUP
    void (*expfam_int8_dots)(const uint8_t *rows, const int8_t *query, Py_ssize_t n_groups, int32_t *dots,
                             Py_ssize_t n_blocks) noexcept
    float (*expfam_int8_scores)(const uint8_t *rows, const int8_t *query, Py_ssize_t n_groups, float unit,
                                const float *scales, const float *offsets, const float *bias, float factor,
                                float *scores, Py_ssize_t n_blocks) noexcept
