"""Merges of the queue against the plain greedy search, with ties, forests, truncated searches, threads and failures."""

import ctypes
import itertools
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from scipy.special import betaln

from expfam.structures import InvertedIndex, MergeQueue


class Clusters:
    """Integer vectors with few distinct scores: -inf where nothing is shared, if so asked."""

    def __init__(self, n, seed, *, forbid=False, n_levels=4):
        self.x = np.random.default_rng(seed).integers(0, 3, size=(n, 5))
        self.forbid, self.n_levels = forbid, n_levels

    def score(self, k, slots):
        shared = np.minimum(self.x[k], self.x[slots]).sum(axis=1).astype(float)
        scores = shared % self.n_levels - 0.5 * (shared > 9)
        return np.where(shared == 0, -np.inf, scores) if self.forbid else scores

    def partners(self, k, ids):
        slots = np.flatnonzero((ids >= 0) & (ids < ids[k]))
        return slots, self.score(k, slots), -np.inf

    def absorb(self, k, l):
        self.x[k] += self.x[l]


class Sums:
    """Clusters with a vector of sums and a count; scores are made of the two alone."""

    def __init__(self, X):
        self.x, self.n = np.array(X), np.ones(len(X), dtype=np.int64)

    def partners(self, k, ids):
        slots = np.flatnonzero((ids >= 0) & (ids < ids[k]))
        return slots, self.score(k, slots), -np.inf

    def absorb(self, k, l):
        self.x[k] += self.x[l]
        self.n[k] += self.n[l]


class Hashed(Sums):
    """Integer scores from a hash of the two clusters: many ties, no geometry, certainly not reducible."""

    def score(self, k, slots):
        a, b = self.x[k], self.x[slots]
        mixed = (a + b) * 2654435761 + a * b * 40503 + (self.n[k] * self.n[slots] * 69069)[:, None]
        return ((mixed.sum(axis=1) >> 7) % 5).astype(np.float64)


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
        own, other = self.weight(self.n[[k]], self.x[[k]]), self.weight(self.n[slots], self.x[slots])
        return self.weight(self.n[k] + self.n[slots], self.x[k] + self.x[slots]) - (own + other)


class Steps(Sums):
    """Minus the squared distance of sums, rounded to steps of 4: integers with ties and inversions."""

    def score(self, k, slots):
        return -np.floor(((self.x[k] - self.x[slots]) ** 2).sum(axis=1) / 4.0)


KINDS = [Hashed, Forbidding, BetaBinary, Steps]


def items(kind, n, seed, n_patterns=None):
    """Data of few distinct patterns, so that equal scores abound."""
    rng = np.random.default_rng(seed)
    low, high, width = {BetaBinary: (0, 2, 6), Steps: (-6, 7, 3)}.get(kind, (0, 1000, 2))
    patterns = rng.integers(low, high, size=(n_patterns or n, width))
    return kind(patterns[rng.integers(len(patterns), size=n)])


def naive(clusters, n):
    live, children, scores = [(i, i) for i in range(n)], [], []
    while len(live) > 1:
        best = None
        for a, (i, k) in enumerate(live):
            for j, l in live[a + 1 :]:
                score = clusters.score(k, np.array([l]))[0]
                if score > -np.inf and (best is None or score > best[0]):
                    best = score, (i, k), (j, l)
        if best is None:
            break
        score, (i, k), (j, l) = best
        clusters.absorb(k, l)
        children.append((i, j))
        scores.append(score)
        live = [pair for pair in live if pair[1] not in (k, l)] + [(n + len(children) - 1, k)]
    return children, scores


def run(queue, clusters, *, check=False):
    children, scores, of_slot = [], [], list(range(queue.n_items))
    while (pair := queue.best()) is not None:
        k, l, score = pair
        children.append((of_slot[k], of_slot[l]))
        scores.append(score)
        clusters.absorb(k, l)
        of_slot[k] = queue.merge(k, l)
        if check:
            queue.check(clusters.score)
    return children, scores


