"""`expfam coarsen`: merge the clusters of a saved model to groups."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from expfam.amounts import counted
from expfam.cli.arguments import add_data, add_model, positive_float, positive_int, thread_count
from expfam.cli.errors import UsageError
from expfam.cli.model_rows import rows_for_model
from expfam.cli.results import print_json, say

if TYPE_CHECKING:
    import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `expfam coarsen`."""
    add_model(parser)
    parser.add_argument("output", type=Path, metavar="OUT", help="save the coarser model to this directory")
    add_data(parser, is_optional=True)
    how = parser.add_mutually_exclusive_group()
    how.add_argument("-k", "--n-clusters", type=positive_int, metavar="K", help="merge to exactly K clusters")
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
        choices=("cost", "known"),
        help="merge what costs least of the log joint, or what halves of DATA tell apart least; default: the better",
    )
    parser.add_argument("--threads", type=thread_count, metavar="N", help="number of threads, -1 for all cores")


def run(args: argparse.Namespace) -> int:
    """Run `expfam coarsen` and return its exit code.

    Without a number or a share the model gets the groups that halves of DATA find again.
    """
    from expfam import Mixture

    if args.output.exists() and args.model.exists() and args.output.samefile(args.model):
        raise UsageError(f"OUT: {args.output} is read by this command, as the model; choose another name")
    mixture = Mixture.load(args.model, trust=args.trust)
    _check_number(args, mixture)
    X = _rows(args, mixture)
    mixture.set_params(n_threads=args.threads)
    coarse = mixture.coarsen(args.n_clusters, args.robust, X, tree=args.tree, overlap=args.overlap)
    coarse.save(args.output, labels=hasattr(coarse, "labels_"))
    log_joint = None if math.isnan(coarse.log_joint_) else coarse.log_joint_
    say(args, f"result    {counted(coarse.n_components_, 'cluster')} of {mixture.n_components_}")
    by_halves = args.n_clusters is None and args.robust is None and args.overlap is None
    others = [peak[1] for peak in mixture.coarsening_curve_.peaks(3)[1:]] if by_halves else []
    if others:
        listed = " or ".join(map(str, others))
        say(args, f"also      halves of the data agree on other numbers of groups: --n-clusters {listed}")
    say(args, f"saved     {args.output}")
    result = {"model": str(args.model), "n_clusters": int(coarse.n_components_), "log_joint": log_joint}
    print_json(args, result | {"sizes": coarse.cluster_sizes_.tolist(), "output": str(args.output)})
    return 0


def _rows(args, mixture):
    """Return the rows of DATA, or None where none are needed and none are given."""
    if args.data is not None:
        return rows_for_model(args, mixture)[1]
    if (args.n_clusters is None and args.robust is None) or args.tree == "known":
        raise UsageError(
            f"coarsen: the groups are those that halves of the data find again: write expfam coarsen {args.model}"
            f" {args.output} DATA, or give --n-clusters K or --robust SHARE"
        )
    return None


def _check_number(args, mixture):
    """Refuse fewer clusters than classes, and more than there are, in the words of the options."""
    if args.n_clusters is not None and args.n_clusters > mixture.n_components_:
        raise UsageError(
            f"--n-clusters {args.n_clusters}: the model has {counted(mixture.n_components_, 'cluster')}: write "
            f"--n-clusters {mixture.n_components_}, or fewer"
        )
    n_classes = len(set(getattr(mixture, "cluster_classes_", ())) - {-1})
    if args.n_clusters is not None and args.n_clusters < n_classes:
        raise UsageError(
            f"--n-clusters {args.n_clusters}: the clusters are of {counted(n_classes, 'class', 'classes')}, and "
            f"clusters of two classes are never merged: write --n-clusters {n_classes}, or more"
        )
