#!/usr/bin/env python3
"""Run the tests on a build of all extension modules with gcc's sanitizers, and fail on any report of theirs.

Usage: python .ci/sanitize.py address|thread [--work FOLDER] [--c-files FOLDER] [--jobs N] [-- pytest arguments]

`address` looks for accesses out of range and for undefined behaviour, `thread` for data races. Needs gcc with libasan,
libubsan and libtsan, Python 3.10 or later with venv and pip, and PyPI. All is built in a copy of the checkout with an
environment of its own. --work keeps both, so that a second run compiles only what has changed. --c-files names C files
of an earlier build, commonly build/cython: those whose sources have not changed are not made again by Cython.
"""

import argparse
import collections
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
SUPPRESSIONS = ROOT / ".ci" / "thread_suppressions.txt"
COMMON = "exitcode=0:handle_segv=1"  # the reports decide, not the exit code of each process
STANDARD_ERROR = "stderr"  # file of the reports with what the processes wrote there, of other things too
LEFT_OUT = {  # below tests/
    "benchmarks/test_*.py": "no compiled code of ours",
    "cli/test_*.py": "no compiled code that the estimators' tests do not run",
    "displays/test_*.py": "no compiled code of ours",
    "estimators/test_*.py": "run the compiled code that the tests of the samplers run",
    "exactness/test_*.py": "long chains add no index that short ones have not seen",
    "forecast/test_peak.py": "measures memory, of which a sanitizer takes several times as much",
    "package/test_*.py": "compiles modules of its own, which do not get our flags, or runs no compiled code",
    "plugins/test_lifecycle.py": "compiles modules of its own, which do not get our flags",
    "plugins/test_scaffold.py": "compiles modules of its own, which do not get our flags",
    "robustness/test_fuzz.py": "starts processes that do not find the sanitizer",
    "robustness/test_killed.py": "ends processes from outside",
    "robustness/test_mutants.py": "no compiled code of ours",
}
DESELECTED = {
    "tests/io/test_readers.py::test_mutated_files_of_every_format": "limits the memory of a process",
    "tests/structures/test_cover_tree.py::test_a_tree_takes_little_more_than_its_copy_of_the_data": "measures memory",
}


class Canary(NamedTuple):
    """A program with one deliberate fault inside an instrumented module, and what the sanitizer must say of it."""

    program: str
    expected: str
    variables: dict = {}  # noqa: RUF012  # of the environment


