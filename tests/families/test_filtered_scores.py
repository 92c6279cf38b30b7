"""Scores bounded by matrix products: the same bits as all scores, bounds that hold, and few scores computed."""

import numpy as np
import pytest
from instruction_sets import SETS, output_under

from expfam import Dataset, DiagonalGaussian, SphericalGaussian, load_family
from expfam.families.components import Components
from expfam.families.filtered_scores import FilteredScores, scores_of
from expfam.model.assignment import LoadedClusters

FAMILIES = {
    "own": lambda d: SphericalGaussian(),
    "known": lambda d: SphericalGaussian(variance=1.0 / d),
    "shared": lambda d: SphericalGaussian(variance="shared"),
    "vmf": lambda d: load_family("von_mises_fisher"),
    "vmf normalised": lambda d: load_family("von_mises_fisher", normalize=True),
    "vmf one kappa": lambda d: load_family("von_mises_fisher", kappa=50.0),
}


def planted(n_rows, K, d, *, spread, seed):
    """Unit rows about K centres, and their clusters; the last three clusters have no rows."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(K - 3, size=n_rows).astype(np.int32)
    X = rng.normal(size=(K, d))[labels] + spread * rng.normal(size=(n_rows, d))
    return (X / np.linalg.norm(X, axis=1, keepdims=True)).astype(np.float32), labels


def loaded(name, X, labels, K):
    data = Dataset(X, FAMILIES[name](X.shape[1]))
    components = Components(data.family, data, K)
    components.load(*data.statistics(labels, K))
    return components


def results(scores, mass, labels, n_best=5, step=130):
    """Labels, best slots, margins and shares, in calls of some rows each."""
    N = len(labels)
    found = np.empty(N, np.int32), np.empty((N, n_best), np.int32), np.empty(N), np.empty(N, np.float32)
    for a in range(0, N, step):
        b = min(N, a + step)
        scores.most_probable(a, b, mass, found[0][a:b])
        scores.ranked(a, b, mass, found[1][a:b], found[2][a:b])
        scores.shares(a, b, mass, np.ascontiguousarray(labels[a:b], dtype=np.int32), found[3][a:b])
    return found


def assert_same(components, K, mass, labels, **options):
    filtered = FilteredScores(components, K)
    assert filtered.is_usable
    for one, other in zip(results(components, mass, labels, **options), results(filtered, mass, labels, **options)):
        assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize(("K", "d", "spread"), [(46, 40, 0.5), (29, 9, 3.0), (32, 60, 30.0)])
def test_results_have_the_bits_of_all_scores(name, K, d, spread):
    X, labels = planted(180, K, d, spread=spread, seed=K + d)
    mass = np.log(np.random.default_rng(1).random(K))
    mass[[2, 7]] = -np.inf  # no row may choose them
    assert_same(loaded(name, X, labels, K), K, mass, np.where(np.isin(labels, [2, 7]), 0, labels))


@pytest.fixture
def coded(monkeypatch):
    """Products of integers, on machines that are slow at them, too."""
    monkeypatch.setattr("expfam.families.filtered_scores.has_byte_products", lambda: True)


@pytest.mark.usefixtures("coded")
@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize(("K", "d", "spread"), [(70, 50, 0.5), (129, 97, 1.5), (64, 48, 30.0)])
def test_integers_change_no_result(name, K, d, spread):
    X, labels = planted(300, K, d, spread=spread, seed=K + d)
    mass = np.log(np.random.default_rng(1).random(K))
    mass[[2, 7]] = -np.inf
    components = loaded(name, X, labels, K)
    assert FilteredScores(components, K).is_coded
    assert_same(components, K, mass, np.where(np.isin(labels, [2, 7]), 0, labels))


@pytest.mark.usefixtures("coded")
@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("spread", [0.3, 2.0])
def test_bounds_of_integers_hold_and_are_wider(name, spread):
    X, labels = planted(150, 70, 60, spread=spread, seed=2)
    components = loaded(name, X, labels, 70)
    filtered, scores = FilteredScores(components, 70), components.log_predictive_block(0, 150, 70)
    bounds = filtered.bounds(0, 150)
    filtered.is_coded = False
    closer = filtered.bounds(0, 150)
    assert (bounds >= scores).all()
    assert (bounds > closer).mean() > 0.99
    assert (bounds - closer).max() < (40.0 if spread == 0.3 else 8.0)
    own = FilteredScores(components, 70).own_bounds(0, 150, labels)
    assert (own <= [components.log_predictive_self(i, k) for i, k in enumerate(labels)]).all()
    assert np.isfinite(own).mean() > 0.5


@pytest.mark.usefixtures("coded")
def test_integers_are_given_up_where_their_bounds_are_too_wide():
    X, labels = planted(600, 100, 50, spread=30.0, seed=3)  # every cluster may be the best one
    components = loaded("own", X, labels, 100)
    assert_same(components, 100, np.zeros(100), labels, step=600)


@pytest.mark.parametrize("isa", SETS)
def test_bounds_of_other_instructions_hold_too(isa):
    code = (
        "from test_filtered_scores import FAMILIES, test_results_have_the_bits_of_all_scores as check\n"
        "for name in FAMILIES:\n"
        "    check(name, 46, 40, 0.5)\n"
        "print('same')"
    )
    assert output_under(isa, code, file=__file__).strip() == "same"


@pytest.mark.parametrize("name", ["own", "known", "vmf"])
def test_equal_slots_and_one_slot(name):
    X, labels = planted(200, 30, 33, spread=0.6, seed=4)
    twins = np.concatenate([labels, labels + 30]).astype(np.int32)  # slots k and k + 30 have equal scores
    components = loaded(name, np.concatenate([X, X]), twins, 60)
    assert_same(components, 60, np.zeros(60), twins)
    lone, best = FilteredScores(components, 1), np.full(400, -1, np.int32)
    lone.most_probable(0, 400, np.zeros(1), best)
    assert not best.any()


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_any_scale_and_place(scale):
    rng = np.random.default_rng(5)
    labels = rng.integers(40, size=240).astype(np.int32)
    X = scale * (1e4 + 3.0 * rng.normal(size=(40, 20))[labels] + rng.normal(size=(240, 20)))
    for name in ("own", "shared"):
        assert_same(loaded(name, X, labels, 40), 40, np.zeros(40), labels)


def test_rows_that_single_precision_cannot_hold():
    X, labels = planted(200, 40, 20, spread=0.5, seed=0)
    X = X.astype(np.float64)
    components = loaded("own", X, labels, 40)
    X = X.copy()
    X[3], X[150], X[7], X[8] = 1e25, -1e40, 0.0, 1e-310
    components.set_data(Dataset(X, components.family))
    assert_same(components, 40, np.zeros(40), labels)


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("spread", [0.3, 2.0, 50.0])
def test_bounds_hold_and_are_close(name, spread):
    X, labels = planted(150, 40, 48, spread=spread, seed=2)
    components = loaded(name, X, labels, 40)
    bounds, scores = FilteredScores(components, 40).bounds(0, 150), components.log_predictive_block(0, 150, 40)
    assert (bounds >= scores).all()
    assert (bounds - scores).max() < (15.0 if name.startswith("vmf") else 0.02)  # the prior mean is left open
    if spread == 0.3:  # the second cluster is far below the first one for nearly all rows
        assert (bounds > scores.max(axis=1)[:, None]).sum() < 1.3 * 150


def assert_own_bounds(components, K, labels, most):
    """Compare with the scores from the other data; most bounds are as close as `most`."""
    N = len(labels)
    bounds = FilteredScores(components, K).own_bounds(0, N, labels)
    gaps = np.array([components.log_predictive_self(i, labels[i]) for i in range(N)]) - bounds
    assert (gaps >= 0.0).all()
    assert np.quantile(gaps, 0.9) < most


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("spread", [0.3, 2.0, 50.0])
def test_own_bounds_hold_and_are_close(name, spread):
    X, labels = planted(600, 40, 48, spread=spread, seed=2)
    labels[:4] = [37, 38, 38, 39]  # one row alone, two, and one
    assert_own_bounds(loaded(name, X, labels, 40), 40, labels, 6.0 if name.startswith("vmf") else 0.02)


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e3])
@pytest.mark.parametrize("place", [0.0, 1e2, 1e6])
def test_own_bounds_hold_at_any_scale_and_place(scale, place):
    rng = np.random.default_rng(5)
    labels = rng.integers(40, size=240).astype(np.int32)
    X = scale * (place + 3.0 * rng.normal(size=(40, 20))[labels] + rng.normal(size=(240, 20)))
    X[:40] += 1e3 * scale * place * (labels[:40] == labels[0])[:, None]  # a cluster in two places
    for name in ("own", "shared"):
        assert_own_bounds(loaded(name, X, labels, 40), 40, labels, np.inf if place else 0.02)


def test_bounds_hold_where_single_precision_is_coarse():
    X, labels = planted(150, 40, 48, spread=0.3, seed=2)
    data = Dataset(X, SphericalGaussian(variance=1e-6))
    components = Components(data.family, data, 40)
    components.load(*data.statistics(labels, 40))
    bounds, scores = FilteredScores(components, 40).bounds(0, 150), components.log_predictive_block(0, 150, 40)
    above = bounds - scores
    assert (above >= 0.0).all()
    # each bound lies above its score by slack, which is nearly the same for all rows, and an error of the product
    assert np.abs(above - above.mean(axis=0)).max() > 0.03
    assert_same(components, 40, np.zeros(40), labels)


def test_what_scores_rows():
    X, labels = planted(300, 70, 300, spread=0.5, seed=0)
    components = loaded("own", X, labels, 70)
    assert isinstance(scores_of(components, 70, 300), FilteredScores)
    assert scores_of(components, 70, 100) is components  # few rows
    assert scores_of(components, 40, 300) is components  # few slots times columns
    assert scores_of(loaded("own", np.repeat(X, 10, axis=1), labels, 70), 15, 300).__class__ is Components  # few slots
    directions = loaded("vmf", X[:, :16] / np.linalg.norm(X[:, :16], axis=1, keepdims=True), labels, 70)
    assert isinstance(scores_of(directions, 16, 300), FilteredScores)  # their scores cost more than distances
    assert scores_of(directions, 15, 300) is directions
    data = Dataset(X, DiagonalGaussian())
    other = Components(data.family, data, 70)
    assert scores_of(other, 70, 300) is other
    assert not FilteredScores(other, 70).is_usable


@pytest.mark.parametrize("name", ["own", "vmf"])
def test_loaded_clusters_use_it_and_load_again(name):
    X, labels = planted(530, 67, 300, spread=1.0, seed=3)
    data = Dataset(X, FAMILIES[name](300))
    clusters, mass = LoadedClusters(data.family, *data.statistics(labels, 67)), np.zeros(67)
    for seed in range(2):
        other = np.random.default_rng(seed).permutation(labels)
        n, S = data.statistics(other, 67)
        clusters.load(n, S)
        components = Components(data.family, data, 67)
        components.load(n, S)
        wanted = results(components, mass, other)
        ranked, margins = clusters.ranked(data, mass, 5, n_threads=2)
        assert np.array_equal(clusters.most_probable(data, mass, n_threads=2), wanted[0])
        assert np.array_equal(ranked, wanted[1])
        assert np.array_equal(margins, wanted[2])
        assert np.array_equal(clusters.shares(data, mass, other), wanted[3])


def test_refusals():
    X, labels = planted(20, 10, 4, spread=0.5, seed=0)
    filtered = FilteredScores(loaded("own", X, labels, 10), 10)
    with pytest.raises(IndexError, match="rows 0:30 of 20"):
        filtered.most_probable(0, 30, np.zeros(10), np.empty(30, np.int32))
    with pytest.raises(ValueError, match="9 masses of 10 slots"):
        filtered.most_probable(0, 5, np.zeros(9), np.empty(5, np.int32))
    with pytest.raises(IndexError, match="slots 11 of 10"):
        FilteredScores(filtered.components, 11)
