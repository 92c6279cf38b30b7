"""New rows, as arrays and as frames: columns by name, cells that are missing, and what is refused by name."""

import copy
import re

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.utils import get_tags

import expfam
from expfam import (
    BayesianHierarchy,
    Columns,
    DiagonalGaussian,
    GroupedMixture,
    Mixture,
    Poisson,
    TopicModel,
    merge,
)
from expfam.errors import CapabilityError, DataError, DataTypeError, DataWarning, SupportError
from expfam.families.trials.bernoulli import Bernoulli
from expfam.samplers import Memoized, SparseVariational, Stochastic

GROUPS = np.arange(120) % 4
NAMES = ["a", "b", "c"]
FRAMES = {
    "pandas": lambda df: df,
    "polars": pl.from_pandas,
    "pyarrow": lambda df: pa.Table.from_pandas(df, preserve_index=False),
}
KINDS = [Mixture, BayesianHierarchy, GroupedMixture]
CHUNKS = [slice(0, 40), slice(40, 80), slice(80, 120)]


def rows():
    rng = np.random.default_rng(0)
    return 8.0 * (np.arange(120) % 3)[:, None] + rng.normal(size=(120, 3))


def counts():
    return 1.0 + np.rint(np.abs(rows()))


def with_holes(X, first=0):
    """The rows from `first` on lack a cell here and there, and one of them all cells."""
    X = X.copy()
    X[first:][np.random.default_rng(1).random(X[first:].shape) < 0.2] = np.nan
    X[first + 3] = np.nan
    return X


def fitted(kind, X, family="auto"):
    settings = {"n_components": 3} if kind is BayesianHierarchy else {"n_components": 3, "n_steps": 10, "n_warmup": 5}
    options = {"groups": GROUPS} if kind is GroupedMixture else {}
    return kind(family, random_state=0, **settings).fit(X, **options)


def answers(model, X):
    """What a model says of rows: labels, scores, and filled cells."""
    options = {"groups": GROUPS[: len(X)]} if isinstance(model, GroupedMixture) else {}
    found = [model.predict(X, **options), model.score_samples(X, **options), model.impute(X, **options)]
    if isinstance(model, Mixture):
        found += [model.predict_proba(X), model.predict_proba(X, n_top=2).toarray()]
    return found


# ---- missing cells in new rows ---------------------------------------------------------------------------------------

FAMILIES = {
    "auto": rows,
    "gaussian_diag": rows,
    "lognormal": lambda: np.exp(rows() / 8),
    "exponential": lambda: np.abs(rows()),
    "poisson": counts,
    "geometric": counts,
    "negative_binomial": counts,
    "categorical": lambda: np.minimum(counts(), 9.0),
    "bernoulli": lambda: (rows() > 8.0).astype(float),
}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_new_rows_may_lack_cells_that_the_rows_of_the_fit_had(kind, family):
    X = FAMILIES[family]()
    model, new = fitted(kind, X, family), with_holes(X[:20])
    labels, scores, filled, *shares = answers(model, new)
    assert np.isfinite(scores).all()
    assert not np.isnan(filled).any()
    assert all(np.isfinite(share).all() for share in shares)
    whole = ~np.isnan(new).any(axis=1)
    if kind is not GroupedMixture:  # there the others of the group have a part in it
        np.testing.assert_array_equal(labels[whole], model.predict(X[:20])[whole])
        np.testing.assert_allclose(scores[whole], model.score_samples(X[:20])[whole], rtol=1e-10, atol=1e-10)
        assert scores[3] == pytest.approx(0.0, abs=1e-10)  # no cell: probability 1


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_missing_cell_is_integrated_out(kind):
    model = fitted(kind, rows())
    numbers = np.linspace(-300.0, 300.0, 30_001)
    X = np.tile([8.0, np.nan, 7.5], (len(numbers), 1))
    X[:, 1] = numbers
    options = {"groups": np.arange(len(X))} if kind is GroupedMixture else {}
    if kind is GroupedMixture:
        pytest.skip("the cells of a row have a part in the weights of its group")
    density = np.exp(model.score_samples(X, **options))
    alone = np.exp(model.score_samples([[8.0, np.nan, 7.5]]))[0]
    assert np.trapezoid(density, numbers) == pytest.approx(alone, rel=1e-6)


