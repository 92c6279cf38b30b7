"""Coordinates of rows in which squared distances are meaningful, and these distances.

The family says what the coordinates are. They are computed by block: O(N V) once, O(rows V) for each block.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from expfam.families.coordinates import StandardisedColumns, in_one_form, with_float64
from expfam.families.support import chosen_rows
from expfam.families.weighing import counted_rows
from expfam.structures.ground.rng import generator
from expfam.structures.ground.threads import rows_read_by, run
from expfam.structures.hashing.projection import sign_projection

if TYPE_CHECKING:
    from expfam.model.data import Dataset

_BLOCK_BYTES = 1 << 24
_PROJECTED = 64
_TILE_ROWS = 1024
SEEDS_AT_ONCE = 256


def nearest_of_all(
    points: npt.NDArray[np.floating], seeds: npt.NDArray[np.floating], n_threads: int | None
) -> npt.NDArray[np.intp]:
    """Find the nearest seed of each row by blocks of rows: (N,) intp.

    Parameters
    ----------
    points : (N, C) ndarray
        Rows, in single or double precision.
    seeds : (M, C) ndarray
        In single or double precision.
    n_threads : int or None
        Number of threads; the result does not depend on it.
    """
    seeds = seeds.astype(np.float64)
    step = max(1, _BLOCK_BYTES // (8 * (min(seeds.shape[0], SEEDS_AT_ONCE) + seeds.shape[1])))
    tasks = [(points, a, a + step, seeds) for a in range(0, points.shape[0], step)]
    return np.concatenate([np.empty(0, dtype=np.intp), *run(_nearest_of, tasks, n_threads)])


def _nearest_of(points, start, stop, seeds):
    return nearest(points[start:stop].astype(np.float64), seeds)


def nearest(block: Any, seeds: Any) -> npt.NDArray[np.intp]:
    """Find the nearest seed of each row: (m,) intp; of equally near seeds the first one."""
    found = NearestSeeds(block)
    for start in range(0, seeds.shape[0], SEEDS_AT_ONCE):
        found.add(seeds[start : start + SEEDS_AT_ONCE])
    return found.index


class NearestSeeds:
    """The nearest seed of each row of `points` (n, C), while seeds are added.

    Dense rows are compared with further seeds in single precision first, with a bound of its rounding error. Rows that
    may be nearer to a new seed are compared again in double precision, so the result has double precision. The more
    seeds there are, the fewer rows are near to a new one.

    Attributes
    ----------
    distance : (n,) float64 ndarray
        Squared distance to the nearest seed; infinite before the first seed.
    index : (n,) intp ndarray
        Number of the nearest seed in the order of adding, the first of equally near ones; -1 before the first seed.
    n_seeds : int
    """

    def __init__(self, points: Any) -> None:
        self.points, self.norms, self.n_seeds = points, squared_norms(points), 0
        self.distance, self.index = np.full(points.shape[0], np.inf), np.full(points.shape[0], -1, dtype=np.intp)
        self._single: Any = None
        if not sparse.issparse(points):
            self._single = np.ones((points.shape[0], points.shape[1] + 1), dtype=np.float32)
            with np.errstate(over="ignore"):  # infinite entries never rule a row out
                self._single[:, :-1] = points

    def add(self, seeds: Any, n_threads: int | None = None) -> None:
        """Compare all rows with further seeds: (m, C), dense or CSR like the rows.

        Parameters
        ----------
        seeds : (m, C) ndarray or CSR
        n_threads : int or None
            Number of threads; the result does not depend on it.
        """
        table, reach = None, 0.0
        if self._single is not None and self.n_seeds:
            square = squared_norms(seeds)
            reach = np.sqrt(square.max(initial=0.0))
            with np.errstate(over="ignore"):
                table = np.concatenate([-2.0 * seeds.T, square[None]]).astype(np.float32)
        n_rows = self.points.shape[0]
        tiles = [(seeds, table, reach, a, min(a + _TILE_ROWS, n_rows)) for a in range(0, n_rows, _TILE_ROWS)]
        run(self._add, tiles, n_threads)
        self.n_seeds += seeds.shape[0]

    def _add(self, seeds, table, reach, start, stop):
        rows = np.arange(start, stop)
        if table is not None:
            rows = rows[self._may_be_nearer(table, reach, start, stop)]
            if not rows.size:
                return
        distance = squared_distances(self.points[rows], self.norms[rows], seeds)
        near = distance.argmin(axis=1)
        distance = distance[np.arange(rows.size), near]
        is_nearer = distance < self.distance[rows]
        rows = rows[is_nearer]
        self.distance[rows], self.index[rows] = distance[is_nearer], self.n_seeds + near[is_nearer]

    def _may_be_nearer(self, table, reach, start, stop):
        """Return whether one of the seeds may be nearer than all earlier ones: (rows,) bool."""
        norms = self.norms[start:stop]
        with np.errstate(over="ignore", invalid="ignore"):  # the comparison below keeps rows that are not finite
            least = np.min(self._single[start:stop] @ table, axis=1)
            # twice the rounding error of C + 4 operations on |s|^2 - 2 <x, s>
            margin = (len(table) + 3) * 2.0**-23 * (np.sqrt(norms) + reach) ** 2
            return ~(least > self.distance[start:stop] - norms + margin)


def squared_norms(points: Any) -> npt.NDArray[np.float64]:
    """Compute the squared lengths of dense or sparse rows: (m,)."""
    return (
        np.asarray(points.multiply(points).sum(axis=1)).ravel() if sparse.issparse(points) else (points**2).sum(axis=1)
    )


def squared_distances(points: Any, norms: npt.NDArray[np.float64], seeds: Any) -> npt.NDArray[np.float64]:
    """Compute the squared distances of rows to seeds: (m, K); those within rounding error are 0.

    Parameters
    ----------
    points : (m, C) float64 ndarray or CSR
    norms : (m,) float64 ndarray
        Squared lengths of the rows, see `squared_norms`.
    seeds : (K, C) float64 ndarray or CSR
    """
    product = points @ seeds.T
    product = product.toarray() if sparse.issparse(product) else product
    scale = norms[:, None] + squared_norms(seeds)
    d = scale - 2.0 * product
    d[d < 1e-12 * scale] = 0.0
    return d


class Rows:
    """Rows of data in coordinates in which squared distances are meaningful.

    Threads read the rows from which the coordinates follow, if `n_threads` is given.
    """

    def __init__(self, data: Dataset, *, n_threads: int | None = None) -> None:
        rows, given = counted_rows(data.family.coordinate_map, data.X, data.weight)
        with nullcontext() if n_threads is None else rows_read_by(n_threads):
            self._map = data.family.coordinate_map(rows, **given)
        self.data = data
        self._is_discrete = data.family.is_discrete

    def take(self, rows: Any) -> Any:
        """Compute the coordinates of some rows: dense float64 or CSR.

        Those of discrete data are CSR where they have more than 64 columns, whatever the data are.
        """
        points = self._map(chosen_rows(self.data.X, rows))
        points = points if points.dtype == np.float64 else with_float64(points)
        return in_one_form(points, widest=_PROJECTED) if self._is_discrete else points

    def standardised(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]] | None:
        """Return centres and scales (V,) if coordinates are ``(X - centre) * scale``, else None."""
        known = self._map
        is_plain = isinstance(known, StandardisedColumns) and not (known.may_miss or known.of_logs)
        return (known.centre, known.scale) if is_plain and not self._is_discrete else None

    def blocks(self, n_columns: int) -> list[tuple[int, int]]:
        """Return bounds of blocks of rows that are small enough for temporaries of `n_columns`.

        They depend on sizes only.
        """
        width = n_columns + (0 if self.data.is_sparse else max(self.data.n_features, self.data.n_statistics))
        step = max(1, _BLOCK_BYTES // (8 * width))
        return [(a, min(a + step, self.data.n_rows)) for a in range(0, self.data.n_rows, step)]

    def embedding(self, seed: int, n_threads: int | None) -> npt.NDArray[np.float32]:
        """Compute the coordinates of all rows: (N, C), dense.

        Sparse coordinates of more than 64 columns, such as those of all discrete data, are projected to 64.

        Parameters
        ----------
        seed : int
            Seed of the projection.
        n_threads : int or None
            Number of threads; the result does not depend on it.
        """
        first = self.take(slice(0, 1))
        project = _projection(first, seed)
        width = first.shape[1] if project is None else project.shape[1]
        out = np.empty((self.data.n_rows, width), dtype=np.float32)
        run(self._embed, [(out, project, a, b) for a, b in self.blocks(width)], n_threads)
        return out

    def projection(self, seed: int) -> Any:
        """Draw the matrix that projects sparse coordinates of more than 64 columns to 64.

        It is None for others.
        """
        return _projection(self.take(slice(0, 1)), seed)

    def dense(self, rows: Any, project: Any) -> npt.NDArray[np.float64]:
        """Compute the coordinates of some rows, projected unless `project` is None: dense."""
        return _dense(self.take(rows), project)

    def all_dense(self, seed: int) -> npt.NDArray[np.float64]:
        """Compute the coordinates of all rows at once, projected like those of `embedding`: dense."""
        block = self.take(slice(None))
        return _dense(block, _projection(block, seed))

    def _embed(self, out, project, start, stop):
        out[start:stop] = self.dense(slice(start, stop), project)


def _projection(points, seed):
    """Draw the matrix that projects coordinates, see `Rows.projection`."""
    if not sparse.issparse(points) or points.shape[1] <= _PROJECTED:
        return None
    return sign_projection(points.shape[1], generator(seed, "start", unit=1), n_columns=_PROJECTED)


def _dense(block, project):
    block = block if project is None else block @ project
    return block.toarray() if sparse.issparse(block) else block
