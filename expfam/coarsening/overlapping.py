"""Merges of clusters whose rows would often be given to each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from expfam.model.partitions import by_first_appearance

if TYPE_CHECKING:
    from expfam.protocols import Floats


def overlapping_groups(
    mass: Floats, share: float, classes: npt.NDArray[np.integer] | None = None
) -> npt.NDArray[np.int64]:
    """Merge clusters that give a share of their rows to another: (K,) int64 groups.

    The pair of the largest share is merged first, and the shares of its union are those of its rows.

    Parameters
    ----------
    mass : (K, K) array
        Expected number of rows of cluster a that are given to cluster b.
    share : float
    classes : (K,) int array, optional
        Known class of each cluster, -1 for none; clusters of two classes are never merged.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam.coarsening.overlapping import overlapping_groups
    >>> overlapping_groups(np.array([[80.0, 0.0, 20.0], [0.0, 50.0, 0.0], [5.0, 0.0, 95.0]]), 0.1).tolist()
    [0, 1, 0]
    """
    mass, K = np.array(mass, dtype=np.float64), len(mass)
    of_class = np.full(K, -1) if classes is None else np.array(classes)
    home, live = np.arange(K), np.ones(K, dtype=bool)
    while live.sum() > 1:
        rows = mass.sum(axis=1, keepdims=True)
        given = np.divide(mass, rows, out=np.zeros_like(mass), where=rows > 0)
        apart = (of_class[:, None] >= 0) & (of_class >= 0) & (of_class[:, None] != of_class)
        given[apart | ~live[:, None] | ~live | np.eye(K, dtype=bool)] = 0.0
        a, b = sorted(np.unravel_index(int(given.argmax()), given.shape))
        if given.max() <= share:
            break
        mass[a] += mass[b]
        mass[:, a] += mass[:, b]
        mass[b], mass[:, b] = 0.0, 0.0
        of_class[a], live[b] = max(of_class[a], of_class[b]), False
        home[home == home[b]] = home[a]
    return by_first_appearance(home)[1].astype(np.int64)
