"""Variational inference of a mixture from chunks of data that are not kept.

A stream holds statistics, posterior and, under a memoized schedule, the last contribution of each named chunk. A chunk
that is learned again replaces its contribution, so passes over all chunks give the results of a run that holds the
data. Memory beside one chunk: O(K F), and for each named chunk of m rows the smaller of K F and m L numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from expfam.samplers.variational.candidates import GraphCandidates
from expfam.samplers.variational.learner import weight_of
from expfam.samplers.variational.linked_rows import linked_rows, tie_labels
from expfam.samplers.variational.local_step import Sums
from expfam.samplers.variational.schedules import Memoized
from expfam.samplers.variational.soft_state import HELD, SETTLED_SHARE
from expfam.samplers.variational.soft_stream import SoftStream
from expfam.samplers.variational.state import held_clusters, stored_rows
from expfam.structures.ground.stored import integers, numbers

if TYPE_CHECKING:
    from expfam.model.data import Dataset
    from expfam.model.mixture import MixtureModel
    from expfam.samplers.variational.local_step import LocalStep
    from expfam.samplers.variational.mixture import SparseVariational
    from expfam.samplers.variational.stream_base import Chunk


@dataclass
class Contribution:
    """Last contribution of a chunk, as sums or as responsibilities of its rows.

    Attributes
    ----------
    n_rows, weight : int, float
        Size of the chunk: a chunk of another size under the same name is refused.
    entropy : float
        Nats.
    sums : Sums or None
    indices, values : (m, L) ndarrays or None
    since_all : int
        Number of local steps since the last one that scored all clusters.
    share_moved : float
        Share of the rows whose label that local step changed.
    """

    n_rows: int
    weight: float
    entropy: float
    sums: Sums | None = None
    indices: np.ndarray | None = None
    values: np.ndarray | None = None
    since_all: int = 0
    share_moved: float = np.inf

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the contribution as a dict of arrays."""
        scalars = np.array([self.weight, self.entropy, self.share_moved])
        arrays: dict[str, Any] = {"scalars": scalars, "counters": np.array([self.n_rows, self.since_all])}
        if self.sums is not None:
            return arrays | self.sums.to_arrays()
        return {**arrays, "indices": self.indices.copy(), "values": self.values.copy()}  # type: ignore[union-attr]

    @classmethod
    def from_arrays(cls, arrays: dict[str, Any], stream: VariationalStream) -> Contribution:
        """Return the contribution that `to_arrays` stored, of a chunk of that stream.

        Parameters
        ----------
        arrays : dict of ndarrays
            Result of `to_arrays`.
        stream : VariationalStream
            It determines shapes and dtypes, against which the arrays are checked.
        """
        weight, entropy, share_moved = numbers(arrays, "scalars", (3,), finite=False).tolist()
        n_rows, since_all = integers(arrays, "counters", (2,)).tolist()
        if "n" in arrays:
            return cls(n_rows, weight, entropy, Sums.from_arrays(arrays, entropy, stream.sums.S.shape))
        shape = (n_rows, stream.settings.n_active_of(stream.K))
        indices = stored_rows(arrays, "indices", np.empty(shape, dtype=np.int32), stream.K)
        values = numbers(arrays, "values", shape, low=0.0, dtype=stream.phi.dtype)
        kept: dict[str, Any] = {"since_all": since_all, "share_moved": share_moved}
        return cls(n_rows, weight, entropy, None, indices, values, **kept)


