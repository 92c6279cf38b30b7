"""Starting labels: rules, their laws, and the checks of given ones."""

import numpy as np
import pytest
from scipy import sparse
from scipy.special import gammaln

from expfam.families.base import Family
from expfam.families.counts.poisson import Poisson
from expfam.families.gaussian.diagonal import DiagonalGaussian
from expfam.model.data import Dataset
from expfam.model.mixture import MixtureModel
from expfam.model.weights import DirichletProcess, PitmanYor, SymmetricDirichlet
from expfam.samplers import (
    Canopy,
    CollapsedGibbs,
    ExpectationMaximization,
    FastEx,
    SparseVariational,
    StochasticEM,
    UncollapsedGibbs,
)
from expfam.samplers.chain.driver import advance
from expfam.samplers.geometry.coordinates import NearestSeeds, nearest
from expfam.samplers.starts import rules as starts
from expfam.samplers.starts import tree as tree_start
from expfam.samplers.starts.rules import default_n_clusters, distant_rows, starting_labels
from expfam.samplers.starts.tree import _level
from expfam.structures import CoverTree, CoverTreeWarning


class Counts(Family):
    """Independent Poisson columns with a gamma prior, in plain NumPy."""

    support = "counts"
    accepts_sparse = True

    def __init__(self, *, shape=1.0, rate=1.0):
        self.shape, self.rate = shape, rate

    def sufficient_statistics(self, X):
        return X

    def log_marginal(self, n, S):
        a, b = self.shape, self.rate
        return (gammaln(a + S) - gammaln(a) + a * np.log(b) - (a + S) * np.log(b + n)[:, None]).sum(axis=1)


class Shifts(Family):
    """Unit-variance Gaussian columns with a normal prior on the means, in plain NumPy."""

    def __init__(self, *, strength=0.01):
        self.strength = strength

    def sufficient_statistics(self, X):
        return np.asarray(X, dtype=np.float64)

    def log_marginal(self, n, S):
        k = self.strength + n
        return 0.5 * ((S**2).sum(axis=1) / k + S.shape[1] * np.log(self.strength / k))


def setup(X, weights=None, family=None, **options):
    family = family or (Shifts() if np.asarray(X.data if sparse.issparse(X) else X).dtype.kind == "f" else Counts())
    data = Dataset(X, family, **options)
    return MixtureModel(data.family, weights or DirichletProcess()), data


def blobs(N=300, offset=0.0, scale=1.0):
    rng = np.random.default_rng(0)
    z = np.arange(N) % 3
    return offset + scale * (np.array([[0.0, 0.0], [20.0, 0.0], [0.0, 20.0]])[z] + rng.normal(size=(N, 2))), z


def same_partition(a, b):
    pairs = len(set(zip(a.tolist(), b.tolist())))
    return pairs == len(set(a.tolist())) == len(set(b.tolist()))


# ---- random, one, auto -------------------------------------------------------------------------------------------


def test_random_is_uniform():
    model, data = setup(np.zeros((60000, 1), dtype=int), SymmetricDirichlet(7))
    labels = starting_labels("random", model, data, seed=3)
    assert labels.dtype == np.int32
    counts = np.bincount(labels, minlength=7)
    assert ((counts - 60000 / 7) ** 2 / (60000 / 7)).sum() < 26.1  # chi-square, 6 degrees, 2e-4
    assert not np.array_equal(labels, starting_labels("random", model, data, seed=4))


@pytest.mark.parametrize("cut", [1, 2, 4, 7, 101])
def test_random_labels_of_a_shard_are_those_of_its_rows(cut):
    X = np.zeros((200, 1), dtype=int)
    model, whole = setup(X)
    _, shard = setup(X[cut:], row_offset=cut)
    labels = starting_labels("random", model, whole, seed=9, n_clusters=50)
    np.testing.assert_array_equal(labels[cut:], starting_labels("random", model, shard, seed=9, n_clusters=50))


def test_default_number_of_clusters():
    family = setup(np.zeros((3, 1)))[0].family
    assert default_n_clusters(MixtureModel(family, SymmetricDirichlet(12)), 5) == 12
    real = MixtureModel(family, DirichletProcess())
    assert [default_n_clusters(real, n) for n in (1, 2, 100, 101, 10**7)] == [1, 2, 10, 11, 256]
    counts = MixtureModel(Poisson(shape=1.0, rate=1.0), DirichletProcess())
    assert [default_n_clusters(counts, n) for n in (1, 2, 100, 101, 10**7)] == [1, 1, 13, 13, 256]


