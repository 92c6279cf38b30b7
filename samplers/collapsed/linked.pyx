"""Exact Gibbs draws of rows that are linked: each group of linked rows moves as one.

The rows of a group are added up in a scratch slot. One call of the components scores them, all together, under all
clusters, and the cluster that is drawn takes them up. A group counts as its number of rows. The cost of a group is that
of adding its rows and of scoring one slot: O(K F).
"""

import numpy as np

from libc.math cimport INFINITY, log
from libc.stdint cimport int32_t, uint64_t
from libc.string cimport memset

from expfam.contracts cimport EXPFAM_NUMERICAL, EXPFAM_OK, components_v1
from expfam.families.components cimport Components, components_set_members
from expfam.samplers.states.classes cimport ClassTable, class_allows, class_move, class_table
from expfam.samplers.states.collapsed cimport CollapsedState, slot_enter, slot_find_spare, slot_leave, slot_table
from expfam.structures.ground.rng cimport MOVE, philox_aim, philox_double, philox_init, philox_stream
from expfam.structures.simd.blocks cimport EXPFAM_BLOCK
from expfam.structures.simd.elementary cimport expfam_log_rising1
from expfam.structures.simd.logs cimport expfam_log_rising
from expfam.structures.simd.softmax cimport expfam_exp_blocks, expfam_max, expfam_pick
from expfam.structures.simd.vectors cimport expfam_add_row

from expfam.samplers.chain.kernel import OPPOSITE, Kernel

cdef enum:
    GROW = 1                    # result of a block: no slot is left for a new cluster or for the group
    N_SIZES = 16                # sizes of groups whose masses are kept at a time
    CALL_GROUPS = 4096          # groups of one call without the gil; Ctrl-C works only between calls


ctypedef struct links:          # what all groups of one sweep share
    components_v1 *c
    slot_table *slots
    class_table classes
    int32_t *labels
    const Py_ssize_t *rows      # rows of all groups, one group after the other
    const Py_ssize_t *starts    # (G + 1,)
    Py_ssize_t n_groups
    bint is_backward
    const double *log_new_mass  # log mass of a new cluster, by the number of clusters of the other data
    double *evidence            # (capacity,) log evidence of each slot
    double *scores              # (capacity,)
    double *sums                # of blocks of scores
    double *masses              # (N_SIZES, capacity) log mass of each slot for groups of a size; -inf if it is empty
    Py_ssize_t mass_size[N_SIZES]   # the size of each row of masses; 0 for none
    Py_ssize_t *others          # (capacity,) all slots
    double *work
    uint64_t seed
    uint64_t step
    double log_joint
    Py_ssize_t scratch          # empty slot that holds the present group
    Py_ssize_t n_moved


cdef inline double rising(double offset, double n, double m) noexcept nogil:
    """Return the log mass of m data that join a cluster of n data one after the other."""
    return expfam_log_rising1(n + offset, m, 16 if n + offset < 16 else 0)


cdef const double *masses_of(links *s, Py_ssize_t m) noexcept nogil:
    """Return the log masses of all slots for a group of m rows, kept or computed."""
    cdef slot_table *t = s.slots
    cdef double *row = s.masses + (m % N_SIZES) * t.capacity
    cdef Py_ssize_t k
    if s.mass_size[m % N_SIZES] == m:
        return row
    s.mass_size[m % N_SIZES] = m
    for k in range(t.capacity):         # slots that are not in use yet are empty: one may become the spare slot
        row[k] = t.counts[k] + t.offset if t.counts[k] else 1.0
    expfam_log_rising(row, m, True, row, t.capacity)
    for k in range(t.capacity):
        if t.counts[k] == 0:
            row[k] = -INFINITY
    return row


cdef void renew_masses(links *s, Py_ssize_t k) noexcept nogil:
    """Compute the kept masses of slot k after its count has changed."""
    cdef Py_ssize_t place, n = s.slots.counts[k]
    for place in range(N_SIZES):
        if s.mass_size[place]:
            s.masses[place * s.slots.capacity + k] = (
                rising(s.slots.offset, n, s.mass_size[place]) if n else -INFINITY
            )


cdef int score_slots(links *s) noexcept nogil:
    """Write the joint predictive of the group in the scratch slot under each slot."""
    cdef Py_ssize_t k
    cdef int code
    if s.c.log_joint_predictive != NULL:
        return s.c.log_joint_predictive(s.c.self, s.scratch, NULL, s.slots.n_slots, s.scores, s.work)
    for k in range(s.slots.n_slots):
        s.others[k] = k
    code = s.c.log_merged(s.c.self, s.scratch, s.others, s.slots.n_slots, s.scores, s.work)
    expfam_add_row(s.scores, s.evidence, -1.0, s.slots.n_slots)
    return code


