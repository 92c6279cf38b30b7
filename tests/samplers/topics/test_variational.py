"""Variational topics against their definition, their laws, and themselves in other circumstances."""

from itertools import product

import numpy as np
import pytest
from instruction_sets import output_under
from scipy import sparse
from topics_by_terms import Reference

from expfam import AdmixtureModel, Dataset, Multinomial
from expfam.errors import CapabilityError, DataError, ExpFamError
from expfam.samplers import Checkpoint, CollapsedGibbs, Full, Memoized, Stochastic, TopicVariational, sample
from expfam.samplers.chain.callbacks import restore_checkpoint
from expfam.samplers.topics.held_out import collapsed_counts
from expfam.samplers.topics.local_step import Counts, TopicPass

pytestmark = pytest.mark.filterwarnings("ignore:.*rows? (is|are) empty")

EXACT = {"dtype": "float64", "tol": 0.0, "n_restarts": 0}


def corpus(n_docs=60, n_words=40, length=20, n_topics=5, seed=0):
    rng = np.random.default_rng(seed)
    topics = rng.dirichlet(np.full(n_words, 0.1), size=n_topics)
    weights = rng.dirichlet(np.full(n_topics, 0.3), size=n_docs)
    return np.array([rng.multinomial(n, p) for n, p in zip(rng.poisson(length, n_docs), weights @ topics)])


def problem(K=6, *, X=None, weight=None, alpha=None, eta=None):
    X = corpus() if X is None else X
    eta = np.linspace(0.05, 0.2, X.shape[1]) if eta is None else eta
    model = AdmixtureModel(Multinomial(eta), K, np.linspace(0.1, 0.4, K) if alpha is None else alpha)
    data = Dataset(sparse.csr_array(X), model.family, weight=weight)
    return model.with_family(data.family), data


def counts_of_topics(V, K, seed=1):
    return np.random.default_rng(seed).gamma(0.4, 20.0, size=(V, K))


def local(K=6, *, stored=None, tau=0.0, n_first=None, X=None, alpha=None, **settings):
    """Parts of all documents under some topics, with the reference and its expected logs."""
    model, data = problem(K, X=X, alpha=alpha)
    kernel = TopicVariational(**{**EXACT, "local": "dense", **settings})
    passes = TopicPass(data, K, kernel, tau=tau, n_first=n_first or K)
    word_counts = counts_of_topics(data.n_features, K)
    eta = model.family.pseudocounts()[0]
    step = passes.step(passes.tables(word_counts, eta), model.pseudocounts)
    parts = list(passes.parts(step, np.arange(data.n_rows), stored))
    reference = Reference(model.pseudocounts, eta)
    return documents_of(parts, data, K), data.X, reference, reference.expected_logs(word_counts), parts


def documents_of(parts, data, K):
    """Bound, counts (K,) and responsibilities (U, K) of each document."""
    found = []
    for part in parts:
        pairs = values = 0
        for row, size, value in zip(part.rows, part.sizes, part.bounds):
            n_types = data.X.indptr[row + 1] - data.X.indptr[row]
            topics = part.topics[pairs : pairs + size]
            N, r = np.zeros(K), np.zeros((n_types, K))
            N[topics] = part.N[pairs : pairs + size]
            r[:, topics] = part.values[values : values + n_types * size].reshape(n_types, size)
            pairs, values = pairs + size, values + n_types * size
            found.append((value, N, r))
    return found


def words_and_counts(X, d):
    return X.indices[X.indptr[d] : X.indptr[d + 1]], X.data[X.indptr[d] : X.indptr[d + 1]].astype(float)


# ---- local step ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("iterations", [1, 2, 30])
def test_dense_step_is_the_reference(iterations):
    found, X, reference, E, _ = local(max_iterations=iterations)
    for d, (value, N, r) in enumerate(found):
        words, c = words_and_counts(X, d)
        expected, counts = reference.dense(E[words], c, max_iterations=iterations, tol=0.0)
        np.testing.assert_allclose(r, expected, atol=1e-9)
        np.testing.assert_allclose(N, counts, atol=1e-8)
        np.testing.assert_allclose(value, reference.bound(E[words], c, expected), rtol=1e-9)


