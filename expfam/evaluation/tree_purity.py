"""Dendrogram purity: how well a tree agrees with given classes at all of its heights."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from expfam.amounts import counted
from expfam.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    import numpy.typing as npt


def dendrogram_purity(labels_true: npt.ArrayLike, tree: Any) -> float:
    """Return the mean purity of the smallest subtree that holds two random rows of a class.

    Two rows of one class are drawn, all such pairs with equal probability. The smallest subtree that holds both has
    some share of rows of their class; the result is the mean of this share.

    Parameters
    ----------
    labels_true : (N,) array_like
        Class of each row, of any type.
    tree : BayesianHierarchy or (M, 2) or (M, 4) array_like
        A fitted hierarchy, or the merges of N leaves, one for each row: pairs of node numbers as scikit-learn's
        `children_`, or a linkage matrix of SciPy, whose other two columns are not read. Merge m makes node N + m.

    Returns
    -------
    float
        In (0, 1]. It is 1.0 if each class fills a subtree of its own. Where one merge joins all rows, it is the mean
        share of a class in all rows.

    Raises
    ------
    DataError
        If no two rows share a class, if rows and leaves differ in number, or if the merges make no tree.

    See Also
    --------
    purity : of a partition.

    Notes
    -----
    Heller and Ghahramani 2005, "Bayesian hierarchical clustering", section 5. Rows that share a leaf of a hierarchy
    have that leaf as their smallest subtree. O(N log N) time.

    Examples
    --------
    >>> from scipy.cluster.hierarchy import linkage
    >>> from expfam import dendrogram_purity
    >>> dendrogram_purity(["a", "a", "b", "b"], linkage([[0.0], [1.0], [5.0], [6.0]]))
    1.0
    >>> dendrogram_purity(["a", "b", "a", "b"], [[0, 1], [2, 3], [4, 5]])
    0.5
    """
    classes = np.asarray(labels_true)
    if classes.ndim != 1 or not classes.size:
        raise DataError(f"dendrogram_purity: labels_true must have shape (N,), N >= 1; got shape {classes.shape}")
    names, classes = np.unique(classes, return_inverse=True)
    if len(names) == len(classes):
        raise DataError(
            f"dendrogram_purity: no two of {counted(len(classes), 'row')} share a class, so there is no pair to judge"
        )
    merges, leaf = _merges_and_leaves(tree, len(classes))
    n_leaves = len(merges) + 1
    counts: list[dict[int, int]] = [{} for _ in range(n_leaves)]
    for node, k in zip(leaf.tolist(), classes.tolist()):
        counts[node][k] = counts[node].get(k, 0) + 1
    shares = [share for own in counts for share in _pairs_in_leaf(own)]
    for left, right in merges.tolist():
        small, large = sorted((counts[left], counts[right]), key=len)
        size = sum(small.values()) + sum(large.values())
        for k, n in small.items():
            if other := large.get(k, 0):
                shares.append(n * other * (n + other) / size)
            large[k] = n + other
        counts.append(large)
        counts[left] = counts[right] = {}
    n_pairs = sum(math.comb(int(n), 2) for n in np.bincount(classes))
    return math.fsum(shares) / n_pairs


def _pairs_in_leaf(counts):
    """Yield what the pairs within one leaf add, class by class."""
    size = sum(counts.values())
    for n in counts.values():
        if n > 1:
            yield math.comb(n, 2) * n / size


def _merges_and_leaves(tree, n_rows):
    """Return the pairs of nodes that are merged, and the leaf of each row."""
    leaf: npt.NDArray[Any] | Sequence[int] = np.arange(n_rows)
    if hasattr(tree, "children_"):
        leaf, tree = np.asarray(getattr(tree, "leaf_", leaf)), tree.children_
    merges = np.asarray(tree)
    if merges.ndim != 2 or merges.shape[1] not in (2, 4):
        raise DataError(
            "dendrogram_purity: tree must be a fitted BayesianHierarchy, pairs of nodes (M, 2), or a linkage matrix"
            f" (M, 4); got shape {merges.shape}"
        )
    if len(leaf) != n_rows:
        raise DataError(
            f"dendrogram_purity: labels_true has {counted(n_rows, 'row')}, the tree was fitted to {len(leaf)}"
        )
    n_leaves = int(leaf.max()) + 1
    if len(merges) != n_leaves - 1:
        raise DataError(
            f"dendrogram_purity: {counted(n_leaves, 'leaf needs', 'leaves need')} {counted(n_leaves - 1, 'merge')} to"
            f" be one tree; got {len(merges)}"
        )
    pairs = merges[:, :2].astype(np.int64)
    used = np.sort(pairs.ravel())
    too_late = np.flatnonzero(pairs.max(axis=1, initial=-1) >= n_leaves + np.arange(len(pairs)))
    if not np.array_equal(used, np.arange(2 * len(pairs))) or too_late.size or not np.array_equal(pairs, merges[:, :2]):
        where = f"merge {too_late[0]} takes a node that is made later" if too_late.size else "a node is merged twice"
        leaves = counted(n_leaves, "leaf", "leaves")
        raise DataError(f"dendrogram_purity: the merges make no tree over {leaves}: {where}")
    return pairs, leaf
