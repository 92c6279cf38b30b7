"""Gibbs sampling of rows in groups against enumeration, its counters against the plain definition, and its settings."""

import numpy as np
import pytest
from grouped_by_terms import enumerate_clusters, log_likelihood, log_prior
from planted import planted, planted_groups
from scipy import special
from sklearn.metrics import normalized_mutual_info_score
from tiny import FAMILIES
from visits import LIMIT, worst_t

from expfam import AdmixtureModel, Dataset, Gaussian, Groups, MixtureModel, Multinomial, Poisson, SymmetricDirichlet
from expfam.errors import CapabilityError, DataError, ExpFamError
from expfam.samplers import (
    Checkpoint,
    CollapsedGibbs,
    CollapsedState,
    Cycle,
    GroupedGibbs,
    GroupedState,
    UpdateHyper,
    sample,
)
from expfam.samplers.chain.callbacks import restore_checkpoint
from expfam.samplers.collapsed.gibbs import conditional as conditional_of_rows
from expfam.samplers.grouped.gibbs import conditional

pytestmark = pytest.mark.filterwarnings("ignore:.*rows? (is|are) empty")

GROUPS = np.array([1, 0, 1, 0, 1])  # not sorted
ALPHA = {2: np.array([0.7, 0.3]), 3: np.array([0.4, 0.9, 0.2])}


def tiny(name, n_clusters, groups=GROUPS):
    family, X = FAMILIES[name]
    data = Dataset(X, family, groups=groups)
    return AdmixtureModel(data.family, n_clusters, ALPHA[n_clusters]), data


def softmax(scores):
    p = np.exp(scores - scores.max())
    return p / p.sum()


@pytest.mark.parametrize("name", FAMILIES)
def test_the_log_joint_is_that_of_one_row_after_the_other(name):
    model, data = tiny(name, 3)
    rng = np.random.default_rng(0)
    for _ in range(5):
        labels = rng.integers(0, 3, data.n_rows)
        exact = log_prior(labels, GROUPS, ALPHA[3]) + log_likelihood(data.family, data.X, labels, 3)
        assert model.log_joint(data, labels) == pytest.approx(exact, abs=1e-10)
        assert model.log_joint(data.X, labels, GROUPS) == pytest.approx(exact, abs=1e-10)
        assert GroupedState(model, data, labels, seed=0).log_joint == pytest.approx(exact, abs=1e-10)


def test_words_in_groups_are_a_document_of_tokens():
    """The words' own log joint is that of one-word rows whose groups are the documents."""
    counts = np.array([[2, 0, 1], [0, 1, 1]])
    model = AdmixtureModel(Multinomial(0.3), 2, ALPHA[2])
    words, docs = np.array([0, 0, 1, 2, 2]), np.array([0, 0, 1, 0, 1])  # by word, then by document
    rows = np.eye(3)[words]
    for topics in ([0, 1, 1, 0, 1], [0, 0, 0, 0, 0]):
        assert model.log_joint(counts, topics) == pytest.approx(model.log_joint(rows, topics, docs), abs=1e-12)


@pytest.mark.parametrize("groups", [GROUPS, [0, 0, 0, 0, 0], [4, 0, 2, 2, 4]])
@pytest.mark.parametrize("name", FAMILIES)
def test_each_draw_has_the_exact_conditional_law(name, groups):
    model, data = tiny(name, 3, groups)
    rng = np.random.default_rng(1)
    for _ in range(4):
        labels = rng.integers(0, 3, data.n_rows)
        state = GroupedState(model, data, labels, seed=0)
        for i in range(data.n_rows):
            options = [np.where(np.arange(data.n_rows) == i, k, labels) for k in range(3)]
            exact = softmax(np.array([model.log_joint(data, option) for option in options]))
            np.testing.assert_allclose(conditional(state, i), exact, atol=1e-10)


def visits(kernel, model, data, n_steps, seed=1):
    state = kernel.init(model, data, seed=seed, start=np.zeros(data.n_rows, dtype=int))
    seen = []
    for _ in range(n_steps):
        kernel.step(state)
        seen.append(tuple(state.labels.tolist()))
    state.check()
    return seen


@pytest.mark.parametrize("order", ["sequential", "random"])
@pytest.mark.parametrize("name", FAMILIES)
def test_clusters_are_visited_by_their_posterior(name, order):
    n_clusters = 2 if order == "random" else 3
    model, data = tiny(name, n_clusters)
    labels, log_joint = enumerate_clusters(data.family, data.X, GROUPS, ALPHA[n_clusters])
    chain = visits(GroupedGibbs(order=order, learn_alpha=False), model, data, 6000)
    assert worst_t(chain, [tuple(row.tolist()) for row in labels], softmax(log_joint)) < LIMIT


