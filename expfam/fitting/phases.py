"""The phases of a run: which kernel makes how many steps, one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from expfam.fitting.drawn_hyper import kernel_of_draws, learning
from expfam.samplers.chain.callbacks import Plateau
from expfam.samplers.chain.kernel import Cycle
from expfam.samplers.warm_starts.sample_rows import has_few_rows, has_many_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from expfam.fitting.plan import Plan
    from expfam.samplers.chain.kernel import Kernel

MOST_STEPS = 100  # of n_steps="auto"
_FIRST_SWEEPS = 2
_MOST_LEARNING = 15
_WINDOW_OF_ALL_ROWS = 1
# rule for a given number of clusters: little but borders between clusters is left to settle
_SHORT: dict[str, Any] = {"window": 2, "gain_per_row": 1e-3}
_SHORTEST: dict[str, Any] = {"window": 1, "gain_per_row": 1e-3}
_FEW_ROWS = 6000
_FEW_CLUSTERS, _ROWS_OF_MOVES = 3, 1000
_MOST_SWEEPS_OF_ALL_ROWS = 4  # after the steps on a sample
_SWEEPS_FROM_AN_END = 1  # of all rows, from the mode of an earlier run: draws lie below it, and more end no higher
_DRAW_STEPS = 100  # least number of steps from which "auto" takes draws
_SETTLING = 20  # steps with hyper-parameters before the draws


class Phase(NamedTuple):
    """Part of a run: steps of one kernel.

    Attributes
    ----------
    kernel : Kernel
    n_steps : int
        Number of steps, or the most if there is a rule.
    rule : callable, optional
        Called as ``rule(info, state)`` after each step; a true result ends the phase.
    """

    kernel: Any
    n_steps: int
    rule: Any = None


def planned_phases(
    plan: Plan, *, is_sampled: bool = False, splits: bool = True, is_searched: bool = False
) -> list[Phase]:
    """Return the phases of a run: warm-up, learning, and the steps that count.

    With a given number of steps, learning waits for half of the warm-up: a concentration fitted to labels that are
    still nearly random lets too many clusters live, and the chain does not come back from there. So do splits and
    merges of the automatic sampler: clusters of nearly random labels are all alike, and would be merged into one.

    Parameters
    ----------
    plan : Plan
    is_sampled : bool
        Whether most steps were made on a sample of the rows.
    splits : bool
        Whether splits and merges of all rows are worth their time.
    is_searched : bool
        Whether the start was searched.
    """
    kernel, learned, n_rows = plan.kernel, plan.learned, plan.data.n_rows
    if plan.has_rule and plan.is_warmup_left:
        if has_few_rows(plan.model, plan.data):
            return [Phase(kernel, 0)]  # the posterior prefers one wide cluster: the labels of EM stay
        is_open = plan.max_clusters is None and splits
        is_mode = is_searched and plan.keeps_number
        kernel = _sweeps_of(kernel) if is_mode and _is_exchanged(plan) else kernel
        phases = automatic_phases(kernel, learned, n_rows, is_sampled=is_sampled, is_open=is_open, is_mode=is_mode)
        return [*phases, *_phases_of_draws(plan)]
    n_learning = (plan.n_warmup + 1) // 2 if learned else 0
    learns = learning(kernel, learned) if learned else kernel
    made = [Phase(kernel, plan.n_warmup - n_learning), Phase(learns, n_learning)]
    if plan.has_rule:
        made += [Phase(kernel, MOST_STEPS, Plateau(n_rows)), *_phases_of_draws(plan)]
    else:
        made.append(Phase(kernel_of_draws(kernel, learned, n_draws=plan.n_draws), plan.n_steps))
    if plan.is_automatic and isinstance(kernel, Cycle):
        n_sweeps = plan.n_warmup - max(n_learning, (plan.n_warmup + 1) // 2)
        made = [Phase(kernel.kernels[-1], n_sweeps), Phase(kernel, plan.n_warmup - n_learning - n_sweeps), *made[1:]]
    return made


def _is_exchanged(plan):
    """Tell whether exchanges at the end do what splits and merges would.

    Of few rows in few clusters they look at nearly all that there are, and anchors of moves cost more than sweeps.
    """
    is_plain = plan.is_automatic and plan.n_chains == 1 and not plan.n_draws and plan.data.known is None
    is_small = plan.data.n_rows < _ROWS_OF_MOVES and plan.asked.n_components <= _FEW_CLUSTERS
    return is_plain and is_small and plan.partition == "mode"


def _sweeps_of(kernel):
    """Return the sweeps of a kernel that may split and merge clusters as well."""
    return kernel.kernels[-1] if isinstance(kernel, Cycle) else kernel


def step_range(plan: Plan) -> tuple[int, int]:
    """Return the least and the largest number of steps on all rows that a chain makes.

    Where a start is searched on some of many rows, most steps are made on these, and a few on all. A rule may end a
    phase after one step.

    Parameters
    ----------
    plan : Plan
    """
    searches = plan.has_rule and plan.is_automatic and plan.searches_start(plan.starts[0])
    is_sampled = searches and has_many_rows(plan.seen.n_rows, plan.max_clusters)
    phases = planned_phases(plan, is_sampled=is_sampled)
    least = sum(phase.n_steps if phase.rule is None else min(phase.n_steps, 1) for phase in phases)
    return least, sum(phase.n_steps for phase in phases)


def _phases_of_draws(plan):
    """Return the phase of steps from which draws are kept, after those of the rule.

    Hyper-parameters that are drawn too first leave the values at which the rule has held them.
    """
    if not plan.n_draws:
        return []
    draws = kernel_of_draws(plan.kernel, plan.learned, n_draws=plan.n_draws)
    settling = [Phase(draws, _SETTLING)] if draws is not plan.kernel else []
    return [*settling, Phase(draws, max(plan.n_draws, _DRAW_STEPS))]


def automatic_phases(
    kernel: Kernel,
    learned: Sequence[str],
    n_rows: int,
    *,
    is_sampled: bool = False,
    is_open: bool = False,
    is_mode: bool = False,
    goes_on: bool = False,
) -> list[Phase]:
    """Return the phases of a run that ends when the log joint has stopped rising.

    Parameters
    ----------
    kernel : Kernel
        Splits and merges with sweeps, or sweeps alone.
    learned : sequence of str
        Hyper-parameters of the family that are learned.
    n_rows : int
    is_sampled : bool
        Whether the same phases were run on a sample: a few steps on all rows then remain. Splits and merges are part of
        them only if the number of clusters `is_open`: the sample had enough rows to find as many as were asked for, and
        the hash tables of all rows cost as much as the other steps together.
    is_open : bool
    is_mode : bool
        Whether the steps begin at a mode of EM with a given number of clusters, under hyper-parameters that fit it:
        then there are no random labels to be swept first, and little is left to rise. Up to 6,000 rows more steps
        are made, which cost little there, and find what EM has missed.
    goes_on : bool
        Whether the steps begin where an earlier run was taken uphill.
    """
    sweeps = _sweeps_of(kernel)
    if is_sampled:
        kernel = kernel if is_open else sweeps
        n_sweeps = _SWEEPS_FROM_AN_END if goes_on else _MOST_SWEEPS_OF_ALL_ROWS
        return [Phase(kernel, n_sweeps, Plateau(n_rows, window=_WINDOW_OF_ALL_ROWS))]
    is_mode = is_mode and n_rows > _FEW_ROWS
    settings: dict[str, Any] = {} if is_open else _SHORTEST if is_mode else _SHORT
    rule = Plateau(n_rows, **settings)
    steps = [] if is_mode else [Phase(sweeps, _FIRST_SWEEPS)]
    if learned:
        steps.append(Phase(learning(kernel, learned), _MOST_LEARNING, rule))
        # from a mode the steps that count go on from the level that learning has reached
        rule = rule if is_mode else Plateau(n_rows, **settings)
    return [*steps, Phase(kernel, MOST_STEPS, rule)]


def distinct_kernels(phases: Sequence[Phase]) -> list[Any]:
    """Return the kernels of some phases, each once; those of a cycle one by one."""
    of_phases = (phase.kernel.kernels if type(phase.kernel) is Cycle else (phase.kernel,) for phase in phases)
    return list({id(kernel): kernel for kernels in of_phases for kernel in kernels}.values())


def ruled_phase(phases: Sequence[Phase]) -> Phase:
    """Return the last phase that has a rule, or the last one."""
    return next((phase for phase in reversed(phases) if phase.rule is not None), phases[-1])


def adapted_kernel(kernel: Any, former: Any, state: Any) -> Any:
    """Return the kernel of the steps that count, with what the warm-up has adapted.

    Parameters
    ----------
    kernel : Kernel
        Of the phase that begins.
    former : Kernel
        Of the phase before.
    state : State
        State at the end of the phase before.
    """
    if former is kernel:
        return kernel.frozen(state)
    if learns(kernel, former):
        frozen = former.frozen(state)
        return Cycle(*(frozen.kernels if type(former) is Cycle else (frozen,)), kernel.kernels[-1])
    if not learns(former, kernel):
        return kernel  # the first sweeps alone adapt nothing
    frozen = former.frozen(state).kernels[:-1]
    return Cycle(*frozen) if type(kernel) is Cycle else frozen[0]


def learns(former: Any, kernel: Any) -> bool:
    """Tell whether a kernel is another one followed by updates of hyper-parameters."""
    parts = kernel.kernels if type(kernel) is Cycle else (kernel,)
    return type(former) is Cycle and [*map(id, former.kernels[:-1])] == [*map(id, parts)]
