"""Base of variational runs over chunks of data that are not kept.

A stream holds sums and, under a memoized schedule, the last contribution of each named chunk. A chunk that is learned
again replaces its contribution, so passes over all chunks give the results of a run that holds the data. Subclasses
define the sums and the local step of a chunk.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from expfam.errors import ArchiveError, CapabilityError, DataError
from expfam.protocols import Info
from expfam.samplers.variational.schedules import Full, Memoized, Stochastic

if TYPE_CHECKING:
    import numpy.typing as npt

    from expfam.model.data import Dataset
    from expfam.samplers.variational.statistics import Additive


class ChunkStream:
    """Base of variational runs that learn chunks of data.

    Subclasses keep `settings`, `sums` (an `Additive`) and `labels`, and write `empty_sums`, `empty_diagnostics`,
    `local_step`, `contribution`, `sums_of_contribution`, `check_kind`, `noisy_bound`, `update`, `compute_log_joint` and
    `n_clusters`.

    Attributes
    ----------
    schedule : Full, Memoized or Stochastic
    contribution_type : type
        Class of the contributions of chunks.
    sums : Additive
    total_weight : float
        Number of rows (or sum of their weights) of the chunks learned so far, each chunk counted once.
    memo : dict
        Last contribution of each named chunk, with its `n_rows` and `weight`.
    is_guess : bool
        Whether the sums come from a start, since no chunk is learned yet.
    log_joint : float
        Lower bound of the log evidence of all learned chunks, nats.
    n_steps, n_updates, n_sweeps : int
    is_weighted : bool
        Whether any chunk had weights of its rows.
    """

    is_weighted = False  # the value of streams that are made from arrays
    settings: Any
    schedule: Any
    contribution_type: Any
    sums: Any
    memo: dict[int | str, Any]
    labels: npt.NDArray[np.int32]
    total_weight: float
    is_guess: bool
    log_joint: float
    n_steps: int
    n_updates: int
    n_sweeps: int
    _repeats: bool
    _latest: Any
    _diagnostics: Any

    empty_sums: Any  # methods of the subclasses, from here on
    empty_diagnostics: Any
    local_step: Any
    update: Any
    compute_log_joint: Any

    def start_stream(self, schedule: Any) -> None:
        """Begin a stream that has learned nothing."""
        self.schedule, self.sums, self.memo = schedule, self.empty_sums(), {}
        self.total_weight, self.n_steps, self.n_updates, self.n_sweeps = 0.0, 0, 0, 0
        self.is_guess, self._repeats = False, False
        self.labels, self._latest = np.empty(0, dtype=np.int32), None

    def take_start(self, sums: Additive, weight: float) -> None:
        """Begin with sums that stand for data of some weight; the first learned chunk replaces them."""
        self.sums, self.total_weight, self.is_guess = sums, weight, True
        self.update()

    def take_fit(self, sums: Additive, weight: float) -> None:
        """Begin with the sums of a finished fit, whose rows are not known.

        A stochastic schedule goes on as if the rows had come in batches of its size.
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
        begin, last = perf_counter(), self._last(data, batch)
        local, scores_all = self.local_step(data, last, all_clusters=all_clusters)
        if isinstance(self.schedule, Stochastic):
            self._step_towards(local, weight_of(data))
        else:
            self._replace(local, data, batch, last, scores_all=scores_all)
        self.labels = local.labels
        return self._info(data.n_rows, local.diagnostics, begin, scores_all)

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
        begin, diagnostics, n_rows, scores_all = perf_counter(), self.empty_diagnostics(), 0, True
        self._repeats = self.n_sweeps > 0  # the first sweep has counted these rows
        is_full, is_memoized = isinstance(self.schedule, Full), isinstance(self.schedule, Memoized)
        fresh, weight, n_chunks = None, 0.0, 0
        for place, data in enumerate(chunks):
            n_chunks, n_rows, weight = place + 1, n_rows + data.n_rows, weight + weight_of(data)
            if is_full:
                local, _ = self.local_step(data, self._last(data, place), all_clusters=True)
                latest, self.labels = local.sums, local.labels
                if (kept := self.kept_of(local, data)) is not None:
                    self.memo[place] = kept
                diagnostics.add(local.diagnostics)
            else:
                info = self.learn(data, batch=place if is_memoized else None, all_clusters=all_clusters)
                latest, scores_all = self._latest, scores_all and bool(info.extra["all_clusters"])
                diagnostics.add(self._diagnostics)
            if not isinstance(self.schedule, Stochastic):
                fresh = self.empty_sums() if fresh is None else fresh
                fresh.add(latest)
            self._latest = latest = local = data = None  # type: ignore[assignment]  # frees memory for the next chunk
        if n_chunks == 0:
            raise DataError("there are no chunks: nothing to learn from")
        if is_full or (is_memoized and n_chunks == len(self.memo)):
            self.sums = fresh  # complete sums of this pass: rounding errors do not accumulate
            self.total_weight, self.is_guess = weight, False
            self.end_sweep()
            self.update()
            self.log_joint = self.compute_log_joint()
        self.n_sweeps, self._repeats = self.n_sweeps + 1, False
        return self._info(n_rows, diagnostics, begin, scores_all)

    def kept_of(self, local: Any, data: Dataset) -> Any:
        """Return what a pass under `Full` keeps of a chunk for the next pass; by default None."""
        return None

    def end_sweep(self) -> None:
        """Finish a pass, before its last update; by default do nothing."""

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
            must_score_all = info.objective - before < self.settled_gain() * abs(info.objective)
            if must_score_all and info.extra["all_clusters"]:
                return
        if not info.extra["all_clusters"]:
            yield self.sweep(again(), all_clusters=True)

    def settled_gain(self) -> float:
        """Return the share of the bound below which a pass's gain means convergence."""
        return self.settings.tol

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
                f"batch {batch!r} had {last.n_rows} rows of total weight {last.weight:g} when it was learned; got"
                f" {data.n_rows} rows of weight {weight:g}"
            )
        return last

    def _replace(self, local, data, batch, last, *, scores_all):
        """Replace the last sums of a chunk, or the guess of the start: the memoized update."""
        if self.is_guess:
            self.sums, self.total_weight, self.is_guess = self.empty_sums(), 0.0, False
        sums = self.sums.copy()
        if last is None:
            sums.add(local.sums)
            self.total_weight += weight_of(data)
        else:
            sums.replace(self.sums_of_contribution(last, local), local.sums)
        self.sums, self._latest = sums, local.sums
        if batch is not None:
            self.memo[batch] = self.contribution(local, data, last, scores_all)
        self.update()
        self.log_joint = self.compute_log_joint()

    def _step_towards(self, local, weight):
        """Move the sums towards those of a chunk, both scaled to all rows: the stochastic update."""
        schedule = self.schedule
        seen = weight if self.is_guess else self.total_weight + (0.0 if self._repeats else weight)
        total, before = schedule.n_total or seen, self.sums.weight
        scale = total / weight
        self.log_joint = self.noisy_bound(local, scale, total)
        self.n_updates += 1
        step = schedule.step_size(self.n_updates)
        kept = (1.0 - step) * (total / before if before > 0 else 1.0)
        self.sums = self.sums.copy().scale(kept).add(local.sums, step * scale)
        self.total_weight, self.is_guess = seen, False
        self._latest = None
        self.update()

    def _info(self, n_rows, diagnostics, begin, scores_all):
        self.n_steps += 1
        self._diagnostics = diagnostics
        seconds = perf_counter() - begin
        extra = diagnostics.extra() | {"all_clusters": int(scores_all)}
        return Info(self.n_steps, self.log_joint, self.n_clusters, n_rows, n_rows, seconds, extra)

    # ---- storage -----------------------------------------------------------------------------------------------------

    def memo_arrays(self) -> dict[str, Any]:
        """Return the contributions of the named chunks, with their names, as a dict of arrays."""
        names = [int(name) if isinstance(name, np.integer) else name for name in self.memo]
        return {
            "batches": np.array([json.dumps(name) for name in names], dtype=str),
            "memo": {str(place): kept.to_arrays() for place, kept in enumerate(self.memo.values())},
        }

    def take_memo(self, arrays: dict[str, Any]) -> None:
        """Restore the contributions from the arrays that `memo_arrays` gave."""
        memo, names = arrays.get("memo", {}), [json.loads(str(name)) for name in np.atleast_1d(arrays["batches"])]
        if len(memo) != len(names) or not all(isinstance(name, (int, str)) for name in names):
            raise ArchiveError("the names of the chunks do not fit their contributions: the file was altered")
        self.memo = {
            name: self.contribution_type.from_arrays(memo[str(place)], self) for place, name in enumerate(names)
        }

    def settings_changed(self, settings: Any) -> list[str]:
        """Return the names of the settings that differ, except `n_threads`."""
        mine, its = self.settings.get_params(), settings.get_params()
        return [name for name in mine if name != "n_threads" and mine[name] != its[name]]


def weight_of(data: Dataset) -> float:
    """Return the number of rows, or the sum of their weights."""
    return float(data.n_rows if data.weight is None else data.weight.sum())


__all__ = ["ChunkStream"]
