"""How far clusters may have risen beside the first cluster of a row since lists were made.

For each first cluster l and each of a few distances e of a row from the mean m_l, the largest change of s_k - s_l, see
`kept_lists`. Clusters k are left out that lie more than a depth below cluster l in the whole ball of radius e:

    s_k - s_l <= s_k(m_l) - s_l(m_l) + e |theta_k - theta_l|.

These are parameters of now, so far clusters do not count, such as empty ones whose parameters are drawn from the prior.
Products of integers of eight bits find the clusters that are left.
"""

import numpy as np

from libc.math cimport INFINITY, fabs, sqrt
from libc.stdint cimport int32_t, uint8_t

from expfam.samplers.uncollapsed.kept_lists cimport KEPT_LEVELS, KEPT_RESTLESS, KeptLists, Needs
from expfam.structures.rows.byte_codes cimport CodedRows, ScoredPoints
from expfam.structures.simd.byte_products cimport EXPFAM_CODE_POINTS
from expfam.structures.simd.dense_scores cimport expfam_code_bounds
from expfam.structures.simd.float_dots cimport EXPFAM_FLOAT_CHUNK, expfam_float_dots

from expfam.structures.ground.threads import run

cdef enum:
    ROWS = 16               # that are multiplied together
    MIDDLE = 3              # level that shows which cluster has risen most
    SHARE = 16              # products one by one take less time for one of so many clusters
cdef double UP = 2.0 ** -20         # more than the rounding of what is computed, relative to it
cdef double UNIT = 2.0 ** -24       # rounding of single precision
cdef float NEVER = -1e30            # bias of impossible clusters
_OWN_ROUNDING = 2.0**-36            # more than that of sums over columns
_LEADS = 0.125                      # share of all rows beside whose first cluster a restless one rises most


