"""Every table and figure of the package in one report: `python asv_bench/everything.py --output report --data DATA`.

Each protocol runs in a process of its own, one after the other, with one BLAS thread. The report is a page of Markdown
with the commands, what they printed, and their pictures. The profile "quick" takes sizes that show that everything
works, some minutes in all; "full" takes the sizes of docs/measured.md, hours. Protocols on labelled data are left out
without --data, and named. The exit status is 1 where a protocol failed, or where none ran.
"""

import argparse
import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent


class Protocol(NamedTuple):
    """A command, its arguments in the two profiles, and what it wants."""

    title: str
    script: str
    command: str  # sub-command and what both profiles share
    quick: str = ""
    full: str = ""
    wants_data: bool = False
    picture: str | None = None  # option that takes the path of a PNG


PROTOCOLS = [
    Protocol("Structures", "structures.py", "all"),
    Protocol("Collapsed Gibbs on labelled texts", "real_data.py", "published", "--seeds 2", "--seeds 20", True),
    Protocol("Labelled vectors", "real_data.py", "dense", wants_data=True),
    Protocol("NumPy families beside built-in ones", "plugins.py", "", "--rows 5000 --collapsed-rows 200 --steps 2"),
    Protocol(
        "FastEx: time to a log joint",
        "fastex.py",
        "compare --data-set zipf",
        "--documents 5000 --clusters 200 --seconds 5 --kernels FastEx",
        "--documents 100000 --clusters 1000 --seconds 55 --kernels uncollapsed FastEx",
    ),
    Protocol(
        "FastEx: microseconds a document",
        "fastex.py",
        "table1",
        "--clusters 100 --lengths 14 --bits 64",
        "--clusters 100 1000 --lengths 14 100 --bits 64 128",
    ),
    Protocol(
        "Canopy: a draw", "canopy.py", "draws", "--rows 5000 --repeats 1 --cases 256,16,.5 1024,32,1", "--rows 100000"
    ),
    Protocol(
        "Canopy: quality against time",
        "canopy.py",
        "quality --data-set nested",
        "--rows 20000 --clusters 256 --seconds 1 --kernels sem_dense sem_tree printed anchored em",
        "--seconds 4",
        picture="--figure",
    ),
    Protocol(
        "Canopy: growth",
        "canopy.py",
        "scaling",
        "--rows 5000 10000 --clusters 64 128 256 --features 8 16",
        picture="--figure",
    ),
    Protocol("Sparse variational: a pass", "variational.py", "passes", "--rows 4000 --held 500 --clusters 50"),
    Protocol(
        "Sparse variational: held-out score by sparsity",
        "variational.py",
        "curve",
        "--rows 3000 --held 500 --passes 2 --clusters 50",
        "--rows 200000 --held 10000 --stride 1 --passes 10 --batches 20",
        picture="--figure",
    ),
    Protocol(
        "Hierarchies: documents", "hierarchy.py", "documents", "--rows 1000 2000", "--rows 5000 20000 50000 100000"
    ),
    Protocol("Hierarchies: columns", "hierarchy.py", "columns", "--cases diagonal,1000,10 full,500,10"),
    Protocol("Hierarchies: labelled data", "hierarchy.py", "sets", "--most-rows 1000", "", True),
    Protocol(
        "Split and merge: the paper's table", "split_merge.py", "table1", "--sizes 100 1000 --seeds 1 --seconds .5"
    ),
    Protocol(
        "Split and merge: seconds to a gap",
        "split_merge.py",
        "gap",
        "--rows 2000 --clusters 20 --seeds 1 --seconds 1",
        "--seeds 5",
    ),
    Protocol(
        "Split and merge: log joint against moves and seconds",
        "split_merge.py",
        "figure",
        "--rows 500 --seeds 1 --seconds 1",
        picture="--png",
    ),
]


def run(protocol, number, args):
    """Markdown of one protocol, and whether it succeeded."""
    words = [*protocol.command.split(), *getattr(protocol, args.profile).split()]
    if protocol.wants_data:
        words += ["--data", str(args.data)]
    picture = f"{number:02d}.png" if protocol.picture else None
    if picture:
        words += [protocol.picture, str(args.output / picture)]
    begin = time.perf_counter()
    done = subprocess.run(
        [sys.executable, str(HERE / protocol.script), *words],
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "MPLBACKEND": "Agg"},
        capture_output=True,
        text=True,
    )
    seconds = time.perf_counter() - begin
    shown = [word if word != str(args.output / (picture or "")) else picture for word in words]
    lines = [
        f"## {protocol.title}",
        "",
        f"`python asv_bench/{protocol.script} {' '.join(shown)}` ({seconds:.0f} s)",
        "",
    ]
    lines += ["```text", done.stdout.rstrip(), "```", ""]
    if done.returncode:
        lines += [f"**Failed** with status {done.returncode}:", "", "```text", done.stderr[-2000:].rstrip(), "```", ""]
    elif picture:
        lines += [f"![{protocol.title}]({picture})", ""]
    return "\n".join(lines), done.returncode == 0


def main(arguments=None):
    """Exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--profile", choices=["quick", "full"], default="quick")
    parser.add_argument("--output", type=Path, default=Path("report"), metavar="FOLDER")
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="labelled data, with text/ and dense/")
    parser.add_argument("--only", nargs="+", metavar="SCRIPT", help="scripts to run, without .py")
    args = parser.parse_args(arguments)
    args.output.mkdir(parents=True, exist_ok=True)
    chosen = [p for p in PROTOCOLS if not args.only or p.script.removesuffix(".py") in args.only]
    runnable = [p for p in chosen if args.data or not p.wants_data]
    parts, failed = [f"# Measured on {platform.machine()}, {os.cpu_count()} cores, profile {args.profile}\n"], []
    for number, protocol in enumerate(runnable, 1):
        text, succeeded = run(protocol, number, args)
        parts.append(text)
        failed += [] if succeeded else [protocol.title]
        print(f"{number}/{len(runnable)} {protocol.title}: {'done' if succeeded else 'FAILED'}", flush=True)
    left_out = [p.title for p in chosen if p not in runnable]
    if left_out:
        parts.append(f"Left out, for want of --data: {', '.join(left_out)}.\n")
    (args.output / "report.md").write_text("\n".join(parts))
    print(f"{args.output / 'report.md'}: {len(runnable)} protocols, {len(failed)} failed")
    return 1 if failed or not runnable else 0


if __name__ == "__main__":
    sys.exit(main())
