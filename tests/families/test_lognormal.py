"""Log-normal clusters are Gaussian clusters of logarithms, with a density in the units of the data."""

import numpy as np
import pytest
from scipy import stats

from expfam import Dataset, DiagonalGaussian, LogNormal, Mixture
from expfam.errors import SupportError
from expfam.families.components import Components

RNG = np.random.default_rng(2)
X = np.exp(RNG.normal(size=(200, 3)) + 4.0 * (np.arange(200) % 3)[:, None])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_scores_are_those_of_logarithms_and_their_slope(dtype):
    Y = X.astype(dtype)
    own, logs = LogNormal().bind(Y), DiagonalGaussian().bind(np.log(Y.astype(np.float64)))
    n, S = Dataset(Y, own).statistics(np.arange(200) % 3, 3)
    np.testing.assert_allclose(S, Dataset(np.log(Y.astype(np.float64)), logs).statistics(np.arange(200) % 3, 3)[1])
    np.testing.assert_array_equal(own.log_marginal(n, S), logs.log_marginal(n, S))
    found = own.log_predictive(Y, n, S) + own.log_base(Y)[:, None]
    mean, kn = own.mean - own.center_, own.mean_strength + n[:, None]
    location = mean + (S[:, :3] - n[:, None] * mean) / kn
    for k in range(3):
        a = own.shape + 0.5 * n[k]
        off = S[k, 3:] - mean * mean * n[k] - 2 * mean * (S[k, :3] - n[k] * mean)
        b = own.rate + 0.5 * (off - (S[k, :3] - n[k] * mean) ** 2 / kn[k])
        scale = np.sqrt(b * (kn[k] + 1) / (a * kn[k]))
        t = stats.t.logpdf(np.log(Y), 2 * a, location[k] + own.center_, scale).sum(axis=1) - np.log(Y).sum(axis=1)
        np.testing.assert_allclose(found[:, k], t, rtol=1e-5 if dtype == np.float32 else 1e-10)


def test_parameters_are_in_the_units_of_the_data():
    family = LogNormal().bind(X)
    theta, g = family.from_params(mean=[[1.0, 20.0, 300.0]], variance=[[0.5, 9.0, 10.0]])
    params = family.to_params(theta, g)
    np.testing.assert_allclose(params["mean"], [[1.0, 20.0, 300.0]])
    np.testing.assert_allclose(params["variance"], [[0.5, 9.0, 10.0]])
    rows = family.sample(theta, 40_000, np.random.default_rng(0))
    np.testing.assert_allclose(rows.mean(axis=0), params["mean"][0], rtol=0.02)
    np.testing.assert_allclose(np.median(rows, axis=0), params["median"][0], rtol=0.02)


def test_a_change_of_unit_changes_no_label():
    labels = Mixture(LogNormal(), random_state=3).fit(X).labels_
    np.testing.assert_array_equal(Mixture(LogNormal(), random_state=3).fit(X * [1.0, 1024.0, 0.125]).labels_, labels)
    assert len(np.unique(labels)) >= 3


def test_the_smallest_and_largest_floats_are_data():
    Y = np.array([[5e-324], [1e-300], [1.0], [1e300], [1.7e308]] * 4)
    data = Dataset(Y, LogNormal())
    components = Components(data.family, data, 2)
    components.refresh(np.zeros(20, dtype=np.int32))
    expected = data.family.log_predictive(Y, *components.export())
    np.testing.assert_allclose(components.log_predictive_block(0, 20, 2), expected)
    assert np.isfinite(expected).all()


@pytest.mark.parametrize("bad", [0.0, -2.5])
def test_values_that_have_no_logarithm_are_named(bad):
    Y = X.copy()
    Y[7, 2] = bad
    with pytest.raises(SupportError, match=rf"lognormal needs positive values; row 7, column 2 holds {bad}"):
        Mixture("lognormal").fit(Y)


def test_hyper_parameters_are_refused_by_this_name():
    with pytest.raises(ValueError, match="lognormal: rate must be positive"):
        LogNormal(rate=-1.0)
    with pytest.raises(ValueError, match="lognormal: shape must be a positive number"):
        LogNormal(shape="auto")
