"""Weighted min-hash: collisions of two, three and four rows, against their probabilities and a plain reference."""

import json
import math
import pickle
from functools import cache
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from instruction_sets import SETS, output_under
from scipy import sparse

from expfam.structures.ground.rng import stream_words
from expfam.structures.hashing.min_hash import WeightedMinHash, collision, column_bounds, first_dart, split_probability

TABLES = 7  # the purpose of the streams
N_HASHES = 20_000
LARGEST_Z = 4.5  # about 150 rates are tested: the largest of as many normal numbers exceeds it with probability 1e-3

DATA = {
    "dense": np.random.default_rng(0).gamma(1.0, size=(6, 5)),
    "counts": np.random.default_rng(1).poisson(1.5, size=(6, 8)).astype(float),
    "near": 1.0 + 0.1 * np.random.default_rng(2).random((6, 4)),
    "wide": np.exp(3.0 * np.random.default_rng(3).normal(size=(6, 6))),
    "signed": np.random.default_rng(4).normal(size=(6, 4)),
}


def hasher(X, method, *, n_tables=N_HASHES, seed=5, **settings):
    is_signed = bool((X < 0).any())
    upper = 1.2 * column_bounds(X, is_signed=is_signed) if method == "rejection" else None
    return WeightedMinHash(
        X.shape[1], n_tables=n_tables, method=method, upper=upper, is_signed=is_signed, seed=seed, **settings
    )


@cache
def keys_of(name, method):
    """Keys of one set of data, made once for all the laws that they have to follow: rejection throws many darts."""
    return hasher(DATA[name], method).keys(DATA[name])


def z_score(hits, probability):
    hits = np.asarray(hits)
    if probability in (0.0, 1.0):
        return 0.0 if hits.mean() == probability else math.inf
    return abs(hits.mean() - probability) / math.sqrt(probability * (1.0 - probability) / hits.size)


def same(keys, rows):
    return (keys[list(rows)] == keys[rows[0]]).all(axis=0)


# ---- the law of collisions -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["icws", "rejection"])
@pytest.mark.parametrize("name", DATA)
def test_two_three_and_four_rows_collide_as_often_as_they_should(method, name):
    X, keys = DATA[name], keys_of(name, method)
    for m in (2, 3, 4):
        for rows in combinations(range(6), m):
            if m == 2 or 0 in rows:
                probability = collision(X[list(rows)], is_signed=name == "signed")
                assert z_score(same(keys, rows), probability) < LARGEST_Z


@pytest.mark.parametrize("method", ["icws", "rejection"])
def test_a_wrong_probability_is_refused_by_the_same_test(method):
    # unweighted similarity, the mean over columns and the product of pairs: what one might take eq. 1 for
    X, keys = DATA["dense"], keys_of("dense", method)
    a, b, c = X[:3]
    hits = same(keys, (0, 1))
    assert z_score(hits, collision(X[:2])) < LARGEST_Z
    assert z_score(hits, np.mean(np.minimum(a, b) / np.maximum(a, b))) > LARGEST_Z
    assert z_score(hits, np.mean((a > 0) & (b > 0)) - 1e-9) > LARGEST_Z
    triple = same(keys, (0, 1, 2))
    product = collision([a, b]) * collision([b, c])
    assert z_score(triple, product) > LARGEST_Z


@pytest.mark.parametrize("method", ["icws", "rejection"])
@pytest.mark.parametrize("name", DATA)
def test_splits_happen_as_often_as_they_should(method, name):
    X, keys = DATA[name], keys_of(name, method)
    is_signed = name == "signed"
    smaller = 0
    for left, right in [((0,), (1,)), ((0, 1), (2,)), ((0,), (1, 2, 3)), ((0, 1), (2, 3)), ((0, 4, 5), (1, 2, 3))]:
        hits = same(keys, left) & (keys[list(right)] != keys[left[0]]).all(axis=0)
        A, B = X[list(left)], X[list(right)]
        probability = split_probability(A, B, is_signed=is_signed)
        assert z_score(hits, probability) < LARGEST_Z
        bound = first_dart(A, B, is_signed=is_signed)
        assert bound <= probability + 1e-12
        smaller += z_score(hits, bound) > LARGEST_Z
    assert smaller >= 3  # the published probability of a split fails where the right one passes


