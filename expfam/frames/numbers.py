"""Columns of numbers: checks before they are read, and a frame of them as a matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from expfam.amounts import counted
from expfam.errors import DataError, DataTypeError
from expfam.frames.doubts import conversion_of
from expfam.frames.frame import Column

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from expfam.frames.frame import Frame

_MOST_TEXT = 30  # characters of a cell that are repeated in a message
NUMBERS = ("boolean", "integer", "float")


def numbers_of_frame(frame: Frame, *, of_fit: bool, may_lack: bool = True) -> npt.NDArray[Any]:
    """Return the columns of a frame of numbers as a matrix, NaN where cells are missing.

    Parameters
    ----------
    frame : Frame
    of_fit : bool
        Whether the columns held numbers at the fit, for messages.
    may_lack : bool
        Whether cells may be missing, for messages.

    Returns
    -------
    (N, V) ndarray
        float32 or int64 if all columns are, else float64.

    Raises
    ------
    DataError, DataTypeError
        A column holds text, dates or infinity; the message names it and the row.
    """
    columns = [frame.column(name) for name in frame.names]
    for column in columns:
        require_numbers(column, frame.backend, of_fit=of_fit)
        check_finite(column, may_lack=may_lack)
    kinds = {
        np.dtype(float) if column.missing.any() and column.kind != "float" else column.values.dtype
        for column in columns
    }
    dtype = kinds.pop() if len(kinds) == 1 else np.dtype(float)
    X = np.empty(frame.shape, dtype=dtype if dtype in (np.float32, np.int64) else np.float64)
    for j, column in enumerate(columns):
        X[:, j] = np.where(column.missing, np.nan, column.values) if column.missing.any() else column.values
    return X


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

    Parameters
    ----------
    column : Column
    missing_values : sequence
        Values that stand for missing cells of this column, for the line to type.
    may_lack : bool
        Whether cells may be missing; if not, the message has no such line.

    Raises
    ------
    DataError
        The message names column and row.
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
    """Refuse periods and times of day, which are no points in time."""
    if np.isnan(column.present).any():
        raise DataTypeError(
            f"column {column.name!r} holds periods or times of day, which are no points in time: convert them to dates,"
            " or to numbers of a unit that you choose"
        )


def is_lossless(values: npt.NDArray[Any]) -> bool:
    """Return whether float32 holds all values of a column."""
    with np.errstate(over="ignore"):
        narrow = values.astype(np.float32)
    return bool(np.array_equal(narrow.astype(np.float64), values, equal_nan=True))
