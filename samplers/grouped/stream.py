"""Variational inference of rows in groups from chunks of whole groups that are not kept.

Memory beside one chunk: O(K F), and for each chunk that a memoized schedule remembers its sums and what the rows of
each of its groups give each cluster, at most L numbers a row or K a group; of a full pass the latter alone.
"""

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from expfam.errors import ArchiveError, DataError
from expfam.samplers.grouped.state import GroupedSoft, GroupedSums, stored_counts
from expfam.samplers.variational.schedules import Full
from expfam.samplers.variational.soft_stream import SoftStream
from expfam.samplers.variational.stream_base import weight_of
from expfam.structures.ground.stored import integers, numbers


@dataclass
class GroupedContribution:
    """What a chunk of groups contributed when it was last learned.

    Attributes
    ----------
    n_rows, weight : int, float
        By which the chunk is recognised when it comes again.
    counts : (G, K) CSR
        What the rows of each group gave each cluster: where its weights begin when the chunk comes again.
    sums : GroupedSums or None
        Not of a full pass, which replaces all of them at once.
    """

    n_rows: int
    weight: float
    counts: sparse.csr_array
    sums: GroupedSums | None = None

    def to_arrays(self):
        """As a dict of arrays."""
        arrays = {"n_rows": np.array(self.n_rows), "weight": np.array(self.weight), "counts": self.counts.copy()}
        if self.sums is None:
            return arrays
        return arrays | self.sums.to_arrays() | {"entropy": np.array(self.sums.entropy)}

    @classmethod
    def from_arrays(cls, arrays, stream):
        """What `to_arrays` gave, of a chunk of that stream."""
        K, shape = stream.K, stream.sums.S.shape
        sums = GroupedSums.from_arrays(arrays, arrays["entropy"], shape) if "n" in arrays else None
        if sums is None and not isinstance(stream.schedule, Full):
            raise ArchiveError("a chunk is remembered without its sums: the file was altered")
        n_rows, weight = int(integers(arrays, "n_rows", ())), float(numbers(arrays, "weight", (), low=0.0))
        return cls(n_rows, weight, stored_counts(arrays, "counts", (None, K)), sums)


class GroupedStream(SoftStream, GroupedSoft):
    """Soft statistics of clusters that groups mix, learned chunk by chunk; made by `GroupedVariational.stream`.

    Parameters
    ----------
    model : AdmixtureModel
        Its family bound.
    data : Dataset
        The first chunk, whose coordinates the whole stream has. It is not learned here.
    settings : GroupedVariational
    seed : int

    Attributes
    ----------
    total_weight : float
        Rows of the chunks learned so far, each counted once, or their weights.
    labels : (m,) int32 ndarray
        Most probable cluster of each row of the chunk learned last.
    group_counts : (G, K) CSR or None
        What the rows of each group of that chunk give each cluster.
    memo : dict
        `GroupedContribution` of each chunk that was named.

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
    group_counts = None

    def __init__(self, model, data, *, settings, seed):
        super().__init__(model, data, n_clusters=model.n_components, settings=settings, seed=seed)

    def resume(self, n, S, counts, log_joint):
        """Take the statistics (n, S) of a finished fit, counts (G, K) of its groups, and its bound.

        Entropy stands for what the bound has beside them.
        """
        alpha, learns = self.model.pseudocounts, self.settings.learn_alpha
        sums = GroupedSums.of_groups(self.sums_of_fit(n, S), alpha, counts, learns=learns)
        weight = float(np.sum(n))
        known = self.posterior_of(sums, self.order).bound(0.0) + weight * self.phi.log_det
        sums.entropy = float(log_joint - known - sums.documents_bound(alpha) - self.prior_of_alpha())
        self.take_fit(sums, weight)

    @staticmethod
    def room(model, settings):
        """Number of clusters of a stream of this model."""
        return model.n_components

    # ---- chunks ------------------------------------------------------------------------------------------------------

    def check_kind(self, data):
        """Refuse chunks without groups, and those of other statistics than the first one's."""
        super().check_kind(data)
        if data.groups is None:
            raise DataError("a chunk needs the group of each row: give a Dataset(X, family, groups=...)")

    def local_step(self, data, last, *, all_clusters):
        """Weights and responsibilities of the groups of a chunk; always over all clusters."""
        passes, alpha = self.group_passes(self.phi.over(data), data), self.model.pseudocounts
        before = None if last is None else last.counts
        if before is not None and before.shape[0] != data.groups.n_groups:
            raise DataError(
                f"the chunk had {before.shape[0]} groups when it was learned; got {data.groups.n_groups}: chunks that"
                " come again have the same groups"
            )
        local = passes.local_step_of_groups(np.arange(data.groups.n_groups), self.tables(), alpha, before)
        local.sums = GroupedSums.of_groups(local.sums, alpha, local.counts, learns=self.settings.learn_alpha)
        labels = np.empty_like(local.labels)
        labels[local.rows] = local.labels
        local.labels, self.group_counts = labels, local.counts
        return local, True

    def sums_of_contribution(self, last, local):
        """Sums of what a chunk contributed before this local step."""
        return last.sums

    def contribution(self, local, data, last, scores_all):
        """What is remembered of a local step."""
        return GroupedContribution(data.n_rows, weight_of(data), local.counts, local.sums)

    def kept_of(self, local, data):
        """Where the weights of its groups begin in the next full pass."""
        return GroupedContribution(data.n_rows, weight_of(data), local.counts)

    def groups_bound(self):
        """Part of the bound of the groups' weights: nats."""
        return self.sums.documents_bound(self.model.pseudocounts)

    def noisy_bound(self, local, scale, total):
        """Estimate of the bound from one local step, before its update."""
        sums, posterior = local.sums, self.posterior
        rows = float(np.einsum("kf,kf->", sums.S, posterior.theta) - sums.n @ posterior.g) + sums.entropy
        value = scale * (rows + sums.documents_bound(self.model.pseudocounts))
        return value - posterior.divergence() + total * self.phi.log_det + self.prior_of_alpha()

    def update(self, *, keep_order=False):
        """Set the posterior from the statistics, and the pseudo-counts from those of confirmed groups."""
        if self.settings.learn_alpha and not self.is_guess:
            self.model = self.model.with_alpha(self.sums.best_alpha(self.model.pseudocounts))
        super().update(keep_order=keep_order)

    def settled_gain(self):
        """Share of the bound that a pass gains at least while it has not settled."""
        return self.settings.bound_tol


__all__ = ["GroupedContribution", "GroupedStream"]
