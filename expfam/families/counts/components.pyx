"""Compiled components of the count families: a table of counts by word, scored by products.

A row of the table holds the counts of one word in all slots, so that a document is scored against K clusters by reading
a few contiguous rows. Up to 32 factors (count + pseudo-count) are multiplied before one logarithm is computed for each
cluster. Each cluster also has a list of its present words (words with a count above 0), so that evidences, merges and
clearing cost O(present words). Counts are int32 and exact; fractional data, and totals beyond 2^31 - 1, use a float64
table. With layout="clusters" there is no table: each cluster keeps its counts next to its list of words and finds them
by hashing, so that memory grows with the present words. This suits hierarchies, which have many small clusters; a scan
is slower.

Three models share the code. The evidence is sum_w sign_w [log G(a_w + S_w) - log G(a_w)] + a term of (n, S.). The term
is -[log G(a + S.) - log G(a)] for the multinomial and a log b - (a + S.) log(b + n) for the Poisson. It is absent for
the categorical model, where the total of each column is one more row of the table, with sign -1. A predictive under m
slots costs O(m nnz), adding and removing a datum O(nnz).
"""

import numpy as np
from scipy import sparse

from cpython.mem cimport PyMem_RawCalloc, PyMem_RawFree, PyMem_RawRealloc
from cpython.pycapsule cimport PyCapsule_New
from libc.math cimport NAN, floor, isnan, log, log1p
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memset

from expfam.amounts import counted
from expfam.contracts cimport EXPFAM_ABI, EXPFAM_OK, EXPFAM_PYTHON, EXPFAM_RANGE, components_v1
from expfam.families.rows cimport (
    ROWS_FLOAT64, ROWS_INT64, ROWS_ONES, csr_rows, entry_column, entry_value, open_rows, row_start,
)
from expfam.families.row_statistics cimport row_statistics_capsule, row_statistics_v1
from expfam.structures.simd.counts cimport (
    EXPFAM_LINE, expfam_add_log_ratio, expfam_count_products_int, expfam_count_products_real,
    expfam_gathered_products_int, expfam_gathered_products_real, expfam_load_shared, expfam_rising_products,
    expfam_store_shared,
)
from expfam.structures.simd.elementary cimport expfam_log1, expfam_log_rising1
from expfam.structures.simd.logs cimport expfam_log_rising
from expfam.structures.simd.prefetch cimport expfam_prefetch

from expfam.errors import CapabilityError, DataError, SupportError
from expfam.families.column_sums import column_sums
from expfam.families.counts.pseudocounts import row_sums
from expfam.families.support import first_where

cdef enum:
    MULTINOMIAL = 0
    POISSON = 1
    CATEGORICAL = 2
    MAX_FACTORS = 32        # largest number of factors in one product
    MAX_REPEATS = 24        # the rising factorial scores a word with more repeats
    TILE = 1024             # slots scored together: two buffers of 8 KiB fit in the first-level cache
    N_TABLED = 256          # size of the table of rising factorials under a symmetric prior
    AHEAD = 16              # number of words of a list that are prefetched
    SLACK = 64              # stale entries of a list allowed in addition to twice its present words
    MAX_COUNT = 2147483647

cdef double SAFE = 1e280    # bound of products and of their inverses
cdef double ROUNDING = 1e-8   # relative error of fractional counts after adding and removing data

cdef dict MODELS = {"multinomial": MULTINOMIAL, "poisson": POISSON, "categorical": CATEGORICAL}

ctypedef struct word_list:
    int32_t *words          # listed words; those with count 0 are stale
    double *values          # their counts; only if there is no table
    int32_t *index          # (mask + 1,) hash table: place in `words` plus 1; only if there is no table
    Py_ssize_t mask
    Py_ssize_t length
    Py_ssize_t room
    Py_ssize_t present      # number of words with a count above 0

