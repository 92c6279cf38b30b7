"""Log odds that two clusters of categorical rows are one, by cells off the frequent levels.

A cluster of n rows that all have the most frequent level b of every column has the log evidence

    P(n) = sum_j r(a_jb, n) - r(A_j, n),    r(z, m) = log G(z + m) - log G(z),    A_j = sum of the pseudo-counts of j.

A cluster where x rows of column j are off that level, c_l of them at level l and y missing, has in this column

    sum_l r(a_jl, c_l) - r(a_jb + n - x, x) + r(A_j + n - y, y)

in addition. So a cluster is a list of its cells off these levels, and lists are a small part of the columns where most
columns are nearly constant. E_k(n) is the sum of these terms over the list of a cluster k, for n rows in all. Two
clusters of n rows together have

    P(n) + E_k(n) + E_l(n) + sum over columns of both lists of what changes there,

and in a column with x and z cells off the level, y and v missing, and counts c, d of level l, this change is

    sum_l [r(a_jl + c, d) - r(a_jl, d)] + r(a_jb + n - z, z) - r(a_jb + n - x - z, z)
                                        - r(A_j + n - v, v) + r(A_j + n - y - v, v),    d <= c, z <= x, v <= y.

One cluster is scored with many: its columns are marked once, E_k(n) is computed once for each n, and a pair costs the
length of the other list.
"""

import math

import numpy as np
from scipy import sparse

from cpython.mem cimport PyMem_RawFree, PyMem_RawMalloc
from cpython.pycapsule cimport PyCapsule_New
from libc.stdint cimport int32_t, int64_t

from expfam.families.counts.rising cimport log_product, multiply_rising
from expfam.samplers.hierarchy._merge cimport SCORES, merge_scores_v1, softplus
from expfam.structures.merging.queue cimport MERGE_OK
from expfam.structures.simd.elementary cimport expfam_log1

from expfam.families.counts.off_cells import off_cells
from expfam.samplers.hierarchy.scores import log_gammas, log_sizes

_BLOCK = 1 << 20    # terms of P that are added up at once
_MOST_KEPT = 64     # numbers of rows at which E of a cluster is kept: one cluster after the other grows through them
_KEPT_VALUES = 1 << 18


ctypedef struct cell:
    int32_t place               # level within all columns; each column has one more, of missing values
    int32_t column
    int32_t count               # rows of the cluster

ctypedef struct cell_list:
    cell *cells                 # ascending places
    Py_ssize_t length

ctypedef struct value_of:           # of a cluster at a number of rows; side by side: one line of memory
    int64_t key
    int64_t n
    double value

ctypedef struct marked_column:      # of the marked cluster
    int64_t stamp
    double off                  # rows off the most frequent level
    double missing

ctypedef struct marked_place:
    int64_t stamp
    double count                # rows at this level, or without a value

ctypedef struct level_state:
    cell_list *lists            # (L,)
    int64_t *count              # (L,) rows
    double *weight              # (L,) W of the cluster in each slot
    const double *pure          # (n_data + 1,) P
    const double *log_gamma     # (n_data + 1,)
    const double *log_size      # (n_data + 1,) of a merged cluster, subtracted
    const double *prior         # of each place; that of a missing value is 0
    const double *base          # a_jb of each column
    const double *total         # A_j of each column
    double log_alpha
    # scratch
    marked_column *columns      # (V,) those of the marked cluster have the last stamp
    marked_place *places        # (F + V,) likewise
    value_of *own               # (n_data + 1,) E_k(n) of the marked cluster; its key is the stamp
    value_of *others            # (L, n_kept) E_l at n, in place n % n_kept; its key is the cluster's number of rows
    int64_t n_kept
    int32_t *shared             # (V + 1,) cells of a list that begin a column of the marked cluster
    int64_t stamp


ctypedef struct quotient:           # most factors are of one datum: two products wait for one division
    log_product other           # rising factorials of several data
    double over                 # kept within 1e-150 .. 1e150, as is `under`
    double under


cdef inline quotient one() noexcept nogil:
    cdef quotient value
    value.other.factor, value.other.sum, value.over, value.under = 1.0, 0.0, 1.0, 1.0
    return value


