# Declarations of column_sums.h.

from libc.stdint cimport int32_t

cdef extern from "column_sums.h" nogil:
    void (*expfam_label_terms)(const double *rows, Py_ssize_t n_rows, Py_ssize_t n, const int32_t *old,
                               const int32_t *labels, const double *lift, double *table) noexcept
    void (*expfam_float_extremes)(const float *rows, Py_ssize_t n_rows, Py_ssize_t stride, Py_ssize_t n, float *low,
                                  float *high, double *count) noexcept
    void (*expfam_double_extremes)(const double *rows, Py_ssize_t n_rows, Py_ssize_t stride, Py_ssize_t n, double *low,
                                   double *high, double *count) noexcept
    void (*expfam_float_terms)(const float *rows, Py_ssize_t n_rows, Py_ssize_t stride, Py_ssize_t n,
                               Py_ssize_t pitch, const double *shift, const double *centre, const double *lift,
                               double *sums) noexcept
    void (*expfam_double_terms)(const double *rows, Py_ssize_t n_rows, Py_ssize_t stride, Py_ssize_t n,
                                Py_ssize_t pitch, const double *shift, const double *centre, const double *lift,
                                double *sums) noexcept
    void (*expfam_float_squares)(const float *rows, Py_ssize_t n_rows, Py_ssize_t stride, Py_ssize_t n,
                                 Py_ssize_t pitch, const double *shift, const double *centre, const double *lift,
                                 double *sums) noexcept
    void (*expfam_double_squares)(const double *rows, Py_ssize_t n_rows, Py_ssize_t stride, Py_ssize_t n,
                                  Py_ssize_t pitch, const double *shift, const double *centre, const double *lift,
                                  double *sums) noexcept
