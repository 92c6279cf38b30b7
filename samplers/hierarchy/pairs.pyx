"""Partners of clusters by pair scores: all others, or candidates from a graph of leaves."""

import numpy as np

from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_New
from libc.math cimport INFINITY, fabs, isfinite
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy, memmove

from expfam.families.growth cimport growth_line
from expfam.samplers.hierarchy._heap cimport add_other, free_heap, leaf_heap, new_heap, pop_leaf, push_leaf
from expfam.samplers.hierarchy._merge cimport PARTNERS, PARTS, SCORES, merge_scores_v1, score_parts
from expfam.structures.merging.queue cimport merge_partners_v1


cdef enum:
    MOST_BEST = 32      # partners of a list up to which copies that cannot enter it are left out
    LEAST_DATA = 8      # of a cluster whose candidates have bounds: those of smaller ones are wide
    AT_ONCE = 8         # candidates that are scored together

_LEAST_PARTNERS = 1024     # of a cluster that gets a heap: fewer are scored in the time that a heap takes
cdef double LEAST_SCALE = 1e-4      # of bounds; flatter ones tell little, and are made anew


# ---- all pairs -------------------------------------------------------------------------------------------------------

ctypedef struct all_state:
    merge_scores_v1 scores
    Py_ssize_t *slot                # (n,) by ascending id, dead ones among them
    int64_t *id                     # (n,) whom the slot held
    Py_ssize_t n
    int64_t n_named                 # ids given so far
    # leaves with copies, which share their scores
    Py_ssize_t *active              # (n_groups,) groups, an empty one until it is met
    Py_ssize_t n_groups
    int pristine                    # nothing merged yet: groups ascend by their first leaf
    Py_ssize_t *head                # by group: first leaf, -1 where there is none
    Py_ssize_t *group               # (L,) of a leaf, -1 of all others
    Py_ssize_t *later               # (L,) next leaf of the group, by ascending id
    Py_ssize_t *earlier


cdef Py_ssize_t first_of_groups(all_state *s, const int64_t *ids, int64_t own, Py_ssize_t *slots) noexcept nogil:
    """List the first leaf of each group that has a leaf older than `own`; return their number."""
    cdef Py_ssize_t i = 0, n = 0, first
    while i < s.n_groups:
        first = s.head[s.active[i]]
        if first < 0:
            s.n_groups -= 1
            s.active[i] = s.active[s.n_groups]
            continue
        if ids[first] < own:
            slots[n] = first
            n += 1
        elif s.pristine:
            break
        i += 1
    return n


cdef double last_of_best(const double *scores, Py_ssize_t n, Py_ssize_t n_best) noexcept nogil:
    """Return the n_best-th highest score; -inf if there are fewer, or n_best is too large."""
    cdef double best[MOST_BEST]
    cdef Py_ssize_t i, j
    if n < n_best or n_best > MOST_BEST:
        return -INFINITY
    for j in range(n_best):
        best[j] = -INFINITY
    for i in range(n):
        if scores[i] > best[n_best - 1]:
            j = n_best - 1
            while j > 0 and best[j - 1] < scores[i]:
                best[j] = best[j - 1]
                j -= 1
            best[j] = scores[i]
    return best[n_best - 1]


cdef Py_ssize_t others_of_groups(const all_state *s, const int64_t *ids, int64_t own, Py_ssize_t n_firsts,
                                 Py_ssize_t n, Py_ssize_t n_kept, Py_ssize_t *slots, double *scores,
                                 double *rest) noexcept nogil:
    """Add further leaves of the groups, each with the score of the first leaf of its group.

    No more are added than a list can hold.
    """
    cdef Py_ssize_t i, other, taken
    cdef double least = last_of_best(scores, n, n_kept)
    for i in range(n_firsts):
        other = s.later[slots[i]]
        taken = 1
        if scores[i] < least:       # a list is full without them
            if other >= 0 and ids[other] < own:
                rest[0] = max(rest[0], scores[i])
            continue
        while other >= 0 and ids[other] < own:
            if taken == n_kept:
                rest[0] = max(rest[0], scores[i])
                break
            slots[n] = other
            scores[n] = scores[i]
            n += 1
            taken += 1
            other = s.later[other]
    return n


