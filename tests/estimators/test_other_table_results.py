"""What is read after the fit of a table by groups, trees and topics; drawn rows with holes and with types."""

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from expfam import BayesianHierarchy, Columns, GroupedMixture, Mixture, Multinomial, TopicModel
from expfam.errors import DataError

N = 120
GROUPS = np.arange(N) // 10
QUICK = {"n_steps": 8, "n_warmup": 4, "random_state": 0}


def clinic(seed=0):
    """Two plain kinds of rows, which the groups mix, with holes in a number and a text."""
    rng = np.random.default_rng(seed)
    z = (rng.random(N) < np.repeat(rng.choice([0.1, 0.9], 12), 10)).astype(int)
    df = pd.DataFrame(
        {
            "mass": np.exp(rng.normal(3 + 2 * z, 0.3)),
            "bill": rng.normal(8 * z, 1),
            "sex": np.where((rng.random(N) < 0.9) == z, "m", "f"),
            "eggs": rng.poisson(5 + 60 * z),
        }
    )
    for name in ("mass", "sex"):
        df.loc[rng.random(N) < 0.15, name] = None
    return df, z


TABLE, KINDS = clinic()


@pytest.fixture(scope="module")
def grouped():
    return GroupedMixture(n_components=2, **QUICK).fit(TABLE, groups=GROUPS)


@pytest.fixture(scope="module")
def tree():
    return BayesianHierarchy(random_state=0).fit(TABLE)


def new_rows():
    """Rows that lack cells which no row of the fit lacks."""
    new = TABLE.head(6).astype({"eggs": object})
    new.loc[1, "eggs"] = None
    new.loc[2, ["bill", "eggs"]] = None
    return new


# ---- groups ----------------------------------------------------------------------------------------------------------


def test_clusters_of_groups_and_trees_are_told_in_the_units_of_the_data(grouped, tree):
    for found in (grouped, tree):
        clusters = found.clusters_
        of_columns = ["mass", "mass_sd", "bill", "bill_sd", "sex", "sex_probability", "eggs", "eggs_sd"]
        assert list(clusters) == ["cluster", "size", "weight", *of_columns]
        assert clusters["size"].sum() == N
        assert set(clusters["sex"]) == {"f", "m"}
        assert set(found.explain(0)["column"]) == {"mass", "bill", "sex", "eggs"}
        assert found.explain(0)["column"][0] in ("eggs", "bill")


def test_rows_of_groups_are_scored_by_their_observed_cells(grouped):
    """Against a mixture of the same clusters with the weights of the group."""
    new, groups = new_rows(), np.array([0, 0, 0, 1, 1, 1])
    plain = Mixture(grouped.family_, 2, **QUICK, sampler="gibbs", learn_hyper=False).fit(TABLE)
    plain.n_, plain.S_, plain.log_weight_new_ = grouped.n_, grouped.S_, -np.inf
    for given in (None, ["bill", "eggs"]):
        found = grouped.score_samples(new, groups, given=given)
        seen = new if given is None else new.assign(mass=None, sex=None)
        for group, weights in enumerate(grouped.transform(seen, groups)):
            plain.weights_ = weights
            expected = plain.score_samples(new, given=given)
            np.testing.assert_allclose(found[groups == group], expected[groups == group], rtol=1e-9)


def test_cells_of_groups_are_filled_by_the_weights_of_their_group(grouped):
    plain = {}
    for kind in (0, 1):
        rows = TABLE[kind == KINDS].dropna().head(9)
        rows = pd.concat([rows, rows.head(1).assign(mass=np.nan, bill=np.nan, sex=None, eggs=np.nan)])
        filled = grouped.impute(rows, groups=np.zeros(10, dtype=int))
        plain[kind] = filled.iloc[-1]
        assert not filled.isna().any().any()
        draws = grouped.impute(rows, draws=3, groups=np.zeros(10, dtype=int))
        assert len({draw["bill"].iloc[-1] for draw in draws}) == 3
    assert plain[0]["bill"] < 3 < 5 < plain[1]["bill"]
    assert (plain[0]["sex"], plain[1]["sex"]) == ("f", "m")
    with pytest.raises(ValueError, match="needs groups="):
        grouped.impute(rows)
    with pytest.raises(DataError, match="groups"):
        grouped.impute(rows, groups=[0, 1])


def test_the_weights_of_groups_come_as_frames(grouped):
    grouped.set_output(transform="polars")
    weights = grouped.transform(TABLE, GROUPS)
    assert isinstance(weights, pl.DataFrame)
    assert weights.columns == ["groupedmixture0", "groupedmixture1"]
    assert isinstance(grouped.impute(TABLE, groups=GROUPS), pl.DataFrame)
    grouped.set_output(transform="default")
    assert type(grouped.transform(TABLE, GROUPS)) is np.ndarray


