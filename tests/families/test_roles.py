"""Roles of columns: each rule with a table of its own, what is printed, and every message."""

import datetime
import json
import re
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from expfam import Categorical, Columns, DiagonalGaussian, Gaussian, LogNormal, Mixture, Poisson
from expfam.errors import DataError, DataTypeError, DataWarning, SupportError
from expfam.families.columns.inference import infer_roles
from expfam.families.columns.kinds.choice import column_evidence, spread_ties
from expfam.families.columns.roles import ColumnRole, Roles
from expfam.families.trials.bernoulli import Bernoulli

N = 60
RNG = np.random.default_rng(0)
KEPT = np.arange(N) % 3 * 1.5 - 1  # a column that keeps the table from being empty


def role_of(values, **by_column):
    """Role of one column beside a plain one; warnings are errors elsewhere."""
    X = pd.DataFrame({"x": values, "kept": np.resize(KEPT, len(values)) - 0.25})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        return infer_roles(X, None, by_column).roles[0]


def facts(role):
    return role.role, role.family, role.n_levels


# ---- the rules, in their order ---------------------------------------------------------------------------------------

RULES = {
    "booleans": ([True, False] * 30, ("binary", "categorical", 2)),
    "two texts": (["yes", "no"] * 30, ("category", "categorical", 3)),  # new rows may bring a third
    "two declared texts": (pd.Categorical(["yes", "no"] * 30), ("binary", "categorical", 2)),
    "two numbers": ([0.5, 7.5] * 30, ("binary", "categorical", 2)),
    "two integers with holes": ([0, 1, None] * 20, ("binary", "categorical", 2)),
    "texts": (["a", "b", "c"] * 20, ("category", "categorical", 4)),
    "declared levels": (pd.Categorical(["a", "b", "c"] * 20), ("category", "categorical", 3)),
    "declared, one never seen": (
        pd.Categorical(["a", "b"] * 30, categories=["a", "b", "c"]),
        ("category", "categorical", 3),
    ),
    "few integers": (list(range(-5, 15)) * 3, ("category", "categorical", 21)),
    "few integers with holes": ([3.0, 1.0, 2.0, None] * 15, ("category", "categorical", 4)),
    "row numbers": (np.arange(N) * 5 + 100, ("dropped", "", 0)),
    "shuffled row numbers": (RNG.permutation(N), ("dropped", "", 0)),
    "constant": (["a"] * N, ("dropped", "", 0)),
    "constant with holes": ([2.5, None] * 30, ("dropped", "", 0)),
    "nothing": ([None] * N, ("dropped", "", 0)),
    "ids": ([f"id{i}" for i in range(N)], ("dropped", "", 0)),
    "integers of both signs": (RNG.normal(scale=30, size=N).astype(int), ("real", "gaussian_diag", 0)),
    "Poisson counts": (RNG.poisson(50, 2000), ("count", "poisson", 0)),
    "spread counts": (RNG.negative_binomial(2, 0.05, 2000), ("count", "lognormal", 0)),
    "counts about two means": (np.rint(RNG.normal([1000, 2000], 10, (500, 2))).ravel(), ("real", "gaussian_diag", 0)),
    "account numbers of 14 digits": (RNG.integers(10**13, 10**14, N), ("dropped", "", 0)),
    "account numbers of 16 digits": (RNG.integers(10**15, 10**16, N), ("dropped", "", 0)),
    "account numbers with holes": ([None, *RNG.integers(10**13, 10**14, N - 1).tolist()], ("dropped", "", 0)),
    "account numbers of many rows": (
        np.resize(10**15 + 7919 * 10**11 * np.arange(25) ** 2, N),
        ("category", "categorical", 26),
    ),
    "amounts of 14 digits": (np.resize(RNG.integers(10**13, 10**14, 40), N), ("count", "gaussian_diag", 0)),
    "numbers of 64 bits": (RNG.integers(0, 2**63, N).astype("u8") * 2, ("dropped", "", 0)),
    "integers of 310 digits": ([10**309 + i * i for i in range(N)], ("dropped", "", 0)),
    "integers of 26 digits": ([10**25 + i % 7 for i in range(N)], ("category", "categorical", 8)),
    "large amounts": (np.exp(RNG.normal(size=N)) * 1e20, ("positive", "lognormal", 0)),
    "dates": (pd.date_range("2020-01-01", periods=N), ("dropped", "", 0)),
    "days": ([datetime.date(2020, 1, 1 + i % 28) for i in range(N)], ("dropped", "", 0)),
    "durations": (pd.to_timedelta(np.arange(N), unit="h"), ("dropped", "", 0)),
    "periods": (pd.period_range("2020", periods=N, freq="M"), ("dropped", "", 0)),
    "times of day": ([datetime.time(i % 24) for i in range(N)], ("dropped", "", 0)),
    "intervals": (pd.cut(KEPT, 3), ("category", "categorical", 3)),
    "amounts": (np.exp(RNG.normal(0, 2, N)), ("positive", "lognormal", 0)),
    "positive and symmetric": (RNG.normal(100, 1, N), ("real", "gaussian_diag", 0)),
    "floats of both signs": (RNG.normal(size=N), ("real", "gaussian_diag", 0)),
    "floats with zero": (np.abs(RNG.normal(size=N)) * (np.arange(N) > 0), ("real", "gaussian_diag", 0)),
}


