"""Draws of partitions as items and blocks, and the table of a partition against them.

Rows with equal labels in all draws are one item, weighted by their number. Each cluster of each draw is a block. The
table of a partition holds, for each block, how many rows of each cluster lie in it: a short list, as a block meets few
clusters. All that is read off the posterior comes from these counts; no array has N x N or K x (number of blocks)
entries. Reading all of it is O(M N) for M draws where lists are short.
"""

import numpy as np

from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport calloc, free

from expfam.amounts import counted
from expfam.errors import DataError
from expfam.structures.ground.threads import run

_ODD = np.uint64(0x9E3779B97F4A7C15)
_ITEMS_OF_TASK = 4096


def narrow_labels(draws):
    """Renumber each draw by first appearance, in the least of the types of 1, 2 or 4 bytes.

    Parameters
    ----------
    draws : (M, N) array_like of non-negative int

    Returns
    -------
    (M, N) ndarray of uint8, uint16 or uint32

    Examples
    --------
    >>> from expfam.structures.partitions.draw_table import narrow_labels
    >>> narrow_labels([[7, 7, 0], [2, 5, 2]])
    array([[0, 0, 1],
           [0, 1, 0]], dtype=uint8)
    """
    draws = np.asarray(draws)
    if draws.max(initial=0) >= 4 * draws.shape[1] + 1024:  # a table up to the largest label would be too long
        draws = [np.unique(labels, return_inverse=True)[1] for labels in draws]
        draws = np.array(draws).reshape(len(draws), -1)
    rank = np.empty(int(draws.max(initial=0)) + 1, dtype=np.int32)
    for dtype in (np.uint8, np.uint16, np.uint32):
        out = np.empty(draws.shape, dtype=dtype)
        if all(_renumbered(labels, rank, to) for labels, to in zip(draws, out)):
            return out
    raise AssertionError  # four bytes hold any number of rows


def _renumbered(labels, int32_t[::1] rank, to):
    """Write labels by first appearance; return False if the type does not hold them."""
    cdef const int64_t[::1] found = np.ascontiguousarray(labels, dtype=np.int64)
    cdef int32_t[::1] out = np.empty(found.shape[0], dtype=np.int32)
    cdef Py_ssize_t i
    cdef int32_t n = 0
    with nogil:
        rank[:] = -1
        for i in range(found.shape[0]):
            if rank[found[i]] < 0:
                rank[found[i]] = n
                n += 1
            out[i] = rank[found[i]]
    if n - 1 > np.iinfo(to.dtype).max:
        return False
    to[:] = out
    return True


cdef class DrawItems:
    """Rows that all draws treat alike, one weighted item each.

    Parameters
    ----------
    draws : (M, N) ndarray of uint8, uint16 or uint32
        As `narrow_labels` returns them.
    labels : (N,) array_like of int, optional
        A further partition that no item may cross.

    Attributes
    ----------
    labels : (D, M) ndarray of the type of the draws
        Label of each item in each draw. Items are in the order of their first rows.
    weight : (D,) int32 ndarray
        Number of rows of each item.
    item_of_row : (N,) int32 ndarray
    first : (M,) int32 ndarray
        Number of the first block of each draw.
    n_items, n_draws, n_rows, n_blocks : int
        Of items, of draws, of rows of the data, and of clusters of all draws.

    Examples
    --------
    >>> from expfam.structures.partitions.draw_table import DrawItems, narrow_labels
    >>> DrawItems(narrow_labels([[0, 0, 0, 1], [0, 0, 1, 1]])).weight
    array([2, 1, 1], dtype=int32)
    """

    def __init__(self, draws, *, labels=None):
        first, self.item_of_row = _atoms(draws, labels)
        weight = np.bincount(self.item_of_row, minlength=len(first)).astype(np.int32)
        self._set(np.ascontiguousarray(draws[:, first].T), weight, draws.shape[1])

    def _set(self, labels, weight, Py_ssize_t n_rows):
        n_clusters = labels.max(axis=0).astype(np.int64) + 1
        if n_clusters.sum() >= 2**31 or n_rows >= 2**31:
            raise DataError(
                f"{counted(n_rows, 'row')}, {counted(n_clusters.sum(), 'cluster')} of all draws: at most 2**31 - 1 of "
                "each"
            )
        self.labels, self.weight = labels, weight
        self.first = (np.cumsum(n_clusters) - n_clusters).astype(np.int32)
        cdef const int32_t[::1] weights = self.weight, first = self.first
        self.items.labels = <const void *> <size_t> labels.ctypes.data
        self.items.width = labels.itemsize
        self.n_items, self.n_draws = labels.shape
        self.n_rows, self.n_blocks = n_rows, n_clusters.sum()
        self.items.n_items, self.items.n_draws = self.n_items, self.n_draws
        self.items.n_rows, self.items.n_blocks = self.n_rows, self.n_blocks
        self.items.weight, self.items.first = &weights[0], &first[0]

    def only(self, draws):
        """Return the same items in some of the draws, given by their numbers."""
        cdef DrawItems part = DrawItems.__new__(DrawItems)
        part.item_of_row = self.item_of_row
        part._set(np.ascontiguousarray(self.labels[:, draws]), self.weight, self.n_rows)
        return part

    def block_sizes(self):
        """Return the number of rows of each block: (n_blocks,) int64."""
        sizes = [np.bincount(self.labels[:, m], weights=self.weight) for m in range(self.n_draws)]
        return np.concatenate(sizes).astype(np.int64)

    def overlaps(self, clusters, const double[::1] f):
        """Sum f of the counts of a partition against each draw.

        Parameters
        ----------
        clusters : (D,) array_like of int
            Cluster of each item, from 0.
        f : (N + 1,) float64 ndarray
            Value of each count; f[0] is 0.

        Returns
        -------
        (M,) float64 ndarray
        """
        clusters = np.ascontiguousarray(clusters, dtype=np.int32)
        cdef const int32_t[::1] cluster = clusters
        order = np.argsort(clusters, kind="stable").astype(np.int32)
        total = np.zeros(self.items.n_draws)
        count = np.zeros(self.items.n_blocks, dtype=np.int32)
        draw = np.repeat(np.arange(self.items.n_draws, dtype=np.int32), np.diff(np.append(self.first, self.n_blocks)))
        cdef int32_t[::1] at = order, counts = count, met = np.empty(self.items.n_blocks, dtype=np.int32)
        cdef int32_t[::1] blocks = np.empty(self.items.n_draws, dtype=np.int32), draw_of = draw
        cdef double[::1] out = total
        cdef Py_ssize_t i, m, n_met = 0, n_items = self.items.n_items
        cdef int32_t b
        with nogil:
            for i in range(n_items):
                blocks_of(&self.items, at[i], &blocks[0])
                for m in range(self.items.n_draws):
                    b = blocks[m]
                    if counts[b] == 0:
                        met[n_met] = b
                        n_met += 1
                    counts[b] += self.items.weight[at[i]]
                if i + 1 == n_items or cluster[at[i + 1]] != cluster[at[i]]:
                    for m in range(n_met):
                        out[draw_of[met[m]]] += f[counts[met[m]]]
                        counts[met[m]] = 0
                    n_met = 0
        return total


