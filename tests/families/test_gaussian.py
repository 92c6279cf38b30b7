"""Gaussian families against independent densities, and their compiled components against NumPy."""

import contextlib
import pickle

import numpy as np
import pytest
from instruction_sets import NUMBERS_OF, check_sets_agree
from scipy import sparse, stats

from expfam.errors import DataError, DataTypeError, DataWarning, SupportError
from expfam.families.base import Family
from expfam.families.components import Components
from expfam.families.gaussian.columns import inverse, unsvec
from expfam.families.gaussian.diagonal import DiagonalGaussian
from expfam.families.gaussian.full import Gaussian, ZeroMeanGaussian
from expfam.families.gaussian.spherical import SphericalGaussian
from expfam.model.data import Dataset


def Known(**values):
    return SphericalGaussian(variance=0.7, **values)


def Shared(**values):
    return SphericalGaussian(variance="shared", **values)


FULL = [Gaussian, ZeroMeanGaussian]
ONE_VARIANCE = [Known, Shared]
SPHERICAL = [SphericalGaussian, *ONE_VARIANCE]
ALL = [*FULL, DiagonalGaussian, *SPHERICAL]
RATES = {Gaussian: "scale", ZeroMeanGaussian: "scale", DiagonalGaussian: "rate", SphericalGaussian: "rate"}
WIDTHS = [1, 2, 5, 16, 17, 27, 40]


