"""Role of a column by its type and values.

The first rule that holds decides; nothing depends on the order of the rows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from expfam.errors import DataTypeError
from expfam.families.columns.encoding import check_finite
from expfam.families.columns.family_choice import count_role, positive_role
from expfam.families.columns.messages import keyword
from expfam.families.columns.roles import ColumnRole
from expfam.families.counts.categorical import Categorical
from expfam.families.gaussian.diagonal import DiagonalGaussian
from expfam.io.frames import Column

if TYPE_CHECKING:
    import numpy.typing as npt

_FEW_VALUES = 20  # integers of at most this many distinct values are categories; more distinct texts may be an id
_WHOLE = 2.0**53


def inferred(column: Column, max_levels: int) -> ColumnRole:
    """Return the role of a column by the first rule that holds."""
    is_text = column.kind in ("text", "category")
    if column.kind == "time":
        raise DataTypeError(
            f"column {column.name!r} holds dates: give {keyword(column.name, 'numeric')} (seconds since the earliest),"
            f" {keyword(column.name, 'drop')}, or derived columns such as the weekday, in Columns.from_frame"
        )
    base = ColumnRole(column.name, missing=int(column.missing.sum()))
    check_finite(column)
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
        return _text_role(base, column, values, distinct, max_levels)
    is_whole = column.kind == "integer" or (base.missing and bool(np.all(distinct == np.rint(distinct))))
    if is_whole and len(distinct) <= _FEW_VALUES:
        return category_role(base, column, distinct, other=True)
    if is_whole and len(distinct) == len(values) and np.ptp(np.diff(distinct)) == 0:
        return replace(base, role="dropped", note=f"looks like a row number: {keyword(column.name, 'count')} keeps it")
    if is_whole and distinct[0] >= 0:
        return count_role(base, values.astype(np.float64))
    if not is_whole and distinct[0] > 0:
        return positive_role(base, values.astype(np.float64))
    return replace(base, role="real", family=DiagonalGaussian.name)


def _text_role(base, column, values, distinct, max_levels):
    kept = f"{keyword(column.name, 'category')} keeps it"
    if not column.is_declared and len(distinct) == len(values) and len(values) > _FEW_VALUES:
        if _are_numbers(column.levels):
            return replace(base, role="dropped", note=f"numbers as text: convert it to numbers, or {kept}")
        return replace(base, role="dropped", note=f"looks like an id: {kept}")
    if not column.is_declared and len(distinct) > max_levels:
        return replace(base, role="dropped", note=f"{len(distinct)} levels, more than max_levels={max_levels}: {kept}")
    return category_role(base, column, distinct, other=not column.is_declared)


def _are_numbers(levels):
    """Return whether text reads as numbers with fractions; ids are often whole."""
    try:
        return not all(float(level).is_integer() for level in levels)
    except ValueError:
        return False


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
