"""Test quantities of clusters of units in groups: functions of the clusters and the data.

Slopes of the log joint by pseudo-counts are among them: no other quantity sees a wrong pseudo-count as early.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from expfam.evaluation.units import Units, group_counts, log_prior, slope_of_prior
from expfam.model.admixture import AdmixtureModel

SLOPE_ALPHA, SLOPE_ETA = "slope of the log prior in alpha", "slope of the log evidence in eta"
FIRST = "size of cluster 0"
_OF_UNITS = (
    "clusters",
    "largest cluster",
    "sum of squared sizes",
    "sum of squared sizes in groups",
    "clusters of a group",
    "rows 0 and 1",
    "rows of two groups",
    "log prior",
    SLOPE_ALPHA,
    "log evidence",
    "log joint",
)


class AdmixtureQuantities:
    """Test quantities of clusters of one set of units.

    Parameters
    ----------
    model : AdmixtureModel
        Bound.
    kind : TokenUnits or RowUnits
    units : Units
        In the order of the clusters.
    is_numbered : bool
        Whether quantities may depend on the numbers of clusters.

    Attributes
    ----------
    names : tuple of str
        Names of the quantities, in the order of the columns of `values`.
    """

    def __init__(self, model: AdmixtureModel, kind: Any, units: Units, *, is_numbered: bool = True) -> None:
        self.model, self.kind, self.units, self.is_numbered = model, kind, units, is_numbered
        self.names = names_of(kind, is_numbered=is_numbered)

    def values(self, labels: npt.NDArray[np.integer]) -> npt.NDArray[np.float64]:
        """Compute the quantities of (T, N) clusters: (T, Q) float64."""
        model, groups = self.model, self.units.groups
        alpha, N = model.pseudocounts, labels.shape[1]
        counts = group_counts(groups, labels, alpha.size)
        sizes = counts.sum(axis=1)
        a, b, c = _three_units(groups)
        prior = log_prior(alpha, groups, labels)
        evidence = self.kind.log_evidence(model, self.units, labels)
        columns = [
            (sizes > 0).sum(axis=1),
            sizes.max(axis=1),
            (sizes**2).sum(axis=1) / N**2,
            (counts**2).sum(axis=(1, 2)) / (counts.sum(axis=2) ** 2).sum(axis=1),
            (counts > 0).sum(axis=(1, 2)) / counts.shape[1],
            labels[:, a] == labels[:, b],
            labels[:, a] == labels[:, c],
            prior,
            slope_of_prior(alpha, groups, labels),
            evidence,
            prior + evidence,
        ]
        if hasattr(self.kind, "slope"):
            columns.append(self.kind.slope(model, self.units, labels))
        if self.is_numbered:
            columns.append(sizes[:, 0])
        return np.stack([np.asarray(column, dtype=np.float64) for column in columns], axis=1)


def names_of(kind: Any, *, is_numbered: bool = True) -> tuple[str, ...]:
    """Return the names of the quantities of a kind of units."""
    slope = (SLOPE_ETA,) if hasattr(kind, "slope") else ()
    return (*_OF_UNITS, *slope, *((FIRST,) if is_numbered else ()))


def _three_units(groups):
    """Return two units of the largest group and one of another, or the last one."""
    largest = int(np.bincount(groups).argmax())
    own, others = np.flatnonzero(groups == largest), np.flatnonzero(groups != largest)
    return own[0], own[-1], (others[0] if others.size else len(groups) - 1)
