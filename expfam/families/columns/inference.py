"""Roles of all columns of a frame, inferred or given, and the parts that they make."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from expfam.errors import DataError, DataWarning
from expfam.families.base import Family
from expfam.families.columns.doubts import doubt_of
from expfam.families.columns.given_roles import as_asked, given_roles, split_roles
from expfam.families.columns.kinds.registry import family_of, kind_of
from expfam.families.columns.missing_values import column_with_holes, missing_values_of
from expfam.families.columns.roles import ColumnRole, Roles, read_column, type_of
from expfam.families.columns.rules import inferred
from expfam.families.counts.categorical import Categorical
from expfam.frames.frame import as_frame
from expfam.user_warnings import warn


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
    gone = missing_values_of(missing_values, frame.names, owner=owner)
    found, doubts = [], {}
    for name in frame.names:
        wish = given.get(name)
        if wish is not None and wish.role == "dropped":
            found.append(ColumnRole(name, "dropped", note=wish.note or "as asked"))
            continue
        values = list(dict.fromkeys([*(wish.missing_values if wish is not None else ()), *gone.get(name, ())]))
        if wish is None or (wish.missing_values and not wish.role):
            column = column_with_holes(frame, name, values)
            doubts[name] = doubt_of(column, frame.backend)
            role = inferred(column, max_levels, doubts[name], values)
        else:
            wish = replace(wish, missing_values=values)
            column = read_column(frame, wish)
            role = as_asked(column, wish, (by_column or {}).get(name), frame.backend)
        found.append(replace(role, type=type_of(column, role), missing_values=values))
    _report(found, doubts, owner)
    return Roles(found)


def _report(found, doubts, owner):
    """Warn of dropped and of doubtful columns, and refuse a table of which nothing is left."""
    dropped = [role for role in found if role.role == "dropped"]
    if len(dropped) == len(found):
        raise DataError(f"{owner}: no column is left: {', '.join(_reason(role, doubts) for role in dropped)}")
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
    return (
        f"{role.column!r} ({doubt.what}{line}{role.note[len(doubt.what) :].replace(': ', ', or ' if line else ': ')})"
    )


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
    """Return the keywords of `Columns` for a frame: parts, names and roles."""
    listed, by_column = split_roles(roles, by_column)
    found = infer_roles(X, listed, by_column, max_levels=max_levels, missing_values=missing_values, owner=owner)
    own = {name: wish for name, wish in (by_column or {}).items() if isinstance(wish, Family)}
    return {"parts": parts_of(found, own), "names": found.names, "roles": tuple(found.to_list())}
