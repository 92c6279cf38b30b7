"""Warnings of covariances that do not pay or that lack, and of equal rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy.typing as npt

from expfam.amounts import counted
from expfam.errors import DataWarning
from expfam.fitting.free_covariances import Comparison, compared_with_simpler, warn_of_simpler
from expfam.fitting.freer_families import FREER, Freer, freer_family, warn_of_pieces
from expfam.model.equal_rows import n_distinct_rows
from expfam.samplers.warm_starts.sample_rows import has_few_rows
from expfam.user_warnings import warn

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from expfam.fitting.plan import Asked, Plan
    from expfam.fitting.run import ChainRun
    from expfam.model.data import Dataset
    from expfam.model.mixture import MixtureModel

_FEWEST_ROWS = 2  # of a cluster on average, from which it is said that they are few for a covariance
_MANY_COLUMNS = 20  # of a full covariance with an open number of clusters, from which crumbs are counted
_MANY_CRUMBS = 0.05  # share of the rows


class Others(NamedTuple):
    """Families with a plainer or a freer shape that were compared with that of a fit.

    Attributes
    ----------
    simpler : Comparison or None
        See `compared_with_simpler`.
    freer : Freer or None
        See `freer_family`.
    """

    simpler: Comparison | None = None
    freer: Freer | None = None


def other_families(asked: Asked, data: Dataset, labels: npt.NDArray[np.int32], *, seed: int) -> Others:
    """Compare the family of a fit with a simpler and a freer one, where it may matter.

    Parameters
    ----------
    asked, data, labels, seed
        As in `compared_with_simpler`.
    """
    freer = freer_family(asked, data, labels, seed=seed) if type(data.family) in FREER else None
    return Others(compared_with_simpler(asked, data, labels, seed=seed), freer)


def warn_of_others(asked: Asked, data: Dataset, n_clusters: int, found: Others) -> bool:
    """Warn where one of the other families is clearly better; tell whether it is."""
    if found.simpler is not None and found.simpler.pays:
        warn_of_simpler(asked, found.simpler, data.n_features)
        return True
    if found.freer is not None:
        warn_of_pieces(asked, found.freer, n_clusters)
    return found.freer is not None


def warn_of_covariances(
    plan: Plan,
    runs: Sequence[ChainRun],
    model: MixtureModel,
    labels: npt.NDArray[np.int32],
    sizes: npt.NDArray[Any],
    *,
    is_chosen: bool = False,
) -> bool:
    """Give at most one warning: of full covariances with few rows, or of groups in pieces.

    Parameters
    ----------
    plan : Plan
    runs : sequence of ChainRun
    model : MixtureModel
        Of the result.
    labels : (N,) int32 ndarray
        Of the result.
    sizes : (K,) ndarray
        Of its clusters.
    is_chosen : bool
        Whether held-out rows have chosen the family already, with repeated values spread: no other one is named then.

    Returns
    -------
    bool
        Whether another family was named.
    """
    if is_chosen:
        warn_of_crumbs(plan.asked, model, sizes, is_chosen=True)
        return False
    asked, data, found = plan.asked, plan.data, Others()
    is_left = plan.has_rule and plan.is_warmup_left and all(map(plan.searches_start, plan.starts))
    try:
        if is_left and not any(run.trace.interrupted for run in runs):
            found = other_families(asked, data, labels, seed=runs[0].state.seed)
    except KeyboardInterrupt:  # the fit itself is done
        pass
    if warn_of_others(asked, data, len(sizes), found):
        return True
    simpler = found.simpler
    if is_left and (simpler is None or simpler.full < simpler.simple):  # else the chain moves the labels
        warn_of_few_rows(asked, model, data)
    warn_of_crumbs(asked, model, sizes)
    return False


def warn_of_few_rows(asked: Asked, model: MixtureModel, data: Dataset) -> None:
    """Warn where a cluster has fewer rows on average than a full covariance has parameters.

    Nothing is said of fewer than two rows a cluster, of which no family makes clusters with a spread.
    """
    K = model.weights.max_components
    if K is None or data.n_rows < _FEWEST_ROWS * K or not has_few_rows(model, data):
        return
    warn(
        f"Mixture: {counted(data.n_rows // K, 'row')} a cluster for {counted(data.n_statistics, 'parameter')} of a"
        " full covariance: the labels are those of EM from k-means, because the posterior prefers one wide cluster"
        f" here. Write {asked.line(family='gaussian_diag')}, or take fewer columns or fewer clusters",
        DataWarning,
    )


def warn_of_crumbs(asked: Asked, model: MixtureModel, sizes: npt.NDArray[Any], *, is_chosen: bool = False) -> None:
    """Warn where many rows are in clusters with fewer rows than columns of a full covariance.

    The diagonal family is named unless held-out rows have chosen the full one.
    """
    d = model.family.n_features_in_
    if model.weights.max_components is not None or not model.family.has_full_covariance or d <= _MANY_COLUMNS:
        return
    crumbs = sizes[sizes < d]
    if crumbs.sum() > _MANY_CRUMBS * sizes.sum():
        other = "" if is_chosen else f"; or write {asked.line(family='gaussian_diag')}"
        warn(
            f"Mixture: {counted(crumbs.size, 'cluster')} of fewer than {counted(d, 'row')}"
            f" {'holds' if crumbs.size == 1 else 'hold'} {crumbs.sum() / sizes.sum():.0%} of the rows: they carry the"
            f" tails of wider ones. coarsen() merges them{other}",
            DataWarning,
        )


def warn_of_equal_rows(data: Dataset, n_components: int | None, n_found: int) -> None:
    """Warn where fewer clusters were found because fewer rows are distinct.

    Parameters
    ----------
    data : Dataset
    n_components : int or None
        Clusters that were asked for.
    n_found : int
    """
    if n_components is None or n_found >= n_components:
        return
    n_distinct = n_distinct_rows(data.X, n_components)
    if n_distinct < n_components:
        warn(
            f"Mixture: n_components={n_components}, but {counted(n_distinct, 'row is', 'rows are')} distinct, and "
            f"equal rows have equal labels: {counted(n_found, 'cluster holds', 'clusters hold')} data. Take "
            f"n_components={n_distinct}, or None for an open number",
            DataWarning,
        )
