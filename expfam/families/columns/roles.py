"""Roles of columns: which family a column of a frame gets, and how its cells become numbers.

The rules stand in one order, and the first that holds decides; nothing depends on the order of the rows. Roles are
plain values: they are written as JSON, edited, read back, and kept with the family, so that later frames are encoded
as the first one was.
"""

from __future__ import annotations

import difflib
import re
import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from expfam.errors import DataError, DataTypeError, DataWarning, SupportError
from expfam.families.base import Family
from expfam.families.columns.evidence import column_evidence, quantiles, spread_ties
from expfam.families.counts.categorical import Categorical
from expfam.families.counts.poisson import Poisson
from expfam.families.gaussian.diagonal import DiagonalGaussian
from expfam.families.gaussian.lognormal import LogNormal
from expfam.families.simple.bernoulli import Bernoulli
from expfam.families.simple.exponential import Exponential
from expfam.families.simple.geometric import Geometric
from expfam.families.simple.negative_binomial import NegativeBinomial
from expfam.io.frames import Column, as_frame, listed, new_frame

if TYPE_CHECKING:
    import numpy.typing as npt

_CLASSES = (Categorical, Bernoulli, Poisson, NegativeBinomial, Geometric, DiagonalGaussian, LogNormal, Exponential)
_FAMILIES: dict[str, Any] = {family.name: family for family in _CLASSES}
_OF_ROLE = {"binary": "categorical", "category": "categorical", "count": "", "positive": "lognormal"}
_OF_ROLE |= {"real": "gaussian_diag", "numeric": "gaussian_diag", "dropped": ""}
_ROLE_OF_SUPPORT = {"categories": "category", "binary": "binary", "counts": "count", "nonnegative": "positive"}
_NUMBERS = ("boolean", "integer", "float")
_FEW_VALUES = 20  # integers of at most this many distinct values are categories; more distinct texts may be an id
_TIED = 3.0  # nats of evidence; within them the simpler family is taken, first the Gaussian
_FLOAT32_MOST = 1 << 24
_WHOLE = 2.0**53


@dataclass(frozen=True)
class ColumnRole:
    """What one column of a frame is, and how it is encoded.

    Attributes
    ----------
    column : str
    role : {"binary", "category", "count", "positive", "real", "numeric", "dropped"}
        "numeric" are dates and durations as seconds since the earliest.
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
    note : str
    """

    column: str
    role: str = ""
    family: str = ""
    settings: dict = field(default_factory=dict)
    levels: list = field(default_factory=list)
    other: bool = False
    offset: float = 0.0
    missing: int = 0
    note: str = ""

    @property
    def is_category(self) -> bool:
        """Return whether cells are encoded as level numbers."""
        return self.role in ("binary", "category")

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
    >>> from expfam.families.columns.roles import infer_roles
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
        self._check_names(frame, owner)
        narrow = self._filled(frame, np.float32)
        return self._filled(frame, np.float64) if narrow is None else narrow

    def _filled(self, frame, dtype):
        """Return the encoded matrix, or None if float32 changes a value."""
        X = np.empty((frame.n_rows, len(self.kept)), dtype=dtype)
        order = sorted(range(len(self.kept)), key=lambda j: self.kept[j].is_category)  # numbers decide the type
        for j in order:
            values = _encoded(self.kept[j], frame.column(self.kept[j].column))
            if dtype == np.float32 and not _is_lossless(values):
                return None
            X[:, j] = values
        return X

    def _check_names(self, frame, owner):
        lacking = [name for name in self.names if name not in frame.names]
        known = {role.column for role in self.roles}
        extra = [name for name in frame.names if name not in known]
        if lacking:
            raise DataError(
                f"{owner}: columns of the frame differ from those at fit: only at fit {listed(lacking)}; only now"
                f" {listed(extra)}: give the frame all columns that were kept at fit"
            )
        if extra:
            _warn(f"{owner}: the frame has columns that were not there at fit, which are ignored: {listed(extra)}")

    def decode(self, X: npt.NDArray[Any]) -> dict[str, Any]:
        """Return the cells of an encoded matrix in the data's own values, None if missing.

        The level of unseen values is "other".
        """
        return {role.column: _decoded(role, X[:, j]) for j, role in enumerate(self.kept)}


