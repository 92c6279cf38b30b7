"""Sweeps over labels by Metropolis steps, with parameters given.

Given parameters the labels are independent. So all data are moved in parallel, each with its own random stream and
several steps in a sweep. If the proposal is the present cluster, the step reads nothing of the datum; another cluster
costs <phi, theta_new - theta_old>. Only the statistics depend on the family. If the statistics are about as wide as the
data, those of all data are made by block, from a copy of the data in the order of the sweep; they are made only once if
they need little memory. Wider statistics are made only for the data that need them.
"""


from contextlib import contextmanager

import numpy as np

from cython cimport final
from libc.math cimport INFINITY
from libc.stdint cimport int32_t, uint64_t
from libc.stdlib cimport calloc, free

from expfam.contracts cimport EXPFAM_OK, EXPFAM_RANGE
from expfam.families.dense_source cimport write_phi
from expfam.families.rows cimport entry_column, entry_value, open_rows, row_start
from expfam.samplers.chain.accept cimport HOPELESS, accept, accepted, passes_bound
from expfam.samplers.proposals.handle cimport ProposalHandle
from expfam.samplers.proposals.prototype cimport BoundPrototype, log_way_back, prototype_state, suggested
from expfam.structures.ground.arrays cimport address, aligned, cells_in
from expfam.structures.ground.spin cimport expfam_taken, expfam_watched
from expfam.structures.ground.team cimport Team
from expfam.structures.simd.blocks cimport EXPFAM_BLOCK
from expfam.structures.simd.list_scores cimport EXPFAM_LIST_ENTRIES, expfam_list_scores
from expfam.structures.simd.prefetch cimport EXPFAM_PREFETCH, EXPFAM_PREFETCH_WRITE
from expfam.structures.simd.softmax cimport expfam_exp_blocks, expfam_max, expfam_pick
from expfam.structures.ground.rng cimport MOVE, philox_aim, philox_double, philox_init, philox_stream

from expfam.errors import CapabilityError, ExactnessWarning
from expfam.families.dense_source import dense_source
from expfam.families.support import chosen_rows
from expfam.params import Integer
from expfam.samplers.proposals.by_name import named_proposal
from expfam.samplers.proposals.snapshot import Snapshot
from expfam.samplers.uncollapsed.kernel import GROUPS_OF_ROWS, UncollapsedKernel
from expfam.structures.ground.stored import integers, numbers, restoring
from expfam.structures.ground.threads import resolve_n_threads, run, team_of
from expfam.user_warnings import warn

cdef enum:
    TASK_ROWS = 8192            # largest number of data of a task
    AHEAD = 12                  # number of places by which labels are prefetched ahead
    MADE_ROWS = 1024            # number of data of a block whose statistics are made together
    WAITS = 1                   # result of a move: it needs statistics that are not made yet

cdef Py_ssize_t LOOP_CELLS = 1 << 31    # products of statistics and parameters in a loop without Python

_WIDE = 2                       # with more statistics for each column of X they are made only for data that need them
_NARROW = 64                    # up to this number of statistics they are always made for all data
_LEAST_HELD = 1 << 27           # up to this number of bytes statistics are kept between sweeps


cdef void move_item(void *job, Py_ssize_t item, Py_ssize_t thread) noexcept nogil:
    (<MetropolisSweep> job).move_task(item, thread)


cdef void open_list(const sweep_state *w, Py_ssize_t g, listed *l) noexcept nogil:
    """Gather the parameters of the list of group g."""
    cdef Py_ssize_t j, f
    cdef const double *theta
    l.group, l.names = g, w.lists.tables[g].names
    l.size = w.lists.tables[g].size - 1             # the last outcome is not a cluster
    l.padded = (l.size + EXPFAM_LIST_ENTRIES - 1) // EXPFAM_LIST_ENTRIES * EXPFAM_LIST_ENTRIES
    for j in range(l.size):
        l.bias[j] = w.bias[l.names[j]]
    for j in range(l.size, l.padded):
        l.bias[j] = -INFINITY
    if w.rows != NULL:
        return
    for j in range(l.size):
        theta = w.Theta + l.names[j] * w.F
        for f in range(w.F):
            l.table[f * l.padded + j] = theta[f]
    for j in range(l.size, l.padded):
        for f in range(w.F):
            l.table[f * l.padded + j] = 0.0


