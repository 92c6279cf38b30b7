"""Geweke's joint-distribution test of each kernel and family, with asserted z-scores.

Data and labels drawn from the prior have the same law as those of a chain that alternates one step of the kernel with
new data given the labels (Geweke 2004, "Getting it right"). Any error in a conditional, a predictive, a draw of
parameters or in the simulation of data moves some average apart.
"""

from functools import cache

import numpy as np
import pytest
from tiny import FAMILIES

from expfam import DirichletProcess, MixtureModel, PitmanYor, SymmetricDirichlet
from expfam.engines import Part
from expfam.samplers import CollapsedGibbs, Cycle, ShardedData, UncollapsedGibbs, UpdateHyper

pytestmark = pytest.mark.filterwarnings("ignore::expfam.errors.DataWarning")

N = 5
LIMIT = 5.5
CASES = {
    "collapsed_dp": (CollapsedGibbs(), DirichletProcess(alpha=0.9)),
    "collapsed_py": (CollapsedGibbs(order="random"), PitmanYor(alpha=0.5, discount=0.4)),
    "collapsed_finite": (CollapsedGibbs(), SymmetricDirichlet(3, alpha=0.7)),
    "uncollapsed_finite": (UncollapsedGibbs(), SymmetricDirichlet(3, alpha=0.7)),
}
PRIORS = {"uncollapsed_finite": "collapsed_finite"}  # the same weights: one simulation from the prior serves both
LIKELIHOODS = [
    "multinomial",
    "categorical",
    "poisson",
    "gaussian",
    "gaussian_diag",
    "gaussian_spherical",
    "gaussian_spherical_known",
    "gaussian_spherical_shared",
    "gaussian_zero",
]


def draw_partition(weights, rng):
    """Labels of N data from the prior, by sequential seating."""
    labels, counts = [0], [1]
    for i in range(1, N):
        masses = np.append(np.array(counts) + weights.offset, np.exp(weights.log_new_mass(i, len(counts))[-1]))
        k = int(rng.choice(len(masses), p=masses / masses.sum()))
        labels.append(k)
        if k == len(counts):
            counts.append(0)
        counts[k] += 1
    return np.array(labels)


def draw_data(family, labels, rng):
    """Data given labels: a parameter for each cluster from the prior, then rows."""
    F = family.n_statistics_
    X = np.empty((N, family.n_features_in_))
    for k in np.unique(labels):
        theta, _ = family.draw_natural(np.zeros(1), np.zeros((1, F)), rng)
        inside = labels == k
        X[inside] = family.sample(theta, int(inside.sum()), rng)
    return X


def functionals(labels, X):
    """Bounded functions of labels and data, which are the same under any renaming of clusters."""
    sizes = np.bincount(labels)
    squashed = np.tanh(X / 4.0)
    same = labels[:, None] == labels[None]
    return np.array(
        [
            np.count_nonzero(sizes),
            sizes.max(),
            same[0, 1],
            squashed.mean(),
            (squashed**2).mean(),
            np.tanh(np.abs(X[0] - X[1]).sum() / 4.0) * same[0, 1],
            np.tanh(X[0] / 4.0) @ np.tanh(X[1] / 4.0),
        ],
        dtype=float,
    )


@cache
def prior_simulation(name, case, n_steps=1500):
    """Functionals of labels and data from the prior (n_steps, 7): the same for kernels of one family and weights."""
    _, weights = CASES[case]
    family, rng = bound_to_zero(*FAMILIES[name]), np.random.default_rng(4)
    prior = []
    for _ in range(n_steps):
        labels = draw_partition(weights, rng)
        prior.append(functionals(labels, draw_data(family, labels, rng)))
    return np.array(prior)


