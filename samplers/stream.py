"""Variational inference of a mixture from chunks of data that are not kept.

A stream holds statistics, posterior and, under a memoized schedule, what each named chunk contributed last; so a chunk
that comes again replaces itself, and passes over all chunks are those of a run that holds the data. Memory beside one
chunk: O(K F), and for each remembered chunk of m rows the smaller of K F and m L numbers.
"""

import json
from dataclasses import dataclass
from time import perf_counter

import numpy as np
from scipy import sparse

from expfam.errors import CapabilityError, DataError, ExpFamError
from expfam.families.support import dense_rows
from expfam.protocols import Info
from expfam.samplers.candidates import GraphCandidates
from expfam.samplers.phi_blocks import restored_phi
from expfam.samplers.schedules import Full, Memoized, Stochastic
from expfam.samplers.soft_state import HELD, SETTLED_SHARE, SoftState, weight_of
from expfam.samplers.sparse_pass import Account, Sums


@dataclass
class Contribution:
    """What a chunk contributed when it was last learned, as sums or as rows.

    Attributes
    ----------
    n_rows, weight : int, float
        By which the chunk is recognised when it comes again.
    entropy : float
        Nats.
    sums : Sums or None
    indices, values : (m, L) ndarrays or None
    since_wide : int
        Visits since one that scored all clusters.
    share_moved : float
        Rows whose label that one changed.
    """

    n_rows: int
    weight: float
    entropy: float
    sums: Sums | None = None
    indices: np.ndarray | None = None
    values: np.ndarray | None = None
    since_wide: int = 0
    share_moved: float = np.inf

    def to_arrays(self):
        """As a dict of arrays."""
        scalars = np.array([self.weight, self.entropy, self.share_moved])
        arrays = {"scalars": scalars, "counters": np.array([self.n_rows, self.since_wide])}
        if self.sums is not None:
            return {**arrays, "n": self.sums.n.copy(), "S": self.sums.S.copy()}
        return {**arrays, "indices": self.indices.copy(), "values": self.values.copy()}

    @classmethod
    def from_arrays(cls, arrays):
        """What `to_arrays` gave."""
        weight, entropy, share_moved = (float(v) for v in arrays["scalars"])
        n_rows, since_wide = (int(v) for v in arrays["counters"])
        sums = Sums(np.array(arrays["n"]), np.array(arrays["S"]), entropy) if "n" in arrays else None
        rows = [None if name not in arrays else np.array(arrays[name]) for name in ("indices", "values")]
        return cls(n_rows, weight, entropy, sums, *rows, since_wide=since_wide, share_moved=share_moved)


