"""Compiled components of the diagonal Gaussian whose rows may lack cells.

Each column of a cluster has a count of its own, the number of its observed cells. Columns that lack the same rows have
the same counts, and so the same degrees of freedom. They form a group, and a predictive needs one logarithm for each
group of observed columns. Cells that a datum lacks are skipped: their constants are taken back from the sum of the
constants of all columns. Columns that are alike in all clusters add one log density of the datum to all scores.
"""

import numpy as np
from scipy.special import gammaln

from libc.math cimport INFINITY, fabs, isfinite, isnan, lgamma, log

from expfam.contracts cimport EXPFAM_NUMERICAL, EXPFAM_OK, EXPFAM_RANGE
from expfam.families.gaussian.alike cimport alike_columns, at_most, set_places
from expfam.families.gaussian.storage cimport (
    RealComponents, exchange_lanes, pointer, real_is_slot, real_row, real_state,
)
from expfam.families.gaussian.student_t cimport log1p_square
from expfam.structures.ground.arrays cimport aligned
from expfam.structures.simd.elementary cimport expfam_log_rising1
from expfam.structures.simd.gaussian_lanes cimport EXPFAM_LANES
from expfam.structures.simd.logs cimport expfam_log

cdef extern from *:
    """
    #include "gaussian_lanes.h"

    #define EXPFAM_SQRT2 1.4142135623730951

    /* Natural logarithm of x / sqrt 2 for a positive normal number, error below 2 ulp and 2e-16: with x = m 2^e and m
     * in [1, 2) it is e log 2 + 2 atanh(s), s = (m - sqrt 2) / (m + sqrt 2), by the series of expfam_log1. Its terms
     * are added in pairs, which wait less for each other. The factor saves instructions where x is made by a
     * multiplication anyway. */
    EXPFAM_INLINE double expfam_log_of_scaled(double x) {
        uint64_t bits, exponent;
        double m, e, s, z, w, low, high;
        memcpy(&bits, &x, 8);
        exponent = (bits >> 52) | UINT64_C(0x4330000000000000);     /* 2^52 and the exponent, as a double */
        bits = (bits & UINT64_C(0x000fffffffffffff)) | UINT64_C(0x3ff0000000000000);
        memcpy(&e, &exponent, 8);
        memcpy(&m, &bits, 8);
        e -= 4503599627370496.0 + 1023.0;
        s = (m - EXPFAM_SQRT2) / (m + EXPFAM_SQRT2);
        z = s * s;
        w = z * z;
        low = (2.0 + z * 6.666666666666735130e-01) + w * (3.999999999940941908e-01 + z * 2.857142874366239149e-01);
        high = (2.222219843214978396e-01 + z * 1.818357216161805012e-01) + w * (1.531383769920937332e-01 +
            z * 1.479819860511658591e-01);
        return e * 0.69314718055994531 + s * (low + w * w * high);
    }

    /* Rows of a block: sum of the constants; location, weight times sqrt 2 and half of each column; constant of each
     * column. score = sum over observed columns f of constant_f - half_f * log(1 + weight_f (x_f - location_f)^2).
     * `columns` lists the observed columns first, `seen` of them, whose values are in x in this order, then the others.
     * Columns of a group stand together and have one half in every cluster: one logarithm for up to 8 of them.
     * No product may leave the range of doubles: see `is_tame` and `is_mild`. */
    #define EXPFAM_OPEN_SCAN(NAME, TARGET, VECTOR)                                                                    \
        TARGET static void NAME(const double *x, const ptrdiff_t *columns, const ptrdiff_t *group, ptrdiff_t seen,    \
                                ptrdiff_t d, const double *block, ptrdiff_t count, double *out) {                     \
            enum { WIDTH = EXPFAM_WIDTH(VECTOR), STEP = EXPFAM_LANES / EXPFAM_WIDTH(VECTOR) };                        \
            for (ptrdiff_t start = 0; start < count; start += WIDTH) {                                                \
                const VECTOR *rows = (const VECTOR *)(block + start / EXPFAM_LANES * EXPFAM_LANES * (1 + 4 * d) +     \
                                                      start % EXPFAM_LANES);                                          \
                const VECTOR *constants = rows + (1 + 3 * d) * STEP;                                                  \
                VECTOR sum = rows[0];                                                                                 \
                if (2 * seen > d) {                                                                                   \
                    for (ptrdiff_t g = seen; g < d; g++) sum -= constants[columns[g] * STEP];                         \
                } else {                                                                                              \
                    sum = rows[0] * 0.0;                                                                              \
                    for (ptrdiff_t g = 0; g < seen; g++) sum += constants[columns[g] * STEP];                         \
                }                                                                                                     \
                for (ptrdiff_t g = 0, h; g < seen; g = h) {                                                           \
                    const VECTOR *row = rows + (1 + 3 * columns[g]) * STEP, *next;                                    \
                    VECTOR t = x[g] - row[0], value = EXPFAM_SQRT2 + row[STEP] * (t * t);                             \
                    double lane[EXPFAM_WIDTH(VECTOR)];                                                                \
                    for (h = g + 1; h < seen && h < g + 8 && group[columns[h]] == group[columns[g]]; h++) {           \
                        next = rows + (1 + 3 * columns[h]) * STEP;                                                    \
                        t = x[h] - next[0];                                                                           \
                        value *= 1.0 + next[STEP] * (t * t) * (1.0 / EXPFAM_SQRT2);                                   \
                    }                                                                                                 \
                    memcpy(lane, &value, sizeof lane);                                                                \
                    EXPFAM_SIMD                                                                                       \
                    for (ptrdiff_t l = 0; l < WIDTH; l++) lane[l] = expfam_log_of_scaled(lane[l]);                    \
                    memcpy(&value, lane, sizeof lane);                                                                \
                    sum -= row[2 * STEP] * value;                                                                     \
                }                                                                                                     \
                expfam_store(out, start, count, &sum, WIDTH);                                                         \
            }                                                                                                         \
        }
    EXPFAM_LANE_INSTANCES(EXPFAM_OPEN_SCAN, void, expfam_open_scan,
                          (const double *, const ptrdiff_t *, const ptrdiff_t *, ptrdiff_t, ptrdiff_t, const double *,
                           ptrdiff_t, double *))
    """
    const double SQRT2 "EXPFAM_SQRT2"
    void (*expfam_open_scan)(const double *x, const Py_ssize_t *columns, const Py_ssize_t *group, Py_ssize_t seen,
                             Py_ssize_t d, const double *block, Py_ssize_t count, double *out) noexcept nogil