def test_one_and_auto():
    X, _ = blobs()
    model, data = setup(X)
    assert not starting_labels("one", model, data, seed=0).any()
    auto = starting_labels("auto", model, data, seed=0, n_clusters=3)
    np.testing.assert_array_equal(auto, starting_labels("kmeans++", model, data, seed=0, n_clusters=3))
    model, data = setup(np.arange(40).reshape(20, 2))
    auto = starting_labels("auto", model, data, seed=0)
    np.testing.assert_array_equal(auto, starting_labels("random", model, data, seed=0))


# ---- k-means++ ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_kmeans_finds_separated_groups(offset):
    X, z = blobs(offset=offset)
    hits = 0
    for seed in range(10):
        model, data = setup(X)
        hits += same_partition(starting_labels("kmeans++", model, data, seed=seed, n_clusters=3), z)
    assert hits >= 9  # a seed misses a group with probability about 2 (1 + 1) / 20^2


def test_kmeans_does_not_depend_on_units_or_origin():
    X, _ = blobs()
    first = starting_labels("kmeans++", *setup(X), seed=2, n_clusters=8)
    other = starting_labels("kmeans++", *setup(X * [1e3, 1e-3] + [1e3, 5.0]), seed=2, n_clusters=8)
    np.testing.assert_array_equal(first, other)


@pytest.mark.parametrize("n_seeding_rows", [20_000, 100])  # all rows are looked at for seeds, or some
def test_kmeans_labels_are_the_nearest_seeds(monkeypatch, n_seeding_rows):
    X = np.random.default_rng(1).normal(size=(500, 3))
    kept, pick = [], starts._distant

    def recorded(points, *given):
        picked, found = pick(points, *given)
        kept.append(points[picked])
        return picked, found

    monkeypatch.setattr(starts, "_distant", recorded)
    monkeypatch.setattr(starts, "_SEEDING_ROWS", n_seeding_rows)
    labels = starting_labels("kmeans++", *setup(X), seed=5, n_clusters=10)
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    assert kept[0].shape == (10, 3)
    np.testing.assert_array_equal(labels, ((Z[:, None] - kept[0][None]) ** 2).sum(axis=2).argmin(axis=1))


def test_seeds_are_drawn_by_squared_distance():
    points = np.array([[0.0], [1.0], [3.0]])
    counts = np.zeros((3, 3))
    rng = np.random.default_rng(2)
    for _ in range(6000):
        a, b = distant_rows(points, 2, rng).ravel()
        counts[[0.0, 1.0, 3.0].index(a), [0.0, 1.0, 3.0].index(b)] += 1
    expected = 2000 * np.array([[0, 0.1, 0.9], [0.2, 0, 0.8], [9 / 13, 4 / 13, 0]])
    assert counts[expected == 0].sum() == 0
    assert ((counts - expected)[expected > 0] ** 2 / expected[expected > 0]).sum() < 25.7  # 5 degrees, 1e-4


def law_of_left_out(points, K):
    """Law of the set of points that D^2 sampling of K, one by one, leaves out."""
    squares = (points[:, None] - points) ** 2
    law = {frozenset([i]): 1 / len(points) for i in range(len(points))}
    for _ in range(K - 1):
        longer = {}
        for picked, p in law.items():
            distance = squares[list(picked)].min(axis=0)
            for i in np.flatnonzero(distance):
                key = picked | {int(i)}
                longer[key] = longer.get(key, 0.0) + p * distance[i] / distance.sum()
        law = longer
    return {frozenset(range(len(points))) - picked: p for picked, p in law.items()}


def test_seeds_drawn_together_have_the_law_of_one_by_one(monkeypatch):
    points, K, n_runs = np.array([0.0, 1.0, 1.4, 3.0, 4.5, 6.0]), 4, 3000
    expected = law_of_left_out(points, K)
    monkeypatch.setattr(starts, "_PICKED_A_DRAW", 1)  # draws of one, then of two and more
    rng, counts = np.random.default_rng(8), dict.fromkeys(expected, 0)
    for _ in range(n_runs):
        picked = distant_rows(points[:, None], K, rng)
        counts[frozenset(np.flatnonzero(~np.isin(points, picked)).tolist())] += 1
    found, law = np.array(list(counts.values())), n_runs * np.array(list(expected.values()))
    order = np.argsort(law)
    parts = np.searchsorted(np.cumsum(law[order]), [25])  # rare sets are judged together
    found, law = (np.add.reduceat(v[order], [0, *range(parts[0] + 1, len(law))]) for v in (found, law))
    assert len(law) >= 8
    assert ((found - law) ** 2 / law).sum() < 42.6  # at most 14 degrees, 1e-4


