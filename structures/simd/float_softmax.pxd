# Declarations of float_softmax.h.

cdef extern from "float_softmax.h" nogil:
    double (*expfam_float_exp_blocks)(float *x, float shift, float *sums, Py_ssize_t n_blocks) noexcept
    Py_ssize_t expfam_float_pick(const float *w, const float *sums, double total, double uniform, Py_ssize_t n) noexcept
    # other names of these two, which samplers/proposals/_hash.pyx uses
    double (*expfam_sign_weights "expfam_float_exp_blocks")(float *x, float shift, float *sums,
                                                            Py_ssize_t n_blocks) noexcept
    Py_ssize_t expfam_sign_pick "expfam_float_pick"(const float *w, const float *sums, double total, double uniform,
                                                    Py_ssize_t n) noexcept
