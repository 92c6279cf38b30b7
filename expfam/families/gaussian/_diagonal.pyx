"""Compiled components of the diagonal and the spherical Gaussian.

Cached numbers are stored in blocks of eight clusters, so that one datum is scored against eight clusters together. The
diagonal family multiplies 1 + w (x - m)^2 over eight columns and computes one logarithm of the product; the spherical
family sums squares. Sparse data of the spherical family are scored by inner products with S over their nonzeros; |S|^2
is kept in two doubles. Adding, removing and scoring a datum cost O(d), or O(nonzeros).
"""

import numpy as np
from scipy.special import gammaln

from cpython.pycapsule cimport PyCapsule_New
from libc.math cimport INFINITY, fabs, fma, isfinite, isnan, lgamma, log, log1p, sqrt
from libc.stdint cimport int32_t, int64_t

from expfam.contracts cimport EXPFAM_ABI, EXPFAM_NUMERICAL, EXPFAM_OK, EXPFAM_RANGE
from expfam.families.growth cimport GROWTH, growth_line, log_growth_v1
from expfam.families.gaussian.storage cimport (
    RealComponents, aligned, forget_sizes, gather_pairs, place_of_size, pointer, real_clear, real_is_slot, real_row,
    real_state, size_terms,
)
from expfam.structures.simd.elementary cimport expfam_log_rising1
from expfam.structures.simd.gaussian_diagonal cimport expfam_sphere_scan, expfam_t_scan
from expfam.structures.simd.gaussian_lanes cimport EXPFAM_LANES
from expfam.structures.simd.logs cimport expfam_log
from expfam.structures.simd.vectors cimport expfam_add_row

cdef extern from *:
    """
    #include "gaussian_lanes.h"

    #if EXPFAM_LANES == 1
    #define EXPFAM_PICK(to, rows, f) (to) = (rows)[0][f]
    #else
    #define EXPFAM_PICK(to, rows, f) for (ptrdiff_t l = 0; l < WIDTH; l++) (to)[l] = (rows)[l][f]
    #endif

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
                               const double *strength, const double *rate, ptrdiff_t d, double *out) {                \
            enum { WIDTH = EXPFAM_WIDTH(VECTOR) };                                                                    \
            for (ptrdiff_t start = 0; start < EXPFAM_LANES; start += WIDTH) {                                         \
                const double *const *rows = all + start;                                                              \
                VECTOR count = *(const VECTOR *)(n + start), total = count * 0.0, product = total + 1.0;              \
                VECTOR inverse = total;                                                                               \
                double split[EXPFAM_LANES], powers[EXPFAM_LANES] = {0};                                               \
                __typeof__(count == count) safe = count == count;                                                     \
                for (ptrdiff_t f = 0; f < d; f++) {                                                                   \
                    VECTOR first = total, second = total, t, r;                                                       \
                    EXPFAM_PICK(first, rows, f);                                                                      \
                    EXPFAM_PICK(second, rows, d + f);                                                                 \
                    first += a[f];                                                                                    \
                    second += a[d + f];                                                                               \
                    t = first - count * shift[f];                                                                     \
                    if (!f || strength[f] != strength[f - 1]) inverse = 1.0 / (strength[f] + count);                  \
                    r = rate[f] + 0.5 * (second - shift[f] * (first + t) - t * t * inverse);                          \
                    safe &= (r > 1e-70) & (r < 1e70);                                                                 \
                    product *= r;                                                                                     \
                    if (f % 4 == 3 && f < d - 1) {                                                                    \
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
                           const double *, ptrdiff_t, double *))
    """
    void (*expfam_merged_rates)(const double *a, const double *const *rows, const double *n, const double *shift,
                                const double *strength, const double *rate, Py_ssize_t d, double *out) noexcept nogil

cdef Py_ssize_t TABLE = 4096        # tables hold the gamma terms of smaller counts
cdef double EPSILON = 2.0 ** -52
cdef enum:
    N_SLOPES = 6                    # number of slopes that diagonal_line compares
cdef double LARGEST_SUM = 1e150     # of the spherical family: the evidence needs squares of sums

# ---- diagonal ------------------------------------------------------------------------------------------------------

ctypedef struct diagonal_state:
    real_state base
    double *block                   # (slots / 8, 2 + 2 d, 8): constant, half, then location and weight by column
    const double *shift             # (d,) prior location about the centre
    const double *strength
    const double *shape
    const double *rate
    const double *above             # (d,) shape minus `common`
    double common                   # shape of all columns, or 0 if their shapes differ
    int uniform                     # whether all columns have one shape, so that they can share a logarithm
    double prior_rates              # sum of a0 log b0
    const double *rising            # (table,) sum over columns of lgamma(an + 1/2) - lgamma(an)
    const double *gammas            # (table,) sum over columns of lgamma(an) - lgamma(a0)
    const double *shrinks           # (table,) half the sum over columns of log(strength / (strength + n))
    Py_ssize_t table
    double *logs                    # (2 d,) scratch of the writing thread
    void *growth                    # (d,) column_growth: scratch too
    int (*merged_each)(void *self, Py_ssize_t k, const Py_ssize_t *ls, Py_ssize_t m,
                       double *out, double *work) noexcept nogil        # one by one, for columns of several shapes


