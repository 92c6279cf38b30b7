# Declarations of gaussian_diagonal.h.

cdef extern from "gaussian_diagonal.h" nogil:
    int (*expfam_t_scan)(const double *x, const double *block, Py_ssize_t d, Py_ssize_t count, double *out) noexcept
    int (*expfam_sphere_scan)(const double *x, double offset, const double *block, Py_ssize_t d, Py_ssize_t count,
                              double *out) noexcept
