"""Steps in one loop give what steps from function to function give, with the same bits for any number of threads."""

import _thread
import threading

import numpy as np
import pytest
from serving_threads import served

from expfam import Dataset, DiagonalGaussian, MixtureModel, SphericalGaussian, SymmetricDirichlet, VonMisesFisher
from expfam.errors import SupportError
from expfam.samplers import SparseVariational
from expfam.samplers.variational import compiled_step, local_step, schedules
from expfam.samplers.variational.local_step import SparsePass, Tables
from expfam.structures.ground.threads import team_of

FAMILIES = {
    "diagonal": DiagonalGaussian(),
    "holes": DiagonalGaussian(missing=True),
    "spherical": SphericalGaussian(),
    "known variance": SphericalGaussian(variance=1.0),
    "directions": VonMisesFisher(normalize=False),
}


def data_of(name, kind=np.float64, n_rows=5000, weight=None):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(9, 5))[rng.integers(9, size=n_rows)] * 2.0 + rng.normal(size=(n_rows, 5))
    if name == "holes":
        X[rng.random(X.shape) < 0.1] = np.nan
    if name == "directions":
        X /= np.sqrt((X * X).sum(axis=1, keepdims=True))
    return Dataset(X.astype(kind), FAMILIES[name], weight=weight)


def state_of(data, K=9, **settings):
    kernel = SparseVariational(**{"tol": 0.0, **settings})
    model = MixtureModel(data.family, SymmetricDirichlet(K))
    labels = np.random.default_rng(2).integers(K, size=data.n_rows)
    return kernel, kernel.init(model, data, seed=3, start=labels)


def step_of(state, rows, n_threads=1, *, keep=True, L=3):
    passes = SparsePass(state.phi, state.K, L, weight=state.data.weight, n_threads=n_threads)
    return passes.local_step(rows, Tables(state.posterior, state.phi), keep=keep)


