"""Stopping, storing, showing and collecting, driven by made-up steps."""

import io
from types import SimpleNamespace

import numpy as np
import pytest

from expfam import DirichletProcess, MixtureModel, Poisson
from expfam.archive import write_archive
from expfam.errors import ArchiveError
from expfam.protocols import Info
from expfam.samplers import CollapsedGibbs, sample
from expfam.samplers.chain import callbacks
from expfam.samplers.chain.callbacks import Checkpoint, Collect, Progress, Stop, kept_open, restore_checkpoint
from expfam.samplers.chain.trace import Trace


def info(step, objective=0.0, seconds=0.0):
    return Info(step, objective, 3, 10, 4, seconds, {})


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(callbacks, "perf_counter", clock)
    return clock


class Walk:
    """A state with the members that checkpoints read."""

    def __init__(self, seed=2**64 - 1, n=4):
        self.seed, self.n_steps, self.labels = seed, 0, np.zeros(n, dtype=np.int32)

    def step(self):
        self.labels = (self.labels * 3 + self.n_steps) % 7
        self.n_steps += 1

    def to_arrays(self):
        return {"labels": self.labels.copy(), "counters": np.array([self.n_steps])}

    def from_arrays(self, arrays):
        self.labels, self.n_steps = arrays["labels"], int(arrays["counters"][0])


class OtherWalk(Walk):
    pass


# ---- stop --------------------------------------------------------------------------------------------------------


def test_stop_by_time_counts_the_first_step(clock):
    stop = Stop(max_seconds=10.0)
    assert not stop(info(1, seconds=4.0), None)
    clock.now += 5.9
    assert not stop(info(2), None)
    clock.now += 0.2
    assert stop(info(3), None)
    assert stop.reason == "time"
    stop.close()
    clock.now += 1000.0
    assert not stop(info(1, seconds=1.0), None)
    assert stop.reason is None


def test_stop_needs_steps_in_a_row(clock):
    stop = Stop(tolerance=0.01, patience=2)
    values = [-100.0, -100.5, -50.0, -50.1, -49.9, -49.9]
    assert [stop(info(t, v), None) for t, v in enumerate(values)] == [False, False, False, False, True, True]
    assert stop.reason == "tolerance"


def test_stop_waits_for_the_least_number_of_steps(clock):
    stop = Stop(tolerance=0.0, patience=1, min_steps=4, max_seconds=0.0)
    assert [stop(info(t, 1.0), None) for t in range(4)] == [False, False, False, True]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "max_seconds, tolerance or both"),
        ({"max_seconds": -1}, "max_seconds must be non-negative; got -1"),
        ({"tolerance": float("nan")}, "tolerance .* got nan"),
        ({"tolerance": 0.1, "patience": 0}, "patience .* got 0"),
    ],
)
def test_stop_names_bad_settings(options, words):
    with pytest.raises(ValueError, match=words):
        Stop(**options)


# ---- checkpoint --------------------------------------------------------------------------------------------------


def test_checkpoints_are_written_in_time_and_restore_the_walk(clock, tmp_path):
    path, walk, trace = tmp_path / "run", Walk(), Trace(keep_every=1)
    checkpoint = Checkpoint(path, every_seconds=10.0, trace=trace)
    written = []
    for step in range(1, 13):
        walk.step()
        clock.now += 3.0
        trace.append(info(step, float(step)), walk)
        assert not checkpoint(info(step, seconds=3.0), walk)
        written.append(checkpoint.n_written)
    assert written == [0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3]
    at_end = walk.to_arrays()
    for _ in range(5):
        walk.step()
    other, record = Walk(), Trace()
    restore_checkpoint(path, other, trace=record)
    np.testing.assert_array_equal(other.labels, at_end["labels"])
    for _ in range(5):
        other.step()
    np.testing.assert_array_equal(other.labels, walk.labels)
    np.testing.assert_array_equal(record.column("objective"), np.arange(1.0, 13.0))
    assert record.n_kept == 12


