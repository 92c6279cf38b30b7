"""Weights of clusters in groups that a fit has not seen, and clusters of their rows."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from expfam.errors import DataError, SupportError
from expfam.families.components import Components
from expfam.fitted.scoring import opened_data, opened_rows
from expfam.samplers.grouped.group_rows import group_step
from expfam.samplers.variational.sparse_rows import work_size
from expfam.structures.ground.threads import run

if TYPE_CHECKING:
    from expfam.families.base import Family
    from expfam.model.groups import Groups

_ITERATIONS, _TOLERANCE = 100, 1e-2  # of a new group's weights, in rows
_SCORES = 1 << 17  # of a block


class ClustersOfGroups(NamedTuple):
    """Clusters that groups share, with the prior of their weights in a group.

    Attributes
    ----------
    family : Family
        Bound.
    n, S : (K,) and (K, F) ndarrays
        Statistics; S may be CSR.
    alpha : (L,) float64 ndarray
        Pseudo-counts. Where L = K + 1 the last one is of all clusters that are not listed, which have no rows.
    names : sequence of str or None
        Of the columns, for messages.
    n_threads : int or None
    """

    family: Family
    n: npt.NDArray[np.float64]
    S: Any
    alpha: npt.NDArray[np.float64]
    names: Any
    n_threads: int | None

    def weights(self, X: Any, groups: Groups) -> npt.NDArray[np.float64]:
        """Return the weights of the clusters in each group: (G, L), rows sum to 1."""
        return group_weights(self.place(X, groups)[0], self.alpha)

    def log_mass(self, X: Any, groups: Groups) -> npt.NDArray[np.float64]:
        """Return the log weights of the clusters in the group of each row: (N, L), nats."""
        return np.log(self.weights(X, groups))[groups.of_row]

    def place(self, X: Any, groups: Groups) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int32]]:
        """Return expected rows of each group in each cluster (G, L), and clusters of rows (N,).

        Rows without a cell are not counted: they tell nothing of weights, which expected counts of them would narrow.
        """
        blank = _blank_rows(X)
        if not len(blank):
            return self._placed(X, groups)
        opened_data(X, self.family, names=self.names)  # refuses cells that must not be missing
        told = np.ones(X.shape[0], dtype=bool)
        told[blank] = False
        part = _without(groups, told)
        counts, labels = np.zeros((groups.n_groups, len(self.alpha))), np.zeros(X.shape[0], dtype=np.int32)
        if told.any():
            counts, labels = self._placed(X, part)
        labels[blank] = (counts + self.alpha).argmax(axis=1)[groups.of_row[blank]]
        return counts, labels

    def _placed(self, X, groups):
        """Return what `place` does, of rows that have cells."""
        is_in_order = len(groups.rows) == X.shape[0] and (groups.rows == np.arange(X.shape[0])).all()
        try:
            # data on a disk stay there where they are in order
            rows = X if is_in_order else X[groups.rows]
            data, S = opened_rows(rows, self.family, self.n, self.S, names=self.names)
        except DataError:
            opened_data(X, self.family, names=self.names)  # its error has the numbers of the rows as they were given
            raise
        L = len(self.alpha)
        components = _densities(data, *_with_empty(self.n, S, L - len(self.n)))
        counts, labels = np.zeros((groups.n_groups, L)), np.empty(X.shape[0], dtype=np.int32)
        starts, most = groups.starts.astype(np.int64), max(16, _SCORES // L)

        def place(first, stop):
            here = _Turns(components, groups.rows, starts[first : stop + 1], self.alpha, most)
            counts[first:stop], labels[groups.rows[starts[first] : starts[stop]]] = here.run()

        run(place, _whole_groups(starts, most), 1 if components.needs_gil else self.n_threads)
        return counts, labels


def group_weights(counts: npt.NDArray[np.float64], alpha: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return posterior mean weights of clusters in groups: (G, K), rows sum to 1.

    Parameters
    ----------
    counts : (G, K) float64 ndarray
        Rows of each group in each cluster. It is overwritten.
    alpha : (K,) float64 ndarray
        Pseudo-counts.
    """
    counts += alpha
    return counts / counts.sum(axis=1, keepdims=True)