cdef int score_group(links *s, Py_ssize_t i, Py_ssize_t old, Py_ssize_t m, double *own) noexcept nogil:
    """Score the group in the scratch slot under all clusters of the other data and a new one.

    The group has m rows. Row i is one of them, and they are in slot `old`. `own` receives the log evidence of `old`
    without the group.
    """
    cdef slot_table *t = s.slots
    cdef Py_ssize_t k, fresh = old if t.counts[old] == m else t.spare
    cdef double alone
    cdef int code = score_slots(s)
    if code:
        return code
    expfam_add_row(s.scores, masses_of(s, m), 1.0, t.n_slots)      # empty slots get -inf
    own[0] = 0.0
    if t.counts[old] > m:
        code = s.c.log_remainder(s.c.self, old, s.scratch, own, s.work)
        if code:
            return code
        s.scores[old] = rising(t.offset, t.counts[old] - m, m) + s.evidence[old] - own[0]
    if fresh >= 0:
        code = s.c.log_marginal(s.c.self, &s.scratch, 1, &alone, s.work)
        if code:
            return code
        s.scores[fresh] = s.log_new_mass[t.n_live - (fresh == old)] + rising(t.offset, 1, m - 1) + alone
    if s.classes.row_class != NULL:
        for k in range(t.n_slots):
            if not class_allows(&s.classes, i, k, m if k == old else 0):
                s.scores[k] = -INFINITY
    return EXPFAM_OK


cdef int weigh(links *s, double *best, double *total) noexcept nogil:
    """Replace the scores by weights exp(score - best), and compute their sum."""
    best[0] = expfam_max(s.scores, s.slots.n_slots)
    if not -INFINITY < best[0] < INFINITY:
        return EXPFAM_NUMERICAL
    total[0] = expfam_exp_blocks(s.scores, best[0], s.sums, s.slots.n_slots)
    return EXPFAM_OK if 0.5 <= total[0] < INFINITY else EXPFAM_NUMERICAL      # a NaN among the scores


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
    renew_masses(s, old)
    renew_masses(s, new)
    return EXPFAM_OK


cdef int redraw_group(links *s, Py_ssize_t g, philox_stream *rng) noexcept nogil:
    """Draw the cluster of a group from its exact conditional law, and move the group.

    Afterwards the scratch slot is empty, or holds the group.
    """
    cdef Py_ssize_t i = s.rows[s.starts[g]], old = s.labels[i], m = s.starts[g + 1] - s.starts[g], new
    cdef double own, old_score, best, total, change
    cdef int code = components_set_members(s.c, s.rows + s.starts[g], m, s.scratch)
    if code:
        return code
    code = score_group(s, i, old, m, &own)
    if code:
        return code
    old_score = s.scores[old]
    code = weigh(s, &best, &total)
    if code:
        return code
    new = expfam_pick(s.scores, s.sums, total, philox_double(rng), s.slots.n_slots)
    if new == old:
        return EXPFAM_OK
    change = log(s.scores[new]) + best - old_score      # `scores` now holds the weights
    code = shift(s, g, old, new, own)
    if code:
        return code
    s.log_joint += change
    s.n_moved += 1
    return EXPFAM_OK


cdef int redraw_in_scratch(links *s, Py_ssize_t start, Py_ssize_t stop, Py_ssize_t *at) noexcept nogil:
    """Redraw the groups at consecutive places as long as the scratch slot can stay the same."""
    cdef philox_stream rng
    cdef Py_ssize_t place, g
    cdef int code
    philox_init(&rng, s.seed, MOVE)
    for place in range(start, stop):
        at[0] = place
        if not slot_find_spare(s.slots) or s.slots.n_slots == s.slots.capacity:
            return GROW
        if s.scratch != s.slots.n_slots:
            return EXPFAM_OK
        g = s.n_groups - 1 - place if s.is_backward else place
        philox_aim(&rng, <uint64_t> s.rows[s.starts[g]], s.step)
        code = redraw_group(s, g, &rng)
        if code:
            return code
    at[0] = stop
    return EXPFAM_OK


cdef int redraw_groups(links *s, Py_ssize_t start, Py_ssize_t stop, Py_ssize_t *at) noexcept nogil:
    """Redraw groups at consecutive places of the sweep; set `at` to the first one not done."""
    cdef int code = EXPFAM_OK
    at[0] = start
    while at[0] < stop and code == EXPFAM_OK:
        if not slot_find_spare(s.slots) or s.slots.n_slots == s.slots.capacity:
            return GROW
        s.scratch = s.slots.n_slots
        code = redraw_in_scratch(s, at[0], stop, at)
        s.c.clear(s.c.self, s.scratch)
    return code


