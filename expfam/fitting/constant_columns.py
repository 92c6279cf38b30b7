"""Constant columns of real values, which say nothing of clusters.

Each cluster learns anew how narrow such a column is, and the larger it is the narrower: ten constant columns outweigh
three far groups, and large clusters take the rows of small ones. Rows whose constant columns are spread a little do
not prefer any cluster there. So a run that has seen them spread ends on them, and its statistics are what those of
spread rows are on average: sums as they are, and squares with the variance of what was added.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from expfam.model.assignment import LoadedClusters
from expfam.model.data import Dataset
from expfam.model.statistics import weighted_statistics

if TYPE_CHECKING:
    from expfam.families.base import Family
    from expfam.model.mixture import MixtureModel

_MOST_PASSES = 100


def with_constants(data: Dataset, spread: Dataset) -> Dataset:
    """Return the rows, with constant columns as `spread` has them.

    Parameters
    ----------
    data, spread : Dataset
        The same rows as they are, and with repeated values spread.

    Returns
    -------
    Dataset
        The rows themselves if no constant column was spread.

    Examples
    --------
    >>> from expfam import Dataset, SphericalGaussian
    >>> from expfam.fitting.constant_columns import with_constants
    >>> spread = Dataset([[0.1, 1.2], [1.9, 0.9]], SphericalGaussian())
    >>> with_constants(Dataset([[0.0, 1.0], [2.0, 1.0]], spread.family), spread).X
    array([[0. , 1.2],
           [2. , 0.9]])
    """
    constant = _constant_columns(data, spread)
    if not constant.size:
        return data
    X = np.array(data.X, dtype=spread.X.dtype)
    X[:, constant] = spread.X[:, constant]
    return Dataset(X, data.family, weight=data.weight, groups=data.groups, known=data.known)


def added_statistics(family: Family, data: Dataset, spread: Dataset) -> npt.NDArray[np.float64] | None:
    """Return what spreading the constant columns adds to the statistics of a row on average.

    Parameters
    ----------
    family : Family
        Of real values.
    data, spread : Dataset
        The same rows as they are, and with repeated values spread.

    Returns
    -------
    (F,) float64 ndarray or None
        Nothing if no constant column was spread.

    Examples
    --------
    >>> from expfam import Dataset, DiagonalGaussian
    >>> from expfam.fitting.constant_columns import added_statistics
    >>> family = DiagonalGaussian().bind([[0.0, 1.0], [2.0, 1.5]])
    >>> rows, spread = (Dataset([[0.0, 1.0], [2.0, 1.0 + e]], family) for e in (0.0, 0.5))
    >>> added_statistics(family, rows, spread)
    array([0.   , 0.   , 0.   , 0.125])
    """
    constant = _constant_columns(data, spread)
    if not constant.size:
        return None
    shift = np.zeros((len(constant), data.n_features))
    width = np.sqrt(((spread.X[:, constant] - data.X[0, constant]) ** 2).mean(axis=0, dtype=np.float64))
    shift[np.arange(len(constant)), constant] = width
    # one column at a time, to both sides: products of columns stay as they are
    phi = family.sufficient_statistics(np.concatenate([shift, -shift, np.zeros((1, data.n_features))]))
    return 0.5 * phi[:-1].sum(axis=0) - len(constant) * phi[-1]


def predicted_labels(
    model: MixtureModel, data: Dataset, labels: npt.ArrayLike, added: npt.NDArray[np.float64], *, n_threads: int | None
) -> npt.NDArray[np.int32]:
    """Return labels that the clusters with what was added predict, from those of spread rows.

    Random numbers in constant columns have moved some rows between clusters that overlap.

    Parameters
    ----------
    model : MixtureModel
    data : Dataset
        The rows as they are.
    labels : (N,) array_like of int
        Numbers from 0 without gaps.
    added : (F,) ndarray
        See `added_statistics`.
    n_threads : int or None
        The result does not depend on it.

    Returns
    -------
    (N,) int32 ndarray
        They change until they are those that a prediction has, or until a cluster would lose its last row.
    """
    found = np.asarray(labels, dtype=np.int32)
    K = int(found.max()) + 1
    for _ in range(_MOST_PASSES):
        n, S = weighted_statistics(data, found, K)
        clusters = LoadedClusters(model.family, n, S + n[:, None] * added)
        moved = clusters.most_probable(data, np.log(model.weights.posterior_mean(n)[0]), n_threads=n_threads)
        if np.unique(moved).size < K or np.array_equal(moved, found):
            break
        found = moved
    return found


def _constant_columns(data, spread):
    if spread is data or data.is_sparse:
        return np.zeros(0, dtype=np.intp)
    return np.flatnonzero((data.X[:1] == data.X).all(axis=0) & (spread.X != data.X).any(axis=0))
