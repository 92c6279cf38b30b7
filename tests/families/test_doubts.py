"""Columns of text that are meant otherwise: each is named in a warning, with a line that does what it says."""

import re
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from expfam import BayesianHierarchy, Columns, GroupedMixture, Mixture
from expfam.errors import DataTypeError, DataWarning
from expfam.frames.notation import notation_of

N = 200
RNG = np.random.default_rng(0)
V = RNG.normal(300, 80, N)
X = RNG.normal(size=N)


def without(code, cells):
    """The cells with a code in every tenth of them."""
    return [code if i % 10 == 0 else cell for i, cell in enumerate(cells)]


def european(value):
    return f"{value:,.2f}".replace(",", " ").replace(".", ",").replace(" ", ".")


NUMBERS = {  # cells, the words of the warning, and the numbers that they stand for
    "fractions": ([f"{v:.2f}" for v in V], "numbers as text", np.round(V, 2)),
    "exponents": ([f"{v:.3e}" for v in V], "numbers as text", [float(f"{v:.3e}") for v in V]),
    "decimal comma": ([f"{v:.2f}".replace(".", ",") for v in V], "a decimal comma", np.round(V, 2)),
    "thousands": ([f"{100 * v:,.0f}" for v in V], "separated thousands", np.rint(100 * V)),
    "European": ([european(100 * v) for v in V], "a decimal comma and separated thousands", np.round(100 * V, 2)),
    "gaps": ([f"{100 * v:,.0f}".replace(",", " ") for v in V], "separated thousands", np.rint(100 * V)),
    "apostrophes": ([f"{100 * v:,.0f}".replace(",", "'") for v in V], "separated thousands", np.rint(100 * V)),
    "dollars": ([f"${v:,.2f}" for v in 100 * V], "separated thousands and a currency", np.round(100 * V, 2)),
    "negative dollars": ([f"-${v:.2f}" for v in V], "a currency", -np.round(V, 2)),
    "euros": ([f"{v:.2f} EUR".replace(".", ",") for v in V], "a decimal comma and a currency", np.round(V, 2)),
    "per cent": ([f"{v / 10:.1f} %" for v in V], "a per cent sign", np.round(V / 10, 1)),
    "bounds": ([f"<{v:.0f}" if i % 9 == 0 else f"{v:.0f}" for i, v in enumerate(V)], "a sign of ineq", np.rint(V)),
    "units": ([f"{v:.1f} km" for v in V], r"a unit \(km\)", np.round(V, 1)),
    "units without a blank": ([f"{v:.0f}kg" for v in V], r"a unit \(kg\)", np.rint(V)),
    "whole numbers": ([f"{v / 3:.0f}" for v in V], "numbers as text", np.rint(V / 3)),
    "few fractions": ([f"{i % 4 / 2}" for i in range(N)], "numbers as text", np.arange(N) % 4 / 2),
}
MAKE = {"pandas": pd.DataFrame, "polars": pl.DataFrame}


def told(make, cells, **options):
    """The family, and the text of the only warning."""
    with pytest.warns(DataWarning) as caught:
        family = Columns.from_frame(make({"x": X, "c": cells}), **options)
    assert len(caught) == 1
    return family, str(caught[0].message)


def executed(line, frame):
    """The frame after a line of a warning."""
    names = {"df": frame, "pd": pd, "pl": pl, "Columns": Columns}
    exec(line, names)
    return names["df"]


@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)
@pytest.mark.parametrize(("cells", "words", "numbers"), NUMBERS.values(), ids=NUMBERS)
def test_numbers_as_people_write_them(make, cells, words, numbers):
    _, message = told(make, cells)
    line = re.search(r"'c' \(numbers as text.*?: (df(\['c'\])? = .*?)(, or c='category' keeps it)?\)$", message)[1]
    assert re.search(words, message)
    frame = executed(line, make({"x": X, "c": cells}))
    assert np.asarray(frame["c"]).tolist() == np.asarray(numbers, dtype=float).tolist()


