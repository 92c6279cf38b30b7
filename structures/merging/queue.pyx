"""Queue of the best pair to merge, for any way of finding partners.

Greedy agglomeration repeatedly merges the live pair with the highest score. Of equal scores the smallest (older id,
younger id) wins; the items have the ids 0..N-1, and the t-th merge makes the cluster N + t. The algorithm uses neither
reducibility nor monotonicity of the scores.

Each pair is owned by its younger cluster. A new cluster finds its partners once, and all of them are older; no other
entry changes. So a merge costs one search and O(log N). An index or a graph can find partners without reading all
pairs. If all pairs are scored, there are about (N - 1)**2 scores. Memory is O(N).

Each live cluster has an entry, which lists the best partners that were found and has a floor. Invariant: every owned
pair of two live clusters is either in the list, or its score is at most the floor and it comes after all listed pairs
in the order (score descending, older id ascending). A merge only deletes pairs. An entry whose listed scores are all
below its floor is deferred: its partners are found again only when its floor could win. A tournament tree holds the
best entry.

A list keeps the last of its pairs after the other cluster has merged: what is left comes after that pair in the order.
Without this rule N equal items would cost N**3 scores. All their entries list the same few oldest partners, which are
merged first, and all floors tie, so that each merge would need the partners of all entries. With it, an entry of equal
scores waits for the oldest live cluster that may still be its partner. Entries that wait for the same one form a list
by ascending id. Only the front is in the tournament: as long as its score does not fall, it comes before the others.
"""

from cpython.exc cimport PyErr_CheckSignals
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_IsValid
from libc.math cimport INFINITY, isnan, nextafter

import threading

import numpy as np

from expfam.amounts import counted
from expfam.structures.ground.threads import resolve_n_threads, run

cdef const char *CAPSULE = "expfam.merge_partners_v1"
cdef enum:
    BLOCK = 128         # entries in a task of the first scans
    AT_ONCE = 8         # scores that are compared together
    MOST_SINGLE = 8     # one of so many entries may be scanned alone after a shift; with more, all are


cdef merge_partners_v1 partners_of(capsule) except *:
    """Return the struct in a capsule after checking that its function is not NULL.

    A call of a NULL function would end the process.
    """
    cdef merge_partners_v1 source = (<merge_partners_v1 *>PyCapsule_GetPointer(capsule, CAPSULE))[0]
    if source.partners == NULL:
        raise TypeError("the capsule's merge_partners_v1 has no function partners: fill it in")
    return source


cdef Py_ssize_t copy_partners(MergeQueue queue, Py_ssize_t k, Py_ssize_t *slots, double *scores,
                              double *rest) except -1:
    cdef Py_ssize_t i
    found, values, bound = queue._partners(k, queue._id_array)
    cdef const Py_ssize_t[::1] slot = np.ascontiguousarray(found, dtype=np.intp)
    cdef const double[::1] score = np.ascontiguousarray(values, dtype=np.float64)
    if slot.shape[0] != score.shape[0] or slot.shape[0] > queue.n_items:
        raise ValueError(
            f"partners({k}) returned {counted(slot.shape[0], 'slot')} and {counted(score.shape[0], 'score')}"
        )
    for i in range(slot.shape[0]):
        if not 0 <= slot[i] < queue.n_items:
            raise IndexError(f"partners({k}) returned slots {min(slot)} to {max(slot)}: "
                             f"there are 0 to {queue.n_items - 1}")
        if not 0 <= queue._id[slot[i]] < queue._id[k]:
            raise ValueError(f"partners({k}) returned slot {slot[i]}, which holds no older cluster: "
                             "leave out slots that have no id from 0 to below ids[k]")
        slots[i] = slot[i]
        scores[i] = score[i]
    rest[0] = bound
    return slot.shape[0]


cdef Py_ssize_t python_partners(void *self, Py_ssize_t k, const int64_t *ids, Py_ssize_t n_kept, Py_ssize_t *slots,
                                double *scores, double *rest) noexcept nogil:
    with gil:
        queue = <MergeQueue>self
        try:
            return copy_partners(queue, k, slots, scores, rest)
        except BaseException as error:
            queue.pending = error
            return MERGE_PYTHON


