"""Numbers of the clusters of a partition by first appearance."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def by_first_appearance(labels: npt.ArrayLike) -> tuple[int, npt.NDArray[np.int32]]:
    """Count the distinct labels, and renumber them from 0 by first appearance: (N,) int32."""
    labels = np.asarray(labels)
    if labels.max() >= 4 * labels.size + 1024:  # numbers of the user: a table up to the largest would be too long
        labels = np.unique(labels, return_inverse=True)[1]
    order = slots_by_first_appearance(labels)
    rank = np.zeros(int(labels.max()) + 1, dtype=np.int32)
    rank[order] = np.arange(order.size, dtype=np.int32)
    return order.size, rank[labels]


def slots_by_first_appearance(labels: npt.NDArray[np.integer]) -> npt.NDArray[np.intp]:
    """Return the distinct labels in the order of their first appearance."""
    first = np.full(int(labels.max()) + 1, -1, dtype=np.int64)
    first[labels[::-1]] = np.arange(labels.size - 1, -1, -1)  # of several writes to one place the last one remains
    used = np.flatnonzero(first >= 0)
    return used[np.argsort(first[used])]
