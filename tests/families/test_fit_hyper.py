"""Hyper-parameters at the mode of their log target, given a partition."""

import numpy as np
import pytest

from expfam import Columns, Dataset, DiagonalGaussian, Gaussian, Poisson, SphericalGaussian, load_family
from expfam.families.columns.hyper import PartHyper
from expfam.families.slice_sampling import climb_to_mode

RNG = np.random.default_rng(0)
LABELS = np.arange(60) % 4
REAL = RNG.normal(size=(4, 3))[LABELS] * 4.0 + RNG.normal(size=(60, 3))
COUNTS = RNG.poisson(RNG.gamma(2.0, 4.0, size=(4, 3))[LABELS])


def target(family, n, S):
    return family.total_log_marginal(n, S) + family.log_hyper_prior(tuple(family.hyper))


@pytest.mark.parametrize(
    ("family", "X"),
    [
        (DiagonalGaussian(), REAL),
        (DiagonalGaussian(missing=True), REAL),
        (Gaussian(), REAL),
        (SphericalGaussian(), REAL),
        (SphericalGaussian(variance="shared"), REAL),
        (load_family("gaussian_zero"), REAL),
        (load_family("lognormal"), np.exp(REAL / 4.0)),
        (Poisson(), COUNTS),
        (load_family("negative_binomial"), COUNTS),
        (load_family("multinomial"), COUNTS),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_the_mode_is_that_of_a_grid(family, X):
    data = Dataset(X, family)
    n, S = data.statistics(LABELS, 4)
    fitted = data.family.fit_hyper(n, S)
    reached = target(fitted, n, S)
    assert reached >= target(data.family, n, S)
    for name in fitted.hyper_factors_:
        low, high = np.log(data.family.hyper_bounds(name))
        now = np.log(fitted.hyper_factors_[name])
        for t in np.clip(now + np.linspace(-6.0, 6.0, 49), low, high):
            assert target(fitted._at_factor(name, t), n, S) <= reached + 0.3
    assert fitted == data.family.fit_hyper(n, S)  # nothing is drawn


@pytest.mark.parametrize(
    "family", [DiagonalGaussian(mean_strength=[0.1, 3.0, 1e-4], shape=[2.0, 3.5, 2.0]), DiagonalGaussian(missing=True)]
)
@pytest.mark.parametrize("name", ["mean_strength", "rate"])
def test_the_compiled_climb_is_that_of_the_definition(family, name):
    X = np.where(RNG.random(REAL.shape) < 0.1, np.nan, REAL) if family.missing else REAL
    data = Dataset(X, family)
    n, S = data.statistics(LABELS, 4)
    evidence, target = data.family._evidence_along(name, n, S), data.family._target_along(name, n, S)
    for t, low, high in ((0.0, -14.0, 14.0), (2.0, -14.0, 14.0), (-5.0, -6.0, -4.0), (3.0, 3.0, 3.5)):
        assert evidence.climb(t, low, high) == pytest.approx(climb_to_mode(target, t, low=low, high=high), abs=1e-9)
    S[1, -1] = -1e9  # sums of squares below zero
    broken = data.family._evidence_along(name, n, S)
    assert np.isnan(broken(0.0))
    assert np.isnan(broken.climb(0.0, -14.0, 14.0))


@pytest.mark.parametrize(
    ("family", "name"),
    [(Gaussian(), "scale"), (Gaussian(mean_strength=2.0), "mean_strength"), (load_family("gaussian_zero"), "scale")],
    ids=["scale", "strength", "zero mean"],
)
def test_evidence_along_a_full_covariance_is_the_total(family, name):
    data = Dataset(REAL, family)
    n, S = data.statistics(LABELS, 4)
    evidence, target = data.family._evidence_along(name, n, S), data.family._target_along(name, n, S)
    places = [-4.0, -1.0, 0.0, 0.7, 3.0]
    total = np.array([data.family._at_factor(name, t).total_log_marginal(n, S) for t in places])
    along = np.array([evidence(t) for t in places])
    np.testing.assert_allclose(along - along[0], total - total[0], rtol=1e-9, atol=1e-8)
    assert evidence.climb(0.0, -9.0, 9.0) == pytest.approx(climb_to_mode(target, 0.0, low=-9.0, high=9.0), abs=1e-9)


def test_only_named_hyper_parameters_move():
    data = Dataset(REAL, DiagonalGaussian())
    fitted = data.family.fit_hyper(*data.statistics(LABELS, 4), names=["rate"])
    assert fitted.mean_strength is data.family.mean_strength or np.array_equal(
        fitted.mean_strength, data.family.mean_strength
    )
    assert not np.allclose(fitted.rate, data.family.rate)


@pytest.mark.parametrize("mode", [-7.3, -0.2, 0.0, 1.1, 25.0])
def test_the_climb_reaches_a_mode_within_bounds(mode):
    calls = []

    def parabola(t):
        calls.append(t)
        return -((t - mode) ** 2)

    assert climb_to_mode(parabola, 0.5) == pytest.approx(mode, abs=0.05)
    assert len(calls) < 40
    assert climb_to_mode(parabola, 0.5, low=-1.0, high=2.0) == pytest.approx(np.clip(mode, -1.0, 2.0), abs=0.05)
    assert climb_to_mode(lambda t: -abs(t - mode), 0.5) == pytest.approx(mode, abs=0.05)


@pytest.mark.parametrize("learn", ["fit_hyper", "update_hyper"])
def test_parts_alone_learn_what_the_table_as_a_whole_would(learn):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 4)) + 3.0 * (np.arange(60) % 3)[:, None]
    X[:, 2:] = rng.poisson(4.0, (60, 2))
    X[[3, 8, 20], 0] = np.nan
    family = Columns([(DiagonalGaussian(), (0, 1)), (Poisson(), (2,)), (Poisson(), (3,))]).bind(X)
    n, S = Dataset(X, family).statistics(np.arange(60) % 3, 3)
    chance, again = (() if learn == "fit_hyper" else (np.random.default_rng(0),) for _ in range(2))
    names = [name for name, kind in family.hyper.items() if kind == "positive"]
    alone = getattr(family, learn)(n, S, *chance, names=names)
    whole = getattr(super(PartHyper, family), learn)(n, S, *again, names=names)
    assert alone.hyper_factors_ == whole.hyper_factors_
    assert set(alone.hyper_factors_) == set(names)
    assert alone == whole
