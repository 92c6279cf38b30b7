"""k-means against a plain one in NumPy: seeds, Lloyd passes, empty clusters, duplicates, threads, instruction sets."""

import json
import warnings

import numpy as np
import pytest
from instruction_sets import output_under
from kmeans_slow import greedy_seeds, inertia, lloyd, squares
from sklearn.cluster import KMeans
from threadpoolctl import threadpool_limits

from expfam.errors import DataError
from expfam.structures import RowTiles, nearest_centres
from expfam.structures.rows.kmeans import RowBlocks, RowsInPlace

SHAPES = [(1, 1, 1), (5, 2, 5), (31, 3, 4), (33, 1, 3), (150, 4, 3), (257, 7, 9), (700, 33, 40), (5000, 5, 6)]


def blobs(n, d, k, seed=0, spread=3.0):
    rng = np.random.default_rng(seed)
    return spread * rng.normal(size=(k, d))[rng.integers(k, size=n)] + rng.normal(size=(n, d))


def n_trials(K):
    return 2 + int(np.log(K))


# ---- seeds -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "d", "k"), SHAPES)
def test_seeds_are_those_of_plain_greedy_sampling(n, d, k):
    X = blobs(n, d, k).astype(np.float32)
    for seed in range(3):
        uniform = np.random.default_rng(seed).random(1 + (k - 1) * n_trials(k))
        found = RowTiles(X).seeds(k, np.random.default_rng(seed))
        np.testing.assert_array_equal(found, greedy_seeds(X.astype(np.float64), k, uniform, n_trials(k)))


def test_one_trial_is_sampling_by_squared_distance():
    tiles, counts = RowTiles([[0.0], [1.0], [3.0]]), np.zeros((3, 3))
    rng = np.random.default_rng(2)
    for _ in range(6000):
        a, b = tiles.seeds(2, rng, n_trials=1)
        counts[a, b] += 1
    expected = 2000 * np.array([[0, 0.1, 0.9], [0.2, 0, 0.8], [9 / 13, 4 / 13, 0]])
    assert counts[expected == 0].sum() == 0
    assert ((counts - expected)[expected > 0] ** 2 / expected[expected > 0]).sum() < 25.7  # 5 degrees, 1e-4


@pytest.mark.parametrize("trials", [1, 2, 3, 4, 5, 9])
def test_any_number_of_trials(trials):
    X = blobs(600, 3, 8)
    uniform = np.random.default_rng(1).random(1 + 7 * trials)
    found = RowTiles(X).seeds(8, np.random.default_rng(1), n_trials=trials)
    np.testing.assert_array_equal(found, greedy_seeds(X, 8, uniform, trials))


def test_more_trials_leave_less():
    X, tiles = blobs(500, 2, 25), RowTiles(blobs(500, 2, 25))
    left = {1: 0.0, 5: 0.0}
    for trials in left:
        for seed in range(20):
            seeds = tiles.seeds(25, np.random.default_rng(seed), n_trials=trials)
            left[trials] += squares(X, X[seeds]).min(axis=1).sum()
    assert left[5] < 0.9 * left[1]


# ---- Lloyd -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("n", "d", "k"), SHAPES)
def test_passes_are_those_of_plain_lloyd(n, d, k, dtype):
    X = blobs(n, d, k, seed=1).astype(dtype)
    start = X[np.random.default_rng(3).permutation(n)[:k]]
    for options in ({}, {"tol": 0.0, "max_passes": 100}, {"max_passes": 2}):
        labels, centres = RowTiles(X).lloyd(start, **options)
        expected, means = lloyd(X.astype(np.float64), start.astype(np.float64), **options)
        assert labels.dtype == np.int32
        assert centres.dtype == np.float64
        np.testing.assert_array_equal(labels, expected)
        np.testing.assert_allclose(centres, means, rtol=1e-6, atol=1e-5)


