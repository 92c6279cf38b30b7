"""Coordinates in which near data have similar laws over clusters, and groups of near data.

They are heuristics for proposals and give no bounds. Coordinates cost O(N F). Groups cost O(N F) for each of about two
levels of `_BRANCHES` means and each of `_ROUNDS` rounds, as matrix products in float32.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from scipy import sparse

from expfam.families.coordinates import in_one_form
from expfam.families.weighing import counted_rows
from expfam.samplers.geometry.nearest_means import best_means, cells_of_means, centred_rows, sums_by_mean
from expfam.structures.ground.rng import generator
from expfam.structures.ground.threads import run
from expfam.structures.hashing.projection import sign_projection

if TYPE_CHECKING:
    from expfam.model.data import Dataset

_WIDEST = 256  # dense rows of more columns are projected
_WIDTH = 64  # columns of a projection
_PROJECTION_UNIT = 2  # stream of the purpose "tables"
_BLOCK_ROWS = 1 << 14
_BRANCHES = 32  # maximal number of parts of a cell
_ROUNDS = 3  # of Lloyd's iteration
_SAMPLE = 64  # data in the sample, for each mean
_MEANS_UNIT = 3


def neighbourhood(data: Dataset, seed: int) -> npt.NDArray[np.float32]:
    """Compute coordinates of the rows in which near data have similar laws over clusters.

    The result is (N, d) float32. The family says what the coordinates are; if they are the rows, and these are float32,
    the result is the data themselves. Coordinates of sparse and of discrete data with more than 64 columns and others
    of more than 256 are projected to 64 columns; `seed` is that of the projection.
    """
    if is_taken_as_it_is(data):
        return data.X
    counted, given = counted_rows(data.family.neighbour_map, data.X, data.weight)
    of_rows = data.family.neighbour_map(counted, **given)

    def transform(rows):
        return in_one_form(of_rows(rows), widest=_WIDTH) if data.family.is_discrete else of_rows(rows)

    first = transform(data.X[:1])
    n_columns, width = first.shape[1], _width(first)
    rng = generator(seed, "tables", unit=_PROJECTION_UNIT)
    signs = sign_projection(n_columns, rng, n_columns=width) if width < n_columns else None
    out = np.empty((data.n_rows, width), dtype=np.float32)
    for start in range(0, data.n_rows, _BLOCK_ROWS):
        block = transform(data.X[start : start + _BLOCK_ROWS])
        block = block if signs is None else block @ signs
        out[start : start + _BLOCK_ROWS] = block.toarray() if sparse.issparse(block) else block
    return out


def is_taken_as_it_is(data: Dataset) -> bool:
    """Return whether `neighbourhood` returns the data themselves, not a copy."""
    X, family = data.X, data.family
    is_plain = isinstance(X, np.ndarray) and X.dtype == np.float32 and X.flags.c_contiguous
    is_own = family.is_metric and not (family.has_own_coordinates or family.allows_missing)
    return is_plain and is_own and _width(X) == data.n_features


def _width(points):
    return _WIDTH if points.shape[1] > (_WIDTH if sparse.issparse(points) else _WIDEST) else points.shape[1]


def means_groups(
    points: npt.NDArray[np.float32], max_group: int, seed: int, *, n_threads: int | None = None
) -> npt.NDArray[np.intp]:
    """Divide the data into groups of near data by nested k-means.

    A mean of several data is nearer to the middle of a cluster than a single datum is. If the noise is as wide as the
    gaps between clusters, cells about means are therefore purer than cells about data.

    Parameters
    ----------
    points : (N, d) float32 ndarray
        Coordinates of the data.
    max_group : int
        Cells are split until none holds more data.
    seed : int
        Seed of the samples of which means are made.
    n_threads : int or None
        Number of threads; the groups do not depend on it.

    Returns
    -------
    (N,) intp ndarray
        Number of the group of each datum; no group is empty.
    """
    centre = points.mean(axis=0, dtype=np.float64).astype(np.float32)  # subtracted, so that scores keep their digits
    group, n_groups, level = np.zeros(len(points), dtype=np.intp), 0, 0
    waiting = [np.arange(len(points))]
    while waiting:
        tasks = [(points, centre, rows, max_group, seed, (level << 32) + place) for place, rows in enumerate(waiting)]
        parts = run(_split, tasks, n_threads)
        waiting, level = [], level + 1
        for cells in parts:
            for rows in cells:
                if len(rows) > max_group:
                    waiting.append(rows)
                else:
                    group[rows] = n_groups
                    n_groups += 1
    return group


def _split(points, centre, rows, max_group, seed, unit):
    """Split the data of a cell by their nearest means; split equal data into runs of equal size."""
    if len(rows) <= max_group:
        return [rows]
    k = min(_BRANCHES, len(rows), -(-2 * len(rows) // max_group))
    rng = generator(seed, "tables", unit=_MEANS_UNIT, step=unit)
    most, width = min(len(rows), max(_BLOCK_ROWS, _SAMPLE * k)), points.shape[1]
    room, products = np.empty((most, width), np.float32), np.empty((most, k), np.float32)
    sampled = rows[rng.permutation(len(rows))[: _SAMPLE * k]]
    centred_rows(points, sampled, centre, room)
    means = _means(room[: len(sampled)], k, products)
    nearest = np.empty(len(rows), dtype=np.uint8)
    for start in range(0, len(rows), _BLOCK_ROWS):
        block = rows[start : start + _BLOCK_ROWS]
        centred_rows(points, block, centre, room)
        _nearest(room[: len(block)], means, products, nearest[start : start + _BLOCK_ROWS])
    cells = cells_of_means(nearest, rows, k)
    return cells if len(cells) > 1 else np.array_split(rows, k)


def _means(sample, k, products):
    """Compute k means of a sample in random order, starting from its first k rows."""
    means, nearest = sample[:k].copy(), np.empty(len(sample), dtype=np.uint8)
    for _ in range(_ROUNDS):
        _nearest(sample, means, products, nearest)
        n, sums = sums_by_mean(sample, nearest, k)
        means = np.where(n[:, None] > 0, sums / np.maximum(n, 1)[:, None], means)
    return means


def _nearest(points, means, products, out):
    """Write the nearest mean of each point to `out`; `products` is room for their products."""
    products = np.matmul(points, means.T, out=products[: len(points)])
    best_means(products, -0.5 * np.einsum("kd,kd->k", means, means), out)
