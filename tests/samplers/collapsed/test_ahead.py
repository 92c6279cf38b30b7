"""Rows of a sweep over many clusters, scored together before they are drawn one by one."""

import numpy as np
import pytest
from scipy import sparse

from expfam import (
    Dataset,
    DirichletProcess,
    MixtureModel,
    PitmanYor,
    SphericalGaussian,
    SymmetricDirichlet,
    load_family,
)
from expfam.model.known import Known
from expfam.samplers import CollapsedGibbs
from expfam.samplers.collapsed._ahead import RowsAhead
from expfam.samplers.collapsed.gibbs import Sweep, run_sweep

N, K = 6000, 300


def case(name):
    """Rows of many far groups. Eight clusters share one of them, and their rows move from one to another."""
    rng = np.random.default_rng(0)
    z = np.concatenate([np.arange(K), rng.integers(0, K, N - K)])
    group = np.maximum(z, 7)
    if name.startswith("gaussian"):
        X = 12.0 * rng.normal(size=(K, 6))[group] + rng.normal(size=(N, 6))
    elif name == "categorical":
        X = np.where(rng.random((N, 20)) < 0.1, rng.integers(0, 4, (N, 20)), rng.integers(0, 4, (K, 20))[group])
    else:
        X = rng.poisson(np.exp(1.0 + rng.normal(size=(K, 30)))[group])
    return load_family(name.split()[0]), sparse.csr_matrix(X) if name.endswith("CSR") else X, z


COUNTS = ["poisson", "multinomial", "multinomial CSR", "categorical"]
FAMILIES = ["gaussian_diag", "gaussian", "gaussian_spherical", *COUNTS]


def swept(kernel, model, data, start, n_steps, seed=3):
    state = kernel.init(model, data, seed=seed, start=start)
    moves = [kernel.step(state).accepted for _ in range(n_steps)]
    return state, moves


@pytest.mark.parametrize("order", ["sequential", "random"])
@pytest.mark.parametrize("name", FAMILIES)
def test_threads_change_no_bit(name, order):
    family, X, start = case(name)
    model = MixtureModel(family, DirichletProcess())
    one, moves = swept(CollapsedGibbs(order=order), model, X, start, 3)
    two, _ = swept(CollapsedGibbs(order=order, n_threads=2), model, X, start, 3)
    assert 20 < moves[0] < N / 12  # so few that rows are scored together
    assert np.array_equal(one.labels, two.labels)
    assert one.log_joint == two.log_joint
    assert one.log_joint == pytest.approx(one.model.log_joint(one.data, one.partition), rel=1e-9)


@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize("name", ["gaussian_diag", "poisson"])
def test_rows_have_the_draws_that_they_have_one_by_one(name, n_threads):
    family, X, start = case(name)
    weights, kernel = SymmetricDirichlet(K, 1.0), CollapsedGibbs(n_threads=n_threads)

    def swept_over(rows, labels):
        """The other rows are held, the first one of each cluster too, so that clusters keep their numbers."""
        held = np.where(np.isin(np.arange(N), rows) & (np.arange(N) >= K), -1, labels)
        data = Dataset(X, family, known=Known(held, kind="clusters"))
        state, moves = swept(kernel, MixtureModel(data.family, weights), data, labels, 1)
        return state.labels, moves[0]

    together, moved = swept_over(np.arange(N), start)
    labels = start
    for rows in np.split(np.arange(N), N // 200):  # sweeps over so few rows score none ahead
        labels, _ = swept_over(rows, labels)
    assert moved > 20
    assert np.array_equal(labels, together)


# ---- scores of wide rows, which matrix products bound ----------------------------------------------------------------

WIDE = {
    "own": lambda: SphericalGaussian(),
    "known": lambda: SphericalGaussian(variance=0.5),
    "shared": lambda: SphericalGaussian(variance="shared"),
    "vmf": lambda: load_family("von_mises_fisher"),
    "narrow vmf": lambda: load_family("von_mises_fisher"),  # its scores cost more than distances
}
LAWS = {
    "finite": SymmetricDirichlet(90, 1.0),
    "DP": DirichletProcess(),
    "PY": PitmanYor(3.0, 0.5),
}


def embeddings(name, *, n_groups=75, n_far=40, spread=0.7):
    """Rows about centres, and labels: eight clusters share a group, some numbers are free, far rows are anywhere."""
    rng, d = np.random.default_rng(0), 48 if name.startswith("narrow") else 256
    z = rng.integers(0, n_groups, 3000)
    X = rng.normal(size=(n_groups, d))[np.maximum(z, 7)] + spread * rng.normal(size=(len(z), d))
    far = rng.choice(len(z), n_far, replace=False)
    X[far] = rng.normal(size=(n_far, d))
    X[far[1::2]] = X[far[::2]] + 0.01 * rng.normal(size=(n_far // 2, d))  # in pairs
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return (X if name.endswith("vmf") else 16 * X).astype(np.float32), z + 5 * (z > 30)


def assert_same_sweeps(model, data, start, *, order="sequential", n_threads=None, n_steps=3):
    """Compare sweeps with those that score row by row; return how many rows had scores left out, and moves."""
    ahead, plain = (CollapsedGibbs().init(model, data, seed=5, start=start) for _ in range(2))
    n_filtered = n_moved = 0
    for step in range(n_steps):
        rows = RowsAhead(n_threads)
        moved = run_sweep(Sweep(ahead, order, rows))
        assert run_sweep(Sweep(plain, order)) == moved
        assert np.array_equal(plain.labels, ahead.labels)
        assert ahead.log_joint == pytest.approx(plain.log_joint, rel=1e-12)
        n_filtered, n_moved = n_filtered + rows.n_filtered, n_moved + moved[1]
        ahead.n_steps = plain.n_steps = step + 1
    ahead.check()
    return n_filtered, n_moved


@pytest.mark.parametrize("order", ["sequential", "random"])
@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("name", WIDE)
def test_scores_that_are_left_out_change_no_label(name, law, order):
    X, start = embeddings(name)
    data = Dataset(X, WIDE[name]())
    model = MixtureModel(data.family, LAWS[law]).bind(data)
    assert assert_same_sweeps(model, data, start, order=order, n_threads=2)[0] > len(X)


@pytest.mark.parametrize("name", ["own", "vmf"])
def test_known_classes_forbid_the_best_cluster_of_some_rows(name):
    X, start = embeddings(name)
    classes = np.where(np.arange(len(start)) % 5 == 0, start % 2, -1)
    data = Dataset(X, WIDE[name](), known=Known(classes, kind="classes"))
    model = MixtureModel(data.family, DirichletProcess()).bind(data)
    assert assert_same_sweeps(model, data, start)[0] > len(X) / 2


def test_rows_are_scored_whole_where_few_scores_can_be_left_out():
    X, start = embeddings("own")
    X[-1], start[-1] = X[-1] + 1e5, 31  # all others are so far from the middle that single precision bounds nothing
    data = Dataset(X, SphericalGaussian(variance=1.0))
    model = MixtureModel(data.family, SymmetricDirichlet(90, 1.0)).bind(data)
    n_filtered, n_moved = assert_same_sweeps(model, data, start)
    assert n_filtered == 0
    assert n_moved < 3 * len(X) / 12  # in three sweeps, so few that rows are scored together
