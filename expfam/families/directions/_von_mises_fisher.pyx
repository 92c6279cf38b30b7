"""Compiled components of the von Mises-Fisher family, and its Bessel functions.

The evidence of a cluster is a sum over nodes, the concentrations that its prior allows. It depends on the count, on
|S|^2 and on m0.S alone, so a score costs one inner product and a few terms: those of the nodes whose weight is above
exp(-MARGIN) of the largest. Each slot keeps their range, which moves with the length that its sum has with the datum.
The terms of many slots are computed together, in vectors. Sparse data are scored over their nonzeros; for them |S|^2
and m0.S are kept from change to change, each in two doubles.
"""

import numpy as np

from cpython.pycapsule cimport PyCapsule_New
from libc.math cimport INFINITY, cos, exp, fabs, fma, isfinite, log, sin, sqrt
from libc.stdint cimport int32_t
from libc.string cimport memcpy

from expfam.contracts cimport EXPFAM_ABI, EXPFAM_NUMERICAL, EXPFAM_OK, EXPFAM_RANGE
from expfam.families.distance_scores cimport DISTANCE_SCORES, distance_scores_v1
from expfam.families.gaussian.storage cimport (
    RealComponents, pointer, real_clear, real_is_slot, real_row, real_state,
)
from expfam.families.rows cimport entry_column, entry_value, row_start
from expfam.structures.ground.arrays cimport aligned
from expfam.structures.simd.bessel cimport expfam_bessel_ratio, expfam_log_bessel
from expfam.structures.simd.logs cimport expfam_log
from expfam.structures.simd.vectors cimport expfam_add_row, expfam_dot

cdef extern from *:
    """
    #include "elementary.h"

    /* x := exp(x - shift), number by number */
    #define EXPFAM_VMF_EXP(NAME, TARGET)                                                                              \
        TARGET static void NAME(double *x, const double *shift, ptrdiff_t n) {                                        \
            EXPFAM_SIMD                                                                                               \
            for (ptrdiff_t i = 0; i < n; i++) x[i] = expfam_exp1(x[i] - shift[i]);                                    \
        }
    EXPFAM_INSTANCES(EXPFAM_VMF_EXP, void, expfam_vmf_exp, (double *, const double *, ptrdiff_t))

    #if defined(__GNUC__) || defined(__clang__)
    #define EXPFAM_FOUR_SUMS _Pragma("omp simd reduction(+ : p, q, r, s)")
    #else
    #define EXPFAM_FOUR_SUMS
    #endif

    /* Inner products of x (d,) with m rows; four sums at a time hide the latency of the multiply-add */
    #define EXPFAM_VMF_DOTS(NAME, TARGET)                                                                             \
        TARGET static void NAME(const double *x, const double *rows, ptrdiff_t d, ptrdiff_t m, double *out) {         \
            ptrdiff_t k = 0;                                                                                          \
            for (; k + 4 <= m; k += 4, rows += 4 * d) {                                                               \
                double p = 0.0, q = 0.0, r = 0.0, s = 0.0;                                                            \
                EXPFAM_FOUR_SUMS                                                                                      \
                for (ptrdiff_t f = 0; f < d; f++) {                                                                   \
                    p += x[f] * rows[f];                                                                              \
                    q += x[f] * rows[d + f];                                                                          \
                    r += x[f] * rows[2 * d + f];                                                                      \
                    s += x[f] * rows[3 * d + f];                                                                      \
                }                                                                                                     \
                out[k] = p, out[k + 1] = q, out[k + 2] = r, out[k + 3] = s;                                           \
            }                                                                                                         \
            for (; k < m; k++, rows += d) {                                                                           \
                double p = 0.0;                                                                                       \
                EXPFAM_SIMD_SUM(p)                                                                                    \
                for (ptrdiff_t f = 0; f < d; f++) p += x[f] * rows[f];                                                \
                out[k] = p;                                                                                           \
            }                                                                                                         \
        }
    EXPFAM_INSTANCES(EXPFAM_VMF_DOTS, void, expfam_vmf_dots,
                     (const double *, const double *, ptrdiff_t, ptrdiff_t, double *))

    /* Upper bounds of convex functions of a length, from the squares of m lengths: the highest of the chords of each.
     * `terms` has rows of m numbers: the least and the largest length, then the chords' values at the least one, then
     * their slopes. Beyond the largest length there is no bound. `out` may be the memory of `squares`. */
    #define EXPFAM_VMF_CHORDS(NAME, TARGET)                                                                           \
        TARGET static void NAME(const double *squares, const double *terms, ptrdiff_t chords, ptrdiff_t m,            \
                                double *out) {                                                                        \
            for (ptrdiff_t first = 0; first < m; first += 64) {                                                       \
                const ptrdiff_t n = m - first < 64 ? m - first : 64;                                                  \
                const double *least = terms + first, *most = least + m;                                               \
                double away[64], top[64];                                                                             \
                EXPFAM_SIMD                                                                                           \
                for (ptrdiff_t k = 0; k < n; k++) {                                                                   \
                    const double length = sqrt(squares[first + k]);                                                   \
                    away[k] = length > least[k] ? length - least[k] : 0.0;                                            \
                    top[k] = length <= most[k] ? -INFINITY : INFINITY;                                                \
                }                                                                                                     \
                for (ptrdiff_t chord = 0; chord < chords; chord++) {                                                  \
                    const double *value = least + (2 + chord) * m, *slope = value + chords * m;                       \
                    EXPFAM_SIMD                                                                                       \
                    for (ptrdiff_t k = 0; k < n; k++) {                                                               \
                        const double bound = value[k] + slope[k] * away[k];                                           \
                        top[k] = bound > top[k] ? bound : top[k];                                                     \
                    }                                                                                                 \
                }                                                                                                     \
                memcpy(out + first, top, (size_t)n * sizeof(double));                                                 \
            }                                                                                                         \
        }
    EXPFAM_INSTANCES(EXPFAM_VMF_CHORDS, void, expfam_vmf_chords,
                     (const double *, const double *, ptrdiff_t, ptrdiff_t, double *))
    """
    void (*expfam_vmf_exp)(double *x, const double *shift, Py_ssize_t n) noexcept nogil
    void (*expfam_vmf_dots)(const double *x, const double *rows, Py_ssize_t d, Py_ssize_t m, double *out) noexcept nogil
    void (*expfam_vmf_chords)(const double *squares, const double *terms, Py_ssize_t chords, Py_ssize_t m,
                              double *out) noexcept nogil

