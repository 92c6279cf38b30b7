"""Compiled components of the spherical Gaussian.

Clusters have one known or shared variance, or one variance each.

Cached numbers are stored in blocks of eight clusters, so that one datum is scored against eight clusters together, by
sums of squares and, with own variances, one logarithm for each cluster. Sparse data are scored by inner products with S
over their nonzeros; |S|^2 is kept in two doubles. Adding, removing and scoring a datum cost O(d), or O(nonzeros).
"""

import numpy as np
from scipy.special import gammaln

from cpython.pycapsule cimport PyCapsule_New
from libc.math cimport INFINITY, fabs, fma, isfinite, lgamma, log, log1p, sqrt
from libc.string cimport memcpy

from expfam.contracts cimport EXPFAM_ABI, EXPFAM_NUMERICAL, EXPFAM_OK, EXPFAM_RANGE
from expfam.families.distance_scores cimport DISTANCE_SCORES, distance_scores_v1
from expfam.families.growth cimport GROWTH, growth_line, log_growth_v1
from expfam.families.gaussian.storage cimport (
    RealComponents, exchange_lanes, forget_sizes, gather_pairs, place_of_size, pointer, real_clear,
    real_is_slot, real_row, real_state, size_terms,
)
from expfam.families.gaussian.student_t cimport growth_part, log1p_square, lowest_line, split_squares
from expfam.families.rows cimport entry_column, entry_value, row_start
from expfam.structures.ground.arrays cimport aligned
from expfam.structures.simd.elementary cimport expfam_log_rising1
from expfam.structures.simd.gaussian_diagonal cimport expfam_merged_radial, expfam_radial_scan, expfam_sphere_scan
from expfam.structures.simd.gaussian_lanes cimport EXPFAM_LANES
from expfam.structures.simd.vectors cimport expfam_add_row, expfam_dot

cdef extern from *:
    """
    #include "elementary.h"

    /* Bounds of scores at bounds of the squared distances. `share` is the part of its terms that the rounding of a
     * score can amount to; a logarithm near 0 has the absolute error of its argument. */
    #define EXPFAM_RADIAL_BOUNDS(NAME, TARGET)                                                                        \
        TARGET static void NAME(const double *squares, const double *tops, const double *halves,                      \
                                const double *weights, ptrdiff_t m, double share, double *out) {                      \
            EXPFAM_SIMD                                                                                               \
            for (ptrdiff_t k = 0; k < m; k++) {                                                                       \
                const double away = halves[k] * expfam_log1(1.0 + weights[k] * squares[k]);                           \
                out[k] = tops[k] - away + share * (1.0 + fabs(tops[k]) + away) + 1e-14 * halves[k];                   \
            }                                                                                                         \
        }
    EXPFAM_INSTANCES(EXPFAM_RADIAL_BOUNDS, void, expfam_radial_bounds,
                     (const double *, const double *, const double *, const double *, ptrdiff_t, double, double *))

    #if defined(__GNUC__) || defined(__clang__)
    #define EXPFAM_REST_SUMS _Pragma("omp simd reduction(+ : squares, cross, length)")
    #else
    #define EXPFAM_REST_SUMS
    #endif

    /* For the sum r = S - x of n data, with t = r - n shift: the sums of t^2, of shift (r + t) and of x^2 */
    #define EXPFAM_SPHERE_REST(NAME, TARGET)                                                                          \
        TARGET static void NAME(const double *x, const double *S, const double *shift, double n, ptrdiff_t d,         \
                                double *out) {                                                                        \
            double squares = 0.0, cross = 0.0, length = 0.0;                                                          \
            EXPFAM_REST_SUMS                                                                                          \
            for (ptrdiff_t f = 0; f < d; f++) {                                                                       \
                const double rest = S[f] - x[f], t = rest - n * shift[f];                                             \
                squares += t * t;                                                                                     \
                cross += shift[f] * (rest + t);                                                                       \
                length += x[f] * x[f];                                                                                \
            }                                                                                                         \
            out[0] = squares, out[1] = cross, out[2] = length;                                                        \
        }
    EXPFAM_INSTANCES(EXPFAM_SPHERE_REST, void, expfam_sphere_rest,
                     (const double *, const double *, const double *, double, ptrdiff_t, double *))

    /* Squared distance of x from before shift + share (S - x) */
    #define EXPFAM_SPHERE_SQUARE(NAME, TARGET)                                                                        \
        TARGET static double NAME(const double *x, const double *S, const double *shift, double before, double share, \
                                  ptrdiff_t d) {                                                                      \
            double square = 0.0;                                                                                      \
            EXPFAM_SIMD_SUM(square)                                                                                   \
            for (ptrdiff_t f = 0; f < d; f++) {                                                                       \
                const double t = x[f] - (before * shift[f] + share * (S[f] - x[f]));                                  \
                square += t * t;                                                                                      \
            }                                                                                                         \
            return square;                                                                                            \
        }
    EXPFAM_INSTANCES(EXPFAM_SPHERE_SQUARE, double, expfam_sphere_square,
                     (const double *, const double *, const double *, double, double, ptrdiff_t))
    """
    void (*expfam_radial_bounds)(const double *squares, const double *tops, const double *halves, const double *weights,
                                 Py_ssize_t m, double share, double *out) noexcept nogil
    void (*expfam_sphere_rest)(const double *x, const double *S, const double *shift, double n, Py_ssize_t d,
                               double *out) noexcept nogil
    double (*expfam_sphere_square)(const double *x, const double *S, const double *shift, double before, double share,
                                   Py_ssize_t d) noexcept nogil

