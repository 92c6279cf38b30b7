"""Reversed sweeps over topics and over rows in groups: their transition laws against the product of exact draws."""

from itertools import product

import numpy as np
import pytest
from scipy import stats

from expfam import AdmixtureModel, Dataset, Known, Multinomial, Poisson
from expfam.samplers import GroupedGibbs, TopicGibbs

pytestmark = pytest.mark.filterwarnings("ignore::expfam.errors.DataWarning")

WORDS = np.array([[2, 0, 1], [0, 1, 1]])  # five tokens, by word and then by document
TOPICS = AdmixtureModel(Multinomial(np.array([0.2, 0.5, 0.9])), 2, np.array([0.3, 0.8]))
ROWS, GROUPS = np.array([[0], [1], [2], [1], [0]]), np.array([1, 0, 1, 0, 1])
ALPHA = np.array([0.7, 0.3])
N_STEPS = 400
LEAST_P = 1e-5


def grouped(links=None):
    known = None if links is None else Known(links=links)
    data = Dataset(ROWS, Poisson(shape=1.5, rate=0.8), groups=GROUPS, known=known)
    return AdmixtureModel(data.family, 2, ALPHA), data


def law_of_draws(states, scores, blocks):
    """Transition matrix of exact draws of blocks of places, one block after the other."""
    P = np.eye(len(states))
    for block in blocks:
        rest = np.delete(states, block, axis=1)
        same = (rest[:, None] == rest[None]).all(axis=2)
        T = np.where(same, np.exp(scores)[None], 0.0)
        P = P @ (T / T.sum(axis=1, keepdims=True))
    return P


def p_of_steps(kernel, model, data, states, row, P, begin):
    """p of the ends of many steps from one state against a row of the matrix."""
    place = {tuple(state): at for at, state in enumerate(states.tolist())}
    counts = np.zeros(len(states))
    for t in range(N_STEPS):
        state = begin(model, data, states[row].astype(np.int32), seed=t)
        kernel.step(state)
        counts[place[tuple(state.labels.tolist())]] += 1
    expected = P[row] * N_STEPS
    common = expected > 5
    found, wanted = (
        np.append(counts[common], counts[~common].sum()),
        np.append(expected[common], expected[~common].sum()),
    )
    used = wanted > 0
    return stats.chisquare(found[used], wanted[used]).pvalue


def test_a_reversed_sweep_over_tokens_goes_from_the_last_to_the_first():
    states = np.array(list(product(range(2), repeat=5)))
    scores = np.array([TOPICS.log_joint(WORDS, state) for state in states])
    kernel = TopicGibbs(learn_alpha=False)
    forth, back = (law_of_draws(states, scores, [[i] for i in order]) for order in (range(5), range(4, -1, -1)))
    pi = np.exp(scores) / np.exp(scores).sum()
    np.testing.assert_allclose(pi[:, None] * forth, (pi[:, None] * back).T, atol=1e-12)
    row = int(abs(forth - back).sum(axis=1).argmax())
    assert p_of_steps(kernel, TOPICS, WORDS, states, row, forth, begin_topics) > LEAST_P
    assert p_of_steps(kernel.reversed(), TOPICS, WORDS, states, row, back, begin_topics) > LEAST_P
    assert p_of_steps(kernel.reversed(), TOPICS, WORDS, states, row, forth, begin_topics) < LEAST_P


def begin_topics(model, data, labels, *, seed):
    return TopicGibbs().init(model, data, seed=seed, start=labels)


@pytest.mark.parametrize("links", [None, [0, 0, -1, -1, -1], [0, 4, 0, 4, -1]])
def test_a_reversed_sweep_over_groups_begins_with_the_linked_rows(links):
    model, data = grouped(links)
    states = np.array([z for z in product(range(2), repeat=5) if links is None or data.known.agrees(np.array(z))])
    scores = np.array([model.log_joint(data, state) for state in states])
    free = data.groups.rows if links is None else [i for i in data.groups.rows if i in data.known.free]
    blocks = [[i] for i in free] + ([] if links is None else [rows.tolist() for rows in data.known.groups])
    kernel = GroupedGibbs(learn_alpha=False)
    begin = kernel.init_state
    forth, back = law_of_draws(states, scores, blocks), law_of_draws(states, scores, blocks[::-1])
    row = int(abs(forth - back).sum(axis=1).argmax())
    assert p_of_steps(kernel, model, data, states, row, forth, begin) > LEAST_P
    assert p_of_steps(kernel.reversed(), model, data, states, row, back, begin) > LEAST_P
    assert p_of_steps(kernel.reversed(), model, data, states, row, forth, begin) < LEAST_P


def test_pseudo_counts_are_drawn_first():
    (model, data), topics = grouped(), AdmixtureModel(Multinomial(0.4), 2)
    for kernel, begun in (
        (GroupedGibbs(), lambda k: k.init(model, data, seed=0, start=np.zeros(5, dtype=int))),
        (
            TopicGibbs(learn_every=1, learn_eta=True),
            lambda k: k.init(topics, WORDS, seed=0),
        ),
    ):
        assert kernel.reversed().reversed() == kernel
        forth, back = begun(kernel), begun(kernel.reversed())
        before = back.model.pseudocounts.copy()
        kernel.step(forth)
        kernel.reversed().step(back)
        assert (back.model.pseudocounts != before).all()
        assert (forth.model.pseudocounts != back.model.pseudocounts).all()  # given other labels
        back.check()


def test_a_random_order_turns_its_links_alone():
    model, data = grouped([0, 4, 0, 4, -1])
    kernel = GroupedGibbs(order="random", learn_alpha=False)
    state = kernel.reversed().init(model, data, seed=0)
    for _ in range(5):
        kernel.reversed().step(state)
        state.check()


def test_a_kernel_that_moves_in_another_way_has_no_reversal_of_its_parent():
    class Other(TopicGibbs):
        def move(self, state):
            return super().move(state)

    class Renamed(TopicGibbs):
        pass

    class OtherRows(GroupedGibbs):
        def move(self, state):
            return super().move(state)

    assert Other().reversed() is None
    assert OtherRows().reversed() is None
    assert Renamed().reversed() == Renamed(backward=True)


def test_calls_of_a_part_of_the_words_are_made_in_the_opposite_order(monkeypatch):
    X = np.random.default_rng(0).poisson(1.0, size=(20, 15))
    model = AdmixtureModel(Multinomial(0.3), 4, 0.5)
    kernel = TopicGibbs(learn_alpha=False, backward=True)
    found = []
    for size in (1 << 20, 30):
        monkeypatch.setattr("expfam.samplers.topics.gibbs.CALL_TOKENS", size)
        state = kernel.init(model, X, seed=3, start="random")
        kernel.step(state)
        kernel.step(state)
        found.append(state.labels.copy())
        state.check()
    np.testing.assert_array_equal(*found)
