"""Coordinates in which a user might run k-means: standardised, raw, whitened columns.

No metric suits all data. Standardised columns let columns of noise vote as loudly as the one column that tells the
groups apart; raw ones follow the units; whitened ones see groups behind columns that depend on each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt
from scipy import sparse

from expfam.samplers.geometry.coordinates import Rows
from expfam.structures.ground.threads import single_blas

if TYPE_CHECKING:
    from expfam.model.data import Dataset

_MOST_WHITENED = 100  # columns
_ROWS_A_COLUMN = 3  # fewer rows say too little about a covariance
_ALIKE = 1.25  # ratio of the spreads of columns up to which raw columns are as good as standardised ones
_FLAT = 1e-9  # share of the largest variance below which a direction is rounding
_MOST_CELLS = 1 << 22  # of sparse rows that are looked at as they are
_own: WeakKeyDictionary[Dataset, dict[int, npt.NDArray[np.float64]]] = WeakKeyDictionary()


def own_points(data: Dataset, *, seed: int) -> npt.NDArray[np.float64]:
    """Return the rows in the coordinates of the family, made once: (N, C).

    Parameters
    ----------
    data : Dataset
        As many rows as are to be compared; all are held dense.
    seed : int
        Decides the projection of sparse rows.
    """
    kept = _own.setdefault(data, {})
    if seed not in kept:
        kept[seed] = Rows(data).all_dense(seed)
    return kept[seed]


def metrics_of(data: Dataset, *, seed: int) -> dict[str, npt.NDArray[np.float64]]:
    """Return the rows in each metric that differs from the others.

    Parameters
    ----------
    data, seed
        As of `own_points`.

    Returns
    -------
    dict of str to (N, C) float64 ndarray
        "own": the coordinates of the family, such as standardised columns or square roots of counts; "raw": the columns
        as they are, missing cells at the column's mean; "white": uncorrelated directions of variance 1; "log":
        logarithms of 1 + counts.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import Dataset, DiagonalGaussian
    >>> from expfam.samplers.geometry.metrics import metrics_of
    >>> X = np.random.default_rng(0).normal(size=(50, 2)) * [1.0, 100.0]
    >>> list(metrics_of(Dataset(X, DiagonalGaussian()), seed=0))
    ['own', 'raw', 'white']
    """
    found = {"own": own_points(data, seed=seed)}
    raw = _raw(data)
    if raw is None:
        return found
    if data.family.is_discrete:
        return {**found, "raw": raw, "log": np.log1p(raw)} if raw.min() >= 0.0 else found
    spread = np.sqrt(_mean(raw * raw, data.weight))
    if spread.max() > _ALIKE * spread.min():
        found["raw"] = raw
    white = _whitened(found["own"], data.weight)
    return found if white is None else {**found, "white": white}


def _raw(data):
    """Return the rows as they are, over a common scale.

    None where they are no numbers, or where columns are too many.
    """
    family = data.family
    if hasattr(family, "parts") or family.support == "categories":
        return None
    if data.is_sparse and data.n_rows * data.n_features > _MOST_CELLS:
        return None
    X = data.X.toarray() if sparse.issparse(data.X) else data.X
    X = np.array(X, dtype=np.float64)
    if family.allows_missing:
        missing = np.isnan(X)
        if missing.any():
            X[missing] = 0.0
            X += missing * (X.sum(axis=0) / np.maximum(1, (~missing).sum(axis=0)))
    if not family.is_discrete:
        X -= _mean(X, data.weight)
        X /= max(float(np.abs(X).max()), np.finfo(np.float64).tiny)  # single precision holds the squares
    return X


def _mean(X, weight):
    return X.mean(axis=0) if weight is None else np.average(X, axis=0, weights=weight)


def _whitened(points, weight):
    d = points.shape[1]
    n = len(points) if weight is None else weight.sum()
    if not 2 <= d <= _MOST_WHITENED or n < _ROWS_A_COLUMN * d:
        return None
    centred = points - _mean(points, weight)
    weighted = centred if weight is None else centred * weight[:, None]
    with single_blas():
        variances, directions = np.linalg.eigh(weighted.T @ centred / n)
        used = variances > _FLAT * variances[-1]
        return centred @ (directions[:, used] / np.sqrt(variances[used])) if used.any() else None
