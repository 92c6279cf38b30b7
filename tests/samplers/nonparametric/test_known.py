"""Known clusters and seeded topics beside an unknown number of others: the law, and chains against enumeration."""

import numpy as np
import pytest
from franchise_slow import all_labels, canonical_known, seated_prior, table_counts
from franchises import ALPHA, DOCUMENTS, GAMMA, ROWS
from scipy import sparse
from visits import LIMIT, worst_t

from expfam import Dataset, HierarchicalProcess, Multinomial, Poisson
from expfam.errors import CapabilityError, DataError
from expfam.model.admixture import tokens_of
from expfam.model.known import Known
from expfam.model.pseudo_counts import CountTable, draw_shared_pseudocount
from expfam.samplers import (
    Cycle,
    GroupedProcessGibbs,
    GroupedProcessSplitMerge,
    TopicProcessGibbs,
    TopicProcessSplitMerge,
    sample,
)
from expfam.samplers.nonparametric import group_moves
from expfam.samplers.nonparametric import groups as of_groups
from expfam.samplers.nonparametric import topics as of_topics
from expfam.samplers.nonparametric.weights import draw_shared_weights

SHORT, LONG = 1500, 12_000  # wrong variants have |t| of at least 7 by then; 5.5 is the limit
SLOW = pytest.mark.slow
CLASSES = np.array([0, -1, 1, -1, -1, -1])
SEEDS = np.array([[3, 0], [0, 2]])


def rows_of(name):
    """Model, data and first labels of rows of which two are of known classes."""
    family, X, groups = ROWS[name]
    family = family.bind(X)
    data = Dataset(X, family, groups=groups, known=Known(CLASSES))
    return HierarchicalProcess(family, ALPHA, GAMMA, n_known=2), data, np.maximum(CLASSES, 0)


def posterior_of(model, data, labels):
    logs = np.array([model.log_joint(data, each) for each in labels])
    weight = np.exp(logs - logs.max())
    return weight / weight.sum()


def visited(kernel, model, data, start, *, n_steps=SHORT):
    state = kernel.init(model, data, seed=1, start=start)
    found = []
    for _ in range(n_steps):
        kernel.step(state)
        found.append(canonical_known(state.labels.tolist(), model.n_known))
    state.check()
    return found


# ---- the law ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_known", [1, 2])
@pytest.mark.parametrize("groups", [[0, 0, 1, 0], [0, 1, 2, 1], [0, 0, 0, 0]])
def test_probabilities_of_labels_are_sums_over_every_seating(groups, n_known):
    model = HierarchicalProcess(Poisson(), 1.3, 0.8, n_known=n_known)
    exact = seated_prior(1.3, 0.8, groups, n_known)
    labels = all_labels(len(groups), n_known)
    assert sorted(labels) == sorted(exact)
    np.testing.assert_allclose(sum(exact.values()), 1.0, rtol=1e-12)
    for each in labels:
        np.testing.assert_allclose(np.exp(model.log_prior(table_counts(each, groups))), exact[each], rtol=1e-12)


def test_seeds_are_words_that_the_topics_had_before():
    X = np.array([[2, 1], [1, 1]])
    docs, words, _ = tokens_of(X)
    model = HierarchicalProcess(Multinomial(0.3), ALPHA, GAMMA, seeds=SEEDS)
    assert model.n_known == 2
    labels, urns, expected = np.array([0, 5, 1, 1, 0]), {}, 0.0
    for k, w in zip(labels.tolist(), words.tolist()):
        urn = urns.setdefault(k, (SEEDS[:, k] if k < 2 else np.zeros(2)) + 0.3)
        expected += np.log(urn[w] / urn.sum())
        urn[w] += 1
    expected += model.log_prior(table_counts([0, 2, 1, 1, 0], docs.tolist()))
    np.testing.assert_allclose(model.log_joint(X, labels), expected, rtol=1e-12)


# ---- chains ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "n_tries", "n_steps"),
    [
        ("poisson_rows", 2, SHORT),
        pytest.param("poisson_rows", 0, LONG, marks=SLOW),
        pytest.param("gaussian_rows", 0, LONG, marks=SLOW),
        pytest.param("gaussian_rows", 2, LONG, marks=SLOW),
    ],
)
def test_rows_beside_known_ones_have_their_clusters_by_their_probability(name, n_tries, n_steps):
    model, data, start = rows_of(name)
    labels = all_labels(6, 2, CLASSES)
    moves = [GroupedProcessSplitMerge(n_tries=n_tries, work=100.0)] if n_tries else []
    visits = visited(Cycle(*moves, GroupedProcessGibbs(learn_alpha=False)), model, data, start, n_steps=n_steps)
    assert worst_t(visits, labels, posterior_of(model, data, labels)) < LIMIT
    other = posterior_of(model.with_concentrations(ALPHA, 3 * GAMMA), data, labels)
    assert worst_t(visits, labels, other) > LIMIT


