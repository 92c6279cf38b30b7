"""Every table and figure of the package in one report.

Run by hand: `python asv_bench/protocols/everything.py --output report --data DATA`.

Each protocol runs in a process of its own, one after the other, with one BLAS thread. The report is a page of Markdown
with the commands, what they printed, and their pictures. The profile "quick" takes sizes that show that everything
works, some minutes in all; "full" takes the sizes of docs/measured.md, hours. Protocols on labelled data are left out
without --data, and named. The exit status is 1 where a protocol failed, or where none ran.
"""

import argparse
import os
import platform
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

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
    Protocol("Tables and figures of the five papers", "reproduce.py", "--out OUTPUT/reproduced", "--quick", "", True),
    Protocol("A version beside itself: noise of the machine", "versions.py", "", "--quick", "--bound 2"),
    Protocol("Structures", "structures.py", "all", "--rows 20000 --seconds .1"),
    Protocol("Collapsed Gibbs on labelled texts", "real_data.py", "published", "--seeds 2", "--seeds 20", True),
    Protocol("Defaults on labelled texts", "real_data.py", "default", "--seeds 1 --names tweet", "--seeds 2", True),
    Protocol("Labelled vectors", "real_data.py", "dense", "--seeds 1 --steps 3", "--seeds 2 --steps 30", True),
    Protocol("Memory of a fit", "real_data.py", "memory", "--rows 50000"),
    Protocol("Labels by number of threads", "real_data.py", "threads", wants_data=True),
    Protocol(
        "Defaults beside scikit-learn",
        "defaults.py",
        "",
        "--quick --seeds 1 --only iris-full digits-spherical digits-bernoulli",
        "--only iris-* wine-* breast_cancer-* digits-* made* time-* predict-*",
    ),
    Protocol(
        "Defaults beside scikit-learn, labelled data",
        "defaults.py",
        "",
        "--quick --seeds 1 --only s2-spherical",
        "--only s2-* a3-* birch* pen-* letters-* googlenews-* tweet-* stackoverflow-* searchsnippets-* bbc_news-*",
        True,
    ),
    Protocol("NumPy families beside built-in ones", "plugins.py", "", "--rows 5000 --collapsed-rows 200 --steps 2"),
    Protocol(
        "FastEx: time to a log joint",
        "fastex.py",
        "compare --data-set zipf",
        "--documents 3000 --clusters 100 --seconds 2 --kernels FastEx",
        "--documents 100000 --clusters 1000 --seconds 55 --kernels uncollapsed FastEx",
    ),
    Protocol(
        "FastEx: microseconds a document",
        "fastex.py",
        "table1",
        "--clusters 100 --lengths 14 --bits 64 --documents 3000",
        "--clusters 100 1000 --lengths 14 100 --bits 64 128",
    ),
    Protocol("FastEx: threads", "fastex.py", "threads", "--documents 10000 --clusters 100 --sweeps 2", "--sweeps 6"),
    Protocol("FastEx: copies of a corpus", "fastex.py", "copies", "--copies 2 --sweeps 2 --clusters 100", "", True),
    Protocol(
        "Canopy: a draw",
        "canopy.py",
        "draws",
        "--rows 5000 --repeats 1 --cases 256,16,.5 1024,32,1",
        "--rows 100000 --repeats 2",
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
        "--rows 5000 --clusters 64 --features 8 --rows-grid 2500 5000 --clusters-grid 64 128 --features-grid 8 16",
        picture="--figure",
    ),
    Protocol("Canopy: memory", "canopy.py", "memory", "--rows 20000 --clusters 64 --features 8 --kernels sem_dense em"),
    Protocol(
        "Canopy: starts and labelled data",
        "canopy.py",
        "table1",
        "--clusters-grid 10 --sweeps 5 --seeds 1 --kernels em printed anchored",
    ),
    Protocol("Partition of draws: search", "posterior.py", "search", "--rows 2000 --draws 30"),
    Protocol("Partition of draws: readings", "posterior.py", "readings", "--rows 2000 --draws 30"),
    Protocol("Partition of draws: coverage of balls", "posterior.py", "coverage", "--replicates 30"),
    Protocol("Default calls beside simple partitions", "answer.py", "search", "--quick --seeds 1 --shape two-rows"),
    Protocol("Groups that are drawn by lot", "answer.py", "drawn", "--sets 1 --first 129", "--sets 60"),
    Protocol(
        "Groups that are drawn by lot and overlap",
        "answer.py",
        "drawn --overlap",
        "--sets 1 --first 2",
        "--sets 40",
    ),
    Protocol("Groups that halves of the data find again", "answer.py", "groups", "--set wine"),
    Protocol("Unknown numbers of topics: quality", "hdp.py", "quality", "--data-sets tweet --topics 50", "", True),
    Protocol("Unknown numbers of topics: generated", "hdp.py", "generated", "--topics 5 --seeds 1 --documents 200"),
    Protocol("Unknown numbers of clusters of groups", "hdp.py", "groups", "--topics 5 --seeds 1 --documents 200"),
    Protocol("Unknown numbers of topics: a step", "hdp.py", "kernels", "--data-sets tweet --sweeps 4", "", True),
    Protocol("Sweeps over parts of the data", "many_machines.py", "", "--quick"),
    Protocol(
        "Rows on disk beside their forecast",
        "scale.py",
        "--folder OUTPUT --remove",
        "--rows 3e5 --clusters 20 --chunk 5e4 --threads 1",
        "--rows 1e7 --clusters 1000 --threads 1",
    ),
    Protocol("Tables beside stepmix", "tables.py", "", "--quick"),
    Protocol("Wide rows: von Mises-Fisher", "wide.py", "vmf", "--quick"),
    Protocol("Wide rows: embeddings beside faiss", "wide.py", "embeddings", "--quick"),
    Protocol("Wide rows: counts of a million words", "wide.py", "counts", "--quick"),
    Protocol("Wide rows: trees of nearly constant categories", "wide.py", "levels", "--quick"),
    Protocol("Known rows: what 5 % of labels do", "labels.py", "lift", "--quick", "", True),
    Protocol("Known rows: a sweep", "labels.py", "sweep", "--quick"),
    Protocol("Known rows: linked groups", "labels.py", "links", "--quick"),
    Protocol("Known rows: seeds of topics", "labels.py", "seeds", "--quick", "", True),
    Protocol("Sparse variational: a pass", "variational.py", "passes", "--rows 4000 --held 500 --clusters 50"),
    Protocol(
        "Sparse variational: held-out score by sparsity",
        "variational.py",
        "curve",
        "--rows 3000 --held 500 --passes 3 --clusters 30 60 --active 1 4 dense",
        "--rows 200000 --held 10000 --stride 1 --passes 10 --batches 20",
        picture="--figure",
    ),
    Protocol(
        "Sparse variational beside scikit-learn",
        "variational.py",
        "peers",
        "--rows 2000 --held 500 --clusters 10 --passes 2 --active 4 dense",
    ),
    Protocol(
        "Sparse variational: what L loses",
        "variational.py",
        "sparsity",
        "--rows 3000 --held 500 --clusters 30 --passes 2",
    ),
    Protocol(
        "Sparse variational: selection", "variational.py", "select", "--rows 2000 --clusters 50 200 --active 1 4 dense"
    ),
    Protocol("Sparse variational: memory", "variational.py", "memory", "--rows 50000 --clusters 100"),
    Protocol(
        "Sparse variational: rows on disk",
        "variational.py",
        "disk",
        "--rows 20000 --clusters 10 --passes 2 --features 8",
    ),
    Protocol("Sparse variational: moves", "variational.py", "moves", "--rows 3000 --clusters 15 --passes 5"),
    Protocol(
        "Sparse variational: rows in groups",
        "variational.py",
        "groups",
        "--rows 4000 --sizes 20 200 --clusters 150 --settle 1 --passes 2",
    ),
    Protocol(
        "Topics: held-out score against time",
        "topics.py",
        "quality --data-sets generated",
        "--rows 1500 --topics 20 --seconds 1",
        "--topics 200",
        picture="--figure",
    ),
    Protocol(
        "Topics: held-out score on labelled texts",
        "topics.py",
        "quality",
        "--data-sets bbc_news --topics 20 --seconds 1",
        "",
        True,
        "--figure",
    ),
    Protocol(
        "Topics: a pass",
        "topics.py",
        "passes --data-sets generated",
        "--rows 1000 --topics 20 --repeats 1",
        "--topics 50 200",
    ),
    Protocol(
        "Hierarchies: documents", "hierarchy.py", "documents", "--rows 1000 2000", "--rows 5000 20000 50000 100000"
    ),
    Protocol("Hierarchies: columns", "hierarchy.py", "columns", "--cases diagonal,1000,10 full,500,10"),
    Protocol("Hierarchies: labelled data", "hierarchy.py", "sets", "--most-rows 1000", "", True),
    Protocol("Hierarchies: neighbours", "hierarchy.py", "neighbours", "--rows 1000 --grid 3 10"),
    Protocol("Hierarchies: copies of a row", "hierarchy.py", "copies", "--rows 1000"),
    Protocol("Hierarchies: odds of given trees", "hierarchy.py", "rescoring", "--rows 1000"),
    Protocol("Hierarchies: memory", "hierarchy.py", "memory", "--rows 1000"),
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
        "Split and merge: many clusters",
        "split_merge.py",
        "twin",
        "--rows 2000 --clusters 50 --features 10 --seconds 1",
    ),
    Protocol("Split and merge: labelled data", "split_merge.py", "real", "--names tweet --seconds 1", "", True),
    Protocol(
        "Split and merge: effective samples",
        "split_merge.py",
        "equilibrium",
        "--rows 300 --clusters 5 --seeds 2 --seconds .5",
    ),
    Protocol(
        "Split and merge beside scikit-learn",
        "split_merge.py",
        "peer",
        "--rows 1000 --clusters 10 --seeds 1 --seconds 2",
    ),
    Protocol(
        "Split and merge: log joint against moves and seconds",
        "split_merge.py",
        "figure",
        "--rows 500 --seeds 1 --seconds 1",
        picture="--png",
    ),
    Protocol(
        "Together: FastEx and split-merge moves",
        "composing.py",
        "moves",
        "--rows 2000 --clusters 30 --seconds 1",
        "--seconds 20",
        picture="--figure",
    ),
    Protocol(
        "Together: FastEx and split-merge moves, labelled data",
        "composing.py",
        "moves",
        "--data-sets tweet --seconds 1",
        "--data-sets googlenews birch1 --seconds 20",
        True,
        "--figure",
    ),
    Protocol(
        "Together: variational starts of exact chains",
        "composing.py",
        "starts",
        "--rows 2000 --clusters 30 --truncation 60 --seconds 1",
        "--seconds 20",
        picture="--figure",
    ),
    *(
        Protocol(
            f"Together: candidates of variational passes, {name}",
            "composing.py",
            f"candidates --data-set {name}",
            "--rows 3000 --clusters 150 --passes 4",
            sizes,
            picture="--figure",
        )
        for name, sizes in (
            ("spherical", "--rows 100000"),
            ("diagonal", "--rows 100000"),
            ("documents", "--rows 100000 --clusters 1000"),
            ("patches", "--rows 100000 --clusters 1000"),
        )
    ),
    Protocol(
        "Together: a tree over the clusters of a sampler",
        "composing.py",
        "hierarchy",
        "--rows 3000 --clusters 30 --seconds 1",
        picture="--figure",
    ),
]


