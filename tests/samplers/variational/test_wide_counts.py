"""Variational inference with sparse sums: the results of dense sums, with less memory."""

import copy

import numpy as np
import pytest
from allocated import peak_of_steps
from scipy import sparse

import expfam as ef
from expfam.families.counts.natural_cells import has_natural_cells, natural_cells
from expfam.families.support import dense_rows
from expfam.model.occurring import occurring_columns
from expfam.samplers import Memoized, SparseVariational, Stochastic, VariationalState
from expfam.samplers.variational import wide_counts
from expfam.samplers.variational.wide_counts import WidePosterior, WideSums, has_wide_counts

pytestmark = pytest.mark.filterwarnings("ignore:.*rows? (is|are) empty")
K = 40
FAMILIES = {"multinomial": ef.Multinomial(0.05), "poisson": ef.Poisson(0.05, 0.1)}


def texts(n_rows=1500, n_words=400, seed=0):
    rng = np.random.default_rng(seed)
    topics = rng.dirichlet(np.full(n_words, 0.02), size=8)
    return sparse.csr_array(np.array([rng.multinomial(6, topics[i % 8]) for i in range(n_rows)], dtype=np.float64))


def run(kernel, least_cells, *, family="multinomial", weight=None, n_steps=6, n_threads=None):
    """A state after some passes, with sparse sums from `least_cells` cells on."""
    data = ef.Dataset(texts(), FAMILIES[family], weight=weight)
    model = ef.MixtureModel(data.family, ef.SymmetricDirichlet(K))
    kernel = copy.copy(kernel)
    kernel.n_threads = n_threads
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wide_counts, "_LEAST_CELLS", least_cells)
        patch.setattr(wide_counts, "_DENSE_SHARE", 0)
        n_first = 11 if kernel.objective == "vb" else K  # modes of empty clusters are alike: rounding would choose
        state = kernel.init(model, data, seed=1, start=np.arange(data.n_rows) % n_first)
        for _ in range(n_steps):
            kernel.step(state)
    assert isinstance(state.sums, WideSums) == (least_cells == 0)
    return state


KERNELS = {
    "full": SparseVariational(3),
    "memoized": SparseVariational(3, schedule=Memoized(4)),
    "double": SparseVariational(3, dtype="float64", schedule=Memoized(4)),
    "candidates": SparseVariational(2, n_candidates=6, full_every=3),
    "modes": SparseVariational(3, objective="map", dtype="float64"),
}


@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", KERNELS)
def test_results_are_those_of_dense_sums(name, family, is_weighted):
    weight = np.random.default_rng(3).random(1500) if is_weighted else None
    settings = {"family": family, "weight": weight}
    dense, wide = (run(KERNELS[name], cells, **settings) for cells in (1 << 60, 0))
    rtol = 1e-9 if KERNELS[name].dtype == "float64" else 1e-4
    assert (wide.labels == dense.labels).mean() > 0.999
    np.testing.assert_allclose(wide.log_joint, dense.log_joint, rtol=min(rtol, 1e-5))
    np.testing.assert_allclose(wide.n, dense.n, rtol=rtol, atol=1e-2 if rtol == 1e-4 else 1e-9)
    np.testing.assert_allclose(dense_rows(wide.S), dense.S, atol=2e-2 if rtol == 1e-4 else 1e-9)
    assert wide.n_clusters == dense.n_clusters
    wide.check()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("family", FAMILIES)
def test_scores_from_lists_and_rows_of_a_table_are_those_of_all_parameters(family, dtype):
    state = run(SparseVariational(2, dtype=dtype), 0, family=family, n_steps=2)
    tables, X = state.tables(), state.data.X
    assert tables.columns.size
    assert not np.diff(tables.starts)[tables.columns].any()
    assert np.diff(tables.starts).any()
    theta, g = state.data.family.expected_natural(state.n, state.S.toarray())
    exact = X @ theta.T + (state.posterior.log_pi - g)
    found = np.empty((X.shape[0], K), dtype=dtype)
    tables.score(state.phi.entries(slice(0, X.shape[0])), found)
    shift = (exact - found).mean(axis=1, keepdims=True)  # what all clusters of a row have in common is left out
    np.testing.assert_allclose(found + shift, exact, atol=1e-3 if dtype == "float32" else 1e-9)


@pytest.mark.parametrize("name", KERNELS)
def test_threads_do_not_change_a_bit(name):
    one, two = (run(KERNELS[name], 0, n_threads=n) for n in (1, 2))
    np.testing.assert_array_equal(one.n, two.n)
    np.testing.assert_array_equal(one.S.data, two.S.data)
    assert one.log_joint == two.log_joint


