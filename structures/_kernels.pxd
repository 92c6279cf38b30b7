# The instances by instruction set of kernels.h, as nogil functions.

cdef extern from "kernels.h" nogil:
    enum: EXPFAM_BLOCK
    int expfam_isa() noexcept
    double expfam_log1(double x) noexcept
    double expfam_exp1(double x) noexcept
    double expfam_log_rising1(double z, double m, int shift) noexcept
    double (*expfam_dot)(const double *a, const double *b, Py_ssize_t n) noexcept
    void (*expfam_log)(const double *x, double *out, Py_ssize_t n) noexcept
    void (*expfam_log_rising)(const double *z, double m, int lift, double *out, Py_ssize_t n) noexcept
    void (*expfam_add_row)(double *out, const double *row, double factor, Py_ssize_t n) noexcept
    double (*expfam_max)(const double *x, Py_ssize_t n) noexcept
    double (*expfam_exp_blocks)(double *x, double shift, double *sums, Py_ssize_t n) noexcept
    Py_ssize_t expfam_pick(const double *w, const double *sums, double total, double uniform, Py_ssize_t n) noexcept