cdef Py_ssize_t TABLE = 4096        # tables hold the gamma terms of smaller counts
cdef double MOST = 1e60             # larger values are scored with scaled arithmetic
cdef double MILD = 1e35             # the eighth power of it is in range
cdef Py_ssize_t BLOCK_ROWS = 65_536     # whose holes are counted at once
cdef Py_ssize_t MOST_TABLED = 400_000   # numbers in a table, if shapes differ by column

ctypedef struct open_state:
    real_state base                 # S: counts of observed cells, sums and sums of squares, (d,) each
    double *block                   # (slots / 8, 1 + 4 m, 8)
    alike_columns alike             # and the m other columns, which are those of the arrays below
    Py_ssize_t m
    const Py_ssize_t *columns       # sorted by how many rows lack them
    const Py_ssize_t *group         # (m,) number of the group of each
    const Py_ssize_t *single        # (m,) 0..m-1: each is alone
    const double *shift             # (m,) prior location about the centre
    const double *strength
    const double *shape
    const double *rate
    const double *log_rate
    const double *rising            # (m or 1, table) lgamma(an + 1/2) - lgamma(an)
    const double *gammas            # (m or 1, table) lgamma(an) - lgamma(a0)
    Py_ssize_t table
    Py_ssize_t stride               # from the table of a column to the next; 0 if all columns share one
    int is_tame                     # whether the prior lets no predictive of values up to MOST leave the range
    double *logs                    # (2 m,) scratch of the writing thread


cdef inline double rising_of(const open_state *s, Py_ssize_t f, double n) noexcept nogil:
    cdef Py_ssize_t whole = <Py_ssize_t> n if n < s.table else -1
    cdef double z
    if whole >= 0 and whole == n:
        return s.rising[f * s.stride + whole]
    z = s.shape[f] + 0.5 * n
    return expfam_log_rising1(z, 0.5, 16 if z < 16 else 0)


cdef inline double gammas_of(const open_state *s, Py_ssize_t f, double n) noexcept nogil:
    cdef Py_ssize_t whole = <Py_ssize_t> n if n < s.table else -1
    if whole >= 0 and whole == n:
        return s.gammas[f * s.stride + whole]
    return lgamma(s.shape[f] + 0.5 * n) - lgamma(s.shape[f])


