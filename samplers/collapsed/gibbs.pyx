"""Exact Gibbs sweeps with parameters integrated out, one datum at a time.

A sweep scores a datum against all clusters in one call of the components. It corrects the score of the datum's own
cluster, from which the datum is left out, draws, and changes statistics only if the datum moves. The cost for a datum
is O(K nnz(x)) or O(K d). The sweep is sequential, in float64. Each datum has its own random stream. A sweep of another
room derives from `Sweep` and sets `prior_masses`, where the weights of the clusters are not those of a mixture.
"""

from time import perf_counter

import numpy as np

from libc.math cimport INFINITY, log
from libc.stdint cimport int32_t, uint64_t

from expfam.contracts cimport EXPFAM_NUMERICAL, EXPFAM_OK
from expfam.families.components cimport Components
from expfam.samplers.collapsed._ahead cimport (
    RowsAhead, ahead_change, ahead_correct, ahead_is_settled, ahead_is_used_up, ahead_left_out, ahead_open, ahead_own,
    ahead_stays, scores_ahead,
)
from expfam.samplers.states.classes cimport ClassTable, class_allows, class_move
from expfam.samplers.states.collapsed cimport CollapsedState, slot_enter, slot_find_spare, slot_leave, slot_table
from expfam.structures.simd.blocks cimport EXPFAM_BLOCK
from expfam.structures.simd.softmax cimport expfam_exp_blocks, expfam_max, expfam_pick
from expfam.structures.simd.vectors cimport expfam_add_row
from expfam.structures.ground.rng cimport MOVE, philox_aim, philox_double, philox_init, philox_stream

from expfam.samplers.chain.kernel import OPPOSITE, Kernel
from expfam.structures.ground.rng import generator
from expfam.structures.ground.threads import single_blas

cdef enum:
    GROW = 1                    # result of a block: stopped because no slot is empty
    WINDOW = 256                # rows of a call that tell how many rows move
    SHORT_WINDOW = 64           # the same where scores may be filtered, which gains more
    FIRST_ROWS = 16             # rows of the first nogil call of a sweep; the clock sizes later calls, not the labels

cdef double LONGEST_CALL = 0.05     # seconds without the gil; Ctrl-C works only between calls
cdef double ROUNDING = 1e-12        # relative error of a sum of weights, more than it can be


cdef void add_masses(sweep *s, Py_ssize_t old, double own) noexcept nogil:
    """Add log masses of all clusters and of a new one to the scores, without the datum.

    The datum is in slot `old`.
    """
    cdef slot_table *t = s.slots
    cdef Py_ssize_t spare = t.spare
    cdef double fresh = s.scores[spare] if spare >= 0 else 0.0
    expfam_add_row(s.scores, t.log_mass, 1.0, t.n_slots)    # empty slots get -inf
    if t.counts[old] == 1:                          # without the datum its slot is empty: it is the new cluster
        s.scores[old] = s.log_new_mass[t.n_live - 1] + own
    else:
        s.scores[old] = log(t.counts[old] - 1 + t.offset) + own
        if spare >= 0:
            s.scores[spare] = s.log_new_mass[t.n_live] + fresh


cdef bint begin_row(sweep *s, Py_ssize_t i) noexcept nogil:
    """Have a slot for a new cluster; return False if none is left."""
    return slot_find_spare(s.slots)


cdef void change_slot(sweep *s, Py_ssize_t old, Py_ssize_t new, philox_stream *rng) noexcept nogil:
    """Count a datum in slot `new` in place of `old`."""
    slot_leave(s.slots, old)
    slot_enter(s.slots, new)


cdef void mask_classes(sweep *s, Py_ssize_t i) noexcept nogil:
    """Set the scores of the clusters that the class of datum i forbids to -inf."""
    cdef Py_ssize_t k, old = s.labels[i]
    if s.classes.row_class[i] < 0:
        return
    for k in range(s.slots.n_slots):
        if not class_allows(&s.classes, i, k, k == old):
            s.scores[k] = -INFINITY


