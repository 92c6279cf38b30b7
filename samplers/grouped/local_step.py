"""Local step of variational inference of rows in groups: weights, responsibilities, sums.

Blocks are whole groups. A block computes the scores of its rows once, and then iterates between the weights of each
group and the responsibilities of its rows. A group with more rows than a block keeps its scores while it iterates. If
these scores need too much memory, the group makes one iteration in a pass: new scores for each iteration would cost as
much as a pass, which updates the parameters too. The scores cost O(N K F), each iteration O(N K). Memory is a block,
the kept scores, and the counts of the groups, at most N L numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.special import gammaln, psi

from expfam.model.pseudo_counts import positive
from expfam.samplers.grouped.group_rows import group_step
from expfam.samplers.variational.local_step import MOST_ROWS, LocalStep, PassPart, SparsePass
from expfam.samplers.variational.sparse_rows import work_size
from expfam.structures.ground.threads import resolve_n_threads

if TYPE_CHECKING:
    from expfam.model.groups import Groups
    from expfam.samplers.grouped.variational import GroupedVariational
    from expfam.samplers.variational.candidates import GraphCandidates
    from expfam.samplers.variational.local_step import Tables

HELD_BYTES = 1 << 26  # limit for the kept scores of one group, in each running part
_ALPHA_STEPS = 5  # iterations of the fixed point after a pass


@dataclass
class GroupedLocalStep(LocalStep):
    """Result of the local step of some groups.

    Attributes
    ----------
    rows : (m,) int64 ndarray
        Rows of the groups, group by group; `labels` has the same order.
    counts : (g, K) float64 CSR
        Sums of the responsibilities of each group's rows, in the order of the groups.
    counters : (3,) int64 ndarray
        Iterations of groups, restarts tried and accepted.
    """

    rows: np.ndarray
    counts: Any
    counters: np.ndarray


class GroupedPass(SparsePass):
    """Passes over groups of rows with K clusters, of which each row keeps L."""

    def __init__(
        self,
        phi: Any,
        n_clusters: int,
        n_active: int,
        groups: Groups,
        settings: GroupedVariational,
        *,
        weight: npt.NDArray[np.float64] | None = None,
        held: npt.NDArray[np.int32] | None = None,
    ) -> None:
        super().__init__(phi, n_clusters, n_active, weight=weight, held=held, n_threads=settings.n_threads)
        self.groups, self.settings = groups, settings
        self.largest = int(groups.sizes.max(initial=0))

    def block_rows(self, n_scores: int | None = None) -> int:
        """Return the number of rows of a block, by sizes alone.

        A block holds the largest group if it has up to 4096 rows, and more rows where their scores are small.
        `n_scores` is the number of scores of a row, K if not given.
        """
        return max(super().block_rows(n_scores), min(MOST_ROWS, self.largest))

    def is_held(self, n_rows: Any, n_scores: int) -> Any:
        """Tell whether a long group keeps the scores of its rows.

        Parameters
        ----------
        n_rows : int or ndarray of int
            Number of rows of a group that has more of them than a block holds.
        n_scores : int
            Number of scores of a row.

        Returns
        -------
        bool or ndarray of bool
        """
        return n_rows * n_scores * self.phi.dtype.itemsize <= HELD_BYTES

    def held_memory(self, *, n_near: int | None = None) -> int:
        """Return the largest number of bytes that long groups hold beside blocks.

        Long groups hold the scores of their rows, and the arrays that belong to the scores. `n_near` is the number of
        candidates of each row, or None for passes over all clusters.
        """
        n_scores, sizes = self.K if n_near is None else n_near + self.L, self.groups.sizes
        held = np.sort(sizes[(sizes > self.block_rows(n_scores)) & self.is_held(sizes, n_scores)])
        n_parts = self.n_parts(int(sizes.sum()), has_candidates=n_near is not None)
        n_at_work = min(n_parts, resolve_n_threads(self.n_threads))
        each, width = self.phi.dtype.itemsize, 1 if self.is_dense else self.L
        of_row = each * (n_scores + width + self.L) + 4 * width + 16  # see _BUFFERS
        of_row += 0 if n_near is None else 2 * (4 * self.L + 8)  # last clusters and buckets, as pieces and joined
        of_row += 0 if self.weight is None else 8
        return int(held[-n_at_work:].sum()) * of_row

    def rows_of(self, chosen: npt.NDArray[np.integer]) -> tuple[npt.NDArray[np.integer], npt.NDArray[np.int64]]:
        """Return the rows (m,) of some groups, group by group, and where each group begins (g + 1,)."""
        groups = self.groups
        sizes = groups.sizes[chosen]
        starts = np.concatenate([[0], np.cumsum(sizes)])
        places = np.arange(starts[-1]) - np.repeat(starts[:-1], sizes) + np.repeat(groups.starts[chosen], sizes)
        return groups.rows[places], starts.astype(np.int64)

    def local_step_of_groups(
        self,
        chosen: npt.NDArray[np.integer],
        tables: Tables,
        alpha: npt.NDArray[np.float64],
        before: Any,
        *,
        candidates: GraphCandidates | None = None,
        last: npt.NDArray[np.int32] | None = None,
    ) -> GroupedLocalStep:
        """Compute weights and responsibilities of some groups, and their sums.

        Parameters
        ----------
        chosen : (g,) int ndarray
            Numbers of the groups.
        tables : Tables
            Posterior of the clusters in the layout of a pass.
        alpha : (K,) float64 ndarray
            Pseudo-count of each cluster.
        before : (g, K) CSR or None
            Last sums of the responsibilities of each group's rows; with None each group begins with the weights of the
            prior.
        candidates : GraphCandidates, optional
            Clusters that rows are scored against; all clusters if not given.
        last : (N, L) int32 ndarray, optional
            Clusters that all rows of the data had last, -1 for none. They are needed with `candidates`. If they are
            given, the result has the new clusters of the rows.

        Returns
        -------
        GroupedLocalStep
        """
        rows, starts = self.rows_of(chosen)
        last_of: Any = last  # given with candidates
        if candidates is not None:  # rows of a group with the same candidates become neighbours
            rows = rows[np.lexsort((last_of[rows, 0], np.repeat(np.arange(len(chosen)), np.diff(starts))))]
        m = len(rows)
        found: list[Any] = []
        empty = self._empty_step(m, keep=last is not None)
        source = None if candidates is None else (candidates, last_of[rows])
        local = GroupedLocalStep(**vars(empty), rows=rows, counts=None, counters=np.zeros(3, dtype=np.int64))

        def part(start, stop):
            work = _GroupedPart(self, rows, tables, source, local, starts, alpha, before)
            end = len(chosen) if stop == m else int(np.searchsorted(starts, stop))
            return work.run(int(np.searchsorted(starts, start)), end)

        def add(sums, diagnostics, counts, counters):
            local.sums.add(sums)
            local.diagnostics.add(diagnostics)
            found.extend(counts)
            local.counters += counters

        self._run(part, m, add, has_candidates=candidates is not None)
        self._add_origin(local.sums)
        local.counts = sparse.csr_array(sparse.vstack(found, format="csr"))
        return local


_BUFFERS = (
    "scores",
    "values",
    "indices",
    "objective",
    "entropy",
    "responsibilities",
)  # buffers for the rows of a block


class _GroupedPart(PassPart):
    """Buffers and sums of one part of a local step of groups."""

    def __init__(self, owner, rows, tables, candidates, local, starts, alpha, before):
        super().__init__(owner, rows, tables, candidates, None, local)
        self.group_starts, self.alpha, self.before = starts, alpha, before
        self.counts, self.counters = [], np.zeros(3, dtype=np.int64)

    def run(self, first, last):
        """Run all blocks of the groups first..last-1 of the local step; return their sums."""
        self._allocate()
        K = self.owner.K
        self.turn = np.empty(self.n_scores + work_size(self.n_scores), dtype=self.phi.dtype)
        self.scratch = np.empty(4 * K + work_size(K))
        self.responsibilities = np.empty((self.n_block, self.owner.L), dtype=self.phi.dtype)
        while first < last:
            reach = self.group_starts[first] + self.n_block
            stop = int(np.searchsorted(self.group_starts, reach, side="right")) - 1
            if stop > first:
                stop = min(stop, last, first + self.n_block)
                self._step_whole(first, stop)
            else:
                stop = first + 1
                rows = self.group_starts[stop] - self.group_starts[first]
                is_held = self.owner.is_held(rows, self.n_scores)
                (self._step_held if is_held else self._step_long)(first)
            first = stop
        sums, _, _, diagnostics = self._finished()
        return sums, diagnostics, self.counts, self.counters

    def _begin_turns(self, first, stop):
        """Set places, counts and settings of groups that make all of their iterations."""
        settings = self.owner.settings
        self.here = self.group_starts[first : stop + 1] - self.group_starts[first]
        self.turns = (settings.max_iterations, float(settings.tol), settings.n_restarts, settings.restart_iterations)
        self.N = self._last_counts(first, stop)

    def _step_whole(self, first, stop):
        """Make the local step of groups that fit into one block."""
        self._begin_turns(first, stop)
        self._step_places(self.group_starts[first], self.group_starts[stop])
        self.counts.append(sparse.csr_array(self.N))

    def _step_held(self, g):
        """Make the local step of a group with more rows than a block, whose scores are kept.

        The pieces of the group are scored first; then the group iterates, and the pieces are added to the sums.
        """
        start, stop = (int(place) for place in self.group_starts[g : g + 2])
        pieces = [slice(first, min(stop, first + self.n_block)) for first in range(start, stop, self.n_block)]
        own = {name: getattr(self, name) for name in _BUFFERS}
        held = {name: np.empty((stop - start, *buffer.shape[1:]), buffer.dtype) for name, buffer in own.items()}
        self._begin_turns(g, g + 1)
        near = []
        for piece in pieces:
            self._use(held, piece.start - start)
            rows, m = self._global(piece), piece.stop - piece.start
            phi = self._timed("statistics", self._statistics, rows, m)
            scores, near_of = self._timed("weights", self._score, phi, piece, m)
            self._hold(scores, near_of, rows)
            near.append(near_of)
        self._use(held, 0)
        places = slice(start, stop)
        self._timed("select", self._select, self.scores, _joined(near), self._global(places), places, stop - start)
        for piece in pieces:
            self._use(held, piece.start - start)
            rows, m = self._global(piece), piece.stop - piece.start
            phi = self._timed("statistics", self._statistics, rows, m)
            self._add_block(phi, self.scores[:m], rows, piece, m)
        self._use(own, 0)
        self.counts.append(sparse.csr_array(self.N))

    def _use(self, buffers, first):
        """Use these buffers, from row `first` on, for the work on a block."""
        for name, buffer in buffers.items():
            setattr(self, name, buffer[first:])

    def _step_long(self, g):
        """Make one iteration of a group whose scores are too large to keep, from its last weights."""
        start, stop = self.group_starts[g : g + 2]
        last, total = self._last_counts(g, g + 1), np.zeros((1, self.owner.K))
        self.turns = (1, 0.0, 0, 1)
        for first in range(start, stop, self.n_block):
            end = min(stop, first + self.n_block)
            self.here, self.N = np.array([0, end - first], dtype=np.int64), last.copy()
            self._step_places(first, end)
            total += self.N
        self.counts.append(sparse.csr_array(total))

    def _last_counts(self, first, stop):
        """Return the last sums of responsibilities of some groups, or those under the prior: (g, K)."""
        if self.before is not None:
            return self.before[first:stop].toarray()
        sizes = np.diff(self.group_starts[first : stop + 1]).astype(np.float64)
        if self.owner.weight is not None:
            weight = self.owner.weight[self.rows[self.group_starts[first] : self.group_starts[stop]]]
            sizes = np.bincount(np.repeat(np.arange(len(sizes)), sizes.astype(np.int64)), weight, len(sizes))
        return sizes[:, None] * (self.alpha / self.alpha.sum())

    def _step_places(self, first, stop):
        if stop > first:
            self._step_block(slice(int(first), int(stop)), int(stop - first))
        else:
            self.N[:] = 0.0

    def _select(self, scores, near, rows, places, m):
        kept = self.responsibilities[:m]
        weight = self._weight(rows)
        bad = group_step(
            scores,
            self.here,
            weight,
            self.alpha,
            self.N,
            kept,
            self.indices[:m],
            self.entropy[:m],
            *self.turns,
            self.turn,
            self.scratch,
            self.counters,
            *(near or (None, None, None)),
        )
        self._refuse(bad, rows)
        self.objective[:m] = 0.0  # the bound comes from the sums
        if self.owner.is_dense:
            scores[:] = kept
        else:
            self.values[:m] = kept


def _joined(near):
    """Join the candidates of the pieces of a group; return None without candidates."""
    if near[0] is None:
        return None
    buckets, graphs, last = zip(*near)
    return np.concatenate(buckets), graphs[0], np.concatenate(last)


class GroupProportions:
    """Weights of clusters that are all equal: in models of groups each group has its own."""

    objective = "vb"

    def better_order(self, n: npt.NDArray[np.float64], order: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the present order: the bound does not depend on it."""
        return order

    def log_pi(self, n: npt.NDArray[np.float64], order: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """Return zero for each cluster: (K,); groups add their own log weights."""
        return np.zeros(len(n))

    def optimum(self, n: npt.NDArray[np.float64], order: npt.NDArray[np.int64]) -> float:
        """Return zero: `weights_evidence` has the weights' part of the bound."""
        return 0.0

    def divergence(self, n: npt.NDArray[np.float64], order: npt.NDArray[np.int64]) -> float:
        """Return zero, as `optimum` does."""
        return 0.0


def weights_evidence(alpha: npt.NDArray[np.float64], counts: Any) -> float:
    """Return the part of the bound that belongs to the groups' weights, at their optimum, nats.

    Parameters
    ----------
    alpha : (K,) float64 ndarray
        Pseudo-count of each cluster.
    counts : (G, K) CSR
        Sums of the responsibilities of each group's rows.

    Notes
    -----
    The sum over groups of log B(alpha + N_g) - log B(alpha): a Polya urn with fractional counts.
    """
    n, a = counts.data, alpha[counts.indices]
    total, A = counts.sum(axis=1), alpha.sum()
    return float((gammaln(a + n) - gammaln(a)).sum() - (gammaln(A + total) - gammaln(A)).sum())


def better_pseudocounts(alpha: npt.NDArray[np.float64], counts: Any, *, rate: float = 1.0) -> npt.NDArray[np.float64]:
    """Return pseudo-counts (K,) of clusters with a higher bound.

    Parameters
    ----------
    alpha : (K,) float64 ndarray
        Present pseudo-counts.
    counts : (G, K) CSR
        Sums of the responsibilities of each group's rows.
    rate : float
        The bound includes the log density of a Gamma(1, rate) prior of each pseudo-count.

    Notes
    -----
    Fixed point of Minka 2000, "Estimating a Dirichlet distribution". Its lower bounds touch at `alpha`, so no iteration
    lowers the bound. The prior, with shape 1, adds its rate to the denominator.
    """
    total = counts.sum(axis=1)
    for _ in range(_ALPHA_STEPS):
        a = alpha[counts.indices]
        gains = np.bincount(counts.indices, weights=psi(a + counts.data) - psi(a), minlength=len(alpha))
        alpha = positive(alpha * gains / ((psi(alpha.sum() + total) - psi(alpha.sum())).sum() + rate))
    return alpha