@pytest.mark.parametrize(
    ("scale", "offset"), [(1.0, 0.0), (1e-5, 1.0), (1.0, 1e4), (1e30, 0.0)], ids=["plain", "tight", "far", "huge"]
)
def test_nearest_seeds_are_those_of_double_precision(scale, offset):
    rng = np.random.default_rng(3)
    points = offset + scale * (rng.normal(size=(1500, 6)) + 4 * rng.integers(0, 3, size=(1500, 1)))
    seeds = points[rng.permutation(1500)[:700]]
    squares = ((points[:, None] - seeds) ** 2).sum(axis=2)
    found = NearestSeeds(points)
    for part in np.split(seeds, [*range(1, 40), 300]):
        found.add(part, n_threads=2)
    np.testing.assert_array_equal(found.index, squares.argmin(axis=1))
    np.testing.assert_array_equal(nearest(points, seeds), squares.argmin(axis=1))
    assert np.all(np.abs(found.distance - squares.min(axis=1)) <= 1e-12 * (4 * points**2).sum(axis=1))


def test_kmeans_does_not_depend_on_threads():
    X = np.random.default_rng(5).normal(size=(5000, 4))
    one = starting_labels("kmeans++", *setup(X), seed=1, n_clusters=600, n_threads=1)
    np.testing.assert_array_equal(one, starting_labels("kmeans++", *setup(X), seed=1, n_clusters=600, n_threads=2))
    assert np.unique(one).size == 600


def test_kmeans_on_sparse_counts_is_that_on_dense_ones():
    rng = np.random.default_rng(4)
    z = np.arange(400) % 4
    X = rng.poisson(np.where(np.arange(40)[None] % 4 == z[:, None], 6.0, 0.05))
    dense = starting_labels("kmeans++", *setup(X), seed=6, n_clusters=4)
    for index in (np.int32, np.int64):
        csr = sparse.csr_array(X)
        csr.indices, csr.indptr = csr.indices.astype(index), csr.indptr.astype(index)
        np.testing.assert_array_equal(dense, starting_labels("kmeans++", *setup(csr), seed=6, n_clusters=4))
    assert same_partition(dense, z)


def test_kmeans_in_blocks_is_the_same(monkeypatch):
    X, _ = blobs()
    whole = starting_labels("kmeans++", *setup(X), seed=2, n_clusters=8)
    monkeypatch.setattr("expfam.samplers.geometry.coordinates._BLOCK_BYTES", 800)
    np.testing.assert_array_equal(whole, starting_labels("kmeans++", *setup(X), seed=2, n_clusters=8))


def test_kmeans_on_sparse_real_data_scales_without_centring():
    class Sparse(Shifts):
        accepts_sparse = True

        def sufficient_statistics(self, X):
            return X

    X, z = blobs()
    X = np.where(np.abs(X) < 8.0, 0.0, X)
    dense = starting_labels("kmeans++", *setup(X), seed=2, n_clusters=3)
    csr = starting_labels("kmeans++", *setup(sparse.csr_array(X), family=Sparse()), seed=2, n_clusters=3)
    np.testing.assert_array_equal(dense, csr)
    assert same_partition(dense, z)


def test_kmeans_takes_no_more_seeds_than_distinct_rows():
    X = np.repeat([[0.0], [1.0], [5.0]], 10, axis=0)
    labels = starting_labels("kmeans++", *setup(X), seed=0, n_clusters=8)
    assert same_partition(labels, np.repeat([0, 1, 2], 10))
    assert not starting_labels("auto", *setup(np.full((5, 2), 0.1)), seed=0, n_clusters=3).any()


# ---- tree --------------------------------------------------------------------------------------------------------

TREES = pytest.mark.parametrize("start", ["tree", "tree_point"])