def run(protocol, number, args):
    """Markdown of one protocol, what it took on the wall and in CPU seconds, and whether it succeeded."""
    words = [*protocol.command.split(), *getattr(protocol, args.profile).split()]
    words = [word.replace("OUTPUT", str(args.output)) for word in words]  # where a protocol keeps files of its own
    if protocol.wants_data:
        words += ["--data", str(args.data)]
    picture = f"{number:02d}.png" if protocol.picture else None
    if picture:
        words += [protocol.picture, str(args.output / picture)]
        (args.output / picture).unlink(missing_ok=True)  # of an earlier run
    begin, before = time.perf_counter(), cpu_of_children()
    done = subprocess.run(
        [sys.executable, str(HERE / protocol.script), *words],
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "MPLBACKEND": "Agg"},
        capture_output=True,
        text=True,
    )
    seconds, cpu = time.perf_counter() - begin, cpu_of_children() - before
    shown = [word if word != str(args.output / (picture or "")) else picture for word in words]
    lines = [
        f"## {protocol.title}",
        "",
        f"`python asv_bench/protocols/{protocol.script} {' '.join(shown)}` ({seconds:.0f} s, {cpu:.0f} CPU s)",
        "",
    ]
    lines += ["```text", done.stdout.rstrip(), "```", ""]
    if done.returncode:
        lines += [f"**Failed** with status {done.returncode}:", "", "```text", done.stderr[-2000:].rstrip(), "```", ""]
    has_picture = picture is None or (args.output / picture).exists()
    if not done.returncode and not has_picture:
        lines += [f"**Failed**: no picture at {picture}.", ""]
    elif picture and has_picture:
        lines += [f"![{protocol.title}]({picture})", ""]
    return "\n".join(lines), (seconds, cpu), done.returncode == 0 and has_picture


