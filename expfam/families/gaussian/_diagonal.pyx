"""Compiled components of the diagonal Gaussian.

Cached numbers are stored in blocks of eight clusters, so that one datum is scored against eight clusters together:
1 + w (x - m)^2 is multiplied over eight columns, and one logarithm of the product is computed. Adding, removing and
scoring a datum cost O(d). Columns that are alike in all clusters take no part in these products: see `own_columns`.
"""

from functools import lru_cache

import numpy as np
from scipy.special import gammaln

from cpython.pycapsule cimport PyCapsule_New
from libc.math cimport fabs, isfinite, isnan, lgamma, log

from expfam.contracts cimport EXPFAM_ABI, EXPFAM_NUMERICAL, EXPFAM_OK, EXPFAM_RANGE
from expfam.families.growth cimport GROWTH, growth_line, log_growth_v1
from expfam.families.gaussian.alike cimport alike_columns, alike_density, alike_evidence, set_places
from expfam.families.gaussian.storage cimport (
    RealComponents, exchange_lanes, forget_sizes, gather_pairs, place_of_size, pointer, real_is_slot, real_row,
    real_set_members, real_state, size_terms,
)
from expfam.families.gaussian.student_t cimport growth_part, log1p_square, lowest_line, split_squares
from expfam.structures.ground.arrays cimport aligned
from expfam.structures.simd.elementary cimport expfam_log_rising1
from expfam.structures.simd.gaussian_diagonal cimport expfam_t_joint, expfam_t_scan
from expfam.structures.simd.gaussian_lanes cimport EXPFAM_LANES
from expfam.structures.simd.logs cimport expfam_log, expfam_log_rising

from expfam.families.gaussian._merged_bounds import bounds_of

cdef extern from *:
    """
    #include "gaussian_lanes.h"

    /* Adds a row and its squares, or subtracts them if `sign` is -1; `out` may be S. Instances give the same bits. */
    #define EXPFAM_ADD_SQUARES(NAME, TARGET)                                                                          \
        EXPFAM_UNFUSED TARGET static void NAME(const double *S, const double *x, double sign, ptrdiff_t d,            \
                                               double *out) {                                                         \
            EXPFAM_UNFUSED_BODY                                                                                       \
            EXPFAM_SIMD                                                                                               \
            for (ptrdiff_t f = 0; f < d; f++) {                                                                       \
                out[f] = S[f] + sign * x[f];                                                                          \
                out[d + f] = S[d + f] + sign * x[f] * x[f];                                                           \
            }                                                                                                         \
        }
    EXPFAM_INSTANCES(EXPFAM_ADD_SQUARES, void, expfam_add_squares,
                     (const double *, const double *, double, ptrdiff_t, double *))

    /* Divides positive normal numbers by their powers of two, lane by lane, and adds the exponents to `powers`. A long
     * product then stays in range, at a fraction of the cost of a logarithm. */
    EXPFAM_INLINE void expfam_split_lanes(double *lanes, double *powers, ptrdiff_t width) {
        EXPFAM_SIMD
        for (ptrdiff_t l = 0; l < width; l++) {
            uint64_t bits, exponent;
            double power;
            memcpy(&bits, lanes + l, 8);
            exponent = (bits >> 52) | UINT64_C(0x4330000000000000);     /* 2^52 and the exponent, as a double */
            bits = (bits & UINT64_C(0x000fffffffffffff)) | UINT64_C(0x3ff0000000000000);
            memcpy(&power, &exponent, 8);
            memcpy(lanes + l, &bits, 8);
            powers[l] += power - (4503599627370496.0 + 1023.0);
        }
    }

    /* Computes the sum of the logarithms of the posterior rates for each of the statistics a + rows[l] with n[l] data.
     * Each of the EXPFAM_LANES statistics has a lane, so that its bits do not depend on the others. All columns share
     * one logarithm; powers of two are divided out of the product after every four columns. The result is NaN where a
     * rate lies outside 1e-70 .. 1e70. */
    #define EXPFAM_MERGED_RATES(NAME, TARGET, VECTOR)                                                                 \
        TARGET static void NAME(const double *a, const double *const *all, const double *n, const double *shift,      \
                               const double *strength, const double *rate, const ptrdiff_t *columns, ptrdiff_t own,   \
                               ptrdiff_t d, double *out) {                                                            \
            enum { WIDTH = EXPFAM_WIDTH(VECTOR) };                                                                    \
            for (ptrdiff_t start = 0; start < EXPFAM_LANES; start += WIDTH) {                                         \
                const double *const *rows = all + start;                                                              \
                VECTOR count = *(const VECTOR *)(n + start), total = count * 0.0, product = total + 1.0;              \
                VECTOR inverse = total;                                                                               \
                double split[EXPFAM_LANES], powers[EXPFAM_LANES] = {0};                                               \
                __typeof__(count == count) safe = count == count;                                                     \
                for (ptrdiff_t f = 0; f < own; f++) {                                                                 \
                    VECTOR first = total, second = total, t, r;                                                       \
                    ptrdiff_t column = columns[f];                                                                    \
                    EXPFAM_PICK(first, rows, column);                                                                 \
                    EXPFAM_PICK(second, rows, d + column);                                                            \
                    first += a[column];                                                                               \
                    second += a[d + column];                                                                          \
                    t = first - count * shift[f];                                                                     \
                    if (!f || strength[f] != strength[f - 1]) inverse = 1.0 / (strength[f] + count);                  \
                    r = rate[f] + 0.5 * (second - shift[f] * (first + t) - t * t * inverse);                          \
                    safe &= (r > 1e-70) & (r < 1e70);                                                                 \
                    product *= r;                                                                                     \
                    if (f % 4 == 3 && f < own - 1) {                                                                  \
                        memcpy(split, &product, sizeof product);                                                      \
                        expfam_split_lanes(split, powers, WIDTH);                                                     \
                        memcpy(&product, split, sizeof product);                                                      \
                    }                                                                                                 \
                }                                                                                                     \
                EXPFAM_LOG_LANES(VECTOR, product);                                                                    \
                memcpy(&total, powers, sizeof total);                                                                 \
                total = product + total * 0.69314718055994531;                                                        \
                int64_t good[EXPFAM_LANES] = {0};                                                                     \
                memcpy(good, &safe, sizeof safe);                                                                     \
                memcpy(out + start, &total, sizeof total);                                                            \
                for (ptrdiff_t l = 0; l < WIDTH; l++) if (!good[l]) out[start + l] = NAN;                             \
            }                                                                                                         \
        }
    EXPFAM_LANE_INSTANCES(EXPFAM_MERGED_RATES, void, expfam_merged_rates,
                          (const double *, const double *const *, const double *, const double *, const double *,
                           const double *, const ptrdiff_t *, ptrdiff_t, ptrdiff_t, double *))
    """
    void (*expfam_add_squares)(const double *S, const double *x, double sign, Py_ssize_t d, double *out) noexcept nogil
    void (*expfam_merged_rates)(const double *a, const double *const *rows, const double *n, const double *shift,
                                const double *strength, const double *rate, const Py_ssize_t *columns, Py_ssize_t own,
                                Py_ssize_t d, double *out) noexcept nogil