@pytest.mark.parametrize("n_kept", [1, 2, 5])
@pytest.mark.parametrize("forbid", [False, True])
def test_merges_are_those_of_the_plain_search(n_kept, forbid):
    for seed in range(30):
        n = 5 + seed % 25
        expected = naive(Clusters(n, seed, forbid=forbid), n)
        clusters = Clusters(n, seed, forbid=forbid)
        queue = MergeQueue(n, clusters.partners, n_kept=n_kept)
        assert run(queue, clusters, check=seed < 8) == expected
        assert queue.n_live == n - len(expected[0])
        assert queue.n_merges == len(expected[0])


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(1, 24),
    seed=st.integers(0, 2**32 - 1),
    n_kept=st.integers(1, 6),
    n_patterns=st.sampled_from([1, 2, 5, None]),
)
def test_merges_of_tied_and_rising_scores_are_those_of_the_plain_search(kind, n, seed, n_kept, n_patterns):
    expected = naive(items(kind, n, seed, n_patterns), n)
    clusters = items(kind, n, seed, n_patterns)
    assert run(MergeQueue(n, clusters.partners, n_kept=n_kept), clusters, check=True) == expected


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_patterns", [1, 8])
def test_longer_runs(kind, n_patterns):
    for seed in range(3):
        expected = naive(items(kind, 70, seed, n_patterns), 70)
        clusters = items(kind, 70, seed, n_patterns)
        children, scores = MergeQueue(70, clusters.partners).run(clusters.absorb)
        assert list(map(tuple, children.tolist())) == expected[0]
        assert scores.tolist() == expected[1]


def test_scores_are_tied_and_rise_in_these_tests():
    ties = inversions = 0
    for seed in range(5):
        clusters = items(Hashed, 40, seed)
        pairs = [score for k in range(40) for score in clusters.score(k, np.arange(k + 1, 40))]
        ties += len(pairs) - len(set(pairs))
        scores = naive(items(BetaBinary, 40, seed, n_patterns=4), 40)[1]
        inversions += (np.diff(scores) > 0).sum()
    assert ties > 3000
    assert inversions > 20


def test_three_equal_binary_items():
    # Beta(1, 1): two equal bits gain log 4/3; the merged pair gains more from the third, log 3/2 > log 4/3.
    clusters = BetaBinary(np.ones((3, 1), dtype=np.int64))
    _, scores = MergeQueue(3, clusters.partners).run(clusters.absorb)
    np.testing.assert_allclose(scores, np.log([4 / 3, 3 / 2]), rtol=1e-15 * 8)
    assert scores[1] > scores[0]


@settings(max_examples=40, deadline=None)
@given(n=st.integers(1, 20), v=st.integers(2, 12), seed=st.integers(0, 2**32 - 1), n_kept=st.integers(1, 4))
def test_partners_of_an_inverted_index(n, v, seed, n_kept):
    X = np.random.default_rng(seed).poisson(0.4, size=(n, v))

    class Sharing(Hashed):
        def score(self, k, slots):
            return np.where((self.x[k] * self.x[slots]).any(axis=1), super().score(k, slots), -np.inf)

    clusters, index = Hashed(X), InvertedIndex(csr_array(X))

    def partners(k, ids):
        slots = index.scores(k, function="count")[0]
        slots = slots[ids[slots] < ids[k]]
        return slots, clusters.score(k, slots), -np.inf

    def absorb(k, l):
        clusters.absorb(k, l)
        index.merge(k, l)

    children, scores = MergeQueue(n, partners, n_kept=n_kept).run(absorb)
    assert (list(map(tuple, children.tolist())), scores.tolist()) == naive(Sharing(X), n)


@settings(max_examples=50, deadline=None)
@given(data=st.data(), n=st.integers(2, 12), seed=st.integers(0, 2**32 - 1))
def test_random_operations_against_a_dict_of_pairs(data, n, seed):
    """Merges of any pair, not only of the best; copies through pickles of the arrays in between."""
    clusters = items(Steps, n, seed, n_patterns=data.draw(st.integers(1, 5)))
    queue = MergeQueue(n, clusters.partners, n_kept=data.draw(st.integers(1, 3)))
    ids = list(range(n))
    pairs = {(a, b): clusters.score(a, np.array([b]))[0] for a in range(n) for b in range(a + 1, n)}
    for step in range(n - 1):
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        if data.draw(st.booleans()):
            k, l, score = queue.best()
            assert (ids[k], ids[l], score) == (*best, pairs[best])
        else:
            k, l = sorted(data.draw(st.permutations(queue.slots.tolist()))[:2], key=ids.__getitem__)
        gone = {ids[k], ids[l]}
        clusters.absorb(k, l)
        assert queue.merge(k, l) == n + step
        ids[k], ids[l] = n + step, -1
        pairs = {pair: value for pair, value in pairs.items() if not gone & set(pair)}
        for slot in queue.slots[:-1]:
            pairs[ids[slot], n + step] = clusters.score(k, np.array([slot]))[0]
        queue.check(clusters.score)
        if data.draw(st.booleans()):
            queue = MergeQueue.from_arrays(pickle.loads(pickle.dumps(queue.to_arrays())), clusters.partners)
        assert queue.ids.tolist() == sorted(i for i in ids if i >= 0)
    assert queue.best() is None
    assert queue.n_live == 1


