"""Partitions moved uphill under the prior that fits them: never worse, and settled where nothing is left to do."""

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from expfam import Dataset, DiagonalGaussian, DirichletProcess, Gaussian, MixtureModel, Poisson, SphericalGaussian
from expfam.model.assignment import LoadedClusters
from expfam.samplers.starts.ascent import Ascents
from expfam.samplers.starts.halves import best_halves
from expfam.samplers.warm_starts.settle import Settler, fit_to_start, least_gain

CLASSES = np.arange(240) % 3
X = np.array([[0.0, 0.0], [7.0, 0.0], [0.0, 7.0]])[CLASSES] + np.random.default_rng(0).normal(size=(240, 2))


def settler_of(family, rows, **options):
    data = Dataset(rows, family, weight=options.pop("weight", None))
    names = data.family.learned_by_default
    return Settler(MixtureModel(data.family, DirichletProcess()), data, names, family.name == "gaussian", **options)


@pytest.mark.parametrize("family", [DiagonalGaussian(), Gaussian(), SphericalGaussian()])
@pytest.mark.parametrize("begin", ["one", "random", "many"])
def test_three_groups_are_found_from_anywhere(family, begin):
    rng = np.random.default_rng(1)
    labels = {"one": np.zeros(240, int), "random": rng.integers(0, 12, 240), "many": np.arange(240) % 60}[begin]
    settler = settler_of(family, X)
    fitted = settler.fitted(labels)
    settled, is_settled = settler.settled(fitted)
    assert is_settled
    assert settled.log_joint >= fitted.log_joint
    if begin != "many":  # pieces of all groups say nothing
        assert adjusted_rand_score(CLASSES, settled.labels) > 0.97
    assert settler.settled(settled) == (settled, True)
    for step in (settler.merged, settler.ascended, settler.split):
        assert step(settled) is settled


def test_no_split_of_a_settled_cluster_and_no_merge_raises_the_log_joint():
    settler = settler_of(DiagonalGaussian(), X)
    settled = settler.settled(settler.fitted(np.zeros(240, int)))[0]
    reached = settled.model.log_joint(settler.data, settled.labels)
    K = settled.labels.max() + 1
    for k in range(K):
        rows = np.flatnonzero(settled.labels == k)
        halves = best_halves(settled.model, settler.data, [rows], seed=0)[0].labels
        cut = settled.labels.copy()
        cut[rows[halves == 1]] = K
        assert settled.model.log_joint(settler.data, cut) < reached
        for other in range(k):
            merged = np.where(settled.labels == k, other, settled.labels)
            assert settled.model.log_joint(settler.data, merged) < reached


def test_the_true_labels_of_directions_stay():
    """Under hyper-parameters that do not fit them yet they would be merged into one cluster."""
    rng, y = np.random.default_rng(0), np.arange(300) % 10
    centres = rng.normal(size=(10, 80))
    rows = centres[y] / np.linalg.norm(centres[y], axis=1)[:, None] + 1.2 * rng.normal(size=(300, 80)) / np.sqrt(80)
    rows /= np.linalg.norm(rows, axis=1)[:, None]
    settler = settler_of(SphericalGaussian(), rows)
    assert adjusted_rand_score(y, settler.settled(settler.fitted(y))[0].labels) == 1.0


@pytest.mark.parametrize("seed", [0, 1, 4, 5])  # others leave crumbs of two rows, in either form
def test_weights_are_repeated_rows(seed):
    weight = np.random.default_rng(seed).integers(1, 4, 240)
    weighted = settler_of(DiagonalGaussian(), X, weight=weight.astype(float))
    repeated = settler_of(DiagonalGaussian(), np.repeat(X, weight, axis=0))
    one = weighted.settled(weighted.fitted(np.zeros(240, int)))[0]
    other = repeated.settled(repeated.fitted(np.zeros(weight.sum(), int)))[0]
    assert one.log_joint == pytest.approx(other.log_joint, abs=1e-6)
    assert adjusted_rand_score(np.repeat(one.labels, weight), other.labels) == 1.0


def test_threads_change_nothing():
    fits = [settler_of(Gaussian(), X, n_threads=n) for n in (1, 3)]
    one, three = (settler.settled(settler.fitted(np.zeros(240, int)))[0] for settler in fits)
    np.testing.assert_array_equal(one.labels, three.labels)
    assert one.log_joint == three.log_joint


def test_counts_without_learned_hyper_parameters():
    rng = np.random.default_rng(0)
    rows = np.column_stack([rng.poisson(np.where(CLASSES == 0, 200, 8)), rng.poisson(3, (240, 10))])
    settler = settler_of(Poisson(), rows)
    settled = settler.settled(settler.fitted(np.zeros(240, int)))[0]
    assert adjusted_rand_score(CLASSES == 0, settled.labels) == 1.0
    assert settled.model.family == settler.data.family


