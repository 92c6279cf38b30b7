"""The estimator of topics: fits, weights of documents, held-out scores, files, and what it refuses."""

import numpy as np
import pytest
from scipy import sparse
from topics_by_terms import Reference

from expfam import TopicModel
from expfam.errors import ArchiveError, DataError
from expfam.evaluation.held_out import count_units, document_completion, split_documents
from expfam.samplers import Memoized, Stochastic, TopicVariational
from expfam.samplers.topics.new_documents import document_weights

QUICK = {"n_steps": 40, "random_state": 0}


@pytest.fixture(scope="module")
def planted():
    """Documents of five topics, more of the same, and the topics."""
    rng = np.random.default_rng(0)
    topics = rng.dirichlet(np.full(50, 0.05), size=5)
    X = np.array([rng.multinomial(30, w @ topics) for w in rng.dirichlet(np.full(5, 0.2), size=700)])
    return X[:500], X[500:], topics


def distance(found, topics):
    """Largest L1 distance of a planted topic to its nearest found one."""
    found = found / found.sum(axis=1, keepdims=True)
    return abs(topics[:, None] - found[None]).sum(axis=2).min(axis=1).max()


@pytest.mark.parametrize(
    ("settings", "method"),
    [
        ({}, "gibbs"),
        ({"eta": "auto"}, "gibbs"),
        ({"sampler": "variational"}, "dense"),
        ({"sampler": TopicVariational(local="active", schedule=Memoized(5))}, "active"),
        ({"sampler": TopicVariational(local="dense", documents="best")}, "dense"),
        ({"sampler": TopicVariational(3, local="tokens", schedule=Stochastic(100))}, "tokens"),
    ],
)
def test_every_way_of_fitting_finds_topics_that_predict(planted, settings, method):
    X, held, topics = planted
    model = TopicModel(5, **QUICK, **settings).fit(X)
    assert model.method_ == method
    assert model.components_.shape == (5, 50)
    np.testing.assert_allclose(model.components_.sum(), X.sum() + model.eta_ * 250, rtol=1e-4)
    truth = document_completion(topics * 1e6 + 1e-9, 0.2, held)[0]
    words = document_completion(X.sum(axis=0)[None] + 0.1, 1.0, held)[0]
    assert words < truth - 0.25
    assert truth - 0.15 < model.score(held) < truth + 0.02
    assert len(model.trace_) == model.n_iter_
    if method == "gibbs":
        assert distance(model.components_, topics) < 0.15


@pytest.mark.parametrize("sampler", ["gibbs", "variational"])
def test_the_trace_knows_its_warm_up(planted, sampler):
    sweeps = {"n_warmup": 5} if sampler == "gibbs" else {}
    trace = TopicModel(3, sampler=sampler, n_steps=4, **sweeps, random_state=0).fit(planted[0]).trace_
    assert trace.n_warmup == (5 if sampler == "gibbs" else 0)
    assert len(trace.counted("objective")) == 4


def test_the_mean_over_sweeps_predicts_better_than_the_last_one(planted):
    X, held, _ = planted
    long, last = (TopicModel(20, n_steps=n, n_warmup=80 - n, random_state=1).fit(X).score(held) for n in (40, 0))
    assert long > last


@pytest.mark.parametrize("sampler", ["gibbs", "documents"])
def test_a_sampler_learns_the_pseudo_count_of_words_but_holds_it_up(sampler):
    quick = {"sampler": sampler, "n_steps": 20, "random_state": 0}
    rng = np.random.default_rng(0)
    broad, narrow = rng.dirichlet(np.full(60, 2.0), size=3), rng.dirichlet(np.full(3000, 1e-3), size=3)
    X, Z = (np.array([rng.multinomial(60, phi[d % 3]) for d in range(90)]) for phi in (broad, narrow))
    Z = np.pad(Z[:, Z.any(axis=0)], ((0, 0), (0, 3000)))
    assert TopicModel(3, **quick).fit(X).eta_ > 0.1
    held, free = TopicModel(3, **quick).fit(Z), TopicModel(3, eta="auto", **quick).fit(Z)
    assert 0.015 <= held.eta_ < 0.02
    assert free.eta_ < 0.01
    for settings in ({"learn_hyper": False}, {"eta": 0.01}, *([{"seeds": {0: [1]}}] if sampler == "gibbs" else [])):
        assert TopicModel(3, **settings, **quick).fit(X).eta_ == 0.01


