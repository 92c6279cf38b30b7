"""Partners of a `MergeQueue` by Ward's criterion: all pairs, compiled, in O(N) memory.

Most pairs are left out by bounds of their scores in single precision; the merges are those of all scores, to the bit.
"""

from cpython.pycapsule cimport PyCapsule_New
from libc.math cimport INFINITY
from libc.stdint cimport int64_t

import numpy as np

from expfam.amounts import counted
from expfam.structures.merging.bounded cimport list_above, n_tops, score_to_reach
from expfam.structures.merging.queue cimport merge_partners_v1
from expfam.structures.simd.pair_bounds cimport EXPFAM_PAIR_LANES, expfam_ward_bounds


cdef enum:
    MOST_DEAD = 8                   # one of so many positions may be dead

cdef double LEAST_SIZE = 1e-18      # of weights in single precision, and 1 over the largest sum of them
cdef double LOSS = 2.0 ** -12       # of a squared distance that a bound gives away for the rounding of centres


ctypedef struct ward_state:
    double *center                  # (n_items, n_features)
    double *size                    # (n_items,)
    Py_ssize_t n_features
    # clusters by position, ascending by id: the older ones of a cluster are before it
    Py_ssize_t n, n_dead
    Py_ssize_t *slot                # (P,) -1 of a dead one
    Py_ssize_t *place               # (n_items,) position of each slot
    # centres in single precision, less `middle`, in units of the largest value; NULL where there are none
    float *blocks                   # (P / 16, 1 + n_features, 16): size, centre
    const double *middle            # (n_features,)
    double unit
    # scratch memory of the thread
    double *upper                   # (P,)
    double *tops                    # (P / EXPFAM_TOP_BLOCK,)
    float *row                      # (n_features,)


cdef int score_places(void *self, Py_ssize_t k, Py_ssize_t *places, Py_ssize_t m, double *out) noexcept nogil:
    """Replace positions by their slots, and score them."""
    cdef ward_state *s = <ward_state *> self
    cdef Py_ssize_t i, f, d = s.n_features
    cdef const double *x = s.center + k * d
    cdef const double *y
    cdef double square, n = s.size[k], other
    for i in range(m):
        places[i] = s.slot[places[i]]
        y = s.center + places[i] * d
        square = 0
        for f in range(d):
            square += (x[f] - y[f]) * (x[f] - y[f])
        other = s.size[places[i]]
        out[i] = -(n * other / (n + other)) * square
    return 0


cdef void upper_bounds(ward_state *s, Py_ssize_t k, Py_ssize_t m) noexcept nogil:
    """Compute upper bounds of the scores of slot k with m positions; -inf of dead ones.

    Each centre is wrong by at most 2^-24 a column. So a square is at least (1 - t) of the computed one, less
    d 2^-46 / t, for each t; the other operations add less than d + 16 units of rounding to t.
    """
    cdef Py_ssize_t f, d = s.n_features
    cdef double kept = 1.0 - LOSS - (d + 16.0) * 2.0 ** -24, lost = d * 2.0 ** -45 / LOSS
    for f in range(d):
        s.row[f] = <float> ((s.center[k * d + f] - s.middle[f]) / s.unit)
    expfam_ward_bounds(s.blocks, (m + EXPFAM_PAIR_LANES - 1) // EXPFAM_PAIR_LANES, d, s.row, <float> s.size[k],
                       <float> lost, <float> kept, s.unit * s.unit, s.upper, s.tops)


cdef Py_ssize_t live_places(const ward_state *s, Py_ssize_t m, Py_ssize_t *places) noexcept nogil:
    """List the live ones of the first m positions; return their number."""
    cdef Py_ssize_t i, n = 0
    for i in range(m):
        if s.slot[i] >= 0:
            places[n] = i
            n += 1
    return n


cdef Py_ssize_t ward_partners(void *self, Py_ssize_t k, const int64_t *ids, Py_ssize_t n_kept, Py_ssize_t *slots,
                              double *scores, double *rest) noexcept nogil:
    cdef ward_state *s = <ward_state *> self
    cdef Py_ssize_t m = s.place[k], n
    cdef double least = -INFINITY
    if s.blocks == NULL:
        n = live_places(s, m, slots)
    else:
        upper_bounds(s, k, m)
        score_to_reach(s.upper, s.tops, m, n_kept, score_places, s, k, slots, scores, &least)
        n = list_above(s.upper, s.tops, m, least, slots, rest)
    score_places(s, k, slots, n, scores)
    return n


