"""Sweeps over drawn parameters: exact draws of labels, statistics by differences, chains against enumeration."""

import gc
import tracemalloc
from fractions import Fraction

import numpy as np
import pytest
from enumeration import exact_posterior
from instruction_sets import output_under
from scipy import sparse, stats
from tiny import FAMILIES as TINY
from visits import LIMIT, run_chain, worst_t

import expfam as ef
import expfam.model.data as data_module
from expfam.families.trials.geometric import Geometric
from expfam.samplers import StochasticEM, UncollapsedGibbs, UncollapsedKernel, UncollapsedState
from expfam.samplers.states.collapsed import CollapsedState
from expfam.samplers.uncollapsed.dense import DenseScores, draw_labels

pytestmark = pytest.mark.filterwarnings("ignore:.*rows? (is|are) empty")

RNG = np.random.default_rng(11)
REAL = RNG.normal(scale=1.5, size=(60, 3))
COUNTS = RNG.poisson(RNG.gamma(0.6, 2.5, size=(60, 9)))
FAMILIES = {
    "spherical": (ef.SphericalGaussian(variance=2.0), REAL),
    "spherical_offset": (ef.SphericalGaussian(variance=2.0), REAL + 1e5),
    "diagonal": (ef.DiagonalGaussian(), REAL),
    "gaussian": (ef.Gaussian(), REAL),
    "poisson": (ef.Poisson(shape=2.0, rate=0.5), COUNTS),
    "poisson_sparse": (ef.Poisson(shape=2.0, rate=0.5), sparse.csr_array(COUNTS)),
    "multinomial": (ef.Multinomial(concentration=2.0), COUNTS),
    "multinomial_sparse": (ef.Multinomial(concentration=2.0), sparse.csr_array(COUNTS)),
    "geometric": (Geometric(), COUNTS[:, :1]),
}
SHOWN = (0, 7, 20)  # the data that are repeated and drawn


