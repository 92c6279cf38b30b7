"""Columns of a frame, matched by name with those of the fit."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager

from expfam.errors import DataError, DataWarning, ExpFamError
from expfam.frames.frame import listed
from expfam.user_warnings import renamed_warnings, warn

_NUMBERS = r"\d+(?:, \d+)*"


def check_names(names: Sequence[str], kept: Sequence[str], known: Collection[str], *, owner: str) -> None:
    """Refuse a frame that lacks columns of the fit; warn of columns that the fit did not have.

    Parameters
    ----------
    names : sequence of str
        Columns of the frame, in any order.
    kept : sequence of str
        Columns that the model reads.
    known : collection of str
        All columns of the fit.
    owner : str
        Named in the messages.

    Raises
    ------
    DataError
        The frame lacks a column that the model reads.

    Warns
    -----
    DataWarning
        If there are columns that were not there at fit.
    """
    lacking = [name for name in kept if name not in set(names)]
    extra = [name for name in names if name not in known]
    if lacking:
        raise DataError(
            f"{owner}: columns of the frame differ from those at fit: only at fit {listed(lacking)}; only now"
            f" {listed(extra)}: give the frame all columns that were kept at fit, by their feature names"
        )
    if extra:
        warn(
            f"{owner}: the frame has columns that were not there at fit, which are ignored: {listed(extra)}",
            DataWarning,
        )


_PLACES = re.compile(  # a name in brackets may follow already
    rf"\b(?P<noun>columns?|row) (?P<numbers>{_NUMBERS})\b(?! \()"
    rf"|\b(?P<some>\d+ columns \()(?P<first>{_NUMBERS})(?=, \.\.\.\))"
    r"|X\[:, (?P<typed>\d+)\]"  # in a line to type
)


def with_places(text: str, column: Callable[[int], str | None], row: Callable[[int], str | None] | None = None) -> str:
    """Return a message in which names replace the numbers of columns and rows.

    Parameters
    ----------
    text : str
        Such as "row 4, column 1", "columns 0, 2" or "7 columns (0, 2, ...)".
    column, row : callable
        Return what stands in place of a number; None leaves it.

    Examples
    --------
    >>> from expfam.frames.names import with_places
    >>> with_places("columns 0, 2 are constant, as in row 3", lambda number: repr("abc"[number]))
    "columns 'a', 'c' are constant, as in row 3"
    >>> with_places("column 1 is too large: X[:, 1] /= 10", lambda number: repr("abc"[number]))
    "column 'b' is too large: df['b'] /= 10"
    """

    def words(match):
        if match["typed"]:
            text = column(int(match["typed"]))
            return match[0] if text is None else _typed_column(text)
        name = row if match["noun"] == "row" else column
        numbers = match["numbers"] or match["first"]
        if name is None:
            return match[0]
        found = [name(int(number)) or number for number in numbers.split(", ")]
        return f"{match['some'] or match['noun'] + ' '}{', '.join(found)}"

    return _PLACES.sub(words, text)


def _typed_column(text):
    """Return how a column is typed: of a frame by its name, of an array by its number."""
    named = re.fullmatch(r"\d+ \((.*)\)", text, re.DOTALL)  # a number with a name
    return f"X[:, {text}]" if text.isdecimal() else f"df[{named[1] if named else text}]"


@contextmanager
def named_columns(names: Sequence[str] | None) -> Iterator[None]:
    """Let errors and warnings of this package say names of columns in place of their numbers.

    Parameters
    ----------
    names : sequence of str, optional
        Names of the columns in their order; without them errors stay as they are.

    Examples
    --------
    >>> from expfam.errors import DataError
    >>> from expfam.frames.names import named_columns
    >>> with named_columns(["size", "kind"]):
    ...     raise DataError("row 4, column 1 holds -1")
    Traceback (most recent call last):
        ...
    expfam.errors.DataError: row 4, column 'kind' holds -1
    """

    if names is None:
        yield
        return

    def named(text):
        return with_places(text, lambda number: repr(str(names[number])) if number < len(names) else None)

    with _renamed(named):
        yield


@contextmanager
def rows_from(first_row: int) -> Iterator[None]:
    """Let errors and warnings of this package count rows from the first row of a part.

    Examples
    --------
    >>> from expfam.errors import DataError
    >>> from expfam.frames.names import rows_from
    >>> with rows_from(1000):
    ...     raise DataError("row 4, column 1 holds -1")
    Traceback (most recent call last):
        ...
    expfam.errors.DataError: row 1004, column 1 holds -1
    """
    if not first_row:
        yield
        return
    with _renamed(lambda text: with_places(text, lambda number: None, lambda number: str(first_row + number))):
        yield


@contextmanager
def _renamed(named):
    """Let errors and warnings of this package have their texts changed by a function."""
    try:
        with renamed_warnings(named):
            yield
    except ExpFamError as error:
        if error.args and isinstance(error.args[0], str):
            error.args = (named(error.args[0]), *error.args[1:])
        raise


def keyword(name: str, value: object) -> str:
    """Return the keyword argument of a column as it is written in a call."""
    return f"{name}={value!r}" if name.isidentifier() else f"**{{{name!r}: {value!r}}}"