SELECT = """
import numpy as np
from expfam.samplers.variational.sparse_rows import select_rows, work_size
def select(m, K, L, scores, indices, values=None):
    values = np.empty((m, L)) if values is None else values
    select_rows(scores, None, None, None, values, indices, np.empty(m), np.empty(m), np.empty(work_size(K)))
"""
OUT_OF_RANGE = """
# One column too few: the routine goes by the other array.
select(50, 6, 4, np.zeros((50, 6)), np.empty((50, 3), dtype=np.int32))
"""
MISALIGNED = """
# Doubles that begin one byte late.
scores = memoryview(bytearray(8 * 50 * 6 + 8))[1 : 8 * 50 * 6 + 1].cast("d", (50, 6))
select(50, 6, 4, scores, np.empty((50, 4), dtype=np.int32))
"""
RACE = """
# Two threads write to one array.
import threading
m = 20_000
scores, values, indices = np.zeros((m, 6)), np.empty((m, 4)), np.empty((m, 4), dtype=np.int32)
together = threading.Barrier(2)
def work():
    together.wait()
    select(m, 6, 4, scores, indices, values)
threads = [threading.Thread(target=work) for _ in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


class Mode(NamedTuple):
    """How a kind of sanitizer is built in and started."""

    flags: str  # of -fsanitize
    libraries: tuple  # loaded before Python, which is not built with them
    symbols: tuple  # one of each must be wanted by every module that was built
    options: dict  # of the environment; {reports} is the folder where each process writes its own file
    canaries: tuple


MODES = {
    "address": Mode(
        "address,undefined,float-cast-overflow",
        ("libasan.so", "libubsan.so"),
        ("__asan_init", "__ubsan_handle"),
        {
            # Python keeps most objects until its process ends: leaks are another tool's subject.
            "ASAN_OPTIONS": f"{COMMON}:detect_leaks=0:log_path={{reports}}/address",
            # No log_path: beside libasan, gcc's libubsan does not follow its own and writes to standard error.
            "UBSAN_OPTIONS": f"{COMMON}:print_stacktrace=1",
        },
        (
            Canary(SELECT + OUT_OF_RANGE, "heap-buffer-overflow"),
            # the loops of other instruction sets load doubles by instructions that take any address
            Canary(SELECT + MISALIGNED, "runtime error: load of misaligned address", {"EXPFAM_ISA": "base"}),
        ),
    ),
    "thread": Mode(
        "thread",
        ("libtsan.so",),
        ("__tsan_init",),
        {
            # Tests of the pool start threads in forked children, where libtsan would give up by default.
            "TSAN_OPTIONS": f"{COMMON}:suppressions={SUPPRESSIONS}:report_signal_unsafe=0:die_after_fork=0"
            ":log_path={reports}/thread",
        },
        (Canary(SELECT + RACE, "WARNING: ThreadSanitizer: data race"),),
    ),
}


def findings(reports):
    """What the files of the sanitizers say: each finding with the number of processes and times that met it."""
    found = collections.Counter()
    for file in sorted(reports.glob("*")):
        lines = file.read_text(errors="replace").split("\n")
        told = [line for line in lines if re.match(r"SUMMARY: (?!Undefined)", line) or ": runtime error: " in line]
        # What a sanitizer says of itself, such as that it gives up, has no summary: its first line is the finding.
        if not told and file.name != STANDARD_ERROR:
            told = [line for line in lines if line.strip()][:1]
        for line in told:
            found[re.sub(r"0x[0-9a-f]+", "0x..", re.sub(r"==\d+==", "", line))] += 1
    return found


def uninstrumented(modules, symbols):
    """Those of the built modules that do not call the sanitizers."""
    return [file for file in modules if not all(symbol.encode() in file.read_bytes() for symbol in symbols)]


def uses_threads(file):
    """Whether the tests of a file set a number of threads."""
    return "n_threads" in file.read_text()


def chosen_tests(folder, mode):
    """Test files of a mode: all but those left out; for threads those that set their number."""
    out = {file for pattern in LEFT_OUT for file in folder.glob(pattern)}
    files = sorted(set(folder.rglob("test_*.py")) - out)
    return [file for file in files if mode != "thread" or uses_threads(file)]


def library(name):
    """Path of one of gcc's libraries."""
    done = subprocess.run(["gcc", f"-print-file-name={name}"], check=True, capture_output=True, text=True)
    path = Path(done.stdout.strip())
    if not path.is_absolute():
        raise SystemExit(f"gcc has no {name}: install gcc's sanitizers (Debian: libasan, libubsan and libtsan of gcc)")
    return str(path)


def take_c_files(source, tree):
    """Copy the C files of an earlier build, and the records of what they were made from; returns their number.

    The build makes those again whose record does not fit the sources.
    """
    target = tree / "build"
    if target.exists():
        return 0
    shutil.copytree(source, target / source.name, ignore=shutil.ignore_patterns("*.o"))
    shutil.copytree(source.parent / "records", target / "records")
    return len(list(target.rglob("*.c")))


def shown(command, log, **options):
    """Run a command with its output in a file, of which the end is shown where it fails."""
    with log.open("w") as output:
        done = subprocess.run(command, stdout=output, stderr=subprocess.STDOUT, **options)
    if done.returncode:
        sys.stderr.write("".join(log.read_text().splitlines(keepends=True)[-60:]))
        raise SystemExit(f"failed: {' '.join(map(str, command))}\nall of its output: {log}")


def build(mode, work, c_files):
    """Copy the checkout, make the environment and install the instrumented package; returns python and modules."""
    tree, environment = work / "tree", work / "venv"
    subprocess.run([sys.executable, str(ROOT / ".ci" / "copy_tree.py"), str(ROOT), str(tree)], check=True)
    python = environment / "bin" / "python"
    install = [python, "-m", "pip", "install", "--disable-pip-version-check"]
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
        shown([*install, "setuptools>=77", "cython>=3.1", "numpy", "scipy"], work / "pip.log")
    if c_files is not None:
        print(f"{take_c_files(c_files, tree)} C files of an earlier build taken from {c_files}")
    flags = {**os.environ, "EXPFAM_SANITIZE": mode.flags}
    package = [*install, "--no-build-isolation", "--verbose", ".[test]"]  # a folder is installed anew each time
    shown(package, work / "build.log", cwd=tree, env=flags)
    return python, sorted((environment / "lib").glob("python*/site-packages/expfam/**/*.so"))


