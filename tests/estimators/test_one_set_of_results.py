"""All four estimators have one set of results: same names, same meanings, same shapes and types."""

import inspect
import pickle

import numpy as np
import pytest
from scipy import sparse

from expfam import BayesianHierarchy, GroupedMixture, Mixture, TopicModel
from expfam.fitted.clusters import FittedClusters

pd = pytest.importorskip("pandas")
GROUPS = np.arange(60) % 4
WORDS = ["goal", "match", "vote", "law"]
KINDS = {"Mixture": Mixture, "GroupedMixture": GroupedMixture, "TopicModel": TopicModel, "Hierarchy": BayesianHierarchy}
RESULTS = {  # of all four: name to type
    "labels_": np.ndarray,
    "probabilities_": np.ndarray,
    "n_components_": int,
    "n_clusters_": int,
    "cluster_sizes_": np.ndarray,
    "weights_": np.ndarray,
    "params_": dict,
    "clusters_": pd.DataFrame,
    "log_joint_": float,
    "converged_": bool,
    "n_iter_": int,
    "interrupted_": bool,
    "n_features_in_": int,
    "feature_names_in_": np.ndarray,
}
METHODS = (
    "predict predict_proba predict_log_proba score_samples score explain column_evidence summary save load set_output"
    " fit_predict"
)
LACKING = {  # results that have no meaning: the sentence says why, or what to do
    "TopicModel": ["posterior_", "impute", "sample", "roles_", "classes_"],
    "GroupedMixture": ["posterior_", "roles_", "classes_"],
    "Hierarchy": ["posterior_", "trace_", "coarsen", "roles_", "classes_"],
    "Mixture": ["posterior_", "roles_", "classes_"],
}


def counts():
    rng = np.random.default_rng(0)
    return rng.poisson(np.repeat([[6.0, 5.0, 0.1, 0.2], [0.2, 0.1, 5.0, 7.0]], 30, axis=0)) + np.array([[1, 0, 0, 1]])


def data_of(name):
    """Rows, or documents, as a frame, and the arguments of calls about rows."""
    X = pd.DataFrame(counts(), columns=WORDS)
    return X, {"groups": GROUPS} if name == "GroupedMixture" else {}


def fit(name, X=None):
    given, about = data_of(name)
    X = given if X is None else X
    options = {} if name == "TopicModel" else {"family": "poisson"}
    options |= {} if name == "Hierarchy" else {"n_steps": 8, "n_warmup": 8}
    return KINDS[name](n_components=2, random_state=0, **options).fit(X, **about)


@pytest.fixture(scope="module", params=list(KINDS))
def found(request):
    return request.param, fit(request.param)


def test_every_result_is_there_with_its_type_and_shape(found):
    name, model = found
    K, V, N = 2, 4, 60
    for result, kind in RESULTS.items():
        value = getattr(model, result)
        assert isinstance(value, kind), (name, result, type(value))
        assert result in dir(model)
    assert model.n_components_ == model.n_clusters_ == K
    assert (model.labels_.shape, model.labels_.dtype) == ((N,), np.int32)
    assert (model.probabilities_.shape, model.probabilities_.dtype) == ((N,), np.float32)
    assert (model.weights_.shape, model.weights_.dtype) == ((K,), np.float64)
    assert model.cluster_sizes_.shape == (K,)
    assert model.feature_names_in_.tolist() == WORDS
    assert all(np.shape(value)[0] == K for value in model.params_.values())
    assert next(iter(model.params_.values())).shape == (K, V)
    assert all(callable(getattr(model, method)) for method in METHODS.split())


def test_sizes_and_weights_are_those_of_the_clusters(found):
    name, model = found
    total = counts().sum() if name == "TopicModel" else 60
    assert model.cluster_sizes_.sum() == pytest.approx(total)
    np.testing.assert_allclose(model.weights_ / model.weights_.sum(), model.cluster_sizes_ / total, atol=0.03)
    if name != "TopicModel":
        assert model.cluster_sizes_.dtype == np.int64
        np.testing.assert_array_equal(model.cluster_sizes_, np.bincount(model.labels_, minlength=2))