def _blank_rows(X):
    """Return the rows of which every cell is missing: (M,) int."""
    if sparse.issparse(X) or X.dtype.kind != "f":
        return np.empty(0, dtype=np.intp)
    found = np.flatnonzero(np.isnan(X[:, 0]))
    return found[np.isnan(X[found]).all(axis=1)]


def _without(groups, told):
    """Return the groups without rows that are not `told`; all rows keep their numbers."""
    part = copy(groups)
    part.rows = groups.rows[told[groups.rows]]
    part.starts = np.append(0, np.cumsum(np.bincount(groups.of_row[told], minlength=groups.n_groups))).astype(np.intp)
    return part


def _with_empty(n, S, n_empty):
    """Return statistics with those of some clusters without rows at their end."""
    if not n_empty:
        return n, S
    empty = np.zeros((n_empty, S.shape[1]))
    S = sparse.vstack([S, sparse.csr_array(empty)]).tocsr() if sparse.issparse(S) else np.vstack([S, empty])
    return np.append(n, np.zeros(n_empty)), S


def _densities(data, n, S):
    """Return what scores the rows of data under clusters."""
    if not data.family.is_compiled and data.family.allows_missing:
        return _OfRowsWithHoles(data, n, S)
    components = Components(data.family, data, len(n))
    components.load(n, S)
    return components


class _OfRowsWithHoles:
    """Densities of rows that lack cells, by a family without statistics of such rows."""

    needs_gil = True

    def __init__(self, data, n, S):
        self.data, self.n, self.S = data, n, S

    def log_predictive_block(self, start, stop, n_clusters):
        return self.data.family.log_predictive(self.data.X[start:stop], self.n, self.S)


class _Turns:
    """Coordinate ascent of the weights of some groups and their rows, at fixed densities."""

    def __init__(self, components, rows, starts, alpha, most_rows):
        self.components, self.rows, self.starts, self.alpha = components, rows, starts, alpha
        self.most_rows = most_rows
        self.K, self.n_groups = len(alpha), len(starts) - 1
        self.work, self.scratch = np.empty(self.K + work_size(self.K)), np.empty(4 * self.K + work_size(self.K))
        self.counters = np.zeros(3, dtype=np.int64)

    def run(self):
        """Return counts (g, K) and labels of the rows."""
        start, stop = self.starts[0], self.starts[-1]
        counts = np.diff(self.starts)[:, None] * (self.alpha / self.alpha.sum())
        if stop - start <= self.most_rows:
            return counts, self._turn(start, stop, self.starts - start, counts, _ITERATIONS)
        labels = np.empty(stop - start, dtype=np.int32)  # one long group: its densities are computed at every turn
        for _ in range(_ITERATIONS):
            total = np.zeros_like(counts)
            for first in range(start, stop, self.most_rows):
                end, part = min(stop, first + self.most_rows), counts.copy()
                ends = np.array([0, end - first], dtype=np.int64)
                labels[first - start : end - start] = self._turn(first, end, ends, part, 1)
                total += part
            change, counts = abs(total - counts).max(), total
            if change <= _TOLERANCE:
                break
        return counts, labels

    def _turn(self, first, stop, starts, counts, n_iterations):
        m = stop - first
        if m == 0:
            return np.empty(0, dtype=np.int32)
        scores = self.components.log_predictive_block(first, stop, self.K)
        shares, labels, entropy = np.empty((m, self.K)), np.empty((m, 1), dtype=np.int32), np.empty(m)
        buffers = (shares, labels, entropy, n_iterations, _TOLERANCE, 0, 1, self.work, self.scratch, self.counters)
        bad = group_step(scores, starts, None, self.alpha, counts, *buffers)
        if bad >= 0:
            raise SupportError(f"row {self.rows[first + bad]} has no finite density under any cluster")
        return labels[:, 0]


def _whole_groups(starts, most):
    """Return ranges of groups (first, stop) with at most `most` rows and groups.

    A larger group has a range of its own. Ranges depend on sizes alone.
    """
    tasks, first, G = [], 0, len(starts) - 1
    while first < G:
        stop = int(np.searchsorted(starts, starts[first] + most, side="right")) - 1
        stop = min(G, max(stop, first + 1), first + most)
        tasks.append((first, stop))
        first = stop
    return tasks
