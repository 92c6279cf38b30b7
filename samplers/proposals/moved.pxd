# Data that enter and leave slots, by slot.


ctypedef struct moved_rows:
    const Py_ssize_t *slots             # (n_slots,) slots that change, ascending
    const Py_ssize_t *entering          # data that enter, slot by slot, each in the order that was given
    const Py_ssize_t *leaving
    const Py_ssize_t *first_entering    # (n_slots + 1,) place of the first of each slot in `entering`
    const Py_ssize_t *first_leaving
    Py_ssize_t n_slots


cdef class MovedRows:
    cdef moved_rows m
    cdef readonly object slots          # (n_slots,) intp: slots that change, ascending
    cdef object firsts, rows