@pytest.mark.parametrize(("values", "found"), RULES.values(), ids=RULES)
def test_rule(values, found):
    assert facts(role_of(values)) == found


INTEGERS = {
    "rating": RNG.integers(1, 6, N),
    "count": RNG.poisson(40, N),
    "sign": RNG.integers(-50, 50, N),
    "flag": RNG.integers(0, 2, N),
}


def roles_of(X):
    return [(role.role, role.family, role.levels) for role in infer_roles(X).roles]


@pytest.mark.parametrize("has_text", [False, True])
def test_a_hole_does_not_change_what_integers_are(has_text):
    whole = pd.DataFrame(INTEGERS)
    if has_text:
        whole["kind"] = ["a", "b", "c"] * (N // 3)
    gone = whole.copy()
    for row, name in enumerate(INTEGERS):
        gone.loc[row, name] = None
    assert gone.dtypes["rating"] == np.float64
    assert roles_of(gone) == roles_of(whole)
    kept = gone.astype(dict.fromkeys(INTEGERS, "Int64"))
    assert roles_of(kept) == roles_of(whole)
    assert roles_of(pl.from_pandas(gone)) == roles_of(whole)


@pytest.mark.parametrize("make", [pd.DataFrame, pl.from_pandas, pa.Table.from_pandas])
def test_a_hole_does_not_change_what_floats_are(make):
    whole = pd.DataFrame(INTEGERS).drop(columns="flag").astype(float)
    gone = whole.copy()
    gone.loc[0, "rating"] = None
    assert roles_of(make(gone)) == roles_of(make(whole)) == [("real", "gaussian_diag", [])] * 3
    coded = whole.assign(rating=np.where(np.arange(N) == 0, -9.0, whole["rating"]))
    assert infer_roles(make(coded), missing_values={"rating": -9}).roles[0].role == "real"


def test_two_values_without_a_hole_do_not_tell_that_floats_are_meant():
    gone = pd.DataFrame(INTEGERS).astype(float)[["rating", "flag"]]
    gone.loc[0, "rating"] = None
    assert [role for role, _, _ in roles_of(gone)] == ["category", "binary"]


def test_whole_numbers_are_counts_also_beyond_few_values():
    X = np.rint(RNG.normal([1000, 2000], 10, (500, 2))).ravel().astype(int)
    assert facts(role_of(X)) == ("count", "gaussian_diag", 0)


def test_counts_that_differ_by_factors_are_log_normal_halves_above():
    role = role_of(np.floor(np.exp(RNG.normal(9, 1.0, 2000))).astype(int))
    assert (role.role, role.family, role.offset) == ("count", "lognormal", 0.5)


def test_many_levels_are_dropped_unless_named():
    names = [f"n{i % 40}" for i in range(80)]
    X = pd.DataFrame({"x": names, "y": KEPT.tolist() + KEPT[:20].tolist()})
    with pytest.warns(DataWarning, match=r"'x' \(40 levels, more than max_levels=39: x='category' keeps it\)"):
        infer_roles(X, max_levels=39)
    assert infer_roles(X, max_levels=40).roles[0].n_levels == 41
    assert infer_roles(X, None, {"x": "category"}, max_levels=3).roles[0].n_levels == 41


def test_roles_do_not_depend_on_the_order_of_rows():
    X = pd.DataFrame({name: np.resize(np.asarray(values, dtype=object), 2000) for name, (values, _) in RULES.items()})
    X = X.drop(columns=[name for name, (_, found) in RULES.items() if found[0] == "dropped"])
    X["floats with zero"] = X["floats with zero"].astype(float)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        assert infer_roles(X) == infer_roles(X.sample(frac=1.0, random_state=1))


def test_a_unit_changes_no_role():
    values = np.exp(RNG.normal(0, 2, N))
    assert facts(role_of(values)) == facts(role_of(1e6 * values))


def test_repeated_values_are_spread_over_their_cell():
    assert spread_ties(np.array([1.0, 1.0, 4.0]), 1.0).tolist() == [0.75, 1.25, 4.0]
    tied = np.sort(np.rint(RNG.normal(0, 2, 200)))
    cells = column_evidence(DiagonalGaussian(), spread_ties(tied, 1.0))
    assert cells < 0 < 10 < column_evidence(DiagonalGaussian(), np.repeat(0.1 * tied[::50], 50)) - cells


def test_evidence_of_two_values_is_that_of_their_partitions():
    X, family = np.array([[0.0], [1.0]]), DiagonalGaussian()
    bound = family.bind(X)
    phi = bound.sufficient_statistics(X)
    apart = bound.log_marginal(np.ones(2), phi).sum()
    together = bound.log_marginal(np.array([2.0]), phi.sum(axis=0)[None])[0]
    exact = np.logaddexp(np.log(0.5) + apart, np.log(0.5) + together) + bound.log_base(X).sum()
    assert column_evidence(family, X[:, 0]) == pytest.approx(exact, abs=1e-12)


# ---- what is printed -------------------------------------------------------------------------------------------------

TABLE = {
    "id": [f"p{i}" for i in range(N)],
    "site": ["here"] * N,
    "sex": ["f", "m", None] * 20,
    "grade": [1, 2, 3, 4] * 15,
    "height": np.linspace(-1.2, 2.1, N) ** 3 + 170,
    "debt": np.exp(np.linspace(0, 9, N) + np.sin(np.arange(N))),
    "balance": [None, *np.linspace(-3.3, 4.4, N - 1)],
}
PRINTED = """\
 column     role        family  levels  missing part                                      note
     id  dropped                     0        0          looks like an id: id='category' keeps it
   site  dropped                     0        0                         all cells hold 'here'
    sex category   categorical       3       20    0
  grade category   categorical       5        0    0
 height     real gaussian_diag       0        0    1
   debt positive     lognormal       0        0    2
balance     real gaussian_diag       0        1    1"""


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "pyarrow"])
def test_roles_as_they_are_printed(make):
    with pytest.warns(DataWarning, match=r"Columns: 2 columns are left out: 'id' \(looks.*'site' \(all cells hold"):
        family = Columns.from_frame(make(TABLE))
    roles = Roles(family.roles)
    for backend in ("pandas", "polars", "pyarrow"):
        assert type(roles.frame(family.parts, backend=backend)).__module__.startswith(backend)
    found = roles.frame(family.parts).to_string(index=False)
    assert [line.split() for line in found.splitlines()] == [line.split() for line in PRINTED.splitlines()]
    assert repr(roles).startswith("Roles(id: dropped, site: dropped, sex: categorical")