def _from_dict(values):
    known = [entry.name for entry in fields(ColumnRole)]
    for name in values:
        if name not in known:
            raise ValueError(f"roles: unknown entry {name!r}{_nearest(name, known)} (known: {', '.join(known)})")
    if not isinstance(values.get("column"), str):
        raise ValueError(f"roles: an entry needs the name of its column, as text; got {values.get('column')!r}")
    return ColumnRole(**{name: value for name, value in values.items() if value is not None})


def _nearest(name, known):
    near = difflib.get_close_matches(str(name), [str(other) for other in known], n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


# ---- inference -------------------------------------------------------------------------------------------------------


def infer_roles(
    X: Any,
    roles: Sequence[Mapping[str, Any]] | None = None,
    by_column: Mapping[str, Any] | None = None,
    *,
    max_levels: int = 1000,
    owner: str = "Columns",
) -> Roles:
    """Return the roles of the columns of a frame.

    Parameters
    ----------
    X : frame
    roles : sequence of dict, optional
        Roles of some or all columns, as `Roles.to_list` returns them. Columns that they do not name are inferred.
    by_column : dict, optional
        Family, name of a family or role, or ``"drop"``, by column; it comes before `roles`.
    max_levels : int
        Columns of text with more distinct values are dropped unless they are named.

    Raises
    ------
    DataError, DataTypeError, SupportError, ValueError

    Warns
    -----
    DataWarning
        Names each column that is dropped without being named, and why.
    """
    frame = as_frame(X, owner=owner)
    given = _given(frame, roles, by_column)
    found = []
    for name in frame.names:
        wish = given.get(name)
        if wish is not None and wish.role == "dropped":
            found.append(ColumnRole(name, "dropped", note=wish.note or "as asked"))
            continue
        column = frame.column(name)
        own = (by_column or {}).get(name)
        found.append(_inferred(column, max_levels) if wish is None else _as_asked(column, wish, own))
    _report(found, given, owner)
    return Roles(found)


def _report(found, given, owner):
    """Warn of dropped columns, and refuse a table of which nothing is left."""
    if not found:
        raise DataError(f"{owner}: the frame has no columns")
    reasons = [f"{role.column!r} ({role.note})" for role in found if role.role == "dropped"]
    if len(reasons) == len(found):
        raise DataError(f"{owner}: no column is left: {', '.join(reasons)}")
    own = [f"{role.column!r} ({role.note})" for role in found if role.role == "dropped" and role.column not in given]
    if own:
        noun = "column is" if len(own) == 1 else "columns are"
        _warn(f"{owner}: {len(own)} {noun} left out: {', '.join(own)}")


def _warn(message):
    """Warn with the place of the user's call, which lies outside this package."""
    level, frame = 2, sys._getframe(0)
    while (frame := frame.f_back) is not None and frame.f_globals.get("__name__", "").startswith("expfam."):
        level += 1
    warnings.warn(message, DataWarning, stacklevel=level)


def _inferred(column: Column, max_levels: int) -> ColumnRole:
    """Return the role of a column by the first rule that holds."""
    is_text = column.kind in ("text", "category")
    if column.kind == "time":
        raise DataTypeError(
            f"column {column.name!r} holds dates: give {_keyword(column.name, 'numeric')} (seconds since the earliest),"
            f" {_keyword(column.name, 'drop')}, or derived columns such as the weekday, in Columns.from_frame"
        )
    base = ColumnRole(column.name, missing=int(column.missing.sum()))
    _check_finite(column)
    values = np.sort(column.present)
    distinct = values[np.append(np.ones(len(values[:1]), dtype=bool), values[1:] != values[:-1])]
    if not len(values):
        return replace(base, role="dropped", note="all cells are missing")
    if len(distinct) == 1:
        only = column.levels[distinct[0]] if is_text else distinct[0].item()
        return replace(base, role="dropped", note=f"all cells hold {only!r}")
    is_open = is_text and not column.is_declared  # new rows may bring a third level
    if len(distinct) == 2 and len(column.levels) <= 2 and not is_open:
        return _category(base, column, distinct, role="binary", other=False)
    if is_text:
        return _text_role(base, column, values, distinct, max_levels)
    is_whole = column.kind == "integer" or (base.missing and bool(np.all(distinct == np.rint(distinct))))
    if is_whole and len(distinct) <= _FEW_VALUES:
        return _category(base, column, distinct, other=True)
    if is_whole and len(distinct) == len(values) and np.ptp(np.diff(distinct)) == 0:
        return replace(base, role="dropped", note=f"looks like a row number: {_keyword(column.name, 'count')} keeps it")
    if is_whole and distinct[0] >= 0:
        return _count(base, values.astype(np.float64))
    if not is_whole and distinct[0] > 0:
        return _positive(base, values.astype(np.float64))
    return replace(base, role="real", family=DiagonalGaussian.name)


def _text_role(base, column, values, distinct, max_levels):
    kept = f"{_keyword(column.name, 'category')} keeps it"
    if not column.is_declared and len(distinct) == len(values) and len(values) > _FEW_VALUES:
        return replace(base, role="dropped", note=f"looks like an id: {kept}")
    if not column.is_declared and len(distinct) > max_levels:
        return replace(base, role="dropped", note=f"{len(distinct)} levels, more than max_levels={max_levels}: {kept}")
    return _category(base, column, distinct, other=not column.is_declared)


def _category(base, column, distinct, *, role="category", other):
    is_text = column.kind in ("text", "category")
    levels = list(column.levels) if is_text else [_as_level(value) for value in distinct]
    return replace(base, role=role, family=Categorical.name, levels=levels, other=other)


def _as_level(value):
    """Return a number as a Python value, whole numbers as int whatever the type of the column."""
    value = value.item()
    is_whole = isinstance(value, float) and value.is_integer() and abs(value) < _WHOLE
    return int(value) if is_whole else value


def _keyword(name, value):
    return f"{name}={value!r}" if name.isidentifier() else f"**{{{name!r}: {value!r}}}"


def _check_finite(column):
    if column.kind == "float":
        bad = np.flatnonzero(np.isinf(column.values))
        if bad.size:
            raise DataError(
                f"column {column.name!r}, row {bad[0]} holds {column.values[bad[0]]}: put a number in its place, or"
                " leave the cell empty"
            )


# ---- choice of a family by evidence ----------------------------------------------------------------------------------


def _count(base, values):
    """Return the role of non-negative integers, with the family of the highest evidence.

    A negative binomial is not among them: its one size for all clusters keeps them wide, which on five tables of seven
    cost held-out density. You may ask for it by name.
    """
    counts = quantiles(values)
    cells = spread_ties(counts, 1.0)
    evidence = {"gaussian_diag": column_evidence(DiagonalGaussian(), cells)}
    evidence["poisson"] = column_evidence(Poisson(), counts)
    evidence["lognormal"] = column_evidence(LogNormal(), cells + 0.5)
    best = _best(evidence)
    return replace(
        base,
        role="count",
        family=best,
        offset=0.5 if best == "lognormal" else 0.0,
    )


def _positive(base, values):
    """Return the role of positive numbers: log-normal if its evidence is clearly higher."""
    values = quantiles(values)
    gaps = np.diff(values)
    gaps = gaps[gaps > 0]
    is_tied = 2 * (len(gaps) + 1) <= len(values)
    if is_tied and gaps.min() < 2.0 * values[0]:
        values = spread_ties(values, gaps.min())
    evidence = {"gaussian_diag": column_evidence(DiagonalGaussian(), values)}
    evidence["lognormal"] = column_evidence(LogNormal(), values)
    best = _best(evidence)
    return replace(base, role="positive" if best == "lognormal" else "real", family=best)


def _best(evidence):
    """Return the family of the highest evidence; a later one must be ahead by more than a tie."""
    best, *others = evidence
    for name in others:
        if evidence[name] > evidence[best] + _TIED:
            best = name
    return best


# ---- roles that the user gives ---------------------------------------------------------------------------------------


def _given(frame, roles, by_column):
    """Return what the user gave, by column; `by_column` comes before `roles`."""
    given = {}
    for role in Roles(list(roles or ())).roles:
        if role.column not in frame.names and role.role != "dropped":
            raise ValueError(_no_column("roles", role.column, frame))
        given[role.column] = _checked(role)
    for name, wish in (by_column or {}).items():
        if name not in frame.names:
            raise ValueError(_no_column("Columns.from_frame", name, frame))
        given[name] = _wish(name, wish)
    return given


def _no_column(owner, name, frame):
    return f"{owner}: the frame has no column {name!r}{_nearest(name, frame.names)} (it has {listed(frame.names, 20)})"


def _wish(name, wish):
    """Return the role that a family, a name or "drop" asks for; only what it says is set."""
    if isinstance(wish, Family):
        if wish.is_bound:
            raise ValueError(f"column {name!r}: {wish.name} is bound to data already; give a new one")
        return ColumnRole(name, _role_of(wish), wish.name, _settings(wish))
    if isinstance(wish, str):
        if wish in ("drop", "dropped"):
            return ColumnRole(name, "dropped")
        if wish in _OF_ROLE:
            return ColumnRole(name, wish, _OF_ROLE[wish])
        if wish in _FAMILIES:
            return _wish(name, _FAMILIES[wish]())
        known = [*(role for role in _OF_ROLE if role != "dropped"), "drop", *_FAMILIES]
        raise ValueError(
            f"column {name!r}: {wish!r} is no role and no family{_nearest(wish, known)} (known: {', '.join(known)})"
        )
    hint = f": write {wish.__name__}()" if isinstance(wish, type) and issubclass(wish, Family) else ""
    raise TypeError(f"column {name!r}: give a family, a role or 'drop'; got {wish!r}{hint}")


def _settings(family):
    """Return the hyper-parameters that are not the class's own values, as plain values."""
    defaults, given = type(family)().get_params(), family.get_params()
    return {
        name: value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value
        for name, value in given.items()
        if name != "n_levels" and not np.array_equal(value, defaults[name])
    }


def _checked(role):
    """Return a role that was read from JSON if role and family go together."""
    if role.role and role.role not in _OF_ROLE:
        raise ValueError(
            f"roles: column {role.column!r} has the unknown role {role.role!r}{_nearest(role.role, _OF_ROLE)} (known:"
            f" {', '.join(_OF_ROLE)})"
        )
    if role.family and role.family not in _FAMILIES:
        raise ValueError(
            f"roles: column {role.column!r} has the unknown family {role.family!r}{_nearest(role.family, _FAMILIES)};"
            f" give a family of your own as {_keyword(role.column, 'YourFamily()').replace(chr(39), '')}"
        )
    if not role.family:
        return replace(role, family=_OF_ROLE.get(role.role, ""))
    if not role.role:
        role = replace(role, role=_role_of(_FAMILIES[role.family]))
    if role.role == "dropped":
        return role
    is_category = _FAMILIES[role.family].support in ("categories", "binary")
    if is_category != role.is_category:
        fitting = "categorical" if role.is_category else "a family of numbers"
        raise ValueError(
            f"roles: column {role.column!r} has the role {role.role!r} and the family {role.family!r}, which do not go"
            f" together: change the family to {fitting}, or leave it out"
        )
    return role


def _role_of(family):
    return _ROLE_OF_SUPPORT.get(family.support, "real")


def _as_asked(column, wish, own):
    """Return the whole role of a column from what the user said of it."""
    if not wish.role:
        raise ValueError(f"roles: column {column.name!r} has neither a role nor a family; give one of them")
    wish = replace(wish, missing=int(column.missing.sum()))
    if column.kind == "empty":
        raise DataError(f"column {column.name!r} holds no value at all: leave it out ({_keyword(column.name, 'drop')})")
    _check_finite(column)
    if wish.is_category:
        return _asked_category(column, wish)
    if wish.role == "numeric" and column.kind == "time":
        _require_seconds(column)
        return replace(wish, offset=wish.offset or -float(np.min(column.present)), note="seconds since the earliest")
    _require_numbers(column, wish)
    if wish.role == "count" and not wish.family:
        values = np.sort(column.present).astype(np.float64)
        _check_values(column, Poisson(), ColumnRole(column.name))
        return _count(wish, values)
    _check_values(column, own if isinstance(own, Family) else family_of(wish), wish)
    return wish


def _asked_category(column, wish):
    if column.kind == "time":
        raise DataTypeError(
            f"column {column.name!r} holds dates, which are no categories: derive a column such as the weekday"
        )
    if wish.levels:
        return wish
    distinct = np.unique(column.present)
    is_binary = wish.role == "binary"
    if is_binary and len(distinct) > 2:
        raise SupportError(
            f"column {column.name!r} has {len(distinct)} distinct values; a binary column has two:"
            f" {_keyword(column.name, 'category')} takes them all"
        )
    found = _category(wish, column, distinct, role=wish.role, other=not is_binary and not column.is_declared)
    return replace(found, family=wish.family or Categorical.name)


def _require_numbers(column, wish):
    if column.kind in _NUMBERS:
        return
    row = int(np.argmin(column.missing))
    held = {"text": "text", "category": "categories", "time": "dates"}[column.kind]
    value = f" (row {row}: {column.levels[column.values[row]]!r})" if column.levels else ""
    raise DataTypeError(
        f"column {column.name!r} holds {held}{value}; {wish.family or wish.role} needs numbers: convert the column, or"
        f" give {_keyword(column.name, 'category' if held != 'dates' else 'numeric')}"
    )


def _require_seconds(column):
    if np.isnan(column.present).any():
        raise DataTypeError(
            f"column {column.name!r} holds periods or times of day, which are no points in time: convert them to dates,"
            " or to numbers of a unit that you choose"
        )


def _check_values(column, family, wish):
    """Let the family check the values of a column, with errors that name the column and its row."""
    rows = np.flatnonzero(~column.missing)
    values = column.values[rows].astype(np.float64) + wish.offset
    try:
        family.validate(values[:, None])
    except SupportError as error:
        text = re.sub(r"row (\d+), column 0\b", lambda m: f"column {column.name!r}, row {rows[int(m[1])]}", str(error))
        raise SupportError(text) from error


# ---- cells to numbers and back ---------------------------------------------------------------------------------------


def _is_lossless(values):
    with np.errstate(over="ignore"):
        narrow = values.astype(np.float32)
    return bool(np.array_equal(narrow.astype(np.float64), values, equal_nan=True))


def _encoded(role: ColumnRole, column: Column) -> npt.NDArray[Any]:
    """Return the cells of a column as numbers, NaN if missing."""
    if column.kind == "empty":
        return np.full(len(column.missing), np.nan)
    if role.is_category:
        values = _codes(role, column)
    elif column.kind == "time" and role.role == "numeric":
        _require_seconds(column)
        values = column.values + role.offset
    else:
        _require_same_type(role, column)
        _check_finite(column)
        values = column.values.astype(np.float64) + role.offset
    if column.missing.any():
        values = np.where(column.missing, np.nan, values)
    return values


def _require_same_type(role, column):
    if column.kind in _NUMBERS:
        return
    row = int(np.argmin(column.missing))
    value = column.levels[column.values[row]] if column.levels else "a date"
    raise DataTypeError(
        f"column {role.column!r} held numbers at fit; row {row} holds {value!r}: convert the column to numbers"
    )


def _codes(role, column):
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
        known = listed([str(level) for level in role.levels])
        raise SupportError(
            f"column {role.column!r}: row {row} holds the level {value!r}, which was not there at fit ({known}): give"
            " other=True in the column's role to have one level for all that were not seen, or leave the cell empty"
        )


def _decoded(role, values):
    gone = np.isnan(values)
    if role.is_category:
        names = [*role.levels, "other"]
        return [None if hole else names[int(code)] for code, hole in zip(np.where(gone, 0, values).tolist(), gone)]
    values = values.astype(np.float64) - role.offset
    return [None if hole else value for value, hole in zip(values.tolist(), gone)] if gone.any() else values


# ---- roles to parts --------------------------------------------------------------------------------------------------


def family_of(role: ColumnRole) -> Any:
    """Return the unbound family that a role names, with its settings."""
    return _FAMILIES[role.family](**role.settings)


def parts_of(roles: Roles, families: Mapping[str, Any] | None = None) -> tuple[tuple[Any, tuple[int, ...]], ...]:
    """Return pairs of an unbound family and columns; equal families share a part.

    `families` holds families of the user's own by column.
    """
    groups: list[tuple[Any, list[int]]] = []
    for j, role in enumerate(roles.kept):
        family = (families or {}).get(role.column) or family_of(role)
        for other, columns in groups:
            if type(other) is type(family) and other == family:
                columns.append(j)
                break
        else:
            groups.append((family, [j]))
    return tuple((_with_levels(family, columns, roles), tuple(columns)) for family, columns in groups)


def _with_levels(family, columns, roles):
    """Return categories with the number of levels of each column, which later rows may need."""
    if not isinstance(family, Categorical):
        return family
    levels = np.array([roles.kept[j].n_levels for j in columns], dtype=np.int64)
    return type(family)(**(family.get_params() | {"n_levels": levels}))


def table_of(
    X: Any,
    *,
    roles: Sequence[Mapping[str, Any]] | None = None,
    max_levels: int = 1000,
    by_column: Mapping[str, Any] | None = None,
    owner: str = "Columns",
) -> dict[str, Any]:
    """Return the keywords of `Columns` for a frame: parts, names and roles."""
    found = infer_roles(X, roles, by_column, max_levels=max_levels, owner=owner)
    own = {name: wish for name, wish in (by_column or {}).items() if isinstance(wish, Family)}
    return {"parts": parts_of(found, own), "names": found.names, "roles": tuple(found.to_list())}
