"""Variational inference of rows in groups against its definition, exact evidence, its laws, and itself elsewhere."""

import numpy as np
import pytest
from allocated import peak_of
from grouped_by_terms import GroupedReference, enumerate_clusters, log_evidence
from planted import PLANTED, assert_never_falls, planted, planted_groups
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import gammaln, logsumexp, psi
from sklearn.metrics import normalized_mutual_info_score
from tiny import FAMILIES, PlainPoisson
from variational_by_terms import FAMILIES as REFERENCES

from expfam import AdmixtureModel, Dataset, DiagonalGaussian, Gaussian, MixtureModel, Poisson, SymmetricDirichlet
from expfam.errors import CapabilityError, SupportError
from expfam.model.known import Known
from expfam.samplers import Checkpoint, Full, GroupedVariational, Memoized, SparseVariational, Stochastic, sample
from expfam.samplers.chain.callbacks import restore_checkpoint
from expfam.samplers.grouped import local_step as passes
from expfam.samplers.grouped.group_rows import group_step
from expfam.samplers.grouped.local_step import better_pseudocounts, weights_evidence
from expfam.samplers.variational.sparse_rows import work_size

pytestmark = pytest.mark.filterwarnings("ignore:.*rows? (is|are) empty")

GROUPS = np.array([1, 0, 1, 0, 1])
EXACT = {"dtype": "float64", "bound_tol": 0.0, "tol": 0.0, "n_restarts": 0}


def dense(X):
    return X.toarray() if sparse.issparse(X) else np.asarray(X)


def begin(family, X, groups, alpha, *, seed=0, start="auto", weight=None, **settings):
    kernel = GroupedVariational(**{**EXACT, **settings})
    data = Dataset(X, family, groups=groups, weight=weight)
    return kernel.init(AdmixtureModel(data.family, len(alpha), alpha), data, seed=seed, start=start), kernel


def bounds(state, kernel, n_steps):
    return np.array([state.log_joint, *[kernel.step(state).objective for _ in range(n_steps)]])


# ---- the definition --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_active", [1, 2, 3, None])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", REFERENCES)
def test_each_pass_is_the_reference(name, weighted, n_active):
    family, X = FAMILIES[name]
    alpha = np.array([0.4, 0.9, 0.2])
    weight = np.array([1.0, 2.5, 0.0, 1.0, 0.3]) if weighted else None
    labels = np.array([0, 1, 2, 0, 1])
    for n_iterations in (1, 3):
        settings = {"n_active": n_active, "max_iterations": n_iterations, "schedule": Full()}
        state, kernel = begin(family, X, GROUPS, alpha, start=labels, weight=weight, **settings)
        reference = GroupedReference(state.data.family, dense(X).astype(float), GROUPS, alpha, weight=weight)
        base = state.data.log_base @ (np.ones(5) if weight is None else weight)
        r = np.eye(3)[labels]
        for _ in range(4):
            reference.fit_parameters(r).fit_weights(r)
            assert state.log_joint + base == pytest.approx(reference.bound(r), rel=1e-9)
            r = reference.local_step(r, n_active or 3, n_iterations)
            kernel.step(state)
            np.testing.assert_allclose(state.group_counts().toarray(), reference.group_counts(r), atol=1e-9)
            np.testing.assert_array_equal(state.labels, r.argmax(axis=1))
            state.check()


@pytest.mark.parametrize("name", FAMILIES)
def test_the_bound_lies_below_the_evidence(name):
    family, X = FAMILIES[name]
    alpha = np.array([0.7, 0.3])
    exact = log_evidence(enumerate_clusters(Dataset(X, family).family, Dataset(X, family).X, GROUPS, alpha)[1])
    for n_active in (1, 2):
        for start in ([0, 0, 1, 1, 0], [0, 1, 0, 1, 0], [0, 0, 0, 0, 0]):
            state, kernel = begin(family, X, GROUPS, alpha, start=np.array(start), n_active=n_active, n_restarts=1)
            assert bounds(state, kernel, 5).max() < exact


