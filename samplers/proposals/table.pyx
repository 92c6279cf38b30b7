"""Counts in clusters as a table of logarithms, one byte each: nearly the exact conditional, at a fraction of its cost.

For a datum's words the rows of the table are added up over all clusters at once. A word that occurs c >= 2 times goes
through a polynomial from the byte to log of the rising factorial, since c times the logarithm is far from it. Lengths
and prior weights enter exactly. Small counts have a byte of their own each, larger ones stand beside the bytes; so sums
of changes stay exact, and any sequence of shifts gives the bits of one refresh. O(W K) bytes are read by a draw, O(W)
written for each datum that comes or goes.
"""

import numpy as np
from scipy import sparse

from cpython.pycapsule cimport PyCapsule_New
from libc.math cimport INFINITY, log, log1p, rint
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t
from libc.string cimport memset
from numpy.random cimport bitgen_t

from expfam.contracts cimport (
    EXPFAM_ABI,
    EXPFAM_NEW,
    EXPFAM_NUMERICAL,
    EXPFAM_OK,
    EXPFAM_RANGE,
    proposal_v1,
)
from expfam.families._rows cimport csr_rows, entry_column, entry_value, open_rows, row_start
from expfam.samplers.proposals._masses cimport Masses, mass_enter, mass_leave, mass_table
from expfam.structures._kernels cimport (
    EXPFAM_BLOCK,
    expfam_add_row,
    expfam_byte_polynomial,
    expfam_byte_rows,
    expfam_float_rows,
    expfam_log,
    expfam_log_rising,
    expfam_max_float,
    expfam_prefetch,
    expfam_sign_pick,
    expfam_sign_weights,
)

from expfam.errors import CapabilityError, DataError
from expfam.families._counts import count_rows
from expfam.families._pseudocounts import column_sums, log_rising
from expfam.samplers.proposals.proposal import Proposal
from expfam.structures._threads import run

cdef enum:
    MULTINOMIAL = 0
    POISSON = 1
    MAX_ROWS = 256              # rows added up at once: sums of bytes fit 16 bits
    MOST_LENGTHS = 512          # lengths with a row of their own, at most; between these the rows are interpolated
    MOST_LEVELS = 64            # pseudo-counts with polynomials of their own
    N_COEFFICIENTS = 8
    LINE = 64                   # bytes
    AHEAD = 8                   # data whose memory is asked for before it is their turn

cdef double FLOOR_NEW = 0.01        # share of the draws that a new cluster has at least

_MODELS = {"multinomial": MULTINOMIAL, "poisson": POISSON}


ctypedef struct log_table:
    mass_table *mass
    int model
    int is_float                # float32 logs; else bytes
    int is_narrow               # uint16 counts; else int32
    Py_ssize_t n_rows
    Py_ssize_t n_words
    Py_ssize_t width            # columns
    csr_rows x
    const double *length        # (n_rows,) sum of each datum
    void *logs                  # (n_words, width) uint8 or float: log((n + a) / a), in units of `step` where bytes
    void *counts                # (n_words, width); where bytes tell small counts apart, only counts that they do not
    const double *prior         # (n_words,)
    double prior_total
    double rate
    double step                 # nats a unit
    const uint8_t *byte_of      # (n_tabled,) byte of a count under the symmetric prior, or NULL
    Py_ssize_t n_tabled
    int first_shared            # bytes below stand for one count each, which is `count_of` them
    uint16_t count_of[256]
    const float *polynomials    # (levels, repeats, 8) log rising factorial of the count behind a byte
    const int32_t *repeat_place     # (largest count + 1,) place of a count among the repeats
    Py_ssize_t n_repeats
    const uint8_t *word_level   # (n_words,) place of a word's pseudo-count among the levels, or NULL for one level
    double *total               # (width,) sum of the counts of a column
    double *level               # (width,) multinomial: total + a; Poisson: (a + total) log((b + n) / (b + n + 1))
    double *slope               # (width,) Poisson: log(b + n + 1)
    const int32_t *length_place     # (n_rows,) row of `length_rows` at or below the datum's length
    const float *length_part    # (n_rows,) how far its length lies towards the next row
    float *length_rows          # (lengths, width) log prior weight and length term of each column
    uint8_t *length_ready       # (lengths,)


# ---- entries -------------------------------------------------------------------------------------------------------