def test_one_cluster_is_the_mean_and_n_clusters_are_the_rows():
    X = blobs(300, 3, 5)
    labels, centres = RowTiles(X).kmeans(1, np.random.default_rng(0))
    assert not labels.any()
    np.testing.assert_allclose(centres[0], X.mean(axis=0), atol=1e-6)
    labels, centres = RowTiles(X).kmeans(300, np.random.default_rng(0))
    assert sorted(labels) == list(range(300))
    np.testing.assert_allclose(centres[labels], X, atol=1e-5)


def test_rows_far_from_the_origin_lose_nothing():
    X = blobs(1000, 4, 6)
    near = RowTiles(X).kmeans(6, np.random.default_rng(1))
    far = RowTiles(X + 1e6).kmeans(6, np.random.default_rng(1))
    np.testing.assert_array_equal(near[0], far[0])
    np.testing.assert_allclose(near[1], far[1] - 1e6, atol=1e-4)


def test_many_segments_and_blocks_of_centres():
    X = blobs(4600, 130, 150, seed=4).astype(np.float32)
    start = X[:150]
    labels, centres = RowTiles(X).lloyd(start, max_passes=3)
    expected, means = lloyd(X.astype(np.float64), start.astype(np.float64), max_passes=3)
    np.testing.assert_array_equal(labels, expected)
    np.testing.assert_allclose(centres, means, atol=1e-4)


def test_the_mean_inertia_is_that_of_scikit_learn():
    X = blobs(2000, 2, 20, spread=4.0)
    ours = np.mean([inertia(X, RowTiles(X).kmeans(20, np.random.default_rng(s))[0]) for s in range(60)])
    with threadpool_limits(1):  # its threads wait for each other actively
        theirs = np.mean([KMeans(20, n_init=1, random_state=s).fit(X).inertia_ for s in range(60)])
    assert ours < 1.03 * theirs


# ---- empty clusters and duplicates -----------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [2, 5, 40])
def test_centres_without_rows_get_the_farthest_ones(k):
    X = blobs(600, 2, 4, seed=5)
    start = np.concatenate([X[:1], np.full((k - 1, 2), 1e3)])
    labels, centres = RowTiles(X).lloyd(start)
    expected, means = lloyd(X, start)
    np.testing.assert_array_equal(labels, expected)
    np.testing.assert_allclose(centres, means, atol=1e-4)
    assert len(centres) == k
    assert np.bincount(labels).min() > 0


@pytest.mark.parametrize("max_passes", [0, 1, 2])
def test_no_cluster_is_lost_in_the_last_pass(max_passes):
    X = blobs(300, 2, 3, seed=7)
    start = np.concatenate([X[:1], np.full((5, 2), 1e3)])
    labels, centres = RowTiles(X).lloyd(start, max_passes=max_passes)
    expected, means = lloyd(X, start, max_passes=max_passes)
    assert len(centres) == 6
    np.testing.assert_array_equal(labels, expected)
    np.testing.assert_allclose(centres, means, atol=1e-4)


def test_equal_centres_are_separated():
    X = blobs(400, 3, 4, seed=6)
    labels, centres = RowTiles(X).lloyd(np.repeat(X[:1], 4, axis=0))
    assert len(np.unique(centres, axis=0)) == 4
    np.testing.assert_array_equal(np.unique(labels), np.arange(4))


@pytest.mark.parametrize("scale", [1.0, 0.1])
def test_fewer_distinct_rows_than_clusters_give_fewer_clusters(scale):
    X = scale * np.repeat([[0.0, 1.0], [1.0, 7.0], [5.0, 2.0]], 100, axis=0)
    tiles = RowTiles(X)
    assert len(tiles.seeds(8, np.random.default_rng(0))) == 3
    labels, centres = tiles.kmeans(8, np.random.default_rng(0))
    assert len(centres) == 3
    assert len({(a, b) for a, b in zip(labels.tolist(), np.repeat([0, 1, 2], 100).tolist())}) == 3
    labels, centres = tiles.lloyd(np.full((8, 2), 50.0))  # all but one are empty at first
    assert len(centres) == 3
    np.testing.assert_array_equal(np.bincount(labels), [100, 100, 100])