cdef inline double open_rate(const open_state *s, Py_ssize_t f, double n, double first, double second,
                             double *about) noexcept nogil:
    """Return the posterior rate of a column; set `about` to the sum about the prior location.

    A column without observed cells has exactly the prior's, whatever rounding has left in the sums.
    """
    cdef double t = first - n * s.shift[f]
    if n == 0.0:
        about[0] = 0.0
        return s.rate[f]
    about[0] = t
    return s.rate[f] + 0.5 * (second - s.shift[f] * (first + t) - t * t / (s.strength[f] + n))


cdef double seen_density(const alike_columns *alike, const double *x) noexcept nogil:
    """Return the log density of the observed cells of a centred row in alike columns."""
    cdef double total = 0.0, level = 0.0, value
    cdef Py_ssize_t j
    for j in range(alike.size):
        value = x[alike.columns[j]]
        if not isnan(value):
            level += 0.5 * log(alike.precision[j])
            total += 0.5 * alike.precision[j] * value * value
    return level - at_most(total)


cdef double seen_evidence(const alike_columns *alike, const double *S, Py_ssize_t d) noexcept nogil:
    """Return the log density of all observed cells in alike columns, from statistics (3 d,)."""
    cdef double total = 0.0
    cdef Py_ssize_t j, f
    for j in range(alike.size):
        f = alike.columns[j]
        total += 0.5 * (S[f] * log(alike.precision[j]) - alike.precision[j] * S[2 * d + f])
    return total


cdef inline Py_ssize_t sort_cells(const open_state *s, Py_ssize_t i, double *x, Py_ssize_t *columns,
                                  bint *is_tame, double *given) noexcept nogil:
    """Return the number of observed cells of own columns; list them first, their values in `x`.

    `x` begins the scratch memory (8 d,), whose last part holds the whole row. The log density of the other columns goes
    to `given`.

    A rate is at least the prior's, and at least strength * (location - prior location)^2 / 2. So weight *
    (x - location)^2 is at most (x - prior location)^2 / rate + 2 / strength with the prior's rate and strength, and
    `is_tame` tells whether it is far from overflow.
    """
    cdef Py_ssize_t f, seen = 0, last = s.m
    cdef double value
    cdef double *row = x + 7 * s.base.d
    is_tame[0] = s.is_tame
    real_row(&s.base, i, row)
    given[0] = seen_density(&s.alike, row)
    for f in range(s.m):
        value = row[s.columns[f]]
        if isnan(value):
            last -= 1
            columns[last] = f
        else:
            x[seen] = value
            is_tame[0] = is_tame[0] and fabs(value) < MOST
            columns[seen] = f
            seen += 1
    return seen


cdef bint is_mild(const open_state *s, const double *x, const Py_ssize_t *columns, Py_ssize_t seen) noexcept nogil:
    """Tell whether products of eight columns stay in range, by the bound of `sort_cells`."""
    cdef Py_ssize_t g, f
    cdef double t, worst = 0.0
    for g in range(seen):
        f = columns[g]
        t = x[g] - s.shift[f]
        worst = max(worst, t * t / s.rate[f] + 2.0 / s.strength[f])
    return worst < MILD