cdef inline double count_at(const log_table *t, Py_ssize_t w, Py_ssize_t k) noexcept nogil:
    cdef Py_ssize_t at = w * t.width + k
    cdef uint8_t byte
    if t.first_shared:
        byte = (<const uint8_t *> t.logs)[at]
        if byte < t.first_shared:
            return t.count_of[byte]
    if t.is_narrow:
        return (<const uint16_t *> t.counts)[at]
    return (<const int32_t *> t.counts)[at]


cdef inline double log_of(const log_table *t, Py_ssize_t w, double count) noexcept nogil:
    """log((count + a) / a), as the table holds it: in units of `step`, rounded, where it holds bytes."""
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
    if t.is_float:
        (<float *> t.logs)[at] = <float> value
    else:
        (<uint8_t *> t.logs)[at] = <uint8_t> value
        if value < t.first_shared:
            return
    if t.is_narrow:
        (<uint16_t *> t.counts)[at] = <uint16_t> count
    else:
        (<int32_t *> t.counts)[at] = <int32_t> count


cdef inline const float *polynomial_of(const log_table *t, Py_ssize_t w, double count) noexcept nogil:
    """What a word that occurs `count` times adds, by the byte."""
    cdef Py_ssize_t row = t.repeat_place[<Py_ssize_t> count]
    if t.word_level != NULL:
        row += t.word_level[w] * t.n_repeats
    return t.polynomials + N_COEFFICIENTS * row


cdef void set_level(log_table *t, Py_ssize_t k) noexcept nogil:
    cdef double n = t.mass.n[k]
    if t.model == MULTINOMIAL:
        t.level[k] = t.total[k] + t.prior_total
    else:
        t.level[k] = -(t.prior_total + t.total[k]) * log1p(1.0 / (t.rate + n))
        t.slope[k] = log(t.rate + n + 1.0)


cdef void expect_words(log_table *t, Py_ssize_t i, Py_ssize_t k) noexcept nogil:
    """Ask for the memory that adding datum i to column k will touch."""
    cdef Py_ssize_t p, size = 4 if t.is_float else 1
    for p in range(row_start(&t.x, i), row_start(&t.x, i + 1)):
        expfam_prefetch(<const uint8_t *> t.logs + (entry_column(&t.x, p) * t.width + k) * size, 1)


cdef void add_words(log_table *t, Py_ssize_t i, Py_ssize_t k, int sign) noexcept nogil:
    """Add the counts of datum i to column k, or take them out."""
    cdef Py_ssize_t p, w
    for p in range(row_start(&t.x, i), row_start(&t.x, i + 1)):
        w = entry_column(&t.x, p)
        put_count(t, w, k, count_at(t, w, k) + sign * entry_value(&t.x, p))


cdef void add_data(log_table *t, const Py_ssize_t *rows, const Py_ssize_t *slots, Py_ssize_t n, Py_ssize_t low,
                   Py_ssize_t high, int sign) noexcept nogil:
    """Add the data whose slot lies in low..high-1, or take them out."""
    cdef Py_ssize_t j, ahead = 0
    for j in range(n):
        while ahead < n and ahead < j + AHEAD:
            if low <= slots[ahead] < high:
                expect_words(t, rows[ahead], slots[ahead])
            ahead += 1
        if low <= slots[j] < high:
            add_words(t, rows[j], slots[j], sign)
            t.total[slots[j]] += sign * t.length[rows[j]]


# ---- weights -------------------------------------------------------------------------------------------------------

cdef inline Py_ssize_t scored(const log_table *t) noexcept nogil:
    """Columns that are scored, whole blocks: those beyond the last have a prior weight of zero."""
    return (t.mass.n_columns + EXPFAM_BLOCK - 1) // EXPFAM_BLOCK * EXPFAM_BLOCK


cdef void length_terms(const log_table *t, double length, Py_ssize_t m, float *out, double *terms) noexcept nogil:
    """Log prior weight and length term of the first m columns."""
    cdef Py_ssize_t j
    cdef double middle, spread
    if t.model == POISSON:
        for j in range(m):
            out[j] = <float> (t.mass.bias[j] + t.level[j] - length * t.slope[j])
        return
    if t.prior_total >= 4 * length:         # sum of log(level + j) about its middle, to 1e-5 a count
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


