"""Gibbs sampling of topic models against enumeration, its counters against the plain definition, and its settings."""

import itertools

import numpy as np
import pytest
from scipy import integrate, sparse, stats
from scipy.special import gammaln
from stepping import assert_resumes, assert_seed_decides, stepped

from expfam import AdmixtureModel, Categorical, Dataset, MixtureModel, Multinomial, SymmetricDirichlet
from expfam.errors import CapabilityError, DataError, ExpFamError
from expfam.model.pseudo_counts import (
    CountTable,
    draw_gamma_above,
    draw_log_beta,
    draw_log_beta_sum,
    draw_pseudocounts,
    draw_shared_pseudocount,
)
from expfam.samplers import TopicGibbs, sample
from expfam.samplers.topics import start as topic_start
from expfam.samplers.topics.tokens import TokenTopics

pytestmark = pytest.mark.filterwarnings("ignore:.*rows? (is|are) empty")

TINY = np.array([[2, 0, 1], [0, 1, 1], [0, 0, 0]])
FIXED = {"learn_alpha": False}


def tiny_model(n_topics=2, *, vector=True):
    alpha = np.linspace(0.3, 0.8, n_topics) if vector else 0.4
    eta = np.array([0.2, 0.5, 0.9]) if vector else 0.3
    return AdmixtureModel(Multinomial(eta), n_topics, alpha)


def corpus(n_docs=60, n_words=30, length=12, seed=0):
    rng = np.random.default_rng(seed)
    return sparse.csr_array(rng.multinomial(length, rng.dirichlet(np.full(n_words, 0.2)), size=n_docs))


def stratified(n):
    return (np.arange(n) + 0.5) / n


def exact_conditional(model, X, topics, token, *, without=True):
    """Law of one token's topic given the others, from the log joint; `without=False` leaves the token in the counts."""
    n_topics = model.n_components
    if not without:  # two copies of the token: the one that is drawn, and the one that is left where it was
        columns = sparse.csc_array(X)
        words = np.repeat(np.arange(X.shape[1]), np.asarray(X.sum(axis=0)).ravel())
        docs = np.repeat(columns.indices, columns.data)
        more = np.array(X)
        more[docs[token], words[token]] += 1
        X, topics = more, np.insert(topics, token, topics[token])
    scores = []
    for k in range(n_topics):
        proposal = np.array(topics)
        proposal[token] = k
        scores.append(model.log_joint(X, proposal))
    p = np.exp(np.array(scores) - max(scores))
    return p / p.sum()


def drawn_law(model, X, topics, token, n=20_000):
    tokens = TokenTopics(sparse.csr_array(X), model.n_components)
    tokens.topic[:] = topics
    tokens.count_topics()
    eta = model.bind(X).family.pseudocounts()[0]
    drawn = tokens.draws(model.pseudocounts, eta, token, stratified(n))
    return np.bincount(drawn, minlength=model.n_components) / n


@pytest.mark.parametrize("n_topics", [1, 2, 3, 20, 300])
def test_each_draw_has_the_exact_conditional_law(n_topics):
    rng = np.random.default_rng(n_topics)
    model = tiny_model(n_topics)
    for _ in range(3):
        topics = rng.integers(0, n_topics, TINY.sum())
        for token in range(TINY.sum()):
            p = exact_conditional(model, TINY, topics, token)
            # stratified numbers miss each of the at most 8 intervals of a topic by less than one of them
            np.testing.assert_allclose(drawn_law(model, TINY, topics, token, 4000), p, atol=8 / 4000)


def test_long_lists_of_topics_have_it_too():
    rng = np.random.default_rng(5)
    X = np.array([[25, 20, 15], [2, 0, 9]])
    model = tiny_model(40)
    for n_used in (9, 25, 40):  # shorter than a vector, a few of them, and topics that the document lacks
        topics = rng.integers(0, n_used, X.sum())
        for token in (0, 30, 50, 70):
            p = exact_conditional(model, X, topics, token)
            np.testing.assert_allclose(drawn_law(model, X, topics, token), p, atol=8 / 20_000)


def test_a_law_that_leaves_the_token_in_is_told_apart():
    model = tiny_model(3)
    topics = np.array([0, 1, 2, 0, 1])
    wrong = exact_conditional(model, TINY, topics, 0, without=False)
    assert abs(drawn_law(model, TINY, topics, 0) - wrong).max() > 0.05


