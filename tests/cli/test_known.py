"""Known rows on the command line: `expfam fit --known` and `--links`."""

import io
import json
import re

import numpy as np
import pandas as pd
import pytest

from expfam import Known, Mixture
from expfam.cli import main

N = 90
RNG = np.random.default_rng(0)
Z = RNG.integers(0, 3, N)
Y = np.where(np.arange(N) % 5 == 0, Z, -1)
NAMES = np.array(["ape", "bear", "cat", ""])
ORDERS = np.where(np.arange(N) < 8, np.arange(N) // 2, -1)


@pytest.fixture
def path(tmp_path):
    X = np.array([[0.0, 0.0], [6.0, 0.0], [0.0, 6.0]])[Z] + RNG.normal(size=(N, 2))
    orders = np.where(ORDERS < 0, "", np.char.add("o", ORDERS.astype(str)))
    table = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "species": NAMES[Y], "order": orders})
    table.to_csv(tmp_path / "table.csv", index=False)
    return tmp_path / "table.csv"


def run(*args):
    return main([str(arg) for arg in args])


QUICK = ("--steps", "5", "--seed", "0")


@pytest.mark.parametrize("known", ["clusters", "classes"])
def test_classes_of_a_column_are_used(path, tmp_path, capsys, known):
    labels = tmp_path / "labels.npy"
    options = ("--label-column", "species", "--known", known, "--drop", "order", "--labels", labels, *QUICK)
    assert run("fit", path, *options) == 0
    printed = capsys.readouterr().out
    assert f"known     {(Y >= 0).sum()} rows of 3 classes, as {known}" in printed
    assert re.search(r"share +class( +\S+){2}\n", printed)  # two columns of data follow
    assert "scores" not in printed
    assert all(name in printed for name in ("ape", "bear", "cat"))
    assert Known(Y, known).agrees(np.load(labels))


def test_the_json_names_the_class_of_each_cluster(path, capsys):
    options = ("--label-column", "species", "--known", "clusters", "--drop", "order", *QUICK, "--json")
    assert run("fit", path, *options) == 0
    result = json.loads(capsys.readouterr().out)
    by_cluster = {cluster["cluster"]: cluster["class"] for cluster in result["clusters"]}
    assert [by_cluster[k] for k in range(3)] == ["ape", "bear", "cat"]
    assert result["scores"] is None


@pytest.mark.parametrize("by", ["column", "file"])
def test_links_of_a_column_or_a_file(path, tmp_path, capsys, by):
    labels, links = tmp_path / "labels.npy", "order"
    drop = ()
    if by == "file":
        links, drop = tmp_path / "links.npy", ("--drop", "order")
        np.save(links, ORDERS)
    options = ("--label-column", "species", "--links", links, "--labels", labels, *drop, *QUICK)
    assert run("fit", path, *options) == 0
    printed = capsys.readouterr().out
    assert "known     8 rows in 4 linked groups" in printed
    assert "2 gaussian_diag" in printed or "DiagonalGaussian" in printed
    assert Known(links=ORDERS).agrees(np.load(labels))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--known", "clusters"), "--known clusters needs --label-column"),
        (("--links", "batch"), "--links: .* has no column 'batch' (it has a, b, species, order)"),
        (("--links", "absent.npy"), "--links: absent.npy cannot be read"),
    ],
)
def test_errors_are_in_the_words_of_the_flags(path, capsys, options, words):
    assert run("fit", path, *options, *QUICK) == 2
    printed = capsys.readouterr().err
    for part in words.split(" .* "):
        assert part in printed


def test_a_file_of_links_of_another_length(path, tmp_path, capsys):
    np.save(tmp_path / "links.npy", np.zeros(4, dtype=int))
    assert run("fit", path, "--links", tmp_path / "links.npy", *QUICK) == 2
    assert "one integer for each of the 90 rows; it holds int64 of shape (4,)" in capsys.readouterr().err


def test_a_model_with_classes_is_coarsened_to_as_many_clusters_at_least(path, tmp_path, capsys):
    model, coarse = tmp_path / "model", tmp_path / "coarse"
    options = ("--label-column", "species", "--known", "classes", "--drop", "order", "--output", model, *QUICK)
    assert run("fit", path, *options) == 0
    assert run("coarsen", model, coarse, "-k", "2") == 2
    assert "--n-clusters 2: the clusters are of 3 classes" in capsys.readouterr().err
    assert run("coarsen", model, coarse, "-k", "3") == 0
    assert sorted(Mixture.load(coarse).cluster_classes_.tolist()) == [0, 1, 2]


