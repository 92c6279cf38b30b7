"""Chains visit all set partitions of tiny data as often as the enumerated posterior says; wrong chains do not."""

import numpy as np
import pytest
from enumeration import canonical, exact_posterior
from tiny import FAMILIES, WEIGHTS
from visits import LIMIT, run_chain, worst_t

from expfam import Mixture, MixtureModel, Poisson, SymmetricDirichlet
from expfam.errors import ExactnessWarning
from expfam.samplers import (
    CollapsedGibbs,
    CollapsedMetropolis,
    Cycle,
    HashProposal,
    RandomScan,
    TableProposal,
    UncollapsedGibbs,
    UpdateHyper,
)

pytestmark = pytest.mark.filterwarnings("ignore:.*rows? (is|are) empty")

KERNELS = {
    "collapsed": CollapsedGibbs(),
    "collapsed_random_order": CollapsedGibbs(order="random"),
    "uncollapsed": UncollapsedGibbs(),
    "cycle": Cycle(CollapsedGibbs(), UncollapsedGibbs()),
    "random_scan": RandomScan(UncollapsedGibbs(), CollapsedGibbs(), probabilities=[0.7, 0.3]),
}


# Each family and each kernel, all pairs of them in the slow run: tests of one update prove the same more sharply.
CELLS = [
    pytest.param(name, kernel, marks=() if (row - column) % len(KERNELS) == 0 else pytest.mark.slow)
    for row, name in enumerate(FAMILIES)
    for column, kernel in enumerate(KERNELS)
]


@pytest.mark.parametrize(("name", "kernel"), CELLS)
def test_finite_weights(name, kernel):
    family, X = FAMILIES[name]
    model = MixtureModel(family, SymmetricDirichlet(3, alpha=0.6))
    partitions, pi = exact_posterior(model, X)
    n_steps = 3000 if kernel.startswith("collapsed") else 1200  # steps that draw parameters cost a hundred times more
    assert worst_t(run_chain(KERNELS[kernel], model, X, n_steps), partitions, pi) < LIMIT


@pytest.mark.parametrize("weights", ["dirichlet_process", "pitman_yor", "dirichlet_8"])
@pytest.mark.parametrize("name", FAMILIES)
def test_unbounded_weights(name, weights):
    family, X = FAMILIES[name]
    model = MixtureModel(family, WEIGHTS[weights])
    partitions, pi = exact_posterior(model, X)
    assert worst_t(run_chain(CollapsedGibbs(), model, X, 3000), partitions, pi) < LIMIT


PROPOSALS = {"table": TableProposal(), "hash": HashProposal(), "published_hash": HashProposal(n_bits=64, shortlist=0)}


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("mode", ["crossfit", "removed", "included", "frozen"])
@pytest.mark.parametrize("proposal", PROPOSALS)
@pytest.mark.parametrize("name", ["poisson", pytest.param("multinomial", marks=pytest.mark.slow)])
def test_metropolis(name, proposal, mode, weights):
    if mode in ("included", "frozen") and WEIGHTS[weights].max_components is None:
        pytest.skip("finite weights only")
    family, X = FAMILIES[name]
    model = MixtureModel(family, WEIGHTS[weights])
    partitions, pi = exact_posterior(model, X)
    kernel = CollapsedMetropolis(PROPOSALS[proposal], mode=mode, n_blocks=2 if mode == "crossfit" else "auto")
    assert worst_t(run_chain(kernel, model, X, 3000), partitions, pi) < LIMIT


def test_the_published_mode_is_found_out():
    family, X = FAMILIES["poisson"]
    model = MixtureModel(family, WEIGHTS["dirichlet_3"])
    partitions, pi = exact_posterior(model, X)
    kernel = CollapsedMetropolis(TableProposal(), mode="published")
    with pytest.warns(ExactnessWarning):
        assert worst_t(run_chain(kernel, model, X, 3000), partitions, pi) > LIMIT


def test_seven_data_and_all_877_partitions():
    X = np.array([[0], [1], [1], [4], [6], [6], [13]])
    model = MixtureModel(Poisson(shape=0.7, rate=0.3), WEIGHTS["pitman_yor"])
    partitions, pi = exact_posterior(model, X)
    assert len(partitions) == 877
    assert worst_t(run_chain(CollapsedGibbs(), model, X, 12000), partitions, pi) < LIMIT


def test_learned_hyper_parameters_average_over_their_posterior(averaged_over_hyper):
    X, family, weights, partitions, pi = averaged_over_hyper
    kernel = Cycle(CollapsedGibbs(), UpdateHyper(weights=False))
    visits = run_chain(kernel, MixtureModel(family, weights), X, 4000)
    assert worst_t(visits, partitions, pi) < LIMIT


@pytest.mark.parametrize("n_steps", [1000, pytest.param(3000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("sampler", ["gibbs", "auto"])
def test_the_draws_of_a_mixture_average_over_its_hyper_parameters(sampler, n_steps, averaged_over_hyper):
    """All chains, from the draws that are kept; with the hyper-parameters at one value this is another law."""
    X, family, weights, partitions, pi = averaged_over_hyper
    settings = {"weights": weights, "sampler": sampler, "n_chains": 2, "random_state": 1}
    settings |= {"n_steps": n_steps, "n_warmup": 50, "n_draws": 2 * n_steps}
    laws = {}
    for learn in (True, False):
        posterior = Mixture(family, learn_hyper=learn, **settings).fit(X).posterior_
        assert posterior.n_draws == 2 * n_steps
        laws[learn] = worst_t([canonical(labels) for labels in posterior.draws()], partitions, pi)
    assert laws[True] < LIMIT < laws[False]


@pytest.fixture(scope="module")
def averaged_over_hyper():
    """Partition and hyper-parameters together: the enumerated law integrates the latter by quadrature."""
    X = np.array([[0], [2], [3], [9]])
    family = Poisson(shape=1.5, rate=0.4).bind(X)
    weights = SymmetricDirichlet(3, alpha=0.6)
    grid = np.linspace(-9.0, 9.0, 21)
    total = 0.0
    for shape_step in grid:
        for rate_step in grid:
            model = MixtureModel(
                family.with_hyper(shape=1.5 * np.exp(shape_step), rate=0.4 * np.exp(rate_step)), weights
            )
            partitions, pi, evidence = _posterior_with_evidence(model, X)
            total = total + pi * np.exp(evidence - 0.5 * (shape_step**2 + rate_step**2) / 9.0)
    return X, family, weights, partitions, total / total.sum()


def _posterior_with_evidence(model, X):
    from expfam import Dataset

    partitions, pi = exact_posterior(model, X)
    first = model.log_joint(Dataset(X, model.family), np.array(partitions[0]))
    return partitions, pi, first - np.log(pi[0])


@pytest.mark.parametrize("factor", [0.5, 1.8])
def test_a_wrong_concentration_is_found_out(factor):
    family, X = FAMILIES["poisson"]
    weights = WEIGHTS["dirichlet_process"]
    partitions, pi = exact_posterior(MixtureModel(family, weights), X)
    wrong = MixtureModel(family, weights.with_hyper(alpha=factor * weights.alpha))
    assert worst_t(run_chain(CollapsedGibbs(), wrong, X, 3000), partitions, pi) > LIMIT
