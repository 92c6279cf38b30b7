"""What is read after the fit of a table: clusters, evidence by column, filled cells, conditional scores, drawn rows."""

import itertools

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import stats

from expfam import Categorical, Columns, DiagonalGaussian, Gaussian, LogNormal, Mixture, Multinomial, Poisson
from expfam.errors import CapabilityError, DataError, DataTypeError, SupportError

QUICK = {"n_steps": 5, "n_warmup": 5, "random_state": 0}


def penguins(n_rows=200, seed=0):
    """A table of two plain clusters with holes in a number, a flag and a text."""
    rng = np.random.default_rng(seed)
    z = rng.integers(0, 2, n_rows)
    df = pd.DataFrame(
        {
            "mass": np.exp(rng.normal(3 + 2 * z, 0.3)),
            "bill": rng.normal(8 * z, 1),
            "sex": np.where((rng.random(n_rows) < 0.9) == z, "m", "f"),
            "island": np.array(["x", "y", "w"])[np.where(rng.random(n_rows) < 0.8, z, 2)],
            "eggs": rng.poisson(5 + 60 * z) + 30 * (rng.random(n_rows) < 0.01),
        }
    )
    for name in ("mass", "bill", "island", "sex"):
        df.loc[rng.random(n_rows) < 0.15, name] = None
    return df


@pytest.fixture(scope="module")
def fitted():
    return Mixture(n_components=2, **QUICK).fit(penguins())


# ---- against enumeration ---------------------------------------------------------------------------------------------

ROWS = np.array([[0.0, 1.0], [1.0, 2.0], [1.0, 0.0], [0.0, 2.0], [0.0, 2.0], [1.0, np.nan]])  # a table of 2 x 3 values


@pytest.fixture(scope="module")
def two_by_three():
    family = Columns([(Categorical(n_levels=np.array([2, 3])), (0, 1))])
    return Mixture(family, 2, **QUICK).fit(ROWS)


def joint(mixture):
    """Predictive probability of each of the 2 x 3 rows, term by term from counts: (2, 3)."""
    found = np.zeros((2, 3))
    clusters = [*range(mixture.n_components_), None]
    weights = [*mixture.weights_, np.exp(mixture.log_weight_new_)]
    a = np.asarray(mixture.family_._parts[0].family.pseudocounts()[0])  # of the five levels in a row
    for k, weight in zip(clusters, weights):
        own = ROWS[mixture.labels_ == k] if k is not None else ROWS[:0]
        p = []
        for j, (first, n_levels) in enumerate(((0, 2), (2, 3))):
            counts = np.array([(own[:, j] == level).sum() for level in range(n_levels)]) + a[first : first + n_levels]
            p.append(counts / counts.sum())
        found += weight * np.outer(*p)
    return found


def test_scores_and_conditional_scores_are_those_of_the_enumerated_table(two_by_three):
    cells = np.array(list(itertools.product([0.0, 1.0], [0.0, 1.0, 2.0])))
    p = joint(two_by_three)
    np.testing.assert_allclose(np.exp(two_by_three.score_samples(cells)), p.ravel(), rtol=1e-10)
    np.testing.assert_allclose(
        np.exp(two_by_three.score_samples(cells, given=[0])), (p / p.sum(1, keepdims=True)).ravel()
    )
    np.testing.assert_allclose(
        np.exp(two_by_three.score_samples(cells, given=1)), (p / p.sum(0, keepdims=True)).ravel()
    )


def test_imputed_levels_are_the_modes_of_the_enumerated_table(two_by_three):
    p = joint(two_by_three)
    filled = two_by_three.impute(np.array([[0, np.nan], [1, np.nan], [np.nan, 0], [np.nan, 2], [1.0, 1.0]]))
    assert filled[:, 1].tolist() == [p[0].argmax(), p[1].argmax(), 0, 2, 1]
    assert filled[:, 0].tolist() == [0, 1, p[:, 0].argmax(), p[:, 2].argmax(), 1]


def test_imputed_draws_follow_the_enumerated_table(two_by_three):
    p = joint(two_by_three)
    rows = np.repeat([[0.0, np.nan], [np.nan, np.nan]], 4000, axis=0)
    first, second = two_by_three.impute(rows, draws=2)
    assert not np.array_equal(first, second)
    share = np.bincount(first[:4000, 1].astype(int), minlength=3) / 4000
    np.testing.assert_allclose(share, p[0] / p[0].sum(), atol=0.035)
    pairs = np.histogram2d(second[4000:, 0], second[4000:, 1], bins=[2, 3])[0] / 4000
    np.testing.assert_allclose(pairs, p, atol=0.035)


