"""Partners of clusters by scores of given pairs: all others, or candidates from a graph over the leaves."""

import numpy as np

from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_New
from libc.math cimport INFINITY
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy, memmove

from expfam.samplers._merge cimport PARTNERS, SCORES
from expfam.structures.merge_queue cimport merge_partners_v1
from expfam.structures.merge_table cimport merge_scores_v1


cdef enum:
    MOST_BEST = 32      # partners of a list up to which copies that cannot enter it are left out


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
    """The first leaf of each group that has one older than `own`."""
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
    """The n_best-th highest score; -inf where there are fewer, or too many are asked for."""
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
    """Further leaves of the groups, each with the score of its first one: as many as a list could hold."""
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

    Parameters
    ----------
    scores : OddsScores or CountScores
    slots, ids : (n,) ndarray
        Live clusters by ascending id, but for those of groups.
    n_named : int
        Ids given so far; a merge gives the next one.
    group : (L,) ndarray of int, optional
        Group of the leaf in each slot, numbered by first appearance: leaves whose statistics and weights are equal to
        the bit. -1 for all others.

    Attributes
    ----------
    capsule : PyCapsule
        ``"expfam.merge_partners_v1"``.
    is_wide : bool
        True.
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
        """Lists of the leaves of each group, ascending."""
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
        """The same with scratch of its own."""
        return AllPartners(self.scores.fork(), **self._of_now())

    def _of_now(self):
        n = self.s.n
        return {"slots": np.array(self._slot)[:n], "ids": np.array(self._id)[:n], "n_named": self.s.n_named,
                "group": np.array(self._group)}

    @property
    def pending(self):
        """The exception behind a failed score of a family in Python."""
        return getattr(self.scores, "pending", None)

    cdef void _leave(self, Py_ssize_t k) noexcept nogil:
        """Slot k leaves its group."""
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
        """Slot k, which took up slot l, is the youngest cluster now."""
        self._leave(k)
        self._leave(l)
        self.s.pristine = 0
        self.s.slot[self.s.n], self.s.id[self.s.n] = k, self.s.n_named
        self.s.n += 1
        self.s.n_named += 1

    def score(self, Py_ssize_t k, slots):
        """Scores of slot k with others: (m,) nats."""
        return self.scores.score(k, slots)

    def to_arrays(self):
        """Live clusters and dead ones that were not yet forgotten; groups of leaves."""
        return {name: np.array(value) for name, value in self._of_now().items()}

    @classmethod
    def from_arrays(cls, arrays, scores):
        """Partners by the same scores, as `to_arrays` described them."""
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


cdef inline int32_t home_of(place_of *place, int32_t slot) noexcept nogil:
    while place[slot].home != slot:
        place[slot].home = place[place[slot].home].home
        slot = place[slot].home
    return slot


cdef Py_ssize_t graph_partners(void *self, Py_ssize_t k, const int64_t *ids, Py_ssize_t n_kept, Py_ssize_t *slots,
                               double *scores, double *rest) noexcept nogil:
    """Partners that the list of slot k leads to; edges to itself, and second ones, fall out of the list."""
    cdef graph_state *g = <graph_state *> self
    cdef int32_t *edges = g.target + g.begin[k]
    cdef Py_ssize_t e, n_left = 0, n = 0
    cdef int32_t other
    cdef int status
    g.stamp += 1
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
    return status if status < 0 else n


cdef class GraphPartners:
    """Partners of a `MergeQueue` from a graph over the leaves, by the scores of given pairs.

    Parameters
    ----------
    scores : OddsScores or CountScores
    graph : (L, L) CSR
        Symmetric; stored entries are edges, whatever their value.

    Attributes
    ----------
    capsule : PyCapsule
        ``"expfam.merge_partners_v1"``.
    is_wide : bool
        False: `AllPartners` have to join the roots that are left.

    Notes
    -----
    Two clusters are candidates where an edge joins leaves of theirs. The shorter of two lists is put behind the longer
    one, and lists are thinned when they are read. 12 bytes an edge.
    """

    cdef readonly object capsule, scores
    cdef graph_state g
    cdef merge_partners_v1 functions
    cdef Py_ssize_t[::1] _begin, _size, _room
    cdef int32_t[::1] _target
    cdef int32_t[:, ::1] _place
    cdef Py_ssize_t _end            # of the used part of `_target`

    is_wide = False

    def __init__(self, scores, graph):
        self._lay_out(scores, graph.indptr, graph.indices, np.arange(graph.shape[0]))

    def _lay_out(self, scores, starts, targets, home):
        """Lists of slots side by side, and room for two of their copies: merged lists get twice what they need."""
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
        self.functions.self = &self.g
        self.functions.partners = graph_partners
        self.capsule = PyCapsule_New(&self.functions, PARTNERS, NULL)

    @property
    def pending(self):
        """The exception behind a failed score of a family in Python."""
        return getattr(self.scores, "pending", None)

    def absorb(self, Py_ssize_t k, Py_ssize_t l):
        """Slot k takes over the edges of slot l."""
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
        """Scores of slot k with others, -inf where they are no candidates: (m,) nats."""
        return np.where(np.isin(slots, self._candidates(k)), self.scores.score(k, slots), -np.inf)

    def _candidates(self, Py_ssize_t k):
        cdef Py_ssize_t e, begin = self.g.begin[k]
        found = {home_of(self.g.place, self.g.target[e]) for e in range(begin, begin + self.g.size[k])}
        return sorted(found - {k})

    def to_arrays(self):
        """Lists of edges by slot."""
        begin, size = np.asarray(self._begin), np.asarray(self._size)
        starts = np.concatenate([[0], np.cumsum(size)])
        places = np.repeat(begin - (starts[1:] - size), size) + np.arange(size.sum())
        return {"starts": starts, "targets": np.asarray(self._target)[places], "home": np.array(self._place)[:, 0]}

    @classmethod
    def from_arrays(cls, arrays, scores):
        """Partners by the same scores, as `to_arrays` described them."""
        cdef GraphPartners self = cls.__new__(cls)
        self._lay_out(scores, arrays["starts"], arrays["targets"], arrays["home"])
        return self
