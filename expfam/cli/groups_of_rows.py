"""The group of each row on the command line: a column of the table, or a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from expfam.amounts import counted
from expfam.cli.arguments import read_with_column
from expfam.cli.errors import UsageError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from expfam.io.readers import Table
    from expfam.model.groups import Groups


def add_groups(parser: argparse._ActionsContainer, *, required: bool) -> None:
    """Add the option that says where the groups are."""
    parser.add_argument(
        "--groups",
        required=required,
        metavar="COLUMN|FILE",
        help="column of a table with the group of each row, or .npy file with a number or name for each row"
        + ("" if required else "; for a model of `expfam groups`"),
    )


def reading_groups(args: argparse.Namespace, reader: Callable[[int | str | None], Any]) -> Any:
    """Return what `reader` reads, given the column of the groups.

    The column is None where the groups are in a file.

    Raises
    ------
    UsageError
        There is no such column, in the words of the option.
    """
    return read_with_column(
        args,
        "groups",
        reader,
        instead="a column of groups: write --groups FILE.npy, a file with the number or the name of the group of each"
        " row",
    )


def groups_of(args: argparse.Namespace, table: Table) -> Groups:
    """Return the groups of the rows, from the column or the file.

    Raises
    ------
    UsageError
        A row has no group, or the file holds something else.
    """
    import numpy as np

    from expfam.model.groups import Groups, as_groups

    if args.groups.endswith(".npy"):
        return as_groups(_group_file(args.groups), table.X.shape[0])
    cells = np.asarray(table.links)
    is_text = cells.dtype.kind in "US"
    empty = np.flatnonzero(np.char.strip(cells) == "" if is_text else cells != cells)
    if empty.size:
        raise UsageError(
            f"--groups: row {empty[0]} of {args.data} has no cell in column {args.groups}, and so have "
            f"{counted(empty.size - 1, 'other row', spec=',')}: give these rows a group of their own, such as 'none'"
        )
    return Groups.of_names(cells)


def _group_file(name):
    """Return the groups of a file: (N,) integers or text."""
    import numpy as np

    path = Path(name)
    try:
        groups = np.load(path, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise UsageError(f"--groups: {path} cannot be read as an array of numbers or names ({error})") from error
    if groups.ndim != 1 or groups.dtype.kind not in "iuUS":
        raise UsageError(
            f"--groups: {path} must hold one integer or text for each row; it holds {groups.dtype} of shape"
            f" {groups.shape}"
        )
    return groups
