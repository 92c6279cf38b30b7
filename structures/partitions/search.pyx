"""Search for the partition with the least expected loss over draws.

The losses of a partition c are functions of C = sum f(n_A) over its clusters and of P = mean over draws of sum f(T),
with T the number of rows of a cluster in a block (a cluster of a draw):

- linear: C - (1 + s) P + s Q with the same mean Q over blocks. f(n) = n log n gives N times the variation of
  information, nats; f(n) = n**2 gives N**2 times Binder's loss. s is the cost of splitting what draws join.
- omARI: one minus the adjusted Rand index of expected counts, with f(n) = n (n - 1) / 2.

Items in place of rows lose nothing for the linear losses: put w1 rows of an item of w rows into A and the others into
B; the second derivative of the loss in w1 is negative everywhere, so the best w1 is 0 or w. A cluster that shares no
block with an item is never better for it than a new cluster: f(n + w) - f(n) >= f(w), and omARI falls with C where P
stays. So only the clusters that an item's M lists name are scored.

A start is a draw, or greedy from nothing: items in a random order. Then, until nothing helps: moves of single items,
merges of clusters that share a block, splits of clusters along the clusters of a draw, and clusters that are
dissolved and allocated anew. Each change lowers the loss; so a start from a draw ends no higher than that draw.
After Dahl, Johnson & Mueller 2022, "Search algorithms and loss functions for Bayesian clustering" (SALSO), and Rastelli
& Friel 2018, with items, lists of blocks, and merges of theirs not.
"""

import hashlib

import numpy as np

from cython cimport final
from libc.math cimport INFINITY
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport free, malloc, qsort

from expfam.structures.partitions.draw_table import narrow_labels
from expfam.structures.ground.threads import run

from expfam.structures.partitions.draw_table cimport BlockCounts, DrawItems, block_add, block_of, block_take, blocks_of
from expfam.structures.partitions.draw_table cimport prefetch_blocks, table_block
from expfam.structures.ground.rng cimport ORDER, philox_aim, philox_double, philox_init, philox_stream

LOSSES = ("vi", "binder", "omari")
cdef enum:
    PIECES = 8              # draws along which a cluster is tried to be split, in a round
    ATTEMPTS = 10           # clusters that are dissolved, in a start
cdef double DRIFT = 16.0    # smaller: more sweeps over all items are needed; larger: more items are visited in vain
_N_DRAW_STARTS = 2
_JUDGES = 20                # draws with which draws are compared where all pairs would take too long
_FINALISTS = 8
_ALL_PAIRS = 200_000_000    # labels that may be read to compare all pairs of draws


def count_values(loss, Py_ssize_t n_rows):
    """Return f(0), ..., f(N) of a loss: (N + 1,) float64.

    Examples
    --------
    >>> from expfam.structures.partitions.search import count_values
    >>> count_values("binder", 3)
    array([0., 1., 4., 9.])
    """
    n = np.arange(n_rows + 1, dtype=np.float64)
    if loss == "vi":
        return n * np.log(np.maximum(n, 1.0))
    return n * n if loss == "binder" else n * (n - 1.0) / 2.0


def loss_value(loss, C, P, Q, Py_ssize_t n_rows, *, split_cost=1.0):
    """Return the expected loss from the sums C, P and Q; arrays give arrays.

    Parameters
    ----------
    loss : {"vi", "binder", "omari"}
    C, P, Q : float or ndarray
        Sum of f over the clusters of the partition, and means over draws of the sums of f over shared blocks and over
        the blocks of a draw.
    n_rows : int
    split_cost : float
        Cost s of splitting what draws join.
    """
    if loss != "omari":
        total = C - (1.0 + split_cost) * P + split_cost * Q
        return np.maximum(total, 0.0) / (n_rows if loss == "vi" else float(n_rows) ** 2)
    by_chance = C * Q / max(n_rows * (n_rows - 1) / 2.0, 1.0)
    most = (C + Q) / 2.0 - by_chance
    is_trivial = most <= 0
    return np.where(is_trivial, 0.0, 1.0 - (P - by_chance) / np.where(is_trivial, 1.0, most))[()]


cdef struct choice:
    double value, second_value
    double C, P             # sums of the loss with the best
    int32_t cluster, second


cdef struct partner:
    double value            # change of the loss
    double C, P             # changes of its sums
    int32_t cluster, other


