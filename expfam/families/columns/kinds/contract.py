"""The contract of a kind of column: what it takes, its families, encoding and cells.

A kind is found by the role that it gives, see `registry`. A new one is one file: derive from `ColumnKind`, override
what differs from plain numbers, and offer the class as an entry point of the group ``expfam.column_kinds``, or in the
table of `registry`. Its families are found by their own entry points, or are classes of this package.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from expfam.errors import CapabilityError
from expfam.families.columns.kinds.laws import CellLaw
from expfam.frames.numbers import check_finite, require_numbers

if TYPE_CHECKING:
    import numpy.typing as npt

    from expfam.frames.frame import Column
    from expfam.protocols import Floats

_LARGEST = 2.0**63  # whole numbers up to it are int64


@dataclass(frozen=True)
class ColumnFacts:
    """A column of a frame, and what was found in it before its kind is chosen.

    Attributes
    ----------
    column : Column
    values : (m,) ndarray
        The values that are there, sorted; numbers of levels of text.
    distinct : ndarray
        Each of them once.
    max_levels : int
        Columns of text with more distinct values are left out.
    doubt : Doubt or None
        What a column of text may be in truth.
    holes_make_floats : bool
        Whether a column of integers has become one of floats by its holes, as in pandas. In a frame of floats alone
        that has whole numbers in a column without holes it has not.
    times : (m,) int64 ndarray or None
        How many rows each of `values` stands for, where the column is a summary of rows that lie in parts; None if one.
    """

    column: Column
    values: npt.NDArray[Any]
    distinct: npt.NDArray[Any]
    max_levels: int
    doubt: Any
    holes_make_floats: bool = True
    times: npt.NDArray[np.int64] | None = None

    @property
    def n_values(self) -> int:
        """Return how many rows have a value."""
        return len(self.values) if self.times is None else int(self.times.sum())

    @property
    def deviation(self) -> float:
        """Return the standard deviation of the values."""
        values = self.values.astype(np.float64)
        if self.times is None:
            return float(np.std(values))
        mean = np.average(values, weights=self.times)
        return float(np.sqrt(np.average((values - mean) ** 2, weights=self.times)))

    @property
    def is_text(self) -> bool:
        """Return whether the cells are text or declared categories."""
        return self.column.kind in ("text", "category")

    @property
    def is_whole(self) -> bool:
        """Return whether the values are integers, or floats only because cells are missing."""
        may_be = self.holes_make_floats and bool(self.column.missing.any())
        return self.column.kind == "integer" or (may_be and bool(np.all(self.distinct == np.rint(self.distinct))))


def sorted_cells(column: Column) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64] | None]:
    """Return the values of a column that are there, sorted, and how many rows each stands for."""
    if column.times is None:
        return np.sort(column.present), None
    order = np.argsort(column.present, kind="stable")
    assert column.present_times is not None
    return column.present[order], column.present_times[order]


class ColumnKind:
    """A kind of column of numbers; kinds derive from it and override what differs.

    Attributes
    ----------
    name : str
        The role that its columns have.
    families : tuple of str
        Names of the families that belong to it. A column of such a family has this role unless another was given.
    default_family : str
        Name of the family of a column for which none was given; empty if `complete` chooses it by the values.
    words : dict of str to dict
        What users may write for the role, besides its name, and the settings that each word stands for.
    settings : tuple of str
        Settings of the family that a role always names, also where they are the family's own.
    shares_parts : bool
        Whether columns of equal families are one part of the table.
    has_levels : bool
        Whether cells are encoded as numbers of levels.
    is_counted : bool
        Whether whole decoded cells are at least 0.
    takes_times : bool
        Whether a column of dates or durations is accepted, as seconds.
    """

    name: ClassVar[str]
    families: ClassVar[tuple[str, ...]] = ()
    default_family: ClassVar[str] = ""
    words: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    settings: ClassVar[tuple[str, ...]] = ()
    shares_parts: ClassVar[bool] = True
    has_levels: ClassVar[bool] = False
    is_counted: ClassVar[bool] = False
    takes_times: ClassVar[bool] = False

    # ---- what it accepts ---------------------------------------------------------------------------------------------

    def candidate(self, base: Any, facts: ColumnFacts) -> Any | None:
        """Return the role of a column whose kind was not given, None if it is not of this kind.

        Kinds are asked in the order of the registry, and the first answer holds.

        Parameters
        ----------
        base : ColumnRole
            Role with the name of the column; complete it with `dataclasses.replace`.
        facts : ColumnFacts
            What the cells of the column are.

        Returns
        -------
        ColumnRole or None
            It may be a dropped role with a note.
        """
        return None

    def complete(self, column: Column, wish: Any, check: Any) -> Any:
        """Return the whole role of a column of this kind; refuse what does not fit, by name.

        Parameters
        ----------
        column : Column
            Of numbers, unless the kind has levels or takes times.
        wish : ColumnRole
            What the user said, with the settings of the word that was used.
        check : callable
            ``check(role)`` lets the family of a role check the values, with errors that name column and row.
        """
        check(wish)
        return wish

    # ---- encoding ----------------------------------------------------------------------------------------------------

    def encode(self, role: Any, column: Column, backend: str) -> npt.NDArray[Any]:
        """Return the cells of a column as numbers: (N,); what stands in missing cells is not read.

        Parameters
        ----------
        role : ColumnRole
        column : Column
        backend : str
            Library of the frame, for which errors have lines to type.

        Returns
        -------
        (N,) float64 ndarray
        """
        require_numbers(column, backend, of_fit=True)
        check_finite(column, role.missing_values)
        encoded: npt.NDArray[Any] = column.values.astype(np.float64) + role.offset
        return encoded

    def decode(self, role: Any, values: npt.NDArray[Any], gone: npt.NDArray[np.bool_], *, whole: bool) -> Any:
        """Return the cells of an encoded column in the data's own values: a list, or an ndarray.

        Parameters
        ----------
        role : ColumnRole
        values : (N,) float64 ndarray
            Encoded cells.
        gone : (N,) bool ndarray
            Where cells are missing; these become None.
        whole : bool
            Whether numbers of counts and integers are rounded.
        """
        values = values.astype(np.float64) - role.offset
        if whole and (self.is_counted or role.type == "integer"):
            values = _whole_numbers(np.maximum(values, 0.0) if self.is_counted else values, gone)
        return [None if hole else value for value, hole in zip(values.tolist(), gone)] if gone.any() else values

    # ---- cells by cluster --------------------------------------------------------------------------------------------

    def laws(self, family: Any, n: Floats, S: Any, *, has_missing_level: bool) -> list[CellLaw]:
        """Return what the cells of each column of a bound family are in each cluster.

        Numbers have a mean and a spread, from `to_params` at the posterior mode.

        Parameters
        ----------
        family : Family
            Bound to the columns.
        n : (K,) float64 ndarray
            Number of data in each cluster.
        S : (K, F) float64 ndarray or CSR
            Sums of their phi.
        has_missing_level : bool
            Whether the last level of each column stands for missing cells.

        Returns
        -------
        list of CellLaw
            One for each column.

        Raises
        ------
        CapabilityError
            The columns have no means of their own.
        """
        params = family.to_params(*family.map_natural(n, S))
        if "mean" not in params and "rate" not in params:
            raise CapabilityError(
                f"{family.name}: its columns are no cells of a table: they have no means of their own"
            )
        mean = params["mean"] if "mean" in params else params["rate"]
        sd = np.broadcast_to(self.spread(family, params, mean), mean.shape)
        is_logs = "median" in params
        center = np.log(params["median"]) if is_logs else mean
        return [CellLaw(mean[:, j], sd[:, j], center[:, j], is_logs) for j in range(mean.shape[1])]

    def spread(self, family: Any, params: Mapping[str, Any], mean: Floats) -> Any:
        """Return the standard deviations of cells: (K, V) or what broadcasts to it.

        They are NaN if nothing tells them.

        Parameters
        ----------
        family : Family
            Bound.
        params : dict
            What its `to_params` returned.
        mean : (K, V) float64
        """
        if "sd" in params:
            return params["sd"]
        if "covariance" in params:
            return np.sqrt(np.diagonal(params["covariance"], axis1=1, axis2=2))
        if "variance" in params:
            variance = params["variance"]
            return np.sqrt(variance if variance.ndim == 2 else variance[:, None])
        return np.nan


def _whole_numbers(values: npt.NDArray[Any], gone: npt.NDArray[np.bool_]) -> npt.NDArray[Any]:
    """Return values rounded, as int64 if none is missing and all fit."""
    values = np.rint(values)
    fits = not gone.any() and bool(np.all(np.abs(values) < _LARGEST))
    return values.astype(np.int64) if fits else values