cdef enum:
    CHUNK = 16          # nodes that are added at one side of a range
    FLAT = 1024         # terms that are computed together, not fewer than nodes
    GROUP = 64          # slots whose terms are computed together, at most
    BINS = 4            # intervals of the length of a cluster's sum with one more datum
    EDGES = BINS + 1
    NARROW = 12          # one range serves all data if it has no more nodes
    TOGETHER = 4         # slots whose inner products are computed together
    SCORE_COST = 1024    # products of two numbers that take as long as a score beside its inner product
    CHORDS = 8           # of the scores of a slot between the lengths that its sum may have with one more datum
    OWN_CHORDS = 4       # of its evidence where its sum has up to its length, with one datum less

cdef double TWO_PI = 6.283185307179586
cdef double LEAST_MARGIN = 28.0     # terms at the ends of a range are lower by as much, or the range is searched again
cdef double MARGIN = 36.0           # nats below the largest term at which terms are left out
cdef double LONGEST = 1.01          # rows that scores have bounds for; their length is 1 up to the rounding of data
cdef double ROUNDING = 1e-6         # nats by which bounds exceed scores at least
cdef double LARGEST = 1e12          # of an entry of S: terms of the evidence are squares of it times squares of kappa

ctypedef struct vmf_state:
    real_state base
    Py_ssize_t nodes
    double nu                       # d / 2 - 1
    const double *kappa             # (nodes,)
    const double *level             # (nodes,) log C(kappa)
    const double *prior             # (nodes,) log weight + log C(strength) + (d / 2) log(2 pi)
    double bottom                   # log of the least kappa
    double steps                    # nodes for each nat of log kappa
    double pseudo_rows              # rows that the prior of kappa weighs, and their mean length
    double pseudo_length
    double strength
    const double *mean              # (d,) m0
    const double *inverse           # (n_rows,) 1 / |x|, or NULL if rows are read as they are
    Py_ssize_t slots
    double *columns                 # sparse data: (d, slots), sums by feature
    double *square                  # (slots, 2) |S|^2
    double *along                   # (slots, 2) m0.S
    double *evidence                # (slots,)
    int32_t *ranges                 # (slots, EDGES, 2) first node that matters, and the one after the last
    double *begin                   # (slots,) shortfall at the first edge
    double *turn                    # (slots,) edges for each nat of it, or 0 where the first range serves all data
    double *own                     # (nodes,) the writer's scratch


# ---- rows ----------------------------------------------------------------------------------------------------------

cdef inline double scale_of(const vmf_state *s, Py_ssize_t i) noexcept nogil:
    return s.inverse[i] if s.inverse != NULL else 1.0


cdef void take_row(const vmf_state *s, Py_ssize_t i, double *out) noexcept nogil:
    """Write dense row i to `out` (d,)."""
    cdef Py_ssize_t f
    cdef double scale = scale_of(s, i)
    real_row(&s.base, i, out)
    if s.inverse != NULL:
        for f in range(s.base.d):
            out[f] *= scale


cdef void measure(const vmf_state *s, Py_ssize_t i, double *square, double *along, double *x) noexcept nogil:
    """Set |x|^2 and m0.x of row i; a dense row is written to `x` (d,)."""
    cdef Py_ssize_t t
    cdef double value, scale = scale_of(s, i), squares = 0.0, product = 0.0
    if s.base.rows.starts == NULL:
        take_row(s, i, x)
        square[0] = expfam_dot(x, x, s.base.d)
        along[0] = expfam_dot(x, s.mean, s.base.d)
        return
    for t in range(row_start(&s.base.rows, i), row_start(&s.base.rows, i + 1)):
        value = scale * entry_value(&s.base.rows, t)
        squares += value * value
        product += value * s.mean[entry_column(&s.base.rows, t)]
    square[0], along[0] = squares, product


cdef double inner(const vmf_state *s, Py_ssize_t i, Py_ssize_t k, const double *x) noexcept nogil:
    """Return x_i . S_k; `x` holds the row if the data are dense."""
    cdef const double *S = s.base.S + k * s.base.F
    cdef Py_ssize_t t
    cdef double scale, product = 0.0
    if s.base.rows.starts == NULL:
        return expfam_dot(x, S, s.base.d)
    scale = scale_of(s, i)
    for t in range(row_start(&s.base.rows, i), row_start(&s.base.rows, i + 1)):
        product += scale * entry_value(&s.base.rows, t) * S[entry_column(&s.base.rows, t)]
    return product


cdef void all_inner(const vmf_state *s, Py_ssize_t i, Py_ssize_t m, const double *x, double *out) noexcept nogil:
    """Write x_i . S_k of the first m slots; `x` holds the row if the data are dense."""
    cdef Py_ssize_t t, k
    cdef double scale = scale_of(s, i)
    if s.base.rows.starts == NULL:
        expfam_vmf_dots(x, s.base.S, s.base.d, m, out)
        return
    for k in range(m):
        out[k] = 0.0
    for t in range(row_start(&s.base.rows, i), row_start(&s.base.rows, i + 1)):
        expfam_add_row(out, s.columns + entry_column(&s.base.rows, t) * s.slots,
                       scale * entry_value(&s.base.rows, t), m)


