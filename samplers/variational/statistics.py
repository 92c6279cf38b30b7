"""Statistics that add up over rows, which incremental schedules add, replace and shrink as wholes."""

from copy import copy
from dataclasses import fields
from typing import ClassVar

import numpy as np


class Additive:
    """Base of dataclasses whose fields are float64 arrays or floats that add up over rows.

    Attributes
    ----------
    kept_positive : str
        Field that rounding must not leave below zero.
    """

    kept_positive: ClassVar[str] = ""

    def add(self, other, factor=1.0):
        """Add `factor` times the sums of other rows, in place."""
        for name in self._names():
            mine, its = getattr(self, name), getattr(other, name)
            mine += its if factor == 1.0 else factor * its
            setattr(self, name, mine)
        return self

    def replace(self, old, new):
        """Take the sums of the same rows as they are now for what they were, in place."""
        self.add(old, -1.0).add(new)
        kept = getattr(self, self.kept_positive)
        np.maximum(kept, 0.0, out=kept)
        return self

    def scale(self, factor):
        """Multiply by a number, in place."""
        for name in self._names():
            mine = getattr(self, name)
            mine *= factor
            setattr(self, name, mine)
        return self

    def copy(self):
        """The same, in memory of its own."""
        twin = copy(self)
        for name in self._names():
            setattr(twin, name, copy(getattr(self, name)))
        return twin

    def _names(self):
        return [field.name for field in fields(self)]
