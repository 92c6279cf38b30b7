# Declarations of prototypes.h.

from libc.stdint cimport uint32_t

cdef extern from "prototypes.h" nogil:
    float (*expfam_biased_tops)(float *x, const float *bias, float *tops, Py_ssize_t n) noexcept
    Py_ssize_t expfam_above(const float *x, const float *tops, float least, Py_ssize_t n, float *values,
                            uint32_t *places) noexcept