@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)
@pytest.mark.parametrize("cells", [NUMBERS["decimal comma"][0], NUMBERS["units"][0]], ids=["comma", "unit"])
def test_codes_among_numbers_become_missing_by_the_line(make, cells):
    _, message = told(make, without("?", cells))
    assert "and '?' among them" in message
    line = re.search(r": (df(\['c'\])? = .*?), or c='category' keeps it\)$", message)[1]
    found = np.asarray(executed(line, make({"x": X, "c": without("?", cells)}))["c"], dtype=float)
    assert np.isnan(found).tolist() == [i % 10 == 0 for i in range(N)]


@pytest.mark.parametrize("code", ["?", "", "NA", "-", "n/a", "unknown", "."])
def test_codes_among_plain_numbers_are_declared_by_the_line(code):
    cells = without(code, [f"{v:.2f}" for v in V])
    _, message = told(pd.DataFrame, cells)
    line = re.search(r"Columns\.from_frame\(df, missing_values=\[.*?\]\)", message)[0]
    role = eval(line, {"Columns": Columns, "df": pd.DataFrame({"x": X, "c": cells})}).roles[1]
    assert (role["role"], role["missing"]) == ("real", N // 10)


DATES = {
    "ISO": [f"20{i % 30:02d}-0{i % 9 + 1}-1{i % 7}" for i in range(N)],
    "points": [f"1{i % 7}.0{i % 9 + 1}.20{i % 30:02d}" for i in range(N)],
    "slashes": [f"{i % 12 + 1:02d}/{i % 28 + 1:02d}/20{i % 30:02d}" for i in range(N)],
    "names of months": [f"{('Jan', 'Feb', 'Mar')[i % 3]} {i % 28 + 1:02d}, 20{i % 30:02d}" for i in range(N)],
    "times": [f"2020-01-{i % 28 + 1:02d} 10:{i % 60:02d}:00" for i in range(N)],
}


@pytest.mark.parametrize("cells", DATES.values(), ids=DATES)
def test_dates_as_text(cells):
    family, message = told(pd.DataFrame, cells)
    assert family.names == ("x",)
    line, call = re.search(
        r"dates as text, .*?: (df\['c'\] = .*?), then (Columns.*?), or c='category'", message
    ).groups()
    frame = executed(line, pd.DataFrame({"x": X, "c": cells}))
    assert frame["c"].dt.year.between(2000, 2030).all()
    assert eval(call, {"Columns": Columns, "df": frame}).roles[1]["role"] == "numeric"


@pytest.mark.parametrize("name", ["ISO", "points", "slashes"])
def test_dates_as_text_of_polars(name):
    _, message = told(pl.DataFrame, DATES[name])
    line = re.search(r": (df = .*?), then Columns", message)[1]
    assert executed(line, pl.DataFrame({"x": X, "c": DATES[name]}))["c"].dtype == pl.Date


LEFT_OUT = {
    "free text": ([f"the row number {i} says {i * 7 % 13}" for i in range(N)], "looks like free text, 200 levels"),
    "free text, some rows equal": ([f"row number {i % 190} says" for i in range(N)], "looks like free text, 190 lev"),
    "ids, some rows equal": ([f"id{i % 190}" for i in range(N)], "looks like an id, 190 levels in 200 rows"),
    "postal codes": ([f"{10000 + 7 * i}" for i in range(N)], "looks like an id"),
}


@pytest.mark.parametrize(("cells", "words"), LEFT_OUT.values(), ids=LEFT_OUT)
def test_text_with_nearly_as_many_levels_as_rows_is_left_out(cells, words):
    family, message = told(pd.DataFrame, cells)
    assert family.names == ("x",)
    assert f"'c' ({words}" in message
    assert "c='category' keeps it" in message
    assert Columns.from_frame(pd.DataFrame({"x": X, "c": cells}), c="category").names == ("x", "c")


def test_text_of_which_few_rows_share_a_level_is_kept_with_a_warning():
    family, message = told(pd.DataFrame, [f"w{i % 150}" for i in range(N)])
    assert family.names == ("x", "c")
    assert "'c' (150 levels in 200 rows, so that few rows share one: c='drop' leaves it out)" in message


@pytest.mark.parametrize("code", ["?", "", "N/A", "-"])
def test_codes_among_categories_are_named(code):
    family, message = told(pd.DataFrame, without(code, ["ab"[i % 2] for i in range(N)]))
    assert family.roles[1]["note"] == f"{code!r} in 20 rows, a level like any other"
    assert f"Columns.from_frame(df, missing_values=[{code!r}]) has holes there" in message


TAKEN = {
    "words": ["abc"[i % 3] for i in range(N)],
    "two words": ["yes", "no"] * (N // 2),
    "bins": [("<5", "5-10", ">10")[i % 3] for i in range(N)],
    "rooms": [f"{i % 5 + 1} rooms" for i in range(N)],
    "codes of one digit": [f"{i % 5 + 1}" for i in range(N)],
    "postal codes": [f"{10000 + 7 * (i % 40)}" for i in range(N)],
    "codes with zeros": [f"{i % 40:05d}" for i in range(N)],
    "versions": [f"1.{i % 5}.0" for i in range(N)],
    "grades": [f"{i % 12}{'ABCDEFG'[i % 7]}" for i in range(N)],
    "times of day": [f"{i % 24:02d}:00" for i in range(N)],
}


@pytest.mark.parametrize("cells", TAKEN.values(), ids=TAKEN)
def test_categories_are_taken_at_their_word(cells):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        roles = Columns.from_frame(pd.DataFrame({"x": X, "c": cells})).roles
    assert (roles[1]["role"], roles[1].get("note", "")) == ("category", "")


def test_a_declared_category_is_kept_and_named():
    family, message = told(pd.DataFrame, pd.Categorical(NUMBERS["decimal comma"][0]))
    assert family.names == ("x", "c")
    assert "'c' (numbers as text with a decimal comma" in message


@pytest.mark.parametrize(
    "make",
    [
        pl.Series,
        pa.array,
        lambda cells: pl.Series(cells, dtype=pl.Categorical),
        lambda cells: pd.array(cells, "string"),
    ],
    ids=["Polars", "Arrow", "Polars categories", "pandas strings"],
)
def test_text_of_any_type(make):
    cells = make(NUMBERS["decimal comma"][0])
    frame = {pl.Series: pl.DataFrame, pa.lib.StringArray: pa.table}.get(type(cells), pd.DataFrame)
    _, message = told(frame, cells)
    assert "'c' (numbers as text with a decimal comma" in message


ESTIMATORS = {
    "Mixture": lambda X: Mixture(n_components=2, n_steps=2, random_state=0).fit(X),
    "chunks": lambda X: Mixture(n_components=2, sampler="variational", random_state=0).partial_fit(X),
    "BayesianHierarchy": lambda X: BayesianHierarchy().fit(X),
    "GroupedMixture": lambda X: GroupedMixture(n_components=2, n_steps=2).fit(X, groups=np.arange(N) % 4),
}


@pytest.mark.parametrize("fit", ESTIMATORS.values(), ids=ESTIMATORS)
def test_every_estimator_names_the_column(fit):
    with pytest.warns(DataWarning, match=r"'c' \(numbers as text with a decimal comma"):
        fit(pd.DataFrame({"x": X, "c": NUMBERS["decimal comma"][0]}))


def test_a_role_of_numbers_for_text_names_the_line():
    frame = pd.DataFrame({"x": X, "c": NUMBERS["decimal comma"][0]})
    with pytest.raises(DataTypeError, match=r"convert the column: df\['c'\] = pd\.to_numeric\(df\['c'\]\.str\.rep"):
        Columns.from_frame(frame, c="real")


@pytest.mark.parametrize(
    ("levels", "n_numbers"),
    [
        (["1.5", "x", "y", "z", "w"], None),  # more words than numbers
        (["12", "14", "many"], 2),
        (["5 km", "3 mi", "2 m", "1 ft"], None),  # too many units
        (["ABC 12", "DEF 14"], None),
        (["1.234.567", "12.345"], 2),
        (["+3", "-4"], 2),
        ([".5", "0.25"], 2),
        ([], None),
    ],
)
def test_what_is_a_number(levels, n_numbers):
    found = notation_of(levels)
    assert (None if found is None else found.n_numbers) == n_numbers
