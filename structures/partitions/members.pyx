"""Members of each cluster of a changing partition.

Every slot has a growable array of its members. Every item knows its slot and its position in that array. When an item
leaves, the last member of the array moves to its position. A random member and a move cost O(1), a merge O(smaller
cluster), and a split O(items that leave). One permutation lists the occupied slots before the empty ones, so no search
is needed for either. The order of members is part of the state, because a random member is drawn as a position; so
`to_arrays` stores the order.
"""

import numpy as np

from libc.stdint cimport int32_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcpy

from expfam.amounts import counted
from expfam.structures.ground.rng cimport MOVE, philox_aim, philox_init, philox_stream

from expfam.errors import DataError


cdef int members_reserve(member_table *t, Py_ssize_t k, Py_ssize_t room) noexcept nogil:
    """Give the array of slot k room for `room` members.

    The array is doubled, so growth costs O(1) for each member on average.
    """
    cdef member_list *list_k = &t.lists[k]
    cdef int32_t *items
    if room <= list_k.room:
        return MEMBERS_OK
    room = max(room, 2 * list_k.room, <Py_ssize_t> 8)
    items = <int32_t *> realloc(list_k.items, <size_t> room * sizeof(int32_t))
    if items == NULL:
        return MEMBERS_NO_MEMORY
    list_k.items = items
    list_k.room = room
    return MEMBERS_OK


cdef inline void exchange(member_table *t, Py_ssize_t k, Py_ssize_t target) noexcept nogil:
    """Exchange slot k with the slot at position `target` of the permutation."""
    cdef int32_t other = t.slots[target], here = t.place[k]
    t.slots[here], t.slots[target] = other, <int32_t> k
    t.place[other], t.place[k] = here, <int32_t> target


cdef inline void enter(member_table *t, Py_ssize_t i, Py_ssize_t k) noexcept nogil:
    """Append item i to the list of slot k, which has room."""
    cdef member_list *list_k = &t.lists[k]
    if list_k.size == 0:
        exchange(t, k, t.n_active)
        t.n_active += 1
    list_k.items[list_k.size] = <int32_t> i
    t.label[i], t.position[i] = <int32_t> k, <int32_t> list_k.size
    list_k.size += 1


cdef inline void leave(member_table *t, Py_ssize_t i) noexcept nogil:
    cdef Py_ssize_t k = t.label[i]
    cdef member_list *list_k = &t.lists[k]
    cdef int32_t last
    list_k.size -= 1
    last = list_k.items[list_k.size]
    list_k.items[t.position[i]] = last
    t.position[last] = t.position[i]
    t.label[i] = t.position[i] = -1
    if list_k.size == 0:
        t.n_active -= 1
        exchange(t, k, t.n_active)


cdef int members_move(member_table *t, Py_ssize_t i, Py_ssize_t k) noexcept nogil:
    if t.label[i] == k:
        return MEMBERS_OK
    if k >= 0 and members_reserve(t, k, t.lists[k].size + 1) != MEMBERS_OK:
        return MEMBERS_NO_MEMORY
    if t.label[i] >= 0:
        leave(t, i)
    if k >= 0:
        enter(t, i, k)
    return MEMBERS_OK


cdef Py_ssize_t members_merge(member_table *t, Py_ssize_t a, Py_ssize_t b) noexcept nogil:
    """Append the smaller list to the larger one; return the slot of the larger.

    If both have the same size, the second is appended to the first.
    """
    cdef Py_ssize_t large = a, small = b, j, old
    cdef int32_t i
    if t.lists[b].size > t.lists[a].size:
        large, small = b, a
    if large == small or t.lists[small].size == 0:
        return large
    old = t.lists[large].size
    if members_reserve(t, large, old + t.lists[small].size) != MEMBERS_OK:
        return MEMBERS_NO_MEMORY
    for j in range(t.lists[small].size):
        i = t.lists[small].items[j]
        t.lists[large].items[old + j] = i
        t.label[i], t.position[i] = <int32_t> large, <int32_t> (old + j)
    t.lists[large].size += t.lists[small].size
    t.lists[small].size = 0
    t.n_active -= 1
    exchange(t, small, t.n_active)
    return large


