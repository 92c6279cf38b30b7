"""Compiled components of columns with beta priors: Bernoulli and negative binomial.

The predictive of a row is that of a row of zeros, which each cluster keeps, times a ratio for each entry that is not
zero: (a + S) / (b + n - S) for a Bernoulli column, and the rising factorials (a + S)_x / (a + b + S + (n + 1) r)_x for
a negative binomial one. So a row is scored in O(entries) for each cluster: up to 32 ratios are multiplied before one
logarithm is computed. Adding, removing and scoring a member cost O(columns), because n enters every column. Sums are
float64, exact for integers. With layout="features" the sums of one column in all slots are contiguous, which suits
scores of all clusters; with "clusters" those of one cluster, which suits hierarchies.
"""

import numpy as np

from cpython.pycapsule cimport PyCapsule_New
from libc.math cimport floor
from libc.string cimport memset

from expfam.amounts import counted
from expfam.contracts cimport EXPFAM_ABI, EXPFAM_OK, EXPFAM_RANGE, components_v1
from expfam.families.rows cimport csr_rows, entry_column, entry_value, open_rows, row_start
from expfam.families.row_statistics cimport row_statistics_capsule, row_statistics_v1
from expfam.structures.ground.arrays cimport address
from expfam.structures.simd.elementary cimport expfam_log1, expfam_log_rising1
from expfam.structures.simd.logs cimport expfam_log, expfam_log_rising

from expfam.errors import DataError
from expfam.families.counts.components import count_rows
from expfam.families.support import dense_rows

cdef extern from *:
    """
    #include "elementary.h"

    /* Multiplies num[k] by S_f[k] + up_f, and den[k] by sign * S_f[k] + offset[k] + down_f, for n factors f. */
    #define EXPFAM_BETA_RATIOS(NAME, TARGET)                                                                          \
        TARGET static void NAME(const double *const *S, const double *up, const double *down, ptrdiff_t n,            \
                                double sign, const double *offset, double *num, double *den, ptrdiff_t count) {       \
            for (ptrdiff_t f = 0; f < n; f++) {                                                                       \
                const double *row = S[f];                                                                             \
                EXPFAM_SIMD                                                                                           \
                for (ptrdiff_t k = 0; k < count; k++) {                                                               \
                    num[k] *= row[k] + up[f];                                                                         \
                    den[k] *= sign * row[k] + offset[k] + down[f];                                                    \
                }                                                                                                     \
            }                                                                                                         \
        }
    EXPFAM_INSTANCES(EXPFAM_BETA_RATIOS, void, expfam_beta_ratios,
                     (const double *const *, const double *, const double *, ptrdiff_t, double, const double *,
                      double *, double *, ptrdiff_t))

    /* Adds log(num[k] / den[k]) to out[k]. */
    #define EXPFAM_ADD_LOG_RATIOS(NAME, TARGET)                                                                       \
        TARGET static void NAME(const double *num, const double *den, double *out, ptrdiff_t count) {                 \
            EXPFAM_SIMD                                                                                               \
            for (ptrdiff_t k = 0; k < count; k++) out[k] += expfam_log1(num[k] / den[k]);                             \
        }
    EXPFAM_INSTANCES(EXPFAM_ADD_LOG_RATIOS, void, expfam_add_log_ratios,
                     (const double *, const double *, double *, ptrdiff_t))

    /* Writes log B(a + s, b + f) - log B(a, b) of each column for s successes and f failures. */
    #define EXPFAM_BETA_EVIDENCE(NAME, TARGET)                                                                        \
        TARGET static void NAME(const double *a, const double *b, const double *both, const double *s,                \
                                const double *f, int lift, double *out, ptrdiff_t n) {                                \
            if (lift) {                                                                                               \
                EXPFAM_SIMD                                                                                           \
                for (ptrdiff_t j = 0; j < n; j++)                                                                     \
                    out[j] = expfam_log_rising1(a[j], s[j], 16) + expfam_log_rising1(b[j], f[j], 16) -                \
                             expfam_log_rising1(both[j], s[j] + f[j], 16);                                            \
            } else {                                                                                                  \
                for (ptrdiff_t j = 0; j < n; j++)                                                                     \
                    out[j] = expfam_log_rising1(a[j], s[j], a[j] < 16 ? 16 : 0) +                                     \
                             expfam_log_rising1(b[j], f[j], b[j] < 16 ? 16 : 0) -                                     \
                             expfam_log_rising1(both[j], s[j] + f[j], both[j] < 16 ? 16 : 0);                         \
            }                                                                                                         \
        }
    EXPFAM_INSTANCES(EXPFAM_BETA_EVIDENCE, void, expfam_beta_evidence,
                     (const double *, const double *, const double *, const double *, const double *, int, double *,
                      ptrdiff_t))
    """
    void (*expfam_beta_ratios)(const double *const *S, const double *up, const double *down, Py_ssize_t n, double sign,
                               const double *offset, double *num, double *den, Py_ssize_t count) noexcept nogil
    void (*expfam_add_log_ratios)(const double *num, const double *den, double *out, Py_ssize_t count) noexcept nogil
    void (*expfam_beta_evidence)(const double *a, const double *b, const double *both, const double *s,
                                 const double *f, int lift, double *out, Py_ssize_t n) noexcept nogil

