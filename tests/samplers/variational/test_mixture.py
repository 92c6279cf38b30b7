"""Sparse variational inference against its definition, exact evidence, its laws, and itself in other circumstances."""

import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from planted import PLANTED, assert_never_falls, planted
from scipy import sparse
from scipy.special import logsumexp
from tiny import FAMILIES, WEIGHTS
from variational_by_terms import (
    FAMILIES as REFERENCES,
)
from variational_by_terms import Reference, best_value, labelings, reference_weights, row_value, top_rows

from expfam import (
    Dataset,
    DirichletProcess,
    Gaussian,
    Mixture,
    MixtureModel,
    Multinomial,
    PitmanYor,
    Poisson,
    SymmetricDirichlet,
    ZeroMeanGaussian,
)
from expfam.errors import CapabilityError, DataWarning, SupportError
from expfam.families.base import Family
from expfam.samplers import (
    Checkpoint,
    CollapsedGibbs,
    CollapsedState,
    Cycle,
    Full,
    Memoized,
    SparseVariational,
    Stochastic,
    UpdateHyper,
    load_sampler,
    sample,
)
from expfam.samplers.chain.callbacks import restore_checkpoint
from expfam.samplers.variational import candidate_passes
from expfam.samplers.variational import local_step as passes
from expfam.samplers.variational.candidates import GraphCandidates
from expfam.samplers.variational.posterior import Posterior, Proportions
from expfam.samplers.variational.sparse_rows import select_rows, work_size
from expfam.samplers.variational.state import VariationalState

pytestmark = pytest.mark.filterwarnings("ignore:.*rows? (is|are) empty", "ignore:.*clusters for .* data")


def dense(X):
    return X.toarray() if sparse.issparse(X) else X


def begin(family, X, weights, *, seed=0, start="auto", weight=None, whiten=None, **settings):
    """State and kernel."""
    kernel = SparseVariational(**{"tol": 0.0, "dtype": "float64", "schedule": Full(), **settings})
    data = Dataset(X, family, weight=weight)
    model = MixtureModel(data.family, weights)
    if whiten is None:
        return kernel.init(model, data, seed=seed, start=start), kernel
    labels = np.random.default_rng(seed).integers(0, kernel.max_clusters(model), data.n_rows)
    K = kernel.max_clusters(model)
    return VariationalState(model, data, labels, n_clusters=K, settings=kernel, seed=seed, whiten=whiten), kernel


def bounds(state, kernel, n_steps):
    return np.array([state.log_joint, *[kernel.step(state).objective for _ in range(n_steps)]])


def reference_of(state, *, closed=False):
    """The reference for a state's data and prior."""
    name, X = state.data.family.name, dense(state.data.X).astype(float)
    family = REFERENCES[name](state.data.family, X)
    return Reference(family, reference_weights(state.model.weights, closed), weight=state.data.weight)


def random_rows(rng, n, K, n_active):
    return top_rows(rng.normal(scale=2.0, size=(n, K)), n_active)


# ---- selection -------------------------------------------------------------------------------------------------------


def select(scores, L):
    scores = np.ascontiguousarray(scores)
    R = len(scores)
    values, indices = np.full((R, L), np.nan, dtype=scores.dtype), np.full((R, L), -9, dtype=np.int32)
    objective, entropy = np.empty(R), np.empty(R)
    work = np.empty(work_size(scores.shape[1]), dtype=scores.dtype)
    bad = select_rows(scores, None, None, None, values, indices, objective, entropy, work)
    return values, indices, objective, entropy, bad


@pytest.mark.parametrize("L", [1, 2, 3, 5, 8])
def test_the_largest_scores_are_the_best_support(L):
    rng = np.random.default_rng(L)
    scores = rng.normal(size=(12, 8)).round(1)
    scores[:4, :3] = scores[:4, 3:6]  # ties
    scores[4:8][rng.random((4, 8)) < 0.4] = -np.inf
    values, indices, objective, entropy, bad = select(scores, L)
    assert bad == -1
    for i, row in enumerate(scores):
        assert objective[i] == pytest.approx(best_value(row, L), abs=1e-12)
        r = np.zeros(8)
        r[indices[i][values[i] > 0]] = values[i][values[i] > 0]
        assert objective[i] == pytest.approx(row_value(r, row), abs=1e-12)
        inside = r > 0
        assert entropy[i] == pytest.approx(-(r[inside] * np.log(r[inside])).sum(), abs=1e-12)


def test_of_equal_scores_the_first_are_kept_and_nothing_is_written_beside_them():
    values, indices, _, _, _ = select(np.zeros((5, 6)), 2)
    assert (indices == [0, 1]).all()
    assert (values == 0.5).all()
    scores = np.random.default_rng(0).integers(0, 4, (300, 40)).astype(np.float32)
    _, indices, _, _, _ = select(scores, 5)
    assert np.array_equal(indices, np.argsort(-scores, axis=1, kind="stable")[:, :5])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("K", [2, 6, 33, 200])
def test_ties_never_write_beyond_the_kept_ones(K, dtype):
    for L in {1, 2, min(K, 9), K}:
        room = 7  # guard values around what may be written
        values = np.full(20 * L + 2 * room, 7.5, dtype=dtype)
        indices = np.full(values.size, -77, dtype=np.int32)
        work = np.full(work_size(K) + room, 7.5, dtype=dtype)
        inside = slice(room, room + 20 * L)
        for scores in (np.zeros((20, K)), np.tile(np.arange(K) % 3, (20, 1)), np.full((20, K), -1e30)):
            rows = values[inside].reshape(20, L), indices[inside].reshape(20, L)
            results = np.empty(20), np.empty(20)
            assert select_rows(scores.astype(dtype), None, None, None, *rows, *results, work[: work_size(K)]) == -1
            assert np.array_equal(rows[1], np.argsort(-scores, axis=1, kind="stable")[:, :L])
            outside = np.ones(values.size, dtype=bool)
            outside[inside] = False
            assert (values[outside] == 7.5).all()
            assert (indices[outside] == -77).all()
            assert (work[work_size(K) :] == 7.5).all()


