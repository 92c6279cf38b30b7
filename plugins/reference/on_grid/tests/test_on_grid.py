import numpy as np
import pytest
from expfam_on_grid import StudentT, ZeroInflatedPoisson
from scipy import integrate, stats
from scipy.special import logsumexp

from expfam import Mixture, load_family
from expfam.plugins.conformance import parametrize_with_checks


@parametrize_with_checks(
    [
        StudentT(dof=3.0, n_locations=6, n_scales=3),
        ZeroInflatedPoisson(n_rates=5, n_shares=3),
    ]
)
def test_laws(family, check):
    check(family)


def test_they_are_found_by_name():
    assert load_family("student_t", dof=5.0) == StudentT(dof=5.0)
    assert load_family("zero_inflated_poisson") == ZeroInflatedPoisson()


def test_the_evidence_is_the_mean_of_the_likelihood_over_the_grid():
    X = np.array([[0.3], [-1.2], [0.8], [40.0]])
    family = StudentT(dof=3.0, n_locations=9, n_scales=4).bind(X)
    grid = family.points()
    known = stats.t(3.0, grid["location"][:, 0], grid["scale"][:, 0]).logpdf(X).sum(axis=0)
    S = family.sufficient_statistics(X).sum(axis=0, keepdims=True)
    assert family.log_marginal(np.array([4.0]), S)[0] == pytest.approx(logsumexp(known) - np.log(36), rel=1e-12)


def test_a_fine_grid_agrees_with_the_integral():
    X = stats.norm.rvs(loc=2.0, size=(12, 1), random_state=0)
    family = StudentT(dof=4.0, n_locations=400, n_scales=60).bind(X)
    S = family.sufficient_statistics(X).sum(axis=0, keepdims=True)
    low, width = family.low_[0], family.width_[0]
    best = stats.t.logpdf(X, 4.0, 2.0, 1.0).sum()

    def likelihood(log_scale, location):
        return np.exp(stats.t.logpdf(X, 4.0, location, np.exp(log_scale)).sum() - best)

    steps = np.log(width / 400), np.log(width / 2)
    area, _ = integrate.dblquad(likelihood, low, low + width, *steps, epsabs=1e-4, epsrel=1e-3)
    known = np.log(area / (width * (steps[1] - steps[0]))) + best
    assert family.log_marginal(np.array([12.0]), S)[0] == pytest.approx(known, abs=0.02)


def test_the_zeros_of_a_poisson_are_no_extra_zeros():
    X = np.arange(8)[:, None]
    family = ZeroInflatedPoisson(n_rates=4, n_shares=1).bind(X)
    known = stats.poisson(family.points()["rate"][:, 0]).logpmf(X)
    np.testing.assert_allclose(family.sufficient_statistics(X), known, rtol=1e-12)


def test_far_rows_open_no_clusters():
    rng = np.random.default_rng(0)
    kind = np.repeat([0, 1], 80)
    X = np.array([[0.0, 0.0], [12.0, 12.0]])[kind] + rng.standard_t(2.0, size=(160, 2))
    family = StudentT(dof=2.0, n_locations=16, n_scales=5)
    mixture = Mixture(family, sampler="gibbs", n_steps=10, start="kmeans", random_state=0).fit(X)
    assert np.sort(mixture.cluster_sizes_)[-2:].sum() >= 152
    assert Mixture("gaussian_diag", sampler="gibbs", n_steps=10, random_state=0).fit(X).n_components_ > 4


@pytest.mark.parametrize("sampler", ["gibbs", "em", "variational", "uncollapsed_gibbs"])
def test_extra_zeros_make_no_cluster_of_zeros(sampler):
    rng = np.random.default_rng(0)
    kind = np.repeat([0, 1], 75)
    rates = np.array([[4.0, 20.0, 20.0], [20.0, 4.0, 4.0]])
    X = rng.poisson(rates[kind]) * (rng.random((150, 3)) > 0.3)
    family = ZeroInflatedPoisson(n_rates=16, n_shares=5)
    start = np.where(rng.random(150) < 0.2, 1 - kind, kind)
    mixture = Mixture(family, 2, sampler=sampler, n_steps=15, start=start, random_state=0).fit(X)
    told = X.any(axis=1)  # nothing tells the kind of a row of zeros
    agreement = (mixture.labels_ == kind)[told].mean()
    assert max(agreement, 1.0 - agreement) > 0.93
    assert mixture.params_["share"].mean() == pytest.approx(0.3, abs=0.12)
