"""Several chains of a mixture: their bits, their ends, their starts and what is said of them."""

import threading

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning

from expfam import Gaussian, Mixture, Poisson
from expfam.displays.trace import TraceDisplay
from expfam.errors import CapabilityError, DataError, ResourceError
from expfam.estimators.mixture_plan import plan_of
from expfam.families.base import Family
from expfam.fitting.chains import n_rounds, seed_of_chain, starts_of_chains
from expfam.model.data import Dataset
from expfam.model.mixture import MixtureModel
from expfam.model.weights import DirichletProcess
from expfam.samplers import CollapsedGibbs, sample
from expfam.samplers.chain.callbacks import Checkpoint, Stop, restore_checkpoint

X = load_iris().data
COUNTS = np.random.default_rng(0).poisson(np.repeat([[2, 9], [9, 2], [5, 5]], 30, axis=0))

pytestmark = pytest.mark.filterwarnings("ignore:Mixture. [0-9] chains:sklearn.exceptions.ConvergenceWarning")

SETTINGS = [
    {},
    {"n_components": 3},
    {"sampler": "gibbs", "n_steps": 20, "n_warmup": 8},
    {"n_components": 3, "sampler": "uncollapsed_gibbs", "n_steps": 12},
]


@pytest.mark.parametrize("settings", SETTINGS)
def test_chain_0_is_the_fit_with_one_chain(settings):
    one = Mixture("gaussian", n_draws=40, random_state=0, **settings).fit(X)
    several = Mixture("gaussian", n_draws=40, n_chains=3, random_state=0, n_threads=2, **settings).fit(X)
    for name in ("objective", "n_clusters", "accepted"):
        np.testing.assert_array_equal(several.trace_.column(name), one.trace_.column(name))
    posterior = several.posterior_
    first = posterior.draws(0)
    steps = several.trace_.kept_steps[: len(first)]
    shared = np.isin(one.trace_.kept_steps, steps)
    np.testing.assert_array_equal(one.posterior_.draws()[shared], first[np.isin(steps, one.trace_.kept_steps)])
    assert several.log_joint_ >= one.log_joint_ - 1e-9
    assert {len(trace) for trace in several.traces_[1:]} != set()
    assert not np.array_equal(several.traces_[1].column("objective")[-5:], several.traces_[2].column("objective")[-5:])


@pytest.mark.parametrize("settings", SETTINGS)
def test_results_do_not_depend_on_threads(settings):
    fits = [Mixture("gaussian", n_chains=3, random_state=3, n_threads=n, **settings).fit(X) for n in (1, 2, 4)]
    for other in fits[1:]:
        np.testing.assert_array_equal(other.labels_, fits[0].labels_)
        np.testing.assert_array_equal(other.posterior_.draws(), fits[0].posterior_.draws())
        assert str(other.posterior_.diagnostics) == str(fits[0].posterior_.diagnostics)


def _hyper_seen(**settings):
    """Fit counts; return the mixture, and the hyper-parameters of each step of each chain."""
    seen = {}

    def keep(info, state):
        seen.setdefault(state.chain, []).append(repr(state.model.family))

    settings = {"n_chains": 3, "n_steps": 10, "n_warmup": 6, "learn_hyper": True} | settings
    return Mixture("poisson", random_state=0, callbacks=[keep], **settings).fit(COUNTS), seen


def test_optimising_chains_share_the_hyper_parameters_of_chain_0():
    mixture, seen = _hyper_seen(sampler="stochastic_em", n_components=3)
    assert seen[0][-1] == seen[1][-1] == seen[2][-1] == repr(mixture.family_)
    assert mixture.posterior_.hyper == {}


def test_callbacks_see_every_chain_one_at_a_time():
    inside, seen = threading.Lock(), []

    def callback(info, state):
        assert inside.acquire(blocking=False)
        seen.append(state.chain)
        inside.release()

    fit = Mixture("gaussian", 3, n_chains=4, n_threads=4, n_steps=9, n_warmup=3, random_state=0, callbacks=[callback])
    fit.fit(X)
    assert np.bincount(seen).tolist() == [len(trace) for trace in fit.traces_] == [12] * 4


def test_a_stop_ends_all_chains_and_draws_are_cut_to_the_shortest():
    def stop(info, state):
        return state.chain == 1 and info.step == 20

    n_steps = 20_000  # seconds: the other chains may be far ahead, but not done
    fit = Mixture(
        "gaussian", 3, n_chains=3, n_steps=n_steps, n_warmup=5, n_draws=3 * n_steps, random_state=0, callbacks=[stop]
    )
    fit.fit(X)
    lengths = [len(trace) for trace in fit.traces_]
    assert max(lengths) < n_steps
    assert lengths[1] == 20
    kept = np.bincount(fit.posterior_.chain)
    assert (kept == min(lengths) - 5).all()
    assert not fit.interrupted_


