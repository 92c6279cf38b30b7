"""Form of the results of a fit: arrays or frames, with names, types and levels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from expfam.frames.filled_cells import with_cells
from expfam.frames.frame import as_frame, is_frame, listed
from expfam.frames.new_frames import in_backend, new_frame

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from expfam.families.columns.roles import Roles


@dataclass(frozen=True)
class ResultForm:
    """Form of results: arrays or frames, with names, types and levels.

    Attributes
    ----------
    owner : str
        Name of the estimator, for messages.
    columns : list of str
        Names of the columns of the matrix that the family reads; numbers where the data had none.
    has_names : bool
        Whether the data of the fit had names of columns.
    roles : Roles or None
        Of a table.
    asked : {"default", "pandas", "polars"}
        Library of frames that was asked for.
    backend : str
        Library of the frame of the fit.
    """

    owner: str
    columns: list[str]
    has_names: bool
    roles: Roles | None
    asked: str = "default"
    backend: str = "pandas"

    @property
    def kind(self) -> str | None:
        """Library of the frames to return; None for arrays."""
        if self.asked != "default":
            return self.asked
        is_table = self.roles is not None and not self.roles.by_place
        return self.backend if self.has_names or is_table else None

    @property
    def kept_roles(self) -> Sequence[Any]:
        """Role of each column, None where the data are no table."""
        return [None] * len(self.columns) if self.roles is None else self.roles.kept

    def frame(self, columns: dict[str, Any], **options: Any) -> Any:
        """Return a frame, of pandas where the data were an array."""
        return new_frame(columns, backend=self.kind or "pandas", **options)

    def places(self, given: Any) -> list[int]:
        """Return the numbers of columns that are given by number or name."""
        given = [given] if isinstance(given, (str, int, np.integer)) else list(given)
        found = []
        for column in given:
            if isinstance(column, str) and column in self.columns:
                found.append(self.columns.index(column))
            elif isinstance(column, (int, np.integer)) and 0 <= column < len(self.columns):
                found.append(int(column))
            else:
                raise ValueError(
                    f"{self.owner}: given: there is no column {column!r} (the fit has {listed(self.columns, 20)})"
                )
        return found

    def rows(self, X: npt.NDArray[Any]) -> Any:
        """Return encoded rows as the kind of data of the fit."""
        if self.roles is None:
            return X if self.kind is None else self.frame(dict(zip(self.columns, X.T)))
        if self.kind is None:
            return self.roles.decode_array(X)
        return self.frame(self.roles.decode(X, whole=True), types=self.roles.types)

    def like(self, X: Any, filled: npt.NDArray[Any], holes: npt.NDArray[np.bool_]) -> Any:
        """Return data with the cells of their holes filled, in the form that they were given in.

        Parameters
        ----------
        X : array_like or frame, shape (N, V)
            The data as they were given.
        filled : (N, V) ndarray
            Encoded rows without holes.
        holes : (N, V) bool ndarray
            Which cells are filled.
        """
        names = self.columns
        if self.roles is not None and self.roles.by_place:
            return self._like_array(X, filled, holes)
        if not is_frame(X):
            return filled if self.asked == "default" else new_frame(dict(zip(names, filled.T)), backend=self.asked)
        if self.roles is None and not self.has_names:
            names = list(as_frame(X).names)  # columns were read by position
        values = dict(zip(names, filled.T)) if self.roles is None else self.roles.decode(filled)
        cells = {}
        for j, name in enumerate(names):
            at = np.flatnonzero(holes[:, j])
            if at.size:
                cells[name] = (at, [_plain(values[name][row]) for row in at])
        found = with_cells(X, cells, None if self.roles is None else self.roles.types)
        return found if self.asked == "default" else in_backend(found, self.asked)

    def _like_array(self, X, filled, holes):
        """Return rows that were read by place with the cells of their holes filled."""
        roles, frame = cast("Roles", self.roles), as_frame(X) if is_frame(X) else None
        cells, values = {}, roles.decode(filled)
        for j, role in enumerate(roles.kept):
            at = np.flatnonzero(holes[:, j])
            if at.size:
                cells[int(role.column)] = (at, [_plain(values[role.column][row]) for row in at])
        if frame is not None:
            found = with_cells(X, {frame.names[place]: cell for place, cell in cells.items()}, None)
            return found if self.asked == "default" else in_backend(found, self.asked)
        whole = np.array(X, dtype=np.float64)
        for place, (at, of_rows) in cells.items():
            whole[at, place] = of_rows
        names = [role.column for role in roles.roles]
        return whole if self.asked == "default" else new_frame(dict(zip(names, whole.T)), backend=self.asked)


def _plain(value):
    return value.item() if isinstance(value, np.generic) else value