def test_one_group_is_a_mixture():
    """With one group, one turn a pass and equal pseudo-counts it is the mixture's own inference."""
    family, X, _ = planted("gaussian_diag", n=80)
    labels = np.arange(80) % 4
    state, kernel = begin(family, X, np.zeros(80, dtype=int), np.full(4, 0.3), start=labels, max_iterations=1)
    plain = SparseVariational(4, schedule=Full(), dtype="float64", tol=0.0)
    mixture = plain.init(MixtureModel(family, SymmetricDirichlet(4, 0.3)), X, seed=0, start=labels)
    for _ in range(5):
        assert kernel.step(state).objective == pytest.approx(plain.step(mixture).objective, rel=1e-11)
        np.testing.assert_allclose(state.n, mixture.n, atol=1e-8)


# ---- laws ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("schedule", [Full(), Memoized(4)])
@pytest.mark.parametrize("n_active", [1, 2, 4, None])
@pytest.mark.parametrize("name", PLANTED)
def test_the_bound_never_falls(name, n_active, schedule):
    family, X, _ = planted(name, n=200)
    groups = np.random.default_rng(1).integers(0, 25, 200)
    for more in ({}, {"n_restarts": 3}, {"learn_alpha": True, "tol": 0.5}):
        settings = {"n_active": n_active, "schedule": schedule, **more}
        state, kernel = begin(family, X, groups, np.full(6, 0.3), start="random", **settings)
        assert_never_falls(bounds(state, kernel, 8))
        state.check()


def step_of_one_group(scores, alpha, N, L, *, max_iterations=1, n_restarts=0):
    m, K = scores.shape
    counts, entropy, counters = N[None].copy(), np.empty(m), np.zeros(3, dtype=np.int64)
    values, indices = np.empty((m, L)), np.empty((m, L), dtype=np.int32)
    bad = group_step(
        scores, np.array([0, m]), None, alpha, counts, values, indices, entropy, max_iterations, 0.0, n_restarts, 2,
        np.empty(K + work_size(K)), np.empty(4 * K + work_size(K)), counters,
    )  # fmt: skip
    assert bad == -1
    r = values if L == K else np.zeros((m, K))
    if L < K:
        np.put_along_axis(r, indices.astype(int), values, axis=1)
    np.testing.assert_allclose(r.sum(axis=0), counts[0], atol=1e-10)
    inside = r > 0
    np.testing.assert_allclose(entropy.sum(), -(r[inside] * np.log(r[inside])).sum(), atol=1e-10)
    weights = weights_evidence(alpha, sparse.csr_array(counts))
    return counts[0], (r * scores).sum() + entropy.sum() + weights, counters


@pytest.mark.parametrize("L", [1, 2, 6])
def test_restarts_never_lower_the_bound_of_a_group(L):
    rng = np.random.default_rng(0)
    n_accepted = 0
    for _ in range(50):
        scores, alpha = rng.normal(scale=1.5, size=(12, 6)), np.full(6, 0.1)
        N = np.full(6, 2.0)
        _, without, _ = step_of_one_group(scores, alpha, N, L, max_iterations=300)
        _, value, counters = step_of_one_group(scores, alpha, N, L, max_iterations=300, n_restarts=4)
        assert value >= without - 1e-9 * abs(without)
        assert (value > without + 1e-6) <= (counters[2] > 0)
        n_accepted += counters[2]
    assert n_accepted > 5


# ---- candidates ------------------------------------------------------------------------------------------------------


def begin_narrow(name, *, n=300, K=12, seed=0, **settings):
    """A run that scores candidates from its first pass on."""
    family, X, _ = planted(name, n=n)
    groups = np.random.default_rng(seed).integers(0, 20, n)
    settings = {"full_every": 1000, "schedule": Memoized(3), **settings}
    state, kernel = begin(family, X, groups, np.full(K, 0.2), start="random", seed=seed, **settings)
    state.share_moved = 0.0
    return state, kernel


@pytest.mark.parametrize("n_restarts", [0, 2])
@pytest.mark.parametrize("n_candidates", [2, 5])
@pytest.mark.parametrize("n_active", [1, 2, 4])
@pytest.mark.parametrize("name", ["gaussian_diag", "multinomial"])
def test_the_bound_never_falls_with_candidates(name, n_active, n_candidates, n_restarts):
    settings = {"n_active": n_active, "n_candidates": n_candidates, "n_restarts": n_restarts}
    state, kernel = begin_narrow(name, max_iterations=3, **settings)
    values = bounds(state, kernel, 12)
    assert state.since_all == 12
    state.check()
    state.must_score_all = True
    values = [*values, kernel.step(state).objective]
    assert state.since_all == 0
    assert_never_falls(values)


