"""Simulation-based calibration of every update that draws hyper-parameters.

Hyper-parameters come from their prior, data from the model given them. Then the true values are an exact draw of the
posterior, and a chain of updates that begins at them is stationary. Two laws follow, each judged at fixed seeds by a
p-value that a right update undercuts once in a hundred thousand runs:

- ranks: of a reversible chain that is run both ways from the truth, the truth at a place drawn evenly, the rank of the
  truth among all states is uniform (Talts et al. 2018, "Validating Bayesian inference algorithms with simulation-based
  calibration"; the two directions are of Cook, Gelman and Rubin 2006 and of Modrak et al. 2022);
- prior: the last state, over all simulations, has the law of the prior.
"""

import numpy as np
import pytest
from scipy import stats
from tiny import FAMILIES as TINY
from wrong_samplers import SizesForgotten

import expfam as ef
from expfam.families import base
from expfam.families.directions.von_mises_fisher import VonMisesFisher
from expfam.families.trials.bernoulli import Bernoulli
from expfam.families.trials.geometric import Geometric
from expfam.families.trials.negative_binomial import NegativeBinomial
from expfam.families.waiting.exponential import Exponential
from expfam.model import weights as weights_module
from expfam.model.pseudo_counts import CountTable, draw_pseudocounts, draw_shared_pseudocount
from expfam.samplers import CollapsedState, GroupedGibbs, TopicGibbs, UpdateHyper

pytestmark = pytest.mark.filterwarnings("ignore::expfam.errors.DataWarning")

LEAST_P = 1e-5
LABELS = np.array([0, 0, 0, 1, 1, 2])
FEW = {"n_updates": 3, "n_simulations": 80}
FEW_ROWS = np.array([0])
_UNIT = np.array([[0.6, 0.8, 0.0], [0.0, 1.0, 0.0], [0.48, 0.6, 0.64]])


class Fenced:
    """Near the end of its range a parameter gives data that no number holds: a prior that stays away from there."""

    def hyper_bounds(self, name):
        return (0.4, 1e4) if name == self.fragile else (1e-4, 1e4)


class FencedExponential(Fenced, Exponential):
    fragile = "a"


class FencedGeometric(Fenced, Geometric):
    fragile = "b"


class FencedNegativeBinomial(Fenced, NegativeBinomial):
    fragile = "b"


FAMILIES = {name: TINY[name] for name in TINY if name != "plain_poisson"} | {
    "bernoulli": (Bernoulli(a=0.7, b=1.2), np.array([[0, 1], [1, 1]])),
    "exponential": (FencedExponential(a=1.5, b=0.7), np.array([[0.3, 1.0], [2.0, 0.1]])),
    "geometric": (FencedGeometric(a=1.5, b=0.7), np.array([[0, 1], [2, 5]])),
    "negative_binomial": (FencedNegativeBinomial(a=1.5, b=0.7), np.array([[0, 1], [2, 5]])),
    "von_mises_fisher": (VonMisesFisher(kappa=3.0, strength=1.5), _UNIT),
}
LEARNED = [
    (family, name) for family in FAMILIES for name, kind in FAMILIES[family][0].hyper.items() if kind == "positive"
]


