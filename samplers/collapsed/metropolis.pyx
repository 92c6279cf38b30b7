"""Collapsed sweeps by Metropolis-Hastings steps with the exact predictive.

A proposal suggests a cluster for each datum. For every proposal the chain is exact if both directions of a move use the
same law q. The modes ensure this in different ways. "crossfit": the data are cut into blocks, and for each block q is
made from the data outside it; draws for the block are then independent and run in parallel, and a single writer accepts
them one by one. "removed": q is made from all data except the datum that moves. "included": q is made from all data,
and the reverse move uses the q after the move. "frozen": q never changes. A datum costs one draw, and two predictives
of one cluster each if another cluster is proposed.

All modes except "frozen" work on set partitions: the options of q are the clusters that hold other data, and "a new
cluster".
"""

import threading
import warnings
from collections import deque
from contextlib import contextmanager

import numpy as np

from libc.math cimport INFINITY, exp, log
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memset

from expfam.contracts cimport EXPFAM_NEW, EXPFAM_NUMERICAL, EXPFAM_OK, components_v1, proposal_v1
from expfam.families.components cimport Components
from expfam.samplers.chain.accept cimport accept
from expfam.samplers.proposals.handle cimport ProposalHandle
from expfam.samplers.states.collapsed cimport (
    CollapsedState,
    slot_claim,
    slot_enter,
    slot_find_spare,
    slot_leave,
    slot_table,
)
from expfam.structures.ground.rng cimport ACCEPT, MOVE, philox_aim, philox_double, philox_init, philox_stream

from expfam.errors import CapabilityError, ExactnessWarning
from expfam.samplers.chain.kernel import Kernel
from expfam.samplers.proposals.by_name import named_proposal
from expfam.samplers.proposals.base import MODES as _MODES
from expfam.samplers.proposals.snapshot import Snapshot
from expfam.params import refuse_unused
from expfam.structures.ground.rng import generator
from expfam.structures.ground.stored import integers, restoring
from expfam.structures.ground.threads import resolve_n_threads, run

cdef enum:
    GROW = 1                    # result of a block: stopped because no slot is empty
    TASK_ROWS = 32              # least number of data in a task of parallel draws; a block has at most 16 tasks
    PARALLEL_WORK = 2000000     # entries times clusters of a block that several threads need: some tenths of a ms
    CALL_ROWS = 8192            # data of one nogil call of the single writer
    AHEAD = 3                   # number of data by which memory is prefetched ahead
    CHUNK_ROWS = 256            # data for which an asynchronous sampler draws between two reads of the statistics

_ONE_BY_ONE = ("removed", "included", "published", "asynchronous")
_FINITE_ONLY = ("included", "frozen", "published", "asynchronous")
_INEXACT = ("published", "asynchronous")


ctypedef struct sweep_state:           # data that all moves of one sweep share
    components_v1 *c
    proposal_v1 *p
    slot_table *slots
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
    double log_joint            # one running sum, so that its rounding does not depend on how rows are cut into calls
    Py_ssize_t n_proposed
    Py_ssize_t n_moved


ctypedef struct place:          # the present slot of a datum and its score
    Py_ssize_t i
    Py_ssize_t old              # its present slot
    Py_ssize_t others           # number of clusters of the other data
    bint alone                  # whether no other datum is in its slot
    double score                # log mass + log predictive given the others


cdef int look(sweep_state *m, Py_ssize_t i, place *at) noexcept nogil:
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


cdef int score_of(sweep_state *m, const place *at, Py_ssize_t k, double *score) noexcept nogil:
    """Compute log mass + log predictive of the datum in another slot k than its own.

    An empty slot stands for the new cluster.
    """
    cdef double fit
    cdef int code = m.c.log_predictive(m.c.self, at.i, &k, 1, &fit, m.work)
    score[0] = fit + (m.slots.log_mass[k] if m.slots.counts[k] else m.log_new_mass[at.others])
    return code


cdef int settle_in(sweep_state *m, const place *at, Py_ssize_t k, double score) noexcept nogil:
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
    m.log_joint += score - at.score
    m.n_moved += 1
    return EXPFAM_OK


# ---- crossfit: a new cluster is replaced by an exact draw among the inner ones --------------------------------------

cdef inline void list_inner(sweep_state *m, Py_ssize_t k) noexcept nogil:
    if not m.listed[k]:
        m.listed[k] = 1
        m.inner[m.n_inner] = k
        m.n_inner += 1


cdef int weigh_inner(sweep_state *m, const place *at, Py_ssize_t *n_options, double *total) noexcept nogil:
    """List and score the inner clusters without datum i, and the empty slot.

    Inner clusters have no data outside the block. `total` is the log of their joint weight. All of it is a function of
    the data outside the block and of z_{-i} only.
    """
    cdef slot_table *t = m.slots
    cdef Py_ssize_t j, k, n = 0, last
    cdef double best = -INFINITY, mass, sum_ = 0.0
    cdef int code
    for j in range(m.n_inner):
        k = m.inner[j]
        if t.counts[k] and not (k == at.old and at.alone):
            m.options[n] = k
            n += 1
    last = at.old if at.alone else t.spare      # the empty slot
    if last >= 0 and m.log_new_mass[at.others] > -INFINITY:
        m.options[n] = last
        n += 1
    code = m.c.log_predictive(m.c.self, at.i, m.options, n, m.scores, m.work)
    if code:
        return code
    for j in range(n):
        k = m.options[j]
        if k == at.old:
            m.scores[j] = at.score              # the components still hold the datum in this slot
            continue
        mass = m.log_new_mass[at.others] if t.counts[k] == 0 else t.log_mass[k]
        m.scores[j] += mass
    for j in range(n):
        best = max(best, m.scores[j])
    for j in range(n):
        sum_ += exp(m.scores[j] - best)
    n_options[0], total[0] = n, best + log(sum_)
    return EXPFAM_OK if best > -INFINITY and total[0] < INFINITY else EXPFAM_NUMERICAL


