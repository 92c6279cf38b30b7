"""Sums of sparse rows by column have the bits of sums by row, and take little memory."""

import gc
import tracemalloc

import numpy as np
import pytest
from allocated import peak_of_steps
from counts_of_words import BY_COLUMN, BY_ROW, CASES, K, texts
from instruction_sets import SETS, output_under
from scipy import sparse

import expfam as ef
from expfam.families.support import dense_rows
from expfam.samplers import ExpectationMaximization, StochasticEM
from expfam.samplers.uncollapsed import em, listed_parameters, listed_rows, soft_sums
from expfam.samplers.uncollapsed.em import sizes_of
from expfam.samplers.uncollapsed.word_scores import scores_of

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


def test_scratch_memory_of_a_thread_does_not_grow_with_the_words():
    model, data = wide_model()
    state = ExpectationMaximization(tol=0.0).init(model, data, seed=0, start=np.arange(data.n_rows) % 120)
    state.draw_parameters("map")
    columns = listed_rows.ColumnEntries(data)
    scores = scores_of(listed_rows.ScoredColumns(data, columns), state, columns.occurring)
    tracemalloc.start()
    try:
        tile = scores.tile()
        assert 0 < tracemalloc.get_traced_memory()[0] < data.n_statistics  # a byte for each
    finally:
        tracemalloc.stop()
    del tile


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


def test_more_components_than_two_bytes_hold_have_the_scores_of_an_array():
    X = texts(n_rows=200, n_words=70, per_row=12)
    data, n_clusters = ef.Dataset(X, ef.Multinomial(0.1)), (1 << 16) + 100
    model, kernel = ef.MixtureModel(data.family, ef.SymmetricDirichlet(n_clusters)), ExpectationMaximization(tol=0.0)
    found = {}
    for least in (0, 1 << 60):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(em, "has_few_rows", lambda data, n_components: False)
            patch.setattr(listed_parameters, "_LEAST_CELLS", least)
            for constant, value in BY_COLUMN.items():
                patch.setattr(soft_sums, constant, value)
            state = kernel.init(model, data, seed=0, start=n_clusters - 7 + np.arange(data.n_rows) % 7)
            kernel.step(state)
        assert isinstance(state.Theta, listed_parameters.ListedParameters) == (least == 0)
        found[least] = state
    lists, array = found.values()
    assert (lists.labels == array.labels).all()
    np.testing.assert_allclose(lists.n, array.n, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(lists.log_likelihood, array.log_likelihood, rtol=1e-7)  # of sums in single precision


def test_rows_that_give_to_all_components_have_the_sums_of_few():
    data = ef.Dataset(texts(), ef.Multinomial(0.1))
    model = ef.MixtureModel(data.family, ef.SymmetricDirichlet(K))
    sums = []
    for n_few, n_cells in ((4, 1 << 17), (0, 1)):  # small lists grow, and the sums of each task are put away alone
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(listed_rows, "_FEW_COMPONENTS", n_few)
            patch.setattr(listed_rows, "_CELLS_AT_ONCE", n_cells)
            patch.setattr(listed_rows, "_SPARSE_SHARE", 0)
            for constant, value in BY_COLUMN.items():
                patch.setattr(soft_sums, constant, value)
            state = ExpectationMaximization(tol=0.0).init(model, data, seed=0, start=np.arange(data.n_rows) % 2)
            ExpectationMaximization(tol=0.0).step(state)
        sums.append(state)
    assert sparse.issparse(sums[0].S)
    for a, b in zip((sums[0].n, *_csr(sums[0].S)), (sums[1].n, *_csr(sums[1].S))):
        np.testing.assert_array_equal(a, b)


def _csr(S):
    return S.data, S.indices, S.indptr


def test_sums_that_cancel_are_left_out():
    made = listed_rows._ByComponent(np.array([2, 1, 3]), 4)
    numbers, components = np.array([2, 1, 1], dtype=np.int32), np.array([0, 2, 1, 2], dtype=np.int32)
    made.put([(numbers, components, np.array([1.0, 2.0, 3.0, 4.0]))])  # of six sums four are not 0
    found = made.sums()
    np.testing.assert_array_equal(found.toarray(), [[1, 0, 0, 0], [0, 3, 0, 0], [2, 0, 4, 0]])
    assert found.nnz == len(found.data) == 4


@pytest.mark.filterwarnings("ignore::expfam.errors.DataWarning")
def test_known_rows_keep_their_class():
    X = wide(n_rows=500)
    y = np.where(np.arange(500) % 5 < 2, np.arange(500) % 5, -1)
    fitted = ef.Mixture("multinomial", 120, sampler="em", labels="clusters", n_steps=3, random_state=0).fit(X, y)
    assert (fitted.labels_[y >= 0] == y[y >= 0]).all()