class Calibration:
    """Ranks of true values and last states of chains, for one problem at a time.

    `simulate(rng)` gives the true state and the data; `update(state, data, rng)` the next state; `values(state)` the
    numbers that are ranked.
    """

    def __init__(self, simulate, update, values, *, n_updates, n_simulations, seed=0):
        rng = np.random.default_rng([seed, n_updates])
        self.n_updates, ranks, self.last = n_updates, [], []
        for _ in range(n_simulations):
            truth, data = simulate(rng)
            place = rng.integers(n_updates + 1)
            seen = []
            for length in (place, n_updates - place):
                state = truth
                for _ in range(length):
                    state = update(state, data, rng)
                    seen.append(values(state))
            ranks.append((np.array(seen) < values(truth)).sum(axis=0))
            self.last.append(values(state) if place < n_updates else values(update(truth, data, rng)))
        self.ranks, self.last = np.array(ranks), np.array(self.last)

    def ranks_p(self):
        """Chi-square p of uniform ranks, the smallest of the ranked numbers."""
        counts = [np.bincount(column, minlength=self.n_updates + 1) for column in self.ranks.T]
        return min(stats.chisquare(c).pvalue for c in counts)

    def prior_p(self, cdf):
        """Kolmogorov-Smirnov p of the last states against the prior's distribution function, the smallest."""
        return min(stats.kstest(column, cdf).pvalue for column in self.last.T)


def step_prior(family, name):
    """Prior of the log of the factor by which a hyper-parameter differs from its value at binding."""
    low, high = np.log(family.hyper_bounds(name)) / 3.0
    return stats.truncnorm(low, high, scale=3.0)


def with_steps(family, steps):
    """The bound family with hyper-parameters that differ from their values at binding by exp(step)."""
    factors = {name: float(np.exp(step)) for name, step in steps.items()}
    scaled = {name: getattr(family, name) * factor for name, factor in factors.items()}
    return family.with_hyper(**scaled).with_factors(factors)


def draw_statistics(family, labels, rng):
    """Sizes and sums of clusters of data drawn from the model, a parameter for each cluster from the prior."""
    n = np.bincount(labels).astype(float)
    F = family.n_statistics_
    theta, _ = family.draw_natural(np.zeros(len(n)), np.zeros((len(n), F)), rng)
    rows = [family.sample(theta[k : k + 1], int(size), rng) for k, size in enumerate(n)]
    sums = [np.asarray(family.sufficient_statistics(X).sum(axis=0)).ravel() for X in rows]
    return n, np.array(sums, dtype=np.float64)


def family_calibration(family, names, *, labels=LABELS, **sizes):
    """Calibration of the update of a family's hyper-parameters `names`, in logs of factors."""

    def simulate(rng):
        truth = with_steps(family, {name: step_prior(family, name).rvs(random_state=rng) for name in names})
        return truth, draw_statistics(truth, labels, rng)

    def update(state, data, rng):
        return state.update_hyper(*data, rng, names=names)

    def values(state):
        return np.log([state.hyper_factors_[name] for name in names])

    return Calibration(simulate, update, values, **sizes)


def bound(name):
    family, X = FAMILIES[name]
    X = np.vstack([X, -X]) if family.support == "real" else X
    return family.bind(X)


@pytest.mark.parametrize(("name", "hyper"), LEARNED)
def test_hyper_parameters_of_families(name, hyper):
    family = bound(name)
    found = family_calibration(family, [hyper], **FEW)
    assert found.ranks_p() > LEAST_P
    assert found.prior_p(step_prior(family, hyper).cdf) > LEAST_P


@pytest.mark.slow
@pytest.mark.parametrize(("name", "hyper"), LEARNED)
def test_hyper_parameters_of_families_in_long_runs(name, hyper):
    family = bound(name)
    found = family_calibration(family, [hyper], n_updates=9, n_simulations=3000, seed=1)
    assert found.ranks_p() > LEAST_P
    assert found.prior_p(step_prior(family, hyper).cdf) > LEAST_P


def calibration_of_one_row():
    """Little data and many updates: what decides is the prior."""
    return family_calibration(
        bound("gaussian_spherical_known"), ["mean_variance"], labels=FEW_ROWS, n_updates=8, n_simulations=150
    )


def test_the_prior_of_learned_hyper_parameters_is_kept():
    assert (
        calibration_of_one_row().prior_p(step_prior(bound("gaussian_spherical_known"), "mean_variance").cdf) > LEAST_P
    )


