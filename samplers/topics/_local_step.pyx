"""The local step of topic models: weights and responsibilities of one document.

It computes without logarithms: with B_uk = exp(E log phi_ku) up to a factor of each word and
p_k = exp(psi(alpha_k + N_k)), the responsibilities are r_uk = B_uk p_k / s_u with s_u = sum_k B_uk p_k, and
N_k = sum_u c_u r_uk. Only the document's active topics are used: their columns of B are copied to one compact block,
over which a pass is two vector loops for each word.
"""

import numpy as np

from libc.math cimport INFINITY, exp, fabs, lgamma, log
from libc.stdint cimport int32_t, int64_t

from expfam.samplers.topics._functions cimport topic_digamma, topic_digammas, topic_exps_f32, topic_exps_f64

cdef extern from *:
    """
    #include "dispatch.h"
    /* One pass over a block: sums[u] = sum_k B_uk p_k and out[k] = sum_u c_u B_uk / sums[u]. Words whose sum is not
     * above `least` are left out; returns their number. `size` is padded to whole vectors. */
    #define TOPIC_PASS(NAME, TARGET, TYPE)                                                                  \\
        TARGET static ptrdiff_t NAME(const TYPE *block, ptrdiff_t stride, ptrdiff_t n_rows, ptrdiff_t size, \\
                                     const double *c, const TYPE *p, TYPE least, double *sums, TYPE *out) { \\
            ptrdiff_t n_lost = 0;                                                                           \\
            for (ptrdiff_t k = 0; k < size; k++) out[k] = 0;                                                \\
            for (ptrdiff_t u = 0; u < n_rows; u++) {                                                        \\
                const TYPE *row = block + u * stride;                                                       \\
                TYPE sum = 0, share;                                                                        \\
                EXPFAM_SIMD_SUM(sum)                                                                        \\
                for (ptrdiff_t k = 0; k < size; k++) sum += row[k] * p[k];                                  \\
                sums[u] = sum;                                                                              \\
                if (!(sum > least)) { n_lost++; continue; }                                                 \\
                share = (TYPE)c[u] / sum;                                                                   \\
                EXPFAM_SIMD                                                                                 \\
                for (ptrdiff_t k = 0; k < size; k++) out[k] += share * row[k];                              \\
            }                                                                                               \\
            return n_lost;                                                                                  \\
        }
    #define TOPIC_PASS_F32(NAME, TARGET) TOPIC_PASS(NAME, TARGET, float)
    #define TOPIC_PASS_F64(NAME, TARGET) TOPIC_PASS(NAME, TARGET, double)
    EXPFAM_INSTANCES(TOPIC_PASS_F32, ptrdiff_t, topic_pass_f32, (const float *, ptrdiff_t, ptrdiff_t, ptrdiff_t,
                     const double *, const float *, float, double *, float *))
    EXPFAM_INSTANCES(TOPIC_PASS_F64, ptrdiff_t, topic_pass_f64, (const double *, ptrdiff_t, ptrdiff_t, ptrdiff_t,
                     const double *, const double *, double, double *, double *))
    /* Finds the places k < size with row_k p_k >= least, ascending, and these products, exact for floats; returns their
     * number. No product is negative. A first test of 16 places, of their largest product, rounds the products to TYPE:
     * rounding keeps the order, so it misses none. */
    #define TOPIC_LARGE(NAME, TARGET, TYPE)                                                                 \\
        TARGET static ptrdiff_t NAME(const TYPE *row, const TYPE *p, ptrdiff_t size, double least,          \\
                                     int32_t *places, double *values) {                                     \\
            const TYPE rounded = (TYPE)least;                                                               \\
            ptrdiff_t found = 0, n = 0;                                                                     \\
            for (ptrdiff_t b = 0; b < size; b += 16) {                                                      \\
                TYPE most = 0;                                                                              \\
                EXPFAM_SIMD_MAX(most)                                                                       \\
                for (ptrdiff_t k = b; k < b + 16; k++) most = row[k] * p[k] > most ? row[k] * p[k] : most;  \\
                if (!(most >= rounded)) continue;                                                           \\
                for (ptrdiff_t k = b; k < b + 16; k++) {                                                    \\
                    places[found] = (int32_t)k;                                                             \\
                    found += row[k] * p[k] >= rounded;                                                      \\
                }                                                                                           \\
            }                                                                                               \\
            for (ptrdiff_t i = 0; i < found; i++) {                                                         \\
                const ptrdiff_t k = places[i];                                                              \\
                const double x = (double)row[k] * p[k];                                                     \\
                places[n] = (int32_t)k;                                                                     \\
                values[n] = x;                                                                              \\
                n += x >= least && k < size;                                                                \\
            }                                                                                               \\
            return n;                                                                                       \\
        }
    #define TOPIC_LARGE_F32(NAME, TARGET) TOPIC_LARGE(NAME, TARGET, float)
    #define TOPIC_LARGE_F64(NAME, TARGET) TOPIC_LARGE(NAME, TARGET, double)
    EXPFAM_INSTANCES(TOPIC_LARGE_F32, ptrdiff_t, topic_large_f32, (const float *, const float *, ptrdiff_t, double,
                     int32_t *, double *))
    EXPFAM_INSTANCES(TOPIC_LARGE_F64, ptrdiff_t, topic_large_f64, (const double *, const double *, ptrdiff_t, double,
                     int32_t *, double *))
    /* How many of n values are larger than each of the first `width`, a multiple of 16. */
    #define TOPIC_RANKS(NAME, TARGET)                                                                       \\
        TARGET static void NAME(const double *values, ptrdiff_t n, ptrdiff_t width, int64_t *ranks) {       \\
            for (ptrdiff_t b = 0; b < width; b += 16) {                                                     \\
                int64_t larger[16] = {0};                                                                   \\
                for (ptrdiff_t j = 0; j < n; j++) {                                                         \\
                    const double x = values[j];                                                             \\
                    EXPFAM_SIMD                                                                             \\
                    for (ptrdiff_t i = 0; i < 16; i++) larger[i] += x > values[b + i];                      \\
                }                                                                                           \\
                memcpy(ranks + b, larger, sizeof(larger));                                                  \\
            }                                                                                               \\
        }
    EXPFAM_INSTANCES(TOPIC_RANKS, void, topic_ranks, (const double *, ptrdiff_t, ptrdiff_t, int64_t *))
    """
    Py_ssize_t (*topic_pass_f32)(const float *block, Py_ssize_t stride, Py_ssize_t n_rows, Py_ssize_t size,
                                 const double *c, const float *p, float least, double *sums, float *out) noexcept nogil
    Py_ssize_t (*topic_pass_f64)(const double *block, Py_ssize_t stride, Py_ssize_t n_rows, Py_ssize_t size,
                                 const double *c, const double *p, double least, double *sums,
                                 double *out) noexcept nogil
    Py_ssize_t (*topic_large_f32)(const float *row, const float *p, Py_ssize_t size, double least, int32_t *places,
                                  double *values) noexcept nogil
    Py_ssize_t (*topic_large_f64)(const double *row, const double *p, Py_ssize_t size, double least, int32_t *places,
                                  double *values) noexcept nogil
    void (*topic_ranks)(const double *values, Py_ssize_t n, Py_ssize_t width, int64_t *ranks) noexcept nogil