cdef void begin_scores(const log_table *t, Py_ssize_t i, Py_ssize_t m, float *out, double *terms) noexcept nogil:
    cdef Py_ssize_t j, place
    cdef float part
    cdef const float *low
    cdef const float *high
    if t.length_place == NULL or not t.length_ready[t.length_place[i]]:
        length_terms(t, t.length[i], m, out, terms)
        return
    place, part = t.length_place[i], t.length_part[i]
    low = t.length_rows + place * t.width
    if part == 0:
        for j in range(m):
            out[j] = low[j]
        return
    high = low + t.width
    for j in range(m):
        out[j] = low[j] + part * (high[j] - low[j]) if low[j] > -INFINITY else low[j]


ctypedef struct row_block:
    const void *rows[MAX_ROWS]
    Py_ssize_t n


cdef inline void add_rows(const log_table *t, row_block *block, Py_ssize_t m, float *scores) noexcept nogil:
    if t.is_float:
        expfam_float_rows(<const float *const *> block.rows, block.n, scores, m)
    else:
        expfam_byte_rows(<const uint8_t *const *> block.rows, block.n, <float> t.step, scores, m)
    block.n = 0


cdef void multiply_rising(const log_table *t, Py_ssize_t w, double count, Py_ssize_t m, double *product,
                          double *terms) noexcept nogil:
    """product *= rising factorial of a repeated word, or its log into `terms`, by the counts themselves."""
    cdef Py_ssize_t j, c
    for c in range(<Py_ssize_t> count):
        for j in range(m):
            product[j] *= count_at(t, w, j) + t.prior[w] + c
        if c % 8 == 7 or c + 1 >= count:
            expfam_log(product, product, m)
            expfam_add_row(terms, product, 1.0, m)
            for j in range(m):
                product[j] = 1.0


cdef void score_columns(const log_table *t, Py_ssize_t i, Py_ssize_t m, float *scores, double *terms,
                        double *product) noexcept nogil:
    """Log weights of the first m columns for datum i."""
    cdef Py_ssize_t p, w, j
    cdef double count
    cdef row_block block
    cdef bint has_terms = False
    if not t.is_float:              # rows lie far apart; the machine itself looks ahead within each
        for p in range(row_start(&t.x, i), row_start(&t.x, i + 1)):
            expfam_prefetch(<const uint8_t *> t.logs + entry_column(&t.x, p) * t.width, min(m, 2 * LINE))
    begin_scores(t, i, m, scores, terms)
    block.n = 0
    for p in range(row_start(&t.x, i), row_start(&t.x, i + 1)):
        count = entry_value(&t.x, p)
        w = entry_column(&t.x, p)
        if count == 1:
            if t.is_float:
                block.rows[block.n] = <const float *> t.logs + w * t.width
            else:
                block.rows[block.n] = <const uint8_t *> t.logs + w * t.width
            block.n += 1
            if block.n == MAX_ROWS:
                add_rows(t, &block, m, scores)
        elif count > 1 and not t.is_float:
            expfam_byte_polynomial(<const uint8_t *> t.logs + w * t.width, polynomial_of(t, w, count), scores, m)
        elif count > 1:
            if not has_terms:
                for j in range(m):
                    terms[j], product[j] = 0.0, 1.0
                has_terms = True
            multiply_rising(t, w, count, m, product, terms)
    if block.n:
        add_rows(t, &block, m, scores)
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
    """What the weight of a new cluster lacks to its least share of the total.

    In crossfit mode it stands for all clusters inside the block, of which the table knows nothing: with the prior's
    weight alone a datum that is in one of them would hardly ever be let go.
    """
    if t.mass.bias[t.mass.new_column] == -INFINITY:
        return 0.0
    return max(FLOOR_NEW * total - s.scores[t.mass.new_column], 0.0)