ctypedef struct count_table:
    int model
    int by_cluster          # 1: no table, the lists hold the counts
    int is_real             # 1: counts are float64, else int32
    double slack            # 0 if all counts are integers, hence exact; else ROUNDING
    int max_factors
    Py_ssize_t n_rows
    Py_ssize_t n_words      # rows of the table; rows of categorical totals come last
    Py_ssize_t n_columns    # F: words that are columns of phi
    Py_ssize_t capacity
    Py_ssize_t stride       # entries of a row: capacity rounded up to EXPFAM_LINE
    csr_rows x
    const double *length    # (n_rows,) sum of each datum
    void *counts            # (n_words, stride) int32 or float64, aligned to 64 bytes
    uint8_t *listed         # (n_words, stride / 8) bits: whether the word is in the slot's list
    word_list *lists        # (capacity,)
    double *n               # (stride,) number of data
    double *total           # (stride,) sum of the counts
    double *level           # (stride,) multinomial: S. + a; Poisson: (a + S.) log((b + n) / (b + n + 1))
    double *slope           # (stride,) Poisson: log(b + n + 1)
    double *evidence        # (stride,) log evidence, NaN if not computed yet
    const double *prior     # (n_words,) pseudo-counts
    double prior_total      # their sum over the columns of phi
    double rate             # b of the Poisson family
    const double *tabled    # (N_TABLED,) log rising factorials of the symmetric prior, or NULL
    void *owner


# ---- entries of the table ------------------------------------------------------------------------------------------

cdef inline Py_ssize_t hash_of(Py_ssize_t w, Py_ssize_t mask) noexcept nogil:
    cdef uint32_t h = <uint32_t> w * <uint32_t> 2654435769
    return <Py_ssize_t> (h ^ (h >> 15)) & mask


cdef inline Py_ssize_t place_of(const word_list *words, Py_ssize_t w) noexcept nogil:
    """Return the place of a word in a list that holds counts, or -1."""
    cdef Py_ssize_t h
    if words.room == 0:
        return -1
    h = hash_of(w, words.mask)
    while words.index[h]:       # at most half of the index is in use
        if words.words[words.index[h] - 1] == w:
            return words.index[h] - 1
        h = (h + 1) & words.mask
    return -1


cdef inline void index_place(word_list *words, Py_ssize_t place) noexcept nogil:
    cdef Py_ssize_t h = hash_of(words.words[place], words.mask)
    while words.index[h]:
        h = (h + 1) & words.mask
    words.index[h] = <int32_t> (place + 1)


cdef void index_all(word_list *words) noexcept nogil:
    cdef Py_ssize_t j
    memset(words.index, 0, (words.mask + 1) * sizeof(int32_t))
    for j in range(words.length):
        index_place(words, j)


cdef inline double get(const count_table *t, Py_ssize_t w, Py_ssize_t k) noexcept nogil:
    cdef Py_ssize_t place
    if t.by_cluster:
        place = place_of(&t.lists[k], w)
        return t.lists[k].values[place] if place >= 0 else 0.0
    if t.is_real:
        return (<double *> t.counts)[w * t.stride + k]
    return (<int32_t *> t.counts)[w * t.stride + k]


cdef inline void put(count_table *t, Py_ssize_t w, Py_ssize_t k, double value) noexcept nogil:
    """Set a count; without a table the word must be in the list of k."""
    if t.by_cluster:
        t.lists[k].values[place_of(&t.lists[k], w)] = value
    elif t.is_real:
        (<double *> t.counts)[w * t.stride + k] = value
    else:
        (<int32_t *> t.counts)[w * t.stride + k] = <int32_t> value


cdef inline const void *row_at(const count_table *t, Py_ssize_t w, Py_ssize_t first) noexcept nogil:
    if t.is_real:
        return <const void *> (<const double *> t.counts + w * t.stride + first)
    return <const void *> (<const int32_t *> t.counts + w * t.stride + first)


cdef inline uint8_t *listed_at(const count_table *t, Py_ssize_t w, Py_ssize_t k) noexcept nogil:
    return t.listed + w * (t.stride >> 3) + (k >> 3)


cdef inline bint is_listed(const count_table *t, Py_ssize_t w, Py_ssize_t k) noexcept nogil:
    if t.by_cluster:
        return place_of(&t.lists[k], w) >= 0
    return (listed_at(t, w, k)[0] >> (k & 7)) & 1


cdef inline void set_listed(count_table *t, Py_ssize_t w, Py_ssize_t k) noexcept nogil:
    listed_at(t, w, k)[0] |= <uint8_t> (1 << (k & 7))


