"""Sign codes against a matrix that is written out, and against themselves after many updates."""

import itertools
import json
import pickle

import numpy as np
import pytest
from instruction_sets import output_under
from scipy import sparse, stats

from expfam.errors import DataError, DataTypeError
from expfam.structures import SignCodes, SignHash, cosine_table, hoeffding_bound, kl_bound
from expfam.structures.simd.probe import instruction_set

M64 = 2**64 - 1
SETS = ("base", "avx2", "avx512")
KINDS = ("rademacher", "gaussian8")


# ---- references ------------------------------------------------------------------------------------------------------


def mix(x):
    x = ((x ^ (x >> 33)) * 0xFF51AFD7ED558CCD) & M64
    x = ((x ^ (x >> 33)) * 0xC4CEB9FE1A85EC53) & M64
    return x ^ (x >> 33)


def hash_word(key, w, p):
    return mix((mix((w * 0x9E3779B97F4A7C15 + key) & M64) + p * 0xD1B54A32D192ED03) & M64)


def written_out(hashed, coordinates):
    """The random matrix of a hash, (n_bits, n), by Python's integers."""
    key = mix((hashed.seed + 0x2545F4914F6CDD1D) & M64)
    if hashed.entries == "rademacher":
        words = [[hash_word(key, int(w), p) for w in coordinates] for p in range(hashed.n_words)]
        return np.array([[2 * (r >> j & 1) - 1 for r in row] for row in words for j in range(64)])
    q = np.rint(44.0 * stats.norm.ppf((np.arange(256) + 0.5) / 256)).astype(int)
    words = [[hash_word(key, int(w), p) for w in coordinates] for p in range(8 * hashed.n_words)]
    return np.array([[q[r >> 8 * t & 255] for r in row] for row in words for t in range(8)])


def tie_reference(hashed, owner):
    key = mix((mix((hashed.seed + 0x2545F4914F6CDD1D) & M64) + 0x2545F4914F6CDD1D) & M64)
    return [hash_word(key, owner & M64, p) for p in range(hashed.n_words)]


def unpack(words):
    """(..., n_words) uint64 to (..., n_bits) bool."""
    words = np.asarray(words, dtype=np.uint64)
    return (
        (words[..., None] >> np.arange(64, dtype=np.uint64) & np.uint64(1)).astype(bool).reshape(*words.shape[:-1], -1)
    )


def hash_codes(hashed, dots, centre, owners):
    """Bits of inner products by definition, ties included."""
    ties = unpack(np.array([tie_reference(hashed, int(o)) for o in owners], dtype=np.uint64))
    return np.where(dots == centre, ties, dots > centre)


