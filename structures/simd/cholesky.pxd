# Declarations of cholesky.h.

cdef extern from "cholesky.h" nogil:
    int (*expfam_cholesky)(double *a, Py_ssize_t d) noexcept
    void (*expfam_svec_add)(const double *S, const double *x, double sign, double *out, Py_ssize_t d) noexcept
    void (*expfam_scale)(const double *prior, const double *S, const double *first, const double *shift, double n,
                         const double *about, double weight, double *out, Py_ssize_t d) noexcept
