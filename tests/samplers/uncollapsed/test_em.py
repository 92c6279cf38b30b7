"""Expectation maximisation: against the same in plain NumPy, monotone, weights as repetitions, any threads."""

import numpy as np
import pytest
from scipy import sparse
from scipy.special import logsumexp

import expfam as ef
from expfam.errors import CapabilityError
from expfam.families.base import Family
from expfam.families.trials.geometric import Geometric
from expfam.samplers import (
    Checkpoint,
    CollapsedGibbs,
    Cycle,
    ExpectationMaximization,
    StochasticEM,
    UpdateHyper,
    load_sampler,
    sample,
)
from expfam.samplers.chain.callbacks import restore_checkpoint
from expfam.samplers.uncollapsed import dense
from expfam.samplers.uncollapsed.em_few_rows import expectation_of_few_rows

pytestmark = pytest.mark.filterwarnings("ignore:.*rows? (is|are) empty")

RNG = np.random.default_rng(5)
N, CLUSTERS = 700, 5
TRUTH = RNG.integers(CLUSTERS, size=N)
REAL = RNG.normal(scale=2.0, size=(CLUSTERS, 4))[TRUTH] + RNG.normal(size=(N, 4))
COUNTS = RNG.poisson(RNG.gamma(0.5, 3.0, size=(CLUSTERS, 12))[TRUTH])
CASES = {
    "spherical": (ef.SphericalGaussian(variance=1.0), REAL),
    "spherical_sparse": (ef.SphericalGaussian(variance=1.0), sparse.csr_array(np.where(REAL > 1.0, REAL, 0.0))),
    "diagonal": (ef.DiagonalGaussian(), REAL),
    "full": (ef.Gaussian(), REAL),
    "full_offset": (ef.Gaussian(), REAL * [1e-3, 1.0, 1.0, 1e3] + 1e4),
    "multinomial": (ef.Multinomial(concentration=0.3), COUNTS),
    "multinomial_sparse": (ef.Multinomial(concentration=0.3), sparse.csr_array(COUNTS)),
    "poisson": (ef.Poisson(shape=0.7, rate=0.4), COUNTS),
    "poisson_sparse": (ef.Poisson(shape=0.7, rate=0.4), sparse.csr_array(COUNTS)),
    "categorical": (ef.Categorical(), np.minimum(COUNTS[:, :6], 3)),
    "geometric": (Geometric(), COUNTS[:, :1]),
}


def reference(model, data, labels, n_steps, weight=None):
    """The same iterations in double, from plain definitions: objectives, and the last counts and sums."""
    family, K = model.family, model.weights.max_components or labels.max() + 1
    phi = data.phi(0, data.n_rows)
    w = np.ones(len(phi)) if weight is None else weight
    R = np.eye(K)[labels] * w[:, None]
    objectives = []
    for _ in range(n_steps):
        theta, g = family.map_natural(R.sum(axis=0), R.T @ phi)
        log_pi = model.weights.map_log(R.sum(axis=0))
        scores = family.log_likelihood(phi, theta, g) + log_pi
        log_norm = logsumexp(scores, axis=1)
        R = np.exp(scores - log_norm[:, None]) * w[:, None]
        prior = family.log_prior(theta, g).sum() + model.weights.log_density(log_pi)
        objectives.append(w @ log_norm + prior)
    return np.array(objectives), R.sum(axis=0), R.T @ phi, scores.argmax(axis=1)


def start(seed=3, K=7):
    return np.random.default_rng(seed).integers(K, size=N).astype(np.int32)


@pytest.mark.parametrize("weights", [ef.SymmetricDirichlet(7, alpha=0.8), ef.SymmetricDirichlet(40)])
@pytest.mark.parametrize("name", CASES)
def test_iterations_are_those_of_plain_numpy_and_monotone(name, weights):
    family, X = CASES[name]
    data = ef.Dataset(X, family)
    model = ef.MixtureModel(data.family, weights)
    wanted, n, S, labels = reference(model, data, start(), 25)
    kernel = ExpectationMaximization(tol=0.0)
    state = kernel.init(model, data, seed=0, start=start())
    got = np.array([kernel.step(state).objective for _ in range(25)])
    scale = 1e-7 * abs(wanted).max()
    assert (np.diff(got) >= -scale).all()
    assert np.abs(got - wanted).max() <= 20 * scale  # iterations amplify rounding of responsibilities
    assert np.abs(state.n - n).max() <= 1e-3 * N
    assert np.abs(state.S - S).max() <= 1e-3 * (1.0 + np.abs(S).max())
    assert (state.labels != labels).mean() < 0.01
    assert abs(state.n.sum() - N) <= 1e-5 * N
    state.check()