def test_a_row_without_a_finite_score_is_named():
    scores = np.zeros((3, 4))
    scores[1] = -np.inf
    assert select(scores, 2)[-1] == 1
    scores[1] = np.inf
    assert select(scores, 2)[-1] == 1

    class Impossible(Poisson):
        def expected_natural(self, n, S):
            theta, g = super().expected_natural(n, S)
            return np.where(np.arange(S.shape[1]) == 1, -np.inf, theta), g

    for n_active in (2, None):
        state, kernel = begin(Impossible(), sparse.csr_array([[1, 0]] * 7 + [[1, 1]]), SymmetricDirichlet(3))
        state, kernel = begin(
            Impossible(), sparse.csr_array([[1, 0]] * 7 + [[1, 1]]), SymmetricDirichlet(3), n_active=n_active
        )
        with pytest.raises(SupportError, match="row 7 "):
            kernel.step(state)


# ---- the bound -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weights", WEIGHTS.values(), ids=WEIGHTS)
@pytest.mark.parametrize("name", REFERENCES)
def test_bound_is_that_of_the_definition(name, weights):
    family, X = FAMILIES[name]
    data = Dataset(X, family)
    rng = np.random.default_rng(3)
    K = weights.max_components or 4
    reference = Reference(REFERENCES[name](data.family, dense(X).astype(float)), reference_weights(weights))
    phi = data.phi(0, data.n_rows)
    proportions = Proportions(weights)
    for L in (1, 2, K):
        r, other = random_rows(rng, data.n_rows, K, L), random_rows(rng, data.n_rows, K, L)
        reference.fit(r)
        n, S = r.sum(0), r.T @ phi
        entropy = -np.where(r > 0, r * np.log(np.where(r > 0, r, 1.0)), 0.0).sum()
        q = Posterior(n, S, data.family, proportions, reference.order)
        base = data.log_base.sum()
        # after the global step: the collapsed log joint of fractional counts, and entropy
        collapsed = weights.log_evidence(n[reference.order]) + data.family.log_marginal(n, S).sum() + entropy
        assert q.bound(entropy) == pytest.approx(collapsed, abs=1e-10)
        assert q.bound(entropy) + base == pytest.approx(reference.bound(), rel=1e-9, abs=1e-9)
        # and for other rows than those that the posterior came from
        n, S = other.sum(0), other.T @ phi
        entropy = -np.where(other > 0, other * np.log(np.where(other > 0, other, 1.0)), 0.0).sum()
        data_term = n @ (q.log_pi - q.g) + np.einsum("kf,kf->", S, q.theta) + entropy
        expected = reference.bound(other)
        assert data_term - q.divergence() + base == pytest.approx(expected, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("weights", [DirichletProcess(alpha=3.0), PitmanYor(alpha=0.5, discount=0.3)])
def test_closed_sticks_are_those_of_the_definition(weights):
    n = np.array([3.5, 0.7, 1.2, 2.0])
    reference = reference_weights(weights, closed=True)
    q = reference.posterior(n)
    proportions = Proportions(weights, sticks="closed")
    order = np.arange(4)
    np.testing.assert_allclose(proportions.log_pi(n, order), reference.expected(q), atol=1e-12)
    assert proportions.divergence(n, order) == pytest.approx(reference.kl(q), abs=1e-12)


@pytest.mark.parametrize("sticks", ["open", "closed"])
@pytest.mark.parametrize("weights", [DirichletProcess(alpha=3.0), PitmanYor(alpha=0.5, discount=0.8)])
def test_a_new_order_of_sticks_never_lowers_the_bound(weights, sticks):
    rng = np.random.default_rng(1)
    proportions = Proportions(weights, sticks=sticks)
    changed = 0
    for _ in range(50):
        n, order = rng.gamma(0.3, 3.0, 5), rng.permutation(5)
        new = proportions.better_order(n, order)
        assert proportions.optimum(n, new) >= proportions.optimum(n, order)
        changed += not np.array_equal(new, order)
    assert changed > 10


def test_an_empty_last_stick_changes_nothing():
    n, proportions = np.array([3.0, 1.5, 0.0]), Proportions(DirichletProcess(alpha=0.7))
    assert proportions.optimum(n, np.arange(3)) == pytest.approx(proportions.optimum(n[:2], np.arange(2)), abs=1e-12)


@pytest.mark.parametrize("weights", [SymmetricDirichlet(3, alpha=0.4), DirichletProcess(alpha=0.7)], ids=["dir", "dp"])
@pytest.mark.parametrize("name", ["multinomial", "gaussian", "gaussian_zero", "plain_poisson"])
def test_bound_stays_below_the_evidence_and_grows_with_n_active(name, weights):
    family, X = FAMILIES[name]
    data = Dataset(X, family)
    model = MixtureModel(data.family, weights)
    labels, log_p = labelings(model, data, 3, weights.log_evidence)
    best = []
    for L in (1, 2, 3):
        settings = {"n_active": L, "truncation": 3}
        found = []
        for start in (labels[np.argmax(log_p)], labels[100]):
            state, kernel = begin(family, X, weights, start=start, **settings)
            found.append(bounds(state, kernel, 15)[-1] + data.log_base.sum())
        best.append(max(found))
    assert best[0] <= best[1] + 1e-9 <= best[2] + 2e-9
    assert log_p.max() - 1e-9 <= best[0]
    assert best[2] <= logsumexp(log_p) + 1e-9


# ---- passes against the reference ------------------------------------------------------------------------------------


@pytest.mark.parametrize("weights", [SymmetricDirichlet(5, alpha=0.4), PitmanYor(alpha=0.5, discount=0.3)])
@pytest.mark.parametrize("L", [1, 2, 5])
@pytest.mark.parametrize("name", ["multinomial", "poisson", "gaussian", "gaussian_diag", "gaussian_zero"])
def test_passes_are_those_of_the_reference(name, L, weights):
    family, X, _ = planted(name, n=60)
    state, kernel = begin(family, X, weights, n_active=L, truncation=5, start="random")
    reference = reference_of(state).fit(np.eye(5)[state.labels])
    base = state.data.log_base.sum()
    for _ in range(3):
        r = reference.rows(L)
        reference.fit(r)
        info = kernel.step(state)
        np.testing.assert_allclose(state.n, r.sum(0), rtol=1e-10, atol=1e-10)
        phi = state.data.phi(0, 60)
        np.testing.assert_allclose(state.S, r.T @ phi, rtol=1e-9, atol=1e-9 * abs(phi).max())
        assert info.objective + base == pytest.approx(reference.bound(), rel=1e-10)
    if L < 5:
        np.testing.assert_allclose(state.rows().toarray(), reference.rows(L), atol=1e-9)


@pytest.mark.parametrize("X_kind", [np.array, sparse.csr_array])
def test_all_clusters_kept_is_dense(X_kind):
    family, X, _ = planted("multinomial")
    X = X_kind(X)
    results = []
    for n_active in (5, 99, None):
        state, kernel = begin(family, X, SymmetricDirichlet(5), n_active=n_active)
        results.append((bounds(state, kernel, 4), state.n, state.S, state.labels))
        with pytest.raises(CapabilityError, match="not kept"):
            state.rows()
    # the road of kept rows with L = K
    state, kernel = begin(family, X, SymmetricDirichlet(5), n_active=5)
    visit = state.passes.local_step(slice(0, 400), state.tables())
    state.passes.L = 4
    sparse_visit = state.passes.local_step(slice(0, 400), state.tables())
    assert sparse_visit.value <= visit.value
    for other in results[1:]:
        for mine, its in zip(results[0], other):
            assert np.array_equal(mine, its)


def test_kept_rows_with_l_equal_k_are_dense_rows():
    family, X, _ = planted("gaussian")
    state, _ = begin(family, X, SymmetricDirichlet(5), n_active=None)
    whole = state.passes.local_step(slice(0, 400), state.tables())
    scores = np.empty((400, 5))
    from expfam.samplers.variational.sparse_rows import dense_scores

    tables = state.tables()
    dense_scores(state.phi.fill(slice(0, 400), np.empty((400, 9))), tables.theta, tables.c, scores)
    values, indices, objective, entropy, _ = select(scores, 5)
    r = np.zeros((400, 5))
    np.put_along_axis(r, indices.astype(np.int64), values, axis=1)
    np.testing.assert_allclose(whole.sums.n, r.sum(0), rtol=1e-10)
    assert whole.value == pytest.approx(objective.sum(), rel=1e-12)
    assert whole.sums.entropy == pytest.approx(entropy.sum(), rel=1e-10)
    assert np.array_equal(whole.labels, indices[:, 0])


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("objective", ["vb", "map"])
@pytest.mark.parametrize("name", PLANTED)
def test_values_of_rows_and_divergences_are_the_bound_before_the_update(name, objective, dtype):
    family, X, _ = planted(name)
    X = sparse.csr_array(X) if name == "multinomial" else X
    state, kernel = begin(family, X, DirichletProcess(), n_active=2, truncation=6, objective=objective, dtype=dtype)
    kernel.step(state)
    q, offset = state.posterior, state.total_weight * state.phi.log_det
    visit = state.passes.local_step(slice(0, 400), state.tables())
    before = visit.value - q.divergence() + offset
    sums = visit.sums
    direct = sums.n @ (q.log_pi - q.g) + np.einsum("kf,kf->", sums.S, q.theta) + sums.entropy - q.divergence() + offset
    slack = 1e-10 if dtype == "float64" else 1e-5
    assert before == pytest.approx(direct, rel=slack)
    assert before >= state.log_joint - slack * abs(before)
    assert kernel.step(state).objective >= before - slack * abs(before)


# ---- laws ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("objective", ["vb", "map"])
@pytest.mark.parametrize("schedule", [Full(), Memoized(7)], ids=["full", "memoized"])
@pytest.mark.parametrize("name", PLANTED)
def test_the_bound_never_falls(name, schedule, objective):
    family, X, _ = planted(name)
    for L, weights in [(1, DirichletProcess()), (2, SymmetricDirichlet(8)), (4, PitmanYor(1.0, 0.3)), (None, None)]:
        weights = weights or SymmetricDirichlet(8, alpha=2.0)
        state, kernel = begin(
            family, X, weights, n_active=L, schedule=schedule, truncation=8, start="random", objective=objective
        )
        values = bounds(state, kernel, 12)
        assert_never_falls(values)
        assert values[-1] > values[0]
        state.check()


@pytest.mark.parametrize("sticks", ["open", "closed"])
def test_closed_and_open_sticks_never_fall(sticks):
    family, X, _ = planted("gaussian_diag")
    state, kernel = begin(
        family, X, DirichletProcess(alpha=4.0), truncation=8, sticks=sticks, start="random", n_active=2
    )
    assert_never_falls(bounds(state, kernel, 15))


@pytest.fixture
def candidates_at_once(monkeypatch):
    """Candidates from the second pass on, however many labels the first one changes."""
    monkeypatch.setattr(candidate_passes, "SETTLED_SHARE", 1.1)


def candidate_run(name, *, schedule=None, n_candidates=2, L=2, scores_last=True, n_steps=10, K=12, weights=None):
    family, X, _ = planted(name)
    settings = {"n_active": L, "n_candidates": n_candidates, "full_every": 6, "schedule": schedule or Full()}
    state, kernel = begin(family, X, weights or SymmetricDirichlet(K), start="random", truncation=K, **settings)
    state.passes.scores_last = scores_last
    return bounds(state, kernel, n_steps), state


@pytest.mark.usefixtures("candidates_at_once")
@pytest.mark.parametrize("schedule", [Full(), Memoized(5)], ids=["full", "memoized"])
@pytest.mark.parametrize("name", PLANTED)
def test_candidates_keep_the_law(name, schedule):
    for G, L, weights in ((2, 1, None), (2, 2, DirichletProcess()), (8, 4, PitmanYor(1.0, 0.3)), (8, 2, None)):
        values, state = candidate_run(name, schedule=schedule, n_candidates=G, L=L, weights=weights)
        assert_never_falls(values)
        state.check()


@pytest.mark.usefixtures("candidates_at_once")
def test_without_last_clusters_the_law_is_broken():
    falls = []
    for name in PLANTED:
        values, _ = candidate_run(name, scores_last=False)
        falls.append((np.diff(values) < -1e-9 * abs(values[0])).any())
    assert any(falls)


@pytest.mark.parametrize("kind", [np.array, sparse.csr_array])
def test_all_clusters_as_candidates_are_a_pass_over_all(kind):
    family, X, _ = planted("multinomial")
    state, kernel = begin(family, kind(X), SymmetricDirichlet(10), n_active=3, n_candidates=9)
    kernel.step(state)
    everything = np.tile(np.arange(10, dtype=np.int32), (10, 1))
    rows = slice(0, 400)
    a = state.passes.local_step(rows, state.tables(), keep=True)
    b = state.passes.local_step(
        rows, state.tables(), candidates=GraphCandidates(everything), last=state.indices, keep=True
    )
    assert b.diagnostics.n_last_outside == 0
    assert np.array_equal(a.indices, b.indices)
    np.testing.assert_allclose(a.values, b.values, rtol=1e-12)
    np.testing.assert_allclose(a.sums.S, b.sums.S, rtol=1e-11, atol=1e-11)


def test_candidates_are_the_nearest_clusters_and_the_own_one():
    family, X, _ = planted("gaussian")
    state, kernel = begin(family, X, SymmetricDirichlet(10), n_active=2)
    kernel.step(state)
    q = state.posterior
    graph = q.cluster_graph(4)
    scores = q.log_pi - q.g + (q.S / np.maximum(q.n, 1e-6)[:, None]) @ q.theta.T
    for k in np.flatnonzero(q.n > 1):
        assert (np.diff(graph[k]) > 0).all()
        assert k in graph[k]
        others = [j for j in np.argsort(-scores[k]) if j != k][:3]
        assert set(graph[k]) == {k, *others}


# ---- schedules -------------------------------------------------------------------------------------------------------


def test_both_memos_and_recomputed_sums_agree():
    family, X, _ = planted("gaussian")
    runs = {}
    for memo in ("rows", "statistics"):
        state, kernel = begin(family, X, SymmetricDirichlet(8), n_active=2, schedule=Memoized(6), memo=memo)
        runs[memo] = bounds(state, kernel, 6), state.n, state.S
        assert (state.batch_sums is None) == (memo == "rows")
        state.check()
    for a, b in zip(runs["rows"], runs["statistics"]):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9 * abs(b).max())


