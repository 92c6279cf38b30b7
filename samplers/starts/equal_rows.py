"""Ascents after which equal rows have equal labels.

An ascent that may not empty a cluster holds a row back in it, and one that ends before its first pass keeps the given
labels. Rows that are equal can then have different labels, although the model cannot tell them apart.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from expfam.model.data import Dataset
from expfam.model.equal_rows import first_equal_rows
from expfam.model.partitions import compact_labels
from expfam.samplers.starts.ascent import Ascents, Summit

if TYPE_CHECKING:
    from expfam.model.mixture import MixtureModel


class EqualRows:
    """Ascents of the log joint with equal labels of equal rows.

    Parameters
    ----------
    model, data : bound MixtureModel and Dataset
    n_threads : int or None
        The labels do not depend on it.

    Examples
    --------
    >>> from expfam import Dataset, DiagonalGaussian, MixtureModel, SymmetricDirichlet
    >>> from expfam.samplers.starts.equal_rows import EqualRows
    >>> data = Dataset([[0.0], [0.0], [0.0], [1.0], [1.0], [1.0]], DiagonalGaussian())
    >>> model = MixtureModel(data.family, SymmetricDirichlet(3, 1.0))
    >>> EqualRows(model, data).climb([0, 0, 1, 2, 2, 2], keep_clusters=True, max_passes=5).labels
    array([0, 0, 0, 1, 1, 1], dtype=int32)
    """

    def __init__(self, model: MixtureModel, data: Dataset, *, n_threads: int | None = None) -> None:
        self.data, self.ascents = data, Ascents(model, data, n_threads=n_threads)

    @cached_property
    def first(self) -> npt.NDArray[np.intp]:
        """Return the first row that is equal to each row: (N,) intp."""
        return first_equal_rows(self.data.X)

    @property
    def n_distinct(self) -> int:
        """Return how many rows are distinct."""
        return int(np.count_nonzero(self.first == np.arange(len(self.first))))

    def log_joint(self, labels: npt.ArrayLike) -> float:
        """Return the log joint of labels 0..K-1, nats, without log-base; clusters may hold no row."""
        return self.ascents.log_joint(labels)

    def climb(self, labels: npt.ArrayLike, *, keep_clusters: bool, max_passes: int, least: float = -np.inf) -> Summit:
        """Ascend from labels as `ascend` does, and join equal rows that it leaves apart.

        Parameters
        ----------
        labels : (N,) array_like of non-negative int
        keep_clusters : bool
            Whether no cluster may lose all its rows, except to rows that are equal to them.
        max_passes : int
            Of each ascent.
        least : float
            Log joint that is wanted: the first ascent ends early where this is out of reach.

        Returns
        -------
        Summit
            Labels without gaps, where rows were joined.
        """
        settings: dict[str, Any] = {"keep_clusters": keep_clusters, "max_passes": max_passes}
        settings |= {"first_equal": lambda: self.first}
        summit = self.ascents.climb(labels, least=least, **settings)
        if summit.is_hopeless:
            return summit
        for _ in range(int(summit.labels.max()) + 1):  # each time a cluster is lost, or the next ascent moves no row
            joined = self._joined(summit)
            if joined is None:
                return summit
            summit = self.ascents.climb(joined, **settings)
        joined = self._joined(summit)
        return summit if joined is None else Summit(joined, summit.most_probable)

    def _joined(self, summit):
        """Return labels in which equal rows are together that were not, None if all were.

        They have the most probable cluster of the first of them. Rows of two classes are not equal, and linked rows
        stay where they are.
        """
        labels, wanted, known = summit.labels, summit.most_probable, self.data.known
        if known is None and (labels is wanted or (labels == wanted).all()):
            return None
        rows, name = np.arange(len(labels)), self.first
        if known is not None:
            rows = np.setdiff1d(rows, known.grouped_rows)
            name = name if known.classes is None else name * (known.n_classes + 1) + known.classes + 1
        _, leader, group = np.unique(name[rows], return_index=True, return_inverse=True)
        is_apart = np.zeros(len(leader), dtype=bool)
        is_apart[group[labels[rows] != labels[rows[leader]][group]]] = True
        moved = is_apart[group]
        if not moved.any():
            return None
        joined = labels.copy()
        joined[rows[moved]] = wanted[rows[leader]][group[moved]]
        return compact_labels(joined)