def test_without_last_clusters_the_bound_falls():
    n_falls = 0
    for seed in range(4):
        state, kernel = begin_narrow("gaussian_diag", seed=seed, n_active=3, n_candidates=3, learn_alpha=False)
        state.passes.scores_last = False
        values = bounds(state, kernel, 10)
        n_falls += (np.diff(values) < -1e-9 * abs(values[0])).sum()
    assert n_falls > 0


@pytest.mark.parametrize("sparse_rows", [False, True])
def test_candidates_that_are_all_clusters_change_nothing(sparse_rows, monkeypatch):
    family, X, _ = planted("poisson")
    X, groups = sparse.csr_array(X) if sparse_rows else X, np.arange(len(X)) % 30
    full, values = run_of(family, X, groups, n_active=2, n_restarts=1, n_candidates=None)
    monkeypatch.setattr(GroupedVariational, "has_candidates", lambda self, K: True)
    monkeypatch.setattr(GroupedVariational, "_scores_all", lambda self, state: False)
    narrow, same = run_of(family, X, groups, n_active=2, n_restarts=1, n_candidates=6)
    np.testing.assert_allclose(same, values, rtol=1e-11)
    np.testing.assert_array_equal(narrow.labels, full.labels)
    np.testing.assert_array_equal(narrow.indices[:, 0], narrow.labels)


def test_rows_have_the_best_of_their_candidates_and_last_clusters():
    """One turn against its definition, where each row has candidates of its own."""
    rng = np.random.default_rng(0)
    m, K, G, L = 40, 15, 4, 3
    scores, alpha, N = rng.normal(size=(m, K)), rng.gamma(1.0, size=K), rng.gamma(1.0, size=K) * (rng.random(K) < 0.5)
    graph = np.sort(np.array([rng.permutation(K)[:G] for _ in range(5)]), axis=1).astype(np.int32)
    buckets, last = rng.integers(0, 5, m).astype(np.int32), np.empty((m, L), dtype=np.int32)
    for i in range(m):
        last[i] = rng.permutation(np.setdiff1d(np.arange(K), graph[buckets[i]]))[:L]
    last[rng.random((m, L)) < 0.3] = -1
    own = np.take_along_axis(scores, np.hstack([graph[buckets], np.maximum(last, 0)]), axis=1)
    own[:, G:][last < 0] = -np.inf
    counts, values, indices = N[None].copy(), np.empty((m, L)), np.empty((m, L), dtype=np.int32)
    bad = group_step(
        own, np.array([0, m]), None, alpha, counts, values, indices, np.empty(m), 1, 0.0, 0, 1,
        np.empty(G + L + work_size(G + L)), np.empty(4 * K + work_size(K)), np.zeros(3, dtype=np.int64),
        buckets, graph, last,
    )  # fmt: skip
    assert bad == -1
    r = np.zeros((m, K))
    for i in range(m):
        allowed = np.concatenate([graph[buckets[i]], last[i][last[i] >= 0]])
        w = scores[i, allowed] + psi(alpha + N)[allowed]
        best = allowed[np.argsort(-w)[:L]]
        np.testing.assert_array_equal(indices[i], best)
        r[i, best] = np.exp(np.sort(w)[::-1][:L] - logsumexp(np.sort(w)[::-1][:L]))
    np.testing.assert_allclose(counts[0], r.sum(axis=0), atol=1e-12)


