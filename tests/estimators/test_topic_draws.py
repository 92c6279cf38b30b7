"""Draws of topics that a fit keeps: probabilities of words are means over them."""

import copy
import pickle

import numpy as np
import pytest
from scipy import sparse
from scipy.special import logsumexp
from sklearn.base import clone

from expfam import Dataset, Multinomial, TopicModel, merge
from expfam.errors import ArchiveError, CapabilityError, ResourceError
from expfam.estimators.topic_draws import drawn_topics
from expfam.estimators.topic_scores import bounds_of_documents
from expfam.evaluation.held_out import completed_documents, split_documents
from expfam.fitting.kept_topics import KeptTopics
from expfam.io import models
from expfam.samplers.topics.new_documents import collapsed_weights, document_weights

pytestmark = pytest.mark.filterwarnings("ignore:.*rows? (is|are) empty")

RUN = {"n_steps": 20, "n_warmup": 40, "random_state": 1}
KINDS = {
    "unknown": {"n_components": None},
    "unknown, seeds": {"n_components": None, "seeds": {0: [3, 5], 1: [8]}, "seed_tokens": 7},
    "given": {"n_components": 4},
    "given, eta learned": {"n_components": 4, "eta": "auto"},
    "given, seeds": {"n_components": 4, "seeds": {0: [3, 5], 2: [8]}, "seed_tokens": 7},
    "given, eta by word": {"n_components": 3, "eta": np.linspace(0.02, 0.3, 30)},
}


@pytest.fixture(scope="module")
def planted():
    rng = np.random.default_rng(0)
    topics = rng.dirichlet(np.full(30, 0.1), size=4)
    X = np.array([rng.multinomial(25, w @ topics) for w in rng.dirichlet(np.full(4, 0.3), size=160)])
    return X[:120], X[120:]


class Watched:
    """Callback that notes counts of words in topics, and pseudo-counts, token by token."""

    def __init__(self):
        self.seen = []

    def __call__(self, info, state):
        V, tokens = state.data.n_features, state.tokens
        word = np.repeat(np.arange(V), np.diff(tokens.word_start))
        counts = np.zeros((int(tokens.topic.max()) + 1, V))
        np.add.at(counts, (tokens.topic, word), 1.0)
        if hasattr(state, "shared"):
            slots, alpha = np.flatnonzero(state.shared.names >= 0), state.shared.pseudocounts
            counts = np.vstack([counts, np.zeros((state.shared.capacity - len(counts), V))])
            counts, alpha = counts[slots], np.append(alpha[slots], alpha[state.shared.rest])
            counts = np.vstack([counts, np.zeros((1, V))])
        else:
            alpha = np.array(state.model.pseudocounts)
            counts = np.vstack([counts, np.zeros((len(alpha) - len(counts), V))])
        if state.model.seeds is not None:
            seeds = state.model.seeds.toarray().T
            counts[: len(seeds)] += seeds
        self.seen.append((counts + state.eta, alpha))
        return False


@pytest.fixture(scope="module", params=KINDS)
def kept(request, planted):
    watched = Watched()
    model = TopicModel(**KINDS[request.param], n_draws=5, callbacks=[watched], **RUN).fit(planted[0])
    return model, watched.seen[-20:]


def test_draws_are_the_states_of_evenly_spaced_steps(kept):
    model, steps = kept
    draws = drawn_topics(model)
    assert len(draws) == 5
    for draw, (components, alpha) in zip(draws, steps[3::4]):
        np.testing.assert_allclose(draw.components(), components, rtol=1e-12)
        np.testing.assert_allclose(draw.alpha, alpha, rtol=1e-12)
    learns = isinstance(model.eta, str) or (model.eta is None and (model.seeds is None or model.n_components is None))
    assert (len({float(draw.eta[0]) for draw in draws}) > 1) == learns