cdef enum:
    MAX_FACTORS = 32        # largest number of factors in one product
    MAX_REPEATS = 24        # the rising factorial scores a larger count
    TILE = 512              # slots scored together: two buffers of 4 KiB stay in the first-level cache
    LINE = 8

cdef double SAFE = 1e140    # bound of products and of their inverses, so that a ratio stays in range
cdef double SLACK = 1e-8    # relative error of fractional sums after adding and removing data
cdef double MOST_LIFTED = 1e15

ctypedef struct beta_state:
    Py_ssize_t n_rows, d, capacity
    csr_rows x
    double sign             # of S in the denominator of a ratio: 1 negative binomial, -1 Bernoulli
    double r                # trials that a row adds to a column beside its successes: r, or 1 for both kinds together
    int max_factors
    int lift                # whether the rising factorials of all pseudo-counts may be lifted
    const double *a         # (d,) pseudo-counts
    const double *b
    const double *both      # (d,) a + b
    const double *down      # (d,) constant of the denominator of a ratio
    double *n               # (slots,)
    double *offset          # (slots,) n r
    double *level           # (slots,) log predictive of a row of zeros
    double *S               # entry of column w and slot k at w * by_column + k * by_slot
    Py_ssize_t by_column, by_slot
    double *fresh           # (5 d,) the writer's scratch: new sums, then scratch of `zero_level`


cdef inline double *sum_at(const beta_state *s, Py_ssize_t w, Py_ssize_t k) noexcept nogil:
    return s.S + w * s.by_column + k * s.by_slot


cdef inline bint is_slot(const beta_state *s, Py_ssize_t k) noexcept nogil:
    return 0 <= k < s.capacity


cdef void gather(const beta_state *s, Py_ssize_t k, double *out) noexcept nogil:
    cdef Py_ssize_t w
    for w in range(s.d):
        out[w] = sum_at(s, w, k)[0]


cdef bint combine(const beta_state *s, double *sums, Py_ssize_t l, double sign, double n) noexcept nogil:
    """Add sign times the sums of slot l to `sums`; return whether `n` data can have the result."""
    cdef Py_ssize_t w
    cdef double part
    cdef bint is_possible = True
    for w in range(s.d):
        part = sum_at(s, w, l)[0]
        sums[w] = settled(s, sums[w] + sign * part, part, n, &is_possible)
    return is_possible


