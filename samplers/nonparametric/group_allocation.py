"""Moves of clusters of rows in groups, in a variational run of unknown number.

What a cluster adds to the bound follows from its own responsibilities: the evidence of its statistics, their entropy,
and its counts in the groups. The weights that all groups share are chosen anew for each trial.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.special import gammaln, xlogy

from expfam.errors import SupportError
from expfam.samplers.geometry.coordinates import Rows, nearest
from expfam.samplers.grouped.local_step import GroupProportions
from expfam.samplers.nonparametric.variational_moves import JudgedTopics
from expfam.samplers.starts.rules import distant_rows
from expfam.samplers.variational.alpha_bound import rising_slopes, tangent
from expfam.samplers.variational.local_step import SparsePass, Sums, Tables
from expfam.samplers.variational.posterior import Posterior, cluster_values
from expfam.samplers.variational.state import held_clusters

_NEAR = 4  # nearest clusters, with which each cluster is compared, itself included
_REFINEMENTS = 5  # two-way steps of a divided cluster
_SEEDING_ROWS = 2000  # among which two distant ones are searched


class RowColumn(NamedTuple):
    """Responsibilities of one cluster, and what they add to the bound.

    Attributes
    ----------
    rows : (m,) int64 ndarray
        Ascending.
    r : (m,) float64 ndarray
        Positive responsibilities.
    n, S : float and (F,) float64 ndarray
        Statistics, in the coordinates of the passes.
    slopes : (2,) float64 ndarray
        Slopes of the groups' tangents at the pseudo-count `M`.
    M, rest : float
        `rest` is what the cluster adds to the bound, nats, without its tangents.
    """

    rows: npt.NDArray[np.int64]
    r: npt.NDArray[np.float64]
    n: float
    S: npt.NDArray[np.float64]
    slopes: npt.NDArray[np.float64]
    M: float
    rest: float

    @property
    def value(self) -> float:
        """Return what the cluster adds to the bound at its own pseudo-count, nats."""
        return self.rest + tangent(np.array([self.M]), self.slopes[:, None], 0.0)


class GroupAllocation(JudgedTopics):
    """Responsibilities of rows in groups cluster by cluster, changed by accepted trials.

    Parameters
    ----------
    state : GroupedProcessVariationalState
        After a pass.
    """

    columns: list[RowColumn]

    def __init__(self, state: Any) -> None:
        self.state, self.phi, self.family = state, state.phi, state.phi.family
        data, tables = state.data, state.tables_of_groups()
        self.of_row, self.n_all_groups = data.groups.of_row, data.groups.n_groups
        self.weight = np.ones(data.n_rows) if data.weight is None else data.weight
        self.falling, self.n_groups, self.sticks = tables.falling, tables.n_groups, state.sticks
        held = held_clusters(data)
        self.known = np.full(data.n_rows, -1, dtype=np.int32) if held is None else held
        rows, indices, values = state.kept_rows
        self.columns = self.columns_of(rows, indices, values, state.sums, self.sticks.pseudocounts)
        self.bound = self.value_of(self.columns, self.sticks)

    def columns_of(
        self,
        rows: npt.NDArray[np.int64],
        indices: npt.NDArray[np.int32],
        values: npt.NDArray[Any],
        sums: Sums,
        M: npt.NDArray[np.float64],
    ) -> list[RowColumn]:
        """Return the clusters of the responsibilities (m, L) of all rows, at pseudo-counts (K,).

        Parameters
        ----------
        rows : (m,) int64 ndarray
        indices : (m, L) int32 ndarray
            Clusters of each row.
        values : (m, L) ndarray
            Its responsibilities.
        sums : Sums
            Statistics of the K clusters.
        M : (K,) float64 ndarray
            Pseudo-count of each cluster in a group.
        """
        row, _ = np.nonzero(values > 0)
        cluster, r = indices[values > 0], values[values > 0].astype(np.float64)
        order = np.lexsort((rows[row], cluster))
        row, cluster, r = rows[row][order], cluster[order], r[order]
        cuts = np.searchsorted(cluster, np.arange(len(M) + 1))
        return [
            self.column(row[a:b], r[a:b], float(sums.n[k]), sums.S[k], float(M[k]))
            for k, (a, b) in enumerate(zip(cuts[:-1].tolist(), cuts[1:].tolist()))
        ]

    def column(
        self, rows: npt.NDArray[np.int64], r: npt.NDArray[np.float64], n: float, S: npt.NDArray[np.float64], M: float
    ) -> RowColumn:
        """Return a cluster with given responsibilities and their statistics, at a pseudo-count.

        Parameters
        ----------
        rows : (m,) int64 ndarray
            Rows of the cluster, ascending.
        r : (m,) float64 ndarray
            Their responsibilities.
        n : float
            Weight of the cluster.
        S : (F,) float64 ndarray
            Sum of its statistics.
        M : float
            Its pseudo-count in a group.
        """
        n_of, S_of = np.array([n]), S[None].copy()
        self.phi.mend_sums(n_of, S_of)
        weighted = self.weight[rows] * r
        N: npt.NDArray[Any] = np.bincount(self.of_row[rows], weighted, minlength=self.n_all_groups)
        N = N[N > 0]
        slopes = np.array([x.sum() for x in rising_slopes(M, N)])
        value = float((gammaln(M + N) - gammaln(M)).sum()) + float(cluster_values(self.family, n_of, S_of)[0])
        value -= float((self.weight[rows] * xlogy(r, r)).sum())
        return RowColumn(rows, r, n, S, slopes, M, value - tangent(np.array([M]), slopes[:, None], 0.0))

    def sizes(self) -> npt.NDArray[np.float64]:
        """Return the rows of the clusters: (K,)."""
        return np.array([max(column.n, 0.0) for column in self.columns])

    # ---- trials ------------------------------------------------------------------------------------------------------

    def near_pairs(self) -> list[tuple[int, int]]:
        """Return pairs (a, b), a < b, of near clusters."""
        n, S = np.array([column.n for column in self.columns]), np.stack([column.S for column in self.columns])
        posterior = Posterior(n, S, self.family, GroupProportions(), np.arange(len(n)))
        graph = posterior.cluster_graph(min(_NEAR, len(n)))
        return sorted({(min(k, j), max(k, j)) for k, row in enumerate(graph.tolist()) for j in row if j != k})

    def merged(self, a: RowColumn, b: RowColumn) -> RowColumn:
        """Return the cluster that takes all of two clusters."""
        rows, place = np.unique(np.concatenate([a.rows, b.rows]), return_inverse=True)
        r = np.bincount(place, np.concatenate([a.r, b.r]), minlength=len(rows))
        return self.column(rows, np.minimum(r, 1.0), a.n + b.n, a.S + b.S, a.M + b.M)

    def without(self, k: int) -> list[RowColumn] | None:
        """Return the clusters without one, or None where a row is impossible under all others.

        The groups of the cluster take a local step among the other clusters.
        """
        gone, others = self.columns[k], [*self.columns[:k], *self.columns[k + 1 :]]
        if not len(gone.rows):
            return others
        state, K = self.state, len(others)
        passes, n, S = state.passes_of(K), [c.n for c in others], np.stack([c.S for c in others])
        posterior = Posterior(np.array(n), S.copy(), self.family, GroupProportions(), np.arange(K))
        M = np.array([column.M for column in others])
        M *= 1.0 + gone.M / M.sum()
        chosen = np.unique(self.of_row[gone.rows])
        rows = passes.rows_of(chosen)[0]
        old = self.by_row()[rows][:, np.delete(np.arange(K + 1), k)].tocsc()
        places = (np.searchsorted(chosen, self.of_row[rows]), np.arange(len(rows)))
        weighted = sparse.csr_array((self.weight[rows], places), shape=(len(chosen), len(rows)))
        before = sparse.csr_array(weighted @ old)
        keep = np.empty((0, passes.L), dtype=np.int32)
        try:
            local = passes.local_step_of_groups(chosen, Tables(posterior, self.phi), M, before, last=keep)
        except SupportError:
            return None
        is_new = np.zeros(len(self.of_row), dtype=bool)
        is_new[rows] = True
        found = []
        for j, column in enumerate(others):
            old_rows, old_r = column.rows[is_new[column.rows]], column.r[is_new[column.rows]]
            has = (local.indices == j) & (local.values > 0)
            here = np.nonzero(has)[0]
            new_rows, new_r = local.rows[here], local.values[has].astype(np.float64)
            lost = self._sums_of(old_rows, old_r)
            stays = ~is_new[column.rows]
            all_rows = np.concatenate([column.rows[stays], new_rows])
            order = np.argsort(all_rows, kind="stable")
            r = np.concatenate([column.r[stays], new_r])[order]
            n = column.n - lost[0] + float(local.sums.n[j])
            found.append(self.column(all_rows[order], r, n, column.S - lost[1] + local.sums.S[j], float(M[j])))
        return found

    def halves(self, k: int, rng: np.random.Generator) -> tuple[RowColumn, RowColumn] | None:
        """Return two clusters that share the rows of one, or None where its rows are equal.

        Each row begins with the nearer one of two distant rows; then local steps with two clusters follow. Known rows
        stay in the first one.

        Parameters
        ----------
        k : int
            Number of the cluster.
        rng : numpy Generator
        """
        column, data = self.columns[k], self.state.data
        rows = column.rows[column.r * self.weight[column.rows] > 0.5]
        if len(rows) < 2:
            return None
        coordinates, chosen = Rows(data), np.sort(rng.permutation(rows)[:_SEEDING_ROWS])
        weight = None if data.weight is None else self.weight[chosen]
        seeds = distant_rows(coordinates.take(chosen), 2, rng, weight=weight)
        if seeds.shape[0] < 2:
            return None
        parts = np.array_split(column.rows, -(-len(column.rows) // _SEEDING_ROWS))
        side = np.concatenate([nearest(coordinates.take(part), seeds) for part in parts]) == 0
        stays = self.known[column.rows] == k
        side |= stays
        passes = SparsePass(self.phi, 2, 1, weight=self.weight, n_threads=self.state.settings.n_threads)
        for _ in range(_REFINEMENTS):
            left = self._sums_of(column.rows[side], column.r[side])
            n, S = np.array([left[0], column.n - left[0]]), np.stack([left[1], column.S - left[1]])
            if (n <= 0).any():
                return None
            self.phi.mend_sums(n, S)
            posterior = Posterior(n, S, self.family, GroupProportions(), np.arange(2))
            posterior.log_pi = np.log(n / n.sum())
            before, side = side, passes.local_step(column.rows, Tables(posterior, self.phi)).labels == 0
            side |= stays
            if np.array_equal(before, side):
                break
        if side.all() or not side.any():
            return None
        left = self._sums_of(column.rows[side], column.r[side])
        part = float(np.clip(left[0] / column.n, 1e-3, 1.0 - 1e-3))
        return (
            self.column(column.rows[side], column.r[side], left[0], left[1], part * column.M),
            self.column(
                column.rows[~side], column.r[~side], column.n - left[0], column.S - left[1], (1.0 - part) * column.M
            ),
        )

    def _sums_of(self, rows, r):
        """Return the statistics of some responsibilities: n, and S in the coordinates of the passes."""
        if not len(rows):
            return 0.0, np.zeros(self.phi.n_statistics)
        passes = SparsePass(self.phi, 2, 1, weight=self.weight, n_threads=self.state.settings.n_threads)
        sums = passes.sums_of(rows, np.zeros((len(rows), 1), dtype=np.int32), r[:, None].astype(self.phi.dtype))
        return float(sums.n[0]), sums.S[0]

    # ---- results -----------------------------------------------------------------------------------------------------

    def by_row(self) -> sparse.csr_array:
        """Return the responsibilities of all rows: (N, K) CSR."""
        rows, r = (np.concatenate([column[i] for column in self.columns]) for i in range(2))
        clusters = np.repeat(np.arange(len(self.columns)), [len(column.rows) for column in self.columns])
        return sparse.csr_array((r, (rows, clusters)), shape=(len(self.of_row), len(self.columns)))

    def sums(self) -> Sums:
        """Return the statistics of all clusters, with their entropy."""
        entropy = -sum(float((self.weight[c.rows] * xlogy(c.r, c.r)).sum()) for c in self.columns)
        return Sums(self.sizes(), np.stack([column.S for column in self.columns]), entropy)
