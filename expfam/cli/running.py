"""Options and lines of the commands that fit a model: limits, outputs, progress."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from expfam.cli.arguments import add_labels_file, add_seed, add_threads, memory_amount, time_amount
from expfam.cli.coarsened import add_coarsen
from expfam.cli.errors import UsageError

if TYPE_CHECKING:
    import argparse


def add_limits(group: argparse._ArgumentGroup) -> None:
    """Add the seed, the threads, and what a fit may need."""
    add_seed(group)
    add_threads(group, note="; results do not depend on it")
    group.add_argument(
        "--memory-limit",
        type=memory_amount,
        metavar="SIZE",
        help="most memory for the fit without the data, and for unpacked DATA, for example 4GB; default: all free "
        "memory",
    )
    group.add_argument(
        "--time-limit",
        type=time_amount,
        metavar="TIME",
        help="refuse a fit that is expected to take longer, for example 10min; default: no limit",
    )


def add_outputs(parser: argparse.ArgumentParser, *, figure: str | None = None) -> None:
    """Add the files that a fit writes; `figure` says what a picture shows, if there is one."""
    out = parser.add_argument_group("output")
    add_coarsen(out)
    out.add_argument("--output", type=Path, metavar="DIR", help="save the model to this directory")
    add_labels_file(out)
    if figure is not None:
        out.add_argument("--figure", type=Path, metavar="FILE", help=f"{figure}: .png, .pdf or .svg; needs matplotlib")
    out.add_argument("--quiet", action="store_true", help="print nothing but errors")


def add_kept_run(group: argparse._ArgumentGroup) -> None:
    """Add the folder in which the run is kept."""
    kept = group.add_mutually_exclusive_group()
    kept.add_argument(
        "--checkpoint", type=Path, metavar="DIR", help="keep the run in this new directory, from which --resume goes on"
    )
    kept.add_argument(
        "--resume", type=Path, metavar="DIR", help="go on with the run that --checkpoint has kept there, bit for bit"
    )


def kept_run(args: argparse.Namespace) -> Path | None:
    """Return the folder of a kept run, if there is to be one; take over the seed of its run.

    Raises
    ------
    UsageError
        There is a run where a new one is to be kept, or none where one is to go on.
    """
    from expfam.fitting.kept_run import seed_of_run

    path: Path | None = args.checkpoint or args.resume
    seed = seed_of_run(path)
    if args.checkpoint is not None and seed is not None:
        raise UsageError(f"--checkpoint: {path} holds a run already: write --resume {path} to go on with it")
    if args.resume is not None and seed is None:
        raise UsageError(f"--resume: {path} holds no run: write --checkpoint {path} to keep one there")
    args.seed = seed if args.seed is None else args.seed
    return path


def fit_shown(args: argparse.Namespace, estimator: Any, X: Any, **given: Any) -> float:
    """Fit an estimator, show its progress on standard error, and return the seconds."""
    from expfam.estimators.base import total_steps
    from expfam.samplers.chain.callbacks import Progress
    from expfam.stages import watching

    bar = Progress(total_steps(estimator), disable=True if args.quiet else None, leave=False, file=sys.stderr)
    began = time.perf_counter()
    with watching(not args.quiet, sys.stderr):
        estimator.set_params(callbacks=[bar]).fit(X, **given)
    estimator.set_params(callbacks=None)  # the saved model must not hold the bar
    return time.perf_counter() - began


def output_line(args: argparse.Namespace) -> str:
    """Return a line which says that nothing is saved, or an empty text."""
    if any(getattr(args, name, None) is not None for name in ("output", "labels", "figure")):
        return ""
    return "output    none: give --output DIR to save the model, --labels FILE to save the labels"
