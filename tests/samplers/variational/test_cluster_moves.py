"""Merges, deletions and births: the bound never falls, statistics stay those of the rows, planted clusters appear."""

import numpy as np
import pytest
from planted import PLANTED, assert_never_falls, planted
from scipy import sparse

from expfam import Dataset, DirichletProcess, Gaussian, Mixture, MixtureModel, PitmanYor, Poisson, SymmetricDirichlet
from expfam.errors import CapabilityError
from expfam.samplers import ClusterMoves, CollapsedGibbs, Cycle, Full, Memoized, SparseVariational, sample
from expfam.samplers.variational import cluster_moves as moves
from expfam.samplers.variational.state import entropy_of

pytestmark = pytest.mark.filterwarnings("ignore:.*rows? (is|are) empty", "ignore:.*clusters for .* data")


def begin(family, X, weights, *, start="random", n_clusters=None, weight=None, seed=0, **settings):
    passes = SparseVariational(**{"n_active": 3, "tol": 0.0, "dtype": "float64", "truncation": 12, **settings})
    data = Dataset(X, family, weight=weight)
    model = MixtureModel(data.family, weights)
    return passes.init(model, data, seed=seed, start=start, n_clusters=n_clusters), passes


@pytest.mark.parametrize("objective", ["vb", "map"])
@pytest.mark.parametrize("schedule", [Full(), Memoized(4)], ids=["full", "memoized"])
@pytest.mark.parametrize("name", PLANTED)
def test_no_step_lowers_the_bound(name, schedule, objective):
    family, X, _ = planted(name)
    accepted = {"n_merge": 0, "n_delete": 0, "n_birth": 0}
    for weights, memo in [(DirichletProcess(), "rows"), (PitmanYor(1.0, 0.3), "statistics"), (None, "auto")]:
        weights = weights or SymmetricDirichlet(12, alpha=1.5)
        for start, n_clusters in (("random", 12), ("one", None)):
            settings = {"schedule": schedule, "objective": objective, "n_candidates": 4}
            settings |= {"memo": memo} if isinstance(schedule, Memoized) else {}
            state, passes = begin(family, X, weights, start=start, n_clusters=n_clusters, **settings)
            values = [state.log_joint]
            for _ in range(4):
                info = ClusterMoves().step(state)
                values.append(info.objective)
                for kind in accepted:
                    accepted[kind] += info.extra[kind]
                assert info.accepted == sum(info.extra[kind] for kind in accepted)
                state.check()
                values.append(passes.step(state).objective)
            assert_never_falls(np.array(values))
            assert state.n.sum() == pytest.approx(400)
    assert accepted["n_birth"] > 0
    assert accepted["n_merge"] + accepted["n_delete"] > 0


def allocation_of(state):
    work = moves._Allocation(state)
    r = np.zeros((state.data.n_rows, state.K))
    for i, (ks, values) in enumerate(zip(work.indices, work.values)):
        r[i, ks[values > 0]] = values[values > 0]
    return work, r


