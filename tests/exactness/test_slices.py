"""Slices under a Dirichlet process, on one machine and on parts, visit partitions as often as the posterior says."""

import numpy as np
import pytest
from enumeration import exact_posterior
from scipy import sparse
from shards_data import cut
from tiny import FAMILIES
from visits import LIMIT, visited, worst_t

from expfam import DiagonalGaussian, DirichletProcess, MixtureModel, Multinomial, PitmanYor, Poisson, SymmetricDirichlet
from expfam.errors import CapabilityError, ResourceError
from expfam.samplers import CollapsedGibbs, Cycle, RandomScan, ShardedData, UncollapsedGibbs, UpdateHyper, sample
from expfam.samplers.states import sticks
from expfam.samplers.uncollapsed import slices

pytestmark = pytest.mark.filterwarnings("ignore:.*rows? (is|are) empty")
KERNEL = UncollapsedGibbs(sticks="slice")
WEIGHTS = DirichletProcess(alpha=0.9)
NAMES = ["multinomial", "poisson", "gaussian", "gaussian_diag", "bernoulli"]


def chain(kernel, family, X, bounds=None, n_steps=2000, weights=WEIGHTS):
    """Partitions that a chain visits; without bounds on one machine."""
    family = family.bind(X)
    data = X if bounds is None else ShardedData(cut(X, bounds), family)
    state = kernel.init(MixtureModel(family, weights), data, seed=2, start="one")
    return visited(kernel, state, n_steps), state


@pytest.mark.parametrize("name", NAMES)
def test_visits_are_those_of_the_posterior(name):
    family, X = FAMILIES[name]
    partitions, pi = exact_posterior(MixtureModel(family, WEIGHTS), X)
    seen, state = chain(KERNEL, family, X)
    assert worst_t(seen, partitions, pi) < LIMIT
    frequency = np.bincount([partitions.index(p) for p in seen], minlength=len(partitions)) / len(seen)
    assert 0.5 * np.abs(frequency - pi).sum() < 0.12
    for bounds in ([2], [1, 4]):
        assert chain(KERNEL, family, X, bounds, n_steps=200)[0] == seen[:200]
    assert state.is_open


@pytest.mark.parametrize("alpha", [0.05, 6.0])
def test_any_strength(alpha):
    family, X = FAMILIES["gaussian_diag"]
    weights = DirichletProcess(alpha)
    partitions, pi = exact_posterior(MixtureModel(family, weights), X)
    seen, _ = chain(KERNEL, family, X, weights=weights)
    assert worst_t(seen, partitions, pi) < LIMIT


@pytest.mark.parametrize("kernels", [(KERNEL, CollapsedGibbs()), (CollapsedGibbs(), KERNEL)])
def test_a_cycle_with_collapsed_sweeps_is_exact(kernels):
    family, X = FAMILIES["poisson"]
    partitions, pi = exact_posterior(MixtureModel(family, WEIGHTS), X)
    seen, _ = chain(Cycle(*kernels), family, X, n_steps=2000)
    assert worst_t(seen, partitions, pi) < LIMIT


def test_a_random_scan_with_collapsed_sweeps_is_exact_and_goes_on_from_its_arrays():
    family, X = FAMILIES["poisson"]
    kernel = RandomScan(CollapsedGibbs(), KERNEL)
    partitions, pi = exact_posterior(MixtureModel(family, WEIGHTS), X)
    seen, state = chain(kernel, family, X, n_steps=2500)
    assert worst_t(seen, partitions, pi) < LIMIT
    again = kernel.init(state.model, X, seed=2, start="one")
    again.from_arrays(state.to_arrays())
    for _ in range(20):
        kernel.step(state)
        kernel.step(again)
    np.testing.assert_array_equal(state.labels, again.labels)


@pytest.mark.parametrize("kernels", [(KERNEL, UncollapsedGibbs()), (UncollapsedGibbs(), KERNEL)])
def test_closed_and_open_sticks_do_not_take_turns(kernels):
    with pytest.raises(CapabilityError, match=r"write UncollapsedGibbs\(sticks='slice'\) in the place"):
        chain(Cycle(*kernels), Poisson(), np.array([[0], [1], [40]]), n_steps=1)


def test_without_new_sticks_the_law_is_another_one(monkeypatch):
    family, X = FAMILIES["gaussian_diag"]
    partitions, pi = exact_posterior(MixtureModel(family, WEIGHTS), X)
    monkeypatch.setattr("expfam.samplers.states.uncollapsed.with_new_sticks", lambda log_pi, *_: log_pi)
    seen, _ = chain(KERNEL, family, X, n_steps=1500)
    assert worst_t(seen, partitions, pi) > 2 * LIMIT


