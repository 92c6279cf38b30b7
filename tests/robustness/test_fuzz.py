"""The fuzzer sees what it is to see, says how to see it again, and what it once found stays mended."""

import random
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from fuzz import input_of
from fuzz_mutate import mutate_archive, mutate_arguments, mutate_bytes, mutate_gzip, mutate_npy, mutate_text, mutate_zip
from fuzz_targets import ARRAYS, HEADER, KINDS, targets

HERE = Path(__file__).parent
PLANTED = """
import collections, ctypes, time

class Refusal(Exception):
    pass

REFUSALS = (Refusal,)
Target = collections.namedtuple("Target", "seeds mutate run")

def of(run):
    return Target(lambda: [b"seed"], lambda data, rng: rng.randbytes(4), run)

def well(data, folder):
    (folder / "file").write_bytes(data)
    if sum(data) % 2:
        raise Refusal("odd")

def wrong(data, folder):
    if sum(data[:1]) % 4 == 0:
        raise KeyError("planted")

def killed(data, folder):
    if sum(data[:1]) % 16 == 0:
        ctypes.string_at(0)

def slow(data, folder):
    if sum(data[:1]) % 16 == 0:
        time.sleep(100)

def greedy(data, folder):
    if sum(data[:1]) % 4 == 0:
        bytearray(1 << 31)

def targets():
    return {f.__name__: of(f) for f in (well, wrong, killed, slow, greedy)}
"""


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    """The fuzzer with targets that go wrong in every way; runs it: exit code, output."""
    folder = tmp_path_factory.mktemp("fuzz")
    shutil.copy(HERE / "fuzz.py", folder / "fuzz.py")
    (folder / "fuzz_targets.py").write_text(PLANTED)

    def run(*args):
        command = [sys.executable, str(folder / "fuzz.py"), *map(str, args)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, timeout=300)
        return done.returncode, done.stdout + done.stderr

    return folder, run


@pytest.fixture(scope="module")
def attacked(planted):
    return planted[1]("--inputs", 100, "--seconds", 3, "--memory", 512, "--jobs", 2)


def test_every_kind_of_fault_is_a_finding_and_nothing_else_is(attacked):
    code, output = attacked
    assert code == 1
    found = dict(re.findall(r"^FINDING (\w+): (.*?) \(", output, re.MULTILINE))
    assert set(found) == {"wrong", "killed", "slow", "greedy"}
    assert found["wrong"].startswith("KeyError at")
    assert found["killed"].startswith("process ended with -11")
    assert found["slow"].startswith("more than 3.0 s at")
    assert found["greedy"].startswith("MemoryError at")


def test_all_inputs_are_run_though_the_process_dies(attacked):
    """After each death the next process goes on with the next input."""
    rows = {row[0]: list(map(int, row[1:4])) for row in map(str.split, attacked[1].splitlines()[1:6])}
    assert [counts[0] for counts in rows.values()] == [20] * 5
    inputs, taken, refused = rows["well"]
    assert taken + refused == inputs
    assert min(taken, refused) > 0


def test_a_finding_can_be_run_again_from_its_file_and_from_the_printed_text(planted, attacked):
    _, run = planted
    replays = re.findall(r"--replay (\S+)", attacked[1])
    assert len(replays) == 8
    for text in replays:
        if "wrong" in text:
            code, output = run("--replay", text)
            assert code != 0
            assert "KeyError: 'planted'" in output
        elif "killed" in text:
            assert run("--replay", text)[0] == -11
    assert run("--replay", f"{planted[0]}/fuzz_seeds/wrong/none")[0] != 0


def test_later_runs_begin_with_what_was_found(planted, attacked):
    folder, run = planted
    assert attacked[0] == 1
    kept = list((folder / "fuzz_seeds" / "wrong").iterdir())
    assert len(kept) == 1
    code, output = run("--inputs", 0, "--targets", "wrong", "well")
    assert code == 1
    assert "1 inputs, 1 findings" in output
    assert str(kept[0].name) in output


@pytest.mark.slow
def test_atheris_finds_them_too(planted):
    pytest.importorskip("atheris")
    args = (
        "--inputs",
        60,
        "--seconds",
        3,
        "--memory",
        512,
        "--engine",
        "atheris",
        "--targets",
        "wrong",
        "killed",
        "well",
    )
    code, output = planted[1](*args)
    assert code == 1
    assert "FINDING wrong: KeyError" in output
    assert "FINDING killed: process ended with -11" in output
    assert "FINDING well" not in output


def test_a_number_names_an_input():
    target = targets()["reader-csv"]
    seeds = target.seeds()
    inputs = [input_of(target, seeds, "reader-csv", 0, index) for index in range(50)]
    assert inputs == [input_of(target, seeds, "reader-csv", 0, index) for index in range(50)]
    assert len(set(inputs)) > 40
    assert inputs[0] != input_of(target, seeds, "reader-csv", 1, 0)


def test_there_is_a_target_for_every_format_every_load_and_every_kernel():
    from killed_runs import RUNS

    from expfam.io.readers import _READERS

    pytest.importorskip("pyarrow")
    names = {name for name, target in targets().items() if target.mutate is not None}
    suffixes = {Path(KINDS[name].removesuffix(".gz")).suffix for name in names if name in KINDS}
    same = {".libsvm", ".arrow", ".ndjson"}  # other names of formats that have a target
    assert suffixes >= set(_READERS) - same | {".txt"}
    assert {f"checkpoint-{name}" for name in RUNS} <= names
    assert {"load-mixture", "load-hierarchy", "load-topics", "load-grouped", "command-line"} <= names


MUTATORS = {
    "bytes": (mutate_bytes, "reader-mtx-gz"),
    "text": (mutate_text, "reader-mtx"),
    "gzip": (mutate_gzip, "reader-mtx-gz"),
    "npy": (mutate_npy, "reader-npy"),
    "zip": (mutate_zip, "reader-npz"),
    "archive": (lambda data, rng: mutate_archive(data, rng, HEADER, ARRAYS), "load-topics"),
    "arguments": (lambda data, rng: mutate_arguments(data, rng, ["x"]), "command-line"),
}


@pytest.mark.parametrize("name", MUTATORS)
def test_any_bytes_can_be_changed(name):
    """A change takes whatever an earlier change has left."""
    mutate, target = MUTATORS[name]
    for seed in targets()[target].seeds()[:3]:
        rng, data, seen = random.Random(0), seed, set()
        for _ in range(150):
            data = mutate(data, rng)
            seen.add(data)
        assert len(seen) > 30
    assert isinstance(mutate(b"", random.Random(1)), bytes)


def test_what_was_once_found_stays_mended(tmp_path):
    command = [sys.executable, str(HERE / "fuzz.py"), "--inputs", "0", "--keep", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    here = targets()  # without pyarrow those of Parquet are left out
    kept = [path for path in (HERE / "fuzz_seeds").glob("*/*") if path.parent.name in here]
    assert kept
    assert f"{len(kept)} inputs, 0 findings" in done.stdout