def watched(mode, reports, halt=False):
    """The environment of a process under a sanitizer, and how its command begins; `halt` ends it on a report."""
    shutil.rmtree(reports, ignore_errors=True)
    reports.mkdir(parents=True)
    options = {name: f"{value.format(reports=reports)}:halt_on_error={halt:d}" for name, value in mode.options.items()}
    environment = {
        **os.environ,
        **options,
        "LD_PRELOAD": ":".join(library(name) for name in mode.libraries),
        "PYTHONMALLOC": "malloc",  # else Python's own allocator hides what lies within its pools
        "MPLBACKEND": "Agg",
        "CI": "1",  # Hypothesis then sets no deadlines and draws the same examples each time
    }
    # libtsan of gcc 12 and earlier ends where the kernel spreads addresses over more bits than it expects.
    fixed = ["setarch", os.uname().machine, "-R"] if mode is MODES["thread"] and shutil.which("setarch") else []
    return environment, fixed


def check_canaries(mode, python, work):
    """Each deliberate fault has to be reported, or silence about the package would mean nothing."""
    reports = work / "canary"
    for canary in mode.canaries:
        environment, fixed = watched(mode, reports, halt=True)
        command = [*fixed, python, "-c", canary.program]
        environment |= canary.variables
        done = subprocess.run(command, cwd=work, env=environment, capture_output=True, timeout=900)
        said = done.stderr.decode(errors="replace")
        said += "".join(file.read_text(errors="replace") for file in reports.glob("*"))
        if canary.expected not in said:
            sys.stderr.write(said)
            raise SystemExit(f"the sanitizer is not on: a deliberate fault was not reported as {canary.expected!r}")


def run_tests(name, python, work, jobs, more):
    """Pytest's exit code and all findings."""
    tree, reports = work / "tree", work / "reports"
    environment, fixed = watched(MODES[name], reports)
    files = [str(file.relative_to(tree)) for file in chosen_tests(tree / "tests", name)]
    command = [*fixed, str(python), "-m", "pytest", "-q", "-p", "no:faulthandler", "-p", "no:cacheprovider"]
    command += ["--capture=sys"]  # pytest would keep what a sanitizer writes to standard error during a passing test
    command += [f"--deselect={test}" for test in DESELECTED]
    parallel = ["-n", str(jobs), "--dist", "loadfile"] if jobs > 1 else []
    with (reports / STANDARD_ERROR).open("wb") as told:
        done = subprocess.run([*command, *parallel, *(more or files)], cwd=tree, env=environment, stderr=told)
    return done.returncode, findings(reports)


def say(what, start):
    """One line of progress with the seconds since the start."""
    print(f"--- {what}: after {time.monotonic() - start:.0f} s", flush=True)


def main(arguments=None):
    """Build, check that the sanitizer is on, run the tests, and say what was found; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", choices=MODES)
    parser.add_argument("--work", type=Path, help="folder for copy, environment and reports; kept (default: temporary)")
    parser.add_argument("--c-files", type=Path, help="C files of an earlier build without EXPFAM_DEBUG")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes that run tests")
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    end = arguments.index("--") if "--" in arguments else len(arguments)
    given, more = parser.parse_args(arguments[:end]), arguments[end + 1 :]  # in place of all test files of the mode
    mode, start = MODES[given.mode], time.monotonic()
    work = (given.work or Path(tempfile.mkdtemp(prefix="expfam-sanitize."))).resolve() / given.mode
    work.mkdir(parents=True, exist_ok=True)
    try:
        python, modules = build(mode, work, given.c_files)
        n_sources = len(list((work / "tree" / "build" / "cython").rglob("*.c")))
        silent = uninstrumented(modules, mode.symbols)
        if silent or len(modules) != n_sources:
            raise SystemExit(f"{len(modules)} modules of {n_sources} sources were built; not instrumented: {silent}")
        say(f"{len(modules)} modules built with -fsanitize={mode.flags}", start)
        check_canaries(mode, python, work)
        say(f"{len(mode.canaries)} deliberate faults reported, as they have to be", start)
        code, found = run_tests(given.mode, python, work, given.jobs, more)
        for finding, times in found.most_common():
            print(f"{times:6d} x {finding}")
        say(f"{len(found)} findings, pytest ended with {code}", start)
        if given.work:
            print(f"reports in full: {work / 'reports'}")
    finally:
        if given.work is None:
            shutil.rmtree(work.parent)
    return 1 if code or found else 0


if __name__ == "__main__":
    raise SystemExit(main())