class VariationalStream(SoftStream):
    """Expected statistics of K clusters, by chunks; made by `SparseVariational.stream`.

    Parameters
    ----------
    model : MixtureModel
        With a bound family; the first chunk may bind it.
    data : Dataset
        The first chunk. It fixes the coordinates of the stream; it is not learned here.
    n_clusters, settings, seed
        As in `SoftState`.

    Attributes
    ----------
    total_weight : float
        Number of rows (or sum of their weights) of the chunks learned so far, each chunk counted once.
    labels : (m,) int32 ndarray
        Most probable cluster of each row of the chunk learned last.
    memo : dict
        `Contribution` of each named chunk.
    n_classes : int
        Number of classes of known rows: class c is component c, and stays in the results while it holds nothing.

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

    contribution_type = Contribution
    n_classes = 0

    def resume(self, n: npt.NDArray[np.float64], S: Any) -> None:
        """Begin with the statistics (n, S) of a finished fit, whose rows are not known.

        Parameters
        ----------
        n, S
            As of `sums_of_fit`.
        """
        self.continue_from(self.sums_of_fit(n, S), float(np.sum(n)))

    @staticmethod
    def room(model: MixtureModel, settings: SparseVariational) -> int:
        """Return the number of clusters of a stream of this model."""
        return settings.max_clusters(model)

    # ---- chunks ------------------------------------------------------------------------------------------------------

    def step_of(self, batch: Chunk, *, all_clusters: bool) -> tuple[LocalStep, bool]:
        """Return the local step of a chunk, and whether it scored all clusters."""
        data, last = batch.data, batch.last
        passes = self.passes_over(linked_rows(self.phi.over(data), data), data.weight, held_clusters(data))
        has_rows = last is not None and last.indices is not None
        has_candidates = has_rows and not all_clusters and self.settings.has_candidates(self.K)
        if has_candidates:
            has_candidates = last.share_moved < SETTLED_SHARE and last.since_all + 1 < self.settings.full_every
        near: Any = self.posterior.cluster_graph(self.settings.n_candidates_of(self.K)) if has_candidates else None
        local = passes.local_step(
            slice(0, data.n_rows),
            self.tables(),
            candidates=GraphCandidates(near) if has_candidates else None,
            last=last.indices if has_candidates else None,
            remembered=(last.indices, last.values) if has_rows else None,
            keep=self._keeps_rows(data.n_rows),
        )
        tie_labels(local.labels, data)
        return local, not has_candidates

    def _keeps_rows(self, n_rows):
        """Tell whether the stream keeps the responsibilities of a chunk, and not its sums."""
        is_memoized = isinstance(self.schedule, Memoized)
        return is_memoized and self.settings.memo_of_sizes(self.K, n_rows, self.phi.n_statistics) == "rows"

    def sums_of_contribution(self, last: Contribution, local: Any) -> Sums:
        """Return the sums of the last contribution of a chunk, before this local step."""
        old = local.replaced if last.sums is None else last.sums
        old.entropy = last.entropy
        return old

    def contribution(self, local: LocalStep, data: Dataset, last: Any, scores_all: bool) -> Contribution:
        """Return the contribution of a chunk, from its local step."""
        new = Contribution(data.n_rows, weight_of(data), local.sums.entropy)
        if local.indices is None:
            new.sums = local.sums
            return new
        new.indices, new.values = local.indices, local.values
        if last is not None:
            moved = float(np.mean(last.indices[:, 0] != local.indices[:, 0]))
            new.since_all, new.share_moved = (0, moved) if scores_all else (last.since_all + 1, last.share_moved)
        return new

    # ---- results -----------------------------------------------------------------------------------------------------

    def soft_partition(self) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float64], Any]:
        """Return the labels of the chunk learned last, and the soft statistics of the clusters.

        Returns
        -------
        labels : (m,) int32 ndarray
        n : (B,) float64 ndarray
        S : (B, F) float64 ndarray, or CSR where the statistics of the data are CSR
            `n` and `S` are of the clusters that hold at least half a datum or one of the labels, and of those of
            classes, by cluster number.
        """
        chosen = np.union1d(np.flatnonzero(self.n >= HELD), self.labels)
        chosen = np.union1d(np.arange(self.n_classes, dtype=chosen.dtype), chosen)
        labels, S = np.searchsorted(chosen, self.labels).astype(np.int32), self.S[chosen]
        return labels, self.n[chosen], sparse.csr_array(S) if self.phi.is_sparse else S
