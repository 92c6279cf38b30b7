"""Every exact mode leaves enumerated posteriors as they are, whatever the proposal; the papers' habits do not."""

import itertools
import json

import numpy as np
import pytest
from enumeration import canonical, exact_posterior, update_matrix
from instruction_sets import SETS, output_under
from tiny import FAMILIES, WEIGHTS

from expfam import Dataset, MixtureModel
from expfam.errors import CapabilityError, ExactnessWarning
from expfam.samplers import CollapsedMetropolis, Int8Proposal, Snapshot, TableProposal
from expfam.samplers.collapsed.laws import update_law
from expfam.samplers.states.collapsed import CollapsedState

pytestmark = pytest.mark.filterwarnings("ignore:.*rows? (is|are) empty")

PROPOSALS = {
    "table": (TableProposal(), ("multinomial", "multinomial_vector", "poisson")),
    "table_float": (TableProposal(dtype="float32"), ("multinomial", "poisson")),
    "int8": (Int8Proposal(), ("gaussian", "gaussian_diag", "gaussian_spherical", "gaussian_zero", "poisson")),
}
CASES = [(proposal, family) for proposal, (_, families) in PROPOSALS.items() for family in families]


def build(family_name, weights):
    family, X = FAMILIES[family_name]
    data = Dataset(X, family)
    model = MixtureModel(data.family, weights)
    return model, data, *exact_posterior(MixtureModel(family, weights), X)


def assert_reversible(P, pi):
    np.testing.assert_allclose(P.sum(axis=1), 1.0, rtol=0, atol=1e-12)
    assert (P >= -1e-15).all()
    flow = pi[:, None] * P
    np.testing.assert_allclose(flow, flow.T, rtol=0, atol=1e-12)


@pytest.mark.parametrize("weights", WEIGHTS.values(), ids=WEIGHTS)
@pytest.mark.parametrize(("proposal", "family"), CASES)
@pytest.mark.parametrize("mode", ["crossfit", "crossfit_1", "removed"])
def test_each_update_is_reversible(mode, proposal, family, weights):
    model, data, partitions, pi = build(family, weights)
    kernel = CollapsedMetropolis(PROPOSALS[proposal][0], mode=mode.partition("_")[0])
    n_blocks = 1 if mode == "crossfit_1" else 2
    sweep = np.eye(len(partitions))
    for i in range(data.n_rows):
        rows = np.arange(i % n_blocks, data.n_rows, n_blocks)
        P = update_matrix(kernel, model, data, partitions, i, rows)
        assert_reversible(P, pi)
        sweep = sweep @ P
    np.testing.assert_allclose(pi @ sweep, pi, rtol=0, atol=1e-12)
    assert (np.linalg.matrix_power(sweep, 60) > 0).all()


@pytest.mark.parametrize("weights", ["dirichlet_3", "dirichlet_8"])
@pytest.mark.parametrize(("proposal", "family"), CASES)
def test_included_is_reversible(proposal, family, weights):
    model, data, partitions, pi = build(family, WEIGHTS[weights])
    kernel = CollapsedMetropolis(PROPOSALS[proposal][0], mode="included")
    for i in range(data.n_rows):
        assert_reversible(update_matrix(kernel, model, data, partitions, i), pi)


@pytest.mark.parametrize(("proposal", "family"), CASES)
def test_frozen_is_reversible_among_labelled_components(proposal, family):
    weights = WEIGHTS["dirichlet_3"]
    model, data, partitions, pi = build(family, weights)
    kernel = CollapsedMetropolis(PROPOSALS[proposal][0], mode="frozen")
    K, known = weights.max_components, np.array([0, 0, 1, 2, 1])
    n, S = data.statistics(known.astype(np.int32), K)
    place = {z: row for row, z in enumerate(itertools.product(range(K), repeat=data.n_rows))}
    of_partition = dict(zip(partitions, pi))
    law = np.array([of_partition[canonical(z)] for z in place])
    law /= [np.prod(K - np.arange(len(set(z)))) for z in place]  # each naming of the clusters alike
    np.testing.assert_allclose(law.sum(), 1.0, rtol=0, atol=1e-12)
    P = np.zeros((len(place), len(place)))
    for i in (0, 3):
        P[:] = 0.0
        for z, row in place.items():
            state = CollapsedState(model, data, np.array(z), seed=0)
            names = name_of_slots(z, state.labels, K)  # slots are numbered by first appearance
            log_weight = np.log(n[names] + weights.offset)
            view = Snapshot(model.family, n[names], np.arange(K), lambda names=names: S[names], log_weight=log_weight)
            for slot, probability in update_law(kernel, state, i, snapshot=view).items():
                target = (*z[:i], names[slot], *z[i + 1 :])
                P[row, place[target]] += probability
        assert_reversible(P, law)


