"""Labels of partitions: renumber them, fit them into components, and count pairs of them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from expfam.amounts import counted
from expfam.errors import CapabilityError
from expfam.model.first_appearance import compacted, division_bytes, renumbered

_KINDS = np.dtype(np.int32), np.dtype(np.int64)


class Contingency(NamedTuple):
    """Counts of the pairs of labels of two partitions; only pairs that occur are stored.

    Attributes
    ----------
    n_a : (A,) int64 ndarray
        Number of data of each cluster of the first partition.
    n_b : (B,) int64 ndarray
        Number of data of each cluster of the second one.
    starts : (A + 1,) integer ndarray
        Pairs ``starts[k]:starts[k + 1]`` have cluster k of the first partition.
    b : (P,) integer ndarray
        Cluster of the second partition of each pair that occurs.
    n_ab : (P,) float64 ndarray
        Number of data of each pair.
    """

    n_a: npt.NDArray[np.int64]
    n_b: npt.NDArray[np.int64]
    starts: npt.NDArray[np.integer]
    b: npt.NDArray[np.integer]
    n_ab: npt.NDArray[np.float64]

    @property
    def a(self) -> npt.NDArray[np.intp]:
        """Cluster of the first partition of each pair: (P,) intp ndarray, in ascending order."""
        return np.repeat(np.arange(self.n_a.size), np.diff(self.starts))


def by_first_appearance(labels: npt.ArrayLike) -> tuple[int, npt.NDArray[np.int32]]:
    """Count the distinct labels, and renumber them from 0 by first appearance: (N,) int32.

    Labels may be of any type that NumPy can sort. Non-negative integers below about 4 N cost O(N), others O(N log N).

    Examples
    --------
    >>> from expfam.model.partitions import by_first_appearance
    >>> by_first_appearance([7, 7, -1, 7, 3])
    (3, array([0, 0, 1, 0, 2], dtype=int32))
    """
    return _renumbered_by(renumbered, np.asarray(labels))


def division_of(labels: npt.ArrayLike) -> bytes:
    """Return the labels of `by_first_appearance` as bytes: a key of the division of the data.

    Two partitions of the same data have equal keys where they divide them in the same way, however clusters are named.

    Examples
    --------
    >>> from expfam.model.partitions import division_of
    >>> division_of([7, 7, 3]) == division_of([0, 0, 1]), division_of([7, 7, 3]) == division_of([0, 1, 1])
    (True, False)
    """
    if type(labels) is np.ndarray and labels.dtype == np.int32 and labels.flags.c_contiguous:  # as nearly always
        try:
            return division_bytes(labels, 4 * labels.size + 1024)
        except IndexError:
            pass
    return _renumbered_by(division_bytes, np.asarray(labels))


def _renumbered_by(function, labels):
    n_slots = 4 * labels.size + 1024  # a table up to the largest label would be too long for labels far above N
    if labels.dtype.kind in "iu":
        kind = labels.dtype if labels.dtype in _KINDS else np.int64
        try:
            return function(np.ascontiguousarray(labels, dtype=kind), n_slots)
        except IndexError:  # negative labels, or longer tables
            pass
    return function(np.unique(labels, return_inverse=True)[1].astype(np.int64), n_slots)


def slots_by_first_appearance(labels: npt.NDArray[np.integer]) -> npt.NDArray[np.intp]:
    """Return the distinct labels in the order of their first appearance.

    The labels are at least one, and none is negative. Time and memory are O(N + largest label).
    """
    n_used, places = by_first_appearance(labels)
    slots = np.empty(n_used, dtype=np.intp)
    slots[places] = labels
    return slots


def compact_labels(labels: npt.ArrayLike) -> npt.NDArray[np.int32]:
    """Renumber labels as 0..K-1 without gaps, in the same order: (N,) int32, a copy.

    O(N + largest label). Negative labels raise a ValueError.
    """
    labels = np.asarray(labels)
    if type(labels) is np.ndarray and labels.dtype in _KINDS and labels.ndim == 1:
        return compacted(np.ascontiguousarray(labels))
    used = np.bincount(labels) > 0
    return (np.cumsum(used) - 1).astype(np.int32)[labels]


def fitted_labels(labels: Any, n_components: int, kernel: Any) -> Any:
    """Return labels within 0..n_components-1, renumbered only if some are larger.

    Parameters
    ----------
    labels : (N,) array_like of non-negative int
    n_components : int
    kernel : Kernel
        For the message.

    Raises
    ------
    CapabilityError
        If there are more distinct labels than components. The message names the class of `kernel`.
    """
    is_plain = type(labels) is np.ndarray and labels.dtype in _KINDS and labels.size > 0
    if is_plain and np.minimum.reduce(labels) >= 0 and np.maximum.reduce(labels) < n_components:
        return labels
    values = np.unique(labels)
    if values.size > n_components:
        raise CapabilityError(
            f"{counted(values.size, 'starting cluster')}, but {type(kernel).__name__} has "
            f"{counted(n_components, 'component')} here: give a start with fewer clusters"
        )
    return np.searchsorted(values, labels) if values.max() >= n_components else labels


def contingency(labels_a: npt.NDArray[np.integer], labels_b: npt.NDArray[np.integer]) -> Contingency:
    """Count the data of each cluster of two partitions, and of each pair of clusters.

    Labels are non-negative integers. Only pairs that occur are counted: time and memory are O(N + largest label).

    Examples
    --------
    >>> import numpy as np
    >>> from expfam.model.partitions import contingency
    >>> contingency(np.array([0, 0, 1]), np.array([1, 1, 0])).n_ab
    array([2., 1.])
    """
    table = sparse.coo_array((np.ones(labels_a.size), (labels_a, labels_b))).tocsr()  # sums pairs that occur twice
    return Contingency(np.bincount(labels_a), np.bincount(labels_b), table.indptr, table.indices, table.data)