cdef void vmf_shifted(void *self, Py_ssize_t i, double sign, const double *S, double *out, double *x) noexcept nogil:
    cdef vmf_state *s = <vmf_state *> self
    cdef Py_ssize_t f, t
    cdef double scale = sign * scale_of(s, i)
    if s.base.rows.starts == NULL:
        take_row(s, i, x)
        for f in range(s.base.d):
            out[f] = S[f] + sign * x[f]
        return
    memcpy(out, S, s.base.F * sizeof(double))
    for t in range(row_start(&s.base.rows, i), row_start(&s.base.rows, i + 1)):
        out[entry_column(&s.base.rows, t)] += scale * entry_value(&s.base.rows, t)


# ---- terms of the evidence -----------------------------------------------------------------------------------------

cdef inline void arguments(const vmf_state *s, Py_ssize_t low, Py_ssize_t high, double square, double along,
                           double *out) noexcept nogil:
    """Write |strength m0 + kappa S|^2 for the nodes low..high-1, from |S|^2 and m0.S."""
    cdef Py_ssize_t j
    cdef double first = s.strength * s.strength, second = 2.0 * s.strength * along, value
    for j in range(low, high):
        value = first + s.kappa[j] * (second + s.kappa[j] * square)
        out[j - low] = value if value > 0.0 else 0.0        # rounding where the two cancel


cdef void some_terms(const vmf_state *s, Py_ssize_t low, Py_ssize_t high, double n, double square, double along,
                     double *out) noexcept nogil:
    """Write the terms of the nodes low..high-1 to out[low..high-1], nats."""
    cdef Py_ssize_t j
    if low >= high:
        return
    arguments(s, low, high, square, along, out + low)
    expfam_log_bessel(s.nu, out + low, out + low, high - low)
    for j in range(low, high):
        out[j] += s.prior[j] + n * s.level[j]


cdef double top_of(const double *terms, Py_ssize_t low, Py_ssize_t high, double top) noexcept nogil:
    cdef Py_ssize_t j
    for j in range(low, high):
        top = max(top, terms[j])
    return top


cdef double find_range(const vmf_state *s, double n, double square, double along, double *terms, Py_ssize_t *low,
                       Py_ssize_t *high) noexcept nogil:
    """Set the range of nodes whose terms matter, write these terms, and return the largest.

    A term matters within MARGIN nats of the largest. The terms rise to one maximum and fall: those beyond a term below
    the margin are below it, too. The search begins where the concentration of a mean direction of the present length
    lies (Banerjee et al. 2005, eq. 4.4).
    """
    cdef double rows = n + s.pseudo_rows, length, kappa, top, place
    cdef Py_ssize_t a, b, at = 0
    if s.nodes > 1:
        length = min((sqrt(max(square, 0.0)) + s.pseudo_length) / rows, 1.0 - 1e-12)
        kappa = length * (2.0 * s.nu + 2.0 - length * length) / (1.0 - length * length)
        place = (log(max(kappa, 1e-300)) - s.bottom) * s.steps
        at = <Py_ssize_t> min(place, s.nodes - 1.0) if place > 0.0 else 0  # NaN begins at the first node
    a, b = max(at - CHUNK, 0), min(at + CHUNK, s.nodes)
    some_terms(s, a, b, n, square, along, terms)
    top = top_of(terms, a, b, terms[a])
    while a > 0 and terms[a] > top - MARGIN:
        at, a = a, max(a - CHUNK, 0)
        some_terms(s, a, at, n, square, along, terms)
        top = top_of(terms, a, at, top)
    while b < s.nodes and terms[b - 1] > top - MARGIN:
        at, b = b, min(b + CHUNK, s.nodes)
        some_terms(s, at, b, n, square, along, terms)
        top = top_of(terms, at, b, top)
    while terms[a] < top - MARGIN:
        a += 1
    while terms[b - 1] < top - MARGIN:
        b -= 1
    low[0], high[0] = a, b
    return top


cdef double evidence_of(const vmf_state *s, double n, double square, double along, double *terms) noexcept nogil:
    """Return the log evidence of a cluster; `terms` has a number for each node."""
    cdef Py_ssize_t low, high, j
    cdef double top = find_range(s, n, square, along, terms, &low, &high), total = 0.0
    for j in range(low, high):
        total += exp(terms[j] - top)
    return top + log(total)


cdef inline double shortfall(const vmf_state *s, double n, double square) noexcept nogil:
    """Return log(1 - the mean length of n rows and those of the prior).

    The nodes that matter follow it.
    """
    cdef double length = (sqrt(max(square, 0.0)) + s.pseudo_length) / (n + s.pseudo_rows)
    return log(max(1.0 - length, 1e-12))


cdef void set_range(vmf_state *s, Py_ssize_t k, double n, double square, double along) noexcept nogil:
    """Set the ranges of nodes that matter for one more datum.

    There is one for each of EDGES lengths that the sum of slot k then has. They go from that with the opposite datum
    to that with the nearest one, in equal steps of the shortfall. Where few nodes matter in all, there is one range.
    """
    cdef Py_ssize_t low, high, rest, e
    cdef double length = sqrt(max(square, 0.0)), begin, step, both
    cdef int32_t *own = s.ranges + 2 * EDGES * k
    find_range(s, n + 1.0, (length - 1.0) * (length - 1.0), along - 1.0, s.own, &low, &rest)
    find_range(s, n + 1.0, (length + 1.0) * (length + 1.0), along + 1.0, s.own, &rest, &high)
    own[0], own[1] = <int32_t> low, <int32_t> high
    s.begin[k] = s.turn[k] = 0.0
    if high - low <= NARROW:
        return
    begin = shortfall(s, n + 1.0, (length - 1.0) * (length - 1.0))
    step = (shortfall(s, n + 1.0, (length + 1.0) * (length + 1.0)) - begin) / BINS
    s.begin[k], s.turn[k] = begin, 1.0 / min(step, -1e-9)
    for e in range(EDGES):
        both = (1.0 - exp(begin + e * step)) * (n + 1.0 + s.pseudo_rows) - s.pseudo_length
        find_range(s, n + 1.0, both * both, along, s.own, &low, &high)
        own[2 * e], own[2 * e + 1] = <int32_t> low, <int32_t> high


