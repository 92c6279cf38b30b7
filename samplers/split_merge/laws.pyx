"""Single split and merge moves from given partitions, for tests of a kernel by frequencies."""

import numpy as np

from libc.stdint cimport int32_t

from expfam.samplers.split_merge._moves cimport AWAY, GROW, has_slots, run_moves
from expfam.samplers.split_merge.kernel cimport MoveRunner
from expfam.samplers.states.collapsed cimport CollapsedState, slot_enter, slot_leave
from expfam.structures.partitions.members cimport members_move


def moved_partitions(kernel, CollapsedState state, starts):
    """Make one move from each of many partitions.

    Parameters
    ----------
    kernel : CollapsedSplitMerge
    state : CollapsedState
        With the model and the data of the partitions; its labels are overwritten.
    starts : (R, N) int32 ndarray

    Returns
    -------
    slots : (R, N) int32 ndarray
        Slots after the move.
    gains : (R,) float64 ndarray
        Change of the log joint that each move reports, nats.
    """
    cdef MoveRunner runner = kernel.runner(state)
    cdef Py_ssize_t place, at = 0, n = len(starts)
    cdef int code
    out, gains = np.empty_like(starts), np.zeros(n)
    runner.open()
    runner.draw_plan(n)
    runner.begin(state.data.n_rows)
    runner.aim()
    for place in range(n):
        reset(runner, starts[place])
        code = GROW
        while code == GROW:
            if not has_slots(&runner.w):
                runner.grow()
            runner.w.log_joint = 0.0
            code = run_moves(&runner.w, place, place + 1, &at)
        if code == AWAY:
            runner.away(place)
        elif code:
            raise runner.failure(code)
        out[place], gains[place] = state.labels, runner.w.log_joint
    state.log_joint = state.compute_log_joint()
    state.stamp += 1
    runner.stamp = None
    return out, gains


cdef int reset(MoveRunner runner, const int32_t[::1] partition) except -1:
    """Bring the state to a partition by moves of single data."""
    cdef int32_t[::1] labels = runner.state.labels
    cdef dict slots = {int(partition[0]): int(labels[0])}
    cdef Py_ssize_t i
    for i in range(1, labels.shape[0]):
        shift(runner, i, labels[0])
    for i in range(1, labels.shape[0]):
        if int(partition[i]) not in slots:
            if not has_slots(&runner.w):
                runner.grow()
            slots[int(partition[i])] = runner.state.slots.spare
        shift(runner, i, slots[int(partition[i])])
    return 0


cdef int shift(MoveRunner runner, Py_ssize_t i, Py_ssize_t k) except -1:
    cdef CollapsedState state = runner.state
    cdef int32_t[::1] labels = state.labels
    if labels[i] != k:
        state.components.remove(i, labels[i])
        state.components.add(i, k)
        slot_leave(&state.slots, labels[i])
        slot_enter(&state.slots, k)
        members_move(&runner.lists.table, i, k)
        labels[i] = <int32_t> k
    return 0
