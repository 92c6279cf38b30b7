# The only rule by which a proposed move is accepted: Metropolis 1953 and Hastings 1970, with probability min(1, ratio).

from libc.math cimport log

from expfam.structures.ground.rng cimport philox_double, philox_stream

cdef enum:
    HOPELESS = -14              # log ratio that next to no uniform number accepts


cdef inline double log_uniform(philox_stream *rng) noexcept nogil:
    """Draw the number that a log ratio is compared with, for moves that may be refused before their ratio is known."""
    return log(philox_double(rng))


cdef inline bint accepted(double log_ratio, double log_u) noexcept nogil:
    """Compare a log ratio with a drawn `log_uniform`; a ratio that is not a number refuses."""
    return log_u < log_ratio


cdef inline bint accept(double log_ratio, philox_stream *rng) noexcept nogil:
    """Draw the number only where the ratio leaves a choice."""
    return log_ratio >= 0 or accepted(log_ratio, log_uniform(rng))


cdef inline bint passes_bound(double most, philox_stream *rng, double *log_u) noexcept nogil:
    """Draw `log_u`; False where an upper bound of the log ratio refuses already, mostly without a logarithm."""
    cdef double u = philox_double(rng)
    if most < HOPELESS and u > 1e-6:    # exp(HOPELESS) is 8.3e-7
        return False
    log_u[0] = log(u)
    return True