cdef Py_ssize_t pick_inner(sweep_state *m, Py_ssize_t n, double total, double uniform) noexcept nogil:
    cdef Py_ssize_t j
    for j in range(n - 1):
        uniform -= exp(m.scores[j] - total)
        if uniform < 0:
            return j
    return n - 1


cdef int judge(sweep_state *m, const place *at, Py_ssize_t k_new, double log_back, Py_ssize_t *target, double *ratio,
               double *score, Py_ssize_t *n_options, double *total) noexcept nogil:
    """Compute the log acceptance ratio of a move to slot k_new, or to EXPFAM_NEW.

    EXPFAM_NEW stands for all inner clusters together: q(k|i) = q(NEW|i) r(k), where r is the exact conditional law
    among the inner clusters. Therefore an inner cluster on either side counts with the joint weight of all of them.
    `target` is -1 if the cluster is yet to be drawn among the options.
    """
    cdef bint from_inner = m.outside[at.old] == 0, to_inner = k_new == EXPFAM_NEW
    cdef int code = EXPFAM_OK
    n_options[0] = 0
    if from_inner or to_inner:
        code = weigh_inner(m, at, n_options, total)
        if code:
            return code
    target[0] = -1 if to_inner else k_new
    if to_inner and from_inner:
        ratio[0] = 0.0
    elif to_inner:
        ratio[0] = total[0] - at.score + log_back
    else:
        code = score_of(m, at, k_new, score)
        ratio[0] = score[0] - (total[0] if from_inner else at.score) + log_back
    return code


cdef int decide(sweep_state *m, Py_ssize_t i, Py_ssize_t k_new, double log_back, philox_stream *rng) noexcept nogil:
    """Accept or refuse the draw for datum i of the block."""
    cdef place at
    cdef Py_ssize_t target = -1, n_options = 0, j
    cdef double ratio = 0.0, score = 0.0, total = 0.0
    cdef int code
    if k_new == m.labels[i] and m.outside[k_new]:
        return EXPFAM_OK
    code = look(m, i, &at)
    if code:
        return code
    m.n_proposed += 1
    code = judge(m, &at, k_new, log_back, &target, &ratio, &score, &n_options, &total)
    if code or not accept(ratio, rng):
        return code
    if target < 0:
        j = pick_inner(m, n_options, total, philox_double(rng))
        target, score = m.options[j], m.scores[j]
        if target != at.old:
            list_inner(m, target)
    return settle_in(m, &at, target, score)


cdef inline void look_ahead(sweep_state *m, const Py_ssize_t *rows, const Py_ssize_t *drawn, Py_ssize_t j,
                            Py_ssize_t stop) noexcept nogil:
    """Prefetch the memory of the next data: the writer waits for memory, not for arithmetic."""
    cdef Py_ssize_t old
    if j + AHEAD < stop:
        m.c.expect(m.c.self, rows[j + AHEAD], EXPFAM_NEW)
    if j + 1 < stop:
        old = m.labels[rows[j + 1]]
        if drawn[j + 1] == old:
            return
        m.c.expect(m.c.self, rows[j + 1], old)
        if drawn[j + 1] != EXPFAM_NEW:
            m.c.expect(m.c.self, rows[j + 1], drawn[j + 1])


cdef int decide_rows(sweep_state *m, const Py_ssize_t *rows, const Py_ssize_t *drawn, const double *log_back,
                     Py_ssize_t start, Py_ssize_t stop, Py_ssize_t *at) noexcept nogil:
    """Accept or refuse draws of consecutive data; set `at` to the first unfinished one."""
    cdef philox_stream rng
    cdef Py_ssize_t j
    cdef int code
    philox_init(&rng, m.seed, ACCEPT)
    for j in range(start, stop):
        at[0] = j
        if m.c.expect != NULL:
            look_ahead(m, rows, drawn, j, stop)
        if not slot_find_spare(m.slots):
            return GROW
        philox_aim(&rng, m.row_offset + <uint64_t> rows[j], m.step)
        code = decide(m, rows[j], drawn[j], log_back[j], &rng)
        if code:
            return code
    at[0] = stop
    return EXPFAM_OK


cdef int draw_rows(const sweep_state *m, const Py_ssize_t *rows, Py_ssize_t n, bint by_block, Py_ssize_t *drawn,
                   double *log_back, double *work, Py_ssize_t *at) noexcept nogil:
    """Draw clusters for n data; labels, statistics and proposal are only read.

    With `by_block`, a datum whose cluster has no data outside the block counts as being in a new cluster.
    """
    cdef philox_stream rng
    cdef Py_ssize_t j, old
    cdef int code
    philox_init(&rng, m.seed, MOVE)
    for j in range(n):
        at[0] = j
        old = m.labels[rows[j]]
        if by_block and m.outside[old] == 0:
            old = EXPFAM_NEW
        philox_aim(&rng, m.row_offset + <uint64_t> rows[j], m.step)
        code = m.p.draw(m.p.self, rows[j], old, &rng.bitgen, &drawn[j], &log_back[j], work)
        if code:
            return code
    return EXPFAM_OK


# ---- one by one ----------------------------------------------------------------------------------------------------

cdef int move_removed(sweep_state *m, Py_ssize_t i, philox_stream *move, philox_stream *rng) noexcept nogil:
    """Move datum i by a q that is made from all other data."""
    cdef place at
    cdef Py_ssize_t k_old, k_new, target
    cdef double log_back, score
    cdef int code = look(m, i, &at)
    if code:
        return code
    code = m.p.hold_out(m.p.self, i, at.old)
    if code:
        return code
    k_old = EXPFAM_NEW if at.alone else at.old
    code = m.p.draw(m.p.self, i, k_old, &move.bitgen, &k_new, &log_back, m.proposal_work)
    if code or k_new == k_old:
        m.p.restore(m.p.self, i, at.old)
        return code
    m.n_proposed += 1
    target = m.slots.spare if k_new == EXPFAM_NEW else k_new
    code = score_of(m, &at, target, &score)
    if code or not accept(score - at.score + log_back, rng):
        m.p.restore(m.p.self, i, at.old)
        return code
    code = settle_in(m, &at, target, score)
    if code:
        m.p.restore(m.p.self, i, at.old)
        return code
    return m.p.moved(m.p.self, i, at.old, target)


