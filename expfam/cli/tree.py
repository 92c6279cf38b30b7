"""`expfam tree`: make a hierarchy of clusters of the rows of a file."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from expfam.amounts import counted
from expfam.cli.arguments import (
    add_data,
    add_family,
    add_labels_file,
    add_seed,
    add_threads,
    concentration,
    positive_int,
    read_data,
)
from expfam.cli.columns import add_columns, check_family, family_facts, family_line, is_automatic, model_data
from expfam.cli.figures import FIGURE_SUFFIXES, require_matplotlib
from expfam.cli.outputs import check_outputs, replacing, result_writers, save_all, save_figure
from expfam.cli.results import exit_code, print_json, say, score_line, shape_line, table_scores
from expfam.cli.running import add_kept_run, kept_run
from expfam.cli.texts import add_text, check_text, data_name, with_texts

if TYPE_CHECKING:
    import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `expfam tree`."""
    add_data(parser)
    add_text(parser)
    add_columns(parser)
    model = add_family(parser)
    model.add_argument(
        "--alpha", type=concentration, default=1.0, metavar="A", help="concentration, a number or auto; default: 1"
    )
    model.add_argument("--tune", action="store_true", help="choose hyper-parameters by the evidence of a subsample")
    group = parser.add_argument_group("run")
    group.add_argument(
        "--order",
        choices=("auto", "odds", "odds_size", "best"),
        default="auto",
        help="rule for the next merge; best keeps the tree with most evidence; auto is odds_size for counts and "
        "categories, else best; default: %(default)s",
    )
    group.add_argument(
        "--leaves",
        choices=("auto", "rows", "clusters"),
        default="auto",
        help="leaves of the tree: rows, or clusters of a mixture; auto takes clusters for more than 20,000 rows, and "
        "for counts in 1000 rows or more that have fewer than 10 tokens on average, unless --neighbors or --candidates "
        "are given; default: %(default)s",
    )
    group.add_argument(
        "--neighbors",
        type=positive_int,
        metavar="K",
        help="for many rows: merge only among the K nearest candidates of each row, as long as there are any",
    )
    group.add_argument(
        "--candidates", choices=("knn", "hash"), help="how candidates for --neighbors are found; default: knn"
    )
    group.add_argument(
        "-k", "--clusters", type=positive_int, metavar="K", help="cut the tree into K clusters; default: by the odds"
    )
    add_seed(group)
    add_threads(group, note="; results do not depend on it")
    add_kept_run(group)
    out = parser.add_argument_group("output")
    out.add_argument("--output", type=Path, metavar="DIR", help="save the hierarchy to this directory")
    add_labels_file(out)
    out.add_argument("--linkage", type=Path, metavar="FILE", help="save SciPy's linkage matrix: .npy")
    out.add_argument("--newick", type=Path, metavar="FILE", help="save the tree in Newick's format")
    out.add_argument("--figure", type=Path, metavar="FILE", help="draw the top of the tree: .png, .pdf or .svg")
    out.add_argument("--quiet", action="store_true", help="print nothing but errors")


