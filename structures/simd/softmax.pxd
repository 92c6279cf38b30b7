# Declarations of softmax.h.

cdef extern from "softmax.h" nogil:
    double (*expfam_max)(const double *x, Py_ssize_t n) noexcept
    double (*expfam_exp_blocks)(double *x, double shift, double *sums, Py_ssize_t n) noexcept
    Py_ssize_t expfam_pick(const double *w, const double *sums, double total, double uniform, Py_ssize_t n) noexcept
