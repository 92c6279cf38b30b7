"""`expfam predict`: assign new rows to the clusters of a saved model."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from expfam.amounts import counted
from expfam.cli.arguments import add_data, add_model, add_threads, positive_int
from expfam.cli.errors import UsageError
from expfam.cli.groups_of_rows import add_groups
from expfam.cli.model_rows import given_rows, load_model
from expfam.cli.outputs import check_file, ranked, replacing, write_csv, write_labels
from expfam.cli.results import print_json, score_line, table_scores
from expfam.cli.texts import OF_MODEL, add_text

if TYPE_CHECKING:
    import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `expfam predict`."""
    add_model(parser)
    add_data(parser)
    add_groups(parser, required=False)
    add_text(parser, help=OF_MODEL)
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FILE",
        help="save the result: .csv, .npy or .npz; default: CSV to standard output",
    )
    parser.add_argument(
        "--proba",
        type=positive_int,
        metavar="TOP",
        help="add the TOP most probable clusters of each row; an .npz file holds only these, as sparse rows",
    )
    add_threads(parser)


def run(args: argparse.Namespace) -> int:
    """Run `expfam predict` and return its exit code."""
    suffixes = (".csv", ".npy", ".npz")
    if args.output is not None:
        check_file(args, args.output, "--output", suffixes)
        if (args.output.suffix.lower() == ".npz") and args.proba is None:
            raise UsageError("--output: .npz holds probabilities; add --proba TOP, or choose .csv or .npy")
        if (args.output.suffix.lower() == ".npy") and args.proba is not None:
            raise UsageError("--output: .npy holds labels only; choose .csv or .npz for probabilities")
    model = load_model(args.model, trust=args.trust)
    table, X, more = given_rows(args, model)
    model.set_params(n_threads=args.threads)
    began = time.perf_counter()
    labels = model.predict(X, **more)
    probabilities = None if args.proba is None else model.predict_proba(X, n_top=args.proba, **more)
    seconds = time.perf_counter() - began
    scores = table_scores(table, labels)
    _write_prediction(args, labels, probabilities, table.row_ids)
    line = f"{counted(len(labels), 'row', spec=',')} in {seconds:.3g} s" + (f"; {score_line(scores)}" if scores else "")
    if not args.json:
        print(line, file=sys.stderr)
    result = {"model": str(args.model), "data": str(args.data), "n_rows": len(labels), "seconds": seconds}
    result |= {"n_clusters": int(model.n_clusters_), "scores": scores}
    if args.output is None:
        result |= {"labels": labels.tolist()}
        if probabilities is not None:
            clusters, values = ranked(probabilities)
            result |= {"clusters": clusters.tolist(), "probabilities": values.tolist()}
    print_json(args, result | {"output": str(args.output) if args.output else None})
    return 0


def _write_prediction(args, labels, probabilities, row_ids):
    path = args.output
    if path is None:
        if not args.json:
            write_csv(sys.stdout, labels, row_ids, probabilities)
    elif path.suffix.lower() == ".npz":
        from scipy import sparse

        with replacing(path, "wb") as file:
            sparse.save_npz(file, sparse.csr_array(probabilities))
    else:
        write_labels(path, labels, row_ids, probabilities)