def test_scores_are_means_over_the_draws(kept, planted):
    model, steps = kept
    new = planted[1]
    seen, left, _ = split_documents(new)
    whole, p, bounds = sparse.csr_array(new), 0.0, []
    for components, alpha in steps[3::4]:
        phi = components / components.sum(axis=1, keepdims=True)
        p = p + document_weights(components, alpha, seen) @ phi / 5
        gamma = collapsed_weights(components, alpha, whole, None) + alpha
        bounds.append(bounds_of_documents(whole, phi, alpha, gamma))
    wanted = (left.toarray() * np.log(p)).sum() / left.sum()
    assert model.score(new) == pytest.approx(wanted, rel=1e-12)
    assert model.perplexity(new) == pytest.approx(np.exp(-wanted))
    assert 0 < model.score_error(new) < 1
    base = model.family_.log_base(whole)
    np.testing.assert_allclose(model.score_samples(new), base + logsumexp(bounds, axis=0) - np.log(5), rtol=1e-12)
    plain = copy.copy(model)
    del plain._drawn
    assert abs(plain.score(new) - wanted) > 1e-4


def test_words_of_no_document_are_one_word(kept, planted):
    model, _ = kept
    for draw in drawn_topics(model):
        whole, words = draw.components(), np.array([2, 3, 11])
        part = draw.components(words)
        np.testing.assert_array_equal(part[:, :3], whole[:, words])
        np.testing.assert_allclose(part.sum(axis=1), whole.sum(axis=1), rtol=1e-12)
        every = draw.components(np.arange(whole.shape[1]))
        np.testing.assert_allclose(every[:, :-1], whole, rtol=1e-15)
        assert (every[:, -1] < 1e-12).all()
    new = planted[1][:6]
    options = {"rtol": 1e-9}
    for X in (new, sparse.csr_array(new), new.astype(float)):
        np.testing.assert_allclose(model.score_samples(X), model.score_samples(planted[1])[:6], **options)
        whole = [(draw.components(), draw.alpha) for draw in drawn_topics(model)]
        sums, n_tokens, _ = completed_documents(whole, new)
        np.testing.assert_allclose(model.score(X), sums.sum() / n_tokens.sum(), **options)
    assert np.isfinite(model.score_samples(np.zeros((2, 30), dtype=int))).all()


@pytest.mark.parametrize("kind", ["unknown", "given"])
def test_draws_change_no_bit_of_the_topics(planted, kind):
    X, new = planted
    plain, *others = [TopicModel(**KINDS[kind], n_draws=n, **RUN).fit(X) for n in (0, 3, 50)]
    assert [len(drawn_topics(model)) for model in (plain, *others)] == [0, 3, 20]
    for model in others:
        for name in ("components_", "alpha_", "labels_", "log_joint_"):
            np.testing.assert_array_equal(getattr(model, name), getattr(plain, name))
        np.testing.assert_array_equal(model.transform(new), plain.transform(new))
        np.testing.assert_array_equal(model.top_words(3), plain.top_words(3))
    assert len({model.score(new) for model in (plain, *others)}) == 3


def test_files_and_copies_keep_the_draws(kept, planted, tmp_path):
    model, _ = kept
    new = planted[1]
    model = copy.copy(model).set_params(callbacks=None)
    model.save(tmp_path / "model")
    others = [TopicModel.load(tmp_path / "model"), copy.deepcopy(model), pickle.loads(pickle.dumps(model))]
    for other in others:
        assert len(drawn_topics(other)) == 5
        assert other.score(new) == model.score(new)
        np.testing.assert_array_equal(other.score_samples(new), model.score_samples(new))
        np.testing.assert_array_equal(other.transform(new), model.transform(new))
    assert clone(model).n_draws == 5
    others[0].save(tmp_path / "again")
    assert TopicModel.load(tmp_path / "again").score(new) == model.score(new)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda draws: [], "draws of topics are not what"),
        (lambda draws: [{"counts": draws[0].counts}], "draws of topics are not what"),
        (lambda draws: [draws[0]._replace(alpha=draws[0].alpha[1:])._asdict()], "alpha"),
        (lambda draws: [draws[0]._replace(alpha=-draws[0].alpha)._asdict()], "alpha"),
        (lambda draws: [draws[0]._replace(counts=draws[0].counts[1:])._asdict()], "counts"),
        (lambda draws: [draws[0]._replace(eta=np.ones(7))._asdict()], "other words"),
    ],
)
def test_altered_draws_are_refused(planted, tmp_path, monkeypatch, change, message):
    model = TopicModel(3, n_draws=2, **RUN).fit(planted[0])
    altered = change(drawn_topics(model))
    monkeypatch.setitem(models._SAVED, "topic_model", lambda one: ({"_drawn": altered}, {}))
    model.save(tmp_path / "model")
    with pytest.raises(ArchiveError, match=message):
        TopicModel.load(tmp_path / "model")


