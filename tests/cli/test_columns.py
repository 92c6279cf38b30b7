"""Tables on the command line: `expfam roles`, fits by roles, predictions."""

import io
import json
import re
import shlex
import sys

import numpy as np
import pandas as pd
import pytest

from expfam import Mixture
from expfam.cli import main


@pytest.fixture
def path(tmp_path):
    rng = np.random.default_rng(0)
    z = rng.integers(0, 2, 80)
    table = pd.DataFrame(
        {
            "id": [f"p{i}" for i in range(80)],
            "size": np.where(rng.random(80) < 0.1, np.nan, rng.normal(8 * z, 1)),
            "kind": np.array(["x", "y", "w"])[np.where(rng.random(80) < 0.8, z, 2)],
            "income": np.exp(rng.normal(z, 1)),
        }
    )
    path = tmp_path / "table.csv"
    table.to_csv(path, index=False)
    return path


def run(*args):
    return main([str(arg) for arg in args])


QUICK = ("--steps", "3", "--seed", "0")


@pytest.mark.filterwarnings("default::expfam.errors.DataWarning")
def test_roles_are_printed_and_written(path, tmp_path, capsys):
    assert run("roles", path, "--output", tmp_path / "roles.json") == 0
    printed = capsys.readouterr()
    lines = [line.split() for line in printed.out.splitlines() if line]
    assert lines[0][2:] == ["80", "rows,", "4", "columns"]
    assert lines[1] == ["column", "role", "family", "levels", "missing", "part", "note"]
    assert [line[:3] for line in lines[3:6]] == [
        ["size", "real", "gaussian_diag"],
        ["kind", "category", "categorical"],
        ["income", "positive", "lognormal"],
    ]
    assert printed.out.splitlines()[3].endswith("looks like an id: --column id=category keeps it")
    assert "1 column is left out: 'id' (looks like an id: --column id=category keeps it)" in printed.err
    assert [role["column"] for role in json.loads((tmp_path / "roles.json").read_text())] == [
        "id",
        "size",
        "kind",
        "income",
    ]


