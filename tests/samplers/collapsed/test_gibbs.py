"""The sweeps as users and drivers meet them: states stay consistent through growth, failures and interrupts."""

import os
import re
import signal
import threading

import numpy as np
import pytest
from scipy.special import gammaln
from tiny import FAMILIES, WEIGHTS

from expfam import Dataset, DirichletProcess, MixtureModel, Multinomial, Poisson, SymmetricDirichlet
from expfam.errors import CapabilityError, ExpFamError
from expfam.families.base import Family
from expfam.samplers import (
    CollapsedGibbs,
    Cycle,
    ExpectationMaximization,
    RandomScan,
    SparseVariational,
    UncollapsedGibbs,
    UpdateHyper,
    sample,
    steps,
)

pytestmark = pytest.mark.filterwarnings("ignore:.*rows? (is|are) empty")


def documents(n=300, n_words=40, n_topics=6, seed=0):
    """Counts from a few topics, with the topic of each row."""
    rng = np.random.default_rng(seed)
    topics = rng.dirichlet(np.full(n_words, 0.1), n_topics)
    labels = rng.integers(0, n_topics, n)
    return np.array([rng.multinomial(rng.integers(5, 30), topics[k]) for k in labels]), labels


@pytest.mark.parametrize("weights", WEIGHTS.values(), ids=WEIGHTS)
@pytest.mark.parametrize("name", FAMILIES)
def test_states_stay_consistent(name, weights):
    family, X = FAMILIES[name]
    X = np.repeat(X.toarray() if hasattr(X, "toarray") else X, 8, axis=0)
    kernel = CollapsedGibbs(order="random")
    state = kernel.init(MixtureModel(family, weights), X, seed=2, start="one")
    for _ in range(10):
        info = kernel.step(state)
        state.check()
        assert info.n_clusters == len(np.unique(state.labels))
        assert info.objective == pytest.approx(state.model.log_joint(state.data, state.labels), abs=1e-7)


def test_capacity_grows_from_one_cluster_to_many():
    X = np.arange(400)[:, None] % 97
    kernel = CollapsedGibbs()
    state = kernel.init(
        MixtureModel(Poisson(shape=1.0, rate=0.01), DirichletProcess(alpha=2000.0)), X, seed=0, start="one"
    )
    assert state.components.capacity < 4
    sample(kernel, state, 3)
    assert state.n_clusters > 100
    state.check()


def test_holes_are_closed():
    X, _ = documents()
    kernel = CollapsedGibbs()
    state = kernel.init(
        MixtureModel(Multinomial(concentration=0.1), SymmetricDirichlet(200)), X, seed=0, start="random", n_clusters=200
    )
    sample(kernel, state, 15)
    assert state.n_clusters < 60
    assert state.n_slots <= state.n_clusters + 1 + state.n_clusters // 4
    state.check()


def test_topics_are_found():
    from sklearn.metrics import normalized_mutual_info_score

    X, labels = documents()
    kernel = CollapsedGibbs()
    state = kernel.init(MixtureModel(Multinomial(concentration=0.1), SymmetricDirichlet(20)), X, seed=1)
    sample(kernel, state, 40)
    assert normalized_mutual_info_score(labels, state.labels) > 0.9


def test_uncollapsed_sweep_finds_them_too():
    from sklearn.metrics import normalized_mutual_info_score

    X, labels = documents()
    kernel = UncollapsedGibbs()
    state = kernel.init(MixtureModel(Multinomial(concentration=0.1), SymmetricDirichlet(8)), X, seed=1)
    sample(kernel, state, 100)
    assert normalized_mutual_info_score(labels, state.labels) > 0.8


class Fragile(Family):
    """Poisson counts whose evidence fails in a chosen way for large sums."""

    support = "counts"

    def __init__(self, mode="raise", limit=30.0):
        self.mode, self.limit = mode, limit

    def sufficient_statistics(self, X):
        return X

    def log_marginal(self, n, S):
        if (self.limit < S).any():
            if self.mode == "raise":
                raise ZeroDivisionError("a bug of the plugin's author")
            return np.full(len(n), np.nan)
        return (gammaln(1.0 + S) - (1.0 + S) * np.log(1.0 + n[:, None])).sum(axis=1)


