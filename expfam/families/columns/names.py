"""Columns of a frame, matched by name with those of the fit."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager

from expfam.errors import DataError, DataWarning, ExpFamError
from expfam.io.frames import listed
from expfam.user_warnings import warn


def check_names(names: Sequence[str], kept: Sequence[str], known: Collection[str], *, owner: str) -> None:
    """Refuse a frame that lacks columns of the fit; warn of columns that the fit did not have.

    Parameters
    ----------
    names : sequence of str
        Columns of the frame, in any order.
    kept : sequence of str
        Columns that the model reads.
    known : collection of str
        All columns of the fit.
    owner : str
        Named in the messages.

    Raises
    ------
    DataError
        The frame lacks a column that the model reads.

    Warns
    -----
    DataWarning
        If there are columns that were not there at fit.
    """
    lacking = [name for name in kept if name not in set(names)]
    extra = [name for name in names if name not in known]
    if lacking:
        raise DataError(
            f"{owner}: columns of the frame differ from those at fit: only at fit {listed(lacking)}; only now"
            f" {listed(extra)}: give the frame all columns that were kept at fit, by their feature names"
        )
    if extra:
        warn(
            f"{owner}: the frame has columns that were not there at fit, which are ignored: {listed(extra)}",
            DataWarning,
        )


_NUMBERED = re.compile(r"\bcolumn (\d+)\b(?! \()")  # a name in brackets may follow already


@contextmanager
def named_columns(names: Sequence[str] | None) -> Iterator[None]:
    """Let errors of this package say names of columns in place of their numbers.

    Parameters
    ----------
    names : sequence of str, optional
        Names of the columns in their order; without them errors stay as they are.

    Examples
    --------
    >>> from expfam.errors import DataError
    >>> from expfam.families.columns.names import named_columns
    >>> with named_columns(["size", "kind"]):
    ...     raise DataError("row 4, column 1 holds -1")
    Traceback (most recent call last):
        ...
    expfam.errors.DataError: row 4, column 'kind' holds -1
    """

    def named(match):
        place = int(match[1])
        return f"column {str(names[place])!r}" if place < len(names) else match[0]

    try:
        yield
    except ExpFamError as error:
        if names is not None and error.args and isinstance(error.args[0], str):
            error.args = (_NUMBERED.sub(named, error.args[0]), *error.args[1:])
        raise