cdef bint take_out(const beta_state *s, double *sums, Py_ssize_t i, double n) noexcept nogil:
    """Subtract datum i from `sums`; return whether `n` other data can have the result."""
    cdef Py_ssize_t p, w
    cdef bint is_possible = True
    for p in range(row_start(&s.x, i), row_start(&s.x, i + 1)):
        w = entry_column(&s.x, p)
        sums[w] = settled(s, sums[w] - entry_value(&s.x, p), entry_value(&s.x, p), n, &is_possible)
    if s.sign < 0:
        for w in range(s.d):
            if sums[w] > n:
                sums[w] = settled(s, sums[w], 0.0, n, &is_possible)
    return is_possible


cdef inline double settled(const beta_state *s, double value, double part, double n, bint *is_possible) noexcept nogil:
    """Return a sum without what rounding has left; note if it is impossible."""
    if value < 0.0:
        if value < -SLACK * part:
            is_possible[0] = False
        return 0.0
    if s.sign < 0 and value > n:
        if value > n + SLACK * (n + part):
            is_possible[0] = False
        return n
    return value


cdef double zero_level(const beta_state *s, double n, const double *S, double *work) noexcept nogil:
    """Return the log predictive of a row of zeros given (n, S); `work` has 4 d numbers."""
    cdef Py_ssize_t w, d = s.d
    cdef double m = n * s.r, least = 1e300, total = 0.0
    cdef double *result = work + 2 * d
    for w in range(d):
        work[w] = s.b[w] + (m - S[w] if s.sign < 0 else m)
        work[d + w] = s.both[w] + (m if s.sign < 0 else m + S[w])
        least = min(least, min(work[w], work[d + w]))
    if s.r == 1.0:
        expfam_log(work, result, 2 * d)
    else:
        expfam_log_rising(work, s.r, least < 16, result, 2 * d)
    for w in range(d):
        total += result[w] - result[d + w]
    return total


cdef inline double log_rising(double z, double m) noexcept nogil:
    return expfam_log_rising1(z, m, 16 if z < 16 else 0)


cdef double score_entries(const beta_state *s, Py_ssize_t i, double n, const double *S, Py_ssize_t step) noexcept nogil:
    """Return the sum of the log ratios of the entries of datum i given n and S[w * step]."""
    cdef double m = n * s.r, total = 0.0, up, down, count, num = 1.0, den = 1.0
    cdef Py_ssize_t p, w, t, n_factors = 0
    for p in range(row_start(&s.x, i), row_start(&s.x, i + 1)):
        w = entry_column(&s.x, p)
        count = entry_value(&s.x, p)
        up = s.a[w] + S[w * step]
        down = s.down[w] + m + s.sign * S[w * step]
        if count > MAX_REPEATS or count != floor(count):
            total += log_rising(up, count) - log_rising(down, count)
            continue
        for t in range(<Py_ssize_t> count):
            num *= up + t
            den *= down + t
            n_factors += 1
            if n_factors == s.max_factors:
                total += expfam_log1(num / den)
                num = den = 1.0
                n_factors = 0
    return total + expfam_log1(num / den)


cdef int score_tile(const beta_state *s, Py_ssize_t i, Py_ssize_t first, Py_ssize_t m, double *out,
                    double *work) noexcept nogil:
    """Compute the log predictives of datum i under m <= TILE slots from `first` on."""
    cdef double *num = work
    cdef double *den = work + TILE
    cdef const double *rows[MAX_FACTORS]
    cdef double up[MAX_FACTORS]
    cdef double down[MAX_FACTORS]
    cdef Py_ssize_t p = row_start(&s.x, i), stop = row_start(&s.x, i + 1), n, w, k, repeat = 0
    cdef double count
    for k in range(m):
        out[k] = s.level[first + k]
    while p < stop:
        n = 0
        for k in range(m):
            num[k] = den[k] = 1.0
        while p < stop and n < s.max_factors:
            w = entry_column(&s.x, p)
            count = entry_value(&s.x, p)
            if count > MAX_REPEATS or count != floor(count):
                add_rising(s, w, count, first, m, out, work + 2 * TILE)
                p += 1
                continue
            rows[n] = sum_at(s, w, first)
            up[n] = s.a[w] + repeat
            down[n] = s.down[w] + repeat
            n += 1
            repeat += 1
            if repeat >= count:
                repeat = 0
                p += 1
        expfam_beta_ratios(rows, up, down, n, s.sign, s.offset + first, num, den, m)
        expfam_add_log_ratios(num, den, out, m)
    return EXPFAM_OK