class WithWeights(slices._Sorted):
    """A draw that multiplies likelihoods by the weights, which the slices hold already."""

    def __init__(self, state, order):
        super().__init__(state, order)
        self.log_pi = state.log_pi[order]


def test_weights_that_count_twice_are_found_out(monkeypatch):
    family, X = FAMILIES["gaussian_diag"]
    partitions, pi = exact_posterior(MixtureModel(family, WEIGHTS), X)
    monkeypatch.setattr(slices, "_Sorted", WithWeights)
    seen, _ = chain(KERNEL, family, X, n_steps=1500)
    assert worst_t(seen, partitions, pi) > 2 * LIMIT


def test_sticks_fill_free_slots_first():
    log_pi = np.log([0.5, 0.2])
    made = sticks.with_new_sticks(
        np.array([log_pi[0], -np.inf, log_pi[1]]), np.log(0.3), np.log(1e-3), 2.0, np.random.default_rng(1)
    )
    assert made.size > 3
    assert np.isfinite(made).all()
    assert 1 - 1e-3 < np.exp(made).sum() < 1.0
    mean = np.mean(
        [
            np.exp(sticks.with_new_sticks(np.full(1, -np.inf), 0.0, np.log(0.99), 2.0, np.random.default_rng(seed))[0])
            for seed in range(4000)
        ]
    )
    assert abs(mean - 1 / 3) < 0.02  # the first stick of alpha = 2


@pytest.mark.parametrize("is_sparse", [False, True])
def test_many_rows_on_any_parts(is_sparse):
    rng = np.random.default_rng(5)
    X = rng.poisson(np.exp(rng.normal(scale=1.5, size=(6, 8)))[rng.integers(0, 6, 1500)]) + 1
    X = sparse.csr_array(X) if is_sparse else X.astype(float)
    family = (Multinomial() if is_sparse else DiagonalGaussian()).bind(X)
    model = MixtureModel(family, DirichletProcess(2.0))
    kernel = Cycle(KERNEL, UpdateHyper(family=False))
    found = []
    for data in (X, *(ShardedData(cut(X, bounds), family) for bounds in ([700], [1, 1499], [64, 512, 513, 1200]))):
        state = kernel.init(model, data, seed=7, start="random", n_clusters=20)
        trace = sample(kernel, state, 6)
        state.check()
        S = state.S.toarray() if is_sparse else state.S
        found.append((state.labels.tobytes(), S.tobytes(), state.K, trace.column("objective").tolist(), state.model))
    assert found[0][1:] == found[1][1:] == found[2][1:] == found[3][1:]
    assert len({labels for labels, *_ in found}) == 1
    assert state.K > 20  # slots were added


def test_a_chain_goes_on_from_its_arrays():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(400, 2)) + 5.0 * rng.integers(0, 4, (400, 1))
    model = MixtureModel(DiagonalGaussian().bind(X), DirichletProcess(3.0))
    state = KERNEL.init(model, X, seed=1, start="one")
    sample(KERNEL, state, 5)
    data = ShardedData(cut(X, [130]), model.family)
    there = KERNEL.init(model, data, seed=1, start="one")
    there.from_arrays(state.to_arrays())
    sample(KERNEL, state, 5)
    sample(KERNEL, there, 5)
    np.testing.assert_array_equal(there.labels, state.labels)
    np.testing.assert_array_equal(there.S, state.S)


def test_what_slices_cannot_do_is_refused_with_a_line_to_type():
    X = np.array([[0], [1], [40]])
    for kernel, weights, match in (
        (KERNEL, SymmetricDirichlet(3), r"given number of components: write UncollapsedGibbs\(\)"),
        (KERNEL, PitmanYor(1.0, 0.3), r"sticks without end: write DirichletProcess\(alpha=1\.0\)"),
        (UncollapsedGibbs(sticks="slice", draw="tree"), WEIGHTS, r"write UncollapsedGibbs\(sticks='slice'\)"),
        (UncollapsedGibbs(sticks="slice", theta="map"), WEIGHTS, r"write UncollapsedGibbs\(sticks='slice'\)"),
        (UncollapsedGibbs(sticks="slice", truncation=7), WEIGHTS, "leave out truncation"),
    ):
        with pytest.raises((CapabilityError, ValueError), match=match):
            kernel.init(MixtureModel(Poisson(), weights), X, seed=0)
    with pytest.raises(ResourceError, match=r"write DirichletProcess\(1\.0\)"):
        sticks.with_new_sticks(np.zeros(1), 0.0, -100.0, 1e9, np.random.default_rng(0))
