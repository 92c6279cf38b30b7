"""The merges of a linkage matrix, as a dendrogram reads them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from expfam.amounts import counted


class LinkageTree:
    """Merges of K leaves in SciPy's convention, with the number of data below each node.

    Parameters
    ----------
    linkage : (K - 1, 4) array_like of float
        Such as `Mixture.coarsening_`.
    sizes : (K,) array_like
        Data of each leaf: numbers of rows, or sums of weights.

    Attributes
    ----------
    n_leaves : int
    children : (K - 1, 2) int64 ndarray
        Nodes joined by each merge; merge t makes node K + t.
    heights : (K - 1,) float64 ndarray
    counts : (2 K - 1,) ndarray
        Data below each node.
    roots : (1,) int64 ndarray

    Examples
    --------
    >>> from expfam.displays.linkage import LinkageTree
    >>> LinkageTree([[0, 2, 2.0, 2], [1, 3, 5.5, 3]], [4, 9, 3]).counts
    array([ 4,  9,  3,  7, 16])
    """

    def __init__(self, linkage: npt.ArrayLike, sizes: npt.ArrayLike) -> None:
        merges, sizes = np.asarray(linkage, dtype=np.float64), np.asarray(sizes)
        self.n_leaves = len(sizes)
        if merges.shape != (self.n_leaves - 1, 4):
            raise ValueError(
                f"a linkage of {counted(self.n_leaves, 'leaf', 'leaves')} has shape ({self.n_leaves - 1}, 4); got "
                f"{merges.shape}"
            )
        self.children, self.heights = merges[:, :2].astype(np.int64), merges[:, 2]
        self.counts = np.concatenate([sizes, np.zeros(len(merges), dtype=sizes.dtype)])
        for node, (i, j) in enumerate(self.children.tolist(), start=self.n_leaves):
            self.counts[node] = self.counts[i] + self.counts[j]
        self.roots = np.array([2 * self.n_leaves - 2])
