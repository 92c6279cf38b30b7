"""`expfam check`: try the laws of plugins, or certify a sampler on a model and data."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from expfam.cli.arguments import (
    add_reading,
    add_seed,
    add_threads,
    concentration,
    positive_float,
    positive_int,
    read_data,
)
from expfam.cli.columns import rows_of_table
from expfam.cli.errors import UsageError
from expfam.cli.groups_of_rows import add_groups, groups_of, reading_groups
from expfam.cli.model_rows import given_rows
from expfam.cli.outputs import check_file, replacing
from expfam.cli.plugins import run_check
from expfam.cli.results import print_json, say
from expfam.cli.texts import add_text, check_text, with_texts

if TYPE_CHECKING:
    import argparse

_SUFFIXES = (".npy", ".npz", ".mtx", ".svmlight", ".svm", ".libsvm", ".csv", ".tsv", ".parquet", ".txt", ".gz")
_OPTIONS = {
    "sampler": "--sampler",
    "checks": "--checks",
    "replicates": "--replicates",
    "rows": "--rows",
    "seed": "--seed",
    "n_components": "--n-components",
    "alpha": "--alpha",
    "output": "--output",
    "groups": "--groups",
    "links": "--links",
    "text": "--text",
    "numbers": "--numbers",
    "dates": "--dates",
    "key": "--key",
    "id_column": "--id-column",
    "label_column": "--label-column",
    "zero_based": "--zero-based",
    "n_features": "--n-features",
    "threads": "--threads",
    "time_limit": "--time-limit",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `expfam check`."""
    parser.epilog = (
        "exit codes: 0 no error found, 1 not exact or not converged, 2 nothing could be checked, or bad usage or input"
    )
    parser.usage = "expfam check NAME [NAME ...]\n       expfam check MODEL DATA [options]"
    parser.add_argument(
        "names",
        nargs="+",
        metavar="NAME",
        help="families or proposals from `expfam plugins`, or DISTRIBUTION:NAME: their laws are tried; or MODEL DATA: a"
        " saved model or the name of a family, and a data file, on which a sampler is certified",
    )
    group = parser.add_argument_group("certificate of a sampler (MODEL DATA)")
    group.add_argument("--sampler", metavar="NAME", help="sampler to check; default: that of the model")
    group.add_argument("--checks", metavar="LIST", help="some of rows,truth,data,cold; default: all")
    group.add_argument("--replicates", type=positive_int, metavar="R", help="replicates of each check; default: 300")
    group.add_argument("--rows", type=positive_int, metavar="N", help="rows of a simulated data set; default: 60")
    add_seed(group, fixed=True)
    group.add_argument(
        "--n-components", type=positive_int, metavar="K", help="number of clusters; default: open (for a family)"
    )
    group.add_argument(
        "--alpha", type=concentration, metavar="A", help="concentration of the weights (for a family); default: auto"
    )
    add_groups(group, required=False)
    group.add_argument("--links", metavar="FILE", help=".npy file of the links of rows, with --groups; -1 for no link")
    add_threads(group)
    group.add_argument(
        "--time-limit", type=positive_float, metavar="SECONDS", help="fewer replicates, to 100, if more take longer"
    )
    group.add_argument("--output", type=Path, metavar="FILE", help="write the certificate to a .json file")
    add_reading(parser)
    add_text(parser)


def run(args: argparse.Namespace) -> int:
    """Run `expfam check`; return 0 if passed, 1 if failed, 2 if nothing could be checked."""
    if not _names_data(args.names):
        given = [option for name, option in _OPTIONS.items() if getattr(args, name) not in (None, [])]
        if given:
            raise UsageError(
                f"{given[0]} is for the certificate of a sampler: write expfam check MODEL DATA {given[0]} ..."
            )
        return run_check(args)
    if args.output is not None:
        check_file(args, args.output, "--output", (".json",))
    check_text(args)
    from expfam.evaluation.certificate import check_model

    args.model, args.data = args.names[0], Path(args.names[1])
    model = _model(args)
    X, groups = _rows(args, model)
    settings: dict[str, Any] = {
        "groups": groups,
        "links": None if args.links is None else _links(args),
        "checks": None if args.checks is None else [name.strip() for name in args.checks.split(",")],
        "sampler": args.sampler,
        "n_replicates": args.replicates,
        "n_rows": args.rows,
        "random_state": args.seed,
        "n_threads": args.threads,
        "time_limit": args.time_limit,
    }
    certificate = check_model(model, X, **{name: value for name, value in settings.items() if value is not None})
    say(args, str(certificate))
    if args.output is not None:
        with replacing(args.output, "w") as file:
            file.write(certificate.to_json() + "\n")
        if not args.json:
            print(f"written to {args.output}", file=sys.stderr)
    print_json(args, certificate.as_dict())
    if all(row.status == "skipped" for row in certificate.table):
        return 2
    return 0 if certificate.passed else 1


def _names_data(names):
    """Tell whether the arguments are a model and a data file, not names of plugins."""
    if Path(names[0]).is_dir() and len(names) != 2:
        raise UsageError(f"{names[0]} is a directory: to certify its sampler, write expfam check {names[0]} DATA")
    return len(names) == 2 and (Path(names[1]).is_file() or Path(names[1]).suffix.lower() in _SUFFIXES)


def _rows(args, model):
    """Return the rows of the data file as the model reads them, and their groups or None."""
    if Path(args.model).is_dir():
        _, X, more = given_rows(args, model)
        return X, more.get("groups")
    if args.groups is None:
        table = with_texts(args, read_data(args, frame=True))
    else:
        read = partial(read_data, args, frame=True)
        table = with_texts(args, reading_groups(args, lambda column: read(link_column=column)))
    return rows_of_table(table), None if args.groups is None else groups_of(args, table)


def _links(args):
    """Return the links of a .npy file."""
    import numpy as np

    try:
        return np.load(args.links, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise UsageError(
            f"--links: {args.links} cannot be read as a .npy file of one number a row ({error})"
        ) from error


def _saved(args):
    """Return the estimator that is saved in a directory."""
    from expfam import GroupedMixture, Mixture, TopicModel
    from expfam.archive import is_archive

    name = args.names[0]
    kinds: tuple[Any, ...] = (TopicModel, GroupedMixture)
    found = next((kind for kind in kinds if is_archive(name, kind.saved_kind)), Mixture)
    if found is GroupedMixture and args.groups is None:
        raise UsageError(
            f"{name} is a mixture of rows in groups: write expfam check {name} {args.names[1]} --groups COLUMN, or"
            " --groups FILE.npy with the group of each row"
        )
    return found.load(name)


def _model(args):
    """Return the estimator that is saved in a directory, or a mixture of the named family."""
    from expfam import DirichletProcess, GroupedMixture, Mixture, SymmetricDirichlet

    name, alpha = args.names[0], None if args.alpha in (None, "auto") else float(args.alpha)
    if Path(name).is_dir():
        for option in ("n_components", "alpha"):
            if getattr(args, option) is not None:
                raise UsageError(f"{_OPTIONS[option]} is for the name of a family; {name} is a saved model")
        return _saved(args)
    if args.groups is not None:
        if args.n_components is None:
            raise UsageError(
                f"--groups needs the number of clusters: write expfam check {name} {args.names[1]} --groups"
                f" {args.groups} --n-components 10"
            )
        return GroupedMixture(name, args.n_components, alpha="auto" if alpha is None else alpha)
    weights: Any = None
    if alpha is not None:
        weights = DirichletProcess(alpha) if args.n_components is None else SymmetricDirichlet(args.n_components, alpha)
    return Mixture(name, args.n_components, weights=weights)
