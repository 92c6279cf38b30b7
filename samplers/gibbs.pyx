"""Exact Gibbs sweeps with parameters integrated out, one datum at a time.

A sweep scores a datum against all clusters in one call of the components, takes its own cluster's score without it,
draws, and touches statistics only if it moves: O(K nnz(x)) or O(K d) a datum, sequential by nature and float64
throughout. Each datum has its own random stream.
"""

from time import perf_counter

import numpy as np

from libc.math cimport INFINITY, log
from libc.stdint cimport int32_t, uint64_t

from expfam.contracts cimport EXPFAM_NUMERICAL, EXPFAM_OK, components_v1
from expfam.families.components cimport Components
from expfam.samplers.state cimport CollapsedState, slot_enter, slot_find_spare, slot_leave, slot_table
from expfam.structures._kernels cimport EXPFAM_BLOCK, expfam_add_row, expfam_exp_blocks, expfam_max, expfam_pick
from expfam.structures._rng cimport MOVE, philox_aim, philox_double, philox_init, philox_stream

from expfam.samplers.kernel import Kernel
from expfam.structures._rng import generator

cdef enum:
    GROW = 1                    # result of a block: stop, every slot is taken
    FIRST_ROWS = 16             # rows of the first nogil call of a sweep; then by the clock, which changes no label

cdef double LONGEST_CALL = 0.05     # seconds without the gil, so that Ctrl-C is heard


ctypedef struct sweep:          # what the rows of one sweep share
    components_v1 *c
    slot_table *slots
    int32_t *labels
    const Py_ssize_t *order     # NULL for the order of the rows
    const double *log_new_mass  # by number of clusters among the other data
    double *scores              # (n_slots,)
    double *sums                # (n_slots / 64,)
    double *work
    uint64_t seed
    uint64_t step
    uint64_t row_offset
    double log_joint            # one running sum: how the rows are cut into calls must not show in its rounding
    Py_ssize_t n_moved


cdef int weigh(sweep *s, Py_ssize_t i, double *old_score, double *best, double *total) noexcept nogil:
    """Weights of all slots for datum i given the others into `scores`: exp(score - best), their sum in `total`."""
    cdef slot_table *t = s.slots
    cdef Py_ssize_t old = s.labels[i], m = t.n_slots, spare = t.spare, others = t.n_live
    cdef double own, fresh
    cdef double *scores = s.scores
    cdef int code = s.c.log_predictive(s.c.self, i, NULL, m, scores, s.work)
    if code:
        return code
    code = s.c.log_predictive_self(s.c.self, i, old, &own, s.work)
    if code:
        return code
    fresh = scores[spare] if spare >= 0 else 0.0
    expfam_add_row(scores, t.log_mass, 1.0, m)      # empty slots fall to -inf
    if t.counts[old] == 1:                          # alone: its own slot, empty without it, is the new cluster
        old_score[0] = s.log_new_mass[others - 1] + own
    else:
        old_score[0] = log(t.counts[old] - 1 + t.offset) + own
        if spare >= 0:
            scores[spare] = s.log_new_mass[others] + fresh
    scores[old] = old_score[0]
    best[0] = expfam_max(scores, m)
    if not -INFINITY < best[0] < INFINITY:
        return EXPFAM_NUMERICAL
    total[0] = expfam_exp_blocks(scores, best[0], s.sums, m)
    if not 0.5 <= total[0] < INFINITY:
        return EXPFAM_NUMERICAL                     # a NaN among the scores
    return EXPFAM_OK


cdef int redraw(sweep *s, Py_ssize_t i, philox_stream *rng) noexcept nogil:
    """Draw the cluster of datum i from its exact conditional, and move it."""
    cdef Py_ssize_t old = s.labels[i], new
    cdef double old_score, new_score, best, total
    cdef int code = weigh(s, i, &old_score, &best, &total)
    if code:
        return code
    new = expfam_pick(s.scores, s.sums, total, philox_double(rng), s.slots.n_slots)
    if new == old:
        return EXPFAM_OK
    new_score = log(s.scores[new]) + best           # the weights have replaced the scores
    code = s.c.remove(s.c.self, i, old)
    if code:
        return code
    code = s.c.add(s.c.self, i, new)
    if code:
        s.c.add(s.c.self, i, old)
        return code
    slot_leave(s.slots, old)
    slot_enter(s.slots, new)
    s.labels[i] = <int32_t> new
    s.log_joint += new_score - old_score
    s.n_moved += 1
    return EXPFAM_OK


cdef int redraw_rows(sweep *s, Py_ssize_t start, Py_ssize_t stop, Py_ssize_t *at) noexcept nogil:
    """Redraw consecutive places of the sweep; `at` is the first place that was not finished."""
    cdef philox_stream rng
    cdef Py_ssize_t place, i
    cdef int code
    philox_init(&rng, s.seed, MOVE)
    for place in range(start, stop):
        at[0] = place
        if not slot_find_spare(s.slots):
            return GROW
        i = place if s.order == NULL else s.order[place]
        philox_aim(&rng, s.row_offset + <uint64_t> i, s.step)
        code = redraw(s, i, &rng)
        if code:
            return code
    at[0] = stop
    return EXPFAM_OK


