"""The comparison of two versions runs every case, tells what is slower from noise, and is not fooled by drift."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "asv_bench" / "protocols"))
import version_cases  # noqa: E402
import versions  # noqa: E402

BOUND = 1.03
FACTORS = np.array([1.00, 1.04, 0.99, 1.02, 0.97, 1.01, 1.03])  # of one process's seconds: some per cent of noise


def verdict(base, new):
    return versions.compared({"base": list(base), "new": list(new)}, BOUND)["verdict"]


def run_beside_itself(path, *words):
    """The result of a comparison of this interpreter with itself, and what was printed."""
    words = ["--base", sys.executable, "--new", sys.executable, "--quick", "--json", str(path), *words]
    done = subprocess.run(
        [sys.executable, "-m", "asv_bench.protocols.versions", *words], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return json.loads(path.read_text()), done.stdout


@pytest.mark.parametrize(
    "only", [["gibbs_full", "import_expfam"], pytest.param(list(versions.CASES), marks=pytest.mark.slow)], ids=len
)
def test_cases_run_beside_themselves(only, tmp_path):
    result, printed = run_beside_itself(tmp_path / "result.json", "--only", *only)
    assert result["versions"]["base"] == result["versions"]["new"]
    assert [row["case"] for row in result["rows"]] == only
    for row in result["rows"]:
        assert row["verdict"] == "ran"
        assert 1e-5 < row["base s"] < 60
        assert [len(result["seconds"][row["case"]][side]) for side in versions.SIDES] == [1, 1]
        assert row["case"] in printed


@pytest.mark.filterwarnings("ignore")  # few steps do not converge
@pytest.mark.parametrize("name", versions.CASES)
def test_every_case_runs(name):
    assert 1e-5 < versions.CASES[name](version_cases.QUICK) < 60


def test_all_cases_are_compared_where_none_is_named(machine):
    calls = machine(lambda name, python, n: 1.0)
    assert versions.main(["--quick", "--base", "old", "--new", "new"]) == 0
    assert [name for name, python in calls if python == "new"] == list(versions.CASES)


def test_medians_their_ratio_and_the_interquartile_range_of_the_rounds_ratios():
    row = versions.compared({"base": [1.0, 2.0, 4.0], "new": [1.5, 2.0, 5.0]}, BOUND)
    assert row == {"base s": 2.0, "new s": 2.0, "ratio": 1.0, "noise": 0.25, "verdict": "ok"}  # of 1.5, 1 and 1.25


def test_a_case_made_slow_is_flagged_and_noise_is_not():
    quiet, noisy = 1 + 0.1 * (FACTORS - 1), 1 + 3 * (FACTORS - 1)
    assert verdict(quiet, 1.05 * quiet[::-1]) == "slower"
    assert verdict(FACTORS, 1.5 * FACTORS[::-1]) == "slower"
    assert verdict(quiet, 1.02 * quiet[::-1]) == "ok"  # below the bound
    assert verdict(noisy, 1.06 * noisy[::-1]) == "ok"  # above it, not by more than the noise
    assert verdict(FACTORS, 0.5 * FACTORS[::-1]) == "ok"


def test_rounds_without_slowdowns_are_rarely_flagged():
    rng = np.random.default_rng(0)
    draws = np.exp(rng.normal(scale=0.05, size=(2000, 2, 7)))
    assert np.mean([verdict(*pair) == "slower" for pair in draws]) < 0.02
    assert np.mean([verdict(base, 1.3 * new) == "slower" for base, new in draws]) > 0.9


@pytest.fixture
def machine(monkeypatch):
    """Programs that take made seconds; the versions are told by the names of their interpreters."""
    calls = []

    def use(seconds):
        def timed(python, name, *, quick):
            calls.append((name, Path(python).name))
            return seconds(name, Path(python).name, len(calls))

        monkeypatch.setattr(versions, "timed", timed)
        monkeypatch.setattr(versions, "interpreter", str)
        monkeypatch.setattr(versions, "about_python", lambda python, side: {"folder": python})
        return calls

    return use


CASES = ["--only", "gibbs_diagonal", "gibbs_full", "--base", "old", "--new", "new"]


def test_the_versions_take_turns_and_a_machine_that_slows_down_slows_both(machine, capsys):
    calls = machine(lambda name, python, n: 1.0 + 0.05 * n)
    assert versions.main([*CASES, "--rounds", "4"]) == 0
    assert [python for name, python in calls if name == "gibbs_full"] == ["old", "new", "new", "old"] * 2
    assert "2 cases, 0 not passed" in capsys.readouterr().out


def test_one_slow_case_fails_the_comparison(machine, capsys):
    machine(lambda name, python, n: 1.2 if (name, python) == ("gibbs_full", "new") else 1.0)
    assert versions.main(CASES) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[-1] for line in lines if line.startswith("gibbs")] == ["ok", "slower"]
    assert lines[-1] == "2 cases, 1 not passed"
    assert versions.main([*CASES, "--bound", "1.25"]) == 0


def failing(where):
    def seconds(name, python, n):
        if (name, python) in where:
            raise versions.ProgramError("AttributeError: no such sampler")
        return 1.0

    return seconds


@pytest.mark.parametrize(
    ("where", "code", "text"),
    [
        ([("gibbs_full", "new")], 1, "fails in new"),
        ([("gibbs_full", "old")], 0, "fails in base"),  # the older version cannot do it yet
        ([("gibbs_full", "old"), ("gibbs_full", "new")], 1, "fails in base and new"),
        ([("gibbs_full", "old"), ("gibbs_diagonal", "old")], 1, "2 not passed"),  # nothing was compared
    ],
)
def test_cases_that_fail_are_named(machine, capsys, where, code, text):
    machine(failing(where))
    assert versions.main(CASES) == code
    out, err = capsys.readouterr()
    assert text in out
    assert "gibbs_full" in err
    assert "AttributeError: no such sampler" in err


def test_the_last_line_of_a_program_that_fails_is_its_message():
    with pytest.raises(versions.ProgramError, match="KeyError: 'no_such_case'"):
        versions.timed(sys.executable, "no_such_case", quick=True)
    with pytest.raises(SystemExit, match=r"--new .*no expfam can be imported there: status 1"):
        versions.about_python("false", "new")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--rounds", "2"], "--rounds must be at least 3, got 2"),
        (["--quick", "--rounds", "0"], "--rounds must be at least 1, got 0"),
        (["--only", "nothing"], "invalid choice: 'nothing'"),
        (["--base", "/no/such/python"], "'/no/such/python' is no program"),
    ],
)
def test_settings_that_cannot_be_are_refused(capsys, words, message):
    with pytest.raises(SystemExit):
        versions.parsed(words)
    assert message in capsys.readouterr().err
