"""A pass of variational inference over rows in groups: weights and responsibilities of each group, and their sums.

Blocks are whole groups: the scores of their rows are computed once, by the blocks of `sparse_pass`, and the weights of
each group and its rows take turns on them. Of a group of more rows than a block holds the scores are kept while they
take turns, or, where they would be too large for that, it gets one turn in a pass: scores made anew for each turn would
cost what a pass costs, which has the parameters follow too. It costs O(N K F) for the scores and O(N K) for each turn;
memory is that of a block, of the kept scores, and of the groups' counts, at most N L.
"""

from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.special import gammaln, psi

from expfam.model.pseudo_counts import positive
from expfam.samplers.grouped.group_rows import group_step
from expfam.samplers.variational.local_step import MOST_ROWS, LocalStep, PassPart, SparsePass
from expfam.samplers.variational.sparse_rows import work_size
from expfam.structures.ground.threads import resolve_n_threads

HELD_BYTES = 1 << 26  # of the scores of a group of more rows than a block holds, in each part at work
_ALPHA_STEPS = 5  # of the fixed point, after a pass


@dataclass
class GroupedLocalStep(LocalStep):
    """What a pass found for the groups it was given.

    Attributes
    ----------
    rows : (m,) int64 ndarray
        Rows of the groups, group by group, as `labels` has them.
    counts : (g, K) float64 CSR
        What the rows of each group give each cluster; in the order of the groups.
    counters : (3,) int64 ndarray
        Iterations of groups, restarts tried and accepted.
    """

    rows: np.ndarray
    counts: sparse.csr_array
    counters: np.ndarray


class GroupedPass(SparsePass):
    """Passes over groups of rows with K clusters, of which each row keeps L.

    Parameters
    ----------
    phi : DensePhi, PackedPhi or SparsePhi
    n_clusters, n_active : int
    groups : Groups
    settings : GroupedVariational
    weight : (N,) float64 ndarray or None
    """

    def __init__(self, phi, n_clusters, n_active, groups, settings, *, weight=None):
        super().__init__(phi, n_clusters, n_active, weight=weight, n_threads=settings.n_threads)
        self.groups, self.settings = groups, settings
        self.largest = int(groups.sizes.max(initial=0))

    def block_rows(self, n_scores=None):
        """Rows of a block: those of the largest group, up to some thousand, or more where that costs little."""
        return max(super().block_rows(n_scores), min(MOST_ROWS, self.largest))

    def is_held(self, n_rows, n_scores):
        """Whether so many rows, more than a block holds, keep their scores while a group's turns are taken."""
        return n_rows * n_scores * self.phi.dtype.itemsize <= HELD_BYTES

    def held_memory(self, *, n_near=None):
        """Bytes that long groups hold at once at most, beside blocks: scores of their rows and what belongs to these.

        With `n_near` of passes over so many candidates of each row.
        """
        n_scores, sizes = self.K if n_near is None else n_near + self.L, self.groups.sizes
        held = np.sort(sizes[(sizes > self.block_rows(n_scores)) & self.is_held(sizes, n_scores)])
        n_parts = self.n_parts(int(sizes.sum()), has_candidates=n_near is not None)
        n_at_work = min(n_parts, resolve_n_threads(self.n_threads))
        each, width = self.phi.dtype.itemsize, 1 if self.is_dense else self.L
        of_row = each * (n_scores + width + self.L) + 4 * width + 16  # see _BUFFERS
        of_row += 0 if n_near is None else 2 * (4 * self.L + 8)  # last clusters and buckets, in pieces and joined
        of_row += 0 if self.weight is None else 8
        return int(held[-n_at_work:].sum()) * of_row

    def rows_of(self, chosen):
        """Rows of some groups, group by group, and where each begins among them: (m,) and (g + 1,) int64."""
        groups = self.groups
        sizes = groups.sizes[chosen]
        starts = np.concatenate([[0], np.cumsum(sizes)])
        places = np.arange(starts[-1]) - np.repeat(starts[:-1], sizes) + np.repeat(groups.starts[chosen], sizes)
        return groups.rows[places], starts.astype(np.int64)

    def local_step_of_groups(self, chosen, tables, alpha, before, *, candidates=None, last=None):
        """Weights and responsibilities of some groups under given parameters, and their sums.

        Parameters
        ----------
        chosen : (g,) int64 ndarray
            Groups.
        tables : Tables
        alpha : (K,) float64 ndarray
        before : (g, K) CSR or None
            What the rows of each group gave each cluster last; without it each begins with the weights of the prior.
        candidates : GraphCandidates, optional
            Where the clusters come from that rows are scored against; `last` is then needed.
        last : (N, L) int32 ndarray, optional
            Clusters that all rows of the data had last, -1 for none; those of the local step are returned then.

        Returns
        -------
        GroupedLocalStep
        """
        rows, starts = self.rows_of(chosen)
        if candidates is not None:  # rows of a group that have the same candidates stand together
            rows = rows[np.lexsort((last[rows, 0], np.repeat(np.arange(len(chosen)), np.diff(starts))))]
        m, found = len(rows), []
        empty = self._empty_step(m, keep=last is not None)
        source = None if candidates is None else (candidates, last[rows])
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
        local.counts = sparse.csr_array(sparse.vstack(found, format="csr"))
        return local