def test_draws_are_those_of_the_last_fit(planted):
    X, new = planted
    model = TopicModel(3, n_draws=4, **RUN).fit(X)
    assert len(drawn_topics(model.coarsen(n_clusters=2))) == 0
    parts = [TopicModel(3, alpha=0.1, n_draws=4, **RUN).fit(half) for half in (X[:60], X[60:])]
    merged = merge(parts, clusters="merged")
    assert drawn_topics(merged) == ()
    assert merged.n_draws == 4
    model.set_params(n_draws=0)
    learned = copy.deepcopy(model).partial_fit(new)
    assert drawn_topics(learned) == ()
    assert drawn_topics(model.fit(X)) == ()


@pytest.mark.parametrize("K", [3, None])
def test_what_draws_nothing_refuses_draws_by_name(planted, K):
    X = planted[0]
    for fit in (
        lambda model: model.set_params(sampler="variational").fit(X),
        lambda model: model.fit(X / 2),
        lambda model: model.fit(X, sample_weight=np.full(len(X), 2.0)),
        lambda model: model.partial_fit(X),
        lambda model: model.fit_chunks([X[:60], X[60:]]),
    ):
        with pytest.raises(CapabilityError, match=r"does not use n_draws=4: leave it out, or .*sampler='gibbs'"):
            fit(TopicModel(K, n_draws=4))
    for wrong in (-1, 2.5, "many", True, None):
        with pytest.raises(ValueError, match="n_draws"):
            TopicModel(K, n_draws=wrong, **RUN).fit(X)


def test_steps_that_do_not_count_give_no_draws(planted):
    X, new = planted
    model = TopicModel(3, n_draws=4, n_steps=0, n_warmup=5, random_state=0).fit(X)
    assert drawn_topics(model) == ()
    assert np.isfinite(model.score(new))
    assert len(drawn_topics(TopicModel(3, n_draws=4, n_steps=1, n_warmup=5, random_state=0).fit(X))) == 1


def test_the_forecast_of_memory_counts_draws(planted):
    options = {"n_steps": 100_000, "n_warmup": 1, "memory_limit": "40MB"}
    for K in (3, None):
        with pytest.raises(ResourceError, match="statistics of"):
            TopicModel(K, n_draws=100_000, **options).fit(planted[0])
        TopicModel(K, n_draws=100_000, **options | {"n_steps": 2}).fit(planted[0])


def test_an_unknown_number_keeps_draws_by_itself(planted):
    X, new = planted
    assert len(drawn_topics(TopicModel(None, **RUN).fit(X))) == 20
    many = TopicModel(None, **RUN | {"n_steps": 60}).fit(X)
    assert len(drawn_topics(many)) == 50
    given = TopicModel(None, n_draws=50, **RUN | {"n_steps": 60}).fit(X)
    assert given.score(new) == many.score(new)
    assert drawn_topics(TopicModel(3, **RUN).fit(X)) == ()
    assert drawn_topics(TopicModel(None, sampler="variational", n_steps=5).fit(X)) == ()


def test_draws_that_take_too_much_become_fewer_and_stay_evenly_spaced(planted):
    watched, all_of_them = KeptTopics(16, 32, 3_000), KeptTopics(16, 32)
    options = {"n_steps": 32, "n_warmup": 0, "random_state": 0}
    TopicModel(3, callbacks=[watched, all_of_them], **options).fit(planted[0])
    assert all_of_them.n_bytes() > 2 * 3_000
    draws, every = watched.draws(), all_of_them.draws()
    assert watched.n_bytes() <= 3_000
    step = 16 // len(draws)
    assert 2 < len(draws) < 16
    assert len(draws) * step == 16
    for draw, wanted in zip(draws, every[step - 1 :: step]):
        assert (draw.counts != wanted.counts).nnz == 0
    few = KeptTopics(16, 32, 1)
    TopicModel(3, callbacks=[few], **options).fit(planted[0])
    assert len(few.draws()) == 2
    data = Dataset(planted[0], Multinomial())
    assert all_of_them.n_bytes() <= all_of_them.memory(data, 3)
    assert watched.n_bytes() <= watched.memory(data, 3) < all_of_them.memory(data, 3)


def test_means_over_no_draws_are_refused():
    with pytest.raises(ValueError, match="no draws"):
        completed_documents([], [[3, 3, 0], [0, 3, 3]])
