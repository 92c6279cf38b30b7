"""The first minute: ten scripts take data as they are, run without a warning, and find the planted clusters."""

import runpy
import shlex
import shutil
from pathlib import Path

import pytest

from expfam.cli import main

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "first_minute"
CLUSTERS = {  # planted in the data of each script
    "pandas_table": 2,
    "polars_table": 2,
    "texts": 3,
    "sparse_counts": 4,
    "embeddings": 5,
    "survey": 2,
    "grouped_rows": 3,
    "tree": 4,
    "plugin": 2,
}


def test_each_script_is_run():
    assert {file.stem for file in FOLDER.glob("*.py")} == set(CLUSTERS)
    assert [file.name for file in FOLDER.glob("*.sh")] == ["command_line.sh"]


@pytest.mark.parametrize("name", CLUSTERS)
def test_a_script_finds_the_planted_clusters(name, capsys):
    runpy.run_path(str(FOLDER / f"{name}.py"))
    assert capsys.readouterr().out.startswith(f"{CLUSTERS[name]} clusters")


def test_polars_comes_out_where_polars_goes_in(capsys):
    names = runpy.run_path(str(FOLDER / "polars_table.py"))
    capsys.readouterr()
    assert type(names["mixture"].clusters_).__module__.startswith("polars")
    assert names["mixture"].impute(names["customers"]).null_count().sum_horizontal().item() == 0


def test_the_tree_has_the_names_of_the_rows(capsys):
    runpy.run_path(str(FOLDER / "tree.py"))
    shown = capsys.readouterr().out
    assert all(name in shown for name in ("horse", "sparrow", "spider"))


def test_the_commands_run(tmp_path, monkeypatch, capsys):
    for name in ("customers.csv", "headlines.txt"):
        shutil.copy(FOLDER / name, tmp_path)
    monkeypatch.chdir(tmp_path)
    commands = [shlex.split(line) for line in (FOLDER / "command_line.sh").read_text().splitlines() if line[0] != "#"]
    assert len(commands) == 5
    for program, *arguments in commands:
        assert program == "expfam"
        assert main(arguments) == 0
    shown = capsys.readouterr().out
    assert "result    2 clusters" in shown
    assert "bank profit shares" in shown
    assert len((tmp_path / "labels.csv").read_text().splitlines()) == 121
