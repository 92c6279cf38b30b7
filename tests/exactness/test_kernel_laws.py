"""The kit for kernels accepts exact ones and finds each seeded fault by the law that is meant to find it."""

import numpy as np
import pytest

from expfam import DirichletProcess, MixtureModel, Poisson, SymmetricDirichlet
from expfam.plugins.conformance import check_kernel, parametrize_with_kernel_checks
from expfam.plugins.laws.kernel_case import exact_posterior, set_partitions, tiny_models
from expfam.plugins.laws.kernels import KERNEL_LAWS
from expfam.samplers import (
    CollapsedGibbs,
    CollapsedMetropolis,
    CollapsedState,
    Cycle,
    HashProposal,
    Kernel,
    RandomScan,
    TableProposal,
    UncollapsedGibbs,
)

FEW = 3000


class PlainMetropolis(Kernel):
    """One datum to another cluster or a new one, drawn evenly: the law of the proposal is the same both ways.

    Faults are seeded through `opening`, a factor on the acceptance of moves that open a cluster.
    """

    state_type = CollapsedState

    def __init__(self, *, opening=1.0):
        self.opening = opening

    def init_state(self, model, data, labels, *, seed):
        return CollapsedState(model, data, labels, seed=seed)

    def rng(self, state):
        return np.random.default_rng([state.seed, state.n_steps])

    def move(self, state):
        rng, labels = self.rng(state), state.partition.copy()
        i = rng.integers(labels.size)
        others = np.unique(np.delete(labels, i))
        options = [*others, labels.max() + 1]
        labels[i] = options[rng.integers(len(options))]
        if np.unique(labels).size > (state.model.weights.max_components or labels.size):
            return 1, 0, {}
        opens = labels[i] not in others
        was_alone = state.counts[state.labels[i]] == 1
        other = CollapsedState(state.model, state.data, labels, seed=state.seed, n_steps=state.n_steps)
        ratio = other.log_joint - state.log_joint
        ratio += np.log(self.opening) * (int(opens) - int(was_alone))
        if np.log(rng.random()) >= ratio:
            return 1, 0, {}
        self.settle(state, other)
        return 1, 1, {}

    def settle(self, state, other):
        state.take(other)


class Unseeded(PlainMetropolis):
    def rng(self, state):
        return np.random.default_rng()


class Counting(PlainMetropolis):
    def move(self, state):
        self.opening += 1e-9
        return super().move(state)


class WrongSum(PlainMetropolis):
    def move(self, state):
        state.log_joint += 1e-3
        return super().move(state)


class Silent(PlainMetropolis):
    """Moves labels without a word: the stamp stays."""

    def settle(self, state, other):
        stamp = state.stamp
        super().settle(state, other)
        state.stamp = stamp


class Still(PlainMetropolis):
    def move(self, state):
        return 1, 0, {}


class Rare(PlainMetropolis):
    """Moves in one step of ten."""

    def move(self, state):
        return super().move(state) if state.n_steps % 10 == 0 else (0, 0, {})


class Impatient(PlainMetropolis):
    """Exact at its first step, and wrong at those that follow one of its own."""

    def move(self, state):
        follows = state.memory.get("last") == state.n_steps - 1
        state.memory["last"] = state.n_steps
        return PlainMetropolis(opening=20.0 if follows else 1.0).move(state)


class WrongWeights(CollapsedGibbs):
    """Exact sweeps for another concentration."""

    def move(self, state):
        model = state.model
        state.set_model(MixtureModel(model.family, model.weights.with_hyper(alpha=1.6 * model.weights.alpha)))
        result = super().move(state)
        state.set_model(model)
        return result


KERNELS = {
    "plain": (PlainMetropolis(), True),
    "gibbs": CollapsedGibbs(),
    "gibbs_random": (CollapsedGibbs(order="random"), True),
    "cycle": Cycle(CollapsedGibbs(), PlainMetropolis()),
    "scan": (RandomScan(PlainMetropolis(), CollapsedGibbs(order="random")), True),
    "hash": CollapsedMetropolis(HashProposal(), mode="removed"),
    "crossfit": CollapsedMetropolis(TableProposal(), mode="crossfit", n_blocks=2),
    "included": CollapsedMetropolis(TableProposal(), mode="included"),
    "frozen": CollapsedMetropolis(TableProposal(), mode="frozen"),
}


