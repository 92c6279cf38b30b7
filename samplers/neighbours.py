"""Graphs over leaves whose edges are the merges that a hierarchy may try first."""

import numpy as np
from scipy import sparse

from expfam.samplers.coordinates import Rows
from expfam.structures._threads import run, segments
from expfam.structures.cover_tree import CoverTree

_BLOCK = 512  # rows of a block of products


def neighbour_graph(data, n_neighbors, *, n_threads=None):
    """Edges from each datum to its nearest ones in the coordinates of `Rows`.

    By a cover tree; between sparse counts by the products of rows that share a word.

    Parameters
    ----------
    data : Dataset
    n_neighbors : int
        Of each datum, itself not counted.
    n_threads : int or None

    Returns
    -------
    (N, N) CSR of float64
        Ones; not symmetric. Rows of counts are compared by direction, so that their lengths do not matter.

    Examples
    --------
    >>> from expfam import Dataset, SphericalGaussian
    >>> from expfam.samplers.neighbours import neighbour_graph
    >>> neighbour_graph(Dataset([[0.0], [1.0], [5.0]], SphericalGaussian()), 1).indices.tolist()
    [1, 0, 1]
    """
    N, k = data.n_rows, min(n_neighbors, data.n_rows - 1)
    if k < 1:
        return sparse.csr_array((N, N))
    if data.family.support == "counts" and data.is_sparse:
        return _by_shared_words(sparse.csr_array(Rows(data).take(slice(None))), k, n_threads)
    points = Rows(data).embedding(0, n_threads)
    if data.family.support == "counts":
        lengths = np.linalg.norm(points, axis=1, keepdims=True)
        points /= np.where(lengths > 0, lengths, 1.0)
    tree = CoverTree(points, n_threads=n_threads)
    found = run(lambda a, b: tree.knn(points[a:b], k + 1)[1], segments(N), n_threads)
    near = np.concatenate(found)
    own = near == np.arange(N)[:, None]
    own[~own.any(axis=1), -1] = True  # of many copies of a datum it may not be among the nearest
    return sparse.csr_array((np.ones(N * k), near[~own].astype(np.int32), np.arange(0, N * k + 1, k)), shape=(N, N))


def _by_shared_words(points, k, n_threads):
    """Nearest directions of sparse rows, by their products: few where words are rare. Rows without any have no edge."""
    lengths = np.sqrt(np.asarray(points.multiply(points).sum(axis=1))).ravel()
    points = sparse.csr_array(points.multiply(1.0 / np.where(lengths > 0, lengths, 1.0)[:, None]))
    words = sparse.csr_array(points.T)
    N = points.shape[0]
    tasks = [(points, words, a, min(a + _BLOCK, N), k) for a in range(0, N, _BLOCK)]
    found = run(_block_by_shared_words, tasks, n_threads)
    i, j = (np.concatenate(part) for part in zip(*found))
    return sparse.csr_array((np.ones(len(i)), (i, j)), shape=(N, N))


def _block_by_shared_words(points, words, start, stop, k):
    product = sparse.csr_array(points[start:stop] @ words)
    row = np.repeat(np.arange(start, stop), np.diff(product.indptr))
    other = row != product.indices
    row, column, value = row[other], product.indices[other], product.data[other]
    order = np.lexsort((column, -value, row))  # of each row the largest first, ties by number
    row, column = row[order], column[order]
    rank = np.arange(len(row)) - np.searchsorted(row, row)
    return row[rank < k], column[rank < k]


def leaf_graph(graph, leaf):
    """Symmetric graph over leaves with an edge wherever one joins data of theirs: (L, L) CSR.

    Parameters
    ----------
    graph : (N, N) sparse matrix
        Stored entries other than zero are edges.
    leaf : (N,) int32 ndarray
        Leaf of each datum.

    Raises
    ------
    ValueError
        For another shape.
    """
    N = len(leaf)
    if not sparse.issparse(graph) or graph.shape != (N, N):
        found = graph.shape if hasattr(graph, "shape") else type(graph).__name__
        raise ValueError(f"candidates must be a sparse ({N}, {N}) matrix over the data; got {found}")
    edges = sparse.coo_array(graph)
    i, j = leaf[edges.row[edges.data != 0]], leaf[edges.col[edges.data != 0]]
    i, j = np.concatenate([i, j])[np.tile(i != j, 2)], np.concatenate([j, i])[np.tile(i != j, 2)]
    L = int(leaf.max()) + 1
    joined = sparse.coo_array((np.ones(len(i), dtype=np.int8), (i, j)), shape=(L, L)).tocsr()
    joined.sum_duplicates()
    return joined
