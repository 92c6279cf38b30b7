# Declarations of float_softmax.h.

cdef extern from "float_softmax.h" nogil:
    double (*expfam_float_exp_blocks)(float *x, float shift, float *sums, Py_ssize_t n_blocks) noexcept
    Py_ssize_t expfam_float_pick(const float *w, const float *sums, double total, double uniform, Py_ssize_t n) noexcept
