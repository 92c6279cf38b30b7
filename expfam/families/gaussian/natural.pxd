# Posterior means of the natural parameters of one cluster, without the gil, for families with a short closed form.

ctypedef struct natural_law:
    # computes theta (F,) and g from (n, S); returns EXPFAM_NUMERICAL if the statistics are impossible
    int (*at)(const natural_law *law, double n, const double *S, double *theta, double *g, double *work) noexcept nogil
    Py_ssize_t d
    Py_ssize_t work_size            # number of doubles in `work`
    const double *shift             # (d,) prior location, centred
    const double *strength          # (d,), or one number
    const double *shape             # (d,), or one number: degrees of freedom
    const double *scale             # (d,) rates, or a packed symmetric matrix
    double variance
    double mean_variance
    bint is_shared                  # the variance: theta has its precision too
    bint zero_mean


cdef class NaturalLaw:
    cdef natural_law law
    cdef object arrays              # arrays behind the pointers
    cdef const double *keep(self, values) except NULL
