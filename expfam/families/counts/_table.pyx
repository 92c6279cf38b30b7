"""Storage of the counts of words in clusters: room in the lists, words that left, memory.

A row of the table holds the counts of one word in all slots. Each slot also has a list of its present words (words with
a count above 0), so that evidences, merges and clearing cost O(present words). A word whose count falls to 0 stays in
the list as a stale one until the list is cleaned. By clusters, each slot keeps its counts next to its list and finds
them by hashing. By words, only words that many data have keep a row; each other word keeps the slots that list it, with
their counts.
"""

from cpython.mem cimport PyMem_RawCalloc, PyMem_RawFree, PyMem_RawRealloc
from libc.stdint cimport int32_t, uint8_t
from libc.string cimport memset

from expfam.structures.simd.prefetch cimport expfam_prefetch

cdef enum:
    AHEAD = 16              # number of words of a list that are prefetched


cdef void index_all(word_list *words) noexcept nogil:
    cdef Py_ssize_t j
    memset(words.index, 0, (words.mask + 1) * sizeof(int32_t))
    for j in range(words.length):
        index_place(words, j)


cdef bint make_room(count_table *t, Py_ssize_t k, Py_ssize_t more) noexcept nogil:
    """Make room for more words in the list of k, at least by doubling; false if memory runs out."""
    cdef word_list *words = &t.lists[k]
    cdef Py_ssize_t room = words.length + more, size = 8
    cdef void *grown
    cdef void *index
    if room > t.n_words:
        room = t.n_words            # a word is listed once
    if room <= words.room:
        return True
    if room < 2 * words.room:
        room = min(2 * words.room, t.n_words)
    grown = PyMem_RawRealloc(words.words, room * sizeof(int32_t))
    if grown == NULL:
        return False
    words.words = <int32_t *> grown
    if t.by_cluster:
        while size < 2 * room:
            size *= 2
        grown = PyMem_RawRealloc(words.values, room * sizeof(double))
        if grown == NULL:
            return False
        words.values = <double *> grown
        index = PyMem_RawCalloc(size, sizeof(int32_t))
        if index == NULL:
            return False
        PyMem_RawFree(words.index)
        words.index, words.mask = <int32_t *> index, size - 1
        index_all(words)
    words.room = room
    return True


cdef bint make_word_room(count_table *t, Py_ssize_t w) noexcept nogil:
    """Make room for one more slot in the list of a word; false if memory runs out.

    A list grows by half, so few entries are unused.
    """
    cdef slot_list *slots = &t.words[w]
    cdef Py_ssize_t room = slots.room + max(slots.room >> 1, 1)
    cdef void *grown
    if is_in_table(t, w) or slots.length < slots.room:
        return True
    grown = PyMem_RawRealloc(slots.entries, room * sizeof(slot_count))
    if grown == NULL:
        return False
    slots.entries, slots.room = <slot_count *> grown, <int32_t> room
    return True


cdef bint new_words(count_table *t, Py_ssize_t share) noexcept nogil:
    """Give each word that at least one slot in `share` may have a row, and others an empty list.

    A slot has a word only if a datum in it has: the choice depends on the data and on the number of slots alone. Return
    false if memory runs out.
    """
    cdef Py_ssize_t p, w
    cdef slot_list *slots
    t.words = <slot_list *> PyMem_RawCalloc(t.n_words, sizeof(slot_list))
    if t.words == NULL:
        return False
    for p in range(row_start(&t.x, 0), row_start(&t.x, t.n_rows)):
        t.words[entry_column(&t.x, p)].length += 1
    for w in range(t.n_words):
        slots = &t.words[w]
        if slots.length * share >= t.stride:
            slots.length, slots.room = <int32_t> t.n_tabled, -1
            t.n_tabled += 1
        else:
            slots.length = 0
    return True


