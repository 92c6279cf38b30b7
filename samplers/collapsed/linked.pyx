"""Exact Gibbs draws of rows that are linked: each group of linked rows moves as one.

A group is added up in a scratch slot, scored against all clusters by one call, and taken up by the cluster that is
drawn. It counts as its number of rows. The cost of a group is that of adding its rows and of scoring one slot: O(K F).
"""

import numpy as np

from libc.math cimport INFINITY, exp, lgamma, log
from libc.stdint cimport int32_t, uint64_t

from expfam.contracts cimport EXPFAM_NUMERICAL, EXPFAM_OK, components_v1
from expfam.families.components cimport Components
from expfam.samplers.states.classes cimport ClassTable, class_allows, class_move, class_table
from expfam.samplers.states.collapsed cimport CollapsedState, slot_enter, slot_find_spare, slot_leave, slot_table
from expfam.structures.ground.rng cimport MOVE, philox_aim, philox_double, philox_init, philox_stream

from expfam.samplers.chain.kernel import Kernel

cdef enum:
    GROW = 1                    # result of a block: no slot is left for a new cluster or for the group


ctypedef struct links:          # what all groups of one sweep share
    components_v1 *c
    slot_table *slots
    class_table classes
    int32_t *labels
    const Py_ssize_t *rows      # rows of all groups, one group after the other
    const Py_ssize_t *starts    # (G + 1,)
    const double *log_new_mass  # log mass of a new cluster, by the number of clusters of the other data
    double *evidence            # (capacity,) log evidence of each slot
    double *scores              # (capacity,)
    Py_ssize_t *others          # (capacity,) scratch: clusters of other data
    double *merged              # (capacity,) scratch: their log evidences with the group
    double *work
    uint64_t seed
    uint64_t step
    double log_joint
    Py_ssize_t scratch          # empty slot that holds the present group
    Py_ssize_t n_moved


cdef inline double rising(double offset, double n, double m) noexcept nogil:
    """Return the log mass of m data that join a cluster of n data one after the other."""
    return lgamma(n + m + offset) - lgamma(n + offset)


cdef int gather(links *s, Py_ssize_t g) noexcept nogil:
    """Add the rows of a group to the scratch slot; leave it empty after a failure."""
    cdef Py_ssize_t j
    cdef int code
    for j in range(s.starts[g], s.starts[g + 1]):
        code = s.c.add(s.c.self, s.rows[j], s.scratch)
        if code:
            s.c.clear(s.c.self, s.scratch)
            return code
    return EXPFAM_OK


cdef int score_group(links *s, Py_ssize_t i, Py_ssize_t old, Py_ssize_t m, double *own) noexcept nogil:
    """Score the group in the scratch slot under all clusters of the other data and a new one.

    The group has m rows. Row i is one of them, and they are in slot `old`. `own` receives the log evidence of `old`
    without the group.
    """
    cdef slot_table *t = s.slots
    cdef Py_ssize_t j, k, n_others = 0, fresh = old if t.counts[old] == m else t.spare
    cdef Py_ssize_t n_clusters = t.n_live - (t.counts[old] == m)
    cdef double alone
    cdef int code = s.c.log_marginal(s.c.self, &s.scratch, 1, &alone, s.work)
    if code:
        return code
    for k in range(t.n_slots):
        s.scores[k] = -INFINITY
        if t.counts[k] and k != old:
            s.others[n_others] = k
            n_others += 1
    code = s.c.log_merged(s.c.self, s.scratch, s.others, n_others, s.merged, s.work)
    if code:
        return code
    for j in range(n_others):
        k = s.others[j]
        s.scores[k] = rising(t.offset, t.counts[k], m) + s.merged[j] - s.evidence[k]
    own[0] = 0.0
    if t.counts[old] > m:
        code = s.c.log_remainder(s.c.self, old, s.scratch, own, s.work)
        if code:
            return code
        s.scores[old] = rising(t.offset, t.counts[old] - m, m) + s.evidence[old] - own[0]
    if fresh >= 0:
        s.scores[fresh] = s.log_new_mass[n_clusters] + rising(t.offset, 1, m - 1) + alone
    if s.classes.row_class != NULL:
        for k in range(t.n_slots):
            if not class_allows(&s.classes, i, k, m if k == old else 0):
                s.scores[k] = -INFINITY
    return EXPFAM_OK


cdef Py_ssize_t pick(links *s, double uniform, double *total) noexcept nogil:
    """Return the slot that a uniform number stands for; -1 if a score is not a number."""
    cdef Py_ssize_t k, last = -1, m = s.slots.n_slots
    cdef double best = -INFINITY, sum_ = 0.0, rest
    for k in range(m):
        if s.scores[k] > best:
            best = s.scores[k]
    for k in range(m):
        sum_ += exp(s.scores[k] - best)
    if not -INFINITY < best < INFINITY or not 0.5 <= sum_ < INFINITY:
        return -1
    rest = uniform * sum_
    for k in range(m):
        if s.scores[k] > -INFINITY:
            last = k
            rest -= exp(s.scores[k] - best)
            if rest < 0.0:
                break
    total[0] = best + log(sum_)
    return last


