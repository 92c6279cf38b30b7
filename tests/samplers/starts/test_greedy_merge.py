"""Greedy merges are those of the plain search; buckets are sides of planes."""

import numpy as np
import pytest
from scipy import sparse
from tiny import FAMILIES, WEIGHTS

from expfam import (
    Dataset,
    DiagonalGaussian,
    DirichletProcess,
    MixtureModel,
    Multinomial,
    SymmetricDirichlet,
)
from expfam.samplers import merged_labels, starting_labels
from expfam.samplers.starts.greedy_merge import near_clusters

pytestmark = pytest.mark.filterwarnings("ignore:.*rows? (is|are) empty")


def clusters(N, K, *, d=8, separation=3.0, seed=0):
    rng = np.random.default_rng(seed)
    z = rng.integers(K, size=N)
    return rng.normal(scale=separation, size=(K, d))[z] + rng.normal(size=(N, d)), z


def bound(X, family=None, weights=None):
    data = Dataset(X, family or DiagonalGaussian())
    return MixtureModel(data.family, weights or DirichletProcess()), data


def same_partition(a, b):
    pairs = len(set(zip(a.tolist(), b.tolist())))
    return pairs == len(set(a.tolist())) == len(set(b.tolist()))


# ---- merges ------------------------------------------------------------------------------------------------------


def plain_merges(model, data, labels, n_clusters=None):
    """The pair whose merge leaves the highest log joint, by the model's definition, while it rises."""
    labels = np.array(labels)
    while (names := np.unique(labels)).size > 1:
        now = model.log_joint(data, labels)
        tried = [np.where(labels == b, a, labels) for i, a in enumerate(names) for b in names[i + 1 :]]
        values = [model.log_joint(data, z) for z in tried]
        must = n_clusters is not None and names.size > n_clusters
        if max(values) <= now and not must and np.isfinite(now):
            break
        labels = tried[int(np.argmax(values))]
    return labels


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("name", FAMILIES)
def test_merges_are_those_of_the_plain_search(name, weights):
    family, X = FAMILIES[name]
    model, data = bound(X, family, WEIGHTS[weights])
    for start in (np.arange(5), np.array([0, 1, 1, 2, 0])):
        if weights == "dirichlet_3" and start.max() > 2:
            continue  # more clusters than components: no log joint to compare before the first merges
        for n_clusters in (None, 1, 2):
            found = merged_labels(model, data, start, n_clusters=n_clusters)
            plain = plain_merges(model, data, start, n_clusters)
            # a row without values fits every cluster alike
            is_tie = model.log_joint(data, found) == pytest.approx(model.log_joint(data, plain), abs=1e-12)
            assert same_partition(found, plain) or (family.allows_missing and is_tie)


def test_merges_stop_at_the_components_of_finite_weights():
    X, _ = clusters(40, 8, separation=30.0)
    model, data = bound(X, weights=SymmetricDirichlet(3))
    labels = merged_labels(model, data, np.arange(40))
    assert labels.max() == 2


def test_merges_never_lower_the_log_joint():
    X, _ = clusters(300, 6, separation=1.0)
    model, data = bound(X)
    rng = np.random.default_rng(0)
    for K in (1, 2, 20, 150):
        start = rng.integers(K, size=300)
        assert model.log_joint(data, merged_labels(model, data, start)) >= model.log_joint(data, start)


def test_merges_with_near_clusters_alone_find_what_all_pairs_find():
    X, z = clusters(1500, 20, separation=4.0)
    model, data = bound(X)
    pieces = 20 * np.arange(1500) // 1500 * 100 + z  # three hundred or so
    assert np.unique(pieces).size > 250
    found = merged_labels(model, data, pieces, n_compared=100)
    assert same_partition(found, z)
    assert same_partition(
        merged_labels(model, data, pieces, n_compared=30, n_clusters=7), merged_labels(model, data, found, n_clusters=7)
    )


def test_what_has_to_be_merged_is_merged_where_no_near_cluster_is_left():
    X, _ = clusters(300, 3, separation=0.0)
    X = np.concatenate([X, X + 1e4])
    pieces = np.arange(600) // 6  # hundred clusters in two far groups, whose near ones are in their own
    model, data = bound(X, weights=SymmetricDirichlet(1))
    assert merged_labels(model, data, pieces, n_compared=1).max() == 0
    model, data = bound(X)
    assert merged_labels(model, data, pieces, n_compared=1, n_clusters=1).max() == 0


def test_near_clusters_are_symmetric_and_near():
    X, z = clusters(900, 90, separation=4.0)
    _, data = bound(X)
    near = near_clusters(data, z)
    assert all(k in near[other] for k, others in enumerate(near) for other in others)
    assert all(k not in others for k, others in enumerate(near))
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    means = np.stack([Z[z == k].mean(axis=0) for k in range(90)])
    distance = ((means[:, None] - means) ** 2).sum(axis=2)
    for k in range(90):
        assert set(np.argsort(distance[k])[1:33]) <= set(near[k])


def test_copies_of_clusters_are_joined_again():
    X, z = clusters(600, 5, separation=4.0)
    model, data = bound(X)
    copies = z * 4 + np.arange(600) % 4
    assert same_partition(merged_labels(model, data, copies), z)


# ---- buckets -----------------------------------------------------------------------------------------------------


def test_buckets_are_sides_of_planes_through_the_middle():
    X, z = clusters(400, 2, separation=50.0)
    model, data = bound(X + 1e4)
    labels = starting_labels("buckets", model, data, seed=0, n_clusters=8)
    assert 2 <= labels.max() + 1 <= 8
    assert (np.bincount(labels) > 0).all()
    # two far clusters on opposite sides of the mean: no plane through the middle cuts one of them
    assert all(len(set(z[labels == k])) == 1 for k in range(labels.max() + 1))
    assert not starting_labels("buckets", model, data, seed=0, n_clusters=1).any()
    np.testing.assert_array_equal(labels, starting_labels("buckets", model, data, seed=0, n_clusters=15, n_threads=2))
    assert starting_labels("buckets", model, data, seed=0).max() + 1 <= 20  # the default: sqrt N
    with pytest.raises(AssertionError):
        np.testing.assert_array_equal(labels, starting_labels("buckets", model, data, seed=1, n_clusters=8))


def test_buckets_of_sparse_counts():
    X = sparse.random_array((300, 500), density=0.05, rng=np.random.default_rng(0), data_sampler=None)
    X.data = np.ceil(10 * X.data)
    model, data = bound(X.tocsr(), Multinomial(concentration=0.1))
    labels = starting_labels("buckets", model, data, seed=0, n_clusters=16)
    assert 8 <= labels.max() + 1 <= 16
