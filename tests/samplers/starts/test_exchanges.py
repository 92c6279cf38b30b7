"""Exchanges merge two clusters and cut one, or recut a pair; their rises are those of the log joint."""

from itertools import combinations, product

import numpy as np
import pytest
from scipy import sparse

from expfam import Dataset, DiagonalGaussian, DirichletProcess, Gaussian, MixtureModel, Multinomial, SymmetricDirichlet
from expfam.model.partitions import by_first_appearance
from expfam.samplers.starts.exchanges import Exchanges
from expfam.samplers.starts.halves import best_halves

RNG = np.random.default_rng(0)
ANGLES = np.sort(RNG.uniform(0, 2 * np.pi, 240))
RING = np.column_stack([np.cos(ANGLES), np.sin(ANGLES)]) * 5.0 + 0.3 * RNG.normal(size=(240, 2))
ARCS = np.digitize(ANGLES, [0.3, 0.6, 2.5, 3.6, 4.8]).astype(np.int32)  # narrow ones and a wide one
COUNTS = sparse.csr_array(RNG.poisson(np.repeat([[9.0, 1.0, 1.0], [1.0, 9.0, 1.0], [1.0, 1.0, 9.0]], 40, axis=0)))
CASES = {
    "diagonal": (DiagonalGaussian(), RING, ARCS, DirichletProcess()),
    "full": (Gaussian(), RING, ARCS, SymmetricDirichlet(6, 1.0)),
    "counts": (Multinomial(), COUNTS, np.repeat([0, 0, 1, 2], [40, 40, 20, 20]), SymmetricDirichlet(3)),
}


def made(name):
    family, X, labels, weights = CASES[name]
    data = Dataset(X, family)
    return MixtureModel(data.family, weights), data, labels


def halves_of_each(model, data, clusters, **options):
    """Each cluster by a call of its own: the random numbers of a cut depend on its place in the call."""
    return [best_halves(model, data, [rows], **options)[0] for rows in clusters]


def by_hand(model, data, labels):
    """Log joints of all exchanges by the cuts of `best_halves`: each pair cut anew, each cluster cut."""
    K = labels.max() + 1
    clusters = [np.flatnonzero(labels == k) for k in range(K)]
    for a, b in combinations(range(K), 2):
        rows = np.flatnonzero((labels == a) | (labels == b))
        (cut,) = best_halves(model, data, [rows], seed=0, forced=True)
        yield moved(labels, rows, np.where(cut.labels == 1, b, a))
    for c, cut in enumerate(halves_of_each(model, data, clusters, seed=0, forced=True)):
        halves = [clusters[c][cut.labels == side] for side in (0, 1)]
        others = [k for k in range(K) if k != c]
        for a, b in combinations(others, 2):
            yield moved(moved(labels, clusters[b], a), halves[1], b)
        for half, other in product(halves, others):
            yield moved(labels, half, other)


def moved(labels, rows, values):
    labels = labels.copy()
    labels[rows] = values
    return labels


@pytest.mark.parametrize("name", CASES)
def test_the_best_exchange_is_that_of_all(name, monkeypatch):
    model, data, labels = made(name)
    monkeypatch.setattr("expfam.samplers.starts.exchanges._FAR", np.inf)
    monkeypatch.setattr("expfam.samplers.starts.exchanges._PAIRS_A_CLUSTER", len(labels))
    monkeypatch.setattr("expfam.samplers.starts.exchanges._FEWEST_SWAPPED", 3)
    monkeypatch.setattr("expfam.samplers.starts.exchanges.best_halves", halves_of_each)
    own = model.log_joint(data, labels)
    found = Exchanges(model, data, seed=0).best(labels, most=1000)
    rises = [one.rise for one in found]
    assert rises == sorted(rises, reverse=True)
    np.testing.assert_allclose([model.log_joint(data, one.labels) - own for one in found], rises, atol=1e-8)
    assert all(np.unique(one.labels).size == labels.max() + 1 for one in found)
    best = max(model.log_joint(data, each) for each in by_hand(model, data, labels)) - own
    assert rises[0] == pytest.approx(best, abs=1e-8)


@pytest.mark.parametrize("name", CASES)
def test_exchanges_are_other_partitions_and_differ(name):
    model, data, labels = made(name)
    seen = [by_first_appearance(each)[1].tolist() for each in (labels, *_labels_of_all(model, data, labels))]
    assert len(seen) > 1
    assert all(seen[a] != seen[b] for a, b in combinations(range(len(seen)), 2))


def _labels_of_all(model, data, labels):
    return [one.labels for one in Exchanges(model, data, seed=0).best(labels, most=1000)]