def nested(N=400, d=3, seed=0):
    """Blobs in two scales, with some rows copied."""
    rng = np.random.default_rng(seed)
    X = 20 * rng.integers(3, size=(N, d)) + rng.normal(size=(N, d))
    X[N // 2 : N // 2 + 20] = X[0]
    return X


@TREES
@pytest.mark.parametrize("K", [1, 2, 7, 33, 150, 380])
def test_trees_give_exactly_so_many_clusters(start, K):
    X = nested()  # 380 distinct rows
    for seed in range(3):
        labels = starting_labels(start, *setup(X), seed=seed, n_clusters=K)
        assert labels.dtype == np.int32
        np.testing.assert_array_equal(np.unique(labels), np.arange(K))
    if K == 380:
        assert same_partition(labels, np.unique(X, axis=0, return_inverse=True)[1])


@TREES
def test_trees_make_a_cluster_of_every_row(start):
    X = np.random.default_rng(0).normal(size=(60, 2))
    labels = starting_labels(start, *setup(X), seed=1, n_clusters=60)
    assert sorted(labels) == list(range(60))


@TREES
def test_more_clusters_than_distinct_rows_are_refused_with_both_numbers(start):
    model, data = setup(nested(), SymmetricDirichlet(500))
    with pytest.raises(ValueError, match=rf"{start}.*n_clusters = 381 .*380 distinct rows"):
        starting_labels(start, model, data, seed=0, n_clusters=381)
    with pytest.raises(ValueError, match=rf"{start}.*n_clusters = 500 .*400 rows"):
        starting_labels(start, model, data, seed=0)
    model, data = setup(np.full((5, 2), 0.1))
    assert not starting_labels(start, model, data, seed=0, n_clusters=1).any()
    with pytest.raises(ValueError, match=r"n_clusters = 2 .*1 distinct row:"):
        starting_labels(start, model, data, seed=0, n_clusters=2)


@TREES
@pytest.mark.parametrize("K", [5, 60])
def test_trees_do_not_depend_on_threads_blocks_or_units(monkeypatch, start, K):
    X = nested()
    first = starting_labels(start, *setup(X), seed=2, n_clusters=K)
    np.testing.assert_array_equal(first, starting_labels(start, *setup(X), seed=2, n_clusters=K, n_threads=2))
    np.testing.assert_array_equal(first, starting_labels(start, *setup(X * 2.0**10), seed=2, n_clusters=K))
    assert (first != starting_labels(start, *setup(X), seed=3, n_clusters=K)).any()
    monkeypatch.setattr("expfam.samplers.geometry.coordinates._BLOCK_BYTES", 800)
    np.testing.assert_array_equal(first, starting_labels(start, *setup(X), seed=2, n_clusters=K, n_threads=2))


@TREES
@pytest.mark.parametrize(("K", "is_exact"), [(5, False), (12, True), (40, False), (300, None)])
def test_labels_are_cells_or_nearest_centres_of_the_pieces_that_are_kept(monkeypatch, start, K, is_exact):
    rng = np.random.default_rng(7)
    X = 30 * np.eye(12)[rng.integers(12, size=500)] + rng.normal(size=(500, 12))  # twelve children of the root
    model, data = setup(X)
    made, kept, divide, nearest = [], [], tree_start._pieces, tree_start.nearest_of_all
    monkeypatch.setattr(tree_start, "_pieces", lambda *given: made.append(divide(*given)) or made[-1])
    monkeypatch.setattr(tree_start, "nearest_of_all", lambda *given: kept.append(given[1]) or nearest(*given))
    labels = starting_labels(start, model, data, seed=4, n_clusters=K)
    centres, cells = made[0]
    assert centres.size >= K
    assert is_exact in (None, centres.size == K)
    np.testing.assert_array_equal(cells[centres], np.arange(centres.size))
    points = ((X - X.mean(axis=0)) / X.std(axis=0)).astype(np.float32)
    of_kept = set(map(bytes, kept[-1]))  # the last search is that among the centres that are kept
    is_kept = np.array([bytes(row) in of_kept for row in points[centres]])
    assert is_kept.sum() == K
    squares = ((points[:, None] - points[centres[is_kept]][None]) ** 2).sum(axis=2)
    near = np.flatnonzero(is_kept)[squares.argmin(axis=1)]
    expected = near if start == "tree_point" else np.where(is_kept[cells], cells, near)
    assert same_partition(labels, expected)


def test_cells_are_those_of_the_lowest_level_that_has_few_enough():
    tree = CoverTree(nested())
    for K in (1, 2, 5, 9, 27, 60):
        cells = set(_level(tree, K).tolist())
        sizes = {level: tree.cells_at(level).size for level in tree.levels}
        lowest = min(level for level, size in sizes.items() if size <= K)
        assert cells == set(tree.cells_at(lowest).tolist())


@TREES
def test_copies_and_near_copies_of_rows(start):
    X = np.repeat(nested(200), 2, axis=0)
    z = np.unique(X, axis=0, return_inverse=True)[1]
    assert same_partition(starting_labels(start, *setup(X), seed=0, n_clusters=z.max() + 1), z)
    # squared distances of the last two are lost in rounding, but not their clusters
    near = starting_labels(start, *setup(np.array([[0.0], [5.0], [1.0], [1.0 + 1e-6]])), seed=0, n_clusters=4)
    assert sorted(near) == [0, 1, 2, 3]


def test_large_cells_are_replaced_more_often():
    # two leaves of 15 and 5 data far apart: the third centre lies in the larger one with probability 3/4
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(15, 2)), 1000 + rng.normal(size=(5, 2))])
    hits = 0
    for seed in range(400):
        labels = starting_labels("tree", *setup(X), seed=seed, n_clusters=3)
        assert not set(labels[:15]) & set(labels[15:])
        hits += np.unique(labels[:15]).size == 2
    assert abs(hits - 300) < 3.9 * np.sqrt(400 * 0.75 * 0.25)  # two-sided 1e-4


