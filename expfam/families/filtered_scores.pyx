"""Best slots of rows, most of whose scores are bounded by matrix products.

Scores of some families depend on a row through its distance from one location for each slot, see `distance_scores.pxd`.
A product in single precision gives all distances of some rows, with a bound of its rounding error, and so an upper
bound of every score. Where the machine has products of bytes, rows and locations are integers first, see
`expfam.structures.rows.byte_codes`: their bounds are wider. Scores that may matter are computed in double precision, by
the code that computes all scores, so the results have the same bits; no bound ever changes one.

A row is scored under all slots where many may matter, and so are further rows where that happens often.
"""

import numpy as np

from libc.math cimport INFINITY, exp, isnan, sqrt
from libc.stdint cimport int32_t, uint8_t
from libc.string cimport memcpy, memset

from expfam.contracts cimport EXPFAM_NUMERICAL, EXPFAM_OK
from expfam.families.components cimport Components, copy_struct
from expfam.families.distance_scores cimport DISTANCE_SCORES, distance_scores_v1
from expfam.structures.rows.byte_codes cimport CodedPoints, CodedRows
from expfam.structures.simd.softmax cimport expfam_exp_blocks
from expfam.structures.simd.vectors cimport expfam_dot

from expfam.amounts import counted
from expfam.structures.rows.byte_codes import has_byte_products, suits_codes

cdef extern from *:
    """
    #include "dispatch.h"

    /* Bounds of squared distances, from the products of a row and m locations. Twice a product is wrong by slack[0]
     * for each unit of length of the location, slack[1] for each unit of its error, and `rest`. */
    #define EXPFAM_PRODUCT_DISTANCES(NAME, TARGET)                                                                    \
        TARGET static void NAME(const float *products, const double *squares, const double *lengths,                  \
                                const double *errors, double square, const double *slacks, double rest, double sign,  \
                                ptrdiff_t m, double *out) {                                                           \
            const double share = slacks[0], other = slacks[1];                                                        \
            EXPFAM_SIMD                                                                                               \
            for (ptrdiff_t k = 0; k < m; k++) {                                                                       \
                const double both = square + squares[k];                                                              \
                const double slack = share * lengths[k] + other * errors[k] + rest + 1e-12 * both;                    \
                const double value = both - 2.0 * (double)products[k] + sign * slack;                                 \
                out[k] = value > 0.0 ? value : 0.0;                                                                   \
            }                                                                                                         \
        }
    EXPFAM_INSTANCES(EXPFAM_PRODUCT_DISTANCES, void, expfam_product_distances,
                     (const float *, const double *, const double *, const double *, double, const double *, double,
                      double, ptrdiff_t, double *))

    /* x := x + mass; write the largest entry of each group of `size` */
    #define EXPFAM_GROUP_TOPS(NAME, TARGET)                                                                           \
        TARGET static void NAME(double *x, const double *mass, ptrdiff_t m, ptrdiff_t size, double *tops) {           \
            EXPFAM_SIMD                                                                                               \
            for (ptrdiff_t k = 0; k < m; k++)                                                                         \
                x[k] = mass[k] > -INFINITY ? x[k] + mass[k] : -INFINITY; /* a bound may be infinite */                \
            for (ptrdiff_t first = 0; first < m; first += size, tops++) {                                             \
                const ptrdiff_t stop = m - first < size ? m : first + size;                                           \
                double top = -INFINITY;                                                                               \
                for (ptrdiff_t k = first; k < stop; k++) top = x[k] > top ? x[k] : top;                               \
                *tops = top;                                                                                          \
            }                                                                                                         \
        }
    EXPFAM_INSTANCES(EXPFAM_GROUP_TOPS, void, expfam_group_tops,
                     (double *, const double *, ptrdiff_t, ptrdiff_t, double *))

    /* Write a row less the centre in single precision, and return its squared length */
    #define EXPFAM_CENTRED_ROW(NAME, TARGET)                                                                          \
        TARGET static double NAME(const double *x, const double *centre, ptrdiff_t d, float *out) {                   \
            double square = 0.0;                                                                                      \
            EXPFAM_SIMD_SUM(square)                                                                                   \
            for (ptrdiff_t f = 0; f < d; f++) {                                                                       \
                const double gap = x[f] - centre[f];                                                                  \
                square += gap * gap;                                                                                  \
                out[f] = (float)gap;                                                                                  \
            }                                                                                                         \
            return square;                                                                                            \
        }
    EXPFAM_INSTANCES(EXPFAM_CENTRED_ROW, double, expfam_centred_row,
                     (const double *, const double *, ptrdiff_t, float *))

    #define EXPFAM_NARROW_DOT(NAME, TARGET)                                                                           \
        TARGET static float NAME(const float *x, const float *y, ptrdiff_t d) {                                       \
            float total = 0.0f;                                                                                       \
            EXPFAM_SIMD_SUM(total)                                                                                    \
            for (ptrdiff_t f = 0; f < d; f++) total += x[f] * y[f];                                                   \
            return total;                                                                                             \
        }
    EXPFAM_INSTANCES(EXPFAM_NARROW_DOT, float, expfam_narrow_dot, (const float *, const float *, ptrdiff_t))
    """
    void (*expfam_product_distances)(const float *products, const double *squares, const double *lengths,
                                     const double *errors, double square, const double *slacks, double rest,
                                     double sign, Py_ssize_t m, double *out) noexcept nogil
    void (*expfam_group_tops)(double *x, const double *mass, Py_ssize_t m, Py_ssize_t size,
                              double *tops) noexcept nogil
    double (*expfam_centred_row)(const double *x, const double *centre, Py_ssize_t d, float *out) noexcept nogil
    float (*expfam_narrow_dot)(const float *x, const float *y, Py_ssize_t d) noexcept nogil

