"""Merging clusters greedily, best pair first, as long as the log joint rises.

This is an optimiser, not a sampler. It serves starts, whose labels may be any function of the data. Memory is
O(B + B F). Up to about B**2 evidences of two clusters together are computed; beyond a thousand clusters, only those of
each cluster with its nearest ones.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.special import gammaln

from expfam.amounts import counted
from expfam.errors import CapabilityError
from expfam.families.components import Components
from expfam.model.data import Dataset
from expfam.model.mixture import MixtureModel
from expfam.model.partitions import by_first_appearance, compact_labels
from expfam.model.statistics import weighted_statistics
from expfam.samplers.geometry.coordinates import Rows, squared_distances, squared_norms
from expfam.samplers.starts.separable import SeparableStatistics
from expfam.structures.ground.threads import single_blas
from expfam.structures.merging.queue import MergeQueue

_MOST_COMPARED = 1024  # clusters up to which every pair is looked at
_NEAREST = 32
_BLOCK_ROWS = 1024
_BLOCK_BYTES = 1 << 24


def merged_labels(
    model: MixtureModel,
    data: Dataset,
    labels: npt.ArrayLike,
    *,
    n_clusters: int | None = None,
    n_compared: int = _MOST_COMPARED,
) -> np.ndarray:
    """Merge clusters greedily; return the labels after it.

    Parameters
    ----------
    model, data : bound MixtureModel and Dataset
    labels : (N,) array_like of int
    n_clusters : int, optional
        Merge down to this number of clusters in any case, also where the log joint falls.
    n_compared : int
        Up to this number of clusters every pair is compared. Beyond it each cluster is compared with the 32 whose
        means are nearest, in the coordinates of the k-means++ start, and with the clusters that absorb these. When no
        such merge gains and few enough clusters are left, all pairs are compared.

    Returns
    -------
    (N,) int32 ndarray
        Clusters numbered 0..B-1.

    Examples
    --------
    >>> from expfam import Dataset, DirichletProcess, MixtureModel, Poisson
    >>> from expfam.samplers import merged_labels
    >>> data = Dataset([[0], [1], [0], [40], [41]], Poisson())
    >>> merged_labels(MixtureModel(data.family, DirichletProcess()), data, [0, 1, 2, 3, 4]).tolist()
    [0, 0, 0, 1, 1]

    Notes
    -----
    Gain of a merge of clusters of a and b data, log evidences m, offset c of the weights and B clusters before:
    m(a + b) - m(a) - m(b) + log G(a+b+c) G(1+c) / (G(a+c) G(b+c)) - log of the mass of the B-th cluster. The last term
    is the same for all pairs, so the order of merges does not depend on it.
    """
    names, labels = np.unique(labels, return_inverse=True)
    if names.size < 2:
        return labels.astype(np.int32)
    gains = _gains_of(model, data, labels.astype(np.int32))
    n_data = data.n_rows if data.weight is None else data.weight.sum()
    opened = model.weights.log_new_mass(n_data - 1, names.size)
    near = near_clusters(data, labels) if names.size > n_compared else None
    # forced merges are decided among all pairs if there are few enough
    fewest = n_clusters if near is None or n_clusters is None else max(n_clusters, n_compared)
    B = _merge(gains, names.size, opened, fewest, near)
    limit = min((n for n in (n_clusters, model.weights.max_components) if n is not None), default=B)
    if near is not None and (n_compared >= B or limit < B):
        labels = compact_labels(gains.home[labels])
        gains = _gains_of(model, data, labels)
        _merge(gains, B, opened, n_clusters, None)
    return compact_labels(gains.home[labels])


def merged_clusters(
    model: MixtureModel,
    n: npt.ArrayLike,
    S: Any,
    *,
    n_clusters: int | None = None,
    classes: npt.ArrayLike | None = None,
) -> np.ndarray:
    """Merge clusters greedily by their statistics alone, without data.

    Parameters
    ----------
    model : MixtureModel
        Bound.
    n : (B,) float64 ndarray
        Number of data of each cluster; fractions are allowed.
    S : (B, F) float64 ndarray or CSR
    n_clusters : int, optional
        Merge down to this number of clusters in any case. No more clusters are left than the weights allow.
    classes : (B,) array_like of int, optional
        Class of each cluster, -1 for none: clusters of two classes are never merged.

    Returns
    -------
    (B,) int64 ndarray
        New cluster of each cluster, numbered by first appearance.

    Raises
    ------
    CapabilityError
        If a cluster has less data than the discount of a Pitman-Yor prior.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import DirichletProcess, MixtureModel, Poisson
    >>> from expfam.samplers import merged_clusters
    >>> model = MixtureModel(Poisson(1.0, 1.0).bind([[0]]), DirichletProcess())
    >>> merged_clusters(model, np.array([9.0, 5.0, 7.0]), np.array([[3.0], [400.0], [2.0]])).tolist()
    [0, 1, 0]
    """
    limits = [limit for limit in (n_clusters, model.weights.max_components) if limit is not None]
    gains = _merged_statistics(model, n, S, min(limits, default=None), classes)[0]
    return by_first_appearance(gains.home)[1].astype(np.int64)


def merge_sequence(
    model: MixtureModel, n: npt.ArrayLike, S: Any, classes: npt.ArrayLike | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Merge clusters greedily down to one, by their statistics alone; return every merge.

    The first merges are those of `merged_clusters`, for any number of clusters. Clusters of two classes are merged
    last, when no others are left.

    Parameters
    ----------
    model, n, S
        As of `merged_clusters`.
    classes : (B,) array_like of int, optional
        Class of each cluster, -1 for none.

    Returns
    -------
    pairs : (B - 1, 2) int64 ndarray
        Slots of the two clusters of each merge, the older one first; the merged one has the first slot.
    rises : (B - 1,) float64 ndarray
        By how much the log joint rises with each merge, nats; negative where it falls.

    Raises
    ------
    CapabilityError
        If a cluster has less data than the discount of a Pitman-Yor prior, or clusters cannot be one.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import DirichletProcess, MixtureModel, Poisson
    >>> from expfam.samplers.starts.greedy_merge import merge_sequence
    >>> model = MixtureModel(Poisson(1.0, 1.0).bind([[0]]), DirichletProcess())
    >>> pairs, rises = merge_sequence(model, np.array([9.0, 5.0, 7.0]), np.array([[3.0], [400.0], [2.0]]))
    >>> pairs.tolist(), rises.round(1).tolist()
    ([[0, 2], [1, 0]], [11.5, -483.0])
    """
    gains, opened = _merged_statistics(model, n, S, 1, classes)
    B, merges = gains.n.size, gains.merges
    if classes is not None and len(merges) < B - 1:
        left, of_left = np.unique(gains.home, return_inverse=True)
        member = sparse.csr_array((np.ones(B), (of_left, np.arange(B))), shape=(left.size, B))
        S = sparse.csr_array(member @ S) if sparse.issparse(S) else member @ np.asarray(S)
        others = _merged_statistics(model, member @ np.asarray(n, dtype=np.float64), S, 1)[0].merges
        merges = [*merges, *((left[k], left[other], gain) for k, other, gain in others)]
    if len(merges) < B - 1:
        raise CapabilityError(
            f"of {counted(B, 'cluster')} {counted(B - len(merges), 'is', 'are')} left, and no two of them can be one "
            f"under {model.family!r}"
        )
    rises = np.array([gain for *_, gain in merges]) - opened[B - 1 : 0 : -1]
    return np.array([pair for *pair, _ in merges], dtype=np.int64).reshape(-1, 2), rises


