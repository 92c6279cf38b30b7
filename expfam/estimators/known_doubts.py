"""Known rows of a finished fit that the data contradict.

A wrong class is seen by the clusters of the other rows: those of another class explain the row much better.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from expfam.fitted.class_parts import warn_of_parts
from expfam.model.assignment import LoadedClusters
from expfam.samplers.variational.schedules import Stochastic

if TYPE_CHECKING:
    from collections.abc import Callable

    from expfam.model.data import Dataset
    from expfam.model.mixture import MixtureModel

_DOUBTFUL = 0.2  # probability of the own class, among the classes, below which a row is doubtful
_ROUNDING = 1e-9  # fewer rows are rounding
OF_DOUBTS = ("doubtful_known_", "likelier_classes_")


class Doubts(NamedTuple):
    """Known rows that the data contradict, the most doubtful first.

    Attributes
    ----------
    rows : (M,) int64 ndarray
        Numbers of the rows.
    likelier : (M,) int32 ndarray
        Class that is most probable for each of them, a place among the classes.
    """

    rows: npt.NDArray[np.int64]
    likelier: npt.NDArray[np.int32]


def doubtful_rows(
    data: Dataset,
    n: npt.NDArray[np.float64],
    S: Any,
    labels: npt.NDArray[np.integer],
    cluster_classes: npt.NDArray[np.integer],
    log_mass: Callable[[npt.NDArray[np.int64]], npt.NDArray[np.float64]],
    *,
    is_counted: bool = True,
    n_threads: int | None = None,
) -> Doubts:
    """Return the known rows whose class has a probability below 0.2 among the classes.

    The row itself is taken out of its cluster before. Clusters without a class have no part in it: they say nothing
    about which class is right.

    Parameters
    ----------
    data : Dataset
        All rows, with classes of some in `known`, in the layout of the bound family.
    n, S : (K,) and (K, F)
        Statistics of the clusters, S dense or CSR.
    labels : (N,) int
        Clusters of the rows.
    cluster_classes : (K,) int
        Class of each cluster, -1 for none.
    log_mass : callable
        ``log_mass(rows)`` is the log weight of each cluster for these rows, (m, K), each row left out.
    is_counted : bool
        Whether the statistics hold each known row with its whole weight, so that it can be taken out of them.
    n_threads : int or None

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import Dataset, Known, Poisson
    >>> from expfam.estimators.known_doubts import doubtful_rows
    >>> known = Known([0, 0, 1, 1, 1, 0])  # the last row is like those of class 1
    >>> data, labels = Dataset([[0], [1], [30], [31], [29], [33]], Poisson(), known=known), known.classes
    >>> n, S = data.statistics(labels, 2)
    >>> doubtful_rows(data, n, S, labels, np.array([0, 1]), lambda rows: np.zeros((len(rows), 2))).rows
    array([5])
    """
    of_rows = np.full(data.n_rows, -1) if data.known is None or data.known.classes is None else data.known.classes
    rows = np.flatnonzero(of_rows >= 0).astype(np.int64)
    own, classes = np.asarray(labels)[rows], of_rows[rows]
    if not rows.size or np.unique(cluster_classes[cluster_classes >= 0]).size < 2:
        return Doubts(rows[:0], classes[:0])
    part = data.take(rows).without_known()
    if not is_counted:
        part.weight = np.zeros(rows.size)
    clusters = LoadedClusters(data.family, n, S)
    alone = clusters.log_predictive_without(part, own)
    log_own, likelier = np.zeros(rows.size), classes.copy()
    order = np.argsort(cluster_classes, kind="stable")
    order = order[cluster_classes[order] >= 0]
    present, begins = np.unique(cluster_classes[order], return_index=True)

    def reduce(scores, start, stop):
        np.put_along_axis(scores, own[start:stop, None].astype(np.intp), alone[start:stop, None], axis=1)
        scores += log_mass(rows[start:stop])
        scores = scores[:, order]
        top = scores.max(axis=1, keepdims=True)
        with np.errstate(divide="ignore"):
            sums = np.log(np.add.reduceat(np.exp(scores - top), begins, axis=1))
        of_own = np.searchsorted(present, classes[start:stop])
        total = np.log(np.exp(sums).sum(axis=1))
        log_own[start:stop] = np.take_along_axis(sums, of_own[:, None], axis=1)[:, 0] - total
        likelier[start:stop] = present[sums.argmax(axis=1)]

    clusters.each_block(part, np.zeros(len(n)), reduce, n_threads=n_threads)
    found = np.flatnonzero(log_own < np.log(_DOUBTFUL))
    found = found[np.argsort(log_own[found], kind="stable")]
    return Doubts(rows[found], likelier[found])


def log_mass_without(
    model: MixtureModel,
    n: npt.NDArray[np.float64],
    own: npt.NDArray[np.integer],
    weight: npt.NDArray[np.float64] | None,
) -> npt.NDArray[np.float64]:
    """Return log weights of the clusters of a mixture for some rows: (m, K).

    Each row is left out of its own cluster. A cluster of the row alone has the weight of a new one.

    Parameters
    ----------
    model : MixtureModel
    n : (K,) float64 ndarray
        Number of data of each cluster.
    own : (m,) int ndarray
        Cluster of each row.
    weight : (m,) float64 ndarray or None
        How often each row counts; None for once.
    """
    removed = np.ones(len(own)) if weight is None else weight
    pairs, place = np.unique(np.stack([own, removed], axis=1), axis=0, return_inverse=True)
    found = np.empty((len(pairs), len(n)))
    for j, (k, less) in enumerate(pairs):
        rest = n.copy()
        rest[int(k)] = max(0.0, rest[int(k)] - less)
        if rest[int(k)] < _ROUNDING:
            rest[int(k)] = 0.0
        found[j], new = model.weights.posterior_mean(rest)
        if rest[int(k)] == 0.0:
            found[j, int(k)] = new
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(found)[place.ravel()])


def log_mass_of_rows(mixture: Any, data: Dataset) -> Callable[[npt.NDArray[np.int64]], npt.NDArray[np.float64]]:
    """Return what gives log weights of a mixture's clusters to rows, each row left out."""

    def log_mass(rows):
        weight = None if data.weight is None else data.weight[rows]
        return log_mass_without(mixture.model_, mixture.n_, mixture._labels[rows], weight)

    return log_mass