cdef inline void range_of(const vmf_state *s, Py_ssize_t k, double square, Py_ssize_t *low,
                          Py_ssize_t *high) noexcept nogil:
    """Set the range of slot k for a datum with which the sum has the square `square`.

    Between two lengths the ends are interpolated, and one node is added at each; `finish_group` notices where that is
    not near enough.
    """
    cdef const int32_t *ends = s.ranges + 2 * EDGES * k
    cdef Py_ssize_t e
    cdef double place
    low[0], high[0] = ends[0], ends[1]
    if s.turn[k] != 0.0:
        place = (shortfall(s, s.base.n[k] + 1.0, square) - s.begin[k]) * s.turn[k]
        place = min(place, <double> BINS) if place > 0.0 else 0.0  # also where it is NaN
        e = min(<Py_ssize_t> place, BINS - 1)
        place -= e
        ends += 2 * e
        low[0] = max(<Py_ssize_t> (ends[0] + place * (ends[2] - ends[0])) - 1, 0)
        high[0] = min(<Py_ssize_t> (ends[1] + place * (ends[3] - ends[1])) + 2, s.nodes)


# ---- scores --------------------------------------------------------------------------------------------------------

ctypedef struct flat_terms:         # terms of several slots, one slot after the other
    Py_ssize_t size, count, first   # terms and slots so far; the place of the first of these slots
    double *terms                   # (FLAT,)
    double *extra                   # (FLAT,)
    Py_ssize_t stop[GROUP]
    Py_ssize_t low[GROUP]           # first node
    double square[GROUP]            # |S + x|^2 and m0.(S + x)
    double along[GROUP]


cdef bint is_cut(const vmf_state *s, const flat_terms *flat, Py_ssize_t g, Py_ssize_t begin, double top) noexcept nogil:
    """Return whether a slot's range ends where terms still matter."""
    cdef Py_ssize_t stop = flat.stop[g]
    if flat.low[g] > 0 and flat.terms[begin] > top - LEAST_MARGIN:
        return True
    return flat.low[g] + stop - begin < s.nodes and flat.terms[stop - 1] > top - LEAST_MARGIN


cdef inline Py_ssize_t slot_of(const flat_terms *flat, const Py_ssize_t *ks, Py_ssize_t g) noexcept nogil:
    """Return the slot of member g of a group."""
    return flat.first + g if ks == NULL else ks[flat.first + g]


cdef void finish_group(const vmf_state *s, const Py_ssize_t *ks, flat_terms *flat, double *out) noexcept nogil:
    """Write the scores of the slots of a group, and empty it."""
    cdef Py_ssize_t p = 0, g, q, k
    cdef double total
    cdef double top[GROUP]
    cdef double logs[GROUP]
    cdef bint cut[GROUP]
    expfam_log_bessel(s.nu, flat.terms, flat.terms, flat.size)
    for p in range(flat.size):
        flat.terms[p] += flat.extra[p]
    p = 0
    for g in range(flat.count):
        top[g] = flat.terms[p]
        for q in range(p + 1, flat.stop[g]):
            top[g] = max(top[g], flat.terms[q])
        cut[g] = s.turn[slot_of(flat, ks, g)] != 0.0 and is_cut(s, flat, g, p, top[g])
        while p < flat.stop[g]:
            flat.extra[p] = top[g]
            p += 1
    expfam_vmf_exp(flat.terms, flat.extra, flat.size)
    p = 0
    for g in range(flat.count):
        total = 0.0
        while p < flat.stop[g]:
            total += flat.terms[p]
            p += 1
        logs[g] = total
    expfam_log(logs, logs, flat.count)
    for g in range(flat.count):
        q = flat.first + g
        k = slot_of(flat, ks, g)
        out[q] = top[g] + logs[g] - s.evidence[k]
        if cut[g]:
            out[q] = evidence_of(s, s.base.n[k] + 1.0, flat.square[g], flat.along[g], flat.terms) - s.evidence[k]
    flat.first += flat.count
    flat.size = flat.count = 0


cdef int score_slots(const vmf_state *s, Py_ssize_t i, const double *x, const Py_ssize_t *ks, Py_ssize_t first,
                     Py_ssize_t stop, double square, double along, double *out, double *work) noexcept nogil:
    """Write the scores of the slots ks[first..stop-1], or first..stop-1, to out[first..stop-1].

    Without `ks` it holds the inner products of the row with the sums of the slots.
    """
    cdef Py_ssize_t q, k, j, low = 0, high = 0, g
    cdef double product, n, both, side, value, base = s.strength * s.strength
    cdef double *terms
    cdef flat_terms flat
    flat.size, flat.count, flat.first = 0, 0, first
    flat.terms, flat.extra = work, work + FLAT
    for q in range(first, stop):
        k = q if ks == NULL else ks[q]
        if not real_is_slot(&s.base, k):
            return EXPFAM_RANGE
        product = out[q] if ks == NULL else inner(s, i, k, x)
        both, side = s.square[2 * k] + 2.0 * product + square, s.along[2 * k] + along
        range_of(s, k, both, &low, &high)
        if flat.count == GROUP or flat.size + high - low > FLAT:
            finish_group(s, ks, &flat, out)
        g = flat.count
        flat.low[g], flat.square[g], flat.along[g] = low, both, side
        n = s.base.n[k] + 1.0
        side *= 2.0 * s.strength
        terms = flat.terms + flat.size - low
        for j in range(low, high):
            value = base + s.kappa[j] * (side + s.kappa[j] * both)
            terms[j] = value if value > 0.0 else 0.0
            terms[j + FLAT] = s.prior[j] + n * s.level[j]
        flat.size += high - low
        flat.stop[g] = flat.size
        flat.count += 1
    finish_group(s, ks, &flat, out)
    return EXPFAM_OK


