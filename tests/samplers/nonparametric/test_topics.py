"""Gibbs sampling of topics whose number is unknown: its law by enumeration, its counters, and runs to the bit."""

import numpy as np
import pytest
from franchise_slow import posterior
from franchises import DOCUMENTS, Tiny, quadrature
from scipy import sparse
from stepping import assert_resumes, assert_seed_decides, stepped
from visits import LIMIT, visited, worst_t

from expfam import AdmixtureModel, Categorical, Dataset, HierarchicalProcess, Multinomial
from expfam.errors import ArchiveError, CapabilityError, DataError
from expfam.model.pseudo_counts import CountTable
from expfam.samplers import TopicGibbs, TopicProcessGibbs, sample
from expfam.samplers.nonparametric import slots as slots_of
from expfam.samplers.nonparametric import topics as process
from expfam.samplers.nonparametric.weights import (
    SharedWeights,
    draw_shared_weights,
    first_weights,
    log_density,
    log_density_given_tables,
)

LENGTHS = [pytest.param(6000, id="short"), pytest.param(12_000, id="long", marks=pytest.mark.slow)]  # of chains
FIXED = TopicProcessGibbs(learn_alpha=False)


def corpus(n_docs=60, n_words=30, length=12, seed=0):
    rng = np.random.default_rng(seed)
    return sparse.csr_array(rng.multinomial(length, rng.dirichlet(np.full(n_words, 0.2)), size=n_docs))


@pytest.fixture
def n_steps(is_slow):
    return 12_000 if is_slow else 6000


def visits_of(kernel, model, X, n_steps, *, seed=1):
    return visited(kernel, kernel.init(model, X, seed=seed, start=np.zeros(X.sum(), dtype=int)), n_steps)


# ---- the law ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("name", DOCUMENTS)
def test_partitions_of_tokens_are_visited_by_their_probability(name, seed, n_steps):
    tiny = Tiny(name)
    visits = visits_of(FIXED, tiny.model, tiny.X, n_steps, seed=seed)
    assert worst_t(visits, tiny.partitions, tiny.probability) < LIMIT
    other = posterior(tiny.model.with_concentrations(1.3, 1.6), tiny.evidence, tiny.groups)[1]
    assert worst_t(visits, tiny.partitions, other) > LIMIT


@pytest.mark.parametrize("n_steps", LENGTHS)
def test_they_are_where_slots_run_out_within_a_word(n_steps, monkeypatch):
    for module in (slots_of, process):
        monkeypatch.setattr(module, "capacity_for", lambda n: n + 1)
    grown = []
    grow = process.TopicProcessState.grow
    monkeypatch.setattr(process.TopicProcessState, "grow", lambda state: (grown.append(state.n_steps), grow(state))[1])
    tiny = Tiny("two_documents")
    assert worst_t(visits_of(FIXED, tiny.model, tiny.X, n_steps), tiny.partitions, tiny.probability) < LIMIT
    assert len(grown) > 100


@pytest.mark.parametrize("n_steps", LENGTHS)
def test_learned_concentrations_leave_the_law_over_all_of_them(n_steps):
    tiny, probability = quadrature("two_documents")
    visits = visits_of(TopicProcessGibbs(), tiny.model, tiny.X, n_steps)
    assert worst_t(visits, tiny.partitions, probability) < LIMIT
    assert worst_t(visits, tiny.partitions, tiny.probability) > LIMIT


@pytest.mark.parametrize("n_steps", LENGTHS)
def test_weights_that_are_never_drawn_again_are_seen(n_steps, monkeypatch):
    def keep(pseudocounts, alpha, gamma, table, totals, rng, *, learn, n_known):
        return first_weights(sizes_of(table), alpha, gamma)

    def sizes_of(table):
        return np.bincount(table.group, weights=table.count * table.times, minlength=table.n_groups)

    monkeypatch.setattr(process, "draw_shared_weights", keep)
    tiny = Tiny("two_documents")
    assert worst_t(visits_of(FIXED, tiny.model, tiny.X, n_steps), tiny.partitions, tiny.probability) > LIMIT


