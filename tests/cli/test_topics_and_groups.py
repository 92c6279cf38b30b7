"""`expfam topics` and `expfam groups`: the estimators of Python, contents that fit the terminal, predictions."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from expfam import GroupedMixture, TopicModel
from expfam.cli import build_parser, main

SPORT, BANK = "match team goal player final coach", "bank shares profit bond rates loan"


def texts(n_texts=24):
    rng = np.random.default_rng(0)
    kinds = [SPORT.split(), BANK.split()]
    return [" ".join(["the", *rng.choice(kinds[row % 2], 9)]) for row in range(n_texts)]


def patients():
    """Cells of six patients: two kinds of cells, in shares that differ between the patients."""
    rng = np.random.default_rng(1)
    patient = np.repeat(["ann", "bob", "eve", "joe", "sue", "tom"], 25)
    kind = rng.random(150) < np.repeat([0.1, 0.2, 0.4, 0.6, 0.8, 0.9], 25)
    size = np.round(rng.normal(3 + 6 * kind, 0.7), 2)
    colour = np.where(rng.random(150) < 0.9, np.where(kind, "red", "blue"), "grey")
    return pd.DataFrame({"size": size, "colour": colour, "patient": patient})


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "texts.txt").write_text("\n".join(texts()) + "\n", encoding="utf-8")
    pd.DataFrame({"title": texts(), "year": range(24)}).to_csv("texts.csv", index=False)
    patients().to_csv("cells.csv", index=False)
    return tmp_path


# ---- topics ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        (["-k", "2"], {"n_components": 2}),
        (["-k", "2", "--alpha", "0.5", "--eta", "auto"], {"n_components": 2, "alpha": 0.5, "eta": "auto"}),
        (["-k", "3", "--sampler", "variational"], {"n_components": 3, "sampler": "variational"}),
        (["-k", "2", "--steps", "9", "--warmup", "4"], {"n_components": 2, "n_steps": 9, "n_warmup": 4}),
        (["--infinite"], {"n_components": None}),
        ([], {}),
    ],
    ids=["two", "pseudo-counts", "variational", "steps", "unknown number", "default"],
)
def test_topics_are_those_of_the_estimator(options, settings, folder, said):
    result = said("topics", "texts.txt", "--seed", 5, "--labels", "labels.npy", "--output", "model", *options)
    model = TopicModel(**settings, random_state=5).fit(texts())
    np.testing.assert_array_equal(np.load("labels.npy"), model.labels_)
    assert result["log_joint"] == model.log_joint_
    assert result["n_clusters"] == model.n_components_
    by_topic = {entry["topic"]: entry for entry in result["topics"]}
    for k, entry in by_topic.items():
        assert entry["words"] == model.top_words(10)[k].tolist()
        assert entry["tokens"] == pytest.approx(model.cluster_sizes_[k])
    np.testing.assert_array_equal(TopicModel.load("model").components_, model.components_)
    assert eval(result["python"], {"TopicModel": TopicModel, "X": texts()}).log_joint_ == model.log_joint_


def test_topics_of_a_column_of_texts_are_those_of_the_texts(folder, said):
    of_column = said("topics", "texts.csv", "--text", "title", "-k", 2, "--seed", 0)
    of_lines = said("topics", "texts.txt", "-k", 2, "--seed", 0)
    assert of_column["topics"] == of_lines["topics"]


def test_topics_of_counts_have_the_names_of_the_columns(folder, said):
    rng = np.random.default_rng(2)
    counts = rng.poisson(np.repeat([[6.0, 5.0, 0.1, 0.2], [0.2, 0.1, 5.0, 7.0]], 20, axis=0))
    words = ["cat", "dog", "bond", "loan"]
    pd.DataFrame(counts, columns=words).to_csv("counts.csv", index=False)
    sparse.save_npz("counts.npz", sparse.csr_array(counts))
    (folder / "words.txt").write_text("\n".join(words) + "\n")
    table = said("topics", "counts.csv", "-k", 2, "--seed", 0, "--output", "model")
    rows = said("topics", "counts.npz", "--vocab", "words.txt", "-k", 2, "--seed", 0)
    assert table["topics"] == rows["topics"]
    assert {word for entry in table["topics"] for word in entry["words"][:2]} == set(words)
    assert set(TopicModel.load("model").top_words(2).ravel()) == set(words)


@pytest.mark.parametrize("width", [80, 100])
def test_the_table_of_topics_fits_the_terminal(width, folder, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    assert main(["topics", "texts.txt", "-k", "2", "--seed", "0", "--words", "40"]) == 0
    out = capsys.readouterr().out
    head, *rows = out.split("\n\n")[1].splitlines()
    assert head.split() == ["topic", "tokens", "share", "words"]
    assert width - 25 < max(map(len, rows)) <= width
    assert "2 topics, log joint" in out
    assert {row.split()[3] for row in rows} <= {"the", *SPORT.split(), *BANK.split()}


def test_topics_of_a_saved_model_are_predicted(folder, said):
    said("topics", "texts.txt", "-k", 2, "--seed", 0, "--output", "model")
    result = said("predict", "model", "texts.txt", "--proba", 1)
    model = TopicModel.load("model")
    assert result["labels"] == model.predict(texts()).tolist()
    assert result["n_clusters"] == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["texts.csv"], "column 'title' holds text: write --text title if these are the documents"),
        (["texts.csv", "--text", "name"], "--text: texts.csv has no column 'name' (it has title, year)"),
        (["texts.csv", "--text", "year"], "--text: column 'year' of texts.csv holds values of kind 'integer', no text"),
        (["lines.txt", "--text", "title"], "--text: lines.txt holds texts, one a line: leave out --text"),
        (["texts.txt", "--n-topics", "3"], "in place of --n-topics write --components 3"),
        (["texts.txt", "--sampler", "gibs"], "gibs"),
        (["texts.txt", "--output", "cells.csv"], "--output: cells.csv exists and is not replaced"),
    ],
)
def test_wrong_words_about_topics_are_answered(arguments, message, folder, capsys):
    (folder / "lines.txt").write_text("\n".join(text[row:] for row, text in enumerate(texts())))
    assert main(["topics", *arguments]) == 2
    shown = capsys.readouterr()
    assert message in shown.err
    assert shown.out == ""


# ---- groups ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        (["-k", "2"], {"n_components": 2}),
        (["-k", "2", "--alpha", "2"], {"n_components": 2, "alpha": 2.0}),
        (["-k", "2", "--sampler", "variational", "--steps", "9"], {"sampler": "variational", "n_steps": 9}),
        (["--infinite", "--steps", "20"], {"n_components": None, "n_steps": 20}),
    ],
    ids=["two", "pseudo-count", "variational", "unknown number"],
)
def test_groups_are_those_of_the_estimator(options, settings, folder, said):
    result = said("groups", "cells.csv", "--groups", "patient", "--seed", 5, "--labels", "l.npy", *options)
    mixture = GroupedMixture(**{"n_components": 2} | settings, random_state=5).fit(patients(), groups="patient")
    np.testing.assert_array_equal(np.load("l.npy"), mixture.labels_)
    assert result["log_joint"] == mixture.log_joint_
    weights = {entry["group"]: entry["weights"] for entry in result["groups"]}
    assert list(weights) == mixture.group_names_.tolist()
    np.testing.assert_array_equal(list(weights.values()), mixture.group_weights_)
    assert {entry["columns"]["colour"] for entry in result["clusters"]} >= {"red", "blue"}


def test_groups_of_arrays_come_from_a_file(folder, said):
    df = patients()
    np.save("sizes.npy", df[["size"]].to_numpy())
    np.save("patients.npy", df["patient"].to_numpy().astype(str))
    options = ["--family", "gaussian_diag", "-k", 2, "--seed", 0]
    result = said("groups", "sizes.npy", "--groups", "patients.npy", *options)
    mixture = GroupedMixture("gaussian_diag", 2, random_state=0).fit(df[["size"]].to_numpy(), groups=df["patient"])
    assert result["log_joint"] == mixture.log_joint_
    assert [entry["group"] for entry in result["groups"]] == ["ann", "bob", "eve", "joe", "sue", "tom"]


def test_the_contents_of_the_clusters_and_groups_are_printed(folder, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["groups", "cells.csv", "--groups", "patient", "-k", "2", "--seed", "0"]) == 0
    out = capsys.readouterr().out
    _, clusters, groups = out.strip("\n").split("\n\n")
    assert clusters.splitlines()[0].split() == ["cluster", "size", "share", "size", "colour"]
    assert groups.splitlines()[0].split() == ["group", "rows", "clusters"]
    assert [line.split()[0] for line in groups.splitlines()[1:]] == ["ann", "bob", "eve", "joe", "sue", "tom"]
    assert "150 rows, 2 columns, 6 groups" in out
    assert max(map(len, out.splitlines())) <= 100


def test_rows_of_new_groups_are_predicted(folder, capsys, said):
    said("groups", "cells.csv", "--groups", "patient", "-k", 2, "--seed", 0, "--output", "model")
    result = said("predict", "model", "cells.csv", "--groups", "patient")
    expected = GroupedMixture.load("model").predict(patients().drop(columns="patient"), patients()["patient"])
    assert result["labels"] == expected.tolist()
    assert main(["predict", "model", "cells.csv"]) == 2
    assert "write --groups COLUMN, the group of each new row" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["cells.csv"], "the following arguments are required: --groups"),
        (["cells.csv", "--groups", "patent"], "--groups: cells.csv has no column 'patent' (it has size, colour, pat"),
        (["numbers.npy", "--groups", "patient"], "--groups: numbers.npy is of a format without a column of groups"),
        (["numbers.npy", "--groups", "numbers.npy"], "must hold one integer or text for each row; it holds float64"),
        (["numbers.npy", "--groups", "nowhere.npy"], "--groups: nowhere.npy cannot be read"),
        (["holes.csv", "--groups", "patient"], "--groups: row 3 of holes.csv has no cell in column patient"),
        (["cells.csv", "--groups", "patient", "--hyper", "a=1"], "--hyper: name the family with --family first"),
    ],
)
def test_wrong_words_about_groups_are_answered(arguments, message, folder, capsys):
    np.save("numbers.npy", np.zeros((4, 2)))
    holes = patients()
    holes.loc[3, "patient"] = None
    holes.to_csv("holes.csv", index=False)
    assert main(["groups", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_a_model_without_groups_refuses_groups(folder, capsys, said):
    said("topics", "texts.txt", "-k", 2, "--seed", 0, "--output", "model")
    assert main(["predict", "model", "texts.txt", "--groups", "patient"]) == 2
    assert "is no model of rows in groups: leave out --groups" in capsys.readouterr().err


# ---- all commands ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [80, 100])
def test_the_help_of_all_commands_fits_the_terminal(width, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    parser = build_parser()
    commands = next(action for action in parser._actions if action.choices and "fit" in action.choices).choices
    for name, command in commands.items():
        wide = [line for line in command.format_help().splitlines() if len(line) > width]
        assert wide == [], name
    assert [line for line in parser.format_help().splitlines() if len(line) > width] == []
