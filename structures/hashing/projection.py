"""Sparse random projections that replace many columns by few and roughly keep distances.

The new columns form blocks. Each old column is added to, or subtracted from, one new column of each block. The expected
squared length of a row is its old squared length, with a relative standard deviation of at most sqrt(2 / n_columns).
The work is O(n_signs) for each stored entry.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse


def sign_projection(n_features: int, rng: np.random.Generator, *, n_columns: int = 64, n_signs: int = 8) -> Any:
    """Draw a sparse matrix of random signs for ``X @ matrix``.

    Parameters
    ----------
    n_features : int
        Number of columns of X.
    rng : numpy.random.Generator
    n_columns : int
        Number of columns of the product.
    n_signs : int
        Number of entries in each row of the matrix; it must divide `n_columns`.

    Returns
    -------
    (n_features, n_columns) CSR float64
        Entries are plus or minus 1 / sqrt(n_signs), one in each of the `n_signs` equal blocks of columns.

    Raises
    ------
    ValueError
        `n_signs` does not divide `n_columns`.

    Notes
    -----
    Kane and Nelson 2014, "Sparser Johnson-Lindenstrauss transforms", the block construction. Two rows with one entry
    in different columns become equal with probability (2 n_columns / n_signs) ** -n_signs: 2e-10 by default.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam.structures import sign_projection
    >>> matrix = sign_projection(5000, np.random.default_rng(0))
    >>> matrix.shape, matrix.nnz
    ((5000, 64), 40000)
    """
    if n_signs < 1 or n_columns < 1 or n_columns % n_signs:
        raise ValueError(f"n_signs must divide n_columns; got {n_signs} and {n_columns}")
    width = n_columns // n_signs
    columns = rng.integers(width, size=(n_features, n_signs), dtype=np.int32)
    columns += width * np.arange(n_signs, dtype=np.int32)
    signs = rng.choice(np.array([-1.0, 1.0]) / np.sqrt(n_signs), size=n_features * n_signs)
    starts = np.arange(0, n_features * n_signs + 1, n_signs)
    return sparse.csr_array((signs, columns.ravel(), starts), shape=(n_features, n_columns))