@pytest.mark.filterwarnings("default::expfam.errors.DataWarning")
def test_fit_by_edited_roles_and_predict(path, tmp_path, capsys):
    assert run("roles", path, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    found["roles"][3] = {"column": "income", "family": "gaussian_diag"}
    (tmp_path / "roles.json").write_text(json.dumps(found))
    model = tmp_path / "model"
    assert run("fit", path, "--roles", tmp_path / "roles.json", *QUICK, "--output", model) == 0
    assert "columns: 2 gaussian_diag, 1 categorical, 1 left out (see `expfam roles`)" in capsys.readouterr().out
    assert [role["family"] for role in Mixture.load(model).family_.roles] == [
        "",
        "gaussian_diag",
        "categorical",
        "gaussian_diag",
    ]
    assert run("predict", model, path, "--output", tmp_path / "labels.npy") == 0
    assert np.array_equal(np.load(tmp_path / "labels.npy"), Mixture.load(model).predict(pd.read_csv(path)))


def test_columns_are_chosen_dropped_and_named(path, capsys):
    chosen = ("--columns", "size,income,kind", "--drop", "kind", "--column", "income=real")
    assert run("fit", path, *chosen, *QUICK, "--json") == 0
    result = json.loads(capsys.readouterr().out)
    assert [(role["column"], role["family"]) for role in result["hyper"]["roles"]] == [
        ("size", "gaussian_diag"),
        ("income", "gaussian_diag"),
        ("kind", ""),
    ]
    assert result["family"] == "columns"


def coded(path):
    """A table with codes for missing cells, and numbers as text because of them."""
    table = pd.read_csv(path).drop(columns="id")
    table["note"] = table["size"].map("{:.2f}".format).replace("nan", "?")
    table["size"] = table["size"].fillna(-999)
    table.to_csv(path, index=False)
    return path


def missing_of(result):
    return {role["column"]: role["missing"] for role in result["hyper"]["roles"]}


def test_codes_are_missing_cells_in_the_fit_and_in_new_rows(path, tmp_path, capsys):
    n_holes = int(pd.read_csv(path)["size"].isna().sum())
    coded(path)
    codes = ("--missing-values", "?", "size=-999")
    assert run("fit", path, *codes, *QUICK, "--output", tmp_path / "model", "--json") == 0
    found = missing_of(json.loads(capsys.readouterr().out))
    assert found == {"size": n_holes, "note": n_holes, "kind": 0, "income": 0}
    assert run("impute", tmp_path / "model", path, "--output", tmp_path / "filled.csv") == 0
    assert f"{2 * n_holes} cells filled" in capsys.readouterr().err
    filled = pd.read_csv(tmp_path / "filled.csv")
    assert filled["size"].min() > -100
    assert filled["note"].dtype == float


def test_codes_stand_in_the_file_of_roles(path, tmp_path, capsys):
    roles = tmp_path / "roles.json"
    assert run("roles", coded(path), "--missing-values", "?", "-999", "--output", roles, "--json") == 0
    expected = json.loads(capsys.readouterr().out)["roles"]
    assert run("roles", path, "--roles", roles, "--json") == 0
    assert json.loads(capsys.readouterr().out)["roles"] == expected
    roles.write_text(json.dumps({"missing_values": ["?", -999]}))
    assert run("roles", path, "--roles", roles, "--json") == 0
    again = json.loads(capsys.readouterr().out)["roles"]
    assert [role["missing"] for role in again] == [role["missing"] for role in expected]


@pytest.mark.filterwarnings("default::expfam.errors.DataWarning")
def test_the_options_of_a_warning_do_what_it_says(path, capsys):
    assert run("roles", coded(path), "--json") == 0
    said = capsys.readouterr().err
    options = re.search(r"'\?' among them: (--missing-values \S+), or (--column \S+) keeps it", said)
    assert options, said
    for option, expected in zip(options.groups(), ("real", "category")):
        assert run("roles", path, *shlex.split(option), "--json") == 0
        printed = capsys.readouterr()
        assert "note" not in printed.err
        found = {role["column"]: role["role"] for role in json.loads(printed.out)["roles"]}
        assert found["note"] == expected


@pytest.mark.filterwarnings("default::expfam.errors.DataWarning")
def test_absence_is_informative_where_it_is_said(path, tmp_path, capsys):
    assert run("fit", path, *QUICK, "--missing", "informative", "--output", tmp_path / "model", "--json") == 0
    assert json.loads(capsys.readouterr().out)["hyper"]["missing"] == "informative"
    assert Mixture.load(tmp_path / "model").family_.missing == "informative"
    assert run("fit", path, *QUICK, "--missing", "informative", "--family", "poisson") == 2
    assert "--missing needs --family auto" in capsys.readouterr().err


def test_a_table_on_standard_input(path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(path.read_bytes())))
    assert run("fit", "-", "--drop", "id", *QUICK) == 0
    assert "80 rows, 4 columns" in capsys.readouterr().out


def test_a_numeric_file_has_the_bits_of_its_family(tmp_path, capsys):
    path = tmp_path / "numbers.csv"
    np.savetxt(path, np.random.default_rng(0).normal(size=(40, 2)), delimiter=",", fmt="%.17g")
    results = []
    for family in ((), ("--family", "gaussian_diag")):
        assert run("fit", path, *family, *QUICK, "--json") == 0
        results.append(json.loads(capsys.readouterr().out))
    assert results[0]["log_joint"] == results[1]["log_joint"]
    assert results[0]["family"] == results[1]["family"] == "gaussian_diag"


def test_a_tree_of_a_table(path, capsys):
    assert run("tree", path, "--drop", "id", "--seed", "0", "--json") == 0
    assert json.loads(capsys.readouterr().out)["family"] == "columns"