cdef Py_ssize_t TABLE = 4096        # tables hold the gamma terms of smaller counts
cdef Py_ssize_t FEW = 8             # columns that NumPy adds one after the other if they are fewer

# ---- diagonal ------------------------------------------------------------------------------------------------------

ctypedef struct diagonal_state:
    real_state base
    double *block                   # (slots / 8, 2 + 2 m, 8): constant, half, then location and weight by column
    alike_columns alike             # and the m other columns, which are those of the arrays below
    Py_ssize_t m
    const Py_ssize_t *columns
    const double *shift             # (m,) prior location about the centre
    const double *strength
    const double *shape
    const double *rate
    const double *above             # (m,) shape minus `common`
    double common                   # shape of all columns, or 0 if their shapes differ
    int uniform                     # whether all columns have one shape, so that they can share a logarithm
    double prior_rates              # sum of a0 log b0
    const double *rising            # (table,) sum over columns of lgamma(an + 1/2) - lgamma(an)
    const double *gammas            # (table,) sum over columns of lgamma(an) - lgamma(a0)
    const double *shrinks           # (table,) half the sum over columns of log(strength / (strength + n))
    const double *levels            # (table,) gammas + shrinks
    const double *steps             # (table,) rising + what shrinks adds for one more datum
    Py_ssize_t table
    double *logs                    # (2 m,) scratch of the writing thread
    void *growth                    # (m,) growth_part: scratch too
    int (*merged_each)(void *self, Py_ssize_t k, const Py_ssize_t *ls, Py_ssize_t m,
                       double *out, double *work) noexcept nogil        # one by one, for columns of several shapes


