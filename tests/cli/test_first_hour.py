"""What a newcomer sees: missing files at once, the clusters' contents, pictures, and merged models."""

import json
import subprocess
import sys

import numpy as np
import pytest

import expfam
from expfam import Mixture
from expfam.cli import main
from expfam.cli.contents import contents, fitting


@pytest.fixture
def table(tmp_path, monkeypatch):
    """A table with one telling column of numbers, one telling category, and noise; the folder is the current one."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    kind = np.arange(80) % 2
    age = np.round(rng.normal(20 + 40 * kind, 3), 1)
    job = np.where(rng.random(80) < 0.9, np.array(["cook", "nurse"])[kind], "clerk")
    rows = [f"{a},{j},{n:.2f}" for a, j, n in zip(age, job, rng.normal(size=80))]
    (tmp_path / "people.csv").write_text("\n".join(["age,job,noise", *rows]) + "\n")
    return tmp_path / "people.csv"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["fit", "peopel.csv"], "peopel.csv: no such file; did you mean people.csv?"),
        (["fit", "people.csv", "--vocab", "words.txt"], "words.txt: no such file"),
        (["predict", "model", "people.csv"], "model: no such saved model"),
        (["fit", "nowhere/people.csv"], "nowhere/people.csv: no such file; there is no directory nowhere"),
        (["merge", "first", "second", "--output", "all"], "first: no such saved model"),
    ],
)
def test_missing_files_are_named_before_anything_is_imported(arguments, said, table):
    heavy = "{name for name in ('numpy', 'sklearn', 'scipy', 'importlib.metadata') if name in {*sys.modules} - before}"
    code = f"import sys; before = {{*sys.modules}}; from expfam.cli import main; main({arguments!r}); print({heavy})"
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, cwd=table.parent)
    assert done.stderr == f"expfam {arguments[0]}: error: {said}\n"
    assert done.stdout == "set()\n"


def test_the_version_is_printed_on_demand(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"expfam {expfam.__version__}\n"


def test_the_contents_of_the_clusters_are_printed_the_most_telling_column_first(table, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["fit", "people.csv", "-k", "2", "--seed", "0"]) == 0
    head, *rows = capsys.readouterr().out.split("\n\n")[1].splitlines()
    assert head.split() == ["cluster", "size", "share", "age", "job", "noise"]
    assert sorted(row.split()[4] for row in rows[:2]) == ["cook", "nurse"]
    assert sorted(round(float(row.split()[3]), -1) for row in rows[:2]) == [20, 60]
    assert max(map(len, [head, *rows])) <= 80


def test_what_does_not_fit_the_terminal_is_counted(table, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "32")
    assert main(["fit", "people.csv", "-k", "2", "--seed", "0"]) == 0
    shown = capsys.readouterr().out.split("\n\n")[1]
    assert shown.splitlines()[0].split() == ["cluster", "size", "share", "age"]
    assert shown.splitlines()[-1] == "  and 2 more columns that tell less"


def test_json_has_the_contents(table, capsys):
    assert main(["fit", "people.csv", "-k", "2", "--seed", "0", "--json"]) == 0
    clusters = json.loads(capsys.readouterr().out)["clusters"]
    assert {entry["columns"]["job"] for entry in clusters} == {"cook", "nurse"}
    assert all(isinstance(entry["columns"]["age"], float) for entry in clusters)


def test_columns_named_as_results_are_told_apart():
    import pandas as pd

    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(40, 2)) + 9 * (np.arange(40) % 2)[:, None], columns=["size", "weight"])
    mixture = Mixture("gaussian_diag", 2, random_state=0).fit(frame)
    found = contents(mixture, [0, 1])
    assert sorted(found) == ["size", "weight"]
    np.testing.assert_allclose(found["size"], mixture.params_["mean"][:, 0])


def test_wide_data_and_words_have_no_contents():
    counts = np.random.default_rng(0).poisson(3, size=(30, 4))
    assert contents(Mixture("multinomial", 2, random_state=0).fit(counts), [0]) == {}
    wide = np.random.default_rng(0).normal(size=(20, 201))
    assert contents(Mixture("gaussian_diag", 1, random_state=0).fit(wide), [0]) == {}


def test_no_column_is_shown_where_none_fits():
    assert fitting({"a": ["1"], "b": ["2"]}, 10**6) == ([], "and 2 more columns that tell less")
    assert fitting({}, 0) == ([], "")


@pytest.mark.parametrize("name", ["clusters.png", "clusters.svg"])
@pytest.mark.parametrize("family", [[], ["--family", "gaussian_diag", "--drop", "job"]])
def test_fit_draws_its_clusters(family, name, table, capsys):
    pytest.importorskip("matplotlib")
    if family:
        np.save("numbers.npy", np.random.default_rng(0).normal(size=(60, 3)))
    source = ["numbers.npy", *family[:2]] if family else ["people.csv"]
    assert main(["fit", *source, "-k", "2", "--seed", "0", "--figure", name]) == 0
    assert f"saved     {name}" in capsys.readouterr().out
    assert (table.parent / name).stat().st_size > 3000


def test_a_figure_of_another_suffix_is_refused_before_any_work(table, capsys):
    assert main(["fit", "people.csv", "--figure", "clusters.gif"]) == 2
    assert "--figure: clusters.gif must end in .png or .pdf or .svg" in capsys.readouterr().err


def test_models_of_parts_are_merged(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    X = np.random.default_rng(0).normal(size=(200, 2)) + 12 * (np.arange(200) % 2)[:, None]
    first = Mixture("gaussian_diag", 2, random_state=0).fit(X[:100])
    second = Mixture(first.family_, 2, random_state=0).fit(X[100:])
    first.save("first")
    second.save("second")
    assert main(["merge", "first", "second", "--output", "all"]) == 0
    assert "2 clusters of 200 rows" in capsys.readouterr().out
    merged = Mixture.load("all")
    assert sorted(merged.cluster_sizes_) == [100, 100]
    assert main(["merge", "first", "second", "--apart", "--output", "apart"]) == 2
    assert "leave out --apart" in capsys.readouterr().err
    assert main(["merge", "first", "second", "--output", "all", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["n_clusters_before"], result["n_clusters"], sum(result["cluster_sizes"])) == ([2, 2], 2, 200)


def test_one_model_is_nothing_to_merge(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "first").mkdir()
    assert main(["merge", "first", "--output", "all"]) == 2
    assert "merge joins two models or more" in capsys.readouterr().err


@pytest.mark.parametrize(
    "command", [["fit", "people.csv", "-k", "2"], ["tree", "people.csv"], ["topics", "words.txt", "-k", "2"]]
)
def test_the_seed_is_a_random_one_that_is_printed_and_repeats(command, table, capsys):
    (table.parent / "words.txt").write_text("\n".join(["bank profit shares", "goal match team"] * 12) + "\n")
    seeds = []
    for name in ("first.csv", "second.csv"):
        assert main([*command, "--labels", name, "--json"]) == 0
        seeds.append(json.loads(capsys.readouterr().out)["seed"])
    assert seeds[0] != seeds[1]
    assert main([*command, "--seed", str(seeds[0]), "--labels", "again.csv"]) == 0
    assert str(seeds[0]) in capsys.readouterr().out
    assert (table.parent / "again.csv").read_text() == (table.parent / "first.csv").read_text()


def test_drawn_cells_say_their_seed(table, capsys):
    assert main(["fit", "people.csv", "-k", "2", "--seed", "0", "--output", "model"]) == 0
    (table.parent / "holes.csv").write_text("age,job,noise\n,cook,\n,,0.3\n")
    capsys.readouterr()
    assert main(["impute", "model", "holes.csv", "--draw"]) == 0
    first = capsys.readouterr()
    seed = first.err.split("drawn with seed ")[1].split()[0]
    assert main(["impute", "model", "holes.csv", "--draw", "--seed", seed]) == 0
    assert capsys.readouterr().out == first.out


@pytest.mark.parametrize(
    "command",
    [
        ["fit", "wide.npy", "-k", "2"],
        ["fit", "wide.npy", "--family", "von_mises_fisher", "-k", "2"],
        ["fit", "plane.npy", "-k", "2"],
        ["topics", "words.txt", "-k", "2"],
        ["groups", "people.csv", "--groups", "job", "-k", "2"],
    ],
)
def test_each_fit_has_a_picture(command, table, capsys):
    pytest.importorskip("matplotlib")
    X = np.random.default_rng(0).normal(size=(60, 90)) + 3.0 * np.repeat([[1.0], [-1.0]], 30, axis=0)
    np.save("wide.npy", X / np.linalg.norm(X, axis=1, keepdims=True))
    np.save("plane.npy", X[:, :2])
    (table.parent / "words.txt").write_text("\n".join(["bank profit shares", "goal match team"] * 12) + "\n")
    assert main([*command, "--seed", "0", "--figure", "picture.png"]) == 0
    assert "saved     picture.png" in capsys.readouterr().out
    assert (table.parent / "picture.png").stat().st_size > 3000
