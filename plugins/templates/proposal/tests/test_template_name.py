import numpy as np
from expfam_template_name import TemplateName
from scipy import sparse

from expfam import DirichletProcess, MixtureModel, Multinomial, Poisson, load_proposal
from expfam.plugins.conformance import check_kernel, check_proposal
from expfam.samplers import CollapsedMetropolis, sample


def test_laws():
    assert check_proposal(TemplateName()).passed
    assert check_proposal(TemplateName(3.0, floor=0.3)).passed


def test_laws_on_sparse_data():
    X = sparse.csr_array(np.random.default_rng(0).poisson(1.0, size=(40, 8)) + np.eye(40, 8, dtype=int))
    assert check_proposal(TemplateName(), MixtureModel(Multinomial(0.5), DirichletProcess()), X).passed


def test_a_kernel_with_it_leaves_posteriors_as_they_are():
    kernel = CollapsedMetropolis(TemplateName(), mode="crossfit")
    counts = MixtureModel(Poisson(1.0, 1.0), DirichletProcess()), np.array([[3, 0], [1, 2], [0, 4], [2, 2]])
    assert check_kernel(kernel, {"counts": counts}, n_moves=1000).passed  # more moves find smaller errors


def test_it_is_found_by_name():
    assert load_proposal("template_name", sharpness=2.0) == TemplateName(2.0)


def test_a_chain_finds_planted_clusters():
    X = np.random.default_rng(0).poisson(np.repeat([[1.0, 30.0], [30.0, 1.0]], 40, axis=0))
    kernel = CollapsedMetropolis(TemplateName(), mode="crossfit")
    state = kernel.init(MixtureModel(Poisson(), DirichletProcess(alpha=0.5)), X, seed=0, start="one")
    sample(kernel, state, 60)
    assert len(set(state.labels[:40]) & set(state.labels[40:])) == 0
