"""Values that stand for missing cells, such as "?" and -999."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from expfam.frames.frame import Column, Frame, listed
from expfam.frames.numerals import as_infinity, as_number, plain_numbers
from expfam.near_names import did_you_mean

if TYPE_CHECKING:
    import numpy.typing as npt

_LARGEST = 1e308  # integers beyond it are no floats


def missing_values_of(given: Any, names: Sequence[str], *, owner: str) -> dict[str, list[Any]]:
    """Return the values that stand for missing cells, by column.

    Parameters
    ----------
    given : str, number, sequence of them, dict or None
        Values of all columns, or values by column.
    names : sequence of str
        Columns of the frame.
    owner : str
        Named in messages.

    Returns
    -------
    dict of list
        Columns without such values are not among the keys.

    Raises
    ------
    ValueError
        A column of a dict does not exist.
    TypeError
        A value is neither text nor a number.
    """
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        found = checked_values(given, owner=f"{owner}: missing_values")
        return {name: list(found) for name in names} if found else {}
    for name in given:
        if name not in names:
            raise ValueError(
                f"{owner}: missing_values: the frame has no column {name!r}{did_you_mean(name, names)} (it has"
                f" {listed(names, 20)})"
            )
    return {name: checked_values(values, owner=f"{owner}: missing_values[{name!r}]") for name, values in given.items()}


def checked_values(values: Any, *, owner: str) -> list[Any]:
    """Return one value or several as a list of texts and numbers, without None and NaN."""
    single = isinstance(values, (str, bool)) or not isinstance(values, Iterable)
    found = []
    for value in [values] if single else values:
        value = value.item() if isinstance(value, np.generic) else value
        if value is None or type(value).__name__ == "NAType" or (isinstance(value, float) and np.isnan(value)):
            continue
        if isinstance(value, bool) or not isinstance(value, (str, int, float)):
            raise TypeError(
                f"{owner} must be texts and numbers that stand for missing cells, such as ['?', -999]; got {value!r}"
            )
        found.append(value)
    return found


def column_with_holes(frame: Frame, name: str, values: Sequence[Any], *, reads_numbers: bool | None = None) -> Column:
    """Return a column of a frame in which the cells with some values are missing.

    As `with_holes` does; values of another type than the other cells are found too, such as "?" among numbers.

    Parameters
    ----------
    frame : Frame
    name : str
        Name of the column.
    values, reads_numbers
        As in `with_holes`.
    """
    if not values:
        return frame.column(name)
    codes = _Codes(map(_key, values))
    return with_holes(frame.column(name, codes), values, reads_numbers=reads_numbers)


class _Codes(frozenset):
    """Values that stand for missing cells; it tells whether a cell holds one of them."""

    def __call__(self, cell):
        return isinstance(cell, (str, int, float, np.number)) and not isinstance(cell, bool) and _key(cell) in self


def with_holes(column: Column, values: Sequence[Any], *, reads_numbers: bool | None = None) -> Column:
    """Return a column in which the cells with some values are missing.

    A column of text becomes a column of numbers if one of the values occurs in it and all other cells are plain
    numbers.

    Parameters
    ----------
    column : Column
    values : sequence of str or number
        A text that writes a number stands for this number too, and a number for the text.
    reads_numbers : bool, optional
        Whether text becomes numbers whichever values occur, as in later rows of a column of numbers, or stays text.

    Examples
    --------
    >>> import pandas as pd
    >>> from expfam.frames.missing_values import with_holes
    >>> from expfam.frames.frame import as_frame
    >>> column = with_holes(as_frame(pd.DataFrame({"x": ["1.5", "?", "-999"]})).column("x"), ["?", -999])
    >>> column.kind, column.missing.tolist(), column.present.tolist()
    ('float', [False, True, True], [1.5])
    """
    if not values or column.kind == "empty":
        return column
    if column.kind in ("text", "category"):
        return _text_with_holes(column, {_key(value) for value in values}, reads_numbers)
    gone = _times_among(column, values) if column.kind == "time" else _numbers_among(column, values)
    return _emptied(replace(column, missing=column.missing | gone)) if gone.any() else column


def _key(value):
    """Return what values are compared by: the number that is written, or else the text."""
    if not isinstance(value, str):
        return value
    number = as_number(value)
    return value.strip() if number is None else number


def _number(value):
    """Return the number that a value is or writes, which may be infinite; else None."""
    key = _key(value)
    if isinstance(key, str):
        key = as_infinity(key)
    return None if key is None or _LARGEST < abs(key) < np.inf else key


def _numbers_among(column, values):
    numbers = [number for number in map(_number, values) if number is not None]
    gone = np.zeros(len(column.missing), dtype=bool)
    if column.kind == "boolean":
        return gone
    for number in numbers:
        gone |= column.values == number
    return gone & ~column.missing


def _times_among(column, values):
    gone = np.zeros(len(column.missing), dtype=bool)
    for value in values:
        try:
            moment = np.datetime64(value, "us") if isinstance(value, str) else None
        except ValueError:
            continue
        if moment is not None:
            gone |= column.values == (moment - np.datetime64(0, "us")) / np.timedelta64(1, "s")
    return gone & ~column.missing


def _text_with_holes(column, keys, reads_numbers):
    is_gone = np.array([_key(level) in keys for level in column.levels], dtype=bool)
    if is_gone.any():
        number = np.append(np.cumsum(~is_gone) - 1, -1).astype(np.int32)
        number[:-1][is_gone] = -1
        codes = number[np.where(column.missing, -1, column.values)]
        kept = tuple(level for level, gone in zip(column.levels, is_gone) if not gone)
        column = _emptied(replace(column, values=codes, missing=column.missing | (codes < 0), levels=kept))
    reads_numbers = is_gone.any() if reads_numbers is None else reads_numbers
    return as_numbers(column) if reads_numbers and column.kind == "text" else column


def as_numbers(column: Column) -> Column:
    """Return a column of text as numbers if all its levels are plain numbers, else itself.

    Text such as "nan" is a missing cell.
    """
    levels = plain_numbers(column.levels) if all(isinstance(level, str) for level in column.levels) else None
    if levels is None or not len(levels):
        return column
    missing = column.missing | np.append(np.isnan(levels), True)[column.values]  # missing cells have code -1
    values: npt.NDArray[Any] = np.where(missing, levels.dtype.type(0), np.append(levels, levels[:1])[column.values])
    infinite = np.flatnonzero(np.isinf(values))
    text = str(column.levels[column.values[infinite[0]]]) if infinite.size else ""
    kind = "integer" if levels.dtype.kind == "i" else "float"
    type_ = "integer" if kind == "integer" else ""
    return _emptied(Column(column.name, kind, values, missing, type=type_, infinite_text=text, times=column.times))


def _emptied(column):
    """Return a column whose cells are all missing as an empty one."""
    if not column.missing.all():
        return column
    return Column(column.name, "empty", np.zeros(len(column.missing)), column.missing, times=column.times)
