"""Variational inference of rows in groups from chunks of whole groups that are not kept.

Memory beside one chunk: O(K F), and for each named chunk its sums and the counts of its groups, at most L numbers for
each row and K for each group. Passes under the schedule `Full` keep only the counts of the groups.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from expfam.amounts import counted
from expfam.errors import ArchiveError, DataError
from expfam.samplers.chain.kernel import check_known
from expfam.samplers.grouped.state import GroupedSoft, GroupedSums
from expfam.samplers.variational.learner import weight_of
from expfam.samplers.variational.schedules import Full
from expfam.samplers.variational.soft_stream import SoftStream
from expfam.structures.ground.stored import integers, matrix, numbers

if TYPE_CHECKING:
    from expfam.model.admixture import AdmixtureModel
    from expfam.model.data import Dataset
    from expfam.samplers.grouped.local_step import GroupedLocalStep
    from expfam.samplers.grouped.variational import GroupedVariational
    from expfam.samplers.variational.stream_base import Chunk


@dataclass
class GroupedContribution:
    """Last contribution of a chunk of groups.

    Attributes
    ----------
    n_rows, weight : int, float
        Size of the chunk: a chunk of another size under the same name is refused.
    counts : (G, K) CSR
        Sums of the responsibilities of each group's rows: the groups begin with them when the chunk is learned again.
    sums : GroupedSums or None
        None under the schedule `Full`, which replaces the sums of all chunks after a pass.
    """

    n_rows: int
    weight: float
    counts: sparse.csr_array
    sums: GroupedSums | None = None

    def to_arrays(self) -> dict[str, Any]:
        """Return the contribution as a dict of arrays."""
        arrays = {"n_rows": np.array(self.n_rows), "weight": np.array(self.weight), "counts": self.counts.copy()}
        if self.sums is None:
            return arrays
        return arrays | self.sums.to_arrays() | {"entropy": np.array(self.sums.entropy)}

    @classmethod
    def from_arrays(cls, arrays: dict[str, Any], stream: GroupedStream) -> GroupedContribution:
        """Return the contribution that `to_arrays` stored, of a chunk of that stream."""
        K, shape = stream.K, stream.sums.S.shape
        sums = GroupedSums.from_arrays(arrays, arrays["entropy"], shape) if "n" in arrays else None
        if sums is None and not isinstance(stream.schedule, Full):
            raise ArchiveError("a chunk is stored without its sums: the file was altered")
        n_rows, weight = int(integers(arrays, "n_rows", ())), float(numbers(arrays, "weight", (), low=0.0))
        return cls(n_rows, weight, matrix(arrays, "counts", (None, K), low=0.0, allow_dense=False), sums)


class GroupedStream(SoftStream, GroupedSoft):
    """Expected statistics of clusters that groups mix, learned chunk by chunk.

    `GroupedVariational.stream` makes it.

    Parameters
    ----------
    model : AdmixtureModel
        With a bound family.
    data : Dataset
        The first chunk. It fixes the coordinates of the stream; it is not learned here.
    settings : GroupedVariational
    seed : int

    Attributes
    ----------
    total_weight : float
        Number of rows (or sum of their weights) of the chunks learned so far, each chunk counted once.
    labels : (m,) int32 ndarray
        Most probable cluster of each row of the chunk learned last.
    group_counts : (G, K) CSR or None
        Sums of the responsibilities of each group's rows in that chunk.
    memo : dict
        `GroupedContribution` of each named chunk.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import AdmixtureModel, Dataset, Poisson
    >>> from expfam.samplers import GroupedVariational
    >>> X, groups = np.repeat([[0], [40]], 10, axis=0), np.arange(20) % 4
    >>> chunks = [Dataset(X, Poisson(shape=1.0, rate=0.1), groups=groups) for _ in range(3)]
    >>> model = AdmixtureModel(chunks[0].family, 2, alpha=0.5)
    >>> stream = GroupedVariational(2).stream(model, chunks[0], seed=0)
    >>> for place, chunk in enumerate([*chunks, *chunks]):
    ...     info = stream.learn(chunk, batch=place % 3)
    >>> stream.n.round().tolist()
    [30.0, 30.0]
    """

    sums_type, contribution_type = GroupedSums, GroupedContribution
    group_counts: Any = None

    def __init__(self, model: AdmixtureModel, data: Dataset, *, settings: GroupedVariational, seed: int) -> None:
        super().__init__(model, data, n_clusters=model.n_components, settings=settings, seed=seed)

    def resume(self, n: npt.NDArray[np.float64], S: Any, counts: Any, log_joint: float) -> None:
        """Begin with the statistics (n, S), group counts (G, K) and bound of a finished fit.

        The entropy is set so that the bound is `log_joint`.

        Parameters
        ----------
        n, S
            As of `sums_of_fit`.
        counts : (G, K) CSR
            Sums of the responsibilities of each group's rows.
        log_joint : float
            Bound of the fit, nats.
        """
        alpha, learns = self.model.pseudocounts, self.settings.learn_alpha
        sums = GroupedSums.of_groups(self.sums_of_fit(n, S), alpha, counts, learns=learns)
        weight = float(np.sum(n))
        known = self.posterior_of(sums, self.order).bound(0.0) + weight * self.phi.log_det
        sums.entropy = float(log_joint - known - sums.documents_bound(alpha) - self.prior_of_alpha())
        self.continue_from(sums, weight)

    @staticmethod
    def room(model: AdmixtureModel, settings: GroupedVariational) -> int:
        """Return the number of clusters of a stream of this model."""
        return model.n_components

    # ---- chunks ------------------------------------------------------------------------------------------------------

    def check_kind(self, data: Dataset) -> None:
        """Raise for chunks without groups, of another kind, and with more classes than clusters."""
        super().check_kind(data)
        if data.groups is None:
            raise DataError("a chunk needs the group of each row: give a Dataset(X, family, groups=...)")
        if data.known is not None:
            check_known(self.settings, self.model, data.known)

    def step_of(self, batch: Chunk, *, all_clusters: bool) -> tuple[GroupedLocalStep, bool]:
        """Return the local step of the groups of a chunk, and True: it scores all clusters."""
        data = batch.data
        passes, alpha = self.group_passes(self.phi.over(data), data), self.model.pseudocounts
        before = None if batch.last is None else batch.last.counts
        if before is not None and before.shape[0] != data.groups.n_groups:
            raise DataError(
                f"the chunk had {counted(before.shape[0], 'group')} when it was learned; got {data.groups.n_groups}: "
                "chunks that come again have the same groups"
            )
        local = passes.local_step_of_groups(np.arange(data.groups.n_groups), self.tables(), alpha, before)
        local.sums = GroupedSums.of_groups(local.sums, alpha, local.counts, learns=self.settings.learn_alpha)
        labels = np.empty_like(local.labels)
        labels[local.rows] = local.labels
        local.labels, self.group_counts = labels, local.counts
        return local, True

    def sums_of_contribution(self, last: GroupedContribution, local: GroupedLocalStep) -> GroupedSums | None:
        """Return the sums of the last contribution of a chunk, before this local step."""
        return last.sums

    def contribution(
        self, local: Any, data: Dataset, last: GroupedContribution | None, scores_all: bool
    ) -> GroupedContribution:
        """Return the contribution of a chunk, from its local step."""
        return GroupedContribution(data.n_rows, weight_of(data), local.counts, local.sums)

    def kept_of(self, local: GroupedLocalStep, data: Dataset) -> GroupedContribution:
        """Return the counts of a chunk's groups, with which they begin in the next full pass."""
        return GroupedContribution(data.n_rows, weight_of(data), local.counts)

    def groups_bound(self) -> float:
        """Return the part of the bound that belongs to the groups' weights, nats."""
        return self.sums.documents_bound(self.model.pseudocounts)

    def noisy_bound(self, local: Any, scale: float, total: float) -> float:
        """Return an estimate of the bound from one local step, before its update, nats."""
        sums, posterior = local.sums, self.posterior
        rows = float(np.einsum("kf,kf->", sums.S, posterior.theta) - sums.n @ posterior.g) + sums.entropy
        value = scale * (rows + sums.documents_bound(self.model.pseudocounts))
        return value - posterior.divergence() + total * self.phi.log_det + self.prior_of_alpha()

    def update(self, *, keep_order: bool = False) -> None:
        """Set the posterior from the statistics, and learn the pseudo-counts.

        The statistics of a start teach nothing about the pseudo-counts.
        """
        if self.settings.learn_alpha and not self.is_guess:
            self.model = self.model.with_alpha(self.sums.best_alpha(self.model.pseudocounts))
        super().update(keep_order=keep_order)

    def gain_tolerance(self) -> float:
        """Return the share of the bound below which a pass's gain means convergence."""
        return self.settings.bound_tol
