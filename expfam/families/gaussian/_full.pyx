"""Compiled components of Gaussians with a full covariance, for unknown mean and mean zero.

Each slot keeps the inverse of the Cholesky factor of its posterior scale, contiguous and in panels of rows. A score is
then a triangular product, whose rows do not wait for each other as in a triangular solve. Adding or removing a datum
rotates the inverse (rank one, O(d^2)). The scale is factorised again at a refresh, after 1000 changes of a cluster, and
when the removed datum carried nearly all of the scale in one direction. Up to 24 columns a copy of the inverse is
interleaved ("woven") in blocks of eight clusters, so that one datum is scored against eight clusters in one pass
through memory; with more columns weaving would cost more than it saves. A predictive costs O(d^2). The predictive of a
member needs no change of its cluster: |Psi - c v v'| = |Psi| (1 - c v' Psi^-1 v).
"""

import numpy as np
from scipy.special import gammaln, multigammaln

from libc.math cimport M_LN2, fabs, isfinite, isnan, lgamma, log, log1p, sqrt
from libc.stdint cimport int64_t
from libc.string cimport memcmp, memcpy, memset

from expfam.contracts cimport EXPFAM_NUMERICAL, EXPFAM_OK, EXPFAM_RANGE
from expfam.families.gaussian.storage cimport (
    RealComponents, forget_sizes, gather_pairs, place_of_size, pointer, real_clear, real_is_slot, real_row,
    real_state, size_terms,
)
from expfam.structures.ground.arrays cimport aligned
from expfam.structures.simd.cholesky cimport expfam_cholesky, expfam_scale, expfam_svec_add
from expfam.structures.simd.elementary cimport expfam_log_rising1
from expfam.structures.simd.gaussian_full cimport (
    EXPFAM_PANEL, expfam_gauss_scan, expfam_panel_diagonal, expfam_panel_invert, expfam_panel_rotate, expfam_panel_scan,
    expfam_panel_size, expfam_panel_square, expfam_panel_weave,
)
from expfam.structures.simd.gaussian_lanes cimport EXPFAM_HUGE, EXPFAM_LANES
from expfam.structures.simd.logs cimport expfam_log

