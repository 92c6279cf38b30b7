"""Compiled components of one column of angles: those of points of the circle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from expfam.families.directions._von_mises_fisher import VonMisesFisherComponents

if TYPE_CHECKING:
    import numpy.typing as npt

    from expfam.protocols import Floats


class AngleComponents(VonMisesFisherComponents):
    """Owner of the statistics of clusters of one column of `VonMises`."""

    def __init__(self, family: Any, data: Any, capacity: int) -> None:
        self.angles = family
        super().__init__(family.circle(0), PointsOfAngles(data, family), capacity)

    def set_data(self, data: Any) -> None:
        """Read the rows of another data set."""
        super().set_data(PointsOfAngles(data, self.angles))  # type: ignore[misc]

    def rebind(self, family: Any) -> None:
        """Use the hyper-parameters of another family with the same statistics."""
        self.angles = family
        super().rebind(family.circle(0))  # type: ignore[misc]


class PointsOfAngles:
    """A data set of one column of angles as points of the circle, as components read it."""

    def __init__(self, data: Any, family: Any) -> None:
        self.data, self.is_sparse = data, False
        self.X = np.ascontiguousarray(family.sufficient_statistics(data.X))
        self.n_rows, self.n_features = self.X.shape
        self.n_statistics = 2

    def statistics(self, labels: npt.NDArray[Any], n_clusters: int) -> tuple[Floats, Any]:
        """Return counts and sums of the statistics of clusters."""
        n, S = self.data.statistics(labels, n_clusters)
        return n, S
