"""Hyper-parameters that are drawn together with the partition, in the steps that count."""

import numpy as np
import pytest
from sklearn.datasets import load_iris

from expfam import DirichletProcess, Mixture, PartitionPosterior, PitmanYor, Poisson, SymmetricDirichlet, check_model
from expfam.errors import ArchiveError
from expfam.fitting.drawn_hyper import kernel_of_draws
from expfam.model.data import Dataset
from expfam.model.hyper_prior import HyperPrior, at_factors
from expfam.model.mixture import MixtureModel
from expfam.samplers import (
    CollapsedGibbs,
    Cycle,
    ExpectationMaximization,
    FastEx,
    SparseVariational,
    StochasticEM,
    UncollapsedGibbs,
    UpdateHyper,
)
from expfam.samplers.hyper.record import prior_of_updates, spread_hyper

X = load_iris().data
COUNTS = np.random.default_rng(0).poisson(np.repeat([[2, 9], [9, 2], [5, 5]], 30, axis=0))
MIXED = np.c_[X[:, 0], COUNTS[np.arange(150) % 90, 0]]

pytestmark = pytest.mark.filterwarnings("ignore:Mixture. [0-9] chains:sklearn.exceptions.ConvergenceWarning")
ENOUGH = {"n_steps": 30, "n_warmup": 10, "random_state": 0}
NAMES = {"mean_strength_factor", "scale_factor"}


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"n_components": 3},
        {"sampler": "gibbs", **ENOUGH},
        {"sampler": "split_merge", **ENOUGH},
        {"sampler": FastEx(mode="crossfit"), "n_components": 8, **ENOUGH},
        {"sampler": UncollapsedGibbs(), "n_components": 3, **ENOUGH},
        {"sampler": "canopy", "n_components": 3, **ENOUGH},
    ],
)
def test_each_chain_draws_its_own(settings):
    fit = Mixture("gaussian", n_chains=3, n_draws=60, **{"random_state": 0} | settings).fit(X)
    posterior = fit.posterior_
    assert set(posterior.hyper) == NAMES
    for values in posterior.hyper.values():
        chains = [values[posterior.chain == chain] for chain in range(3)]
        assert all(len(np.unique(chain)) > 10 for chain in chains)
        assert not np.intersect1d(chains[0], chains[1]).size
    assert set(posterior.diagnostics.scalars) >= NAMES
    assert {*NAMES, "pairs", "log_joint", "n_clusters"} == set(posterior.diagnostics.judged)
    assert "scale_factor" in str(posterior.diagnostics)
    assert np.isfinite(posterior.diagnostics.scalars["scale_factor"].bulk_ess)


@pytest.mark.parametrize("settings", [{}, {"sampler": "gibbs", **ENOUGH}])
def test_nothing_depends_on_threads(settings):
    fits = [Mixture("gaussian", n_chains=3, n_threads=n, **{"random_state": 3} | settings).fit(X) for n in (1, 2, 4)]
    for other in fits[1:]:
        for name, values in fits[0].posterior_.hyper.items():
            np.testing.assert_array_equal(other.posterior_.hyper[name], values)
        assert repr(other.family_) == repr(fits[0].family_)


@pytest.mark.parametrize("settings", [{}, {"n_components": 3}, {"sampler": "gibbs", **ENOUGH}])
def test_without_draws_the_steps_that_count_have_one_value(settings):
    seen = []
    settings = {"random_state": 0} | settings
    fit = Mixture("gaussian", callbacks=[lambda info, state: seen.append(repr(state.model.family))], **settings).fit(X)
    assert len(set(seen[fit.trace_.n_warmup :])) == 1
    if len(settings) > 1:
        assert repr(fit.family_) == seen[-1]
    else:  # of an open number of clusters they fit the labels
        fitted = fit.family_.fit_hyper(fit.n_, fit.S_, names=["mean_strength", "scale"])
        assert fitted.total_log_marginal(fit.n_, fit.S_) == pytest.approx(
            fit.family_.total_log_marginal(fit.n_, fit.S_), abs=0.1
        )