cdef int weigh(const log_table *t, Py_ssize_t i, scratch *s, double *work) noexcept nogil:
    """Weights of all columns for datum i, with sums by block and their total."""
    cdef float best
    s.m = scored(t)
    s.scores = <float *> work
    s.sums = s.scores + t.width
    s.terms = work + t.width // 2 + t.width // EXPFAM_BLOCK
    s.product = s.terms + t.width
    score_columns(t, i, s.m, s.scores, s.terms, s.product)
    best = expfam_max_float(s.scores, s.m)
    if not -3.4e38 < best < 3.4e38:
        return EXPFAM_NUMERICAL
    s.total = expfam_sign_weights(s.scores, best, s.sums, s.m // EXPFAM_BLOCK)
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
    new = expfam_sign_pick(s.scores, s.sums, s.total, rng.next_double(rng.state), s.m)
    k_new[0] = EXPFAM_NEW if new == t.mass.new_column else new
    log_back[0] = 0.0 if new == old else log(s.scores[old]) - log(s.scores[new])
    return EXPFAM_OK


cdef int table_log_prob(void *self, Py_ssize_t i, Py_ssize_t k_old, const Py_ssize_t *ks, Py_ssize_t m, double *out,
                        double *work) noexcept nogil:
    cdef const log_table *t = <const log_table *> self
    cdef scratch s
    cdef Py_ssize_t j, k
    cdef double total = 0.0, more, weight   # in double: the same for any numbering of the slots
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
    t.total[k] += t.length[i]
    mass_enter(t.mass, k)
    set_level(t, k)


cdef int table_hold_out(void *self, Py_ssize_t i, Py_ssize_t k) noexcept nogil:
    cdef log_table *t = <log_table *> self
    if not 0 <= i < t.n_rows or not 0 <= k < t.width or t.mass.n[k] < 1:
        return EXPFAM_RANGE
    t.length_place = NULL           # rows of lengths do not follow single moves
    add_words(t, i, k, -1)
    t.total[k] -= t.length[i]
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
    """Proposes by a table of log counts over all clusters, in bytes or single precision.

    For the multinomial and Poisson families with whole counts, of which most are small. The weights differ from the
    exact conditional by rounding only, so that nearly everything is accepted.

    Parameters
    ----------
    dtype : {"uint8", "float32"}
        Bytes, at a quarter of the memory and traffic, or floats.

    Examples
    --------
    >>> from expfam.samplers import CollapsedMetropolis, TableProposal
    >>> CollapsedMetropolis(TableProposal(), mode="removed")
    CollapsedMetropolis(proposal=TableProposal(dtype='uint8'), mode='removed', n_blocks='auto', n_threads=None)

    Notes
    -----
    Scores are those of Ahmed et al. 2012, eq. 18, written as log rising factorials; the table is not in the paper.
    Memory: 3 to 8 bytes for each column of the data and slot.
    """

    modes = frozenset({"crossfit", "removed", "included", "frozen"})

    def __init__(self, *, dtype="uint8"):
        self.dtype = dtype

    def check(self, model, data):
        """Refuse families and data that the table cannot hold, before any work."""
        if self.dtype not in ("uint8", "float32"):
            raise ValueError(f"dtype must be 'uint8' or 'float32'; got {self.dtype!r}")
        kind = getattr(model.family, "count_model", None)
        if kind not in _MODELS:
            raise CapabilityError(
                f"TableProposal serves the families multinomial and poisson; {model.family.name!r} is another:"
                " use Int8Proposal or HashProposal"
            )

    def memory(self, model, data, n_clusters):
        """Bytes that `bind` and the first sweep take at most for so many clusters; from sizes alone.

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
        entry = 8 if self.dtype == "float32" else 5      # with counts of 4 bytes; 2 where they fit
        return int(data.n_statistics * width * entry + 48 * data.n_rows + 4 * MOST_LENGTHS * width)

    def bind(self, model, data, *, seed):
        """Working table; the seed is not used."""
        self.check(model, data)
        return BoundTable(model, data, is_float=self.dtype == "float32")


cdef class BoundTable:
    """A table at work on one data set.

    Parameters
    ----------
    model : MixtureModel
    data : Dataset
    is_float : bool

    Attributes
    ----------
    capsule : PyCapsule
        Named "expfam.proposal_v1".
    n_threads : int or None
        For `shift`; does not change results.
    is_exact : bool
        True: counts are whole.
    takes_data : bool
        True: a shift from nothing to all data is the cheapest way to tell it everything.
    """

    is_exact = True
    takes_data = True
    cdef proposal_v1 api
    cdef log_table t
    cdef readonly object capsule
    cdef public object n_threads, pending
    cdef Masses masses
    cdef object arrays, logs, counts, prior, byte_of, polynomials, repeat_place, word_level, columns
    cdef object lengths, length_place, length_part, length_rows, length_ready
    cdef double[::1] sums

    def __init__(self, model, data, *, is_float):
        family = model.family
        self.n_threads = self.pending = None
        self.t.model = _MODELS[family.count_model]
        self.t.is_float = is_float
        self.t.n_rows, self.t.n_words = data.n_rows, data.n_statistics
        self.masses = Masses(model.weights, data.n_rows)
        self.t.mass = &self.masses.t
        self._open(family, data)
        self._set_prior(family, data)
        self._set_lengths()
        self._allocate()
        self.api.abi_version, self.api.struct_size = EXPFAM_ABI, sizeof(proposal_v1)
        self.api.flags = self.api.reserved = 0
        self.api.self = <void *> &self.t
        self.api.draw, self.api.log_prob = table_draw, table_log_prob
        self.api.hold_out, self.api.restore, self.api.moved = table_hold_out, table_restore, table_moved
        self.capsule = PyCapsule_New(&self.api, "expfam.proposal_v1", NULL)

    def _open(self, family, data):
        values, columns, starts, sums, is_fractional, heaviest = count_rows(data.X)
        if is_fractional:
            raise DataError("TableProposal needs whole counts; these data have fractions: use CollapsedGibbs")
        if heaviest >= 2**31:
            raise DataError(f"TableProposal: a column of the data sums to {heaviest:.3g}, more than 2**31 - 1")
        self.t.is_narrow = heaviest < 65536
        self.arrays = (values, columns, starts)
        open_rows(&self.t.x, values, columns, starts)
        self.sums = np.ascontiguousarray(sums)
        self.t.length = &self.sums[0]

    def _set_prior(self, family, data):
        """Pseudo-counts, the size of a step, and look-ups for repeated words."""
        a, totals = family.pseudocounts()
        self.prior = np.ascontiguousarray(a, dtype=np.float64)
        cdef const double[::1] prior = self.prior
        self.t.prior, self.t.prior_total = &prior[0], float(totals.sum())
        self.t.rate = family.rate if self.t.model == POISSON else 1.0
        most = column_sums(data.X)
        self.t.step = max(float(np.log1p(most / self.prior).max()) / 255.0, 1e-6)
        self.t.byte_of, self.t.first_shared = NULL, 0
        cdef const uint8_t[::1] byte_of
        if not self.t.is_float and self.prior.min() == self.prior.max():
            counts = np.arange(min(int(most.max()), 65535) + 1.0)
            self.byte_of = np.minimum(np.rint(np.log1p(counts / self.prior[0]) / self.t.step), 255).astype(np.uint8)
            byte_of = self.byte_of
            self.t.byte_of, self.t.n_tabled = &byte_of[0], byte_of.shape[0]
            self._tell_apart(byte_of)
        if not self.t.is_float:
            self._set_polynomials()

    def _tell_apart(self, const uint8_t[::1] byte_of):
        """How many counts from 0 on have a byte that no other count has."""
        cdef Py_ssize_t n = 0
        while n + 1 < byte_of.shape[0] and byte_of[n + 1] > byte_of[n] and byte_of[n + 1] < 255:
            self.t.count_of[byte_of[n]] = <uint16_t> n
            n += 1
        self.t.first_shared = byte_of[n]

    def _set_polynomials(self):
        """For each pseudo-count and each number of repeats, log of the rising factorial by least squares."""
        values = self.arrays[0]
        repeats = np.unique(values[values > 1]) if values is not None else np.zeros(0)
        levels = np.unique(self.prior)
        if levels.size > MOST_LEVELS:       # a polynomial may use a pseudo-count that is a little off: it is a proposal
            levels = np.geomspace(levels[0], levels[levels.size - 1], MOST_LEVELS)
        place = np.zeros(int(repeats.max(initial=1)) + 1, dtype=np.int32)
        place[repeats.astype(np.intp)] = np.arange(repeats.size)
        self.repeat_place = place
        fits = [_polynomials(a, repeats.astype(np.float64), self.t.step) for a in levels]
        self.polynomials = np.ascontiguousarray(np.append(np.concatenate(fits).ravel(), 0.0), dtype=np.float32)
        cdef const float[::1] polynomials = self.polynomials
        cdef const int32_t[::1] places = self.repeat_place
        cdef const uint8_t[::1] word_level
        self.t.polynomials, self.t.repeat_place, self.t.n_repeats = &polynomials[0], &places[0], repeats.size
        self.t.word_level = NULL
        if levels.size > 1:
            middles = np.sqrt(levels[1:] * levels[: levels.size - 1])
            self.word_level = np.searchsorted(middles, self.prior).astype(np.uint8)
            word_level = self.word_level
            self.t.word_level = &word_level[0]

    def _set_lengths(self):
        """The lengths that get a row, and where the data lie between them; a Poisson's term needs none."""
        self.t.length_place = NULL
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

    def _allocate(self):
        """Tables for the present width, with the columns there were."""
        cdef Py_ssize_t width = self.masses.t.width, old = self.t.width
        shape = self.t.n_words, width
        try:
            logs = np.zeros(shape, dtype=np.float32 if self.t.is_float else np.uint8)
            counts = np.zeros(shape, dtype=np.uint16 if self.t.is_narrow else np.int32)
        except MemoryError:
            raise MemoryError(
                f"TableProposal: {shape[0]} columns x {width} slots need"
                f" {shape[0] * width * (7 if self.t.is_float else 5) / 2**30:.1f} GiB: use HashProposal"
            ) from None
        columns = np.zeros((3, width))
        if old:
            logs[:, :old], counts[:, :old], columns[:, :old] = self.logs, self.counts, self.columns
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
        """Room for so many slots."""
        if self.masses.reserve(n_slots):
            self._allocate()

    def refresh(self, snapshot):
        """Take up the statistics of a snapshot."""
        if self.masses.set(snapshot):
            self.t.width = 0                # nothing is to be kept
            self._allocate()
        memset(self.t.logs, 0, self.logs.nbytes)
        memset(self.t.counts, 0, self.counts.nbytes)
        self._load(snapshot.slots, sparse.csr_array(snapshot.S))
        self._set_levels()
        self.t.length_place = NULL

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
        """Take up a change of the statistics by whole data, in parallel over columns."""
        grew = self.masses.reserve(int(max(snapshot.slots.max(initial=0), added[1].max(initial=0))) + 1)
        if grew:
            self._allocate()
        self._move(*added, *removed)
        self.masses.set(snapshot)
        self._set_levels()
        self._make_lengths(removed[0])

    def _move(self, added, added_slots, removed, removed_slots):
        cdef const Py_ssize_t[::1] row_in = added, slot_in = added_slots, row_out = removed, slot_out = removed_slots

        def move_task(Py_ssize_t low, Py_ssize_t high):
            with nogil:
                if row_in.shape[0]:
                    add_data(&self.t, &row_in[0], &slot_in[0], row_in.shape[0], low, high, 1)
                if row_out.shape[0]:
                    add_data(&self.t, &row_out[0], &slot_out[0], row_out.shape[0], low, high, -1)

        # columns of one cache line belong to one task
        run(move_task, _stretches(self.masses.t.width, 4), self.n_threads, uses_blas=False)

    def _make_lengths(self, rows):
        """Rows of the lengths that the data `rows` will ask for."""
        if self.t.model == POISSON:
            return
        cdef const int32_t[::1] place = self.length_place
        cdef const float[::1] part = self.length_part
        cdef uint8_t[::1] ready = self.length_ready
        self.t.length_place, self.t.length_part, self.t.length_ready = &place[0], &part[0], &ready[0]
        places = self.length_place[rows]
        needed = np.bincount(places, minlength=len(self.lengths)) > 0
        between = np.bincount(places[self.length_part[rows] > 0], minlength=len(self.lengths)) > 0
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
        """Nothing: the table is made from the statistics."""
        return {}

    def from_arrays(self, arrays):
        """Nothing to restore."""


def _stretches(Py_ssize_t n, Py_ssize_t n_tasks):
    """0..n in at most so many parts whose borders are multiples of a cache line of bytes."""
    cdef Py_ssize_t size = (n + n_tasks * LINE - 1) // (n_tasks * LINE) * LINE
    return [(low, low + size) for low in range(0, n, size)]


def _polynomials(a, repeats, step):
    """Coefficients (repeats, 8) of log rising(n + a, c) - log rising(a, c) over x = byte / 127.5 - 1."""
    counts = np.expm1(np.arange(256) * step) * a
    counts = np.unique(np.where(counts < 64, np.rint(counts), counts))
    x = np.rint(np.log1p(counts / a) / step) / 127.5 - 1
    table = log_rising(counts[:, None] + a, repeats) - log_rising(np.float64(a), repeats)
    powers = np.vander(x, N_COEFFICIENTS, increasing=True)
    weight = 1.0 / (1.0 + counts / 64)[:, None]     # rare words in most clusters
    return np.linalg.lstsq(weight * powers, weight * table, rcond=None)[0].T


def _grid(lengths, double a):
    """Lengths between which the log rising factorial of a cluster of total a is linear to 0.02 nats, or 512 of them.

    Interpolation over a gap d errs by at most d^2 / 8 times the second derivative, which is near 1 / (a + L).
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
