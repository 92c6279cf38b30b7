"""Angles: the law by numerical integration, exact chains against enumeration, and the family's laws."""

import numpy as np
import pytest
from enumeration import exact_posterior
from scipy import integrate, special, stats
from visits import LIMIT, run_chain, worst_t

from expfam import Dataset, DirichletProcess, MixtureModel, SymmetricDirichlet, VonMises
from expfam.errors import DataError
from expfam.families.base import Family
from expfam.families.components import Components
from expfam.plugins.conformance import parametrize_with_checks
from expfam.samplers import CollapsedGibbs, UncollapsedGibbs

WIND = np.array([[350.0], [8.0], [-5.0], [171.0], [188.0], [200.0]])


@parametrize_with_checks(
    [
        VonMises(),
        VonMises(unit="radians", kappa=3.0),
        VonMises(unit=7.0, kappa="auto", strength=0.5, mean=2.0),
        VonMises(kappa=[1.0, 2.0, 3.0, 4.0]),
    ]
)
def test_laws(family, check):
    check(family)


def log_evidence(family, x):
    """Log evidence of angles in radians by integration over the mean angle, summed over the nodes of kappa."""
    mean, strength = family.radians(family.mean)[0], family.strength[0]
    nodes = family.kappa_nodes_[0] if family.kappa == "cluster" else np.atleast_1d(family.kappa)
    weights = np.exp(family.kappa_log_weights_[0]) if family.kappa == "cluster" else np.ones(1)

    def density(mu, kappa):
        prior = np.exp(strength * np.cos(mu - mean)) / (2 * np.pi * special.i0(strength))
        return prior * np.prod(np.exp(kappa * (np.cos(x - mu) - 1))) / (2 * np.pi * special.i0e(kappa)) ** len(x)

    parts = [integrate.quad(density, -np.pi, np.pi, args=(kappa,), points=[0.0], limit=500)[0] for kappa in nodes]
    return float(np.log(weights @ parts))


@pytest.mark.parametrize("kappa", ["cluster", 4.0])
def test_the_evidence_is_the_integral_over_the_mean_angle(kappa):
    family = VonMises(kappa=kappa, strength=0.7, mean=30.0).bind(WIND)
    S = family.sufficient_statistics(WIND[:4]).sum(axis=0, keepdims=True)
    expected = log_evidence(family, family.radians(WIND[:4, 0]))
    assert family.log_marginal(np.array([4.0]), S)[0] == pytest.approx(expected, abs=1e-7)


def test_densities_are_per_unit_of_the_data():
    """The predictive integrates to 1 over a full turn, in each unit."""
    for unit, turn in (("degrees", 360.0), ("radians", 2 * np.pi), ("hours", 24.0), (7.0, 7.0)):
        X = WIND * (turn / 360.0)
        family = VonMises(unit=unit, kappa=2.0).bind(X)
        S = family.sufficient_statistics(X[:3]).sum(axis=0, keepdims=True)
        grid = (np.arange(4000) + 0.5)[:, None] * (turn / 4000)
        density = np.exp(family.log_predictive(grid, np.array([3.0]), S)[:, 0] + family.log_base(grid))
        assert density.sum() * turn / 4000 == pytest.approx(1.0, abs=1e-9)


def test_turns_and_units_change_nothing():
    X = np.hstack([WIND, WIND[::-1] + 40.0])
    degrees, radians = VonMises().bind(X), VonMises(unit="radians").bind(np.deg2rad(X + 720.0))
    n, S = np.array([6.0]), degrees.sufficient_statistics(X).sum(axis=0, keepdims=True)
    np.testing.assert_allclose(radians.sufficient_statistics(np.deg2rad(X + 720.0)).sum(axis=0), S[0], atol=1e-9)
    np.testing.assert_allclose(radians.log_marginal(n, S), degrees.log_marginal(n, S), rtol=1e-9)
    found, other = (family.to_params(*family.map_natural(n, S)) for family in (degrees, radians))
    np.testing.assert_allclose(np.rad2deg(other["mean"]), found["mean"], rtol=1e-9)
    np.testing.assert_allclose(np.rad2deg(other["sd"]), found["sd"], rtol=1e-9)


