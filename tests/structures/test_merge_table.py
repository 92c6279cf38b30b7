"""The merge table against the plain greedy search over all pairs: the same merges and scores to the bit, with ties."""

import ctypes
import gc
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.cluster.hierarchy import linkage
from scipy.sparse import csr_array
from scipy.special import betaln

from expfam.structures import InvertedIndex, MergeTable, WardScores


class Sums:
    """Clusters with a vector of sums and a count; scores are made of the two alone."""

    def __init__(self, X):
        self.S, self.n = np.array(X), np.ones(len(X), dtype=np.int64)

    def absorb(self, k, l):
        self.S[k] += self.S[l]
        self.n[k] += self.n[l]

    def copy(self):
        other = type(self)(self.S)
        other.n = self.n.copy()
        return other


class Hashed(Sums):
    """Integer scores from a hash of the two clusters: many ties, no geometry, certainly not reducible."""

    n_values = 5

    def score(self, k, slots):
        a, b = self.S[k], self.S[slots]
        mixed = (a + b) * 2654435761 + a * b * 40503 + (self.n[k] * self.n[slots] * 69069)[:, None]
        return ((mixed.sum(axis=1) >> 7) % self.n_values).astype(np.float64)


class Forbidding(Hashed):
    """As before, but about a third of the pairs must not merge."""

    def score(self, k, slots):
        scores = super().score(k, slots)
        return np.where(scores < 2, -np.inf, scores)


class BetaBinary(Sums):
    """Log odds of merging binary items, without the recursion's weights: they can rise with every merge."""

    def weight(self, n, S):
        return (betaln(1.0 + S, 1.0 + n[:, None] - S) - betaln(1.0, 1.0)).sum(axis=1)

    def score(self, k, slots):
        own, other = self.weight(self.n[[k]], self.S[[k]]), self.weight(self.n[slots], self.S[slots])
        return self.weight(self.n[k] + self.n[slots], self.S[k] + self.S[slots]) - (own + other)


class Means(Sums):
    """Minus the squared distance of sums, rounded to steps of 4: integers with ties and inversions."""

    def score(self, k, slots):
        return -np.floor(((self.S[k] - self.S[slots]) ** 2).sum(axis=1) / 4.0)

    def bound(self, k, slots):
        return -np.floor((self.S[k] - self.S[slots])[:, 0] ** 2 / 4.0)  # the first coordinate only

    def wrong_bound(self, k, slots):
        return self.score(k, slots) - 1000.0 * ((k + slots) % 5)  # true for one pair in five


KINDS = [Hashed, Forbidding, BetaBinary, Means]


def items(kind, n, seed, n_patterns=None):
    """Data of few distinct patterns, so that equal scores abound."""
    rng = np.random.default_rng(seed)
    if kind is BetaBinary:
        patterns = rng.integers(0, 2, size=(n_patterns or n, 6))
    elif kind is Means:
        patterns = rng.integers(-6, 7, size=(n_patterns or n, 3))
    else:
        patterns = rng.integers(0, 1000, size=(n_patterns or n, 2))
    return kind(patterns[rng.integers(len(patterns), size=n)])


def greedy(clusters, *, allowed=None):
    """All pairs at every merge, by the definition: highest score, then smallest (older id, younger id)."""
    n = len(clusters.n)
    ids = {k: k for k in range(n)}
    children, scores, n_scores = [], [], 0
    while len(ids) > 1:
        best = None
        live = sorted(ids, key=ids.get)
        for place, k in enumerate(live[:-1]):
            slots = np.array(live[place + 1 :])
            values = clusters.score(k, slots)
            n_scores += len(slots)
            for l, value in zip(slots, values):
                if (allowed is None or allowed(k, l)) and value > -np.inf and (best is None or value > best[0]):
                    best = value, k, int(l)  # pairs come in the order of the tie rule
        if best is None:
            break
        value, k, l = best
        children.append((ids[k], ids[l]))
        scores.append(value)
        clusters.absorb(k, l)
        ids[k] = n + len(children) - 1
        del ids[l]
    return np.array(children, dtype=np.int64).reshape(-1, 2), np.array(scores), n_scores


