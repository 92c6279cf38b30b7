"""EM of few rows by compiled modes goes the way of the kernel that stores its state."""

import numpy as np
import pytest
from instruction_sets import check_sets_agree
from scipy.special import logsumexp

from expfam import Dataset, DiagonalGaussian, MixtureModel, Poisson, SymmetricDirichlet
from expfam.errors import CapabilityError
from expfam.families.modes import mode_law_of
from expfam.samplers import ExpectationMaximization
from expfam.samplers.uncollapsed.em_few_rows import (
    FewRowsClimb,
    expectation_of_few_rows,
    has_few_rows,
    may_climb_at_once,
)
from expfam.samplers.warm_starts.em_race import best_by_em


def overlapping(seed=0, n_columns=3):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(60, n_columns)) + np.repeat([[0.0], [1.5], [4.0]], 20, axis=0)


def bound(alike=False, weight=None):
    family = DiagonalGaussian(alike=[True, False, False] if alike else False, mean=0.5, shape=[1.0, 2.0, 3.0])
    return Dataset(overlapping(), family, weight=weight)


@pytest.mark.parametrize("alike", [False, True])
def test_modes_and_prior_densities_are_those_of_the_family(alike):
    data = bound(alike)
    n, S = data.statistics(np.arange(60) % 4, 6)
    theta, g = data.family.map_natural(n, S)
    density, law = data.family.log_prior(theta, g), mode_law_of(data.family)
    for k in range(6):  # the last two clusters are empty
        own, own_g = law.mode(n[k], S[k])
        np.testing.assert_allclose(own, theta[k], rtol=1e-12, atol=1e-12)
        assert own_g == pytest.approx(g[k], rel=1e-12)
        assert law.log_prior(own, own_g) == pytest.approx(density[k], rel=1e-12)
    assert law.log_prior(-theta[0], g[0]) == -np.inf or alike


def test_a_family_with_another_mode_or_holes_has_no_compiled_one():
    class Wide(DiagonalGaussian):
        def map_natural(self, n, S):
            theta, g = super().map_natural(n, S)
            return 0.5 * theta, g

    X = overlapping()
    assert mode_law_of(Wide().bind(X)) is None
    assert mode_law_of(DiagonalGaussian(missing=True).bind(X)) is None
    assert mode_law_of(Poisson().bind(np.abs(X).astype(int))) is None
    with pytest.raises(FloatingPointError, match="not finite"):
        mode_law_of(DiagonalGaussian().bind(X)).mode(np.nan, np.zeros(6))


@pytest.mark.parametrize("weight", [None, np.linspace(0.5, 3.0, 60)])
@pytest.mark.parametrize("alike", [False, True])
def test_steps_are_those_of_the_kernel(alike, weight):
    data, labels = bound(alike, weight), np.arange(60) % 3
    weights = SymmetricDirichlet(3, 0.7)
    kernel = ExpectationMaximization(tol=1e-3)
    state = kernel.init(MixtureModel(data.family, weights), data, seed=0, start=labels)
    climb = FewRowsClimb(mode_law_of(data.family), data, labels, weights, tol=1e-3)
    assert climb.log_joint == -np.inf
    n_steps = 0
    while not state.converged:
        assert climb.step() == kernel.move(state)[1]
        n_steps += 1
        assert climb.log_joint == pytest.approx(state.log_joint, rel=1e-10)
        np.testing.assert_array_equal(climb.labels, state.labels)
        assert climb.converged == state.converged
    assert n_steps > 3
    assert climb.step() == 0


def test_labels_that_it_was_given_or_has_shown_do_not_change():
    data, labels = bound(), (np.arange(60) % 3).astype(np.int32)
    climb = FewRowsClimb(mode_law_of(data.family), data, labels, SymmetricDirichlet(3, 1.0), tol=0.0)
    shown = climb.labels
    before = shown.copy()
    for _ in range(4):
        climb.step()
    np.testing.assert_array_equal(shown, before)
    np.testing.assert_array_equal(labels, np.arange(60) % 3)


def test_labels_out_of_range_and_impossible_clusters_are_refused():
    data, weights = bound(), SymmetricDirichlet(2, 1.0)
    with pytest.raises(ValueError, match=r"60 numbers from 0 to 1"):
        FewRowsClimb(mode_law_of(data.family), data, np.arange(60) % 3, weights, tol=0.0)
    broken = data.family.with_hyper(rate=[1.0, np.inf, 1.0])
    climb = FewRowsClimb(mode_law_of(broken), data, np.arange(60) % 2, weights, tol=0.0)
    with pytest.raises(FloatingPointError, match="cluster 0"):
        climb.step()
    model = MixtureModel(data.family, weights)
    with pytest.raises(CapabilityError, match="3 starting clusters"):
        best_by_em(model, data, {"three": np.arange(60) % 3}, seed=0)


