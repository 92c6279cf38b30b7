"""Parts of a table as they are given and bound, and the names of its columns."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np

from expfam.amounts import counted
from expfam.errors import DataError
from expfam.families.base import Family
from expfam.families.columns.parts import PRESENCE, Part
from expfam.families.gaussian.columns import RealFamily

if TYPE_CHECKING:
    import numpy.typing as npt

_MOST_DENSE = 4  # statistics are CSR if there are more than this many for each one that a row stores


class PartsLayout(Family):
    """Base of `Columns`: its parts, and the columns of phi that are theirs."""

    parts: Any
    missing: str
    holes: str
    rows: str
    names: Any
    roles: Any
    offsets_: npt.NDArray[np.int64]

    @property
    def _parts(self) -> tuple[Part, ...]:
        """Return the parts of a bound family."""
        if "n_features_in_" not in self.__dict__:
            self.require_bound()  # raises the error
        parts = self.parts
        return parts if type(parts[0]) is Part else tuple(map(Part._make, parts))  # plain tuples were read from a file

    def _given(self):
        """Return family, columns and name of each given part.

        Bound parts, which `get_params` of a bound family returns, are given parts too.
        """
        if not len(self.parts):
            raise ValueError("Columns: parts must hold at least one pair (family, columns)")
        names: list[str] = []
        found = []
        for place, part in enumerate(self.parts):
            if not isinstance(part, (tuple, list)) or len(part) not in (2, 4) or not isinstance(part[0], Family):
                raise TypeError(
                    f"Columns: parts[{place}] must be a pair (family, columns) like (Poisson(), (0, 2)); got {part!r}"
                )
            columns = tuple(int(j) for j in np.atleast_1d(np.asarray(part[1])))
            if len(part) == 4:
                if part[2] != PRESENCE:
                    found.append((part[0], columns, part[3]))
                continue
            names.append(part[0].name)
            count = names.count(part[0].name)
            found.append((part[0], columns, part[0].name if count == 1 else f"{part[0].name}_{count}"))
        return found

    def _check_columns(self, n_columns):
        """Raise DataError unless each column belongs to exactly one part."""
        taken: dict[int, int] = {}
        for place, (_, columns, _) in enumerate(self._given()):
            for j in columns:
                if not 0 <= j < n_columns:
                    raise DataError(f"columns: parts[{place}] names column {j}; X has {counted(n_columns, 'column')}")
                if j in taken:
                    raise DataError(
                        f"columns: column {self.name_of(j)} belongs to parts[{taken[j]}] and parts[{place}]"
                    )
                taken[j] = place
        left = sorted(set(range(n_columns)) - set(taken))
        if left:
            raise DataError(f"columns: {self.names_of(left)} belongs to no part: give it to one, or leave it out of X")
        if self.names is not None and len(self.names) != n_columns:
            raise DataError(f"columns: there are {counted(len(self.names), 'name')} for {counted(n_columns, 'column')}")

    def real_columns(self) -> dict[int, bool]:
        """Return whether each real column is read by its logarithms, by the number of the column."""
        real = (part for part in self._parts if isinstance(part.family, RealFamily))
        return {j: part.family.of_logs for part in real for j in part.columns}

    def name_of(self, column: int) -> str:
        """Return the number of a column as text, with its name if it has one."""
        return f"{column}" if self.names is None else f"{column} ({self.names[column]!r})"

    def names_of(self, columns: Iterable[int]) -> str:
        """Return text that names some columns."""
        columns = list(columns)
        listed = ", ".join(self.name_of(j) for j in columns[:5]) + ", ..." * (len(columns) > 5)
        return f"column{'s' * (len(columns) > 1)} {listed}"

    def _with_parts(self, parts):
        """Return a bound copy with other bound parts."""
        other = self._copy()
        other.__dict__.update(self._layout(parts))
        return other

    @staticmethod
    def _layout(parts):
        parts = tuple(sorted(parts, key=lambda part: part.place))
        offsets = np.array([0, *accumulate(part.width for part in parts)], dtype=np.int64)
        return {"parts": parts, "offsets_": offsets, "n_statistics_": int(offsets[-1])}

    @property
    def _is_sparse(self):
        """Return whether phi is CSR, because categories have many levels that a row does not hold."""
        stored = sum(
            len(part.columns) if hasattr(part.family, "levels_") else part.width for part in map(Part._make, self.parts)
        )
        return stored * _MOST_DENSE < self.offsets_[-1]
