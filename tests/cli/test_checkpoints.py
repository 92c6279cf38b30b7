"""`--checkpoint` keeps a run in a folder, and `--resume` goes on with it."""

import json
from pathlib import Path

import numpy as np
import pytest

from expfam.cli import main
from expfam.fitting.kept_run import KeptSteps

WORDS = {False: ["bank", "loan", "rate", "fund"], True: ["cat", "dog", "cow", "pig"]}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    np.save("x.npy", rng.normal(size=(240, 3)) + 3.0 * np.repeat(np.eye(3), 80, axis=0))
    np.save("many.npy", rng.normal(size=(1400, 3)) + 3.0 * np.repeat(np.eye(3), (400, 500, 500), axis=0))
    np.save("g.npy", np.arange(240) % 8)
    lines = [" ".join(rng.choice(WORDS[row % 2 == 1], 6 + row % 3)) for row in range(40)]
    Path("texts.txt").write_text("\n".join(lines) + "\n")
    return tmp_path


COMMANDS = {
    "fit": ["fit", "x.npy", "--family", "gaussian_diag", "-k", "3"],
    "topics": ["topics", "texts.txt", "-k", "2", "--steps", "12"],
    "tree": ["tree", "many.npy", "--family", "gaussian_diag", "-k", "3"],  # 256 merges a step
    "groups": ["groups", "x.npy", "--groups", "g.npy", "--family", "gaussian_diag", "-k", "3", "--steps", "12"],
}


def said(capsys, *arguments):
    assert main([*arguments, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    return {name: value for name, value in found.items() if name not in ("seconds", "output", "labels")}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_that_was_ended_goes_on_bit_for_bit(name, folder, capsys, monkeypatch):
    whole = said(capsys, *COMMANDS[name], "--seed", "5", "--labels", "whole.npy")
    call = KeptSteps.__call__

    def ends(steps, info, state):
        call(steps, info, state)
        if info.step == 4:
            steps.write()
            raise MemoryError("the machine is full")
        return False

    with monkeypatch.context() as patch:
        patch.setattr(KeptSteps, "__call__", ends)
        assert main([*COMMANDS[name], "--seed", "5", "--checkpoint", "run"]) == 1
    capsys.readouterr()
    again = said(capsys, *COMMANDS[name], "--resume", "run", "--labels", "again.npy")  # the seed is that of the run
    # the work of a tree, not its result: bounds that are made anew may leave out other pairs
    assert again.pop("n_scores", 0) == pytest.approx(whole.pop("n_scores", 0), rel=0.01)
    assert again == whole
    np.testing.assert_array_equal(np.load("again.npy"), np.load("whole.npy"))


def test_a_run_is_neither_overwritten_nor_made_up(folder, capsys):
    assert main([*COMMANDS["fit"], "--resume", "run"]) == 2
    assert "--resume: run holds no run: write --checkpoint run to keep one there" in capsys.readouterr().err
    assert main([*COMMANDS["fit"], "--seed", "1", "--checkpoint", "run", "--quiet"]) == 0
    assert main([*COMMANDS["fit"], "--checkpoint", "run"]) == 2
    assert "--checkpoint: run holds a run already: write --resume run to go on with it" in capsys.readouterr().err
    assert main([*COMMANDS["fit"][:-1], "4", "--resume", "run"]) == 2
    assert "run: is the run of another fit: its estimator is" in capsys.readouterr().err
