"""Storage of hash tables.

A bucket is a run of one array, and open addressing finds it by its key.
"""

from libc.stdint cimport INT32_MAX
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy, memset


cdef int32_t find(const lsh_table *t, uint64_t key) noexcept nogil:
    """Return the bucket number of a key, or -1."""
    cdef int64_t at = <int64_t> (scramble(key) & <uint64_t> t.mask)
    while t.index[at] >= 0:
        if t.buckets[t.index[at]].key == key:
            return t.index[at]
        at = (at + 1) & t.mask
    return -1


cdef void enter(lsh_table *t, int32_t number) noexcept nogil:
    cdef int64_t at = <int64_t> (scramble(t.buckets[number].key) & <uint64_t> t.mask)
    while t.index[at] >= 0:
        at = (at + 1) & t.mask
    t.index[at] = number


cdef int reserve_bucket(lsh_table *t) noexcept nogil:
    """Reserve room for one more bucket; the index stays at most half full.

    Returns -1 without memory; then nothing has changed.
    """
    cdef lsh_bucket *buckets
    cdef int32_t *index
    cdef int32_t b
    cdef int64_t room
    if t.n_buckets == t.buckets_room:
        room = 2 * <int64_t> t.buckets_room + 8
        if room > INT32_MAX:
            return -1
        buckets = <lsh_bucket *> realloc(t.buckets, room * sizeof(lsh_bucket))
        if buckets == NULL:
            return -1
        t.buckets = buckets
        t.buckets_room = <int32_t> room
    if 2 * (<int64_t> t.n_buckets + 1) > t.mask + 1 or t.index == NULL:
        room = 16 if t.index == NULL else 2 * (t.mask + 1)
        index = <int32_t *> malloc(room * sizeof(int32_t))
        if index == NULL:
            return -1
        memset(index, 0xff, room * sizeof(int32_t))
        free(t.index)
        t.index = index
        t.mask = room - 1
        for b in range(t.n_buckets):
            enter(t, b)
    return 0


cdef int reserve_members(lsh_table *t, int64_t extra) noexcept nogil:
    cdef int32_t *members
    cdef int64_t room = t.end + extra
    if room > t.members_room:
        room += room / 2
        members = <int32_t *> realloc(t.members, room * sizeof(int32_t))
        if members == NULL:
            return -1
        t.members = members
        t.members_room = room
    return 0


cdef int32_t find_or_open(lsh_table *t, uint64_t key) noexcept nogil:
    """Return the bucket number of a key; a new empty bucket is made if needed.

    Room for it has been reserved.
    """
    cdef int32_t number = find(t, key)
    cdef lsh_bucket *bucket
    if number < 0:
        number = t.n_buckets
        bucket = t.buckets + number
        bucket.key = key
        bucket.start = bucket.size = bucket.capacity = 0
        t.n_buckets += 1
        t.n_empty += 1
        enter(t, number)
    return number


cdef void place(lsh_state *s, Py_ssize_t which, int32_t number, int32_t item) noexcept nogil:
    """Append an item to a bucket; room in `members` has been reserved."""
    cdef lsh_table *t = s.tables + which
    cdef lsh_bucket *bucket = t.buckets + number
    if bucket.size == bucket.capacity:
        bucket.capacity = 2 * bucket.capacity if bucket.capacity else 1
        memcpy(t.members + t.end, t.members + bucket.start, bucket.size * sizeof(int32_t))
        bucket.start = t.end
        t.end += bucket.capacity
    t.n_empty -= bucket.size == 0
    t.members[bucket.start + bucket.size] = item
    s.bucket[item * s.n_tables + which] = number
    s.position[item * s.n_tables + which] = bucket.size
    bucket.size += 1


cdef void lay_out(lsh_table *t) noexcept nogil:
    """Turn the counted sizes into runs without gaps; all runs are still empty."""
    cdef int32_t b
    t.end = 0
    for b in range(t.n_buckets):
        t.buckets[b].start = t.end
        t.buckets[b].capacity = t.buckets[b].size
        t.end += t.buckets[b].size
        t.buckets[b].size = 0
    t.n_empty = t.n_buckets


cdef int build_table(lsh_state *s, Py_ssize_t which, const uint64_t *keys, Py_ssize_t n) noexcept nogil:
    """Build one table of the items 0..n-1 with members in ascending order."""
    cdef lsh_table *t = s.tables + which
    cdef Py_ssize_t i
    cdef int32_t number
    for i in range(n):
        if reserve_bucket(t):
            return -1
        number = find_or_open(t, keys[i * s.n_tables + which])
        s.bucket[i * s.n_tables + which] = number
        t.buckets[number].size += 1
    if reserve_members(t, n):
        return -1
    lay_out(t)
    for i in range(n):
        place(s, which, s.bucket[i * s.n_tables + which], <int32_t> i)
    return 0