def test_equal_rows_are_one_cluster():
    labels, centres = RowTiles(np.full((70, 3), 0.1)).kmeans(5, np.random.default_rng(0))
    assert not labels.any()
    np.testing.assert_allclose(centres, [[0.1, 0.1, 0.1]], atol=1e-8)


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e30])
def test_entries_out_of_range_end_all_the_same(bad):
    X = blobs(400, 3, 4)
    X[17, 1] = bad
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        labels, _ = RowTiles(X).kmeans(4, np.random.default_rng(0))
    assert labels.shape == (400,)
    assert labels.min() >= 0


# ---- threads, instruction sets, errors -------------------------------------------------------------------------------


def test_the_same_bits_for_any_number_of_threads():
    X = blobs(40_000, 6, 30)
    results = []
    for n in (1, 2, 3):
        tiles = RowTiles(X, n_threads=n)
        seeds = tiles.seeds(30, np.random.default_rng(0), n_threads=n)
        labels, centres = tiles.lloyd(X[seeds], n_threads=n)
        results.append(seeds.tobytes() + labels.tobytes() + centres.tobytes())
        results[-1] += nearest_centres(X, centres, n_threads=n).tobytes()
    assert results[0] == results[1] == results[2]


@pytest.mark.parametrize("isa", ["base", "avx2", "avx512"])
def test_other_instructions_give_the_same_labels(isa):
    code = (
        "import json, numpy as np; from expfam.structures import RowTiles\n"
        "X = np.random.default_rng(0).normal(size=(1000, 7)); t = RowTiles(X)\n"
        "labels, centres = t.kmeans(11, np.random.default_rng(1))\n"
        "print(json.dumps([t.seeds(11, np.random.default_rng(1)).tolist(), labels.tolist(), centres.tolist()]))"
    )
    found = output_under(isa, code)
    seeds, labels, centres = json.loads(found)
    X = np.random.default_rng(0).normal(size=(1000, 7))
    uniform = np.random.default_rng(1).random(1 + 10 * n_trials(11))
    assert seeds == greedy_seeds(X, 11, uniform, n_trials(11)).tolist()
    expected, means = lloyd(X, X[seeds])
    assert labels == expected.tolist()
    np.testing.assert_allclose(centres, means, atol=1e-6)