cdef inline void unset_listed(count_table *t, Py_ssize_t w, Py_ssize_t k) noexcept nogil:
    listed_at(t, w, k)[0] &= <uint8_t> ~(1 << (k & 7))


cdef inline void note_present(count_table *t, Py_ssize_t w, Py_ssize_t k) noexcept nogil:
    """List word w as present in slot k. Call it before the count rises from 0.

    The list must have room.
    """
    cdef word_list *words = &t.lists[k]
    words.present += 1
    if is_listed(t, w, k):
        return
    words.words[words.length] = <int32_t> w
    if t.by_cluster:
        words.values[words.length] = 0.0
        index_place(words, words.length)
    else:
        set_listed(t, w, k)
    words.length += 1


cdef bint make_room(count_table *t, Py_ssize_t k, Py_ssize_t more) noexcept nogil:
    """Make room for more words in the list of k, at least by doubling; false if memory runs out."""
    cdef word_list *words = &t.lists[k]
    cdef Py_ssize_t room = words.length + more, size = 8
    cdef void *grown
    cdef void *index
    if room > t.n_words:
        room = t.n_words            # a word is listed once
    if room <= words.room:
        return True
    if room < 2 * words.room:
        room = min(2 * words.room, t.n_words)
    grown = PyMem_RawRealloc(words.words, room * sizeof(int32_t))
    if grown == NULL:
        return False
    words.words = <int32_t *> grown
    if t.by_cluster:
        while size < 2 * room:
            size *= 2
        grown = PyMem_RawRealloc(words.values, room * sizeof(double))
        if grown == NULL:
            return False
        words.values = <double *> grown
        index = PyMem_RawCalloc(size, sizeof(int32_t))
        if index == NULL:
            return False
        PyMem_RawFree(words.index)
        words.index, words.mask = <int32_t *> index, size - 1
        index_all(words)
    words.room = room
    return True


cdef void drop_stale(count_table *t, Py_ssize_t k) noexcept nogil:
    """Remove the stale words from the list of k and keep the order of the others."""
    cdef word_list *words = &t.lists[k]
    cdef Py_ssize_t j, kept = 0
    for j in range(words.length):
        if not t.by_cluster and j + AHEAD < words.length:
            expfam_prefetch(row_at(t, words.words[j + AHEAD], k), 1)
            expfam_prefetch(listed_at(t, words.words[j + AHEAD], k), 1)
        if t.by_cluster:
            if words.values[j] != 0:
                words.words[kept], words.values[kept] = words.words[j], words.values[j]
                kept += 1
        elif get(t, words.words[j], k) != 0:
            words.words[kept] = words.words[j]
            kept += 1
        else:
            unset_listed(t, words.words[j], k)
    words.length = kept
    if t.by_cluster:
        index_all(words)


cdef int out_of_memory(count_table *t) noexcept nogil:
    with gil:
        (<CountComponents> t.owner).pending = MemoryError("no memory for the list of a cluster's words")
    return EXPFAM_PYTHON


# ---- scalar arithmetic ---------------------------------------------------------------------------------------------

cdef inline double log_rising(double z, double m) noexcept nogil:
    """Return log Gamma(z + m) - log Gamma(z)."""
    return expfam_log_rising1(z, m, 16 if z < 16 else 0)


ctypedef struct log_product:
    double factor           # kept within 1e-150 .. 1e150; factors lie within 1e-100 .. 1e100
    double sum


cdef inline void multiply_rising(log_product *value, double z, double m, int sign) noexcept nogil:
    """Add sign * log_rising(z, m) to `value`; multiply factors if m is a small integer."""
    cdef double product = 1.0, t = 0.0
    if m > 8 or m != floor(m) or z > 1e15:
        value.sum += sign * log_rising(z, m)
        return
    while t < m:
        product *= z + t
        t += 1
        if product > 1e100 or product < 1e-100:
            value.sum += sign * expfam_log1(product)
            product = 1.0
    value.factor = value.factor * product if sign > 0 else value.factor / product
    if value.factor > 1e150 or value.factor < 1e-150:
        value.sum += expfam_log1(value.factor)
        value.factor = 1.0