def test_columns_are_independent():
    X = np.hstack([WIND, WIND[::-1] + 40.0])
    family = VonMises().bind(X)
    n, S = np.array([2.0, 4.0]), np.vstack([family.sufficient_statistics(X)[:2].sum(axis=0)] * 2)
    by_column = family.log_marginal_by_column(n, S)
    for j in range(2):
        own, places = family.of_columns([j])
        np.testing.assert_array_equal(own.log_marginal(n, S[:, places]), by_column[:, j])


@pytest.mark.parametrize("kappa", ["cluster", [2.0, 3.0, 40.0]])
def test_the_evidence_of_columns_is_that_of_their_circles(kappa):
    X = np.random.default_rng(0).uniform(0.0, 360.0, (30, 3))
    family = VonMises(kappa=kappa).bind(X)
    W = np.random.default_rng(1).integers(0, 2, (5, 30)).astype(float)
    W[0] = 0.0
    n, S = W.sum(axis=1), W @ family.sufficient_statistics(X)
    expected = np.stack([family.circle(j).log_marginal(n, S[:, [j, 3 + j]]) for j in range(3)], axis=1)
    np.testing.assert_allclose(family.log_marginal_by_column(n, S), expected, rtol=1e-12, atol=1e-12)
    assert (expected[0] == 0.0).all()


def test_compiled_components_are_those_of_the_functions():
    family = VonMises().bind(WIND)
    labels = np.array([0, 0, 0, 1, 1, 1])
    compiled = Components(family, Dataset(WIND, family), 3)
    compiled.refresh(labels)
    n = np.array([3.0, 3.0, 0.0])
    S = np.zeros((3, 2))
    np.add.at(S, labels, family.sufficient_statistics(WIND))
    plain = Family.log_predictive(family, WIND, n, S)
    np.testing.assert_allclose(compiled.log_predictive_block(0, 6, 3), plain, rtol=0, atol=1e-11)
    compiled.rebind(family.with_hyper(strength=2.0))
    plain = Family.log_predictive(family.with_hyper(strength=2.0), WIND, n, S)
    np.testing.assert_allclose(compiled.log_predictive_block(0, 6, 3), plain, rtol=0, atol=1e-11)


@pytest.mark.parametrize("kappa", ["cluster", 3.0])
@pytest.mark.parametrize(
    ("kernel", "weights"),
    [(CollapsedGibbs(), DirichletProcess(0.9)), (UncollapsedGibbs(), SymmetricDirichlet(3, 1.0))],
)
def test_chains_visit_partitions_as_often_as_the_law_says(kernel, weights, kappa):
    X = WIND[:4]
    model = MixtureModel(VonMises(kappa=kappa, strength=0.5).bind(X), weights)
    partitions, pi = exact_posterior(model, X)
    assert worst_t(run_chain(kernel, model, X, 3000), partitions, pi) < LIMIT


def test_draws_have_the_moments_of_scipy():
    family = VonMises(kappa=2.5, mean=20.0).bind(WIND)
    theta = 2.5 * np.array([[np.cos(1.0), np.sin(1.0)]])
    X = family.radians(family.sample(theta, 20_000, np.random.default_rng(0)))[:, 0]
    assert stats.kstest((X - 1.0 + np.pi) % (2 * np.pi) - np.pi, stats.vonmises(2.5).cdf).pvalue > 1e-3


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"unit": "gon"}, "unit must be one of"),
        ({"unit": -1.0}, "unit must be positive and finite"),
        ({"kappa": "shared"}, "kappa must be 'cluster', 'auto' or positive numbers; got 'shared'"),
        ({"mean": np.nan}, 'mean must be "auto" or finite angles'),
        ({"strength": 0.0}, "strength must be positive"),
    ],
)
def test_settings_that_mean_nothing_are_refused(settings, said):
    with pytest.raises(ValueError, match=said):
        VonMises(**settings)


def test_a_number_for_each_column_is_asked_for():
    with pytest.raises(DataError, match="kappa has 2 values for data of 1 column"):
        VonMises(kappa=[1.0, 2.0]).bind(WIND)
