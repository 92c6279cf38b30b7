"""EM of few rows by compiled modes goes the way of the kernel that stores its state."""

import numpy as np
import pytest

from expfam import Dataset, DiagonalGaussian, MixtureModel, Poisson, SymmetricDirichlet
from expfam.errors import CapabilityError
from expfam.families.modes import mode_law_of
from expfam.samplers import ExpectationMaximization
from expfam.samplers.uncollapsed.em_few_rows import FewRowsClimb
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