cdef inline int sign_of(const count_table *t, Py_ssize_t w) noexcept nogil:
    return 1 if w < t.n_columns else -1


cdef double total_term(const count_table *t, double n, double total) noexcept nogil:
    """Return the term of (n, S.) in the evidence; 0 for an empty cluster."""
    if t.model == MULTINOMIAL:
        return -log_rising(t.prior_total, total)
    if t.model == POISSON:
        return -t.prior_total * log1p(n / t.rate) - total * log(t.rate + n)
    return 0.0


cdef void set_totals(count_table *t, Py_ssize_t k, double n, double total) noexcept nogil:
    """Set number of data and total count of a slot, and the numbers that follow from them."""
    if t.lists[k].present == 0:
        total = 0.0
    t.n[k] = n
    t.total[k] = total
    t.evidence[k] = NAN
    if t.model == MULTINOMIAL:
        t.level[k] = total + t.prior_total
    elif t.model == POISSON:
        t.level[k] = -(t.prior_total + total) * log1p(1.0 / (t.rate + n))
        t.slope[k] = log(t.rate + n + 1.0)


cdef double evidence_of(const count_table *t, Py_ssize_t k) noexcept nogil:
    """Return the log evidence of a slot from its present words; cache it until the slot changes."""
    cdef double value = expfam_load_shared(&t.evidence[k]), count
    cdef log_product rest
    cdef Py_ssize_t j, w
    if not isnan(value):
        return value
    rest.factor, rest.sum = 1.0, total_term(t, t.n[k], t.total[k])
    for j in range(t.lists[k].length):
        w = t.lists[k].words[j]
        count = get(t, w, k)
        if t.tabled != NULL and count < N_TABLED and count == floor(count):
            rest.sum += t.tabled[<Py_ssize_t> count]
        elif count != 0:
            multiply_rising(&rest, t.prior[w], count, sign_of(t, w))
    value = rest.sum + expfam_log1(rest.factor)
    expfam_store_shared(&t.evidence[k], value)
    return value


# ---- scores --------------------------------------------------------------------------------------------------------

ctypedef struct factor_block:
    const void *rows[MAX_FACTORS]
    double a[MAX_FACTORS]
    Py_ssize_t n


cdef inline Py_ssize_t padded(Py_ssize_t m) noexcept nogil:
    return (m + EXPFAM_LINE - 1) // EXPFAM_LINE * EXPFAM_LINE


cdef inline void multiply_rows(const count_table *t, const factor_block *block, const Py_ssize_t *ks, Py_ssize_t m,
                               double *product) noexcept nogil:
    """Set product[j] to the product over the block of (count in slot j + a).

    If `ks` is NULL, j runs over consecutive slots.
    """
    cdef Py_ssize_t j, width = padded(m)
    for j in range(width):
        product[j] = 1.0
    if ks != NULL:
        if t.is_real:
            expfam_gathered_products_real(<const double *const *> block.rows, block.a, block.n, ks, product, m)
        else:
            expfam_gathered_products_int(<const int32_t *const *> block.rows, block.a, block.n, ks, product, m)
    elif t.is_real:
        expfam_count_products_real(<const double *const *> block.rows, block.a, block.n, product, width)
    else:
        expfam_count_products_int(<const int32_t *const *> block.rows, block.a, block.n, product, width)


cdef void add_rising_row(const count_table *t, Py_ssize_t w, double count, const Py_ssize_t *ks, Py_ssize_t first,
                         Py_ssize_t m, double *out, double *z, double *result) noexcept nogil:
    """Add log_rising(count in slot j + a_w, count) to out[j].

    It is for words with a large or a fractional count.
    """
    cdef Py_ssize_t j
    for j in range(m):
        z[j] = get(t, w, first + j if ks == NULL else ks[j]) + t.prior[w]
    expfam_log_rising(z, count, t.prior[w] < 16, result, m)
    for j in range(m):
        out[j] += result[j]


