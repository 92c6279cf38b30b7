"""Compiled components of the count families: owner of the statistics, moves of data.

A row of the table holds the counts of one word in all slots, so that a document is scored against K clusters by reading
a few contiguous rows. Counts are int32 and exact; fractional data, and totals beyond 2^31 - 1, use a float64 table.
With layout="clusters" there is no table: each cluster keeps its counts next to its list of words and finds them by
hashing, so that memory grows with the present words. This suits hierarchies, which have many small clusters; a scan is
slower. Storage is in `_table`, scores and evidences are in `_scores`. Adding and removing a datum costs O(nnz).
"""

import numpy as np
from scipy import sparse

from cpython.mem cimport PyMem_RawFree
from cpython.pycapsule cimport PyCapsule_New
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memset

from expfam.contracts cimport EXPFAM_ABI, EXPFAM_OK, EXPFAM_PYTHON, EXPFAM_RANGE, components_v1
from expfam.families.counts._scores cimport (
    MAX_FACTORS, N_TABLED, TILE, counts_log_marginal, counts_log_merged, counts_log_predictive,
    counts_log_predictive_self, counts_log_remainder, set_totals,
)
from expfam.families.counts._table cimport (
    CATEGORICAL, MULTINOMIAL, POISSON, copy_words, count_table, drop_stale, exchange_columns, free_table, get, holds,
    includes, listed_at, make_room, make_word_room, new_lists, new_words, note_present, padded, put, rest_of, row_at,
    set_listed, slot_list, unset_listed, word_list,
)
from expfam.families.counts.rising cimport log_rising
from expfam.families.row_statistics cimport row_statistics_capsule, row_statistics_v1
from expfam.families.rows cimport (
    ROWS_FLOAT64, ROWS_INT64, ROWS_ONES, csr_rows, entry_column, entry_value, open_rows, row_start,
)
from expfam.structures.simd.prefetch cimport expfam_prefetch

from expfam.amounts import counted
from expfam.errors import CapabilityError, DataError, SupportError
from expfam.families.column_sums import column_sums
from expfam.families.counts import word_lists
from expfam.families.counts.pseudocounts import row_sums
from expfam.families.support import first_where

cdef enum:
    SLACK = 64              # stale entries of a list allowed in addition to twice its present words
    MAX_COUNT = 2147483647

cdef double SAFE = 1e280    # bound of products and of their inverses
cdef double ROUNDING = 1e-8   # relative error of fractional counts after adding and removing data

cdef dict MODELS = {"multinomial": MULTINOMIAL, "poisson": POISSON, "categorical": CATEGORICAL}


cdef int out_of_memory(count_table *t) noexcept nogil:
    with gil:
        (<CountComponents> t.owner).pending = MemoryError("no memory for the list of a cluster's words")
    return EXPFAM_PYTHON


# ---- changes -------------------------------------------------------------------------------------------------------

cdef int counts_add(void *self, Py_ssize_t i, Py_ssize_t k) noexcept nogil:
    cdef count_table *t = <count_table *> self
    cdef Py_ssize_t p, w, start = row_start(&t.x, i), stop = row_start(&t.x, i + 1)
    cdef double old, length = t.length[i]
    if k < 0 or k >= t.capacity:
        return EXPFAM_RANGE
    if not t.is_real and t.total[k] + length > MAX_COUNT:
        for p in range(start, stop):
            if get(t, entry_column(&t.x, p), k) + entry_value(&t.x, p) > MAX_COUNT:
                return EXPFAM_RANGE
    if not make_room(t, k, stop - start):
        return out_of_memory(t)
    if t.by_word:
        for p in range(start, stop):
            if not make_word_room(t, entry_column(&t.x, p)):
                return out_of_memory(t)
    elif not t.by_cluster:
        for p in range(start, stop):
            w = entry_column(&t.x, p)
            if get(t, w, k) == 0:
                expfam_prefetch(listed_at(t, w, k), 1)
    for p in range(start, stop):
        w = entry_column(&t.x, p)
        old = get(t, w, k)
        if old == 0:
            note_present(t, w, k)
        put(t, w, k, old + entry_value(&t.x, p))
    set_totals(t, k, t.n[k] + 1.0, t.total[k] + length)
    return EXPFAM_OK


