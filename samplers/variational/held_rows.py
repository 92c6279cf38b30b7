"""Bases of variational runs that hold their rows, divided into batches."""

from __future__ import annotations

from contextlib import nullcontext
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from expfam.model.partitions import by_first_appearance
from expfam.samplers.states.storage import UnsharedState
from expfam.samplers.variational.candidates import GraphCandidates
from expfam.samplers.variational.learner import Learner, Pass
from expfam.samplers.variational.local_step import Sums
from expfam.samplers.variational.schedules import Memoized
from expfam.samplers.variational.soft_state import SoftState
from expfam.structures.ground.stored import numbers

if TYPE_CHECKING:
    import numpy.typing as npt

    from expfam.model.data import Dataset


class Batch(NamedTuple):
    """Rows, or groups of rows, that are learned together.

    Attributes
    ----------
    place : int or None
        Number of the batch, the same in every pass; None under a stochastic schedule, which draws new batches.
    rows : slice or (m,) int64 ndarray
        Rows or groups, ascending.
    """

    place: Any
    rows: Any


class HeldRows(UnsharedState, Learner):
    """Base of learners that hold their data.

    Subclasses write `step_of`, `last_sums` and `remember`, and what their posterior asks for.

    Attributes
    ----------
    data : Dataset
    batches : list
        Rows or groups of each batch; empty under a stochastic schedule.
    batch_sums : list or None
        What is kept of the sums of each batch.
    n_steps, stamp : int
    memory : dict
    converged : bool
    """

    data: Any
    batches: list[Any]
    batch_sums: Any
    n_steps: int
    stamp: int
    memory: dict[str, Any]
    converged: bool
    seed: int

    def hold(self, data: Dataset, schedule: Any, *, n_steps: int = 0) -> None:
        """Hold the data in the batches of a schedule, before the first pass.

        Parameters
        ----------
        data : Dataset
        schedule : Full, Memoized or Stochastic
        n_steps : int
            Number of passes that were made before, for a state that is restored.
        """
        self.data, self.schedule, self.memory = data, schedule, {}
        self.n_steps, self.stamp, self.n_updates, self.converged = n_steps, 0, 0, False
        if isinstance(schedule, Memoized):
            self.batches = schedule.partition(self.n_units, self.seed)
        else:
            self.batches = [] if self.is_noisy else [self.all_units()]

    @property
    def n_units(self) -> int:
        """Return the number of rows, or of groups where groups are not divided."""
        return self.data.n_rows

    def all_units(self) -> Any:
        """Return all rows or groups, as the batch of the schedule `Full`."""
        return np.arange(self.n_units)

    def make_pass(self, *, all_clusters: bool = True) -> Pass:
        """Make one pass over the data by the schedule; return its results.

        Without `all_clusters` rows are scored against candidates.
        """
        schedule, n = self.schedule, self.n_units
        if isinstance(schedule, Memoized):
            items = [Batch(int(b), self.batches[b]) for b in schedule.order(n, self.seed, self.n_steps)]
        elif self.is_noisy:
            items = [Batch(None, rows) for rows in schedule.batches(n, self.seed, self.n_steps)]
        else:
            items = [Batch(0, self.batches[0])]
        done = self.run_pass(items, all_clusters=all_clusters, n_batches=len(items))
        self.stamp += 1
        return done

    def batch_of(self, item: Batch, place: int) -> Batch:
        """Return the batch itself."""
        return item


class HeldSoft(HeldRows, SoftState):
    """Base of runs that hold their rows and soft statistics of clusters.

    Attributes
    ----------
    labels : (N,) int32 ndarray
        Cluster of the largest responsibility.
    indices : (N, L) int32 ndarray or None
        Last clusters of each row, where some passes score candidates or rows are remembered.
    near : GraphCandidates or None
        Candidates of the present pass; None if it scores all clusters.
    since_all : int
        Number of passes since the last one over all clusters.
    must_score_all : bool
        Whether the next pass must score all clusters.
    share_moved : float
        Share of the rows whose label the last pass over all clusters changed.
    """

    passes: Any
    indices: Any
    near: GraphCandidates | None
    since_all: int
    must_score_all: bool
    share_moved: float

    def hold(self, data: Dataset, schedule: Any, *, n_steps: int = 0) -> None:
        """Hold the data in the batches of a schedule, before the first pass."""
        super().hold(data, schedule, n_steps=n_steps)
        self.since_all, self.must_score_all, self.share_moved, self.near = 0, False, np.inf, None

    def make_pass(self, *, all_clusters: bool = True) -> Pass:
        """Make one pass over the data by the schedule; return its results.

        Without `all_clusters` rows are scored against candidates, from a graph of near clusters that is made once.
        """
        begin, self.near = perf_counter(), None
        if not all_clusters:
            self.near = GraphCandidates(self.posterior.cluster_graph(self.settings.n_candidates_of(self.K)))
        seconds = perf_counter() - begin
        with self.passes.served() if all_clusters and self.passes.keeps_team() else nullcontext():
            done = super().make_pass(all_clusters=all_clusters)
        done.seconds_global += seconds
        self.near = None
        return done

    def first_indices(self) -> npt.NDArray[np.int32]:
        """Return the clusters of rows that have only the cluster of their label: (N, L) int32."""
        indices = np.full((len(self.labels), self.passes.L), -1, dtype=np.int32)
        indices[:, 0] = self.labels
        return indices

    @property
    def partition(self) -> npt.NDArray[np.int32]:
        """Return the labels, renumbered 0..B-1 by first appearance: (N,) int32, a copy."""
        return by_first_appearance(self.labels)[1]

    def set_model(self, model: Any) -> None:
        """Use another model with the same statistics, and set the posterior from them.

        The model may have other hyper-parameters, other weights of the same kind, or other pseudo-counts.
        """
        self.model = model
        self.phi.with_family(model.family)
        self.converged = False
        self.update()
        self.log_joint = self.compute_log_joint()

    def total_of_batches(self) -> Sums:
        """Return the sums of all rows, added up from the sums of the batches."""
        total = self.empty_sums()
        for sums in self.batch_sums:
            total.add(sums)
        return total

    def batch_arrays(self) -> dict[str, npt.NDArray[np.float64]]:
        """Return the sums of the batches, without their entropies, as a dict of arrays."""
        return {
            "batch_n": np.stack([sums.n for sums in self.batch_sums]),
            "batch_S": np.stack([sums.S for sums in self.batch_sums]),
        }

    def batches_of_arrays(self, arrays: dict[str, Any]) -> list[Sums]:
        """Return the sums of the batches from the arrays of `batch_arrays` and ``batch_entropy``.

        Raises
        ------
        ArchiveError
            For arrays that do not fit this state.
        """
        B = len(self.batches)
        n, S = numbers(arrays, "batch_n", (B, self.K), low=0.0), numbers(arrays, "batch_S", (B, *self.sums.S.shape))
        entropy = numbers(arrays, "batch_entropy", (B,))
        return [Sums(n[b], S[b], float(entropy[b])) for b in range(B)]
