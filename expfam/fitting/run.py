"""One run of a chain: its start, its phases, and what is done at its end."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from expfam.fitting.automatic import Begun, kept_begin
from expfam.fitting.endings import open_ending
from expfam.fitting.kept import BestDraw
from expfam.fitting.phases import MOST_STEPS, adapted_kernel, automatic_phases, learns, planned_phases, ruled_phase
from expfam.fitting.steps import run_phases, with_progress
from expfam.samplers.chain.kernel import Cycle
from expfam.samplers.chain.trace import Trace
from expfam.samplers.hyper.record import HyperRecorder, prior_of_updates
from expfam.samplers.warm_starts.sample_rows import has_many_rows
from expfam.samplers.warm_starts.settle import Settler, fit_to_start, least_gain
from expfam.stages import stage
from expfam.structures.ground.threads import single_blas

if TYPE_CHECKING:
    import numpy.typing as npt

    from expfam.fitting.endings import Ending
    from expfam.fitting.phases import Phase
    from expfam.fitting.plan import Plan
    from expfam.samplers.chain.agreement import PartitionRecorder
    from expfam.samplers.warm_starts.candidates import Divisions

_MOST_ENDINGS = 3  # of a run that goes on after its end was raised


class ChainRun(NamedTuple):
    """What one chain has made.

    Attributes
    ----------
    state : State
        As the last step left it.
    trace : Trace
    best : BestDraw
        Of the steps that count.
    phases : list of Phase
    name : str or None
        Start that a search has chosen.
    start : (N,) ndarray of int, or None
        Labels of that start.
    recorder : PartitionRecorder or None
    hyper : HyperRecorder or None
        Where draws are kept and hyper-parameters are drawn with them.
    ending : Ending or None
        Where the run was taken uphill after its last step.
    highest : BestDraw or None
        Of all steps.
    divisions : Divisions or None
        Of all rows, if the search for the start has made some.
    found : tuple of (N,) int32 ndarray
        Partitions into a given number that the search has found beside the start.
    """

    state: Any
    trace: Trace
    best: BestDraw
    phases: list
    name: str | None
    start: Any
    recorder: PartitionRecorder | None = None
    hyper: HyperRecorder | None = None
    ending: Ending | None = None
    highest: BestDraw | None = None
    divisions: Divisions | None = None
    found: tuple[npt.NDArray[np.int32], ...] = ()

    def others(self) -> list[npt.NDArray[np.integer]]:
        """Return earlier partitions of the run to which its end is compared."""
        found = [None if self.highest is None else self.highest.labels, self.best.labels, self.start, *self.found]
        return [labels for labels in found if isinstance(labels, np.ndarray)]

    def has_converged(self) -> bool:
        """Return whether a rule or tolerance has ended the run, or it was level at its end."""
        if self.ending is not None:
            return self.ending.is_settled  # it was taken uphill from the last step, however the steps have ended
        last, ruled = self.phases[-1], ruled_phase(self.phases)
        if ruled.rule is None:
            return bool(last.kernel.is_done(self.state) or not last.n_steps)
        is_through = len(ruled.rule.objectives) >= ruled.n_steps
        return bool(ruled.rule.is_reached or (is_through and ruled.rule.is_level))

    def rises_still(self) -> bool:
        """Return whether all steps of the rule were made while the log joint still rose."""
        last, ruled = self.phases[-1], ruled_phase(self.phases)
        n_counted = len(self.trace) - self.trace.n_warmup
        is_through = n_counted == MOST_STEPS if ruled is last else n_counted > 0
        return ruled.rule is not None and ruled.n_steps == MOST_STEPS and is_through


class Shared(Protocol):
    """What a chain shares with the others of a fit."""

    def recorder(self, state: Any) -> PartitionRecorder:
        """Return what records the counted steps."""

    def pause(self, info: Any, state: Any) -> bool:
        """Take note of a step on a sample of the rows; return whether the run is over."""

    def entered(self, kernel: Any, state: Any, *, is_last: bool) -> None:
        """Take note of a phase that begins.

        Parameters
        ----------
        kernel : Kernel
            Of the phase.
        state : State
        is_last : bool
            Whether the phase is the last one.
        """


def run_chain(plan: Plan, *, chain: int = 0, shared: Shared | None = None) -> ChainRun:
    """Run one chain from its start to its end.

    Parameters
    ----------
    plan : Plan
        Of this chain: the first of its starts is taken.
    chain : int
        Number of the chain.
    shared : Shared, optional
        What it shares with other chains.

    Returns
    -------
    ChainRun
    """
    start = plan.starts[0]
    begun = Begun(plan.model, start, None, False)
    if plan.searches_start(start):
        with stage("searching a start"):
            begun = kept_begin(plan, on_sample=() if shared is None else (shared.pause,))
    ways = {"is_sampled": plan.has_rule and begun.is_sampled, "splits": begun.splits}
    phases = planned_phases(plan, **ways, is_searched=begun.name is not None)
    state = plan.kernel.init(begun.model, plan.seen, seed=plan.seed, start=begun.start)
    if begun.name is None and (plan.is_automatic or plan.shares_variance(start)):
        fit_to_start(state, list(plan.learned), adapts_prior=plan.adapts_prior)
    run = run_chain_phases(plan, state, phases, begun=begun, chain=chain, shared=shared)
    if not plan.seeks_open_mode or plan.draws_of_chain:
        return run
    return _gone_on(plan, run, begun)


def _gone_on(plan, run, begun):
    """Take the best draw and the start uphill; make more steps where that has gained."""
    model, data = plan.model, plan.seen
    settler = Settler(model, data, list(plan.learned), plan.adapts_prior, run.state.seed, plan.n_threads)
    try:
        for left in reversed(range(_MOST_ENDINGS)):
            if run.trace.interrupted or run.best.labels is None:
                return run
            others = {} if run.start is None else {"start": run.start, **begun.others}
            others |= {} if run.ending is None else {"ending": run.ending.labels}
            candidates = {"chain": run.best.labels, **others}
            before = run.ending
            with stage("comparing the end with other partitions"), single_blas():
                ending = open_ending(settler, candidates, splits=begun.splits, before=before, divisions=run.divisions)
            run = run._replace(ending=ending, name=ending.name if ending.name in begun.others else run.name)
            is_same = before is not None and np.array_equal(ending.labels, before.labels)
            if is_same or ending.gain < least_gain(data.n_rows) or not left:  # the same steps would be made again
                return run
            is_sampled = has_many_rows(data.n_rows, plan.max_clusters)
            if is_sampled and not begun.splits:  # a draw of a sweep alone lies below the mode
                return run
            state = plan.kernel.init(ending.model, data, seed=run.state.seed, start=ending.labels)
            options = {"is_sampled": is_sampled, "is_open": begun.splits, "goes_on": True}
            phases = automatic_phases(plan.kernel, plan.learned, data.n_rows, **options)
            more = run_chain_phases(plan, state, phases, trace=run.trace)
            run = more._replace(name=run.name, start=run.start, ending=ending, divisions=run.divisions)
    except KeyboardInterrupt:
        run.trace.interrupted = True
    return run


def run_chain_phases(
    plan: Plan,
    state: Any,
    phases: list[Phase],
    *,
    begun: Begun | None = None,
    chain: int = 0,
    shared: Shared | None = None,
    trace: Trace | None = None,
) -> ChainRun:
    """Make the steps of a chain.

    Parameters
    ----------
    plan : Plan
    state : State
        Changed in place.
    phases : list of Phase
    begun : Begun, optional
        Where the steps begin.
    chain : int
    shared : Shared, optional
    trace : Trace, optional
        Goes on from earlier steps.
    """
    state.chain = chain
    best, highest = BestDraw(), BestDraw()
    trace = Trace(max_kept=max(2, plan.draws_of_chain)) if trace is None else trace
    recorder = None if shared is None else shared.recorder(state)
    prior = prior_of_updates(phases[-1].kernel, state.model) if plan.draws_of_chain else None
    hyper = None if prior is None else HyperRecorder(prior)

    def entered(kernel, former, n_steps, is_last):
        if shared is not None:
            shared.entered(kernel, state, is_last=is_last)
        return _entered(plan, kernel, former, state, trace, n_steps, is_last=is_last)

    run_phases(
        state,
        phases,
        callbacks=partial(with_progress, plan.callbacks),
        counted=[each for each in (best, recorder, hyper) if each is not None],
        observed=[highest] if plan.has_rule else [],
        trace=trace,
        entered=entered,
    )
    name, start = (None, None) if begun is None or begun.name is None else (begun.name, begun.start)
    divisions = None if begun is None else begun.divisions
    found = () if begun is None or not plan.keeps_number else tuple(begun.others.values())
    ways: dict[str, Any] = {"highest": highest, "divisions": divisions, "found": found}
    return ChainRun(state, trace, best, phases, name, start, recorder, hyper, **ways)


def _entered(plan, kernel, former, state, trace, n_steps, *, is_last):
    """Return the kernel of a phase that is about to begin."""
    if is_last and plan.draws_of_chain and kernel.makes_draws:
        trace.keep_every = max(1, -(-n_steps // plan.draws_of_chain))
    adapted = adapted_kernel(kernel, former, state) if is_last else kernel
    # proposals are made anew for each phase, not kept twice; the automatic kernels keep theirs in the same places
    if not (plan.is_automatic and type(kernel) is Cycle and learns(former, kernel)):
        state.memory.clear()
    return adapted