cdef void multiply_many(quotient *value, double z, double m, int sign) noexcept nogil:
    multiply_rising(&value.other, z, m, sign)


cdef void divide(quotient *value) noexcept nogil:
    value.other.sum += expfam_log1(value.over / value.under)
    value.over = value.under = 1.0


cdef inline void multiply(quotient *value, double z, double m, int sign) noexcept nogil:
    """Add sign * log_rising(z, m)."""
    if m != 1 or z > 1e15 or z < 1e-100:
        multiply_many(value, z, m, sign)
    elif sign > 0:
        value.over *= z
        if value.over > 1e150 or value.over < 1e-150:
            divide(value)
    else:
        value.under *= z
        if value.under > 1e150 or value.under < 1e-150:
            divide(value)


cdef inline double log_of(const quotient *value) noexcept nogil:
    cdef double other = value.other.sum
    if value.other.factor != 1.0:
        other += expfam_log1(value.other.factor)
    return other + expfam_log1(value.over / value.under)


cdef double off_evidence(const level_state *s, double n, cell_list list) noexcept nogil:
    """Return E(n) of a list of cells."""
    cdef quotient value = one()
    cdef Py_ssize_t i
    cdef int32_t place, column = -1, next_column
    cdef double off = 0.0, missing = 0.0, count
    for i in range(list.length):
        place, count = list.cells[i].place, list.cells[i].count
        next_column = list.cells[i].column
        if next_column != column:
            if off > 0:
                finish_column(s, &value, n, column, off, missing)
            column, off, missing = next_column, 0.0, 0.0
        off += count
        if s.prior[place] > 0:
            multiply(&value, s.prior[place], count, 1)
        else:
            missing = count
    if off > 0:
        finish_column(s, &value, n, column, off, missing)
    return log_of(&value)


cdef inline double evidence(const level_state *s, Py_ssize_t k) noexcept nogil:
    """Return the log evidence of the rows of slot k."""
    return s.pure[s.count[k]] + off_evidence(s, <double> s.count[k], s.lists[k])


cdef inline void finish_column(const level_state *s, quotient *value, double n, int32_t column, double off,
                               double missing) noexcept nogil:
    """Add the terms of the most frequent level of a column, and of the column's total."""
    multiply(value, s.base[column] + (n - off), off, -1)
    if missing > 0:
        multiply(value, s.total[column] + (n - missing), missing, 1)


cdef void mark(level_state *s, cell_list list) noexcept nogil:
    """Lay out the cells of a list by place, and their sums by column."""
    cdef Py_ssize_t i
    cdef int32_t place
    cdef double count
    cdef marked_column *column
    s.stamp += 1
    for i in range(list.length):
        place, count = list.cells[i].place, list.cells[i].count
        s.places[place].stamp, s.places[place].count = s.stamp, count
        column = &s.columns[list.cells[i].column]
        if column.stamp != s.stamp:
            column.stamp, column.off, column.missing = s.stamp, 0.0, 0.0
        column.off += count
        if s.prior[place] == 0:
            column.missing = count


cdef inline double evidence_at(value_of *kept, int64_t key, const level_state *s, int64_t n,
                               cell_list list) noexcept nogil:
    """Return E(n) of a list, computed where `kept` is of another key or number of rows."""
    if kept.key != key or kept.n != n:
        kept.key, kept.n = key, n
        kept.value = off_evidence(s, <double> n, list)
    return kept.value


cdef void change_column(const level_state *s, quotient *value, double n, int32_t column, cell_list other,
                        Py_ssize_t j) noexcept nogil:
    """Add the change of a column of the marked cluster that another list has from its cell j on.

    No step depends on which of the two is marked, so both orders give the same bits.
    """
    cdef double off = 0.0, missing = 0.0, count, less, more
    cdef int32_t place
    while j < other.length and other.cells[j].column == column:
        place, count = other.cells[j].place, other.cells[j].count
        j += 1
        off += count
        if s.prior[place] == 0:
            missing = count
        elif s.places[place].stamp == s.stamp:
            less, more = min(count, s.places[place].count), max(count, s.places[place].count)
            multiply(value, s.prior[place] + more, less, 1)
            multiply(value, s.prior[place], less, -1)
    less, more = min(off, s.columns[column].off), max(off, s.columns[column].off)
    multiply(value, s.base[column] + (n - less), less, 1)
    multiply(value, s.base[column] + (n - less - more), less, -1)
    less, more = min(missing, s.columns[column].missing), max(missing, s.columns[column].missing)
    if less > 0:
        multiply(value, s.total[column] + (n - less), less, -1)
        multiply(value, s.total[column] + (n - less - more), less, 1)