def test_whole_rows_are_scored_as_before_rows_with_holes():
    mixture = fitted(Mixture, rows())
    before = mixture.score_samples(rows())
    mixture.score_samples(with_holes(rows()))
    np.testing.assert_array_equal(mixture.score_samples(rows()), before)


def test_a_fold_without_holes_scores_the_rows_that_have_them():
    X = rows()
    X[0, 1] = np.nan
    folds = KFold(3, shuffle=True, random_state=0)
    mixture = Mixture(n_components=3, n_steps=5, n_warmup=5, random_state=0)
    assert np.isfinite(cross_val_score(mixture, X, cv=folds, error_score="raise")).all()
    search = GridSearchCV(mixture, {"n_components": [2, 3]}, cv=folds, error_score="raise").fit(X)
    assert search.best_params_ == {"n_components": 3}
    frame = pd.DataFrame(X, columns=NAMES)
    assert np.isfinite(cross_val_score(mixture, frame, cv=folds, error_score="raise")).all()


@pytest.mark.parametrize("family", ["multinomial", "von_mises_fisher"])
def test_families_of_dependent_columns_refuse_missing_cells_of_new_rows_with_the_line_to_type(family):
    X = {"multinomial": counts(), "von_mises_fisher": rows() / np.linalg.norm(rows(), axis=1, keepdims=True)}
    X = X.get(family, rows())
    model = Mixture(family, 3, n_steps=2, n_warmup=2, random_state=0).fit(X)
    for call in (model.predict, model.predict_proba, model.score_samples):
        with pytest.raises(DataError, match=r"Mixture: row 3, column 0 is missing.*keep = ~numpy\.isnan\(.*X\[keep\]"):
            call(np.vstack([X[:3], np.full((1, 3), np.nan)]))
    with pytest.raises(CapabilityError, match=r"row 0 lacks|no cells of a table"):
        model.impute(np.where(np.eye(3) > 0, np.nan, X[:3]))


# ---- missing cells in the rows of a fit ------------------------------------------------------------------------------


def line_of(error):
    """The line to type in a message: the call of an estimator with a family."""
    return re.search(r"(?:write|that takes holes is) ((\w+)\(.*?\)\)*)(?=, or|;|$)", str(error.value))[1]


@pytest.mark.parametrize(
    "family",
    ["gaussian_diag", "gaussian", "lognormal", "poisson", "bernoulli", "categorical", DiagonalGaussian(shape=3.0)],
    ids=str,
)
@pytest.mark.parametrize("kind", [Mixture, BayesianHierarchy], ids=lambda kind: kind.__name__)
def test_the_error_of_a_fit_with_holes_has_a_line_that_fits(kind, family):
    X = FAMILIES.get(family if isinstance(family, str) else "auto", rows)()
    X[5, 1] = np.nan
    model = kind(family, n_components=3, random_state=0)
    with pytest.raises(DataError, match=r"Input X contains NaN: \w+: row 5, column 1 is missing") as error:
        model.fit(X)
    assert "HistGradientBoosting" not in str(error.value)
    line = line_of(error)
    assert "n_components=3, random_state=0" in line
    made = eval(line, {"Bernoulli": Bernoulli} | {name: getattr(expfam, name) for name in expfam.__all__})
    assert type(made) is kind
    made.fit(X)
    assert getattr(made.family, "shape", 3.0) in (2.0, 3.0)


def test_the_line_repeats_the_settings_of_the_family():
    X = rows()
    X[5, 1] = np.nan
    with pytest.raises(DataError, match=r"write GroupedMixture\(DiagonalGaussian\(shape=3\.0, missing=True\), n_comp"):
        GroupedMixture(DiagonalGaussian(shape=3.0), 3).fit(X, groups=GROUPS)


def test_counts_of_words_are_never_missing():
    X = counts()
    X[5, 1] = np.nan
    with pytest.raises(DataError, match=r"TopicModel: row 5, column 1 is missing.*X = numpy\.nan_to_num\(X\)"):
        TopicModel(2).fit(X)
    topics = TopicModel(2, n_steps=2, random_state=0).fit(counts())
    with pytest.raises(DataError, match="row 5, column 'b' is missing"):
        TopicModel(2).fit(pd.DataFrame(X, columns=NAMES))
    with pytest.raises(DataError, match="row 5, column 1 is missing"):
        topics.transform(X)


