"""Weights of rows: which samplers take them, and the labels of rows of weight 0.

A weight is a multiplicity. Rows of weight 0 are therefore left out of a fit, and get their clusters afterwards.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from expfam.errors import CapabilityError, ExpFamError
from expfam.families.support import repeated
from expfam.fitting.known_rows import classes_of_clusters

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from expfam.model.data import Dataset


def check_weights(
    kernel: Any,
    model: Any,
    data: Dataset,
    *,
    sampler: Any,
    owner: str,
    line: Callable[..., str],
    others: Callable[[], Mapping[str, Any]],
    fit: str = "fit(X",
) -> None:
    """Refuse weights other than 1 for a kernel that takes none.

    Parameters
    ----------
    kernel : Kernel
    model : MixtureModel or AdmixtureModel
    data : Dataset
    sampler : str or Kernel
        As it was given.
    owner : str
        Name of the estimator.
    line : callable
        ``line(**changes)`` is the text that makes the estimator with some settings changed.
    others : callable
        Returns samplers that take weights, a mapping of str to Kernel; the message has a line with the first one that
        suits the model.
    fit : str
        How the call in this line begins.

    Raises
    ------
    CapabilityError
    """
    if kernel.takes_weight or data.weight is None or (data.weight == 1.0).all():
        return
    given = repr(sampler) if isinstance(sampler, str) else type(sampler).__name__
    raise CapabilityError(
        f"{owner} with sampler={given} cannot use sample_weight: it would tie the copies of a row"
        f" together; {_advice(line, model, data, others(), fit)}where all weights are"
        f" whole numbers {repeated('sample_weight')}"
    )


def _advice(line, model, data, others, fit):
    suited = []
    for name, kernel in others.items():
        try:
            kernel.check(model, data)
        except ExpFamError:
            continue
        suited.append(name)
    if not suited:
        return ""
    first = f"type {line(sampler=suited[0])}.{fit}, sample_weight=sample_weight)"
    return first + "".join(f", or the same with sampler={name!r}" for name in suited[1:]) + ", or "


def start_of_counted(data: Dataset, start: Any) -> Any:
    """Return the start of the rows of weight above 0.

    Of an array of labels of all rows it is their labels.
    """
    rows = data.counted_rows
    return start if rows is None or np.shape(start) != (data.n_rows,) else np.asarray(start)[rows]


def labels_of_all(
    data: Dataset, labels: npt.NDArray[np.int32], predict: Callable[[Any], npt.NDArray[np.int32]]
) -> npt.NDArray[np.int32]:
    """Return the labels of all rows, given those of the rows of weight above 0.

    Parameters
    ----------
    data : Dataset
        All rows.
    labels : (n,) int32 ndarray
        Clusters of the rows of weight above 0, which stay.
    predict : callable
        Called with the numbers of the other rows; returns their most probable clusters. Rows of another class than
        that of this cluster join the first row that counts and is of their class; linked rows join each other.

    Returns
    -------
    (N,) int32 ndarray
    """
    counted = data.counted_rows
    if counted is None:
        return labels
    rest = np.flatnonzero(data.weight == 0.0)
    out = np.empty(data.n_rows, dtype=np.int32)
    out[counted], out[rest] = labels, predict(rest)
    if data.known is not None:
        _join_known(out, data.known, counted, rest)
    return out


def _join_known(labels, known, counted, rest):
    """Give rows of weight 0 a cluster of their class, and those of a link group one cluster."""
    order = np.concatenate([counted, rest])  # rows that count come first: theirs is the cluster that others join
    if known.classes is not None:
        class_of = classes_of_clusters(labels[counted], int(labels.max()) + 1, known.part(counted))
        first = _first_of_name(known.classes, order)
        is_apart = (known.classes[rest] >= 0) & (class_of[labels[rest]] != known.classes[rest])
        labels[rest[is_apart]] = labels[first[rest[is_apart]]]
    if known.links is not None:
        linked = rest[known.links[rest] >= 0]
        labels[linked] = labels[_first_of_name(known.links, order)[linked]]


def label_sizes(
    labels: npt.NDArray[np.integer], n_clusters: int, weight: npt.NDArray[np.float64] | None
) -> npt.NDArray[Any]:
    """Return the rows of each label (int64), or the sums of their weights (float64).

    Parameters
    ----------
    labels : (N,) int ndarray
    n_clusters : int
        K, above all labels.
    weight : (N,) float64 ndarray or None
        Multiplicity of each row; None for rows that count once.

    Returns
    -------
    (K,) int64 or float64 ndarray
    """
    sizes = np.bincount(labels, weights=weight, minlength=n_clusters)
    return sizes.astype(np.int64) if weight is None else sizes


def _first_of_name(names, order):
    """Return for each row the first row, in the given order, that has the same name: (N,) intp."""
    _, first, place = np.unique(names[order], return_index=True, return_inverse=True)
    out = np.empty(len(names), dtype=np.intp)
    out[order] = order[first[place]]
    return out
