"""Base of variational runs over chunks of data that are not kept.

A stream holds sums and, under a memoized schedule, the last contribution of each named chunk. A chunk that is learned
again replaces its contribution, so passes over all chunks give the results of a run that holds the data. Subclasses
define the sums and the local step of a chunk.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from expfam.amounts import counted
from expfam.errors import ArchiveError, CapabilityError, DataError
from expfam.protocols import Info
from expfam.samplers.variational.learner import Learner, Pass, weight_of
from expfam.samplers.variational.schedules import Full, Stochastic

if TYPE_CHECKING:
    import numpy.typing as npt

    from expfam.model.data import Dataset
    from expfam.samplers.variational.statistics import Additive


@dataclass
class Chunk:
    """A batch that comes from outside.

    Attributes
    ----------
    name : int, str or None
    data : Dataset
    last : object or None
        Last contribution of the chunk.
    """

    name: Any
    data: Any
    last: Any


class ChunkStream(Learner):
    """Base of variational runs that learn chunks of data.

    Subclasses write `check_kind`, `step_of`, `contribution` and `sums_of_contribution`, and the posterior.

    Attributes
    ----------
    contribution_type : type
        Class of the contributions of chunks.
    total_weight : float
        Number of rows (or sum of their weights) of the chunks learned so far, each chunk counted once.
    memo : dict
        Last contribution of each named chunk, with its `n_rows` and `weight`.
    is_guess : bool
        Whether the sums come from a start, since no chunk is learned yet.
    log_joint : float
        Lower bound of the log evidence of all learned chunks, nats.
    n_steps, n_sweeps : int
    is_weighted : bool
        Whether any chunk had weights of its rows.
    """

    is_weighted = False  # the value of streams that are made from arrays
    contribution_type: Any
    memo: dict[int | str, Any]
    labels: npt.NDArray[np.int32]
    is_guess: bool
    n_steps: int
    n_sweeps: int
    _repeats: bool

    # ---- written by subclasses ---------------------------------------------------------------------------------------

    def check_kind(self, data: Dataset) -> None:
        """Raise DataError for a chunk that the stream cannot learn."""
        raise NotImplementedError

    def contribution(self, local: Any, data: Dataset, last: Any, scores_all: bool) -> Any:
        """Return the contribution of a chunk, from its local step.

        Parameters
        ----------
        local : object
            Local step of the chunk.
        data : Dataset
            The chunk.
        last : object or None
            Contribution of the chunk when it was learned before; None for a new chunk.
        scores_all : bool
            Whether the local step scored all clusters.

        Returns
        -------
        contribution_type
            It has the attributes `n_rows` and `weight`.
        """
        raise NotImplementedError

    def sums_of_contribution(self, last: Any, local: Any) -> Any:
        """Return the sums of the last contribution of a chunk, before this local step.

        Parameters
        ----------
        last : contribution_type
            What the stream has stored of the chunk.
        local : object
            Present local step of the chunk. It brings the old sums where `last` holds responsibilities only.

        Returns
        -------
        Additive
        """
        raise NotImplementedError

    def open_for(self, data: Dataset, done: Pass) -> None:
        """Take over the family of a chunk that lacks cells; by default do nothing.

        Parameters
        ----------
        data : Dataset
            The chunk, with its own family.
        done : Pass
            Results of the pass so far, whose sums get the layout of that family too.
        """

    def kept_of(self, local: Any, data: Dataset) -> Any:
        """Return what a pass under `Full` keeps of a chunk for the next pass; by default None.

        Parameters
        ----------
        local, data
            As of `contribution`.
        """
        return None

    def gain_tolerance(self) -> float:
        """Return the share of the bound below which a pass's gain means convergence."""
        return self.settings.tol

    # ---- beginnings --------------------------------------------------------------------------------------------------

    def start_stream(self, schedule: Any) -> None:
        """Begin a stream that has learned nothing."""
        self.schedule, self.sums, self.memo = schedule, self.empty_sums(), {}
        self.total_weight, self.n_steps, self.n_updates, self.n_sweeps = 0.0, 0, 0, 0
        self.is_guess, self._repeats = False, False
        self.labels = np.empty(0, dtype=np.int32)

    def start_from(self, sums: Additive, weight: float) -> None:
        """Begin with sums that stand for data of some weight; the first learned chunk replaces them.

        Parameters
        ----------
        sums : Additive
            Sums of starting labels.
        weight : float
            Number of rows that they stand for, or the sum of their weights.
        """
        self.sums, self.total_weight, self.is_guess = sums, weight, True
        self.update()

    def continue_from(self, sums: Additive, weight: float) -> None:
        """Begin with the sums of a finished fit, whose rows are not known.

        A stochastic schedule goes on as if the rows had come in batches of its size.

        Parameters
        ----------
        sums : Additive
            Sums of all rows of the fit.
        weight : float
            Number of these rows, or the sum of their weights.
        """
        self.sums, self.total_weight = sums, weight
        if isinstance(self.schedule, Stochastic):
            self.n_updates = int(weight // self.schedule.batch_size)
        self.update()

    # ---- learning ----------------------------------------------------------------------------------------------------

    def learn(self, data: Dataset, *, batch: int | str | None = None, all_clusters: bool = False) -> Info:
        """Make the local step of a chunk and update the posterior.

        Parameters
        ----------
        data : Dataset
            A chunk with the stream's bound family.
        batch : int or str, optional
            Name of the chunk. Under a memoized schedule a chunk that is learned again under its name replaces its
            contribution; the contribution of a chunk without a name is never replaced.
        all_clusters : bool
            Score all clusters, even where the settings allow candidates.

        Returns
        -------
        Info
            Its objective is the bound for all chunks learned so far; under a stochastic schedule a noisy one.

        Raises
        ------
        CapabilityError
            Under the schedule `Full`, which only learns from passes over all chunks.
        DataError
            If the name belongs to a learned chunk of another size.
        """
        if isinstance(self.schedule, Full):
            raise CapabilityError(
                "the schedule Full() updates after a pass over all data; to learn chunk by chunk use Memoized() or"
                " Stochastic()"
            )
        begin, done = perf_counter(), Pass(self.empty_diagnostics())
        self.follow(Chunk(batch, data, self._last(data, batch)), done, all_clusters=all_clusters)
        return self._info(data.n_rows, done, begin)

    def sweep(self, chunks: Iterable[Dataset], *, all_clusters: bool = False) -> Info:
        """Make one pass over chunks that come in the same order each time.

        Parameters
        ----------
        chunks : iterable of Dataset
            The pass asks for a chunk when it has learned the one before it.
        all_clusters : bool
            As in `learn`.

        Returns
        -------
        Info
        """
        begin = perf_counter()
        self._repeats = self.n_sweeps > 0  # the first sweep has counted these rows
        done = self.run_pass(chunks, all_clusters=all_clusters)
        if done.n_batches == 0:
            raise DataError("there are no chunks: nothing to learn from")
        self.n_steps, self.n_sweeps, self._repeats = self.n_steps + 1, self.n_sweeps + 1, False
        return self._info(done.n_rows, done, begin)

    def sweeps(self, first: Iterable[Dataset], again: Callable[[], Iterable[Dataset]], n_passes: int) -> Iterator[Info]:
        """Make passes until the bound has converged; yield an Info of each.

        The last pass scores all clusters.

        Parameters
        ----------
        first : iterable of Dataset
            Chunks of the first pass.
        again : callable
            Returns the chunks of a further pass, in the same order.
        n_passes : int
            Largest number of passes. One more pass follows where the last one did not score all clusters.
        """
        info = self.sweep(first)
        yield info
        must_score_all = False
        for _ in range(n_passes - 1):
            before = info.objective
            info = self.sweep(again(), all_clusters=must_score_all)
            yield info
            if isinstance(self.schedule, Stochastic):
                continue
            must_score_all = info.objective - before < self.gain_tolerance() * abs(info.objective)
            if must_score_all and info.extra["all_clusters"]:
                return
        if not info.extra["all_clusters"]:
            yield self.sweep(again(), all_clusters=True)

    # ---- rules of the learner ----------------------------------------------------------------------------------------

    def batch_of(self, item: Dataset, place: int) -> Chunk:
        """Return the chunk of a pass, named by its place unless the schedule is stochastic."""
        name = None if self.is_noisy else place
        return Chunk(name, item, self._last(item, name))

    def follow(self, batch: Chunk, done: Pass, *, all_clusters: bool, is_last: bool = False) -> None:
        """Make the local step of a chunk, and the update and bound that the schedule has for it."""
        self.open_for(batch.data, done)
        done.n_rows += batch.data.n_rows
        done.weight += self.weight_of(batch)
        super().follow(batch, done, all_clusters=all_clusters, is_last=is_last)
        if not isinstance(self.schedule, Full):
            self.log_joint = done.bounds[-1] if self.is_noisy else self.compute_log_joint()
            self.n_steps += 1

    def weight_of(self, batch: Chunk) -> float:
        """Return the number of rows of a chunk, or the sum of their weights."""
        return weight_of(batch.data)

    def last_sums(self, batch: Chunk, local: Any) -> Any:
        """Return the sums of a chunk before this local step; None if it is new."""
        return None if batch.last is None else self.sums_of_contribution(batch.last, local)

    def remember(self, batch: Chunk, local: Any, *, scores_all: bool) -> None:
        """Keep the labels of a chunk, and its contribution if it has a name."""
        self.labels = local.labels
        if isinstance(self.schedule, Full):
            if (kept := self.kept_of(local, batch.data)) is not None:
                self.memo[batch.name] = kept
        elif batch.name is not None:
            self.memo[batch.name] = self.contribution(local, batch.data, batch.last, scores_all)

    def bound_of_steps(self, bounds: list[float]) -> float:
        """Return the noisy bound of the last step, nats: earlier ones may be for fewer rows."""
        return bounds[-1]

    def is_complete(self, done: Pass) -> bool:
        """Tell whether a pass learned every chunk that the sums hold."""
        return isinstance(self.schedule, Full) or done.n_batches == len(self.memo)

    def set_total(self, done: Pass) -> None:
        """Replace the sums and their weight by those of a pass."""
        super().set_total(done)
        self.total_weight, self.is_guess = done.weight, False

    def _replace(self, old, batch, new):
        """Replace the last sums of a chunk, or the guess of the start."""
        if self.is_guess:
            self.sums, self.total_weight, self.is_guess = self.empty_sums(), 0.0, False
        if old is None:
            self.total_weight += self.weight_of(batch)
        super()._replace(old, batch, new)

    def _total_with(self, weight):
        """Count a chunk; return the weight for which the sums stand after it."""
        seen = weight if self.is_guess else self.total_weight + (0.0 if self._repeats else weight)
        self.total_weight, self.is_guess = seen, False
        return self.schedule.n_total or self.total_weight

    def _growth(self, total):
        """Return the factor that scales the sums of the chunks so far to rows of weight `total`."""
        before = self.sums.weight
        return total / before if before > 0 else 1.0

    def _last(self, data, batch):
        """Return the last contribution of a chunk, or None.

        Raise DataError if the chunk cannot be the one that was learned; note whether it has weights.
        """
        self.check_kind(data)
        self.is_weighted |= data.weight is not None
        if batch is None:
            return None
        if isinstance(self.schedule, Stochastic):
            raise ValueError(f"batch={batch!r}: a stochastic schedule keeps nothing of a chunk; leave the name out")
        if isinstance(batch, bool) or not isinstance(batch, (int, np.integer, str)):
            raise ValueError(f"batch must be an integer or a string; got {batch!r}")
        last, weight = self.memo.get(batch), weight_of(data)
        if last is not None and (last.n_rows != data.n_rows or abs(last.weight - weight) > 1e-9 * weight):
            raise DataError(
                f"batch {batch!r} had {counted(last.n_rows, 'row')} of total weight {last.weight:g} when it was "
                f"learned; got {counted(data.n_rows, 'row')} of weight {weight:g}"
            )
        return last

    def _info(self, n_rows, done, begin):
        extra = done.diagnostics.extra() | {"all_clusters": int(done.scores_all)}
        return Info(self.n_steps, self.log_joint, self.n_clusters, n_rows, n_rows, perf_counter() - begin, extra)

    # ---- storage -----------------------------------------------------------------------------------------------------

    def memo_arrays(self) -> dict[str, Any]:
        """Return the contributions of the named chunks, with their names, as a dict of arrays."""
        names = [int(name) if isinstance(name, np.integer) else name for name in self.memo]
        return {
            "batches": np.array([json.dumps(name) for name in names], dtype=str),
            "memo": {str(place): kept.to_arrays() for place, kept in enumerate(self.memo.values())},
        }

    def restore_memo(self, arrays: dict[str, Any]) -> None:
        """Restore the contributions from the arrays that `memo_arrays` gave."""
        memo, names = arrays.get("memo", {}), [json.loads(str(name)) for name in np.atleast_1d(arrays["batches"])]
        if len(memo) != len(names) or not all(isinstance(name, (int, str)) for name in names):
            raise ArchiveError("the names of the chunks do not fit their contributions: the file was altered")
        self.memo = {
            name: self.contribution_type.from_arrays(memo[str(place)], self) for place, name in enumerate(names)
        }
