"""Bounds of the evidence of pairs under a diagonal Gaussian, in single precision.

The evidence of n data is levels[n] - (shape + n / 2) sum_f log r_f. Of a pair, with b and mu the posterior rates and
locations of one cluster, and m and h the means and half the inner squares of the other one,

    r = b + h + w (m - mu)^2,    w = strength size / (strength + size) / 2,

where strength = prior strength + n of the first, size = n of the second. The logarithms of r / b are bounded from below
for sixteen clusters together; columns are scaled by their prior rates, so that b >= 1.

Rounding. Means in single precision are wrong by at most `reach`; with a = w reach^2 / b, the ratio r / b that is
computed is at most (1 + sqrt(a))^2 times the true one. The other operations add less than 2^-19 a column, and the sums
of squares of the double evidence lose at most 2^-49 n Y^2 of a rate, Y the largest scaled value. Where n Y^2 exceeds
2^30 there are no bounds; the ratios are below 2^31 then, and four of them have a product.
"""

import numpy as np
from scipy.special import gammaln

from cpython.pycapsule cimport PyCapsule_New
from libc.math cimport log, sqrt

from expfam.contracts cimport EXPFAM_ABI
from expfam.families.merged_bounds cimport MERGED_BOUNDS, merged_bounds_v1
from expfam.structures.simd.pair_bounds cimport EXPFAM_PAIR_LANES, expfam_rate_logs

cdef double MOST_SQUARES = 2.0 ** 30
cdef double LEAST_RATE = 1e-60
cdef double NOTHING = -1e290


ctypedef struct bounds_state:
    Py_ssize_t d                    # columns of the data
    const double *n                 # (L,) statistics of the components by slot
    const double *S                 # (L, 2 d)
    const double *shift             # (d,) prior location about the centre
    const double *strength
    const double *rate
    const double *scale             # (d,) 1 / sqrt(rate)
    const double *reach             # (d,) of scaled means
    double rounding                 # of a sum of logarithms
    float *blocks                   # (positions / 16, 1 + 2 d, 16): size, means, half the inner squares
    unsigned char *plain            # (positions / 16,) whether all sizes of a block are 1


cdef void bounds_place(void *self, Py_ssize_t at, Py_ssize_t k) noexcept nogil:
    cdef bounds_state *s = <bounds_state *> self
    cdef Py_ssize_t f, d = s.d, lane = at % EXPFAM_PAIR_LANES, block = at // EXPFAM_PAIR_LANES
    cdef float *row = s.blocks + block * (1 + 2 * d) * EXPFAM_PAIR_LANES + lane
    cdef const double *S = s.S + 2 * d * k
    cdef double n = s.n[k], inner
    row[0] = <float> n
    for f in range(d):
        inner = 0.5 * (S[d + f] - S[f] * S[f] / n) * s.scale[f] * s.scale[f] if n > 1.0 else 0.0
        row[(1 + f) * EXPFAM_PAIR_LANES] = <float> ((S[f] / n - s.shift[f]) * s.scale[f])
        row[(1 + d + f) * EXPFAM_PAIR_LANES] = <float> max(inner, 0.0)
    s.plain[block] = n == 1.0 and (lane == 0 or s.plain[block])


cdef void bounds_move(void *self, Py_ssize_t at, Py_ssize_t to) noexcept nogil:
    cdef bounds_state *s = <bounds_state *> self
    cdef Py_ssize_t f, rows = 1 + 2 * s.d, lane = to % EXPFAM_PAIR_LANES, block = to // EXPFAM_PAIR_LANES
    cdef const float *own = s.blocks + at // EXPFAM_PAIR_LANES * rows * EXPFAM_PAIR_LANES + at % EXPFAM_PAIR_LANES
    cdef float *row = s.blocks + block * rows * EXPFAM_PAIR_LANES + lane
    for f in range(rows):
        row[f * EXPFAM_PAIR_LANES] = own[f * EXPFAM_PAIR_LANES]
    s.plain[block] = row[0] == 1.0 and (lane == 0 or s.plain[block])


cdef double bounds_begin(void *self, Py_ssize_t k, float *work) noexcept nogil:
    """Write what all pairs of slot k share to `work`: locations, gains, strengths, gains of one.

    Returns what is below the sum of the logarithms of the rates.
    """
    cdef bounds_state *s = <bounds_state *> self
    cdef Py_ssize_t f, d = s.d
    cdef const double *S = s.S + 2 * d * k
    cdef double n = s.n[k], strength, about, rate, total = -s.rounding
    for f in range(d):
        strength = s.strength[f] + n
        about = S[f] - n * s.shift[f]
        rate = s.rate[f] + 0.5 * (S[d + f] - s.shift[f] * (S[f] + about) - about * about / strength)
        total += log(rate)
        rate *= s.scale[f] * s.scale[f]
        if not 0.5 < rate < 1e30:
            return NOTHING
        total -= 2.0 * s.reach[f] * sqrt(0.5 * strength / rate)
        work[f] = <float> (about / strength * s.scale[f])
        work[d + f] = <float> (1.0 / rate)
        work[2 * d + f] = <float> strength
        work[3 * d + f] = <float> (0.5 * strength / ((strength + 1.0) * rate))
    return total


