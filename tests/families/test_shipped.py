"""The shipped simple families keep the laws, and agree with references that were written by others."""

import numpy as np
import pytest
from scipy import stats

from expfam.errors import DataError, SupportError
from expfam.families.directions.von_mises_fisher import VonMisesFisher
from expfam.families.trials.bernoulli import Bernoulli
from expfam.families.trials.geometric import Geometric
from expfam.families.trials.negative_binomial import NegativeBinomial
from expfam.families.waiting.exponential import Exponential
from expfam.plugins.conformance import parametrize_with_checks

SHIPPED = [
    Bernoulli(),
    Bernoulli(a=0.5, b=[1.0, 2.0, 3.0, 0.2]),
    Exponential(),
    Exponential(a=0.7, b=3.0),
    NegativeBinomial(r=2.5),
    NegativeBinomial(r=0.3, a=1.0, b=2.0),
    Geometric(),
]


@parametrize_with_checks(SHIPPED)
def test_laws(family, check):
    check(family)


def predictive(family, x, n, S):
    X = np.asarray(x, dtype=np.float64)[:, None]
    phi = np.asarray(family.sufficient_statistics(X))
    before = family.log_marginal(np.array([n]), np.array([[S]]))
    return family.log_marginal(np.full(len(X), n + 1.0), S + phi) - before + family.log_base(X)


def test_predictives_are_those_of_scipy():
    x = np.arange(12.0)
    found = predictive(Bernoulli(a=0.4, b=1.7), [0.0, 1.0], 7.0, 3.0)
    np.testing.assert_allclose(found, stats.bernoulli.logpmf([0, 1], 3.4 / 9.1), rtol=1e-12)
    found = predictive(Exponential(a=1.5, b=0.8), x, 6.0, 9.5)
    np.testing.assert_allclose(found, stats.lomax.logpdf(x, 7.5, scale=10.3), rtol=1e-12)
    found = predictive(NegativeBinomial(r=3.0, a=1.2, b=2.3), x, 4.0, 11.0)
    np.testing.assert_allclose(found, stats.betanbinom.logpmf(x, 3, 2.3 + 12.0, 1.2 + 11.0), rtol=1e-11)


def test_geometric_is_the_negative_binomial_of_one():
    n, S = np.array([3.0, 5.0]), np.array([[4.0], [0.0]])
    one, other = Geometric(a=1.3, b=2.0), NegativeBinomial(r=1.0, a=1.3, b=2.0)
    np.testing.assert_array_equal(one.log_marginal(n, S), other.log_marginal(n, S))
    assert one.get_params() == {"a": 1.3, "b": 2.0}


def test_draws_on_the_sphere_have_scipy_s_moments():
    family = VonMisesFisher(kappa=6.0, mean=[1.0, 0.0, 0.0], strength=1.0).bind(np.eye(3))
    theta = 6.0 * np.array([[0.0, 0.6, 0.8]])
    X = family.sample(theta, 20_000, np.random.default_rng(0))
    cosine = X @ theta[0] / 6.0
    expected = 1.0 / np.tanh(6.0) - 1.0 / 6.0
    assert abs(cosine.mean() - expected) < 5 * cosine.std() / np.sqrt(20_000)
    np.testing.assert_allclose((X**2).sum(axis=1), 1.0, rtol=1e-12)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Bernoulli(a=0.0), "bernoulli: a must be positive and finite"),
        (lambda: Exponential(b=[1.0, -2.0]), "exponential: b must be positive and finite"),
        (lambda: NegativeBinomial(r=np.inf), "negative_binomial: r must be positive"),
    ],
)
def test_hyper_parameters_are_checked_when_given(make, said):
    with pytest.raises(ValueError, match=said):
        make()


def test_data_are_checked_when_bound():
    with pytest.raises(SupportError, match=r"exponential needs values in .0, inf.; row 1, column 0 holds -1"):
        Exponential().bind([[1.0], [-1.0]])
    with pytest.raises(DataError, match="bernoulli: a has 3 values for data of 2 columns"):
        Bernoulli(a=[1.0, 1.0, 1.0], b=1.0).bind([[0.0, 1.0]])
    with pytest.raises(DataError, match=r"mean of shape .3,. and unit length"):
        VonMisesFisher(kappa=1.0, mean=[1.0, 1.0, 0.0], strength=1.0).bind(np.eye(3))
    with pytest.raises(DataError, match="at least two columns"):
        VonMisesFisher().bind([[1.0]])


def test_defaults_are_made_from_columns():
    X = np.array([[0.0, 1.0], [0.0, 1.0], [1.0, 1.0]])
    bound = Bernoulli().bind(X)
    np.testing.assert_allclose(bound.a, [5 * 1.5 / 4, 5 * 3.5 / 4])
    np.testing.assert_allclose(bound.a + bound.b, 5.0)
    assert np.mean(Exponential().bind([[1.0], [3.0]]).b) == pytest.approx(2.0)


@pytest.mark.parametrize("family", [Bernoulli(), NegativeBinomial(), VonMisesFisher(), Exponential()])
def test_defaults_do_not_depend_on_the_order_of_rows(family):
    X = np.abs(np.random.default_rng(4).normal(size=(50, 3)))
    if family.support in ("binary", "counts"):
        X = (X > 0.5).astype(np.float64)
    elif family.support == "unit":
        X /= np.sqrt((X**2).sum(axis=1, keepdims=True))
    assert family.bind(X) == family.bind(X[::-1])
