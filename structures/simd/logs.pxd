# Declarations of logs.h.

cdef extern from "logs.h" nogil:
    void (*expfam_log)(const double *x, double *out, Py_ssize_t n) noexcept
    void (*expfam_log_rising)(const double *z, double m, int lift, double *out, Py_ssize_t n) noexcept