@pytest.mark.parametrize(("n", "d", "k"), [*SHAPES, (0, 3, 2), (4500, 3, 2)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_nearest_centres_are_those_of_all_distances(n, d, k, dtype):
    X = blobs(n, d, k).astype(dtype)
    centres = blobs(k, d, k, seed=9)
    np.testing.assert_array_equal(nearest_centres(X, centres), squares(X.astype(np.float64), centres).argmin(axis=1))


def test_of_equally_near_centres_the_first_one_wins():
    assert nearest_centres(np.zeros((40, 1)), [[3.0], [1.0], [-1.0], [1.0], [2.0], [-1.0]]).tolist() == [1] * 40


def test_runs_that_share_memory_are_those_of_new_rows():
    X = np.random.default_rng(4).normal(size=(150, 3))
    shared, runs = RowTiles(X), [(3, 0), (3, 1), (7, 2), (3, 3), (7, 2), (150, 4)]
    for K, seed in [*runs, *runs]:
        labels, centres = shared.kmeans(K, np.random.default_rng(seed))
        expected, of_centres = RowTiles(X).kmeans(K, np.random.default_rng(seed))
        np.testing.assert_array_equal(labels, expected)
        np.testing.assert_array_equal(centres, of_centres)
    first = shared.kmeans(3, np.random.default_rng(0))[0].copy()
    again = shared.kmeans(3, np.random.default_rng(0))[0]
    shared.kmeans(3, np.random.default_rng(1))
    np.testing.assert_array_equal(again, first)  # a later run writes to labels of its own


def test_rows_come_back():
    X = blobs(100, 3, 2)
    np.testing.assert_allclose(RowTiles(X).take([5, 99, 5]), X[[5, 99, 5]], atol=1e-6)
    with pytest.raises(ValueError, match="numbers from 0 to 99"):
        RowTiles(X).take([100])


def test_unusable_arguments_are_named():
    tiles = RowTiles(blobs(50, 3, 2))
    for K in (0, 51, 1.5):
        with pytest.raises(ValueError, match=f"from 1 to the 50 rows; got {K}"):
            tiles.kmeans(K, np.random.default_rng(0))
    with pytest.raises(ValueError, match="n_trials must be a whole number of at least 1; got 0"):
        tiles.seeds(2, np.random.default_rng(0), n_trials=0)
    for bad in (np.zeros((2, 4)), np.zeros((0, 3))):
        with pytest.raises(DataError, match=r"centres must have shape \(K, 3\)"):
            tiles.lloyd(bad)
        with pytest.raises(DataError, match=r"centres must have shape \(K, 3\)"):
            nearest_centres(np.zeros((5, 3)), bad)
    for bad in (np.zeros(3), np.zeros((0, 3)), np.zeros((3, 0))):
        with pytest.raises(DataError, match="X must"):
            RowTiles(bad)


def test_weighted_rows_are_repeated_rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(700, 3)) + 9 * np.eye(3)[np.arange(700) % 3]
    times = rng.integers(1, 5, 700)
    rows = np.repeat(np.arange(700), times)
    for seed in range(4):
        weighted = RowTiles(X, weight=times).kmeans(3, np.random.default_rng(seed))
        repeated = RowTiles(X[rows]).kmeans(3, np.random.default_rng(seed))
        np.testing.assert_array_equal(weighted[0][rows], repeated[0])
        np.testing.assert_allclose(weighted[1], repeated[1], rtol=1e-5)
    means = [np.average(X[weighted[0] == k], axis=0, weights=times[weighted[0] == k]) for k in range(3)]
    np.testing.assert_allclose(weighted[1], means, rtol=1e-5)


def test_weights_of_one_change_no_bit():
    X = np.random.default_rng(1).normal(size=(500, 4))
    plain, ones = (RowTiles(X, weight=w).kmeans(7, np.random.default_rng(0)) for w in (None, np.ones(500)))
    np.testing.assert_array_equal(plain[0], ones[0])
    np.testing.assert_array_equal(plain[1], ones[1])


def test_seeds_follow_the_weights_and_threads_change_nothing():
    X = np.random.default_rng(2).normal(size=(9000, 2))
    weight = np.where(np.arange(9000) < 20, 1.0, 1e-9)
    first = {int(RowTiles(X, weight=weight).seeds(2, np.random.default_rng(seed))[0]) for seed in range(30)}
    assert first <= set(range(20))
    assert len(first) > 5
    weight = np.random.default_rng(3).gamma(1.0, size=9000)
    one, two = (
        RowTiles(X, weight=weight, n_threads=t).kmeans(30, np.random.default_rng(0), n_threads=t) for t in (1, 3)
    )
    np.testing.assert_array_equal(one[0], two[0])
    np.testing.assert_array_equal(one[1], two[1])


@pytest.mark.parametrize("weight", [[1.0, 0.0, 1.0], [1.0, -1.0, 1.0], [1.0, np.nan, 1.0], [1.0, 1.0]])
def test_weights_that_are_not_positive_are_refused(weight):
    with pytest.raises(DataError, match="weight must be 3 positive numbers: leave out rows of weight 0"):
        RowTiles(np.eye(3), weight=weight)


# ---- nearest centres by integers -------------------------------------------------------------------------------------


def many(kind, n=700, d=61, k=130, seed=0):
    """Rows and more than 64 centres of more than 48 columns, for which integers are tried."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(k, d))
    X = centres[rng.integers(k, size=n)] + {"planted": 0.3, "noise": 30.0}.get(kind, 1.0) * rng.normal(size=(n, d))
    if kind == "ties":
        centres[k // 2 :] = centres[: k - k // 2]
        X[:20] = (centres[:20] + centres[20:40]) / 2
    if kind == "far":
        X[::7] = 0.0
        X, centres = 1e3 * X + 1e6, 1e3 * centres + 1e6
        X[3] = 1e15
    return X.astype(np.float32) if kind != "noise" else X, centres


@pytest.mark.parametrize("kind", ["planted", "noise", "ties", "far"])
def test_integers_change_no_label(monkeypatch, kind):
    X, centres = many(kind)
    found = []
    for has in (True, False):
        monkeypatch.setattr("expfam.structures.rows.kmeans.has_byte_products", lambda has=has: has)
        labels, moved = RowTiles(X).lloyd(centres, max_passes=4)
        found.append((nearest_centres(X, centres).tobytes(), labels.tobytes(), moved.tobytes()))
    assert found[0] == found[1]
    exact = squares(X.astype(np.float64), centres)
    own = exact[np.arange(len(X)), nearest_centres(X, centres)]
    assert (own <= exact.min(axis=1) + 1e-5 * (1.0 + np.square(X.astype(np.float64) - X.mean()).sum(axis=1))).all()


@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize(("n", "d", "k"), [(33, 1, 3), (700, 33, 40), (5000, 5, 6), (700, 61, 130), (4500, 64, 70)])
def test_rows_that_are_read_where_they_lie_have_the_bits_of_stored_rows(n, d, k, is_weighted):
    X, rng = blobs(n, d, k).astype(np.float32), np.random.default_rng(5)
    weight = rng.integers(1, 4, n).astype(float) if is_weighted else None
    centre, scale = X.mean(axis=0, dtype=np.float64), rng.random(d)
    scale[0] = 0.0 if d > 1 else 1.0

    def read(part):
        return (X[part] - centre) * scale

    found = []
    for rows in (read(slice(None)), RowBlocks(read, n), RowsInPlace(read, n, X, centre, scale)):
        tiles = RowTiles(rows, weight=weight, n_threads=2)
        seeds = tiles.seeds(k, np.random.default_rng(1), n_threads=2)
        begun = tiles.take(seeds)
        begun[::3] = 1e3  # centres that get no row: refilled
        labels, centres = tiles.lloyd(begun, n_threads=2)
        found.append([part.tobytes() for part in (seeds, begun, labels, centres)])
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("isa", ["base", "avx2"])
def test_integers_change_no_label_under_other_instructions(isa):
    code = """
import pytest
from test_kmeans import test_integers_change_no_label as check
for kind in ("planted", "noise", "ties", "far"):
    with pytest.MonkeyPatch.context() as patch:
        check(patch, kind)
print("same")
"""
    assert output_under(isa, code, file=__file__).strip() == "same"


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [1, 31, 5000])
def test_rows_that_are_made_when_they_are_read(n, dtype):
    X, sizes = blobs(n, 5, 4).astype(dtype), []
    weight = 1.0 + np.arange(n) % 3

    def read(part):
        sizes.append(len(X[part]))
        return X[part]

    tiles = RowTiles(RowBlocks(read, n), weight=weight)
    whole = RowTiles(X, weight=weight)
    k = min(n, 4)
    for one, other in zip(tiles.kmeans(k, np.random.default_rng(0)), whole.kmeans(k, np.random.default_rng(0))):
        np.testing.assert_array_equal(one, other)
    assert max(sizes) <= 4096