@pytest.mark.parametrize(
    ("name", "n_tries", "n_steps"),
    [
        ("two_documents", 2, 1000),
        pytest.param("two_documents", 0, LONG, marks=SLOW),
        pytest.param("three_documents", 0, LONG, marks=SLOW),
        pytest.param("three_documents", 2, LONG, marks=SLOW),
    ],
)
def test_tokens_beside_seeds_have_their_topics_by_their_probability(name, n_tries, n_steps):
    X = DOCUMENTS[name][:, ::-1].copy()
    X[0, 1] -= 1
    model = HierarchicalProcess(Multinomial(0.5), ALPHA, GAMMA, seeds=SEEDS[:, :1]).bind(X)
    labels = all_labels(int(X.sum()), 1)
    moves = [TopicProcessSplitMerge(n_tries=n_tries, work=100.0)] if n_tries else []
    kernel = Cycle(*moves, TopicProcessGibbs(learn_alpha=False))
    visits = visited(kernel, model, X, np.ones(X.sum(), dtype=int), n_steps=n_steps)
    assert worst_t(visits, labels, posterior_of(model, X, labels)) < LIMIT
    unseeded = HierarchicalProcess(Multinomial(0.5), ALPHA, GAMMA, n_known=1).bind(X)
    assert worst_t(visits, labels, posterior_of(unseeded, X, labels)) > LIMIT


def test_known_clusters_that_lose_their_own_mass_are_seen(monkeypatch):
    def forget(*args, learn, n_known):
        return draw_shared_weights(*args, learn=learn)

    monkeypatch.setattr(of_groups, "draw_shared_weights", forget)
    model, data, start = rows_of("poisson_rows")
    labels = all_labels(6, 2, CLASSES)
    visits = visited(GroupedProcessGibbs(learn_alpha=False), model, data, start)
    assert worst_t(visits, labels, posterior_of(model, data, labels)) > LIMIT


def test_splits_and_merges_beside_known_clusters_reach_their_law_alone():
    model, data, start = rows_of("gaussian_rows")
    labels = all_labels(6, 2, CLASSES)
    visits = visited(GroupedProcessSplitMerge(n_tries=6, work=100.0), model, data, start)
    assert worst_t(visits, labels, posterior_of(model, data, labels)) < LIMIT


def test_a_wrong_ratio_of_splits_of_known_clusters_is_seen(monkeypatch):
    class Wrong(group_moves.RowMoves):
        def split(self, u, v, mass, gamma, rng, seed, unit, step, log_u, is_known):
            return super().split(u, v, mass, gamma, rng, seed, unit, step, log_u - 0.7 * is_known, is_known)

    monkeypatch.setattr(group_moves, "RowMoves", Wrong)
    model, data, start = rows_of("gaussian_rows")
    labels = all_labels(6, 2, CLASSES)
    kernel = GroupedProcessSplitMerge(n_tries=6, work=100.0)  # sweeps would repair what its moves do wrong
    assert worst_t(visited(kernel, model, data, start), labels, posterior_of(model, data, labels)) > LIMIT


@SLOW
def test_learned_concentrations_leave_the_law_over_all_of_them():
    model, data, start = rows_of("gaussian_rows")
    labels, total = all_labels(6, 2, CLASSES), 0.0
    nodes, weights = np.polynomial.laguerre.laggauss(16)
    evidence = np.array([model.log_joint(data, each) - model.log_prior(_counts(data, each)) for each in labels])
    counts = [_counts(data, each) for each in labels]
    for a, wa in zip(nodes, weights):
        for g, wg in zip(nodes, weights):
            if wa * wg > 1e-7:
                own = model.with_concentrations(a, g)
                total = total + wa * wg * np.exp([own.log_prior(each) for each in counts])
    exact = total * np.exp(evidence - evidence.max())
    visits = visited(GroupedProcessGibbs(), model, data, start, n_steps=LONG)
    assert worst_t(visits, labels, exact / exact.sum()) < LIMIT
    assert worst_t(visits, labels, posterior_of(model, data, labels)) > LIMIT


def _counts(data, labels):
    return table_counts(labels, data.groups.of_row.tolist())