def test_tree_finds_separated_groups_of_sparse_counts():
    rng = np.random.default_rng(4)
    z = np.arange(400) % 4
    X = rng.poisson(np.where(np.arange(400)[None] % 4 == z[:, None], 3.0, 0.02))
    for index in (np.int32, np.int64):
        csr = sparse.csr_array(X)
        csr.indices, csr.indptr = csr.indices.astype(index), csr.indptr.astype(index)
        for start in ("tree", "tree_point"):
            labels = starting_labels(start, *setup(csr), seed=6, n_clusters=4)
            assert same_partition(labels, z)
            assert np.unique(starting_labels(start, *setup(csr), seed=6, n_clusters=200)).size == 200


def test_narrow_sparse_rows_are_not_projected():
    X = np.random.default_rng(1).poisson(2.0, size=(200, 30))
    dense = starting_labels("tree", *setup(X), seed=6, n_clusters=20)
    np.testing.assert_array_equal(dense, starting_labels("tree", *setup(sparse.csr_array(X)), seed=6, n_clusters=20))


def test_noise_that_no_tree_divides_still_gets_its_clusters():
    X = np.random.default_rng(0).normal(size=(20_000, 64)).astype(np.float32)
    with pytest.warns(CoverTreeWarning):
        CoverTree(X)
    labels = starting_labels("tree", *setup(X), seed=0, n_clusters=100)  # no warning: pytest makes it an error
    np.testing.assert_array_equal(np.unique(labels), np.arange(100))
    assert np.bincount(labels).max() < 10_000


KERNELS = [
    CollapsedGibbs(),
    FastEx(),
    UncollapsedGibbs(n_threads=2),
    Canopy(variant=1),
    Canopy(variant=2),
    StochasticEM(),
    ExpectationMaximization(),
]


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@TREES
def test_kernels_start_from_a_tree(kernel, start):
    X = np.random.default_rng(3).poisson(3.0, size=(80, 4))
    model = MixtureModel(Poisson(), SymmetricDirichlet(6))
    state = kernel.init(model, X, seed=1, start=start)
    assert state.n_clusters == 6
    data = Dataset(X, Poisson())
    assert same_partition(state.labels, starting_labels(start, model.bind(data), data, seed=1))
    assert kernel.step(state).step == 1


