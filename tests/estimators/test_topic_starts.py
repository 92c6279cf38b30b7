"""Topic models begin with documents divided by k-means, and are not below those that begin with the truth."""

import numpy as np
import pytest
from count_shapes import words
from scipy import sparse
from sklearn.metrics import adjusted_rand_score

import expfam.fitting.topic_starts
from expfam import AdmixtureModel, Dataset, Multinomial, TopicModel
from expfam.fitting.topic_starts import document_clusters, topic_start
from expfam.samplers import Stochastic, TopicGibbs, TopicVariational

QUICK = {"n_steps": 40, "random_state": 0}


def topics_of_tokens(X, labels):
    """Topics of all tokens: those of their documents, sorted by word and then by document."""
    X = sparse.csc_array(X)
    X.sort_indices()
    return np.repeat(labels[X.indices], X.data).astype(np.int32)


def counts_of(X, labels):
    return (X.T @ np.eye(labels.max() + 1)[labels]).astype(np.float64)


@pytest.mark.parametrize("make", [words(300, 8, 40, 100), words(300, 20, 30, 200)])
@pytest.mark.parametrize("sampler", ["gibbs", "variational"])
def test_documents_of_one_topic_each_are_told(make, sampler):
    for seed in (0, 1):
        X, truth = make(seed)
        start = topics_of_tokens(X, truth) if sampler == "gibbs" else counts_of(X, truth)
        K = truth.max() + 1
        best = TopicModel(K, sampler=sampler, start=start, **QUICK).fit(X)
        found = TopicModel(K, sampler=sampler, **QUICK).fit(X)
        assert found.log_joint_ > best.log_joint_ - 0.002 * abs(best.log_joint_)
        assert adjusted_rand_score(truth, found.transform(X).argmax(axis=1)) > 0.98


@pytest.mark.parametrize("schedule", [None, Stochastic()])
def test_chunks_begin_with_documents_of_one_topic_each(schedule):
    X, truth = words(400, 8, 40, 100)(0)
    model = TopicModel(8, sampler=TopicVariational(schedule=schedule), random_state=0)
    for chunk in np.array_split(X, 4):
        model.partial_fit(chunk)
    assert adjusted_rand_score(truth, model.transform(X).argmax(axis=1)) > 0.98


def test_dense_and_sparse_documents_and_threads_give_the_same_topics(monkeypatch):
    monkeypatch.setattr("expfam.samplers.topics.local_step._TASK_ENTRIES", 1)  # else all is one task
    X, _ = words(200, 6, 40, 100)(0)
    dense, rows = (TopicModel(6, sampler="gibbs", **QUICK).fit(made) for made in (X, sparse.csr_array(X)))
    np.testing.assert_array_equal(dense.components_, rows.components_)
    one, two = (TopicModel(6, sampler="variational", n_threads=n, **QUICK).fit(X) for n in (1, 2))
    np.testing.assert_array_equal(one.components_, two.components_)


def start_of(X, kernel=None, K=6, **settings):
    data = Dataset(X, Multinomial(0.01, allow_fractional=True), weight=settings.pop("weight", None))
    model = AdmixtureModel(data.family, K, **settings)
    own = "variational" if kernel is None else "documents"
    return topic_start(kernel or TopicGibbs(), model, data, own, seed=0, n_threads=None)


def test_sweeps_over_many_documents_begin_with_the_division_and_passes_unless_their_own_is_clearly_higher(monkeypatch):
    X, kernel = words(200, 6, 40, 100)(0)[0], TopicVariational()
    data = Dataset(X, Multinomial(0.01, allow_fractional=True))
    model = AdmixtureModel(data.family, 6)
    labels = document_clusters(model, data, seed=0, n_threads=None)
    monkeypatch.setattr(expfam.fitting.topic_starts, "_FEW_DOCUMENTS", 199)
    np.testing.assert_array_equal(start_of(X), topics_of_tokens(X, labels))
    reached, higher = expfam.fitting.topic_starts._reached, {"own": 0.0}

    def reaches(kernel, model, data, start, seed):
        bound = reached(kernel, model, data, counts_of(X, labels), seed)
        return bound + higher["own"] * abs(bound) if isinstance(start, str) else bound

    monkeypatch.setattr(expfam.fitting.topic_starts, "_reached", reaches)
    for more, is_own in ((0.0, False), (0.001, False), (0.003, True)):
        higher["own"] = more
        assert isinstance(start_of(X, kernel), str) == is_own


def test_a_start_is_divided_only_where_that_pays():
    X, truth = words(200, 6, 40, 100)(0)
    found = start_of(X)
    assert adjusted_rand_score(topics_of_tokens(X, truth), found) > 0.98
    assert start_of(X, K=1) == "variational"
    assert start_of(X[:6]) == "variational"
    seeds = np.zeros((100, 6), dtype=int)
    seeds[0, 0] = 5
    assert start_of(X, seeds=seeds) == "variational"


def test_a_large_corpus_decides_on_a_part(monkeypatch):
    X, truth = words(200, 6, 40, 100)(0)
    monkeypatch.setattr(expfam.fitting.topic_starts, "_DOCUMENTS", 100)
    monkeypatch.setattr(expfam.fitting.topic_starts, "_DOCUMENTS_EACH", 0)
    assert adjusted_rand_score(topics_of_tokens(X, truth), start_of(X)) > 0.98
    counts = start_of(X, TopicVariational())
    assert counts.shape == (100, 6)
    assert counts.sum() == 100 * 40


def test_weights_count_documents_of_the_division():
    X, _ = words(200, 6, 40, 100)(0)
    counts = start_of(X, TopicVariational(), weight=np.full(200, 2.0))
    assert counts.sum() == pytest.approx(2.0 * X.sum())


def test_documents_are_divided_as_they_are():
    X, truth = words(200, 6, 40, 100)(0)
    data = Dataset(X, Multinomial(0.01))
    labels = document_clusters(AdmixtureModel(data.family, 6), data, seed=0, n_threads=None)
    assert adjusted_rand_score(truth, labels) > 0.98
    same = Dataset(np.tile(X[:1], (20, 1)), Multinomial(0.01))
    assert document_clusters(AdmixtureModel(same.family, 6), same, seed=0, n_threads=None) is None
