"""No simple partition, merge or split is better than the end of a default fit."""

from itertools import pairwise

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.metrics import adjusted_rand_score

import expfam.fitting.endings
from expfam import (
    Dataset,
    DiagonalGaussian,
    DirichletProcess,
    Mixture,
    MixtureModel,
    SphericalGaussian,
    SymmetricDirichlet,
)
from expfam.fitting.endings import given_ending, open_ending
from expfam.samplers.starts.ascent import ascend
from expfam.samplers.starts.equal_rows import EqualRows
from expfam.samplers.starts.halves import best_halves
from expfam.samplers.starts.refill import refilled
from expfam.samplers.warm_starts.settle import Settler

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 2)) + np.repeat([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0]], 40, axis=0)


def test_no_merge_split_or_simple_partition_is_better():
    fit = Mixture(random_state=0).fit(X)
    labels = fit.labels_
    data = Dataset(X, fit.family_)
    model = fit.model_
    own, K = model.log_joint(data, labels), labels.max() + 1
    for k in range(K):
        for other in range(k):
            assert model.log_joint(data, np.where(labels == k, other, labels)) <= own
        rows = np.flatnonzero(labels == k)
        (cut,) = best_halves(model, data, [rows], seed=5)
        if cut is not None:
            split = labels.copy()
            split[rows[cut.labels == 1]] = K
            assert model.log_joint(data, split) <= own
    for simple in (np.zeros(120, np.int32), np.repeat(np.arange(3, dtype=np.int32), 40)):
        assert model.log_joint(data, ascend(model, data, simple)) <= own + 0.5


def test_a_given_number_is_not_below_the_groups_of_one_far_column():
    """Standardised columns hide the one that tells the rows apart."""
    rng, y = np.random.default_rng(1), np.arange(300, dtype=np.int32) % 2
    far = np.column_stack([y * 20 + rng.normal(size=300), rng.normal(size=(300, 20))])
    fit = Mixture(n_components=2, random_state=0).fit(far)
    model, data = fit.model_, Dataset(far, fit.family_)
    assert model.log_joint(data, ascend(model, data, y)) <= model.log_joint(data, fit.labels_) + 0.5


def test_k_means_of_a_sample_is_compared_where_rows_are_many(monkeypatch):
    """Two columns of noise agree; the third tells the groups, and the run has divided the first instead."""
    rng, truth = np.random.default_rng(2), np.arange(400) % 2
    rows = np.column_stack([rng.normal(size=(400, 2)), 30.0 * truth + rng.normal(size=400)])
    data = Dataset(rows, DiagonalGaussian())
    model = MixtureModel(data.family, DirichletProcess())
    settler = Settler(model, data, data.family.learned_by_default, n_threads=2)
    far = MixtureModel(settler.fitted(truth).model.family, DirichletProcess())
    best = far.log_joint(data, truth)
    monkeypatch.setattr(expfam.fitting.endings.Settler, "settled", lambda self, present, **_: (present, True))
    monkeypatch.setattr(expfam.fitting.endings.Settler, "ascended", lambda self, present, **_: present)
    bad = (rows[:, 0] > 0).astype(np.int32)
    for drawn in (None, np.arange(0, 400, 3)):
        monkeypatch.setattr(expfam.fitting.endings, "search_rows", lambda *_, drawn=drawn: drawn)
        end = open_ending(settler, {"chain": bad})
        assert end.model.log_joint(data, end.labels) > best - 1.0
        kept = open_ending(settler, {"chain": truth})
        np.testing.assert_array_equal(kept.labels, truth)


@pytest.mark.parametrize("sampler", ["auto", "gibbs", "fastex", "split_merge"])
def test_a_shared_variance_does_not_give_each_row_its_own_cluster(sampler):
    """Unit vectors, whose variance within clusters is eight times that from which learning begins."""
    rng, truth = np.random.default_rng(1), np.arange(300) % 10
    rows = rng.normal(size=(10, 100))[truth] + 2.0 * rng.normal(size=(300, 100))
    rows /= np.linalg.norm(rows, axis=1)[:, None]
    fit = Mixture(SphericalGaussian(variance="shared"), sampler=sampler, n_steps=30, random_state=0).fit(rows)
    assert fit.n_components_ <= 15
    assert fit.family_.shared_variance == pytest.approx(0.008, rel=0.1)