cdef class Moves:
    """Parameters of now beside those of lists.

    Parameters
    ----------
    lists : KeptLists
    Theta : (K, F) float64 ndarray
    bias : (K,) float64 ndarray
        Log weights less log partition functions; -inf where a cluster cannot be drawn.
    depth : float
        Nats below the best cluster from which on no cluster matters.

    Attributes
    ----------
    fits : bool
        Whether single precision can hold the parameters.
    """

    cdef KeptLists lists
    cdef readonly bint fits
    cdef Needs needs
    cdef object leading_array, restless_array
    cdef int32_t[::1] leading           # (K,) the cluster that has risen most beside each first one
    cdef uint8_t[::1] is_restless       # (K,)
    cdef const float[:, ::1] means, moved, now, ends    # (K, F), (K, F), (K, F), (K, KEPT_LEVELS)
    cdef float[:, ::1] now_squares, moved_squares       # (2, width) halves of squared lengths, and their errors
    cdef ScoredPoints now_points, moved_points
    cdef Py_ssize_t K, F, width
    cdef double depth, rounding

    def __init__(self, KeptLists lists, Theta, bias, double depth):
        self.lists, self.depth, self.K, self.F = lists, depth, lists.K, lists.F
        self.means, self.ends = lists.means, lists.ends
        self.needs, self.restless_array = Needs(lists.K), np.zeros(lists.K, dtype=np.uint8)
        self.leading_array = np.full(lists.K, -1, dtype=np.int32)
        self.leading, self.is_restless = self.leading_array, self.restless_array
        self.rounding = (EXPFAM_FLOAT_CHUNK + self.F / EXPFAM_FLOAT_CHUNK + 16.0) * UNIT
        origin = lists.counts @ Theta / max(1, lists.counts.sum())
        with np.errstate(over="ignore", invalid="ignore"):
            self.moved, rises, rise_errors = self.taken(Theta, lists.Theta, bias, lists.bias)
            self.now, scores, errors = self.taken(Theta, np.broadcast_to(origin, Theta.shape), bias, np.zeros(lists.K))
        self.fits = all(np.isfinite(each).all() for each in (self.moved, self.now, rises, scores))
        if self.fits:
            self.width = (self.K + EXPFAM_CODE_POINTS - 1) // EXPFAM_CODE_POINTS * EXPFAM_CODE_POINTS
            self.now_squares, self.moved_squares = np.zeros((2, 2, self.width), dtype=np.float32)
            self.moved_points = scored(self.moved, rises, rise_errors, self.moved_squares)
            self.now_points = scored(self.now, scores, errors, self.now_squares)

    def taken(self, const double[:, ::1] Theta, const double[:, :] former, bias, former_bias):
        """Return differences of parameters, and of scores of the centre with their errors."""
        cdef const double[::1] centre = self.lists.centre, scale = self.lists.scale
        cdef Py_ssize_t j, k
        cdef double gap
        gaps, products, sizes = np.empty((self.K, self.F), dtype=np.float32), np.zeros(self.K), np.zeros(self.K)
        cdef float[:, ::1] out = gaps
        cdef double[::1] product = products, size = sizes
        with nogil:
            for k in range(self.K):
                for j in range(self.F):
                    gap = Theta[k, j] - former[k, j]
                    product[k] += gap * centre[j]
                    size[k] += (fabs(gap) + fabs(Theta[k, j]) + fabs(former[k, j])) * fabs(centre[j])
                    out[k, j] = <float> (gap / scale[j])
        is_possible = np.isfinite(bias)
        is_new = is_possible & ~np.isfinite(former_bias)
        bias, former_bias = np.where(is_possible, bias, 0.0), np.where(np.isfinite(former_bias), former_bias, 0.0)
        rises = bias - former_bias + products
        rises -= rises[is_possible].max()       # the same for all clusters, so no difference of scores depends on it
        rises[is_new], rises[~is_possible] = -NEVER, NEVER
        return gaps, rises.astype(np.float32), (sizes + np.abs(bias) + np.abs(former_bias)) * _OWN_ROUNDING

    def compute(self, n_threads):
        """Return what the lists need."""
        self._fill_all(n_threads)
        return self.needs

    def compute_restless(self, n_threads):
        """Return what they need if clusters that rise beside many are restless; or None."""
        leads = self.leading_array >= 0
        rows = np.bincount(self.leading_array[leads], self.lists.counts[leads], self.K)
        most = np.argsort(-rows, kind="stable")[:KEPT_RESTLESS].astype(np.int32)
        restless = np.sort(most[rows[most] > _LEADS * self.lists.counts.sum()])
        if len(restless) == 0:
            return None
        self.restless_array[restless], self.needs = True, Needs(self.K, restless)
        self._fill_all(n_threads)
        return self.needs

    def _fill_all(self, n_threads):
        firsts = np.flatnonzero(self.lists.counts).astype(np.intp)
        tasks = [(firsts[start : start + 4 * ROWS],) for start in range(0, len(firsts), 4 * ROWS)]
        run(self._fill, tasks, n_threads, uses_blas=False)

    def _fill(self, const Py_ssize_t[::1] firsts):
        cdef Scratch w = Scratch(self.K, self.F, self.width)
        cdef Py_ssize_t start = 0, n
        with nogil:
            while start < firsts.shape[0]:
                n = min(<Py_ssize_t> ROWS, firsts.shape[0] - start)
                self.fill_block(w, &firsts[start], n)
                start += n

    cdef void fill_block(self, Scratch w, const Py_ssize_t *firsts, Py_ssize_t n) noexcept nogil:
        cdef Py_ssize_t i, j, n_near = 0
        for i in range(n):
            w.means.put(i, &self.means[firsts[i], 0])
            for j in range(self.F):
                w.negative[j] = -self.now[firsts[i], j]
            w.now.put(i, &w.negative[0])
        self.now_points.multiply(w.means, n, &w.at[0, 0], self.width)
        self.now_points.multiply(w.now, n, &w.apart[0, 0], self.width)
        for i in range(n):
            w.counts[i] = self.near(w, i, firsts[i])
            n_near += w.counts[i]
        if n_near * SHARE > n * self.K:
            self.bound_all(w, firsts, n)
        else:
            for i in range(n):
                self.bound_some(w, i, firsts[i])
        for i in range(n):
            self.take(w, i, firsts[i])

    cdef void bound_all(self, Scratch w, const Py_ssize_t *firsts, Py_ssize_t n) noexcept nogil:
        """Bound changes of scores of the means, and halves of squared moves of parameters."""
        cdef Py_ssize_t i, j
        for i in range(n):
            for j in range(self.F):
                w.negative[j] = -self.moved[firsts[i], j]
            w.now.put(i, &w.negative[0])
        self.moved_points.multiply(w.means, n, &w.rise[0, 0], self.width)
        self.moved_points.multiply(w.now, n, &w.gap[0, 0], self.width)
        for i in range(n):
            bounds_of(&w.rise[i, 0], w.means, i, self.moved_points, &self.moved_points.terms[0, 0],
                      &self.moved_points.terms[3, 0])
            bounds_of(&w.gap[i, 0], w.now, i, self.moved_points, &self.moved_squares[0, 0], &self.moved_squares[1, 0])
            w.base[i] = lower(w.rise[i, firsts[i]], w.means, i, self.moved_points, firsts[i])

    cdef void bound_some(self, Scratch w, Py_ssize_t i, Py_ssize_t first) noexcept nogil:
        """Do so for the listed clusters."""
        cdef Py_ssize_t t, k, n = w.counts[i]
        cdef double change, size, mean_length = w.means.errors[i] + w.means.lengths[i]
        cdef double length = self.moved_points.lengths[first]
        w.places[i, n] = <int32_t> first
        expfam_float_dots(&self.means[first, 0], self.F, &self.moved[0, 0], &w.places[i, 0], n + 1, &w.rises[0])
        expfam_float_dots(&self.moved[first, 0], self.F, &self.moved[0, 0], &w.places[i, 0], n, &w.gaps[0])
        for t in range(n + 1):
            k = w.places[i, t]
            size = self.rounding * self.moved_points.lengths[k]
            change = size * mean_length + self.moved_points.terms[3, k] * (1.0 + UP)
            if k == first:
                w.base[i] = w.rises[t] + self.moved_points.terms[0, k] - change
                continue
            w.rise[i, k] = <float> (w.rises[t] + self.moved_points.terms[0, k] + change)
            w.gap[i, k] = <float> (self.moved_squares[0, k] + self.moved_squares[1, k] - w.gaps[t] + size * length)

    cdef Py_ssize_t near(self, Scratch w, Py_ssize_t i, Py_ssize_t first) noexcept nogil:
        """List the clusters that may matter in the largest ball.

        Their scores lie `at` above that of the first cluster less the depth. The squared distance from the parameters
        of the first cluster is `apart`. Both are upper bounds.
        """
        cdef Py_ssize_t k, n = 0
        cdef double below, here, square, most = self.ends[first, KEPT_LEVELS - 1], half = self.now_squares[0, first]
        cdef float *at = &w.at[i, 0]
        cdef float *apart = &w.apart[i, 0]
        bounds_of(at, w.means, i, self.now_points, &self.now_points.terms[0, 0], &self.now_points.terms[3, 0])
        bounds_of(apart, w.now, i, self.now_points, &self.now_squares[0, 0], &self.now_squares[1, 0])
        below = lower(at[first], w.means, i, self.now_points, first) - self.depth * (1.0 + UP)
        most = most * most * (1.0 + 4.0 * UP)
        half = half * (1.0 + UP)
        for k in range(self.K):
            here = at[k] - below
            square = 2.0 * (apart[k] + half)
            at[k], apart[k] = <float> (here + fabs(here) * UP), <float> (square + fabs(square) * UP)
            w.places[i, n] = <int32_t> k
            n += (k != first) & ((here >= 0.0) | (most * square >= here * here))
        return n

    cdef void take(self, Scratch w, Py_ssize_t i, Py_ssize_t first) noexcept nogil:
        """Take the largest changes beside one first cluster over the listed ones."""
        cdef Py_ssize_t j, k, t, least
        cdef double most[KEPT_LEVELS]
        cdef double squares[KEPT_LEVELS]
        cdef double change, step, room, here, half = self.moved_squares[0, first] * (1.0 + UP)
        cdef const float *ends = &self.ends[first, 0]
        if self.now_points.terms[0, first] <= 0.5 * NEVER:
            return
        for j in range(KEPT_LEVELS):
            most[j], squares[j] = -INFINITY, <double> ends[j] * ends[j] * (1.0 + UP)
        for t in range(w.counts[i]):
            k, least = w.places[i, t], 0
            here = min(<double> w.at[i, k], 0.0)
            for j in range(KEPT_LEVELS - 1):    # a cluster that matters at one distance does at all larger ones
                least += w.apart[i, k] * squares[j] < here * here
            if self.is_restless[k]:
                self.needs.from_level[first] = <uint8_t> min(<Py_ssize_t> self.needs.from_level[first], least)
                continue
            change = w.rise[i, k] - w.base[i]
            step = 2.0 * max(w.gap[i, k] + half, 0.0) * (1.0 + UP)
            room = most[least] - change
            if room >= 0.0 and squares[KEPT_LEVELS - 1] * step <= room * room:
                continue
            step = sqrt(step)
            if least <= MIDDLE and change + ends[MIDDLE] * step > most[MIDDLE]:
                self.leading[first] = <int32_t> k
            for j in range(least, KEPT_LEVELS):
                most[j] = max(most[j], change + ends[j] * step)
        for j in range(KEPT_LEVELS):
            if most[j] > -INFINITY:
                most[j] += self.depth + (fabs(most[j]) + fabs(w.base[i]) + self.depth) * UP
            self.needs.least_view[first, j] = <float> most[j]


