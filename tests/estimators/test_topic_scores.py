"""`TopicModel.score_samples`: a bound of the log probability of each document."""

import numpy as np
import pytest
from scipy import sparse, stats
from scipy.special import gammaln, logsumexp

from expfam import Mixture, TopicModel
from expfam.errors import DataError
from expfam.estimators.topic_scores import bounds_of_documents

X = np.array([[4, 4, 0, 0], [0, 0, 4, 4], [3, 1, 1, 3]] * 20)
MODEL = TopicModel(2, random_state=0).fit(X)


def test_one_topic_is_exact():
    model = TopicModel(1, random_state=0).fit(X)
    wanted = stats.multinomial.logpmf(X[:3], 8, model.params_["probability"][0])
    np.testing.assert_allclose(model.score_samples(X[:3]), wanted, rtol=1e-12)


@pytest.mark.parametrize("document", [[4, 4, 0, 0], [4, 0, 4, 0], [1, 0, 0, 0]])
def test_they_are_a_bound_near_the_integral_over_the_weights(document):
    document = np.array(document)
    phi = MODEL.params_["probability"]
    # weights of two topics are one number: an integral over the quantiles of a beta law
    first = stats.beta.ppf((np.arange(200_000) + 0.5) / 200_000, *MODEL.alpha_)
    logs = np.log(first[:, None] * phi[0] + (1 - first[:, None]) * phi[1]) @ document
    base = gammaln(document.sum() + 1) - gammaln(document + 1.0).sum()
    exact = logsumexp(logs) - np.log(logs.size) + base
    found = MODEL.score_samples(document[None])[0]
    assert exact - 0.1 < found < exact + 1e-4  # the grid of quantiles is not exact


def test_any_pseudo_counts_give_a_bound_and_better_ones_a_higher_one():
    rows, phi = sparse.csr_array(X[:1]), MODEL.params_["probability"]
    best = MODEL.score_samples(X[:1])[0] - (gammaln(9) - gammaln(X[0] + 1.0).sum())
    for gamma in ([[1.0, 1.0]], [[0.1, 7.0]], [[30.0, 3.0]]):
        assert bounds_of_documents(rows, phi, MODEL.alpha_, np.array(gamma))[0] < best


def test_forms_threads_and_empty_documents():
    wanted = MODEL.score_samples(X)
    assert wanted.shape == (60,)
    np.testing.assert_array_equal(MODEL.score_samples(sparse.csr_array(X)), wanted)
    two = TopicModel(2, random_state=0, n_threads=2).fit(X)
    np.testing.assert_array_equal(two.score_samples(X), wanted)
    np.testing.assert_allclose(MODEL.score_samples(np.zeros((1, 4))), [0.0], atol=1e-9)
    usual, strange = MODEL.score_samples([[4, 4, 0, 0], [4, 0, 4, 0]])
    assert usual > strange + 3.0
    with pytest.raises(DataError, match="Negative values"):
        MODEL.score_samples([[-1, 0, 0, 0]])


def test_they_compare_with_those_of_a_mixture():
    pure = X[np.arange(60) % 3 < 2]
    mixture = Mixture("multinomial", 2, random_state=0).fit(pure)
    topics = TopicModel(2, random_state=0).fit(pure)
    np.testing.assert_allclose(topics.score_samples(pure), mixture.score_samples(pure), atol=1.0)


def test_a_loaded_model_has_them(tmp_path):
    MODEL.save(tmp_path / "model")
    np.testing.assert_array_equal(TopicModel.load(tmp_path / "model").score_samples(X), MODEL.score_samples(X))
