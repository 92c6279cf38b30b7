"""Anchor laws and allocators are judged by laws of their own and by moves in every step; wrong ones fail."""

import numpy as np
import pytest

from expfam import DirichletProcess, MixtureModel, Poisson, samplers
from expfam.plugins.conformance import check_kernel, check_proposal
from expfam.plugins.laws.kernel_case import tiny_models
from expfam.plugins.laws.parts import ALLOCATOR_LAWS, ANCHOR_LAWS, PartCase

DP = {"poisson_dirichlet_process": tiny_models()["poisson_dirichlet_process"]}


@pytest.mark.parametrize(
    "part",
    [
        samplers.CoinAllocator(),
        samplers.UrnAllocator(),
        samplers.SequentialAllocator(),
        samplers.DelayedAllocator(),
        samplers.RestrictedGibbsAllocator(n_scans=1),
        samplers.FrozenAllocator(),
        samplers.UniformAnchors(),
        samplers.NearAnchors(n_candidates=4),
        samplers.FarAnchors(),
    ],
    ids=lambda part: type(part).__name__,
)
def test_our_own_parts_keep_the_laws(part):
    report = check_proposal(part)
    assert len(report.named("passed")) == len(ALLOCATOR_LAWS if part.kind == "allocator" else ANCHOR_LAWS)


def test_an_allocator_for_compiled_kernels_alone_is_skipped_with_the_reason():
    report = check_proposal(samplers.CodeAllocator())
    assert report.named("skipped") == list(ALLOCATOR_LAWS)
    assert "in compiled kernels only" in report["sides_are_sides"].message


class Striped(samplers.Allocator):
    """Even rows to one side, odd ones to the other, four times out of five; faults are seeded by name."""

    def __init__(self, fault=None):
        self.fault, self.unseeded, self.calls = fault, np.random.default_rng(), 0

    def assign(self, bound, Phi, rng, forced):
        self.calls += 1
        m, draws = Phi.shape[0], forced is None
        likely, share = np.arange(m) % 2, 0.8
        source = self.unseeded if self.fault == "unseeded" else rng
        if self.fault == "remembers":
            share = 0.8 if self.calls % 2 else 0.6
        if self.fault == "launch depends on sides":
            share = 0.6 + 0.3 * (rng.random() if draws else rng.random(int(forced.sum()) + 1)[-1])
        sides = np.where(source.random(m) < share, likely, 1 - likely) if draws else forced
        sides[:2] = 0, 1
        log_q = float(np.log(np.where(sides == likely, share, 1 - share))[2:].sum())
        if self.fault in ("log q = 0", "log q = 0 for draws" if draws else "log q = 0 on the way back"):
            log_q = 0.0
        elif self.fault == ("coins for draws" if draws else "coins on the way back"):
            log_q = (m - 2) * np.log(0.5)
        elif self.fault == "other side on the way back" and not draws:
            log_q = float(np.log(np.where(sides == likely, 0.2, 0.8))[2:].sum())
        elif self.fault == "anchors counted":
            log_q += np.log(share)
        elif self.fault == "positive":
            log_q = 1.0
        elif self.fault == "never":
            log_q = -np.inf if not draws and sides[-1] != likely[-1] else log_q
        return sides, log_q


def test_the_allocator_without_a_fault_keeps_the_laws_and_leaves_the_posterior_invariant():
    assert check_proposal(Striped()).passed
    kernel = samplers.SplitMerge(allocator=Striped(), n_moves=1, every=1)
    assert check_kernel(kernel, DP, reversible=True, n_moves=500).passed


FAULTS_OF_ALLOCATORS = [
    ("log q = 0", "probabilities_of_all_divisions_sum_to_one"),
    ("log q = 0 for draws", "draws_follow_the_law_of_the_way_back"),
    ("log q = 0 on the way back", "probabilities_of_all_divisions_sum_to_one"),
    ("coins on the way back", "draws_follow_the_law_of_the_way_back"),
    ("coins for draws", "draws_follow_the_law_of_the_way_back"),
    ("other side on the way back", "draws_follow_the_law_of_the_way_back"),
    ("launch depends on sides", "probabilities_of_all_divisions_sum_to_one"),
    ("anchors counted", "sides_are_sides"),
    ("positive", "sides_are_sides"),
    ("never", "every_division_has_a_chance"),
    ("unseeded", "calls_leave_no_trace"),
    ("remembers", "calls_leave_no_trace"),
]


def test_an_allocator_that_always_reports_log_q_0_breaks_the_posterior_where_steps_move():
    kernel = samplers.SplitMerge(allocator=Striped("log q = 0"), n_moves=2, every=1)
    report = check_kernel(kernel, DP, n_moves=1500, raises=False, only=["posterior_is_invariant"])
    assert not report.passed, str(report)


class Runs(samplers.Anchors):
    """A datum and one of the next ones, never the other way round: no law of anchors needs to be symmetric."""

    def __init__(self, fault=None):
        self.fault = fault

    def bind(self, data, *, seed):
        return _BoundRuns(data.n_rows, self.fault)