def make_data(d, N=60, *, seed=0, offset=0.0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    mix = np.eye(d) + 0.3 * rng.standard_normal((d, d))
    return (rng.standard_normal((N, d)) @ mix + 3.0 * rng.integers(0, 3, (N, 1)) + offset).astype(dtype)


def statistics(family, X, groups):
    phi = family.sufficient_statistics(X)
    phi = phi.toarray() if sparse.issparse(phi) else phi
    return np.array([float(len(g)) for g in groups]), np.array([phi[g].sum(axis=0) for g in groups])


def reference_predictive(family, X, n, S):
    """Differences of the NumPy evidence, which the compiled predictives have no part in."""
    return Family.log_predictive(family, X, n, S)


# ---- the mathematics -----------------------------------------------------------------------------------------------


def student_full(family, X, members):
    d = X.shape[1]
    k0, nu0, m0, n = family.mean_strength, family.dof, family.mean, len(members)
    mean = X[members].mean(axis=0) if n else m0
    off = mean - m0
    scatter = (X[members] - mean).T @ (X[members] - mean)
    scale = family.scale + scatter + k0 * n / (k0 + n) * np.outer(off, off)
    dof = nu0 + n - d + 1
    location = (k0 * m0 + n * mean) / (k0 + n)
    return stats.multivariate_t(location, scale * (k0 + n + 1) / ((k0 + n) * dof), dof).logpdf(X)


def student_zero(family, X, members):
    dof = family.dof + len(members) - X.shape[1] + 1
    return stats.multivariate_t(np.zeros(X.shape[1]), (family.scale + X[members].T @ X[members]) / dof, dof).logpdf(X)


def student_diagonal(family, X, members):
    n = len(members)
    mean = X[members].mean(axis=0) if n else family.mean
    k0 = family.mean_strength
    shape = family.shape + 0.5 * n
    scatter = ((X[members] - mean) ** 2).sum(axis=0)
    rate = family.rate + 0.5 * scatter + 0.5 * k0 * n / (k0 + n) * (mean - family.mean) ** 2
    location = (k0 * family.mean + n * mean) / (k0 + n)
    scale = np.sqrt(rate * (k0 + n + 1) / (shape * (k0 + n)))
    return stats.t(2 * shape, location, scale).logpdf(X).sum(axis=1)


def student_spherical(family, X, members):
    n, d = len(members), X.shape[1]
    mean = X[members].mean(axis=0) if n else family.mean
    k0 = family.mean_strength
    shape = family.shape + 0.5 * n * d
    off = ((mean - family.mean) ** 2).sum()
    rate = family.rate + 0.5 * ((X[members] - mean) ** 2).sum() + 0.5 * k0 * n / (k0 + n) * off
    location = (k0 * family.mean + n * mean) / (k0 + n)
    scale = rate * (k0 + n + 1) / (shape * (k0 + n)) * np.eye(d)
    return stats.multivariate_t(location, scale, 2 * shape).logpdf(X)


def normal_spherical(family, X, members):
    variance = family.shared_variance if family.variance == "shared" else family.variance
    v = 1.0 / (1.0 / family.mean_variance + len(members) / variance)
    location = v * (family.mean / family.mean_variance + X[members].sum(axis=0) / variance)
    return stats.norm(location, np.sqrt(variance + v)).logpdf(X).sum(axis=1)


DENSITIES = [
    (Gaussian, student_full),
    (ZeroMeanGaussian, student_zero),
    (DiagonalGaussian, student_diagonal),
    (SphericalGaussian, student_spherical),
    *((make, normal_spherical) for make in ONE_VARIANCE),
]


@pytest.mark.parametrize("d", [1, 2, 5, 17])
@pytest.mark.parametrize(("make", "density"), DENSITIES)
def test_predictive_is_the_textbook_density(make, density, d):
    X = make_data(d)
    family = make().bind(X)
    groups = [[], [3], [1, 4, 5, 9, 30], list(range(40))]
    n, S = statistics(family, X, groups)
    expected = np.array([density(family, X, g) for g in groups]).T
    for predictive in (family.log_predictive, lambda *a: reference_predictive(family, *a)):
        found = predictive(X, n, S) + family.log_base(X)[:, None]
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("make", ALL)
def test_predictives_multiply_to_the_evidence(make):
    X = make_data(3, 25)
    family = make().bind(X)
    total, members = 0.0, []
    for i in np.random.default_rng(1).permutation(25):
        n, S = statistics(family, X, [members])
        total += family.log_predictive(X[i : i + 1], n, S)[0, 0]
        members.append(i)
    n, S = statistics(family, X, [members])
    assert abs(total - family.log_marginal(n, S)[0]) < 1e-10 * 26


@pytest.mark.parametrize("make", ALL)
def test_expected_natural_is_the_gradient(make):
    X = make_data(3)
    family = make().bind(X)
    n, S = statistics(family, X, [[], [2], list(range(30))])
    n[2], S[2] = 7.5, S[2] / 4.0  # soft counts
    theta, g = family.expected_natural(n, S)
    for f in range(S.shape[1]):
        h = 1e-4 * (1 + np.abs(S[:, f]))
        step = np.zeros_like(S)
        step[:, f] = h
        slope = fourth_order(lambda c, step=step: family.log_marginal(n, S + c * step)) / h
        np.testing.assert_allclose(theta[:, f], slope, rtol=1e-6, atol=1e-7)
    h = 1e-4 * (1 + n)
    np.testing.assert_allclose(g, -fourth_order(lambda c: family.log_marginal(n + c * h, S)) / h, rtol=1e-6, atol=1e-7)


def fourth_order(value):
    return (value(-2) - 8 * value(-1) + 8 * value(1) - value(2)) / 12.0


@pytest.mark.parametrize("make", ALL)
def test_empty_evidence_is_zero_and_shapes_hold(make):
    X = make_data(4)
    family = make(**({RATES[make]: 2.0} if make in RATES else {})).bind(X)
    F = family.n_statistics_
    assert family.log_marginal(np.zeros(1), np.zeros((1, F)))[0] == pytest.approx(0.0, abs=1e-12)
    assert family.log_marginal(np.zeros(0), np.zeros((0, F))).shape == (0,)
    assert family.log_predictive(X[:3], np.zeros(0), np.zeros((0, F))).shape == (3, 0)
    theta, g = family.expected_natural(np.zeros(0), np.zeros((0, F)))
    assert theta.shape == (0, F)
    assert g.shape == (0,)
    again = pickle.loads(pickle.dumps(family))
    assert again == family
    assert family.bind(X) is family
    assert family.capabilities == {"collapsed", "variational", "draw", "map", "sample", "compiled"}


@pytest.mark.parametrize("make", ALL)
def test_draws_have_the_posterior_moments(make):
    X = make_data(2)
    family = make().bind(X)
    n, S = statistics(family, X, [list(range(20))])
    size = 20000
    theta, g = family.draw_natural(np.full(size, n[0]), np.repeat(S, size, axis=0), np.random.default_rng(5))
    np.testing.assert_allclose(g, family.log_partition(theta), rtol=1e-9, atol=1e-9)
    mean_theta, mean_g = family.expected_natural(n, S)
    for draws, mean in ((theta, mean_theta[0]), (g[:, None], mean_g)):
        noise = draws.std(axis=0) / np.sqrt(size)
        assert (np.abs(draws.mean(axis=0) - mean) < 5.0 * noise + 1e-12 * np.abs(mean)).all()
    again, _ = family.draw_natural(np.full(size, n[0]), np.repeat(S, size, axis=0), np.random.default_rng(5))
    assert np.array_equal(again, theta)


@pytest.mark.parametrize("make", ALL)
def test_prior_draws_average_to_the_evidence(make):
    X = make_data(1, 30)
    family = make(**({RATES[make]: 3.0} if make in RATES else {})).bind(X)
    size, F = 200000, family.n_statistics_
    theta, g = family.draw_natural(np.zeros(size), np.zeros((size, F)), np.random.default_rng(2))
    phi = family.sufficient_statistics(X[:1])
    values = np.exp(theta @ phi[0] - g)
    z = (values.mean() - np.exp(family.log_marginal(np.ones(1), phi)[0])) / (values.std() / np.sqrt(size))
    assert abs(z) < 5.0


@pytest.mark.parametrize("make", ALL)
def test_map_is_the_mode_in_natural_coordinates(make):
    X = make_data(3)
    family = make().bind(X)
    n, S = statistics(family, X, [[], [1], list(range(25))])
    theta, g = family.map_natural(n, S)
    np.testing.assert_allclose(g, family.log_partition(theta), rtol=1e-10, atol=1e-10)

    def objective(t):
        return np.einsum("kf,kf->k", S, t) - n * family.log_partition(t) + family.log_prior(t, family.log_partition(t))

    best, rng = objective(theta), np.random.default_rng(0)
    for size in (1e-5, 1e-3, 1e-2):
        for _ in range(20):
            other = theta * (1 + size * rng.standard_normal(theta.shape)) + size * 1e-2 * rng.standard_normal(
                theta.shape
            )
            moved = objective(other)
            assert (moved <= best + 1e-8).all()
    params = family.to_params(theta, g)
    back, back_g = family.from_params(**params)
    np.testing.assert_allclose(back, theta, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(back_g, g, rtol=1e-9, atol=1e-9)
    assert next(iter(params)) == "mean"
    if make is not ZeroMeanGaussian:
        big_n, big_S = statistics(family, X, [list(range(60))])
        found = family.to_params(*family.map_natural(1e6 * big_n, 1e6 * big_S))["mean"][0]
        np.testing.assert_allclose(found, X.mean(axis=0), rtol=1e-6)


@pytest.mark.parametrize("make", ALL)
def test_natural_parameters_outside_the_domain(make):
    X = make_data(2)
    family = make().bind(X)
    if make is Known:
        pytest.skip("every natural parameter is inside")
    theta, _ = family.map_natural(np.zeros(1), np.zeros((1, family.n_statistics_)))
    assert family.log_partition(-theta)[0] == np.inf
    assert family.log_prior(-theta, np.zeros(1))[0] == -np.inf


@pytest.mark.parametrize("make", ALL)
def test_samples_have_the_moments_of_their_parameters(make):
    X = make_data(2, offset=10.0)
    family = make().bind(X)
    theta, g = family.map_natural(*statistics(family, X, [list(range(20)), list(range(30, 60))]))
    rows = family.sample(theta, 20000, np.random.default_rng(3)).reshape(2, 20000, 2)
    params = family.to_params(theta, g)
    spread = rows.std(axis=1)
    assert np.abs((rows.mean(axis=1) - params["mean"]) / (spread / np.sqrt(20000))).max() < 5.0
    if "covariance" in params:
        variance = np.einsum("kdd->kd", params["covariance"])
        correlation = np.array([np.corrcoef(r.T)[0, 1] for r in rows])
        expected = params["covariance"][:, 0, 1] / np.sqrt(variance.prod(axis=1))
        assert np.abs(correlation - expected).max() < 5.0 / np.sqrt(20000)
    else:
        variance = params["variance"] if params["variance"].ndim == 2 else params["variance"][:, None]
    assert np.abs(spread**2 / variance - 1.0).max() < 5.0 * np.sqrt(2.0 / 20000)


# ---- binding -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", ALL)
def test_binding_does_not_depend_on_the_order_of_rows(make):
    X = make_data(3, 200)
    assert make().bind(X) == make().bind(X[np.random.default_rng(0).permutation(200)])


@pytest.mark.parametrize("make", SPHERICAL)
def test_binding_sparse_does_not_depend_on_the_order_of_rows(make):
    X = sparse.random_array((100, 30), density=0.2, rng=np.random.default_rng(0), format="csr")
    order = np.random.default_rng(0).permutation(100)
    assert make().bind(X) == make().bind(X[order])


def test_automatic_hyper_parameters():
    X = make_data(3, 100)
    variance = X.var(axis=0)
    full, diagonal, shared = (make().bind(X) for make in (Gaussian, DiagonalGaussian, Shared))
    spherical = SphericalGaussian().bind(X)
    np.testing.assert_allclose(full.mean, X.mean(axis=0))
    assert full.mean_strength == 0.1
    assert full.dof == 6.0
    np.testing.assert_allclose(full.scale, np.diag(2 * 0.1 * variance))
    np.testing.assert_allclose(diagonal.rate, 0.1 * variance)
    assert spherical.mean_strength == 0.1
    assert spherical.shape == 4.0
    assert spherical.rate == pytest.approx(3 * 0.1 * variance.mean())
    assert shared.shared_variance == pytest.approx(0.1 * variance.mean())
    assert shared.mean_variance == pytest.approx(variance.mean())
    assert "auto" in repr(Gaussian())
    assert "auto" not in repr(full)


@pytest.mark.parametrize("make", ALL)
def test_constant_column_is_named_and_usable(make):
    X = make_data(3)
    X[:, 1] = 1e6 + 0.1
    if make is ZeroMeanGaussian:
        X[:, 1] = 0.0
    with pytest.warns(DataWarning, match=r"column 1 is constant"):
        family = make().bind(X)
    n, S = statistics(family, X, [list(range(60))])
    assert np.isfinite(family.log_marginal(n, S)).all()
    assert np.isfinite(family.log_predictive(X, n, S)).all()


@pytest.mark.parametrize("make", ALL)
def test_far_origin_changes_nothing(make):
    if make is ZeroMeanGaussian:
        pytest.skip("its mean is fixed")
    X = np.rint(make_data(3) * 256) / 256  # exact after the shift
    groups = [[], [3], list(range(10)), list(range(60))]
    results = []
    for offset in (0.0, 1e6):
        family = make().bind(X + offset)
        n, S = statistics(family, X + offset, groups)
        results.append(np.r_[family.log_marginal(n, S), family.log_predictive(X[:5] + offset, n, S).ravel()])
    assert np.abs(results[0] - results[1]).max() < 1e-6


def test_prior_mean_far_from_the_data():
    X = make_data(2)
    for make, density in DENSITIES:
        if make is ZeroMeanGaussian:
            continue
        family = make(mean=[50.0, -80.0]).bind(X)
        n, S = statistics(family, X, [[], [2, 7, 8]])
        expected = np.array([density(family, X, g) for g in ([], [2, 7, 8])]).T
        np.testing.assert_allclose(family.log_predictive(X, n, S) + family.log_base(X)[:, None], expected, rtol=1e-9)
        assert family.log_marginal(n, S)[0] == pytest.approx(0.0, abs=1e-12)


def test_learned_scales_stay_above_the_resolution():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 3)) * 4.0
    family = DiagonalGaussian().bind(X)
    assert family.hyper_bounds("rate") == (pytest.approx(0.01), 1e6)
    assert family.hyper_bounds("mean_strength") == (pytest.approx(0.1), pytest.approx(10.0))
    X[:, 2] = np.rint(X[:, 2])
    X[:, 2] *= 0.1 * 3  # 0.1 * 3 * 3 and 0.3 * 3 are one value
    for make, name in ((DiagonalGaussian, "rate"), (Gaussian, "scale")):
        family = make().bind(X)
        resolution = family.resolution_
        np.testing.assert_allclose(resolution, [0.0, 0.0, 0.3])
        tied = X[:, 2].var()
        assert family.hyper_bounds(name)[0] == pytest.approx(max(0.01, 0.3**2 / 12 / (0.1 * tied)))
    X[:, 2] = rng.integers(0, 2, 400)
    family = DiagonalGaussian(rate=0.1).bind(X)
    low, _ = family.hyper_bounds("rate")
    floor = max(0.001 * X[:, :2].var(axis=0).max(), 1 / 12)
    assert low == pytest.approx(min(1.0, floor / 0.1))


