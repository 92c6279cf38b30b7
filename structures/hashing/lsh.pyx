"""Hash tables over the keys of any locality-sensitive hash.

The tables give the exact law of a drawn neighbour.

Items are numbers 0, 1, ...; each item has one 64-bit key for each table, and items with equal keys share a bucket. A
bucket is a run of one array, and each item knows its position in its bucket, so a removal swaps it with the last
member. For L tables, building costs O(N L), insert and remove O(L) amortised, and a draw O(1) on average. An item needs
at most 36 bytes for each table if buckets contain a few items.

Invariant: a draw depends on the random words and on the order of members in buckets, never on the numbers of buckets or
on the memory layout. `to_arrays` keeps that order, so resumed runs give bitwise the same draws.
"""

import numpy as np

from cpython.pycapsule cimport PyCapsule_GetPointer
from libc.math cimport pow
from libc.stdint cimport INT32_MAX, int64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcpy, memset

from expfam.amounts import counted
from expfam.structures.simd.popcount cimport expfam_popcount1
from expfam.structures.hashing._buckets cimport (
    build_table, compact, fill_table, find, find_or_open, free_table, is_wasteful, lsh_table, place, prepare_insert,
    take_out,
)

from expfam.structures.ground.threads import resolve_n_threads, run


cdef double lsh_found(const lsh_state *s, Py_ssize_t i, Py_ssize_t *n_open) noexcept nogil:
    """Return the probability that the tries for i find a neighbour.

    `n_open` receives the number of tables where i has a neighbour.
    """
    cdef const int32_t *own = s.bucket + i * s.n_tables
    cdef Py_ssize_t which
    n_open[0] = 0
    if own[0] < 0:
        return 0.0
    for which in range(s.n_tables):
        n_open[0] += s.tables[which].buckets[own[which]].size > 1
    return 1.0 - pow(1.0 - <double> n_open[0] / <double> s.n_tables, <double> s.n_tries)


cdef double lsh_probability(const lsh_state *s, Py_ssize_t i, Py_ssize_t j, bint found) noexcept nogil:
    """Return the probability that `lsh_draw` for i gives j. O(n_tables).

    If `found` is set, it is conditional on the event that the tries find a neighbour.
    """
    cdef const int32_t *own = s.bucket + i * s.n_tables
    cdef const int32_t *other = s.bucket + j * s.n_tables
    cdef Py_ssize_t which, n_open
    cdef double total = 0.0, success
    if i == j or own[0] < 0 or other[0] < 0:
        return 0.0
    for which in range(s.n_tables):
        if own[which] == other[which]:
            total += 1.0 / <double> (s.tables[which].buckets[own[which]].size - 1)
    if total == 0.0:
        return 0.0
    success = lsh_found(s, i, &n_open)
    return total / <double> n_open if found else success * total / <double> n_open


cdef struct nearest_draw:        # common arguments of all draws of nearest items
    const uint64_t *codes       # (N, n_words)
    Py_ssize_t n_words
    bint by_bits


cdef inline Py_ssize_t code_distance(const nearest_draw *d, Py_ssize_t i, Py_ssize_t j) noexcept nogil:
    cdef const uint64_t *left = d.codes + i * d.n_words
    cdef const uint64_t *right = d.codes + j * d.n_words
    cdef Py_ssize_t w, total = 0
    if d.by_bits:
        for w in range(d.n_words):
            total += <Py_ssize_t> expfam_popcount1(left[w] ^ right[w])
    else:
        for w in range(d.n_words):
            total += left[w] != right[w]
    return total


