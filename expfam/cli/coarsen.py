"""`expfam coarsen`: merge the clusters of a saved model."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from expfam.amounts import counted
from expfam.cli.arguments import add_model, positive_float, positive_int
from expfam.cli.errors import UsageError
from expfam.cli.results import print_json, say

if TYPE_CHECKING:
    import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `expfam coarsen`."""
    add_model(parser)
    parser.add_argument("output", type=Path, metavar="OUT", help="save the coarser model to this directory")
    how = parser.add_mutually_exclusive_group(required=True)
    how.add_argument("-k", "--n-clusters", type=positive_int, metavar="K", help="merge to exactly K clusters")
    how.add_argument(
        "--robust",
        type=positive_float,
        metavar="SHARE",
        help="merge as long as it gains when each cluster counts with this share of its data, at most 1",
    )


def run(args: argparse.Namespace) -> int:
    """Run `expfam coarsen` and return its exit code."""
    from expfam import Mixture

    if args.output.exists() and args.model.exists() and args.output.samefile(args.model):
        raise UsageError(f"OUT: {args.output} is read by this command, as the model; choose another name")
    mixture = Mixture.load(args.model, trust=args.trust)
    _check_number(args, mixture)
    coarse = mixture.coarsen(args.n_clusters, args.robust)
    coarse.save(args.output, labels=hasattr(coarse, "labels_"))
    log_joint = None if math.isnan(coarse.log_joint_) else coarse.log_joint_
    say(args, f"result    {counted(coarse.n_components_, 'cluster')} of {mixture.n_components_}")
    say(args, f"saved     {args.output}")
    result = {"model": str(args.model), "n_clusters": int(coarse.n_components_), "log_joint": log_joint}
    print_json(args, result | {"sizes": coarse.cluster_sizes_.tolist(), "output": str(args.output)})
    return 0


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
