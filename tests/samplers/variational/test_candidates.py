"""Clusters that a variational pass scores: found by a tree they are those of a full pass, by codes the law holds."""

import numpy as np
import pytest
from planted import PLANTED, assert_never_falls, planted
from scipy import sparse

from expfam import Dataset, DirichletProcess, Mixture, MixtureModel, Multinomial, SphericalGaussian, SymmetricDirichlet
from expfam.errors import CapabilityError, DataError
from expfam.samplers import Cycle, Full, Memoized, SparseVariational, Stochastic, UpdateHyper
from expfam.samplers.variational.candidate_passes import graph_pays
from expfam.structures import SignHash, nearest_codes

SCHEDULES = {"full": Full(), "memoized": Memoized(4)}


def begin(X, family, candidates, *, K=12, weights=None, seed=0, start="random", **settings):
    """Kernel and state."""
    settings = {"n_active": 2, "n_candidates": 4, "tol": 0.0, "dtype": "float64", "schedule": Full(), **settings}
    kernel = SparseVariational(candidates=candidates, truncation=K, **settings)
    data = Dataset(X, family)
    model = MixtureModel(data.family, weights or SymmetricDirichlet(K))
    return kernel, kernel.init(model, data, seed=seed, start=start)


def run(kernel, state, n_steps):
    return np.array([state.log_joint, *[kernel.step(state).objective for _ in range(n_steps)]])


