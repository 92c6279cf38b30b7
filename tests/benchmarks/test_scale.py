"""Rows on disk are what their seed says, and a fit of them is judged by what was forecast."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "asv_bench" / "protocols"))
import scale
from reports import resident, with_peak_beside_files

GOOD = {"peak MB": 10.0, "forecast MB": 11.0, "CPU s/pass": 14.0, "forecast CPU s/pass": 10.0, "NMI": 0.99,
        "rows": 100, "counted rows": 100}  # fmt: skip

needs_linux = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc (Linux)")


@pytest.fixture
def rows(tmp_path, monkeypatch):
    monkeypatch.setattr(scale, "BLOCK", 1000)
    made = scale.Rows(tmp_path, 4500, 5, seed=3)
    made.write()
    return made


def test_true_clusters_are_those_of_the_written_rows(rows):
    X, n_seen = rows.mapped(), 0
    assert isinstance(X, np.memmap)
    assert (X.shape, X.dtype) == ((4500, scale.FEATURES), np.float32)
    for at, true in rows.sample(10_000):
        distances = ((X[at, None] - rows.centres) ** 2).sum(axis=2)
        assert np.array_equal(distances.argmin(axis=1), true)
        n_seen += len(true)
    assert n_seen == 4500
    assert [at.start for at, _ in rows.sample(2000)] == [0, 4000]


def test_a_file_is_written_once_and_never_stands_half(rows, tmp_path):
    assert [path.name for path in tmp_path.iterdir()] == [rows.path.name]
    before = rows.path.stat().st_mtime_ns
    rows.write()
    assert rows.path.stat().st_mtime_ns == before


def test_chunks_can_be_read_again():
    chunks = scale.Chunks(np.arange(25), 10)
    assert len(chunks) == 3
    for _ in range(2):
        assert np.array_equal(np.concatenate(list(chunks)), np.arange(25))


@needs_linux
@pytest.mark.parametrize("way", ["chunks", "map"])
def test_a_fit_finds_the_groups_within_its_forecast_of_memory(way, tmp_path, monkeypatch):
    monkeypatch.setattr(scale, "BLOCK", 1000)
    words = ["--rows", "2e4", "--clusters", "4", "--chunk", "5e3", "--threads", "1", "--way", way, "--remove"]
    found = scale.run(scale.parser().parse_args([*words, "--folder", str(tmp_path)]))
    assert (found["rows"], found["counted rows"], found["clusters"]) == (20_000, 20_000, 4)
    assert found["NMI"] > 0.99
    assert 0 < found["peak MB"] <= found["forecast MB"]
    assert len(found["CPU s of passes"]) == found["passes"] > 1
    assert not list(tmp_path.iterdir())


@needs_linux
def test_the_peak_counts_what_was_held_and_no_mapped_file(tmp_path):
    np.save(tmp_path / "rows.npy", np.ones(10_000_000))
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    total, peak = with_peak_beside_files(lambda: float(mapped.sum()))
    assert total == 10_000_000
    assert peak < 20e6
    before = resident("RssAnon")
    held, peak = with_peak_beside_files(lambda: np.ones(10_000_000))
    assert held.nbytes * 0.9 < peak < held.nbytes + 20e6
    assert resident("RssAnon") > before


def test_what_is_not_as_it_should_be_is_told():
    assert scale.missed(GOOD) == []
    bad = {"peak MB": 12.0, "CPU s/pass": 16.0, "NMI": float("nan"), "counted rows": 99}
    for key, value in bad.items():
        assert len(scale.missed(GOOD | {key: value})) == 1, key
    assert scale.missed(GOOD | {"CPU s/pass": 1.5, "forecast CPU s/pass": 0.5}) == []  # too short to be compared