cdef bint copy_words(const count_table *old, count_table *t) noexcept nogil:
    """Copy the counts of a table to lists of slots by word; false if memory runs out."""
    cdef Py_ssize_t k, j, w
    for k in range(min(old.capacity, t.capacity)):
        for j in range(old.lists[k].length):
            w = old.lists[k].words[j]
            if not make_word_room(t, w):
                return False
            set_listed(t, w, k)
            put(t, w, k, get(old, w, k))
    return True


cdef void drop_stale(count_table *t, Py_ssize_t k) noexcept nogil:
    """Remove the stale words from the list of k and keep the order of the others."""
    cdef word_list *words = &t.lists[k]
    cdef Py_ssize_t j, kept = 0
    for j in range(words.length):
        if j + AHEAD < words.length and is_in_table(t, words.words[j + AHEAD]):
            expfam_prefetch(row_at(t, words.words[j + AHEAD], k), 1)
            expfam_prefetch(listed_at(t, words.words[j + AHEAD], k), 1)
        if t.by_cluster:
            if words.values[j] != 0:
                words.words[kept], words.values[kept] = words.words[j], words.values[j]
                kept += 1
        elif get(t, words.words[j], k) != 0:
            words.words[kept] = words.words[j]
            kept += 1
        else:
            unset_listed(t, words.words[j], k)
    words.length = kept
    if t.by_cluster:
        index_all(words)


cdef void exchange_columns(count_table *t, Py_ssize_t k, Py_ssize_t l) noexcept nogil:
    """Swap two columns of the table, at the words of either list; do not swap the lists."""
    cdef Py_ssize_t j, w
    cdef double count
    # first the words that only l has: this pass does not change the bits of the words of k, which the second pass reads
    for j in range(t.lists[l].length):
        w = t.lists[l].words[j]
        if not is_listed(t, w, k):
            move_count(t, w, l, k)
    for j in range(t.lists[k].length):
        w = t.lists[k].words[j]
        if not is_listed(t, w, l):
            move_count(t, w, k, l)
            continue
        count = get(t, w, l)
        put(t, w, l, get(t, w, k))
        put(t, w, k, count)


cdef inline void move_count(count_table *t, Py_ssize_t w, Py_ssize_t k, Py_ssize_t l) noexcept nogil:
    """Give the count of a word in slot k to slot l, which does not list it, without new room."""
    cdef double count = get(t, w, k)
    put(t, w, k, 0.0)
    unset_listed(t, w, k)
    set_listed(t, w, l)
    put(t, w, l, count)


cdef bint new_lists(count_table *t) noexcept nogil:
    """Give a table empty lists and numbers of its slots; return False if memory runs out."""
    t.listed = <uint8_t *> PyMem_RawCalloc((t.n_tabled * t.stride >> 3) + 1, 1)
    t.lists = <word_list *> PyMem_RawCalloc(t.stride, sizeof(word_list))
    t.n = <double *> PyMem_RawCalloc(5 * t.stride, sizeof(double))
    if t.listed == NULL or t.lists == NULL or t.n == NULL:
        PyMem_RawFree(t.listed)
        PyMem_RawFree(t.lists)
        PyMem_RawFree(t.n)
        return False
    t.total, t.level = t.n + t.stride, t.n + 2 * t.stride
    t.slope, t.evidence = t.n + 3 * t.stride, t.n + 4 * t.stride
    return True


cdef void free_table(count_table *t) noexcept nogil:
    cdef Py_ssize_t k
    if t.lists != NULL:
        for k in range(t.capacity):
            PyMem_RawFree(t.lists[k].words)
            PyMem_RawFree(t.lists[k].values)
            PyMem_RawFree(t.lists[k].index)
    if t.words != NULL:
        for k in range(t.n_words):
            PyMem_RawFree(t.words[k].entries)
    PyMem_RawFree(t.words)
    PyMem_RawFree(t.listed)
    PyMem_RawFree(t.lists)
    PyMem_RawFree(t.n)
