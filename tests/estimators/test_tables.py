"""Frames with columns of several kinds and holes in estimators: family="auto", roles_, rows with holes at predict."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.utils import get_tags

from expfam import BayesianHierarchy, Columns, GroupedMixture, LogNormal, Mixture
from expfam.errors import DataError, DataTypeError, DataWarning, SupportError
from expfam.families.columns.roles import Roles

QUICK = {"n_steps": 5, "n_warmup": 5, "random_state": 0}


def table(n_rows=200, seed=0):
    """A table of two plain clusters: a number, a flag, a category and a count, two of them with holes."""
    rng = np.random.default_rng(seed)
    z = rng.integers(0, 2, n_rows)
    df = pd.DataFrame(
        {
            "number": rng.normal(8 * z, 1),
            "flag": (rng.random(n_rows) < 0.9) == z,
            "kind": np.array(["x", "y", "w"])[np.where(rng.random(n_rows) < 0.8, z, 2)],
            "count": rng.poisson(10 + 40 * z),
        }
    )
    df.loc[rng.random(n_rows) < 0.2, "number"] = np.nan
    df.loc[rng.random(n_rows) < 0.2, "kind"] = None
    return df


FORMS = {
    "objects": lambda df: df.astype(object).assign(number=df["number"]),
    "nullable": lambda df: df.convert_dtypes(),
    "Arrow-backed": lambda df: df.convert_dtypes(dtype_backend="pyarrow"),
    "polars": pl.from_pandas,
    "pyarrow": pa.Table.from_pandas,
}


@pytest.fixture(scope="module")
def fitted():
    return Mixture(**QUICK).fit(table())


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_every_frame_of_a_table_gives_the_same_bits(fitted, form):
    X = form(table())
    found = Mixture(**QUICK).fit(X)
    assert np.array_equal(found.labels_, fitted.labels_)
    assert found.log_joint_ == fitted.log_joint_
    assert np.array_equal(found.score_samples(X), fitted.score_samples(table()))
    assert type(found.roles_) is (pa.Table if isinstance(X, pa.Table) else type(X))


def test_a_category_type_gives_the_bits_of_its_encoded_matrix():
    X = table().astype({"kind": "category"})
    found = Mixture(**QUICK).fit(X)
    matrix = Roles(found.family_.roles).encode(X)
    again = Mixture(Columns.from_frame(X), **QUICK).fit(matrix)
    assert (found.log_joint_, found.labels_.tolist()) == (again.log_joint_, again.labels_.tolist())


def test_fitting_a_frame_is_fitting_its_encoded_matrix(fitted):
    family = Columns.from_frame(table())
    matrix = Roles(family.roles).encode(table())
    again = Mixture(family, **QUICK).fit(matrix)
    assert again.log_joint_ == fitted.log_joint_
    assert np.array_equal(again.labels_, fitted.labels_)
    assert np.array_equal(again.predict_proba(matrix), fitted.predict_proba(table()))


def test_clusters_of_a_table_are_found():
    df = table(400)
    z = np.random.default_rng(0).integers(0, 2, 400)
    found = Mixture(random_state=0).fit(df)
    assert found.n_components_ == 2
    assert max(np.mean(found.labels_ == z), np.mean(found.labels_ != z)) > 0.95


def test_roles_are_a_result(fitted):
    assert fitted.roles_["column"].tolist() == ["number", "flag", "kind", "count"]
    assert fitted.roles_["role"].tolist() == ["real", "binary", "category", "count"]
    assert fitted.roles_["missing"].tolist() == table().isna().sum().tolist()
    assert fitted.n_features_in_ == 4
    assert fitted.feature_names_in_.tolist() == ["number", "flag", "kind", "count"]


def test_roles_are_kept_in_files(fitted, tmp_path):
    fitted.save(tmp_path / "model")
    loaded = Mixture.load(tmp_path / "model")
    assert loaded.roles_.equals(fitted.roles_)
    assert np.array_equal(loaded.score_samples(table()), fitted.score_samples(table()))
    assert loaded.family == "auto"


def test_without_a_table_there_are_no_roles():
    found = Mixture(**QUICK).fit(np.random.default_rng(0).normal(size=(30, 2)))
    with pytest.raises(
        AttributeError, match="there are no roles: the model was fitted to numbers alone, with gaussian"
    ):
        found.roles_  # noqa: B018


def test_new_rows_may_lack_cells_that_no_row_of_the_fit_lacked(fitted):
    X = table()[:4].astype(object)
    X.iloc[0] = None
    X.loc[1, "count"] = None
    X.loc[2, "flag"] = None
    assert np.isfinite(fitted.score_samples(X)).all()
    assert fitted.score_samples(X)[0] == pytest.approx(0.0, abs=1e-12)  # a row without cells is certain
    assert fitted.predict_proba(X)[0] == pytest.approx(fitted.weights_ / fitted.weights_.sum())
    assert fitted.predict(X).shape == (4,)


def test_columns_of_new_rows_are_matched_by_name(fitted):
    X = table()
    assert np.array_equal(fitted.score_samples(X[X.columns[::-1]]), fitted.score_samples(X))
    with pytest.warns(DataWarning, match="Mixture: the frame has columns that were not there at fit, .* 'new'"):
        fitted.predict(X.assign(new=1))
    with pytest.raises(DataError, match=r"Mixture: columns of the frame differ .* only at fit 'count'; only now none"):
        fitted.predict(X.drop(columns="count"))


def test_unseen_levels_and_other_types_at_predict(fitted):
    X = table()[:3]
    assert np.isfinite(fitted.score_samples(X.assign(kind="new"))).all()
    with pytest.raises(SupportError, match="'flag': row 0 holds the level 7"):
        fitted.predict(X.assign(flag=7))
    with pytest.raises(DataTypeError, match="'count' held numbers at fit; row 0 holds 'many'"):
        fitted.predict(X.assign(count="many"))


# ---- which family the data choose ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make", [np.asarray, np.ndarray.tolist, pd.DataFrame, lambda X: pl.DataFrame(X), lambda X: X.astype(np.float32)]
)
def test_numbers_without_holes_have_todays_bits(make):
    X = make(np.random.default_rng(0).normal(size=(60, 3)))
    found, named = Mixture(**QUICK).fit(X), Mixture("gaussian_diag", **QUICK).fit(X)
    assert found.family_ == named.family_
    assert (found.log_joint_, found.labels_.tolist()) == (named.log_joint_, named.labels_.tolist())
    assert hasattr(found, "feature_names_in_") == hasattr(named, "feature_names_in_")


@pytest.mark.parametrize("make", [np.asarray, lambda X: X.astype(float), lambda X: pl.DataFrame(X)])
def test_held_out_rows_choose_the_family_of_counts(make):
    found = Mixture(**QUICK).fit(make(np.random.default_rng(0).poisson([2, 5], (200, 2))))
    assert found.family_.name == "poisson"
    assert set(found.family_scores_) == {"gaussian_diag", "gaussian", "poisson", "negative_binomial", "categorical"}


def test_an_array_with_holes_is_gaussian_columns():
    X = np.random.default_rng(0).normal(size=(60, 2)) + 10 * (np.arange(60) % 2)[:, None]
    X[::7, 0] = np.nan
    found = Mixture(random_state=0).fit(X)
    assert found.family_.name == "columns"
    assert found.cluster_sizes_.tolist() == [30, 30]
    assert np.isfinite(found.score_samples(np.array([[np.nan, 1.0], [1.0, np.nan]]))).all()
    assert Mixture(**QUICK).fit(X.tolist()).family_.name == "columns"
    with pytest.raises(ValueError, match="NaN"):
        Mixture("gaussian_diag").fit(X)


def test_infinity_is_refused_with_its_place():
    X = np.random.default_rng(0).normal(size=(30, 2))
    X[3, 1], X[4, 0] = np.inf, np.nan
    with pytest.raises(DataError, match="row 3, column 1 holds inf"):
        Mixture().fit(X)
    with pytest.raises(DataError, match="column 'size', row 3 holds inf"):
        Mixture().fit(pd.DataFrame({"size": X[:, 1], "kind": ["a", "b", "c"] * 10}))


def test_a_choice_is_made_anew_by_each_fit():
    found = Mixture(**QUICK)
    X = np.random.default_rng(0).normal(size=(30, 2))
    assert found.fit(table()).family_.name == "columns"
    assert found.fit(X).family_.name.startswith("gaussian")
    assert found.predict(X).shape == (30,)
    assert clone(found).family == "auto"


def test_a_lazy_frame_is_refused():
    with pytest.raises(DataTypeError, match=r"Mixture: the data are a lazy frame .*write X = X\.collect\(\)"):
        Mixture().fit(pl.DataFrame({"x": [1.0]}).lazy())


def test_dropped_columns_are_named_where_the_user_stands():
    with pytest.warns(DataWarning, match="'id' \\(looks like a row number: id='count' keeps it\\)") as caught:
        Mixture(**QUICK).fit(table().assign(id=np.arange(200)))
    assert caught[0].filename == __file__


def test_a_family_of_the_users_roles():
    df = table().assign(income=np.exp(np.random.default_rng(1).normal(size=200)))
    family = Columns.from_frame(df, income=LogNormal(), count="drop")
    found = Mixture(family, **QUICK).fit(df)
    assert found.roles_["family"].tolist()[3:] == ["", "lognormal"]
    assert found.n_features_in_ == 4


def test_absence_may_be_informative():
    family = Columns.from_frame(table(), missing="informative")
    assert np.isfinite(Mixture(family, **QUICK).fit(table()).score(table()))


@pytest.mark.parametrize(
    "sampler", ["gibbs", "uncollapsed_gibbs", "fastex", "canopy", "stochastic_em", "em", "variational"]
)
def test_every_sampler_takes_a_table(sampler):
    found = Mixture(n_components=3, sampler=sampler, **QUICK).fit(table(80))
    assert np.isfinite(found.score(table(80)))


def test_chunks_of_frames():
    found = Mixture(n_components=3, sampler="variational", random_state=0)
    for start in range(0, 200, 50):
        found.partial_fit(table()[start : start + 50])
    assert np.isfinite(found.score(table()))
    again = Mixture(n_components=3, sampler="variational", random_state=0)
    again.fit_chunks([table()[:100], table()[100:]])
    assert again.roles_["column"].tolist() == found.roles_["column"].tolist()


def test_other_estimators_take_tables():
    df = table(60)
    assert BayesianHierarchy().fit(df).predict(df).shape == (60,)
    groups = np.repeat(np.arange(6), 10)
    found = GroupedMixture(n_components=3, n_steps=3, n_warmup=2, random_state=0).fit(df, groups=groups)
    assert found.predict(df, groups).shape == (60,)


def test_tags_of_a_family_that_the_data_choose():
    for kind in (Mixture, BayesianHierarchy, GroupedMixture):
        tags = get_tags(kind()).input_tags
        assert (tags.allow_nan, tags.categorical, tags.string, tags.sparse, tags.positive_only) == (
            True,
            True,
            True,
            True,
            False,
        )


def test_fits_of_tables_warn_of_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Mixture(random_state=0).fit(table()).predict(table())


@pytest.mark.parametrize(
    ("X", "error", "message"),
    [
        ([["a", 1], ["b", 2]], DataTypeError, "row 0, column 0 holds the text 'a': give a data frame"),
        (np.array([[1, "x"], [2, "y"]], dtype=object), DataTypeError, "row 0, column 1 holds the text 'x'"),
        (pl.Series([1.0, 2.0]), ValueError, "Expected 2D array, got 1D array"),
        (pd.DataFrame({"a": [1.0], "b": ["x"]}).head(0), DataError, "Columns: the frame has no rows"),
        (pd.DataFrame(index=range(3)), DataError, "Columns: the frame has no columns"),
        (
            pd.DataFrame({"a": [2.0], "b": ["x"]}),
            DataError,
            r"no column is left: .*'b' \(all cells hold 'x'\); all rows are equal",
        ),
    ],
)
def test_what_is_no_table(X, error, message):
    with pytest.raises(error, match=message):
        Mixture(**QUICK).fit(X)


def test_columns_whose_names_are_numbers_are_filled():
    df = pd.DataFrame({0: np.arange(30.0), 5: ["x", "y", None] * 10})
    filled = Mixture(n_components=2, **QUICK).fit(df).impute(df)
    assert list(filled) == [0, 5]
    assert set(filled[5]) == {"x", "y"}


def test_numbers_as_text_are_left_out_with_the_remedy():
    df = pd.DataFrame({"a": np.arange(30.0), "x": [f"{value}.5" for value in range(30)]})
    with pytest.warns(DataWarning, match=r"'x' \(numbers as text.*: df\['x'\] = pd\.to_numeric\(df\['x'\]\), or x='c"):
        Mixture(n_components=2, **QUICK).fit(df)