cdef int members_split(member_table *t, const int32_t *leaving, Py_ssize_t n_leaving, Py_ssize_t k) noexcept nogil:
    """Move the items `leaving` to slot k. O(n_leaving).

    Each item is listed once, and none of them is in slot k.
    """
    cdef Py_ssize_t j
    if members_reserve(t, k, t.lists[k].size + n_leaving) != MEMBERS_OK:
        return MEMBERS_NO_MEMORY
    for j in range(n_leaving):
        if t.label[leaving[j]] >= 0:
            leave(t, leaving[j])
        enter(t, leaving[j], k)
    return MEMBERS_OK


cdef class MemberLists:
    """Lists of the members of each cluster, updated by moves, merges and splits.

    Parameters
    ----------
    labels : (N,) array_like of int
        Slot of each item; -1 for an item that is in no cluster.
    n_slots : int, optional
        Number of slots, occupied or empty. The default is the largest label plus one. `merge` makes slots empty. `grow`
        adds slots, and so does `split` if no slot is empty.

    Attributes
    ----------
    n_items, n_slots, n_clusters : int
        Number of items N, of slots, and of occupied slots.

    Notes
    -----
    Building costs O(N + slots) by one counting sort, `move` and `random_member` O(1), `merge` O(smaller cluster), and
    `split` O(items that leave). An item needs 8 bytes, and up to 8 more in the lists.

    Examples
    --------
    >>> from expfam.structures import MemberLists
    >>> lists = MemberLists([0, 0, 1, 1, 1])
    >>> lists.merge(0, 1)
    1
    >>> lists.members(1)
    array([2, 3, 4, 0, 1], dtype=int32)
    >>> lists.split([0, 3])
    0
    >>> lists.labels()
    array([0, 1, 1, 0, 1], dtype=int32)
    """

    def __cinit__(self, labels, *, n_slots=None):
        labels = _as_labels(labels)
        least = int(labels.max()) + 1 if labels.size else 0
        n_slots = least if n_slots is None else n_slots
        if not least <= n_slots < 2**31:
            raise ValueError(f"n_slots must be at least {least}, one more than the largest label; got {n_slots}")
        self.table.n_items = labels.size
        self.label_array = np.empty(labels.size, dtype=np.int32)
        self.position_array = np.empty(labels.size, dtype=np.int32)
        self.table.label, self.table.position = pointer_of(self.label_array), pointer_of(self.position_array)
        self.slot_array = self.place_array = np.empty(0, dtype=np.int32)
        self.grow(n_slots)
        self.rebuild(labels)

    def __dealloc__(self):
        cdef Py_ssize_t k
        for k in range(self.table.n_slots):
            free(self.table.lists[k].items)
        free(self.table.lists)

    @property
    def n_items(self):
        """Return the number of items N."""
        return self.table.n_items

    @property
    def n_slots(self):
        """Return the number of slots, occupied or empty."""
        return self.table.n_slots

    @property
    def n_clusters(self):
        """Return the number of occupied slots."""
        return self.table.n_active

    def grow(self, n_slots):
        """Add empty slots until there are `n_slots`; O(slots)."""
        cdef Py_ssize_t old = self.table.n_slots, new = n_slots
        cdef member_list *lists
        if not old <= new < 2**31:
            raise ValueError(f"slots are only ever added: there are {old}, asked for {new}")
        lists = <member_list *> calloc(max(new, <Py_ssize_t> 1), sizeof(member_list))
        if lists == NULL:
            raise MemoryError(f"no memory for {counted(new, 'slot')}")
        if old:
            memcpy(lists, self.table.lists, old * sizeof(member_list))
        free(self.table.lists)
        self.table.lists = lists
        added = np.arange(old, new, dtype=np.int32)
        self.slot_array = np.concatenate([self.slot_array, added])
        self.place_array = np.concatenate([self.place_array, added])
        self.table.slots, self.table.place = pointer_of(self.slot_array), pointer_of(self.place_array)
        self.table.n_slots = new

    def rebuild(self, labels):
        """Replace all lists by those of new labels; members are in the order of items.

        This costs O(N + slots) and uses the arrays again.

        Parameters
        ----------
        labels : (N,) array_like of int
        """
        labels = _as_labels(labels)
        cdef const int32_t[::1] given = labels
        cdef member_table *t = &self.table
        cdef Py_ssize_t i, k
        if labels.size != t.n_items or (labels.size and labels.max() >= t.n_slots):
            raise DataError(f"labels must be {counted(t.n_items, 'number')} below {t.n_slots}; got {labels.size} of "
                            f"them, the largest {labels.max() if labels.size else None}")
        cdef const Py_ssize_t[::1] sizes = np.bincount(labels[labels >= 0], minlength=t.n_slots).astype(np.intp)
        for k in range(t.n_slots):      # allocate all memory first, so that a failure leaves the old lists unchanged
            if members_reserve(t, k, sizes[k]) != MEMBERS_OK:
                raise MemoryError(f"no memory for the {counted(sizes[k], 'member')} of slot {k}")
        with nogil:
            t.n_active = 0
            for k in range(t.n_slots):
                t.lists[k].size = 0
                t.slots[k] = t.place[k] = <int32_t> k
            for k in range(t.n_slots):
                if sizes[k]:            # occupied slots in ascending order
                    exchange(t, k, t.n_active)
                    t.n_active += 1
            for i in range(t.n_items):
                k = given[i]
                t.label[i] = t.position[i] = -1
                if k >= 0:
                    t.label[i], t.position[i] = <int32_t> k, <int32_t> t.lists[k].size
                    t.lists[k].items[t.lists[k].size] = <int32_t> i
                    t.lists[k].size += 1

    cdef Py_ssize_t slot(self, k) except -1:
        cdef Py_ssize_t number = k
        if not 0 <= number < self.table.n_slots:
            raise IndexError(f"slot {number} does not exist: there are {self.table.n_slots}")
        return number

    cdef Py_ssize_t item(self, i) except -1:
        cdef Py_ssize_t number = i
        if not 0 <= number < self.table.n_items:
            raise IndexError(f"item {number} does not exist: there are {self.table.n_items}")
        return number

    def labels(self):
        """Return the slot of each item: (N,) int32, -1 for none."""
        return self.label_array.copy()

    def label(self, i):
        """Return the slot of one item, -1 for none."""
        return int(self.table.label[self.item(i)])

    def sizes(self):
        """Return the number of members of each slot: (n_slots,) int64."""
        return np.array([self.table.lists[k].size for k in range(self.table.n_slots)], dtype=np.int64)

    def size(self, k):
        """Return the number of members of one slot."""
        return self.table.lists[self.slot(k)].size

    def clusters(self):
        """Return the occupied slots in no particular order: (n_clusters,) int32."""
        return self.slot_array[: self.table.n_active].copy()

    def members(self, k):
        """Return the members of a slot in no particular order: (size,) int32."""
        cdef member_list *list_k = &self.table.lists[self.slot(k)]
        out = np.empty(list_k.size, dtype=np.int32)
        if list_k.size:
            memcpy(pointer_of(out), list_k.items, list_k.size * sizeof(int32_t))
        return out

    def random_member(self, k, rng):
        """Draw a uniform member of a slot. O(1).

        Parameters
        ----------
        k : int
        rng : numpy.random.Generator

        Raises
        ------
        ValueError
            The slot is empty.
        """
        cdef member_list *list_k = &self.table.lists[self.slot(k)]
        if list_k.size == 0:
            raise ValueError(f"slot {k} is empty: it has no member to draw")
        cdef Py_ssize_t place = rng.integers(list_k.size)
        return int(list_k.items[place])

    def _drawn_members(self, k, size, seed, *, unit=0, step=0):
        """Return members of a slot as compiled samplers draw them: (size,) int32 ndarray.

        They are uniform, with repetition. The stream is that of (seed, "move"; unit, step). Each draw takes one word,
        and a further one with probability size / 2**64.
        """
        cdef Py_ssize_t number = self.slot(k), j
        cdef philox_stream stream
        if self.table.lists[number].size == 0:
            raise ValueError(f"slot {k} is empty: it has no member to draw")
        out = np.empty(size, dtype=np.int32)
        cdef int32_t[::1] drawn = out
        philox_init(&stream, seed, MOVE)
        philox_aim(&stream, unit, step)
        with nogil:
            for j in range(drawn.shape[0]):
                drawn[j] = <int32_t> members_draw(&self.table, number, &stream)
        return out

    def move(self, i, k):
        """Move item i to slot k, occupied or empty; -1 removes it from its slot. O(1).

        Parameters
        ----------
        i : int
            Number of the item.
        k : int
            Number of the slot, or -1.
        """
        cdef Py_ssize_t target = -1 if k == -1 else self.slot(k)
        if members_move(&self.table, self.item(i), target) != MEMBERS_OK:
            raise MemoryError(f"no memory for another member of slot {k}")

    def merge(self, a, b):
        """Merge two slots and return the one that keeps all members. O(smaller cluster).

        It is the slot with more members, or `a` if both have the same number.

        Parameters
        ----------
        a, b : int
            Numbers of two occupied slots.

        Returns
        -------
        int

        Raises
        ------
        ValueError
            Both slots are the same.
        """
        cdef Py_ssize_t first = self.slot(a), second = self.slot(b)
        if first == second:
            raise ValueError(f"a cluster cannot be merged with itself: both are slot {a}")
        cdef Py_ssize_t kept = members_merge(&self.table, first, second)
        if kept < 0:
            raise MemoryError(f"no memory for the members of slots {a} and {b} together")
        return int(kept)

    def split(self, leaving):
        """Move some members of one cluster to an empty slot.

        This costs O(leaving), so give the smaller side.

        Parameters
        ----------
        leaving : (m,) array_like of int
            Items of one cluster, each once. At least one member must leave, and at least one must stay.

        Returns
        -------
        int
            Slot of the items that left. It is a new slot if none was empty.
        """
        leaving = _as_labels(leaving)
        cdef const int32_t[::1] items = leaving
        cdef Py_ssize_t m = leaving.size, k
        if m == 0 or leaving.min() < 0 or leaving.max() >= self.table.n_items:
            raise ValueError(f"leaving must name at least one item below {self.table.n_items}; got {leaving}")
        k = self.table.label[items[0]]
        if k < 0 or (self.label_array[leaving] != k).any() or np.unique(leaving).size != m:
            raise ValueError("leaving must name members of one cluster, each once")
        if m == self.table.lists[k].size:
            raise ValueError(f"all {counted(m, 'member')} of slot {k} would leave: nothing is split")
        if members_empty_slot(&self.table) < 0:
            self.grow(max(8, 2 * self.table.n_slots))
        k = members_empty_slot(&self.table)
        if members_split(&self.table, &items[0], m, k) != MEMBERS_OK:
            raise MemoryError(f"no memory for the {counted(m, 'member')} of a new cluster")
        return int(k)

    def to_arrays(self):
        """Return the state as a dict of arrays.

        It holds the members slot by slot in their order, the start of each slot, and the order of the slots.
        """
        lists = [self.members(k) for k in range(self.table.n_slots)]
        return {
            "items": np.concatenate([np.empty(0, dtype=np.int32), *lists]),
            "offsets": np.concatenate([[0], np.cumsum(self.sizes())]).astype(np.int64),
            "slots": self.slot_array.copy(),
            "n_items": np.int64(self.table.n_items),
        }

    @classmethod
    def from_arrays(cls, arrays):
        """Make the lists from the arrays of `to_arrays` after checking them.

        Members and slots have the same order as before.
        """
        items, offsets = np.asarray(arrays["items"]), np.asarray(arrays["offsets"])
        order, n_items, n_slots = np.asarray(arrays["slots"]), int(arrays["n_items"]), len(offsets) - 1
        sizes = np.diff(offsets)
        occupied = np.flatnonzero(sizes)
        if (
            len(items) != offsets[n_slots]
            or (sizes < 0).any()
            or not np.array_equal(np.unique(items), np.sort(items))
            or (len(items) and not (0 <= items.min() and items.max() < n_items))
            or not np.array_equal(np.sort(order), np.arange(n_slots))
            or not np.array_equal(np.sort(order[: len(occupied)]), occupied)
        ):
            raise DataError("the arrays are no member lists: items, offsets and slots do not fit each other")
        labels = np.full(n_items, -1, dtype=np.int32)
        labels[items] = np.repeat(np.arange(n_slots), sizes)
        cdef MemberLists lists = cls(labels, n_slots=n_slots)
        cdef Py_ssize_t k, j
        lists.slot_array[:] = order
        lists.place_array[order] = np.arange(n_slots)
        position = np.arange(len(items)) - np.repeat(offsets[:n_slots], sizes)
        lists.position_array[items] = position
        cdef const int32_t[::1] members = np.ascontiguousarray(items, dtype=np.int32)
        cdef const int32_t[::1] label = lists.label_array
        cdef const int32_t[::1] place = lists.position_array
        for j in range(members.shape[0]):
            k = label[members[j]]
            lists.table.lists[k].items[place[members[j]]] = members[j]
        return lists

    def check(self):
        """Check that the stored lists, positions and slots agree with the labels.

        Raises
        ------
        AssertionError
            They do not agree; the message names the first contradiction.
        """
        sizes = self.sizes()
        label = self.label_array
        if not np.array_equal(sizes, np.bincount(label[label >= 0], minlength=self.n_slots)):
            raise AssertionError("sizes of the lists differ from the counts of the labels")
        if not np.array_equal(np.sort(self.clusters()), np.flatnonzero(sizes)):
            raise AssertionError("the occupied slots are not those with members")
        if not np.array_equal(self.place_array[self.slot_array], np.arange(self.n_slots)):
            raise AssertionError("places are not the inverse of the order of slots")
        for k in range(self.n_slots):
            members = self.members(k)
            if (label[members] != k).any() or (self.position_array[members] != np.arange(len(members))).any():
                raise AssertionError(f"the list of slot {k} differs from the labels or positions of its members")

    def __reduce__(self):
        return type(self).from_arrays, (self.to_arrays(),)

    def __repr__(self):
        return f"MemberLists of {counted(self.n_items, 'item')} in {counted(self.n_clusters, 'cluster')}"


cdef int32_t *pointer_of(array):
    cdef int32_t[::1] flat = array
    return &flat[0] if flat.shape[0] else NULL


def _as_labels(labels):
    """Return labels as contiguous int32 after checking them: integers from -1 on."""
    labels = np.asarray(labels)
    if labels.size == 0:
        labels = labels.astype(np.int32)
    if labels.ndim != 1 or labels.dtype.kind not in "iu":
        raise DataError(f"labels must be a vector of integers; got {labels.dtype} of shape {labels.shape}")
    if labels.size and (labels.min() < -1 or labels.max() >= 2**31 - 1):
        bad = int(np.argmax((labels < -1) | (labels >= 2**31 - 1)))
        raise DataError(f"label {labels[bad]} of item {bad} must be -1 or a slot below 2**31 - 1")
    return np.ascontiguousarray(labels, dtype=np.int32)
