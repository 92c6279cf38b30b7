"""A fit that has seen repeated values spread ends above k-means of the rows as they are."""

import numpy as np
import pytest
import vector_shapes as vectors
from dominance import WatchedMixture, judge, tolerance

from expfam import Dataset, DirichletProcess, Gaussian, MixtureModel
from expfam.fitting.spread_endings import above_simple
from expfam.samplers.warm_starts.candidates import may_be_passed


@pytest.mark.filterwarnings("ignore::expfam.errors.DataWarning", "ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("share", "seed"), [(0.5, 2), (0.8, 1)])
def test_rows_with_spikes_end_above_the_next_run_of_kmeans(share, seed):
    """38 and 2.4 nats below where only the runs of the fit itself were compared."""
    X, truth = vectors.zeros(1000, share)(seed)
    judgement = judge(WatchedMixture("gaussian", random_state=seed).fit(X), X, truth=truth, seed=seed, learns=False)
    assert judgement.below <= tolerance(len(X)), judgement


@pytest.mark.filterwarnings("ignore::expfam.errors.DataWarning", "ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("n_clusters", [None, 4])
@pytest.mark.parametrize("family", ["gaussian_diag", "gaussian", "gaussian_spherical"])
def test_few_distinct_rows_are_categories(family, n_clusters):
    """Up to 249 nats below where neither merges nor exchanges were tried on the rows as they are."""
    X, truth = vectors.one_hot(500)(0)
    mixture = WatchedMixture(family, n_clusters, random_state=0).fit(X)
    judgement = judge(mixture, X, truth=truth, seed=0, learns=False)
    assert judgement.below <= tolerance(len(X)), judgement


def test_an_end_among_many_modes_rises_by_merges_and_splits():
    """From labels by chance to ones from which the same way leads no further; the same for any number of threads."""
    X, _ = vectors.zeros(300, 0.5)(0)
    data = Dataset(X, Gaussian())
    model = MixtureModel(data.family, DirichletProcess())
    labels = np.random.default_rng(0).integers(0, 8, 300).astype(np.int32)
    found = {n_threads: above_simple(model, data, labels, seed=0, n_threads=n_threads) for n_threads in (1, 2)}
    assert np.array_equal(found[1], found[2])
    assert model.log_joint(data, found[1]) > model.log_joint(data, labels)
    assert above_simple(model, data, found[1], seed=0, n_threads=1) is found[1]


def test_an_end_clearly_above_kmeans_stays():
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(3, dtype=np.int32), 50)
    data = Dataset((rng.normal(size=(150, 2)) + 9.0 * labels[:, None]).round(1), Gaussian())
    model = MixtureModel(data.family, DirichletProcess())
    assert above_simple(model, data, labels, seed=0, n_threads=1) is labels


@pytest.mark.parametrize(
    ("log_joint", "expected"),
    [(-9.0, True), (-4.0, True), (4.0, True), (6.0, False)],
)
def test_the_spread_of_the_runs_of_one_metric_says_how_far_the_next_may_be_above(log_joint, expected):
    runs = np.array([[-5.0, -25.0, -30.0], [-9.0, -9.0, -9.0]])
    assert may_be_passed(log_joint, runs) is expected
