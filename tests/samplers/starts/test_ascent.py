"""Ascent ends where every row has its most probable cluster, and never lowers the log joint."""

import numpy as np
import pytest
from planted import PLANTED, TEXT, planted
from scipy import sparse
from stepping import assert_threads_agree

import expfam as ef
from expfam.model.assignment import LoadedClusters
from expfam.model.statistics import moved_statistics
from expfam.samplers.starts.ascent import Ascents, _Ascent, ascend

RNG = np.random.default_rng(4)
PRIORS = [ef.SymmetricDirichlet(6, alpha=1.0), ef.DirichletProcess(), ef.PitmanYor(1.0, 0.2)]
PROBABILITIES = RNG.random((6, 12))
CASES = {
    **{name: planted(name) for name in PLANTED},
    "csr": (ef.Multinomial(), TEXT, np.arange(600) % 12),
    "bernoulli": (
        ef.load_family("bernoulli"),
        (RNG.random((400, 12)) < PROBABILITIES[np.arange(400) % 6]).astype(float),
        np.arange(400) % 6,
    ),
}


def disturbed(labels, share=0.3):
    """Known labels of which some are drawn anew."""
    rng = np.random.default_rng(0)
    other = rng.integers(0, labels.max() + 1, labels.size)
    return np.where(rng.random(labels.size) < share, other, labels).astype(np.int32)


def plain_ascent(model, data, labels):
    """The passes by their definition, and the log joint of each partition."""
    reached = [model.log_joint(data, labels)]
    while True:
        K = labels.max() + 1
        n, S = data.statistics(labels, K)
        with np.errstate(divide="ignore"):
            scores = data.family.log_predictive(data.X, n, S) + np.log(model.weights.posterior_mean(n)[0])
        moved = scores.argmax(axis=1)
        if (moved == labels).all() or model.log_joint(data, moved) <= reached[-1]:
            return labels, reached
        labels = moved
        reached.append(model.log_joint(data, labels))


def made(name, weights):
    family, X, labels = CASES[name]
    data = ef.Dataset(X, family)
    weights = ef.SymmetricDirichlet(int(labels.max()) + 1, alpha=1.0) if weights.max_components else weights
    return ef.MixtureModel(data.family, weights), data, disturbed(labels)


@pytest.mark.parametrize("weights", PRIORS, ids=lambda w: type(w).__name__)
@pytest.mark.parametrize("name", CASES)
def test_passes_are_those_of_the_definition(name, weights):
    model, data, labels = made(name, weights)
    expected, reached = plain_ascent(model, data, labels)
    assert len(reached) > 1
    np.testing.assert_array_equal(ascend(model, data, labels, max_passes=100), expected)


@pytest.mark.parametrize("name", CASES)
def test_the_log_joint_never_falls(name):
    model, data, labels = made(name, ef.SymmetricDirichlet(6))
    reached = [model.log_joint(data, ascend(model, data, labels, max_passes=m)) for m in range(8)]
    assert reached[0] == model.log_joint(data, labels)
    assert (np.diff(reached) >= 0).all()
    assert reached[-1] > reached[0]


@pytest.mark.parametrize("name", CASES)
def test_a_fixed_point_is_what_a_mixture_predicts(name):
    model, data, labels = made(name, ef.SymmetricDirichlet(6))
    found = ascend(model, data, labels, max_passes=100)
    np.testing.assert_array_equal(ascend(model, data, found), found)
    mixture = ef.Mixture(model.family, weights=model.weights, start=found, n_steps=0, n_warmup=0, partition="last")
    mixture.fit(data.X)
    np.testing.assert_array_equal(mixture.predict(data.X), mixture.labels_)


@pytest.mark.parametrize("name", ["gaussian", "csr", "bernoulli"])
def test_threads_do_not_change_labels(name, monkeypatch):
    monkeypatch.setattr("expfam.model.assignment._BLOCK_SCORES", 1)
    model, data, labels = made(name, ef.DirichletProcess())
    found = assert_threads_agree(lambda n_threads: ascend(model, data, labels, n_threads=n_threads))
    np.testing.assert_array_equal(found, ascend(model, data, labels, n_threads=8))


