"""Sparse rows of counts for EM, and limits that make their sums column by column or row by row."""

import numpy as np
from scipy import sparse

import expfam as ef

K = 30  # components
BY_COLUMN, BY_ROW = {"_WIDE_CELLS": 0, "_LISTED_ROWS": 1000, "_CELLS_OF_ENTRY": 0}, {"_WIDE_CELLS": 1 << 60}


def texts(n_rows=2600, n_words=300, per_row=12, seed=0):
    """Rows of five topics, some of them empty."""
    rng = np.random.default_rng(seed)
    topics = rng.dirichlet(np.full(n_words, 0.05), size=5)
    dense = np.array([rng.multinomial(rng.integers(per_row), topics[i % 5]) for i in range(n_rows)])
    return sparse.csr_array(dense.astype(np.float64))


def with_long_rows(X):
    """The rows, three of which are so long that single precision cannot hold their scores."""
    X = X.tolil()
    X[5, 3], X[6, 3], X[1500, 7] = 3e6, 2e6, 5e6
    return sparse.csr_array(X)


def among_others(X, n_columns=1500):
    """The rows with many columns that do not occur."""
    place = np.sort(np.random.default_rng(4).choice(n_columns, X.shape[1], replace=False))
    return sparse.csr_array((X.data, place[X.indices], X.indptr), shape=(X.shape[0], n_columns))


CASES = {
    "counts": (ef.Multinomial(0.1), texts(), None),
    "poisson": (ef.Poisson(0.5, 0.1), texts(), None),
    "weights": (ef.Multinomial(0.1), texts(), np.random.default_rng(1).random(2600)),
    "fractions": (ef.Multinomial(0.1, allow_fractional=True), texts() * 0.3, None),
    "few columns occur": (ef.Multinomial(0.1), among_others(texts()), None),
    "few columns occur in long rows": (ef.Multinomial(0.1), among_others(with_long_rows(texts())), None),
    "long rows": (ef.Multinomial(0.1), with_long_rows(texts()), None),
    "long rows with weights": (ef.Multinomial(0.1), with_long_rows(texts()), np.random.default_rng(2).random(2600)),
}