@pytest.mark.parametrize("vector", [False, True])
def test_topics_are_visited_by_their_posterior(vector):
    model = tiny_model(2, vector=vector)
    states = list(itertools.product(range(2), repeat=int(TINY.sum())))
    log_joint = np.array([model.log_joint(TINY, topics) for topics in states])
    p = np.exp(log_joint - log_joint.max())
    p /= p.sum()
    kernel = TopicGibbs(**FIXED)
    state = kernel.init(model, TINY, seed=3)
    powers = 2 ** np.arange(TINY.sum())[::-1]
    n_kept, thin = 100_000, 2
    counts = np.zeros(len(states))
    alpha, eta, histogram = model.pseudocounts, state.eta, np.zeros(6, dtype=np.int64)
    for step in range(n_kept * thin):
        state.tokens.sweep(alpha, eta, 0, 3, 3, step, histogram)
        if step % thin == 0:
            counts[(state.labels * powers).sum()] += 1
    # neighbours are dependent: a chain of a few effective draws in ten still leaves this distance below .01
    assert 0.5 * abs(counts / n_kept - p).sum() < 0.015
    assert 0.5 * abs(counts / n_kept - np.roll(p, 1)).sum() > 0.1


def test_counters_and_log_joint_are_those_of_the_topics():
    X = corpus()
    for eta in (0.2, np.linspace(0.1, 0.5, X.shape[1])):
        model = AdmixtureModel(Multinomial(eta), 40, np.linspace(0.05, 0.4, 40))
        kernel = TopicGibbs(learn_eta=np.ndim(eta) == 0, learn_every=2)
        state = kernel.init(model, X, seed=1)
        for _ in range(6):
            info = kernel.step(state)
            np.testing.assert_allclose(info.objective, state.model.log_joint(X, state.labels), rtol=1e-10)
            state.check()
        np.testing.assert_array_equal(state.tokens.document_topics().toarray().sum(axis=1), X.sum(axis=1))
        np.testing.assert_array_equal(state.tokens.word_topics().toarray().sum(axis=1), X.sum(axis=0))
        total = np.zeros((X.shape[1], 40))
        state.tokens.add_word_topics(total)
        np.testing.assert_array_equal(total, state.tokens.word_topics().toarray())
        histogram = np.zeros(state.tokens.n_tokens + 1, dtype=np.int64)
        state.tokens.count_words(histogram)
        found = np.bincount(total[total > 0].astype(int), minlength=len(histogram))
        np.testing.assert_array_equal(histogram, found)


def test_check_finds_a_damaged_counter():
    kernel = TopicGibbs()
    state = kernel.init(AdmixtureModel(Multinomial(0.2), 5), corpus(), seed=1)
    kernel.step(state)
    state.tokens.topic_size[2] += 1
    with pytest.raises(AssertionError, match="counts of topics"):
        state.check()


def test_planted_topics_are_found():
    rng = np.random.default_rng(0)
    topics = rng.dirichlet(np.full(60, 0.05), size=6)
    weights = rng.dirichlet(np.full(6, 0.2), size=800)
    X = np.array([rng.multinomial(40, w @ topics) for w in weights])
    kernel = TopicGibbs()
    state = kernel.init(AdmixtureModel(Multinomial(0.05), 6, 0.2), X, seed=0)
    sample(kernel, state, 150)
    found = state.tokens.word_topics().toarray().T + 0.05
    found /= found.sum(axis=1, keepdims=True)
    distance = abs(topics[:, None] - found[None]).sum(axis=2)
    assert sorted(distance.argmin(axis=1)) == list(range(6))
    assert distance.min(axis=1).max() < 0.15
    assert 0.5 * 1.2 < state.model.pseudocounts.sum() < 2 * 1.2


def test_the_same_seed_gives_the_same_bits_and_another_does_not():
    X, kernel = corpus(), TopicGibbs(learn_eta=True, learn_every=1)
    model = AdmixtureModel(Multinomial(0.2), 7)
    assert_seed_decides(kernel, lambda seed: kernel.init(model, X, seed=seed))


