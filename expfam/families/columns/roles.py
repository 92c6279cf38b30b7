"""Roles of columns: which family a column of a frame gets, and how its cells become numbers.

Roles are plain values: they are written as JSON, edited, read back, and kept with the family, so that later frames are
encoded as the first one was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from math import isfinite
from typing import TYPE_CHECKING, Any

import numpy as np

from expfam.families.columns.kinds.registry import DROPPED, kind_of
from expfam.frames.array_frame import frame_of_array
from expfam.frames.frame import Column, Frame, as_frame
from expfam.frames.missing_values import checked_values, column_with_holes
from expfam.frames.names import check_names
from expfam.frames.new_frames import new_frame
from expfam.frames.numbers import is_lossless
from expfam.near_names import did_you_mean

if TYPE_CHECKING:
    import numpy.typing as npt


@dataclass(frozen=True)
class ColumnRole:
    """What one column of a frame is, and how it is encoded.

    Attributes
    ----------
    column : str
    role : {"binary", "category", "count", "positive", "angle", "real", "numeric", "dropped"}
        "numeric" are dates and durations as seconds since the earliest. Installed kinds of columns have roles of their
        own.
    family : str
        Name of the family; empty for dropped columns.
    settings : dict
        Hyper-parameters that differ from the family's own.
    levels : list
        Of categories: cell values in the order of their level numbers.
    other : bool
        Whether one level more stands for those not seen.
    offset : float
        Number that is added to each value.
    missing : int
        Number of missing cells.
    missing_values : list
        Texts and numbers that stand for missing cells, such as "?" and -999.
    type : {"", "boolean", "integer", "category", "enum", "datetime", "date", "duration"}
        Type of the column, which drawn rows get; empty for text and other numbers. "enum" are categories with an order.
    note : str
    by_place : bool
        Whether the column is one of an array: later rows are read by place, and `column` is the number of the place.
    """

    column: str
    role: str = ""
    family: str = ""
    settings: dict = field(default_factory=dict)
    levels: list = field(default_factory=list)
    other: bool = False
    offset: float = 0.0
    missing: int = 0
    missing_values: list = field(default_factory=list)
    type: str = ""
    note: str = ""
    by_place: bool = False

    @property
    def is_category(self) -> bool:
        """Return whether cells are encoded as level numbers."""
        return self.role not in ("", DROPPED) and kind_of(self.role).has_levels

    @property
    def n_levels(self) -> int:
        """Return the number of levels, with that of unseen ones."""
        return len(self.levels) + self.other

    def to_dict(self) -> dict[str, Any]:
        """Return the role as plain values; those that are not set are left out."""
        kept = ("column", "role", "family", "missing")
        return {name: value for name, value in asdict(self).items() if name in kept or value}


class Roles:
    """Roles of all columns of a frame, in its order.

    Parameters
    ----------
    roles : sequence of ColumnRole or dict
        Dicts as `to_list` returns them, or as they were read from JSON.

    Examples
    --------
    >>> import pandas as pd
    >>> from expfam.families.columns.inference import infer_roles
    >>> roles = infer_roles(pd.DataFrame({"size": [1.5, -0.5, -2.0], "kind": ["b", "a", "c"]}))
    >>> roles.encode(pd.DataFrame({"kind": ["c", "?"], "size": [0.5, None]}))
    array([[0.5, 2. ],
           [nan, 3. ]], dtype=float32)
    """

    def __init__(self, roles: Sequence[ColumnRole | Mapping[str, Any]]) -> None:
        self.roles = tuple(role if isinstance(role, ColumnRole) else _from_dict(role) for role in roles)

    def __eq__(self, other):
        return isinstance(other, Roles) and self.roles == other.roles

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self):
        return f"Roles({', '.join(f'{role.column}: {role.family or role.role}' for role in self.roles)})"

    @property
    def kept(self) -> tuple[ColumnRole, ...]:
        """Return the roles of the columns of the encoded matrix."""
        return tuple(role for role in self.roles if role.role != "dropped")

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the columns of the encoded matrix."""
        return tuple(role.column for role in self.kept)

    def to_list(self) -> list[dict[str, Any]]:
        """Return the roles as plain values for JSON."""
        return [role.to_dict() for role in self.roles]

    def table(self, parts: Sequence[Any] = ()) -> dict[str, list]:
        """Return the printed table by columns.

        These are column, role, family, levels, missing, part and note. Columns of one part share a count of the rows
        that have them; a dropped column is in no part. `parts` are those of the family, whose
        second entries are columns of the encoded matrix.
        """
        part_of = {j: number for number, part in enumerate(parts) for j in part[1]}
        place = {name: j for j, name in enumerate(self.names)}
        return {
            "column": [role.column for role in self.roles],
            "role": [role.role for role in self.roles],
            "family": [role.family for role in self.roles],
            "levels": [role.n_levels if role.is_category else 0 for role in self.roles],
            "missing": [role.missing for role in self.roles],
            "part": [str(part_of.get(place.get(role.column, -1), "")) for role in self.roles],
            "note": [role.note for role in self.roles],
        }

    def frame(self, parts: Sequence[Any] = (), *, backend: str = "pandas") -> Any:
        """Return the printed table as a frame of a library."""
        return new_frame(self.table(parts), backend=backend)

    # ---- encoding ----------------------------------------------------------------------------------------------------

    def encode(self, X: Any, *, owner: str = "Columns") -> npt.NDArray[Any]:
        """Return the columns of a frame, matched by name, as one C-contiguous matrix.

        Parameters
        ----------
        X : frame
            Other columns than those of the roles are ignored with a warning.

        Returns
        -------
        (N, V) float32 or float64 ndarray
            NaN where a cell is missing, level numbers of categories. It is float32 if no value changes thereby.

        Raises
        ------
        DataError, DataTypeError, SupportError
            A column is missing, infinite, of another type, or holds a level that is not known; the message names
            column, row and value.

        Warns
        -----
        DataWarning
            If the frame has columns that were not there at fit.
        """
        frame = as_frame(X, owner=owner)
        check_names(frame.names, self.names, {role.column for role in self.roles}, owner=owner)
        kept = self.kept
        matrix = np.zeros((frame.n_rows, len(kept)), dtype=np.float32)
        for j in sorted(range(len(kept)), key=lambda j: kept[j].is_category):  # numbers decide the type
            values = encoded(kept[j], read_column(frame, kept[j]), frame.backend)
            if matrix.dtype == np.float32 and not is_lossless(values):
                matrix = matrix.astype(np.float64)
            matrix[:, j] = values
        return matrix

    @property
    def by_place(self) -> bool:
        """Return whether the columns are those of an array."""
        return any(role.by_place for role in self.roles)

    def encode_array(self, X: npt.NDArray[Any], *, owner: str = "Columns") -> npt.NDArray[Any]:
        """Return an array, whose columns are those of the roles, encoded as `encode` does a frame."""
        return self.encode(frame_of_array(X, [role.column for role in self.roles]), owner=owner)

    def decode_array(self, X: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the cells of an encoded matrix as an array of all columns.

        Cells that are missing, or of a level that was not seen, are NaN. A column that was left out has its one level.
        """
        found = np.full((X.shape[0], len(self.roles)), np.nan)
        cells = self.decode(X, whole=True)
        for j, role in enumerate(self.roles):
            if role.column in cells:
                values = cells[role.column]
                found[:, j] = [np.nan if value is None or value == "other" else value for value in values]
            elif role.levels:
                found[:, j] = role.levels[0]
        return found

    @property
    def types(self) -> dict[str, tuple[str, tuple]]:
        """Return types and levels by column, for frames that are made of decoded cells."""
        return {role.column: (role.type, tuple(role.levels)) for role in self.kept if role.type}

    def decode(self, X: npt.NDArray[Any], *, whole: bool = False) -> dict[str, Any]:
        """Return the cells of an encoded matrix in the data's own values, None if missing.

        The level of unseen values is "other". With `whole`, columns of counts and of integers get whole numbers.
        """
        return {role.column: decoded(role, X[:, j], whole=whole) for j, role in enumerate(self.kept)}


def encoded(role: ColumnRole, column: Column, backend: str = "pandas") -> npt.NDArray[Any]:
    """Return the cells of a column as numbers, NaN if missing.

    Parameters
    ----------
    role, column, backend
        As of `expfam.families.columns.kinds.contract.ColumnKind.encode`.

    Returns
    -------
    (N,) ndarray
    """
    if column.kind == "empty":
        return np.full(len(column.missing), np.nan)
    values = kind_of(role.role).encode(role, column, backend)
    return np.where(column.missing, np.nan, values) if column.missing.any() else values


def decoded(role: ColumnRole, values: npt.NDArray[Any], *, whole: bool = False) -> Any:
    """Return the cells of an encoded column in the data's own values, None if missing.

    Parameters
    ----------
    role : ColumnRole
    values : (N,) ndarray
        Encoded cells, NaN if missing.
    whole : bool
        Whether numbers of columns of counts and of integers are rounded, counts to 0 at least.
    """
    return kind_of(role.role).decode(role, values, np.isnan(values), whole=whole)


def type_of(column: Column, role: ColumnRole) -> str:
    """Return the type that decoded cells get in a frame, empty if their values tell it."""
    is_number = column.type in ("integer", "datetime", "date", "duration")
    return column.type if role.role != DROPPED and role.is_category != is_number else ""


def read_column(frame: Frame, role: ColumnRole) -> Column:
    """Return the column of a role, in which the values that stand for missing cells are holes."""
    is_text = role.is_category and any(isinstance(level, str) for level in role.levels)
    return column_with_holes(frame, role.column, role.missing_values, reads_numbers=not is_text)


def _from_dict(values):
    known = [entry.name for entry in fields(ColumnRole)]
    if not isinstance(values, Mapping):
        raise ValueError(f"roles: an entry is a dict such as {{'column': 'age', 'role': 'real'}}; got {values!r}")
    for name in values:
        if name not in known:
            raise ValueError(f"roles: unknown entry {name!r}{did_you_mean(name, known)} (known: {', '.join(known)})")
    if not isinstance(values.get("column"), str):
        raise ValueError(f"roles: an entry needs the name of its column, as text; got {values.get('column')!r}")
    given = {name: value for name, value in values.items() if value is not None}
    for name, value in given.items():
        rule, holds = _RULES[name]
        if not holds(value):
            raise ValueError(f"roles: entry {name} of column {values['column']!r} must be {rule}; got {value!r:.60}")
    if "missing_values" in given:
        owner = f"roles: column {values['column']!r}: 'missing_values'"
        given["missing_values"] = checked_values(given["missing_values"], owner=owner)
    return ColumnRole(**given)


def _is_text(value):
    return isinstance(value, str)


def _is_level(value):
    return isinstance(value, (str, bool, int)) or (isinstance(value, float) and isfinite(value))


def _is_finite(value):
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and -_MOST < value < _MOST  # compared as they are: a whole number may be too large for a float


def _is_whole(value):
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def _are_levels(value):
    return isinstance(value, (list, tuple)) and all(map(_is_level, value)) and len(set(value)) == len(value)


_MOST = 1e300
_TYPES = ("", "boolean", "integer", "category", "enum", "datetime", "date", "duration")
_RULES: dict[str, tuple[str, Callable[[Any], bool]]] = {  # of each entry of a role: what it must be, and the test
    "column": ("text", _is_text),
    "role": ("text", _is_text),
    "family": ("text", _is_text),
    "settings": ("hyper-parameters by name", lambda value: isinstance(value, dict) and all(map(_is_text, value))),
    "levels": ("a list of different texts, numbers or truth values", _are_levels),
    "other": ("true or false", lambda value: isinstance(value, bool)),
    "offset": ("a finite number below 1e300", _is_finite),
    "missing": ("a whole number from 0 on", _is_whole),
    "missing_values": ("a list of texts and numbers", lambda value: isinstance(value, (list, tuple, str, int, float))),
    "type": (f"one of {', '.join(map(repr, _TYPES))}", lambda value: _is_text(value) and value in _TYPES),
    "note": ("text", _is_text),
    "by_place": ("true or false", lambda value: isinstance(value, bool)),
}
