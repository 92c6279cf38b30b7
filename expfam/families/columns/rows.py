"""Rows of a table as the data set that components read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from expfam.families.support import dense_rows

if TYPE_CHECKING:
    import numpy.typing as npt

    from expfam.protocols import Floats


class Rows:
    """Rows of a bound family, with the attributes of a data set that components read."""

    def __init__(self, X: npt.NDArray[Any], family: Any) -> None:
        self.X, self.family = X, family
        self.n_rows, self.n_features = (int(size) for size in X.shape)
        self.n_statistics = int(family.n_statistics_)
        self.is_sparse = False

    def phi(self, start: int, stop: int) -> Floats:
        """Return the statistics of the rows start..stop-1: (stop - start, F) float64."""
        return np.ascontiguousarray(dense_rows(self.family.sufficient_statistics(self.X[start:stop])))