cdef void score_tile(const count_table *t, Py_ssize_t i, const Py_ssize_t *ks, Py_ssize_t first, Py_ssize_t m,
                     double *out, double *work) noexcept nogil:
    """Compute the log predictives of datum i under m <= TILE slots.

    The slots are ks[0..m-1], or first..first+m-1 if ks is NULL.
    """
    cdef double *product = work
    cdef double *divisor = work + TILE
    cdef double *level = work + 2 * TILE
    cdef factor_block block, totals
    cdef Py_ssize_t p = row_start(&t.x, i), stop = row_start(&t.x, i + 1), half = 0, j, w
    cdef double length = t.length[i], count, repeat = 0.0
    cdef bint by_product = False
    if t.model == CATEGORICAL:
        half = (stop - p) // 2              # first half: levels of the datum; second half: totals of their columns
        stop -= half
    if t.model == MULTINOMIAL:
        by_product = length <= t.max_factors and length == floor(length)
    if t.model != CATEGORICAL:
        for j in range(m):
            level[j] = t.level[first + j if ks == NULL else ks[j]]
    if t.model == POISSON:
        for j in range(m):
            out[j] = level[j] - length * t.slope[first + j if ks == NULL else ks[j]]
    elif t.model == CATEGORICAL or by_product:
        memset(out, 0, m * sizeof(double))
    else:
        expfam_log_rising(level, length, t.prior_total < 16, out, m)
        for j in range(m):
            out[j] = -out[j]
    while p < stop or by_product:
        block.n = totals.n = 0
        while p < stop and block.n < t.max_factors:
            w = entry_column(&t.x, p)
            count = entry_value(&t.x, p)
            if count > MAX_REPEATS or count != floor(count):
                add_rising_row(t, w, count, ks, first, m, out, product, divisor)
                p += 1
                continue
            block.rows[block.n] = row_at(t, w, 0 if ks != NULL else first)
            block.a[block.n] = t.prior[w] + repeat
            block.n += 1
            if half:
                w = entry_column(&t.x, p + half)
                totals.rows[totals.n] = row_at(t, w, 0 if ks != NULL else first)
                totals.a[totals.n] = t.prior[w]
                totals.n += 1
            repeat += 1
            if repeat >= count:
                repeat = 0.0
                p += 1
        multiply_rows(t, &block, ks, m, product)
        if half:
            multiply_rows(t, &totals, ks, m, divisor)
        elif by_product:
            for j in range(m, padded(m)):
                level[j] = 1.0
            expfam_rising_products(level, <Py_ssize_t> length, divisor, padded(m))
        expfam_add_log_ratio(product, divisor if half or by_product else NULL, out, m)
        by_product = False                  # one block holds a short document


cdef inline bint has_datum(const count_table *t, Py_ssize_t k) noexcept nogil:
    return 0 <= k < t.capacity and t.n[k] >= 1


cdef inline bint holds(const count_table *t, Py_ssize_t i, Py_ssize_t k) noexcept nogil:
    """Return whether slot k has a datum, and no count that is smaller than in datum i."""
    cdef Py_ssize_t p
    cdef double count, slack = 1.0 - t.slack
    if not has_datum(t, k):
        return False
    for p in range(row_start(&t.x, i), row_start(&t.x, i + 1)):
        count = entry_value(&t.x, p)
        if get(t, entry_column(&t.x, p), k) < count * slack:
            return False
    return True


cdef inline double rest_of(const count_table *t, double whole, double part) noexcept nogil:
    """Return whole - part of counts or numbers of data; 0 if only rounding is left."""
    cdef double rest = whole - part
    return 0.0 if rest < t.slack * part else rest


cdef inline bint is_plain(const count_table *t) noexcept nogil:
    """Return whether a table holds int32 counts, all signs are +1 and two factors are safe."""
    return not (t.is_real or t.by_cluster or t.model == CATEGORICAL) and t.max_factors >= 2