def test_a_stop_in_the_warm_up_leaves_a_fit_without_draws():
    fit = Mixture(
        "gaussian", 3, n_chains=2, n_steps=50, n_warmup=20, random_state=0, callbacks=[lambda info, state: True]
    ).fit(X)
    assert fit.labels_.shape == (150,)
    with pytest.raises(AttributeError, match="no draws were kept"):
        _ = fit.posterior_


def test_ctrl_c_ends_all_chains():
    def press(info, state):
        if state.chain == 1 and info.step == 10:
            raise KeyboardInterrupt

    n_steps = 1_000_000  # minutes: the first chain may be far ahead of the second, but not done
    fit = Mixture("gaussian", 3, n_chains=2, n_steps=n_steps, n_warmup=2, random_state=0, callbacks=[press]).fit(X)
    assert fit.interrupted_
    assert max(len(trace) for trace in fit.traces_) < n_steps


def test_an_error_of_a_callback_ends_all_chains():
    def fail(info, state):
        if state.chain == 1:
            raise RuntimeError("chain 1")

    with pytest.raises(RuntimeError, match="chain 1"):
        Mixture("gaussian", 3, n_chains=3, n_steps=100_000, random_state=0, callbacks=[fail]).fit(X)


def test_a_stop_by_time_and_by_tolerance_counts_each_chain():
    stop = Stop(tolerance=1.0, patience=3)
    fit = Mixture("gaussian", 3, n_chains=2, n_steps=500, n_warmup=0, random_state=0, callbacks=[stop]).fit(X)
    assert stop.reason == "tolerance"
    assert min(len(trace) for trace in fit.traces_) == 4


def test_a_chain_goes_on_from_its_checkpoint(tmp_path):
    path, whole = tmp_path / "run", {}

    def keep(info, state):
        whole[state.chain, state.n_steps] = state.partition

    settings = {"n_chains": 2, "sampler": CollapsedGibbs(), "n_warmup": 0, "start": "random", "learn_hyper": False}
    mixture = Mixture("poisson", n_steps=12, random_state=5, callbacks=[keep], **settings).fit(COUNTS)
    Mixture("poisson", n_steps=6, random_state=5, callbacks=[Checkpoint(path, every_seconds=0)], **settings).fit(COUNTS)
    model = MixtureModel(mixture.family_, DirichletProcess())
    for chain, where in enumerate([path, tmp_path / "run-chain1"]):
        data = Dataset(COUNTS, mixture.family_)
        state = CollapsedGibbs().init(model, data, seed=seed_of_chain(5, chain), start="one")
        restore_checkpoint(where, state)
        sample(CollapsedGibbs(), state, 6)
        np.testing.assert_array_equal(state.partition, whole[chain, 12])


def test_chains_begin_with_other_numbers_of_clusters():
    first = {}

    def keep(info, state):
        first.setdefault(state.chain, info.n_clusters)

    Mixture(
        "gaussian",
        n_chains=3,
        sampler="gibbs",
        start="kmeans++",
        n_steps=2,
        n_warmup=1,
        random_state=0,
        callbacks=[keep],
    ).fit(X)
    assert first[1] < first[0] < first[2]


def test_each_chain_may_have_its_own_start():
    first = {}

    def keep(info, state):
        first.setdefault(state.chain, info.n_clusters)

    labels = np.repeat(np.arange(3), 50)
    starts = [labels, "one", np.arange(150)]
    Mixture(
        "gaussian", n_chains=3, sampler="gibbs", start=starts, n_steps=1, n_warmup=0, random_state=0, callbacks=[keep]
    ).fit(X)
    assert first[0] <= 5
    assert first[1] <= 5
    assert first[2] > 5
    one = Mixture("gaussian", 3, start=["random"], n_steps=3, random_state=0).fit(X)
    np.testing.assert_array_equal(
        one.labels_, Mixture("gaussian", 3, start="random", n_steps=3, random_state=0).fit(X).labels_
    )
    assert starts_of_chains([0, 1, 0], 2) == [[0, 1, 0]] * 2


