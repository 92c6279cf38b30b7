"""Log predictives of rows of counts and log evidences of clusters, by products.

A document is scored against K clusters by reading a few contiguous rows of the table. Up to 32 factors (count +
pseudo-count) are multiplied before one logarithm is computed for each cluster.

Three models share the code. The evidence is sum_w sign_w [log G(a_w + S_w) - log G(a_w)] + a term of (n, S.). The term
is -[log G(a + S.) - log G(a)] for the multinomial and a log b - (a + S.) log(b + n) for the Poisson. It is absent for
the categorical model, where the total of each column is one more row of the table, with sign -1. A predictive under m
slots costs O(m nnz).
"""

from libc.math cimport NAN, floor, isnan, log, log1p
from libc.stdint cimport int32_t
from libc.string cimport memset

from expfam.contracts cimport EXPFAM_OK, EXPFAM_RANGE
from expfam.families.counts._table cimport (
    CATEGORICAL, MULTINOMIAL, POISSON, entry_from, get, has_datum, holds, includes, is_in_table, padded, rest_of,
    row_at, slot_count, slot_list,
)
from expfam.families.counts.rising cimport log_product, log_rising, multiply_rising
from expfam.families.rows cimport entry_column, entry_value, row_start
from expfam.structures.simd.counts cimport (
    expfam_add_log_ratio, expfam_count_products_int, expfam_count_products_real, expfam_gathered_products_int,
    expfam_gathered_products_real, expfam_load_shared, expfam_rising_products, expfam_store_shared,
)
from expfam.structures.simd.elementary cimport expfam_log1
from expfam.structures.simd.logs cimport expfam_log_rising
from expfam.structures.simd.prefetch cimport expfam_prefetch

cdef enum:
    MAX_REPEATS = 24        # the rising factorial scores a word with more repeats


# ---- scalar arithmetic ---------------------------------------------------------------------------------------------

cdef inline int sign_of(const count_table *t, Py_ssize_t w) noexcept nogil:
    return 1 if w < t.n_columns else -1


cdef double total_term(const count_table *t, double n, double total) noexcept nogil:
    """Return the term of (n, S.) in the evidence; 0 for an empty cluster."""
    if t.model == MULTINOMIAL:
        return -log_rising(t.prior_total, total)
    if t.model == POISSON:
        return -t.prior_total * log1p(n / t.rate) - total * log(t.rate + n)
    return 0.0


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
    cdef bint by_product = False, has_level = t.model != CATEGORICAL
    if t.model == CATEGORICAL:
        half = (stop - p) // 2              # first half: levels of the datum; second half: totals of their columns
        stop -= half
        if half == t.n_words - t.n_columns:     # all columns: the logarithms of their totals are known
            half, has_level = 0, True
    if t.model == MULTINOMIAL:
        by_product = length <= t.max_factors and length == floor(length)
    if has_level:
        for j in range(m):
            level[j] = t.level[first + j if ks == NULL else ks[j]]
    if t.model == POISSON:
        for j in range(m):
            out[j] = level[j] - length * t.slope[first + j if ks == NULL else ks[j]]
    elif t.model == CATEGORICAL and has_level:
        for j in range(m):
            out[j] = -level[j]
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


cdef inline void start_scores(const count_table *t, double length, const Py_ssize_t *ks, Py_ssize_t first, Py_ssize_t m,
                              bint by_product, double *out, double *level) noexcept nogil:
    """Set the scores to the term of the length; with `by_product`, to 0, and set the levels."""
    cdef Py_ssize_t j, k
    if t.model == POISSON:
        for j in range(m):
            k = first + j if ks == NULL else ks[j]
            out[j] = t.level[k] - length * t.slope[k]
        return
    for j in range(m):
        level[j] = t.level[first + j if ks == NULL else ks[j]]
        out[j] = 0.0
    if by_product:
        for j in range(m, padded(m)):
            level[j] = 1.0
        return
    expfam_log_rising(level, length, t.prior_total < 16, out, m)
    for j in range(m):
        out[j] = -out[j]


cdef inline void multiply_listed(const slot_list *slots, double a, double count, Py_ssize_t first, Py_ssize_t m,
                                 double *product) noexcept nogil:
    """Multiply products by the rising factorials of a word's slots, over that of an empty slot."""
    cdef Py_ssize_t e, j
    cdef double z, factor, repeat, inverse = a
    repeat = 1.0
    while repeat < count:
        inverse *= a + repeat
        repeat += 1.0
    inverse = 1.0 / inverse
    for e in range(entry_from(slots, first) if first else 0, slots.length):
        j = slots.entries[e].slot - first
        if j >= m:
            return
        if slots.entries[e].count == 0:         # a stale word: its ratio is 1, without rounding
            continue
        z = a + slots.entries[e].count
        factor = z * inverse
        if count > 1:
            repeat = 1.0
            while repeat < count:
                factor *= z + repeat
                repeat += 1.0
        product[j] *= factor


cdef inline void multiply_scattered(const count_table *t, Py_ssize_t w, double count, const Py_ssize_t *ks,
                                    Py_ssize_t m, double *product) noexcept nogil:
    """Multiply products by the rising factorials of the counts of a word in slots ks[0..m-1]."""
    cdef Py_ssize_t j
    cdef double z, factor, repeat
    for j in range(m):
        z = factor = get(t, w, ks[j]) + t.prior[w]
        repeat = 1.0
        while repeat < count:
            factor *= z + repeat
            repeat += 1.0
        product[j] *= factor


