"""What is known of rows on the command line: classes of a column, and links."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from expfam.amounts import counted
from expfam.cli.arguments import read_data, read_with_column
from expfam.cli.errors import UsageError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence

    from expfam import Mixture
    from expfam.io.readers import Table

_LISTED = 5  # doubtful rows in a printed line
_UNKNOWN = ("", "-1", "NA", "N/A", "NaN", "nan", "None", "null")  # cells that say nothing


class Given(NamedTuple):
    """What the arguments say of the rows.

    Attributes
    ----------
    labels : {"clusters", "classes"} or None
        As of `Mixture`.
    y, links : (N,) ndarrays or None
        As of `Mixture.fit`.
    """

    labels: Any
    y: Any
    links: Any


def add_known(parser: argparse.ArgumentParser) -> None:
    """Add the options that say what is known of rows before the fit."""
    group = parser.add_argument_group("known rows")
    group.add_argument(
        "--known",
        choices=["clusters", "classes"],
        help="use the classes of --label-column, empty or -1 where unknown: clusters: each class is one cluster;"
        " classes: a class has one or more clusters of its own; default: classes are for scores only",
    )
    group.add_argument(
        "--links",
        metavar="FILE|COLUMN",
        help=".npy file of N integers, or column of the table: rows of an equal value belong together; empty or -1:"
        " a row alone",
    )


def check_known_arguments(args: argparse.Namespace) -> None:
    """Refuse options that lack another one, before the data are read."""
    if args.known is not None and args.label_column is None and not _brings_labels(args.data):
        raise UsageError(f"--known {args.known} needs --label-column, the column with the classes")


def _brings_labels(path):
    return any(part in (".svm", ".svmlight", ".libsvm") for part in path.suffixes)


def read_table(args: argparse.Namespace, **options: Any) -> Table:
    """Read the data of a fit, and the column of links where there is one."""
    return read_with_column(
        args,
        "links",
        lambda column: read_data(args, link_column=column, **options),
        instead="columns of links: write --links FILE.npy, a file with one integer for each row",
    )


def read_known(args: argparse.Namespace, table: Table) -> Given:
    """Return what is known of the rows of a table."""
    y = None
    if args.known is not None:
        if table.labels is None:
            raise UsageError(f"--known {args.known}: {args.data} holds no classes")
        y = _named(table.labels)
    links = None
    if args.links is not None:
        links = _links_file(args.links, table) if args.links.endswith(".npy") else _links_column(table)
    return Given(args.known, y, links)


def _links_file(name, table):
    import numpy as np

    path = Path(name)
    try:
        links = np.load(path, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise UsageError(f"--links: {path} cannot be read as an array of integers ({error})") from error
    if links.ndim != 1 or links.dtype.kind not in "iu" or len(links) != table.X.shape[0]:
        raise UsageError(
            f"--links: {path} must hold one integer for each of the {counted(table.X.shape[0], 'row')}; it holds "
            f"{links.dtype} of shape {links.shape}"
        )
    return links


def _links_column(table):
    """Return the links of the cells of a column; empty cells and -1 are rows alone."""
    import numpy as np

    values = _named(table.links)
    is_linked = np.array([value is not None and value == value and value != -1 for value in values.tolist()])
    links = np.full(len(values), -1)
    if is_linked.any():
        links[is_linked] = np.unique(values[is_linked], return_inverse=True)[1]
    return links


def _named(values):
    """Return cells with None in place of those that say nothing."""
    import numpy as np

    if values.dtype.kind not in "OUS":
        return values
    cells = [value.decode() if isinstance(value, bytes) else value for value in values.tolist()]
    cells = [None if isinstance(cell, str) and cell.strip() in _UNKNOWN else cell for cell in cells]
    found = np.empty(len(cells), dtype=object)
    found[:] = cells
    return found


def known_line(mixture: Mixture, given: Given) -> str:
    """Return in words what was known in a finished fit."""
    parts = []
    if given.labels is not None:
        parts.append(
            f"{counted(mixture.n_known_, 'row', spec=',')} of {counted(len(mixture.classes_), 'class', 'classes')}, as "
            f"{given.labels}"
        )
    if given.links is not None:
        linked = given.links[given.links >= 0]
        parts.append(
            f"{counted(linked.size, 'row', spec=',')} in {counted(len(set(linked.tolist())), 'linked group', spec=',')}"
        )
    return ", ".join(parts)


def doubtful_facts(mixture: Mixture, given: Given, row_ids: Any) -> list[dict[str, Any]]:
    """Return the known rows that the data contradict, with given and likelier classes."""
    if given.labels is None or not hasattr(mixture, "doubtful_known_"):
        return []
    rows = mixture.doubtful_known_.tolist()
    names = rows if row_ids is None else row_ids[rows].tolist()
    return [
        {"row": row, "row_id": name, "class": str(given.y[row]), "likelier": str(likelier)}
        for row, name, likelier in zip(rows, names, mixture.likelier_classes_.tolist())
    ]


def doubtful_line(doubtful: Sequence[Mapping[str, Any]]) -> str:
    """Return in words which known rows the data contradict."""
    listed = [f"row {each['row_id']} ({each['class']}, likelier {each['likelier']})" for each in doubtful[:_LISTED]]
    more = f", and {len(doubtful) - _LISTED:,} more" if len(doubtful) > _LISTED else ""
    return f"{counted(len(doubtful), 'known row', spec=',')} that the data contradict: {', '.join(listed)}{more}"


def class_of_cluster(mixture: Mixture, k: int) -> str | None:
    """Return the name of the class of a cluster's known rows, or None."""
    place = int(mixture.cluster_classes_[k])
    return None if place < 0 else str(mixture.classes_[place])