def test_a_prior_left_out_is_found_out(monkeypatch):
    right = base.slice_sample

    def without(target, t, rng, **bounds):
        return right(lambda x: target(x) + 0.5 * (x / 3.0) ** 2, t, rng, **bounds)

    monkeypatch.setattr(base, "slice_sample", without)
    assert (
        calibration_of_one_row().prior_p(step_prior(bound("gaussian_spherical_known"), "mean_variance").cdf) < LEAST_P
    )


class Caught(Exception):
    pass


def target_of(monkeypatch, module, call, number):
    """The target and the place at which the slice sampler is called for the `number`th time."""
    found, right = [], module.slice_sample

    def caught(target, t, rng, **bounds):
        found.append((target, t))
        if len(found) == number:
            raise Caught
        return right(target, t, rng, **bounds)

    monkeypatch.setattr(module, "slice_sample", caught)
    with pytest.raises(Caught):
        call()
    return found[-1]


@pytest.mark.parametrize("name", FAMILIES)
def test_the_target_is_the_evidence_and_a_log_normal_prior(monkeypatch, name):
    family = bound(name)
    factors = [key for key, kind in family.hyper.items() if kind == "positive"]
    hyper = factors[-1]
    family = with_steps(family, dict.fromkeys(factors, 0.4))
    n, S = draw_statistics(family, LABELS, np.random.default_rng(0))
    rng = np.random.default_rng(1)
    if hasattr(family, "_is_fitted_at_once"):  # compiled draws are those of the general way: see test_column_hyper
        monkeypatch.setattr(type(family), "_is_fitted_at_once", lambda self: False)
    target, start = target_of(monkeypatch, base, lambda: family.update_hyper(n, S, rng, names=[hyper]), 1)
    assert start == pytest.approx(0.4)
    plain = bound(name)
    steps = np.array([-1.0, 0.3, 0.4, 2.0])
    others = {key: 0.4 for key in factors if key != hyper}
    evidence = [with_steps(plain, others | {hyper: t}).log_marginal(n, S).sum() for t in steps]
    wanted = np.array(evidence) + stats.norm(0.0, 3.0).logpdf(steps)
    found = np.array([target(t) for t in steps])
    np.testing.assert_allclose(np.diff(found), np.diff(wanted), rtol=1e-9, atol=1e-9)


# ---- weights ---------------------------------------------------------------------------------------------------------


def draw_sizes(weights, size, rng):
    """Sizes of clusters of data that are seated one after the other."""
    counts = []
    for i in range(size):
        masses = np.append(np.array(counts) + weights.offset, np.exp(weights.log_new_mass(i, len(counts))[-1]))
        k = int(rng.choice(len(masses), p=masses / masses.sum()))
        if k == len(counts):
            counts.append(0)
        counts[k] += 1
    return np.array(counts)


def strength_calibration(weights, shape, rate, size, **sizes):
    options = {"learn_discount": False} if isinstance(weights, ef.PitmanYor) else {}
    scale = weights.max_components or 1

    def simulate(rng):
        truth = weights.with_hyper(alpha=float(rng.gamma(shape) / rate / scale))
        return truth, draw_sizes(truth, size, rng)

    def update(state, counts, rng):
        return state.update_hyper(counts, rng, shape=shape, rate=rate, **options)

    return Calibration(simulate, update, lambda state: np.array([state.strength]), **sizes)


WEIGHTS = [ef.DirichletProcess(), ef.PitmanYor(discount=0.4), ef.SymmetricDirichlet(4), ef.SymmetricDirichlet(1)]


@pytest.mark.parametrize("weights", WEIGHTS, ids=repr)
def test_strength_of_weights(weights):
    for size in (2, 30):  # few data leave the prior
        found = strength_calibration(weights, 2.0, 0.5, size, n_updates=4, n_simulations=120)
        assert found.ranks_p() > LEAST_P
        assert found.prior_p(stats.gamma(2.0, scale=2.0).cdf) > LEAST_P


