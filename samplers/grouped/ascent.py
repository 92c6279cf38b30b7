"""Ascent of the log joint of rows in groups, by moves of rows.

Rows move to their most probable clusters as long as it rises. This is an optimiser, not a sampler. A row is taken out
of the counts of its group, but not out of its cluster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from expfam.model.admixture import check_clusters, log_rising
from expfam.model.assignment import LoadedClusters
from expfam.model.statistics import weighted_statistics

if TYPE_CHECKING:
    from expfam.model.admixture import AdmixtureModel
    from expfam.model.data import Dataset

_MOST_PASSES = 30


def ascend_groups(
    model: AdmixtureModel,
    data: Dataset,
    labels: npt.ArrayLike,
    *,
    max_passes: int = _MOST_PASSES,
    n_threads: int | None = None,
) -> npt.NDArray[np.int32]:
    """Move all rows to their most probable cluster, again and again while the log joint rises.

    Parameters
    ----------
    model, data : bound AdmixtureModel and Dataset
        The data have groups and no weights.
    labels : (N,) array_like of int in 0..K-1
    max_passes, n_threads
        As of `expfam.samplers.starts.ascent.ascend`.

    Returns
    -------
    (N,) int32 ndarray
        Clusters keep their numbers. The log joint of these labels is never lower than that of the given ones.

    Raises
    ------
    FloatingPointError
        The log predictive of a row is NaN.
    ValueError
        The labels have another shape, or lie outside of 0..K-1.

    Examples
    --------
    >>> from expfam import AdmixtureModel, Dataset, Poisson
    >>> from expfam.samplers.grouped.ascent import ascend_groups
    >>> data = Dataset([[0], [1], [30], [31], [2]], Poisson(), groups=[0, 1, 0, 1, 0])
    >>> ascend_groups(AdmixtureModel(data.family, 2), data, [0, 0, 1, 1, 1])
    array([0, 0, 1, 1, 0], dtype=int32)
    """
    present = check_clusters(labels, data.n_rows, model.n_components)
    clusters, reached = _loaded(model, data, present)
    for _ in range(max_passes):
        moved = _most_probable(model, data, present, clusters, n_threads)
        if np.array_equal(moved, present):
            break
        clusters, log_joint = _loaded(model, data, moved)
        if not log_joint > reached:
            break
        present, reached = moved, log_joint
    return present


def counts_of_groups(data: Dataset, labels: npt.NDArray[Any], n_clusters: int) -> npt.NDArray[np.float64]:
    """Return the number of rows of each group in each cluster: (G, K) float64.

    Examples
    --------
    >>> from expfam import Dataset, Poisson
    >>> from expfam.samplers.grouped.ascent import counts_of_groups
    >>> counts_of_groups(Dataset([[0], [1], [30]], Poisson(), groups=[0, 1, 0]), [0, 0, 1], 2)
    array([[1., 1.],
           [1., 0.]])
    """
    groups: Any = data.groups
    cells = groups.of_row * n_clusters + np.asarray(labels)
    return np.bincount(cells, minlength=groups.n_groups * n_clusters).reshape(-1, n_clusters).astype(np.float64)


def _loaded(model, data, labels):
    """Return the clusters of labels, and their log joint."""
    n, S = weighted_statistics(data, labels, model.n_components)
    clusters = LoadedClusters(model.family, n, S)
    prior = log_rising(model.pseudocounts, counts_of_groups(data, labels, model.n_components)).sum()
    return clusters, float(prior + clusters.log_marginal(data).sum())


def _most_probable(model, data, labels, clusters, n_threads):
    of_row, alpha = data.groups.of_row, model.pseudocounts
    counts = counts_of_groups(data, labels, len(alpha))
    moved = np.empty(data.n_rows, dtype=np.int32)

    def reduce(scores, start, stop):
        mass = counts[of_row[start:stop]] + alpha
        own = np.arange(stop - start), labels[start:stop]
        mass[own] = np.maximum(mass[own] - 1.0, alpha[own[1]])  # without the row, and without rounding
        moved[start:stop] = (scores + np.log(mass)).argmax(axis=1)

    clusters.each_block(data, np.zeros(len(alpha)), reduce, n_threads=n_threads)
    return moved
