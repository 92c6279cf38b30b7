"""Fuzzing: hostile files, archives, checkpoints and command lines, in child processes with bounds on memory and time.

    python tests/robustness/fuzz.py --inputs 2000     # the same inputs in every run
    python tests/robustness/fuzz.py --engine atheris  # led by coverage; needs pip install 'expfam[fuzz]'
    python tests/robustness/fuzz.py --replay tests/robustness/fuzz_seeds/reader-npz/0123456789ab

An input may be taken, or refused by one of the errors of `fuzz_targets.REFUSALS`. Another error, the death of the
process, and more memory or time than the bounds are findings. A finding is printed in a form that `--replay` takes, and
its input is kept in `tests/robustness/fuzz_seeds/`. Every later run begins with the kept inputs, unchanged.
"""

import argparse
import base64
import contextlib
import faulthandler
import hashlib
import json
import os
import random
import re
import struct
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import warnings
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

KEPT = Path(__file__).with_name("fuzz_seeds")
_STATE = struct.Struct("<qqq")  # inputs begun, taken, refused
_MOST_PRINTED = 1500  # characters of an input on the command line
_DIGEST = 12
_MOST_DEATHS = 25  # of a target's process; more tell nothing new


# ---- child: runs inputs ----------------------------------------------------------------------------------------------


class Runner:
    """Inputs of one target, one after the other, within bounds; what comes out is counted and reported.

    Parameters
    ----------
    target : Target
    folder : Path
        For the target's own files, and for the file `state`: what is to be known of this process if it dies.
    report : callable
        Takes the dict of a finding.
    begun : tuple of int
        Counts to go on from.
    """

    def __init__(self, target, folder, report, *, seconds, begun=(0, 0, 0)):
        self.target, self.report, self.seconds = target, report, seconds
        self.begun, self.taken, self.refused = begun
        self.place, self.state = folder / "place", folder / "state"
        self.place.mkdir(exist_ok=True)

    def __call__(self, data):
        """Run one input."""
        from fuzz_targets import REFUSALS

        self.begun += 1
        self._note(data)
        faulthandler.dump_traceback_later(self.seconds, exit=True)
        try:
            self.target.run(data, self.place)
        except REFUSALS:
            self.refused += 1
        except Exception as error:
            self.report(_finding_of(error, data))
        else:
            self.taken += 1
        finally:
            faulthandler.cancel_dump_traceback_later()

    def close(self):
        """Leave the last counts."""
        self._note(b"")

    def _note(self, data):
        self.state.write_bytes(_STATE.pack(self.begun, self.taken, self.refused) + data)


def _finding_of(error, data):
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "fuzz" not in Path(frame.filename).name]
    inside = [frame for frame in own if "site-packages" not in frame.filename and "/lib/python" not in frame.filename]
    frame = (inside or own or frames)[-1]
    where = f"{type(error).__name__} at {'/'.join(Path(frame.filename).parts[-2:])}:{frame.lineno}"
    return {"what": where, "message": str(error)[:200], "input": base64.b64encode(data).decode()}


def _limit_memory(n_bytes):
    """Bound the address space at what it is now and so many bytes more, where the system can."""
    try:
        import resource

        used = int(re.search(r"VmSize:\s+(\d+) kB", Path("/proc/self/status").read_text()).group(1)) << 10
    except (ImportError, OSError):
        return
    resource.setrlimit(resource.RLIMIT_AS, (used + n_bytes, resource.getrlimit(resource.RLIMIT_AS)[1]))


def _kept_inputs(name):
    return [path.read_bytes() for path in sorted((KEPT / name).glob("*"))]


def input_of(target, seeds, name, seed, index):
    """The input of that number: a seed changed a few times, the same in every run."""
    rng = random.Random(f"{seed}/{name}/{index}")
    data = rng.choice(seeds)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        data = target.mutate(data, rng)
    return data


def _work(job, folder, report):
    """Run a job of this process: its seeds and the kept inputs first, then changed ones."""
    warnings.simplefilter("ignore")
    name, counts = job["target"], tuple(job["counts"])
    with _watched_imports(job["engine"]):
        from fuzz_targets import REFUSALS, targets

        target = targets()[name]
        seeds = target.seeds()
        for data in seeds:  # not counted: what is imported and cached on the way is no part of the bound on memory
            (folder / "place").mkdir(exist_ok=True)
            with contextlib.suppress(*REFUSALS):
                target.run(data, folder / "place")
    _limit_memory(job["memory"])
    runner = Runner(target, folder, report, seconds=job["seconds"], begun=counts)
    kept = _kept_inputs(name)
    if job["engine"] == "atheris":
        _let_atheris(target, seeds + kept, job["inputs"] - counts[0], folder, job["seed"], runner)
    for index in range(counts[0], len(kept) + job["inputs"]):
        data = kept[index] if index < len(kept) else input_of(target, seeds, name, job["seed"], index)
        runner(data)
    runner.close()


