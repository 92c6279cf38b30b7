"""Scores of rows under the clusters of a fitted estimator, whose statistics are loaded once.

Loading costs O(K F), which for one row is nearly all the time. So the loaded statistics are kept between the calls of
one estimator, beside it and not in it: copies, pickles and files do not hold them. They are dropped with the estimator,
when another fit begins, and when its statistics are replaced by other arrays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from expfam.estimators.tables import array_has_holes
from expfam.families.columns.cells import as_columns
from expfam.families.columns.family import Columns
from expfam.families.columns.names import named_columns
from expfam.families.gaussian.holes import with_holes
from expfam.model.assignment import LoadedClusters
from expfam.model.data import Dataset

if TYPE_CHECKING:
    from collections.abc import Callable

    from expfam.families.base import Family

_MOST_KEPT = 1 << 29  # bytes of dense statistics; larger ones are loaded for each call and freed after it

# Each operation on it is one of a dict, which threads may do at once; a lock would be held for ever in a forked child.
_kept: WeakKeyDictionary[Any, LoadedClusters] = WeakKeyDictionary()


def loaded_clusters(
    estimator: Any, family: Family, n: npt.NDArray[np.float64], S: Any, *, n_empty: int = 1
) -> LoadedClusters:
    """Return the clusters of an estimator and empty ones, loaded now or in an earlier call.

    Parameters
    ----------
    estimator : Estimator
        Whose clusters are kept.
    family : Family
        Bound. Clusters of another family than that of the fit, which was opened for the rows of one call, are not kept.
    n, S : (K,) and (K, F)
        Statistics of the clusters, S dense or CSR. They are compared with those of the earlier call by identity.
    n_empty : int
        Number of empty clusters after them.

    Returns
    -------
    LoadedClusters
        Several threads may use it.
    """
    found = _kept.get(estimator)
    if (
        found is not None
        and found.n is n
        and found.S is S
        and found.family is family
        and found.n_slots == len(n) + n_empty
    ):
        return found
    found = LoadedClusters(family, n, S, n_empty=n_empty)
    if family is not estimator.family_:
        return found
    if 8 * S.shape[0] * S.shape[1] <= _MOST_KEPT:
        _kept[estimator] = found
    else:
        drop_loaded(estimator)
    return found


def drop_loaded(estimator: Any) -> None:
    """Free the loaded clusters of an estimator."""
    _kept.pop(estimator, None)


def names_of_fit(estimator: Any) -> Any:
    """Return the names of the columns of the fit, for messages; None if it was one of an array."""
    return estimator.__dict__.get("feature_names_in_")


def opened_data(X: Any, family: Family, *, learns: bool = False, **options: Any) -> Dataset:
    """Return the data set of new rows; the family is opened for cells that they lack.

    Parameters
    ----------
    X : (N, V) array_like or sparse matrix
    family : Family
        Bound. If it leaves out no missing cells itself, rows that lack cells are those of a table.
    learns : bool
        Whether clusters are learned from the rows; else their cells are only scored.
    **options
        Of the `Dataset`.

    Raises
    ------
    CapabilityError
        A row lacks cells of columns that depend on each other.
    """
    if not family.allows_missing and array_has_holes(X):
        family = (None if learns else with_holes(family)) or as_columns(family)
    data = Dataset(X, family, **options)
    with named_columns(options.get("names")):
        opened = family.opened_for(data.X)
    return data if opened is family else Dataset(data.X, opened, **options)


def opened_statistics(family: Family, opened: Any, n: npt.NDArray[np.float64], S: Any) -> Any:
    """Return the sums S of a family in the layout of the one that `opened_data` has made of it."""
    is_same = opened is family or not isinstance(opened, Columns)
    return S if is_same else as_columns(family).open_statistics(opened, n, S)


def opened_rows(X: Any, family: Family, n: npt.NDArray[np.float64], S: Any, **options: Any) -> tuple[Dataset, Any]:
    """Return the data set of new rows, and the sums of clusters in the layout of its family.

    The family is opened where the rows lack values that the rows of the fit have; else it and `S` stay the same.

    Parameters
    ----------
    X : (N, V) array_like or sparse matrix
    family : Family
        Bound.
    n, S : (K,) and (K, F)
        Statistics of the clusters, S dense or CSR.
    **options
        Of the `Dataset`.
    """
    data = opened_data(X, family, **options)
    return data, opened_statistics(family, data.family, n, S)


def log_scores(
    data: Dataset,
    n: npt.NDArray[np.float64],
    S: Any,
    log_weights: npt.NDArray[np.float64],
    reduce: Callable[[npt.NDArray[np.float64], int, int], Any],
    n_threads: int | None,
) -> list:
    """Apply `reduce` to blocks of log weight + log predictive of all clusters and an empty one.

    Parameters
    ----------
    data : Dataset
        Of a bound family.
    n, S : (K,) and (K, F)
        Statistics of the clusters, S dense or CSR.
    log_weights : (K + 1,) float64 ndarray
        Nats; the last one is that of the empty cluster.
    reduce : callable
        ``reduce(scores, start, stop)`` of a block (rows, K + 1), which it may change.
    n_threads : int or None

    Returns
    -------
    list
        One result a block, in order.
    """
    return LoadedClusters(data.family, n, S, n_empty=1).each_block(data, log_weights, reduce, n_threads=n_threads)


def log_sum_exp(scores: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the log of the sum of exponentials of each row: (n,) nats."""
    top = scores.max(axis=1)
    return top + np.log(np.exp(scores - top[:, None]).sum(axis=1))