cdef Py_ssize_t all_partners(void *self, Py_ssize_t k, const int64_t *ids, Py_ssize_t n_kept, Py_ssize_t *slots,
                             double *scores, double *rest) noexcept nogil:
    cdef all_state *s = <all_state *> self
    cdef int64_t own = ids[k]
    cdef bint youngest = s.n > 0 and s.id[s.n - 1] <= own and s.group[k] < 0
    cdef Py_ssize_t i = 0, n_firsts = first_of_groups(s, ids, own, slots), n = n_firsts, n_loose = 0
    cdef int status
    while i < s.n and s.id[i] < own:
        if ids[s.slot[i]] == s.id[i]:
            slots[n] = s.slot[i]
            if youngest:            # all are gone through, so the dead ones can fall out
                s.slot[n_loose] = s.slot[i]
                s.id[n_loose] = s.id[i]
                n_loose += 1
            n += 1
        i += 1
    if youngest:
        s.slot[n_loose] = k
        s.id[n_loose] = own
        s.n = n_loose + 1
    if n == 0:
        return 0
    status = s.scores.score(s.scores.self, k, slots, n, scores)
    if status < 0:
        return status
    return others_of_groups(s, ids, own, n_firsts, n, n_kept, slots, scores, rest)


cdef class AllPartners:
    """Partners of a `MergeQueue` where all pairs are scored, those with copies of one leaf once.

    `slots` and `ids` (n,) are the live clusters by ascending id, but for those of groups; `n_named` ids are given so
    far, and a merge gives the next one. `group` (L,) is the group of the leaf in each slot, numbered by first
    appearance: leaves whose statistics and weights are equal to the bit; -1 for all others. `capsule` is
    ``"expfam.merge_partners_v1"``.
    """

    cdef readonly object capsule, scores
    cdef all_state s
    cdef merge_partners_v1 functions
    cdef Py_ssize_t[::1] _slot, _group, _active, _head, _later, _earlier
    cdef int64_t[::1] _id

    is_wide = True

    def __init__(self, scores, slots, ids, *, n_named, group=None):
        L, n = len(scores.count), len(slots)
        self.scores = scores
        self._slot, self._id = np.empty(L + n, dtype=np.intp), np.empty(L + n, dtype=np.int64)
        np.asarray(self._slot)[:n], np.asarray(self._id)[:n] = slots, ids
        self.s.n, self.s.n_named, self.s.pristine = n, n_named, n_named == L
        self._lay_out(np.full(L, -1) if group is None else group)
        self.s.scores = (<merge_scores_v1 *>PyCapsule_GetPointer(scores.capsule, SCORES))[0]
        self.s.slot, self.s.id = &self._slot[0], &self._id[0]
        self.functions.self = &self.s
        self.functions.partners = all_partners
        self.capsule = PyCapsule_New(&self.functions, PARTNERS, NULL)

    def _lay_out(self, group):
        """Make the list of the leaves of each group, ascending."""
        cdef Py_ssize_t slot, g, L = len(group), n_groups = int(max(group)) + 1
        cdef Py_ssize_t[::1] last = np.full(max(n_groups, 1), -1, dtype=np.intp)
        self._group, self._active = np.array(group, dtype=np.intp), np.arange(max(n_groups, 1))
        self._head = np.full(max(n_groups, 1), -1, dtype=np.intp)
        self._later, self._earlier = np.full(L, -1, dtype=np.intp), np.full(L, -1, dtype=np.intp)
        for slot in range(L):
            g = self._group[slot]
            if g < 0:
                continue
            self._earlier[slot] = last[g]
            if last[g] < 0:
                self._head[g] = slot
            else:
                self._later[last[g]] = slot
            last[g] = slot
        self.s.n_groups, self.s.active, self.s.head = n_groups, &self._active[0], &self._head[0]
        self.s.group, self.s.later, self.s.earlier = &self._group[0], &self._later[0], &self._earlier[0]

    def fork(self):
        """Return the same partners with scratch memory of their own, for another thread."""
        return AllPartners(self.scores.fork(), **self._of_now())

    def _of_now(self):
        n = self.s.n
        return {"slots": np.array(self._slot)[:n], "ids": np.array(self._id)[:n], "n_named": self.s.n_named,
                "group": np.array(self._group)}

    @property
    def pending(self):
        """Return the exception of a score that failed in a family in Python, or None."""
        return getattr(self.scores, "pending", None)

    cdef void _leave(self, Py_ssize_t k) noexcept nogil:
        """Take slot k out of its group."""
        cdef all_state *s = &self.s
        if s.group[k] < 0:
            return
        if s.earlier[k] >= 0:
            s.later[s.earlier[k]] = s.later[k]
        else:
            s.head[s.group[k]] = s.later[k]
        if s.later[k] >= 0:
            s.earlier[s.later[k]] = s.earlier[k]
        s.group[k] = -1

    def absorb(self, Py_ssize_t k, Py_ssize_t l):
        """Note that slot k, which has absorbed slot l, holds the youngest cluster now."""
        self._leave(k)
        self._leave(l)
        self.s.pristine = 0
        self.s.slot[self.s.n], self.s.id[self.s.n] = k, self.s.n_named
        self.s.n += 1
        self.s.n_named += 1

    def score(self, Py_ssize_t k, slots):
        """Return the scores of slot k with other slots: (m,) nats."""
        return self.scores.score(k, slots)

    def to_arrays(self):
        """Return the listed clusters and the groups of leaves as a dict of arrays."""
        return {name: np.array(value) for name, value in self._of_now().items()}

    @classmethod
    def from_arrays(cls, arrays, scores):
        """Make the partners from the arrays of `to_arrays`, with the same scores."""
        return cls(scores, arrays["slots"], arrays["ids"], n_named=int(arrays["n_named"]), group=arrays["group"])