def test_chunks_of_groups_may_lack_cells_that_the_first_chunk_has():
    chunks = [
        (TABLE[:60], GROUPS[:60]),
        (TABLE[60:].assign(bill=TABLE.bill[60:].mask(TABLE.eggs > 70)), GROUPS[60:] - 6),
    ]
    found = GroupedMixture(n_components=2, sampler="variational", random_state=0).fit_chunks(chunks)
    assert found.n_.sum() == pytest.approx(N)


# ---- trees -----------------------------------------------------------------------------------------------------------


def test_cells_under_a_tree_are_those_under_the_average_of_its_cuts(tree):
    new = new_rows()
    only = new.assign(mass=None, bill=None)
    given = tree.score_samples(new, given=["sex", "eggs"])
    np.testing.assert_allclose(given, tree.score_samples(new) - tree.score_samples(only), rtol=1e-9)
    filled = tree.impute(new)
    assert not filled.isna().any().any()
    assert all(isinstance(value, int) for value in filled["eggs"].drop([1, 2]))
    again = BayesianHierarchy(n_components=3).fit(TABLE)
    assert len(again.clusters_) == 3
    assert again.score_samples(new) == pytest.approx(tree.score_samples(new))


def test_rows_are_drawn_from_the_clusters_of_the_cut(grouped, tree):
    for found in (grouped, tree):
        rows, clusters = found.sample(200)
        assert not rows.isna().any().any()
        assert rows["eggs"].dtype == np.int64
        shares = np.bincount(clusters) / 200
        np.testing.assert_allclose(shares, found.clusters_["weight"] / found.clusters_["weight"].sum(), atol=0.12)
    assert np.mean(tree.predict(tree.sample(200)[0]) == tree.sample(200)[1]) > 0.9


# ---- words -----------------------------------------------------------------------------------------------------------

WORDS = ["tea", "milk", "the", "car", "road"]


def texts():
    rng = np.random.default_rng(0)
    return rng.poisson(np.repeat([[4, 4, 3, 0.1, 0.1], [0.1, 0.1, 3, 4, 4]], 40, axis=0))