@pytest.mark.slow
@pytest.mark.parametrize("weights", WEIGHTS, ids=repr)
def test_strength_of_weights_in_long_runs(weights):
    found = strength_calibration(weights, 0.8, 1.5, 20, n_updates=9, n_simulations=10_000)
    assert found.ranks_p() > LEAST_P
    assert found.prior_p(stats.gamma(0.8, scale=1 / 1.5).cdf) > LEAST_P


def discount_calibration(size, **sizes):
    def simulate(rng):
        truth = ef.PitmanYor(alpha=float(rng.gamma(1.0)), discount=float(rng.random()))
        return truth, draw_sizes(truth, size, rng)

    # alpha and then the discount is no reversible pair of updates: the last states are judged alone
    return Calibration(
        simulate,
        lambda state, counts, rng: state.update_hyper(counts, rng),
        lambda state: np.array([state.discount]),
        **sizes,
    )


def test_discount_of_weights():
    for size in (2, 40):
        assert discount_calibration(size, n_updates=5, n_simulations=150).prior_p(stats.uniform.cdf) > LEAST_P


@pytest.mark.slow
def test_discount_of_weights_in_long_runs():
    assert discount_calibration(30, n_updates=9, n_simulations=10_000).prior_p(stats.uniform.cdf) > LEAST_P


def test_the_targets_of_weights_are_their_posteriors(monkeypatch):
    module = weights_module
    counts, steps = np.array([5, 2, 1, 1]), np.array([-2.0, 0.1, 1.5])
    rng = np.random.default_rng(0)
    for weights, scale in ((ef.DirichletProcess(alpha=1.3), 1), (ef.SymmetricDirichlet(6, alpha=0.3), 6)):
        target, start = target_of(monkeypatch, module, lambda w=weights: w.update_hyper(counts, rng, shape=2.0), 1)
        assert start == pytest.approx(np.log(weights.strength))
        wanted = [weights.with_hyper(alpha=np.exp(t) / scale).log_prior(counts) for t in steps]
        wanted += stats.gamma(2.0).logpdf(np.exp(steps)) + steps  # the density of the log
        np.testing.assert_allclose(np.diff([target(t) for t in steps]), np.diff(wanted), rtol=1e-10)
        monkeypatch.undo()
    weights = ef.PitmanYor(alpha=1.3, discount=0.3)
    monkeypatch.setattr(ef.PitmanYor.__mro__[2], "update_hyper", lambda self, *args, **options: self)
    target, start = target_of(monkeypatch, module, lambda: weights.update_hyper(counts, rng), 1)
    assert start == pytest.approx(np.log(0.3 / 0.7))
    wanted = [weights.with_hyper(discount=1 / (1 + np.exp(-t))).log_prior(counts) for t in steps]
    wanted += stats.logistic.logpdf(steps)
    np.testing.assert_allclose(np.diff([target(t) for t in steps]), np.diff(wanted), rtol=1e-10)


def changed_target(monkeypatch, module, change):
    """Add a function of the place to every target of the slice sampler that a module calls."""
    right = module.slice_sample

    def wrong(target, t, rng, **bounds):
        return right(lambda x: target(x) + change(x), t, rng, **bounds)

    monkeypatch.setattr(module, "slice_sample", wrong)


def test_a_strength_without_the_density_of_its_log_is_found_out(monkeypatch):
    """Alpha is drawn as a logarithm: its target needs the term t, without which small values are too frequent."""
    changed_target(monkeypatch, weights_module, lambda t: -t)
    found = strength_calibration(ef.DirichletProcess(), 2.0, 0.5, 5, n_updates=4, n_simulations=500)
    assert found.prior_p(stats.gamma(2.0, scale=2.0).cdf) < LEAST_P


