"""Topics of unknown number begin with few or with many, and reach true numbers, higher bounds and log joints."""

import numpy as np
import pytest
from count_shapes import words
from sklearn.metrics import adjusted_rand_score

from expfam import Dataset, HierarchicalProcess, Multinomial, TopicModel
from expfam.fitting.unknown_topic_starts import most_sampled_topics, process_start, sampled_start
from expfam.samplers import TopicProcessGibbs, TopicProcessVariational

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


def near_copies(n_themes=400, *, n_documents=4, length=14, seed=0):
    """Short documents, few of each theme, which repeat a handful of words."""
    rng = np.random.default_rng(seed)
    themes = rng.dirichlet(np.full(600, 0.01), size=n_themes)
    return np.array([rng.multinomial(length, theme) for theme in themes for _ in range(n_documents)])


def sampled(X, **options):
    """Return the model and the data of a sampler, and the topics that it begins with."""
    data = Dataset(X, Multinomial(0.01))
    model = HierarchicalProcess(data.family, **options)
    return model, data, sampled_start(TopicProcessGibbs(), model, data, "variational", seed=0)


def test_sampling_begins_with_many_topics_where_documents_are_nearly_alike():
    X = near_copies()
    model, data, topics = sampled(X)
    usual = int(0.5 * np.sqrt(X.sum()))
    assert most_sampled_topics(model, data) == 8 * usual
    assert len(np.unique(topics)) > 4 * usual
    options = {"n_steps": 20, "n_warmup": 40, "random_state": 0}
    many, few = TopicModel(None, **options).fit(X), TopicModel(None, start="variational", **options).fit(X)
    assert many.score(X) > few.score(X) + 0.1
    assert len(many.sizes_) > 1.2 * len(few.sizes_)


def test_sampling_begins_with_the_usual_number_of_mixed_topics():
    X = mixed(5, 0, n_documents=400)
    model, data, topics = sampled(X)
    usual = int(0.5 * np.sqrt(X.sum()))
    assert most_sampled_topics(model, data) == 4 * usual  # eight times are more than the documents
    assert topics.max() < usual
    options = {"n_steps": 4, "n_warmup": 8, "random_state": 0}
    found, own = TopicModel(None, **options).fit(X), TopicModel(None, start="variational", **options).fit(X)
    np.testing.assert_array_equal(found.components_, own.components_)


def test_more_topics_are_not_tried_where_documents_are_few_or_short_or_words_are_many(monkeypatch):
    X = near_copies()
    assert not isinstance(sampled(X)[2], str)
    assert isinstance(sampled(np.hstack([X, np.zeros((len(X), 3000), dtype=int)]))[2], str)
    assert isinstance(sampled(X[:60])[2], str)
    assert isinstance(sampled(near_copies(length=9))[2], str)
    monkeypatch.setattr("expfam.fitting.unknown_topic_starts._MOST_ENTRIES", 1000)
    assert isinstance(sampled(X)[2], str)


def test_the_seed_decides_the_topics_that_a_sampler_begins_with():
    X = near_copies(100)
    first, again = (sampled(X)[2] for _ in range(2))
    np.testing.assert_array_equal(first, again)
    model, data, _ = sampled(X)
    assert (sampled_start(TopicProcessGibbs(), model, data, "variational", seed=1) != first).any()


def test_known_topics_keep_their_numbers_in_the_start():
    X = near_copies(100)
    word = int(X.sum(axis=0).argmax())
    seeds = np.zeros((X.shape[1], 1))
    seeds[word] = 500.0
    topics = sampled(X, seeds=seeds)[2]
    words = np.repeat(np.arange(X.shape[1]), X.sum(axis=0))
    assert np.bincount(topics[words == word]).argmax() == 0
