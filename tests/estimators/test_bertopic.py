"""A mixture is the `hdbscan_model` of BERTopic: topics are its clusters, for new documents too."""

import numpy as np
import pytest

from expfam import Mixture, VonMisesFisher

WORDS = ["team match goal player season", "bank share market price profit", "film actor music song star"]
RNG = np.random.default_rng(0)
SUBJECT = RNG.integers(3, size=150)
TEXTS = [" ".join(RNG.choice(WORDS[s].split(), 6)) for s in SUBJECT]
CENTRES = RNG.normal(size=(3, 64))
VECTORS = CENTRES[SUBJECT] + 0.5 * RNG.normal(size=(150, 64))


def one_to_one(a, b):
    return len(set(zip(a, b))) == len(set(a)) == len(set(b))


def test_topics_are_the_clusters_of_a_mixture():
    bertopic = pytest.importorskip("bertopic")
    pytest.importorskip("hdbscan")  # BERTopic asks in `transform` whether the model is one of HDBSCAN
    mixture = Mixture(VonMisesFisher(normalize=True), random_state=0)
    reduction = bertopic.dimensionality.BaseDimensionalityReduction()
    model = bertopic.BERTopic(embedding_model=None, umap_model=reduction, hdbscan_model=mixture)
    topics, _ = model.fit_transform(TEXTS, VECTORS)
    assert one_to_one(topics, SUBJECT)
    assert one_to_one(topics, mixture.labels_)
    for topic in set(topics):
        of_topic = {word for word, _ in model.get_topic(topic) if word}
        assert any(of_topic == set(words.split()) for words in WORDS)
    new = CENTRES + 0.5 * np.random.default_rng(1).normal(size=(3, 64))
    found, _ = model.transform(["", "", ""], new)
    topic_of = dict(zip(SUBJECT.tolist(), topics))
    assert [int(topic) for topic in found] == [topic_of[s] for s in range(3)]