def assert_same(found, expected):
    np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_array_equal(found[1], expected[1])


# ---- equal to the definition -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=40, deadline=None)
@given(
    n=st.integers(1, 24),
    seed=st.integers(0, 2**32 - 1),
    n_kept=st.integers(1, 6),
    block_size=st.sampled_from([1, 3, 4096]),
    n_patterns=st.sampled_from([2, 5, None]),
)
def test_merges_are_those_of_all_pairs(kind, n, seed, n_kept, block_size, n_patterns):
    clusters = items(kind, n, seed, n_patterns)
    expected = greedy(clusters.copy())
    table = MergeTable(n, clusters.score, n_kept=n_kept, block_size=block_size)
    assert_same(table.run(clusters.absorb), expected)
    table.check()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_longer_runs(kind, seed):
    clusters = items(kind, 70, seed, n_patterns=8)
    expected = greedy(clusters.copy())
    assert_same(MergeTable(70, clusters.score).run(clusters.absorb), expected)


def test_scores_are_tied_and_rise_in_these_tests():
    ties = inversions = 0
    for seed in range(5):
        clusters = items(Hashed, 40, seed)
        pairs = [score for k in range(40) for score in clusters.score(k, np.arange(k + 1, 40))]
        ties += len(pairs) - len(set(pairs))
        scores = greedy(items(BetaBinary, 40, seed, n_patterns=4))[1]
        inversions += (np.diff(scores) > 0).sum()
    assert ties > 3000
    assert inversions > 20


def test_three_equal_binary_items():
    # Beta(1, 1): two equal bits gain log 4/3; the merged pair gains more from the third, log 3/2 > log 4/3.
    clusters = BetaBinary(np.ones((3, 1), dtype=np.int64))
    _, scores = MergeTable(3, clusters.score).run(clusters.absorb)
    np.testing.assert_allclose(scores, np.log([4 / 3, 3 / 2]), rtol=1e-15 * 8)
    assert scores[1] > scores[0]


@settings(max_examples=60, deadline=None)
@given(n=st.integers(2, 30), seed=st.integers(0, 2**32 - 1), n_kept=st.integers(1, 4), n_patterns=st.integers(2, 30))
def test_bounds_change_nothing(n, seed, n_kept, n_patterns):
    clusters = items(Means, n, seed, n_patterns)
    expected = greedy(clusters.copy())
    table = MergeTable(n, clusters.score, bound=clusters.bound, n_kept=n_kept)
    table.check()
    assert_same(table.run(clusters.absorb), expected)


def test_a_tight_bound_changes_nothing():
    # Every bound equals its score, so a pair that was not scored ties with one that is listed, and may come first;
    # only a list longer than the ties at the top reaches down to it.
    for seed in range(36):
        clusters = items(Hashed, 40, seed)
        expected = greedy(clusters.copy())
        table = MergeTable(40, clusters.score, bound=clusters.score, n_kept=1 + seed % 12)
        assert_same(table.run(clusters.absorb), expected)


def test_a_wrong_bound_is_noticed():
    wrong = 0
    for seed in range(10):
        clusters = items(Means, 30, seed, n_patterns=20)
        expected = greedy(clusters.copy())
        table = MergeTable(30, clusters.score, bound=clusters.wrong_bound)
        with pytest.raises(ValueError, match="above its bound"):
            table.check()
        wrong += not np.array_equal(table.run(clusters.absorb)[0], expected[0])
    assert wrong >= 8


