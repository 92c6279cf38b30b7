# The nearest data of a query that were found so far: a heap with the farthest on top.

from libc.stdint cimport int32_t

ctypedef struct neighbour:
    double square               # squared distance
    int32_t id


cdef inline bint before(neighbour a, neighbour b) noexcept nogil:
    return a.square < b.square or (a.square == b.square and a.id < b.id)


cdef inline Py_ssize_t offer(neighbour *found, Py_ssize_t size, Py_ssize_t k, neighbour new) noexcept nogil:
    """Insert a neighbour into the heap of the k nearest, the farthest on top.

    Returns the new size of the heap.
    """
    cdef Py_ssize_t at, child
    if size < k:
        at = size
        while at > 0 and before(found[(at - 1) // 2], new):
            found[at] = found[(at - 1) // 2]
            at = (at - 1) // 2
        found[at] = new
        return size + 1
    if not before(new, found[0]):
        return size
    at = 0
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        if child + 1 < size and before(found[child], found[child + 1]):
            child += 1
        if not before(new, found[child]):
            break
        found[at] = found[child]
        at = child
    found[at] = new
    return size


cdef inline void sort_found(neighbour *found, Py_ssize_t size) noexcept nogil:
    """Sort the heap of `offer` in place."""
    cdef neighbour last
    cdef Py_ssize_t left = size
    while left > 1:
        left -= 1
        last = found[left]
        found[left] = found[0]
        offer(found, left, left, last)  # replaces the old top, which it precedes