def test_a_discount_without_the_density_of_its_logit_is_found_out(monkeypatch):
    def change(t):  # only of the discount: alpha alone has other places
        return -np.log(1 / (1 + np.exp(-t))) - np.log(1 / (1 + np.exp(t)))

    changed_target(monkeypatch, weights_module, change)
    found = discount_calibration(40, n_updates=5, n_simulations=300)
    assert found.prior_p(stats.uniform.cdf) < LEAST_P


# ---- kernels ---------------------------------------------------------------------------------------------------------


def kernel_of_all_calibration(kernel=None, **sizes):
    """UpdateHyper on family and weights at once; what it leaves must have the law of the prior."""
    X = np.array([[1, 0], [3, 2]])
    family, kernel = ef.Poisson(shape=1.5, rate=0.4).bind(X), kernel or UpdateHyper()

    def simulate(rng):
        steps = {name: step_prior(family, name).rvs(random_state=rng) for name in family.hyper}
        weights = ef.DirichletProcess(alpha=float(rng.gamma(1.0)))
        sizes = draw_sizes(weights, 6, rng)
        labels = np.repeat(np.arange(len(sizes)), sizes)
        truth = with_steps(family, steps)
        n = np.bincount(labels)
        theta, _ = truth.draw_natural(np.zeros(len(n)), np.zeros((len(n), family.n_statistics_)), rng)
        rows = np.concatenate([truth.sample(theta[k : k + 1], int(m), rng) for k, m in enumerate(n)])
        rows = np.minimum(rows, 1e6)  # of rates out of all proportion; so rarely that no law sees it
        model = ef.MixtureModel(truth, weights)
        return CollapsedState(model, ef.Dataset(rows, truth), labels, seed=int(rng.integers(2**63))), None

    def update(state, data, rng):
        other = CollapsedState(state.model, state.data, state.labels.copy(), seed=int(rng.integers(2**63)))
        kernel.step(other)
        return other

    def values(state):
        factors = state.model.family.hyper_factors_
        logs = [stats.norm.cdf(np.log(factors[name]) / 3.0) for name in family.hyper]
        return np.array([*logs, stats.expon.cdf(state.model.weights.alpha)])

    return Calibration(simulate, update, values, **sizes)


def test_the_kernel_keeps_the_priors_of_all_it_updates():
    assert kernel_of_all_calibration(n_updates=3, n_simulations=60).prior_p(stats.uniform.cdf) > LEAST_P


def test_a_wrong_kernel_of_hyper_parameters_is_found_out():
    wrong = kernel_of_all_calibration(SizesForgotten(), n_updates=4, n_simulations=150)
    assert wrong.prior_p(stats.uniform.cdf) < LEAST_P


@pytest.mark.slow
def test_the_kernel_keeps_the_priors_in_long_runs():
    assert kernel_of_all_calibration(n_updates=9, n_simulations=2000).prior_p(stats.uniform.cdf) > LEAST_P


def draw_documents(a, lengths, rng):
    """Counts of topics in documents whose weights are Dirichlet with pseudo-counts `a`."""
    return np.array([rng.multinomial(length, rng.dirichlet(np.maximum(a, 1e-3))) for length in lengths])


def pseudocounts_calibration(shared, **sizes):
    lengths = np.array([0, 1, 7, 20])
    K = 3

    def simulate(rng):
        truth = rng.standard_gamma(1.0, 1 if shared else K)
        counts = draw_documents(np.full(K, truth[0]) if shared else truth, lengths, rng)
        groups = np.zeros(counts.size, dtype=int) if shared else np.tile(np.arange(K), len(lengths))
        return truth, CountTable.of_counts(groups, counts.ravel(), 1 if shared else K)

    def update(state, table, rng):
        if shared:
            return np.array([draw_shared_pseudocount(float(state[0]), K, table, lengths, rng)])
        return draw_pseudocounts(state, table, lengths, rng)

    return Calibration(simulate, update, lambda state: state, **sizes)