# ---- candidates of a graph -------------------------------------------------------------------------------------------

ctypedef struct place_of:           # side by side: one line of memory for both
    int32_t home                    # where a slot's cluster went, itself while it lives
    int32_t mark

ctypedef struct graph_state:
    merge_scores_v1 scores
    int32_t *target                 # (capacity,) lists of edges: a slot when the edge was last looked at
    Py_ssize_t *begin               # (L,) of each slot's list
    Py_ssize_t *size
    Py_ssize_t *room
    place_of *place                 # (L,)
    int32_t stamp
    Py_ssize_t youngest             # slot of the last merge, -1 before any
    # bounds, of families that have them
    score_parts parts               # line is NULL where there are none
    const int64_t *count            # (L,) data by slot
    const double *weight            # (L,) W by slot
    Py_ssize_t least_partners
    leaf_heap **heap                # (L,) NULL of a cluster whose candidates are all scored
    # of the merge to come
    Py_ssize_t large, small         # slots, by their numbers of data
    int small_is_one, large_is_one
    growth_line line
    int has_line


cdef inline int32_t home_of(place_of *place, int32_t slot) noexcept nogil:
    while place[slot].home != slot:
        place[slot].home = place[place[slot].home].home
        slot = place[slot].home
    return slot


cdef inline bint is_leaf(const graph_state *g, int32_t slot) noexcept nogil:
    """Return whether a slot still holds the single datum that it began with."""
    return g.place[slot].home == slot and g.count[slot] == 1


cdef void drop_heap(graph_state *g, Py_ssize_t k) noexcept nogil:
    """Free the heap of slot k: its candidates are all scored until there is a heap again."""
    free_heap(g.heap[k])
    g.heap[k] = NULL


cdef bint enter(graph_state *g, leaf_heap *heap, double alone, int32_t leaf, double score) noexcept nogil:
    """Put a leaf that was scored into the heap; return whether there was memory for it."""
    heap.low = min(heap.low, g.weight[leaf])
    return push_leaf(heap, (score - alone - heap.offset) / heap.scale, leaf)


