"""Swaps at an equal number of clusters: one is cut in two and two others are merged.

Where groups have no borders, as along a ring, a partition can have a wide cluster in one place and two narrow ones in
another: no merge and no cut alone raises its log joint, and rows at borders cannot move it there. This is an optimiser,
not a sampler.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from expfam.model.statistics import weighted_statistics
from expfam.samplers.starts.greedy_merge import cluster_evidences
from expfam.samplers.starts.halves import best_halves

if TYPE_CHECKING:
    from expfam.model.data import Dataset
    from expfam.model.mixture import MixtureModel

_MOST_CLUSTERS = 64  # whose pairs are all looked at


def swapped_partitions(
    model: MixtureModel,
    data: Dataset,
    labels: npt.NDArray[np.integer],
    *,
    most: int,
    seed: int,
    n_threads: int | None = None,
) -> list[npt.NDArray[np.int32]]:
    """Return the partitions of the most promising swaps.

    Parameters
    ----------
    model : MixtureModel
        Bound to the data.
    data : Dataset
    labels : (N,) ndarray of int
        Numbers from 0 without gaps.
    most : int
        Number of swaps at most, each of another cluster that is cut.
    seed : int
        Decides the cuts.
    n_threads : int or None
        The result does not depend on it.

    Returns
    -------
    list of (N,) int32 ndarray
        The highest log joint first; before rows move it may be below that of the labels. Empty for fewer than three
        clusters, and for more than 64.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import Dataset, DiagonalGaussian, MixtureModel, SymmetricDirichlet
    >>> from expfam.samplers.starts.swaps import swapped_partitions
    >>> X = np.repeat([[0.0], [5.0], [20.0]], 6, axis=0) + np.tile(np.linspace(0.0, 1.0, 6), 3)[:, None]
    >>> data = Dataset(X, DiagonalGaussian())
    >>> labels = np.repeat([0, 0, 1, 2], [6, 6, 3, 3])
    >>> model = MixtureModel(data.family, SymmetricDirichlet(3, 1.0))
    >>> swapped_partitions(model, data, labels, most=1, seed=0)[0]
    array([0, 0, 0, 0, 0, 0, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1], dtype=int32)
    """
    K = int(labels.max()) + 1
    if not 3 <= K <= _MOST_CLUSTERS:
        return []
    order, sizes = np.argsort(labels, kind="stable"), np.bincount(labels, minlength=K)
    clusters = np.split(order, np.cumsum(sizes)[:-1])
    cuts = best_halves(model, data, clusters, seed=seed, n_threads=n_threads)
    n, S = weighted_statistics(data, np.ascontiguousarray(labels, dtype=np.int32), K)
    gains = _gains_of_merges(model, n, S)
    found = []
    for c, cut in enumerate(cuts):
        if cut is None:
            continue
        others = gains.copy()
        others[c, :] = others[:, c] = -np.inf
        a, b = np.unravel_index(np.argmax(others), others.shape)
        after = n.copy()
        after[a] += after[b]
        new = clusters[c][cut.labels == 1]
        after[b] = _weight(data, new)
        after[c] -= after[b]
        found.append((cut.rise + gains[a, b] + model.weights.log_prior(after), new, a, b))
    found.sort(key=lambda swap: -swap[0])
    return [_swapped(labels, new, a, b) for _, new, a, b in found[:most]]


def _gains_of_merges(model, n, S):
    """Return what merges change the log evidence by: (K, K), -inf from the diagonal down."""
    evidences, K = cluster_evidences(model.family, n, S), len(n)
    own = evidences.log_marginal(np.arange(K))
    gains = np.full((K, K), -np.inf)
    for k in range(1, K):
        others = np.arange(k)
        gains[others, k] = evidences.log_merged(k, others) - own[k] - own[others]
    return gains


def _weight(data, rows):
    return float(len(rows) if data.weight is None else data.weight[rows].sum())


def _swapped(labels, new, a, b):
    """Return labels where cluster a has the rows of b, and b those of one side of a cut."""
    labels = np.array(labels, dtype=np.int32)
    labels[labels == b] = a
    labels[new] = b
    return labels


__all__ = ["swapped_partitions"]