@pytest.mark.parametrize("settings", [{"n_restarts": 3}, {"n_restarts": 6, "restart_iterations": 4}])
def test_restarts_are_those_of_the_reference_and_never_lower_a_bound(settings):
    plain, X, reference, E, _ = local(max_iterations=20)
    found, *_, parts = local(max_iterations=20, **settings)
    assert sum(part.counters[1] for part in parts) > 50
    assert sum(part.counters[2] for part in parts) > 5
    iterations = {"restart_iterations": settings.get("restart_iterations", 2)}
    for d, (value, _N, _r) in enumerate(found):
        words, c = words_and_counts(X, d)
        start, _ = reference.dense(E[words], c, max_iterations=20, tol=0.0)
        r, _ = reference.restarts(E[words], c, start, n_restarts=settings["n_restarts"], tol=0.0, **iterations)
        # a rejected last trial is followed by one more update
        assert value >= reference.bound(E[words], c, r) - 1e-8
        assert value >= plain[d][0] - 1e-9
    assert np.mean([f[0] - p[0] for f, p in zip(found, plain)]) > 1e-3


def test_active_step_without_a_threshold_is_the_dense_one():
    dense = local(max_iterations=25)[0]
    active = local(max_iterations=25, local="active")[0]
    for (a, N, r), (b, M, s) in zip(dense, active):
        np.testing.assert_allclose([a, *N], [b, *M], atol=1e-8)
        np.testing.assert_allclose(r, s, atol=1e-9)


def test_updates_before_columns_are_fetched_are_updates_of_the_dense_step():
    """From many first topics on two come, the same as any where each word's first topics are all there are."""
    settings = {"X": corpus(n_words=60, length=40), "alpha": np.full(150, 0.3)}
    active = local(150, max_iterations=3, local="active", tau=1e-14, **settings)[0]
    dense, fewer = (local(150, max_iterations=n, **settings)[0] for n in (5, 3))
    for (a, N, r), (b, M, s) in zip(active, dense):
        np.testing.assert_allclose([a, *N], [b, *M], atol=1e-8)
        np.testing.assert_allclose(r, s, atol=1e-8)
    assert max(abs(N - M).max() for (_, N, _), (_, M, _) in zip(active, fewer)) > 1e-3


def test_first_counts_of_the_word_table_are_the_first_iteration():
    found, X, reference, E, _ = local(max_iterations=1, local="active")
    for d, (_value, _N, r) in enumerate(found):
        words, c = words_and_counts(X, d)
        uniform = reference.rows(E[words] - 0.0, np.zeros(6) + 1.0 - reference.alpha)  # all weights alike
        np.testing.assert_allclose(r, reference.rows(E[words], c @ reference.rows(E[words], c @ uniform)), atol=1e-8)


def test_dropping_topics_costs_little_and_the_bound_stays_that_of_what_is_left():
    dense = local(K=20, max_iterations=60)[0]
    found, X, reference, E, parts = local(K=20, max_iterations=60, local="active", tau=0.01, n_first=8)
    assert np.concatenate([part.sizes for part in parts]).mean() < 14
    for d, (value, N, r) in enumerate(found):
        words, c = words_and_counts(X, d)
        np.testing.assert_allclose(value, reference.bound(E[words], c, r), rtol=1e-9)
        np.testing.assert_allclose(N, c @ r, atol=1e-9)
    assert np.mean([a[0] - b[0] for a, b in zip(dense, found)]) < 0.02 * 20


@pytest.mark.parametrize("n_active", [1, 2, 6, 9])
@pytest.mark.parametrize("how", ["tokens", "dense", "active"])
def test_few_topics_for_each_word(how, n_active):
    found, X, reference, E, _ = local(max_iterations=12, local=how, n_active=n_active)
    for d, (value, N, r) in enumerate(found):
        words, c = words_and_counts(X, d)
        assert (r > 0).sum(axis=1).max(initial=0) <= n_active
        np.testing.assert_allclose(r.sum(axis=1), 1.0)
        np.testing.assert_allclose(value, reference.bound(E[words], c, r), rtol=1e-9)
        np.testing.assert_allclose(N, c @ r, atol=1e-9)