def test_imputed_numbers_are_means_over_clusters():
    X = np.array([[0.0, 1.0], [0.5, 2.0], [9.0, 30.0], [9.5, 35.0], [0.2, np.nan]])
    family = Columns([(DiagonalGaussian(), (0,)), (Poisson(shape=1.0, rate=0.5), (1,))])
    mixture = Mixture(family, 2, **QUICK).fit(X)
    row = np.array([[4.0, np.nan]])
    only = np.exp(mixture.score_samples(row))
    counts = np.arange(400.0)
    rows = np.column_stack([np.full(400, 4.0), counts])
    p = np.exp(mixture.score_samples(rows)) / only
    assert p.sum() == pytest.approx(1, abs=1e-6)
    assert mixture.impute(row)[0, 1] == pytest.approx((p * counts).sum(), rel=1e-5)


def test_log_normal_cells_are_filled_by_the_exponential_of_the_mean_logarithm():
    X = np.exp(np.random.default_rng(0).normal(2, 1, size=(50, 2)))
    X[3, 1] = np.nan
    mixture = Mixture(Columns([(LogNormal(), (0, 1))]), 1, **QUICK).fit(X)
    logs = Mixture(Columns([(DiagonalGaussian(), (0, 1))]), 1, **QUICK).fit(np.log(X))
    assert np.log(mixture.impute(X)[3, 1]) == pytest.approx(logs.impute(np.log(X))[3, 1])


@pytest.mark.parametrize("n_tables", [60, pytest.param(2000, marks=pytest.mark.slow)])
def test_intervals_of_hidden_cells_cover_what_was_hidden(n_tables):
    """The fit starts at the clusters and makes no step; their parameters are drawn from the prior."""
    rng = np.random.default_rng(1)
    family = DiagonalGaussian(mean=0.0, mean_strength=0.5, shape=3.0, rate=2.0)
    n_inside = n_hidden = 0
    for _ in range(n_tables):
        z = np.repeat([0, 1], 15)
        precision = rng.gamma(3.0, 1 / 2.0, size=(2, 2))
        mean = rng.normal(size=(2, 2)) / np.sqrt(0.5 * precision)
        X = mean[z] + rng.normal(size=(30, 2)) / np.sqrt(precision[z])
        holes = np.zeros((30, 2), dtype=bool)
        holes[[3, 20], [1, 1]] = True
        hidden = np.where(holes, np.nan, X)
        mixture = Mixture(
            Columns([(family, (0, 1))]),
            2,
            sampler="gibbs",
            n_steps=0,
            n_warmup=0,
            start=z,
            random_state=3,
            partition="last",
            learn_hyper=False,
        )
        mixture.fit(hidden)
        draws = np.array(mixture.impute(hidden, draws=199))[:, holes]
        low, high = np.quantile(draws, [0.05, 0.95], axis=0)
        n_inside += int(((low <= X[holes]) & (X[holes] <= high)).sum())
        n_hidden += 2
    slack = 0.02 if n_tables >= 2000 else 3 * np.sqrt(0.09 / n_hidden)
    assert abs(n_inside / n_hidden - 0.9) < slack


# ---- frames ----------------------------------------------------------------------------------------------------------