def test_a_resumed_chain_has_the_bits_of_one_that_never_stopped(tmp_path):
    X, kernel = corpus(), TopicGibbs(learn_eta=True, learn_every=2)
    model = AdmixtureModel(Multinomial(0.2), 7)
    whole, again = stepped(kernel, kernel.init(model, X, seed=4), 5), kernel.init(model, X, seed=4)
    assert_resumes(kernel, whole, again, tmp_path / "run", 5)
    np.testing.assert_array_equal(whole.model.pseudocounts, again.model.pseudocounts)
    with pytest.raises(ExpFamError, match="7 topics, the model 8"):
        kernel.init(model.__class__(Multinomial(0.2), 8), X, seed=4).from_arrays(whole.to_arrays())


# ---- pseudo-counts ---------------------------------------------------------------------------------------------------


def counts_of_documents():
    return np.array([[3, 1], [0, 5], [2, 2], [7, 0], [0, 1], [4, 0], [0, 0]])


def table_of(counts):
    D, K = counts.shape
    return CountTable.of_counts(np.tile(np.arange(K), D), counts.ravel(), K)


def log_density(a, counts):
    """Log posterior density of pseudo-counts (..., 2) under Gamma(1, 1) priors, from the Polya law itself."""
    a = np.asarray(a, dtype=float)
    strength = a.sum(axis=-1)
    total = sum(gammaln(a + row).sum(axis=-1) - gammaln(a).sum(axis=-1) for row in counts)
    return total + sum(gammaln(strength) - gammaln(strength + size) for size in counts.sum(axis=1)) - strength


def test_pseudocounts_have_their_posterior_law():
    counts = counts_of_documents()
    table, rng, a = table_of(counts), np.random.default_rng(0), np.ones(2)
    drawn = np.array([a := draw_pseudocounts(a, table, counts.sum(axis=1), rng) for _ in range(40_000)])[::8]
    grid = np.linspace(0.005, 8, 300)
    density = np.exp(log_density(np.stack(np.meshgrid(grid, grid, indexing="ij"), axis=-1), counts) + 25)
    for axis in (0, 1):
        marginal = integrate.cumulative_trapezoid(density.sum(axis=1 - axis), grid, initial=0)
        values = np.interp(drawn[:, axis], grid, marginal / marginal[-1])
        assert stats.kstest(values, "uniform").statistic < 0.025
        assert stats.kstest(np.interp(1.2 * drawn[:, axis], grid, marginal / marginal[-1]), "uniform").statistic > 0.04


@pytest.mark.parametrize("least", [0.0, 0.3, 1.5])  # below the mode, and where a few per cent are left
def test_a_shared_pseudocount_has_its_posterior_law(least):
    counts = counts_of_documents()
    table = CountTable.of_counts(np.zeros(counts.size, dtype=int), counts.ravel(), 1)
    rng, a, totals = np.random.default_rng(1), 1.0, counts.sum(axis=1)
    drawn = [a := draw_shared_pseudocount(a, 2, table, totals, rng, least=least) for _ in range(40_000)]
    drawn = np.array(drawn)[::8]
    assert drawn.min() >= least
    grid = np.linspace(max(least, 0.002), 8 + least, 4000)
    rate = 1.0 / least if least else 1.0
    density = log_density(np.column_stack([grid, grid]), counts) + (2.0 - rate) * grid  # one prior factor, not two
    density = np.exp(density - density.max())
    mass = integrate.cumulative_trapezoid(density, grid, initial=0)
    assert stats.kstest(drawn, lambda x: np.interp(x, grid, mass / mass[-1])).statistic < 0.025


@pytest.mark.parametrize(("shape", "share"), [(1, 0.9), (1, 1e-9), (3, 0.5), (3, 1e-4), (5000, 0.99), (5000, 0.3)])
def test_gamma_variables_above_a_bound_have_its_law(shape, share):
    law, rng = stats.gamma(shape), np.random.default_rng(0)
    least = law.isf(share)
    drawn = np.array([draw_gamma_above(shape, 2.0, least / 2, rng) for _ in range(5000)])
    assert drawn.min() >= least / 2
    assert stats.kstest(law.sf(2 * drawn) / share, "uniform").pvalue > 1e-3
    assert stats.kstest(law.sf(2 * drawn - 0.1 * law.std()) / share, "uniform").pvalue < 1e-3


def test_gamma_variables_far_beyond_the_mode_lie_just_above_the_bound():
    rng = np.random.default_rng(0)
    drawn = np.array([draw_gamma_above(1e4, 1e6, 0.05, rng) for _ in range(2000)])  # no double is left of this tail
    # the density falls there as an exponential one with the rate of its logarithm
    assert stats.kstest(drawn - 0.05, stats.expon(scale=1 / (1e6 - 1e4 / 0.05)).cdf).pvalue > 1e-3


