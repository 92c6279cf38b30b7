"""Counts kept by word, in place of a large table that would be almost empty: same counts, scores and labels."""

import tracemalloc

import numpy as np
import pytest
from scipy import sparse

from expfam import Dataset, DirichletProcess, MixtureModel, Multinomial, Poisson, SymmetricDirichlet
from expfam.families.components import Components
from expfam.families.counts import word_lists as module
from expfam.forecast.memory import forecast_memory
from expfam.samplers import CollapsedGibbs, Cycle, SplitMerge

pytestmark = pytest.mark.filterwarnings("ignore:.* empty, the first:expfam.errors.DataWarning")  # rows that are so

FAMILIES = {
    "multinomial": Multinomial(concentration=0.1),
    "unequal": Multinomial(concentration=np.random.default_rng(1).gamma(1.0, size=40)),
    "poisson": Poisson(shape=0.5, rate=0.7),
}


@pytest.fixture(params=[0, 2, 1000], ids=["lists", "both", "rows"], autouse=True)
def share(request, monkeypatch):
    """Words have lists; those of eight rows and more have a row where slots have a line; all have rows."""
    monkeypatch.setattr(module, "ROW_SHARE", request.param)
    return request.param


@pytest.fixture
def by_word(monkeypatch):
    """Every table of counts, however small, is kept by word where it may be."""
    monkeypatch.setattr(module, "LEAST_CELLS", 0)
    monkeypatch.setattr(module, "CELLS_OF_ENTRY", 0)


def documents(n_rows=60, n_words=40, seed=0, most=6):
    """Sparse counts with repeats, long rows, an empty row and a word that occurs hundreds of times."""
    rng = np.random.default_rng(seed)
    X = rng.poisson(0.15, size=(n_rows, n_words)) * rng.integers(1, most, size=(n_rows, n_words))
    X[3] = 0
    X[5, 7], X[6] = 300, rng.poisson(4.0, size=n_words)
    return sparse.csr_array(X)


def pair(family, X, capacity, monkeypatch):
    """Components with a table, and by word."""
    data = Dataset(X, family)
    table = Components(data.family, data, capacity)
    with monkeypatch.context() as patch:
        patch.setattr(module, "LEAST_CELLS", 0)
        patch.setattr(module, "CELLS_OF_ENTRY", 0)
        lists = Components(data.family, data, capacity)
    assert (table.owner.is_by_word, lists.owner.is_by_word) == (False, True)
    return data, table, lists


def expect_equal(data, table, lists, labels, slots):
    for a, b in zip(table.export(), lists.export(), strict=True):
        assert np.array_equal(*(x.toarray() if sparse.issparse(x) else x for x in (a, b)))
    close = {"rtol": 1e-12, "atol": 1e-11}
    np.testing.assert_allclose(lists.log_marginal(slots), table.log_marginal(slots), **close)
    for i in (0, 3, 5, 6, 17):
        np.testing.assert_allclose(lists.log_predictive(i), table.log_predictive(i), **close)
        some = [4, 1, 2]
        np.testing.assert_allclose(lists.log_predictive(i, some), table.log_predictive(i, some), **close)
        assert lists.log_predictive(i, [2])[0] == pytest.approx(table.log_predictive(i)[2], rel=1e-12)
        if labels[i] >= 0:
            own = lists.log_predictive_self(i, labels[i])
            assert own == pytest.approx(table.log_predictive_self(i, labels[i]), rel=1e-12)
    np.testing.assert_allclose(lists.log_merged(0, [1, 2, 3]), table.log_merged(0, [1, 2, 3]), **close)


@pytest.mark.parametrize("name", FAMILIES)
def test_random_calls_leave_the_statistics_of_a_table(name, monkeypatch):
    X, rng, K = documents(), np.random.default_rng(2), 6
    data, table, lists = pair(FAMILIES[name], X, K, monkeypatch)
    labels = np.full(data.n_rows, -1)
    for call in range(1500):
        i, k, l = rng.integers(data.n_rows), *rng.choice(K, 2, replace=False)
        what = rng.choice(["move", "move", "move", "move", "swap", "absorb", "clear", "subtract"])
        for owner in (table, lists):
            if what == "move":
                if labels[i] >= 0:
                    owner.remove(i, labels[i])
                owner.add(i, k)
            elif what == "swap":
                owner.swap(k, l)
            elif what == "absorb" and call % 5 == 0:
                owner.absorb(k, l)
            elif what == "subtract" and call % 5 == 0:
                owner.absorb(k, l)  # and out again: what is left are stale words
                owner.clear(l)
            elif what == "clear" and call % 7 == 0:
                owner.clear(k)
        if what == "move":
            labels[i] = k
        elif what == "swap":
            labels = np.select([labels == k, labels == l], [l, k], labels)
        elif what in ("absorb", "subtract") and call % 5 == 0:
            labels[labels == l] = k
        elif what == "clear" and call % 7 == 0:
            labels[labels == k] = -1
        if call % 100 == 99:
            expect_equal(data, table, lists, labels, np.arange(K))


def test_one_slot_leaves_another(monkeypatch):
    data, table, lists = pair(Multinomial(concentration=0.1), documents(), 6, monkeypatch)
    for owner in (table, lists):
        for i in range(30):
            owner.add(i, 0)
        for i in range(10):
            owner.add(i, 1)
    assert lists.log_remainder(0, 1) == pytest.approx(table.log_remainder(0, 1), rel=1e-12)
    for owner in (table, lists):
        owner.subtract(0, 1)
    labels = np.where(np.arange(data.n_rows) < 30, 0, -1)
    labels[:10] = 1
    expect_equal(data, table, lists, labels, np.arange(6))


