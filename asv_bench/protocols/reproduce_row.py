"""What the rows of docs/reproduced.md share: what a row is, comparisons with a paper, machine, and curves."""

import math
import os
import platform
import resource
from collections.abc import Callable
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_info

from expfam import __version__

MOST_POINTS = 40  # of a curve that is kept


class Run(NamedTuple):
    """How a row is measured."""

    data: Path | None
    quick: bool
    seed: int = 0
    n_rows: int | None = None  # of the row with rows on disk, in place of its own
    n_clusters: int | None = None
    folder: Path | None = None  # where that file of rows is kept; a temporary one if None
    kept: Path | None = None  # what `scale.py --json` has written, in place of a run

    def size(self, quick, full):
        """One of two sizes."""
        return quick if self.quick else full


class Row(NamedTuple):
    """A table or figure of a paper, and the function that measures it."""

    name: str  # paper-what, also that of its files
    title: str
    of_paper: str  # what the paper shows, and on which data
    measure: Callable[[Run], dict[str, Any]]
    needs_data: bool = False  # labelled sets of --data

    @property
    def paper(self):
        """The first word of the name."""
        return self.name.partition("-")[0]


def compared(what, paper, ours, *, differs=False, reason=""):
    """One line of a row's table; `reason` is kept only where we differ, and must then be there."""
    if differs and not reason:
        raise ValueError(f"{what}: a difference needs its reason")
    line = {"what": what, "paper": shown(paper), "ours": shown(ours), "differs": bool(differs)}
    return line | ({"reason": reason} if differs else {})


def shown(value):
    """A number with three digits, text as it is, a dash for None."""
    if value is None:
        return "-"
    if isinstance(value, str):
        return value
    if isinstance(value, (int, np.integer)):
        return f"{value:,}"
    if value != 0 and not 1e-4 <= abs(value) < 1e6:
        return f"{value:.2e}"
    digits = max(0, 2 - math.floor(math.log10(abs(value)))) if value else 0
    return f"{value:,.{digits}f}"


def panel(title, x, y, curves, *, log="", marks=(), ticks=()):
    """One panel of a figure: names of the axes, which of them are logarithmic, and curves by name.

    A curve is the pair of its x and y; `marks` names the curves that are shown as points, such as a paper's numbers.
    `ticks` are words at x = 0, 1, ...
    """
    kept = {name: [_rounded(values) for values in _thinned(*curve)] for name, curve in curves.items()}
    of_marks = [name for name in marks if name in kept]
    return {"title": title, "x": x, "y": y, "log": log, "curves": kept, "marks": of_marks, "ticks": list(ticks)}


def _thinned(x, y):
    """At most `MOST_POINTS` of a curve, denser at its begin; its first and last points stay."""
    n = len(x)
    if n > MOST_POINTS:
        places = np.unique(np.round(np.geomspace(1, n, MOST_POINTS)).astype(int) - 1)
        x, y = [x[i] for i in places], [y[i] for i in places]
    return x, y


def _rounded(values):
    """Numbers of six digits."""
    return [float(f"{float(v):.6g}") for v in values]


def slope(x, y):
    """Exponent of the growth of y in x, least squares of the logarithms."""
    return float(np.polyfit(np.log(np.asarray(x, float)), np.log(np.asarray(y, float)), 1)[0])


def machine():
    """Processor, cores and the library of linear algebra."""
    blas = next((f"{b['internal_api']} {b['version']}" for b in threadpool_info() if b["user_api"] == "blas"), "none")
    return {"processor": _processor(), "cores": os.cpu_count(), "BLAS": blas, "Python": platform.python_version()}


def _processor():
    """Name of the processor, as the system tells it (Linux), else of its kind."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


def cpu_seconds():
    """CPU seconds of this process and of those that it started and that have ended."""
    of_children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return process_time() + of_children.ru_utime + of_children.ru_stime


def asked_sizes(run):
    """Options of the sizes that were asked for."""
    sizes = {"--rows": run.n_rows, "--clusters": run.n_clusters}
    return "".join(f" {option} {value}" for option, value in sizes.items() if value)


def measured(row, run, *, threads=1):
    """Everything that is kept of a row: what was found, and from what."""
    begin = cpu_seconds()
    found = row.measure(run)
    command = f"python asv_bench/protocols/reproduce.py {row.paper} --only {row.name} --data DIR"
    return {
        "row": row.name,
        "mode": "quick" if run.quick else "full",
        "command": command + asked_sizes(run) + (" --quick" if run.quick else ""),
        "threads": threads,
        "machine": machine(),
        "version": __version__,
        "CPU seconds": round(cpu_seconds() - begin, 1),
    } | found
