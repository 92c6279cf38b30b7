# Declarations of byte_logs.h.

from libc.stdint cimport uint8_t

cdef extern from "byte_logs.h" nogil:
    void (*expfam_byte_scores)(const uint8_t *const *rows, Py_ssize_t n_rows, const uint8_t *const *repeated,
                               const uint8_t *const *tables, Py_ssize_t n_repeated, float step, float *scores,
                               Py_ssize_t n) noexcept
    void (*expfam_between)(const float *a, const float *b, float part, float *out, Py_ssize_t n) noexcept
    void (*expfam_float_rows)(const float *const *rows, Py_ssize_t n_rows, float *scores, Py_ssize_t n) noexcept
    float (*expfam_max_float)(const float *x, Py_ssize_t n) noexcept