@pytest.mark.parametrize("method", ["icws", "rejection"])
def test_keys_of_several_hashes_collide_with_powers(method):
    X = DATA["near"]
    for n_hashes in (2, 5):
        keys = hasher(X, method, n_tables=8000, n_hashes=n_hashes).keys(X)
        for rows in combinations(range(6), 2):
            assert z_score(same(keys, rows), collision(X[list(rows)]) ** n_hashes) < LARGEST_Z


def test_first_dart_is_the_chance_of_the_first_dart():
    # darts thrown on the line of the union, each judged by what it lies below
    rng = np.random.default_rng(3)
    A, B = rng.gamma(1.0, size=(2, 4)), rng.gamma(0.5, size=(2, 4))
    top = np.maximum(A.max(axis=0), B.max(axis=0))
    column = rng.choice(4, size=200_000, p=top / top.sum())
    height = rng.random(200_000) * top[column]
    hits = (height[:, None] < A[:, column].T).all(axis=1) & (height[:, None] >= B[:, column].T).all(axis=1)
    assert first_dart(A, B) > 0.02
    assert z_score(hits, first_dart(A, B)) < LARGEST_Z


def test_split_probability_by_brute_force():
    X = DATA["counts"]
    for b in range(5):
        A, B = X[5:], X[:b]
        total = 0.0
        for size in range(b + 1):
            for rows in combinations(range(b), size):
                total += (-1) ** size * collision(np.concatenate([A, B[list(rows)]]))
        expected = split_probability(A, B) if b else collision(A)
        assert expected == pytest.approx(total, abs=1e-13)


def test_probabilities_of_three_rows_sum_to_one():
    X = DATA["wide"][:3]
    everyone = collision(X)
    pairs = [split_probability(X[[i, j]], X[[k]]) for i, j, k in [(0, 1, 2), (0, 2, 1), (1, 2, 0)]]
    alone = split_probability(X[[0]], X[[1, 2]]) - pairs[2]
    assert everyone + sum(pairs) + alone == pytest.approx(1.0, abs=1e-13)
    for a, b in [(0, 1), (1, 2), (0, 2)]:
        assert split_probability(X[[a]], X[[b]]) == pytest.approx(1 - collision(X[[a, b]]), abs=1e-13)


# ---- a hash is a function of settings and row ------------------------------------------------------------------------


def plain_icws(x, seed, h):
    """Algorithm 1 of Ioffe 2010 in Python; (None, None) for zeros."""
    best, found = math.inf, (None, None)
    for j, weight in enumerate(x):
        if weight > 0:
            words = stream_words(seed, TABLES, j, 2**40 + h, 3).tolist()
            u = [((word >> shift) % 2**32 + 0.5) / 2**32 for word in words for shift in (0, 32)]
            r, c, b = -math.log(u[0] * u[1]), -math.log(u[2] * u[3]), u[4]
            t = math.floor(math.log(weight) / r + b)
            y = math.exp(r * (t - b))
            a = c / (y * math.exp(r))
            if a < best:
                best, found = a, (j, t)
    return found


def test_icws_is_the_published_algorithm():
    X = np.concatenate([DATA["counts"], [np.zeros(8)], DATA["counts"][:1] * 1.01])
    hashes = WeightedMinHash(8, n_tables=70, n_hashes=2, seed=9).hashes(X)
    assert hashes.shape == (8, 140)
    for h in range(140):
        expected = [plain_icws(x, 9, h) for x in X]
        for i, k in combinations(range(8), 2):
            assert (hashes[i, h] == hashes[k, h]) == (expected[i] == expected[k])


