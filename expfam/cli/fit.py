"""`expfam fit`: cluster the rows of a file."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

from expfam.cli.arguments import (
    add_column_names,
    add_data,
    add_family,
    natural_int,
    positive_float,
    positive_int,
)
from expfam.cli.cluster_lines import cluster_text, largest_clusters
from expfam.cli.coarsened import coarsened, groups_facts, say_groups
from expfam.cli.columns import (
    add_columns,
    check_family,
    family_facts,
    family_line,
    given_data,
    is_automatic,
)
from expfam.cli.figures import FIGURE_SUFFIXES, figure_writer, require_matplotlib
from expfam.cli.known import (
    add_known,
    check_known_arguments,
    doubtful_facts,
    doubtful_line,
    known_line,
    read_known,
    read_table,
)
from expfam.cli.outputs import check_outputs, result_writers, save_all
from expfam.cli.results import (
    exit_code,
    plain,
    print_json,
    run_facts,
    run_line,
    say,
    score_line,
    shape_line,
    short,
    table_scores,
)
from expfam.cli.running import add_kept_run, add_limits, add_outputs, kept_run, output_line
from expfam.cli.texts import add_text, check_text, data_name, with_texts

if TYPE_CHECKING:
    import argparse

    from expfam import Mixture


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `expfam fit`."""
    add_data(parser)
    add_column_names(parser)
    add_text(parser)
    add_columns(parser)
    add_known(parser)
    model = add_family(parser)
    size = model.add_mutually_exclusive_group()
    size.add_argument(
        "-k", "--components", type=positive_int, metavar="K", help="K clusters: symmetric Dirichlet prior"
    )
    size.add_argument("--infinite", action="store_true", help="any number of clusters: Dirichlet process (default)")
    model.add_argument(
        "--alpha",
        type=positive_float,
        metavar="A",
        help="concentration: total (default 1), or with -k per component (default 1 on real values, 1/K on counts)",
    )
    group = parser.add_argument_group("run")
    group.add_argument(
        "--steps",
        type=natural_int,
        metavar="N",
        help="steps after the warm-up; default: until the log joint has stopped rising, at most 100, or 50 with a named"
        " --sampler",
    )
    group.add_argument(
        "--warmup", type=natural_int, metavar="N", help="warm-up steps; default: at most 17, or with --steps as many"
    )
    group.add_argument(
        "--sampler",
        default="auto",
        metavar="NAME",
        help="auto, gibbs, uncollapsed_gibbs, fastex, canopy, split_merge, stochastic_em, em or variational;"
        " default: %(default)s",
    )
    starts = [
        "auto",
        "random",
        "kmeans++",
        "kmeans",
        "tree",
        "tree_point",
        "sequential",
        "one",
        "buckets",
        "variational",
    ]
    group.add_argument(
        "--start",
        default="auto",
        choices=starts,
        metavar="NAME",
        help=f"first partition: {', '.join(starts[:-1])} or {starts[-1]}; default: %(default)s",
    )
    add_limits(group)
    add_kept_run(group)
    add_outputs(parser, figure="draw the clusters")


