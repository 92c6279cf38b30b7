"""Options that a command does not have are refused with the option to type."""

import re

import numpy as np
import pytest

from expfam.cli import main


@pytest.fixture
def path(tmp_path):
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(30, 2)))
    return str(tmp_path / "x.npy")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("--covariance-type full", "--family gaussian"),
        ("--covariance-type=diag", "--family gaussian_diag"),
        ("--n-clusters 3", "--components 3"),
        ("--max-iter 5", "--steps 5"),
        ("--random-seed 1", "--seed 1"),
    ],
)
def test_the_option_of_the_message_works(path, capsys, given, told):
    assert main(["fit", path, *given.split()]) == 2
    said = capsys.readouterr().err
    option = re.search(rf"in place of {re.split('[ =]', given)[0]} write (--\S+ \S+)$", said.strip())
    assert option, said
    assert option[1] == told
    assert main(["fit", path, "--quiet", *option[1].split()]) == 0


@pytest.mark.parametrize(
    ("command", "given", "told"),
    [
        ("fit", "--familly", "--family"),
        ("tree", "--neigbors", "--neighbors"),
        ("fit", "--missin-values", "--missing-v"),
    ],
)
def test_a_near_option_is_named(path, capsys, command, given, told):
    assert main([command, path, given, "x"]) == 2
    assert f"unrecognized arguments: {given} x; did you mean '{told}" in capsys.readouterr().err


def test_an_option_that_is_like_no_other(path, capsys):
    assert main(["fit", path, "--zzzzzz"]) == 2
    assert capsys.readouterr().err.strip() == "expfam fit: error: unrecognized arguments: --zzzzzz"
