"""Hierarchical Dirichlet processes with a limit of clusters: the enumerated law, and kernels of data in parts."""

import itertools

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp

from expfam import AdmixtureModel, FiniteProcess, HierarchicalProcess, Multinomial, Poisson
from expfam.model.finite_process import log_shared_density
from expfam.samplers.shards.grouped import GroupedParts, GroupedRows
from expfam.samplers.shards.grouped_gibbs import GroupedUncollapsedGibbs
from expfam.samplers.topics.document_gibbs import DocumentGibbs
from expfam.samplers.topics.document_parts import DocumentParts

ALPHA, GAMMA = 1.3, 0.8
FEW = np.array([[1, 1, 0], [0, 2, 0], [0, 0, 1]])
ROWS, OF_ROW = np.array([[0], [1], [4], [3], [0], [5]]), [0, 1, 1, 1, 0, 0]


def stirling(n, m):
    """Unsigned Stirling numbers of the first kind."""
    if n == m:
        return 1.0
    return 0.0 if m == 0 or m > n else stirling(n - 1, m - 1) + (n - 1) * stirling(n - 1, m)


def log_prior(counts, alpha, gamma):
    """Log probability of the clusters of all rows of groups, counts (G, L): a sum over all numbers of tables."""
    L, cells = counts.shape[1], np.argwhere(counts > 0)
    terms = []
    for tables in itertools.product(*(range(1, counts[g, k] + 1) for g, k in cells)):
        of_cluster = np.zeros(L)
        np.add.at(of_cluster, cells[:, 1], tables)
        ways = sum(np.log(stirling(counts[g, k], m)) for (g, k), m in zip(cells, tables))
        shared = (gammaln(gamma / L + of_cluster) - gammaln(gamma / L)).sum()
        total = sum(tables)
        terms.append(ways + total * np.log(alpha) + shared - gammaln(gamma + total) + gammaln(gamma))
    sizes = counts.sum(axis=1)
    return logsumexp(terms) - (gammaln(alpha + sizes) - gammaln(alpha)).sum()


def posterior(log_evidence, groups, L, alpha=ALPHA, gamma=GAMMA):
    """Probability of each assignment of clusters to the rows, and the assignments."""
    groups = np.asarray(groups)
    labels = list(itertools.product(range(L), repeat=len(groups)))
    logs = []
    for one in labels:
        counts = np.zeros((groups.max() + 1, L), dtype=int)
        np.add.at(counts, (groups, one), 1)
        logs.append(log_prior(counts, alpha, gamma) + log_evidence(np.array(one)))
    return np.exp(np.array(logs) - logsumexp(logs)), np.array(logs)


def words_of(X):
    """Document and word of each token, by document."""
    return (np.repeat(index, X[X > 0]) for index in np.nonzero(X))


def evidence_of_words(L):
    """Log evidence of the words of FEW given topics of the tokens by document; weights are another matter."""
    docs, words = words_of(FEW)
    order, flat = np.lexsort((docs, words)), AdmixtureModel(Multinomial(0.4), L, alpha=1.0)

    def evidence(topics):
        by_doc = np.zeros((len(FEW), L))
        np.add.at(by_doc, (docs, topics), 1)
        urns = (gammaln(1.0 + by_doc)).sum() - (gammaln(L + by_doc.sum(axis=1)) - gammaln(L)).sum()
        return flat.log_joint(FEW, topics[order]) - urns

    return docs, evidence


def visits(kernel, state, L, n_steps):
    """Share of each assignment in a chain."""
    counts = np.zeros(L ** len(state.labels))
    for _ in range(n_steps):
        kernel.move(state)
        state.n_steps += 1
        counts[int(np.ravel_multi_index(state.labels, [L] * len(state.labels)))] += 1
    return counts / n_steps