cdef void start_heap(graph_state *g, Py_ssize_t k, const Py_ssize_t *slots, const double *scores,
                     Py_ssize_t n) noexcept nogil:
    """Make a heap of the scored leaves among the partners of slot k; list its other candidates."""
    cdef leaf_heap *heap = new_heap()
    cdef const int32_t *edges = g.target + g.begin[k]
    cdef double alone = 0.0, rounding = 0.0
    cdef bint done = heap != NULL and g.parts.alone(g.parts.self, k, &alone, &rounding) == 0
    cdef Py_ssize_t i
    for i in range(n):
        if done and is_leaf(g, <int32_t> slots[i]):
            done = isfinite(scores[i]) and enter(g, heap, alone, <int32_t> slots[i], scores[i])
    for i in range(g.size[k]):
        if done and not is_leaf(g, edges[i]):
            done = add_other(heap, edges[i])
    if done:
        g.heap[k] = heap
    else:
        free_heap(heap)


cdef Py_ssize_t all_of_list(graph_state *g, Py_ssize_t k, const int64_t *ids, Py_ssize_t *slots,
                            double *scores) noexcept nogil:
    """List the partners of slot k; drop edges to itself and repeated edges from its list."""
    cdef int32_t *edges = g.target + g.begin[k]
    cdef Py_ssize_t e, n_left = 0, n = 0
    cdef int32_t other
    cdef int status
    for e in range(g.size[k]):
        other = home_of(g.place, edges[e])
        if other != k and g.place[other].mark != g.stamp:
            g.place[other].mark = g.stamp
            edges[n_left] = other
            n_left += 1
            if k == g.youngest or ids[other] < ids[k]:
                slots[n] = other
                n += 1
    g.size[k] = n_left
    if n == 0:
        return 0
    status = g.scores.score(g.scores.self, k, slots, n, scores)
    if status < 0:
        return status
    if g.parts.line != NULL and n >= g.least_partners and g.count[k] >= LEAST_DATA:
        start_heap(g, k, slots, scores, n)
    return n


cdef Py_ssize_t list_others(graph_state *g, Py_ssize_t k, const int64_t *ids, Py_ssize_t *slots) noexcept nogil:
    """List older clusters of several data that slot k may merge with, each of them once."""
    cdef leaf_heap *heap = g.heap[k]
    cdef Py_ssize_t i, n_left = 0, n = 0
    cdef int32_t other
    for i in range(heap.n_others):
        other = home_of(g.place, heap.other[i])
        if other != k and g.place[other].mark != g.stamp:
            g.place[other].mark = g.stamp
            heap.other[n_left] = other
            n_left += 1
            if k == g.youngest or ids[other] < ids[k]:
                slots[n] = other
                n += 1
    heap.n_others = n_left
    return n


cdef double first_bound(const leaf_heap *heap, double alone, double rounding) noexcept nogil:
    """Return an upper bound of the scores of all leaves in the heap; -inf if it is empty."""
    if heap.size == 0:
        return -INFINITY
    cdef double u = heap.scale * heap.key[0]
    return alone + heap.offset + u + rounding + 2.0 ** -50 * (fabs(alone) + fabs(heap.offset) + fabs(u))


cdef Py_ssize_t pop_leaves(graph_state *g, leaf_heap *heap, double alone, double rounding, double best,
                           Py_ssize_t *slots) noexcept nogil:
    """List the first leaves of the heap that may reach a score; return their number."""
    cdef Py_ssize_t n = 0
    cdef int32_t leaf
    while n < AT_ONCE and heap.size and first_bound(heap, alone, rounding) >= best:
        leaf = pop_leaf(heap)
        if is_leaf(g, leaf) and g.place[leaf].mark != g.stamp:
            g.place[leaf].mark = g.stamp
            slots[n] = leaf
            n += 1
    return n


