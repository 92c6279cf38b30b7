# Posterior means of the natural parameters of one cluster, as functions of C; and how each family's own is written.

from libc.math cimport log

# The struct of each family begins with this one, so that a pointer to it is also a pointer to a natural_law.
ctypedef struct natural_law:
    # Computes theta (F,) and g from (n, S (F,)). Returns EXPFAM_NUMERICAL if the statistics are impossible, and
    # EXPFAM_PYTHON if an exception is kept in `pending` of the law.
    int (*at)(const natural_law *law, double n, const double *S, double *theta, double *g, double *work) noexcept nogil
    Py_ssize_t work_size            # number of doubles in `work`


cdef class NaturalLaw:
    cdef const natural_law *law     # the first field of the struct that the subclass fills
    cdef object arrays              # arrays behind the pointers
    cdef const double *keep(self, values) except? NULL


cdef inline double digamma(double x) noexcept nogil:
    """Return psi(x) for x > 0, by recurrence up to 10 and the asymptotic series from there.

    The first neglected term of the series is at most 2e-14.
    """
    cdef double below = 0.0, inverse, square
    while x < 10.0:
        below -= 1.0 / x
        x += 1.0
    inverse = 1.0 / x
    square = inverse * inverse
    return (below + log(x) - 0.5 * inverse
            - square * (1.0 / 12 - square * (1.0 / 120 - square * (1.0 / 252 - square * (1.0 / 240 - square / 132)))))


cdef inline double positive(double count) noexcept nogil:
    """Return a count; rounding may have left a small negative number of fractional ones."""
    return count if count > 0.0 else 0.0
