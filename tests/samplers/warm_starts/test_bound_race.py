"""The start of variational passes with an open number of clusters."""

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from expfam import Dataset, DiagonalGaussian, DirichletProcess, GroupedMixture, Mixture, MixtureModel
from expfam.errors import DataWarning
from expfam.fitting.searched_starts import open_start
from expfam.samplers import SparseVariational
from expfam.samplers.chain.driver import advance
from expfam.samplers.warm_starts.bound_race import best_by_bound
from expfam.samplers.warm_starts.search import FoundStart
from expfam.samplers.warm_starts.settle import Settler

LEARNED = ("mean_strength", "rate")


def overlapping(n_rows=2000, distance=2.6, n_features=2, seed=0):
    """Two groups whose most probable partition is one cluster."""
    rng = np.random.default_rng(seed)
    classes = rng.integers(0, 2, n_rows)
    return rng.normal(size=(n_rows, n_features)) + distance * classes[:, None] * np.eye(1, n_features), classes


def settler_of(X, seed=0, n_threads=1, **options):
    data = Dataset(X, DiagonalGaussian(), **options)
    return Settler(MixtureModel(data.family, DirichletProcess()), data, LEARNED, seed=seed, n_threads=n_threads)


def one_cluster(X):
    return np.zeros(len(X), dtype=np.int32)


def test_overlapping_groups_are_found_although_one_cluster_is_the_mode():
    X, classes = overlapping()
    with pytest.warns(DataWarning, match="clusters that overlap"):
        assert Mixture("gaussian_diag", random_state=0).fit(X).n_clusters_ == 1
    found = Mixture("gaussian_diag", sampler="variational", random_state=0).fit(X)
    assert found.n_clusters_ == 2
    assert adjusted_rand_score(classes, found.labels_) > 0.6
    from_one = Mixture("gaussian_diag", sampler="variational", start=one_cluster(X), random_state=0).fit(X)
    assert found.log_joint_ > from_one.log_joint_ + 10.0


def test_scores_are_the_bounds_that_passes_reach():
    """The slow way: each candidate by itself, and as many passes as it had before it left the race."""
    X, _ = overlapping(n_rows=400)
    settler = settler_of(X)
    race = best_by_bound(SparseVariational(), settler, one_cluster(X))
    assert race.name == max(race.scores, key=race.scores.get)
    fitted = settler.fitted(one_cluster(X))
    kernel = SparseVariational(truncation=1)
    state = kernel.init(fitted.model, settler.data, seed=0, start=fitted.labels)
    advance(kernel, state, 22)
    by_hand = state.log_joint + fitted.model.family.log_hyper_prior(LEARNED)
    assert race.scores["given"] == pytest.approx(by_hand, abs=0.05)


@pytest.mark.parametrize("n_groups", [1, 4])
def test_what_a_search_has_found_stays_where_groups_are_far(n_groups):
    rng = np.random.default_rng(1)
    classes = rng.integers(0, n_groups, 600).astype(np.int32)
    X = rng.normal(size=(600, 2)) + 12.0 * np.c_[classes % 2, classes // 2]
    race = best_by_bound(SparseVariational(), settler_of(X), classes)
    assert race.name == "given"
    np.testing.assert_array_equal(race.labels, np.unique(classes, return_inverse=True)[1])


def test_more_clusters_than_the_kernel_has_are_no_candidates():
    X, _ = overlapping(n_rows=300)
    race = best_by_bound(SparseVariational(truncation=3), settler_of(X), one_cluster(X))
    sizes = {int(name.split()[1]) for name in race.scores if name != "given"}
    assert sizes == {2, 3}


@pytest.mark.parametrize("n_threads", [2, 3])
def test_threads_do_not_change_the_race(n_threads):
    X, _ = overlapping(n_rows=600)
    one = best_by_bound(SparseVariational(n_threads=1), settler_of(X), one_cluster(X))
    other = best_by_bound(SparseVariational(n_threads=n_threads), settler_of(X, n_threads=n_threads), one_cluster(X))
    assert one.scores == other.scores
    np.testing.assert_array_equal(one.labels, other.labels)


def test_many_rows_are_judged_by_a_sample_and_all_get_labels():
    X, classes = overlapping(n_rows=9000)
    race = best_by_bound(SparseVariational(), settler_of(X), one_cluster(X))
    assert race.labels.shape == (9000,)
    assert adjusted_rand_score(classes, race.labels) > 0.6


def test_weights_count():
    X, _ = overlapping(n_rows=2000)
    settler = settler_of(X, weight=np.full(2000, 0.02))  # as little as 40 rows say nothing about two groups
    assert best_by_bound(SparseVariational(), settler, one_cluster(X)).name == "given"
    assert best_by_bound(SparseVariational(), settler_of(X), one_cluster(X)).name != "given"


def test_first_chunks_begin_there_too():
    X, classes = overlapping(n_rows=4000)
    mixture = Mixture("gaussian_diag", sampler="variational", random_state=0)
    for chunk in np.array_split(X, 2):
        mixture.partial_fit(chunk)
    assert mixture.n_clusters_ == 2
    assert adjusted_rand_score(classes, mixture.predict(X)) > 0.6


def test_clusters_of_groups_begin_there_too():
    X, classes = overlapping(n_rows=3000)
    groups = np.arange(3000) // 100
    found = GroupedMixture("gaussian_diag", None, sampler="variational", random_state=0).fit(X, groups=groups)
    assert adjusted_rand_score(classes, found.labels_) > 0.6


def test_a_mode_of_parameters_is_not_judged_by_a_bound():
    X, _ = overlapping(n_rows=600)
    settler = settler_of(X)
    found = FoundStart(one_cluster(X), "one", settler.model, {})
    begun = {
        objective: open_start(found, settler.data, None, passes=SparseVariational(objective=objective), settler=settler)
        for objective in ("map", "vb")
    }
    assert [begun["map"].name, begun["vb"].name] == ["one", "own 2"]
