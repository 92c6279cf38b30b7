"""Cells in quotes of delimited text, which may hold delimiters and line ends.

The parsers that are used take a quote without an end for a cell that goes on to the end of the file, silently. Here it
is found beforehand, with the line in which it was opened.
"""

from __future__ import annotations

import csv
import gzip
import io
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from expfam.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

_MOST_SHOWN = 40  # characters of a line that are repeated in a message
_CHUNK = 1 << 20


@contextmanager
def open_lines(path: Path) -> Iterator[io.TextIOWrapper]:
    """Open text, or gzipped text, with the ends of its lines as they are."""
    with (gzip.open if path.suffix.lower() == ".gz" else open)(path, "rb") as raw:
        yield io.TextIOWrapper(raw, encoding="utf-8-sig", newline="")


def rows_of(lines: Iterable[str], delimiter: str | None, *, strict: bool = False) -> Any:
    """Return a reader of the rows of delimited text, which are lists of str.

    Parameters
    ----------
    lines : iterable of str
    delimiter : str or None
        None for any white space.
    strict : bool
        Whether an error of `csv` is raised for quotes that do not enclose a whole cell.

    Examples
    --------
    >>> from expfam.io.quotes import rows_of
    >>> list(rows_of(['a,"b,c",d'], ",")), list(rows_of([' a  "b c"  d '], None))
    ([['a', 'b,c', 'd']], [['a', 'b c', 'd']])
    """
    if delimiter is None:
        return csv.reader(map(_blanks, lines), delimiter=" ", skipinitialspace=True, strict=strict)
    return csv.reader(lines, delimiter=delimiter, strict=strict)


def check_quotes(path: Path, delimiter: str | None) -> None:
    """Refuse a file with a cell in quotes that is not closed where it ends.

    Parameters
    ----------
    path : Path
        Text, or gzipped text.
    delimiter : str or None
        None for any white space.

    Raises
    ------
    DataError
        The message names the line in which the quote was opened.
    """
    if not _holds_quotes(path):
        return
    try:
        with open_lines(path) as lines:
            for _ in rows_of(lines, delimiter, strict=True):
                pass
    except csv.Error:  # also of text after a closing quote, and of long cells, which are no faults
        _check_line_by_line(path, delimiter)


def ends_in_quotes(line: str, delimiter: str | None) -> bool:
    """Return whether a line ends within a cell in quotes."""
    return _Quotes(delimiter).read(line)


def _holds_quotes(path):
    with (gzip.open if path.suffix.lower() == ".gz" else open)(path, "rb") as file:
        return any(b'"' in block for block in iter(lambda: file.read(_CHUNK), b""))


def _blanks(line):
    return line.replace("\t", " ").strip()


def _check_line_by_line(path, delimiter):
    quotes, opened, first = _Quotes(delimiter), 0, ""
    with open_lines(path) as lines:
        for number, line in enumerate(lines, start=1):
            was_open = quotes.is_open
            if not was_open and '"' not in line:
                continue
            is_open = quotes.read(line)
            if was_open and quotes.after:
                raise DataError(
                    f"{_opened(path, opened, first)} that line {number} ends, with {_shown(quotes.after)} after the"
                    f" end: a quote is missing in one of the lines {opened} to {number}; {_DOUBLED}"
                )
            if is_open and (not was_open or quotes.n_ends):
                opened, first = number, line
    if quotes.is_open:
        where = _opened(path, opened, first)
        raise DataError(f"{where} that is not closed to the end of the file: close it; {_DOUBLED}")


_DOUBLED = 'a quote that is part of a quoted cell is written twice, as in "a 5"" pipe"'


def _opened(path, number, line):
    return f"{path}: line {number}, {_shown(line)}, opens a quote"


def _shown(text):
    text = text.strip()
    return repr(text) if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]!r}..."


class _Quotes:
    """Quotes of lines that are read one after another.

    Attributes
    ----------
    is_open : bool
        Whether the last line ended within a cell in quotes.
    n_ends : int
        Number of cells in quotes that ended in the last line.
    after : str
        What follows the end of a cell that an earlier line opened, up to the delimiter; empty where nothing does.
    """

    def __init__(self, delimiter: str | None) -> None:
        self._delimiter = delimiter
        self.is_open, self.n_ends, self.after = False, 0, ""

    def read(self, line: str) -> bool:
        """Read one line; return whether a quote is open at its end."""
        delimiter = self._delimiter or " "
        line = _blanks(line) if self._delimiter is None else line.rstrip("\r\n")
        was_open, at = self.is_open, 0
        self.n_ends, self.after = 0, ""
        while at <= len(line):
            if not self.is_open and line[at : at + 1] == '"':
                self.is_open, at = True, at + 1
            if self.is_open:
                at = _end_of_quotes(line, at)
                if at < 0:
                    return True
                self.is_open, self.n_ends = False, self.n_ends + 1
            stop = line.find(delimiter, at)
            stop = len(line) if stop < 0 else stop
            if was_open and self.n_ends == 1 and not self.after:
                self.after, was_open = line[at:stop], False
            at = stop + 1
        return False


def _end_of_quotes(line, at):
    """Return the place after the quote that ends a cell, -1 if the line does not end it."""
    while (at := line.find('"', at)) >= 0:
        if line[at + 1 : at + 2] != '"':
            return at + 1
        at += 2
    return -1
