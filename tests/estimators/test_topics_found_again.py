"""Topics that halves of the documents find again, and topics merged to fewer."""

import pickle
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics import adjusted_rand_score

from expfam import Mixture, TopicModel
from expfam.coarsening.topic_halves import _rows_of, tree_of_words
from expfam.displays import CoarseningDisplay
from expfam.errors import DataError

K, V = 6, 200


def documents(n=500, seed=0):
    """Documents that mix six topics, and the topic of each token of them."""
    rng = np.random.default_rng(seed)
    words = rng.dirichlet(np.full(V, 0.05), K)
    weights = rng.dirichlet(np.full(K, 0.15), n)
    tokens = np.stack([rng.multinomial(rng.poisson(50) + 1, share) for share in weights])
    X = np.zeros((n, V), dtype=np.int64)
    for k in range(K):
        X += rng.multinomial(tokens[:, k], words[k])
    return sparse.csr_array(X), words, weights


@pytest.fixture(scope="module", params=["gibbs", "variational", None])
def found(request):
    X, words, weights = documents()
    n_components = None if request.param is None else 15
    sampler = "auto" if request.param is None else request.param
    return TopicModel(n_components, sampler=sampler, random_state=0).fit(X), X, words, weights


def true_topics(X, words, weights):
    rows = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    return (weights[rows] * words.T[X.indices]).argmax(axis=1)


def matched(components, words):
    """The largest correlation of each topic with a true one."""
    phi = components / components.sum(axis=1, keepdims=True)
    return np.corrcoef(phi, words)[: len(phi), len(phi) :].max(axis=1)


def test_topics_of_the_answer_are_the_true_ones(found):
    model, X, words, weights = found
    coarse, curve = model.coarsen(), model.coarsening_curve_
    assert coarse.n_components_ == curve.n_clusters
    assert K <= curve.n_clusters <= K + 3
    phi = coarse.components_ / coarse.components_.sum(axis=1, keepdims=True)
    rows = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    mine = (coarse.transform(X)[rows] * phi.T[X.indices]).argmax(axis=1)
    assert adjusted_rand_score(true_topics(X, words, weights), mine) > 0.85
    assert curve.agreement[curve.tree][curve.n_clusters - 1] > 0.8


def test_true_topics_are_found_again_and_remainders_are_not(found):
    model, _, words, _ = found
    again, sizes = model.coarsening_curve_.found_again, model.cluster_sizes_
    assert (again > 0.5).sum() >= K - 1  # variational inference may cut a true topic in two
    assert (matched(model.components_, words)[again > 0.7] > 0.9).all()
    lost = np.flatnonzero(again <= 0.5)
    if model.n_components is None:
        assert lost.size == 0
        assert "each topic is found again by halves of the documents" in model.summary()
    else:
        assert lost.size > 0
        assert sizes[lost].sum() < sizes[again > 0.5].sum()
        assert f"not found again by halves of the documents: {lost.size} topic" in model.summary()
    assert "halves of the documents agree" in model.summary()


@pytest.mark.parametrize("settings", [{"n_clusters": 4}, {"n_clusters": 4, "tree": "known"}, {"tree": "words"}])
def test_unions_are_sums(found, settings):
    model, X, _, _ = found
    coarse = model.coarsen(**settings)
    J = len(coarse.components_)
    assert settings.get("n_clusters", model.coarsening_curve_.best_of("words")) == J
    assert coarse.n_components == (None if model.n_components is None else J)
    assert coarse.alpha_.sum() == pytest.approx(model.alpha_.sum())
    np.testing.assert_allclose(coarse._word_counts().sum(axis=1), model._word_counts().sum(axis=1), atol=1e-8)
    assert coarse.labels_.max() < J
    assert np.isnan(coarse.log_joint_) == (len(model.components_) > J)
    np.testing.assert_allclose(coarse.transform(X[:5]).sum(axis=1), 1.0)
    assert coarse.score(X) < 0
    if model.n_components is None:
        assert coarse.beta_.sum() + coarse.rest_ == pytest.approx(1.0)
        assert coarse.sizes_.sum() == pytest.approx(model.sizes_.sum())


