# Items of draws of partitions, and the table of a partition against the draws. The functions are compiled into the
# loops that call them. They do not check indices.

from libc.stdint cimport int32_t, uint8_t, uint16_t, uint32_t
from libc.stdlib cimport realloc

from expfam.structures.simd.prefetch cimport EXPFAM_PREFETCH


ctypedef struct draw_items:
    const void *labels      # (n_items, n_draws), of `width` bytes
    int width
    Py_ssize_t n_items, n_draws, n_rows, n_blocks
    const int32_t *weight   # (n_items,) rows of the data in each item
    const int32_t *first    # (n_draws,) number of the first block of each draw; a block is a cluster of a draw


ctypedef struct table_entry:
    int32_t cluster
    int32_t count


ctypedef struct table_block:    # rows of each cluster in one block; none is 0, in no order
    table_entry *entries
    int32_t n, room


cdef inline void blocks_of(const draw_items *items, Py_ssize_t i, int32_t *out) noexcept nogil:
    """Write the block of an item in each draw."""
    cdef Py_ssize_t m, M = items.n_draws
    cdef const uint8_t *one
    cdef const uint16_t *two
    cdef const uint32_t *four
    if items.width == 1:
        one = <const uint8_t *> items.labels + i * M
        for m in range(M):
            out[m] = items.first[m] + one[m]
    elif items.width == 2:
        two = <const uint16_t *> items.labels + i * M
        for m in range(M):
            out[m] = items.first[m] + two[m]
    else:
        four = <const uint32_t *> items.labels + i * M
        for m in range(M):
            out[m] = items.first[m] + <int32_t> four[m]


cdef inline int32_t block_of(const draw_items *items, Py_ssize_t i, Py_ssize_t m) noexcept nogil:
    """Return the block of an item in draw m, counted from the first of that draw."""
    cdef Py_ssize_t place = i * items.n_draws + m
    if items.width == 1:
        return (<const uint8_t *> items.labels)[place]
    if items.width == 2:
        return (<const uint16_t *> items.labels)[place]
    return <int32_t> (<const uint32_t *> items.labels)[place]


cdef inline Py_ssize_t place_of(const table_block *block, int32_t cluster) noexcept nogil:
    """Return the place of a cluster in a block, or -1."""
    cdef Py_ssize_t e
    for e in range(block.n):
        if block.entries[e].cluster == cluster:
            return e
    return -1


cdef inline int block_add(table_block *block, int32_t cluster, int32_t count) except -1 nogil:
    """Add rows of a cluster to a block."""
    cdef Py_ssize_t e = place_of(block, cluster)
    cdef table_entry *longer
    if e >= 0:
        block.entries[e].count += count
        return 0
    if block.n == block.room:
        longer = <table_entry *> realloc(block.entries, max(2, 2 * block.room) * sizeof(table_entry))
        if longer == NULL:
            with gil:
                raise MemoryError
        block.entries, block.room = longer, max(2, 2 * block.room)
    block.entries[block.n].cluster, block.entries[block.n].count = cluster, count
    block.n += 1
    return 0


cdef inline void block_take(table_block *block, int32_t cluster, int32_t count) noexcept nogil:
    """Take rows of a cluster from a block that has them."""
    cdef Py_ssize_t e = place_of(block, cluster)
    block.entries[e].count -= count
    if block.entries[e].count == 0:
        block.n -= 1
        block.entries[e] = block.entries[block.n]


cdef inline void prefetch_blocks(const table_block *blocks, const int32_t *which, Py_ssize_t n) noexcept nogil:
    """Prefetch blocks that are read soon, then their entries."""
    cdef Py_ssize_t m
    for m in range(n):
        EXPFAM_PREFETCH(&blocks[which[m]])
    for m in range(n):
        EXPFAM_PREFETCH(blocks[which[m]].entries)


cdef class DrawItems:
    cdef draw_items items
    cdef readonly object labels, weight, item_of_row, first
    cdef readonly Py_ssize_t n_items, n_draws, n_rows, n_blocks


cdef class BlockCounts:
    cdef readonly DrawItems source
    cdef table_block *blocks        # (n_blocks,)


cdef class DrawTable(BlockCounts):
    cdef readonly object clusters, sizes
    cdef int32_t[::1] cluster, size
