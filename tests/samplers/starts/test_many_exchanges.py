"""Exchanges of many clusters at once mend what k-means with many centres leaves, and never lower the log joint."""

import numpy as np
import pytest
from sklearn.metrics import normalized_mutual_info_score

import expfam as ef
from expfam.fitting.endings import given_ending
from expfam.model.partitions import by_first_appearance
from expfam.samplers import UncollapsedGibbs
from expfam.samplers.named import automatic_sampler
from expfam.samplers.starts.many_exchanges import ManyExchanges, _matched, _Partition, has_many_clusters
from expfam.samplers.starts.refill import refilled
from expfam.samplers.warm_starts.search import search_start

RNG = np.random.default_rng(0)
K, EACH, COLUMNS = 70, 12, 12
TRUE = np.repeat(np.arange(K, dtype=np.int32), EACH)
CENTRES = RNG.normal(size=(K, COLUMNS))
CENTRES *= 12.0 / np.linalg.norm(CENTRES, axis=1, keepdims=True)
X = CENTRES[TRUE] + 0.5 * RNG.normal(size=(K * EACH, COLUMNS))


def made(family, rows=X):
    data = ef.Dataset(rows, family)
    return ef.MixtureModel(data.family, ef.SymmetricDirichlet(K, 1.0)), data


def with_errors(n_errors):
    """True labels in which pairs of groups are one cluster, and as many other groups are cut in two."""
    labels = TRUE.copy()
    for e in range(n_errors):
        labels[2 * e + 1 == TRUE] = 2 * e
        halved = np.flatnonzero(K - 1 - e == TRUE)
        labels[halved[: EACH // 2]] = 2 * e + 1
    return labels


@pytest.mark.parametrize("family", [ef.SphericalGaussian(), ef.DiagonalGaussian(), ef.load_family("von_mises_fisher")])
def test_all_errors_are_mended_together(family):
    rows = X / np.linalg.norm(X, axis=1, keepdims=True) if family.name == "von_mises_fisher" else X
    model, data = made(family, rows)
    found = ManyExchanges(model, data, seed=0).risen(with_errors(6))
    assert np.array_equal(by_first_appearance(found)[1], by_first_appearance(TRUE)[1])


def test_a_round_that_ends_lower_is_not_taken(monkeypatch):
    """Cuts and merges pay one by one, but the moves of rows after them may lose more."""
    model, data = made(ef.SphericalGaussian())
    labels, tried = with_errors(6), []

    def lower(self, chosen, *, n_threads):
        tried.append(len(chosen))
        return _Partition(model, data, np.roll(self.labels, 1), before=self)

    monkeypatch.setattr(_Partition, "exchanged", lower)
    assert ManyExchanges(model, data, seed=0).risen(labels) is labels
    assert len(tried) == 1
    assert tried[0] > 0


def test_the_true_labels_stay_the_same_array():
    model, data = made(ef.SphericalGaussian())
    assert ManyExchanges(model, data, seed=0).risen(TRUE) is TRUE


@pytest.mark.parametrize("seed", range(4))
def test_the_log_joint_never_falls_and_no_cluster_is_lost(seed):
    model, data = made(ef.SphericalGaussian())
    labels = np.random.default_rng(seed).integers(K, size=len(X)).astype(np.int32)
    labels[:K] = np.arange(K)
    found = ManyExchanges(model, data, seed=seed).risen(labels)
    assert len(np.unique(found)) == K
    assert model.log_joint(data, found) > model.log_joint(data, labels)


def test_missing_clusters_are_opened_where_they_gain_most():
    model, data = made(ef.SphericalGaussian())
    labels = TRUE.copy()
    labels[TRUE >= K - 3] -= 3  # three clusters hold two groups each
    found = ManyExchanges(model, data, seed=0).risen(labels, K)
    assert np.array_equal(by_first_appearance(found)[1], by_first_appearance(TRUE)[1])
    assert len(np.unique(ManyExchanges(model, data, seed=0).risen(labels))) == K - 3


def test_the_number_of_threads_changes_nothing():
    model, data = made(ef.SphericalGaussian())
    one, two = (ManyExchanges(model, data, seed=3, n_threads=n).risen(with_errors(5)) for n in (1, 2))
    assert np.array_equal(one, two)


def test_rises_of_cuts_and_merges_add_up_to_that_of_the_log_joint():
    model, data = made(ef.SphericalGaussian())
    exchanges, labels = ManyExchanges(model, data, seed=0), with_errors(4)
    state = _Partition(model, data, labels)
    chosen = _matched(exchanges._cuts_of_loose(state), state.merges())
    assert len(chosen) >= 4
    moved = labels.copy()
    for cut, merge in chosen:
        moved[labels == merge.other] = merge.kept
        moved[cut.rows] = merge.other
    rise = sum(cut.rise + merge.rise for cut, merge in chosen)
    assert rise == pytest.approx(model.log_joint(data, moved) - model.log_joint(data, labels), rel=1e-9)
    touched = [k for cut, merge in chosen for k in (cut.cluster, merge.kept, merge.other)]
    assert len(touched) == len(set(touched))


def test_what_a_round_keeps_of_the_last_one_is_what_it_would_compute():
    model, data = made(ef.SphericalGaussian())
    exchanges = ManyExchanges(model, data, seed=0)
    state = _Partition(model, data, with_errors(6))
    later = state.exchanged(_matched(exchanges._cuts_of_loose(state), state.merges()), n_threads=1)
    assert 0 < len(later.pairs) < len(state.pairs)
    anew = _Partition(model, data, later.labels)
    assert np.array_equal(later.own, anew.own)
    for kept, computed in zip(later.merges(), anew.merges()):
        np.testing.assert_array_equal(kept, computed)
    np.testing.assert_array_equal(later.S, anew.S)
    assert all(map(np.array_equal, later.rows, anew.rows))


def test_where_clusters_are_many():
    wide = np.random.default_rng(0).poisson(900.0, size=(5, 1000)).astype(float)
    data = ef.Dataset(wide, ef.SphericalGaussian())

    def answer(weights, of=data):
        return has_many_clusters(ef.MixtureModel(of.family, weights), of)

    assert answer(ef.SymmetricDirichlet(100))
    narrow = ef.Dataset(wide[:, :400], ef.SphericalGaussian())
    assert answer(ef.SymmetricDirichlet(75), narrow)
    assert not answer(ef.SymmetricDirichlet(74), narrow)  # collapsed steps take little longer
    assert not answer(ef.SymmetricDirichlet(60))  # exchanges look at every pair
    assert not answer(ef.DirichletProcess())
    assert not answer(ef.SymmetricDirichlet(100), ef.Dataset(wide[:, :100], ef.SphericalGaussian()))
    assert not answer(ef.SymmetricDirichlet(100), ef.Dataset(wide, ef.Multinomial()))
    assert not answer(ef.SymmetricDirichlet(100), ef.Dataset(wide[:, :100], ef.Gaussian()))
    assert not answer(ef.SymmetricDirichlet(100), ef.Dataset(wide, ef.SphericalGaussian(), weight=np.full(5, 2.0)))


def directions(n_clusters, each, columns, seed=0):
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(n_clusters), each)
    rows = rng.normal(size=(n_clusters, columns))[labels] + rng.normal(size=(len(labels), columns))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32), labels