def test_labels_are_the_most_probable_clusters_of_the_rows(found):
    name, model = found
    X, about = data_of(name)
    p = model.predict_proba(X, **about)
    assert (p.shape, p.dtype) == ((60, 2), np.float64)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    labels = model.predict(X, **about)
    assert labels.dtype == np.int32
    np.testing.assert_array_equal(labels, p.argmax(axis=1))
    np.testing.assert_array_equal(labels, model.labels_)
    np.testing.assert_allclose(model.probabilities_, p.max(axis=1), atol=2e-3)
    top = model.predict_proba(X, n_top=1, **about)
    assert sparse.issparse(top)
    np.testing.assert_allclose(top.toarray().max(axis=1), p.max(axis=1))
    np.testing.assert_array_equal(top.indices, labels)
    with pytest.raises(ValueError, match="n_top must be a positive integer; got 0"):
        model.predict_proba(X, n_top=0, **about)


def test_scores_are_of_rows(found):
    name, model = found
    X, about = data_of(name)
    scores = model.score_samples(X, **about)
    assert (scores.shape, scores.dtype) == ((60,), np.float64)
    assert isinstance(model.score(X, **about), float)


def test_clusters_are_a_frame_of_numbers_with_the_names_of_the_data(found):
    name, model = found
    clusters = model.clusters_
    assert list(clusters)[:3] == ["cluster", "size", "weight"]
    np.testing.assert_array_equal(clusters["size"], model.cluster_sizes_)
    np.testing.assert_array_equal(clusters["weight"], model.weights_)
    if name == "TopicModel":
        told = {frozenset(words.split(", ")[:2]) for words in clusters["words"]}
        assert told == {frozenset(WORDS[:2]), frozenset(WORDS[2:])}
        return
    assert list(clusters)[3:] == [f"{word}{end}" for word in WORDS for end in ("", "_sd")]
    assert all(kind.kind in "if" for kind in clusters.dtypes)
    np.testing.assert_allclose(clusters[WORDS], model.params_["rate"])


def test_the_summary_counts_clusters_and_what_they_hold(found):
    name, model = found
    first, second = model.summary().splitlines()[:2]
    topics = name == "TopicModel"
    assert first.startswith("2 topics" if topics else "2 clusters")
    assert second.startswith(f"{counts().sum()} tokens: " if topics else "60 rows: ")


def test_what_has_no_meaning_is_refused_with_one_sentence(found):
    name, model = found
    for result in LACKING[name]:
        assert not hasattr(model, result), result
        with pytest.raises(AttributeError, match=f"{type(model).__name__}.* ") as error:
            getattr(model, result)
        assert len(str(error.value)) > len(f"{type(model).__name__} has no {result}: ") + 20


def test_results_are_kept_in_copies_and_files(found, tmp_path):
    name, model = found
    model.save(tmp_path / "model", labels=True)
    again = [pickle.loads(pickle.dumps(model)), KINDS[name].load(tmp_path / "model")]
    for each in again:
        for result in RESULTS.keys() - {"params_", "clusters_"}:
            np.testing.assert_array_equal(getattr(each, result), getattr(model, result), err_msg=result)
        pd.testing.assert_frame_equal(pd.DataFrame(each.clusters_), model.clusters_)
        assert each.summary() == model.summary()
    if name != "Hierarchy":
        model.save(tmp_path / "without")
        with pytest.raises(AttributeError, match=r"write model.save\(path, labels=True\)"):
            KINDS[name].load(tmp_path / "without").labels_  # noqa: B018


def test_one_class_answers_for_all_four(found):
    """No estimator computes what clusters say of rows by itself."""
    _, model = found
    clusters = model._clusters()
    assert type(clusters) is FittedClusters
    assert len(clusters.n) == len(model.weights_)
    np.testing.assert_array_equal(clusters.sizes, model.cluster_sizes_)
    np.testing.assert_array_equal(clusters.weights, model.weights_)


@pytest.mark.parametrize("name", list(KINDS))
def test_methods_that_all_four_have_take_the_same_arguments(name):
    for method in ("summary", "explain", "save", "load", "set_output", "fit_predict"):
        expected = list(inspect.signature(getattr(Mixture, method)).parameters)
        if (name, method) != ("TopicModel", "set_output"):  # scikit-learn's own, of transformers
            assert list(inspect.signature(getattr(KINDS[name], method)).parameters) == expected, method
    assert list(inspect.signature(KINDS[name].predict_proba).parameters)[:3] == ["self", "X", "n_top"]


@pytest.mark.parametrize("name", list(KINDS))
def test_arrays_have_the_same_results(name):
    model = fit(name, counts())
    assert not hasattr(model, "feature_names_in_")
    assert list(model.clusters_)[:3] == ["cluster", "size", "weight"]
    assert model.n_clusters_ == 2
