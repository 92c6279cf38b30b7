# Classes of the clusters that known rows hold: which clusters a known row may join.

from libc.stdint cimport int32_t, int64_t


ctypedef struct class_table:    # pointers into the arrays of a ClassTable; row_class is NULL where nothing is masked
    const int32_t *row_class    # (N,) class of each row, -1 where it is not known
    int32_t *slot_class         # (capacity,) class of the known rows of each slot
    int64_t *slot_known         # (capacity,) number of known rows of each slot


cdef inline bint class_allows(const class_table *t, Py_ssize_t i, Py_ssize_t k, Py_ssize_t own) noexcept nogil:
    """Tell whether row i may be in slot k, of whose known rows `own` are the row itself or its link group."""
    return t.row_class[i] < 0 or t.slot_known[k] == own or t.slot_class[k] == t.row_class[i]


cdef inline void class_move(const class_table *t, Py_ssize_t i, Py_ssize_t old, Py_ssize_t new,
                            Py_ssize_t n) noexcept nogil:
    """Note that n rows of the class of row i go from slot `old` to slot `new`."""
    if t.row_class[i] < 0:
        return
    t.slot_known[old] -= n
    t.slot_known[new] += n
    t.slot_class[new] = t.row_class[i]


cdef class ClassTable:
    cdef class_table t
    cdef object known, slot_class, slot_known
    cdef int count(self, labels, Py_ssize_t capacity) except -1