cdef int by_value(const void *a, const void *b) noexcept nogil:
    """Order partners by the change of the loss, then by cluster."""
    cdef const partner *first = <const partner *> a
    cdef const partner *second = <const partner *> b
    if first.value != second.value:
        return -1 if first.value < second.value else 1
    return -1 if first.cluster < second.cluster else 1


@final
cdef class _Start(BlockCounts):
    """One start of the search: a partition of the items, its counts in the blocks, and its loss.

    An item is not visited while it would hardly move: `margin` is by how much its own cluster was better for each of
    its rows than `second`, the next best one, when it was visited, plus the sum of the `drift` of both at that time.
    The drift of a cluster grows with every change of it, by about the change of the margins of its items. This is an
    estimate: a sweep over all items ends the search.
    """

    cdef const double[::1] f
    cdef double split_cost, Q, by_chance, tol, C, P
    cdef bint is_linear, is_capped
    cdef Py_ssize_t n_items, n_draws, most, n_places, n_clusters, n_free, n_attempts
    cdef philox_stream stream
    cdef int32_t[::1] cluster, size, n_members, free_ids, order, met, blocks_of_item, members, begin
    cdef int32_t[::1] in_cluster, in_piece, met_blocks
    cdef double[::1] gain
    cdef double[::1] margin, drift, kept_drift
    cdef double large
    cdef int32_t[::1] second

    def __init__(self, DrawItems source, const double[::1] f, bint is_linear, double split_cost, double Q, most, seed,
                 unit):
        cdef Py_ssize_t D = source.n_items, N = source.n_rows, places
        self.n_items, self.n_draws, self.f = D, source.n_draws, f
        self.is_linear, self.split_cost, self.Q = is_linear, split_cost, Q
        self.by_chance = Q / max(N * (N - 1) / 2.0, 1.0)
        self.tol = 16 * np.finfo(np.float64).eps * (f[N] if is_linear else 4.0)
        self.most, self.is_capped = D if most is None else min(most, D), most is not None
        self.n_places = places = self.most + 1
        self.cluster = np.full(D, -1, dtype=np.int32)
        self.size, self.n_members = np.zeros(places, dtype=np.int32), np.zeros(places, dtype=np.int32)
        self.free_ids = np.arange(places, dtype=np.int32)[::-1].copy()
        self.n_free, self.n_attempts = places, ATTEMPTS
        self.order, self.members = np.arange(D, dtype=np.int32), np.empty(D, dtype=np.int32)
        self.begin = np.empty(places + 1, dtype=np.int32)
        self.met, self.gain = np.empty(places, dtype=np.int32), np.zeros(places)
        self.margin, self.second, self.drift = np.zeros(D), np.full(D, -1, dtype=np.int32), np.zeros(places)
        self.kept_drift = np.zeros(places)
        self.large = 4.0 * (1.0 + split_cost) * (f[N] - f[N - 1])
        self.blocks_of_item = np.empty(self.n_draws, dtype=np.int32)
        self.in_cluster = np.zeros(source.n_blocks, dtype=np.int32)
        self.in_piece = np.zeros(source.n_blocks, dtype=np.int32)
        self.met_blocks = np.empty(source.n_blocks, dtype=np.int32)
        philox_init(&self.stream, seed, ORDER)
        philox_aim(&self.stream, unit, 0)

    # ---- the loss ----------------------------------------------------------------------------------------------------

    cdef inline double value(self, double C, double P) noexcept nogil:
        """Return the loss, up to a constant and a factor."""
        cdef double most
        if self.is_linear:
            return C - (1.0 + self.split_cost) * P
        most = 0.5 * (C + self.Q) - C * self.by_chance
        return -(P - C * self.by_chance) / most if most > 0.0 else -1.0

    cdef inline double joined(self, Py_ssize_t t, Py_ssize_t u) noexcept nogil:
        """Return by how much f grows when two counts are added."""
        return self.f[t + u] - self.f[t] - self.f[u]

    # ---- single items ------------------------------------------------------------------------------------------------

    cdef inline int32_t draw(self, Py_ssize_t n) noexcept nogil:
        """Return a uniform number below n."""
        return <int32_t> min(<Py_ssize_t> (philox_double(&self.stream) * n), n - 1)

    cdef inline int32_t opened(self) noexcept nogil:
        """Return the number of a new cluster."""
        self.n_free = self.n_free - 1
        self.n_clusters = self.n_clusters + 1
        return self.free_ids[self.n_free]

    cdef inline void shift(self, int32_t A, int32_t w) noexcept nogil:
        """Add to the drift of a cluster that got or lost w rows."""
        cdef Py_ssize_t n = self.size[A]
        cdef double curvature = self.f[n] - 2.0 * self.f[n - 1] + self.f[n - 2] if n > 1 else 2.0
        self.drift[A] += DRIFT * w * curvature * self.unit()

    cdef inline double unit(self) noexcept nogil:
        """Return the change of the loss, as `value` has it, with its sums."""
        return 1.0 if self.is_linear else 2.0 / (self.C + self.Q + 1.0)

    cdef inline void disturb(self, int32_t A) noexcept nogil:
        """Let the items of a cluster, and those whose next best it is, be visited again."""
        self.drift[A] += self.large

    cdef int put(self, Py_ssize_t i, int32_t A, const int32_t *blocks) except -1 nogil:
        """Put an item without a cluster into A."""
        cdef int32_t w = self.source.items.weight[i]
        cdef Py_ssize_t m
        for m in range(self.n_draws):
            block_add(&self.blocks[blocks[m]], A, w)
        self.cluster[i] = A
        self.size[A] += w
        self.n_members[A] += 1
        self.shift(A, w)
        return 0

    cdef void take(self, Py_ssize_t i, const int32_t *blocks) noexcept nogil:
        """Take an item out of its cluster; an empty cluster is given up."""
        cdef int32_t w = self.source.items.weight[i], A = self.cluster[i]
        cdef Py_ssize_t m
        for m in range(self.n_draws):
            block_take(&self.blocks[blocks[m]], A, w)
        self.cluster[i] = -1
        self.size[A] -= w
        self.n_members[A] -= 1
        self.shift(A, w)
        if self.n_members[A] == 0:
            self.free_ids[self.n_free] = A
            self.n_free = self.n_free + 1
            self.n_clusters = self.n_clusters - 1

    cdef int move(self, Py_ssize_t i, int32_t A) except -1 nogil:
        """Move an item to A; the sums of the loss are the caller's."""
        blocks_of(&self.source.items, i, &self.blocks_of_item[0])
        if self.cluster[i] >= 0:
            self.take(i, &self.blocks_of_item[0])
        return self.put(i, A, &self.blocks_of_item[0])

    cdef Py_ssize_t meet(self, const int32_t *blocks, int32_t w, int32_t own) noexcept nogil:
        """Sum over blocks how much f of each cluster's count grows; return how many were met.

        The count grows by w.         The counts of `own` hold the item itself, which is left out.
        """
        cdef Py_ssize_t m, e, n_met = 0
        cdef const table_block *block
        cdef const double *f = &self.f[0]
        cdef double *gain = &self.gain[0]
        cdef double fw = f[w]
        cdef int32_t A, t
        for m in range(self.n_draws):
            block = &self.blocks[blocks[m]]
            for e in range(block.n):
                A, t = block.entries[e].cluster, block.entries[e].count
                if A == own:
                    t -= w
                    if t == 0:
                        continue
                if gain[A] == 0.0:  # sums are positive
                    self.met[n_met] = A
                    n_met += 1
                gain[A] += f[t + w] - f[t] - fw
        return n_met

    cdef bint visit(self, Py_ssize_t i) except -1 nogil:
        """Move an item to its best cluster, an old or a new one; return whether it moved."""
        cdef int32_t *blocks = &self.blocks_of_item[0]
        cdef int32_t w = self.source.items.weight[i], own = self.cluster[i], smallest, A
        cdef Py_ssize_t n_met, k
        cdef double C = self.C, P = self.P, p
        cdef choice found
        cdef bint is_full = self.n_clusters == self.most
        blocks_of(&self.source.items, i, blocks)
        prefetch_blocks(self.blocks, blocks, self.n_draws)
        n_met = self.meet(blocks, w, own)
        smallest = self.smallest(own) if self.is_capped and is_full else -1
        found.cluster, found.value, found.C, found.P = own, INFINITY, C, P
        found.second, found.second_value = -1, INFINITY
        # C and P are to be those with the item as a cluster of its own
        if own >= 0:
            found.value = self.value(C, P) - self.tol
            C -= self.joined(self.size[own] - w, w)
            P -= self.gain[own] / self.n_draws
        else:
            C, P = C + self.f[w], P + self.f[w]
        if not is_full and (own < 0 or self.n_members[own] > 1):
            self.consider(&found, -1, C, P)
        for k in range(n_met):
            A = self.met[k]
            p = self.gain[A] / self.n_draws
            self.gain[A] = 0.0
            if A != own:  # the own cluster with the item twice may have more rows than there are
                self.consider(&found, A, C + self.joined(self.size[A], w), P + p)
            if A == smallest:
                smallest = -1
        if smallest >= 0:  # a new cluster, which elsewhere is at least as good as one that was not met, is not allowed
            self.consider(&found, smallest, C + self.joined(self.size[smallest], w), P)
        if own < 0 or found.cluster != own:
            if own >= 0:
                self.take(i, blocks)
            if found.cluster < 0:
                found.cluster = self.opened()
            self.put(i, found.cluster, blocks)
            self.C, self.P = found.C, found.P
        self.second[i] = found.second
        self.margin[i] = (found.second_value - found.value) / w + self.drift_of(i)
        return found.cluster != own

    cdef inline void consider(self, choice *found, int32_t A, double C, double P) noexcept nogil:
        """Compare a cluster, -1 for a new one, with the best two so far, given the sums of the loss."""
        cdef double v = self.value(C, P)
        if v < found.value:
            found.second, found.second_value = found.cluster, found.value
            found.cluster, found.value, found.C, found.P = A, v, C, P
        elif v < found.second_value:
            found.second, found.second_value = A, v

    cdef inline double drift_of(self, Py_ssize_t i) noexcept nogil:
        """Return the drift of the cluster of an item and of its next best one."""
        return self.drift[self.cluster[i]] + (self.drift[self.second[i]] if self.second[i] >= 0 else 0.0)

    cdef int32_t smallest(self, int32_t but) noexcept nogil:
        """Return the smallest cluster except one, the first of equals; -1 if there is no other."""
        cdef int32_t A, best = -1
        for A in range(self.most):
            if self.n_members[A] > 0 and A != but and (best < 0 or self.size[A] < self.size[best]):
                best = A
        return best

    cdef void shuffle(self, int32_t[::1] items, Py_ssize_t n) noexcept nogil:
        cdef Py_ssize_t i, j
        for i in range(n - 1, 0, -1):
            j = self.draw(i + 1)
            items[i], items[j] = items[j], items[i]

    cdef Py_ssize_t sweep(self, bint is_full) except -1 nogil:
        """Visit items in a random order; return how many moved.

        Unless it is full, items that would hardly move are not visited.
        """
        cdef Py_ssize_t j, i, n_moved = 0
        self.shuffle(self.order, self.n_items)
        for j in range(self.n_items):
            i = self.order[j]
            if is_full or self.margin[i] < self.drift_of(i):
                n_moved += self.visit(i)
        return n_moved

    cdef int settle(self) except -1 nogil:
        """Sweep until nothing moves."""
        while self.sweep(False):
            pass
        return 0

    # ---- whole clusters ----------------------------------------------------------------------------------------------

    cdef void collect(self) noexcept nogil:
        """List the items of each cluster: ``members[begin[A]:begin[A + 1]]``."""
        cdef Py_ssize_t A, i, total = 0
        for A in range(self.n_places):
            self.begin[A] = total
            total += self.n_members[A]
        for i in range(self.n_items):
            A = self.cluster[i]
            self.members[self.begin[A]] = i
            self.begin[A] += 1
        for A in range(self.n_places, 0, -1):
            self.begin[A] = self.begin[A - 1]
        self.begin[0] = 0

    cdef Py_ssize_t count(self, const int32_t *items, Py_ssize_t n) noexcept nogil:
        """Count the rows of items in each block in `in_cluster`; return how many blocks were met."""
        cdef Py_ssize_t j, m, n_met = 0
        cdef int32_t b
        for j in range(n):
            blocks_of(&self.source.items, items[j], &self.blocks_of_item[0])
            for m in range(self.n_draws):
                b = self.blocks_of_item[m]
                if self.in_cluster[b] == 0:
                    self.met_blocks[n_met] = b
                    n_met += 1
                self.in_cluster[b] += self.source.items.weight[items[j]]
        return n_met

    cdef void forget(self, Py_ssize_t n_met) noexcept nogil:
        """Set the counts of `count` to 0 again."""
        cdef Py_ssize_t k
        for k in range(n_met):
            self.in_cluster[self.met_blocks[k]] = 0

    def merge(self):
        """Merge clusters that share a block while the loss falls; return whether any were.

        In each pass every cluster has its best partner. The best pairs are merged first; pairs of which one cluster has
        been merged in the same pass wait for the next one, which looks for new partners of those alone.
        """
        cdef Py_ssize_t n_entries, b, n_merged = 1, n_all = 0
        cdef uint8_t[::1] stale = np.ones(self.n_places, dtype=np.uint8)
        cdef uint8_t[::1] used = np.zeros(self.n_places, dtype=np.uint8)
        cdef int64_t[::1] start = np.empty(self.n_places + 1, dtype=np.int64)
        cdef int32_t[::1] block, count, target = np.arange(self.n_places, dtype=np.int32)
        cdef partner *best = <partner *> malloc(2 * self.n_places * sizeof(partner))
        if best == NULL:
            raise MemoryError
        try:
            while n_merged:
                n_entries = 0
                for b in range(self.source.items.n_blocks):
                    n_entries += self.blocks[b].n
                block, count = np.empty(n_entries, dtype=np.int32), np.empty(n_entries, dtype=np.int32)
                with nogil:
                    self.list_blocks(start, block, count)
                    self.find_partners(best, stale, start, block, count)
                    n_merged = self.merge_best(best, best + self.n_places, used, target, start, block, count)
                    n_all += n_merged
                if self.is_linear:
                    stale[:], used[:] = used, 0
                else:
                    used[:] = 0  # all gains depend on the sums
        finally:
            free(best)
        return n_all > 0

    cdef void list_blocks(self, int64_t[::1] start, int32_t[::1] block, int32_t[::1] count) noexcept nogil:
        """List the blocks of each cluster, with its rows in them."""
        cdef Py_ssize_t b, e, A, place
        start[:] = 0
        for b in range(self.source.items.n_blocks):
            for e in range(self.blocks[b].n):
                start[self.blocks[b].entries[e].cluster + 1] += 1
        for A in range(self.n_places):
            start[A + 1] += start[A]
        for b in range(self.source.items.n_blocks):
            for e in range(self.blocks[b].n):
                A = self.blocks[b].entries[e].cluster
                place = start[A]
                block[place], count[place] = b, self.blocks[b].entries[e].count
                start[A] += 1
        for A in range(self.n_places, 0, -1):
            start[A] = start[A - 1]
        start[0] = 0

    cdef void find_partners(self, partner *best, const uint8_t[::1] stale, const int64_t[::1] start,
                            const int32_t[::1] block, const int32_t[::1] count) noexcept nogil:
        """Write the best partner of each cluster, or -1; of clusters that are not stale it is known."""
        cdef Py_ssize_t A
        for A in range(self.n_places):
            if self.n_members[A] == 0:
                best[A].other = -1
            elif stale[A] or (best[A].other >= 0 and stale[best[A].other]):
                best[A] = self.best_partner(A, start, block, count)

    cdef partner best_partner(self, int32_t A, const int64_t[::1] start, const int32_t[::1] block,
                              const int32_t[::1] count) noexcept nogil:
        cdef partner best
        cdef Py_ssize_t j, e, k, n_met = 0
        cdef const table_block *at
        cdef int32_t B
        cdef double C, P, now = self.value(self.C, self.P), v
        best.value, best.C, best.P, best.cluster, best.other = 0.0, 0.0, 0.0, A, -1
        for j in range(start[A], start[A + 1]):
            at = &self.blocks[block[j]]
            for e in range(at.n):
                B = at.entries[e].cluster
                if B == A:
                    continue
                if self.gain[B] == 0.0:
                    self.met[n_met] = B
                    n_met += 1
                self.gain[B] += self.joined(count[j], at.entries[e].count)
        for k in range(n_met):
            B = self.met[k]
            C, P = self.joined(self.size[A], self.size[B]), self.gain[B] / self.n_draws
            self.gain[B] = 0.0
            v = self.value(self.C + C, self.P + P) - now
            if v < best.value:
                best.value, best.C, best.P, best.other = v, C, P, B
        return best

    cdef Py_ssize_t merge_best(self, const partner *best, partner *ordered, uint8_t[::1] used, int32_t[::1] target,
                               const int64_t[::1] start, const int32_t[::1] block,
                               const int32_t[::1] count) except -1 nogil:
        """Merge the best pairs of clusters that are not used yet; return how many."""
        cdef Py_ssize_t A, j, n = 0, n_merged = 0
        cdef partner pair
        for A in range(self.n_places):
            if best[A].other >= 0:
                ordered[n] = best[A]
                n += 1
        qsort(ordered, n, sizeof(partner), by_value)
        for j in range(n):
            pair = ordered[j]
            if used[pair.cluster] or used[pair.other]:
                continue
            if self.value(self.C + pair.C, self.P + pair.P) < self.value(self.C, self.P) - self.tol:
                self.join(pair.cluster, pair.other, start, block, count)
                self.C = self.C + pair.C
                self.P = self.P + pair.P
                used[pair.cluster] = used[pair.other] = True
                target[pair.other] = pair.cluster
                n_merged += 1
        if n_merged:
            for j in range(self.n_items):
                self.cluster[j] = target[self.cluster[j]]
            for j in range(n):
                target[ordered[j].other] = ordered[j].other
        return n_merged

    cdef int join(self, int32_t A, int32_t B, const int64_t[::1] start, const int32_t[::1] block,
                  const int32_t[::1] count) except -1 nogil:
        """Give the rows of B to A; the items are renamed later."""
        cdef Py_ssize_t j
        for j in range(start[B], start[B + 1]):
            block_take(&self.blocks[block[j]], B, count[j])
            block_add(&self.blocks[block[j]], A, count[j])
        self.size[A] += self.size[B]
        self.n_members[A] += self.n_members[B]
        self.size[B] = self.n_members[B] = 0
        self.free_ids[self.n_free] = B
        self.n_free = self.n_free + 1
        self.n_clusters = self.n_clusters - 1
        self.disturb(A)
        self.disturb(B)
        return 0

    cdef Py_ssize_t split_all(self) except -1 nogil:
        """Try to split every cluster along some draws; return how many were split."""
        cdef Py_ssize_t A, n_split = 0
        self.collect()
        for A in range(self.n_places):
            if self.begin[A + 1] - self.begin[A] > 1 and self.n_clusters < self.most:
                n_split += self.split(A, &self.members[self.begin[A]], self.begin[A + 1] - self.begin[A])
        return n_split

    cdef bint split(self, int32_t A, const int32_t *items, Py_ssize_t n) except -1 nogil:
        """Split a cluster along a random draw if the loss falls; return whether it was.

        Some draws are tried; the first that helps is taken."""
        cdef Py_ssize_t m, j, k, n_met = self.count(items, n), largest
        cdef int32_t total = self.size[A], b
        cdef double C, P
        cdef bint is_split = False
        for _ in range(PIECES):
            m = self.draw(self.n_draws)
            largest = self.source.items.first[m] + block_of(&self.source.items, items[0], m)
            for j in range(1, n):
                b = self.source.items.first[m] + block_of(&self.source.items, items[j], m)
                if self.in_cluster[b] > self.in_cluster[largest]:
                    largest = b
            if self.in_cluster[largest] == total:
                continue
            for j in range(n):
                if self.source.items.first[m] + block_of(&self.source.items, items[j], m) == largest:
                    blocks_of(&self.source.items, items[j], &self.blocks_of_item[0])
                    for k in range(self.n_draws):
                        self.in_piece[self.blocks_of_item[k]] += self.source.items.weight[items[j]]
            C, P = -self.joined(self.in_cluster[largest], total - self.in_cluster[largest]), 0.0
            for k in range(n_met):
                b = self.met_blocks[k]
                P -= self.joined(self.in_piece[b], self.in_cluster[b] - self.in_piece[b]) / self.n_draws
                self.in_piece[b] = 0
            if self.value(self.C + C, self.P + P) < self.value(self.C, self.P) - self.tol:
                self.move_piece(items, n, m, largest)
                self.C = self.C + C
                self.P = self.P + P
                is_split = True
                break
        self.forget(n_met)
        return is_split

    cdef int move_piece(self, const int32_t *items, Py_ssize_t n, Py_ssize_t m, int32_t block) except -1 nogil:
        """Move the items that lie in a block of draw m to a new cluster."""
        cdef Py_ssize_t j
        cdef int32_t A = self.opened()
        for j in range(n):
            if self.source.items.first[m] + block_of(&self.source.items, items[j], m) == block:
                self.move(items[j], A)
        return 0

    cdef bint dissolve(self) except -1 nogil:
        """Allocate the items of a random cluster anew; return whether the loss fell, else undo it."""
        cdef Py_ssize_t j, k, n = 0, n_met
        cdef double C = self.C, P = self.P
        cdef int32_t A = -1
        for _ in range(self.draw(self.n_clusters) + 1):
            A += 1
            while self.n_members[A] == 0:
                A += 1
        for j in range(self.n_items):
            if self.cluster[j] == A:
                self.members[n] = j
                n += 1
        n_met = self.count(&self.members[0], n)
        self.kept_drift[:] = self.drift
        self.C = self.C - self.f[self.size[A]]
        for k in range(n_met):
            self.P = self.P - self.f[self.in_cluster[self.met_blocks[k]]] / self.n_draws
        self.forget(n_met)
        self.take_all(n)
        self.shuffle(self.members, n)
        for j in range(n):
            self.visit(self.members[j])
        if self.value(self.C, self.P) < self.value(C, P) - self.tol:
            return True
        self.take_all(n)
        for j in range(self.n_free):  # the cluster gets its own number again, as other items have it as `second`
            if self.free_ids[j] == A:
                self.free_ids[j] = self.free_ids[self.n_free - 1]
                self.free_ids[self.n_free - 1] = A
        A = self.opened()
        for j in range(n):
            self.move(self.members[j], A)
            self.margin[self.members[j]] = -INFINITY
        self.C, self.P = C, P
        self.drift[:] = self.kept_drift
        return False

    cdef void take_all(self, Py_ssize_t n) noexcept nogil:
        """Take the first n items of `members` out of their clusters."""
        cdef Py_ssize_t j
        for j in range(n):
            blocks_of(&self.source.items, self.members[j], &self.blocks_of_item[0])
            self.take(self.members[j], &self.blocks_of_item[0])

    # ---- the search --------------------------------------------------------------------------------------------------

    cdef int begin_at(self, Py_ssize_t m) except -1 nogil:
        """Take a draw as the partition."""
        cdef Py_ssize_t i
        cdef int32_t A
        for i in range(self.n_items):
            A = block_of(&self.source.items, i, m)
            while self.n_clusters <= A:  # the numbers of clusters begin with those of the draw
                self.opened()
            self.move(i, A)
        return 0

    cdef void sum_up(self) noexcept nogil:
        """Compute the sums of the loss from the counts."""
        cdef Py_ssize_t A, b, e
        self.C = self.P = 0.0
        for A in range(self.n_places):
            self.C = self.C + self.f[self.size[A]]
        for b in range(self.source.items.n_blocks):
            for e in range(self.blocks[b].n):
                self.P = self.P + self.f[self.blocks[b].entries[e].count] / self.n_draws

    def start(self, draw):
        """Begin with a draw, by its number, or greedily where it is None."""
        cdef Py_ssize_t j, m = -1 if draw is None else draw
        with nogil:
            if m >= 0:
                self.begin_at(m)
                self.sum_up()
            else:
                self.shuffle(self.order, self.n_items)
                for j in range(self.n_items):
                    self.visit(self.order[j])
            self.sweep(True)
            self.settle()

    def round(self):
        """Try merges, splits and dissolved clusters; return whether the loss fell."""
        cdef Py_ssize_t n_split, n_dissolved = 0
        is_better = self.merge()
        with nogil:
            self.settle()
            n_split = self.split_all()
            self.settle()
            while self.n_attempts > 0 and n_dissolved == 0:
                self.n_attempts = self.n_attempts - 1
                n_dissolved += self.dissolve()
            self.settle()
        return is_better or n_split > 0 or n_dissolved > 0

    def sweep_all(self):
        """Visit every item; return whether any moved."""
        cdef Py_ssize_t n_moved
        with nogil:
            n_moved = self.sweep(True)
            self.settle()
        return n_moved > 0

    def result(self):
        """Return the cluster of each item, and the sums C and P of the loss, computed anew."""
        self.sum_up()
        return np.array(self.cluster), self.C, self.P


