"""Two versions of the package beside each other: which cases take longer in the new one, and by more than noise.

Run by hand: `python -m asv_bench.protocols.versions --base PYTHON --new PYTHON`, with the interpreters of two
environments that hold the two versions, installed the same way, for an editable install is imported in another way. The
rest of the environments should be equal; the first table shows what they hold. An interpreter that is not given is this
one, and a version beside itself shows the noise of the machine.

Each case is a program of `version_cases.py`, run as a process of its own, which prints the least CPU seconds of a few
repeats. The two versions take turns, and each round begins with the one that the round before ended with, so that a
machine that slows down slows both. The table has the medians of the processes' seconds, the ratio of these medians,
and, as noise, the interquartile range of the ratios of the rounds. A case is slower where the ratio is above the bound
by more than the noise, which is some three standard errors of the ratio in seven rounds. The exit status is 1 where a
case is slower, where one fails in the new version, or where nothing could be compared.

--quick makes small data and one round: it shows that every case runs, and judges no seconds.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
# the folder expfam/ of the checkout is only a part of the package, which `python -m` would import here
sys.path[:] = [str(HERE), *(entry for entry in sys.path if Path(entry or ".").resolve() != HERE.parents[1])]

from reports import print_growing, print_table, report  # noqa: E402
from version_cases import CASES  # noqa: E402

SIDES = ("base", "new")
FEWEST_ROUNDS = 3  # that have quartiles
ABOUT = """
import json, pathlib, platform, expfam, numpy, scipy
print(json.dumps({"expfam": expfam.__version__, "Python": platform.python_version(), "NumPy": numpy.__version__,
                  "SciPy": scipy.__version__, "folder": str(pathlib.Path(expfam.__file__).parent)}))
"""
# one thread, and the same order of sets and dicts in every process
SETTINGS = {"OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}


class ProgramError(Exception):
    """A program that failed: the last line of its errors."""


def printed(python, *arguments):
    """What a program prints; it runs outside the checkout, whose folder expfam/ is not the package."""
    done = subprocess.run(
        [python, *arguments],
        cwd=tempfile.gettempdir(),
        env=os.environ | SETTINGS,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        raise ProgramError(lines[-1] if lines else f"status {done.returncode}, no message")
    return done.stdout


def timed(python, name, *, quick):
    """Least CPU seconds of a case, in a new process."""
    return float(printed(python, str(HERE / "version_cases.py"), name, *(["quick"] if quick else [])))


def rounds_of(name, args):
    """Seconds of each round by version, and the errors of those that fail, after which there are no more rounds."""
    seconds, errors = {side: [] for side in SIDES}, {}
    for turn in range(args.rounds):
        for side in SIDES if turn % 2 == 0 else SIDES[::-1]:
            try:
                seconds[side].append(timed(getattr(args, side), name, quick=args.quick))
            except ProgramError as error:
                errors[side] = str(error)
        if errors:
            break
    return seconds, errors


def compared(seconds, bound):
    """Medians of both versions, their ratio, its noise, and the verdict; no bound, no verdict."""
    base, new = (np.array(seconds[side]) for side in SIDES)
    low, high = np.percentile(new / base, [25, 75])
    before, after = statistics.median(base.tolist()), statistics.median(new.tolist())
    ratio, noise = after / before, float(high - low)
    verdict = "ran" if bound is None else "slower" if ratio - noise > bound else "ok"
    return {"base s": before, "new s": after, "ratio": ratio, "noise": noise, "verdict": verdict}


def failed(errors):
    """The row of a case that cannot be compared."""
    where = " and ".join(side for side in SIDES if side in errors)
    return dict.fromkeys(["base s", "new s", "ratio", "noise"]) | {"verdict": f"fails in {where}"}


def compare(args):
    """Table of all cases, with the seconds of every process."""
    about = {side: about_python(getattr(args, side), side) for side in SIDES}
    print_table([{"": side} | about[side] for side in SIDES])
    seconds, errors = {}, {}

    def rows():
        for name in args.only or CASES:
            seconds[name], errors[name] = rounds_of(name, args)
            bound = None if args.quick else args.bound
            yield {"case": name} | (failed(errors[name]) if errors[name] else compared(seconds[name], bound))

    found = print_growing(rows(), first=max(map(len, CASES)))
    for name, of_case in errors.items():
        for side, message in of_case.items():
            print(f"{name}, {side}: {message}", file=sys.stderr)
    return {"versions": about, "rows": found, "seconds": seconds, "errors": errors}


def about_python(python, side):
    """What an interpreter imports."""
    try:
        return json.loads(printed(python, "-c", ABOUT))
    except ProgramError as error:
        raise SystemExit(f"--{side} {python}: no expfam can be imported there: {error}") from error


def n_not_passed(rows):
    """Number of cases that are slower or fail in the new version; all, where none could be compared."""
    if all(row["ratio"] is None for row in rows):
        return len(rows)
    return sum(row["verdict"] not in ("ok", "ran", "fails in base") for row in rows)


def interpreter(text):
    """Path of an interpreter, links kept: they tell the environment."""
    path = shutil.which(text)
    if path is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no program")
    return os.path.abspath(path)


def parser():
    """Options."""
    command = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for side in SIDES:
        command.add_argument(f"--{side}", type=interpreter, default=sys.executable, metavar="PYTHON")
    command.add_argument("--rounds", type=int, help="processes of each case and version; 7, or 1 with --quick")
    command.add_argument("--only", nargs="+", choices=list(CASES), metavar="NAME", help=f"of {', '.join(CASES)}")
    command.add_argument("--bound", type=float, default=1.03, help="ratio that a case may have, beside its noise")
    command.add_argument("--quick", action="store_true", help="only show that every case runs")
    command.add_argument("--json", type=Path, metavar="PATH", help="write the results there too")
    return command


def parsed(arguments):
    """Settings of a run."""
    command = parser()
    args = command.parse_args(arguments)
    if args.rounds is None:
        args.rounds = 1 if args.quick else 7
    fewest = 1 if args.quick else FEWEST_ROUNDS
    if args.rounds < fewest:
        command.error(f"--rounds must be at least {fewest}, got {args.rounds}: fewer show no noise")
    args.run = compare
    return args


def main(arguments=None):
    """Exit status."""
    rows = report(parsed(arguments))["rows"]
    bad = n_not_passed(rows)
    print(f"{len(rows)} cases, {bad} not passed")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
