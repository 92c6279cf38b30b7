"""Checks of data at the border, done once: shape, type, finiteness, and the set of values a family can produce.

Whatever passes is either a C-contiguous float32 / float64 array or a canonical CSR matrix (sorted indices, no
duplicates, no stored zeros); the caller's own memory where nothing had to change. O(size of the data), in blocks.
"""

import numpy as np
from scipy import sparse

from expfam.errors import DataError, DataTypeError, SupportError

_KEPT_DENSE = (np.float64, np.float32)
_KEPT_SPARSE = (np.float64, np.float32, np.int64, np.int32)
_BLOCK = 1 << 20  # entries looked at in one go, so that masks stay small


def as_matrix(X, *, family, accepts_sparse, n_features=None, allow_nan=False):
    """Two-dimensional, finite, numeric data in one of the two layouts that the package reads.

    Parameters
    ----------
    X : array_like or sparse matrix, shape (N, V)
    family : str
        Name used in messages.
    accepts_sparse : bool
    n_features : int, optional
        The number of columns that is required.
    allow_nan : bool

    Returns
    -------
    (N, V) ndarray or CSR

    Raises
    ------
    DataError, DataTypeError
    """
    if sparse.issparse(X):
        if not accepts_sparse:
            raise DataTypeError(
                f"{family} works on dense data only; got a sparse matrix: pass X.toarray() if that fits"
            )
        X = _canonical_csr(X, family)
        values = X.data
    else:
        X = np.asarray(X)
        if X.dtype == object or X.dtype.kind not in "buif":
            raise DataTypeError(f"{family} needs numeric data; got dtype {X.dtype}")
        if X.ndim != 2:
            hint = ": reshape your data with X.reshape(-1, 1) for one feature" if X.ndim == 1 else ""
            raise DataError(f"{family} needs a two-dimensional array (rows, columns); got shape {X.shape}{hint}")
        X = np.ascontiguousarray(X, dtype=X.dtype if X.dtype in _KEPT_DENSE else np.float64)
        values = X
    if X.shape[0] < 1 or X.shape[1] < 1:
        raise DataError(f"{family} needs at least one row and one column; got shape {X.shape}")
    if n_features is not None and X.shape[1] != n_features:
        raise DataError(f"X has {X.shape[1]} features, but {family} is expecting {n_features} features as input")
    if values.dtype.kind == "f":
        bad = first_where(X, (lambda v: np.isinf(v)) if allow_nan else (lambda v: ~np.isfinite(v)))
        if bad is not None:
            raise DataError(
                f"{family} needs finite values; row {bad[0]}, column {bad[1]} holds {bad[2]} (NaN or infinity)"
            )
    return X


def _canonical_csr(X, family):
    if X.ndim != 2:
        raise DataError(f"{family} needs a two-dimensional matrix; got shape {X.shape}")
    if X.dtype == object or X.dtype.kind not in "buif":
        raise DataTypeError(f"{family} needs numeric data; got dtype {X.dtype}")
    given, X = X, X.tocsr()
    if X.dtype not in _KEPT_SPARSE:
        X = X.astype(np.float64)
    shared = X is given or np.shares_memory(X.data, given.data) if hasattr(given, "data") else X is given
    # has_canonical_format caches what it finds on the caller's matrix; it changes no number
    if not X.has_canonical_format or (X.data.size and not X.data.all()):
        X = X.copy() if shared else X
        X.sum_duplicates()
        X.eliminate_zeros()
    return X


def first_where(X, test):
    """Position and value of the first entry (stored entry of CSR) for which `test` holds.

    Parameters
    ----------
    X : (N, V) ndarray or CSR
    test : callable
        Maps an array of values to booleans.

    Returns
    -------
    (row, column, value) or None
    """
    is_sparse = sparse.issparse(X)
    values = X.data if is_sparse else X.ravel()
    for start in range(0, values.size, _BLOCK):
        hits = np.flatnonzero(test(values[start : start + _BLOCK]))
        if hits.size:
            at = start + int(hits[0])
            if is_sparse:
                row, column = int(np.searchsorted(X.indptr, at, side="right")) - 1, int(X.indices[at])
            else:
                row, column = divmod(at, X.shape[1])
            return row, column, values[at].item()
    return None


def check_counts(X, *, family, allow_fractional=False):
    """Non-negative counts, integral to 1e-9 unless fractions are allowed.

    Raises
    ------
    SupportError
        Naming row, column and rule.
    """
    needs = f"{family} needs {'non-negative values' if allow_fractional else 'non-negative integer counts'}"
    bad = first_where(X, lambda v: v < 0)
    if bad is not None:  # the words after the position are those that scikit-learn's users search for
        raise SupportError(f"{needs}; row {bad[0]}, column {bad[1]} holds {bad[2]}: Negative values in data")
    if not allow_fractional and X.dtype.kind == "f":
        bad = first_where(X, lambda v: np.abs(v - np.rint(v)) > 1e-9)
        if bad is not None:
            raise SupportError(
                f"{needs}; row {bad[0]}, column {bad[1]} holds {bad[2]}; pass allow_fractional=True for weights such as"
                " tf-idf"
            )


def check_interval(X, low, high, *, family, closed=True):
    """Values within [low, high] (or above `low` strictly if not `closed`).

    Raises
    ------
    SupportError
        Naming row, column and rule.
    """
    outside = (lambda v: (v < low) | (v > high)) if closed else (lambda v: (v <= low) | (v > high))
    bad = first_where(X, outside)
    bracket = "[" if closed else "("
    if bad is not None:
        negative = ": Negative values in data" if low >= 0 > bad[2] else ""  # the words that users search for
        raise SupportError(
            f"{family} needs values in {bracket}{low}, {high}]; row {bad[0]}, column {bad[1]} holds {bad[2]}{negative}"
        )
    if sparse.issparse(X) and outside(np.zeros(1))[0] and X.nnz < X.shape[0] * X.shape[1]:
        raise SupportError(f"{family} needs values in {bracket}{low}, {high}]; the sparse matrix holds zeros")


def dense_rows(S):
    """`S` as a dense float64 array, whether it is sparse or not."""
    return S.toarray().astype(np.float64, copy=False) if sparse.issparse(S) else np.asarray(S, dtype=np.float64)
