"""The inverted index against dense matrices: rows, postings and sums over shared terms, whatever was merged before."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import coo_array, csr_array, csr_matrix, random_array
from scipy.special import gammaln

from expfam.structures import InvertedIndex

FUNCTIONS = {"product": np.multiply, "minimum": np.minimum, "count": lambda x, y: np.ones_like(x)}


def dense(index):
    """The rows of an index as a dense matrix."""
    arrays = index.to_arrays()
    return csr_array((arrays["values"], arrays["terms"], arrays["indptr"]), shape=tuple(arrays["shape"])).toarray()


def assert_holds(index, X, present):
    """Every face of the index shows the dense matrix X with the stored entries `present`."""
    assert index.n_entries == present.sum()
    np.testing.assert_array_equal(dense(index), X)
    for k in range(len(X)):
        terms, values = index.row(k)
        np.testing.assert_array_equal(terms, np.flatnonzero(present[k]))
        np.testing.assert_array_equal(values, X[k, terms])
    for term in range(X.shape[1]):
        slots, values = index.postings(term)
        np.testing.assert_array_equal(slots, np.flatnonzero(present[:, term]))
        np.testing.assert_array_equal(values, X[slots, term])


def plain_scores(X, present, k, function):
    """Sums over shared terms, one at a time by ascending term."""
    sums, counts = np.zeros(len(X)), np.zeros(len(X), dtype=int)
    for w in np.flatnonzero(present[k]):
        for s in np.flatnonzero(present[:, w]):
            if s != k:
                sums[s] += function(X[k, w : w + 1], X[s, w : w + 1])[0]
                counts[s] += 1
    slots = np.flatnonzero(counts)
    return slots, sums[slots]


def assert_scores(index, X, present):
    for name, function in FUNCTIONS.items():
        for k in range(len(X)):
            slots, sums = plain_scores(X, present, k, function)
            for given_as in (name, lambda terms, x, y, f=function: f(x, y)):
                found, values = index.scores(k, function=given_as)
                np.testing.assert_array_equal(found, slots)
                np.testing.assert_array_equal(values, sums)  # to the bit: same order of the same sums


@settings(max_examples=60, deadline=None)
@given(data=st.data(), n=st.integers(1, 9), v=st.integers(1, 8), seed=st.integers(0, 2**32 - 1))
def test_random_operations_against_a_dense_matrix(data, n, v, seed):
    rng = np.random.default_rng(seed)
    present = rng.random((n, v)) < rng.random()
    X = np.where(present, rng.normal(size=(n, v)), 0.0)
    index = InvertedIndex(csr_array(X))
    live = list(range(n))
    for _ in range(data.draw(st.integers(0, 12))):
        operation = data.draw(st.sampled_from(["merge", "merge", "merge", "remove", "compact", "copy"]))
        if operation == "merge" and n > 1:
            k, l = data.draw(st.permutations(range(n)))[:2]
            index.merge(k, l)
            X[k] += X[l]
            present[k] |= present[l]
            X[l], present[l] = 0, False
        elif operation == "remove":
            k = data.draw(st.sampled_from(live))
            index.remove(k)
            X[k], present[k] = 0, False
        elif operation == "compact":
            index.compact()
        elif operation == "copy":
            index = pickle.loads(pickle.dumps(index))
    assert_holds(index, X, present)
    assert_scores(index, X, present)


def test_many_merges_of_a_larger_index():
    rng = np.random.default_rng(5)
    X = random_array(
        (300, 200), density=0.03, format="csr", random_state=rng, data_sampler=lambda size: rng.random(size)
    )
    index, dense = InvertedIndex(X), X.toarray()
    present = dense != 0
    for step in range(280):
        live = np.flatnonzero(present.any(axis=1))
        k, l = rng.permutation(live)[:2]
        index.merge(k, l)
        dense[k] += dense[l]
        present[k] |= present[l]
        dense[l], present[l] = 0, False
        if step % 90 == 50:
            index.compact()
            assert_holds(index, dense, present)
    assert_holds(index, dense, present)
    assert_scores(index, dense, present)


def test_sums_are_symmetric_to_the_bit_and_path_independent():
    rng = np.random.default_rng(0)
    X = rng.poisson(0.7, size=(40, 60)).astype(float)
    one, other = InvertedIndex(csr_array(X)), InvertedIndex(csr_array(X))
    for k, l in [(0, 1), (0, 2), (5, 6)]:
        one.merge(k, l)
    for k, l in [(5, 6), (2, 1), (0, 2)]:
        other.merge(k, l)

    def gain(terms, x, y):
        return gammaln(0.1 + (x + y)) + gammaln(0.1) - (gammaln(0.1 + x) + gammaln(0.1 + y))

    table = np.full((40, 40), np.nan)
    for k in range(40):
        slots, sums = one.scores(k, function=gain)
        table[k, slots] = sums
        np.testing.assert_array_equal(other.scores(k, function=gain)[1], sums)
    np.testing.assert_array_equal(table, table.T)
    assert np.isfinite(table).sum() > 1000


def test_overlap_is_what_merged_multinomial_clusters_gain():
    # f(S_i + S_j) summed over all terms = f(S_i) + f(S_j) + the sum over shared ones: 60 terms of about 10 nats each
    rng = np.random.default_rng(1)
    X = rng.poisson(0.5, size=(12, 60)).astype(float)
    index = InvertedIndex(csr_array(X))

    def f(x):
        return gammaln(0.3 + x) - gammaln(0.3)

    slots, sums = index.scores(3, function=lambda terms, x, y: f(x + y) - f(x) - f(y))
    expected = f(X[3] + X[slots]).sum(axis=1) - f(X[3]).sum() - f(X[slots]).sum(axis=1)
    np.testing.assert_allclose(sums, expected, rtol=0, atol=60 * 10 * 2.3e-16 * 8)


def test_only_clusters_that_share_a_term_are_found():
    X = csr_array(np.kron(np.eye(3), np.ones((4, 5))))
    index = InvertedIndex(X)
    slots, sums = index.scores(5, function="count")
    assert slots.tolist() == [4, 6, 7]
    assert sums.tolist() == [5, 5, 5]
    assert index.shared(5)[0].size == 15


def test_the_callable_sees_terms_and_both_values():
    index = InvertedIndex(csr_array(np.array([[1.0, 2, 0], [0, 3, 4], [5, 0, 6]])))
    slots, terms, x, y = index.shared(1)
    assert list(zip(slots.tolist(), terms.tolist(), x.tolist(), y.tolist())) == [(0, 1, 3.0, 2.0), (2, 2, 4.0, 6.0)]


def test_stored_zeros_count_and_doubles_are_added():
    stored = csr_array((np.array([0.0, 2.0]), np.array([1, 1]), np.array([0, 1, 2])), shape=(2, 3))
    index = InvertedIndex(stored)
    assert index.n_entries == 2
    assert index.scores(0, function="count")[0].tolist() == [1]
    twice = InvertedIndex(coo_array((np.array([1.0, 2.0]), (np.array([0, 0]), np.array([1, 1]))), shape=(2, 3)))
    assert twice.row(0)[1].tolist() == [3.0]


def test_x_is_not_changed():
    X = csr_array((np.array([1.0, 2.0]), np.array([2, 0]), np.array([0, 2])), shape=(1, 3))  # unsorted
    kept = X.data.copy(), X.indices.copy()
    index = InvertedIndex(X)
    assert index.row(0)[0].tolist() == [0, 2]
    np.testing.assert_array_equal(X.data, kept[0])
    np.testing.assert_array_equal(X.indices, kept[1])


@pytest.mark.parametrize("shape", [(0, 0), (0, 4), (3, 0), (1, 1)])
def test_nothing_in_it(shape):
    index = InvertedIndex(csr_array(shape))
    assert index.n_entries == 0
    index.compact()
    assert dense(index).shape == shape
    assert all(index.postings(term)[0].size == 0 for term in range(shape[1]))
    for k in range(shape[0]):
        assert index.scores(k)[0].size == 0
        assert index.scores(k, function=lambda terms, x, y: x)[0].size == 0


@pytest.mark.parametrize("dtype", [np.int32, np.float32, np.int64, bool])
def test_types_of_values(dtype):
    X = np.array([[1, 0, 1], [0, 1, 1]], dtype=dtype)
    index = InvertedIndex(csr_matrix(X))
    np.testing.assert_array_equal(dense(index), X.astype(float))


def test_bad_input_is_named():
    with pytest.raises(TypeError, match="ndarray"):
        InvertedIndex(np.eye(3))
    with pytest.raises(ValueError, match=r"X\[1, 2\] is nan"):
        InvertedIndex(csr_array(np.array([[1.0, 0, 0], [0, 1, np.nan]])))
    with pytest.raises(TypeError, match="complex"):
        InvertedIndex(csr_array(np.eye(2, dtype=complex)))
    index = InvertedIndex(csr_array(np.eye(3)))
    arrays = index.to_arrays()
    arrays["terms"][1] = 3
    with pytest.raises(ValueError, match="indices must be < 3"):
        InvertedIndex.from_arrays(arrays)
    with pytest.raises(ValueError, match="itself: both slots are 1"):
        index.merge(1, 1)
    for call in (lambda: index.merge(0, 3), lambda: index.remove(-1), lambda: index.row(3), lambda: index.scores(7)):
        with pytest.raises(IndexError, match="slots 0 to 2"):
            call()
    with pytest.raises(IndexError, match="term 3"):
        index.postings(3)
    with pytest.raises(ValueError, match="'cosine'"):
        index.scores(0, function="cosine")
    index.merge(0, 1)
    with pytest.raises(ValueError, match=r"shape \(9,\)"):
        index.scores(0, function=lambda terms, x, y: np.zeros(9))
    np.testing.assert_array_equal(dense(index), [[1, 1, 0], [0, 0, 0], [0, 0, 1]])