@pytest.mark.parametrize("shared", [False, True])
def test_pseudocounts_of_topics_and_words(shared):
    found = pseudocounts_calibration(shared, n_updates=4, n_simulations=400)
    assert found.ranks_p() > LEAST_P
    assert found.prior_p(stats.expon.cdf) > LEAST_P


@pytest.mark.slow
@pytest.mark.parametrize("shared", [False, True])
def test_pseudocounts_of_topics_and_words_in_long_runs(shared):
    found = pseudocounts_calibration(shared, n_updates=9, n_simulations=20_000)
    assert found.ranks_p() > LEAST_P
    assert found.prior_p(stats.expon.cdf) > LEAST_P


def topic_calibration(**sizes):
    """TopicGibbs.learn of both kinds of pseudo-counts, from the counts that the state itself keeps."""
    K, V, lengths = 3, 4, (6, 9, 5, 8)
    kernel = TopicGibbs(learn_alpha=True, learn_eta=True, learn_every=1)

    def simulate(rng):
        alpha, eta = rng.standard_gamma(1.0, K), float(rng.standard_gamma(1.0))
        words_of = rng.dirichlet(np.full(V, max(eta, 1e-3)), K)
        tokens = [(topic, rng.choice(V, p=words_of[topic])) for topic in _topics(alpha, lengths, rng)]
        document = np.repeat(np.arange(len(lengths)), lengths)
        topic, word = np.array(tokens).T
        order = np.lexsort((word, document))  # the order of a state's labels
        X = np.zeros((len(lengths), V))
        np.add.at(X, (document, word), 1)
        model = ef.AdmixtureModel(ef.Multinomial(eta), K, alpha=alpha)
        return kernel.init(model, X, seed=int(rng.integers(2**63)), start=topic[order].astype(np.int32)), None

    def update(state, data, rng):
        other = kernel.init(state.model, state.data, seed=int(rng.integers(2**63)), start=state.labels.copy())
        kernel.learn(other)
        return other

    def values(state):
        return np.append(state.model.pseudocounts, state.eta)

    return Calibration(simulate, update, values, **sizes)


def _topics(alpha, lengths, rng):
    return np.concatenate([rng.choice(len(alpha), n, p=rng.dirichlet(np.maximum(alpha, 1e-3))) for n in lengths])


def test_a_topic_model_learns_what_it_was_drawn_from():
    found = topic_calibration(n_updates=3, n_simulations=120)
    assert found.ranks_p() > LEAST_P
    assert found.prior_p(stats.expon.cdf) > LEAST_P


def grouped_calibration(**sizes):
    """The pseudo-counts that GroupedGibbs learns, after its sweep: the last states have the law of the prior."""
    K, lengths = 2, (3, 4)
    X0 = np.array([[0], [3], [9]])
    family, kernel = ef.Poisson(shape=1.0, rate=0.4).bind(X0), GroupedGibbs()

    def simulate(rng):
        alpha = rng.standard_gamma(1.0, K)
        labels = _topics(alpha, lengths, rng)
        theta, _ = family.draw_natural(np.zeros(K), np.zeros((K, family.n_statistics_)), rng)
        X = np.concatenate([family.sample(theta[k : k + 1], 1, rng) for k in labels])
        data = ef.Dataset(X, family, groups=np.repeat(np.arange(len(lengths)), lengths))
        return kernel.init(
            ef.AdmixtureModel(family, K, alpha=alpha), data, seed=int(rng.integers(2**63)), start=labels
        ), None

    def update(state, data, rng):
        seed = int(rng.integers(2**63))
        other = kernel.init(state.model, state.data, seed=seed, start=state.labels.copy())
        kernel.step(other)
        return other

    return Calibration(simulate, update, lambda state: state.model.pseudocounts, **sizes)


def test_groups_learn_what_they_were_drawn_from():
    assert grouped_calibration(n_updates=3, n_simulations=120).prior_p(stats.expon.cdf) > LEAST_P
