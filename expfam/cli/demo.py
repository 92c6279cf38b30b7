"""`expfam demo`: cluster scikit-learn's handwritten digits."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from expfam.amounts import counted
from expfam.cli.arguments import add_seed
from expfam.cli.errors import UsageError
from expfam.cli.fit import fit_with_progress
from expfam.cli.outputs import require_place, save_figure
from expfam.cli.results import as_text, class_scores, print_json, run_facts, run_line, say, score_line

if TYPE_CHECKING:
    import argparse

_DEMO_CLUSTERS = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `expfam demo`."""
    parser.add_argument(
        "--figure",
        type=Path,
        default=Path("expfam-demo.png"),
        metavar="PATH",
        help="file of the picture; default: %(default)s",
    )
    add_seed(parser, fixed=True)
    parser.set_defaults(seed=0)


def run(args: argparse.Namespace) -> int:
    """Run `expfam demo` and return its exit code."""
    from sklearn.datasets import load_digits

    from expfam import Mixture

    if args.figure.suffix.lower() not in (".png", ".pdf", ".svg"):
        raise UsageError(f"--figure: {args.figure} must end in .png, .pdf or .svg")
    require_place(args.figure, "--figure")
    X, digits = load_digits(return_X_y=True)
    say(
        args,
        f"{counted(len(X), 'image', spec=',')} of handwritten digits, {counted(X.shape[1], 'count')} of ink each: "
        "a mixture of multinomials",
    )
    began = time.perf_counter()
    mixture = fit_with_progress(args, Mixture("multinomial", _DEMO_CLUSTERS, random_state=args.seed), X)
    seconds = time.perf_counter() - began
    scores, table = class_scores(digits, mixture._labels), _digit_table(mixture, digits)
    picture = _draw_digits(args.figure, mixture, table)
    say(args, run_line(mixture, seconds))
    say(args, f"against the digits, which the fit did not use: {score_line(scores)}\n")
    say(args, as_text(("cluster", "size", "digit", "share"), [_digit_row(entry) for entry in table]))
    say(
        args,
        f"\npicture   {picture}" if picture else "\nno picture: drawing needs matplotlib: pip install 'expfam[plot]'",
    )
    result = {"n_rows": len(X), "n_columns": X.shape[1], "family": "multinomial", "seed": args.seed}
    result |= run_facts(mixture, seconds) | {"scores": scores, "clusters": table}
    print_json(args, result | {"figure": str(picture) if picture else None})
    return 130 if mixture.interrupted_ else 0


def _digit_table(mixture, digits):
    """Return the clusters, sorted by the digit that most of their images show, and by size."""
    import numpy as np

    table = []
    for k, size in enumerate(mixture.cluster_sizes_.tolist()):
        counts = np.bincount(digits[mixture._labels == k], minlength=10)
        table.append({"cluster": k, "size": size, "digit": int(counts.argmax()), "share": float(counts.max() / size)})
    return sorted(table, key=lambda entry: (entry["digit"], -entry["size"]))


def _digit_row(entry):
    return entry["cluster"], f"{entry['size']:,}", entry["digit"], f"{entry['share']:.0%}"


def _draw_digits(path, mixture, table):
    """Draw the clusters' means to a file; return its path, or None without matplotlib."""
    from expfam.displays.means import ClusterMeansDisplay

    try:
        from matplotlib.figure import Figure  # not pyplot: it opens windows and changes global settings
    except ImportError:
        return None
    everything = ClusterMeansDisplay.from_estimator(mixture, n_max=len(table))
    place = {name: position for position, name in enumerate(everything.names)}
    order = [place[entry["cluster"]] for entry in table]
    names = [f"“{entry['digit']}”" for entry in table]
    display = ClusterMeansDisplay(everything.means[order], everything.sizes[order], names=names)
    figure = Figure(figsize=display.image_size(), dpi=160, layout="constrained")
    display.plot(figure.subplots(), kind="image")
    save_figure(figure, path)
    return path.resolve()
