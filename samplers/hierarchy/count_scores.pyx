"""Log odds that two clusters of counts are one, by an inverted index of their words.

With f(x) = log G(a_w + x) - log G(a_w), and W - sum_w f(S_w) = u for each cluster,

    score(i, j) = [B(n_i + n_j, m_i + m_j) - u_i - u_j] + sum over shared words of f(S_i + S_j) - f(S_i) - f(S_j),
    u of both   = log(exp B + exp(u_i + u_j - that sum)),

where B is the log prior weight of one block of n data and m tokens. The sum is never negative, and the bracket is the
score of a pair that shares no word: posting lists give the first, clusters of equal (n, m, u) share the second.
"""

import math

import numpy as np
from scipy import sparse

from cpython.pycapsule cimport PyCapsule_New
from libc.stdint cimport int32_t, int64_t

from expfam.samplers.hierarchy._merge cimport PARTNERS, SCORES, merge_scores_v1, softplus
from expfam.structures.simd.elementary cimport expfam_log_rising1
from expfam.structures.selection.inverted_index cimport InvertedIndex
from expfam.structures.merging.queue cimport MERGE_OK, merge_partners_v1

from expfam.samplers.hierarchy.scores import log_gammas, log_sizes
from expfam.structures.selection.inverted_index import InvertedIndex

cdef enum:
    MOST_TABLED = 1 << 20       # entries of a table of rising factorials


ctypedef struct shared_sum:         # side by side: one line of memory for both
    int64_t stamp
    double value

ctypedef struct count_state:
    # rows and posting lists of the index
    const Py_ssize_t *begin
    const Py_ssize_t *size
    const Py_ssize_t *head
    const Py_ssize_t *next
    const int32_t *slot
    const int32_t *term
    const double *value
    # clusters by slot
    int64_t *count                  # (L,) data
    double *mass                    # (L,) tokens
    double *rest                    # (L,) u = W less what the words add
    # tables
    const double *level             # (n_data + 1,) B without what depends on m
    const double *slope             # (n_data + 1,) Poisson: log(b + n), times m; NULL: multinomial
    const double *log_size          # (n_data + 1,)
    const double *masses            # (n_masses,) log rising factorials of the whole prior by m
    Py_ssize_t n_masses
    const double *rises             # (n_rises,) f of a symmetric prior
    Py_ssize_t n_rises
    const double *prior             # (V,)
    double prior_total
    int plain                       # all sums of counts stand in `rises`
    # disjoint pairs
    int with_disjoint
    Py_ssize_t youngest             # slot of the last merge, -1 before any
    int pristine                    # nothing merged yet: posting lists ascend by slot
    Py_ssize_t n_groups             # leaves of equal (n, m, u)
    Py_ssize_t *group_head          # (n_groups,) -1 where empty
    Py_ssize_t *group_tail
    Py_ssize_t *group               # (L,) of a leaf; of a merged cluster -1 - place in `merged`
    Py_ssize_t *later               # (L,) next leaf of the group, by ascending id
    Py_ssize_t *earlier
    Py_ssize_t *merged              # (n_merged,) slots of clusters that are no leaves
    Py_ssize_t n_merged
    # scratch
    shared_sum *sums                # (L,) of the words shared with one cluster; others carry older stamps
    double *row                     # (V,)
    int64_t *row_mark               # (V,)
    int64_t stamp


cdef inline double rising(double z, double m) noexcept nogil:
    return expfam_log_rising1(z, m, 16 if z < 16 else 0)


cdef inline double tabled(const double *table, Py_ssize_t size, double z, double m) noexcept nogil:
    cdef Py_ssize_t whole = <Py_ssize_t> m if m < size else -1
    if whole >= 0 and whole == m:
        return table[whole]
    return rising(z, m)


cdef inline double gain(const count_state *s, Py_ssize_t w, double x) noexcept nogil:
    return tabled(s.rises, s.n_rises, s.prior[w], x)


cdef inline double overlap(const count_state *s, Py_ssize_t w, double x, double y) noexcept nogil:
    """Return what a shared word adds; both orders of the arguments give the same bits."""
    if s.plain:
        return s.rises[<int32_t> (x + y)] - (s.rises[<int32_t> x] + s.rises[<int32_t> y])
    return gain(s, w, x + y) - (gain(s, w, x) + gain(s, w, y))