def soft(scores, phi, weight):
    """Counts, sums, log likelihood and labels by rows of log weights (N, K), from plain definitions."""
    best = scores.max(axis=1, keepdims=True)
    shares = np.exp(scores - best)
    shares *= weight[:, None] / shares.sum(axis=1, keepdims=True)
    log_likelihood = (weight * logsumexp(scores, axis=1)).sum()
    return shares.sum(axis=0), shares.T @ phi, log_likelihood, scores.argmax(axis=1)


@pytest.mark.parametrize("K", [1, 7, 8, 9, 20])
@pytest.mark.parametrize("d", [1, 3, 8])
def test_sums_and_labels_are_those_of_plain_definitions(K, d):
    """Numbers of clusters on either side of those that are scored together."""
    rng = np.random.default_rng(10 * K + d)
    weight = rng.uniform(0.2, 3.0, size=50)
    data = Dataset(rng.normal(size=(50, d)), DiagonalGaussian(), weight=weight)
    phi, Theta = data.phi(0, 50), 3.0 * rng.normal(size=(K, data.n_statistics))
    Theta[K // 2] = Theta[0]  # of equal clusters the first one is the likeliest
    G, log_pi = rng.normal(size=K), np.full(K, -np.log(K))
    G[K // 2] = G[0]
    want = soft(log_pi - G + phi @ Theta.T, phi, weight)
    got = expectation_of_few_rows(data, Theta, G, log_pi)
    np.testing.assert_array_equal(got[3], want[3])
    for own, other in zip(got[:3], want[:3]):
        np.testing.assert_allclose(own, other, rtol=1e-11, atol=1e-11)


def test_parameters_of_words_that_a_row_does_not_have_cost_it_nothing():
    X = np.array([[3, 0, 1], [0, 2, 0], [1, 1, 1]])
    data = Dataset(X, Poisson())
    Theta, zeros = np.array([[0.1, -np.inf, 0.3], [-np.inf, 0.5, -1.0], [0.2, 0.1, 0.0]]), np.zeros(3)
    n, _, log_likelihood, labels = expectation_of_few_rows(data, Theta, zeros, zeros)
    phi = data.phi(0, 3)
    scores = np.array([[(p[p != 0] * t[p != 0]).sum() for t in Theta] for p in phi])
    want = soft(scores, np.nan_to_num(phi), np.ones(3))
    np.testing.assert_allclose(n, want[0], rtol=1e-12)
    assert log_likelihood == pytest.approx(want[2], rel=1e-12)
    np.testing.assert_array_equal(labels, want[3])


def test_a_race_of_more_rows_goes_the_same_way():
    """Rows that `ExpectationMaximization` weighs in single precision, block by block."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(3000, 4)) + 2.5 * rng.integers(0, 10, 3000)[:, None]
    data, weights, labels = Dataset(X, DiagonalGaussian()), SymmetricDirichlet(10, 1.0), rng.integers(0, 10, 3000)
    assert may_climb_at_once(data, 10)
    assert not has_few_rows(data, 10)
    kernel = ExpectationMaximization(tol=1e-3)
    state = kernel.init(MixtureModel(data.family, weights), data, seed=0, start=labels)
    climb = FewRowsClimb(mode_law_of(data.family), data, labels, weights, tol=1e-3)
    for _ in range(12):
        kernel.move(state)
        climb.step()
    assert climb.log_joint == pytest.approx(state.log_joint, rel=1e-6)
    assert np.mean(climb.labels != state.labels) < 1e-3


def test_instruction_sets_agree(tmp_path):
    code = (
        "import sys, numpy as np\n"
        "from expfam import Dataset, DiagonalGaussian\n"
        "from expfam.samplers.uncollapsed.em_few_rows import expectation_of_few_rows\n"
        "rng = np.random.default_rng(0)\n"
        "data, found = Dataset(rng.normal(size=(40, 5)), DiagonalGaussian()), []\n"
        "for K in (1, 8, 11):\n"
        "    zeros = np.zeros(K)\n"
        "    n, S, *others = expectation_of_few_rows(data, rng.normal(size=(K, 10)), zeros, zeros)\n"
        "    found += [n, S.ravel(), np.hstack(others)]\n"
        "np.save(sys.argv[1], np.concatenate(found))\n"
    )
    check_sets_agree(code, tmp_path, rtol=1e-12, atol=1e-12)
