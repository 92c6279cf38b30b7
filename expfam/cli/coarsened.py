"""The option ``--coarsen``: commands that fit merge the clusters or topics that they find."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from expfam.amounts import counted
from expfam.cli.results import say

if TYPE_CHECKING:
    import argparse

SEEN = 3  # answers that are named: the best one and the next ones


def add_coarsen(group: argparse._ArgumentGroup) -> None:
    """Add the option that merges what was found."""
    group.add_argument(
        "--coarsen",
        action="store_true",
        help="merge what was found to the groups that halves of the data find again; outputs are those of the groups",
    )


def coarsened(args: argparse.Namespace, estimator: Any) -> Any:
    """Return the estimator, or what its `coarsen` makes of it where that was asked for.

    A run that Ctrl-C has ended stays as it is.
    """
    return estimator.coarsen() if args.coarsen and not estimator.interrupted_ else estimator


def groups_line(args: argparse.Namespace, fitted: Any, result: Any) -> str | None:
    """Return what is said of groups after a fit: what was merged, or how to.

    Parameters
    ----------
    args : argparse.Namespace
    fitted : Mixture, GroupedMixture or TopicModel
    result : the same class
        What `coarsened` made of it.
    """
    noun = fitted.of_clusters
    if result is fitted:
        is_topics = fitted.saved_kind == "topic_model"  # people give more topics than they want
        is_offered = fitted.n_components_ > 1 and (is_topics or fitted.n_components is None)
        if args.coarsen or not is_offered:
            return None
        return f"add --coarsen to merge the {noun}s to those that halves of the data find again"
    others = other_numbers(fitted)
    also = f"; they also agree on {' or '.join(map(str, others))}" if others else ""
    return f"{counted(result.n_components_, noun)} of {fitted.n_components_}, on which halves of the data agree{also}"


def say_groups(args: argparse.Namespace, fitted: Any, result: Any) -> None:
    """Print the line of `groups_line`, if there is one."""
    line = groups_line(args, fitted, result)
    if line is not None:
        say(args, f"groups    {line}")


def groups_facts(fitted: Any, result: Any) -> dict[str, Any]:
    """Return facts about merged clusters by name; none where nothing was to be merged."""
    if result is fitted:
        return {}
    facts = {"n_clusters": int(result.n_components_), "n_clusters_of_fit": int(fitted.n_components_)}
    log_joint = float(result.log_joint_)
    return facts | {"other_numbers": other_numbers(fitted), "log_joint": None if math.isnan(log_joint) else log_joint}


def other_numbers(model: Any) -> list[int]:
    """Return the numbers of groups of the next best answers of `coarsen()`."""
    return [int(peak[1]) for peak in model.coarsening_curve_.peaks(SEEN)[1:]]