cdef inline bint all_below(const double *scores, double least, double *most) noexcept nogil:
    """Tell whether the next `AT_ONCE` scores are all below `least`; if so, raise `most` to them."""
    cdef double top = -INFINITY
    cdef int j, n_below = 0
    for j in range(AT_ONCE):
        n_below += scores[j] < least    # false for a NaN
        top = scores[j] if scores[j] > top else top
    if n_below < AT_ONCE:
        return False
    most[0] = max(most[0], top)
    return True


cdef class MergeQueue:
    """Queue of the best pair to merge, for scores with a search for the best partners.

    Parameters
    ----------
    n_items : int
        Number of first clusters; they are in the slots 0..n_items-1. A merged cluster is in the slot of the older one.
    partners : callable or object with a ``capsule``
        ``partners(k, ids)`` returns ``(slots, scores, rest)``: the older clusters that may merge with the one in slot
        k, ``0 <= ids[slot] < ids[k]``; their scores; and an upper bound of the scores of all partners that were left
        out. It may leave out partners that come after the best `n_kept` in the order (score descending, id ascending).
        Scores must depend only on the two clusters. A compiled function is passed in a capsule
        ``"expfam.merge_partners_v1"`` of merge_queue.pxd. If the object has a method ``fork()`` that returns a copy
        with its own scratch arrays, the first scans can use threads.
    n_kept : int
        Number of pairs that an entry lists.
    n_threads : int or None
        Threads for the first scans. The merges are the same for any number.

    Attributes
    ----------
    n_live, n_merges : int
        Number of live clusters and of merges.
    n_scores : int
        Number of scores that `partners` has returned.
    n_scans : int
        Number of calls of `partners`: about one for each cluster, and one for each deferred entry that was scanned.

    Raises
    ------
    FloatingPointError
        A score is NaN or +inf.
    ValueError
        `rest` is NaN, or above every score that `partners` returned.

    Notes
    -----
    The merges are those of the plain greedy search over all pairs that `partners` returns. Of equal scores it merges
    the pair with the smallest older id, then the one with the smallest younger id. Bayesian hierarchical clustering
    (Heller & Ghahramani 2005) needs such a queue, because its scores are not reducible and the nearest-neighbour chain
    finds another tree.

    Examples
    --------
    Points on a line, nearest means first; all older clusters are partners:

    >>> import numpy as np
    >>> from expfam.structures.merging.queue import MergeQueue
    >>> x = np.array([0.0, 1.0, 5.0, 5.5])
    >>> def partners(k, ids):
    ...     slots = np.flatnonzero((ids >= 0) & (ids < ids[k]))
    ...     return slots, -np.abs(x[k] - x[slots]), -np.inf
    >>> def absorb(k, l):
    ...     x[k] = (x[k] + x[l]) / 2
    >>> queue = MergeQueue(4, partners)
    >>> queue.best()
    (2, 3, -0.5)
    >>> children, scores = queue.run(absorb)
    >>> children
    array([[2, 3],
           [0, 1],
           [4, 5]])
    >>> scores
    array([-0.5 , -1.  , -4.75])
    """

    def __init__(self, n_items, partners, *, n_kept=4, n_threads=None):
        for name, value in (("n_items", n_items), ("n_kept", n_kept)):
            if not hasattr(value, "__index__") or value < 1:
                raise ValueError(f"{name} must be a positive integer; got {value!r}")
        self._allocate(n_items, n_kept)
        self._bind(partners)
        self._scan_all(resolve_n_threads(n_threads))

    def _allocate(self, n_items, n_kept):
        self.n_items = self.n_live = n_items
        self.n_kept = n_kept
        self.n_merges = self.n_scores = self.n_scans = 0
        self.bad_k = self.bad_l = -1
        self._id_array = np.arange(n_items, dtype=np.int64)
        self._id = self._id_array
        self._kept_score = np.full((n_items, n_kept), -np.inf)
        self._kept_slot = np.full((n_items, n_kept), -1, dtype=np.intp)
        self._kept_id = np.full((n_items, n_kept), -1, dtype=np.int64)
        self._n_listed = np.zeros(n_items, dtype=np.intp)
        self._floor = np.full(n_items, np.inf)
        self._key = np.full(n_items, np.inf)
        self._tie = np.full(n_items, -1, dtype=np.int64)
        self._n_leaves = 1 << max(0, (int(n_items) - 1).bit_length())
        self._winner = np.full(2 * self._n_leaves, -1, dtype=np.intp)
        self._next = np.arange(2 * n_items, dtype=np.int64)
        self._ahead, self._behind = np.arange(n_items, dtype=np.intp), np.arange(n_items, dtype=np.intp)
        self._slots, self._scores = np.empty(n_items, dtype=np.intp), np.empty(n_items)

    cdef int _bind(self, object partners) except -1:
        self._partners = partners
        capsule = getattr(partners, "capsule", partners)
        if PyCapsule_IsValid(capsule, CAPSULE):
            self._source = partners_of(capsule)
            return 0
        if not callable(partners):
            raise TypeError(f"partners must be callable or bring a capsule; got {type(partners).__name__}")
        self._source.self = <void *>self
        self._source.partners = python_partners
        return 0

    cdef int _raise(self, int status) except -1:
        if status == MERGE_NUMERICAL:
            raise FloatingPointError(
                f"the score of clusters {self._id[self.bad_k]} and {self._id[self.bad_l]} (slots {self.bad_k} and "
                f"{self.bad_l}) is NaN or +inf: scores must be finite, or -inf for a pair that must not merge"
            )
        if status == MERGE_BOUND:
            raise ValueError(
                f"partners({self.bad_k}) returned {self.bad_rest} as the bound of what it leaves out, and no score "
                f"that is as high: return at least the best {counted(self.n_kept, 'partner')} of cluster "
                f"{self._id[self.bad_k]}, and a bound that only scores of other partners reach"
            )
        error, self.pending = self.pending, None
        if error is None:
            error = getattr(self._partners, "pending", None)
        if error is None:
            error = RuntimeError(f"the compiled partners returned status {status}")
        raise error

    def _scan_all(self, n_threads):
        """Scan every entry once, in blocks; each task uses its own copy of the source."""
        spare, lock = [self._partners], threading.Lock()
        if not hasattr(self._partners, "fork"):
            n_threads = 1
        spare += [self._partners.fork() for _ in range(n_threads - 1)]

        def scan(start, stop):
            with lock:
                source = spare.pop()
            try:
                self._scan_block(source, start, stop)
            finally:
                with lock:
                    spare.append(source)

        blocks = [(i, min(i + BLOCK, self.n_items)) for i in range(0, self.n_items, BLOCK)]
        run(scan, blocks, n_threads, uses_blas=False)
        self._play_all()

    def _scan_block(self, partners, Py_ssize_t start, Py_ssize_t stop):
        cdef merge_partners_v1 source = self._source
        if partners is not self._partners:
            source = partners_of(partners.capsule)
        cdef Py_ssize_t[::1] slots = np.empty(self.n_items, dtype=np.intp)
        cdef double[::1] scores = np.empty(self.n_items)
        cdef Py_ssize_t a
        cdef int64_t n_scores = 0
        cdef int status = MERGE_OK
        with nogil:
            for a in range(start, stop):
                status = self._scan(a, &source, &slots[0], &scores[0], &n_scores)
                if status != MERGE_OK:
                    break
        self.n_scores += n_scores
        self.n_scans += stop - start
        if status < 0:
            self._raise(status)
        PyErr_CheckSignals()

    # ---- the tournament ----------------------------------------------------------------------------------------------

    cdef bint _before(self, Py_ssize_t a, Py_ssize_t b) noexcept nogil:
        """Say whether entry a comes before entry b; -1 is no entry."""
        if a < 0 or b < 0:
            return b < 0
        if self._key[a] != self._key[b]:
            return self._key[a] > self._key[b]
        if self._tie[a] != self._tie[b]:
            return self._tie[a] < self._tie[b]
        return self._id[a] < self._id[b]

    cdef bint _is_first_live(self, Py_ssize_t a) noexcept nogil:
        return self._n_listed[a] > 0 and self._id[self._kept_slot[a, 0]] == self._kept_id[a, 0]

    cdef int64_t _next_live(self, int64_t i) noexcept nogil:
        """Find the first id from i on that is live or not yet given."""
        while self._next[i] != i:
            self._next[i] = self._next[self._next[i]]
            i = self._next[i]
        return i

    cdef void _forget_dead(self, Py_ssize_t a) noexcept nogil:
        """Remove the first pairs of a list while they are dead, but never the last pair."""
        cdef Py_ssize_t i, n_dead = 0
        while n_dead < self._n_listed[a] - 1 and self._id[self._kept_slot[a, n_dead]] != self._kept_id[a, n_dead]:
            n_dead += 1
        if n_dead == 0:
            return
        self._n_listed[a] -= n_dead
        for i in range(self._n_listed[a]):
            self._kept_score[a, i] = self._kept_score[a, i + n_dead]
            self._kept_slot[a, i] = self._kept_slot[a, i + n_dead]
            self._kept_id[a, i] = self._kept_id[a, i + n_dead]

    cdef void _update_key(self, Py_ssize_t a) noexcept nogil:
        """Compute the bound of an entry from its list and floor."""
        self._forget_dead(a)
        if self._is_first_live(a):
            self._key[a] = self._kept_score[a, 0]
            self._tie[a] = self._kept_id[a, 0]
            return
        self._key[a] = self._floor[a]
        self._tie[a] = -1
        if self._n_listed[a] and self._kept_score[a, 0] == self._floor[a]:
            self._tie[a] = self._next_live(self._kept_id[a, 0] + 1)     # older ones come before the last pair
            if self._tie[a] >= self._id[a]:
                self._key[a] = nextafter(self._floor[a], -INFINITY)
                self._tie[a] = -1

    cdef void _play(self, Py_ssize_t a) noexcept nogil:
        """Play the matches of an entry that changed again."""
        self._winner[self._n_leaves + a] = a if self._key[a] > -INFINITY else -1
        self._play_above(self._n_leaves + a)

    cdef void _play_above(self, Py_ssize_t node) noexcept nogil:
        cdef Py_ssize_t left, right
        while node > 1:
            node >>= 1
            left = self._winner[2 * node]
            right = self._winner[2 * node + 1]
            self._winner[node] = left if self._before(left, right) else right

    def _play_all(self):
        """Play all matches again. O(n_items)."""
        cdef Py_ssize_t a, node, left, right
        for a in range(self.n_items):
            self._winner[self._n_leaves + a] = a if self._key[a] > -INFINITY else -1
        for node in range(self._n_leaves - 1, 0, -1):
            left, right = self._winner[2 * node], self._winner[2 * node + 1]
            self._winner[node] = left if self._before(left, right) else right

    cdef void _defer(self, Py_ssize_t a) noexcept nogil:
        self._n_listed[a] = 0
        self._floor[a] = INFINITY
        self._update_key(a)

    # ---- waiting lists ----------------------------------------------------------------------------------------------

    cdef bint _may_wait(self, Py_ssize_t front, Py_ssize_t a) noexcept nogil:
        """Say whether deferred entry a comes after all that wait behind `front`."""
        return (front >= 0 and self._key[a] == self._key[front] and self._tie[a] == self._tie[front]
                and self._id[a] > self._id[self._ahead[front]])

    cdef void _wait(self, Py_ssize_t front, Py_ssize_t a) noexcept nogil:
        """Take entry a out of the tournament; it waits behind `front`, and its own list behind it."""
        cdef Py_ssize_t last = self._ahead[front], end = self._ahead[a]
        self._behind[last] = a
        self._ahead[a] = last
        self._behind[end] = front
        self._ahead[front] = end
        self._winner[self._n_leaves + a] = -1
        self._play_above(self._n_leaves + a)

    cdef void _release(self, Py_ssize_t a) noexcept nogil:
        """Take entry a out of its list; if it was the front, the next one gets into the tournament."""
        cdef Py_ssize_t b = self._behind[a]
        if b == a:
            return
        self._behind[self._ahead[a]] = b
        self._ahead[b] = self._ahead[a]
        self._ahead[a] = self._behind[a] = a
        if self._winner[self._n_leaves + a] == a:
            self._play(b)

    # ---- entries -----------------------------------------------------------------------------------------------------

    cdef void _offer(self, Py_ssize_t a, Py_ssize_t b, double score) noexcept nogil:
        """Insert the pair (a, b) into the list of a, or raise the floor to its score.

        The floor is raised also for a pair that drops out of the list.
        """
        cdef Py_ssize_t i = self._n_listed[a], j
        cdef double *scores = &self._kept_score[a, 0]
        cdef Py_ssize_t *slots = &self._kept_slot[a, 0]
        cdef int64_t *ids = &self._kept_id[a, 0]
        while i > 0 and (scores[i - 1] < score or (scores[i - 1] == score and ids[i - 1] > self._id[b])):
            i -= 1
        if i == self.n_kept:
            self._floor[a] = max(self._floor[a], score)
            return
        if self._n_listed[a] == self.n_kept:
            self._floor[a] = max(self._floor[a], scores[self.n_kept - 1])
        else:
            self._n_listed[a] += 1
        for j in range(self._n_listed[a] - 1, i, -1):
            scores[j] = scores[j - 1]
            slots[j] = slots[j - 1]
            ids[j] = ids[j - 1]
        scores[i] = score
        slots[i] = b
        ids[i] = self._id[b]

    cdef int _scan(self, Py_ssize_t a, merge_partners_v1 *source, Py_ssize_t *slots, double *scores,
                   int64_t *n_scores) noexcept nogil:
        """Scan an entry, so that its list is exact; after an error the entry is deferred.

        The caller plays its matches.
        """
        cdef double rest = -INFINITY, worst = -INFINITY, left_out
        cdef Py_ssize_t i = 0, m, stop
        cdef int status
        self._defer(a)
        m = source.partners(source.self, a, &self._id[0], self.n_kept, slots, scores, &rest)
        if m < 0:
            return <int>m
        n_scores[0] = n_scores[0] + m
        if isnan(rest):
            return self._refuse_bound(a, rest)
        self._floor[a] = left_out = rest
        while i < m:
            stop = min(i + AT_ONCE, m)
            if stop < i + AT_ONCE or not all_below(scores + i, worst, &rest):
                status = self._take(a, slots, scores, i, stop, left_out, &worst, &rest)
                if status != MERGE_OK:
                    return status
            i = stop
        self._floor[a] = max(self._floor[a], rest)
        self._update_key(a)
        return MERGE_OK

    cdef int _take(self, Py_ssize_t a, const Py_ssize_t *slots, const double *scores, Py_ssize_t start,
                   Py_ssize_t stop, double left_out, double *worst, double *rest) noexcept nogil:
        """Offer partners start..stop-1 to the list of a, whose last score is `worst` if it is full.

        Scores that do not reach the list raise `rest`. After an error the entry is deferred.
        """
        cdef Py_ssize_t i
        for i in range(start, stop):
            if scores[i] < left_out:        # a pair that was left out may come before this one
                continue
            if scores[i] < worst[0]:
                rest[0] = max(rest[0], scores[i])
                continue
            if isnan(scores[i]) or scores[i] == INFINITY:
                self._defer(a)
                self.bad_k = a
                self.bad_l = slots[i]
                return MERGE_NUMERICAL
            if scores[i] > -INFINITY:
                self._offer(a, slots[i], scores[i])
                if self._n_listed[a] == self.n_kept:
                    worst[0] = self._kept_score[a, self.n_kept - 1]
        return MERGE_OK

    cdef int _refuse_bound(self, Py_ssize_t a, double rest) noexcept nogil:
        """Defer an entry whose partners cannot be found, so that a later call finds the same fault."""
        self._defer(a)
        self.bad_k, self.bad_rest = a, rest
        return MERGE_BOUND

    cdef int c_best(self, Py_ssize_t *a, Py_ssize_t *b, double *score) noexcept nogil:
        """Find the slots of the best pair, the older cluster first, and its score.

        Returns MERGE_NONE if no pair is left.
        """
        cdef Py_ssize_t k, front = -1
        cdef int64_t found, tie
        cdef double key
        cdef int status
        while True:
            k = self._winner[1]
            if k < 0:
                return MERGE_NONE
            key = self._key[k]
            tie = self._tie[k]
            self._update_key(k)
            if self._key[k] == key and self._tie[k] == tie:
                if self._is_first_live(k):
                    a[0] = self._kept_slot[k, 0]
                    b[0] = k
                    score[0] = key
                    return MERGE_OK
                self._release(k)
                front = -1
                found = 0
                status = self._scan(k, &self._source, &self._slots[0], &self._scores[0], &found)
                self.n_scores = self.n_scores + found
                self.n_scans = self.n_scans + 1
                if status != MERGE_OK:
                    return status
                if self._key[k] >= key and self._n_listed[k] == 0:      # it would be scanned again without end
                    return self._refuse_bound(k, self._floor[k])
            elif self._key[k] != key:       # what waits behind it may come first now
                self._release(k)
            elif not self._is_first_live(k):
                if self._may_wait(front, k):
                    self._wait(front, k)
                    continue
                front = k
            self._play(k)

    cdef void c_merge(self, Py_ssize_t k, Py_ssize_t l) noexcept nogil:
        """Record that slot k, which has the older cluster, has absorbed slot l.

        Partners of the new cluster are found later, when they are needed.
        """
        self._release(k)
        self._release(l)
        self._next[self._id[k]] = self._id[k] + 1
        self._next[self._id[l]] = self._id[l] + 1
        self._id[k] = self.n_items + self.n_merges
        self._id[l] = -1
        self.n_merges = self.n_merges + 1
        self.n_live = self.n_live - 1
        self._n_listed[l] = 0
        self._floor[l] = -INFINITY
        self._update_key(l)
        self._play(l)
        self._defer(k)
        self._play(k)

    # ---- Python interface --------------------------------------------------------------------------------------------

    def best(self):
        """Return the pair to merge next.

        Returns
        -------
        (k, l, score) : (int, int, float) or None
            Slots, the older cluster first, and score. None if no pair is left.
        """
        cdef Py_ssize_t a = -1, b = -1
        cdef double score = 0
        cdef int status
        with nogil:
            status = self.c_best(&a, &b, &score)
        if status < 0:
            self._raise(status)
        return None if status == MERGE_NONE else (a, b, score)

    def merge(self, Py_ssize_t k, Py_ssize_t l):
        """Tell the queue that slot k has absorbed slot l.

        Parameters
        ----------
        k, l : int
            Slots of two live clusters, of which k is the older; they need not be the best pair. Before the call, the
            data that `partners` reads must contain the merged cluster in slot k.

        Returns
        -------
        int
            Id of the merged cluster.
        """
        for slot in (k, l):
            if not 0 <= slot < self.n_items or self._id[slot] < 0:
                raise IndexError(f"slot {slot} holds no live cluster")
        if self._id[k] >= self._id[l]:
            raise ValueError(f"the older cluster comes first; slot {k} holds cluster {self._id[k]}, "
                             f"slot {l} cluster {self._id[l]}")
        self.c_merge(k, l)
        return self._id[k]

    def run(self, absorb, *, n_clusters=1):
        """Merge best pairs until `n_clusters` are left or no pair may merge.

        Parameters
        ----------
        absorb : callable
            ``absorb(k, l)`` adds the cluster in slot l to slot k, in the data that `partners` reads.
        n_clusters : int
            Number of clusters at which to stop.

        Returns
        -------
        children : (n_merged, 2) int64 ndarray
            Ids of the merged clusters, the older one first.
        scores : (n_merged,) float64 ndarray
            Score of each merge. Scores may rise from one merge to the next.
        """
        if not hasattr(n_clusters, "__index__") or n_clusters < 1:
            raise ValueError(f"n_clusters must be a positive integer; got {n_clusters!r}")
        cdef Py_ssize_t k, l
        children, scores = [], []
        while self.n_live > n_clusters and (pair := self.best()) is not None:
            k, l, score = pair
            children.append((self._id[k], self._id[l]))
            scores.append(score)
            absorb(k, l)
            self.c_merge(k, l)
            PyErr_CheckSignals()
        return np.array(children, dtype=np.int64).reshape(-1, 2), np.array(scores, dtype=np.float64)

    def widen(self, partners):
        """Continue with another function `partners` that returns more pairs. O(n_items).

        Partners of all clusters are found again when they are needed.

        Parameters
        ----------
        partners : callable or object with a ``capsule``
        """
        cdef Py_ssize_t a
        self._bind(partners)
        self._ahead, self._behind = np.arange(self.n_items, dtype=np.intp), np.arange(self.n_items, dtype=np.intp)
        for a in range(self.n_items):
            if self._id[a] >= 0:
                self._defer(a)
        self._play_all()

    @property
    def slots(self):
        """Return the slots of the live clusters by ascending id: (n_live,) intp."""
        ids = np.asarray(self._id)
        live = np.flatnonzero(ids >= 0)
        return live[np.argsort(ids[live])]

    @property
    def ids(self):
        """Return the ids of the live clusters, ascending: (n_live,) int64."""
        return np.asarray(self._id)[self.slots]

    def check(self, score):
        """Check the queue against the scores of all live pairs. O(live**2) scores.

        Parameters
        ----------
        score : callable
            ``score(k, slots)`` returns the scores of slot k with older ones; -inf for pairs that `partners` never
            returns.

        Raises
        ------
        ValueError
            The score of a pair has changed, or is above the floor, or the pair comes before a listed one. The message
            names the first such pair.
        """
        live = self.slots
        for place, a in enumerate(live.tolist()):
            older = live[:place]
            scores = np.asarray(score(a, older)) if place else np.empty(0)
            for b, value in zip(older.tolist(), scores.tolist()):
                self._check_pair(a, b, value)

    def _check_pair(self, Py_ssize_t a, Py_ssize_t b, double score):
        cdef Py_ssize_t j, n = self._n_listed[a]
        pair = f"the score of slots {a} and {b} is {score}"
        for j in range(n):
            if self._kept_slot[a, j] == b and self._kept_id[a, j] == self._id[b]:
                if self._kept_score[a, j] != score:
                    raise ValueError(f"{pair}, but was {self._kept_score[a, j]} before: it must not change")
                return
        if score > self._floor[a]:
            raise ValueError(f"{pair}, above {self._floor[a]}, the bound of what slot {a} does not list")
        if n and (score, -self._id[b]) > (self._kept_score[a, n - 1], -self._kept_id[a, n - 1]):
            raise ValueError(f"{pair}, before the last one of the list of slot {a}")

    def to_arrays(self):
        """Return the state as a dict of arrays, without the data that are scored."""
        return {
            "counters": np.array([self.n_items, self.n_kept, self.n_live, self.n_merges, self.n_scores, self.n_scans],
                                 dtype=np.int64),
            "id": np.array(self._id),
            "kept_score": np.array(self._kept_score),
            "kept_slot": np.array(self._kept_slot),
            "kept_id": np.array(self._kept_id),
            "n_listed": np.array(self._n_listed),
            "floor": np.array(self._floor),
        }

    @classmethod
    def from_arrays(cls, arrays, partners):
        """Make the queue from the arrays of `to_arrays`; nothing is scored again.

        The clusters must be the same as when `to_arrays` was called.

        Parameters
        ----------
        arrays : dict of ndarrays
            Result of `to_arrays`.
        partners : object
            As in the constructor.
        """
        cdef MergeQueue self = cls.__new__(cls)
        n_items, n_kept, *counters = (int(value) for value in arrays["counters"])
        self._allocate(n_items, n_kept)
        views = {"id": self._id, "kept_score": self._kept_score, "kept_slot": self._kept_slot,
                 "kept_id": self._kept_id, "n_listed": self._n_listed, "floor": self._floor}
        for name, view in views.items():
            target = np.asarray(view)
            if arrays[name].shape != target.shape:
                raise ValueError(
                    f"array {name!r} has shape {arrays[name].shape}; a queue of {counted(n_items, 'item')} that keeps "
                    f"{n_kept} needs {target.shape}"
                )
            target[...] = arrays[name]
        for name, low, high in (("n_listed", 0, n_kept + 1), ("kept_slot", -1, n_items), ("id", -1, 2 * n_items - 1),
                                ("kept_id", -1, 2 * n_items - 1)):
            if arrays[name].size and not (low <= arrays[name].min() and arrays[name].max() < high):
                raise ValueError(f"array {name!r} must hold numbers from {low} to {high - 1}: it was damaged")
        self.n_live, self.n_merges, self.n_scores, self.n_scans = counters
        if not 0 < self.n_live == np.count_nonzero(arrays["id"] >= 0) == n_items - self.n_merges:
            raise ValueError(f"array 'counters' names {counted(self.n_live, 'live cluster')} after "
                             f"{counted(self.n_merges, 'merge')} of {counted(n_items, 'item')}, and 'id' has other "
                             "ones: it was damaged")
        self._find_next()
        self._bind(partners)
        for a in range(n_items):
            self._update_key(a)
        self._play_all()
        return self

    @classmethod
    def shifted(cls, arrays, partners, double shift, *, n_threads=None):
        """Make the queue of partners whose scores are those of another queue, each less `shift`.

        The result is that of a new queue with these partners, bit for bit, counters too; hardly any pair is scored.
        Only bounds of what partners leave out may differ in their last bits.

        Parameters
        ----------
        arrays : dict of ndarrays
            Result of `to_arrays` of the other queue, before its first merge.
        partners : object
            As in the constructor. Each score is that of the other queue less `shift`, rounded once.
        shift : float
        n_threads : int or None
            As in the constructor.

        Raises
        ------
        ValueError
            The other queue has merges, and its lists are no longer those of all clusters.

        Notes
        -----
        Rounding may make different scores equal, and of equal ones the smaller id comes first. Entries where that may
        change the list are scanned again.
        """
        cdef MergeQueue self = cls.from_arrays(arrays, partners)
        if self.n_merges:
            raise ValueError(f"scores are shifted before the first merge; there were {self.n_merges}")
        cdef Py_ssize_t a
        counters = self.n_scores, self.n_scans
        unsure = self._shift(shift)
        if unsure.size * MOST_SINGLE > self.n_items:
            self._scan_all(resolve_n_threads(n_threads))
        else:
            for a in unsure:
                self._scan_block(partners, a, a + 1)
        self.n_scores, self.n_scans = counters
        for a in range(self.n_items):
            self._update_key(a)
        self._play_all()
        return self

    def _shift(self, shift):
        """Subtract a number from all scores; return the entries whose order may be another then."""
        score, floor, n_listed = np.asarray(self._kept_score), np.asarray(self._floor), np.asarray(self._n_listed)
        score -= shift
        floor -= shift
        is_listed = np.arange(self.n_kept) < n_listed[:, None]
        has_ties = (is_listed[:, 1:] & (score[:, 1:] == score[:, :-1])).any(axis=1)
        last = score[np.arange(self.n_items), np.maximum(n_listed - 1, 0)]
        return np.flatnonzero(has_ties | ((n_listed > 0) & (last == floor)))

    def _find_next(self):
        """Compute the first live id from each one on; ids that are not yet given count as live."""
        n_named = self.n_items + self.n_merges
        following = np.arange(2 * self.n_items, dtype=np.int64)
        following[:n_named] = n_named
        following[self.ids] = self.ids
        np.asarray(self._next)[:] = np.minimum.accumulate(following[::-1])[::-1]

    def __repr__(self):
        return f"MergeQueue(n_items={self.n_items}, n_live={self.n_live}, n_kept={self.n_kept})"
