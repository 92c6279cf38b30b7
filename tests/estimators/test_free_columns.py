"""A constant column says nothing about groups: fits with and without such columns find the same."""

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import adjusted_rand_score

from expfam import BayesianHierarchy, DiagonalGaussian, Gaussian, GroupedMixture, LogNormal, Mixture, SphericalGaussian
from expfam.families.gaussian.columns import unsvec
from expfam.fitting.free_columns import free_columns
from expfam.model.data import Dataset

GAUSSIANS = ["gaussian", "gaussian_diag", "gaussian_spherical"]
FAMILIES = [*GAUSSIANS, SphericalGaussian(variance="shared"), SphericalGaussian(variance=1.0)]
TRUTH = np.arange(300) % 3
X = 4.0 * np.eye(3)[TRUTH] + np.random.default_rng(0).normal(size=(300, 3))
ALL = np.column_stack([np.full((300, 4), 7.0), X, np.full((300, 8), -1e3)])
VARYING = np.arange(4, 4 + X.shape[1])

pytestmark = pytest.mark.filterwarnings("ignore::expfam.errors.DataWarning")


@pytest.mark.parametrize("K", [None, 3])
@pytest.mark.parametrize("family", FAMILIES, ids=str)
def test_labels_are_those_without_them(family, K):
    plain, beside = (Mixture(family, K, random_state=0).fit(rows) for rows in (X, ALL))
    assert adjusted_rand_score(plain.labels_, beside.labels_) > 0.99
    assert (beside.predict(ALL) == beside.labels_).mean() > 0.98
    assert beside.converged_


@pytest.mark.parametrize("family", GAUSSIANS)
def test_results_have_all_columns(family, tmp_path):
    plain, beside = (Mixture(family, 3, random_state=0, n_draws=5).fit(rows) for rows in (X, ALL))
    d = ALL.shape[1]
    assert beside.n_features_in_ == d
    assert beside.params_["mean"].shape == (3, d)
    np.testing.assert_allclose(beside.params_["mean"][:, VARYING], plain.params_["mean"], atol=0.02)
    np.testing.assert_allclose(np.delete(beside.params_["mean"], VARYING, axis=1), np.delete(ALL[:3], VARYING, axis=1))
    assert np.isfinite(beside.score_samples(ALL)).all()
    rows = beside.sample(4)
    assert np.asarray(rows[0] if isinstance(rows, tuple) else rows).shape == (4, d)
    beside.save(tmp_path / "fit.expfam", labels=True)
    again = Mixture.load(tmp_path / "fit.expfam")
    np.testing.assert_array_equal(again.predict_proba(ALL), beside.predict_proba(ALL))
    named = Mixture(family, 3, random_state=0).fit(pd.DataFrame(ALL, columns=[f"c{j}" for j in range(d)]))
    assert adjusted_rand_score(named.labels_, plain.labels_) > 0.99


def test_full_covariances_stay_those_of_the_columns_that_vary():
    plain, beside = (Mixture("gaussian", 3, random_state=0).fit(rows) for rows in (X, ALL))
    np.testing.assert_array_equal(beside.labels_, plain.labels_)
    assert beside.log_joint_ == pytest.approx(beside.model_.log_joint(ALL, beside.labels_))
    covariance = beside.params_["covariance"]
    apart = np.delete(np.arange(ALL.shape[1]), VARYING)
    assert not covariance[:, VARYING[:, None], apart].any()
    np.testing.assert_allclose(covariance[:, VARYING[:, None], VARYING], plain.params_["covariance"], rtol=0.1)
    assert covariance[:, apart, apart].std() < 0.1 * covariance[:, apart, apart].mean()  # it tells no cluster


@pytest.mark.parametrize("family", GAUSSIANS)
def test_another_value_there_tells_no_cluster(family):
    beside = Mixture(family, 3, random_state=0).fit(ALL)
    other = ALL[TRUTH == 0][:5].copy()
    before = beside.predict(other)
    other[:, 0] += 0.1
    np.testing.assert_array_equal(beside.predict(other), before)


@pytest.mark.parametrize("family", GAUSSIANS)
def test_an_interrupted_fit_goes_on(family, tmp_path):
    whole = Mixture(family, random_state=0).fit(ALL, resume=tmp_path / "run")
    again = Mixture(family, random_state=0).fit(ALL, resume=tmp_path / "run")
    np.testing.assert_array_equal(again.labels_, whole.labels_)
    assert again.log_joint_ == whole.log_joint_