def test_gibbs_is_for_whole_counts():
    X = np.random.default_rng(0).gamma(0.3, 2.0, size=(30, 10))
    assert TopicModel(3, **QUICK).fit(X).method_ == "dense"
    assert TopicModel(40, **QUICK).fit(X).method_ == "active"
    assert TopicModel(3, **QUICK).fit(np.ceil(X)).method_ == "gibbs"
    with pytest.raises(DataError, match="whole counts"):
        TopicModel(3, sampler="gibbs", **QUICK).fit(X)


def test_weights_are_those_of_the_reference(planted):
    _, held, topics = planted
    alpha = np.linspace(0.1, 0.5, 5)
    lam = 30 * topics + 0.1
    found = document_weights(lam, alpha, held[:20])
    reference, phi = Reference(alpha, np.zeros(50)), (lam / lam.sum(axis=1, keepdims=True)).T
    for x, w in zip(held[:20], found):
        words = np.flatnonzero(x)
        N = reference.collapsed(phi[words], x[words].astype(float), n_iterations=100)
        np.testing.assert_allclose(w, (alpha + N) / (alpha + N).sum(), atol=5e-3)
    found = document_weights(lam, alpha, held[:20], rule="variational")
    E = reference.expected_logs(lam.T)
    for x, w in zip(held[:20], found):
        words = np.flatnonzero(x)
        _, N = reference.dense(E[words], x[words].astype(float), max_iterations=100, tol=1e-2)
        np.testing.assert_allclose(w, (alpha + N) / (alpha + N).sum(), atol=5e-3)


@pytest.mark.parametrize("unit", ["type", "token"])
def test_parts_of_documents_are_split_as_the_whole_is(planted, unit):
    X = sparse.csr_array(np.vstack([planted[1], np.eye(planted[1].shape[1], dtype=int)[:3]]))[::-1]
    seen, left, n_skipped = split_documents(X, unit=unit)
    parts, n_before = [], 0
    for rows in np.array_split(np.arange(X.shape[0]), 4):
        parts.append(split_documents(X[rows], unit=unit, n_before=n_before))
        n_before += count_units(X[rows], unit=unit)
    np.testing.assert_array_equal(sparse.vstack([part[0] for part in parts]).toarray(), seen.toarray())
    np.testing.assert_array_equal(sparse.vstack([part[1] for part in parts]).toarray(), left.toarray())
    assert sum(part[2] for part in parts) == n_skipped == 3


def test_the_score_is_its_definition(planted):
    _, held, topics = planted
    before = sparse.csr_array(held)
    seen, left, n_skipped = split_documents(before, share=0.3, seed=4)
    np.testing.assert_array_equal((seen + left).toarray(), held)
    assert (seen.toarray() * left.toarray() == 0).all()
    types = (held > 0).sum(axis=1)
    np.testing.assert_array_equal((left.toarray() > 0).sum(axis=1), np.clip(np.round(0.3 * types), 1, types - 1))
    weights = document_weights(topics + 0.01, 0.2, seen)
    phi = (topics + 0.01) / (topics + 0.01).sum(axis=1, keepdims=True)
    expected = (left.toarray() * np.log(weights @ phi)).sum() / left.sum()
    score, n_tokens, skipped = document_completion(topics + 0.01, 0.2, before, share=0.3, seed=4)
    np.testing.assert_allclose(score, expected)
    assert (n_tokens, skipped, n_skipped) == (left.sum(), 0, 0)
    assert document_completion(topics + 0.01, 0.2, before, share=0.3, seed=5)[0] != score
    with pytest.raises(DataError, match="two word types"):
        document_completion(topics, 0.2, np.eye(50, dtype=int))
    with pytest.raises(ValueError, match="share"):
        document_completion(topics, 0.2, held, share=1.0)
    with pytest.raises(ValueError, match="rule"):
        document_weights(topics, 0.2, held, rule="exact")