@pytest.mark.parametrize("n_threads", [1, 3])
def test_threads_compute_the_entropies_of_parts(n_threads):
    model, data = problem(6)
    passes = TopicPass(data, 6, TopicVariational(local="tokens", n_threads=n_threads, **EXACT))
    tables = passes.tables(counts_of_topics(data.n_features, 6), model.family.pseudocounts()[0])
    step, rows = passes.step(tables, model.pseudocounts), np.arange(data.n_rows)
    parts = list(passes.parts(step, rows, entropy_under=tables))
    assert [part.entropy for part in parts] == [passes.entropy(part, tables) for part in parts]
    assert all(np.isnan(part.entropy) for part in passes.parts(step, rows))


@pytest.mark.parametrize("n_active", [2, 5, 6])
def test_ties_take_the_first_topics_and_no_more(n_active):
    model, data = problem(6, alpha=0.3)
    passes = TopicPass(data, 6, TopicVariational(local="tokens", n_active=n_active, **EXACT))
    word_counts = np.ones((data.n_features, 6))  # all topics are the same
    step = passes.step(passes.tables(word_counts, model.family.pseudocounts()[0]), model.pseudocounts)
    for _value, N, r in documents_of(list(passes.parts(step, np.arange(data.n_rows))), data, 6):
        assert (r[:, n_active:] == 0).all()
        np.testing.assert_allclose(r[:, :n_active], 1 / n_active)
        np.testing.assert_allclose(N[:n_active], N.sum() / n_active)


@pytest.mark.parametrize("n_active", [1, 3, 16, 20, 40])
@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-9), ("float32", 1e-3)])
@pytest.mark.parametrize("eta", [1e-2, 1.0])  # most words' probabilities are 0 in float32, or none
def test_the_topics_of_a_word_are_its_most_probable_ones_at_each_iteration(eta, dtype, tolerance, n_active):
    K, rng = 60, np.random.default_rng(0)
    model, data = problem(K, alpha=np.linspace(0.1, 0.4, K), eta=np.full(40, eta))
    word_counts = rng.gamma(0.4, 20.0, size=(40, K)) * (rng.random((40, K)) < 0.3)
    settings = {"local": "tokens", "n_active": n_active, "max_iterations": 4}
    passes = TopicPass(data, K, TopicVariational(**{**EXACT, "dtype": dtype, **settings}))
    step = passes.step(passes.tables(word_counts, np.full(40, eta)), model.pseudocounts)
    found = documents_of(list(passes.parts(step, np.arange(data.n_rows))), data, K)
    reference = Reference(model.pseudocounts, np.full(40, eta))
    E = reference.expected_logs(word_counts)
    for d, (_value, N, r) in enumerate(found):
        words, c = words_and_counts(data.X, d)
        wanted = reference.few(E[words], c, n_active, max_iterations=4)
        np.testing.assert_allclose(r, wanted, atol=tolerance)
        np.testing.assert_allclose(N, c @ wanted, atol=20 * tolerance)


def bounds_by_iteration(how, n_active):
    """Bounds of all documents after 1, 2, ... iterations: (T, D)."""
    settings = {"local": how, "n_active": n_active}
    return np.array([[f[0] for f in local(max_iterations=t, **settings)[0]] for t in range(1, 16)])


@pytest.mark.parametrize(("how", "n_active"), [("dense", None), ("tokens", 1), ("tokens", 2), ("tokens", 4)])
def test_no_iteration_lowers_a_documents_bound(how, n_active):
    bounds = bounds_by_iteration(how, n_active)
    assert (np.diff(bounds, axis=0) >= -1e-9 * abs(bounds[:-1])).all()
    assert (bounds[-1] > bounds[0]).mean() > 0.3