cdef enum:
    TILE = 128              # rows of a product
    TRIED = 16              # rows of the first one of a call, which shows whether products pay

cdef size_t FIRST_SIZE = <size_t> &(<distance_scores_v1 *> NULL).own    # of the struct, before `own` was appended
cdef double DEPTH = 46.0            # slots that lie this many nats below the best one have no probability
cdef double LARGEST = 1e30          # of squared lengths: single precision holds their products
cdef double FEW = 0.25              # share of the slots of a row up to which their scores are computed one by one
cdef double DEAR = 12.0             # a score takes the time that integers save in the products of so many slots
cdef double MANY = 0.5              # such a share, where a row is scored under all slots otherwise
cdef double UNIT = 2.0 ** -24       # rounding of single precision
cdef double TINY = 2.0 ** -120      # more than what underflow takes from a product
_MANY_SLOTS, _MANY_NUMBERS, _MANY_ROWS = 16, 1 << 14, 256


cdef inline double share_of(const filtered_slots *s, double length) noexcept nogil:
    """Return the rounding error of twice a product, for each unit of length of the location."""
    # every operation of a product of d terms rounds, and so does each of its numbers
    return 4.0 * (s.d + 8) * UNIT * length + TINY * s.d


cdef inline double rest_of(const filtered_slots *s, double length) noexcept nogil:
    """Return the error of twice a product that does not depend on the location."""
    return TINY * s.d * (1.0 + length)


