"""Results as text for people, and as one JSON object for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from expfam.amounts import counted

if TYPE_CHECKING:
    import argparse

    import numpy.typing as npt

    from expfam import Mixture
    from expfam.frames.frame import Column
    from expfam.io.readers import Table


def say(args: argparse.Namespace, text: str) -> None:
    """Print text, unless ``--json`` or ``--quiet`` was given.

    Characters that the output's encoding lacks are printed as numbers.
    """
    if not (args.json or args.quiet):
        encoding = sys.stdout.encoding or "utf-8"
        print(text.encode(encoding, "backslashreplace").decode(encoding))


def print_json(args: argparse.Namespace, result: Mapping[str, Any]) -> None:
    """Print the result as one JSON object if ``--json`` was given."""
    if args.json:
        print(json.dumps({"command": args.command, **result}, allow_nan=False))


def plain(value: Any) -> Any:
    """Return a value for JSON: arrays are lists, and objects their text in Python."""
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    value = value.tolist() if hasattr(value, "tolist") else value
    return value if value is None or isinstance(value, (bool, int, float, str, list)) else repr(value)


def cells_of(column: Column) -> list[Any]:
    """Return the cells of a column for people: levels, and points in time as their text.

    Parameters
    ----------
    column : Column

    Returns
    -------
    list
        Of missing times None.

    Examples
    --------
    >>> import pandas as pd
    >>> from expfam.cli.results import cells_of
    >>> from expfam.frames.frame import as_frame
    >>> frame = as_frame(pd.DataFrame({"day": pd.to_datetime(["2025-03-01 14:30"]), "kind": ["b"], "x": [2.5]}))
    >>> [cells_of(frame.column(name)) for name in frame.names]
    [['2025-03-01 14:30'], ['b'], [2.5]]
    """
    values = column.values.tolist()
    if column.kind == "time":
        return [None if lacks else _time(value, column.type) for value, lacks in zip(values, column.missing)]
    return [column.levels[code] for code in values] if column.levels else values


def _time(seconds, kind):
    """Return seconds since 1970, or of a duration, as text."""
    if kind == "duration":
        return str(timedelta(seconds=round(seconds)))
    moment = datetime(1970, 1, 1) + timedelta(seconds=round(seconds))
    return moment.date().isoformat() if kind == "date" else moment.isoformat(sep=" ", timespec="minutes")


def short(value: Any) -> str:
    """Return a value as a short text."""
    if isinstance(value, list):
        return f"[{counted(len(value), 'value')}]"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def shape_line(X: Any) -> str:
    """Return the sizes of the data as text."""
    from scipy import sparse

    line = f"{counted(X.shape[0], 'row', spec=',')}, {counted(X.shape[1], 'column', spec=',')}"
    return f"{line}, {counted(X.nnz, 'stored entry', 'stored entries', spec=',')}" if sparse.issparse(X) else line


def as_text(head: Sequence[str], rows: Sequence[Sequence[Any]], *, left: bool = False) -> str:
    """Return a table as text with aligned columns.

    Columns are aligned to the right; a column "words", and all columns if `left`, to the left.
    """
    cells = [[str(cell) for cell in row] for row in (head, *rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(head))]
    is_left = [left or name == "words" for name in head]
    lines = [
        "  ".join(
            cell.ljust(width) if to_left else cell.rjust(width) for cell, width, to_left in zip(row, widths, is_left)
        )
        for row in cells
    ]
    return "\n".join(line.rstrip() for line in lines)


def table_scores(table: Table, labels: npt.NDArray[Any]) -> dict[str, float] | None:
    """Return scores against the labels of a file.

    Return None if the file has no labels, or if they are not classes.
    """
    known = table.labels
    return None if known is None or known.dtype.kind not in "biuUS" else class_scores(known, labels)


def class_scores(classes: npt.ArrayLike, labels: npt.ArrayLike) -> dict[str, float]:
    """Return scores of labels against known classes, by name."""
    from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

    from expfam import purity, variation_of_information

    return {
        "normalized_mutual_information": float(normalized_mutual_info_score(classes, labels)),
        "adjusted_rand_index": float(adjusted_rand_score(classes, labels)),
        "variation_of_information_nats": variation_of_information(classes, labels),
        "purity": purity(classes, labels),
    }


def score_line(scores: Mapping[str, float]) -> str:
    """Return scores in one line of text."""
    names = ("NMI {:.3f}", "ARI {:.3f}", "VI {:.3f} nats", "purity {:.3f}")
    return ", ".join(name.format(value) for name, value in zip(names, scores.values()))


def run_facts(mixture: Mixture, seconds: float) -> dict[str, Any]:
    """Return facts about a finished fit, by name."""
    return {
        "n_clusters": int(mixture.n_components_),
        "log_joint": mixture.log_joint_,
        "n_steps": int(mixture.n_iter_),
        "seconds": seconds,
        "interrupted": bool(mixture.interrupted_),
    }


def run_line(mixture: Mixture, seconds: float) -> str:
    """Return facts about a finished fit in one line of text."""
    state = "stopped  " if mixture.interrupted_ else "result   "
    return (
        f"{state} {counted(mixture.n_components_, 'cluster')}, log joint {mixture.log_joint_:,.1f} nats, "
        f"{counted(mixture.n_iter_, 'step')} in {seconds:.3g} s"
    )


def exit_code(estimator: Any, failed: Mapping[str, str]) -> int:
    """Return the exit code after a fit: 1 if an output was not saved, 130 after Ctrl-C, else 0."""
    if failed:
        return 1
    return 130 if estimator.interrupted_ else 0
