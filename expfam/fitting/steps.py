"""The steps of all phases of a run of any estimator, and whether it was over at their end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from expfam.fitting.kept_run import kept_steps
from expfam.samplers.chain.callbacks import Plateau, Progress, kept_open
from expfam.samplers.chain.driver import sample
from expfam.samplers.chain.trace import Trace
from expfam.stages import asked_callbacks, stage

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from expfam.fitting.phases import Phase


def run_phases(
    state: Any,
    phases: list[Phase],
    *,
    callbacks: Callable[[int | None], list],
    counted: Sequence = (),
    observed: Sequence = (),
    trace: Trace | None = None,
    entered: Callable[[Any, Any, int, bool], Any] | None = None,
    name: str = "steps",
) -> Trace:
    """Make the steps of all phases.

    All phases but the last one are the warm-up.

    Parameters
    ----------
    state : State
        Changed in place.
    phases : list of Phase
    callbacks : callable
        ``callbacks(n_steps)`` returns those that see every step; `n_steps` is None where a rule decides.
    counted, observed : sequence of callable
        Callbacks that see the last phase alone, and all phases.
    trace : Trace, optional
        Goes on from earlier steps.
    entered : callable, optional
        ``entered(kernel, former, n_steps, is_last)`` returns the kernel of a phase that is about to begin.
    name : str
        What the steps are called while they are shown.

    Returns
    -------
    Trace
    """
    phases = [phase for phase in phases[:-1] if phase.n_steps] + phases[-1:]
    total = sum(phase.n_steps for phase in phases)
    trace = Trace() if trace is None else trace
    trace.n_warmup = total - phases[-1].n_steps
    former = phases[0].kernel
    kept = kept_steps(state, trace, [*counted, *observed, *(phase.rule for phase in phases if phase.rule is not None)])
    with kept_open(callbacks(None if any(phase.rule for phase in phases) else total)) as watched:
        for place, (kernel, n_steps, rule) in enumerate(phases, start=1):
            is_last = place == len(phases)
            if kept is not None and place < kept.phase:  # made before the run was ended
                former = kernel
                continue
            if kept is not None:
                kept.enter(place)
            others: list = [*observed] if rule is None else [*observed, rule]
            if is_last:
                trace.n_warmup = len(trace)  # a phase may end early
                others += counted
            if entered is not None:
                kernel = entered(kernel, former, n_steps, is_last)
            former = kernel
            others = [*watched, *others]
            if kept is not None:
                n_steps = _left(kept, kernel, state, n_steps)
                others = kept.watch(others)
            with stage(name):
                sample(kernel, state, n_steps, callbacks=others, trace=trace)
            if trace.interrupted or any(callback.has_stopped for callback in watched):
                break
            if kept is not None and kept.was_over:
                break
        if not trace.interrupted:
            if kept is not None:
                kept.finish()
            kernel.finish(state)
    return trace


def _left(kept, kernel, state, n_steps):
    """Return the steps of a phase that are left, after what was kept of it is restored."""
    n_made = kept.go_on()
    if kept.has_ended or (n_made and getattr(kernel, "is_done", lambda state: False)(state)):
        return 0
    return n_steps - n_made


def with_progress(callbacks: Any, n_steps: int | None = None) -> list[Any]:
    """Return the callbacks of the user, with a progress bar where one was asked for."""
    return [Progress(n_steps) if isinstance(each, str) else each for each in asked_callbacks(callbacks)]


def was_level(trace: Trace, kernel: Any, state: Any, n_moved: float) -> bool:
    """Return whether an optimiser was done, or the log joint was level at the end of a run.

    It is level where the second half of the counted steps has gained almost nothing over the first one; see `Plateau`.

    Parameters
    ----------
    trace : Trace
    kernel : Kernel
        Of the last steps.
    state : State
        At the end.
    n_moved : float
        Rows, or tokens, that a step moves.
    """
    if trace.interrupted:
        return False
    rule = Plateau(int(n_moved))
    rule.objectives = trace.counted("objective").tolist()
    return bool(kernel.is_done(state) or rule.is_level)