cdef inline const double *lane_of(const open_state *s, Py_ssize_t k) noexcept nogil:
    return s.block + (k // EXPFAM_LANES) * (1 + 4 * s.m) * EXPFAM_LANES + k % EXPFAM_LANES


cdef inline double constant_of(const open_state *s, const double *rows, const Py_ssize_t *columns,
                               Py_ssize_t seen) noexcept nogil:
    """Return the sum of the constants of the observed columns; exactly 0 if there are none."""
    cdef const double *constants = rows + (1 + 3 * s.m) * EXPFAM_LANES
    cdef double total = 0.0
    cdef Py_ssize_t g
    if 2 * seen > s.m:
        total = rows[0]
        for g in range(seen, s.m):
            total -= constants[columns[g] * EXPFAM_LANES]
    else:
        for g in range(seen):
            total += constants[columns[g] * EXPFAM_LANES]
    return total


cdef double open_score(const open_state *s, const double *x, const Py_ssize_t *columns, Py_ssize_t seen,
                       Py_ssize_t k) noexcept nogil:
    """Return the log predictive under one cluster, also for outliers whose squares overflow."""
    cdef const double *rows = lane_of(s, k)
    cdef const double *row
    cdef double total = constant_of(s, rows, columns, seen)
    cdef Py_ssize_t g
    for g in range(seen):
        row = rows + (1 + 3 * columns[g]) * EXPFAM_LANES
        total -= row[2 * EXPFAM_LANES] * log1p_square(row[EXPFAM_LANES] / SQRT2, x[g] - row[0])
    return total


cdef double open_score_quickly(const open_state *s, const double *x, const Py_ssize_t *columns, Py_ssize_t seen,
                               Py_ssize_t k, double *values) noexcept nogil:
    """Return the log predictive under one cluster; not finite if a square overflows."""
    cdef const double *rows = lane_of(s, k)
    cdef const double *row
    cdef double total = constant_of(s, rows, columns, seen), t, worst = 0.0
    cdef Py_ssize_t g
    for g in range(seen):
        row = rows + (1 + 3 * columns[g]) * EXPFAM_LANES
        t = x[g] - row[0]
        values[g] = 1.0 + row[EXPFAM_LANES] / SQRT2 * t * t
        worst += values[g]
    if not worst < 1e290:
        return INFINITY
    expfam_log(values, values + s.m, seen)
    for g in range(seen):
        total -= rows[(3 + 3 * columns[g]) * EXPFAM_LANES] * values[s.m + g]
    return total


cdef int open_log_predictive(void *self, Py_ssize_t i, const Py_ssize_t *ks, Py_ssize_t m,
                             double *out, double *work) noexcept nogil:
    cdef open_state *s = <open_state *> self
    cdef Py_ssize_t *columns = <Py_ssize_t *> (work + s.base.d)
    cdef const Py_ssize_t *group
    cdef bint is_tame
    cdef double given
    cdef Py_ssize_t j, k, seen = sort_cells(s, i, work, columns, &is_tame, &given)
    if ks == NULL:
        if m > s.base.capacity:
            return EXPFAM_RANGE
        if is_tame:
            group = s.group if is_mild(s, work, columns, seen) else s.single
            expfam_open_scan(work, columns, group, seen, s.m, s.block, m, out)
        else:
            for k in range(m):
                out[k] = open_score(s, work, columns, seen, k)
        if s.alike.size:
            for k in range(m):
                out[k] += given
        return EXPFAM_OK
    for j in range(m):
        k = ks[j]
        if not real_is_slot(&s.base, k):
            return EXPFAM_RANGE
        out[j] = open_score_quickly(s, work, columns, seen, k, work + 2 * s.base.d)
        if not isfinite(out[j]):
            out[j] = open_score(s, work, columns, seen, k)
        out[j] += given
    return EXPFAM_OK


cdef int open_log_predictive_self(void *self, Py_ssize_t i, Py_ssize_t k, double *out, double *work) noexcept nogil:
    """Compute the log predictive of a member from the statistics without it.

    No digits are lost except those that S has lost.
    """
    cdef open_state *s = <open_state *> self
    cdef Py_ssize_t g, f, c, seen, d = s.base.d
    cdef Py_ssize_t *columns = <Py_ssize_t *> (work + d)
    cdef double *logs = work + 2 * d
    cdef double *scratch = work + 4 * d
    cdef const double *S = s.base.S + k * s.base.F
    cdef double n, strength, rate, about, weight, t, half, total
    cdef bint is_tame
    if not real_is_slot(&s.base, k) or s.base.n[k] < 1.0:
        return EXPFAM_RANGE
    seen = sort_cells(s, i, work, columns, &is_tame, &total)
    for g in range(seen):
        f = columns[g]
        c = s.columns[f]
        n = S[c] - 1.0
        if n < 0.0:
            return EXPFAM_RANGE
        rate = open_rate(s, f, n, S[d + c] - work[g], S[2 * d + c] - work[g] * work[g], &about)
        if not (1e-300 < rate < 1e300):
            return EXPFAM_NUMERICAL
        strength = s.strength[f] + n
        half = s.shape[f] + 0.5 * (n + 1.0)
        weight = 0.5 * strength / ((strength + 1.0) * rate)
        t = work[g] - s.shift[f] - about / strength
        logs[g] = 2.0 * weight
        logs[seen + g] = 1.0 + weight * t * t
        if not (logs[seen + g] < 1e300):
            logs[seen + g] = 1.0
            total -= half * log1p_square(weight, t)
        total += rising_of(s, f, n)
    expfam_log(logs, scratch, 2 * seen)
    for g in range(seen):
        total += 0.5 * scratch[g] - (s.shape[columns[g]] + 0.5 * S[s.columns[columns[g]]]) * scratch[seen + g]
    out[0] = total
    return EXPFAM_OK


cdef void open_shifted(void *self, Py_ssize_t i, double sign, const double *S, double *out, double *x) noexcept nogil:
    cdef open_state *s = <open_state *> self
    cdef Py_ssize_t f, d = s.base.d
    real_row(&s.base, i, x)
    for f in range(d):
        out[f], out[d + f], out[2 * d + f] = S[f], S[d + f], S[2 * d + f]
        if not isnan(x[f]):
            out[f] += sign
            out[d + f] += sign * x[f]
            out[2 * d + f] += sign * x[f] * x[f]


cdef int open_commit(void *self, Py_ssize_t k, double n, const double *S) noexcept nogil:
    cdef open_state *s = <open_state *> self
    cdef Py_ssize_t f, c, d = s.base.d, m = s.m
    cdef double *row = s.block + (k // EXPFAM_LANES) * (1 + 4 * m) * EXPFAM_LANES + k % EXPFAM_LANES
    cdef double *first = row
    cdef double *own = s.base.S + k * s.base.F
    cdef double strength, rate, about, constant, total = 0.0
    for f in range(d):
        if S[f] <= -0.5:
            return EXPFAM_RANGE
    for f in range(m):
        c = s.columns[f]
        rate = open_rate(s, f, S[c], S[d + c], S[2 * d + c], &about)
        if not (1e-300 < rate < 1e300 and isfinite(about)):
            return EXPFAM_NUMERICAL
        strength = s.strength[f] + S[c]
        s.logs[f] = strength / ((strength + 1.0) * rate)
    expfam_log(s.logs, s.logs + m, m)
    for f in range(m):
        c = s.columns[f]
        open_rate(s, f, S[c], S[d + c], S[2 * d + c], &about)
        constant = 0.5 * s.logs[m + f] + rising_of(s, f, S[c])
        total += constant
        row[EXPFAM_LANES] = s.shift[f] + about / (s.strength[f] + S[c])
        row[2 * EXPFAM_LANES] = 0.5 * SQRT2 * s.logs[f]
        row[3 * EXPFAM_LANES] = s.shape[f] + 0.5 * (S[c] + 1.0)
        first[(1 + 3 * m + f) * EXPFAM_LANES] = constant
        row += 3 * EXPFAM_LANES
    first[0] = total
    s.base.n[k] = n
    for f in range(d):
        own[f] = S[f]
        own[d + f] = S[d + f] if S[f] else 0.0      # a column that is empty again holds exact zeros
        own[2 * d + f] = S[2 * d + f] if S[f] else 0.0
    return EXPFAM_OK


cdef int open_evidence(void *self, double n, const double *S, double *out, double *work) noexcept nogil:
    cdef open_state *s = <open_state *> self
    cdef Py_ssize_t f, c, d = s.base.d, m = s.m
    cdef double about, total = 0.0
    for f in range(m):
        c = s.columns[f]
        work[f] = open_rate(s, f, S[c], S[d + c], S[2 * d + c], &about)
        work[m + f] = s.strength[f] / (s.strength[f] + S[c])
        if not (1e-300 < work[f] < 1e300):
            return EXPFAM_NUMERICAL
    expfam_log(work, work + 2 * m, 2 * m)
    for f in range(m):
        c = s.columns[f]
        if S[c]:
            total += gammas_of(s, f, S[c]) + s.shape[f] * (s.log_rate[f] - work[2 * m + f])
            total += 0.5 * (work[3 * m + f] - S[c] * work[2 * m + f])
    out[0] = total + seen_evidence(&s.alike, S, d)
    return EXPFAM_OK


cdef void open_exchange(void *self, Py_ssize_t k, Py_ssize_t l) noexcept nogil:
    cdef open_state *s = <open_state *> self
    exchange_lanes(s.block, 1 + 4 * s.m, k, l)


cdef class OpenDiagonalComponents(RealComponents):
    """Owner of the statistics of clusters of rows that may lack cells; see `RealComponents`."""

    cdef open_state mine
    cdef object block, logs, tables, places, groups
    cdef object holes               # (d,) how many rows lack each column
    cdef object alike_holes         # (d,) first column that lacks the same rows

    def __init__(self, family, data, Py_ssize_t capacity):
        self.family, self.data = family, data
        self.prepare(&self.mine.base)
        self.mine.base.shifted = open_shifted
        self.mine.base.commit = open_commit
        self.mine.base.evidence = open_evidence
        self.mine.base.exchange = open_exchange
        self.api.log_predictive = open_log_predictive
        self.api.log_predictive_self = open_log_predictive_self
        self.api.work_size = 8 * self.mine.base.d
        self.logs = np.empty(2 * self.mine.base.d)
        self.mine.logs = pointer(self.logs)
        self.holes, self.alike_holes = _holes(data.X)
        self.set_prior()
        self.resize(capacity)
        self.rebuild_caches()

    cdef int resize(self, Py_ssize_t capacity) except -1:
        cdef Py_ssize_t slots = RealComponents.resize(self, capacity)
        self.block = aligned(slots * (1 + 4 * self.mine.base.d))
        self.mine.block = pointer(self.block)
        return slots

    def set_data(self, data):
        """Read the rows of another data set with the same statistics; see `RealComponents`."""
        RealComponents.set_data(self, data)
        _, self.alike_holes = _holes(data.X)
        self.set_groups()

    def rebuild_caches(self):
        """Rebuild all caches from (n, S)."""
        self.set_groups()
        RealComponents.rebuild_caches(self)

    def set_groups(self):
        """Join neighbouring columns of equal shape that lack the same rows, in all slots too."""
        cdef const Py_ssize_t[::1] group, single
        own, shape = self.places[0], self.tables[2]
        counts, first = self.S.reshape(-1, self.mine.base.F)[:, own], self.alike_holes[own]
        is_same = (first[1:] == first[:-1]) & (shape[1:] == shape[:-1]) & (counts[:, 1:] == counts[:, :-1]).all(axis=0)
        group = np.append(0, np.cumsum(~is_same)).astype(np.intp)[: max(own.size, 1)]
        single = np.arange(max(own.size, 1), dtype=np.intp)
        self.groups = group, single
        self.mine.group, self.mine.single = &group[0], &single[0]

    def set_prior(self):
        """Copy the family's hyper-parameters and compute tables of gamma terms by count."""
        cdef open_state *s = &self.mine
        family = self.family
        own, alike, precision = family.columns_apart()
        own = np.ascontiguousarray(own[np.argsort(self.holes[own], kind="stable")])
        self.places = own, alike, precision
        prior = [np.ascontiguousarray(np.broadcast_to(values, self.holes.shape)[own]) for values in family._prior()]
        shift, strength, shape, rate = prior
        columns = shape[:1] if (shape == shape[:1]).all() else shape
        s.m = own.size
        s.table = min(TABLE, self.data.n_rows + 2, 2 + MOST_TABLED // max(len(columns), 1))
        s.stride = s.table if len(columns) > 1 else 0
        at = columns[:, None] + 0.5 * np.arange(s.table)
        self.tables = [
            *prior,
            np.log(rate),
            gammaln(at + 0.5) - gammaln(at),
            gammaln(at) - gammaln(columns)[:, None],
        ]
        _, _, _, _, log_rate, rising, gammas = self.tables
        s.shift, s.strength, s.shape, s.rate = pointer(shift), pointer(strength), pointer(shape), pointer(rate)
        s.is_tame = bool(
            (abs(shift) < MOST).all() and (rate > 1e-150).all() and (strength > 1e-100).all()
        )
        s.log_rate, s.rising, s.gammas = pointer(log_rate), pointer(rising), pointer(gammas)
        set_places(&s.columns, &s.alike, own, alike, precision)


def _holes(X):
    """Return how many rows lack each column, and the first column that lacks the same ones."""
    d = X.shape[1]
    blocks = (X[start : start + BLOCK_ROWS] for start in range(0, X.shape[0], BLOCK_ROWS))
    holes, first = sum((np.isnan(rows).sum(axis=0) for rows in blocks), np.zeros(d, dtype=np.intp)), np.arange(d)
    for f in range(d):
        for g in np.flatnonzero(holes[:f] == holes[f]):
            if not holes[f] or np.array_equal(np.isnan(X[:, f]), np.isnan(X[:, g])):
                first[f] = first[g]
                break
    return holes, first
