"""Exact draws of the pseudo-counts of Dirichlet priors, given the counts of many draws of one category each.

Pseudo-counts a_k with sum A stand in prod_k G(a_k + n_dk) / G(a_k) and in G(A) / G(A + N_d). With the number of tables
of a Chinese restaurant for the former and a beta variable for the latter all a_k are gamma variables, independent of
each other. Costs a binomial draw for each number up to the largest count of a topic, and a beta draw a document.
"""

import numpy as np
from scipy.special import gammaln

PRIOR_SHAPE, PRIOR_RATE = 1.0, 1.0  # of the gamma prior of each pseudo-count
LEAST = 1e-10  # pseudo-count


class CountTable:
    """How often each count occurs under each pseudo-count: what their likelihood depends on.

    Parameters
    ----------
    keys : (M,) int64 array_like
        group * width + count, of all counts that are not 0.
    width : int
        Above the largest count.
    n_groups : int
        Number of pseudo-counts.

    Attributes
    ----------
    group, count, times : (P,) int64 ndarray
        Each pair that occurs and how often, sorted.

    Examples
    --------
    >>> from expfam.model.pseudo_counts import CountTable
    >>> table = CountTable([1, 1, 3, 6], width=4, n_groups=2)
    >>> list(zip(table.group.tolist(), table.count.tolist(), table.times.tolist()))
    [(0, 1, 2), (0, 3, 1), (1, 2, 1)]
    """

    def __init__(self, keys, *, width, n_groups):
        if n_groups * width <= 1 << 22:
            found = np.bincount(keys, minlength=1)
            pairs = np.flatnonzero(found)
            self.times = found[pairs]
        else:
            pairs, self.times = np.unique(keys, return_counts=True)
        self.group, self.count = np.divmod(pairs, width)
        self.n_groups = n_groups

    @classmethod
    def of_counts(cls, groups, counts, n_groups):
        """Table of counts, of which those that are 0 are left out, by their group."""
        width = int(counts.max(initial=0)) + 1
        keys = (np.asarray(groups, dtype=np.int64) * width + counts)[counts > 0]
        return cls(keys, width=width, n_groups=n_groups)

    @classmethod
    def of_histogram(cls, histogram):
        """Table of one group from how often each count occurs; that of 0 does not matter."""
        table = cls.__new__(cls)
        table.count = 1 + np.flatnonzero(histogram[1:])
        table.times = np.asarray(histogram)[table.count]
        table.group, table.n_groups = np.zeros(len(table.count), dtype=np.int64), 1
        return table

    def log_rising(self, a):
        """Sum of log G(a_k + n) - log G(a_k) over all counts; `a` (n_groups,)."""
        base = a[self.group]
        return float((self.times * (gammaln(base + self.count) - gammaln(base))).sum())

    def draw_tables(self, a, rng):
        """Number of tables of each group, (n_groups,): a customer j of its count opens one with a / (a + j)."""
        if not len(self.count):
            return np.zeros(self.n_groups)
        opens = np.flatnonzero(np.diff(self.group, prepend=-1))
        before = np.concatenate([[0], self.count[:-1]])
        before[opens] = 0
        # how many counts of the group are at least this one
        after = np.cumsum(self.times[::-1])[::-1]
        later = np.append(after[opens[1:]], 0)  # those of the groups that follow
        reach = after - np.repeat(later, np.diff(np.append(opens, len(after))))
        steps = self.count - before
        pair = np.repeat(np.arange(len(steps)), steps)
        j = np.arange(len(pair)) - np.repeat(np.cumsum(steps) - steps, steps) + before[pair]
        base = a[self.group[pair]]
        drawn = rng.binomial(reach[pair], base / (base + j))
        return np.bincount(self.group[pair], weights=drawn, minlength=self.n_groups)


def draw_log_beta(a, b, rng):
    """Logs of Beta(a, b) variables, whose values may be too small for a double; `b` an array of positive numbers."""
    x, y = (np.log(rng.standard_gamma(c + 1.0, np.shape(b))) + np.log1p(-rng.random(np.shape(b))) / c for c in (a, b))
    return x - np.logaddexp(x, y)


def draw_pseudocounts(a, table, totals, rng):
    """Pseudo-counts of each category from their conditional law given all counts.

    Parameters
    ----------
    a : (K,) float64 ndarray
        The present ones.
    table : CountTable
        Of the counts of each category.
    totals : (D,) array_like
        Sum of counts of each draw; 0 is left out.
    rng : numpy.random.Generator

    Returns
    -------
    (K,) float64 ndarray

    Notes
    -----
    Auxiliary variables of Teh, Jordan, Beal and Blei 2006, "Hierarchical Dirichlet processes", appendix A. The
    prior is Gamma(1, 1) for each.
    """
    totals = np.asarray(totals, dtype=np.float64)
    logs = draw_log_beta(a.sum(), totals[totals > 0], rng)
    return positive(rng.standard_gamma(PRIOR_SHAPE + table.draw_tables(a, rng)) / (PRIOR_RATE - logs.sum()))


def draw_shared_pseudocount(a, size, table, totals, rng):
    """One pseudo-count for all `size` categories from its conditional law; arguments as of `draw_pseudocounts`."""
    totals = np.asarray(totals, dtype=np.float64)
    logs = draw_log_beta(size * a, totals[totals > 0], rng)
    shape = PRIOR_SHAPE + table.draw_tables(np.array([a]), rng)[0]
    return float(positive(rng.standard_gamma(shape) / (PRIOR_RATE - size * logs.sum())))


def positive(a):
    """At least `LEAST`: smaller ones are the same to every count, and would end as 0."""
    return np.maximum(a, LEAST)


__all__ = ["CountTable", "draw_log_beta", "draw_pseudocounts", "draw_shared_pseudocount"]