def test_the_merge_of_a_swap_counts_the_sizes_of_the_clusters():
    """A merge of two small clusters loses less evidence; that of two large ones gains more by their sizes."""
    centres = np.repeat([[0.0, 0.0], [1.0, 0.0], [9.0, 9.0], [9.0, 10.0], [-9.0, 9.0], [-9.0, 16.0]], 2, axis=1)
    sizes = [200, 200, 3, 3, 60, 60]
    X = np.repeat(centres, sizes, axis=0) + np.random.default_rng(1).normal(size=(sum(sizes), 4))
    labels = np.repeat([0, 1, 2, 3, 4, 4], sizes).astype(np.int32)
    data = Dataset(X, DiagonalGaussian())
    model = MixtureModel(data.family, SymmetricDirichlet(5, 1.0))
    own, freed = model.log_joint(data, labels), np.arange(466, 526)
    large = model.log_joint(data, moved(moved(labels, np.arange(200, 400), 0), freed, 1)) - own
    small = model.log_joint(data, moved(moved(labels, np.arange(403, 406), 2), freed, 3)) - own
    assert large > small
    assert Exchanges(model, data, seed=0).best(labels, most=1)[0].rise >= large - 1e-8


def test_two_clusters_that_divide_their_rows_the_wrong_way_are_cut_anew():
    model, data, _ = made("diagonal")
    wrong = np.where(RING[:, 0] * RING[:, 1] > 0, 0, 1).astype(np.int32)
    best = Exchanges(model, data, seed=0).best(wrong, most=1)[0]
    assert best.rise > 100.0
    assert model.log_joint(data, best.labels) > model.log_joint(data, wrong) + 100.0


def test_clusters_that_share_no_rows_are_not_cut_anew():
    far = Dataset(np.repeat([[0.0, 0.0], [100.0, 0.0], [0.0, 100.0]], 40, axis=0) + RING[:120], DiagonalGaussian())
    model = MixtureModel(far.family, SymmetricDirichlet(3, 1.0))
    assert Exchanges(model, far, seed=0).best(np.repeat([0, 1, 2], 40), most=9) == []


def test_weights_are_multiplicities():
    family, X, labels, weights = CASES["diagonal"]
    family = family.bind(np.repeat(X, 3, axis=0))
    model = MixtureModel(family, weights)
    weighted = Exchanges(model, Dataset(X, family, weight=np.full(240, 3.0)), seed=0).best(labels, most=1)[0]
    repeated = Exchanges(model, Dataset(np.repeat(X, 3, axis=0), family), seed=0).best(np.repeat(labels, 3), most=1)[0]
    np.testing.assert_array_equal(np.repeat(weighted.labels, 3), repeated.labels)
    assert weighted.rise == pytest.approx(repeated.rise)


def test_the_same_rows_are_cut_once(monkeypatch):
    model, data, labels = made("diagonal")
    exchanges = Exchanges(model, data, seed=0)
    first = exchanges.best(labels, most=3)
    monkeypatch.setattr("expfam.samplers.starts.exchanges.best_halves", lambda *args, **_: [None] * len(args[2]))
    again = exchanges.best(labels, most=3)
    assert [one.rise for one in again] == [one.rise for one in first]


def test_one_cluster_and_many_have_no_exchanges():
    model, data, _ = made("diagonal")
    exchanges = Exchanges(model, data, seed=0)
    assert exchanges.best(np.zeros(240, dtype=np.int32), most=4) == []
    assert exchanges.best(np.arange(240) % 65, most=4) == []


@pytest.mark.parametrize("weight", [None, 2.0])
def test_a_single_row_is_exchanged_for_the_strangest_one(weight):
    """One wide cluster and single rows: no cut into halves finds the row that gains most by itself."""
    X = np.random.default_rng(3).normal(size=(120, 3))
    data = Dataset(X, DiagonalGaussian(), weight=None if weight is None else np.full(120, weight))
    model = MixtureModel(data.family, SymmetricDirichlet(3, 1.0))
    ordinary = np.argsort(np.square(X).sum(axis=1))[:2]
    labels = moved(moved(np.zeros(120, dtype=np.int32), ordinary[0], 1), ordinary[1], 2)
    own = model.log_joint(data, labels)
    exchanged = (moved(moved(labels, ordinary[k - 1], 0), i, k) for k in (1, 2) for i in range(120))
    by_hand = [model.log_joint(data, each) for each in exchanged if len(np.unique(each)) == 3]
    best = Exchanges(model, data, seed=0).best(labels, most=1)[0]
    assert best.rise == pytest.approx(max(by_hand) - own, abs=1e-8)
    assert model.log_joint(data, best.labels) - own == pytest.approx(best.rise, abs=1e-8)


def test_clusters_of_one_row_each_have_no_exchanges():
    data = Dataset([[0.0], [5.0]], DiagonalGaussian())
    model = MixtureModel(data.family, SymmetricDirichlet(2, 1.0))
    assert Exchanges(model, data, seed=0).best(np.arange(2, dtype=np.int32), most=4) == []
