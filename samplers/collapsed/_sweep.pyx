"""A bound proposal with the buffers of one chain, and parallel draws from it.

The moves themselves are in `metropolis` (exact modes) and `published` (the modes of the paper).
"""

import numpy as np

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memset

from expfam.contracts cimport EXPFAM_NEW, EXPFAM_NUMERICAL, EXPFAM_OK
from expfam.families.components cimport Components
from expfam.samplers.states.classes cimport ClassTable
from expfam.samplers.states.collapsed cimport CollapsedState
from expfam.structures.ground.rng cimport MOVE, philox_aim, philox_init, philox_stream
from expfam.structures.ground.team cimport Team
from expfam.structures.simd.prefetch cimport EXPFAM_PREFETCH

from expfam.errors import CapabilityError
from expfam.model.statistics import sums_of_rows
from expfam.samplers.proposals.snapshot import Snapshot
from expfam.structures.ground.stored import integers, restoring

cdef enum:
    TAKEN_ROWS = 32             # data that a thread takes at once for parallel draws
    PADDING = 16                # doubles between the scratch memory of two threads
    MOST_ROWS = 16384           # data of a loop of the team: then Python looks for interrupts
    AHEAD = 12                  # number of data by which labels are prefetched ahead


cdef int draw_rows(const sweep_state *m, const Py_ssize_t *rows, Py_ssize_t n, bint by_block, Py_ssize_t *drawn,
                   double *log_back, double *work, Py_ssize_t *at) noexcept nogil:
    """Draw clusters for n data; labels, statistics and proposal are only read.

    With `by_block`, a datum whose cluster has no data outside the block counts as being in a new cluster, and a datum
    that surely stays gets EXPFAM_STAYS.
    """
    cdef philox_stream rng
    cdef Py_ssize_t j, old
    cdef int code
    philox_init(&rng, m.seed, MOVE)
    for j in range(n):
        at[0] = j
        if j + AHEAD < n:
            EXPFAM_PREFETCH(m.labels + rows[j + AHEAD])
        old = m.labels[rows[j]]
        if by_block and m.outside[old] == 0:
            old = EXPFAM_NEW
        philox_aim(&rng, m.row_offset + <uint64_t> rows[j], m.step)
        code = m.p.draw(m.p.self, rows[j], old, &rng.bitgen, &drawn[j], &log_back[j], work)
        if code:
            return code
        if by_block and drawn[j] == old and old != EXPFAM_NEW:
            drawn[j] = EXPFAM_STAYS
    return EXPFAM_OK


ctypedef struct draws:
    const sweep_state *m
    const Py_ssize_t *rows
    Py_ssize_t n
    bint by_block
    Py_ssize_t *drawn
    double *log_back
    double *work                # of each thread
    Py_ssize_t work_size
    Py_ssize_t *failed          # first datum of each TAKEN_ROWS data that failed
    int *codes


cdef void draw_taken(void *job, Py_ssize_t item, Py_ssize_t thread) noexcept nogil:
    """Draw clusters for TAKEN_ROWS data."""
    cdef draws *d = <draws *> job
    cdef Py_ssize_t start = TAKEN_ROWS * item
    d.codes[item] = draw_rows(d.m, d.rows + start, min(d.n - start, TAKEN_ROWS), d.by_block, d.drawn + start,
                              d.log_back + start, d.work + thread * d.work_size, d.failed + item)


