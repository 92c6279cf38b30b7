# Single data that a cluster may merge with, by a bound of their scores that holds while the cluster grows.

from libc.math cimport INFINITY
from libc.stdint cimport int32_t
from libc.stdlib cimport free, malloc, realloc

# A score is that of the cluster alone plus u, which depends on the datum too: u <= scale key + offset for each entry.
# Growth of the cluster changes scale and offset for all of them, but never who comes first.
ctypedef struct leaf_heap:
    double *key                     # (room,) highest first, as a heap; +inf of what was never scored
    int32_t *leaf                   # (room,) slots; dead ones and second ones stay until they are met
    Py_ssize_t size, room
    int32_t *other                  # (n_others,) clusters of several data, by slots that once held a part of them
    Py_ssize_t n_others, room_others
    double scale, offset
    double low                      # no leaf that was scored has a smaller weight


cdef inline leaf_heap *new_heap() noexcept nogil:
    cdef leaf_heap *heap = <leaf_heap *> malloc(sizeof(leaf_heap))
    if heap != NULL:
        heap.key, heap.leaf, heap.other = NULL, NULL, NULL
        heap.size = heap.room = heap.n_others = heap.room_others = 0
        heap.scale, heap.offset, heap.low = 1.0, 0.0, INFINITY
    return heap


cdef inline void free_heap(leaf_heap *heap) noexcept nogil:
    if heap != NULL:
        free(heap.key)
        free(heap.leaf)
        free(heap.other)
        free(heap)


cdef inline bint add_other(leaf_heap *heap, int32_t slot) noexcept nogil:
    """Whether there was memory for it."""
    cdef Py_ssize_t room = 2 * heap.room_others + 8
    cdef int32_t *moved
    if heap.n_others == heap.room_others:
        moved = <int32_t *> realloc(heap.other, room * sizeof(int32_t))
        if moved == NULL:
            return False
        heap.other, heap.room_others = moved, room
    heap.other[heap.n_others] = slot
    heap.n_others += 1
    return True


cdef inline bint make_room(leaf_heap *heap) noexcept nogil:
    cdef Py_ssize_t room = 2 * heap.room + 64
    cdef double *key = <double *> realloc(heap.key, room * sizeof(double))
    if key != NULL:
        heap.key = key
    cdef int32_t *leaf = <int32_t *> realloc(heap.leaf, room * sizeof(int32_t))
    if leaf != NULL:
        heap.leaf = leaf
    if key == NULL or leaf == NULL:
        return False
    heap.room = room
    return True


cdef inline bint push_leaf(leaf_heap *heap, double key, int32_t leaf) noexcept nogil:
    """Whether there was memory for it."""
    cdef Py_ssize_t i = heap.size, above
    if i == heap.room and not make_room(heap):
        return False
    heap.size += 1
    while i > 0:
        above = (i - 1) >> 1
        if not heap.key[above] < key:
            break
        heap.key[i], heap.leaf[i] = heap.key[above], heap.leaf[above]
        i = above
    heap.key[i], heap.leaf[i] = key, leaf
    return True


cdef inline int32_t pop_leaf(leaf_heap *heap) noexcept nogil:
    """The first leaf; there must be one."""
    cdef int32_t first = heap.leaf[0], leaf
    cdef Py_ssize_t i = 0, below
    cdef double key
    heap.size -= 1
    key, leaf = heap.key[heap.size], heap.leaf[heap.size]
    while 2 * i + 1 < heap.size:
        below = 2 * i + 1
        if below + 1 < heap.size and heap.key[below + 1] > heap.key[below]:
            below += 1
        if not heap.key[below] > key:
            break
        heap.key[i], heap.leaf[i] = heap.key[below], heap.leaf[below]
        i = below
    heap.key[i], heap.leaf[i] = key, leaf
    return first
