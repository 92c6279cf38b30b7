# Declarations of soft_rows.h.

cdef extern from "soft_rows.h" nogil:
    enum:
        EXPFAM_LANES
    void (*expfam_row_scores)(const double *x, Py_ssize_t d, const double *theta, const double *bias, double *scores,
                              Py_ssize_t n) noexcept
    double (*expfam_row_weights)(const double *scores, double depth, double *weights, Py_ssize_t n,
                                 Py_ssize_t *top) noexcept
    void (*expfam_add_weighed)(const double *x, Py_ssize_t d, const double *weights, double factor, Py_ssize_t K,
                               double *n, double *S) noexcept