def test_a_learned_pseudo_count_beside_seeds_has_its_density():
    rng = np.random.default_rng(0)
    counts, seeds = np.array([[5, 0, 2], [3, 1, 0]]), np.array([[2, 0, 0], [0, 0, 0]])  # topics by words
    totals, cells = counts.sum(axis=1), np.array([5])
    table = CountTable.of_counts(np.zeros(6, dtype=int), counts.ravel(), 1)
    grid = np.exp(np.linspace(-9, 4, 4001))
    prior = grid[:, None, None] + seeds
    log_p = -grid + np.log(grid)  # by the logarithm of eta
    for j in range(5):
        log_p += (np.log(prior + j) * (counts > j)).sum(axis=(1, 2))
    for n, s in zip(totals, seeds.sum(axis=1)):
        log_p -= np.log(3 * grid[:, None] + s + np.arange(n)).sum(axis=1)
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    drawn, eta = [], 1.0
    for _ in range(4000):
        eta = draw_shared_pseudocount(eta, 3, table, totals, rng, seeds=(cells, np.array([2]), seeds.sum(axis=1)))
        drawn.append(np.log(eta))
    means = np.array(drawn).reshape(40, -1).mean(axis=1)
    assert abs(means.mean() - p @ np.log(grid)) < 5 * means.std() / np.sqrt(40)


# ---- states ----------------------------------------------------------------------------------------------------------


def test_known_clusters_stay_without_rows_and_others_come_and_go():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.poisson(2.0, (30, 1)), rng.poisson(90.0, (30, 1))])
    classes = np.full(60, -1)
    data = Dataset(X, Poisson(), groups=np.arange(60) % 4, known=Known(classes, n_classes=2))
    kernel = Cycle(GroupedProcessSplitMerge(), GroupedProcessGibbs())
    model = HierarchicalProcess(data.family, n_known=2)
    state = kernel.init(model, data, seed=0, n_clusters=40)
    first = state.shared.capacity
    for _ in range(40):
        kernel.step(state)
        state.check()
        np.testing.assert_array_equal(state.shared.names[:2], [0, 1])
        np.testing.assert_allclose(state.shared.pseudocounts.sum(), state.model.alpha, rtol=1e-12)
    assert state.shared.capacity < first
    again = kernel.init(model, data, seed=0)
    again.from_arrays(state.to_arrays())
    sample(kernel, state, 4)
    sample(kernel, again, 4)
    np.testing.assert_array_equal(state.labels, again.labels)


def test_seeded_topics_are_found_under_their_numbers_and_others_beside_them():
    rng = np.random.default_rng(1)
    words = rng.dirichlet(np.full(40, 0.05), size=4)
    X = sparse.csr_array([rng.multinomial(50, w @ words) for w in rng.dirichlet(np.full(4, 0.3), size=150)])
    seeds = np.zeros((40, 2), dtype=int)
    for k in range(2):
        seeds[np.argsort(-words[k])[:3], k] = 20
    kernel = Cycle(TopicProcessSplitMerge(), TopicProcessGibbs(learn_eta=True))
    state = kernel.init(HierarchicalProcess(Multinomial(0.05), seeds=seeds), X, seed=0)
    sample(kernel, state, 60)
    state.check()
    found = state.tokens.word_topics().toarray().T[:2]
    similar = found @ words.T / np.linalg.norm(found, axis=1)[:, None] / np.linalg.norm(words, axis=1)
    assert similar.argmax(axis=1).tolist() == [0, 1]
    assert state.n_clusters >= 4
    assert 0.02 < state.model.family.concentration < 0.2


def test_what_does_not_fit_is_refused():
    X = np.array([[0], [1], [5]])
    data = Dataset(X, Poisson(), groups=[0, 0, 1], known=Known([0, -1, 1]))
    with pytest.raises(DataError, match=r"2 classes are known.*write HierarchicalProcess\(data.family, n_known=2\)"):
        GroupedProcessGibbs().init(HierarchicalProcess(data.family), data, seed=0)
    linked = Dataset(X, Poisson(), groups=[0, 0, 1], known=Known(links=[0, 0, -1]))
    with pytest.raises(CapabilityError, match="cannot use links"):
        GroupedProcessGibbs().init(HierarchicalProcess(linked.family), linked, seed=0)
    with pytest.raises(ValueError, match=r"n_known"):
        HierarchicalProcess(Poisson(), n_known=-1)
    with pytest.raises(ValueError, match=r"seeds of 2 topics need n_known=2; got 3"):
        HierarchicalProcess(Multinomial(0.1), n_known=3, seeds=SEEDS)
    assert (
        of_topics.TopicProcessGibbs()
        .init(HierarchicalProcess(Multinomial(0.1), seeds=SEEDS), [[1, 2]], seed=0)
        .shared.n_known
        == 2
    )
