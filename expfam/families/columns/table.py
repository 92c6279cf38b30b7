"""Parts of a table, one family for each group of columns, and their layout.

Columns of one part share one count. So a part whose cells may be missing is split by pattern: columns that are missing
in the same rows stay together, and the part has one more statistic, the indicator of being observed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt

from expfam.amounts import counted
from expfam.errors import CapabilityError, DataError
from expfam.families.base import Family, bound_family
from expfam.families.counts.categorical import Categorical
from expfam.families.gaussian.columns import RealFamily
from expfam.families.gaussian.diagonal import DiagonalGaussian
from expfam.families.support import dense_rows
from expfam.frames.names import with_places
from expfam.user_warnings import renamed_warnings

if TYPE_CHECKING:
    import numpy.typing as npt

    from expfam.protocols import Floats

CELLS = "cells"  # the cells of each row, which the family reads whole or with holes that it knows how to leave out
OBSERVED = "observed"  # the cells of the rows that have them all, with an indicator of these rows
PRESENCE = "presence"  # 1 for rows that have the cells, 0 for others: a category of two levels
LEVEL = "level"  # codes of categories; a missing one is the last level
READINGS = (CELLS, OBSERVED, PRESENCE, LEVEL)
_MOST_DENSE = 4  # statistics are CSR if there are more than this many for each one that a row stores


class Part(NamedTuple):
    """One bound family and the columns of the matrix that it reads.

    Attributes
    ----------
    family : Family
    columns : tuple of int
    reading : {"cells", "observed", "presence", "level"}
    name : str
        Name of the part as it was given, by which its hyper-parameters are addressed. Several parts have it if the
        given part was split.
    """

    family: Any
    columns: tuple[int, ...]
    reading: str
    name: str

    @property
    def has_indicator(self) -> bool:
        """Return whether the first statistic of the part counts the rows that have it."""
        return self.reading == OBSERVED

    @property
    def place(self) -> tuple[int, bool]:
        """Return the key by which the parts of a table are in order."""
        return min(self.columns), self.reading == PRESENCE

    @property
    def width(self) -> int:
        """Return the number of statistics, with the indicator."""
        return int(self.family.n_statistics_) + self.has_indicator


def is_missing(cells: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Return which cells are missing; integers never are."""
    return np.isnan(cells) if cells.dtype.kind == "f" else np.zeros(cells.shape, dtype=bool)


def opened_family(family: Any) -> Any:
    """Return the same family with a count of each column, or None if it has no such form.

    It then reads missing cells itself, and its part is not split by pattern.
    """
    if not isinstance(family, DiagonalGaussian) or family.missing:
        return None
    opened = family.with_hyper(missing=True)
    if family.is_bound:
        opened.__dict__["n_statistics_"] = 3 * family.n_features_in_
    return opened


def reads_holes(family: Any) -> bool:
    """Return whether a family leaves out missing cells itself and needs no indicator."""
    return isinstance(family, Categorical) or bool(family.allows_missing)


def cells_of(part: Part, X: npt.NDArray[Any]) -> tuple[npt.NDArray[np.intp] | None, npt.NDArray[Any]]:
    """Return the rows that have a part, None if all do, and the cells that its family reads.

    The cells are C-contiguous: a copy, or X itself if the part has all columns in their order.
    """
    cells: npt.NDArray[Any] = X
    if part.columns != tuple(range(X.shape[1])):
        cells = np.take(X, part.columns, axis=1)
    if part.reading == PRESENCE:
        return None, np.where(is_missing(cells).any(axis=1, keepdims=True), 0.0, 1.0)
    if part.reading == LEVEL:
        levels = part.family.levels_ if part.family.is_bound else part.family.n_levels
        last: npt.NDArray[Any] = levels - 1.0
        return None, np.where(is_missing(cells) | (cells < 0), last, cells)
    if isinstance(part.family, Categorical):
        return None, np.where(is_missing(cells), -1.0, cells) if is_missing(cells).any() else cells
    if part.family.allows_missing:
        return None, cells
    has = ~is_missing(cells).any(axis=1)
    if has.all():
        return None, cells
    rows = np.flatnonzero(has)
    return rows, cells[rows]


