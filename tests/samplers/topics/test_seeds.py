"""Seeds of topics: an asymmetric prior of words, by enumeration, in both kernels."""

import itertools

import numpy as np
import pytest
from scipy import sparse
from stepping import assert_resumes, stepped

from expfam import AdmixtureModel, Dataset, Multinomial
from expfam.errors import CapabilityError, DataError
from expfam.model.admixture import log_rising
from expfam.samplers import TopicGibbs, TopicVariational, sample
from expfam.samplers.topics.statistics import log_evidence_of_topics
from expfam.samplers.topics.tokens import TokenTopics

TINY = np.array([[2, 0, 1], [0, 1, 1]])
SEEDS = np.array([[2, 0], [0, 0], [1, 3]])  # words by topics
FIXED = {"learn_alpha": False}


def model_of(seeds=SEEDS, *, vector=True):
    eta = np.array([0.2, 0.5, 0.9]) if vector else 0.3
    return AdmixtureModel(Multinomial(eta), 2, np.array([0.3, 0.8]), seeds)


def law_of(model):
    """Return all topics of the tokens of TINY with their probabilities."""
    states = list(itertools.product(range(2), repeat=int(TINY.sum())))
    log_joint = np.array([model.log_joint(TINY, topics) for topics in states])
    p = np.exp(log_joint - log_joint.max())
    return states, p / p.sum()


def visited(kernel, model, steps):
    state = kernel.init(model, TINY, seed=3)
    counts, powers = np.zeros(2 ** int(TINY.sum())), 2 ** np.arange(TINY.sum())[::-1]
    for _ in range(steps):
        kernel.step(state)
        counts[int(state.labels @ powers)] += 1
    return counts / steps


@pytest.mark.parametrize("vector", [False, True])
def test_the_log_joint_is_that_of_tokens_which_never_change(vector):
    model, plain = model_of(vector=vector), model_of(None, vector=vector)
    eta = plain.bind(TINY).family.pseudocounts()[0]
    words = np.repeat(np.arange(3), TINY.sum(axis=0))
    for topics in itertools.product(range(2), repeat=int(TINY.sum())):
        counts = np.zeros((2, 3))
        np.add.at(counts, (topics, words), 1)
        with_seeds = log_rising(eta, counts + SEEDS.T).sum() - log_rising(eta, SEEDS.T).sum()
        expected = plain.log_joint(TINY, topics) - log_rising(eta, counts).sum() + with_seeds
        assert model.log_joint(TINY, topics) == pytest.approx(expected, abs=1e-12)
        for words_in_topics in (counts.T.copy(), sparse.csr_array(counts.T)):
            found = log_evidence_of_topics(words_in_topics, eta, sparse.csr_array(SEEDS))
            assert found == pytest.approx(with_seeds, abs=1e-12)


@pytest.mark.parametrize("vector", [False, True])
def test_each_draw_has_the_exact_conditional_law(vector):
    model = model_of(vector=vector).bind(TINY)
    tokens = TokenTopics(sparse.csr_array(TINY), 2, model.seeds)
    uniforms = (np.arange(4000) + 0.5) / 4000
    for topics in itertools.product(range(2), repeat=int(TINY.sum())):
        tokens.topic[:] = topics
        tokens.count_topics()
        for token in range(len(topics)):
            joint = np.array([model.log_joint(TINY, (*topics[:token], k, *topics[token + 1 :])) for k in range(2)])
            p = np.exp(joint - np.logaddexp.reduce(joint))
            found = tokens.draws(model.pseudocounts, model.family.pseudocounts()[0], token, uniforms)
            np.testing.assert_allclose(np.bincount(found, minlength=2) / 4000, p, atol=4 / 4000)


def test_topics_are_visited_by_their_posterior_and_not_by_that_without_seeds():
    model = model_of()
    _, p = law_of(model)
    found = visited(TopicGibbs(**FIXED), model, 8_000)
    assert np.abs(found - p).sum() / 2 < 0.05
    assert np.abs(found - law_of(model_of(None))[1]).sum() / 2 > 0.2


def test_the_log_joint_of_a_chain_and_its_counts_stay_exact():
    kernel = TopicGibbs()
    state = kernel.init(model_of(vector=False), TINY, seed=0)
    for _ in range(25):
        kernel.step(state)
        state.check()
        assert state.log_joint == pytest.approx(state.model.log_joint(TINY, state.labels), abs=1e-9)


def test_no_seeds_and_empty_seeds_give_the_same_bits():
    X = sparse.csr_array(np.random.default_rng(0).poisson(0.5, (40, 20)))
    for kernel in (TopicGibbs(), TopicVariational()):
        results = []
        for seeds in (None, np.zeros((20, 3))):
            state = kernel.init(AdmixtureModel(Multinomial(0.1), 3, seeds=seeds), X, seed=1)
            sample(kernel, state, 20)
            results.append((state.labels.tobytes(), state.log_joint))
        assert results[0][0] == results[1][0]
        assert results[0][1] == pytest.approx(results[1][1], rel=1e-12)


@pytest.mark.parametrize("documents", ["warm", "best"])
def test_the_bound_rises_and_is_below_the_exact_evidence(documents):
    model = model_of()
    states, _ = law_of(model)
    exact = np.logaddexp.reduce([model.log_joint(TINY, topics) for topics in states])
    kernel = TopicVariational(documents=documents, n_restarts=0, dtype="float64", tol=1e-9, local="dense")
    state = kernel.init(model, TINY, seed=0)
    bounds = []
    for _ in range(30):
        kernel.step(state)
        bounds.append(state.log_joint)
    assert (np.diff(bounds) >= -1e-9).all()
    assert bounds[-1] <= exact


def test_a_resumed_chain_has_the_bits_of_one_that_never_stopped(tmp_path):
    kernel, model = TopicGibbs(learn_every=2), model_of(vector=False)
    whole, again = stepped(kernel, kernel.init(model, TINY, seed=5), 5), kernel.init(model, TINY, seed=5)
    assert_resumes(kernel, whole, again, tmp_path / "run", 5)


@pytest.mark.parametrize("kernel", [TopicGibbs(learn_eta=True), TopicVariational(learn_eta=True)])
def test_a_pseudo_count_of_words_is_not_learned_beside_seeds(kernel):
    with pytest.raises(CapabilityError, match="cannot be learned beside seeds: give eta a number"):
        kernel.init(model_of(vector=False), TINY, seed=0)


@pytest.mark.parametrize(
    ("seeds", "words"),
    [
        (np.zeros((3, 4)), r"seeds must be \(V, 2\)"),
        (np.array([[0.5, 0], [0, 0], [0, 0]]), "whole numbers"),
        (np.array([[-1, 0], [0, 0], [0, 0]]), "whole numbers"),
    ],
)
def test_seeds_that_are_no_counts(seeds, words):
    with pytest.raises(ValueError, match=words):
        model_of(seeds)


def test_seeds_of_other_words():
    with pytest.raises(DataError, match="seeds have 3 words, the data 4 columns"):
        AdmixtureModel(Multinomial(0.1), 2, seeds=SEEDS).bind(Dataset(np.ones((2, 4)), Multinomial(0.1)))