cdef int vmf_log_predictive(void *self, Py_ssize_t i, const Py_ssize_t *ks, Py_ssize_t m,
                            double *out, double *work) noexcept nogil:
    cdef vmf_state *s = <vmf_state *> self
    cdef double square = 0.0, along = 0.0
    cdef double *x = work + 2 * FLAT
    if ks == NULL and m > s.base.capacity:
        return EXPFAM_RANGE
    measure(s, i, &square, &along, x)
    if ks == NULL:
        all_inner(s, i, m, x, out)
    return score_slots(s, i, x, ks, 0, m, square, along, out, work)


# ---- bounds of scores ----------------------------------------------------------------------------------------------

cdef int vmf_row(void *self, Py_ssize_t i, double *out) noexcept nogil:
    take_row(<vmf_state *> self, i, out)
    return EXPFAM_OK


cdef inline double longest_rest(double square, double rest) noexcept nogil:
    """Return the length of the sum of `rest` rows up to which its evidence is bounded.

    `square` is the squared length with one more row, which nearly always points to the side of this sum.
    """
    return min(sqrt(max(square, 0.0) + 1.0), 1.00001 * rest)


cdef int vmf_location(void *self, Py_ssize_t k, Py_ssize_t m, double *out, double *terms) noexcept nogil:
    """Write -S_k, and chords of what is bounded for slot k.

    There are those of its scores by |S_k + x|, and of its evidence without a datum by |S_k - x|.

    A score rises with m0.x, too, which is at most LONGEST |m0|. Given that, the log of each term of the evidence is
    convex in the length, and so is that of their sum: log(I_nu(z) / z^nu) is convex in z, as the log of a mean of
    exp(z t), and rises, and z is the root of a square of the length plus a number that is not negative. So no score
    lies above its chord.
    """
    cdef vmf_state *s = <vmf_state *> self
    cdef double length = sqrt(max(s.square[2 * k] + s.square[2 * k + 1], 0.0)), step, least, side, at, slope
    cdef double values[CHORDS + 1]
    cdef double *own = terms + (2 + 2 * CHORDS) * m
    cdef double rest = max(s.base.n[k] - 1.0, 0.0)
    cdef Py_ssize_t f, t
    for f in range(s.base.d):
        out[f] = -s.base.S[s.base.F * k + f]
    side = s.along[2 * k] + s.along[2 * k + 1] + LONGEST * sqrt(expfam_dot(s.mean, s.mean, s.base.d))
    least = max(length - LONGEST, 0.0)
    step = (length + LONGEST - least) / CHORDS
    terms[k], terms[m + k] = least, length + LONGEST
    for t in range(CHORDS + 1):
        at = least + t * step
        values[t] = evidence_of(s, s.base.n[k] + 1.0, at * at, max(side, 0.0), s.own) - s.evidence[k]
        values[t] += ROUNDING + 1e-9 * (fabs(values[t]) + fabs(s.evidence[k]))
        if not isfinite(values[t]):
            return EXPFAM_NUMERICAL
    for t in range(CHORDS):
        slope = (values[t + 1] - values[t]) / step
        terms[(2 + t) * m + k] = values[t] - slope * (t * step)
        terms[(2 + CHORDS + t) * m + k] = slope
    step = max(longest_rest(length * length, rest) - least, 1e-9) / OWN_CHORDS
    for t in range(OWN_CHORDS + 1):
        at = least + t * step
        values[t] = evidence_of(s, rest, at * at, max(side, 0.0), s.own) if rest else evidence_of(s, 0, 0, 0, s.own)
        values[t] += ROUNDING + 1e-9 * (fabs(values[t]) + fabs(s.evidence[k]))
        if not isfinite(values[t]):
            return EXPFAM_NUMERICAL
    for t in range(OWN_CHORDS):
        slope = (values[t + 1] - values[t]) / step
        own[t * m + k] = values[t] - slope * (t * step)
        own[(OWN_CHORDS + t) * m + k] = slope
    return EXPFAM_OK


cdef int vmf_bounds(void *self, double square, const double *squares, const double *terms, Py_ssize_t m,
                    double *out) noexcept nogil:
    if not square < LONGEST * LONGEST:
        return EXPFAM_NUMERICAL
    expfam_vmf_chords(squares, terms, CHORDS, m, out)
    return EXPFAM_OK


cdef double vmf_own(void *self, Py_ssize_t k, double square, double distance, const double *terms,
                    Py_ssize_t m) noexcept nogil:
    """Return a lower bound of the score of a row in its own slot, from the other data.

    That is the evidence of the slot less that of the others, whose sum has the length |S - x|, as |S + x| tells.
    """
    cdef vmf_state *s = <vmf_state *> self
    cdef const double *own = terms + (2 + 2 * CHORDS) * m + k
    cdef double whole = s.square[2 * k] + s.square[2 * k + 1], both = whole + square, length, top = -INFINITY
    cdef Py_ssize_t t
    length = sqrt(max(2.0 * both - distance + 1e-12 * both, 0.0)) if s.base.n[k] > 1.0 else 0.0
    if not (square < LONGEST * LONGEST and length <= longest_rest(whole, s.base.n[k] - 1.0)):
        return -INFINITY
    length = max(length - terms[k], 0.0)
    for t in range(OWN_CHORDS):
        top = max(top, own[t * m] + own[(OWN_CHORDS + t) * m] * length)
    return s.evidence[k] - top


cdef int vmf_exact(void *self, const double *x, Py_ssize_t first, Py_ssize_t stop, double *out,
                   double *work) noexcept nogil:
    cdef vmf_state *s = <vmf_state *> self
    cdef double square = expfam_dot(x, x, s.base.d), along = expfam_dot(x, s.mean, s.base.d)
    expfam_vmf_dots(x, s.base.S + first * s.base.F, s.base.d, stop - first, out + first)
    return score_slots(s, -1, x, NULL, first, stop, square, along, out, work)


