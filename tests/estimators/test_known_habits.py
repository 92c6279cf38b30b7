"""Links and classes in scikit-learn's habits: routing of metadata, pipelines, cross-validation, files, trees."""

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from expfam import (
    BayesianHierarchy,
    Dataset,
    DiagonalGaussian,
    DirichletProcess,
    GroupedMixture,
    Known,
    Mixture,
    MixtureModel,
    TopicModel,
)
from expfam.errors import DataError, DataWarning
from expfam.samplers import Cycle, LinkedGibbs, SplitMerge, sample
from expfam.samplers.chain.callbacks import Checkpoint, restore_checkpoint

RNG = np.random.default_rng(0)
CENTRES = np.array([[0.0, 0.0], [6.0, 0.0], [0.0, 6.0]])
Z = RNG.permutation(np.repeat(np.arange(3), 40))
X = CENTRES[Z] + RNG.normal(size=(120, 2))
LINKS = np.where(np.arange(120) < 12, np.arange(120) // 2, -1)
QUICK = {"random_state": 0, "n_steps": 3, "n_warmup": 2}


@pytest.fixture
def fitted_with(monkeypatch):
    """Links of each fit, as `fit` was given them, with the rows."""
    seen, fit = [], Mixture.fit

    def spy(self, X, y=None, sample_weight=None, *, links=None):
        seen.append((np.asarray(X), links))
        return fit(self, X, y, sample_weight, links=links)

    monkeypatch.setattr(Mixture, "fit", spy)
    return seen


def is_cut_with_the_rows(seen):
    place = {tuple(row): i for i, row in enumerate(X)}
    return all(
        links is not None and np.array_equal(links, LINKS[[place[tuple(row)] for row in rows]]) for rows, links in seen
    )


def test_cross_validation_cuts_links_with_the_rows(fitted_with):
    found = cross_validate(Mixture(**QUICK), X, params={"links": LINKS}, cv=3)
    assert np.isfinite(found["test_score"]).all()
    assert len(fitted_with) == 3
    assert is_cut_with_the_rows(fitted_with)


def test_a_pipeline_hands_links_on():
    pipeline = make_pipeline(StandardScaler(), Mixture(**QUICK)).fit(X, mixture__links=LINKS)
    assert Known(links=LINKS).agrees(pipeline[-1].labels_)


def test_a_pipeline_hands_classes_on_where_they_are_asked_for():
    y = np.where(np.arange(120) % 4 == 0, Z, -1)
    pipeline = make_pipeline(StandardScaler(), Mixture(labels="clusters", **QUICK))
    labels = pipeline.fit_predict(X, y)
    np.testing.assert_array_equal(labels[y >= 0], y[y >= 0])


def test_links_are_routed_as_metadata():
    with sklearn.config_context(enable_metadata_routing=True):
        mixture = Mixture(**QUICK).set_fit_request(links=True)
        found = cross_validate(mixture, X, params={"links": LINKS}, cv=3)
        assert np.isfinite(found["test_score"]).all()
        pipeline = make_pipeline(StandardScaler(), mixture).fit(X, links=LINKS)
        assert Known(links=LINKS).agrees(pipeline[-1].labels_)
        search = GridSearchCV(mixture, {"n_components": [2, 3]}, cv=3).fit(X, links=LINKS)
        assert Known(links=LINKS).agrees(search.best_estimator_.labels_)


def test_links_are_not_routed_unless_they_are_asked_for():
    with sklearn.config_context(enable_metadata_routing=True), pytest.raises(ValueError, match="links"):
        cross_validate(Mixture(**QUICK), X, params={"links": LINKS}, cv=3)


def test_fit_predict_takes_what_fit_takes():
    y = np.where(np.arange(120) % 4 == 0, Z, -1)
    first = Mixture(labels="classes", **QUICK).fit_predict(X, y, links=LINKS * 0 - 1)
    np.testing.assert_array_equal(first, Mixture(labels="classes", **QUICK).fit(X, y).labels_)


@pytest.mark.parametrize("labels", ["clusters", "classes"])
def test_draws_and_files_keep_to_what_is_known(tmp_path, labels):
    y = np.where(np.arange(120) % 4 == 0, Z, -1)
    mixture = Mixture(labels=labels, **QUICK).fit(X, y, links=np.where(y < 0, LINKS, -1))
    mixture.save(tmp_path / "m")
    loaded = Mixture.load(tmp_path / "m")
    assert loaded.n_known_ == mixture.n_known_
    np.testing.assert_array_equal(loaded.cluster_classes_, mixture.cluster_classes_)
    np.testing.assert_array_equal(loaded.predict_class(X), mixture.predict_class(X))


# ---- trees -----------------------------------------------------------------------------------------------------------


def test_linked_rows_are_one_leaf():
    apart = [int(np.flatnonzero(Z == 0)[0]), int(np.flatnonzero(Z == 1)[0])]
    links = np.full(120, -1)
    links[apart] = 7
    free = BayesianHierarchy("gaussian_diag").fit(X)
    assert free.labels_[apart[0]] != free.labels_[apart[1]]
    tree = BayesianHierarchy("gaussian_diag").fit(X, links=links)
    assert tree.tree_.n_leaves == 119
    assert tree.leaf_[apart[0]] == tree.leaf_[apart[1]]
    assert tree.labels_[apart[0]] == tree.labels_[apart[1]]
    start = np.arange(120)
    start[apart[1]] = apart[0]
    same = BayesianHierarchy("gaussian_diag", start=start).fit(X)
    np.testing.assert_array_equal(tree.labels_, same.labels_)
    assert tree.log_evidence_ == same.log_evidence_


def test_clusters_as_leaves_keep_linked_rows_together():
    links = np.where(np.arange(120) < 4, 0, -1)
    tree = BayesianHierarchy("gaussian_diag", leaves="clusters", random_state=0).fit(X, links=links)
    assert len(set(tree.leaf_[:4])) == 1
    assert tree.tree_.n_leaves < 20


@pytest.mark.parametrize(
    ("settings", "links", "error", "words"),
    [
        ({}, np.zeros(7, dtype=int), DataError, "links has 7 values, X has 120 rows"),
        ({}, np.array([[0, 1]]), DataError, "use link_groups"),
        ({"start": np.arange(120)}, LINKS, ValueError, "start and links both say which rows are together"),
        ({"n_components": 3}, np.zeros(120, dtype=int), ValueError, "rows and groups of linked rows"),
    ],
)
def test_links_that_a_tree_refuses(settings, links, error, words):
    with pytest.raises(error, match=words):
        BayesianHierarchy("gaussian_diag", **settings).fit(X, links=links)


@pytest.mark.parametrize("kind", [BayesianHierarchy, TopicModel])
def test_estimators_without_labels_name_the_one_that_has_them(kind):
    with pytest.raises(TypeError, match=r"no keyword 'labels': Mixture\(labels='clusters'\)"):
        kind(labels="clusters")


# ---- rows in groups --------------------------------------------------------------------------------------------------

GROUPS = np.arange(120) % 6
Y = np.where(np.arange(120) % 5 == 0, Z, -1)


def test_classes_of_rows_in_groups_are_clusters(tmp_path):
    names = np.array(["ape", "bear", "cat", None], dtype=object)[Y]
    mixture = GroupedMixture("gaussian_diag", 4, labels="clusters", random_state=0).fit(X, names, groups=GROUPS)
    assert mixture.classes_.tolist() == ["ape", "bear", "cat"]
    assert mixture.n_known_ == (Y >= 0).sum()
    np.testing.assert_array_equal(mixture.labels_[Y >= 0], Y[Y >= 0])
    assert (mixture.labels_ == Z).mean() > 0.9
    mixture.save(tmp_path / "m")
    loaded = GroupedMixture.load(tmp_path / "m")
    assert (loaded.labels, loaded.n_known_, loaded.classes_.tolist()) == ("clusters", 24, ["ape", "bear", "cat"])


def test_nothing_known_of_rows_in_groups_changes_no_bit():
    plain = GroupedMixture("gaussian_diag", 3, random_state=0, n_steps=5).fit(X, groups=GROUPS)
    with pytest.warns(DataWarning, match="no row is known"):
        nothing = GroupedMixture("gaussian_diag", 3, random_state=0, n_steps=5, labels="clusters").fit(
            X, np.full(120, -1), groups=GROUPS
        )
    np.testing.assert_array_equal(plain.labels_, nothing.labels_)
    assert plain.log_joint_ == nothing.log_joint_


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ({"labels": "classes"}, ValueError, "labels must be"),
        ({"labels": "clusters", "n_components": 2}, DataError, r"y has 3 classes \(0, 1, 2\), and AdmixtureModel"),
    ],
)
def test_what_rows_in_groups_refuse(settings, error, words):
    with pytest.raises(error, match=words):
        GroupedMixture("gaussian_diag", **{"n_components": 3} | settings).fit(X, Y, groups=GROUPS)