def test_one_batch_is_the_full_schedule():
    family, X, _ = planted("multinomial")
    full, kernel = begin(family, X, SymmetricDirichlet(8), n_active=2)
    a = bounds(full, kernel, 5)
    one, kernel = begin(family, X, SymmetricDirichlet(8), n_active=2, schedule=Memoized(1))
    np.testing.assert_allclose(a, bounds(one, kernel, 5), rtol=1e-12)
    whole, kernel = begin(family, X, SymmetricDirichlet(8), n_active=2, schedule=Stochastic(400, 0.7, 0.0))
    bounds(whole, kernel, 1)
    state, kernel = begin(family, X, SymmetricDirichlet(8), n_active=2)
    bounds(state, kernel, 1)
    np.testing.assert_allclose(whole.S, state.S, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(whole.n, state.n, rtol=1e-12)


def test_the_automatic_schedule_follows_the_sizes():
    kernel = SparseVariational()
    assert kernel.schedule_of(10, 3999) == Full()
    assert kernel.schedule_of(10, 4000) == Memoized(2)
    assert kernel.schedule_of(10, 10**6) == Memoized(20)
    state, _ = begin(*planted("poisson")[:2], SymmetricDirichlet(1), schedule="auto")
    assert state.schedule == Memoized(2)


def test_stochastic_steps_are_the_rule():
    family, X, _ = planted("poisson")
    schedule = Stochastic(150, kappa=0.8, delay=2.0)
    state, kernel = begin(family, X, SymmetricDirichlet(6), n_active=2, schedule=schedule, seed=5)
    twin, _ = begin(family, X, SymmetricDirichlet(6), n_active=2, schedule=schedule, seed=5)
    batches = schedule.batches(400, 5, 0)
    assert sorted(np.concatenate(batches)) == list(range(400))
    for t, rows in enumerate(batches, start=1):
        sums = twin.passes.local_step(rows, twin.tables()).sums
        rho = (t + 2.0) ** -0.8
        twin.sums.scale(1 - rho).add(sums, rho * 400 / len(rows))
        twin.update()
    kernel.step(state)
    np.testing.assert_allclose(state.S, twin.S, rtol=1e-12)
    assert state.n.sum() == pytest.approx(400)
    values = bounds(state, kernel, 25)
    assert values[-5:].mean() > values[0]
    kernel.finish(state)
    assert np.array_equal(state.labels, state.passes.local_step(slice(0, 400), state.tables()).labels)


# ---- the same in other circumstances ---------------------------------------------------------------------------------


@pytest.mark.parametrize("L", [2, None])
@pytest.mark.parametrize("name", ["multinomial", "gaussian"])
def test_blocks_change_nothing_but_rounding(name, L, monkeypatch):
    family, X, _ = planted(name)
    X = sparse.csr_array(X) if name == "multinomial" else X
    state, _kernel = begin(family, X, SymmetricDirichlet(6), n_active=L)
    whole = state.passes.local_step(slice(0, 400), state.tables())
    assert state.passes.n_parts(400) == 1
    monkeypatch.setattr(passes, "SCORE_BYTES", 16)
    monkeypatch.setattr(passes, "PART_ROWS", 30)
    cut = state.passes.local_step(slice(0, 400), state.tables())
    assert state.passes.n_parts(400) == 12
    assert state.passes.block_rows() == 16
    np.testing.assert_allclose(cut.sums.S, whole.sums.S, rtol=1e-12, atol=1e-12 * abs(whole.sums.S).max())
    assert cut.value == pytest.approx(whole.value, rel=1e-12)


@pytest.mark.parametrize("schedule", [Full(), Memoized(3), Stochastic(200)], ids=["full", "memoized", "stochastic"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_threads_change_no_bit(dtype, schedule, monkeypatch):
    monkeypatch.setattr(passes, "PART_ROWS", 20)
    for name in ("multinomial", "gaussian"):
        family, X, _ = planted(name)
        X = sparse.csr_array(X) if name == "multinomial" else X
        results = []
        for n_threads in (1, 2, 3):
            settings = {"schedule": schedule, "dtype": dtype, "n_active": 2, "n_candidates": 4, "full_every": 3}
            state, kernel = begin(family, X, SymmetricDirichlet(8), n_threads=n_threads, **settings)
            results.append((bounds(state, kernel, 4), state.S, state.n, state.labels))
            assert state.passes.n_parts(400) > 4
        for other in results[1:]:
            assert all(np.array_equal(a, b) for a, b in zip(results[0], other))


@pytest.mark.parametrize("name", PLANTED)
def test_single_precision_is_close(name):
    family, X, _ = planted(name)
    single, kernel = begin(family, X, SymmetricDirichlet(6), n_active=3, dtype="float32")
    a = bounds(single, kernel, 4)
    double, kernel = begin(family, X, SymmetricDirichlet(6), n_active=3)
    b = bounds(double, kernel, 4)
    np.testing.assert_allclose(a, b, rtol=1e-5)
    np.testing.assert_allclose(single.S, double.S, rtol=1e-3, atol=1e-4 * abs(double.S).max())


@pytest.mark.parametrize("family", [Gaussian(mean=1.0, scale=2.0), ZeroMeanGaussian()], ids=["gaussian", "zero"])
def test_whitening_changes_nothing(family):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(300, 4)) @ rng.normal(size=(4, 4)) + (5.0 if family.name == "gaussian" else 0.0)
    results = []
    for whiten in (False, True):
        state, kernel = begin(family, X, SymmetricDirichlet(5), n_active=2, whiten=whiten)
        results.append((bounds(state, kernel, 5), state.S, state.n))
        assert (state.phi.log_det != 0.0) == whiten
    for a, b in zip(*results):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-8 * abs(b).max())


def test_single_precision_survives_a_constant_direction():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(2000, 16)) * np.exp(rng.normal(size=2000))[:, None] * 20.0
    X -= X.mean(axis=1, keepdims=True)
    model = MixtureModel(ZeroMeanGaussian(dof=18.0, scale=np.eye(16) * 3.0).bind(X), SymmetricDirichlet(5))
    data = Dataset(X, model.family)
    labels = rng.integers(0, 5, 2000)
    error = {}
    truth = None
    for dtype, whiten in (("float64", False), ("float32", False), ("float32", True)):
        kernel = SparseVariational(2, dtype=dtype, tol=0.0)
        state = VariationalState(model, data, labels, n_clusters=5, settings=kernel, seed=0, whiten=whiten)
        values = state.passes.local_step(slice(0, 2000), state.tables(), keep=True)
        r = np.zeros((2000, 5))
        np.put_along_axis(r, values.indices.astype(np.int64), values.values.astype(float), axis=1)
        truth = r if truth is None else truth
        error[dtype, whiten] = abs(r - truth).sum(axis=1).mean()
    assert error["float32", True] < 1e-3
    assert error["float32", False] > 10 * error["float32", True]


