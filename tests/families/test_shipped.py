"""The shipped NumPy families keep the laws, and agree with references that were written by others."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import ive

from expfam.errors import DataError, SupportError
from expfam.families.simple.bernoulli import Bernoulli
from expfam.families.simple.exponential import Exponential
from expfam.families.simple.geometric import Geometric
from expfam.families.simple.negative_binomial import NegativeBinomial
from expfam.families.simple.von_mises_fisher import VonMisesFisher, _log_bessel_ratio, _log_vmf_constant
from expfam.plugins.conformance import parametrize_with_checks

SHIPPED = [
    Bernoulli(),
    Bernoulli(a=0.5, b=[1.0, 2.0, 3.0, 0.2]),
    Exponential(),
    Exponential(a=0.7, b=3.0),
    NegativeBinomial(r=2.5),
    NegativeBinomial(r=0.3, a=1.0, b=2.0),
    Geometric(),
    VonMisesFisher(),
    VonMisesFisher(kappa=4.0, mean=[0.6, 0.8], strength=0.5),
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


@pytest.mark.parametrize("d", [2, 3, 5, 40])
@pytest.mark.parametrize("kappa", [1e-6, 0.5, 30.0, 2e3])
def test_the_constant_of_the_sphere_is_scipy_s(d, kappa):
    mean = np.eye(1, d)[0]
    expected = stats.vonmises_fisher(mean, kappa).logpdf(mean) - kappa
    assert _log_vmf_constant(d, kappa) == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_bessel_ratios_are_continuous_where_the_methods_change():
    for v in (0.5, 24.0, 149.0):
        low, high = _log_bessel_ratio(v, 0.99999999e-8), _log_bessel_ratio(v, 1.00000001e-8)
        assert high == pytest.approx(low, rel=1e-12)
    # Order 299: below x of about 100 the scaled function is under exp(-600), and Debye's expansion takes over.
    x = np.linspace(20.0, 600.0, 2001)
    assert (ive(299.0, x) == 0).any() or (np.log(ive(299.0, x)) < -600).any()
    assert (np.log(ive(299.0, x[-100:])) > -600).all()
    log_ratio = _log_bessel_ratio(299.0, x)
    second = np.diff(log_ratio, 2)
    assert (second > 0).all()
    assert np.abs(np.diff(second)).max() < 1e-2 * second.max()


def test_bessel_functions_keep_their_recurrence_at_high_orders():
    """I_{v-1} - I_{v+1} = (2 v / x) I_v, relative to its largest term."""
    for v, x in ((1.0, 1e-3), (24.0, 5.0), (149.0, 30.0), (149.0, 2000.0), (1499.0, 10.0)):
        logs = np.array([_log_bessel_ratio(v + s, x) + (v + s) * np.log(x) for s in (-1, 0, 1)])
        left, middle, right = np.exp(logs - logs[0])
        assert left - right == pytest.approx(2 * v / x * middle, rel=1e-9)


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
        (lambda: VonMisesFisher(kappa="big"), "von_mises_fisher: kappa must be positive and finite"),
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