def set_doubts(
    estimator: Any,
    model: Any,
    data: Dataset,
    cluster_classes: npt.NDArray[np.integer],
    log_mass: Callable[[npt.NDArray[np.int64]], npt.NDArray[np.float64]],
    *,
    schedule: Any = None,
    remedy: str,
    warns: bool = True,
) -> bool:
    """Set which known rows are doubtful, and warn of classes that have parts.

    The attributes are `doubtful_known_` and `likelier_classes_`.

    Parameters
    ----------
    estimator : Mixture or GroupedMixture
        With `n_`, `S_`, `labels_` and `classes_` of the fit.
    model : MixtureModel or AdmixtureModel
        Bound, with the hyper-parameters of the fit.
    data : Dataset
        All rows of the fit, with what is known.
    cluster_classes, log_mass
        As in `doubtful_rows`.
    schedule : Schedule, optional
        That of variational inference: after a stochastic one the statistics hold shares of rows.
    remedy : str
        What to do about classes that have parts.
    warns : bool
        Whether to warn of them.

    Returns
    -------
    bool
        Whether it has warned.
    """
    drop_doubts(estimator)
    known = data.known
    if known is None or known.classes is None:
        estimator.doubtful_known_, estimator.likelier_classes_ = np.empty(0, dtype=np.int64), estimator.classes_[:0]
        return False
    found = doubtful_rows(
        data,
        estimator.n_,
        estimator.S_,
        estimator._labels,
        cluster_classes,
        log_mass,
        is_counted=not isinstance(schedule, Stochastic),
        n_threads=estimator.n_threads,
    )
    estimator.doubtful_known_, estimator.likelier_classes_ = found.rows, estimator.classes_[found.likelier]
    return warns and warn_of_parts(type(estimator).__name__, model.family, data, estimator.classes_, found.rows, remedy)


def drop_doubts(estimator: Any) -> None:
    """Remove the doubtful rows of an earlier fit."""
    for name in OF_DOUBTS:
        estimator.__dict__.pop(name, None)


def drop_known(estimator: Any) -> None:
    """Remove the results of an earlier fit about known rows and classes of clusters."""
    drop_doubts(estimator)
    for name in ("cluster_classes_", "n_known_"):
        estimator.__dict__.pop(name, None)
