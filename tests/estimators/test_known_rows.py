"""`y` and `links` of a `Mixture`: what they do to the labels, what is kept, and every message."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.model_selection import GridSearchCV

from expfam import Known, Mixture, SymmetricDirichlet, link_groups
from expfam.errors import CapabilityError, DataError, DataWarning
from expfam.fitting.known_rows import class_codes
from expfam.samplers import ClusterMoves, Cycle, SparseVariational

RNG = np.random.default_rng(0)
CENTRES = np.array([[0.0, 0.0], [6.0, 0.0], [0.0, 6.0]])
Z = RNG.permutation(np.repeat(np.arange(3), 40))
X = CENTRES[Z] + RNG.normal(size=(120, 2))


def some_known(share=0.2, seed=1):
    y = Z.copy()
    y[np.random.default_rng(seed).random(len(y)) > share] = -1
    return y


@pytest.mark.parametrize("sampler", ["auto", "gibbs", "fastex", "split_merge"])
@pytest.mark.parametrize("labels", ["clusters", "classes"])
@pytest.mark.parametrize("n_components", [None, 5])
def test_labels_agree_with_what_is_known(sampler, labels, n_components):
    y = some_known()
    links = np.full(120, -1)
    links[[0, 1]] = 3
    y[[0, 1]] = -1
    mixture = Mixture("gaussian_diag", n_components, labels=labels, sampler=sampler, random_state=0)
    mixture.fit(X, y, links=links)
    assert Known(y, labels, links=links).agrees(mixture.labels_)
    assert mixture.n_known_ == (y >= 0).sum()
    assert list(mixture.classes_) == [0, 1, 2]
    known = y >= 0
    np.testing.assert_array_equal(mixture.cluster_classes_[mixture.labels_[known]], y[known])
    if labels == "clusters":
        np.testing.assert_array_equal(mixture.labels_[known], y[known])
        assert mixture.cluster_classes_[:3].tolist() == [0, 1, 2]
    assert (mixture.predict_class(X) == Z).mean() > 0.95


@pytest.mark.parametrize("sampler", ["em", "uncollapsed_gibbs", "canopy", "stochastic_em"])
def test_classes_as_clusters_with_parameters(sampler):
    y = some_known()
    mixture = Mixture("gaussian_diag", 4, labels="clusters", sampler=sampler, random_state=0).fit(X, y)
    assert Known(y).agrees(mixture.labels_)
    np.testing.assert_array_equal(mixture.labels_[y >= 0], y[y >= 0])
    assert (mixture.predict_class(X) == Z).mean() > 0.95


def test_names_and_missing_values():
    names = np.array(["ape", "bear", "cat"], dtype=object)[Z]
    names[some_known() < 0] = None
    by_name = Mixture("gaussian_diag", labels="clusters", random_state=0).fit(X, names)
    by_number = Mixture("gaussian_diag", labels="clusters", random_state=0).fit(X, some_known())
    by_float = Mixture("gaussian_diag", labels="clusters", random_state=0).fit(
        X, np.where(some_known() < 0, np.nan, some_known())
    )
    by_category = Mixture("gaussian_diag", labels="clusters", random_state=0).fit(X, pd.Series(names, dtype="category"))
    for other in (by_number, by_float, by_category):
        np.testing.assert_array_equal(by_name.labels_, other.labels_)
    assert by_name.classes_.tolist() == ["ape", "bear", "cat"]
    assert set(by_name.predict_class(X)) == {"ape", "bear", "cat"}
    far = by_name.predict_class([[500.0, 500.0]], unknown="none of these")
    assert far.tolist() in (["none of these"], ["bear"], ["cat"])


def test_a_class_may_hold_several_clusters_and_rows_may_be_of_none():
    y = np.where(Z == 2, -1, 0)  # two groups of one class, a third of no class
    far = X + 3 * CENTRES[Z]
    mixture = Mixture("gaussian_diag", labels="classes", random_state=0).fit(far, y)
    assert mixture.n_components_ >= 3
    assert (mixture.cluster_classes_ == 0).sum() >= 2
    assert (mixture.predict_class(far)[Z == 2] == -1).mean() > 0.9


def test_all_known_rows_are_their_classes():
    mixture = Mixture("gaussian_diag", labels="clusters", random_state=0).fit(X, Z)
    np.testing.assert_array_equal(mixture.labels_, Z)
    assert mixture.log_joint_ == pytest.approx(mixture.model_.log_joint(X, Z))


@pytest.mark.parametrize("sampler", ["auto", "gibbs", "em", "variational"])
def test_links_join_rows_that_would_lie_apart(sampler):
    links = link_groups([(int(np.flatnonzero(Z == 0)[0]), int(np.flatnonzero(Z == 1)[0]))], 120)
    free = Mixture("gaussian_diag", random_state=0, sampler=sampler).fit(X)
    rows = np.flatnonzero(links == 0)
    assert free.labels_[rows[0]] != free.labels_[rows[1]]
    mixture = Mixture("gaussian_diag", random_state=0, sampler=sampler).fit(X, links=links)
    assert mixture.labels_[rows[0]] == mixture.labels_[rows[1]]
    assert mixture.n_known_ == 0


def test_y_is_ignored_with_one_warning_unless_labels_are_asked_for():
    plain = Mixture("gaussian_diag", 3, random_state=0).fit(X)
    with pytest.warns(DataWarning, match="y is ignored: labels='clusters'") as caught:
        ignored = Mixture("gaussian_diag", 3, random_state=0).fit(X, Z)
    assert len(caught) == 1
    np.testing.assert_array_equal(plain.labels_, ignored.labels_)
    assert not hasattr(ignored, "classes_")
    with pytest.raises(AttributeError, match="needs a fit with y"):
        plain.predict_class(X)


def test_a_search_over_settings_does_not_learn_from_y():
    def scores(y):
        search = GridSearchCV(Mixture("gaussian_diag", random_state=0), {"n_components": [2, 3]}, cv=3)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)
            return search.fit(X, y).cv_results_["mean_test_score"]

    folds = np.arange(120) % 2 + 0.5  # no classes: the folds of a search with classes are other ones
    np.testing.assert_array_equal(scores(folds), scores(None))


def test_nothing_known_changes_no_bit():
    plain = Mixture("gaussian_diag", random_state=0, sampler="gibbs", start="kmeans++", n_steps=5).fit(X)
    with pytest.warns(DataWarning, match="no row is known"):
        nothing = Mixture(
            "gaussian_diag", random_state=0, sampler="gibbs", start="kmeans++", n_steps=5, labels="classes"
        ).fit(X, np.full(120, -1))
    np.testing.assert_array_equal(plain.labels_, nothing.labels_)
    assert plain.log_joint_ == nothing.log_joint_


@pytest.mark.parametrize(
    ("settings", "y", "links", "error", "words"),
    [
        ({"labels": "clusters"}, None, None, ValueError, "labels='clusters' needs y"),
        ({"labels": "both"}, Z, None, ValueError, "labels must be"),
        ({"labels": "clusters"}, Z[:-1], None, DataError, "y has 119 values, X has 120 rows"),
        ({"labels": "clusters"}, np.where(Z == 1, 0.5, Z), None, DataError, r"0\.5 in row \d+: classes are whole"),
        ({"labels": "clusters"}, Z - 2, None, DataError, r"-2 in row \d+: classes are at least 0"),
        ({"labels": "clusters"}, Z[:, None], None, DataError, "one class for each row"),
        (
            {"labels": "clusters"},
            np.array([1, "a"] * 60, dtype=object),
            None,
            DataError,
            "y mixes values of the types int, str",
        ),
        ({"labels": "clusters", "n_components": 2}, Z, None, DataError, "y has 3 classes"),
        ({}, None, np.array([[0, 1], [2, 3]]), DataError, "use link_groups"),
        ({}, None, np.full(120, 0.5), DataError, "use link_groups"),
        ({}, None, np.zeros(7, dtype=int), DataError, "links has 7 values"),
        (
            {"labels": "clusters"},
            Z,
            np.zeros(120, dtype=int),
            DataError,
            r"rows \d+ and \d+ are linked, and are of the",
        ),
        ({"labels": "clusters", "sampler": "variational"}, Z, None, CapabilityError, "classes on ordered sticks"),
        (
            {"sampler": Cycle(SparseVariational(), ClusterMoves()), "n_components": 5},
            None,
            np.zeros(120, dtype=int),
            CapabilityError,
            "ClusterMoves cannot use links.*EM and variational inference can: write Mixture",
        ),
        ({"labels": "clusters", "start": np.zeros(120, dtype=int)}, Z, None, DataError, "starting labels disagree"),
        ({"weights": SymmetricDirichlet(2), "labels": "classes"}, Z, None, DataError, "allows 2 clusters"),
    ],
)
def test_what_is_refused(settings, y, links, error, words):
    with pytest.raises(error, match=words):
        Mixture("gaussian_diag", **settings).fit(X, y, links=links)


def test_pairs_that_name_no_rows():
    with pytest.raises(DataError, match=r"pair 1 is \(0, 9\)"):
        link_groups([(0, 1), (0, 9)], 5)
    with pytest.raises(DataError, match="two rows each"):
        link_groups([(0, 1, 2)], 5)
    assert link_groups([], 3).tolist() == [-1, -1, -1]


@pytest.mark.parametrize(
    ("settings", "links", "words"),
    [
        (
            {"labels": "classes"},
            np.zeros(120, dtype=int),
            r"rows \d+ and \d+ are linked, and are of the classes 'a' and 'b'",
        ),
        (
            {"labels": "clusters", "start": np.zeros(120, dtype=int)},
            None,
            "are of two classes, 'a' and 'b', and lie in",
        ),
        ({"labels": "clusters", "start": np.arange(120)}, None, "are of one class, 'a', and lie in two clusters"),
        (
            {"labels": "clusters", "n_components": 2},
            None,
            r"y has 3 classes \('a', 'b', 'c'\), and .* allows 2 clusters: write Mixture\(family='gaussian_diag',"
            r" n_components=3, labels='clusters'\)",
        ),
    ],
)
def test_contradictions_name_the_classes(settings, links, words):
    y = np.array(["a", "b", "c"])[np.argsort(np.argsort(Z, kind="stable"), kind="stable") // 40]
    order = np.argsort(Z, kind="stable")
    with pytest.raises(DataError, match=words):
        Mixture("gaussian_diag", **settings).fit(X[order], y[order], links=links)


def test_a_saved_mixture_keeps_its_classes(tmp_path):
    mixture = Mixture("gaussian_diag", labels="classes", random_state=0).fit(X, np.array(["a", "b", "c"])[Z])
    mixture.save(tmp_path / "m")
    loaded = Mixture.load(tmp_path / "m")
    assert loaded.labels == "classes"
    np.testing.assert_array_equal(loaded.predict_class(X), mixture.predict_class(X))


def test_a_partition_of_least_loss_keeps_what_is_known():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    y = np.where(np.arange(40) < 12, np.arange(40) % 3, -1)
    mixture = Mixture(n_components=3, labels="clusters", partition="vi", n_steps=20, n_warmup=5, random_state=0)
    labels = mixture.fit(X, y).labels_
    np.testing.assert_array_equal(labels[:12], y[:12])
    posterior = mixture.posterior_
    np.testing.assert_array_equal(posterior.point, labels)
    losses = [posterior.expected_loss(z) for z in posterior.draws()]
    assert posterior.expected_loss(labels) == min(losses)


NAMES = ["cat", "dog", "eel"]
UNKNOWN = {
    "pandas strings": lambda z: pd.Series([NAMES[k] if k >= 0 else pd.NA for k in z], dtype="string"),
    "pandas objects": lambda z: pd.Series([NAMES[k] if k >= 0 else pd.NA for k in z], dtype=object),
    "pandas text with None": lambda z: pd.Series([NAMES[k] if k >= 0 else None for k in z]),
    "pandas categories": lambda z: pd.Series([NAMES[k] if k >= 0 else None for k in z], dtype="category"),
    "pandas integers": lambda z: pd.Series([k if k >= 0 else pd.NA for k in z.tolist()], dtype="Int64"),
    "pandas floats": lambda z: pd.Series([float(k) if k >= 0 else pd.NA for k in z.tolist()], dtype="Float64"),
    "pandas dates": lambda z: pd.Series([pd.Timestamp(2020 + k, 1, 1) if k >= 0 else pd.NaT for k in z], dtype=object),
    "a list": lambda z: [NAMES[k] if k >= 0 else pd.NA for k in z],
    "Polars": lambda z: pl.Series([NAMES[k] if k >= 0 else None for k in z]),
    "Arrow": lambda z: pa.array([NAMES[k] if k >= 0 else None for k in z]),
    "Arrow in pandas": lambda z: pd.Series(
        pa.array([NAMES[k] if k >= 0 else None for k in z]), dtype=pd.ArrowDtype(pa.string())
    ),
}


@pytest.mark.parametrize("make", UNKNOWN.values(), ids=UNKNOWN)
def test_missing_classes_of_any_library_are_unknown(make):
    z = np.array([0, -1, 2, 1, -1, 0])
    codes, classes = class_codes(make(z))
    np.testing.assert_array_equal(codes, z)
    assert len(classes) == 3


def test_truth_values_with_a_missing_one_are_two_classes():
    codes, classes = class_codes(pd.Series([True, pd.NA, False], dtype="boolean"))
    assert codes.tolist() == [1, -1, 0]
    assert classes.tolist() == [False, True]


def test_a_fit_and_chunks_take_missing_classes_of_pandas():
    y = pd.Series([NAMES[k] if i % 3 else pd.NA for i, k in enumerate(Z)], dtype="string")
    fitted = Mixture("gaussian_diag", 3, labels="clusters", random_state=0).fit(X, y)
    learned = Mixture("gaussian_diag", 3, labels="clusters", sampler="variational", random_state=0).partial_fit(X, y)
    for mixture in (fitted, learned):
        assert mixture.classes_.tolist() == NAMES
    assert fitted.n_known_ == int(y.notna().sum())


def test_rows_of_no_class_stay_apart_from_names():
    X = np.r_[np.zeros((20, 1)), np.full((20, 1), 9.0), np.full((20, 1), 30.0)] + np.linspace(0, 1, 60)[:, None]
    y = np.array(["a"] * 20 + ["-1"] * 20 + [None] * 20, dtype=object)
    mixture = Mixture("gaussian_diag", labels="classes", random_state=0).fit(X, y)
    found = mixture.predict_class(X[[0, 25, 50]])
    assert found.tolist() == ["a", "-1", -1]
    assert found.dtype == object
    assert mixture.predict_class(X[[0, 50]], unknown="none").tolist() == ["a", "none"]
    assert mixture.predict_class(X[[0, 25]], unknown="none").dtype.kind == "U"
