"""Every split-merge kernel leaves the enumerated posterior as it is and is its own reverse; printed formulas do not."""

import numpy as np
import pytest
from enumeration import canonical, exact_posterior, total_variation
from invariance import invariance_p, matrix_p, symmetry_p, transitions
from split_merge_slow import Reference, stationary
from tiny import FAMILIES, WEIGHTS

from expfam import MixtureModel
from expfam.samplers import (
    AnchoredMoves,
    BucketMoves,
    CodeAllocator,
    CoinAllocator,
    CollapsedSplitMerge,
    CutMoves,
    DelayedAllocator,
    FarAnchors,
    FrozenAllocator,
    MemberMoves,
    NearAnchors,
    RestrictedGibbsAllocator,
    SequentialAllocator,
    SoftmaxMoves,
    UniformAnchors,
    UrnAllocator,
)
from expfam.samplers.geometry.hash_tables import HashTables

pytestmark = pytest.mark.filterwarnings("ignore:.*rows? (is|are) empty")
LEAST = 1e-4
UNIFORM, TABLES = UniformAnchors(), {"n_bits": 1, "n_tables": 3}

COMPILED = {
    "coin": AnchoredMoves(UNIFORM, CoinAllocator()),
    "urn": AnchoredMoves(UNIFORM, UrnAllocator()),
    "urn_rare": AnchoredMoves(UNIFORM, UrnAllocator(), rho=0.05),
    "urn_by_size": AnchoredMoves(UNIFORM, UrnAllocator(), rho=0.8, most=1.5),
    "sequential": AnchoredMoves(UNIFORM, SequentialAllocator()),
    "sequential_half": AnchoredMoves(UNIFORM, SequentialAllocator(), rho=0.5),
    "scans_0": AnchoredMoves(UNIFORM, RestrictedGibbsAllocator(n_scans=0)),
    "scans_3": AnchoredMoves(UNIFORM, RestrictedGibbsAllocator(n_scans=3)),
    "scans_after_pass": AnchoredMoves(UNIFORM, RestrictedGibbsAllocator(n_scans=0, launch="sequential")),
    "codes": AnchoredMoves(UNIFORM, CodeAllocator(beta=0.05)),
    "delayed_1": AnchoredMoves(UNIFORM, DelayedAllocator(first=1, factor=2)),
    "delayed_1_rare": AnchoredMoves(UNIFORM, DelayedAllocator(first=1, factor=2), rho=0.5),
    "member_sequential": MemberMoves(SequentialAllocator()),
    "member_delayed": MemberMoves(DelayedAllocator(first=1, factor=2)),
    "member_scans": MemberMoves(RestrictedGibbsAllocator(n_scans=1)),
    "near": AnchoredMoves(NearAnchors(**TABLES), UrnAllocator(), rho=0.5),
    "near_sign": AnchoredMoves(NearAnchors(method="sign", **TABLES), UrnAllocator(), rho=0.5),
    "nearest_of_few": AnchoredMoves(NearAnchors(n_candidates=4, **TABLES), UrnAllocator(), rho=0.5),
    "far": AnchoredMoves(FarAnchors(**TABLES), SequentialAllocator()),
    "bucket": BucketMoves(HashTables(**TABLES)),
    "softmax": SoftmaxMoves(),
}
IN_PYTHON = {
    "frozen": AnchoredMoves(UNIFORM, FrozenAllocator()),
    "member_frozen": MemberMoves(FrozenAllocator(n_rounds=0)),
    "cut": CutMoves(),
}
MOVES = COMPILED | IN_PYTHON
QUICK = {("poisson", "pitman_yor"), ("gaussian_diag", "dirichlet_3"), ("multinomial", "dirichlet_process")}


def is_possible(move, family):
    return not (move.kind == "cut" and family == "categorical")


def cases(moves):
    for name in moves:
        for family in FAMILIES:
            for weights in WEIGHTS:
                if is_possible(MOVES[name], family):
                    marks = [] if (family, weights) in QUICK else [pytest.mark.slow]
                    yield pytest.param(name, family, weights, marks=marks, id=f"{name}-{family}-{weights}")


def prepare(family, weights):
    family, X = FAMILIES[family]
    model = MixtureModel(family, WEIGHTS[weights])
    return (model, X, *exact_posterior(model, X))


@pytest.mark.parametrize(("name", "family", "weights"), list(cases(MOVES)))
def test_a_move_is_invariant_and_reversible(name, family, weights):
    n_starts = 3000 if name in IN_PYTHON or family == "plain_poisson" else 100_000
    if (family, weights) in QUICK:
        n_starts = min(n_starts, 25_000)
    model, X, partitions, pi = prepare(family, weights)
    kernel = CollapsedSplitMerge([MOVES[name]], n_moves=1)
    counts, error = transitions(kernel, model, X, partitions, pi, n_starts=n_starts, seed=3)
    assert error < 1e-9
    assert counts.trace() < n_starts  # it does move
    assert invariance_p(counts, pi) > LEAST
    assert symmetry_p(counts) > LEAST


def test_each_stage_of_delayed_acceptance_counts_what_is_new():
    """Five data beside the anchors are judged in three stages: after one, after two, and all."""
    X = np.random.default_rng(2).normal(size=(7, 2))
    model = MixtureModel(FAMILIES["gaussian_diag"][0], WEIGHTS["dirichlet_process"])
    partitions, pi = exact_posterior(model, X)
    move = AnchoredMoves(UNIFORM, DelayedAllocator(first=1, factor=2))
    counts, error = transitions(
        CollapsedSplitMerge([move], n_moves=1), model, X, partitions, pi, n_starts=200_000, seed=3
    )
    assert error < 1e-9
    assert invariance_p(counts, pi) > LEAST
    assert symmetry_p(counts) > LEAST