@pytest.fixture
def border_passes(monkeypatch):
    """Let passes over the rows near borders begin after the first pass, also on few rows; count their moves."""
    counts = []

    def counted(*arguments):
        counts.append(len(arguments[3]))
        return moved_statistics(*arguments)

    monkeypatch.setattr("expfam.samplers.starts.ascent._MANY_ROWS", 0)
    monkeypatch.setattr("expfam.samplers.starts.ascent._FEW_MOVED", 1.0)
    monkeypatch.setattr("expfam.samplers.starts.ascent.moved_statistics", counted)
    return counts


@pytest.mark.parametrize("n_best", [None, 2, 4])
@pytest.mark.parametrize("keeps", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_passes_over_rows_near_borders_end_where_no_row_moves(name, keeps, n_best, border_passes, monkeypatch):
    """Also where they look at the best clusters of each row alone, before all clusters are looked at."""
    if n_best is not None:
        monkeypatch.setattr("expfam.samplers.starts.ascent._MANY_CLUSTERS", n_best)
        monkeypatch.setattr("expfam.samplers.starts.ascent._BEST", n_best)
    model, data, labels = made(name, ef.SymmetricDirichlet(6))
    reached = [
        model.log_joint(data, ascend(model, data, labels, keep_clusters=keeps, max_passes=m)) for m in (0, 1, 2, 100)
    ]
    assert (np.diff(reached) >= 0.0).all()
    found = ascend(model, data, labels, keep_clusters=keeps, max_passes=100)
    np.testing.assert_array_equal(ascend(model, data, found, keep_clusters=keeps), found)
    if keeps:
        assert set(found.tolist()) == set(labels.tolist())


def test_rows_near_borders_move_by_themselves(border_passes):
    rng = np.random.default_rng(0)
    data = ef.Dataset(rng.normal(size=(4000, 2)) + 1.5 * rng.integers(0, 2, (4000, 1)), ef.load_family("gaussian_diag"))
    model = ef.MixtureModel(data.family, ef.SymmetricDirichlet(3))
    labels = rng.integers(0, 3, 4000).astype(np.int32)
    found = assert_threads_agree(lambda n_threads: ascend(model, data, labels, n_threads=n_threads, max_passes=200))
    assert border_passes
    assert set(border_passes) == {400}
    np.testing.assert_array_equal(ascend(model, data, found), found)


def counting(function, counts, name):
    def counted(*arguments, **options):
        counts[name] += 1
        return function(*arguments, **options)

    return counted


def test_of_many_clusters_a_pass_looks_at_the_best_ones_of_each_row(border_passes, monkeypatch):
    """Passes over all clusters are few, and the end is where all clusters were looked at."""
    rng = np.random.default_rng(0)
    centres = 4.0 * rng.normal(size=(40, 3))
    labels = rng.integers(0, 40, 3000).astype(np.int32)
    data = ef.Dataset(centres[labels] + rng.normal(size=(3000, 3)), ef.load_family("gaussian_diag"))
    model, counts = ef.MixtureModel(data.family, ef.DirichletProcess()), {"ranked": 0, "most_probable_of": 0}
    for name in counts:
        monkeypatch.setattr(LoadedClusters, name, counting(getattr(LoadedClusters, name), counts, name))
    begun = disturbed(labels)
    found = assert_threads_agree(lambda n_threads: ascend(model, data, begun, n_threads=n_threads, max_passes=200))
    assert 0 < counts["ranked"] < counts["most_probable_of"]
    n, S = data.statistics(found, 40)
    with np.errstate(divide="ignore"):
        scores = data.family.log_predictive(data.X, n, S) + np.log(model.weights.posterior_mean(n)[0])
    np.testing.assert_array_equal(scores.argmax(axis=1), found)


def test_later_passes_look_at_the_rows_whose_best_clusters_have_changed(border_passes, monkeypatch):
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(60), 50).astype(np.int32)
    data = ef.Dataset(
        40.0 * rng.normal(size=(60, 3))[labels] + rng.normal(size=(3000, 3)), ef.load_family("gaussian_diag")
    )
    model, looked_at, choose = ef.MixtureModel(data.family, ef.DirichletProcess()), [], LoadedClusters.most_probable_of

    def noted(self, data, log_mass, given, *, rows, n_threads):
        labels, margins = choose(self, data, log_mass, given, rows=rows, n_threads=n_threads)
        others, _ = choose(self, data, log_mass, given, rows=rows, n_threads=1)
        np.testing.assert_array_equal(labels, others)
        looked_at.append(rows.size)
        return labels, margins

    monkeypatch.setattr(LoadedClusters, "most_probable_of", noted)
    begun = labels.copy()
    begun[:10] = 1  # only two clusters change, which are among the best ones of some rows
    found = ascend(model, data, begun)
    np.testing.assert_array_equal(found, labels)
    assert looked_at
    assert 100 <= max(looked_at) < 3000