@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize("name", [name for name in CASES if "sparse" not in name])
def test_few_rows_have_the_expectation_of_many(name, is_weighted, monkeypatch):
    family, X = CASES[name]
    weight = np.arange(N) % 3 * 0.7 if is_weighted else None
    data = ef.Dataset(X, family, weight=weight)
    kernel = ExpectationMaximization(tol=0.0)
    found = []
    for is_few in (True, False):
        monkeypatch.setattr("expfam.samplers.uncollapsed.em.has_few_rows", lambda *_, is_few=is_few: is_few)
        state = kernel.init(
            ef.MixtureModel(data.family, ef.SymmetricDirichlet(7, alpha=0.8)), data, seed=0, start=start()
        )
        kernel.step(state)
        found.append((state.n, state.S, state.log_likelihood, state.labels))
    (n, S, log_likelihood, labels), (many_n, many_S, many_likelihood, many_labels) = found
    np.testing.assert_allclose(n, many_n, rtol=1e-4, atol=1e-4)
    assert np.abs(S - many_S).max() <= 1e-4 * (1.0 + np.abs(many_S).max())
    assert np.isclose(log_likelihood, many_likelihood, rtol=1e-6)
    assert (labels != many_labels).mean() < 0.01


def test_few_rows_without_a_finite_score_are_refused():
    data = ef.Dataset(COUNTS[:3], ef.Multinomial())
    Theta, zeros = np.full((2, 12), -np.inf), np.zeros(2)
    Theta[:, COUNTS[0] > 0] = -1.0  # a word that a row does not have costs it nothing
    with pytest.raises(FloatingPointError, match=r"'multinomial', datum [12]: no component has a finite score"):
        expectation_of_few_rows(data, Theta, zeros, zeros)
    assert np.isfinite(expectation_of_few_rows(data.take(np.array([0])), Theta, zeros, zeros)[2])


@pytest.mark.parametrize("weights", [ef.DirichletProcess(alpha=2.0), ef.PitmanYor(alpha=1.0, discount=0.3)])
def test_sticks_are_monotone_too(weights):
    kernel = ExpectationMaximization(tol=0.0, truncation=12)
    state = kernel.init(ef.MixtureModel(ef.DiagonalGaussian(), weights), REAL, seed=1)
    got = np.array([kernel.step(state).objective for _ in range(40)])
    assert (np.diff(got) >= -1e-7 * abs(got).max()).all()
    assert got[-1] > got[0] + 1.0


def test_a_wrong_prior_in_the_objective_is_found_out():
    """The objective without its prior is not what steps increase."""
    data = ef.Dataset(COUNTS[:40], ef.Multinomial(concentration=30.0))
    kernel = ExpectationMaximization(tol=0.0)
    model = ef.MixtureModel(data.family, ef.SymmetricDirichlet(4, alpha=0.2))
    state = kernel.init(model, data, seed=1, start="kmeans++")
    infos = [kernel.step(state) for _ in range(60)]
    objective, likelihood = np.array([(i.objective, i.extra["log_likelihood"]) for i in infos]).T
    assert (np.diff(objective) >= -1e-7 * abs(objective).max()).all()
    assert (np.diff(likelihood) < -0.1).any()


def test_a_fixed_point_is_one():
    family, X = CASES["diagonal"]
    kernel = ExpectationMaximization(tol=1e-12)
    state = kernel.init(ef.MixtureModel(family, ef.SymmetricDirichlet(3)), X, seed=0, start="kmeans++")
    infos = [kernel.step(state) for _ in range(400)]
    assert infos[-1].extra["converged"]
    assert state.converged
    n, S, Theta = state.n.copy(), state.S.copy(), state.Theta.copy()
    assert kernel.step(state).objective == infos[-1].objective  # nothing is done
    state.converged = False
    kernel.step(state)
    assert np.abs(state.n - n).max() < 1e-2
    assert np.abs(state.S - S).max() < 1e-2 * (1 + np.abs(S).max())
    assert np.abs(state.Theta - Theta).max() < 1e-3 * (1 + np.abs(Theta).max())


