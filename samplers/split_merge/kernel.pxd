# The state of a chain's moves between steps, for the modules that make single moves.

from expfam.samplers.split_merge._moves cimport move_state
from expfam.samplers.states.collapsed cimport CollapsedState
from expfam.structures.partitions.members cimport MemberLists


cdef class MoveRunner:
    cdef move_state w
    cdef CollapsedState state
    cdef MemberLists lists
    cdef readonly object moves
    cdef public object kernel           # the kernel for which the moves were checked last
    cdef object n_threads, bound, model, shares
    cdef object known, sizes, seen       # what is known of rows, and arrays that the moves read
    cdef object plan_array, items, sides, leaving, ks, scores, masses, which, pairs
    cdef readonly object stamp          # stamp of the labels that the lists were made from
    cdef readonly object schedule

    cdef int take_known(self, known) except -1
    cdef void aim(self)
    cdef int away(self, Py_ssize_t place) except -1
    cdef int note(self) except -1
    cdef object failure(self, int code)