def test_rejection_is_the_published_algorithm():
    X, upper = DATA["dense"], np.full(5, 8.0)
    hashes = WeightedMinHash(5, n_tables=50, method="rejection", upper=upper, seed=2).hashes(X)
    for h in range(50):
        for i in range(6):
            for d in range(10_000):
                words = stream_words(2, TABLES, d // 4, 2**41 + h, 4)
                at = float(int(words[d % 4]) >> 11) * 2.0**-53 * 40.0
                if at % 8.0 < X[i, int(at // 8.0)]:
                    break
            assert hashes[i, h] == d + 1


@pytest.mark.parametrize("method", ["icws", "rejection"])
@pytest.mark.parametrize("name", ["counts", "signed"])
def test_storage_company_and_threads_change_no_key(method, name):
    X = np.tile(DATA[name], (200, 1)) * np.random.default_rng(0).integers(0, 3, (1200, 1))
    X = X.astype(np.float32).astype(np.float64)
    settings = {"n_tables": 40, "n_hashes": 3, "seed": 2**64 - 1}
    first, second = hasher(X, method, **settings), hasher(X, method, **settings)
    keys = first.keys(X)
    assert keys.shape == (1200, 40)
    assert keys.dtype == np.uint64
    for other in (
        X.astype(np.float32),
        np.asfortranarray(X),
        sparse.csr_array(X),
        sparse.csr_matrix(X.astype("f4")),
        sparse.coo_array(X),
    ):
        np.testing.assert_array_equal(second.keys(other), keys)
    wide = sparse.csr_array(X)
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    np.testing.assert_array_equal(second.keys(wide, n_threads=2), keys)
    np.testing.assert_array_equal(second.keys(X[::-1], n_threads=2), keys[::-1])
    # one row alone: draws made as they are needed instead of tabulated
    for i in range(12):
        np.testing.assert_array_equal(second.keys(X[i : i + 1]), keys[i : i + 1])
        np.testing.assert_array_equal(second.keys(sparse.csr_array(X[i : i + 1])), keys[i : i + 1])
    if name == "counts":
        np.testing.assert_array_equal(second.keys(X.astype(np.int32)), keys)


@pytest.mark.parametrize("method", ["icws", "rejection"])
def test_objects_of_one_seed_agree_and_of_two_do_not(method):
    X = DATA["counts"]
    one, two = hasher(X, method, n_tables=200), hasher(X, method, n_tables=200)
    assert one == two
    assert hash(one) == hash(two)
    copy = pickle.loads(pickle.dumps(one))
    assert copy == one
    np.testing.assert_array_equal(copy.keys(X), two.keys(X))
    other = hasher(X, method, n_tables=200, seed=6)
    assert other != one
    assert (other.keys(X) == one.keys(X)).mean() < 0.3  # numbers of darts are small and often equal by chance
    fewer = hasher(X, method, n_tables=30)  # the first tables do not depend on how many follow
    np.testing.assert_array_equal(fewer.keys(X), one.keys(X)[:, :30])


@pytest.mark.parametrize("method", ["icws", "rejection"])
def test_hashes_do_not_depend_on_columns_that_are_zero(method):
    X = sparse.csr_array(([1.0, 2.0, 1.0, 5.0], [3, 70_000, 3, 70_000], [0, 2, 4]), shape=(2, 100_000))
    if method == "icws":
        keys = WeightedMinHash(100_000, n_tables=1500, seed=1).keys(X)
        narrow = WeightedMinHash(70_001, n_tables=1500, seed=1).keys(X[:, :70_001])
        np.testing.assert_array_equal(keys, narrow)
    else:
        keys = WeightedMinHash(100_000, n_tables=1500, method=method, upper=column_bounds(X), seed=1).keys(X)
    assert z_score(same(keys, (0, 1)), collision(X)) < LARGEST_Z


@pytest.mark.parametrize("method", ["icws", "rejection"])
def test_rows_of_zeros_have_a_bucket_of_their_own(method):
    X = np.array([[0.0, 0.0], [1.0, 2.0], [-0.0, 0.0], [0.5, 0.0]])
    for n_hashes in (1, 3):
        keys = WeightedMinHash(
            2, n_tables=300, n_hashes=n_hashes, method=method, upper=[1.0, 2.0] if method == "rejection" else None
        ).keys(X)
        assert (keys[[0, 2]] == 0).all()
        assert (keys[[1, 3]] != 0).all()
    empty = sparse.csr_array((3, 2))
    upper = [1.0, 1.0] if method == "rejection" else None
    assert (WeightedMinHash(2, method=method, upper=upper).keys(empty) == 0).all()
    assert WeightedMinHash(2, method=method, upper=upper).keys(np.empty((0, 2))).shape == (0, 10)
    assert collision(X[[0, 2]]) == 1.0
    assert collision(X[[0, 1]]) == 0.0


@settings(max_examples=50, deadline=None)
@given(
    weights=st.lists(st.floats(0.0, 1e300, allow_subnormal=True), min_size=1, max_size=6),
    seed=st.integers(0, 2**64 - 1),
)
def test_any_size_of_weight_is_hashed(weights, seed):
    X = np.array([weights, weights])
    keys = WeightedMinHash(len(weights), n_tables=70, seed=seed).keys(X)
    np.testing.assert_array_equal(keys[0], keys[1])
    assert (keys == 0).all() == (not any(weights))


@pytest.mark.parametrize("scale", [1e-310, 1e-300, 1e300])
def test_extreme_weights_keep_their_law(scale):
    X = DATA["dense"][:2] * scale
    keys = WeightedMinHash(5, n_tables=N_HASHES, seed=3).keys(X)
    assert z_score(same(keys, (0, 1)), collision(DATA["dense"][:2])) < LARGEST_Z


def test_every_instruction_set_gives_the_same_keys():
    code = (
        "import json, numpy as np; from expfam.structures.hashing.min_hash import WeightedMinHash as H;"
        "X = np.random.default_rng(0).gamma(0.3, size=(50, 20));"
        "print(json.dumps(H(20, n_tables=67, n_hashes=2, seed=3).keys(X).tolist()))"
    )
    found = [json.loads(output_under(isa, code)) for isa in SETS]
    assert found[0] == found[1] == found[2]


# ---- bad input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["icws", "rejection"])
@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("bad", [math.nan, math.inf, -1.0])
def test_bad_values_are_named_by_row_and_column(method, convert, bad):
    X = np.ones((1300, 3))
    X[1100, 2] = bad
    X[1250, 1] = bad
    made = WeightedMinHash(3, method=method, upper=[1.0, 1.0, 1.0] if method == "rejection" else None)
    with pytest.raises(ValueError, match=rf"row 1100, column 2 holds {bad}"):
        made.keys(convert(X), n_threads=2)


def test_rows_beyond_the_bounds_are_refused():
    made = WeightedMinHash(2, method="rejection", upper=[1.0, 2.0])
    with pytest.raises(ValueError, match=r"upper = 1.0 there.*row 1, column 0 holds 1.5"):
        made.keys([[1.0, 2.0], [1.5, 0.0]])
    both = WeightedMinHash(2, method="rejection", upper=[[1.0, 0.5], [2.0, 0.0]], is_signed=True)
    assert both.keys([[-0.5, 2.0]]).all()
    with pytest.raises(ValueError, match=r"upper = 0.5 there.*column 0 holds -0.6"):
        both.keys([[-0.6, 2.0]])
    with pytest.raises(ValueError, match=r"row 1 has a total weight of 1e-09.*icws"):
        made.keys([[1.0, 1.0], [0.0, 1e-9]])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_tables": 0}, "n_tables must be at least 1; got 0"),
        ({"n_hashes": -2}, "n_hashes must be at least 1; got -2"),
        ({"method": "simhash"}, "'icws' or 'rejection'; got 'simhash'"),
        ({"seed": -1}, "seed must lie"),
        ({"upper": [1.0, 1.0]}, "leave upper out"),
        ({"method": "rejection"}, r"needs upper of shape \(2,\)"),
        ({"method": "rejection", "upper": [1.0]}, r"shape \(2,\); got \(1,\)"),
        ({"method": "rejection", "upper": [1.0, 1.0], "is_signed": True}, r"shape \(2, 2\); got \(2,\)"),
        ({"method": "rejection", "upper": [0.0, 0.0]}, "positive somewhere"),
        ({"method": "rejection", "upper": [1.0, math.nan]}, "finite"),
    ],
)
def test_bad_settings_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        WeightedMinHash(2, **settings)


def test_bad_shapes_and_types_are_named():
    made = WeightedMinHash(2)
    with pytest.raises(ValueError, match=r"made for shape \(N, 2\); got \(3, 4\)"):
        made.keys(np.ones((3, 4)))
    with pytest.raises(ValueError, match="dtype"):
        made.keys(np.array([["a", "b"]]))
    with pytest.raises(ValueError, match="row 0, column 1 of B holds -1"):
        split_probability([[1.0, 1.0]], [[1.0, -1.0]])
    with pytest.raises(ValueError, match="row 0, column 0 of W holds nan"):
        collision([[math.nan, 1.0]])
    with pytest.raises(ValueError, match="at most 20 rows, each doubles the cost; got 21"):
        split_probability([[1.0]], np.ones((21, 1)))
    broken = sparse.csr_array(np.ones((2, 2)))
    broken.indices[3] = 9
    with pytest.raises(ValueError, match=r"column numbers outside \[0, 2\)"):
        made.keys(broken)