def test_only_the_best_partners_need_be_found():
    class Short(Clusters):
        def partners(self, k, ids):
            slots, scores, _ = super().partners(k, ids)
            order = np.lexsort((ids[slots], -scores))
            best, left = order[:2], order[2:]
            return slots[best], scores[best], scores[left].max(initial=-np.inf)

    for seed in range(30):
        clusters = Short(25, seed)
        assert run(MergeQueue(25, clusters.partners, n_kept=2), clusters, check=True) == naive(Clusters(25, seed), 25)


def test_a_floor_that_is_too_low_is_found_out():
    class Wrong(Clusters):
        def partners(self, k, ids):
            slots, scores, _ = super().partners(k, ids)
            best = np.argsort(scores)[:1]  # the worst, in fact
            return slots[best], scores[best], -np.inf

    clusters = Wrong(20, 0)
    with pytest.raises(ValueError, match="the bound of what slot"):
        MergeQueue(20, clusters.partners).check(clusters.score)


def test_scores_that_change_are_found_out():
    clusters = Clusters(20, 0)
    queue = MergeQueue(20, clusters.partners)
    clusters.x[:] = clusters.x[::-1].copy()
    with pytest.raises(ValueError, match=r"must not change|the bound of|before the last one"):
        queue.check(clusters.score)


def test_each_pair_is_scored_about_once():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 2))

    def partners(k, ids):
        slots = np.flatnonzero((ids >= 0) & (ids < ids[k]))
        return slots, -((x[k] - x[slots]) ** 2).sum(axis=1), -np.inf

    queue = MergeQueue(300, partners)
    while (pair := queue.best()) is not None:
        x[pair[0]] = (x[pair[0]] + x[pair[1]]) / 2
        queue.merge(*pair[:2])
    assert 299**2 <= queue.n_scores <= 1.01 * 299**2


def test_longer_lists_need_fewer_scores():
    counts = []
    for n_kept in (1, 2, 4):
        clusters = items(Steps, 150, 3)
        queue = MergeQueue(150, clusters.partners, n_kept=n_kept)
        queue.run(clusters.absorb)
        counts.append(queue.n_scores)
    assert counts[0] > counts[1] > counts[2] >= 149**2


@pytest.mark.parametrize("n_patterns", [1, 7])
def test_equal_items_cost_few_more_scores_than_others(n_patterns):
    """If every merge of equal items asked for the partners of all, there would be N**3 scores or so."""
    n = 240
    x, size = np.random.default_rng(0).normal(size=(n_patterns, 3))[np.arange(n) % n_patterns], np.ones(n)

    def partners(k, ids):
        slots = np.flatnonzero((ids >= 0) & (ids < ids[k]))
        weight = size[k] * size[slots] / (size[k] + size[slots])
        return slots, -weight * ((x[k] - x[slots]) ** 2).sum(axis=1), -np.inf

    def absorb(k, l):
        x[k] = (size[k] * x[k] + size[l] * x[l]) / (size[k] + size[l])
        size[k] += size[l]

    queue = MergeQueue(n, partners)
    queue.run(absorb)
    assert (n - 1) ** 2 <= queue.n_scores <= 1.1 * (n - 1) ** 2
    assert queue.n_scans < 5 * n


def test_it_widens_when_nothing_is_left():
    clusters = Clusters(20, 3, forbid=True)
    clusters.x[:, 0] = 0
    clusters.x[:10, 1:3] = 0
    clusters.x[10:, 3:] = 0
    clusters.x[:, 1] += np.arange(20) >= 10
    clusters.x[:, 3] += np.arange(20) < 10
    queue = MergeQueue(20, clusters.partners)
    assert len(run(queue, clusters)[0]) == 18
    clusters.forbid = False
    queue.widen(clusters.partners)
    assert len(run(queue, clusters)[0]) == 1
    assert queue.best() is None


class Less(Clusters):
    """Scores that rounding makes equal: odd multiples of 2**-52 near 1, of which a number is subtracted."""

    shift = 0.0

    def score(self, k, slots):
        return 1.0 + super().score(k, slots) * 2.0**-52 - self.shift


