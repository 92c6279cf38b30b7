# Declarations of vectors.h.

cdef extern from "vectors.h" nogil:
    double (*expfam_dot)(const double *a, const double *b, Py_ssize_t n) noexcept
    void (*expfam_add_row)(double *out, const double *row, double factor, Py_ssize_t n) noexcept