def test_units_of_the_score(planted):
    X, held, topics = planted
    lam = topics + 0.01
    score, n_tokens, _ = document_completion(lam, 0.2, held)
    by_document, same, _ = document_completion(lam, 0.2, held, per="document")
    assert same == n_tokens
    np.testing.assert_allclose(by_document, score * n_tokens / len(held))
    model = TopicModel(5, **QUICK).fit(X)
    np.testing.assert_allclose(model.score(held), document_completion(model.components_, model.alpha_, held)[0])
    np.testing.assert_allclose(model.perplexity(held), np.exp(-model.score(held)))
    with pytest.raises(AttributeError, match=r"write document_completion\(model.components_, model.alpha_, X, per="):
        model.score_documents(held)
    assert 1 < model.perplexity(held) < 50
    with pytest.raises(ValueError, match="per must be"):
        document_completion(lam, 0.2, held, per="word")


def test_tokens_are_left_out_one_by_one(planted):
    _, held, topics = planted
    held = held.copy()
    held[0], held[1] = 0, np.eye(50, dtype=int)[3]  # too short
    seen, left, n_skipped = split_documents(held, share=0.3, unit="token", seed=4)
    assert n_skipped == 2
    np.testing.assert_array_equal((seen + left).toarray(), held[2:])
    n = held[2:].sum(axis=1)
    np.testing.assert_array_equal(left.toarray().sum(axis=1), np.clip(np.round(0.3 * n), 1, n - 1))
    assert ((seen.toarray() > 0) & (left.toarray() > 0)).any()
    repeated = np.full((400, 2), [6, 2])
    shares = split_documents(repeated, share=0.25, unit="token")[1].toarray().mean(axis=0)
    np.testing.assert_allclose(shares, [1.5, 0.5], atol=0.1)  # every token alike
    # words of which some tokens are seen are easier to tell
    scores = [document_completion(topics + 0.01, 0.2, held, unit=unit)[0] for unit in ("token", "type")]
    assert scores[0] > scores[1] + 0.02
    with pytest.raises(DataError, match="whole counts"):
        split_documents(held + 0.5, unit="token")
    with pytest.raises(DataError, match="two tokens"):
        document_completion(topics, 0.2, np.eye(50, dtype=int), unit="token")
    with pytest.raises(ValueError, match="unit must be"):
        split_documents(held, unit="word")


def test_left_out_words_have_no_part_in_the_weights(planted):
    """A scorer that peeks at what it is to predict scores higher."""
    _, held, topics = planted
    seen, left, _ = split_documents(held)
    honest = document_weights(topics + 0.01, 0.2, seen)
    peeking = document_weights(topics + 0.01, 0.2, held)
    phi = (topics + 0.01) / (topics + 0.01).sum(axis=1, keepdims=True)
    scores = [(left.toarray() * np.log(w @ phi)).sum() / left.sum() for w in (honest, peeking)]
    assert scores[1] > scores[0] + 0.05


def test_transform(planted):
    X, held, _ = planted
    model = TopicModel(8, n_threads=2, **QUICK).fit(X)
    weights = model.transform(held)
    np.testing.assert_allclose(weights.sum(axis=1), 1.0)
    few = model.transform(sparse.csr_array(held), n_top=3)
    assert few.shape == (200, 8)
    assert (np.diff(few.indptr) == 3).all()
    np.testing.assert_allclose(few.toarray().max(axis=1), weights.max(axis=1))
    np.testing.assert_allclose(model.transform(held[:1]), weights[:1])
    empty = model.transform(np.zeros((1, 50)))
    np.testing.assert_allclose(empty[0], model.alpha_ / model.alpha_.sum())
    assert list(model.get_feature_names_out()[:2]) == ["topicmodel0", "topicmodel1"]
    with pytest.raises(ValueError, match="n_top"):
        model.transform(held, n_top=0)


