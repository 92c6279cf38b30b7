"""Merges of clusters as SciPy's linkage matrices, and their cuts."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from expfam.model.partitions import by_first_appearance


def linkage_of(pairs: npt.NDArray[np.int64], rises: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return merges of slots as SciPy's linkage matrix: (K - 1, 4) float64.

    Parameters
    ----------
    pairs : (K - 1, 2) array of int
        Slots of each merge; the merged cluster has the first one.
    rises : (K - 1,) array of float
        By how much the log joint rises with each merge, nats.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam.coarsening.linkages import linkage_of
    >>> linkage_of(np.array([[0, 2], [0, 1]]), np.array([-2.0, -3.5])).tolist()
    [[0.0, 2.0, 2.0, 2.0], [1.0, 3.0, 5.5, 3.0]]
    """
    K = len(pairs) + 1
    cluster, size = np.arange(K), np.ones(K)
    merges = np.empty((K - 1, 4))
    for t, (k, other) in enumerate(pairs.tolist()):
        merges[t, :2] = sorted((cluster[k], cluster[other]))
        size[k] += size[other]
        merges[t, 3], cluster[k] = size[k], K + t
    merges[:, 2] = np.maximum(np.maximum.accumulate(-np.cumsum(rises)), 0.0)
    return merges


def cut(merges: npt.NDArray[np.float64], n_clusters: int) -> npt.NDArray[np.int64]:
    """Return the cluster of each leaf after the first merges of a linkage: (K,) int64.

    Clusters are numbered by first appearance.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam.coarsening.linkages import cut
    >>> cut(np.array([[0.0, 2.0, 2.0, 2.0], [1.0, 3.0, 5.5, 3.0]]), 2).tolist()
    [0, 1, 0]
    """
    K = len(merges) + 1
    top = np.arange(2 * K - 1)
    for t in reversed(range(K - n_clusters)):
        top[merges[t, :2].astype(np.intp)] = top[K + t]
    return by_first_appearance(top[:K])[1].astype(np.int64)


def node_leaves(tree: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return which leaves are below each node of a tree: (2 K - 1, K) float64 of 0 and 1."""
    K = len(tree) + 1
    below = np.zeros((2 * K - 1, K))
    below[:K] = np.eye(K)
    for t, (a, b) in enumerate(tree[:, :2].astype(np.intp).tolist()):
        below[K + t] = below[a] + below[b]
    return below


def sums_of_squares(tree: npt.NDArray[np.float64], sizes: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the sum of squared sizes after each number of merges: (K,) float64."""
    of_nodes = node_leaves(tree) @ sizes
    a, b = (tree[:, place].astype(np.intp) for place in (0, 1))
    return np.cumsum(np.append((sizes**2).sum(), 2.0 * of_nodes[a] * of_nodes[b]))