ctypedef fused real:
    float
    double

cdef enum:
    LANES = 16                          # columns of a block are padded to a multiple of this
    ACTIVE = 0                          # values of `local`
    DENSE = 1
    TOKENS = 2
    EARLY = 10                          # with local="tokens" the first iterations all select topics
    EVERY = 5                           # later ones select, or drop topics, once in this number of iterations
    RANKED = 32                         # up to this number of values each is compared with each
    MANY = 64                           # more active topics than this are reduced by first updates
    FIRST_UPDATES = 2                   # number of first updates, before columns are copied to the block

cdef double LEAST_REST = 1e-3           # a restart removes only topics with more tokens than this
cdef double GAIN = 1e-9                 # relative gain of the bound from which a restart is accepted


ctypedef struct plan:                   # settings and tables that all documents share
    Py_ssize_t n_topics
    Py_ssize_t n_first                  # number of best topics of each word in `first`
    Py_ssize_t n_active                 # responsibilities kept of each word in the end, K for all
    Py_ssize_t max_iterations
    Py_ssize_t n_restarts
    Py_ssize_t restart_iterations
    int local
    bint is_best                        # keep the better of a cold run and a run from stored counts
    double tol
    double tau                          # a topic with at most this number of tokens is dropped
    const double *alpha
    const double *log_gamma             # (K,) of alpha
    double alpha_total
    const double *expected_sums         # (K,) psi(sum of a topic's pseudo-counts)
    const double *word_counts           # (V, K)
    const double *eta                   # (V,)
    const double *shift                 # (V,) largest expected log probability of a word
    const int32_t *first                # (V, n_first) best topics of each word


ctypedef struct workspace:              # the present document
    Py_ssize_t n_rows                   # its word types
    const int32_t *words
    const double *c
    double length
    Py_ssize_t size                     # active topics
    Py_ssize_t stride
    int32_t *topics                     # (K padded,)
    double *alpha                       # of the active topics
    double *N
    double *fresh
    double *logs                        # log p
    double *sums                        # (U,) s_u
    double *saved                       # (K padded,) responsibilities of a word's few topics, in the order of `support`
    double *top                         # (K padded,)
    int32_t *places                     # (K padded,)
    int32_t *mark                       # (K,) 0 between documents
    int32_t *support                    # (U, n_active) places in the block of each word's few topics, ascending
    bint has_support                    # whether `support` fits the present block
    int64_t n_iterations
    int64_t n_accepted
    int64_t n_proposed


# ---- one document ----------------------------------------------------------------------------------------------------


cdef inline Py_ssize_t padded(Py_ssize_t n) noexcept nogil:
    return (n + LANES - 1) // LANES * LANES


