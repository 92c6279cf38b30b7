"""Merges of the queue against the plain greedy search, with ties, forests, truncated searches, threads and failures."""

import numpy as np
import pytest

from expfam.structures import MergeQueue


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
    with pytest.raises(ValueError, match="returned 1 slots and 2 scores"):
        MergeQueue(3, lambda k, ids: ([0], [0.0, 1.0], 0.0))


def test_bad_requests():
    clusters = Clusters(5, 0)
    with pytest.raises(ValueError, match="n_kept must be a positive integer; got 0"):
        MergeQueue(5, clusters.partners, n_kept=0)
    with pytest.raises(TypeError, match="partners must be callable or bring a capsule; got int"):
        MergeQueue(5, 3)
    queue = MergeQueue(5, clusters.partners)
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