def test_many_columns_are_named_by_their_number():
    X = np.repeat(make_data(2, 20), 20, axis=1)
    X[:, 5:] = 1.0
    with pytest.warns(DataWarning, match=r"^gaussian: 35 columns \(5, 6, 7, 8, \.\.\.\) are constant; the prior"):
        Gaussian().bind(X)


def test_learning_respects_the_bound():
    X = np.rint(make_data(2, 300) * 2)
    family = DiagonalGaussian().bind(X)
    low, _ = family.hyper_bounds("rate")
    groups = [np.flatnonzero((row == X).all(axis=1)) for row in np.unique(X, axis=0)]  # evidence wants a rate of 0
    n, S = statistics(family, X, groups)
    rng, base = np.random.default_rng(0), family.rate
    for _ in range(5):
        family = family.update_hyper(n, S, rng)
        assert (family.rate >= base * low * (1 - 1e-12)).all()
    assert not np.array_equal(family.rate, base)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: Gaussian(mean_strength=0.0), "mean_strength must be positive and finite.*got 0.0"),
        (lambda: Gaussian(mean_strength=[1.0, 2.0]), "mean_strength must be"),
        (lambda: Gaussian(mean=np.nan), "mean must be finite"),
        (lambda: Gaussian(dof=1.0, scale=np.eye(3)), "dof must exceed d - 1 = 2; got 1.0"),
        (lambda: Gaussian(scale=[[1.0, 2.0], [2.0, 1.0]]), "scale must be a symmetric positive definite"),
        (lambda: Gaussian(scale=[[1.0, 0.5], [0.2, 1.0]]), "scale must be a symmetric positive definite"),
        (lambda: Gaussian(scale=-1.0), "scale must be positive and finite.*got -1.0"),
        (lambda: Gaussian(dof=-2.0), "dof must be a number above d - 1"),
        (lambda: ZeroMeanGaussian(scale="none"), "scale must be positive"),
        (lambda: DiagonalGaussian(shape="auto"), "shape must be a positive number"),
        (lambda: DiagonalGaussian(shape=-1.0), "shape must be positive and finite"),
        (lambda: DiagonalGaussian(rate=[1.0, 0.0]), "rate must be positive and finite"),
        (lambda: SphericalGaussian(variance=[1.0, 1.0]), "variance must be positive and finite: a number; got"),
        (lambda: SphericalGaussian(variance="tied"), "variance must be 'auto', 'shared' or a positive number; got"),
        (lambda: SphericalGaussian(mean_variance=np.inf), "mean_variance must be"),
        (lambda: SphericalGaussian(mean_variance=2.0), "belongs to variance='shared' or variance=a number; with.*rate"),
        (lambda: SphericalGaussian("shared", rate=2.0), "rate belongs to variance='auto'; with.*give shared_variance"),
        (lambda: SphericalGaussian(1.0, shared_variance=2.0), "belongs to variance='shared'; with variance=1.0 give"),
        (lambda: SphericalGaussian(rate=[1.0, 1.0]), "rate must be positive and finite: a number; got"),
        (lambda: SphericalGaussian().bind(np.eye(4)).with_hyper(variance=1.0), "cannot take variance=1.0: bind a new"),
        (lambda: Known().bind(np.eye(4)).with_hyper(variance="shared"), "cannot take variance='shared': bind a new"),
        (lambda: SphericalGaussian().bind(np.eye(4)).from_params(np.eye(4)), "give variance"),
        (lambda: Gaussian(dof=1.5).bind(np.eye(4)), "dof must exceed d - 1 = 3; got 1.5"),
        (lambda: Gaussian(scale=np.eye(2)).bind(np.eye(4)), r"scale must have shape \(4, 4\)"),
        (lambda: DiagonalGaussian(rate=[1.0, 1.0]).bind(np.eye(4)), "rate must be a number or have length 4"),
    ],
)
def test_hyper_parameters_are_checked(call, text):
    with pytest.raises(ValueError, match=text):
        call()


