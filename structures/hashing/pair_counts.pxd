# Counts of pairs in a hash table with open addressing and linear probing, for the loops of other modules.
#
# A pair whose count becomes 0 is deleted by moving later pairs back, so no deleted entries remain.

from libc.stdint cimport int32_t, int64_t, uint64_t

from expfam.structures.simd.sign_codes cimport expfam_mix64


ctypedef struct pair_table:
    int64_t *keys               # (mask + 1,) keys >= 0, -1 for a free place
    int32_t *counts
    Py_ssize_t mask
    Py_ssize_t used


cdef inline Py_ssize_t pair_home(const pair_table *t, int64_t key) noexcept nogil:
    """Return the place where the search for a key begins."""
    return <Py_ssize_t> (expfam_mix64(<uint64_t> key) & <uint64_t> t.mask)


cdef inline int32_t pair_count(const pair_table *t, int64_t key) noexcept nogil:
    """Return the count of a key; 0 if it is not in the table."""
    cdef Py_ssize_t h = pair_home(t, key)
    while t.keys[h] != -1:
        if t.keys[h] == key:
            return t.counts[h]
        h = (h + 1) & t.mask
    return 0


cdef inline int32_t pair_add(pair_table *t, int64_t key, int32_t step) noexcept nogil:
    """Change a count and return the new one; one place must stay free."""
    cdef Py_ssize_t h = pair_home(t, key), j
    cdef int32_t count
    while t.keys[h] != -1 and t.keys[h] != key:
        h = (h + 1) & t.mask
    if t.keys[h] == -1:
        t.keys[h], t.counts[h] = key, 0
        t.used += 1
    count = t.counts[h] + step
    t.counts[h] = count
    if count:
        return count
    t.used -= 1
    j = h
    while True:
        j = (j + 1) & t.mask
        if t.keys[j] == -1:
            break
        # a pair must not be moved before its home, in cyclic order
        if ((j - pair_home(t, t.keys[j])) & t.mask) >= ((j - h) & t.mask):
            t.keys[h], t.counts[h] = t.keys[j], t.counts[j]
            h = j
    t.keys[h] = -1
    return 0


cdef class PairCounts:
    cdef pair_table t
    cdef object keys, counts

    cdef int _check(self, int64_t key) except -1
