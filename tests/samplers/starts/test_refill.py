"""K clusters are K clusters, and rows have their most probable one wherever that can be had."""

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from expfam import Dataset, DiagonalGaussian, Gaussian, Mixture, MixtureModel, SphericalGaussian, SymmetricDirichlet
from expfam.samplers.starts.ascent import ascend
from expfam.samplers.starts.refill import refilled


def made(X, K):
    data = Dataset(X, DiagonalGaussian())
    return MixtureModel(data.family, SymmetricDirichlet(K, 1.0)), data


def blobs(n, K, seed=0, spread=6.0):
    rng = np.random.default_rng(seed)
    classes = np.arange(n) % K
    return spread * rng.normal(size=(K, 2))[classes] + rng.normal(size=(n, 2)), classes


def test_full_labels_are_those_of_the_ascent():
    X, classes = blobs(200, 4)
    model, data = made(X, 4)
    disturbed = np.where(np.arange(200) % 7 == 0, (classes + 1) % 4, classes)
    expected = ascend(model, data, disturbed, max_passes=50)
    found = refilled(model, data, disturbed, 4, max_passes=50, seed=0)
    assert [len(set(zip(expected, found))), len(set(found))] == [4, 4]
    assert found[0] == 0  # by first appearance


def test_a_lost_cluster_is_opened_where_it_belongs():
    X, classes = blobs(200, 4)
    model, data = made(X, 4)
    found = refilled(model, data, np.where(classes == 3, 2, classes), 4, max_passes=50, seed=0)
    assert adjusted_rand_score(classes, found) > 0.9


def test_a_cluster_of_one_strange_row_is_opened_elsewhere():
    X, classes = blobs(200, 4)
    model, data = made(X, 4)
    labels = np.where(classes == 3, 2, classes)
    labels[0] = 3  # a row in the middle of cluster 0
    kept = ascend(model, data, labels, keep_clusters=True, max_passes=50)
    assert np.bincount(kept).min() == 1
    found = refilled(model, data, labels, 4, max_passes=50, seed=0)
    assert adjusted_rand_score(classes, found) > 0.9
    np.testing.assert_array_equal(refilled(model, data, found, 4, max_passes=50, seed=1), found)


@pytest.mark.filterwarnings("ignore:Mixture.*(parameters of a full|still rising)")
@pytest.mark.parametrize("family", [Gaussian(), DiagonalGaussian(), SphericalGaussian()], ids=lambda f: f.name)
@pytest.mark.parametrize(("n", "K"), [(4, 3), (5, 4), (10, 8), (30, 10), (7, 7)])
def test_few_rows_give_as_many_clusters_as_were_asked_for(family, n, K):
    for seed in range(4):
        X = np.random.default_rng(seed).normal(size=(n, 2))
        assert Mixture(family, K, random_state=seed).fit(X).n_components_ == K


def test_no_more_clusters_than_distinct_rows_can_be_opened():
    X = np.repeat([[0.0, 1.0], [4.0, 4.0], [9.0, 0.0]], 5, axis=0)
    model, data = made(X, 3)
    found = refilled(model, data, np.zeros(15, dtype=int), 5, max_passes=10, seed=0)
    np.testing.assert_array_equal(found, np.repeat([0, 1, 2], 5))
    model, data = made(X, 3)
    data = Dataset(X[:5], data.family)  # equal rows
    assert not refilled(model, data, np.zeros(5, dtype=int), 3, max_passes=10, seed=0).any()


@pytest.mark.parametrize("seed", range(5))
def test_labels_of_small_and_overlapping_clusters_are_those_of_predict(seed):
    X, _ = blobs(60, 4, seed=seed, spread=1.5)
    for family in ("gaussian", "gaussian_diag"):
        mixture = Mixture(family, 4, random_state=seed).fit(X)
        assert mixture.n_components_ == 4
        np.testing.assert_array_equal(mixture.labels_, mixture.predict(X))
