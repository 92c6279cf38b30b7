"""Seed words of a `TopicModel`: what a user gives, where they go, and how they act."""

import numpy as np
import pandas as pd
import pytest

from expfam import TopicModel, merge
from expfam.errors import ExpFamError

V, K = 40, 4
WORDS = np.array([f"word{v}" for v in range(V)])
RNG = np.random.default_rng(0)
TOPICS = np.repeat(np.eye(K), V // K, axis=1) * 0.08 + 0.005
TOPICS /= TOPICS.sum(axis=1, keepdims=True)


def documents(n=120, seed=0):
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.full(K, 0.2), n)
    return np.stack([rng.multinomial(30, w @ TOPICS) for w in weights])


def planted_seeds(order):
    """Five words of the planted topic order[k] as seeds of topic k."""
    return {k: [f"word{v}" for v in range(10 * planted, 10 * planted + 5)] for k, planted in enumerate(order)}


@pytest.mark.parametrize("sampler", ["gibbs", "variational"])
@pytest.mark.parametrize("seed", range(3))
def test_each_topic_is_found_at_the_number_of_its_seeds(sampler, seed):
    order = np.random.default_rng(seed).permutation(K)
    model = TopicModel(
        K, seeds=planted_seeds(order), vocabulary=WORDS, sampler=sampler, n_steps=20, random_state=seed
    ).fit(documents(seed=seed))
    weight = model.components_.reshape(K, K, V // K).sum(axis=2)  # of each planted topic's words
    np.testing.assert_array_equal(weight.argmax(axis=1), order)


def test_seed_words_lead_their_topics_and_do_not_count_in_the_top_words():
    X = documents()
    X[:, 3] = 0  # a seed that no document holds
    model = TopicModel(K, seeds={0: ["word3", "word1"]}, seed_tokens=50, vocabulary=WORDS, n_steps=20, random_state=0)
    model.fit(X)
    assert model.seeds_.toarray()[[1, 3], 0].tolist() == [50, 50]
    assert model.components_[0, 3] > 50
    assert "word3" not in model.top_words(10)[0]
    assert "word1" in model.top_words(10)[0]


def test_names_come_from_a_frame_and_numbers_from_columns():
    X = documents()
    by_name = TopicModel(K, seeds={1: ["word5"]}, n_steps=5, random_state=0).fit(pd.DataFrame(X, columns=WORDS))
    by_column = TopicModel(K, seeds={1: [5]}, n_steps=5, random_state=0).fit(X)
    np.testing.assert_array_equal(by_name.components_, by_column.components_)
    tokens = round(0.01 * X.sum() / K)
    assert by_name.seeds_.toarray()[5, 1] == tokens


def test_files_keep_the_seeds(tmp_path):
    X = documents()
    model = TopicModel(K, seeds={1: ["word5", 6]}, vocabulary=WORDS, sampler="variational", random_state=0).fit(X)
    model.save(tmp_path / "m")
    loaded = TopicModel.load(tmp_path / "m")
    assert loaded.seeds == {1: ["word5", 6]}
    assert (loaded.seeds_ != model.seeds_).nnz == 0
    np.testing.assert_array_equal(loaded.top_words(), model.top_words())
    np.testing.assert_allclose(loaded.partial_fit(X).components_, model.partial_fit(X).components_, rtol=1e-12)


def test_merged_models_have_the_seeds_once():
    settings = {"seeds": planted_seeds(range(K)), "seed_tokens": 3, "vocabulary": WORDS, "sampler": "variational"}
    parts = [TopicModel(K, random_state=0, alpha=0.2, **settings).fit(documents(seed=s)) for s in range(2)]
    merged = merge(parts)
    seeds = parts[0].seeds_.toarray().T
    expected = parts[0].components_ + parts[1].components_ - seeds - 0.01
    np.testing.assert_allclose(merged.components_, expected, rtol=1e-9)
    assert (merged.seeds_ != parts[0].seeds_).nnz == 0
    other = TopicModel(K, random_state=0, alpha=0.2, sampler="variational").fit(documents(seed=1))
    with pytest.raises(ExpFamError, match="other seeds"):
        merge([parts[0], other])


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (
            {"seeds": {0: ["wrod1"]}, "vocabulary": WORDS},
            "'wrod1' of topic 0 is not in the vocabulary; near to it: 'word1'",
        ),
        (
            {"seeds": {0: ["word1"]}},
            r"write TopicModel\(n_components=.*, seeds=\{0: \['word1'\]\}.*, vocabulary=\['word1'",
        ),
        ({"seeds": {4: [1]}}, "topics are the numbers 0 to 3"),
        ({"seeds": {"sport": [1]}}, "topics are the numbers 0 to 3"),
        ({"seeds": {0: [40]}}, "columns 0 to 39"),
        ({"seeds": {0: [1.5]}}, "columns 0 to 39"),
        ({"seeds": {0: "word1"}}, "must be a list of words"),
        ({"seeds": [["word1"]]}, "must be a dict"),
        ({"seeds": {0: [1]}, "seed_tokens": 0}, "seed_tokens"),
        ({"vocabulary": WORDS[:5], "seeds": {0: ["word1"]}}, "vocabulary must name the 40 columns"),
        ({"seeds": {0: [1]}, "learn_hyper": True}, "cannot be learned beside seeds"),
    ],
)
def test_what_is_refused(settings, words):
    with pytest.raises((ValueError, ExpFamError), match=words):
        TopicModel(K, **settings).fit(documents(20))


def test_a_topic_without_words_and_no_seeds_change_nothing():
    X = documents(40)
    plain = TopicModel(K, n_steps=5, random_state=0).fit(X)
    empty = TopicModel(K, seeds={0: []}, n_steps=5, random_state=0).fit(X)
    np.testing.assert_array_equal(plain.components_, empty.components_)