cdef inline double level_of(const count_state *s, int64_t n, double m) noexcept nogil:
    """Return B, the log weight of one block of n data and m tokens, without what its words add."""
    if s.slope != NULL:
        return s.level[n] - m * s.slope[n]
    return s.level[n] - tabled(s.masses, s.n_masses, s.prior_total, m)


cdef inline double bracket(const count_state *s, Py_ssize_t k, Py_ssize_t l) noexcept nogil:
    return level_of(s, s.count[k] + s.count[l], s.mass[k] + s.mass[l]) - (s.rest[k] + s.rest[l])


cdef inline double finish(const count_state *s, Py_ssize_t k, Py_ssize_t l, double shared) noexcept nogil:
    return (bracket(s, k, l) + shared) - s.log_size[s.count[k] + s.count[l]]


cdef void scatter(count_state *s, Py_ssize_t k) noexcept nogil:
    cdef Py_ssize_t e = s.head[k]
    s.stamp += 1
    while e >= 0:
        s.row[s.term[e]] = s.value[e]
        s.row_mark[s.term[e]] = s.stamp
        e = s.next[e]


cdef double shared_with(const count_state *s, Py_ssize_t other) noexcept nogil:
    """Return the sum over the words that another slot shares with the scattered row."""
    cdef double total = 0.0
    cdef Py_ssize_t e = s.head[other], w
    while e >= 0:
        w = s.term[e]
        if s.row_mark[w] == s.stamp:
            total += overlap(s, w, s.row[w], s.value[e])
        e = s.next[e]
    return total


cdef int count_score(void *self, Py_ssize_t k, const Py_ssize_t *ls, Py_ssize_t m, double *out) noexcept nogil:
    cdef count_state *s = <count_state *> self
    cdef Py_ssize_t i
    scatter(s, k)
    for i in range(m):
        out[i] = finish(s, k, ls[i], shared_with(s, ls[i]))
    return MERGE_OK


cdef Py_ssize_t overlapping(count_state *s, Py_ssize_t k, const int64_t *ids, Py_ssize_t *slots) noexcept nogil:
    """List the older clusters that share a word with slot k.

    `sums` gets what the shared words add to each score; the stamp marks the listed slots.
    """
    cdef Py_ssize_t e = s.head[k], w, j, stop, other, n = 0
    cdef int64_t own = ids[k], stamp
    cdef shared_sum *sums = s.sums
    cdef shared_sum *sum_
    cdef double x
    s.stamp += 1
    stamp = s.stamp
    while e >= 0:
        w = s.term[e]
        x = s.value[e]
        stop = s.begin[w] + s.size[w]
        for j in range(s.begin[w], stop):
            other = s.slot[j]
            if k == s.youngest:     # no need to look up its age
                if other == k:
                    continue
            elif ids[other] >= own:
                if s.pristine:
                    break
                continue
            sum_ = sums + other
            if sum_.stamp != stamp:
                sum_.stamp = stamp
                sum_.value = 0.0
                slots[n] = other
                n += 1
            sum_.value += overlap(s, w, x, s.value[j])
        e = s.next[e]
    return n


cdef Py_ssize_t count_partners(void *self, Py_ssize_t k, const int64_t *ids, Py_ssize_t n_kept, Py_ssize_t *slots,
                               double *scores, double *rest) noexcept nogil:
    """List the older clusters that slot k may merge with, and score them.

    These are all that share a word with it. Of the others, they are the first leaves of each group of copies, and all
    merged clusters.
    """
    cdef count_state *s = <count_state *> self
    cdef Py_ssize_t n = overlapping(s, k, ids, slots), i, g, other, taken
    cdef double score = 0.0
    for i in range(n):
        scores[i] = finish(s, k, slots[i], s.sums[slots[i]].value)
    if not s.with_disjoint:
        return n
    for g in range(s.n_groups):
        other = s.group_head[g]
        taken = 0
        while other >= 0 and ids[other] < ids[k]:
            if s.sums[other].stamp != s.stamp:
                if taken == 0:
                    score = finish(s, k, other, 0.0)
                if taken == n_kept:
                    rest[0] = max(rest[0], score)
                    break
                slots[n] = other
                scores[n] = score
                n += 1
                taken += 1
            other = s.later[other]
    for i in range(s.n_merged):
        other = s.merged[i]
        if s.sums[other].stamp != s.stamp and ids[other] < ids[k]:
            slots[n] = other
            scores[n] = finish(s, k, other, 0.0)
            n += 1
    return n