class LinkedGibbs(Kernel):
    """Exact Gibbs draws of groups of linked rows, parameters and weights integrated out.

    Each group of `Known.groups` moves as one; other rows stay. Use it in a `Cycle` with a kernel that moves single
    rows. It uses one thread.

    Parameters
    ----------
    order : {"sequential", "backward"}
        "sequential" visits the groups by the smallest of their link numbers, "backward" in the opposite order.

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
    _constraints = {"order": ("sequential", "backward")}

    def __init__(self, *, order="sequential"):
        self.order = order

    def init_state(self, model, data, labels, *, seed):
        """Make a collapsed state of the labels."""
        return self.state_type(model, data, labels, seed=seed)

    def move(self, state):
        """Draw the clusters of all groups, one after the other."""
        known = state.data.known
        if known is None or not known.groups:
            return 0, 0, {}
        return len(known.groups), _sweep(_Links(state, self.order)), {}

    def reversed(self):
        """Return the sweep in the opposite order."""
        return type(self)(order=OPPOSITE[self.order])


cdef class _Links:
    """Buffers and pointers of one sweep over the groups of a state."""

    cdef links s
    cdef CollapsedState state
    cdef ClassTable classes
    cdef readonly object rows, starts
    cdef object table, evidence, scores, sums, masses, others

    def __init__(self, CollapsedState state, order="sequential"):
        cdef const Py_ssize_t[::1] rows, starts
        cdef const double[::1] new_mass
        known, weights, N = state.data.known, state.model.weights, state.data.n_rows
        self.state, self.classes = state, ClassTable(known)
        self.rows, self.starts = known.grouped_rows, known.group_starts
        most = N if weights.max_components is None else min(N, weights.max_components)
        self.table = np.ascontiguousarray(weights.log_new_mass(N - 1, most), dtype=np.float64)
        rows, starts, new_mass = self.rows, self.starts, self.table
        self.s.rows, self.s.starts, self.s.log_new_mass = &rows[0], &starts[0], &new_mass[0]
        self.s.n_groups, self.s.is_backward = len(starts) - 1, order == "backward"
        self.s.seed, self.s.step, self.s.n_moved = state.seed, state.n_steps, 0

    cdef int aim(self) except -1:
        """Set the pointers into the state, which may have grown, and score its clusters."""
        cdef CollapsedState state = self.state
        cdef Components components
        cdef double[::1] evidence, scores, sums
        cdef double[:, ::1] masses
        cdef Py_ssize_t[::1] others
        cdef int32_t[::1] labels
        state.ensure_room(1)
        components, capacity = state.components, state.slots.capacity
        self.classes.count(state.labels, capacity)
        if self.scores is None or len(self.scores) < capacity:
            self.scores, self.sums = np.empty(capacity), np.empty(capacity // EXPFAM_BLOCK + 1)
            self.masses, self.others = np.empty((N_SIZES, capacity)), np.empty(capacity, dtype=np.intp)
        self.evidence = components.log_marginal(np.arange(capacity))
        evidence, scores, sums, labels = self.evidence, self.scores, self.sums, state.labels
        masses, others = self.masses, self.others
        self.s.sums, self.s.masses, self.s.others = &sums[0], &masses[0, 0], &others[0]
        memset(self.s.mass_size, 0, sizeof(self.s.mass_size))
        self.s.c, self.s.slots, self.s.classes = &components.c, &state.slots, self.classes.t
        self.s.labels, self.s.evidence, self.s.scores = &labels[0], &evidence[0], &scores[0]
        self.s.work, self.s.log_joint = &components.work[0], state.log_joint
        return 0


def _sweep(_Links buffers):
    """Redraw all groups; return how many moved."""
    cdef links *s = &buffers.s
    cdef CollapsedState state = buffers.state
    cdef Py_ssize_t at = 0, failed_at = -1, n_moved = 0, stop
    cdef int code
    while at < s.n_groups:
        buffers.aim()
        stop = min(s.n_groups, at + CALL_GROUPS)
        with nogil:
            code = redraw_groups(s, at, stop, &at)
        state.log_joint = s.log_joint
        state.n_moves += s.n_moved
        state.stamp += 1
        n_moved += s.n_moved
        s.n_moved = 0
        if code == EXPFAM_NUMERICAL and failed_at != at:
            failed_at = at
            state.refresh()
        elif code not in (EXPFAM_OK, GROW):
            i = buffers.rows[buffers.starts[s.n_groups - 1 - at if s.is_backward else at]]
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
    cdef double own, best, total
    buffers.aim()
    s.scratch = state.slots.n_slots
    cdef Py_ssize_t i = s.rows[s.starts[g]], m = s.starts[g + 1] - s.starts[g]
    cdef int code = components_set_members(s.c, s.rows + s.starts[g], m, s.scratch)
    if not code:
        code = score_group(s, i, s.labels[i], m, &own)
        s.c.clear(s.c.self, s.scratch)
    if not code:
        code = weigh(s, &best, &total)
    if code:
        raise (<Components> state.components).fail(code, i, state.labels[i])
    return buffers.scores[: state.n_slots] / total
