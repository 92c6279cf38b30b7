# What the scores of merges share.

from libc.math cimport exp, log1p

cdef extern from *:
    """
    #define EXPFAM_SCORES "expfam.merge_scores_v1"
    #define EXPFAM_PARTNERS "expfam.merge_partners_v1"
    """
    const char *SCORES "EXPFAM_SCORES"
    const char *PARTNERS "EXPFAM_PARTNERS"


cdef inline double softplus(double x) noexcept nogil:
    return x + log1p(exp(-x)) if x > 0 else log1p(exp(x))