cdef Py_ssize_t draw_nearest_of(const lsh_state *s, const nearest_draw *d, Py_ssize_t i, Py_ssize_t n_candidates,
                                bitgen_t *rng) noexcept nogil:
    """Draw runs of the buckets of i and return the nearest candidate in them.

    Returns -1 if i is alone in all its buckets. This uses one word for each table.
    """
    cdef const int32_t *own = s.bucket + i * s.n_tables
    cdef const lsh_bucket *bucket
    cdef const int32_t *members
    cdef Py_ssize_t each = (n_candidates + s.n_tables - 1) // s.n_tables, _tried, _n, which, r, best = -1, j
    cdef Py_ssize_t distance, least = 0
    which = lsh_below(<uint32_t> (rng.next_uint64(rng.state) >> 32), <uint32_t> s.n_tables, rng)
    for _tried in range(s.n_tables):
        bucket = s.tables[which].buckets + own[which]
        if bucket.size > 1:
            members = s.tables[which].members + bucket.start
            r = lsh_below(<uint32_t> (rng.next_uint64(rng.state) >> 32), <uint32_t> (bucket.size - 1), rng)
            for _n in range(min(each, min(n_candidates, <Py_ssize_t> bucket.size - 1))):
                # the run starts at a random position and wraps around the positions of the other members
                j = members[r + (r >= s.position[i * s.n_tables + which])]
                distance = code_distance(d, i, j)
                if best < 0 or distance < least:
                    best, least = j, distance
                n_candidates -= 1
                r = r + 1 if r + 2 < bucket.size else 0
        if n_candidates <= 0:
            break
        which = which + 1 if which + 1 < s.n_tables else 0
    return best