cdef int counts_clear(void *self, Py_ssize_t k) noexcept nogil:
    cdef count_table *t = <count_table *> self
    cdef Py_ssize_t j
    if k < 0 or k >= t.capacity:
        return EXPFAM_RANGE
    if not t.by_cluster:
        for j in range(t.lists[k].length):
            put(t, t.lists[k].words[j], k, 0.0)
            unset_listed(t, t.lists[k].words[j], k)
    elif t.lists[k].length:
        memset(t.lists[k].index, 0, (t.lists[k].mask + 1) * sizeof(int32_t))
    t.lists[k].length = t.lists[k].present = 0
    set_totals(t, k, 0.0, 0.0)
    return EXPFAM_OK


cdef inline void take_out(count_table *t, Py_ssize_t w, Py_ssize_t k, double count) noexcept nogil:
    cdef double rest = rest_of(t, get(t, w, k), count)
    put(t, w, k, rest)
    if rest == 0 and count != 0:
        t.lists[k].present -= 1


cdef int finish_removal(count_table *t, Py_ssize_t k, double n, double total) noexcept nogil:
    if n == 0:
        return counts_clear(t, k)
    set_totals(t, k, n, total)
    if t.lists[k].length > 3 * t.lists[k].present + SLACK:
        drop_stale(t, k)
    return EXPFAM_OK


cdef int counts_remove(void *self, Py_ssize_t i, Py_ssize_t k) noexcept nogil:
    cdef count_table *t = <count_table *> self
    cdef Py_ssize_t p
    if not holds(t, i, k):
        return EXPFAM_RANGE
    for p in range(row_start(&t.x, i), row_start(&t.x, i + 1)):
        take_out(t, entry_column(&t.x, p), k, entry_value(&t.x, p))
    return finish_removal(t, k, t.n[k] - 1.0, rest_of(t, t.total[k], t.length[i]))


cdef int counts_absorb(void *self, Py_ssize_t k, Py_ssize_t l) noexcept nogil:
    cdef count_table *t = <count_table *> self
    cdef word_list *words
    cdef Py_ssize_t j, w
    cdef double old, count
    if k == l or min(k, l) < 0 or max(k, l) >= t.capacity:
        return EXPFAM_RANGE
    words = &t.lists[l]
    if not t.is_real and t.total[k] + t.total[l] > MAX_COUNT:
        for j in range(words.length):
            if get(t, words.words[j], k) + get(t, words.words[j], l) > MAX_COUNT:
                return EXPFAM_RANGE
    if not make_room(t, k, words.present):
        return out_of_memory(t)
    for j in range(words.length if t.by_word else 0):
        if not make_word_room(t, words.words[j]):
            return out_of_memory(t)
    for j in range(words.length):
        w = words.words[j]
        count = get(t, w, l)
        if count != 0:
            old = get(t, w, k)
            if old == 0:
                note_present(t, w, k)
            put(t, w, k, old + count)
    set_totals(t, k, t.n[k] + t.n[l], t.total[k] + t.total[l])
    return counts_clear(t, l)


cdef int counts_subtract(void *self, Py_ssize_t k, Py_ssize_t l) noexcept nogil:
    cdef count_table *t = <count_table *> self
    cdef Py_ssize_t j, w
    if k == l or not includes(t, k, l):
        return EXPFAM_RANGE
    for j in range(t.lists[l].length):
        w = t.lists[l].words[j]
        take_out(t, w, k, get(t, w, l))
    return finish_removal(t, k, rest_of(t, t.n[k], t.n[l]), rest_of(t, t.total[k], t.total[l]))


cdef inline void exchange(double *values, Py_ssize_t k, Py_ssize_t l) noexcept nogil:
    values[k], values[l] = values[l], values[k]


cdef int counts_swap(void *self, Py_ssize_t k, Py_ssize_t l) noexcept nogil:
    cdef count_table *t = <count_table *> self
    cdef word_list words
    if min(k, l) < 0 or max(k, l) >= t.capacity:
        return EXPFAM_RANGE
    if k == l:
        return EXPFAM_OK
    if not t.by_cluster:
        exchange_columns(t, k, l)
    words = t.lists[k]
    t.lists[k] = t.lists[l]
    t.lists[l] = words
    exchange(t.n, k, l)
    exchange(t.total, k, l)
    exchange(t.level, k, l)
    exchange(t.slope, k, l)
    exchange(t.evidence, k, l)
    return EXPFAM_OK