cdef Py_ssize_t find_shared(const level_state *s, cell_list other) noexcept nogil:
    """List the cells of another list that begin a column of the marked one; return their number.

    No branch depends on a cell: where half of the columns are shared, a processor would guess half of them wrong.
    """
    cdef Py_ssize_t j, n = 0
    cdef int32_t column, last = -1
    for j in range(other.length):
        column = other.cells[j].column
        s.shared[n] = <int32_t> j
        n += (column != last) & (s.columns[column].stamp == s.stamp)
        last = column
    return n


cdef double change(const level_state *s, double n, cell_list other) noexcept nogil:
    """Return the change in all columns that another list shares with the marked cluster."""
    cdef quotient value = one()
    cdef Py_ssize_t i, j
    cdef int32_t column
    for i in range(find_shared(s, other)):
        j = s.shared[i]
        column = other.cells[j].column
        change_column(s, &value, n, column, other, j)
    return log_of(&value)


cdef int level_score(void *self, Py_ssize_t k, const Py_ssize_t *ls, Py_ssize_t m, double *out) noexcept nogil:
    """Compute the log odds that slot k and each of ls are one cluster.

    Each sum of two clusters is one of two terms, so both orders of a pair give the same bits.
    """
    cdef level_state *s = <level_state *> self
    cdef Py_ssize_t i, other
    cdef int64_t n
    cdef double together
    cdef value_of *kept
    mark(s, s.lists[k])
    for i in range(m):
        other = ls[i]
        n = s.count[k] + s.count[other]
        together = evidence_at(&s.own[n], s.stamp, s, n, s.lists[k])
        kept = &s.others[other * s.n_kept + n % s.n_kept]
        together = together + evidence_at(kept, s.count[other], s, n, s.lists[other])
        together = s.pure[n] + together + change(s, <double> n, s.lists[other])
        out[i] = (s.log_alpha + s.log_gamma[n] + together) - (s.weight[k] + s.weight[other]) - s.log_size[n]
    return MERGE_OK


cdef Py_ssize_t join(const cell_list *a, const cell_list *b, cell *out) noexcept nogil:
    """Write the cells of two lists together; return their number."""
    cdef Py_ssize_t i = 0, j = 0, n = 0
    while i < a.length or j < b.length:
        if j == b.length or (i < a.length and a.cells[i].place < b.cells[j].place):
            out[n] = a.cells[i]
            i += 1
        elif i == a.length or b.cells[j].place < a.cells[i].place:
            out[n] = b.cells[j]
            j += 1
        else:
            out[n] = a.cells[i]
            out[n].count += b.cells[j].count
            i += 1
            j += 1
        n += 1
    return n


