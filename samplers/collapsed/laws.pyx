"""Law of one Metropolis update of a collapsed state, for tests of exactness.

The functions of the sweep compute it. No sampler uses this module.
"""

from libc.math cimport INFINITY, exp

from expfam.contracts cimport EXPFAM_NEW
from expfam.samplers.collapsed._sweep cimport MetropolisSweep, find_place, place, score_of, shift_one, sweep_state
from expfam.samplers.collapsed.metropolis cimport judge, ratio_frozen, ratio_included
from expfam.samplers.states.collapsed cimport CollapsedState


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
        worker.open(state, mode)
    worker.aim()
    if find_place(&worker.m, i, &at):
        raise FloatingPointError(f"datum {i} has no finite score in its own cluster")
    k_old = at.old
    if (mode == "crossfit" and worker.m.outside[at.old] == 0) or (mode == "removed" and at.alone):
        k_old = EXPFAM_NEW
    if mode == "removed":
        worker.handle.hold_out(i, at.old)
    ks = options_of(worker, snapshot)
    log_q = dict(zip(ks, worker.handle.log_prob(i, k_old, ks)))
    for k, log_p in log_q.items():
        add_to_law(worker, law, i, k, k_old, log_p, log_q[k_old], mode)
    if mode == "removed":
        worker.handle.restore(i, at.old)
    law[at.old] = law.get(at.old, 0.0) + 1.0 - sum(law.values())
    worker.stamp = -1
    return law


cdef list options_of(MetropolisSweep worker, snapshot):
    """Return the slots that the proposal may draw now, with -1 for a new cluster."""
    if snapshot is not None:
        return snapshot.slots.tolist()
    cdef Py_ssize_t k
    cdef sweep_state *m = &worker.m
    return [-1] + [k for k in range(m.slots.n_slots) if m.outside[k] > 0]


cdef int add_to_law(MetropolisSweep worker, dict law, Py_ssize_t i, Py_ssize_t k, Py_ssize_t k_old, double log_p,
                    double log_old, mode) except -1:
    """Add to the law of datum i's slot the part of a proposal of slot k.

    The proposal has the probability exp(log_p).
    """
    cdef sweep_state *m = &worker.m
    cdef place at
    cdef Py_ssize_t target = k, n_options = 0, j
    cdef double ratio = 0.0, score = 0.0, total = 0.0
    cdef int code = find_place(m, i, &at)
    if not log_p > -INFINITY or (k == k_old and k != EXPFAM_NEW):
        return 0
    if mode == "crossfit":
        code = judge(m, &at, k, log_old - log_p, &target, &ratio, &score, &n_options, &total)
    elif k == EXPFAM_NEW and at.alone:
        return 0
    elif mode == "included":
        code = ratio_included(m, &at, k, &target, &score, &ratio)
        shift_one(m, i, target, at.old)
    elif mode == "frozen":
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
        return 0
    for j in range(n_options):
        law[m.options[j]] = law.get(m.options[j], 0.0) + p * exp(m.scores[j] - total)
    return 0