def test_more_slots_than_a_tile(monkeypatch):
    X = documents(n_rows=2500, n_words=40)
    _, table, lists = pair(Multinomial(concentration=0.1), X, 2500, monkeypatch)
    for owner in (table, lists):
        owner.refresh(np.arange(2500, dtype=np.int32))
    for i in (5, 6, 1500):
        np.testing.assert_allclose(lists.log_predictive(i), table.log_predictive(i), rtol=1e-12)
        run = np.arange(1000, 1100)
        for some in (run, np.random.default_rng(i).permutation(2500)[:1500]):
            np.testing.assert_allclose(lists.log_predictive(i, some), table.log_predictive(i, some), rtol=1e-12)


@pytest.mark.parametrize("weights", [SymmetricDirichlet(8), DirichletProcess()])
def test_labels_of_sweeps_are_those_of_a_table(weights, monkeypatch):
    X = documents(n_rows=120)
    labels = []
    for least in (1 << 24, 0):
        monkeypatch.setattr(module, "LEAST_CELLS", least)
        monkeypatch.setattr(module, "CELLS_OF_ENTRY", 0)
        data = Dataset(X, Multinomial(concentration=0.1))
        kernel = Cycle(SplitMerge(), CollapsedGibbs())
        state = kernel.init(MixtureModel(data.family, weights), data, seed=4)
        assert state.components.owner.is_by_word is (least == 0)
        for _ in range(15):
            kernel.step(state)
        labels.append(state.labels.copy())
    assert np.array_equal(*labels)


def test_a_chain_that_is_read_back_goes_on_with_the_same_bits(by_word):
    data = Dataset(documents(n_rows=120), Multinomial(concentration=0.1))
    kernel, model = CollapsedGibbs(), MixtureModel(data.family, DirichletProcess())
    state = kernel.init(model, data, seed=4)
    for _ in range(3):
        kernel.step(state)
    again = kernel.init(model, data, seed=4)
    again.from_arrays(state.to_arrays())
    for each in (state, again):
        for _ in range(3):
            kernel.step(each)
    assert again.components.owner.is_by_word
    assert np.array_equal(state.labels, again.labels)
    assert state.log_joint == again.log_joint


def test_a_table_becomes_lists_where_slots_are_many(monkeypatch):
    X = documents()
    data = Dataset(X, Multinomial(concentration=0.1))
    monkeypatch.setattr(module, "LEAST_CELLS", 40 * 40)
    monkeypatch.setattr(module, "CELLS_OF_ENTRY", 0)
    components = Components(data.family, data, 8)
    labels = np.arange(60, dtype=np.int32) % 8
    components.refresh(labels)
    before, few = components.log_predictive(6)[:8], components.owner.is_by_word
    components.reserve(64)
    np.testing.assert_allclose(components.log_predictive(6)[:8], before, rtol=1e-12)
    n, S = components.export()
    components.load(n[:8], S[:8])
    np.testing.assert_allclose(components.log_predictive(6)[:8], before, rtol=1e-12)
    assert (few, components.owner.is_by_word) == (False, True)


def test_fractions_and_dense_counts_keep_their_table():
    rng = np.random.default_rng(0)
    V, K = 1 << 16, 264
    few = sparse.random_array((200, V), density=1e-4, rng=rng, format="csr")
    whole = sparse.csr_array((np.ones(few.nnz), few.indices, few.indptr), shape=few.shape)
    for X, family, expected in (
        (whole, Multinomial(concentration=0.1), True),
        (few, Multinomial(concentration=0.1, allow_fractional=True), False),
    ):
        data = Dataset(X, family)
        assert Components(data.family, data, K).owner.is_by_word is expected
    components = Components(data.family, data, K)
    assert components.owner.is_float64


def test_rows_are_those_of_frequent_words(share, by_word):
    X = documents()
    data = Dataset(X, Multinomial(concentration=0.1))
    n_rows = Components(data.family, data, 16).owner.n_rows_of_words
    assert n_rows == np.count_nonzero(np.bincount(X.indices, minlength=40) * share >= 16)
    assert {0: n_rows == 0, 2: 0 < n_rows < 40, 1000: n_rows == 40}[share]


def test_a_million_words_take_the_memory_of_those_that_occur(share, monkeypatch):
    monkeypatch.setattr(module, "ROW_SHARE", min(share, 4))
    rng = np.random.default_rng(0)
    N, V, L, K = 4000, 1_000_000, 20, 500
    columns = np.minimum(np.exp(rng.random(N * L) * np.log(V)).astype(np.int32), V - 1)
    X = sparse.csr_array((np.ones(N * L, dtype=np.int32), columns, np.arange(0, N * L + 1, L)), shape=(N, V))
    X.sum_duplicates()
    data = Dataset(X, Multinomial(concentration=0.01))
    model = MixtureModel(data.family, SymmetricDirichlet(K)).bind(data)
    forecast = forecast_memory(data, n_components=K, kernel=CollapsedGibbs(), model=model)
    start = rng.integers(K, size=N)
    tracemalloc.start()
    try:
        kernel = CollapsedGibbs()
        state = kernel.init(model, data, seed=0, start=start)
        kernel.step(state)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert state.components.owner.is_by_word
    assert peak < 24 * V + 40 * X.nnz + (8 << 20)  # a table has 2 GB
    assert peak < forecast.beside_data
    assert forecast.statistics < 64 << 20
