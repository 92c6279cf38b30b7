# Acceptance ratios of the exact modes, from which `laws.pyx` computes the law of an update.

from expfam.samplers.collapsed._sweep cimport place, sweep_state

cdef int judge(sweep_state *m, const place *at, Py_ssize_t k_new, double log_back, Py_ssize_t *target, double *ratio,
               double *score, Py_ssize_t *n_options, double *total) noexcept nogil
cdef int ratio_included(sweep_state *m, const place *at, Py_ssize_t k_new, Py_ssize_t *target, double *score,
                        double *ratio) noexcept nogil
cdef int ratio_frozen(sweep_state *m, const place *at, Py_ssize_t k_new, double log_back, double *score,
                      double *ratio) noexcept nogil
