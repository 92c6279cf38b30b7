"""Alias tables of groups from the scores of their anchors.

A table lists the clusters that are more probable by the mean law of the anchors than by weight, and last the draw by
weight. Tables of a block of groups lie one after the other, in memory that the next refresh uses again: it stays in the
cache, and nothing is copied.
"""

import numpy as np

from cython cimport final
from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport calloc, free, realloc

from expfam.structures.ground.arrays cimport cells_in
from expfam.structures.selection.alias cimport ALIAS_OK, alias_build, alias_cell, alias_law
from expfam.structures.simd.float_softmax cimport expfam_float_exp_blocks
from expfam.structures.simd.prototypes cimport expfam_above, expfam_biased_tops

from expfam.amounts import counted

cdef Py_ssize_t ENTRY_BYTES = sizeof(alias_cell) + sizeof(double) + sizeof(uint32_t)


cdef inline int lowest_bit(uint64_t word) noexcept nogil:
    """Return the number of the lowest bit of a word that is not 0."""
    cdef int at = 0
    while not word & 0xFF:
        word >>= 8
        at += 8
    while not word & 1:
        word >>= 1
        at += 1
    return at


cdef int add_law(table_scratch *s, const table_rules *rules, float *scores, double share) noexcept nogil:
    """Add `share` times the law of one row of scores; return 1 if no score is finite."""
    cdef float best = expfam_biased_tops(scores, rules.bias, s.top, rules.K)
    cdef float scale
    cdef double *shares = s.share
    cdef uint64_t *bits = s.bits
    cdef Py_ssize_t found, n_blocks, j
    if not -1e30 < best < 1e30:
        return 1
    found = expfam_above(scores, s.top, <float> (best - rules.cut), rules.K, s.value, s.place)
    n_blocks = (found + 63) // 64
    for j in range(found, 64 * n_blocks):
        s.value[j] = <float> -1e38
    expfam_float_exp_blocks(s.value, best, s.sum, n_blocks)
    scale = 0.0
    for j in range(found):
        scale += s.value[j]
    scale = <float> (share / scale)
    for j in range(found):
        shares[s.place[j]] += scale * s.value[j]
        bits[s.place[j] >> 6] |= (<uint64_t> 1) << (s.place[j] & 63)
    return 0


