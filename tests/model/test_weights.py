"""Laws of the priors on weights: normalised, exchangeable, sequential, and their expectations."""

import pickle

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import trapezoid
from scipy.special import gammaln

from expfam.model.weights import DirichletProcess, PitmanYor, SymmetricDirichlet

PRIORS = [
    SymmetricDirichlet(1),
    SymmetricDirichlet(3, alpha=0.7),
    SymmetricDirichlet(10),
    DirichletProcess(alpha=0.3),
    DirichletProcess(alpha=4.0),
    PitmanYor(alpha=0.8, discount=0.3),
    PitmanYor(alpha=2.0, discount=0.0),
    PitmanYor(alpha=0.01, discount=0.9),
]
prior = pytest.mark.parametrize("weights", PRIORS, ids=repr)


def partitions(N):
    """Labels of all set partitions of N data, numbered by first appearance."""
    grown = [[0]]
    for _ in range(N - 1):
        grown = [[*z, k] for z in grown for k in range(max(z) + 2)]
    return np.array(grown)


def two_parameter(counts, strength, discount):
    """Pitman's formula by plain products, for any sign of the discount."""
    n = np.asarray(counts, dtype=int)
    value = np.prod([strength + b * discount for b in range(len(n))])
    value *= np.prod([np.prod(1.0 - discount + np.arange(m - 1)) for m in n])
    return np.log(value / np.prod(strength + np.arange(n.sum())))


@prior
@pytest.mark.parametrize("N", [1, 2, 5, 7])
def test_prior_of_all_partitions_sums_to_one(weights, N):
    total = sum(np.exp(weights.log_prior(np.bincount(z))) for z in partitions(N))
    assert total == pytest.approx(1.0, abs=1e-12)


@prior
def test_the_prior_is_a_part_of_the_number_and_a_part_of_the_sizes(weights):
    by_number = weights.log_prior_by_number(6, 6)
    for z in partitions(6):
        n = np.bincount(z).astype(float)
        parted = by_number[n.size] + gammaln(n + weights.offset).sum()
        assert parted == pytest.approx(weights.log_prior(n), abs=1e-12)


@prior
def test_prior_is_the_product_of_sequential_probabilities(weights):
    for z in partitions(6):
        log_p, counts = 0.0, np.zeros(6)
        for i, k in enumerate(z):
            B = int(np.count_nonzero(counts))
            mass = weights.log_new_mass(i, B)
            assert mass.shape == (B + 1,)
            log_mass = mass[B] if counts[k] == 0 else np.log(counts[k] + weights.offset)
            log_p += log_mass - np.log(i + weights.strength)
            counts[k] += 1
        assert log_p == pytest.approx(weights.log_prior(counts), abs=1e-12)


@prior
def test_prior_does_not_depend_on_the_order_of_blocks_and_ignores_empty_ones(weights):
    a = weights.log_prior([5, 1, 2])
    assert a == pytest.approx(weights.log_prior([1, 0, 2, 5]), abs=1e-12)
    assert weights.log_prior([]) == 0.0


@prior
def test_masses_add_up_to_the_normalizer(weights):
    n = np.array([4.0, 1.0, 2.0])[: weights.max_components or 3]
    mass = weights.log_new_mass(n.sum(), n.size)[-1]
    assert n.sum() + weights.strength == pytest.approx((n + weights.offset).sum() + np.exp(mass), rel=1e-14)
    p, new = weights.posterior_mean(np.append(n, 0.0))
    assert p[-1] == 0.0
    assert p.sum() + new == pytest.approx(1.0, abs=1e-14)
    assert p[0] == pytest.approx((n[0] + weights.offset) / (n.sum() + weights.strength), rel=1e-14)


def test_symmetric_dirichlet_is_pitman_yor_with_a_negative_discount():
    weights = SymmetricDirichlet(4, alpha=0.6)
    for counts in ([3], [2, 2], [5, 1, 1], [4, 3, 2, 1]):
        assert weights.log_prior(counts) == pytest.approx(two_parameter(counts, 4 * 0.6, -0.6), abs=1e-12)
    assert weights.log_prior([1] * 5) == -np.inf
    assert weights.log_new_mass(7, 5)[-2:].tolist() == [-np.inf, -np.inf]