@pytest.mark.parametrize("make", ALL)
def test_bad_data_are_refused_by_name(make):
    X = make_data(3)
    family = make().bind(X)
    bad = X.copy()
    bad[4, 2] = np.nan
    with pytest.raises(DataError, match=rf"{family.name}.*row 4, column 2"):
        make().bind(bad)
    with pytest.raises(DataError, match="3 features"):
        family.validate(X[:, :2])
    if make not in SPHERICAL:
        with pytest.raises(DataTypeError, match=family.name):
            make().bind(sparse.csr_array(X))
    else:
        with pytest.raises(DataTypeError, match="column means"):
            family.validate(sparse.csr_array(X))
        with pytest.raises(DataTypeError, match="mean=0"):
            make(mean=1.0).bind(sparse.csr_array(X))


def test_impossible_statistics_name_the_cluster():
    X = make_data(2)
    for make in RATES:
        family = make().bind(X)
        n, S = statistics(family, X, [[1, 2], [3, 4, 5]])
        S[1] = 0.0
        S[1, -1] = -1e3
        with pytest.raises(FloatingPointError, match=rf"{family.name}.*cluster 1"):
            family.log_marginal(n, S)


def test_one_column_is_the_diagonal_family():
    X = make_data(1)
    own, diagonal = SphericalGaussian().bind(X), DiagonalGaussian().bind(X)
    n, S = statistics(own, X, [[], [3], list(range(30))])
    np.testing.assert_allclose(own.log_marginal(n, S), diagonal.log_marginal(n, S), rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(own.log_predictive(X, n, S), diagonal.log_predictive(X, n, S), rtol=1e-12)
    for method in ("expected_natural", "map_natural"):
        for found, expected in zip(getattr(own, method)(n, S), getattr(diagonal, method)(n, S)):
            np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_learned_bounds_of_one_variance_are_those_of_the_pooled_columns():
    X = np.random.default_rng(0).standard_normal((400, 3)) * [1.0, 1.0, 5.0]
    own, shared = SphericalGaussian().bind(X), Shared().bind(X)
    assert own.hyper_bounds("rate") == (pytest.approx(0.01), 1e6)  # the widest column alone would forbid to learn
    assert own.hyper_bounds("mean_strength") == (pytest.approx(0.1), pytest.approx(10.0))
    assert SphericalGaussian(mean_strength=3.0).bind(X).hyper_bounds("mean_strength") == (pytest.approx(0.01 / 3), 1.0)
    assert shared.hyper_bounds("shared_variance") == (1e-6, 1e6)
    assert Shared().bind(np.rint(X)).hyper_bounds("shared_variance")[0] == pytest.approx(
        1.0 / 12.0 / (0.1 * np.rint(X).var(axis=0).mean())
    )
    tied = np.rint(X / 3.0).clip(-1, 1)
    assert SphericalGaussian(rate=0.01).bind(tied).hyper_bounds("rate")[0] == 1.0


def test_a_shared_variance_is_learned():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 12, 900)
    X = rng.normal(size=(12, 4))[labels] * 3.0 + 0.2 * rng.normal(size=(900, 4))
    family = Shared().bind(X)
    n, S = statistics(family, X, [np.flatnonzero(labels == k) for k in range(12)])
    found = []
    for _ in range(60):
        family = family.update_hyper(n, S, rng)
        found.append(family.shared_variance)
    means = np.array([X[labels == k].mean(axis=0) for k in range(12)])
    within = ((X - means[labels]) ** 2).sum() / (4 * (900 - 12))
    assert np.mean(found[20:]) == pytest.approx(within, rel=0.02)
    assert np.std(found[20:]) == pytest.approx(within * np.sqrt(2 / (4 * 888)), rel=0.6)


# ---- compiled components -------------------------------------------------------------------------------------------


def check_against_numpy(components, family, X, members, *, tolerance=1e-9):
    """Every reading function against evidences from the members themselves."""
    groups = [sorted(g) for g in members]
    n, S = statistics(family, X, groups)
    K = len(groups)
    got_n, got_S = components.export()
    np.testing.assert_array_equal(got_n[:K], n)
    np.testing.assert_allclose(got_S[:K], S, rtol=1e-10, atol=1e-9)
    rows = [0, 7, 11]
    expected = reference_predictive(family, X[rows], n, S)
    marginal = family.log_marginal(n, S)
    limit = {"rtol": tolerance, "atol": tolerance}
    for i, row in zip(rows, expected):
        scan = components.log_predictive(i)
        np.testing.assert_allclose(scan[:K], row, **limit)
        chosen = np.random.default_rng(i).permutation(K)
        np.testing.assert_allclose(components.log_predictive(i, chosen), scan[chosen], rtol=1e-12, atol=1e-11)
    np.testing.assert_allclose(components.log_marginal(range(K)), marginal, **limit)
    merged = family.log_marginal(n + n[0], S + S[0])
    np.testing.assert_allclose(components.log_merged(0, range(K)), merged, **limit)
    for slots in (range(K), [K - 1, 1]):  # all together, and one by one
        found = components.log_joint_predictive(0, slots)
        np.testing.assert_allclose(found, (merged - marginal)[list(slots)], **limit)
    for k in range(K):
        for i in groups[k][:2]:
            rest = [j for j in groups[k] if j != i]
            left = reference_predictive(family, X[[i]], *statistics(family, X, [rest]))[0, 0]
            assert components.log_predictive_self(i, k) == pytest.approx(left, rel=tolerance, abs=tolerance)


