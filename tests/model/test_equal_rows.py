"""Equal rows are found exactly, in dense and CSR data."""

import numpy as np
import pytest
from scipy import sparse

from expfam.model import equal_rows
from expfam.model.equal_rows import first_equal_rows, n_distinct_rows


def by_comparison(X):
    """Return the first equal row of each row, by comparing all pairs."""
    same = ((X[:, None] == X) | ((X[:, None] != X[:, None]) & (X != X))).all(axis=2)
    return same.argmax(axis=1)


CASES = {
    "integers": np.random.default_rng(0).integers(0, 3, (200, 3)),
    "float32": np.random.default_rng(1).integers(0, 3, (200, 3)).astype(np.float32) / 3,
    "zeros of both signs": np.array([[0.0, -0.0], [-0.0, 0.0], [0.0, 1.0], [1.0, 0.0]]),
    "one column": np.random.default_rng(2).normal(size=(50, 1)).round(1),
    "permuted columns": np.array([[1.0, 2.0], [2.0, 1.0], [1.0, 2.0]]),
    "all distinct": np.random.default_rng(3).normal(size=(50, 2)),
}


@pytest.mark.parametrize("case", CASES)
def test_first_equal_rows(case):
    X = CASES[case]
    expected = by_comparison(X)
    np.testing.assert_array_equal(first_equal_rows(X), expected)
    np.testing.assert_array_equal(first_equal_rows(sparse.csr_array(X)), expected)
    n_distinct = len(set(expected))
    assert [n_distinct_rows(X, most) for most in (1, n_distinct, 500)] == [1, n_distinct, n_distinct]


def test_missing_values_are_equal():
    X = np.random.default_rng(0).integers(0, 2, (60, 3)).astype(float)
    X[np.random.default_rng(1).random(X.shape) < 0.3] = np.nan
    np.testing.assert_array_equal(first_equal_rows(X), by_comparison(X))


def test_rows_of_one_key_that_differ_stay_apart(monkeypatch):
    monkeypatch.setattr(equal_rows, "_keys", lambda X: np.zeros(X.shape[0], dtype=np.uint64))
    assert first_equal_rows(np.array([[1.0], [2.0], [1.0]])).tolist() == [0, 1, 0]


def test_blocks_give_the_same_rows(monkeypatch):
    X = CASES["integers"]
    monkeypatch.setattr(equal_rows, "_CELLS", 10)
    for rows in (X, sparse.csr_array(X)):
        np.testing.assert_array_equal(first_equal_rows(rows), by_comparison(X))