def test_count_tables_agree_whichever_way_they_are_made():
    rng = np.random.default_rng(0)
    counts = rng.poisson(2.0, size=(50, 9))
    table = table_of(counts)
    a = rng.uniform(0.1, 2.0, 9)
    np.testing.assert_allclose(table.log_rising(a), (gammaln(a + counts) - gammaln(a)).sum())
    wide = CountTable(9_000_000 + np.array([1, 1, 3]), width=9_000_000, n_groups=2)
    assert (wide.group.tolist(), wide.count.tolist(), wide.times.tolist()) == ([1, 1], [1, 3], [2, 1])
    tables = np.mean([table.draw_tables(a, rng) for _ in range(4000)], axis=0)
    expected = [sum(a[k] / (a[k] + j) for c in counts[:, k] for j in range(c)) for k in range(9)]
    np.testing.assert_allclose(tables, expected, rtol=0.02)


def test_logs_of_tiny_beta_variables():
    rng = np.random.default_rng(0)
    logs = draw_log_beta(1e-3, np.full(20_000, 4.0), rng)
    assert np.isfinite(logs).all()
    assert logs.min() < -800  # where a double is 0
    u = stats.beta(1e-3, 4.0).cdf(np.exp(logs))
    assert stats.kstest(u[logs > -700], "uniform").statistic < 0.5
    np.testing.assert_allclose(logs.mean(), -1000.0 - sum(1 / j for j in (1, 2, 3)), rtol=0.03)


@pytest.mark.parametrize("a", [0.02, 1.7])
@pytest.mark.parametrize("totals", [[3, 1, 1, 7, 2], [400, 1, 9], [1]])  # short ones are drawn place by place
def test_sums_of_logs_of_beta_variables_have_the_law_of_their_terms(a, totals):
    rng, totals = np.random.default_rng(0), np.array(totals, dtype=np.float64)
    sums = np.array([draw_log_beta_sum(a, totals, rng) for _ in range(20_000)])
    terms = draw_log_beta(a, np.tile(totals, (20_000, 1)), rng).sum(axis=1)
    assert stats.ks_2samp(sums, terms).pvalue > 1e-4
    places = a + np.concatenate([np.arange(n) for n in totals])
    error = np.sqrt((1.0 / places**2).sum() / 20_000)
    assert abs(sums.mean() + (1.0 / places).sum()) < 5 * error
    assert draw_log_beta_sum(a, np.empty(0), rng) == 0.0


# ---- settings and data -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "model", "X", "error", "words"),
    [
        ({"learn_every": 0}, tiny_model(), TINY, ValueError, "learn_every"),
        ({"least_eta": -1.0}, tiny_model(), TINY, ValueError, "least_eta"),
        ({"learn_eta": True}, tiny_model(), TINY, CapabilityError, "one concentration"),
        ({}, AdmixtureModel(Multinomial(0.1, allow_fractional=True), 2), TINY + 0.5, DataError, "whole counts"),
        ({}, AdmixtureModel(Categorical(0.1), 2), TINY, CapabilityError, "Multinomial"),
        ({}, MixtureModel(Multinomial(0.1), SymmetricDirichlet(2)), TINY, CapabilityError, "AdmixtureModel"),
    ],
)
def test_what_cannot_be_sampled_is_refused(settings, model, X, error, words):
    with pytest.raises(error, match=words):
        TopicGibbs(**settings).init(model, X, seed=0)


def test_starts():
    kernel, model = TopicGibbs(), tiny_model(3)
    assert kernel.init(model, TINY, seed=0, start=[0, 1, 2, 0, 1]).labels.tolist() == [0, 1, 2, 0, 1]
    for start, words in (("kmeans++", "random"), ([0, 1], "5 integers"), ([0, 1, 2, 3, 0], r"0\.\.2")):
        with pytest.raises(ValueError, match=words):
            kernel.init(model, TINY, seed=0, start=start)