cdef extern from *:
    """
    #include "gaussian_lanes.h"

    /* Computes the log determinants of the posterior scales of the EXPFAM_LANES statistics a + rows[l] with n[l] data,
     * from the pivots of L D L'. Each of the statistics has a lane, so that its bits do not depend on the others. Eight
     * pivots share one logarithm unless their product leaves the range of doubles. `first` is the place in a row where
     * the packed squares begin: d, or 0 for mean zero. Returns 1 if a pivot is not positive. `scratch` holds
     * (d (d + 1) / 2 + 3 d + 1) EXPFAM_LANES numbers. */
    #define EXPFAM_MERGED_GAUSS(NAME, TARGET, VECTOR)                                                                 \
        TARGET static int NAME(const double *a, const double *const *all, const double *n, ptrdiff_t first,           \
                               const double *prior, const double *shift, double strength, ptrdiff_t d, double *out,   \
                               double *scratch) {                                                                     \
            enum { WIDTH = EXPFAM_WIDTH(VECTOR) };                                                                    \
            VECTOR *triangle = (VECTOR *)(((uintptr_t)scratch + 63) & ~(uintptr_t)63);                                \
            VECTOR *about = triangle + d * (d + 1) / 2, *sum = about + d, *pivots = sum + d;                          \
            int bad = 0;                                                                                              \
            for (ptrdiff_t start = 0; start < EXPFAM_LANES; start += WIDTH) {                                         \
                const double *const *rows = all + start;                                                              \
                VECTOR count = *(const VECTOR *)(n + start), weight = 1.0 / (strength + count), total = count * 0.0;  \
                VECTOR *to = triangle;                                                                                \
                const double *scale = prior;                                                                          \
                ptrdiff_t f = first;                                                                                  \
                for (ptrdiff_t j = 0; j < d; j++) {                                                                   \
                    VECTOR x = total;                                                                                 \
                    if (first) EXPFAM_PICK(x, rows, j);                                                               \
                    sum[j] = about[j] = x;                                                                            \
                    if (first) sum[j] += a[j];                                                                        \
                    if (first) about[j] = sum[j] - count * shift[j];                                                  \
                }                                                                                                     \
                for (ptrdiff_t j = 0; j < d; j++) {                                                                   \
                    VECTOR u = weight * about[j], t = count * shift[j] - sum[j];                                      \
                    double half = 1.0;                                                                                \
                    for (ptrdiff_t i = j; i < d; i++, f++, to++, scale++) {                                           \
                        VECTOR x = total;                                                                             \
                        EXPFAM_PICK(x, rows, f);                                                                      \
                        x = (x + a[f]) * half;                                                                        \
                        if (first) x = (x - shift[j] * sum[i] + t * shift[i]) - u * about[i];                         \
                        *to = *scale + x;                                                                             \
                        half = 0.70710678118654752;                                                                   \
                    }                                                                                                 \
                }                                                                                                     \
                to = triangle;                                                                                        \
                for (ptrdiff_t j = 0; j < d; j++) {                                                                   \
                    VECTOR inverse = 1.0 / to[0], *target = to + (d - j);                                             \
                    pivots[j] = to[0];                                                                                \
                    for (ptrdiff_t k = 1; k < d - j; k++) {                                                           \
                        VECTOR factor = to[k] * inverse;                                                              \
                        for (ptrdiff_t i = k; i < d - j; i++) *target++ -= to[i] * factor;                            \
                    }                                                                                                 \
                    to += d - j;                                                                                      \
                }                                                                                                     \
                for (ptrdiff_t j = 0; j < d; j += 8) {                                                                \
                    VECTOR product = pivots[j], logs;                                                                 \
                    double lanes[EXPFAM_LANES], pivot[EXPFAM_LANES];                                                  \
                    for (ptrdiff_t i = j + 1; i < d && i < j + 8; i++) product *= pivots[i];                          \
                    memcpy(lanes, &product, sizeof product);                                                          \
                    EXPFAM_SIMD                                                                                       \
                    for (ptrdiff_t l = 0; l < WIDTH; l++) lanes[l] = expfam_log1(lanes[l]);                           \
                    memcpy(&logs, lanes, sizeof logs);                                                                \
                    memcpy(lanes, &product, sizeof product);                                                          \
                    for (ptrdiff_t l = 0; l < WIDTH; l++) bad |= !(lanes[l] > 1e-290 && lanes[l] < 1e290);            \
                    if (bad) {                                                                                        \
                        double each[EXPFAM_LANES];                                                                    \
                        memcpy(each, &logs, sizeof logs);                                                             \
                        bad = 0;                                                                                      \
                        for (ptrdiff_t l = 0; l < WIDTH; l++) {                                                       \
                            if (lanes[l] > 1e-290 && lanes[l] < 1e290) continue;                                      \
                            each[l] = 0.0;                                                                            \
                            for (ptrdiff_t i = j; i < d && i < j + 8; i++) {                                          \
                                memcpy(pivot, pivots + i, sizeof product);                                            \
                                each[l] += expfam_log1(pivot[l]);                                                     \
                            }                                                                                         \
                        }                                                                                             \
                        memcpy(&logs, each, sizeof logs);                                                             \
                    }                                                                                                 \
                    total += logs;                                                                                    \
                }                                                                                                     \
                for (ptrdiff_t j = 0; j < d; j++) {                                                                   \
                    double pivot[EXPFAM_LANES];                                                                       \
                    memcpy(pivot, pivots + j, sizeof total);                                                          \
                    for (ptrdiff_t l = 0; l < WIDTH; l++) if (!(pivot[l] > 0.0 && pivot[l] < INFINITY)) return 1;     \
                }                                                                                                     \
                memcpy(out + start, &total, sizeof total);                                                            \
            }                                                                                                         \
            return 0;                                                                                                 \
        }
    EXPFAM_LANE_INSTANCES(EXPFAM_MERGED_GAUSS, int, expfam_merged_gauss,
                          (const double *, const double *const *, const double *, ptrdiff_t, const double *,
                           const double *, double, ptrdiff_t, double *, double *))
    /* Computes the log determinants of the posterior scales of pairs of data, minus the log determinant of the prior
     * scale, with a partner in each lane. `own` and all[l] hold a whitened datum y, followed by |y|^2. The scale of y
     * and z is L (I + y y' + z z' - t (y + z)(y + z)') L'. The formula is symmetric in y and z in every operation, so
     * that the bits do not depend on their order. */
    #define EXPFAM_DATA_PAIRS(NAME, TARGET, VECTOR)                                                                   \
        TARGET static void NAME(const double *own, const double *const *all, double t, ptrdiff_t d, double *out) {    \
            enum { WIDTH = EXPFAM_WIDTH(VECTOR) };                                                                    \
            for (ptrdiff_t start = 0; start < EXPFAM_LANES; start += WIDTH) {                                         \
                const double *const *rows = all + start;                                                              \
                VECTOR inner = {0}, x = {0}, det;                                                                     \
                for (ptrdiff_t j = 0; j < d; j++) {                                                                   \
                    EXPFAM_PICK(x, rows, j);                                                                          \
                    inner += x * own[j];                                                                              \
                }                                                                                                     \
                EXPFAM_PICK(x, rows, d);                                                                              \
                det = (1.0 - 2.0 * t) * (x * own[d] - inner * inner) - 2.0 * t * inner;                               \
                det += 1.0 + (1.0 - t) * (x + own[d]);                                                                \
                EXPFAM_LOG_LANES(VECTOR, det);                                                                        \
                memcpy(out + start, &det, sizeof det);                                                                \
            }                                                                                                         \
        }
    EXPFAM_LANE_INSTANCES(EXPFAM_DATA_PAIRS, void, expfam_data_pairs,
                          (const double *, const double *const *, double, ptrdiff_t, double *))

    /* Computes log(1 + weight |W (x - location)|^2), with a datum x in each lane: the amount that x adds to the log
     * determinant of a cluster's scale. It is NaN where the square is too large. The woven rows of W have EXPFAM_LANES
     * numbers for each entry, of which the first is read. `scratch` holds (d + 1) EXPFAM_LANES numbers. */
    #define EXPFAM_DATUM_GROWTH(NAME, TARGET, VECTOR)                                                                 \
        TARGET static void NAME(const double *woven, const double *location, double weight,                           \
                                const double *const *all, ptrdiff_t d, double *out, double *scratch) {                \
            enum { WIDTH = EXPFAM_WIDTH(VECTOR) };                                                                    \
            VECTOR *v = (VECTOR *)(((uintptr_t)scratch + 63) & ~(uintptr_t)63);                                       \
            for (ptrdiff_t start = 0; start < EXPFAM_LANES; start += WIDTH) {                                         \
                const double *const *rows = all + start, *w = woven;                                                  \
                VECTOR zero = {0}, square = {0};                                                                      \
                double squares[EXPFAM_LANES];                                                                         \
                for (ptrdiff_t i = 0; i < d; i++) {                                                                   \
                    VECTOR sum = zero;                                                                                \
                    EXPFAM_PICK(sum, rows, i);                                                                        \
                    v[i] = sum - location[i];                                                                         \
                    sum = zero;                                                                                       \
                    for (ptrdiff_t j = 0; j <= i; j++, w += EXPFAM_LANES) sum += v[j] * w[0];                         \
                    square += sum * sum;                                                                              \
                }                                                                                                     \
                square = 1.0 + weight * square;                                                                       \
                memcpy(squares, &square, sizeof square);                                                              \
                EXPFAM_LOG_LANES(VECTOR, square);                                                                     \
                memcpy(out + start, &square, sizeof square);                                                          \
                for (ptrdiff_t l = 0; l < WIDTH; l++) if (!(squares[l] < 1e290)) out[start + l] = NAN;                \
            }                                                                                                         \
        }
    EXPFAM_LANE_INSTANCES(EXPFAM_DATUM_GROWTH, void, expfam_datum_growth,
                          (const double *, const double *, double, const double *const *, ptrdiff_t, double *,
                           double *))
    """
    int (*expfam_merged_gauss)(const double *a, const double *const *rows, const double *n, Py_ssize_t first,
                               const double *prior, const double *shift, double strength, Py_ssize_t d, double *out,
                               double *scratch) noexcept nogil
    void (*expfam_data_pairs)(const double *own, const double *const *rows, double t, Py_ssize_t d,
                              double *out) noexcept nogil
    void (*expfam_datum_growth)(const double *woven, const double *location, double weight, const double *const *rows,
                                Py_ssize_t d, double *out, double *scratch) noexcept nogil