def _watched_imports(engine):
    """While it is open, the package's modules are imported; Atheris is to see which of their lines are reached."""
    if engine != "atheris":
        return contextlib.nullcontext()
    import atheris

    return atheris.instrument_imports(include=["expfam"])


def _let_atheris(target, seeds, n_inputs, folder, seed, runner):
    """Leave the choice of inputs to Atheris, which keeps those that reach new code; this process ends with it."""
    import atheris

    corpus = folder / "corpus"
    corpus.mkdir(exist_ok=True)
    for data in seeds:
        (corpus / hashlib.sha256(data).hexdigest()[:_DIGEST]).write_bytes(data)

    def change(data, max_size, number):
        rng = random.Random(number)
        for _ in range(rng.choice((1, 1, 2, 3))):
            data = target.mutate(data, rng)
        return data[:max_size]

    def run(data):
        runner(data)
        runner.close()

    options = [f"-runs={n_inputs}", f"-seed={seed + runner.begun + 1}", "-max_len=65536", "-rss_limit_mb=0"]
    options += [
        "-mutate_depth=1",
        "-handle_segv=0",
        "-handle_abrt=0",
        "-handle_bus=0",
        "-handle_fpe=0",
        "-verbosity=0",
        "-timeout=0",
    ]
    atheris.Setup([sys.argv[0], *options, f"-artifact_prefix={folder}/", str(corpus)], run, custom_mutator=change)
    atheris.Fuzz()


