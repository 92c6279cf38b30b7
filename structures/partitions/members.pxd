# Members of each cluster for samplers: moves, merges, splits and random members without the gil.

from libc.stdint cimport int32_t, uint64_t

from expfam.structures.ground.rng cimport philox_next64, philox_stream

cdef extern from "philox.h" nogil:
    uint64_t expfam_mulhilo(uint64_t a, uint64_t b, uint64_t *high) noexcept


ctypedef struct member_list:
    int32_t *items                      # (room,) numbers of the members, in no particular order
    Py_ssize_t size
    Py_ssize_t room


ctypedef struct member_table:
    int32_t *label                      # (n_items,) slot of each item, -1 for none
    int32_t *position                   # (n_items,) position of each item in the list of its slot
    member_list *lists                  # (n_slots,)
    int32_t *slots                      # (n_slots,) permutation: the n_active occupied slots come first
    int32_t *place                      # (n_slots,) inverse of this permutation
    Py_ssize_t n_items
    Py_ssize_t n_slots
    Py_ssize_t n_active


cdef enum:
    MEMBERS_OK = 0
    MEMBERS_NO_MEMORY = -1              # no memory; the table is unchanged

# A slot argument may be any number below n_slots; `members_empty_slot` returns an empty one.
cdef int members_reserve(member_table *t, Py_ssize_t k, Py_ssize_t room) noexcept nogil
cdef int members_move(member_table *t, Py_ssize_t i, Py_ssize_t k) noexcept nogil       # O(1); k = -1 removes the item
cdef Py_ssize_t members_merge(member_table *t, Py_ssize_t a, Py_ssize_t b) noexcept nogil  # kept slot; O(min)
cdef int members_split(member_table *t, const int32_t *leaving, Py_ssize_t n_leaving, Py_ssize_t k) noexcept nogil


cdef inline Py_ssize_t members_empty_slot(const member_table *t) noexcept nogil:
    """Return an empty slot, or -1."""
    return t.slots[t.n_active] if t.n_active < t.n_slots else -1


cdef inline uint64_t members_below(uint64_t bound, philox_stream *stream) noexcept nogil:
    """Draw an exactly uniform number of [0, bound).

    Words that would favour some numbers are rejected (Lemire 2019).
    """
    cdef uint64_t high, low = expfam_mulhilo(philox_next64(stream), bound, &high)
    if low < bound:
        while low < (<uint64_t> 0 - bound) % bound:
            low = expfam_mulhilo(philox_next64(stream), bound, &high)
    return high


cdef inline Py_ssize_t members_draw(const member_table *t, Py_ssize_t k, philox_stream *stream) noexcept nogil:
    """Draw a uniform member of an occupied slot."""
    return t.lists[k].items[members_below(<uint64_t> t.lists[k].size, stream)]


cdef inline Py_ssize_t members_draw_slot(const member_table *t, philox_stream *stream) noexcept nogil:
    """Draw a uniform occupied slot; there must be at least one."""
    return t.slots[members_below(<uint64_t> t.n_active, stream)]


cdef class MemberLists:
    cdef member_table table
    cdef object label_array, position_array, slot_array, place_array
    cdef Py_ssize_t slot(self, k) except -1
    cdef Py_ssize_t item(self, i) except -1
