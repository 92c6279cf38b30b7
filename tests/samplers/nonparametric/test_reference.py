"""The law of partitions in groups two ways, and slow samplers of it against enumeration; mistakes must be seen."""

import numpy as np
import pytest
from franchise_slow import FAULTS, Direct, Franchise, SplitMerge, posterior, seated_prior, table_counts
from franchises import NAMES, Tiny, quadrature
from visits import LIMIT, worst_t

from expfam import AdmixtureModel, Dataset, DirichletProcess, HierarchicalProcess, Multinomial, Poisson
from expfam.model.enumeration import set_partitions

N_STEPS = 12_000
GROUPS = ([0, 0, 1, 0], [0, 1, 2, 1], [0, 0, 0, 0], [1, 0, 1, 1, 0])


def visited(sampler, n_steps=N_STEPS):
    found = []
    for _ in range(n_steps):
        sampler.step()
        found.append(sampler.labels())
    return found


# ---- the law ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("groups", GROUPS)
def test_probabilities_of_partitions_are_sums_over_every_seating(groups):
    model = HierarchicalProcess(Poisson(), 1.3, 0.8)
    exact = seated_prior(1.3, 0.8, groups)
    assert abs(sum(exact.values()) - 1.0) < 1e-12
    for p in set_partitions(len(groups)):
        np.testing.assert_allclose(np.exp(model.log_prior(table_counts(p, groups))), exact[p], rtol=1e-12)


def test_two_data_are_together_with_the_known_probabilities():
    a, g = 1.7, 0.6
    model = HierarchicalProcess(Poisson(), a, g)
    same = np.exp(model.log_prior([[2]]))
    np.testing.assert_allclose(same, 1 / (1 + a) + a / (1 + a) / (1 + g), rtol=1e-12)
    np.testing.assert_allclose(np.exp(model.log_prior([[1], [1]])), 1 / (1 + g), rtol=1e-12)


def test_one_datum_a_group_and_large_concentrations_are_one_dirichlet_process():
    sizes = [3, 1, 2]
    exact = DirichletProcess(0.8).log_prior(np.array(sizes))
    labels = np.repeat(np.arange(3), sizes)
    model = HierarchicalProcess(Poisson(), 1.3, 0.8)
    np.testing.assert_allclose(model.log_prior(table_counts(labels, np.arange(6))), exact, rtol=1e-12)
    wide = model.with_concentrations(1e7, 0.8)
    np.testing.assert_allclose(wide.log_prior([sizes]), exact, rtol=1e-5)


def test_log_joint_adds_the_evidence_of_words_and_of_rows():
    X = np.array([[2, 0, 1], [0, 1, 1]])
    labels = [4, 4, 0, 0, 4]
    model = HierarchicalProcess(Multinomial(0.3), 1.3, 0.8)
    counts = table_counts([1, 1, 0, 0, 1], [0, 0, 1, 0, 1])
    admixture = AdmixtureModel(Multinomial(0.3), 2, 1.0)
    # the Dirichlet of the other model: its share of the joint law is known without data
    both = sum(np.log(np.arange(1, n + 1)).sum() for n in counts.ravel())
    both -= sum(np.log(np.arange(2, 2 + n)).sum() for n in counts.sum(axis=1))
    evidence = admixture.log_joint(X, [1, 1, 0, 0, 1]) - both
    np.testing.assert_allclose(model.log_joint(X, labels), model.log_prior(counts) + evidence, rtol=1e-12)
    rows, groups = np.array([[0], [3], [4], [0]]), [0, 1, 1, 0]
    data = Dataset(rows, Poisson(shape=0.8, rate=0.5), groups=groups)
    model = HierarchicalProcess(data.family, 1.3, 0.8)
    labels = np.array([0, 1, 1, 0])
    n, S = np.array([2.0, 2.0]), np.array([[0.0], [7.0]])
    expected = model.log_prior(table_counts(labels, groups)) + data.family.total_log_marginal(n, S)
    np.testing.assert_allclose(model.log_joint(data, labels), expected, rtol=1e-12)
    np.testing.assert_allclose(model.log_joint(rows, 5 * labels, groups), expected, rtol=1e-12)


@pytest.mark.parametrize(("alpha", "gamma"), [(0.0, 1.0), (1.0, -1.0), ([1.0, 2.0], 1.0), (1.0, np.inf), (True, 1.0)])
def test_concentrations_out_of_their_range(alpha, gamma):
    with pytest.raises(ValueError, match=r"HierarchicalProcess: (alpha|gamma) must be one positive number"):
        HierarchicalProcess(Poisson(), alpha, gamma)


# ---- samplers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sampler", [Franchise, Direct, SplitMerge])
@pytest.mark.parametrize("name", NAMES)
def test_partitions_are_visited_by_their_probability(name, sampler):
    tiny = Tiny(name)
    chain = sampler(tiny.model, tiny.evidence, tiny.groups, seed=1)
    assert worst_t(visited(chain), tiny.partitions, tiny.probability) < LIMIT


@pytest.mark.parametrize("fault", FAULTS)
def test_a_mistake_is_seen(fault):
    tiny = Tiny("two_documents")
    chain = Direct(tiny.model, tiny.evidence, tiny.groups, seed=1, fault=fault)
    assert worst_t(visited(chain), tiny.partitions, tiny.probability) > LIMIT


@pytest.mark.parametrize("fault", ["share_density", "beta_kept"])
def test_a_mistake_of_splits_and_merges_is_seen(fault):
    tiny = Tiny("two_documents")
    chain = SplitMerge(tiny.model, tiny.evidence, tiny.groups, seed=1, fault=fault)
    assert worst_t(visited(chain), tiny.partitions, tiny.probability) > LIMIT


def test_another_concentration_is_seen():
    tiny = Tiny("two_documents")
    chain = Direct(tiny.model, tiny.evidence, tiny.groups, seed=1)
    other = posterior(tiny.model.with_concentrations(1.3, 1.6), tiny.evidence, tiny.groups)[1]
    assert worst_t(visited(chain), tiny.partitions, other) > LIMIT


@pytest.fixture(scope="module")
def learned():
    return quadrature("two_documents")


@pytest.mark.parametrize("sampler", [Franchise, Direct, SplitMerge])
def test_learned_concentrations_leave_the_law_over_all_of_them(sampler, learned):
    tiny, probability = learned
    chain = sampler(tiny.model, tiny.evidence, tiny.groups, seed=2, learns=True)
    visits = visited(chain)
    assert worst_t(visits, tiny.partitions, probability) < LIMIT
    assert worst_t(visits, tiny.partitions, tiny.probability) > LIMIT
