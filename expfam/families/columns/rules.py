"""Role of a column by its type and values.

The first rule that holds decides; nothing depends on the order of the rows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from expfam.amounts import counted
from expfam.families.columns.doubts import Doubt
from expfam.families.columns.encoding import check_finite
from expfam.families.columns.family_choice import count_role, positive_role
from expfam.families.columns.messages import keyword
from expfam.families.columns.roles import ColumnRole
from expfam.families.counts.categorical import Categorical
from expfam.families.gaussian.diagonal import DiagonalGaussian
from expfam.io.frames import Column

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

_FEW_VALUES = 20  # integers of at most this many distinct values are categories; more distinct texts may be an id
_WHOLE = 2.0**53
_LONG = 1e13  # whole numbers of 14 digits and more are ids, unless many rows share them
_NEARLY_ALL = 0.9  # share of distinct values
_WIDEST = 1e15  # largest standard deviation that a Gaussian takes


def inferred(
    column: Column, max_levels: int, doubt: Doubt | None = None, missing_values: Sequence[Any] = ()
) -> ColumnRole:
    """Return the role of a column by the first rule that holds.

    `doubt` is what a column of text may be in truth; `missing_values` are those that stand for its missing cells.
    """
    is_text = column.kind in ("text", "category")
    base = ColumnRole(column.name, missing=int(column.missing.sum()))
    if column.kind == "time":
        return replace(base, role="dropped", note=_note_of_times(column))
    check_finite(column, missing_values)
    values = np.sort(column.present)
    distinct = values[np.append(np.ones(len(values[:1]), dtype=bool), values[1:] != values[:-1])]
    if not len(values):
        return replace(base, role="dropped", note="all cells are missing")
    if len(distinct) == 1:
        only = column.levels[distinct[0]] if is_text else distinct[0].item()
        return replace(base, role="dropped", note=f"all cells hold {only!r}")
    is_open = is_text and not column.is_declared  # new rows may bring a third level
    if len(distinct) == 2 and len(column.levels) <= 2 and not is_open:
        return category_role(base, column, distinct, role="binary", other=False)
    if is_text:
        return _text_role(base, column, values, distinct, max_levels, doubt)
    is_whole = column.kind == "integer" or (base.missing and bool(np.all(distinct == np.rint(distinct))))
    if is_whole and len(distinct) <= _FEW_VALUES:
        return category_role(base, column, distinct, other=True)
    if is_whole and len(distinct) == len(values) and np.ptp(np.diff(distinct)) == 0:
        return replace(base, role="dropped", note=f"looks like a row number: {keyword(column.name, 'count')} keeps it")
    if is_whole and max(-float(distinct[0]), float(distinct[-1])) >= _LONG:
        found = _long_number_role(base, column, values, distinct, max_levels)
        if found is not None:
            return found
    if is_whole and distinct[0] >= 0:
        return count_role(base, values.astype(np.float64))
    if not is_whole and distinct[0] > 0:
        return positive_role(base, values.astype(np.float64))
    return replace(base, role="real", family=DiagonalGaussian.name)


def _long_number_role(base, column, values, distinct, max_levels):
    """Return the role of long whole numbers that are ids or codes; None if they are numbers."""
    if len(values) > _FEW_VALUES and len(distinct) >= _NEARLY_ALL * len(values):
        other = f"{keyword(column.name, 'real')} takes it as a number, " if float(np.std(values)) < _WIDEST else ""
        kept = f"{other}{keyword(column.name, 'drop')} says so, {keyword(column.name, 'category')} keeps it"
        return replace(base, role="dropped", note=f"looks like an id of many digits: {kept}")
    if float(np.std(values.astype(np.float64))) < _WIDEST:
        return None
    if len(distinct) > max_levels:
        kept = f"{keyword(column.name, 'category')} keeps it"
        return replace(
            base,
            role="dropped",
            note=f"{counted(len(distinct), 'long number')}, more than max_levels={max_levels}: {kept}",
        )
    return category_role(base, column, distinct, other=True)


def _note_of_times(column):
    """Return why a column of dates or durations is left out, and how it is taken in."""
    if np.isnan(column.present).any():
        return "periods or times of day: convert them to dates or to numbers"
    start = "since the earliest" if column.type != "duration" else "from the shortest"
    taken = f"Columns.from_frame(df, {keyword(column.name, 'numeric')}) takes it in as seconds {start}"
    return f"{'durations' if column.type == 'duration' else 'dates'}: {taken}"


def _text_role(base, column, values, distinct, max_levels, doubt):
    kept = f"{keyword(column.name, 'category')} keeps it"
    if doubt is not None and doubt.leaves_out:
        return replace(base, role="dropped", note=f"{doubt.what}: {kept}")
    if not column.is_declared and len(distinct) == len(values) and len(values) > _FEW_VALUES:
        return replace(base, role="dropped", note=f"looks like an id: {kept}")
    if not column.is_declared and len(distinct) > max_levels:
        return replace(
            base, role="dropped", note=(f"{counted(len(distinct), 'level')}, more than max_levels={max_levels}: {kept}")
        )
    note = "" if doubt is None else doubt.what
    return replace(category_role(base, column, distinct, other=not column.is_declared), note=note)


def category_role(
    base: ColumnRole, column: Column, distinct: npt.NDArray[Any], *, role: str = "category", other: bool
) -> ColumnRole:
    """Return the role of a column of categories with its levels."""
    is_text = column.kind in ("text", "category")
    levels = list(column.levels) if is_text else [_as_level(value) for value in distinct]
    return replace(base, role=role, family=Categorical.name, levels=levels, other=other)


def _as_level(value):
    """Return a number as a Python value, whole numbers as int whatever the type of the column."""
    value = value.item()
    is_whole = isinstance(value, float) and value.is_integer() and abs(value) < _WHOLE
    return int(value) if is_whole else value