@pytest.mark.parametrize("n_levels", [2, 4, 50])
@pytest.mark.parametrize("shift", [0.0, 0.25, 16.0, -64.0])
def test_a_shift_gives_the_queue_that_is_made_anew(shift, n_levels):
    """To the bit, where a shift makes different scores equal too."""
    n_changed = 0
    for seed, n_kept in itertools.product(range(20), (1, 3, 8)):
        first, other = (Less(40, seed, forbid=seed % 2 == 1, n_levels=n_levels) for _ in range(2))
        other.shift = shift
        before = MergeQueue(40, first.partners, n_kept=n_kept).to_arrays()
        anew = MergeQueue(40, other.partners, n_kept=n_kept)
        shifted = MergeQueue.shifted(before, other.partners, shift)
        for name, array in anew.to_arrays().items():
            assert np.array_equal(shifted.to_arrays()[name], array), name
        n_changed += not np.array_equal(before["kept_slot"], anew.to_arrays()["kept_slot"])
    assert (n_changed > 0) == (abs(shift) >= 16.0)


def test_a_shift_scores_few_pairs():
    x, calls = np.random.default_rng(0).normal(size=(300, 2)), []

    def partners(k, ids):
        calls.append(k)
        slots = np.flatnonzero((ids >= 0) & (ids < ids[k]))
        return slots, -np.hypot(*(x[k] - x[slots]).T) - 0.7, -np.inf

    before = MergeQueue(300, partners).to_arrays()
    calls.clear()
    MergeQueue.shifted(before, partners, 0.0)
    assert not calls


def test_a_shift_refuses_lists_after_merges():
    clusters = Clusters(9, 0)
    queue = MergeQueue(9, clusters.partners)
    k, l, _ = queue.best()
    clusters.absorb(k, l)
    queue.merge(k, l)
    with pytest.raises(ValueError, match="shifted before the first merge; there were 1"):
        MergeQueue.shifted(queue.to_arrays(), clusters.partners, 1.0)


def test_it_goes_on_from_its_arrays():
    for stop in (0, 3, 11):
        clusters = Clusters(25, 4)
        queue = MergeQueue(25, clusters.partners, n_kept=2)
        for _ in range(stop):
            k, l, _ = queue.best()
            clusters.absorb(k, l)
            queue.merge(k, l)
        other = Clusters(25, 4)
        other.x = clusters.x.copy()
        again = MergeQueue.from_arrays(queue.to_arrays(), other.partners)
        again.check(other.score)
        assert run(again, other)[1] == run(queue, clusters)[1]
        assert again.n_scores == queue.n_scores
    arrays = queue.to_arrays()
    with pytest.raises(ValueError, match="'floor' has shape"):
        MergeQueue.from_arrays({**arrays, "floor": arrays["floor"][:3]}, other.partners)
    with pytest.raises(ValueError, match="'kept_slot' must hold numbers from -1 to 24: it was damaged"):
        MergeQueue.from_arrays({**arrays, "kept_slot": arrays["kept_slot"] + 99}, other.partners)
    with pytest.raises(ValueError, match="'kept_id' must hold numbers from -1 to 48: it was damaged"):
        MergeQueue.from_arrays({**arrays, "kept_id": arrays["kept_id"] + 99}, other.partners)
    counters = arrays["counters"].copy()
    counters[3] += 1  # merges
    with pytest.raises(ValueError, match=r"'counters' names .* it was damaged"):
        MergeQueue.from_arrays({**arrays, "counters": counters}, other.partners)


def test_failures_of_partners():
    clusters = Clusters(12, 0)

    def failing(k, ids):
        if k == 7 and broken["now"]:
            raise KeyError("seven")
        return clusters.partners(k, ids)

    broken = {"now": True}
    with pytest.raises(KeyError, match="seven"):
        MergeQueue(12, failing)
    broken["now"] = False
    queue = MergeQueue(12, failing)
    broken["now"] = True
    clusters.absorb(7, 8)
    queue.merge(7, 8)
    with pytest.raises(KeyError, match="seven"):  # whose partners are looked for now
        queue.best()
    broken["now"] = False
    assert len(run(queue, clusters)[0]) == 10

    for value, message in ((np.nan, "clusters 1 and 0 .* is NaN"), (np.inf, "NaN or \\+inf")):
        with pytest.raises(FloatingPointError, match=message):
            MergeQueue(3, lambda k, ids, v=value: (np.arange(k), np.full(k, v), -np.inf))
    with pytest.raises(IndexError, match="returned slots 9 to 9: there are 0 to 2"):
        MergeQueue(3, lambda k, ids: ([9], [0.0], 0.0))
    with pytest.raises(ValueError, match="returned 1 slot and 2 scores"):
        MergeQueue(3, lambda k, ids: ([0], [0.0, 1.0], 0.0))
    with pytest.raises(ValueError, match=r"partners\(0\) returned slot 1, which holds no older cluster"):
        MergeQueue(3, lambda k, ids: ([1], [0.0], -np.inf))


