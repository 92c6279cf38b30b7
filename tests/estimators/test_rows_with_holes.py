"""New rows that lack cells, where all rows of the fit were whole and columns depend on each other."""

import numpy as np
import pandas as pd
import pytest
from scipy import integrate, stats

from expfam import BayesianHierarchy, GroupedMixture, Mixture, SphericalGaussian, ZeroMeanGaussian, load_family
from expfam.errors import DataError
from expfam.families.gaussian.holes import log_student, with_holes

RNG = np.random.default_rng(0)
MIX = np.array([[1.0, 0.7, 0.0], [0.0, 1.0, 0.4], [0.0, 0.0, 1.0]])
X = RNG.normal(size=(120, 3)) @ MIX
X[:60] += [5.0, 0.0, 5.0]
FAMILIES = {
    "gaussian": load_family("gaussian"),
    "zero mean": ZeroMeanGaussian(),
    "spherical": SphericalGaussian(),
    "shared variance": SphericalGaussian(variance="shared"),
    "known variance": SphericalGaussian(variance=1.5),
}


def holed(rows):
    rows = rows.copy()
    rows[0, 1] = rows[1, 0] = rows[1, 2] = rows[2, :] = np.nan
    return rows


def fitted(name):
    return Mixture(FAMILIES[name], 2, n_steps=5, random_state=0).fit(X)


@pytest.mark.parametrize("name", FAMILIES)
def test_whole_rows_have_the_density_of_the_family(name):
    family = FAMILIES[name].bind(X)
    labels = np.arange(120) % 2
    phi = np.asarray(family.sufficient_statistics(family.validate(X)))
    S = np.stack([phi[labels == k].sum(axis=0) for k in range(2)] + [np.zeros(phi.shape[1])])
    n = np.array([60.0, 60.0, 0.0])
    expected = family.log_predictive(X[:20], n, S) + family.log_base(X[:20])[:, None]
    opened = with_holes(family)
    found = opened.log_predictive(X[:20], n, S) + opened.log_base(X[:20])[:, None]
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_missing_cell_is_integrated_out(name):
    mixture = fitted(name)
    row = X[3].copy()

    def density(x):
        return np.exp(mixture.score_samples(np.array([[row[0], x, row[2]]]))[0])

    total = integrate.quad(density, -60.0, 60.0, points=[-2.0, 0.0, 2.0], limit=200)[0]
    row[1] = np.nan
    assert mixture.score_samples(row[None])[0] == pytest.approx(np.log(total), abs=1e-5)


@pytest.mark.parametrize("name", FAMILIES)
def test_rows_that_lack_cells_get_clusters(name):
    mixture, rows = fitted(name), holed(X[:5])
    labels, p = mixture.predict(rows), mixture.predict_proba(rows)
    np.testing.assert_array_equal(labels, p.argmax(axis=1))
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    np.testing.assert_allclose(p[2], mixture.weights_ / mixture.weights_.sum(), rtol=1e-6)  # a row without cells
    assert mixture.score_samples(rows)[2] == pytest.approx(0.0, abs=1e-9)
    np.testing.assert_allclose(mixture.score_samples(rows)[3:], mixture.score_samples(X[3:5]), atol=1e-9)
    frame = pd.DataFrame(rows, columns=list("abc"))
    named = Mixture(FAMILIES[name], 2, n_steps=5, random_state=0).fit(pd.DataFrame(X, columns=list("abc")))
    np.testing.assert_array_equal(named.predict(frame[["c", "a", "b"]]), labels)


def test_trees_and_groups_score_such_rows():
    rows = holed(X[:5])
    tree = BayesianHierarchy("gaussian").fit(X[::4])
    assert tree.predict(rows).shape == (5,)
    assert np.isfinite(tree.score_samples(rows)).all()
    groups = np.arange(120) % 3
    grouped = GroupedMixture("gaussian", 2, n_steps=5, random_state=0).fit(X, groups=groups)
    assert grouped.predict(rows, groups=np.zeros(5, dtype=int)).shape == (5,)
    assert np.isfinite(grouped.score_samples(rows, groups=np.zeros(5, dtype=int))).all()


def test_the_density_of_columns_given_others():
    mixture = fitted("gaussian")
    joint, given = mixture.score_samples(X[:4]), np.array(X[:4])
    given[:, 1:] = np.nan
    found = mixture.score_samples(X[:4], given=[0])
    np.testing.assert_allclose(found, joint - mixture.score_samples(given), atol=1e-9)


def test_nothing_is_learned_from_rows_that_lack_cells():
    mixture = Mixture("gaussian", 2, sampler="variational", n_steps=5, random_state=0).partial_fit(X)
    with pytest.raises(DataError, match=r"row 0, column 1 is missing.*DiagonalGaussian"):
        mixture.partial_fit(holed(X[:5]))
    with pytest.raises(DataError, match="is missing"):
        Mixture("gaussian", 2, random_state=0).fit(holed(X))


def test_log_student_is_that_of_scipy():
    mean, scale = np.array([[1.0, -1.0]]), np.array([[[2.0, 0.5], [0.5, 1.0]]])
    rows = RNG.normal(size=(6, 2))
    for dof, law in (
        (4.5, stats.multivariate_t(mean[0], scale[0], 4.5)),
        (np.inf, stats.multivariate_normal(mean[0], scale[0])),
    ):
        found = log_student(rows, np.array([dof]), mean, scale, "gaussian")[:, 0]
        np.testing.assert_allclose(found, law.logpdf(rows), atol=1e-12)