FORMS = {
    "pandas": lambda df: df.set_index(np.arange(len(df))[::-1]),
    "category": lambda df: df.astype({"island": "category"}),
    "nullable": lambda df: df.convert_dtypes(),
    "Arrow-backed": lambda df: df.convert_dtypes(dtype_backend="pyarrow"),
    "polars": pl.from_pandas,
    "polars categories": lambda df: pl.from_pandas(df).with_columns(pl.col("island").cast(pl.Categorical)),
    "pyarrow": lambda df: pa.Table.from_pandas(df, preserve_index=False),
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_filled_frames_are_of_the_users_kind(form):
    X = form(penguins())
    mixture = Mixture(**QUICK).fit(X)
    filled = mixture.impute(X)
    assert type(filled) is type(mixture.clusters_) is type(mixture.explain()) is type(mixture.sample(2)[0]) is type(X)
    before, after = (frame if isinstance(frame, pd.DataFrame) else frame.to_pandas() for frame in (X, filled))
    assert not after.isna().any().any()
    assert after.index.equals(before.index)
    assert (after.dtypes == before.dtypes).all() or not isinstance(X, pd.DataFrame)
    held = ~before.isna().to_numpy()
    assert (after.to_numpy(dtype=object)[held] == before.to_numpy(dtype=object)[held]).all()
    assert set(after["island"]) <= {"x", "y", "w"}


def test_integer_columns_are_filled_with_whole_numbers():
    df = penguins().astype({"eggs": "Int64"})
    df.loc[3, "eggs"] = pd.NA
    filled = Mixture(**QUICK).fit(df).impute(df)
    assert filled["eggs"].dtype == "Int64"
    assert not filled["eggs"].isna().any()


def test_a_frame_without_holes_is_returned_as_it_is(fitted):
    whole = penguins().dropna()
    assert fitted.impute(whole).equals(whole)
    assert len(fitted.impute(whole, draws=2)) == 2


def test_columns_that_were_left_out_stay_in_filled_frames():
    df = penguins().assign(one=1)
    with pytest.warns(match="'one' \\(all cells hold 1\\)"):
        mixture = Mixture(**QUICK).fit(df)
    assert mixture.impute(df)["one"].eq(1).all()


def test_clusters_are_told_in_the_units_of_the_data(fitted):
    clusters = fitted.clusters_
    of_columns = ["mass", "mass_sd", "bill", "bill_sd", "sex", "sex_probability", "island", "island_probability"]
    assert list(clusters) == ["cluster", "size", "weight", *of_columns, "eggs", "eggs_sd"]
    assert clusters["size"].tolist() == fitted.cluster_sizes_.tolist()
    assert clusters["weight"].tolist() == fitted.weights_.tolist()
    assert sorted(round(mean / 8) for mean in clusters["bill"]) == [0, 1]
    assert all(0.7 < sd < 1.4 for sd in clusters["bill_sd"])
    assert sorted(clusters["sex"]) == ["f", "m"]
    assert sorted(clusters["island"]) == ["x", "y"]
    assert clusters["sex_probability"].between(0.5, 1.0).all()


def test_names_of_columns_that_clusters_have_themselves():
    rng = np.random.default_rng(0)
    df = pd.DataFrame({"size": rng.normal(size=40), "a": rng.normal(size=40), "a_sd": rng.normal(size=40)})
    clusters = Mixture(n_components=2, **QUICK).fit(df).clusters_
    of_columns = ["size (column)", "size (column)_sd", "a", "a_sd_", "a_sd", "a_sd_sd"]
    assert list(clusters) == ["cluster", "size", "weight", *of_columns]
    assert clusters["size"].sum() == 40


def test_clusters_in_time_have_times_and_spans():
    first = pd.Timestamp("2024-03-01")
    days = np.random.default_rng(0).normal(size=60) + np.repeat([0.0, 90.0], 30)
    when = pd.DataFrame({"when": first + pd.to_timedelta(days, unit="D"), "how": pd.to_timedelta(days + 200, unit="D")})
    family = Columns.from_frame(when, when="numeric", how="numeric")
    clusters = Mixture(family, 2, **QUICK).fit(when).clusters_.sort_values("when")
    assert abs(clusters["when"] - [first, first + pd.Timedelta(90, "D")]).max() < pd.Timedelta(1, "D")
    assert clusters["when_sd"].between(pd.Timedelta(0.5, "D"), pd.Timedelta(2, "D")).all()
    assert clusters["how"].between(pd.Timedelta(199, "D"), pd.Timedelta(291, "D")).all()


def test_clusters_of_words_have_their_typical_words():
    X = np.repeat([[9, 8, 0, 0], [0, 0, 7, 9]], 10, axis=0)
    mixture = Mixture(Multinomial(), 2, **QUICK).fit(pd.DataFrame(X, columns=["tea", "milk", "car", "road"]))
    assert [set(words.split(", ")[:2]) for words in mixture.clusters_["words"]] == [{"tea", "milk"}, {"car", "road"}]


def test_evidence_by_column_is_that_of_a_model_of_the_column(fitted):
    family = fitted.family_
    n, S_of = fitted.n_, fitted.S_
    whole = fitted.explain().drop(columns="cluster").to_numpy()
    rest = [np.delete(np.arange(len(n)), k) for k in range(len(n))]
    n_rest, S_rest = (np.array([block[r].sum(axis=0) for r in rest]) for block in (n, S_of))
    total = family.log_marginal(n, S_of) + family.log_marginal(n_rest, S_rest)
    total -= family.log_marginal(n.sum(keepdims=True), S_of.sum(axis=0, keepdims=True))
    np.testing.assert_allclose(whole.sum(axis=1), total)
    assert whole.shape == (len(n), 5)
    assert (whole[:, 1] > 50).all()


def test_columns_of_one_cluster_are_sorted_by_what_they_tell(fitted):
    found = fitted.explain(0)
    assert list(found) == ["column", "log_bayes_factor"]
    assert found["log_bayes_factor"].is_monotonic_decreasing
    assert set(found["column"]) == {"mass", "bill", "sex", "island", "eggs"}


def test_arrays_give_arrays_and_set_output_decides():
    X = np.random.default_rng(0).normal(size=(30, 2)) + np.repeat([[0.0], [9.0]], 15, axis=0)
    mixture = Mixture(n_components=2, **QUICK).fit(X)
    X[2, 0] = np.nan
    assert type(mixture.explain()) is np.ndarray
    assert mixture.explain(1).shape == (2,)
    assert type(mixture.impute(X)) is np.ndarray
    assert not np.isnan(mixture.impute(X)).any()
    assert mixture.set_output(transform="polars") is mixture
    for frame in (mixture.explain(), mixture.impute(X), mixture.sample(2)[0], mixture.clusters_):
        assert isinstance(frame, pl.DataFrame)
    mixture.set_output()
    assert isinstance(mixture.set_output(transform="pandas").impute(X, draws=1)[0], pd.DataFrame)
    assert type(mixture.set_output(transform="default").impute(X)) is np.ndarray


def test_drawn_rows_are_rows_of_the_table(fitted):
    drawn, clusters = fitted.sample(500)
    assert drawn["eggs"].dtype.kind == "i"
    assert set(drawn["island"]) == {"x", "y", "w"}
    assert set(drawn["sex"]) == {"m", "f"}
    assert not drawn.isna().any().any()
    assert len(clusters) == 500
    assert np.mean(fitted.predict(drawn) == clusters) > 0.9


def test_conditional_scores_take_names(fitted):
    df = penguins().dropna()
    rest = df.assign(mass=np.nan, eggs=None)
    alone = fitted.score_samples(df[["mass", "bill", "sex", "island", "eggs"]])
    given = fitted.score_samples(df, given=["bill", "sex", "island"])
    np.testing.assert_allclose(given, alone - fitted.score_samples(rest), rtol=1e-9)
    assert np.array_equal(fitted.score_samples(df, given="bill"), fitted.score_samples(df, given=[1]))


def test_saved_models_answer_the_same(fitted, tmp_path):
    fitted.save(tmp_path / "model")
    loaded = Mixture.load(tmp_path / "model")
    assert loaded.explain().equals(fitted.explain())
    assert loaded.impute(penguins()).equals(fitted.impute(penguins()))


# ---- errors ----------------------------------------------------------------------------------------------------------


def cells(**changed):
    return penguins().astype({"bill": object, "eggs": object}).assign(**changed)


def with_cell(column, value):
    df = cells()
    df.loc[7, column] = value
    return df


MESSAGES = {
    "infinity": (lambda m: m.impute(penguins().assign(bill=np.inf)), DataError, "column 'bill', row 0 holds inf"),
    "lacking column": (
        lambda m: m.impute(penguins().drop(columns="bill")),
        DataError,
        r"differ from those at fit: only at fit 'bill'; only now none",
    ),
    "text": (
        lambda m: m.impute(penguins().assign(bill="long")),
        DataTypeError,
        "column 'bill' held numbers at fit; row 0 holds 'long'",
    ),
    "unknown column": (
        lambda m: Columns.from_frame(penguins(), bil="drop"),
        ValueError,
        "has no column 'bil'; did you mean 'bill'?",
    ),
    "support": (
        lambda m: Columns.from_frame(penguins(), bill=LogNormal()),
        SupportError,
        "lognormal needs positive values; column 'bill', row",
    ),
    "nothing left": (
        lambda m: Mixture().fit(pd.DataFrame({"a": [1, 1], "b": [None, None]})),
        DataError,
        r"no column is left: 'a' \(all cells hold 1\), 'b' \(all cells are missing\)",
    ),
    "one name twice": (
        lambda m: m.impute(pd.DataFrame([[1, 2]], columns=["a", "a"])),
        DataError,
        "more than one column named 'a': rename or drop them",
    ),
    "given": (lambda m: m.score_samples(penguins(), given=["beak"]), ValueError, "given: there is no column 'beak'"),
    "cluster": (lambda m: m.explain(99), ValueError, "explain: there are 2 clusters; got k=99"),
    "no cluster": (lambda m: m.explain(-1), ValueError, "explain: k must be"),
    "draws": (lambda m: m.impute(penguins(), draws=0), ValueError, "impute: draws must be"),
    "output": (lambda m: m.set_output(transform="arrow"), ValueError, "set_output: transform must be"),
}


@pytest.mark.parametrize(("action", "error", "message"), MESSAGES.values(), ids=MESSAGES)
def test_bad_input_is_named(fitted, action, error, message):
    with pytest.raises(error, match=message):
        action(fitted)


def test_missing_cells_of_a_covariance_have_their_mean_given_the_others():
    """One cluster: the law is that of a multivariate t, whose mean is a regression on the other cells."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3)) @ np.array([[1.0, 0.8, 0.0], [0.0, 0.3, 0.5], [0.0, 0.0, 1.0]]) + 5.0
    mixture = Mixture("gaussian", 1, **QUICK).fit(X)
    assert np.array_equal(mixture.impute(X), X)
    holes = X[:5].copy()
    holes[0, 1] = holes[1, 0] = holes[1, 2] = np.nan
    holes[2] = np.nan
    law = mixture.family_.predictive_law(mixture.n_, mixture.S_)
    mean, scale = law.mean[0], law.scale[0]
    found = mixture.impute(holes)
    given = mixture.log_weight_new_ == -np.inf  # K = 1 is given, so that no further cluster has a share
    assert given
    assert found[0, 1] == pytest.approx(
        mean[1] + scale[1, [0, 2]] @ np.linalg.solve(scale[np.ix_([0, 2], [0, 2])], holes[0, [0, 2]] - mean[[0, 2]])
    )
    assert found[1, [0, 2]] == pytest.approx(mean[[0, 2]] + scale[[0, 2], 1] / scale[1, 1] * (holes[1, 1] - mean[1]))
    assert found[2] == pytest.approx(mean)
    assert np.array_equal(found[3:], X[3:5])


def test_draws_of_missing_cells_of_a_covariance_have_their_law():
    """Densities of drawn cells given the others: the mean of all draws is close to the entropy of the t law."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(30, 2)) @ np.array([[1.0, 0.9], [0.0, 0.2]])
    mixture = Mixture("gaussian", 1, **QUICK).fit(X)
    holes = np.array([[1.5, np.nan]] * 4000)
    drawn = np.array([one[:, 1] for one in mixture.impute(holes, draws=2)]).ravel()
    law = mixture.family_.predictive_law(mixture.n_, mixture.S_)
    mean, scale, dof = law.mean[0], law.scale[0], law.dof[0]
    delta = (1.5 - mean[0]) ** 2 / scale[0, 0]
    own = (dof + delta) / (dof + 1) * (scale[1, 1] - scale[0, 1] ** 2 / scale[0, 0])
    exact = stats.t(dof + 1, mean[1] + scale[0, 1] / scale[0, 0] * (1.5 - mean[0]), np.sqrt(own))
    assert stats.kstest(drawn, exact.cdf).pvalue > 1e-4
    assert stats.kstest(drawn, stats.t(dof + 1, mean[1], np.sqrt(scale[1, 1])).cdf).pvalue < 1e-9  # the column alone


def test_a_covariance_explains_columns_by_themselves():
    """The evidence of a column is that of all rows with the other columns integrated out: one column of the prior."""
    rng = np.random.default_rng(2)
    X = np.concatenate([rng.normal(0.0, 1.0, (40, 3)), rng.normal([0.0, 30.0, 0.0], 1.0, (40, 3))])
    mixture = Mixture("gaussian", 2, **QUICK).fit(X)
    family = mixture.family_
    own = family.log_marginal_by_column(mixture.n_, mixture.S_)
    for j in range(3):
        alone = Gaussian(
            mean=family.mean[[j]], mean_strength=family.mean_strength, dof=family.dof - 2, scale=family.scale[[j], j]
        ).bind(X[:, [j]])
        S = np.array([alone.sufficient_statistics(X[mixture.labels_ == k][:, [j]]).sum(axis=0) for k in range(2)])
        np.testing.assert_allclose(own[:, j], alone.log_marginal(mixture.n_, S), rtol=1e-9)
    assert (mixture.explain()[:, 1] > mixture.explain()[:, [0, 2]].max(axis=1) + 50).all()


def test_a_covariance_in_a_table_answers_as_a_block():
    X = np.random.default_rng(0).normal(size=(40, 3))
    family = Columns([(Gaussian(), (0, 1)), (DiagonalGaussian(), (2,))], rows="complete")
    blocks = Mixture(family, 2, **QUICK).fit(X).explain()
    assert np.isnan(blocks[:, 1]).all()
    assert np.isfinite(blocks[:, [0, 2]]).all()


def test_words_have_no_cells():
    mixture = Mixture(Multinomial(), 2, **QUICK).fit(np.eye(4, dtype=int))
    with pytest.raises(CapabilityError, match="multinomial: its columns are no cells of a table"):
        mixture.impute(np.eye(4))
