"""Clusters as columns for the next step of a pipeline, and scores of left-out rows with their errors."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn import config_context
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import FeatureUnion, make_pipeline

from expfam import BayesianHierarchy, GroupedMixture, Mixture, TopicModel
from expfam.errors import DataError
from expfam.evaluation.mean_error import error_of_mean

KINDS = {"mixture": Mixture, "bayesianhierarchy": BayesianHierarchy}


def table(n=60, seed=0):
    rng, kind = np.random.default_rng(seed), np.arange(n) % 3
    return pd.DataFrame(
        rng.normal(size=(n, 4)) + 9.0 * np.eye(3, 4)[kind], columns=list("abcd"), index=[f"row {i}" for i in range(n)]
    )


@pytest.mark.parametrize("name", KINDS)
def test_rows_become_probabilities_of_clusters(name):
    X = table().to_numpy()
    model = KINDS[name]("gaussian_diag", 3, random_state=0)
    p = model.fit_transform(X)
    assert p.dtype == np.float64
    np.testing.assert_array_equal(p, model.predict_proba(X))
    np.testing.assert_array_equal(p.argmax(axis=1), model.labels_)
    assert model.get_feature_names_out().tolist() == [f"{name}{k}" for k in range(3)]


@pytest.mark.parametrize("name", KINDS)
def test_frames_have_the_names_of_rows_and_columns(name):
    df = table()
    model = KINDS[name]("gaussian_diag", 3, random_state=0).set_output(transform="pandas")
    frame = model.fit_transform(df)
    assert frame.columns.tolist() == model.get_feature_names_out(df.columns).tolist()
    assert frame.index.tolist() == df.index.tolist()
    with config_context(transform_output="polars"):
        other = KINDS[name]("gaussian_diag", 3, random_state=0).fit_transform(df)
    assert isinstance(other, pl.DataFrame)
    with pytest.raises(ValueError, match="input_features"):
        model.get_feature_names_out(["x", "y"])


def test_groups_become_weights_of_clusters():
    df = table()
    groups = np.array(["ann", "bob", "eve"])[np.arange(60) // 20]
    model = GroupedMixture("gaussian_diag", 3, random_state=0).set_output(transform="pandas")
    frame = model.fit_transform(df, groups=groups)
    assert frame.index.tolist() == ["ann", "bob", "eve"]
    assert frame.columns.tolist() == model.get_feature_names_out().tolist()
    pd.testing.assert_frame_equal(frame, model.transform(df, groups))
    pd.testing.assert_frame_equal(frame, model.fit_transform(df, groups))
    with config_context(enable_metadata_routing=True):
        routed = GroupedMixture("gaussian_diag", 3, random_state=0)
        routed.set_fit_request(groups=True).set_transform_request(groups=True)
        plain = make_pipeline(routed).fit(df, groups=groups).transform(df, groups=groups)
    np.testing.assert_array_equal(frame.to_numpy(), plain)


def test_clusters_are_a_step_of_a_pipeline():
    df = table(120)
    y = np.arange(120) % 3 == 1
    both = FeatureUnion(
        [("mix", Mixture("gaussian_diag", 3, random_state=0)), ("tree", BayesianHierarchy(leaves="rows"))]
    )
    pipeline = make_pipeline(both, LogisticRegression()).fit(df, y)
    assert pipeline.score(table(60, seed=1), np.arange(60) % 3 == 1) == 1.0
    names = pipeline[0].get_feature_names_out()
    assert names[:3].tolist() == ["mix__mixture0", "mix__mixture1", "mix__mixture2"]
    parts = ColumnTransformer([("left", Mixture(n_components=2, random_state=0), ["a", "b"])], remainder="passthrough")
    frame = parts.set_output(transform="pandas").fit_transform(df)
    assert frame.columns.tolist() == ["left__mixture0", "left__mixture1", "remainder__c", "remainder__d"]


# ---- errors of scores ------------------------------------------------------------------------------------------------


def test_the_error_of_a_mean_and_of_a_ratio():
    values = np.random.default_rng(0).normal(size=50)
    np.testing.assert_allclose(error_of_mean(values), values.std(ddof=1) / np.sqrt(50), rtol=1e-12)
    np.testing.assert_allclose(error_of_mean(3.0 * values, np.full(50, 3)), error_of_mean(values), rtol=1e-12)
    with pytest.raises(DataError, match=r"a standard error needs at least two groups; there is 1 group$"):
        error_of_mean([1.0], [4], unit="group")


def groups_of(rng, n_groups=40):
    sizes = rng.integers(4, 30, size=n_groups)
    of_row = np.repeat(np.arange(n_groups), sizes)
    share = rng.beta(0.5, 0.5, size=n_groups)
    kind = rng.random(len(of_row)) < share[of_row]
    return np.where(kind, rng.normal(6.0, 3.0, size=len(of_row)), rng.normal(0.0, 1.0, size=len(of_row)))[
        :, None
    ], of_row


def single(rng, n):
    kind = rng.random(n) < 0.4
    return np.where(kind, rng.normal(6.0, 3.0, size=n), rng.normal(0.0, 1.0, size=n))[:, None]


def documents(rng, n_documents=60):
    weights = rng.dirichlet(np.full(3, 0.2), size=n_documents)
    return np.array([rng.multinomial(n, p) for n, p in zip(rng.integers(10, 80, size=n_documents), weights @ PHI)])


PHI = np.random.default_rng(7).dirichlet(np.full(30, 0.3), size=3)


def drawn(kind):
    """A fitted model, and a function that draws new data for its score."""
    rng = np.random.default_rng(3)
    if kind is TopicModel:
        return TopicModel(3, n_steps=20, random_state=0).fit(documents(rng, 200)), lambda: ((documents(rng),), {})
    if kind is GroupedMixture:
        X, groups = groups_of(rng)

        def new():
            rows, of_row = groups_of(rng)
            return (rows,), {"groups": of_row}

        return kind("gaussian_diag", 2, n_steps=20, random_state=0).fit(X, groups=groups), new
    return kind("gaussian_diag", 2, random_state=0).fit(single(rng, 500)), lambda: ((single(rng, 200),), {})


@pytest.mark.parametrize("kind", [Mixture, TopicModel, GroupedMixture])
def test_the_error_of_a_score_is_its_spread_over_new_rows(kind):
    model, new = drawn(kind)
    found = [(model.score(*X, **about), model.score_error(*X, **about)) for X, about in (new() for _ in range(120))]
    scores, errors = np.array(found).T
    assert 0.75 < scores.std(ddof=1) / np.sqrt((errors**2).mean()) < 1.33


def test_classes_that_a_mixture_learns_stay_in_a_pipeline():
    df, y = table(), np.arange(60) % 3
    mixture = Mixture("gaussian_diag", 3, labels="clusters", random_state=0)
    assert mixture.fit_transform(df, y).shape == (60, 3)
    assert mixture.classes_.tolist() == [0, 1, 2]


def test_a_score_of_one_unit_has_no_error():
    X, groups = groups_of(np.random.default_rng(0))
    mixture = Mixture("gaussian_diag", 2, random_state=0).fit(X)
    with pytest.raises(DataError, match=r"at least two rows; there is 1 row$"):
        mixture.score_error(X[:1])
    grouped = GroupedMixture("gaussian_diag", 2, n_steps=3, random_state=0).fit(X, groups=groups)
    with pytest.raises(DataError, match=r"at least two groups; there is 1 group$"):
        grouped.score_error(X, groups=np.zeros(len(X), dtype=int))
    topics = TopicModel(2, n_steps=3, random_state=0).fit(documents(np.random.default_rng(0)))
    with pytest.raises(DataError, match=r"at least two documents; there is 1 document$"):
        topics.score_error(documents(np.random.default_rng(0), 1))