def test_a_tag_says_whether_a_fit_takes_holes():
    assert not get_tags(Mixture("poisson")).input_tags.allow_nan
    assert get_tags(Mixture()).input_tags.allow_nan


# ---- missing cells in later chunks -----------------------------------------------------------------------------------

SCHEDULES = {
    "memoized": SparseVariational(3),
    "float32": SparseVariational(3, dtype="float32"),
    "stochastic": SparseVariational(3, schedule=Stochastic(40, n_total=120)),
}


def learned(family, X, sampler, n_passes=1):
    mixture = Mixture(family, 3, sampler=sampler, start="random", random_state=0)  # "auto" looks at later chunks too
    for place in range(3 * n_passes):
        name = place % 3 if isinstance(sampler.stream_schedule(), Memoized) else None
        mixture.partial_fit(X[CHUNKS[place % 3]], batch=name)
    return mixture


@pytest.mark.parametrize("sampler", SCHEDULES.values(), ids=SCHEDULES)
@pytest.mark.parametrize(("family", "open_family"), [
    ("auto", Columns([(DiagonalGaussian(), (0, 1, 2))], holes="any")),
    ("gaussian_diag", Columns([(DiagonalGaussian(), (0, 1, 2))], holes="any")),
    ("poisson", Columns([(Poisson(), (0, 1, 2))], holes="any")),
])  # fmt: skip
def test_a_later_chunk_may_lack_cells(family, open_family, sampler):
    """It is the same as if the first chunk had been learned by a family that is open for all holes."""
    X = with_holes(rows() if family != "poisson" else counts(), first=80)
    mixture, expected = (learned(one, X, sampler, n_passes=2) for one in (family, open_family))
    rtol = 1e-4 if sampler.dtype == "float32" else 1e-10
    np.testing.assert_allclose(mixture.n_, expected.n_, rtol=rtol)
    assert mixture.log_joint_ == pytest.approx(expected.log_joint_, rel=rtol)
    np.testing.assert_allclose(mixture.score_samples(X), expected.score_samples(X), rtol=rtol, atol=rtol)


def test_passes_over_chunks_of_which_a_later_one_lacks_cells():
    X = with_holes(rows(), first=80)
    chunks = [X[chunk] for chunk in CHUNKS]
    family = Columns([(DiagonalGaussian(), (0, 1, 2))], holes="any")
    found, expected = (
        Mixture(one, 3, sampler="variational", n_steps=4, start="random", random_state=0).fit_chunks(chunks)
        for one in ("auto", family)
    )
    assert found.log_joint_ == pytest.approx(expected.log_joint_, rel=1e-12)
    once = Mixture(n_components=3, sampler="variational", random_state=0).fit_chunks(iter(chunks))
    assert np.isfinite(once.score_samples(X)).all()