cdef double LARGEST_SUM = 1e150     # the evidence needs squares of sums
cdef Py_ssize_t TABLE = 4096        # tables hold the gamma terms of smaller counts
cdef double LARGEST_WEIGHT = 1e200  # of a squared distance, which is bounded by matrix products up to 1e31
cdef double ROUNDING = 1e-9         # share of the terms of a score that rounding of either form can amount to

# A law computes the caches of slot k, n[k] too, from a count, a location's |S|^2 in two doubles (sparse data only) and
# the sum of |x|^2; it changes nothing unless it returns EXPFAM_OK.
ctypedef int (*finish_slot)(void *self, Py_ssize_t k, double n, const double *norm, double squares) noexcept nogil

ctypedef struct spherical_state:
    real_state base
    Py_ssize_t has_squares          # 1 if phi = (x, |x|^2), 0 if phi = x
    Py_ssize_t head                 # rows of a block before the locations
    double *block                   # dense data: (slots / 8, head + d, 8): coefficients of the score, locations
    double *columns                 # sparse data: (d, slots), sums of x by feature
    Py_ssize_t slots
    double *norm                    # sparse data: (slots, 2), |S|^2 as a sum of two doubles
    double *constant                # sparse data: (slots,) arrays, coefficients of the score
    double *gain                    # of x.S
    double *lift                    # of |x|^2; with own variances |S|^2 / kn^2
    double *weight                  # own variances: of the squared distance
    finish_slot finish
    const double *shift             # (d,) prior location about the centre
    double shift_square             # its squared length
    double half                     # of the number of columns that vary
    double variance                 # known or shared variance
    double mean_variance
    double prior_length             # |m0|^2 / v0
    double normaliser               # half log s2 of a shared variance, 0 if it is known
    double strength                 # own variances
    double shape
    double rate
    double prior_rate               # a0 log b0
    const double *rising            # (table,) lgamma(an + d/2) - lgamma(an)
    const double *gammas            # (table,) lgamma(an) - lgamma(a0)
    Py_ssize_t table

# ---- rows and sums -------------------------------------------------------------------------------------------------


