"""Sparse sums of statistics have the bits of SciPy's products and sums."""

import numpy as np
import pytest
from scipy import sparse

from expfam.samplers.variational.sparse_sums import merged_sums, sums_of_shares

TYPES = [np.float64, np.float32, np.int64, np.int32, np.int8]


def equal(a, b):
    """Whether two CSR arrays have the same entries, to the bit."""
    return all(np.array_equal(x, y) for x, y in ((a.data, b.data), (a.indices, b.indices), (a.indptr, b.indptr)))


def random_csr(rng, shape, share):
    """A CSR array of which a share is not 0, with few different values: some sums of them are 0."""
    return sparse.csr_array(np.round(rng.normal(size=shape), 1) * (rng.random(shape) < share))


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("dtype", TYPES)
def test_products_are_those_of_scipy(dtype, index):
    rng = np.random.default_rng(0)
    for m, K, F, share in ((1, 1, 1, 1.0), (30, 4, 20, 0.3), (60, 3, 9000, 0.05), (9, 5, 40, 0.0)):
        R, X = random_csr(rng, (m, K), 0.4), sparse.csr_array(rng.poisson(share, (m, F)).astype(dtype))
        X.indices, X.indptr = X.indices.astype(index), X.indptr.astype(index)
        numbers, place = rng.permutation(m)[: m // 2 + 1], rng.permutation(F).astype(np.int32)
        R = R[: len(numbers)]
        wide = sparse.csr_array(X.astype(np.float64).toarray()[numbers][:, np.argsort(place)])
        expected = R.T.tocsr() @ wide
        expected.eliminate_zeros()
        expected.sort_indices()
        assert equal(sums_of_shares(R, X, numbers, place, F), expected)


@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_sums_are_those_of_scipy(index):
    rng = np.random.default_rng(1)
    for shape, share in (((1, 1), 1.0), ((5, 40), 0.4), ((3, 200), 0.9), ((4, 6), 0.0)):
        S, taken, added = (random_csr(rng, shape, share) for _ in range(3))
        taken.indices = taken.indices.astype(index)
        for old, expected in ((None, S + added), (taken, (S + -1.0 * taken) + added)):
            expected.eliminate_zeros()
            assert equal(merged_sums(S, old, added), expected)


def test_sums_that_cancel_have_no_entries():
    S = sparse.csr_array([[1.0, 0.0, 2.0]])
    assert merged_sums(S, S, sparse.csr_array((1, 3))).nnz == 0
