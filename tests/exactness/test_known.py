"""What is known of rows restricts the posterior exactly: enumeration of six rows, and wrong samplers that must fail."""

import itertools

import numpy as np
import pytest
from enumeration import canonical, exact_posterior, move_matrix, moves_of_law
from scipy.special import gammaln
from tiny import FAMILIES, WEIGHTS
from visits import LIMIT, worst_t

from expfam import Dataset, Known, MixtureModel
from expfam.errors import CapabilityError
from expfam.samplers import (
    Canopy,
    CollapsedGibbs,
    CollapsedMetropolis,
    CollapsedSplitMerge,
    Cycle,
    ExpectationMaximization,
    LinkedGibbs,
    SplitMerge,
    TableProposal,
    UncollapsedGibbs,
)
from expfam.samplers.collapsed.gibbs import conditional
from expfam.samplers.collapsed.linked import linked_conditional
from expfam.samplers.split_merge.allocators import CoinAllocator, DelayedAllocator
from expfam.samplers.split_merge.moves import AnchoredMoves, MemberMoves

pytestmark = pytest.mark.filterwarnings("ignore:.*rows? (is|are) empty")

N = 6
CASES = {
    "clusters": Known([0, -1, -1, 1, -1, 0], "clusters"),
    "classes": Known([0, -1, 1, 1, -1, 0], "classes"),
    "links": Known(links=[0, -1, 1, 0, 1, -1]),
    "clusters and links": Known([-1, -1, 0, -1, 1, -1], "clusters", links=[7, 7, -1, 2, 2, -1]),
    "classes and links": Known([0, -1, -1, 1, 0, -1], "classes", links=[-1, 5, 5, 2, -1, 2]),
}


def six_rows(name):
    family, X = FAMILIES[name]
    return family, X[[0, 1, 2, 3, 4, 2]]


def restricted(name, weights, known):
    family, X = six_rows(name)
    model = MixtureModel(family, weights)
    partitions, pi = exact_posterior(model, X)
    allowed = [row for row, p in enumerate(partitions) if known.agrees(p)]
    data = Dataset(X, family, known=known)
    pi = pi[allowed]
    return [partitions[row] for row in allowed], pi / pi.sum(), model.with_family(data.family), data


def updates(model, data, partitions, *, of_row=conditional, of_group=linked_conditional):
    """Transition matrices of the update of each free row and of each link group."""
    units = [(of_row, i, [i]) for i in data.known.free]
    units += [(of_group, g, rows) for g, rows in enumerate(data.known.groups)]
    return [
        move_matrix(partitions, lambda p, law=law, unit=unit, rows=rows: moves_of_law(model, data, p, law, unit, rows))
        for law, unit, rows in units
    ]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("name", ["poisson", "gaussian", "multinomial"])
def test_each_update_leaves_the_restricted_posterior_as_it_is(name, weights, case):
    partitions, pi, model, data = restricted(name, WEIGHTS[weights], CASES[case])
    sweep = np.eye(len(partitions))
    for P in updates(model, data, partitions):
        np.testing.assert_allclose(P.sum(axis=1), 1.0, rtol=0, atol=1e-12)
        flow = pi[:, None] * P
        np.testing.assert_allclose(flow, flow.T, rtol=0, atol=1e-12)
        sweep = sweep @ P
    np.testing.assert_allclose(pi @ sweep, pi, rtol=0, atol=1e-12)
    assert (np.linalg.matrix_power(sweep, 100) > 0).all()  # every allowed partition can be reached


def one_row_for_a_group(state, g):
    """Wrong on purpose: a group counts as one row."""
    law = linked_conditional(state, g)
    rows, offset = state.data.known.groups[g], state.model.weights.offset
    n = state.counts[: state.n_slots].astype(float)
    n[state.labels[rows[0]]] -= len(rows)
    rising = gammaln(n + len(rows) + offset) - gammaln(n + offset)
    single = np.log(np.maximum(n + offset, 1e-300))
    new = gammaln(len(rows) + offset) - gammaln(1 + offset)
    law = law * np.exp(np.where(n > 0, single - rising, -new))
    return law / law.sum()