ERRORS = {
    "unknown column": (("--drop", "incme"), "--drop: the table has no column 'incme'; did you mean 'income'?"),
    "unknown column among some": (("--columns", "size,x"), "--columns: the table has no column 'x' (it has id, size"),
    "no role": (("--column", "income"), "--column: 'income' is not of the form name=role or name=family"),
    "unknown role": (
        ("--column", "income=lognormel"),
        "column 'income': 'lognormel' is no role and no family; did you mean",
    ),
    "a family": (("--family", "poisson", "--drop", "id"), "--drop needs --family auto, which is the default"),
    "hyper": (("--hyper", "shape=3"), "--hyper: name the family with --family first"),
    "codes of no column": (
        ("--missing-values", "incme=-999"),
        "--missing-values: the table has no column 'incme'; did you mean 'income'?",
    ),
    "codes and a family": (("--family", "poisson", "--missing-values", "?"), "--missing-values needs --family auto"),
    "no file": (("--roles", "no-such.json"), "--roles: no-such.json cannot be read as JSON"),
    "text for numbers": (
        ("--family", "gaussian_diag"),
        "holds 'p0', which is not a number: if it names the row, write --id-column 0;",
    ),
}


@pytest.mark.parametrize(("options", "message"), ERRORS.values(), ids=ERRORS)
def test_error(path, options, message, capsys):
    assert run("fit", path, *options, *QUICK) == 2
    assert message in capsys.readouterr().err


ENTRIES = {
    "no dict": ([3], "holds no list of roles"),
    "a large offset": (
        [{"column": "size", "role": "real", "offset": 2**1100}],
        "entry offset of column 'size' must be a finite number",
    ),
    "a list as offset": (
        [{"column": "size", "role": "real", "offset": [1]}],
        "entry offset of column 'size' must be a finite number",
    ),
    "a number as role": ([{"column": "size", "role": 3}], "entry role of column 'size' must be text; got 3"),
    "lists as levels": (
        [{"column": "kind", "role": "category", "levels": [["x"]]}],
        "entry levels of column 'kind' must be a list of",
    ),
    "a number as settings": (
        [{"column": "size", "role": "real", "settings": 2}],
        "entry settings of column 'size' must be hyper-param",
    ),
    "a text as setting": ([{"column": "size", "family": "gaussian_diag", "settings": {"shape": -1}}], "column 'size'"),
    "a text as missing": (
        [{"column": "size", "role": "real", "missing": "2"}],
        "entry missing of column 'size' must be a whole number",
    ),
    "codes of another type": ({"missing_values": [[1]]}, "--roles: missing_values must be texts and numbers"),
    "codes of no column": ({"missing_values": {"sise": "?"}}, "no column 'sise'; did you mean 'size'?"),
}


@pytest.mark.parametrize(("roles", "message"), ENTRIES.values(), ids=ENTRIES)
def test_entries_of_a_file_of_roles(path, tmp_path, capsys, roles, message):
    (tmp_path / "roles.json").write_text(json.dumps(roles))
    assert run("fit", path, "--drop", "id", "--roles", tmp_path / "roles.json", *QUICK) == 2
    assert message in capsys.readouterr().err


def test_errors_of_roles(path, tmp_path, capsys):
    (tmp_path / "bad.json").write_text('{"a": 1}')
    assert run("fit", path, "--roles", tmp_path / "bad.json") == 2
    assert (
        "bad.json holds no list of roles, such as `expfam roles DATA --output FILE` writes" in capsys.readouterr().err
    )
    np.save(tmp_path / "x.npy", np.zeros((3, 2)))
    assert run("roles", tmp_path / "x.npy") == 2
    assert "roles are of the columns of a table: give a CSV, TSV or Parquet file" in capsys.readouterr().err
    assert run("fit", tmp_path / "x.npy", "--drop", "a") == 2
    assert "--drop needs a table: a CSV, TSV or Parquet file" in capsys.readouterr().err
    assert run("roles", path, "--output", tmp_path / "roles.txt") == 2