def test_renaming_clusters_or_rows_renames_results():
    family, X, _ = planted("gaussian")
    rng = np.random.default_rng(0)
    labels, rename, move = rng.integers(0, 6, 400), rng.permutation(6), rng.permutation(400)
    state, kernel = begin(family, X, SymmetricDirichlet(6), n_active=2, start=labels)
    a = bounds(state, kernel, 5)
    renamed, kernel = begin(family, X, SymmetricDirichlet(6), n_active=2, start=rename[labels])
    np.testing.assert_allclose(a, bounds(renamed, kernel, 5), rtol=1e-11)
    np.testing.assert_allclose(renamed.n[rename], state.n, rtol=1e-9)
    assert np.array_equal(rename[state.labels], renamed.labels)
    moved, kernel = begin(family, X[move], SymmetricDirichlet(6), n_active=2, start=labels[move])
    np.testing.assert_allclose(a, bounds(moved, kernel, 5), rtol=1e-11)
    assert np.array_equal(state.labels[move], moved.labels)


@pytest.mark.parametrize("name", ["multinomial", "poisson"])
@pytest.mark.parametrize("L", [2, None])
def test_sparse_data_give_what_dense_data_give(name, L):
    family, X, _ = planted(name)
    results = []
    for kind in (np.array, sparse.csr_array):
        state, kernel = begin(
            family, kind(X), SymmetricDirichlet(8), n_active=L, n_candidates=4, schedule=Memoized(3), full_every=2
        )
        results.append((bounds(state, kernel, 5), state.S))
    for a, b in zip(*results):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10 * abs(b).max())


