"""Ascent of the log joint: rows move to their most probable clusters as long as it rises.

This is an optimiser, not a sampler. It turns a draw of a chain into a partition whose labels are those that a mixture
fitted to it predicts for its own rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from expfam.model.assignment import LoadedClusters
from expfam.model.statistics import weighted_statistics

if TYPE_CHECKING:
    from collections.abc import Callable

    from expfam.model.data import Dataset
    from expfam.model.mixture import MixtureModel

_MOST_PASSES = 10


def ascend(
    model: MixtureModel,
    data: Dataset,
    labels: npt.ArrayLike,
    *,
    keep_clusters: bool = False,
    max_passes: int = _MOST_PASSES,
    n_threads: int | None = None,
) -> npt.NDArray[np.int32]:
    """Move all rows to their most probable cluster, again and again while the log joint rises.

    Parameters
    ----------
    model : MixtureModel
        Bound to the data.
    data : Dataset
    labels : (N,) array_like of non-negative int
    keep_clusters : bool
        Whether no cluster may lose all its rows. Where a pass would empty a cluster, the row with the highest log
        predictive under it, of equal ones the first, keeps its label.
    max_passes : int
        Number of passes at most.
    n_threads : int or None
        The labels do not depend on it.

    Returns
    -------
    (N,) int32 ndarray
        Clusters keep their numbers; without `keep_clusters` some may have lost all their rows. The log joint of these
        labels is never lower than that of the given ones.

    Raises
    ------
    FloatingPointError
        The log predictive of a row is NaN.
    ValueError
        The labels are not N non-negative integers.

    Examples
    --------
    >>> from expfam import Dataset, DirichletProcess, MixtureModel, Poisson
    >>> from expfam.samplers.starts.ascent import ascend
    >>> data = Dataset([[0], [1], [30], [31], [2]], Poisson())
    >>> ascend(MixtureModel(data.family, DirichletProcess()), data, [0, 0, 1, 1, 1])
    array([0, 0, 1, 1, 0], dtype=int32)

    Notes
    -----
    One pass computes the statistics of the clusters, and the scores log(posterior mean of the weight) + log predictive
    of `Mixture.predict`; a row is not taken out of its cluster. Clusters with equal scores: the first. The passes end
    when no label changes, when the log joint would not rise (the labels before that pass are kept), or after
    `max_passes`. In the first case every row has its most probable cluster, but for the rows that `keep_clusters` has
    held back. Rows of which something is known, see `Dataset.known`, keep their clusters.
    """
    return climb(model, data, labels, keep_clusters=keep_clusters, max_passes=max_passes, n_threads=n_threads).labels


class Summit(NamedTuple):
    """End of an ascent.

    Attributes
    ----------
    labels : (N,) int32 ndarray
    most_probable : (N,) int32 ndarray
        Most probable cluster of each row, as of the last pass. Rows differ from `labels` that were held back, or that
        would lower the log joint.
    """

    labels: npt.NDArray[np.int32]
    most_probable: npt.NDArray[np.int32]


def climb(
    model: MixtureModel,
    data: Dataset,
    labels: npt.ArrayLike,
    *,
    keep_clusters: bool,
    max_passes: int,
    n_threads: int | None,
    first_equal: Callable[[], npt.NDArray[np.intp]] | None = None,
) -> Summit:
    """Do what `ascend` does, and tell also where each row would go.

    The parameters are those of `ascend`; `first_equal` returns the first row that is equal to each row. With it the
    rows of a cluster that are equal to the row which keeps its label keep theirs too.
    """
    present = _checked(labels, data.n_rows)
    held = None if data.known is None else data.known.stays
    n_clusters = int(present.max()) + 1
    n, S = weighted_statistics(data, present, n_clusters)
    clusters = LoadedClusters(model.family, n, S, keeps_rows=True)
    reached, wanted = None, present
    for _ in range(max_passes):
        with np.errstate(divide="ignore"):
            log_mass = np.log(model.weights.posterior_mean(n)[0])
        wanted = clusters.most_probable(data, log_mass, n_threads=n_threads)
        if held is not None:
            wanted[held] = present[held]
        moved = wanted
        if keep_clusters:
            moved = _held_back(wanted, present, clusters, data, first_equal)
        if np.array_equal(moved, present):
            break
        if reached is None:
            reached = _log_joint(model, clusters, data)
        n, S = weighted_statistics(data, moved, n_clusters)
        clusters.load(n, S)
        log_joint = _log_joint(model, clusters, data)
        if not log_joint > reached:
            break
        present, reached = moved, log_joint
    return Summit(present, wanted)


def _log_joint(model: Any, clusters: LoadedClusters, data: Dataset) -> float:
    return float(model.weights.log_prior(clusters.n) + clusters.log_marginal(data).sum())


def _held_back(wanted, labels, clusters, data, first_equal):
    """Give a row back to each cluster that would be emptied; return the labels with these rows.

    A row that is given back may be the only one that another cluster has gained, so the clusters are counted again.
    """
    n_clusters, moved = len(clusters.n), wanted
    held = np.bincount(labels, minlength=n_clusters) > 0
    while (lost := np.flatnonzero(held & (np.bincount(moved, minlength=n_clusters) == 0))).size:
        moved = wanted.copy() if moved is wanted else moved
        members = np.flatnonzero(labels == lost[0])
        kept = members[clusters.log_predictive(data, members, lost[0]).argmax()]
        if first_equal is not None:
            kept = members[first_equal()[members] == first_equal()[kept]]
        moved[kept] = lost[0]
    return moved


def _checked(labels, n_rows):
    labels = np.asarray(labels)
    if labels.shape != (n_rows,) or labels.dtype.kind not in "iu" or labels.min() < 0:
        raise ValueError(f"labels must be {n_rows} non-negative integers; got {labels.dtype} of shape {labels.shape}")
    return labels.astype(np.int32)
