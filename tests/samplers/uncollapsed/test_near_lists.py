"""Soft sums over the responsibilities that are not negligible, beside those of all."""

import numpy as np
import pytest
from instruction_sets import SETS, output_under

from expfam import Dataset, MixtureModel, SymmetricDirichlet, load_family
from expfam.samplers import ExpectationMaximization
from expfam.samplers.uncollapsed import em

CASES = {"gaussian_diag": (600, 40), "gaussian": (150, 20)}  # components and columns


def rows(name, *, spread=0.5, seed=0):
    """Rows about centres, weights of some of them 0, and labels of which a tenth are wrong."""
    (K, d), rng = CASES[name], np.random.default_rng(seed)
    labels = rng.integers(K, size=9 * K).astype(np.int32)
    X = 3.0 * rng.normal(size=(K, d))[labels] + spread * rng.normal(size=(len(labels), d))
    weight = np.where(rng.random(len(labels)) < 0.05, 0.0, rng.gamma(2.0, 0.5, len(labels)))
    return X, weight, np.where(rng.random(len(labels)) < 0.1, rng.integers(K, size=len(labels)), labels)


def expected(name, X, weight, start, *, n_threads=1):
    data = Dataset(X, load_family(name), weight=weight)
    kernel = ExpectationMaximization(tol=0.0, n_threads=n_threads)
    model = MixtureModel(data.family, SymmetricDirichlet(CASES[name][0], 1.0)).bind(data)
    state = kernel.init(model, data, seed=0, start=start)
    kernel.step(state)
    return state


def without_lists(monkeypatch, name, X, weight, start):
    with monkeypatch.context() as patch:
        patch.setattr(em, "may_list", lambda *sizes: False)
        return expected(name, X, weight, start)


def assert_sums_of_all(name, X, weight, start):
    """Compare with responsibilities in double precision; the scores of a state are in single precision."""
    state = expected(name, X, weight, start)
    phi = state.data.phi(0, len(X))
    scores = phi @ state.Theta.T - state.G + state.log_pi
    p = np.exp(scores - scores.max(axis=1, keepdims=True))
    p *= (weight / p.sum(axis=1))[:, None]
    np.testing.assert_allclose(state.n, p.sum(axis=0), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(state.S, p.T @ phi, rtol=1e-4, atol=1e-5 * np.abs(p.T @ phi).max())
    return state


@pytest.mark.parametrize("name", CASES)
def test_sums_are_those_of_all_responsibilities(name, monkeypatch):
    X, weight, start = rows(name)
    listed = assert_sums_of_all(name, X, weight, start)
    product = without_lists(monkeypatch, name, X, weight, start)
    assert not np.array_equal(listed.S, product.S)  # the last bits tell that lists were taken
    np.testing.assert_allclose(listed.n, product.n, rtol=1e-6, atol=1e-6)
    assert listed.log_likelihood == product.log_likelihood
    assert np.array_equal(listed.labels, product.labels)


@pytest.mark.parametrize("name", CASES)
def test_threads_and_other_tiles_change_no_bit(name):
    X, weight, start = rows(name)
    one, two = (expected(name, X, weight, start, n_threads=n) for n in (1, 2))
    assert one.S.tobytes() == two.S.tobytes()
    assert one.n.tobytes() == two.n.tobytes()


def test_tiles_of_many_responsibilities_are_multiplied(monkeypatch):
    X, weight, start = rows("gaussian_diag", spread=12.0)
    start = np.random.default_rng(1).integers(CASES["gaussian_diag"][0], size=len(X))
    listed, product = (
        expected("gaussian_diag", X, weight, start),
        without_lists(monkeypatch, "gaussian_diag", X, weight, start),
    )
    assert listed.S.tobytes() == product.S.tobytes()


@pytest.mark.parametrize("isa", SETS)
def test_other_instructions_find_the_same_places(isa):
    code = (
        "from test_near_lists import assert_sums_of_all, rows; "
        "[assert_sums_of_all(name, *rows(name)) for name in ('gaussian', 'gaussian_diag')]; print('same')"
    )
    assert output_under(isa, code, file=__file__).strip() == "same"