# ---- runs that go on, tables -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["clusters", "classes"])
def test_a_resumed_run_has_the_bits_of_one_that_went_on(tmp_path, kind):
    known = Known(Y, kind, links=np.where(Y < 0, LINKS, -1))
    data = Dataset(X, DiagonalGaussian(), known=known)
    kernel = Cycle(SplitMerge(), LinkedGibbs())
    model = MixtureModel(data.family, DirichletProcess())
    state, again = (kernel.init(model, data, seed=0) for _ in range(2))
    sample(kernel, state, 3, callbacks=[Checkpoint(tmp_path / "c", every_seconds=0)])
    restore_checkpoint(tmp_path / "c", again)
    for run in (state, again):
        sample(kernel, run, 3)
    np.testing.assert_array_equal(state.labels, again.labels)
    assert state.log_joint == again.log_joint
    assert known.agrees(again.labels)


@pytest.mark.parametrize("kind", ["clusters", "classes"])
def test_chains_of_several_seeds_keep_to_what_is_known(kind):
    links = np.where(Y < 0, LINKS, -1)
    labels = [Mixture(labels=kind, **QUICK | {"random_state": s}).fit(X, Y, links=links).labels_ for s in range(3)]
    assert all(Known(Y, kind, links=links).agrees(found) for found in labels)


@pytest.mark.parametrize("kind", ["clusters", "classes"])
def test_tables_with_missing_cells_take_classes_and_links(kind):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {"a": X[:, 0], "b": X[:, 1], "c": np.array(["x", "y", "z"])[np.where(rng.random(120) < 0.8, Z, 0)]}
    )
    table.loc[rng.random(120) < 0.1, "a"] = np.nan
    links = np.where(Y < 0, LINKS, -1)
    mixture = Mixture(labels=kind, random_state=0).fit(table, Y, links=links)
    assert Known(Y, kind, links=links).agrees(mixture.labels_)
    assert (mixture.predict_class(table) == Z).mean() > 0.9
