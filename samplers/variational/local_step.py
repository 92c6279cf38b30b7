"""Local step of variational inference: responsibilities of some rows, and their sums.

The sizes alone decide how the rows are cut into parts. Each part works through its blocks in order and keeps its own
sums, and the sums are added in the order of the parts: the result has the same bits for every number of threads. A
block makes its statistics, scores them against all clusters or against candidates, keeps the L largest scores of each
row, and adds the weighted statistics to the sums. Each running part needs memory for one block and one (K, F) table;
kept rows need N L numbers; nothing is N x K.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from threading import Lock
from time import perf_counter
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from expfam.errors import SupportError
from expfam.samplers.variational.compiled_step import CompiledStep
from expfam.samplers.variational.linked_rows import LinkedRows
from expfam.samplers.variational.posterior import CHUNK_VALUES
from expfam.samplers.variational.sparse_rows import (
    add_dense_rows,
    add_soft_rows,
    add_soft_sparse_rows,
    add_sparse_rows,
    dense_candidates,
    dense_scores,
    lost_mass,
    select_rows,
    soft_rows,
    sparse_candidates,
    sparse_scores,
    work_size,
)
from expfam.samplers.variational.statistics import Additive
from expfam.structures.ground.arrays import aligned, in_lines
from expfam.structures.ground.stored import numbers
from expfam.structures.ground.threads import N_SEGMENTS, resolve_n_threads, run, team_of
from expfam.structures.rows.near_scores import NearScores, NearScratch, may_code

if TYPE_CHECKING:
    from expfam.model.data import Dataset
    from expfam.samplers.variational.candidates import GraphCandidates
    from expfam.samplers.variational.features import PhiBlocks
    from expfam.samplers.variational.posterior import Posterior
    from expfam.structures.ground.team import Team

SCORE_BYTES = 1 << 20  # limit for the scores of a block
PHI_BYTES = 1 << 23  # limit for the statistics of a block
MOST_ROWS = 4096
PART_ROWS = 2048  # least number of rows in a part
LOOP_PRODUCTS = 1 << 33  # of rows, clusters and statistics in a loop without Python: some tenths of a second
_ALL_ROWS, _CANDIDATE_ROWS = 2, 8  # least number of rows of a part per cluster: then adding its sums costs little
_SIZED_ROWS = 64  # that show the sizes of statistics
SAMPLED_ROWS = 1000  # rows whose lost mass is measured in a pass over all clusters


@dataclass
class Sums(Additive):
    """Expected statistics of some rows.

    Attributes
    ----------
    n : (K,) float64 ndarray
    S : (K, F) float64 ndarray
    entropy : float
        Sum of -sum r log r over the rows, nats.
    """

    n: np.ndarray
    S: np.ndarray
    entropy: float = 0.0

    kept_positive: ClassVar[str] = "n"

    @property
    def weight(self) -> float:
        """Return the number of the rows, or the sum of their weights."""
        return float(self.n.sum())

    @classmethod
    def zeros(cls, n_clusters: int, n_statistics: int) -> Sums:
        """Return the sums of no rows."""
        return cls(aligned(n_clusters), aligned((n_clusters, n_statistics)))

    def to_arrays(self) -> dict[str, npt.NDArray[np.float64]]:
        """Return the counts and sums, without the entropy, as a dict of arrays."""
        return {"n": self.n.copy(), "S": self.S.copy()}

    @classmethod
    def from_arrays(cls, arrays: dict[str, Any], entropy: Any, shape: tuple[int, ...]) -> Sums:
        """Return the sums of the arrays that `to_arrays` gave, with an entropy.

        Parameters
        ----------
        arrays : dict of ndarrays
            Result of `to_arrays`.
        entropy : float
            Entropy of the responsibilities, nats.
        shape : tuple of int
            Shape (K, F) of the sums, against which the arrays are checked.

        Raises
        ------
        ArchiveError
            Unless S has the given shape (K, F).
        """
        S = numbers(arrays, "S", shape)
        n = numbers(arrays, "n", S.shape[:1], low=0.0)
        return cls(n, S, float(numbers({"entropy": entropy}, "entropy", ())))


@dataclass
class PassDiagnostics:
    """Timings and lost probability mass of a pass.

    Attributes
    ----------
    seconds : dict of str to float
        Seconds of "statistics", "weights", "select" and "summary", summed over all threads.
    lost, n_sampled : float, int
        Probability mass outside of the kept clusters, summed over `n_sampled` rows.
    n_last_outside : int
        How many last clusters of rows were not among the rows' candidates.
    """

    seconds: dict[str, float] = field(
        default_factory=lambda: dict.fromkeys(("statistics", "weights", "select", "summary"), 0.0)
    )
    lost: float = 0.0
    n_sampled: int = 0
    n_last_outside: int = 0

    def add(self, other: PassDiagnostics) -> None:
        """Add the diagnostics of another pass or part, in place."""
        for name, value in other.seconds.items():
            self.seconds[name] += value
        self.lost += other.lost
        self.n_sampled += other.n_sampled
        self.n_last_outside += other.n_last_outside

    def extra(self) -> dict[str, float]:
        """Return the diagnostics as numbers by name, for an Info."""
        extra = {f"seconds_{name}": value for name, value in self.seconds.items()}
        extra["n_last_outside"] = self.n_last_outside
        if self.n_sampled:
            extra["lost_mass"] = self.lost / self.n_sampled
        return extra


@dataclass
class LocalStep:
    """Result of the local step of some rows.

    Attributes
    ----------
    sums : Sums
    value : float
        Sum over the rows of log sum exp of the kept scores, nats.
    replaced : Sums or None
        Sums of the remembered responsibilities of the rows, without their entropy.
    labels : (m,) int32 ndarray
        Cluster with the largest score of each row.
    indices, values : (m, L) int32 and dtype ndarrays, or None
        Clusters and responsibilities that the rows keep, if the caller asked for them.
    diagnostics : PassDiagnostics
    """

    sums: Sums
    value: float
    replaced: Sums | None
    labels: np.ndarray
    indices: np.ndarray | None
    values: np.ndarray | None
    diagnostics: PassDiagnostics


class Tables:
    """Parameters in the precision and layout of a pass.

    In float32 scores use theta_k - theta_0, with theta_0 the mean parameter, and phi minus its origin. Both shifts are
    exact and keep digits. The shift of theta subtracts <phi, theta_0> - g_0 from all scores of a row. This term is the
    same for all clusters; `left_out` restores it in the bound, from the sum of phi alone.
    """

    near: NearScores | None = None  # of many clusters and columns, in single precision

    def __init__(self, posterior: Posterior, phi: PhiBlocks) -> None:
        theta, self.g_0 = posterior.theta, 0.0
        self.theta_0 = None
        c = posterior.log_pi - posterior.g
        if phi.dtype == np.float32:
            share = posterior.n / posterior.n.sum()
            self.theta_0, self.g_0 = share @ theta, float(share @ posterior.g)
            theta = theta - self.theta_0
            c = c + self.g_0
        if phi.origin is not None:
            c = c + theta @ phi.origin
        self.c = np.ascontiguousarray(c, dtype=phi.dtype)
        self.theta: Any = np.ascontiguousarray(theta.T if phi.is_sparse else theta, dtype=phi.dtype)
        if has_codes(phi, len(theta)):
            self.near = NearScores(self.theta, self.c, _sizes(phi))

    def score(self, rows: Any, out: npt.NDArray[Any], scratch: NearScratch | None = None) -> None:
        """Write the scores (R, K) of rows, whose arrays are as in `dense_scores` or `sparse_scores`.

        With `scratch`, scores 30 nats below the best one of a row may be upper bounds: their responsibilities are lost
        in single precision.
        """
        if scratch is not None and self.near is not None and self.near.score(rows[0], out, scratch):
            return
        parts: Any = (*rows, self.theta, self.c, out)
        (dense_scores if len(rows) == 1 else sparse_scores)(*parts)

    def score_near(self, rows: Any, near: Any, gathered: Any, out: npt.NDArray[Any], *, scores_last: bool) -> int:
        """Write the scores of rows against candidates, `near`, as `dense_candidates` does.

        `near` is (buckets, graph, last).
        """
        is_dense = len(rows) == 1
        parts: Any = (*rows, self.theta, self.c, *near, scores_last, *([gathered] if is_dense else []), out)
        return (dense_candidates if is_dense else sparse_candidates)(*parts)

    def forget(self) -> None:
        """Free what only scores need."""
        self.theta = self.near = None

    def left_out(self, sums: Sums) -> float:
        """Return the part of the bound that scores by these tables leave out, nats.

        `sums` are the sums of the scored rows.
        """
        if self.theta_0 is None:
            return 0.0
        return float(sums.S.sum(axis=0) @ self.theta_0 - sums.n.sum() * self.g_0)


def has_codes(phi: Any, n_clusters: int) -> bool:
    """Tell whether products of integers bound the scores of all clusters.

    They do, of dense rows in single precision.

    Parameters
    ----------
    phi : PhiBlocks
    n_clusters : int
    """
    return not phi.is_sparse and phi.dtype == np.float32 and may_code(n_clusters, phi.n_statistics)


def _sizes(phi):
    """Return the sizes of the statistics in each column, from a few rows: (F,)."""
    rows = np.arange(0, phi.data.n_rows, max(1, phi.data.n_rows // _SIZED_ROWS))
    block = phi.fill(rows, np.empty((rows.size, phi.n_statistics), dtype=phi.dtype))
    return np.sqrt(np.square(block, dtype=np.float64).mean(axis=0))


class PhiSizes:
    """Sizes of statistics that are not made yet, for the memory forecast of a pass."""

    def __init__(self, data: Dataset, itemsize: int) -> None:
        self.data, self.n_statistics, self.is_sparse = data, data.n_statistics, data.has_sparse_phi
        self.dtype = np.dtype(f"f{itemsize}")


class SparsePass:
    """Passes over the rows of a data set with K clusters, of which each row keeps L.

    L is `n_active`, at most K; with L = K the pass is dense and keeps no rows. `held` (N,) is the cluster of each row
    whose cluster is known, and -1 for the others: all of its responsibility is there. With `LinkedRows` as `phi`, rows
    that are linked share their responsibilities. `scores_last` says whether the last clusters of a row are scored when
    they are not among its candidates. Without them the bound may fall: only tests set it to False.
    """

    scores_last = True
    sums_columns: int | None = None  # columns that the parts sum up; None for all

    def __init__(
        self,
        phi: Any,
        n_clusters: int,
        n_active: int,
        *,
        weight: npt.NDArray[np.float64] | None = None,
        held: npt.NDArray[np.int32] | None = None,
        n_threads: int | None = None,
    ) -> None:
        self.phi, self.K, self.L = phi, int(n_clusters), int(n_active)
        self.weight, self.held, self.n_threads = weight, held, n_threads
        self.n_rows = phi.data.n_rows
        self.links = phi if isinstance(phi, LinkedRows) else None
        self.sampled_step = max(1, self.n_rows // SAMPLED_ROWS)
        self._team: Team | None = None

    @property
    def is_dense(self) -> bool:
        """Tell whether rows keep all clusters."""
        return self.L >= self.K

    @property
    def has_bounds(self) -> bool:
        """Tell whether passes over all clusters bound the scores that lie far below the best one."""
        return self.held is None and self.links is None and has_codes(self.phi, self.K)

    def local_step(
        self,
        rows: slice | npt.NDArray[np.integer],
        tables: Tables,
        *,
        candidates: GraphCandidates | None = None,
        last: npt.NDArray[np.int32] | None = None,
        remembered: tuple[npt.NDArray[np.int32], npt.NDArray[Any]] | None = None,
        keep: bool = False,
        is_last: bool = False,
    ) -> LocalStep:
        """Compute the responsibilities of some rows under given parameters, and their sums.

        Parameters
        ----------
        rows : slice or (m,) int ndarray
        tables : Tables
            Posterior of the clusters in the layout of a pass.
        candidates : GraphCandidates, optional
            Clusters that rows are scored against; all clusters if not given.
        last : (m, L) int32 ndarray, optional
            Clusters that the rows had last; needed with `candidates`.
        remembered : tuple of (m, L) ndarrays, optional
            Former responsibilities of the rows, (indices, values), whose sums are returned as `replaced`.
        keep : bool
            Whether to return the responsibilities.
        is_last : bool
            Whether the tables score no other rows: they are then freed before sums are made.

        Raises
        ------
        SupportError
            A row has no finite score; the message names it.
        """
        m = rows.stop - rows.start if isinstance(rows, slice) else len(rows)
        # `last` comes with candidates
        order = None if candidates is None else np.argsort(last[:, 0], kind="stable")  # type: ignore[index]
        local = self._empty_step(m, remembered=remembered is not None, keep=keep)
        source = None if candidates is None else (candidates, last)

        def part(start, stop):
            return PassPart(self, rows, tables, source, remembered, local).run(start, stop, order)

        def add(sums, replaced, value, diagnostics):
            local.sums.add(sums)
            local.value += value
            if local.replaced is not None:
                local.replaced.add(replaced)
            local.diagnostics.add(diagnostics)

        rows_source = None if candidates is not None or remembered is not None else self._compiled_source()
        if rows_source is not None:
            self._make_compiled(local, rows, tables, rows_source)
        else:
            self._run(part, m, add, has_candidates=candidates is not None)
        self._add_origin(local.sums)
        self._add_origin(local.replaced)
        if is_last:
            tables.forget()
        self._complete(local, rows)
        local.value += tables.left_out(local.sums)
        return local

    def _compiled_source(self):
        """Return the source of rows whose step against all clusters asks nothing of Python, or None."""
        is_other = self.is_dense or self.phi.is_sparse or self.links is not None or self.held is not None
        return None if is_other or has_codes(self.phi, self.K) else self.phi.source()

    def _make_compiled(self, local, rows, tables, source):
        """Make the step of rows against all clusters, with a team."""
        m, n_threads = len(local.labels), resolve_n_threads(self.n_threads)
        kept = None if local.indices is None else (local.indices, local.values)
        parts = CompiledStep(
            source, rows, tables.theta, tables.c, self.weight, n_active=self.L, n_block=self.block_rows(),
            n_parts=self.n_parts(m), step=self.sampled_step, labels=local.labels, kept=kept, sums=local.sums,
            n_threads=n_threads,
        )  # fmt: skip
        with nullcontext(self._team) if self._team else team_of(n_threads, uses_blas=True) as team:
            bad = parts.run(team, most_products=LOOP_PRODUCTS)
        if bad >= 0:
            self.refuse(rows, bad)
        value, local.sums.entropy, lost, *seconds = parts.found.sum(axis=0).tolist()
        local.value += value
        local.diagnostics.lost, local.diagnostics.n_sampled = lost, len(range(0, m, self.sampled_step))
        local.diagnostics.seconds = dict(zip(local.diagnostics.seconds, (1e-9 * each for each in seconds)))

    def keeps_team(self) -> bool:
        """Tell whether threads may wait from one step against all clusters to the next.

        They may where no task between two steps needs them.
        """
        return self.K * self.phi.n_statistics <= CHUNK_VALUES and self._compiled_source() is not None

    @contextmanager
    def served(self) -> Iterator[None]:
        """Keep the threads of the steps in the block between one step and the next."""
        with team_of(self.n_threads, uses_blas=True) as self._team:
            try:
                yield
            finally:
                self._team = None

    def refuse(self, rows: slice | npt.NDArray[np.integer], bad: int) -> None:
        """Raise the error of a row without a finite score, at a place of some rows."""
        row = rows.start + bad if isinstance(rows, slice) else rows[bad]
        raise SupportError(
            f"family {self.phi.family.name!r}: row {row} has no finite score under any cluster; is it possible"
            " under the prior?"
        )

    def _complete(self, local, rows):
        """Make the sums of a step that its parts have not made; by default there are none."""

    def _empty_step(self, m, *, remembered=False, keep=False):
        F = self.phi.n_statistics if self.sums_columns is None else self.sums_columns
        return LocalStep(
            sums=Sums.zeros(self.K, F),
            value=0.0,
            replaced=Sums.zeros(self.K, self.phi.n_statistics) if remembered else None,
            labels=np.empty(m, dtype=np.int32),
            indices=np.empty((m, self.L), dtype=np.int32) if keep else None,
            values=np.empty((m, self.L), dtype=self.phi.dtype) if keep else None,
            diagnostics=PassDiagnostics(),
        )

    def sums_of(
        self, rows: slice | npt.NDArray[np.integer], indices: npt.NDArray[np.int32], values: npt.NDArray[Any]
    ) -> Sums:
        """Return the sums of given responsibilities of some rows, without their entropy.

        Parameters
        ----------
        rows : slice or (m,) int ndarray
        indices : (m, L) int32 ndarray
            Clusters of each row.
        values : (m, L) ndarray
            Its responsibilities.

        Returns
        -------
        Sums
        """
        total = Sums.zeros(self.K, self.phi.n_statistics)

        def part(start, stop):
            return (PassPart(self, rows, None, None, (indices, values), None).sum_up(start, stop),)

        self._run(part, len(indices), total.add)
        self._add_origin(total)
        return total

    def _add_origin(self, sums):
        """Make sums of statistics minus their origin those of the statistics, in place."""
        if sums is not None and self.phi.origin is not None:
            sums.S += sums.n[:, None] * self.phi.origin

    def _run(self, part, m, add, *, has_candidates=False):
        """Run all parts, and give their results to `add` in the order of the parts.

        A result is added as soon as all results before it are added.
        """
        n_parts = self.n_parts(m, has_candidates=has_candidates)
        bounds = [(m * p // n_parts, m * (p + 1) // n_parts) for p in range(n_parts)]
        waiting, lock, n_added = {}, Lock(), 0

        def work(place, start, stop):
            nonlocal n_added
            result = part(start, stop)
            with lock:
                waiting[place] = result
                while n_added in waiting:
                    add(*waiting.pop(n_added))
                    n_added += 1

        run(work, [(place, *bound) for place, bound in enumerate(bounds)], self.n_threads)

    def n_parts(self, m: int, *, has_candidates: bool = False) -> int:
        """Return the number of parts into which `m` rows are cut.

        It depends on sizes alone. Rows that are scored against candidates have fewer parts. The number is even, and
        a multiple of 4 from 16 on: else one thread waits for the last part of another.
        """
        rows_each = max(PART_ROWS, (_CANDIDATE_ROWS if has_candidates else _ALL_ROWS) * self.K)
        n_parts = max(1, min(N_SEGMENTS, m // rows_each))
        return n_parts if n_parts < 2 else n_parts - n_parts % (4 if n_parts >= 16 else 2)

    def block_rows(self, n_scores: int | None = None) -> int:
        """Return the number of rows of a block, by sizes alone.

        `n_scores` is the number of scores of a row, K if not given.
        """
        size = self.phi.dtype.itemsize
        by_phi = MOST_ROWS if self.phi.is_sparse else PHI_BYTES // (size * self.phi.n_statistics)
        return max(16, min(MOST_ROWS, SCORE_BYTES // (size * (n_scores or self.K)), by_phi))

    def memory(self) -> int:
        """Return the bytes of the tables and of the sums of the running parts."""
        n_parts = min(self.n_parts(self.n_rows), 2 * resolve_n_threads(self.n_threads))
        return (8 * (n_parts + 4) + 2 * self.phi.dtype.itemsize) * self.K * self.phi.n_statistics


class PassPart:
    """Buffers and sums of one part of a local step."""

    remembered: Any  # None, or a tuple
    replaced: Any  # None, or `Sums`

    def __init__(
        self,
        owner: SparsePass,
        rows: slice | npt.NDArray[np.integer],
        tables: Tables | None,
        candidates: tuple[GraphCandidates, npt.NDArray[np.int32]] | None,
        remembered: tuple[npt.NDArray[np.int32], npt.NDArray[Any]] | None,
        local: LocalStep | None,
    ) -> None:
        self.owner, self.phi, self.rows, self.tables = owner, owner.phi, rows, tables
        self.candidates, self.remembered, self.local = candidates, remembered, local
        K, F, dtype = owner.K, owner.phi.n_statistics, owner.phi.dtype
        self.sums = Sums.zeros(K, F if owner.sums_columns is None else owner.sums_columns)
        self.replaced = None if remembered is None else Sums.zeros(K, F)
        self.value, self.diagnostics = 0.0, PassDiagnostics()
        self.n_scores = K if candidates is None else candidates[0].n_scores + owner.L
        self.n_block = owner.block_rows(self.n_scores)
        width = owner.L if remembered is None else max(owner.L, remembered[0].shape[1])
        self.starts, self.places = in_lines(K + 2, np.int64), in_lines(self.n_block * width, np.int64)
        self.total = None if self.phi.is_sparse else in_lines(F, dtype)
        if not self.phi.is_sparse:
            self.block = in_lines((self.n_block, F), dtype)
        self.transposed = np.zeros((F, K)) if owner.is_dense and self.phi.is_sparse else None

    # ---- rows and statistics -----------------------------------------------------------------------------------------

    def _global(self, places):
        if not isinstance(self.rows, slice):
            return self.rows[places]
        if isinstance(places, slice):
            return slice(self.rows.start + places.start, self.rows.start + places.stop)
        return self.rows.start + places

    def _blocks(self, start, stop, order=None):
        for first in range(start, stop, self.n_block):
            places = slice(first, min(stop, first + self.n_block))
            yield places if order is None else order[places]

    def _statistics(self, rows, m):
        return self.phi.entries(rows) if self.phi.is_sparse else self.phi.fill(rows, self.block[:m])

    def _weight(self, rows):
        return None if self.owner.weight is None else self.owner.weight[rows]

    # ---- a part ------------------------------------------------------------------------------------------------------

    def run(
        self, start: int, stop: int, order: npt.NDArray[np.integer] | None
    ) -> tuple[Sums, Sums | None, float, PassDiagnostics]:
        """Run all blocks of the places start..stop-1 of the local step; return their sums."""
        self._allocate()
        for places in self._blocks(start, stop, order):
            self._step_block(places, places.stop - places.start if isinstance(places, slice) else len(places))
        return self._finished()

    def _allocate(self):
        owner = self.owner
        dtype = np.float64 if owner.is_dense else self.phi.dtype
        self.scores = in_lines((self.n_block, self.n_scores), self.phi.dtype)
        self.work = in_lines(work_size(self.n_scores), dtype)
        self.objective, self.entropy = in_lines(self.n_block), in_lines(self.n_block)
        width = 1 if owner.is_dense else owner.L
        self.values = in_lines((self.n_block, width), self.phi.dtype)
        self.indices = in_lines((self.n_block, width), np.int32)
        self.gathered = None
        self.near = self._near_scratch()
        if self.candidates is not None and not self.phi.is_sparse:
            self.gathered = in_lines((self.candidates[0].n_scores, self.phi.n_statistics), self.phi.dtype)
        elif owner.is_dense and not self.phi.is_sparse:
            self.product = in_lines((owner.K, self.phi.n_statistics), self.phi.dtype)

    def _near_scratch(self):
        """Return what scores near the best one need, or None where all scores are wanted."""
        near = self.tables.near
        return NearScratch(near) if near is not None and self.owner.has_bounds and self.candidates is None else None

    def _finished(self):
        if self.transposed is not None:
            self.sums.S += self.transposed.T
        return self.sums, self.replaced, self.value, self.diagnostics

    def sum_up(self, start: int, stop: int) -> Sums:
        """Return the sums of statistics under the remembered responsibilities, without a new step."""
        for places in self._blocks(start, stop):
            rows = self._global(places)
            phi = self._statistics(rows, places.stop - places.start)
            before = (part[places] for part in self.remembered)
            self._add(self.replaced, phi, *before, self._weight(rows))  # type: ignore[call-arg]
        return self.replaced

    def _timed(self, name, work, *arguments):
        began = perf_counter()
        result = work(*arguments)
        self.diagnostics.seconds[name] += perf_counter() - began
        return result

    def _step_block(self, places, m):
        rows = self._global(places)
        phi = self._timed("statistics", self._statistics, rows, m)
        scores, near = self._timed("weights", self._score, phi, places, m)
        if self.owner.links is not None:
            scores *= self.owner.links.power[rows][:, None]
        self._hold(scores, near, rows)
        self._timed("select", self._select, scores, near, rows, places, m)
        self._add_block(phi, scores, rows, places, m)

    def _hold(self, scores, near, rows):
        """Leave rows of known clusters the scores of these alone."""
        if self.owner.held is not None:
            _leave_held(scores, near, self.owner.held[rows])

    def _add_block(self, phi, scores, rows, places, m):
        """Add the responsibilities of a block to the sums, and write them to the result."""
        weight, local = self._weight(rows), self.local
        if local.indices is not None and self.owner.is_dense:  # responsibilities have replaced scores, for their sums
            local.indices[places], local.values[places] = np.arange(self.owner.L), scores
        if self.owner.sums_columns != 0:
            self._timed("summary", self._sum_block, phi, scores, places, weight, m)
        objective, entropy = self.objective[:m], self.entropy[:m]
        shares = weight if self.owner.links is None else self.owner.links.shares[rows]
        self.value += float(objective.sum() if shares is None else objective @ shares)
        self.sums.entropy += float(entropy.sum() if shares is None else entropy @ shares)
        local.labels[places] = self.indices[:m, 0]
        if local.indices is not None and not self.owner.is_dense:
            local.indices[places], local.values[places] = self.indices[:m], self.values[:m]

    def _score(self, phi, places, m):
        scores, arrays = self.scores[:m], phi if self.phi.is_sparse else (phi,)
        if self.candidates is None:
            self.tables.score(arrays, scores, self.near)
            return scores, None
        source, last = self.candidates
        last = np.ascontiguousarray(last[places])
        graph, buckets = source.of_block(last)
        near = (buckets, graph, last)
        found = self.tables.score_near(arrays, near, self.gathered, scores, scores_last=self.owner.scores_last)
        self.diagnostics.n_last_outside += found
        return scores, near

    def _select(self, scores, near, rows, places, m):
        results = (self.objective[:m], self.entropy[:m], self.work)
        if self.owner.is_dense:
            bad = soft_rows(scores, self.indices[:m], *results)
        else:
            near_rows = near or (None, None, None)
            bad = select_rows(scores, *near_rows, self.values[:m], self.indices[:m], *results)
            if near is None and bad < 0:
                self._sample_lost_mass(scores, places, m)
        self._refuse(bad, rows)

    def _refuse(self, bad, rows):
        if bad >= 0:
            self.owner.refuse(rows, bad)

    def _sample_lost_mass(self, scores, places, m):
        step = self.owner.sampled_step
        first = -places.start % step
        self.diagnostics.lost += lost_mass(scores, first, step, self.objective)
        self.diagnostics.n_sampled += len(range(first, m, step))

    def _sum_block(self, phi, scores, places, weight, m):
        if self.replaced is not None:
            self._add(self.replaced, phi, *(np.ascontiguousarray(part[places]) for part in self.remembered), weight)
        if not self.owner.is_dense:
            self._add(self.sums, phi, self.indices[:m], self.values[:m], weight)
        elif self.phi.is_sparse:
            add_soft_sparse_rows(*phi, scores, weight, self.sums.n, self.transposed)
        else:
            add_soft_rows(phi, scores, weight, self.sums.n, self.sums.S, self.product)

    def _add(self, sums, phi, indices, values, weight):
        scratch = (self.starts, self.places)
        if self.phi.is_sparse:
            add_sparse_rows(*phi, values, indices, weight, sums.n, sums.S, *scratch)
        else:
            add_dense_rows(phi, values, indices, weight, sums.n, sums.S, *scratch, self.total)


def _leave_held(scores, near, held):
    """Leave each row of a known cluster the score of this one alone."""
    rows = np.flatnonzero(held >= 0)
    if near is None:
        kept = scores[rows, held[rows]]
        scores[rows] = -np.inf
        scores[rows, held[rows]] = kept
        return
    buckets, graph, _ = near  # each cluster is among its own nearest, so that of the row is a candidate
    is_other = graph[buckets[rows]] != held[rows, None]
    scores[rows, graph.shape[1] :] = -np.inf
    scores[rows[:, None], np.arange(graph.shape[1])] = np.where(is_other, -np.inf, scores[rows, : graph.shape[1]])