def test_a_floor_that_is_too_low_is_noticed():
    wrong = 0
    for seed in range(10):
        clusters = items(Hashed, 40, seed)
        expected = greedy(clusters.copy())
        table = MergeTable(40, clusters.score, n_kept=1)
        arrays = table.to_arrays()
        arrays["floor"] = np.full(40, -np.inf)
        broken = MergeTable.from_arrays(arrays, clusters.score)
        with pytest.raises(ValueError, match="does not list"):
            broken.check()
        wrong += not np.array_equal(broken.run(clusters.absorb)[0], expected[0])
    assert wrong >= 8


@settings(max_examples=40, deadline=None)
@given(
    n=st.integers(1, 20),
    v=st.integers(2, 12),
    seed=st.integers(0, 2**32 - 1),
    n_kept=st.integers(1, 4),
    bounded=st.booleans(),
)
def test_candidates_of_an_inverted_index(n, v, seed, n_kept, bounded):
    rng = np.random.default_rng(seed)
    X = rng.poisson(0.4, size=(n, v))
    clusters, index = Hashed(X), InvertedIndex(csr_array(X))
    plain = clusters.copy()
    expected = greedy(plain, allowed=lambda k, l: (plain.S[k] * plain.S[l]).any())

    def absorb(k, l):
        clusters.absorb(k, l)
        index.merge(k, l)

    def overlapping(k):
        return index.scores(k, function="count")[0]

    bound = (lambda k, slots: clusters.score(k, slots) + (k + slots) % 2) if bounded else None
    table = MergeTable(n, clusters.score, bound=bound, candidates=overlapping, n_kept=n_kept)
    assert_same(table.run(absorb), expected)
    assert table.best() is None


@settings(max_examples=50, deadline=None)
@given(data=st.data(), n=st.integers(2, 12), seed=st.integers(0, 2**32 - 1), bounded=st.booleans())
def test_random_operations_against_a_dict_of_pairs(data, n, seed, bounded):
    """Merges of any pair, not only of the best; copies through pickles of the arrays in between."""
    clusters = items(Means, n, seed, n_patterns=5)
    bound = clusters.bound if bounded else None
    table = MergeTable(n, clusters.score, bound=bound, n_kept=data.draw(st.integers(1, 3)))
    ids = list(range(n))
    pairs = {(a, b): clusters.score(a, np.array([b]))[0] for a in range(n) for b in range(a + 1, n)}
    for step in range(n - 1):
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        k, l, score = table.best()
        assert (ids[k], ids[l], score) == (*best, pairs[best])
        if data.draw(st.booleans()):
            k, l = sorted(data.draw(st.permutations(table.slots.tolist()))[:2], key=ids.__getitem__)
        gone = {ids[k], ids[l]}
        clusters.absorb(k, l)
        assert table.merge(k, l) == n + step
        ids[k], ids[l] = n + step, -1
        pairs = {pair: value for pair, value in pairs.items() if not gone & set(pair)}
        for slot in table.slots[:-1]:
            pairs[ids[slot], n + step] = clusters.score(k, np.array([slot]))[0]
        table.check()
        if data.draw(st.booleans()):
            arrays = pickle.loads(pickle.dumps(table.to_arrays()))
            table = MergeTable.from_arrays(arrays, clusters.score, bound=bound)
        assert table.ids.tolist() == sorted(i for i in ids if i >= 0)
    assert table.best() is None
    assert table.n_live == 1


# ---- what it costs ---------------------------------------------------------------------------------------------------


def test_number_of_scores_of_every_pair_once():
    # (N - 1)^2 is what scoring every pair that is ever live once costs; naive rescoring asks N^3 / 6
    clusters = items(BetaBinary, 60, 0)
    naive = greedy(clusters.copy())[2]
    table = MergeTable(60, clusters.score)
    table.run(clusters.absorb)
    assert naive == 60 * 59 * 61 // 6
    assert (60 - 1) ** 2 <= table.n_scores <= 1.1 * (60 - 1) ** 2


@pytest.mark.parametrize("n_patterns", [1, 7])
def test_equal_items_cost_no_more_scores_than_others(n_patterns):
    n = 240
    X = np.random.default_rng(0).normal(size=(n_patterns, 3))[np.arange(n) % n_patterns]
    table = MergeTable(n, WardScores(X))
    table.run()
    assert table.n_scores <= 1.1 * (n - 1) ** 2