def test_a_step_with_other_weights_lowers_it():
    _, X, reference, E, _ = local(max_iterations=1)
    words, c = words_and_counts(X, 0)
    right, _ = reference.dense(E[words], c, max_iterations=40, tol=0.0)
    wrong = reference.rows(E[words], 3.0 * (c @ right) + 2.0)
    assert reference.bound(E[words], c, wrong) < reference.bound(E[words], c, right) - 1e-3


def test_words_that_no_active_topic_explains_are_computed_by_logs():
    """Expected logs a thousand apart: exponentials are 0 in single precision, and in double."""
    model, data = problem(3, X=np.eye(3, dtype=int) * 2 + 1, alpha=np.array([1e-3, 1e-3, 1.0]), eta=np.full(3, 1e-3))
    word_counts = np.diag([50.0, 50.0, 50.0])
    reference = Reference(model.pseudocounts, np.full(3, 1e-3))
    E = reference.expected_logs(word_counts)
    for dtype, tolerance in (("float64", 1e-8), ("float32", 1e-4)):
        kernel = TopicVariational(**{**EXACT, "dtype": dtype, "max_iterations": 3, "documents": "warm"})
        stored = Counts(np.array([0, 1, 2, 3]), np.array([2, 2, 2], dtype=np.int32), np.array([4.0, 4.0, 4.0]))
        passes = TopicPass(
            data, 3, TopicVariational(**{**kernel.get_params(), "documents": "warm"}), tau=0.0, n_first=3
        )
        step = passes.step(passes.tables(word_counts, np.full(3, 1e-3)), model.pseudocounts)
        found = documents_of(list(passes.parts(step, np.arange(3), stored)), data, 3)
        for d, (value, _N, r) in enumerate(found):
            words, c = words_and_counts(data.X, d)
            np.testing.assert_allclose(r, np.repeat([[0.0, 0.0, 1.0]], len(c), axis=0))
            np.testing.assert_allclose(value, reference.bound(E[words], c, r), rtol=tolerance)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_collapsed_counts_are_those_of_the_reference(dtype):
    X = sparse.csr_array(corpus())
    X.sort_indices()
    rng = np.random.default_rng(0)
    phi = rng.dirichlet(np.full(X.shape[1], 0.3), size=7).T
    alpha = rng.uniform(0.05, 0.5, 7)
    documents = (X.indptr.astype(np.int64), X.indices.astype(np.int32), X.data.astype(float))
    N = np.empty((20, 7))
    collapsed_counts(documents, np.ascontiguousarray(phi, dtype=dtype), alpha, 10, 30, 9, 0.0, N)
    reference = Reference(alpha, np.ones(1))
    for d in range(10, 30):
        words, c = words_and_counts(X, d)
        expected = reference.collapsed(phi[words], c, n_iterations=9)
        np.testing.assert_allclose(N[d - 10], expected, atol=1e-9 if dtype == np.float64 else 1e-3)


# ---- whole runs ------------------------------------------------------------------------------------------------------


def start(K=6, *, X=None, weight=None, seed=0, **settings):
    model, data = problem(K, X=X, weight=weight)
    kernel = TopicVariational(**{"dtype": "float64", "tol": 1e-3, "bound_tol": 0.0, **settings})
    return kernel.init(model, data, seed=seed), kernel


def bounds(state, kernel, n):
    return np.array([kernel.step(state).objective for _ in range(n)])


def test_the_bound_is_the_sum_of_its_terms():
    state, kernel = start(local="dense", n_restarts=2)
    kernel.step(state)
    before = state.word_counts.copy()
    reference = Reference(state.model.pseudocounts, state.eta)
    passes = state.passes
    step = passes.step(passes.tables(before, state.eta), state.model.pseudocounts)
    found = documents_of(list(passes.parts(step, np.arange(state.data.n_rows))), state.data, 6)
    objective = kernel.step(state).objective
    E = reference.expected_logs(state.word_counts)
    total = reference.topics_bound(state.word_counts)
    expected = np.zeros_like(before)
    for d, (_value, _N, r) in enumerate(found):
        words, c = words_and_counts(state.data.X, d)
        total += reference.bound(E[words], c, r)
        expected[words] += c[:, None] * r
    np.testing.assert_allclose(state.word_counts, expected, atol=1e-9)
    np.testing.assert_allclose(objective, total, rtol=1e-9)


