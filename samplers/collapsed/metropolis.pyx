"""Collapsed sweeps by Metropolis-Hastings steps with the exact predictive.

A proposal suggests a cluster for each datum. For every proposal the chain is exact if both directions of a move use the
same law q. The modes ensure this in different ways. "crossfit": the data are cut into blocks, and for each block q is
made from the data outside it; draws for the block are then independent and run in parallel, and a single writer accepts
them one by one. "removed": q is made from all data except the datum that moves. "included": q is made from all data,
and the reverse move uses the q after the move. "frozen": q never changes. A datum costs one draw, and two predictives
of one cluster each if another cluster is proposed.

All modes except "frozen" work on set partitions: the options of q are the clusters that hold other data, and "a new
cluster".

The modes "published" and "asynchronous" are in `published`; the kernel `CollapsedMetropolis` offers them too.
"""

from contextlib import nullcontext

import numpy as np

from libc.math cimport INFINITY, exp, log
from libc.stdint cimport uint64_t

from expfam.contracts cimport EXPFAM_NEW, EXPFAM_NUMERICAL, EXPFAM_OK
from expfam.families.components cimport Components
from expfam.samplers.chain.accept cimport accept
from expfam.samplers.collapsed._sweep cimport (
    CALL_ROWS, EXPFAM_STAYS, GROW, MetropolisSweep, list_inner, find_place, place, row_at, score_of, move_into,
    shift_one, sweep_state,
)
from expfam.samplers.proposals.handle cimport ProposalHandle
from expfam.samplers.states.classes cimport class_allows
from expfam.samplers.states.collapsed cimport CollapsedState, slot_claim, slot_find_spare, slot_table
from expfam.structures.ground.rng cimport ACCEPT, MOVE, philox_aim, philox_double, philox_init, philox_stream
from expfam.structures.simd.prefetch cimport EXPFAM_PREFETCH

from expfam.errors import CapabilityError, ExactnessWarning
from expfam.params import Integer, refuse_unused
from expfam.samplers.chain.kernel import OPPOSITE, Kernel
from expfam.samplers.collapsed.published import asynchronous_sweep, published_sweep
from expfam.samplers.proposals.base import MODES
from expfam.samplers.proposals.by_name import named_proposal
from expfam.structures.ground.rng import generator
from expfam.structures.ground.threads import resolve_n_threads, team_of
from expfam.user_warnings import warn

cdef enum:
    PARALLEL_WORK = 2000000     # entries times clusters of a block that several threads need: some tenths of a ms
    AHEAD = 5                   # number of data by which memory is prefetched ahead
    WORDS_AHEAD = 2             # number of data by which counts of their clusters are prefetched ahead
    LABELS_AHEAD = 12           # number of data by which labels are prefetched ahead

_ONE_BY_ONE = ("removed", "included", "published", "asynchronous")
_FINITE_ONLY = ("included", "frozen", "published", "asynchronous")
_INEXACT = ("published", "asynchronous")


# ---- crossfit: a new cluster is replaced by an exact draw among the inner ones --------------------------------------

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
        if m.classes.row_class != NULL and not class_allows(&m.classes, at.i, k, 0):
            m.scores[j] = -INFINITY
    for j in range(n):
        best = max(best, m.scores[j])
    if best == -INFINITY and m.classes.row_class != NULL:   # all of them are forbidden: the move is refused
        n_options[0], total[0] = n, best
        return EXPFAM_OK
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
    code = find_place(m, i, &at)
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
    return move_into(m, &at, target, score)


cdef inline void prefetch_rows(sweep_state *m, const Py_ssize_t *rows, const Py_ssize_t *drawn, Py_ssize_t j,
                               Py_ssize_t stop) noexcept nogil:
    """Prefetch the memory of the next data: the writer waits for memory, not for arithmetic."""
    cdef Py_ssize_t old
    if j + LABELS_AHEAD < stop and drawn[j + LABELS_AHEAD] != EXPFAM_STAYS:
        EXPFAM_PREFETCH(m.labels + rows[j + LABELS_AHEAD])
    if j + AHEAD < stop and drawn[j + AHEAD] != EXPFAM_STAYS:
        m.c.expect(m.c.self, rows[j + AHEAD], EXPFAM_NEW)
    if j + WORDS_AHEAD < stop:
        j += WORDS_AHEAD
        if drawn[j] == EXPFAM_STAYS:
            return
        old = m.labels[rows[j]]
        m.c.expect(m.c.self, rows[j], old)
        if drawn[j] != EXPFAM_NEW:
            m.c.expect(m.c.self, rows[j], drawn[j])


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
            prefetch_rows(m, rows, drawn, j, stop)
        if drawn[j] == EXPFAM_STAYS:
            continue
        if not slot_find_spare(m.slots):
            return GROW
        philox_aim(&rng, m.row_offset + <uint64_t> rows[j], m.step)
        code = decide(m, rows[j], drawn[j], log_back[j], &rng)
        if code:
            return code
    at[0] = stop
    return EXPFAM_OK