def test_longer_lists_need_fewer_scores():
    counts = []
    for n_kept in (1, 2, 4):
        clusters = items(Means, 150, 3)
        table = MergeTable(150, clusters.score, n_kept=n_kept)
        table.run(clusters.absorb)
        counts.append(table.n_scores)
    assert counts[0] > counts[1] > counts[2] >= 149**2


class Centres(Sums):
    """Minus the squared distance of means; means on the first axis bound it."""

    def score(self, k, slots):
        return -((self.S[k] / self.n[k] - self.S[slots] / self.n[slots, None]) ** 2).sum(axis=1)

    def bound(self, k, slots):
        gap = self.S[k, 0] / self.n[k] - self.S[slots, 0] / self.n[slots]
        return -(gap * gap) * (1 - 1e-12)


def test_bounds_save_most_scores_on_clustered_data():
    rng = np.random.default_rng(0)
    n = 400
    X = np.column_stack([10.0 * rng.integers(0, 20, size=n), np.zeros(n)]) + rng.normal(size=(n, 2))
    clusters = Centres(X)
    plain = MergeTable(n, clusters.score)
    expected = plain.run(clusters.absorb)
    clusters = Centres(X)
    table = MergeTable(n, clusters.score, bound=clusters.bound)
    assert_same(table.run(clusters.absorb), expected)
    assert plain.n_scores >= (n - 1) ** 2
    assert table.n_scores < 0.1 * (n - 1) ** 2


def test_candidates_save_most_scores_on_clustered_data():
    rng = np.random.default_rng(0)
    n, groups = 300, 15
    X = np.zeros((n, 10 * groups), dtype=np.int64)
    for k in range(n):
        X[k, 10 * (k % groups) + rng.integers(0, 10, size=4)] += 1
    clusters, index = Hashed(X), InvertedIndex(csr_array(X))
    table = MergeTable(n, clusters.score, candidates=lambda k: index.scores(k)[0])

    def absorb(k, l):
        clusters.absorb(k, l)
        index.merge(k, l)

    table.run(absorb)
    assert table.n_live == groups  # nothing shared, nothing merged
    assert table.n_scores < 1.2 * n**2 / groups


# ---- compiled scores -------------------------------------------------------------------------------------------------


def test_ward_is_that_of_scipy():
    X = np.random.default_rng(2).normal(size=(200, 5))
    scores = WardScores(X)
    children, found = MergeTable(200, scores).run()
    Z = linkage(X, "ward")
    np.testing.assert_array_equal(children, np.sort(Z[:, :2], axis=1))
    np.testing.assert_allclose(np.sqrt(-2 * found), Z[:, 2], rtol=1e-12)
    assert np.count_nonzero(scores.to_arrays()["size"]) == 1


def test_compiled_and_callable_scores_agree_to_the_bit():
    X = np.random.default_rng(3).integers(0, 3, size=(60, 1)).astype(float)
    size, center = np.ones(60), X.copy()

    def score(k, slots):
        return -(size[k] * size[slots] / (size[k] + size[slots])) * (center[k, 0] - center[slots, 0]) ** 2

    def absorb(k, l):
        center[k] = (size[k] * center[k] + size[l] * center[l]) / (size[k] + size[l])
        size[k] += size[l]

    assert_same(MergeTable(60, score).run(absorb), MergeTable(60, WardScores(X)).run())


SCORE = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.c_void_p,
    ctypes.c_ssize_t,
    ctypes.POINTER(ctypes.c_ssize_t),
    ctypes.c_ssize_t,
    ctypes.POINTER(ctypes.c_double),
)
CANDIDATES = ctypes.CFUNCTYPE(ctypes.c_ssize_t, ctypes.c_void_p, ctypes.c_ssize_t, ctypes.POINTER(ctypes.c_ssize_t))
ABSORB = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_ssize_t)


