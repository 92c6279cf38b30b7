# Search of the best partners by upper bounds of their scores, for partners of a `MergeQueue`.
#
# `upper` (m,) has a bound for each position, -inf for those of no partner; `tops` the highest bound of each block of
# EXPFAM_TOP_BLOCK positions, or a higher number.

from libc.math cimport INFINITY

from expfam.structures.simd.pair_bounds cimport EXPFAM_TOP_BLOCK

cdef enum:
    MOST_REACHED = 32               # partners of a list up to which bounds leave others out

# Replaces positions by slots, and writes the scores of slot k with them; returns 0, or a status of queue.pxd.
ctypedef int (*place_scores)(void *self, Py_ssize_t k, Py_ssize_t *places, Py_ssize_t m, double *out) noexcept nogil


cdef inline Py_ssize_t n_tops(Py_ssize_t m) noexcept nogil:
    """Return the number of blocks of m positions."""
    return (m + EXPFAM_TOP_BLOCK - 1) // EXPFAM_TOP_BLOCK


cdef inline Py_ssize_t best_places(const double *upper, const double *tops, Py_ssize_t m, Py_ssize_t n_best,
                                   Py_ssize_t *places) noexcept nogil:
    """Find the positions of the highest bounds, at most `n_best` of them; return their number."""
    cdef double best[MOST_REACHED]
    cdef double least = -INFINITY
    cdef Py_ssize_t i, j, b, n = 0
    for b in range(n_tops(m)):
        if not tops[b] > least:
            continue
        for i in range(b * EXPFAM_TOP_BLOCK, min((b + 1) * EXPFAM_TOP_BLOCK, m)):
            if not upper[i] > least:
                continue
            j = n - 1 if n == n_best else n
            while j > 0 and best[j - 1] < upper[i]:
                best[j], places[j] = best[j - 1], places[j - 1]
                j -= 1
            best[j], places[j] = upper[i], i
            n = min(n + 1, n_best)
            if n == n_best:
                least = best[n - 1]
    return n


cdef inline int score_to_reach(const double *upper, const double *tops, Py_ssize_t m, Py_ssize_t n_kept,
                               place_scores score, void *self, Py_ssize_t k, Py_ssize_t *places, double *scores,
                               double *least) noexcept nogil:
    """Score the best partners by bound; set `least` to the lowest of their scores.

    A partner whose bound is lower cannot be among the best `n_kept`. `least` is -inf where nothing can be left out, and
    where a score is no number.
    """
    cdef Py_ssize_t i, n
    cdef int status
    least[0] = -INFINITY
    if n_kept > MOST_REACHED or m <= n_kept:
        return 0
    n = best_places(upper, tops, m, n_kept, places)
    if n < n_kept:
        return 0
    status = score(self, k, places, n, scores)
    if status < 0:
        return status
    least[0] = scores[0]
    for i in range(1, n):
        if not scores[i] >= least[0]:
            least[0] = scores[i]
    if not least[0] > -INFINITY:
        least[0] = -INFINITY
    return 0


cdef inline Py_ssize_t list_above(const double *upper, const double *tops, Py_ssize_t m, double least,
                                  Py_ssize_t *places, double *rest) noexcept nogil:
    """List the positions whose bound is at least `least`; raise `rest` to the bounds of all others.

    Returns their number.
    """
    cdef Py_ssize_t i, b, n = 0
    for b in range(n_tops(m)):
        if tops[b] < least:
            rest[0] = max(rest[0], tops[b])
            continue
        for i in range(b * EXPFAM_TOP_BLOCK, min((b + 1) * EXPFAM_TOP_BLOCK, m)):
            if upper[i] >= least and upper[i] > -INFINITY:
                places[n] = i
                n += 1
            else:
                rest[0] = max(rest[0], upper[i])
    return n
