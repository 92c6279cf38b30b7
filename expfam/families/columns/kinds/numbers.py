"""Columns of numbers: counts, positive numbers, numbers, and points in time."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from expfam.families.columns.kinds.choice import count_role, positive_role
from expfam.families.columns.kinds.contract import ColumnKind, sorted_cells
from expfam.frames.numbers import require_seconds

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from expfam.families.columns.kinds.contract import ColumnFacts
    from expfam.frames.frame import Column
    from expfam.protocols import Floats


class Count(ColumnKind):
    """Non-negative integers; their family is chosen by evidence unless it was given."""

    name = "count"
    families = ("poisson", "negative_binomial", "geometric")
    is_counted = True

    def candidate(self, base: Any, facts: ColumnFacts) -> Any | None:
        """Return the role of whole numbers that are never negative."""
        if facts.is_whole and facts.distinct[0] >= 0:
            return count_role(base, facts.values.astype(np.float64), facts.times)
        return None

    def complete(self, column: Column, wish: Any, check: Any) -> Any:
        """Return the role, with the family of the highest evidence if none was given."""
        check(wish)
        if wish.family:
            return wish
        values, times = sorted_cells(column)
        return count_role(wish, values.astype(np.float64), times)

    def spread(self, family: Any, params: Mapping[str, Any], mean: Floats) -> Any:
        """Return the standard deviations of counts: (K, V), or NaN."""
        if family.name == "poisson":
            return np.sqrt(mean)
        if {"mean", "probability"} <= params.keys():  # negative binomial and geometric
            return np.sqrt(mean / (1.0 - params["probability"]))
        return super().spread(family, params, mean)


class Positive(ColumnKind):
    """Positive numbers, log-normal unless a family was given."""

    name = "positive"
    families = ("lognormal", "exponential")
    default_family = "lognormal"

    def candidate(self, base: Any, facts: ColumnFacts) -> Any | None:
        """Return the role of positive numbers, "real" where a Gaussian has the higher evidence."""
        if not facts.is_whole and facts.distinct[0] > 0:
            return positive_role(base, facts.values.astype(np.float64), facts.times)
        return None

    def spread(self, family: Any, params: Mapping[str, Any], mean: Floats) -> Any:
        """Return the standard deviations: that of an exponential law is its mean."""
        return mean if family.name == "exponential" else super().spread(family, params, mean)


class Real(ColumnKind):
    """All other numbers."""

    name = "real"
    families = ("gaussian_diag",)
    default_family = "gaussian_diag"

    def candidate(self, base: Any, facts: ColumnFacts) -> Any | None:
        """Return the role: this kind accepts all columns that no earlier kind has accepted."""
        return replace(base, role=self.name, family=self.default_family)


class Numeric(ColumnKind):
    """Dates and durations as seconds since the earliest, and numbers as they are."""

    name = "numeric"
    default_family = "gaussian_diag"
    takes_times = True

    def complete(self, column: Column, wish: Any, check: Any) -> Any:
        """Return the role, of times with the earliest as the origin."""
        if column.kind != "time":
            return super().complete(column, wish, check)
        require_seconds(column)
        return replace(wish, offset=wish.offset or -float(np.min(column.present)), note="seconds since the earliest")

    def encode(self, role: Any, column: Column, backend: str) -> npt.NDArray[Any]:
        """Return seconds since the origin of the role, or numbers."""
        if column.kind != "time":
            return super().encode(role, column, backend)
        require_seconds(column)
        seconds: npt.NDArray[Any] = column.values + role.offset
        return seconds