def test_negative_sums_are_mended_as_in_a_table():
    rng = np.random.default_rng(0)
    table = rng.random((6, 400)) * (rng.random((6, 400)) < 0.3)
    table[rng.random((6, 400)) < 0.05] = -1e-12  # rounding, which is set to 0
    table[2, 7] = -1.0  # no rounding: it stays
    state = run(SparseVariational(2, dtype="float64"), 0, n_steps=0)
    S = sparse.csr_array(table)
    state.phi.mend_sums(np.ones(6), S)
    state.phi.mend_sums(np.ones(6), table)
    assert np.array_equal(S.toarray(), table)
    assert S.nnz == np.count_nonzero(table)
    assert table[2, 7] == -1.0
    assert (table < 0).mean() < 0.02


@pytest.mark.parametrize("mode", [False, True])
@pytest.mark.parametrize("name", [*FAMILIES, "uneven"])
def test_parameters_of_cells_are_those_of_the_family(name, mode):
    uneven = ef.Multinomial(np.linspace(0.01, 0.2, 400))  # the others share one pseudo-count for all columns
    family = (uneven if name == "uneven" else FAMILIES[name]).bind(texts())
    rng = np.random.default_rng(0)
    S = sparse.csr_array(rng.random((5, 400)) * (rng.random((5, 400)) < 0.1))
    n = rng.random(5) * 20
    found = natural_cells(family, n, S, mode=mode)
    theta, g = (family.map_natural if mode else family.expected_natural)(n, S.toarray())
    got = found.empty - found.level[:, None]
    got[S.nonzero()] = found.cells - np.repeat(found.level, np.diff(S.indptr))
    np.testing.assert_allclose(got, theta, rtol=1e-13)
    np.testing.assert_allclose(found.g, g, rtol=1e-13)
    if mode:
        np.testing.assert_allclose(found.log_prior(family, S), family.log_prior(theta, g), rtol=1e-12)


def test_a_family_with_formulas_of_its_own_is_not_taken():
    class Other(ef.Multinomial):
        def expected_natural(self, n, S):
            return super().expected_natural(n, S)

    class Same(ef.Multinomial):
        pass

    assert has_natural_cells(Same())
    assert not has_natural_cells(Other())
    assert not has_natural_cells(ef.Categorical())


def wide_data(n_rows=2000, n_words=40_000, per_row=10):
    rng = np.random.default_rng(0)
    words = rng.integers(0, n_words // 5, (n_rows, per_row)) + np.arange(n_rows)[:, None] % 5 * (n_words // 5)
    X = sparse.csr_array((np.ones(words.size), words.ravel(), np.arange(n_rows + 1) * per_row), shape=(n_rows, n_words))
    return ef.Dataset(X, ef.Multinomial(0.01))


@pytest.mark.parametrize("kernel", [SparseVariational(4), SparseVariational(4, schedule=Memoized(5))])
def test_no_array_has_the_size_of_all_parameters(kernel):
    data = wide_data()
    model = ef.MixtureModel(data.family, ef.SymmetricDirichlet(400))
    peak = peak_of_steps(kernel, model, data, 400)
    assert peak < 4 * 400 * occurring_columns(data).size / 2  # half a table of columns that occur, in single precision
    assert peak <= kernel.memory(model, data, 400) + (8 << 20)  # blocks of scores, which the forecast counts apart


def test_what_is_not_wide():
    data = wide_data()
    assert has_wide_counts(SparseVariational(4), data, 120)
    assert not has_wide_counts(SparseVariational(4), data, 20)
    assert not has_wide_counts(SparseVariational(None), data, 120)
    assert has_wide_counts(SparseVariational(4, objective="map"), data, 120)
    assert not has_wide_counts(SparseVariational(4, schedule=Stochastic()), data, 120)
    assert not has_wide_counts(SparseVariational(4, schedule=Memoized(4), memo="statistics"), data, 120)
    dense = ef.Dataset(np.ones((100, 40_000)), ef.Multinomial(0.01))
    assert not has_wide_counts(SparseVariational(4), dense, 120)


def test_a_checkpoint_goes_on_bit_for_bit():
    data = wide_data()
    kernel = SparseVariational(4, schedule=Memoized(4))
    model = ef.MixtureModel(data.family, ef.SymmetricDirichlet(120))
    start = np.arange(data.n_rows) % 120
    whole, half = (kernel.init(model, data, seed=0, start=start) for _ in range(2))
    kernel.step(whole)
    half.from_arrays(whole.to_arrays())
    for state in (whole, half):
        kernel.step(state)
        assert isinstance(state, VariationalState)
        assert isinstance(state.posterior, WidePosterior)
    np.testing.assert_array_equal(whole.n, half.n)
    np.testing.assert_array_equal(whole.S.data, half.S.data)
    assert whole.log_joint == half.log_joint


def test_the_estimator_gives_results_of_full_width(tmp_path):
    data = wide_data()
    fitted = ef.Mixture("multinomial", 120, sampler="variational", n_steps=4, random_state=0).fit(data.X)
    params = fitted.params_["probability"]
    assert params.shape == (len(fitted.cluster_sizes_), 40_000)
    np.testing.assert_allclose(params.sum(axis=1), 1.0)
    fitted.save(tmp_path / "model")
    loaded = ef.Mixture.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(data.X), fitted.predict(data.X))