def is_close(found, expected, n_independent):
    """Tell whether shares are as far from the law as those of independent draws."""
    draws = np.random.default_rng(1).multinomial(n_independent, expected, size=20) / n_independent
    return abs(found - expected).sum() < abs(draws - expected).sum(axis=1).max()


def chain_of_words(model, **settings):
    kernel = DocumentGibbs(learn_every=1, **settings)
    return kernel, kernel.init(model, DocumentParts(FEW, model.family), seed=3)


@pytest.mark.parametrize("L", [2, 3])
def test_topics_of_documents_follow_the_enumerated_posterior(L):
    docs, evidence = evidence_of_words(L)
    model = FiniteProcess(Multinomial(0.4), L, alpha=ALPHA / L, gamma=GAMMA).bind(FEW)
    kernel, state = chain_of_words(model, learn_alpha=False)
    found = visits(kernel, state, L, 12_000)
    expected, _ = posterior(evidence, docs, L)
    assert is_close(found, expected, 3_000)
    assert state.model.concentration == pytest.approx(ALPHA, abs=1e-9)
    assert state.model.gamma == GAMMA
    other, _ = posterior(evidence, docs, L, gamma=4 * GAMMA)
    assert not is_close(found, other, 3_000)


@pytest.mark.parametrize("few", [0.3, 3.0])
def test_topics_of_little_weight_may_take_part_in_few_sweeps(few, monkeypatch):
    monkeypatch.setattr("expfam.samplers.topics.document_gibbs._FEW_TOKENS", few)
    monkeypatch.setattr("expfam.samplers.topics.document_gibbs._EVERY", 2)
    docs, evidence = evidence_of_words(3)
    model = FiniteProcess(Multinomial(0.4), 3, alpha=ALPHA / 3, gamma=GAMMA).bind(FEW)
    kernel, state = chain_of_words(model, learn_alpha=False)
    n_left_out = 0
    whole = state.draw_words

    def counting(topics, n_threads):
        nonlocal n_left_out
        n_left_out += 3 - len(topics)
        return whole(topics, n_threads)

    state.draw_words = counting
    found = visits(kernel, state, 3, 24_000)
    assert n_left_out > 3_000
    assert is_close(found, posterior(evidence, docs, 3)[0], 2_500)


def test_topics_that_take_part_because_they_have_tokens_have_another_law():
    """The choice of the topics of a sweep may depend on weights, but not on the tokens that it draws."""
    docs, evidence = evidence_of_words(2)
    model = FiniteProcess(Multinomial(0.4), 2, alpha=ALPHA / 2, gamma=GAMMA).bind(FEW)
    kernel, state = chain_of_words(model, learn_alpha=False)
    state.taking_part = lambda: np.flatnonzero((state.sizes > 0) | (state.n_steps % 2 == 0))
    assert not is_close(visits(kernel, state, 2, 12_000), posterior(evidence, docs, 2)[0], 3_000)


def test_weights_that_are_not_drawn_again_have_another_law():
    docs, evidence = evidence_of_words(2)
    kernel, state = chain_of_words(AdmixtureModel(Multinomial(0.4), 2, alpha=ALPHA / 2).bind(FEW), learn_alpha=False)
    assert not is_close(visits(kernel, state, 2, 12_000), posterior(evidence, docs, 2)[0], 3_000)


def test_learned_concentrations_follow_the_enumerated_posterior():
    docs, evidence = evidence_of_words(2)
    nodes, weights = np.polynomial.laguerre.laggauss(14)
    expected = 0.0
    for (a, wa), (g, wg) in itertools.product(zip(nodes, weights), repeat=2):
        if wa * wg > 1e-7:
            expected = expected + wa * wg * np.exp(posterior(evidence, docs, 2, a, g)[1])
    model = FiniteProcess(Multinomial(0.4), 2, alpha=0.5, gamma=1.0).bind(FEW)
    kernel, state = chain_of_words(model)
    assert is_close(visits(kernel, state, 2, 12_000), expected / expected.sum(), 2_500)