cdef class LshTables:
    """Several hash tables; items with equal keys share a bucket and are neighbours.

    Parameters
    ----------
    keys : (N, n_tables) uint64 array_like
        Key of each item in each table, from any hash: sign projections, weighted min-hash, cells of a tree. N may be 0.
        Items have the numbers 0..N-1.
    n_tries : int, optional
        Number of tables that one draw tries before it gives up; ``3 * n_tables`` if not given.
    n_threads : int or None
        Threads for building, one table each. No result depends on it.

    Attributes
    ----------
    n_tables, n_items, n_tries : int
        Number of tables, of items in the tables, and of tries of a draw.

    Raises
    ------
    ValueError
        The keys have a wrong shape or type, or ``n_tries < 1``.

    Notes
    -----
    A draw for item i chooses a table uniformly. If the bucket of i in this table contains other items, one of them is
    returned, each with the same probability. Otherwise a table is chosen again, `n_tries` times at most. Let T(i) be
    the set of tables in which i is not alone, B(i, l) its bucket, R the number of tries and L the number of tables.
    Given the tables, the law of the draw is

        P(j | i) = [1 - (1 - |T(i)|/L)^R] / |T(i)| * sum over l in T(i) of [j in B(i, l)] / (|B(i, l)| - 1).

    It is not 1 - (1 - p^K)^L divided by the size of the bucket, the formula of Luo and Shrivastava (2018) for these
    samplers: a draw uses one bucket and not the union of L, and the mean of a reciprocal is not the reciprocal of the
    mean.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam.structures.hashing.lsh import LshTables
    >>> tables = LshTables(np.array([[1, 9], [1, 8], [2, 9]], dtype=np.uint64))
    >>> tables.bucket(0, table=0).tolist(), tables.bucket(0, table=1).tolist()
    ([0, 1], [0, 2])
    >>> tables.lss_probability(0, [1, 2], given_found=True).tolist()
    [0.5, 0.5]
    >>> bool(tables.draw_neighbours([0], np.random.default_rng(1))[0] in (1, 2))
    True
    """

    def __cinit__(self):
        memset(&self.state, 0, sizeof(lsh_state))

    def __init__(self, keys, *, n_tries=None, n_threads=None):
        cdef const uint64_t[:, ::1] view = key_matrix(keys)
        cdef int[::1] codes
        if self.state.tables != NULL:
            raise RuntimeError("the tables exist already: make a new LshTables for other keys")
        n_threads = resolve_n_threads(n_threads)
        self.state.n_tables = view.shape[1]
        self.state.n_tries = number_of_tries(n_tries, view.shape[1])
        self.allocate(view.shape[0])
        if view.shape[0] == 0:
            return
        codes = np.zeros(view.shape[1], dtype=np.intc)

        def build(which):
            cdef Py_ssize_t table = which
            with nogil:
                codes[table] = build_table(&self.state, table, &view[0, 0], view.shape[0])

        run(build, [(which,) for which in range(view.shape[1])], n_threads)
        if np.any(codes):
            raise MemoryError(f"no memory for {counted(view.shape[1], 'table')} of {counted(view.shape[0], 'item')}")
        self.state.n_items = view.shape[0]

    cdef int allocate(self, Py_ssize_t capacity) except -1:
        """Reserve room for items below `capacity`; new items are absent."""
        cdef lsh_state *s = &self.state
        cdef Py_ssize_t cells = (capacity if capacity else 1) * s.n_tables
        if capacity > INT32_MAX:
            raise ValueError(f"items are numbered below 2**31; got {capacity} of them")
        if s.tables == NULL:
            s.tables = <lsh_table *> calloc(s.n_tables, sizeof(lsh_table))
        cdef int32_t *bucket = <int32_t *> realloc(s.bucket, cells * sizeof(int32_t))
        if bucket != NULL:
            s.bucket = bucket
        cdef int32_t *position = <int32_t *> realloc(s.position, cells * sizeof(int32_t))
        if position != NULL:
            s.position = position
        if s.tables == NULL or bucket == NULL or position == NULL:
            raise MemoryError(f"no memory for {counted(capacity, 'item')} in {counted(s.n_tables, 'table')}")
        memset(s.bucket + s.capacity * s.n_tables, 0xff, (cells - s.capacity * s.n_tables) * sizeof(int32_t))
        memset(s.position + s.capacity * s.n_tables, 0, (cells - s.capacity * s.n_tables) * sizeof(int32_t))
        s.capacity = capacity
        return 0

    cdef void drop(self) noexcept nogil:
        cdef Py_ssize_t which
        if self.state.tables != NULL:
            for which in range(self.state.n_tables):
                free_table(self.state.tables + which)
        free(self.state.tables)
        free(self.state.bucket)
        free(self.state.position)

    def __dealloc__(self):
        self.drop()

    cdef Py_ssize_t draw(self, Py_ssize_t i, bitgen_t *rng) noexcept nogil:
        return lsh_draw(&self.state, i, rng)

    cdef double probability(self, Py_ssize_t i, Py_ssize_t j) noexcept nogil:
        return lsh_probability(&self.state, i, j, False)

    @property
    def n_tables(self):
        """Return the number of tables."""
        return self.state.n_tables

    @property
    def n_items(self):
        """Return the number of items in the tables."""
        return self.state.n_items

    @property
    def n_tries(self):
        """Return the number of tables that one draw tries before it gives up."""
        return self.state.n_tries

    def __len__(self):
        return self.state.n_items

    def __contains__(self, item):
        return 0 <= item < self.state.capacity and self.state.bucket[<Py_ssize_t> item * self.state.n_tables] >= 0

    def __repr__(self):
        return f"LshTables(n_items={self.n_items}, n_tables={self.n_tables}, n_tries={self.n_tries})"

    cdef Py_ssize_t known(self, object item) except -1:
        if item not in self:
            raise ValueError(f"item {item!r} is not in the tables")
        return item

    def insert(self, item, keys):
        """Insert an absent item into its bucket of each table. O(n_tables) amortised.

        Parameters
        ----------
        item : int in [0, 2**31 - 1)
            Number of the item. Memory is proportional to the largest number.
        keys : (n_tables,) uint64 array_like
            Key of the item in each table.

        Raises
        ------
        ValueError
            The item is already in the tables, or the keys or the number have a wrong shape or range.
        """
        cdef lsh_state *s = &self.state
        cdef const uint64_t[::1] view = key_matrix(keys[None] if isinstance(keys, np.ndarray) else [keys])[0]
        cdef Py_ssize_t which, i
        if not 0 <= item < INT32_MAX:
            raise ValueError(f"an item's number must lie in [0, 2**31 - 1); got {item}")
        i = item
        if view.shape[0] != s.n_tables:
            raise ValueError(f"item {i} needs {counted(s.n_tables, 'key')}, one a table; got {view.shape[0]}")
        if item in self:
            raise ValueError(f"item {i} is in the tables already: remove it first")
        if i >= s.capacity:
            self.allocate(min(max(i + 1, s.capacity + s.capacity // 2), <Py_ssize_t> INT32_MAX))
        with nogil:
            which = prepare_insert(s, &view[0])
        if which:
            raise MemoryError(f"no memory to insert item {i}")
        for which in range(s.n_tables):
            place(s, which, find_or_open(s.tables + which, view[which]), <int32_t> i)
        s.n_items += 1
        self._tidy()

    def remove(self, item):
        """Remove an item from all tables. O(n_tables) amortised.

        Parameters
        ----------
        item : int

        Raises
        ------
        ValueError
            The item is not in the tables.
        """
        take_out(&self.state, self.known(item))
        self._tidy()

    def _tidy(self):
        cdef Py_ssize_t which
        for which in range(self.state.n_tables):
            if is_wasteful(&self.state, self.state.tables + which) and compact(&self.state, which):
                raise MemoryError("no memory to compact a table; the tables are intact")

    def draw_neighbours(self, items, rng):
        """Draw a neighbour of each item, with the probabilities of `lss_probability`. O(1) each.

        Parameters
        ----------
        items : (M,) int array_like
            An item that occurs several times gets several independent draws.
        rng : numpy.random.Generator
            Advanced by one word for each try, and rarely by one more to keep the law exact.

        Returns
        -------
        (M,) int64 ndarray
            Neighbours; -1 where the item was alone in its bucket in all tries.

        Raises
        ------
        ValueError
            An item is not in the tables.
        """
        cdef const int64_t[::1] who = item_array(items)
        cdef Py_ssize_t m
        self._require(who)
        result = np.empty(who.shape[0], dtype=np.int64)
        cdef int64_t[::1] out = result
        capsule = rng.bit_generator.capsule
        cdef bitgen_t *bits = <bitgen_t *> PyCapsule_GetPointer(capsule, "BitGenerator")
        with rng.bit_generator.lock, nogil:
            for m in range(who.shape[0]):
                out[m] = lsh_draw(&self.state, who[m], bits)
        return result

    def draw_nearest(self, items, codes, n_candidates, rng, *, by_bits):
        """Draw candidates from the buckets of each item; return the one with the nearest code.

        Parameters
        ----------
        items : (M,) int array_like
        codes : (N, n_words) uint64 ndarray
            Code of each item, for example the keys of the tables.
        n_candidates : (M,) int array_like
            Number of candidates for each item, positive. There are fewer if the buckets contain fewer.
        rng : numpy.random.Generator
        by_bits : bool
            Whether the distance of two codes is the number of different bits, as for sign hashes, or of different
            words.

        Returns
        -------
        (M,) int64 ndarray
            Nearest candidates; -1 where an item is alone in all its buckets.

        Raises
        ------
        ValueError
            An item is not in the tables, there are too few codes, or a number of candidates is below 1.

        Notes
        -----
        The search starts at a random table and continues with the next ones. Each table gives a run of neighbours in
        the bucket of the item, from a random position on. The runs are long enough for all tables together to give
        `n_candidates`. With one candidate this is the law of `draw_neighbours`, except for the next table after a
        bucket in which the item is alone.
        """
        cdef const int64_t[::1] who = item_array(items)
        cdef const int64_t[::1] number = item_array(n_candidates)
        cdef const uint64_t[:, ::1] view = key_matrix(codes)
        cdef nearest_draw draw
        cdef Py_ssize_t m
        self._require(who)
        if view.shape[0] < self.state.capacity:
            raise ValueError(f"codes have shape {np.shape(codes)}; expected a row for each of {self.state.capacity}")
        cdef bint is_positive = number.shape[0] == who.shape[0]
        for m in range(who.shape[0] if is_positive else 0):
            is_positive = is_positive and number[m] > 0
        if not is_positive:
            wanted = counted(who.shape[0], "positive number")
            raise ValueError(f"n_candidates must be {wanted}; got {n_candidates!r}")
        result = np.empty(who.shape[0], dtype=np.int64)
        if who.shape[0] == 0:
            return result
        draw.codes, draw.n_words, draw.by_bits = &view[0, 0], view.shape[1], by_bits
        cdef int64_t[::1] out = result
        capsule = rng.bit_generator.capsule
        cdef bitgen_t *bits = <bitgen_t *> PyCapsule_GetPointer(capsule, "BitGenerator")
        with rng.bit_generator.lock, nogil:
            for m in range(who.shape[0]):
                out[m] = draw_nearest_of(&self.state, &draw, who[m], number[m], bits)
        return result

    def _require(self, const int64_t[::1] who):
        cdef Py_ssize_t m
        for m in range(who.shape[0]):
            if not 0 <= who[m] < self.state.capacity or self.state.bucket[who[m] * self.state.n_tables] < 0:
                raise ValueError(f"item {who[m]} is not in the tables")

    def lss_probability(self, i, j, *, given_found=False):
        """Return the probability that a draw for i returns j, given the tables.

        This costs O(n_tables) for each pair.

        Parameters
        ----------
        i, j : int or int array_like
            Items. Arrays are broadcast against each other.
        given_found : bool
            Whether to condition on the event that the tries find a neighbour. The probabilities for an item i that has
            neighbours then sum to 1 over j.

        Returns
        -------
        float64 scalar or ndarray of the broadcast shape
            0.0 where i == j or where i and j share no bucket.

        Raises
        ------
        ValueError
            An item is not in the tables.
        """
        left, right = np.broadcast_arrays(np.asarray(i), np.asarray(j))
        cdef const int64_t[::1] a = item_array(left.ravel())
        cdef const int64_t[::1] b = item_array(right.ravel())
        cdef bint found = given_found
        cdef Py_ssize_t m
        self._require(a)
        self._require(b)
        result = np.empty(a.shape[0])
        cdef double[::1] out = result
        with nogil:
            for m in range(a.shape[0]):
                out[m] = lsh_probability(&self.state, a[m], b[m], found)
        return result.reshape(left.shape)[()]

    def found_probability(self, items):
        """Return the probability that the tries for each item find a neighbour.

        This costs O(n_tables) for each item.

        Parameters
        ----------
        items : (M,) int array_like

        Returns
        -------
        (M,) float64 ndarray

        Raises
        ------
        ValueError
            An item is not in the tables.
        """
        cdef const int64_t[::1] who = item_array(items)
        cdef Py_ssize_t m, n_open
        self._require(who)
        result = np.empty(who.shape[0])
        cdef double[::1] out = result
        for m in range(who.shape[0]):
            out[m] = lsh_found(&self.state, who[m], &n_open)
        return result

    def neighbours(self, item):
        """Return all items that share a bucket with an item.

        This costs O(s log s), where s is the total size of the buckets of the item.

        Parameters
        ----------
        item : int

        Returns
        -------
        (M,) int64 ndarray
            Ascending, without the item itself.

        Raises
        ------
        ValueError
            The item is not in the tables.
        """
        found = np.unique(np.concatenate([self.bucket(item, table=which) for which in range(self.n_tables)]))
        return found[found != item]

    def bucket(self, item, *, table):
        """Return the members of an item's bucket, including the item, in the order of draws.

        Parameters
        ----------
        item, table : int

        Returns
        -------
        (M,) int64 ndarray

        Raises
        ------
        ValueError
            The item is not in the tables, or there is no such table.
        """
        cdef Py_ssize_t i = self.known(item), which = self._table(table)
        return self._members(which, self.state.bucket[i * self.state.n_tables + which])

    def find(self, key, *, table):
        """Return the members of the bucket with a key, none without a bucket: (M,) int64 ndarray.

        Parameters
        ----------
        key : int in [0, 2**64)
        table : int

        Raises
        ------
        ValueError
            There is no such table.
        """
        cdef Py_ssize_t which = self._table(table)
        cdef int32_t number = find(self.state.tables + which, key) if self.state.tables[which].index != NULL else -1
        return np.empty(0, dtype=np.int64) if number < 0 else self._members(which, number)

    def _table(self, table):
        if not 0 <= table < self.state.n_tables:
            raise ValueError(f"table must lie in [0, {self.state.n_tables}); got {table}")
        return table

    def _members(self, Py_ssize_t which, int32_t number):
        cdef lsh_bucket *bucket = self.state.tables[which].buckets + number
        cdef int32_t p
        result = np.empty(bucket.size, dtype=np.int64)
        cdef int64_t[::1] out = result
        for p in range(bucket.size):
            out[p] = self.state.tables[which].members[bucket.start + p]
        return result

    def buckets(self, *, table):
        """Return all buckets of a table, one after another. O(n_items).

        Parameters
        ----------
        table : int

        Returns
        -------
        members : (n_items,) int32 ndarray
        sizes : (B,) int64 ndarray
            Sizes of the buckets; none is empty. ``np.split(members, np.cumsum(sizes)[:-1])`` lists the buckets.
        keys : (B,) uint64 ndarray
            Key of each bucket.

        Raises
        ------
        ValueError
            There is no such table.
        """
        cdef Py_ssize_t which = self._table(table)
        cdef lsh_table *t = self.state.tables + which
        cdef Py_ssize_t b, n = 0, at = 0
        members = np.empty(self.state.n_items, dtype=np.int32)
        sizes = np.empty(t.n_buckets - t.n_empty, dtype=np.int64)
        keys = np.empty(t.n_buckets - t.n_empty, dtype=np.uint64)
        cdef int32_t[::1] out = members
        cdef int64_t[::1] size = sizes
        cdef uint64_t[::1] key = keys
        for b in range(t.n_buckets):
            if t.buckets[b].size:
                memcpy(&out[at], t.members + t.buckets[b].start, t.buckets[b].size * sizeof(int32_t))
                size[n] = t.buckets[b].size
                key[n] = t.buckets[b].key
                at += size[n]
                n += 1
        return members, sizes, keys

    def statistics(self):
        """Return statistics of the buckets of each table. O(n_items n_tables).

        Returns
        -------
        dict of ndarray
            By table: ``n_buckets``, ``n_alone`` (number of items that are alone in their bucket), ``largest`` (size of
            the largest bucket) and ``mean_others`` (number of other members in the bucket of an average item). If the
            largest bucket has more than half of the items, the keys of that table hardly distinguish the items.
        """
        sizes = [self.buckets(table=which)[1] for which in range(self.n_tables)]
        items = max(self.n_items, 1)
        return {
            "n_buckets": np.array([s.size for s in sizes], dtype=np.int64),
            "n_alone": np.array([np.count_nonzero(s == 1) for s in sizes], dtype=np.int64),
            "largest": np.array([s.max(initial=0) for s in sizes], dtype=np.int64),
            "mean_others": np.array([float(s @ (s - 1)) / items for s in sizes]),
        }

    @property
    def nbytes(self):
        """Return the number of allocated bytes, gaps included."""
        cdef Py_ssize_t which
        cdef lsh_table *t
        cdef size_t total = self.state.capacity * self.state.n_tables * 2 * sizeof(int32_t)
        for which in range(self.state.n_tables):
            t = self.state.tables + which
            total += t.members_room * sizeof(int32_t) + t.buckets_room * sizeof(lsh_bucket) + sizeof(lsh_table)
            total += (t.mask + 1) * sizeof(int32_t) if t.index != NULL else 0
        return total

    def to_arrays(self):
        """Return everything that a later draw reads as arrays.

        Returns
        -------
        dict of ndarray
            ``settings`` (capacity, n_tables, n_tries), ``n_buckets`` by table, and ``members``, ``sizes``, ``keys``
            of all buckets, table after table.
        """
        parts = [self.buckets(table=which) for which in range(self.n_tables)]
        return {
            "settings": np.array([self.state.capacity, self.n_tables, self.n_tries], dtype=np.int64),
            "n_buckets": np.array([sizes.size for _, sizes, _ in parts], dtype=np.int64),
            "members": np.concatenate([members for members, _, _ in parts]),
            "sizes": np.concatenate([sizes for _, sizes, _ in parts]),
            "keys": np.concatenate([keys for _, _, keys in parts]),
        }

    @classmethod
    def from_arrays(cls, arrays):
        """Make tables from the arrays of `to_arrays`; their draws are the same.

        Parameters
        ----------
        arrays : dict of ndarray
            The arrays that `to_arrays` returned.

        Returns
        -------
        LshTables

        Raises
        ------
        ValueError
            The arrays contradict each other.
        """
        cdef LshTables tables = cls.__new__(cls)
        cdef Py_ssize_t which, start = 0, stop
        capacity, n_tables, n_tries = (int(value) for value in arrays["settings"])
        n_buckets = np.asarray(arrays["n_buckets"], dtype=np.int64)
        cdef const int32_t[::1] members = np.ascontiguousarray(arrays["members"], dtype=np.int32)
        cdef const int64_t[::1] sizes = np.ascontiguousarray(arrays["sizes"], dtype=np.int64)
        cdef const uint64_t[::1] keys = np.ascontiguousarray(arrays["keys"], dtype=np.uint64)
        per_table = check_arrays(capacity, n_tables, n_buckets, members, sizes, keys)
        tables.state.n_tables = n_tables
        tables.state.n_tries = number_of_tries(n_tries, n_tables)
        tables.allocate(capacity)
        tables.state.n_items = per_table
        for which in range(n_tables if per_table else 0):
            stop = start + n_buckets[which]
            code = fill_table(&tables.state, which, &members[which * tables.state.n_items], &sizes[start], &keys[start],
                              stop - start)
            if code == -1:
                raise MemoryError(f"no memory for {counted(n_tables, 'table')} of {counted(per_table, 'item')}")
            if code:
                raise ValueError(f"arrays of table {which} hold an item or a key twice")
            start = stop
        return tables

    def __reduce__(self):
        return LshTables.from_arrays, (self.to_arrays(),)

    def check(self):
        """Check every invariant. O(n_items n_tables).

        Raises
        ------
        AssertionError
            An invariant does not hold; the message names the table and the error.
        """
        cdef lsh_table *t
        cdef lsh_bucket *bucket
        cdef Py_ssize_t which, b, p, item, present = 0
        for item in range(self.state.capacity):
            present += self.state.bucket[item * self.state.n_tables] >= 0
        if present != self.state.n_items:
            raise AssertionError(
                f"{counted(present, 'item has', 'items have')} buckets, {self.state.n_items} were counted"
            )
        for which in range(self.state.n_tables):
            t = self.state.tables + which
            total, empty, runs = 0, 0, []
            for b in range(t.n_buckets):
                bucket = t.buckets + b
                if find(t, bucket.key) != b:
                    raise AssertionError(f"table {which}: bucket {b} is not found by its key")
                if not 0 <= bucket.size <= bucket.capacity:
                    raise AssertionError(f"table {which}: bucket {b} holds {bucket.size} of {bucket.capacity}")
                total += bucket.size
                empty += bucket.size == 0
                runs.append((bucket.start, bucket.start + bucket.capacity))
                for p in range(bucket.size):
                    item = t.members[bucket.start + p]
                    if self.state.bucket[item * self.state.n_tables + which] != b:
                        raise AssertionError(f"table {which}: item {item} is in bucket {b}, but has another one noted")
                    if self.state.position[item * self.state.n_tables + which] != p:
                        raise AssertionError(f"table {which}: item {item} is at place {p}, but has another one noted")
            runs = sorted(run for run in runs if run[0] < run[1])
            if any(left[1] > right[0] for left, right in zip(runs, [*runs[1:], (t.end, t.end)])):
                raise AssertionError(f"table {which}: runs of buckets overlap")
            if (total, empty) != (self.state.n_items, t.n_empty):
                raise AssertionError(
                    f"table {which}: {counted(total, 'member')} and "
                    f"{counted(empty, 'empty bucket was', 'empty buckets were')} found"
                )


def key_matrix(keys):
    array = np.asarray(keys)
    if array.dtype.kind == "f" and not isinstance(keys, np.ndarray):
        # NumPy makes floats of a list with Python integers below and above 2**63
        exact = np.array(keys, dtype=object)
        if all(isinstance(key, (int, np.integer)) for key in exact.ravel()):
            array = exact.astype(np.uint64)
    if array.ndim != 2 or array.shape[1] < 1:
        raise ValueError(f"keys must have shape (N, n_tables) with at least one table; got shape {array.shape}")
    if array.dtype.kind not in "ui" and array.size:
        raise ValueError(f"keys must be unsigned 64-bit integers; got dtype {array.dtype}")
    if array.dtype.kind == "i" and array.size and array.min() < 0:
        row, column = np.argwhere(array < 0)[0]
        raise ValueError(f"keys must not be negative; row {row}, table {column} holds {array[row, column]}")
    return np.ascontiguousarray(array, dtype=np.uint64)


def item_array(items):
    array = np.atleast_1d(np.asarray(items))
    if array.ndim != 1 or (array.dtype.kind not in "ui" and array.size):
        raise ValueError(f"items must be a vector of integers; got shape {array.shape}, dtype {array.dtype}")
    return np.ascontiguousarray(array, dtype=np.int64)


def number_of_tries(n_tries, Py_ssize_t n_tables):
    if n_tries is None:
        return 3 * n_tables
    if n_tries < 1:
        raise ValueError(f"n_tries must be at least 1; got {n_tries}")
    return n_tries


def check_arrays(capacity, n_tables, n_buckets, const int32_t[::1] members, const int64_t[::1] sizes,
                 const uint64_t[::1] keys):
    """Return the number of items after all checks that make filling the tables safe."""
    if n_tables < 1 or capacity < 0 or n_buckets.shape != (n_tables,) or n_buckets.min() < 0:
        raise ValueError(
            f"{counted(n_tables, 'table')} of capacity {capacity} cannot have bucket counts {n_buckets}"
        )
    if sizes.shape[0] != n_buckets.sum() or keys.shape[0] != sizes.shape[0] or members.shape[0] % n_tables:
        raise ValueError(
            f"{counted(sizes.shape[0], 'size')}, {counted(keys.shape[0], 'key')} and "
            f"{counted(members.shape[0], 'member')} do not fit {counted(n_buckets.sum(), 'bucket')} in "
            f"{counted(n_tables, 'table')}"
        )
    per_table = members.shape[0] // n_tables
    ends = np.concatenate([[0], np.cumsum(n_buckets)])
    totals = [int(np.asarray(sizes)[a:b].sum()) for a, b in zip(ends, ends[1:])]
    if (sizes.shape[0] and np.min(sizes) < 1) or any(total != per_table for total in totals):
        raise ValueError(f"buckets must be of positive sizes that sum to {per_table} in each table; got {totals}")
    if members.shape[0] and not (0 <= np.min(members) and np.max(members) < capacity):
        raise ValueError(f"members must be numbers below {capacity}; got {np.min(members)} to {np.max(members)}")
    return per_table
