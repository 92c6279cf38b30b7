"""Sums and means of the columns of data.

Their bits are the same for any order of the rows, and for dense and CSR data.
Whole numbers are added as they are, because their sums are exact. Other numbers are added in pieces that are never
rounded, see `expfam.structures.rows.exact_sums`. The cost is O(N V) or O(nnz), in blocks; the data are not copied.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from expfam.families.support import first_where
from expfam.families.weighing import total_weight
from expfam.structures.rows.exact_sums import MOST, ExactSums, column_extremes, lifts

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
    if weight is None and _is_whole(X):
        return _whole_sums(X)
    return _sparse_sums(X, weight) if sparse.issparse(X) else _dense_sums(X, weight)


def column_means(X: Any, weight: Floats | None = None) -> Floats:
    """Return the weighted mean of each column: (V,) float64.

    The arguments are those of `column_sums`.
    """
    return column_sums(X, weight) / total_weight(X, weight)


def column_mean_squares(X: Any, weight: Floats | None = None) -> Floats:
    """Return the weighted mean of the squares of each column: (V,) float64.

    The arguments are those of `column_sums`.
    """
    if sparse.issparse(X):
        return column_means(sparse.csr_array((X.data.astype(np.float64) ** 2, X.indices, X.indptr), X.shape), weight)
    return column_means(X.astype(np.float64) ** 2, weight)


def _is_whole(X):
    return X.dtype.kind != "f" or first_where(X, lambda v: v != np.rint(v)) is None


def _whole_sums(X):
    if not sparse.issparse(X):
        return X.sum(axis=0, dtype=np.float64)
    total = np.zeros(X.shape[1])
    for start in range(0, X.nnz, _ENTRIES):
        block = slice(start, start + _ENTRIES)
        total += np.bincount(X.indices[block], weights=X.data[block], minlength=X.shape[1])
    return total


def _dense_sums(X, weight):
    bounds = np.zeros(X.shape[1])
    for terms in _terms(X, weight):
        low, high, _ = column_extremes(terms)
        bounds = np.maximum(bounds, np.maximum(np.abs(low), np.abs(high)))
    usable = np.where(bounds <= MOST, bounds, 0.0)
    sums = ExactSums(usable, len(X))
    for terms in _terms(X, weight):
        sums.add(terms)
    return np.where(bounds <= MOST, sums.total(), np.inf)


def _terms(X: Any, weight: Floats | None) -> Iterator[Floats]:
    step = max(1, _CELLS // max(X.shape[1], 1))
    for start in range(0, len(X), step):
        block = X[start : start + step].astype(np.float64)
        yield block if weight is None else block * weight[start : start + step, None]


def _sparse_sums(X, weight):
    bounds = np.zeros(X.shape[1])
    for columns, terms in _sparse_terms(X, weight):
        np.maximum.at(bounds, columns, np.abs(terms))
    lift = lifts(np.where(bounds <= MOST, bounds, 0.0), X.shape[0])
    sums = np.zeros_like(lift)
    for columns, terms in _sparse_terms(X, weight):
        for of_piece, up in zip(sums, lift):
            piece = (terms + up[columns]) - up[columns]
            of_piece += np.bincount(columns, weights=piece, minlength=X.shape[1])
            terms = terms - piece
    return np.where(bounds <= MOST, sums[0] + (sums[1] + sums[2]), np.inf)


def _sparse_terms(X: Any, weight: Floats | None) -> Iterator[tuple[npt.NDArray[Any], Floats]]:
    for start in range(0, X.nnz, _ENTRIES):
        stop = min(start + _ENTRIES, X.nnz)
        terms = X.data[start:stop].astype(np.float64)
        if weight is not None:
            rows = np.searchsorted(X.indptr, np.arange(start, stop), side="right") - 1
            terms = terms * weight[rows]
        yield X.indices[start:stop], terms
