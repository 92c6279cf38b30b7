"""EM of counts from lists of parameters, beside arrays of all parameters."""

import numpy as np
import pytest
from counts_of_words import BY_COLUMN, BY_ROW, CASES, K

import expfam as ef
from expfam.errors import ArchiveError
from expfam.families.support import dense_rows
from expfam.samplers import ExpectationMaximization, ShardedData
from expfam.samplers.uncollapsed import listed_parameters, soft_sums
from expfam.samplers.uncollapsed.listed_parameters import ListedParameters

pytestmark = pytest.mark.filterwarnings("ignore:.*rows? (is|are) empty")
ALWAYS = {"_LEAST_CELLS": 0, "_SPARSE_SHARE": 0}


def run(name, limits, *, is_listed=True, n_threads=None, n_parts=None, n_steps=5):
    """State after some steps, with parameters as lists or as an array."""
    family, X, weight = CASES[name]
    if n_parts is None:
        data = ef.Dataset(X, family, weight=weight)
    else:
        data = ShardedData(X, family, n_parts=n_parts, weight=weight)
    model = ef.MixtureModel(data.family, ef.SymmetricDirichlet(K))
    kernel = ExpectationMaximization(tol=0.0, n_threads=n_threads)
    with pytest.MonkeyPatch.context() as patch:
        for constant, value in limits.items():
            patch.setattr(soft_sums, constant, value)
        for constant, value in ALWAYS.items() if is_listed else ():
            patch.setattr(listed_parameters, constant, value)
        state = kernel.init(model, data, seed=0, start=np.arange(X.shape[0]) % 7)
        for _ in range(n_steps):
            kernel.step(state)
        state.check()
    assert isinstance(state.Theta, ListedParameters) == is_listed
    return state


@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_all_parameters(name):
    listed, dense = run(name, BY_COLUMN), run(name, BY_COLUMN, is_listed=False)
    assert (listed.labels == dense.labels).mean() > 0.999
    np.testing.assert_allclose(listed.log_joint, dense.log_joint, rtol=1e-6)
    np.testing.assert_allclose(listed.n, dense.n, rtol=1e-3, atol=1e-2)
    np.testing.assert_allclose(dense_rows(listed.S), dense_rows(dense.S), rtol=1e-3, atol=2e-2)


@pytest.mark.parametrize("name", CASES)
def test_one_step_is_that_of_all_parameters(name):
    listed, dense = run(name, BY_COLUMN, n_steps=1), run(name, BY_COLUMN, n_steps=1, is_listed=False)
    np.testing.assert_allclose(np.asarray(listed.Theta), dense.Theta, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(listed.G, dense.G, rtol=1e-12)
    np.testing.assert_allclose(listed.log_joint, dense.log_joint, rtol=1e-8)
    np.testing.assert_allclose(listed.n, dense.n, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", CASES)
def test_rows_threads_and_parts_change_no_bit(name):
    one = run(name, BY_COLUMN)
    others = [run(name, BY_COLUMN, n_threads=2), run(name, BY_ROW), run(name, BY_COLUMN, n_parts=3)]
    for other in others:
        assert np.array_equal(one.n, other.n)
        assert np.array_equal(dense_rows(one.S), dense_rows(other.S))
        assert np.array_equal(one.labels, other.labels)
        assert one.log_joint == other.log_joint


def test_a_stored_run_goes_on_with_the_same_bits():
    state = run("weights", BY_COLUMN, n_steps=2)
    other = run("weights", BY_COLUMN, n_steps=1)
    other.from_arrays(state.to_arrays())
    assert other.log_joint == state.log_joint
    assert np.array_equal(np.asarray(other.Theta), np.asarray(state.Theta))
    altered = state.to_arrays()
    altered["Theta"]["n"] = -altered["Theta"]["n"]
    with pytest.raises(ArchiveError, match="'n'"):
        other.from_arrays(altered)


def test_known_rows_have_all_parameters():
    X, known = CASES["counts"][1], np.full(2600, -1)
    known[:50] = 0
    data = ef.Dataset(X, ef.Multinomial(0.1), known=ef.Known(known))
    with pytest.MonkeyPatch.context() as patch:
        for constant, value in ALWAYS.items():
            patch.setattr(listed_parameters, constant, value)
        kernel = ExpectationMaximization(tol=0.0)
        state = kernel.init(ef.MixtureModel(data.family, ef.SymmetricDirichlet(K)), data, seed=0)
        kernel.step(state)
    assert isinstance(state.Theta, np.ndarray)
    assert (state.labels[:50] == state.labels[0]).all()