class CollapsedGibbs(Kernel):
    """Exact Gibbs sweep over labels with parameters and weights integrated out.

    One thread, float64. Works with every family and every weights of this package: the clusters of a symmetric
    Dirichlet with K components, a Dirichlet process and a Pitman-Yor process differ in two numbers only.

    Parameters
    ----------
    order : {"sequential", "random"}
        Visit rows as they stand, or in a new random order at each sweep.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import DirichletProcess, MixtureModel, Poisson
    >>> from expfam.samplers import CollapsedGibbs, sample
    >>> X = np.repeat([[0, 9], [9, 0]], 20, axis=0)
    >>> kernel = CollapsedGibbs()
    >>> state = kernel.init(MixtureModel(Poisson(), DirichletProcess()), X, seed=0)
    >>> trace = sample(kernel, state, 20)
    >>> state.n_clusters
    2

    Notes
    -----
    Neal 2000, "Markov chain sampling methods for Dirichlet process mixture models", algorithm 3.
    """

    state_type = CollapsedState

    def __init__(self, *, order="sequential"):
        self.order = order

    def check(self, model, data):
        """Refuse an unknown order."""
        if self.order not in ("sequential", "random"):
            raise ValueError(f"order must be 'sequential' or 'random'; got {self.order!r}")

    def init_state(self, model, data, labels, *, seed):
        """Collapsed state of the labels."""
        return self.state_type(model, data, labels, seed=seed)

    def move(self, state):
        """One sweep over all data; an interrupt leaves a valid state between two rows."""
        return collapsed_sweep(state, self.order)


cdef class Sweep:
    """The buffers and pointers of one sweep over a collapsed state."""

    cdef sweep s
    cdef CollapsedState state
    cdef object order, table, scores, sums

    def __init__(self, CollapsedState state, order):
        cdef const double[::1] new_mass
        cdef Py_ssize_t[::1] places
        weights, N = state.model.weights, state.data.n_rows
        most = N if weights.max_components is None else min(N, weights.max_components)
        self.state = state
        self.table = np.ascontiguousarray(weights.log_new_mass(N - 1, most), dtype=np.float64)
        new_mass = self.table
        self.s.log_new_mass = &new_mass[0]
        self.s.order = NULL
        if order == "random":
            self.order = generator(state.seed, "order", step=state.n_steps).permutation(N).astype(np.intp)
            places = self.order
            self.s.order = &places[0]
        self.s.seed, self.s.step, self.s.row_offset = state.seed, state.n_steps, state.data.row_offset
        self.s.n_moved = 0
        self.scores = np.empty(0)

    cdef void aim(self):
        """Take the addresses that a grown state may have changed, with scratch for its slots."""
        cdef CollapsedState state = self.state
        cdef Components components = state.components
        cdef int32_t[::1] labels = state.labels
        cdef double[::1] scores, sums
        if self.scores.shape[0] < state.slots.capacity:
            self.scores = np.empty(state.slots.capacity)
            self.sums = np.empty(state.slots.capacity // EXPFAM_BLOCK + 1)
        scores, sums = self.scores, self.sums
        self.s.c, self.s.slots, self.s.labels = &components.c, &state.slots, &labels[0]
        self.s.log_joint = state.log_joint
        self.s.scores, self.s.sums, self.s.work = &scores[0], &sums[0], &components.work[0]


def collapsed_sweep(CollapsedState state, order):
    """One sweep of exact draws; returns (proposed, accepted, extra)."""
    cdef Sweep buffers = Sweep(state, order)
    cdef sweep *s = &buffers.s
    cdef Py_ssize_t N = state.data.n_rows, start = 0, at = 0, rows = FIRST_ROWS, stop, failed_at = -1, n_moved = 0
    cdef int code = EXPFAM_OK
    while start < N:
        state.ensure_spare()
        buffers.aim()
        stop = min(N, start + rows)
        clock = perf_counter()
        with nogil:
            code = redraw_rows(s, start, stop, &at)
        clock = perf_counter() - clock
        state.log_joint = s.log_joint
        state.n_moves += s.n_moved
        state.stamp += 1
        n_moved += s.n_moved
        s.n_moved = 0
        if code == EXPFAM_NUMERICAL and failed_at != at:    # once more from recomputed statistics
            failed_at = at
            state.refresh()
        elif code not in (EXPFAM_OK, GROW):
            i = at if s.order == NULL else s.order[at]
            raise (<Components> state.components).fail(code, i, s.labels[i])
        start = at
        if clock < LONGEST_CALL / 2:
            rows *= 2
        elif clock > 2 * LONGEST_CALL:
            rows = max(1, rows // 2)
    state.settle()
    return N, n_moved, {}


def conditional(CollapsedState state, Py_ssize_t i):
    """Exact conditional law of the cluster of datum `i`, by the code that the sweep runs.

    Parameters
    ----------
    state : CollapsedState
    i : int

    Returns
    -------
    (n_slots,) float64 ndarray
        Probability of each slot; an empty slot with a positive one stands for a new cluster.
    """
    cdef Sweep buffers = Sweep(state, "sequential")
    cdef double old_score = 0.0, best = 0.0, total = 0.0
    if not 0 <= i < state.data.n_rows:
        raise IndexError(f"datum {i} of {state.data.n_rows}")
    state.ensure_spare()
    buffers.aim()
    cdef int code = weigh(&buffers.s, i, &old_score, &best, &total)
    if code:
        raise (<Components> state.components).fail(code, i, state.labels[i])
    return buffers.scores[: state.n_slots] / total