def test_a_state_gets_the_prior_that_fits_its_labels():
    from expfam.samplers import CollapsedGibbs

    data = Dataset(X, DiagonalGaussian())
    state = CollapsedGibbs().init(MixtureModel(data.family, DirichletProcess()), data, seed=0, start=CLASSES)
    before = state.log_joint
    fit_to_start(state, ("mean_strength", "rate"), adapts_prior=False)
    assert state.log_joint > before
    settler = settler_of(DiagonalGaussian(), X)
    assert state.model.family == settler.fitted(CLASSES).model.family


def test_clusters_that_divide_their_rows_the_wrong_way_are_exchanged(monkeypatch):
    """Four groups in a square, and two clusters with a diagonal each; merges and cuts are left out."""
    rng, truth = np.random.default_rng(0), np.arange(80) % 4
    X = rng.normal(size=(80, 2)) + np.array([[0.0, 0.0], [9.0, 0.0], [0.0, 20.0], [9.0, 20.0]])[truth]
    data = Dataset(X, DiagonalGaussian())
    settler = Settler(MixtureModel(data.family, DirichletProcess()), data, data.family.learned_by_default)
    begun = settler.fitted(((truth == 1) | (truth == 2)).astype(np.int32))
    for name in ("merged", "split", "ascended"):
        monkeypatch.setattr(Settler, name, lambda self, present, *_: present)
    stays, is_settled = settler.settled(begun)
    assert stays is begun
    assert is_settled
    found, is_settled = settler.settled(begun, exchanges=True)
    assert is_settled
    assert found.log_joint > begun.log_joint + 20.0
    np.testing.assert_array_equal(found.labels == found.labels[0], truth // 2 == truth[0] // 2)
    assert settler.exchanged(found) is found


def test_an_ascent_that_has_led_nowhere_is_not_made_again(monkeypatch):
    """Nor is a merge: both are functions of the labels, of which the hyper-parameters are learned."""
    settler = settler_of(DiagonalGaussian(), X)
    settled = settler.settled(settler.fitted(CLASSES))[0]
    again = settler.fitted(settled.labels)
    monkeypatch.setattr("expfam.samplers.warm_starts.settle.Ascents", None)  # another one would end in an error
    monkeypatch.setattr("expfam.samplers.warm_starts.settle.merged_labels", None)
    assert settler.ascended(again) is again
    assert settler.merged(again) is again
    with pytest.raises(TypeError):
        settler.merged(settler.fitted(np.arange(240) % 5))


def test_clusters_that_hold_a_row_of_groups_are_cut_into_all_of_them():
    """No cut of one of them in two raises the log joint."""
    rng, place = np.random.default_rng(0), np.arange(3000) % 16
    rows = rng.normal(size=(3000, 10))
    rows[:, :2] += 5.0 * np.column_stack([place // 4, place % 4])
    settler = settler_of(DiagonalGaussian(), rows)
    rows_of_four = settler.fitted(place // 4)
    assert settler.split(rows_of_four) is rows_of_four
    settled, is_settled = settler.settled(rows_of_four)
    assert is_settled
    assert adjusted_rand_score(place, settled.labels) > 0.9
    assert settled.log_joint > settler.ascended(settler.fitted(place)).log_joint - least_gain(3000)


@pytest.mark.parametrize(("moved", "n_ascents"), [(slice(0, 200), 1), (slice(0, 30_000, 15), 2)])
def test_over_many_clusters_an_ascent_that_gains_little_is_the_last_one(monkeypatch, moved, n_ascents):
    """The rows that are moved begin in their second best cluster; the first of them are those nearest to a border."""
    truth, rng = np.arange(30_000) % 60, np.random.default_rng(0)
    rows = 6.0 * rng.normal(size=(60, 3))[truth] + rng.normal(size=(30_000, 3))
    first, settler = settler_of(DiagonalGaussian(), rows), settler_of(DiagonalGaussian(), rows)
    settled, _ = first.settled(first.fitted(truth), splits=False)
    n, S = settler.data.statistics(settled.labels, int(settled.labels.max()) + 1)
    best, margins = LoadedClusters(settled.model.family, n, S).ranked(settler.data, np.log(n), 2)
    order, labels = np.argsort(margins)[moved], settled.labels.copy()
    labels[order] = best[order, 1]
    begun, calls, climb = settler.fitted(labels), [], Ascents.climb
    monkeypatch.setattr(Ascents, "climb", lambda *args, **options: calls.append(1) or climb(*args, **options))
    again, is_settled = settler.settled(begun, splits=False)
    assert is_settled
    assert again.log_joint > begun.log_joint + least_gain(30_000)
    assert len(calls) == n_ascents
    assert settler.ascended(again).log_joint < again.log_joint + least_gain(30_000)