cdef bint codes_are_dear(const filtered_slots *s, Py_ssize_t n_rows, Py_ssize_t n_scored, Py_ssize_t L) noexcept nogil:
    """Tell whether bounds of integers are so wide that single precision takes less time.

    Scores of `n_scored` groups were computed for rows that need the L highest.
    """
    cdef Py_ssize_t n_needed = n_rows * ((L + s.f.group - 1) // s.f.group)
    return DEAR * (n_scored - n_needed) * s.f.group > n_rows * s.m


cdef bint has_bounds(const filtered_slots *s, tile_scratch *w, Py_ssize_t r) noexcept nogil:
    """Write bounds of the scores of row r of a tile, without masses; tell if there are any."""
    cdef double square = w.lengths[2 * r]
    if not (square < LARGEST and w.lengths[2 * r + 1] < LARGEST):
        return False
    expfam_product_distances(w.products + r * w.stride, s.squares, s.lengths, w.errors, square, w.slacks + 2 * r,
                             rest_of(s, sqrt(square)), 1.0 if s.f.rises else -1.0, s.m, w.bounds)
    return not s.f.bounds(s.f.self, w.lengths[2 * r + 1], w.bounds, s.terms, s.m, w.bounds)


cdef inline Py_ssize_t next_group(const filtered_slots *s, const tile_scratch *w) noexcept nogil:
    """Return the group of the largest bound among those whose scores are not known, or -1."""
    cdef Py_ssize_t g, found = -1
    for g in range(s.n_groups):
        if not w.is_known[g] and (found < 0 or w.tops[g] > w.tops[found]):
            found = g
    return found


cdef inline bint enter(double *best, Py_ssize_t L, double score) noexcept nogil:
    """Enter a score into the highest ones; return whether it is NaN."""
    cdef Py_ssize_t j = L - 1
    if isnan(score):
        return True
    if score > best[j]:
        while j > 0 and score > best[j - 1]:
            best[j] = best[j - 1]
            j -= 1
        best[j] = score
    return False


cdef int add_group(const filtered_slots *s, tile_scratch *w, const double *x, Py_ssize_t g, const double *mass,
                   Py_ssize_t L) noexcept nogil:
    """Compute the scores of one group."""
    cdef Py_ssize_t first = g * s.f.group, stop = min((g + 1) * s.f.group, s.m), k
    if s.f.exact(s.f.self, x, first, stop, w.scores, w.work):
        return EXPFAM_NUMERICAL
    w.is_known[g] = 1
    for k in range(first, stop):
        w.scores[k] += mass[k]
        if enter(w.best, L, w.scores[k]):
            return EXPFAM_NUMERICAL
    return EXPFAM_OK


cdef Py_ssize_t some_scores(const filtered_slots *s, tile_scratch *w, Py_ssize_t r, const double *mass, Py_ssize_t L,
                            double depth, Py_ssize_t own) noexcept nogil:
    """Compute the scores of row r that may be among the L highest, or near them.

    Those are near that may lie less than `depth` nats below the L highest. That of slot `own` is computed, too, if it
    is not below 0. Return the number of groups that were scored, and 0 where all scores are wanted instead.
    """
    cdef const double *x = w.x + r * s.d
    cdef Py_ssize_t g, k, n_known = 0
    if not bound_groups(s, w, r, mass):
        return 0
    memset(w.is_known, 0, s.n_groups)
    for k in range(L):
        w.best[k] = -INFINITY
    if own >= 0:
        if add_group(s, w, x, own // s.f.group, mass, L):
            return 0
        n_known += 1
    g = next_group(s, w)
    while g >= 0 and (n_known * s.f.group < L or not w.tops[g] < w.best[L - 1] - depth):
        if n_known >= FEW * s.n_groups or add_group(s, w, x, g, mass, L):
            return 0
        n_known += 1
        g = next_group(s, w)
    return n_known


cdef bint bound_groups(const filtered_slots *s, tile_scratch *w, Py_ssize_t r, const double *mass) noexcept nogil:
    """Write bounds of the scores of row r and of its groups, with masses; tell if there are any."""
    if not has_bounds(s, w, r):
        return False
    expfam_group_tops(w.bounds, mass, s.m, s.f.group, w.tops)
    return True


cdef double distance_bound(const filtered_slots *s, const tile_scratch *w, Py_ssize_t r, double product, double square,
                           double slack, double side) noexcept nogil:
    """Return a bound of the squared distance of row r from a location.

    `square` is |w - centre|^2 of the location, `slack` a bound of the error of twice its product that depends on it.
    The bound is an upper one if `side` is 1, and a lower one if it is -1.
    """
    cdef double both = w.lengths[2 * r] + square
    slack += rest_of(s, sqrt(w.lengths[2 * r])) + 1e-12 * both
    return max(both - 2.0 * product + side * slack, 0.0)


cdef bint read_moved(const filtered_slots *s, moved_slots *v, Py_ssize_t j, Py_ssize_t k) noexcept nogil:
    """Keep slot k as it is now in place j; return whether its scores have no bounds."""
    cdef Py_ssize_t t
    if s.f.location(s.f.self, k, s.m, v.place, s.terms):
        return True
    for t in range(s.f.n_terms):
        v.terms[j * s.f.n_terms + t] = s.terms[t * s.m + k]
    v.squares[j] = expfam_centred_row(v.place, s.centre, s.d, v.locations + j * s.d)
    return not v.squares[j] < LARGEST


cdef double moved_bound(const filtered_slots *s, const moved_slots *v, Py_ssize_t j, const tile_scratch *w,
                        Py_ssize_t r) noexcept nogil:
    """Return an upper bound of the score of row r under the slot in place j, or infinity."""
    cdef double product = expfam_narrow_dot(w.rows + r * s.d, v.locations + j * s.d, s.d), bound
    bound = distance_bound(s, w, r, product, v.squares[j], share_of(s, sqrt(w.lengths[2 * r])) * sqrt(v.squares[j]),
                           1.0 if s.f.rises else -1.0)
    if s.f.bounds(s.f.self, w.lengths[2 * r + 1], &bound, v.terms + j * s.f.n_terms, 1, &bound):
        return INFINITY
    return bound


cdef double own_bound(const filtered_slots *s, const tile_scratch *w, Py_ssize_t r, Py_ssize_t own) noexcept nogil:
    """Return a lower bound of the score of row r of a tile in its own slot, from the other data."""
    cdef double distance
    if s.f.own == NULL:
        return -INFINITY
    distance = distance_bound(s, w, r, w.products[r * w.stride + own], s.squares[own],
                              w.slacks[2 * r] * s.lengths[own] + w.slacks[2 * r + 1] * w.errors[own],
                              -1.0 if s.f.rises else 1.0)
    return s.f.own(s.f.self, own, w.lengths[2 * r + 1], distance, s.terms, s.m)


cdef double weights_of_others(const filtered_slots *s, tile_scratch *w, Py_ssize_t r, Py_ssize_t own, double own_mass,
                              double least, double *low) noexcept nogil:
    """Return a bound of the weights of row r in other slots than its own, whose weight is 1.

    `bound_groups` has written bounds, that of its own slot with mass -inf; they are lost. `low` is set to a lower bound
    of the score in its own slot, with its mass. A bound below `least` need not be close. Infinity is returned where
    nothing is known, or the weights may be more than 1.
    """
    cdef double top = -INFINITY, weights
    cdef Py_ssize_t g
    low[0] = own_bound(s, w, r, own) + own_mass
    for g in range(s.n_groups):
        top = max(top, w.tops[g])
    if not (top < low[0] and low[0] < INFINITY):
        return INFINITY
    weights = s.m * exp(max(top - low[0], -700.0))
    return weights if weights < least else expfam_exp_blocks(w.bounds, low[0], w.scores, s.m)


cdef bint near_scores(const filtered_slots *s, tile_scratch *w, Py_ssize_t r, const double *mass, double best,
                      double depth, double *out, double *rest) noexcept nogil:
    """Write the scores of row r of a tile that lie less than `depth` below the best one.

    That is at least `best`. `bound_groups` has written bounds with the same `mass`, which belongs to the scores when
    they are compared and is not added to `out` (m,). Slots whose scores are not computed have -inf there, and `rest` is
    set to a bound of these scores, with masses. Return False, with nothing of use written, where more than a share MANY
    of the scores would have to be computed.
    """
    cdef const double *x = w.x + r * s.d
    cdef Py_ssize_t g, k, first, stop, n_known = 0
    memset(w.is_known, 0, s.n_groups)
    for k in range(s.m):
        out[k] = -INFINITY
    while True:
        g = next_group(s, w)
        rest[0] = w.tops[g] if g >= 0 else -INFINITY
        if rest[0] < best - depth or rest[0] == -INFINITY:
            return True
        first, stop = g * s.f.group, min((g + 1) * s.f.group, s.m)
        if n_known >= MANY * s.n_groups or s.f.exact(s.f.self, x, first, stop, out, w.work):
            return False
        for k in range(first, stop):
            if out[k] + mass[k] > best:
                best = out[k] + mass[k]
        w.is_known[g] = 1
        n_known += 1
        w.n_near += 1


cdef class FilteredScores:
    """Scores of rows under loaded slots, most of which are never computed.

    Parameters
    ----------
    components : Components
        Loaded; their slots must not change while the object is used.
    m : int
        Slots 0..m-1 are scored.

    Attributes
    ----------
    is_usable : bool
        Whether the scores have bounds; if not, the methods must not be called.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import Dataset, SphericalGaussian
    >>> from expfam.families.components import Components
    >>> from expfam.families.filtered_scores import FilteredScores
    >>> data = Dataset(np.repeat(np.eye(3), 4, axis=0), SphericalGaussian(variance=0.1))
    >>> components = Components(data.family, data, 3)
    >>> components.load(*data.statistics(np.repeat([0, 1, 2], 4), 3))
    >>> labels = np.empty(12, dtype=np.int32)
    >>> FilteredScores(components, 3).most_probable(0, 12, np.zeros(3), labels)
    >>> labels
    array([0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2], dtype=int32)
    """

    def __init__(self, Components components, Py_ssize_t m):
        cdef double[::1] centre, lengths, squares, place
        cdef double[:, ::1] locations, numbers
        cdef float[::1] narrow
        cdef float[:, ::1] columns
        cdef Py_ssize_t k
        cdef int code = EXPFAM_OK
        if not 1 <= m <= components.capacity:
            raise IndexError(f"slots {m} of {components.capacity}")
        self.components, self.m, self.s.m, self.is_usable, self.is_coded = components, m, m, False, False
        owner = components.owner
        capsule = getattr(owner, "distances", None)
        if capsule is None:
            return
        what = f"scores by distances of family {components.family.name!r}"
        copy_struct(capsule, DISTANCE_SCORES, &self.s.f, sizeof(distance_scores_v1), FIRST_SIZE, what)
        self.d = self.s.d = self.s.f.n_columns
        self.s.n_groups = (m + self.s.f.group - 1) // self.s.f.group
        places, terms = np.empty((m, self.d)), np.empty((self.s.f.n_terms, m))
        locations, numbers = places, terms
        with nogil:
            for k in range(m):
                code = self.s.f.location(self.s.f.self, k, m, &locations[k, 0], &numbers[0, 0])
                if code:
                    break
        if code:
            return
        # distances about the middle have smaller rounding errors; where scores rise, locations are sums, not places
        middle = np.zeros(self.d) if self.s.f.rises else places.mean(axis=0)
        if not middle @ middle < LARGEST:
            return
        self.arrays = middle, np.empty(m), np.empty(m), np.empty(self.d), np.empty(self.d, dtype=np.float32), terms
        self.table = np.empty((self.d, m), dtype=np.float32)
        centre, squares, lengths, place, narrow = self.arrays[:5]
        columns = self.table
        self.s.centre, self.s.squares, self.s.lengths = &centre[0], &squares[0], &lengths[0]
        self.s.terms = &numbers[0, 0]
        self.place, self.narrow, self.columns = &place[0], &narrow[0], &columns[0, 0]
        if has_byte_products() and suits_codes(m, self.d):
            self.points, self.is_coded = CodedPoints(m, self.d), True
        with nogil:
            for k in range(m):
                code |= self.put(k, &locations[k, 0])
        self.is_usable = not code

    cdef int put(self, Py_ssize_t k, const double *location) noexcept nogil:
        """Keep the location of slot k; return whether single precision cannot hold it."""
        cdef Py_ssize_t f
        self.s.squares[k] = expfam_centred_row(location, self.s.centre, self.d, self.narrow)
        self.s.lengths[k] = sqrt(self.s.squares[k])
        for f in range(self.d):
            self.columns[f * self.m + k] = self.narrow[f]
        if not self.s.squares[k] < LARGEST:
            return 1
        if self.points is not None:
            self.points.put(k, self.narrow)
        return 0

    cdef int renew(self, const Py_ssize_t *slots, Py_ssize_t n) noexcept nogil:
        """Take slots as they are now; return whether scores have no bounds any more."""
        cdef Py_ssize_t j
        for j in range(n):
            if self.s.f.location(self.s.f.self, slots[j], self.m, self.place, self.s.terms):
                return 1
            if self.put(slots[j], self.place):
                return 1
        return 0

    def bounds(self, Py_ssize_t start, Py_ssize_t stop):
        """Return an upper bound of the log predictive of each row under each slot.

        Parameters
        ----------
        start, stop : int
            First row, and the one after the last.

        Returns
        -------
        (stop - start, m) float64 ndarray
            Nats; infinity where there is no bound.
        """
        found = np.full((stop - start, self.m), np.inf)
        cdef double[:, ::1] out = found
        cdef _Rows rows = _Rows(self, start, stop, np.zeros(self.m), 1)
        cdef Py_ssize_t i, r
        for i in range(start, stop):
            if i >= rows.tile + rows.n_tile:
                rows.multiply(i)
            r = i - rows.tile
            if has_bounds(&self.s, &rows.w, r):
                memcpy(&out[i - start, 0], rows.w.bounds, self.m * sizeof(double))
        return found

    def own_bounds(self, Py_ssize_t start, Py_ssize_t stop, labels):
        """Return a lower bound of the log predictive of each row in its slot, from the other data.

        Parameters
        ----------
        start, stop : int
            First row, and the one after the last.
        labels : (stop - start,) int32 ndarray
            Slots of the rows.

        Returns
        -------
        (stop - start,) float64 ndarray
            Nats; minus infinity where there is no bound.
        """
        found = np.full(stop - start, -np.inf)
        cdef double[::1] out = found
        cdef const int32_t[::1] own = labels
        cdef _Rows rows = _Rows(self, start, stop, np.zeros(self.m), 1, labels)
        cdef Py_ssize_t i, r
        if not 0 <= np.min(labels) <= np.max(labels) < self.m:
            raise IndexError(f"labels from {np.min(labels)} to {np.max(labels)} of {counted(self.m, 'slot')}")
        for i in range(start, stop):
            if i >= rows.tile + rows.n_tile:
                rows.multiply(i)
            r = i - rows.tile
            if has_bounds(&self.s, &rows.w, r):
                out[i - start] = own_bound(&self.s, &rows.w, r, own[i - start])
        return found

    def most_probable(self, Py_ssize_t start, Py_ssize_t stop, log_mass, labels):
        """Do what `Components.most_probable` does, with the same result."""
        cdef int32_t[::1] chosen = labels
        cdef _Rows rows = _Rows(self, start, stop, log_mass, 1, labels)
        cdef Py_ssize_t i = start, g, k, top
        cdef double highest
        while rows.next(0.0, None):
            with nogil:
                top, highest = 0, -INFINITY
                for g in range(self.s.n_groups):
                    if rows.w.is_known[g]:
                        for k in range(g * self.s.f.group, min((g + 1) * self.s.f.group, self.m)):
                            if rows.w.scores[k] > highest:
                                top, highest = k, rows.w.scores[k]
            chosen[i - start] = <int32_t> top
            i += 1

    def ranked(self, Py_ssize_t start, Py_ssize_t stop, log_mass, slots, margins):
        """Do what `Components.ranked` does, with the same result."""
        cdef int32_t[:, ::1] best = slots
        cdef double[::1] margin = margins
        cdef Py_ssize_t i = start, g, k, j, n, L = best.shape[1]
        if not 2 <= L <= self.m:
            raise IndexError(f"{L} best of {counted(self.m, 'slot')}")
        cdef _Rows rows = _Rows(self, start, stop, log_mass, L, slots, margins)
        while rows.next(0.0, None):
            with nogil:
                n = 0
                for g in range(self.s.n_groups):
                    if not rows.w.is_known[g]:
                        continue
                    for k in range(g * self.s.f.group, min((g + 1) * self.s.f.group, self.m)):
                        if n == L and not rows.w.scores[k] > rows.w.best[L - 1]:
                            continue
                        j = min(n, L - 1)
                        while j > 0 and rows.w.scores[k] > rows.w.best[j - 1]:
                            rows.w.best[j], best[i - start, j] = rows.w.best[j - 1], best[i - start, j - 1]
                            j -= 1
                        rows.w.best[j], best[i - start, j] = rows.w.scores[k], <int32_t> k
                        n = min(n + 1, L)
                margin[i - start] = rows.w.best[0] - rows.w.best[1]
            i += 1

    def shares(self, Py_ssize_t start, Py_ssize_t stop, log_mass, labels, out):
        """Do what `Components.shares` does, with the same result."""
        cdef const int32_t[::1] own = labels
        cdef float[::1] share = out
        cdef Py_ssize_t i = start, g, k
        cdef double top, total
        cdef _Rows rows = _Rows(self, start, stop, log_mass, 1, labels, out)
        if own.shape[0] and not 0 <= np.min(labels) <= np.max(labels) < self.m:
            raise IndexError(f"labels from {np.min(labels)} to {np.max(labels)} of {counted(self.m, 'slot')}")
        while rows.next(DEPTH, own):
            with nogil:
                top, total = rows.w.best[0], 0.0
                for g in range(self.s.n_groups):
                    if rows.w.is_known[g]:
                        for k in range(g * self.s.f.group, min((g + 1) * self.s.f.group, self.m)):
                            if rows.w.scores[k] > top - DEPTH:
                                total += exp(rows.w.scores[k] - top)
                share[i - start] = <float> (exp(rows.w.scores[own[i - start]] - top) / total)
            i += 1


cdef class MovedSlots:
    """Room for slots that have changed since the products of a tile.

    Parameters
    ----------
    s : FilteredScores
        Usable.
    room : int
    """

    def __init__(self, FilteredScores s, Py_ssize_t room):
        cdef float[:, ::1] locations
        cdef double[:, ::1] terms
        cdef double[::1] squares, place
        self.arrays = (
            np.empty((room, s.d), dtype=np.float32), np.empty((room, s.s.f.n_terms)), np.empty(room), np.empty(s.d)
        )
        locations, terms, squares, place = self.arrays
        self.v.locations, self.v.terms, self.v.room = &locations[0, 0], &terms[0, 0], room
        self.v.squares, self.v.place = &squares[0], &place[0]


cdef class RowTile:
    """Rows that are read together, and their products with all locations.

    Parameters
    ----------
    s : FilteredScores
        Usable.
    n_rows : int
        Largest number of rows.
    n_best : int
        Number of the highest scores that are kept of a row.
    """

    def __init__(self, FilteredScores s, Py_ssize_t n_rows, Py_ssize_t n_best):
        cdef double[:, ::1] x, lengths, slacks
        cdef double[::1] bounds, tops, scores, best, work
        cdef float[:, ::1] narrow
        cdef float[::1] product
        cdef uint8_t[::1] known
        width, room = s.m, n_rows
        if s.points is not None:
            self.coded = CodedRows(n_rows, s.d)
            width, room = s.points.width, self.coded.room
        self.rows, self.products = np.empty((n_rows, s.d), np.float32), np.empty(room * width, np.float32)
        self.arrays = (
            np.empty((n_rows, s.d)), np.empty((n_rows, 2)), np.empty((n_rows, 2)), np.empty(s.m),
            np.empty(s.s.n_groups), np.empty(s.m), np.empty(n_best),
            np.empty(max(s.s.f.work_size, s.components.c.work_size, 1)),
            np.empty(s.s.n_groups, dtype=np.uint8),
        )
        x, lengths, slacks, bounds, tops, scores, best, work, known = self.arrays
        narrow, product = self.rows, self.products
        self.w.rows, self.w.x, self.w.lengths = &narrow[0, 0], &x[0, 0], &lengths[0, 0]
        self.w.products, self.w.slacks, self.w.bounds, self.w.tops = &product[0], &slacks[0, 0], &bounds[0], &tops[0]
        self.w.scores, self.w.best, self.w.work, self.w.is_known = &scores[0], &best[0], &work[0], &known[0]

    cdef int read(self, FilteredScores s, const Py_ssize_t *order, Py_ssize_t start, Py_ssize_t n,
                  bint is_coded) except -1:
        """Read n rows from place `start` on, and compute their products with all locations.

        Places are those of `order`, or the rows if it is NULL. With `is_coded` the products are those of integers.
        """
        cdef Py_ssize_t r
        cdef double *x
        self.w.stride, self.w.n_near = s.points.width if is_coded else s.m, 0
        self.w.errors = &s.points.errors[0] if is_coded else s.s.lengths
        with nogil:
            for r in range(n):
                x = self.w.x + r * s.d
                s.s.f.row(s.s.f.self, start + r if order == NULL else order[start + r], x)
                self.w.lengths[2 * r] = expfam_centred_row(x, s.s.centre, s.d, self.w.rows + r * s.d)
                self.w.lengths[2 * r + 1] = expfam_dot(x, x, s.d)
                if not self.w.lengths[2 * r] < LARGEST:
                    memset(self.w.rows + r * s.d, 0, s.d * sizeof(float))
                self.w.slacks[2 * r], self.w.slacks[2 * r + 1] = share_of(&s.s, sqrt(self.w.lengths[2 * r])), 0.0
                if is_coded:
                    self.coded.put(r, self.w.rows + r * s.d)
                    self.w.slacks[2 * r] += 2.0 * self.coded.errors[r]
                    self.w.slacks[2 * r + 1] = 2.0 * self.coded.lengths[r]
            if is_coded:
                s.points.multiply(self.coded, n, self.w.products, self.w.stride)
        if not is_coded:
            products = self.products[: n * s.m].reshape(n, s.m)
            np.matmul(self.rows[:n], s.table, out=products)
        return 0


cdef class _Rows(RowTile):
    """Rows of one call, one after the other, with the scores that matter for each."""

    cdef FilteredScores s
    cdef Py_ssize_t start, stop, i, tile, n_tile, L, n_hard
    cdef Py_ssize_t n_scored                # groups that were scored
    cdef bint is_coded                      # whether further tiles are coded
    cdef bint is_whole                      # whether further rows are scored under all slots
    cdef const double[::1] mass

    def __init__(self, FilteredScores s, start, stop, log_mass, L, *results):
        if not s.is_usable:
            raise ValueError("the scores have no bounds; look at is_usable")
        if not 0 <= start <= stop <= s.components.n_rows:
            raise IndexError(f"rows {start}:{stop} of {s.components.n_rows}")
        if log_mass.shape != (s.m,) or any(len(each) != stop - start for each in results):
            raise ValueError(
                f"{counted(len(log_mass), 'mass', 'masses')} of {counted(s.m, 'slot')}; rows of the results:"
                f" {[len(each) for each in results]}, not {stop - start}"
            )
        RowTile.__init__(self, s, TILE, L)
        self.s, self.start, self.stop, self.mass, self.L = s, start, stop, log_mass, L
        self.i = self.tile = start
        self.n_tile = self.n_hard = self.n_scored = 0
        self.is_whole, self.is_coded = False, s.is_coded

    cdef bint next(self, double depth, const int32_t[::1] own) except -1:
        """Compute the scores of the next row; return False if there is none."""
        cdef Py_ssize_t i = self.i
        cdef Py_ssize_t n_scored = 0
        if i >= self.stop:
            return False
        self.i += 1
        if not self.is_whole:
            if i >= self.tile + self.n_tile:
                self.judge(i)
            if not self.is_whole:
                if i >= self.tile + self.n_tile:
                    self.multiply(i)
                with nogil:
                    n_scored = some_scores(
                        &self.s.s, &self.w, i - self.tile, &self.mass[0], self.L, depth,
                        own[i - self.start] if own is not None else -1,
                    )
                self.n_hard += n_scored == 0
                self.n_scored += n_scored if n_scored else <Py_ssize_t> (FEW * self.s.s.n_groups)
        if not n_scored:
            self.score_all(i)
        return True

    cdef void judge(self, Py_ssize_t i) noexcept:
        """Decide where a tile begins, from the rows before row i, which products pay."""
        cdef Py_ssize_t n = i - self.start
        if not self.is_coded:
            self.is_whole = self.n_hard * 2 > n
        elif codes_are_dear(&self.s.s, n, self.n_scored, self.L):
            self.is_coded, self.n_hard = False, 0

    cdef int multiply(self, Py_ssize_t i) except -1:
        """Read the rows of a tile from row i on, and compute their products with all locations."""
        self.tile, self.n_tile = i, min(TRIED if i == self.start else TILE, self.stop - i)
        return self.read(self.s, NULL, i, self.n_tile, self.is_coded)

    cdef int score_all(self, Py_ssize_t i) except -1:
        """Compute all scores of row i."""
        cdef FilteredScores s = self.s
        cdef Components components = s.components
        cdef Py_ssize_t k, g, wrong = -1
        cdef int code
        with nogil:
            code = components.c.log_predictive(components.c.self, i, NULL, s.m, self.w.scores, self.w.work)
            for k in range(self.L):
                self.w.best[k] = -INFINITY
            if not code:
                for k in range(s.m):
                    self.w.scores[k] += self.mass[k]
                    if enter(self.w.best, self.L, self.w.scores[k]):
                        wrong = k
                        break
            for g in range(s.s.n_groups):
                self.w.is_known[g] = 1
        if code:
            raise components.fail(code, i, -1)
        if wrong >= 0:
            raise FloatingPointError(f"family {components.family.name!r}, datum {i}, slot {wrong}: the score is NaN")
        return 0


def scores_of(Components components, Py_ssize_t m, Py_ssize_t n_rows):
    """Return what scores rows: filtered scores where products pay, else the components.

    Parameters
    ----------
    components : Components
        Loaded.
    m : int
        Slots that are scored.
    n_rows : int
        Rows of a call.

    Returns
    -------
    Components or FilteredScores
        Its methods `most_probable`, `ranked` and `shares` have the same results.
    """
    owner = components.owner
    if m < _MANY_SLOTS or n_rows < _MANY_ROWS or getattr(owner, "distances", None) is None:
        return components
    if m * (components.family.n_statistics_ + getattr(owner, "score_cost", 0)) < _MANY_NUMBERS:
        return components
    filtered = FilteredScores(components, m)
    return filtered if filtered.is_usable else components
