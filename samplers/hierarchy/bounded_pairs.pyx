"""Partners by pair scores; bounds in single precision leave most pairs out.

Clusters are kept by position, ascending by id, so that the older ones of a cluster are those before it. For each search
all of them get an upper bound of their score. The best ones by bound are scored; what lies below the last of their
scores cannot enter the list of a queue, and is left out. The merges are those of `AllPartners`, to the bit.
"""

import numpy as np

from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_New
from libc.math cimport INFINITY, fabs
from libc.stdint cimport int32_t, int64_t

from expfam.families.merged_bounds cimport MERGED_BOUNDS, merged_bounds_v1
from expfam.samplers.hierarchy._merge cimport PARTNERS, SCORES, merge_scores_v1
from expfam.samplers.hierarchy.pairs import AllPartners
from expfam.structures.merging.bounded cimport list_above, n_tops, score_to_reach
from expfam.structures.merging.queue cimport merge_partners_v1
from expfam.structures.simd.pair_bounds cimport EXPFAM_TOP_BLOCK, expfam_upper_scores

cdef enum:
    CHUNK = 1024                    # positions whose bounds are computed together
    MOST_DEAD = 8                   # one of so many positions may be dead

cdef double ROUNDING = 2.0 ** -42   # of scores in double, in units of their largest term


ctypedef struct bounded_state:
    merge_scores_v1 scores
    merged_bounds_v1 bounds
    const double *level             # (n_data + 1,) by number of data of the pair
    double half, most_level, most_half, most_weight
    Py_ssize_t d
    # by position (P,)
    Py_ssize_t n, n_dead
    Py_ssize_t *slot
    int64_t *id
    int32_t *count
    double *weight                  # W, +inf of a dead one
    # by slot
    Py_ssize_t *place               # (L,)
    const double *weight_of         # of the scores
    const int64_t *count_of
    # scratch memory of the thread
    double *upper                   # (P,) by position
    double *tops                    # (P / EXPFAM_TOP_BLOCK,)
    float *logs                     # (CHUNK,)
    float *work


