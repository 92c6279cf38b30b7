"""The column of a table that holds the texts: `--text COLUMN`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from expfam.cli.arguments import column_name
from expfam.cli.errors import UsageError

if TYPE_CHECKING:
    from expfam.io.readers import Table

_OF_COLUMNS = ("vocab", "roles", "column", "drop", "columns", "missing", "missing_values")
OF_MODEL = "tables: column that holds the texts, for a model of texts"


def add_text(parser: argparse.ArgumentParser | argparse._ArgumentGroup, *, help: str | None = None) -> None:
    """Add the option that names the column of the texts."""
    said = "tables: column that holds the texts; their words are counted, and other columns are not used"
    parser.add_argument("--text", type=column_name, metavar="COLUMN", help=help or said)


def check_text(args: argparse.Namespace) -> None:
    """Refuse options of columns beside ``--text``, before the data are read."""
    given = [option for option in _OF_COLUMNS if getattr(args, option, None)] if args.text is not None else []
    if given:
        option = f"--{given[0].replace('_', '-')}"
        raise UsageError(f"{option}: with --text the words of one column are the data: leave out {option}")


def with_texts(args: argparse.Namespace, table: Table) -> Table:
    """Return the table of the texts that ``--text`` names; without the option, the table itself.

    X has the counts of the words, as of a file of texts; names and labels of the rows stay.

    Raises
    ------
    UsageError
        There is no such column, or it holds no text.
    """
    import numpy as np

    from expfam.frames.texts import count_words

    if args.text is None:
        return table
    texts = texts_of_column(args, table)
    counts, words = count_words(texts, "texts", owner=f"{args.data}, column {args.text!r}")
    return table._replace(X=counts, column_names=np.array(words, dtype=str), documents=texts)


def texts_of_column(args: argparse.Namespace, table: Table) -> list[str]:
    """Return the texts of the column that ``--text`` names.

    A missing one is empty.

    Raises
    ------
    UsageError
        There is no such column, or it holds no text.
    """
    from expfam.frames.frame import Frame

    if table.documents is not None:
        raise UsageError(f"--text: {args.data} holds texts, one a line: leave out --text")
    frame = table.X
    if not isinstance(frame, Frame):
        raise UsageError("--text needs a table: a CSV, TSV, Parquet, Feather or JSON lines file")
    names = frame.names
    name = names[args.text] if isinstance(args.text, int) and args.text < len(names) else args.text
    if name not in names:
        raise UsageError(f"--text: {args.data} has no column {args.text!r} (it has {', '.join(names[:20])})")
    column = frame.column(name)
    if column.kind not in ("text", "category"):
        raise UsageError(f"--text: column {name!r} of {args.data} holds values of kind {column.kind!r}, no text")
    return ["" if lacks else str(column.levels[code]) for code, lacks in zip(column.values, column.missing)]


def data_name(args: argparse.Namespace) -> str:
    """Return the name of the data in a printed line: the file, and the column of its texts."""
    return str(args.data) if args.text is None else f"{args.data}, texts of column {args.text!r}"
