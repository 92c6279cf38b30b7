"""Counts of pairs, for example of a cluster and a word, in a hash table of fixed size.

A pair (row, column) is one key: row times the number of columns, plus column. The functions of the table are in
pair_counts.pxd, so that they are compiled into the loops that call them.
"""

import numpy as np

from expfam.amounts import counted

from libc.stdint cimport int32_t, int64_t


def table_size(n_pairs):
    """Return the number of places of a table for `n_pairs` pairs.

    At most three quarters of the places are then full."""
    return 1 << max(6, (max(n_pairs, 1) * 4 // 3).bit_length())


cdef class PairCounts:
    """Counts by key, of which only those that are not 0 need memory.

    Memory for `n_pairs` keys with a count is allocated once.

    >>> from expfam.structures.hashing.pair_counts import PairCounts
    >>> counts = PairCounts(10)
    >>> counts.add(7, 2), counts.add(7, 1), counts.add(9, -1)
    (2, 3, -1)
    >>> counts.count(7), counts.count(8), len(counts)
    (3, 0, 2)
    """

    def __init__(self, n_pairs):
        cdef int64_t[::1] keys
        cdef int32_t[::1] counts
        size = table_size(n_pairs)
        self.keys, self.counts = np.full(size, -1, dtype=np.int64), np.zeros(size, dtype=np.int32)
        keys, counts = self.keys, self.counts
        self.t.keys, self.t.counts = &keys[0], &counts[0]
        self.t.mask, self.t.used = size - 1, 0

    def __len__(self):
        """Return the number of keys with a count other than 0."""
        return self.t.used

    @property
    def n_places(self):
        """Number of places of the table, a power of two."""
        return self.t.mask + 1

    def clear(self):
        """Set all counts to 0."""
        self.keys[:] = -1
        self.t.used = 0

    def count(self, int64_t key):
        """Return the count of a key >= 0."""
        self._check(key)
        return pair_count(&self.t, key)

    def add(self, int64_t key, int32_t step):
        """Add `step` to the count of a key >= 0; return the new count.

        Raises
        ------
        IndexError
            The key is negative, or the table is full.
        """
        self._check(key)
        if self.t.used == self.t.mask and pair_count(&self.t, key) == 0:
            raise IndexError(f"the table is full: it has {counted(self.t.used, 'key')}")
        return pair_add(&self.t, key, step)

    cdef int _check(self, int64_t key) except -1:
        if key < 0:
            raise IndexError(f"keys must not be negative; got {key}")
        return 0
