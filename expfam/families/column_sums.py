"""Sums and means of the columns of data.

Their bits are the same for any order of the rows, for any division into parts, and for dense and CSR data.
Whole numbers are added as they are, because their sums are exact. Other numbers are added in pieces that are never
rounded, see `expfam.structures.rows.exact_sums`. The cost is O(N V) or O(nnz), in blocks; the data are not copied.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from expfam.engines.parts import Least
from expfam.families.all_rows import AllRows, Block, RowsHere
from expfam.families.support import first_where
from expfam.structures.rows.exact_sums import MOST, ExactSums, column_extremes, lifts, total_of

if TYPE_CHECKING:
    import numpy.typing as npt

    from expfam.protocols import Floats

_CELLS = 1 << 18  # of dense rows that are read together
_ENTRIES = 1 << 20  # stored entries of CSR data that are read together


def column_sums(X: Any, weight: Floats | None = None) -> Floats:
    """Return the sum of each column, weighted by the rows' weights: (V,) float64.

    Parameters
    ----------
    X : (N, V) ndarray or CSR, finite
        The sum of a column with a term above 2^900 is infinite.
    weight : (N,) float64, optional

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from expfam.families.column_sums import column_sums
    >>> X = np.array([[0.1, 0.0], [0.2, 3.0], [0.3, 0.0]])
    >>> column_sums(X, np.array([2.0, 1.0, 0.0]))
    array([0.4, 3. ])
    >>> bool((column_sums(X) == column_sums(sparse.csr_array(X[::-1]))).all())
    True
    """
    return sums_of_rows(RowsHere(X, weight))


def sums_of_rows(rows: AllRows) -> Floats:
    """Return the weighted sum of each column of all rows: (V,) float64.

    >>> import numpy as np
    >>> from expfam.families.all_rows import RowsHere
    >>> from expfam.families.column_sums import sums_of_rows
    >>> sums_of_rows(RowsHere(np.array([[0.1, 3.0], [0.2, 1.0]])))
    array([0.3, 4. ])
    """
    if not rows.is_weighted and not rows.total(has_fractions):
        return np.asarray(rows.total(whole_sums), dtype=np.float64)
    bounds = -rows.total(negative_bounds).values
    pieces = rows.total(Pieces(np.where(bounds <= MOST, bounds, 0.0), rows.n_rows))
    return np.where(bounds <= MOST, total_of(pieces), np.inf)


def means_of_rows(rows: AllRows) -> Floats:
    """Return the weighted mean of each column of all rows: (V,) float64."""
    return sums_of_rows(rows) / rows.total_weight


def mean_squares_of_rows(rows: AllRows) -> Floats:
    """Return the weighted mean of the squares of each column of all rows: (V,) float64."""
    return means_of_rows(rows.mapped(_squares, rows.n_columns))


def _squares(X: Any) -> Any:
    if sparse.issparse(X):
        return sparse.csr_array((X.data.astype(np.float64) ** 2, X.indices, X.indptr), X.shape)
    return X.astype(np.float64) ** 2


# ---- questions that the rows answer ----------------------------------------------------------------------------------


def has_fractions(block: Block) -> npt.NDArray[np.bool_]:
    """Say whether a cell is no whole number; answers are joined by "or"."""
    is_whole = block.X.dtype.kind != "f" or first_where(block.X, lambda v: v != np.rint(v)) is None
    return np.array(not is_whole)


def whole_sums(block: Block) -> Floats:
    """Return the sum of each column of whole numbers: (V,) float64."""
    X = block.X
    if not sparse.issparse(X):
        return np.asarray(X.sum(axis=0, dtype=np.float64))
    total = np.zeros(X.shape[1])
    for start in range(0, X.nnz, _ENTRIES):
        entries = slice(start, start + _ENTRIES)
        total += np.bincount(X.indices[entries], weights=X.data[entries], minlength=X.shape[1])
    return total


def negative_bounds(block: Block) -> Least:
    """Return the largest size of a weighted term of each column, times -1: (V,) float64."""
    bounds = np.zeros(block.X.shape[1])
    if sparse.issparse(block.X):
        for columns, terms in _sparse_terms(block.X, block.weight):
            np.maximum.at(bounds, columns, np.abs(terms))
        return Least(-bounds)
    for terms in _terms(block.X, block.weight):
        low, high, _ = column_extremes(terms)
        bounds = np.maximum(bounds, np.maximum(np.abs(low), np.abs(high)))
    return Least(-bounds)


class Pieces:
    """Question for the pieces (3, V) of the weighted sums of the columns.

    Parameters
    ----------
    bounds : (V,) float64
        Largest size of a term of each column, at most 2^900; columns with the bound 0 are left out.
    n_rows : int
        Of all parts.
    """

    def __init__(self, bounds: Floats, n_rows: int) -> None:
        self.bounds, self.n_rows = bounds, n_rows

    def __call__(self, block: Block) -> Floats:
        """Return the pieces of a block of rows."""
        if sparse.issparse(block.X):
            return self._of_entries(block)
        sums = ExactSums(self.bounds, self.n_rows)
        for terms in _terms(block.X, block.weight):
            sums.add(terms)
        return sums.pieces()

    def _of_entries(self, block):
        lift = lifts(self.bounds, self.n_rows)
        sums = np.zeros_like(lift)
        for columns, terms in _sparse_terms(block.X, block.weight):
            for of_piece, up in zip(sums, lift):
                piece = (terms + up[columns]) - up[columns]
                of_piece += np.bincount(columns, weights=piece, minlength=block.X.shape[1])
                terms = terms - piece
        return sums


def _terms(X: Any, weight: Floats | None) -> Iterator[Floats]:
    step = max(1, _CELLS // max(X.shape[1], 1))
    for start in range(0, len(X), step):
        block = X[start : start + step].astype(np.float64, order="C")
        yield block if weight is None else block * weight[start : start + step, None]


def _sparse_terms(X: Any, weight: Floats | None) -> Iterator[tuple[npt.NDArray[Any], Floats]]:
    for start in range(0, X.nnz, _ENTRIES):
        stop = min(start + _ENTRIES, X.nnz)
        terms = X.data[start:stop].astype(np.float64)
        if weight is not None:
            rows = np.searchsorted(X.indptr, np.arange(start, stop), side="right") - 1
            terms = terms * weight[rows]
        yield X.indices[start:stop], terms