cdef int vmf_log_predictive_self(void *self, Py_ssize_t i, Py_ssize_t k, double *out, double *work) noexcept nogil:
    cdef vmf_state *s = <vmf_state *> self
    cdef double square = 0.0, along = 0.0, product, n, rest = 0.0, side = 0.0
    cdef double *x = work + 2 * FLAT
    if not real_is_slot(&s.base, k) or s.base.n[k] < 1.0:
        return EXPFAM_RANGE
    measure(s, i, &square, &along, x)
    n = s.base.n[k] - 1.0
    if n > 0.0:
        product = inner(s, i, k, x)
        rest = max(s.square[2 * k] + (s.square[2 * k + 1] + (square - 2.0 * product)), 0.0)
        side = s.along[2 * k] + (s.along[2 * k + 1] - along)
    out[0] = s.evidence[k] - evidence_of(s, n, rest, side, work)
    return EXPFAM_OK


# ---- changes -------------------------------------------------------------------------------------------------------

cdef int finish(vmf_state *s, Py_ssize_t k, double n, const double *square, const double *along) noexcept nogil:
    """Set the caches of slot k from the count, |S|^2 and m0.S.

    Nothing changes unless they are usable.
    """
    cdef double total = square[0] + square[1], side = along[0] + along[1], evidence
    if not (total < LARGEST * LARGEST and isfinite(side)):
        return EXPFAM_NUMERICAL
    evidence = evidence_of(s, n, total, side, s.own) if n else 0.0
    if not isfinite(evidence):
        return EXPFAM_NUMERICAL
    s.base.n[k] = n
    s.square[2 * k], s.square[2 * k + 1] = square[0], square[1]
    s.along[2 * k], s.along[2 * k + 1] = along[0], along[1]
    s.evidence[k] = evidence
    set_range(s, k, n, total, side)
    return EXPFAM_OK


cdef int vmf_commit(void *self, Py_ssize_t k, double n, const double *S) noexcept nogil:
    cdef vmf_state *s = <vmf_state *> self
    cdef double *own = s.base.S + k * s.base.F
    cdef Py_ssize_t f
    cdef double square[2]
    cdef double along[2]
    cdef int code
    square[0], square[1] = expfam_dot(S, S, s.base.d), 0.0
    along[0], along[1] = expfam_dot(S, s.mean, s.base.d), 0.0
    code = finish(s, k, n, square, along)
    if code:
        return code
    if s.columns != NULL:
        for f in range(s.base.d):
            # features that are zero in both rows are skipped: each of their columns would cost a cache line
            if S[f] != 0.0 or own[f] != 0.0:
                s.columns[f * s.slots + k] = S[f]
    if own != S:
        memcpy(own, S, s.base.F * sizeof(double))
    return EXPFAM_OK


cdef void add_to(double *total, double value) noexcept nogil:
    """Add a number to a sum of two doubles, without rounding of the first one (Knuth's two-sum)."""
    cdef double sum_ = total[0] + value, part = sum_ - total[0]
    total[1] += (total[0] - (sum_ - part)) + (value - part)
    total[0] = sum_


cdef void add_square(double *total, double value, double sign) noexcept nogil:
    """Add sign value^2 to a sum of two doubles; the product is exact."""
    cdef double square = value * value
    total[1] += sign * fma(value, value, -square)
    add_to(total, sign * square)


cdef int sparse_move(vmf_state *s, Py_ssize_t i, Py_ssize_t k, double sign) noexcept nogil:
    cdef double *S = s.base.S + k * s.base.F
    cdef Py_ssize_t t, f
    cdef double value, x, scale = sign * scale_of(s, i)
    cdef double square[2]
    cdef double along[2]
    cdef int code
    square[0], square[1] = s.square[2 * k], s.square[2 * k + 1]
    along[0], along[1] = s.along[2 * k], s.along[2 * k + 1]
    for t in range(row_start(&s.base.rows, i), row_start(&s.base.rows, i + 1)):
        f = entry_column(&s.base.rows, t)
        x = scale * entry_value(&s.base.rows, t)
        value = S[f] + x
        add_square(square, S[f], -1.0)
        add_square(square, value, 1.0)
        add_to(along, x * s.mean[f])
    code = finish(s, k, s.base.n[k] + sign, square, along)
    if code:
        return code
    for t in range(row_start(&s.base.rows, i), row_start(&s.base.rows, i + 1)):
        f = entry_column(&s.base.rows, t)
        S[f] += scale * entry_value(&s.base.rows, t)
        s.columns[f * s.slots + k] = S[f]
    return EXPFAM_OK


cdef int sparse_add(void *self, Py_ssize_t i, Py_ssize_t k) noexcept nogil:
    cdef vmf_state *s = <vmf_state *> self
    return sparse_move(s, i, k, 1.0) if real_is_slot(&s.base, k) else EXPFAM_RANGE


cdef int sparse_remove(void *self, Py_ssize_t i, Py_ssize_t k) noexcept nogil:
    cdef vmf_state *s = <vmf_state *> self
    if not real_is_slot(&s.base, k) or s.base.n[k] < 1.0:
        return EXPFAM_RANGE
    return real_clear(self, k) if s.base.n[k] == 1.0 else sparse_move(s, i, k, -1.0)


cdef int vmf_evidence(void *self, double n, const double *S, double *out, double *work) noexcept nogil:
    cdef vmf_state *s = <vmf_state *> self
    out[0] = evidence_of(s, n, expfam_dot(S, S, s.base.d), expfam_dot(S, s.mean, s.base.d), work)
    return EXPFAM_OK if isfinite(out[0]) else EXPFAM_NUMERICAL