def z_scores(kernel, family, weights, prior, rng, n_batches=30, data_of=lambda X, family: X):
    """Differences of averages between prior simulation and alternating chain, in standard errors."""
    n_steps = len(prior)
    chain = []
    labels = draw_partition(weights, rng)
    X = draw_data(family, labels, rng)
    for _ in range(n_steps):
        data, seed = data_of(X, family), int(rng.integers(2**63))
        state = kernel.init(MixtureModel(family, weights), data, seed=seed, start=labels)
        kernel.step(state)
        labels = state.partition
        X = draw_data(family, labels, rng)
        chain.append(functionals(labels, X))
    batches = np.array(chain)[: n_steps // n_batches * n_batches].reshape(n_batches, -1, prior.shape[1]).mean(axis=1)
    error = np.sqrt(prior.var(axis=0) / n_steps + batches.var(axis=0, ddof=1) / n_batches)
    return (prior.mean(axis=0) - batches.mean(axis=0)) / error


def bound_to_zero(family, X):
    """The family bound once and for all, to data of mean zero where it is centred on their mean."""
    return family.bind(np.vstack([X, -X]) if family.support == "real" else X)


CELLS = [
    pytest.param(name, case, marks=() if (row - column) % 4 == 0 else pytest.mark.slow)
    for row, name in enumerate(LIKELIHOODS)
    for column, case in enumerate(CASES)
]


@pytest.mark.parametrize(("name", "case"), CELLS)  # each family and each case once, all of them in the slow run
def test_joint_distribution(name, case):
    kernel, weights = CASES[case]
    prior = prior_simulation(name, PRIORS.get(case, case))
    z = z_scores(kernel, bound_to_zero(*FAMILIES[name]), weights, prior, np.random.default_rng(5))
    assert np.abs(z).max() < LIMIT, z


def in_parts(X, family):
    """Rows in two parts."""
    return ShardedData([Part(0, 2, X[:2]), Part(2, N - 2, X[2:])], family)


@pytest.mark.parametrize("name", ["poisson", "gaussian_diag"])
def test_joint_distribution_of_rows_in_parts(name):
    kernel, weights = CASES["uncollapsed_finite"]
    family, prior = bound_to_zero(*FAMILIES[name]), prior_simulation(name, "collapsed_finite")
    z = z_scores(kernel, family, weights, prior, np.random.default_rng(5), data_of=in_parts)
    assert np.abs(z).max() < LIMIT, z


def test_a_part_that_keeps_its_rows_together_is_found_out():
    """The rows of the second part get the label of its first one."""

    class Together(UncollapsedGibbs):
        def of_parts(self):
            return self

        def new_labels(self, state):
            labels, extra = super().new_labels(state)
            return np.full_like(labels, labels[0]) if state.data.row_offset else labels, extra

    _, weights = CASES["uncollapsed_finite"]
    family, prior = bound_to_zero(*FAMILIES["poisson"]), prior_simulation("poisson", "collapsed_finite")
    z = z_scores(Together(), family, weights, prior, np.random.default_rng(5), data_of=in_parts)
    assert np.abs(z).max() > LIMIT, z


def test_a_wrong_prior_in_the_kernel_is_found_out():
    _, weights = CASES["collapsed_dp"]

    class Wrong(CollapsedGibbs):
        def init(self, model, data, **options):
            return super().init(model.with_weights(DirichletProcess(alpha=1.4)), data, **options)

    prior = prior_simulation("poisson", "collapsed_dp")
    z = z_scores(Wrong(), bound_to_zero(*FAMILIES["poisson"]), weights, prior, np.random.default_rng(5))
    assert np.abs(z).max() > LIMIT


def test_learned_weights_keep_their_prior():
    """Strength and partition together: alpha ~ Gamma(1, 1), seated, redrawn; its law must stay the prior."""
    rng = np.random.default_rng(11)
    alphas = []
    weights = DirichletProcess(alpha=1.0)
    for _ in range(6000):
        labels = draw_partition(weights, rng)
        weights = weights.update_hyper(np.bincount(labels), rng)
        alphas.append(weights.alpha)
    alphas = np.minimum(np.array(alphas), 8.0).reshape(60, -1)
    expected = 1.0 - np.exp(-8.0)  # mean of min(alpha, 8) under Gamma(1, 1)
    means = alphas.mean(axis=1)
    assert abs(means.mean() - expected) < 4.5 * means.std(ddof=1) / np.sqrt(60)


def test_update_hyper_is_a_kernel_of_the_cycle():
    family, X = FAMILIES["poisson"]
    kernel = Cycle(CollapsedGibbs(), UpdateHyper())
    state = kernel.init(MixtureModel(family, DirichletProcess()), X, seed=0)
    kernel.step(state)
    assert state.n_steps == 2
    assert state.model.family.shape != family.shape
    assert state.model.weights.alpha != 1.0
    state.check()
