"""Scores of new rows under clusters: their data set, and log densities in blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from expfam.families.columns.cells import as_columns
from expfam.families.columns.family import Columns
from expfam.families.gaussian.holes import with_holes
from expfam.frames.names import named_columns
from expfam.model.assignment import LoadedClusters
from expfam.model.data import Dataset

if TYPE_CHECKING:
    from collections.abc import Callable

    from expfam.families.base import Family


def array_has_holes(X: Any) -> bool:
    """Return whether an array, or what makes one, holds floats with NaN among them."""
    if sparse.issparse(X):
        return False
    try:
        values = np.asarray(X)
    except ValueError:  # rows of different lengths, which are refused later
        return False
    if values.dtype.kind == "O" and values.ndim == 2:
        try:
            values = values.astype(np.float64)  # None is a missing cell
        except (TypeError, ValueError):  # text and other objects, which are refused later
            return False
    if values.dtype.kind != "f" or values.ndim != 2:
        return False
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isnan(values.sum())) and bool(np.isnan(values).any())


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