def known_rows_by_their_own_class_too(state, i):
    """Wrong on purpose: a row's own class is not taken out before its cluster is masked."""
    law, known, labels = conditional(state, i), state.data.known, state.labels
    if known.classes[i] < 0:
        return law
    alone = (known.classes[labels == labels[i]] >= 0).sum() == 1
    if alone:  # its own cluster then seems to be of its class, and no other row's cluster to be free
        law = np.where(np.arange(len(law)) == labels[i], law, 0.5 * law)
    return law / law.sum()


@pytest.mark.parametrize("weights", WEIGHTS)
def test_a_group_that_counts_as_one_row_is_found_out(weights):
    partitions, pi, model, data = restricted("poisson", WEIGHTS[weights], CASES["links"])
    matrices = updates(model, data, partitions, of_group=one_row_for_a_group)
    assert max(np.abs(pi @ P - pi).max() for P in matrices) > 1e-3


def test_a_wrong_mask_is_found_out():
    partitions, pi, model, data = restricted("poisson", WEIGHTS["dirichlet_process"], CASES["classes"])
    matrices = updates(model, data, partitions, of_row=known_rows_by_their_own_class_too)
    assert max(np.abs(pi @ P - pi).max() for P in matrices) > 1e-3


KERNELS = {
    "gibbs": CollapsedGibbs(),
    "gibbs at random": CollapsedGibbs(order="random"),
    "crossfit": CollapsedMetropolis(TableProposal(), mode="crossfit", n_blocks=2),
    "removed": CollapsedMetropolis(TableProposal(), mode="removed"),
}


SPLITS = {
    "anchored": Cycle(CollapsedSplitMerge([AnchoredMoves()], n_moves=10), CollapsedGibbs()),
    "delayed": Cycle(CollapsedSplitMerge([MemberMoves(DelayedAllocator())], n_moves=10), CollapsedGibbs()),
    "coins": Cycle(CollapsedSplitMerge([MemberMoves(CoinAllocator())], n_moves=10), CollapsedGibbs()),
    "sdds": Cycle(SplitMerge("sdds", n_moves=10), CollapsedGibbs()),
    "minsm": Cycle(SplitMerge("minsm", n_moves=10), CollapsedGibbs()),
}
PAIRS = [(k, w, c) for k in KERNELS for w in WEIGHTS for c in CASES]
PAIRS += [(k, w, c) for k in SPLITS for w in ("pitman_yor", "dirichlet_3") for c in CASES]
# a quarter of the cells, all of them in the slow run: the tests of one update prove the same more sharply
PAIRS = [pytest.param(*cell, marks=() if row % 4 == 0 else pytest.mark.slow) for row, cell in enumerate(PAIRS)]


@pytest.mark.parametrize(("kernel", "weights", "case"), PAIRS)
def test_chains_visit_the_allowed_partitions_by_their_posterior(kernel, weights, case):
    partitions, pi, model, data = restricted("poisson", WEIGHTS[weights], CASES[case])
    kernel = Cycle((KERNELS | SPLITS)[kernel], LinkedGibbs())
    state = kernel.init(model, data, seed=1)
    visits = []
    for _ in range(2500):
        kernel.step(state)
        visits.append(canonical(state.labels))
    state.check()
    assert set(visits) <= set(partitions)
    assert worst_t(visits, partitions, pi) < LIMIT


def test_a_linked_duplicate_is_two_rows_that_are_always_together():
    family, X = FAMILIES["poisson"]
    X = X[[0, 1, 2, 3, 0]]
    known = Known(links=[0, -1, -1, -1, 0])
    model = MixtureModel(family, WEIGHTS["pitman_yor"])
    partitions, pi = exact_posterior(model, X)
    together = np.array([p[0] == p[4] for p in partitions])
    data = Dataset(X, family, known=known)
    model = model.with_family(data.family)
    allowed = [p for p, keep in zip(partitions, together) if keep]
    for P in updates(model, data, allowed):
        law = pi[together] / pi[together].sum()
        np.testing.assert_allclose(law @ P, law, rtol=0, atol=1e-12)


def test_start_labels_are_brought_into_agreement():
    rng = np.random.default_rng(0)
    for _, case in itertools.product(range(50), CASES):
        known = CASES[case]
        labels = rng.integers(0, rng.integers(1, 6) + 1, N)
        found = known.agreeing(labels)
        assert known.agrees(found), (case, labels, found)
        limited = known.agreeing(labels % 3, limit=3)
        assert known.agrees(limited)
        assert limited.max() < 3


