"""Labels with as many clusters as were asked for.

An ascent that may not empty a cluster ends with clusters of one row that is strange there, and a chain may have
lost clusters before. Such a cluster is opened anew in another place, as a half of a cluster. Then each row has its most
probable cluster wherever that can be had.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from expfam.model.data import Dataset
from expfam.model.partitions import by_first_appearance, compact_labels
from expfam.model.statistics import weighted_statistics
from expfam.samplers.starts.equal_rows import EqualRows
from expfam.samplers.starts.kmeans import lloyd_labels

if TYPE_CHECKING:
    from expfam.model.mixture import MixtureModel

_MOST_HALVED = 8  # clusters of which halves are made; the largest
_MOST_ROUNDS = 3
_PASSES_TRIED = 3  # of each ascent from a halving
_MOST_TRIED = 3  # halvings from which an ascent begins; those of the highest evidence


def refilled(
    model: MixtureModel,
    data: Dataset,
    labels: npt.ArrayLike,
    n_clusters: int,
    *,
    max_passes: int,
    seed: int,
    n_threads: int | None = None,
) -> npt.NDArray[np.int32]:
    """Ascend to labels with a given number of clusters; replace missing ones and outliers.

    Parameters
    ----------
    model, data, labels
        As of `expfam.samplers.starts.ascent.ascend`.
    n_clusters : int
        Wanted; there are fewer only where fewer rows are distinct, or where equal rows would have to be divided.
    max_passes : int
        Of each ascent.
    seed, n_threads : int, int or None
        The labels do not depend on the number of threads.

    Returns
    -------
    (N,) int32 ndarray
        Numbered by first appearance. Equal rows have equal labels. A row has another label than its most probable
        cluster only where no opening of a cluster in another place avoids that.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import Dataset, DiagonalGaussian, MixtureModel, SymmetricDirichlet
    >>> from expfam.samplers.starts.refill import refilled
    >>> data = Dataset([[0.0], [0.1], [8.0], [8.1], [20.0]], DiagonalGaussian())
    >>> model = MixtureModel(data.family, SymmetricDirichlet(3, 1.0))
    >>> refilled(model, data, [0, 0, 0, 0, 1], 3, max_passes=10, seed=0)
    array([0, 0, 1, 1, 2], dtype=int32)
    """
    return Refill(model, data, n_clusters, max_passes=max_passes, seed=seed, n_threads=n_threads).labels(labels)


class Refill:
    """Ascents with a wanted number of clusters; what all of them need is made once.

    The parameters are those of `refilled`, without the labels.

    Attributes
    ----------
    rows : EqualRows
        Makes the ascents, and computes log joints.
    """

    def __init__(
        self,
        model: MixtureModel,
        data: Dataset,
        n_clusters: int,
        *,
        max_passes: int,
        seed: int,
        n_threads: int | None = None,
    ) -> None:
        self.data, self.n_clusters, self.seed, self.max_passes = data, n_clusters, seed, max_passes
        self.rows = EqualRows(model, data, n_threads=n_threads)

    def labels(self, labels: npt.ArrayLike) -> npt.NDArray[np.int32]:
        """Return what `refilled` does for labels."""
        return self._filled(self._climb(compact_labels(labels)))

    def better(self, labels: npt.ArrayLike, least: float) -> npt.NDArray[np.int32] | None:
        """Return what `refilled` does, or None if it cannot reach a log joint of `least`."""
        begun = self.rows.climb(compact_labels(labels), keep_clusters=True, max_passes=self.max_passes, least=least)
        return None if begun.is_hopeless else self._filled(begun)

    def _filled(self, best):
        for _ in range(_MOST_ROUNDS):
            if self._fullness(best) == (self.n_clusters, 0):
                break
            # strange rows leave their clusters, which are opened elsewhere; if that does not help, they stay
            found = max((self._grown(begun) for begun in (best.most_probable, best.labels)), key=self._rank)
            if self._rank(found) <= self._rank(best):
                break
            best = found
        return by_first_appearance(best.labels)[1]

    def _climb(self, labels, max_passes=None):
        passes = self.max_passes if max_passes is None else max_passes
        return self.rows.climb(labels, keep_clusters=True, max_passes=passes)

    def _grown(self, labels):
        """Open clusters until all are there, each time by the best of some ascents."""
        labels, n_wanted = compact_labels(labels), min(self.n_clusters, self.rows.n_distinct)
        while (n_used := labels.max() + 1) < n_wanted:
            halvings = _halvings(self.data, labels, self.seed)
            if not halvings:
                break
            trials = [self._climb(halved, _PASSES_TRIED) for halved in halvings]
            labels = compact_labels(max(trials, key=self._rank).labels)
            if labels.max() + 1 <= n_used:  # every half has joined its equals again
                break
        return self._climb(labels)

    def _rank(self, summit):
        """Return what makes labels better, in the order of weight."""
        return *self._fullness(summit), self.rows.log_joint(compact_labels(summit.labels))

    def _fullness(self, summit):
        """Return the number of clusters, at most that wanted, and minus the number of strange rows."""
        n_used = int(np.count_nonzero(np.bincount(summit.labels)))
        return min(n_used, self.n_clusters), -int(np.count_nonzero(summit.labels != summit.most_probable))


def _halvings(data, labels, seed):
    """Return labels in which one cluster is halved by k-means, of the highest evidences first."""
    K = int(labels.max()) + 1
    found = []
    for k in np.argsort(-np.bincount(labels), kind="stable"):
        rows = np.flatnonzero(labels == k)
        if rows.size < 2 or len(found) == _MOST_HALVED:
            break
        weight = None if data.weight is None else data.weight[rows]
        part = Dataset(data.X[rows], data.family, weight=weight)
        halves = lloyd_labels(part, 2, seed=seed, run=int(k))
        if not halves.any():
            continue
        n, S = weighted_statistics(part, halves, 2)
        whole = data.family.total_log_marginal(*weighted_statistics(part, np.zeros_like(halves), 1))
        halved = labels.copy()
        halved[rows[halves == 1]] = K
        found.append((data.family.total_log_marginal(n, S) - whole, halved))
    found.sort(key=lambda pair: -pair[0])
    return [halved for _, halved in found[:_MOST_TRIED]]
