"""Splits and merges for an unknown number of clusters of rows in groups.

Two rows, the anchors, are drawn without a look at clusters. Where both are in one cluster, its other rows are divided
between them; where they are in two, the clusters become one. Rows are visited group by group, in a random order, those
of the anchors' groups first. Group g has weights of the two sides from its rows so far, and

    p(side s) is proportional to (n_gs + alpha beta m_s / m) f_s(x),

where f_s is the predictive of the side, beta the weight of both sides together, and m_s one half more than the groups
that side s has so far. Then the share of one side in beta is drawn from Beta(groups of one side, groups of the other).
A merge needs the probability with which the same routine would have made the two clusters: the same code scores given
sides.

A known cluster is the side of the first anchor, and stays: its known rows have that side, and the density of its weight
lacks the factor that those of other clusters have.
"""

import numpy as np

from libc.math cimport INFINITY, exp, isnan, lgamma, log, log1p
from libc.stdint cimport int8_t, int32_t, int64_t, uint64_t

from expfam.contracts cimport EXPFAM_NUMERICAL, EXPFAM_OK, components_v1
from expfam.families.components cimport Components
from expfam.structures.ground.rng cimport MOVE, philox_aim, philox_double, philox_init, philox_stream

cdef double HALF = 0.5                  # groups of a side before it has any


cdef inline double log_rising(double a, int64_t n) noexcept nogil:
    """Return log of a (a + 1) ... (a + n - 1)."""
    return lgamma(a + n) - lgamma(a) if n > 0 else 0.0