class Struct(ctypes.Structure):
    _fields_ = (
        ("self", ctypes.c_void_p),
        ("score", SCORE),
        ("bound", SCORE),
        ("candidates", CANDIDATES),
        ("absorb", ABSORB),
    )


class Foreign:
    """A stranger's C functions, by ctypes: any status can be returned."""

    def __init__(self, clusters, *, status=0, with_bound=False):
        self.status, self.pending = status, None

        def numbers(function):
            def call(owner, k, ls, m, out):
                slots = np.array(ls[:m], dtype=np.intp)
                for i, value in enumerate(function(k, slots)):
                    out[i] = value
                return self.status

            return SCORE(call)

        def absorb(owner, k, l):
            clusters.absorb(k, l)
            return 0

        bound = numbers(clusters.bound) if with_bound else SCORE()
        self.struct = Struct(None, numbers(clusters.score), bound, CANDIDATES(), ABSORB(absorb))
        make = ctypes.pythonapi.PyCapsule_New
        make.restype, make.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
        self.capsule = make(ctypes.addressof(self.struct), b"expfam.merge_scores_v1", None)


@pytest.mark.parametrize("with_bound", [False, True])
def test_functions_of_a_stranger(with_bound):
    clusters = items(Means, 20, 4, n_patterns=7)
    expected = greedy(clusters.copy())
    table = MergeTable(20, Foreign(clusters, with_bound=with_bound))
    assert_same(table.run(), expected)
    assert (table.n_bounds > 0) == with_bound


@pytest.mark.parametrize("status", [-7, 7])
def test_status_of_a_stranger_is_reported(status):
    with pytest.raises(RuntimeError, match="status -7"):
        MergeTable(5, Foreign(items(Means, 5, 0), status=status))


def test_the_owner_is_kept_alive():
    table = MergeTable(50, WardScores(np.random.default_rng(0).normal(size=(50, 2))))
    gc.collect()
    assert len(table.run()[0]) == 49


# ---- state, errors ---------------------------------------------------------------------------------------------------


def test_a_resumed_table_goes_on_to_the_bit():
    X = np.random.default_rng(6).normal(size=(80, 3))
    table = MergeTable(80, WardScores(X))
    table.run(n_clusters=50)
    assert table.n_live == 50
    copy = pickle.loads(pickle.dumps(table))
    n_scores = copy.n_scores
    assert n_scores == table.n_scores
    assert_same(copy.run(), table.run())
    assert copy.n_scores == table.n_scores > n_scores
    with pytest.raises(TypeError, match="bare capsule"):
        pickle.dumps(MergeTable(3, (scores := WardScores(X[:3])).capsule))
    assert scores.capsule is not None
    arrays = table.to_arrays()
    arrays["floor"] = arrays["floor"][:-1]
    with pytest.raises(ValueError, match=r"'floor' has shape \(79,\)"):
        MergeTable.from_arrays(arrays, WardScores(X))
    for name, value in (("live", 80), ("n_listed", 5), ("kept_slot", -2)):
        arrays = MergeTable(80, WardScores(X)).to_arrays()
        arrays[name].flat[3] = value
        with pytest.raises(ValueError, match=f"'{name}' must hold"):
            MergeTable.from_arrays(arrays, WardScores(X))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_score_that_is_no_number_names_the_pair(bad):
    clusters = items(Means, 8, 0)

    def score(k, slots):
        scores = clusters.score(k, slots)
        return np.where((k + slots == 9) & (k * slots == 14), bad, scores)

    with pytest.raises(FloatingPointError, match="clusters 2 and 7"):
        MergeTable(8, score)