def test_the_density_of_clusters_and_weights_integrates_to_the_law_of_the_clusters():
    model = HierarchicalProcess(Multinomial(0.5), 1.3, 0.8)
    counts = np.array([[2, 1], [0, 3]])
    table = CountTable.of_counts(np.tile([0, 1], 2), counts.ravel(), 2)
    totals = CountTable.of_histogram(np.bincount(counts.sum(axis=1)))
    u = (np.arange(100) + 0.5) / 100
    step, slope = 3 * u**2 - 2 * u**3, 6 * u * (1 - u)  # more nodes near the ends
    x, y = np.meshgrid(step, step, indexing="ij")  # beta_1 = x, beta_2 = (1 - x) y
    scale = slope[:, None] * slope[None] * (1 - x) / 100**2
    total = 0.0
    for b, c, w in zip(x.ravel(), ((1 - x) * y).ravel(), scale.ravel()):
        weights = SharedWeights(1.3, 0.8, np.array([b, c]), 1 - b - c)
        total += w * np.exp(log_density(weights, table, totals, 1.3 * weights.beta))
    np.testing.assert_allclose(total, np.exp(model.log_prior(counts)), rtol=0.01)


def test_shared_weights_follow_the_tables():
    rng = np.random.default_rng(0)
    table = CountTable.of_counts(np.array([0, 0, 1]), np.array([1, 1, 1]), 3)  # counts of 1 have one table each
    drawn = [
        draw_shared_weights(np.array([0.4, 0.4, 0.2]), 1.3, 0.8, table, [2, 1], rng, learn=False) for _ in range(4000)
    ]
    beta = np.mean([w.beta for w in drawn], axis=0)
    np.testing.assert_allclose(beta, np.array([2.0, 1.0, 0.0]) / 3.8, atol=0.01)
    np.testing.assert_allclose([w.beta.sum() + w.rest for w in drawn], 1.0, rtol=1e-12)


# ---- states ----------------------------------------------------------------------------------------------------------


def test_counters_names_and_log_joint_are_those_of_the_topics():
    X = corpus()
    for eta in (0.2, np.linspace(0.1, 0.5, X.shape[1])):
        kernel = TopicProcessGibbs(learn_eta=np.ndim(eta) == 0)
        state = kernel.init(HierarchicalProcess(Multinomial(eta)), X, seed=1)
        names = set()
        for _ in range(40):
            info = kernel.step(state)
            state.check()
            sizes, slots = state.tokens.topic_size, state.shared
            assert info.n_clusters == np.count_nonzero(sizes) == np.count_nonzero(slots.names >= 0)
            assert ((slots.pseudocounts > 0) == ((sizes > 0) | (np.arange(len(sizes)) == slots.rest))).all()
            np.testing.assert_allclose(slots.pseudocounts.sum(), state.model.alpha, rtol=1e-12)
            now = set(slots.names[slots.names >= 0].tolist())
            assert len(now) == info.n_clusters
            assert now - names <= set(range(max(names, default=-1) + 1, slots.n_named))  # a name is given once
            names |= now


def test_topics_that_end_free_their_slots():
    X = corpus()
    state = TopicProcessGibbs().init(HierarchicalProcess(Multinomial(5.0)), X, seed=1, n_clusters=300)
    assert state.shared.capacity > 300
    sample(TopicProcessGibbs(), state, 60)
    state.check()
    assert state.n_clusters < 40
    assert state.shared.capacity < 150
    assert state.tokens.n_topics == state.shared.capacity


def test_planted_topics_are_found():
    rng = np.random.default_rng(0)
    topics = rng.dirichlet(np.full(60, 0.05), size=5)
    X = np.array([rng.multinomial(60, w @ topics) for w in rng.dirichlet(np.full(5, 0.2), size=500)])
    kernel = TopicProcessGibbs(learn_eta=True)
    state = kernel.init(HierarchicalProcess(Multinomial(0.05)), X, seed=0)
    sample(kernel, state, 200)
    sizes = state.tokens.topic_size
    large = sizes >= 0.01 * sizes.sum()
    assert large.sum() < 15
    found = state.tokens.word_topics().toarray().T[large] + 0.05
    distance = abs(topics[:, None] - (found / found.sum(axis=1, keepdims=True))[None]).sum(axis=2)
    assert len(set(distance.argmin(axis=1))) == 5
    assert distance.min(axis=1).max() < 0.2


def test_the_same_seed_gives_the_same_bits_and_another_does_not():
    X, kernel, model = corpus(), TopicProcessGibbs(learn_eta=True), HierarchicalProcess(Multinomial(0.2))
    assert_seed_decides(kernel, lambda seed: kernel.init(model, X, seed=seed))


