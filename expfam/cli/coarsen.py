"""`expfam coarsen`: merge the clusters or topics of a saved model to groups."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from expfam.amounts import counted
from expfam.cli.arguments import add_data, add_model, add_threads, positive_float, positive_int
from expfam.cli.coarsened import other_numbers
from expfam.cli.errors import UsageError
from expfam.cli.figures import FIGURE_SUFFIXES, require_matplotlib
from expfam.cli.groups_of_rows import add_groups
from expfam.cli.model_rows import given_rows, load_model
from expfam.cli.outputs import check_file, save_figure
from expfam.cli.results import print_json, say
from expfam.cli.texts import OF_MODEL, add_text

if TYPE_CHECKING:
    import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `expfam coarsen`."""
    add_model(parser)
    parser.add_argument("output", type=Path, metavar="OUT", help="save the coarser model to this directory")
    add_data(parser, is_optional=True)
    add_groups(parser, required=False)
    add_text(parser, help=OF_MODEL)
    how = parser.add_mutually_exclusive_group()
    how.add_argument("-k", "--n-clusters", type=positive_int, metavar="K", help="merge to exactly K clusters or topics")
    how.add_argument(
        "--robust",
        type=positive_float,
        metavar="SHARE",
        help="merge as long as it gains when each cluster counts with this share of its data, at most 1",
    )
    how.add_argument(
        "--overlap",
        type=positive_float,
        metavar="SHARE",
        help="merge as long as a cluster would give more than this share of its rows to another; needs DATA",
    )
    parser.add_argument(
        "--tree",
        choices=("cost", "words", "known"),
        help="merge what costs least of the log joint (of topics: what is told apart least by its words), or what "
        "halves of DATA tell apart least; default: the better",
    )
    parser.add_argument(
        "--figure",
        type=Path,
        metavar="FILE",
        help="draw how well halves of DATA agree on each number: .png, .pdf or .svg; needs matplotlib",
    )
    add_threads(parser)


def run(args: argparse.Namespace) -> int:
    """Run `expfam coarsen` and return its exit code.

    Without a number or a share the model gets the groups that halves of DATA find again.
    """
    if args.output.exists() and args.model.exists() and args.output.samefile(args.model):
        raise UsageError(f"OUT: {args.output} is read by this command, as the model; choose another name")
    if args.figure is not None:
        check_file(args, args.figure, "--figure", FIGURE_SUFFIXES)
        require_matplotlib()
    model = load_model(args.model, trust=args.trust)
    _check_kind(args, model)
    _check_number(args, model)
    X, more = _rows(args, model)
    model.set_params(n_threads=args.threads)
    coarse = model.coarsen(args.n_clusters, X=X, tree=args.tree, **more, **_shares(args))
    coarse.save(args.output, labels=hasattr(coarse, "labels_"))
    noun, number = model.of_clusters, len(coarse.cluster_sizes_)
    say(args, f"result    {counted(number, noun)} of {len(model.cluster_sizes_)}")
    others = other_numbers(model) if _by_halves(args) else []
    if others:
        listed = " or ".join(map(str, others))
        say(args, f"also      halves of the data agree on other numbers of {noun}s: --n-clusters {listed}")
    say(args, f"saved     {args.output}")
    if args.figure is not None:
        _draw(args, model)
        say(args, f"          {args.figure}")
    log_joint = None if math.isnan(coarse.log_joint_) else coarse.log_joint_
    result = {"model": str(args.model), "n_clusters": number, "log_joint": log_joint, "other_numbers": others}
    result |= {"sizes": coarse.cluster_sizes_.tolist(), "output": str(args.output)}
    print_json(args, result | {"figure": None if args.figure is None else str(args.figure)})
    return 0


def _by_halves(args):
    return args.n_clusters is None and args.robust is None and args.overlap is None


def _shares(args):
    """Return the shares that were given, which topics do not take."""
    return {name: getattr(args, name) for name in ("robust", "overlap") if getattr(args, name) is not None}


def _draw(args, model):
    from matplotlib.figure import Figure  # not pyplot: it opens windows and changes global settings

    from expfam.displays.coarsening import CoarseningDisplay

    figure = Figure(figsize=(11.0, 3.8), layout="constrained")
    CoarseningDisplay.from_estimator(model).plot(*figure.subplots(1, 2))
    save_figure(figure, args.figure, dpi=150)


def _rows(args, model):
    """Return the rows of DATA and more keywords; None where none are needed and none are given."""
    if args.data is not None:
        return given_rows(args, model)[1:]
    if (args.n_clusters is None and args.robust is None) or args.tree == "known" or args.figure is not None:
        groups = " --groups COLUMN" if model.saved_kind == "grouped_mixture" else ""
        share = "" if model.saved_kind == "topic_model" else " or --robust SHARE"
        undrawn = "" if args.figure is None else " without --figure"
        raise UsageError(
            f"coarsen: the groups are those that halves of the data find again: write expfam coarsen {args.model}"
            f" {args.output} DATA{groups}, or give --n-clusters K{share}{undrawn}"
        )
    if args.groups is not None or args.text is not None:
        option = "--groups" if args.groups is not None else "--text"
        raise UsageError(f"{option}: it tells of the rows of DATA, and no DATA is given: leave out {option}")
    return None, {}


def _check_kind(args, model):
    """Refuse trees, and options that a model of this kind does not have."""
    if model.saved_kind == "hierarchy":
        raise UsageError(f"{args.model} is a tree already: write expfam tree DATA --clusters K")
    is_topics = model.saved_kind == "topic_model"
    for name in _shares(args) if is_topics else ():
        raise UsageError(f"--{name}: {args.model} is a model of topics, which has no such rule: write --n-clusters K")
    plain, other = ("words", "cost") if is_topics else ("cost", "words")
    if args.tree == other:
        raise UsageError(f"--tree {other}: {args.model} is a model of {model.of_clusters}s: write --tree {plain}")


def _check_number(args, model):
    """Refuse fewer clusters than classes, and more than there are, in the words of the options."""
    n_clusters = len(model.cluster_sizes_)
    if args.n_clusters is not None and args.n_clusters > n_clusters:
        raise UsageError(
            f"--n-clusters {args.n_clusters}: the model has {counted(n_clusters, model.of_clusters)}: write "
            f"--n-clusters {n_clusters}, or fewer"
        )
    n_classes = len(set(getattr(model, "cluster_classes_", ())) - {-1})
    if args.n_clusters is not None and args.n_clusters < n_classes:
        raise UsageError(
            f"--n-clusters {args.n_clusters}: the clusters are of {counted(n_classes, 'class', 'classes')}, and "
            f"clusters of two classes are never merged: write --n-clusters {n_classes}, or more"
        )