cdef bint multiply_plain(const count_table *t, Py_ssize_t i, Py_ssize_t k, bint is_inside, double *sum_) noexcept nogil:
    """Add the terms of the words of datum i under slot k of a plain table to `sum_`.

    Return false if `is_inside` is true but the slot cannot contain the datum. The counts of a slot lie in one cache
    line for each word, so the function reads them in one pass, with few instructions.
    """
    cdef const int32_t *column = <const int32_t *> t.counts + k
    cdef double z, count, product = 1.0, least = 0.0
    cdef Py_ssize_t p, w, n = 0
    for p in range(row_start(&t.x, i), row_start(&t.x, i + 1)):
        w = entry_column(&t.x, p)
        count = entry_value(&t.x, p)
        z = column[w * t.stride]
        if is_inside:
            z -= count
            least = min(least, z)
        z += t.prior[w]
        if count > 2:
            sum_[0] += log_repeats(z, count, t.max_factors)
            continue
        if n + 2 > t.max_factors:
            sum_[0] += expfam_log1(product)
            product, n = 1.0, 0
        product *= z * (1.0 + <double> (count == 2) * z)    # count 1 or 2, without a branch to mispredict
        n += 2
    sum_[0] += expfam_log1(product)
    return least >= 0


cdef double log_repeats(double z, double count, int max_factors) noexcept nogil:
    """Return the log rising factorial of a word that occurs several times.

    It is computed as a product if that is safe.
    """
    cdef double product = z
    if count > max_factors or count > MAX_REPEATS:
        return log_rising(z, count)
    while count > 1:
        z += 1.0
        product *= z
        count -= 1.0
    return expfam_log1(product)


cdef double score_slot(const count_table *t, Py_ssize_t i, Py_ssize_t k, double n, double total,
                       bint is_inside) noexcept nogil:
    """Return the log predictive of datum i under slot k with n data and this total.

    If `is_inside`, the counts of the datum are left out. The result is NaN if a plain table shows that the datum cannot
    be inside; for other tables the caller must check this by `holds`.
    """
    cdef double length = t.length[i], count, held
    cdef log_product value
    cdef Py_ssize_t p, w
    value.factor, value.sum = 1.0, 0.0
    if t.model == MULTINOMIAL:
        value.sum = -log_rising(total + t.prior_total, length)
    elif t.model == POISSON:
        value.sum = -(t.prior_total + total) * log1p(1.0 / (t.rate + n)) - length * log(t.rate + n + 1.0)
    if is_plain(t):
        return value.sum if multiply_plain(t, i, k, is_inside, &value.sum) else NAN
    for p in range(row_start(&t.x, i), row_start(&t.x, i + 1)):
        w = entry_column(&t.x, p)
        count = entry_value(&t.x, p)
        held = get(t, w, k)
        if is_inside:
            held = rest_of(t, held, count)
        multiply_rising(&value, held + t.prior[w], count, sign_of(t, w))
    return value.sum + expfam_log1(value.factor)


cdef int counts_log_predictive(void *self, Py_ssize_t i, const Py_ssize_t *ks, Py_ssize_t m,
                               double *out, double *work) noexcept nogil:
    cdef const count_table *t = <const count_table *> self
    cdef Py_ssize_t j, k, width
    if ks == NULL:
        if m > t.capacity:
            return EXPFAM_RANGE
    else:
        for j in range(m):
            if ks[j] < 0 or ks[j] >= t.capacity:
                return EXPFAM_RANGE
    j = 0
    while (t.by_cluster or (m == 1 and ks != NULL and is_plain(t))) and j < m:
        k = j if ks == NULL else ks[j]
        out[j] = score_slot(t, i, k, t.n[k], t.total[k], False)
        j += 1
    while j < m:
        width = min(<Py_ssize_t> TILE, m - j)
        score_tile(t, i, NULL if ks == NULL else ks + j, j, width, out + j, work)
        j += width
    return EXPFAM_OK


cdef int counts_log_predictive_self(void *self, Py_ssize_t i, Py_ssize_t k, double *out, double *work) noexcept nogil:
    cdef const count_table *t = <const count_table *> self
    cdef bint plain = is_plain(t)
    if not (has_datum(t, k) if plain else holds(t, i, k)):
        return EXPFAM_RANGE
    out[0] = score_slot(t, i, k, t.n[k] - 1.0, rest_of(t, t.total[k], t.length[i]), True)
    return EXPFAM_RANGE if plain and isnan(out[0]) else EXPFAM_OK


cdef int counts_log_marginal(void *self, const Py_ssize_t *ks, Py_ssize_t m, double *out, double *work) noexcept nogil:
    cdef const count_table *t = <const count_table *> self
    cdef Py_ssize_t j, k
    for j in range(m):
        k = j if ks == NULL else ks[j]
        if k < 0 or k >= t.capacity:
            return EXPFAM_RANGE
        out[j] = evidence_of(t, k)
    return EXPFAM_OK


