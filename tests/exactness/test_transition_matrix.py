"""Every exact sweep leaves the enumerated posterior as it is, to rounding; wrong sweeps do not."""

import numpy as np
import pytest
from enumeration import exact_posterior, move_matrix, moves_of_law
from tiny import FAMILIES, WEIGHTS

from expfam import Dataset, MixtureModel
from expfam.samplers.collapsed.gibbs import conditional

pytestmark = pytest.mark.filterwarnings("ignore:.*rows? (is|are) empty")


def gibbs_matrices(model, data, partitions, law=conditional):
    """Transition matrix of the update of each datum, from the conditional law that the sweep itself uses."""
    return [move_matrix(partitions, lambda p, i=i: moves_of_law(model, data, p, law, i, i)) for i in range(data.n_rows)]


@pytest.fixture(params=FAMILIES)
def family_and_data(request):
    return FAMILIES[request.param]


@pytest.mark.parametrize("weights", WEIGHTS.values(), ids=WEIGHTS)
def test_collapsed_gibbs_is_invariant_and_each_update_reversible(family_and_data, weights):
    family, X = family_and_data
    partitions, pi = exact_posterior(MixtureModel(family, weights), X)
    data = Dataset(X, family)
    sweep = np.eye(len(partitions))
    for P in gibbs_matrices(MixtureModel(data.family, weights), data, partitions):
        np.testing.assert_allclose(P.sum(axis=1), 1.0, rtol=0, atol=1e-13)
        flow = pi[:, None] * P
        np.testing.assert_allclose(flow, flow.T, rtol=0, atol=1e-12)
        sweep = sweep @ P
    np.testing.assert_allclose(pi @ sweep, pi, rtol=0, atol=1e-12)
    assert (np.linalg.matrix_power(sweep, 60) > 0).all()  # every partition can be reached


def datum_left_in(state, i):
    """Wrong on purpose: the datum's own cluster is scored with the datum still in it."""
    p = conditional(state, i)
    old = state.labels[i]
    included = state.components.log_predictive(i, [old])[0] - state.components.log_predictive_self(i, old)
    p[old] *= np.exp(included)
    return p / p.sum()


def slightly_cold(state, i):
    """Wrong on purpose: a temperature 3 % off."""
    p = conditional(state, i) ** 1.03
    return p / p.sum()


@pytest.mark.parametrize("wrong", [datum_left_in, slightly_cold])
@pytest.mark.parametrize("name", ["poisson", "gaussian", "multinomial"])
def test_wrong_conditionals_are_found_out(wrong, name):
    family, X = FAMILIES[name]
    weights = WEIGHTS["dirichlet_process"]
    partitions, pi = exact_posterior(MixtureModel(family, weights), X)
    data = Dataset(X, family)
    matrices = gibbs_matrices(MixtureModel(data.family, weights), data, partitions, wrong)
    assert max(np.abs(pi @ P - pi).max() for P in matrices) > 1e-4
