"""Splits and merges of whole clusters, exact for every family and all weights.

A move picks two data, the anchors. If they share a cluster, this cluster may be split between them; if not, their
clusters may be merged. The acceptance ratio needs the evidences of the clusters before and after, the prior of the
partition, and the probability with which the allocator would make (or would have made) the split. Moves are exact for
every anchor law and every allocator. Anchors come from a law that does not read labels, and hash tables stay fixed
while they are read, so no average over anchors or tables is needed (involutive Metropolis-Hastings: every factor that
is equal at both ends of a move cancels). Merges are refused before any member is read where log q <= 0 already decides.
Each move has its own random stream.
"""

from time import perf_counter

import numpy as np
from scipy import sparse

from cpython.exc cimport PyErr_CheckSignals
from libc.math cimport INFINITY
from libc.stdint cimport int8_t, int32_t, uint64_t

from expfam.contracts cimport EXPFAM_NUMERICAL
from expfam.families.components cimport Components
from expfam.samplers.split_merge._allocators cimport COIN, FOREIGN
from expfam.samplers.split_merge._python_moves cimport away_move
from expfam.samplers.split_merge._moves cimport (
    ANCHORED, AWAY, BUCKET, CUT, GROW, MEMBER, NO_MEMORY, SOFTMAX, move_plan, run_moves,
)
from expfam.samplers.states.collapsed cimport CollapsedState
from expfam.structures.partitions.members cimport MemberLists

from expfam.errors import ArchiveError, CapabilityError, PluginError
from expfam.params import Integer
from expfam.samplers.chain.kernel import Kernel
from expfam.samplers.split_merge.budget import MoveSchedule, most_moves
from expfam.samplers.split_merge.moves import compiled_code, first_of_law, moves_memory_per_row, moves_of
from expfam.structures.ground.rng import generator
from expfam.structures.ground.stored import integers, restoring
from expfam.structures.ground.threads import resolve_n_threads

cdef enum:
    FIRST_MOVES = 16            # in a step's first call without the gil; later numbers follow a clock: no label changes

cdef double LONGEST_CALL = 0.05     # seconds without the gil: Ctrl-C is noticed after each call

_KINDS = {"anchored": ANCHORED, "member": MEMBER, "bucket": BUCKET, "softmax": SOFTMAX, "cut": CUT}
_REDRAW_EVERY = 200             # steps between new hash tables: making them costs as much as dozens of steps
_UNITS = 8                     # bits for the kinds of moves in the unit numbers of random streams