cdef int weigh(sweep *s, Py_ssize_t i, bint is_whole, double *old_score, double *best, double *total) noexcept nogil:
    """Compute the weights of all slots for datum i given the other data.

    They are written to `scores` as exp(score - best), and their sum to `total`. Unless `is_whole` is true, those that
    are left out of a block are 0.
    """
    cdef Py_ssize_t old = s.labels[i], m = s.slots.n_slots
    cdef double own
    cdef int code
    if is_whole or s.ahead.rows == NULL:
        code = s.c.log_predictive(s.c.self, i, NULL, m, s.scores, s.work)
    else:
        code = ahead_correct(s.ahead, s.c, s.slots, i, s.row, s.scores, s.work)
    if code:
        return code
    code = ahead_own(s.ahead, s.c, i, s.row, old, &own, s.work)
    if code:
        return code
    s.masses.add(s, old, own)
    if s.classes.row_class != NULL:
        mask_classes(s, i)
    old_score[0] = s.scores[old]
    best[0] = expfam_max(s.scores, m)
    if not -INFINITY < best[0] < INFINITY:
        return EXPFAM_NUMERICAL
    total[0] = expfam_exp_blocks(s.scores, best[0], s.sums, m)
    if not 0.5 <= total[0] < INFINITY:
        return EXPFAM_NUMERICAL                     # a NaN among the scores
    return EXPFAM_OK


cdef bint is_decided(const sweep *s, double best, double total, double uniform, Py_ssize_t new) noexcept nogil:
    """Tell whether a draw by inversion is `new` for any weights that a block leaves out."""
    cdef double left_out = ahead_left_out(s.ahead, s.row, best), low = 0.0, rounding = ROUNDING * total
    cdef Py_ssize_t b = new // EXPFAM_BLOCK, k
    if left_out == 0.0:
        return True
    for k in range(b):
        low += s.sums[k]
    for k in range(b * EXPFAM_BLOCK, new):
        low += s.scores[k]
    return (uniform * (total + left_out) < low + s.scores[new] - rounding
            and uniform * total > low + left_out + rounding)


cdef int redraw(sweep *s, Py_ssize_t i, philox_stream *rng) noexcept nogil:
    """Draw the cluster of datum i from its exact conditional law, and move the datum."""
    cdef Py_ssize_t old = s.labels[i], new
    cdef double old_score, new_score, best, total, uniform
    cdef int code = weigh(s, i, False, &old_score, &best, &total)
    if code:
        return code
    uniform = philox_double(rng)
    new = expfam_pick(s.scores, s.sums, total, uniform, s.slots.n_slots)
    if not is_decided(s, best, total, uniform, new):
        code = weigh(s, i, True, &old_score, &best, &total)
        if code:
            return code
        new = expfam_pick(s.scores, s.sums, total, uniform, s.slots.n_slots)
    if new == old:
        return EXPFAM_OK
    new_score = log(s.scores[new]) + best           # `scores` now holds the weights
    code = s.c.remove(s.c.self, i, old)
    if code:
        return code
    code = s.c.add(s.c.self, i, new)
    if code:
        s.c.add(s.c.self, i, old)
        return code
    s.masses.change(s, old, new, rng)
    if s.classes.row_class != NULL:
        class_move(&s.classes, i, old, new, 1)
    if s.ahead.rows != NULL:
        ahead_change(s.ahead, old)
        ahead_change(s.ahead, new)
    s.labels[i] = <int32_t> new
    s.log_joint += new_score - old_score
    s.n_moved += 1
    return EXPFAM_OK


cdef int redraw_rows(sweep *s, Py_ssize_t start, Py_ssize_t stop, Py_ssize_t *at) noexcept nogil:
    """Redraw data at consecutive places of the sweep; set `at` to the first unfinished place."""
    cdef philox_stream rng
    cdef Py_ssize_t place, i
    cdef int code
    philox_init(&rng, s.seed, MOVE)
    for place in range(start, stop):
        at[0] = place
        if ahead_is_used_up(s.ahead):
            return EXPFAM_OK
        i = place if s.order == NULL else s.order[place]
        if s.ahead.rows != NULL:
            s.row = place - s.ahead.start
            s.scores = s.ahead.rows + s.row * s.ahead.stride
        if not s.masses.begin(s, i):
            return GROW
        if ahead_is_settled(s.ahead, s.row):
            if ahead_stays(s.ahead, s.c, s.slots, i, s.row, s.labels[i]):
                continue
            code = ahead_open(s.ahead, s.c, s.slots, i, s.row, s.labels[i], s.scores)
            if code:
                return code
        philox_aim(&rng, s.row_offset + <uint64_t> i, s.step)
        code = redraw(s, i, &rng)
        if code:
            return code
    at[0] = stop
    return EXPFAM_OK