@pytest.mark.parametrize(("alpha", "discount"), [(1.0, 0.25), (0.2, 0.8), (3.0, 0.0)])
def test_pitman_yor_is_pitmans_formula(alpha, discount):
    for counts in ([3], [2, 2], [5, 1, 1], [4, 3, 2, 1]):
        expected = two_parameter(counts, alpha, discount)
        assert PitmanYor(alpha=alpha, discount=discount).log_prior(counts) == pytest.approx(expected, abs=1e-12)


def test_discount_zero_is_the_dirichlet_process():
    n = [3.0, 0.5, 2.0]
    a, b = DirichletProcess(alpha=1.7), PitmanYor(alpha=1.7, discount=0.0)
    assert a.log_prior(n) == b.log_prior(n)
    np.testing.assert_array_equal(a.expected_log(n), b.expected_log(n))
    assert a.log_evidence(n) == b.log_evidence(n)


def test_a_tiny_discount_is_continuous():
    n = np.arange(1.0, 400.0)
    assert PitmanYor(alpha=1.0, discount=1e-12).log_prior(n) == pytest.approx(DirichletProcess().log_prior(n), rel=1e-9)


# ---- kept weights ------------------------------------------------------------------------------------------------

SIZES = np.array([4.0, 0.0, 2.5, 1.0])
KEPT = [
    SymmetricDirichlet(4),
    SymmetricDirichlet(4, alpha=2.0),
    DirichletProcess(alpha=1.5),
    PitmanYor(alpha=0.7, discount=0.4),
]


def sticks(weights, n, size, rng):
    """Posterior draws of sticks from NumPy's beta generator, (size, K)."""
    k = np.arange(1, n.size + 1)
    d = getattr(weights, "discount", 0.0)
    a, b = 1 - d + n, weights.alpha + d * k + np.append(np.cumsum(n[::-1])[::-1], 0.0)[1:]
    return rng.beta(a, b, size=(size, n.size))


@pytest.mark.parametrize("weights", KEPT, ids=repr)
def test_expected_log_matches_draws(weights):
    rng = np.random.default_rng(3)
    if isinstance(weights, SymmetricDirichlet):
        draws = np.array([weights.draw_log(SIZES, rng) for _ in range(6000)])
    else:
        v = sticks(weights, SIZES, 6000, rng)
        draws = np.log(v) + np.cumsum(np.log1p(-np.c_[np.zeros(len(v)), v[:, :-1]]), axis=1)
    error = draws.std(axis=0) / np.sqrt(len(draws))
    assert (np.abs(draws.mean(axis=0) - weights.expected_log(SIZES)) < 4.5 * error).all()


@pytest.mark.parametrize("weights", KEPT, ids=repr)
def test_draws_are_normalised_and_have_the_posterior_mean(weights):
    rng = np.random.default_rng(5)
    pi = np.exp([weights.draw_log(SIZES, rng) for _ in range(6000)])
    np.testing.assert_allclose(pi.sum(axis=1), 1.0, rtol=1e-12)
    if isinstance(weights, SymmetricDirichlet):
        a = weights.offset + SIZES
        mean, variance = a / a.sum(), stats.dirichlet(a).var()
    else:
        v = sticks(weights, SIZES, 60000, rng)
        v[:, -1] = 1.0
        closed = v * np.cumprod(np.c_[np.ones(len(v)), 1 - v[:, :-1]], axis=1)
        mean, variance = closed.mean(axis=0), closed.var(axis=0)
    assert (np.abs(pi.mean(axis=0) - mean) < 5 * np.sqrt(variance / 6000)).all()
    np.testing.assert_allclose(pi.var(axis=0), variance, rtol=0.15)


