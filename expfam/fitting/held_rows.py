"""Densities of rows that a fit has not seen, and what clusters tell of their cells."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from expfam.fitted.scoring import log_scores, log_sum_exp
from expfam.model.data import Dataset
from expfam.model.mixture import MixtureModel
from expfam.model.statistics import weighted_statistics
from expfam.params import is_auto
from expfam.samplers.warm_starts.settle import Settler

if TYPE_CHECKING:
    import numpy.typing as npt

    from expfam.families.base import Family
    from expfam.fitting.plan import Asked
    from expfam.protocols import Floats

_MOST_BLOCKS = 10  # of columns, each of which is scored alone


def settler_of(asked: Asked, data: Dataset, family: Family, seed: int) -> Settler:
    """Return what moves partitions of some rows under a family that was not asked for.

    Parameters
    ----------
    asked : Asked
        Decides the prior of the weights, and what is learned.
    data : Dataset
    family : Family
        As it was before it was bound to the data.
    seed : int
    """
    return Settler(
        MixtureModel(data.family, asked.weights),
        data,
        list(asked.learned_of(family)),
        is_auto(getattr(family, "scale", None)),
        seed,
        asked.n_threads,
    )


def held_out_densities(
    model: MixtureModel,
    data: Dataset,
    labels: npt.NDArray[np.integer],
    new: npt.NDArray[np.floating],
    *,
    n_threads: int | None,
) -> Floats:
    """Return the log predictive density of new rows under a partition of others.

    Parameters
    ----------
    model : MixtureModel
        Its family is bound.
    data : Dataset
        Rows of the partition.
    labels : (N,) ndarray of int
        Numbers from 0 without gaps.
    new : (M, V) ndarray
    n_threads : int or None
        The result does not depend on it.

    Returns
    -------
    (M,) float64 ndarray
        Nats, with log-base. A row may also open a new cluster.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import Dataset, DiagonalGaussian, DirichletProcess, MixtureModel
    >>> from expfam.fitting.held_rows import held_out_densities
    >>> data = Dataset([[0.0], [1.0], [9.0], [10.0]], DiagonalGaussian())
    >>> model = MixtureModel(data.family, DirichletProcess())
    >>> near, far = held_out_densities(model, data, np.array([0, 0, 1, 1]), np.array([[9.5], [60.0]]), n_threads=None)
    >>> bool(near > far)
    True
    """
    n, S = weighted_statistics(data, labels, int(labels.max()) + 1)
    weights, empty = model.weights.posterior_mean(n)
    held = Dataset(new, model.family)
    with np.errstate(divide="ignore"):
        log_weights = np.log(np.append(weights, empty))
    parts = log_scores(held, n, S, log_weights, lambda scores, start, stop: log_sum_exp(scores), n_threads)
    return np.concatenate(parts) + held.log_base


def densities_by_other_columns(
    model: MixtureModel,
    data: Dataset,
    labels: npt.NDArray[np.integer],
    new: npt.NDArray[np.floating],
    *,
    n_threads: int | None,
) -> Floats:
    """Return by how much the columns of new rows are more probable given the others.

    Clusters are what makes columns tell of each other: of one cluster of independent columns it is 0. How well the
    clusters describe each column by itself has no part in it.

    Parameters
    ----------
    model, data, labels, n_threads
        As in `held_out_densities`. The family is `Columns` of one column each.
    new : (M, V) ndarray

    Returns
    -------
    (M,) float64 ndarray
        Log density of the row less the sum of those of ten blocks of its columns, or of its columns: nats.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import Columns, Dataset, DiagonalGaussian, DirichletProcess, MixtureModel
    >>> from expfam.fitting.held_rows import densities_by_other_columns
    >>> family = Columns([(DiagonalGaussian(), (j,)) for j in range(2)])
    >>> data = Dataset([[0.0, 1.0], [1.0, 0.0], [9.0, 8.0], [10.0, 9.0]], family)
    >>> model, labels = MixtureModel(data.family, DirichletProcess()), np.array([0, 0, 1, 1])
    >>> usual, odd = densities_by_other_columns(model, data, labels, np.array([[9.5, 8.5], [9.5, 0.5]]), n_threads=None)
    >>> bool(usual > 0 > odd)
    True
    """
    new = np.asarray(new, dtype=np.float64)
    told = held_out_densities(model, data, labels, new, n_threads=n_threads)
    blocks = np.arange(new.shape[1]) % _MOST_BLOCKS
    for block in np.unique(blocks):
        alone = np.where(blocks == block, new, np.nan)
        told = told - held_out_densities(model, data, labels, alone, n_threads=n_threads)
    return told