@pytest.mark.filterwarnings("ignore::expfam.errors.DataWarning")
def test_the_warning_names_the_line_of_the_user():
    with pytest.warns(DataWarning) as caught:
        Columns.from_frame(pd.DataFrame(TABLE))
    assert caught[0].filename == __file__


@pytest.mark.filterwarnings("ignore::expfam.errors.DataWarning")
def test_roles_are_written_as_json_edited_and_read_back():
    X = pd.DataFrame(TABLE)
    family = Columns.from_frame(X)
    again = Columns.from_frame(X, roles=json.loads(json.dumps(list(family.roles))))
    assert again.roles == family.roles
    assert again.parts == family.parts
    edited = [dict(role) for role in json.loads(json.dumps(list(family.roles)))]
    edited[4] = {"column": "height", "role": "positive"}
    edited[5] = {"column": "debt", "family": "gaussian_diag", "settings": {"shape": 3.0}}
    other = Columns.from_frame(X, roles=edited, balance="drop")
    assert [role["family"] for role in other.roles] == [
        "",
        "",
        "categorical",
        "categorical",
        "lognormal",
        "gaussian_diag",
        "",
    ]
    assert [type(family).__name__ for family, _ in other.parts] == ["Categorical", "LogNormal", "DiagonalGaussian"]
    assert other.parts[2][0].shape == 3.0