class VariationalStream(SoftState):
    """Soft statistics of K clusters, learned chunk by chunk; made by `SparseVariational.stream`.

    Parameters
    ----------
    model : MixtureModel
        Its family bound, to the first chunk if to nothing else.
    data : Dataset
        The first chunk, whose coordinates the whole stream has. It is not learned here.
    n_clusters, settings, seed
        As of `SoftState`.

    Attributes
    ----------
    total_weight : float
        Of the chunks learned so far, each counted once.
    labels : (m,) int32 ndarray
        Most probable cluster of each row of the chunk learned last.
    memo : dict
        `Contribution` of each chunk that was named.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import Dataset, MixtureModel, Poisson, SymmetricDirichlet
    >>> from expfam.samplers import Memoized, SparseVariational
    >>> chunks = [Dataset(np.repeat([[0], [40]], 5, axis=0), Poisson(shape=1.0, rate=0.1)) for _ in range(3)]
    >>> model = MixtureModel(chunks[0].family, SymmetricDirichlet(2))
    >>> stream = SparseVariational(2, schedule=Memoized()).stream(model, chunks[0], seed=0)
    >>> for place, chunk in enumerate([*chunks, *chunks]):
    ...     info = stream.learn(chunk, batch=place % 3)
    >>> stream.n.round().tolist()
    [15.0, 15.0]
    """

    def __init__(self, model, data, *, n_clusters, settings, seed):
        super().__init__(model, data, n_clusters=n_clusters, settings=settings, seed=seed)
        self.schedule = Memoized() if settings.has_auto_schedule() else settings.schedule
        self.phi = self.phi.over(None)
        self.sums = Sums.zeros(self.K, self.phi.n_statistics)
        self.total_weight, self.memo, self.n_steps, self.n_updates = 0.0, {}, 0, 0
        self.n_sweeps, self._repeats = 0, False
        self.is_guess = False  # whether the statistics are those of starting labels, which no chunk has confirmed
        self.labels = np.empty(0, dtype=np.int32)

    # ---- beginnings --------------------------------------------------------------------------------------------------

    def begin(self, data, labels):
        """Take statistics of starting labels; the first chunk that is learned takes their place."""
        passes = self.passes_over(self.phi.over(data), data.weight)
        ones = np.ones((data.n_rows, 1), dtype=self.phi.dtype)
        hard = np.ascontiguousarray(labels, dtype=np.int32)[:, None]
        self.sums = passes.sums_of(slice(0, data.n_rows), hard, ones)
        self.is_guess, self.total_weight = True, weight_of(data)
        self.update()

    def resume(self, n, S):
        """Take the statistics (n, S) of a finished fit; of its rows nothing else is known.

        A stochastic schedule goes on as if they had come in batches of its size.
        """
        if len(n) > self.K:
            raise CapabilityError(f"{len(n)} clusters of the fit so far, but there is room for {self.K}")
        self.sums.n[: len(n)] = n
        self.sums.S[: len(n)] = self.phi.from_data(np.ascontiguousarray(dense_rows(S)))
        self.total_weight = float(np.sum(n))
        if isinstance(self.schedule, Stochastic):
            self.n_updates = int(self.total_weight // self.schedule.batch_size)
        self.update()

    # ---- learning ----------------------------------------------------------------------------------------------------

    def learn(self, data, *, batch=None, wide=False):
        """Visit a chunk and update the posterior.

        Parameters
        ----------
        data : Dataset
            Of the stream's bound family.
        batch : int or str, optional
            Name of the chunk. Under a memoized schedule a chunk that comes again under its name replaces what it
            contributed; one without a name is added for good.
        wide : bool
            Score all clusters, whatever `n_candidates` says.

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
        visit, is_wide = self._visit(data, last, wide=wide)
        if isinstance(self.schedule, Stochastic):
            self._step_towards(visit, weight_of(data))
        else:
            self._replace(visit, data, batch, last, is_wide=is_wide)
        return self._info(data.n_rows, visit.account, begin, is_wide)

    def sweep(self, chunks, *, wide=False):
        """One pass over chunks that come in the same order each time.

        Parameters
        ----------
        chunks : iterable of Dataset
            Each is asked for when the one before it is learned.
        wide : bool
            As of `learn`.

        Returns
        -------
        Info
        """
        begin, account, n_rows, is_wide = perf_counter(), Account(), 0, True
        self._repeats = self.n_sweeps > 0  # rows that have been counted already
        fresh, n_chunks = Sums.zeros(self.K, self.phi.n_statistics), 0
        is_full, is_memoized = isinstance(self.schedule, Full), isinstance(self.schedule, Memoized)
        for place, data in enumerate(chunks):
            if is_full:
                visit, _ = self._visit(data, None, wide=True)
                fresh.add(visit.sums)
                account.add(visit.account)
                n_chunks, n_rows, self.labels = place + 1, n_rows + data.n_rows, visit.labels
                continue
            info = self.learn(data, batch=place if is_memoized else None, wide=wide)
            n_chunks, n_rows = place + 1, n_rows + data.n_rows
            is_wide = is_wide and bool(info.extra["all_clusters"])
            account.add(self._account)
            if is_memoized:
                fresh.add(self._latest)
        if n_chunks == 0:
            raise DataError("there are no chunks: nothing to learn from")
        if is_full or (is_memoized and n_chunks == len(self.memo)):
            self.sums = fresh  # complete sums of this pass: rounding does not pile up
            self.total_weight, self.is_guess = float(fresh.n.sum()), False
            self.update()
            self.log_joint = self.compute_log_joint()
        self.n_sweeps, self._repeats = self.n_sweeps + 1, False
        return self._info(n_rows, account, begin, is_wide)

    def sweeps(self, first, again, n_passes):
        """Passes until the bound has settled, the last of them over all clusters; an Info of each.

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
        must_widen = False
        for _ in range(n_passes - 1):
            before = info.objective
            info = self.sweep(again(), wide=must_widen)
            yield info
            if isinstance(self.schedule, Stochastic):
                continue
            must_widen = info.objective - before < self.settings.tol * abs(info.objective)
            if must_widen and info.extra["all_clusters"]:
                return
        if not info.extra["all_clusters"]:
            yield self.sweep(again(), wide=True)

    def _last(self, data, batch):
        """What the chunk contributed last, or None; checks that it can be the same one."""
        if data.has_sparse_phi != self.phi.is_sparse:
            was, now = (("dense", "sparse")[is_sparse] for is_sparse in (self.phi.is_sparse, data.has_sparse_phi))
            raise DataError(f"the first chunk was {was}, this one is {now}: give all of one kind")
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

    def _visit(self, data, last, *, wide):
        passes = self.passes_over(self.phi.over(data), data.weight)
        has_rows = last is not None and last.indices is not None
        is_narrow = has_rows and not wide and self.settings.has_candidates(self.K)
        if is_narrow:
            is_narrow = last.share_moved < SETTLED_SHARE and last.since_wide + 1 < self.settings.full_every
        near = self.posterior.cluster_graph(self.settings.n_candidates_of(self.K)) if is_narrow else None
        visit = passes.visit(
            slice(0, data.n_rows),
            self.tables(),
            candidates=GraphCandidates(near) if is_narrow else None,
            last=last.indices if is_narrow else None,
            remembered=(last.indices, last.values) if has_rows else None,
            keep=self._memo_kind(data.n_rows) == "rows",
        )
        self.labels = visit.labels
        return visit, not is_narrow

    def _memo_kind(self, n_rows):
        L = self.settings.n_active_of(self.K)
        if not isinstance(self.schedule, Memoized) or L >= self.K:
            return "statistics"
        if self.settings.memo != "auto":
            return self.settings.memo
        as_rows = n_rows * L * (4 + self.phi.dtype.itemsize)
        return "rows" if as_rows <= 8 * self.K * (self.phi.n_statistics + 1) else "statistics"

    def _replace(self, visit, data, batch, last, *, is_wide):
        """The memoized update: the chunk's sums in place of its last ones, or of the guess that began the stream."""
        if self.is_guess:
            self.sums, self.total_weight, self.is_guess = Sums.zeros(self.K, self.phi.n_statistics), 0.0, False
        sums = self.sums.copy()
        if last is None:
            sums.add(visit.sums)
            self.total_weight += weight_of(data)
        else:
            old = visit.replaced if last.sums is None else last.sums
            old.entropy = last.entropy
            sums.replace(old, visit.sums)
        self.sums, self._latest = sums, visit.sums
        if batch is not None:
            self.memo[batch] = self._contribution(visit, data, last, is_wide)
        self.update()
        self.log_joint = self.compute_log_joint()

    def _contribution(self, visit, data, last, is_wide):
        new = Contribution(data.n_rows, weight_of(data), visit.sums.entropy)
        if visit.indices is None:
            new.sums = visit.sums
            return new
        new.indices, new.values = visit.indices, visit.values
        if last is not None:
            moved = float(np.mean(last.indices[:, 0] != visit.indices[:, 0]))
            new.since_wide, new.share_moved = (0, moved) if is_wide else (last.since_wide + 1, last.share_moved)
        return new

    def _step_towards(self, visit, weight):
        """The stochastic update: a step of the sums towards those of the chunk, both scaled to all rows."""
        schedule = self.schedule
        seen = weight if self.is_guess else self.total_weight + (0.0 if self._repeats else weight)
        total, before = schedule.n_total or seen, float(self.sums.n.sum())
        if before > 0:
            self.sums = self.sums.copy().scale(total / before)
        scale = total / weight
        constant = total * self.phi.log_det
        self.log_joint = scale * visit.value - self.posterior.divergence() + constant
        self.n_updates += 1
        step = schedule.step_size(self.n_updates)
        self.sums = self.sums.copy().scale(1.0 - step).add(visit.sums, step * scale)
        self.total_weight, self.is_guess = seen, False
        self.update()

    def _info(self, n_rows, account, begin, is_wide):
        self.n_steps += 1
        self._account = account
        seconds = perf_counter() - begin
        extra = account.extra() | {"all_clusters": int(is_wide)}
        return Info(self.n_steps, self.log_joint, self.n_clusters, n_rows, n_rows, seconds, extra)

    # ---- results -----------------------------------------------------------------------------------------------------

    def soft_partition(self):
        """Labels of the chunk learned last, with the soft statistics of the clusters.

        Returns
        -------
        labels : (m,) int32 ndarray
        n : (B,) float64 ndarray
        S : (B, F) float64 ndarray, or CSR where the statistics of the data are
            Of the clusters that hold at least half a datum or one of the labels, in an order that does not change.
        """
        chosen = np.union1d(np.flatnonzero(self.n >= HELD), self.labels)
        labels, S = np.searchsorted(chosen, self.labels).astype(np.int32), self.S[chosen]
        return labels, self.n[chosen], sparse.csr_array(S) if self.phi.is_sparse else S

    # ---- storage -----------------------------------------------------------------------------------------------------

    def to_arrays(self):
        """All that learning goes on from, as a dict of arrays."""
        return {
            "coordinates": self.phi.to_arrays(),
            "n": self.n.copy(),
            "S": self.sums.S.copy(),
            "order": self.order.copy(),
            "labels": self.labels.copy(),
            "scalars": np.array([self.entropy, self.log_joint, self.total_weight]),
            "counters": np.array([self.n_steps, self.n_updates, self.is_guess, self.phi.is_sparse], dtype=np.int64),
            "seed": np.array(self.seed, dtype=np.uint64),
            "batches": np.array([json.dumps(_plain(name)) for name in self.memo], dtype=str),
            "memo": {str(place): kept.to_arrays() for place, kept in enumerate(self.memo.values())},
        }

    @classmethod
    def from_arrays(cls, model, settings, arrays):
        """The stream that `to_arrays` described, for the same model and settings.

        Raises
        ------
        ExpFamError
            Where the settings are for another number of clusters.
        """
        self = cls.__new__(cls)
        self.model, self.settings, self.seed, self.K = model, settings, int(arrays["seed"]), len(arrays["n"])
        if settings.max_clusters(model) != self.K:
            raise ExpFamError(
                f"the stored stream has {self.K} clusters, the sampler {settings.max_clusters(model)}: load it with the"
                " same sampler"
            )
        self.schedule = Memoized() if settings.has_auto_schedule() else settings.schedule
        entropy, self.log_joint, self.total_weight = (float(v) for v in arrays["scalars"])
        self.n_steps, self.n_updates, is_guess, is_sparse = (int(v) for v in arrays["counters"])
        self.phi = restored_phi(model.family, arrays["coordinates"], dtype=settings.dtype, is_sparse=bool(is_sparse))
        self.is_guess, self.order = bool(is_guess), np.array(arrays["order"])
        self.n_sweeps, self._repeats = 0, False
        self.sums = Sums(np.array(arrays["n"]), np.array(arrays["S"]), entropy)
        self.labels = np.array(arrays["labels"], dtype=np.int32)
        names = [json.loads(str(name)) for name in arrays["batches"]]
        memo = arrays.get("memo", {})
        self.memo = {name: Contribution.from_arrays(memo[str(place)]) for place, name in enumerate(names)}
        self.update(keep_order=True)
        return self

    def settings_changed(self, settings):
        """Names of the settings that differ, the number of threads aside."""
        mine, its = self.settings.get_params(), settings.get_params()
        return [name for name in mine if name != "n_threads" and mine[name] != its[name]]


def _plain(name):
    return int(name) if isinstance(name, np.integer) else name


__all__ = ["Contribution", "VariationalStream"]