def test_what_was_given_is_not_drawn():
    given = Mixture(Poisson(shape=2.0, rate=0.4), n_chains=2, **ENOUGH).fit(COUNTS)
    assert given.posterior_.hyper == {}
    assert set(given.posterior_.diagnostics.judged) == {"pairs", "log_joint", "n_clusters"}
    asked = Mixture(Poisson(shape=2.0, rate=0.4), n_chains=2, learn_hyper=True, **ENOUGH).fit(COUNTS)
    assert set(asked.posterior_.hyper) == {"shape_factor", "rate_factor"}


def test_tables_name_the_part():
    fit = Mixture(n_draws=20, family="auto", **ENOUGH).fit(np.where(np.arange(300).reshape(150, 2) == 7, np.nan, MIXED))
    assert "gaussian_diag.rate_factor" in fit.posterior_.hyper


def test_those_of_the_weights_are_kept_where_a_kernel_draws_them():
    kernel = Cycle(CollapsedGibbs(), UpdateHyper(family=False))
    fit = Mixture("poisson", weights=PitmanYor(1.0, 0.2), sampler=kernel, n_chains=2, **ENOUGH).fit(COUNTS)
    hyper = fit.posterior_.hyper
    assert set(hyper) == {"alpha", "discount"}
    assert 0 < hyper["discount"].min() < hyper["discount"].max() < 1
    best = max(fit.traces_, key=lambda trace: trace.counted("objective").max())
    place = int(np.argmax(best.counted("objective")))
    chain = next(c for c in range(2) if fit.traces_[c] is best)
    kept = np.flatnonzero(fit.posterior_.chain == chain)
    if len(kept) == 30:  # every step is kept
        assert fit.model_.weights.alpha == pytest.approx(hyper["alpha"][kept[place]])


def test_the_result_has_the_hyper_parameters_of_the_best_draw():
    fit = Mixture("gaussian", n_draws=30, sampler="gibbs", **ENOUGH).fit(X)
    best = int(np.argmax(fit.trace_.counted("objective")))
    factors = {name: values[best] for name, values in fit.posterior_.hyper.items()}
    for name, factor in factors.items():
        assert fit.family_.hyper_factors_[name.removesuffix("_factor")] == pytest.approx(factor)
    data = Dataset(X, fit.family_)
    assert fit.log_joint_ == pytest.approx(fit.model_.log_joint(data, fit.labels_))
    assert fit.log_joint_ >= fit.trace_.counted("objective").max() - 1e-8


def test_a_partition_of_least_loss_has_mean_hyper_parameters():
    fit = Mixture("gaussian", n_draws=30, partition="vi", sampler="gibbs", **ENOUGH).fit(X)
    for name, values in fit.posterior_.hyper.items():
        mean = np.exp(np.log(values).mean())
        assert fit.family_.hyper_factors_[name.removesuffix("_factor")] == pytest.approx(mean)
    last = Mixture("gaussian", n_draws=30, partition="last", sampler="gibbs", **ENOUGH).fit(X)
    assert last.family_.hyper_factors_["scale"] == pytest.approx(last.posterior_.hyper["scale_factor"][-1])


def test_parameters_have_the_hyper_parameters_of_each_draw():
    """A rate of 1000 draws the means of all clusters to nothing."""
    draws = np.array([[0, 1], [0, 1]])
    family = Poisson(shape=4.0, rate=1.0).bind([[0], [40]])
    hyper = {"rate_factor": [1.0, 1000.0]}
    drawn = PartitionPosterior(draws, family=family, hyper=hyper).parameters([[0], [40]], probability=1.0)
    fixed = PartitionPosterior(draws, family=family).parameters([[0], [40]], probability=1.0)
    (name,) = drawn
    assert drawn[name].low[1] < 1 < 10 < fixed[name].low[1]
    assert drawn[name].high[1] > 10
    with pytest.raises(ValueError, match="poisson has no hyper-parameter 'scale', which the draws have"):
        PartitionPosterior(draws, family=family, hyper={"scale_factor": [1.0, 1.0]}).parameters([[0], [40]])