def test_all_known_rows_leave_nothing_to_draw():
    family, X = six_rows("poisson")
    y = np.arange(N) % 2
    data = Dataset(X, family, known=Known(y))
    model = MixtureModel(data.family, WEIGHTS["dirichlet_process"])
    state = Cycle(CollapsedGibbs(), LinkedGibbs()).init(model, data, seed=0)
    for kernel in KERNELS.values():
        info = kernel.step(state)
        assert info.accepted == 0
        assert canonical(state.labels) == canonical(y)
        assert state.log_joint == pytest.approx(model.log_joint(data, y))


@pytest.mark.parametrize("kernel", KERNELS)
def test_nothing_known_of_any_row_gives_the_bits_of_a_run_without(kernel):
    family, X = six_rows("poisson" if kernel in ("crossfit", "removed") else "gaussian")
    labels = []
    for known in (None, Known(np.full(N, -1), links=np.full(N, -1))):
        data = Dataset(X, family, known=known)
        state = KERNELS[kernel].init(MixtureModel(data.family, WEIGHTS["dirichlet_process"]), data, seed=4)
        for _ in range(20):
            KERNELS[kernel].step(state)
        labels.append((state.labels.tobytes(), state.log_joint))
    assert labels[0] == labels[1]


UNCOLLAPSED = {
    "uncollapsed": (UncollapsedGibbs(), ("clusters", "links", "clusters and links")),
    "canopy 1": (Canopy(variant=1), ("clusters", "links")),
    "canopy 2": (Canopy(variant=2), ("clusters", "links")),
}


@pytest.mark.parametrize(
    ("kernel", "case"),
    [
        pytest.param(k, c, marks=() if k == "uncollapsed" else pytest.mark.slow)
        for k, (_, cases) in UNCOLLAPSED.items()
        for c in cases
    ],
)
def test_uncollapsed_steps_leave_the_restricted_posterior_as_it_is(kernel, case):
    """From exact draws one step gives exact draws; chains of these kernels mix slowly on six rows."""
    partitions, pi, model, data = restricted("poisson", WEIGHTS["dirichlet_3"], CASES[case])
    kernel, rng = UNCOLLAPSED[kernel][0], np.random.default_rng(0)
    place, after, n = {p: row for row, p in enumerate(partitions)}, np.zeros(len(partitions)), 2000
    for step, row in enumerate(rng.choice(len(pi), n, p=pi)):
        state = kernel.init(model, data, seed=step, start=np.array(partitions[row]))
        # a partition stands for labels by its clusters in a random order of the components
        state.set_labels(rng.permutation(3).astype(np.int32)[state.labels])
        kernel.step(state)
        after[place[canonical(state.labels)]] += 1
    common = pi * n > 5
    deviation = (after - n * pi)[common] / np.sqrt(n * pi * (1 - pi))[common]
    assert np.abs(deviation).max() < 4.5
    assert (deviation**2).sum() < len(deviation) + 5 * np.sqrt(2 * len(deviation))


def test_em_with_known_rows_raises_its_objective_and_keeps_them():
    family, X = six_rows("poisson")
    data = Dataset(X, family, known=CASES["clusters"])
    kernel = ExpectationMaximization(tol=0.0)
    state = kernel.init(MixtureModel(data.family, WEIGHTS["dirichlet_3"]), data, seed=0)
    objective = [kernel.step(state).objective for _ in range(20)]
    assert (np.diff(objective[1:]) >= -1e-6).all()
    assert data.known.agrees(state.labels)
    assert state.n.sum() == pytest.approx(N)
    state.check()


@pytest.mark.parametrize("kernel", [UncollapsedGibbs(), ExpectationMaximization()])
def test_classes_on_fixed_sticks_are_refused(kernel):
    family, X = six_rows("poisson")
    data = Dataset(X, family, known=CASES["clusters"])
    with pytest.raises(CapabilityError, match="classes on ordered sticks are another model"):
        kernel.init(MixtureModel(data.family, WEIGHTS["dirichlet_process"]), data, seed=0)