@pytest.mark.parametrize("name", ["gaussian", "multinomial"])
def test_candidates_give_the_same_bits_on_threads_and_after_checkpoints(name, tmp_path):
    settings = {"n_active": 2, "n_candidates": 3, "n_restarts": 1, "dtype": "float32", "full_every": 3}
    one, kernel = begin_narrow(name, n=4000, K=6, **settings)
    two, other = begin_narrow(name, n=4000, K=6, n_threads=2, **settings)
    np.testing.assert_array_equal(bounds(one, kernel, 4), bounds(two, other, 4))
    np.testing.assert_array_equal(one.indices, two.indices)
    resumed, _ = begin_narrow(name, n=4000, K=6, **settings)
    sample(kernel, one, 1, callbacks=[Checkpoint(tmp_path / "run", every_seconds=0)])
    restore_checkpoint(tmp_path / "run", resumed)
    assert (resumed.since_all, resumed.share_moved) == (one.since_all, one.share_moved)
    np.testing.assert_array_equal(bounds(resumed, kernel, 4), bounds(one, kernel, 4))


def test_candidates_come_when_labels_have_settled_and_a_run_ends_with_all_clusters():
    family, X, _ = planted("gaussian_diag", n=600)
    settings = {"n_active": 2, "n_candidates": 4, "full_every": 4, "bound_tol": 1e-6}
    state, kernel = begin(family, X, np.arange(600) % 40, np.full(10, 0.2), start="random", **settings)
    wide = []
    while not kernel.is_done(state):
        wide.append(kernel.step(state).extra["all_clusters"])
        assert len(wide) < 300
    assert wide[0] == wide[1] == wide[-1] == 1
    assert 0 in wide
    runs = "".join(map(str, wide))
    assert "0000" not in runs
    assert "000" in runs
    state.since_all, before, n_steps = 1, state.log_joint, state.n_steps
    kernel.finish(state)
    assert (state.n_steps, state.since_all) == (n_steps + 1, 0)
    assert state.log_joint >= before
    kernel.finish(state)
    assert state.n_steps == n_steps + 1


def test_candidates_are_for_many_clusters_and_rows():
    kernel = GroupedVariational()
    assert not kernel.has_candidates(127)
    assert kernel.n_candidates_of(500) == 48
    assert not GroupedVariational(None).has_candidates(500)
    assert GroupedVariational(8, n_candidates=3).n_candidates_of(500) == 8
    for n, is_few in ((500, True), (900, False)):
        family, X, _ = planted("gaussian_diag", n=n)
        state, kernel = begin(family, X, np.arange(n) % 9, np.full(200, 0.1))
        state.share_moved = 0.0
        assert kernel.step(state).extra["all_clusters"] == is_few


def test_pseudocounts_rise_to_a_stationary_point():
    rng = np.random.default_rng(0)
    counts = sparse.csr_array(rng.dirichlet([0.5, 0.2, 1.5], 60) * rng.integers(0, 40, 60)[:, None])

    def target(a):
        return weights_evidence(a, counts) - a.sum()

    alpha, values = np.ones(3), []
    for _ in range(100):
        values.append(target(alpha))
        alpha = better_pseudocounts(alpha, counts)
    assert_never_falls(values)
    best = minimize(lambda t: -target(np.exp(t)), np.zeros(3), tol=1e-10)
    np.testing.assert_allclose(alpha, np.exp(best.x), rtol=1e-3)


def test_weights_evidence_is_an_urn():
    counts = np.array([[2, 0, 1], [0, 0, 0], [1, 1, 3]])
    alpha = np.array([0.3, 0.5, 0.9])
    A = alpha.sum()
    exact = sum(gammaln(A) - gammaln(A + n.sum()) + (gammaln(alpha + n) - gammaln(alpha)).sum() for n in counts)
    assert weights_evidence(alpha, sparse.csr_array(counts.astype(float))) == pytest.approx(exact, abs=1e-12)


# ---- itself in other circumstances -----------------------------------------------------------------------------------


def run_of(family, X, groups, *, n_steps=4, **settings):
    state, kernel = begin(family, X, groups, np.full(6, 0.3), start="random", **settings)
    values = bounds(state, kernel, n_steps)
    return state, values


