# Declarations of dense_scores.h.

from libc.stdint cimport int32_t

cdef extern from "dense_scores.h" nogil:
    double (*expfam_narrow)(const double *x, const double *centre, const double *scale, const double *reach,
                            float *out, Py_ssize_t n) noexcept
    float (*expfam_tops)(const float *x, float *tops, Py_ssize_t n) noexcept
    double (*expfam_near_weights)(float *x, float shift, float depth, const float *tops, double *sums,
                                  Py_ssize_t n) noexcept
    Py_ssize_t expfam_near_pick(const float *w, const double *sums, double total, double uniform,
                                Py_ssize_t n) noexcept
    void (*expfam_near_scale)(float *x, float factor, const double *sums, Py_ssize_t n) noexcept
    void (*expfam_near_floor)(float *x, float least, const double *sums, Py_ssize_t n) noexcept
    void (*expfam_add_scaled)(float *out, const float *const *rows, const float *factors, Py_ssize_t n_rows,
                              Py_ssize_t n) noexcept
    void (*expfam_add_near)(double *out, const float *x, double factor, const double *sums, Py_ssize_t n) noexcept
    void (*expfam_add_listed)(double *out, const int32_t *places, const double *weights, double factor,
                              Py_ssize_t n) noexcept
    Py_ssize_t (*expfam_places_above)(const float *x, float least, Py_ssize_t n, int32_t *places) noexcept
    float (*expfam_code_bounds)(float *x, const float *bias, const float *lengths, const float *errors,
                                const float *own, const float *row, Py_ssize_t n) noexcept