def test_a_resumed_chain_has_the_bits_of_one_that_never_stopped(tmp_path):
    X, kernel, model = corpus(), TopicProcessGibbs(learn_eta=True), HierarchicalProcess(Multinomial(0.2))
    whole, again = stepped(kernel, kernel.init(model, X, seed=4, n_clusters=200), 25), kernel.init(model, X, seed=4)
    assert_resumes(kernel, whole, again, tmp_path / "run", 25)
    np.testing.assert_array_equal(whole.shared.pseudocounts, again.shared.pseudocounts)
    np.testing.assert_array_equal(whole.shared.names, again.shared.names)
    assert whole.model.gamma == again.model.gamma
    arrays = whole.to_arrays()
    arrays["slots"]["slots"] = np.array([whole.labels[0], whole.shared.n_named])
    with pytest.raises(ArchiveError, match="slots are not those of the labels"):
        again.from_arrays(arrays)


@pytest.mark.parametrize("n_known", [0, 2])
def test_the_log_joint_without_weights_is_exact_where_each_count_is_one_table(n_known):
    X, topics = np.array([[1, 1, 0], [0, 1, 1], [1, 0, 1]]), np.array([0, 2, 1, 2, 0, 1])
    model = HierarchicalProcess(Multinomial(0.3), 1.7, 0.6, n_known=n_known)
    state = FIXED.init(model, X, seed=0, start=topics)
    for _ in range(3):  # whatever the weights
        beta = 0.8 * state.weights.beta
        state.set_weights(state.weights._replace(beta=beta, rest=1.0 - beta.sum()))
        state.log_joint = state.compute_log_joint()
        tables = np.bincount(topics, minlength=state.shared.capacity).astype(float)
        found = state.log_joint - log_density_given_tables(state.weights, tables, n_known)
        assert found == pytest.approx(model.log_joint(X, topics), abs=1e-9)


def test_sizes_to_begin_with_and_empty_documents():
    assert process.default_n_topics(100, 10) == 20
    assert process.default_n_topics(80_000, 1000) == 141
    assert process.default_n_topics(80_000, 16_000) == 70
    assert process.default_n_topics(10**9, 10**6) == 1000
    with pytest.warns(UserWarning, match="rows? (is|are) empty"):
        state = TopicProcessGibbs().init(HierarchicalProcess(Multinomial(0.1)), np.zeros((3, 4), dtype=int), seed=0)
    assert np.isfinite(sample(TopicProcessGibbs(), state, 11).column("objective")).all()
    assert state.n_clusters == 0


@pytest.mark.parametrize(
    ("settings", "model", "X", "error", "words"),
    [
        ({"learn_every": 0}, HierarchicalProcess(Multinomial(0.1)), corpus(), ValueError, "learn_every"),
        ({"learn_eta": True}, HierarchicalProcess(Multinomial(np.ones(30))), corpus(), CapabilityError, "one concentr"),
        ({}, HierarchicalProcess(Multinomial(0.1, allow_fractional=True)), corpus() * 0.5, DataError, "whole counts"),
        ({}, HierarchicalProcess(Categorical(0.1)), [[0, 1], [1, 0]], CapabilityError, "Multinomial"),
        ({}, AdmixtureModel(Multinomial(0.1), 2), corpus(), CapabilityError, r"write TopicProcessGibbs\(\)\.init\("),
    ],
)
def test_what_cannot_be_sampled_is_refused(settings, model, X, error, words):
    with pytest.raises(error, match=words):
        TopicProcessGibbs(**settings).init(model, X, seed=0)


def test_starts():
    X, model = np.array([[2, 0, 1], [0, 1, 1]]), HierarchicalProcess(Multinomial(0.2))
    assert FIXED.init(model, X, seed=0, start=[7, 1, 2, 0, 7]).labels.tolist() == [7, 1, 2, 0, 7]
    for start, words in (("kmeans++", "random"), ([0, 1], "5 integers"), ([0, 1, -2, 3, 0], "from 0 on; found -2")):
        with pytest.raises(ValueError, match=words):
            FIXED.init(model, X, seed=0, start=start)
    with pytest.raises(CapabilityError, match="weights of rows"):
        FIXED.init(model, Dataset(X, Multinomial(0.2), weight=[2.0, 1.0]), seed=0)
    with pytest.raises(CapabilityError, match="AdmixtureModel"):
        TopicGibbs().init(model, X, seed=0)
