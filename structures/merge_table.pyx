"""Table of the best pair to merge: best matches with deferred bounds.

Greedy agglomeration repeatedly merges the live pair with the highest score. Of equal scores the smallest (older id,
younger id) wins; the items have the ids 0..N-1, and the t-th merge makes the cluster N + t. Each pair is owned by its
older cluster. The entry of a cluster lists a few of the best pairs that it owns, and has a floor. Invariant: every
owned pair is in the list, or its score is at most the floor. A merge only deletes pairs and adds pairs of the new
cluster, and the score of a pair never changes, so a floor stays valid, although it need not be tight. An entry whose
listed scores are all below its floor is deferred, and scanned again only when its floor could win. The algorithm uses
neither reducibility nor monotonicity of the scores.

The older cluster owns a pair because of items with equal values. If the younger one owned it, as in `merge_queue`,
every entry would list the same few oldest partners, which are merged first, and N equal items would cost N**3 scores.
`merge_queue` therefore needs partners that treat copies as groups.

Memory is O(N). If every pair must be scored, there are about N**2 scores in all, N**2 / 2 of them at the beginning;
bounds or candidates save some of them. Besides the scores, each merge costs O(live clusters).
"""

from cpython.exc cimport PyErr_CheckSignals
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_IsValid, PyCapsule_New
from libc.math cimport INFINITY, isnan, nextafter
from libc.string cimport memcpy

import numpy as np

cdef const char *CAPSULE = "expfam.merge_scores_v1"
cdef enum:
    FIRST_BLOCK = 8     # scores in the first request of a scan with bounds; doubled each time


cdef inline void sift_down(double *limit, Py_ssize_t *slot, Py_ssize_t i, Py_ssize_t m) noexcept nogil:
    """Restore the heap of the highest limit below position i."""
    cdef double x = limit[i]
    cdef Py_ssize_t s = slot[i], child
    while True:
        child = 2 * i + 1
        if child >= m:
            break
        if child + 1 < m and limit[child + 1] > limit[child]:
            child += 1
        if limit[child] <= x:
            break
        limit[i] = limit[child]
        slot[i] = slot[child]
        i = child
    limit[i] = x
    slot[i] = s


# ---- Python callables behind the C interface -------------------------------------------------------------------------

cdef object numbers(object function, str name, Py_ssize_t k, const Py_ssize_t *ls, Py_ssize_t m, double *out):
    slots = np.empty(m, dtype=np.intp)
    cdef Py_ssize_t[::1] view = slots
    memcpy(&view[0], ls, m * sizeof(Py_ssize_t))
    values = np.ascontiguousarray(function(k, slots), dtype=np.float64)
    if values.shape != (m,):
        raise ValueError(f"{name}({k}, slots) returned shape {values.shape} for {m} slots: it must be ({m},)")
    cdef const double[::1] source = values
    memcpy(out, &source[0], m * sizeof(double))


cdef int python_score(void *self, Py_ssize_t k, const Py_ssize_t *ls, Py_ssize_t m, double *out) noexcept nogil:
    with gil:
        table = <MergeTable>self
        try:
            numbers(table._score, "score", k, ls, m, out)
        except BaseException as error:
            table.pending = error
            return MERGE_PYTHON
    return MERGE_OK


cdef int python_bound(void *self, Py_ssize_t k, const Py_ssize_t *ls, Py_ssize_t m, double *out) noexcept nogil:
    with gil:
        table = <MergeTable>self
        try:
            numbers(table._bound, "bound", k, ls, m, out)
        except BaseException as error:
            table.pending = error
            return MERGE_PYTHON
    return MERGE_OK


cdef Py_ssize_t copy_slots(MergeTable table, Py_ssize_t k, Py_ssize_t *out) except -1:
    slots = np.unique(np.asarray(table._candidates(k)))
    if slots.size == 0:
        return 0
    if slots.dtype.kind not in "iu":
        raise TypeError(f"candidates({k}) returned {slots.dtype}: slots must be integers")
    if slots[0] < 0 or slots[slots.size - 1] >= table.n_items:
        raise IndexError(f"candidates({k}) returned slots {slots[0]} to {slots[slots.size - 1]}: "
                         f"there are 0 to {table.n_items - 1}")
    cdef const Py_ssize_t[::1] view = np.ascontiguousarray(slots, dtype=np.intp)
    memcpy(out, &view[0], view.shape[0] * sizeof(Py_ssize_t))
    return view.shape[0]