# ---- sequential --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "weights",
    [DirichletProcess(alpha=0.7), PitmanYor(alpha=0.5, discount=0.4), SymmetricDirichlet(3, alpha=0.8)],
    ids=repr,
)
def test_sequential_draws_the_prior_where_the_data_say_nothing(weights):
    # without columns that differ, a predictive is the same for all clusters of a flat family
    class Flat(Counts):
        def log_marginal(self, n, S):
            return np.zeros(len(n))

    X = np.ones((4, 1), dtype=int)
    model, data = setup(X, weights, Flat())
    size, found = 1500, {}
    for seed in range(size):
        labels = starting_labels("sequential", model, data, seed=seed)
        names = {}
        key = tuple(names.setdefault(k, len(names)) for k in labels.tolist())
        found[key] = found.get(key, 0) + 1
    chi = 0.0
    for key, count in found.items():
        expected = size * np.exp(weights.log_prior(np.bincount(key)))
        chi += (count - expected) ** 2 / expected
    assert chi < 43  # chi-square, at most 14 degrees, 1e-4


def test_sequential_follows_the_data_and_its_limit():
    X, z = blobs(60)
    model, data = setup(X, DirichletProcess(alpha=0.1))
    labels = starting_labels("sequential", model, data, seed=1)
    assert same_partition(labels, z)
    assert starting_labels("sequential", model, data, seed=1, n_clusters=2).max() == 1
    many = setup(np.arange(0, 3000, 100.0)[:, None], DirichletProcess(), Shifts(strength=1e-8))
    assert starting_labels("sequential", *many, seed=1).max() == 29  # beyond the first slots


@pytest.mark.parametrize("start", ["random", "sequential", "kmeans++"])
def test_the_seed_decides(start):
    X, _ = blobs(80)
    model, data = setup(X)
    first, second = (starting_labels(start, model, data, seed=8) for _ in range(2))
    np.testing.assert_array_equal(first, second)


# ---- given labels ------------------------------------------------------------------------------------------------


def test_given_labels_are_used_as_they_are():
    model, data = setup(np.zeros((4, 1), dtype=int))
    labels = starting_labels([3, 0, 3, 1], model, data, seed=0)
    assert labels.dtype == np.int32
    assert labels.tolist() == [3, 0, 3, 1]


@pytest.mark.parametrize(
    ("start", "words"),
    [
        ("progressive", "is gone: write start='variational'"),
        ("best", r"one of \['auto', 'random'.* got 'best'"),
        ([0, 1], r"shape \(4,\); got \(2,\)"),
        ([0.0, 1, 2, 3], "integers; got dtype float64"),
        ([0, 0, -3, 1], "non-negative; row 2 holds -3"),
        ([0, 9, 0, 0], "below 3, the number of components; row 1 holds 9: renumber"),
    ],
)
def test_unusable_starts_are_named(start, words):
    model, data = setup(np.zeros((4, 1), dtype=int), SymmetricDirichlet(3))
    with pytest.raises(ValueError, match=words):
        starting_labels(start, model, data, seed=0)


def test_unusable_numbers_of_clusters_are_named():
    model, data = setup(np.zeros((4, 1), dtype=int), SymmetricDirichlet(3))
    with pytest.raises(ValueError, match="more than the components"):
        starting_labels("random", model, data, seed=0, n_clusters=4)
    with pytest.raises(ValueError, match="at least 1; got 0"):
        starting_labels("random", model, data, seed=0, n_clusters=0)
    model, data = setup(np.zeros((4, 1), dtype=int))
    with pytest.raises(ValueError, match="below 4, the number of data"):
        starting_labels([0, 0, 4, 0], model, data, seed=0)


@pytest.mark.parametrize("start", ["kmeans", "kmeans++", "tree", "sequential", "variational"])
@pytest.mark.parametrize("kernel", [ExpectationMaximization(), SparseVariational()], ids=lambda k: type(k).__name__)
def test_no_kernel_sees_a_row_of_weight_0(kernel, start):
    classes = np.arange(90) % 3
    X = np.array([[0.0, 0.0], [8.0, 0.0], [0.0, 8.0]])[classes] + np.random.default_rng(0).normal(size=(90, 2))
    found = []
    for rows, weight in (
        (np.insert(X, 40, [1e6, -1e6], axis=0), np.insert(np.full(90, 2.0), 40, 0.0)),
        (X, [2.0] * 90),
    ):
        data = Dataset(rows, DiagonalGaussian(), weight=weight)
        state = kernel.init(MixtureModel(data.family, SymmetricDirichlet(3, 1.0)), data, seed=0, start=start)
        advance(kernel, state, 5)
        found.append(state)
    assert found[0].log_joint == pytest.approx(found[1].log_joint, rel=1e-7)
    np.testing.assert_array_equal(np.delete(found[0].labels, 40), found[1].labels)