@pytest.mark.parametrize("name", ["diagonal", "multinomial_sparse", "multinomial", "spherical_sparse"])
def test_weights_are_repetitions(name):
    family, X = CASES[name]
    data = ef.Dataset(X, family)
    times = np.random.default_rng(8).integers(0, 4, N)
    again = np.repeat(np.arange(N), times)
    model = ef.MixtureModel(data.family, ef.SymmetricDirichlet(7))
    kernel = ExpectationMaximization(tol=0.0)
    weighted = ef.Dataset(X, data.family, weight=times)
    one = kernel.init(model, weighted, seed=0, start=start())
    many = kernel.init(model, ef.Dataset(X[again], data.family), seed=0, start=start()[again])
    first, second = ([kernel.step(state).objective for _ in range(10)] for state in (one, many))
    assert np.allclose(first, second, rtol=2e-6)
    assert np.allclose(one.n, many.n, atol=0.02)
    assert np.array_equal(one.labels[again], many.labels)


@pytest.mark.parametrize("name", ["full", "poisson", "poisson_sparse"])
def test_results_do_not_depend_on_threads(name):
    family, X = CASES[name]
    X = sparse.vstack([X] * 5).tocsr() if sparse.issparse(X) else np.vstack([X] * 5)
    results = []
    for n_threads in (1, 2, 3):
        kernel = ExpectationMaximization(n_threads=n_threads, tol=0.0)
        state = kernel.init(ef.MixtureModel(family, ef.SymmetricDirichlet(9)), X, seed=2)
        objectives = [kernel.step(state).objective for _ in range(5)]
        results.append((objectives, state.n.tobytes(), state.S.tobytes(), state.labels.tobytes()))
    assert results[0] == results[1] == results[2]


def test_weights_of_rows_that_are_summed_in_double():
    X = np.vstack([REAL, [[1e6, 0, 0, 0]]])
    data = ef.Dataset(X, ef.SphericalGaussian(variance=1.0, mean=0.0, mean_variance=1e3))
    model, labels = ef.MixtureModel(data.family, ef.SymmetricDirichlet(5)), np.append(start(K=4), 4).astype(np.int32)
    again = np.append(np.arange(N + 1), [N, N])
    kernel = ExpectationMaximization(tol=0.0)
    weighted = ef.Dataset(X, data.family, weight=np.append(np.ones(N), 3.0))
    one = kernel.init(model, weighted, seed=0, start=labels)
    many = kernel.init(model, ef.Dataset(X[again], data.family), seed=0, start=labels[again])
    for _ in range(3):
        assert kernel.step(one).objective == pytest.approx(kernel.step(many).objective, rel=1e-9)


def test_data_that_single_precision_cannot_hold_are_summed_in_double():
    """A few rows far away: their scores are beyond 2^18, those of the others are not."""
    X = np.vstack([REAL, [[1e4, 0, 0, 0], [0, -3e4, 0, 0], [1e6, 0, 0, 0]]])
    data = ef.Dataset(X, ef.SphericalGaussian(variance=1.0, mean=0.0, mean_variance=1e3))
    model = ef.MixtureModel(data.family, ef.SymmetricDirichlet(5))
    labels = np.append(start(K=4), [4, 4, 4]).astype(np.int32)
    wanted, n, _, labels_then = reference(model, data, labels, 4)
    kernel = ExpectationMaximization(tol=0.0)
    state = kernel.init(model, data, seed=0, start=labels)
    got = [kernel.step(state).objective for _ in range(4)]
    assert np.allclose(got, wanted, rtol=1e-9)
    assert np.allclose(state.n, n, atol=1e-3)
    assert np.array_equal(state.labels, labels_then)


def test_empty_components_stay_alive():
    """A component without data sits at the mode of the prior and may take data up later."""
    kernel = ExpectationMaximization(tol=0.0)
    state = kernel.init(
        ef.MixtureModel(ef.DiagonalGaussian(), ef.SymmetricDirichlet(30)), REAL, seed=0, start=np.zeros(N, int)
    )
    for _ in range(20):
        kernel.step(state)
    assert np.isfinite(state.Theta).all()
    assert np.isfinite(state.log_pi).all()
    assert state.n.sum() == pytest.approx(N, rel=1e-5)


def test_a_checkpoint_goes_on_bit_for_bit(tmp_path):
    kernel = ExpectationMaximization(tol=1e-9)
    model = ef.MixtureModel(ef.Poisson(), ef.SymmetricDirichlet(6))
    state = kernel.init(model, sparse.csr_array(COUNTS), seed=4)
    sample(kernel, state, 5)
    Checkpoint(tmp_path / "run").write(state)
    other = kernel.init(model, sparse.csr_array(COUNTS), seed=4)
    restore_checkpoint(tmp_path / "run", other)
    assert other.log_joint == state.log_joint
    assert [kernel.step(state).objective for _ in range(3)] == [kernel.step(other).objective for _ in range(3)]
    assert state.S.tobytes() == other.S.tobytes()


