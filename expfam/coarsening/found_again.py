"""Groups of clusters that are found again: trees and their agreement, from shared rows.

Several fits label the same rows. `known_tree` merges clusters that the other fits do not tell apart, and
`cut_agreements` compares all cuts of two trees at once. No row is read: everything follows from the numbers of rows
that clusters of two fits share. Trees are SciPy's linkage matrices, as `Mixture.coarsening_` is one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from expfam.coarsening.linkages import linkage_of, node_leaves, sums_of_squares
from expfam.structures.merging.known_merges import known_merges

if TYPE_CHECKING:
    from collections.abc import Sequence

    from expfam.protocols import Floats


def shared_rows(
    labels_a: npt.ArrayLike, labels_b: npt.ArrayLike, shape: tuple[int, int], weight: npt.ArrayLike | None = None
) -> Floats:
    """Return how many rows the clusters of two partitions share: (A, B) float64.

    Parameters
    ----------
    labels_a, labels_b : (N,) array_like of int
        From 0 to A - 1, and to B - 1.
    shape : (A, B)
    weight : (N,) array_like of float, optional
        How often each row counts.

    Examples
    --------
    >>> from expfam.coarsening.found_again import shared_rows
    >>> shared_rows([0, 0, 1], [1, 1, 0], (2, 2)).tolist()
    [[0.0, 2.0], [1.0, 0.0]]
    """
    a, b = np.asarray(labels_a, dtype=np.intp), np.asarray(labels_b, dtype=np.intp)
    counts = np.bincount(a * shape[1] + b, weights=weight, minlength=shape[0] * shape[1])
    return counts.reshape(shape).astype(np.float64)


def known_tree(tables: Sequence[Floats], classes: npt.NDArray[np.integer] | None = None) -> Floats:
    """Merge first the clusters that other fits separate least: (K - 1, 4) float64.

    Let the random variable Z say which of the clusters a and b a row of them belongs to. Then h(a, b) is the entropy of
    Z times the number of rows, nats, and i(a, b) is the mutual information of Z and the cluster of the row in another
    fit, times the number of rows, on average over the other fits. Each merge joins the pair with the least i / sqrt(h).

    Parameters
    ----------
    tables : sequence of (K, K') array_like
        Rows that the K clusters share with those of each other fit, at least one. Each row of a table has the same sum,
        above 0, in all tables.
    classes : (K,) int ndarray, optional
        Known class of each cluster, -1 for none; clusters of two classes are joined last.

    Returns
    -------
    (K - 1, 4) float64 ndarray
        Merges in SciPy's convention. The height is i / sqrt(h), nats of all rows to the power of a half, made
        non-decreasing.

    Examples
    --------
    >>> from expfam.coarsening.found_again import known_tree
    >>> known_tree([[[5, 0], [5, 0], [0, 9]]])[:, :2].tolist()
    [[0.0, 1.0], [2.0, 3.0]]
    """
    wide = np.ascontiguousarray(np.hstack([np.asarray(table, dtype=np.float64) for table in tables]))
    pairs, height = known_merges(wide, len(tables), np.full(len(wide), -1) if classes is None else classes)
    return linkage_of(pairs, -np.diff(height, prepend=0.0))


def cut_agreements(tree_a: Floats, tree_b: Floats, table: Floats) -> Floats:
    """Return the adjusted Rand index of all cuts of two trees: (A, B) float64.

    Parameters
    ----------
    tree_a : (A - 1, 4) array
    tree_b : (B - 1, 4) array
    table : (A, B) array
        Rows that their leaves share.

    Returns
    -------
    (A, B) float64 ndarray
        Place [s, t] is that of the partitions after s and t merges. Two partitions that are equal have 1, also where
        both are one group.

    Notes
    -----
    A merge of nodes a and b adds 2 <a, b> to the sum of squared counts, where <a, b> is the sum of products of their
    counts over the nodes of the other tree's cut. A merge of c and d there adds n_ac n_bd + n_ad n_bc to it. So the
    sums of all cuts are cumulative sums of one table of nodes: O(A B) in all.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam.coarsening.found_again import cut_agreements
    >>> tree = np.array([[0.0, 1.0, 1.0, 2.0], [2.0, 3.0, 2.0, 3.0]])
    >>> cut_agreements(tree, tree, np.diag([4.0, 4.0, 8.0])).diagonal().tolist()
    [1.0, 1.0, 1.0]
    """
    below_a, below_b = node_leaves(tree_a), node_leaves(tree_b)
    A, B = table.shape
    nodes = below_a @ table @ below_b.T
    a, b = (tree_a[:, place].astype(np.intp) for place in (0, 1))
    c, d = (tree_b[:, place].astype(np.intp) for place in (0, 1))
    steps = np.empty((A, B))
    steps[0, 0] = (table**2).sum()
    steps[1:, 0] = 2.0 * (nodes[a, :B] * nodes[b, :B]).sum(axis=1)
    steps[0, 1:] = 2.0 * (nodes[:A, c] * nodes[:A, d]).sum(axis=0)
    steps[1:, 1:] = 2.0 * (nodes[np.ix_(a, c)] * nodes[np.ix_(b, d)] + nodes[np.ix_(a, d)] * nodes[np.ix_(b, c)])
    both = steps.cumsum(axis=0).cumsum(axis=1)
    own_a, own_b = sums_of_squares(tree_a, table.sum(axis=1)), sums_of_squares(tree_b, table.sum(axis=0))
    return _adjusted_rand(both, own_a[:, None], own_b, table.sum())


def _adjusted_rand(both, own_a, own_b, n):
    """Return the adjusted Rand index of sums of squares, 1 for equal partitions."""
    pairs, in_a, in_b, every = (both - n) / 2, (own_a - n) / 2, (own_b - n) / 2, n * (n - 1) / 2
    expected = in_a * in_b / every if every else 0.0
    range_ = (in_a + in_b) / 2 - expected
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(range_ > 1e-12 * max(every, 1.0), (pairs - expected) / range_, 1.0)
