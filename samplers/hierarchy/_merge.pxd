# What the scores of merges share: two capsules, and a function.

from libc.math cimport exp, log1p

from expfam.families.growth cimport growth_line

cdef extern from *:
    """
    #define EXPFAM_SCORES "expfam.merge_scores_v1"
    #define EXPFAM_PARTNERS "expfam.merge_partners_v1"
    #define EXPFAM_PARTS "expfam.score_parts_v1"
    """
    const char *SCORES "EXPFAM_SCORES"
    const char *PARTNERS "EXPFAM_PARTNERS"
    const char *PARTS "EXPFAM_PARTS"


cdef inline double softplus(double x) noexcept nogil:
    return x + log1p(exp(-x)) if x > 0 else log1p(exp(x))


# Compute the scores of slot k with each of ls, for the clusters at that moment; score(k, [l]) and score(l, [k]) are
# equal to the bit. Return 0, or a negative status of merge_queue.pxd.
ctypedef int (*pair_scores)(void *self, Py_ssize_t k, const Py_ssize_t *ls, Py_ssize_t m, double *out) noexcept nogil

ctypedef struct merge_scores_v1:    # capsule "expfam.merge_scores_v1"
    void *self
    pair_scores score


# What a score is made of, for bounds of many: score(k, x) = alone(k) + log p(x | k) - weight of a single datum x.
ctypedef struct score_parts:
    void *self
    # of slot k, and how far rounding can take such a score from what it would be; 0 or a status of merge_queue.pxd
    int (*alone)(void *self, Py_ssize_t k, double *out, double *rounding) noexcept nogil
    int (*line)(void *self, Py_ssize_t k, Py_ssize_t l, double depth, growth_line *out) noexcept nogil