cdef int slot_evidence(void *self, const Py_ssize_t *ks, Py_ssize_t m, double *out, double *work) noexcept nogil:
    cdef vmf_state *s = <vmf_state *> self
    cdef Py_ssize_t j, k
    for j in range(m):
        k = j if ks == NULL else ks[j]
        if not real_is_slot(&s.base, k):
            return EXPFAM_RANGE
        out[j] = s.evidence[k]
    return EXPFAM_OK


cdef int vmf_log_merged(void *self, Py_ssize_t k, const Py_ssize_t *ls, Py_ssize_t m,
                        double *out, double *work) noexcept nogil:
    """Compute the log evidences of pairs, which need one inner product each."""
    cdef vmf_state *s = <vmf_state *> self
    cdef const double *S = s.base.S + k * s.base.F
    cdef Py_ssize_t j, other
    cdef double both, side
    if not real_is_slot(&s.base, k):
        return EXPFAM_RANGE
    for j in range(m):
        other = j if ls == NULL else ls[j]
        if not real_is_slot(&s.base, other):
            return EXPFAM_RANGE
        # the smaller square last, so that the bits do not depend on which cluster of the pair is k
        both = max(s.square[2 * k], s.square[2 * other]) + min(s.square[2 * k], s.square[2 * other])
        both += 2.0 * expfam_dot(S, s.base.S + other * s.base.F, s.base.d)
        side = s.along[2 * k] + s.along[2 * other]
        out[j] = evidence_of(s, s.base.n[k] + s.base.n[other], max(both, 0.0), side, work)
        if not isfinite(out[j]):
            return EXPFAM_NUMERICAL
    return EXPFAM_OK


cdef inline void exchange_numbers(double *a, double *b) noexcept nogil:
    cdef double t = a[0]
    a[0] = b[0]
    b[0] = t


cdef void vmf_exchange(void *self, Py_ssize_t k, Py_ssize_t l) noexcept nogil:
    cdef vmf_state *s = <vmf_state *> self
    cdef Py_ssize_t f
    cdef int32_t t
    for f in range(2):
        exchange_numbers(s.square + 2 * k + f, s.square + 2 * l + f)
        exchange_numbers(s.along + 2 * k + f, s.along + 2 * l + f)
    exchange_numbers(s.evidence + k, s.evidence + l)
    exchange_numbers(s.begin + k, s.begin + l)
    exchange_numbers(s.turn + k, s.turn + l)
    for f in range(2 * EDGES):
        t = s.ranges[2 * EDGES * k + f]
        s.ranges[2 * EDGES * k + f] = s.ranges[2 * EDGES * l + f]
        s.ranges[2 * EDGES * l + f] = t
    if s.columns != NULL:
        for f in range(s.base.d):
            s.columns[f * s.slots + k] = s.base.S[k * s.base.F + f]
            s.columns[f * s.slots + l] = s.base.S[l * s.base.F + f]


# ---- owner ---------------------------------------------------------------------------------------------------------

cdef class VonMisesFisherComponents(RealComponents):
    """Statistics of clusters of a `VonMisesFisher`, of dense or CSR data; see `RealComponents`."""

    cdef vmf_state mine
    cdef distance_scores_v1 terms
    cdef object columns, caches, ranges, prior, inverse
    cdef readonly object distances  # capsule of `terms`, of dense data
    cdef readonly Py_ssize_t score_cost     # of a score beside its distance, in products of two numbers

    def __init__(self, family, data, Py_ssize_t capacity):
        cdef vmf_state *s = &self.mine
        self.family, self.data = family, data
        self.prepare(&s.base)
        s.nu = 0.5 * s.base.d - 1.0
        s.base.shifted, s.base.commit, s.base.evidence = vmf_shifted, vmf_commit, vmf_evidence
        s.base.exchange = vmf_exchange
        self.api.log_predictive, self.api.log_predictive_self = vmf_log_predictive, vmf_log_predictive_self
        self.api.log_marginal, self.api.log_merged = slot_evidence, vmf_log_merged
        if data.is_sparse:
            self.api.add, self.api.remove = sparse_add, sparse_remove
        else:
            self.show_distances()
            self.offer_sums()
        self.api.work_size = 2 * FLAT + s.base.d
        self.set_prior()
        self.resize(capacity)
        self.rebuild_caches()

    cdef void show_distances(self):
        """Offer scores by distances."""
        self.terms.abi_version, self.terms.struct_size = EXPFAM_ABI, sizeof(distance_scores_v1)
        self.terms.self, self.terms.rises, self.terms.n_columns = &self.mine, 1, self.mine.base.d
        self.terms.group, self.terms.work_size, self.terms.n_terms = TOGETHER, 2 * FLAT, 2 + 2 * (CHORDS + OWN_CHORDS)
        self.terms.row, self.terms.location = vmf_row, vmf_location
        self.terms.bounds, self.terms.exact, self.terms.own = vmf_bounds, vmf_exact, vmf_own
        self.distances, self.score_cost = PyCapsule_New(&self.terms, DISTANCE_SCORES, NULL), SCORE_COST

    cdef int read_rows(self) except -1:
        """Point the state at the rows of the data, and compute their lengths if they are normalised."""
        RealComponents.read_rows(self)
        self.inverse = None
        self.mine.inverse = NULL
        if self.family.normalize is True:
            self.inverse = self.family.inverse_lengths(self.data.X)
            self.mine.inverse = pointer(self.inverse)
        return 0

    def set_prior(self):
        """Copy the family's hyper-parameters and the constants of the nodes."""
        cdef vmf_state *s = &self.mine
        kappa, log_weight = self.family.nodes()
        level = self.family.log_constant(kappa)
        # the constants of the sphere cancel but for one, and `log_bessel` lacks it
        prior = log_weight + self.family.log_constant(np.array([self.family.strength]))
        prior += 0.5 * s.base.d * log(TWO_PI)
        mean = np.ascontiguousarray(self.family.mean, dtype=np.float64)
        kappa = np.ascontiguousarray(kappa, dtype=np.float64)
        own = np.zeros(len(kappa))
        self.prior = kappa, level, prior, mean, own
        s.nodes = len(kappa)
        s.kappa, s.level, s.prior = pointer(kappa), pointer(level), pointer(prior)
        s.mean, s.own = pointer(mean), pointer(own)
        s.strength = self.family.strength
        s.bottom = log(<double> kappa[0])
        s.steps = (s.nodes - 1) / (log(<double> kappa[s.nodes - 1]) - s.bottom) if s.nodes > 1 else 0.0
        s.pseudo_rows, s.pseudo_length = self.family.prior_rows()

    cdef int resize(self, Py_ssize_t capacity) except -1:
        cdef vmf_state *s = &self.mine
        cdef Py_ssize_t slots = RealComponents.resize(self, capacity)
        s.slots = slots
        self.columns = aligned(slots * s.base.d) if self.data.is_sparse else None
        s.columns = pointer(self.columns) if self.data.is_sparse else NULL
        self.caches = aligned(7 * slots)
        self.ranges = np.zeros(2 * EDGES * slots, dtype=np.int32)
        s.square = pointer(self.caches)
        s.along, s.evidence = s.square + 2 * slots, s.square + 4 * slots
        s.begin, s.turn = s.square + 5 * slots, s.square + 6 * slots
        s.ranges = <int32_t *> <size_t> self.ranges.ctypes.data
        return slots

    def rebuild_caches(self):
        """Rebuild all caches from (n, S)."""
        if self.data.is_sparse:
            self.columns[:] = 0.0
            self.columns.reshape(self.state.d, -1)[:] = self.S.reshape(-1, self.state.d).T
        RealComponents.rebuild_caches(self)

    def to_arrays(self):
        """Return the statistics by name; for sparse data also |S|^2 and m0.S.

        The last bits of these depend on the order of changes.
        """
        arrays = RealComponents.to_arrays(self)
        if self.data.is_sparse:
            both = self.caches[: 4 * self.mine.slots].reshape(2, -1, 2)[:, : self.capacity]
            arrays["lengths"] = np.concatenate([both[0], both[1]], axis=1)
        return arrays

    def from_arrays(self, arrays):
        """Restore the arrays that `to_arrays` returned."""
        cdef vmf_state *s = &self.mine
        cdef Py_ssize_t k
        cdef double[:, ::1] lengths
        RealComponents.from_arrays(self, arrays)
        if self.data.is_sparse:
            lengths = np.ascontiguousarray(arrays["lengths"], dtype=np.float64)
            for k in range(self.capacity):
                finish(s, k, s.base.n[k], &lengths[k, 0], &lengths[k, 2])