def test_an_error_in_a_scan_loses_nothing():
    expected = naive(items(Hashed, 30, 2), 30)
    clusters, calls = items(Hashed, 30, 2), 0

    def partners(k, ids):
        nonlocal calls
        calls += 1
        if calls % 7 == 0:
            raise OSError
        return clusters.partners(k, ids)

    arrays = MergeQueue(30, clusters.partners, n_kept=1).to_arrays()
    queue = MergeQueue.from_arrays(arrays, partners)
    children, scores, of_slot = [], [], list(range(30))
    while queue.n_live > 1:
        try:
            k, l, score = queue.best()
        except OSError:
            continue
        children.append((of_slot[k], of_slot[l]))
        scores.append(score)
        clusters.absorb(k, l)
        of_slot[k] = queue.merge(k, l)
    assert (children, scores) == expected
    assert calls > 30


@pytest.mark.parametrize("rest", [np.nan, np.inf, 5.0, -np.inf])
def test_a_bound_that_no_score_reaches_is_refused(rest):
    """Without the guard the same entry would be scanned again and again."""
    clusters, is_broken = items(Hashed, 6, 2), False

    def partners(k, ids):
        slots, scores, own = clusters.partners(k, ids)
        return slots, scores, rest if is_broken and k == 0 else own

    queue = MergeQueue(6, partners)
    queue.merge(0, 1)
    is_broken = True
    if rest == -np.inf:  # no bound is needed: all partners were returned
        assert queue.best() is not None
        return
    for _ in range(2):  # the queue stays usable, and the fault is found again
        with pytest.raises(
            ValueError, match=rf"partners\(0\) returned {rest} as the bound of what it leaves out, and no"
        ):
            queue.best()
    is_broken = False
    live = queue.slots
    assert queue.best()[2] == max(clusters.score(k, live[:place]).max() for place, k in enumerate(live) if place)


def test_a_bound_above_no_partners_is_refused():
    with pytest.raises(ValueError, match=r"partners\(0\) returned 0\.0 as the bound .* the best 4 partners of"):
        MergeQueue(3, lambda k, ids: ([], [], 0.0)).best()
    with pytest.raises(ValueError, match=r"partners\(0\) returned nan"):
        MergeQueue(3, lambda k, ids: ([], [], np.nan))


PARTNERS = ctypes.CFUNCTYPE(ctypes.c_ssize_t, *[ctypes.c_void_p, ctypes.c_ssize_t, *[ctypes.c_void_p] * 5])


class Foreign:
    """A stranger's C function, by ctypes, that returns a status."""

    def __init__(self, status):
        self.function = PARTNERS(lambda *arguments: status)
        self.struct = (ctypes.c_void_p * 2)(None, ctypes.cast(self.function, ctypes.c_void_p))
        make = ctypes.pythonapi.PyCapsule_New
        make.restype, make.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
        self.capsule = make(ctypes.addressof(self.struct), b"expfam.merge_partners_v1", None)


def test_status_of_a_stranger_is_reported():
    assert MergeQueue(5, Foreign(0)).best() is None
    with pytest.raises(RuntimeError, match="the compiled partners returned status -7"):
        MergeQueue(5, Foreign(-7))


def test_bad_requests():
    clusters = Clusters(5, 0)
    with pytest.raises(ValueError, match="n_kept must be a positive integer; got 0"):
        MergeQueue(5, clusters.partners, n_kept=0)
    with pytest.raises(TypeError, match="partners must be callable or bring a capsule; got int"):
        MergeQueue(5, 3)
    queue = MergeQueue(5, clusters.partners)
    with pytest.raises(ValueError, match="n_clusters must be a positive integer; got 0"):
        queue.run(clusters.absorb, n_clusters=0)
    with pytest.raises(ValueError, match="the older cluster comes first; slot 3 holds cluster 3"):
        queue.merge(3, 1)
    queue.merge(1, 3)
    with pytest.raises(IndexError, match="slot 3 holds no live cluster"):
        queue.merge(0, 3)
    assert queue.slots.tolist() == [0, 2, 4, 1]
    assert queue.ids.tolist() == [0, 2, 4, 5]
    assert repr(queue) == "MergeQueue(n_items=5, n_live=4, n_kept=4)"


def test_one_item_has_no_partner():
    queue = MergeQueue(1, lambda k, ids: ([], [], -np.inf))
    assert queue.best() is None