def test_rows_in_groups_follow_the_enumerated_posterior():
    family = Poisson(shape=0.8, rate=0.5)
    model = FiniteProcess(family, 2, alpha=ALPHA / 2, gamma=GAMMA)
    data = GroupedParts(GroupedRows(ROWS, OF_ROW), family, n_parts=2)
    kernel = GroupedUncollapsedGibbs(learn_alpha=False)
    state = kernel.init(model.with_family(data.family), data, seed=0, start=[0, 1, 0, 1, 0, 1])

    def evidence(labels):
        n = np.bincount(labels, minlength=2).astype(float)
        S = np.bincount(labels, weights=ROWS[:, 0], minlength=2)[:, None]
        return data.family.log_marginal(n, S).sum()

    found, expected = visits(kernel, state, 2, 8_000), posterior(evidence, OF_ROW, 2)[0]
    found, expected = ((law + law[::-1])[:32] for law in (found, expected))  # both clusters change places rarely
    assert is_close(found, expected, 1_500)
    expected = posterior(evidence, OF_ROW, 2, gamma=8 * GAMMA)[0]
    assert not is_close(found, (expected + expected[::-1])[:32], 1_500)


def test_many_places_are_nearly_a_process():
    X, labels, docs = np.array([[2, 1], [1, 1]]), [0, 0, 1, 0, 1], [0, 0, 1, 0, 1]  # of tokens sorted by word
    counts = np.zeros((2, 2), dtype=int)
    np.add.at(counts, (docs, labels), 1)
    model = HierarchicalProcess(Multinomial(0.5), ALPHA, GAMMA).bind(X)

    def log_partition(L):
        """Law of the partition: places of clusters do not count."""
        cells = np.argwhere(counts > 0)
        terms = []
        for tables in itertools.product(*(range(1, counts[g, k] + 1) for g, k in cells)):
            of_cluster = np.zeros(2)
            np.add.at(of_cluster, cells[:, 1], tables)
            ways = sum(np.log(stirling(counts[g, k], m)) for (g, k), m in zip(cells, tables))
            shared = (gammaln(GAMMA / L + of_cluster) - gammaln(GAMMA / L)).sum()
            shared += gammaln(GAMMA) - gammaln(GAMMA + sum(tables))
            terms.append(ways + sum(tables) * np.log(ALPHA) + shared)
        sizes = counts.sum(axis=1)
        return logsumexp(terms) - (gammaln(ALPHA + sizes) - gammaln(ALPHA)).sum() + np.log(L) + np.log(L - 1)

    assert log_partition(10**7) == pytest.approx(model.log_prior(counts), abs=1e-5)
    assert abs(log_partition(5) - model.log_prior(counts)) > 0.01


def test_the_density_of_shared_weights_does_not_depend_on_empty_places():
    alpha = np.array([0.5, 0.3, 0.1, 0.1])
    model = FiniteProcess(Multinomial(0.4), 4, alpha=alpha, gamma=2.0)
    sizes = np.array([5, 2, 0, 0])
    other = FiniteProcess(Multinomial(0.4), 4, alpha=[0.5, 0.3, 0.19, 0.01], gamma=2.0)
    assert log_shared_density(model, sizes) == pytest.approx(log_shared_density(other, sizes), abs=1e-12)
    swapped = FiniteProcess(Multinomial(0.4), 4, alpha=alpha[::-1], gamma=2.0)
    assert log_shared_density(swapped, sizes[::-1]) == pytest.approx(log_shared_density(model, sizes), abs=1e-12)
    assert log_shared_density(AdmixtureModel(Multinomial(0.4), 4), sizes) == 0.0


@pytest.mark.parametrize("gamma", [0.0, -1.0, np.inf, [1.0]])
def test_what_is_no_concentration_is_refused(gamma):
    with pytest.raises(ValueError, match="gamma must be one positive number"):
        FiniteProcess(Multinomial(0.4), 4, gamma=gamma)