cdef void add_rising(const beta_state *s, Py_ssize_t w, double count, Py_ssize_t first, Py_ssize_t m, double *out,
                     double *work) noexcept nogil:
    """Add the log ratio of a large or fractional count to the scores of m slots."""
    cdef const double *S = sum_at(s, w, first)
    cdef Py_ssize_t k
    cdef double least = 1e300
    cdef double *result = work + 2 * TILE
    for k in range(m):
        work[k] = s.a[w] + S[k]
        work[m + k] = s.down[w] + s.offset[first + k] + s.sign * S[k]
        least = min(least, min(work[k], work[m + k]))
    expfam_log_rising(work, count, least < 16, result, 2 * m)
    for k in range(m):
        out[k] += result[k] - result[m + k]


cdef int beta_log_predictive(void *self, Py_ssize_t i, const Py_ssize_t *ks, Py_ssize_t m,
                             double *out, double *work) noexcept nogil:
    cdef const beta_state *s = <const beta_state *> self
    cdef Py_ssize_t j = 0, k, width
    if ks == NULL and m > s.capacity:
        return EXPFAM_RANGE
    if ks == NULL and s.by_slot == 1:
        while j < m:
            width = min(<Py_ssize_t> TILE, m - j)
            score_tile(s, i, j, width, out + j, work)
            j += width
        return EXPFAM_OK
    for j in range(m):
        k = j if ks == NULL else ks[j]
        if not is_slot(s, k):
            return EXPFAM_RANGE
        out[j] = s.level[k] + score_entries(s, i, s.n[k], sum_at(s, 0, k), s.by_column)
    return EXPFAM_OK


cdef int beta_log_predictive_self(void *self, Py_ssize_t i, Py_ssize_t k, double *out, double *work) noexcept nogil:
    cdef const beta_state *s = <const beta_state *> self
    cdef double n
    if not is_slot(s, k) or s.n[k] < 1.0:
        return EXPFAM_RANGE
    n = s.n[k] - 1.0
    gather(s, k, work)
    if not take_out(s, work, i, n):
        return EXPFAM_RANGE
    if n == 0.0:
        memset(work, 0, s.d * sizeof(double))
    out[0] = zero_level(s, n, work, work + s.d) + score_entries(s, i, n, work, 1)
    return EXPFAM_OK


cdef double evidence_of(const beta_state *s, double n, const double *S, double *work) noexcept nogil:
    """Return the log evidence of n data with sums S; `work` has 2 d numbers."""
    cdef Py_ssize_t w, d = s.d
    cdef double total = 0.0
    for w in range(d):
        work[w] = max(n - S[w], 0.0) if s.sign < 0 else n * s.r
    expfam_beta_evidence(s.a, s.b, s.both, S, work, s.lift, work + d, d)
    for w in range(d):
        total += work[d + w]
    return total


cdef int beta_log_marginal(void *self, const Py_ssize_t *ks, Py_ssize_t m, double *out, double *work) noexcept nogil:
    cdef const beta_state *s = <const beta_state *> self
    cdef Py_ssize_t j, k
    for j in range(m):
        k = j if ks == NULL else ks[j]
        if not is_slot(s, k):
            return EXPFAM_RANGE
        out[j] = 0.0
        if s.n[k] != 0.0:
            gather(s, k, work)
            out[j] = evidence_of(s, s.n[k], work, work + s.d)
    return EXPFAM_OK


