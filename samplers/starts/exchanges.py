"""Exchanges at an equal number of clusters: a merge in one place, and a cut in another.

Where groups have no borders, as along a ring, a partition can have a wide cluster in one place and two narrow ones in
another, or two clusters that divide their rows the wrong way: no merge and no cut alone raises its log joint, and rows
at borders cannot move it there. This is an optimiser, not a sampler.
"""

from __future__ import annotations

from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.special import gammaln

from expfam.model.assignment import LoadedClusters
from expfam.model.partitions import division_of
from expfam.model.statistics import weighted_statistics
from expfam.samplers.starts.greedy_merge import cluster_evidences
from expfam.samplers.starts.halves import Halves, best_halves

if TYPE_CHECKING:
    from collections.abc import Iterator

    from expfam.model.data import Dataset
    from expfam.model.mixture import MixtureModel

_MOST_CLUSTERS = 64  # whose pairs are all looked at
_PAIRS_A_CLUSTER = 2  # that are cut anew; those that lose least by a merge
_FAR = 0.5  # nats a row that a merge of two clusters loses, above which they do not share rows
_MOST_ALONE = 8  # rows of a cluster whose leaving it is looked at
_HOPE_ALONE = 3.0  # times what a row gains by itself while it counts in its cluster, which may be gained
_FEWEST_SWAPPED = 4  # clusters; of three, recuts and runs of k-means find nearly all that swaps do


class Exchange(NamedTuple):
    """Another partition with as many clusters.

    Attributes
    ----------
    rise : float
        By how much the log joint is higher, nats, before further rows move.
    labels : (N,) int32 ndarray
    """

    rise: float
    labels: npt.NDArray[np.int32]


class Exchanges:
    """Exchanges of the clusters of one data set. The same rows are cut once.

    Parameters
    ----------
    model : MixtureModel
        Bound to the data.
    data : Dataset
    seed : int
        Decides the cuts.
    n_threads : int or None
        The result does not depend on it.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import Dataset, DiagonalGaussian, MixtureModel, SymmetricDirichlet
    >>> from expfam.samplers.starts.exchanges import Exchanges
    >>> X = np.repeat([[0.0], [5.0], [20.0]], 6, axis=0) + np.tile(np.linspace(0.0, 1.0, 6), 3)[:, None]
    >>> data = Dataset(X, DiagonalGaussian())
    >>> exchanges = Exchanges(MixtureModel(data.family, SymmetricDirichlet(2, 1.0)), data, seed=0)
    >>> exchanges.best(np.repeat([0, 1, 0], 6), most=1)[0].labels
    array([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1], dtype=int32)
    """

    def __init__(self, model: MixtureModel, data: Dataset, *, seed: int, n_threads: int | None = None) -> None:
        self.model, self.data, self.seed, self.n_threads = model, data, seed, n_threads
        self._cuts: dict[bytes, Halves | None] = {}

    def best(self, labels: npt.NDArray[np.integer], *, most: int) -> list[Exchange]:
        """Return the most promising exchanges.

        Parameters
        ----------
        labels : (N,) ndarray of int
            Numbers from 0 without gaps.
        most : int
            Number of exchanges at most.

        Returns
        -------
        list of Exchange
            The highest rise first. Empty for one cluster, and for more than 64.

        Notes
        -----
        Two clusters that lose little by a merge are merged and cut anew. Of four clusters or more each is also cut in
        two, and two others are merged, or one of the halves joins another cluster; of three those beside which a merge
        of the other two loses little, if the log joint then rises. Of a given number the strangest row
        of each cluster becomes a cluster in the same way, if the log joint then rises: more clusters were asked for
        than there are, the rest hold single rows, and no cut into halves finds another one. Rises are exact.
        """
        n_clusters = int(labels.max()) + 1
        if not 2 <= n_clusters <= _MOST_CLUSTERS:
            return []
        partition = _Partition(self.model, self.data, labels)
        pairs = partition.near_pairs()
        cuts = self._halves([np.sort(np.concatenate([partition.rows[a], partition.rows[b]])) for a, b in pairs])
        found = [partition.recut(a, b, cut) for (a, b), cut in zip(pairs, cuts) if cut is not None]
        if n_clusters >= _FEWEST_SWAPPED:
            found += partition.swaps(self._halves(partition.rows))
        elif n_clusters == _FEWEST_SWAPPED - 1:
            found += (one for one in partition.swaps(self._hopeful_halves(partition)) if one.rise > 0.0)
        if self.model.weights.max_components is not None:
            found += (one for one in partition.swaps(partition.strangest()) if one.rise > 0.0)
        return list(islice(_others(labels, sorted(found, key=lambda one: -one.rise)), most))

    def _hopeful_halves(self, partition):
        """Cut those of three clusters beside which a merge loses little: Halves or None of each.

        So are two clusters of few strange rows, which no run of k-means joins.
        """
        cuts: list[Halves | None] = [None] * partition.K
        hopeful = [k for k, loss in enumerate(-partition.merge_of_others()) if loss < _FAR * partition.n[k]]
        for k, cut in zip(hopeful, self._halves([partition.rows[k] for k in hopeful])):
            cuts[k] = cut
        return cuts

    def _halves(self, clusters):
        """Cut clusters in two: Halves or None of each."""
        names = [rows.tobytes() for rows in clusters]
        fresh = {name: rows for name, rows in zip(names, clusters) if name not in self._cuts}
        options: dict[str, Any] = {"seed": self.seed, "n_threads": self.n_threads, "forced": True}
        self._cuts.update(zip(fresh, best_halves(self.model, self.data, list(fresh.values()), **options)))
        return [self._cuts[name] for name in names]