def nested(n_rows, K):
    rng = np.random.default_rng(3)
    z = rng.integers(K, size=n_rows)
    centres = 8.0 * rng.normal(size=(K // 8, 6)).repeat(8, axis=0) + 2.0 * rng.normal(size=(K, 6))
    return centres[z] + rng.normal(size=(n_rows, 6)), z


# ---- the tree --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [np.array, sparse.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", PLANTED)
def test_passes_by_the_tree_are_passes_over_all_clusters(name, schedule, kind):
    family, X, _ = planted(name)
    if kind is sparse.csr_array and name not in ("multinomial", "poisson"):
        kind = np.array
    results = []
    for candidates, n_candidates in (("graph", None), ("tree", 4)):
        settings = {"schedule": SCHEDULES[schedule], "n_candidates": n_candidates}
        kernel, state = begin(kind(X), family, candidates, **settings)
        values = run(kernel, state, 6)
        results.append((values, state.labels, state.n))
    (a, labels, n), (b, by_tree, n_by_tree) = results
    np.testing.assert_allclose(a, b, rtol=1e-10)
    assert np.array_equal(labels, by_tree)
    np.testing.assert_allclose(n, n_by_tree, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("objective", ["vb", "map"])
def test_a_tree_needs_no_pass_over_all_clusters_to_converge(objective):
    X, _ = nested(1500, 40)
    kernel, state = begin(X, SphericalGaussian(), "tree", K=40, tol=1e-6, objective=objective)
    for _ in range(200):
        info = kernel.step(state)
        assert info.extra["all_clusters"] == 1
        assert "lost_mass" not in info.extra  # of a look at all scores
        if kernel.is_done(state):
            break
    assert kernel.is_done(state)
    steps = state.n_steps
    kernel.finish(state)
    assert state.n_steps == steps


# ---- codes -----------------------------------------------------------------------------------------------------------


def test_nearest_codes_are_those_of_the_formula():
    rng = np.random.default_rng(0)
    for K, n_bits, n_top in ((7, 64, 7), (100, 128, 5), (1000, 256, 48), (130, 512, 20)):
        signs = SignHash(n_bits, seed=1)
        X, V = rng.normal(size=(40, 30)), rng.normal(size=(K, 30))
        codes, of_codes = signs.codes(X), signs.codes(V)
        norms, of_norms = np.linalg.norm(X, axis=1), np.linalg.norm(V, axis=1)
        bias = rng.normal(size=K)
        found = nearest_codes(codes, norms, of_codes, of_norms, bias, n_top)
        differ = np.bitwise_count(codes[:, None] ^ of_codes[None]).sum(axis=2)
        scores = norms[:, None] * of_norms * np.cos(np.pi * differ / signs.n_bits) + bias
        assert (np.diff(found, axis=1) > 0).all()
        least = np.sort(scores, axis=1)[:, -n_top]
        assert (np.take_along_axis(scores, found, axis=1) >= least[:, None] - 1e-4).all()


def test_nearest_codes_refuse_what_does_not_fit():
    codes = SignHash(64).codes(np.eye(3))
    with pytest.raises(DataError, match="4 of 3 clusters"):
        nearest_codes(codes, np.ones(3), codes, np.ones(3), np.zeros(3), 4)
    with pytest.raises(DataError, match="bias has length 2"):
        nearest_codes(codes, np.ones(3), codes, np.ones(3), np.zeros(2), 1)
    with pytest.raises(DataError, match="norms has shape"):
        nearest_codes(codes, np.ones(2), codes, np.ones(3), np.zeros(3), 1)
    with pytest.raises(DataError, match="row 0 has no finite score"):
        nearest_codes(codes, np.ones(3), codes, np.ones(3), np.full(3, -np.inf), 1)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", PLANTED)
def test_codes_keep_the_law_from_the_first_pass(name, schedule):
    family, X, _ = planted(name)
    for G, L, weights in ((2, 1, None), (2, 2, DirichletProcess()), (4, 2, None)):
        settings = {"schedule": SCHEDULES[schedule], "n_active": L, "n_candidates": G, "full_every": 6}
        kernel, state = begin(X, family, "hash", weights=weights, **settings)
        values = run(kernel, state, 10)
        assert_never_falls(values)
        state.check()


def test_without_last_clusters_codes_break_the_law():
    falls = []
    for name in PLANTED:
        family, X, _ = planted(name)
        kernel, state = begin(X, family, "hash", n_candidates=2, full_every=100)
        state.passes.scores_last = False
        falls.append((np.diff(run(kernel, state, 10)) < -1e-9 * abs(state.log_joint)).any())
    assert any(falls)


def test_codes_find_most_of_the_best_clusters():
    X, _ = nested(2000, 160)
    at = {}
    for candidates, G in (("graph", None), ("hash", 8)):
        kernel, state = begin(X, SphericalGaussian(), candidates, K=160, n_candidates=G, start="kmeans++")
        kernel.step(state)
        at[candidates] = state.labels.copy()
        assert kernel.step(state).extra["all_clusters"] == (G is None)
    assert (at["graph"] == at["hash"]).mean() > 0.97


# ---- both ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("candidates", ["tree", "hash"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_results_do_not_depend_on_threads(candidates, dtype):
    X, _ = nested(9000, 40)
    results = []
    for n_threads in (1, 2):
        settings = {"K": 40, "dtype": dtype, "n_threads": n_threads, "n_candidates": 8}
        kernel, state = begin(X, SphericalGaussian(), candidates, **settings)
        results.append((run(kernel, state, 4), state.S))
    for a, b in zip(*results):
        assert np.array_equal(a, b)


@pytest.mark.parametrize("schedule", [Full(), Memoized(3), Stochastic(100)], ids=["full", "memoized", "stochastic"])
@pytest.mark.parametrize("candidates", ["tree", "hash"])
def test_a_restored_state_goes_on_with_the_same_bits(candidates, schedule):
    family, X, _ = planted("multinomial")
    X = sparse.csr_array(X)
    kernel, state = begin(X, family, candidates, schedule=schedule)
    run(kernel, state, 3)
    _, other = begin(X, family, candidates, schedule=schedule)
    other.from_arrays(state.to_arrays())
    assert np.array_equal(run(kernel, state, 3), run(kernel, other, 3))
    assert np.array_equal(state.S, other.S)


@pytest.mark.parametrize("candidates", ["tree", "hash"])
def test_learned_hyper_parameters_go_with_them(candidates):
    family, X, _ = planted("gaussian_diag")
    kernel, state = begin(X, family, candidates)
    cycle = Cycle(kernel, UpdateHyper())
    objectives = [cycle.step(state).objective for _ in range(5)]
    assert np.isfinite(objectives).all()
    state.check()


@pytest.mark.parametrize("candidates", ["tree", "hash"])
def test_the_estimator_takes_them_and_chunks_are_refused(candidates):
    X, _ = nested(3000, 160)
    sampler = SparseVariational(candidates=candidates, n_candidates=16)
    settings = {"sampler": sampler, "n_steps": 20, "n_warmup": 0, "learn_hyper": False, "random_state": 0}
    mixture = Mixture("gaussian_spherical", 160, **settings).fit(X)
    assert len(np.unique(mixture.labels_)) > 60
    with pytest.raises(CapabilityError, match="needs all rows at hand"):
        Mixture("gaussian_spherical", 160, **settings).fit_chunks([X[:1500], X[1500:]])


def test_unknown_candidates_are_refused():
    with pytest.raises(ValueError, match="candidates must be one of"):
        begin(np.eye(20), SphericalGaussian(), "cover tree")


def test_a_graph_that_would_cost_more_than_a_pass_is_not_made():
    rng = np.random.default_rng(0)
    words = sparse.random_array((300, 4000), density=0.002, rng=rng, data_sampler=lambda size: np.ones(size))
    kernel, state = begin(
        words.tocsr(), Multinomial(0.1), "graph", K=150, n_candidates="auto", start=np.arange(300) % 150
    )
    assert not graph_pays(state)
    state.share_moved = 0.0
    assert kernel.step(state).extra["all_clusters"] == 1
    kernel, state = begin(rng.normal(size=(3000, 2)), SphericalGaussian(), "graph", K=150, n_candidates="auto")
    assert graph_pays(state)
    state.share_moved = 0.0
    assert kernel.step(state).extra["all_clusters"] == 0
