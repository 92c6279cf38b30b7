"""Probability of each row's own cluster, without an array of all rows and clusters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from expfam.fitted.scoring import log_sum_exp
from expfam.model.assignment import LoadedClusters

if TYPE_CHECKING:
    from expfam.model.data import Dataset


def certainty_of_state(model: Any, state: Any, *, n_threads: int | None = None) -> npt.NDArray[np.float32]:
    """Return the probability of the label of each row in a state: (N,) float32.

    Parameters
    ----------
    model : MixtureModel or AdmixtureModel
        Bound.
    state : State
        Of a mixture of rows, in groups or not.
    n_threads : int or None
    """
    labels = np.asarray(state.labels)
    K = int(labels.max()) + 1
    n, S = state.data.statistics(labels, K)
    log_weights = np.log(np.maximum(n, 0.5) / max(float(n.sum()), 0.5))
    return certainty_of_labels(model.family, state.data, n, S, labels, log_weights, n_threads=n_threads)


def certainty_of_labels(
    family: Any,
    data: Dataset,
    n: npt.NDArray[np.float64],
    S: Any,
    labels: npt.NDArray[np.integer],
    log_weights: npt.NDArray[np.float64],
    *,
    kind_of_row: npt.NDArray[np.integer] | None = None,
    n_threads: int | None = None,
) -> npt.NDArray[np.float32]:
    """Return the probability of the given cluster of each row, among the clusters: (N,) float32.

    Scores of a block of rows are held at a time, never N x K.

    Parameters
    ----------
    family : Family
        Bound.
    data : Dataset
        The rows, in the layout of the family.
    n, S : (K,) and (K, F)
        Statistics of the clusters, S dense or CSR.
    labels : (N,) int
    log_weights : (K,) or (G, K) float64
        Log weights of the clusters, or those of each kind of row.
    kind_of_row : (N,) int, optional
        Which of the G rows of `log_weights` each row of the data has.
    n_threads : int or None

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import Dataset, Poisson
    >>> from expfam.fitted.row_certainty import certainty_of_labels
    >>> data, labels = Dataset([[0], [1], [30], [31], [12]], Poisson()), np.array([0, 0, 1, 1, 0])
    >>> n, S = data.statistics(labels, 2)
    >>> certainty_of_labels(data.family, data, n, S, labels, np.log(n / 5)).round(2)
    array([1.  , 1.  , 1.  , 1.  , 0.93], dtype=float32)
    """
    clusters = LoadedClusters(family, n, S)
    if kind_of_row is None:
        return clusters.shares(data, log_weights, labels, n_threads=n_threads)
    found = np.empty(data.n_rows, dtype=np.float32)

    def reduce(scores, start, stop):
        scores += log_weights[kind_of_row[start:stop]]
        own = np.take_along_axis(scores, labels[start:stop, None].astype(np.intp), axis=1)[:, 0]
        found[start:stop] = np.exp(own - log_sum_exp(scores))

    clusters.each_block(data, np.zeros(len(n)), reduce, n_threads=n_threads)
    return found