@pytest.mark.parametrize(
    "fit",
    [
        lambda X: TopicModel(2, vocabulary=WORDS, random_state=0, n_steps=30).fit(X.to_numpy()),
        lambda X: TopicModel(2, seeds={0: ["tea"]}, random_state=0, n_steps=30).fit(X),
        lambda X: GroupedMixture(Multinomial(), 2, **QUICK).fit(X, groups=np.arange(80) // 8),
        lambda X: BayesianHierarchy(Multinomial(), 2, random_state=0).fit(X),
    ],
    ids=["topics", "topics with seeds", "groups", "tree"],
)
def test_clusters_of_texts_have_their_typical_words(fit):
    found = fit(pd.DataFrame(texts(), columns=WORDS))
    assert sorted(set(words.split(", ")[:2]) == {"tea", "milk"} for words in found.clusters_["words"]) == [False, True]
    assert not any("the" in words.split(", ")[:2] for words in found.clusters_["words"])
    assert found.clusters_["weight"].sum() == pytest.approx(1, abs=0.05)
    assert isinstance(found.set_output(transform="polars").clusters_, pl.DataFrame)


def test_a_single_cluster_has_its_most_probable_words():
    found = Mixture(Multinomial(), 1, **QUICK).fit(pd.DataFrame(texts()[:40], columns=WORDS))
    assert set(found.clusters_["words"][0].split(", ")[:3]) == {"tea", "milk", "the"}


# ---- drawn rows ------------------------------------------------------------------------------------------------------


def holey(missing="ignorable"):
    """Two kinds of rows; of the second two thirds of a number, a text and two counts together are missing."""
    rng = np.random.default_rng(1)
    z = np.arange(400) // 200
    df = pd.DataFrame({"size": rng.normal(9 * z, 1), "kind": rng.choice(["a", "b", "c"], 400)})
    df["eggs"], df["hens"] = rng.poisson(3 + 40 * z), rng.poisson(4 + 50 * z)
    gone = (rng.random((400, 3)) < 2 / 3) & (z == 1)[:, None]
    df["width"] = rng.normal(size=400)
    df["width"] = df["width"].mask(gone[:, 0])
    df["kind"] = df["kind"].mask(gone[:, 1])
    for name in ("eggs", "hens"):
        df[name] = df[name].mask(gone[:, 2])
    family = Columns.from_frame(df, eggs="poisson", hens="poisson", missing=missing)
    return Mixture(family, 2, **QUICK).fit(df), df


@pytest.mark.parametrize("missing", ["ignorable", "informative"])
def test_drawn_rows_have_the_holes_of_their_clusters(missing):
    mixture, _ = holey(missing)
    whole, _ = mixture.sample(300)
    assert not whole.isna().any().any()
    rows, clusters = mixture.sample(3000, complete=False)
    second = mixture.predict(pd.DataFrame({"size": [9.0], "kind": ["a"], "eggs": [43], "hens": [54], "width": [0.0]}))
    gone = rows.isna().groupby(clusters == second[0]).mean()
    np.testing.assert_allclose(gone.loc[True, ["width", "kind", "eggs", "hens"]], 2 / 3, atol=0.06)
    assert (gone.loc[False] == 0).all()
    assert (gone["size"] == 0).all()
    assert (rows["eggs"].isna() == rows["hens"].isna()).all()
    filled = mixture.impute(rows.head(50), draws=1)[0]
    assert not filled.isna().any().any()


def test_complete_is_a_flag():
    mixture, _ = holey()
    with pytest.raises(ValueError, match="Mixture: sample: complete must be a bool; got 'no'"):
        mixture.sample(3, complete="no")
    with pytest.raises(ValueError, match="Mixture: sample: n_samples must be"):
        mixture.sample(0)


def typed():
    rng = np.random.default_rng(0)
    n = 60
    return {
        "eggs": rng.poisson(np.repeat([5, 500], 30)).tolist(),
        "shift": rng.integers(-900, 900, n).tolist(),
        "stars": rng.integers(1, 6, n).tolist(),
        "owner": (rng.random(n) < 0.4).tolist(),
        "grade": rng.choice(["low", "mid", "high"], n).tolist(),
        "when": [datetime.datetime(2020, 1, 1) + datetime.timedelta(hours=int(h)) for h in rng.integers(0, 9999, n)],
        "size": rng.normal(size=n).tolist(),
    }


def frames():
    cells = typed()
    pandas = pd.DataFrame(cells)
    declared = pandas.assign(
        grade=pd.Categorical(cells["grade"], ["low", "mid", "high", "top"], ordered=True),
        owner=pandas["owner"].mask(pandas.index == 3).astype("boolean"),
        eggs=pandas["eggs"].mask(pandas.index == 4).astype("Int64"),
    )
    polars = pl.DataFrame(cells).with_columns(pl.col("grade").cast(pl.Enum(["low", "mid", "high", "top"])))
    arrow = pa.table({**cells, "grade": pa.array(cells["grade"]).dictionary_encode()})
    return {"pandas": pandas, "declared": declared, "polars": polars, "arrow": arrow}


@pytest.mark.parametrize("form", ["pandas", "declared", "polars", "arrow"])
def test_drawn_rows_have_the_types_of_the_table(form):
    df = frames()[form]
    mixture = Mixture(Columns.from_frame(df, when="numeric"), 2, **QUICK).fit(df)
    drawn, _ = mixture.sample(40)
    assert type(drawn) is type(df)
    if form == "arrow":
        assert {f.name: pa.types.is_dictionary(f.type) for f in drawn.schema}["grade"]
        drawn, df = drawn.to_pandas(), df.to_pandas()
    if form == "polars":
        assert drawn.schema == df.schema
        drawn, df = drawn.to_pandas(), df.to_pandas()
    for name in ("eggs", "shift", "stars"):
        assert pd.api.types.is_integer_dtype(drawn[name])
    assert pd.api.types.is_bool_dtype(drawn["owner"])
    assert pd.api.types.is_datetime64_dtype(drawn["when"])
    assert drawn["when"].between("2019-01-01", "2023-01-01").all()
    if form == "declared":
        assert drawn["grade"].dtype == df["grade"].dtype
        rows, _ = mixture.sample(200, complete=False)
        assert (str(rows["eggs"].dtype), str(rows["owner"].dtype)) == ("Int64", "boolean")


@pytest.mark.parametrize("zone", [None, "Europe/Vienna"])
@pytest.mark.parametrize("form", ["pandas", "polars"])
def test_dates_are_filled_with_dates(form, zone):
    df = pd.DataFrame(typed())
    df["when"] = df["when"].dt.tz_localize(zone, ambiguous=True, nonexistent="shift_forward")
    df["span"] = df["when"] - df["when"].min()
    df.loc[5, ["when", "span"]] = None
    df = df if form == "pandas" else pl.from_pandas(df)
    mixture = Mixture(Columns.from_frame(df, when="numeric", span="numeric"), 2, **QUICK).fit(df)
    filled = mixture.impute(df)
    assert filled["when"].dtype == df["when"].dtype
    assert filled["span"].dtype == df["span"].dtype
    assert "2020" <= str(filled["when"][5]) < "2022"


def test_topics_and_numbers_keep_sizes_that_are_read():
    found = TopicModel(2, random_state=0, sampler="variational", n_steps=5).fit(texts()[:, :4])
    assert found.clusters_["size"].sum() == pytest.approx(texts()[:, :4].sum(), abs=0.3)
    assert all(set(words.split(", ")) <= set("0123") for words in found.clusters_["words"])
