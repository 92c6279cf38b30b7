# C interface of `InvertedIndex`: rows and posting lists over one pool of entries, and sums over shared terms.

from libc.stdint cimport int32_t, int64_t

# contribution of one shared term: x is the value in row k, y the value in the other row
ctypedef double (*shared_term)(const void *context, Py_ssize_t term, double x, double y) noexcept nogil

cdef class InvertedIndex:
    cdef readonly Py_ssize_t n_slots
    cdef readonly Py_ssize_t n_terms
    cdef readonly Py_ssize_t n_entries      # live entries
    cdef Py_ssize_t[::1] _begin             # (n_terms + 1,) segment of each term in the pool
    cdef Py_ssize_t[::1] _size              # (n_terms,) live entries of each term: the first ones of its segment
    cdef Py_ssize_t[::1] _head              # (n_slots,) first entry of each row, -1 where it is empty
    cdef Py_ssize_t[::1] _row_size          # (n_slots,) terms of each row
    cdef int32_t[::1] _slot                 # (pool,) owner of each entry
    cdef int32_t[::1] _term                 # (pool,)
    cdef double[::1] _value                 # (pool,)
    cdef Py_ssize_t[::1] _next              # (pool,) next entry of the row, by ascending term; -1 at its end
    cdef Py_ssize_t[::1] _previous          # (pool,)
    cdef double[::1] _sums                  # (n_slots,) scratch of the Python interface
    cdef int64_t[::1] _mark                 # (n_slots,) scratch as well
    cdef Py_ssize_t[::1] _touched           # (n_slots,) scratch as well
    cdef int64_t _stamp

    cdef void _allocate(self, Py_ssize_t size)
    cdef void _drop(self, Py_ssize_t e) noexcept nogil
    cdef void c_merge(self, Py_ssize_t k, Py_ssize_t l) noexcept nogil
    cdef void c_remove(self, Py_ssize_t k) noexcept nogil
    cdef Py_ssize_t c_accumulate(self, Py_ssize_t k, shared_term term, const void *context, double *sums,
                                 int64_t *mark, int64_t stamp, Py_ssize_t *touched) noexcept nogil
    cdef Py_ssize_t _n_postings(self, Py_ssize_t k) noexcept nogil
    cdef int _check_slot(self, Py_ssize_t k) except -1