def test_a_resumed_run_keeps_its_warm_up(tmp_path):
    walk, trace = Walk(), Trace(keep_every=1, n_warmup=5)
    for step in range(1, 4):
        trace.append(info(step), walk)
    Checkpoint(tmp_path / "run", trace=trace).write(walk)
    again, record = Walk(), Trace()
    restore_checkpoint(tmp_path / "run", again, trace=record)
    for step in range(4, 8):
        record.append(info(step), again)
    assert (record.n_warmup, len(record), len(record.counted("step"))) == (5, 7, 2)
    assert record.kept_steps.tolist() == [6, 7]


def test_checkpoints_of_other_runs_are_refused(tmp_path):
    path, walk = tmp_path / "run", Walk(seed=5)
    Checkpoint(path).write(walk)
    for other, words in [
        (Walk(seed=6), "seed 5 .* seed 6"),
        (OtherWalk(seed=5), "OtherWalk"),
        (Walk(5, n=9), "over 9"),
    ]:
        with pytest.raises(ArchiveError, match=words):
            restore_checkpoint(path, other)
    with pytest.raises(ArchiveError, match="without a trace"):
        restore_checkpoint(path, Walk(seed=5), trace=Trace())
    with pytest.raises(ValueError, match="every_seconds"):
        Checkpoint(path, every_seconds=-1)
    write_archive(tmp_path / "foreign", "checkpoint", header={"seed": 5}, arrays={"state": walk.to_arrays()})
    with pytest.raises(ArchiveError, match="header lacks state, n_rows"):
        restore_checkpoint(tmp_path / "foreign", walk)


# ---- progress ----------------------------------------------------------------------------------------------------


def test_progress_shows_and_closes():
    screen, state = io.StringIO(), SimpleNamespace(data=SimpleNamespace(n_rows=500))
    progress = Progress(3, file=screen, mininterval=0)
    for step in range(1, 4):
        assert not progress(info(step, -1234.5, seconds=0.25), state)
    progress.close()
    text = screen.getvalue()
    assert "3/3" in text
    assert "K=3, objective=-1234.5, 2e+03 data/s" in text
    assert text.endswith("\n")
    progress.close()
    progress(info(1), state)  # a new run gets a new bar
    assert "1/3" in screen.getvalue().rsplit("\n", 1)[1]
    progress.close()


# ---- collect -----------------------------------------------------------------------------------------------------


def test_collect():
    collect = Collect({"n": lambda s: s.n, "square": lambda s: [s.n, s.n**2]}, every=2)
    for step in range(1, 6):
        assert not collect(info(10 * step), SimpleNamespace(n=step))
    assert collect.steps == [20, 40]
    assert collect.column("n").tolist() == [2, 4]
    assert collect.column("square").tolist() == [[2, 4], [4, 16]]
    with pytest.raises(KeyError, match="'m'"):
        collect.column("m")
    with pytest.raises(ValueError, match="every"):
        Collect({}, every=0)


def test_callbacks_of_several_runs_are_closed_once_at_the_end():
    """Also when a run fails; and it is known which of them has asked for the end."""
    closed = []

    class Noted:
        def __init__(self, last):
            self.last, self.n_calls = last, 0

        def __call__(self, info, state):
            self.n_calls += 1
            return self.n_calls == self.last

        def close(self):
            closed.append(self.last)

    kernel = CollapsedGibbs()
    state = kernel.init(MixtureModel(Poisson(), DirichletProcess()), [[0], [1], [40]], seed=0)
    with kept_open([Noted(1), Noted(3)]) as watched:
        for stopped in ([True, False], [True, False], [True, True]):
            sample(kernel, state, 1, callbacks=watched)
            assert [callback.has_stopped for callback in watched] == stopped
            assert not closed
    assert closed == [1, 3]
    with pytest.raises(ZeroDivisionError), kept_open([Noted(1), len]):
        1 / 0  # noqa: B018
    assert closed == [1, 3, 1]