def test_given_documents_take_the_place_of_those_of_the_fit(found, tmp_path):
    model, X, _, _ = found
    model.save(tmp_path / "fit")
    loaded = TopicModel.load(tmp_path / "fit")
    with pytest.raises(DataError, match=r"TopicModel holds none.*write coarsen\(X=X\)"):
        loaded.coarsen()
    coarse = loaded.coarsen(X=X[:300])
    np.testing.assert_array_equal(coarse.labels_, coarse.predict(X[:300]))
    assert coarse.probabilities_.shape == (300,)
    np.testing.assert_array_equal(loaded.coarsen(n_clusters=4).components_, model.coarsen(n_clusters=4).components_)
    coarse.save(tmp_path / "coarse", labels=True)
    again = TopicModel.load(tmp_path / "coarse")
    np.testing.assert_array_equal(again.transform(X[:9]), coarse.transform(X[:9]))
    np.testing.assert_array_equal(again.labels_, coarse.labels_)
    with pytest.raises(DataError, match="halves of 3 documents tell nothing"):
        loaded.coarsen(X=X[:3])


def test_the_answer_does_not_depend_on_threads(found):
    model, X, _, _ = found
    other = pickle.loads(pickle.dumps(model)).set_params(n_threads=2)
    few = X[:200]
    np.testing.assert_array_equal(other.coarsen(X=few).components_, model.coarsen(X=few).components_)


def test_the_figure_counts_topics(found):
    curve = found[0].coarsening_curve_
    title = CoarseningDisplay.from_estimator(found[0]).plot().ax_.get_title(loc="left")
    assert title == f"halves of the data agree on {curve.n_clusters} of {len(curve.sizes)} topics"


def test_weights_of_documents_count():
    X, _, _ = documents(200)
    weight = np.where(np.arange(200) < 150, 1.0, 0.0)
    model = TopicModel(8, sampler="variational", random_state=0).fit(X, sample_weight=weight)
    other = TopicModel(8, sampler="variational", random_state=0).fit(X[:150])
    assert model.coarsening_curve_.n_clusters == other.coarsening_curve_.n_clusters


def test_seeds_of_united_topics_are_united():
    X, words, _ = documents(200)
    first = [int(place) for place in words[0].argsort()[-2:]]
    model = TopicModel(8, seeds={0: first, 3: [int(words[1].argmax())]}, random_state=0).fit(X)
    coarse = model.coarsen(n_clusters=1)
    assert set(coarse.seeds) == {0}
    assert coarse.seeds_.sum() == pytest.approx(model.seeds_.sum())
    assert sorted(coarse.seeds[0]) == sorted({*first, int(words[1].argmax())})
    np.testing.assert_allclose(coarse._word_counts().sum(axis=1), model._word_counts().sum(axis=1), atol=1e-8)


def test_another_fit_has_another_answer():
    X, _, _ = documents(200)
    model = TopicModel(8, n_steps=20, random_state=0).fit(X)
    first = model.coarsening_curve_
    assert model.coarsening_curve_ is first
    assert model.fit(X[:100]).coarsening_curve_ is not first
    assert TopicModel(1, n_steps=5, random_state=0).fit(X).coarsen().n_components == 1


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_clusters": 9}, "n_clusters must be an integer from 1 to 8, the number of topics of the fit; got 9"),
        ({"n_clusters": 2.5}, "n_clusters must be an integer from 1 to 8"),
        ({"tree": "cost"}, "coarsen: tree must be"),
    ],
)
def test_wrong_wishes_are_answered(settings, message):
    X, _, _ = documents(60)
    with pytest.raises(ValueError, match=message):
        TopicModel(8, n_steps=2, random_state=0).fit(X).coarsen(**settings)


def test_topics_without_tokens_are_merged_first():
    tree = tree_of_words([[9.0, 1.0, 0.0], [0.0, 1.0, 9.0], [0.0, 0.0, 0.0]])
    assert 2 in tree[0, :2]
    assert tree[-1, 3] == 3


@pytest.mark.parametrize("estimator", [TopicModel(3, n_steps=5), Mixture("poisson", n_steps=5)])
def test_a_list_of_names_fits_no_halves(estimator):
    assert "coarsening_curve_" not in dir(estimator)
    X, _, _ = documents(60)
    fitted = estimator.fit(X.toarray()[:, :20] + 1)
    assert "coarsening_curve_" in dir(fitted)
    assert "halves" not in fitted.summary()


def test_stored_zeros_hold_no_tokens_and_make_no_dense_array():
    n, width = 20, 1 << 40  # 160 TB as a dense array
    columns, starts = np.tile([1, width - 1], n), np.arange(0, 2 * n + 1, 2)
    X = sparse.csr_array((np.tile([3.0, 0.0], n), columns, starts), shape=(n, width))
    found = _rows_of(SimpleNamespace(X=X))
    np.testing.assert_array_equal(found.data, np.full(n, 3.0))
    np.testing.assert_array_equal(found.indices, np.ones(n))
    assert X.nnz == 2 * n  # the caller's array stays