cdef class MoveRunner:
    """The state of a chain's moves between steps.

    It holds member lists, bound anchors and allocators, scratch memory and the schedule. `n_threads` threads make hash
    tables; no result depends on their number.
    """

    def __init__(self, CollapsedState state, moves, n_threads):
        cdef int32_t[::1] items, leaving
        cdef int8_t[::1] sides
        cdef char[::1] plans
        N = state.data.n_rows
        self.state, self.moves, self.n_threads = state, moves, n_threads
        self.bound = [{} for _ in moves]
        self.lists, self.stamp, self.model = None, None, None
        share = np.array([move.weight for move in moves], dtype=np.float64)
        self.shares = np.cumsum(share[: len(moves) - 1]) / share.sum()
        self.schedule = MoveSchedule(N)
        self.w.d.evidence_cost = 1.0
        self.items, self.leaving = np.zeros(N, dtype=np.int32), np.zeros(N, dtype=np.int32)
        self.sides = np.zeros(N, dtype=np.int8)
        self.plan_array = np.zeros(len(moves) * sizeof(move_plan), dtype=np.int8)
        items, leaving, sides, plans = self.items, self.leaving, self.sides, self.plan_array
        self.w.d.items, self.w.d.leaving, self.w.d.sides = &items[0], &leaving[0], &sides[0]
        self.w.plans = <const move_plan *> &plans[0]
        self.w.n_rows = N
        self.take_known(state.data.known)

    cdef int take_known(self, known) except -1:
        """Set the pointers to what is known of rows."""
        cdef const int32_t[::1] classes, groups, sizes
        cdef int32_t[::1] seen
        self.w.known.row_class = self.w.known.row_group = NULL
        self.known = known
        if known is None:
            return 0
        if known.n_classes:
            classes = known.classes
            self.w.known.row_class, self.w.known.is_cluster = &classes[0], known.fixes_rows
        if known.groups:
            groups = known.links
            self.sizes = np.bincount(known.links[known.links >= 0]).astype(np.int32)
            self.seen = np.zeros_like(self.sizes)
            sizes, seen = self.sizes, self.seen
            self.w.known.row_group, self.w.known.group_size = &groups[0], &sizes[0]
            self.w.known.group_seen = &seen[0]
        return 0

    # ---- beginning of a step ---------------------------------------------------------------------------------------

    def open(self):
        """Begin a step: reset its counts, and renew what depends on labels, model or epoch."""
        self.w.d.work_done, self.w.first = 0.0, 0
        for j in range(4):
            self.w.n[j] = 0
        epoch = self.schedule.n_calls // _REDRAW_EVERY
        for place, move in enumerate(self.moves):
            self._set_plan(place, move, self._bind(place, move, epoch))
        self.model = self.state.model
        if self.lists is None or self.lists.n_slots < self.state.slots.capacity:
            self.stamp = None
        if self.stamp is None or self.stamp != self.state.stamp:
            self.lists = MemberLists(self.state.labels, n_slots=self.state.slots.capacity)
            self.stamp = self.state.stamp

    def _bind(self, place, move, epoch):
        bound, data, seed = self.bound[place], self.state.data, self.state.seed
        if bound.get("epoch") != epoch:
            if move.kind == "anchored":
                if "anchors" not in bound:
                    bound["anchors"] = self._bind_anchors(place)
                bound["anchors"].refresh(epoch)
            if move.kind == "bucket":
                bound["keys"] = move.tables.keys(data, seed=seed, epoch=epoch, n_threads=self.n_threads)
            bound["epoch"] = epoch
        allocator = getattr(move, "allocator", None)
        if "code" not in bound:
            bound["code"] = COIN if allocator is None else compiled_code(allocator)
            bound["is_away"] = move.kind == "cut" or bound["code"] == FOREIGN
        # compiled routines read from it only sign codes, which depend on the data alone and never become stale
        is_stale = bound["is_away"] and self.model is not self.state.model
        if allocator is not None and ("allocator" not in bound or is_stale):
            bound["allocator"] = allocator.bind(self.state.model, data, seed=seed)
        return bound

    def _bind_anchors(self, place):
        """Return the bound anchors of a move.

        Moves with the same law share them, so that hash tables are made once.
        """
        first = first_of_law(self.moves, place)
        if first < place:
            return self.bound[first]["anchors"]
        return self.moves[place].anchors.bind(self.state.data, seed=self.state.seed)

    def _set_plan(self, place, move, bound):
        cdef move_plan *p = <move_plan *> self.w.plans + <Py_ssize_t> place
        cdef const uint64_t[:, ::1] keys
        p.kind = _KINDS[move.kind]
        p.rho, p.most = getattr(move, "rho", 1.0), getattr(move, "most", INFINITY)
        allocator = getattr(move, "allocator", None)
        p.allocator.code = bound["code"]
        p.is_away = bound["is_away"]
        p.allocator.n_scans = getattr(allocator, "n_scans", 0)
        p.allocator.beta = getattr(allocator, "beta", 0.0)
        p.allocator.first_stage = getattr(allocator, "first", 1)
        p.allocator.stage_factor = getattr(allocator, "factor", 2)
        if "keys" in bound:
            keys = bound["keys"]
            p.keys, p.n_tables = &keys[0, 0], keys.shape[1]
        codes = getattr(bound.get("allocator"), "codes", None)
        if codes is not None:
            keys = codes
            self.w.d.codes, self.w.d.n_words = &keys[0, 0], keys.shape[1]

    def draw_plan(self, n_moves):
        """Draw the kinds of a run's moves and their anchors, without reading a label."""
        cdef int32_t[::1] which
        cdef Py_ssize_t[:, ::1] pairs
        state, unit = self.state, int(self.w.first) << _UNITS
        rng = generator(state.seed, "choice", unit=unit + 1, step=state.n_steps)
        self.which = np.searchsorted(self.shares, rng.random(n_moves), side="right").astype(np.int32)
        self.pairs = np.full((n_moves, 2), -1, dtype=np.intp)
        for place, bound in enumerate(self.bound):
            here = np.flatnonzero(self.which == place) if "anchors" in bound else ()
            if len(here):
                rng = generator(state.seed, "choice", unit=unit + 2 + place, step=state.n_steps)
                self.pairs[here] = _checked_pairs(bound["anchors"].draw_pairs(here.size, rng), here.size, state)
        which, pairs = self.which, self.pairs
        self.w.which, self.w.pairs = &which[0], &pairs[0, 0]

    cdef void aim(self):
        """Update the addresses of arrays, which change when the state grows."""
        cdef CollapsedState state = self.state
        cdef Components components = state.components
        cdef move_state *w = &self.w
        cdef int32_t[::1] labels = state.labels
        cdef Py_ssize_t[::1] ks
        cdef double[::1] scores
        cdef Py_ssize_t capacity = state.slots.capacity
        if self.lists.n_slots < capacity:
            self.lists.grow(capacity)
        if self.ks is None or self.ks.shape[0] < capacity:
            self.ks, self.scores = np.zeros(capacity, dtype=np.intp), np.zeros(2 * capacity + 1)
        ks, scores = self.ks, self.scores
        w.ks, w.scores = &ks[0], &scores[0]
        w.slots, w.labels = &state.slots, &labels[0]
        w.d.c, w.d.work = &components.c, &components.work[0]
        w.d.members, w.d.offset = &self.lists.table, state.slots.offset
        w.d.a, w.d.b = capacity - 2, capacity - 1
        w.d.fills_a = w.d.fills_b = False
        w.log_joint = state.log_joint

    def begin(self, n_moves):
        """Prepare a run of moves: prior masses of new clusters, and the random stream."""
        cdef const double[::1] masses
        cdef CollapsedState state = self.state
        weights, N = state.model.weights, state.data.n_rows
        most = min(N, state.n_clusters + n_moves + 1, N if weights.max_components is None else weights.max_components)
        self.masses = np.ascontiguousarray(weights.log_new_mass(N - 1, most), dtype=np.float64)
        masses = self.masses
        self.w.d.log_new_mass = &masses[0]
        self.w.seed, self.w.step = state.seed, state.n_steps
        self.w.n_shifted = 0

    def grow(self):
        """Make room for a new cluster and for two sides."""
        cdef CollapsedState state = self.state
        state.ensure_spare()
        if state.slots.n_slots > state.slots.capacity - 2:
            state._grow(state.slots.n_slots + 2 + state.slots.n_slots // 8)
        self.aim()

    # ---- the step --------------------------------------------------------------------------------------------------

    def run(self, Py_ssize_t n_moves):
        """Make the moves of the plan; an interrupt leaves a valid state between two moves."""
        cdef move_state *w = &self.w
        cdef CollapsedState state = self.state
        cdef Py_ssize_t start = 0, at = 0, moves = FIRST_MOVES, stop, failed_at = -1
        cdef int code
        self.begin(n_moves)
        self.aim()
        self.stamp = None               # until `end_step`: after an interrupt the lists are made anew
        while start < n_moves:
            stop = min(n_moves, start + moves)
            clock = perf_counter()
            with nogil:
                code = run_moves(w, start, stop, &at)
            clock = perf_counter() - clock
            self.note()
            PyErr_CheckSignals()        # compiled code runs no bytecode, so Python does not check by itself
            start = at
            if code == GROW:
                self.grow()
            elif code == AWAY:
                self.away(at)
                self.note()
                start = at + 1
            elif code == EXPFAM_NUMERICAL and failed_at != at:      # a second try with recomputed statistics
                failed_at = at
                state.refresh()
                self.aim()
            elif code:
                raise self.failure(code)
            if clock < LONGEST_CALL / 2:
                moves = min(2 * moves, n_moves)
            elif clock > 2 * LONGEST_CALL:
                moves = max(1, moves // 2)

    cdef int note(self) except -1:
        """Update the state's totals by the moves since the last call."""
        self.state.log_joint = self.w.log_joint
        self.state.n_moves += self.w.n_shifted
        self.state.stamp += 1
        self.w.n_shifted = 0
        return 0

    def end_step(self):
        """Finish a step: call the state's own `settle`.

        Where this call changes labels, the next step makes new member lists.
        """
        known = self.state.stamp
        self.state.settle()
        self.stamp = known if self.state.stamp == known else None
        self.schedule.n_calls += 1

    def run_adapting(self):
        """Make the moves of a step, as many as the schedule says; return their number."""
        schedule, state = self.schedule, self.state
        if schedule.n_next == 0:
            schedule.guess(self.moves, state.n_clusters)
        if not schedule.is_adapting:
            self.draw_plan(schedule.n_moves)
            self.run(schedule.n_moves)
            self.end_step()
            schedule.rest()
            return schedule.n_moves
        self.w.d.evidence_cost = self.cost_of_evidence()
        n_done, done, accepted, goes_on = 0, 0.0, 0, True
        while goes_on:
            n_moves = schedule.n_next
            self.w.first = n_done
            self.draw_plan(n_moves)
            self.run(n_moves)
            n_done += n_moves
            work, gained = self.work_done - done, self.n_accepted - accepted
            done, accepted = self.work_done, self.n_accepted
            schedule.note(work=work, n_moves=n_moves, n_clusters=state.n_clusters, is_lively=accepted > 0)
            goes_on = schedule.goes_on(
                work=work, n_accepted=gained, work_of_step=done, n_clusters=state.n_clusters
            )
        self.end_step()
        return n_done

    @property
    def n_accepted(self):
        """Return the number of splits and merges accepted in the last step."""
        return self.w.n[1] + self.w.n[3]

    def cost_of_evidence(self):
        """Return the work of a cluster's evidence, in predictives of one cluster.

        It is 1 for real data. For discrete data it is the number of a cluster's present words, on average, divided by
        the number of entries of a row that are not 0, whether the data are dense or sparse.
        """
        data = self.state.data
        reads_entries = data.family.is_discrete and data.family.accepts_sparse
        if not (data.has_sparse_phi or reads_entries):
            return 1.0
        S = self.state.components.export()[1]
        words = np.count_nonzero(S.data if sparse.issparse(S) else S) / max(self.state.n_clusters, 1)
        per_row = data.n_nonzero / data.n_rows if reads_entries or data.is_sparse else data.n_features
        return float(max(1.0, words / max(per_row, 1.0)))

    cdef object failure(self, int code):
        if code == NO_MEMORY:
            return MemoryError("no memory for the list of a cluster's members")
        return (<Components> self.state.components).fail(code, self.w.d.u, self.w.d.k_u)

    @property
    def counts(self):
        """Return the numbers of proposed and accepted splits and merges of the last step, by name."""
        names = ("splits_proposed", "splits_accepted", "merges_proposed", "merges_accepted")
        return dict(zip(names, self.w.n))

    @property
    def work_done(self):
        """Return the work of the last step, in predictives of one cluster."""
        return self.w.d.work_done

    def _set_eager(self, bint eager):
        """Refuse no merge before its log q is complete: a reference for early refusals."""
        self.w.eager = eager

    cdef int away(self, Py_ssize_t place) except -1:
        """Make one move whose sides come from a Python object."""
        cdef Py_ssize_t number = self.w.which[place]
        rng = generator(self.state.seed, "move", unit=int(self.w.first) + place, step=self.state.n_steps)
        allocator = self.bound[number].get("allocator")
        cdef int code = away_move(&self.w, self.state, self.lists, self.moves[number], allocator, place, rng)
        if code:
            raise self.failure(code)
        return 0

    # ---- files -----------------------------------------------------------------------------------------------------

    def to_arrays(self):
        """Return the schedule, and the member lists in their order, as a dict of arrays.

        Hash tables are not stored: they follow from seed and step.
        """
        arrays = {"schedule": self.schedule.to_arrays(), "stamp": np.array(-1 if self.stamp is None else self.stamp)}
        return arrays | ({} if self.stamp is None else {"lists": self.lists.to_arrays()})

    def from_arrays(self, arrays):
        """Restore what `to_arrays` returned.

        Raises
        ------
        ArchiveError
            For arrays that do not fit these moves and data.
        """
        state = self.state
        with restoring("what is stored of the moves"):
            self.schedule.from_arrays(arrays["schedule"])
            stamp = int(integers(arrays, "stamp", (), -1))
            self.stamp, self.lists = None if stamp < 0 else stamp, None
            if stamp >= 0:
                integers(arrays["lists"], "n_items", (), state.data.n_rows, state.data.n_rows + 1)
                self.lists = MemberLists.from_arrays(arrays["lists"])
                if stamp == state.stamp and not np.array_equal(self.lists.labels(), state.labels):
                    raise ArchiveError("the lists of members are not those of the labels: the file was altered")


def _checked_pairs(pairs, size, state):
    """Check the anchors that a law has drawn; return them as (size, 2) intp."""
    pairs = np.ascontiguousarray(pairs, dtype=np.intp)
    if pairs.shape != (size, 2):
        raise PluginError(f"draw_pairs({size}) of an anchor law must give shape ({size}, 2); got {pairs.shape}")
    if size and (pairs.min() < -1 or pairs.max() >= state.data.n_rows):
        raise PluginError(f"anchors must be data below {state.data.n_rows}, or -1; got {pairs.min()}..{pairs.max()}")
    return np.where(pairs.min(axis=1, keepdims=True) < 0, -1, pairs)


class CollapsedSplitMerge(Kernel):
    """Split and merge moves over a collapsed state, drawn from a fixed mixture of kinds.

    Parameters
    ----------
    moves : sequence of Move
        Kinds of moves, see `expfam.samplers.split_merge.moves`.
    n_moves : int or "auto"
        Moves of a step. ``"auto"`` makes as many moves as cost 10 % of the work of a Gibbs sweep. The number follows
        the measured work of moves in the first 50 steps of a chain, and stays constant after them. In these first steps
        more moves are made while enough of them are accepted.
    every : int or "auto"
        Steps from one with moves to the next; the steps between them do nothing. ``"auto"`` is 1; with
        ``n_moves="auto"`` it is up to 100 for small data sets of some hundred rows, where the fixed cost of a step with
        moves is large beside that of a sweep.
    n_threads : int or None
        Threads that make hash tables. The labels do not depend on it.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import DirichletProcess, MixtureModel, Poisson
    >>> from expfam.samplers import CollapsedSplitMerge, sample
    >>> from expfam.samplers.split_merge.moves import MemberMoves
    >>> X = np.repeat([[0, 9], [9, 0]], 20, axis=0)
    >>> kernel = CollapsedSplitMerge([MemberMoves()], n_moves=20)
    >>> state = kernel.init(MixtureModel(Poisson(), DirichletProcess()), X, seed=0, start="one")
    >>> trace = sample(kernel, state, 20)
    >>> state.n_clusters
    2

    Notes
    -----
    Jain and Neal 2004, "A split-merge Markov chain Monte Carlo procedure for the Dirichlet process mixture model". The
    classes of the moves name the other papers. Alone, some kinds of moves cannot reach every partition: use them in a
    `Cycle` with `CollapsedGibbs`.
    """

    state_type = CollapsedState
    takes_known = frozenset({"clusters", "classes", "links"})
    _constraints = {"n_moves": (Integer(1), "auto"), "every": (Integer(1), "auto")}

    def __init__(self, moves, *, n_moves="auto", every="auto", n_threads=None):
        self.moves, self.n_moves, self.every, self.n_threads = moves, n_moves, every, n_threads

    def choose_moves(self, model, data):
        """Return the moves for a bound model and its data: list of Move."""
        return moves_of(self.moves)

    def check(self, model, data):
        """Raise an error for settings out of range, and for moves that do not fit family or data."""
        super().check(model, data)
        resolve_n_threads(self.n_threads)
        for move in self.choose_moves(model, data):
            if not getattr(move, "kind", None) in _KINDS:
                raise CapabilityError(f"{type(self).__name__} needs moves of the kinds {sorted(_KINDS)}; got {move!r}")
            move.check(model, data)

    def init_state(self, model, data, labels, *, seed):
        """Make the collapsed state of the labels."""
        return self.state_type(model, data, labels, seed=seed)

    def memory(self, model, data, n_clusters):
        """Return the bytes of member lists, scratch and hash tables."""
        per_row = 32 + moves_memory_per_row(self.choose_moves(model, data), model, data)
        moves = most_moves(data.n_rows, n_clusters) if self.n_moves == "auto" else self.n_moves
        return int(per_row * data.n_rows + 64 * moves)

    def runner(self, state):
        """Return the `MoveRunner` of this chain from the state's memory, or make it."""
        kept = state.memory.get("split_merge")
        if isinstance(kept, MoveRunner) and kept.kernel is self:
            return kept
        moves = self.choose_moves(state.model, state.data)
        if not isinstance(kept, MoveRunner) or kept.moves != moves:
            arrays, kept = kept, MoveRunner(state, moves, self.n_threads)
            if isinstance(arrays, dict):
                kept.from_arrays(arrays)
            state.memory["split_merge"] = kept
        kept.kernel = self
        return kept

    def move(self, state):
        """Make the moves of a step, or none in a step between those with moves."""
        runner = self.runner(state)
        schedule = runner.schedule
        if schedule.n_resting > 0:
            schedule.n_resting -= 1
            return 0, 0, dict.fromkeys(runner.counts, 0) | {"n_moves": 0}
        runner.open()
        if self.n_moves == "auto":
            n_moves = runner.run_adapting()
        else:
            n_moves = int(self.n_moves)
            runner.draw_plan(n_moves)
            runner.run(n_moves)
            runner.end_step()
        if self.every != "auto":
            schedule.n_resting = self.every - 1
        counts = runner.counts
        proposed = counts["splits_proposed"] + counts["merges_proposed"]
        accepted = counts["splits_accepted"] + counts["merges_accepted"]
        return proposed, accepted, counts | {"n_moves": n_moves}

    def reversed(self):
        """Return the kernel itself if every step makes the same number of moves, else None.

        The moves of a step are alike in law, and each is reversible.
        """
        is_even = self.n_moves != "auto" and self.every in ("auto", 1)
        return self if is_even else None

    def frozen(self, state):
        """Return the kernel with the number of moves that this chain has adapted so far.

        It makes the steps after the warm-up, in which nothing may be adapted.
        """
        kept = state.memory.get("split_merge")
        if self.n_moves == "auto" and isinstance(kept, dict):  # of a checkpoint, which no step has read yet
            kept = self.runner(state)
        if self.n_moves != "auto" or not isinstance(kept, MoveRunner):
            return self
        every = kept.schedule.period if self.every == "auto" else self.every
        return type(self)(**(self.get_params() | {"n_moves": kept.schedule.n_moves, "every": every}))
