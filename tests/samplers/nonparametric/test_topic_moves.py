"""Splits and merges of topics: their law by enumeration, their counters, and what they find on generated documents."""

import numpy as np
import pytest
from franchises import DOCUMENTS, Tiny
from stepping import assert_seed_decides
from visits import LIMIT, visited_and_accepted, worst_t

from expfam import AdmixtureModel, HierarchicalProcess, Multinomial
from expfam.errors import CapabilityError
from expfam.samplers import Cycle, TopicProcessGibbs, TopicProcessMerges, TopicProcessSplitMerge
from expfam.samplers.nonparametric import slots, topic_moves, topics
from expfam.samplers.nonparametric.token_moves import TopicMoves

LENGTHS = [pytest.param(3000, id="short"), pytest.param(8000, id="long", marks=pytest.mark.slow)]  # of chains


class Weights(TopicProcessGibbs):
    """Draw the shared weights, and move no token."""

    def move(self, state):
        self.learn(state)
        state.log_joint = state.compute_log_joint()
        return 0, 0, {}


ALONE = Cycle(TopicProcessSplitMerge(n_tries=6, work=100.0), Weights(learn_alpha=False))
MIXED = Cycle(TopicProcessSplitMerge(n_tries=6, work=1.0), TopicProcessGibbs(learn_alpha=False))


@pytest.fixture
def n_steps(is_slow):
    return 8000 if is_slow else 3000


def visits_of(kernel, tiny, n_steps, *, seed=1, start=None):
    T = int(tiny.X.sum())
    state = kernel.init(tiny.model, tiny.X, seed=seed, start=np.zeros(T, dtype=int) if start is None else start)
    return visited_and_accepted(kernel, state, n_steps)


def documents(K, seed, *, n=1000):
    rng = np.random.default_rng(seed)
    words = rng.dirichlet(np.full(20 * K, 0.05), size=K)
    return np.array([rng.multinomial(80, w @ words) for w in rng.dirichlet(np.full(K, 2.0 / K), size=n)])


# ---- the law ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("kernel", [ALONE, MIXED], ids=["alone", "with_sweeps"])
@pytest.mark.parametrize("name", DOCUMENTS)
def test_partitions_of_tokens_are_visited_by_their_probability(name, kernel, seed, n_steps):
    tiny = Tiny(name)
    visits, accepted = visits_of(kernel, tiny, n_steps, seed=seed)
    assert worst_t(visits, tiny.partitions, tiny.probability) < LIMIT
    assert accepted > n_steps / 4


def test_steps_that_rest_leave_the_law(n_steps):
    kernel, tiny = Cycle(TopicProcessSplitMerge(n_tries=6, work=0.4), Weights(learn_alpha=False)), Tiny("two_documents")
    visits, accepted = visits_of(kernel, tiny, n_steps)
    assert worst_t(visits, tiny.partitions, tiny.probability) < LIMIT
    assert accepted > n_steps / 10


@pytest.mark.parametrize("n_steps", LENGTHS)
def test_where_slots_run_out_the_law_is_the_same(n_steps, monkeypatch):
    for module in (slots, topics):
        monkeypatch.setattr(module, "capacity_for", lambda n: n + 1)
    tiny = Tiny("two_documents")
    assert worst_t(visits_of(ALONE, tiny, n_steps)[0], tiny.partitions, tiny.probability) < LIMIT


@pytest.mark.parametrize("fault", ["log_u", "mass"])
def test_a_mistake_is_seen(fault, n_steps, monkeypatch):
    class Wrong(TopicMoves):
        def split(self, *args):
            log_ratio, share = super().split(*args)
            return log_ratio - (0.3 if fault == "log_u" else 0.0), share

        def merge(self, u, v, one, two, gamma, log_u):
            return super().merge(u, v, one, two, gamma * (2.0 if fault == "mass" else 1.0), log_u)

    monkeypatch.setattr(topic_moves, "TopicMoves", Wrong)
    tiny = Tiny("two_documents")
    assert worst_t(visits_of(ALONE, tiny, n_steps)[0], tiny.partitions, tiny.probability) > LIMIT


# ---- states ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("eta", [0.2, np.linspace(0.05, 0.4, 60)], ids=["one", "by_word"])
def test_counters_and_log_joint_are_those_of_the_topics(eta):
    X, kernel = documents(3, 0, n=80), TopicProcessSplitMerge(n_tries=300, work=50.0)
    state = kernel.init(HierarchicalProcess(Multinomial(eta)), X, seed=1, start=np.zeros(X.sum(), dtype=int))
    n_accepted, alpha = 0, state.model.alpha
    for _ in range(6):
        info = kernel.step(state)
        n_accepted += info.accepted
        state.check()
        sizes, slots = state.tokens.topic_size, state.shared
        assert info.n_clusters == np.count_nonzero(sizes) == np.count_nonzero(slots.names >= 0)
        assert ((slots.pseudocounts > 0) == ((sizes > 0) | (np.arange(len(sizes)) == slots.rest))).all()
        np.testing.assert_allclose(slots.pseudocounts.sum(), alpha, rtol=1e-12)
    assert n_accepted >= 2


