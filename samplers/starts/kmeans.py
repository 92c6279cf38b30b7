"""Starting labels from k-means: Lloyd runs from greedy k-means++ seeds.

Distances are those between the coordinates of `Rows`; sparse rows of more than 64 columns are projected to 64. Runs are
numbered. A run reads its own random numbers, so it never depends on the others, on threads or on labels made before. A
run on M rows costs O(M K C) for each pass and for each trial of a seed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from expfam.model.data import Dataset
from expfam.samplers.geometry.coordinates import Rows
from expfam.structures.ground.rng import UniformStream, generator
from expfam.structures.ground.threads import run as run_tasks
from expfam.structures.rows.kmeans import RowBlocks, RowsInPlace, RowTiles, nearest_centres

_FEWEST_ROWS = 20_000
_BLOCK_ROWS = 4096  # coordinates of more rows are made block by block
_ROWS_A_CLUSTER = 20
_RUN_UNIT, _SAMPLE_UNIT, _SEED_UNIT = 5, 6, 11  # streams of the purpose "start"
_SEED_ROWS, _SEED_TRIALS = 8, 2  # rows for each seed among which seeds of many clusters are picked, and tried


def lloyd_labels(
    data: Dataset,
    K: int,
    *,
    seed: int,
    run: int,
    rows: npt.ArrayLike | RowTiles | None = None,
    n_trials: int | None = None,
    n_threads: int | None = None,
) -> npt.NDArray[np.int32]:
    """Make labels of rows by one run of k-means.

    Parameters
    ----------
    data : Dataset
        The weights of its rows are above 0; see `Dataset.counted`.
    K : int
        Number of clusters, at least 1. There are fewer where there are fewer distinct rows.
    seed : int
    run : int
        Number of the run, at least 0; runs of different numbers are independent.
    rows : (M,) array_like of int or RowTiles, optional
        The rows of the data that are divided, all if not given. Several runs on the same rows cost less with their
        `row_tiles`, which are made once.
    n_trials : int, optional
        Rows that are tried for each seed, see `RowTiles.seeds`. Of many clusters the seeds take most of the time.
    n_threads : int or None
        The labels do not depend on it.

    Returns
    -------
    (M,) int32 ndarray
        Numbers from 0 without gaps.

    Examples
    --------
    >>> from expfam import Dataset, DiagonalGaussian
    >>> from expfam.samplers.starts.kmeans import lloyd_labels
    >>> data = Dataset([[0.0], [0.1], [8.0], [8.1]], DiagonalGaussian())
    >>> labels = lloyd_labels(data, 2, seed=0, run=0)
    >>> labels[0] == labels[1] != labels[2] == labels[3]
    np.True_
    """
    tiles = rows if isinstance(rows, RowTiles) else row_tiles(data, seed=seed, rows=rows, n_threads=n_threads)
    return _run(tiles, K, seed, run, n_threads, n_trials)[0]


def many_labels(
    data: Dataset,
    K: int,
    *,
    seed: int,
    run: int,
    n_threads: int | None = None,
) -> npt.NDArray[np.int32]:
    """Make labels of many clusters by one run of k-means whose seeds come from 8 K rows.

    To pick seeds among all rows takes as long as all passes. A sample of a few rows for each cluster has as good ones,
    while passes over the sample alone would leave more groups in one cluster than passes over all rows do.

    Parameters
    ----------
    data, seed, run, n_threads
        As of `lloyd_labels`.
    K : int
        Number of clusters, at least 1. There are fewer where there are fewer distinct rows in the sample.

    Returns
    -------
    (N,) int32 ndarray
        Numbers from 0 without gaps.

    Examples
    --------
    >>> from expfam import Dataset, DiagonalGaussian
    >>> from expfam.samplers.starts.kmeans import many_labels
    >>> data = Dataset([[0.0], [0.1], [8.0], [8.1]], DiagonalGaussian())
    >>> labels = many_labels(data, 2, seed=0, run=0)
    >>> labels[0] == labels[1] != labels[2] == labels[3]
    np.True_
    """
    coordinates = Rows(data, n_threads=n_threads)  # once: they follow from all rows
    rng = generator(seed, "start", unit=_SEED_UNIT, step=run)
    chosen = None
    if data.n_rows > _SEED_ROWS * K:
        chosen = np.sort(rng.choice(data.n_rows, _SEED_ROWS * K, replace=False, shuffle=False))
    tiles = row_tiles(data, seed=seed, rows=chosen, coordinates=coordinates, n_threads=n_threads)
    seeds = tiles.take(tiles.seeds(min(K, tiles.n_rows), rng, n_trials=_SEED_TRIALS, n_threads=n_threads))
    if chosen is not None:
        del tiles  # before those of all rows are made
        tiles = _tiles_of_all(coordinates, seed, n_threads)
    return tiles.lloyd(seeds, n_threads=n_threads)[0]


def _tiles_of_all(coordinates, seed, n_threads):
    """Store all rows; standardised rows of single precision are read anew in each pass."""
    rows = _rows_in_place(coordinates)
    if rows is None:
        return row_tiles(coordinates.data, seed=seed, coordinates=coordinates, n_threads=n_threads)
    return RowTiles(rows, weight=coordinates.data.weight, n_threads=n_threads)


def _rows_in_place(coordinates):
    """Return standardised rows of single precision, read where they lie; None for others."""
    X, standardised = coordinates.data.X, coordinates.standardised()
    if standardised is None or sparse.issparse(X) or X.dtype != np.float32 or not X.flags.c_contiguous:
        return None
    return RowsInPlace(lambda part: coordinates.dense(part, None), len(X), X, *standardised)


def row_tiles(
    data: Dataset,
    *,
    seed: int,
    rows: npt.ArrayLike | None = None,
    coordinates: Rows | None = None,
    n_threads: int | None = None,
) -> RowTiles:
    """Store the coordinates of rows for Lloyd runs.

    Parameters
    ----------
    data : Dataset
        The weights of its rows are above 0; see `Dataset.counted`.
    seed : int
        Decides the projection of sparse rows.
    rows : (M,) array_like of int, optional
        All rows if not given.
    coordinates : Rows, optional
        Those of the data, where they are made already.
    n_threads : int or None

    Returns
    -------
    RowTiles
    """
    coordinates = Rows(data, n_threads=n_threads) if coordinates is None else coordinates
    chosen = None if rows is None else np.asarray(rows)
    return _tiles_of(coordinates, chosen, coordinates.projection(seed), n_threads)


def _tiles_of(coordinates, chosen, project, n_threads):
    """Store the coordinates of all or of chosen rows; those of many are made in blocks."""
    data = coordinates.data
    weight = data.weight if chosen is None or data.weight is None else data.weight[chosen]
    n_rows = data.n_rows if chosen is None else len(chosen)
    rows: Any
    if project is None and n_rows > _BLOCK_ROWS:
        rows = RowBlocks(lambda part: coordinates.dense(part if chosen is None else chosen[part], None), n_rows)
    else:
        rows = coordinates.dense(slice(None) if chosen is None else chosen, project)
    return RowTiles(rows, weight=weight, n_threads=n_threads)


def kmeans_labels(data: Dataset, K: int, *, seed: int, n_threads: int | None = None) -> npt.NDArray[np.int32]:
    """Make labels of all rows by one run of k-means on at most 20,000 + 20 K random rows.

    Parameters
    ----------
    data : Dataset
        The weights of its rows are above 0; see `Dataset.counted`.
    K : int
        Number of clusters. There are fewer where the rows of the run have fewer distinct ones.
    seed : int
    n_threads : int or None
        The labels do not depend on it.

    Returns
    -------
    (N,) int32 ndarray
        Nearest centre of each row.

    Examples
    --------
    >>> from expfam import Dataset, DiagonalGaussian
    >>> from expfam.samplers.starts.kmeans import kmeans_labels
    >>> data = Dataset([[0.0], [0.1], [8.0], [8.1]], DiagonalGaussian())
    >>> labels = kmeans_labels(data, 2, seed=0)
    >>> labels[0] == labels[1] != labels[2] == labels[3]
    np.True_
    """
    n_sampled = _FEWEST_ROWS + _ROWS_A_CLUSTER * K
    if data.n_rows <= n_sampled:
        return lloyd_labels(data, K, seed=seed, run=0, n_threads=n_threads)
    rng = generator(seed, "start", unit=_SAMPLE_UNIT)
    coordinates = Rows(data, n_threads=n_threads)
    project = coordinates.projection(seed)
    chosen = np.sort(rng.choice(data.n_rows, n_sampled, replace=False, shuffle=False))
    centres = _run(_tiles_of(coordinates, chosen, project, n_threads), K, seed, 0, n_threads)[1]

    if (rows := _rows_in_place(coordinates)) is not None:
        return nearest_centres(rows, centres, n_threads=n_threads)

    def labels_of(start: int, stop: int) -> npt.NDArray[np.int32]:
        return nearest_centres(coordinates.dense(slice(start, stop), project), centres)

    return np.concatenate(run_tasks(labels_of, coordinates.blocks(centres.shape[1]), n_threads))


def _run(tiles, K, seed, run, n_threads, n_trials=None):
    rng = UniformStream(seed, "start", unit=_RUN_UNIT, step=run)
    seeds = tiles.seeds(min(K, tiles.n_rows), rng, n_trials=n_trials, n_threads=n_threads)
    return tiles.lloyd(tiles.take(seeds), n_threads=n_threads)
