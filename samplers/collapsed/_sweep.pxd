# A Metropolis sweep over a collapsed state: what the exact modes, the published modes and `laws.pyx` share.

from libc.math cimport INFINITY, log
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from expfam.contracts cimport EXPFAM_OK, components_v1, proposal_v1
from expfam.samplers.proposals.handle cimport ProposalHandle
from expfam.samplers.states.classes cimport ClassTable, class_allows, class_move, class_table
from expfam.samplers.states.collapsed cimport CollapsedState, slot_enter, slot_leave, slot_table

cdef enum:
    GROW = 1                    # result of a block: stopped because no slot is empty
    CALL_ROWS = 8192            # data of one nogil call of the single writer
    EXPFAM_STAYS = -2           # in place of the slot that is drawn for a datum, which is its own


ctypedef struct sweep_state:           # data that all moves of one sweep share
    components_v1 *c
    proposal_v1 *p
    slot_table *slots
    class_table classes
    const Py_ssize_t *order     # rows of a sweep one by one; NULL for all rows
    int32_t *labels
    const double *log_new_mass  # log mass of a new cluster, by the number of clusters of the other data
    double *work                # of the components
    double *proposal_work
    int64_t *outside            # (capacity,) number of data of each slot outside the block
    uint8_t *listed             # (capacity,) whether the slot is in `inner`
    Py_ssize_t *inner           # (capacity,) inner slots: those without data outside the block
    Py_ssize_t n_inner
    Py_ssize_t *options         # (capacity,) scratch: clusters without data outside the block, and the empty slot
    double *scores              # (capacity,)
    uint64_t seed
    uint64_t step
    uint64_t row_offset
    Py_ssize_t n_places         # data that a sweep one by one visits
    bint is_backward            # it visits them in the opposite order
    double log_joint            # one running sum, so that its rounding does not depend on how rows are cut into calls
    Py_ssize_t n_proposed
    Py_ssize_t n_moved


ctypedef struct place:          # the present slot of a datum and its score
    Py_ssize_t i
    Py_ssize_t old              # its present slot
    Py_ssize_t others           # number of clusters of the other data
    bint alone                  # whether no other datum is in its slot
    double score                # log mass + log predictive given the others


# Move data at consecutive places of the sweep one by one; set `at` to the first unfinished place.
ctypedef int (*move_rows_t)(sweep_state *m, int mode, Py_ssize_t start, Py_ssize_t stop, Py_ssize_t *at) noexcept nogil


cdef inline Py_ssize_t row_at(const sweep_state *m, Py_ssize_t nth) noexcept nogil:
    """Return the datum at a place of the sweep."""
    cdef Py_ssize_t place = m.n_places - 1 - nth if m.is_backward else nth
    return place if m.order == NULL else m.order[place]


cdef inline int find_place(sweep_state *m, Py_ssize_t i, place *at) noexcept nogil:
    """Find the present slot of datum i and its score there."""
    cdef slot_table *t = m.slots
    cdef double own
    cdef int code
    at.i, at.old = i, m.labels[i]
    at.alone = t.counts[at.old] == 1
    at.others = t.n_live - at.alone
    code = m.c.log_predictive_self(m.c.self, i, at.old, &own, m.work)
    if at.alone:
        at.score = m.log_new_mass[at.others] + own
    else:
        at.score = log(t.counts[at.old] - 1 + t.offset) + own
    return code


cdef inline int score_of(sweep_state *m, const place *at, Py_ssize_t k, double *score) noexcept nogil:
    """Compute log mass + log predictive of the datum in another slot k than its own.

    An empty slot stands for the new cluster.
    """
    cdef double fit
    cdef int code = m.c.log_predictive(m.c.self, at.i, &k, 1, &fit, m.work)
    score[0] = fit + (m.slots.log_mass[k] if m.slots.counts[k] else m.log_new_mass[at.others])
    if m.classes.row_class != NULL and not class_allows(&m.classes, at.i, k, 0):
        score[0] = -INFINITY
    return code


cdef inline int move_into(sweep_state *m, const place *at, Py_ssize_t k, double score) noexcept nogil:
    """Move the datum into slot k."""
    cdef int code
    if k == at.old:
        return EXPFAM_OK
    code = m.c.remove(m.c.self, at.i, at.old)
    if code:
        return code
    code = m.c.add(m.c.self, at.i, k)
    if code:
        m.c.add(m.c.self, at.i, at.old)
        return code
    slot_leave(m.slots, at.old)
    slot_enter(m.slots, k)
    m.labels[at.i] = <int32_t> k
    if m.classes.row_class != NULL:
        class_move(&m.classes, at.i, at.old, k, 1)
    m.log_joint += score - at.score
    m.n_moved += 1
    return EXPFAM_OK


cdef inline int shift_one(sweep_state *m, Py_ssize_t i, Py_ssize_t source, Py_ssize_t target) noexcept nogil:
    """Tell the proposal that datum i moves from one slot to another."""
    cdef int code = m.p.hold_out(m.p.self, i, source)
    return code if code else m.p.moved(m.p.self, i, source, target)


cdef inline void list_inner(sweep_state *m, Py_ssize_t k) noexcept nogil:
    """Add slot k to the inner slots, unless it is listed already."""
    if not m.listed[k]:
        m.listed[k] = 1
        m.inner[m.n_inner] = k
        m.n_inner += 1


cdef class MetropolisSweep:
    cdef sweep_state m
    cdef CollapsedState state
    cdef readonly ProposalHandle handle
    cdef readonly object model          # the proposal was bound for its hyper-parameters
    cdef object stamp                   # stamp of the labels whose statistics the proposal has; -1 if it has none
    cdef object former                  # rows of the block that its statistics leave out
    cdef object frozen                  # labels from which the proposal of the frozen mode was made
    cdef ClassTable classes
    cdef object order                   # rows of a sweep, or None for all
    cdef object table, outside, listed, inner, options, scores

    cdef int begin(self, CollapsedState state) except -1
    cdef int aim(self) except -1
    cdef int note(self, Py_ssize_t moved_before) except -1
    cdef int grow(self) except -1
    cdef int set_block(self, rows, slots) except -1
    cdef int open(self, CollapsedState state, mode) except -1
    cdef int open_frozen(self, CollapsedState state) except -1
    cdef int move_in_order(self, move_rows_t move, int mode) except -1
    cdef object failure(self, int code, Py_ssize_t i)