def test_a_pass_that_moves_no_row_tells_the_probabilities_of_the_labels(border_passes, monkeypatch):
    """Only after a pass that has moved few rows; rows may move all the same, and then all clusters are ranked."""
    rng, stays = np.random.default_rng(0), _Ascent._stays
    labels = rng.integers(0, 40, 3000).astype(np.int32)
    rows = 4.0 * rng.normal(size=(40, 3))[labels] + rng.normal(size=(3000, 3))
    data, found = ef.Dataset(rows, ef.load_family("gaussian_diag")), []
    ascents = Ascents(ef.MixtureModel(data.family, ef.DirichletProcess()), data)

    def summit(share):
        monkeypatch.setattr("expfam.samplers.starts.ascent._LAST_MOVED", share)
        return ascents.climb(disturbed(labels), keep_clusters=False, max_passes=200)

    monkeypatch.setattr("expfam.samplers.starts.ascent._BEST", 2)  # so that a pass misses rows that the next one moves
    monkeypatch.setattr(_Ascent, "_stays", lambda ascent: found.append(stays(ascent)) or found[-1])
    plain, told = summit(-1.0), summit(1.0)
    assert plain.shares is None
    assert found == [False] * (len(found) - 1) + [True]
    assert len(found) > 1
    np.testing.assert_array_equal(told.labels, plain.labels)
    n, S = data.statistics(told.labels, 40)
    with np.errstate(divide="ignore"):
        log_mass = np.log(ascents.model.weights.posterior_mean(n)[0])
    expected = LoadedClusters(data.family, n, S).shares(data, log_mass, told.labels)
    np.testing.assert_allclose(told.shares, expected, rtol=1e-6)


def test_a_pass_that_gains_too_little_is_the_last_one():
    rng = np.random.default_rng(3)
    data = ef.Dataset(rng.normal(size=(400, 2)) + 2.0 * rng.integers(0, 3, (400, 1)), ef.load_family("gaussian_diag"))
    model = ef.MixtureModel(data.family, ef.SymmetricDirichlet(6, alpha=1.0))
    labels = np.random.default_rng(1).integers(0, 6, 400)

    def reached(**options):
        return Ascents(model, data).climb(labels, keep_clusters=False, **options).labels

    one, two, whole = reached(max_passes=1), reached(max_passes=2), reached(max_passes=100)
    gains = np.diff([model.log_joint(data, each) for each in (labels, one, two, whole)])
    assert gains[0] > gains[1] > 0.0
    assert gains[2] > 0.0  # there is a third pass
    np.testing.assert_array_equal(reached(max_passes=100, least_rise=np.inf), one)
    np.testing.assert_array_equal(reached(max_passes=100, least_rise=gains[1] + 1.0), two)
    np.testing.assert_array_equal(reached(max_passes=100, least_rise=1e-9), whole)


@pytest.mark.parametrize("cut", [{"max_passes": 1}, {"max_passes": 100, "least_rise": np.inf}], ids=["passes", "rise"])
def test_an_ascent_that_was_cut_off_does_not_stop_a_later_one(cut):
    rng = np.random.default_rng(3)
    data = ef.Dataset(rng.normal(size=(400, 2)) + 2.0 * rng.integers(0, 3, (400, 1)), ef.load_family("gaussian_diag"))
    ascents = Ascents(ef.MixtureModel(data.family, ef.SymmetricDirichlet(6, alpha=1.0)), data)
    labels = np.random.default_rng(1).integers(0, 6, 400)
    whole = Ascents(ascents.model, data).climb(labels, keep_clusters=False, max_passes=100).labels
    one = ascents.climb(labels, keep_clusters=False, **cut).labels
    assert (one != whole).any()
    np.testing.assert_array_equal(ascents.climb(labels, keep_clusters=False, max_passes=100).labels, whole)