def run(args: argparse.Namespace) -> int:
    """Run `expfam tree` and return its exit code."""
    from expfam import BayesianHierarchy
    from expfam.samplers import HierarchicalClustering
    from expfam.structures.ground.rng import resolve_seed

    forms = {"linkage": (".npy",), "newick": (".nwk", ".newick", ".txt"), "figure": FIGURE_SUFFIXES}
    check_outputs(args, "hierarchy", **forms)
    if args.figure is not None:
        require_matplotlib()
    check_family(args)
    check_text(args)
    resume = kept_run(args)
    seed = resolve_seed(args.seed)
    table = with_texts(args, read_data(args, frame=is_automatic(args) or args.text is not None))
    X, family = model_data(args, table)
    say(args, f"data      {data_name(args)}: {shape_line(table.X)}")
    kernel = HierarchicalClustering(
        order=args.order,
        candidates=args.candidates or (None if args.neighbors is None else "knn"),
        n_neighbors=args.neighbors or 10,
        n_threads=args.threads,
    )
    hierarchy = BayesianHierarchy(
        family,
        args.clusters,
        alpha=args.alpha,
        sampler=kernel,
        learn_hyper=args.tune or "auto",
        leaves=args.leaves,
        n_threads=args.threads,
        random_state=seed,
    )
    began = time.perf_counter()
    _grow_with_progress(args, hierarchy, X, resume)
    seconds = time.perf_counter() - began
    saved, failed = save_all(args, result_writers(hierarchy, table) | _form_writers(args, hierarchy, table))
    n_leaves = hierarchy.tree_.n_leaves
    scores = table_scores(table, hierarchy._labels)
    state = "stopped  " if hierarchy.interrupted_ else "result   "
    about = f"alpha {hierarchy.alpha_:g}, order {hierarchy.order_}, seed {seed}"
    say(args, f"model     {family_line(hierarchy.family_)}, {about}")
    say(
        args,
        f"{state} {counted(hierarchy.n_clusters_, 'cluster')}, {counted(n_leaves, 'leaf', 'leaves', spec=',')}, log "
        f"evidence {hierarchy.log_evidence_:,.1f} nats, {counted(hierarchy.n_scores_, 'pair', spec=',')} scored in "
        f"{seconds:.3g} s",
    )
    if scores:
        say(args, f"scores    {score_line(scores)} (against the labels in the file)")
    if saved:
        say(args, "saved     " + ", ".join(saved.values()))
    result = {"data": str(args.data), "n_rows": int(table.X.shape[0]), "n_columns": int(table.X.shape[1])}
    result |= {"family": family.name, "hyper": family_facts(hierarchy.family_), "alpha": hierarchy.alpha_}
    result |= {"n_clusters": hierarchy.n_clusters_, "log_evidence": hierarchy.log_evidence_, "seconds": seconds}
    result |= {"n_leaves": n_leaves, "seed": seed}
    result |= {"order": hierarchy.order_, "n_scores": hierarchy.n_scores_, "interrupted": hierarchy.interrupted_}
    nothing = dict.fromkeys(("output", "labels", "linkage", "newick", "figure"))
    print_json(args, result | {"scores": scores} | nothing | saved | {"not_saved": failed})
    return exit_code(hierarchy, failed)


def _grow_with_progress(args, hierarchy, X, resume):
    from expfam.samplers.chain.callbacks import Progress
    from expfam.stages import watching

    bar = Progress(disable=True if args.quiet else None, leave=False, file=sys.stderr)
    with watching(not args.quiet, sys.stderr):
        hierarchy.set_params(callbacks=[bar]).fit(X, resume=resume)
    hierarchy.set_params(callbacks=None)


def _form_writers(args, hierarchy, table):
    """Return the writers of linkage matrix, Newick file and figure, for `save_all`.

    A forest has no linkage matrix.
    """
    import numpy as np

    names = table.row_ids

    def write_linkage(path):
        with replacing(path, "wb") as file:
            np.save(file, hierarchy.linkage_matrix())

    def write_newick(path):
        with replacing(path, "w") as file:
            file.write(hierarchy.to_newick(names) + "\n")

    def draw(path):
        from matplotlib.figure import Figure  # not pyplot: it opens windows and changes global settings

        from expfam.displays.dendrogram import DendrogramDisplay

        figure = Figure(figsize=(7.2, 3.8), layout="constrained")
        DendrogramDisplay.from_estimator(hierarchy, names=names).plot(figure.subplots())
        save_figure(figure, path, dpi=150)

    writers = {"linkage": write_linkage, "newick": write_newick, "figure": draw}
    if args.linkage is not None and hierarchy.interrupted_:
        print("expfam tree: the run was stopped: a forest has no linkage matrix, none was saved", file=sys.stderr)
        del writers["linkage"]
    return writers