OPTIONS = {"max_passes": 50, "seed": 0, "n_threads": 1}
TRUTH = np.repeat(np.arange(3, dtype=np.int32), 40)


def three_groups():
    """The three groups, and a partition that no move of single rows takes there: two of them together, one cut."""
    data = Dataset(X, DiagonalGaussian())
    stuck = np.where(TRUTH == 1, 0, TRUTH)
    stuck[np.flatnonzero((TRUTH == 2) & (X[:, 0] > 0.0))] = 1
    model = MixtureModel(data.family, SymmetricDirichlet(3, 1.0))
    return model, data, stuck.astype(np.int32)


def test_a_given_number_is_compared_with_k_means_and_with_others(monkeypatch):
    monkeypatch.setattr(expfam.fitting.endings.Exchanges, "best", lambda *_, **__: [])
    model, data, stuck = three_groups()
    np.testing.assert_array_equal(given_ending(model, data, stuck, 3, **OPTIONS).labels, TRUTH)
    monkeypatch.setattr(expfam.fitting.endings.Divisions, "kmeans", lambda *_, **__: stuck)
    assert not np.array_equal(given_ending(model, data, stuck, 3, **OPTIONS).labels, TRUTH)
    np.testing.assert_array_equal(given_ending(model, data, stuck, 3, [TRUTH], **OPTIONS).labels, TRUTH)


def test_a_given_number_of_many_rows_is_compared_with_k_means_of_some(monkeypatch):
    monkeypatch.setattr(expfam.fitting.endings, "search_rows", lambda *_: np.arange(0, 120, 2))
    model, data, stuck = three_groups()
    np.testing.assert_array_equal(given_ending(model, data, stuck, 3, **OPTIONS).labels, TRUTH)


def watched_runs(monkeypatch):
    """The divisions by k-means that are made from now on, by metric and run."""
    made, kmeans = {}, expfam.fitting.endings.Divisions.kmeans

    def watched(self, metric, n_clusters, run=0):
        made[metric, run] = kmeans(self, metric, n_clusters, run)
        return made[metric, run]

    monkeypatch.setattr(expfam.fitting.endings.Divisions, "kmeans", watched)
    return made


def blob(n_rows):
    """One blob, which three clusters can share in many ways."""
    data = Dataset(np.random.default_rng(3).normal(size=(n_rows, 4)), DiagonalGaussian())
    return MixtureModel(data.family, SymmetricDirichlet(3, 1.0)), data, np.arange(n_rows, dtype=np.int32) % 3


def test_few_clusters_of_many_rows_are_compared_with_more_runs_where_these_differ(monkeypatch):
    monkeypatch.setattr(expfam.fitting.endings, "FEW_ROWS", 100)
    made = watched_runs(monkeypatch)
    model, data, _ = three_groups()
    given_ending(model, data, TRUTH, 3, **OPTIONS)
    assert {run for _, run in made} == {0}
    made.clear()
    model, data, labels = blob(600)
    end = given_ending(model, data, labels, 3, **OPTIONS).labels
    assert {run for _, run in made} == set(range(12))
    modes = [refilled(model, data, each, 3, **OPTIONS) for each in (labels, *made.values())]
    joints = [model.log_joint(data, mode) for mode in modes]
    assert model.log_joint(data, end) > max(joints) - 1.0 > np.median(joints)


def test_modes_of_a_sample_are_compared_on_all_rows(monkeypatch):
    """The best one of the sample is not the best one of all rows."""
    monkeypatch.setattr(expfam.fitting.endings, "FEW_ROWS", 100)
    monkeypatch.setattr(expfam.fitting.endings, "search_rows", lambda *_: np.arange(0, 1200, 4))
    model, data, labels = blob(1200)
    joints = {}
    for most in (1, 3):
        monkeypatch.setattr(expfam.fitting.endings, "_MOST_MODES", most)
        joints[most] = [
            model.log_joint(data, given_ending(model, data, labels, 3, **(OPTIONS | {"seed": seed})).labels)
            for seed in range(6)
        ]
    gains = np.subtract(joints[3], joints[1])
    assert gains.min() > -1.0, gains
    assert gains.max() > 2.0, gains