# The lone row 9 is more probable in the large cluster of its neighbours; both lone rows of the second case are.
ROWS = {"one": ([[10]] * 8 + [[9]], [0] * 8 + [1]), "two": ([[10]] * 8 + [[9], [11]], [0] * 8 + [1, 2])}


@pytest.mark.parametrize("name", ROWS)
def test_no_cluster_is_emptied_where_all_are_kept(name):
    X, labels = ROWS[name]
    data = ef.Dataset(X, ef.Poisson(shape=1.0, rate=0.1))
    model = ef.MixtureModel(data.family, ef.SymmetricDirichlet(3, alpha=0.01))
    assert set(ascend(model, data, labels).tolist()) == {0}
    np.testing.assert_array_equal(ascend(model, data, labels, keep_clusters=True), labels)


def test_the_row_that_stays_is_the_most_probable_one_of_its_cluster():
    X, labels = [[10]] * 8 + [[9], [7], [8]], [0] * 8 + [1, 1, 1]
    data = ef.Dataset(X, ef.Poisson(shape=1.0, rate=0.1))
    model = ef.MixtureModel(data.family, ef.SymmetricDirichlet(2, alpha=0.01))
    n, S = data.statistics(labels, 2)
    stays = 8 + int(data.family.log_predictive(data.X, n, S)[8:, 1].argmax())
    found = ascend(model, data, labels, keep_clusters=True, max_passes=1)
    assert np.flatnonzero(found).tolist() == [stays]


@pytest.mark.parametrize("seed", range(20))
def test_kept_clusters_keep_a_row_from_any_start(seed):
    rng = np.random.default_rng(seed)
    data = ef.Dataset(rng.poisson(5.0, (30, 2)), ef.Poisson())
    labels = rng.permutation(np.arange(30) % 9)
    model = ef.MixtureModel(data.family, ef.SymmetricDirichlet(9))
    found = ascend(model, data, labels, keep_clusters=True)
    assert set(found.tolist()) == set(range(9))
    assert model.log_joint(data, found) >= model.log_joint(data, labels)


def test_labels_are_not_changed_in_place_and_types_are_checked():
    model, data, labels = made("gaussian", ef.DirichletProcess())
    before = labels.copy()
    found = ascend(model, data, labels)
    np.testing.assert_array_equal(labels, before)
    assert found.dtype == np.int32
    for wrong in (labels[1:], labels - 1, labels.astype(float)):
        with pytest.raises(ValueError, match="400 non-negative integers"):
            ascend(model, data, wrong)


@pytest.mark.parametrize("passes", ["all rows", "near borders"])
def test_dense_and_sparse_counts_give_the_same_labels(passes, request):
    if passes == "near borders":
        request.getfixturevalue("border_passes")
    model, data, labels = made("csr", ef.DirichletProcess())
    dense = ef.Dataset(sparse.csr_array(data.X).toarray(), data.family)
    np.testing.assert_array_equal(ascend(model, data, labels), ascend(model, dense, labels))


@pytest.mark.parametrize("n_copies", [1, 60])  # of few rows, which are compiled passes, and of many
def test_an_ascent_to_less_than_is_wanted_ends_early_and_says_so(n_copies):
    family, X, _ = planted("gaussian_diag")
    data = ef.Dataset(np.tile(X, (n_copies, 1)), family)
    model = ef.MixtureModel(data.family, ef.SymmetricDirichlet(8, alpha=1.0))
    ascents, begun = Ascents(model, data), np.random.default_rng(1).integers(0, 8, data.n_rows)
    options = {"keep_clusters": True, "max_passes": 100}
    whole = ascents.climb(begun, **options)
    reached = ascents.log_joint(whole.labels)
    wanted = ascents.climb(begun, least=reached, **options)  # what it will reach is not out of reach
    np.testing.assert_array_equal(wanted.labels, whole.labels)
    assert not whole.is_hopeless
    assert not wanted.is_hopeless
    left = ascents.climb(begun, least=reached + 10.0 * data.n_rows, **options)
    assert left.is_hopeless
    assert model.log_joint(data, begun) < ascents.log_joint(left.labels) < reached