def _atoms(draws, labels):
    """Return the first row of each item (D,), and the item of each row (N,) int32."""
    # a hash of the labels of a row finds candidates, a comparison decides
    keys = np.zeros(draws.shape[1], dtype=np.uint64)
    parts = draws if labels is None else [*draws, np.asarray(labels)]
    for part in parts:
        keys += part.astype(np.uint64)
        keys *= _ODD
        keys ^= keys >> np.uint64(29)
    _, first, item = np.unique(keys, return_index=True, return_inverse=True)
    if not all(np.array_equal(np.asarray(part)[first][item], part) for part in parts):
        _, first, item = np.unique(np.array([*parts]), axis=1, return_index=True, return_inverse=True)
    order = np.argsort(first)
    place = np.empty(len(order), dtype=np.int32)
    place[order] = np.arange(len(order), dtype=np.int32)
    return first[order], place[item.reshape(-1)]


cdef class BlockCounts:
    """Memory for the rows of each cluster of a partition in each block."""

    def __cinit__(self, DrawItems source, *args):
        self.source = source
        self.blocks = <table_block *> calloc(source.items.n_blocks, sizeof(table_block))
        if self.blocks == NULL:
            raise MemoryError

    def __dealloc__(self):
        cdef Py_ssize_t b
        if self.blocks != NULL:
            for b in range(self.source.items.n_blocks):
                free(self.blocks[b].entries)
            free(self.blocks)


