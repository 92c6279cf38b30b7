"""Rows of data in coordinates in which squared distance makes sense, and the distances between them.

Standardised columns of real data, so that units and origin do not matter; square roots of counts, whose variance hardly
depends on the mean; other statistics as they are. Made by block: O(N V) once, O(rows V) for each block.
"""

import numpy as np
from scipy import sparse

from expfam.structures.ground.rng import generator
from expfam.structures.ground.threads import run
from expfam.structures.hashing.projection import sign_projection

_DISCRETE = ("counts", "categories", "binary")
_BLOCK_BYTES = 1 << 24
_PROJECTED = 64
_TILE_ROWS = 1024
SEEDS_AT_ONCE = 256


def nearest_of_all(points, seeds, n_threads):
    """Number of the nearest seed of each of many dense rows of either precision: (N,) intp."""
    seeds = seeds.astype(np.float64)
    step = max(1, _BLOCK_BYTES // (8 * (min(seeds.shape[0], SEEDS_AT_ONCE) + seeds.shape[1])))
    tasks = [(points, a, a + step, seeds) for a in range(0, points.shape[0], step)]
    return np.concatenate([np.empty(0, dtype=np.intp), *run(_nearest_of, tasks, n_threads)])


def _nearest_of(points, start, stop, seeds):
    return nearest(points[start:stop].astype(np.float64), seeds)


def nearest(block, seeds):
    """Number of the nearest seed of each row: (m,) intp, the first of several."""
    found = NearestSeeds(block)
    for start in range(0, seeds.shape[0], SEEDS_AT_ONCE):
        found.add(seeds[start : start + SEEDS_AT_ONCE])
    return found.index


class NearestSeeds:
    """The nearest of some seeds to each row, as seeds are added.

    Dense rows are compared with all seeds but the first ones in single precision, with a bound of its rounding, and
    those that it cannot rule out again in double; so what is found is that of double precision. The more seeds there
    are the fewer rows a further one comes near to.

    Parameters
    ----------
    points : (n, C) float64 ndarray or CSR

    Attributes
    ----------
    distance : (n,) float64 ndarray
        Squared, infinite before the first seed.
    index : (n,) intp ndarray
        Number of the seed in the order of adding, the first of several; -1 before the first seed.
    n_seeds : int
    """

    def __init__(self, points):
        self.points, self.norms, self.n_seeds = points, squared_norms(points), 0
        self.distance, self.index = np.full(points.shape[0], np.inf), np.full(points.shape[0], -1, dtype=np.intp)
        self._single = None
        if not sparse.issparse(points):
            self._single = np.ones((points.shape[0], points.shape[1] + 1), dtype=np.float32)
            with np.errstate(over="ignore"):  # rows beyond single precision are never ruled out by it
                self._single[:, :-1] = points

    def add(self, seeds, n_threads=None):
        """Compare all rows with some more seeds, dense (m, C) or CSR as the rows are."""
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
        """Whether one of the seeds may be nearer than any before: (rows,) bool."""
        norms = self.norms[start:stop]
        with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is not ruled out
            least = np.min(self._single[start:stop] @ table, axis=1)
            # twice the rounding of C + 4 operations on |s|^2 - 2 <x, s>
            margin = (len(table) + 3) * 2.0**-23 * (np.sqrt(norms) + reach) ** 2
            return ~(least > self.distance[start:stop] - norms + margin)


def squared_norms(points):
    """Squared lengths of the rows, dense or sparse: (m,)."""
    return (
        np.asarray(points.multiply(points).sum(axis=1)).ravel() if sparse.issparse(points) else (points**2).sum(axis=1)
    )


def squared_distances(points, norms, seeds):
    """Squared distances (m, K); those within rounding of zero are zero."""
    product = points @ seeds.T
    product = product.toarray() if sparse.issparse(product) else product
    scale = norms[:, None] + squared_norms(seeds)
    d = scale - 2.0 * product
    d[d < 1e-12 * scale] = 0.0
    return d


class Rows:
    """Rows of data in coordinates in which squared distance makes sense; made by block."""

    def __init__(self, data):
        self.data, self.is_discrete = data, data.family.support in _DISCRETE
        if not self.is_discrete:
            self.centre, self.scale = _standardisation(data.X)

    def take(self, rows):
        """Block of rows, dense float64 or CSR."""
        if self.is_discrete:
            block = self.data.family.sufficient_statistics(self.data.X[rows])
            block = (
                sparse.csr_array(block, dtype=np.float64)
                if sparse.issparse(block)
                else np.array(block, dtype=np.float64)
            )
            return np.sqrt(block) if self.data.family.support == "counts" else block
        if self.data.is_sparse:
            return sparse.csr_array(self.data.X[rows], dtype=np.float64).multiply(self.scale[None]).tocsr()
        return (self.data.X[rows] - self.centre) * self.scale

    def blocks(self, n_columns):
        """Bounds of blocks of rows, cut by sizes alone, small enough for temporaries of so many columns."""
        width = n_columns + (0 if self.data.is_sparse else max(self.data.n_features, self.data.n_statistics))
        step = max(1, _BLOCK_BYTES // (8 * width))
        return [(a, min(a + step, self.data.n_rows)) for a in range(0, self.data.n_rows, step)]

    def embedding(self, seed, n_threads):
        """All rows in float32, dense; sparse ones of more columns than that are projected to 64: (N, C)."""
        first = self.take(slice(0, 1))
        project = None
        if sparse.issparse(first) and first.shape[1] > _PROJECTED:
            project = sign_projection(first.shape[1], generator(seed, "start", unit=1), n_columns=_PROJECTED)
        out = np.empty((self.data.n_rows, _PROJECTED if project is not None else first.shape[1]), dtype=np.float32)
        run(self._embed, [(out, project, a, b) for a, b in self.blocks(out.shape[1])], n_threads)
        return out

    def _embed(self, out, project, start, stop):
        block = self.take(slice(start, stop))
        block = block if project is None else block @ project
        out[start:stop] = block.toarray() if sparse.issparse(block) else block


def _standardisation(X):
    """Mean and inverse standard deviation of each column; constant columns get scale 0, sparse X is not centred."""
    mean = np.asarray(X.mean(axis=0, dtype=np.float64)).ravel()
    if sparse.issparse(X):
        level = np.asarray(X.multiply(X).mean(axis=0, dtype=np.float64)).ravel()
        variance = np.maximum(level - mean**2, 0.0)
    else:
        level, variance = mean**2, np.zeros_like(mean)
        step = max(1, _BLOCK_BYTES // (8 * X.shape[1]))
        for start in range(0, X.shape[0], step):
            variance += ((X[start : start + step] - mean) ** 2).sum(axis=0)
        variance /= X.shape[0]
    varies = variance > 1e-24 * level  # less is rounding of a constant
    return mean, np.where(varies, 1.0 / np.sqrt(np.where(varies, variance, 1.0)), 0.0)
