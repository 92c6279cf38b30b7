"""Proposal by a table of logarithms of counts, with one byte for each word and cluster.

Its law is nearly the exact conditional, at a fraction of the cost. The rows of a datum's words are added up for all
clusters together. A word that occurs c >= 2 times needs the log of a rising factorial, which is far from c times the
log of the count; its byte is the index of a look-up of these logs. Lengths and prior weights are exact. The counts are
held besides the bytes, cluster by cluster with frequent words first, so that the words of a datum are close together.
Changes of counts are exact, so every sequence of shifts gives the same bits as one refresh. A draw reads O(W K) bytes;
adding or removing a datum writes O(W).
"""

import numpy as np
from scipy import sparse

from cpython.pycapsule cimport PyCapsule_New
from libc.math cimport INFINITY, log, log1p, rint
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t
from numpy.random cimport bitgen_t

from expfam.amounts import counted
from expfam.contracts cimport EXPFAM_ABI, EXPFAM_NEW, EXPFAM_NUMERICAL, EXPFAM_OK, EXPFAM_RANGE, proposal_v1
from expfam.families.rows cimport csr_rows, entry_column, entry_value, open_rows, row_start
from expfam.samplers.proposals.block_rows cimport BlockRows, counted_rows, expect_row, expect_start
from expfam.samplers.proposals.masses cimport Masses, mass_enter, mass_leave, mass_table
from expfam.samplers.proposals.moved cimport MovedRows, moved_rows
from expfam.structures.ground.arrays cimport in_lines
from expfam.structures.simd.blocks cimport EXPFAM_BLOCK
from expfam.structures.simd.byte_logs cimport expfam_between, expfam_byte_scores, expfam_float_rows, expfam_max_float
from expfam.structures.simd.float_softmax cimport expfam_float_exp_blocks, expfam_float_pick
from expfam.structures.simd.logs cimport expfam_log, expfam_log_rising
from expfam.structures.simd.prefetch cimport EXPFAM_PREFETCH
from expfam.structures.simd.vectors cimport expfam_add_row

from expfam.errors import CapabilityError, DataError
from expfam.families.counts.components import count_rows
from expfam.families.counts.pseudocounts import log_rising
from expfam.samplers.proposals.base import Proposal
from expfam.structures.ground.threads import run

cdef enum:
    MULTINOMIAL = 0
    POISSON = 1
    MOST_TOKENS = 257           # rows that are added up together: 257 times the largest byte fits 16 bits
    MOST_LENGTHS = 512          # maximal number of lengths with a row; rows of other lengths are interpolated
    MOST_REPEATED = 128         # of these, rows of words that occur twice or more
    MOST_LEVELS = 64            # maximal number of pseudo-counts with their own look-ups
    MOST_LOOK_UPS = 4096        # maximal number of look-ups, unless there are more different counts
    LOOK_UP = 512               # bytes of a look-up: 256 low bytes, 256 high bytes
    MOST_SEEN = 65536           # smaller counts are listed without sorting
    LINE = 64                   # bytes of a cache line
    AHEAD = 3                   # number of data by which memory is prefetched ahead
    WORDS_AHEAD = 16            # number of words by which cells of the table are prefetched ahead
    LEAST_SUMMED = 12           # moves for each column from which they are summed before they are written
    N_PARTS = 8                 # parts of the columns that tasks change
    MOST_COPIED = 65536         # number of data, and
    ENTRIES_COPIED = 1 << 21    # number of their entries in the mean, that are copied at a time

cdef double FLOOR_NEW = 0.01        # least share of the draws for a new cluster

_MODELS = {"multinomial": MULTINOMIAL, "poisson": POISSON}


ctypedef struct log_table:
    mass_table *mass
    int model
    int is_float                # logs are float32; otherwise bytes
    int is_narrow               # counts besides float logs are uint16; otherwise int32
    Py_ssize_t n_rows
    Py_ssize_t n_words
    Py_ssize_t width            # number of columns
    counted_rows all
    counted_rows block          # copies of the data of the block
    const Py_ssize_t *block_rows    # (n_block,) data for which the next draws are made, in this order
    Py_ssize_t n_block
    bint is_copied
    const int32_t *block_at     # (n_rows,) place of each datum in the block, if the datum there is this one
    void *logs                  # (n_words, width) uint8 or float: log((n + a) / a); bytes are in units of `step`
    # with float logs of the same shape as `logs`; with bytes (width, n_words + n_heavy) uint16: first the 16 low bits,
    # ordered by `place`, then the high bits of heavy words
    void *counts
    const int32_t *place        # (n_words,) rank of each word by frequency
    Py_ssize_t n_heavy          # number of words, the most frequent ones, whose counts could need more than 16 bits
    const double *prior         # (n_words,) pseudo-counts
    double prior_total
    double rate
    double step                 # nats of a unit
    const uint8_t *byte_of      # (n_tabled,) byte of each count under a symmetric prior, or NULL
    Py_ssize_t n_tabled
    const uint8_t *look_ups     # (levels, repeats, 2, 256) log rising factorial of the count of each byte, in units
    const int32_t *repeat_place     # (largest count + 1,) number of each count among the repeats
    Py_ssize_t n_repeats
    const uint8_t *word_level   # (n_words,) level of each word's pseudo-count, or NULL for one level
    double *total               # (width,) sum of the counts of each column
    double *level               # (width,) multinomial: total + a; Poisson: (a + total) log((b + n) / (b + n + 1))
    double *slope               # (width,) Poisson: log(b + n + 1)
    float *length_rows          # (lengths, width) log prior weight and length term of each column
    uint8_t *length_ready       # (lengths,) whether the row is computed
    bint has_lengths            # whether `length_ready` is valid


# ---- entries -------------------------------------------------------------------------------------------------------

cdef inline uint16_t *counts_of(const log_table *t, Py_ssize_t k) noexcept nogil:
    """Return the counts of column k that are held besides bytes."""
    return <uint16_t *> t.counts + k * (t.n_words + t.n_heavy)


cdef inline Py_ssize_t read_count(const uint16_t *counts, Py_ssize_t at, Py_ssize_t n_words,
                                  Py_ssize_t n_heavy) noexcept nogil:
    if at < n_heavy:
        return counts[at] + 65536 * <Py_ssize_t> counts[n_words + at]
    return counts[at]