def cpu_of_children():
    """CPU seconds of the processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main(arguments=None):
    """Exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--profile", choices=["quick", "full"], default="quick")
    parser.add_argument("--output", type=Path, default=Path("report"), metavar="FOLDER")
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="labelled data, with text/ and dense/")
    parser.add_argument("--only", nargs="+", metavar="SCRIPT", help="scripts to run, without .py")
    args = parser.parse_args(arguments)
    if args.data and not args.data.is_dir():
        print(f"--data {args.data}: there is no such folder; protocols on labelled data are left out", flush=True)
        args.data = None
    args.output.mkdir(parents=True, exist_ok=True)
    chosen = [p for p in PROTOCOLS if not args.only or p.script.removesuffix(".py") in args.only]
    runnable = [p for p in chosen if args.data or not p.wants_data]
    parts, index, failed, total = [], [], [], np.zeros(2)
    for number, protocol in enumerate(runnable, 1):
        text, took, succeeded = run(protocol, number, args)
        total += took
        outcome = "done" if succeeded else "FAILED"
        parts.append(text)
        index.append(f"| {number} | {protocol.title} | {outcome} | {took[0]:.0f} | {took[1]:.0f} |")
        failed += [] if succeeded else [protocol.title]
        print(f"{number}/{len(runnable)} {protocol.title}: {outcome}, {took[0]:.0f} s", flush=True)
    left_out = [p.title for p in chosen if p not in runnable]
    head = [f"# Measured on {platform.machine()}, {os.cpu_count()} cores, profile {args.profile}", ""]
    head += [f"Failed: {', '.join(failed)}.", ""] if failed else []
    head += [f"Left out, for want of --data: {', '.join(left_out)}.", ""] if left_out else []
    head += ["| | protocol | outcome | seconds | CPU seconds |", "|---|---|---|---|---|", *index]
    head += [f"| | in all | | {total[0]:.0f} | {total[1]:.0f} |", ""]
    (args.output / "report.md").write_text("\n".join([*head, *parts]))
    print(f"{args.output / 'report.md'}: {len(runnable)} protocols, {len(failed)} failed, {len(left_out)} left out")
    return 1 if failed or not runnable else 0


if __name__ == "__main__":
    sys.exit(main())