cdef int shift_one(sweep_state *m, Py_ssize_t i, Py_ssize_t source, Py_ssize_t target) noexcept nogil:
    """Tell the proposal that datum i moves from one slot to another."""
    cdef int code = m.p.hold_out(m.p.self, i, source)
    return code if code else m.p.moved(m.p.self, i, source, target)


cdef int ratio_included(sweep_state *m, const place *at, Py_ssize_t k_new, Py_ssize_t *target, double *score,
                        double *ratio) noexcept nogil:
    """Compute the log acceptance ratio with a q made from all data, datum i included.

    Afterwards the proposal holds the statistics after the move.
    """
    cdef double forward, back
    cdef Py_ssize_t k_back = EXPFAM_NEW if at.alone else at.old
    cdef int code = m.p.log_prob(m.p.self, at.i, at.old, &k_new, 1, &forward, m.proposal_work)
    if code:
        return code
    target[0] = m.slots.spare if k_new == EXPFAM_NEW else k_new
    code = score_of(m, at, target[0], score)
    if code:
        return code
    code = shift_one(m, at.i, at.old, target[0])
    if code:
        return code
    code = m.p.log_prob(m.p.self, at.i, target[0], &k_back, 1, &back, m.proposal_work)
    ratio[0] = score[0] - at.score + back - forward
    return code


cdef int move_included(sweep_state *m, Py_ssize_t i, philox_stream *move, philox_stream *rng) noexcept nogil:
    """Move datum i by a q made from all data; the reverse move uses the q after the move."""
    cdef place at
    cdef Py_ssize_t k_new, target
    cdef double log_back, score, ratio
    cdef int code = m.p.draw(m.p.self, i, m.labels[i], &move.bitgen, &k_new, &log_back, m.proposal_work)
    if code or k_new == m.labels[i]:
        return code
    code = look(m, i, &at)
    if code or (at.alone and k_new == EXPFAM_NEW):      # alone in its cluster: the partition would be the same
        return code
    m.n_proposed += 1
    code = ratio_included(m, &at, k_new, &target, &score, &ratio)
    if code:
        return code
    if accept(ratio, rng):
        return settle_in(m, &at, target, score)
    return shift_one(m, i, target, at.old)


cdef int move_published(sweep_state *m, Py_ssize_t i, Py_ssize_t k_new, double log_back,
                        philox_stream *rng) noexcept nogil:
    """Move datum i by a q made from all data; both directions use the q before the move."""
    # Ahmed et al. 2012, eq. 17, as printed. It violates detailed balance: on tiny data the law is wrong by 0.2 to 0.7.
    cdef place at
    cdef Py_ssize_t target
    cdef double score
    cdef int code
    if k_new == m.labels[i]:
        return EXPFAM_OK
    code = look(m, i, &at)
    if code or (at.alone and k_new == EXPFAM_NEW):
        return code
    m.n_proposed += 1
    target = m.slots.spare if k_new == EXPFAM_NEW else k_new
    code = score_of(m, &at, target, &score)
    if code or not accept(score - at.score + log_back, rng):
        return code
    code = settle_in(m, &at, target, score)
    return code if code else shift_one(m, i, at.old, target)


cdef int publish_rows(sweep_state *m, const Py_ssize_t *rows, const Py_ssize_t *drawn, const double *log_back,
                      Py_ssize_t n, Py_ssize_t *at) noexcept nogil:
    """Accept or refuse recent draws, from at[0] on."""
    cdef philox_stream rng
    cdef Py_ssize_t i, new
    cdef int code
    philox_init(&rng, m.seed, ACCEPT)
    while at[0] < n:
        i = rows[at[0]]
        if not slot_find_spare(m.slots):
            return GROW
        philox_aim(&rng, m.row_offset + <uint64_t> i, m.step)
        new = drawn[at[0]]
        # otherwise the cluster no longer exists, or another recent draw has opened the last cluster that is allowed
        if (new == EXPFAM_NEW and m.slots.n_live < m.slots.max_live) or (new >= 0 and m.slots.counts[new] > 0):
            code = move_published(m, i, new, log_back[at[0]], &rng)
            if code:
                return code
        at[0] += 1
    return EXPFAM_OK


cdef double vacancy(const sweep_state *m, const place *at) noexcept nogil:
    """Return the log of the number of empty components, which share the mass of a new cluster."""
    return log(m.slots.max_live - at.others)


cdef int ratio_frozen(sweep_state *m, const place *at, Py_ssize_t k_new, double log_back, double *score,
                      double *ratio) noexcept nogil:
    """Compute the log acceptance ratio among labelled components.

    An empty component has an equal share of the mass of a new cluster.
    """
    cdef int code = score_of(m, at, k_new, score)
    ratio[0] = score[0] - at.score + log_back
    if m.slots.counts[k_new] == 0:
        ratio[0] -= vacancy(m, at)
    if at.alone:
        ratio[0] += vacancy(m, at)
    return code


cdef int move_frozen(sweep_state *m, Py_ssize_t i, Py_ssize_t k_new, double log_back,
                     philox_stream *rng) noexcept nogil:
    """Move datum i by a q that never changes and includes empty components."""
    cdef place at
    cdef double score, ratio
    cdef int code
    if k_new == m.labels[i]:
        return EXPFAM_OK
    code = look(m, i, &at)
    if code:
        return code
    m.n_proposed += 1
    code = ratio_frozen(m, &at, k_new, log_back, &score, &ratio)
    if code or not accept(ratio, rng):
        return code
    if m.slots.counts[k_new] == 0:
        slot_claim(m.slots, k_new)
    return settle_in(m, &at, k_new, score)