def name_of_slots(z, labels, K):
    names = [-1] * K
    for name, slot in zip(z, labels):
        names[slot] = name
    rest = [name for name in range(K) if name not in names]
    return [name if name >= 0 else rest.pop(0) for name in names]


@pytest.mark.parametrize(
    ("proposal", "family"), [("table", "multinomial"), ("table", "poisson"), ("int8", "gaussian"), ("int8", "poisson")]
)
def test_the_published_rule_is_found_out(proposal, family):
    model, data, partitions, pi = build(family, WEIGHTS["dirichlet_3"])
    kernel = CollapsedMetropolis(PROPOSALS[proposal][0], mode="published")
    matrices = [update_matrix(kernel, model, data, partitions, i) for i in range(data.n_rows)]
    sweep = np.linalg.multi_dot(matrices)
    assert max(np.abs(pi @ P - pi).max() for P in matrices) > 1e-3
    law = np.linalg.matrix_power(sweep, 500)[0]
    assert 0.5 * np.abs(law - pi).sum() > 0.01


def test_q_that_knows_the_datum_is_found_out():
    """Included q in one direction only, by a kernel that forgets to hold the datum out of its block."""
    model, data, partitions, pi = build("poisson", WEIGHTS["dirichlet_3"])
    kernel = CollapsedMetropolis(TableProposal(), mode="crossfit")
    P = update_matrix(kernel, model, data, partitions, 0, rows=np.array([1, 2]))
    assert np.abs(pi @ P - pi).max() > 1e-3


@pytest.mark.parametrize("mode", ["included", "frozen", "published", "asynchronous"])
@pytest.mark.parametrize("weights", ["dirichlet_process", "pitman_yor"])
def test_modes_of_finite_weights_are_refused_by_name(mode, weights):
    family, X = FAMILIES["poisson"]
    kernel = CollapsedMetropolis(TableProposal(), mode=mode)
    with pytest.raises(CapabilityError, match=f"mode '{mode}' needs weights with a fixed number"):
        kernel.init(MixtureModel(family, WEIGHTS[weights]), X, seed=0)


@pytest.mark.parametrize("mode", ["published", "asynchronous"])
def test_inexact_modes_warn(mode):
    family, X = FAMILIES["poisson"]
    kernel = CollapsedMetropolis(TableProposal(), mode=mode)
    state = kernel.init(MixtureModel(family, WEIGHTS["dirichlet_3"]), X, seed=0)
    with pytest.warns(ExactnessWarning, match=mode):
        kernel.step(state)
    state.check()


INPUTS = """
import json
import numpy as np
from expfam import Dataset, DirichletProcess, MixtureModel, Multinomial
from expfam.samplers import CollapsedMetropolis, TableProposal
from expfam.samplers.collapsed.laws import update_law
from expfam.samplers.states.collapsed import CollapsedState
X = np.random.default_rng(0).poisson(0.8, size=(120, 30)) + np.eye(30)[np.arange(120) % 30]
X[:, 0], X[::7, 1] = np.arange(120) * 3, 700    # bytes of all sizes, and sums of more than 16 bits
data = Dataset(X, Multinomial())
state = CollapsedState(MixtureModel(data.family, DirichletProcess(1.0)), data, np.arange(120) % 70, seed=0)
out = []
for dtype in ("uint8", "float32"):
    for i in range(0, 120, 13):
        law = update_law(CollapsedMetropolis(TableProposal(dtype=dtype)), state, i)
        out.append([law.get(slot, 0.0) for slot in range(80)])
print(json.dumps(out))
"""


def test_instruction_sets_give_one_law():
    laws = [np.array(json.loads(output_under(isa, INPUTS))) for isa in SETS]
    np.testing.assert_allclose(laws[0].sum(axis=1), 1, rtol=1e-12)
    assert (laws[0] > 0).sum() > 100
    half = len(laws[0]) // 2
    for other in laws[1:]:  # sums of bytes are whole; those of some 30 logs in float32 are of a size of 5
        np.testing.assert_allclose(other[:half], laws[0][:half], rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(other[half:], laws[0][half:], rtol=1e-3, atol=1e-12)