def patterns(X: npt.NDArray[Any], columns: Iterable[int], *, holes: str) -> dict[int, tuple[bool, Any]]:
    """Return a key of each column: whether cells may be missing, and the pattern of the part.

    Parameters
    ----------
    X : (N, V) ndarray
    columns : iterable of int
    holes : {"seen", "any"}
        With "seen", columns with the same missing rows have one key. With "any" each column has a key of its own.

    Returns
    -------
    dict of int to tuple
    """
    if holes == "any":
        return {j: (True, j) for j in columns}
    masks = {j: is_missing(X[:, j]) for j in columns}
    return {j: (True, np.packbits(mask).tobytes()) if mask.any() else (False, None) for j, mask in masks.items()}


def groups(
    columns: Sequence[int], keys: Mapping[int, tuple[bool, Any]], *, is_observed: bool = False
) -> list[tuple[list[int], str]]:
    """Return the parts that equal keys make: positions within `columns`, and how cells are read."""
    found: dict[Any, list[int]] = {}
    for position, j in enumerate(columns):
        found.setdefault(keys[j], []).append(position)
    return [(positions, OBSERVED if is_observed or key[0] else CELLS) for key, positions in found.items()]


def bound_parts(
    family: Any,
    columns: tuple[int, ...],
    name: str,
    cells: Any,
    keys: Mapping[int, tuple[bool, Any]],
    table: Any,
) -> list[Part]:
    """Return the bound parts that one given part becomes for data with holes.

    Parameters
    ----------
    family : Family
        Of the given part.
    columns : tuple of int
        Its columns in the table.
    name : str
        Its name.
    cells : object
        It binds the parts: `CellsHere`, or the cells of rows that lie in parts.
    keys : mapping of int to tuple
        Result of `patterns`.
    table : Columns

    Returns
    -------
    list of Part
    """
    informative = table.missing == "informative"
    if isinstance(family, Categorical) and informative and any(keys[j][0] for j in columns):
        return [_with_level(family, columns, name, cells, table)]
    if any(keys[j][0] for j in columns):
        family = opened_family(family) or family
    if reads_holes(family):
        parts = [cells.bound(Part(family, columns, CELLS, name), table)]
        opened = [(position, j) for position, j in enumerate(columns) if keys[j][0]] if informative else []
        return parts + [_presence((j,), name) for _, j in opened]
    split = split_groups(family, columns, groups(columns, keys), cells.X, table)
    parts = []
    for positions, reading in split:
        chosen = tuple(columns[position] for position in positions)
        own = family if len(chosen) == len(columns) else family.of_columns(positions)[0]
        parts.append(cells.bound(Part(own, chosen, reading, name), table))
        if informative and reading == OBSERVED:
            parts.append(_presence(chosen, name))
    return parts


def split_groups(
    family: Any, columns: Sequence[int], found: list[tuple[list[int], str]], X: Any, table: Any
) -> list[tuple[list[int], str]]:
    """Return the groups that a part may be split into.

    A family whose columns depend on each other is not split: it is left out of rows that lack one of its cells with
    ``rows="complete"``, and refused otherwise.

    Parameters
    ----------
    family : Family
    columns : sequence of int
    found : list of (list of int, str)
        Result of `groups`.
    X : (N, V) ndarray
        For the message.
    table : Columns

    Raises
    ------
    CapabilityError
        The part would have to be split and cannot be.
    """
    if len(columns) == 1 or family.has_independent_columns or all(reading == CELLS for _, reading in found):
        return found
    if table.rows == "complete" or len(found) == 1:
        return [(list(range(len(columns))), OBSERVED)]
    raise CapabilityError(_refusal(family, columns, X, table))


