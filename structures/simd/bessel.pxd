# Declarations of bessel.h.

cdef extern from "bessel.h" nogil:
    void (*expfam_log_bessel)(double nu, const double *square, double *out, Py_ssize_t n) noexcept
    void (*expfam_bessel_ratio)(double nu, const double *square, double *out, Py_ssize_t n) noexcept
