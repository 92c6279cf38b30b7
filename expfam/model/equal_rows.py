"""Which rows of data are equal.

Each row has a key of 64 bits, a sum over its entries, so that dense and CSR rows are treated alike. Rows of one key are
then compared, so the answer is exact. The cost is O(N V) or O(nnz), and a sort of N integers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

_CELLS = 1 << 20  # of dense rows that are read together


def first_equal_rows(X: Any) -> npt.NDArray[np.intp]:
    """Return the number of the first row that is equal to each row: (N,) intp.

    Zeros of both signs are equal, and so are two missing values (NaN).

    Parameters
    ----------
    X : (N, V) ndarray or canonical CSR

    Examples
    --------
    >>> import numpy as np
    >>> from expfam.model.equal_rows import first_equal_rows
    >>> first_equal_rows(np.array([[1.0, np.nan], [2.0, 0.0], [1.0, np.nan], [2.0, -0.0]]))
    array([0, 1, 0, 1])
    """
    keys = _keys(X)
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    found = first[inverse]
    twins = np.flatnonzero(found != np.arange(len(found)))
    apart = twins[~_are_equal(X, twins, found[twins])]
    found[apart] = apart  # rows of one key that differ: no two of about 2^32 rows
    return found


def n_distinct_rows(X: Any, most: int) -> int:
    """Return how many rows are distinct, or `most` if there are more.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam.model.equal_rows import n_distinct_rows
    >>> X = np.array([[0.0], [1.0], [0.0], [2.0]])
    >>> n_distinct_rows(X, 2), n_distinct_rows(X, 9)
    (2, 3)
    """
    few = X[: 2 * most]
    found = np.unique(first_equal_rows(few)).size
    if found < most and few.shape[0] < X.shape[0]:
        found = np.unique(first_equal_rows(X)).size
    return min(found, most)


def _keys(X):
    """Return the key of each row: (N,) uint64."""
    factors = _mixed(np.arange(1, X.shape[1] + 1, dtype=np.uint64)) | np.uint64(1)
    out = np.empty(X.shape[0], dtype=np.uint64)
    step = max(1, _CELLS // X.shape[1])
    for start in range(0, X.shape[0], step):
        block = X[start : start + step]
        if sparse.issparse(block):
            terms = np.concatenate([_bits(block.data) * factors[block.indices], np.zeros(1, dtype=np.uint64)])
            sums = np.add.reduceat(terms, block.indptr[:-1])
            out[start : start + step] = np.where(np.diff(block.indptr) > 0, sums, np.uint64(0))
        else:
            out[start : start + step] = (_bits(block) * factors).sum(axis=1, dtype=np.uint64)
    return out


def _bits(values):
    """Return mixed bits of values, of zeros 0: uint64."""
    values = values.astype(np.float64) + 0.0  # a copy, in which -0.0 is 0.0
    values[np.isnan(values)] = np.nan  # of one kind
    return _mixed(values.view(np.uint64))


def _mixed(x):
    """Spread every bit of 64-bit integers, one to one; 0 stays 0 (Stafford 2011, "Mix13")."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _are_equal(X, rows, others):
    """Tell whether pairs of rows are equal: (m,) bool."""
    out = np.empty(len(rows), dtype=bool)
    step = max(1, _CELLS // X.shape[1])
    for start in range(0, len(rows), step):
        a, b = (X[each[start : start + step]] for each in (rows, others))
        if sparse.issparse(X):
            out[start : start + step] = np.diff(sparse.csr_array(a != b).indptr) == 0
        else:
            both = (a == b) if X.dtype.kind != "f" else (a == b) | (np.isnan(a) & np.isnan(b))
            out[start : start + step] = both.all(axis=1)
    return out
