# Declarations of finite.h.

cdef extern from "finite.h" nogil:
    int (*expfam_finite_floats)(const float *cells, Py_ssize_t n, int may_miss) noexcept
    int (*expfam_finite_doubles)(const double *cells, Py_ssize_t n, int may_miss) noexcept