# ---- all starts ------------------------------------------------------------------------------------------------------


def search_partition(draws, *, loss="vi", split_cost=1.0, n_starts=16, max_clusters=None, seed=0, n_threads=None):
    """Find a partition with a small expected loss over draws.

    Parameters
    ----------
    draws : (M, N) array_like of non-negative int
    loss : {"vi", "binder", "omari"}
    split_cost : float
        Cost of splitting what draws join, in units of the cost of joining what they split; 1 for "omari".
    n_starts : int
        The first two begin with the best draws, the others greedily from nothing. One cluster is always compared.
    max_clusters : int, optional
    seed : int
    n_threads : int or None
        The result does not depend on it, nor on the names of labels, nor on the order of the draws.

    Returns
    -------
    labels : (N,) int32 ndarray
        Numbered by first appearance.
    value : float
        Expected loss: nats for "vi", share of ordered pairs for "binder".

    Examples
    --------
    >>> from expfam.structures.partitions.search import search_partition
    >>> search_partition([[0, 0, 1, 1], [0, 0, 0, 1], [0, 0, 1, 1]], loss="binder")[0]
    array([0, 0, 1, 1], dtype=int32)
    """
    if loss not in LOSSES:
        raise ValueError(f"loss must be one of {list(LOSSES)}; got {loss!r}")
    draws = narrow_labels(draws)
    draws = draws[np.lexsort(_digests(draws).T)]
    cdef DrawItems source = DrawItems(draws)
    f = count_values(loss, source.n_rows)
    Q = f[source.block_sizes()].sum() / source.n_draws
    firsts = _first_draws(source, f, loss, split_cost, max_clusters, min(n_starts, _N_DRAW_STARTS), n_threads)
    firsts += [None] * (n_starts - len(firsts))
    settings = (source, f, loss != "omari", split_cost, Q, max_clusters, seed)
    found = run(_search_once, [(settings, unit, draw) for unit, draw in enumerate(firsts)], n_threads, uses_blas=False)
    # one cluster can be best where no smaller merge lowers the loss
    found.append((np.zeros(source.n_items, dtype=np.int32), f[source.n_rows], Q))
    losses = [loss_value(loss, C, P, Q, source.n_rows, split_cost=split_cost) for _, C, P in found]
    best = 0
    for unit, value in enumerate(losses):
        if value < losses[best] * (1 - 1e-12):  # the earliest of equals
            best = unit
    labels = narrow_labels(found[best][0][source.item_of_row][None])[0]
    return labels.astype(np.int32), float(losses[best])


