"""Partners of clusters by scores of given pairs: all others, or candidates from a graph over the leaves."""

import numpy as np

from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_New
from libc.stdint cimport int32_t, int64_t

from expfam.samplers._merge cimport PARTNERS, SCORES
from expfam.structures.merge_queue cimport merge_partners_v1
from expfam.structures.merge_table cimport merge_scores_v1


# ---- all pairs -------------------------------------------------------------------------------------------------------

ctypedef struct all_state:
    merge_scores_v1 scores
    Py_ssize_t *slot                # (n,) by ascending id, dead ones among them
    int64_t *id                     # (n,) whom the slot held
    Py_ssize_t n
    int64_t n_named                 # ids given so far


cdef Py_ssize_t all_partners(void *self, Py_ssize_t k, const int64_t *ids, Py_ssize_t n_kept, Py_ssize_t *slots,
                             double *scores, double *rest) noexcept nogil:
    cdef all_state *s = <all_state *> self
    cdef int64_t own = ids[k]
    cdef bint youngest = s.n > 0 and s.id[s.n - 1] <= own
    cdef Py_ssize_t i = 0, n = 0
    cdef int status
    while i < s.n and s.id[i] < own:
        if ids[s.slot[i]] == s.id[i]:
            slots[n] = s.slot[i]
            if youngest:            # all are gone through, so the dead ones can fall out
                s.slot[n] = s.slot[i]
                s.id[n] = s.id[i]
            n += 1
        i += 1
    if youngest:
        s.slot[n] = k
        s.id[n] = own
        s.n = n + 1
    if n == 0:
        return 0
    status = s.scores.score(s.scores.self, k, slots, n, scores)
    return status if status < 0 else n