@pytest.mark.parametrize("weights", KEPT, ids=repr)
def test_map_maximises_its_objective_and_is_the_posterior_mean(weights):
    best = weights.map_log(SIZES)
    assert np.exp(best).sum() == pytest.approx(1.0, abs=1e-12)

    def objective(log_pi):
        return SIZES @ log_pi + weights.log_density(log_pi)

    rng = np.random.default_rng(1)
    for scale in (1e-3, 0.1, 1.0):
        for _ in range(30):
            other = best + scale * rng.normal(size=4)
            other -= np.log(np.exp(other).sum())
            assert objective(other) < objective(best)
    pi = np.exp([weights.draw_log(SIZES, rng) for _ in range(6000)])
    assert (np.abs(pi.mean(axis=0) - np.exp(best)) < 5 * pi.std(axis=0) / np.sqrt(6000)).all()


def test_log_density_is_normalised():
    # K = 2: one coordinate, the logit of pi_1
    t = np.linspace(-60, 60, 60001)
    for weights in (SymmetricDirichlet(2, alpha=0.6), DirichletProcess(alpha=1.5), PitmanYor(alpha=0.7, discount=0.4)):
        log_pi = np.array([-np.logaddexp(0, -t), -np.logaddexp(0, t)])
        density = np.exp([weights.log_density(column) for column in log_pi.T[::20]])
        assert trapezoid(density, t[::20]) == pytest.approx(1.0, abs=1e-5)


def test_evidence_of_labels_is_the_mean_of_their_probability():
    rng = np.random.default_rng(7)
    n = np.array([2.0, 0.0, 1.0])
    for weights in (DirichletProcess(alpha=1.5), PitmanYor(alpha=0.7, discount=0.4)):
        v = sticks(weights, np.zeros(3), 60000, rng)
        log_pi = np.log(v) + np.cumsum(np.log1p(-np.c_[np.zeros(len(v)), v[:, :-1]]), axis=1)
        p = np.exp(log_pi @ n)
        assert abs(p.mean() - np.exp(weights.log_evidence(n))) < 4.5 * p.std() / np.sqrt(len(p))
        assert weights.log_evidence(np.append(n, 0.0)) == pytest.approx(weights.log_evidence(n), abs=1e-13)
    weights = SymmetricDirichlet(3, alpha=0.5)
    named = [np.bincount(z, minlength=3) for z in np.ndindex(3, 3, 3)]
    assert sum(np.exp(weights.log_evidence(m)) for m in named) == pytest.approx(1.0, abs=1e-13)
    # labels name the blocks in K!/(K - B)! ways
    assert weights.log_evidence([2, 0, 1]) + np.log(6) == pytest.approx(weights.log_prior([2, 1]), abs=1e-13)


def test_tiny_concentrations_give_finite_draws():
    rng = np.random.default_rng(0)
    draws = np.array([SymmetricDirichlet(1000).draw_log(np.zeros(1000), rng) for _ in range(5)])
    assert np.isfinite(draws).all()
    assert draws.min() < -745  # where exp underflows


def test_draws_depend_on_the_generator_alone():
    for weights in KEPT:
        a, b = (weights.draw_log(SIZES, np.random.default_rng(4)) for _ in range(2))
        np.testing.assert_array_equal(a, b)


def test_no_sticks():
    weights, rng = DirichletProcess(), np.random.default_rng(0)
    for value in (weights.expected_log([]), weights.draw_log([], rng), weights.map_log([])):
        assert value.shape == (0,)
    assert weights.log_evidence([]) == 0.0


# ---- learning ----------------------------------------------------------------------------------------------------


def chain(weights, counts, size, **options):
    rng, values = np.random.default_rng(11), []
    for _ in range(size):
        weights = weights.update_hyper(counts, rng, **options)
        values.append(weights)
    return values


@pytest.mark.parametrize("weights", [DirichletProcess(alpha=50.0), SymmetricDirichlet(8, alpha=3.0)], ids=repr)
def test_learned_strength_has_its_posterior(weights):
    counts, shape, rate = np.array([30, 10, 5, 3, 2]), 2.0, 0.5
    draws = np.log([w.strength for w in chain(weights, counts, 3000, shape=shape, rate=rate)[50:]])
    t = np.linspace(-10, 8, 4001)
    scale = 8 if weights.max_components else 1
    log_p = np.array([weights.with_hyper(alpha=float(np.exp(x) / scale)).log_prior(counts) for x in t])
    log_p += stats.gamma(shape, scale=1 / rate).logpdf(np.exp(t)) + t
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    mean, sd = p @ t, np.sqrt(p @ t**2 - (p @ t) ** 2)
    assert abs(draws.mean() - mean) < 0.1 * sd
    assert draws.std() == pytest.approx(sd, rel=0.1)


