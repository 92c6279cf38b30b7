"""Sums of sparse rows by column have the bits of sums by row, and take little memory."""

import gc
import tracemalloc

import numpy as np
import pytest
from allocated import peak_of_steps
from counts_of_words import BY_COLUMN, BY_ROW, CASES, K
from instruction_sets import SETS, output_under
from scipy import sparse

import expfam as ef
from expfam.families.support import dense_rows
from expfam.samplers import ExpectationMaximization, StochasticEM
from expfam.samplers.uncollapsed import soft_sums
from expfam.samplers.uncollapsed.em import sizes_of

pytestmark = pytest.mark.filterwarnings("ignore:.*rows? (is|are) empty")


def steps(name, limits, n_threads=None, n_steps=5):
    """Results of some steps with sums by column, or by row."""
    family, X, weight = CASES[name]
    data = ef.Dataset(X, family, weight=weight)
    model = ef.MixtureModel(data.family, ef.SymmetricDirichlet(K))
    kernel = ExpectationMaximization(tol=0.0, n_threads=n_threads)
    with pytest.MonkeyPatch.context() as patch:
        for constant, value in limits.items():
            patch.setattr(soft_sums, constant, value)
        state = kernel.init(model, data, seed=0, start=np.arange(data.n_rows) % 7)
        assert state._is_by_column() == ("_LISTED_ROWS" in limits)
        found = []
        for _ in range(n_steps):
            kernel.step(state)
            found.append((state.n, dense_rows(state.S), state.labels, state.log_likelihood, state.Theta))
        state.check()
    return found


def check_bits(name):
    for by_row, *others in zip(steps(name, BY_ROW), steps(name, BY_COLUMN), steps(name, BY_COLUMN, n_threads=2)):
        for other in others:
            for a, b in zip(by_row, other):
                np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", CASES)
def test_sums_by_column_have_the_bits_of_sums_by_row(name):
    check_bits(name)


def test_long_rows_are_summed_in_double():
    family, X, _ = CASES["long rows"]
    data = ef.Dataset(X, family)
    assert sizes_of(data, K).n_segments > 1
    rows = soft_sums.Bounds.of(data.weighted_bounds)
    assert rows.phi.max() > 1 << 18  # the reach of single precision


@pytest.mark.parametrize("isa", SETS)
def test_other_instructions_have_the_same_bits(isa):
    code = """
import warnings
from test_listed_rows import check_bits
warnings.filterwarnings("ignore", ".*rows? (is|are) empty")
for name in ("counts", "fractions", "long rows"):
    check_bits(name)
"""
    output_under(isa, code, file=__file__)


def wide(n_rows=2000, n_words=40_000, per_row=20):
    rng = np.random.default_rng(0)
    words = rng.integers(0, n_words // 5, (n_rows, per_row)) + np.arange(n_rows)[:, None] % 5 * (n_words // 5)
    starts = np.arange(n_rows + 1) * per_row
    return sparse.csr_array((np.ones(words.size), words.ravel(), starts), shape=(n_rows, n_words))


def wide_model(n_clusters=120):
    data = ef.Dataset(wide(), ef.Multinomial(0.01))
    return ef.MixtureModel(data.family, ef.SymmetricDirichlet(n_clusters)), data


@pytest.mark.parametrize("kernel", [StochasticEM(), StochasticEM(theta="mean")])
def test_little_is_held_beside_the_parameters(kernel):
    model, data = wide_model()
    size = 8 * 120 * data.n_statistics
    peak = peak_of_steps(kernel, model, data, 120)
    assert size < peak <= 2.2 * size  # parameters, their table in single precision, and sums before and after
    assert peak <= kernel.memory(model, data, 120)


def test_no_array_of_expectation_maximisation_has_the_size_of_all_parameters():
    (model, data), kernel = wide_model(400), ExpectationMaximization(tol=0.0)
    peak = peak_of_steps(kernel, model, data, 400)
    assert peak < 400 * data.n_statistics  # a byte for each
    assert peak <= kernel.memory(model, data, 400)


def test_former_steps_are_forgotten_at_once():
    (model, data), kernel = wide_model(), ExpectationMaximization(tol=0.0, n_threads=1)
    state = kernel.init(model, data, seed=0, start=np.arange(data.n_rows) % 120)
    held = []
    gc.collect()
    gc.disable()
    tracemalloc.start()
    try:
        for _ in range(6):
            kernel.step(state)
            held.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
        gc.enable()
    assert held[5] - held[2] < state.S.data.nbytes


def test_sums_are_sparse_or_dense_by_their_number():
    model, data = wide_model()
    kernel = ExpectationMaximization(tol=0.0)
    state = kernel.init(model, data, seed=0, start=np.arange(data.n_rows) % 120)
    kernel.step(state)
    assert sparse.issparse(state.S)
    other = kernel.init(model, data, seed=0, start=np.zeros(data.n_rows, dtype=int))
    kernel.step(other)  # all clusters but one are alike: each row gives to all of them
    assert not sparse.issparse(other.S)
    saved = other.to_arrays()
    state.from_arrays(saved)
    for one in (state, other):
        kernel.step(one)
    np.testing.assert_array_equal(dense_rows(state.S), dense_rows(other.S))


def test_a_checkpoint_of_sparse_sums_goes_on_bit_for_bit():
    model, data = wide_model()
    kernel = ExpectationMaximization(tol=0.0)
    whole = kernel.init(model, data, seed=0, start=np.arange(data.n_rows) % 120)
    kernel.step(whole)
    half = kernel.init(model, data, seed=0, start=np.arange(data.n_rows) % 120)
    half.from_arrays(whole.to_arrays())
    for state in (whole, half):
        kernel.step(state)
    np.testing.assert_array_equal(whole.n, half.n)
    np.testing.assert_array_equal(dense_rows(whole.S), dense_rows(half.S))
    assert whole.log_joint == half.log_joint


@pytest.mark.filterwarnings("ignore::expfam.errors.DataWarning")
def test_known_rows_keep_their_class():
    X = wide(n_rows=500)
    y = np.where(np.arange(500) % 5 < 2, np.arange(500) % 5, -1)
    fitted = ef.Mixture("multinomial", 120, sampler="em", labels="clusters", n_steps=3, random_state=0).fit(X, y)
    assert (fitted.labels_[y >= 0] == y[y >= 0]).all()