cdef Py_ssize_t best_of_heap(graph_state *g, Py_ssize_t k, const int64_t *ids, double alone, double rounding,
                             Py_ssize_t *slots, double *scores, double *rest) noexcept nogil:
    """List the partners of slot k: all of several data, and leaves while one may be the best."""
    cdef leaf_heap *heap = g.heap[k]
    cdef Py_ssize_t n = 0, n_more = list_others(g, k, ids, slots), n_others = n_more, i
    cdef double best = -INFINITY
    cdef int status
    if n_more == 0:
        n_more = pop_leaves(g, heap, alone, rounding, best, slots)
    while n_more:
        status = g.scores.score(g.scores.self, k, slots + n, n_more, scores + n)
        if status < 0:
            return status
        for i in range(n, n + n_more):
            best = max(best, scores[i])
        n += n_more
        n_more = pop_leaves(g, heap, alone, rounding, best, slots + n)
    rest[0] = first_bound(heap, alone, rounding)
    for i in range(n_others, n):
        if not (isfinite(scores[i]) and enter(g, heap, alone, <int32_t> slots[i], scores[i])):
            drop_heap(g, k)
            break
    return n


cdef Py_ssize_t graph_partners(void *self, Py_ssize_t k, const int64_t *ids, Py_ssize_t n_kept, Py_ssize_t *slots,
                               double *scores, double *rest) noexcept nogil:
    """List the partners of slot k, from its heap if it has one."""
    cdef graph_state *g = <graph_state *> self
    cdef double alone = 0.0, rounding = 0.0
    cdef Py_ssize_t n
    g.stamp += 1
    if g.heap[k] != NULL and g.parts.alone(g.parts.self, k, &alone, &rounding) == 0:
        n = best_of_heap(g, k, ids, alone, rounding, slots, scores, rest)
        if n < 0:
            drop_heap(g, k)
        return n
    drop_heap(g, k)
    return all_of_list(g, k, ids, slots, scores)


cdef void tell_of_leaf(graph_state *g, Py_ssize_t leaf, Py_ssize_t k, Py_ssize_t l) noexcept nogil:
    """Tell the heaps of clusters near a leaf that it is now part of a larger cluster."""
    cdef const int32_t *edges = g.target + g.begin[leaf]
    cdef Py_ssize_t e
    cdef int32_t other
    for e in range(g.size[leaf]):
        other = home_of(g.place, edges[e])
        if other != k and other != l and g.heap[other] != NULL and not add_other(g.heap[other], <int32_t> leaf):
            drop_heap(g, other)


cdef void grow_heap(graph_state *g) noexcept nogil:
    """Add the candidates of the smaller cluster to the heap of the larger one."""
    cdef leaf_heap *heap = g.heap[g.large]
    cdef const int32_t *edges = g.target + g.begin[g.small]
    cdef bint done = g.has_line
    cdef Py_ssize_t e
    cdef int32_t other
    for e in range(g.size[g.small]):
        other = home_of(g.place, edges[e])
        if done and other != g.large and other != g.small:
            done = push_leaf(heap, INFINITY, other) if is_leaf(g, other) else add_other(heap, other)
    if not done:
        drop_heap(g, g.large)
        return
    # u = log p - weight, and weights are no smaller than `low`
    heap.offset = (1.0 - g.line.slope) * heap.offset + g.line.level - g.line.slope * heap.low
    heap.scale = (1.0 - g.line.slope) * heap.scale