def test_learned_discount_has_its_posterior():
    counts = np.array([40, 8, 3, 2, 1, 1, 1, 1, 1, 1])
    found = chain(PitmanYor(alpha=1.0, discount=0.5), counts, 3000)
    draws = np.array([w.discount for w in found[50:]])
    alpha, d = np.exp(np.linspace(-9, 4, 300)), (np.arange(200) + 0.5) / 200
    log_p = np.array([[PitmanYor(alpha=a, discount=x).log_prior(counts) + np.log(a) - a for x in d] for a in alpha])
    p = np.exp(log_p - log_p.max()).sum(axis=0)
    p /= p.sum()
    assert draws.mean() == pytest.approx(p @ d, abs=0.025)
    fixed = PitmanYor(alpha=1.0, discount=0.5).update_hyper(counts, np.random.default_rng(0), learn_discount=False)
    assert fixed.discount == 0.5
    assert fixed.alpha != 1.0
    assert PitmanYor(alpha=1.0, discount=0.0).update_hyper(counts, np.random.default_rng(0)).discount == 0.0


# ---- values ------------------------------------------------------------------------------------------------------


def test_weights_are_frozen_values():
    a = SymmetricDirichlet(4)
    assert a == SymmetricDirichlet(n_components=4)
    assert a != SymmetricDirichlet(4, alpha=0.25)
    assert a.alpha is None
    assert a.offset == 0.25
    assert a.get_params() == {"n_components": 4, "alpha": None}
    assert repr(PitmanYor()) == "PitmanYor(alpha=1.0, discount=0.25)"
    assert hash(DirichletProcess()) == hash(DirichletProcess(alpha=1.0))
    assert pickle.loads(pickle.dumps(a)) == a
    with pytest.raises(AttributeError):
        a.alpha = 1.0
    with pytest.raises(TypeError, match=r"no parameter.*beta"):
        a.with_hyper(beta=1)
    assert (a.max_components, DirichletProcess().max_components, PitmanYor().max_components) == (4, None, None)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: SymmetricDirichlet(0), "SymmetricDirichlet: n_components must be an integer of at least 1; got 0"),
        (lambda: SymmetricDirichlet(2.5), "n_components .* got 2.5"),
        (lambda: SymmetricDirichlet(3, alpha=-1.0), "alpha must be a positive finite number or None; got -1.0"),
        (lambda: DirichletProcess(alpha=0), "DirichletProcess: alpha must be a positive finite number; got 0"),
        (lambda: DirichletProcess(alpha=np.nan), "alpha .* got nan"),
        (lambda: DirichletProcess(alpha="1"), "alpha .* got '1'"),
        (lambda: PitmanYor(alpha=np.inf), "alpha .* got inf"),
        (lambda: PitmanYor(discount=1.0), r"PitmanYor: discount must be a number in \[0, 1\); got 1.0"),
        (lambda: PitmanYor(discount=-0.1), "discount .* got -0.1"),
        (lambda: DirichletProcess().log_prior([1, -2]), "non-negative; cluster 1 holds -2"),
        (lambda: SymmetricDirichlet(3).expected_log([1.0, 2.0]), r"shape \(3,\); got \(2,\)"),
        (lambda: DirichletProcess().update_hyper([1], None, rate=0), "rate must be a positive finite number; got 0"),
    ],
)
def test_bad_values_are_named(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_evidence_agrees_with_scipy():
    a = SymmetricDirichlet(3, alpha=0.5)
    n = np.array([2, 1, 4])
    coefficient = gammaln(n.sum() + 1) - gammaln(n + 1).sum()
    expected = stats.dirichlet_multinomial(np.full(3, 0.5), n.sum()).logpmf(n)
    assert a.log_evidence(n) + coefficient == pytest.approx(expected, abs=1e-12)