cdef inline void score_list(const sweep_state *w, Py_ssize_t i, const double *x, listed *l) noexcept nogil:
    """Compute the log weights of the listed clusters for datum i."""
    cdef Py_ssize_t at, j
    cdef const double *theta
    cdef double sum_
    if x != NULL:
        expfam_list_scores(x, l.table, l.bias, w.F, l.padded, l.scores)
        return
    for j in range(l.size):
        theta = w.Theta + l.names[j] * w.F
        sum_ = l.bias[j]
        for at in range(row_start(w.rows, i), row_start(w.rows, i + 1)):
            sum_ += entry_value(w.rows, at) * theta[entry_column(w.rows, at)]
        l.scores[j] = sum_


cdef inline Py_ssize_t redraw(const sweep_state *w, Py_ssize_t i, const double *x, Py_ssize_t k, philox_stream *rng,
                              listed *l) noexcept nogil:
    """Draw exactly among the listed clusters if k is one of them; otherwise return k."""
    # The list does not depend on labels: an exact draw within a fixed set leaves the law of the datum invariant.
    cdef Py_ssize_t below = 0, size, half
    cdef double best, total
    if w.lists.group[i] != l.group:
        open_list(w, w.lists.group[i], l)
    size = l.size
    while size > 1:
        half = size >> 1
        below += half if <Py_ssize_t> l.names[below + half] <= k else 0
        size -= half
    if l.size < 2 or <Py_ssize_t> l.names[below] != k:
        return k
    score_list(w, i, x, l)
    best = expfam_max(l.scores, l.size if x == NULL else l.padded)     # the padding of dense scores is -inf
    if not -INFINITY < best < INFINITY:
        return k
    total = expfam_exp_blocks(l.scores, best, l.sums, l.size)
    return l.names[expfam_pick(l.scores, l.sums, total, philox_double(rng), l.size)]


cdef inline bint accept_back(const prototype_state *s, Py_ssize_t i, Py_ssize_t old, Py_ssize_t new, double difference,
                             philox_stream *rng) noexcept nogil:
    """Accept or refuse a proposal of the datum's group.

    The log ratio of the two proposal probabilities is computed only if it can change the decision.
    """
    cdef double log_u
    if difference + s.most_back < HOPELESS:
        if not passes_bound(difference + s.most_back, rng, &log_u):
            return False
        return accepted(difference + log_way_back(s, s.group[i], old, new), log_u)
    return accept(difference + log_way_back(s, s.group[i], old, new), rng)


cdef inline int move_datum(const sweep_state *w, Py_ssize_t i, const double *x, bint is_there, philox_stream *rng,
                           double *work, listed *l, tally *t) noexcept nogil:
    """Make all steps of datum i.

    If a step needs statistics that are not made yet, it stops without changes and returns WAITS.
    """
    cdef Py_ssize_t k = w.labels[i], new = 0, _step, asked = -1
    cdef double back = 0.0, difference = 0.0
    cdef const prototype_state *tables = w.tables
    cdef int code
    if l != NULL and not is_there:
        return WAITS
    philox_aim(rng, w.row_offset + <uint64_t> i, w.step)
    for _step in range(w.n_steps):
        if tables != NULL:
            new = suggested(tables, tables.group[i], &rng.bitgen)
        else:
            code = w.p.draw(w.p.self, i, k, &rng.bitgen, &new, &back, work)
            if code:
                return code
        if new == k:
            continue
        if not 0 <= new < w.K:
            return EXPFAM_RANGE
        if not is_there:
            return WAITS
        t.n_proposed += 1
        if new != asked:                    # otherwise the same proposal was refused in the last step
            difference = gain(w, i, x, k, new)
            asked = new
        if accept_back(tables, i, k, new, difference, rng) if tables != NULL else accept(difference + back, rng):
            t.n_accepted += 1
            k = new
            asked = -1
    if l != NULL:
        k = redraw(w, i, x, k, rng, l)
    w.moved[i] = <int32_t> k
    return EXPFAM_OK