def run(args: argparse.Namespace) -> int:
    """Run `expfam fit` and return its exit code."""
    from expfam.estimators.base import total_steps
    from expfam.estimators.lines import whole_line_of
    from expfam.samplers.chain.callbacks import Progress
    from expfam.samplers.named import find_sampler
    from expfam.stages import watching

    check_outputs(args, figure=FIGURE_SUFFIXES)
    if args.figure is not None:
        require_matplotlib()
    check_family(args)
    check_text(args)
    check_known_arguments(args)
    find_sampler(args.sampler)
    resume = kept_run(args)
    options = {"frame": is_automatic(args) or args.text is not None, "vocab": args.vocab}
    table = with_texts(args, read_table(args, memory_limit=args.memory_limit, **options))
    given = read_known(args, table)
    X, family = given_data(args, table)
    mixture = _mixture(args, family, given.labels)
    bar = Progress(total_steps(mixture), disable=True if args.quiet else None, leave=False, file=sys.stderr)
    say(args, f"data      {data_name(args)}: {shape_line(table.X)}")
    plan = mixture.set_params(callbacks=[bar]).plan_fit(X, given.y, links=given.links)
    mixture.set_params(callbacks=None)  # the saved model must not hold the bar
    before, forecast, line = plan.model.family, plan.forecast(), f"{whole_line_of(mixture)}.{_call(given)}"
    say(args, f"model     {family_line(before)}, {plan.model.weights!r}, seed {mixture.random_state}")
    say(args, f"python    {line}")
    say(args, f"memory    about {forecast}")
    duration = _forecast_time(args, plan)
    if duration is not None:
        say(args, f"time      about {duration}")
    if output_line(args):
        say(args, output_line(args))
    began = time.perf_counter()
    with watching(not args.quiet, sys.stderr):
        mixture.fit_plan(plan, resume=resume)
        found = coarsened(args, mixture)
    seconds = time.perf_counter() - began
    # save before printing: if the output pipe is closed, the result is not lost
    saved, failed = save_all(args, result_writers(found, table) | {"figure": figure_writer(found, table)})
    scores = None if given.labels else table_scores(table, found._labels)  # no scores of rows that were given
    clusters = largest_clusters(found, table.column_names)
    say(args, run_line(mixture, seconds))
    say_groups(args, mixture, found)
    if known_line(mixture, given):
        say(args, f"known     {known_line(mixture, given)}")
    doubtful = doubtful_facts(mixture, given, table.row_ids)
    if doubtful:
        say(args, f"doubtful  {doubtful_line(doubtful)}")
    learned = _learned(before, mixture.family_)
    if learned:
        say(args, f"learned   {', '.join(f'{name} = {short(value)}' for name, value in learned.items())}")
    if scores:
        say(args, f"scores    {score_line(scores)} (against the labels in the file)")
    say(args, "\n" + cluster_text(clusters, found))
    if saved:
        say(args, "\nsaved     " + ", ".join(saved.values()))
    result = {"data": str(args.data), "n_rows": int(table.X.shape[0]), "n_columns": int(table.X.shape[1])}
    result |= {"family": before.name, "hyper": family_facts(mixture.family_), "weights": repr(mixture.model_.weights)}
    result |= {"seed": mixture.random_state, "python": line, "memory_forecast": forecast.beside_data}
    result |= run_facts(mixture, seconds) | groups_facts(mixture, found)
    if given.labels is not None:
        result["doubtful_known"] = doubtful
    result |= {"scores": scores, "clusters": clusters, "output": None, "labels": None, "figure": None}
    print_json(args, result | saved | {"not_saved": failed})
    return exit_code(mixture, failed)


def _mixture(args, family, labels):
    """Return the estimator that the options describe; what they leave open has its default."""
    from expfam import DirichletProcess, Mixture, SymmetricDirichlet
    from expfam.structures.ground.rng import resolve_seed

    K, weights = args.components, None
    if args.alpha is not None:
        weights = DirichletProcess(args.alpha) if K is None else SymmetricDirichlet(K, alpha=args.alpha)
    return Mixture(
        family,
        K if weights is None else None,
        weights=weights,
        sampler=args.sampler,
        n_steps="auto" if args.steps is None else args.steps,
        n_warmup="auto" if args.warmup is None else args.warmup,
        start=args.start,
        labels=labels,
        n_threads=args.threads,
        random_state=resolve_seed(args.seed),
        memory_limit=args.memory_limit,
        time_limit=args.time_limit,
    )


def _call(given):
    """Return the call of `fit` in Python."""
    known = ["y"] * (given.y is not None) + ["links=links"] * (given.links is not None)
    return f"fit({', '.join(['X', *known])})"


def _forecast_time(args, plan):
    """Forecast the duration of the fit, or return None if it is short and without a limit."""
    from expfam.fitting.phases import step_range
    from expfam.forecast.time import forecast_duration
    from expfam.stages import TIMED_ROWS

    if args.quiet or args.json or (args.time_limit is None and plan.data.n_rows < TIMED_ROWS):
        return None
    (least, most), begun = step_range(plan), {"seed": plan.seed, "start": plan.starts[0]}
    return forecast_duration(plan.kernel, plan.model, plan.data, most, least_steps=least, **begun)


def fit_with_progress(
    args: argparse.Namespace, mixture: Mixture, X: Any, y: Any = None, *, links: Any = None
) -> Mixture:
    """Fit the mixture and return it; show a progress bar if standard error is a terminal."""
    from expfam.estimators.base import total_steps
    from expfam.samplers.chain.callbacks import Progress

    bar = Progress(total_steps(mixture), disable=True if args.quiet else None, leave=False, file=sys.stderr)
    mixture.set_params(callbacks=[bar]).fit(X, y, links=links)
    return mixture.set_params(callbacks=None)  # the saved model must not hold the bar


def _learned(before, after):
    """Return the hyper-parameters that the fit changed, by name."""
    return {
        name: value
        for name, value in plain(after.get_params()).items()
        if name in after.hyper and value != plain(before.get_params())[name]
    }
