"""Roles that the user gives: read, checked against the column, and completed from it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np

from expfam.errors import DataError, DataTypeError, SupportError
from expfam.families.base import Family
from expfam.families.columns.doubts import conversion_of
from expfam.families.columns.encoding import NUMBERS, check_finite
from expfam.families.columns.kinds.registry import (
    DROPPED,
    families,
    family_of,
    kind_of,
    kind_of_family,
    role_names,
    words,
)
from expfam.families.columns.messages import keyword
from expfam.families.columns.roles import ColumnRole, Roles
from expfam.families.counts.poisson import Poisson
from expfam.frames.frame import Column, Frame, listed
from expfam.near_names import did_you_mean

_WHOLE = 1e-9  # counts differ from integers by no more


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

    Errors have lines to type for the library `backend`.
    """
    if not wish.role:
        raise ValueError(f"roles: column {column.name!r} has neither a role nor a family; give one of them")
    wish = replace(wish, missing=int(column.missing.sum()))
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