# ---- what the user says ----------------------------------------------------------------------------------------------

ASKED = {
    "family": (LogNormal(), [1.0, 2.0, 3.5] * 20, ("positive", "lognormal", 0)),
    "name of a family": ("poisson", [1, 2, 3] * 20, ("count", "poisson", 0)),
    "category of floats": ("category", [1.5, 2.5, 3.5] * 20, ("category", "categorical", 4)),
    "binary": ("binary", [1, 2] * 30, ("binary", "categorical", 2)),
    "count": ("count", RNG.poisson(3, N), ("count", "poisson", 0)),
    "real": ("real", [1, 2, 3] * 20, ("real", "gaussian_diag", 0)),
    "positive": ("positive", [1, 2, 3] * 20, ("positive", "lognormal", 0)),
    "category of ids": ("category", [f"id{i}" for i in range(N)], ("category", "categorical", N + 1)),
    "Bernoulli": (Bernoulli(), ["a", "b"] * 30, ("binary", "bernoulli", 2)),
    "categories with a prior": (Categorical(concentration=2.0), ["a", "b", "c"] * 20, ("category", "categorical", 4)),
}


@pytest.mark.parametrize(("wish", "values", "found"), ASKED.values(), ids=ASKED)
def test_a_column_is_what_the_user_says(wish, values, found):
    role = role_of(values, x=wish)
    if isinstance(wish, str) and wish == "count":
        found = (found[0], role.family, 0)
    assert facts(role) == found


def test_equal_families_share_a_part_and_others_do_not():
    X = pd.DataFrame({name: np.exp(RNG.normal(size=N)) for name in "abcd"})
    family = Columns.from_frame(X, a=LogNormal(), b=LogNormal(shape=3.0), c=LogNormal(), d=Gaussian())
    assert [columns for _, columns in family.parts] == [(0, 2), (1,), (3,)]
    assert family.names == ("a", "b", "c", "d")
    assert family.roles[1]["settings"] == {"shape": 3.0}


def test_dates_as_numbers_are_seconds_since_the_earliest():
    X = pd.DataFrame({"when": pd.to_datetime(["2020-01-02", "2020-01-01", None, "2020-01-05"]), "y": [0.5, -1, 2, 3]})
    roles = infer_roles(X, None, {"when": "numeric"})
    assert roles.encode(X)[:, 0].tolist()[:2] == [86400.0, 0.0]
    assert np.isnan(roles.encode(X)[2, 0])
    assert np.array_equal(Roles(json.loads(json.dumps(roles.to_list()))).encode(X), roles.encode(X), equal_nan=True)
    assert infer_roles(X, None, {"when": "drop"}).names == ("y",)


