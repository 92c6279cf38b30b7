"""Roles of all columns of a frame, inferred or given, and the parts that they make.

What is no column of values at all is left out first. Then each kind of column is asked in the order of the registry,
and the first that takes the column decides. Nothing depends on the order of the rows. A role that the user gives is
read, checked against the column, and completed from it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from expfam.errors import DataError, DataTypeError, DataWarning, SupportError
from expfam.families.base import Family
from expfam.families.columns.kinds.contract import ColumnFacts, sorted_cells
from expfam.families.columns.kinds.registry import (
    DROPPED,
    families,
    family_of,
    kind_of,
    kind_of_family,
    kinds,
    role_names,
    words,
)
from expfam.families.columns.roles import ColumnRole, Roles, read_column, type_of
from expfam.families.counts.categorical import Categorical
from expfam.families.counts.poisson import Poisson
from expfam.frames.doubts import conversion_of, doubt_of
from expfam.frames.frame import Column, Frame, as_frame, listed
from expfam.frames.missing_values import column_with_holes, missing_values_of
from expfam.frames.names import keyword
from expfam.frames.numbers import NUMBERS, check_finite
from expfam.near_names import did_you_mean
from expfam.user_warnings import warn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from expfam.frames.doubts import Doubt
    from expfam.frames.frame import Column

_TWO = 2  # values of a binary column
_WHOLE = 1e-9  # counts differ from integers by no more


def infer_roles(
    X: Any,
    roles: Sequence[Mapping[str, Any]] | Mapping[str, Any] | None = None,
    by_column: Mapping[str, Any] | None = None,
    *,
    max_levels: int = 1000,
    missing_values: Any = None,
    owner: str = "Columns",
) -> Roles:
    """Return the roles of the columns of a frame.

    Parameters
    ----------
    X : frame
    roles : sequence of dict, or dict, optional
        Roles of some or all columns, as `Roles.to_list` returns them, or what `by_column` takes. Columns that they do
        not name are inferred.
    by_column : dict, optional
        Family, name of a family or role, or ``"drop"``, by column; it comes before `roles`.
    max_levels : int
        Columns of text with more distinct values are dropped unless they are named.
    missing_values : str, number, list of them, or dict, optional
        Values that stand for missing cells, of all columns or by column; those of `roles` count too.

    Raises
    ------
    DataError, DataTypeError, SupportError, TypeError, ValueError

    Warns
    -----
    DataWarning
        Names each column that is dropped without being named, and why.
    """
    listed, by_column = split_roles(roles, by_column)
    frame = as_frame(X, owner=owner)
    if not all(frame.shape):
        raise DataError(f"{owner}: the frame has no {'columns' if frame.n_rows else 'rows'}")
    given = given_roles(frame, listed, by_column)
    codes = _codes(frame, given, missing_values_of(missing_values, frame.names, owner=owner))
    holes_make_floats = not _chooses_floats(frame, codes)
    found, doubts = [], {}
    for name in frame.names:
        wish = given.get(name)
        if wish is not None and name not in codes:
            found.append(ColumnRole(name, "dropped", note=wish.note or "as asked"))
            continue
        values = codes[name]
        if wish is None or (wish.missing_values and not wish.role):
            column = column_with_holes(frame, name, values)
            doubts[name] = doubt_of(column, frame.backend)
            role = inferred(column, max_levels, doubts[name], values, holes_make_floats=holes_make_floats)
        else:
            wish = replace(wish, missing_values=values)
            column = read_column(frame, wish)
            role = as_asked(column, wish, (by_column or {}).get(name), frame.backend)
        found.append(replace(role, type=type_of(column, role), missing_values=values))
    _report(found, doubts, owner)
    return Roles(found)


def _codes(frame, given, gone):
    """Return the values that stand for missing cells, of each column that is not dropped."""
    return {
        name: list(dict.fromkeys([*(given[name].missing_values if name in given else ()), *gone.get(name, ())]))
        for name in frame.names
        if name not in given or given[name].role != "dropped"
    }


def _chooses_floats(frame, codes):
    """Return whether the whole numbers of a frame are floats by choice.

    They are if all columns are floats and one of them is whole without a hole. Otherwise they may be integers of which
    holes have made floats. A column of two values tells nothing, because it is binary anyway.
    """
    is_chosen = False
    for name, values in codes.items():
        column = column_with_holes(frame, name, values)
        if column.kind not in ("float", "empty"):
            return False
        is_chosen = is_chosen or (not column.missing.any() and _is_whole(column.values))
    return is_chosen


def _is_whole(values):
    """Return whether floats are whole numbers of more than two values."""
    with np.errstate(invalid="ignore"):
        return bool(np.all(values == np.rint(values))) and len(np.unique(values)) > _TWO


def _report(found, doubts, owner):
    """Warn of dropped and of doubtful columns, and refuse a table of which nothing is left."""
    dropped = [role for role in found if role.role == "dropped"]
    if len(dropped) == len(found):
        said = ", ".join(_reason(role, doubts) for role in dropped)
        are_equal = all(role.note.startswith("all cells hold") for role in dropped)
        end = "; all rows are equal, so that they are one cluster: give rows that differ" if are_equal else ""
        raise DataError(f"{owner}: no column is left: {said}{end}")
    own = [_reason(role, doubts) for role in dropped if role.column in doubts]
    if own:
        noun = "column is" if len(own) == 1 else "columns are"
        warn(f"{owner}: {len(own)} {noun} left out: {', '.join(own)}", DataWarning)
    kept = [_reason(role, doubts) for role in found if role.role != "dropped" and doubts.get(role.column)]
    if kept:
        noun = "column of text is" if len(kept) == 1 else "columns of text are"
        warn(
            f"{owner}: {len(kept)} {noun} read as categories, and may be meant otherwise: {', '.join(kept)}",
            DataWarning,
        )


def _reason(role, doubts):
    """Return a column with its note, and the line to type for what it may be."""
    doubt = doubts.get(role.column)
    if doubt is None or not role.note.startswith(doubt.what):
        return f"{role.column!r} ({role.note})"
    line = f": {doubt.line}" if doubt.line else ""
    note = role.note[len(doubt.what) :].replace(": ", ", or " if line else ": ", 1)  # a later one may be in its line
    return f"{role.column!r} ({doubt.what}{line}{note})"


def parts_of(roles: Roles, families: Mapping[str, Any] | None = None) -> tuple[tuple[Any, tuple[int, ...]], ...]:
    """Return pairs of an unbound family and columns; equal families share a part.

    `families` holds families of the user's own by column.
    """
    groups: list[tuple[Any, list[int]]] = []
    for j, role in enumerate(roles.kept):
        family = (families or {}).get(role.column) or family_of(role)
        is_shared = kind_of(role.role).shares_parts
        for other, columns in groups if is_shared else ():
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
    roles: Sequence[Mapping[str, Any]] | Mapping[str, Any] | None = None,
    max_levels: int = 1000,
    missing_values: Any = None,
    by_column: Mapping[str, Any] | None = None,
    owner: str = "Columns",
) -> dict[str, Any]:
    """Return the keywords of `Columns` for a frame: parts, names and roles.

    Parameters
    ----------
    X : frame
    roles, max_levels, missing_values, by_column
        As in `Columns.from_frame`; `by_column` comes before `roles`.
    owner : str
        Name of the caller, for messages.

    Returns
    -------
    dict
        With "parts", "names" and "roles".
    """
    listed, by_column = split_roles(roles, by_column)
    found = infer_roles(X, listed, by_column, max_levels=max_levels, missing_values=missing_values, owner=owner)
    own = {name: wish for name, wish in (by_column or {}).items() if isinstance(wish, Family)}
    return {"parts": parts_of(found, own), "names": found.names, "roles": tuple(found.to_list())}


def split_roles(roles: Any, by_column: Mapping[str, Any] | None) -> tuple[Any, dict[str, Any]]:
    """Return roles that are a list, and wishes by column; a dict of roles is of these."""
    by_column = dict(by_column or {})
    is_one_role = (
        isinstance(roles, Mapping) and "column" in roles and set(roles) <= {f.name for f in fields(ColumnRole)}
    )
    if not isinstance(roles, Mapping) or is_one_role:
        return roles, by_column
    return None, {**roles, **by_column}


def given_roles(
    frame: Frame, roles: Sequence[Mapping[str, Any]] | None, by_column: Mapping[str, Any] | None
) -> dict[str, ColumnRole]:
    """Return what the user gave, by column; `by_column` comes before `roles`."""
    given = {}
    if roles is not None and (isinstance(roles, (str, Mapping)) or not isinstance(roles, Iterable)):
        raise ValueError(f"roles must be a list of dicts, one for each column; got {roles!r}")
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
    return (
        f"{owner}: the frame has no column {name!r}{did_you_mean(name, frame.names)} (it has {listed(frame.names, 20)})"
    )


def _wish(name, wish):
    """Return the role that a family, a name or "drop" asks for; only what it says is set."""
    if isinstance(wish, Family):
        if wish.is_bound:
            raise ValueError(f"column {name!r}: {wish.name} is bound to data already; give a new one")
        kind = kind_of_family(wish)
        return ColumnRole(name, kind.name, wish.name, _settings(wish, kind.settings))
    if isinstance(wish, str):
        if wish in ("drop", "dropped"):
            return ColumnRole(name, "dropped")
        if wish in words():
            role, settings = words()[wish]
            return ColumnRole(name, role, kind_of(role).default_family, settings)
        if wish in families():
            return _wish(name, families()[wish]())
        known = [*words(), "drop", *families()]
        raise ValueError(
            f"column {name!r}: {wish!r} is no role and no family{did_you_mean(wish, known)} (known: {', '.join(known)})"
        )
    hint = f": write {wish.__name__}()" if isinstance(wish, type) and issubclass(wish, Family) else ""
    raise TypeError(f"column {name!r}: give a family, a role or 'drop'; got {wish!r}{hint}")


def _settings(family, always=()):
    """Return the settings of a family as plain values; its own ones only if in `always`."""
    defaults, given = type(family)().get_params(), family.get_params()
    return {
        name: value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value
        for name, value in given.items()
        if name in always or (name != "n_levels" and not np.array_equal(value, defaults[name]))
    }


def _checked(role):
    """Return a role that was read from JSON if role and family go together."""
    if role.role and role.role not in role_names():
        raise ValueError(
            f"roles: column {role.column!r} has the unknown role {role.role!r}{did_you_mean(role.role, role_names())}"
            f" (known: {', '.join(role_names())})"
        )
    if role.family and role.family not in families():
        hint = did_you_mean(role.family, families())
        raise ValueError(
            f"roles: column {role.column!r} has the unknown family {role.family!r}{hint};"
            f" give a family of your own as {keyword(role.column, 'YourFamily()').replace(chr(39), '')}"
        )
    if not role.family:
        is_kind = role.role not in ("", DROPPED)
        return replace(role, family=kind_of(role.role).default_family if is_kind else "")
    if not role.role:
        role = replace(role, role=kind_of_family(families()[role.family]()).name)
    if role.role == DROPPED:
        return role
    is_category = families()[role.family].support in ("categories", "binary")
    if is_category != role.is_category:
        fitting = "categorical" if role.is_category else "a family of numbers"
        raise ValueError(
            f"roles: column {role.column!r} has the role {role.role!r} and the family {role.family!r}, which do not go"
            f" together: change the family to {fitting}, or leave it out"
        )
    return role


def as_asked(column: Column, wish: ColumnRole, own: Any, backend: str = "pandas") -> ColumnRole:
    """Return the whole role of a column from what the user said of it.

    Parameters
    ----------
    column : Column
    wish : ColumnRole
        What the user said.
    own : Family or None
        The family that the user gave, if any.
    backend : str
        Library of the frame, for which errors have lines to type.

    Raises
    ------
    ValueError, DataError
        There is neither a role nor a family, or the cells do not fit them.
    """
    if not wish.role:
        raise ValueError(f"roles: column {column.name!r} has neither a role nor a family; give one of them")
    wish = replace(wish, missing=column.n_missing)
    if column.kind == "empty":
        raise DataError(f"column {column.name!r} holds no value at all: leave it out ({keyword(column.name, 'drop')})")
    check_finite(column, wish.missing_values)
    kind = kind_of(wish.role)
    if not kind.has_levels and not (kind.takes_times and column.kind == "time"):
        _require_numbers(column, wish, backend)

    def check(role):
        if not role.family:
            _check_counts(column)
        else:
            _check_values(column, own if isinstance(own, Family) else family_of(role), role)

    return kind.complete(column, wish, check)


def _require_numbers(column, wish, backend):
    if column.kind in NUMBERS:
        return
    row = int(np.argmin(column.missing))
    held = {"text": "text", "category": "categories", "time": "dates"}[column.kind]
    value = f" (row {row}: {column.levels[column.values[row]]!r})" if column.levels else ""
    line = "" if held == "dates" else f": {conversion_of(column, backend)}"
    raise DataTypeError(
        f"column {column.name!r} holds {held}{value}; {wish.family or wish.role} needs numbers: convert the column"
        f"{line}, or give {keyword(column.name, 'category' if held != 'dates' else 'numeric')}"
    )


def _check_values(column, family, wish):
    """Let the family check the values of a column, with errors that name the column and its row."""
    rows = np.flatnonzero(~column.missing)
    values = column.values[rows].astype(np.float64) + wish.offset
    _check_whole(column, family, rows, values)
    try:
        family.validate(values[:, None])
    except SupportError as error:
        text = re.sub(r"row (\d+), column 0\b", lambda m: f"column {column.name!r}, row {rows[int(m[1])]}", str(error))
        raise SupportError(text) from error


def _check_counts(column):
    """Refuse what are no counts; their sum may be of any size: the family is not chosen yet."""
    rows = np.flatnonzero(~column.missing)
    values = column.values[rows].astype(np.float64)
    _check_whole(column, Poisson(), rows, values)
    bad = np.flatnonzero(values < 0)
    if bad.size:
        raise SupportError(
            f"counts are at least 0; column {column.name!r}, row {rows[bad[0]]} holds {values[bad[0]]}: Negative values"
            f" in data: give {keyword(column.name, 'real')}"
        )


def _check_whole(column, family, rows, values):
    """Refuse fractions in a column of counts, with the lines that mend it."""
    if family.support != "counts" or getattr(family, "allow_fractional", False):
        return
    bad = np.flatnonzero((values >= 0) & (np.abs(values - np.rint(values)) > _WHOLE))
    if bad.size:
        raise SupportError(
            f"{family.name} needs non-negative integer counts; column {column.name!r}, row {rows[bad[0]]} holds"
            f" {values[bad[0]]}: where they are counts, round them: df[{column.name!r}] = df[{column.name!r}].round();"
            f" else give {keyword(column.name, 'real')}"
        )


def inferred(
    column: Column,
    max_levels: int,
    doubt: Doubt | None = None,
    missing_values: Sequence[Any] = (),
    *,
    holes_make_floats: bool = True,
) -> ColumnRole:
    """Return the role of a column by the first rule that holds.

    Parameters
    ----------
    column : Column
    max_levels : int
        Largest number of levels of a column of categories.
    doubt : Doubt, optional
        What a column of text may be in truth.
    missing_values : sequence
        Values that stand for its missing cells.
    holes_make_floats : bool
        As in `ColumnFacts`.

    Returns
    -------
    ColumnRole
    """
    base = ColumnRole(column.name, missing=column.n_missing)
    if column.kind == "time":
        return replace(base, role="dropped", note=_note_of_times(column))
    check_finite(column, missing_values)
    values, times = sorted_cells(column)
    distinct = values[np.append(np.ones(len(values[:1]), dtype=bool), values[1:] != values[:-1])]
    if not len(values):
        return replace(base, role="dropped", note="all cells are missing")
    facts = ColumnFacts(column, values, distinct, max_levels, doubt, holes_make_floats, times)
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