cdef void add_center(ward_state *s, Py_ssize_t k, Py_ssize_t l) noexcept nogil:
    """Move the centre of slot k to that of both clusters; the size of slot l becomes 0."""
    cdef Py_ssize_t f, d = s.n_features
    cdef double *x = s.center + k * d
    cdef const double *y = s.center + l * d
    cdef double n = s.size[k], other = s.size[l]
    for f in range(d):
        x[f] = (n * x[f] + other * y[f]) / (n + other)
    s.size[k] = n + other
    s.size[l] = 0


cdef float *block_of(const ward_state *s, Py_ssize_t at) noexcept nogil:
    """Return where the size of a position is; the numbers of its centre follow, a block apart."""
    return (s.blocks + at // EXPFAM_PAIR_LANES * (1 + s.n_features) * EXPFAM_PAIR_LANES + at % EXPFAM_PAIR_LANES)


cdef void append(ward_state *s, Py_ssize_t k) noexcept nogil:
    """Write the cluster in slot k to the next position."""
    cdef Py_ssize_t f
    cdef float *to
    s.slot[s.n], s.place[k] = k, s.n
    if s.blocks != NULL:
        to = block_of(s, s.n)
        to[0] = <float> s.size[k]
        for f in range(s.n_features):
            to[(1 + f) * EXPFAM_PAIR_LANES] = <float> ((s.center[k * s.n_features + f] - s.middle[f]) / s.unit)
    s.n += 1


cdef void kill(ward_state *s, Py_ssize_t k) noexcept nogil:
    """Mark the position of slot k as dead."""
    s.slot[s.place[k]] = -1
    if s.blocks != NULL:
        block_of(s, s.place[k])[EXPFAM_PAIR_LANES] = INFINITY     # so is its distance
    s.n_dead += 1


cdef void repack(ward_state *s) noexcept nogil:
    """Let dead positions fall out."""
    cdef Py_ssize_t i, f, n = 0
    for i in range(s.n):
        if s.slot[i] < 0:
            continue
        if i != n:
            s.slot[n] = s.slot[i]
            s.place[s.slot[n]] = n
            if s.blocks != NULL:
                for f in range(1 + s.n_features):
                    block_of(s, n)[f * EXPFAM_PAIR_LANES] = block_of(s, i)[f * EXPFAM_PAIR_LANES]
        n += 1
    s.n, s.n_dead = n, 0


cdef class WardPartners:
    """Partners of a `MergeQueue` by Ward's method, with the scores of all pairs.

    A score is minus the growth of the within-cluster sum of squares.

    Parameters
    ----------
    X : (n_items, n_features) array of finite float64
        First centres; they are copied.
    size : (n_items,) array, optional
        Positive weights; all 1 by default.

    Attributes
    ----------
    capsule : PyCapsule
        ``"expfam.merge_partners_v1"``.

    Notes
    -----
    score(k, l) = -n_k n_l / (n_k + n_l) |m_k - m_l|^2 (Ward 1963). SciPy's height is sqrt(-2 score). The memory is the
    size of X, half of it again and some lists, whereas `scipy.cluster.hierarchy.linkage` stores n_items**2 / 2
    distances.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam.structures import MergeQueue, WardPartners
    >>> partners = WardPartners(np.array([[0.0], [1.0], [9.0]]))
    >>> children, scores = MergeQueue(3, partners).run(partners.absorb)
    >>> np.sqrt(-2 * scores)
    array([1.        , 9.81495458])
    """

    cdef readonly object capsule
    cdef merge_partners_v1 _functions
    cdef ward_state _state
    cdef object _arrays, _scratch           # owners of what _state points into
    cdef double[::1] _size

    def __init__(self, X, *, size=None):
        center = np.array(X, dtype=np.float64, order="C")
        if center.ndim != 2 or 0 in center.shape or not np.isfinite(center).all():
            raise ValueError(f"X must be a non-empty (n_items, n_features) array of finite numbers; got {center.shape}")
        sizes = np.ones(len(center)) if size is None else np.array(size, dtype=np.float64)
        if sizes.shape != (len(center),) or not (np.isfinite(sizes) & (sizes > 0)).all():
            raise ValueError(f"size must hold {counted(len(center), 'positive finite number')}")
        self._lay_out(center, sizes)

    def _lay_out(self, center, sizes):
        """Allocate the arrays by position, and write all items to them."""
        n, d = center.shape
        P = n + n // MOST_DEAD + 2
        cdef double[:, ::1] centers = center
        cdef double[::1] middle = center.mean(axis=0)
        cdef Py_ssize_t[::1] slot = np.zeros(P, dtype=np.intp), place = np.zeros(n, dtype=np.intp)
        cdef float[::1] blocks
        cdef ward_state *s = &self._state
        cdef Py_ssize_t k
        self._size, self._arrays = sizes, [center, sizes, middle.base, slot.base, place.base]
        s.center, s.size, s.slot, s.place, s.middle = &centers[0, 0], &self._size[0], &slot[0], &place[0], &middle[0]
        s.n_features, s.n, s.n_dead, s.blocks = d, 0, 0, NULL
        with np.errstate(over="ignore"):
            s.unit = np.abs(center - middle.base).max()
            has_bounds = 1e-100 < s.unit < 1e100 and LEAST_SIZE < sizes.min() and sizes.sum() < 1.0 / LEAST_SIZE
        if has_bounds:
            blocks = np.ones((P + EXPFAM_PAIR_LANES) * (1 + d), dtype=np.float32)
            self._arrays.append(blocks.base)
            s.blocks = &blocks[0]
        for k in range(n):
            append(s, k)
        self._publish(P)

    cdef _publish(self, Py_ssize_t n_positions):
        """Set scratch memory, and what a queue calls."""
        cdef double[::1] upper = np.empty(n_positions + EXPFAM_PAIR_LANES), tops = np.empty(n_tops(n_positions) + 1)
        cdef float[::1] row = np.empty(self._state.n_features, dtype=np.float32)
        self._scratch = [upper.base, tops.base, row.base]
        self._state.upper, self._state.tops, self._state.row = &upper[0], &tops[0], &row[0]
        self._functions.self = &self._state
        self._functions.partners = ward_partners
        self.capsule = PyCapsule_New(&self._functions, "expfam.merge_partners_v1", NULL)

    def fork(self):
        """Return the same partners with scratch memory of their own, for another thread."""
        cdef WardPartners other = WardPartners.__new__(WardPartners)
        other._state, other._arrays, other._size = self._state, self._arrays, self._size
        other._publish(len(self._arrays[3]))
        return other

    def upper(self, Py_ssize_t k):
        """Return the older clusters of slot k, and upper bounds of their scores with it.

        Bounds are 0 where sizes or values are beyond single precision.

        Parameters
        ----------
        k : int

        Returns
        -------
        slots : (m,) intp ndarray
        upper : (m,) float64 ndarray
        """
        m = self._state.place[k]
        slots = self._arrays[3][:m]
        live, bounds = slots >= 0, np.zeros(m)
        if self._state.blocks != NULL:
            upper_bounds(&self._state, k, m)
            bounds = self._scratch[0][:m]
        return slots[live], bounds[live]

    def absorb(self, Py_ssize_t k, Py_ssize_t l):
        """Add the cluster in slot l to slot k, which holds the youngest cluster now.

        Parameters
        ----------
        k, l : int
            Slots of the two clusters; slot l is empty afterwards.

        Raises
        ------
        IndexError
            If one of the slots holds no live cluster.
        ValueError
            If both slots are the same.
        """
        cdef ward_state *s = &self._state
        cdef Py_ssize_t slot
        for slot in (k, l):
            if not 0 <= slot < self._size.shape[0] or s.size[slot] == 0:
                raise IndexError(f"slot {slot} holds no live cluster")
        if k == l:
            raise ValueError(f"a cluster cannot absorb itself; got slot {k} twice")
        kill(s, k)
        kill(s, l)
        add_center(s, k, l)
        if MOST_DEAD * s.n_dead >= s.n:
            repack(s)
        append(s, k)
