# Threads that wait without the gil for work of one loop after the other.

from libc.stdint cimport int64_t


# Do item `item` of a loop, in the thread of this number: 0 is that of the caller.
ctypedef void (*item_t)(void *job, Py_ssize_t item, Py_ssize_t thread) noexcept nogil


cdef class Team:
    cdef readonly Py_ssize_t n_threads      # the caller and those that may serve
    cdef int64_t lock, phase, over, done, n_helpers
    cdef item_t work
    cdef void *job
    cdef Py_ssize_t n_items, first          # items of the present loop, and the first one that no thread has taken

    cdef Py_ssize_t take(self, item_t *work, void **job) noexcept nogil
    cdef void share(self, item_t work, void *job, Py_ssize_t n_items) noexcept nogil
    cdef int share_in_loops(self, item_t work, void *job, Py_ssize_t n_items, Py_ssize_t step) except -1
    cdef void _share(self, item_t work, void *job, Py_ssize_t first, Py_ssize_t stop) noexcept nogil