cdef double diagonal_rising(const diagonal_state *s, double n) noexcept nogil:
    cdef Py_ssize_t f, whole = <Py_ssize_t> n if n < s.table else -1
    cdef double z, total = 0.0
    if whole >= 0 and whole == n:
        return s.rising[whole]
    for f in range(1 if s.uniform else s.base.d):
        z = s.shape[f] + 0.5 * n
        total += expfam_log_rising1(z, 0.5, 16 if z < 16 else 0)
    return total * s.base.d if s.uniform else total


cdef double diagonal_gammas(const diagonal_state *s, double n) noexcept nogil:
    cdef Py_ssize_t f, whole = <Py_ssize_t> n if n < s.table else -1
    cdef double total = 0.0
    if whole >= 0 and whole == n:
        return s.gammas[whole]
    for f in range(1 if s.uniform else s.base.d):
        total += lgamma(s.shape[f] + 0.5 * n) - lgamma(s.shape[f])
    return total * s.base.d if s.uniform else total


cdef inline double diagonal_rate(const diagonal_state *s, Py_ssize_t f, double n, const double *S,
                                 double *about) noexcept nogil:
    """Return the posterior rate of a column; set `about` to the sum about the prior location."""
    cdef double t = S[f] - n * s.shift[f]
    about[0] = t
    return s.rate[f] + 0.5 * (S[s.base.d + f] - s.shift[f] * (S[f] + t) - t * t / (s.strength[f] + n))


cdef double log1p_square(double weight, double t) noexcept nogil:
    """Return log(1 + weight t^2), also if t^2 would overflow."""
    cdef double u = sqrt(weight) * fabs(t)
    return 2.0 * log(u) if u > 1e100 else log1p(u * u)