def test_a_wrong_grouping_is_told_apart():
    """The chain of other groups does not pass: weights that all rows share are another posterior."""
    model, data = tiny("poisson", 2)
    labels, log_joint = enumerate_clusters(data.family, data.X, GROUPS, ALPHA[2])
    other = Dataset(data.X, data.family, groups=np.zeros(5, dtype=int))
    chain = visits(GroupedGibbs(learn_alpha=False), model, other, 6000)
    assert worst_t(chain, [tuple(row.tolist()) for row in labels], softmax(log_joint)) > LIMIT


def test_one_group_is_a_mixture():
    """With one group and equal pseudo-counts both samplers have the same conditional laws."""
    family, X, _ = planted("gaussian", n=60)
    data = Dataset(X, family, groups=np.zeros(60, dtype=int))
    labels = np.arange(60) % 4
    grouped = GroupedState(AdmixtureModel(data.family, 4, 0.3), data, labels, seed=0)
    mixture = MixtureModel(data.family, SymmetricDirichlet(4, 0.3))
    plain = CollapsedState(mixture, Dataset(X, data.family), labels, seed=0)
    for i in (0, 17, 59):
        np.testing.assert_allclose(conditional(grouped, i), conditional_of_rows(plain, i), atol=1e-12)


@pytest.mark.parametrize("name", ["gaussian", "gaussian_diag", "poisson", "multinomial", "categorical"])
def test_counters_and_log_joint_are_those_of_the_labels(name):
    family, X, _ = planted(name)
    groups = np.random.default_rng(3).integers(0, 30, len(X)) * 2  # every second group has no rows
    data = Dataset(X, family, groups=groups)
    kernel = GroupedGibbs(order="random", learn_every=2)
    state = kernel.init(AdmixtureModel(data.family, 8, np.linspace(0.1, 1.0, 8)), data, seed=1)
    for _ in range(5):
        info = kernel.step(state)
        np.testing.assert_allclose(info.objective, state.model.log_joint(data, state.labels), rtol=1e-10)
        state.check()
        assert info.n_clusters == np.unique(state.labels).size
    counts = state.group_counts().toarray()
    assert counts.shape == (groups.max() + 1, 8)
    np.testing.assert_array_equal(counts.sum(axis=1), data.groups.sizes)


def test_check_finds_a_damaged_counter():
    model, data = tiny("poisson", 3)
    state = GroupedState(model, data, [0, 1, 1, 2, 0], seed=0)
    state.counts[1] += 1
    with pytest.raises(AssertionError, match="counts differ"):
        state.check()


@pytest.mark.parametrize("n_steps", [8000, pytest.param(20_000, marks=pytest.mark.slow)])
def test_learned_pseudocounts_average_over_their_posterior(n_steps):
    """Clusters and pseudo-counts together: the enumerated law integrates the pseudo-counts by quadrature."""
    X, groups = np.array([[0.0], [1.0], [6.0]]), np.array([0, 0, 1])
    data = Dataset(X, Poisson(shape=1.5, rate=0.4), groups=groups)
    labels, fixed = enumerate_clusters(data.family, X, groups, np.array([1.0, 1.0]))
    likelihood = fixed - [log_prior(row, groups, np.array([1.0, 1.0])) for row in labels]

    # a = s u, b = s (1 - u): polynomials in u times e^-s s / (s + 1) and the like, without the corner at a = b = 0
    s, s_weight = special.roots_genlaguerre(60, 1.0)
    u, u_weight = special.roots_legendre(6)

    def prior(row):
        values = [[log_prior(row, groups, s_i * np.array([v, 1.0 - v])) for v in (1.0 + u) / 2] for s_i in s]
        return s_weight @ np.exp(values) @ u_weight / 2

    pi = softmax(np.log([prior(row) for row in labels]) + likelihood)
    chain = visits(GroupedGibbs(), AdmixtureModel(data.family, 2, 1.0), data, n_steps)
    assert worst_t(chain, [tuple(row.tolist()) for row in labels], pi) < LIMIT
    other = softmax(fixed)
    assert worst_t(chain, [tuple(row.tolist()) for row in labels], other) > LIMIT


def test_planted_groups_are_found():
    X, groups, labels = planted_groups()
    data = Dataset(X, Gaussian(), groups=groups)
    kernel = GroupedGibbs()
    state = kernel.init(AdmixtureModel(data.family, 5, 0.5), data, seed=0)
    sample(kernel, state, 20)
    assert normalized_mutual_info_score(labels, state.labels) > 0.95


