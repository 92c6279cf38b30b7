"""The end of a run over rows in groups: no simple partition is better than its labels.

Means over sweeps say more about new groups than one partition does, and they stay. The labels are a mode: the most
probable clusters, moved uphill, unless the rows divided by k-means, or one cluster, reach a higher log joint.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.optimize import linear_sum_assignment
from scipy.special import gammaln

from expfam.model.assignment import extended_labels
from expfam.model.mixture import MixtureModel
from expfam.model.partitions import compact_labels
from expfam.model.weights import SymmetricDirichlet
from expfam.samplers.grouped.ascent import ascend_groups, counts_of_groups
from expfam.samplers.grouped.merges import merged_slots
from expfam.samplers.warm_starts.candidates import Divisions
from expfam.samplers.warm_starts.sample_rows import has_few_rows, search_rows
from expfam.samplers.warm_starts.settle import least_gain

if TYPE_CHECKING:
    from expfam.model.admixture import AdmixtureModel
    from expfam.model.data import Dataset

_MOST_ROUNDS = 5


class GroupedEnding(NamedTuple):
    """Labels in which a run over rows in groups ends.

    Attributes
    ----------
    labels : (N,) int32 ndarray
    name : str
        "chain" where they were reached from the labels of the run, else the simple partition that is better.
    slots : (K,) int64 ndarray
        Cluster that takes the rows of each cluster of the run.
    """

    labels: npt.NDArray[np.int32]
    name: str
    slots: npt.NDArray[np.int64]


def grouped_ending(
    model: AdmixtureModel, data: Dataset, labels: npt.NDArray[np.int32], *, seed: int, n_threads: int | None
) -> GroupedEnding:
    """Take labels uphill, and compare them with one cluster and with k-means in several metrics.

    Parameters
    ----------
    model : AdmixtureModel
        Bound, with the pseudo-counts that the run has learned.
    data : Dataset
        With groups, without weights.
    labels : (N,) int32 ndarray
        Most probable clusters of the rows.
    seed : int
    n_threads : int or None
        No result depends on it.

    Returns
    -------
    GroupedEnding

    Notes
    -----
    Clusters of counts, categories and tables with these are merged where that raises the log joint. Those of real
    values are not: the joint density of a partition prefers clusters of unequal sizes where clusters overlap.
    """
    best = _settled(model, data, labels, n_threads)
    best_joint = model.log_joint(data, best.labels)
    for name, rival in _simple_partitions(model, data, best.labels, seed, n_threads):
        reached = _settled(model, data, _best_numbered(model, data, rival), n_threads)._replace(name=name)
        log_joint = model.log_joint(data, reached.labels)
        if log_joint > best_joint + least_gain(data.n_rows) * (best.name == "chain"):
            best, best_joint = reached, log_joint
    return best


def _settled(model, data, labels, n_threads):
    """Return labels after moves of rows, and of counts after merges of clusters."""
    slots = np.arange(model.n_components)
    for _ in range(_MOST_ROUNDS):
        labels = ascend_groups(model, data, labels, n_threads=n_threads)
        if not _merges(data.family):
            break
        home = merged_slots(model, data, labels)
        moved = home[labels].astype(np.int32)
        if np.array_equal(moved, labels):
            break
        labels, slots = moved, home[slots]
    return GroupedEnding(labels, "chain", slots)


def _merges(family):
    """Tell whether clusters may be merged: not those of real values alone."""
    return family.is_discrete or any(part.family.is_discrete for part in getattr(family, "parts", ()))


def _simple_partitions(model, data, labels, seed, n_threads):
    """Yield names and labels of one cluster, and of k-means with the given and the found number."""
    K, rows = model.n_components, search_rows(data.n_rows, model.n_components, seed)
    weights = SymmetricDirichlet(K, 1.0)
    plain = data.without_groups()
    part = plain if rows is None else plain.take(rows)
    mixture = MixtureModel(data.family, weights)
    yield "one", np.zeros(data.n_rows, dtype=np.int32)
    divisions = Divisions(part, seed=seed, n_threads=n_threads)
    is_narrow = has_few_rows(mixture, plain)
    numbers = {K, np.unique(labels).size}
    found = {
        f"{metric} {k}": divisions.kmeans(metric, k, run=1)
        for metric in divisions.metrics
        for k in sorted(numbers - {1})
        if metric != "white" or not is_narrow
    }
    found |= {name: one for name, one in divisions.of_columns().items() if one.max() < K}
    for name, one in found.items():
        one = compact_labels(one)
        yield name, one if rows is None else extended_labels(mixture, part, one, plain, n_threads=n_threads)


def _best_numbered(model, data, labels):
    """Number clusters so that wide-spread ones have high pseudo-counts: (N,) int32."""
    labels, alpha = compact_labels(labels), model.pseudocounts
    counts = counts_of_groups(data, labels, int(labels.max()) + 1)
    cost = np.empty((counts.shape[1], len(alpha)))
    for k, own in enumerate(counts.T):
        values, times = np.unique(own, return_counts=True)
        cost[k] = -(gammaln(alpha[:, None] + values) - gammaln(alpha)[:, None]) @ times
    return linear_sum_assignment(cost)[1][labels].astype(np.int32)


def slots_joined(slots: npt.NDArray[np.int64], *parts: Any) -> list[Any]:
    """Add sums of each cluster to those of the cluster that takes its rows.

    Parameters
    ----------
    slots : (K,) int64 ndarray
    parts : (K,), (K, F) ndarray or CSR

    Returns
    -------
    list
        The parts, with zeros for clusters that were taken.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam.fitting.grouped_endings import slots_joined
    >>> slots_joined(np.array([0, 0, 2]), np.array([1.0, 2.0, 4.0]))
    [array([3., 0., 4.])]
    """
    K = len(slots)
    sums = sparse.csr_array((np.ones(K), (slots, np.arange(K))), shape=(K, K))
    return [sums @ part for part in parts]