cdef void bounds_logs(void *self, const float *work, Py_ssize_t first, Py_ssize_t stop, float *out) noexcept nogil:
    cdef bounds_state *s = <bounds_state *> self
    expfam_rate_logs(s.blocks, s.plain, first // EXPFAM_PAIR_LANES,
                     (stop + EXPFAM_PAIR_LANES - 1) // EXPFAM_PAIR_LANES, s.d, work, out)


cdef class MergedBounds:
    """Bounds of the evidence of pairs of clusters; see `merged_bounds.pxd`.

    Parameters
    ----------
    n, S : (L,) and (L, 2 d) ndarrays
        Statistics by slot; they are read where they lie.
    prior : shift, strength, shape and rate, (d,) float64 ndarrays each
        All shapes are equal.
    n_data : int
        Of all clusters together.
    n_positions : int
        To which clusters may be written.

    Attributes
    ----------
    capsule : PyCapsule
        ``"expfam.merged_bounds_v1"``.
    levels : (n_data + 1,) float64 ndarray
        Terms of the log evidence that depend on the number of data alone, nats.
    half : float
        Shape.
    """

    cdef readonly object capsule, levels
    cdef readonly double half
    cdef bounds_state s
    cdef merged_bounds_v1 functions
    cdef object arrays

    def __init__(self, n, S, prior, *, n_data, n_positions):
        shift, strength, shape, rate = prior
        cdef const double[::1] sizes = n
        cdef const double[:, ::1] sums = S
        cdef const double[:, ::1] numbers
        scale = 1.0 / np.sqrt(rate)
        reach = _largest(S, shift) * scale
        self.arrays = [n, S, np.stack([shift, strength, rate, scale, 2.0 ** -22 * reach])]
        numbers = self.arrays[2]
        d = scale.size
        self.half, self.levels = shape[0], _levels(prior, n_data)
        self.s.d, self.s.n, self.s.S = d, &sizes[0], &sums[0, 0]
        self.s.shift, self.s.strength, self.s.rate = &numbers[0, 0], &numbers[1, 0], &numbers[2, 0]
        self.s.scale, self.s.reach = &numbers[3, 0], &numbers[4, 0]
        self.s.rounding = d * 2.0 ** -19 + 2.0 ** -47 * n_data * (reach**2).sum()
        self._publish(n_positions, d)

    def _publish(self, Py_ssize_t n_positions, Py_ssize_t d):
        cdef Py_ssize_t n_blocks = (n_positions + EXPFAM_PAIR_LANES - 1) // EXPFAM_PAIR_LANES
        cdef float[::1] blocks = np.ones(n_blocks * (1 + 2 * d) * EXPFAM_PAIR_LANES, dtype=np.float32)
        cdef unsigned char[::1] plain = np.zeros(n_blocks, dtype=np.uint8)
        self.arrays += [blocks.base, plain.base]
        self.s.blocks, self.s.plain = &blocks[0], &plain[0]
        self.functions.abi_version, self.functions.struct_size = EXPFAM_ABI, sizeof(merged_bounds_v1)
        self.functions.self = &self.s
        self.functions.place, self.functions.move = bounds_place, bounds_move
        self.functions.begin, self.functions.logs = bounds_begin, bounds_logs
        self.functions.work_size, self.functions.block = 4 * d, EXPFAM_PAIR_LANES
        self.capsule = PyCapsule_New(&self.functions, MERGED_BOUNDS, NULL)


def _largest(S, shift):
    """Return an upper bound of the values of each column, and of the prior location: (d,)."""
    d = shift.size
    return np.sqrt(S[:, d:].max(axis=0, initial=0.0)) + np.abs(shift)


def _levels(prior, n_data):
    """Return the terms of the log evidence by number of data alone: (n_data + 1,) nats."""
    _, strength, shape, rate = prior
    n = np.arange(n_data + 1.0)
    levels = shape.size * (gammaln(shape[0] + 0.5 * n) - gammaln(shape[0])) + float((shape * np.log(rate)).sum())
    for each, times in zip(*np.unique(strength, return_counts=True)):
        levels -= 0.5 * times * np.log1p(n / each)
    return levels


def bounds_of(n, S, prior, *, n_data, n_positions):
    """Return the bounds of clusters, or None where single precision tells too little.

    Parameters
    ----------
    n, S, prior, n_data, n_positions
        As of `MergedBounds`.

    Returns
    -------
    MergedBounds or None
    """
    shift, _, shape, rate = prior
    if not shape.size or (shape != shape[0]).any() or n_data >= 1 << 24:
        return None
    if rate.min() < LEAST_RATE or rate.max() > 1.0 / LEAST_RATE:
        return None
    if not n_data * (_largest(S, shift) ** 2 / rate).max() <= MOST_SQUARES:
        return None
    return MergedBounds(n, S, prior, n_data=n_data, n_positions=n_positions)