def test_a_default_fit_of_many_clusters_draws_labels_together_and_finds_them_all():
    rows, labels = directions(300, 8, 256)
    mixture = ef.Mixture("gaussian_spherical", 300, random_state=0, n_threads=1).fit(rows)
    assert mixture.n_components_ == 300
    assert np.array_equal(by_first_appearance(mixture.labels_)[1], labels)
    other = ef.Mixture("gaussian_spherical", 300, random_state=0, n_threads=2).fit(rows)
    assert np.array_equal(other.labels_, mixture.labels_)
    assert other.log_joint_ == mixture.log_joint_


def test_the_end_of_a_fit_opens_lost_clusters_where_groups_share_one():
    rows, labels = directions(300, 8, 256)
    data = ef.Dataset(rows, ef.SphericalGaussian())
    model = ef.MixtureModel(data.family, ef.SymmetricDirichlet(300, 1.0))
    lost = np.where(labels >= 297, labels - 3, labels).astype(np.int32)
    found = given_ending(model, data, lost, 300, max_passes=10, seed=0, n_threads=1).labels
    assert np.array_equal(found, labels)


def test_an_end_by_many_exchanges_is_not_below_on_spread_rows(monkeypatch):
    """Rows whose spread values belong together as the labels begin keep them."""
    monkeypatch.setattr("expfam.fitting.endings.has_many_clusters", lambda model, data: True)
    model, data = made(ef.DiagonalGaussian())
    wrong = with_errors(5)
    options = {"max_passes": 10, "seed": 0, "n_threads": 1}
    assert np.array_equal(by_first_appearance(given_ending(model, data, wrong, K, **options).labels)[1], TRUE)
    spread = ef.Dataset(CENTRES[wrong] + 0.5 * RNG.normal(size=X.shape), data.family)
    found = given_ending(model, data, wrong, K, spread=spread, **options).labels
    assert np.array_equal(found, refilled(model, data, wrong, K, **options))
    assert not np.array_equal(found, TRUE)