cdef bint is_read(const count_table *t, Py_ssize_t k, Py_ssize_t l) noexcept nogil:
    """Return whether a merge of slots k and l reads the list of slot k: the shorter list.

    Ties are broken by the contents of the slots, never by their numbers. Both orders of the slots then give the same
    bits, and so do slots of equal content.
    """
    cdef Py_ssize_t e = 0, w, other
    cdef double count, held
    if t.lists[k].present != t.lists[l].present:
        return t.lists[k].present < t.lists[l].present
    if t.n[k] != t.n[l]:
        return t.n[k] < t.n[l]
    while e < t.lists[k].length and e < t.lists[l].length:
        w = t.lists[k].words[e]
        other = t.lists[l].words[e]
        if w != other:
            return w < other
        count = get(t, w, k)
        held = get(t, w, l)
        if count != held:
            return count < held
        e += 1
    return t.lists[k].length <= t.lists[l].length


cdef int counts_log_merged(void *self, Py_ssize_t k, const Py_ssize_t *ls, Py_ssize_t m,
                           double *out, double *work) noexcept nogil:
    cdef const count_table *t = <const count_table *> self
    cdef Py_ssize_t j, e, w, other, source, target
    cdef double count
    cdef log_product value
    if k < 0 or k >= t.capacity:
        return EXPFAM_RANGE
    for j in range(m):
        other = ls[j]
        if other < 0 or other >= t.capacity:
            return EXPFAM_RANGE
        source, target = (other, k) if is_read(t, other, k) else (k, other)
        value.factor = 1.0
        value.sum = evidence_of(t, target) - total_term(t, t.n[target], t.total[target])
        value.sum += total_term(t, t.n[k] + t.n[other], t.total[k] + t.total[other])
        for e in range(t.lists[source].length):
            w = t.lists[source].words[e]
            count = get(t, w, source)
            if count != 0:
                multiply_rising(&value, get(t, w, target) + t.prior[w], count, sign_of(t, w))
        out[j] = value.sum + expfam_log1(value.factor)
    return EXPFAM_OK


cdef inline bint includes(const count_table *t, Py_ssize_t k, Py_ssize_t l) noexcept nogil:
    """Return whether the statistics of slot l can be subtracted from slot k."""
    cdef Py_ssize_t j, w
    cdef double slack = 1.0 - t.slack
    if min(k, l) < 0 or max(k, l) >= t.capacity or t.n[l] * slack > t.n[k]:
        return False
    for j in range(t.lists[l].length):
        w = t.lists[l].words[j]
        if get(t, w, k) < get(t, w, l) * slack:
            return False
    return True


cdef int counts_log_remainder(void *self, Py_ssize_t k, Py_ssize_t l, double *out, double *work) noexcept nogil:
    cdef const count_table *t = <const count_table *> self
    cdef Py_ssize_t j, w
    cdef double count, n
    cdef log_product value
    if not includes(t, k, l):
        return EXPFAM_RANGE
    n = rest_of(t, t.n[k], t.n[l])
    if n == 0:
        out[0] = 0.0
        return EXPFAM_OK
    value.factor = 1.0
    value.sum = evidence_of(t, k) - total_term(t, t.n[k], t.total[k])
    value.sum += total_term(t, n, rest_of(t, t.total[k], t.total[l]))
    for j in range(t.lists[l].length):
        w = t.lists[l].words[j]
        count = get(t, w, l)
        if count != 0:
            multiply_rising(&value, rest_of(t, get(t, w, k), count) + t.prior[w], count, -sign_of(t, w))
    out[0] = value.sum + expfam_log1(value.factor)
    return EXPFAM_OK


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
    if not t.by_cluster:
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


