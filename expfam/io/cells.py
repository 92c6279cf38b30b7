"""Cells of delimited text as columns of numbers, booleans, dates or text.

pyarrow splits the lines where it is installed, and the standard library otherwise. What a column holds is decided in
one place for both, so the result is the same.
"""

from __future__ import annotations

import re
import sys
import tempfile
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from expfam.amounts import counted
from expfam.errors import DataError
from expfam.frames.frame import Column, Frame, column_of_objects
from expfam.frames.numerals import plain_numbers
from expfam.io.quotes import open_lines, rows_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

MISSING = frozenset({"", "NA", "NaN", "nan", "null", "NULL", "None"})
_TRUTH = {"true": True, "false": False}
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?)?")
_DAY = len("2020-01-31")
_MAGIC = {b"PAR1": ".parquet", b"\x1f\x8b": ".csv.gz"}
_CHUNK = 1 << 20


class Cells:
    """Text of a table, column by column.

    Parameters
    ----------
    names : sequence of str
    columns : sequence of callable
        Each returns the cells of a column as a list of str.
    n_rows : int
    """

    def __init__(self, names: Sequence[str], columns: Sequence[Callable[[], list[str]]], n_rows: int) -> None:
        self.names, self._columns, self.n_rows = list(names), columns, n_rows

    def column(self, number: int) -> list[str]:
        """Return the cells of one column."""
        return self._columns[number]()

    def frame(self, columns: Sequence[int]) -> Frame:
        """Return some columns as a frame; a column without a name is called by its number."""
        names = [self.names[j] or f"column {j}" for j in columns]
        readers = [partial(self._typed, name, j) for name, j in zip(names, columns)]
        return Frame(names, readers, self.n_rows)

    def _typed(self, name, number):
        return column_of_text(name, self.column(number))


def read_cells(path: Path, names: Sequence[str], *, delimiter: str | None, has_header: bool) -> Cells:
    """Read the cells of a delimited file, all as text.

    Parameters
    ----------
    path : Path
        Text, or gzipped text.
    names : sequence of str
        One for each column.
    delimiter : str or None
        None for any white space.
    has_header : bool

    Raises
    ------
    DataError
        A line has another number of cells; the message names it.
    """
    if delimiter is not None:
        try:
            return _by_pyarrow(path, names, delimiter, has_header)
        except Exception:  # not installed, or a line that it cannot read, which the other way names
            pass
    return _by_lines(path, names, delimiter, has_header)


def _by_pyarrow(path, names, delimiter, has_header):
    from pyarrow import csv as arrow
    from pyarrow import string

    keys = [str(number) for number in range(len(names))]
    table = arrow.read_csv(
        path,
        read_options=arrow.ReadOptions(column_names=keys, skip_rows=int(has_header)),
        parse_options=arrow.ParseOptions(delimiter=delimiter, newlines_in_values=True),
        convert_options=arrow.ConvertOptions(column_types=dict.fromkeys(keys, string()), strings_can_be_null=False),
    )
    return Cells(names, [table.column(key).to_pylist for key in keys], table.num_rows)


def _by_lines(path, names, delimiter, has_header):
    with open_lines(path) as lines:
        reader = rows_of(lines, delimiter)
        rows = []
        for number, row in enumerate(reader, start=1):
            line = reader.line_num
            if not row or (number == 1 and has_header):
                continue
            if len(row) != len(names):
                raise DataError(
                    f"{path}: line {line} has {counted(len(row), 'cell')}; the first line has {len(names)}: put cells"
                    f" that hold {_name_of(delimiter)} in double quotes; if each line is a text, name the file"
                    f" {path.stem}.txt"
                )
            rows.append(row)
    columns = [list(column) for column in zip(*rows)]
    return Cells(names, [partial(_itself, column) for column in columns], len(rows))


def _name_of(delimiter):
    return "white space" if delimiter is None else repr(delimiter)


def _itself(value):
    return value


# ---- what a column holds ---------------------------------------------------------------------------------------------


def column_of_text(name: str, cells: Sequence[str]) -> Column:
    """Return a column of integers, floats, booleans, dates or text from its cells.

    Numbers that begin with 0, such as postal codes, are text.

    Examples
    --------
    >>> from expfam.io.cells import column_of_text
    >>> [column_of_text("x", cells).kind for cells in (["1", "NA"], ["1", "2.5"], ["true", ""], ["01234", "99999"])]
    ['integer', 'float', 'boolean', 'text']
    """
    cells = [cell.strip() for cell in cells]
    missing = np.fromiter((cell in MISSING for cell in cells), dtype=bool, count=len(cells))
    present = [cell for cell in cells if cell not in MISSING] if missing.any() else cells
    if not present:
        return Column(name, "empty", np.zeros(len(cells)), missing)
    for convert in (plain_numbers, _truths, _dates):
        found = convert(present)
        if found is not None:
            kind = {"i": "integer", "f": "float", "b": "boolean", "M": "time"}[found.dtype.kind]
            found = found.astype(np.int64) / 1e6 if kind == "time" else found
            values = np.zeros(len(cells), dtype=found.dtype)
            values[~missing] = found
            if kind == "float":
                return _column_of_floats(name, values, missing, cells)
            is_day = kind == "time" and all(len(cell) == _DAY for cell in present)
            return Column(name, kind, values, missing, type="date" if is_day else "datetime" if kind == "time" else "")
    return column_of_objects(name, cells, missing)


def _column_of_floats(name, values, missing, cells):
    """Return a column of floats that were read from text; cells that write NaN are missing."""
    missing = missing | np.isnan(values)
    if missing.all():
        return Column(name, "empty", np.zeros(len(cells)), missing)
    infinite = np.flatnonzero(np.isinf(values))
    return Column(name, "float", values, missing, infinite_text=cells[infinite[0]] if infinite.size else "")


def _truths(cells):
    if not {cell.lower() for cell in set(cells)} <= set(_TRUTH):
        return None
    return np.array([_TRUTH[cell.lower()] for cell in cells])


def _dates(cells):
    if not all(_DATE.fullmatch(cell) for cell in cells):
        return None
    try:
        return np.array(cells, dtype="datetime64[us]")
    except ValueError:
        return None


# ---- standard input --------------------------------------------------------------------------------------------------


@contextmanager
def standard_input() -> Iterator[Path]:
    """Copy standard input to a temporary file with the suffix of its format."""
    source = sys.stdin.buffer
    head = source.read(_CHUNK)
    suffix = next((suffix for magic, suffix in _MAGIC.items() if head.startswith(magic)), ".csv")
    with tempfile.TemporaryDirectory(prefix="expfam-") as folder:
        path = Path(folder) / f"input{suffix}"
        with open(path, "wb") as copy:
            while head:
                copy.write(head)
                head = source.read(_CHUNK)
        yield path
