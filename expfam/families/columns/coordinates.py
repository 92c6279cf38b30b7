"""Coordinates of the rows of a table: those of its parts side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from expfam.families import support as _support
from expfam.families.columns.parts import PRESENCE, Part, cells_of
from expfam.families.counts.categorical import Categorical
from expfam.families.weighing import of_counted_rows

if TYPE_CHECKING:
    from expfam.protocols import Floats


def table_coordinates(parts: Iterable[Part], X: Any, weight: Floats | None = None) -> Callable[[Any], Floats]:
    """Return the function that maps rows to coordinates.

    It depends on the bound parts, and on all data with their weights.
    """
    maps = []
    for part in parts:
        rows, cells = cells_of(part, X) if part.reading != PRESENCE else (None, X[:0])
        own = weight if weight is None or rows is None else weight[rows]
        if cells.shape[0]:
            maps.append((part, _centred(part, cells, own)))
    return lambda rows: np.concatenate([_scattered(part, rows, transform) for part, transform in maps], axis=1)


def _centred(part, cells, weight):
    """Return a map of cells to coordinates whose means are 0, which missing cells then have."""
    transform = of_counted_rows(part.family.coordinate_map, cells, weight)
    points = _support.dense_rows(transform(cells))
    centre = np.average(points, axis=0, weights=weight)
    has_codes = isinstance(part.family, Categorical)  # the statistics of a missing code are zeros
    scale = np.ones_like(centre) if not has_codes else np.full_like(centre, np.sqrt(0.5))
    if part.family.has_counts:
        spread = np.sqrt(np.average((points - centre) ** 2, axis=0, weights=weight))
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