@pytest.mark.parametrize("schedule", [Full(), Memoized(4)], ids=["full", "memoized"])
@pytest.mark.parametrize("name", ["multinomial", "gaussian_diag"])
def test_weights_of_rows_stand_for_copies(name, schedule):
    family, X, _ = planted(name, n=120)
    X = sparse.csr_array(X) if name == "multinomial" else X
    times = np.random.default_rng(0).integers(0, 4, 120)
    family = family.bind(X)
    labels = np.random.default_rng(1).integers(0, 4, 120)
    settings = {"n_active": 2, "schedule": schedule}
    state, kernel = begin(family, X, DirichletProcess(), weight=times, start=labels, truncation=4, **settings)
    a = bounds(state, kernel, 8)
    assert_never_falls(a)
    assert state.n.sum() == pytest.approx(times.sum())
    if isinstance(schedule, Full):
        copies, kernel = begin(
            family,
            X[np.repeat(np.arange(120), times)],
            DirichletProcess(),
            start=np.repeat(labels, times),
            truncation=4,
            **settings,
        )
        np.testing.assert_allclose(a, bounds(copies, kernel, 8), rtol=1e-11)
        np.testing.assert_allclose(state.S, copies.S, rtol=1e-9, atol=1e-9)
        dense_state, kernel = begin(
            family, X, DirichletProcess(), weight=times, start=labels, truncation=4, n_active=None
        )
        assert_never_falls(bounds(dense_state, kernel, 5))
        assert dense_state.n.sum() == pytest.approx(times.sum())