@pytest.mark.parametrize("family", [DiagonalGaussian(), SphericalGaussian()], ids=str)
def test_a_column_that_varies_in_later_chunks_tells_groups(family):
    rng, z = np.random.default_rng(0), np.arange(600) % 3
    rows = np.column_stack([rng.normal(size=(600, 2)), 9.0 * z + rng.normal(size=600), np.full(600, 2.0)])
    first, rest = rows[:100].copy(), rows[100:]
    first[:, 3], rest[:, 3] = 2.0, 2.0 + 40.0 * (z[100:] == 0)
    mixture = Mixture(family, sampler="variational", random_state=0).partial_fit(first)
    assert not mixture.family_.constant_.any()
    assert not np.any(getattr(mixture.family_, "alike", 0.0)[3:] if family.name == "gaussian_diag" else 0.0)
    labels = mixture.partial_fit(rest).predict(rest)
    has_other = z[100:] == 0
    assert adjusted_rand_score(has_other, labels == labels[np.argmax(has_other)]) > 0.9


@pytest.mark.parametrize("family", GAUSSIANS)
def test_rows_in_groups(family):
    plain, beside = (
        GroupedMixture(family, 3, random_state=0).fit(rows, groups=np.arange(300) // 30) for rows in (X, ALL)
    )
    assert adjusted_rand_score(plain.labels_, beside.labels_) > 0.9
    assert beside.params_["mean"].shape == (3, ALL.shape[1])
    assert np.isfinite(beside.predict_proba(ALL, groups=np.arange(300) // 30)).all()


def test_logarithms_and_trees():
    logs = Mixture(LogNormal(), 3, random_state=0).fit(np.exp(np.column_stack([X, np.zeros((300, 9))]))).labels_
    assert adjusted_rand_score(TRUTH, logs) > 0.6
    tree = BayesianHierarchy("gaussian_diag").fit(np.column_stack([6.0 * X, np.ones((300, 9))]))
    assert tree.n_clusters_ > 1


# ---- laws ------------------------------------------------------------------------------------------------------------


def test_what_full_covariances_imply_for_some_columns():
    """Of one column it is the evidence with the others integrated out."""
    family = Gaussian().bind(X)
    n, S = Dataset(X, family).statistics(TRUTH.astype(np.int32), 3)
    for j in range(X.shape[1]):
        part = family.implied_for(np.array([j]))
        own = Dataset(X[:, [j]], part)
        np.testing.assert_allclose(
            part.log_marginal(*own.statistics(TRUTH.astype(np.int32), 3)), family.log_marginal_by_column(n, S)[:, j]
        )


def test_only_priors_that_say_one_thing_of_all_columns_leave_some_out():
    data = Dataset(ALL, Gaussian())
    assert free_columns(Gaussian(), data).columns.tolist() == VARYING.tolist()
    assert free_columns(Gaussian(mean=np.zeros(ALL.shape[1])), data) is None
    assert free_columns(Gaussian(), Dataset(X, Gaussian())) is None
    assert free_columns(Gaussian(), Dataset(np.ones((9, 2)), Gaussian())) is None
    assert free_columns(DiagonalGaussian(), Dataset(ALL, DiagonalGaussian())) is None


def test_columns_that_others_tell():
    slopes = np.array([[2.0, -1.0], [0.0, 3.0]])
    rows = np.column_stack([X[:, :2], 5.0 + X[:, :2] @ slopes, X[:, :1]])
    data = Dataset(rows, Gaussian())
    free = free_columns(Gaussian(), data)
    assert free.columns.tolist() == [0, 1]
    np.testing.assert_allclose(free.back[2:, :2], np.vstack([slopes.T, [1.0, 0.0]]), atol=1e-9)
    noisy = rows + 1e-3 * np.random.default_rng(0).normal(size=rows.shape)
    assert free_columns(Gaussian(), Dataset(noisy, Gaussian())) is None
    odd = rows.copy()
    odd[-1, 2] += 1.0  # one row of all
    assert free_columns(Gaussian(), Dataset(odd, Gaussian())).columns.tolist() == [0, 1, 2]
    few = rows[:8]
    assert free_columns(Gaussian(), Dataset(few, Gaussian())) is None  # by chance


def test_what_is_found_in_free_columns_is_that_of_all():
    """Sums are those of the rows, but for the variance beside the free columns."""
    rows = np.column_stack([X[:, :2], 5.0 + X[:, 0] - X[:, 1], np.full(300, 3.0)])
    data = Dataset(rows, Gaussian())
    free = free_columns(Gaussian(), data)
    labels = TRUTH.astype(np.int32)
    _, S = data.statistics(labels, 3)
    part = free.part(data)
    found = free.all_sums(part.family, *part.statistics(labels, 3))
    more = unsvec(found[:, 4:] - S[:, 4:], 4)
    np.testing.assert_allclose(found[:, :4], S[:, :4], atol=1e-9)
    np.testing.assert_allclose(more, more.diagonal(axis1=1, axis2=2)[:, :, None] * np.eye(4), atol=1e-7)
    np.testing.assert_allclose(more[:, :2, :2], 0.0, atol=1e-7)
    again = free.all_columns(part.family)
    np.linalg.cholesky(again.scale)
    np.testing.assert_allclose(again.scale[:2, :2], data.family.scale[:2, :2])


@pytest.mark.parametrize("K", [None, 3])
def test_duplicates_and_sums_of_columns_change_no_label(K):
    rows = np.column_stack([X, X, X.sum(axis=1), 1.0 - X[:, 0]])
    plain, beside = (Mixture("gaussian", K, random_state=0).fit(each) for each in (X, rows))
    np.testing.assert_array_equal(plain.labels_, beside.labels_)
    assert (beside.predict(rows) == beside.labels_).mean() > 0.98
    within = beside.params_["covariance"]
    np.testing.assert_allclose(within[:, :3, 3:6], within[:, :3, :3], rtol=0.01, atol=1e-4)


@pytest.mark.parametrize("variance", ["auto", "shared", 0.7])
def test_the_spherical_law_is_that_of_the_other_columns(variance):
    beside, plain = (SphericalGaussian(variance=variance).bind(rows) for rows in (ALL, X))
    data, own = Dataset(ALL, beside), Dataset(X, plain)
    labels = TRUTH.astype(np.int32)
    (n, S), (_, T) = data.statistics(labels, 3), own.statistics(labels, 3)
    np.testing.assert_allclose(beside.log_marginal(n, S), plain.log_marginal(n, T), rtol=1e-9)
    np.testing.assert_allclose(beside.log_predictive(ALL, n, S), plain.log_predictive(X, n, T), rtol=1e-9)
    np.testing.assert_allclose(data.log_base, own.log_base, rtol=1e-9)
    for law in ("expected_natural", "map_natural"):
        (theta, g), (bare, h) = getattr(beside, law)(n, S), getattr(plain, law)(n, T)
        np.testing.assert_allclose(g, h, rtol=1e-9)
        np.testing.assert_allclose(theta[:, VARYING], bare[:, : len(VARYING)], rtol=1e-9, atol=1e-12)
        if variance != 0.7:
            np.testing.assert_allclose(beside.log_partition(theta), plain.log_partition(bare), rtol=1e-9)
            np.testing.assert_allclose(beside.log_prior(theta, g), plain.log_prior(bare, h), rtol=1e-9)
    theta, _ = beside.draw_natural(n, S, np.random.default_rng(0))
    rows = beside.sample(theta, 2, np.random.default_rng(1))
    np.testing.assert_allclose(np.delete(rows, VARYING, axis=1), np.delete(ALL[:6], VARYING, axis=1))


def test_a_diagonal_law_knows_constant_columns_whatever_is_learned():
    data = Dataset(ALL, DiagonalGaussian())
    assert np.flatnonzero(data.family.alike == 0.0).tolist() == VARYING.tolist()
    n, S = data.statistics(TRUTH.astype(np.int32), 3)
    for learned in (data.family.fit_hyper(n, S), data.family.update_hyper(n, S, np.random.default_rng(0))):
        assert (np.delete(learned.alike, VARYING) == 1.0).all()
    given = DiagonalGaussian(alike=False).bind(ALL)
    assert not given.alike.any()
    assert not given.constant_.any()