# ---- one by one ----------------------------------------------------------------------------------------------------

cdef int move_removed(sweep_state *m, Py_ssize_t i, philox_stream *move, philox_stream *rng) noexcept nogil:
    """Move datum i by a q that is made from all other data."""
    cdef place at
    cdef Py_ssize_t k_old, k_new, target
    cdef double log_back, score
    cdef int code = find_place(m, i, &at)
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
    code = move_into(m, &at, target, score)
    if code:
        m.p.restore(m.p.self, i, at.old)
        return code
    return m.p.moved(m.p.self, i, at.old, target)


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
    code = find_place(m, i, &at)
    if code or (at.alone and k_new == EXPFAM_NEW):      # alone in its cluster: the partition would be the same
        return code
    m.n_proposed += 1
    code = ratio_included(m, &at, k_new, &target, &score, &ratio)
    if code:
        return code
    if accept(ratio, rng):
        return move_into(m, &at, target, score)
    return shift_one(m, i, target, at.old)


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
    code = find_place(m, i, &at)
    if code:
        return code
    m.n_proposed += 1
    code = ratio_frozen(m, &at, k_new, log_back, &score, &ratio)
    if code or not accept(ratio, rng):
        return code
    if m.slots.counts[k_new] == 0:
        slot_claim(m.slots, k_new)
    return move_into(m, &at, k_new, score)


cdef enum Mode:
    REMOVED = 1
    INCLUDED = 2
    FROZEN = 3


cdef int move_one(sweep_state *m, Py_ssize_t i, int mode, philox_stream *move, philox_stream *rng) noexcept nogil:
    cdef Py_ssize_t k_new
    cdef double log_back
    cdef int code
    if mode == REMOVED:
        return move_removed(m, i, move, rng)
    if mode == INCLUDED:
        return move_included(m, i, move, rng)
    code = m.p.draw(m.p.self, i, m.labels[i], &move.bitgen, &k_new, &log_back, m.proposal_work)
    return code if code else move_frozen(m, i, k_new, log_back, rng)


cdef int move_rows(sweep_state *m, int mode, Py_ssize_t start, Py_ssize_t stop, Py_ssize_t *at) noexcept nogil:
    """Move data at consecutive places of the sweep; set `at` to the first unfinished one."""
    cdef philox_stream rng, move
    cdef Py_ssize_t nth, i
    cdef int code
    philox_init(&move, m.seed, MOVE)
    philox_init(&rng, m.seed, ACCEPT)
    for nth in range(start, stop):
        at[0] = nth
        if mode != FROZEN and not slot_find_spare(m.slots):
            return GROW
        i = row_at(m, nth)
        philox_aim(&move, m.row_offset + <uint64_t> i, m.step)
        philox_aim(&rng, m.row_offset + <uint64_t> i, m.step)
        code = move_one(m, i, mode, &move, &rng)
        if code:
            return code
    at[0] = stop
    return EXPFAM_OK


