"""The reversal of a kernel: from the posterior, its moves from b to a are as frequent as the kernel's from a to b."""

import numpy as np
import pytest
from enumeration import canonical, exact_posterior, move_matrix
from scipy import stats
from tiny import FAMILIES, WEIGHTS

from expfam import Dataset, MixtureModel
from expfam.errors import CapabilityError
from expfam.samplers import (
    Canopy,
    CollapsedGibbs,
    CollapsedMetropolis,
    CollapsedState,
    Cycle,
    ExpectationMaximization,
    FastEx,
    GroupedProcessGibbs,
    HashProposal,
    RandomScan,
    SparseVariational,
    SplitMerge,
    StochasticEM,
    TableProposal,
    TopicProcessGibbs,
    TopicProcessSplitMerge,
    UncollapsedGibbs,
    UncollapsedMetropolis,
    UpdateHyper,
)
from expfam.samplers.collapsed.gibbs import conditional
from expfam.samplers.collapsed.laws import update_law
from expfam.structures.ground.rng import generator

pytestmark = pytest.mark.filterwarnings("ignore:.*rows? (is|are) empty")

ROWS = 4
LEAST_P = 1e-5
REMOVED = CollapsedMetropolis(TableProposal(), mode="removed")
BACKWARD = CollapsedGibbs(order="backward")


def tiny_model(name="poisson", weights="dirichlet_process"):
    family, X = FAMILIES[name]
    X = X.toarray() if hasattr(X, "toarray") else X
    data = Dataset(X[:ROWS], family)
    return MixtureModel(data.family, WEIGHTS[weights]), data


def update_matrix(model, data, partitions, i, law_of):
    """Matrix of one update of row i; `law_of(state, i)` gives (slot, probability) pairs."""

    def moves(partition):
        state = CollapsedState(model, data, np.array(partition), seed=0)
        for slot, probability in law_of(state, i):
            labels = state.labels.copy()
            labels[i] = slot
            yield canonical(labels), probability

    return move_matrix(partitions, lambda p: [each for each in moves(p) if each[1] > 0])


def sweep_matrices(model, data, partitions, law_of):
    """Matrices of a sweep in the order of the rows and in the opposite order."""
    updates = [update_matrix(model, data, partitions, i, law_of) for i in range(ROWS)]
    return np.linalg.multi_dot(updates), np.linalg.multi_dot(updates[::-1])


def moves_from(kernel, model, data, partitions, starts, seed):
    """Partition after one step from each of the starts, as positions."""
    place = {p: row for row, p in enumerate(partitions)}
    state = kernel.init(model, data, seed=seed, start=np.zeros(ROWS, dtype=np.int32))
    kernel.step(state)
    homes = [CollapsedState(model, data, np.array(p), seed=seed) for p in partitions]
    ends = np.empty(len(starts), dtype=int)
    for t, row in enumerate(starts):
        state.take(homes[row])
        state.n_steps = 1000 * (t + 1)
        kernel.step(state)
        ends[t] = place[canonical(state.labels)]
    return ends


def matrix_p(P, starts, ends):
    """Chi-square p of moves against a transition matrix."""
    seen = np.zeros(P.shape)
    np.add.at(seen, (starts, ends), 1)
    expected = P * seen.sum(axis=1, keepdims=True)
    keep = expected > 5
    return stats.chi2.sf(((seen - expected)[keep] ** 2 / expected[keep]).sum(), keep.sum())


def flow_p(pi, kernel, reversal, model, data, partitions, n_moves):
    """Chi-square p of equal flows, from a to b by the kernel and from b to a by its reversal."""
    rng = np.random.default_rng(5)
    flows = []
    for number, each in enumerate((kernel, reversal)):
        starts = rng.choice(len(pi), size=n_moves, p=pi)
        flow = np.zeros((len(pi), len(pi)))
        np.add.at(flow, (starts, moves_from(each, model, data, partitions, starts, number)), 1)
        flows.append(flow)
    there, back = flows[0], flows[1].T
    often = there + back > 16
    there, back = np.append(there[often], there[~often].sum()), np.append(back[often], back[~often].sum())
    used = there + back > 0
    return stats.chi2.sf(((there - back)[used] ** 2 / (there + back)[used]).sum(), used.sum())


def gibbs_law(state, i):
    return enumerate(conditional(state, i))


def removed_law(state, i):
    return update_law(REMOVED, state, i).items()


@pytest.mark.parametrize(("kernel", "law_of"), [(CollapsedGibbs(), gibbs_law), (REMOVED, removed_law)])
@pytest.mark.parametrize("weights", ["dirichlet_process", "pitman_yor", "dirichlet_3"])
def test_a_backward_sweep_has_the_matrix_of_the_reversal(kernel, law_of, weights):
    model, data = tiny_model(weights=weights)
    partitions, pi = exact_posterior(model, data.X)
    forward, backward = sweep_matrices(model, data, partitions, law_of)
    np.testing.assert_allclose(pi[:, None] * forward, (pi[:, None] * backward).T, atol=1e-13)
    starts = np.random.default_rng(1).choice(len(pi), size=6000, p=pi)
    assert matrix_p(forward, starts, moves_from(kernel, model, data, partitions, starts, 2)) > LEAST_P
    ends = moves_from(kernel.reversed(), model, data, partitions, starts, 3)
    assert matrix_p(backward, starts, ends) > LEAST_P


def test_the_matrices_of_the_two_orders_are_told_apart():
    model, data = tiny_model()
    partitions, pi = exact_posterior(model, data.X)
    forward, _ = sweep_matrices(model, data, partitions, gibbs_law)
    starts = np.random.default_rng(1).choice(len(pi), size=6000, p=pi)
    assert matrix_p(forward, starts, moves_from(BACKWARD, model, data, partitions, starts, 3)) < 1e-8


