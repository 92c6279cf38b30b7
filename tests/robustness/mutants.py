"""Mutants: each fault of `faults.py` is put into a copy of the tree, and the tests named with it have to find it.

    python tests/robustness/mutants.py               # all of them
    python tests/robustness/mutants.py slice pitman  # those whose names hold one of these words
    python tests/robustness/mutants.py --list
    python tests/robustness/mutants.py --control     # the unchanged copy passes every named test

The copy is built as it is on the first run; a fault in a compiled module compiles that module alone. A table with the
test that found each fault is printed at the end, and written to --report. The exit code is 1 if a fault survives,
cannot be put in, or does not build.
"""

import argparse
import json
import os
import queue
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from faults import FAULTS

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {"structures": "structures", "samplers": "samplers", "plugins": "plugins"}  # folders beside expfam/
OPTIMISATION = "-O1"  # of changed modules: compiled in half the time
GOOD = ("caught", "crashed")  # ways of being found


class Outcome(NamedTuple):
    """What became of one fault."""

    status: str  # caught, crashed, SURVIVED, NO END, DOES NOT FIT, DOES NOT BUILD, NO TEST RAN
    found_by: str
    seconds: float


class Tree:
    """A copy of the checkout whose own package is imported, built once as it is."""

    def __init__(self, folder):
        self.root, self.overlay = folder, folder / "overlay"
        ignored = shutil.ignore_patterns(".git", "__pycache__", ".*_cache", "env", "results", "dist", ".hypothesis")
        shutil.copytree(ROOT, folder, ignore=ignored)
        package = self.overlay / "expfam"
        package.mkdir(parents=True)
        for source in (folder / "expfam").iterdir():
            (package / source.name).symlink_to(source)
        for name, source in PACKAGES.items():
            (package / name).symlink_to(folder / source)

    def prepare(self):
        """Build what is not built yet, and see that the copy is what is imported."""
        built = self.build([])
        if built.returncode:
            raise SystemExit(f"the unchanged tree does not build:\n{built.stderr[-4000:]}")
        # without the working directory, whose folder expfam/ is only a part of the package; tests leave it out too
        found = self.python(
            "-c", "import sys; sys.path.pop(0); import expfam.samplers.collapsed.gibbs as m; print(m.__file__)"
        )
        found = found.stdout.strip()
        if not found.startswith(str(self.overlay)):
            raise SystemExit(f"the copy {self.root} is not what is imported, but {found or 'nothing'}")

    def python(self, *arguments, timeout=None, **variables):
        """Run Python in the copy."""
        environment = {**os.environ, "PYTHONPATH": str(self.overlay), "PYTHONDONTWRITEBYTECODE": "1", **variables}
        command = [sys.executable, *arguments]
        return subprocess.run(
            command, cwd=self.root, env=environment, capture_output=True, text=True, timeout=timeout, errors="replace"
        )

    def build(self, modules):
        """Compile the modules of these names, or, without any, all that changed."""
        chosen = {"EXPFAM_MODULES": " ".join(modules), "EXPFAM_OPTIMISATION": OPTIMISATION} if modules else {}
        return self.python("setup.py", "build_ext", "--inplace", **chosen)

    def run_tests(self, selection, timeout):
        """Run a selection of tests up to the first failure."""
        arguments = shlex.split(selection)
        if not any(argument.startswith("-m") for argument in arguments):
            arguments += ["-m", "not slow"]
        return self.python("-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *arguments, timeout=timeout)


def module_of(path):
    """Dotted name of a compiled module."""
    parts = Path(path).with_suffix("").parts
    return ".".join(parts if parts[0] == "expfam" else ("expfam", *parts))


def built_file(tree, path):
    """The compiled file beside a .pyx."""
    source = tree.root / path
    (built,) = source.parent.glob(f"{source.stem}.*.so")
    return built


def judge(tree, fault, timeout):
    """Outcome of one fault in a copy, which is left as it was."""
    began = time.monotonic()
    source = tree.root / fault.path
    text = source.read_text()
    if text.count(fault.old) != 1:
        return Outcome("DOES NOT FIT", f"the old text occurs {text.count(fault.old)} times", 0.0)
    is_compiled = source.suffix == ".pyx"
    kept = built_file(tree, fault.path).read_bytes() if is_compiled else b""
    try:
        source.write_text(text.replace(fault.old, fault.new))
        if is_compiled:
            built = tree.build([module_of(fault.path)])
            if built.returncode:
                error = next((line for line in built.stderr.splitlines() if "rror" in line), built.stderr[-200:])
                return Outcome("DOES NOT BUILD", error.strip(), time.monotonic() - began)
        status, found_by = _verdict(tree, fault.tests, timeout)
        return Outcome(status, found_by, time.monotonic() - began)
    finally:
        source.write_text(text)
        if is_compiled:
            target = built_file(tree, fault.path)
            target.unlink()  # a process of the last run may still have it mapped
            target.write_bytes(kept)


def _verdict(tree, selection, timeout):
    try:
        run = tree.run_tests(selection, timeout)
    except subprocess.TimeoutExpired:
        return "NO END", f"of the tests after {timeout} s"
    if run.returncode == 0:
        return "SURVIVED", ""
    failed = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", run.stdout, re.MULTILINE)
    if run.returncode == 1 and failed:
        return "caught", failed[1].removeprefix("tests/")
    if run.returncode < 0:
        return "crashed", f"signal {-run.returncode}"
    return "NO TEST RAN", (run.stdout.strip().splitlines() or run.stderr.strip().splitlines() or ["?"])[-1]


def control(tree, faults, timeout):
    """Whether the unchanged copy, with the faults' modules compiled as faults are, passes all tests that they name."""
    modules = sorted({module_of(fault.path) for fault in faults if fault.path.endswith(".pyx")})
    for fault in faults:
        if fault.path.endswith(".pyx"):
            os.utime(tree.root / fault.path)
    built = tree.build(modules) if modules else None
    if built is not None and built.returncode:
        raise SystemExit(f"the unchanged modules do not build:\n{built.stderr[-4000:]}")
    passed = True
    for selection in sorted({fault.tests for fault in faults}):
        status, found_by = _verdict(tree, selection, timeout)
        passed &= status == "SURVIVED"
        print(f"{'passed' if status == 'SURVIVED' else status}  {selection}  {found_by}", flush=True)
    return passed


def table(results):
    """Markdown of the outcomes, in the order of the list."""
    lines = ["| fault | file | found by |", "|---|---|---|"]
    for fault in FAULTS:
        if fault.name in results:
            outcome = Outcome(*results[fault.name]["outcome"])
            by = outcome.found_by if outcome.status == "caught" else f"{outcome.status} {outcome.found_by}".strip()
            lines.append(f"| {fault.name} | {fault.path} | {by.replace('|', '/')} |")
    found = sum(result["outcome"][0] in GOOD for result in results.values())
    return "\n".join([*lines, "", f"{found} of {len(results)} faults were found."])


def key_of(fault):
    """What an outcome is of: kept with it, so that `--resume` judges changed faults again."""
    return [fault.path, fault.old, fault.new, fault.tests]


def judge_all(faults, trees, results, keep, timeout):
    """Outcomes of all faults, each in the next free copy."""
    free, lock = queue.Queue(), threading.Lock()
    for tree in trees:
        free.put(tree)

    def one(fault):
        tree = free.get()
        try:
            outcome = judge(tree, fault, timeout)
        finally:
            free.put(tree)
        with lock:
            results[fault.name] = {"key": key_of(fault), "outcome": list(outcome)}
            keep.write_text(json.dumps(results, indent=1))
            print(f"{outcome.seconds:6.1f} s  {outcome.status:10}  {fault.name}  {outcome.found_by}", flush=True)

    with ThreadPoolExecutor(len(trees)) as pool:
        list(pool.map(one, faults))


def main(arguments=None):
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("words", nargs="*", help="only faults whose name holds one of these")
    parser.add_argument("--list", action="store_true", help="print the names")
    parser.add_argument("--control", action="store_true", help="run the named tests without any fault")
    parser.add_argument("--resume", action="store_true", help="keep the outcomes that --results already has")
    parser.add_argument("--results", type=Path, default=Path("build/mutants.json"))
    parser.add_argument("--report", type=Path, help="write the table to this Markdown file too")
    parser.add_argument("--jobs", type=int, default=1, help="copies that work side by side")
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds for the tests of one fault")
    given = parser.parse_args(arguments)
    chosen = [f for f in FAULTS if not given.words or any(word in f.name for word in given.words)]
    if not chosen:
        parser.error(f"no fault has one of the words {given.words} in its name")
    if given.list:
        print("\n".join(f"{fault.name}  ({fault.path})" for fault in chosen))
        return 0
    results = json.loads(given.results.read_text()) if given.resume and given.results.exists() else {}
    keys = {fault.name: key_of(fault) for fault in FAULTS}
    results = {name: result for name, result in results.items() if keys.get(name) == result["key"]}
    given.results.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="expfam-mutants-") as folder:
        trees = [Tree(Path(folder) / str(job)) for job in range(1 if given.control else given.jobs)]
        for tree in trees:
            tree.prepare()
        if given.control:
            return 0 if control(trees[0], chosen, given.timeout) else 1
        judge_all(
            [fault for fault in chosen if fault.name not in results], trees, results, given.results, given.timeout
        )
    print(table(results))
    if given.report is not None:
        given.report.write_text(table(results) + "\n")
    return 0 if all(results[fault.name]["outcome"][0] in GOOD for fault in chosen) else 1


if __name__ == "__main__":
    sys.exit(main())