@pytest.mark.parametrize("name", ["gaussian", "multinomial"])
@pytest.mark.parametrize("n_active", [3, None])
def test_threads_and_blocks_do_not_change_results(name, n_active, monkeypatch):
    family, X, _ = planted(name, n=3000)
    groups = np.random.default_rng(2).integers(0, 90, 3000)
    options = {"n_active": n_active, "n_restarts": 1, "dtype": "float32"}
    one, values = run_of(family, X, groups, **options)
    two, same = run_of(family, X, groups, n_threads=2, **options)
    np.testing.assert_array_equal(values, same)
    np.testing.assert_array_equal(one.labels, two.labels)
    np.testing.assert_array_equal(one.group_counts().toarray(), two.group_counts().toarray())
    exact, values = run_of(family, X, groups, **{**options, "dtype": "float64"})
    many = exact.passes.block_rows()
    monkeypatch.setattr("expfam.samplers.variational.local_step.SCORE_BYTES", 6 * 8 * 64)
    small, same = run_of(family, X, groups, **{**options, "dtype": "float64"})
    assert small.passes.block_rows() < many
    np.testing.assert_allclose(values, same, rtol=1e-12)


@pytest.mark.parametrize("n_active", [2, None])
def test_a_group_whose_scores_cannot_be_held_gets_one_turn(n_active, monkeypatch):
    family, X, _ = planted("gaussian_diag", n=500)
    groups = np.where(np.arange(500) < 400, 3, np.arange(500) % 3)
    _, values = run_of(family, X, groups, n_active=n_active, max_iterations=1)
    monkeypatch.setattr(passes, "MOST_ROWS", 64)
    monkeypatch.setattr(passes, "HELD_BYTES", 0)
    monkeypatch.setattr("expfam.samplers.variational.local_step.SCORE_BYTES", 1)
    long, same = run_of(family, X, groups, n_active=n_active, max_iterations=1)
    assert long.passes.block_rows() == 64
    np.testing.assert_allclose(values, same, rtol=1e-12)
    state, values = run_of(family, X, groups, n_active=n_active, n_restarts=2, n_steps=8)
    assert_never_falls(values)
    state.check()


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("n_active", [2, None])
@pytest.mark.parametrize("name", ["gaussian_diag", "multinomial"])
def test_a_group_longer_than_a_block_has_its_turns_and_restarts(name, n_active, dtype, monkeypatch):
    family, X, _ = planted(name, n=500)
    X = sparse.csr_array(X) if name == "multinomial" else X
    groups = np.where(np.arange(500) < 400, 3, np.arange(500) % 3)
    settings = {"n_active": n_active, "n_restarts": 2, "tol": 0.01, "dtype": dtype}
    short, values = run_of(family, X, groups, n_steps=6, **settings)
    monkeypatch.setattr(passes, "MOST_ROWS", 64)
    monkeypatch.setattr("expfam.samplers.variational.local_step.SCORE_BYTES", 1)
    long, same = run_of(family, X, groups, n_steps=6, **settings)
    assert long.passes.block_rows() == 64
    slack = 1e-12 if dtype == "float64" else 1e-6
    np.testing.assert_allclose(same, values, rtol=slack)
    np.testing.assert_allclose(long.group_counts().toarray(), short.group_counts().toarray(), atol=1e5 * slack)
    assert_never_falls(same, 1e-9 if dtype == "float64" else 1e-6)
    monkeypatch.setattr(passes, "HELD_BYTES", 0)
    _, other = run_of(family, X, groups, n_steps=1, **settings)
    assert abs(other[1] - same[1]) > 1.0


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(("n_active", "n_candidates"), [(2, None), (None, None), (2, 3)])
def test_the_forecast_of_memory_has_the_scores_that_long_groups_hold(n_active, n_candidates, dtype, monkeypatch):
    """Groups of 900, 700, 200 and 4 rows: blocks have 64, scores of 720 rows are held, for 9 clusters."""
    family, X, _ = planted("gaussian_diag", n=1804)
    groups = np.repeat(np.arange(4), [900, 700, 200, 4])
    settings = {"n_active": n_active, "n_candidates": n_candidates, "dtype": dtype}
    monkeypatch.setattr("expfam.samplers.variational.local_step.SCORE_BYTES", 1)
    short, kernel = begin(family, X, groups, np.full(9, 0.2), start="random", **settings)
    without = kernel.memory(short.model, short.data, 9)  # all groups fit into a block
    monkeypatch.setattr(passes, "MOST_ROWS", 64)
    monkeypatch.setattr(passes, "HELD_BYTES", 720 * 9 * np.dtype(dtype).itemsize)
    state, kernel = begin(family, X, groups, np.full(9, 0.2), start="random", full_every=99, **settings)
    held, real = [], passes._GroupedPart._use

    def use(self, buffers, first):
        own = any(buffers[name].base is None and len(buffers[name]) == self.n_block for name in buffers)
        held.append(0 if own else sum(buffer.nbytes for buffer in buffers.values()))
        real(self, buffers, first)

    monkeypatch.setattr(passes._GroupedPart, "_use", use)
    kernel.step(state)
    said = kernel.memory(state.model, state.data, 9) - without
    of_last = 2 * (4 * 2 + 8)  # a row's last clusters, in pieces and joined
    if n_candidates is None:
        assert said == max(held) == 700 * (max(held) // 700)
        return
    state.share_moved = 0.0
    wide, _ = max(held), held.clear()
    kernel.step(state)
    assert said == max(wide, max(held) + 900 * of_last)
    assert max(held) == 900 * (max(held) // 900)  # with scores of five clusters the longest group is held too


def test_groups_that_are_worked_on_at_once_hold_their_scores_together(monkeypatch):
    rows = np.arange(30_000.0)[:, None]
    data = Dataset(rows, DiagonalGaussian(), groups=np.repeat(np.arange(3), [14_000, 10_000, 6000]))
    model = AdmixtureModel(data.family, 40)

    def said(**settings):
        return GroupedVariational(4, n_candidates=None, **settings).memory(model, data, 40)

    monkeypatch.setattr(passes, "HELD_BYTES", 0)
    without = said()
    monkeypatch.undo()
    each = 4 * (40 + 4 + 4) + 4 * 4 + 16
    assert said() - without == 14_000 * each
    assert said(n_threads=2) - without == 24_000 * each
    assert said(n_threads=9) - without == 30_000 * each
    monkeypatch.setattr(passes, "HELD_BYTES", 10_000 * 40 * 4)
    assert said(n_threads=2) - without == 16_000 * each
    kernel = GroupedVariational(4, n_candidates=None, schedule=Full())
    peaks = []
    for most in (0, 1 << 26):  # what is held is what the peak grows by
        monkeypatch.setattr(passes, "HELD_BYTES", most)
        state = kernel.init(model, data, seed=0, start="random")
        peaks.append(peak_of(lambda state=state: kernel.step(state)))
    assert 0.9 < (peaks[1] - peaks[0]) / (14_000 * each) < 1.1


def test_a_long_group_keeps_its_candidates(monkeypatch):
    found = []
    for rows in (4096, 32):
        monkeypatch.setattr(passes, "MOST_ROWS", rows)
        monkeypatch.setattr("expfam.samplers.variational.local_step.SCORE_BYTES", 1)
        settings = {"n_active": 2, "n_candidates": 3, "n_restarts": 1}
        family, X, _ = planted("gaussian_diag", n=300)
        state, kernel = begin(family, X, np.arange(300) % 2, np.full(9, 0.2), start="random", full_every=99, **settings)
        state.share_moved = 0.0
        found.append((bounds(state, kernel, 6), state.indices.copy()))
        assert state.since_all == 6
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-12)
    np.testing.assert_array_equal(found[0][1], found[1][1])
    assert_never_falls(found[1][0])


@pytest.mark.parametrize("n_active", [2, None])
@pytest.mark.parametrize("held_bytes", [passes.HELD_BYTES, 0])
def test_known_rows_of_groups_of_all_lengths_stay_in_their_clusters(n_active, held_bytes, monkeypatch):
    monkeypatch.setattr(passes, "MOST_ROWS", 64)
    monkeypatch.setattr(passes, "HELD_BYTES", held_bytes)
    monkeypatch.setattr("expfam.samplers.variational.local_step.SCORE_BYTES", 1)
    family, X, _ = planted("gaussian_diag", n=500)
    groups = np.where(np.arange(500) < 400, 3, np.arange(500) % 3)
    classes = np.where(np.arange(500) % 9 == 0, np.arange(500) % 2, -1)  # whatever their values
    data = Dataset(X, family, groups=groups, known=Known(classes))
    kernel = GroupedVariational(n_active, n_restarts=1, dtype="float64")
    state = kernel.init(AdmixtureModel(data.family, 6, alpha=0.3), data, seed=0, start="random")
    assert state.passes.block_rows() == 64
    assert_never_falls(bounds(state, kernel, 6))
    is_known = classes >= 0
    np.testing.assert_array_equal(state.labels[is_known], classes[is_known])
    free = GroupedVariational(n_active, n_restarts=1, dtype="float64")
    other = free.init(AdmixtureModel(data.family, 6, alpha=0.3), data.without_known(), seed=0, start=state.labels)
    bounds(other, free, 6)
    assert (other.labels[is_known] != classes[is_known]).sum() > 10


def test_known_rows_stay_with_candidates():
    family, X, _ = planted("gaussian_diag", n=300)
    classes = np.where(np.arange(300) % 9 == 0, np.arange(300) % 2, -1)
    data = Dataset(X, family, groups=np.arange(300) % 2, known=Known(classes))
    kernel = GroupedVariational(2, n_candidates=3, full_every=99, **EXACT)
    state = kernel.init(AdmixtureModel(data.family, 9, alpha=0.2), data, seed=0, start="random")
    state.share_moved = 0.0
    assert_never_falls(bounds(state, kernel, 6))
    assert state.since_all == 6
    np.testing.assert_array_equal(state.labels[classes >= 0], classes[classes >= 0])


def test_single_precision_is_near():
    for name in ("gaussian", "gaussian_zero", "poisson"):
        family, X, _ = planted(name)
        groups = np.arange(len(X)) % 30
        _, exact = run_of(family, X, groups, n_steps=6)
        _, near = run_of(family, X, groups, n_steps=6, dtype="float32")
        np.testing.assert_allclose(near, exact, rtol=1e-5)


def test_a_family_of_plain_numpy_and_sparse_rows_are_the_same():
    _, X, _ = planted("poisson")
    groups = np.arange(len(X)) % 30
    values = [
        run_of(family, rows, groups)[1]
        for family, rows in (
            (Poisson(0.8, 0.3), X),
            (PlainPoisson(0.8, 0.3), X),
            (Poisson(0.8, 0.3), sparse.csr_array(X)),
        )
    ]
    np.testing.assert_allclose(values[1], values[0], rtol=1e-11)
    np.testing.assert_allclose(values[2], values[0], rtol=1e-11)


def test_rows_groups_and_weights_may_be_written_otherwise():
    family, X, _ = planted("gaussian", n=120)
    groups, labels = np.arange(120) % 7, np.arange(120) % 5
    alpha = np.linspace(0.2, 0.6, 5)
    plain = bounds(*begin(family, X, groups, alpha, start=labels, n_active=2), 5)
    rng = np.random.default_rng(0)
    order, names = rng.permutation(120), 2 * rng.permutation(7)  # every second group has no rows
    moved = bounds(*begin(family, X[order], names[groups[order]], alpha, start=labels[order], n_active=2), 5)
    np.testing.assert_allclose(moved, plain, rtol=1e-10)
    clusters = rng.permutation(5)
    back = np.argsort(clusters)
    renamed = bounds(*begin(family, X, groups, alpha[back], start=clusters[labels], n_active=2), 5)
    np.testing.assert_allclose(renamed, plain, rtol=1e-10)
    bound = Dataset(X, family).family  # whose centre is that of the rows without copies
    twice = bounds(*begin(bound, np.repeat(X, 2, axis=0), np.repeat(groups, 2), alpha, start=np.repeat(labels, 2)), 5)
    weighted = bounds(*begin(bound, X, groups, alpha, start=labels, weight=np.full(120, 2.0)), 5)
    np.testing.assert_allclose(weighted, twice, rtol=1e-10)


def test_one_batch_is_the_full_pass():
    family, X, _ = planted("poisson")
    groups = np.arange(len(X)) % 30
    _, full = run_of(family, X, groups, schedule=Full())
    _, one = run_of(family, X, groups, schedule=Memoized(1))
    np.testing.assert_allclose(one, full, rtol=1e-12)


def test_a_resumed_run_has_the_same_bits(tmp_path):
    family, X, _ = planted("gaussian_diag")
    groups = np.arange(len(X)) % 30
    whole, kernel = begin(family, X, groups, np.full(5, 0.3), schedule=Memoized(3), learn_alpha=True, n_restarts=1)
    sample(kernel, whole, 2, callbacks=[Checkpoint(tmp_path / "run", every_seconds=0)])
    resumed, _ = begin(family, X, groups, np.full(5, 0.3), schedule=Memoized(3), learn_alpha=True, n_restarts=1)
    restore_checkpoint(tmp_path / "run", resumed)
    for _ in range(3):
        kernel.step(whole)
        kernel.step(resumed)
    assert whole.log_joint == resumed.log_joint
    np.testing.assert_array_equal(whole.labels, resumed.labels)
    np.testing.assert_array_equal(whole.model.pseudocounts, resumed.model.pseudocounts)


def test_planted_groups_are_found():
    X, groups, labels = planted_groups()
    state, kernel = begin(Gaussian(), X, groups, np.full(5, 0.5), learn_alpha=True, bound_tol=1e-6, dtype="float32")
    trace = sample(kernel, state, 50)
    assert len(trace) < 50
    assert kernel.is_done(state)
    assert normalized_mutual_info_score(labels, state.labels) > 0.95
    own = state.model.pseudocounts + state.group_counts().toarray()
    own /= own.sum(axis=1, keepdims=True)
    place = [np.bincount(state.labels[labels == k]).argmax() for k in range(5)]
    found = np.array([np.bincount(labels[groups == g], minlength=5) / 30 for g in range(40)])
    assert abs(own[:, place] - found).max() < 0.1


# ---- refusals --------------------------------------------------------------------------------------------------------


def test_a_row_without_a_density_is_named():
    family, X, _ = planted("gaussian_diag", n=40)
    X = X.copy()
    state, kernel = begin(family, X, np.arange(40) % 3, np.ones(2))
    X[23, 0] = np.nan  # as no validated row is
    for n_active in (1, 2):
        state.passes.L = n_active
        with pytest.raises(SupportError, match="row 23 has no finite score"):
            kernel.step(state)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"n_active": 0}, "n_active"),
        ({"n_active": 1.5}, "n_active"),
        ({"max_iterations": 0}, "max_iterations"),
        ({"n_candidates": 0}, "n_candidates"),
        ({"n_candidates": "many"}, "n_candidates"),
        ({"full_every": 0}, "full_every"),
        ({"n_restarts": -1}, "n_restarts"),
        ({"restart_iterations": 0}, "restart_iterations"),
        ({"tol": -1.0}, "tol"),
        ({"bound_tol": np.inf}, "bound_tol"),
        ({"dtype": "float16"}, "dtype"),
        ({"schedule": Stochastic(10)}, "schedule"),
        ({"schedule": "full"}, "schedule"),
        ({"schedule": Memoized(0)}, "n_batches"),
    ],
)
def test_bad_settings_are_named(settings, words):
    with pytest.raises(ValueError, match=words):
        begin(*FAMILIES["poisson"], GROUPS, np.ones(2), **settings)


def test_settings_that_others_leave_without_use_are_refused():
    with pytest.raises(CapabilityError, match="does not use restart_iterations=3: leave it out, or"):
        begin(*FAMILIES["poisson"], GROUPS, np.ones(2), restart_iterations=3, n_restarts=0)


def test_other_models_and_states_are_refused():
    family, X = FAMILIES["poisson"]
    with pytest.raises(CapabilityError, match="needs the group of each row"):
        GroupedVariational().init(AdmixtureModel(family, 2), X)
    with pytest.raises(CapabilityError, match="works on an AdmixtureModel"):
        GroupedVariational().init(MixtureModel(family, SymmetricDirichlet(2)), Dataset(X, family, groups=GROUPS))
    state, _ = begin(family, X, GROUPS, np.ones(2))
    with pytest.raises(CapabilityError, match="cannot become"):
        state.as_type(int)


def test_check_finds_damaged_counts():
    state, kernel = begin(*FAMILIES["gaussian"], GROUPS, np.ones(2))
    kernel.step(state)
    state.batch_counts[0].data[0] += 0.5
    with pytest.raises(AssertionError, match="counts differ"):
        state.check()