def _child(folder):
    """The process that may die: takes jobs as lines of JSON, answers with findings and the word done."""
    folder = Path(folder)
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.dup2(os.open(folder / "stderr", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
    faulthandler.enable()
    for line in sys.stdin:
        job = json.loads(line)
        _work(job, folder, lambda finding: answers.write(json.dumps(finding) + "\n"))
        answers.write("done\n")


# ---- parent: hands out jobs, gathers findings ------------------------------------------------------------------------


class Crew:
    """One child process after another, and what was found in them."""

    def __init__(self, options):
        self.options, self.process, self.folder, self.findings = options, None, None, {}

    def run(self, name):
        """All inputs of a target: counts of inputs begun, taken and refused."""
        counts, n_deaths = (0, 0, 0), 0
        while True:
            ended, counts, data = self._job(name, counts)
            if ended:
                return counts
            self._add(name, self._death(data))
            n_deaths += 1
            if n_deaths == _MOST_DEATHS:
                return counts

    def _job(self, name, counts):
        """Whether the target's inputs came to their end, the counts, and the input that the process died of."""
        options = self.options
        if self.process is None:
            self.folder = tempfile.TemporaryDirectory(prefix="expfam-fuzz-")
            command = [sys.executable, __file__, "--child", self.folder.name]
            threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
            self.process = subprocess.Popen(command, env=os.environ | threads, cwd=self.folder.name, **pipes)
        job = {"target": name, "counts": counts, "inputs": options.inputs, "seed": options.seed}
        job |= {"engine": options.engine, "seconds": options.seconds, "memory": options.memory << 20}
        state = Path(self.folder.name, "state")
        state.unlink(missing_ok=True)
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        ended = False
        while not ended and (line := self.process.stdout.readline()):
            ended = line == "done\n"
            if not ended:
                self._add(name, json.loads(line))
        if not state.exists():
            raise RuntimeError(f"{name}: the child process ended before its first input:\n{self._errors()}")
        content = state.read_bytes()
        if not ended and self.process.wait() == 0:  # of Atheris, which ends its process
            ended = True
            self.close()
        return ended, _STATE.unpack_from(content), content[_STATE.size :]

    def _death(self, data):
        """The finding of a process that died, which is put away."""
        code, errors = self.process.returncode, self._errors()
        place = re.search(r'File "([^"]+)", line (\d+)', errors)
        where = f" at {'/'.join(Path(place.group(1)).parts[-2:])}:{place.group(2)}" if place else ""
        what = f"more than {self.options.seconds} s" if "Timeout (" in errors else f"process ended with {code}"
        self.close()
        return {"what": what + where, "message": errors.strip()[-300:], "input": base64.b64encode(data).decode()}

    def _errors(self):
        path = Path(self.folder.name, "stderr")
        return path.read_text(errors="replace") if path.exists() else ""

    def _add(self, name, finding):
        """Keep the shortest input of those that end in the same way at the same place."""
        data, key = base64.b64decode(finding["input"]), (name, finding["what"])
        count, shortest, message = self.findings.get(key, (0, data, finding["message"]))
        if len(data) < len(shortest):
            shortest, message = data, finding["message"]
        self.findings[key] = count + 1, shortest, message

    def take_findings(self):
        """What was found since this was last asked: count, shortest input and message, by target and what it was."""
        taken, self.findings = self.findings, {}
        return taken

    def close(self):
        """End the process."""
        if self.process is not None:
            self.process.stdin.close()
            self.process.stdout.close()
            self.process.wait()
            self.process = None
            self.folder.cleanup()


def fuzz(names, options):
    """Run targets, `options.inputs` for each; print what was found: number of findings."""

    local, crews = threading.local(), []

    def attack(name):
        if not hasattr(local, "crew"):
            local.crew = Crew(options)
            crews.append(local.crew)
        before = time.perf_counter()
        counts = local.crew.run(name)
        return (
            counts,
            time.perf_counter() - before,
            local.crew.take_findings(),
        )

    total, findings = 0, {}
    print(f"{'target':<26}{'inputs':>8}{'taken':>8}{'refused':>9}{'findings':>10}{'seconds':>9}", flush=True)
    with ThreadPoolExecutor(options.jobs) as pool:
        for name, (counts, seconds, found) in zip(names, pool.map(attack, names)):
            line = "{:>8}{:>8}{:>9}".format(*counts)
            print(f"{name:<26}{line}{len(found):>10}{seconds:>9.1f}", flush=True)
            total, findings = total + counts[0], findings | found
    for crew in crews:
        crew.close()
    for (name, what), (count, data, message) in findings.items():
        path = _keep(options.keep, name, data)
        print(f"\nFINDING {name}: {what} ({count} inputs, the shortest of {len(data)} bytes)\n    {message}")
        print(f"    python tests/robustness/fuzz.py --replay {path}")
        text = base64.b64encode(zlib.compress(data, 9)).decode()
        if len(text) <= _MOST_PRINTED:
            print(f"    python tests/robustness/fuzz.py --replay {name}:{text}")
    print(f"\n{total} inputs, {len(findings)} findings")
    return len(findings)


def _keep(folder, name, data):
    path = folder / name / hashlib.sha256(data).hexdigest()[:_DIGEST]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def replay(text):
    """Run one input in this process, so that its error is seen: a kept file, or TARGET:BASE64 as it was printed."""
    from fuzz_targets import REFUSALS, targets

    path = Path(text)
    if ":" in text and not path.exists():
        name, _, packed = text.partition(":")
        data = zlib.decompress(base64.b64decode(packed))
    else:
        name, data = path.parent.name, path.read_bytes()
    faulthandler.enable()
    with tempfile.TemporaryDirectory() as folder:
        try:
            targets()[name].run(data, Path(folder))
        except REFUSALS as error:
            print(f"{name}: refused: {type(error).__name__}: {error}")
        else:
            print(f"{name}: taken")


def main(argv=None):
    """Run what the command line asks for: exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=2000, help="in all; 0 for the kept ones alone")
    parser.add_argument("--targets", nargs="+", metavar="NAME", help="or beginnings of names; default: all")
    parser.add_argument("--engine", choices=("plain", "atheris"), default="plain", help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=20.0, help="for one input; default: %(default)s")
    parser.add_argument("--memory", type=int, default=1024, help="MB for one input; default: %(default)s")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes side by side")
    parser.add_argument("--keep", type=Path, default=KEPT, help="of found inputs; default: tests/robustness/fuzz_seeds")
    parser.add_argument("--replay", nargs="+", metavar="INPUT", help="run these inputs alone, and show their errors")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.child:
        _child(options.child)
        return 0
    if options.replay:
        for text in options.replay:
            replay(text)
        return 0
    from fuzz_targets import targets

    names = [name for name in targets() if options.targets is None or name.startswith(tuple(options.targets))]
    if not names:
        parser.error(f"no such target; there are {', '.join(targets())}")
    if options.inputs == 0:  # the kept inputs alone
        names = [name for name in names if _kept_inputs(name)]
    options.inputs = -(-options.inputs // max(1, len(names)))
    return 1 if fuzz(names, options) else 0


if __name__ == "__main__":
    sys.exit(main())