cdef enum Mode:
    CROSSFIT = 0
    REMOVED = 1
    INCLUDED = 2
    FROZEN = 3
    PUBLISHED = 4


cdef int move_one(sweep_state *m, Py_ssize_t i, int mode, philox_stream *move, philox_stream *rng) noexcept nogil:
    cdef Py_ssize_t k_new
    cdef double log_back
    cdef int code
    if mode == REMOVED:
        return move_removed(m, i, move, rng)
    if mode == INCLUDED:
        return move_included(m, i, move, rng)
    code = m.p.draw(m.p.self, i, m.labels[i], &move.bitgen, &k_new, &log_back, m.proposal_work)
    if code:
        return code
    if mode == FROZEN:
        return move_frozen(m, i, k_new, log_back, rng)
    return move_published(m, i, k_new, log_back, rng)


cdef int move_rows(sweep_state *m, int mode, Py_ssize_t start, Py_ssize_t stop, Py_ssize_t *at) noexcept nogil:
    """Move consecutive data one by one; set `at` to the first unfinished one."""
    cdef philox_stream rng, move
    cdef Py_ssize_t i
    cdef int code
    philox_init(&move, m.seed, MOVE)
    philox_init(&rng, m.seed, ACCEPT)
    for i in range(start, stop):
        at[0] = i
        if mode != FROZEN and not slot_find_spare(m.slots):
            return GROW
        philox_aim(&move, m.row_offset + <uint64_t> i, m.step)
        philox_aim(&rng, m.row_offset + <uint64_t> i, m.step)
        code = move_one(m, i, mode, &move, &rng)
        if code:
            return code
    at[0] = stop
    return EXPFAM_OK


# ---- the sweep -----------------------------------------------------------------------------------------------------