# ---- maximum a posteriori --------------------------------------------------------------------------------------------


def test_map_is_plain_expectation_maximisation():
    X = np.random.default_rng(0).poisson([[2.0, 9.0], [8.0, 1.0]] * 40).astype(float)
    family, weights = Poisson(shape=1.5, rate=0.5), SymmetricDirichlet(2, alpha=1.5)
    state, kernel = begin(family, X, weights, n_active=None, objective="map", start="random")
    r = np.eye(2)[state.labels]
    for _ in range(4):
        rate = (1.5 + r.T @ X) / (0.5 + r.sum(0))[:, None]
        pi = (1.5 + r.sum(0)) / (3.0 + 80)
        w = np.log(pi) + X @ np.log(rate).T - rate.sum(1)
        r = top_rows(w, 2)
        kernel.step(state)
        np.testing.assert_allclose(state.n, r.sum(0), rtol=1e-10)
        np.testing.assert_allclose(state.S, r.T @ X, rtol=1e-10)


def test_map_of_flat_priors_is_the_expectation_maximisation_of_others():
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.mixture import GaussianMixture

    rng = np.random.default_rng(3)
    labels = rng.integers(0, 3, 300)
    X = rng.normal(scale=3.0, size=(3, 2))[labels] + rng.normal(size=(300, 2)) @ rng.normal(size=(2, 2))
    family = Gaussian(mean=0.0, mean_strength=1e-10, dof=4.0, scale=1e-10 * np.eye(2))
    weights, start = SymmetricDirichlet(3, alpha=1e-10), rng.integers(0, 3, 300)
    state, kernel = begin(family, X, weights, n_active=None, objective="map", start=start)
    for n_steps in (1, 2, 5):
        parts = [X[start == k] for k in range(3)]
        precisions = [np.linalg.inv(np.cov(part.T, bias=True)) for part in parts]
        init = {"weights_init": np.bincount(start) / 300, "means_init": [part.mean(0) for part in parts]}
        plain = GaussianMixture(3, max_iter=n_steps, tol=0.0, reg_covar=0.0, precisions_init=precisions, **init)
        with pytest.warns(ConvergenceWarning):
            plain.fit(X)
        while state.n_steps < n_steps:
            kernel.step(state)
        np.testing.assert_allclose(state.n / 300, plain.weights_, rtol=1e-7)
        means = state.S[:, :2] / state.n[:, None] + state.model.family.center_
        np.testing.assert_allclose(means, plain.means_, rtol=1e-7)


def test_map_of_multinomials_is_plain_expectation_maximisation():
    _, X, _ = planted("multinomial")
    family, weights = Multinomial(concentration=0.7), SymmetricDirichlet(4, alpha=1.3)
    for n_active in (4, 2):
        state, kernel = begin(family, X, weights, n_active=n_active, objective="map", start="random")
        r = np.eye(4)[state.labels]
        for _ in range(5):
            p = 0.7 + r.T @ X
            pi = 1.3 + r.sum(0)
            r = top_rows(np.log(pi / pi.sum()) + X @ np.log(p / p.sum(1, keepdims=True)).T, n_active)
            kernel.step(state)
            np.testing.assert_allclose(state.n, r.sum(0), rtol=1e-9)
            np.testing.assert_allclose(state.S, r.T @ X, rtol=1e-9, atol=1e-9)


# ---- results ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("schedule", [Full(), Memoized(5), Stochastic(200)], ids=["full", "memoized", "stochastic"])
def test_planted_clusters_are_found(schedule, dtype):
    from sklearn.metrics import normalized_mutual_info_score

    rng = np.random.default_rng(0)
    labels = rng.integers(0, 8, 1500)
    X = rng.normal(scale=8.0, size=(8, 5))[labels] + rng.normal(size=(1500, 5))
    state, kernel = begin(Gaussian(), X, SymmetricDirichlet(12), schedule=schedule, dtype=dtype, n_candidates=6)
    sample(kernel, state, 25)
    kernel.finish(state)
    assert normalized_mutual_info_score(labels, state.labels) > 0.9
    info = kernel.step(state)
    assert info.extra["seconds_weights"] > 0
    assert info.extra["seconds_global"] > 0


FAR_APART = {
    "gaussian": lambda rng, z: rng.normal(scale=9.0, size=(8, 5))[z] + rng.normal(size=(z.size, 5)),
    "gaussian_diag": lambda rng, z: rng.normal(scale=9.0, size=(8, 5))[z] + rng.normal(size=(z.size, 5)),
    "gaussian_spherical": lambda rng, z: rng.normal(scale=9.0, size=(8, 5))[z] + rng.normal(size=(z.size, 5)),
    "multinomial": lambda rng, z: sparse.csr_array(
        np.array([rng.multinomial(80, p) for p in rng.dirichlet(np.full(40, 0.1), 8)[z]])
    ),
    "poisson": lambda rng, z: rng.poisson(rng.gamma(0.5, 20.0, (8, 12))[z]),
}


@pytest.mark.parametrize("schedule", [Full(), Memoized(4), Stochastic(300)], ids=["full", "memoized", "stochastic"])
@pytest.mark.parametrize("name", FAR_APART)
def test_clusters_far_apart_are_found(name, schedule):
    from sklearn.metrics import normalized_mutual_info_score

    rng = np.random.default_rng(5)
    labels = rng.integers(0, 8, 2000)
    X, settings = FAR_APART[name](rng, labels), {"start": "kmeans++", "n_steps": 12, "n_warmup": 0}
    sampler = SparseVariational(4, schedule=schedule)
    runs = [Mixture(name, 8, sampler=sampler, random_state=seed, **settings).fit(X) for seed in range(3)]
    best = max(runs, key=lambda mixture: mixture.log_joint_)
    assert normalized_mutual_info_score(labels, best.labels_) > 0.95
    assert normalized_mutual_info_score(labels, best.predict(X)) > 0.95