def numbers(path, **changed):
    rng = np.random.default_rng(0)
    X = 9.0 * (np.arange(60) % 3)[:, None] + rng.normal(size=(60, 2))
    pd.DataFrame(X, columns=["u", "v"]).assign(**changed).to_csv(path, index=False)
    return path


def labels_of(*args, capsys):
    assert run("predict", *args, "--json") == 0
    return json.loads(capsys.readouterr().out)["labels"]


@pytest.mark.filterwarnings("default::expfam.errors.DataWarning")
def test_columns_of_numbers_are_matched_by_name_and_may_lack_cells(tmp_path, capsys):
    path, model = numbers(tmp_path / "rows.csv"), tmp_path / "model"
    assert run("fit", path, *QUICK, "-k", 3, "--output", model, "--quiet") == 0
    assert Mixture.load(model).feature_names_in_.tolist() == ["u", "v"]
    expected = labels_of(model, path, capsys=capsys)
    table = pd.read_csv(path)
    table[["v", "u"]].assign(note="x").to_csv(tmp_path / "other.csv", index=False)
    assert labels_of(model, tmp_path / "other.csv", capsys=capsys) == expected
    table.assign(u=table["u"].mask(table.index == 0)).to_csv(tmp_path / "holes.csv", index=False)
    assert labels_of(model, tmp_path / "holes.csv", capsys=capsys) == expected
    assert run("predict", model, numbers(tmp_path / "text.csv", v="long")) == 2
    assert "column 'v' held numbers at fit; row 0 holds 'long'" in capsys.readouterr().err


def test_numbers_without_names_are_read_by_position(tmp_path, capsys):
    model, plain = tmp_path / "model", tmp_path / "plain.csv"
    pd.read_csv(numbers(tmp_path / "rows.csv")).to_csv(plain, index=False, header=False)
    assert run("fit", plain, *QUICK, "-k", 3, "--output", model, "--quiet") == 0
    assert not hasattr(Mixture.load(model), "feature_names_in_")
    assert len(labels_of(model, plain, capsys=capsys)) == 60
    assert len(labels_of(model, tmp_path / "rows.csv", capsys=capsys)) == 60


def test_a_named_family_predicts_rows_with_holes(tmp_path, capsys):
    path, model = numbers(tmp_path / "rows.csv"), tmp_path / "model"
    assert run("fit", path, *QUICK, "-k", 3, "--family", "gaussian_diag", "--output", model, "--quiet") == 0
    expected = labels_of(model, path, capsys=capsys)
    table = pd.read_csv(path)
    table.assign(u=table["u"].mask(table.index == 0)).to_csv(tmp_path / "holes.csv", index=False)
    assert labels_of(model, tmp_path / "holes.csv", capsys=capsys) == expected


@pytest.fixture
def prices(tmp_path):
    """A table as spreadsheets write it where commas come before fractions."""
    rng = np.random.default_rng(0)
    values = np.round(np.exp(rng.normal(np.repeat([1.0, 7.0], 30), 0.3)), 2)
    texts = [f"{value:,.2f}".translate(str.maketrans(",.", ".,")) for value in values]
    rows = [f"{text};{row % 7}" for row, text in enumerate(texts)]
    (tmp_path / "prices.csv").write_text("\n".join(["unit price;visits", *rows, "?;1"]) + "\n")
    return tmp_path / "prices.csv", values


