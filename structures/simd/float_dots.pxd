# Declarations of float_dots.h.

from libc.stdint cimport int32_t

cdef extern from "float_dots.h" nogil:
    enum: EXPFAM_FLOAT_CHUNK
    void (*expfam_float_dots)(const float *x, Py_ssize_t n_features, const float *rows, const int32_t *which,
                              Py_ssize_t n, float *out) noexcept
    void (*expfam_sparse_dots)(const float *x, const int32_t *columns, Py_ssize_t nnz, const float *tile,
                               Py_ssize_t width, float *out) noexcept