def test_lost_mass_is_that_of_the_definition():
    family, X, _ = planted("gaussian")
    state, kernel = begin(family, X, SymmetricDirichlet(8), n_active=1)
    scores = reference_of(state).fit(np.eye(8)[state.labels]).scores()
    r = top_rows(scores, 8)
    assert kernel.step(state).extra["lost_mass"] == pytest.approx((1 - r.max(axis=1)).mean(), rel=1e-9)


def test_memory_is_not_that_of_a_table_of_rows_and_clusters():
    N, K = 100_000, 300
    X = np.random.default_rng(0).poisson(4.0, (N, 2)).astype(float)
    state, kernel = begin(Poisson(), X, SymmetricDirichlet(K), n_active=4, dtype="float32", n_candidates=None)
    tracemalloc.start()
    kernel.step(state)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * N * 4 + 20e6  # the table would take 120 MB
    assert peak < kernel.memory(state.model, state.data, K) + 20e6


PASS = """
import numpy as np
from expfam import Dataset, DiagonalGaussian, MixtureModel, SymmetricDirichlet
from expfam.samplers import Full, Memoized, SparseVariational

def kilobytes(name):
    return int(next(line for line in open("/proc/self/status") if line.startswith(name)).split()[1]) * 1024

N, K, L = 1_000_000, 1000, 4
X = np.random.default_rng(0).standard_normal((N, 8), dtype=np.float32)
labels = np.random.default_rng(1).integers(0, K, N).astype(np.int32)
for schedule in (Full(), Memoized(20)):
    for G in (None, 48):
        held = kilobytes("VmRSS")
        open("/proc/self/clear_refs", "w").write("5")
        data = Dataset(X, DiagonalGaussian())
        kernel = SparseVariational(L, schedule=schedule, n_candidates=G, n_threads=2, tol=0.0)
        state = kernel.init(MixtureModel(data.family, SymmetricDirichlet(K)), data, seed=0, start=labels)
        state.share_moved = 0.0 if G else np.inf
        info = kernel.step(state)
        assert info.extra["all_clusters"] == (G is None)
        print(kilobytes("VmHWM") - held - 8 * N * L)
        del state
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux's count of the peak")
def test_memory_of_a_million_rows_and_a_thousand_clusters(tmp_path):
    done = subprocess.run([sys.executable, "-c", PASS], cwd=tmp_path, check=True, capture_output=True, text=True)
    beside = [int(line) for line in done.stdout.split()]
    assert len(beside) == 4
    assert max(beside) < 200e6


def test_the_run_ends_when_the_bound_has_settled():
    family, X, _ = planted("gaussian")
    state, kernel = begin(family, X, SymmetricDirichlet(8), n_active=2, n_candidates=3, tol=1e-6)
    trace = sample(kernel, state, 500)
    assert len(trace) < 500
    assert kernel.is_done(state)
    assert trace.column("all_clusters")[-1] == 1
    gain = np.diff(trace.column("objective"))
    assert 0 <= gain[-1] < 1e-6 * abs(trace.column("objective")[-1])


@pytest.mark.parametrize("schedule", [Full(), Memoized(3), Memoized(4), Stochastic(100)])
def test_checkpoints_go_on_with_the_same_bits(schedule, tmp_path):
    family, X, _ = planted("gaussian")
    settings = {"n_active": 2, "schedule": schedule, "n_candidates": 4, "full_every": 3, "truncation": 8}
    if isinstance(schedule, Memoized):
        settings["memo"] = "rows" if schedule == Memoized(4) else "statistics"
    state, kernel = begin(family, X, PitmanYor(1.0, 0.2), **settings)
    bounds(state, kernel, 3)
    Checkpoint(tmp_path / "run").write(state)
    a = bounds(state, kernel, 4)
    again, kernel = begin(family, X, PitmanYor(1.0, 0.2), **settings)
    restore_checkpoint(tmp_path / "run", again)
    assert np.array_equal(a, bounds(again, kernel, 4))
    assert np.array_equal(state.S, again.S)
    assert np.array_equal(state.labels, again.labels)


@pytest.mark.parametrize("schedule", [Full(), Memoized(5), Stochastic(100)], ids=["full", "memoized", "stochastic"])
@pytest.mark.parametrize("name", PLANTED)
def test_estimator_takes_soft_statistics(name, schedule, tmp_path):
    family, X, _ = planted(name)
    X = sparse.csr_array(X) if name == "multinomial" else X
    sampler = SparseVariational(2, schedule=schedule, n_candidates=4)
    mixture = Mixture(family, 8, sampler=sampler, n_steps=8, learn_hyper=False, random_state=0).fit(X)
    assert mixture.n_.sum() == pytest.approx(400, abs=4)
    assert not np.array_equal(mixture.n_, np.rint(mixture.n_))
    assert mixture.S_.shape == (mixture.n_components_, mixture.family_.n_statistics_)
    assert mixture.labels_.max() < mixture.n_components_
    assert np.array_equal(np.bincount(mixture.labels_, minlength=mixture.n_components_), mixture.cluster_sizes_)
    assert (mixture.predict(X) == mixture.labels_).mean() > 0.9
    assert np.isfinite(mixture.score(X))
    assert np.isfinite(mixture.log_joint_)
    mixture.save(tmp_path / "model")
    np.testing.assert_allclose(Mixture.load(tmp_path / "model").score_samples(X), mixture.score_samples(X), rtol=1e-12)


def test_the_name_is_known_and_hyper_parameters_are_learned():
    assert isinstance(load_sampler("variational", n_threads=2), SparseVariational)
    assert load_sampler("variational", n_threads=2).n_threads == 2
    _family, X, _ = planted("gaussian")
    mixture = Mixture("gaussian", 8, sampler="variational", learn_hyper=True, n_steps=20, random_state=1).fit(X)
    assert mixture.family_.hyper_factors_
    process = Mixture("gaussian", sampler="variational", n_steps=20, random_state=1).fit(X)
    assert 3 <= process.n_components_ <= 60


def test_callbacks_end_the_run_and_convergence_ends_a_phase():
    _, X, _ = planted("poisson")
    seen = []

    def stop(info, state):
        seen.append(info)
        return len(seen) == 2

    sampler = SparseVariational(2, tol=0.5)
    Mixture("poisson", 6, sampler=sampler, n_steps=30, random_state=0, callbacks=[stop]).fit(X)
    assert len(seen) == 2
    mixture = Mixture("poisson", 6, sampler=sampler, n_steps=30, n_warmup=10, learn_hyper=True, random_state=0).fit(X)
    assert mixture.n_iter_ < 20
    assert mixture.family_.hyper_factors_


def test_hyper_parameters_in_a_cycle():
    family, X, _ = planted("gaussian_zero")
    kernel = Cycle(SparseVariational(2, dtype="float32"), UpdateHyper())
    state = kernel.init(MixtureModel(family, DirichletProcess()), X, seed=0)
    before = state.model.family.scale.copy()
    info = kernel.step(state)
    assert not np.array_equal(state.model.family.scale, before)
    assert info.objective == pytest.approx(state.compute_log_joint())
    n, S = state.statistics()
    assert (n >= 0.5).all()
    assert S.shape == (len(n), 10)


# ---- bad input -------------------------------------------------------------------------------------------------------


BAD = [
    {"n_active": 0},
    {"n_active": 2.5},
    {"n_active": True},
    {"n_candidates": 0},
    {"n_candidates": "many"},
    {"full_every": 0},
    {"objective": "em"},
    {"memo": "no"},
    {"dtype": "float16"},
    {"sticks": "ajar"},
    {"truncation": 0},
    {"tol": -1.0},
    {"schedule": "full"},
    {"schedule": Memoized(0)},
    {"schedule": Stochastic(0)},
    {"schedule": Stochastic(10, kappa=0.5)},
    {"schedule": Stochastic(10, kappa=1.5)},
    {"schedule": Stochastic(10, delay=-1.0)},
    {"schedule": Memoized(2), "memo": "rows", "n_active": None},
]


UNUSED = {
    "memo='statistics'": {"schedule": Full(), "memo": "statistics"},
    "memo": {"schedule": Stochastic(10), "memo": "statistics"},
    "n_total": {"schedule": Stochastic(10, n_total=500)},
}


@pytest.mark.parametrize("words", UNUSED)
def test_settings_that_others_leave_without_use_are_refused(words):
    with pytest.raises(CapabilityError, match=f"does not use .*{words}.*leave (it|them) out, or"):
        begin(Poisson(), np.arange(20)[:, None], SymmetricDirichlet(3), **UNUSED[words])


@pytest.mark.parametrize("settings", BAD, ids=str)
def test_bad_settings_are_named(settings):
    name = next(iter(settings))
    word = name if not hasattr(settings[name], "get_params") else "batch|kappa|delay|memo"
    with pytest.raises(ValueError, match=word):
        begin(Poisson(), np.arange(20)[:, None], SymmetricDirichlet(3), **settings)


class Plain(Family):
    support = "counts"

    def __init__(self, a=1.0, b=1.0):
        self.a, self.b = a, b

    def sufficient_statistics(self, X):
        return X

    def log_marginal(self, n, S):
        from scipy.special import betaln

        return (betaln(self.a + n[:, None], self.b + S) - betaln(self.a, self.b)).sum(axis=1)


def test_what_a_family_lacks_is_named():
    wide = np.ones((10, 65), dtype=int)
    with pytest.raises(CapabilityError, match="expected_natural"):
        begin(Plain(), wide, SymmetricDirichlet(2))
    with pytest.raises(CapabilityError, match="map_natural"):
        begin(Plain(), wide[:, :2], SymmetricDirichlet(2), objective="map")


@pytest.mark.filterwarnings("ignore:Plain has no expected_natural")
def test_a_family_of_two_functions_is_enough():
    X = np.repeat([[0], [50]], 20, axis=0)
    state, kernel = begin(Plain(), X, SymmetricDirichlet(3), n_active=2, start="random")
    assert_never_falls(bounds(state, kernel, 20), slack=1e-7)  # numerical derivatives
    assert set(state.labels[:20]).isdisjoint(state.labels[20:])


@pytest.mark.parametrize("n_active", [1, 4, None])
def test_one_cluster_and_empty_rows(n_active):
    X = sparse.csr_array(np.array([[0, 0], [1, 0], [0, 3]]))
    state, kernel = begin(Multinomial(concentration=0.5), X, SymmetricDirichlet(1), n_active=n_active)
    values = bounds(state, kernel, 3)
    assert values[-1] == pytest.approx(state.model.log_joint(state.data, [0, 0, 0]))
    assert state.n == pytest.approx([3.0])


def test_a_process_has_no_more_sticks_than_data():
    state, kernel = begin(Poisson(), np.array([[1], [2], [30]]), DirichletProcess())
    assert state.K == 3
    assert_never_falls(bounds(state, kernel, 3))


def test_data_without_weight_are_refused():
    with pytest.raises(ValueError, match="zero in all rows"):
        begin(Poisson(), np.array([[1], [2], [30]]), SymmetricDirichlet(2), weight=[0, 0, 0])


@pytest.mark.filterwarnings("default:.*clusters for .* data")
def test_more_clusters_than_data_are_allowed_with_a_warning():
    with pytest.warns(DataWarning, match="9 clusters for 3 data"):
        state, kernel = begin(Poisson(), np.array([[1], [2], [30]]), SymmetricDirichlet(9))
    assert_never_falls(bounds(state, kernel, 3))


def test_states_of_other_kernels_are_refused():
    family, X, _ = planted("poisson")
    state, _ = begin(family, X, SymmetricDirichlet(4))
    with pytest.raises(CapabilityError, match="n_active"):
        SparseVariational(n_active=3, tol=0.0).step(state)
    with pytest.raises(CapabilityError, match=r"start=state\.partition"):
        state.as_type(CollapsedState)
    with pytest.raises(CapabilityError):
        Cycle(SparseVariational(), CollapsedGibbs()).step(state)
