"""Choice of the family of a column of numbers by evidence, before there are clusters.

The values are sorted, and clusters are runs of neighbours. The evidence of a Dirichlet process with concentration 1 is
summed over all partitions into runs, in O(m**2) for m values. At most 200 quantiles stand for a column, so the result
does not depend on the order of the rows.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import gammaln

from expfam.families.counts.poisson import Poisson
from expfam.families.gaussian.diagonal import DiagonalGaussian
from expfam.families.gaussian.lognormal import LogNormal
from expfam.families.support import ScaleError, dense_rows

if TYPE_CHECKING:
    from expfam.families.base import Family
    from expfam.families.columns.roles import ColumnRole
    from expfam.protocols import Floats

_MOST_COUNTED = 2.0**53  # sums of counts beyond it are not exact, and refused
_TIED = 3.0  # nats of evidence; within them the simpler family is taken, first the Gaussian
_MOST_VALUES = 200


def count_role(base: ColumnRole, values: Floats, times: Any = None) -> ColumnRole:
    """Return the role of non-negative integers, with the family of the highest evidence.

    A negative binomial is not among them: its one size for all clusters keeps them wide, which on five tables of seven
    cost held-out density. You may ask for it by name.
    """
    counts = quantiles(values, times)
    cells = spread_ties(counts, 1.0)
    evidence = {"gaussian_diag": _evidence(DiagonalGaussian(), cells)}
    if (values if times is None else values * times).sum() < _MOST_COUNTED:
        evidence["poisson"] = _evidence(Poisson(), counts)
    evidence["lognormal"] = _evidence(LogNormal(), cells + 0.5)
    best = _best(evidence)
    return replace(
        base,
        role="count",
        family=best,
        offset=0.5 if best == "lognormal" else 0.0,
    )


def positive_role(base: ColumnRole, values: Floats, times: Any = None) -> ColumnRole:
    """Return the role of positive numbers: log-normal if its evidence is clearly higher.

    If nearly all values are equal, nothing tells the families apart, and the simpler one is taken.
    """
    values = quantiles(values, times)
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


def quantiles(values: Floats, times: Any = None) -> Floats:
    """Return at most 200 values of a sorted column, evenly spaced by rank: (m,).

    `times` says how many rows each value stands for; without it, one.
    """
    n = len(values) if times is None else int(times.sum())
    m = min(n, _MOST_VALUES)
    ranks = ((np.arange(m) + 0.5) * n / m).astype(np.intp)
    return values[ranks if times is None else np.searchsorted(np.cumsum(times), ranks, side="right")]


def spread_ties(values: Floats, resolution: float) -> Floats:
    """Return sorted values with repeats spread evenly over the cell that rounding made them of.

    A density of the result is the probability of the cells, up to their width: without this a continuous family would
    gain without end from repeated values.
    """
    starts = np.flatnonzero(np.diff(values, prepend=-np.inf))
    sizes = np.diff(np.append(starts, len(values)))
    rank = np.arange(len(values)) - np.repeat(starts, sizes)
    return values + resolution * ((rank + 0.5) / np.repeat(sizes, sizes) - 0.5)


def column_evidence(family: Family, values: Floats) -> float:
    """Return the log evidence of sorted values under a family, summed over partitions.

    Parameters
    ----------
    family : Family
        An unbound family.
    values : (m,) float64 ndarray, sorted

    Returns
    -------
    float
        Nats, log base measure included.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import DiagonalGaussian
    >>> from expfam.families.columns.kinds.choice import column_evidence
    >>> near, far = np.sort([0.1, 0.2, 5.1, 5.2]), np.array([0.1, 1.9, 3.4, 5.2])
    >>> column_evidence(DiagonalGaussian(), near) > column_evidence(DiagonalGaussian(), far)
    True
    """
    X = np.asarray(values, dtype=np.float64)[:, None]
    m = len(X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        bound: Any = family.bind(X)
    phi = dense_rows(bound.sufficient_statistics(X))
    sums = np.concatenate([np.zeros((1, phi.shape[1])), np.cumsum(phi, axis=0)])
    first, last = np.triu_indices(m + 1, 1)
    n = (last - first).astype(np.float64)
    gain = np.full((m + 1, m + 1), -np.inf)
    gain[first, last] = bound.log_marginal(n, sums[last] - sums[first]) + gammaln(n)
    total = np.zeros(m + 1)
    for stop in range(1, m + 1):
        total[stop] = np.logaddexp.reduce(total[:stop] + gain[:stop, stop])
    return float(total[m] - gammaln(m + 1.0) + np.sum(bound.log_base(X)))
