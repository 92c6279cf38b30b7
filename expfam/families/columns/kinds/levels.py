"""Categories, and columns of two values: their cells are numbers of levels."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from expfam.amounts import counted
from expfam.errors import DataTypeError, SupportError
from expfam.families.columns.kinds.contract import ColumnKind
from expfam.families.columns.kinds.laws import CellLaw
from expfam.frames.frame import listed
from expfam.frames.names import keyword

if TYPE_CHECKING:
    import numpy.typing as npt

    from expfam.families.columns.kinds.contract import ColumnFacts
    from expfam.frames.frame import Column
    from expfam.protocols import Floats

_FEW_VALUES = 20  # integers of at most this many distinct values are categories; more distinct texts may be an id
_WHOLE = 2.0**53
_LONG = 1e13  # whole numbers of 14 digits and more are ids, unless many rows share them
_NEARLY_ALL = 0.9  # share of distinct values
_WIDEST = 1e15  # largest standard deviation that a Gaussian takes


class Category(ColumnKind):
    """Categories: text, declared categories, and numbers that are names."""

    name = "category"
    families = ("categorical",)
    default_family = "categorical"
    has_levels = True

    def candidate(self, base: Any, facts: ColumnFacts) -> Any | None:
        """Return the role of text, of few whole numbers, and of long ones that are ids or codes."""
        if facts.is_text:
            return _text_role(base, facts)
        if not facts.is_whole:
            return None
        if len(facts.distinct) <= _FEW_VALUES:
            return self.with_levels(base, facts.column, facts.distinct, other=True)
        if len(facts.distinct) == facts.n_values and np.ptp(np.diff(facts.distinct)) == 0:
            kept = f"{keyword(facts.column.name, 'count')} keeps it"
            return replace(base, role="dropped", note=f"looks like a row number: {kept}")
        if max(-float(facts.distinct[0]), float(facts.distinct[-1])) >= _LONG:
            return _long_number_role(base, facts)
        return None

    def complete(self, column: Column, wish: Any, check: Any) -> Any:
        """Return the role with the levels of the column, unless they were given."""
        if column.kind == "time":
            raise DataTypeError(
                f"column {column.name!r} holds dates, which are no categories: derive a column such as the weekday"
            )
        if wish.levels:
            return wish
        distinct = np.unique(column.present)
        found = self.with_levels(wish, column, distinct, other=wish.other or self._leaves_room(column, distinct))
        return replace(found, family=wish.family or self.default_family)

    def _leaves_room(self, column, distinct):
        """Return whether one more level stands for values that later rows may bring."""
        return not column.is_declared

    def with_levels(self, base: Any, column: Column, distinct: npt.NDArray[Any], *, other: bool) -> Any:
        """Return the role of a column with its levels."""
        is_text = column.kind in ("text", "category")
        levels = list(column.levels) if is_text else [_as_level(value) for value in distinct]
        return replace(base, role=self.name, family=self.default_family, levels=levels, other=other)

    def encode(self, role: Any, column: Column, backend: str) -> npt.NDArray[Any]:
        """Return the number of each cell's level; the level of unseen values stands last."""
        return _level_codes(role, column)

    def decode(self, role: Any, values: npt.NDArray[Any], gone: npt.NDArray[np.bool_], *, whole: bool) -> Any:
        """Return the levels of cells, "other" for unseen values, None if missing."""
        names = [*role.levels, "other"]
        return [None if hole else names[int(code)] for code, hole in zip(np.where(gone, 0, values).tolist(), gone)]

    def laws(self, family: Any, n: Floats, S: Any, *, has_missing_level: bool) -> list[CellLaw]:
        """Return the probabilities of the levels of each column in each cluster."""
        probability = family.to_params(*family.map_natural(n, S))["probability"]
        blocks = np.split(probability, family.offsets_[1:-1], axis=1)
        blocks = [block[:, :-1] for block in blocks] if has_missing_level else blocks
        return [CellLaw(probability=block / block.sum(axis=1, keepdims=True)) for block in blocks]


class Binary(Category):
    """Columns of two values."""

    name = "binary"
    families = ("bernoulli",)

    def candidate(self, base: Any, facts: ColumnFacts) -> Any | None:
        """Return the role of two values, unless new rows may bring a third level of text."""
        is_open = facts.is_text and not facts.column.is_declared
        if len(facts.distinct) == 2 and len(facts.column.levels) <= 2 and not is_open:
            return self.with_levels(base, facts.column, facts.distinct, other=False)
        return None

    def complete(self, column: Column, wish: Any, check: Any) -> Any:
        """Return the role with its two levels; refuse more of them."""
        n_values = 0 if column.kind == "time" or wish.levels else len(np.unique(column.present))
        if n_values > 2:
            raise SupportError(
                f"column {column.name!r} has {counted(n_values, 'distinct value')}; a binary column has two:"
                f" {keyword(column.name, 'category')} takes them all"
            )
        return super().complete(column, wish, check)

    def _leaves_room(self, column, distinct):
        return False

    def laws(self, family: Any, n: Floats, S: Any, *, has_missing_level: bool) -> list[CellLaw]:
        """Return the probabilities of both values in each cluster."""
        if hasattr(family, "levels_"):
            return super().laws(family, n, S, has_missing_level=has_missing_level)
        params = family.to_params(*family.map_natural(n, S))
        return [CellLaw(probability=np.column_stack([1.0 - p, p])) for p in params["probability"].T]


def _level_codes(role, column):
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


def _long_number_role(base, facts):
    """Return the role of long whole numbers that are ids or codes; None if they are numbers."""
    column, distinct = facts.column, facts.distinct
    if facts.n_values > _FEW_VALUES and len(distinct) >= _NEARLY_ALL * facts.n_values:
        other = f"{keyword(column.name, 'real')} takes it as a number, " if facts.deviation < _WIDEST else ""
        kept = f"{other}{keyword(column.name, 'drop')} says so, {keyword(column.name, 'category')} keeps it"
        return replace(base, role="dropped", note=f"looks like an id of many digits: {kept}")
    if facts.deviation < _WIDEST:
        return None
    if len(distinct) > facts.max_levels:
        kept = f"{keyword(column.name, 'category')} keeps it"
        return replace(
            base,
            role="dropped",
            note=f"{counted(len(distinct), 'long number')}, more than max_levels={facts.max_levels}: {kept}",
        )
    return Category().with_levels(base, column, distinct, other=True)


def _text_role(base, facts):
    """Return the role of text: categories, unless nearly each row has a text of its own."""
    column, distinct, doubt = facts.column, facts.distinct, facts.doubt
    kept = f"{keyword(column.name, 'category')} keeps it"
    if doubt is not None and doubt.leaves_out:
        return replace(base, role="dropped", note=f"{doubt.what}: {kept}")
    if not column.is_declared and len(distinct) == facts.n_values > _FEW_VALUES:
        return replace(base, role="dropped", note=f"looks like an id: {kept}")
    if not column.is_declared and len(distinct) > facts.max_levels:
        note = f"{counted(len(distinct), 'level')}, more than max_levels={facts.max_levels}: {kept}"
        return replace(base, role="dropped", note=note)
    note = "" if doubt is None else doubt.what
    return replace(Category().with_levels(base, column, distinct, other=not column.is_declared), note=note)


def _as_level(value):
    """Return a number as a Python value, whole numbers as int whatever the type of the column."""
    value = value.item()
    is_whole = isinstance(value, float) and value.is_integer() and abs(value) < _WHOLE
    return int(value) if is_whole else value
