"""Checkpoints of parts: a chain goes on over any other parts, bit for bit; killed or altered ones do no harm."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from expfam import DiagonalGaussian, MixtureModel, SymmetricDirichlet
from expfam.engines import cut_rows
from expfam.errors import ArchiveError
from expfam.samplers import Cycle, ShardedData, Trace, UncollapsedGibbs, UpdateHyper, sample
from expfam.samplers.shards import checkpoint as module
from expfam.samplers.shards.checkpoint import PartsCheckpoint, restore_parts, stored_seed
from expfam.samplers.shards.places import names, read_bytes, remove, write_bytes

RNG = np.random.default_rng(4)
X = RNG.normal(size=(900, 3)) + 4.0 * RNG.integers(0, 4, (900, 1))
FAMILY = DiagonalGaussian().bind(X)
KERNEL = Cycle(UncollapsedGibbs(), UpdateHyper())


def state_of(n_parts, seed=7, K=6, rows=X):
    data = ShardedData(cut_rows(rows, n_parts, grain=1), FAMILY)
    return KERNEL.init(MixtureModel(FAMILY, SymmetricDirichlet(K)), data, seed=seed, start="random")


def bits(state):
    return state.labels.tobytes() + state.n.tobytes() + state.S.tobytes() + state.Theta.tobytes()


@pytest.mark.parametrize("n_parts", [1, 2, 7])
def test_a_chain_goes_on_over_other_parts(tmp_path, n_parts):
    path, trace, state = tmp_path / "run", Trace(), state_of(3)
    writer = PartsCheckpoint(path, every_seconds=0, also={"trace": trace})
    sample(KERNEL, state, 4, callbacks=[writer], trace=trace)
    assert writer.n_written == 4
    assert len(names(str(path))) == 2  # one manifest, one folder
    again, record = state_of(n_parts, seed=stored_seed(path)), Trace()
    restore_parts(path, again, also={"trace": record})
    assert again.model == state.model
    for chain, seen in ((state, trace), (again, record)):
        sample(KERNEL, chain, 4, trace=seen)
        chain.check()
    assert bits(again) == bits(state)
    np.testing.assert_array_equal(record.column("objective"), trace.column("objective"))


def test_kept_labels_come_back(tmp_path):
    state = state_of(2)
    state.data.engine.change("keep")
    kept = state.labels
    sample(KERNEL, state, 3)
    PartsCheckpoint(tmp_path / "run").write(state)
    again = state_of(5)
    restore_parts(tmp_path / "run", again)
    assert (again.labels != kept).any()
    again.data.engine.change("take_kept")
    np.testing.assert_array_equal(again.labels, kept)


@pytest.mark.parametrize("failing", ["labels", "manifest"])
def test_a_checkpoint_that_fails_half_way_leaves_the_one_before(tmp_path, monkeypatch, failing):
    path, state = tmp_path / "run", state_of(3)
    writer = PartsCheckpoint(path)
    sample(KERNEL, state, 2)
    writer.write(state)
    expected = state.labels
    sample(KERNEL, state, 2)

    def full(place, content):
        if failing in place.rsplit("/", 1)[-1]:
            raise OSError("no space left")
        write_bytes(place, content)

    monkeypatch.setattr(module, "write_bytes", full)
    with pytest.raises(OSError, match="no space left"):
        writer.write(state)
    again = state_of(1)
    restore_parts(path, again)
    assert again.n_steps == 4  # a cycle of two kernels counts two steps
    np.testing.assert_array_equal(again.labels, expected)


PROGRAM = """
import sys
sys.path.insert(0, sys.argv[2])
from test_checkpoint import KERNEL, PartsCheckpoint, sample, state_of
print("ready", flush=True)
sample(KERNEL, state_of(3), 100_000, callbacks=[PartsCheckpoint(sys.argv[1], every_seconds=0)])
"""


def test_a_killed_run_goes_on(tmp_path):
    """Checkpoints are written all the time, so the kill falls into one of them."""
    path, here = tmp_path / "run", str(Path(__file__).parent)
    command = [sys.executable, "-c", PROGRAM, str(path), here]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=sys.prefix) as process:
        process.stdout.readline()
        while not any(name.startswith("manifest") for name in names(str(path))):
            assert process.poll() is None
        process.send_signal(signal.SIGKILL)
    again, whole = state_of(2), state_of(1)
    restore_parts(path, again)
    again.check()
    sample(KERNEL, whole, again.n_steps // 2)
    assert bits(again) == bits(whole)


def spoil_labels(path):
    file = next(path.glob("0*/labels-*.npy"))
    content = bytearray(read_bytes(str(file)))
    content[-1] ^= 1
    write_bytes(str(file), bytes(content))


def spoil_listing(path):
    file = next(path.glob("manifest-*.json"))
    manifest = json.loads(file.read_text())
    manifest["labels"].pop()
    file.write_text(json.dumps(manifest))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (spoil_labels, "is not what was written"),
        (spoil_listing, "does not hold the labels of the rows"),
        (lambda path: next(path.glob("manifest-*.json")).write_text("{"), "does not fit together"),
        (lambda path: remove(str(next(path.glob("manifest-*.json")))), r"no checkpoint.*write checkpoint="),
    ],
)
def test_altered_files_are_refused(tmp_path, spoil, message):
    path, state = tmp_path / "run", state_of(3)
    KERNEL.step(state)
    PartsCheckpoint(path).write(state)
    spoil(path)
    again = state_of(2)
    before = again.labels
    with pytest.raises(ArchiveError, match=message):
        restore_parts(path, again)
    np.testing.assert_array_equal(again.labels, before)


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"seed": 8}, "of seed 7, the run of 8"), ({"K": 5}, "of n_clusters 6"), ({"rows": X[:800]}, "of n_rows 900")],
)
def test_a_checkpoint_of_another_run_is_refused(tmp_path, settings, message):
    state = state_of(3)
    PartsCheckpoint(tmp_path / "run").write(state)
    with pytest.raises(ArchiveError, match=message):
        restore_parts(tmp_path / "run", state_of(2, **settings))


def test_an_earlier_run_is_not_overwritten(tmp_path):
    PartsCheckpoint(tmp_path / "run").write(state_of(2))
    with pytest.raises(ArchiveError, match=r"earlier run: write resume=.*checkpoint=.*run-2"):
        PartsCheckpoint(tmp_path / "run")
    state = state_of(2)
    restore_parts(tmp_path / "run", state)
    KERNEL.step(state)
    PartsCheckpoint(tmp_path / "run", goes_on=True).write(state)
    assert len(names(str(tmp_path / "run"))) == 4  # what the run went on from stays: lost workers read it again
    with pytest.raises(ValueError, match="every_seconds must be"):
        PartsCheckpoint(tmp_path / "other", every_seconds=-1)


def test_addresses_of_fsspec():
    path, state = "memory://expfam-test/run", state_of(3)
    KERNEL.step(state)
    writer = PartsCheckpoint(path)
    writer.write(state)
    writer.write(state)
    assert len(names(path)) == 2
    again = state_of(2)
    restore_parts(path, again)
    assert bits(again) == bits(state)
    remove(path)
    assert names(path) == []
