"""The same counts give the same labels, bit for bit: dense or CSR, of any type of numbers, in any form of CSR."""

import warnings

import numpy as np
import pytest
from scipy import sparse

from expfam import BayesianHierarchy, Dataset, GroupedMixture, Mixture, TopicModel
from expfam.plugins.registry import load_family
from expfam.samplers.geometry.coordinates import Rows
from expfam.samplers.geometry.graphs import neighbour_graph
from expfam.samplers.geometry.neighbourhood import neighbourhood

RNG = np.random.default_rng(1)
N_ROWS = 240
PROBABILITIES = RNG.dirichlet(np.full(300, 0.5), 6)
WIDE = np.array([RNG.multinomial(RNG.poisson(8) + 1, PROBABILITIES[i % 6]) for i in range(N_ROWS)])
NARROW = WIDE[:, :40] + (np.arange(40) == 0)
FAMILIES = ["multinomial", "poisson", "negative_binomial", "geometric", "bernoulli"]
SAMPLERS = ["auto", "gibbs", "fastex", "split_merge", "uncollapsed_gibbs", "stochastic_em"]


def unsorted_with_zeros_and_duplicates(X):
    """Return CSR data whose columns fall, with zeros stored, and entries above 1 stored twice."""
    found, rng = sparse.coo_array(X), np.random.default_rng(0)
    zeros = np.flatnonzero((X == 0).ravel())[::7]
    row = np.concatenate([found.coords[0], found.coords[0], zeros // X.shape[1]])
    column = np.concatenate([found.coords[1], found.coords[1], zeros % X.shape[1]])
    half = found.data // 2
    data = np.concatenate([found.data - half, half, np.zeros(len(zeros), dtype=X.dtype)])
    order = rng.permutation(len(row))
    order = order[np.argsort(row[order], kind="stable")]
    starts = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=len(X)))])
    return sparse.csr_array((data[order], column[order], starts), shape=X.shape)


def with_wide_indices(X):
    X = sparse.csr_array(X)
    X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    return X


CONTAINERS = {
    "CSR": sparse.csr_array,
    "float32": lambda X: X.astype(np.float32),
    "float64": lambda X: X.astype(np.float64),
    "int32": lambda X: X.astype(np.int32),
    "uint8": lambda X: X.astype(np.uint8),
    "CSR of float32": lambda X: sparse.csr_array(X.astype(np.float32)),
    "CSR with 64-bit indices": with_wide_indices,
    "CSC": sparse.csc_array,
    "ragged CSR": unsorted_with_zeros_and_duplicates,
}


def rows_of(family, is_wide=True):
    X = WIDE if is_wide else NARROW
    return (X > 0).astype(np.int64) if family == "bernoulli" else X


def fitted(estimator, X, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return estimator.fit(X, **options)


def assert_same(a, b):
    np.testing.assert_array_equal(a.labels_, b.labels_)
    assert a.log_joint_ == b.log_joint_
    np.testing.assert_array_equal(a.trace_.column("objective"), b.trace_.column("objective"))


def test_ragged_data_are_the_same_counts():
    assert np.array_equal(unsorted_with_zeros_and_duplicates(WIDE).toarray(), WIDE)


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("is_wide", [True, False], ids=["wide", "narrow"])
def test_a_default_fit_does_not_see_the_container(container, is_wide):
    X = rows_of("multinomial", is_wide)
    for n_components in (6, None):
        a, b = (
            fitted(Mixture("multinomial", n_components, random_state=0), rows) for rows in (X, CONTAINERS[container](X))
        )
        assert_same(a, b)


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("family", FAMILIES)
def test_dense_and_csr_counts_give_the_same_chain(family, sampler):
    X = rows_of(family)
    settings = {"sampler": sampler, "n_steps": 4, "n_warmup": 4, "learn_hyper": True, "random_state": 0}
    a, b = (fitted(Mixture(family, 6, **settings), rows) for rows in (X, sparse.csr_array(X)))
    assert_same(a, b)


@pytest.mark.parametrize("start", ["kmeans", "kmeans++", "tree", "tree_point", "buckets", "sequential"])
@pytest.mark.parametrize("family", FAMILIES)
def test_dense_and_csr_counts_give_the_same_start(family, start):
    for is_wide in (True, False):
        X = rows_of(family, is_wide)
        settings = {"sampler": "gibbs", "start": start, "n_steps": 1, "n_warmup": 0, "random_state": 0}
        a, b = (fitted(Mixture(family, 6, **settings), rows) for rows in (X, sparse.csr_array(X)))
        assert_same(a, b)


@pytest.mark.parametrize("sampler", ["em", "variational"])
@pytest.mark.parametrize("family", FAMILIES)
def test_passes_over_dense_and_csr_counts_agree_within_rounding(family, sampler):
    X = rows_of(family)
    a, b = (
        fitted(Mixture(family, 6, sampler=sampler, start="kmeans", random_state=0), rows)
        for rows in (X, sparse.csr_array(X))
    )
    assert np.mean(a.labels_ == b.labels_) > 0.98
    assert a.log_joint_ == pytest.approx(b.log_joint_, rel=1e-5)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("container", CONTAINERS)
def test_coordinates_have_the_same_bits(container, family):
    for is_wide in (True, False):
        X = rows_of(family, is_wide)
        bound = load_family(family).bind(X)
        a, b = (Dataset(rows, bound) for rows in (X, CONTAINERS[container](X)))
        np.testing.assert_array_equal(Rows(a).embedding(3, None), Rows(b).embedding(3, None))
        np.testing.assert_array_equal(neighbourhood(a, 5), neighbourhood(b, 5))
        assert (neighbour_graph(a, 4) != neighbour_graph(b, 4)).nnz == 0


@pytest.mark.parametrize("family", ["multinomial", "poisson"])
def test_groups_and_topics_do_not_see_the_container(family):
    X, groups = rows_of(family), np.arange(N_ROWS) // 30
    both = X, sparse.csr_array(X)
    settings = {"sampler": "gibbs", "n_steps": 5, "random_state": 0}
    a, b = (GroupedMixture(family, 6, **settings).fit(rows, groups=groups) for rows in both)
    np.testing.assert_array_equal(a.labels_, b.labels_)
    a, b = (TopicModel(4, **settings).fit(rows) for rows in both)
    np.testing.assert_array_equal(a.components_, b.components_)


@pytest.mark.parametrize("family", FAMILIES)
def test_trees_do_not_see_the_container(family):
    X = rows_of(family)[:90]
    a, b = (BayesianHierarchy(family).fit(rows) for rows in (X, sparse.csr_array(X)))
    np.testing.assert_array_equal(a.linkage_matrix(), b.linkage_matrix())
    np.testing.assert_array_equal(a.labels_, b.labels_)
    assert (a.order_, a.n_scores_) == (b.order_, b.n_scores_)
