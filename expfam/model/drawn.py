"""What is kept of a draw of the partition, when the rows are gone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from expfam.families.base import Family
    from expfam.protocols import Floats


class DrawnStatistics(NamedTuple):
    """Statistics of the clusters of one draw.

    Attributes
    ----------
    family : Family
        Bound, with the hyper-parameters of the draw.
    n, S : (K_m,) and (K_m, F)
        Statistics of its clusters, S dense or CSR.
    home : (K_m, K) float64 ndarray
        Share of the rows of each cluster that each cluster of the labels holds.
    """

    family: Family
    n: Floats
    S: Any
    home: Floats