cdef class MetropolisSweep:
    """A bound proposal and buffers of one chain, kept in the state's memory between sweeps."""

    cdef sweep_state m
    cdef CollapsedState state
    cdef readonly ProposalHandle handle
    cdef readonly object model          # the proposal was bound for its hyper-parameters
    cdef object stamp                   # stamp of the labels whose statistics the proposal has; -1 if it has none
    cdef object former                  # rows of the block that its statistics leave out
    cdef object frozen                  # labels from which the proposal of the frozen mode was made
    cdef object table, outside, listed, inner, options, scores

    def __init__(self, CollapsedState state, handle):
        weights, N = state.model.weights, state.data.n_rows
        most = N if weights.max_components is None else min(N, weights.max_components)
        cdef const double[::1] new_mass
        self.state, self.handle, self.model, self.stamp = state, handle, state.model, -1
        self.table = np.ascontiguousarray(weights.log_new_mass(N - 1, most), dtype=np.float64)
        new_mass = self.table
        self.m.log_new_mass = &new_mass[0]
        self.outside = np.zeros(0, dtype=np.int64)
        self.former = self.frozen = None

    def to_arrays(self):
        """Return the arrays of the proposal, and the labels from which a frozen one was made."""
        arrays = {"proposal": self.handle.owner.to_arrays()}
        if self.frozen is not None:
            arrays |= {"frozen": self.frozen.copy(), "stamp": np.array(self.stamp, dtype=np.int64)}
        return arrays

    def from_arrays(self, arrays):
        """Restore from the arrays of `to_arrays`; the next sweep refreshes the statistics.

        Raises
        ------
        ArchiveError
            The arrays do not belong to this proposal and these data.
        """
        K = self.state.model.weights.max_components
        with restoring("the stored proposal"):
            self.handle.owner.from_arrays(arrays.get("proposal", {}))    # archives keep no empty dicts
            if "frozen" in arrays:
                labels = integers(arrays, "frozen", (self.state.data.n_rows,), 0, K, dtype=np.int32)
                stamp = int(integers(arrays, "stamp", (), -1))
                self.freeze(labels)
                self.stamp = stamp

    def knows(self, state):
        """Return whether the proposal has the statistics of the present labels."""
        return self.state is state and self.stamp == state.stamp

    def freeze(self, labels):
        """Make the proposal from the present labels; it is not changed later."""
        state, K = self.state, self.state.model.weights.max_components
        n, S = state.data.statistics(labels, K)
        view = Snapshot(state.model.family, n, np.arange(K), lambda: S,
                        log_weight=np.log(n + state.model.weights.offset))
        self.frozen = labels
        self.handle.refresh(view)

    cdef int begin(self, CollapsedState state) except -1:
        """Prepare one sweep over a state."""
        self.state = state
        self.m.seed, self.m.step, self.m.row_offset = state.seed, state.n_steps, state.data.row_offset
        self.m.n_moved = self.m.n_proposed = 0
        self.m.n_inner = 0
        return 0

    cdef int aim(self) except -1:
        """Set the pointers into state and proposal, which may have grown; allocate scratch memory."""
        cdef CollapsedState state = self.state
        cdef Components components = state.components
        cdef int32_t[::1] labels = state.labels
        cdef int64_t[::1] outside
        cdef uint8_t[::1] listed
        cdef Py_ssize_t[::1] inner, options
        cdef double[::1] scores
        cdef Py_ssize_t known = len(self.outside), more = state.slots.capacity - known
        if more > 0:
            self.outside = np.concatenate([self.outside, np.zeros(more, dtype=np.int64)])
            self.listed = np.zeros(state.slots.capacity, dtype=np.uint8)
            self.inner = np.concatenate([self.inner if known else np.zeros(0, np.intp), np.zeros(more, dtype=np.intp)])
            self.listed[self.inner[: self.m.n_inner]] = 1
            self.options = np.zeros(state.slots.capacity, dtype=np.intp)
            self.scores = np.zeros(state.slots.capacity)
        outside, listed, inner, options, scores = self.outside, self.listed, self.inner, self.options, self.scores
        self.m.c, self.m.slots, self.m.labels = &components.c, &state.slots, &labels[0]
        self.m.p = &self.handle.p
        self.m.work, self.m.proposal_work = &components.work[0], &self.handle.work[0]
        self.m.outside, self.m.listed, self.m.inner = &outside[0], &listed[0], &inner[0]
        self.m.options, self.m.scores = &options[0], &scores[0]
        self.m.log_joint = state.log_joint
        return 0

    cdef int note(self, Py_ssize_t moved_before) except -1:
        """Update the numbers of the state after moves."""
        self.state.log_joint = self.m.log_joint
        self.state.n_moves += self.m.n_moved - moved_before
        self.state.stamp += 1
        return 0

    cdef int grow(self) except -1:
        self.state.ensure_spare()
        self.handle.reserve(self.state.slots.capacity)
        self.aim()
        return 0

    cdef int set_block(self, rows, slots) except -1:
        """Count the data outside a block, and list the slots without them."""
        cdef CollapsedState state = self.state
        cdef int64_t[::1] outside
        cdef int64_t[::1] counts = state.counts
        cdef const int32_t[::1] inside = slots
        cdef Py_ssize_t j, k
        outside = self.outside
        for k in range(outside.shape[0]):       # it may be longer than the slots, from an earlier state
            outside[k] = counts[k] if k < state.slots.capacity else 0
        for j in range(inside.shape[0]):
            outside[inside[j]] -= 1
        memset(self.m.listed, 0, state.slots.capacity)
        self.m.n_inner = 0
        for k in range(state.slots.n_slots):
            if outside[k] == 0 and counts[k]:
                list_inner(&self.m, k)
        return 0

    def snapshot(self, rows):
        """Make a Snapshot of the data outside `rows`."""
        state, weights = self.state, self.state.model.weights
        used = np.flatnonzero(np.asarray(self.outside) > 0)
        n = self.outside[used]
        offset = weights.offset
        n_other = state.data.n_rows - len(rows)
        new = weights.log_new_mass(n_other, len(used))[len(used)]
        return Snapshot(
            state.model.family, n, used, lambda: _statistics_without(state, rows, used),
            log_weight=np.log(n + offset), log_weight_new=new,
        )

    def empty_snapshot(self):
        """Make a Snapshot without data."""
        model = self.state.model
        nothing, width = np.zeros(0), model.family.n_statistics_
        return Snapshot(model.family, nothing, nothing.astype(np.intp), lambda: np.zeros((0, width)),
                        log_weight=nothing, log_weight_new=model.weights.log_new_mass(0, 0)[0])

    def draw(self, rows, n_threads, *, by_block):
        """Draw clusters for data in parallel.

        Returns
        -------
        drawn : (n,) intp ndarray
            Slots; -1 for a new cluster.
        log_back : (n,) float64 ndarray
            log q(old) - log q(new).
        """
        cdef Py_ssize_t[::1] row = rows
        drawn, log_back = np.empty(len(rows), dtype=np.intp), np.empty(len(rows))
        cdef Py_ssize_t[::1] drawn_view = drawn
        cdef double[::1] back_view = log_back
        cdef Py_ssize_t work_size = max(self.handle.p.work_size, 1)
        cdef bint block = by_block

        def draw_task(Py_ssize_t start, Py_ssize_t stop):
            cdef double[::1] work = np.empty(work_size)
            cdef Py_ssize_t failed = 0
            cdef int code
            with nogil:
                code = draw_rows(&self.m, &row[start], stop - start, block, &drawn_view[start], &back_view[start],
                                 &work[0], &failed)
            if code:
                raise self.handle.fail(code, row[start + failed], self.state.labels[row[start + failed]])

        size = max(<Py_ssize_t> TASK_ROWS, (len(rows) + 15) // 16)
        tasks = [(start, min(start + size, len(rows))) for start in range(0, len(rows), size)]
        run(draw_task, tasks, 1 if self.handle.needs_gil else n_threads, uses_blas=False)
        return drawn, log_back

    def decide(self, rows, drawn, log_back):
        """Accept or refuse the draws of a block one by one, in one thread."""
        cdef Py_ssize_t[::1] row = rows, k_new = drawn
        cdef double[::1] back = log_back
        cdef Py_ssize_t start = 0, stop, at = 0, before, n = len(rows), failed_at = -1
        cdef int code
        while start < n:
            stop = min(n, start + CALL_ROWS)
            before = self.m.n_moved
            with nogil:
                code = decide_rows(&self.m, &row[0], &k_new[0], &back[0], start, stop, &at)
            self.note(before)
            if code == GROW:
                self.grow()
            elif code == EXPFAM_NUMERICAL and failed_at != at:      # try again with recomputed statistics
                failed_at = at
                self.state.refresh()
                self.aim()
            elif code:
                raise (<Components> self.state.components).fail(code, row[at], self.state.labels[row[at]])
            start = at

    def move(self, int mode):
        """Run one sweep in the order of the rows, one datum after the other."""
        cdef Py_ssize_t start = 0, stop, at = 0, before, n = self.state.data.n_rows, failed_at = -1
        cdef int code
        while start < n:
            stop = min(n, start + CALL_ROWS)
            before = self.m.n_moved
            with nogil:
                code = move_rows(&self.m, mode, start, stop, &at)
            self.note(before)
            if code == GROW:
                self.grow()
            elif code == EXPFAM_NUMERICAL and failed_at != at:
                failed_at = at
                self.state.refresh()
                self.aim()
            elif code:
                raise self.failure(code, at)
            start = at

    def publish(self, rows, drawn, log_back):
        """Accept or refuse draws of the asynchronous mode by the present exact predictives."""
        cdef Py_ssize_t[::1] row = rows, k_new = drawn
        cdef double[::1] back = log_back
        cdef Py_ssize_t at = 0, n = len(rows), before = self.m.n_moved, failed_at = -1
        cdef int code = EXPFAM_OK
        while at < n:
            with nogil:
                code = publish_rows(&self.m, &row[0], &k_new[0], &back[0], n, &at)
            if code == GROW:
                self.note(before)
                before = self.m.n_moved
                self.grow()
            elif code == EXPFAM_NUMERICAL and failed_at != at:
                failed_at = at
                self.note(before)
                before = self.m.n_moved
                self.state.refresh()
                self.aim()
            elif code:
                raise self.failure(code, row[at])
        self.note(before)

    def options_of(self, snapshot):
        """Return the slots that the proposal may draw now, with -1 for a new cluster."""
        if snapshot is not None:
            return snapshot.slots.tolist()
        cdef Py_ssize_t k
        cdef sweep_state *m = &self.m
        return [-1] + [k for k in range(m.slots.n_slots) if m.outside[k] > 0]

    def add_to_law(self, dict law, Py_ssize_t i, Py_ssize_t k, Py_ssize_t k_old, double log_p, double log_old,
                   int mode):
        """Add to the law of datum i's slot the part of a proposal of slot k.

        The proposal has the probability exp(log_p).
        """
        cdef sweep_state *m = &self.m
        cdef place at
        cdef Py_ssize_t target = k, n_options = 0, j
        cdef double ratio = 0.0, score = 0.0, total = 0.0
        cdef int code = look(m, i, &at)
        if not log_p > -INFINITY or (k == k_old and k != EXPFAM_NEW):
            return
        if mode == CROSSFIT:
            code = judge(m, &at, k, log_old - log_p, &target, &ratio, &score, &n_options, &total)
        elif k == EXPFAM_NEW and at.alone:
            return
        elif mode == INCLUDED:
            code = ratio_included(m, &at, k, &target, &score, &ratio)
            shift_one(m, i, target, at.old)
        elif mode == FROZEN:
            code = ratio_frozen(m, &at, k, log_old - log_p, &score, &ratio)
        else:
            target = m.slots.spare if k == EXPFAM_NEW else k
            code = score_of(m, &at, target, &score)
            ratio = score - at.score + log_old - log_p
        if code:
            raise FloatingPointError(f"datum {i}: no finite acceptance ratio for slot {k}")
        cdef double p = exp(log_p) * min(1.0, exp(min(ratio, 0.0)))
        if target >= 0:
            law[target] = law.get(target, 0.0) + p
            return
        for j in range(n_options):
            law[m.options[j]] = law.get(m.options[j], 0.0) + p * exp(m.scores[j] - total)

    @property
    def is_frozen(self):
        """Whether the proposal was made once and is not changed any more."""
        return self.frozen is not None

    def lose(self):
        """Mark the statistics of the proposal as unknown, except those of a frozen one."""
        self.stamp = self.state.stamp if self.frozen is not None else -1

    cdef object failure(self, int code, Py_ssize_t i):
        if getattr(self.handle.owner, "pending", None) is not None:
            return self.handle.fail(code, i, self.state.labels[i])
        return (<Components> self.state.components).fail(code, i, self.state.labels[i])


def _statistics_without(state, rows, slots):
    """Compute the sums of phi in each slot without `rows`: (len(slots), F), dense or CSR."""
    S = state.components.export()[1][slots]
    if len(rows):
        inside = np.full(state.data.n_rows, -1, dtype=np.int32)
        inside[rows] = state.labels[rows]
        S = S - state.data.statistics(inside, state.components.capacity)[1][slots]
    return S


class CollapsedMetropolis(Kernel):
    """Metropolis-Hastings sweep over labels with parameters and weights integrated out.

    It is exact for every proposal, except in the modes "published" and "asynchronous".

    Parameters
    ----------
    proposal : str or Proposal
        Law from which the next cluster of a datum is drawn: the name of a registered proposal, or an object with its
        settings.
    mode : {"auto", "crossfit", "removed", "included", "frozen", "published", "asynchronous"}
        Which data the proposal may use while a datum moves. The last two follow the paper and are not exact. ``"auto"``
        is "crossfit" if N K >= 1e6, and "removed" otherwise; it depends only on the sizes.
    n_blocks : int or "auto"
        Number of blocks of the crossfit mode. ``"auto"`` is N / 96, at least 16 and at most 128; it is 16 for a
        proposal that is made again for each block because it cannot follow changes. For small clusters of long rows
        many blocks mix better.
    n_threads : int or None
        Number of threads for the draws of the crossfit and asynchronous modes. The labels depend on it only in the mode
        "asynchronous".

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import DirichletProcess, MixtureModel, Poisson
    >>> from expfam.samplers import CollapsedMetropolis, TableProposal, sample
    >>> X = np.repeat([[0, 9], [9, 0]], 20, axis=0)
    >>> kernel = CollapsedMetropolis(TableProposal(), mode="crossfit")
    >>> state = kernel.init(MixtureModel(Poisson(), DirichletProcess()), X, seed=0)
    >>> trace = sample(kernel, state, 20)
    >>> bool(trace.column("objective")[-1] > state.model.log_joint(state.data, np.zeros(40, dtype=int)))  # one cluster
    True

    Notes
    -----
    Ahmed, Ravi, Narayanamurthy and Smola 2012, "FastEx: hash clustering with exponential families", eqs. 14-18. The
    blocks of the crossfit mode and the exact draw of new clusters are not in the paper. Each update is reversible,
    because q is a function of the data outside the block and of the labels of the other data.
    """

    state_type = CollapsedState

    def __init__(self, proposal, *, mode="auto", n_blocks="auto", n_threads=None):
        self.proposal, self.mode, self.n_blocks, self.n_threads = proposal, mode, n_blocks, n_threads

    def choose_proposal(self, model, data):
        """Return the proposal for a model and its data; load it if it was given by name."""
        return named_proposal(self.proposal)

    def choose_mode(self, model, data):
        """Return the mode; "auto" is resolved by the sizes of model and data."""
        if self.mode != "auto":
            return self.mode
        modes = self.choose_proposal(model, data).modes
        K = model.weights.max_components or max(1, round(data.n_rows**0.5))
        if "removed" not in modes:
            return "crossfit"
        return "crossfit" if data.n_rows * K >= 1_000_000 and "crossfit" in modes else "removed"

    def check(self, model, data):
        """Refuse settings out of range, and modes that proposal or weights do not allow."""
        if self.mode != "auto" and self.mode not in _MODES:
            raise ValueError(f"mode must be 'auto' or one of {_MODES}; got {self.mode!r}")
        proposal = self.choose_proposal(model, data)
        if getattr(proposal, "kind", None) != "assignment":
            raise CapabilityError(f"{type(self).__name__} needs a proposal of kind 'assignment'; got {proposal!r}")
        mode = self.choose_mode(model, data)
        needed = "included" if mode in _INEXACT else mode
        if needed not in proposal.modes:
            raise CapabilityError(f"{proposal!r} does not work in mode {mode!r}, only in {sorted(proposal.modes)}")
        if mode in _FINITE_ONLY and model.weights.max_components is None:
            raise CapabilityError(
                f"mode {mode!r} needs weights with a fixed number of components, not {model.weights!r}:"
                " use 'crossfit' or 'removed'"
            )
        if self.n_blocks != "auto" and not (isinstance(self.n_blocks, (int, np.integer)) and self.n_blocks >= 1):
            raise ValueError(f"n_blocks must be a positive integer or 'auto'; got {self.n_blocks!r}")
        if self.mode != "auto" and mode != "crossfit":
            refuse_unused(self, ["n_blocks"], why=f"mode={mode!r}", remedy="take mode='crossfit'")
        resolve_n_threads(self.n_threads)
        if hasattr(proposal, "check"):
            proposal.check(model, data)

    def memory(self, model, data, n_clusters):
        """Return the bytes of the bound proposal."""
        proposal = self.choose_proposal(model, data)
        return proposal.memory(model, data, n_clusters) if hasattr(proposal, "memory") else 0

    def init_state(self, model, data, labels, *, seed):
        """Make a collapsed state of the labels."""
        return self.state_type(model, data, labels, seed=seed)

    def move(self, state):
        """Run one sweep over all data; an interrupt leaves a valid state."""
        mode = self.choose_mode(state.model, state.data)
        if mode in _INEXACT:
            warnings.warn(
                f"mode {mode!r} follows the paper to the letter: its stationary law is not the posterior",
                ExactnessWarning,
                stacklevel=3,
            )
        worker = self.worker(state, mode)
        try:
            if mode == "crossfit":
                self._crossfit(state, worker)
            else:
                _open(worker, state, mode)
                if mode == "asynchronous":
                    _asynchronous(worker, state, self.n_threads)
                else:
                    worker.move(_CODES[mode])
        except BaseException:
            worker.lose()           # the statistics of the proposal may lack some of the moves
            raise
        return _finish(worker, state, mode)

    def worker(self, state, mode):
        """Return the bound proposal of this chain, which is kept in the state's memory.

        It is bound again after a change of hyper-parameters.
        """
        kept = state.memory.get("metropolis")
        arrays = None
        if isinstance(kept, dict):
            arrays, kept = kept, None
        if kept is None or kept.model is not state.model:
            if kept is not None and kept.is_frozen:
                raise CapabilityError(
                    "mode 'frozen' cannot follow a change of hyper-parameters: its proposal was made for others"
                )
            proposal = self.choose_proposal(state.model, state.data)
            owner = proposal.bind(state.model, state.data, seed=state.seed)
            if kept is not None:        # settings from the warm-up remain, also with other hyper-parameters
                arrays = {"proposal": kept.handle.owner.to_arrays()}
            kept = MetropolisSweep(state, ProposalHandle(owner, repr(proposal)))
            if mode in _ONE_BY_ONE and not kept.handle.takes_single_moves:
                raise CapabilityError(f"{proposal!r} has no functions for single moves, as mode {mode!r} needs")
            if arrays is not None:
                kept.from_arrays(arrays)
            state.memory["metropolis"] = kept
        return kept

    def _crossfit(self, state, worker):
        # Each sweep has new blocks. If two data of one cluster were always in one block, they could hardly separate: q
        # for one of them would never count the other in their cluster. Moves away would be proposed often and refused.
        n_blocks = self.blocks(state, worker.handle.owner)
        order = generator(state.seed, "order", step=state.n_steps).permutation(state.data.n_rows)
        for place, rows in enumerate(np.array_split(order, n_blocks)):
            _one_block(worker, state, np.sort(rows), self.n_threads if pays(state, len(rows)) else 1, place == 0)

    def blocks(self, state, owner=None):
        """Return the number of blocks of a crossfit sweep."""
        N = state.data.n_rows
        if self.n_blocks != "auto":
            return min(int(self.n_blocks), N)
        return min(max(N // 96, 16), 128 if owner is None or hasattr(owner, "shift") else 16, N)


_CODES = {"removed": REMOVED, "included": INCLUDED, "frozen": FROZEN, "published": PUBLISHED}


def _finish(MetropolisSweep worker, CollapsedState state, mode):
    known = state.stamp
    if mode == "frozen":
        state.check_drift()         # a refresh only: slots must keep their numbers
    else:
        state.settle()
    worker.stamp = known if state.stamp == known else -1
    return worker.m.n_proposed, worker.m.n_moved, {"mode": mode}


cdef bint pays(CollapsedState state, Py_ssize_t n_rows):
    """Return whether draws for `n_rows` data are enough work for several threads.

    The labels do not depend on it.
    """
    data = state.data
    entries = data.X.nnz / data.n_rows if data.is_sparse else data.n_statistics
    return n_rows * entries * state.slots.n_live >= PARALLEL_WORK


def _one_block(MetropolisSweep worker, CollapsedState state, rows, n_threads, bint is_first):
    """Draw for the data of a block by the data outside it, and accept the draws one by one."""
    owner = worker.handle.owner
    knows = worker.knows(state) and worker.former is not None and (getattr(owner, "is_exact", False) or not is_first)
    state.ensure_spare()
    if is_first:
        worker.begin(state)
    if hasattr(owner, "n_threads"):
        owner.n_threads = n_threads
    worker.aim()
    inside = state.labels[rows]
    worker.set_block(rows, inside)
    view = worker.snapshot(rows)
    told = None if knows else getattr(owner, "takes_data", False)
    if told is False:
        worker.handle.refresh(view)
    else:
        if told:                    # cheaper than exporting the statistics of all clusters
            worker.handle.refresh(worker.empty_snapshot())
        added = np.arange(state.data.n_rows) if told else worker.former
        added_slots = state.labels[added].astype(np.intp)
        worker.handle.shift(view, (added, added_slots), (rows, inside.astype(np.intp)))
    worker.former = rows
    worker.aim()
    drawn, log_back = worker.draw(rows, n_threads, by_block=True)
    worker.decide(rows, drawn, log_back)
    worker.stamp = state.stamp


def _open(MetropolisSweep worker, CollapsedState state, mode):
    """Refresh the proposal with all data, unless it has their statistics already."""
    knows, owner = worker.knows(state), worker.handle.owner
    if mode == "frozen":
        _open_frozen(worker, state, knows)
        return
    state.ensure_spare()
    worker.begin(state)
    worker.aim()
    if not knows or worker.former is not None or not getattr(owner, "is_exact", False):
        nothing = np.zeros(0, dtype=np.intp)
        worker.set_block(nothing, nothing.astype(np.int32))
        worker.handle.refresh(worker.snapshot(nothing))
        worker.former = None
    worker.handle.reserve(state.slots.capacity)
    worker.aim()


def _open_frozen(MetropolisSweep worker, CollapsedState state, knows):
    if worker.is_frozen and not knows:
        raise CapabilityError(
            "mode 'frozen' cannot be combined with kernels that move labels between its sweeps: the names of the"
            " components that its proposal knows are lost; use 'crossfit' or 'removed'"
        )
    state.open_all()
    worker.begin(state)
    if not worker.is_frozen:
        worker.freeze(state.labels.copy())
    worker.aim()


# ---- asynchronous: samplers and one updater ------------------------------------------------------------------------

def _asynchronous(MetropolisSweep worker, CollapsedState state, n_threads):
    """Draw for chunks of data in several threads; one thread at a time moves the data.

    Each chunk is drawn from the statistics of that moment. In one point it differs from the paper: a lock separates the
    readers of a chunk from the updater, so that no thread reads statistics that are half written. The law of the draws
    is that of the published mode, but from statistics that lack the moves of chunks in other threads.
    """
    n_threads = 1 if worker.handle.needs_gil else resolve_n_threads(n_threads)
    chunks = iter([(s, min(s + CHUNK_ROWS, state.data.n_rows)) for s in range(0, state.data.n_rows, CHUNK_ROWS)])
    taking, updating, gate, waiting = threading.Lock(), threading.Lock(), _Gate(), deque()

    def update():
        with gate.writing():
            while waiting:
                worker.publish(*waiting.popleft())

    def work(_):
        while True:
            with taking:
                chunk = next(chunks, None)
            if chunk is None:
                break
            rows = np.arange(*chunk)
            with gate.reading():
                drawn = worker.draw(rows, 1, by_block=False)
            waiting.append((rows, *drawn))
            if updating.acquire(blocking=False):
                try:
                    update()
                finally:
                    updating.release()

    run(work, [(place,) for place in range(n_threads)], n_threads, uses_blas=False)
    update()


class _Gate:
    """Lock for any number of readers, or one writer."""

    def __init__(self):
        self._changed, self._n_readers = threading.Condition(), 0

    @contextmanager
    def reading(self):
        """Read while no thread writes."""
        with self._changed:
            self._n_readers += 1
        try:
            yield
        finally:
            with self._changed:
                self._n_readers -= 1
                self._changed.notify_all()

    @contextmanager
    def writing(self):
        """Write while no thread reads; later readers wait."""
        with self._changed:
            while self._n_readers:
                self._changed.wait()
            yield


# ---- the law of an update, for proofs ------------------------------------------------------------------------------

def update_law(kernel, CollapsedState state, Py_ssize_t i, *, rows=None, snapshot=None):
    """Compute the exact law of the slot of datum `i` after its update, by the code of the sweep.

    Parameters
    ----------
    kernel : CollapsedMetropolis
        Its mode must not be "asynchronous".
    state : CollapsedState
        It is not changed.
    i : int
    rows : (n,) intp ndarray, optional
        In crossfit mode the block of `i`.
    snapshot : Snapshot, optional
        Snapshot from which a frozen proposal was made.

    Returns
    -------
    dict of int to float
        Probability of each slot. An empty slot stands for a new cluster; in frozen mode it is a component.
    """
    mode = kernel.choose_mode(state.model, state.data)
    cdef MetropolisSweep worker = kernel.worker(state, mode)
    cdef place at
    cdef dict law = {}
    if mode == "crossfit":
        state.ensure_spare()
        worker.begin(state)
        worker.aim()
        worker.set_block(rows, state.labels[rows])
        worker.handle.refresh(worker.snapshot(rows))
    elif snapshot is not None:
        state.open_all()
        worker.begin(state)
        worker.handle.refresh(snapshot)
    else:
        _open(worker, state, mode)
    worker.aim()
    if look(&worker.m, i, &at):
        raise FloatingPointError(f"datum {i} has no finite score in its own cluster")
    k_old = at.old
    if (mode == "crossfit" and worker.m.outside[at.old] == 0) or (mode == "removed" and at.alone):
        k_old = EXPFAM_NEW
    if mode == "removed":
        worker.handle.hold_out(i, at.old)
    ks = worker.options_of(snapshot)
    log_q = dict(zip(ks, worker.handle.log_prob(i, k_old, ks)))
    for k, log_p in log_q.items():
        worker.add_to_law(law, i, k, k_old, log_p, log_q[k_old], _CODES.get(mode, CROSSFIT))
    if mode == "removed":
        worker.handle.restore(i, at.old)
    law[at.old] = law.get(at.old, 0.0) + 1.0 - sum(law.values())
    worker.stamp = -1
    return law
