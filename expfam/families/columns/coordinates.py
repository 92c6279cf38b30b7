"""Coordinates of the rows of a table: those of its parts side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from expfam.families import support as _support
from expfam.families.columns.parts import PRESENCE, Part, cells_of
from expfam.families.counts.categorical import Categorical

if TYPE_CHECKING:
    from expfam.protocols import Floats


def table_coordinates(parts: Iterable[Part], X: Any) -> Callable[[Any], Floats]:
    """Return the function that maps rows to coordinates, given the bound parts and all data."""
    maps = []
    for part in parts:
        cells = cells_of(part, X)[1] if part.reading != PRESENCE else X[:0]
        if cells.shape[0]:
            maps.append((part, _centred(part, cells)))
    return lambda rows: np.concatenate([_scattered(part, rows, transform) for part, transform in maps], axis=1)


def _centred(part, cells):
    """Return a map of cells to coordinates whose means are 0, which missing cells then have."""
    transform = part.family.coordinate_map(cells)
    points = _support.dense_rows(transform(cells))
    centre = points.mean(axis=0)
    has_codes = isinstance(part.family, Categorical)  # the statistics of a missing code are zeros
    scale = np.ones_like(centre) if not has_codes else np.full_like(centre, np.sqrt(0.5))
    if part.family.has_counts:
        spread = points.std(axis=0)
        scale = 1.0 / np.where(spread > 0.0, spread, 1.0)
    return lambda own: (_support.dense_rows(transform(own)) - (0.0 if has_codes else centre)) * scale


def _scattered(part, X, transform):
    """Return coordinates of all rows, 0 in those that lack the part."""
    rows, cells = cells_of(part, X)
    points = transform(cells) if cells.shape[0] else transform(np.ones((1, len(part.columns))))[:0]
    if rows is None:
        return np.nan_to_num(points)
    out = np.zeros((X.shape[0], points.shape[1]))
    out[rows] = points
    return out
