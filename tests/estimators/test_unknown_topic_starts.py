"""Variational topics of unknown number begin with few, and reach true numbers and the highest bound."""

import numpy as np
import pytest
from count_shapes import words
from sklearn.metrics import adjusted_rand_score

from expfam import Dataset, HierarchicalProcess, Multinomial, TopicModel
from expfam.fitting.unknown_topic_starts import process_start
from expfam.samplers import TopicProcessVariational

VARIATIONAL = {"sampler": "variational", "random_state": 0}


def mixed(K, seed, *, n_documents=200):
    """Documents that mix K topics."""
    rng = np.random.default_rng(seed)
    topics = rng.dirichlet(np.full(20 * K, 0.05), size=K)
    weights = rng.dirichlet(np.full(K, 2.0 / K), size=n_documents)
    return np.array([rng.multinomial(60, w @ topics) for w in weights])


def start_of(X, *, weight=None, n_threads=1):
    data = Dataset(X, Multinomial(0.01, allow_fractional=True), weight=weight)
    model, kernel = HierarchicalProcess(data.family), TopicProcessVariational(learn_eta=True, n_threads=n_threads)
    return process_start(kernel, model, data, "auto", seed=0, n_threads=n_threads)


@pytest.mark.parametrize(("K", "seed"), [(5, 0), (9, 1)])
def test_the_true_number_of_mixed_topics_is_found(K, seed):
    assert len(TopicModel(None, **VARIATIONAL).fit(mixed(K, seed)).sizes_) == K


def test_documents_of_one_topic_each_are_told_and_no_start_from_many_is_better():
    X, truth = words(200, 8, 40, 100)(0)
    found = TopicModel(None, **VARIATIONAL).fit(X)
    many = TopicModel(None, start="documents", **VARIATIONAL).fit(X)
    assert found.log_joint_ > many.log_joint_ - 1e-4 * abs(many.log_joint_)
    assert len(found.sizes_) == 8
    assert adjusted_rand_score(truth, found.transform(X).argmax(axis=1)) > 0.98


def test_chunks_begin_as_documents_in_memory_do():
    X, truth = words(240, 8, 40, 100)(0)
    chunks = np.array_split(X, 4)
    found = TopicModel(None, n_steps=8, random_state=0).fit_chunks(chunks)
    assert len(found.sizes_) == 8
    assert adjusted_rand_score(truth, found.transform(X).argmax(axis=1)) > 0.98
    many = TopicModel(None, n_steps=8, start="documents", random_state=0).fit_chunks(chunks)
    assert found.log_joint_ > many.log_joint_ - 1e-4 * abs(many.log_joint_)


def test_a_start_counts_every_token_and_does_not_depend_on_threads(monkeypatch):
    monkeypatch.setattr("expfam.samplers.topics.local_step._TASK_ENTRIES", 1)  # else all is one task
    X = mixed(5, 0)
    one, two = start_of(X), start_of(X, n_threads=2)
    np.testing.assert_array_equal(one, two)
    assert one.sum() == pytest.approx(X.sum(), rel=1e-5)


def test_documents_of_weight_zero_have_no_part_in_a_start():
    X = mixed(5, 0)
    weight = np.repeat([1.0, 0.0], 100)
    np.testing.assert_array_equal(start_of(X, weight=weight), start_of(X[:100], weight=np.ones(100)))


def test_documents_that_are_not_to_be_divided_begin_with_one_topic():
    assert start_of(np.tile([[3, 4, 5]], (30, 1))).shape == (3, 1)
    assert isinstance(start_of(np.eye(5, dtype=int)), str)