def repeated_state(name, K, size, weights="drawn"):
    """A state over `size` copies of each of three data, with parameters that K clusters of sixty data draw."""
    family, X = FAMILIES[name]
    family = family.bind(X)
    model = ef.MixtureModel(family, ef.SymmetricDirichlet(K))
    labels = np.arange(60) % K
    few = UncollapsedState(model, ef.Dataset(X, family), labels, n_clusters=K, seed=K)
    few.draw_parameters()
    rows = np.repeat(SHOWN, size)
    old = np.random.default_rng(K).integers(K, size=rows.size)
    state = UncollapsedState(model, ef.Dataset(X[rows], family), old, n_clusters=K, seed=3, n_steps=5)
    state.Theta, state.G, state.log_pi = few.Theta, few.G, few.log_pi
    spread = np.random.default_rng(K + 1)
    if weights == "equal":
        state.log_pi = np.full(K, -np.log(K))
    elif weights == "moderate":
        state.log_pi = np.log(spread.dirichlet(np.full(K, 3.0)))
    elif weights == "wide":
        state.log_pi = spread.uniform(-300.0, 300.0, K)
    elif weights == "one_zero":
        state.log_pi = np.log(spread.dirichlet(np.full(K, 3.0)))
        state.log_pi[K // 2] = -np.inf
    return state


def exact_law(state, size):
    """Probabilities of the labels of the three data, by plain definition."""
    phi = state.data.phi(0, state.data.n_rows)[::size]
    with np.errstate(invalid="ignore"):
        scores = phi @ state.Theta.T - state.G + state.log_pi
    p = np.exp(scores - scores.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True)


def least_p_value(labels, p):
    """Smallest p of chi-square tests of the draws of each datum; clusters with few expected draws count as one."""
    values = []
    for drawn, law in zip(labels.reshape(len(p), -1), p):
        assert law[drawn].min() > 0
        expected, seen = law * drawn.size, np.bincount(drawn, minlength=law.size)
        many = expected >= 8
        expected, seen = np.append(expected[many], expected[~many].sum()), np.append(seen[many], seen[~many].sum())
        seen, expected = (seen[:-1], expected[:-1]) if expected[-1] < 8 else (seen, expected)
        if len(seen) > 1:
            statistic = ((seen - expected) ** 2 / expected).sum()
            values.append(stats.chi2.sf(statistic, len(seen) - 1))
    return min(values, default=1.0)


LAWS = [(weights, K) for weights in ("drawn", "moderate", "equal", "wide", "one_zero") for K in (1, 2, 60, 500)]


@pytest.mark.parametrize(("weights", "K"), [law for law in LAWS if law != ("one_zero", 1)])
@pytest.mark.parametrize("name", FAMILIES)
def test_dense_draws_follow_the_exact_law(name, weights, K):
    size = 4000
    state = repeated_state(name, K, size, weights)
    labels = draw_labels(state, 1)
    assert least_p_value(labels, exact_law(state, size)) > 1e-6


class PlainDiagonal(ef.DiagonalGaussian):
    """A family whose statistics Python makes."""

    def sufficient_statistics(self, X):
        return super().sufficient_statistics(X)


@pytest.mark.parametrize("held", [0, 1 << 22], ids=["made", "held"])
@pytest.mark.parametrize("most", [None, 7])
@pytest.mark.parametrize("scale", [1.0, 3e4])
def test_draws_without_python_are_those_of_tiles_that_python_makes(scale, most, held, monkeypatch):
    monkeypatch.setattr(data_module, "_HELD_BYTES", held)
    rng, K, N = np.random.default_rng(0), 30, 5000
    X, old = rng.normal(size=(N, 4)), rng.integers(0, 7, N)
    limits = None if most is None else np.full(N, most, dtype=np.int32)
    found = []
    for family in (PlainDiagonal(), ef.DiagonalGaussian()):
        data = ef.Dataset(X, family, row_offset=1003)
        state = UncollapsedState(
            ef.MixtureModel(data.family, ef.SymmetricDirichlet(K)), data, old, n_clusters=K, seed=3
        )
        state.draw_parameters()
        state.Theta, state.G = scale * state.Theta, scale * state.G
        found += [draw_labels(state, n_threads, limits) for n_threads in (1, 3)]
    assert all(np.array_equal(found[0], labels) for labels in found)
    assert found[0].max() < (K if most is None else most)


@pytest.mark.parametrize("isa", ["base", "avx2"])
def test_other_instructions_have_the_same_law(isa):
    code = """
from expfam import SymmetricDirichlet
from test_em import test_iterations_are_those_of_plain_numpy_and_monotone as check_em
from test_gibbs import FAMILIES, draw_labels, exact_law, least_p_value, repeated_state
for name in FAMILIES:
    for K in (60, 500):
        state = repeated_state(name, K, 2000, "moderate")
        assert least_p_value(draw_labels(state, 1), exact_law(state, 2000)) > 1e-6, (name, K)
for name in ("diagonal", "multinomial_sparse"):
    check_em(name, SymmetricDirichlet(40))
"""
    output_under(isa, code, file=__file__)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_temperature_of_three_per_cent_is_found_out(name):
    size = 100_000
    state = repeated_state(name, 60, size, "moderate")
    p = exact_law(state, size)
    assert least_p_value(draw_labels(state, 1), p) > 1e-6
    state.Theta, state.G, state.log_pi = 1.03 * state.Theta, 1.03 * state.G, 1.03 * state.log_pi
    assert least_p_value(draw_labels(state, 1), p) < 1e-6


@pytest.mark.parametrize(("sparse_rows", "spread"), [(False, 2.0), (True, 1.0)])
def test_rounding_of_single_precision_is_corrected(sparse_rows, spread):
    """Scores of 10^5 nats: float32 alone is wrong by hundredths of a nat, which four million draws show."""
    size, n_sweeps, K = 100_000, 40, 40
    X = np.array([[40_000.0, 9_000.0, 700.0]])
    family = ef.Poisson(shape=1.0, rate=1.0).bind(X)
    rng = np.random.default_rng(2)
    Theta = rng.normal(scale=spread, size=(K, 3))
    exact = Theta @ X[0]
    G = exact + rng.normal(scale=0.5, size=K)
    p = np.exp(exact - G)
    p /= p.sum()
    rows = np.repeat(X, size, axis=0)
    data = ef.Dataset(sparse.csr_array(rows) if sparse_rows else rows, family)
    labels = rng.choice(K, size=size, p=p).astype(np.int32)
    state = UncollapsedState(ef.MixtureModel(family, ef.SymmetricDirichlet(K)), data, labels, n_clusters=K, seed=0)
    state.Theta, state.G, state.log_pi, state.S = Theta, G, np.zeros(K), 0.0 * state.S  # not centred: larger numbers
    seen = np.zeros(K)
    for _ in range(n_sweeps):
        state.labels = draw_labels(state, 1)
        state.n_steps += 1
        seen += np.bincount(state.labels, minlength=K)
    expected = size * n_sweeps * p
    found = stats.chi2.isf(1e-6, K - 1)
    assert ((seen - expected) ** 2 / expected).sum() < found
    scores = DenseScores(data, Theta, G, state.log_pi, state.n, state.S)
    assert scores.fits
    if sparse_rows:
        narrow = scores.row_bias + sum(np.float32(x) * row for x, row in zip(X[0], scores.table))
    else:
        tile = scores.tile()
        scores.score_tile(tile, X)
        narrow = tile.scores[0]
    q = np.exp(narrow[:K].astype(np.float64) - narrow[:K].max())
    q /= q.sum()
    assert (expected * (q / p - 1.0) ** 2).sum() > 2 * found


@pytest.mark.parametrize("K", [3, 70, 600])
@pytest.mark.parametrize("name", ["diagonal", "poisson_sparse", "multinomial", "geometric"])
def test_labels_do_not_depend_on_threads(name, K):
    state = repeated_state(name, K, 3000)
    labels = draw_labels(state, 1)
    assert np.array_equal(labels, draw_labels(state, 2))
    assert np.array_equal(labels, draw_labels(state, 3))
    state.n_steps += 1
    assert K < 3 or not np.array_equal(labels, draw_labels(state, 1))


@pytest.mark.parametrize("name", ["diagonal", "poisson_sparse", "multinomial"])
def test_outliers_are_drawn_in_double(name):
    """Rows whose scores single precision cannot hold get the label that double gives, the others keep theirs."""
    family, X = FAMILIES[name]
    dense = X.toarray() if sparse.issparse(X) else X
    huge = np.round(1e6 * np.eye(dense.shape[1])[:2]) + dense[:2]
    both = np.vstack([dense, huge])
    family = family.bind(X)
    model = ef.MixtureModel(family, ef.SymmetricDirichlet(20))
    few = UncollapsedState(model, ef.Dataset(X, family), np.arange(60) % 20, n_clusters=20, seed=1)
    few.draw_parameters()
    data = ef.Dataset(sparse.csr_array(both) if sparse.issparse(X) else both, family)
    state = UncollapsedState(model, data, np.arange(62) % 20, n_clusters=20, seed=1)
    state.Theta, state.G, state.log_pi = few.Theta, few.G, few.log_pi
    scores = data.phi(60, 62) @ state.Theta.T - state.G + state.log_pi
    gap = np.sort(scores, axis=1)[:, -1] - np.sort(scores, axis=1)[:, -2]
    assert (gap > 50).all()
    assert np.array_equal(draw_labels(state, 1)[60:], scores.argmax(axis=1))


@pytest.mark.parametrize("name", ["diagonal", "poisson_sparse"])
@pytest.mark.parametrize("spoilt", ["theta", "log_pi", "impossible", "infinite"])
def test_no_finite_score_is_an_error(name, spoilt):
    state = repeated_state(name, 5, 10)
    if spoilt == "theta":
        state.Theta[2] = np.nan
    elif spoilt == "log_pi":
        state.log_pi[1] = np.nan
    elif spoilt == "infinite":
        state.log_pi[1] = np.inf
    else:
        state.log_pi[:] = -np.inf
    with pytest.raises(FloatingPointError, match="datum 0: no component has a finite score"):
        draw_labels(state, 1)


@pytest.mark.parametrize("name", ["diagonal", "gaussian", "poisson_sparse", "multinomial", "spherical_offset"])
def test_statistics_by_differences_are_those_of_a_recount(name):
    family, X = FAMILIES[name]
    X = sparse.csr_array(sparse.vstack([X] * 4)) if sparse.issparse(X) else np.vstack([X] * 4)
    kernel = UncollapsedGibbs()
    state = kernel.init(ef.MixtureModel(family, ef.SymmetricDirichlet(8)), X, seed=0)
    by_differences = 0
    for _ in range(200):
        info = kernel.step(state)
        by_differences += 0 < info.accepted <= state.data.n_rows // 2
        n, S = state.data.statistics(state.labels, state.K)
        assert np.array_equal(n, state.n)
        assert abs(S - state.S).max() <= 1e-12 * (1.0 + abs(S).max())
        anew = UncollapsedState(state.model, state.data, state.labels, n_clusters=state.K, seed=0)
        assert abs(anew.S - state.S).max() == 0.0  # the same bits, whatever the labels were before
        assert info.objective == pytest.approx(state.model.log_joint(state.data, state.labels), rel=1e-9)
    assert by_differences > 50
    if sparse.issparse(X):
        assert state.S.nnz == S.nnz  # no zeros are kept
    state.check()


def test_statistics_do_not_drift():
    """An outlier that comes and goes leaves no rounding behind."""
    X = np.append(RNG.normal(size=200), [1e14])[:, None]
    family = ef.SphericalGaussian(variance=1.0, mean=0.0, mean_variance=1.0).bind(X[:-1])
    state = UncollapsedState(
        ef.MixtureModel(family, ef.SymmetricDirichlet(3)), ef.Dataset(X, family), np.zeros(201), n_clusters=3, seed=0
    )
    phi = state.data.phi(0, 201)[:, 0].tolist()
    for step in range(45):
        labels = state.labels.copy()
        labels[-1] = (1, 2)[step % 2]
        labels[step] = 1 + step % 2
        state.move_labels(labels)
        n, _ = state.data.statistics(state.labels, 3)
        assert np.array_equal(state.n, n)
        exact = [sum((Fraction(x) for x, label in zip(phi, labels) if label == k), Fraction(0)) for k in range(3)]
        np.testing.assert_allclose(state.S[:, 0], [float(total) for total in exact], rtol=4e-16)
    state.check()


@pytest.mark.parametrize("name", ["gaussian_diag", "multinomial", "plain_poisson"])
def test_chains_of_drawn_parameters_visit_partitions_as_enumerated(name):
    family, X = TINY[name]
    model = ef.MixtureModel(family, ef.SymmetricDirichlet(3, alpha=0.6))
    partitions, pi = exact_posterior(model, X)
    kernel = UncollapsedGibbs(draw="dense", n_threads=2)
    assert worst_t(run_chain(kernel, model, X, 1500, seed=8), partitions, pi) < LIMIT


@pytest.mark.parametrize("theta", ["map", "mean"])
def test_modes_and_means_are_not_the_posterior(theta):
    family, X = TINY["multinomial"]
    model = ef.MixtureModel(family, ef.SymmetricDirichlet(3, alpha=0.6))
    partitions, pi = exact_posterior(model, X)
    assert worst_t(run_chain(StochasticEM(theta=theta), model, X, 1500), partitions, pi) > LIMIT


def test_stochastic_em_is_the_mode_then_a_draw():
    family, X = FAMILIES["poisson"]
    kernel = StochasticEM()
    state = kernel.init(ef.MixtureModel(family, ef.DirichletProcess()), X, seed=0)
    n, S = state.n.copy(), state.S.copy()
    kernel.step(state)
    Theta, G = state.model.family.map_natural(n, S)
    assert np.array_equal(state.Theta, Theta)
    assert np.array_equal(state.G, G)
    assert np.array_equal(state.log_pi, state.model.weights.map_log(n))


def test_wrong_settings_are_refused():
    model, X = ef.MixtureModel(ef.Poisson(), ef.SymmetricDirichlet(3)), COUNTS
    for kernel, words in [
        (UncollapsedGibbs(draw="fast"), "draw must be 'auto', 'dense'"),
        (UncollapsedGibbs(tau=0.0), "tau must be a positive number"),
        (UncollapsedGibbs(theta="guess"), "theta must be .draw., .map. or .mean."),
        (StochasticEM(theta="draw"), "UncollapsedGibbs draws parameters"),
    ]:
        with pytest.raises(ValueError, match=words):
            kernel.init(model, X, seed=0)
    with pytest.raises(NotImplementedError, match="must write draw_labels"):
        UncollapsedKernel().step(UncollapsedKernel().init(model, X, seed=0))
    assert UncollapsedGibbs().init(model, X, seed=0).as_type(CollapsedState).n_clusters <= 3


@pytest.mark.parametrize(
    "kernel", [UncollapsedGibbs(draw="dense"), StochasticEM(), ef.samplers.ExpectationMaximization(tol=0.0)], ids=repr
)
def test_nothing_of_former_steps_is_kept(kernel):
    data = ef.Dataset(RNG.poisson(1.0, (300, 500)), ef.Multinomial(0.1))
    model = ef.MixtureModel(data.family, ef.SymmetricDirichlet(60))
    gc.collect()
    gc.disable()  # which would find cycles of references, at some later time
    try:
        state = kernel.init(model, data, seed=0)
        kernel.step(state)
        tracemalloc.start()
        kernel.step(state)
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(5):
            kernel.step(state)
        assert tracemalloc.get_traced_memory()[0] < before + 4 * 60 * 500  # one table in single precision
    finally:
        tracemalloc.stop()
        gc.enable()