def test_the_larger_part_of_a_topic_keeps_its_name():
    X, kernel = documents(2, 1, n=100), TopicProcessSplitMerge(n_tries=200, work=100.0)
    state = kernel.init(HierarchicalProcess(Multinomial(0.1)), X, seed=3, start=np.zeros(X.sum(), dtype=int))
    names = [0]
    while len(names) == 1:
        kernel.step(state)
        names = state.shared.names[state.shared.names >= 0].tolist()
    sizes = state.tokens.topic_size[state.shared.names >= 0]
    assert 0 in names
    assert sizes[names.index(0)] >= 0.3 * sizes.sum()


def test_the_work_of_a_step_is_bounded_and_half_of_the_steps_rest(monkeypatch):
    listed = []

    class Listed(TopicMoves):
        def __init__(self, *args):
            super().__init__(*args)
            listed.append(len(args))

    monkeypatch.setattr(topic_moves, "TopicMoves", Listed)
    X = documents(5, 0)
    T, tried = int(X.sum()), []
    kernel = TopicProcessSplitMerge(work=0.5)
    state = kernel.init(HierarchicalProcess(Multinomial(0.05)), X, seed=1, start=np.zeros(X.sum(), dtype=int))
    state.shared.pseudocounts[:] = 0.0  # no splits: a pair always has all tokens
    state.shared.pseudocounts[[0, 1]] = [1e-300, 1.0]
    for _ in range(40):
        tried.append(kernel.step(state).proposed * T)
    assert 0.2 * T < np.mean(tried) < 0.9 * T
    assert 12 < len(listed) < 28


def test_the_same_seed_gives_the_same_bits():
    X, kernel = documents(5, 0, n=200), Cycle(TopicProcessSplitMerge(), TopicProcessGibbs(learn_eta=True))
    assert_seed_decides(kernel, lambda seed: kernel.init(HierarchicalProcess(Multinomial(0.05)), X, seed=seed))


# ---- what is found ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("K", [5, 20])
def test_splits_alone_find_the_topics_from_one(K):
    X, kernel = documents(K, 0), Cycle(TopicProcessSplitMerge(work=2.0), TopicProcessGibbs())
    state = kernel.init(HierarchicalProcess(Multinomial(0.05)), X, seed=0, start=np.zeros(X.sum(), dtype=int))
    info = [kernel.step(state) for _ in range(60)][-1]
    assert K - 1 <= info.extra["n_large"] <= K + 3
    alone = TopicProcessGibbs().init(state.model, X, seed=0, start=np.zeros(X.sum(), dtype=int))
    assert [TopicProcessGibbs().step(alone) for _ in range(60)][-1].extra["n_large"] < K / 2


def test_the_search_leaves_one_topic_of_each_true_one():
    X, sweeps, search = documents(5, 1), TopicProcessGibbs(), TopicProcessMerges()
    state = sweeps.init(HierarchicalProcess(Multinomial(0.05)), X, seed=0)
    for step in range(60):
        info = sweeps.step(state)
        if step % 10 == 9:
            assert info.extra["n_large"] >= 5
            assert search.step(state).accepted <= state.shared.capacity
            state.check()
    assert info.extra["n_large"] <= 7
    assert not search.is_sampler


def test_topics_that_differ_stay_apart():
    X = np.repeat([[8, 8, 0, 0], [0, 0, 8, 8]], 20, axis=0)
    topics = (np.arange(X.sum()) >= X.sum() // 2).astype(int)
    state = TopicProcessMerges().init(HierarchicalProcess(Multinomial(0.1)), X, seed=0, start=topics)
    assert TopicProcessMerges().step(state).accepted == 0
    np.testing.assert_array_equal(state.labels, topics)


def test_documents_without_words_and_with_one_are_left_as_they_are():
    for X in ([[0, 0], [0, 0]], [[1, 0], [0, 0]]):
        for kernel in (TopicProcessSplitMerge(), TopicProcessMerges()):
            with pytest.warns(UserWarning, match="rows? (is|are) empty"):
                state = kernel.init(HierarchicalProcess(Multinomial(0.1)), np.array(X), seed=0)
            assert kernel.step(state).accepted == 0
            state.check()


@pytest.mark.parametrize("kernel", [TopicProcessSplitMerge(n_tries=0), TopicProcessSplitMerge(work=0.0)])
def test_settings_out_of_range(kernel):
    with pytest.raises(ValueError, match=r"TopicProcessSplitMerge: (n_tries|work) must be"):
        kernel.init(HierarchicalProcess(Multinomial(0.1)), np.array([[1, 2]]), seed=0)


def test_models_of_another_kind_are_refused_by_the_name_of_the_kernel():
    with pytest.raises(CapabilityError, match=r"write TopicProcessSplitMerge\(\)\.init\("):
        TopicProcessSplitMerge().init(AdmixtureModel(Multinomial(0.1), 2), np.array([[1, 2]]), seed=0)