cdef inline double *lane_of(const spherical_state *s, Py_ssize_t k) noexcept nogil:
    return s.block + (k // EXPFAM_LANES) * (s.head + s.base.d) * EXPFAM_LANES + k % EXPFAM_LANES


cdef inline double squares_of(const spherical_state *s, const double *S) noexcept nogil:
    return S[s.base.d] if s.has_squares else 0.0


cdef double length_of(const double *x, Py_ssize_t d) noexcept nogil:
    cdef double total = 0.0
    cdef Py_ssize_t f
    for f in range(d):
        total += x[f] * x[f]
    return total


cdef void spherical_shifted(void *self, Py_ssize_t i, double sign, const double *S, double *out,
                            double *x) noexcept nogil:
    cdef spherical_state *s = <spherical_state *> self
    cdef Py_ssize_t f
    real_row(&s.base, i, x)
    for f in range(s.base.d):
        out[f] = S[f] + sign * x[f]
    if s.has_squares:
        out[s.base.d] = S[s.base.d] + sign * length_of(x, s.base.d)


cdef void spherical_exchange(void *self, Py_ssize_t k, Py_ssize_t l) noexcept nogil:
    cdef spherical_state *s = <spherical_state *> self
    exchange_lanes(s.block, s.head + s.base.d, k, l)


cdef int read_row(void *self, Py_ssize_t i, double *out) noexcept nogil:
    real_row(<real_state *> self, i, out)
    return EXPFAM_OK


cdef int sphere_location(void *self, Py_ssize_t k, Py_ssize_t m, double *out, double *terms) noexcept nogil:
    """Write the location of slot k of dense data, and the coefficients of its score."""
    cdef spherical_state *s = <spherical_state *> self
    cdef const double *row = lane_of(s, k)
    cdef Py_ssize_t f
    for f in range(s.head):
        terms[f * m + k] = row[f * EXPFAM_LANES]
        if not fabs(terms[f * m + k]) < LARGEST_WEIGHT:
            return EXPFAM_NUMERICAL
    for f in range(s.base.d):
        out[f] = row[(s.head + f) * EXPFAM_LANES]
    return EXPFAM_OK


cdef inline const double *block_of(const spherical_state *s, Py_ssize_t first) noexcept nogil:
    """Return the block of which `first` is the first slot."""
    return s.block + first * (s.head + s.base.d)


# ---- sparse data ---------------------------------------------------------------------------------------------------

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


cdef double sparse_inner(const spherical_state *s, Py_ssize_t i, Py_ssize_t k, double *square) noexcept nogil:
    """Return x_i . S_k and set `square` to |x_i|^2."""
    cdef const double *S = s.base.S + k * s.base.F
    cdef Py_ssize_t t
    cdef double x, product = 0.0
    square[0] = 0.0
    for t in range(row_start(&s.base.rows, i), row_start(&s.base.rows, i + 1)):
        x = entry_value(&s.base.rows, t)
        square[0] += x * x
        product += x * S[entry_column(&s.base.rows, t)]
    return product


cdef double sparse_products(const spherical_state *s, Py_ssize_t i, Py_ssize_t m, double *out) noexcept nogil:
    """Write x_i . S_k of the first m slots and return |x_i|^2."""
    cdef Py_ssize_t t, k
    cdef double x, square = 0.0
    for k in range(m):
        out[k] = 0.0
    for t in range(row_start(&s.base.rows, i), row_start(&s.base.rows, i + 1)):
        x = entry_value(&s.base.rows, t)
        square += x * x
        expfam_add_row(out, s.columns + entry_column(&s.base.rows, t) * s.slots, x, m)
    return square


cdef void sparse_shifted(void *self, Py_ssize_t i, double sign, const double *S, double *out,
                         double *_x) noexcept nogil:
    cdef spherical_state *s = <spherical_state *> self
    cdef Py_ssize_t t
    cdef double x, square = 0.0
    memcpy(out, S, s.base.F * sizeof(double))
    for t in range(row_start(&s.base.rows, i), row_start(&s.base.rows, i + 1)):
        x = entry_value(&s.base.rows, t)
        square += x * x
        out[entry_column(&s.base.rows, t)] += sign * x
    if s.has_squares:
        out[s.base.d] += sign * square


cdef int sparse_move(spherical_state *s, Py_ssize_t i, Py_ssize_t k, double sign) noexcept nogil:
    cdef double *S = s.base.S + k * s.base.F
    cdef Py_ssize_t t, f
    cdef double value, x, square = 0.0
    cdef double norm[2]
    cdef int code
    norm[0] = s.norm[2 * k]
    norm[1] = s.norm[2 * k + 1]
    for t in range(row_start(&s.base.rows, i), row_start(&s.base.rows, i + 1)):
        f = entry_column(&s.base.rows, t)
        x = entry_value(&s.base.rows, t)
        value = S[f] + sign * x
        if not fabs(value) < LARGEST_SUM:
            return EXPFAM_NUMERICAL
        square += x * x
        add_square(norm, S[f], -1.0)
        add_square(norm, value, 1.0)
    square = squares_of(s, S) + sign * square
    code = s.finish(s, k, s.base.n[k] + sign, norm, square)
    if code:
        return code
    s.norm[2 * k] = norm[0]
    s.norm[2 * k + 1] = norm[1]
    for t in range(row_start(&s.base.rows, i), row_start(&s.base.rows, i + 1)):
        f = entry_column(&s.base.rows, t)
        S[f] += sign * entry_value(&s.base.rows, t)
        s.columns[f * s.slots + k] = S[f]
    if s.has_squares:
        S[s.base.d] = square
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
    cdef double norm[2]
    cdef int code
    norm[0] = 0.0
    norm[1] = 0.0
    for f in range(s.base.d):
        if not fabs(S[f]) < LARGEST_SUM:
            return EXPFAM_NUMERICAL
        if S[f] != 0.0:
            add_square(norm, S[f], 1.0)
    code = s.finish(s, k, n, norm, squares_of(s, S))
    if code:
        return code
    s.norm[2 * k] = norm[0]
    s.norm[2 * k + 1] = norm[1]
    for f in range(s.base.d):
        # features that are zero in both rows are skipped: each of their columns would cost a cache line
        if S[f] != 0.0 or own[f] != 0.0:
            s.columns[f * s.slots + k] = S[f]
            own[f] = S[f]
    if s.has_squares:
        own[s.base.d] = S[s.base.d]
    return EXPFAM_OK


cdef void sparse_exchange(void *self, Py_ssize_t k, Py_ssize_t l) noexcept nogil:
    """Exchange the caches of two slots whose rows of S were just exchanged."""
    cdef spherical_state *s = <spherical_state *> self
    cdef double *a = s.base.S + k * s.base.F
    cdef double *b = s.base.S + l * s.base.F
    cdef Py_ssize_t f, j
    cdef double t
    for f in range(s.base.d):
        if a[f] != 0.0 or b[f] != 0.0:
            s.columns[f * s.slots + k] = a[f]
            s.columns[f * s.slots + l] = b[f]
    for j in range(2):
        t = s.norm[2 * k + j]
        s.norm[2 * k + j] = s.norm[2 * l + j]
        s.norm[2 * l + j] = t
    s.finish(s, k, s.base.n[k], s.norm + 2 * k, squares_of(s, a))
    s.finish(s, l, s.base.n[l], s.norm + 2 * l, squares_of(s, b))


# ---- one variance, known or shared ---------------------------------------------------------------------------------


cdef inline double posterior_variance(const spherical_state *s, double n) noexcept nogil:
    return 1.0 / (1.0 / s.mean_variance + n / s.variance)


cdef inline double normal_constant(const spherical_state *s, double variance) noexcept nogil:
    return -s.half * log1p(variance / s.variance) - s.normaliser


cdef inline double lift_of(const spherical_state *s, double variance) noexcept nogil:
    """Return the coefficient of |x|^2.

    The log base measure contains a part of it if the variance is known.
    """
    cdef double inverse = 0.5 / (s.variance + variance)
    return -inverse if s.has_squares else variance / s.variance * inverse


cdef inline double base_length(const spherical_state *s, const double *x) noexcept nogil:
    """Return the part of the score that cancels the log base measure of a known variance."""
    return 0.0 if s.has_squares else expfam_dot(x, x, s.base.d) * (0.5 / s.variance)


cdef double known_score(const spherical_state *s, const double *x, double n, const double *S,
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
    square *= lift_of(s, v)
    if not isfinite(square):        # it exceeds the product, which may overflow to the other side
        return square
    return normal_constant(s, v) + square + inverse * (2.0 * product - length)


cdef int known_log_predictive(void *self, Py_ssize_t i, const Py_ssize_t *ks, Py_ssize_t m,
                              double *out, double *work) noexcept nogil:
    cdef spherical_state *s = <spherical_state *> self
    cdef Py_ssize_t j, k, f, d = s.base.d
    cdef const double *row
    cdef double square, t, total
    real_row(&s.base, i, work)
    square = base_length(s, work)
    if ks == NULL:
        if m > s.base.capacity:
            return EXPFAM_RANGE
        if expfam_sphere_scan(work, square, s.block, d, m, out):
            for k in range(m):
                out[k] = known_score(s, work, s.base.n[k], s.base.S + k * s.base.F, NULL)
        return EXPFAM_OK
    for j in range(m):
        k = ks[j]
        if not real_is_slot(&s.base, k):
            return EXPFAM_RANGE
        row = lane_of(s, k)
        total = 0.0
        for f in range(d):
            t = work[f] - row[(2 + f) * EXPFAM_LANES]
            total += t * t
        out[j] = row[0] + (square - row[EXPFAM_LANES] * total)
        if not isfinite(out[j]):
            out[j] = known_score(s, work, s.base.n[k], s.base.S + k * s.base.F, NULL)
    return EXPFAM_OK


cdef int known_bounds(void *self, double square, const double *squares, const double *terms, Py_ssize_t m,
                      double *out) noexcept nogil:
    cdef spherical_state *s = <spherical_state *> self
    cdef double offset = 0.0 if s.has_squares else square * (0.5 / s.variance), away
    cdef Py_ssize_t k
    if not offset < LARGEST_WEIGHT:
        return EXPFAM_NUMERICAL
    for k in range(m):
        away = terms[m + k] * squares[k]
        out[k] = terms[k] + (offset - away) + ROUNDING * (1.0 + fabs(terms[k]) + offset + away)
    return EXPFAM_OK


cdef int known_exact(void *self, const double *x, Py_ssize_t first, Py_ssize_t stop, double *out,
                     double *work) noexcept nogil:
    cdef spherical_state *s = <spherical_state *> self
    if expfam_sphere_scan(x, base_length(s, x), block_of(s, first), s.base.d, stop - first, out + first):
        return EXPFAM_NUMERICAL
    return EXPFAM_OK


cdef double known_own(void *self, Py_ssize_t k, double square, double distance, const double *terms,
                      Py_ssize_t m) noexcept nogil:
    """Return a lower bound of the score of a row in its own slot, from the other data.

    Without the row the slot lies farther from it, by the ratio of the variances of the mean.
    """
    cdef spherical_state *s = <spherical_state *> self
    cdef double v = posterior_variance(s, s.base.n[k] - 1.0), ratio = v / posterior_variance(s, s.base.n[k])
    cdef double offset = 0.0 if s.has_squares else square * (0.5 / s.variance), constant = normal_constant(s, v)
    cdef double away = 0.5 / (s.variance + v) * ratio * ratio * distance
    return constant + (offset - away) - ROUNDING * (1.0 + fabs(constant) + offset + away)


cdef int known_log_predictive_self(void *self, Py_ssize_t i, Py_ssize_t k, double *out, double *work) noexcept nogil:
    cdef spherical_state *s = <spherical_state *> self
    cdef double *S = s.base.S + k * s.base.F
    cdef double n, v, share, square
    if not real_is_slot(&s.base, k) or s.base.n[k] < 1.0:
        return EXPFAM_RANGE
    real_row(&s.base, i, work)
    n = s.base.n[k] - 1.0
    v = posterior_variance(s, n)
    share = v / s.variance if n else 0.0
    square = expfam_sphere_square(work, S, s.shift, v / s.mean_variance, share, s.base.d)
    out[0] = normal_constant(s, v) + (base_length(s, work) - 0.5 / (s.variance + v) * square)
    if not isfinite(out[0]):
        out[0] = known_score(s, work, n, S, work)
    return EXPFAM_OK


cdef int known_commit(void *self, Py_ssize_t k, double n, const double *S) noexcept nogil:
    cdef spherical_state *s = <spherical_state *> self
    cdef Py_ssize_t f, d = s.base.d
    cdef double *row = lane_of(s, k)
    cdef double *own = s.base.S + k * s.base.F
    cdef double v = posterior_variance(s, n)
    for f in range(d):
        if not fabs(S[f]) < LARGEST_SUM:
            return EXPFAM_NUMERICAL
    if not isfinite(squares_of(s, S)):
        return EXPFAM_NUMERICAL
    for f in range(d):
        row[(2 + f) * EXPFAM_LANES] = v * (s.shift[f] / s.mean_variance + S[f] / s.variance)
    for f in range(s.base.F):
        own[f] = S[f]
    row[0] = normal_constant(s, v)
    row[EXPFAM_LANES] = 0.5 / (s.variance + v)
    s.base.n[k] = n
    return EXPFAM_OK


cdef int known_evidence(void *self, double n, const double *S, double *out, double *work) noexcept nogil:
    cdef spherical_state *s = <spherical_state *> self
    cdef double v = posterior_variance(s, n), length = 0.0, m
    cdef Py_ssize_t f
    for f in range(s.base.d):
        m = s.shift[f] / s.mean_variance + S[f] / s.variance
        length += m * m
    out[0] = 0.5 * (2.0 * s.half * log(v / s.mean_variance) + v * length - s.prior_length)
    if s.has_squares:
        out[0] -= 0.5 * S[s.base.d] / s.variance + n * s.normaliser
    return EXPFAM_OK if isfinite(out[0]) else EXPFAM_NUMERICAL


cdef int known_finish(void *self, Py_ssize_t k, double n, const double *norm, double squares) noexcept nogil:
    """Compute the coefficients of the score of slot k: constant + gain x.S + lift |x|^2."""
    cdef spherical_state *s = <spherical_state *> self
    cdef double v = posterior_variance(s, n), inverse = 0.5 / (s.variance + v), scale = v / s.variance
    if not isfinite(squares):
        return EXPFAM_NUMERICAL
    s.base.n[k] = n
    s.constant[k] = normal_constant(s, v) - inverse * scale * scale * (norm[0] + norm[1])
    s.gain[k] = 2.0 * inverse * scale
    s.lift[k] = lift_of(s, v)
    return EXPFAM_OK


cdef int known_sparse_predictive(void *self, Py_ssize_t i, const Py_ssize_t *ks, Py_ssize_t m,
                                 double *out, double *work) noexcept nogil:
    cdef spherical_state *s = <spherical_state *> self
    cdef Py_ssize_t j, k
    cdef double square = 0.0, product
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
    square = sparse_products(s, i, m, out)
    for k in range(m):
        out[k] = s.constant[k] + s.gain[k] * out[k] + s.lift[k] * square
    return EXPFAM_OK


cdef int known_sparse_self(void *self, Py_ssize_t i, Py_ssize_t k, double *out, double *work) noexcept nogil:
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
    square *= -1.0 if s.has_squares else scale
    out[0] = normal_constant(s, v) + inverse * (square + 2.0 * scale * product - scale * scale * length)
    return EXPFAM_OK


# ---- one variance for each cluster ---------------------------------------------------------------------------------

cdef double own_rising(const spherical_state *s, double n) noexcept nogil:
    cdef Py_ssize_t whole = <Py_ssize_t> n if n < s.table else -1
    cdef double z
    if whole >= 0 and whole == n:
        return s.rising[whole]
    z = s.shape + s.half * n
    return expfam_log_rising1(z, s.half, 16 if z < 16 else 0)


cdef double own_gammas(const spherical_state *s, double n) noexcept nogil:
    cdef Py_ssize_t whole = <Py_ssize_t> n if n < s.table else -1
    if whole >= 0 and whole == n:
        return s.gammas[whole]
    return lgamma(s.shape + s.half * n) - lgamma(s.shape)


cdef inline double own_half(const spherical_state *s, double n) noexcept nogil:
    """Return the shape after one more datum, which is the power of the predictive."""
    return s.shape + s.half * (n + 1.0)


cdef double own_rate(const spherical_state *s, double n, const double *S, double *about) noexcept nogil:
    """Return the posterior rate.

    Set `about` to the squared length of the sums about the prior location.
    """
    cdef double t, squares = 0.0, cross = 0.0
    cdef Py_ssize_t f
    for f in range(s.base.d):
        t = S[f] - n * s.shift[f]
        squares += t * t
        cross += s.shift[f] * (S[f] + t)
    about[0] = squares
    return s.rate + 0.5 * (S[s.base.d] - cross - squares / (s.strength + n))


cdef inline double weight_of(const spherical_state *s, double n, double rate) noexcept nogil:
    cdef double strength = s.strength + n
    return 0.5 * strength / ((strength + 1.0) * rate)


cdef double log1p_length(double weight, const double *t, Py_ssize_t d) noexcept nogil:
    """Return log(1 + weight |t|^2), also if |t|^2 would overflow."""
    cdef double length = length_of(t, d), largest = 0.0, part
    cdef Py_ssize_t f
    if weight * length < 1e290:
        return log1p(weight * length)
    for f in range(d):
        largest = max(largest, fabs(t[f]))
    if not isfinite(largest):
        return INFINITY
    length = 0.0
    for f in range(d):
        part = t[f] / largest
        length += part * part
    return log1p_square(weight * length, largest)


cdef double own_score(const spherical_state *s, const double *x, Py_ssize_t k, double *work) noexcept nogil:
    cdef const double *row = lane_of(s, k)
    cdef Py_ssize_t f
    for f in range(s.base.d):
        work[f] = x[f] - row[(3 + f) * EXPFAM_LANES]
    return row[0] - row[EXPFAM_LANES] * log1p_length(row[2 * EXPFAM_LANES], work, s.base.d)


cdef int own_log_predictive(void *self, Py_ssize_t i, const Py_ssize_t *ks, Py_ssize_t m,
                            double *out, double *work) noexcept nogil:
    cdef spherical_state *s = <spherical_state *> self
    cdef Py_ssize_t j, k
    real_row(&s.base, i, work)
    if ks == NULL:
        if m > s.base.capacity:
            return EXPFAM_RANGE
        if expfam_radial_scan(work, s.block, s.base.d, m, out):
            for k in range(m):
                out[k] = own_score(s, work, k, work + s.base.d)
        return EXPFAM_OK
    for j in range(m):
        k = ks[j]
        if not real_is_slot(&s.base, k):
            return EXPFAM_RANGE
        out[j] = own_score(s, work, k, work + s.base.d)
    return EXPFAM_OK


cdef int own_bounds(void *self, double square, const double *squares, const double *terms, Py_ssize_t m,
                    double *out) noexcept nogil:
    expfam_radial_bounds(squares, terms, terms + m, terms + 2 * m, m, ROUNDING, out)
    return EXPFAM_OK


cdef int own_exact(void *self, const double *x, Py_ssize_t first, Py_ssize_t stop, double *out,
                   double *work) noexcept nogil:
    cdef spherical_state *s = <spherical_state *> self
    if expfam_radial_scan(x, block_of(s, first), s.base.d, stop - first, out + first):
        return EXPFAM_NUMERICAL
    return EXPFAM_OK


cdef double own_own(void *self, Py_ssize_t k, double square, double distance, const double *terms,
                    Py_ssize_t m) noexcept nogil:
    """Return a lower bound of the score of a row in its own slot, from the other data.

    Without the row the rate is lower by half the distance, times the ratio of the strengths. The score rises with it.
    """
    cdef spherical_state *s = <spherical_state *> self
    cdef const double *own = s.base.S + k * s.base.F
    cdef double n = s.base.n[k] - 1.0, before = s.strength + n, after = before + 1.0, top, away
    cdef double whole = 0.5 * after / ((after + 1.0) * terms[2 * m + k]), rate
    # rounding of the sums of squares of which the rate is what is left
    cdef double error = 1e-12 * (whole + own[s.base.d] + after * s.shift_square)
    rate = whole - 0.5 * (after / before) * distance - error
    if not 1e-290 < rate < 1e290:
        return -INFINITY
    top = s.half * log(before / (after * rate)) + own_rising(s, n)
    away = own_half(s, n) * log((whole + error) / rate)
    return top - away - ROUNDING * (1.0 + fabs(top) + away) - 1e-14 * own_half(s, n)


cdef int own_log_predictive_self(void *self, Py_ssize_t i, Py_ssize_t k, double *out, double *work) noexcept nogil:
    """Compute the log predictive of a member from the statistics without it.

    No digits are lost except those that S has lost.
    """
    cdef spherical_state *s = <spherical_state *> self
    cdef Py_ssize_t f, d = s.base.d
    cdef const double *own = s.base.S + k * s.base.F
    cdef double *x = work
    cdef double *t = work + d
    cdef double sums[3]
    cdef double n, strength, before, share, rate, square
    if not real_is_slot(&s.base, k) or s.base.n[k] < 1.0:
        return EXPFAM_RANGE
    real_row(&s.base, i, x)
    n = s.base.n[k] - 1.0
    strength, rate = s.strength + n, s.rate
    if n:
        expfam_sphere_rest(x, own, s.shift, n, d, sums)
        rate += 0.5 * (own[d] - sums[2] - sums[1] - sums[0] / strength)
    if not (1e-300 < rate < 1e300):
        return EXPFAM_NUMERICAL
    before, share, rate = s.strength / strength, 1.0 / strength if n else 0.0, weight_of(s, n, rate)
    square = rate * expfam_sphere_square(x, own, s.shift, before, share, d)
    if square < 1e290:
        square = log1p(square)
    else:
        for f in range(d):
            t[f] = x[f] - (before * s.shift[f] + share * (own[f] - x[f]))
        square = log1p_length(rate, t, d)
    out[0] = s.half * log(2.0 * rate) + own_rising(s, n) - own_half(s, n) * square
    return EXPFAM_OK


cdef int own_commit(void *self, Py_ssize_t k, double n, const double *S) noexcept nogil:
    cdef spherical_state *s = <spherical_state *> self
    cdef Py_ssize_t f, d = s.base.d
    cdef double *row = lane_of(s, k)
    cdef double *own = s.base.S + k * s.base.F
    cdef double about, rate = own_rate(s, n, S, &about), strength = s.strength + n
    if not (1e-300 < rate < 1e300 and isfinite(about)):
        return EXPFAM_NUMERICAL
    rate = weight_of(s, n, rate)
    row[0] = s.half * log(2.0 * rate) + own_rising(s, n)
    row[EXPFAM_LANES] = own_half(s, n)
    row[2 * EXPFAM_LANES] = rate
    for f in range(d):
        row[(3 + f) * EXPFAM_LANES] = s.shift[f] + (S[f] - n * s.shift[f]) / strength
    for f in range(s.base.F):
        own[f] = S[f]
    s.base.n[k] = n
    return EXPFAM_OK


cdef inline double own_size_term(const spherical_state *s, double n) noexcept nogil:
    """Return the part of the log evidence that depends on the number of data only."""
    return own_gammas(s, n) + s.prior_rate + s.half * log(s.strength / (s.strength + n))


cdef int own_evidence(void *self, double n, const double *S, double *out, double *work) noexcept nogil:
    cdef spherical_state *s = <spherical_state *> self
    cdef double about, rate = own_rate(s, n, S, &about)
    if not (1e-300 < rate < 1e300):
        return EXPFAM_NUMERICAL
    out[0] = own_size_term(s, n) - (s.shape + s.half * n) * log(rate)
    return EXPFAM_OK


cdef int own_log_merged(void *self, Py_ssize_t k, const Py_ssize_t *ls, Py_ssize_t m,
                        double *out, double *work) noexcept nogil:
    """Compute the log evidences of pairs, eight pairs together, each in a lane of its own.

    The bits of a result depend neither on which cluster of the pair is k, nor on the other pairs of the call.
    """
    cdef spherical_state *s = <spherical_state *> self
    cdef Py_ssize_t start = 0, i, size, place
    cdef const double *rows[EXPFAM_LANES]
    cdef double n[EXPFAM_LANES]
    cdef double rates[EXPFAM_LANES]
    cdef size_terms terms
    if not real_is_slot(&s.base, k):
        return EXPFAM_RANGE
    forget_sizes(&terms)
    while start < m:
        size = gather_pairs(&s.base, k, ls, start, m, rows, n)
        if size < 0:
            return <int> size
        expfam_merged_radial(s.base.S + k * s.base.F, rows, n, s.shift, s.strength, s.rate, s.base.d, rates)
        for i in range(size):
            if not (1e-300 < rates[i] < 1e300):
                return EXPFAM_NUMERICAL
            place = place_of_size(n[i])
            if terms.n[place] != n[i]:
                terms.n[place] = n[i]
                terms.term[place] = own_size_term(s, n[i])
            out[start + i] = terms.term[place] - (s.shape + s.half * n[i]) * log(rates[i])
        start += EXPFAM_LANES
    return EXPFAM_OK


cdef int own_finish(void *self, Py_ssize_t k, double n, const double *norm, double squares) noexcept nogil:
    """Compute the coefficients of the score of slot k.

    The score is constant - half log(1 + weight (|x|^2 - gain x.S + lift)).
    """
    cdef spherical_state *s = <spherical_state *> self
    cdef double length = norm[0] + norm[1], strength = s.strength + n
    cdef double rate = s.rate + 0.5 * ((squares - norm[0] / strength) - norm[1] / strength)
    if not (1e-300 < rate < 1e300):
        return EXPFAM_NUMERICAL
    s.base.n[k] = n
    s.weight[k] = weight_of(s, n, rate)
    s.constant[k] = s.half * log(2.0 * s.weight[k]) + own_rising(s, n)
    s.gain[k] = 2.0 / strength
    s.lift[k] = length / (strength * strength)
    return EXPFAM_OK


cdef double own_sparse_score(const spherical_state *s, Py_ssize_t k, double product, double square) noexcept nogil:
    cdef double distance = square - s.gain[k] * product + s.lift[k]
    if distance < 0.0:
        distance = 0.0              # rounding
    elif not distance < INFINITY:
        distance = INFINITY         # the square overflows, and the product perhaps too
    return s.constant[k] - own_half(s, s.base.n[k]) * log1p(s.weight[k] * distance)


cdef int own_sparse_predictive(void *self, Py_ssize_t i, const Py_ssize_t *ks, Py_ssize_t m,
                               double *out, double *work) noexcept nogil:
    cdef spherical_state *s = <spherical_state *> self
    cdef Py_ssize_t j, k
    cdef double square = 0.0, product
    if ks != NULL:
        for j in range(m):
            k = ks[j]
            if not real_is_slot(&s.base, k):
                return EXPFAM_RANGE
            product = sparse_inner(s, i, k, &square)
            out[j] = own_sparse_score(s, k, product, square)
        return EXPFAM_OK
    if m > s.base.capacity:
        return EXPFAM_RANGE
    square = sparse_products(s, i, m, out)
    for k in range(m):
        out[k] = own_sparse_score(s, k, out[k], square)
    return EXPFAM_OK


cdef int own_sparse_self(void *self, Py_ssize_t i, Py_ssize_t k, double *out, double *work) noexcept nogil:
    cdef spherical_state *s = <spherical_state *> self
    cdef double n, strength, rate, product, square = 0.0, length, weight, distance
    if not real_is_slot(&s.base, k) or s.base.n[k] < 1.0:
        return EXPFAM_RANGE
    n = s.base.n[k] - 1.0
    strength = s.strength + n
    product = sparse_inner(s, i, k, &square)
    length = s.norm[2 * k] + (s.norm[2 * k + 1] + (square - 2.0 * product)) if n else 0.0
    product = product - square if n else 0.0
    rate = s.rate + 0.5 * (s.base.S[k * s.base.F + s.base.d] - square - length / strength) if n else s.rate
    if not (1e-300 < rate < 1e300):
        return EXPFAM_NUMERICAL
    weight = weight_of(s, n, rate)
    distance = max(0.0, square - 2.0 * product / strength + length / (strength * strength))
    out[0] = s.half * log(2.0 * weight) + own_rising(s, n) - own_half(s, n) * log1p(weight * distance)
    return EXPFAM_OK


cdef int own_line(void *self, Py_ssize_t k, Py_ssize_t l, double depth, growth_line *out) noexcept nogil:
    """Compute the lines of several slopes and write the line that is lowest at `depth`."""
    cdef spherical_state *s = <spherical_state *> self
    cdef growth_part radius
    cdef const double *own = s.base.S + k * s.base.F
    cdef double *both = s.base.fresh
    cdef double n, total, strength, later, rate, later_rate, about = 0.0, later_about = 0.0, t, size, rounding
    cdef double top, later_top, lowest, cross = 0.0
    cdef Py_ssize_t f, d = s.base.d
    if not real_is_slot(&s.base, k) or not real_is_slot(&s.base, l) or s.base.n[k] < 1.0:
        return EXPFAM_RANGE
    for f in range(s.base.F):
        both[f] = own[f] + s.base.S[l * s.base.F + f]
    n = s.base.n[k]
    total = n + s.base.n[l]
    strength, later = s.strength + n, s.strength + total
    rate, later_rate = own_rate(s, n, own, &about), own_rate(s, total, both, &later_about)
    radius.weight, radius.more = weight_of(s, n, rate), weight_of(s, total, later_rate)
    radius.half, radius.further = own_half(s, n), own_half(s, total)
    radius.shift = 0.0
    for f in range(d):
        t = (both[f] - total * s.shift[f]) / later - (own[f] - n * s.shift[f]) / strength
        radius.shift += t * t
        cross += fabs(s.shift[f]) * (fabs(own[f]) + fabs(both[f]) + (n + total + 1.0) * fabs(s.shift[f]))
    radius.shift = sqrt(radius.shift)
    split_squares(&radius)
    top = s.half * log(2.0 * radius.weight) + own_rising(s, n)
    later_top = s.half * log(2.0 * radius.more) + own_rising(s, total)
    # bound of the squares that cancel in a rate; the squares of one more datum do not exceed these and the rate itself
    size = own[d] + both[d] + 8.0 * (cross + about / strength + later_about / later)
    rounding = 512.0 * d + fabs(log(rate)) + fabs(log(later_rate)) + (1.0 + d / 32.0) * size / min(rate, later_rate)
    rounding = radius.further * rounding + fabs(own_gammas(s, total)) + fabs(s.prior_rate)
    lowest = lowest_line(&radius, 1, top, later_top, rounding, s.base.n[l] / total, depth, out)
    return EXPFAM_OK if isfinite(lowest) and isfinite(out.level) else EXPFAM_NUMERICAL


# ---- owners --------------------------------------------------------------------------------------------------------

cdef class SphericalComponents(RealComponents):
    """Base class of the statistics of clusters of a `SphericalGaussian`.

    The data may be dense or CSR; see `RealComponents`.
    """

    cdef spherical_state mine
    cdef distance_scores_v1 terms
    cdef object block, columns, coefficients, prior
    cdef readonly object distances  # capsule of `terms`, of dense data

    cdef void show_distances(self):
        """Offer scores by distances; the functions of the law are set before."""
        cdef spherical_state *s = &self.mine
        self.terms.abi_version, self.terms.struct_size = EXPFAM_ABI, sizeof(distance_scores_v1)
        self.terms.self, self.terms.rises, self.terms.n_columns = s, 0, s.base.d
        self.terms.group, self.terms.work_size, self.terms.n_terms = EXPFAM_LANES, 0, s.head
        self.terms.row, self.terms.location = read_row, sphere_location
        self.distances = PyCapsule_New(&self.terms, DISTANCE_SCORES, NULL)

    cdef int prepare(self, real_state *state) except -1:
        RealComponents.prepare(self, state)
        self.mine.has_squares = state.F - state.d
        if self.data.is_sparse:
            state.shifted, state.commit, state.exchange = sparse_shifted, sparse_commit, sparse_exchange
            self.api.add, self.api.remove = sparse_add, sparse_remove
        else:
            state.shifted, state.exchange = spherical_shifted, spherical_exchange
            self.offer_sums()
        self.api.work_size = 2 * state.d + state.F
        return 0

    cdef int resize(self, Py_ssize_t capacity) except -1:
        cdef spherical_state *s = &self.mine
        cdef Py_ssize_t slots = RealComponents.resize(self, capacity)
        s.slots = slots
        if self.data.is_sparse:
            self.columns, self.coefficients = aligned(slots * s.base.d), aligned(slots * 6)
            s.columns, s.norm = pointer(self.columns), pointer(self.coefficients)
            s.constant, s.gain, s.lift = s.norm + 2 * slots, s.norm + 3 * slots, s.norm + 4 * slots
            s.weight = s.norm + 5 * slots
        else:
            self.block = aligned(slots * (s.head + s.base.d))
            s.block = pointer(self.block)
        return slots

    cdef int take_location(self) except -1:
        shift = np.ascontiguousarray(self.family.mean - self.family.center_, dtype=np.float64)
        self.prior = [shift]
        self.mine.shift, self.mine.half = pointer(shift), 0.5 * self.family.n_varying
        self.mine.shift_square = length_of(self.mine.shift, self.mine.base.d)
        return 0

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
        cdef spherical_state *s = &self.mine
        cdef Py_ssize_t k
        RealComponents.from_arrays(self, arrays)
        if self.data.is_sparse:
            self.coefficients[: 2 * self.capacity] = np.asarray(arrays["norm"]).ravel()
            for k in range(self.capacity):
                s.finish(s, k, s.base.n[k], s.norm + 2 * k, squares_of(s, s.base.S + k * s.base.F))


cdef class KnownComponents(SphericalComponents):
    """Statistics of clusters with one variance, known or shared; see `SphericalComponents`."""

    def __init__(self, family, data, Py_ssize_t capacity):
        cdef spherical_state *s = &self.mine
        self.family, self.data = family, data
        self.prepare(&s.base)
        s.head, s.finish = 2, known_finish
        s.base.evidence = known_evidence
        if data.is_sparse:
            self.api.log_predictive, self.api.log_predictive_self = known_sparse_predictive, known_sparse_self
        else:
            s.base.commit = known_commit
            self.api.log_predictive, self.api.log_predictive_self = known_log_predictive, known_log_predictive_self
            self.terms.bounds, self.terms.exact, self.terms.own = known_bounds, known_exact, known_own
            self.show_distances()
        self.set_prior()
        self.resize(capacity)
        self.rebuild_caches()

    def set_prior(self):
        """Copy the family's hyper-parameters."""
        cdef spherical_state *s = &self.mine
        family = self.family
        self.take_location()
        s.variance = family.shared_variance if s.has_squares else family.variance
        s.mean_variance = family.mean_variance
        s.prior_length = float(self.prior[0] @ self.prior[0]) / s.mean_variance
        s.normaliser = s.half * log(s.variance) if s.has_squares else 0.0


cdef class OwnComponents(SphericalComponents):
    """Statistics of clusters with one variance each; see `SphericalComponents`."""

    cdef log_growth_v1 lines
    cdef readonly object growth     # capsule of `lines`

    def __init__(self, family, data, Py_ssize_t capacity):
        cdef spherical_state *s = &self.mine
        self.family, self.data = family, data
        self.prepare(&s.base)
        s.head, s.finish = 3, own_finish
        s.base.evidence = own_evidence
        self.api.log_merged = own_log_merged
        if data.is_sparse:
            self.api.log_predictive, self.api.log_predictive_self = own_sparse_predictive, own_sparse_self
        else:
            s.base.commit = own_commit
            self.api.log_predictive, self.api.log_predictive_self = own_log_predictive, own_log_predictive_self
            self.terms.bounds, self.terms.exact, self.terms.own = own_bounds, own_exact, own_own
            self.show_distances()
        self.lines.abi_version, self.lines.struct_size = EXPFAM_ABI, sizeof(log_growth_v1)
        self.lines.self, self.lines.line = s, own_line
        self.growth = PyCapsule_New(&self.lines, GROWTH, NULL)
        self.set_prior()
        self.resize(capacity)
        self.rebuild_caches()

    def set_prior(self):
        """Copy the family's hyper-parameters and compute tables of gamma terms by count."""
        cdef spherical_state *s = &self.mine
        cdef Py_ssize_t n
        cdef double z
        cdef double[::1] rising
        family = self.family
        self.take_location()
        s.strength, s.shape, s.rate = family.mean_strength, family.shape, family.rate
        s.prior_rate = s.shape * log(s.rate)
        s.table = min(TABLE, self.data.n_rows + 2)
        table, gammas = np.empty(s.table), gammaln(s.shape + s.half * np.arange(s.table)) - gammaln(s.shape)
        rising = table
        for n in range(s.table):
            z = s.shape + s.half * n
            rising[n] = expfam_log_rising1(z, s.half, 16 if z < 16 else 0)
        self.prior += [table, gammas]
        s.rising, s.gammas = pointer(table), pointer(gammas)