cdef Py_ssize_t MERGED_UP_TO = 48       # columns; up to here the triangles of eight pairs fit in the second-level cache
cdef Py_ssize_t TABLE = 4096            # tables hold the gamma terms of smaller counts
cdef Py_ssize_t WOVEN_UP_TO = 24        # columns; at 32 weaving doubles the cost of a change, saves a third of a scan
cdef int64_t REFACTOR_AFTER = 1000      # rotations of one cluster
cdef double LEAST_REST = 1e-3           # below it 1 - c v' Psi^-1 v has lost digits: factorise the rest instead
cdef double LONGEST_PAIRED = 1e4        # largest |y|^2 of whitened data for which products of two keep enough digits
cdef double LARGEST_ROTATED = 1e140     # entries of a datum up to here: sums of squares cannot overflow

ctypedef struct gauss_state:
    real_state base
    int zero_mean
    int woven                       # whether blocks also hold the factors
    Py_ssize_t padded               # d rounded up to whole panels
    Py_ssize_t rows                 # of a block: 3, or 3 + d + d (d + 1) / 2 if woven
    double *block                   # (slots / 8, rows, 8): see expfam_gauss_scan, expfam_panel_scan
    double *factor                  # (slots, width): location (padded), panels, their diagonal (padded)
    Py_ssize_t diagonal             # place in a factor where the diagonal begins
    Py_ssize_t width
    Py_ssize_t room                 # numbers of scratch behind a factor that is computed
    double *log_det                 # (slots,)
    int64_t *changes                # (slots,) rotations since the last factorisation
    int pairs_data                  # whether `datum` is in use: unknown mean and few columns
    double *datum                   # (slots, 2 d + 1) for slots with one datum: whitened datum, its square, datum
    double *spare                   # (width + room,) scratch of the writing thread
    double *vector                  # (6 padded + 8,) scratch too
    const double *shift             # (d,) prior location about the centre, zeros for mean zero
    const double *scale             # (d (d + 1) / 2,) prior scale by columns
    double strength
    double dof
    double *prior_factor            # (width + room,)
    double prior_log_det
    const double *rising            # (table,) d/2 log 2 + lgamma((nun + 1) / 2) - lgamma((nun + 1 - d) / 2)
    const double *gammas            # (table,) n d / 2 log 2 + lgG_d(nun / 2) - lgG_d(nu0 / 2)
    Py_ssize_t table


cdef double gauss_rising(const gauss_state *s, double n) noexcept nogil:
    cdef Py_ssize_t whole = <Py_ssize_t> n if n < s.table else -1
    cdef double z = 0.5 * (s.dof + n + 1.0 - s.base.d)
    if whole >= 0 and whole == n:
        return s.rising[whole]
    return 0.5 * s.base.d * M_LN2 + expfam_log_rising1(z, 0.5 * s.base.d, 16 if z < 16 else 0)


cdef double gauss_gammas(const gauss_state *s, double n) noexcept nogil:
    cdef Py_ssize_t j, whole = <Py_ssize_t> n if n < s.table else -1
    cdef double total = 0.5 * n * s.base.d * M_LN2
    if whole >= 0 and whole == n:
        return s.gammas[whole]
    for j in range(s.base.d):
        total += lgamma(0.5 * (s.dof + n - j)) - lgamma(0.5 * (s.dof - j))
    return total