cdef inline void write_count(uint16_t *counts, Py_ssize_t at, Py_ssize_t n_words, Py_ssize_t n_heavy,
                             Py_ssize_t count) noexcept nogil:
    counts[at] = <uint16_t> (count & 65535)
    if at < n_heavy:
        counts[n_words + at] = <uint16_t> (count >> 16)


cdef inline double count_at(const log_table *t, Py_ssize_t w, Py_ssize_t k) noexcept nogil:
    if not t.is_float:
        return read_count(counts_of(t, k), t.place[w], t.n_words, t.n_heavy)
    if t.is_narrow:
        return (<const uint16_t *> t.counts)[w * t.width + k]
    return (<const int32_t *> t.counts)[w * t.width + k]


cdef inline double log_of(const log_table *t, Py_ssize_t w, double count) noexcept nogil:
    """Compute log((count + a) / a) as the table holds it; a byte is in units of `step`, rounded."""
    cdef double value
    if t.is_float:
        return <float> log1p(count / t.prior[w])
    if t.byte_of != NULL and count < t.n_tabled:
        return t.byte_of[<Py_ssize_t> count]
    value = rint(log1p(count / t.prior[w]) / t.step)
    return min(value, 255.0)


cdef inline void put_count(log_table *t, Py_ssize_t w, Py_ssize_t k, double count) noexcept nogil:
    cdef Py_ssize_t at = w * t.width + k
    cdef double value = log_of(t, w, count)
    if not t.is_float:
        (<uint8_t *> t.logs)[at] = <uint8_t> value
        write_count(counts_of(t, k), t.place[w], t.n_words, t.n_heavy, <Py_ssize_t> count)
        return
    (<float *> t.logs)[at] = <float> value
    if t.is_narrow:
        (<uint16_t *> t.counts)[at] = <uint16_t> count
    else:
        (<int32_t *> t.counts)[at] = <int32_t> count


cdef inline const uint8_t *look_up_of(const log_table *t, Py_ssize_t w, Py_ssize_t count) noexcept nogil:
    """Return the look-up from bytes to terms for a word that occurs `count` times."""
    cdef Py_ssize_t row = t.repeat_place[count]
    if t.word_level != NULL:
        row += t.word_level[w] * t.n_repeats
    return t.look_ups + LOOK_UP * row


cdef void set_level(log_table *t, Py_ssize_t k) noexcept nogil:
    cdef double n = t.mass.n[k]
    if t.model == MULTINOMIAL:
        t.level[k] = t.total[k] + t.prior_total
    else:
        t.level[k] = -(t.prior_total + t.total[k]) * log1p(1.0 / (t.rate + n))
        t.slope[k] = log(t.rate + n + 1.0)


cdef void add_tabled(log_table *t, Py_ssize_t i, Py_ssize_t k, int sign) noexcept nogil:
    """Do the work of add_words if bytes are tabled by count.

    Fields of t are copied to local variables: for the compiler a written byte could change any field of t.
    """
    cdef uint8_t *logs = <uint8_t *> t.logs + k
    cdef uint16_t *counts = counts_of(t, k)
    cdef csr_rows x = t.all.x
    cdef const int32_t *place = t.place
    cdef Py_ssize_t p, w, count, width = t.width, n_words = t.n_words, n_heavy = t.n_heavy
    for p in range(row_start(&x, i), row_start(&x, i + 1)):
        w = entry_column(&x, p)
        count = read_count(counts, place[w], n_words, n_heavy) + sign * <Py_ssize_t> entry_value(&x, p)
        write_count(counts, place[w], n_words, n_heavy, count)
        logs[w * width] = byte_at(t, w, count)


cdef void add_words(log_table *t, Py_ssize_t i, Py_ssize_t k, int sign) noexcept nogil:
    """Add the counts of datum i to column k, or subtract them if `sign` is -1."""
    cdef Py_ssize_t p, w
    if t.byte_of != NULL:
        add_tabled(t, i, k, sign)
        return
    for p in range(row_start(&t.all.x, i), row_start(&t.all.x, i + 1)):
        w = entry_column(&t.all.x, p)
        put_count(t, w, k, count_at(t, w, k) + sign * entry_value(&t.all.x, p))


cdef void expect_words(const log_table *t, Py_ssize_t i, Py_ssize_t k) noexcept nogil:
    """Prefetch the bytes and the counts of column k that belong to the words of datum i."""
    cdef Py_ssize_t p, w, width = t.width
    cdef const uint8_t *logs = <const uint8_t *> t.logs + k
    cdef const uint16_t *counts = counts_of(t, k)
    cdef const int32_t *place = t.place
    cdef csr_rows x = t.all.x
    for p in range(row_start(&x, i), row_start(&x, i + 1)):
        w = entry_column(&x, p)
        EXPFAM_PREFETCH(logs + w * width)
        EXPFAM_PREFETCH(counts + place[w])


cdef void add_data(log_table *t, const Py_ssize_t *rows, const Py_ssize_t *slots, Py_ssize_t n, Py_ssize_t low,
                   Py_ssize_t high, int sign) noexcept nogil:
    """Add the data whose slot lies in low..high-1 one by one, or subtract them if `sign` is -1."""
    cdef Py_ssize_t j
    for j in range(n):
        if j + AHEAD < n and low <= slots[j + AHEAD] < high:
            expect_row(&t.all.x, rows[j + AHEAD])
        if not t.is_float and j + 1 < n and low <= slots[j + 1] < high:
            expect_words(t, rows[j + 1], slots[j + 1])
        if low <= slots[j] < high:
            add_words(t, rows[j], slots[j], sign)
            t.total[slots[j]] += sign * t.all.length[rows[j]]


# ---- many changes at once ------------------------------------------------------------------------------------------

ctypedef struct changes:
    int32_t *sums               # (n_words,) change of each word's count; all are 0 between columns
    int32_t *words              # (n_words,) words whose sum has left 0, some of them twice
    uint8_t *bytes              # (n_words,) new bytes
    Py_ssize_t n


cdef inline uint8_t byte_at(const log_table *t, Py_ssize_t w, Py_ssize_t count) noexcept nogil:
    return t.byte_of[count] if count < t.n_tabled else <uint8_t> log_of(t, w, count)