cdef class _Lists:
    """Lists of cells by slot, which all threads read."""

    cdef cell_list *lists
    cdef Py_ssize_t n_slots

    def __cinit__(self, Py_ssize_t n_slots):
        cdef Py_ssize_t k
        self.n_slots = n_slots
        self.lists = <cell_list *> PyMem_RawMalloc(max(n_slots, 1) * sizeof(cell_list))
        if self.lists == NULL:
            raise MemoryError("no memory for the lists of clusters")
        for k in range(n_slots):
            self.lists[k].cells, self.lists[k].length = NULL, 0

    def __dealloc__(self):
        cdef Py_ssize_t k
        if self.lists != NULL:
            for k in range(self.n_slots):
                PyMem_RawFree(self.lists[k].cells)
            PyMem_RawFree(self.lists)

    def fill(self, S, const int32_t[::1] column):
        """Set the lists from CSR counts with ascending places; `column` (n_places,) has theirs."""
        cdef const int64_t[::1] starts = np.ascontiguousarray(S.indptr, dtype=np.int64)
        cdef const int32_t[::1] places = np.ascontiguousarray(S.indices, dtype=np.int32)
        cdef const int32_t[::1] counts = np.ascontiguousarray(S.data, dtype=np.int32)
        cdef Py_ssize_t k, e
        cdef cell *cells
        for k in range(self.n_slots):
            cells = new_cells(starts[k + 1] - starts[k])
            for e in range(starts[k], starts[k + 1]):
                cells[e - starts[k]].place, cells[e - starts[k]].column = places[e], column[places[e]]
                cells[e - starts[k]].count = counts[e]
            PyMem_RawFree(self.lists[k].cells)
            self.lists[k].cells, self.lists[k].length = cells, starts[k + 1] - starts[k]

    cdef int merge(self, Py_ssize_t k, Py_ssize_t l) except -1:
        """Give the cells of slot l to slot k."""
        cdef cell *cells = new_cells(self.lists[k].length + self.lists[l].length)
        cdef Py_ssize_t length = join(&self.lists[k], &self.lists[l], cells)
        PyMem_RawFree(self.lists[k].cells)
        PyMem_RawFree(self.lists[l].cells)
        self.lists[k].cells, self.lists[k].length = cells, length
        self.lists[l].cells, self.lists[l].length = NULL, 0
        return 0


cdef cell *new_cells(Py_ssize_t n) except NULL:
    cdef cell *cells = <cell *> PyMem_RawMalloc(max(n, 1) * sizeof(cell))
    if cells == NULL:
        raise MemoryError("no memory for the cells of a cluster")
    return cells


