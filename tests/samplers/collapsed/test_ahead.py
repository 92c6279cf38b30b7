"""Rows of a sweep over many clusters, scored together before they are drawn one by one."""

import numpy as np
import pytest
from scipy import sparse

from expfam import Dataset, DirichletProcess, MixtureModel, SymmetricDirichlet, load_family
from expfam.model.known import Known
from expfam.samplers import CollapsedGibbs

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