cdef void put_changes(log_table *t, Py_ssize_t k, changes *c) noexcept nogil:
    """Write the counts of column k that have changed."""
    cdef Py_ssize_t j, w, change
    for j in range(c.n):
        w = c.words[j]
        change = c.sums[w]
        if change:
            c.sums[w] = 0
            put_count(t, w, k, count_at(t, w, k) + change)
    c.n = 0


cdef void put_tabled(log_table *t, Py_ssize_t k, changes *c) noexcept nogil:
    """Do the work of put_changes if bytes are tabled by count.

    A large count often keeps its byte; the distant memory of the byte is then not touched.
    """
    cdef uint8_t *logs = <uint8_t *> t.logs + k
    cdef uint16_t *counts = counts_of(t, k)
    cdef int32_t *sums = c.sums
    cdef int32_t *words = c.words
    cdef const int32_t *place = t.place
    cdef Py_ssize_t j, w, n = c.n, m = 0, old, new, width = t.width, n_words = t.n_words, n_heavy = t.n_heavy
    cdef uint8_t byte
    for j in range(n):
        if j + WORDS_AHEAD < n:
            EXPFAM_PREFETCH(counts + place[words[j + WORDS_AHEAD]])
        w = words[j]
        if sums[w]:
            old = read_count(counts, place[w], n_words, n_heavy)
            new = old + sums[w]
            sums[w] = 0
            write_count(counts, place[w], n_words, n_heavy, new)
            byte = byte_at(t, w, new)
            if byte != byte_at(t, w, old):
                EXPFAM_PREFETCH(logs + w * width)
                words[m], c.bytes[m] = <int32_t> w, byte
                m += 1
    for j in range(m):
        logs[words[j] * width] = c.bytes[j]
    c.n = 0


cdef inline void put(log_table *t, Py_ssize_t k, changes *c) noexcept nogil:
    if t.byte_of == NULL:
        put_changes(t, k, c)
    else:
        put_tabled(t, k, c)


cdef void sum_words(log_table *t, const counted_rows *block, const Py_ssize_t *places, Py_ssize_t n, Py_ssize_t k,
                    int sign, changes *c) noexcept nogil:
    """Add the words of n rows of a block to the changes of column k; `sign` -1 subtracts."""
    cdef const int64_t *starts = <const int64_t *> block.x.starts       # the types of `BlockRows`
    cdef const int32_t *columns = <const int32_t *> block.x.columns
    cdef const int32_t *values = <const int32_t *> block.x.values
    cdef int32_t *sums = c.sums
    cdef int32_t *words = c.words
    cdef Py_ssize_t j, p, w, listed = c.n, most = t.n_words
    for j in range(n):
        if j + AHEAD < n:
            expect_row(&block.x, places[j + AHEAD])
        t.total[k] += sign * block.length[places[j]]
        for p in range(starts[places[j]], starts[places[j] + 1]):
            w = columns[p]
            if not sums[w]:
                if listed == most:
                    c.n = listed
                    put(t, k, c)
                    listed = 0
                words[listed] = <int32_t> w
                listed += 1
            sums[w] += sign * values[p]
    c.n = listed


cdef void change_columns(log_table *t, const moved_rows *m, const counted_rows *entering, const counted_rows *leaving,
                         Py_ssize_t start, Py_ssize_t stop, changes *c) noexcept nogil:
    """Change the columns of the slots start..stop-1 of `m` by their rows of two blocks.

    Data of one column have many words in common, and those that enter are like those that leave: a cell of the table
    is written once for many of them, or not at all.
    """
    cdef Py_ssize_t j, k, first
    for j in range(start, stop):
        k = m.slots[j]
        first = m.first_entering[j]
        sum_words(t, entering, m.entering + first, m.first_entering[j + 1] - first, k, 1, c)
        first = m.first_leaving[j]
        sum_words(t, leaving, m.leaving + first, m.first_leaving[j + 1] - first, k, -1, c)
        put(t, k, c)


cdef bint survey(const csr_rows *x, Py_ssize_t n_rows, double *rows, double *columns, uint8_t *seen) noexcept nogil:
    """Compute sums of rows and columns; mark the counts below MOST_SEEN that occur.

    Returns whether all counts are below MOST_SEEN.
    """
    cdef Py_ssize_t i, p
    cdef double count
    cdef bint is_complete = True
    for i in range(n_rows):
        for p in range(row_start(x, i), row_start(x, i + 1)):
            count = entry_value(x, p)
            rows[i] += count
            columns[entry_column(x, p)] += count
            if count < MOST_SEEN:
                seen[<Py_ssize_t> count] = 1
            else:
                is_complete = False
    return is_complete


# ---- weights -------------------------------------------------------------------------------------------------------

cdef inline Py_ssize_t scored(const log_table *t) noexcept nogil:
    """Return the number of scored columns in whole blocks; extra columns have the weight 0."""
    return (t.mass.n_columns + EXPFAM_BLOCK - 1) // EXPFAM_BLOCK * EXPFAM_BLOCK


cdef void length_terms(const log_table *t, double length, Py_ssize_t m, float *out, double *terms) noexcept nogil:
    """Compute the log prior weight plus length term of the first m columns."""
    cdef Py_ssize_t j
    cdef double middle, spread
    if t.model == POISSON:
        for j in range(m):
            out[j] = <float> (t.mass.bias[j] + t.level[j] - length * t.slope[j])
        return
    if t.prior_total >= 4 * length:         # sum of log(level + j), expanded about its middle; error below 1e-5
        middle, spread = 0.5 * (length - 1), (length * length - 1) * length / 24
        for j in range(m):
            terms[j] = t.level[j] + middle
        expfam_log(terms, terms, m)
        for j in range(m):
            out[j] = <float> (t.mass.bias[j] - length * terms[j]
                              + spread / ((t.level[j] + middle) * (t.level[j] + middle)))
        return
    expfam_log_rising(t.level, length, t.prior_total < 16, terms, m)
    for j in range(m):
        out[j] = <float> (t.mass.bias[j] - terms[j])


cdef void begin_scores(const log_table *t, const counted_rows *all, Py_ssize_t i, Py_ssize_t m, float *out,
                       double *terms) noexcept nogil:
    cdef Py_ssize_t place
    cdef float part
    cdef const float *low
    if not t.has_lengths or not t.length_ready[all.length_place[i]]:
        length_terms(t, all.length[i], m, out, terms)
        return
    place, part = all.length_place[i], all.length_part[i]
    low = t.length_rows + place * t.width
    if part == 0:
        expfam_between(low, low, 0.5, out, m)
    else:
        expfam_between(low, low + t.width, part, out, m)


