# The only rule by which a proposed move is accepted.

from libc.math cimport log

from expfam.structures.ground.rng cimport philox_double, philox_stream


cdef inline bint accept(double log_ratio, philox_stream *rng) noexcept nogil:
    """Metropolis and Hastings: with probability min(1, exp(log_ratio)); a ratio that is not a number refuses."""
    return log_ratio >= 0 or log(philox_double(rng)) < log_ratio
