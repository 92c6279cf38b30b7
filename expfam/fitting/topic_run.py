"""One run of a topic model: its plan, its start and its steps."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from expfam.fitting.steps import run_phases, with_progress
from expfam.stages import stage

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from expfam.fitting.kept_topics import KeptTopics
    from expfam.fitting.phases import Phase
    from expfam.model.data import Dataset
    from expfam.samplers.chain.trace import Trace


@dataclass(frozen=True)
class TopicPlan:
    """What a fit of topics is going to do; nothing of it changes while the fit goes on.

    Attributes
    ----------
    model : AdmixtureModel or HierarchicalProcess
    data : Dataset
    kernel : Kernel
    phases : list of Phase
        The last one has the steps that count.
    start : str or (T,) array_like of int
        As it was given, or what "auto" stands for.
    seed : int
    search : callable or None
        ``search()`` returns a start, where that is left open.
    means : callback or None
        Averages over the counted steps of a sampler.
    kept : KeptTopics or None
        Keeps draws of a sampler.
    observed : sequence of callable
        Callbacks that see all steps.
    """

    model: Any
    data: Dataset
    kernel: Any
    phases: list[Phase]
    start: Any
    seed: int
    search: Callable[[], Any] | None
    means: Any = None
    kept: KeptTopics | None = None
    observed: Sequence[Callable[[Any, Any], Any]] = ()

    @property
    def is_sampled(self) -> bool:
        """Tell whether topics of tokens are drawn."""
        return self.means is not None


class TopicRun(NamedTuple):
    """What a run has made: the state as the last step left it, and the numbers of the steps."""

    state: Any
    trace: Trace


def run_topics(plan: TopicPlan, callbacks: Any) -> TopicRun:
    """Find a start and make all steps of a plan.

    Parameters
    ----------
    plan, callbacks
        What to do, and the callbacks of an estimator.
    """
    start = plan.start
    if plan.search is not None:
        with stage("searching a start"):
            start = plan.search()
    state = plan.kernel.init(plan.model, plan.data, seed=plan.seed, start=start)
    counted = [each for each in (plan.means, plan.kept) if each is not None]
    watching: dict[str, Any] = {
        "callbacks": partial(with_progress, callbacks),
        "counted": counted,
        "observed": plan.observed,
    }
    return TopicRun(state, run_phases(state, plan.phases, **watching))