def _search_once(settings, unit, draw):
    cdef _Start start = _Start(*settings, unit)
    start.start(draw)
    while start.round() or start.sweep_all():  # each lowers the loss
        pass
    return start.result()


def _digests(draws):
    """Return words by which equal draws have one place, whatever their order: (M, 2) uint64."""
    digests = [hashlib.blake2b(labels.tobytes(), digest_size=16).digest() for labels in draws]
    return np.frombuffer(b"".join(digests), dtype=np.uint64).reshape(-1, 2)


def _first_draws(source, f, loss, split_cost, max_clusters, n_wanted, n_threads):
    """Return the numbers of the draws with the least expected loss, the best first.

    Where comparing all pairs of draws would take too long, each draw is compared with some, and the best with all.
    """
    n_clusters = source.labels.max(axis=0).astype(np.int64) + 1
    allowed = np.flatnonzero(n_clusters <= (source.n_rows if max_clusters is None else max_clusters))
    M = source.n_draws
    if M * len(allowed) * source.n_items > _ALL_PAIRS and M > _JUDGES:
        some = source.only(np.arange(_JUDGES) * M // _JUDGES)
        clusters = [source.labels[:, m] for m in allowed]
        allowed = allowed[np.argsort(_losses(some, clusters, f, loss, split_cost, n_threads), kind="stable")]
        allowed = np.sort(allowed[:_FINALISTS])
    losses = _losses(source, [source.labels[:, m] for m in allowed], f, loss, split_cost, n_threads)
    return allowed[np.argsort(losses, kind="stable")[:n_wanted]].tolist()


def _losses(source, partitions, f, loss, split_cost, n_threads):
    """Return the expected loss of partitions of the items over the draws."""
    sizes = [np.bincount(clusters, weights=source.weight).astype(np.int64) for clusters in partitions]
    C = np.array([f[n].sum() for n in sizes])
    tasks = [(clusters, f) for clusters in partitions]
    P = [sums.mean() for sums in run(source.overlaps, tasks, n_threads, uses_blas=False)]
    Q = f[source.block_sizes()].sum() / source.n_draws
    return loss_value(loss, C, np.array(P), Q, source.n_rows, split_cost=split_cost)