cdef class LevelScores:
    """Log odds of merging two clusters of categorical rows, by cells off the frequent levels.

    Arguments and the attributes `capsule`, `weight`, `count` and `block` are those of `OddsScores`. `home` (L,) links
    the slot of each leaf to that of the cluster that took it up; `cells` (L, n_places) are those of the leaves, CSR.
    Scores differ from those of `OddsScores` in the last bits: they are sums in another order.
    """

    cdef readonly object capsule, weight, count, block, home
    cdef readonly object cells      # (L, n_places) CSR, of the leaves
    cdef level_state s
    cdef merge_scores_v1 functions
    cdef _Lists lists
    cdef dict arrays                # what the pointers point into

    def __init__(self, model, data, labels, *, leaf_weight, by_size):
        family, L, N = model.family, int(labels.max()) + 1, data.n_rows
        found = off_cells(family, data.X)
        leaves = sparse.csr_array((np.ones(N, dtype=np.int32), (labels, np.arange(N))), shape=(L, N))
        self.cells = _summed(leaves @ found.cells)
        self.count = np.bincount(labels, minlength=L).astype(np.int64)
        self.home, self.lists = np.arange(L), _Lists(L)
        self.lists.fill(self.cells, found.column)
        self.arrays = {
            "column": found.column, "prior": found.prior, "base": found.base, "total": found.total,
            "pure": _pure(found.base, found.total, N),
            "log_gamma": log_gammas(N), "log_size": log_sizes(N, by_size),
        }
        self.s.log_alpha = math.log(model.weights.alpha)
        self.weight = np.zeros(L)
        self._aim()
        self._scratch()
        self.block = self.s.log_alpha + self.arrays["log_gamma"][self.count] + self._evidences()
        self.weight[:] = self.block if leaf_weight is None else leaf_weight

    def _aim(self):
        cdef double[::1] weight = self.weight
        cdef int64_t[::1] count = self.count
        cdef const double[::1] view
        self.s.lists, self.s.weight, self.s.count = self.lists.lists, &weight[0], &count[0]
        view = self.arrays["pure"]
        self.s.pure = &view[0]
        view = self.arrays["log_gamma"]
        self.s.log_gamma = &view[0]
        view = self.arrays["log_size"]
        self.s.log_size = &view[0]
        view = self.arrays["prior"]
        self.s.prior = &view[0]
        view = self.arrays["base"]
        self.s.base = &view[0]
        view = self.arrays["total"]
        self.s.total = &view[0]

    def _scratch(self):
        """Allocate the scratch memory of one thread, and make the capsule that names it."""
        cdef Py_ssize_t n_columns = len(self.arrays["base"])
        cdef Py_ssize_t n_kept = max(1, min(_MOST_KEPT, _KEPT_VALUES // len(self.count)))
        cdef int64_t[:, ::1] columns = np.zeros((n_columns, 3), dtype=np.int64)
        cdef int64_t[:, ::1] places = np.zeros((len(self.arrays["prior"]), 2), dtype=np.int64)
        cdef int64_t[:, ::1] own = np.zeros((len(self.arrays["pure"]), 3), dtype=np.int64)
        cdef int64_t[:, ::1] others = np.zeros((len(self.count) * n_kept, 3), dtype=np.int64)
        cdef int32_t[::1] shared = np.empty(n_columns + 1, dtype=np.int32)
        self.arrays["scratch"] = (columns, places, own, others, shared)
        self.s.columns, self.s.places = <marked_column *> &columns[0, 0], <marked_place *> &places[0, 0]
        self.s.own, self.s.others = <value_of *> &own[0, 0], <value_of *> &others[0, 0]
        self.s.shared, self.s.stamp, self.s.n_kept = &shared[0], 0, n_kept
        self.functions.self = &self.s
        self.functions.score = level_score
        self.capsule = PyCapsule_New(&self.functions, SCORES, NULL)

    def _evidences(self):
        """Return the log evidence of each slot: (L,) nats."""
        cdef Py_ssize_t k
        cdef double[::1] view = np.empty(len(self.count))
        for k in range(view.shape[0]):
            view[k] = evidence(&self.s, k)
        return np.asarray(view)

    def fork(self):
        """Return the same scores with scratch memory of their own, for another thread."""
        cdef LevelScores other = LevelScores.__new__(LevelScores)
        other.weight, other.count, other.block, other.home = self.weight, self.count, self.block, self.home
        other.lists, other.cells, other.arrays, other.s = self.lists, self.cells, dict(self.arrays), self.s
        other._scratch()
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
            level_score(&self.s, k, &ls[0], ls.shape[0], &view[0])
        return out

    def absorb(self, Py_ssize_t k, Py_ssize_t l):
        """Move the data of slot l into slot k; see `OddsScores.absorb`."""
        cdef double block, apart, growth
        cdef level_state *s = &self.s
        self.lists.merge(k, l)
        s.count[k] += s.count[l]
        s.count[l] = 0
        self.home[l] = k
        block = s.log_alpha + s.log_gamma[s.count[k]] + evidence(s, k)
        apart = s.weight[k] + s.weight[l]
        growth = softplus(block - apart)
        s.weight[k] = apart + growth
        return block, growth

    def to_arrays(self):
        """Return weights, numbers of data, and the slot that holds each leaf, as a dict of arrays."""
        return {"weight": self.weight.copy(), "count": self.count.copy(), "home": _ends(self.home)}

    def from_arrays(self, arrays):
        """Restore what `to_arrays` returned; the cells of a cluster are those of its leaves."""
        self.weight[:], self.count[:] = arrays["weight"], arrays["count"]
        self.home[:] = arrays["home"]
        L = len(self.count)
        joined = sparse.csr_array((np.ones(L, dtype=np.int32), (self.home, np.arange(L))), shape=(L, L))
        self.lists.fill(_summed(joined @ self.cells), self.arrays["column"])
        self._scratch()     # what it holds is of other clusters


def _summed(S):
    """Return CSR counts with one entry for each row and column, by ascending columns."""
    S = sparse.csr_array(S)
    S.sum_duplicates()
    return S


def _ends(home):
    """Return the last slot of each chain of links."""
    further = home[home]
    while not np.array_equal(further, home):
        home, further = further, further[further]
    return home.copy()


def _pure(base, total, n_data):
    """Return P of 0 to n_data rows: (n_data + 1,) nats."""
    terms, step = np.zeros(n_data + 1), max(1, _BLOCK // len(base))
    pairs, pair = np.unique(np.stack([base, total]), axis=1, return_inverse=True)  # few: each logarithm once
    for start in range(0, n_data, step):
        n = np.arange(start, min(start + step, n_data), dtype=np.float64)[:, None]
        logs = np.log((pairs[0] + n) / (pairs[1] + n))
        terms[start + 1 : start + 1 + len(n)] = logs.take(pair.ravel(), axis=1).sum(axis=1)
    return np.cumsum(terms)
