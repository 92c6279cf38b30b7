"""Evidence of one column under one family, to choose a family before there are clusters.

The values are sorted, and clusters are runs of neighbours. The evidence of a Dirichlet process with concentration 1 is
summed over all partitions into runs, in O(m**2) for m values. At most 200 quantiles stand for a column, so the result
does not depend on the order of the rows.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import gammaln

from expfam.families.support import dense_rows

if TYPE_CHECKING:
    from expfam.families.base import Family
    from expfam.protocols import Floats

_MOST_VALUES = 200


def quantiles(values: Floats) -> Floats:
    """Return at most 200 values of a sorted column, evenly spaced by rank: (m,)."""
    m = min(len(values), _MOST_VALUES)
    return values[((np.arange(m) + 0.5) * len(values) / m).astype(np.intp)]


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
    >>> from expfam.families.columns.evidence import column_evidence
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
