"""Log likelihoods of EM from statistics in single precision, beside scores in double precision."""

import numpy as np
import pytest
from instruction_sets import SETS, output_under
from scipy.special import logsumexp

from expfam import Dataset, MixtureModel, SymmetricDirichlet, load_family
from expfam.samplers import ExpectationMaximization

FAMILIES = {"gaussian_diag": 5, "gaussian": 40, "gaussian_spherical": 30}  # columns; the rows of one take several parts


def expected(name, *, far=0.0, seed=0):
    """State of EM after one step on 2,000 weighed rows; some lie `far` from all others."""
    d, rng = FAMILIES[name], np.random.default_rng(seed)
    labels = rng.integers(7, size=2000).astype(np.int32)
    X = 1e3 + 4.0 * rng.normal(size=(7, d))[labels] + rng.normal(size=(len(labels), d))
    X[:3] += far
    data = Dataset(X, load_family(name), weight=rng.gamma(2.0, 0.5, len(X)))
    model = MixtureModel(data.family, SymmetricDirichlet(7, 1.0)).bind(data)
    kernel = ExpectationMaximization(tol=0.0, n_threads=1)
    state = kernel.init(model, data, seed=0, start=labels)
    kernel.step(state)
    return state


def assert_exact(state):
    scores = state.data.phi(0, state.data.n_rows) @ state.Theta.T - state.G + state.log_pi
    exact = state.data.weight @ logsumexp(scores, axis=1)
    assert abs(state.log_likelihood - exact) < 1e-7 * state.data.weight @ np.abs(scores).max(axis=1)


@pytest.mark.parametrize("name", FAMILIES)
def test_log_likelihood_is_that_of_double_precision(name):
    assert_exact(expected(name))


@pytest.mark.parametrize("name", FAMILIES)
def test_rows_that_single_precision_cannot_hold_are_scored_in_double(name):
    assert_exact(expected(name, far=1e6))


@pytest.mark.parametrize("isa", SETS)
def test_other_instructions_find_the_same_log_likelihood(isa):
    code = (
        "from test_best_scores import FAMILIES, assert_exact, expected; "
        "[assert_exact(expected(name)) for name in FAMILIES]; print('same')"
    )
    assert output_under(isa, code, file=__file__).strip() == "same"