def test_the_disagreement_is_told_with_what_to_change():
    with pytest.warns(
        ConvergenceWarning, match=r"4 chains disagree: R-hat of pair agreements 1\.\d\d.*Try .*split_merge"
    ):
        fit = Mixture("gaussian", 3, sampler="gibbs", n_steps=100, n_chains=4, random_state=0).fit(X)
    assert fit.posterior_.diagnostics.n_draws == 100
    with pytest.warns(ConvergenceWarning, match=r"effective draws of the log joint \(want 50\).*Try n_"):
        Mixture("gaussian", 3, n_steps=20, n_chains=2, random_state=1).fit(X)


def test_one_chain_and_chains_that_agree_are_told_nothing(recwarn):
    apart = np.random.default_rng(0).normal(size=(60, 2)) + np.repeat([[0, 0], [40, 40]], 30, axis=0)
    Mixture("gaussian", 2, n_chains=2, random_state=0).fit(apart)
    one = Mixture("gaussian", 3, sampler="gibbs", n_steps=30, n_draws=30, random_state=0).fit(X)
    assert not [told for told in recwarn if issubclass(told.category, ConvergenceWarning)]
    assert one.posterior_.diagnostics.n_chains == 1
    assert np.isfinite(one.posterior_.diagnostics.rhat_pairs)


@pytest.mark.parametrize("n_chains", [0, 2.5, True, "many"])
def test_a_number_of_chains_that_is_none_is_refused(n_chains):
    with pytest.raises(ValueError, match=r"n_chains must be an integer of at least 1; got"):
        Mixture("gaussian", n_chains=n_chains).fit(X)


def test_a_list_of_starts_of_another_length_is_refused():
    with pytest.raises(ValueError, match="start is a list of 3 starts, and n_chains=2"):
        Mixture("gaussian", n_chains=2, start=["one", "random", "one"]).fit(X)


@pytest.mark.parametrize("sampler", ["em", "variational"])
def test_samplers_without_draws_take_one_chain(sampler):
    with pytest.raises(CapabilityError, match=r"n_chains=2.*begins with the best of several starts: write Mixture"):
        Mixture("gaussian", 3, sampler=sampler, n_chains=2).fit(X)


def test_several_chains_need_draws():
    with pytest.raises(ValueError, match="n_chains=2 needs draws; got n_draws=0: write Mixture"):
        Mixture("gaussian", n_chains=2, n_draws=0).fit(X)


def test_the_forecast_counts_all_chains():
    family = Gaussian()
    data = Dataset(X, family)
    one, four = (plan_of(Mixture("gaussian", 3, n_chains=n, n_draws=10), data, family).forecast() for n in (1, 4))
    assert four.statistics == 4 * one.statistics
    assert four.labels < 4 * one.labels
    with pytest.raises(ResourceError):
        Mixture("gaussian", 3, n_chains=1000, memory_limit=one.beside_data * 10).fit(X)


def test_chains_in_numpy_take_turns():
    class Slow(Poisson):
        components = Family.components

    assert n_rounds(4, 4, Slow()) == 4
    assert n_rounds(4, 2, Mixture("gaussian")._family()) == 2
    assert n_rounds(3, None, Mixture("gaussian")._family()) == 3


def test_draws_of_all_chains_are_saved(tmp_path):
    fit = Mixture("gaussian", 3, n_chains=2, n_draws=20, n_steps=40, random_state=0).fit(X)
    fit.save(tmp_path / "model", labels=True)
    loaded = Mixture.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.posterior_.chain, np.repeat([0, 1], 10))
    np.testing.assert_array_equal(loaded.posterior_.draws(1), fit.posterior_.draws(1))
    assert loaded.posterior_.diagnostics.n_draws == 10
    assert loaded.n_chains == 2


def test_the_trace_is_drawn_chain_by_chain():
    fit = Mixture("gaussian", n_chains=3, random_state=0).fit(X)
    display = TraceDisplay.from_estimator(fit)
    assert np.bincount(display.chain).tolist() == [len(trace) for trace in fit.traces_]
    assert display.n_warmup == [trace.n_warmup for trace in fit.traces_]
    above, below = display.plot().axes_
    assert len(above.lines) == len(below.lines) == 6  # a pale line of the warm-up each
    assert "3 chains" in above.get_title(loc="left")
    with pytest.raises(DataError, match="n_warmup has shape"):
        TraceDisplay([1, 2], [0.0, 1.0], [1, 1], [0.1, 0.1], chain=[0, 1], n_warmup=[1, 1, 1])


def test_links_and_known_rows_hold_in_all_chains():
    links = np.full(150, -1)
    links[[0, 60, 120]] = 0
    fit = Mixture("gaussian", n_chains=2, n_steps=10, n_warmup=4, random_state=0).fit(X, links=links)
    for z in fit.posterior_.draws():
        assert z[0] == z[60] == z[120]
