"""Role of a column by its type and values.

What is no column of values at all is left out here; then each kind of column is asked in the order of the registry, and
the first that takes the column decides. Nothing depends on the order of the rows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from expfam.families.columns.encoding import check_finite
from expfam.families.columns.kinds.contract import ColumnFacts
from expfam.families.columns.kinds.registry import kinds
from expfam.families.columns.messages import keyword
from expfam.families.columns.roles import ColumnRole

if TYPE_CHECKING:
    from collections.abc import Sequence

    from expfam.families.columns.doubts import Doubt
    from expfam.frames.frame import Column


def inferred(
    column: Column, max_levels: int, doubt: Doubt | None = None, missing_values: Sequence[Any] = ()
) -> ColumnRole:
    """Return the role of a column by the first rule that holds.

    `doubt` is what a column of text may be in truth; `missing_values` are those that stand for its missing cells.
    """
    base = ColumnRole(column.name, missing=int(column.missing.sum()))
    if column.kind == "time":
        return replace(base, role="dropped", note=_note_of_times(column))
    check_finite(column, missing_values)
    values = np.sort(column.present)
    distinct = values[np.append(np.ones(len(values[:1]), dtype=bool), values[1:] != values[:-1])]
    if not len(values):
        return replace(base, role="dropped", note="all cells are missing")
    facts = ColumnFacts(column, values, distinct, max_levels, doubt)
    if len(distinct) == 1:
        only = column.levels[distinct[0]] if facts.is_text else distinct[0].item()
        return replace(base, role="dropped", note=f"all cells hold {only!r}")
    answers = (kind.candidate(base, facts) for kind in kinds().values())
    return next(role for role in answers if role is not None)  # "real" takes all that is left


def _note_of_times(column):
    """Return why a column of dates or durations is left out, and how it is taken in."""
    if np.isnan(column.present).any():
        return "periods or times of day: convert them to dates or to numbers"
    start = "since the earliest" if column.type != "duration" else "from the shortest"
    taken = f"Columns.from_frame(df, {keyword(column.name, 'numeric')}) takes it in as seconds {start}"
    return f"{'durations' if column.type == 'duration' else 'dates'}: {taken}"