cdef Py_ssize_t python_candidates(void *self, Py_ssize_t k, Py_ssize_t *out) noexcept nogil:
    with gil:
        table = <MergeTable>self
        try:
            return copy_slots(table, k, out)
        except BaseException as error:
            table.pending = error
            return MERGE_PYTHON


cdef class MergeTable:
    """Table of the best pair of clusters to merge, updated by each merge.

    Parameters
    ----------
    n_items : int
        Number of first clusters; they are in the slots 0..n_items-1. A merged cluster is in the slot of the older one.
    score : callable or object with a ``capsule``
        ``score(k, slots)`` returns the (m,) float64 scores of the cluster in slot k with those in `slots` (intp, never
        k), for the clusters at that moment; -inf forbids a pair. A score must depend only on the two clusters, and
        score(k, [l]) must be bitwise equal to score(l, [k]). Compiled scores are passed in a capsule
        ``"expfam.merge_scores_v1"`` with a ``merge_scores_v1`` of merge_table.pxd, which then also contains the bound
        and the candidates.
    bound : callable, optional
        ``bound(k, slots)`` returns numbers that are never below the scores, also after rounding. Pairs whose bound
        cannot win are not scored.
    candidates : callable, optional
        ``candidates(k)`` returns the slots that may merge with k; other pairs count as -inf. It must be symmetric, and
        it must not change for two clusters that do not change.
    n_kept : int
        Number of pairs that an entry lists. A larger number saves scores: with 4 there are 2 to 5 per cent more scores
        than pairs, with 8 there is 1 per cent more. But it needs more bookkeeping. It pays if a score costs more than
        about 0.1 us.
    block_size : int
        Largest number of scores in one call.

    Attributes
    ----------
    n_live, n_merges : int
        Number of live clusters and of merges.
    n_scores, n_bounds : int
        Number of scores and bounds that were computed.
    n_rescans : int
        Number of deferred entries that were scanned again.

    Raises
    ------
    FloatingPointError
        A score is NaN or +inf, or a bound is NaN; the message names the pair. Methods raise it too, and then the table
        is as before the call.

    Notes
    -----
    The merges are bitwise those of the plain greedy search over all pairs, including ties, for every `n_kept`,
    `block_size` and valid `bound`. A floor that comes from a bound is raised to the next double, so that a pair that
    could tie is always scored. Bayesian hierarchical clustering (Heller & Ghahramani 2005) needs such a table, because
    its scores are not reducible and the nearest-neighbour chain finds another tree.

    Examples
    --------
    Points on a line, nearest means first:

    >>> import numpy as np
    >>> from expfam.structures.merge_table import MergeTable
    >>> x, n = np.array([0.0, 1.0, 5.0, 5.5]), np.ones(4)
    >>> table = MergeTable(4, lambda k, slots: -np.abs(x[k] - x[slots]))
    >>> table.best()
    (2, 3, -0.5)
    >>> def absorb(k, l):
    ...     x[k] = (n[k] * x[k] + n[l] * x[l]) / (n[k] + n[l])
    ...     n[k] += n[l]
    >>> children, scores = table.run(absorb)
    >>> children
    array([[2, 3],
           [0, 1],
           [4, 5]])
    >>> scores
    array([-0.5 , -1.  , -4.75])
    """

    def __init__(self, n_items, score, *, bound=None, candidates=None, n_kept=4, block_size=4096):
        for name, value in (("n_items", n_items), ("n_kept", n_kept), ("block_size", block_size)):
            if not hasattr(value, "__index__") or value < 1:
                raise ValueError(f"{name} must be a positive integer; got {value!r}")
        self._allocate(n_items, n_kept, block_size)
        self._bind(score, bound, candidates)
        cdef Py_ssize_t place
        cdef int status
        for place in range(self.n_live):
            with nogil:
                status = self.c_scan(place)
            if status < 0:
                self._raise(status)
            PyErr_CheckSignals()

    def _allocate(self, n_items, n_kept, block_size):
        self.n_items = self.n_live = n_items
        self.n_kept, self.block_size = n_kept, block_size
        self.n_merges = self.n_scores = self.n_bounds = self.n_rescans = 0
        self.bad_k = self.bad_l = -1
        self._live = np.arange(n_items, dtype=np.intp)
        self._id = np.arange(n_items, dtype=np.int64)
        self._kept_score = np.full((n_items, n_kept), -np.inf)
        self._kept_slot = np.full((n_items, n_kept), -1, dtype=np.intp)
        self._n_listed = np.zeros(n_items, dtype=np.intp)
        self._floor = np.full(n_items, -np.inf)
        self._out = np.empty(n_items)
        self._limit = np.empty(n_items)
        self._partner = np.empty(n_items, dtype=np.intp)
        self._chosen = np.empty(n_items, dtype=np.intp)

    cdef int _bind(self, object score, object bound, object candidates) except -1:
        self._score, self._bound, self._candidates = score, bound, candidates
        capsule = getattr(score, "capsule", score)
        if PyCapsule_IsValid(capsule, CAPSULE):
            if bound is not None or candidates is not None:
                raise TypeError("a compiled score brings its own bound and candidates in its capsule: leave both out")
            self._source = (<merge_scores_v1 *>PyCapsule_GetPointer(capsule, CAPSULE))[0]
            if self._source.score == NULL:
                raise TypeError("the capsule's merge_scores_v1 has no score function")
            return 0
        for name, value in (("score", score), ("bound", bound), ("candidates", candidates)):
            if not callable(value) and not (value is None and name != "score"):
                raise TypeError(f"{name} must be callable; got {type(value).__name__}")
        self._source.self = <void *>self
        self._source.score = python_score
        self._source.bound = NULL
        self._source.candidates = NULL
        self._source.absorb = NULL
        if bound is not None:
            self._source.bound = python_bound
        if candidates is not None:
            self._source.candidates = python_candidates
        return 0

    cdef int _raise(self, int status) except -1:
        if status == MERGE_NUMERICAL:
            raise FloatingPointError(
                f"the score or bound of clusters {self._id[self.bad_k]} and {self._id[self.bad_l]} (slots {self.bad_k} "
                f"and {self.bad_l}) is NaN or +inf: scores must be finite, or -inf for a pair that must not merge"
            )
        error, self.pending = self.pending, None
        if error is None:
            error = getattr(self._score, "pending", None)
        if error is None:
            error = RuntimeError(f"a function of the compiled score returned status {status}")
        raise error

    # ---- C interface -------------------------------------------------------------------------------------------------

    cdef int _ask(self, pair_scores function, Py_ssize_t k, const Py_ssize_t *ls, Py_ssize_t m,
                  double *out) noexcept nogil:
        """Compute scores or bounds of k with ls, block by block, and check for NaN."""
        cdef Py_ssize_t start = 0, size, i
        cdef bint is_bound = function != self._source.score
        cdef int status
        while start < m:
            size = min(self.block_size, m - start)
            status = function(self._source.self, k, ls + start, size, out + start)
            if status != MERGE_OK:
                return status if status < 0 else -status
            if is_bound:
                self.n_bounds = self.n_bounds + size  # no `+=`: with checks for None, Cython needs the gil for it
            else:
                self.n_scores = self.n_scores + size
            for i in range(start, start + size):
                if isnan(out[i]) or (out[i] == INFINITY and not is_bound):
                    self.bad_k = k
                    self.bad_l = ls[i]
                    return MERGE_NUMERICAL
            start += size
        return MERGE_OK

    cdef Py_ssize_t _younger(self, Py_ssize_t place) noexcept nogil:
        """Write the partners of the pairs that an entry owns to `_partner`.

        The entry is given by its position in `_live`.
        """
        cdef Py_ssize_t k = self._live[place], i, n = self.n_live - place - 1, m = 0
        if self._source.candidates == NULL:
            memcpy(&self._partner[0], &self._live[0] + place + 1, n * sizeof(Py_ssize_t))
            return n
        n = self._source.candidates(self._source.self, k, &self._partner[0])
        for i in range(n):
            if self._id[self._partner[i]] > self._id[k]:
                self._partner[m] = self._partner[i]
                m += 1
        return n if n < 0 else m

    cdef Py_ssize_t _others(self, Py_ssize_t k, Py_ssize_t l) noexcept nogil:
        """Write the partners of the cluster that k and l will form to `_partner`."""
        cdef Py_ssize_t i, s, n = self.n_live, m = 0
        if self._source.candidates == NULL:
            memcpy(&self._partner[0], &self._live[0], n * sizeof(Py_ssize_t))
        else:
            n = self._source.candidates(self._source.self, k, &self._partner[0])
        for i in range(n):
            s = self._partner[i]
            if s != k and s != l and self._id[s] >= 0:
                self._partner[m] = s
                m += 1
        return n if n < 0 else m

    cdef void _offer(self, Py_ssize_t a, Py_ssize_t b, double score) noexcept nogil:
        """Insert the pair (a, b) into the list of a, or raise the floor to its score.

        The floor is raised also for a pair that drops out of the list.
        """
        cdef Py_ssize_t i = self._n_listed[a], j
        cdef double *scores = &self._kept_score[a, 0]
        cdef Py_ssize_t *slots = &self._kept_slot[a, 0]
        if score == -INFINITY:
            return
        while i > 0 and (scores[i - 1] < score
                         or (scores[i - 1] == score and self._id[slots[i - 1]] > self._id[b])):
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
        scores[i] = score
        slots[i] = b

    cdef void _forget(self, Py_ssize_t a, Py_ssize_t b) noexcept nogil:
        """Remove the pair (a, b) from the list of a; the floor does not change."""
        cdef Py_ssize_t i, j
        for i in range(self._n_listed[a]):
            if self._kept_slot[a, i] == b:
                self._n_listed[a] -= 1
                for j in range(i, self._n_listed[a]):
                    self._kept_score[a, j] = self._kept_score[a, j + 1]
                    self._kept_slot[a, j] = self._kept_slot[a, j + 1]
                return

    cdef int c_scan(self, Py_ssize_t place) noexcept nogil:
        """Scan the entry at a position of `_live`; after an error the entry is deferred."""
        cdef Py_ssize_t a = self._live[place], m
        cdef int status
        self._n_listed[a] = 0
        self._floor[a] = INFINITY
        m = self._younger(place)
        if m < 0:
            return <int>m
        self._floor[a] = -INFINITY
        status = self._fill(a, m) if self._source.bound == NULL else self._fill_bounded(a, m)
        if status != MERGE_OK:
            self._n_listed[a] = 0
            self._floor[a] = INFINITY
        return status

    cdef int _fill(self, Py_ssize_t a, Py_ssize_t m) noexcept nogil:
        cdef Py_ssize_t i
        cdef int status = self._ask(self._source.score, a, &self._partner[0], m, &self._out[0])
        if status != MERGE_OK:
            return status
        for i in range(m):
            self._offer(a, self._partner[i], self._out[i])
        return MERGE_OK

    cdef int _fill_bounded(self, Py_ssize_t a, Py_ssize_t m) noexcept nogil:
        """Score partners by descending bound until the best score exceeds all other bounds."""
        cdef double *limit = &self._limit[0]
        cdef Py_ssize_t *slot = &self._partner[0]
        cdef Py_ssize_t block = FIRST_BLOCK, size, i
        cdef int status = self._ask(self._source.bound, a, slot, m, limit)
        if status != MERGE_OK:
            return status
        for i in range(m // 2 - 1, -1, -1):
            sift_down(limit, slot, i, m)
        while True:
            size = 0
            while size < block and m > 0 and limit[0] > -INFINITY and (
                    self._n_listed[a] == 0 or limit[0] >= self._kept_score[a, 0]):
                self._chosen[size] = slot[0]
                size += 1
                m -= 1
                limit[0] = limit[m]
                slot[0] = slot[m]
                sift_down(limit, slot, 0, m)
            if size == 0:
                break
            status = self._ask(self._source.score, a, &self._chosen[0], size, &self._out[0])
            if status != MERGE_OK:
                return status
            for i in range(size):
                self._offer(a, self._chosen[i], self._out[i])
            block *= 2
        if m > 0 and limit[0] > -INFINITY:
            # the next double, because a pair that was not scored may tie and have an older partner
            self._floor[a] = max(self._floor[a], nextafter(limit[0], INFINITY))
        return MERGE_OK

    cdef int c_best(self, Py_ssize_t *a, Py_ssize_t *b, double *score) noexcept nogil:
        """Find the slots of the best pair, the older cluster first, and its score.

        Returns MERGE_NONE if no pair is left.
        """
        cdef Py_ssize_t place, k, best, deferred
        cdef double top, highest
        cdef int status
        while True:
            best = deferred = -1
            top = highest = -INFINITY
            for place in range(self.n_live):
                k = self._live[place]
                if self._n_listed[k] and self._kept_score[k, 0] >= self._floor[k]:
                    if self._kept_score[k, 0] > top:  # on a tie the first position wins, which has the smallest id
                        best = k
                        top = self._kept_score[k, 0]
                elif self._floor[k] > highest:
                    deferred = place
                    highest = self._floor[k]
            if deferred >= 0 and highest >= top:
                self.n_rescans = self.n_rescans + 1
                status = self.c_scan(deferred)
                if status != MERGE_OK:
                    return status
                continue
            if best < 0:
                return MERGE_NONE
            a[0] = best
            b[0] = self._kept_slot[best, 0]
            score[0] = top
            return MERGE_OK

    cdef void _rename(self, Py_ssize_t k, Py_ssize_t l) noexcept nogil:
        """Replace both clusters by the merged one, which is the youngest and is in slot k."""
        cdef Py_ssize_t i, m = 0, s
        for i in range(self.n_live):
            s = self._live[i]
            if s != k and s != l:
                self._live[m] = s
                m += 1
                self._forget(s, k)
                self._forget(s, l)
        self._live[m] = k
        self.n_live = m + 1
        self._id[k] = self.n_items + self.n_merges
        self._id[l] = -1
        self.n_merges = self.n_merges + 1
        self._n_listed[k] = self._n_listed[l] = 0
        self._floor[k] = self._floor[l] = -INFINITY

    cdef int c_merge(self, Py_ssize_t k, Py_ssize_t l) noexcept nogil:
        """Record that slot k, which has the older cluster, has absorbed slot l.

        After an error the table is unchanged.
        """
        cdef Py_ssize_t i, s, n, m = self._others(k, l)
        cdef int status
        if m < 0:
            return <int>m
        if self._source.bound != NULL:
            status = self._ask(self._source.bound, k, &self._partner[0], m, &self._limit[0])
            if status != MERGE_OK:
                return status
            n = m
            m = 0
            for i in range(n):
                s = self._partner[i]
                if self._limit[i] > self._floor[s]:  # else the floor is valid for the new pair too
                    self._partner[m] = s
                    m += 1
        status = self._ask(self._source.score, k, &self._partner[0], m, &self._out[0])
        if status != MERGE_OK:
            return status
        self._rename(k, l)
        for i in range(m):
            if self._out[i] > self._floor[self._partner[i]]:
                self._offer(self._partner[i], k, self._out[i])
        return MERGE_OK

    # ---- Python interface --------------------------------------------------------------------------------------------

    def best(self):
        """Return the pair to merge next.

        Returns
        -------
        (k, l, score) : (int, int, float) or None
            Slots, the older cluster first, and score. None if no pair is left, or only forbidden ones.
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
        """Tell the table that slot k has absorbed slot l.

        This scores the new cluster against the live ones.

        Parameters
        ----------
        k, l : int
            Slots of two live clusters, of which k is the older; they need not be the best pair. Before the call, the
            data that are scored must contain the merged cluster in slot k.

        Returns
        -------
        int
            Id of the merged cluster.
        """
        cdef int status
        cdef Py_ssize_t slot
        for slot in (k, l):
            if not 0 <= slot < self.n_items or self._id[slot] < 0:
                raise IndexError(f"slot {slot} holds no live cluster")
        if self._id[k] >= self._id[l]:
            raise ValueError(f"the older cluster comes first; slot {k} holds cluster {self._id[k]}, "
                             f"slot {l} cluster {self._id[l]}")
        with nogil:
            status = self.c_merge(k, l)
        if status < 0:
            self._raise(status)
        return self._id[k]

    def run(self, absorb=None, *, n_clusters=1):
        """Merge best pairs until `n_clusters` are left or no pair may merge.

        Parameters
        ----------
        absorb : callable, optional
            ``absorb(k, l)`` adds the cluster in slot l to slot k. Compiled scores may contain their own function.
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
        if absorb is None and self._source.absorb == NULL:
            raise TypeError("absorb(k, l) is needed: the score does not bring one")
        cdef Py_ssize_t k, l
        children, scores = [], []
        while self.n_live > n_clusters:
            pair = self.best()
            if pair is None:
                break
            k, l, score = pair
            children.append((self._id[k], self._id[l]))
            scores.append(score)
            if absorb is not None:
                absorb(k, l)
            else:
                status = self._source.absorb(self._source.self, k, l)
                if status:
                    self._raise(-abs(status))
            self.merge(k, l)
            PyErr_CheckSignals()
        return np.array(children, dtype=np.int64).reshape(-1, 2), np.array(scores, dtype=np.float64)

    @property
    def slots(self):
        """Return the slots of the live clusters by ascending id: (n_live,) intp."""
        return np.array(self._live[:self.n_live])

    @property
    def ids(self):
        """Return the ids of the live clusters, ascending: (n_live,) int64."""
        return np.asarray(self._id)[self.slots]

    def check(self):
        """Check the table against the scores of all live pairs. O(live**2) scores.

        Each pair is scored from both sides.

        Raises
        ------
        ValueError
            The score of a pair is not symmetric, has changed, or is above its bound or floor. The message names the
            first such pair.
        """
        cdef Py_ssize_t place, m, i, j, a, b
        cdef double there, bound
        cdef int status
        counters = self.n_scores, self.n_bounds
        for place in range(self.n_live):
            a = self._live[place]
            m = self._younger(place)
            status = <int>m if m < 0 else self._ask(self._source.score, a, &self._partner[0], m, &self._out[0])
            if status < 0:
                self._raise(status)
            for i in range(m):
                b = self._partner[i]
                pair = f"the score of slots {a} and {b} is {self._out[i]}"
                status = self._ask(self._source.score, b, &a, 1, &there)
                if status < 0:
                    self._raise(status)
                if there != self._out[i]:
                    raise ValueError(f"{pair}, but {there} from the other side: it must be symmetric to the bit")
                if self._source.bound != NULL:
                    status = self._ask(self._source.bound, a, &b, 1, &bound)
                    if status < 0:
                        self._raise(status)
                    if bound < there:
                        raise ValueError(f"{pair}, above its bound {bound}")
                for j in range(self._n_listed[a]):
                    if self._kept_slot[a, j] == b:
                        if self._kept_score[a, j] != there:
                            raise ValueError(f"{pair}, but was {self._kept_score[a, j]} before: it must not change")
                        break
                else:
                    if there > self._floor[a]:
                        raise ValueError(f"{pair}, above {self._floor[a]}, the bound of what slot {a} does not list")
        self.n_scores, self.n_bounds = counters

    def to_arrays(self):
        """Return the state as a dict of arrays, without the data that are scored."""
        return {
            "counters": np.array([self.n_items, self.n_kept, self.block_size, self.n_live, self.n_merges,
                                  self.n_scores, self.n_bounds, self.n_rescans], dtype=np.int64),
            "live": self.slots,
            "id": np.array(self._id),
            "kept_score": np.array(self._kept_score),
            "kept_slot": np.array(self._kept_slot),
            "n_listed": np.array(self._n_listed),
            "floor": np.array(self._floor),
        }

    @classmethod
    def from_arrays(cls, arrays, score, *, bound=None, candidates=None):
        """Make the table from the arrays of `to_arrays`; nothing is scored again.

        The clusters must be the same as when `to_arrays` was called.

        Parameters
        ----------
        arrays : dict of str to ndarray
        score, bound, candidates
            As in the constructor.
        """
        cdef MergeTable self = cls.__new__(cls)
        n_items, n_kept, block_size, *counters = (int(value) for value in arrays["counters"])
        self._allocate(n_items, n_kept, block_size)
        for name, shape in (("id", (n_items,)), ("kept_score", (n_items, n_kept)), ("kept_slot", (n_items, n_kept)),
                            ("n_listed", (n_items,)), ("floor", (n_items,)), ("live", (counters[0],))):
            if arrays[name].shape != shape:
                raise ValueError(
                    f"array {name!r} has shape {arrays[name].shape}; a table of {n_items} items that keeps {n_kept} "
                    f"needs {shape}"
                )
        for name, low, high in (("live", 0, n_items), ("n_listed", 0, n_kept + 1), ("kept_slot", -1, n_items)):
            if arrays[name].size and not (low <= arrays[name].min() and arrays[name].max() < high):
                raise ValueError(f"array {name!r} must hold numbers from {low} to {high - 1}: it was damaged")
        self.n_live, self.n_merges, self.n_scores, self.n_bounds, self.n_rescans = counters
        np.asarray(self._live)[:self.n_live] = arrays["live"]
        np.asarray(self._id)[:] = arrays["id"]
        np.asarray(self._kept_score)[:] = arrays["kept_score"]
        np.asarray(self._kept_slot)[:] = arrays["kept_slot"]
        np.asarray(self._n_listed)[:] = arrays["n_listed"]
        np.asarray(self._floor)[:] = arrays["floor"]
        self._bind(score, bound, candidates)
        return self

    def __reduce__(self):
        if PyCapsule_IsValid(self._score, CAPSULE):
            raise TypeError("a bare capsule cannot be pickled: give the object that owns it as score, or use to_arrays")
        return _restore, (type(self), self.to_arrays(), self._score, self._bound, self._candidates)

    def __repr__(self):
        return f"MergeTable(n_items={self.n_items}, n_live={self.n_live}, n_kept={self.n_kept})"


def _restore(cls, arrays, score, bound, candidates):
    return cls.from_arrays(arrays, score, bound=bound, candidates=candidates)


# ---- a compiled score ------------------------------------------------------------------------------------------------

cdef int ward_score(void *self, Py_ssize_t k, const Py_ssize_t *ls, Py_ssize_t m, double *out) noexcept nogil:
    cdef ward_state *state = <ward_state *>self
    cdef Py_ssize_t i, f, d = state.n_features
    cdef const double *x = state.center + k * d
    cdef const double *y
    cdef double square, n = state.size[k], other
    for i in range(m):
        y = state.center + ls[i] * d
        square = 0
        for f in range(d):
            square += (x[f] - y[f]) * (x[f] - y[f])
        other = state.size[ls[i]]
        out[i] = -(n * other / (n + other)) * square
    return MERGE_OK


cdef int ward_absorb(void *self, Py_ssize_t k, Py_ssize_t l) noexcept nogil:
    cdef ward_state *state = <ward_state *>self
    cdef Py_ssize_t f, d = state.n_features
    cdef double *x = state.center + k * d
    cdef const double *y = state.center + l * d
    cdef double n = state.size[k], other = state.size[l]
    for f in range(d):
        x[f] = (n * x[f] + other * y[f]) / (n + other)
    state.size[k] = n + other
    state.size[l] = 0
    return MERGE_OK


cdef class WardScores:
    """Scores of Ward's method for a `MergeTable`.

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
        ``"expfam.merge_scores_v1"``, with score and absorb.

    Notes
    -----
    score(k, l) = -n_k n_l / (n_k + n_l) |m_k - m_l|^2 (Ward 1963). SciPy's height is sqrt(-2 score). The memory is the
    size of X, whereas `scipy.cluster.hierarchy.linkage` stores n_items**2 / 2 distances.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam.structures.merge_table import MergeTable, WardScores
    >>> children, scores = MergeTable(3, WardScores(np.array([[0.0], [1.0], [9.0]]))).run()
    >>> np.sqrt(-2 * scores)
    array([1.        , 9.81495458])
    """

    def __init__(self, X, *, size=None):
        center = np.array(X, dtype=np.float64, order="C")
        if center.ndim != 2 or 0 in center.shape or not np.isfinite(center).all():
            raise ValueError(f"X must be a non-empty (n_items, n_features) array of finite numbers; got {center.shape}")
        sizes = np.ones(len(center)) if size is None else np.array(size, dtype=np.float64)
        if sizes.shape != (len(center),) or not (np.isfinite(sizes) & (sizes > 0)).all():
            raise ValueError(f"size must hold {len(center)} positive finite numbers")
        self._center, self._size = center, sizes
        self._state.center = &self._center[0, 0]
        self._state.size = &self._size[0]
        self._state.n_features = center.shape[1]
        self._functions.self = &self._state
        self._functions.score = ward_score
        self._functions.bound = NULL
        self._functions.candidates = NULL
        self._functions.absorb = ward_absorb
        self.capsule = PyCapsule_New(&self._functions, CAPSULE, NULL)

    def to_arrays(self):
        """Return centres and weights by slot; the weight of an absorbed cluster is 0."""
        return {"center": np.array(self._center), "size": np.array(self._size)}

    @classmethod
    def from_arrays(cls, arrays):
        """Make the scores from the arrays of `to_arrays`."""
        cdef WardScores self
        sizes = arrays["size"]
        self = cls(arrays["center"], size=np.where(sizes > 0, sizes, 1.0))
        np.asarray(self._size)[:] = sizes
        return self

    def __reduce__(self):
        return type(self).from_arrays, (self.to_arrays(),)
