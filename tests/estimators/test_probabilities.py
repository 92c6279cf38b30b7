"""`probabilities_`: the probability of the cluster of each row, and when there is none."""

import copy

import numpy as np
import pytest
from scipy import sparse

from expfam import BayesianHierarchy, GroupedMixture, Mixture, TopicModel
from expfam.errors import ArchiveError

RNG = np.random.default_rng(0)
X = np.r_[RNG.normal(size=(60, 2)), RNG.normal(2.0, 1.0, size=(60, 2))]
ROWS = np.arange(len(X))


@pytest.mark.parametrize(
    "settings",
    [
        {"family": "gaussian", "n_components": 2},
        {"family": "gaussian_diag"},
        {"n_components": 3, "sampler": "em"},
        {"n_components": 3, "sampler": "variational"},
        {"n_components": 3, "sampler": "gibbs", "n_threads": 2},
        {"n_components": 2, "partition": "last"},
        {"n_components": 2, "partition": "vi", "n_steps": 30},
        {"n_components": 2, "n_chains": 2, "n_steps": 30},
    ],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_they_are_those_of_predict_proba_at_the_labels(settings):
    mixture = Mixture(**settings, random_state=0).fit(X)
    found = mixture.probabilities_
    assert found.dtype == np.float32
    assert found.shape == (len(X),)
    np.testing.assert_allclose(found, mixture.predict_proba(X)[ROWS, mixture.labels_], atol=1e-6)


def test_of_sparse_rows_numpy_families_and_frames_with_holes():
    counts = sparse.csr_array(RNG.poisson([[1, 4, 0], [5, 1, 1]] * 40))
    mixture = Mixture("multinomial", 2, random_state=0).fit(counts)
    p = mixture.predict_proba(counts)[np.arange(80), mixture.labels_]
    np.testing.assert_allclose(mixture.probabilities_, p, atol=1e-6)
    waits = RNG.exponential([[1.0], [9.0]] * 40)
    mixture = Mixture("exponential", 2, random_state=0).fit(waits)
    p = mixture.predict_proba(waits)[np.arange(80), mixture.labels_]
    np.testing.assert_allclose(mixture.probabilities_, p, atol=1e-6)
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame({"u": X[:, 0], "kind": np.where(X[:, 1] > 1, "a", "b")})
    table.loc[3, "u"] = np.nan
    mixture = Mixture(n_components=2, random_state=0).fit(table)
    p = mixture.predict_proba(table)
    p = np.asarray(p)[ROWS, mixture.labels_]
    np.testing.assert_allclose(mixture.probabilities_, p, atol=1e-6)


def test_threads_do_not_change_them():
    one, two = (Mixture("gaussian", 3, n_threads=n, random_state=0).fit(X).probabilities_ for n in (1, 2))
    np.testing.assert_array_equal(one, two)


def test_weighted_and_known_rows():
    weight = RNG.integers(0, 3, len(X)).astype(float)
    mixture = Mixture("gaussian", 2, sampler="em", random_state=0).fit(X, sample_weight=weight)
    p = mixture.predict_proba(X)[ROWS, mixture.labels_]
    np.testing.assert_allclose(mixture.probabilities_, p, atol=1e-6)
    y = np.where(ROWS % 10 == 0, ROWS // 60, -1)
    mixture = Mixture("gaussian", 2, labels="clusters", random_state=0).fit(X, y)
    np.testing.assert_allclose(mixture.probabilities_, mixture.predict_proba(X)[ROWS, mixture.labels_], atol=1e-6)


@pytest.mark.parametrize("sampler", ["gibbs", "variational"])
def test_of_rows_in_groups_they_know_the_group(sampler):
    groups = ROWS // 30
    mixture = GroupedMixture("gaussian", 2, sampler=sampler, random_state=0).fit(X, groups=groups)
    scores = mixture.family_.log_predictive(X, mixture.n_, mixture.S_) + np.log(mixture.group_weights_)[groups]
    p = np.exp(scores - scores.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(mixture.probabilities_, p[ROWS, mixture.labels_], atol=1e-6)
    assert mixture.probabilities_.min() < 0.999


def test_of_a_tree_they_are_of_its_cut():
    tree = BayesianHierarchy("gaussian", n_components=2).fit(X)
    assert tree.probabilities_.shape == (len(X),)
    sure = tree.probabilities_ > 0.99
    np.testing.assert_array_equal(tree.predict(X)[sure], tree.labels_[sure])
    assert not sure.all()


# ---- files and chunks ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def mixture():
    return Mixture("gaussian", 2, random_state=0).fit(X)


def test_a_file_holds_them_with_the_labels(mixture, tmp_path):
    mixture.save(tmp_path / "all", labels=True)
    np.testing.assert_array_equal(Mixture.load(tmp_path / "all").probabilities_, mixture.probabilities_)
    mixture.save(tmp_path / "small")
    with pytest.raises(AttributeError, match=r"does not hold probabilities_: write model.save\(path, labels=True\)"):
        Mixture.load(tmp_path / "small").probabilities_  # noqa: B018
    grouped = GroupedMixture("gaussian", 2, random_state=0).fit(X, groups=ROWS // 30)
    grouped.save(tmp_path / "grouped", labels=True)
    np.testing.assert_array_equal(GroupedMixture.load(tmp_path / "grouped").probabilities_, grouped.probabilities_)
    tree = BayesianHierarchy("gaussian", n_components=2).fit(X)
    tree.save(tmp_path / "tree")
    np.testing.assert_array_equal(BayesianHierarchy.load(tmp_path / "tree").probabilities_, tree.probabilities_)


def test_an_altered_file_is_refused(mixture, tmp_path):
    for wrong in (mixture.probabilities_[:5], mixture.probabilities_ + 1.0):
        other = copy.copy(mixture)
        other.probabilities_ = wrong
        other.save(tmp_path / "wrong", labels=True)
        with pytest.raises(ArchiveError, match="'probabilities_'"):
            Mixture.load(tmp_path / "wrong")


def test_chunks_have_none_and_say_so():
    settings = {"sampler": "variational", "random_state": 0}
    mixture = Mixture("gaussian_diag", 2, **settings).fit(X)
    mixture.partial_fit(X[:50])
    with pytest.raises(AttributeError, match="has learned chunks, whose rows are not kept"):
        mixture.probabilities_  # noqa: B018
    assert not hasattr(Mixture("gaussian_diag", 2, **settings).fit_chunks([X[::2], X[1::2]]), "probabilities_")
    grouped = GroupedMixture("gaussian_diag", 2, **settings).partial_fit(X, groups=ROWS // 30)
    assert not hasattr(grouped, "probabilities_")
    assert not hasattr(mixture.coarsen(n_clusters=1), "probabilities_")


# ---- logs of probabilities -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "model",
    [
        Mixture("gaussian", 3, random_state=0),
        Mixture("gaussian_diag", 2, sampler="em", random_state=0),
        Mixture("exponential", 2, n_steps=5, random_state=0),
        Mixture("gaussian", 2, n_chains=2, n_steps=30, random_state=0),
        GroupedMixture("gaussian", 2, n_steps=5, random_state=0),
        BayesianHierarchy("gaussian", 2),
        TopicModel(3, n_steps=5, random_state=0),
    ],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_logs_are_those_of_predict_proba(model):
    is_positive = isinstance(model, TopicModel) or getattr(model, "family", "") == "exponential"
    rows = np.rint(np.exp(X)) + 1.0 if is_positive else X
    about = {"groups": ROWS // 12} if isinstance(model, GroupedMixture) else {}
    model.fit(rows, **about)
    found = model.predict_log_proba(rows, **about)
    assert found.dtype == np.float64
    np.testing.assert_allclose(np.exp(found), model.predict_proba(rows, **about), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ["Mixture", "GroupedMixture", "BayesianHierarchy"])
def test_logs_tell_where_a_probability_is_no_float(name):
    counts = np.array([[900, 0], [910, 1], [905, 0], [0, 890], [1, 905], [0, 900]])
    kinds = {"Mixture": Mixture, "GroupedMixture": GroupedMixture, "BayesianHierarchy": BayesianHierarchy}
    about = {"groups": [0, 0, 0, 1, 1, 1]} if name == "GroupedMixture" else {}
    settings = {} if name == "BayesianHierarchy" else {"random_state": 0}
    model = kinds[name]("poisson", n_components=2, **settings).fit(counts, **about)
    assert model.predict_proba(counts, **about).min() == 0.0
    logs = model.predict_log_proba(counts, **about)
    assert np.isfinite(logs).all()
    assert logs.min() < -745.0  # below it no float is positive
    scores = model._clusters().each_block(counts, lambda block, start, stop: block[:, :2].copy())[0][0]
    if name != "GroupedMixture":  # whose rows have the weights of their groups
        np.testing.assert_allclose(logs[:, 0] - logs[:, 1], scores[:, 0] - scores[:, 1])


def test_logs_are_frames_where_frames_are_asked_for():
    pytest.importorskip("pandas")
    mixture = Mixture("gaussian", 2, random_state=0).set_output(transform="pandas").fit(X)
    assert mixture.predict_log_proba(X).columns.tolist() == ["mixture0", "mixture1"]
