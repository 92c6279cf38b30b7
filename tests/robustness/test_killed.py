"""A run that is killed at any moment goes on from its last checkpoint as if nothing had been."""

import json
import subprocess
import sys
import time

import numpy as np
import pytest
from killed_runs import RUNS, digest, digest_of, run, run_on, started
from source_tree import TESTS

from expfam.archive import read_archive
from expfam.errors import ArchiveError
from expfam.samplers.chain.callbacks import restore_checkpoint

KILLS = 6
DETERMINISTIC = {"em", "hierarchy"}
ENDED = {"em"}  # it has converged before its last step: steps that are repeated change nothing


@pytest.fixture(scope="module")
def straight(tmp_path_factory):
    """Digests of runs that nothing happened to, and the seconds they took."""
    folder, begin = tmp_path_factory.mktemp("straight"), time.perf_counter()
    return {name: digest(name, folder) for name in RUNS}, time.perf_counter() - begin


def begun(folder):
    command = [sys.executable, str(TESTS / "robustness" / "killed_runs.py"), str(folder)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "begun\n"
    return child


def test_runs_killed_at_random_moments_end_as_if_nothing_had_been(straight, tmp_path):
    expected, seconds = straight
    rng, n_killed = np.random.default_rng(0), 0
    for _ in range(KILLS):
        with begun(tmp_path) as child:
            time.sleep(rng.random() * seconds / KILLS)
            n_killed += child.poll() is None
            child.kill()  # SIGKILL: nothing is tidied up
    assert n_killed >= KILLS // 2
    with begun(tmp_path) as child:
        assert json.loads(child.stdout.readline()) == expected


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("n_steps", [1, 2, 13])
def test_every_kernel_goes_on_from_any_step(name, n_steps, straight, tmp_path):
    """Kills at random moments hit but a few of the kernels in the middle of their runs."""
    assert run(name, tmp_path, n_steps).n_steps < 20
    assert digest(name, tmp_path) == straight[0][name]


@pytest.mark.parametrize("name", RUNS)
def test_the_digest_tells_whether_seed_and_step_number_came_back(name, straight, tmp_path):
    """The judge itself: a run that goes on with other random numbers, or repeats those of a step, does not pass."""
    expected = straight[0][name]
    run(name, tmp_path, 7)
    arrays = read_archive(tmp_path / name, "checkpoint")[1]["state"]
    same, other, late = started(name), started(name, seed=4), started(name)
    for state in (same, other, late):
        state.from_arrays(arrays)
    late.n_steps -= 1
    assert digest_of(run_on(name, same)) == expected
    assert (digest_of(run_on(name, other)) == expected) == (name in DETERMINISTIC)
    if name not in ENDED:
        assert digest_of(run_on(name, late)) != expected


def test_what_is_no_whole_checkpoint_is_refused_and_left_alone(straight, tmp_path):
    name = "gibbs"
    digest(name, tmp_path)
    files = sorted(path for path in (tmp_path / name).rglob("*") if path.is_file())
    largest = max(files, key=lambda path: path.stat().st_size)
    whole = largest.read_bytes()
    for size in (0, 10, len(whole) // 2, len(whole) - 1):
        largest.write_bytes(whole[:size])
        with pytest.raises(ArchiveError):
            digest(name, tmp_path)
        assert largest.read_bytes() == whole[:size]
    largest.write_bytes(whole)
    assert digest(name, tmp_path) == straight[0][name]


def test_a_checkpoint_of_another_kernel_is_refused(tmp_path):
    run("gibbs", tmp_path)
    state = run("em", tmp_path)
    with pytest.raises(ArchiveError, match="is a checkpoint of CollapsedState"):
        restore_checkpoint(tmp_path / "gibbs", state)
