"""The commands that compare split-merge samplers run, and their arithmetic is right."""

import json

import numpy as np
import pytest
from protocol_modules import imported


@pytest.fixture(scope="module")
def command():
    with imported("split_merge", "figures") as module:
        yield module


def result_of(command, tmp_path, *arguments):
    path = tmp_path / "result.json"
    command.main([*arguments, "--kernels", "gibbs", "--seconds", "0.2", "--seeds", "2", "--json", str(path)])
    return json.loads(path.read_text())


SMALL = ["--rows", "400", "--clusters", "4"]


def test_table_of_the_paper(command, tmp_path):
    rows = result_of(command, tmp_path, "table1", "--sizes", "100", "300")["rows"]
    assert [row["N"] for row in rows] == [100, 300]
    assert all(0 <= row["NMI"] <= 1 and 0 < row["accuracy"] <= 1 for row in rows)


@pytest.mark.parametrize("start", ["one", "shattered", "truth", "variational"])
def test_gap(command, tmp_path, start):
    (row,) = result_of(command, tmp_path, "gap", *SMALL, "--start", start)["rows"]
    assert row["Gibbs share"] == 1.0
    if start in ("truth", "variational"):
        assert row["s to 10.0%"] is not None


def test_peer_real_equilibrium_twin_and_figure(command, tmp_path):
    result = result_of(command, tmp_path, "peer", *SMALL)
    methods = {f"{start}, then gibbs" for start in ("kmeans++", "variational")}
    methods |= {"BayesianGaussianMixture, 2 K", "SparseVariational, 2 K"}
    assert {row["method"] for row in result["rows"]} == methods
    assert {row["method"] for row in result["medians"]} == methods
    rows = result_of(command, tmp_path, "equilibrium", *SMALL)["rows"]
    assert [row["of"] for row in rows] == ["log joint", "clusters"]
    assert {(row["x gibbs"], row["from"], row["to"]) for row in rows} == {(1.0, 1.0, 1.0)}
    assert len(result_of(command, tmp_path, "twin", *SMALL, "--features", "4")["rows"]) == 3
    (tmp_path / "dense").mkdir()
    X = np.random.default_rng(0).normal(size=(60, 2)) + 9 * np.repeat(np.eye(2), 30, axis=0)
    np.savez(tmp_path / "dense" / "mine.npz", X=X.astype(np.float32), labels=np.repeat([3, 8], 30))
    rows = result_of(command, tmp_path, "real", "--names", "mine", "--data", str(tmp_path))["rows"]
    assert {row["start"] for row in rows} == {"auto", "variational"}
    assert all(row["s to 10.0%"] is not None for row in rows)
    png = tmp_path / "climb.png"
    result_of(command, tmp_path, "figure", "--rows", "200", "--png", str(png))
    assert png.read_bytes().startswith(b"\x89PNG")


def test_unknown_kernels_are_named(command):
    with pytest.raises(SystemExit, match="got 'best'"):
        command.build("best")
    assert command.build("gibbs") is None


def test_scores_and_times(command):
    labels = np.array([0, 0, 1, 1, 2, 2])
    assert command.scores(np.array([5, 5, 0, 0, 1, 1]), labels) == {"NMI": pytest.approx(1.0), "accuracy": 1.0}
    found = command.scores(np.array([0, 0, 0, 0, 1, 1]), labels)
    # I = H(found) = H(1/3), H(labels) = log 3
    entropy = -(np.log(1 / 3) / 3 + 2 * np.log(2 / 3) / 3)
    assert found == {"NMI": pytest.approx(np.sqrt(entropy / np.log(3))), "accuracy": pytest.approx(4 / 6)}
    points = [{"seconds": s, "gap": g} for s, g in ((0.0, 1.0), (0.5, 0.2), (0.9, 0.05), (1.5, 0.2), (2.0, 0.001))]
    assert [command.time_to(points, level) for level in (0.1, 0.01, 0.0)] == [0.9, 2.0, None]
    assert command.median_of([1.0, None, 3.0]) == 3.0
    assert command.median_of([1.0, None, None]) is None
    assert command.spread([1.0, None, 3.0]) == "1-3 (2/3)"


def test_a_cycle_is_looked_at_after_each_of_its_kernels(command):
    X = np.repeat([[0.0], [50.0]], 20, axis=0) + np.random.default_rng(0).normal(size=(40, 1))
    problem = command.Problem(X, np.repeat([0, 1], 20))
    chain = command.Chain("cycle", problem, np.zeros(40, dtype=int), seed=0, share=0.8)
    kinds = []
    for _ in range(4):
        kinds.append(type(chain.next_kernel()).__name__)
        chain.step()
    assert kinds == ["SplitMerge", "CollapsedGibbs"] * 2
    assert command.Chain("sdds", problem, problem.labels, seed=0, share=0.8, n_moves=7).other.n_moves == 7


def test_levels_of_real_data_are_measured_from_the_best_of_all_runs(command):
    curve = [
        {"log_joint": v, "clusters": 9 - s, "seconds": s, "cpu": 2 * s}
        for s, v in enumerate((-900, -840, -809, -810, -800.5))
    ]
    row = command.real_row("auto", "cycle", [curve] * 3, 0.5, best=-800, one=-900)
    assert [row[f"s to {level}"] for level in ("10.0%", "1.0%", "0.1%")] == [2, 4, None]
    assert (row["log_joint"], row["clusters"], row["seconds"], row["NMI"]) == (-800.5, 5, 4, 0.5)
    assert row["ESS/s of clusters"] is None
    values = np.random.default_rng(0).normal(size=(2, 2000, 2))
    curves = [
        [{"log_joint": a, "clusters": b, "seconds": s, "cpu": 0.01 * s} for s, (a, b) in enumerate(chain)]
        for chain in values
    ]
    row = command.real_row("auto", "cycle", curves, 0.5, best=9, one=-9)
    assert row["ESS/s of log joint"] == pytest.approx(100.0, rel=0.2)


def test_medians_of_methods_over_seeds(command):
    values = {"last gap": 0.0, "clusters": 3}
    times = {command.RIVAL: (1.0, 4.0, 2.0), "ours": (0.5, 0.25, None), "other": (None, None, 1.0)}
    rows = [{"method": method, "CPU s": s} | values for method, of in times.items() for s in of]
    theirs, ours, other = command.medians_of(rows)
    assert (theirs["CPU s"], theirs["x rival"], theirs["range"]) == (2.0, 1.0, "1-4 (3/3)")
    assert (ours["CPU s"], ours["x rival"], ours["range"]) == (0.5, 4.0, "0.25-0.5 (2/3)")
    assert (other["CPU s"], other["x rival"]) == (None, None)


def test_rates_of_independent_draws_and_of_draws_each_held_ten_times(command):
    rng = np.random.default_rng(0)
    free = [(rng.normal(size=(2, 4000)), 2.0) for _ in range(6)]
    held = [(np.repeat(rng.normal(size=(2, 400)), 10, axis=1), 1.0) for _ in range(6)]
    assert command.effective_rate(free, 0) == pytest.approx(2000.0, rel=0.15)
    assert command.effective_rate(held, 1) == pytest.approx(400.0, rel=0.25)
    ratio, low, high = command.jackknifed(held, free, 0)
    assert low < 0.2 < high
    assert low < ratio < high
    assert high / low < 2.0
    assert command.effective_rate([(np.ones((2, 50)), 1.0)] * 2, 0) == 0.0