def started(X, K, name, n_steps):
    model, data = problem(K, X=X)
    kernel = TopicVariational()
    state = kernel.init(model, data, seed=0, start=name)
    for _ in range(n_steps):
        kernel.step(state)
    return state


def test_topics_of_many_documents_begin_near_the_corpus():
    X = corpus(n_docs=400, length=30)
    for K, name in ((20, "corpus"), (21, "documents")):
        assert np.array_equal(started(X, K, "auto", 0).word_counts, started(X, K, name, 0).word_counts)
    shares = np.asarray(X.sum(axis=0)).ravel() / X.sum()
    near, far = (started(X, 10, name, 0).word_counts for name in ("corpus", "documents"))
    assert np.isclose(near.sum(), X.sum())
    apart = [abs(counts / counts.sum(axis=0) - shares[:, None]).max() for counts in (near, far)]
    assert apart[0] < 0.1 * apart[1]
    assert started(X, 10, "corpus", 30).log_joint > started(X, 10, "documents", 30).log_joint


@pytest.mark.parametrize("schedule", [Full(), Memoized(7)])
@pytest.mark.parametrize("documents", ["best", "warm"])
@pytest.mark.parametrize("how", ["dense", "active"])
def test_the_bound_never_falls(schedule, documents, how):
    state, kernel = start(documents=documents, schedule=schedule, local=how, n_restarts=3)
    found = bounds(state, kernel, 20)
    state.check()
    gains = np.diff(found[1:])
    assert (gains >= -1e-9 * abs(found[1:-1])).all()
    assert found[-1] > found[1]


@pytest.mark.parametrize(("documents", "has_law"), [("best", True), ("cold", False)])
def test_cold_documents_have_no_such_law(documents, has_law):
    falls = 0
    for seed in range(4):
        state, kernel = start(12, local="active", n_restarts=0, documents=documents, seed=seed)
        found = bounds(state, kernel, 30)
        falls += (np.diff(found[1:]) < -1e-9 * abs(found[1:-1])).sum()
    assert (falls == 0) == has_law


def test_memoized_with_one_batch_is_full():
    for documents in ("cold", "best"):
        a, b = (start(schedule=s, documents=documents) for s in (Full(), Memoized(1)))
        np.testing.assert_array_equal(bounds(*a, 5), bounds(*b, 5))
        np.testing.assert_array_equal(a[0].word_counts, b[0].word_counts)


def test_memoized_sums_are_those_of_the_documents():
    state, kernel = start(schedule=Memoized(5), local="active")
    bounds(state, kernel, 3)
    fresh = np.zeros_like(state.word_counts)
    for parts in state.remembered:
        for part in parts:
            state.passes.add(part, fresh)
    np.testing.assert_allclose(state.word_counts, fresh, atol=1e-10)
    np.testing.assert_allclose(state.word_counts.sum(axis=1), state.data.X.sum(axis=0), atol=1e-9)


def test_stochastic_with_all_data_and_steps_of_one_is_full():
    a, kernel_a = start(schedule=Full())
    b, kernel_b = start(schedule=Stochastic(60, kappa=1.0, delay=0.0))
    kernel_a.step(a)
    kernel_b.step(b)  # the first step has size 1
    np.testing.assert_allclose(a.word_counts, b.word_counts, atol=1e-10)
    np.testing.assert_allclose(a.log_joint, b.log_joint, rtol=1e-12)


def test_multiplicities_are_copies():
    X, times = corpus(), np.random.default_rng(0).integers(0, 4, 60)
    V = X.shape[1]
    counts = counts_of_topics(V, 6)
    model, data = problem(X=X, weight=times.astype(float))
    copied = problem(X=np.repeat(X, times, axis=0))[1]
    kernel = TopicVariational(dtype="float64", bound_tol=0.0)
    a, b = kernel.init(model, data, start=counts, seed=0), kernel.init(model, copied, start=counts, seed=0)
    np.testing.assert_allclose(bounds(a, kernel, 4), bounds(b, kernel, 4), rtol=1e-10)
    np.testing.assert_allclose(a.word_counts, b.word_counts, atol=1e-8)
    a.check()