@pytest.mark.parametrize("kind", [Mixture, GroupedMixture])
@pytest.mark.parametrize("in_passes", [False, True])
@pytest.mark.parametrize("family", ["auto", "gaussian_diag", "poisson"])
def test_a_start_from_several_chunks_leaves_out_rows_that_lack_cells(family, in_passes, kind):
    rng, y = np.random.default_rng(0), np.arange(200) % 2
    X = rng.poisson(2.0 + 40.0 * y[:, None], (200, 2)).astype(float)
    X[150:170, 1] = np.nan
    mixture = kind(family, 2, sampler="variational", random_state=0)
    parts = [
        {"X": part} | ({"groups": np.arange(100) // 50} if kind is GroupedMixture else {})
        for part in (X[:100], X[100:])
    ]
    if in_passes:
        mixture.fit_chunks([tuple(part.values()) if len(part) > 1 else part["X"] for part in parts])
    else:
        for part in parts:
            mixture.partial_fit(**part)
    np.testing.assert_allclose(mixture.n_, 100.0, atol=1.0)


def test_chunks_with_holes_after_a_fit_of_whole_rows_and_after_loading(tmp_path):
    X = with_holes(rows(), first=80)
    mixture = Mixture(n_components=3, sampler="variational", random_state=0).fit(X[:80])
    mixture.partial_fit(X[80:])
    assert mixture.n_.sum() == pytest.approx(120)
    mixture.save(tmp_path / "model")
    loaded = Mixture.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.score_samples(X), mixture.score_samples(X))
    for model in (mixture, loaded):
        model.partial_fit(X[80:])
    np.testing.assert_array_equal(loaded.n_, mixture.n_)


def test_groups_in_chunks_of_which_a_later_one_lacks_cells():
    X = with_holes(rows(), first=80)
    family = Columns([(DiagonalGaussian(), (0, 1, 2))], holes="any")
    models = [GroupedMixture(one, 3, sampler="variational", start="random", random_state=0) for one in ("auto", family)]
    for model in models:
        for place in range(6):
            model.partial_fit(X[CHUNKS[place % 3]], groups=GROUPS[:40], batch=place % 3)
    assert models[0].log_joint_ == pytest.approx(models[1].log_joint_, rel=1e-12)
    passes = [(X[chunk], GROUPS[:40]) for chunk in CHUNKS]
    found, expected = (
        GroupedMixture(one, 3, sampler="variational", n_steps=3, start="random", random_state=0).fit_chunks(passes)
        for one in ("auto", family)
    )
    assert found.log_joint_ == pytest.approx(expected.log_joint_, rel=1e-12)
    resumed = GroupedMixture(n_components=3, sampler="variational", random_state=0).fit(X[:80], groups=GROUPS[:80])
    assert np.isfinite(resumed.partial_fit(X[80:], groups=GROUPS[:40]).log_joint_)


def test_mixtures_that_learned_chunks_with_and_without_holes_are_merged():
    X = with_holes(rows(), first=80)
    common = Mixture(n_components=3, sampler="variational", random_state=0).partial_fit(X[:40])
    parts = [copy.deepcopy(common).partial_fit(X[chunk]) for chunk in CHUNKS[1:]]
    merged = merge(parts, common=common)
    assert merged.n_.sum() == pytest.approx(120)
    assert np.isfinite(merged.score_samples(X)).all()


# ---- frames ----------------------------------------------------------------------------------------------------------


def frame_of(X):
    return pd.DataFrame(X, columns=NAMES)


@pytest.mark.parametrize("family", ["auto", "gaussian_diag"])
@pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_columns_of_floats_are_matched_by_name(kind, make, family):
    df = frame_of(rows())
    model = fitted(kind, make(df), family)
    assert model.feature_names_in_.tolist() == NAMES
    for expected, found in zip(answers(model, make(df)), answers(model, make(df[["c", "a", "b"]]))):
        if isinstance(found, np.ndarray):
            np.testing.assert_array_equal(found, expected)
    options = {"groups": GROUPS} if kind is GroupedMixture else {}
    with pytest.warns(DataWarning, match="has columns that were not there at fit, which are ignored: 'note'"):
        model.predict(make(df.assign(note="x")), **options)
    with pytest.raises(DataError, match=r"only at fit 'b'; only now 'z'.*feature names"):
        model.predict(make(df.rename(columns={"b": "z"})), **options)


@pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES)
def test_frames_fit_as_their_arrays(make):
    whole, df = fitted(Mixture, rows()), frame_of(rows())
    found = fitted(Mixture, make(df))
    np.testing.assert_array_equal(found.labels_, whole.labels_)
    assert found.log_joint_ == whole.log_joint_
    kinds = (found.clusters_, found.explain(), found.sample(2)[0], found.impute(make(frame_of(with_holes(rows())))))
    assert all(type(result) is type(make(df)) for result in kinds)


@pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_cells_of_frames_may_be_missing_in_any_way(kind, make):
    model = fitted(kind, make(frame_of(rows())))
    new = frame_of(with_holes(rows()[:20]))
    expected = answers(fitted(kind, rows()), new.to_numpy())
    other = new.assign(b=new["b"].round().astype("Int64"), c=new["c"].astype("Float64"))
    for frame in (make(new), make(new[NAMES[::-1]])):
        np.testing.assert_array_equal(answers(model, frame)[0], expected[0])
    assert np.isfinite(answers(model, make(other))[1]).all()


BAD = {
    "text": (lambda df: df.assign(b="long"), DataTypeError, "column 'b' held numbers at fit; row 0 holds 'long'"),
    "mixed": (
        lambda df: df.assign(b=df["b"].astype(object).mask(df.index == 4, "long")),
        DataTypeError,
        "column 'b' mixes values of several types: row 0 holds .* row 4 holds 'long'",
    ),
    "dates": (
        lambda df: df.assign(b=pd.Timestamp("2020-01-01")),
        DataTypeError,
        "column 'b' held numbers at fit; row 0 holds 'a date'",
    ),
    "infinity": (lambda df: df.assign(b=df["b"].mask(df.index == 4, np.inf)), DataError, "column 'b', row 4 holds inf"),
    "no row": (lambda df: df[:0], DataError, r"Mixture: the frame has no rows"),
    "no column": (lambda df: df[[]], DataError, "Mixture: the frame has no columns"),
}


@pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES)
@pytest.mark.parametrize(("change", "error", "message"), BAD.values(), ids=BAD)
def test_errors_name_column_and_row(change, error, message, make):
    df = frame_of(rows())
    model = fitted(Mixture, make(df))
    try:
        bad = make(change(df))
    except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError):
        pytest.skip("the library has no such columns")
    for call in (model.predict, model.predict_proba, model.score_samples, model.impute):
        with pytest.raises(error, match=message):
            call(bad)
    with pytest.raises(error, match=message):
        model.score_samples(bad, given=["a"])


LINES = {
    "pandas": r"df\['b'\] = pd.to_numeric\(df\['b'\], errors='coerce'\)",
    "polars": r"df = df.with_columns\(pl.col\('b'\).cast\(pl.Float64, strict=False\)\)",
    "pyarrow": r"df = df.to_pandas\(\); df\['b'\] = pd.to_numeric\(df\['b'\], errors='coerce'\)",
}


@pytest.mark.parametrize("library", FRAMES)
@pytest.mark.parametrize("make_fit", [lambda df: df, lambda df: df.assign(d=list("pqr") * 40)])
def test_text_for_numbers_is_refused_with_a_line_that_mends_it(library, make_fit):
    df = make_fit(frame_of(rows()))
    model = fitted(Mixture, FRAMES[library](df))
    X = FRAMES[library](df.assign(b=["?", *df["b"].round(3).astype(str)[1:]]))
    with pytest.raises(DataTypeError, match=f"column 'b' held numbers at fit; .*{LINES[library]}") as error:
        model.predict(X)
    scope = {"df": X, "pd": pd, "pl": pl}
    exec(str(error.value).rsplit("missing: ", 1)[1], scope)
    assert len(model.predict(scope["df"])) == 120


@pytest.mark.parametrize("family", ["gaussian_diag", "poisson"])
def test_a_named_family_refuses_text_by_the_column(family):
    df = frame_of(counts()).assign(b="long")
    with pytest.raises(DataTypeError, match=r"column 'b'.*row 0.*'long'"):
        Mixture(family, 3).fit(df)


def test_columns_without_names_are_read_by_position():
    df = pd.DataFrame(rows(), columns=[7, 8, 9])
    model = fitted(Mixture, df)
    assert not hasattr(model, "feature_names_in_")
    np.testing.assert_array_equal(model.predict(rows()), model.predict(df))
    new = pd.DataFrame(with_holes(rows()), columns=[7, 8, 9])
    assert list(model.impute(new)) == [7, 8, 9]
    assert not model.impute(new).isna().any().any()
    with pytest.raises(DataTypeError, match=r"X\.columns = X\.columns\.astype\(str\)"):
        Mixture().fit(df.rename(columns={7: "a"}))


def test_none_in_lists_and_arrays_of_objects_is_a_missing_cell():
    X = with_holes(rows())
    cells = [[None if np.isnan(cell) else cell for cell in row] for row in X.tolist()]
    expected = fitted(Mixture, X)
    for given in (cells, np.array(cells, dtype=object)):
        np.testing.assert_array_equal(fitted(Mixture, given).labels_, expected.labels_)
        np.testing.assert_array_equal(expected.predict(given), expected.predict(X))
        np.testing.assert_array_equal(fitted(Mixture, rows()).predict(given), fitted(Mixture, rows()).predict(X))


@pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES)
def test_chunks_of_frames_and_what_is_made_of_mixtures(make):
    df, other = frame_of(rows()), frame_of(with_holes(rows()))[["c", "a", "b"]]
    mixture = Mixture(n_components=3, sampler="variational", random_state=0).partial_fit(make(df))
    found = copy.deepcopy(mixture).partial_fit(make(other))
    expected = copy.deepcopy(Mixture(n_components=3, sampler="variational", random_state=0).partial_fit(rows()))
    np.testing.assert_array_equal(found.n_, expected.partial_fit(with_holes(rows())).n_)
    for made in (found.coarsen(2), merge([found], common=mixture)):
        assert type(made.clusters_) is type(make(df))


