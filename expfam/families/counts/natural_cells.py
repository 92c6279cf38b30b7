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
        Where columns share their pseudo-count it is one number for all of them, `numpy.broadcast_to` F columns.
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
        return by_column(self.above(S, dtype=dtype), S, occurring)

    def above(self, S: Any, *, dtype: Any = np.float64) -> Any:
        """Return how much parameters are above those of empty sums: (n,) of `dtype`."""
        above = np.empty(self.cells.shape, dtype=dtype)
        return np.subtract(self.cells, at_columns(self.empty, S.indices), out=above, casting="same_kind")

    def weighed(self, S: Any, weights: Floats) -> Floats:
        """Return sum_w weights[w] theta_kw of each cluster: (K,) float64.

        Parameters
        ----------
        S : (K, F) CSR
            The sums of these cells.
        weights : (F,) float64 ndarray
        """
        common, total = weights @ np.ascontiguousarray(self.empty), weights.sum()
        weights = _narrowed(weights)
        above = self.cells - at_columns(self.empty, S.indices)
        above *= at_columns(weights, S.indices)
        return common - total * self.level + counts.row_sums(sparse.csr_array((above, S.indices, S.indptr), S.shape))

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


def _narrowed(values):
    """Return numbers (F,) that are all the same as a view of one of them; others as they are."""
    return np.broadcast_to(values[:1].copy(), values.shape) if (values == values[0]).all() else values


def by_column(above: Any, S: Any, occurring: Any = None) -> Any:
    """Return numbers at the stored sums column by column; see `NaturalCells.by_column`."""
    columns = S.indices if occurring is None else occurring.place[S.indices]
    n_columns = S.shape[1] if occurring is None else occurring.columns.size
    return sparse.csr_array((above, columns, S.indptr), shape=(S.shape[0], n_columns)).tocsc()


def at_columns(values: Floats, columns: Any) -> Floats:
    """Return the numbers (F,) at some columns: one number, (1,), where all columns share it.

    Parameters
    ----------
    values : (F,) float64 ndarray
        As `NaturalCells.empty`.
    columns : (n,) int ndarray

    Examples
    --------
    >>> import numpy as np
    >>> from expfam.families.counts.natural_cells import at_columns
    >>> at_columns(np.array([5.0, 6.0]), [1, 1]).tolist(), at_columns(np.broadcast_to(7.0, 2), [1, 1]).tolist()
    ([6.0, 6.0], [7.0])
    """
    return values[:1] if values.strides == (0,) else values[columns]


def natural_levels(family: Any, n: Floats, S: Any, *, mode: bool = False) -> tuple[Floats, Floats]:
    """Return `level` and `g` of `natural_cells`, which cost no memory."""
    total = family.pseudocounts()[1] + counts.row_sums(S)
    if isinstance(family, Poisson):
        return np.log(family.rate + n), total / (family.rate + n)
    return (np.log if mode else digamma)(total), np.zeros(len(n))


def natural_cells(
    family: Any, n: Floats, S: Any, *, mode: bool = False, levels: tuple[Floats, Floats] | None = None
) -> NaturalCells:
    """Return what `expected_natural` does, or `map_natural` for modes, for sparse sums.

    Parameters
    ----------
    family : Multinomial or Poisson
        Bound.
    n : (K,) float64 ndarray
    S : (K, F) CSR
    mode : bool
        Whether the posterior mode is wanted in place of the mean.
    levels : tuple of (K,) float64 ndarrays, optional
        Result of `natural_levels`, where it is there.

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
    log, a = np.log if mode else digamma, _narrowed(family.pseudocounts()[0])
    empty = np.broadcast_to(log(a[:1]), a.shape) if a.strides == (0,) else log(a)
    cells = S.data + at_columns(a, S.indices)
    level, g = natural_levels(family, n, S, mode=mode) if levels is None else levels
    return NaturalCells(empty, log(cells, out=cells), level, g)


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