def numbers_of(path, orders):
    """Write the table with a column of links, and without text in its other columns."""
    table = pd.read_csv(path)[["a", "b"]].assign(order=orders)
    table.to_csv(path, index=False)
    table.to_parquet(path.with_suffix(".parquet"))


COLUMNS = {
    "text": np.where(ORDERS < 0, "", np.char.add("o", ORDERS.astype(str))),
    "numbers with empty cells": np.where(ORDERS < 0, None, ORDERS),
    "numbers": ORDERS,
    "text with NA": np.where(ORDERS < 0, "NA", np.char.add("o", ORDERS.astype(str))),
}


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize("orders", COLUMNS.values(), ids=COLUMNS)
@pytest.mark.parametrize("family", [(), ("--family", "gaussian_diag")], ids=["auto", "named"])
@pytest.mark.parametrize("column", ["order", "2"])
def test_links_of_a_column_of_text_or_with_empty_cells(path, tmp_path, capsys, suffix, orders, family, column):
    numbers_of(path, orders)
    labels = tmp_path / "labels.npy"
    data = path.with_suffix(suffix)
    assert run("fit", data, "--links", column, "--labels", labels, *family, *QUICK) == 0
    printed = capsys.readouterr().out
    assert "8 rows in 4 linked groups" in printed
    assert "90 x 2" in printed or "90 rows x 2" in printed or "2 columns" in printed, printed
    assert Known(links=ORDERS).agrees(np.load(labels))


def test_links_of_standard_input(path, tmp_path, monkeypatch):
    numbers_of(path, COLUMNS["text"])
    labels = tmp_path / "labels.npy"
    with open(path, "rb") as stream:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(stream))
        assert run("fit", "-", "--links", "order", "--labels", labels, "--family", "gaussian_diag", *QUICK) == 0
    assert Known(links=ORDERS).agrees(np.load(labels))


def test_a_format_without_columns_asks_for_a_file_of_links(tmp_path, capsys):
    np.save(tmp_path / "X.npy", np.zeros((5, 2)))
    assert run("fit", tmp_path / "X.npy", "--links", "order", "--family", "gaussian_diag", *QUICK) == 2
    assert "write --links FILE.npy" in capsys.readouterr().err


def test_an_error_is_not_told_by_its_text(tmp_path, capsys):
    path = tmp_path / "option 'link_column' has no meaning.csv"
    assert run("fit", path, "--links", "order", *QUICK) == 2
    assert "no such file" in (printed := capsys.readouterr().err)
    assert "--links FILE.npy" not in printed


def test_a_missing_column_of_links_with_a_named_family(path, capsys):
    numbers_of(path, ORDERS)
    assert run("fit", path, "--links", "batch", "--family", "gaussian_diag", *QUICK) == 2
    assert "--links: " in (printed := capsys.readouterr().err)
    assert "has no column 'batch' (it has a, b, order)" in printed


def test_doubtful_rows_are_named(path, capsys):
    table = pd.read_csv(path, keep_default_na=False)
    rows = np.flatnonzero(Y == 0)[:2]
    table.loc[rows, "species"] = "cat"
    table.to_csv(path, index=False)
    options = ("--label-column", "species", "--known", "clusters", "--drop", "order", *QUICK)
    assert run("fit", path, *options) == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("doubtful"))
    assert line.startswith("doubtful  2 known rows that the data contradict: row ")
    for row in rows:
        assert f"row {row} (cat, likelier ape)" in line
    assert run("fit", path, *options, "--json") == 0
    told = json.loads(capsys.readouterr().out)["doubtful_known"]
    assert sorted(each["row"] for each in told) == rows.tolist()
    assert all(each["class"] == "cat" and each["likelier"] == "ape" for each in told)


@pytest.mark.filterwarnings("default::expfam.errors.DataWarning")
def test_a_class_in_parts_names_the_option(path, capsys):
    table = pd.read_csv(path, keep_default_na=False)
    far = np.arange(N) % 2 == 1
    table.loc[far, "a"] += 90.0
    table["species"] = NAMES[np.where(np.arange(N) % 3 == 0, Z, -1)]
    table.to_csv(path, index=False)
    options = ("--label-column", "species", "--drop", "order", *QUICK)
    assert run("fit", path, *options, "--known", "clusters") == 0
    told = capsys.readouterr().err
    assert "two clusters explain the known rows of the classes" in told
    assert "Write --known classes, without --components" in told
    assert run("fit", path, *options, "--known", "classes") == 0
    assert "two clusters" not in capsys.readouterr().err
