"""Checks of cells before they become numbers, and the numbers of levels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from expfam.amounts import counted
from expfam.errors import DataError, DataTypeError, SupportError
from expfam.families.columns.doubts import conversion_of
from expfam.families.columns.messages import keyword
from expfam.frames.frame import Column, listed

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from expfam.families.columns.roles import ColumnRole

_MOST_TEXT = 30  # characters of a cell that are repeated in a message
_LARGEST = 2.0**63  # whole numbers up to it are int64
NUMBERS = ("boolean", "integer", "float")


def require_numbers(column: Column, backend: str, *, of_fit: bool) -> None:
    """Refuse a column that holds text or dates, with the line that makes numbers of it.

    Parameters
    ----------
    column : Column
    backend : str
        Library of the frame.
    of_fit : bool
        Whether the column held numbers at the fit.
    """
    if column.kind in (*NUMBERS, "empty"):
        return
    row = int(np.argmin(column.missing))
    value = repr(column.levels[column.values[row]] if column.levels else "a date")[:60]
    before = "held numbers at fit; " if of_fit else "is read as numbers; "
    raise DataTypeError(f"column {column.name!r} {before}row {row} holds {value}: {_as_numbers(column, backend)}")


def _as_numbers(column, backend):
    """Return the remedy for a column that should hold numbers, with the line to type."""
    name = repr(column.name)
    if column.kind == "time":
        return (
            "turn it into numbers of a unit that you choose, such as"
            f" df[{name}] = (df[{name}] - df[{name}].min()) / numpy.timedelta64(1, 'D')"
        )
    return f"convert the column to numbers, which leaves other cells missing: {conversion_of(column, backend)}"


def check_finite(column: Column, missing_values: Sequence[Any] = (), *, may_lack: bool = True) -> None:
    """Refuse infinite cells.

    `missing_values` are those that stand for missing cells of this column, for the line to type. There is no such line
    where cells may not be missing.
    """
    if column.kind != "float":
        return
    bad = np.flatnonzero(np.isinf(column.values) & ~column.missing)
    if bad.size:
        remedy = "put a number in its place"
        if may_lack:
            remedy += f", or leave the cell empty{_hole(column, column.values[bad], missing_values)}"
        raise DataError(f"column {column.name!r}, row {bad[0]} holds {_infinite(column, bad[0])}: {remedy}")


def _infinite(column, row):
    """Return what an infinite cell holds; text is shown as it is written."""
    text = column.infinite_text
    if not text:
        return f"{column.values[row]}"
    shown = repr(text) if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]!r}... ({counted(len(text), 'character')})"
    return f"{shown}, which is not finite as a float"


def _hole(column, values, missing_values):
    """Return the line that makes missing cells of the infinite ones."""
    if len(column.infinite_text) > _MOST_TEXT:
        return ""
    infinite = [text for text in ("inf", "-inf") if (values == float(text)).any()]
    if column.infinite_text:
        infinite = [column.infinite_text, *(text for text in infinite if float(text) != float(column.infinite_text))]
    given = [*map(str, missing_values), *infinite]
    return f"; or write Columns.from_frame(df, missing_values={given!r}), which makes it a missing cell"


def require_seconds(column: Column) -> None:
    """Refuse times that are no points in time."""
    if np.isnan(column.present).any():
        raise DataTypeError(
            f"column {column.name!r} holds periods or times of day, which are no points in time: convert them to dates,"
            " or to numbers of a unit that you choose"
        )


def level_codes(role: ColumnRole, column: Column) -> npt.NDArray[Any]:
    """Return the number of each cell's level; the level of unseen values stands last."""
    if column.kind == "time":
        raise DataTypeError(f"column {role.column!r} held categories at fit, and holds dates now: give it as at fit")
    is_text = column.kind in ("text", "category")
    if is_text:
        cells, place = column.levels, np.where(column.missing, 0, column.values)
    else:
        distinct, place = np.unique(np.where(column.missing, column.present[:1], column.values), return_inverse=True)
        cells = tuple(distinct.tolist())
    number = {level: code for code, level in enumerate(role.levels)}
    codes = np.array([number.get(cell, -1) for cell in cells], dtype=np.float64)
    used = np.zeros(len(cells), dtype=bool)
    used[place[~column.missing]] = True
    unknown = np.flatnonzero(used & (codes < 0))
    if unknown.size:
        _check_unknown(role, column, cells, place, unknown)
        codes[unknown] = len(role.levels)
    return codes[place]


def _check_unknown(role, column, cells, place, unknown):
    """Refuse levels that the role does not know, unless it has a level for them."""
    row = int(np.flatnonzero(np.isin(place, unknown) & ~column.missing)[0])
    value = cells[place[row]]
    was_text = any(isinstance(level, str) for level in role.levels)
    if isinstance(value, str) != was_text:
        held, cure = ("text", ".astype(str)") if was_text else ("numbers", ".astype(float)")
        raise DataTypeError(
            f"column {role.column!r} held {held} at fit; row {row} holds {value!r}: convert it, for example with"
            f" df[{role.column!r}]{cure}"
        )
    if not role.other:
        raise SupportError(
            f"column {role.column!r}: row {row} holds the level {value!r}, which was not there at fit"
            f" ({listed(role.levels)}): leave the cell empty, or write {_with_other(role)} for a family that has one"
            " level for all that the rows of the fit, or of the first chunk, do not hold"
        )


def _with_other(role):
    """Return the line of a family that has a level for all that were not seen."""
    if role.type not in ("category", "enum"):  # levels of no declared type leave room for others
        return f"Columns.from_frame(df, {keyword(role.column, 'category')})"
    return f"Columns.from_frame(df, roles=[{{'column': {role.column!r}, 'role': 'category', 'other': True}}])"


def whole_numbers(values: npt.NDArray[Any], gone: npt.NDArray[np.bool_]) -> npt.NDArray[Any]:
    """Return values rounded, as int64 if none is missing and all fit."""
    values = np.rint(values)
    fits = not gone.any() and bool(np.all(np.abs(values) < _LARGEST))
    return values.astype(np.int64) if fits else values


def is_lossless(values: npt.NDArray[Any]) -> bool:
    """Return whether float32 holds all values of a column."""
    with np.errstate(over="ignore"):
        narrow = values.astype(np.float32)
    return bool(np.array_equal(narrow.astype(np.float64), values, equal_nan=True))