cdef class RowMoves:
    """Proposals of splits and merges for one state of rows in groups.

    `rank` (N,) int32 are the places of the rows in the order in which they are visited, one group after the other.
    `spare` are two slots without rows, for the sides.
    """

    cdef object state, held
    cdef Components components
    cdef components_v1 *c
    cdef const int32_t[::1] rank
    cdef const Py_ssize_t[::1] group
    cdef const int64_t[::1] start
    cdef int32_t[::1] by_rank, by_cluster, label, items
    cdef int32_t[:, ::1] own            # rows of each visited group by side
    cdef int8_t[::1] side
    cdef const int8_t[::1] fixed        # which rows have a known cluster
    cdef bint is_known                  # whether the side of the first anchor is a known cluster
    cdef double[::1] work
    cdef Py_ssize_t n_items, n_groups
    cdef Py_ssize_t[2] spare
    cdef int64_t[2] n_side_groups
    cdef int32_t[2] anchor
    cdef double log_q

    def __init__(self, state, const int32_t[::1] rank):
        N, G = state.data.n_rows, state.data.groups.n_groups
        self.state, self.rank, self.group = state, rank, state.data.groups.of_row
        self.by_rank, self.by_cluster = np.argsort(rank).astype(np.int32), np.empty(N, dtype=np.int32)
        self.items, self.side = np.empty(N, dtype=np.int32), np.empty(N, dtype=np.int8)
        self.own = np.empty((G + 1, 2), dtype=np.int32)
        known = state.data.known
        self.fixed = np.zeros(N, dtype=np.int8) if known is None else (known.classes >= 0).astype(np.int8)
        self.is_known = False
        self.sort()

    def sort(self):
        """List the rows of each cluster, by the present labels and slots."""
        cdef Py_ssize_t j
        cdef int32_t i
        self.components = self.state.components
        self.c, self.work, self.label = &self.components.c, self.components.work, self.state.labels
        free = self.state.shared.free
        self.spare[0], self.spare[1] = free[len(free) - 1], free[len(free) - 2]
        sizes = np.bincount(self.state.labels, minlength=self.state.n_slots)
        self.held = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        self.start = self.held
        cdef int64_t[::1] place = self.held.copy()
        for j in range(self.by_rank.shape[0]):
            i = self.by_rank[j]
            self.by_cluster[place[self.label[i]]] = i
            place[self.label[i]] += 1

    def is_fixed(self, Py_ssize_t i):
        """Return whether a row has a known cluster."""
        return bool(self.fixed[i])

    def size_of(self, Py_ssize_t u, Py_ssize_t v):
        """Return the number of rows in the clusters of two rows."""
        cdef Py_ssize_t a = self.label[u], b = self.label[v]
        return self.start[a + 1] - self.start[a] + (self.start[b + 1] - self.start[b] if a != b else 0)

    cdef inline int part(self, int32_t i) noexcept nogil:
        """Return 0 and 1 for rows of the anchors' groups, 2 for others."""
        if self.group[i] == self.group[self.anchor[0]]:
            return 0
        return 1 if self.group[i] == self.group[self.anchor[1]] else 2

    cdef void gather(self, int32_t u, int32_t v) noexcept nogil:
        """List the rows of the anchors' clusters and their present sides.

        The order is the same for one cluster and for two: the anchors' groups come first, and in them the anchors.
        """
        cdef int32_t a = self.label[u], b = self.label[v], i
        cdef Py_ssize_t j, k, end = self.start[a + 1], stop
        cdef int part
        self.anchor[0], self.anchor[1], self.n_items = u, v, 0
        for part in range(3):
            if part == 0:
                self.list_row(u, 0)
            if part == self.part(v):
                self.list_row(v, 1)
            j, k = self.start[a], self.start[b]
            stop = self.start[b + 1] if a != b else k
            while j < end or k < stop:
                if k >= stop or (j < end and self.rank[self.by_cluster[j]] < self.rank[self.by_cluster[k]]):
                    i = self.by_cluster[j]
                    j += 1
                else:
                    i = self.by_cluster[k]
                    k += 1
                if i != u and i != v and part == self.part(i):
                    self.list_row(i, self.label[i] != a)

    # x = x + 1 in place of x += 1: a checked build takes no in-place change of an attribute without the GIL
    cdef inline void list_row(self, int32_t i, int s) noexcept nogil:
        self.items[self.n_items], self.side[self.n_items] = i, <int8_t> s
        self.n_items = self.n_items + 1

    cdef inline void visit(self, Py_ssize_t j) noexcept nogil:
        """Open the group of an item where it is the first one of its group."""
        if j == 0 or self.group[self.items[j]] != self.group[self.items[j - 1]]:
            self.own[self.n_groups, 0] = self.own[self.n_groups, 1] = 0
            self.n_groups = self.n_groups + 1

    cdef inline void count(self, int s) noexcept nogil:
        """Count a row on a side of the open group."""
        self.n_side_groups[s] = self.n_side_groups[s] + (self.own[self.n_groups - 1, s] == 0)
        self.own[self.n_groups - 1, s] += 1

    cdef inline void begin(self) noexcept nogil:
        self.n_groups = self.n_side_groups[0] = self.n_side_groups[1] = 0

    cdef void tally(self) noexcept nogil:
        """Count the groups of given sides."""
        cdef Py_ssize_t j
        self.begin()
        for j in range(self.n_items):
            self.visit(j)
            self.count(self.side[j])

    cdef int divide(self, double mass, bint forced, double stop_below, philox_stream *rng) noexcept nogil:
        """Draw the sides of all rows, or score the given ones until log q falls below a bound.

        `mass` is the pseudo-count of both sides together. The sides fill the spare slots.
        """
        cdef Py_ssize_t j
        cdef int32_t i
        cdef int s, code = EXPFAM_OK
        cdef double odds
        self.begin()
        self.log_q = 0.0
        for s in range(2):
            code = code or self.c.add(self.c.self, self.anchor[s], self.spare[s])
        for j in range(self.n_items):
            if code:
                return code
            i, s = self.items[j], self.side[j]
            self.visit(j)
            if i != self.anchor[0] and i != self.anchor[1] and self.fixed[i]:
                s = 0
                self.side[j] = 0
                code = self.c.add(self.c.self, i, self.spare[0])
            elif i != self.anchor[0] and i != self.anchor[1]:
                code = self.log_odds(i, mass, &odds)
                if code:
                    return code
                if not forced:
                    s = not philox_double(rng) * (1.0 + exp(-odds)) < 1.0
                    self.side[j] = <int8_t> s
                odds = odds if s == 0 else -odds
                self.log_q = self.log_q - (log1p(exp(-odds)) if odds >= 0 else log1p(exp(odds)) - odds)
                code = self.c.add(self.c.self, i, self.spare[s])
                if forced and self.log_q < stop_below:
                    return code
            self.count(s)
        return code

    cdef int log_odds(self, int32_t i, double mass, double *out) noexcept nogil:
        """Compute the log odds of the first side for a row."""
        cdef double[2] score
        cdef double whole = self.n_side_groups[0] + self.n_side_groups[1] + 2.0 * HALF
        cdef int s, code = self.c.log_predictive(self.c.self, i, self.spare, 2, score, &self.work[0])
        if code:
            return code
        for s in range(2):
            score[s] += log(self.own[self.n_groups - 1, s] + mass * (self.n_side_groups[s] + HALF) / whole)
        out[0] = score[0] - score[1]
        return EXPFAM_NUMERICAL if isnan(out[0]) else EXPFAM_OK

    cdef void close(self):
        """Empty the spare slots."""
        cdef int s
        for s in range(2):
            self.c.clear(self.c.self, self.spare[s])

    cdef double log_prior_gain(self, double mass, double share, double gamma) noexcept nogil:
        """Return the log density of two sides over that of one cluster, without the rows' evidence.

        The density from which the share is drawn is taken away.
        """
        cdef Py_ssize_t j
        cdef double one = mass * share, two = mass - one, m = self.n_side_groups[0], n = self.n_side_groups[1]
        cdef double total = log(gamma) - m * log(share) - n * log1p(-share) - lgamma(m + n) + lgamma(m) + lgamma(n)
        if self.is_known:
            total += log(share)
        for j in range(self.n_groups):
            total += log_rising(one, self.own[j, 0]) + log_rising(two, self.own[j, 1])
            total -= log_rising(mass, self.own[j, 0] + self.own[j, 1])
        return total

    def split(self, int32_t u, int32_t v, double mass, double gamma, rng, uint64_t seed, uint64_t unit, uint64_t step,
              double log_u, bint is_known=False):
        """Propose to divide the cluster of two rows, of the pseudo-count `mass`.

        Of a known cluster, `u` stays in it, and `v` is no known row.

        The first result is whether this is accepted, the second the share of the side of `u`, which `rng` draws;
        `log_u` is the log of a uniform number. The sides then fill the two spare slots, until `adopt` or `leave` is
        called.
        """
        cdef philox_stream stream
        cdef double share, ratio
        cdef double[3] evidence
        cdef Py_ssize_t[3] ks
        cdef int code
        self.is_known = is_known
        with nogil:
            self.gather(u, v)
            philox_init(&stream, seed, MOVE)
            philox_aim(&stream, unit, step)
            code = self.divide(mass, False, 0.0, &stream)
        self.check(code)
        share = rng.beta(self.n_side_groups[0], self.n_side_groups[1])
        if not 0.0 < share < 1.0:
            return False, 0.5
        ks[0], ks[1], ks[2] = self.label[u], self.spare[0], self.spare[1]
        self.check(self.c.log_marginal(self.c.self, ks, 3, evidence, &self.work[0]))
        ratio = self.log_prior_gain(mass, share, gamma) + evidence[1] + evidence[2] - evidence[0] - self.log_q
        return log_u < ratio, share

    def merge(self, int32_t u, int32_t v, double one, double two, double gamma, double log_u, bint is_known=False):
        """Propose to make one of the clusters of two rows; return whether this is accepted.

        A known cluster is that of `u`. `one` and `two` are the pseudo-counts of the clusters, `log_u` is the log of a
        uniform number.
        """
        cdef double mass = one + two, share = one / (one + two), bound
        cdef double[2] evidence
        cdef double both
        cdef Py_ssize_t[2] ks
        cdef int code = EXPFAM_OK
        self.is_known = is_known
        if not 0.0 < share < 1.0:
            return False
        ks[0], ks[1] = self.label[u], self.label[v]
        self.check(self.c.log_marginal(self.c.self, ks, 2, evidence, &self.work[0]))
        self.check(self.c.log_merged(self.c.self, ks[0], ks + 1, 1, &both, &self.work[0]))
        with nogil:
            self.gather(u, v)
            self.tally()
            bound = log_u + self.log_prior_gain(mass, share, gamma) + evidence[0] + evidence[1] - both
            self.log_q = -INFINITY
            if bound <= 0.0:            # log q is at most 0: most other merges need no score
                code = self.divide(mass, True, bound, NULL)
        self.check(code)
        self.close()
        return self.log_q >= bound

    cdef int check(self, int code) except -1:
        """Empty the spare slots and raise the exception of a status other than 0."""
        if code:
            error = self.components.fail(code, self.anchor[0], self.spare[0])
            self.close()
            raise error
        return 0

    def leave(self):
        """Forget the sides of a split."""
        self.close()

    def adopt(self):
        """Make the smaller side of a split a cluster of its own.

        Of a known cluster it is the side of the second anchor.

        Return its slot, and whether it is the side of the second anchor.
        """
        cdef Py_ssize_t k = self.label[self.anchor[0]], new
        cdef Py_ssize_t n_second = np.sum(self.side[: self.n_items])
        cdef int s = self.is_known or 2 * n_second <= self.n_items
        new = self.spare[s]
        self.components.subtract(k, new)
        self.components.clear(self.spare[1 - s])
        for j in range(self.n_items):
            if self.side[j] == s:
                self.label[self.items[j]] = <int32_t> new
        return new, bool(s)

    def join(self, Py_ssize_t kept, Py_ssize_t left):
        """Give the rows of the last proposal the cluster `kept`; `left` becomes empty."""
        self.components.absorb(kept, left)
        for j in range(self.n_items):
            self.label[self.items[j]] = <int32_t> kept