def _others(labels, exchanges):
    """Yield exchanges whose partitions differ from the given one and from each other."""
    seen = {division_of(labels)}
    for one in exchanges:
        if (key := division_of(one.labels)) not in seen:
            seen.add(key)
            yield one


class _Partition:
    """Clusters, with the evidences of all pairs of them."""

    def __init__(self, model, data, labels):
        self.data, self.family, self.offset = data, model.family, model.weights.offset
        self.labels = np.ascontiguousarray(labels, dtype=np.int32)
        sizes = np.bincount(self.labels)
        self.K, order = len(sizes), np.argsort(self.labels, kind="stable")
        self.rows = np.split(order, np.cumsum(sizes)[:-1])
        self.n, self.S = weighted_statistics(data, self.labels, self.K)
        self.pairs = _Merges(self.family, self.n, self.S)

    @cached_property
    def merges(self):
        """Changes of the log evidence by merges: (K, K), -inf from the diagonal down."""
        gains = np.full((self.K, self.K), -np.inf)
        for k in range(1, self.K):
            gains[:k, k] = self.pairs.gains(k, np.arange(k))
        return gains

    @cached_property
    def rises(self):
        """Changes of the log joint by merges: (K, K), -inf from the diagonal down."""
        size = self._of_size(self.n)
        return self.merges + self._of_size(np.add.outer(self.n, self.n)) - np.add.outer(size, size)

    def near_pairs(self):
        """Return pairs of clusters whose merge loses little, the least first."""
        a, b = np.triu_indices(self.K, 1)
        together, loss = self.n[a] + self.n[b], -self.rises[a, b]
        near = np.flatnonzero(loss < _FAR * together)
        chosen = near[np.argsort(loss[near], kind="stable")[: _PAIRS_A_CLUSTER * self.K]]
        return list(zip(a[chosen].tolist(), b[chosen].tolist()))

    def merge_of_others(self):
        """Return the change of the log joint by the merge of the other two of three clusters: (3,)."""
        return self.rises[[1, 0, 0], [2, 2, 1]]

    def recut(self, a, b, cut):
        """Merge clusters a and b, and cut them anew."""
        labels = self.labels.copy()
        rows = np.sort(np.concatenate([self.rows[a], self.rows[b]]))
        labels[rows] = np.where(cut.labels == 1, b, a)
        moved = self._weight(rows[cut.labels == 1])
        sizes = {a: self.n[a] + self.n[b] - moved, b: moved}
        return Exchange(cut.rise + self.merges[a, b] + self._of_sizes(sizes), labels)

    def swaps(self, cuts) -> Iterator[Exchange]:
        """Yield, for each cut, the best merge of others, and of each half with another cluster."""
        sides = np.zeros(len(self.labels), dtype=np.int32)
        for rows, cut in zip(self.rows, cuts):
            if cut is not None:
                sides[rows] = cut.labels
        n, S = weighted_statistics(self.data, 2 * self.labels + sides, 2 * self.K)
        stack = sparse.vstack if sparse.issparse(S) else np.concatenate
        pairs = _Merges(self.family, np.concatenate([self.n, n]), stack([self.S, S]))
        for c, cut in enumerate(cuts):
            if cut is None:
                continue
            new, halves = self.rows[c][cut.labels == 1], n[2 * c : 2 * c + 2]
            yield self._with_merged_others(c, cut.rise, new, halves)
            for side in (0, 1):
                gains = pairs.gains(self.K + 2 * c + side, np.delete(np.arange(self.K), c))
                yield self._with_joined_half(c, cut, side, halves, gains)

    def strangest(self):
        """Cut off the row of each cluster that gains most alone: Halves, or None."""
        cuts: list[Halves | None] = [None] * self.K
        several = [k for k, rows in enumerate(self.rows) if len(rows) > 1]
        if not several or _HOPE_ALONE * self._gains_alone.max() + self.rises.max() < 0.0:
            return cuts
        alone = self._most_gaining([self._least_probable(k) for k in several], several)
        apart = self.labels.copy()
        apart[alone] += self.K
        n, S = weighted_statistics(self.data, apart, 2 * self.K)
        rises = np.add(*self.family.log_marginal_of_rows(n, S).reshape(2, -1)) - self.pairs.own
        for k, row in zip(several, alone):
            cuts[k] = Halves((self.rows[k] == row).astype(np.int32), float(rises[k]))
        return cuts

    def _least_probable(self, k):
        """Return rows of a cluster that may gain most alone; they still count in it."""
        return self.rows[k][np.argsort(-self._gains_alone[self.rows[k]], kind="stable")[:_MOST_ALONE]]

    @cached_property
    def _gains_alone(self):
        """Log evidence of each row less its log predictive in its cluster: (N,) nats."""
        clusters = LoadedClusters(self.family, self.n, self.S, n_empty=1)

        def gains(scores, start, stop):
            return scores[:, -1] - scores[np.arange(stop - start), self.labels[start:stop]]

        return np.concatenate(clusters.each_block(self.data, np.zeros(self.K + 1), gains, n_threads=1))

    def _most_gaining(self, chosen, clusters):
        """Return the one of some rows of each cluster that gains most by leaving it."""
        of_row, rows = np.repeat(clusters, [len(each) for each in chosen]), np.concatenate(chosen)
        n, S = weighted_statistics(self.data.take(rows), np.arange(len(rows), dtype=np.int32), len(rows))
        log_marginal = self.family.log_marginal_of_rows
        gains = log_marginal(n, S) + log_marginal(self.n[of_row] - n, self.S[of_row] - S)
        return [rows[of_row == k][np.argmax(gains[of_row == k])] for k in clusters]

    def _with_merged_others(self, c, rise, new, halves):
        rises = self.rises.copy()
        rises[c, :] = rises[:, c] = -np.inf
        a, b = np.unravel_index(np.argmax(rises), rises.shape)
        labels = self.labels.copy()
        labels[labels == b] = a
        labels[new] = b
        sizes = {a: self.n[a] + self.n[b], b: halves[1], c: halves[0]}
        return Exchange(rise + self.merges[a, b] + self._of_sizes(sizes), labels)

    def _with_joined_half(self, c, cut, side, halves, gains):
        others = np.delete(np.arange(self.K), c)
        joined = self.n[others] + halves[side]
        of_sizes = self._of_size(joined) - self._of_size(self.n[others])
        best = int(np.argmax(gains + of_sizes))
        labels = self.labels.copy()
        labels[self.rows[c][cut.labels == side]] = others[best]
        rise = cut.rise + gains[best] + of_sizes[best] + self._of_sizes({c: halves[1 - side]})
        return Exchange(float(rise), labels)

    def _of_size(self, n):
        """Return what the prior gives to clusters of some sizes, up to a constant."""
        return gammaln(n + self.offset)

    def _of_sizes(self, sizes):
        """Return the change of the log prior where some clusters have other sizes."""
        return float(sum(self._of_size(n) - self._of_size(self.n[k]) for k, n in sizes.items()))

    def _weight(self, rows):
        return float(len(rows) if self.data.weight is None else self.data.weight[rows].sum())


class _Merges:
    """Changes of the log evidence by merges of clusters."""

    def __init__(self, family, n, S):
        self._evidences = cluster_evidences(family, n, S)
        self.own = self._evidences.log_marginal(np.arange(len(n)))

    def gains(self, k, others):
        """Return the change where cluster k is merged with each of some others."""
        return self._evidences.log_merged(k, others) - self.own[k] - self.own[others]