LEFT_OUT = {
    "dates": (
        pd.date_range("2020-01-01", periods=N),
        r"'x' \(dates: Columns\.from_frame\(df, x='numeric'\) takes it in as seconds since the earliest\)",
    ),
    "durations": (
        pd.to_timedelta(np.arange(N), unit="h"),
        r"'x' \(durations: Columns\.from_frame\(df, x='numeric'\) takes it in as seconds from the shortest\)",
    ),
    "periods": (pd.period_range("2020", periods=N, freq="M"), r"'x' \(periods or times of day: convert them to dates"),
    "14 digits": (
        RNG.integers(10**13, 10**14, N),
        r"'x' \(looks like an id of many digits: x='real' takes it as a number, x='drop' says so, x='category' keeps",
    ),
    "64 bits": (RNG.integers(0, 2**63, N).astype("u8"), r"'x' \(looks like an id of many digits: x='drop' says so"),
    "310 digits": ([10**309 + i * i for i in range(N)], r"'x' \(looks like an id"),
}


@pytest.mark.parametrize(("values", "message"), LEFT_OUT.values(), ids=LEFT_OUT)
def test_what_is_left_out_is_named_with_the_line_that_takes_it_in(values, message):
    X = pd.DataFrame({"x": values, "kept": np.linspace(-1.2, 2.1, N) ** 3})
    with pytest.warns(DataWarning, match=message):
        mixture = Mixture(n_components=2, n_steps=2, random_state=0).fit(X)
    assert mixture.family_.names == ("kept",)
    assert mixture.predict(X[:3]).shape == (3,)


def test_dates_are_taken_in_by_the_line_of_the_warning():
    df = pd.DataFrame({"when": pd.date_range("2020", periods=N), "kept": np.linspace(-1.2, 2.1, N) ** 3})
    with pytest.warns(DataWarning) as caught:
        Columns.from_frame(df)
    line = re.search(r"Columns\.from_frame\(df, when='numeric'\)", str(caught[0].message))[0]
    assert eval(line, {"Columns": Columns, "df": df}).names == ("when", "kept")


def test_a_table_of_dates_alone_has_no_column_left():
    with pytest.raises(DataError, match=r"no column is left: 'when' \(dates: Columns\.from_frame\(df, when='numeric'"):
        Mixture().fit(pd.DataFrame({"when": pd.date_range("2020", periods=N)}))


@pytest.mark.parametrize("place", [0, 2])
def test_a_column_that_no_family_takes_is_named(place):
    X = pd.DataFrame({"kept": np.linspace(-1.2, 2.1, N) ** 3, "kind": ["a", "b", "c"] * 20})
    X.insert(place, "large", RNG.normal(size=N) * 1e20)
    with pytest.raises(DataError, match=r"'large'.* has a standard deviation of"):
        Mixture(n_components=2).fit(X)


def test_counts_that_are_asked_for_may_add_up_to_much():
    values = np.resize(RNG.integers(10**13, 10**14, 40), N)
    assert facts(role_of(values, x="count")) == ("count", "gaussian_diag", 0)
    with pytest.raises(SupportError, match=r"column 'x', row 1 holds -5.0: Negative values in data: give x='real'"):
        role_of([3, -5, 7] * 20, x="count")