def _refusal(family, columns, X, table):
    where = ""
    if X is not None:
        holes = is_missing(X[:, columns])
        row = int(np.argmax(holes.any(axis=1) & ~holes.all(axis=1)))
        lacking = [table.name_of(columns[j]) for j in np.flatnonzero(holes[row])]
        noun = "columns" if len(lacking) > 1 else "column"
        where = f" row {row} lacks {noun} {', '.join(map(str, lacking))};"
    law = "a covariance over columns" if family.has_full_covariance else "a family whose columns depend on each other"
    return (
        f"{family.name}:{where} {law} needs all of them: use gaussian_diag, or Columns(rows='complete') to use the"
        " block only in rows that have it whole"
    )


class CellsHere:
    """Cells of rows in this process, to which parts are bound.

    Parameters
    ----------
    X : (N, V) ndarray
    weight : (N,) float64 ndarray, optional
    """

    def __init__(self, X: npt.NDArray[Any], weight: npt.NDArray[np.float64] | None = None) -> None:
        self.X, self.weight = X, weight

    def bound(self, part: Part, table: Any) -> Part:
        """Return a part with its family bound to the rows that have it."""
        if part.family.is_bound:
            return part
        rows, cells = cells_of(part, self.X)
        weight = self.weight if self.weight is None or rows is None else self.weight[rows]
        if not cells.shape[0] or (weight is not None and not weight.any()):
            refuse_empty(part, table)
        with renamed_places(rows, part.columns, table):
            return part._replace(family=bound_family(part.family, cells, weight))


def refuse_empty(part: Part, table: Any) -> NoReturn:
    """Refuse a part of which no row has the cells."""
    raise DataError(
        f"columns: no row has {table.names_of(part.columns)}, so there is nothing to learn from: leave it out"
    )


def _presence(columns, name):
    family = Categorical(concentration=0.5, n_levels=2).bind(np.array([[0.0], [1.0]]))
    return Part(family, columns, PRESENCE, f"{name}:presence")


def _with_level(family, columns, name, cells, table):
    """Return a part of categories in which a missing code is the last level of each column."""
    if np.ndim(family.concentration):
        raise ValueError(
            "columns: missing='informative' adds a level to categories, so that their concentration must be 'auto' or"
            f" one number; got {counted(np.size(family.concentration), 'number')}"
        )
    levels = cells.bound(Part(family, columns, CELLS, name), table).family.levels_ + 1
    own = type(family)(**(family.get_params() | {"n_levels": levels}))
    return cells.bound(Part(own, columns, LEVEL, name), table)


# ---- errors and warnings that name places of the whole table ---------------------------------------------------------


@contextmanager
def renamed_places(rows: npt.NDArray[np.intp] | None, columns: Sequence[int], table: Any) -> Iterator[None]:
    """Let errors and warnings of a part name rows and columns of the whole table.

    A family reads some rows and columns only, and numbers them from 0.
    """

    def column(number):
        return table.name_of(columns[number]) if number < len(columns) else None

    def row(number):
        return str(rows[number]) if rows is not None and number < len(rows) else None

    def renamed(text):
        return with_places(text, column, row)

    try:
        with renamed_warnings(renamed):
            yield
    except DataError as error:
        raise type(error)(f"columns: {renamed(str(error))}") from error