KERNELS = {
    "gibbs": CollapsedGibbs(),
    "random order": CollapsedGibbs(order="random"),
    "removed": REMOVED,
    "crossfit": CollapsedMetropolis(HashProposal(), mode="crossfit", n_blocks=3),
    "included": CollapsedMetropolis(TableProposal(), mode="included"),
    "splits and merges": SplitMerge(n_moves=3),
    "uncollapsed": UncollapsedGibbs(),
    "canopy": Canopy(),
    "metropolis given parameters": UncollapsedMetropolis(redraw=False),
    "cycle": Cycle(CollapsedGibbs(), SplitMerge(n_moves=1), UncollapsedGibbs()),
    "random scan": RandomScan(CollapsedGibbs(), REMOVED, probabilities=[0.7, 0.3]),
}


SLOWER = {"cycle", "crossfit", "canopy", "uncollapsed", "metropolis given parameters"}


def flow_p_of(name, n_moves):
    model, data = tiny_model(weights="dirichlet_3")
    partitions, pi = exact_posterior(model, data.X)
    return flow_p(pi, KERNELS[name], KERNELS[name].reversed(), model, data, partitions, n_moves)


@pytest.mark.parametrize("name", KERNELS)
def test_flows_of_kernel_and_reversal_are_equal(name):
    assert flow_p_of(name, 500 if name in SLOWER else 3000) > LEAST_P


@pytest.mark.slow
@pytest.mark.parametrize("name", KERNELS)
def test_flows_of_kernel_and_reversal_are_equal_in_long_runs(name):
    assert flow_p_of(name, 30_000) > LEAST_P


def test_a_sweep_is_not_its_own_reversal():
    kernel = KERNELS["gibbs"]
    model, data = tiny_model(weights="dirichlet_3")
    partitions, pi = exact_posterior(model, data.X)
    assert flow_p(pi, kernel, kernel, model, data, partitions, 12_000) < 1e-8


def test_the_reversal_of_a_reversal_is_the_kernel():
    for kernel in KERNELS.values():
        assert kernel.reversed().reversed() == kernel
    assert CollapsedGibbs().reversed() == BACKWARD
    assert FastEx(mode="frozen").reversed() == FastEx(mode="frozen", order="backward")
    assert Cycle(CollapsedGibbs(), SplitMerge(n_moves=2)).reversed() == Cycle(SplitMerge(n_moves=2), BACKWARD)
    backward = UpdateHyper(family=("rate",), order="backward")
    assert UpdateHyper(family=("rate",)).reversed() == backward
    assert Cycle(CollapsedGibbs(), UpdateHyper(family=("rate",))).reversed() == Cycle(backward, BACKWARD)
    assert backward.reversed() == UpdateHyper(family=("rate",))


def test_an_update_of_hyper_parameters_has_an_order():
    model, data = tiny_model()
    with pytest.raises(ValueError, match="UpdateHyper: order must be 'sequential' or 'backward'; got 'random'"):
        UpdateHyper(order="random").check(model, data)


def test_updates_of_hyper_parameters_backward_begin_with_the_last_name():
    model, data = tiny_model(weights="pitman_yor")
    for order, name in (("sequential", "shape"), ("backward", "rate")):
        state = CollapsedState(model, data, np.array([0, 0, 1, 1]), seed=0)
        alone = model.family.update_hyper(*state.statistics(), generator(0, "hyper", unit=0), names=[name])
        UpdateHyper(order=order).step(state)
        assert getattr(state.model.family, name) == getattr(alone, name)


def test_the_discount_is_drawn_before_alpha_in_the_opposite_order():
    weights, counts = WEIGHTS["pitman_yor"], [3, 1, 1]
    alpha_alone = weights.update_hyper(counts, np.random.default_rng(0), learn_discount=False)
    assert weights.update_hyper(counts, np.random.default_rng(0)).alpha == alpha_alone.alpha
    backward = weights.update_hyper(counts, np.random.default_rng(0), order="backward")
    assert backward.alpha != alpha_alone.alpha
    assert backward.discount != weights.discount


@pytest.mark.parametrize(
    "kernel",
    [
        FastEx(mode="published"),
        FastEx(mode="asynchronous"),
        SplitMerge(),  # it adapts the number of its moves
        SplitMerge(n_moves=2, every=3),
        UncollapsedGibbs(theta="map"),
        UncollapsedMetropolis(),
        UncollapsedMetropolis(redraw=False, refresh="never"),
        Canopy(variant=1),
        StochasticEM(),
        GroupedProcessGibbs(),
        TopicProcessGibbs(),
        TopicProcessSplitMerge(),
        RandomScan(CollapsedGibbs(), SplitMerge()),
    ],
    ids=repr,
)
def test_kernels_without_a_reversal_say_so(kernel):
    assert kernel.reversed() is None


def test_optimisers_are_no_samplers():
    for kernel in (StochasticEM(), ExpectationMaximization(), SparseVariational(), UncollapsedGibbs(theta="mean")):
        assert not kernel.is_sampler
    assert not Cycle(CollapsedGibbs(), StochasticEM()).is_sampler
    assert all(kernel.is_sampler for kernel in KERNELS.values())


def test_an_order_that_a_mode_does_not_use_is_refused():
    model, data = tiny_model(weights="dirichlet_3")
    with pytest.raises(CapabilityError, match="does not use order='backward'"):
        FastEx("table", mode="published", order="backward").init(model, data)
    with pytest.raises(ValueError, match="order must be"):
        FastEx("table", order="sideways").init(model, data)