cdef int move_rows_at(const sweep_state *w, const double *phi, Py_ssize_t start, Py_ssize_t stop, double *work,
                      listed *l, tally *t) noexcept nogil:
    """Move the data at consecutive places of the sweep's order.

    `phi` has the statistics of these data; it is NULL for CSR.
    """
    cdef philox_stream rng
    cdef Py_ssize_t place, i
    cdef int code
    philox_init(&rng, w.seed, MOVE)
    for place in range(start, stop):
        i = place if w.order == NULL else w.order[place]
        if w.order != NULL and place + AHEAD < stop:
            EXPFAM_PREFETCH(w.labels + w.order[place + AHEAD])
            EXPFAM_PREFETCH_WRITE(w.moved + w.order[place + AHEAD])
            if w.tables != NULL:
                EXPFAM_PREFETCH(w.tables.group + w.order[place + AHEAD])
        code = move_datum(w, i, NULL if phi == NULL else phi + (place - start) * w.F, True, &rng, work, l, t)
        if code:
            t.failed = i
            return code
    return EXPFAM_OK


cdef int move_unproposed(const sweep_state *w, Py_ssize_t start, Py_ssize_t stop, double *work, listed *l, tally *t,
                         Py_ssize_t *waiting, Py_ssize_t *n_waiting) noexcept nogil:
    """Make the steps of data whose proposals are all their present cluster; list the other data."""
    cdef philox_stream rng
    cdef Py_ssize_t place, i
    cdef int code
    philox_init(&rng, w.seed, MOVE)
    n_waiting[0] = 0
    for place in range(start, stop):
        i = place if w.order == NULL else w.order[place]
        code = move_datum(w, i, NULL, False, &rng, work, l, t)
        if code == WAITS:
            waiting[n_waiting[0]] = i
            n_waiting[0] += 1
        elif code:
            t.failed = i
            return code
    return EXPFAM_OK


cdef int move_chosen(const sweep_state *w, const Py_ssize_t *chosen, const double *phi, Py_ssize_t n, double *work,
                     listed *l, tally *t) noexcept nogil:
    """Make all steps of n data, with statistics that were made for them."""
    cdef philox_stream rng
    cdef Py_ssize_t j
    cdef int code
    philox_init(&rng, w.seed, MOVE)
    for j in range(n):
        code = move_datum(w, chosen[j], phi + j * w.F, True, &rng, work, l, t)
        if code:
            t.failed = chosen[j]
            return code
    return EXPFAM_OK


def held_bytes(data):
    """Return the bytes of statistics, or of rows, that are held in the order of the sweep.

    It is 0 if statistics are made only for the data that need them.
    """
    if not _is_narrow(data):
        return 0
    size = 8 * data.n_rows * data.n_statistics
    return 2 * size if size <= _LEAST_HELD else data.X.nbytes   # they are made in one order and held in another


def _is_narrow(data):
    """Return whether statistics are made for all data, not only for those that need them."""
    return not data.is_sparse and data.n_statistics <= max(_WIDE * data.n_features, _NARROW)