cdef int shift(links *s, Py_ssize_t g, Py_ssize_t old, Py_ssize_t new, double own) noexcept nogil:
    """Move the group in the scratch slot from one slot to another."""
    cdef Py_ssize_t j, i, m = s.starts[g + 1] - s.starts[g]
    cdef double score
    cdef int code
    if s.slots.counts[old] == m:        # sums of reals would leave rounding in an empty slot
        code = s.c.clear(s.c.self, old)
    else:
        code = s.c.subtract(s.c.self, old, s.scratch)
    if code:
        return code
    code = s.c.absorb(s.c.self, new, s.scratch)
    if code:
        s.c.absorb(s.c.self, old, s.scratch)
        return code
    code = s.c.log_marginal(s.c.self, &new, 1, &score, s.work)
    if code:
        return code
    s.evidence[old], s.evidence[new] = own, score
    if s.classes.row_class != NULL:
        class_move(&s.classes, s.rows[s.starts[g]], old, new, m)
    for j in range(s.starts[g], s.starts[g + 1]):
        i = s.rows[j]
        slot_leave(s.slots, old)
        slot_enter(s.slots, new)
        s.labels[i] = <int32_t> new
    return EXPFAM_OK


cdef int redraw_group(links *s, Py_ssize_t g, philox_stream *rng) noexcept nogil:
    """Draw the cluster of a group from its exact conditional law, and move the group."""
    cdef Py_ssize_t i = s.rows[s.starts[g]], old = s.labels[i], m = s.starts[g + 1] - s.starts[g], new
    cdef double own, total, change
    cdef int code = gather(s, g)
    if code:
        return code
    code = score_group(s, i, old, m, &own)
    new = -1 if code else pick(s, philox_double(rng), &total)
    if code or new < 0 or new == old:
        s.c.clear(s.c.self, s.scratch)
        return code if code or new >= 0 else EXPFAM_NUMERICAL
    change = s.scores[new] - s.scores[old]
    code = shift(s, g, old, new, own)
    if code:
        s.c.clear(s.c.self, s.scratch)
        return code
    s.log_joint += change
    s.n_moved += 1
    return EXPFAM_OK


cdef int redraw_groups(links *s, Py_ssize_t start, Py_ssize_t stop, Py_ssize_t *at) noexcept nogil:
    """Redraw consecutive groups; set `at` to the first unfinished one."""
    cdef philox_stream rng
    cdef Py_ssize_t g
    cdef int code
    philox_init(&rng, s.seed, MOVE)
    for g in range(start, stop):
        at[0] = g
        if not slot_find_spare(s.slots) or s.slots.n_slots == s.slots.capacity:
            return GROW
        s.scratch = s.slots.n_slots
        philox_aim(&rng, <uint64_t> s.rows[s.starts[g]], s.step)
        code = redraw_group(s, g, &rng)
        if code:
            return code
    at[0] = stop
    return EXPFAM_OK


class LinkedGibbs(Kernel):
    """Exact Gibbs draws of groups of linked rows, parameters and weights integrated out.

    Each group of `Known.groups` moves as one; other rows stay. Use it in a `Cycle` with a kernel that moves single
    rows. It uses one thread.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import Dataset, DirichletProcess, MixtureModel, Poisson
    >>> from expfam.model.known import Known
    >>> from expfam.samplers import CollapsedGibbs, Cycle, LinkedGibbs, sample
    >>> X = np.repeat([[0, 9], [9, 0]], 20, axis=0)
    >>> links = np.full(40, -1)
    >>> links[[0, 39]] = 0  # one row of each kind
    >>> data = Dataset(X, Poisson(), known=Known(links=links))
    >>> kernel = Cycle(CollapsedGibbs(), LinkedGibbs())
    >>> state = kernel.init(MixtureModel(data.family, DirichletProcess()), data, seed=0)
    >>> trace = sample(kernel, state, 20)
    >>> bool(state.labels[0] == state.labels[39])
    True

    Notes
    -----
    With n_k data in cluster k and B clusters of the other data, a group of m data with the sums S_g joins cluster k
    with mass G(n_k + m + offset) / G(n_k + offset) exp(A(S_k + S_g) - A(S_k)), and a new one with the mass of a new
    cluster times G(m + offset) / G(1 + offset) exp(A(S_g)). These are ratios of the joint density of a partition
    (Pitman 2006, "Combinatorial stochastic processes", Gibbs partitions).
    """

    state_type = CollapsedState
    takes_known = frozenset({"clusters", "classes", "links"})

    def init_state(self, model, data, labels, *, seed):
        """Make a collapsed state of the labels."""
        return self.state_type(model, data, labels, seed=seed)

    def move(self, state):
        """Draw the clusters of all groups, one after the other."""
        known = state.data.known
        if known is None or not known.groups:
            return 0, 0, {}
        return len(known.groups), _sweep(_Links(state)), {}


