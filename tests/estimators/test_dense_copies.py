"""Sparse rows for a family that reads dense ones: a dense copy is made, if there is memory for it."""

import re

import numpy as np
import pytest
from scipy import sparse

from expfam import BayesianHierarchy, Columns, DiagonalGaussian, GroupedMixture, Mixture, Poisson
from expfam.errors import DataTypeError, ResourceError
from expfam.frames import dense_copies

N = 60
RNG = np.random.default_rng(0)
REAL = np.where(RNG.random((N, 6)) < 0.3, 0.0, RNG.normal(size=(N, 6)) + 6.0 * (np.arange(N) % 2)[:, None])
CODES = RNG.integers(0, 3, (N, 6)) * (np.arange(6) % 2 == (np.arange(N) % 2)[:, None])
GROUPS = np.arange(N) // 10
FAMILIES = {
    "gaussian_diag": REAL,
    "gaussian": REAL,
    "gaussian_zero": REAL,
    "lognormal": np.exp(REAL),
    "categorical": CODES,
    "von_mises": REAL,
}
KINDS = [Mixture, GroupedMixture, BayesianHierarchy]


def settings_of(kind):
    return {"n_components": 2, "random_state": 0} | ({} if kind is BayesianHierarchy else {"n_steps": 3})


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("kind", KINDS)
def test_results_are_those_of_dense_rows(kind, family):
    X = FAMILIES[family]
    given = {"groups": GROUPS} if kind is GroupedMixture else {}
    dense = kind(family, **settings_of(kind)).fit(X, **given)
    for made in (sparse.csr_array, sparse.csc_matrix, sparse.coo_array):
        thin = kind(family, **settings_of(kind)).fit(made(X), **given)
        np.testing.assert_array_equal(thin.labels_, dense.labels_)
        if kind is Mixture:
            np.testing.assert_array_equal(thin.predict(made(X)), dense.predict(X))
            np.testing.assert_array_equal(thin.predict_proba(made(X)), dense.predict_proba(X))
            np.testing.assert_array_equal(thin.score_samples(made(X)), dense.score_samples(X))


@pytest.mark.filterwarnings("ignore")
def test_chunks_and_columns_of_several_kinds_too():
    X = sparse.csr_array(REAL)
    learned = [Mixture("gaussian_diag", 2, sampler="variational", random_state=0) for _ in range(2)]
    np.testing.assert_array_equal(learned[0].partial_fit(X).n_, learned[1].partial_fit(REAL).n_)
    family = Columns([(DiagonalGaussian(), (0, 1, 2)), (DiagonalGaussian(), (3, 4, 5))])
    fits = [Mixture(family, 2, n_steps=2, random_state=0).fit(rows) for rows in (X, REAL)]
    np.testing.assert_array_equal(fits[0].labels_, fits[1].labels_)


def test_binary_indicators_stay_sparse():
    X = sparse.csr_array(CODES > 0)
    thin, dense = (Mixture("bernoulli", 2, n_steps=3, random_state=0).fit(rows) for rows in (X, X.toarray()))
    np.testing.assert_array_equal(thin.labels_, dense.labels_)
    assert thin._n_copied == 0


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", KINDS)
def test_a_copy_that_is_too_large_is_refused_with_lines_that_fit(kind):
    X, given = sparse.csr_array(REAL), {"groups": GROUPS} if kind is GroupedMixture else {}
    estimator = kind("gaussian_diag", memory_limit="1kB", **settings_of(kind))
    words = rf"'gaussian_diag' reads dense rows.*\(60, 6\): as an array they take {REAL.nbytes / 1000:.3g} kB, and 1 kB"
    with pytest.raises(ResourceError, match=words) as caught:
        estimator.fit(X, **given)
    line = re.search(r"write (\w+\('gaussian_spherical'.*?\)), which reads", str(caught.value))[1]
    assert "gaussian_spherical" in line
    estimator.set_params(memory_limit="1GB").fit(X, **given)
    if kind is Mixture:
        estimator.memory_limit = "1kB"
        with pytest.raises(ResourceError, match=r"give 20 rows at a time, such as X\[:20\]"):
            estimator.predict(X)
        assert estimator.predict(X[:20]).shape == (20,)


def test_the_forecast_counts_the_copy():
    told = []
    for rows in (REAL, sparse.csr_array(REAL)):
        mixture = Mixture("gaussian_diag", 2, n_steps=2, random_state=0, memory_limit="1GB").fit(rows)
        told.append(mixture._n_copied)
    assert told == [0, REAL.nbytes]
    with pytest.raises(ResourceError, match=r"the fit needs about"):  # the copy fits, and the fit beside it does not
        Mixture("gaussian_diag", 2, n_steps=2, random_state=0, memory_limit=REAL.nbytes + 100).fit(
            sparse.csr_array(REAL)
        )


def test_without_a_limit_the_free_memory_counts(monkeypatch):
    X = sparse.csr_array((1, 10**7), dtype=np.float64)
    monkeypatch.setattr(dense_copies, "available_memory", lambda: 10**7)
    settings = {"owner": "Mixture", "family": "categorical", "memory_limit": None, "may_choose": True}
    with pytest.raises(ResourceError, match="10 MB are free: write memory_limit='80 MB' to make it nevertheless"):
        dense_copies.dense_copy(X, **settings)
    monkeypatch.setattr(dense_copies, "available_memory", lambda: None)
    assert dense_copies.dense_copy(X, **settings).shape == X.shape


def test_families_of_counts_read_sparse_rows_in_place():
    X = sparse.csr_array(CODES.astype(np.float64))
    assert dense_copies.copied_bytes(CODES) == 0
    assert Mixture(Poisson(), 2, n_steps=2, random_state=0).fit(X)._n_copied == 0


def test_complex_sparse_rows_have_an_error_of_their_own():
    with pytest.raises(DataTypeError, match="Complex data not supported"):
        Mixture("gaussian_diag", 2).fit(sparse.csr_array(REAL + 0j))