cdef inline double least_sum(const real *p) noexcept nogil:
    """Return the least sum of a word that is exact enough.

    Smaller sums may have lost large terms to the zeros in the tables: these words are computed from logs.
    """
    return 1e-11 if real is float else 1e-140


cdef void weigh(workspace *d, real *p) noexcept nogil:
    """Compute p_k = exp(psi(alpha_k + N_k)) of the active topics and its logs.

    Both are shifted so that the largest p_k is 1.
    """
    cdef double largest = topic_digammas(d.alpha, d.N, d.logs, d.size)
    cdef Py_ssize_t k
    if real is float:
        topic_exps_f32(d.logs, largest, p, d.size)
    else:
        topic_exps_f64(d.logs, largest, p, d.size)
    for k in range(d.size, padded(d.size)):
        p[k] = 0


cdef Py_ssize_t leave_small(double *values, int32_t *places, Py_ssize_t size, Py_ssize_t n) noexcept nogil:
    """Remove values that cannot be among the n <= LANES largest; return the number left.

    The places are divided into LANES classes. At least n values are not below the n-th largest of the classes' largest
    values, so nothing below it is among the n largest.
    """
    cdef double best[LANES]
    cdef int64_t ranks[LANES]
    cdef double least = INFINITY
    cdef Py_ssize_t i, j, m = 0
    for i in range(LANES):
        best[i] = -1.0
    for j in range(size, padded(size)):
        values[j] = -1.0
    for j in range(padded(size) // LANES):
        for i in range(LANES):
            best[i] = max(best[i], values[j * LANES + i])
    topic_ranks(best, LANES, LANES, ranks)
    for i in range(LANES):
        if ranks[i] < n:
            least = min(least, best[i])
    for j in range(size):
        values[m], places[m] = values[j], places[j]
        m += values[m] >= least
    return m


cdef double nth_largest(const double *values, Py_ssize_t size, Py_ssize_t n, double *top) noexcept nogil:
    cdef Py_ssize_t i, j, n_top = 0
    for i in range(size):
        if n_top == n and values[i] <= top[n - 1]:
            continue
        j = n_top if n_top < n else n - 1
        n_top += n_top < n
        while j > 0 and values[i] > top[j - 1]:
            top[j] = top[j - 1]
            j -= 1
        top[j] = values[i]
    return top[n - 1]


cdef void keep_largest(double *values, int32_t *places, Py_ssize_t size, Py_ssize_t n, int32_t *support, double *kept,
                       double *top) noexcept nogil:
    """Find the n largest of non-negative values, with ascending places; change `values`.

    Of equal values the first ones are kept.
    """
    cdef int64_t ranks[RANKED]
    cdef int64_t edge = 0, left
    cdef Py_ssize_t i, j = 0
    cdef double least
    if size > RANKED and n <= LANES:
        size = leave_small(values, places, size, n)
    if size <= n:
        for i in range(size):
            support[i], kept[i] = places[i], values[i]
        return
    if size > RANKED:
        least, left = nth_largest(values, size, n, top), n
        for i in range(size):
            left -= values[i] > least
        for i in range(size):
            if values[i] > least or (values[i] == least and left > 0):
                left -= values[i] == least
                support[j], kept[j] = places[i], values[i]
                j += 1
        return
    for i in range(size, padded(size)):
        values[i] = -1.0
    topic_ranks(values, size, padded(size), ranks)
    for i in range(size):                           # `edge` becomes the number of values larger than the n-th
        edge = ranks[i] if edge < ranks[i] < n else edge
    left = n - edge
    for i in range(size):
        support[j], kept[j] = places[i], values[i]
        j += ranks[i] < edge or (ranks[i] == edge and left > 0)
        left -= ranks[i] == edge
        if j == n:
            return


cdef void fill_up(const double *values, const int32_t *places, Py_ssize_t size, Py_ssize_t n, int32_t *support,
                  double *kept) noexcept nogil:
    """Copy all values with their ascending places, and add places with value 0 up to n.

    The first of the other places are added.
    """
    cdef Py_ssize_t i = 0, j = 0, k = 0, n_others = n - size
    while j < n:
        if i < size and (places[i] == k or n_others == 0):
            support[j], kept[j] = places[i], values[i]
            i += 1
        else:
            support[j], kept[j] = <int32_t> k, 0.0
            n_others -= 1
        j += 1
        k += 1


cdef double logs_of_row(const plan *s, const workspace *d, Py_ssize_t u, double *w) noexcept nogil:
    """Compute the logs of one word's products with all weights; return the largest.

    They are computed from the counts, not from the tables.
    """
    cdef Py_ssize_t k, word = d.words[u]
    cdef double largest = -INFINITY
    for k in range(d.size):
        w[k] = topic_digamma(s.eta[word] + s.word_counts[word * s.n_topics + d.topics[k]])
        w[k] += d.logs[k] - s.expected_sums[d.topics[k]] - s.shift[word]
        largest = max(largest, w[k])
    return largest


cdef void exps_of_row(double *w, Py_ssize_t size, double offset) noexcept nogil:
    cdef Py_ssize_t k
    for k in range(size):
        w[k] = exp(w[k] - offset) if w[k] - offset < 700.0 else 0.0


cdef double row_law(const plan *s, workspace *d, Py_ssize_t u, const real *block, const real *p,
                    double *w) noexcept nogil:
    """Write the responsibilities of one word to w (size,); return a log sum.

    The responsibilities are products divided by their sum, whose log is returned. Logs are used where the sum of
    products is not exact enough.
    """
    cdef Py_ssize_t k
    cdef double total = products_of_row(d, u, block, p, w), offset = 0.0
    if not total > least_sum(p):
        offset = logs_of_row(s, d, u, w)
        exps_of_row(w, d.size, offset)
        total = 0.0
        for k in range(d.size):
            total += w[k]
    for k in range(d.size):
        w[k] /= total
    return offset + log(total)


cdef double products_of_row(const workspace *d, Py_ssize_t u, const real *block, const real *p,
                            double *w) noexcept nogil:
    """Write the products of one word with all weights to w; return their sum."""
    cdef const real *row = block + u * d.stride
    cdef double total = 0.0
    cdef Py_ssize_t k
    for k in range(d.size):
        w[k] = <double> row[k] * p[k]
        total += w[k]
    return total


cdef void keep_products(const plan *s, workspace *d, Py_ssize_t u, const real *block, const real *p, bint select,
                        double *w) noexcept nogil:
    """Write the products of one word with the weights of its few topics to `saved`.

    With `select` the topics with the largest products are chosen anew. None of them is below the least product of the
    last choice, so few products are compared more than once.
    """
    cdef const real *row = block + u * d.stride
    cdef Py_ssize_t j, n, L = min(s.n_active, d.size)
    cdef int32_t *support = d.support + u * s.n_active
    cdef double least = INFINITY
    if select and not d.has_support:
        for j in range(L):
            support[j] = <int32_t> j
    for j in range(L):
        d.saved[j] = <double> row[support[j]] * p[support[j]]
        least = min(least, d.saved[j])
    if select:                          # `topic_exps` writes zeros for small numbers: their products do not count
        least = max(least, 2e-45 if real is float else 5e-324)
        if real is float:
            n = topic_large_f32(row, p, d.size, least, d.places, w)
        else:
            n = topic_large_f64(row, p, d.size, least, d.places, w)
        if n < L:
            fill_up(w, d.places, n, L, support, d.saved)
        else:
            keep_largest(w, d.places, n, L, support, d.saved, d.top)


cdef double keep_logs(const plan *s, workspace *d, Py_ssize_t u, bint select, double *w) noexcept nogil:
    """Do the work of `keep_products` with logs; return the number subtracted from the logs."""
    cdef Py_ssize_t j, k, L = min(s.n_active, d.size)
    cdef int32_t *support = d.support + u * s.n_active
    cdef double offset = logs_of_row(s, d, u, w)
    if not select:
        offset = -INFINITY
        for j in range(L):
            offset = max(offset, w[support[j]])
    exps_of_row(w, d.size, offset)
    if select:
        for k in range(d.size):
            d.places[k] = <int32_t> k
        keep_largest(w, d.places, d.size, L, support, d.saved, d.top)
    else:
        for j in range(L):
            d.saved[j] = w[support[j]]
    return offset


cdef double kept_law(const plan *s, workspace *d, Py_ssize_t u, const real *block, const real *p, bint select,
                     double *total, double *w) noexcept nogil:
    """Write the responsibilities of one word's few topics to `saved`; return an offset.

    The log of their sum before division is this offset plus log(total).
    """
    cdef Py_ssize_t j, L = min(s.n_active, d.size)
    cdef double offset = 0.0, least = least_sum(p)
    keep_products(s, d, u, block, p, select, w)
    total[0] = 0.0
    for j in range(L):
        total[0] += d.saved[j]
    if not total[0] > least and not (select and products_of_row(d, u, block, p, w) > least):
        offset = keep_logs(s, d, u, select, w)
        total[0] = 0.0
        for j in range(L):
            total[0] += d.saved[j]
    for j in range(L):
        d.saved[j] /= total[0]
    return offset


cdef void pass_all(const plan *s, workspace *d, const real *block, const real *p, real *out, double *w) noexcept nogil:
    """Write the counts of topics, from responsibilities at p, to `fresh`."""
    cdef Py_ssize_t k, u, n_lost
    cdef double least = least_sum(p)
    if real is float:
        n_lost = topic_pass_f32(block, d.stride, d.n_rows, padded(d.size), d.c, p, <float> least, d.sums, out)
    else:
        n_lost = topic_pass_f64(block, d.stride, d.n_rows, padded(d.size), d.c, p, least, d.sums, out)
    for k in range(d.size):
        d.fresh[k] = <double> p[k] * out[k]
    if n_lost:
        for u in range(d.n_rows):
            if not d.sums[u] > least:
                row_law(s, d, u, block, p, w)
                for k in range(d.size):
                    d.fresh[k] += d.c[u] * w[k]


cdef void pass_kept(const plan *s, workspace *d, const real *block, const real *p, bint select, bint last,
                    double *w) noexcept nogil:
    """Do the work of `pass_all` with few topics for each word.

    The last pass writes the logs of the sums to `sums`.
    """
    cdef Py_ssize_t j, k, u, L = min(s.n_active, d.size)
    cdef const int32_t *support
    cdef double offset, total
    for k in range(d.size):
        d.fresh[k] = 0.0
    for u in range(d.n_rows):
        offset = kept_law(s, d, u, block, p, select, &total, w)
        support = d.support + u * s.n_active
        for j in range(L):
            d.fresh[support[j]] += d.c[u] * d.saved[j]
        if last:
            d.sums[u] = offset + log(total)
    d.has_support = True


cdef void drop_topics(const plan *s, workspace *d, real *block) noexcept nogil:
    """Drop the topics with at most tau tokens, but never the largest topic."""
    cdef Py_ssize_t k, u, j = 0, best = 0
    for k in range(d.size):
        best = k if d.N[k] > d.N[best] else best
    for k in range(d.size):
        if d.N[k] > s.tau or k == best:
            if j < k:
                d.N[j], d.alpha[j], d.topics[j] = d.N[k], d.alpha[k], d.topics[k]
                for u in range(d.n_rows):
                    block[u * d.stride + j] = block[u * d.stride + k]
            j += 1
    if j < d.size:
        d.size, d.has_support = j, False
        for u in range(d.n_rows):
            for k in range(j, padded(j)):
                block[u * d.stride + k] = 0


cdef void iterate(const plan *s, workspace *d, real *block, real *p, real *out, double *w, Py_ssize_t n, bint may_drop,
                  ) noexcept nogil:
    """Update the document's weights n times, or until no count changes by more than `tol`."""
    cdef Py_ssize_t t, k
    cdef double change
    for t in range(n):
        weigh(d, p)
        if s.local == TOKENS:
            pass_kept(s, d, block, p, t < EARLY or t % EVERY == 0, False, w)
        else:
            pass_all(s, d, block, p, out, w)
        change = 0.0
        for k in range(d.size):
            change = max(change, fabs(d.fresh[k] - d.N[k]))
            d.N[k] = d.fresh[k]
        d.n_iterations += 1
        if may_drop and (t < 3 or (t + 1) % EVERY == 0):
            drop_topics(s, d, block)
        if change <= s.tol:
            break


cdef double bound(const plan *s, workspace *d, const real *block, const real *p, bint kept, double *w) noexcept nogil:
    """Return the document's part of the bound at the responsibilities of the last pass, nats."""
    cdef Py_ssize_t k, u
    cdef double value = lgamma(s.alpha_total) - lgamma(s.alpha_total + d.length), least = least_sum(p)
    for u in range(d.n_rows):
        if kept:
            value += d.c[u] * (d.sums[u] + s.shift[d.words[u]])
        elif d.sums[u] > least:
            value += d.c[u] * (log(d.sums[u]) + s.shift[d.words[u]])
        else:
            value += d.c[u] * (row_law(s, d, u, block, p, w) + s.shift[d.words[u]])
    for k in range(d.size):
        if d.N[k] > 0.0:
            value += lgamma(d.alpha[k] + d.N[k]) - s.log_gamma[d.topics[k]] - d.N[k] * d.logs[k]
    return value


cdef inline bint ends_kept(const plan *s, const workspace *d) noexcept nogil:
    return s.local == TOKENS or s.n_active < d.size


cdef double finish(const plan *s, workspace *d, const real *block, real *p, real *out, double *w) noexcept nogil:
    """Make a last update, after which responsibilities and counts agree; return the bound, nats."""
    cdef Py_ssize_t k
    cdef bint kept = ends_kept(s, d)
    weigh(d, p)
    if kept:
        pass_kept(s, d, block, p, s.local != TOKENS, True, w)
    else:
        pass_all(s, d, block, p, out, w)
    for k in range(d.size):
        d.N[k] = d.fresh[k]
    d.n_iterations += 1
    return bound(s, d, block, p, kept, w)


cdef double restarts(const plan *s, workspace *d, real *block, real *p, real *out, double *w, double *kept_N,
                     double value) noexcept nogil:
    """Remove the smallest topics one at a time; keep each removal that raises the bound."""
    cdef Py_ssize_t k, t, n = 0, held
    cdef double fresh
    cdef bint is_stale = False
    cdef int32_t smallest[64]
    for k in range(d.size):                         # `smallest` is sorted by the topics' tokens
        if d.N[k] <= LEAST_REST:
            continue
        t = n if n < s.n_restarts else n - 1
        if n == s.n_restarts and d.N[k] >= d.N[smallest[n - 1]]:
            continue
        n += n < s.n_restarts
        while t > 0 and d.N[k] < d.N[smallest[t - 1]]:
            smallest[t] = smallest[t - 1]
            t -= 1
        smallest[t] = <int32_t> k
    for t in range(n):
        held = 0
        for k in range(d.size):
            held += d.N[k] > LEAST_REST
            kept_N[k] = d.N[k]
        if held < 2 or d.N[smallest[t]] <= LEAST_REST:
            continue
        d.N[smallest[t]] = 0.0
        iterate(s, d, block, p, out, w, s.restart_iterations, False)
        fresh = finish(s, d, block, p, out, w)
        d.n_proposed += 1
        is_stale = not fresh > value + GAIN * fabs(value)
        if is_stale:
            for k in range(d.size):
                d.N[k] = kept_N[k]
        else:
            value = fresh
            d.n_accepted += 1
    return finish(s, d, block, p, out, w) if is_stale else value


cdef void fill_block(const plan *s, workspace *d, const real *B, real *block) noexcept nogil:
    """Copy the columns of the active topics to the block, beside each other."""
    cdef Py_ssize_t u, k
    cdef const real *row
    cdef real *target
    d.stride, d.has_support = padded(d.size), False
    for k in range(d.size):
        d.alpha[k] = s.alpha[d.topics[k]]
    for u in range(d.n_rows):
        row, target = B + <Py_ssize_t> d.words[u] * s.n_topics, block + u * d.stride
        for k in range(d.size):
            target[k] = row[d.topics[k]]
        for k in range(d.size, d.stride):
            target[k] = 0


cdef void start_from_words(const plan *s, workspace *d, const real *B, real *p) noexcept nogil:
    """Choose the first active topics and counts from each word's best topics.

    With equal weights the best topics depend on the word alone. Where there are many topics and small ones may be
    dropped, two updates among the best topics follow: most of some hundred topics become small in them, before their
    columns are copied.
    """
    cdef Py_ssize_t j, k, u, _t, best = 0, n = 0
    cdef const int32_t *first
    for u in range(d.n_rows):
        first = s.first + <Py_ssize_t> d.words[u] * s.n_first
        for j in range(s.n_first):
            k = first[j]
            if d.mark[k] == 0:
                d.topics[n], d.alpha[n], p[n] = <int32_t> k, s.alpha[k], 1
                n += 1
                d.mark[k] = <int32_t> n
    d.size = n
    share_among_first(s, d, B, p)
    if n > MANY and s.local == ACTIVE and s.tau > 0.0:
        for _t in range(FIRST_UPDATES):
            weigh(d, p)
            share_among_first(s, d, B, p)
    for j in range(n):
        d.mark[d.topics[j]] = 0
        best = j if d.N[j] > d.N[best] else best
    d.size = 0
    for j in range(n):
        if d.N[j] > s.tau or j == best or s.local == TOKENS:
            d.topics[d.size], d.N[d.size] = d.topics[j], d.N[j]
            d.size += 1


cdef void share_among_first(const plan *s, workspace *d, const real *B, const real *p) noexcept nogil:
    """Compute counts of topics from each word's best topics alone, weighted by p.

    Words with too small products in all their best topics are left out.
    """
    cdef Py_ssize_t j, k, u
    cdef const int32_t *first
    cdef const real *row
    cdef double total, least = least_sum(p)
    for k in range(d.size):
        d.N[k] = 0.0
    for u in range(d.n_rows):
        row, first = B + <Py_ssize_t> d.words[u] * s.n_topics, s.first + <Py_ssize_t> d.words[u] * s.n_first
        total = 0.0
        for j in range(s.n_first):
            total += row[first[j]] * p[d.mark[first[j]] - 1]
        if total > least:
            for j in range(s.n_first):
                k = d.mark[first[j]] - 1
                d.N[k] += d.c[u] * row[first[j]] * p[k] / total


cdef void start_dense(const plan *s, workspace *d, const real *B, real *block, real *p, real *out,
                      double *w) noexcept nogil:
    """Begin with all topics, and compute their counts with equal weights."""
    cdef Py_ssize_t k
    d.size = s.n_topics
    for k in range(d.size):
        d.topics[k], d.logs[k], p[k] = <int32_t> k, 0.0, 1
    for k in range(d.size, padded(d.size)):
        p[k] = 0
    fill_block(s, d, B, block)
    pass_all(s, d, block, p, out, w)
    for k in range(d.size):
        d.N[k] = d.fresh[k]


cdef double run_cold(const plan *s, workspace *d, const real *B, real *block, real *p, real *out, double *w,
                     double *kept_N) noexcept nogil:
    cdef double value
    if s.local == DENSE:
        start_dense(s, d, B, block, p, out, w)
    else:
        start_from_words(s, d, B, p)
        fill_block(s, d, B, block)
    iterate(s, d, block, p, out, w, s.max_iterations, s.local == ACTIVE)
    value = finish(s, d, block, p, out, w)
    return restarts(s, d, block, p, out, w, kept_N, value) if s.n_restarts else value


cdef double run_stored(const plan *s, workspace *d, const real *B, real *block, real *p, real *out, double *w,
                       Py_ssize_t n, const int32_t *topics, const double *N, bint once) noexcept nogil:
    """Continue from stored counts and drop no topic; return the bound, nats.

    The bound does not fall below that of the stored counts.
    """
    cdef Py_ssize_t k
    d.size = n
    for k in range(n):
        d.topics[k], d.N[k] = topics[k], N[k]
    fill_block(s, d, B, block)
    if s.local == TOKENS:
        iterate(s, d, block, p, out, w, 1 if once else s.max_iterations, False)
    elif not (once or ends_kept(s, d)):     # where `finish` keeps few topics, a free update could lower the bound
        iterate(s, d, block, p, out, w, s.max_iterations, False)
    return finish(s, d, block, p, out, w)


cdef void write_rows(const plan *s, workspace *d, const real *block, const real *p, real *values,
                     double *w) noexcept nogil:
    """Write the responsibilities (n_rows, size) of the last pass to `values`."""
    cdef Py_ssize_t u, k, j
    cdef bint kept = ends_kept(s, d)
    cdef double least = least_sum(p), total
    cdef real scale
    cdef real *row
    for u in range(d.n_rows):
        row = values + u * d.size
        if kept:
            kept_law(s, d, u, block, p, False, &total, w)
            for k in range(d.size):
                row[k] = 0
            for j in range(min(s.n_active, d.size)):
                row[d.support[u * s.n_active + j]] = <real> d.saved[j]
        elif not d.sums[u] > least:
            row_law(s, d, u, block, p, w)
            for k in range(d.size):
                row[k] = <real> w[k]
        else:
            scale = <real> (1.0 / d.sums[u])
            for k in range(d.size):
                row[k] = block[u * d.stride + k] * p[k] * scale


# ---- many documents --------------------------------------------------------------------------------------------------


cdef class LocalStep:
    """Settings and tables of the local step of all documents.

    `tables` are B (V, K) of the type of the step, shift (V,), expected_sums (K,), word_counts (V, K), eta (V,) and
    first (V, n_first) int32. `log_gamma` (K,) is log G(alpha). `local` is 0 for active topics, 1 for all topics, 2 for
    few topics for each token. With stored counts, `is_best` says whether to keep the better of a cold run and a run
    from them, or to continue from them.
    """

    cdef plan s
    cdef object keep, B

    def __init__(self, tables, const double[::1] alpha, const double[::1] log_gamma, *, int local, Py_ssize_t n_active,
                 Py_ssize_t max_iterations, Py_ssize_t n_restarts, Py_ssize_t restart_iterations, double tol,
                 double tau, bint is_best):
        cdef const double[::1] shift, sums, eta
        cdef const double[:, ::1] word_counts
        cdef const int32_t[:, ::1] first
        self.B, shift, sums, word_counts, eta, first = tables
        self.keep = (tables, np.asarray(alpha), np.asarray(log_gamma))
        cdef plan *s = &self.s
        s.n_topics, s.n_first, s.n_active = alpha.shape[0], first.shape[1], n_active
        s.max_iterations, s.n_restarts, s.restart_iterations = max_iterations, n_restarts, restart_iterations
        s.local, s.tol, s.tau, s.is_best = local, tol, tau, is_best
        s.alpha, s.log_gamma, s.alpha_total = &alpha[0], &log_gamma[0], np.sum(alpha)
        s.expected_sums, s.word_counts, s.eta, s.shift = &sums[0], &word_counts[0, 0], &eta[0], &shift[0]
        s.first = &first[0, 0]

    def width(self, n_types):
        """Return the largest number of topics of a document of `n_types` word types, padded."""
        most = self.s.n_topics if self.s.local == DENSE else min(self.s.n_topics, n_types * self.s.n_first)
        return (most + LANES - 1) // LANES * LANES

    def run(self, documents, rows, Py_ssize_t start, stored, scratch, outputs):
        """Make the local step of documents until the outputs are full.

        `documents` are indptr (D + 1,) int64, indices int32 and counts float64 of a CSR matrix; `rows` (R,) int64 are
        the documents of the local step, from the place `start`. `stored` are counts of these documents, by place in
        `rows`: starts (R + 1,) int64, topics int32, counts float64; or None. Return the first place in `rows` without
        results.
        """
        if self.B.dtype == np.float32:
            return _run[float](&self.s, self.B, documents, rows, start, stored, scratch, outputs, scratch.block)
        return _run[double](&self.s, self.B, documents, rows, start, stored, scratch, outputs, scratch.block)


class Scratch:
    """Working memory of one task of the local step.

    A block has room for `n_types` word types and `width` of `n_topics` topics.
    """

    def __init__(self, n_types, width, n_topics, n_active, dtype):
        padded_topics = n_topics + LANES
        self.block, self.vectors = np.empty(n_types * width, dtype=dtype), np.zeros((2, padded_topics), dtype=dtype)
        self.numbers, self.sums = np.zeros((8, padded_topics)), np.empty(n_types)
        self.topics, self.mark = np.empty(padded_topics, dtype=np.int32), np.zeros(padded_topics, dtype=np.int32)
        self.places, self.support = np.empty(padded_topics, np.int32), np.empty(n_types * n_active, np.int32)


class Outputs:
    """Results of one task of the local step.

    `size` and `bound` belong to the documents, `topics` and `N` to the topics of each document one after the other, and
    `values` are the responsibilities, by document, word and topic.
    """

    def __init__(self, n_docs, n_pairs, n_values, dtype):
        self.size, self.bound = np.empty(n_docs, dtype=np.int32), np.empty(n_docs)
        self.topics, self.N = np.empty(n_pairs, dtype=np.int32), np.empty(n_pairs)
        self.values = np.empty(n_values, dtype=dtype)
        self.counters = np.zeros(3, dtype=np.int64)     # iterations, restarts proposed and accepted
        self.n_docs = self.n_pairs = self.n_values = 0


cdef _run(const plan *s, const real[:, ::1] B, documents, const int64_t[::1] rows, Py_ssize_t start, stored, scratch,
          outputs, real[::1] block):
    cdef const int64_t[::1] indptr, from_start
    cdef const int32_t[::1] indices, from_topics
    cdef const double[::1] counts, from_N
    cdef real[:, ::1] vectors = scratch.vectors
    cdef real[::1] values = outputs.values
    cdef double[:, ::1] numbers = scratch.numbers
    cdef double[::1] sums = scratch.sums, bounds = outputs.bound, N = outputs.N
    cdef int32_t[::1] topics = scratch.topics, mark = scratch.mark, support = scratch.support
    cdef int32_t[::1] places = scratch.places
    cdef int32_t[::1] sizes = outputs.size, out_topics = outputs.topics
    cdef int64_t[::1] counters = outputs.counters
    cdef workspace d
    cdef Py_ssize_t place = start, i, k, n_docs = 0, n_pairs = 0, n_values = 0, most, n
    cdef bint has_stored = stored is not None
    cdef double value = 0.0, rival
    cdef double *w = &numbers[5, 0]
    cdef double *kept_N = &numbers[6, 0]
    cdef real *p = &vectors[0, 0]
    cdef real *out = &vectors[1, 0]
    indptr, indices, counts = documents
    if has_stored:
        from_start, from_topics, from_N = stored
    d.alpha, d.N, d.fresh, d.logs = &numbers[0, 0], &numbers[1, 0], &numbers[2, 0], &numbers[3, 0]
    d.saved, d.sums, d.topics, d.mark = &numbers[4, 0], &sums[0], &topics[0], &mark[0]
    d.top, d.places, d.support, d.has_support = &numbers[7, 0], &places[0], &support[0], False
    d.n_iterations = d.n_accepted = d.n_proposed = 0
    with nogil:
        while place < rows.shape[0] and n_docs < sizes.shape[0]:
            i = rows[place]
            d.n_rows = indptr[i + 1] - indptr[i]
            d.words, d.c = &indices[0] + indptr[i], &counts[0] + indptr[i]
            n = from_start[place + 1] - from_start[place] if has_stored else 0
            most = s.n_topics if s.local == DENSE else min(s.n_topics, d.n_rows * s.n_first)
            most = max(most, n)
            if n_values + d.n_rows * most > values.shape[0] or n_pairs + most > N.shape[0]:
                break
            if d.n_rows == 0:
                sizes[n_docs], bounds[n_docs] = 0, 0.0
                n_docs += 1
                place += 1
                continue
            d.length = 0.0
            for k in range(d.n_rows):
                d.length += d.c[k]
            if n and not s.is_best:
                value = run_stored(s, &d, &B[0, 0], &block[0], p, out, w, n, &from_topics[0] + from_start[place],
                                   &from_N[0] + from_start[place], False)
            else:
                rival = -INFINITY
                if n:
                    rival = run_stored(s, &d, &B[0, 0], &block[0], p, out, w, n, &from_topics[0] + from_start[place],
                                       &from_N[0] + from_start[place], True)
                value = run_cold(s, &d, &B[0, 0], &block[0], p, out, w, kept_N)
                if value < rival:
                    value = run_stored(s, &d, &B[0, 0], &block[0], p, out, w, n, &from_topics[0] + from_start[place],
                                       &from_N[0] + from_start[place], False)
            write_rows(s, &d, &block[0], p, &values[0] + n_values, w)
            for k in range(d.size):
                out_topics[n_pairs + k], N[n_pairs + k] = d.topics[k], d.N[k]
            sizes[n_docs], bounds[n_docs] = <int32_t> d.size, value
            n_docs += 1
            n_pairs += d.size
            n_values += d.n_rows * d.size
            place += 1
        counters[0] += d.n_iterations
        counters[1] += d.n_proposed
        counters[2] += d.n_accepted
    outputs.n_docs, outputs.n_pairs, outputs.n_values = n_docs, n_pairs, n_values
    return place
