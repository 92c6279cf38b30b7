"""Base of statistics that add up over rows: schedules add, replace and scale them."""

from __future__ import annotations

from copy import copy
from dataclasses import fields
from functools import cache
from typing import Any, ClassVar, TypeVar

import numpy as np
from scipy import sparse

_Sums = TypeVar("_Sums", bound="Additive")


class Additive:
    """Base of dataclasses whose fields are float64 arrays or floats that add up over rows.

    Attributes
    ----------
    kept_positive : str
        Name of the field that rounding must not make negative.
    """

    kept_positive: ClassVar[str] = ""

    def add(self: _Sums, other: Additive, factor: float = 1.0) -> _Sums:
        """Add `factor` times the sums of other rows, in place; return self."""
        for name in self._names():
            mine, its = getattr(self, name), getattr(other, name)
            mine += its if factor == 1.0 else factor * its
            setattr(self, name, mine)
        return self

    def replace(self: _Sums, old: Additive, new: Additive) -> _Sums:
        """Replace old sums of some rows by their new ones, in place; return self."""
        self.add(old, -1.0).add(new)
        kept = getattr(self, self.kept_positive)
        np.maximum(kept, 0.0, out=kept)
        return self

    def scale(self: _Sums, factor: float) -> _Sums:
        """Multiply all sums by a number, in place; return self."""
        for name in self._names():
            mine = getattr(self, name)
            mine *= factor
            setattr(self, name, mine)
        return self

    def copy(self: _Sums) -> _Sums:
        """Return a copy in memory of its own."""
        twin = copy(self)
        for name in self._names():
            value = getattr(self, name)
            setattr(twin, name, value.copy() if sparse.issparse(value) else copy(value))
        return twin

    @classmethod
    @cache  # parts of a pass ask for them while others wait
    def _names(cls) -> list[str]:
        itself: Any = cls  # subclasses are dataclasses
        return [field.name for field in fields(itself)]