cdef void free_table(lsh_table *t) noexcept nogil:
    free(t.buckets)
    free(t.members)
    free(t.index)
    memset(t, 0, sizeof(lsh_table))


cdef int fill_table(lsh_state *s, Py_ssize_t which, const int32_t *members, const int64_t *sizes, const uint64_t *keys,
                    Py_ssize_t n_buckets) noexcept nogil:
    """Build one table from consecutive buckets.

    Returns -1 without memory and -2 for a duplicate item or key.
    """
    cdef lsh_table *t = s.tables + which
    cdef Py_ssize_t b, _p, at = 0, n = 0
    cdef int32_t number
    for b in range(n_buckets):
        n += sizes[b]
    if reserve_members(t, n):
        return -1
    for b in range(n_buckets):
        if reserve_bucket(t):
            return -1
        number = find_or_open(t, keys[b])
        if number != b:
            return -2
        t.buckets[number].size = <int32_t> sizes[b]
    lay_out(t)
    for b in range(n_buckets):
        for _p in range(sizes[b]):
            if s.bucket[members[at] * s.n_tables + which] >= 0:
                return -2
            place(s, which, <int32_t> b, members[at])
            at += 1
    return 0


cdef int compact(lsh_state *s, Py_ssize_t which) noexcept nogil:
    """Remove gaps and empty buckets of one table; the order in buckets does not change.

    Returns -1 without memory.
    """
    cdef lsh_table fresh
    cdef lsh_table *t = s.tables + which
    cdef int32_t b, p, number = 0
    memset(&fresh, 0, sizeof(lsh_table))
    if reserve_members(&fresh, s.n_items):
        return -1
    for b in range(t.n_buckets):
        if t.buckets[b].size:
            if reserve_bucket(&fresh):
                free_table(&fresh)
                return -1
            find_or_open(&fresh, t.buckets[b].key)
    for b in range(t.n_buckets):  # from here on nothing can fail
        if t.buckets[b].size:
            fresh.buckets[number].start = fresh.end
            fresh.buckets[number].size = fresh.buckets[number].capacity = t.buckets[b].size
            memcpy(fresh.members + fresh.end, t.members + t.buckets[b].start, t.buckets[b].size * sizeof(int32_t))
            for p in range(t.buckets[b].size):
                s.bucket[fresh.members[fresh.end + p] * s.n_tables + which] = number
            fresh.end += t.buckets[b].size
            number += 1
    fresh.n_empty = 0
    free_table(t)
    t[0] = fresh
    return 0


cdef bint is_wasteful(const lsh_state *s, const lsh_table *t) noexcept nogil:
    # both bounds are a multiple of n_items, so a compaction in O(n_items) happens only after as many changes
    return t.end > 4 * s.n_items + 64 or t.n_empty > s.n_items / 2 + 32


cdef int prepare_insert(lsh_state *s, const uint64_t *keys) noexcept nogil:
    """Reserve the room that `place` needs in every table.

    So an insertion happens in all tables or in none.
    """
    cdef Py_ssize_t which
    cdef int32_t number
    cdef int64_t extra
    for which in range(s.n_tables):
        number = find(s.tables + which, keys[which]) if s.tables[which].index != NULL else -1
        extra = 1
        if number >= 0:
            extra = 2 * <int64_t> s.tables[which].buckets[number].capacity + 1
        if reserve_bucket(s.tables + which) or reserve_members(s.tables + which, extra):
            return -1
    return 0


cdef void take_out(lsh_state *s, Py_ssize_t i) noexcept nogil:
    cdef Py_ssize_t which
    cdef lsh_table *t
    cdef lsh_bucket *bucket
    cdef int32_t p, last
    for which in range(s.n_tables):
        t = s.tables + which
        bucket = t.buckets + s.bucket[i * s.n_tables + which]
        p = s.position[i * s.n_tables + which]
        bucket.size -= 1
        last = t.members[bucket.start + bucket.size]
        t.members[bucket.start + p] = last
        s.position[last * s.n_tables + which] = p
        s.bucket[i * s.n_tables + which] = -1
        t.n_empty += bucket.size == 0
    s.n_items -= 1