cdef void upper_bounds(bounded_state *s, Py_ssize_t k, Py_ssize_t m) noexcept nogil:
    """Compute upper bounds of the scores of slot k with m positions; -inf of dead ones."""
    cdef double least = s.bounds.begin(s.bounds.self, k, s.work), n = <double> s.count_of[k]
    cdef double most = s.most_level + s.most_half * (fabs(least) + 22.0 * s.d) + fabs(s.weight_of[k]) + s.most_weight
    cdef double offset = ROUNDING * most - s.weight_of[k]
    cdef Py_ssize_t first = 0, stop
    while first < m:
        stop = min(first + CHUNK, m)
        s.bounds.logs(s.bounds.self, s.work, first, stop, s.logs)
        expfam_upper_scores(s.logs, s.count + first, s.weight + first, s.level + s.count_of[k], s.half + 0.5 * n, least,
                            offset, stop - first, s.upper + first, s.tops + first // EXPFAM_TOP_BLOCK)
        first = stop


cdef int score_places(void *self, Py_ssize_t k, Py_ssize_t *places, Py_ssize_t m, double *out) noexcept nogil:
    """Replace positions by their slots, and score them."""
    cdef bounded_state *s = <bounded_state *> self
    cdef Py_ssize_t i
    for i in range(m):
        places[i] = s.slot[places[i]]
    return s.scores.score(s.scores.self, k, places, m, out)


cdef Py_ssize_t bounded_partners(void *self, Py_ssize_t k, const int64_t *ids, Py_ssize_t n_kept, Py_ssize_t *slots,
                                 double *scores, double *rest) noexcept nogil:
    cdef bounded_state *s = <bounded_state *> self
    cdef Py_ssize_t m = s.place[k], n
    cdef double least = -INFINITY
    cdef int status
    if m == 0:
        return 0
    upper_bounds(s, k, m)
    status = score_to_reach(s.upper, s.tops, m, n_kept, score_places, s, k, slots, scores, &least)
    if status < 0:
        return status
    n = list_above(s.upper, s.tops, m, least, slots, rest)
    status = score_places(s, k, slots, n, scores) if n else 0
    return status if status < 0 else n


cdef class BoundedPartners:
    """Partners of a `MergeQueue`: all pairs, scored where a bound does not decide.

    Parameters
    ----------
    scores : OddsScores
    bounds : MergedBounds
        Of the components of the scores.
    slots, ids : (n,) array_like of int
        Live clusters, ascending by id.
    n_named : int
        Ids given so far; a merge gives the next one.
    """

    cdef readonly object capsule, scores, bounds
    cdef bounded_state s
    cdef merge_partners_v1 functions
    cdef object arrays, scratch
    cdef int64_t n_named

    is_wide = True

    def __init__(self, scores, bounds, slots, ids, *, n_named):
        self.n_named = n_named
        self._lay_out(scores, bounds)
        cdef Py_ssize_t slot
        for slot, each in zip(slots, ids):
            self._append(slot, each)

    def _lay_out(self, scores, bounds):
        """Allocate the arrays by position and by slot."""
        self.scores, self.bounds = scores, bounds
        L, P = len(scores.count), n_positions(len(scores.count))
        level = scores.levels_with(bounds.levels)
        cdef Py_ssize_t[::1] slot = np.zeros(P, dtype=np.intp), place = np.full(L, -1, dtype=np.intp)
        cdef int64_t[::1] id = np.zeros(P, dtype=np.int64), counts = scores.count
        cdef int32_t[::1] count = np.ones(P, dtype=np.int32)
        cdef double[::1] weight = np.full(P, np.inf), weights = scores.weight
        cdef const double[::1] levels = level
        self.arrays = [slot.base, place.base, id.base, count.base, weight.base, level, scores.count, scores.weight]
        self.s.slot, self.s.place, self.s.id, self.s.count = &slot[0], &place[0], &id[0], &count[0]
        self.s.weight, self.s.level = &weight[0], &levels[0]
        self.s.weight_of, self.s.count_of = &weights[0], &counts[0]
        self.s.bounds = (<merged_bounds_v1 *>PyCapsule_GetPointer(bounds.capsule, MERGED_BOUNDS))[0]
        self.s.half, self.s.d = bounds.half, self.s.bounds.work_size
        self.s.most_level, self.s.most_half = float(np.abs(level).max()), bounds.half + 0.5 * len(level)
        self.s.n = self.s.n_dead = 0
        self.s.most_weight = 0.0
        self._publish()

    cdef _publish(self):
        """Set scratch memory, and what a queue calls."""
        P = n_positions(len(self.scores.count))
        cdef double[::1] upper = np.empty(P), tops = np.empty(n_tops(P))
        cdef float[::1] logs = np.empty(CHUNK + self.s.bounds.block, dtype=np.float32)
        cdef float[::1] work = np.empty(self.s.bounds.work_size, dtype=np.float32)
        self.scratch = [upper.base, tops.base, logs.base, work.base]
        self.s.upper, self.s.tops, self.s.logs, self.s.work = &upper[0], &tops[0], &logs[0], &work[0]
        self.s.scores = (<merge_scores_v1 *>PyCapsule_GetPointer(self.scores.capsule, SCORES))[0]
        self.functions.self = &self.s
        self.functions.partners = bounded_partners
        self.capsule = PyCapsule_New(&self.functions, PARTNERS, NULL)

    cdef void _append(self, Py_ssize_t slot, int64_t id) noexcept:
        """Write the cluster in a slot to the next position."""
        cdef bounded_state *s = &self.s
        s.slot[s.n], s.id[s.n], s.place[slot] = slot, id, s.n
        s.count[s.n], s.weight[s.n] = <int32_t> s.count_of[slot], s.weight_of[slot]
        s.most_weight = max(s.most_weight, fabs(s.weight_of[slot]))
        s.bounds.place(s.bounds.self, s.n, slot)
        s.n += 1

    cdef void _kill(self, Py_ssize_t slot) noexcept:
        """Mark the position of a slot as dead."""
        self.s.weight[self.s.place[slot]] = INFINITY
        self.s.place[slot] = -1
        self.s.n_dead += 1

    cdef void _repack(self) noexcept:
        """Let dead positions fall out."""
        cdef bounded_state *s = &self.s
        cdef Py_ssize_t i, n = 0
        for i in range(s.n):
            if s.weight[i] == INFINITY:
                continue
            if i != n:
                s.slot[n], s.id[n], s.count[n], s.weight[n] = s.slot[i], s.id[i], s.count[i], s.weight[i]
                s.place[s.slot[n]] = n
                s.bounds.move(s.bounds.self, i, n)
            n += 1
        s.n, s.n_dead = n, 0

    def fork(self):
        """Return the same partners with scratch memory of their own, for another thread."""
        cdef BoundedPartners other = BoundedPartners.__new__(BoundedPartners)
        other.scores, other.bounds, other.arrays = self.scores.fork(), self.bounds, self.arrays
        other.s, other.n_named = self.s, self.n_named
        other._publish()
        return other

    @property
    def pending(self):
        """Return the exception of a score that failed in a family in Python, or None."""
        return getattr(self.scores, "pending", None)

    def absorb(self, Py_ssize_t k, Py_ssize_t l):
        """Note that slot k, which has absorbed slot l, holds the youngest cluster now."""
        self._kill(k)
        self._kill(l)
        if MOST_DEAD * self.s.n_dead >= self.s.n:
            self._repack()
        self._append(k, self.n_named)
        self.n_named += 1

    def score(self, Py_ssize_t k, slots):
        """Return the scores of slot k with other slots: (m,) nats."""
        return self.scores.score(k, slots)

    def upper(self, Py_ssize_t k):
        """Return the older clusters of slot k, and upper bounds of their scores with it, nats."""
        cdef Py_ssize_t m = self.s.place[k]
        upper_bounds(&self.s, k, m)
        slot, bound = self.arrays[0][:m], self.scratch[0][:m]
        live = bound > -np.inf
        return slot[live], bound[live]

    def to_arrays(self):
        """Return the live clusters as a dict of arrays, which are those of `AllPartners`."""
        slot, _, id, _, weight = self.arrays[:5]
        live = np.flatnonzero(weight[: self.s.n] < np.inf)
        return {"slots": slot[live], "ids": id[live], "n_named": np.array(self.n_named),
                "group": np.full(len(self.scores.count), -1)}


def n_positions(n_slots):
    """Return the number of positions for clusters in `n_slots` slots, and dead ones."""
    return n_slots + n_slots // MOST_DEAD + 2


def all_partners(scores, slots, ids, *, n_named, group=None):
    """Return the partners of clusters of which all pairs may merge.

    They are bounded where the family has bounds and no leaves share their scores.

    Parameters
    ----------
    scores : OddsScores, CountScores or LevelScores
    slots, ids, n_named, group
        As of `AllPartners`.

    Returns
    -------
    BoundedPartners or AllPartners
    """
    bounds = None
    if hasattr(scores, "bounds") and (group is None or max(group) < 0):
        bounds = scores.bounds(n_positions(len(scores.count)))
    if bounds is None:
        return AllPartners(scores, slots, ids, n_named=n_named, group=group)
    live = {slot: id for slot, id in zip(np.asarray(slots).tolist(), np.asarray(ids).tolist()) if scores.count[slot]}
    order = sorted(live, key=live.__getitem__)      # a list of `AllPartners` may hold clusters that are gone
    return BoundedPartners(scores, bounds, order, [live[slot] for slot in order], n_named=n_named)


def partners_from_arrays(arrays, scores):
    """Return the partners of the arrays of `AllPartners.to_arrays`, with the same scores."""
    given = {"n_named": int(arrays["n_named"]), "group": arrays["group"]}
    return all_partners(scores, arrays["slots"], arrays["ids"], **given)
