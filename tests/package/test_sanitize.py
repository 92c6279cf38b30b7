"""The script that runs tests under sanitizers counts what they report, and does not take silence for health."""

import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def sanitize():
    spec = importlib.util.spec_from_file_location("sanitize", ROOT / ".ci" / "sanitize.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


REPORTS = {
    "address.12": """
==12==ERROR: AddressSanitizer: heap-buffer-overflow on address 0x602000000018 at pc 0x7f bp 0x7f sp 0x7f
READ of size 4 at 0x602000000018 thread T0
SUMMARY: AddressSanitizer: heap-buffer-overflow structures/simd/top_l.h:31 in top_of_row
""",
    "address.13": "SUMMARY: AddressSanitizer: heap-buffer-overflow structures/simd/top_l.h:31 in top_of_row\n",
    "undefined.12": """
structures/selection/alias.c:10:2: runtime error: load of misaligned address 0x60200001 for type 'double'
structures/selection/alias.c:10:2: runtime error: load of misaligned address 0x60200002 for type 'double'
SUMMARY: UndefinedBehaviorSanitizer: undefined-behavior structures/selection/alias.c:10:2 in
""",
    "thread.14": """
WARNING: ThreadSanitizer: data race (pid=14)
SUMMARY: ThreadSanitizer: data race samplers/em.c:7 in step
""",
    "thread.15": "==15==ThreadSanitizer: starting new threads after multi-threaded fork is not supported. Dying\n",
}


def test_each_finding_is_counted_once_with_its_times(sanitize, tmp_path):
    for name, text in REPORTS.items():
        (tmp_path / name).write_text(text)
    assert sanitize.findings(tmp_path) == {
        "SUMMARY: AddressSanitizer: heap-buffer-overflow structures/simd/top_l.h:31 in top_of_row": 2,
        "structures/selection/alias.c:10:2: runtime error: load of misaligned address 0x.. for type 'double'": 2,
        "SUMMARY: ThreadSanitizer: data race samplers/em.c:7 in step": 1,
        "ThreadSanitizer: starting new threads after multi-threaded fork is not supported. Dying": 1,
    }


def test_no_reports_are_no_findings(sanitize, tmp_path):
    assert not sanitize.findings(tmp_path)


def test_a_module_without_one_of_the_sanitizers_is_named(sanitize, tmp_path):
    both, one = tmp_path / "both.so", tmp_path / "one.so"
    both.write_bytes(b"\0__asan_init\0__ubsan_handle_out_of_bounds\0")
    one.write_bytes(b"\0__asan_init\0")
    assert sanitize.uninstrumented([both, one], sanitize.MODES["address"].symbols) == [one]


def test_a_sanitizer_that_says_nothing_of_a_fault_ends_the_run(sanitize, tmp_path):
    silent = sanitize.Canary("pass", "heap-buffer-overflow")
    mode = sanitize.MODES["address"]._replace(libraries=(), canaries=(silent,))
    with pytest.raises(SystemExit, match="the sanitizer is not on"):
        sanitize.check_canaries(mode, Path(sys.executable), tmp_path)


def test_a_reported_fault_lets_the_run_go_on(sanitize, tmp_path):
    program = f"open({str(tmp_path / 'canary' / 'address.1')!r}, 'w').write('ERROR: heap-buffer-overflow')"
    mode = sanitize.MODES["address"]._replace(
        libraries=(), canaries=(sanitize.Canary(program, "heap-buffer-overflow"),)
    )
    sanitize.check_canaries(mode, Path(sys.executable), tmp_path)


def test_every_test_file_is_run_or_left_out_by_name(sanitize):
    tests = ROOT / "tests"
    run = {file.relative_to(tests).as_posix() for file in sanitize.chosen_tests(tests, "address")}
    assert {"structures/test_top_l.py", "samplers/topics/test_variational.py", "io/test_readers.py"} <= run
    out = {file.relative_to(tests).as_posix() for pattern in sanitize.LEFT_OUT for file in tests.glob(pattern)}
    assert not run & out
    assert run | out == {file.relative_to(tests).as_posix() for file in tests.rglob("test_*.py")}
    assert not [pattern for pattern in sanitize.LEFT_OUT if not list(tests.glob(pattern))]


def test_the_thread_sanitizer_runs_the_tests_that_set_threads(sanitize):
    run = {file.name for file in sanitize.chosen_tests(ROOT / "tests", "thread")}
    assert {"test_threads.py", "test_fastex.py", "test_em.py", "test_canopy.py"} <= run
    assert "test_readers.py" not in run


def test_c_files_of_an_earlier_build_come_with_their_records(sanitize, tmp_path):
    tree, old = tmp_path / "tree", tmp_path / "old" / "cython"
    for folder in (tree, old / "samplers", old.parent / "records"):
        folder.mkdir(parents=True)
    (old / "samplers" / "fresh.c").write_text("fresh")
    (old.parent / "records" / "expfam.samplers.fresh.json").write_text("{}")
    assert sanitize.take_c_files(old, tree) == 1
    assert (tree / "build" / "cython" / "samplers" / "fresh.c").read_text() == "fresh"
    assert (tree / "build" / "records" / "expfam.samplers.fresh.json").exists()
    assert sanitize.take_c_files(old, tree) == 0  # a copy that was built before has its own


def test_each_suppression_has_a_reason(sanitize):
    lines = sanitize.SUPPRESSIONS.read_text().splitlines()
    for before, line in zip(["", *lines], lines):
        assert not line or line.startswith("#") or before.startswith("#"), f"{line}: say why in the line above"
