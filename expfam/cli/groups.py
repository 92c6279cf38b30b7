"""`expfam groups`: find clusters of rows in groups, with weights in each group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from expfam.amounts import counted
from expfam.cli.arguments import (
    add_column_names,
    add_data,
    add_family,
    add_numbers_of_steps,
    concentration,
    positive_int,
    read_data,
)
from expfam.cli.cluster_lines import LISTED, cluster_text, largest_clusters
from expfam.cli.coarsened import coarsened, groups_facts, say_groups
from expfam.cli.columns import add_columns, check_family, family_facts, family_line, given_data, is_automatic
from expfam.cli.figures import FIGURE_SUFFIXES, figure_writer, require_matplotlib
from expfam.cli.groups_of_rows import add_groups, groups_of, reading_groups
from expfam.cli.outputs import check_outputs, result_writers, save_all
from expfam.cli.results import (
    as_text,
    exit_code,
    plain,
    print_json,
    run_facts,
    run_line,
    say,
    score_line,
    shape_line,
    table_scores,
)
from expfam.cli.running import add_kept_run, add_limits, add_outputs, fit_shown, kept_run, output_line
from expfam.cli.texts import add_text, check_text, data_name, with_texts

if TYPE_CHECKING:
    import argparse

_CLUSTERS = 10  # as of GroupedMixture
_SHOWN = 3  # clusters of a group in a printed line


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `expfam groups`."""
    add_data(parser)
    add_groups(parser, required=True)
    add_column_names(parser)
    add_text(parser)
    add_columns(parser)
    model = add_family(parser)
    size = model.add_mutually_exclusive_group()
    size.add_argument(
        "-k", "--components", type=positive_int, metavar="K", help=f"number of clusters; default: {_CLUSTERS}"
    )
    size.add_argument("--infinite", action="store_true", help="find the number of clusters: hierarchical Dirichlet")
    model.add_argument(
        "--alpha", type=concentration, default="auto", metavar="A", help="pseudo-count of a cluster in a group"
    )
    group = parser.add_argument_group("run")
    add_numbers_of_steps(group)
    group.add_argument(
        "--sampler",
        default="auto",
        metavar="NAME",
        help="auto, gibbs, uncollapsed_gibbs or variational; default: %(default)s",
    )
    add_limits(group)
    add_kept_run(group)
    add_outputs(parser, figure="draw the clusters")


def run(args: argparse.Namespace) -> int:
    """Run `expfam groups` and return its exit code."""
    from expfam.estimators.lines import whole_line_of
    from expfam.samplers.named import find_sampler

    check_outputs(args, "grouped_mixture", figure=FIGURE_SUFFIXES)
    if args.figure is not None:
        require_matplotlib()
    check_family(args)
    check_text(args)
    find_sampler(args.sampler, model="GroupedMixture")
    resume = kept_run(args)
    options = {"frame": is_automatic(args) or args.text is not None, "vocab": args.vocab}
    options["memory_limit"] = args.memory_limit
    table = with_texts(args, reading_groups(args, lambda column: read_data(args, link_column=column, **options)))
    groups = groups_of(args, table)
    X, family = given_data(args, table)
    mixture = _mixture(args, family)
    line = f"{whole_line_of(mixture)}.fit(X, groups=groups)"
    say(args, f"data      {data_name(args)}: {shape_line(table.X)}, {counted(groups.n_groups, 'group', spec=',')}")
    say(args, f"python    {line}")
    if output_line(args):
        say(args, output_line(args))
    seconds = fit_shown(args, mixture, X, groups=groups, resume=resume)
    found = coarsened(args, mixture)
    saved, failed = save_all(args, result_writers(found, table) | {"figure": figure_writer(found, table)})
    scores = table_scores(table, found._labels)
    clusters, weights = largest_clusters(found, table.column_names), _weights(found, groups)
    say(args, f"model     {family_line(mixture.family_)}, seed {mixture.random_state}")
    say(args, run_line(mixture, seconds))
    say_groups(args, mixture, found)
    if scores:
        say(args, f"scores    {score_line(scores)} (against the labels in the file)")
    say(args, "\n" + cluster_text(clusters, found))
    say(args, "\n" + _group_text(weights))
    if saved:
        say(args, "\nsaved     " + ", ".join(saved.values()))
    result = {"data": str(args.data), "n_rows": int(table.X.shape[0]), "n_columns": int(table.X.shape[1])}
    result |= {"n_groups": groups.n_groups, "family": mixture.family_.name, "hyper": family_facts(mixture.family_)}
    result |= {"seed": mixture.random_state, "python": line, "alpha": plain(found.alpha_)}
    result |= run_facts(mixture, seconds) | groups_facts(mixture, found)
    result |= {
        "scores": scores,
        "clusters": clusters,
        "groups": weights,
        "output": None,
        "labels": None,
        "figure": None,
    }
    print_json(args, result | saved | {"not_saved": failed})
    return exit_code(mixture, failed)


def _mixture(args, family):
    """Return the estimator that the options describe; what they leave open has its default."""
    from expfam import GroupedMixture
    from expfam.structures.ground.rng import resolve_seed

    return GroupedMixture(
        family,
        None if args.infinite else args.components or _CLUSTERS,
        alpha=args.alpha,
        sampler=args.sampler,
        n_steps="auto" if args.steps is None else args.steps,
        n_warmup="auto" if args.warmup is None else args.warmup,
        n_threads=args.threads,
        random_state=resolve_seed(args.seed),
        memory_limit=args.memory_limit,
        time_limit=args.time_limit,
    )


def _weights(mixture: Any, groups: Any) -> list[dict[str, Any]]:
    """Return name, rows and weights of each group, the largest group first."""
    import numpy as np

    names = range(groups.n_groups) if groups.names is None else groups.names
    sizes, weights = groups.sizes, mixture.group_weights_
    return [
        {"group": plain(names[g]), "rows": int(sizes[g]), "weights": weights[g].tolist()}
        for g in np.argsort(-sizes, kind="stable").tolist()
    ]


def _group_text(groups):
    """Return the largest groups as a table, with their largest clusters."""
    rows = []
    for entry in groups[:LISTED]:
        weights = entry["weights"]
        largest = sorted(range(len(weights)), key=lambda k: -weights[k])[:_SHOWN]
        shares = ", ".join(f"{k}: {weights[k]:.0%}" for k in largest if weights[k] >= 0.005)
        rows.append([entry["group"], f"{entry['rows']:,}", shares])
    more = len(groups) - len(rows)
    others = f"\n  and {counted(more, 'more group', spec=',')}" if more else ""
    return as_text(["group", "rows", "clusters"], rows, left=True) + others