REFERENCES = {
    "coin": lambda r: r.anchored(r.coin),
    "urn": lambda r: r.anchored(r.urn),
    "urn_rare": lambda r: r.anchored(r.urn, rho=0.05),
    "urn_by_size": lambda r: r.anchored(r.urn, rho=lambda n: min(0.8, 1.5 / n)),
    "sequential": lambda r: r.anchored(r.sequential),
    "sequential_half": lambda r: r.anchored(r.sequential, rho=0.5),
    "member_sequential": lambda r: r.member(r.sequential),
    "softmax": lambda r: r.softmax(),
    "cut": lambda r: r.cut(),
}


@pytest.mark.parametrize("weights", ["dirichlet_process", "pitman_yor", "dirichlet_3"])
@pytest.mark.parametrize("name", REFERENCES)
def test_moves_have_the_transition_matrix_of_the_reference(name, weights):
    model, X, partitions, pi = prepare("gaussian_diag", weights)
    P = REFERENCES[name](Reference(model, X, partitions, pi))
    np.testing.assert_allclose(pi @ P, pi, rtol=0, atol=1e-12)
    flow = pi[:, None] * P
    np.testing.assert_allclose(flow, flow.T, rtol=0, atol=1e-13)
    kernel = CollapsedSplitMerge([MOVES[name]], n_moves=1)
    n_starts = 4000 if name in IN_PYTHON else 40_000
    counts, _ = transitions(kernel, model, X, partitions, pi, n_starts=n_starts, seed=5)
    assert matrix_p(counts, P, pi) > LEAST


def test_buckets_have_the_transition_matrix_of_the_reference():
    model, X, partitions, pi = prepare("gaussian_diag", "pitman_yor")
    reference = Reference(model, X, partitions, pi)
    keys = HashTables(n_bits=1, n_tables=3).keys(reference.data, seed=5, epoch=0)
    P = np.mean([reference.bucket(keys[:, table]) for table in range(3)], axis=0)
    np.testing.assert_allclose(pi @ P, pi, rtol=0, atol=1e-12)
    kernel = CollapsedSplitMerge([MOVES["bucket"]], n_moves=1)
    counts, _ = transitions(kernel, model, X, partitions, pi, n_starts=100_000, seed=5)
    assert matrix_p(counts, P, pi) > LEAST


@pytest.mark.parametrize("name", ["urn", "sequential", "scans_3", "delayed_1", "member_sequential", "softmax"])
def test_a_ratio_that_is_wrong_by_a_factor_is_found_out(name):
    """The same frequencies under weights whose ratio of split to merge is another one by 1.5."""
    model, X, partitions, pi = prepare("poisson", "dirichlet_process")
    wrong = MixtureModel(model.family, model.weights.with_hyper(alpha=1.5 * model.weights.alpha))
    kernel = CollapsedSplitMerge([MOVES[name]], n_moves=1)
    counts, _ = transitions(kernel, wrong, X, partitions, pi, n_starts=100_000, seed=1)
    assert invariance_p(counts, pi) < 1e-12
    assert symmetry_p(counts) < 1e-12


@pytest.mark.parametrize("wrong", ["urn", "coin"])
def test_the_law_of_another_allocator_is_found_out(wrong):
    model, X, partitions, pi = prepare("gaussian_diag", "pitman_yor")
    reference = Reference(model, X, partitions, pi)
    kernel = CollapsedSplitMerge([MOVES["sequential"]], n_moves=1)
    counts, _ = transitions(kernel, model, X, partitions, pi, n_starts=100_000, seed=5)
    assert matrix_p(counts, reference.anchored(getattr(reference, wrong)), pi) < 1e-12


# ---- the printed formulas ------------------------------------------------------------------------------------------


def mixed_with_gibbs(P, reference):
    """Half moves, half exact draws of a random datum's cluster: irreducible, and invariant whenever P is."""
    pi, N = reference.pi, reference.N
    G = np.zeros_like(P)
    places = {p: row for row, p in enumerate(reference.partitions)}
    for row, p in enumerate(reference.partitions):
        for i in range(N):
            options = {places[c] for k in range(N + 1) if (c := canonical((*p[:i], k, *p[i + 1 :]))) in places}
            total = sum(pi[o] for o in options)
            for o in options:
                G[row, o] += pi[o] / total / N
    np.testing.assert_allclose(pi @ G, pi, rtol=0, atol=1e-12)
    return 0.5 * P + 0.5 * G


@pytest.mark.parametrize("weights", ["dirichlet_process", "pitman_yor"])
def test_minsm_is_exact_by_inclusion_and_exclusion_and_not_as_printed(weights):
    model, X, partitions, pi = prepare("poisson", weights)
    reference = Reference(model, X, partitions, pi)
    far = {}
    for formula in ("both sides", "one side", "first dart"):
        P = mixed_with_gibbs(reference.redrawn_bucket(formula=formula), reference)
        far[formula] = total_variation(stationary(P), pi)
    assert far["both sides"] < 1e-10
    assert far["one side"] > 0.01
    assert far["first dart"] > 0.01


def test_merges_on_a_table_of_centres_are_exact_with_the_bucket_as_it_is_and_not_as_printed():
    model, X, partitions, pi = prepare("gaussian_diag", "dirichlet_process")
    reference = Reference(model, X, partitions, pi)

    def key(block):
        return tuple(reference.rows[sorted(block)].mean(axis=0) > reference.rows.mean(axis=0))

    exact = mixed_with_gibbs(reference.centres(key), reference)
    assert total_variation(stationary(exact), pi) < 1e-10
    printed = mixed_with_gibbs(reference.printed_centres(key), reference)
    assert total_variation(stationary(printed), pi) > 0.005