def _merged_statistics(model, n, S, fewest, classes=None):
    """Merge while it pays or has to be; return the gains, and log masses of a new cluster."""
    n = np.array(n, dtype=np.float64)
    if (n + model.weights.offset <= 0).any():
        raise CapabilityError(f"a cluster of {n.min():.3g} data is less than one under {model.weights!r}")
    gains = _Gains(model.weights, cluster_evidences(model.family, n, S), n, classes)
    opened = model.weights.log_new_mass(n.sum() - 1.0, n.size)
    if n.size > 1:
        _merge(gains, n.size, opened, fewest, None)
    return gains, opened


def _gains_of(model, data, labels):
    B = int(labels.max()) + 1
    if data.weight is not None and (data.weight != 1.0).any():
        n, S = weighted_statistics(data, labels, B)
        return _Gains(model.weights, cluster_evidences(model.family, n, S), n)
    components = Components(model.family, data, B, layout="clusters")
    components.refresh(labels)
    return _Gains(model.weights, components, np.bincount(labels, minlength=B).astype(np.float64))


def _merge(gains, B, opened, fewest, near):
    """Merge while it pays or has to be; returns the number of clusters that are left."""
    gains.near = near
    queue = MergeQueue(B, gains.partners)
    while B > 1:
        k, other, gain = queue.best() or (0, 0, -np.inf)
        if gain == -np.inf or (gain - opened[B - 1] <= 0 and (fewest is None or fewest >= B)):
            break
        gains.absorb(k, other)
        queue.merge(k, other)
        B -= 1
    return B


