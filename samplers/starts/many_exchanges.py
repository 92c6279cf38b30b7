"""Exchanges of many clusters at once: loose ones are cut in two, and near ones merged.

k-means with hundreds of centres leaves a few dozen groups in one cluster with another group, and as many groups in two
clusters. Each such pair of errors is mended by one exchange; all that pay are made together, at an equal number of
clusters. This is an optimiser, not a sampler.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln

from expfam.model.assignment import LoadedClusters
from expfam.model.statistics import moved_statistics, recounted_statistics, weighted_statistics
from expfam.samplers.starts.halves import Halves, best_halves
from expfam.structures.ground.threads import single_blas

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from expfam.model.data import Dataset
    from expfam.model.mixture import MixtureModel

_MANY_CLUSTERS = 64  # up to which `Exchanges` looks at every pair
_MANY_PARAMETERS = 30_000  # numbers in the statistics of all clusters
_LOOSE_SHARE, _FEWEST_LOOSE = 8, 64  # part of the clusters that are cut: those of the lowest evidence a row
_NEAREST = 8  # clusters with which the merge of each is looked at
_MOST_ROUNDS = 6
_PASSES = 3  # over the rows of exchanged clusters
_LEAST_GAIN = 0.5  # nats of an exchange
_SCORED_AT_ONCE = 1 << 20  # numbers in the statistics of merged pairs


def has_many_clusters(model: MixtureModel, data: Dataset) -> bool:
    """Return whether labels are moved together, as clusters and their statistics are many.

    It holds for more than 64 clusters of real values, whose number is given, with 30,000 numbers or more in their
    statistics. Rows have no weights, nothing is known of them, and the family is compiled and can draw parameters.
    Collapsed steps would then take many times as long as passes over all rows. Full covariances are left out: their
    clusters need more rows than a cut leaves them.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import Dataset, MixtureModel, SphericalGaussian, SymmetricDirichlet
    >>> from expfam.samplers.starts.many_exchanges import has_many_clusters
    >>> data = Dataset(np.random.default_rng(0).normal(size=(5, 400)), SphericalGaussian())
    >>> [has_many_clusters(MixtureModel(data.family, SymmetricDirichlet(K)), data) for K in (70, 1000)]
    [False, True]
    """
    K, family = model.weights.max_components, model.family
    if K is None or K <= _MANY_CLUSTERS or data.weight is not None or data.known is not None:
        return False
    if family.is_discrete or family.has_full_covariance or not family.is_compiled or "draw" not in family.capabilities:
        return False
    return K * data.n_statistics >= _MANY_PARAMETERS


class _Merge(NamedTuple):
    rise: float
    kept: int
    other: int


class _Merges(NamedTuple):
    rises: npt.NDArray[np.float64]  # the highest first
    kept: npt.NDArray[np.int64]
    other: npt.NDArray[np.int64]


class _Cut(NamedTuple):
    rise: float
    cluster: int
    rows: npt.NDArray[np.integer]  # of the half that leaves


class ManyExchanges:
    """Exchanges of the clusters of one data set, many at once. The same rows are cut once.

    Parameters
    ----------
    model, data, seed, n_threads
        As of `expfam.samplers.starts.exchanges.Exchanges`; the data have no weights and no known rows.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import Dataset, DiagonalGaussian, MixtureModel, SymmetricDirichlet
    >>> from expfam.samplers.starts.many_exchanges import ManyExchanges
    >>> X = np.repeat([[0.0], [5.0], [20.0]], 6, axis=0) + np.tile(np.linspace(0.0, 1.0, 6), 3)[:, None]
    >>> data = Dataset(X, DiagonalGaussian())
    >>> model = MixtureModel(data.family, SymmetricDirichlet(3, 1.0))
    >>> ManyExchanges(model, data, seed=0).risen(np.repeat([0, 0, 1, 2], [6, 6, 3, 3]).astype(np.int32))
    array([0, 0, 0, 0, 0, 0, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1], dtype=int32)
    """

    def __init__(self, model: MixtureModel, data: Dataset, *, seed: int, n_threads: int | None = None) -> None:
        self.model, self.data, self.seed, self.n_threads = model, data, seed, n_threads
        self._cuts: dict[bytes, Halves | None] = {}

    def risen(self, labels: npt.NDArray[np.int32], n_clusters: int | None = None) -> npt.NDArray[np.int32]:
        """Make exchanges as long as the log joint rises.

        Parameters
        ----------
        labels : (N,) int32 ndarray
            Numbers from 0 without gaps.
        n_clusters : int, optional
            Number of clusters that are wanted. Those that are missing are opened first, by the cuts of the highest
            rises.

        Returns
        -------
        (N,) int32 ndarray
            As many clusters as there were or are wanted, fewer only where no more can be cut. The log joint is never
            lower than before, but for clusters that had to be opened; the given array itself where nothing is changed.

        Notes
        -----
        In each round the eighth of the clusters with the lowest log evidence a row, and no fewer than 64, are cut in
        two. Merges are those of each cluster with the 8 whose mean statistics are nearest, in units of the standard
        deviation of these means. Cuts and merges of different clusters are paired, the highest rises first. The rows
        of the clusters that were exchanged then move to their most probable clusters. The round counts if the log
        joint is higher after it.
        """
        if int(labels.max()) < 1:
            return labels
        state = _Partition(self.model, self.data, labels)
        if n_clusters is not None and n_clusters > state.K:
            state = state.opened(self._cuts_of_loose(state)[: n_clusters - state.K])
        for _ in range(_MOST_ROUNDS):
            chosen = _matched(self._cuts_of_loose(state), state.merges())
            if not chosen:
                break
            found = state.exchanged(chosen, n_threads=self.n_threads)
            if not found.log_joint > state.log_joint:
                break
            state = found
        return state.labels

    def _cuts_of_loose(self, state):
        """Return cuts of loose clusters, the highest rise first."""
        loose, cuts = state.loose(), []
        for c, halves in zip(loose, self._halves([state.rows[c] for c in loose])):
            if halves is not None:
                rows = state.rows[c][halves.labels == 1]
                sizes = state.of_size(len(rows)) + state.of_size(state.n[c] - len(rows)) - state.of_size(state.n[c])
                cuts.append(_Cut(halves.rise + float(sizes), c, rows))
        return sorted(cuts, key=lambda cut: -cut.rise)

    def _halves(self, clusters):
        """Cut clusters in two: Halves or None of each."""
        names = [rows.tobytes() for rows in clusters]
        fresh = {name: rows for name, rows in zip(names, clusters) if name not in self._cuts}
        options: dict[str, Any] = {"seed": self.seed, "n_threads": self.n_threads, "forced": True, "by_columns": False}
        self._cuts.update(zip(fresh, best_halves(self.model, self.data, list(fresh.values()), **options)))
        return [self._cuts[name] for name in names]


def _matched(cuts: Iterable[_Cut], merges: _Merges) -> list[tuple[_Cut, _Merge]]:
    """Pair each cut with the best merge of other clusters that is left, where both together pay."""
    taken: set[int] = set()
    is_free = np.ones(len(merges.rises), dtype=bool)
    chosen = []
    for cut in cuts:
        if cut.cluster in taken:
            continue
        others = np.flatnonzero(is_free & (merges.kept != cut.cluster) & (merges.other != cut.cluster))
        if not others.size or not cut.rise + merges.rises[others[0]] > _LEAST_GAIN:
            continue
        merge = _Merge(*(each[others[0]].item() for each in merges))
        for k in (cut.cluster, merge.kept, merge.other):
            is_free &= (merges.kept != k) & (merges.other != k)
            taken.add(k)
        chosen.append((cut, merge))
    return chosen


class _Partition:
    """Labels with their statistics, evidences and log joint."""

    def __init__(self, model, data, labels, before=None):
        self.model, self.data, self.labels = model, data, labels
        self.pairs, self.together = np.empty(0, dtype=np.int64), np.empty(0)  # log evidences of pairs as one
        if before is None:
            self.K = int(labels.max()) + 1
            self.n, self.S = weighted_statistics(data, labels, self.K)
            self.rows, self.own, changed = [None] * self.K, np.empty(self.K), np.arange(self.K)
        else:
            changed = self._inherited(before)
        for k, rows in zip(changed.tolist(), _rows_of(labels, changed, self.K)):
            self.rows[k] = rows
        self.own[changed] = model.family.log_marginal_of_rows(self.n[changed], self.S[changed])
        self.log_joint = float(model.weights.log_prior(self.n) + self.own.sum())

    def _inherited(self, before):
        """Take what is known of clusters that have the same rows as before; return the others."""
        self.K, self.rows, self.own = before.K, before.rows.copy(), before.own.copy()
        self.n, self.S = recounted_statistics(self.data, before.n, before.S, before.labels, self.labels)
        is_changed, moved = np.zeros(self.K, dtype=bool), self.labels != before.labels
        is_changed[before.labels[moved]] = is_changed[self.labels[moved]] = True
        kept = ~(is_changed[before.pairs // self.K] | is_changed[before.pairs % self.K])
        self.pairs, self.together = before.pairs[kept], before.together[kept]
        return np.flatnonzero(is_changed)

    def of_size(self, n):
        """Return what the prior gives to clusters of some sizes, up to a constant."""
        return gammaln(n + self.model.weights.offset)

    def loose(self):
        """Return the clusters of the lowest log evidence a row."""
        n_loose = max(_FEWEST_LOOSE, self.K // _LOOSE_SHARE)
        return np.argsort(self.own / self.n, kind="stable")[:n_loose].tolist()

    def merges(self):
        """Return merges of near clusters, the highest rise first."""
        pairs = self._near_pairs()
        a, b = pairs // self.K, pairs % self.K
        size, together = self.of_size(self.n), self.n[a] + self.n[b]
        rises = self._log_merged(pairs, a, b) - self.own[a] - self.own[b]
        rises += self.of_size(together) - size[a] - size[b]
        order = np.argsort(-rises, kind="stable")
        return _Merges(rises[order], a[order], b[order])

    def _log_merged(self, pairs, a, b):
        """Return the log evidence of each pair of clusters as one, and keep it: (m,)."""
        found, is_known = np.zeros(len(pairs)), np.isin(pairs, self.pairs, assume_unique=True)
        found[is_known] = self.together[np.searchsorted(self.pairs, pairs[is_known])]
        fresh, step = np.flatnonzero(~is_known), max(1, _SCORED_AT_ONCE // self.S.shape[1])
        for start in range(0, len(fresh), step):
            rows = fresh[start : start + step]
            n, S = self.n[a[rows]] + self.n[b[rows]], self.S[a[rows]] + self.S[b[rows]]
            found[rows] = self.model.family.log_marginal_of_rows(n, S)
        self.pairs, self.together = pairs, found
        return found

    def _near_pairs(self):
        """Return pairs of near clusters, each once and in order: numbers a K + b, where a < b."""
        near = self._near()
        a, b = np.repeat(np.arange(self.K), near.shape[1]), near.ravel()
        return np.unique(np.minimum(a, b) * self.K + np.maximum(a, b))

    def _near(self):
        """Return the clusters of the nearest mean statistics of each one: (K, at most 8) intp."""
        means = (self.S.toarray() if hasattr(self.S, "toarray") else self.S) / self.n[:, None]
        means -= means.mean(axis=0)
        spread = means.std(axis=0)
        means /= np.where(spread > 0.0, spread, 1.0)
        squares = np.einsum("kf,kf->k", means, means)
        with single_blas():
            distance = means @ means.T
        distance *= -2.0
        distance += squares + squares[:, None]
        np.fill_diagonal(distance, np.inf)
        return _lowest(distance, min(_NEAREST, self.K - 1))

    def opened(self, cuts):
        """Return the partition in which the half that leaves each cut is a cluster of its own."""
        labels = self.labels.copy()
        for k, cut in enumerate(cuts, start=self.K):
            labels[cut.rows] = k
        return _Partition(self.model, self.data, labels)

    def exchanged(self, chosen, *, n_threads):
        """Return the partition after exchanges, and after moves of the rows of their clusters."""
        labels = self.labels.copy()
        for cut, merge in chosen:
            labels[self.rows[merge.other]] = merge.kept
            labels[cut.rows] = merge.other
        clusters = [k for cut, merge in chosen for k in (cut.cluster, merge.kept, merge.other)]
        rows = np.sort(np.concatenate([self.rows[k] for k in clusters]))
        return self._moved(labels, rows, n_threads)

    def _moved(self, labels, rows, n_threads):
        """Move some rows to their most probable clusters, as long as no cluster is emptied."""
        part, own = self.data.take(rows), labels[rows]
        n, S = moved_statistics(part, self.n, self.S, self.labels[rows], own)
        clusters = LoadedClusters(self.model.family, n, S, keeps_rows=True)
        for _ in range(_PASSES):
            log_mass = np.log(self.model.weights.posterior_mean(n)[0])
            wanted = clusters.most_probable(part, log_mass, n_threads=n_threads)
            if np.array_equal(wanted, own):
                break
            moved_n, moved_S = moved_statistics(part, n, S, own, wanted)
            if not moved_n.all():
                break
            own, n, S = wanted, moved_n, moved_S
            clusters.load(n, S)
        labels[rows] = own
        return _Partition(self.model, self.data, labels, before=self)


def _rows_of(labels: npt.NDArray[np.int32], clusters: npt.NDArray[np.intp], K: int) -> Sequence[npt.NDArray[np.intp]]:
    """Return the rows of each of some clusters, whose numbers ascend."""
    place = np.full(K, -1, dtype=np.int32)
    place[clusters] = np.arange(len(clusters))
    own = place[labels]
    rows = np.flatnonzero(own >= 0)
    own = own[rows]
    small = own.astype(np.uint16) if K < 1 << 16 else own  # which NumPy sorts by counting
    order = rows[np.argsort(small, kind="stable")]
    return np.split(order, np.cumsum(np.bincount(own, minlength=len(clusters)))[:-1])


def _lowest(distance: npt.NDArray[np.float64], n: int) -> npt.NDArray[np.intp]:
    """Return the places of the n lowest numbers of each row, of equal ones the first."""
    found = np.argpartition(distance, n - 1, axis=1)[:, :n]
    largest = np.take_along_axis(distance, found, axis=1).max(axis=1)
    is_tied = np.count_nonzero(distance <= largest[:, None], axis=1) > n
    found[is_tied] = np.argsort(distance[is_tied], axis=1, kind="stable")[:, :n]
    return found
