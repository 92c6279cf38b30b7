"""Variational runs over chunks of data that are not kept: visits, updates by schedule, and what is remembered.

A stream holds sums and, under a memoized schedule, what each named chunk contributed last; so a chunk that comes again
replaces itself, and passes over all chunks are those of a run that holds the data. What the sums are of, and how a
chunk is visited, the subclasses know.
"""

import json
from time import perf_counter

import numpy as np

from expfam.errors import ArchiveError, CapabilityError, DataError
from expfam.protocols import Info
from expfam.samplers.variational.schedules import Full, Memoized, Stochastic


class ChunkStream:
    """Base of the streams.

    Subclasses keep `settings`, `sums` (an `Additive`) and `labels`, and write `empty_sums`, `empty_diagnostics`,
    `local_step`, `contribution`, `sums_of_contribution`, `check_kind`, `noisy_bound`, `update`, `compute_log_joint` and
    `n_clusters`.

    Attributes
    ----------
    schedule : Full, Memoized or Stochastic
    contribution_type : type
        Of what is remembered of a chunk.
    sums : Additive
    total_weight : float
        Of the chunks learned so far, each counted once.
    memo : dict
        What each chunk that was named contributed, with its `n_rows` and `weight`.
    is_guess : bool
        Whether the sums are those of a start, which no chunk has confirmed.
    log_joint : float
        Lower bound of the log evidence of all that was learned, nats.
    n_steps, n_updates, n_sweeps : int
    is_weighted : bool
        Whether any chunk came with weights of its rows.
    """

    is_weighted = False  # also of streams that come from arrays

    def start_stream(self, schedule):
        """Nothing is learned yet."""
        self.schedule, self.sums, self.memo = schedule, self.empty_sums(), {}
        self.total_weight, self.n_steps, self.n_updates, self.n_sweeps = 0.0, 0, 0, 0
        self.is_guess, self._repeats = False, False
        self.labels, self._latest = np.empty(0, dtype=np.int32), None

    def take_start(self, sums, weight):
        """Take sums that stand for data of some weight; the first chunk that is learned takes their place."""
        self.sums, self.total_weight, self.is_guess = sums, weight, True
        self.update()

    def take_fit(self, sums, weight):
        """Take the sums of a finished fit; of its rows nothing else is known.

        A stochastic schedule goes on as if they had come in batches of its size.
        """
        self.sums, self.total_weight = sums, weight
        if isinstance(self.schedule, Stochastic):
            self.n_updates = int(weight // self.schedule.batch_size)
        self.update()

    # ---- learning ----------------------------------------------------------------------------------------------------

    def learn(self, data, *, batch=None, all_clusters=False):
        """Make the local step of a chunk and update the posterior.

        Parameters
        ----------
        data : Dataset
            Of the stream's bound family.
        batch : int or str, optional
            Name of the chunk. Under a memoized schedule a chunk that comes again under its name replaces what it
            contributed; one without a name is added for good.
        all_clusters : bool
            Score everything, whatever the settings leave out in some passes.

        Returns
        -------
        Info
            Its objective is the bound for all that was learned so far; under a stochastic schedule a noisy one.

        Raises
        ------
        CapabilityError
            Under the schedule `Full`, which learns from passes over all chunks alone.
        DataError
            For a chunk of another size under the name of one that was learned.
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

    def sweep(self, chunks, *, all_clusters=False):
        """One pass over chunks that come in the same order each time.

        Parameters
        ----------
        chunks : iterable of Dataset
            Each is asked for when the one before it is learned.
        all_clusters : bool
            As of `learn`.

        Returns
        -------
        Info
        """
        begin, diagnostics, n_rows, scores_all = perf_counter(), self.empty_diagnostics(), 0, True
        self._repeats = self.n_sweeps > 0  # rows that have been counted already
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
            self._latest = latest = local = data = None  # not held while the next chunk is made
        if n_chunks == 0:
            raise DataError("there are no chunks: nothing to learn from")
        if is_full or (is_memoized and n_chunks == len(self.memo)):
            self.sums = fresh  # complete sums of this pass: rounding does not pile up
            self.total_weight, self.is_guess = weight, False
            self.end_sweep()
            self.update()
            self.log_joint = self.compute_log_joint()
        self.n_sweeps, self._repeats = self.n_sweeps + 1, False
        return self._info(n_rows, diagnostics, begin, scores_all)

    def kept_of(self, local, data):
        """What a pass under `Full` remembers of a chunk for the next one; None for most."""
        return None

    def end_sweep(self):
        """What is done once a pass, before its last update; nothing for most."""

    def sweeps(self, first, again, n_passes):
        """Passes until the bound has settled, the last of them over everything; an Info of each.

        Parameters
        ----------
        first : iterable of Dataset
            For the first pass.
        again : callable
            Gives the chunks once more, in the same order.
        n_passes : int
            At most, where the last one need not be repeated over all clusters.
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

    def settled_gain(self):
        """Share of the bound that a pass gains at least while it has not settled."""
        return self.settings.tol

    def _last(self, data, batch):
        """What the chunk contributed last, or None; checks that it can be the same one, and notes if it has weights."""
        self.check_kind(data)
        self.is_weighted |= data.weight is not None
        if batch is None:
            return None
        if isinstance(self.schedule, Stochastic):
            raise ValueError(f"batch={batch!r}: a stochastic schedule remembers nothing of a chunk; leave the name out")
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
        """The memoized update: the chunk's sums in place of its last ones, or of the guess that began the stream."""
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
        """The stochastic update: a step of the sums towards those of the chunk, both scaled to all rows."""
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

    def memo_arrays(self):
        """What is remembered of the chunks, with their names, as a dict of arrays."""
        names = [int(name) if isinstance(name, np.integer) else name for name in self.memo]
        return {
            "batches": np.array([json.dumps(name) for name in names], dtype=str),
            "memo": {str(place): kept.to_arrays() for place, kept in enumerate(self.memo.values())},
        }

    def take_memo(self, arrays):
        """Remember what `memo_arrays` gave."""
        memo, names = arrays.get("memo", {}), [json.loads(str(name)) for name in np.atleast_1d(arrays["batches"])]
        if len(memo) != len(names) or not all(isinstance(name, (int, str)) for name in names):
            raise ArchiveError("the names of the chunks are not those of what is remembered: the file was altered")
        self.memo = {
            name: self.contribution_type.from_arrays(memo[str(place)], self) for place, name in enumerate(names)
        }

    def settings_changed(self, settings):
        """Names of the settings that differ, the number of threads aside."""
        mine, its = self.settings.get_params(), settings.get_params()
        return [name for name in mine if name != "n_threads" and mine[name] != its[name]]


def weight_of(data):
    """Number of rows, or the sum of their weights."""
    return float(data.n_rows if data.weight is None else data.weight.sum())


__all__ = ["ChunkStream"]
