"""The gate over asv's results judges what is slow enough, fails on regressions and failures, and on nothing at all."""

import sys
from pathlib import Path

from asv.results import Results
from asv.runner import BenchmarkResult

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "asv_bench" / "protocols"))
import gate


def seconds(value, width=0.01):
    return (value, (value * (1 - width), value * (1 + width)))


BASE = {("a.time_x", ("1",)): seconds(0.1), ("a.time_y", ()): seconds(0.001), ("a.time_z", ()): seconds(0.5)}


def verdicts(new):
    return {row["benchmark"]: row["verdict"] for row in gate.judged(BASE, new, factor=1.25, least=0.02)}


def test_short_ones_are_not_judged_and_slower_ones_fail():
    new = {("a.time_x", ("1",)): seconds(0.14), ("a.time_y", ()): seconds(0.1), ("a.time_z", ()): seconds(0.55)}
    assert verdicts(new) == {"a.time_x(1)": "slower", "a.time_z()": "ok"}


def test_what_noise_may_explain_is_no_regression():
    assert verdicts({("a.time_x", ("1",)): seconds(0.14, width=0.5)}) == {"a.time_x(1)": "ok"}


def test_a_benchmark_that_no_longer_runs_fails():
    assert verdicts({("a.time_z", ()): (None, (None, None))}) == {"a.time_z()": "failed"}


def written(folder, commit, value):
    """Results as asv writes them."""
    result = Results({"machine": "here"}, {}, commit, 0, "3.11", "venv", {})
    samples = [[value] * 5, [2 * value] * 5]
    measured = BenchmarkResult(
        result=[value, 2 * value], samples=samples, number=[1, 1], errcode=0, stderr="", profile=None
    )
    benchmark = {"name": "fit.time_fit", "version": "1", "params": [["1", "2"]]}
    result.add_result(benchmark, measured)
    result.save(str(folder))
    (folder / "here" / "machine.json").write_text('{"machine": "here", "version": 1}')


def test_files_of_asv_are_read(tmp_path, capsys):
    written(tmp_path, "a" * 40, 0.1)
    written(tmp_path, "b" * 40, 0.3)
    assert gate.main(["a", "b", "--results", str(tmp_path)]) == 1
    assert "2 judged, 2 not passed" in capsys.readouterr().out
    assert gate.main(["a", "a", "--results", str(tmp_path)]) == 0
    assert gate.main(["a", "c", "--results", str(tmp_path)]) == 1
    assert "nothing to judge" in capsys.readouterr().err