cdef Py_ssize_t list_law(table_scratch *s, const table_rules *rules, uint32_t *names) noexcept nogil:
    """List the clusters whose share is larger than in the floor, and last the floor itself.

    Weights are written to `part`, and all shares are set to 0. Returns the length of the list.
    """
    cdef Py_ssize_t w, k, size = 0
    cdef double rest = 1.0 - rules.floor
    cdef uint64_t word
    for w in range((rules.K + 63) // 64):
        word = s.bits[w]
        s.bits[w] = 0
        while word:
            k = 64 * w + lowest_bit(word)
            word &= word - 1
            if rest * s.share[k] > rules.floor * rules.shared_law[k]:
                s.part[size] = rest * s.share[k]
                names[size] = <uint32_t> k
                size += 1
            s.share[k] = 0.0
    s.part[size] = rules.floor
    names[size] = <uint32_t> rules.K
    return size + 1


cdef int make_room(table_block *b, Py_ssize_t wanted, Py_ssize_t most) noexcept nogil:
    """Have room for so many outcomes, never more than `most`; return 1 without memory."""
    cdef Py_ssize_t room = min(max(wanted, b.room + b.room // 4), most)
    cdef void *cells
    cdef void *law
    cdef void *names
    if wanted <= b.room:
        return 0
    cells = realloc(b.cells, room * sizeof(alias_cell))
    if cells != NULL:
        b.cells = <alias_cell *> cells
    law = realloc(b.law, room * sizeof(double))
    if law != NULL:
        b.law = <double *> law
    names = realloc(b.names, room * sizeof(uint32_t))
    if names != NULL:
        b.names = <uint32_t *> names
    if cells == NULL or law == NULL or names == NULL:
        return 1
    b.room = room
    return 0


cdef Py_ssize_t make_tables(table_scratch *s, const table_rules *rules, float *scores, const Py_ssize_t *rows,
                            Py_ssize_t n_groups, table_block *block, group_table *out) noexcept nogil:
    """Make the tables of consecutive groups; group g has the rows rows[g]..rows[g + 1] - 1.

    `scores` begins with row rows[0]; the bias is added to them. Returns TABLES_MADE, TABLES_NO_ROOM, or the group
    that has no finite score. Then `s` may not be used again.
    """
    cdef Py_ssize_t g, r, size, at = 0, K = rules.K
    cdef double *law
    block.longest, block.least_floor = 0, 1.0
    for g in range(n_groups):
        if make_room(block, at + K + 1, n_groups * (K + 1)):
            return TABLES_NO_ROOM
        for r in range(rows[g], rows[g + 1]):
            if add_law(s, rules, scores + (r - rows[0]) * K, 1.0 / (rows[g + 1] - rows[g])):
                return g
        size = list_law(s, rules, block.names + at)
        law = block.law + at
        for r in range(size):           # the builder uses `part` as scratch
            law[r] = s.part[r]
        if alias_build(law, size, False, 0.0, block.cells + at, s.part, s.turn) != ALIAS_OK:
            return g
        alias_law(block.cells + at, size, s.word, law)
        block.longest, block.least_floor = max(block.longest, size), min(block.least_floor, law[size - 1])
        out[g].size = size
        at += size
    at = 0
    for g in range(n_groups):           # memory may have moved while there was no room
        out[g].cells, out[g].law, out[g].names = block.cells + at, block.law + at, block.names + at
        at += out[g].size
    return TABLES_MADE


# ---- memory ----------------------------------------------------------------------------------------------------------

@final
cdef class GroupTables:
    """Memory of the tables of all groups, in blocks of consecutive groups.

    Parameters
    ----------
    n_groups, n_blocks : int
    """

    def __cinit__(self, Py_ssize_t n_groups, Py_ssize_t n_blocks):
        self.n_groups, self.n_blocks = n_groups, n_blocks
        self.groups = <group_table *> calloc(max(n_groups, 1), sizeof(group_table))
        self.blocks = <table_block *> calloc(max(n_blocks, 1), sizeof(table_block))
        if self.groups == NULL or self.blocks == NULL:
            raise MemoryError(f"there is no memory for {counted(n_groups, 'table')}")

    def __dealloc__(self):
        cdef Py_ssize_t b
        if self.blocks != NULL:
            for b in range(self.n_blocks):
                free(self.blocks[b].cells)
                free(self.blocks[b].law)
                free(self.blocks[b].names)
        free(self.blocks)
        free(self.groups)

    @property
    def nbytes(self):
        """Bytes of the tables."""
        cdef Py_ssize_t b, room = 0
        for b in range(self.n_blocks):
            room += self.blocks[b].room
        return ENTRY_BYTES * room + self.n_groups * <Py_ssize_t> sizeof(group_table)

    def extremes(self):
        """Return the outcomes of the longest table, and the least probability of a draw by weight."""
        cdef Py_ssize_t b, longest = 0
        cdef double least = 1.0
        for b in range(self.n_blocks):
            longest, least = max(longest, self.blocks[b].longest), min(least, self.blocks[b].least_floor)
        return longest, least


@final
cdef class TableScratch:
    """Scratch memory of the threads that make tables; later refreshes use it again.

    Parameters
    ----------
    n_rows, K, F : int
        Rows of scores of a block, clusters, and statistics; F is 0 where statistics are made elsewhere.
    n_threads : int
    """

    def __cinit__(self, Py_ssize_t n_rows, Py_ssize_t K, Py_ssize_t F, Py_ssize_t n_threads):
        self.sizes, self.arrays = (n_rows, K, F, n_threads), []
        self.free = list(range(n_threads))
        self.of_thread = <table_scratch *> calloc(n_threads, sizeof(table_scratch))
        if self.of_thread == NULL:
            raise MemoryError("there is no memory to make tables")
        for t in range(n_threads):
            self._allocate(t, n_rows, K, F)

    def __dealloc__(self):
        free(self.of_thread)

    def _allocate(self, Py_ssize_t thread, Py_ssize_t n_rows, Py_ssize_t K, Py_ssize_t F):
        cdef table_scratch *s = &self.of_thread[thread]
        cdef Py_ssize_t padded = K + 64 + 16
        cdef list own = self.arrays
        s.phi, s.row = <float *> cells_in(own, (n_rows, F), np.float32), <double *> cells_in(own, F, np.float64)
        s.scores = <float *> cells_in(own, (n_rows, K), np.float32)
        s.chosen = <Py_ssize_t *> cells_in(own, n_rows, np.intp)
        s.top, s.value = <float *> cells_in(own, K // 16 + 1, np.float32), <float *> cells_in(own, padded, np.float32)
        s.sum = <float *> cells_in(own, padded // 64 + 1, np.float32)
        s.place = <uint32_t *> cells_in(own, padded, np.uint32)
        s.share = <double *> cells_in(own, K + 1, np.float64)
        s.bits = <uint64_t *> cells_in(own, K // 64 + 1, np.uint64)
        s.part, s.turn = <double *> cells_in(own, K + 1, np.float64), <uint32_t *> cells_in(own, K + 1, np.uint32)
        s.word = <uint64_t *> cells_in(own, K + 1, np.uint64)
