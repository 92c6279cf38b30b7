"""Lists of the clusters that matter to each row, kept from pass to pass.

A pass bounds the scores of all clusters. Each row keeps a first cluster l, up to seven others k with the nats g_k that
they are at least below it, and the same for all clusters that are not in its list. Later parameters differ by
d_k = theta_k - theta0_k and biases by b_k. With the mean m_l of cluster l, by Cauchy and Schwarz,

    s_k - s_l <= -g_k + b_k - b_l + <m_l, d_k - d_l> + |x - m_l| |d_k - d_l|.

The largest such change over all k is a number for each l and each of a few distances of rows; see `kept_moves`. A few
clusters may change so much that no list would tell anything: these are restless, and count as listed. So two look-ups
tell which clusters can lie less than a given depth below the best one. Mostly that is the first one alone, and then the
row itself is not read.
"""

import numpy as np

from libc.math cimport INFINITY, fabs, sqrt
from libc.stdint cimport int32_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

from expfam.structures.ground.rng cimport MOVE, philox_aim, philox_double, philox_init, philox_stream
from expfam.structures.rows.byte_codes cimport CodedRows, ScoredPoints
from expfam.structures.simd.dense_scores cimport expfam_places_above
from expfam.structures.simd.distance cimport expfam_square_distance
from expfam.structures.simd.float_dots cimport expfam_float_dots

cdef enum:
    STRIDE = 8              # of the clusters that show how far down a list should reach
    NO_LIST = 255           # level of rows without one
    UNREAD = 254            # state of rows of which no list tells enough
cdef double DEEPEST = 512.0                         # nats that a list reaches down at most
cdef double UP = 2.0 ** -20                         # more than the roundings of a number in single precision
cdef double UNIT = 2.0 ** -24

MOST_CLUSTERS = 1 << 16
NEEDS_PASS = UNREAD
_SHARES = (0.2, 0.4, 0.6, 0.8, 0.9, 0.97, 0.995, 0.9995)     # of rows at most as far from their mean as each level
_SAMPLED_ROWS = 1 << 13


cdef inline uint16_t lower_half(float x) noexcept nogil:
    """Return the upper half of the bits of a float that is at most x."""
    cdef uint32_t bits
    memcpy(&bits, &x, sizeof(uint32_t))
    return <uint16_t> ((bits >> 16) + (1 if x < 0.0 and bits & 0xFFFF else 0))


cdef inline float widened(uint16_t half) noexcept nogil:
    cdef uint32_t bits = <uint32_t> half << 16
    cdef float x
    memcpy(&x, &bits, sizeof(uint32_t))
    return x


cdef class Needs:
    """What lists need to tell which clusters matter now.

    Parameters
    ----------
    K : int
    restless : sequence of int
        At most KEPT_RESTLESS clusters, in order, that `least` does not cover: they are scored for each row to which
        they may matter.

    Attributes
    ----------
    least : (K, KEPT_LEVELS) float32 ndarray
        Nats by which clusters must have been below the first one of a row to be left out, for each first cluster and
        each level of the distance of a row.
    """

    def __init__(self, K, restless=()):
        cdef Py_ssize_t t
        self.least, self.from_array = np.full((K, KEPT_LEVELS), np.inf, np.float32), np.full(K, KEPT_LEVELS, np.uint8)
        self.least_view, self.from_level = self.least, self.from_array
        self.restless, self.n_restless = tuple(int(k) for k in restless), len(restless)
        for t in range(self.n_restless):
            self.some[t] = restless[t]


