"""Rows that belong together in a local step: each link group is one item.

Every row of a group has the mean statistics of the group, and its scores times the weight of the group before the
softmax. So all rows of a group get the same responsibilities, those of one item with the weight and the sums of its
rows. Entropy and log sum exp count once for a group: each row has its share of the weight there. The rows of a group
may lie in different blocks and batches; between two updates of a memoized pass their responsibilities then differ, and
the bound stays below that of their mean, as entropy is concave. So it never falls.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

if TYPE_CHECKING:
    from expfam.model.data import Dataset
    from expfam.samplers.variational.features import PhiBlocks

_BLOCK_ROWS = 4096


class LinkedRows:
    """Blocks of statistics in which linked rows have the mean of their group.

    Other attributes are those of `phi`: the coordinates, and the family that it has at the time.

    Parameters
    ----------
    phi : PhiBlocks
        Of the data.
    data : Dataset
        With links.

    Attributes
    ----------
    power : (N,) ndarray of the dtype of `phi`
        By what the scores of a row are multiplied: the weight of its group, and 1 for rows alone.
    shares : (N,) float64 ndarray
        Weights of the rows in entropy and bound: those of a group sum to 1.
    """

    def __init__(self, phi: Any, data: Dataset) -> None:
        self.phi: Any = phi  # dense or sparse blocks
        known: Any = data.known
        sizes, rows = np.diff(known.group_starts), known.grouped_rows
        groups = np.repeat(np.arange(len(sizes)), sizes)
        self.of_row = np.full(data.n_rows, -1, dtype=np.int64)
        self.of_row[rows] = groups
        weight = np.ones(data.n_rows) if data.weight is None else data.weight
        masses = np.bincount(groups, weights=weight[rows], minlength=len(sizes))
        masses[masses == 0.0] = 1.0  # a group without weight has no influence
        self.power, self.shares = np.ones(data.n_rows, dtype=phi.dtype), weight.copy()
        self.power[rows], self.shares[rows] = masses[groups], weight[rows] / masses[groups]
        order = np.argsort(rows, kind="stable")
        self.means = self._means(rows[order], groups[order], self.shares[rows[order]], len(sizes))

    def __getattr__(self, name):
        return getattr(self.__dict__["phi"], name)

    def _means(self, rows, groups, shares, n_groups):
        """Return the mean statistics of each group: (G, F), dense or CSR."""
        phi = self.phi
        total: Any = 0.0
        for start in range(0, len(rows), _BLOCK_ROWS):
            part = slice(start, start + _BLOCK_ROWS)
            m = len(rows[part])
            mean_of = sparse.csr_array((shares[part], (groups[part], np.arange(m))), shape=(n_groups, m))
            if phi.is_sparse:
                indptr, indices, values = phi.entries(rows[part])
                block = sparse.csr_array((values, indices, indptr), shape=(m, phi.n_statistics))
            else:
                block = phi.fill(rows[part], np.empty((m, phi.n_statistics), dtype=phi.dtype)).astype(np.float64)
            total = total + mean_of @ block
        return total.tocsr() if phi.is_sparse else total.astype(phi.dtype)

    def fill(self, rows: slice | npt.NDArray[np.integer], out: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Write the statistics of rows, or those of their groups, to `out` (m, F); return it."""
        out = self.phi.fill(rows, out)
        of_row = self.of_row[rows]
        linked = np.flatnonzero(of_row >= 0)
        out[linked] = self.means[of_row[linked]]
        return out

    def entries(
        self, rows: slice | npt.NDArray[np.integer]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.integer], npt.NDArray[np.float64]]:
        """Return the CSR arrays (indptr, indices, values) of rows, or those of their groups."""
        indptr, indices, values = self.phi.entries(rows)
        of_row, m = self.of_row[rows], len(indptr) - 1
        linked = np.flatnonzero(of_row >= 0)
        if not linked.size:
            return indptr, indices, values
        own = sparse.csr_array((values, indices, indptr), shape=(m, self.phi.n_statistics))
        places = np.arange(m)
        places[linked] = m + np.arange(len(linked))
        found = sparse.vstack([own, self.means[of_row[linked]]], format="csr")[places]
        return found.indptr.astype(np.int64), found.indices.astype(indices.dtype, copy=False), found.data


def linked_rows(phi: PhiBlocks, data: Dataset) -> Any:
    """Return the blocks of the data: `phi` itself where no rows are linked."""
    return LinkedRows(phi, data) if has_links(data) else phi


def has_links(data: Dataset) -> bool:
    """Tell whether any rows of unknown class are linked."""
    return data.known is not None and bool(data.known.groups)


def tie_labels(labels: npt.NDArray[np.int32], data: Dataset) -> None:
    """Give all rows of each link group the label of its first row, in place.

    Between updates, rows of a group that lie in several batches may have several labels.
    """
    if has_links(data):
        known: Any = data.known
        first = labels[known.grouped_rows[known.group_starts[:-1]]]
        labels[known.grouped_rows] = np.repeat(first, np.diff(known.group_starts))


def memory_of_links(data: Dataset, itemsize: int) -> int:
    """Return the bytes of the mean statistics of link groups, and of the numbers of their rows."""
    if not has_links(data):
        return 0
    known: Any = data.known
    width = data.n_statistics * itemsize * (len(known.group_starts) - 1)
    return data.n_rows * (16 + itemsize) + (12 * len(known.grouped_rows) if data.has_sparse_phi else width)