ctypedef struct row_block:
    const uint8_t *rows[MOST_TOKENS]
    const uint8_t *repeated[MOST_REPEATED]
    const uint8_t *tables[MOST_REPEATED]
    Py_ssize_t n
    Py_ssize_t n_repeated
    Py_ssize_t tokens


cdef inline void add_rows(const log_table *t, row_block *block, Py_ssize_t m, float *scores) noexcept nogil:
    expfam_byte_scores(block.rows, block.n, block.repeated, block.tables, block.n_repeated, <float> t.step, scores, m)
    block.n = block.n_repeated = block.tokens = 0


cdef void score_bytes(const log_table *t, const csr_rows *rows, Py_ssize_t i, Py_ssize_t m,
                      float *scores) noexcept nogil:
    """Add the words of a row to the scores of the first m columns."""
    cdef csr_rows x = rows[0]
    cdef row_block block
    cdef Py_ssize_t p, w, count, tokens
    cdef const uint8_t *row
    block.n = block.n_repeated = block.tokens = 0
    for p in range(row_start(&x, i), row_start(&x, i + 1)):
        count = <Py_ssize_t> entry_value(&x, p)
        w = entry_column(&x, p)
        row = <const uint8_t *> t.logs + w * t.width
        tokens = min(count, MOST_TOKENS)
        if block.tokens + tokens > MOST_TOKENS:
            add_rows(t, &block, m, scores)
        block.tokens += tokens
        if count == 1:
            block.rows[block.n] = row
            block.n += 1
        elif count > 1:
            block.repeated[block.n_repeated], block.tables[block.n_repeated] = row, look_up_of(t, w, count)
            block.n_repeated += 1
            while count > MOST_TOKENS:      # the look-up holds the sum divided into equal parts
                add_rows(t, &block, m, scores)
                block.repeated[0], block.tables[0] = row, look_up_of(t, w, <Py_ssize_t> entry_value(&x, p))
                block.n_repeated, block.tokens = 1, MOST_TOKENS
                count -= MOST_TOKENS
    add_rows(t, &block, m, scores)


cdef void multiply_rising(const log_table *t, Py_ssize_t w, double count, Py_ssize_t m, double *product,
                          double *terms) noexcept nogil:
    """Multiply `product` by the rising factorial of a repeated word, computed from the counts.

    Its log is added to `terms` from time to time, before it overflows.
    """
    cdef Py_ssize_t j, c
    for c in range(<Py_ssize_t> count):
        for j in range(m):
            product[j] *= count_at(t, w, j) + t.prior[w] + c
        if c % 8 == 7 or c + 1 >= count:
            expfam_log(product, product, m)
            expfam_add_row(terms, product, 1.0, m)
            for j in range(m):
                product[j] = 1.0


cdef void score_floats(const log_table *t, const csr_rows *x, Py_ssize_t i, Py_ssize_t m, float *scores, double *terms,
                       double *product) noexcept nogil:
    """Add the words of a row to the scores, from logs in single precision and counts."""
    cdef const float *rows[MOST_TOKENS]
    cdef Py_ssize_t p, w, j, n = 0
    cdef double count
    cdef bint has_terms = False
    for p in range(row_start(x, i), row_start(x, i + 1)):
        count = entry_value(x, p)
        w = entry_column(x, p)
        if count == 1:
            rows[n] = <const float *> t.logs + w * t.width
            n += 1
            if n == MOST_TOKENS:
                expfam_float_rows(rows, n, scores, m)
                n = 0
        elif count > 1:
            if not has_terms:
                for j in range(m):
                    terms[j], product[j] = 0.0, 1.0
                has_terms = True
            multiply_rising(t, w, count, m, product, terms)
    if n:
        expfam_float_rows(rows, n, scores, m)
    if has_terms:
        for j in range(m):
            scores[j] += <float> terms[j]


ctypedef struct scratch:
    float *scores
    float *sums
    double *terms
    double *product
    double total
    Py_ssize_t m


cdef inline double missing_new(const log_table *t, const scratch *s, double total) noexcept nogil:
    """Return the difference of a new cluster's weight to its least share of the total, or 0.

    In crossfit mode a new cluster stands for all clusters inside the block, which are not in the table. With only the
    prior's weight, a datum in one of them could hardly ever leave it.
    """
    if t.mass.bias[t.mass.new_column] == -INFINITY:
        return 0.0
    return max(FLOOR_NEW * total - s.scores[t.mass.new_column], 0.0)


cdef inline const counted_rows *row_of(const log_table *t, Py_ssize_t *i) noexcept nogil:
    """Return the rows with datum i, copies if there is one, and set i to its place there.

    Memory that the next draws read first is prefetched.
    """
    cdef Py_ssize_t j = t.block_at[i[0]], next_row = i[0] + 1
    if j < t.n_block and t.block_rows[j] == i[0]:
        if j + AHEAD < t.n_block:
            EXPFAM_PREFETCH(t.block_at + t.block_rows[j + AHEAD])
            if not t.is_copied:
                expect_start(&t.all, t.block_rows[j + AHEAD])
        if t.is_copied:
            i[0] = j
            return &t.block
        next_row = t.block_rows[min(j + 1, t.n_block - 1)]
    expect_row(&t.all.x, min(next_row, t.n_rows - 1))
    return &t.all