def numbered(n_rows):
    return np.sort(np.random.default_rng(4).permutation(n_rows)[: n_rows // 3])


@pytest.fixture
def many_parts(monkeypatch):
    """Parts of a hundred rows, in blocks of 37."""
    monkeypatch.setattr(local_step, "PART_ROWS", 100)
    monkeypatch.setattr(SparsePass, "block_rows", lambda self, n_scores=None: 37)


def assert_same(one, other, *, exact=True):
    for mine, its in ((one.sums.n, other.sums.n), (one.sums.S, other.sums.S), (one.labels, other.labels)):
        assert np.array_equal(mine, its)
    if one.indices is not None:
        assert np.array_equal(one.indices, other.indices)
        assert np.array_equal(one.values, other.values)
    exactly = {"rel": 0.0, "abs": 0.0} if exact else {"rel": 1e-12}
    assert one.value == pytest.approx(other.value, **exactly)
    assert one.sums.entropy == pytest.approx(other.sums.entropy, **exactly)
    assert one.diagnostics.lost == pytest.approx(other.diagnostics.lost, rel=1e-12, abs=1e-12)
    assert one.diagnostics.n_sampled == other.diagnostics.n_sampled


@pytest.mark.parametrize("is_numbered", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("name", FAMILIES)
def test_one_loop_gives_what_single_functions_give(name, kind, dtype, is_numbered, many_parts, monkeypatch):
    data = data_of(name, kind)
    _, state = state_of(data, dtype=dtype)
    rows = numbered(data.n_rows) if is_numbered else slice(100, data.n_rows)
    whole = step_of(state, rows)
    assert state.passes._compiled_source() is not None
    monkeypatch.setattr(SparsePass, "_compiled_source", lambda self: None)
    assert_same(whole, step_of(state, rows), exact=False)


@pytest.mark.parametrize("kind", [np.int8, np.float16, np.float32])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_narrow_unit_rows_are_learned(kind, dtype):
    """Their statistics are in single precision, but the origin of a pass is not."""
    X = np.eye(4)[np.arange(200) % 4].astype(kind)
    data = Dataset(X, VonMisesFisher(normalize=False))
    kernel = SparseVariational(n_active=2, dtype=dtype, tol=0.0)
    start = np.where(np.arange(200) < 150, np.arange(200) % 4, 0)
    state = kernel.init(MixtureModel(data.family, SymmetricDirichlet(4)), data, seed=0, start=start)
    for _ in range(3):
        kernel.step(state)
    assert np.array_equal(state.partition, np.arange(200) % 4)


@pytest.mark.parametrize("n_threads", [2, 3, 5])
@pytest.mark.parametrize("L", [1, 3, 8])
def test_any_number_of_threads_gives_the_same_bits(L, n_threads, many_parts):
    _, state = state_of(data_of("diagonal", weight=np.random.default_rng(5).integers(0, 4, 5000)))
    for rows in (slice(0, 5000), numbered(5000)):
        assert_same(step_of(state, rows, L=L), step_of(state, rows, n_threads, L=L))


def test_weights_count_as_copies_of_rows(many_parts):
    weight = np.random.default_rng(5).integers(0, 4, 600)
    data = data_of("diagonal", n_rows=600, weight=weight)
    _, state = state_of(data, dtype="float64")
    weighted = step_of(state, slice(0, 600))
    copies = np.repeat(np.arange(600), weight)
    passes = SparsePass(state.phi.over(Dataset(data.X[copies], data.family)), state.K, 3)
    found = passes.local_step(slice(0, copies.size), Tables(state.posterior, state.phi))
    assert found.sums.n == pytest.approx(weighted.sums.n, rel=1e-9)
    assert pytest.approx(weighted.sums.S, rel=1e-9, abs=1e-9) == found.sums.S
    assert found.value == pytest.approx(weighted.value, rel=1e-9)
    assert found.sums.entropy == pytest.approx(weighted.sums.entropy, rel=1e-9)


def test_parts_wait_for_the_sums_before_them(many_parts, monkeypatch):
    """Loops of many parts over few slots: each thread that serves gets some, in any order."""
    data = data_of("diagonal", n_rows=20_000)
    _, state = state_of(data)
    one = step_of(state, slice(0, 20_000))
    for n_threads in (2, 4, 7):
        passes = SparsePass(state.phi, state.K, 3, n_threads=n_threads)
        with served(n_threads) as passes._team:
            for _ in range(20):
                assert_same(one, passes.local_step(slice(0, 20_000), Tables(state.posterior, state.phi), keep=True))


@pytest.mark.parametrize("n_threads", [1, 2, 3])
def test_the_lengths_of_loops_change_nothing(n_threads, many_parts, monkeypatch):
    _, state = state_of(data_of("diagonal"))
    one = step_of(state, slice(0, 5000))
    monkeypatch.setattr(local_step, "LOOP_PRODUCTS", 1)
    assert_same(one, step_of(state, slice(0, 5000), n_threads))


def test_a_ctrl_c_does_not_wait_for_all_rows(monkeypatch):
    """All parts take some tenths of a second."""
    monkeypatch.setattr(local_step, "LOOP_PRODUCTS", 1)
    made = []

    def kept(*args, **options):
        made.append(compiled_step.CompiledStep(*args, **options))
        threading.Timer(0.02, _thread.interrupt_main).start()
        return made[-1]

    _, state = state_of(data_of("diagonal", n_rows=400_000), K=150)
    monkeypatch.setattr(local_step, "CompiledStep", kept)
    with pytest.raises(KeyboardInterrupt):
        step_of(state, slice(0, 400_000))
    assert not made[0].found[-1].any()


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("at", [0, 2499, 4999])
def test_a_row_without_a_finite_score_is_named(at, n_threads, many_parts):
    data = data_of("known variance")
    _, state = state_of(data, dtype="float32")
    X = data.X.copy()
    X[at] = 1e200  # infinite in single precision
    passes = SparsePass(state.phi.over(Dataset(X, data.family)), state.K, 3, n_threads=n_threads)
    with pytest.raises(SupportError, match=rf"row {at} has no finite score under any cluster"):
        passes.local_step(slice(0, 5000), Tables(state.posterior, state.phi))


@pytest.mark.parametrize("n_threads", [1, 2, 3])
def test_a_pass_keeps_its_threads_from_batch_to_batch(n_threads, monkeypatch):
    begun = []

    def counted(*args, **options):
        begun.append(args)
        return team_of(*args, **options)

    monkeypatch.setattr(local_step, "team_of", counted)
    data = data_of("diagonal")
    kernel, state = state_of(data, schedule=schedules.Memoized(10), n_threads=n_threads)
    begun.clear()
    kernel.step(state)
    assert len(begun) == 1
    assert state.passes._team is None


def test_runs_of_any_number_of_threads_are_the_same():
    results = []
    for n_threads in (1, 2, 4):
        kernel, state = state_of(data_of("diagonal"), schedule=schedules.Memoized(7), n_threads=n_threads)
        for _ in range(4):
            kernel.step(state)
        results.append((state.log_joint, state.S.tobytes(), state.labels.tobytes()))
        state.check()
    assert results[0] == results[1] == results[2]
    assert threading.active_count() < 20