_BUFFERS = ("scores", "values", "indices", "objective", "entropy", "responsibilities")  # of the rows of a block


class _GroupedPart(PassPart):
    """Buffers and sums of one part of a local step of groups."""

    def __init__(self, owner, rows, tables, candidates, local, starts, alpha, before):
        super().__init__(owner, rows, tables, candidates, None, local)
        self.group_starts, self.alpha, self.before = starts, alpha, before
        self.counts, self.counters = [], np.zeros(3, dtype=np.int64)

    def run(self, first, last):
        """All blocks of the groups first..last-1 of the local step."""
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
        """Settings, places and weights of groups that have all of their turns."""
        settings = self.owner.settings
        self.here = self.group_starts[first : stop + 1] - self.group_starts[first]
        self.turns = (settings.max_iterations, float(settings.tol), settings.n_restarts, settings.restart_iterations)
        self.N = self._last_counts(first, stop)

    def _step_whole(self, first, stop):
        """Groups that fit into a block together."""
        self._begin_turns(first, stop)
        self._step_places(self.group_starts[first], self.group_starts[stop])
        self.counts.append(sparse.csr_array(self.N))

    def _step_held(self, g):
        """A group of more rows than a block holds: scores of all its pieces, its turns, and sums of the pieces."""
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
            near.append(self._timed("weights", self._score, phi, piece, m)[1])
        self._use(held, 0)
        rows = self._global(slice(start, stop))
        self._timed("select", self._select, self.scores, _joined(near), rows, stop - start)
        for piece in pieces:
            self._use(held, piece.start - start)
            rows, m = self._global(piece), piece.stop - piece.start
            phi = self._timed("statistics", self._statistics, rows, m)
            self._take(phi, self.scores[:m], rows, piece, m)
        self._use(own, 0)
        self.counts.append(sparse.csr_array(self.N))

    def _use(self, buffers, first):
        """Let the work on a block go to these buffers, from a row on."""
        for name, buffer in buffers.items():
            setattr(self, name, buffer[first:])

    def _step_long(self, g):
        """A group of too many rows for that: all of its pieces from the weights that it had last."""
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
        """What the rows of some groups gave each cluster last, or would give it under the prior's weights: (g, K)."""
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

    def _select(self, scores, near, rows, m):
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
        self.objective[:m] = 0.0  # the bound is taken from sums
        if self.owner.is_dense:
            scores[:] = kept
        else:
            self.values[:m] = kept


def _joined(near):
    """Candidates of the pieces of a group as those of the whole; None without candidates."""
    if near[0] is None:
        return None
    buckets, graphs, last = zip(*near)
    return np.concatenate(buckets), graphs[0], np.concatenate(last)


class GroupProportions:
    """Weights that belong to groups, as a posterior of parameters sees them: no part of it."""

    objective = "vb"

    def better_order(self, n, order):
        """The present order: clusters have none."""
        return order

    def log_pi(self, n, order):
        """Zero for each cluster: (K,); groups add their own."""
        return np.zeros(len(n))

    def optimum(self, n, order):
        """Zero: see `weights_evidence`."""
        return 0.0

    def divergence(self, n, order):
        """Zero, as `optimum`."""
        return 0.0


def weights_evidence(alpha, counts):
    """The part of the bound that is of the weights of groups, at their optimum for (G, K) CSR counts: nats.

    Notes
    -----
    Sum over groups of log B(alpha + N_g) - log B(alpha), as of a Polya urn with fractional counts.
    """
    n, a = counts.data, alpha[counts.indices]
    total, A = counts.sum(axis=1), alpha.sum()
    return float((gammaln(a + n) - gammaln(a)).sum() - (gammaln(A + total) - gammaln(A)).sum())


def better_pseudocounts(alpha, counts, *, rate=1.0):
    """Pseudo-counts of clusters at which the bound is higher, with the log density of a Gamma(1, rate) prior of each.

    Parameters
    ----------
    alpha : (K,) float64 ndarray
    counts : (G, K) CSR
    rate : float

    Returns
    -------
    (K,) float64 ndarray

    Notes
    -----
    Fixed point of Minka 2000, "Estimating a Dirichlet distribution", from lower bounds that touch at `alpha`: no step
    lowers it. The prior of shape 1 adds its rate to the denominator.
    """
    total = counts.sum(axis=1)
    for _ in range(_ALPHA_STEPS):
        a = alpha[counts.indices]
        gains = np.bincount(counts.indices, weights=psi(a + counts.data) - psi(a), minlength=len(alpha))
        alpha = positive(alpha * gains / ((psi(alpha.sum() + total) - psi(alpha.sum())).sum() + rate))
    return alpha