ERRORS = {
    "infinity": ([0.5, np.inf, -1.5] * 20, {}, DataError, r"column 'x', row 1 holds inf"),
    "three values of a binary": (
        [1, 2, 3] * 20,
        {"x": "binary"},
        SupportError,
        r"'x' has 3 distinct values; a binary .* x='category' takes them all",
    ),
    "text as numbers": (
        [None, "red", "blue"] * 20,
        {"x": "real"},
        DataTypeError,
        r"'x' holds text \(row 1: 'red'\); gaussian_diag needs numbers: .*x='category'",
    ),
    "dates as numbers": (
        [datetime.date(2020, 1, 1)] * N,
        {"x": "real"},
        DataTypeError,
        r"'x' holds dates; gaussian_diag needs numbers: .*x='numeric'",
    ),
    "dates as categories": (
        [datetime.date(2020, 1, 1)] * N,
        {"x": "category"},
        DataTypeError,
        r"'x' holds dates, which are no categories",
    ),
    "periods": (
        pd.period_range("2020", periods=N, freq="Y"),
        {"x": "numeric"},
        DataTypeError,
        r"'x' holds periods or times of day",
    ),
    "values outside the support": (
        [None, 2.0, -1.0] * 20,
        {"x": LogNormal()},
        SupportError,
        r"lognormal needs positive values; column 'x', row 2 holds -1.0",
    ),
    "fractions as counts": (
        [1.0, 2.5] * 30,
        {"x": "poisson"},
        SupportError,
        r"poisson needs .* column 'x', row 1 holds 2.5: .*df\['x'\] = df\['x'\]\.round\(\); else give x='real'",
    ),
    "nothing as asked": (
        [None] * N,
        {"x": "real"},
        DataError,
        r"column 'x' holds no value at all: leave it out \(x='drop'\)",
    ),
    "a class": (
        [1.5, 2.5, 3.0] * 20,
        {"x": LogNormal},
        TypeError,
        r"column 'x': give a family, a role or 'drop'; .*: write LogNormal\(\)",
    ),
    "a number": ([1.5, 2.5, 3.0] * 20, {"x": 3}, TypeError, r"column 'x': give a family, a role or 'drop'; got 3"),
    "an unknown role": (
        [1.5, 2.5, 3.0] * 20,
        {"x": "catgory"},
        ValueError,
        r"'catgory' is no role and no family; did you mean 'category'\?",
    ),
    "a bound family": (
        [1.5, 2.5, 3.0] * 20,
        {"x": Poisson().bind([[1]])},
        ValueError,
        r"column 'x': poisson is bound to data already",
    ),
    "an unknown column": ([1.5, 2.5, 3.0] * 20, {"kpt": "drop"}, ValueError, r"no column 'kpt'; did you mean 'kept'\?"),
    "lists": ([[1], [2]] * 30, {}, DataTypeError, r"column 'x': row 0 holds a value of type list"),
    "mixed": (["a", 1, 2] * 20, {}, DataTypeError, r"column 'x' mixes values of several types"),
}


@pytest.mark.parametrize(("values", "by_column", "error", "message"), ERRORS.values(), ids=ERRORS)
def test_error(values, by_column, error, message):
    with pytest.raises(error, match=message):
        role_of(values, **by_column)


READ_ERRORS = {
    "no column of that name": (
        {"column": "kpt", "role": "real"},
        r"roles: the frame has no column 'kpt'; did you mean 'kept'",
    ),
    "unknown entry": ({"column": "kept", "rolle": "real"}, r"unknown entry 'rolle'; did you mean 'role'"),
    "no name": ({"role": "real"}, r"an entry needs the name of its column, as text; got None"),
    "unknown role": (
        {"column": "kept", "role": "catgory"},
        r"'kept' has the unknown role 'catgory'; did you mean 'category'",
    ),
    "unknown family": (
        {"column": "kept", "family": "poison"},
        r"'kept' has the unknown family 'poison'; did you mean 'poisson'\?; give .*kept=YourFamily\(\)",
    ),
    "at odds": (
        {"column": "kept", "role": "category", "family": "poisson"},
        r"role 'category' and the family 'poisson', which do not go together: change the family to categorical",
    ),
    "neither": ({"column": "kept"}, r"'kept' has neither a role nor a family"),
    "a number as role": ({"column": "kept", "role": 3}, r"entry role of column 'kept' must be text; got 3"),
    "a list as family": (
        {"column": "kept", "family": ["x"]},
        r"entry family of column 'kept' must be text; got \['x'\]",
    ),
    "a number as settings": (
        {"column": "kept", "role": "real", "settings": 2},
        r"entry settings of column '.*' must be hyper-par.*got 2",
    ),
    "an unknown setting": (
        {"column": "kept", "role": "real", "settings": {"shpe": 2.0}},
        r"column 'kept': family 'gaussian_diag' has no setting 'shpe'; did you mean 'shape'\?",
    ),
    "a wrong setting": (
        {"column": "kept", "role": "real", "settings": {"shape": "x"}},
        r"roles: column 'kept': gaussian_diag: shape must be",
    ),
    "a huge offset": (
        {"column": "kept", "role": "real", "offset": 10**400},
        r"entry offset of column '.*' must be a finite number below 1e300; got 1",
    ),
    "text as offset": (
        {"column": "kept", "role": "real", "offset": "1"},
        r"entry offset of column '.*' must be a finite number below 1e300; got '1'",
    ),
    "a huge count": (
        {"column": "kept", "role": "real", "missing": 2**70},
        r"entry missing of column '.*' must be a whole number from 0",
    ),
    "text as levels": (
        {"column": "kept", "role": "category", "levels": "ab"},
        r"entry levels of column '.*' must be a list of different",
    ),
    "lists as levels": (
        {"column": "kept", "role": "category", "levels": [["a"]]},
        r"entry levels of column '.*' must be a list of diffe",
    ),
    "equal levels": (
        {"column": "kept", "role": "category", "levels": ["a", "a"]},
        r"entry levels of column '.*' must be a list of diffe",
    ),
    "a number as other": (
        {"column": "kept", "role": "category", "other": 2},
        r"entry other of column '.*' must be true or false; got 2",
    ),
    "an unknown type": (
        {"column": "kept", "role": "real", "type": "day"},
        r"entry type of column '.*' must be one of '', 'boolean', .*day",
    ),
    "no dict": (["kept"], r"an entry is a dict such as \{'column': 'age', 'role': 'real'\}; got \['kept'\]"),
}


