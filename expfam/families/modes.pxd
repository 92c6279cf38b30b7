# Modes of the posterior of one cluster in natural coordinates, and its prior density there, as functions of C.

# The struct of each family begins with this one, so that a pointer to it is also a pointer to a mode_law.
ctypedef struct mode_law:
    # Computes theta (F,) and g from (n, S (F,)). Returns EXPFAM_NUMERICAL if the statistics are impossible.
    int (*at)(const mode_law *law, double n, const double *S, double *theta, double *g) noexcept nogil
    # Returns the unnormalised log prior density at (theta, g), nats; -inf outside the domain.
    double (*log_prior)(const mode_law *law, const double *theta, double g) noexcept nogil


cdef class ModeLaw:
    cdef const mode_law *law        # the first field of the struct that the subclass fills
    cdef object arrays              # arrays behind the pointers
    cdef const double *keep(self, values) except? NULL