cdef int beta_log_merged(void *self, Py_ssize_t k, const Py_ssize_t *ls, Py_ssize_t m,
                         double *out, double *work) noexcept nogil:
    cdef const beta_state *s = <const beta_state *> self
    cdef Py_ssize_t j, other
    if not is_slot(s, k):
        return EXPFAM_RANGE
    for j in range(m):
        other = j if ls == NULL else ls[j]
        if not is_slot(s, other):
            return EXPFAM_RANGE
        gather(s, k, work)
        combine(s, work, other, 1.0, s.n[k] + s.n[other])
        out[j] = evidence_of(s, s.n[k] + s.n[other], work, work + s.d)
    return EXPFAM_OK


cdef bint leaves_rest(const beta_state *s, Py_ssize_t k, Py_ssize_t l, double *n, double *sums) noexcept nogil:
    """Write the statistics of slot k without those of l; return whether they can be."""
    if not is_slot(s, k) or not is_slot(s, l) or s.n[l] * (1.0 - SLACK) > s.n[k]:
        return False
    n[0] = s.n[k] - s.n[l]
    if n[0] < SLACK * s.n[l]:
        n[0] = 0.0
    gather(s, k, sums)
    return combine(s, sums, l, -1.0, n[0])


cdef int beta_log_remainder(void *self, Py_ssize_t k, Py_ssize_t l, double *out, double *work) noexcept nogil:
    cdef const beta_state *s = <const beta_state *> self
    cdef double n = 0.0
    if not leaves_rest(s, k, l, &n, work):
        return EXPFAM_RANGE
    out[0] = evidence_of(s, n, work, work + s.d) if n else 0.0
    return EXPFAM_OK


# ---- changes -------------------------------------------------------------------------------------------------------

cdef int commit(beta_state *s, Py_ssize_t k, double n) noexcept nogil:
    """Set slot k to n data with the sums in `fresh`; an empty slot holds exact zeros."""
    cdef Py_ssize_t w
    if n == 0.0:
        memset(s.fresh, 0, s.d * sizeof(double))
    for w in range(s.d):
        sum_at(s, w, k)[0] = s.fresh[w]
    s.n[k] = n
    s.offset[k] = n * s.r
    s.level[k] = zero_level(s, n, s.fresh, s.fresh + s.d)
    return EXPFAM_OK


cdef int beta_add(void *self, Py_ssize_t i, Py_ssize_t k) noexcept nogil:
    cdef beta_state *s = <beta_state *> self
    cdef Py_ssize_t p
    if not is_slot(s, k):
        return EXPFAM_RANGE
    gather(s, k, s.fresh)
    for p in range(row_start(&s.x, i), row_start(&s.x, i + 1)):
        s.fresh[entry_column(&s.x, p)] += entry_value(&s.x, p)
    return commit(s, k, s.n[k] + 1.0)


cdef int beta_remove(void *self, Py_ssize_t i, Py_ssize_t k) noexcept nogil:
    cdef beta_state *s = <beta_state *> self
    if not is_slot(s, k) or s.n[k] < 1.0:
        return EXPFAM_RANGE
    gather(s, k, s.fresh)
    if not take_out(s, s.fresh, i, s.n[k] - 1.0):
        return EXPFAM_RANGE
    return commit(s, k, s.n[k] - 1.0)


cdef int beta_absorb(void *self, Py_ssize_t k, Py_ssize_t l) noexcept nogil:
    cdef beta_state *s = <beta_state *> self
    if k == l or not is_slot(s, k) or not is_slot(s, l):
        return EXPFAM_RANGE
    gather(s, k, s.fresh)
    combine(s, s.fresh, l, 1.0, s.n[k] + s.n[l])
    commit(s, k, s.n[k] + s.n[l])
    return commit(s, l, 0.0)


cdef int beta_subtract(void *self, Py_ssize_t k, Py_ssize_t l) noexcept nogil:
    cdef beta_state *s = <beta_state *> self
    cdef double n = 0.0
    if k == l or not leaves_rest(s, k, l, &n, s.fresh):
        return EXPFAM_RANGE
    return commit(s, k, n)


cdef int beta_clear(void *self, Py_ssize_t k) noexcept nogil:
    cdef beta_state *s = <beta_state *> self
    return commit(s, k, 0.0) if is_slot(s, k) else EXPFAM_RANGE