@pytest.mark.parametrize(("entry", "message"), READ_ERRORS.values(), ids=READ_ERRORS)
def test_error_of_roles_that_were_edited(entry, message):
    with pytest.raises(ValueError, match=message):
        infer_roles(pd.DataFrame({"kept": KEPT}), [entry])


@pytest.mark.parametrize("roles", [3, "kept", {"column": "kept", "role": "real"}])
def test_roles_that_are_no_list(roles):
    with pytest.raises(ValueError, match="roles must be a list of dicts, one for each column; got"):
        infer_roles(pd.DataFrame({"kept": KEPT}), roles)


def test_a_table_of_which_nothing_is_left():
    X = pd.DataFrame({"id": [f"p{i}" for i in range(N)], "one": [1] * N, "y": KEPT})
    with pytest.raises(
        DataError, match=r"no column is left: 'id' \(looks.*'one' \(all cells hold 1\), 'y' \(as asked\)"
    ):
        Columns.from_frame(X, y="drop")
    with pytest.raises(DataError, match="the frame has no columns"):
        Columns.from_frame(pd.DataFrame(index=range(3)))


# ---- encoding --------------------------------------------------------------------------------------------------------

SEEN = pd.DataFrame(
    {
        "colour": ["red", "blue", "green", None] * 15,
        "flag": [True, False] * 30,
        "grade": [1, 2, 3] * 20,
        "size": np.linspace(-1, 1, N),
    }
)


def test_encoded_cells_and_the_way_back():
    roles = infer_roles(SEEN)
    X = roles.encode(SEEN)
    assert X.flags.c_contiguous
    assert X.dtype == np.float64
    assert X[:4, 0].tolist()[:3] == [2.0, 0.0, 1.0]
    assert np.isnan(X[3, 0])
    back = roles.decode(X)
    assert back["colour"] == ["red", "blue", "green", None] * 15
    assert back["flag"] == SEEN["flag"].tolist()
    assert back["grade"] == SEEN["grade"].tolist()
    assert np.array_equal(back["size"], SEEN["size"])
    assert roles.decode(np.array([[3.0, 0.0, 3.0, np.nan]]))["colour"] == ["other"]


def test_the_matrix_is_float32_where_no_value_changes():
    coarse = SEEN.assign(size=np.round(SEEN["size"] * 8) / 8)
    X = infer_roles(coarse).encode(coarse)
    assert X.dtype == np.float32
    assert np.array_equal(X[:, 3], coarse["size"])
    large = SEEN.assign(size=np.arange(N) ** 2 + 2.0**24)
    assert infer_roles(large, None, {"size": "real"}).encode(large).dtype == np.float64


