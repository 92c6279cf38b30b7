"""Roles that the user gives: read, checked against the column, and completed from it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from expfam.amounts import counted
from expfam.errors import DataError, DataTypeError, SupportError
from expfam.families.base import Family
from expfam.families.columns.doubts import conversion_of
from expfam.families.columns.encoding import NUMBERS, check_finite, require_seconds
from expfam.families.columns.family_choice import count_role
from expfam.families.columns.messages import keyword
from expfam.families.columns.named_families import FAMILIES, FAMILY_OF_ROLE, family_of, role_of
from expfam.families.columns.roles import ColumnRole, Roles
from expfam.families.columns.rules import category_role
from expfam.families.counts.categorical import Categorical
from expfam.families.counts.poisson import Poisson
from expfam.io.frames import Column, Frame, listed
from expfam.near_names import did_you_mean

_WHOLE = 1e-9  # counts differ from integers by no more


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
        return ColumnRole(name, role_of(wish), wish.name, _settings(wish))
    if isinstance(wish, str):
        if wish in ("drop", "dropped"):
            return ColumnRole(name, "dropped")
        if wish in FAMILY_OF_ROLE:
            return ColumnRole(name, wish, FAMILY_OF_ROLE[wish])
        if wish in FAMILIES:
            return _wish(name, FAMILIES[wish]())
        known = [*(role for role in FAMILY_OF_ROLE if role != "dropped"), "drop", *FAMILIES]
        raise ValueError(
            f"column {name!r}: {wish!r} is no role and no family{did_you_mean(wish, known)} (known: {', '.join(known)})"
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
    if role.role and role.role not in FAMILY_OF_ROLE:
        raise ValueError(
            f"roles: column {role.column!r} has the unknown role {role.role!r}{did_you_mean(role.role, FAMILY_OF_ROLE)}"
            f" (known: {', '.join(FAMILY_OF_ROLE)})"
        )
    if role.family and role.family not in FAMILIES:
        hint = did_you_mean(role.family, FAMILIES)
        raise ValueError(
            f"roles: column {role.column!r} has the unknown family {role.family!r}{hint};"
            f" give a family of your own as {keyword(role.column, 'YourFamily()').replace(chr(39), '')}"
        )
    if not role.family:
        return replace(role, family=FAMILY_OF_ROLE.get(role.role, ""))
    if not role.role:
        role = replace(role, role=role_of(FAMILIES[role.family]))
    if role.role == "dropped":
        return role
    is_category = FAMILIES[role.family].support in ("categories", "binary")
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
    if wish.is_category:
        return _asked_category(column, wish)
    if wish.role == "numeric" and column.kind == "time":
        require_seconds(column)
        return replace(wish, offset=wish.offset or -float(np.min(column.present)), note="seconds since the earliest")
    _require_numbers(column, wish, backend)
    if wish.role == "count" and not wish.family:
        values = np.sort(column.present).astype(np.float64)
        _check_counts(column)
        return count_role(wish, values)
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
            f"column {column.name!r} has {counted(len(distinct), 'distinct value')}; a binary column has two:"
            f" {keyword(column.name, 'category')} takes them all"
        )
    has_other = wish.other or (not is_binary and not column.is_declared)
    found = category_role(wish, column, distinct, role=wish.role, other=has_other)
    return replace(found, family=wish.family or Categorical.name)


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