# ---- functions of arrays -------------------------------------------------------------------------------------------

def log_bessel(double nu, square):
    """Return log(I_nu(z) / z^nu), from the squares of z.

    Parameters
    ----------
    nu : float
        Order, not negative.
    square : array_like of float
        z^2, from 0 to 1e30.

    Returns
    -------
    float64 ndarray of the same shape
    """
    values = np.array(square, dtype=np.float64, order="C")
    if values.size:
        expfam_log_bessel(nu, pointer(values), pointer(values), values.size)
    return values


def bessel_ratio(double nu, square):
    """Return I_{nu + 1}(z) / (z I_nu(z)), from the squares of z; see `log_bessel`."""
    values = np.array(square, dtype=np.float64, order="C")
    out = np.empty_like(values)
    if values.size:
        expfam_bessel_ratio(nu, pointer(values), pointer(out), values.size)
    return out


def log_evidence_of_angles(const double[::1] n, const double[:, ::1] S, const double[:, ::1] kappa,
                           const double[:, ::1] log_weight, const double[::1] mean, const double[::1] strength):
    """Return the log evidence of clusters of angles in each column: (K, V) nats.

    It is that of `VonMisesFisher` in two dimensions.

    Parameters
    ----------
    n : (K,) float64 ndarray
    S : (K, 2 V) float64 ndarray
        Sums of all cosines, then of all sines.
    kappa, log_weight : (V, J) float64 ndarrays
        Nodes of the concentration in each column, and logs of their prior weights.
    mean, strength : (V,) float64 ndarrays
        Of the prior of the mean angle, in radians.
    """
    cdef Py_ssize_t K = n.shape[0], V = kappa.shape[0], J = kappa.shape[1], k, v, j
    cdef double[:, ::1] level = np.empty((V, J)), out = np.empty((K, V))
    cdef double[::1] terms = np.empty(J), prior = np.empty(V)
    cdef double cosine, sine, square, along, value, top, total
    with nogil:
        for v in range(V):
            for j in range(J):
                level[v, j] = kappa[v, j] * kappa[v, j]
            expfam_log_bessel(0.0, &level[v, 0], &level[v, 0], J)
            for j in range(J):
                level[v, j] = -log(TWO_PI) - level[v, j]
            value = strength[v] * strength[v]
            expfam_log_bessel(0.0, &value, &prior[v], 1)
        for k in range(K):
            for v in range(V):
                cosine, sine = S[k, v], S[k, V + v]
                if n[k] == 0.0 and cosine == 0.0 and sine == 0.0:
                    out[k, v] = 0.0             # the terms are those of a distribution, whose sum is 1
                    continue
                square, along = cosine * cosine + sine * sine, cosine * cos(mean[v]) + sine * sin(mean[v])
                for j in range(J):
                    value = 2.0 * strength[v] * along + kappa[v, j] * square
                    terms[j] = max(strength[v] * strength[v] + kappa[v, j] * value, 0.0)
                expfam_log_bessel(0.0, &terms[0], &terms[0], J)
                top = -INFINITY
                for j in range(J):
                    terms[j] += log_weight[v, j] - prior[v] + n[k] * level[v, j]
                    top = max(top, terms[j])
                total = 0.0
                for j in range(J):
                    total += exp(terms[j] - top)
                out[k, v] = top + log(total)
    return np.asarray(out)