def test_unseen_levels_are_one_more_level_where_there_is_one():
    roles = infer_roles(SEEN)
    X = SEEN[:2].assign(colour=["pink", "red"], grade=[9, 2])
    assert roles.encode(X)[:, [0, 2]].tolist() == [[3.0, 3.0], [2.0, 1.0]]
    declared = SEEN.assign(colour=pd.Categorical(SEEN["colour"]))
    roles = infer_roles(declared)
    with pytest.raises(
        SupportError, match=r"'colour': row 0 holds the level 'pink', .*\('blue', 'green', 'red'\): leave the cell"
    ):
        roles.encode(X)
    opened = [role | {"other": True} if role["column"] == "colour" else role for role in roles.to_list()]
    assert infer_roles(declared, opened).encode(X)[0, 0] == 3.0


def test_an_integer_column_with_holes_has_the_same_levels():
    roles = infer_roles(SEEN)
    X = SEEN[:3].assign(grade=[1.0, None, 3.0])
    found = roles.encode(X)[:, 2]
    assert found[0] == 0.0
    assert np.isnan(found[1])
    assert found[2] == 2.0


def test_columns_are_matched_by_name_and_others_ignored_with_a_warning():
    roles = infer_roles(SEEN)
    X = SEEN[["size", "grade", "flag", "colour"]]
    assert np.array_equal(roles.encode(X), roles.encode(SEEN), equal_nan=True)
    with pytest.warns(DataWarning, match=r"Mixture: the frame has columns that were not there at fit, .*: 'new'"):
        roles.encode(SEEN.assign(new=1), owner="Mixture")


def test_a_column_that_is_missing_at_predict_is_named_with_those_that_are_new():
    roles = infer_roles(SEEN)
    X = SEEN.rename(columns={"size": "length"}).drop(columns="flag")
    with pytest.raises(DataError, match=r"only at fit 'flag', 'size'; only now 'length'"):
        roles.encode(X)
    wide = infer_roles(pd.DataFrame({f"c{i}": KEPT + i for i in range(8)}))
    with pytest.raises(DataError, match=r"only at fit 'c1', 'c2', 'c3', 'c4', 'c5' and 2 more; only now none"):
        wide.encode(pd.DataFrame({"c0": KEPT}))


def test_a_dropped_column_may_be_absent_or_present():
    X = SEEN.assign(site="here")
    with pytest.warns(DataWarning, match="1 column is left out"):
        roles = infer_roles(X)
    assert np.array_equal(roles.encode(X), roles.encode(SEEN), equal_nan=True)


TYPES = {
    "text for numbers": (
        {"size": ["1.5", "x"]},
        r"'size' held numbers at fit; row 0 holds '1.5': convert the column to numbers",
    ),
    "dates for numbers": (
        {"size": [datetime.date(2020, 1, 1)] * 2},
        r"'size' held numbers at fit; row 0 holds 'a date'",
    ),
    "numbers for text": ({"colour": [None, 3]}, r"'colour' held text at fit; row 1 holds 3.0: .*astype\(str\)"),
    "text for whole numbers": (
        {"grade": ["1", "2"]},
        r"'grade' held numbers at fit; row 0 holds '1': .*astype\(float\)",
    ),
    "dates for text": (
        {"colour": [datetime.date(2020, 1, 1)] * 2},
        r"'colour' held categories at fit, and holds dates now",
    ),
}


@pytest.mark.parametrize(("changed", "message"), TYPES.values(), ids=TYPES)
def test_a_column_of_another_type_than_at_fit(changed, message):
    with pytest.raises(DataTypeError, match=message):
        infer_roles(SEEN).encode(SEEN[:2].assign(**changed))


def test_infinity_at_predict():
    with pytest.raises(DataError, match=r"column 'size', row 1 holds -inf"):
        infer_roles(SEEN).encode(SEEN[:2].assign(size=[0.5, -np.inf]))


def test_an_empty_column_at_predict_is_missing():
    assert np.isnan(infer_roles(SEEN).encode(SEEN[:2].assign(colour=None, size=None))[:, [0, 3]]).all()


def test_roles_are_values():
    role = ColumnRole("x", "real", "gaussian_diag")
    assert Roles([role]) == Roles([role.to_dict()])
    assert Roles([role]) != Roles([ColumnRole("x", "positive", "lognormal")])
    assert role.to_dict() == {"column": "x", "role": "real", "family": "gaussian_diag", "missing": 0}