cdef class MetropolisSweep:
    """A bound proposal and the statistics of the data, kept in the memory of the state."""

    def __init__(self, state, proposal):
        owner = proposal.bind(state.model, state.data, seed=state.seed)
        self.handle = ProposalHandle(owner, repr(proposal))
        self.model, self.data, self.n_clusters = state.model, state.data, state.K
        self.order = self.phi = self.sorted = self.sparse = self.snapshot = self.source = None
        self.scratch = self.team = None

    def to_arrays(self):
        """Return the arrays of the proposal, and the parameters from which its law was made."""
        arrays = {"proposal": self.handle.owner.to_arrays()}
        if self.snapshot is not None:
            view = self.snapshot
            arrays["snapshot"] = {"Theta": view.Theta.copy(), "G": view.G.copy(), "log_pi": view.log_weight.copy(),
                                  "step": np.array(view.step, dtype=np.int64)}
        return arrays

    def from_arrays(self, arrays):
        """Restore from the arrays of `to_arrays`; ArchiveError for those of others."""
        with restoring("the stored proposal"):
            self.handle.owner.from_arrays(arrays.get("proposal", {}))     # archives keep no empty dicts
            if "snapshot" in arrays:
                old = arrays["snapshot"]
                theta = numbers(old, "Theta", (self.n_clusters, self.data.n_statistics))
                log_pi = numbers(old, "log_pi", (self.n_clusters,), finite=False, high=1e-9)
                view = Snapshot.of_parameters(self.model.family, theta, numbers(old, "G", (self.n_clusters,)), log_pi,
                                              n_rows=self.data.n_rows, step=int(integers(old, "step", ())))
                self.refresh(view, True)

    def adopt(self, state, proposal):
        """Bind the proposal to a model with other hyper-parameters; keep its tables."""
        if state.model is self.model:
            return
        if hasattr(self.handle.owner, "rebind"):
            self.handle.owner.rebind(state.model)
        else:
            arrays = self.to_arrays()
            self.handle = ProposalHandle(proposal.bind(state.model, state.data, seed=state.seed), repr(proposal))
            self.from_arrays(arrays)
        self.model = state.model

    def refresh(self, snapshot, keep):
        """Refresh the proposal with new parameters; `keep` the snapshot for later sweeps."""
        self.handle.refresh(snapshot)
        self.snapshot = snapshot if keep else None

    def _hold(self):
        """Set the order of the sweep; copy the statistics or the rows in this order."""
        cdef const Py_ssize_t[::1] order
        cdef const double[:, ::1] phi
        wanted = getattr(self.handle.owner, "order", None)
        if self.w.F and wanted is self.order:
            return
        data, self.order = self.data, wanted
        self.w.F, self.w.order, self.w.rows, self.source = data.n_statistics, NULL, NULL, None
        self.held, self.scratch = NULL, None
        if wanted is not None:
            order = np.ascontiguousarray(wanted, dtype=np.intp)
            self.order, self.w.order = wanted, &order[0]
        if data.has_sparse_phi:
            self.sparse = data.phi_csr(0, data.n_rows)
            open_rows(&self.rows, self.sparse.data, self.sparse.indices, self.sparse.indptr)
            self.w.rows = &self.rows
        elif not _is_narrow(data):
            self.source = dense_source(data.family, data.X, None)
        elif 8 * data.n_rows * data.n_statistics > _LEAST_HELD:
            self.sorted = data.X if wanted is None else chosen_rows(data.X, wanted)
            self.source = dense_source(data.family, self.sorted, None)
        else:
            self.phi = np.empty((data.n_rows, data.n_statistics))
            for start in range(0, data.n_rows, TASK_ROWS):
                rows = slice(start, start + TASK_ROWS)
                self.phi[rows] = self._made(chosen_rows(data.X, rows if wanted is None else wanted[rows]))
            phi = self.phi
            self.held = &phi[0, 0]

    def _made(self, X):
        """Compute dense statistics of some rows."""
        block = self.data.family.sufficient_statistics(X)
        block = block.toarray() if hasattr(block, "toarray") else block
        return np.ascontiguousarray(block, dtype=np.float64)

    def sweep(self, state, Py_ssize_t n_steps, n_threads, *, redraw=False):
        """Move every datum; return labels (N,) int32 and the numbers of proposed and accepted steps."""
        cdef const int32_t[::1] labels = state.labels
        cdef int32_t[::1] out
        cdef const double[:, ::1] Theta = np.ascontiguousarray(state.Theta, dtype=np.float64)
        cdef const double[::1] bias = np.ascontiguousarray(state.log_pi - state.G)
        self._hold()
        moved = np.empty(self.data.n_rows, dtype=np.int32)
        out = moved
        self.w.p, self.w.labels, self.w.moved = &self.handle.p, &labels[0], &out[0]
        self.w.Theta, self.w.bias, self.w.K, self.w.n_rows = &Theta[0, 0], &bias[0], Theta.shape[0], len(moved)
        self.w.n_steps = n_steps
        self.w.seed, self.w.step, self.w.row_offset = state.seed, state.n_steps, self.data.row_offset
        self.w.lists, self.w.tables = NULL, NULL
        if isinstance(self.handle.owner, BoundPrototype) and (<BoundPrototype> self.handle.owner).s.K == self.w.K:
            self.w.tables = &(<BoundPrototype> self.handle.owner).s
            if redraw:
                self.w.lists = self.w.tables
        n_tasks = (len(moved) + TASK_ROWS - 1) // TASK_ROWS
        n_tasks += n_tasks > 1 and n_tasks % 2          # else one thread waits for the last task of another
        counts = self._move(n_tasks, 1 if self.handle.needs_gil else resolve_n_threads(n_threads))
        return moved, int(counts[:, 0].sum()), int(counts[:, 1].sum())

    @contextmanager
    def served(self, n_threads):
        """Let one team make tables and move labels in the block, if both are loops without Python."""
        owner = self.handle.owner
        if not (isinstance(owner, BoundPrototype) and owner.source is not None and self._is_compiled()):
            yield
            return
        with team_of(n_threads, uses_blas=True) as team:
            self.team = owner.team = team
            try:
                yield
            finally:
                self.team = owner.team = None

    def _is_compiled(self):
        """Return whether no statistics are to be made by Python."""
        return self.held != NULL or self.w.rows != NULL or self.source is not None

    def _move(self, Py_ssize_t n_tasks, n_threads):
        """Move all data by so many tasks; return what they count, (n_tasks, 4) intp, see `tally`."""
        cdef Py_ssize_t b
        counts = aligned((n_tasks, sizeof(tally) // sizeof(Py_ssize_t)), np.intp)
        self.n_tasks, self.tallies, self.n_failed = n_tasks, <tally *> address(counts), 0
        if self.scratch is None or not self.scratch.fits(self, n_threads):
            self.scratch = MoveScratch(self, n_threads)
        self.scratch.forget()
        if not self._is_compiled():
            run(self._move_made, [(b,) for b in range(n_tasks)], n_threads, uses_blas=False)
        elif self.team is not None:
            self._share(self.team)
        else:
            with team_of(n_threads) as team:
                self._share(team)
        for b in range(n_tasks):
            if self.tallies[b].code:
                raise self._failure(&self.tallies[b])
        return counts

    cdef object _failure(self, const tally *t):
        return self.handle.fail(t.code, t.failed, self.w.labels[t.failed])

    cdef int _share(self, Team team) except -1:
        """Move all data without Python."""
        cdef Py_ssize_t listed = 0 if self.w.lists == NULL else self.w.lists.longest
        cdef Py_ssize_t cells = TASK_ROWS * max(self.w.F, 1) * (self.w.n_steps + listed)
        team.share_in_loops(move_item, <void *> self, self.n_tasks, max(LOOP_CELLS // cells, 64))
        return 0

    cdef void move_task(self, Py_ssize_t item, Py_ssize_t thread) noexcept nogil:
        """Move the data of one task."""
        cdef Py_ssize_t start = self.w.n_rows * item // self.n_tasks, stop = self.w.n_rows * (item + 1) // self.n_tasks
        cdef tally *t = &self.tallies[item]
        if not expfam_watched(&self.n_failed):
            t.code = self._move_places(start, stop, &self.scratch.of_thread[thread], t)
            if t.code:
                expfam_taken(&self.n_failed)

    cdef int _move_places(self, Py_ssize_t start, Py_ssize_t stop, move_scratch *s, tally *t) noexcept nogil:
        """Move the data at places start..stop-1 of the sweep's order."""
        if self.source is not None:
            return self._move_compiled(start, stop, s, t)
        return move_rows_at(&self.w, NULL if self.held == NULL else self.held + start * self.w.F, start, stop, s.work,
                            s.lists, t)

    cdef int _move_compiled(self, Py_ssize_t start, Py_ssize_t stop, move_scratch *s, tally *t) noexcept nogil:
        """Move data whose statistics are compiled, block by block."""
        cdef Py_ssize_t first, last = start, n = 0
        cdef int code
        while last < stop:
            first, last = last, min(last + MADE_ROWS, stop)
            if self.sorted is not None:
                write_phi(self.source, first, NULL, last - first, s.row, s.phi)
                code = move_rows_at(&self.w, s.phi, first, last, s.work, s.lists, t)
            else:
                code = move_unproposed(&self.w, first, last, s.work, s.lists, t, s.waits, &n)
                if code == EXPFAM_OK and n:
                    write_phi(self.source, 0, s.waits, n, s.row, s.phi)
                    code = move_chosen(&self.w, s.waits, s.phi, n, s.work, s.lists, t)
            if code:
                return code
        return EXPFAM_OK

    def _move_made(self, Py_ssize_t item):
        """Move the data of one task, with statistics from Python for those that need them."""
        cdef Py_ssize_t start = self.w.n_rows * item // self.n_tasks, stop = self.w.n_rows * (item + 1) // self.n_tasks
        cdef Py_ssize_t thread = self.scratch.free.pop(), first
        cdef tally *t = &self.tallies[item]
        for first in range(start, stop, MADE_ROWS):
            t.code = self._move_block(first, min(first + MADE_ROWS, stop), &self.scratch.of_thread[thread], t)
            if t.code:
                raise self._failure(t)
        self.scratch.free.append(thread)

    cdef int _move_block(self, Py_ssize_t first, Py_ssize_t last, move_scratch *s, tally *t) except? -1:
        cdef Py_ssize_t[::1] chosen
        cdef const double[:, ::1] phi
        cdef Py_ssize_t n = 0
        cdef int code
        if self.sorted is not None:
            phi = self._made(self.sorted[first:last])
            with nogil:
                return move_rows_at(&self.w, &phi[0, 0], first, last, s.work, s.lists, t)
        with nogil:
            code = move_unproposed(&self.w, first, last, s.work, s.lists, t, s.waits, &n)
        if code == EXPFAM_OK and n:
            chosen = <Py_ssize_t[:n]> s.waits
            phi = self._made(chosen_rows(self.data.X, np.asarray(chosen)))
            with nogil:
                code = move_chosen(&self.w, s.waits, &phi[0, 0], n, s.work, s.lists, t)
        return code


@final
cdef class MoveScratch:
    """Scratch memory of the threads that move labels; later sweeps use it again."""

    def __cinit__(self, MetropolisSweep sweeper, Py_ssize_t n_threads):
        cdef Py_ssize_t longest = 0 if sweeper.w.lists == NULL else sweeper.w.lists.longest
        self.n_threads, self.has_lists, self.arrays = n_threads, sweeper.w.lists != NULL, []
        self.work_size = sweeper.handle.p.work_size
        self.longest = (longest + longest // 4) // EXPFAM_LIST_ENTRIES * EXPFAM_LIST_ENTRIES + EXPFAM_LIST_ENTRIES
        self.of_thread = <move_scratch *> calloc(n_threads, sizeof(move_scratch))
        if self.of_thread == NULL:
            raise MemoryError("there is no memory to move labels")
        for t in range(n_threads):
            self._allocate(sweeper, t)

    def __dealloc__(self):
        free(self.of_thread)

    def _allocate(self, MetropolisSweep sweeper, Py_ssize_t thread):
        cdef move_scratch *s = &self.of_thread[thread]
        cdef Py_ssize_t F = sweeper.w.F, room = self.longest
        cdef list own = self.arrays
        s.work = <double *> cells_in(own, max(self.work_size, 1), np.float64)
        s.waits = <Py_ssize_t *> cells_in(own, MADE_ROWS, np.intp)
        if sweeper.source is not None:
            s.phi, s.row = <double *> cells_in(own, MADE_ROWS * F, np.float64), <double *> cells_in(own, F, np.float64)
        if self.has_lists:
            s.own.table = <double *> cells_in(own, 1 if sweeper.w.rows != NULL else room * F, np.float64)
            s.own.bias = <double *> cells_in(own, room, np.float64)
            s.own.scores = <double *> cells_in(own, room, np.float64)
            s.own.sums = <double *> cells_in(own, room // EXPFAM_BLOCK + 1, np.float64)
            s.lists = &s.own

    def fits(self, MetropolisSweep sweeper, Py_ssize_t n_threads):
        """Return whether it serves a sweep of the same rows with so many threads."""
        cdef const prototype_state *s = sweeper.w.lists
        return (
            n_threads == self.n_threads
            and sweeper.handle.p.work_size == self.work_size
            and self.has_lists == (s != NULL)
            and (s == NULL or s.longest <= self.longest)
        )

    def forget(self):
        """Forget the lists of an earlier sweep, and what its failed tasks have kept."""
        cdef Py_ssize_t t
        self.free = list(range(self.n_threads))
        for t in range(self.n_threads):
            self.of_thread[t].own.group = -1


class UncollapsedMetropolis(UncollapsedKernel):
    """Kernel that moves all labels in parallel by Metropolis steps, given parameters.

    A sweep is cheaper than exact draws by a factor of the number of clusters, but it mixes more slowly. Compare kernels
    by what they reach in a given time, not by seconds for each sweep.

    Parameters
    ----------
    proposal : str or Proposal
        Name of a registered proposal, or an object with its settings. It needs the mode "frozen", and it must read only
        parameters, not statistics.
    steps : int
        Number of Metropolis steps of each datum in a sweep; use about eight without `redraw`.
    redraw : bool
        Whether to draw each datum exactly among the clusters that its group lists, after its steps and if its cluster
        is listed. A sweep then moves nearly as much as exact draws. Only `PrototypeProposal` has lists; with other
        proposals the setting has no effect.
    refresh : {"always", "never"} or int
        When the proposal is refreshed with the present parameters: in every sweep, only in the first sweep, or every
        `refresh` sweeps. A number above 1 causes a bias: the law is then made from parameters of an earlier sweep,
        which depend on the labels that it moves.
    theta : {"draw", "map", "mean"}
        How parameters and weights are made from labels: "draw" draws them from their posterior (a Gibbs step), "map"
        uses its mode in natural coordinates, "mean" its mean. Only "draw" leaves the posterior invariant; the others
        are stochastic EM.
    truncation : int
        Number of sticks under a Dirichlet process or Pitman-Yor prior. A symmetric Dirichlet prior has its own number
        of components.
    n_threads : int or None
        Number of threads of proposal and moves; the labels do not depend on it.

    Examples
    --------
    >>> from expfam import MixtureModel, Poisson, SymmetricDirichlet
    >>> from expfam.samplers import UncollapsedMetropolis, sample
    >>> kernel = UncollapsedMetropolis(steps=3)
    >>> X = [[0, 9]] * 20 + [[9, 0]] * 20
    >>> state = kernel.init(MixtureModel(Poisson(), SymmetricDirichlet(5)), X, seed=0)
    >>> bool(sample(kernel, state, 30).column("accepted").sum() > 0), state.n_clusters
    (True, 2)

    Notes
    -----
    A step from k to k' is accepted with probability min(1, w(k') q(k) / w(k) q(k')), where log w(k) = <phi, theta_k> -
    g_k + log pi_k. In `Info`, `proposed` and `accepted` count steps to other clusters. ``extra`` has "differing", the
    number of these proposals for each datum, "acceptance", their acceptance rate, and "changed", the share of data
    whose label changed. The kernel of Zaheer et al. 2017, "Canopy: fast sampling with cover trees", has
    ``redraw=False``, two steps and a proposal with ``n_anchors=0``. The redraw is a Gibbs step within a set of clusters
    that does not depend on labels. ``refresh="never"`` is exact because the law is fixed. "always" is exact because the
    law is a function of the parameters, and the labels are drawn given these.
    """

    on_shards = False
    not_on_shards = GROUPS_OF_ROWS
    _constraints = {"steps": Integer(1), "refresh": ("always", "never", Integer(1))}

    def __init__(
        self, proposal="prototype", *, steps=2, redraw=True, refresh="always", theta="draw", truncation=100,
        n_threads=None,
    ):
        super().__init__(theta=theta, truncation=truncation, n_threads=n_threads)
        self.proposal, self.steps, self.redraw, self.refresh = proposal, steps, redraw, refresh

    def choose_proposal(self, model, data):
        """Return the `Proposal`; load it if it was given by name."""
        return named_proposal(self.proposal)

    def check(self, model, data):
        """Refuse settings out of range, and proposals that cannot work."""
        super().check(model, data)
        resolve_n_threads(self.n_threads)
        proposal = self.choose_proposal(model, data)
        if getattr(proposal, "kind", None) != "assignment" or "frozen" not in proposal.modes:
            raise CapabilityError(f"{type(self).__name__} needs a proposal with the mode 'frozen'; got {proposal!r}")
        if hasattr(proposal, "check"):
            proposal.check(model, data)

    def reversed(self):
        """Return the kernel itself if all its steps are alike, else None.

        Their law must follow from the parameters of the sweep. The draw after the steps (`redraw`) would have to come
        first in the reversal, which no setting asks for.
        """
        is_reversible = self.is_sampler and not self.redraw and self.refresh in ("always", 1)
        return self if is_reversible else None

    def memory(self, model, data, n_clusters):
        """Return the bytes of the parameters, the bound proposal and the held statistics."""
        proposal = self.choose_proposal(model, data)
        bound = proposal.memory(model, data, n_clusters) if hasattr(proposal, "memory") else 0
        return super().memory(model, data, n_clusters) + bound + held_bytes(data)

    def sweeper(self, state):
        """Return the bound proposal of this chain, which is kept in the state's memory."""
        kept = state.memory.get("metropolis_sweep")
        if isinstance(kept, MetropolisSweep):
            kept.adopt(state, self.choose_proposal(state.model, state.data))
            return kept
        sweeper = MetropolisSweep(state, self.choose_proposal(state.model, state.data))
        if kept is not None:
            sweeper.from_arrays(kept)
        state.memory["metropolis_sweep"] = sweeper
        return sweeper

    def _inform(self, sweeper, state):
        """Refresh the proposal with the parameters, if the setting `refresh` asks for it."""
        if hasattr(sweeper.handle.owner, "n_threads"):
            sweeper.handle.owner.n_threads = self.n_threads
        if self.refresh == "always":
            is_time = True
        else:
            is_time = sweeper.snapshot is None or (
                self.refresh != "never" and state.n_steps - sweeper.snapshot.step >= self.refresh
            )
        if is_time:
            view = Snapshot.of_parameters(state.model.family, state.Theta, state.G, state.log_pi,
                                          n_rows=state.data.n_rows, step=state.n_steps)
            sweeper.refresh(view, self.refresh != "always")

    def draw_labels(self, state):
        """Move the label of every datum; return labels and counts."""
        sweeper = self.sweeper(state)
        with sweeper.served(self.n_threads):
            self._inform(sweeper, state)
            labels, n_proposed, n_accepted = sweeper.sweep(state, self.steps, self.n_threads, redraw=self.redraw)
        extra = {"differing": n_proposed / len(labels), "acceptance": n_accepted / max(n_proposed, 1)}
        return labels, extra | {"proposed": n_proposed, "accepted": n_accepted}

    def move(self, state):
        """Make parameters and weights given labels, then move all labels given them."""
        if self.theta == "draw" and self.refresh not in ("always", "never", 1):
            warn(
                f"refresh={self.refresh!r}: a law made from parameters of some sweeps ago depends on the labels that it"
                " moves; 'always' and 'never' leave the posterior invariant",
                ExactnessWarning,
            )
        state.draw_parameters(self.theta)
        n_moved, extra = state.redraw(self)
        extra["changed"] = n_moved / state.data.n_rows
        return extra.pop("proposed"), extra.pop("accepted"), extra
