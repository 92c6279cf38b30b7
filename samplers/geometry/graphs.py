"""Graphs of near data, whose edges are the merges that a hierarchy considers first."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from expfam.errors import CapabilityError
from expfam.families.support import check_structure
from expfam.samplers.geometry.coordinates import Rows, squared_norms
from expfam.samplers.geometry.hash_tables import HashTables
from expfam.structures.cover_tree.tree import CoverTree
from expfam.structures.ground.threads import run, segments

if TYPE_CHECKING:
    from expfam.model.data import Dataset

_BLOCK = 512  # rows of a block of products


def neighbour_graph(data: Dataset, n_neighbors: int, *, n_threads: int | None = None) -> Any:
    """Connect each datum with its nearest neighbours in the coordinates of `Rows`.

    A cover tree finds them; for sparse counts the products of rows that share a word. Multinomial and sparse rows are
    compared by direction, so that their lengths do not matter.

    Parameters
    ----------
    data : Dataset
    n_neighbors : int
        Number of neighbours of a datum, at most N - 1.
    n_threads : int or None
        Number of threads; the result does not depend on it.

    Returns
    -------
    (N, N) CSR
        With entries 1 and not symmetric; a datum is no neighbour of its own.
    """
    N, k = data.n_rows, min(n_neighbors, data.n_rows - 1)
    if k < 1:
        return sparse.csr_array((N, N))
    points = _points(data, n_threads)
    if sparse.issparse(points):
        return _by_shared_words(points, k, n_threads)
    tree = CoverTree(points, n_threads=n_threads)
    found = run(lambda a, b: tree.knn(points[a:b], k + 1)[1], segments(N), n_threads)
    near = np.concatenate(found)
    own = near == np.arange(N)[:, None]
    own[~own.any(axis=1), -1] = True  # a datum with many copies may not be among its own nearest ones
    return sparse.csr_array((np.ones(N * k), near[~own].astype(np.int32), np.arange(0, N * k + 1, k)), shape=(N, N))


def _by_shared_words(points, k, n_threads):
    """Connect each sparse row with the rows of the nearest directions, by products.

    There are few products if words are rare. Rows without words have no edges.
    """
    words = sparse.csr_array(points.T)
    N = points.shape[0]
    tasks = [(points, words, a, min(a + _BLOCK, N), k) for a in range(0, N, _BLOCK)]
    found = run(_block_by_shared_words, tasks, n_threads)
    i, j = (np.concatenate(part) for part in zip(*found))
    return sparse.csr_array((np.ones(len(i)), (i, j)), shape=(N, N))


def _block_by_shared_words(points, words, start, stop, k):
    product = sparse.csr_array(points[start:stop] @ words)
    large = _largest(product, k + 1)  # a row itself is one of them
    row = np.repeat(np.arange(start, stop), np.diff(product.indptr))[large]
    column, value = product.indices[large], product.data[large]
    other = row != column
    row, column, value = row[other], column[other], value[other]
    order = np.lexsort((column, -value, row))  # in each row the largest product first, ties by column
    row, column = row[order], column[order]
    rank = np.arange(len(row)) - np.searchsorted(row, row)
    return row[rank < k], column[rank < k]


def _largest(product, k):
    """Return the places of the k largest entries of each row, and of ties with the last one.

    To sort all entries takes ten times as long.
    """
    places = []
    for start, stop in zip(product.indptr[:-1], product.indptr[1:]):
        entries = product.data[start:stop]
        if len(entries) > k:
            least = np.partition(entries, len(entries) - k)[len(entries) - k]
            places.append(start + np.flatnonzero(entries >= least))
        else:
            places.append(np.arange(start, stop))
    return np.concatenate(places)


def hash_graph(
    data: Dataset, n_neighbors: int, *, n_tables: int = 8, seed: int = 0, n_threads: int | None = None
) -> Any:
    """Connect each datum with the nearest data that hash tables find.

    The tables are those of `HashTables`: weighted MinHash for counts, categories and binary data, signs of random
    projections for other data. The data of a bucket are sorted by the keys of the next table. Each datum is compared
    with the `n_neighbors` data before and after it, and then with the neighbours of its neighbours.

    The distances are as in `neighbour_graph`. While that function finds all nearest data, this one misses some, fewer
    with more tables; it computes O(N n_neighbors (n_tables + n_neighbors)) distances, even if many data share a word.

    Parameters
    ----------
    data : Dataset
    n_neighbors : int
        Largest number of neighbours of a datum.
    n_tables : int
        Number of hash tables.
    seed : int
        Seed of the tables.
    n_threads : int or None
        Number of threads; the result does not depend on it.

    Returns
    -------
    (N, N) CSR
        As in `neighbour_graph`.

    Raises
    ------
    CapabilityError
        The data are a single column of real numbers: signs only tell on which side of the mean a datum lies.
    """
    tables = HashTables(n_tables=n_tables)
    tables.check(data)
    if data.n_features == 1 and tables.chosen(data) == "sign":
        raise CapabilityError(
            f"hashes by signs need two columns or more; family {data.family.name!r} got one: 'knn' costs little"
        )
    N, k = data.n_rows, min(n_neighbors, data.n_rows - 1)
    if k < 1:
        return sparse.csr_array((N, N))
    points = _points(data, n_threads)
    keys = tables.keys(data, seed=seed, epoch=0, n_threads=n_threads)
    orders = run(_bucket_order, [(keys, table) for table in range(n_tables)], n_threads)
    met = partial(_met, keys, orders, np.argsort(orders, axis=1), k)
    near = _nearest_of(met, points, k, n_threads)
    near = _nearest_of(partial(_neighbours_of, near), points, k, n_threads)
    i, place = np.nonzero(near >= 0)
    return sparse.csr_array((np.ones(len(i)), (i, near[i, place])), shape=(N, N))


def _points(data, n_threads):
    """Compute the coordinates to compare; multinomial and sparse rows get unit length."""
    rows = Rows(data)
    if data.family.has_counts and sparse.issparse(rows.take(slice(0, 1))):
        points = rows.take(slice(None))
        lengths = np.sqrt(squared_norms(points))
        return sparse.csr_array(points.multiply(1.0 / np.where(lengths > 0, lengths, 1.0)[:, None]))
    points = rows.embedding(0, n_threads)
    if getattr(data.family, "count_model", None) == "multinomial":
        lengths = np.linalg.norm(points, axis=1, keepdims=True)
        points /= np.where(lengths > 0, lengths, 1.0)
    return points


def _bucket_order(keys, table):
    """Sort the data by their keys in a table, and those of one bucket by the next table."""
    following = (table + 1) % keys.shape[1]
    return np.lexsort((keys[:, following], keys[:, table]))


def _met(keys, orders, places, k, start, stop):
    """Find the data within k places of each row in its buckets: (m, 2 k n_tables), -1 if none."""
    shifts = np.concatenate([np.arange(-k, 0), np.arange(1, k + 1)])
    found = []
    for table, order in enumerate(orders):
        place = places[table, start:stop, None] + shifts
        other = order[np.clip(place, 0, len(order) - 1)]
        is_met = (place >= 0) & (place < len(order)) & (keys[other, table] == keys[start:stop, table, None])
        found.append(np.where(is_met, other, -1))
    return np.concatenate(found, axis=1)


def _neighbours_of(near, start, stop):
    """Return the neighbours of each row and their neighbours: (m, k + k**2), -1 for none."""
    own = near[start:stop]
    theirs = np.where(own[:, :, None] >= 0, near[own], -1).reshape(len(own), -1)
    return np.concatenate([own, theirs], axis=1)


def _nearest_of(candidates, points, k, n_threads):
    """Choose the k nearest candidates of each row: (N, k) int64, -1 for none."""
    N = points.shape[0]
    tasks = [(candidates, points, a, min(a + _BLOCK, N), k) for a in range(0, N, _BLOCK)]
    return np.concatenate(run(_block_nearest_of, tasks, n_threads))


def _block_nearest_of(candidates, points, start, stop, k):
    other = np.sort(candidates(start, stop), axis=1)
    other[:, 1:][other[:, 1:] == other[:, :-1]] = -1
    other[other == np.arange(start, stop)[:, None]] = -1
    row, column = np.nonzero(other >= 0)
    distance = np.full(other.shape, np.inf)
    distance[row, column] = _distances(points, start + row, other[row, column])
    chosen = np.argsort(distance, axis=1, kind="stable")[:, :k]  # ties by number
    return np.take_along_axis(np.where(np.isfinite(distance), other, -1), chosen, axis=1)


def _distances(points, i, j):
    """Compute squared distances of pairs of rows, or minus the product of sparse rows: (m,)."""
    if sparse.issparse(points):
        return -np.asarray(points[i].multiply(points[j]).sum(axis=1)).ravel()
    return ((points[i] - points[j]) ** 2).sum(axis=1)


def leaf_graph(graph: Any, leaf: npt.NDArray[np.int32]) -> Any:
    """Make the symmetric graph over leaves from a graph over data: (L, L) CSR.

    Two leaves have an edge if the graph over data has one between their data.

    Parameters
    ----------
    graph : (N, N) sparse matrix
        Its non-zero entries are edges.
    leaf : (N,) int32 ndarray
        Leaf of each datum.

    Raises
    ------
    ValueError
        The graph is not sparse, has another shape, or its indices do not fit its shape.
    """
    N = len(leaf)
    if not sparse.issparse(graph) or graph.shape != (N, N):
        found = graph.shape if hasattr(graph, "shape") else type(graph).__name__
        raise ValueError(f"candidates must be a sparse ({N}, {N}) matrix over the data; got {found}")
    check_structure(graph, owner="candidates")
    edges = sparse.coo_array(graph)
    i, j = leaf[edges.row[edges.data != 0]], leaf[edges.col[edges.data != 0]]
    i, j = np.concatenate([i, j])[np.tile(i != j, 2)], np.concatenate([j, i])[np.tile(i != j, 2)]
    L = int(leaf.max()) + 1
    joined = sparse.coo_array((np.ones(len(i), dtype=np.int8), (i, j)), shape=(L, L)).tocsr()
    joined.sum_duplicates()
    return joined