cdef int beta_swap(void *self, Py_ssize_t k, Py_ssize_t l) noexcept nogil:
    cdef beta_state *s = <beta_state *> self
    cdef Py_ssize_t w
    cdef double *one
    cdef double *other
    if not is_slot(s, k) or not is_slot(s, l):
        return EXPFAM_RANGE
    for w in range(s.d):
        one, other = sum_at(s, w, k), sum_at(s, w, l)
        one[0], other[0] = other[0], one[0]
    s.n[k], s.n[l] = s.n[l], s.n[k]
    s.offset[k], s.offset[l] = s.offset[l], s.offset[k]
    s.level[k], s.level[l] = s.level[l], s.level[k]
    return EXPFAM_OK


# ---- the owner -----------------------------------------------------------------------------------------------------

cdef int beta_add_statistics(void *self, Py_ssize_t i, double sign, double *S) noexcept nogil:
    cdef const beta_state *s = <const beta_state *> self
    cdef Py_ssize_t p
    for p in range(row_start(&s.x, i), row_start(&s.x, i + 1)):
        S[entry_column(&s.x, p)] += sign * entry_value(&s.x, p)
    return EXPFAM_OK


cdef double *pointer(object array) except? NULL:
    return <double *> address(array)


cdef class BetaComponents:
    """Owner of the statistics of Bernoulli or negative binomial clusters.

    `r` is that of a negative binomial family, and None for Bernoulli columns. The layout is "features" or "clusters".
    """

    cdef components_v1 api
    cdef beta_state s
    cdef row_statistics_v1 statistics
    cdef readonly object capsule, row_statistics, family
    cdef readonly Py_ssize_t capacity
    cdef public object pending
    cdef object rows, prior, n, offset, level, S, fresh
    cdef bint by_cluster
    cdef double heaviest            # largest sum of a column of the data

    def __init__(self, family, data, Py_ssize_t capacity, *, r=None, layout="features"):
        if layout not in ("features", "clusters"):
            raise ValueError(f'layout must be "features" or "clusters"; got {layout!r}')
        family.require_bound()
        self.by_cluster = layout == "clusters"
        self.s.d = data.n_statistics
        self.s.sign, self.s.r = (-1.0, 1.0) if r is None else (1.0, r)
        self.fresh = np.zeros(5 * self.s.d)
        self.s.fresh = pointer(self.fresh)
        self._open(data)
        self._set_family(family)
        self._allocate(max(capacity, 1))
        self._rebuild()
        self.api.abi_version = EXPFAM_ABI
        self.api.struct_size = sizeof(components_v1)
        self.api.self = <void *> &self.s
        self.api.work_size = max(6 * TILE, 5 * self.s.d)
        self.api.log_predictive = beta_log_predictive
        self.api.log_predictive_self = beta_log_predictive_self
        self.api.log_marginal = beta_log_marginal
        self.api.log_merged = beta_log_merged
        self.api.log_remainder = beta_log_remainder
        self.api.add = beta_add
        self.api.remove = beta_remove
        self.api.absorb = beta_absorb
        self.api.subtract = beta_subtract
        self.api.clear = beta_clear
        self.api.swap = beta_swap
        self.capsule = PyCapsule_New(&self.api, "expfam.components_v1", NULL)
        self.statistics.self, self.statistics.add = <void *> &self.s, beta_add_statistics
        self.row_statistics = row_statistics_capsule(&self.statistics)

    def _open(self, data):
        """Point the state at the rows of the data; dense rows become CSR."""
        values, columns, starts, _, _, heaviest = count_rows(data.X)
        self.rows = data, values, columns, starts
        open_rows(&self.s.x, values, columns, starts)
        self.s.n_rows = data.n_rows
        self.heaviest = heaviest

    def _set_family(self, family):
        """Copy the pseudo-counts of the columns."""
        cdef beta_state *s = &self.s
        a, b = (np.array(np.broadcast_to(np.asarray(v, dtype=np.float64), s.d)) for v in (family.a, family.b))
        both = a + b
        down = b if s.sign < 0 else both + s.r
        self.prior = a, b, both, down
        s.a, s.b, s.both, s.down = pointer(a), pointer(b), pointer(both), pointer(down)
        s.lift = bool(both.max() < MOST_LIFTED)
        self.family = family

    def _set_bounds(self):
        """Set the number of factors whose products stay within 1e+-140."""
        a, _, both, down = self.prior
        total = float(np.sum(self.n)) + self.s.n_rows
        most = self.heaviest + float(np.sum(self.S)) + total * self.s.r + MAX_REPEATS + max(both.max(), down.max())
        least = min(a.min(), down.min(), 1.0)
        self.s.max_factors = int(min(max(np.log(SAFE) / max(np.log(most), -np.log(least)), 1.0), MAX_FACTORS))

    def _allocate(self, Py_ssize_t capacity):
        """Allocate empty slots in whole lines."""
        cdef beta_state *s = &self.s
        cdef Py_ssize_t slots = (capacity + LINE - 1) // LINE * LINE
        self.n, self.offset, self.level = np.zeros(slots), np.zeros(slots), np.zeros(slots)
        self.S = np.zeros((slots, s.d) if self.by_cluster else (s.d, slots))
        s.n, s.offset, s.level = pointer(self.n), pointer(self.offset), pointer(self.level)
        s.S = pointer(self.S)
        s.by_column = 1 if self.by_cluster else slots
        s.by_slot = s.d if self.by_cluster else 1
        s.capacity = self.capacity = capacity

    def _rebuild(self):
        """Compute the cached numbers of all slots from (n, S)."""
        cdef Py_ssize_t k
        self._set_bounds()
        for k in range(self.n.shape[0]):
            gather(&self.s, k, self.s.fresh)
            commit(&self.s, k, self.s.n[k])

    def _of_slots(self):
        """Return a view of the sums, (slots, F)."""
        return self.S if self.by_cluster else self.S.T

    def set_data(self, data):
        """Read the rows of another data set with the same statistics."""
        if data.n_statistics != self.s.d:
            raise DataError(f"{self.family.name}: components of {counted(self.s.d, 'column')} cannot read {data!r}")
        self._open(data)
        self._set_bounds()

    def reserve(self, Py_ssize_t capacity):
        """Make room for `capacity` slots; grow at least to twice the present capacity."""
        if capacity > self.capacity:
            n, S = self.export()
            self._allocate(max(capacity, 2 * self.capacity))
            self._fill(n, S)

    def refresh(self, labels):
        """Recompute the statistics of each slot from its members; `labels` (n_rows,) are slots."""
        self.load(*self.rows[0].statistics(labels, self.capacity))

    def rebind(self, family):
        """Use the hyper-parameters of another family with the same statistics."""
        self._set_family(family)
        self._rebuild()

    def load(self, n, S):
        """Set the statistics of the slots 0..len(n)-1 from arrays and empty the others.

        `n` is (K,) and `S` (K, F), dense or CSR.
        """
        self.reserve(len(n))
        self.n[:], self.S[:] = 0.0, 0.0
        self._fill(n, dense_rows(S))

    def _fill(self, n, S):
        self.n[: len(n)] = n
        self._of_slots()[: len(n)] = S
        self._rebuild()

    def export(self):
        """Return copies of n (capacity,) and S (capacity, F)."""
        return self.n[: self.capacity].copy(), np.ascontiguousarray(self._of_slots()[: self.capacity]).copy()

    def to_arrays(self):
        """Return (n, S) and the numbers that they do not determine to the last bit, by name."""
        n, S = self.export()
        return {"n": n, "S": S, "max_factors": np.array(self.s.max_factors)}

    def from_arrays(self, arrays):
        """Restore the arrays that `to_arrays` returned, bit for bit."""
        self._allocate(max(len(arrays["n"]), 1))
        self._fill(arrays["n"], arrays["S"])
        self.s.max_factors = int(arrays["max_factors"])