cdef class DrawTable(BlockCounts):
    """Counts of the rows of each cluster of one partition in each block.

    Parameters
    ----------
    source : DrawItems
    clusters : (D,) array_like of int
        Cluster of each item, 0..K-1 without gaps.

    Attributes
    ----------
    sizes : (K,) int32 ndarray
        Rows of each cluster.

    Examples
    --------
    >>> from expfam.structures.partitions.draw_table import DrawItems, DrawTable, narrow_labels
    >>> items = DrawItems(narrow_labels([[0, 0, 0, 1], [0, 0, 1, 1]]))
    >>> DrawTable(items, [0, 1, 1]).between()
    array([[1.  , 0.25],
           [0.25, 0.5 ]])
    """

    def __init__(self, DrawItems source, clusters):
        self.clusters = np.ascontiguousarray(clusters, dtype=np.int32)
        self.sizes = np.bincount(self.clusters, weights=source.weight).astype(np.int32)
        self.cluster, self.size = self.clusters, self.sizes
        cdef int32_t[::1] blocks = np.empty(source.items.n_draws, dtype=np.int32)
        cdef Py_ssize_t i, m
        with nogil:
            for i in range(source.items.n_items):
                blocks_of(&source.items, i, &blocks[0])
                for m in range(source.items.n_draws):
                    block_add(&self.blocks[blocks[m]], self.cluster[i], source.items.weight[i])

    def counts(self):
        """Return all counts as arrays, sorted by block and then by cluster.

        Returns
        -------
        starts : (n_blocks + 1,) int64 ndarray
            Entries ``starts[b]:starts[b + 1]`` are those of block b.
        cluster, count : (P,) int32 ndarrays
        """
        cdef Py_ssize_t b, e, n_blocks = self.source.items.n_blocks
        ends = np.zeros(n_blocks + 1, dtype=np.int64)
        cdef int64_t[::1] starts = ends
        for b in range(n_blocks):
            starts[b + 1] = starts[b] + self.blocks[b].n
        cdef int32_t[::1] cluster = np.empty(starts[n_blocks], dtype=np.int32)
        cdef int32_t[::1] count = np.empty(starts[n_blocks], dtype=np.int32)
        for b in range(n_blocks):
            for e in range(self.blocks[b].n):
                cluster[starts[b] + e] = self.blocks[b].entries[e].cluster
                count[starts[b] + e] = self.blocks[b].entries[e].count
        block = np.repeat(np.arange(n_blocks), np.diff(ends))
        order = np.lexsort([np.asarray(cluster), block])
        return ends, np.asarray(cluster)[order], np.asarray(count)[order]

    def between(self):
        """Return the mean probability that a row of one cluster and one of another are together.

        Returns
        -------
        (K, K) float64 ndarray
            The diagonal is over pairs of different rows; 1 for clusters of one row.
        """
        K = len(self.sizes)
        pairs = np.zeros((K, K))
        cdef double[:, ::1] sums = pairs
        cdef Py_ssize_t b, d, e
        cdef table_entry *entries
        with nogil:
            for b in range(self.source.items.n_blocks):
                entries = self.blocks[b].entries
                for d in range(self.blocks[b].n):
                    for e in range(self.blocks[b].n):
                        sums[entries[d].cluster, entries[e].cluster] += <double> entries[d].count * entries[e].count
        n = self.sizes.astype(np.float64)
        among = np.outer(n, n)
        pairs /= self.source.n_draws
        pairs[np.diag_indices(K)] -= n
        among[np.diag_indices(K)] -= n
        return np.divide(pairs, among, out=np.ones((K, K)), where=among > 0)

    def certainty(self, *, n_threads=None):
        """Return how surely each item is in its cluster, and in which other one it may be.

        Parameters
        ----------
        n_threads : int or None
            The result does not depend on it.

        Returns
        -------
        own : (D,) float32 ndarray
            Mean probability of a row of the item to be with a further row of its cluster; of a cluster of one row, the
            share of the draws in which that row is alone.
        other : (D,) int32 ndarray
            The other cluster with the largest mean probability of being with a row of it, the first of equals; -1 where
            none has a positive one.
        other_certainty : (D,) float32 ndarray
            That probability.
        """
        D = self.source.items.n_items
        own, other = np.zeros(D, dtype=np.float32), np.empty(D, dtype=np.int32)
        other_certainty = np.zeros(D, dtype=np.float32)
        sizes = self.source.block_sizes().astype(np.int32)
        step = _ITEMS_OF_TASK
        tasks = [(a, min(a + step, D), own, other, other_certainty, sizes) for a in range(0, D, step)]
        run(self._certainty, tasks, n_threads, uses_blas=False)
        return own, other, other_certainty

    def _certainty(self, Py_ssize_t start, Py_ssize_t stop, float[::1] own, int32_t[::1] other,
                   float[::1] other_certainty, const int32_t[::1] block_size):
        cdef Py_ssize_t M = self.source.items.n_draws, K = self.size.shape[0], i, m, e, k, n_met, n_alone
        cdef double[::1] sums = np.zeros(K)
        cdef int32_t[::1] met = np.empty(K, dtype=np.int32), blocks = np.empty(M, dtype=np.int32)
        cdef table_block *block
        cdef int32_t A, best
        cdef double value, most
        with nogil:
            for i in range(start, stop):
                blocks_of(&self.source.items, i, &blocks[0])
                prefetch_blocks(self.blocks, &blocks[0], M)
                n_met = n_alone = 0
                for m in range(M):
                    block = &self.blocks[blocks[m]]
                    n_alone += block_size[blocks[m]] == 1
                    for e in range(block.n):
                        A = block.entries[e].cluster
                        if sums[A] == 0.0:
                            met[n_met] = A
                            n_met += 1
                        sums[A] += block.entries[e].count
                A, best, most = self.cluster[i], -1, 0.0
                own[i] = (sums[A] - M) / (<double> M * (self.size[A] - 1)) if self.size[A] > 1 else <double> n_alone / M
                for k in range(n_met):
                    value = sums[met[k]] / (<double> M * self.size[met[k]])
                    sums[met[k]] = 0.0
                    if met[k] != A and (value > most or (value == most and met[k] < best)):
                        best, most = met[k], value
                other[i], other_certainty[i] = best, most