cdef int gauss_triangle(const gauss_state *s, double n, const double *S, double *location, double *triangle,
                        double *diagonal) noexcept nogil:
    """Compute location and Cholesky factor of the posterior of (n, S); nonzero if not definite."""
    cdef Py_ssize_t j, d = s.base.d
    cdef double strength = s.strength + n
    cdef const double *second = S if s.zero_mean else S + d
    cdef const double *first = s.shift if s.zero_mean else S
    for j in range(d):
        location[j] = 0.0 if s.zero_mean else S[j] - n * s.shift[j]
    expfam_scale(s.scale, second, first, s.shift, n, location, 0.0 if s.zero_mean else 1.0 / strength, triangle, d)
    if expfam_cholesky(triangle, d):
        return 1
    for j in range(d):
        location[j] = 0.0 if s.zero_mean else s.shift[j] + location[j] / strength
        diagonal[j] = 1.0 / triangle[0]
        triangle += d - j
        if not isfinite(diagonal[j]):
            return 1
    return 0


cdef int gauss_factor(const gauss_state *s, double n, const double *S, double *out) noexcept nogil:
    """Compute the factor that a slot with (n, S) keeps; return nonzero if it is not definite.

    `out` holds width + room numbers.
    """
    cdef Py_ssize_t d = s.base.d
    cdef double *triangle = out + s.width
    if gauss_triangle(s, n, S, out, triangle, out + s.diagonal):
        return 1
    expfam_panel_invert(triangle, out + s.diagonal, out + s.padded, d, triangle + d * (d + 1) // 2)
    return 0


cdef double log_det_of(const double *diagonal, Py_ssize_t d, double *logs) noexcept nogil:
    """Return the log determinant from reciprocals of the diagonal of the Cholesky factor.

    `logs` is scratch for d numbers.
    """
    cdef Py_ssize_t j
    cdef double total = 0.0
    expfam_log(diagonal, logs, d)
    for j in range(d):
        total += logs[j]
    return -2.0 * total


cdef inline double gauss_square(const gauss_state *s, const double *factor, double *v) noexcept nogil:
    """Return v' Psi^-1 v.

    `v` holds 2 padded numbers. The second half becomes the solution, with the padding in front of it.
    """
    return expfam_panel_square(factor + s.padded, v, s.base.d, v + s.padded)


cdef double gauss_constant(const gauss_state *s, double n, double log_det) noexcept nogil:
    cdef double strength = s.strength + n, shrink = 0.0
    if not s.zero_mean:
        shrink = 0.5 * s.base.d * log(strength / (strength + 1.0))
    return gauss_rising(s, n) + shrink - 0.5 * log_det


cdef double gauss_weight(const gauss_state *s, double n) noexcept nogil:
    return 1.0 if s.zero_mean else (s.strength + n) / (s.strength + n + 1.0)


cdef double gauss_score(const gauss_state *s, const double *x, const double *factor, double constant, double half,
                        double weight, double *v) noexcept nogil:
    """Return the log predictive of x under one factor.

    An outlier is scaled so that its square stays in the range of doubles.
    """
    cdef Py_ssize_t j, d = s.base.d
    cdef double square, largest = 0.0
    for j in range(d):
        v[j] = x[j] - factor[j]
    square = weight * gauss_square(s, factor, v)
    if square < 1e290:
        return constant - half * log1p(square)
    for j in range(d):
        v[j] = x[j] - factor[j]
        largest = max(largest, fabs(v[j]))
    for j in range(d):
        v[j] /= largest
    square = weight * gauss_square(s, factor, v)
    return constant - half * (2.0 * log(largest) + log(square))


cdef double gauss_score_slot(const gauss_state *s, const double *x, Py_ssize_t k, double *v) noexcept nogil:
    cdef const double *row = s.block + (k // EXPFAM_LANES) * s.rows * EXPFAM_LANES + k % EXPFAM_LANES
    return gauss_score(s, x, s.factor + k * s.width, row[0], row[EXPFAM_LANES], row[2 * EXPFAM_LANES], v)


cdef int gauss_log_predictive(void *self, Py_ssize_t i, const Py_ssize_t *ks, Py_ssize_t m,
                              double *out, double *work) noexcept nogil:
    cdef gauss_state *s = <gauss_state *> self
    cdef Py_ssize_t j, d = s.base.d
    cdef int wild
    real_row(&s.base, i, work)
    if ks == NULL:
        if m > s.base.capacity:
            return EXPFAM_RANGE
        if s.woven:
            wild = expfam_gauss_scan(work, s.block, d, m, out, work + d)
        else:
            for j in range(d, s.padded):    # the scan subtracts whole vectors
                work[j] = 0.0
            wild = expfam_panel_scan(work, s.block, s.factor, s.width, d, m, out, work + s.padded)
        if wild:
            for j in range(m):
                out[j] = gauss_score_slot(s, work, j, work + d)
        return EXPFAM_OK
    for j in range(m):
        if not real_is_slot(&s.base, ks[j]):
            return EXPFAM_RANGE
        out[j] = gauss_score_slot(s, work, ks[j], work + d)
    return EXPFAM_OK


cdef int gauss_log_predictive_self(void *self, Py_ssize_t i, Py_ssize_t k, double *out, double *work) noexcept nogil:
    cdef gauss_state *s = <gauss_state *> self
    cdef Py_ssize_t j, d = s.base.d
    cdef double *v = work + d
    cdef double *S = v + 2 * s.padded
    cdef double *factor = S + s.base.F
    cdef const double *own = s.factor + k * s.width
    cdef double n, strength, rest, shrink = 0.0, ratio = 1.0
    if not real_is_slot(&s.base, k) or s.base.n[k] < 1.0:
        return EXPFAM_RANGE
    real_row(&s.base, i, work)
    n = s.base.n[k] - 1.0
    if n == 0.0:
        out[0] = gauss_score(s, work, s.prior_factor, gauss_constant(s, 0.0, s.prior_log_det), 0.5 * (s.dof + 1.0),
                             gauss_weight(s, 0.0), v)
        return EXPFAM_OK
    for j in range(d):
        v[j] = work[j] - own[j]
    if not s.zero_mean:
        strength = s.strength + n + 1.0
        ratio = strength / (strength - 1.0)
        shrink = -0.5 * d * log(ratio)
    rest = ratio * gauss_square(s, own, v)
    if rest < 1.0 - LEAST_REST:
        out[0] = gauss_rising(s, n) + shrink - 0.5 * s.log_det[k] + 0.5 * (s.dof + n) * log1p(-rest)
        return EXPFAM_OK
    gauss_shift(s, work, -1.0, s.base.S + k * s.base.F, S)
    if gauss_factor(s, n, S, factor):
        return EXPFAM_NUMERICAL
    out[0] = gauss_score(s, work, factor, gauss_constant(s, n, log_det_of(factor + s.diagonal, d, factor + s.width)),
                         0.5 * (s.dof + n + 1.0), gauss_weight(s, n), v)
    return EXPFAM_OK


cdef void gauss_shift(const gauss_state *s, const double *x, double sign, const double *S, double *out) noexcept nogil:
    cdef Py_ssize_t j, d = s.base.d
    if s.zero_mean:
        expfam_svec_add(S, x, sign, out, d)
        return
    for j in range(d):
        out[j] = S[j] + sign * x[j]
    expfam_svec_add(S + d, x, sign, out + d, d)


cdef void gauss_shifted(void *self, Py_ssize_t i, double sign, const double *S, double *out, double *x) noexcept nogil:
    cdef gauss_state *s = <gauss_state *> self
    real_row(&s.base, i, x)
    gauss_shift(s, x, sign, S, out)


cdef void gauss_install(gauss_state *s, Py_ssize_t k, double n) noexcept nogil:
    """Compute the caches of slot k from its count and its factor."""
    cdef Py_ssize_t j, d = s.base.d
    cdef const double *factor = s.factor + k * s.width
    cdef double *row = s.block + (k // EXPFAM_LANES) * s.rows * EXPFAM_LANES + k % EXPFAM_LANES
    s.base.n[k] = n
    s.log_det[k] = log_det_of(factor + s.diagonal, d, s.vector)
    row[0] = gauss_constant(s, n, s.log_det[k])
    row[EXPFAM_LANES] = 0.5 * (s.dof + n + 1.0)
    row[2 * EXPFAM_LANES] = gauss_weight(s, n)
    if s.woven:
        for j in range(d):
            row[(3 + j) * EXPFAM_LANES] = factor[j]
        expfam_panel_weave(factor + s.padded, row + (3 + d) * EXPFAM_LANES, d)
    if s.pairs_data:
        gauss_keep_datum(s, k)


cdef void gauss_keep_datum(gauss_state *s, Py_ssize_t k) noexcept nogil:
    """Store the datum of slot k for merged evidences, if the slot holds exactly one datum.

    Otherwise the stored square becomes -1.
    """
    cdef Py_ssize_t j, d = s.base.d
    cdef size_t size = (s.base.F - d) * sizeof(double)
    cdef const double *S = s.base.S + k * s.base.F
    cdef double *datum = s.datum + k * (2 * d + 1)
    cdef double *v = s.vector
    datum[d] = -1.0
    if s.base.n[k] != 1.0:
        return
    memset(s.spare, 0, size)
    expfam_svec_add(s.spare, S, 1.0, s.spare, d)
    if memcmp(s.spare, S + d, size):        # fractions of several data, or rounding left by many
        return
    for j in range(d):
        v[j] = S[j] - s.shift[j]
        datum[d + 1 + j] = S[j]
    datum[d] = gauss_square(s, s.prior_factor, v)
    memcpy(datum, v + 2 * s.padded - d, d * sizeof(double))


cdef void gauss_store(gauss_state *s, Py_ssize_t k, double n, const double *S, const double *factor,
                      int64_t changes) noexcept nogil:
    if S != s.base.S + k * s.base.F:
        memcpy(s.base.S + k * s.base.F, S, s.base.F * sizeof(double))
    memcpy(s.factor + k * s.width, factor, s.width * sizeof(double))
    s.changes[k] = changes
    gauss_install(s, k, n)


cdef int gauss_commit(void *self, Py_ssize_t k, double n, const double *S) noexcept nogil:
    cdef gauss_state *s = <gauss_state *> self
    if n == 0.0:
        gauss_store(s, k, n, S, s.prior_factor, 0)
        return EXPFAM_OK
    if gauss_factor(s, n, S, s.spare):
        return EXPFAM_NUMERICAL
    gauss_store(s, k, n, S, s.spare, 0)
    return EXPFAM_OK


cdef int gauss_move(gauss_state *s, Py_ssize_t i, Py_ssize_t k, double sign) noexcept nogil:
    """Add or remove one datum by rotating the factor of slot k.

    The scale is factorised again if the rotation would lose digits.
    """
    cdef Py_ssize_t j, d = s.base.d
    cdef double n = s.base.n[k], strength = s.strength + n, root = 1.0, largest = 0.0
    cdef double *x = s.base.fresh + s.base.F
    cdef double *S = s.base.S + k * s.base.F
    cdef double *own = s.factor + k * s.width
    cdef double *v = s.vector
    real_row(&s.base, i, x)
    if not s.zero_mean:
        root = sqrt(strength / (strength + sign))
    for j in range(d):
        v[j] = root * (x[j] - own[j])
        largest = max(largest, fabs(x[j]))
    if (
        largest < LARGEST_ROTATED and s.changes[k] + 1 < REFACTOR_AFTER
        and gauss_square(s, own, v) < EXPFAM_HUGE
        and not expfam_panel_rotate(own + s.padded, v + s.padded, sign, LEAST_REST, d, v + 2 * s.padded)
    ):
        gauss_shift(s, x, sign, S, S)
        if not s.zero_mean:
            for j in range(d):
                own[j] = s.shift[j] + (S[j] - (n + sign) * s.shift[j]) / (strength + sign)
        expfam_panel_diagonal(own + s.padded, own + s.diagonal, d)
        s.changes[k] += 1
        gauss_install(s, k, n + sign)
        return EXPFAM_OK
    gauss_shift(s, x, sign, S, s.base.fresh)
    return gauss_commit(s, k, n + sign, s.base.fresh)


cdef int gauss_add(void *self, Py_ssize_t i, Py_ssize_t k) noexcept nogil:
    cdef gauss_state *s = <gauss_state *> self
    return gauss_move(s, i, k, 1.0) if real_is_slot(&s.base, k) else EXPFAM_RANGE


cdef int gauss_remove(void *self, Py_ssize_t i, Py_ssize_t k) noexcept nogil:
    cdef gauss_state *s = <gauss_state *> self
    if not real_is_slot(&s.base, k) or s.base.n[k] < 1.0:
        return EXPFAM_RANGE
    return real_clear(self, k) if s.base.n[k] == 1.0 else gauss_move(s, i, k, -1.0)


cdef double gauss_size_term(const gauss_state *s, double n) noexcept nogil:
    """Return the terms of the evidence that depend only on the number of data."""
    cdef double shrink = 0.0 if s.zero_mean else 0.5 * s.base.d * log(s.strength / (s.strength + n))
    return gauss_gammas(s, n) + 0.5 * s.dof * s.prior_log_det + shrink


cdef inline double gauss_evidence_of(const gauss_state *s, double n, double log_det) noexcept nogil:
    return gauss_size_term(s, n) - 0.5 * (s.dof + n) * log_det


cdef int gauss_evidence(void *self, double n, const double *S, double *out, double *work) noexcept nogil:
    cdef gauss_state *s = <gauss_state *> self
    cdef Py_ssize_t d = s.base.d
    if gauss_triangle(s, n, S, work, work + 2 * d, work + d):
        return EXPFAM_NUMERICAL
    out[0] = gauss_evidence_of(s, n, log_det_of(work + d, d, work))
    return EXPFAM_OK


cdef int gauss_log_marginal(void *self, const Py_ssize_t *ks, Py_ssize_t m, double *out, double *work) noexcept nogil:
    cdef gauss_state *s = <gauss_state *> self
    cdef Py_ssize_t j, k
    for j in range(m):
        k = j if ks == NULL else ks[j]
        if not real_is_slot(&s.base, k):
            return EXPFAM_RANGE
        out[j] = gauss_evidence_of(s, s.base.n[k], s.log_det[k]) if s.base.n[k] else 0.0
    return EXPFAM_OK


cdef inline bint has_short_way(const gauss_state *s, Py_ssize_t k, Py_ssize_t l) noexcept nogil:
    """Return whether the pair of slots needs no factorisation of its merged scale.

    That is so if exactly one slot holds one datum, or if both do and their data are close to the prior. The answer does
    not depend on the order of the slots.
    """
    cdef double own, other
    if not s.pairs_data:
        return False
    own = s.datum[k * (2 * s.base.d + 1) + s.base.d]
    other = s.datum[l * (2 * s.base.d + 1) + s.base.d]
    if own >= 0.0 and other >= 0.0:
        return own <= LONGEST_PAIRED and other <= LONGEST_PAIRED
    return own >= 0.0 or other >= 0.0


cdef void grow_cluster(const gauss_state *s, Py_ssize_t k, const double **data, const double *woven, double *log_det,
                       double *work) noexcept nogil:
    """Compute the log determinants of cluster k together with each of EXPFAM_LANES data."""
    cdef Py_ssize_t i
    expfam_datum_growth(woven, s.factor + k * s.width, gauss_weight(s, s.base.n[k]), data, s.base.d, log_det, work)
    for i in range(EXPFAM_LANES):
        log_det[i] += s.log_det[k]


cdef void merge_short(const gauss_state *s, Py_ssize_t k, const Py_ssize_t *others, const double *woven,
                      double *log_det, double *work) noexcept nogil:
    """Compute the log determinants of the pairs with k that need no factorisation.

    Lanes of other pairs are undefined.
    """
    cdef Py_ssize_t i, j, d = s.base.d, step = 2 * d + 1, n_data = 0
    cdef const double *data[EXPFAM_LANES]
    cdef double each[EXPFAM_LANES]
    cdef double *own_woven = work + (d + 1) * EXPFAM_LANES
    for i in range(EXPFAM_LANES):
        data[i] = s.datum + others[i] * step
        n_data += data[i][d] >= 0.0
    if s.datum[k * step + d] < 0.0:
        for i in range(EXPFAM_LANES):
            data[i] += d + 1
        grow_cluster(s, k, data, woven, log_det, work)
        return
    expfam_data_pairs(s.datum + k * step, data, 1.0 / (s.strength + 2.0), d, log_det)
    for i in range(EXPFAM_LANES):
        log_det[i] += s.prior_log_det
    if n_data == EXPFAM_LANES:
        return
    for i in range(EXPFAM_LANES):   # k is the datum, in every lane; rare, since younger clusters look for older ones
        if s.datum[others[i] * step + d] < 0.0:
            for j in range(EXPFAM_LANES):
                data[j] = s.datum + k * step + d + 1
            expfam_panel_weave(s.factor + others[i] * s.width + s.padded, own_woven, d)
            grow_cluster(s, others[i], data, own_woven, each, work)
            log_det[i] = each[i]


cdef int gauss_log_merged(void *self, Py_ssize_t k, const Py_ssize_t *ls, Py_ssize_t m,
                          double *out, double *work) noexcept nogil:
    """Compute the log evidences of pairs, eight pairs together, each in a lane of its own.

    The bits of a result depend neither on which cluster of the pair is k, nor on the other pairs of the call. Pairs of
    two data, and of a datum and a cluster, need no factorisation; the choice depends only on the two slots.
    """
    cdef gauss_state *s = <gauss_state *> self
    cdef Py_ssize_t start = 0, i, size, place, other = 0, n_short, d = s.base.d
    cdef const double *rows[EXPFAM_LANES]
    cdef Py_ssize_t others[EXPFAM_LANES]
    cdef bint short_way[EXPFAM_LANES]
    cdef double n[EXPFAM_LANES]
    cdef double log_det[EXPFAM_LANES]
    cdef double quick[EXPFAM_LANES]
    cdef double *spare = work + (d * (d + 1) // 2 + 3 * d + 1) * EXPFAM_LANES
    cdef double *woven = spare + (d * (d + 3) // 2 + 1) * EXPFAM_LANES
    cdef bint is_woven = False
    cdef size_terms terms
    if not real_is_slot(&s.base, k):
        return EXPFAM_RANGE
    forget_sizes(&terms)
    while start < m:
        size = min(EXPFAM_LANES, m - start)
        n_short = 0
        for i in range(EXPFAM_LANES):
            if i < size:
                other = start + i if ls == NULL else ls[start + i]
                if not real_is_slot(&s.base, other):
                    return EXPFAM_RANGE
            others[i] = other
            n[i] = s.base.n[k] + s.base.n[other]
            short_way[i] = has_short_way(s, k, other)
            n_short += i < size and short_way[i]
        if n_short:
            if not is_woven and s.datum[k * (2 * d + 1) + d] < 0.0:
                expfam_panel_weave(s.factor + k * s.width + s.padded, woven, d)
                is_woven = True
            merge_short(s, k, others, woven, quick, spare)
            for i in range(size):
                if short_way[i] and isnan(quick[i]):
                    short_way[i] = False
                    n_short -= 1
        if n_short < size:
            gather_pairs(&s.base, k, ls, start, m, rows, n)
            if expfam_merged_gauss(s.base.S + k * s.base.F, rows, n, 0 if s.zero_mean else d, s.scale, s.shift,
                                   s.strength, d, log_det, work):
                return EXPFAM_NUMERICAL
        for i in range(size):
            place = place_of_size(n[i])
            if terms.n[place] != n[i]:
                terms.n[place] = n[i]
                terms.term[place] = gauss_size_term(s, n[i])
            out[start + i] = terms.term[place] - 0.5 * (s.dof + n[i]) * (quick[i] if short_way[i] else log_det[i])
        start += EXPFAM_LANES
    return EXPFAM_OK


cdef void gauss_exchange(void *self, Py_ssize_t k, Py_ssize_t l) noexcept nogil:
    cdef gauss_state *s = <gauss_state *> self
    cdef size_t size = s.width * sizeof(double)
    cdef int64_t changes = s.changes[k]
    memcpy(s.spare, s.factor + k * s.width, size)
    memcpy(s.factor + k * s.width, s.factor + l * s.width, size)
    memcpy(s.factor + l * s.width, s.spare, size)
    s.changes[k] = s.changes[l]
    s.changes[l] = changes
    gauss_install(s, k, s.base.n[k])
    gauss_install(s, l, s.base.n[l])


cdef class GaussianComponents(RealComponents):
    """Statistics of the clusters of a `Gaussian` or a `ZeroMeanGaussian`; see `RealComponents`."""

    cdef gauss_state mine
    cdef object block, factor, log_det, changes, datum, scratch, prior_arrays

    def __init__(self, family, data, Py_ssize_t capacity):
        cdef gauss_state *s = &self.mine
        self.family, self.data = family, data
        self.prepare(&s.base)
        d = s.base.d
        s.woven = d <= WOVEN_UP_TO
        s.padded = (d + EXPFAM_PANEL - 1) // EXPFAM_PANEL * EXPFAM_PANEL
        s.rows = 3 + d + d * (d + 1) // 2 if s.woven else 3
        s.diagonal = s.padded + expfam_panel_size(d)
        s.width = s.diagonal + s.padded
        s.room = d * (d + 1) // 2 + (EXPFAM_PANEL + 1) * d
        s.zero_mean = s.base.F < d + d * (d + 1) // 2
        s.base.shifted = gauss_shifted
        s.base.commit = gauss_commit
        s.base.evidence = gauss_evidence
        s.base.exchange = gauss_exchange
        self.api.log_predictive = gauss_log_predictive
        self.api.log_predictive_self = gauss_log_predictive_self
        self.api.log_marginal = gauss_log_marginal
        self.api.add, self.api.remove = gauss_add, gauss_remove
        self.api.work_size = s.base.F + s.width + s.room + 12 * s.padded + EXPFAM_LANES
        if d <= MERGED_UP_TO:
            self.api.log_merged = gauss_log_merged
            self.api.work_size = max(self.api.work_size, (3 * d * (d + 1) // 2 + 5 * d + 3) * EXPFAM_LANES)
        self.scratch = np.zeros(s.width + s.room + 6 * s.padded + EXPFAM_LANES)
        s.spare = pointer(self.scratch)
        s.vector = s.spare + s.width + s.room
        self.set_prior()
        self.resize(capacity)
        self.rebuild_caches()

    cdef int resize(self, Py_ssize_t capacity) except -1:
        cdef gauss_state *s = &self.mine
        cdef Py_ssize_t slots = RealComponents.resize(self, capacity)
        self.block, self.factor = aligned(slots * s.rows), aligned(slots * s.width)
        self.log_det, self.changes = aligned(slots), np.zeros(slots, dtype=np.int64)
        s.block, s.factor, s.log_det = pointer(self.block), pointer(self.factor), pointer(self.log_det)
        s.changes = <int64_t *><void *> pointer(self.changes)
        s.pairs_data = not s.zero_mean and s.base.d <= MERGED_UP_TO
        self.datum = aligned(slots * (2 * s.base.d + 1) if s.pairs_data else 1)
        s.datum = pointer(self.datum)
        return slots

    def set_prior(self):
        """Copy the family's hyper-parameters; compute the prior's factor and tables of gamma terms.

        The tables are indexed by the number of data.
        """
        cdef gauss_state *s = &self.mine
        family = self.family
        d = s.base.d
        s.dof = family.dof
        s.strength = 1.0 if s.zero_mean else family.mean_strength
        shift = np.zeros(d) if s.zero_mean else np.ascontiguousarray(family.mean - family.center_, dtype=np.float64)
        s.table = min(TABLE, self.data.n_rows + 2)
        n = np.arange(s.table)
        half = 0.5 * (s.dof + n)
        rising = 0.5 * d * np.log(2.0) + gammaln(half + 0.5) - gammaln(half + 0.5 - 0.5 * d)
        gammas = 0.5 * n * d * np.log(2.0) + multigammaln(half, d) - multigammaln(half[0], d)
        scale = np.ascontiguousarray(np.asarray(family.scale, dtype=np.float64)[np.triu_indices(d)])
        factor = np.zeros(s.width + s.room)
        self.prior_arrays = [shift, scale, rising, gammas, factor]
        s.shift, s.scale, s.prior_factor = pointer(shift), pointer(scale), pointer(factor)
        s.rising, s.gammas = pointer(rising), pointer(gammas)
        zeros = np.zeros(s.base.F)
        if gauss_factor(s, 0.0, pointer(zeros), s.prior_factor):
            raise FloatingPointError(f"{family.name}: the prior scale is not positive definite")
        s.prior_log_det = log_det_of(s.prior_factor + s.diagonal, d, s.prior_factor + s.width)

    def to_arrays(self):
        """Return the statistics and the factors by name.

        The last bits of the factors depend on the order of changes.
        """
        arrays = RealComponents.to_arrays(self)
        arrays["factor"] = self.factor[: self.capacity * self.mine.width].reshape(self.capacity, -1).copy()
        arrays["changes"] = self.changes[: self.capacity].copy()
        return arrays

    def from_arrays(self, arrays):
        """Restore the arrays that `to_arrays` returned."""
        cdef Py_ssize_t k
        RealComponents.from_arrays(self, arrays)
        factor = self.factor[: self.capacity * self.mine.width].reshape(self.capacity, -1)
        kept = np.asarray(arrays["n"]) != 0     # an empty slot keeps the prior's factor
        factor[kept] = np.asarray(arrays["factor"])[kept]
        self.changes[: self.capacity] = arrays["changes"]
        for k in range(self.capacity):
            gauss_install(&self.mine, k, self.mine.base.n[k])