def test_a_start_from_variational_topics_is_ahead_of_a_random_one():
    rng = np.random.default_rng(0)
    topics = rng.dirichlet(np.full(60, 0.05), size=6)
    X = np.array([rng.multinomial(40, w @ topics) for w in rng.dirichlet(np.full(6, 0.2), size=400)])
    X[[0, 5, 399]] = 0
    model = AdmixtureModel(Multinomial(0.05), 6, 0.2)
    states = {start: TopicGibbs().init(model, X, seed=0, start=start) for start in ("variational", "random")}
    state = states["variational"]
    assert state.log_joint > states["random"].log_joint + 0.2 * X.sum()
    # tokens keep their words and documents: counts of topics say the same of the planted ones
    found = state.tokens.word_topics().toarray().T + 0.05
    found = found / found.sum(axis=1, keepdims=True)
    assert np.median(abs(topics[:, None] - found[None]).sum(axis=2).min(axis=1)) < 0.6
    again = TopicGibbs().init(model, X, seed=0, start="variational")
    np.testing.assert_array_equal(again.labels, state.labels)
    empty = TopicGibbs().init(model, np.zeros((3, 4), dtype=int), seed=0, start="variational")
    assert len(empty.labels) == 0


def test_a_token_without_a_topic_is_drawn_given_those_that_have_one():
    model = tiny_model(3)
    X = np.array([[2, 1, 3], [1, 2, 1], [3, 0, 1]])
    tokens = TokenTopics(sparse.csr_array(X), 3)
    given = np.random.default_rng(0).integers(3, size=tokens.n_tokens)
    for word in range(3):
        first = int(tokens.word_start[word])  # drawn before the other tokens of its word are drawn anew
        found, histogram = np.zeros(3), np.zeros(tokens.n_tokens + 1, dtype=np.int64)
        for step in range(6000):
            tokens.topic[:] = given
            tokens.topic[first] = -1
            tokens.count_topics()
            assert tokens.document_topics().sum() == tokens.n_tokens - 1
            tokens.sweep(model.pseudocounts, np.asarray(model.family.concentration), word, word + 1, 0, step, histogram)
            found[tokens.topic[first]] += 1
        assert stats.chisquare(found, 6000 * exact_conditional(model, X, given, first)).pvalue > 1e-3
    assert tokens.topic.min() >= 0
    lists, sizes = tokens.document_topics(), tokens.topic_size.copy()
    tokens.count_topics()
    assert (lists != tokens.document_topics()).nnz == 0
    np.testing.assert_array_equal(sizes, tokens.topic_size)


def test_passes_over_a_part_serve_all_documents(monkeypatch):
    rng = np.random.default_rng(0)
    topics = rng.dirichlet(np.full(60, 0.05), size=6)
    X = np.array([rng.multinomial(40, w @ topics) for w in rng.dirichlet(np.full(6, 0.2), size=2000)])
    X[[0, 5, 1999]] = 0
    model = AdmixtureModel(Multinomial(0.05), 6, 0.2)
    whole = TopicGibbs().init(model, X, seed=0, start="variational")
    monkeypatch.setattr(topic_start, "PART_TOKENS", 1)
    rows = topic_start.VariationalStart().part_of(sparse.csr_array(X), 0)
    assert 0.2 < X[rows].sum() / X.sum() < 0.3
    assert (np.diff(rows) > 0).all()
    states = {start: TopicGibbs().init(model, X, seed=0, start=start) for start in ("variational", "random")}
    states["variational"].check()
    gain = whole.log_joint - states["random"].log_joint
    assert states["variational"].log_joint - states["random"].log_joint > 0.9 * gain
    again = TopicGibbs().init(model, X, seed=0, start="variational")
    np.testing.assert_array_equal(again.labels, states["variational"].labels)


def test_weights_are_refused_and_empty_data_are_not():
    model = AdmixtureModel(Multinomial(0.1), 2)
    with pytest.raises(CapabilityError, match=r"weights of rows.*write TopicVariational\(\)\.init\(model, data\)"):
        TopicGibbs().init(model, Dataset(TINY, Multinomial(0.1), weight=np.full(3, 2.0)), seed=0)
    state = TopicGibbs().init(model, np.zeros((3, 4), dtype=int), seed=0)
    assert np.isfinite(sample(TopicGibbs(), state, 11).column("objective")).all()


@pytest.mark.parametrize(("n_topics", "alpha"), [(0, 0.1), (2.0, 0.1), (True, 0.1), (2, 0.0), (2, [0.1]), (2, [1, -1])])
def test_models_out_of_their_ranges(n_topics, alpha):
    with pytest.raises(ValueError, match=r"AdmixtureModel: (n_components|alpha)"):
        AdmixtureModel(Multinomial(0.1), n_topics, alpha)