def test_the_automatic_sampler_of_many_clusters_is_exact_and_draws_all_labels():
    data = ef.Dataset(directions(300, 4, 256)[0], ef.SphericalGaussian())
    kernel = automatic_sampler(ef.MixtureModel(data.family, ef.SymmetricDirichlet(300)), data)
    assert type(kernel) is UncollapsedGibbs
    assert kernel.is_sampler


def test_a_third_of_the_starts_is_tried():
    rows, _ = directions(300, 4, 256)
    data = ef.Dataset(rows, ef.SphericalGaussian())
    model = ef.MixtureModel(data.family, ef.SymmetricDirichlet(300, 1.0))
    for n_init, n_runs in ((3, 1), (4, 2)):
        names = search_start(model, data, n_init=n_init, seed=0).scores
        assert [name for name in names if name != "one width"] == [f"lloyd {run + 1}" for run in range(n_runs)]


def overlapping(spread, n_rows=2000, n_clusters=100, n_columns=300):
    rng, labels = np.random.default_rng(0), np.arange(n_rows) % n_clusters
    return rng.normal(size=(n_clusters, n_columns))[labels] + spread * rng.normal(size=(n_rows, n_columns)), labels


def start_of(family, rows, n_threads=1):
    data = ef.Dataset(rows, family)
    model = ef.MixtureModel(data.family, ef.SymmetricDirichlet(100, 1.0))
    return search_start(model, data, learned=data.family.learned_by_default, seed=0, n_threads=n_threads)


@pytest.mark.parametrize("family", [ef.SphericalGaussian(), ef.load_family("von_mises_fisher", normalize=True)])
def test_overlapping_clusters_start_under_one_width(family, monkeypatch):
    """With widths of their own, one cluster takes in its neighbours, which no exchange mends."""
    rows, labels = overlapping(2.2)
    found = start_of(family, rows)
    assert found.name == "one width"
    assert np.bincount(found.labels).max() < 40
    assert normalized_mutual_info_score(labels, found.labels) > 0.97
    assert np.array_equal(start_of(family, rows, n_threads=2).labels, found.labels)
    monkeypatch.setattr(type(family), "of_one_width", lambda self: None)
    own = start_of(family, rows)
    assert own.name == "lloyd 1"
    assert found.scores["one width"] > found.scores["lloyd 1"] >= own.scores["lloyd 1"]


def test_clusters_that_lie_apart_are_not_looked_for_under_one_width(monkeypatch):
    monkeypatch.setattr(ef.SphericalGaussian, "of_one_width", lambda self: pytest.fail("it was asked for"))
    rows, labels = overlapping(0.5)
    assert normalized_mutual_info_score(labels, start_of(ef.SphericalGaussian(), rows).labels) > 0.99


@pytest.mark.parametrize("spread", [2.4, 3.5])
def test_the_start_under_one_width_is_taken_only_where_it_is_better(spread):
    found = start_of(ef.SphericalGaussian(), overlapping(spread)[0])
    assert found.scores[found.name] == max(found.scores.values())


def test_families_of_one_width():
    assert ef.SphericalGaussian().of_one_width().variance == "shared"
    rows = overlapping(1.0)[0]
    own = ef.load_family("von_mises_fisher", normalize=True).bind(rows).of_one_width()
    assert (own.kappa, own.normalize, own.is_bound) == ("shared", True, False)
    others = [ef.DiagonalGaussian(), ef.SphericalGaussian(variance=1.0), ef.SphericalGaussian(variance="shared")]
    others += [ef.load_family("von_mises_fisher", kappa=kappa) for kappa in ("shared", "auto", 9.0)]
    assert [family.of_one_width() for family in others] == [None] * 6
