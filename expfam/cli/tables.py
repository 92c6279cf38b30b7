"""`expfam explain` and `expfam impute`: what tells clusters apart, and filled cells."""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from expfam.amounts import counted
from expfam.cli.arguments import add_data, add_model, add_seed, natural_int, read_data
from expfam.cli.errors import UsageError
from expfam.cli.outputs import check_file, guarded, replacing
from expfam.cli.results import as_text, cells_of, plain, print_json, say

if TYPE_CHECKING:
    import argparse


def add_explain(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `expfam explain`."""
    add_model(parser)
    parser.add_argument("--cluster", type=natural_int, metavar="K", help="one cluster, its columns sorted")


def add_impute(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `expfam impute`."""
    add_model(parser)
    add_data(parser)
    parser.add_argument("--output", type=Path, metavar="FILE", help="write the table as .csv; default: standard output")
    parser.add_argument("--draw", action="store_true", help="draw the cells, in place of their means and modes")
    add_seed(parser, of=" of --draw")


def run_explain(args: argparse.Namespace) -> int:
    """Run `expfam explain` and return its exit code."""
    from expfam import Mixture
    from expfam.frames.frame import as_frame

    mixture = Mixture.load(args.model, trust=args.trust)
    mixture.set_output(transform="pandas")
    clusters, evidence = as_frame(mixture.clusters_), as_frame(mixture.explain(args.cluster))
    if args.cluster is None:
        say(args, _text(clusters))
        say(args, "\nlog Bayes factor of each column, nats: how much it tells a cluster apart from the others\n")
    say(args, _text(evidence))
    result = {"clusters": _plain_columns(clusters), "evidence": _plain_columns(evidence)}
    print_json(args, {"model": str(args.model), **result})
    return 0


def _plain_columns(frame):
    return {name: [plain(cell) for cell in cells_of(frame.column(name))] for name in frame.names}


def _text(frame):
    columns = _plain_columns(frame)
    cells = [[f"{cell:.4g}" if isinstance(cell, float) else cell for cell in column] for column in columns.values()]
    return as_text(list(columns), list(zip(*cells)))


def run_impute(args: argparse.Namespace) -> int:
    """Run `expfam impute` and return its exit code."""
    from expfam import Mixture
    from expfam.frames.frame import Frame
    from expfam.structures.ground.rng import resolve_seed

    if args.output is not None:
        check_file(args, args.output, "--output", (".csv",))
    if args.seed is not None and not args.draw:
        raise UsageError("--seed needs --draw: means and modes are not drawn")
    seed = resolve_seed(args.seed) if args.draw else None
    mixture = Mixture.load(args.model, trust=args.trust).set_params(random_state=seed)
    table = read_data(args, frame=True)
    if not isinstance(table.X, Frame):
        raise UsageError(f"{args.data}: impute fills the columns of a table: give a CSV, TSV or Parquet file")
    n_missing = _n_missing(mixture, table.X)
    filled = mixture.impute(table.X, draws=1)[0] if args.draw else mixture.impute(table.X)
    n_left = sum(cell is None for column in filled.values() for cell in column)
    columns: dict[str, Any] = {} if table.row_ids is None else {"row_id": table.row_ids.tolist()}
    columns |= filled
    if args.output is not None:
        with replacing(args.output, "w") as file:
            _write(file, columns)
    elif not args.json:
        _write(sys.stdout, columns)
    left = f", {n_left:,} left in columns that the model does not know" if n_left else ""
    drawn = "" if seed is None else f", drawn with seed {seed}"
    if not args.json:
        print(f"{counted(sum(n_missing.values()) - n_left, 'cell', spec=',')} filled{drawn}{left}", file=sys.stderr)
    result = {"model": str(args.model), "data": str(args.data), "n_missing": n_missing, "n_left": n_left}
    result["seed"] = seed
    result["output"] = None if args.output is None else str(args.output)
    if args.output is None:
        result["table"] = {name: [plain(cell) for cell in column] for name, column in columns.items()}
    print_json(args, result)
    return 0


def _n_missing(mixture, frame):
    """Return the number of missing cells of each column, as the roles of the model read it."""
    from expfam.families.columns.roles import Roles, read_column

    roles = {role.column: role for role in Roles(getattr(mixture.family_, "roles", None) or ()).kept}
    columns = {name: read_column(frame, roles[name]) if name in roles else frame.column(name) for name in frame.names}
    return {name: int(column.missing.sum()) for name, column in columns.items()}


def _write(file, columns):
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow([guarded(name) for name in columns])
    writer.writerows([["" if cell is None else guarded(cell) for cell in row] for row in zip(*columns.values())])