cdef class MetropolisSweep:
    """A bound proposal and buffers of one chain, kept in the state's memory between sweeps."""

    def __init__(self, CollapsedState state, handle):
        weights, N = state.model.weights, state.data.n_rows
        most = N if weights.max_components is None else min(N, weights.max_components)
        cdef const double[::1] new_mass
        cdef const Py_ssize_t[::1] order
        self.classes, self.order, self.m.order = ClassTable(state.data.known), None, NULL
        if state.data.known is not None:
            self.order = state.data.known.free
            if len(self.order):
                order = self.order
                self.m.order = &order[0]
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
        self.m.n_places = state.data.n_rows if self.order is None else len(self.order)
        self.m.is_backward = False
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
        self.classes.count(state.labels, state.slots.capacity)
        self.m.classes = self.classes.t
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

    cdef int open(self, CollapsedState state, mode) except -1:
        """Refresh the proposal with all data, unless it has their statistics already."""
        knows, owner = self.knows(state), self.handle.owner     # `begin` changes what is known
        if mode == "frozen":
            return self.open_frozen(state)
        state.ensure_spare()
        self.begin(state)
        self.aim()
        if not knows or self.former is not None or not getattr(owner, "is_exact", False):
            nothing = np.zeros(0, dtype=np.intp)
            self.set_block(nothing, nothing.astype(np.int32))
            self.handle.refresh(self.snapshot(nothing))
            self.former = None
        self.handle.reserve(state.slots.capacity)
        self.aim()
        return 0

    cdef int open_frozen(self, CollapsedState state) except -1:
        """Make the proposal once; refuse labels that another kernel has moved since."""
        if self.is_frozen and not self.knows(state):
            raise CapabilityError(
                "mode 'frozen' cannot be combined with kernels that move labels between its sweeps: the names of the"
                " components that its proposal knows are lost; use 'crossfit' or 'removed'"
            )
        state.open_all()
        self.begin(state)
        if not self.is_frozen:
            self.freeze(state.labels.copy())
        self.aim()
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

    def draw(self, rows, Team team, *, by_block):
        """Draw clusters for data in parallel.

        Returns
        -------
        drawn : (n,) intp ndarray
            Slots; -1 for a new cluster. With `by_block`, -2 for a datum that stays whatever its random number is.
        log_back : (n,) float64 ndarray
            log q(old) - log q(new).
        """
        cdef const Py_ssize_t[::1] row = rows
        cdef Py_ssize_t n = len(rows), n_takes = (n + TAKEN_ROWS - 1) // TAKEN_ROWS, first, item
        drawn, log_back = np.empty(n, dtype=np.intp), np.empty(n)
        cdef Py_ssize_t[::1] drawn_view = drawn, failed = np.zeros(n_takes, dtype=np.intp)
        cdef double[::1] back_view = log_back
        cdef int[::1] codes = np.zeros(n_takes, dtype=np.intc)
        cdef Py_ssize_t work_size = max(self.handle.p.work_size, 1) + PADDING
        cdef double[::1] work = np.empty(work_size * team.n_threads)
        cdef draws d
        for first in range(0, n, MOST_ROWS):
            item = first // TAKEN_ROWS
            d = draws(&self.m, &row[first], min(n - first, MOST_ROWS), by_block, &drawn_view[first], &back_view[first],
                      &work[0], work_size, &failed[item], &codes[item])
            with nogil:
                team.share(draw_taken, &d, (d.n + TAKEN_ROWS - 1) // TAKEN_ROWS)
        for item in range(n_takes):
            if codes[item]:
                first = row[TAKEN_ROWS * item + failed[item]]
                raise self.handle.fail(codes[item], first, self.state.labels[first])
        return drawn, log_back

    cdef int move_in_order(self, move_rows_t move, int mode) except -1:
        """Run one sweep in the order of the rows, one datum after the other."""
        cdef Py_ssize_t start = 0, stop, at = 0, before, failed_at = -1
        cdef Py_ssize_t n = self.state.data.n_rows if self.order is None else len(self.order)
        cdef int code
        while start < n:
            stop = min(n, start + CALL_ROWS)
            before = self.m.n_moved
            with nogil:
                code = move(&self.m, mode, start, stop, &at)
            self.note(before)
            if code == GROW:
                self.grow()
            elif code == EXPFAM_NUMERICAL and failed_at != at:
                failed_at = at
                self.state.refresh()
                self.aim()
            elif code:
                raise self.failure(code, row_at(&self.m, at))
            start = at
        return 0

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
        rows = np.sort(rows)
        S = S - sums_of_rows(state.data, rows, state.labels[rows], state.components.capacity)[slots]
    return S