cdef class KeptLists:
    """Lists of all rows, and the parameters under which they were made.

    Parameters
    ----------
    state : UncollapsedState
        With parameters; at most 65,536 clusters.
    centre, scale : (F,) float64 ndarray
        Rows are taken about the centre, and their columns times the scale.
    """

    def __init__(self, state, centre, scale):
        self.N, self.K, self.F = state.data.n_rows, state.K, state.data.n_statistics
        self.data, self.centre, self.scale = state.data, centre, scale
        self.Theta, self.bias = np.array(state.Theta), np.array(state.log_pi - state.G)
        means = np.asarray(state.S) / np.maximum(state.n, 1.0)[:, None]
        means -= centre
        means *= scale
        self.means = means.astype(np.float32)
        self.means[state.n == 0] = 0.0
        self.arrays = (
            np.zeros((self.N, KEPT_PLACES), dtype=np.uint16), np.zeros((self.N, KEPT_PLACES), dtype=np.uint16),
            np.full(self.N, NO_LIST, dtype=np.uint8),
        )
        self.places, self.gaps, self.levels = self.arrays
        self.distances, self.means_view = np.zeros(self.N, dtype=np.float32), self.means

    cdef void write(self, Py_ssize_t row, CodedRows rows, Py_ssize_t i, ScoredPoints points, const float *upper,
                    const float *x, const float *theta, double rounding, const int32_t *near, Py_ssize_t n,
                    int32_t *room) noexcept nogil:
        cdef Py_ssize_t j, n_found
        cdef int32_t first
        cdef float dot, rest
        cdef double low, length = rows.errors[i] + rows.lengths[i]
        self.levels[row] = NO_LIST
        if n == 0:
            return
        first = near[0]
        for j in range(n):
            if upper[near[j]] > upper[first]:
                first = near[j]
        expfam_float_dots(x, self.F, theta, &first, 1, &dot)
        low = <double> dot + points.terms[0, first]
        low -= rounding * length * points.lengths[first] + points.terms[3, first] + fabs(low) * UP
        rest = max(<float> (low - DEEPEST), second_of_some(upper, self.K))
        n_found = expfam_places_above(upper, rest, points.width, room)
        self.keep(row, first, low, rest, upper, room, n_found)
        self.levels[row] = 0
        self.distances[row] = <float> ((
            sqrt(expfam_square_distance(x, &self.means_view[first, 0], self.F)) * (1.0 + (self.F + 16) * UNIT)
            + 4.0 * UNIT * length) * (1.0 + UP))

    cdef void keep(self, Py_ssize_t row, Py_ssize_t first, double low, float rest, const float *upper,
                   const int32_t *found, Py_ssize_t n) noexcept nogil:
        """Keep the highest bounds among those found; all others are at most `rest`."""
        cdef float best[KEPT_PLACES]
        cdef uint16_t where[KEPT_PLACES]
        cdef Py_ssize_t j, t
        cdef float value
        for t in range(KEPT_PLACES):
            best[t], where[t] = rest, <uint16_t> first
        for j in range(n):
            value = upper[found[j]]
            if found[j] == first or value <= best[KEPT_PLACES - 1]:
                continue
            t = KEPT_PLACES - 1
            while t > 0 and best[t - 1] < value:
                best[t], where[t] = best[t - 1], where[t - 1]
                t -= 1
            best[t], where[t] = value, <uint16_t> found[j]
        self.places[row, 0] = <uint16_t> first
        for t in range(KEPT_PLACES):
            self.gaps[row, t] = lower_half(<float> (low - best[t] - (fabs(low) + fabs(best[t])) * UP))
            if t < KEPT_PLACES - 1:
                self.places[row, t + 1] = where[t]

    def suit(self, state):
        """Tell whether the lists are of the rows and of the number of clusters of a state."""
        return self.data is state.data and self.K == state.K

    def close(self):
        """Sort the distances of all rows into levels."""
        cdef Py_ssize_t i, level, first
        cdef float[:, ::1] ends
        self.ends = np.multiply.outer(self.mean_distances(), self.usual_levels()).astype(np.float32)
        ends = self.ends
        with nogil:
            for i in range(self.N):
                if self.levels[i] == NO_LIST:
                    continue
                first, level = self.places[i, 0], 0
                while level < KEPT_LEVELS and self.distances[i] > ends[first, level]:
                    level += 1
                self.levels[i] = <uint8_t> (level if level < KEPT_LEVELS else NO_LIST)
        self.distances = None

    def mean_distances(self):
        """Count the rows of each first cluster; return their mean distances from its mean."""
        cdef Py_ssize_t i
        sums, self.counts = np.zeros(self.K), np.zeros(self.K)
        cdef double[::1] total = sums, count = self.counts
        with nogil:
            for i in range(self.N):
                if self.levels[i] != NO_LIST:
                    total[self.places[i, 0]] += self.distances[i]
                    count[self.places[i, 0]] += 1.0
        self.means_of_distances = sums / np.maximum(self.counts, 1.0)
        return self.means_of_distances

    def usual_levels(self):
        """Return distances at which to bound changes, as multiples of a mean distance."""
        step = max(1, self.N // _SAMPLED_ROWS)
        some = step * np.flatnonzero(self.arrays[2][::step] != NO_LIST)
        mean = self.means_of_distances[self.arrays[0][some, 0]]
        relative = np.divide(np.asarray(self.distances)[some], mean, out=np.ones(len(some)), where=mean > 0.0)
        return np.quantile(relative, _SHARES) if len(some) else np.ones(KEPT_LEVELS)

    cdef Py_ssize_t candidates(self, Py_ssize_t row, Needs needs, int32_t *out) noexcept nogil:
        cdef Py_ssize_t n = 1, t = 0, first = self.places[row, 0]
        cdef float least
        if self.levels[row] == NO_LIST:
            return 0
        least = needs.least_view[first, self.levels[row]]
        if not widened(self.gaps[row, KEPT_PLACES - 1]) > least:
            return 0
        out[0] = <int32_t> first
        while t < KEPT_PLACES - 1 and not widened(self.gaps[row, t]) > least:
            n = with_cluster(out, n, self.places[row, t + 1])
            t += 1
        if self.levels[row] >= needs.from_level[first]:
            for t in range(needs.n_restless):
                n = with_cluster(out, n, needs.some[t])
        return n

    def listed(self, Py_ssize_t row, Needs needs):
        """Return the clusters that may matter to a row, in order; None where the list does not tell."""
        cdef int32_t[::1] found = np.empty(KEPT_MOST, dtype=np.int32)
        cdef Py_ssize_t n = self.candidates(row, needs, &found[0])
        return np.asarray(found)[:n] if n else None

    def sift(self, Needs needs, int32_t[::1] labels, uint8_t[::1] left, start, stop, uint64_t seed,
             uint64_t step, double depth_weight):
        """Draw the labels of rows start..stop-1 to which one cluster alone can matter.

        Parameters
        ----------
        needs : Needs
            Of the parameters of now, see `kept_moves`.
        labels : (N,) int32 ndarray
        left : (N,) uint8 ndarray
            Receives 0 for rows with a label, and the number of clusters to be scored for the others, or NEEDS_PASS.
        start, stop : int
        seed, step : int
            Of the uniform numbers.
        depth_weight : float
            Bound on the weight of all other clusters, relative to the best one.

        Returns
        -------
        int
            Number of clusters that may matter to the rows whose lists tell enough.
        """
        cdef Py_ssize_t i, n, first = start, last = stop, n_visits = 0
        cdef uint64_t offset = self.data.row_offset
        cdef int32_t found[KEPT_MOST]
        cdef double uniform, highest = 1.0 - depth_weight
        cdef philox_stream rng
        with nogil:
            philox_init(&rng, seed, MOVE)
            for i in range(first, last):
                n = self.candidates(i, needs, found)
                left[i] = <uint8_t> (n if n else UNREAD)
                n_visits += n
                if n == 1:
                    philox_aim(&rng, offset + <uint64_t> i, step)
                    uniform = philox_double(&rng)
                    if depth_weight < uniform < highest:
                        labels[i], left[i] = found[0], 0
        return n_visits


cdef inline float second_of_some(const float *x, Py_ssize_t n) noexcept nogil:
    """Return the second largest of every eighth value: some sixteen values lie above it."""
    cdef float first = x[0], second = -INFINITY
    cdef Py_ssize_t k = STRIDE
    while k < n:
        if x[k] > second:
            second, first = min(x[k], first), max(x[k], first)
        k += STRIDE
    return second


cdef inline Py_ssize_t with_cluster(int32_t *out, Py_ssize_t n, int32_t k) noexcept nogil:
    """Put a cluster into an ordered list that may have it; return the length."""
    cdef Py_ssize_t j = n, t
    while j > 0 and out[j - 1] > k:
        j -= 1
    if j > 0 and out[j - 1] == k:
        return n
    for t in range(n, j, -1):
        out[t] = out[t - 1]
    out[j] = k
    return n + 1