class _BoundRuns:
    def __init__(self, n_rows, fault):
        self.n_rows, self.fault, self.shift, self.calls = n_rows, fault, 0, 0

    def refresh(self, epoch):
        self.shift = self.shift + 1 if self.fault == "counts its epochs" else epoch
        if self.fault == "unseeded epochs":
            self.shift = int(np.random.default_rng().integers(1 << 30))

    def draw_pairs(self, size, rng):
        self.calls += 1
        rng = {"unseeded": np.random.default_rng(), "one stream": np.random.default_rng(3)}.get(self.fault, rng)
        first = rng.integers(self.n_rows, size=size)
        second = first + 1 + (rng.integers(2, size=size) + self.shift) % 3
        if self.fault == "remembers":
            second = first + self.calls
        pairs = np.column_stack([first, second % self.n_rows])
        if self.fault == "pairs with itself":
            pairs[::3, 1] = pairs[::3, 0]
        elif self.fault == "half a pair":
            pairs[::3, 1] = -1
        elif self.fault == "out of range":
            pairs[:, 1] += 1
        elif self.fault == "one short":
            pairs = pairs[1:]
        elif self.fault == "silent":
            pairs[1:] = -1
            pairs[rng.random(size) < 0.9] = -1
        return pairs


def test_a_law_of_anchors_that_is_not_symmetric_is_exact():
    assert check_proposal(Runs()).passed
    kernel = samplers.SplitMerge(anchors=Runs(), n_moves=1, every=1)
    assert check_kernel(kernel, DP, reversible=True, n_moves=500).passed


FAULTS_OF_ANCHORS = [
    ("pairs with itself", "pairs_are_data"),
    ("half a pair", "pairs_are_data"),
    ("out of range", "pairs_are_data"),
    ("one short", "pairs_are_data"),
    ("unseeded", "pairs_are_those_of_the_generator"),
    ("one stream", "pairs_are_those_of_the_generator"),
    ("remembers", "pairs_are_those_of_the_generator"),
    ("counts its epochs", "refresh_depends_on_the_epoch_alone"),
    ("unseeded epochs", "refresh_depends_on_the_epoch_alone"),
]


@pytest.mark.parametrize(("fault", "law"), FAULTS_OF_ALLOCATORS + FAULTS_OF_ANCHORS)
def test_each_fault_of_a_part_is_found(fault, law):
    part = Striped(fault) if (fault, law) in FAULTS_OF_ALLOCATORS else Runs(fault)
    report = check_proposal(part, raises=False, only=[law])
    assert report[law].status == "failed", str(report)


def test_every_law_of_a_part_has_a_fault():
    broken = {law for _, law in FAULTS_OF_ALLOCATORS + FAULTS_OF_ANCHORS}
    assert broken == set(ALLOCATOR_LAWS) | set(ANCHOR_LAWS)


# ---- kernels that hardly move ----------------------------------------------------------------------------------------

LAW = "steps_propose"


@pytest.mark.parametrize(
    ("kernel", "named"),
    [
        (samplers.SplitMerge(), "SplitMerge(preset='auto'"),
        (samplers.Cycle(samplers.CollapsedGibbs(), samplers.SplitMerge()), "SplitMerge(preset='auto'"),
        (samplers.SplitMerge(anchors=Runs("silent"), n_moves=1, every=1), "SplitMerge(preset='auto', anchors=Runs"),
    ],
    ids=["alone", "in a cycle", "silent anchors"],
)
def test_a_kernel_that_proposes_in_few_steps_is_not_judged_but_failed(kernel, named):
    report = check_kernel(kernel, DP, n_moves=300, raises=False, only=[LAW])
    (result,) = report.results
    assert result.status == "failed", str(report)
    assert result.message.startswith(named)
    assert "n_moves=1, every=1" in result.message


@pytest.mark.parametrize(
    "kernel",
    [
        samplers.SplitMerge("random", n_moves=1, every=1),
        samplers.Cycle(samplers.CollapsedGibbs(), samplers.SplitMerge("random", n_moves=1, every=1)),
    ],
    ids=["alone", "in a cycle"],
)
def test_kernels_that_move_in_every_step_are_judged(kernel):
    assert check_kernel(kernel, DP, n_moves=300, only=[LAW]).passed


# ---- reducible kernels -----------------------------------------------------------------------------------------------


ALONE = {"n_moves": 2, "every": 1}
REACHED = "partitions_are_reached"
# near rows are equal, far ones differ in every column, and the prior alone decides: all partitions are likely
PAIRS = {
    "pairs": (
        MixtureModel(Poisson(shape=1e6, rate=1e6), DirichletProcess(alpha=2.0)),
        np.array([[0, 0], [0, 0], [9, 9], [9, 9]]),
    )
}


@pytest.mark.parametrize(
    "kernel",
    [
        samplers.SplitMerge("near", **ALONE),
        samplers.SplitMerge("mondrian", **ALONE),
        samplers.CollapsedSplitMerge([samplers.BucketMoves()], **ALONE),
    ],
    ids=["near", "mondrian", "buckets"],
)
def test_the_kit_says_that_a_kernel_alone_is_reducible(kernel):
    report = check_kernel(kernel, PAIRS, n_moves=800, raises=False, only=[REACHED])
    told = "alone the kernel is reducible, or nearly so: no sequence of the 800 moves leads from ("
    assert report.results[0].message.startswith(told), report
    assert check_kernel(samplers.Cycle(kernel, samplers.CollapsedGibbs()), PAIRS, n_moves=800, only=[REACHED]).passed


def test_minsm_reaches_by_its_near_pairs_what_buckets_alone_do_not():
    assert check_kernel(samplers.SplitMerge("minsm", n_moves=16, every=1), PAIRS, n_moves=400, only=[REACHED]).passed


def test_bad_cases_are_refused():
    with pytest.raises(ValueError, match="at least 10 rows; got 3"):
        PartCase(samplers.UniformAnchors(), X=np.ones((3, 2)))