def test_top_words(planted):
    X, _, topics = planted
    model = TopicModel(5, **QUICK).fit(X)
    names = np.array([f"word{v}" for v in range(50)])
    top = model.top_words(3, names)
    assert top.shape == (5, 3)
    assert set(top[:, 0]) == set(names[topics.argmax(axis=1)])
    np.testing.assert_array_equal(names[model.top_words(3)], top)
    np.testing.assert_allclose(model.perplexity(X), np.exp(-model.score(X)))
    with pytest.raises(ValueError, match="50 columns"):
        model.top_words(3, ["a"])
    with pytest.raises(ValueError, match="positive"):
        model.top_words(0)


def test_batches_one_after_the_other_learn(planted):
    X, held, _ = planted
    kernel = TopicVariational(schedule=Stochastic(50, kappa=0.7, n_total=500))
    model = TopicModel(5, sampler=kernel, start="documents", random_state=0)  # far from its end
    scores = []
    for start in 6 * list(range(0, 500, 50)):
        scores.append(model.partial_fit(X[start : start + 50]).score(held))
    assert model.n_iter_ == 60
    assert scores[-1] > scores[0] + 0.03
    words = document_completion(X.sum(axis=0)[None] + 0.1, 1.0, held)[0]
    assert scores[-1] > words + 0.1
    with pytest.raises(ValueError, match="features"):
        model.partial_fit(X[:, :30])
    with pytest.raises(AttributeError, match="partial_fit"):
        TopicModel(5, sampler="gibbs").partial_fit(X)


def test_the_same_seed_and_other_threads_give_the_same_bits(planted, monkeypatch):
    monkeypatch.setattr("expfam.samplers.topics.local_step._TASK_ENTRIES", 1)  # else all is one task
    X = planted[0]
    for make in (lambda n: "auto", lambda n: "variational", lambda n: TopicVariational(local="active", n_threads=n)):
        a, b = (TopicModel(6, sampler=make(n), n_threads=n, **QUICK).fit(X) for n in (1, 3))
        np.testing.assert_array_equal(a.components_, b.components_)
        np.testing.assert_array_equal(a.transform(X), b.transform(X))


def test_files(planted, tmp_path):
    X, held, _ = planted
    model = TopicModel(4, callbacks=[lambda info, state: False], **QUICK).fit(X)
    model.save(tmp_path / "model")
    again = TopicModel.load(tmp_path / "model")
    np.testing.assert_array_equal(model.transform(held), again.transform(held))
    assert again.score(held) == model.score(held)
    assert again.get_params()["n_steps"] == 40
    assert again.callbacks is None
    assert list(again.get_feature_names_out()) == list(model.get_feature_names_out())
    (tmp_path / "model" / "arrays.npz").write_bytes(b"")
    with pytest.raises(ArchiveError, match="truncated or altered"):
        TopicModel.load(tmp_path / "model")


def test_a_callback_may_end_the_run(planted):
    X = planted[0]
    model = TopicModel(4, callbacks=[lambda info, state: info.step == 3], **QUICK).fit(X)
    assert model.n_iter_ == 3


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"n_components": 0}, "n_components"),
        ({"alpha": -1.0}, "alpha"),
        ({"eta": 0.0}, "concentration"),
        ({"sampler": TopicVariational(local="sparse")}, "local"),
        ({"sampler": "dense"}, "sampler must be 'auto', 'gibbs', 'documents', 'variational', or a kernel"),
        ({"n_steps": -1}, "n_steps"),
        ({"n_warmup": 1.5}, "n_warmup"),
        ({"sampler": TopicVariational(0, local="active")}, "n_active"),
        ({"sampler": TopicVariational(documents="best", schedule=Stochastic(10))}, "documents"),
    ],
)
def test_settings_out_of_their_ranges(settings, words, planted):
    with pytest.raises(ValueError, match=words):
        TopicModel(**settings).fit(planted[0])


def test_negative_counts_are_refused():
    with pytest.raises(DataError, match="Negative values"):
        TopicModel(2).fit([[1, -1], [0, 2]])