cdef inline void finish_products(factor_block *block, const Py_ssize_t *ks, double *product, const double *divisor,
                                 double *out, Py_ssize_t m) noexcept nogil:
    """Multiply a block of rows into products, and add their logarithms to the scores.

    The block and the products are as at the beginning then.
    """
    cdef const int32_t *const *rows = <const int32_t *const *> block.rows
    cdef Py_ssize_t j
    if ks == NULL:
        expfam_count_products_int(rows, block.a, block.n, product, padded(m))
    else:
        expfam_gathered_products_int(rows, block.a, block.n, ks, product, m)
    expfam_add_log_ratio(product, divisor, out, m)
    block.n = 0
    for j in range(padded(m)):
        product[j] = 1.0


cdef void score_listed(const count_table *t, Py_ssize_t i, const Py_ssize_t *ks, Py_ssize_t first, Py_ssize_t m,
                       double *out, double *work) noexcept nogil:
    """Compute log predictives under m <= TILE slots, from rows and lists by words.

    The slots are ks[0..m-1], or first..first+m-1 if ks is NULL. These get the score of one without the listed words of
    the datum, and the lists tell where that is wrong; rows are read past the slots, to the end of a line. If ks is not
    NULL, first is 0.
    """
    cdef double *product = work
    cdef double *divisor = work + TILE
    cdef double *level = work + 2 * TILE
    cdef double length = t.length[i], count, constant = 0.0, n_factors = 0.0
    cdef double most = min(<double> MAX_REPEATS, <double> t.max_factors), repeat
    cdef Py_ssize_t p, j, w, width
    cdef factor_block block
    cdef bint by_product = t.model == MULTINOMIAL and length <= t.max_factors
    cdef Py_ssize_t begin = row_start(&t.x, i), end = row_start(&t.x, i + 1)
    for p in range(begin, end):         # the lists lie anywhere, and wait for memory together
        expfam_prefetch(&t.words[entry_column(&t.x, p)], sizeof(slot_list))
    start_scores(t, length, ks, first, m, by_product, out, level)
    for p in range(begin, end):
        count = entry_value(&t.x, p)
        if count > most:
            add_rising_row(t, entry_column(&t.x, p), count, ks, first, m, out, product, divisor)
    if by_product:
        expfam_rising_products(level, <Py_ssize_t> length, divisor, padded(m))
    for p in range(begin, end):
        w = entry_column(&t.x, p)
        if not is_in_table(t, w):
            width = t.words[w].length * sizeof(slot_count) if ks == NULL and first == 0 else 1
            expfam_prefetch(t.words[w].entries, width)
    for j in range(padded(m)):
        product[j] = 1.0
    block.n = 0
    for p in range(begin, end):
        w = entry_column(&t.x, p)
        count = entry_value(&t.x, p)
        if count > most:
            continue
        if n_factors + count > t.max_factors:
            finish_products(&block, ks, product, divisor if by_product else NULL, out, m)
            by_product, n_factors = False, 0.0
        n_factors += count
        if is_in_table(t, w):
            repeat = 0.0
            while repeat < count:
                block.rows[block.n], block.a[block.n] = row_at(t, w, first), t.prior[w] + repeat
                block.n += 1
                repeat += 1.0
        elif ks != NULL:
            multiply_scattered(t, w, count, ks, m, product)
        else:
            constant += log_rising_of(t, w, count)
            multiply_listed(&t.words[w], t.prior[w], count, first, m, product)
    finish_products(&block, ks, product, divisor if by_product else NULL, out, m)
    for j in range(m):
        out[j] += constant


cdef inline double log_rising_of(const count_table *t, Py_ssize_t w, double count) noexcept nogil:
    """Return log_rising(prior of a word, count)."""
    if t.tabled != NULL and count < N_TABLED:
        return t.tabled[<Py_ssize_t> count]
    return log_rising(t.prior[w], count)


cdef inline bint is_run(const Py_ssize_t *ks, Py_ssize_t m) noexcept nogil:
    cdef Py_ssize_t j
    for j in range(1, m):
        if ks[j] != ks[0] + j:
            return False
    return True


cdef void score_by_word(const count_table *t, Py_ssize_t i, const Py_ssize_t *ks, Py_ssize_t m, double *out,
                        double *work) noexcept nogil:
    """Compute log predictives from rows and lists by words, of a run of slots together."""
    cdef Py_ssize_t j = 0, width, first = 0
    if ks != NULL and m == 1:
        out[0] = score_slot(t, i, ks[0], t.n[ks[0]], t.total[ks[0]], False)
        return
    if ks != NULL and m and is_run(ks, m):
        first, ks = ks[0], NULL
    while j < m:
        width = min(<Py_ssize_t> TILE, m - j)
        if ks == NULL:
            score_listed(t, i, NULL, first + j, width, out + j, work)
        else:
            score_listed(t, i, ks + j, 0, width, out + j, work)
        j += width


cdef inline bint is_plain(const count_table *t) noexcept nogil:
    """Return whether a table holds int32 counts, all signs are +1 and two factors are safe."""
    return not (t.is_real or t.by_cluster or t.by_word or t.model == CATEGORICAL) and t.max_factors >= 2


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
    if t.by_word:
        score_by_word(t, i, ks, m, out, work)
        return EXPFAM_OK
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