def test_after_an_error_the_table_is_as_before():
    clusters = items(Means, 12, 1)
    expected = greedy(clusters.copy())
    fail = False

    def score(k, slots):
        if fail:
            raise KeyError("no scores today")
        return clusters.score(k, slots)

    table = MergeTable(12, score)
    k, l, _ = table.best()
    clusters.absorb(k, l)
    before = table.to_arrays()
    fail = True
    with pytest.raises(KeyError, match="today"):
        table.merge(k, l)
    after = table.to_arrays()
    for name in before:
        np.testing.assert_array_equal(after[name], before[name])
    fail = False
    table.merge(k, l)
    children, scores = table.run(clusters.absorb)
    assert_same((children, scores), (expected[0][1:], expected[1][1:]))


def test_an_error_in_a_rescan_loses_nothing():
    clusters = items(Hashed, 30, 2)
    expected = greedy(clusters.copy())
    calls = 0

    def score(k, slots):
        nonlocal calls
        calls += 1
        if calls % 7 == 0:
            raise OSError
        return clusters.score(k, slots)

    arrays = MergeTable(30, clusters.score, n_kept=1).to_arrays()
    table = MergeTable.from_arrays(arrays, score)

    def insist(function):
        while True:
            try:
                return function()
            except OSError:
                pass

    for (a, b), value in zip(expected[0], expected[1]):
        k, l, found = insist(table.best)
        assert found == value
        clusters.absorb(k, l)
        assert table.ids[table.slots == k] == [a]
        assert table.ids[table.slots == l] == [b]
        insist(lambda k=k, l=l: table.merge(k, l))
    assert calls > 30


def test_scores_that_are_not_symmetric_or_change_are_found():
    clusters = items(Means, 10, 0)
    noise = np.random.default_rng(0)
    with pytest.raises(ValueError, match="symmetric"):
        MergeTable(10, lambda k, slots: (k - slots).astype(float)).check()
    shift = 0.0
    table = MergeTable(10, lambda k, slots: clusters.score(k, slots) - shift, n_kept=9)
    table.check()
    shift = noise.random()
    with pytest.raises(ValueError, match="must not change"):
        table.check()


def test_bad_arguments_are_named():
    def score(k, slots):
        return np.zeros(len(slots))

    for keywords in ({"n_items": 0}, {"n_items": 2.5}, {"n_kept": 0}, {"block_size": -1}):
        arguments = {"n_items": 3, **keywords}
        with pytest.raises(ValueError, match=f"{next(iter(keywords))} must be a positive integer"):
            MergeTable(arguments.pop("n_items"), score, **arguments)
    with pytest.raises(TypeError, match="score must be callable; got int"):
        MergeTable(3, 7)
    with pytest.raises(TypeError, match="bound must be callable"):
        MergeTable(3, score, bound=1.0)
    with pytest.raises(TypeError, match="brings its own bound"):
        MergeTable(3, WardScores(np.eye(3)), bound=score)
    with pytest.raises(ValueError, match=r"score\(0, slots\) returned shape \(1,\) for 2 slots"):
        MergeTable(3, lambda k, slots: np.zeros(1))
    with pytest.raises(IndexError, match="slots 0 to 3: there are 0 to 2"):
        MergeTable(3, score, candidates=lambda k: [0, 3])
    with pytest.raises(TypeError, match="slots must be integers"):
        MergeTable(3, score, candidates=lambda k: [0.5])
    table = MergeTable(3, score)
    with pytest.raises(TypeError, match="absorb"):
        table.run()
    with pytest.raises(ValueError, match="n_clusters"):
        table.run(lambda k, l: None, n_clusters=0)
    with pytest.raises(ValueError, match="older cluster comes first"):
        table.merge(1, 0)
    table.merge(0, 1)
    for pair in [(1, 2), (2, 3), (-1, 0)]:
        with pytest.raises(IndexError, match="no live cluster"):
            table.merge(*pair)
    with pytest.raises(ValueError, match="slot 0 holds cluster 3"):
        table.merge(0, 2)
    with pytest.raises(ValueError, match="finite"):
        WardScores(np.array([[np.nan]]))
    with pytest.raises(ValueError, match="positive"):
        WardScores(np.eye(2), size=[1.0, 0.0])
