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
    import numpy.typing as npt

    from expfam.protocols import Floats

_CELLS_AT_ONCE = 1 << 18  # sums that are not 0 of clusters whose prior densities are computed together
_COLUMNS_AT_ONCE = 1 << 12  # whose parameters are computed together
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
        return common - total * self.level + self._weighed_above(S, _narrowed(weights))

    def _weighed_above(self, S, weights):
        """Return the weighted sums of what parameters are above those of empty sums: (K,)."""
        above = self.cells - at_columns(self.empty, S.indices)
        above *= at_columns(weights, S.indices)
        return counts.row_sums(sparse.csr_array((above, S.indices, S.indptr), S.shape))

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


def log_prior_of_modes(family: Any, n: Floats, S: Any, levels: tuple[Floats, Floats]) -> Floats:
    """Return `NaturalCells.log_prior` of modes, which are computed for a few clusters at a time.

    Parameters
    ----------
    family : Multinomial or Poisson
        Bound.
    n : (K,) float64 ndarray
    S : (K, F) CSR
    levels : tuple of (K,) float64 ndarrays
        Result of `natural_levels` for modes.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from expfam import Multinomial
    >>> from expfam.families.counts.natural_cells import log_prior_of_modes, natural_cells, natural_levels
    >>> family, n, S = Multinomial(1.0).bind([[2, 0, 1]]), np.ones(1), sparse.csr_array([[0.0, 2.0, 3.0]])
    >>> found = log_prior_of_modes(family, n, S, natural_levels(family, n, S, mode=True))
    >>> bool(found == natural_cells(family, n, S, mode=True).log_prior(family, S))
    True
    """
    (level, g), K = levels, S.shape[0]
    size = max(1, _CELLS_AT_ONCE * K // max(S.nnz, 1))
    weights, empty = np.asarray(family.pseudocounts()[0], dtype=np.float64), _empty_parameters(family, mode=True)[2]
    common, total, weights = weights @ np.ascontiguousarray(empty), weights.sum(), _narrowed(weights)
    above = np.empty(K)
    for first in range(0, K, size):
        block = slice(first, min(first + size, K))
        sums = S[block]
        cells = natural_cells(family, n[block], sums, mode=True, levels=(level[block], g[block]))
        above[block] = cells._weighed_above(sums, weights)
    return common - total * level + above - (family.rate if isinstance(family, Poisson) else 0.0) * g


def above_by_column(family: Any, S: Any, occurring: Any = None, *, mode: bool = False) -> tuple[Floats, Any]:
    """Return `empty` of `natural_cells`, and `NaturalCells.by_column` with no array beside it.

    The sums are put in the order of the columns first, and the parameters are written over them.

    Parameters
    ----------
    family : Multinomial or Poisson
        Bound.
    S : (K, F) CSR
    occurring : OccurringColumns, optional
        As of `NaturalCells.by_column`.
    mode : bool
        As of `natural_cells`.

    Returns
    -------
    empty : (F,) float64 ndarray
    above : (K, F) or (K, U) CSC

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from expfam import Multinomial
    >>> from expfam.families.counts.natural_cells import above_by_column, natural_cells
    >>> family, S = Multinomial(1.0).bind([[2, 0, 1]]), sparse.csr_array([[0.0, 0.0, 3.0], [0.0, 2.0, 0.0]])
    >>> above, cells = above_by_column(family, S)[1], natural_cells(family, np.ones(2), S)
    >>> bool((above.toarray() == cells.by_column(S).toarray()).all())
    True
    """
    log, a, empty = _empty_parameters(family, mode)
    above = by_column(S.data, S, occurring)
    starts, values = above.indptr, above.data
    for first in range(0, above.shape[1], _COLUMNS_AT_ONCE):
        last = min(first + _COLUMNS_AT_ONCE, above.shape[1])
        columns = slice(first, last) if occurring is None else occurring.columns[first:last]
        part, lengths = values[starts[first] : starts[last]], np.diff(starts[first : last + 1])
        is_one = a.strides == (0,)
        part += a[0] if is_one else np.repeat(a[columns], lengths)
        log(part, out=part)
        part -= empty[0] if is_one else np.repeat(empty[columns], lengths)
    return empty, above


def _empty_parameters(family, mode):
    """Return the log or digamma function, the pseudo-counts, and this function of these."""
    log, a = np.log if mode else digamma, _narrowed(family.pseudocounts()[0])
    return log, a, np.broadcast_to(log(a[:1]), a.shape) if a.strides == (0,) else log(a)


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
    log, a, empty = _empty_parameters(family, mode)
    cells = S.data + at_columns(a, S.indices)
    level, g = natural_levels(family, n, S, mode=mode) if levels is None else levels
    return NaturalCells(empty, log(cells, out=cells), level, g)


def long_lists(n_clusters: int, starts: Any, clusters: Any, values: Any) -> tuple[npt.NDArray[np.int64], Any]:
    """Return the columns with long lists, and these as rows of a table.

    Parameters
    ----------
    n_clusters : int
        K.
    starts, clusters, values : (F + 1,), (n,) and (n,) ndarray
        The lists: `indptr`, `indices` and `data` of `NaturalCells.by_column`.

    Returns
    -------
    columns : (H,) int64 ndarray
        Ascending.
    table : (H, K) ndarray

    Examples
    --------
    >>> from scipy import sparse
    >>> from expfam.families.counts.natural_cells import long_lists
    >>> lists = sparse.csc_array([[0.0, 5.0], [2.0, 7.0], [0.0, 0.0], [0.0, 0.0]])
    >>> columns, table = long_lists(4, lists.indptr, lists.indices, lists.data)
    >>> columns.tolist(), table.tolist()
    ([1], [[5.0, 7.0, 0.0, 0.0]])
    """
    most, found = n_clusters // LIST_SHARE, [np.zeros(0, dtype=np.int64)]
    for first in range(0, len(starts) - 1, _COLUMNS_AT_ONCE):
        lengths = np.diff(starts[first : first + _COLUMNS_AT_ONCE + 1])
        found.append(first + np.flatnonzero(lengths > most))
    columns = np.concatenate(found)
    table = np.zeros((len(columns), n_clusters), dtype=values.dtype)
    for row, column in zip(table, columns):
        cells = slice(starts[column], starts[column + 1])
        row[clusters[cells]] = values[cells]
    return columns, table
