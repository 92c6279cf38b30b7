"""Variational inference of a mixture from chunks of data that are not kept.

A stream holds statistics, posterior and, under a memoized schedule, what each named chunk contributed last; so a chunk
that comes again replaces itself, and passes over all chunks are those of a run that holds the data. Memory beside one
chunk: O(K F), and for each remembered chunk of m rows the smaller of K F and m L numbers.
"""

import json
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from expfam.errors import CapabilityError, DataError, ExpFamError
from expfam.families.support import dense_rows
from expfam.samplers.candidates import GraphCandidates
from expfam.samplers.chunk_stream import ChunkStream, weight_of
from expfam.samplers.phi_blocks import restored_phi
from expfam.samplers.schedules import Memoized
from expfam.samplers.soft_state import HELD, SETTLED_SHARE, SoftState
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


class VariationalStream(ChunkStream, SoftState):
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
        self.phi = self.phi.over(None)
        self.start_stream(Memoized() if settings.has_auto_schedule() else settings.schedule)

    # ---- beginnings --------------------------------------------------------------------------------------------------

    def begin(self, data, labels):
        """Take statistics of starting labels; the first chunk that is learned takes their place."""
        passes = self.passes_over(self.phi.over(data), data.weight)
        ones = np.ones((data.n_rows, 1), dtype=self.phi.dtype)
        hard = np.ascontiguousarray(labels, dtype=np.int32)[:, None]
        self.take_start(passes.sums_of(slice(0, data.n_rows), hard, ones), weight_of(data))

    def resume(self, n, S):
        """Take the statistics (n, S) of a finished fit; of its rows nothing else is known."""
        if len(n) > self.K:
            raise CapabilityError(f"{len(n)} clusters of the fit so far, but there is room for {self.K}")
        sums = self.empty_sums()
        sums.n[: len(n)] = n
        sums.S[: len(n)] = self.phi.from_data(np.ascontiguousarray(dense_rows(S)))
        self.take_fit(sums, float(np.sum(n)))

    # ---- chunks ------------------------------------------------------------------------------------------------------

    empty_account = Account

    def empty_sums(self):
        """Sums of no rows."""
        return Sums.zeros(self.K, self.phi.n_statistics)

    def check_kind(self, data):
        """Refuse chunks whose statistics are not of the kind of those of the first one."""
        if data.has_sparse_phi != self.phi.is_sparse:
            was, now = (("dense", "sparse")[is_sparse] for is_sparse in (self.phi.is_sparse, data.has_sparse_phi))
            raise DataError(f"the first chunk was {was}, this one is {now}: give all of one kind")

    def visit(self, data, last, *, wide):
        """Responsibilities of a chunk, and whether they are over all clusters."""
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
        return visit, not is_narrow

    def _memo_kind(self, n_rows):
        L = self.settings.n_active_of(self.K)
        if not isinstance(self.schedule, Memoized) or L >= self.K:
            return "statistics"
        if self.settings.memo != "auto":
            return self.settings.memo
        as_rows = n_rows * L * (4 + self.phi.dtype.itemsize)
        return "rows" if as_rows <= 8 * self.K * (self.phi.n_statistics + 1) else "statistics"

    def sums_of_contribution(self, last, visit):
        """Sums of what a chunk contributed before this visit."""
        old = visit.replaced if last.sums is None else last.sums
        old.entropy = last.entropy
        return old

    def contribution(self, visit, data, last, is_wide):
        """What is remembered of a visit."""
        new = Contribution(data.n_rows, weight_of(data), visit.sums.entropy)
        if visit.indices is None:
            new.sums = visit.sums
            return new
        new.indices, new.values = visit.indices, visit.values
        if last is not None:
            moved = float(np.mean(last.indices[:, 0] != visit.indices[:, 0]))
            new.since_wide, new.share_moved = (0, moved) if is_wide else (last.since_wide + 1, last.share_moved)
        return new

    def noisy_bound(self, visit, scale, total):
        """Estimate of the bound from one visit, before its update."""
        return scale * visit.value - self.posterior.divergence() + total * self.phi.log_det

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


def _plain(name):
    return int(name) if isinstance(name, np.integer) else name


__all__ = ["Contribution", "VariationalStream"]