# ---- runs ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["gaussian", "poisson"])
def test_a_resumed_chain_has_the_same_bits(tmp_path, name):
    family, X, _ = planted(name)
    data = Dataset(X, family, groups=np.arange(len(X)) % 17)
    kernel = Cycle(GroupedGibbs(order="random"), UpdateHyper(weights=False))
    whole = kernel.init(AdmixtureModel(data.family, 7), data, seed=2)
    for _ in range(3):
        kernel.step(whole)
    sample(kernel, whole, 1, callbacks=[Checkpoint(tmp_path / "run", every_seconds=0)])
    resumed = kernel.init(AdmixtureModel(data.family, 7), data, seed=2)
    restore_checkpoint(tmp_path / "run", resumed)
    for _ in range(3):
        kernel.step(whole)
        kernel.step(resumed)
    np.testing.assert_array_equal(whole.labels, resumed.labels)
    assert whole.log_joint == resumed.log_joint
    np.testing.assert_array_equal(whole.model.pseudocounts, resumed.model.pseudocounts)


def test_offsets_and_numbers_are_the_same_groups():
    family, X, _ = planted("poisson", n=30)
    states = []
    for groups in (np.repeat([0, 2], [10, 20]), Groups.of_offsets([0, 10, 10, 30])):
        data = Dataset(X, family, groups=groups)
        kernel = GroupedGibbs()
        state = kernel.init(AdmixtureModel(data.family, 4), data, seed=0)
        sample(kernel, state, 3)
        states.append(state)
    np.testing.assert_array_equal(states[0].labels, states[1].labels)
    assert states[0].log_joint == states[1].log_joint


# ---- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        ([0, 1, 1], "5 rows; got 3"),
        ([0, 1, -1, 0, 0], "row 2 holds -1"),
        ([0.0, np.nan, 0.0, 0.0, 0.0], "row 1 has no group"),
        (["a", "b", "a", None, "b"], "row 3 has no group"),
        ([[0, 1, 0, 0, 0]], "one-dimensional"),
    ],
)
def test_bad_groups_are_named(groups, words):
    family, X = FAMILIES["poisson"]
    with pytest.raises(DataError, match=words):
        Dataset(X, family, groups=groups)


def test_names_that_look_like_numbers_are_found_out():
    names = [9_000_000_000_123, 9_000_000_000_456]
    with pytest.raises(DataError, match="return_inverse"):
        Groups(names)
    assert Groups([0, 2_000_000], n_groups=2_000_001).sizes.sum() == 2


@pytest.mark.parametrize("offsets", [[1, 3], [0, 3, 2], [0.0, 2.0], []])
def test_bad_offsets_are_refused(offsets):
    with pytest.raises(DataError, match="offsets"):
        Groups.of_offsets(offsets)


def test_kernels_refuse_what_is_not_theirs():
    model, data = tiny("poisson", 2)
    with pytest.raises(CapabilityError, match="needs the group of each row"):
        GroupedGibbs().init(model, data.X)
    with pytest.raises(CapabilityError, match="works on an AdmixtureModel"):
        GroupedGibbs().init(MixtureModel(data.family, SymmetricDirichlet(2)), data)
    with pytest.raises(CapabilityError, match="cannot use groups"):
        CollapsedGibbs().init(MixtureModel(data.family, SymmetricDirichlet(2)), data)
    with pytest.raises(ValueError, match="learn_every"):
        GroupedGibbs(learn_every=0).init(model, data)
    with pytest.raises(ValueError, match="order"):
        GroupedGibbs(order="other").init(model, data)
    with pytest.raises(ValueError, match=r"0\.\.1"):
        GroupedGibbs().init(model, data, start=[0, 1, 2, 0, 0])
    with pytest.raises(CapabilityError, match=r"weights of rows.*write GroupedVariational\(\)"):
        GroupedGibbs().init(model, Dataset(data.X, data.family, groups=GROUPS, weight=[1, 2, 1, 1, 1]))
    state = GroupedGibbs().init(model, data)
    with pytest.raises(CapabilityError, match="cannot become"):
        Cycle(GroupedGibbs(), CollapsedGibbs()).kernels[1].step(state.as_type(CollapsedState))
    with pytest.raises(ExpFamError, match="2 clusters, this state 3"):
        GroupedState(tiny("poisson", 3)[0], data, [0] * 5, seed=0).from_arrays(state.to_arrays())
