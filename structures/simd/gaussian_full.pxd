# Declarations of gaussian_full.h.

cdef extern from "gaussian_full.h" nogil:
    int (*expfam_gauss_scan)(const double *x, const double *block, Py_ssize_t d, Py_ssize_t count, double *out,
                             double *z) noexcept
    enum: EXPFAM_PANEL
    Py_ssize_t expfam_panel_size(Py_ssize_t d) noexcept
    void expfam_panel_diagonal(const double *panels, double *diagonal, Py_ssize_t d) noexcept
    void expfam_panel_weave(const double *panels, double *out, Py_ssize_t d) noexcept
    double (*expfam_panel_square)(const double *panels, const double *v, Py_ssize_t d, double *z) noexcept
    int (*expfam_panel_scan)(const double *x, const double *block, const double *record, Py_ssize_t width,
                             Py_ssize_t d, Py_ssize_t count, double *out, double *scratch) noexcept
    int (*expfam_panel_rotate)(double *panels, const double *p, double sign, double least, Py_ssize_t d,
                               double *scratch) noexcept
    void (*expfam_panel_invert)(const double *a, const double *reciprocal, double *panels, Py_ssize_t d,
                                double *scratch) noexcept
