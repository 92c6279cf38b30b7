import numpy as np
from expfam_by_total import ByTotal

from expfam import DirichletProcess, MixtureModel, Poisson, load_proposal
from expfam.plugins.conformance import check_proposal
from expfam.samplers import CollapsedMetropolis, sample


def test_laws():
    assert check_proposal(ByTotal()).passed
    assert check_proposal(ByTotal(n_levels=4, floor=0.3)).passed


def test_it_is_found_by_name():
    assert load_proposal("by_total", n_levels=12) == ByTotal(n_levels=12)


def test_a_chain_finds_two_sizes():
    X = np.random.default_rng(0).poisson(np.repeat([[1.0, 2.0], [30.0, 60.0]], 60, axis=0))
    kernel = CollapsedMetropolis(ByTotal(), mode="crossfit")
    state = kernel.init(MixtureModel(Poisson(), DirichletProcess(alpha=0.5)), X, seed=0, start="one")
    sample(kernel, state, 60)
    assert len(set(state.labels[:60]) & set(state.labels[60:])) == 0
