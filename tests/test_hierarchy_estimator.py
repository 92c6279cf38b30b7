"""`BayesianHierarchy`: predictions against plain sums over nodes, linkages of others, the conventions of estimators."""

import math

import numpy as np
import pytest
from scipy import sparse
from scipy.cluster.hierarchy import dendrogram, linkage
from scipy.special import logsumexp
from sklearn.metrics import adjusted_rand_score
from sklearn.utils.estimator_checks import parametrize_with_checks

from expfam import BayesianHierarchy, Gaussian, Mixture, Multinomial, Poisson, SphericalGaussian


@parametrize_with_checks([BayesianHierarchy(), BayesianHierarchy("gaussian_spherical", order="best")])
def test_follows_the_conventions(estimator, check):
    check(estimator)


def blobs(n=60, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=n)
    return rng.normal(size=(n, 2)) + 8 * np.array([[0, 0], [1, 0], [0, 1]])[y], y


def test_predictions_are_sums_over_nodes():
    X, _ = blobs()
    model = BayesianHierarchy("gaussian_spherical", alpha=0.5).fit(X)
    family, tree = model.family_, model.tree_
    new = blobs(7, seed=1)[0]
    posterior = tree.log_posterior()
    terms = []
    for node in range(tree.n_nodes):
        rows = tree.leaves(node)
        S = family.sufficient_statistics(X[rows]).sum(axis=0)[None]
        density = family.log_predictive(new, np.array([float(len(rows))]), S)[:, 0]
        terms.append(posterior[node] + math.log(len(rows)) + density)
    terms.append(math.log(0.5) + family.log_predictive(new, np.zeros(1), np.zeros((1, tree_width(family, X))))[:, 0])
    expected = logsumexp(terms, axis=0) - math.log(0.5 + len(X)) + family.log_base(new)
    np.testing.assert_allclose(model.score_samples(new), expected, rtol=1e-9)
    weights = np.exp(posterior) * tree.counts
    assert weights.sum() == pytest.approx(len(X), rel=1e-9)  # the weights of the predictive add up to one


def tree_width(family, X):
    return family.sufficient_statistics(X[:1]).shape[1]


def test_predict_finds_the_clusters_of_the_cut():
    X, y = blobs()
    for cut in ("odds", "map"):
        model = BayesianHierarchy(cut=cut).fit(X)
        assert adjusted_rand_score(y, model.labels_) == 1.0
        np.testing.assert_array_equal(model.predict(X), model.labels_)
    assert BayesianHierarchy(n_clusters=5).fit(X).n_clusters_ == 5


def test_sparse_counts_and_a_hierarchy_over_a_mixtures_clusters():
    rng = np.random.default_rng(0)
    X = sparse.csr_array(rng.poisson(np.repeat([[4.0, 0.1] * 5, [0.1, 4.0] * 5], 20, axis=0)))
    model = BayesianHierarchy(Multinomial(concentration=0.5)).fit(X)
    dense = BayesianHierarchy(Multinomial(concentration=0.5)).fit(X.toarray())
    np.testing.assert_array_equal(model.labels_, dense.labels_)
    np.testing.assert_allclose(model.score_samples(X), dense.score_samples(X.toarray()), rtol=1e-10)
    labels = Mixture("multinomial", 8, random_state=0, n_steps=5).fit(X).labels_
    over = BayesianHierarchy(Multinomial(concentration=0.5), init_labels=labels).fit(X)
    assert over.tree_.n_leaves == len(set(labels))
    assert all(len(set(over.labels_[labels == k])) == 1 for k in set(labels))
    assert over.predict(X).shape == (40,)


def test_a_linkage_made_by_others_is_rescored():
    X, y = blobs()
    Z = linkage(X, "ward")
    model = BayesianHierarchy.from_linkage(Z, X, SphericalGaussian(), alpha=2.0)
    assert adjusted_rand_score(y, model.labels_) == 1.0
    own = BayesianHierarchy(SphericalGaussian(), alpha=2.0).fit(X)
    again = BayesianHierarchy.from_linkage(own.linkage_matrix("rank"), X, SphericalGaussian(), alpha=2.0)
    np.testing.assert_allclose(again.log_odds_, own.log_odds_, rtol=1e-9, atol=1e-9)
    assert again.log_evidence_ == pytest.approx(own.log_evidence_, rel=1e-12)
    for bad, message in ((Z[:-1], "has 59 merges; got 58"), (np.zeros_like(Z), "be joined once")):
        with pytest.raises(ValueError, match=message):
            BayesianHierarchy.from_linkage(bad, X)


def test_the_best_order_has_most_evidence():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(300, 2)) + 2.0 * rng.normal(size=(20, 2))[rng.integers(20, size=300)]
    evidence = {order: BayesianHierarchy(order=order).fit(X).log_evidence_ for order in ("odds", "odds_size", "best")}
    assert evidence["odds"] != evidence["odds_size"]
    assert evidence["best"] == max(evidence["odds"], evidence["odds_size"])


def test_forms_of_the_tree():
    X, _ = blobs(12)
    model = BayesianHierarchy(Gaussian()).fit(X)
    assert sorted(dendrogram(model.linkage_matrix(), no_plot=True)["leaves"]) == list(range(12))
    assert model.to_newick().endswith(";")
    mean = model.node_params(model.tree_.n_nodes - 1)["mean"][0]
    assert np.linalg.norm(mean - X.mean(axis=0)) < 1.0


def test_bad_settings():
    X = np.arange(8)[:, None]
    with pytest.raises(ValueError, match="cut must be"):
        BayesianHierarchy(Poisson(), cut="best").fit(X)
    with pytest.raises(ValueError, match="n_clusters must be from 1 to the 8 data"):
        BayesianHierarchy(Poisson(), n_clusters=9).fit(X)
    with pytest.raises(ValueError, match="alpha"):
        BayesianHierarchy(Poisson(), alpha=-1.0).fit(X)