cdef void exchange_columns(count_table *t, Py_ssize_t k, Py_ssize_t l) noexcept nogil:
    """Swap two columns of the table, at the words of either list; do not swap the lists."""
    cdef Py_ssize_t j, w
    cdef double count
    # first the words that only l has: this pass does not change the bits of the words of k, which the second pass reads
    for j in range(t.lists[l].length):
        w = t.lists[l].words[j]
        if not is_listed(t, w, k):
            put(t, w, k, get(t, w, l))
            put(t, w, l, 0.0)
            set_listed(t, w, k)
            unset_listed(t, w, l)
    for j in range(t.lists[k].length):
        w = t.lists[k].words[j]
        count = get(t, w, l)
        put(t, w, l, get(t, w, k))
        put(t, w, k, count)
        if not is_listed(t, w, l):
            set_listed(t, w, l)
            unset_listed(t, w, k)


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
    present word; the second 20 to 56 bytes for each present word, and nothing else.

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
        t.listed = t.lists = t.n = NULL
        cdef size_t width = sizeof(double) if is_real else sizeof(int32_t)
        cdef Py_ssize_t n_entries = 0 if t.by_cluster else t.n_words * t.stride
        t.listed = <uint8_t *> PyMem_RawCalloc((n_entries >> 3) + 1, 1)
        t.lists = <word_list *> PyMem_RawCalloc(t.stride, sizeof(word_list))
        t.n = <double *> PyMem_RawCalloc(5 * t.stride, sizeof(double))
        try:    # NumPy uses huge pages where it can; with small pages each word of a datum lies in its own page
            block = np.zeros(n_entries * width + 64, dtype=np.uint8)
        except (MemoryError, ValueError):       # ValueError: the size exceeds the address space
            block = None
        if block is None or t.listed == NULL or t.lists == NULL or t.n == NULL:
            PyMem_RawFree(t.listed)
            PyMem_RawFree(t.lists)
            PyMem_RawFree(t.n)
            raise MemoryError(
                f"{self.family.name}: {counted(t.n_words, 'column')} x {counted(capacity, 'slot needs', 'slots need')}"
                f" {n_entries * width / 2**30:.1f} GiB: use fewer components or columns, or layout=\"clusters\""
            )
        t.counts = <void *> ((<size_t> block.ctypes.data + 63) & ~<size_t> 63)
        t.total, t.level = t.n + t.stride, t.n + 2 * t.stride
        t.slope, t.evidence = t.n + 3 * t.stride, t.n + 4 * t.stride
        kept, self.block = self.block, block    # keep the old block until its counts are copied
        self.t = t
        for k in range(t.stride):
            set_totals(&self.t, k, 0.0, 0.0)
        for k in range(min(old.capacity, capacity)):
            self.t.lists[k] = old.lists[k]
            old.lists[k].words = old.lists[k].values = old.lists[k].index = NULL
            for j in range(0 if t.by_cluster else self.t.lists[k].length):
                set_listed(&self.t, self.t.lists[k].words[j], k)
                put(&self.t, self.t.lists[k].words[j], k, get(&old, self.t.lists[k].words[j], k))
            set_totals(&self.t, k, old.n[k], old.total[k])
        free_table(&old)
        del kept

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
        self.reserve(len(n))
        cdef Py_ssize_t k, j
        for k in range(self.t.capacity):
            counts_clear(&self.t, k)
        heaviest = float(values.sum())
        is_whole = bool((values == np.rint(values)).all() and (n == np.rint(n)).all())
        if not is_whole or heaviest + self.data_total > MAX_COUNT:
            self._widen()
        self.t.slack = self.data_slack if is_whole else ROUNDING
        self._set_bounds(heaviest)
        cdef const double[::1] count = n, total = np.ascontiguousarray(totals, dtype=np.float64), value = values
        cdef const int64_t[::1] start = starts, word = words
        for k in range(count.shape[0]):
            if not make_room(&self.t, k, start[k + 1] - start[k]):
                raise MemoryError(f"{self.family.name}: no memory for the words of slot {k}")
            for j in range(start[k], start[k + 1]):
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


cdef void free_table(count_table *t) noexcept:
    cdef Py_ssize_t k
    if t.lists != NULL:
        for k in range(t.capacity):
            PyMem_RawFree(t.lists[k].words)
            PyMem_RawFree(t.lists[k].values)
            PyMem_RawFree(t.lists[k].index)
    PyMem_RawFree(t.listed)
    PyMem_RawFree(t.lists)
    PyMem_RawFree(t.n)