@pytest.mark.parametrize(("mode", "error"), [("raise", ZeroDivisionError), ("nan", FloatingPointError)])
def test_a_failing_family_stops_the_sweep_with_its_own_error(mode, error):
    X = np.array([[9], [1], [8], [7], [9], [2], [1]])
    kernel = CollapsedGibbs()
    labels = np.array([0, 1, 2, 3, 4, 5, 6])
    state = kernel.init(MixtureModel(Fragile(mode, limit=16.5), DirichletProcess()), X, seed=0, start=labels)
    with pytest.raises(error) as caught:
        sample(kernel, state, 50)
    if mode == "nan":
        assert "fragile" in str(caught.value)
        assert "datum" in str(caught.value)
    assert np.array_equal(np.bincount(state.labels, minlength=len(state.counts)), state.counts)
    n, _ = state.components.export()
    assert np.array_equal(n[: len(state.counts)], state.counts)


@pytest.mark.usefixtures("default_interrupt")
def test_interrupt_within_a_sweep_leaves_a_valid_state():
    X = np.repeat(documents(1000)[0], 40, axis=0)
    kernel = CollapsedGibbs()
    state = kernel.init(
        MixtureModel(Multinomial(concentration=0.1), SymmetricDirichlet(400)), X, seed=0, start="random", n_clusters=400
    )
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    trace = sample(kernel, state, 10_000)
    timer.join()
    assert trace.interrupted
    state.check()
    kernel.step(state)
    state.check()


def test_steps_is_the_same_loop():
    X, _ = documents(60)
    model = MixtureModel(Multinomial(concentration=0.1), DirichletProcess())
    kernel = CollapsedGibbs()
    a, b = kernel.init(model, X, seed=3), kernel.init(model, X, seed=3)
    trace = sample(kernel, a, 5)
    for info, objective in zip(steps(kernel, b), trace.column("objective")):
        assert info.objective == objective
        if info.step == 5:
            break


def test_what_cannot_be_combined_is_refused_by_name():
    X, _ = documents(20)
    with pytest.raises(CapabilityError, match=r"UncollapsedGibbs needs draw_natural\(\), which family 'fragile'"):
        UncollapsedGibbs().init(MixtureModel(Fragile(), SymmetricDirichlet(3)), X)
    with pytest.raises(CapabilityError, match="truncation"):
        UncollapsedGibbs(truncation=0).init(MixtureModel(Poisson(), DirichletProcess()), X)
    weight = np.arange(20) + 1.0
    for prior, n_lines in ((DirichletProcess(), 1), (SymmetricDirichlet(3), 2)):
        names = {"model": MixtureModel(Poisson(), prior), "data": Dataset(X, Poisson(), weight=weight)}
        with pytest.raises(CapabilityError, match="CollapsedGibbs cannot use weights of rows") as caught:
            CollapsedGibbs().init(**names)
        lines = re.findall(r"\w+\(\)\.init\(model, data\)", str(caught.value))
        assert len(lines) == n_lines
        for line in lines:
            eval(
                line,
                {"SparseVariational": SparseVariational, "ExpectationMaximization": ExpectationMaximization},
                names,
            )
    CollapsedGibbs().init(MixtureModel(Poisson(), DirichletProcess()), Dataset(X, Poisson(), weight=np.ones(20)))
    cycle = Cycle(CollapsedGibbs(), UncollapsedGibbs())
    with pytest.raises(CapabilityError, match="SymmetricDirichlet only"):
        cycle.step(cycle.init(MixtureModel(Poisson(), DirichletProcess()), X))
    with pytest.raises(CapabilityError, match="UpdateHyper"):
        UpdateHyper(weights=False).check(MixtureModel(Fragile(), DirichletProcess()), None)
    from expfam.samplers import CollapsedState

    data = Dataset(X[:7], Poisson())
    with pytest.raises(ExpFamError, match="7 starting clusters, but"):
        CollapsedState(MixtureModel(data.family, SymmetricDirichlet(3)), data, np.arange(7), seed=0)
    with pytest.raises(ValueError, match="order"):
        CollapsedGibbs(order="sideways").init(MixtureModel(Poisson(), DirichletProcess()), X)


def test_a_random_scan_keeps_to_its_probabilities():
    chosen = []

    class Counted(CollapsedGibbs):
        def __init__(self, name):
            super().__init__()
            self.name = name

        def step(self, state):
            chosen.append(self.name)
            return super().step(state)

    kernel = RandomScan(Counted("often"), Counted("rarely"), probabilities=[9.0, 1.0])
    state = kernel.init(MixtureModel(Poisson(), DirichletProcess()), [[1], [30]], seed=0)
    for _ in range(400):
        kernel.step(state)
    assert abs(chosen.count("rarely") - 40) < 4.5 * np.sqrt(400 * 0.1 * 0.9)
