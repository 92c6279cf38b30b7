"""Errors in flags are one line that names the option, what was found, and the page of help."""

import numpy as np
import pytest

from expfam.cli import main

LINES = [
    (["fitt", "a.csv"], "expfam: error: argument COMMAND: invalid choice: 'fitt'; did you mean 'fit'? (choose from"),
    (["fit", "a.csv", "--start", "kmens"], "invalid choice: 'kmens'; did you mean 'kmeans'? (choose from"),
    (["fit"], "expfam fit: error: the following arguments are required: DATA; see expfam fit --help"),
    (
        ["fit", "a.csv", "--seed", "x"],
        "argument --seed: must be an integer in [0, 2**64); got 'x'; see expfam fit --help",
    ),
    (["tree", "a.csv", "--time-limit", "1"], "expfam tree: error: "),
    (["fit", "a.csv", "--time-limit", "1 mss"], "argument --time-limit: an amount of time is a positive number"),
    (["groups", "a.csv"], "expfam groups: error: the following arguments are required: --groups"),
]


@pytest.mark.parametrize(
    ("arguments", "message"), LINES, ids=lambda value: " ".join(value) if type(value) is list else ""
)
def test_an_error_in_a_flag_is_one_line(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").write_text("x,y\n1,2\n")
    assert main(arguments) == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1


def test_a_limit_may_be_of_milliseconds(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    np.save("numbers.npy", np.random.default_rng(0).normal(size=(400, 3)))
    assert main(["fit", "numbers.npy", "--time-limit", "1ms"]) == 1
    assert "0.001 s are allowed" in capsys.readouterr().err
    assert main(["fit", "numbers.npy", "-k", "2", "--steps", "2", "--time-limit", "600000 ms"]) == 0
