"""Summaries of the columns of a frame whose rows lie in several places.

A summary has the distinct cells of a column, how many rows hold each, and the first of them. Summaries are added up,
and the sum is the same for any division of the rows. The roles of columns are found from it as from the column itself.
Of more than 2^20 distinct numbers it has those with the smallest hashes, which are a fair sample of them, and the
extremes; of as many distinct texts the first in order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from expfam.errors import DataError, DataTypeError, ExpFamError
from expfam.frames.frame import Column, Frame, as_frame, listed
from expfam.frames.names import keyword, with_places
from expfam.frames.numbers import NUMBERS

if TYPE_CHECKING:
    import numpy.typing as npt

MOST_DISTINCT = 1 << 20
_BLOCK = 1 << 20  # whole numbers that are hashed at a time


@dataclass(frozen=True, eq=False)
class ColumnSummary:
    """Distinct cells of a column; ``a + b`` are those of the rows of both.

    Attributes
    ----------
    name, kind, type, is_declared
        As of `Column`.
    levels : tuple
        Of a declared type: all its levels.
    cells : (m,) ndarray
        Distinct cells in order: numbers, texts, or numbers of declared levels.
    times, rows : (m,) int64 ndarray
        How many rows hold each, and the first of them among all.
    n_missing, n_present : int
        How many rows lack a cell, and have one.
    hash_sum : int
        Sum of the hashes of the numbers of all rows, modulo 2^64.
    is_cut : bool
        Whether there are more distinct cells than are held.

    Examples
    --------
    >>> import pandas as pd
    >>> from expfam.frames.column_summaries import FrameSummary
    >>> parts = [FrameSummary.of(pd.DataFrame({"x": x}), row) for row, x in ((0, ["b", None]), (2, ["a", "b"]))]
    >>> summary = (parts[0] + parts[1]).columns[0]
    >>> summary.cells.tolist(), summary.times.tolist(), summary.rows.tolist(), summary.n_missing
    (['a', 'b'], [1, 2], [2, 0], 1)
    """

    name: str
    kind: str
    type: str
    is_declared: bool
    levels: tuple[Any, ...]
    cells: npt.NDArray[Any]
    times: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int64]
    n_missing: int
    n_present: int
    hash_sum: int = 0
    is_cut: bool = False

    @classmethod
    def of(cls, column: Column, first_row: int) -> ColumnSummary:
        """Return the summary of a column of some rows, of which the first has this number."""
        missing, kind = column.missing, column.kind
        cells, index, times = np.unique(column.present, return_index=True, return_counts=True)
        rows = np.flatnonzero(~missing)[index] + first_row
        hash_sum = 0
        if kind in NUMBERS:
            hash_sum = int((_hashes(cells) * times.astype(np.uint64)).sum())
        is_declared = column.is_declared
        if column.levels and not is_declared:
            cells = _objects([column.levels[code] for code in cells])
        levels, n_missing = column.levels if is_declared else (), int(missing.sum())
        described = (column.name, kind, column.type, is_declared, levels)
        return cls(*described, cells, times, rows, n_missing, len(missing) - n_missing, hash_sum)._cut()

    def __add__(self, other: ColumnSummary) -> ColumnSummary:
        n_missing = self.n_missing + other.n_missing
        if "empty" in (self.kind, other.kind):
            return replace(other if self.kind == "empty" else self, n_missing=n_missing)
        one, two = _alike(self, other)
        cells, place = _distinct(np.concatenate([one.cells, two.cells]))
        times, rows = np.zeros(len(cells), dtype=np.int64), np.full(len(cells), np.iinfo(np.int64).max)
        np.add.at(times, place, np.concatenate([one.times, two.times]))
        np.minimum.at(rows, place, np.concatenate([one.rows, two.rows]))
        return replace(
            one,
            cells=cells,
            times=times,
            rows=rows,
            n_missing=n_missing,
            n_present=one.n_present + two.n_present,
            hash_sum=(one.hash_sum + two.hash_sum) % (1 << 64),
            is_cut=one.is_cut or two.is_cut,
        )._cut()

    def _cut(self) -> ColumnSummary:
        """Return the summary with no more cells than it may hold."""
        if len(self.cells) <= MOST_DISTINCT:
            return self
        kept = np.arange(MOST_DISTINCT)
        if self.cells.dtype != object:
            kept = np.argsort(_hashes(self.cells), kind="stable")[:MOST_DISTINCT]
            with np.errstate(invalid="ignore"):
                fractions = np.flatnonzero(self.cells != np.rint(self.cells.astype(np.float64)))[:1]
            kept = np.unique(np.concatenate([kept, fractions, [0, len(self.cells) - 1]]))
        return replace(self, cells=self.cells[kept], times=self.times[kept], rows=self.rows[kept], is_cut=True)

    def column(self) -> Column:
        """Return the distinct cells as a column, whose `times` say how many rows each stands for.

        A missing cell stands for all rows that lack one.
        """
        n_cells, has_holes = len(self.cells), self.n_missing > 0
        missing = np.arange(n_cells + has_holes) == n_cells
        if self.kind == "empty":
            return Column(self.name, "empty", np.zeros(1), missing, times=np.array([self.n_missing]))
        cells, times, levels = self.cells, self.times, self.levels
        if self.is_cut and self._numbers_rows():  # the first of the numbers tell it
            step = (cells[-1] - cells[0]) / (self.n_present - 1)
            cells, times = cells[0] + (step * np.arange(n_cells)).astype(cells.dtype), np.ones_like(times)
        if cells.dtype == object:
            levels, cells = tuple(cells.tolist()), np.arange(n_cells, dtype=np.int32)
        if has_holes:
            hole = np.zeros(1, dtype=cells.dtype)
            cells, times = np.concatenate([cells, hole]), np.append(times, self.n_missing)
        return Column(self.name, self.kind, cells, missing, levels, self.is_declared, self.type, times=times)

    def _numbers_rows(self) -> bool:
        """Return whether all numbers are distinct and evenly spaced, as numbers of rows are."""
        if self.kind != "integer" or self.n_missing or self.n_present < 2:
            return False
        low, step = int(self.cells[0]), (int(self.cells[-1]) - int(self.cells[0])) / (self.n_present - 1)
        if step < 1 or step != int(step):
            return False
        total = np.uint64(0)
        for start in range(0, self.n_present, _BLOCK):
            numbers = low + int(step) * np.arange(start, min(start + _BLOCK, self.n_present))
            total += _hashes(numbers).sum()
        return int(total) == self.hash_sum


class FrameSummary:
    """Summaries of the columns of a frame; ``a + b`` are those of the rows of both.

    Attributes
    ----------
    columns : list of ColumnSummary
    n_rows : int
    backend : str
        Library of the frame.
    """

    def __init__(self, columns: list[ColumnSummary], n_rows: int, backend: str) -> None:
        self.columns, self.n_rows, self.backend = columns, n_rows, backend

    @classmethod
    def of(cls, X: Any, first_row: int) -> FrameSummary:
        """Return the summary of a frame whose first row has this number."""
        frame = as_frame(X)
        return cls([ColumnSummary.of(frame.column(n), first_row) for n in frame.names], frame.n_rows, frame.backend)

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return [column.name for column in self.columns]

    def __add__(self, other: FrameSummary) -> FrameSummary:
        if self.names != other.names:
            raise DataError(
                f"the parts of the rows have other columns: {listed(self.names, 20)}, and {listed(other.names, 20)}:"
                " give all parts the same columns in one order"
            )
        columns = [one + two for one, two in zip(self.columns, other.columns)]
        return FrameSummary(columns, self.n_rows + other.n_rows, self.backend)

    def frame(self) -> Frame:
        """Return the distinct cells of each column as a frame, see `ColumnSummary.column`."""
        return Frame(self.names, [partial(ColumnSummary.column, c) for c in self.columns], self.n_rows, self.backend)

    @contextmanager
    def true_rows(self) -> Iterator[None]:
        """Let errors about a cell of `frame` name the first row that holds it.

        >>> import pandas as pd
        >>> from expfam.errors import DataError
        >>> from expfam.frames.column_summaries import FrameSummary
        >>> with FrameSummary.of(pd.DataFrame({"x": [7.0, 7.0, -1.0]}), 100).true_rows():
        ...     raise DataError("column 'x', row 0 holds -1.0")
        Traceback (most recent call last):
            ...
        expfam.errors.DataError: column 'x', row 102 holds -1.0
        """
        try:
            yield
        except ExpFamError as error:
            text = str(error)
            named = [c for c in self.columns if f"column {c.name!r}" in text or f"columns {c.name!r}" in text]
            if named:
                rows = named[0].rows
                found = with_places(text, lambda n: None, lambda n: str(rows[n]) if n < len(rows) else None)
                error.args = (found, *error.args[1:])
            raise

    def refuse_cut_levels(self, names: Sequence[str]) -> None:
        """Refuse columns of categories that have more levels than a summary holds."""
        for column in self.columns:
            if column.is_cut and column.name in names:
                raise DataError(
                    f"column {column.name!r} has more than {MOST_DISTINCT} distinct cells, too many for categories:"
                    f" leave it out ({keyword(column.name, 'drop')})"
                )


# ---- cells of two parts ----------------------------------------------------------------------------------------------


def _alike(one: ColumnSummary, two: ColumnSummary) -> tuple[ColumnSummary, ColumnSummary]:
    """Return two summaries as one kind of column; refuse those that have none."""
    kinds = {one.kind, two.kind}
    if kinds == {"integer", "float"}:
        return _as_floats(one), _as_floats(two)
    if kinds <= {"text", "category"} and (one.kind, one.levels) != (two.kind, two.levels):
        return _as_texts(one), _as_texts(two)
    if len(kinds) > 1:
        raise DataTypeError(
            f"column {one.name!r} is of type {one.kind} in one part of the rows (row {one.rows.min()}), and of type"
            f" {two.kind} in another one (row {two.rows.min()}): give all parts one type, df[{one.name!r}] ="
            f" df[{one.name!r}].astype(str), or leave the column out ({keyword(one.name, 'drop')})"
        )
    return (one if one.type == two.type else replace(one, type="")), two


def _as_floats(summary):
    if summary.kind == "float":
        return summary
    cells, place = _distinct(summary.cells.astype(np.float64))
    times = np.bincount(place, summary.times).astype(np.int64)
    rows = np.full(len(cells), np.iinfo(np.int64).max)
    np.minimum.at(rows, place, summary.rows)
    return replace(summary, kind="float", type="", cells=cells, times=times, rows=rows)


def _as_texts(summary):
    """Return cells of declared levels as their texts."""
    if not summary.is_declared:
        return replace(summary, kind="text", type="")
    cells, order = _distinct(_objects([summary.levels[code] for code in summary.cells]))
    place = np.argsort(order)
    return replace(
        summary,
        kind="text",
        type="",
        is_declared=False,
        levels=(),
        cells=cells,
        times=summary.times[place],
        rows=summary.rows[place],
    )


def _distinct(cells: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[np.intp]]:
    """Return distinct cells in order, and the place of each cell among them."""
    if cells.dtype != object:
        return np.unique(cells, return_inverse=True)
    found = sorted(set(cells.tolist()), key=lambda cell: (type(cell).__name__, cell))
    places = {cell: place for place, cell in enumerate(found)}
    return _objects(found), np.array([places[cell] for cell in cells.tolist()], dtype=np.intp)


def _objects(cells: Sequence[Any]) -> npt.NDArray[Any]:
    found = np.empty(len(cells), dtype=object)
    found[:] = cells
    return found


def _hashes(cells: npt.NDArray[Any]) -> npt.NDArray[np.uint64]:
    """Return the hash of each number by SplitMix64 of Steele, Lea and Flood 2014: (m,) uint64."""
    z = (cells.astype(np.float64) + 0.0).view(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
