# Hash tables over any keys: draws of an item in the same bucket as item i, in O(1) without the gil.

from libc.stdint cimport int32_t, uint32_t, uint64_t
from numpy.random cimport bitgen_t

from expfam.structures.hashing._buckets cimport lsh_bucket, lsh_state


cdef inline uint32_t lsh_below(uint32_t half, uint32_t n, bitgen_t *rng) noexcept nogil:
    """Draw a uniform number of 0..n-1 from 32 random bits.

    Further words are read where the 32 bits would favour some numbers (Lemire 2019).
    """
    cdef uint64_t product = <uint64_t> half * n
    cdef uint32_t uneven
    if <uint32_t> product < n:
        uneven = <uint32_t> ((<uint64_t> 1 << 32) % n)
        while <uint32_t> product < uneven:
            product = (rng.next_uint64(rng.state) >> 32) * n
    return <uint32_t> (product >> 32)


cdef inline Py_ssize_t lsh_draw(const lsh_state *s, Py_ssize_t i, bitgen_t *rng) noexcept nogil:
    """Draw a neighbour of i with one word for each try.

    Returns -1 if i was alone in its bucket in every try, or if i is absent.
    """
    cdef const int32_t *own = s.bucket + i * s.n_tables
    cdef const lsh_bucket *bucket
    cdef Py_ssize_t _attempt, which
    cdef uint64_t word
    cdef uint32_t r
    if own[0] < 0:
        return -1
    for _attempt in range(s.n_tries):
        word = rng.next_uint64(rng.state)
        which = lsh_below(<uint32_t> (word >> 32), <uint32_t> s.n_tables, rng)
        bucket = s.tables[which].buckets + own[which]
        if bucket.size > 1:
            r = lsh_below(<uint32_t> word, <uint32_t> (bucket.size - 1), rng)
            r += r >= <uint32_t> s.position[i * s.n_tables + which]
            return s.tables[which].members[bucket.start + r]
    return -1


cdef double lsh_probability(const lsh_state *s, Py_ssize_t i, Py_ssize_t j, bint found) noexcept nogil
cdef double lsh_found(const lsh_state *s, Py_ssize_t i, Py_ssize_t *n_open) noexcept nogil


cdef class LshTables:
    cdef lsh_state state
    cdef int allocate(self, Py_ssize_t capacity) except -1
    cdef void drop(self) noexcept nogil
    cdef Py_ssize_t draw(self, Py_ssize_t i, bitgen_t *rng) noexcept nogil
    cdef double probability(self, Py_ssize_t i, Py_ssize_t j) noexcept nogil
    cdef Py_ssize_t known(self, object item) except -1