cdef class Scratch:
    """Codes and products of a few first clusters."""

    cdef CodedRows means, now
    cdef float[:, ::1] at, apart, rise, gap
    cdef int32_t[:, ::1] places
    cdef float[::1] negative, rises, gaps
    cdef Py_ssize_t[ROWS] counts
    cdef double[ROWS] base

    def __init__(self, K, F, width):
        self.means, self.now = CodedRows(ROWS, F), CodedRows(ROWS, F)
        self.at, self.apart, self.rise, self.gap = np.empty((4, ROWS, width), dtype=np.float32)
        self.places, self.negative = np.empty((ROWS, K + 1), dtype=np.int32), np.empty(F, dtype=np.float32)
        self.rises, self.gaps = np.empty((2, K + 1), dtype=np.float32)


cdef ScoredPoints scored(const float[:, ::1] theta, const float[::1] bias, const double[::1] errors,
                         float[:, ::1] squares):
    """Code parameters; write halves of their squared lengths, and the errors of these."""
    cdef Py_ssize_t k
    cdef double half
    cdef ScoredPoints points = ScoredPoints(theta.shape[0], theta.shape[1])
    for k in range(theta.shape[0]):
        points.put_scored(k, &theta[k, 0], bias[k], errors[k])
        half = 0.5 * points.lengths[k] * points.lengths[k]
        squares[0, k], squares[1, k] = <float> (half * (1.0 + UP)), <float> (half * UP)
    return points


cdef inline void bounds_of(float *products, CodedRows rows, Py_ssize_t i, ScoredPoints points, const float *bias,
                           const float *own) noexcept nogil:
    """Replace products by upper bounds of their sums with biases."""
    cdef float row[2]
    row[0], row[1] = <float> (rows.errors[i] * (1.0 + UP)), <float> (rows.lengths[i] * (1.0 + UP))
    expfam_code_bounds(products, bias, &points.terms[1, 0], &points.terms[2, 0], own, row, points.width)


cdef inline double lower(float upper, CodedRows rows, Py_ssize_t i, ScoredPoints points, Py_ssize_t k) noexcept nogil:
    """Return the lower bound of a score beside its upper one."""
    cdef double error = rows.errors[i] * points.terms[1, k] + rows.lengths[i] * points.terms[2, k] + points.terms[3, k]
    return upper - 2.0 * error * (1.0 + 4.0 * UP) - fabs(upper) * UP