cdef double diagonal_rising(const diagonal_state *s, double n) noexcept nogil:
    cdef Py_ssize_t f, whole = <Py_ssize_t> n if n < s.table else -1
    cdef double z, total = 0.0
    if whole >= 0 and whole == n:
        return s.rising[whole]
    for f in range(min(1, s.m) if s.uniform else s.m):
        z = s.shape[f] + 0.5 * n
        total += expfam_log_rising1(z, 0.5, 16 if z < 16 else 0)
    return total * s.m if s.uniform else total


cdef double diagonal_gammas(const diagonal_state *s, double n) noexcept nogil:
    cdef Py_ssize_t f, whole = <Py_ssize_t> n if n < s.table else -1
    cdef double total = 0.0
    if whole >= 0 and whole == n:
        return s.gammas[whole]
    for f in range(min(1, s.m) if s.uniform else s.m):
        total += lgamma(s.shape[f] + 0.5 * n) - lgamma(s.shape[f])
    return total * s.m if s.uniform else total


cdef inline double diagonal_rate(const diagonal_state *s, Py_ssize_t f, double n, const double *S,
                                 double *about) noexcept nogil:
    """Return the rate of own column f; set `about` to the sum about the prior location."""
    cdef double first = S[s.columns[f]], t = first - n * s.shift[f]
    about[0] = t
    return s.rate[f] + 0.5 * (S[s.base.d + s.columns[f]] - s.shift[f] * (first + t) - t * t / (s.strength[f] + n))


cdef inline double own_columns(const diagonal_state *s, double *x) noexcept nogil:
    """Move own columns to the front of a centred row; return the log density of the others."""
    cdef Py_ssize_t f
    cdef double given
    if not s.alike.size:
        return 0.0
    given = alike_density(&s.alike, x)
    for f in range(s.m):
        x[f] = x[s.columns[f]]
    return given