@parametrize_with_kernel_checks(KERNELS, n_moves=FEW // 2)
def test_exact_kernels_keep_the_laws(kernel, check):
    check(kernel)


DP, DIRICHLET = "poisson_dirichlet_process", "multinomial_dirichlet"
FAULTS = [
    (PlainMetropolis(opening=10.0), "posterior_is_invariant", DP),
    (PlainMetropolis(opening=10.0), "flow_is_symmetric", DP),
    (WrongWeights(), "posterior_is_invariant", DP),
    (Impatient(), "later_steps_are_invariant", DP),
    (CollapsedGibbs(), "flow_is_symmetric", DIRICHLET),  # exact, but a sweep in order is not reversible
    (Unseeded(), "seeds_decide", DP),
    (Counting(), "holds_nothing_of_a_run", DP),
    (WrongSum(), "states_stay_consistent", DP),
    (Silent(), "states_stay_consistent", DP),
    (Still(), "partitions_are_reached", DP),
    (Rare(), "steps_propose", DP),
]


@pytest.mark.parametrize(("kernel", "law", "name"), FAULTS, ids=[f"{type(k).__name__}-{n}" for k, n, _ in FAULTS])
def test_each_fault_is_found_by_its_law(kernel, law, name):
    models = {name: tiny_models()[name]}
    report = check_kernel(kernel, models, reversible=True, n_moves=FEW, raises=False, only=[law])
    assert report[f"{law}[{name}]"].status == "failed", str(report)


def test_what_is_wrong_later_only_is_right_at_first():
    models = {DP: tiny_models()[DP]}
    assert check_kernel(Impatient(), models, n_moves=FEW, only=["posterior_is_invariant"]).passed


def test_every_law_has_a_fault():
    assert {law for _, law, _ in FAULTS} == set(KERNEL_LAWS)


def test_the_published_mode_fails():
    kernel = CollapsedMetropolis(TableProposal(), mode="published")
    report = check_kernel(kernel, n_moves=FEW, raises=False)
    assert report["posterior_is_invariant[multinomial_dirichlet]"].status == "failed"
    assert {"all[poisson_dirichlet_process]", "all[gaussian_pitman_yor]"} == set(report.named("skipped")) - {
        "flow_is_symmetric[multinomial_dirichlet]"
    }
    with pytest.raises(AssertionError, match="total variation"):
        check_kernel(kernel, n_moves=FEW)


def test_reports_are_the_same_each_time_and_other_seeds_differ():
    def text(seed):
        models = {DP: tiny_models()[DP]}
        report = check_kernel(PlainMetropolis(opening=50.0), models, n_moves=FEW // 4, raises=False, seed=seed)
        return [result[:3] for result in report.results]

    assert text(0) == text(0) != text(1)


def test_expected_failures_are_strict():
    name = "posterior_is_invariant[poisson_dirichlet_process]"
    settings = {"n_moves": FEW, "only": ["posterior_is_invariant"]}
    models = {"poisson_dirichlet_process": tiny_models()["poisson_dirichlet_process"]}
    report = check_kernel(WrongWeights(), models, expected_failures={name: "too many clusters"}, **settings)
    assert report[name].status == "expected"
    with pytest.raises(AssertionError, match="passed, but was to fail"):
        check_kernel(PlainMetropolis(), models, expected_failures={name: "why not"}, **settings)
    with pytest.raises(ValueError, match="names no check: posterior"):
        check_kernel(PlainMetropolis(), models, expected_failures={"posterior": ""}, **settings)


def test_models_of_ones_own_and_their_limits():
    X = np.array([[0], [2], [9]])
    model = MixtureModel(Poisson(shape=1.0, rate=0.5), DirichletProcess())
    report = check_kernel(PlainMetropolis(), {"mine": (model, X)}, reversible=True, n_moves=FEW)
    assert len(report.named("passed")) == len(KERNEL_LAWS)
    with pytest.raises(ValueError, match="8 data have too many partitions"):
        check_kernel(PlainMetropolis(), {"mine": (model, np.arange(8)[:, None])})
    with pytest.raises(ValueError, match="makes a UncollapsedState"):
        check_kernel(
            UncollapsedGibbs(), {"mine": (MixtureModel(Poisson(shape=1.0, rate=0.5), SymmetricDirichlet(2)), X)}
        )
    with pytest.raises(AssertionError, match="on no model: mode 'included' needs weights"):
        check_kernel(CollapsedMetropolis(TableProposal(), mode="included"), {"mine": (model, X)})


def test_partitions_and_posterior_of_three_data():
    assert [len(set_partitions(n)) for n in (1, 2, 3, 4, 5, 6)] == [1, 2, 5, 15, 52, 203]
    model = MixtureModel(Poisson(shape=1.0, rate=0.5), SymmetricDirichlet(2))
    partitions, pi = exact_posterior(model, np.array([[0], [2], [9]]))
    assert len(partitions) == 4  # three clusters are one too many
    assert abs(pi.sum() - 1) < 1e-14
