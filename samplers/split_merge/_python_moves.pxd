# Moves whose division a Python object makes; all else of them is compiled.

from expfam.samplers.split_merge._moves cimport move_state
from expfam.samplers.states.collapsed cimport CollapsedState
from expfam.structures.partitions.members cimport MemberLists

cdef int away_move(move_state *w, CollapsedState state, MemberLists lists, move, allocator, Py_ssize_t place,
                   rng) except? -9
