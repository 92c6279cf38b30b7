# Declarations of gaussian_diagonal.h.

cdef extern from "gaussian_diagonal.h" nogil:
    int (*expfam_t_scan)(const double *x, const double *block, Py_ssize_t d, Py_ssize_t count, double *out) noexcept
    int (*expfam_t_joint)(const double *mean, const double *spread, double n_new, const double *strength,
                          const double *block, const double *n, const double *level, Py_ssize_t d, Py_ssize_t count,
                          double *out) noexcept
    int (*expfam_sphere_scan)(const double *x, double offset, const double *block, Py_ssize_t d, Py_ssize_t count,
                              double *out) noexcept
    int (*expfam_radial_scan)(const double *x, const double *block, Py_ssize_t d, Py_ssize_t count,
                              double *out) noexcept
    void (*expfam_merged_radial)(const double *a, const double *const *rows, const double *n, const double *shift,
                                 double strength, double rate, Py_ssize_t d, double *out) noexcept