# ---- the random matrix -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("entries", KINDS)
@pytest.mark.parametrize("n_bits", [1, 64, 65, 256])
def test_the_matrix_is_the_hash(entries, n_bits):
    hashed = SignHash(n_bits, entries=entries, seed=2**64 - 3)
    w = np.array([0, 1, 2, 77, 2**31, 2**40])
    np.testing.assert_array_equal(hashed.matrix(w), written_out(hashed, w))
    assert (hashed.n_bits, hashed.n_bits_asked) == (-(-n_bits // 64) * 64, n_bits)


@pytest.mark.parametrize("entries", KINDS)
def test_entries_are_centred_and_uncorrelated(entries):
    n = 2000
    R = SignHash(64, entries=entries, seed=5).matrix(np.arange(n)).astype(float)  # 128 000 entries
    sd = np.sqrt((R**2).mean())
    assert abs(R.mean()) < 4 * sd / np.sqrt(R.size)
    Z = R / sd
    for C, m in ((Z @ Z.T / n, n), (Z.T[:300] @ Z[:, :300] / 64, 64)):
        pairs = C[np.triu_indices(len(C), 1)]
        assert abs(pairs.mean()) < 4 / np.sqrt(m * len(pairs))
        np.testing.assert_allclose((pairs**2).mean() * m, 1, atol=4 * np.sqrt(2 / len(pairs)) + 0.02)
    lagged = [np.mean(Z[:, 1:] * Z[:, :-1]), np.mean(Z[1:] * Z[:-1])]
    assert np.abs(lagged).max() < 4 / np.sqrt(R.size)


def test_seeds_give_other_matrices():
    a, b = (SignHash(64, seed=s).matrix(np.arange(1000)) for s in (0, 1))
    assert abs((a * b).mean()) < 4 / np.sqrt(a.size)
    assert abs(SignHash(64, seed=0).matrix([0]).sum()) < 64  # the finaliser alone maps zero to zero


@pytest.mark.parametrize("entries", KINDS)
def test_differing_bits_estimate_the_angle(entries):
    rng = np.random.default_rng(3)
    hashed = SignHash(4096, entries=entries, seed=9)
    for _ in range(12):
        X = rng.normal(size=(2, 200))
        X[1] += rng.uniform(-3, 3) * X[0]
        angle = np.arccos(X[0] @ X[1] / np.linalg.norm(X[0]) / np.linalg.norm(X[1]))
        h = np.count_nonzero(np.diff(unpack(hashed.codes(X)).astype(int), axis=0))
        z = angle / np.pi
        # Signs are not spherical: the central limit's error on 200 coordinates lies far below this noise
        assert abs(h / 4096 - z) <= 4 * np.sqrt(z * (1 - z) / 4096)
        np.testing.assert_allclose(hashed.angle(h), np.pi * h / 4096)


def test_ties_are_split_evenly_and_differ_by_owner():
    hashed = SignHash(256, seed=4)
    bits = unpack(hashed.codes(np.zeros((400, 3))))
    assert stats.binomtest(int(bits.sum()), bits.size).pvalue > 1e-4
    by_row, by_bit = bits.sum(axis=1), bits.sum(axis=0)
    assert stats.chisquare(by_row).pvalue > 1e-4
    assert stats.chisquare(by_bit).pvalue > 1e-4
    assert len(np.unique(bits, axis=0)) == 400
    np.testing.assert_array_equal(hashed.tie_bits([0, 5, -3]), [tie_reference(hashed, o) for o in (0, 5, -3)])
    # a constant for ties would fail: every row would be the same
    assert stats.chisquare(np.where(np.arange(400) < 1, 25600.0, 0.0) + 1e-9).pvalue < 1e-4


# ---- codes of data ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("entries", KINDS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.int32, np.int8])
def test_codes_of_dense_and_sparse_rows(entries, dtype):
    rng = np.random.default_rng(1)
    X = (rng.poisson(0.7, size=(40, 150)) - rng.poisson(0.2, size=(40, 150))).astype(dtype)
    X[3] = 0
    hashed = SignHash(128, entries=entries, seed=11)
    R = written_out(hashed, np.arange(150))
    expected = hash_codes(hashed, X.astype(float) @ R.T, 0.0, np.arange(7, 47))
    S = sparse.csr_array(X)
    for index in (np.int32, np.int64):
        S.indices, S.indptr = S.indices.astype(index), S.indptr.astype(index)
        np.testing.assert_array_equal(unpack(hashed.codes(S, first_row=7)), expected)
    np.testing.assert_array_equal(unpack(hashed.codes(X, first_row=7)), expected)
    np.testing.assert_array_equal(hashed.project(X), X.astype(float) @ R.T)
    np.testing.assert_array_equal(hashed.project(S), X.astype(float) @ R.T)


@pytest.mark.parametrize("entries", KINDS)
def test_codes_with_scale_centre_and_factor(entries):
    rng = np.random.default_rng(2)
    X = rng.poisson(0.5, size=(30, 90)) * 1.0
    scale, centre, factor = rng.uniform(0.3, 3, 90), rng.uniform(0, 1, 90), X.sum(axis=1)
    hashed = SignHash(64, entries=entries, seed=3)
    R = written_out(hashed, np.arange(90))
    dots = ((X - factor[:, None] * centre) * scale) @ R.T
    assert np.abs(dots).min() > 1e-9  # no bit is decided by rounding
    for data in (X, sparse.csr_matrix(X)):
        codes = hashed.codes(data, scale=scale, centre=centre, factor=factor)
        np.testing.assert_array_equal(unpack(codes), dots > 0)


def test_codes_do_not_depend_on_threads_or_blocks():
    X = np.random.default_rng(4).normal(size=(1300, 20))
    hashed = SignHash(64)
    whole = hashed.codes(X, n_threads=2)
    np.testing.assert_array_equal(whole, hashed.codes(X))
    np.testing.assert_array_equal(whole[700:], hashed.codes(X[700:], first_row=700))
    assert hashed.codes(X[:0]).shape == (0, 1)
    assert hashed.codes(np.empty((2, 0))).shape == (2, 1)


# ---- codes under updates ---------------------------------------------------------------------------------------------


def state(codes):
    return [codes.dots.copy(), codes.planes.copy(), codes.squares.copy(), codes.slopes, codes.norms]


def assert_same(a, b):
    for x, y in zip(state(a), state(b)):
        np.testing.assert_array_equal(x, y)


def new_codes(rng, *, entries="rademacher", dots="auto", n_bits=128, n_codes=7, n_features=60, top=6.0):
    hashed = SignHash(n_bits, entries=entries, seed=int(rng.integers(100)))
    options = {
        "bound": rng.uniform(top / 2, top, n_features),
        "centre": rng.normal(size=n_features),
        "direction": rng.normal(size=n_features),
        "dots": dots,
    }
    return SignCodes(hashed, n_codes, **options), options


@pytest.mark.parametrize("entries", KINDS)
@pytest.mark.parametrize("dots", ["int32", "int64"])
def test_against_the_matrix(entries, dots):
    rng = np.random.default_rng(5)
    codes, options = new_codes(rng, entries=entries, dots=dots, n_codes=70)
    V = rng.uniform(-1, 1, (70, 60)) * options["bound"] * (rng.random((70, 60)) < 0.5)
    codes.rebuild(V)
    assert codes.dots.dtype == dots
    unit = 2.0**codes.exponent
    F, m = np.rint(V * unit).astype(np.int64), np.rint(options["centre"] * unit).astype(np.int64)
    a = np.rint(options["direction"] * 2.0**codes.slope_exponent).astype(np.int64)
    R = written_out(codes.hash, np.arange(60))
    np.testing.assert_array_equal(codes.dots, F @ R.T)
    expected = hash_codes(codes.hash, F @ R.T, R @ m, -1 - np.arange(70))
    np.testing.assert_array_equal(unpack(codes.planes.T), expected)
    np.testing.assert_array_equal(codes.squares, ((F - m) ** 2).sum(axis=1))
    np.testing.assert_array_equal(codes.slopes, ((F - m) @ a).astype(float) / unit / 2.0**codes.slope_exponent)
    # and the grid is fine: half a unit for each coordinate
    np.testing.assert_allclose(codes.norms, np.linalg.norm(V - options["centre"], axis=1), atol=np.sqrt(60) / unit)
    np.testing.assert_array_equal(codes.code(3), codes.planes[:, 3])
    assert codes.exponent > (10 if entries == "gaussian8" else 20)


@pytest.mark.parametrize(
    ("entries", "dots", "n_moves"),
    [
        ("rademacher", "int32", 10_000),
        ("rademacher", "int64", 1000),
        ("gaussian8", "int32", 500),
        ("gaussian8", "int64", 500),
    ],
)
def test_any_number_of_updates_is_a_rebuild(entries, dots, n_moves):
    rng = np.random.default_rng(6)
    codes, options = new_codes(rng, entries=entries, dots=dots)
    V = np.zeros((7, 60))
    counts = rng.poisson(1.0, size=(50, 60))
    for _ in range(n_moves):
        k, row = rng.integers(7), counts[rng.integers(50)]
        w = np.flatnonzero(row)
        new = np.clip(V[k, w] + rng.choice([-1, 1]) * np.log1p(row[w] / 7), -options["bound"][w], options["bound"][w])
        codes.update(k, w, old=V[k, w], new=new)
        V[k, w] = new
    fresh = SignCodes(codes.hash, 7, **options)
    fresh.rebuild(V)
    assert_same(codes, fresh)
    fresh.rebuild(sparse.csr_matrix(V))
    assert_same(codes, fresh)
    V[2, 5] = -V[2, 5] + 2.0**-codes.exponent  # one grid step more or less is seen
    fresh.rebuild(V)
    assert not np.array_equal(codes.dots, fresh.dots)
    assert not np.array_equal(codes.squares, fresh.squares)


def test_the_order_of_updates_does_not_matter():
    rng = np.random.default_rng(7)
    targets = rng.uniform(-3, 3, (3, 60))
    steps = [(k, w) for k in range(3) for w in np.array_split(rng.permutation(60), 9)]
    a, options = new_codes(rng, n_codes=3)
    b = SignCodes(a.hash, 3, **options)
    for codes in (a, b):
        rng.shuffle(steps)
        for k, w in steps:
            codes.update(k, w, old=np.zeros(len(w)), new=targets[k, w])
    assert_same(a, b)
    a.update(1, np.arange(60), old=targets[1], new=np.zeros(60))
    b.clear(1)
    assert_same(a, b)


@pytest.mark.parametrize("dots", ["int32", "int64"])
def test_a_saved_code_is_put_back(dots):
    rng = np.random.default_rng(11)
    codes, _ = new_codes(rng, dots=dots)
    codes.rebuild(rng.uniform(-3, 3, (7, 60)))
    before, query = state(codes), codes.hash.codes(rng.normal(size=(1, 60)))[0]
    _, weights, _ = codes.propose(query, 0.5, norm=0.2, bias=np.zeros(7), factor=0.1)
    record = codes.save_code(4)
    codes.update(4, np.arange(60), old=np.full(60, 2.0), new=np.full(60, -3.0))
    assert not np.array_equal(codes.dots[4], before[0][4])
    assert codes.propose(query, 0.5, norm=0.2, bias=np.zeros(7), factor=0.1)[1][4] != weights[4]
    codes.restore_code(4, record)
    for a, b in zip(before, state(codes)):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(codes.propose(query, 0.5, norm=0.2, bias=np.zeros(7), factor=0.1)[1], weights)
    with pytest.raises(DataError, match="save_code"):
        codes.restore_code(4, record[1:])


def test_long_updates_cross_the_chunks():
    rng = np.random.default_rng(8)
    for n in (1, 63, 64, 65, 129):
        codes, _ = new_codes(rng, n_codes=1, n_features=130)
        v = rng.uniform(-1, 1, n)
        codes.update(0, np.arange(n), old=np.zeros(n), new=v)
        F = np.rint(v * 2.0**codes.exponent).astype(np.int64)
        np.testing.assert_array_equal(codes.dots[0], codes.hash.matrix(np.arange(n)) @ F)


@pytest.mark.parametrize("entries", KINDS)
@pytest.mark.parametrize("top", [1e-9, 1.0, 1e6, 1e15])
def test_the_grid_is_the_finest_without_overflow(entries, top):
    rng = np.random.default_rng(9)
    codes, options = new_codes(rng, entries=entries, top=top)
    scale = {"rademacher": 1, "gaussian8": 127}[entries]
    largest = lambda s: (  # noqa: E731
        scale * (np.rint(np.ldexp(options["bound"], s)) + np.abs(np.rint(np.ldexp(options["centre"], s)))).sum()
    )
    assert codes.dots.dtype == (np.int64 if top >= 1e6 else np.int32)
    if codes.dots.dtype == np.int32:
        assert largest(codes.exponent) < 2**31 <= largest(codes.exponent + 1) + 1
    sign = np.sign(codes.hash.matrix(np.arange(60))[0])
    codes.rebuild(np.tile(sign * options["bound"], (7, 1)))  # the largest inner product that there is
    F = np.rint(np.ldexp(options["bound"], codes.exponent))
    exact = sum(int(abs(r)) * int(f) for r, f in zip(codes.hash.matrix(np.arange(60))[0], F))
    assert int(codes.dots[0, 0]) == exact
    m = np.rint(np.ldexp(options["centre"], codes.exponent))
    assert int(codes.squares[0]) == sum((int(s) * int(f) - int(c)) ** 2 for s, f, c in zip(sign, F, m))


def test_empty_vectors():
    hashed = SignHash(64, seed=1)
    codes = SignCodes(hashed, 3, bound=np.ones(4))
    np.testing.assert_array_equal(codes.norms, 0)
    np.testing.assert_array_equal(codes.planes.T, hashed.tie_bits([-1, -2, -3]))
    _, weights, total = codes.propose(codes.code(0), 0.3, norm=5.0, bias=np.zeros(3))
    np.testing.assert_allclose(weights, 1, rtol=8e-5)  # no angle, no score
    np.testing.assert_allclose(total, 3, rtol=8e-5)
    centred = SignCodes(hashed, 3, bound=np.ones(4), centre=np.array([1.0, 2.0, 0.5, 0.0]))
    np.testing.assert_array_equal(centred.norms, np.sqrt(5.25))
    np.testing.assert_array_equal(unpack(centred.code(1)), hashed.matrix(range(4)) @ [1, 2, 0.5, 0] < 0)
    assert SignCodes(hashed, 2, bound=np.empty(0)).norms.tolist() == [0, 0]


def test_archive_and_pickle():
    rng = np.random.default_rng(10)
    for dots in ("int32", "int64"):
        codes, _ = new_codes(rng, dots=dots)
        codes.rebuild(rng.uniform(-3, 3, (7, 60)))
        for copy in (lambda c: pickle.loads(pickle.dumps(c)), lambda c: SignCodes.from_arrays(c.hash, c.to_arrays())):
            other = copy(codes)
            assert_same(codes, other)
            for c in (codes, other):
                c.update(2, [5, 7], old=[0.0, 0.0], new=[1.0, -2.0])
            assert_same(codes, other)
    assert repr(pickle.loads(pickle.dumps(codes.hash))) == repr(codes.hash)


# ---- distances, scores and draws -------------------------------------------------------------------------------------


def sample_codes(n_codes, n_bits, seed):
    rng = np.random.default_rng(seed)
    codes, _ = new_codes(rng, n_bits=n_bits, n_codes=n_codes, n_features=40)
    codes.rebuild(rng.uniform(-3, 3, (n_codes, 40)))
    return codes, codes.hash.codes(rng.normal(size=(5, 40))), rng


@pytest.mark.parametrize("n_bits", [64, 128, 192, 256, 320])
@pytest.mark.parametrize("n_codes", [1, 2, 15, 63, 64, 65, 200])
def test_distances_scores_and_weights(n_codes, n_bits):
    codes, queries, rng = sample_codes(n_codes, n_bits, n_codes)
    bias = rng.normal(size=n_codes).astype(np.float32)
    table = cosine_table(n_bits, beta=0.5)
    queries = [*queries, codes.code(0), ~codes.code(n_codes // 2)]  # distances 0 and l, far from those of the others
    for i, query in enumerate(queries):
        h = (unpack(codes.planes.T) != unpack(query)).sum(axis=1)
        np.testing.assert_array_equal(codes.hamming(query), h)
        factor = np.float32(0.25 * i)
        f32 = np.float32
        scores = f32(7.0) * codes.norms.astype(f32) * table[h]
        scores = (scores + factor * codes.slopes.astype(f32) if factor else scores) + bias
        k, weights, total = codes.propose(query, 0.5, norm=7.0, bias=bias, factor=factor, table=table)
        # rel. 7.5e-5 of the exponential, and half an ulp of differences of up to 256
        np.testing.assert_allclose(weights, np.exp(np.maximum(scores - scores.max(), -80.0), dtype=float), rtol=1.1e-4)
        np.testing.assert_allclose(total, weights.sum(dtype=np.float64), rtol=1e-5)
        edges = np.cumsum(weights, dtype=np.float64) / total
        assert k == min(np.searchsorted(edges, 0.5, side="right"), n_codes - 1)


def test_weights_have_a_floor_and_exclusion():
    codes, queries, _ = sample_codes(130, 64, 3)
    bias = np.zeros(130)
    bias[[0, 129]] = -np.inf
    bias[5] = -500.0
    bias[70] = 300.0
    k, weights, _ = codes.propose(queries[0], 1 - 1e-16, norm=1.0, bias=bias)
    assert weights[0] == weights[129] == 0
    np.testing.assert_allclose(weights[5], np.exp(-80.0), rtol=1.1e-4)
    assert (weights[1:129] > 0).all()
    assert 0 < k < 129
    for only in (0, 63, 64, 129):
        bias[:] = -np.inf
        bias[only] = -1e4
        for u in (0.0, 0.5, 1 - 1e-16):
            assert codes.propose(queries[0], u, norm=1.0, bias=bias)[0] == only
    bias[:] = -np.inf
    with pytest.raises(ValueError, match="no code has a finite score"):
        codes.propose(queries[0], 0.5, norm=1.0, bias=bias)
    bias[:] = 0
    bias[7] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        codes.propose(queries[0], 0.5, norm=1.0, bias=bias)


def test_law_of_the_draws():
    codes, queries, rng = sample_codes(150, 64, 4)
    n = 60_000
    bias = rng.normal(size=150)
    _, weights, total = codes.propose(queries[1], 0.0, norm=0.3, bias=bias)
    labels, q = codes.draws(np.repeat(queries[1:2], n, axis=0), rng.random(n), norms=np.full(n, 0.3), bias=bias)
    counts = np.bincount(labels, minlength=150)
    p = weights.astype(float) / weights.sum(dtype=float)
    assert stats.chisquare(counts, n * p).pvalue > 1e-4
    wrong = p**0.9
    assert stats.chisquare(counts, n * wrong / wrong.sum()).pvalue < 1e-4
    np.testing.assert_array_equal(q, weights[labels].astype(float) / total)


# ---- bounds ----------------------------------------------------------------------------------------------------------


def test_bounds():
    # Hoeffding and Chernoff half-widths for K = 1000, delta = 0.01, solved by hand with a root finder
    np.testing.assert_allclose(
        [hoeffding_bound(l, 1000, 0.01) for l in (32, 128, 512)], [0.424, 0.212, 0.106], atol=5e-4
    )
    for l, delta in itertools.product((64, 128), (0.01, 1e-6)):
        lower, z = kl_bound(l, 1000, delta), np.arange(l + 1) / l
        limit = np.log(1000 / delta) / l
        assert lower[0] == 0
        assert ((lower <= z) & (lower >= z - hoeffding_bound(l, 1000, delta) - 1e-12)).all()
        assert (np.diff(lower) >= 0).all()
        for h in range(1, l + 1):
            at = stats.entropy([z[h], 1 - z[h]], [lower[h], 1 - lower[h]])
            np.testing.assert_allclose(at, limit, rtol=1e-9)


def test_bounds_hold_for_binomial_counts():
    l, delta = 128, 0.05
    rng = np.random.default_rng(12)
    for p in (0.02, 0.3, 0.5):
        h = rng.binomial(l, p, size=(4000, 20))
        for lower in (kl_bound(l, 20, delta), np.arange(l + 1) / l - hoeffding_bound(l, 20, delta)):
            missed = (lower[h] > p).any(axis=1).mean()
            assert missed <= delta + 4 * np.sqrt(delta / 4000)


def test_cosine_tables():
    l = 128
    z = np.arange(l + 1) / l
    np.testing.assert_allclose(cosine_table(l), np.cos(np.pi * z), atol=1e-7)
    np.testing.assert_allclose(cosine_table(l, beta=0.25), 0.25 * np.cos(np.pi * z), atol=1e-7)
    bounded = cosine_table(l, bound="hoeffding", n_codes=1000)
    assert (bounded[z <= hoeffding_bound(l, 1000, 0.01)] == 1).all()
    np.testing.assert_allclose(
        cosine_table(l, bound="kl", n_codes=1000), np.cos(np.pi * kl_bound(l, 1000, 0.01)), atol=1e-7
    )


# ---- instruction sets ------------------------------------------------------------------------------------------------

INPUTS = """
import hashlib, json
import numpy as np
from expfam.structures.simd import probe as _kernels
from expfam.structures import SignCodes, SignHash
out = {"set": _kernels.instruction_set()}
for entries in ("rademacher", "gaussian8"):
    for dots in ("int32", "int64"):
        rng = np.random.default_rng(1)
        hashed = SignHash(192, entries=entries, seed=3)
        codes = SignCodes(hashed, 213, bound=np.full(150, 9.0), centre=rng.normal(size=150),
                          direction=rng.normal(size=150), dots=dots)
        codes.rebuild(rng.normal(size=(213, 150)))
        X = rng.normal(size=(60, 150))
        bias = rng.normal(size=213) * 3
        bias[::9] = -np.inf
        words = hashed.codes(X)
        labels, q = codes.draws(words, rng.random(60), norms=rng.random(60) * 9, factors=rng.random(60), bias=bias)
        _, weights, total = codes.propose(words[0], 0.5, norm=3.3, bias=bias, factor=0.7)
        results = {"dots": codes.dots, "planes": codes.planes, "projection": hashed.project(X), "codes": words,
                   "hamming": codes.hamming(words[1]), "labels": labels, "q": q, "weights": weights,
                   "total": np.array(total)}
        for name, value in results.items():
            out[f"{entries} {dots} {name}"] = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
for n_bits in (64, 128, 256, 320):  # every distance to code 0, in the middle of the table and outside
    n = n_bits + 1
    codes = SignCodes(SignHash(n_bits), n, bound=np.full(150, 9.0))
    codes.rebuild(rng.normal(size=(n, 150)))
    words, table = np.repeat(codes.planes[:, :1].T, n, axis=0), rng.normal(size=n)
    for h in range(n_bits):
        words[h + 1 :, h // 64] ^= np.uint64(1 << h % 64)
    labels, q = codes.draws(words, rng.random(n), norms=rng.random(n), bias=rng.normal(size=n), table=table)
    weights = [codes.propose(word, 0.5, norm=1.0, bias=np.zeros(n), table=table)[1] for word in words]
    for name, value in {"labels": labels, "q": q, "weights": weights}.items():
        out[f"{n_bits} {name}"] = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
print(json.dumps(out))
"""


def instances(forced):
    return json.loads(output_under(forced, INPUTS))


@pytest.fixture(scope="module")
def base():
    return instances("base")


@pytest.mark.parametrize("forced", SETS[1:])
def test_instances_agree_to_the_bit(base, forced):
    assert base.pop("set", "base") == "base"
    other = instances(forced)
    assert len(other) > 30
    if other.pop("set") != forced:
        pytest.skip(f"this machine has no {forced}")
    assert other == base


def test_the_set_in_use():
    assert instruction_set() in SETS


# ---- bad input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_bits", [0, -1, 4097])
def test_bad_numbers_of_bits(n_bits):
    with pytest.raises(ValueError, match=r"\[1, 4096\]"):
        SignHash(n_bits)


def test_bad_hashes():
    with pytest.raises(TypeError, match="integer"):
        SignHash(64.0)
    with pytest.raises(ValueError, match="gaussian8"):
        SignHash(64, entries="normal")
    with pytest.raises(ValueError, match="seed"):
        SignHash(64, seed=-1)


def test_bad_data():
    hashed = SignHash(64)
    X = np.ones((600, 3))
    X[555, 1] = np.nan
    with pytest.raises(DataError, match="row 555"):
        hashed.codes(X)
    with pytest.raises(DataError, match="row 555"):
        hashed.codes(sparse.csr_matrix(X))
    with pytest.raises(DataTypeError, match="CSR"):
        hashed.codes(sparse.csc_matrix(X))
    with pytest.raises(DataTypeError, match="real"):
        hashed.codes(np.ones((2, 2), dtype=complex))
    with pytest.raises(DataError, match="two dimensions"):
        hashed.codes(np.ones(3))
    with pytest.raises(DataError, match="scale"):
        hashed.codes(np.ones((2, 3)), scale=np.ones(2))
    with pytest.raises(DataError, match=r"centre\[1\]"):
        hashed.codes(np.ones((2, 2)), centre=[0, np.inf])
    broken = sparse.csr_matrix(np.eye(3))
    broken.indices[1] = 7
    with pytest.raises(DataError, match="column indices"):
        hashed.codes(broken)


def test_bad_codes():
    hashed = SignHash(64)
    with pytest.raises(ValueError, match="n_codes"):
        SignCodes(hashed, 0, bound=np.ones(3))
    with pytest.raises(DataError, match=r"bound\[1\]"):
        SignCodes(hashed, 2, bound=[1.0, -1.0])
    with pytest.raises(ValueError, match="int32"):
        SignCodes(hashed, 2, bound=[1.0], dots="int16")
    codes = SignCodes(hashed, 2, bound=np.full(3, 2.0))
    before = state(codes)
    for w, new, message in (([0], [2.1], "coordinate 0"), ([3], [1.0], r"\[0, 3\)"), ([1], [np.nan], "coordinate 1")):
        with pytest.raises(DataError, match=message):
            codes.update(0, w, old=[0.0], new=new)
    with pytest.raises(DataError, match="shapes"):
        codes.update(0, [0, 1], old=[0.0], new=[0.0, 1.0])
    with pytest.raises(IndexError, match="n_codes is 2"):
        codes.update(2, [0], old=[0.0], new=[1.0])
    with pytest.raises(DataError, match="expected \\(2, 3\\)"):
        codes.rebuild(np.ones((3, 3)))
    with pytest.raises(DataError, match="bound"):
        codes.rebuild([[1, 1, 1], [1, 1, 5]])
    for a, b in zip(before, state(codes)):
        np.testing.assert_array_equal(a, b)
    with pytest.raises(ValueError, match="read-only"):
        codes.dots[0] = 1
    with pytest.raises(DataTypeError, match="uint64"):
        codes.hamming([1])
    with pytest.raises(DataError, match=r"expected \(1 word\)"):
        codes.hamming(np.zeros(2, np.uint64))
    query = np.zeros(1, np.uint64)
    with pytest.raises(DataError, match="bias"):
        codes.propose(query, 0.5, norm=1.0, bias=np.zeros(3))
    with pytest.raises(ValueError, match=r"\[0, 1\)"):
        codes.propose(query, 1.0, norm=1.0, bias=np.zeros(2))
    with pytest.raises(DataError, match="norms"):
        codes.propose(query, 0.5, norm=np.nan, bias=np.zeros(2))
    with pytest.raises(DataError, match="dots"):
        SignCodes.from_arrays(SignHash(128), codes.to_arrays())


def test_bad_bounds():
    for bad in ({"beta": 0.0}, {"beta": 1.5}, {"bound": "chernoff"}, {"bound": "kl", "delta": 0.0}):
        with pytest.raises(ValueError):
            cosine_table(64, **bad)
    with pytest.raises(ValueError, match="at least 1"):
        hoeffding_bound(0, 10, 0.1)


@pytest.mark.parametrize("n_columns", [1, 3, 65, 1100])
@pytest.mark.parametrize("entries", ["rademacher", "gaussian8"])
def test_codes_of_dense_rows_are_those_of_each_row_alone(n_columns, entries):
    """Many dense rows look the entries up once, one row has them from the hash: the sums are the same bits."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, n_columns))
    X[::2] = rng.integers(-1, 2, size=(20, n_columns))  # dot products that are equal to those of the centre
    hashed = SignHash(130, entries=entries, seed=5)
    centre = X[0].copy()
    together = hashed.codes(X, centre=centre)
    alone = [hashed.codes(X[i : i + 1], centre=centre, first_row=i)[0] for i in range(40)]
    assert np.array_equal(together, alone)
