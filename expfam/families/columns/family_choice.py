"""Choice of the family of a column of numbers by evidence."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from expfam.families.columns.evidence import column_evidence, quantiles, spread_ties
from expfam.families.counts.poisson import Poisson
from expfam.families.gaussian.diagonal import DiagonalGaussian
from expfam.families.gaussian.lognormal import LogNormal
from expfam.families.support import ScaleError

if TYPE_CHECKING:
    from expfam.families.columns.roles import ColumnRole
    from expfam.protocols import Floats

_MOST_COUNTED = 2.0**53  # sums of counts beyond it are not exact, and refused
_TIED = 3.0  # nats of evidence; within them the simpler family is taken, first the Gaussian


def count_role(base: ColumnRole, values: Floats) -> ColumnRole:
    """Return the role of non-negative integers, with the family of the highest evidence.

    A negative binomial is not among them: its one size for all clusters keeps them wide, which on five tables of seven
    cost held-out density. You may ask for it by name.
    """
    counts = quantiles(values)
    cells = spread_ties(counts, 1.0)
    evidence = {"gaussian_diag": _evidence(DiagonalGaussian(), cells)}
    if values.sum() < _MOST_COUNTED:
        evidence["poisson"] = _evidence(Poisson(), counts)
    evidence["lognormal"] = _evidence(LogNormal(), cells + 0.5)
    best = _best(evidence)
    return replace(
        base,
        role="count",
        family=best,
        offset=0.5 if best == "lognormal" else 0.0,
    )


def positive_role(base: ColumnRole, values: Floats) -> ColumnRole:
    """Return the role of positive numbers: log-normal if its evidence is clearly higher.

    If nearly all values are equal, nothing tells the families apart, and the simpler one is taken.
    """
    values = quantiles(values)
    gaps = np.diff(values)
    gaps = gaps[gaps > 0]
    if not gaps.size:
        return replace(base, role="real", family=DiagonalGaussian.name)
    is_tied = 2 * (len(gaps) + 1) <= len(values)
    if is_tied and gaps.min() < 2.0 * values[0]:
        values = spread_ties(values, gaps.min())
    evidence = {"gaussian_diag": _evidence(DiagonalGaussian(), values)}
    evidence["lognormal"] = _evidence(LogNormal(), values)
    best = _best(evidence)
    return replace(base, role="positive" if best == "lognormal" else "real", family=best)


def _evidence(family, values):
    """Return the log evidence of a column, minus infinity if its scale is beyond the family.

    Where no family has the scale, the Gaussian stays, and refuses the column by name when it is bound.
    """
    try:
        return column_evidence(family, values)
    except ScaleError:
        return -np.inf


def _best(evidence):
    """Return the family of the highest evidence; a later one must be ahead by more than a tie."""
    best, *others = evidence
    for name in others:
        if evidence[name] > evidence[best] + _TIED:
            best = name
    return best