class CollapsedGibbs(Kernel):
    """Exact Gibbs sweep over labels with parameters and weights integrated out.

    It draws one row after the other, in float64. With many clusters the threads compute the scores of the next rows
    together; no label depends on their number. It works with every family and all weights of this package: a symmetric
    Dirichlet with K components, a Dirichlet process and a Pitman-Yor process differ in only two numbers.

    Parameters
    ----------
    order : {"sequential", "backward", "random"}
        "sequential" uses the order of the rows and "backward" the opposite one; "random" uses a new random order in
        each sweep.
    n_threads : int or None
        Number of threads for the scores of more than 255 clusters, and of fewer ones where they are bounded by matrix
        products: under `SphericalGaussian` if rows are wide, and under `VonMisesFisher`.

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
    takes_known = frozenset({"clusters", "classes", "links"})
    _constraints = {"order": ("sequential", "backward", "random")}

    def __init__(self, *, order="sequential", n_threads=None):
        self.order, self.n_threads = order, n_threads

    def init_state(self, model, data, labels, *, seed):
        """Make a collapsed state of the labels."""
        return self.state_type(model, data, labels, seed=seed)

    def move(self, state):
        """Run one sweep over all data that are not held; an interrupt leaves a valid state."""
        return run_sweep(Sweep(state, self.order, RowsAhead(self.n_threads)))

    def reversed(self):
        """Return the sweep in the opposite order; a random order is its own opposite."""
        return self if self.order == "random" else type(self)(order=OPPOSITE[self.order], n_threads=self.n_threads)


cdef class Sweep:
    """Buffers and pointers of one sweep; without `ahead` rows are scored one by one."""

    def __init__(self, CollapsedState state, order, RowsAhead ahead=None):
        self.state, self.ahead = state, ahead
        self.take(order)
        self.s.seed, self.s.step, self.s.row_offset = state.seed, state.n_steps, state.data.row_offset
        self.s.n_moved = 0
        if ahead is not None:
            ahead.seed, ahead.step, ahead.row_offset = self.s.seed, self.s.step, self.s.row_offset
        self.scores = np.empty(0)

    cdef int take(self, order) except -1:
        """Set the masses of new clusters and the order of the rows, which share their weights."""
        cdef const double[::1] new_mass
        cdef const Py_ssize_t[::1] places
        weights, N = self.state.model.weights, self.state.data.n_rows
        most = N if weights.max_components is None else min(N, weights.max_components)
        self.table = np.ascontiguousarray(weights.log_new_mass(N - 1, most), dtype=np.float64)
        new_mass = self.table
        self.s.log_new_mass = &new_mass[0]
        self.s.masses.begin, self.s.masses.add, self.s.masses.change = begin_row, add_masses, change_slot
        self.s.order = NULL
        known = self.state.data.known
        self.classes = ClassTable(known)
        self.order = None if known is None else known.free
        self.n_places = N if known is None else len(known.free)
        if order == "random":
            rng = generator(self.state.seed, "order", step=self.state.n_steps)
            self.order = rng.permutation(N if known is None else known.free).astype(np.intp)
        elif order == "backward":
            rows = np.arange(N) if known is None else known.free
            self.order = np.ascontiguousarray(rows[::-1], dtype=np.intp)
        if self.n_places and self.order is not None:
            places = self.order
            self.s.order = &places[0]
        return 0

    cdef void aim(self):
        """Set the pointers into the state, which may have grown, and allocate scratch memory."""
        cdef CollapsedState state = self.state
        cdef Components components = state.components
        cdef int32_t[::1] labels = state.labels
        cdef double[::1] scores, sums
        if self.scores.shape[0] < state.slots.capacity:
            self.scores = np.empty(state.slots.capacity)
            self.sums = np.empty(state.slots.capacity // EXPFAM_BLOCK + 1)
        scores, sums = self.scores, self.sums
        self.s.c, self.s.slots, self.s.labels = &components.c, &state.slots, &labels[0]
        self.classes.count(state.labels, state.slots.capacity)
        self.s.classes = self.classes.t
        self.s.log_joint = state.log_joint
        self.s.scores, self.s.sums, self.s.work = &scores[0], &sums[0], &components.work[0]
        self.s.ahead = &self.none_ahead

    cdef Py_ssize_t look_ahead(self, Py_ssize_t start, Py_ssize_t stop, Py_ssize_t n_rows,
                               Py_ssize_t n_moved) except -1:
        """Score the next rows if few of the last ones have moved.

        It returns the place at which the next call ends. `n_moved` of the last `n_rows` rows have moved.
        """
        cdef CollapsedState state = self.state
        if self.ahead.is_alone and n_moved:
            self.ahead.forget()
        self.ahead.is_alone = n_rows == 0 or n_rows < self.ahead.rows_a_move() * n_moved
        if self.ahead.is_alone:
            return min(stop, start + (SHORT_WINDOW if self.ahead.filters(state.components, state.n_slots) else WINDOW))
        stop = self.ahead.fill(state.components, &state.slots, self.s.labels, self.s.log_new_mass, self.s.order, start,
                               stop, n_rows // max(n_moved, <Py_ssize_t> 1))
        self.s.ahead = &self.ahead.a
        return stop

    cdef void note(self):
        """Tell the state what a call has changed beside labels and statistics."""


def run_sweep(Sweep buffers):
    """Run one sweep of exact draws; return (proposed, accepted, extra)."""
    if buffers.ahead is None or not buffers.ahead.filters(buffers.state.components, buffers.state.slots.n_slots):
        return sweep_rows(buffers)
    with single_blas():                             # once for all products of the sweep
        return sweep_rows(buffers)


cdef tuple sweep_rows(Sweep buffers):
    """Do this without a look at BLAS."""
    cdef CollapsedState state = buffers.state
    cdef sweep *s = &buffers.s
    cdef Py_ssize_t N = buffers.n_places, start = 0, at = 0, rows = FIRST_ROWS, stop, failed_at = -1, n_moved = 0
    cdef int code = EXPFAM_OK
    cdef Py_ssize_t n_rows = 0, n_changed = 0       # of the last call
    while start < N:
        state.ensure_spare()
        buffers.aim()
        if scores_ahead(state.components, s.slots.n_slots, buffers.ahead):
            stop = buffers.look_ahead(start, N, n_rows, n_changed)
        else:
            stop = min(N, start + rows)
        clock = perf_counter()
        with nogil:
            code = redraw_rows(s, start, stop, &at)
        clock = perf_counter() - clock
        buffers.note()
        state.log_joint = s.log_joint
        state.n_moves += s.n_moved
        state.stamp += 1
        n_moved += s.n_moved
        n_rows, n_changed, s.n_moved = at - start, s.n_moved, 0
        if code == EXPFAM_NUMERICAL and failed_at != at:    # try again with recomputed statistics
            failed_at = at
            state.refresh()
            if buffers.ahead is not None:
                buffers.ahead.forget()
        elif code not in (EXPFAM_OK, GROW):
            i = at if s.order == NULL else s.order[at]
            raise (<Components> state.components).fail(code, i, s.labels[i])
        start = at
        if clock < LONGEST_CALL / 2:
            rows = min(2 * rows, N)
        elif clock > 2 * LONGEST_CALL:
            rows = max(1, rows // 2)
    state.settle()
    return N, n_moved, {}


def conditional(CollapsedState state, Py_ssize_t i):
    """Compute the exact conditional law of the cluster of datum `i`, by the code of the sweep.

    Parameters
    ----------
    state : CollapsedState
    i : int

    Returns
    -------
    (n_slots,) float64 ndarray
        Probability of each slot; an empty slot with a positive probability stands for a new cluster.
    """
    return law_of(Sweep(state, "sequential"), i)


def law_of(Sweep buffers, Py_ssize_t i):
    """Compute the law of `conditional` by the buffers of a sweep."""
    cdef CollapsedState state = buffers.state
    cdef double old_score = 0.0, best = 0.0, total = 0.0
    if not 0 <= i < state.data.n_rows:
        raise IndexError(f"datum {i} of {state.data.n_rows}")
    state.ensure_spare()
    buffers.aim()
    buffers.s.masses.begin(&buffers.s, i)
    cdef int code = weigh(&buffers.s, i, True, &old_score, &best, &total)
    if code:
        raise (<Components> state.components).fail(code, i, state.labels[i])
    return buffers.scores[: state.n_slots] / total