cdef void expect_row(const csr_rows *x, Py_ssize_t i) noexcept nogil:
    """Prefetch the entries of datum i."""
    cdef Py_ssize_t start = row_start(x, i), n = row_start(x, i + 1) - start
    cdef Py_ssize_t width = 8 if x.wide_columns else 4
    expfam_prefetch(<const char *> x.columns + start * width, n * width)
    if x.kind != ROWS_ONES:
        width = 8 if x.kind in (ROWS_FLOAT64, ROWS_INT64) else 4
        expfam_prefetch(<const char *> x.values + start * width, n * width)


cdef void counts_expect(void *self, Py_ssize_t i, Py_ssize_t k) noexcept nogil:
    cdef const count_table *t = <const count_table *> self
    cdef Py_ssize_t p
    if k < 0:
        expect_row(&t.x, i)
    elif t.by_word:
        for p in range(row_start(&t.x, i), row_start(&t.x, i + 1)):
            expfam_prefetch(&t.words[entry_column(&t.x, p)], sizeof(slot_list))
    elif not t.by_cluster:
        for p in range(row_start(&t.x, i), row_start(&t.x, i + 1)):
            expfam_prefetch(row_at(t, entry_column(&t.x, p), k), 1)


cdef int counts_add_statistics(void *self, Py_ssize_t i, double sign, double *S) noexcept nogil:
    cdef const count_table *t = <const count_table *> self
    cdef Py_ssize_t p, w
    for p in range(row_start(&t.x, i), row_start(&t.x, i + 1)):
        w = entry_column(&t.x, p)
        if w < t.n_columns:         # totals of categorical columns are no statistics
            S[w] += sign * entry_value(&t.x, p)
    return EXPFAM_OK


def count_rows(X):
    """Return rows of counts as CSR arrays; counts within 1e-9 of integers are rounded.

    The results are values, columns and row starts; the sum of each row (N,) float64; whether a count is not an integer;
    and the largest sum of a column. CSR data keep the caller's arrays unless counts had to be rounded.
    """
    X = X if sparse.issparse(X) else sparse.csr_array(X)
    values, columns, starts = (np.ascontiguousarray(a) for a in (X.data, X.indices, X.indptr))
    sums = row_sums(X)
    inexact = values.dtype.kind == "f" and first_where(X, lambda v: v != np.rint(v)) is not None
    is_fractional = inexact and first_where(X, lambda v: np.abs(v - np.rint(v)) > 1e-9) is not None
    if inexact and not is_fractional:       # validation allows differences of 1e-9
        X = sparse.csr_array((np.rint(values), columns, starts), shape=X.shape)
        X.eliminate_zeros()
        values, columns, starts, sums = X.data, X.indices, X.indptr, np.rint(sums)
    return values, columns, starts, sums, is_fractional, float(column_sums(X).max())


# ---- the owner -----------------------------------------------------------------------------------------------------