cdef class _Links:
    """Buffers and pointers of one sweep over the groups of a state."""

    cdef links s
    cdef CollapsedState state
    cdef ClassTable classes
    cdef readonly object rows, starts
    cdef object table, evidence, scores, others, merged

    def __init__(self, CollapsedState state):
        cdef const Py_ssize_t[::1] rows, starts
        cdef const double[::1] new_mass
        known, weights, N = state.data.known, state.model.weights, state.data.n_rows
        self.state, self.classes = state, ClassTable(known)
        self.rows = np.concatenate(known.groups).astype(np.intp)
        self.starts = np.concatenate([[0], np.cumsum([len(group) for group in known.groups])]).astype(np.intp)
        most = N if weights.max_components is None else min(N, weights.max_components)
        self.table = np.ascontiguousarray(weights.log_new_mass(N - 1, most), dtype=np.float64)
        rows, starts, new_mass = self.rows, self.starts, self.table
        self.s.rows, self.s.starts, self.s.log_new_mass = &rows[0], &starts[0], &new_mass[0]
        self.s.seed, self.s.step, self.s.n_moved = state.seed, state.n_steps, 0

    cdef int aim(self) except -1:
        """Set the pointers into the state, which may have grown, and score its clusters."""
        cdef CollapsedState state = self.state
        cdef Components components
        cdef double[::1] evidence, scores, merged
        cdef Py_ssize_t[::1] others
        cdef int32_t[::1] labels
        state.ensure_room(1)
        components = state.components
        self.classes.count(state.labels, state.slots.capacity)
        self.evidence = components.log_marginal(np.arange(state.slots.capacity))
        self.scores, self.merged = np.empty((2, state.slots.capacity))
        self.others = np.empty(state.slots.capacity, dtype=np.intp)
        evidence, scores, labels, merged, others = self.evidence, self.scores, state.labels, self.merged, self.others
        self.s.merged, self.s.others = &merged[0], &others[0]
        self.s.c, self.s.slots, self.s.classes = &components.c, &state.slots, self.classes.t
        self.s.labels, self.s.evidence, self.s.scores = &labels[0], &evidence[0], &scores[0]
        self.s.work, self.s.log_joint = &components.work[0], state.log_joint
        return 0


def _sweep(_Links buffers):
    """Redraw all groups; return how many moved."""
    cdef links *s = &buffers.s
    cdef CollapsedState state = buffers.state
    cdef Py_ssize_t at = 0, n_groups = len(buffers.starts) - 1, failed_at = -1, n_moved = 0
    cdef int code
    while at < n_groups:
        buffers.aim()
        with nogil:
            code = redraw_groups(s, at, n_groups, &at)
        state.log_joint = s.log_joint
        state.n_moves += s.n_moved
        state.stamp += 1
        n_moved += s.n_moved
        s.n_moved = 0
        if code == EXPFAM_NUMERICAL and failed_at != at:
            failed_at = at
            state.refresh()
        elif code not in (EXPFAM_OK, GROW):
            i = buffers.rows[buffers.starts[at]]
            raise (<Components> state.components).fail(code, i, state.labels[i])
    state.settle()
    return n_moved


def linked_conditional(CollapsedState state, Py_ssize_t g):
    """Compute the exact conditional law of the cluster of a link group.

    It is made by the code of the sweep.

    Parameters
    ----------
    state : CollapsedState
        Of data with links.
    g : int
        Group of `Known.groups`.

    Returns
    -------
    (n_slots,) float64 ndarray
        Probability of each slot; an empty slot with a positive probability stands for a new cluster.
    """
    cdef _Links buffers = _Links(state)
    cdef links *s = &buffers.s
    cdef double own
    buffers.aim()
    s.scratch = state.slots.n_slots
    cdef Py_ssize_t i = s.rows[s.starts[g]]
    cdef int code = gather(s, g)
    if not code:
        code = score_group(s, i, s.labels[i], s.starts[g + 1] - s.starts[g], &own)
        s.c.clear(s.c.self, s.scratch)
    if code:
        raise (<Components> state.components).fail(code, i, state.labels[i])
    scores = buffers.scores[: state.n_slots]
    weights = np.exp(scores - scores.max())
    return weights / weights.sum()