class PartsLayout(Family):
    """Base of `Columns` with its parts, and the columns of phi of each part."""

    parts: Any
    missing: str
    holes: str
    rows: str
    names: Any
    roles: Any
    offsets_: npt.NDArray[np.int64]

    @property
    def _parts(self) -> tuple[Part, ...]:
        """Return the parts of a bound family."""
        if "n_features_in_" not in self.__dict__:
            self.require_bound()  # raises the error
        return self.parts

    def complete_saved(self) -> None:
        """Make parts of the plain tuples that were read from a file."""
        self.__dict__["parts"] = tuple(map(Part._make, self.parts))

    def _given(self):
        """Return family, columns and name of each given part.

        Bound parts, which `get_params` of a bound family returns, are given parts too.
        """
        if not len(self.parts):
            raise ValueError("Columns: parts must hold at least one pair (family, columns)")
        names: list[str] = []
        found = []
        for place, part in enumerate(self.parts):
            if not isinstance(part, (tuple, list)) or len(part) not in (2, 4) or not isinstance(part[0], Family):
                raise TypeError(
                    f"Columns: parts[{place}] must be a pair (family, columns) like (Poisson(), (0, 2)); got {part!r}"
                )
            columns = tuple(int(j) for j in np.atleast_1d(np.asarray(part[1])))
            if len(part) == 4:
                if part[2] != PRESENCE:
                    found.append((part[0], columns, part[3]))
                continue
            names.append(part[0].name)
            count = names.count(part[0].name)
            found.append((part[0], columns, part[0].name if count == 1 else f"{part[0].name}_{count}"))
        return found

    def _check_columns(self, n_columns):
        """Raise DataError unless each column belongs to exactly one part."""
        taken: dict[int, int] = {}
        for place, (_, columns, _) in enumerate(self._given()):
            for j in columns:
                if not 0 <= j < n_columns:
                    raise DataError(f"columns: parts[{place}] names column {j}; X has {counted(n_columns, 'column')}")
                if j in taken:
                    raise DataError(
                        f"columns: column {self.name_of(j)} belongs to parts[{taken[j]}] and parts[{place}]"
                    )
                taken[j] = place
        left = sorted(set(range(n_columns)) - set(taken))
        if left:
            raise DataError(f"columns: {self.names_of(left)} belongs to no part: give it to one, or leave it out of X")
        if self.names is not None and len(self.names) != n_columns:
            raise DataError(f"columns: there are {counted(len(self.names), 'name')} for {counted(n_columns, 'column')}")

    def real_columns(self) -> dict[int, bool]:
        """Return whether each real column is read by its logarithms, by the number of the column."""
        real = (part for part in self._parts if isinstance(part.family, RealFamily))
        return {j: part.family.of_logs for part in real for j in part.columns}

    def name_of(self, column: int) -> str:
        """Return the number of a column as text, with its name if it has one."""
        return f"{column}" if self.names is None else f"{column} ({self.names[column]!r})"

    def names_of(self, columns: Iterable[int]) -> str:
        """Return text that names some columns."""
        columns = list(columns)
        listed = ", ".join(self.name_of(j) for j in columns[:5]) + ", ..." * (len(columns) > 5)
        return f"column{'s' * (len(columns) > 1)} {listed}"

    def _with_parts(self, parts):
        """Return a bound copy with other bound parts."""
        other = self._copy()
        other.__dict__.update(self._layout(parts))
        return other

    @staticmethod
    def _layout(parts):
        parts = tuple(sorted(parts, key=lambda part: part.place))
        offsets = np.array([0, *accumulate(part.width for part in parts)], dtype=np.int64)
        return {"parts": parts, "offsets_": offsets, "n_statistics_": int(offsets[-1])}

    @property
    def _is_sparse(self):
        """Return whether phi is CSR, because categories have many levels that a row does not hold."""
        stored = sum(len(part.columns) if hasattr(part.family, "levels_") else part.width for part in self.parts)
        return stored * _MOST_DENSE < self.offsets_[-1]


class Rows:
    """Rows of a bound family, with the attributes of a data set that components read."""

    def __init__(self, X: npt.NDArray[Any], family: Any) -> None:
        self.X, self.family = X, family
        self.n_rows, self.n_features = (int(size) for size in X.shape)
        self.n_statistics = int(family.n_statistics_)
        self.is_sparse = False

    def phi(self, start: int, stop: int) -> Floats:
        """Return the statistics of the rows start..stop-1: (stop - start, F) float64."""
        return np.ascontiguousarray(dense_rows(self.family.sufficient_statistics(self.X[start:stop])))