def test_names_of_an_earlier_fit_are_forgotten():
    model = fitted(Mixture, FRAMES["polars"](frame_of(rows())))
    assert isinstance(model.clusters_, pl.DataFrame)
    model.fit(rows())
    assert not hasattr(model, "feature_names_in_")
    assert isinstance(model.explain(), np.ndarray)


def test_topics_match_words_by_name():
    df = frame_of(counts())
    model = TopicModel(2, n_steps=5, random_state=0).fit(df)
    np.testing.assert_array_equal(model.transform(df[["c", "a", "b"]]), model.transform(df))


def test_sparse_columns_of_pandas_stay_sparse():
    df = frame_of(counts()).astype(pd.SparseDtype("float64", 0.0))
    model = Mixture("multinomial", 2, n_steps=3, n_warmup=3, random_state=0).fit(df)
    dense = Mixture("multinomial", 2, n_steps=3, n_warmup=3, random_state=0).fit(frame_of(counts()))
    np.testing.assert_array_equal(model.predict(df[["c", "a", "b"]]), dense.predict(frame_of(counts())))
    assert not isinstance(model.S_, np.ndarray)


# ---- no rows ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("X", [np.empty((0, 3)), np.empty((0, 3), dtype=np.float32), frame_of(rows())[:0]])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_no_rows_are_refused_by_every_method(kind, X):
    model = fitted(kind, frame_of(rows()) if isinstance(X, pd.DataFrame) else rows())
    options = {"groups": []} if kind is GroupedMixture else {}
    calls = [model.predict, model.score_samples, model.impute, model.score]
    calls += [model.predict_proba] if kind is Mixture else []
    calls += [model.transform] if kind is GroupedMixture else []
    for call in calls:
        with pytest.raises(ValueError, match=r"0 sample\(s\)"):
            call(X, **options)
    with pytest.raises(ValueError, match=r"0 sample\(s\)|has no rows"):
        fitted(kind, X)


def test_no_documents_and_no_rows_of_a_chunk():
    topics = TopicModel(2, n_steps=2, random_state=0).fit(counts())
    with pytest.raises(ValueError, match=r"0 sample\(s\)"):
        topics.transform(np.empty((0, 3)))
    mixture = Mixture(n_components=3, sampler="variational", random_state=0).partial_fit(rows())
    with pytest.raises(ValueError, match=r"0 sample\(s\)"):
        mixture.partial_fit(np.empty((0, 3)))


# ---- values that a family does not take ------------------------------------------------------------------------------


def negative(frame):
    """The same counts, of which one is negative."""
    return frame.assign(b=frame["b"].mask(frame.index == 6, -1.0))


@pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_errors_of_a_family_name_the_column_of_a_frame(kind, make):
    df = frame_of(counts())
    message = r"poisson needs .* row 6, column 'b' holds -1\.0"
    with pytest.raises(SupportError, match=message):
        fitted(kind, make(negative(df)), "poisson")
    model = fitted(kind, make(df), "poisson")
    options = {"groups": GROUPS} if kind is GroupedMixture else {}
    for call in (model.predict, model.score_samples, model.impute):
        with pytest.raises(SupportError, match=message):
            call(make(negative(df).assign(a=df["a"].mask(df.index == 9))), **options)
    with pytest.raises(SupportError, match="row 6, column 1 holds -1"):
        fitted(kind, negative(df).to_numpy(), "poisson")


def test_errors_of_chunks_and_documents_name_the_column_of_a_frame():
    df = frame_of(counts())
    mixture = Mixture("poisson", 2, sampler="variational", random_state=0)
    with pytest.raises(SupportError, match="row 6, column 'b' holds"):
        mixture.partial_fit(negative(df))
    with pytest.raises(SupportError, match="row 6, column 'b' holds"):
        mixture.partial_fit(df).partial_fit(negative(df))
    with pytest.raises(SupportError, match="row 6, column 'b' holds"):
        mixture.fit_chunks([df, negative(df)])
    with pytest.raises(DataError, match="row 6, column 'b' holds -1"):
        TopicModel(2).fit(negative(df))
    with pytest.raises(DataError, match="column 'a' has a standard deviation of"):
        Mixture().fit(frame_of(1e18 * rows()))