def walk(components, X, members, steps, rng):
    """Random changes, mirrored by lists of members."""
    K = len(members)
    free = [i for i in range(len(X)) if not any(i in g for g in members)]
    for _ in range(steps):
        k, other = (int(v) for v in rng.choice(K, 2, replace=False))
        move = rng.choice(
            ["add", "remove", "absorb", "subtract", "swap", "clear"], p=[0.6, 0.32, 0.02, 0.02, 0.03, 0.01]
        )
        if move == "add" and free:
            i = free.pop(int(rng.integers(len(free))))
            components.add(i, k)
            members[k].append(i)
        elif move == "remove" and members[k]:
            i = members[k].pop(int(rng.integers(len(members[k]))))
            components.remove(i, k)
            free.append(i)
        elif move == "absorb":
            components.absorb(k, other)
            members[k] += members[other]
            members[other] = []
        elif move == "subtract" and members[other] and not members[k]:
            for i in members[other]:
                components.add(i, k)
            components.subtract(k, other)
        elif move == "swap":
            components.swap(k, other)
            members[k], members[other] = members[other], members[k]
        elif move == "clear" and members[k]:
            components.clear(k)
            free += members[k]
            members[k] = []


def check_remainder(components, family, X, members):
    big = max(range(len(members)), key=lambda k: len(members[k]))
    part, empty = members[big][: len(members[big]) // 2], min(range(len(members)), key=lambda k: len(members[k]))
    if big == empty or not part:
        return
    components.clear(empty)
    members[empty] = []
    for i in part:
        components.add(i, empty)
    rest = members[big][len(part) :]
    expected = family.log_marginal(*statistics(family, X, [rest]))[0]
    assert components.log_remainder(big, empty) == pytest.approx(expected, rel=1e-9, abs=1e-9)
    components.subtract(big, empty)
    members[big], members[empty] = list(rest), list(part)
    assert components.log_marginal([big])[0] == pytest.approx(expected, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("d", WIDTHS)
@pytest.mark.parametrize("make", ALL)
def test_compiled_is_numpy_after_2000_changes(make, d):
    X = make_data(d, 120)
    data = Dataset(X, make())
    family = data.family
    components = Components(family, data, 11)
    assert not components.needs_gil
    members = [[] for _ in range(11)]
    check_against_numpy(components, family, X, members)
    fresh_bits = components.log_predictive(5)
    rng = np.random.default_rng(d)
    walk(components, X, members, 2000, rng)
    check_against_numpy(components, family, X, members)
    check_remainder(components, family, X, members)
    check_against_numpy(components, family, X, members)
    for k in range(11):
        for i in list(members[k]):
            components.remove(i, k)
    n, S = components.export()
    assert not n.any()
    assert not S.any()
    assert np.array_equal(components.log_predictive(5), fresh_bits)
    assert not components.log_marginal().any()


@pytest.mark.parametrize("kind", ["one strength", "two strengths", "two shapes"])
@pytest.mark.parametrize("most", [3, 5000.0, 4e6])
def test_joint_predictives_of_clusters_of_all_sizes(kind, most):
    """Sizes within and beyond the tables, fractional ones, empty clusters, and a last block that is not full."""
    rng = np.random.default_rng(0)
    strength, shape = np.array([0.1] * 5 + [3.0] * 4), np.full(9, 1.5)
    family = DiagonalGaussian(
        mean=0.3,
        mean_strength=0.1 if kind == "one strength" else strength,
        shape=shape + (np.arange(9) if kind == "two shapes" else 0.0),
        rate=2.0,
    )
    X = rng.normal(size=(6000, 9)) * np.geomspace(0.1, 30.0, 9)
    data = Dataset(X, family)
    family = data.family
    for whole in (True, False):
        n = rng.uniform(1.0, most, 21)
        n = np.floor(n) if whole else n
        n[[4, 20]] = 0.0
        n[[1, 7, 13]] = [1.0, 2.0, 17.0]  # small clusters in the block of a large one
        S = n[:, None] * rng.normal(size=(21, 9))
        S = np.hstack([S, n[:, None] * rng.uniform(0.5, 2.0, (21, 9)) + S**2 / np.maximum(n, 1.0)[:, None]])
        components = Components(family, data, 21)
        components.load(n, S)
        for k in (0, 1, 4, 7):
            expected = family.log_marginal(n + n[k], S + S[k]) - family.log_marginal(n, S)
            lost = 4e-15 * np.abs(family.log_marginal(n, S)).max()  # digits of the difference of two evidences
            np.testing.assert_allclose(components.log_joint_predictive(k, range(21)), expected, rtol=1e-9, atol=lost)


def test_joint_predictives_of_columns_far_from_one():
    """A product over eight columns leaves the range of doubles: evidences are subtracted in its place."""
    X = np.random.default_rng(0).normal(size=(40, 9)) * 1e-14
    X[20:25] = 1e9
    family = DiagonalGaussian(mean=0.0, mean_strength=1e-3, shape=1.0, rate=1e-30)
    data = Dataset(X, family)
    components = Components(data.family, data, 9)
    components.set_members(range(20), 0)
    components.set_members(range(20, 25), 8)
    components.add(30, 5)
    n, S = components.export()
    expected = data.family.log_marginal(n + n[8], S + S[8]) - data.family.log_marginal(n, S)
    np.testing.assert_allclose(components.log_joint_predictive(8, range(9)), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("make", ALL)
def test_a_slot_takes_members_in_place_of_those_it_has(make):
    X = make_data(3, 40)
    data = Dataset(X, make())
    one, other = Components(data.family, data, 3), Components(data.family, data, 3)
    one.set_members([5, 6], 1)
    for rows in ([7, 3, 11, 3], [8]):
        one.set_members(rows, 1)
        other.clear(1)
        for i in rows:
            other.add(i, 1)
        np.testing.assert_allclose(one.log_predictive(0), other.log_predictive(0), rtol=1e-12)
        np.testing.assert_array_equal(one.export()[1], other.export()[1])
    one.set_members([], 1)
    np.testing.assert_array_equal(one.log_predictive(0), Components(data.family, data, 3).log_predictive(0))
    with pytest.raises(IndexError, match="datum 40 does not exist"):
        one.set_members([1, 40], 1)


def csr_kinds():
    base = sparse.random_array((80, 50), density=0.15, rng=np.random.default_rng(1), format="csr")
    base.data[:] = np.random.default_rng(2).integers(1, 9, base.nnz)
    for dtype in (np.float64, np.float32, np.int64, np.int32):
        for index in (np.int32, np.int64):
            X = base.astype(dtype)
            X = sparse.csr_array((X.data, X.indices.astype(index), X.indptr.astype(index)), shape=X.shape)
            yield pytest.param(X, id=f"{np.dtype(dtype)}-{np.dtype(index)}")


@pytest.mark.parametrize("make", SPHERICAL)
@pytest.mark.parametrize("X", list(csr_kinds()))
def test_sparse_spherical_is_dense_spherical(X, make):
    data = Dataset(X, make())
    family, dense = data.family, X.toarray().astype(np.float64)
    assert data.X.indices.dtype == X.indices.dtype
    assert not family.center_.any()
    components = Components(family, data, 9)
    members = [[] for _ in range(9)]
    walk(components, dense, members, 1000, np.random.default_rng(3))
    check_against_numpy(components, family, dense, members)
    check_remainder(components, family, dense, members)
    np.testing.assert_allclose(family.log_base(X), family.log_base(dense), rtol=1e-12)
    labels = np.full(80, -1, dtype=np.int32)
    for k, group in enumerate(members):
        labels[group] = k
    distinct = Components(family, data, 9)
    distinct.refresh(labels)
    n, S = distinct.export()
    np.testing.assert_allclose(
        family.log_predictive(X, n, S), reference_predictive(family, dense, n, S), rtol=1e-9, atol=1e-9
    )
    for k in range(9):
        components.clear(k)
    assert not components.export()[1].any()
    assert np.array_equal(components.log_predictive(2), Components(family, data, 9).log_predictive(2))


@pytest.mark.parametrize("d", [3, 17])
@pytest.mark.parametrize("make", ALL)
def test_restored_components_continue_with_the_same_bits(make, d):
    X = make_data(d, 90)
    data = Dataset(X, make())
    first = Components(data.family, data, 6)
    members = [[] for _ in range(6)]
    walk(first, X, members, 700, np.random.default_rng(0))
    second = Components(data.family, data, 1)
    second.from_arrays(pickle.loads(pickle.dumps(first.to_arrays())))
    again = [list(g) for g in members]
    for components, groups in ((first, members), (second, again)):
        walk(components, X, groups, 500, np.random.default_rng(1))
    assert members == again
    for i in range(20):
        assert np.array_equal(first.log_predictive(i), second.log_predictive(i))
    assert np.array_equal(first.log_marginal(), second.log_marginal())
    for name, value in first.to_arrays().items():
        assert np.array_equal(value, second.to_arrays()[name]), name


@pytest.mark.parametrize("make", SPHERICAL)
def test_restored_sparse_components_continue_with_the_same_bits(make):
    X = sparse.random_array((60, 40), density=0.2, rng=np.random.default_rng(0), format="csr")
    data = Dataset(X, make())
    first, members = Components(data.family, data, 5), [[] for _ in range(5)]
    walk(first, X.toarray(), members, 400, np.random.default_rng(0))
    second = Components(data.family, data, 1)
    second.from_arrays(first.to_arrays())
    again = [list(g) for g in members]
    walk(first, X.toarray(), members, 200, np.random.default_rng(1))
    walk(second, X.toarray(), again, 200, np.random.default_rng(1))
    for i in range(20):
        assert np.array_equal(first.log_predictive(i), second.log_predictive(i))


@pytest.mark.parametrize("make", ALL)
@pytest.mark.parametrize("d", [4, 20])
def test_reserve_rebind_and_refresh_keep_the_model(make, d):
    X = make_data(d, 50)
    data = Dataset(X, make())
    components = Components(data.family, data, 3)
    labels = np.arange(50, dtype=np.int32) % 3
    labels[40:] = -1
    components.refresh(labels)
    members = [list(np.flatnonzero(labels == k)) for k in range(3)]
    before = components.log_predictive(44)
    components.reserve(21)
    assert components.capacity >= 21
    np.testing.assert_array_equal(components.log_predictive(44)[:3], before[:3])
    prior = Components(data.family, data, 1).log_predictive(44)[0]
    np.testing.assert_array_equal(components.log_predictive(44)[3:], prior)
    name = RATES.get(make, "mean_variance")
    other = data.family.with_hyper(**{name: 2.5 * getattr(data.family, name)})
    components.rebind(other)
    check_against_numpy(components, other, X, members)
    components.add(45, 20)
    components.load(np.array([2.5]), 2.5 * other.sufficient_statistics(X[:1]))
    assert components.export()[0].sum() == 2.5
    expected = reference_predictive(other, X[:4], np.array([2.5]), 2.5 * other.sufficient_statistics(X[:1]))
    np.testing.assert_allclose([components.log_predictive(i, [0])[0] for i in range(4)], expected[:, 0], rtol=1e-9)


@pytest.mark.parametrize("make", ALL)
def test_counts_beyond_the_tables(make):
    X = make_data(3, 40)
    data = Dataset(X, make())
    family = data.family
    n, S = statistics(family, X, [list(range(30)), list(range(20, 40))])
    n, S = n * 1e5, S * 1e5
    components = Components(family, data, 2)
    components.load(n, S)
    np.testing.assert_allclose(components.log_marginal(), family.log_marginal(n, S), rtol=1e-11)
    expected = reference_predictive(family, X[:5], n, S)
    found = [components.log_predictive(i) for i in range(5)]
    np.testing.assert_allclose(found, expected, atol=1e-6, rtol=0)  # the reference is a difference of numbers near 1e7


def test_columns_of_different_shapes():
    X = make_data(11)
    family = DiagonalGaussian(shape=np.linspace(1.0, 4.0, 11), mean_strength=np.linspace(0.1, 2.0, 11)).bind(X)
    data = Dataset(X, family)
    components = Components(family, data, 5)
    members = [[] for _ in range(5)]
    walk(components, X, members, 500, np.random.default_rng(0))
    check_against_numpy(components, family, X, members)


@pytest.mark.parametrize("make", ALL)
@pytest.mark.parametrize("d", [5, 18])
def test_float32_and_read_only_data(make, d):
    X = make_data(d, 40, dtype=np.float32)
    X.setflags(write=False)
    data = Dataset(X, make())
    assert np.shares_memory(data.X, X)
    components = Components(data.family, data, 3)
    members = [[] for _ in range(3)]
    walk(components, X, members, 200, np.random.default_rng(0))
    check_against_numpy(components, data.family, X, members)


@pytest.mark.parametrize("make", ALL)
@pytest.mark.parametrize("d", [3, 18])
def test_outliers_give_no_nan_and_refused_changes_change_nothing(make, d):
    X = make_data(d, 40)
    data = Dataset(X, make())
    family = data.family
    wild = X.copy()
    wild[0] *= 1e150
    wild[1, 0] = 1e300
    wild[2, 1] = -1e150
    data = Dataset(wild, family)
    components = Components(family, data, 9)
    for i in range(3, 40):
        components.add(i, i % 8)
    for i in range(2):
        for found in (components.log_predictive(i), components.log_predictive(i, range(9))):
            assert not np.isnan(found).any()
    for i in (0, 2):
        if make not in ONE_VARIANCE:
            assert np.isfinite(components.log_predictive(i)).all()
    before = components.to_arrays()
    bits = [components.log_predictive(i) for i in range(3, 9)]
    for i in range(3):
        with contextlib.suppress(FloatingPointError):
            components.add(i, 2)
            assert np.isfinite(components.log_predictive(9)).all()
            components.owner.from_arrays(before)
        for name, value in components.to_arrays().items():
            assert np.array_equal(value, before[name])
        assert all(np.array_equal(a, components.log_predictive(i)) for i, a in enumerate(bits, 3))


@pytest.mark.parametrize("d", [3, 16, 26])
@pytest.mark.parametrize("make", FULL)
def test_rotations_drift_by_rounding_only(make, d):
    """Clusters that never empty, through 20000 changes; every tenth datum lies ten times as far out as the others."""
    X = make_data(d, 60)
    X[::10] *= 10.0
    data = Dataset(X, make())
    components = Components(data.family, data, 2)
    members = np.arange(60) % 3 == 0
    for i in np.flatnonzero(members):
        components.add(i, 1)
    rng = np.random.default_rng(d)
    for i in rng.integers(0, 60, 20_000):
        if members[i] and members.sum() > 2:
            components.remove(i, 1)
        elif not members[i]:
            components.add(i, 1)
        else:
            continue
        members[i] = not members[i]
    fresh = Components(data.family, data, 2)
    fresh.refresh(np.where(members, 1, -1).astype(np.int32))
    for i in range(0, 60, 7):
        np.testing.assert_allclose(components.log_predictive(i), fresh.log_predictive(i), rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(components.log_marginal(), fresh.log_marginal(), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("make", ALL)
def test_impossible_calls_are_refused(make):
    X = make_data(3)
    data = Dataset(X, make())
    components = Components(data.family, data, 4)
    components.add(0, 1)
    before = components.to_arrays()
    for call in (
        lambda: components.remove(0, 0),
        lambda: components.absorb(1, 1),
        lambda: components.subtract(0, 1),
        lambda: components.log_remainder(0, 1),
        lambda: components.log_predictive_self(3, 0),
    ):
        with pytest.raises(SupportError, match="removing what is not there"):
            call()
    with pytest.raises(IndexError):
        components.add(0, 4)
    for name, value in components.to_arrays().items():
        assert np.array_equal(value, before[name])


def test_leaving_out_a_dominant_datum_keeps_its_digits():
    X = make_data(6, 30)
    X[0] += 1e4  # its square takes half of the digits of the sums
    for make in RATES:
        family = make(**{RATES[make]: 1.0}).bind(X)
        data = Dataset(X, family)
        components = Components(family, data, 2)
        components.add(0, 0)
        components.add(5, 0)
        rest = statistics(family, X, [[5]])
        expected = family.log_predictive(X[:1], *rest)[0, 0]
        assert components.log_predictive_self(0, 0) == pytest.approx(expected, rel=1e-6)


def test_predictive_block_is_row_by_row_in_threads():
    from expfam.structures.ground.threads import run

    X = make_data(6, 200)
    for make in ALL:
        data = Dataset(X, make())
        components = Components(data.family, data, 7)
        components.refresh(np.arange(200, dtype=np.int32) % 7)
        rows = np.array([components.log_predictive(i) for i in range(200)])
        tasks = [(start, start + 25, 7) for start in range(0, 200, 25)]
        parts = run(components.log_predictive_block, tasks, n_threads=2)
        np.testing.assert_array_equal(np.concatenate(parts), rows)


@pytest.mark.parametrize("scale", [1.0, 1e-14, 1e10])  # the outlier keeps within what columns may vary
@pytest.mark.parametrize("d", [1, 8, 11])
def test_merged_evidence_in_any_company(d, scale):
    """Of clusters of one and of many data, some far out: the same bits alone, in other places and from either side."""
    X = make_data(d, 90)
    X[7] *= 1e3
    X = X * scale
    for make in ALL if scale == 1.0 else (DiagonalGaussian, Gaussian, SphericalGaussian):
        data = Dataset(X, make())
        components = Components(data.family, data, 30)
        labels = np.minimum(np.arange(90), 29).astype(np.int32)
        components.refresh(labels)
        n, S = components.export()
        others = np.delete(np.arange(30), 7)
        found = components.log_merged(7, others)
        expected = data.family.log_marginal(n[7] + n[others], S[7] + S[others])
        np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8)
        assert found.tolist() == [components.log_merged(7, [k])[0] for k in others]
        assert found.tolist() == [components.log_merged(k, [7])[0] for k in others]
        assert found[::-1].tolist() == components.log_merged(7, others[::-1]).tolist()


@pytest.mark.parametrize("d", [1, 2, 7, 16, 30, 48])
def test_merged_evidence_of_lone_data_and_clusters(d):
    """Pairs with a lone datum, copies, half data of which there is one in all, far ones: the same from either side."""
    rng = np.random.default_rng(d)
    X = rng.normal(size=(120, d)) + 3.0 * rng.integers(3, size=(120, 1))
    X[1], X[2], X[3] = X[0], X[0] * 300.0, X[0] * 1e5
    data = Dataset(X, Gaussian())
    components = Components(data.family, data, 26)
    components.refresh(np.where(np.arange(120) < 20, np.arange(120), 20 + np.arange(120) % 5).astype(np.int32))
    n, S = components.export()
    n[25], S[25] = 1.0, 0.5 * (S[4] + S[5])  # one datum by its number alone
    components.load(n, S)
    slots = np.arange(26)
    found = np.array([components.log_merged(k, slots) for k in slots])
    np.fill_diagonal(found, 0.0)  # a slot with itself is nobody's pair
    assert np.array_equal(found, found.T)
    for k in slots:
        expected = data.family.log_marginal(n[k] + n, S[k] + S)
        others = slots != k
        near = others & (slots != 3) & (k != 3)  # at 1e5 standard deviations the statistics themselves lose digits
        np.testing.assert_allclose(found[k, near], expected[near], rtol=1e-10)
        np.testing.assert_allclose(found[k, others], expected[others], rtol=1e-6)
        assert found[k, others].tolist() == [components.log_merged(k, [l])[0] for l in slots[others]]
    assert np.array_equal(found[0, 4:], found[1, 4:])  # copies


def test_merged_evidence_of_two_far_data():
    """A million standard deviations from the prior, where the product of their squares would swallow the rest."""
    X = np.array([[1e6], [1e6 + 1.0], [-1e6], [-1e6 - 1.0]])
    data = Dataset(X, Gaussian(mean=[0.0], mean_strength=1.0, scale=[[1.0]], dof=3.0))
    components = Components(data.family, data, 4)
    components.refresh(np.arange(4, dtype=np.int32))
    n, S = components.export()
    for k in range(4):
        others = np.delete(np.arange(4), k)
        expected = data.family.log_marginal(n[k] + n[others], S[k] + S[others])
        np.testing.assert_allclose(components.log_merged(k, others), expected, rtol=1e-12)


ISA_SCRIPT = (
    NUMBERS_OF
    + """
import sys
import numpy as np
from expfam.families.components import Components
from expfam.families.gaussian.diagonal import DiagonalGaussian
from expfam.families.gaussian.full import Gaussian, ZeroMeanGaussian
from expfam.families.gaussian.spherical import SphericalGaussian
from expfam.model.data import Dataset
out = []
for d in (1, 5, 16, 19, 26):
    X = np.random.default_rng(0).standard_normal((60, d)) * 2.0 + 1.0
    for family in (
        *(Gaussian(), ZeroMeanGaussian(), DiagonalGaussian()),
        *(SphericalGaussian(variance) for variance in ("auto", "shared", 0.7)),
    ):
        data = Dataset(X, family)
        components = Components(data.family, data, 13)
        for i in range(60):
            components.add(i, i % 11)
        out.extend(numbers_of(components))
        lone = Components(data.family, data, 20)
        lone.refresh(np.minimum(np.arange(60), 19).astype(np.int32))
        out.extend(lone.log_merged(0, range(1, 20)))
        out.extend(lone.log_merged(19, range(19)))
np.save(sys.argv[1], np.array(out))
"""
)


def test_instruction_sets_agree(tmp_path):
    check_sets_agree(ISA_SCRIPT, tmp_path)


@pytest.mark.parametrize("d", [1, 2, 7, 40])
def test_inverses_by_factors_are_those_of_general_solvers(d):
    rng = np.random.default_rng(d)
    A = rng.normal(size=(30, d, 2 * d))
    M = A @ A.transpose(0, 2, 1)
    inverses, log_dets = inverse(M.copy(), "gaussian")
    np.testing.assert_allclose(inverses @ M, np.broadcast_to(np.eye(d), M.shape), atol=1e-8)
    assert np.array_equal(inverses, inverses.transpose(0, 2, 1))
    np.testing.assert_allclose(log_dets, np.linalg.slogdet(M)[1], rtol=1e-10, atol=1e-10)
    for bad in (-np.eye(d), np.full((d, d), np.nan)):
        M[11] = bad
        with pytest.raises(FloatingPointError, match="gaussian: the posterior scale of cluster 11 is not"):
            inverse(M.copy(), "gaussian")


def solved_prior(family, theta):
    """Log prior density of natural parameters by general solvers."""
    d = family.n_features_in_
    precision = -2.0 * unsvec(theta[:, d:], d)
    off = np.linalg.solve(precision, theta[:, :d, None])[:, :, 0] - (family.mean - family.center_)
    trace = np.einsum("ij,kji->k", family.scale, precision)
    away = family.mean_strength * np.einsum("ki,kij,kj->k", off, precision, off)
    return 0.5 * ((family.dof - d - 2.0) * np.linalg.slogdet(precision)[1] - trace - away)


@pytest.mark.parametrize("d", [1, 2, 7, 40])
def test_modes_and_prior_densities_are_those_of_general_solvers(d):
    X = make_data(d, offset=30.0)
    family = Gaussian(mean=20.0, scale=np.eye(d) + 0.1).bind(X)
    n, S = statistics(family, X, [[], [3], list(range(25))])
    theta, g = family.map_natural(n, S)
    m0, first, second = family.mean - family.center_, S[:, :d], unsvec(S[:, d:], d)
    strength = family.mean_strength + n
    mean = (family.mean_strength * m0 + first) / strength[:, None]
    scale = family.scale + second + family.mean_strength * np.outer(m0, m0)
    scale = scale - strength[:, None, None] * mean[:, :, None] * mean[:, None, :]
    precision = np.maximum(family.dof + n - d - 2.0, 1.0)[:, None, None] * np.linalg.inv(scale)
    np.testing.assert_allclose(theta[:, :d], np.einsum("kij,kj->ki", precision, mean), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(-2.0 * unsvec(theta[:, d:], d), precision, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(g, family.log_partition(theta), rtol=1e-9)
    np.testing.assert_allclose(family.log_prior(theta, g), solved_prior(family, theta), rtol=1e-9)
    theta[1, d] = 1.0  # a negative precision in one cluster changes no other
    changed = family.log_prior(theta, g)
    assert changed[1] == -np.inf
    np.testing.assert_allclose(changed[[0, 2]], solved_prior(family, theta[[0, 2]]), rtol=1e-9)
    S[2, d] = -1e9
    with pytest.raises(FloatingPointError, match="gaussian: the posterior scale of cluster 2 is not positive definite"):
        family.map_natural(n, S)


@pytest.mark.parametrize("kind", ["float64", "float32", "float16", "int8", "uint16", "int32"])
@pytest.mark.parametrize("d", [1, 3, 8, 17, 40])
def test_statistics_are_those_of_rows_in_double_precision(kind, d):
    X = (make_data(d) * 9.0).astype(kind)
    wide = X.astype(np.float64)
    for make in (DiagonalGaussian, *SPHERICAL, Gaussian):
        family = make().bind(X)
        x = wide - family.center_
        phi = family.sufficient_statistics(X)
        assert phi.dtype == np.float64
        np.testing.assert_array_equal(phi[:, :d], x)
        if make is DiagonalGaussian:
            np.testing.assert_array_equal(phi[:, d:], x * x)
        elif make is Gaussian:
            np.testing.assert_allclose(unsvec(phi[:, d:], d), x[:, :, None] * x[:, None, :], rtol=1e-15, atol=1e-300)
        elif make is not Known:
            np.testing.assert_allclose(phi[:, d], (x * x).sum(axis=1), rtol=1e-14)
        np.testing.assert_array_equal(family.sufficient_statistics(X[7:9]), phi[7:9])
        np.testing.assert_array_equal(family.sufficient_statistics(np.asfortranarray(X)), phi)
