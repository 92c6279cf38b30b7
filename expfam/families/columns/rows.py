"""Binding of the parts of a table to rows that lie in several places."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from expfam.families.all_rows import AllRows, Block
from expfam.families.columns.table import Part, cells_of, is_missing, refuse_empty, renamed_places
from expfam.frames.names import rows_from

if TYPE_CHECKING:
    import numpy.typing as npt


class Patterns:
    """Which columns are missing in the same rows; ``a + b`` is that of the rows of both.

    Attributes
    ----------
    is_open : (V,) bool ndarray
        Whether a cell of the column is missing.
    classes : tuple of int
        Place of the first column that is missing in the same rows.
    """

    def __init__(self, is_open: Any, classes: Sequence[Any]) -> None:
        first: dict[Any, int] = {}
        self.is_open: npt.NDArray[np.bool_] = is_open
        self.classes = tuple(first.setdefault(key, j) for j, key in enumerate(classes))

    def __add__(self, other: Patterns) -> Patterns:
        return Patterns(self.is_open | other.is_open, list(zip(self.classes, other.classes)))


class _AskPatterns:
    def __init__(self, columns: Sequence[int]) -> None:
        self.columns = list(columns)

    def __call__(self, block: Block) -> Patterns:
        masks = is_missing(block.X[:, self.columns])
        return Patterns(np.asarray(masks.any(axis=0)), [np.packbits(mask).tobytes() for mask in masks.T])


def patterns_of_rows(rows: AllRows, columns: Sequence[int], *, holes: str) -> dict[int, tuple[bool, Any]]:
    """Return what `table.patterns` returns, of rows that lie in several places.

    >>> import numpy as np
    >>> from expfam.families.all_rows import RowsHere
    >>> from expfam.families.columns.rows import patterns_of_rows
    >>> patterns_of_rows(RowsHere(np.array([[1.0, np.nan, np.nan]])), (0, 1, 2), holes="seen")
    {0: (False, None), 1: (True, 1), 2: (True, 1)}
    """
    if holes == "any":
        return {j: (True, j) for j in columns}
    found = rows.total(_AskPatterns(columns))
    return {
        j: (True, found.classes[place]) if found.is_open[place] else (False, None) for place, j in enumerate(columns)
    }


class CellsOfRows:
    """Cells of rows that lie in several places, to which parts are bound.

    Parameters
    ----------
    rows : AllRows
        All rows of the table, those of weight 0 too.
    """

    X = None

    def __init__(self, rows: AllRows) -> None:
        self.rows = rows

    def bound(self, part: Part, table: Any) -> Part:
        """Return a part with its family bound to the rows that have it."""
        if part.family.is_bound:
            return part
        family = part.family.for_kind(self.rows.dtype)
        part = part._replace(family=family)
        facts = self.rows.total(_AskFacts(part, table))
        if not facts.n_counted:
            refuse_empty(part, table)
        return part._replace(family=family.bind_rows(RowsOfPart(self.rows, part, facts), facts.first))


class _Facts:
    """How many rows have a part, and how many of them count; the cells of the first one."""

    def __init__(self, n_rows: int, n_counted: int, *, is_of_ones: bool, first_row: int, first: Any) -> None:
        self.n_rows, self.n_counted, self.is_of_ones = n_rows, n_counted, is_of_ones
        self.first_row, self.first = first_row, first

    def __add__(self, other: _Facts) -> _Facts:
        early = min((facts for facts in (self, other) if facts.n_rows), key=lambda f: f.first_row, default=self)
        return _Facts(
            self.n_rows + other.n_rows,
            self.n_counted + other.n_counted,
            is_of_ones=self.is_of_ones and other.is_of_ones,
            first_row=early.first_row,
            first=early.first,
        )


class _AskFacts:
    """Question for the facts of a part; its family checks the cells."""

    def __init__(self, part: Part, table: Any) -> None:
        self.part, self.table = part, table

    def __call__(self, block: Block) -> _Facts:
        rows, cells = cells_of(self.part, block.X)
        if len(cells):
            with rows_from(block.first_row), renamed_places(rows, self.part.columns, self.table):
                self.part.family.validate(cells)
        weight = np.ones(len(cells)) if block.weight is None else _taken(block.weight, rows)
        return _Facts(
            len(cells),
            int(np.count_nonzero(weight)),
            is_of_ones=bool(((weight == 0) | (weight == 1)).all()),
            first_row=block.first_row,
            first=cells[:1].copy(),
        )


class RowsOfPart(AllRows):
    """Cells of a part in the rows that have it.

    Rows of weight 0 are left out unless the family of the part reads them.
    """

    def __init__(self, rows: AllRows, part: Part, facts: _Facts) -> None:
        self._rows, self._part = rows, part
        self._functions: tuple[Callable[[Any], Any], ...] = ()
        reads_all = part.family.reads_uncounted_rows
        self.is_sparse, self.dtype, self.n_columns = False, rows.dtype, len(part.columns)
        self.is_weighted = rows.is_weighted and (reads_all or not facts.is_of_ones)
        self.n_rows = facts.n_rows if reads_all else facts.n_counted

    def total(self, question: Callable[[Block], Any]) -> Any:
        """Return the sum of the answers about the cells of the part."""
        return self._rows.total(_OfPart(question, self._part, self._functions, is_weighted=self.is_weighted))

    def mapped(self, function: Callable[[Any], Any], n_columns: int, *, held: bool = True) -> RowsOfPart:
        """Return the rows that a function makes of these; they are never held."""
        other = object.__new__(RowsOfPart)
        other.__dict__.update(self.__dict__)
        other.n_columns, other._functions = n_columns, (*self._functions, function)
        return other


class _OfPart:
    """A question asked of the cells of a part."""

    def __init__(self, question: Any, part: Part, functions: Sequence[Any], *, is_weighted: bool) -> None:
        self.question, self.part, self.functions, self.is_weighted = question, part, functions, is_weighted

    def __call__(self, block: Block) -> Any:
        rows, cells = cells_of(self.part, block.X)
        weight = None if block.weight is None else _taken(block.weight, rows)
        if weight is not None and not (self.part.family.reads_uncounted_rows or weight.all()):
            cells, weight = cells[weight > 0], weight[weight > 0]
        for function in self.functions:
            cells = function(cells)
        return self.question(Block(cells, weight if self.is_weighted else None, block.first_row))


def _taken(weight, rows):
    return weight if rows is None else weight[rows]