cdef class AllPartners:
    """Partners of a `MergeQueue` where all pairs are scored.

    Parameters
    ----------
    scores : OddsScores or CountScores
    slots, ids : (n,) ndarray
        Live clusters by ascending id.
    n_named : int
        Ids given so far; a merge gives the next one.

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
    cdef Py_ssize_t[::1] _slot
    cdef int64_t[::1] _id

    is_wide = True

    def __init__(self, scores, slots, ids, *, n_named):
        n = len(slots)
        self.scores = scores
        self._slot, self._id = np.empty(2 * n, dtype=np.intp), np.empty(2 * n, dtype=np.int64)
        np.asarray(self._slot)[:n], np.asarray(self._id)[:n] = slots, ids
        self.s.n, self.s.n_named = n, n_named
        self.s.scores = (<merge_scores_v1 *>PyCapsule_GetPointer(scores.capsule, SCORES))[0]
        self.s.slot, self.s.id = &self._slot[0], &self._id[0]
        self.functions.self = &self.s
        self.functions.partners = all_partners
        self.capsule = PyCapsule_New(&self.functions, PARTNERS, NULL)

    def fork(self):
        """The same with scratch of its own."""
        n = self.s.n
        return AllPartners(self.scores.fork(), np.array(self._slot)[:n], np.array(self._id)[:n], n_named=self.s.n_named)

    @property
    def pending(self):
        """The exception behind a failed score of a family in Python."""
        return getattr(self.scores, "pending", None)

    def absorb(self, Py_ssize_t k, Py_ssize_t l):
        """Slot k, which took up slot l, is the youngest cluster now."""
        self.s.slot[self.s.n], self.s.id[self.s.n] = k, self.s.n_named
        self.s.n += 1
        self.s.n_named += 1

    def score(self, Py_ssize_t k, slots):
        """Scores of slot k with others: (m,) nats."""
        return self.scores.score(k, slots)

    def to_arrays(self):
        """Live clusters and dead ones that were not yet forgotten."""
        n = self.s.n
        return {"slots": np.array(self._slot)[:n], "ids": np.array(self._id)[:n], "n_named": np.array(self.s.n_named)}

    @classmethod
    def from_arrays(cls, arrays, scores):
        """Partners by the same scores, as `to_arrays` described them."""
        return cls(scores, arrays["slots"], arrays["ids"], n_named=int(arrays["n_named"]))


# ---- candidates of a graph -------------------------------------------------------------------------------------------

ctypedef struct graph_state:
    merge_scores_v1 scores
    Py_ssize_t *head                # (L,) first edge of each slot's list, -1 where it is empty
    Py_ssize_t *tail
    Py_ssize_t *next                # (E,)
    int32_t *target                 # (E,) a slot when the edge was last looked at
    int32_t *home                   # (L,) where a slot's cluster went, itself while it lives
    int64_t *mark                   # (L,)
    int64_t stamp


cdef inline int32_t home_of(int32_t *home, int32_t slot) noexcept nogil:
    while home[slot] != slot:
        home[slot] = home[home[slot]]
        slot = home[slot]
    return slot


cdef Py_ssize_t graph_partners(void *self, Py_ssize_t k, const int64_t *ids, Py_ssize_t n_kept, Py_ssize_t *slots,
                               double *scores, double *rest) noexcept nogil:
    """Partners that the list of slot k leads to; edges to itself, and second ones, fall out of the list."""
    cdef graph_state *g = <graph_state *> self
    cdef Py_ssize_t e = g.head[k], following, last = -1, n = 0
    cdef int32_t other
    cdef int status
    g.stamp += 1
    g.head[k] = -1
    while e >= 0:
        following = g.next[e]
        other = home_of(g.home, g.target[e])
        if other != k and g.mark[other] != g.stamp:
            g.mark[other] = g.stamp
            g.target[e] = other
            g.next[e] = -1
            if last < 0:
                g.head[k] = e
            else:
                g.next[last] = e
            last = e
            if ids[other] < ids[k]:
                slots[n] = other
                n += 1
        e = following
    g.tail[k] = last
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
    Two clusters are candidates where an edge joins leaves of theirs. Lists are joined in O(1) and thinned when they are
    read, so all merges together handle each edge about as often as its ends are merged. 20 bytes an edge.
    """

    cdef readonly object capsule, scores
    cdef graph_state g
    cdef merge_partners_v1 functions
    cdef Py_ssize_t[::1] _head, _tail, _next
    cdef int32_t[::1] _target, _home
    cdef int64_t[::1] _mark

    is_wide = False

    def __init__(self, scores, graph):
        cdef Py_ssize_t L = graph.shape[0]
        starts = np.asarray(graph.indptr, dtype=np.intp)
        n_edges = int(starts[L])
        following = np.arange(1, n_edges + 1, dtype=np.intp)
        following[starts[1:][np.diff(starts) > 0] - 1] = -1
        empty = np.diff(starts) == 0
        self.scores = scores
        self._head = np.where(empty, -1, starts[:L])
        self._tail = np.where(empty, -1, starts[1:] - 1)
        self._next = np.append(following, -1)
        self._target = np.append(graph.indices, -1).astype(np.int32)
        self._home, self._mark = np.arange(L, dtype=np.int32), np.zeros(L, dtype=np.int64)
        self._aim()

    def _aim(self):
        self.g.scores = (<merge_scores_v1 *>PyCapsule_GetPointer(self.scores.capsule, SCORES))[0]
        self.g.head, self.g.tail, self.g.next = &self._head[0], &self._tail[0], &self._next[0]
        self.g.target, self.g.home, self.g.mark = &self._target[0], &self._home[0], &self._mark[0]
        self.functions.self = &self.g
        self.functions.partners = graph_partners
        self.capsule = PyCapsule_New(&self.functions, PARTNERS, NULL)

    @property
    def pending(self):
        """The exception behind a failed score of a family in Python."""
        return getattr(self.scores, "pending", None)

    def absorb(self, Py_ssize_t k, Py_ssize_t l):
        """Slot k takes over the edges of slot l."""
        if self._tail[k] < 0:
            self._head[k] = self._head[l]
        else:
            self._next[self._tail[k]] = self._head[l]
        if self._tail[l] >= 0:
            self._tail[k] = self._tail[l]
        self._head[l] = self._tail[l] = -1
        self._home[l] = <int32_t> k

    def score(self, Py_ssize_t k, slots):
        """Scores of slot k with others, -inf where they are no candidates: (m,) nats."""
        return np.where(np.isin(slots, self._candidates(k)), self.scores.score(k, slots), -np.inf)

    def _candidates(self, Py_ssize_t k):
        found, e = set(), self._head[k]
        while e >= 0:
            found.add(home_of(&self._home[0], self._target[e]))
            e = self._next[e]
        return sorted(found - {k})

    def to_arrays(self):
        """Lists of edges by slot."""
        return {"head": np.array(self._head), "tail": np.array(self._tail), "next": np.array(self._next),
                "target": np.array(self._target), "home": np.array(self._home)}

    @classmethod
    def from_arrays(cls, arrays, scores):
        """Partners by the same scores, as `to_arrays` described them."""
        cdef GraphPartners self = cls.__new__(cls)
        self.scores = scores
        self._head, self._tail, self._next = (np.array(arrays[name]) for name in ("head", "tail", "next"))
        self._target, self._home = np.array(arrays["target"]), np.array(arrays["home"])
        self._mark = np.zeros(len(self._home), dtype=np.int64)
        self._aim()
        return self
