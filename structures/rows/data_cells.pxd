# Fixed division of data into groups: members of each group without the gil.

from libc.stdint cimport uint64_t

cdef class DataCells:
    cdef readonly object group, indptr, members, prototype, radius
    cdef readonly Py_ssize_t n_groups
    cdef const Py_ssize_t[::1] group_of         # (N,)
    cdef const Py_ssize_t[::1] start            # (n_groups + 1,)
    cdef const Py_ssize_t[::1] member           # (N,) data in the order of groups

    # Pick a member of group g by the high bits of one random word; the bias is below size / 2**32.
    cdef inline Py_ssize_t pick(self, Py_ssize_t g, uint64_t word) noexcept nogil:
        cdef Py_ssize_t size = self.start[g + 1] - self.start[g]
        return self.member[self.start[g] + <Py_ssize_t> (((word >> 32) * <uint64_t> size) >> 32)]