cdef int weigh(const log_table *t, Py_ssize_t i, scratch *s, double *work) noexcept nogil:
    """Compute the weights of all columns for datum i, their sums by block, and the total."""
    cdef const counted_rows *all = row_of(t, &i)
    cdef float best
    s.m = scored(t)
    s.scores = <float *> work
    s.sums = s.scores + t.width
    s.terms = work + t.width // 2 + t.width // EXPFAM_BLOCK
    s.product = s.terms + t.width
    begin_scores(t, all, i, s.m, s.scores, s.terms)
    if t.is_float:
        score_floats(t, &all.x, i, s.m, s.scores, s.terms, s.product)
    else:
        score_bytes(t, &all.x, i, s.m, s.scores)
    best = expfam_max_float(s.scores, s.m)
    if not -3.4e38 < best < 3.4e38:
        return EXPFAM_NUMERICAL
    s.total = expfam_float_exp_blocks(s.scores, best, s.sums, s.m // EXPFAM_BLOCK)
    return EXPFAM_OK if 0.5 <= s.total < INFINITY else EXPFAM_NUMERICAL


cdef int table_draw(void *self, Py_ssize_t i, Py_ssize_t k_old, bitgen_t *rng, Py_ssize_t *k_new, double *log_back,
                    double *work) noexcept nogil:
    cdef const log_table *t = <const log_table *> self
    cdef scratch s
    cdef Py_ssize_t old = t.mass.new_column if k_old == EXPFAM_NEW else k_old, new
    cdef float more
    cdef int code
    if not 0 <= i < t.n_rows or not 0 <= old < t.width:
        return EXPFAM_RANGE
    code = weigh(t, i, &s, work)
    if code:
        return code
    more = <float> missing_new(t, &s, s.total)
    s.scores[t.mass.new_column] += more
    s.sums[t.mass.new_column // EXPFAM_BLOCK] += more
    s.total += more
    new = expfam_float_pick(s.scores, s.sums, s.total, rng.next_double(rng.state), s.m)
    k_new[0] = EXPFAM_NEW if new == t.mass.new_column else new
    log_back[0] = 0.0 if new == old else log(s.scores[old]) - log(s.scores[new])
    return EXPFAM_OK


cdef int table_log_prob(void *self, Py_ssize_t i, Py_ssize_t k_old, const Py_ssize_t *ks, Py_ssize_t m, double *out,
                        double *work) noexcept nogil:
    cdef const log_table *t = <const log_table *> self
    cdef scratch s
    cdef Py_ssize_t j, k
    cdef double total = 0.0, more, weight   # double: the numbers of the slots must not matter
    cdef int code
    if not 0 <= i < t.n_rows:
        return EXPFAM_RANGE
    code = weigh(t, i, &s, work)
    if code:
        return code
    for j in range(s.m):
        total += s.scores[j]
    more = missing_new(t, &s, total)
    for j in range(m):
        k = t.mass.new_column if ks[j] == EXPFAM_NEW else ks[j]
        if not 0 <= k < t.width:
            return EXPFAM_RANGE
        weight = s.scores[k] if k < s.m else 0.0
        if k == t.mass.new_column:
            weight += more
        out[j] = log(weight / (total + more)) if weight > 0 else -INFINITY
    return EXPFAM_OK


# ---- single moves --------------------------------------------------------------------------------------------------

cdef void enter(log_table *t, Py_ssize_t i, Py_ssize_t k) noexcept nogil:
    add_words(t, i, k, 1)
    t.total[k] += t.all.length[i]
    mass_enter(t.mass, k)
    set_level(t, k)


cdef int table_hold_out(void *self, Py_ssize_t i, Py_ssize_t k) noexcept nogil:
    cdef log_table *t = <log_table *> self
    if not 0 <= i < t.n_rows or not 0 <= k < t.width or t.mass.n[k] < 1:
        return EXPFAM_RANGE
    t.has_lengths = False           # rows of lengths are not updated by single moves
    add_words(t, i, k, -1)
    t.total[k] -= t.all.length[i]
    mass_leave(t.mass, k)
    set_level(t, k)
    return EXPFAM_OK


cdef int table_restore(void *self, Py_ssize_t i, Py_ssize_t k) noexcept nogil:
    enter(<log_table *> self, i, k)
    return EXPFAM_OK


cdef int table_moved(void *self, Py_ssize_t i, Py_ssize_t source, Py_ssize_t target) noexcept nogil:
    cdef log_table *t = <log_table *> self
    if not 0 <= target < t.width - 1:
        return EXPFAM_RANGE
    enter(t, i, target)
    return EXPFAM_OK


# ---- the proposal --------------------------------------------------------------------------------------------------

class TableProposal(Proposal):
    """Proposal by a table of log counts over all clusters, in bytes or single precision.

    It is for the multinomial and Poisson families with integer counts, most of them small. The weights differ from the
    exact conditional only by rounding, so nearly all proposals are accepted.

    Parameters
    ----------
    dtype : {"uint8", "float32"}
        Type of the table. Bytes need a quarter of the memory and of the memory traffic.

    Examples
    --------
    >>> from expfam.samplers import CollapsedMetropolis, TableProposal
    >>> CollapsedMetropolis(TableProposal(), mode="removed")
    CollapsedMetropolis(proposal=TableProposal(dtype='uint8'), mode='removed', n_blocks='auto',
    order='sequential', n_threads=None)

    Notes
    -----
    Scores are those of Ahmed et al. 2012, eq. 18, written as log rising factorials; the table is not in the paper.
    It needs 3 bytes for each pair of a column of the data and a slot, or 6 to 8 bytes in single precision.
    """

    modes = frozenset({"crossfit", "removed", "included", "frozen"})
    _constraints = {"dtype": ("uint8", "float32")}

    def __init__(self, *, dtype="uint8"):
        self.dtype = dtype

    def check(self, model, data):
        """Refuse families and data that the table cannot hold."""
        super().check(model, data)
        kind = getattr(model.family, "count_model", None)
        if kind not in _MODELS:
            raise CapabilityError(
                f"TableProposal serves the families multinomial and poisson; {model.family.name!r} is another:"
                " use Int8Proposal or HashProposal"
            )
        is_whole, heaviest = data.whole_counts
        if not is_whole:
            raise DataError("TableProposal needs whole counts; these data have fractions: use CollapsedGibbs")
        if heaviest >= 2**31:
            raise DataError(f"TableProposal: a column of the data sums to {heaviest:.3g}, more than 2**31 - 1")

    def memory(self, model, data, n_clusters):
        """Return how many bytes `bind` and the first sweep need at most, from sizes only.

        Parameters
        ----------
        model : MixtureModel
        data : Dataset
        n_clusters : int

        Returns
        -------
        int
        """
        width = (n_clusters + EXPFAM_BLOCK) // EXPFAM_BLOCK * EXPFAM_BLOCK
        entry = 8 if self.dtype == "float32" else 3
        fixed = LOOK_UP * MOST_LOOK_UPS + MOST_SEEN
        words = data.n_statistics * (width * entry + 9 * N_PARTS)       # with the changes that parts of columns sum
        n_blocks = min(max(data.n_rows // 96, 16), 128)      # of which the entries of two are copied, by default
        copied = 16 * (data.X.nnz if data.is_sparse else data.X.size) // n_blocks
        return int(words + copied + 48 * data.n_rows + 4 * MOST_LENGTHS * width + fixed)

    def bind(self, model, data, *, seed):
        """Make the bound proposal; the seed is not used."""
        self.check(model, data)
        return BoundTable(model, data, is_float=self.dtype == "float32")


cdef class BoundTable:
    """A bound `TableProposal`: the table of one data set.

    The results of `shift` do not depend on `n_threads`. `is_exact` is True, because counts are integers; `takes_data`
    is True, because a shift that adds all data to empty clusters is the cheapest refresh.
    """

    is_exact = True
    takes_data = True
    cdef proposal_v1 api
    cdef log_table t
    cdef readonly object capsule
    cdef public object n_threads, pending
    cdef Masses masses
    cdef object arrays, logs, counts, place, prior, byte_of, look_ups, repeat_place, word_level, columns
    cdef object lengths, length_place, length_part, length_rows, length_ready
    cdef double[::1] sums
    cdef object most, repeats, block_at, block_rows, changed_sums, changed_words, new_bytes
    cdef BlockRows block, former

    def __init__(self, model, data, *, is_float):
        family = model.family
        self.n_threads = self.pending = None
        self.t.model = _MODELS[family.count_model]
        self.t.is_float = is_float
        self.t.n_rows, self.t.n_words = data.n_rows, data.n_statistics
        self.masses = Masses(model.weights, data.n_rows)
        self.t.mass = &self.masses.t
        self._open(family, data)
        self._set_prior(family)
        self._set_lengths()
        self._allocate()
        self.api.abi_version, self.api.struct_size = EXPFAM_ABI, sizeof(proposal_v1)
        self.api.flags = self.api.reserved = 0
        self.api.self = <void *> &self.t
        self.api.draw, self.api.log_prob = table_draw, table_log_prob
        self.api.hold_out, self.api.restore, self.api.moved = table_hold_out, table_restore, table_moved
        self.capsule = PyCapsule_New(&self.api, "expfam.proposal_v1", NULL)

    def _open(self, family, data):
        X = data.X
        if sparse.issparse(X) and X.dtype.kind == "i":      # integers already
            values, columns, starts = (np.ascontiguousarray(a) for a in (X.data, X.indices, X.indptr))
        else:
            values, columns, starts = count_rows(X)[:3]
        self.arrays = (values, columns, starts)
        open_rows(&self.t.all.x, values, columns, starts)
        self._survey()
        self.t.is_narrow = self.most.max(initial=0) < 65536
        cdef const int32_t[::1] block_at
        self.block, self.former = BlockRows(), BlockRows()
        self.block_at = np.zeros(data.n_rows, dtype=np.int32)
        block_at = self.block_at
        self.t.block_at, self.t.n_block = &block_at[0], 0
        self.changed_sums, self.changed_words, self.new_bytes = [], [], []

    def _survey(self):
        """Compute sums of rows and columns, and list the counts of at least 2 that occur."""
        sums, most = np.zeros(self.t.n_rows), np.zeros(self.t.n_words)
        seen = np.zeros(MOST_SEEN, dtype=np.uint8)
        cdef double[::1] row_sums = sums, column_sums = most
        cdef uint8_t[::1] seen_view = seen
        cdef bint is_complete
        with nogil:
            is_complete = survey(&self.t.all.x, self.t.n_rows, &row_sums[0], &column_sums[0], &seen_view[0])
        self.sums, self.most = row_sums, most
        self.t.all.length = &self.sums[0]
        self.repeats = np.flatnonzero(seen[2:]) + 2
        if not is_complete:
            values = self.arrays[0]
            self.repeats = np.append(self.repeats, np.unique(values[values >= MOST_SEEN]).astype(np.intp))

    def _set_prior(self, family):
        """Set pseudo-counts, the size of a step, and look-ups for repeated words."""
        a, totals = family.pseudocounts()
        self.prior = np.ascontiguousarray(a, dtype=np.float64)
        cdef const double[::1] prior = self.prior
        self.t.prior, self.t.prior_total = &prior[0], float(totals.sum())
        self.t.rate = family.rate if self.t.model == POISSON else 1.0
        most, repeats = self.most, self.repeats
        self.t.step = max(float(np.log1p(most / self.prior).max()) / 255.0, 1e-6)
        self.t.byte_of = self.t.place = NULL
        if self.t.is_float:
            return
        cdef const uint8_t[::1] byte_of
        if self.prior.min() == self.prior.max():
            counts = np.arange(min(int(most.max()), 65535) + 1.0)
            self.byte_of = np.minimum(np.rint(np.log1p(counts / self.prior[0]) / self.t.step), 255).astype(np.uint8)
            byte_of = self.byte_of
            self.t.byte_of, self.t.n_tabled = &byte_of[0], byte_of.shape[0]
        self.place = np.empty(most.size, dtype=np.int32)
        self.place[np.argsort(-most, kind="stable")] = np.arange(most.size)
        self.t.n_heavy = int(np.count_nonzero(most >= 65536))
        cdef const int32_t[::1] place = self.place
        self.t.place = &place[0]
        self._set_look_ups(repeats)

    def _set_look_ups(self, repeats):
        """Make look-ups from bytes to logs of rising factorials.

        There is one for each pseudo-count and each number of repeats of a word.
        """
        cdef Py_ssize_t most_levels = max(1, min(MOST_LEVELS, MOST_LOOK_UPS // max(1, len(repeats))))
        levels = np.unique(self.prior)
        if levels.size > most_levels:       # a proposal need not be exact: pseudo-counts may differ a little
            levels = np.geomspace(levels[0], levels[levels.size - 1], most_levels)
        place = np.zeros(int(repeats.max(initial=1)) + 1, dtype=np.int32)
        place[repeats] = np.arange(repeats.size)
        self.repeat_place = place
        look_ups = [_look_ups(a, repeats, self.t.step) for a in levels]
        self.look_ups = np.append(np.concatenate(look_ups).ravel(), np.uint8(0))      # the last byte: never empty
        cdef const uint8_t[::1] look_ups_view = self.look_ups
        cdef const int32_t[::1] places = self.repeat_place
        cdef const uint8_t[::1] word_level
        self.t.look_ups, self.t.repeat_place, self.t.n_repeats = &look_ups_view[0], &places[0], repeats.size
        self.t.word_level = NULL
        if levels.size > 1:
            middles = np.sqrt(levels[1:] * levels[: levels.size - 1])
            self.word_level = np.searchsorted(middles, self.prior).astype(np.uint8)
            word_level = self.word_level
            self.t.word_level = &word_level[0]

    def _set_lengths(self):
        """Choose the lengths with a row, and find each datum's position between them.

        The length term of a Poisson family needs no rows.
        """
        self.t.has_lengths, self.t.all.length_place = False, NULL
        if self.t.model == POISSON:
            return
        own = np.asarray(self.sums)
        lengths = _grid(np.unique(own), self.t.prior_total)
        place = np.maximum(np.searchsorted(lengths, own, side="right") - 1, 0)
        after = np.minimum(place + 1, lengths.size - 1)
        gap = np.maximum(lengths[after] - lengths[place], 1.0)
        part = ((own - lengths[place]) / gap).astype(np.float32)
        self.lengths = lengths
        self.length_place = np.ascontiguousarray(place, dtype=np.int32)
        self.length_part = part
        self.length_ready = np.zeros(lengths.size, dtype=np.uint8)
        cdef const int32_t[::1] places = self.length_place
        cdef const float[::1] parts = self.length_part
        cdef uint8_t[::1] ready = self.length_ready
        self.t.all.length_place, self.t.all.length_part, self.t.length_ready = &places[0], &parts[0], &ready[0]

    def _allocate(self):
        """Allocate tables of the present width, and copy the old columns."""
        cdef Py_ssize_t width = self.masses.t.width, old = self.t.width
        shape = self.t.n_words, width
        is_narrow = self.t.is_narrow or not self.t.is_float
        count_shape = shape if self.t.is_float else (width, self.t.n_words + self.t.n_heavy)
        try:
            logs = _zeros(shape, np.float32 if self.t.is_float else np.uint8)
            counts = _zeros(count_shape, np.uint16 if is_narrow else np.int32)
        except MemoryError:
            raise MemoryError(
                f"TableProposal: {counted(shape[0], 'column')} x {counted(width, 'slot needs', 'slots need')}"
                f" {shape[0] * width * (8 if self.t.is_float else 3) / 2**30:.1f} GiB: use HashProposal"
            ) from None
        columns = np.zeros((3, width))
        if old:
            logs[:, :old], columns[:, :old] = self.logs, self.columns
            counts[: self.counts.shape[0], : self.counts.shape[1]] = self.counts
        self.logs, self.counts, self.columns = logs, counts, columns
        self.t.logs, self.t.counts = <void *> <size_t> logs.ctypes.data, <void *> <size_t> counts.ctypes.data
        cdef double[:, ::1] view = columns
        self.t.total, self.t.level, self.t.slope = &view[0, 0], &view[1, 0], &view[2, 0]
        self.t.width = width
        cdef Py_ssize_t k
        for k in range(width):
            set_level(&self.t, k)
        self.api.work_size = width // 2 + width // EXPFAM_BLOCK + 2 * width
        cdef float[:, ::1] length_rows
        if self.t.model == MULTINOMIAL:
            self.length_rows = np.zeros((len(self.lengths), width), dtype=np.float32)
            length_rows = self.length_rows
            self.t.length_rows = &length_rows[0, 0]

    def reserve(self, n_slots):
        """Allocate memory for `n_slots` slots."""
        if self.masses.reserve(n_slots):
            self._allocate()

    def refresh(self, snapshot):
        """Make the table from the statistics of a snapshot."""
        if self.masses.set(snapshot):
            self.t.width = 0                # no old columns are copied
            self._allocate()
        else:
            self.logs.fill(0)
            self.counts.fill(0)
        self._load(snapshot.slots, sparse.csr_array(snapshot.S))
        self._set_levels()
        self.t.has_lengths = False

    def _load(self, slots, S):
        cdef const Py_ssize_t[::1] slot = slots
        cdef const int64_t[::1] starts = S.indptr.astype(np.int64), words = S.indices.astype(np.int64)
        cdef const double[::1] values = S.data.astype(np.float64)
        cdef Py_ssize_t j, p
        cdef double sum_
        self.columns[0] = 0.0
        with nogil:
            for j in range(slot.shape[0]):
                sum_ = 0.0
                for p in range(starts[j], starts[j + 1]):
                    put_count(&self.t, words[p], slot[j], rint(values[p]))
                    sum_ += rint(values[p])
                self.t.total[slot[j]] = sum_

    def _set_levels(self):
        cdef Py_ssize_t k
        for k in range(self.t.width):
            set_level(&self.t, k)

    def shift(self, snapshot, added, removed):
        """Update the table by data that were added and removed, in parallel over columns."""
        grew = self.masses.reserve(int(max(snapshot.slots.max(initial=0), added[1].max(initial=0))) + 1)
        if grew:
            self._allocate()
        self.former, self.block = self.block, self.former
        if len(added[0]) + len(removed[0]) < LEAST_SUMMED * max(self.masses.t.n_live, 1):
            self._begin_block(removed[0], False)
            self._move_rows(*added, *removed)
        else:
            self._move_columns(added, removed)
        self.masses.set(snapshot)
        self._set_levels()
        self._make_lengths(removed[0])

    def _begin_block(self, rows, is_copied):
        """Note for which data the next draws are made, in this order; copy their rows if that pays."""
        cdef const Py_ssize_t[::1] block_rows = rows
        self.block.copy(&self.t.all, rows if is_copied else rows[:0], self.n_threads)
        self.block_rows, self.t.n_block, self.t.is_copied = rows, len(rows), is_copied
        if len(rows):
            self.block_at[rows] = np.arange(len(rows), dtype=np.int32)
            self.t.block, self.t.block_rows = self.block.c, &block_rows[0]

    def _move_rows(self, const Py_ssize_t[::1] row_in, const Py_ssize_t[::1] slot_in, const Py_ssize_t[::1] row_out,
                   const Py_ssize_t[::1] slot_out):
        """Change the columns row by row, in parallel over columns."""
        def move_task(Py_ssize_t low, Py_ssize_t high):
            with nogil:
                if row_in.shape[0]:
                    add_data(&self.t, &row_in[0], &slot_in[0], row_in.shape[0], low, high, 1)
                if row_out.shape[0]:
                    add_data(&self.t, &row_out[0], &slot_out[0], row_out.shape[0], low, high, -1)

        # columns of one cache line must be written by one task only
        n_tasks = 1 if self.n_threads == 1 else 4
        run(move_task, _stretches(self.masses.t.width, n_tasks), self.n_threads, uses_blas=False)

    def _move_columns(self, added, removed):
        """Change each column by the sums of its rows, from copies of the rows."""
        rows, slots = added
        cdef Py_ssize_t most = min(MOST_COPIED, max(1, ENTRIES_COPIED * self.t.n_rows // max(len(self.arrays[1]), 1)))
        if not np.array_equal(rows, self.former.rows):
            while len(rows) > most:
                self.former.copy(&self.t.all, rows[:most], self.n_threads)
                self._add_sums(slots[:most], slots[:0])
                rows, slots = rows[most:], slots[most:]
            self.former.copy(&self.t.all, rows, self.n_threads)
        self._begin_block(removed[0], True)
        self._add_sums(slots, removed[1])

    def _add_sums(self, added_slots, removed_slots):
        """Let the rows of `former` enter and those of `block` leave the columns, in parallel."""
        cdef MovedRows moved = MovedRows((np.arange(len(added_slots)), added_slots),
                                         (np.arange(len(removed_slots)), removed_slots), self.masses.t.width)
        # Few columns share cache lines, which threads would take from each other.
        parts = moved.parts(1 if self.n_threads == 1 or self.t.width <= 2 * LINE else N_PARTS)
        while len(self.changed_sums) < len(parts):
            self.changed_sums.append(np.zeros(self.t.n_words, dtype=np.int32))
            self.changed_words.append(np.empty(self.t.n_words, dtype=np.int32))
            self.new_bytes.append(np.empty(self.t.n_words, dtype=np.uint8))

        def move_task(Py_ssize_t part, Py_ssize_t start, Py_ssize_t stop):
            cdef int32_t[::1] sums = self.changed_sums[part], words = self.changed_words[part]
            cdef uint8_t[::1] new_bytes = self.new_bytes[part]
            cdef changes c
            c.sums, c.words, c.bytes, c.n = &sums[0], &words[0], &new_bytes[0], 0
            with nogil:
                change_columns(&self.t, &moved.m, &self.former.c, &self.block.c, start, stop, &c)

        tasks = [(part, *bounds) for part, bounds in enumerate(parts)]
        run(move_task, tasks, self.n_threads, uses_blas=False)

    def _make_lengths(self, rows):
        """Compute the rows of the lengths that draws for the data of the block need."""
        if self.t.model == POISSON:
            return
        if self.t.is_copied:
            places, parts = self.block.places[: len(rows)], self.block.parts[: len(rows)]
        else:
            places, parts = self.length_place[rows], self.length_part[rows]
        self.t.has_lengths = True
        needed = np.bincount(places, minlength=len(self.lengths)) > 0
        between = np.bincount(places[parts > 0], minlength=len(self.lengths)) > 0
        needed[1:] |= between[: needed.size - 1]
        self.length_ready[:] = needed
        cdef const double[::1] lengths = self.lengths
        cdef const Py_ssize_t[::1] wanted = np.flatnonzero(needed)
        cdef Py_ssize_t m = scored(&self.t)

        def make_task(Py_ssize_t start, Py_ssize_t stop):
            cdef double[::1] terms = np.empty(m)
            cdef Py_ssize_t j
            cdef float *row
            with nogil:
                for j in range(start, stop):
                    row = self.t.length_rows + wanted[j] * self.t.width
                    length_terms(&self.t, lengths[wanted[j]], m, row, &terms[0])

        tasks = [(s, min(s + 16, wanted.shape[0])) for s in range(0, wanted.shape[0], 16)]
        run(make_task, tasks, self.n_threads, uses_blas=False)

    def to_arrays(self):
        """Return no arrays: the table is made from the statistics."""
        return {}

    def from_arrays(self, arrays):
        """Do nothing: the table is made from the statistics."""


def _zeros(shape, dtype):
    """Allocate a matrix of zeros that starts at a cache line, in large pages if possible.

    NumPy asks for large pages in `empty`, not in `zeros`. The rows of a datum's words are too far apart for small
    pages.
    """
    memory = in_lines(shape, dtype)
    memory.fill(0)
    return memory


def _stretches(Py_ssize_t n, Py_ssize_t n_tasks):
    """Divide 0..n-1 into at most `n_tasks` parts; their bounds are multiples of a cache line."""
    cdef Py_ssize_t size = (n + n_tasks * LINE - 1) // (n_tasks * LINE) * LINE
    return [(low, low + size) for low in range(0, n, size)]


def _look_ups(a, repeats, step):
    """Tabulate log rising(n + a, c) - log rising(a, c) in units: (repeats, 2, 256) uint8.

    The last axis is the byte of n, the second has low and high bytes of the result. For c > MOST_TOKENS the sum is
    divided by ceil(c / MOST_TOKENS).
    """
    counts = np.expm1(np.arange(256) * step) * a
    counts = np.where(counts < 64, np.rint(counts), counts)
    c = repeats.astype(np.float64)
    logs = log_rising(counts[:, None] + a, c) - log_rising(np.float64(a), c)
    units = np.rint(logs / (step * np.ceil(c / MOST_TOKENS)))
    units = np.clip(units, 0, 255 * np.minimum(c, MOST_TOKENS)).astype(np.uint16).T
    return np.stack([units & 255, units >> 8], axis=1).astype(np.uint8)


def _grid(lengths, double a):
    """Choose at most 512 lengths between which terms can be interpolated.

    Between them the log rising factorial of a cluster of total a is linear up to 0.02 nats, unless this needs more than
    512 lengths. Interpolation over a gap d errs by at most d^2 / 8 times the second derivative, about 1 / (a + L).
    """
    chosen = [lengths[0]]
    for length in lengths[1:].tolist():
        if length - chosen[len(chosen) - 1] >= (0.16 * (a + chosen[len(chosen) - 1])) ** 0.5:
            chosen.append(length)
    if chosen[len(chosen) - 1] != lengths[lengths.size - 1]:
        chosen.append(lengths[lengths.size - 1])
    if len(chosen) > MOST_LENGTHS:
        chosen = np.quantile(chosen, np.linspace(0, 1, MOST_LENGTHS), method="nearest")
    return np.unique(np.asarray(chosen, dtype=np.float64))