cdef double diagonal_score(const diagonal_state *s, const double *x, Py_ssize_t k) noexcept nogil:
    """Return the log predictive under one cluster, with one logarithm for each column.

    It is for outliers, and for columns with different shapes.
    """
    cdef const double *row = s.block + (k // EXPFAM_LANES) * (2 + 2 * s.base.d) * EXPFAM_LANES + k % EXPFAM_LANES
    cdef double total = row[0], half = row[EXPFAM_LANES]
    cdef Py_ssize_t f
    for f in range(s.base.d):
        row += 2 * EXPFAM_LANES
        total -= (half + s.above[f]) * log1p_square(row[EXPFAM_LANES], x[f] - row[0])
    return total


cdef double diagonal_product(const diagonal_state *s, const double *x, Py_ssize_t k) noexcept nogil:
    """Return the log predictive under one cluster, with one logarithm for eight columns.

    The result is not finite if a product overflows.
    """
    cdef const double *row = s.block + (k // EXPFAM_LANES) * (2 + 2 * s.base.d) * EXPFAM_LANES + k % EXPFAM_LANES
    cdef double half = row[EXPFAM_LANES], constant = row[0], product = 1.0, total = 0.0, t
    cdef Py_ssize_t f
    for f in range(s.base.d):
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
    real_row(&s.base, i, work)
    if ks == NULL:
        if m > s.base.capacity:
            return EXPFAM_RANGE
        if s.uniform and not expfam_t_scan(work, s.block, s.base.d, m, out):
            return EXPFAM_OK
        for k in range(m):
            out[k] = diagonal_score(s, work, k)
        return EXPFAM_OK
    for j in range(m):
        k = ks[j]
        if not real_is_slot(&s.base, k):
            return EXPFAM_RANGE
        out[j] = diagonal_product(s, work, k) if s.uniform else diagonal_score(s, work, k)
        if not isfinite(out[j]):
            out[j] = diagonal_score(s, work, k)
    return EXPFAM_OK


cdef int diagonal_log_predictive_self(void *self, Py_ssize_t i, Py_ssize_t k, double *out,
                                      double *work) noexcept nogil:
    """Compute the log predictive of a member from the statistics without it.

    No digits are lost except those that S has lost.
    """
    cdef diagonal_state *s = <diagonal_state *> self
    cdef Py_ssize_t f, d = s.base.d
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
    total = 0.0
    for f in range(d):
        strength = s.strength[f] + n
        rate = diagonal_rate(s, f, n, S, &about)
        if not (1e-300 < rate < 1e300):
            return EXPFAM_NUMERICAL
        weight = 0.5 * strength / ((strength + 1.0) * rate)
        t = x[f] - s.shift[f] - about / strength
        logs[f] = 2.0 * weight
        logs[d + f] = 1.0 + weight * t * t
        if not (logs[d + f] < 1e300):
            logs[d + f] = 1.0
            total -= (s.shape[f] + 0.5 * (n + 1.0)) * log1p_square(weight, t)
    expfam_log(logs, scratch, 2 * d)
    for f in range(d):
        total += 0.5 * scratch[f] - (s.shape[f] + 0.5 * (n + 1.0)) * scratch[d + f]
    out[0] = total + diagonal_rising(s, n)
    return EXPFAM_OK


cdef void diagonal_shifted(void *self, Py_ssize_t i, double sign, const double *S, double *out) noexcept nogil:
    cdef diagonal_state *s = <diagonal_state *> self
    cdef Py_ssize_t f, d = s.base.d
    cdef double *x = s.base.fresh + s.base.F
    real_row(&s.base, i, x)
    for f in range(d):
        out[f] = S[f] + sign * x[f]
        out[d + f] = S[d + f] + sign * x[f] * x[f]


cdef int diagonal_commit(void *self, Py_ssize_t k, double n, const double *S) noexcept nogil:
    cdef diagonal_state *s = <diagonal_state *> self
    cdef Py_ssize_t f, d = s.base.d
    cdef double *row = s.block + (k // EXPFAM_LANES) * (2 + 2 * d) * EXPFAM_LANES + k % EXPFAM_LANES
    cdef double *own = s.base.S + k * s.base.F
    cdef double strength, rate, about, constant = 0.0
    for f in range(d):
        rate = diagonal_rate(s, f, n, S, &about)
        if not (1e-300 < rate < 1e300 and isfinite(about)):
            return EXPFAM_NUMERICAL
        strength = s.strength[f] + n
        s.logs[f] = strength / ((strength + 1.0) * rate)
    expfam_log(s.logs, s.logs + d, d)
    for f in range(d):
        diagonal_rate(s, f, n, S, &about)
        constant += s.logs[d + f]
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
    cdef Py_ssize_t f, d = s.base.d
    cdef double about, total = diagonal_gammas(s, n) + s.prior_rates
    for f in range(d):
        work[f] = diagonal_rate(s, f, n, S, &about)
        work[d + f] = s.strength[f] / (s.strength[f] + n)
        if not (1e-300 < work[f] < 1e300):
            return EXPFAM_NUMERICAL
    expfam_log(work, work + 2 * d, 2 * d)
    for f in range(d):
        total += 0.5 * work[3 * d + f] - (s.shape[f] + 0.5 * n) * work[2 * d + f]
    out[0] = total
    return EXPFAM_OK


cdef double diagonal_shrink(const diagonal_state *s, double n) noexcept nogil:
    cdef Py_ssize_t f, whole = <Py_ssize_t> n if n < s.table else -1
    cdef double total = 0.0
    if whole >= 0 and whole == n:
        return s.shrinks[whole]
    for f in range(s.base.d):
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
    cdef int code
    if not s.uniform:
        return s.merged_each(self, k, ls, m, out, work)
    if not real_is_slot(&s.base, k):
        return EXPFAM_RANGE
    forget_sizes(&terms)
    while start < m:
        size = gather_pairs(&s.base, k, ls, start, m, rows, n)
        if size < 0:
            return <int> size
        expfam_merged_rates(s.base.S + k * s.base.F, rows, n, s.shift, s.strength, s.rate, s.base.d, rates)
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
        start += EXPFAM_LANES
    return EXPFAM_OK


# ---- diagonal: bound on how much a merge of two clusters raises the density of any datum ---------------------------

cdef struct column_growth:          # of one column; a predictive density is proportional to (1 + w (x - m)^2)^-half
    double weight, more             # w before and after the merge
    double half, further            # half before and after the merge
    double shift                    # change of m
    double split                    # weight of the square about the later m in the bound of (x - m)^2


cdef double highest_gain(const column_growth *c, double slope) noexcept nogil:
    """Return a bound of the rise of the log density in one column, over all data.

    The rise is (1 - slope) half log(1 + w y^2) - further log(1 + w' (y - shift)^2), for any y.
    It uses y^2 <= (1 + split) v + (1 + 1 / split) shift^2 with v = (y - shift)^2. The v >= 0 at which this bound is
    largest has a closed form, because the derivative changes its sign at most once.
    """
    cdef double half = (1.0 - slope) * c.half, base = 1.0 + c.weight * (1.0 + 1.0 / c.split) * c.shift * c.shift
    cdef double rise = c.weight * (1.0 + c.split)
    cdef double v = (half * rise - c.further * c.more * base) / (c.more * rise * (c.further - half))
    if not v > 0.0:
        v = 0.0
    return half * log(base + rise * v) - c.further * log1p(c.more * v)


cdef void compute_column(const diagonal_state *s, Py_ssize_t k, Py_ssize_t l, Py_ssize_t f, column_growth *c,
                         double *top, double *later_top, double *rounding) noexcept nogil:
    """Compute the growth of one column; add its terms to log densities and rounding bound.

    `top` and `later_top` are the log densities at the locations before and after the merge, without gamma terms.
    """
    cdef Py_ssize_t d = s.base.d
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
    c.split = max(0.5 * fabs(c.shift) * sqrt(2.0 * c.weight * c.half), 1e-9)    # the bound is lowest two scales away
    top[0] += 0.5 * log(2.0 * c.weight)
    later_top[0] += 0.5 * log(2.0 * c.more)
    # bound of the squares that cancel in a rate; the squares of one more datum do not exceed these and the rate itself
    size = own[d + f] + both[d + f] + 4.0 * fabs(s.shift[f]) * (fabs(own[f]) + fabs(both[f]) + fabs(about)
                                                                + fabs(later_about))
    size += 8.0 * (about * about / strength + later_about * later_about / later + s.shift[f] * s.shift[f])
    rounding[0] += c.further * (512.0 + fabs(log(rate)) + fabs(log(later_rate)) + size / min(rate, later_rate))


cdef int diagonal_line(void *self, Py_ssize_t k, Py_ssize_t l, double depth, growth_line *out) noexcept nogil:
    """Compute the lines of several slopes and write the line that is lowest at `depth`."""
    cdef diagonal_state *s = <diagonal_state *> self
    cdef column_growth *columns = <column_growth *> s.growth
    cdef double top = 0.0, later_top = 0.0, rounding = 0.0, slope, level, lowest = INFINITY, ratio
    cdef Py_ssize_t f
    cdef int i
    if not real_is_slot(&s.base, k) or not real_is_slot(&s.base, l) or s.base.n[k] < 1.0:
        return EXPFAM_RANGE
    for f in range(s.base.F):
        s.base.fresh[f] = s.base.S[k * s.base.F + f] + s.base.S[l * s.base.F + f]
    for f in range(s.base.d):
        compute_column(s, k, l, f, columns + f, &top, &later_top, &rounding)
    top += diagonal_rising(s, s.base.n[k])
    later_top += diagonal_rising(s, s.base.n[k] + s.base.n[l])
    rounding += fabs(diagonal_gammas(s, s.base.n[k] + s.base.n[l])) + fabs(s.prior_rates)
    ratio = s.base.n[l] / (s.base.n[k] + s.base.n[l])
    for i in range(N_SLOPES):
        slope = ratio * 0.5 * (1 << i)
        if slope > 0.75:
            break
        level = later_top - top + slope * top
        for f in range(s.base.d):
            level += highest_gain(columns + f, slope)
        if (1.0 - slope) * depth + level < lowest:
            lowest = (1.0 - slope) * depth + level
            out.slope = slope
            out.level = level + 64.0 * EPSILON * rounding
    return EXPFAM_OK if isfinite(lowest) and isfinite(out.level) else EXPFAM_NUMERICAL


cdef void exchange_rows(double *block, Py_ssize_t rows, Py_ssize_t k, Py_ssize_t l) noexcept nogil:
    cdef double *a = block + (k // EXPFAM_LANES) * rows * EXPFAM_LANES + k % EXPFAM_LANES
    cdef double *b = block + (l // EXPFAM_LANES) * rows * EXPFAM_LANES + l % EXPFAM_LANES
    cdef Py_ssize_t r
    cdef double t
    for r in range(rows):
        t = a[r * EXPFAM_LANES]
        a[r * EXPFAM_LANES] = b[r * EXPFAM_LANES]
        b[r * EXPFAM_LANES] = t


cdef void diagonal_exchange(void *self, Py_ssize_t k, Py_ssize_t l) noexcept nogil:
    cdef diagonal_state *s = <diagonal_state *> self
    exchange_rows(s.block, 2 + 2 * s.base.d, k, l)


cdef class DiagonalComponents(RealComponents):
    """Statistics of the clusters of a `DiagonalGaussian`; see `RealComponents`."""

    cdef diagonal_state mine
    cdef object block, logs, tables, columns
    cdef log_growth_v1 lines
    cdef readonly object growth     # capsule of `lines`

    def __init__(self, family, data, Py_ssize_t capacity):
        self.family, self.data = family, data
        self.prepare(&self.mine.base)
        self.mine.base.shifted = diagonal_shifted
        self.mine.base.commit = diagonal_commit
        self.mine.base.evidence = diagonal_evidence
        self.mine.base.exchange = diagonal_exchange
        self.mine.merged_each = self.api.log_merged
        self.api.log_merged = diagonal_log_merged
        self.api.log_predictive = diagonal_log_predictive
        self.api.log_predictive_self = diagonal_log_predictive_self
        self.api.work_size = 8 * self.mine.base.d
        self.logs = np.empty(2 * self.mine.base.d)
        self.mine.logs = pointer(self.logs)
        self.columns = np.empty(self.mine.base.d * (sizeof(column_growth) // sizeof(double)))
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
        d = s.base.d
        shape = np.ascontiguousarray(family.shape, dtype=np.float64)
        s.uniform = bool((shape == shape[0]).all())
        s.common = shape[0] if s.uniform else 0.0
        s.table = min(TABLE, self.data.n_rows + 2, 1 << 20 if s.uniform else 2 + 400_000 // d)
        columns = shape[:1] if s.uniform else shape
        at = columns + 0.5 * np.arange(s.table)[:, None]
        times = d if s.uniform else 1
        self.tables = [
            np.ascontiguousarray(family.mean - family.center_, dtype=np.float64),
            np.ascontiguousarray(family.mean_strength, dtype=np.float64),
            shape,
            np.ascontiguousarray(family.rate, dtype=np.float64),
            shape - s.common,
            (gammaln(at + 0.5) - gammaln(at)).sum(axis=1) * times,
            (gammaln(at) - gammaln(columns)).sum(axis=1) * times,
            -0.5 * np.log1p(np.arange(s.table)[:, None] / family.mean_strength).sum(axis=1),
        ]
        shift, strength, _, rate, above, rising, gammas, shrinks = self.tables
        s.shift, s.strength, s.shape, s.rate = pointer(shift), pointer(strength), pointer(shape), pointer(rate)
        s.above, s.rising, s.gammas, s.shrinks = pointer(above), pointer(rising), pointer(gammas), pointer(shrinks)
        if s.uniform:
            above[:] = 0.0
        s.prior_rates = float((shape * np.log(rate)).sum())


# ---- spherical -----------------------------------------------------------------------------------------------------

ctypedef struct spherical_state:
    real_state base
    double *block                   # dense data: (slots / 8, 2 + d, 8): constant, half inverse variance, locations
    double *columns                 # sparse data: (F, slots), S by feature
    Py_ssize_t slots
    double *norm                    # sparse data: (slots, 2), |S|^2 as a sum of two doubles
    double *constant                # sparse data: three (slots,) arrays, score = constant + gain x.S + lift |x|^2
    double *gain
    double *lift
    const double *shift             # (d,) prior location about the centre
    double variance
    double mean_variance
    double prior_length             # |m0|^2 / v0


cdef inline double sparse_value(const real_state *s, Py_ssize_t t) noexcept nogil:
    if s.value_kind == 0:
        return (<const double *> s.x)[t]
    if s.value_kind == 1:
        return (<const float *> s.x)[t]
    if s.value_kind == 2:
        return <double> (<const int64_t *> s.x)[t]
    return (<const int32_t *> s.x)[t]


cdef inline Py_ssize_t sparse_index(const real_state *s, Py_ssize_t t) noexcept nogil:
    return (<const int64_t *> s.indices)[t] if s.wide_indices else (<const int32_t *> s.indices)[t]


cdef inline Py_ssize_t sparse_start(const real_state *s, Py_ssize_t i) noexcept nogil:
    return (<const int64_t *> s.indptr)[i] if s.wide_indptr else (<const int32_t *> s.indptr)[i]


cdef inline double posterior_variance(const spherical_state *s, double n) noexcept nogil:
    return 1.0 / (1.0 / s.mean_variance + n / s.variance)


cdef inline double normal_constant(const spherical_state *s, double variance) noexcept nogil:
    return -0.5 * s.base.d * log1p(variance / s.variance)


cdef double spherical_score(const spherical_state *s, const double *x, double n, const double *S,
                            const double *without) noexcept nogil:
    """Return the log predictive in expanded form, which overflows to infinity, not to NaN.

    `without`, if not NULL, is a datum (d,) to subtract from S.
    """
    cdef double v = posterior_variance(s, n), inverse = 0.5 / (s.variance + v), m, product = 0.0, length = 0.0
    cdef double square = 0.0
    cdef Py_ssize_t f
    for f in range(s.base.d):
        m = S[f] - without[f] if without != NULL else S[f]
        m = v * (s.shift[f] / s.mean_variance + (m if n else 0.0) / s.variance)
        square += x[f] * x[f]
        product += x[f] * m
        length += m * m
    return normal_constant(s, v) + square * (v / s.variance * inverse) + inverse * (2.0 * product - length)


cdef int spherical_log_predictive(void *self, Py_ssize_t i, const Py_ssize_t *ks, Py_ssize_t m,
                                  double *out, double *work) noexcept nogil:
    cdef spherical_state *s = <spherical_state *> self
    cdef Py_ssize_t j, k, f, d = s.base.d
    cdef const double *row
    cdef double square = 0.0, t, total
    real_row(&s.base, i, work)
    for f in range(d):
        square += work[f] * work[f]
    square *= 0.5 / s.variance
    if ks == NULL:
        if m > s.base.capacity:
            return EXPFAM_RANGE
        if expfam_sphere_scan(work, square, s.block, d, m, out):
            for k in range(m):
                out[k] = spherical_score(s, work, s.base.n[k], s.base.S + k * d, NULL)
        return EXPFAM_OK
    for j in range(m):
        k = ks[j]
        if not real_is_slot(&s.base, k):
            return EXPFAM_RANGE
        row = s.block + (k // EXPFAM_LANES) * (2 + d) * EXPFAM_LANES + k % EXPFAM_LANES
        total = 0.0
        for f in range(d):
            t = work[f] - row[(2 + f) * EXPFAM_LANES]
            total += t * t
        out[j] = row[0] + (square - row[EXPFAM_LANES] * total)
        if not isfinite(out[j]):
            out[j] = spherical_score(s, work, s.base.n[k], s.base.S + k * d, NULL)
    return EXPFAM_OK


cdef int spherical_log_predictive_self(void *self, Py_ssize_t i, Py_ssize_t k, double *out,
                                       double *work) noexcept nogil:
    cdef spherical_state *s = <spherical_state *> self
    cdef Py_ssize_t f, d = s.base.d
    cdef double *S = s.base.S + k * d
    cdef double n, v, m, square = 0.0, total = 0.0
    if not real_is_slot(&s.base, k) or s.base.n[k] < 1.0:
        return EXPFAM_RANGE
    real_row(&s.base, i, work)
    n = s.base.n[k] - 1.0
    v = posterior_variance(s, n)
    for f in range(d):
        m = v * (s.shift[f] / s.mean_variance + (S[f] - work[f] if n else 0.0) / s.variance)
        square += work[f] * work[f]
        total += (work[f] - m) * (work[f] - m)
    out[0] = normal_constant(s, v) + (0.5 / s.variance * square - 0.5 / (s.variance + v) * total)
    if not isfinite(out[0]):
        out[0] = spherical_score(s, work, n, S, work)
    return EXPFAM_OK


cdef void spherical_shifted(void *self, Py_ssize_t i, double sign, const double *S, double *out) noexcept nogil:
    cdef spherical_state *s = <spherical_state *> self
    cdef double *x = s.base.fresh + s.base.F
    cdef Py_ssize_t f
    real_row(&s.base, i, x)
    for f in range(s.base.d):
        out[f] = S[f] + sign * x[f]


cdef int spherical_commit(void *self, Py_ssize_t k, double n, const double *S) noexcept nogil:
    cdef spherical_state *s = <spherical_state *> self
    cdef Py_ssize_t f, d = s.base.d
    cdef double *row = s.block + (k // EXPFAM_LANES) * (2 + d) * EXPFAM_LANES + k % EXPFAM_LANES
    cdef double *own = s.base.S + k * d
    cdef double v = posterior_variance(s, n)
    for f in range(d):
        if not fabs(S[f]) < LARGEST_SUM:
            return EXPFAM_NUMERICAL
    for f in range(d):
        row[(2 + f) * EXPFAM_LANES] = v * (s.shift[f] / s.mean_variance + S[f] / s.variance)
        own[f] = S[f]
    row[0] = normal_constant(s, v)
    row[EXPFAM_LANES] = 0.5 / (s.variance + v)
    s.base.n[k] = n
    return EXPFAM_OK


cdef int spherical_evidence(void *self, double n, const double *S, double *out, double *work) noexcept nogil:
    cdef spherical_state *s = <spherical_state *> self
    cdef double v = posterior_variance(s, n), length = 0.0, m
    cdef Py_ssize_t f
    for f in range(s.base.d):
        m = s.shift[f] / s.mean_variance + S[f] / s.variance
        length += m * m
    out[0] = 0.5 * (s.base.d * log(v / s.mean_variance) + v * length - s.prior_length)
    return EXPFAM_OK if isfinite(out[0]) else EXPFAM_NUMERICAL


cdef void spherical_exchange(void *self, Py_ssize_t k, Py_ssize_t l) noexcept nogil:
    cdef spherical_state *s = <spherical_state *> self
    exchange_rows(s.block, 2 + s.base.d, k, l)


# ---- spherical, sparse data ----------------------------------------------------------------------------------------

cdef void add_square(double *norm, double value, double sign) noexcept nogil:
    """Add sign value^2 to norm (2,) in twice the working precision.

    The product is exact, and the sum is Knuth's two-sum.
    """
    cdef double square = value * value, rest = fma(value, value, -square), total, part
    square *= sign
    total = norm[0] + square
    part = total - norm[0]
    norm[1] += ((norm[0] - (total - part)) + (square - part)) + sign * rest
    norm[0] = total


cdef void sparse_finish(spherical_state *s, Py_ssize_t k, double n) noexcept nogil:
    """Compute the coefficients of the score of slot k from the count and |S|^2."""
    cdef double v = posterior_variance(s, n), inverse = 0.5 / (s.variance + v), scale = v / s.variance
    s.base.n[k] = n
    s.constant[k] = normal_constant(s, v) - inverse * scale * scale * (s.norm[2 * k] + s.norm[2 * k + 1])
    s.gain[k] = 2.0 * inverse * scale
    s.lift[k] = inverse * scale


cdef double sparse_inner(const spherical_state *s, Py_ssize_t i, Py_ssize_t k, double *square) noexcept nogil:
    """Return x_i . S_k and set `square` to |x_i|^2."""
    cdef const double *S = s.base.S + k * s.base.F
    cdef Py_ssize_t t
    cdef double x, product = 0.0
    square[0] = 0.0
    for t in range(sparse_start(&s.base, i), sparse_start(&s.base, i + 1)):
        x = sparse_value(&s.base, t)
        square[0] += x * x
        product += x * S[sparse_index(&s.base, t)]
    return product


cdef int sparse_log_predictive(void *self, Py_ssize_t i, const Py_ssize_t *ks, Py_ssize_t m,
                               double *out, double *work) noexcept nogil:
    cdef spherical_state *s = <spherical_state *> self
    cdef Py_ssize_t t, j, k
    cdef double x, square = 0.0, product
    if ks != NULL:
        for j in range(m):
            k = ks[j]
            if not real_is_slot(&s.base, k):
                return EXPFAM_RANGE
            product = sparse_inner(s, i, k, &square)
            out[j] = s.constant[k] + s.gain[k] * product + s.lift[k] * square
        return EXPFAM_OK
    if m > s.base.capacity:
        return EXPFAM_RANGE
    for k in range(m):
        out[k] = 0.0
    for t in range(sparse_start(&s.base, i), sparse_start(&s.base, i + 1)):
        x = sparse_value(&s.base, t)
        square += x * x
        expfam_add_row(out, s.columns + sparse_index(&s.base, t) * s.slots, x, m)
    for k in range(m):
        out[k] = s.constant[k] + s.gain[k] * out[k] + s.lift[k] * square
    return EXPFAM_OK


cdef int sparse_log_predictive_self(void *self, Py_ssize_t i, Py_ssize_t k, double *out, double *work) noexcept nogil:
    cdef spherical_state *s = <spherical_state *> self
    cdef double n, v, inverse, scale, product, square = 0.0, length
    if not real_is_slot(&s.base, k) or s.base.n[k] < 1.0:
        return EXPFAM_RANGE
    n = s.base.n[k] - 1.0
    v = posterior_variance(s, n)
    inverse = 0.5 / (s.variance + v)
    scale = v / s.variance
    product = sparse_inner(s, i, k, &square)
    length = s.norm[2 * k] + (s.norm[2 * k + 1] + (square - 2.0 * product)) if n else 0.0
    product = product - square if n else 0.0
    out[0] = normal_constant(s, v) + inverse * (scale * square + 2.0 * scale * product - scale * scale * length)
    return EXPFAM_OK


cdef int sparse_move(spherical_state *s, Py_ssize_t i, Py_ssize_t k, double sign) noexcept nogil:
    cdef double *S = s.base.S + k * s.base.F
    cdef Py_ssize_t t, f
    cdef double value
    for t in range(sparse_start(&s.base, i), sparse_start(&s.base, i + 1)):
        f = sparse_index(&s.base, t)
        value = S[f] + sign * sparse_value(&s.base, t)
        if not fabs(value) < LARGEST_SUM:
            return EXPFAM_NUMERICAL
    for t in range(sparse_start(&s.base, i), sparse_start(&s.base, i + 1)):
        f = sparse_index(&s.base, t)
        value = S[f] + sign * sparse_value(&s.base, t)
        add_square(s.norm + 2 * k, S[f], -1.0)
        add_square(s.norm + 2 * k, value, 1.0)
        S[f] = value
        s.columns[f * s.slots + k] = value
    sparse_finish(s, k, s.base.n[k] + sign)
    return EXPFAM_OK


cdef int sparse_add(void *self, Py_ssize_t i, Py_ssize_t k) noexcept nogil:
    cdef spherical_state *s = <spherical_state *> self
    return sparse_move(s, i, k, 1.0) if real_is_slot(&s.base, k) else EXPFAM_RANGE


cdef int sparse_remove(void *self, Py_ssize_t i, Py_ssize_t k) noexcept nogil:
    cdef spherical_state *s = <spherical_state *> self
    if not real_is_slot(&s.base, k) or s.base.n[k] < 1.0:
        return EXPFAM_RANGE
    return real_clear(self, k) if s.base.n[k] == 1.0 else sparse_move(s, i, k, -1.0)


cdef int sparse_commit(void *self, Py_ssize_t k, double n, const double *S) noexcept nogil:
    cdef spherical_state *s = <spherical_state *> self
    cdef double *own = s.base.S + k * s.base.F
    cdef Py_ssize_t f
    for f in range(s.base.F):
        if not fabs(S[f]) < LARGEST_SUM:
            return EXPFAM_NUMERICAL
    s.norm[2 * k] = 0.0
    s.norm[2 * k + 1] = 0.0
    for f in range(s.base.F):
        # features that are zero in both rows are skipped: each of their columns would cost a cache line
        if S[f] != 0.0 or own[f] != 0.0:
            add_square(s.norm + 2 * k, S[f], 1.0)
            s.columns[f * s.slots + k] = S[f]
            own[f] = S[f]
    sparse_finish(s, k, n)
    return EXPFAM_OK


cdef void sparse_exchange(void *self, Py_ssize_t k, Py_ssize_t l) noexcept nogil:
    """Exchange the caches of two slots whose rows of S were just exchanged."""
    cdef spherical_state *s = <spherical_state *> self
    cdef Py_ssize_t f, j
    cdef double t
    for f in range(s.base.F):
        if s.base.S[k * s.base.F + f] != 0.0 or s.base.S[l * s.base.F + f] != 0.0:
            s.columns[f * s.slots + k] = s.base.S[k * s.base.F + f]
            s.columns[f * s.slots + l] = s.base.S[l * s.base.F + f]
    for j in range(2):
        t = s.norm[2 * k + j]
        s.norm[2 * k + j] = s.norm[2 * l + j]
        s.norm[2 * l + j] = t
    sparse_finish(s, k, s.base.n[k])
    sparse_finish(s, l, s.base.n[l])


cdef class SphericalComponents(RealComponents):
    """Statistics of the clusters of a `SphericalGaussian`; see `RealComponents`.

    The data may be dense or CSR.
    """

    cdef spherical_state mine
    cdef object block, columns, coefficients, shift

    def __init__(self, family, data, Py_ssize_t capacity):
        cdef spherical_state *s = &self.mine
        self.family, self.data = family, data
        self.prepare(&s.base)
        s.base.evidence = spherical_evidence
        s.base.shifted = spherical_shifted
        if data.is_sparse:
            s.base.commit, s.base.exchange = sparse_commit, sparse_exchange
            self.api.log_predictive, self.api.log_predictive_self = sparse_log_predictive, sparse_log_predictive_self
            self.api.add, self.api.remove = sparse_add, sparse_remove
        else:
            s.base.commit, s.base.exchange = spherical_commit, spherical_exchange
            self.api.log_predictive = spherical_log_predictive
            self.api.log_predictive_self = spherical_log_predictive_self
        self.api.work_size = s.base.d + s.base.F
        self.set_prior()
        self.resize(capacity)
        self.rebuild_caches()

    cdef int resize(self, Py_ssize_t capacity) except -1:
        cdef spherical_state *s = &self.mine
        cdef Py_ssize_t slots = RealComponents.resize(self, capacity)
        s.slots = slots
        if self.data.is_sparse:
            self.columns, self.coefficients = aligned(slots * s.base.F), aligned(slots * 5)
            s.columns, s.norm = pointer(self.columns), pointer(self.coefficients)
            s.constant, s.gain, s.lift = s.norm + 2 * slots, s.norm + 3 * slots, s.norm + 4 * slots
        else:
            self.block = aligned(slots * (2 + s.base.d))
            s.block = pointer(self.block)
        return slots

    def set_prior(self):
        """Copy the family's hyper-parameters."""
        cdef spherical_state *s = &self.mine
        family = self.family
        self.shift = np.ascontiguousarray(family.mean - family.center_, dtype=np.float64)
        s.shift = pointer(self.shift)
        s.variance, s.mean_variance = family.variance, family.mean_variance
        s.prior_length = float(self.shift @ self.shift) / s.mean_variance

    def rebuild_caches(self):
        """Rebuild all caches from (n, S)."""
        if self.data.is_sparse:
            self.columns[:] = 0.0
        RealComponents.rebuild_caches(self)

    def to_arrays(self):
        """Return the statistics by name; for sparse data also |S|^2.

        The last bits of |S|^2 depend on the order of changes.
        """
        arrays = RealComponents.to_arrays(self)
        if self.data.is_sparse:
            arrays["norm"] = self.coefficients[: 2 * self.capacity].reshape(-1, 2).copy()
        return arrays

    def from_arrays(self, arrays):
        """Restore the arrays that `to_arrays` returned."""
        cdef Py_ssize_t k
        RealComponents.from_arrays(self, arrays)
        if self.data.is_sparse:
            self.coefficients[: 2 * self.capacity] = np.asarray(arrays["norm"]).ravel()
            for k in range(self.capacity):
                sparse_finish(&self.mine, k, self.mine.base.n[k])
