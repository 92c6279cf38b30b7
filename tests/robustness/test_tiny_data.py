"""One to ten rows: every shipped family with every sampler, dense and sparse, either works or is refused politely."""

import warnings

import numpy as np
import pytest
from compositions import FAMILIES, SAMPLERS, family_named, rows_for, tried
from scipy import sparse

from expfam import (
    BayesianHierarchy,
    Dataset,
    DirichletProcess,
    Gaussian,
    Mixture,
    MixtureModel,
    SphericalGaussian,
    SymmetricDirichlet,
    ZeroMeanGaussian,
)
from expfam.errors import CapabilityError, DataWarning
from expfam.samplers import Canopy, HierarchicalClustering, UncollapsedGibbs, sample
from expfam.structures.cluster_tree.tree import smoothed_means

pytestmark = pytest.mark.filterwarnings("ignore::expfam.errors.DataWarning")
WEIGHTS = (DirichletProcess(), SymmetricDirichlet(4))


def rows(family, n_rows, seed=0):
    """A few rows that suit a family, dense."""
    X = rows_for(family, 3, np.random.default_rng(seed))[:n_rows]
    return X.toarray() if sparse.issparse(X) else np.asarray(X)


def forms(family, X):
    """The data in each layout that the family takes, and one row so many times."""
    made = {"dense": X, "same": np.repeat(X[:1], len(X), axis=0)}
    return made | ({"csr_matrix": sparse.csr_matrix(X)} if family.accepts_sparse else {})


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("title", SAMPLERS)
def test_few_rows_are_served(title, name):
    sampler, family = tried(title), family_named(name)
    for turn, n_rows in enumerate((1, 2, 10)):
        for place, X in enumerate(forms(family, rows(family, n_rows)).values()):
            data = Dataset(X, family)
            model = MixtureModel(data.family, WEIGHTS[(turn + place) % 2])
            try:
                sampler.check(model, data)
            except CapabilityError:
                continue
            state = sampler.init(model, data, seed=turn)
            sample(sampler, state, 2)
            state.check()


@pytest.mark.parametrize("n_rows", [2, 3, 5, 10])
def test_a_tree_of_clusters_of_one_datum_each_is_made(n_rows):
    """As many clusters as data lie on a line through them all: what is left of a spread is rounding."""
    for seed in range(10):
        X = np.random.default_rng(seed).normal(size=(n_rows, 3))
        for family in (ZeroMeanGaussian(), Gaussian()):
            mixture = Mixture(family, 5, sampler=UncollapsedGibbs(draw="tree"), n_steps=5, random_state=seed).fit(X)
            assert mixture.labels_.shape == (n_rows,)


def test_a_tree_of_clusters_is_made_where_one_cluster_holds_all_data():
    """Parameters of the one cluster differ from their mean by rounding: there is no line through them."""
    X = 3.0 * np.random.default_rng(27).normal(size=(6, 2)) + 5.0
    mixture = Mixture("gaussian_diag", 3, sampler=Canopy(variant=2), start="one", n_steps=30, random_state=27).fit(X)
    assert mixture.labels_.shape == (6,)
    rng = np.random.default_rng(0)
    n, S, Theta = np.array([6.0, 0.0, 0.0]), np.zeros((3, 4)), rng.normal(size=(3, 4))
    S[0] = 5.0 * rng.normal(size=4)
    center, means = smoothed_means(n, S, Theta)
    assert np.allclose(means, center)


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("n_rows", [1, 2, 5])
def test_a_hierarchy_of_few_rows_is_the_same_from_any_layout(name, n_rows):
    family = family_named(name)
    X = np.repeat(rows(family, n_rows), 2, axis=0)[: max(n_rows, 2)]
    for duplicates in ("exact", "collapse"):
        found = []
        for given in forms(family, X).values():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DataWarning)
                found.append(
                    BayesianHierarchy(family, sampler=HierarchicalClustering(duplicates=duplicates))
                    .fit(given)
                    .log_evidence_
                )
        if family.accepts_sparse and family.support != "real":  # real data: the centre is another
            # a length of a sum of rows, far up the logarithm of a Bessel function, has more rounding errors
            rel = 1e-9 if name == "von_mises_fisher" else 1e-12
            assert found[-1] == pytest.approx(found[0], rel=rel)


def test_copies_of_sparse_rows_collapse_as_dense_ones_do():
    X = np.repeat(np.random.default_rng(0).normal(size=(4, 3)) * [1.0, 0.0, 1.0], 3, axis=0)
    family = SphericalGaussian(mean=0.0)
    dense, *others = (
        BayesianHierarchy(family, sampler=HierarchicalClustering(duplicates="collapse")).fit(make(X))
        for make in (np.array, sparse.csr_array, sparse.csr_matrix)
    )
    for other in others:
        np.testing.assert_allclose(other.log_odds_, dense.log_odds_, rtol=1e-12)
