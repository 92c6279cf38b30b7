"""Posterior means and modes of parameters of counts, from the sums that are not 0.

All parameters of a column whose sum is 0 differ by a level of the cluster alone, so the cost is that of the cells.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.special import digamma

from expfam.families.counts import pseudocounts as counts
from expfam.families.counts.multinomial import Multinomial
from expfam.families.counts.poisson import Poisson

if TYPE_CHECKING:
    from expfam.protocols import Floats

LIST_SHARE = 4  # of the clusters: columns with longer lists are scored faster from a table

_FORMULAS = {
    False: frozenset({"expected_natural", "log_marginal"}),
    True: frozenset({"map_natural", "log_prior", "log_partition"}),
}


class NaturalCells(NamedTuple):
    """Means or modes of theta and g of K clusters.

    theta_kw is ``empty[w] - level[k]`` where the sum S_kw is 0.

    Attributes
    ----------
    empty : (F,) float64 ndarray
    cells : (n,) float64 ndarray
        At the stored sums, in their order: theta_kw is ``cells - level[k]``.
    level, g : (K,) float64 ndarray
    """

    empty: Floats
    cells: Floats
    level: Floats
    g: Floats

    def by_column(self, S: Any, occurring: Any = None, *, dtype: Any = np.float64) -> Any:
        """Return how much parameters are above those of empty sums, column by column.

        Parameters
        ----------
        S : (K, F) CSR
            The sums of these cells.
        occurring : OccurringColumns, optional
            Columns that the result has; all if not given.
        dtype : dtype

        Returns
        -------
        (K, F) or (K, U) CSC
        """
        above = self.empty[S.indices]
        above = np.subtract(self.cells, above, out=above).astype(dtype, copy=False)
        all_columns = sparse.csr_array((above, S.indices, S.indptr), shape=S.shape)
        return (all_columns if occurring is None else occurring.narrow(all_columns)).tocsc()

    def weighed(self, S: Any, weights: Floats) -> Floats:
        """Return sum_w weights[w] theta_kw of each cluster: (K,) float64.

        Parameters
        ----------
        S : (K, F) CSR
            The sums of these cells.
        weights : (F,) float64 ndarray
        """
        above = (self.cells - self.empty[S.indices]) * weights[S.indices]
        sums = counts.row_sums(sparse.csr_array((above, S.indices, S.indptr), shape=S.shape))
        return weights @ self.empty - weights.sum() * self.level + sums

    def log_prior(self, family: Any, S: Any) -> Floats:
        """Return what `log_prior` of the family does, for modes: (K,) nats."""
        rate = family.rate if isinstance(family, Poisson) else 0.0
        return self.weighed(S, np.asarray(family.pseudocounts()[0], dtype=np.float64)) - rate * self.g


def has_natural_cells(family: Any, *, mode: bool = False) -> bool:
    """Return whether `natural_cells` takes a family.

    It takes multinomial and Poisson families with the formulas of these classes.

    Parameters
    ----------
    family : Family
    mode : bool
        As of `natural_cells`.

    Examples
    --------
    >>> from expfam import DiagonalGaussian, Multinomial
    >>> from expfam.families.counts.natural_cells import has_natural_cells
    >>> has_natural_cells(Multinomial()), has_natural_cells(DiagonalGaussian())
    (True, False)
    """
    for ancestor in type(family).__mro__:
        if ancestor in (Multinomial, Poisson):
            return True
        if _FORMULAS[mode] & ancestor.__dict__.keys():
            return False
    return False


def natural_cells(family: Any, n: Floats, S: Any, *, mode: bool = False) -> NaturalCells:
    """Return what `expected_natural` does, or `map_natural` for modes, for sparse sums.

    Parameters
    ----------
    family : Multinomial or Poisson
        Bound.
    n : (K,) float64 ndarray
    S : (K, F) CSR
    mode : bool
        Whether the posterior mode is wanted in place of the mean.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from expfam import Multinomial
    >>> from expfam.families.counts.natural_cells import natural_cells
    >>> family, S = Multinomial(1.0).bind([[2, 0, 1]]), np.array([[0.0, 0.0, 3.0]])
    >>> found = natural_cells(family, np.array([1.0]), sparse.csr_array(S))
    >>> np.allclose([*found.empty[:2], *found.cells] - found.level, family.expected_natural(np.ones(1), S)[0])
    True
    """
    a, prior = family.pseudocounts()
    total = prior + counts.row_sums(S)
    log = np.log if mode else digamma
    level, g = log(total), np.zeros(len(n))
    if isinstance(family, Poisson):
        level, g = np.log(family.rate + n), total / (family.rate + n)
    return NaturalCells(log(a), log(a[S.indices] + S.data), level, g)


def long_lists(by_column: Any) -> tuple[Any, Any]:
    """Return the columns with long lists as rows of a table.

    Parameters
    ----------
    by_column : (K, F) CSC
        Result of `NaturalCells.by_column`.

    Returns
    -------
    rows : (F,) int32 ndarray
        Row of the table of each column, -1 for one with a short list.
    table : (H, K) ndarray

    Examples
    --------
    >>> from scipy import sparse
    >>> from expfam.families.counts.natural_cells import long_lists
    >>> rows, table = long_lists(sparse.csc_array([[0.0, 5.0], [2.0, 7.0], [0.0, 0.0], [0.0, 0.0]]))
    >>> rows.tolist(), table.tolist()
    ([-1, 0], [[5.0, 7.0, 0.0, 0.0]])
    """
    is_long = np.diff(by_column.indptr) > by_column.shape[0] // LIST_SHARE
    rows = np.where(is_long, np.cumsum(is_long) - 1, -1).astype(np.int32)
    return rows, np.ascontiguousarray(by_column[:, is_long].toarray().T)
