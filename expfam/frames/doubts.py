"""What a column of text may be instead: numbers, dates, codes for missing cells, free text.

Nothing is changed silently: the user gets a warning that has the line to type.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from expfam.amounts import counted
from expfam.frames.frame import Column
from expfam.frames.names import keyword
from expfam.frames.notation import PLACEHOLDERS, Notation, notation_of

if TYPE_CHECKING:
    from collections.abc import Sequence

_FEW_LEVELS = 20  # categories of so many levels may be numbers on purpose
_LEAST_NUMBERS = 3
_LEAST_ROWS = 20
_NEARLY_ALL = 0.9  # share of distinct cells from which text is free text
_SHARE_OF_DATES = 0.9
_MONTHS = "jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec"
_TIME = r"([T ,]+\d{1,2}:\d{2}(:\d{2}([.,]\d+)?)?( ?[ap]m)?( ?(z|utc|[+-]\d{2}:?\d{2}))?)?"
_DATE = re.compile(
    rf"(\d{{4}}[-/.]\d{{1,2}}[-/.]\d{{1,2}}|\d{{1,2}}[-/.]\d{{1,2}}[-/.](\d{{4}}|\d{{2}})"
    rf"|\d{{1,2}}[-. ]*({_MONTHS})[a-z]*[-., ]*\d{{2,4}}|({_MONTHS})[a-z]*\.? \d{{1,2}},? \d{{4}}){_TIME}",
    re.IGNORECASE,
)
_DAYS = re.compile(r"(\d{1,2})([-/.])(\d{1,2})[-/.](\d{4}|\d{2})")
_UNKNOWN = Notation("text", "", 0, ("text",), (), is_plain=True, has_fractions=False)


class Doubt(NamedTuple):
    """What a column of text may be instead of categories.

    Attributes
    ----------
    what : str
        In words, with an example.
    line : str
        What to type; may be empty.
    leaves_out : bool
        Whether the column is left out unless it is named: as a category it would have about as many levels as rows.
    """

    what: str
    line: str
    leaves_out: bool


class DateTexts(NamedTuple):
    """Texts that write dates.

    Attributes
    ----------
    dates : list of str
    is_day_first : bool
        Whether days come before months in all of them.
    """

    dates: list[str]
    is_day_first: bool


def doubt_of(column: Column, backend: str = "pandas") -> Doubt | None:
    """Return what a column of text may be instead of categories; None if there is no doubt.

    Parameters
    ----------
    column : Column
    backend : {"pandas", "polars", "pyarrow"}
        Library in which the line is written; a table of PyArrow becomes a frame of pandas first.

    Examples
    --------
    >>> import pandas as pd
    >>> from expfam.frames.doubts import doubt_of
    >>> from expfam.frames.frame import as_frame
    >>> column = as_frame(pd.DataFrame({"x": [f"{i},5" for i in range(30)]})).column("x")
    >>> doubt_of(column).line
    "df['x'] = pd.to_numeric(df['x'].str.replace(',', '.', regex=True))"
    """
    if column.kind not in ("text", "category") or not all(isinstance(level, str) for level in column.levels):
        return None
    counts = np.bincount(column.present, column.present_times, len(column.levels)).astype(np.int64)
    levels = [level for level, count in zip(column.levels, counts) if count]
    n_rows = int(counts.sum())
    is_long = n_rows > _LEAST_ROWS and 2 * len(levels) > n_rows
    leaves_out = is_long and not column.is_declared
    return (
        _dates(column.name, levels, backend, leaves_out)
        or _numbers(column.name, levels, backend, leaves_out, is_long)
        or _codes(column, levels, counts)
        or _free_text(column, levels, n_rows, is_long)
    )


def dates_of(levels: Sequence[str]) -> DateTexts | None:
    """Return what is a date among texts; None if too few are.

    Parameters
    ----------
    levels : sequence of str
        Distinct texts.

    Returns
    -------
    DateTexts or None

    Examples
    --------
    >>> from expfam.frames.doubts import dates_of
    >>> dates_of(["31/01/2020", "28/02/2020", "01/03/2020"]).is_day_first
    True
    >>> dates_of(["spring", "summer", "01/03/2020"]) is None
    True
    """
    dates = [level for level in levels if _DATE.fullmatch(level.strip())]
    if len(dates) < max(_LEAST_NUMBERS, _SHARE_OF_DATES * len(levels)):
        return None
    parts = [match for date in dates if (match := _DAYS.match(date.strip()))]
    is_day_first = len(parts) == len(dates) and any(match[2] == "." or int(match[1]) > 12 for match in parts)
    return DateTexts(dates, is_day_first)


def _dates(name, levels, backend, leaves_out):
    found = dates_of(levels)
    if found is None:
        return None
    line = f"{_dates_line(name, found, backend)}, then Columns.from_frame(df, {keyword(name, 'numeric')})"
    return Doubt(f"dates as text, such as {found.dates[0]!r}", line, leaves_out)


def _dates_line(name, found, backend):
    """Return the line that makes dates of a column."""
    dates, is_day_first = found
    if backend != "polars":
        return f"{_first(backend)}df[{name!r}] = pd.to_datetime(df[{name!r}]{', dayfirst=True' * is_day_first})"
    parts, form = [match for date in dates if (match := _DAYS.match(date.strip()))], ""
    if len(parts) == len(dates):
        sign, year = parts[0][2], "%Y" if len(parts[0][4]) == 4 else "%y"
        form = repr(sign.join(["%d", "%m", year] if is_day_first else ["%m", "%d", year]))
    return f"df = df.with_columns(pl.col({name!r}).str.to_date({form}))"


def _numbers(name, levels, backend, leaves_out, is_long):
    notation = notation_of(levels)
    if notation is None or notation.n_numbers < _LEAST_NUMBERS:
        return None
    if not (notation.n_numbers > _FEW_LEVELS or notation.has_fractions or is_long):
        return None
    what = f"{notation.what}, such as {notation.example!r}"
    if notation.others:
        what += f", and {', '.join(map(repr, notation.others[:3]))} among them"
    if notation.is_plain and notation.others:
        return Doubt(what, f"Columns.from_frame(df, missing_values={list(notation.others)!r})", leaves_out)
    return Doubt(what, _conversion(name, notation, backend), leaves_out)


def _first(backend):
    """Return what comes before a line that is written for pandas."""
    return "df = df.to_pandas(); " if backend == "pyarrow" else ""


def _conversion(name: str, notation: Notation, backend: str) -> str:
    """Return the line that makes numbers of a column; cells that are none become missing."""
    if backend == "polars":
        steps = "".join(f".str.replace_all({_literal(p)}, {_literal(_of_rust(r))})" for p, r in notation.steps)
        strict = ", strict=False" if notation.others else ""
        return f"df = df.with_columns(pl.col({name!r}){steps}.cast(pl.Float64{strict}))"
    steps = "".join(f".str.replace({_literal(p)}, {_literal(r)}, regex=True)" for p, r in notation.steps)
    errors = ", errors='coerce'" if notation.others else ""
    return f"{_first(backend)}df[{name!r}] = pd.to_numeric(df[{name!r}]{steps}{errors})"


def _literal(text):
    """Return a regular expression as it is written in a program."""
    return f"r{text!r}".replace("\\\\", "\\") if "\\" in text else repr(text)


def _of_rust(replacement):
    return replacement.replace("\\1", "$1")


def conversion_of(column: Column, backend: str = "pandas") -> str:
    """Return the line that makes numbers of a column of text; other cells become missing.

    Parameters
    ----------
    column : Column
    backend : {"pandas", "polars", "pyarrow"}
        As for `doubt_of`.
    """
    texts = [level for level in column.levels if isinstance(level, str)]
    notation = notation_of(texts) if len(texts) == len(column.levels) else None
    return _conversion(column.name, notation or _UNKNOWN, backend)


def _codes(column, levels, counts):
    """Return the doubt about text among which there are usual codes of missing cells."""
    codes = [level for level in levels if level.strip() in PLACEHOLDERS]
    if not codes or len(levels) < 3:
        return None
    count = int(sum(counts[column.levels.index(code)] for code in codes))
    noun = "row" if count == 1 else "rows"
    what = f"{', '.join(map(repr, codes))} in {count} {noun}, a level like any other"
    return Doubt(what, f"Columns.from_frame(df, missing_values={codes!r}) has holes there", False)


def _free_text(column, levels, n_rows, is_long):
    """Return the doubt about text of which few rows share a level."""
    if not is_long or column.is_declared:
        return None
    has_words = 2 * sum(len(level.split()) > 2 for level in levels) > len(levels)
    if len(levels) < _NEARLY_ALL * n_rows:
        what = f"{counted(len(levels), 'level')} in {counted(n_rows, 'row')}, so that few rows share one"
        return Doubt(what, f"{keyword(column.name, 'drop')} leaves it out", False)
    if has_words:
        what = f"looks like free text, {counted(len(levels), 'level')} in {counted(n_rows, 'row')}"
        return Doubt(what, f"fit(df[{column.name!r}]) counts its words", True)
    return (
        None
        if len(levels) == n_rows
        else Doubt(f"looks like an id, {counted(len(levels), 'level')} in {counted(n_rows, 'row')}", "", True)
    )
