# Declarations of pair_bounds.h.

from libc.stdint cimport int32_t

cdef extern from "pair_bounds.h" nogil:
    enum: EXPFAM_PAIR_LANES
    enum: EXPFAM_TOP_BLOCK
    void (*expfam_rate_logs)(const float *blocks, const unsigned char *plain, Py_ssize_t first, Py_ssize_t stop,
                             Py_ssize_t d, const float *pair, float *out) noexcept
    void (*expfam_ward_bounds)(const float *blocks, Py_ssize_t stop, Py_ssize_t d, const float *x, float n, float lost,
                               float kept, double unit, double *out, double *tops) noexcept
    void (*expfam_upper_scores)(const float *logs, const int32_t *count, const double *weight, const double *level,
                                double half, double least, double offset, Py_ssize_t n, double *out,
                                double *tops) noexcept
