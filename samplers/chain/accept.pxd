# All moves are accepted by this rule: Metropolis 1953 and Hastings 1970, with probability min(1, ratio).

from libc.math cimport log

from expfam.structures.ground.rng cimport philox_double, philox_stream

cdef enum:
    HOPELESS = -14              # moves with a smaller log ratio are almost never accepted


cdef inline double log_uniform(philox_stream *rng) noexcept nogil:
    """Draw the log of a uniform number, with which a log ratio is compared."""
    return log(philox_double(rng))


cdef inline bint accepted(double log_ratio, double log_u) noexcept nogil:
    """Compare a log ratio with a drawn `log_uniform`; refuse a ratio that is NaN."""
    return log_u < log_ratio


cdef inline bint accept(double log_ratio, philox_stream *rng) noexcept nogil:
    """Accept or refuse a log ratio; draw a number only if the ratio is below 1."""
    return log_ratio >= 0 or accepted(log_ratio, log_uniform(rng))


cdef inline bint passes_bound(double most, philox_stream *rng, double *log_u) noexcept nogil:
    """Draw `log_u`; return False if an upper bound of the log ratio already refuses the move.

    Mostly this needs no logarithm.
    """
    cdef double u = philox_double(rng)
    if most < HOPELESS and u > 1e-6:    # exp(HOPELESS) is 8.3e-7
        return False
    log_u[0] = log(u)
    return True
