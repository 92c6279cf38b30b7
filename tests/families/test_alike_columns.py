"""Columns that are alike in all clusters: their law, how they are learned, and what that finds."""

import warnings

import numpy as np
import pandas as pd
import pytest
from enumeration import set_partitions, total_variation
from scipy import stats
from sklearn.metrics import adjusted_rand_score

from expfam import Columns, Dataset, DiagonalGaussian, DirichletProcess, LogNormal, Mixture, MixtureModel, Poisson
from expfam.families.components import Components
from expfam.io.saved_values import check_family
from expfam.model.hyper_prior import HyperPrior, at_factors
from expfam.plugins.conformance import parametrize_with_checks
from expfam.samplers import CollapsedGibbs, Cycle, UpdateHyper

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(60, 4)) * [1.0, 2.0, 0.5, 3.0] + [0.0, 5.0, -2.0, 1.0]
LABELS = np.arange(60) % 3
HOLES = np.where(RNG.random(ROWS.shape) < 0.2, np.nan, ROWS)


@parametrize_with_checks(
    [
        DiagonalGaussian(alike=[False, True, True, False]),
        DiagonalGaussian(alike=[True, True, False, False], missing=True),
        LogNormal(alike=[True, False, False, True]),
    ]
)
def test_laws(family, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(family)


def bound(X, **settings):
    return Dataset(X, DiagonalGaussian(**settings))


@pytest.mark.parametrize("X", [ROWS, HOLES], ids=["whole", "holes"])
def test_such_columns_are_normal_with_the_moments_of_all_data(X):
    data = bound(X, alike=[False, True, False, True], missing=bool(np.isnan(X).any()))
    found = data.family.log_marginal_by_column(*data.statistics(LABELS, 3))[:, [1, 3]].sum(axis=0)
    mean, sd = np.nanmean(X, axis=0), np.nanstd(X, axis=0)
    logs = stats.norm.logpdf(X, mean, sd) + 0.5 * np.log(2.0 * np.pi)
    np.testing.assert_allclose(found, np.nansum(logs, axis=0)[[1, 3]], rtol=1e-10)


@pytest.mark.parametrize("X", [ROWS, HOLES], ids=["whole", "holes"])
def test_the_odds_are_those_of_the_prior_and_the_difference_of_evidences(X):
    data = bound(X, missing=bool(np.isnan(X).any()))
    n, S = data.statistics(LABELS, 3)
    family = data.family.fit_hyper(n, S, names=["mean_strength", "rate"])
    alike = family.with_hyper(alike=np.ones(4))
    gap = (alike.log_marginal_by_column(n, S) - family.log_marginal_by_column(n, S)).sum(axis=0)
    np.testing.assert_allclose(family.log_odds_given("alike", n, S) + np.log(60.0), gap, rtol=1e-9)


@pytest.mark.parametrize("X", [ROWS, HOLES], ids=["whole", "holes"])
def test_other_choices_are_those_of_new_components(X):
    """Caches have other sizes after the choice of a column has changed."""
    data = bound(X, missing=bool(np.isnan(X).any()))
    n, S = data.statistics(LABELS, 3)
    moved = Components(data.family, data, 3)
    moved.load(n, S)
    for choice in ([1, 0, 0, 1], [1, 1, 1, 1], [0, 0, 1, 0], [0, 0, 0, 0]):
        family = data.family.with_hyper(alike=np.array(choice, dtype=float))
        moved.rebind(family)
        fresh = Components(family, data, 3)
        fresh.load(n, S)
        found = moved.log_predictive_block(0, 60, 3)
        np.testing.assert_array_equal(found, fresh.log_predictive_block(0, 60, 3))
        np.testing.assert_allclose(found, family.log_predictive(X, n, S), rtol=1e-9)


@pytest.mark.parametrize("away", [1e9, 1e200])
@pytest.mark.parametrize("missing", [False, True])
def test_a_datum_far_away_in_such_a_column_has_the_cluster_of_the_others(away, missing):
    X = np.column_stack([ROWS[:, 0] + 20.0 * LABELS, ROWS[:, 1]])
    data = Dataset(X, DiagonalGaussian(alike=[False, True], missing=missing))
    scores = data.family.log_predictive(np.array([[20.0, away], [40.0, away]]), *data.statistics(LABELS, 3))
    assert np.isfinite(scores).all()
    assert scores.argmax(axis=1).tolist() == [1, 2]


# ---- the law of what is learned --------------------------------------------------------------------------------------

TINY = np.array([[0.1, 0.4], [0.2, -1.2], [1.9, 0.3], [2.1, 0.9]])


class WithoutOdds(DiagonalGaussian):
    """Wrong: the prior odds of a choice are left out of its draw."""

    name = "without_odds"

    def log_odds_of_yes(self, name):
        return 0.0


def visited(family, n_steps=6000):
    """How often a chain visits each partition with each choice of columns, and the exact posterior of both."""
    data = Dataset(TINY, family)
    model = MixtureModel(data.family, DirichletProcess(alpha=0.8))
    right = DiagonalGaussian(mean_strength=0.3, rate=0.2).bind(TINY)
    cells, logs = {}, []
    for choice in np.ndindex(2, 2):
        own = right.with_hyper(alike=np.array(choice, dtype=float))
        at = model.with_family(own)
        for partition in set_partitions(4):
            cells[partition, choice] = len(cells)
            logs.append(at.log_joint(Dataset(TINY, own), np.array(partition)) + own.log_hyper_prior(["alike"]))
    exact = np.exp(np.array(logs) - max(logs))
    kernel = Cycle(CollapsedGibbs(), UpdateHyper(family=("alike",), weights=False))
    state = kernel.init(model, data, seed=1)
    counts = np.zeros(len(cells))
    for _ in range(n_steps):
        kernel.step(state)
        counts[cells[tuple(map(int, state.partition)), tuple(state.model.family.alike.astype(int))]] += 1
    return counts / n_steps, exact / exact.sum()


def test_chains_visit_partitions_and_choices_as_the_posterior_says():
    found, exact = visited(DiagonalGaussian(mean_strength=0.3, rate=0.2))
    assert exact.max() < 0.5
    assert total_variation(found, exact) < 0.04
    found, exact = visited(WithoutOdds(mean_strength=0.3, rate=0.2))
    assert total_variation(found, exact) > 0.1


@pytest.mark.parametrize("missing", [False, True])
def test_the_update_keeps_the_prior(missing):
    """Choices and factors from their prior, data given them, three updates: they have their prior then."""
    rng, labels = np.random.default_rng(3), np.array([0, 0, 0, 1, 1, 2])
    prior = HyperPrior(
        MixtureModel(DiagonalGaussian(missing=missing), DirichletProcess()).bind(ROWS[:6]),
        ["rate", "alike"],
        weights=False,
    )
    chosen = []
    for _ in range(1500):
        family = prior.draw(rng).family
        F = family.n_statistics_
        theta, _ = family.draw_natural(np.zeros(3), np.zeros((3, F)), rng)
        X = np.concatenate([family.sample(theta[[k]], m, rng) for k, m in enumerate(np.bincount(labels))])
        S = np.array([family.sufficient_statistics(X[labels == k]).sum(axis=0) for k in range(3)])
        for _ in range(3):
            family = family.update_hyper(np.bincount(labels).astype(float), S, rng, names=["rate", "alike"])
        chosen.append(family.alike)
    share = np.mean(chosen, axis=0)
    expected = 1.0 / 7.0  # odds of one among six rows
    assert (np.abs(share - expected) < 4.5 * np.sqrt(expected * (1.0 - expected) / 1500)).all(), share


def test_the_mode_has_the_better_choice_of_each_column():
    X = np.column_stack([ROWS[:, :2], ROWS[:, 2] + 5.0 * LABELS])
    data = bound(X)
    n, S = data.statistics(LABELS, 3)
    family = data.family.fit_hyper(n, S)
    assert family.alike.tolist() == [1.0, 1.0, 0.0]
    names = list(family.learned_by_default)
    best = family.total_log_marginal(n, S) + family.log_hyper_prior(names)
    for j in range(3):
        other = family.with_hyper(alike=np.where(np.arange(3) == j, 1.0 - family.alike, family.alike))
        assert other.total_log_marginal(n, S) + other.log_hyper_prior(names) < best
    one = bound(X).family.fit_hyper(*data.statistics(np.zeros(60, dtype=int), 1))
    assert one.fit_hyper(n, S).alike.tolist() == family.alike.tolist()  # from whatever was learned before


# ---- in tables, draws and files --------------------------------------------------------------------------------------


def test_a_part_of_a_table_chooses_for_its_own_columns():
    rng = np.random.default_rng(0)
    X = np.column_stack([ROWS[:, 0], ROWS[:, 1] + 9.0 * LABELS, rng.poisson(4.0, 60), ROWS[:, 2:]])
    X[:7, 2] = X[:9, 3] = np.nan
    data = Dataset(X, Columns([(DiagonalGaussian(), (0, 1, 3, 4)), (Poisson(), (2,))]))
    n, S = data.statistics(LABELS, 3)
    family = data.family.fit_hyper(n, S)
    assert getattr(family, "gaussian_diag.alike").tolist() == [1.0, 0.0, 1.0, 1.0]
    drawn = data.family.update_hyper(n, S, np.random.default_rng(0), names=["gaussian_diag.alike"])
    assert getattr(drawn, "gaussian_diag.alike")[1] == 0.0
    alone = [part.family.log_hyper_prior(["alike"]) for part in family.parts if part.name == "gaussian_diag"]
    assert len(alone) == 1
    assert family.log_hyper_prior(["gaussian_diag.alike"]) == pytest.approx(sum(alone))


def test_draws_hold_choices_and_give_them_back(tmp_path):
    X = pd.DataFrame(np.column_stack([ROWS[:, :2], ROWS[:, 2] + 5.0 * LABELS]))
    fit = Mixture("gaussian_diag", 3, n_draws=20, random_state=0).fit(X)
    hyper = fit.posterior_.hyper
    assert {f"alike[{j}]" for j in range(3)} < set(hyper)
    assert set(np.unique(hyper["alike[0]"])) <= {0.0, 1.0}
    assert hyper["alike[0]"].mean() > 0.5 > hyper["alike[2]"].mean()
    fit.save(tmp_path / "fit.expfam", labels=True)
    again = Mixture.load(tmp_path / "fit.expfam")
    np.testing.assert_array_equal(again.family_.alike, fit.family_.alike)
    np.testing.assert_array_equal(again.posterior_.hyper["alike[2]"], hyper["alike[2]"])
    np.testing.assert_array_equal(again.predict(X), fit.predict(X))
    low = fit.posterior_.parameters(X, probability=0.9)["mean"].low
    assert np.isfinite(low).all()


def test_values_and_models_are_each_other_s_inverse():
    model = MixtureModel(DiagonalGaussian(), DirichletProcess()).bind(ROWS)
    prior = HyperPrior(model, ["rate", "alike"], weights=False)
    assert prior.names == ("rate", *(f"alike[{j}]" for j in range(4)))
    low, high = prior.limits()
    assert low[1:].tolist() == [0.0] * 4
    assert high[1:].tolist() == [1.0] * 4
    at = prior.model_at([0.5, 0.0, 1.0, 0.4, 0.6])
    np.testing.assert_array_equal(at.family.alike, [0.0, 1.0, 0.0, 1.0])
    np.testing.assert_allclose(prior.values(at), [0.5, 0.0, 1.0, 0.0, 1.0])
    assert at_factors(model.family, {"alike[2]": 1.0}).alike.tolist() == [0.0, 0.0, 1.0, 0.0]


def test_what_is_no_choice_is_refused():
    with pytest.raises(ValueError, match=r"alike must be 'auto', True or False, or one of these per column; got 0\.5"):
        DiagonalGaussian(alike=0.5)
    with pytest.raises(ValueError, match=r"alike must be a number or have length 4; got shape \(2,\)"):
        DiagonalGaussian(alike=[True, False]).bind(ROWS)


def test_an_altered_file_is_refused():
    family = DiagonalGaussian().bind(ROWS).with_hyper(alike=np.array([0.0, 0.5, 0.0, 0.0]))
    with pytest.raises(ValueError, match="gaussian_diag: alike must be 'auto', True or False"):
        check_family(family)


def test_a_family_that_does_not_say_what_a_yes_gains_is_told_so():
    class Silent(Poisson):
        hyper = {"shape": "positive", "rate": "positive", "own": "yes_no"}  # noqa: RUF012
        own = 0.0

    data = Dataset(np.array([[1], [3], [8]]), Silent())
    with pytest.raises(NotImplementedError, match="Silent has no log_odds_given: write it for 'own'"):
        data.family.update_hyper(*data.statistics(np.array([0, 0, 1]), 2), np.random.default_rng(0), names=["own"])


# ---- what it is for --------------------------------------------------------------------------------------------------


def test_the_columns_that_tell_are_known():
    rng = np.random.default_rng(0)
    labels = rng.integers(10, size=800)
    X = rng.normal(size=(800, 50))
    X[:, 7] += 10.0 * labels
    fit = Mixture("gaussian_diag", random_state=0).fit(X)
    assert adjusted_rand_score(labels, fit.labels_) > 0.97
    assert np.flatnonzero(fit.family_.alike == 0.0).tolist() == [7]
    assert "49 of 50 columns are alike in all clusters: all but column 7" in fit.summary()


def test_without_the_choice_it_is_not_found():
    rng = np.random.default_rng(0)
    labels = rng.integers(5, size=600)
    X = rng.normal(size=(600, 100))
    X[:, 7] += 30.0 * labels
    fit = Mixture(DiagonalGaussian(alike=False), 5, random_state=0).fit(X)
    assert adjusted_rand_score(labels, fit.labels_) < 0.5
    assert "alike" not in "".join(getattr(fit.family_, "hyper_factors_", {}))
