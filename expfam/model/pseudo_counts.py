"""Exact draws of the pseudo-counts of Dirichlet priors, given counts of categories.

Pseudo-counts a_k with sum A occur in the likelihood as prod_k G(a_k + n_dk) / G(a_k) and G(A) / G(A + N_d), where G is
the gamma function. Two auxiliary variables make all a_k independent gamma variables: for the first factor the number of
tables of a Chinese restaurant process, for the second a beta variable. The cost is one binomial draw for each number up
to the largest count of a topic, and one beta draw for each document.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln

PRIOR_SHAPE, PRIOR_RATE = 1.0, 1.0  # of the gamma prior of each pseudo-count
LEAST = 1e-10  # smallest pseudo-count
_LONG = 4  # beta variables that cost as much as the gamma variable of one place


class CountTable:
    """Table of how often each count occurs for each pseudo-count.

    The likelihood of the pseudo-counts depends on the counts only through this table. `keys` are group * width + count
    for every count that is not 0; `width` is larger than the largest count. The attributes `group`, `count` and
    `times`, (P,) int64 each, are the pairs (group, count) that occur, sorted, and how often each occurs.
    """

    def __init__(self, keys: npt.ArrayLike, *, width: int, n_groups: int) -> None:
        self.times: np.ndarray
        if n_groups * width <= 1 << 22:
            found = np.bincount(keys, minlength=1)
            pairs = np.flatnonzero(found)
            self.times = found[pairs]
        else:
            pairs, self.times = np.unique(keys, return_counts=True)
        self.group, self.count = np.divmod(pairs, width)
        self.n_groups = n_groups

    @classmethod
    def of_counts(cls, groups: npt.ArrayLike, counts: np.ndarray, n_groups: int) -> CountTable:
        """Return the table of `counts` by their groups; counts of 0 are left out."""
        width = int(counts.max(initial=0)) + 1
        keys = (np.asarray(groups, dtype=np.int64) * width + counts)[counts > 0]
        return cls(keys, width=width, n_groups=n_groups)

    @classmethod
    def of_pairs(cls, group: np.ndarray, count: np.ndarray, times: np.ndarray, n_groups: int) -> CountTable:
        """Return the table of pairs (group, count), sorted, that occur `times` often.

        Parameters
        ----------
        group, count, times : (P,) int64 ndarrays
            Group and count of each pair, and how often it occurs.
        n_groups : int
        """
        table = cls.__new__(cls)
        table.group, table.count, table.times, table.n_groups = group, count, times, n_groups
        return table

    @classmethod
    def of_histogram(cls, histogram: np.ndarray) -> CountTable:
        """Return the table of one group; histogram[c] says how often the count c occurs.

        histogram[0] is ignored.
        """
        table = cls.__new__(cls)
        table.count = 1 + np.flatnonzero(histogram[1:])
        table.times = np.asarray(histogram)[table.count]
        table.group, table.n_groups = np.zeros(len(table.count), dtype=np.int64), 1
        return table

    def without(self, counts: npt.ArrayLike) -> CountTable:
        """Return the table of one group without some of its counts; counts of 0 change nothing."""
        left, found = self.times.copy(), np.asarray(counts, dtype=np.int64)
        np.subtract.at(left, np.searchsorted(self.count, found[found > 0]), 1)
        return CountTable.of_pairs(self.group[left > 0], self.count[left > 0], left[left > 0], 1)

    def log_rising(self, a: npt.NDArray[np.float64]) -> float:
        """Return the sum of log G(a_k + n) - log G(a_k) over all counts; `a` is (n_groups,)."""
        base = a[self.group]
        return float((self.times * (gammaln(base + self.count) - gammaln(base))).sum())

    def draw_tables(self, a: npt.NDArray[np.float64], rng: np.random.Generator) -> np.ndarray:
        """Draw the number of tables of each group: (n_groups,) float64.

        Customer j = 0, 1, ... of a count opens a new table with probability a / (a + j).
        """
        if not len(self.count):
            return np.zeros(self.n_groups)
        opens = np.flatnonzero(np.diff(self.group, prepend=-1))
        before = np.concatenate([[0], self.count[:-1]])
        before[opens] = 0
        # `reach`: how many counts of the same group are at least as large as this one
        after = np.cumsum(self.times[::-1])[::-1]
        later = np.append(after[opens[1:]], 0)  # counts of the groups that follow
        reach = after - np.repeat(later, np.diff(np.append(opens, len(after))))
        steps = self.count - before
        pair = np.repeat(np.arange(len(steps)), steps)
        j = np.arange(len(pair)) - np.repeat(np.cumsum(steps) - steps, steps) + before[pair]
        base = a[self.group[pair]]
        drawn = rng.binomial(reach[pair], base / (base + j))
        return np.bincount(self.group[pair], weights=drawn, minlength=self.n_groups)


def draw_log_beta(a: npt.ArrayLike, b: npt.NDArray[np.float64], rng: np.random.Generator) -> npt.NDArray[np.float64]:
    """Draw logs of Beta(a, b) variables.

    The variables themselves can be too small for a double.

    Parameters
    ----------
    a : float or (n,) array_like of float
        One number, or as many as `b` has.
    b : (n,) float64 ndarray
    rng : numpy Generator

    Returns
    -------
    (n,) float64 ndarray
    """
    x, y = (
        np.log(rng.standard_gamma(c + 1.0, np.shape(b))) + np.log1p(-rng.random(np.shape(b))) / c
        for c in (np.asarray(a), b)
    )
    return x - np.logaddexp(x, y)


def draw_log_beta_sum(a: float, totals: npt.NDArray[np.float64], rng: np.random.Generator) -> float:
    """Draw the sum of logs of Beta(a, n) variables, one for each n of `totals`.

    Parameters
    ----------
    a : float
    totals : (D,) ndarray
        Positive whole numbers.
    rng : numpy Generator

    Notes
    -----
    Beta(a, n) is the product of Beta(a + j, 1) variables for j = 0..n-1, and -log of one of these is exponential with
    the rate a + j. All totals above j share that rate: the sum of their variables is one gamma variable.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam.model.pseudo_counts import draw_log_beta_sum
    >>> draw_log_beta_sum(1.0, np.full(100_000, 2), np.random.default_rng(0)) / 100_000 + 1.5 < 0.01
    True
    """
    if not len(totals):
        return 0.0
    if totals.max() > _LONG * len(totals):
        return float(draw_log_beta(a, totals, rng).sum())
    longer = len(totals) - np.cumsum(np.bincount(np.asarray(totals, dtype=np.int64)))[:-1]
    return -float((rng.standard_gamma(longer) / (a + np.arange(len(longer)))).sum())


def draw_concentration(
    a: float, n_tables: float, totals: npt.NDArray[np.float64], rng: np.random.Generator, n_known: int = 0
) -> float:
    """Draw a concentration under a Gamma(1, 1) prior.

    `n_tables` tables were opened by as many rows as `totals` says, one process for each of them, beside `n_known` that
    were there before and weigh 1 each.
    """
    logs = draw_log_beta_sum(a + n_known, totals, rng)
    return float(positive(rng.standard_gamma(PRIOR_SHAPE + n_tables) / (PRIOR_RATE - logs)))


def draw_pseudocounts(
    a: npt.NDArray[np.float64], table: CountTable, totals: npt.ArrayLike, rng: np.random.Generator
) -> npt.NDArray[np.float64]:
    """Draw the pseudo-count of each category given all counts.

    Parameters
    ----------
    a : (K,) float64 ndarray
        Present pseudo-counts.
    table : CountTable
        Counts; its groups are the categories.
    totals : (D,) array_like of float
        Sum of the counts of each document or group; sums of 0 are left out.
    rng : numpy Generator

    Returns
    -------
    (K,) float64 ndarray

    Notes
    -----
    The auxiliary variables are those of Teh, Jordan, Beal and Blei 2006, "Hierarchical Dirichlet processes", appendix
    A. The prior of each pseudo-count is Gamma(1, 1).
    """
    totals = np.asarray(totals, dtype=np.float64)
    logs = draw_log_beta(a.sum(), totals[totals > 0], rng)
    return positive(rng.standard_gamma(PRIOR_SHAPE + table.draw_tables(a, rng)) / (PRIOR_RATE - logs.sum()))


def draw_gamma_above(shape: float, rate: float, least: float, rng: np.random.Generator) -> float:
    """Draw a gamma variable given that it is at least `least`.

    Parameters
    ----------
    shape : float
        At least 1.
    rate, least : float
    rng : numpy Generator

    Notes
    -----
    Beyond the mode the proposals are exponential variables from the bound on, with the rate of Dagpunar 1978, "Sampling
    of variates from a truncated gamma distribution", for which most are accepted however far out the bound lies.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam.model.pseudo_counts import draw_gamma_above
    >>> 0.01 <= draw_gamma_above(1000.0, 1e6, 0.01, np.random.default_rng(0)) < 0.0101
    True
    """
    low = rate * least
    if low <= shape:  # more than a third of all gamma variables are above
        while (x := float(rng.standard_gamma(shape))) < low:
            pass
        return x / rate
    falls = (low - shape + math.sqrt((low - shape) ** 2 + 4.0 * low)) / (2.0 * low)
    rises = max(1.0 - falls, LEAST)
    top = max(low, (shape - 1.0) / rises)  # where the density is largest beside that of the proposals
    while True:
        x = low + rng.standard_exponential() / falls
        if -rng.standard_exponential() <= (shape - 1.0) * math.log(x / top) - rises * (x - top):
            return x / rate


def draw_shared_pseudocount(
    a: float,
    size: int,
    table: CountTable,
    totals: npt.ArrayLike,
    rng: np.random.Generator,
    *,
    least: float = 0.0,
    seeds: tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]] | None = None,
) -> float:
    """Draw the one pseudo-count that all categories share, given all counts.

    Parameters
    ----------
    a : float
        Present pseudo-count.
    size : int
        Number of categories.
    table : CountTable
        Counts, in one group.
    totals, rng
        As in `draw_pseudocounts`.
    least : float
        Smallest value. If it is not 0, the prior is exponential from there on, with this mean beyond it; else it is
        Gamma(1, 1).
    seeds : tuple of three ndarrays, optional
        What some cells have beside the pseudo-count: count and seeds of each such cell, which `table` counts as any
        other, and the sum of the seeds for each of `totals`.

    Returns
    -------
    float
    """
    totals = np.asarray(totals, dtype=np.float64)
    seeded = 0.0 if seeds is None else seeds[2][totals > 0]
    logs = draw_log_beta(size * a + seeded, totals[totals > 0], rng)
    drawn = (table if seeds is None else table.without(seeds[0])).draw_tables(np.array([a]), rng)[0]
    if seeds is not None:  # each factor a + seeds + i is the pseudo-count with the probability that it has of it
        counts = np.asarray(seeds[0], dtype=np.int64)
        i = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        drawn += np.count_nonzero(rng.random(len(i)) * (a + np.repeat(seeds[1], counts) + i) < a)
    shape = PRIOR_SHAPE + drawn
    rate = 1.0 / least if least else PRIOR_RATE
    return float(positive(draw_gamma_above(shape, rate - size * logs.sum(), least, rng)))


def positive(a: Any) -> Any:
    """Raise pseudo-counts below `LEAST` to `LEAST`.

    Smaller pseudo-counts give the same probabilities and could underflow to 0.
    """
    return np.maximum(a, LEAST)
