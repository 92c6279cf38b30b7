"""Variational inference of counts in very many columns.

Where rows keep few clusters, most sums are 0. So sums are CSR, and posterior means are computed at the sums that are
not 0; all others of a column differ by a level of the cluster alone. Rows are scored from lists of the sums by column:
there is no array of the size of all parameters. A pass scores the rows in parts, and sums what they keep at its end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from expfam.families.counts.natural_cells import (
    NaturalCells,
    at_columns,
    by_column,
    has_natural_cells,
    long_lists,
    natural_cells,
    natural_levels,
)
from expfam.families.counts.pseudocounts import row_sums
from expfam.model.occurring import OccurringColumns, occurring_columns
from expfam.samplers.states.storage import matrix_arrays, stored_matrix
from expfam.samplers.variational.features import SparsePhi
from expfam.samplers.variational.linked_rows import has_links
from expfam.samplers.variational.local_step import SparsePass, Sums, Tables
from expfam.samplers.variational.posterior import Posterior
from expfam.samplers.variational.schedules import Stochastic
from expfam.samplers.variational.sparse_sums import merged_sums, sums_of_shares
from expfam.samplers.variational.word_scores import listed_candidates, listed_scores
from expfam.structures.ground.stored import numbers
from expfam.structures.ground.threads import run
from expfam.structures.selection.top_l import select_top

if TYPE_CHECKING:
    from expfam.model.data import Dataset
    from expfam.samplers.variational.local_step import LocalStep
    from expfam.samplers.variational.mixture import SparseVariational
    from expfam.structures.rows.near_scores import NearScratch

_LEAST_CELLS = 1 << 22  # of all sums: tables of fewer take little memory and time
_DENSE_SHARE = 2  # sums that are not 0 are at most a half of all
_BLOCK_ENTRIES = 1 << 16  # of lists that are moved together
_CHUNK_CELLS = 1 << 18  # sums that are not 0 of clusters whose evidence is computed together


def has_wide_counts(settings: SparseVariational, data: Dataset, n_clusters: int) -> bool:
    """Return whether a run keeps sparse sums.

    It does for CSR counts in very many columns, if rows keep few clusters. Sizes and settings decide.

    Parameters
    ----------
    settings : SparseVariational
    data : Dataset
    n_clusters : int
    """
    is_mode = settings.objective == "map"
    if not data.has_sparse_phi or not has_natural_cells(data.family, mode=is_mode) or has_links(data):
        return False
    cells, L = n_clusters * data.n_statistics, settings.n_active_of(n_clusters)
    if cells < _LEAST_CELLS or most_cells(L, data) * _DENSE_SHARE > cells:
        return False
    if n_clusters <= L or settings.memo_of(n_clusters, data) == "statistics":
        return False
    return not isinstance(settings.schedule_of(n_clusters, data.n_rows), Stochastic)


def most_cells(n_active: int, data: Dataset) -> int:
    """Return the largest number of sums that are not 0, if each row keeps `n_active` clusters.

    Parameters
    ----------
    n_active : int
    data : Dataset
    """
    return n_active * data.n_nonzero


class WidePhi(SparsePhi):
    """Blocks of CSR statistics whose columns are numbered among those that occur."""

    def __init__(self, family: Any, *, dtype: npt.DTypeLike, data: Dataset) -> None:
        super().__init__(family, dtype=dtype, data=data)
        self.occurring = OccurringColumns(occurring_columns(data), data.n_statistics)

    def entries(
        self, rows: slice | npt.NDArray[np.integer]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.integer], npt.NDArray[np.float64]]:
        """Return the CSR arrays (indptr, numbers of the columns, values) of some rows."""
        indptr, columns, values = super().entries(rows)
        return indptr, self.occurring.place[columns], values

    def sums(self, R: Any, rows: slice | npt.NDArray[np.integer]) -> Any:
        """Return the sums (K, F) of some rows with responsibilities `R`, (m, K) CSR: CSR."""
        phi, numbers = self.family.sufficient_statistics(self.data.X).tocsr(), np.arange(self.data.n_rows)[rows]
        if not np.may_share_memory(phi.data, self.data.X.data):  # statistics that are not the rows are made for a batch
            phi, numbers = self.family.sufficient_statistics(self.data.X[rows]).tocsr(), np.arange(len(numbers))
        S = sums_of_shares(R, phi, numbers, self.occurring.place, self.occurring.columns.size)
        return self.occurring.widen(S, in_place=True)


@dataclass
class WideSums(Sums):
    """Soft statistics of some rows, with sums as CSR."""

    S: Any

    @classmethod
    def zeros(cls, n_clusters: int, n_statistics: int) -> WideSums:
        """Return the sums of no rows."""
        return cls(np.zeros(n_clusters), sparse.csr_array((n_clusters, n_statistics)))

    def add(self, other: Any, factor: float = 1.0) -> WideSums:
        """Add `factor` times the sums of other rows; return self."""
        if factor != 1.0:
            super().add(other, factor)
            return self
        self.n += other.n
        self.S, self.entropy = merged_sums(self.S, None, other.S), self.entropy + other.entropy
        return self

    def replace(self, old: Any, new: Any) -> WideSums:
        """Replace old sums of some rows by their new ones; return self."""
        self.n += -1.0 * old.n
        self.n += new.n
        np.maximum(self.n, 0.0, out=self.n)
        self.S, self.entropy = merged_sums(self.S, old.S, new.S), self.entropy + -1.0 * old.entropy + new.entropy
        return self

    def copy(self) -> WideSums:
        """Return a copy whose sums are the same object: to add to sparse sums makes others."""
        return WideSums(self.n.copy(), self.S, self.entropy)

    def scale(self, factor: float) -> WideSums:
        """Multiply all sums by a number; return self."""
        self.n *= factor
        self.S, self.entropy = self.S * factor, self.entropy * factor
        return self

    def to_arrays(self) -> dict[str, Any]:
        """Return the counts and sums, without the entropy, as a dict of arrays."""
        return {"n": self.n.copy(), "S": matrix_arrays(self.S)}

    @classmethod
    def from_arrays(cls, arrays: dict[str, Any], entropy: Any, shape: tuple[int, ...]) -> WideSums:
        """Return the sums of the arrays that `to_arrays` gave; see `Sums.from_arrays`."""
        S = stored_matrix(arrays, "S", shape)
        n = numbers(arrays, "n", shape[:1], low=0.0)
        return cls(n, sparse.csr_array(S), float(numbers({"entropy": entropy}, "entropy", ())))


class WidePosterior(Posterior):
    """Posterior of sparse sums of counts.

    It has parameters at the sums that are not 0, and what all others have in common. They are made when they are asked
    for, since lists of them by column are what a pass reads.
    """

    S: Any

    def __init__(self, sums: WideSums, family: Any, proportions: Any, order: npt.NDArray[np.int64], **options: Any):
        self.n, self.S, self.family, self.proportions, self.order = sums.n, sums.S, family, proportions, order
        self.n_threads = options.get("n_threads")
        self.is_mode = proportions.objective == "map"
        self.level, self.g = natural_levels(family, self.n, self.S, mode=self.is_mode)
        self.log_pi = proportions.log_pi(self.n, order)

    def cells(self) -> NaturalCells:
        """Compute the parameters at the sums that are not 0."""
        return natural_cells(self.family, self.n, self.S, mode=self.is_mode, levels=(self.level, self.g))

    def _cluster_values(self):
        if self.is_mode:
            return float(self._log_likelihoods().sum()) + self._log_prior()
        K, n_cells = self.S.shape[0], max(self.S.nnz, 1)
        size = max(1, _CHUNK_CELLS * K // n_cells)

        def total(first):
            chunk = slice(first, min(first + size, K))
            return self.family.total_log_marginal(self.n[chunk], self.S[chunk])

        return float(sum(run(total, [(first,) for first in range(0, K, size)], self.n_threads)))

    def _log_likelihoods(self):
        """Return <S_k, theta_k> - n_k g_k: (K,) nats."""
        values = self.cells().cells
        values -= np.repeat(self.level, np.diff(self.S.indptr))
        values *= self.S.data
        products = sparse.csr_array((values, self.S.indices, self.S.indptr), shape=self.S.shape)
        return row_sums(products) - self.n * self.g

    def _log_prior(self):
        return float(self.cells().log_prior(self.family, self.S).sum())

    def cluster_graph(self, n_near: int) -> npt.NDArray[np.int32]:
        """Return the nearest clusters of each cluster, as `Posterior.cluster_graph` does."""
        K, (empty, cells, level, _) = self.S.shape[0], self.cells()
        shares = np.divide(1.0, self.n, out=np.zeros(K), where=self.n > 1e-6)
        parts = (cells - at_columns(empty, self.S.indices), self.S.indices, self.S.indptr)
        above = sparse.csr_array(parts, shape=self.S.shape)  # E theta above that of an empty sum of the same cluster
        scores = (self.S @ above.T).toarray() + (self.S @ np.ascontiguousarray(empty))[:, None]
        scores -= np.outer(self.S.sum(axis=1), level)
        scores = scores * shares[:, None] + (self.log_pi - self.g)
        scores[np.arange(K), np.arange(K)] = np.inf
        return np.sort(select_top(np.ascontiguousarray(scores), n_near)[1], axis=1)


class WideTables(Tables):
    """Parameters of sparse sums in the layout of a pass: lists of clusters by column.

    The origin of the parameters of a column is that of an empty sum under a cluster of mean level. A column whose sums
    are above 0 in many clusters has a row of a table in place of a list.
    """

    def __init__(self, posterior: WidePosterior, phi: WidePhi) -> None:
        cells, dtype = posterior.cells(), phi.dtype
        level, g = cells.level, cells.g
        share = posterior.n / posterior.n.sum()
        self.g_0, self.level_0 = float(share @ g), float(share @ level)
        self.theta_0 = cells.empty
        self.c = np.ascontiguousarray(posterior.log_pi - g + self.g_0, dtype=dtype)
        self.level = np.ascontiguousarray(level - self.level_0, dtype=dtype)
        above = cells.above(posterior.S, dtype=dtype)
        del cells  # before the lists are made
        listed = by_column(above, posterior.S, phi.occurring)
        del above
        self._divide(listed)

    def _divide(self, listed):
        """Keep the short columns as lists, and the others as rows of a table."""
        lengths = np.diff(listed.indptr)
        self.columns, self.table = long_lists(listed.shape[0], listed.indptr, listed.indices, listed.data)
        is_short = np.ones(lengths.size, dtype=bool)
        is_short[self.columns] = False
        kept = np.repeat(is_short, lengths)
        lengths[self.columns] = 0
        self.starts: Any = np.zeros(lengths.size + 1, dtype=np.int64)
        self.starts[1:] = lengths
        np.cumsum(self.starts, out=self.starts)  # of one type: NumPy would copy others
        clusters, self.above = _kept_part(listed.indices, kept), _kept_part(listed.data, kept)
        self.clusters = clusters.astype(np.int32, copy=False)

    def forget(self) -> None:
        """Free the lists and the table."""
        self.starts = self.clusters = self.above = self.columns = self.table = None

    @property
    def _lists(self):
        return self.starts, self.clusters, self.above, self.columns, self.table, self.c, self.level

    def score(self, rows: Any, out: npt.NDArray[Any], scratch: NearScratch | None = None) -> None:
        """Write the scores (R, K) of rows; see `Tables.score`."""
        parts: Any = (*rows, *self._lists, out)
        listed_scores(*parts)

    def score_near(self, rows: Any, near: Any, gathered: Any, out: npt.NDArray[Any], *, scores_last: bool) -> int:
        """Write the scores of rows against candidates; see `Tables.score_near`."""
        parts: Any = (*rows, *self._lists, *near, scores_last, out)
        return listed_candidates(*parts)

    def left_out(self, sums: Sums) -> float:
        """Return the part of the bound that scores leave out; see `Tables.left_out`."""
        size, empty = float(sums.S.sum()), np.asarray(self.theta_0)
        is_one = empty.strides == (0,)  # for all columns: then no array of their size is made
        total = empty[0] * size if is_one else (sums.S.T @ np.ones(len(sums.n))) @ empty
        return float(total) - float(sums.n.sum()) * self.g_0 - self.level_0 * size


class WidePass(SparsePass):
    """Passes whose parts find the clusters of the rows, with sums as CSR at the end."""

    sums_columns = 0

    def local_step(
        self,
        rows: slice | npt.NDArray[np.integer],
        tables: Tables,
        *,
        remembered: tuple[npt.NDArray[np.int32], npt.NDArray[Any]] | None = None,
        **options: Any,
    ) -> LocalStep:
        """Compute the responsibilities of some rows, and their sums; see `SparsePass.local_step`."""
        local = super().local_step(rows, tables, **options)
        if remembered is not None:
            local.replaced = self.sums_of(rows, *remembered)
        return local

    def _empty_step(self, m, *, remembered=False, keep=False):
        return super()._empty_step(m, keep=True)

    def _complete(self, local, rows):
        entropy, local.sums = local.sums.entropy, self.sums_of(rows, local.indices, local.values)
        local.sums.entropy = entropy

    def sums_of(
        self, rows: slice | npt.NDArray[np.integer], indices: npt.NDArray[np.int32], values: npt.NDArray[Any]
    ) -> WideSums:
        """Return the sums of given responsibilities of some rows; see `SparsePass.sums_of`."""
        R = self._weighted_shares(rows, indices, values)
        return WideSums(np.asarray(R.sum(axis=0), dtype=np.float64).ravel(), self.phi.sums(R, rows))

    def _weighted_shares(self, rows, indices, values):
        """Return the responsibilities that are not 0, times the weights of the rows: (m, K) CSR."""
        kept = values > 0
        lengths, shares = kept.sum(axis=1), values[kept].astype(np.float64)
        if self.weight is not None:
            shares *= np.repeat(self.weight[rows], lengths)
        starts = np.concatenate([[0], np.cumsum(lengths)])
        return sparse.csr_array((shares, indices[kept], _narrow(starts)), shape=(len(indices), self.K))


def _kept_part(values, kept):
    """Return the values that are kept, which are moved to the front of the array."""
    size = 0
    for first in range(0, len(values), _BLOCK_ENTRIES):
        block = slice(first, first + _BLOCK_ENTRIES)
        part = values[block][kept[block]]
        values[size : size + len(part)] = part
        size += len(part)
    return values[:size]


def _narrow(indptr):
    """Return starts of rows as int32 where they fit; sums then have such indices too."""
    return indptr.astype(np.int32) if indptr[-1] <= np.iinfo(np.int32).max else indptr