# ---- the kernel ------------------------------------------------------------------------------------------------------

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
    order : {"sequential", "backward"}
        "backward" makes the updates of a sweep in the opposite order, in the exact modes; a sweep and its opposite are
        each other's time reversal.
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
    takes_known = frozenset({"clusters", "classes", "links"})
    _constraints = {
        "mode": ("auto", *MODES),
        "n_blocks": (Integer(1), "auto"),
        "order": ("sequential", "backward"),
    }

    def __init__(self, proposal, *, mode="auto", n_blocks="auto", order="sequential", n_threads=None):
        self.proposal, self.mode, self.n_blocks, self.n_threads = proposal, mode, n_blocks, n_threads
        self.order = order

    def choose_proposal(self, model, data):
        """Return the `Proposal` for a bound model and its data; load it if it was given by name."""
        return named_proposal(self.proposal)

    def choose_mode(self, model, data):
        """Return the mode; "auto" is resolved by the sizes of a bound model and its data.

        It stands for "crossfit" where the proposal has no mode "removed", and for N K from 1,000,000 on; otherwise for
        "removed".
        """
        if self.mode != "auto":
            return self.mode
        modes = self.choose_proposal(model, data).modes
        K = model.weights.max_components or max(1, round(data.n_rows**0.5))
        if "removed" not in modes:
            return "crossfit"
        return "crossfit" if data.n_rows * K >= 1_000_000 and "crossfit" in modes else "removed"

    def check(self, model, data):
        """Refuse settings out of range, and modes that proposal or weights do not allow."""
        super().check(model, data)
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
        if self.mode != "auto" and mode != "crossfit":
            refuse_unused(self, ["n_blocks"], why=f"mode={mode!r}", remedy="take mode='crossfit'")
        if mode in _INEXACT:
            refuse_unused(self, ["order"], why=f"mode={mode!r}", remedy="take an exact mode")
        resolve_n_threads(self.n_threads)
        if data.known is not None and mode in (*_INEXACT, "frozen"):
            raise CapabilityError(f"mode {mode!r} cannot use what is known of rows: take 'crossfit' or 'removed'")
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
            warn(
                f"mode {mode!r} follows the paper to the letter: its stationary law is not the posterior",
                ExactnessWarning,
            )
        cdef MetropolisSweep worker = self.worker(state, mode)
        try:
            if mode == "crossfit":
                self._crossfit(state, worker)
            else:
                worker.open(state, mode)
                worker.m.is_backward = self.order == "backward"
                if mode == "asynchronous":
                    asynchronous_sweep(worker, self.n_threads)
                elif mode == "published":
                    published_sweep(worker)
                else:
                    worker.move_in_order(&move_rows, _CODES[mode])
        except BaseException:
            worker.lose()           # the statistics of the proposal may lack some of the moves
            raise
        return _finish(worker, state, mode)

    def worker(self, state, mode):
        """Return the bound proposal of this chain, which is kept in the state's memory.

        It is bound again after a change of hyper-parameters.

        Parameters
        ----------
        state : CollapsedState
        mode : str
            Mode of the sweep, not "auto".

        Raises
        ------
        CapabilityError
            The mode moves rows one by one and the proposal cannot, or hyper-parameters have changed in mode "frozen".
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
        known = state.data.known
        rng = generator(state.seed, "order", step=state.n_steps)
        order = rng.permutation(state.data.n_rows if known is None else known.free)
        if not len(order):
            return
        n_blocks = min(self.blocks(state, worker.handle.owner), len(order))
        blocks = [np.sort(rows) for rows in np.array_split(order, n_blocks)]
        if self.order == "backward":
            blocks = [np.ascontiguousarray(rows[::-1]) for rows in reversed(blocks)]
        n_threads = 1 if worker.handle.needs_gil or not pays(state, len(blocks[0])) else self.n_threads
        keeps_team = hasattr(worker.handle.owner, "team")
        with team_of(n_threads if keeps_team else 1) as team:
            for place, rows in enumerate(blocks):
                _one_block(worker, state, rows, n_threads, team if keeps_team else None, place == 0)

    def reversed(self):
        """Return the sweep in the opposite order, or None for the modes that follow the paper."""
        if self.mode in _INEXACT:
            return None
        return type(self)(**(self.get_params() | {"order": OPPOSITE[self.order]}))

    def blocks(self, state, owner=None):
        """Return the number of blocks of a crossfit sweep.

        Parameters
        ----------
        state : CollapsedState
        owner : bound proposal, optional
            A proposal with a method `shift` gets more blocks, since it costs less to bring up to date.
        """
        N = state.data.n_rows
        if self.n_blocks != "auto":
            return min(int(self.n_blocks), N)
        return min(max(N // 96, 16), 128 if owner is None or hasattr(owner, "shift") else 16, N)


_CODES = {"removed": REMOVED, "included": INCLUDED, "frozen": FROZEN}


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

cdef int decide_block(MetropolisSweep worker, rows, drawn, log_back) except -1:
    """Accept or refuse the draws of a block one by one, in one thread."""
    cdef Py_ssize_t[::1] row = rows, k_new = drawn
    cdef double[::1] back = log_back
    cdef Py_ssize_t start = 0, stop, at = 0, before, n = len(rows), failed_at = -1
    cdef int code
    while start < n:
        stop = min(n, start + CALL_ROWS)
        before = worker.m.n_moved
        with nogil:
            code = decide_rows(&worker.m, &row[0], &k_new[0], &back[0], start, stop, &at)
        worker.note(before)
        if code == GROW:
            worker.grow()
        elif code == EXPFAM_NUMERICAL and failed_at != at:      # try again with recomputed statistics
            failed_at = at
            worker.state.refresh()
            worker.aim()
        elif code:
            raise (<Components> worker.state.components).fail(code, row[at], worker.state.labels[row[at]])
        start = at
    return 0


def _one_block(MetropolisSweep worker, CollapsedState state, rows, n_threads, team, bint is_first):
    """Draw for the data of a block by the data outside it, and accept the draws one by one.

    `team` is None for a proposal that follows the moves by tasks of the pool.
    """
    owner = worker.handle.owner
    knows = worker.knows(state) and worker.former is not None and (getattr(owner, "is_exact", False) or not is_first)
    state.ensure_spare()
    if is_first:
        worker.begin(state)
    if hasattr(owner, "n_threads"):
        owner.n_threads = n_threads
    if team is not None:
        owner.team = team
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
    with nullcontext(team) if team is not None else team_of(n_threads) as drawing:
        drawn, log_back = worker.draw(rows, drawing, by_block=True)
    decide_block(worker, rows, drawn, log_back)
    worker.stamp = state.stamp
