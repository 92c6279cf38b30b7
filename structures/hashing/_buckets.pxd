# Hash tables of numbered items as C structs: build, change and compact them without the gil.

from libc.stdint cimport int32_t, int64_t, uint64_t

ctypedef struct lsh_bucket:
    uint64_t key
    int64_t start           # position of its first member in the table's array
    int32_t size
    int32_t capacity

ctypedef struct lsh_table:
    lsh_bucket *buckets     # in order of their first item; an empty one keeps its number until the next compaction
    int32_t *members        # items, bucket by bucket, with gaps
    int32_t *index          # (mask + 1,) bucket number by hash of the key, linear probing; -1 for a free place
    int64_t mask
    int64_t end             # size of the used part of members, gaps included
    int64_t members_room
    int32_t n_buckets
    int32_t buckets_room
    int32_t n_empty

ctypedef struct lsh_state:
    Py_ssize_t n_tables
    Py_ssize_t n_items
    Py_ssize_t capacity     # all item numbers are below it
    Py_ssize_t n_tries
    int32_t *bucket         # (capacity, n_tables) bucket of each item, -1 when it is absent
    int32_t *position       # (capacity, n_tables) position of each item in its bucket
    lsh_table *tables       # (n_tables,)

cdef inline uint64_t scramble(uint64_t key) noexcept nogil:
    # finaliser of MurmurHash3: keys may be small integers, and their low bits alone would cause many collisions
    key ^= key >> 33
    key *= <uint64_t> 0xff51afd7ed558ccd
    key ^= key >> 33
    key *= <uint64_t> 0xc4ceb9fe1a85ec53
    return key ^ (key >> 33)


# Functions of type int return 0, or -1 without memory; fill_table returns -2 for a duplicate item or key.
cdef int32_t find(const lsh_table *t, uint64_t key) noexcept nogil
cdef int32_t find_or_open(lsh_table *t, uint64_t key) noexcept nogil
cdef void place(lsh_state *s, Py_ssize_t which, int32_t number, int32_t item) noexcept nogil
cdef int build_table(lsh_state *s, Py_ssize_t which, const uint64_t *keys, Py_ssize_t n) noexcept nogil
cdef void free_table(lsh_table *t) noexcept nogil
cdef int fill_table(lsh_state *s, Py_ssize_t which, const int32_t *members, const int64_t *sizes, const uint64_t *keys,
                    Py_ssize_t n_buckets) noexcept nogil
cdef int compact(lsh_state *s, Py_ssize_t which) noexcept nogil
cdef bint is_wasteful(const lsh_state *s, const lsh_table *t) noexcept nogil
cdef int prepare_insert(lsh_state *s, const uint64_t *keys) noexcept nogil
cdef void take_out(lsh_state *s, Py_ssize_t i) noexcept nogil
