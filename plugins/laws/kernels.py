"""Laws of kernels on collapsed states: moves keep the posterior, states stay consistent.

Frequencies are compared by chi-square tests at the level 1e-5 with fixed seeds. An error of a factor of two in an
acceptance ratio moves a few per cent of the mass; 10 000 moves find it with p < 1e-50.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import chi2

from expfam.amounts import counted
from expfam.plugins.laws.data_case import Inapplicable, law
from expfam.plugins.laws.visits import LEVEL, check_visits

if TYPE_CHECKING:
    from expfam.plugins.laws.kernel_case import KernelCase

KERNEL_LAWS: dict = {}

_LEAST_EXPECTED = 10.0
_STEPS = 100
_LEAST_PROPOSING = 0.2


@law(among=KERNEL_LAWS)
def holds_nothing_of_a_run(case: KernelCase) -> None:
    """A kernel holds settings only: copies are equal to it, and steps do not change it."""
    kernel, before = case.kernel, repr(case.kernel)
    twin = copy.deepcopy(kernel)
    assert twin == kernel, "a copy of the kernel differs from it"
    state = case.init()
    case.step(state)
    assert repr(kernel) == before, f"a step changed the kernel from {before} to {kernel!r}"
    assert kernel == twin, "a step changed the kernel"


@law(among=KERNEL_LAWS)
def states_stay_consistent(case: KernelCase) -> None:
    """After every step, counts, statistics, log joint and stamp agree with the labels."""
    state = case.init()
    for step in range(_STEPS):
        labels, stamp, n_steps = state.labels.copy(), state.stamp, state.n_steps
        info = case.step(state)
        state.check()
        assert case.row(state) >= 0, (
            f"step {step} made {counted(state.n_clusters, 'cluster')}, more than the weights allow"
        )
        assert state.n_steps > n_steps, "a step must raise n_steps"
        assert np.array_equal(labels, state.labels) or state.stamp != stamp, "labels changed, the stamp did not"
        assert info.step == state.n_steps, f"Info has step {info.step}, but the state has n_steps {state.n_steps}"
        assert info.n_clusters == state.n_clusters, (
            f"Info has {counted(info.n_clusters, 'cluster')}, not {state.n_clusters}"
        )
        assert np.isclose(info.objective, state.log_joint, rtol=1e-12), "Info's objective is not the log joint"
        assert 0 <= info.accepted <= info.proposed, f"{info.accepted} of {counted(info.proposed, 'move')} accepted"


@law(among=KERNEL_LAWS)
def seeds_decide(case: KernelCase) -> None:
    """Equal seeds give equal labels, and a restored state continues like the original."""
    first, second = case.init(), case.init()
    for _ in range(_STEPS // 2):
        case.step(first)
        case.step(second)
        assert np.array_equal(first.labels, second.labels), "two chains of one seed differ"
    restored = case.init()
    restored.from_arrays(first.to_arrays())
    for _ in range(_STEPS // 2):
        case.step(first)
        case.step(restored)
        assert np.array_equal(first.labels, restored.labels), "a restored state continues with other labels"


@law(among=KERNEL_LAWS)
def steps_propose(case: KernelCase) -> None:
    """Each kernel, or part of a `Cycle`, proposes a move in at least a fifth of its steps."""
    for part, share in case.proposing.items():
        kernel = case.kernel
        for place in part:
            kernel = getattr(kernel, "kernels", [kernel] * (place + 1))[place]
        assert share >= _LEAST_PROPOSING, (
            f"{kernel!r} proposed a move in only {share:.1%} of its steps, which is too few to judge its moves: let it"
            " propose in every step; SplitMerge does so with the settings n_moves=1, every=1"
        )


@law(among=KERNEL_LAWS)
def posterior_is_invariant(case: KernelCase) -> None:
    """One step from the exact posterior, or one long chain, follows the exact posterior."""
    if case.may_be_moved:
        _follows_the_posterior(case, case.moves[1], "after one step")
    else:
        check_visits(case.visits, case.pi, "the partitions of a long chain")


@law(among=KERNEL_LAWS)
def later_steps_are_invariant(case: KernelCase) -> None:
    """Several steps in a row follow the posterior: what a kernel remembers has no effect."""
    _refuse_chains(case)
    _follows_the_posterior(case, case.moves[2], "after four steps")


@law("reversible", among=KERNEL_LAWS)
def flow_is_symmetric(case: KernelCase) -> None:
    """From the posterior, moves from a partition to another are as frequent as moves back."""
    _refuse_chains(case)
    before, after, _ = case.moves
    flow = np.zeros((len(case.pi), len(case.pi)))
    np.add.at(flow, (before, after), 1.0)
    upper = np.triu_indices(len(case.pi), 1)
    there, back = flow[upper], flow.T[upper]
    common = there + back >= 2 * _LEAST_EXPECTED
    # rare pairs are added up: half of their moves must go each way
    there, back = (np.append(f[common], f[~common].sum()) for f in (there, back))
    used = there + back > 0
    statistic = ((there - back)[used] ** 2 / (there + back)[used]).sum()
    p = chi2.sf(statistic, np.count_nonzero(used)) if used.any() else 1.0
    assert p > LEVEL, _worst_flow(case, flow, p)


@law(among=KERNEL_LAWS)
def partitions_are_reached(case: KernelCase) -> None:
    """Moves lead from every likely partition to every other, so the kernel works alone."""
    before, after = case.pairs
    likely = case.pi * case.n_moves > 50
    step = np.zeros((len(case.pi), len(case.pi)), dtype=bool)
    step[before, after] = True
    reach = step | np.eye(len(case.pi), dtype=bool)
    for _ in range(len(case.pi).bit_length()):
        reach = (reach.astype(int) @ reach) > 0
    missing = np.argwhere(~reach & likely[:, None] & likely)
    if missing.size:
        a, b = (case.partitions[row] for row in missing[0])
        raise AssertionError(
            f"alone the kernel is reducible, or nearly so: no sequence of the {counted(case.n_moves, 'move')} leads "
            f"from {a} to {b}. Use it in a Cycle with a kernel that reaches all partitions, for example "
            "CollapsedGibbs; if you check it alone, name this check in expected_failures"
        )


def _refuse_chains(case):
    if not case.may_be_moved:
        raise Inapplicable(
            "the kernel refuses states whose labels another kernel has changed, so only a long chain can be tested"
        )


def _follows_the_posterior(case, rows, when):
    assert rows.min() >= 0, f"{when} there are partitions that the weights rule out"
    found, expected = np.bincount(rows, minlength=len(case.pi)).astype(float), case.pi * rows.size
    common = expected >= _LEAST_EXPECTED
    o = np.append(found[common], found[~common].sum())
    e = np.append(expected[common], expected[~common].sum())
    used = e >= 1.0
    p = chi2.sf(((o - e)[used] ** 2 / e[used]).sum(), max(np.count_nonzero(used) - 1, 1))
    distance = 0.5 * np.abs(found / rows.size - case.pi).sum()
    floor = 0.4 * np.sqrt(case.pi * (1 - case.pi) / rows.size).sum()
    worst = int(np.argmax(np.abs(found - expected) / np.sqrt(expected + 1)))
    assert p > LEVEL, (
        f"{when} the total variation from the posterior is {distance:.3f}, by chance {floor:.3f} is expected"
        f" (p = {p:.1e}); partition {case.partitions[worst]} occurred {counted(found[worst], 'time', spec='.0f')},"
        f" expected {expected[worst]:.0f}"
    )


def _worst_flow(case, flow, p):
    a, b = np.unravel_index(np.argmax((flow - flow.T) / np.sqrt(flow + flow.T + 1)), flow.shape)
    return (
        f"{counted(flow[a, b], 'move', spec='.0f')} from {case.partitions[a]} to {case.partitions[b]}, "
        f"{flow[b, a]:.0f} back (p = {p:.1e})"
    )
