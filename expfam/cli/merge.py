"""`expfam merge`: one model of all rows from models of disjoint parts of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from expfam.amounts import counted, size_spec
from expfam.cli.errors import UsageError
from expfam.cli.outputs import check_outputs, save_all
from expfam.cli.results import print_json, say

if TYPE_CHECKING:
    import argparse

_MERGED = "write merge(models, clusters='merged')"  # in messages of Python


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `expfam merge`."""
    parser.add_argument(
        "models", type=Path, nargs="+", metavar="MODEL", help="directories that fit --output or Mixture.save wrote"
    )
    parser.add_argument(
        "--apart", action="store_true", help="keep every cluster; default: join those that are more probable as one"
    )
    parser.add_argument(
        "--trust",
        action="store_true",
        help="import modules that the models name, whatever they are; this runs their code",
    )
    parser.add_argument("--output", type=Path, required=True, metavar="DIR", help="save the merged model here")


def run(args: argparse.Namespace) -> int:
    """Run `expfam merge` and return its exit code."""
    from expfam import Mixture, merge
    from expfam.errors import CapabilityError

    if len(args.models) < 2:
        raise UsageError(f"merge joins two models or more; {args.models[0]} is the only one given")
    check_outputs(args)
    parts = [Mixture.load(path, trust=args.trust) for path in args.models]
    try:
        merged = merge(parts, clusters="apart" if args.apart else "merged")
    except CapabilityError as error:
        raise CapabilityError(str(error).replace(_MERGED, "leave out --apart")) from error
    saved, failed = save_all(args, {"output": merged.save})
    before = [part.n_components_ for part in parts]
    rows = merged.cluster_sizes_.sum()
    say(args, f"result    {counted(merged.n_components_, 'cluster')} of {counted(rows, 'row', spec=size_spec(rows))}")
    say(args, f"          those of the parts: {' + '.join(map(str, before))}")
    if saved:
        say(args, f"saved     {saved['output']}")
    result: dict[str, Any] = {"models": [str(path) for path in args.models], "n_clusters_before": before}
    result |= {"n_clusters": int(merged.n_components_), "cluster_sizes": merged.cluster_sizes_.tolist()}
    print_json(args, result | {"output": None} | saved | {"not_saved": failed})
    return 1 if failed else 0