def test_permuted_words_topics_and_documents_permute_the_results():
    X, rng = corpus(), np.random.default_rng(3)
    rows, columns, topics = rng.permutation(60), rng.permutation(40), rng.permutation(6)
    counts = counts_of_topics(40, 6)
    kernel = TopicVariational(dtype="float64", local="dense", bound_tol=0.0)

    def run(X, counts, alpha, eta):
        model = AdmixtureModel(Multinomial(eta), 6, alpha)
        state = kernel.init(model, sparse.csr_array(X), start=counts, seed=0)
        return bounds(state, kernel, 3), state

    alpha, eta = np.linspace(0.1, 0.4, 6), np.linspace(0.05, 0.2, 40)
    found, state = run(X, counts, alpha, eta)
    again, other = run(X[rows][:, columns], counts[columns][:, topics], alpha[topics], eta[columns])
    np.testing.assert_allclose(found, again, rtol=1e-9)
    np.testing.assert_allclose(state.word_counts[columns][:, topics], other.word_counts, atol=1e-6)
    np.testing.assert_array_equal(topics[other.labels], state.labels[rows])


def test_single_precision_gives_nearly_the_same_bound():
    a, b = (start(dtype=dtype, n_restarts=0) for dtype in ("float32", "float64"))
    np.testing.assert_allclose(bounds(*a, 3), bounds(*b, 3), rtol=1e-5)


@pytest.mark.parametrize("schedule", [Full(), Memoized(3), Stochastic(25)])
def test_threads_change_no_bit(schedule, monkeypatch):
    monkeypatch.setattr("expfam.samplers.topics.local_step._TASK_ENTRIES", 1)  # else a chunk is one task
    monkeypatch.setattr("expfam.samplers.topics.local_step._CHUNK_ENTRIES", 200)
    runs = [start(schedule=schedule, local="active", n_threads=n) for n in (1, 2, 5)]
    found = [(bounds(*run, 4), run[0].word_counts, run[0].labels) for run in runs]
    for other in found[1:]:
        for a, b in zip(found[0], other):
            np.testing.assert_array_equal(a, b)


def test_full_outputs_are_emptied_and_gone_on_with(monkeypatch):
    whole = start(local="dense")
    monkeypatch.setattr("expfam.samplers.topics.local_step._TASK_VALUES", 300)
    pieces = start(local="dense")
    np.testing.assert_array_equal(bounds(*whole, 3), bounds(*pieces, 3))


@pytest.mark.parametrize(
    "settings", [{}, {"schedule": Memoized(4), "documents": "best"}, {"schedule": Stochastic(20)}, {"local": "tokens"}]
)
def test_a_resumed_run_has_the_bits_of_one_that_never_stopped(settings, tmp_path):
    whole, kernel = start(**settings)
    sample(kernel, whole, 3, callbacks=[Checkpoint(tmp_path / "run", every_seconds=0)])
    again, _ = start(**settings)
    restore_checkpoint(tmp_path / "run", again)
    np.testing.assert_array_equal(bounds(whole, kernel, 3), bounds(again, kernel, 3))
    np.testing.assert_array_equal(whole.word_counts, again.word_counts)
    with pytest.raises(ExpFamError, match="the checkpoint has counts"):
        start(K=7, **settings)[0].from_arrays(whole.to_arrays())


def test_planted_topics_are_found():
    rng = np.random.default_rng(0)
    topics = rng.dirichlet(np.full(60, 0.05), size=5)
    X = np.array([rng.multinomial(60, w @ topics) for w in rng.dirichlet(np.full(5, 0.15), size=900)])
    model, data = problem(5, X=X, alpha=0.2, eta=np.full(60, 0.05))
    best = -np.inf
    for seed in range(4):  # local optima: the best bound of a few starts
        kernel = TopicVariational(schedule=Memoized(5), local="active")
        state = kernel.init(model, data, seed=seed)
        sample(kernel, state, 40)
        if state.log_joint > best:
            best, found = state.log_joint, state.word_counts.T + 0.05
    found /= found.sum(axis=1, keepdims=True)
    distance = abs(topics[:, None] - found[None]).sum(axis=2)
    assert sorted(distance.argmin(axis=1)) == list(range(5))
    assert distance.min(axis=1).max() < 0.15


