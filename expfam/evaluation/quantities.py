"""Test quantities of a certificate: functions of a partition and the data.

Some depend on the partition alone, some on the data too. The latter are needed: a sampler that returns draws of the
prior is uniform in the ranks of all others. No quantity depends on the names of clusters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from expfam.families.support import dense_rows
from expfam.structures.rows.kmeans import RowTiles

if TYPE_CHECKING:
    from expfam.model.mixture import MixtureModel

OF_PARTITIONS = ("clusters", "largest cluster", "sum of squared sizes", "single rows", "rows 0 and 1", "rows 0 to 2")
OF_DATA = ("log joint", "log evidence", "predictive of row 0", "distance to k-means")
NAMES = (*OF_PARTITIONS, *OF_DATA)

_DISCRETE = ("counts", "categories", "binary")
_SEED = 20_261_123  # of the k-means run that no partition depends on


def coordinates(family: Any, X: Any) -> npt.NDArray[np.float64]:
    """Return coordinates of the rows in which distances are meaningful: (N, V).

    They are standardised, or square roots of counts. Missing values become 0.
    """
    rows = np.nan_to_num(dense_rows(X))
    if family.support in _DISCRETE:
        return np.sqrt(np.abs(rows))
    scale = rows.std(axis=0)
    return (rows - rows.mean(axis=0)) / np.where(scale > 0, scale, 1.0)


class Quantities:
    """Test quantities of partitions of one data set.

    Parameters
    ----------
    model : MixtureModel
        Bound.
    X : (N, V) ndarray or CSR
        Rows that the family has accepted; at least 3.

    Attributes
    ----------
    names : tuple of str
        Names of the quantities, in the order of the columns of `values`.
    """

    names = NAMES

    def __init__(self, model: MixtureModel, X: Any) -> None:
        self.model, self.n_rows = model, X.shape[0]
        self._phi = model.family.sufficient_statistics(X)
        self._first = dense_rows(self._phi[:1])
        n_clusters = max(2, round(np.sqrt(self.n_rows) / 2))
        rows = np.ascontiguousarray(coordinates(model.family, X))
        self._reference = RowTiles(rows).kmeans(n_clusters, np.random.default_rng(_SEED))[0]

    def values(self, labels: npt.NDArray[np.integer]) -> npt.NDArray[np.float64]:
        """Compute the quantities of (T, N) partitions, each numbered from 0: (T, Q) float64."""
        T, N = labels.shape
        widths = labels.max(axis=1).astype(np.int64) + 1
        starts = np.concatenate([[0], np.cumsum(widths)])
        cells = labels + starts[:-1, None]
        n = np.bincount(cells.ravel(), minlength=starts[-1]).astype(np.float64)
        sizes = [n[starts[t] : starts[t + 1]] for t in range(T)]
        evidence, predictive = self._evidence(cells, n)
        by_partition = np.add.reduceat(evidence, starts[:-1])
        prior = np.array([self.model.weights.log_prior(each) for each in sizes])
        same = labels[:, :3] == labels[:, :1]
        columns = [
            widths,
            [each.max() for each in sizes],
            [(each @ each) / N**2 for each in sizes],
            [(each == 1).sum() for each in sizes],
            same[:, 1],
            same[:, 1].astype(float) + same[:, 2] + (labels[:, 1] == labels[:, 2]),
            prior + by_partition,
            by_partition,
            predictive,
            [_variation(each, self._reference) for each in labels],
        ]
        return np.stack([np.asarray(column, dtype=np.float64) for column in columns], axis=1)

    def _evidence(self, cells, n):
        """Return the log evidence of each cluster, and the log predictive of row 0 in its own."""
        T, N = cells.shape
        members = sparse.csr_array(
            (np.ones(T * N), (cells.ravel(), np.tile(np.arange(N), T))), shape=(n.size, N), dtype=np.float64
        )
        S, home = members @ self._phi, cells[:, 0]
        family = self.model.family
        evidence = family.log_marginal_of_rows(n, S)
        shared = n[home] > 1
        without = np.zeros(T)
        if shared.any():
            rest = dense_rows(S[home[shared]]) - self._first
            without[shared] = family.log_marginal_of_rows(n[home[shared]] - 1.0, rest)
        return evidence, evidence[home] - without


def _variation(a, b):
    """Return the variation of information of two partitions in nats."""
    joint = np.bincount(a.astype(np.int64) * (int(b.max()) + 1) + b)
    total = sum(sign * (m @ np.log(np.maximum(m, 1))) for sign, m in ((1, np.bincount(a)), (1, np.bincount(b))))
    return float(total - 2.0 * (joint @ np.log(np.maximum(joint, 1)))) / a.size


def distances_to_others(labels: npt.NDArray[np.integer]) -> npt.NDArray[np.float64]:
    """Compute the mean distance from each of (T, N) partitions to the others: (T,) nats.

    The distance is the variation of information.
    """
    T = len(labels)
    total = np.zeros(T)
    for a in range(T):
        for b in range(a):
            total[[a, b]] += _variation(labels[a], labels[b])
    return total / max(T - 1, 1)