def test_a_given_number_ends_after_exchanges(monkeypatch):
    model, data, stuck = three_groups()
    monkeypatch.setattr(expfam.fitting.endings.Divisions, "kmeans", lambda *_, **__: stuck)
    monkeypatch.setattr("expfam.samplers.starts.exchanges._FEWEST_SWAPPED", 3)
    np.testing.assert_array_equal(given_ending(model, data, stuck, 3, **OPTIONS).labels, TRUTH)


def test_an_ending_is_compared_with_simple_partitions_once(monkeypatch):
    data = Dataset(X, DiagonalGaussian())
    settler = Settler(MixtureModel(data.family, DirichletProcess()), data, data.family.learned_by_default)
    first = open_ending(settler, {"chain": TRUTH})
    monkeypatch.setattr(expfam.fitting.endings, "Divisions", None)  # k-means runs would end in an error
    again = open_ending(settler, {"chain": first.labels}, before=first)
    np.testing.assert_array_equal(again.labels, first.labels)
    with pytest.raises(TypeError):
        open_ending(settler, {"chain": first.labels}, before=first._replace(compared=2))


def test_a_run_does_not_go_on_from_the_end_that_it_went_on_from(monkeypatch):
    """It would make the same steps again."""
    ends = []

    def watched(*args, **options):
        ends.append(open_ending(*args, **options))
        return ends[-1]

    monkeypatch.setattr("expfam.fitting.run.open_ending", watched)
    Mixture("gaussian_diag", random_state=0).fit(load_iris().data)
    is_same = [np.array_equal(one.labels, other.labels) for one, other in pairwise(ends)]
    assert is_same == [False] * (len(ends) - 2) + [True]
    assert ends[-1].gain > 0.5  # over the draws of the steps between the two


@pytest.mark.parametrize("splits", [True, False])
def test_no_sweep_alone_follows_the_end_of_a_run_over_many_rows(monkeypatch, splits):
    """Clusters of many rows may be so small that they are not split: a draw of a sweep lies below their mode."""
    ends, begin = [], expfam.fitting.run.kept_begin

    def watched(*args, **options):
        ends.append(open_ending(*args, **options))
        return ends[-1]

    monkeypatch.setattr("expfam.fitting.run.open_ending", watched)
    monkeypatch.setattr("expfam.fitting.run.has_many_rows", lambda *_: True)
    monkeypatch.setattr("expfam.fitting.run.least_gain", lambda _: 0.0)  # any gain leads to more steps
    monkeypatch.setattr(
        "expfam.fitting.run.kept_begin", lambda *args, **options: begin(*args, **options)._replace(splits=splits)
    )
    found = Mixture("gaussian_diag", random_state=0).fit(load_iris().data)
    assert ends[0].gain > 0.0
    assert (len(ends) > 1) == splits
    assert found.converged_


def test_probabilities_are_those_of_the_last_pass_where_it_tells_them(monkeypatch):
    climb = EqualRows.climb

    def moved(rows, labels, **options):
        """Move some rows first, so that the first pass has to move them back."""
        labels = labels.copy()
        labels[:3] = labels.max() - labels[:3]
        return climb(rows, labels, **options)

    expected = Mixture("gaussian_diag", random_state=0).fit(X)
    for name, value in {"_MANY_ROWS": 0, "_MANY_CLUSTERS": 2, "_BEST": 2, "_LAST_MOVED": 1.0}.items():
        monkeypatch.setattr(f"expfam.samplers.starts.ascent.{name}", value)
    monkeypatch.setattr(EqualRows, "climb", moved)
    monkeypatch.setattr("expfam.estimators.mixture_results.certainty_of_labels", None)  # a call would end in an error
    found = Mixture("gaussian_diag", random_state=0).fit(X)
    np.testing.assert_array_equal(found.labels_, expected.labels_)
    np.testing.assert_allclose(found.probabilities_, expected.probabilities_, rtol=1e-6)


def test_two_near_groups_are_not_joined_to_make_room_for_a_strange_row():
    """The log joint of that partition is 48 nats higher: one cluster of 1,312 rows and one of a single row."""
    rng = np.random.default_rng(5010)
    groups, centres = rng.integers(0, 6, 4000), 4.0 * rng.normal(size=(6, 4))
    X = centres[groups] + rng.normal(size=(4000, 4))
    mixture = Mixture("gaussian", 6, random_state=0).fit(X)
    assert mixture.cluster_sizes_.min() > 500
    assert adjusted_rand_score(groups, mixture.labels_) > 0.92
