# Declarations of hamming.h.

from libc.stdint cimport int32_t, uint64_t

cdef extern from "hamming.h" nogil:
    void (*expfam_hamming)(const uint64_t *planes, Py_ssize_t stride, const uint64_t *code, Py_ssize_t n_words,
                           int32_t *out, Py_ssize_t n) noexcept
    float (*expfam_sign_scores)(const uint64_t *planes, Py_ssize_t stride, const uint64_t *code, Py_ssize_t n_words,
                                const float *table, const float *norms, float norm, const float *slopes, float factor,
                                const float *bias, float *scores, Py_ssize_t n) noexcept
