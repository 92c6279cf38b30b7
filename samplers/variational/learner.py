"""Learner of all variational runs: passes over batches, and updates of the sums.

A run that holds its rows divides them into batches; a stream gets its batches as chunks from outside. A local step
gives new sums of a batch. Under `Memoized` they replace the last sums of the batch; under `Stochastic` the sums of all
rows move towards them. At the end of a pass under `Full` and `Memoized` the sums of the pass replace the running sums,
so rounding errors do not accumulate. The kinds of sums are subclasses of `Additive`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from expfam.samplers.variational.schedules import Full, Stochastic
from expfam.structures.ground.threads import single_blas

if TYPE_CHECKING:
    from expfam.model.data import Dataset
    from expfam.samplers.variational.statistics import Additive


@dataclass
class Pass:
    """Results of a pass, or of a single batch.

    Attributes
    ----------
    diagnostics : PassDiagnostics or TopicDiagnostics
    sums : Additive or None
        Sums of the batches so far; None under a stochastic schedule.
    bounds : list of float
        Noisy bound of each batch under a stochastic schedule, nats.
    scores_all : bool
        Whether every local step scored all clusters.
    n_batches, n_rows : int
    weight : float
        Weight of the rows. Only a stream counts `n_rows` and `weight`.
    seconds_global : float
        Seconds of the updates.
    """

    diagnostics: Any
    sums: Any = None
    bounds: list[float] = field(default_factory=list)
    scores_all: bool = True
    n_batches: int = 0
    n_rows: int = 0
    weight: float = 0.0
    seconds_global: float = 0.0

    def add(self, sums: Additive) -> None:
        """Add the sums of a batch; those of the first batch are not copied before the second one."""
        if self.sums is None:
            self.sums = sums
            return
        if self.n_batches == 2:
            self.sums = self.sums.copy()
        self.sums.add(sums)


class Learner:
    """Base of variational runs, which learn batches by the rules of a schedule.

    Attributes
    ----------
    settings : Kernel
    schedule : Full, Memoized or Stochastic
    empty_diagnostics : type
        Class of the diagnostics of a local step.
    sums : Additive
        Sums of all rows.
    total_weight : float
        Number of rows, or the sum of their weights.
    log_joint : float
        Lower bound of the log evidence, nats. Under a stochastic schedule it is an estimate from the steps of a pass.
    n_updates : int
        Number of stochastic updates.
    """

    model: Any
    settings: Any
    schedule: Any
    empty_diagnostics: Any
    sums: Any
    labels: npt.NDArray[np.int32]
    total_weight: float
    log_joint: float
    n_updates: int

    # ---- written by subclasses ---------------------------------------------------------------------------------------

    @property
    def n_clusters(self) -> int:
        """Return the number of clusters or topics that hold data."""
        raise NotImplementedError

    def empty_sums(self) -> Any:
        """Return the sums of no rows."""
        raise NotImplementedError

    def update(self) -> None:
        """Set the posterior from the sums: the global step."""
        raise NotImplementedError

    def compute_log_joint(self) -> float:
        """Return the bound of the sums at their posterior, nats."""
        raise NotImplementedError

    def noisy_bound(self, local: Any, scale: float, total: float) -> float:
        """Return an estimate of the bound of rows of weight `total` from a local step, nats.

        `scale` is the ratio of `total` to the weight of the rows of the local step.

        Parameters
        ----------
        local : object
            Local step of a batch.
        scale : float
            `total` divided by the weight of the rows of the batch.
        total : float
            Weight of all rows that the bound stands for.
        """
        raise NotImplementedError

    def bound_of_steps(self, bounds: list[float]) -> float:
        """Return the bound of a pass from the noisy bounds of its steps, nats: their mean."""
        return float(np.mean(bounds))

    def batch_of(self, item: Any, place: int) -> Any:
        """Return the batch for an item of a pass; `place` is its number in the pass.

        Parameters
        ----------
        item : object
            What the iterable of a pass yields: a `Batch` of rows, or a chunk of data.
        place : int
            Number of the item in the pass, from 0.
        """
        raise NotImplementedError

    def step_of(self, batch: Any, *, all_clusters: bool) -> tuple[Any, bool]:
        """Return the local step of a batch, and whether it scored all clusters.

        Parameters
        ----------
        batch : object
            Result of `batch_of`.
        all_clusters : bool
            Score all clusters, even where the settings allow candidates.

        Returns
        -------
        local : object
            Local step. It has the attributes `sums`, `diagnostics` and `labels`.
        scores_all : bool
            Whether all clusters were scored.
        """
        raise NotImplementedError

    def weight_of(self, batch: Any) -> float:
        """Return the number of rows of a batch, or the sum of their weights."""
        raise NotImplementedError

    def last_sums(self, batch: Any, local: Any) -> Any:
        """Return the sums of a batch before this local step; None if it is new.

        Parameters
        ----------
        batch : object
            Result of `batch_of`.
        local : object
            Present local step of this batch. Some local steps bring the sums that they replace.

        Returns
        -------
        Additive or None
            None if the batch is new.
        """
        raise NotImplementedError

    def remember(self, batch: Any, local: Any, *, scores_all: bool) -> None:
        """Keep of a local step what later passes and results need.

        Parameters
        ----------
        batch : object
            Result of `batch_of`.
        local : object
            Local step of this batch.
        scores_all : bool
            Whether the local step scored all clusters.
        """
        raise NotImplementedError

    def is_complete(self, done: Pass) -> bool:
        """Tell whether a pass learned all rows; by default True."""
        return True

    def set_total(self, done: Pass) -> None:
        """Replace the sums by the complete sums of a pass."""
        self.sums = done.sums

    def end_pass(self) -> None:
        """Finish a pass, before its last update; by default do nothing."""

    # ---- passes ------------------------------------------------------------------------------------------------------

    @property
    def is_noisy(self) -> bool:
        """Return whether the schedule is stochastic."""
        return isinstance(self.schedule, Stochastic)

    def run_pass(self, items: Iterable[Any], *, all_clusters: bool, n_batches: int | None = None) -> Pass:
        """Make one pass over batches; return its results.

        Parameters
        ----------
        items : iterable
            Each item is given to `batch_of`. The pass asks for an item when it has learned the one before it.
        all_clusters : bool
            Score all clusters, even where the settings allow candidates.
        n_batches : int, optional
            Number of items. If it is known, the last batch needs no update of its own.

        Returns
        -------
        Pass
        """
        with single_blas():  # once for all regions of the pass
            return self._run_batches(items, all_clusters=all_clusters, n_batches=n_batches)

    def _run_batches(self, items, *, all_clusters, n_batches):
        done = Pass(self.empty_diagnostics())
        for item in items:
            batch = self.batch_of(item, done.n_batches)
            self.follow(batch, done, all_clusters=all_clusters, is_last=done.n_batches + 1 == n_batches)
            item = batch = None  # frees memory for the next chunk
        begin = perf_counter()
        if done.bounds:
            self.log_joint = self.bound_of_steps(done.bounds)
            self.end_pass()
        elif done.n_batches and not self.is_noisy and self.is_complete(done):
            self.set_total(done)
            self.end_pass()
            self.update()
            self.log_joint = self.compute_log_joint()
        done.seconds_global += perf_counter() - begin
        return done

    def follow(self, batch: Any, done: Pass, *, all_clusters: bool, is_last: bool = False) -> None:
        """Make the local step of a batch, and the update that the schedule has for it.

        Under `Full`, and for the last batch of a memoized pass, the update comes at the end of the pass.

        Parameters
        ----------
        batch : object
            Result of `batch_of`.
        done : Pass
            Results of the pass so far; this batch is added.
        all_clusters : bool
            As in `step_of`.
        is_last : bool
            Whether the batch is known to be the last one of the pass.
        """
        local, scores_all = self.step_of(batch, all_clusters=all_clusters)
        begin = perf_counter()
        done.diagnostics.add(local.diagnostics)
        done.n_batches += 1
        done.scores_all &= scores_all
        waits = not self.is_noisy and (is_last or isinstance(self.schedule, Full))
        if self.is_noisy:
            self._step_towards(batch, local, done)
        else:
            done.add(local.sums)
            if not waits:
                self._replace(self.last_sums(batch, local), batch, local.sums)
        self.remember(batch, local, scores_all=scores_all)
        if not waits:
            self.update()
        done.seconds_global += perf_counter() - begin

    def _replace(self, old, batch, new):
        """Replace the old sums of a batch, or add the first ones: the memoized update."""
        sums = self.sums.copy()
        self.sums = sums.add(new) if old is None else sums.replace(old, new)

    def _step_towards(self, batch, local, done):
        """Move the sums towards those of a batch, scaled to all rows: the stochastic update.

        A batch without weight changes nothing, but counts as a step.
        """
        self.n_updates += 1
        weight = self.weight_of(batch)
        if weight == 0:
            return
        total = self._total_with(weight)
        scale, step = total / weight, self.schedule.step_size(self.n_updates)
        done.bounds.append(self.noisy_bound(local, scale, total))
        self.sums = self.sums.copy().scale((1.0 - step) * self._growth(total)).add(local.sums, step * scale)

    def _total_with(self, weight):
        """Return the weight for which the sums stand after a step with rows of some weight."""
        return self.total_weight

    def _growth(self, total):
        """Return the factor that scales the present sums to rows of weight `total`."""
        return 1.0

    def settings_changed(self, settings: Any) -> list[str]:
        """Return the names of the settings that differ, except `n_threads`."""
        mine, its = self.settings.get_params(), settings.get_params()
        return [name for name in mine if name != "n_threads" and mine[name] != its[name]]


def weight_of(data: Dataset) -> float:
    """Return the number of rows, or the sum of their weights."""
    return float(data.n_rows if data.weight is None else data.weight.sum())