cdef class CountComponents:
    """Owner of the statistics of a multinomial, Poisson or categorical family.

    With the layout "features" it has a table with a row for each word, with "clusters" a list of counts for each
    cluster. The first needs 4 bytes (8 for float64) and 1 bit for each column and slot, and 4 to 8 bytes for each
    present word; the second 20 to 56 bytes for each present word, and nothing else. A large table that would be almost
    empty is not made: the layout "features" then has a table of the words that many rows of data have, and for each
    other word a list of slots with their counts, 16 bytes for each word and 12 to 20 for each present one. `is_by_word`
    tells so. Scores are the same up to their last bits.

    `capsule` is named "expfam.components_v1". `pending` is the exception of a function that returned EXPFAM_PYTHON, or
    None. `is_float64` tells whether counts are float64 and not int32: for fractional data or statistics, for totals
    beyond 2^31 - 1, and for the layout "clusters".
    """

    cdef components_v1 api
    cdef count_table t
    cdef row_statistics_v1 statistics
    cdef readonly object capsule, row_statistics
    cdef public object pending
    cdef object family, arrays, prior, tabled, block
    cdef double[::1] lengths
    cdef double data_total          # sum of all counts of the data
    cdef double data_slack          # ROUNDING if they are fractional, else 0
    cdef Py_ssize_t data_entries    # number of stored entries of the data
    cdef Py_ssize_t loaded          # number of counts above 0 that were loaded

    def __cinit__(self):
        memset(&self.t, 0, sizeof(count_table))

    def __init__(self, family, data, Py_ssize_t capacity, *, layout="features"):
        model = getattr(family, "count_model", None)
        if model not in MODELS:
            raise CapabilityError(
                f"count components serve families whose count_model is one of {sorted(MODELS)};"
                f" {family.name!r} has {model!r}"
            )
        if layout not in ("features", "clusters"):
            raise ValueError(f'layout must be "features" or "clusters"; got {layout!r}')
        family.require_bound()
        self.t.model = MODELS[model]
        self.t.by_cluster = layout == "clusters"
        self.loaded = 0
        self.t.n_columns = self.t.n_words = data.n_statistics
        if self.t.model == CATEGORICAL:
            self.t.n_words += len(family.levels_)
        if self.t.n_words > MAX_COUNT:
            raise DataError(
                f"{family.name}: {counted(self.t.n_words, 'column is', 'columns are')} more than the limit, {MAX_COUNT}"
            )
        self.t.owner = <void *> self
        is_real = self._open(family, data)
        self._set_family(family)
        self._allocate(max(capacity, 1), is_real)
        self._set_bounds()
        self.api.abi_version = EXPFAM_ABI
        self.api.struct_size = sizeof(components_v1)
        self.api.flags = 0
        self.api.self = <void *> &self.t
        self.api.work_size = 3 * TILE
        self.api.log_predictive = counts_log_predictive
        self.api.log_predictive_self = counts_log_predictive_self
        self.api.log_marginal = counts_log_marginal
        self.api.log_merged = counts_log_merged
        self.api.log_remainder = counts_log_remainder
        self.api.add = counts_add
        self.api.remove = counts_remove
        self.api.absorb = counts_absorb
        self.api.subtract = counts_subtract
        self.api.clear = counts_clear
        self.api.swap = counts_swap
        self.api.expect = counts_expect
        self.capsule = PyCapsule_New(&self.api, "expfam.components_v1", NULL)
        self.statistics.self, self.statistics.add = <void *> &self.t, counts_add_statistics
        self.row_statistics = row_statistics_capsule(&self.statistics)

    def __dealloc__(self):
        free_table(&self.t)

    @property
    def capacity(self):
        """Return the number of slots that can be used."""
        return self.t.capacity

    @property
    def is_by_word(self):
        """Return whether words that few data have keep a list of slots in place of a row of a table."""
        return bool(self.t.by_word)

    @property
    def n_rows_of_words(self):
        """Return how many words have a row of the table."""
        return self.t.n_tabled

    @property
    def is_float64(self):
        """Return whether the counts are float64."""
        return bool(self.t.is_real)

    def _open(self, family, data):
        """Point the table at the rows of the data; return whether they need float64 counts.

        Dense counts become CSR. Codes become columns of phi, followed by columns of the totals.
        """
        if self.t.model == CATEGORICAL:
            columns, starts, block = family.hot_columns(data.X)
            values, sums = None, np.diff(starts).astype(np.float64)
            # each row holds its columns of phi, then the totals of the same columns of X
            at = np.arange(columns.size) + np.repeat(starts[0 : data.n_rows], np.diff(starts))
            both = np.empty(2 * columns.size, dtype=np.int32)
            both[at] = columns
            both[at + np.repeat(np.diff(starts), np.diff(starts))] = self.t.n_columns + block
            columns, starts = both, 2 * starts
            heaviest, is_real = float(data.n_rows), False
        else:
            values, columns, starts, sums, is_real, heaviest = count_rows(data.X)
        self.arrays = (values, columns, starts)
        open_rows(&self.t.x, values, columns, starts)
        self.lengths = np.ascontiguousarray(sums)
        self.t.length = &self.lengths[0]
        self.t.n_rows = data.n_rows
        self.data_slack = ROUNDING if is_real else 0.0
        self.t.slack = max(self.t.slack, self.data_slack)
        self.data_total = float(sums.sum())
        self.data_entries = len(columns)
        return is_real or heaviest > MAX_COUNT or self.t.by_cluster

    def set_data(self, data):
        """Read the rows of another data set with the same statistics.

        The table gets float64 counts where sums of these statistics and rows could not be int32.
        """
        needs_real = self._open(self.family, data)
        total = float(np.sum(<double[:self.t.capacity]> self.t.total))
        if needs_real or total + self.data_total > MAX_COUNT:
            self._widen()
        self._set_bounds(total)

    def _set_family(self, family):
        """Copy the family's pseudo-counts and compute the tables that follow from them."""
        a, totals = family.pseudocounts()
        self.prior = np.concatenate([a, totals]) if self.t.model == CATEGORICAL else a
        cdef const double[::1] prior = self.prior
        if prior.shape[0] != self.t.n_words:
            given = counted(len(a), "pseudo-count")
            raise DataError(f"{family.name}: {given} for {counted(self.t.n_columns, 'column')}")
        self.t.prior = &prior[0]
        self.t.prior_total = float(totals.sum())
        self.t.rate = family.rate if self.t.model == POISSON else 1.0
        self.t.tabled = NULL
        cdef double[::1] tabled
        cdef Py_ssize_t c
        if self.t.model != CATEGORICAL and a.min() == a.max():
            self.tabled = np.empty(N_TABLED)
            tabled = self.tabled
            for c in range(N_TABLED):
                tabled[c] = log_rising(prior[0], c)
            self.t.tabled = &tabled[0]
        self.family = family

    def _set_bounds(self, double loaded=0.0):
        """Set the number of factors whose products, and ratios of these, stay within 1e+-280."""
        cdef double most = max(self.data_total + loaded, <double> MAX_COUNT)
        most += self.t.prior_total + float(self.prior.max())
        cdef double least = min(1.0, float(self.prior.min()))
        cdef double digits = np.log10(most) - np.log10(least)
        self.t.max_factors = int(min(max(np.log10(SAFE) / max(digits, 1e-3), 1.0), MAX_FACTORS))

    def _allocate(self, Py_ssize_t capacity, bint is_real):
        """Replace the table by one of `capacity` slots; keep the statistics of slots that fit."""
        cdef count_table old = self.t
        cdef count_table t = self.t
        cdef Py_ssize_t j, k
        is_real = is_real or t.by_cluster
        t.capacity, t.stride, t.is_real = capacity, padded(capacity), is_real
        t.by_word = not is_real and self._suits_lists(capacity)
        t.words, t.n_tabled = NULL, 0 if t.by_cluster or t.by_word else t.n_words
        if t.by_word and not new_words(&t, word_lists.ROW_SHARE):
            raise MemoryError(f"{self.family.name}: no memory for the counts of {counted(t.n_words, 'column')}")
        cdef size_t width = sizeof(double) if is_real else sizeof(int32_t)
        cdef Py_ssize_t n_entries = t.n_tabled * t.stride
        try:    # NumPy uses huge pages where it can; with small pages each word of a datum lies in its own page
            # a line more to align the rows, and another that a run of slots at the end of the last row is padded with
            block = np.zeros(n_entries * width + 128, dtype=np.uint8)
        except (MemoryError, ValueError):       # ValueError: the size exceeds the address space
            block = None
        if block is None or not new_lists(&t):
            PyMem_RawFree(t.words)
            raise MemoryError(
                f"{self.family.name}: {counted(t.n_words, 'column')} x {counted(capacity, 'slot needs', 'slots need')}"
                f" {n_entries * width / 2**30:.1f} GiB: use fewer components or columns, or layout=\"clusters\""
            )
        t.counts = <void *> ((<size_t> block.ctypes.data + 63) & ~<size_t> 63)
        if t.by_word and not copy_words(&old, &t):
            free_table(&t)
            raise MemoryError(f"{self.family.name}: no memory for the counts of {counted(t.n_words, 'column')}")
        kept, self.block = self.block, block    # keep the old block until its counts are copied
        self.t = t
        for k in range(t.stride):
            set_totals(&self.t, k, 0.0, 0.0)
        for k in range(min(old.capacity, capacity)):
            self.t.lists[k] = old.lists[k]
            old.lists[k].words = old.lists[k].values = old.lists[k].index = NULL
            for j in range(0 if t.by_cluster or t.by_word else self.t.lists[k].length):
                set_listed(&self.t, self.t.lists[k].words[j], k)
                put(&self.t, self.t.lists[k].words[j], k, get(&old, self.t.lists[k].words[j], k))
            set_totals(&self.t, k, old.n[k], old.total[k])
        free_table(&old)
        del kept

    cdef bint _suits_lists(self, Py_ssize_t capacity):
        """Return whether this model may keep its counts by word, and should."""
        if self.t.by_cluster or self.t.model == CATEGORICAL:
            return False
        return word_lists.suits_lists(self.t.n_words, padded(capacity), max(self.data_entries, self.loaded))

    def _widen(self):
        """Replace int32 counts by float64 counts."""
        if not self.t.is_real:
            self._allocate(self.t.capacity, True)

    def reserve(self, Py_ssize_t capacity):
        """Make room for `capacity` slots; grow at least to twice the present capacity."""
        if capacity > self.t.capacity:
            self._allocate(max(capacity, 2 * self.t.capacity), self.t.is_real)

    def refresh(self, labels):
        """Recompute the statistics of each slot from its members; `labels` (n_rows,) are slots.

        Integer counts are exact, so they never need it.
        """
        cdef const int[::1] label = np.ascontiguousarray(labels, dtype=np.int32)
        cdef Py_ssize_t i, k
        cdef int code = EXPFAM_OK
        for k in range(self.t.capacity):
            counts_clear(&self.t, k)
        for i in range(self.t.n_rows):
            if i + 1 < self.t.n_rows and label[i + 1] >= 0:
                counts_expect(&self.t, i + 1, label[i + 1])
            if label[i] >= 0:
                code = counts_add(&self.t, i, label[i])
                if code == EXPFAM_PYTHON:
                    raise self.pending
                if code:
                    raise SupportError(f"{self.family.name}: datum {i} does not fit into slot {label[i]}")

    def rebind(self, family):
        """Use the hyper-parameters of another family with the same statistics."""
        cdef Py_ssize_t k
        self._set_family(family)
        self._set_bounds(float(np.sum(<double[:self.t.capacity]> self.t.total)))
        for k in range(self.t.stride):
            set_totals(&self.t, k, self.t.n[k], self.t.total[k])

    def load(self, n, S):
        """Set the statistics of the slots 0..K-1 from arrays and empty the others.

        `n` is (K,) and `S` (K, F), dense or CSR.
        """
        n = np.ascontiguousarray(n, dtype=np.float64)
        S = sparse.csr_array(S)
        if S.shape != (n.shape[0], self.t.n_columns):
            raise DataError(
                f"{self.family.name}: statistics of {counted(n.shape[0], 'cluster')} must have shape"
                f" ({n.shape[0]}, {self.t.n_columns}); got {S.shape}"
            )
        if self.t.model == CATEGORICAL:
            block = np.repeat(np.arange(len(self.family.levels_)), self.family.levels_)
            add_up = sparse.csr_array((np.ones(block.size), (np.arange(block.size), block)))
            S = sparse.csr_array(sparse.hstack([S, S @ add_up]))
        if not S.has_canonical_format:
            S = S.copy()
            S.sum_duplicates()
        self._fill(n, np.asarray(S.sum(axis=1)).ravel(), S.indptr, S.indices, S.data)

    def _fill(self, n, totals, starts, words, values):
        """Set the statistics of the slots from lists of words, in the given order."""
        values, words = np.ascontiguousarray(values, dtype=np.float64), np.ascontiguousarray(words, dtype=np.int64)
        starts = np.ascontiguousarray(starts, dtype=np.int64)
        sizes = np.diff(starts)
        if len(starts) != len(n) + 1 or len(totals) != len(n) or (sizes < 0).any() or sizes.sum() != len(words):
            raise DataError(
                f"{self.family.name}: saved statistics of {counted(len(n), 'cluster')} are not of one size"
            )
        if len(words) != len(values) or (len(words) and not 0 <= words.min() <= words.max() < self.t.n_words):
            raise DataError(
                f"{self.family.name}: saved statistics are not of these {counted(self.t.n_columns, 'column')}"
            )
        if not (np.isfinite(values).all() and np.isfinite(n).all()) or (values < 0).any() or (n < 0).any():
            raise SupportError(f"{self.family.name}: statistics of clusters must be finite and non-negative")
        self.loaded = int(np.count_nonzero(values))
        self.reserve(len(n))
        cdef Py_ssize_t k, j
        for k in range(self.t.capacity):
            counts_clear(&self.t, k)
        heaviest = float(values.sum())
        is_whole = bool((values == np.rint(values)).all() and (n == np.rint(n)).all())
        if not is_whole or heaviest + self.data_total > MAX_COUNT:
            self._widen()
        elif not self.t.is_real and self.t.by_word != self._suits_lists(self.t.capacity):
            self._allocate(self.t.capacity, False)
        self.t.slack = self.data_slack if is_whole else ROUNDING
        self._set_bounds(heaviest)
        cdef const double[::1] count = n, total = np.ascontiguousarray(totals, dtype=np.float64), value = values
        cdef const int64_t[::1] start = starts, word = words
        for k in range(count.shape[0]):
            if not make_room(&self.t, k, start[k + 1] - start[k]):
                raise MemoryError(f"{self.family.name}: no memory for the words of slot {k}")
            for j in range(start[k], start[k + 1]):
                if self.t.by_word and not make_word_room(&self.t, word[j]):
                    raise MemoryError(f"{self.family.name}: no memory for the slots of column {word[j]}")
                note_present(&self.t, word[j], k)
                put(&self.t, word[j], k, value[j])
                if value[j] == 0:
                    self.t.lists[k].present -= 1
            set_totals(&self.t, k, count[k], total[k])

    def export(self):
        """Return copies of n (capacity,) float64 and S (capacity, F) CSR."""
        state = self.to_arrays()
        shape = (self.t.capacity, self.t.n_words)
        S = sparse.csr_array((state["values"], state["words"], state["starts"]), shape=shape)
        S.eliminate_zeros()
        S.sort_indices()
        return state["n"], S[:, 0:self.t.n_columns]

    def to_arrays(self):
        """Return all arrays that later calls read, by name.

        The words of each slot are in the order of its list and include stale ones.
        """
        cdef Py_ssize_t k, j, at = 0
        n, total = np.empty(self.t.capacity), np.empty(self.t.capacity)
        starts = np.zeros(self.t.capacity + 1, dtype=np.int64)
        cdef double[::1] n_view = n, total_view = total
        cdef int64_t[::1] start = starts
        for k in range(self.t.capacity):
            n_view[k], total_view[k] = self.t.n[k], self.t.total[k]
            start[k + 1] = start[k] + self.t.lists[k].length
        words, values = np.empty(start[self.t.capacity], dtype=np.int64), np.empty(start[self.t.capacity])
        cdef int64_t[::1] word = words
        cdef double[::1] value = values
        for k in range(self.t.capacity):
            for j in range(self.t.lists[k].length):
                word[at] = self.t.lists[k].words[j]
                value[at] = get(&self.t, self.t.lists[k].words[j], k)
                at += 1
        return {
            "n": n, "total": total, "starts": starts, "words": words, "values": values,
            "is_fractional": np.array(bool(self.t.is_real)), "slack": np.array(self.t.slack),
            "max_factors": np.array(self.t.max_factors),
        }

    def from_arrays(self, arrays):
        """Restore the arrays that `to_arrays` returned, bit for bit."""
        cdef Py_ssize_t k
        n = np.ascontiguousarray(arrays["n"], dtype=np.float64)
        for k in range(self.t.capacity):
            counts_clear(&self.t, k)
        self._allocate(max(len(n), 1), bool(arrays["is_fractional"]))
        self._fill(n, arrays["total"], arrays["starts"], arrays["words"], arrays["values"])
        self.t.max_factors, self.t.slack = int(arrays["max_factors"]), float(arrays["slack"])