def test_they_are_saved_and_read(tmp_path):
    fit = Mixture("gaussian", n_chains=2, n_draws=20, sampler="gibbs", **ENOUGH).fit(X)
    fit.save(tmp_path / "model", labels=True)
    fit.posterior_.save(tmp_path / "posterior")
    for loaded in (Mixture.load(tmp_path / "model").posterior_, PartitionPosterior.load(tmp_path / "posterior")):
        assert set(loaded.hyper) == NAMES
        for name, values in fit.posterior_.hyper.items():
            np.testing.assert_array_equal(loaded.hyper[name], values)
        assert np.isfinite(loaded.diagnostics.scalars["scale_factor"].rhat)
    fit._draws["hyper"]["shape_factor"] = fit._draws["hyper"]["scale_factor"]
    fit.save(tmp_path / "altered", labels=True)
    with pytest.raises(ArchiveError, match="shape_factor"):
        Mixture.load(tmp_path / "altered")


def test_arviz_has_them_as_variables():
    pytest.importorskip("arviz_base")
    fit = Mixture("gaussian", n_chains=2, n_draws=20, sampler="gibbs", **ENOUGH).fit(X)
    tree = fit.posterior_.to_arviz()
    assert tree["posterior"]["scale_factor"].shape == (2, 10)
    np.testing.assert_array_equal(np.ravel(tree["posterior"]["scale_factor"]), fit.posterior_.hyper["scale_factor"])


def test_the_mean_number_of_clusters_does_not_depend_on_the_seed():
    """With one value a run, means of iris differ by .6 over seeds; now by their Monte-Carlo error."""
    means, errors = [], []
    for seed in range(4):
        posterior = Mixture("gaussian", n_chains=4, n_draws=400, random_state=seed).fit(X).posterior_
        K = posterior.n_clusters
        means.append(K.mean())
        errors.append(K.std() / np.sqrt(posterior.diagnostics.scalars["n_clusters"].bulk_ess))
    assert np.ptp(means) < 4 * np.sqrt(2) * np.mean(errors)
    assert np.mean(errors) < 0.25


def test_the_certificate_draws_them_where_the_fit_has():
    settings = {"learn_hyper": True, "sampler": "gibbs", **ENOUGH}
    fit = Mixture(Poisson(shape=2.0, rate=0.4), n_draws=10, **settings).fit(COUNTS)
    fit.learn_hyper = "auto"
    names = {row.quantity for row in check_model(fit, COUNTS, checks="truth", n_replicates=40, n_rows=10).table}
    assert {"hyper-parameter shape", "hyper-parameter rate"} <= names


def test_kernels_that_optimise_learn_in_the_warm_up_alone():
    kernel = Cycle(CollapsedGibbs())
    assert kernel_of_draws(kernel, [], n_draws=5) is kernel
    assert kernel_of_draws(kernel, ["rate"], n_draws=0) is kernel
    for optimiser in (ExpectationMaximization(), StochasticEM(), SparseVariational()):
        assert kernel_of_draws(optimiser, ["rate"], n_draws=5) is optimiser


def test_values_and_models_are_two_ways():
    model = MixtureModel(Poisson(shape=2.0, rate=0.5), PitmanYor(1.5, 0.3)).bind([[1], [3]])
    prior = HyperPrior(model, ["rate"], weights=True)
    moved = prior.model_at([0.7, -0.2, 0.4])
    np.testing.assert_allclose(prior.values(moved), [0.7, -0.2, 0.4])
    assert prior.columns(prior.values(moved))["alpha"] == pytest.approx(np.exp(-0.2))
    assert at_factors(moved.family, {"rate": 1.0}).rate == pytest.approx(0.5)
    assert prior_of_updates(Cycle(CollapsedGibbs(), Cycle(UpdateHyper())), model).names == (
        "shape",
        "rate",
        "alpha",
        "discount",
    )


@pytest.mark.parametrize("weights", [DirichletProcess(), SymmetricDirichlet(3), PitmanYor(1.0, 0.5)])
def test_chains_begin_within_the_bounds(weights):
    model = MixtureModel(Mixture("gaussian")._family(), weights).bind(X)
    prior = HyperPrior(model, ["mean_strength", "scale"], weights=True)
    for seed in range(20):
        moved = spread_hyper(prior, model, seed=seed, spread=50.0)
        low, high = prior.limits()
        values = prior.values(moved)
        assert (values >= low - 1e-9).all()
        assert (values <= high + 1e-9).all()
        if hasattr(weights, "discount"):
            assert 0 <= moved.weights.discount < 1