def test_the_bound_is_below_the_exact_evidence():
    X = np.array([[1, 1, 0], [0, 1, 1]])
    model = AdmixtureModel(Multinomial(0.5), 2, 0.6)
    joint = [model.log_joint(X, np.array(z)) for z in product(range(2), repeat=4)]
    evidence = np.logaddexp.reduce(joint)
    kernel = TopicVariational(dtype="float64", tol=0.0)
    found = max(bounds(kernel.init(model, X, seed=seed), kernel, 30)[-1] for seed in range(4))
    assert evidence - 2.0 < found < evidence


def test_it_stops_where_nothing_is_gained():
    state, kernel = start(documents="best", bound_tol=1e-4)
    trace = sample(kernel, state, 200)
    assert state.converged
    assert len(trace) < 200


# ---- every instruction set -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("isa", ["base", "avx2", "avx512"])
def test_every_instruction_set_gives_the_results(isa):
    code = """
import test_variational as t
t.test_dense_step_is_the_reference(30)
t.test_collapsed_counts_are_those_of_the_reference(t.np.float32)
t.test_single_precision_gives_nearly_the_same_bound()
t.test_words_that_no_active_topic_explains_are_computed_by_logs()
"""
    output_under(isa, code, file=__file__)


# ---- settings and data -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"n_active": 0}, "n_active"),
        ({"n_active": 1.5}, "n_active"),
        ({"n_restarts": -1}, "n_restarts"),
        ({"n_restarts": 65}, "an integer in 0..64"),
        ({"max_iterations": 0}, "max_iterations"),
        ({"tol": -1.0}, "tol"),
        ({"local": "sparse"}, "local"),
        ({"documents": "hot"}, "documents"),
        ({"documents": "best", "schedule": Stochastic(10)}, "documents='best'"),
        ({"schedule": "full"}, "schedule"),
        ({"dtype": "float16"}, "dtype"),
    ],
)
def test_settings_out_of_their_ranges(settings, words):
    with pytest.raises(ValueError, match=words):
        start(**settings)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"schedule": Stochastic(60, n_total=61)}, "a fit of 60 rows at once does not use n_total=61"),
        ({"n_restarts": 0, "restart_iterations": 3}, "n_restarts=0 does not use restart_iterations=3"),
    ],
)
def test_settings_that_others_leave_without_use(settings, words):
    with pytest.raises(CapabilityError, match=words):
        start(**settings)


def test_what_it_cannot_work_on():
    model, data = problem()
    with pytest.raises(DataError, match="zero in all rows"):
        start(weight=np.zeros(60))
    for counts, words in ((np.ones((3, 6)), "shape"), (np.full((40, 6), np.nan), "finite"), ("random", "'documents'")):
        with pytest.raises(ValueError, match=words):
            TopicVariational().init(model, data, start=counts)
    state, _ = start()
    with pytest.raises(CapabilityError):
        state.as_type(CollapsedGibbs.state_type)
    with pytest.raises(DataError):
        problem(X=-corpus())


def test_empty_documents_and_one_topic():
    X = corpus()
    X[[0, 7, 59]] = 0
    for settings in ({"local": "dense"}, {"local": "active", "documents": "best", "schedule": Memoized(6)}):
        for K in (1, 6):
            state, kernel = start(K, X=X, **settings)
            assert np.isfinite(bounds(state, kernel, 3)).all()
            np.testing.assert_allclose(state.word_counts.sum(), X.sum())
    for documents in ("cold", "best"):
        state, kernel = start(X=np.zeros((5, 4), dtype=int), documents=documents)
        np.testing.assert_allclose(bounds(state, kernel, 2), 0.0, atol=1e-12)