cdef double diagonal_score(const diagonal_state *s, const double *x, Py_ssize_t k) noexcept nogil:
    """Return the log predictive under one cluster, with one logarithm for each column.

    It is for outliers, and for columns with different shapes.
    """
    cdef const double *row = s.block + (k // EXPFAM_LANES) * (2 + 2 * s.m) * EXPFAM_LANES + k % EXPFAM_LANES
    cdef double total = row[0], half = row[EXPFAM_LANES]
    cdef Py_ssize_t f
    for f in range(s.m):
        row += 2 * EXPFAM_LANES
        total -= (half + s.above[f]) * log1p_square(row[EXPFAM_LANES], x[f] - row[0])
    return total


cdef double diagonal_product(const diagonal_state *s, const double *x, Py_ssize_t k) noexcept nogil:
    """Return the log predictive under one cluster, with one logarithm for eight columns.

    The result is not finite if a product overflows.
    """
    cdef const double *row = s.block + (k // EXPFAM_LANES) * (2 + 2 * s.m) * EXPFAM_LANES + k % EXPFAM_LANES
    cdef double half = row[EXPFAM_LANES], constant = row[0], product = 1.0, total = 0.0, t
    cdef Py_ssize_t f
    for f in range(s.m):
        row += 2 * EXPFAM_LANES
        t = x[f] - row[0]
        product *= 1.0 + row[EXPFAM_LANES] * t * t
        if f % 8 == 7:
            total += log(product)
            product = 1.0
    return constant - half * (total + log(product))


cdef int diagonal_log_predictive(void *self, Py_ssize_t i, const Py_ssize_t *ks, Py_ssize_t m,
                                 double *out, double *work) noexcept nogil:
    cdef diagonal_state *s = <diagonal_state *> self
    cdef Py_ssize_t j, k
    cdef double given
    real_row(&s.base, i, work)
    given = own_columns(s, work)
    if ks == NULL:
        if m > s.base.capacity:
            return EXPFAM_RANGE
        if not s.uniform or expfam_t_scan(work, s.block, s.m, m, out):
            for k in range(m):
                out[k] = diagonal_score(s, work, k)
        if given != 0.0:
            for k in range(m):
                out[k] += given
        return EXPFAM_OK
    for j in range(m):
        k = ks[j]
        if not real_is_slot(&s.base, k):
            return EXPFAM_RANGE
        out[j] = diagonal_product(s, work, k) if s.uniform else diagonal_score(s, work, k)
        if not isfinite(out[j]):
            out[j] = diagonal_score(s, work, k)
        out[j] += given
    return EXPFAM_OK


cdef int diagonal_log_predictive_self(void *self, Py_ssize_t i, Py_ssize_t k, double *out,
                                      double *work) noexcept nogil:
    """Compute the log predictive of a member from the statistics without it.

    No digits are lost except those that S has lost.
    """
    cdef diagonal_state *s = <diagonal_state *> self
    cdef Py_ssize_t f, d = s.base.d, m = s.m
    cdef double *x = work
    cdef double *S = work + d
    cdef double *logs = work + 3 * d
    cdef double *scratch = work + 5 * d
    cdef double n, strength, rate, about, weight, total, t
    if not real_is_slot(&s.base, k) or s.base.n[k] < 1.0:
        return EXPFAM_RANGE
    real_row(&s.base, i, x)
    n = s.base.n[k] - 1.0
    for f in range(d):
        S[f] = s.base.S[k * s.base.F + f] - x[f] if n else 0.0
        S[d + f] = s.base.S[k * s.base.F + d + f] - x[f] * x[f] if n else 0.0
    total = own_columns(s, x)
    for f in range(m):
        strength = s.strength[f] + n
        rate = diagonal_rate(s, f, n, S, &about)
        if not (1e-300 < rate < 1e300):
            return EXPFAM_NUMERICAL
        weight = 0.5 * strength / ((strength + 1.0) * rate)
        t = x[f] - s.shift[f] - about / strength
        logs[f] = 2.0 * weight
        logs[m + f] = 1.0 + weight * t * t
        if not (logs[m + f] < 1e300):
            logs[m + f] = 1.0
            total -= (s.shape[f] + 0.5 * (n + 1.0)) * log1p_square(weight, t)
    expfam_log(logs, scratch, 2 * m)
    for f in range(m):
        total += 0.5 * scratch[f] - (s.shape[f] + 0.5 * (n + 1.0)) * scratch[m + f]
    out[0] = total + diagonal_rising(s, n)
    return EXPFAM_OK


cdef void diagonal_shifted(void *self, Py_ssize_t i, double sign, const double *S, double *out,
                           double *x) noexcept nogil:
    cdef diagonal_state *s = <diagonal_state *> self
    real_row(&s.base, i, x)
    expfam_add_squares(S, x, sign, s.base.d, out)


cdef int diagonal_commit(void *self, Py_ssize_t k, double n, const double *S) noexcept nogil:
    cdef diagonal_state *s = <diagonal_state *> self
    cdef Py_ssize_t f, m = s.m
    cdef double *row = s.block + (k // EXPFAM_LANES) * (2 + 2 * m) * EXPFAM_LANES + k % EXPFAM_LANES
    cdef double *own = s.base.S + k * s.base.F
    cdef double strength, rate, about, constant = 0.0
    for f in range(m):
        rate = diagonal_rate(s, f, n, S, &about)
        if not (1e-300 < rate < 1e300 and isfinite(about)):
            return EXPFAM_NUMERICAL
        strength = s.strength[f] + n
        s.logs[f] = strength / ((strength + 1.0) * rate)
    expfam_log(s.logs, s.logs + m, m)
    for f in range(m):
        diagonal_rate(s, f, n, S, &about)
        constant += s.logs[m + f]
        row[(2 + 2 * f) * EXPFAM_LANES] = s.shift[f] + about / (s.strength[f] + n)
        row[(3 + 2 * f) * EXPFAM_LANES] = 0.5 * s.logs[f]
    row[0] = 0.5 * constant + diagonal_rising(s, n)
    row[EXPFAM_LANES] = s.common + 0.5 * (n + 1.0)
    s.base.n[k] = n
    if own != S:
        for f in range(s.base.F):
            own[f] = S[f]
    return EXPFAM_OK


cdef int diagonal_evidence(void *self, double n, const double *S, double *out, double *work) noexcept nogil:
    cdef diagonal_state *s = <diagonal_state *> self
    cdef Py_ssize_t f, m = s.m
    cdef double about, total = diagonal_gammas(s, n) + s.prior_rates
    for f in range(m):
        work[f] = diagonal_rate(s, f, n, S, &about)
        work[m + f] = s.strength[f] / (s.strength[f] + n)
        if not (1e-300 < work[f] < 1e300):
            return EXPFAM_NUMERICAL
    expfam_log(work, work + 2 * m, 2 * m)
    for f in range(m):
        total += 0.5 * work[3 * m + f] - (s.shape[f] + 0.5 * n) * work[2 * m + f]
    out[0] = total + alike_evidence(&s.alike, n, S, s.base.d)
    return EXPFAM_OK


cdef double diagonal_shrink(const diagonal_state *s, double n) noexcept nogil:
    cdef Py_ssize_t f, whole = <Py_ssize_t> n if n < s.table else -1
    cdef double total = 0.0
    if whole >= 0 and whole == n:
        return s.shrinks[whole]
    for f in range(s.m):
        total += log(s.strength[f] / (s.strength[f] + n))
    return 0.5 * total


cdef int diagonal_log_merged(void *self, Py_ssize_t k, const Py_ssize_t *ls, Py_ssize_t m,
                             double *out, double *work) noexcept nogil:
    """Compute the log evidences of pairs, eight pairs together, each in a lane of its own.

    The bits of a result depend neither on which cluster of the pair is k, nor on the other pairs of the call.
    """
    cdef diagonal_state *s = <diagonal_state *> self
    cdef Py_ssize_t start = 0, i, other, size, place
    cdef const double *rows[EXPFAM_LANES]
    cdef double n[EXPFAM_LANES]
    cdef double rates[EXPFAM_LANES]
    cdef size_terms terms
    cdef double given
    cdef int code
    if not s.uniform:
        return s.merged_each(self, k, ls, m, out, work)
    if not real_is_slot(&s.base, k):
        return EXPFAM_RANGE
    given = alike_evidence(&s.alike, s.base.n[k], s.base.S + k * s.base.F, s.base.d)
    forget_sizes(&terms)
    while start < m:
        size = gather_pairs(&s.base, k, ls, start, m, rows, n)
        if size < 0:
            return <int> size
        expfam_merged_rates(s.base.S + k * s.base.F, rows, n, s.shift, s.strength, s.rate, s.columns, s.m,
                            s.base.d, rates)
        for i in range(size):
            if isnan(rates[i]):
                other = start + i if ls == NULL else ls[start + i]
                code = s.merged_each(self, k, &other, 1, out + start + i, work)
                if code:
                    return code
                continue
            place = place_of_size(n[i])
            if terms.n[place] != n[i]:
                terms.n[place] = n[i]
                terms.term[place] = diagonal_gammas(s, n[i]) + s.prior_rates + diagonal_shrink(s, n[i])
            out[start + i] = terms.term[place] - (s.common + 0.5 * n[i]) * rates[i]
            if s.alike.size:
                other = start + i if ls == NULL else ls[start + i]
                out[start + i] += given + alike_evidence(&s.alike, s.base.n[other], rows[i], s.base.d)
        start += EXPFAM_LANES
    return EXPFAM_OK


# ---- diagonal: joint predictive of several data --------------------------------------------------------------------

cdef void joint_levels_beyond(const diagonal_state *s, const double *n, double n_new, const double *constant,
                              double *out) noexcept nogil:
    """Compute `joint_levels` for sizes that the tables do not hold, by vector functions."""
    cdef double grown[EXPFAM_LANES]
    cdef double rising[EXPFAM_LANES]
    cdef double ratios[2 * EXPFAM_LANES]
    cdef double least = n[0], held
    cdef Py_ssize_t lane, f, stop, d = s.m
    for lane in range(EXPFAM_LANES):
        least = min(least, n[lane])
        ratios[lane] = s.common + 0.5 * n[lane]
    expfam_log_rising(ratios, 0.5 * n_new, s.common + 0.5 * least < 16.0, grown, EXPFAM_LANES)
    expfam_log_rising(ratios, 0.5, s.common + 0.5 * least < 16.0, rising, EXPFAM_LANES)
    for lane in range(EXPFAM_LANES):
        # the constant has the tabled term where there is one: the difference of the two would be multiplied by n_new
        held = diagonal_rising(s, n[lane]) if n[lane] < s.table else d * rising[lane]
        out[lane] = d * grown[lane] + n_new * (constant[lane] - held)
    f = 0
    while f < d:
        stop = f + 1
        while stop < d and s.strength[stop] == s.strength[f]:
            stop += 1
        for lane in range(EXPFAM_LANES):
            held = s.strength[f] + n[lane]
            ratios[lane], ratios[EXPFAM_LANES + lane] = held / (held + n_new), held / (held + 1.0)
        expfam_log(ratios, ratios, 2 * EXPFAM_LANES)
        for lane in range(EXPFAM_LANES):
            out[lane] += 0.5 * (stop - f) * (ratios[lane] - n_new * ratios[EXPFAM_LANES + lane])
        f = stop


cdef void joint_levels(const diagonal_state *s, const double *n, double n_new, const double *constant,
                       double *out) noexcept nogil:
    """Compute the terms of a joint predictive that depend on the clusters of one block alone.

    n, `constant` and `out` have a number for each lane: data of the cluster, its constant, the result.
    """
    cdef Py_ssize_t lane, size, more = <Py_ssize_t> n_new
    for lane in range(EXPFAM_LANES):
        if not n[lane] + n_new + 1.0 < s.table or n[lane] != <Py_ssize_t> n[lane] or n_new != more:
            joint_levels_beyond(s, n, n_new, constant, out)
            return
    for lane in range(EXPFAM_LANES):
        size = <Py_ssize_t> n[lane]
        out[lane] = s.levels[size + more] - s.levels[size] + n_new * (constant[lane] - s.steps[size])


cdef int joint_each(diagonal_state *s, Py_ssize_t k, const Py_ssize_t *ls, Py_ssize_t start, Py_ssize_t stop,
                    double *out, double *work) noexcept nogil:
    """Compute joint predictives as differences of log evidences."""
    cdef Py_ssize_t j, other
    cdef double alone
    cdef int code
    for j in range(start, stop):
        other = j if ls == NULL else ls[j]
        code = diagonal_log_merged(s, k, &other, 1, out + j, work)
        if not code and s.base.n[other] != 0:
            code = diagonal_evidence(s, s.base.n[other], s.base.S + other * s.base.F, &alone, work)
            out[j] -= alone
        if code:
            return code
    return EXPFAM_OK


cdef int diagonal_log_joint_predictive(void *self, Py_ssize_t k, const Py_ssize_t *ls, Py_ssize_t m,
                                       double *out, double *work) noexcept nogil:
    cdef diagonal_state *s = <diagonal_state *> self
    cdef const double *S = s.base.S + k * s.base.F
    cdef const double *block = s.block
    cdef double *mean = work
    cdef double *spread = work + s.base.d
    cdef double levels[EXPFAM_LANES]
    cdef double n, given
    cdef Py_ssize_t f, c, i, start = 0, count, d = s.m
    cdef int code
    if not real_is_slot(&s.base, k) or m > s.base.capacity:
        return EXPFAM_RANGE
    n = s.base.n[k]
    if ls != NULL or not s.uniform or n == 0.0:
        return joint_each(s, k, ls, 0, m, out, work)
    given = alike_evidence(&s.alike, n, S, s.base.d)
    while start < m:
        for f in range(d):
            c = s.columns[f]
            mean[f] = S[c] / n
            spread[f] = max(0.0, 0.5 * (S[s.base.d + c] - S[c] * mean[f]))
        while start < m:
            count = min(<Py_ssize_t> EXPFAM_LANES, m - start)
            joint_levels(s, s.base.n + start, n, block, levels)
            if expfam_t_joint(mean, spread, n, s.strength, block, s.base.n + start, levels, d, count, out + start):
                break
            for i in range(start, start + count):
                out[i] += given
            start += EXPFAM_LANES
            block += (2 + 2 * d) * EXPFAM_LANES
        if start < m:               # a product left the range of doubles; the scratch is overwritten
            code = joint_each(s, k, NULL, start, start + count, out, work)
            if code:
                return code
            start += EXPFAM_LANES
            block += (2 + 2 * d) * EXPFAM_LANES
    return EXPFAM_OK


# ---- diagonal: bound on how much a merge of two clusters raises the density of any datum ---------------------------

cdef void compute_column(const diagonal_state *s, Py_ssize_t k, Py_ssize_t l, Py_ssize_t f, growth_part *c,
                         double *top, double *later_top, double *rounding) noexcept nogil:
    """Compute the growth of one column; add its terms to log densities and rounding bound.

    `top` and `later_top` are the log densities at the locations before and after the merge, without gamma terms.
    """
    cdef Py_ssize_t d = s.base.d, column = s.columns[f]
    cdef const double *own = s.base.S + k * s.base.F
    cdef const double *both = s.base.fresh
    cdef double n = s.base.n[k], total = n + s.base.n[l], about = 0.0, later_about = 0.0, size
    cdef double rate = diagonal_rate(s, f, n, own, &about), later_rate = diagonal_rate(s, f, total, both, &later_about)
    cdef double strength = s.strength[f] + n, later = s.strength[f] + total
    c.weight = 0.5 * strength / ((strength + 1.0) * rate)
    c.more = 0.5 * later / ((later + 1.0) * later_rate)
    c.half = s.shape[f] + 0.5 * n + 0.5
    c.further = s.shape[f] + 0.5 * total + 0.5
    c.shift = later_about / later - about / strength
    split_squares(c)
    top[0] += 0.5 * log(2.0 * c.weight)
    later_top[0] += 0.5 * log(2.0 * c.more)
    # bound of the squares that cancel in a rate; the squares of one more datum do not exceed these and the rate itself
    size = 4.0 * fabs(s.shift[f]) * (fabs(own[column]) + fabs(both[column]) + fabs(about) + fabs(later_about))
    size += own[d + column] + both[d + column]
    size += 8.0 * (about * about / strength + later_about * later_about / later + s.shift[f] * s.shift[f])
    rounding[0] += c.further * (512.0 + fabs(log(rate)) + fabs(log(later_rate)) + size / min(rate, later_rate))


cdef int diagonal_line(void *self, Py_ssize_t k, Py_ssize_t l, double depth, growth_line *out) noexcept nogil:
    """Compute the lines of several slopes and write the line that is lowest at `depth`."""
    cdef diagonal_state *s = <diagonal_state *> self
    cdef growth_part *columns = <growth_part *> s.growth
    cdef double top = s.alike.level, later_top = s.alike.level, rounding = 0.0, lowest, ratio
    cdef Py_ssize_t f
    if not real_is_slot(&s.base, k) or not real_is_slot(&s.base, l) or s.base.n[k] < 1.0:
        return EXPFAM_RANGE
    for f in range(s.base.F):
        s.base.fresh[f] = s.base.S[k * s.base.F + f] + s.base.S[l * s.base.F + f]
    for f in range(s.m):
        compute_column(s, k, l, f, columns + f, &top, &later_top, &rounding)
    top += diagonal_rising(s, s.base.n[k])
    later_top += diagonal_rising(s, s.base.n[k] + s.base.n[l])
    rounding += fabs(diagonal_gammas(s, s.base.n[k] + s.base.n[l])) + fabs(s.prior_rates)
    ratio = s.base.n[l] / (s.base.n[k] + s.base.n[l])
    lowest = lowest_line(columns, s.m, top, later_top, rounding, ratio, depth, out)
    return EXPFAM_OK if isfinite(lowest) and isfinite(out.level) else EXPFAM_NUMERICAL


cdef void diagonal_exchange(void *self, Py_ssize_t k, Py_ssize_t l) noexcept nogil:
    cdef diagonal_state *s = <diagonal_state *> self
    exchange_lanes(s.block, 2 + 2 * s.m, k, l)


cdef class DiagonalComponents(RealComponents):
    """Statistics of the clusters of a `DiagonalGaussian`; see `RealComponents`."""

    cdef diagonal_state mine
    cdef object block, logs, tables, columns, places
    cdef log_growth_v1 lines
    cdef readonly object growth     # capsule of `lines`

    def __init__(self, family, data, Py_ssize_t capacity):
        self.family, self.data = family, data
        self.prepare(&self.mine.base)
        self.mine.base.shifted = diagonal_shifted
        self.mine.base.commit = diagonal_commit
        self.mine.base.evidence = diagonal_evidence
        self.mine.base.exchange = diagonal_exchange
        self.offer_sums()
        self.mine.merged_each = self.api.log_merged
        self.api.log_merged = diagonal_log_merged
        self.api.set_members = real_set_members
        self.api.log_joint_predictive = diagonal_log_joint_predictive
        self.api.log_predictive = diagonal_log_predictive
        self.api.log_predictive_self = diagonal_log_predictive_self
        self.api.work_size = 8 * self.mine.base.d
        self.logs = np.empty(2 * self.mine.base.d)
        self.mine.logs = pointer(self.logs)
        self.columns = np.empty(self.mine.base.d * (sizeof(growth_part) // sizeof(double)))
        self.mine.growth = pointer(self.columns)
        self.lines.abi_version, self.lines.struct_size = EXPFAM_ABI, sizeof(log_growth_v1)
        self.lines.self, self.lines.line = &self.mine, diagonal_line
        self.growth = PyCapsule_New(&self.lines, GROWTH, NULL)
        self.set_prior()
        self.resize(capacity)
        self.rebuild_caches()

    cdef int resize(self, Py_ssize_t capacity) except -1:
        cdef Py_ssize_t slots = RealComponents.resize(self, capacity)
        self.block = aligned(slots * (2 + 2 * self.mine.base.d))
        self.mine.block = pointer(self.block)
        return slots

    def set_prior(self):
        """Copy the family's hyper-parameters and compute tables of gamma terms by count."""
        cdef diagonal_state *s = &self.mine
        family = self.family
        self.places = own, alike, precision = family.columns_apart()
        prior = [np.ascontiguousarray(values[own] if alike.size else values) for values in family._prior()]
        shift, strength, shape, rate = prior
        s.m = own.size
        s.uniform = all_equal(shape)
        s.common = shape[0] if s.uniform and s.m else 0.0
        s.table = min(TABLE, self.data.n_rows + 2, 1 << 20 if s.uniform else 2 + 400_000 // s.m)
        above = shape - s.common
        self.tables = [*prior, above, *self.gamma_tables(shape), *self.shrink_tables(strength)]
        rising, gammas, shrinks, levels, steps = self.tables[5:]
        s.shift, s.strength, s.shape, s.rate = pointer(shift), pointer(strength), pointer(shape), pointer(rate)
        s.above, s.rising, s.gammas, s.shrinks = pointer(above), pointer(rising), pointer(gammas), pointer(shrinks)
        s.levels, s.steps = pointer(levels), pointer(steps)
        add_tables(rising, gammas, shrinks, levels, steps)
        if s.uniform:
            above[:] = 0.0
        s.prior_rates = float((shape * np.log(rate)).sum())
        set_places(&s.columns, &s.alike, own, alike, precision)

    def merged_bounds(self, *, n_data, n_positions):
        """Return bounds of the evidence of pairs, or None; they read these very statistics.

        Parameters
        ----------
        n_data : int
            Of all clusters together.
        n_positions : int
            To which clusters may be written.
        """
        if type(self) is not DiagonalComponents or self.mine.alike.size or self.mine.base.F != 2 * self.mine.m:
            return None
        S = self.S.reshape(-1, self.mine.base.F)
        sizes = {"n_data": n_data, "n_positions": n_positions}
        return bounds_of(self.n[: self.capacity], S[: self.capacity], self.tables[:4], **sizes)

    def gamma_tables(self, shape):
        """Return the tables `rising` and `gammas`, which all priors of the same shapes share."""
        return _gamma_tables(self.mine.table, shape.tobytes(), bool(self.mine.uniform))

    def shrink_tables(self, strength):
        """Return the table `shrinks`, and memory for `levels` and `steps`.

        Columns of one strength share their logarithms.
        """
        cdef Py_ssize_t size = self.mine.table, i, _, d = strength.size
        cdef bint is_one = all_equal(strength)
        tables = [np.zeros(size), np.empty(size), np.empty(size)]
        if not d:
            return tables
        if d >= FEW or not is_one:
            each = np.log1p(_counts(size)[:, None] / (strength[:1] if is_one else strength))
            tables[0] = -0.5 * (np.repeat(each, d, axis=1) if is_one else each).sum(axis=1)
            return tables
        cdef double[::1] shrinks = tables[0]
        cdef const double[::1] logs = np.log1p(_counts(size) / strength[0])
        for i in range(size):
            for _ in range(d):
                shrinks[i] += logs[i]
            shrinks[i] *= -0.5
        return tables


cdef int add_tables(const double[::1] rising, const double[::1] gammas, const double[::1] shrinks, double[::1] levels,
                    double[::1] steps) except -1:
    """Fill the tables that are sums of others."""
    cdef Py_ssize_t i, size = rising.shape[0]
    for i in range(size):
        levels[i] = gammas[i] + shrinks[i]
        steps[i] = rising[i] + (shrinks[i + 1] - shrinks[i] if i + 1 < size else 0.0)
    return 0


cdef bint all_equal(const double[::1] values) noexcept:
    """Tell whether all values are the first one."""
    cdef Py_ssize_t i
    for i in range(values.shape[0]):
        if values[i] != values[0]:
            return False
    return True


@lru_cache(maxsize=16)
def _counts(size):
    counts = np.arange(size)
    counts.setflags(write=False)
    return counts


@lru_cache(maxsize=16)      # the components of few rows are made often, and these tables take longest
def _gamma_tables(size, shapes, is_uniform):
    shape = np.frombuffer(shapes)
    if not shape.size:
        tables = [np.zeros(size), np.zeros(size)]
    else:
        columns, times = (shape[:1], shape.size) if is_uniform else (shape, 1)
        at = columns + 0.5 * np.arange(size)[:, None]
        rising, gammas = gammaln(at + 0.5) - gammaln(at), gammaln(at) - gammaln(columns)
        tables = [rising.sum(axis=1) * times, gammas.sum(axis=1) * times]
    for table in tables:
        table.setflags(write=False)
    return tables
