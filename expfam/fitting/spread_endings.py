"""The end of a run over tables or categories that has seen repeated values spread.

There clusters of single values are dense, and the log joint has many modes. A run ends at one of the spread rows, and
k-means of the rows as they are leads to others, some of which are higher. Which one k-means reaches is chance: where
its runs differ by as much as the end is above them, the next run may pass the end, which is then taken uphill itself.
Where the end is clearly above them it stays, since merges and splits of these rows would seek single values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from expfam.fitting.endings import FEW_ROWS, best_labels, simple_rivals
from expfam.model.partitions import by_first_appearance, compact_labels
from expfam.samplers.starts.equal_rows import EqualRows
from expfam.samplers.warm_starts.candidates import Divisions, may_be_passed
from expfam.samplers.warm_starts.settle import Settler

if TYPE_CHECKING:
    from expfam.model.data import Dataset
    from expfam.model.mixture import MixtureModel

_RUNS, _MOST_RUNS = 8, 32  # of k-means in each metric
_MOST_PASSES = 100
_TRIED = 3  # best ones from which merges, splits and exchanges go on, beside the end
_FEW_DISTINCT = 64  # rows of columns of two values, which are categories
_MANY_VALUES = 0.1  # of a column, a share of the rows


def above_simple(
    model: MixtureModel,
    data: Dataset,
    labels: npt.NDArray[np.int32],
    *,
    seed: int,
    n_threads: int | None,
    spread: Dataset | None = None,
) -> npt.NDArray[np.int32]:
    """Return labels not below one cluster and k-means of the rows as they are.

    Parameters
    ----------
    model : MixtureModel
        Of the end of the run, which stays.
    data : Dataset
        The rows as they are, constant columns as the run has seen them.
    labels : (N,) int32 ndarray
        A mode of these rows.
    seed : int
    n_threads : int or None
        No result depends on it.
    spread : Dataset, optional
        The rows that the run has seen.

    Returns
    -------
    (N,) int32 ndarray
        The given array itself where nothing is better.
    """
    rows = EqualRows(model, data, n_threads=n_threads)
    settler = Settler(model, data, seed=seed, n_threads=n_threads)
    divisions, is_of_few = Divisions(data, seed=seed, n_threads=n_threads), has_few_distinct_rows(data)
    seen = EqualRows(model, spread, n_threads=n_threads) if spread is not None and not is_of_few else None
    while True:
        n_clusters = int(labels.max()) + 1
        modes = _modes(rows, divisions, n_clusters, range(_RUNS))
        better = best_labels(rows, labels, modes, spread=seen)
        if n_clusters > 1:
            joints = np.array([rows.log_joint(one) for one in modes[:-1]])  # one cluster is no run
            own = rows.log_joint(compact_labels(labels))
            if is_of_few or (has_spikes(data) and may_be_passed(own, joints.reshape(-1, _RUNS))):
                modes += _modes(rows, divisions, n_clusters, range(_RUNS, _MOST_RUNS))
                modes.sort(key=rows.log_joint)
                begun = [better, *modes[-_TRIED:]]
                risen = (_risen(settler, rows, one) for one in begun)
                better = best_labels(rows, better, [*modes[-1:], *risen], spread=seen)
        if better is labels:
            return labels
        labels = by_first_appearance(better)[1]


def has_few_distinct_rows(data: Dataset) -> bool:
    """Tell whether few rows are distinct, of two values in each column: they are categories.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import Dataset, Gaussian
    >>> from expfam.fitting.spread_endings import has_few_distinct_rows
    >>> has_few_distinct_rows(Dataset(np.tile(np.eye(3), (50, 1)), Gaussian()))
    True
    """
    first = data.X[: 2 * _FEW_DISTINCT]  # which show it of most others
    for part in (first, data.X):
        is_between = (part != part.min(axis=0)) & (part != part.max(axis=0))
        if is_between.any() or len(np.unique(part, axis=0)) > _FEW_DISTINCT:
            return False
    return True


def has_spikes(data: Dataset) -> bool:
    """Tell whether a column has many values beside its repeated ones.

    Where all values are repeated, as ratings are, merges and splits of the rows as they are seek single values.

    Examples
    --------
    >>> from expfam import Dataset, DiagonalGaussian
    >>> from expfam.fitting.spread_endings import has_spikes
    >>> has_spikes(Dataset([[0.0], [0.0], [0.0], [1.3], [2.7]], DiagonalGaussian()))
    True
    >>> has_spikes(Dataset(np.tile([[1.0], [2.0], [3.0]], (50, 1)), DiagonalGaussian()))
    False
    """
    return any(len(np.unique(column)) > _MANY_VALUES * data.n_rows for column in data.X.T)


def _modes(rows, divisions, n_clusters, runs):
    return [_mode(rows, each) for each in simple_rivals(divisions, n_clusters, runs)]


def _mode(rows, labels):
    return compact_labels(rows.climb(labels, keep_clusters=False, max_passes=_MOST_PASSES).labels)


def _risen(settler, rows, labels):
    """Return the mode that merges, splits and exchanges lead to."""
    settled, _ = settler.settled(settler.fitted(labels), exchanges=rows.data.n_rows <= FEW_ROWS)
    return _mode(rows, settled.labels)