cdef class GraphPartners:
    """Partners of a `MergeQueue` from a graph over the leaves, by the scores of given pairs.

    The graph (L, L) CSR is symmetric; stored entries are edges, whatever their value. `capsule` is
    ``"expfam.merge_partners_v1"``. `is_wide` is False: `AllPartners` have to join the roots that are left.

    Two clusters are candidates where an edge joins leaves of theirs. The shorter of two lists is put behind the longer
    one, and lists are thinned when they are read. 12 bytes an edge.

    A cluster that takes in one datum after another would have all its candidates scored anew each time. Where the
    family bounds what a datum's density can gain by that (`parts` of the scores), they stand in a heap instead, by
    bounds that hold while the cluster grows; only those are scored whose bound reaches the best score. The merges are
    the same. Up to 36 bytes an edge more.
    """

    cdef readonly object capsule, scores
    cdef graph_state g
    cdef const int64_t[::1] _count
    cdef const double[::1] _weight
    cdef Py_ssize_t[::1] _heaps     # pointers
    cdef merge_partners_v1 functions
    cdef Py_ssize_t[::1] _begin, _size, _room
    cdef int32_t[::1] _target
    cdef int32_t[:, ::1] _place
    cdef Py_ssize_t _end            # of the used part of `_target`

    is_wide = False

    def __init__(self, scores, graph):
        self._lay_out(scores, graph.indptr, graph.indices, np.arange(graph.shape[0]))

    def _lay_out(self, scores, starts, targets, home):
        """Store the lists of all slots side by side, with space for two copies of them.

        Merged lists get twice the space that they need.
        """
        starts, L = np.asarray(starts, dtype=np.intp), len(home)
        self.scores, self._end = scores, starts[L]
        self._begin, self._size, self._room = starts[:L].copy(), np.diff(starts), np.diff(starts)
        self._target = np.zeros(3 * self._end + 1, dtype=np.int32)
        np.asarray(self._target)[: self._end] = targets
        self._place = np.zeros((L, 2), dtype=np.int32)
        np.asarray(self._place)[:, 0] = home
        self.g.scores = (<merge_scores_v1 *>PyCapsule_GetPointer(self.scores.capsule, SCORES))[0]
        self.g.begin, self.g.size, self.g.room = &self._begin[0], &self._size[0], &self._room[0]
        self.g.target, self.g.place = &self._target[0], <place_of *> &self._place[0, 0]
        self.g.stamp, self.g.youngest = 0, -1
        self._set_parts(L)
        self.functions.self = &self.g
        self.functions.partners = graph_partners
        self.capsule = PyCapsule_New(&self.functions, PARTNERS, NULL)

    def _set_parts(self, L):
        """Prepare what bounds need; no cluster has a heap yet."""
        parts, self.g.least_partners = getattr(self.scores, "parts", None), _LEAST_PARTNERS
        if parts is not None:
            self.g.parts = (<score_parts *>PyCapsule_GetPointer(parts, PARTS))[0]
        self._count, self._weight = self.scores.count, self.scores.weight
        self._heaps = np.zeros(L, dtype=np.intp)
        self.g.count, self.g.weight, self.g.heap = &self._count[0], &self._weight[0], <leaf_heap **> &self._heaps[0]

    def __dealloc__(self):
        cdef Py_ssize_t k
        if self._heaps is not None:
            for k in range(self._heaps.shape[0]):
                free_heap(self.g.heap[k])

    @property
    def pending(self):
        """Return the exception of a score that failed in a family in Python, or None."""
        return getattr(self.scores, "pending", None)

    def foresee(self, Py_ssize_t k, Py_ssize_t l):
        """Bound what the merge of slots k and l will change.

        Call this before `absorb`, while both slots still have their own statistics.
        """
        cdef graph_state *g = &self.g
        cdef leaf_heap *heap
        cdef double alone = 0.0, rounding = 0.0, depth
        g.large, g.small = (k, l) if g.count[k] >= g.count[l] else (l, k)
        g.large_is_one, g.small_is_one = g.count[g.large] == 1, g.count[g.small] == 1
        g.has_line, heap = 0, g.heap[g.large]
        if heap == NULL or heap.scale < LEAST_SCALE or not isfinite(heap.low):
            return
        depth = heap.low + heap.offset + (heap.scale * heap.key[0] if heap.size else 0.0)
        if g.parts.line(g.parts.self, g.large, g.small, depth, &g.line) == 0:
            if g.parts.alone(g.parts.self, g.large, &alone, &rounding) == 0:
                g.line.level += 2.0 * rounding
                g.has_line = 1

    def absorb(self, Py_ssize_t k, Py_ssize_t l):
        """Give the edges of slot l to slot k."""
        self._move_heap(k, l)
        cdef Py_ssize_t together = self.g.size[k] + self.g.size[l]
        cdef Py_ssize_t large = k if self.g.size[k] >= self.g.size[l] else l, small = k + l - large, begin
        if together > self.g.room[large]:
            if self._end + 2 * together > self._target.shape[0]:
                self._compact()
            begin = self._end
            self._end += 2 * together
            memcpy(self.g.target + begin, self.g.target + self.g.begin[large], self.g.size[large] * sizeof(int32_t))
            self.g.begin[large], self.g.room[large] = begin, 2 * together
        memcpy(self.g.target + self.g.begin[large] + self.g.size[large], self.g.target + self.g.begin[small],
               self.g.size[small] * sizeof(int32_t))
        self.g.begin[k], self.g.size[k], self.g.room[k] = self.g.begin[large], together, self.g.room[large]
        self.g.size[l] = self.g.room[l] = 0
        self.g.place[l].home = <int32_t> k
        self.g.youngest = k

    cdef void _move_heap(self, Py_ssize_t k, Py_ssize_t l) noexcept nogil:
        """Give the heap of the larger cluster to slot k; tell other heaps which leaves have merged."""
        cdef graph_state *g = &self.g
        if g.large_is_one:
            tell_of_leaf(g, g.large, k, l)
        if g.small_is_one:
            tell_of_leaf(g, g.small, k, l)
        drop_heap(g, g.small)
        if g.heap[g.large] != NULL:
            grow_heap(g)
        if g.large != k:
            g.heap[k] = g.heap[g.large]
            g.heap[g.large] = NULL

    def _compact(self):
        """Move lists together, in the order in which they stand."""
        cdef Py_ssize_t end = 0, slot
        for slot in np.argsort(self._begin, kind="stable"):
            if self.g.size[slot]:
                memmove(self.g.target + end, self.g.target + self.g.begin[slot], self.g.size[slot] * sizeof(int32_t))
            self.g.begin[slot], self.g.room[slot] = end, self.g.size[slot]
            end += self.g.size[slot]
        self._end = end

    def score(self, Py_ssize_t k, slots):
        """Return the scores of slot k with other slots: (m,) nats; -inf for no candidates."""
        return np.where(np.isin(slots, self._candidates(k)), self.scores.score(k, slots), -np.inf)

    def _candidates(self, Py_ssize_t k):
        cdef Py_ssize_t e, begin = self.g.begin[k]
        found = {home_of(self.g.place, self.g.target[e]) for e in range(begin, begin + self.g.size[k])}
        return sorted(found - {k})

    def check(self):
        """Check that each candidate of a cluster is in its heap or in its list of others.

        Raises
        ------
        ValueError
            Naming the first cluster, and the candidates that it would miss.
        """
        cdef leaf_heap *heap
        cdef Py_ssize_t k, i
        for k in range(self._heaps.shape[0]):
            heap = self.g.heap[k]
            if heap == NULL:
                continue
            known = {heap.leaf[i] for i in range(heap.size) if is_leaf(&self.g, heap.leaf[i])}
            known |= {home_of(self.g.place, heap.other[i]) for i in range(heap.n_others)}
            missed = [slot for slot in self._candidates(k) if slot not in known]
            if missed:
                raise ValueError(f"slot {k} has the candidates {missed}, which are not in its heap")

    def to_arrays(self):
        """Return the list of edges of each slot as a dict of arrays."""
        begin, size = np.asarray(self._begin), np.asarray(self._size)
        starts = np.concatenate([[0], np.cumsum(size)])
        places = np.repeat(begin - (starts[1:] - size), size) + np.arange(size.sum())
        return {"starts": starts, "targets": np.asarray(self._target)[places], "home": np.array(self._place)[:, 0]}

    @classmethod
    def from_arrays(cls, arrays, scores):
        """Make the partners from the arrays of `to_arrays`, with the same scores."""
        cdef GraphPartners self = cls.__new__(cls)
        self._lay_out(scores, arrays["starts"], arrays["targets"], arrays["home"])
        return self
