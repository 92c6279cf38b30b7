"""Columns of a frame, matched by name with those of the fit."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from expfam.errors import DataError, DataWarning
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