def near_clusters(data: Dataset, labels: np.ndarray) -> list[set[int]]:
    """Return the slots of the clusters near each cluster; the relation is symmetric."""
    points = Rows(data).embedding(0, None)
    weight = np.ones(data.n_rows) if data.weight is None else data.weight
    size = np.bincount(labels, weights=weight)
    order = np.argsort(labels, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(labels))[:-1]])
    means = np.add.reduceat(points[order] * weight[order, None], starts) / size[:, None]
    near: list[set[int]] = [set() for _ in size]
    with single_blas():
        for start in range(0, len(means), _BLOCK_ROWS):
            block = means[start : start + _BLOCK_ROWS]
            distance = squared_distances(block, squared_norms(block), means)
            distance[np.arange(len(block)), start + np.arange(len(block))] = np.inf
            for k, found in enumerate(np.argpartition(distance, _NEAREST, axis=1)[:, :_NEAREST].tolist(), start):
                near[k].update(found)
                for other in found:
                    near[other].add(k)
    return near


def cluster_evidences(family: Any, n: npt.ArrayLike, S: Any) -> Any:
    """Return evidences of clusters and of pairs of them, from statistics alone.

    Parameters
    ----------
    family : Family
        Bound.
    n, S : (B,) and (B, F) float64
        S dense or CSR.

    Returns
    -------
    object
        With the methods `log_marginal`, `log_merged` and `absorb` of `SeparableStatistics`.
    """
    return (_Statistics if family.separable() is None else SeparableStatistics)(family, n, S)


class _Statistics:
    """Evidences of clusters from their statistics, with the methods of components."""

    def __init__(self, family, n, S):
        self.family, self.n = family, np.array(n)
        self.rows = [S[[k]] for k in range(len(n))] if sparse.issparse(S) else np.array(S)

    def log_marginal(self, slots):
        return self.family.log_marginal(self.n[slots], self._dense(slots))

    def log_merged(self, k, slots):
        out, mine = np.empty(len(slots)), self._dense([k])
        step = max(1, _BLOCK_BYTES // (8 * mine.size))
        for start in range(0, len(slots), step):
            block = slots[start : start + step]
            out[start : start + step] = self.family.log_marginal(self.n[k] + self.n[block], self._dense(block) + mine)
        return out

    def absorb(self, k, other):
        self.n[k] += self.n[other]
        self.rows[k] = self.rows[k] + self.rows[other]

    def _dense(self, slots):
        if isinstance(self.rows, list):
            return sparse.vstack([self.rows[k] for k in slots]).toarray()
        return self.rows[slots]


class _Gains:
    """Gains of merges without the mass of opening a cluster; slots are those of the components."""

    def __init__(self, weights, components, n, classes=None):
        self.offset, self.components, self.n = weights.offset, components, n.copy()
        self.classes = None if classes is None else np.array(classes, dtype=np.int64)
        self.own = components.log_marginal(np.arange(n.size)) + self._of_size(self.n)
        self.home, self.near, self.merges = np.arange(n.size), None, []

    def _of_size(self, n):
        return gammaln(n + self.offset) - gammaln(1.0 + self.offset)

    def partners(self, k, ids):
        """Return the partners of cluster k for a `MergeQueue`, with their gains."""
        if self.near is None:
            slots = np.nonzero((ids >= 0) & (ids < ids[k]))[0]
        else:
            slots = np.array(sorted(self.near[k]), dtype=np.intp)
            slots = slots[ids[slots] < ids[k]]
        return slots, self._with(k, slots) if slots.size else np.empty(0), -np.inf

    def _with(self, k, slots):
        together = self.components.log_merged(k, slots) + self._of_size(self.n[k] + self.n[slots])
        gains = together - (self.own[k] + self.own[slots])
        if self.classes is not None and self.classes[k] >= 0:
            gains[(self.classes[slots] >= 0) & (self.classes[slots] != self.classes[k])] = -np.inf
        return gains

    def absorb(self, k, other):
        self.components.absorb(k, other)
        self.n[k] += self.n[other]
        apart = self.own[k] + self.own[other]
        self.own[k] = self.components.log_marginal([k])[0] + self._of_size(self.n[k])
        self.merges.append((k, other, self.own[k] - apart))
        self.home[self.home == other] = k
        if self.classes is not None:
            self.classes[k] = max(self.classes[k], self.classes[other])
        if self.near is not None:
            self._inherit(k, other)

    def _inherit(self, k, other):
        """Make cluster k near to all that were near to the cluster that it absorbed."""
        near = self.near
        for place in near[other]:
            near[place].discard(other)
            near[place].add(k)
        near[k] = (near[k] | near[other]) - {k}
        near[other] = set()