@pytest.mark.filterwarnings("default")
def test_the_option_for_numbers_that_are_text_works(prices, tmp_path, capsys):
    path, values = prices
    assert main(["fit", str(path), "--seed", "0"]) == 0
    said = capsys.readouterr().err
    assert "or --column 'unit price=category' keeps it" in said
    found = re.search(r"--numbers '[^']+'", said)[0]
    assert found == "--numbers 'unit price'"
    line = ["fit", str(path), "--seed", "0", *shlex.split(found), "--output", str(tmp_path / "model"), "--json"]
    assert main(line) == 0
    printed = capsys.readouterr()
    assert "left out" not in printed.err
    assert main(["predict", str(tmp_path / "model"), str(path), *shlex.split(found), "--json"]) == 0
    labels = json.loads(capsys.readouterr().out)["labels"][:60]
    assert len(set(labels[:30])) == len(set(labels[30:])) == 1
    plain = tmp_path / "plain.csv"
    plain.write_text("\n".join(["unit price,visits", *(f"{v},{i % 7}" for i, v in enumerate(values)), ",1"]) + "\n")
    assert main(["fit", str(plain), "--seed", "0", "--json"]) == 0
    expected = json.loads(capsys.readouterr().out)
    assert main([*line[:6], "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["log_joint"] == expected["log_joint"]


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("form", ["%d.%m.%Y", "%m/%d/%Y", "%b %d, %Y"])
def test_the_option_for_dates_that_are_text_works(form, tmp_path, capsys):
    rng = np.random.default_rng(0)
    days = pd.Timestamp("2001-02-03") + pd.to_timedelta(rng.integers(0, 90, 60) + 4000 * (np.arange(60) >= 30), "D")
    table = pd.DataFrame({"day of order": days.strftime(form), "x": rng.normal(size=60)})
    table.loc[60] = ["?", 0.0]
    path, iso = tmp_path / "orders.csv", tmp_path / "iso.csv"
    table.to_csv(path, index=False)
    assert main(["fit", str(path), "--seed", "0"]) == 0
    found = re.search(r"--dates '[^']+' --column '[^']+'", capsys.readouterr().err)[0]
    assert found == "--dates 'day of order' --column 'day of order=numeric'"
    line = ["--seed", "0", *shlex.split(found), "--json"]
    assert main(["fit", str(path), *line, "--output", str(tmp_path / "model")]) == 0
    result = json.loads(capsys.readouterr().out)
    shown = sorted(cluster["columns"]["day of order"] for cluster in result["clusters"] if cluster["size"] > 1)
    assert [day[:4] for day in shown] == ["2001", "2012"]
    table["day of order"] = [*days.strftime("%Y-%m-%d"), ""]
    table.to_csv(iso, index=False)
    assert main(["fit", str(iso), "--seed", "0", "--column", "day of order=numeric", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["log_joint"] == result["log_joint"]
    assert main(["predict", str(tmp_path / "model"), str(path), "--dates", "day of order", "--json"]) == 0
    labels = json.loads(capsys.readouterr().out)["labels"]
    assert len(set(labels[:30])) == len(set(labels[30:60])) == 1
    assert labels[0] != labels[30]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["--numbers", "unit"], "--numbers: the table has no column 'unit'"),
        (["--numbers", "kind"], "--numbers: column 'kind' holds 'a', which is no number: leave it out"),
        (["--dates", "knd"], "--dates: the table has no column 'knd'; did you mean 'kind'?"),
        (["--dates", "kind"], "--dates: column 'kind' holds 'a', which is no date: leave it out"),
        (["--dates", "kind", "--numbers", "kind"], "column 'kind' is given to --numbers and to --dates"),
    ],
)
def test_what_is_said_of_columns_without_numbers_or_dates(given, told, tmp_path, capsys):
    (tmp_path / "table.csv").write_text("unit price;kind\n" + "1,5;a\n2,5;b\n" * 5)
    assert main(["fit", str(tmp_path / "table.csv"), *given]) == 2
    assert told in capsys.readouterr().err
    np.save(tmp_path / "x.npy", np.ones((3, 2)))
    assert main(["fit", str(tmp_path / "x.npy"), *given]) == 2
    assert f"x.npy is no table with columns of text: leave out {given[-2]}" in capsys.readouterr().err