@pytest.mark.parametrize("sampler", ["em", "stochastic_em"])
@pytest.mark.parametrize("weights", [None, ef.SymmetricDirichlet(10)])
def test_the_estimator_takes_the_names(sampler, weights):
    X = CASES["multinomial_sparse"][1]
    mixture = ef.Mixture("multinomial", weights=weights, sampler=sampler, n_steps=20, random_state=0).fit(X)
    assert mixture.n_components_ >= 2
    assert np.isfinite(mixture.trace_.column("objective")).all()
    kind = {"em": ExpectationMaximization, "stochastic_em": StochasticEM}[sampler]
    assert load_sampler(sampler, n_threads=2) == kind(n_threads=2)


def test_hyper_parameters_wake_what_had_converged():
    cycle = Cycle(ExpectationMaximization(tol=1e-3), UpdateHyper())
    state = cycle.init(ef.MixtureModel(ef.Poisson(), ef.SymmetricDirichlet(6)), COUNTS, seed=4)
    objectives = [cycle.step(state).objective for _ in range(20)]
    assert len(set(objectives[-3:])) == 3


def test_refusals():
    class Bare(Family):
        support = "counts"

        def sufficient_statistics(self, X):
            return X

        def log_marginal(self, n, S):
            return np.zeros(len(n))

    class NoDensity(Bare):
        def map_natural(self, n, S):
            return S, n

    with pytest.raises(CapabilityError, match=r"ExpectationMaximization needs map_natural\(\)"):
        ExpectationMaximization().init(ef.MixtureModel(Bare(), ef.SymmetricDirichlet(2)), COUNTS, seed=0)
    with pytest.raises(CapabilityError, match=r"needs log_prior\(\)"):
        ExpectationMaximization().init(ef.MixtureModel(NoDensity(), ef.SymmetricDirichlet(2)), COUNTS, seed=0)
    with pytest.raises(ValueError, match="tol must be a non-negative number"):
        ExpectationMaximization(tol=-1.0).init(ef.MixtureModel(ef.Poisson(), ef.SymmetricDirichlet(2)), COUNTS, seed=0)
    cycle = Cycle(ExpectationMaximization(), CollapsedGibbs())
    state = cycle.init(ef.MixtureModel(ef.Poisson(), ef.SymmetricDirichlet(2)), COUNTS, seed=0)
    with pytest.raises(CapabilityError, match="start that from its labels"):
        cycle.step(state)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize(
    "family",
    [
        ef.DiagonalGaussian(),
        ef.DiagonalGaussian(missing=True),
        ef.SphericalGaussian(),
        ef.SphericalGaussian(variance=1.0),
        ef.VonMisesFisher(normalize=False),
    ],
    ids=["diagonal", "holes", "spherical", "known variance", "directions"],
)
def test_statistics_that_a_tile_writes_have_the_bits_of_the_data(family, kind, monkeypatch):
    """Statistics of many rows are not kept: those of compiled families are written row by row where they are scored."""
    rng = np.random.default_rng(8)
    X = rng.normal(size=(7, 24))[rng.integers(7, size=23_000)] * 2.0 + rng.normal(size=(23_000, 24))
    if family.allows_missing:
        X[rng.random(X.shape) < 0.1] = np.nan
    if family.support == "unit":
        X /= np.sqrt((X * X).sum(axis=1, keepdims=True))
    data = ef.Dataset(X.astype(kind), family, weight=rng.integers(1, 4, len(X)))
    assert not data.holds_phi
    labels, found, asked = rng.integers(7, size=len(X)), [], []
    write = dense.dense_source

    def counted(*args):
        asked.append(write(*args) is not None)
        return write(*args)

    for source in (counted, lambda *args: None):
        monkeypatch.setattr(dense, "dense_source", source)
        kernel = ExpectationMaximization(tol=0.0)
        state = kernel.init(ef.MixtureModel(data.family, ef.SymmetricDirichlet(7)), data, seed=0, start=labels)
        for _ in range(3):
            kernel.step(state)
        found.append((state.log_joint, state.n.tobytes(), state.S.tobytes(), state.labels.tobytes()))
    assert all(asked)
    assert asked
    assert found[0] == found[1]