cdef class CountScores:
    """Log odds of merging two clusters of counts, by an inverted index of their words.

    Arguments and the attributes `capsule`, `weight`, `count` and `block` are those of `OddsScores`; the family's
    `count_model` is "multinomial" or "poisson". `index` holds the words by slot. Scores differ from those of
    `OddsScores` in the last bits: nothing of the size of an evidence is subtracted.
    """

    cdef readonly object capsule, weight, count, block
    cdef readonly InvertedIndex index
    cdef count_state s
    cdef merge_scores_v1 functions
    cdef dict arrays                # what the pointers point into

    def __init__(self, model, data, labels, *, leaf_weight, by_size):
        family, L, N = model.family, int(labels.max()) + 1, data.n_rows
        prior, totals = family.pseudocounts()
        n, S = data.statistics(labels, L)
        S = sparse.csr_array(S, copy=True)
        S.eliminate_zeros()
        mass = np.asarray(S.sum(axis=1)).ravel().astype(np.float64)
        self.index = InvertedIndex(S)
        self.count = np.ascontiguousarray(n, dtype=np.int64)
        self.arrays = {"mass": mass, "prior": np.ascontiguousarray(prior, dtype=np.float64)}
        self._tabulate(model, N, float(totals.sum()), mass, S, by_size)
        self._group(L)
        self._scratch(L, S.shape[1])
        words = np.array([self._words(k) for k in range(L)])
        level = self.arrays["rest"]
        self.block = level + words
        self.weight = np.array(self.block if leaf_weight is None else leaf_weight, dtype=np.float64)
        if leaf_weight is not None:
            level[:] = self.weight - words
        self._regroup(np.arange(L))
        self._publish()

    def _tabulate(self, model, N, total, mass, S, by_size):
        """Make the tables of gamma terms, and `rest` of each leaf as one block."""
        cdef double[::1] table
        cdef Py_ssize_t i
        family, prior = model.family, self.arrays["prior"]
        counts, n = self.count, np.arange(N + 1)
        level = math.log(model.weights.alpha) + log_gammas(N)
        if family.count_model == "poisson":
            level -= total * np.log1p(n / family.rate)
            self.arrays["slope"] = np.log(family.rate + n)
        is_whole = bool((S.data == np.rint(S.data)).all())
        heaviest = float(S.sum(axis=0).max()) if S.nnz else 0.0
        sizes = {
            "masses": min(int(mass.sum()) + 1, MOST_TABLED) if is_whole else 0,
            "rises": min(int(heaviest) + 1, MOST_TABLED) if is_whole and prior.min() == prior.max() else 0,
        }
        for name, z in (("masses", total), ("rises", float(prior[0]))):
            self.arrays[name] = table = np.empty(sizes[name] + 1)
            for i in range(sizes[name]):
                table[i] = rising(z, i)
        self.arrays["level"], self.arrays["log_size"] = level, log_sizes(N, by_size)
        self.s.n_masses, self.s.n_rises = sizes["masses"], sizes["rises"]
        self.s.plain = 0 < sizes["rises"] and heaviest < sizes["rises"]
        self.s.prior_total = total
        self._aim_tables()
        cdef const int64_t[::1] count = counts
        cdef const double[::1] m = mass
        self.arrays["rest"] = rest = np.empty(len(mass))
        for i in range(m.shape[0]):
            rest[i] = level_of(&self.s, count[i], m[i])

    def _aim_tables(self):
        cdef const double[::1] view
        view = self.arrays["level"]
        self.s.level = &view[0]
        view = self.arrays["log_size"]
        self.s.log_size = &view[0]
        view = self.arrays["masses"]
        self.s.masses = &view[0]
        view = self.arrays["rises"]
        self.s.rises = &view[0]
        view = self.arrays["prior"]
        self.s.prior = &view[0]
        self.s.slope = NULL
        if "slope" in self.arrays:
            view = self.arrays["slope"]
            self.s.slope = &view[0]

    cdef Py_ssize_t *_places(self, str name, Py_ssize_t size):
        cdef Py_ssize_t[::1] view = np.full(max(size, 1), -1, dtype=np.intp)
        self.arrays[name] = view
        return &view[0]

    def _group(self, L):
        cdef double[::1] mass = self.arrays["mass"], rest = self.arrays["rest"]
        cdef int64_t[::1] count = self.count
        self.s.count, self.s.mass, self.s.rest = &count[0], &mass[0], &rest[0]
        self.s.group_head, self.s.group_tail = self._places("group_head", L), self._places("group_tail", L)
        self.s.group, self.s.merged = self._places("group", L), self._places("merged", L)
        self.s.later, self.s.earlier = self._places("later", L), self._places("earlier", L)
        self.s.pristine, self.s.with_disjoint, self.s.youngest = 1, 1, -1

    def _regroup(self, leaves):
        """Make the lists of the live leaves with equal (n, m, u), each ascending."""
        cdef Py_ssize_t other, g, i
        key = np.column_stack([self.count, self.arrays["mass"], self.arrays["rest"]])[leaves]
        group = np.unique(key, axis=0, return_inverse=True)[1].ravel() if len(leaves) else np.empty(0, dtype=int)
        self.s.n_groups = int(group.max()) + 1 if len(leaves) else 0
        for g in range(self.s.n_groups):
            self.s.group_head[g] = self.s.group_tail[g] = -1
        for i in range(len(leaves)):
            other, g = leaves[i], group[i]
            self.s.group[other] = g
            self.s.later[other] = -1
            self.s.earlier[other] = self.s.group_tail[g]
            if self.s.group_tail[g] < 0:
                self.s.group_head[g] = other
            else:
                self.s.later[self.s.group_tail[g]] = other
            self.s.group_tail[g] = other

    def _scratch(self, L, V):
        cdef double[::1] row = np.zeros(max(V, 1))
        cdef int64_t[:, ::1] sums = np.zeros((max(L, 1), 2), dtype=np.int64)
        cdef int64_t[::1] row_mark = np.zeros(max(V, 1), dtype=np.int64)
        self.arrays["scratch"] = (sums, row, row_mark)
        self.s.sums = <shared_sum *> &sums[0, 0]
        self.s.row, self.s.row_mark = &row[0], &row_mark[0]
        self.s.stamp = 0
        self._aim_index()

    cdef _aim_index(self):
        cdef InvertedIndex index = self.index
        if index._slot.shape[0] == 0:       # no row has a word, and no pointer is followed
            self.s.head = &index._head[0]
            return
        self.s.begin, self.s.size, self.s.head = &index._begin[0], &index._size[0], &index._head[0]
        self.s.slot, self.s.term = &index._slot[0], &index._term[0]
        self.s.value, self.s.next = &index._value[0], &index._next[0]

    cdef _publish(self):
        self.functions.self = &self.s
        self.functions.score = count_score
        self.capsule = PyCapsule_New(&self.functions, SCORES, NULL)

    cdef double _words(self, Py_ssize_t k):
        """Return what the words of slot k add to its evidence."""
        cdef double total = 0.0
        cdef Py_ssize_t e = self.s.head[k]
        while e >= 0:
            total += gain(&self.s, self.s.term[e], self.s.value[e])
            e = self.s.next[e]
        return total

    def fork(self):
        """Return the same scores with scratch memory of their own, for another thread."""
        cdef CountScores other = CountScores.__new__(CountScores)
        other.index, other.weight, other.count, other.block = self.index, self.weight, self.count, self.block
        other.arrays, other.s = dict(self.arrays), self.s
        other._scratch(self.index.n_slots, self.index.n_terms)
        other._publish()
        return other

    @property
    def can_fork(self):
        """Return True: several threads may score at once, each with a fork."""
        return True

    def score(self, Py_ssize_t k, slots):
        """Return the scores of slot k with other slots: (m,) nats."""
        cdef const Py_ssize_t[::1] ls = np.ascontiguousarray(slots, dtype=np.intp)
        out = np.empty(ls.shape[0])
        cdef double[::1] view = out
        if ls.shape[0]:
            count_score(&self.s, k, &ls[0], ls.shape[0], &view[0])
        return out

    cdef void _leave(self, Py_ssize_t k) noexcept nogil:
        """Take slot k out of its group, or out of the merged ones."""
        cdef count_state *s = &self.s
        cdef Py_ssize_t g = s.group[k], place, last
        if g < 0:
            place = -1 - g
            s.n_merged -= 1
            last = s.merged[s.n_merged]
            s.merged[place] = last
            s.group[last] = -1 - place
            return
        if s.earlier[k] >= 0:
            s.later[s.earlier[k]] = s.later[k]
        else:
            s.group_head[g] = s.later[k]
        if s.later[k] >= 0:
            s.earlier[s.later[k]] = s.earlier[k]
        else:
            s.group_tail[g] = s.earlier[k]

    def absorb(self, Py_ssize_t k, Py_ssize_t l):
        """Move the data of slot l into slot k; see `OddsScores.absorb`."""
        cdef count_state *s = &self.s
        cdef double shared, score, growth
        cdef Py_ssize_t other = l
        scatter(s, k)
        shared = shared_with(s, other)
        score = bracket(s, k, other) + shared
        growth = softplus(score)
        self._leave(k)
        self._leave(other)
        s.rest[k] = (s.rest[k] + s.rest[other] - shared) + growth
        s.count[k] += s.count[other]
        s.mass[k] += s.mass[other]
        s.count[other] = 0
        s.merged[s.n_merged] = k
        s.group[k] = -1 - s.n_merged
        s.n_merged += 1
        s.pristine = 0
        s.youngest = k
        self.index.c_merge(k, other)
        words = self._words(k)
        self.weight[k] = s.rest[k] + words
        return level_of(s, s.count[k], s.mass[k]) + words, growth

    def to_arrays(self):
        """Return the numbers and the words of each slot as a dict of arrays."""
        merged = np.asarray(self.arrays["merged"])[: self.s.n_merged]
        return {"weight": self.weight.copy(), "count": self.count.copy(), "mass": np.array(self.arrays["mass"]),
                "rest": np.array(self.arrays["rest"]), "merged": merged.copy(), "index": self.index.to_arrays()}

    def from_arrays(self, arrays):
        """Restore the arrays that `to_arrays` returned."""
        cdef Py_ssize_t i
        self.weight[:], self.count[:] = arrays["weight"], arrays["count"]
        self.arrays["mass"][:], self.arrays["rest"][:] = arrays["mass"], arrays["rest"]
        self.index = InvertedIndex.from_arrays(arrays["index"])
        self._aim_index()
        merged = np.asarray(arrays["merged"])
        self._regroup(np.setdiff1d(np.flatnonzero(self.count), merged))
        self.s.n_merged, self.s.pristine = len(merged), 0
        self.s.youngest = -1
        for i in range(len(merged)):
            self.s.merged[i] = merged[i]
            self.s.group[merged[i]] = -1 - i