def assert_trial_is_of_its_rows(work, trial, state):
    """Sums, entropy and bound of a trial, computed anew from a table of responsibilities."""
    indices, values = work.indices.copy(), work.values.copy()
    indices[trial.rows], values[trial.rows] = trial.indices, trial.values
    r = np.zeros((state.data.n_rows, state.K))
    for i, (ks, row) in enumerate(zip(indices, values)):
        np.add.at(r[i], ks[row > 0], row[row > 0])
    weight = np.ones(len(r)) if state.data.weight is None else state.data.weight
    np.testing.assert_allclose(r.sum(1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(trial.sums.n, weight @ r, atol=1e-9)
    phi = state.data.phi(0, len(r))
    np.testing.assert_allclose(trial.sums.S, (r.T * weight) @ phi, rtol=1e-8, atol=1e-8 * abs(phi).max())
    entropy = weight @ entropy_of(r)
    assert trial.sums.entropy == pytest.approx(entropy, abs=1e-8)
    q = state.posterior_of(trial.sums, trial.order)
    assert trial.bound == pytest.approx(q.bound(entropy), rel=1e-10)
    return r


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", ["multinomial", "gaussian"])
def test_trials_are_those_of_the_rows(name, weighted):
    family, X, _ = planted(name)
    weight = np.random.default_rng(0).integers(1, 4, 400) if weighted else None
    state, passes = begin(family, X, DirichletProcess(), n_clusters=8, weight=weight)
    passes.step(state)
    work, r = allocation_of(state)
    both = (r > 0).T.astype(float) @ (r > 0)
    np.fill_diagonal(both, 0)
    a, b = np.unravel_index(both.argmax(), both.shape)  # many rows have a share of each
    merged = assert_trial_is_of_its_rows(work, moves._merged(work, a, b), state)
    np.testing.assert_allclose(merged[:, a], r[:, a] + r[:, b], atol=1e-12)
    assert (merged[:, b] == 0).all()
    deleted = assert_trial_is_of_its_rows(work, moves._without(work, b), state)
    assert (deleted[:, b] == 0).all()
    untouched = r[:, b] == 0
    np.testing.assert_array_equal(deleted[untouched], r[untouched])
    empty = int(np.flatnonzero(work.sums.n <= 1e-6)[0])
    divided = moves._divided(work, int(a), empty, 2, np.random.default_rng(1))
    assert_trial_is_of_its_rows(work, divided, state)
    before = work.bound
    assert work.accept_if_better(divided) == (divided.bound > before + 1e-9 * abs(before))
    assert work.bound >= before


def test_planted_clusters_are_found_from_one_and_from_many():
    rng = np.random.default_rng(2)
    labels = rng.integers(0, 7, 1500)
    X = rng.normal(scale=9.0, size=(7, 3))[labels] + rng.normal(size=(1500, 3))
    reached = []
    for start, n_clusters in (("one", None), ("random", 30), ("kmeans++", 30)):
        settings = {"truncation": 30, "dtype": "float32", "n_active": 4}
        state, passes = begin(Gaussian(), X, DirichletProcess(), start=start, n_clusters=n_clusters, **settings)
        sample(Cycle(passes, ClusterMoves()), state, 15)
        assert state.n_clusters == 7
        table = np.zeros((30, 7))
        np.add.at(table, (state.labels, labels), 1)
        assert table.max(axis=1).sum() > 0.99 * 1500
        plain, passes = begin(Gaussian(), X, DirichletProcess(), start=start, n_clusters=n_clusters, **settings)
        sample(passes, plain, 40)
        reached.append(plain.n_clusters)
        assert plain.log_joint < state.log_joint + 1e-5 * abs(state.log_joint)
    assert reached[0] == 1  # passes alone stay where they began
    assert max(reached) > 7


def test_the_estimator_takes_a_cycle_with_moves():
    rng = np.random.default_rng(1)
    X = sparse.csr_array(rng.poisson(np.repeat([[1, 9, 1], [9, 1, 1], [1, 1, 9]], 60, axis=0) * 2.0))
    sampler = Cycle(SparseVariational(2, truncation=15), ClusterMoves())
    mixture = Mixture(Poisson(1.0, 0.3), sampler=sampler, n_steps=10, n_warmup=0, start="one", random_state=0).fit(X)
    assert mixture.n_components_ == 3
    again = Mixture(Poisson(1.0, 0.3), sampler=sampler, n_steps=10, n_warmup=0, start="one", random_state=0).fit(X)
    assert np.array_equal(mixture.n_, again.n_)


def test_misuse_is_named():
    family, X, _ = planted("poisson")
    state, _ = begin(family, X, DirichletProcess(), n_active=None)
    with pytest.raises(CapabilityError, match="n_active below the 12"):
        ClusterMoves().step(state)
    model = MixtureModel(family, DirichletProcess())
    with pytest.raises(CapabilityError, match="cannot begin a state"):
        ClusterMoves().init(model, X)
    for name in ("n_trials", "n_refinements"):
        with pytest.raises(ValueError, match=name):
            Cycle(SparseVariational(), ClusterMoves(**{name: -1})).init(model, X)
    with pytest.raises(CapabilityError):
        Cycle(CollapsedGibbs(), ClusterMoves()).step(CollapsedGibbs().init(model, X))