cdef class IndexPartners:
    """Partners of count clusters for a `MergeQueue`: those that share a word, and the best rest.

    Without `with_disjoint`, only clusters that share a word are partners. `capsule` is ``"expfam.merge_partners_v1"``.
    `is_wide` tells whether every pair is found; else `AllPartners` have to join the roots that are left.
    """

    cdef readonly object capsule
    cdef readonly CountScores scores
    cdef readonly bint is_wide
    cdef merge_partners_v1 functions

    def __init__(self, CountScores scores not None, *, with_disjoint=True):
        self.scores, self.is_wide = scores, with_disjoint
        scores.s.with_disjoint = self.is_wide
        self.functions.self = &scores.s
        self.functions.partners = count_partners
        self.capsule = PyCapsule_New(&self.functions, PARTNERS, NULL)

    def fork(self):
        """Return the same partners with scratch memory of their own, for another thread."""
        return IndexPartners(self.scores.fork(), with_disjoint=self.is_wide)

    def absorb(self, Py_ssize_t k, Py_ssize_t l):
        """Do nothing: the scores, which know of the merge, find the partners."""

    def score(self, k, slots):
        """Return the scores of slot k with other slots: (m,) nats; -inf for no partners."""
        scores = self.scores.score(k, slots)
        if not self.is_wide:
            shares = np.isin(slots, self.scores.index.scores(k, function="count")[0])
            scores = np.where(shares, scores, -np.inf)
        return scores

    def to_arrays(self):
        """Return whether all pairs are found, as a dict of one array."""
        return {"is_wide": np.array(self.is_wide)}

    @classmethod
    def from_arrays(cls, arrays, scores):
        """Make the partners from the arrays of `to_arrays`, with the same scores."""
        return cls(scores, with_disjoint=bool(arrays["is_wide"]))
