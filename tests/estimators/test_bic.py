"""`Mixture.bic`: the formula, the numbers of free parameters, and what is refused."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.special import logsumexp
from sklearn.exceptions import NotFittedError
from sklearn.mixture import GaussianMixture

import expfam as ef
from expfam.errors import CapabilityError, DataWarning, PluginError

RNG = np.random.default_rng(0)
REAL = np.concatenate([RNG.normal(place, spread, size=(1000, 3)) for place, spread in ((0.0, 1.0), (9.0, 2.0))])
COUNTS = RNG.poisson(np.repeat([[1.0, 4.0, 2.0], [20.0, 3.0, 30.0]], 30, axis=0))
LEVELS = np.stack([np.arange(60) % 2, np.arange(60) % 3, np.arange(60) % 5], axis=1)
UNIT = REAL[::40] / np.linalg.norm(REAL[::40], axis=1, keepdims=True)
ANGLES = RNG.normal(np.repeat([[20.0, 80.0], [200.0, 300.0]], 30, axis=0), 5.0)
K = 4


@pytest.mark.parametrize(
    ("family", "X", "own", "shared"),
    [
        ("gaussian", REAL, 3 + 6, 0),
        ("gaussian_zero", REAL, 6, 0),
        (ef.DiagonalGaussian(alike=False), REAL, 6, 0),
        (ef.DiagonalGaussian(alike=[True, False, False]), REAL, 4, 2),
        (ef.DiagonalGaussian(alike=False, missing=True), REAL, 6, 0),
        ("lognormal", np.exp(REAL / 9.0), 6, 0),
        ("gaussian_spherical", REAL, 4, 0),
        (ef.SphericalGaussian(variance="shared"), REAL, 3, 1),
        (ef.SphericalGaussian(variance=2.0), REAL, 3, 0),
        ("poisson", COUNTS, 3, 0),
        ("multinomial", COUNTS, 2, 0),
        ("categorical", LEVELS, 1 + 2 + 4, 0),
        ("bernoulli", COUNTS > 5, 3, 0),
        ("geometric", COUNTS, 3, 0),
        ("negative_binomial", COUNTS, 3, 0),
        ("exponential", np.abs(REAL) + 0.1, 3, 0),
        ("von_mises_fisher", UNIT, 3, 0),
        (ef.load_family("von_mises_fisher", kappa="shared"), UNIT, 2, 1),
        (ef.load_family("von_mises_fisher", kappa=5.0), UNIT, 2, 0),
        ("von_mises", ANGLES, 4, 0),
        (ef.load_family("von_mises", kappa=5.0), ANGLES, 2, 0),
    ],
    ids=str,
)
def test_free_parameters_of_the_families(family, X, own, shared):
    family = (ef.load_family(family) if isinstance(family, str) else family).bind(np.asarray(X, dtype=np.float64))
    for n_clusters in (1, K):
        found = family.n_free_parameters(n_clusters)
        assert type(found) is int
        assert found == n_clusters * own + shared


def test_a_constant_column_has_no_part():
    X = REAL.copy()
    X[:, 1] = 7.0
    with pytest.warns(DataWarning, match="column 1 is constant"):
        assert ef.SphericalGaussian().bind(X).n_free_parameters(K) == K * 3
    with pytest.warns(DataWarning, match="column 1 is constant"):
        assert ef.DiagonalGaussian().bind(X).n_free_parameters(K) == K * 4 + 2


def test_a_family_that_is_not_bound_says_so():
    with pytest.raises(Exception, match="is not bound to data"):
        ef.Poisson().n_free_parameters(2)


@pytest.mark.parametrize(("missing", "more"), [("ignorable", 0), ("informative", 2 * K)])
def test_a_table_has_the_parameters_of_its_parts(missing, more):
    X = np.column_stack([REAL[:60, :2], COUNTS[:, :1], LEVELS[:, 1:2]]).astype(np.float64)
    X[::7, 2] = np.nan
    X[::5, 3] = np.nan
    parts = [(ef.Gaussian(), (0, 1)), (ef.Poisson(), (2,)), (ef.Categorical(), (3,))]
    family = ef.Columns(parts, missing=missing).bind(X)
    assert family.n_free_parameters(K) == K * (2 + 3 + 1 + 2) + more


# ---- the criterion ---------------------------------------------------------------------------------------------------


def test_it_is_the_formula_of_its_densities():
    mixture = ef.Mixture("gaussian", 2, random_state=0).fit(REAL)
    likelihood = mixture.score_samples(REAL, average=False).sum()
    assert mixture.bic(REAL) == pytest.approx(-2.0 * likelihood + (2 * 9 + 1) * np.log(2000), rel=1e-12)
    assert type(mixture.bic(REAL)) is float
    new = REAL[::3] + 0.1
    likelihood = mixture.score_samples(new, average=False).sum()
    assert mixture.bic(new) == pytest.approx(-2.0 * likelihood + (2 * 9 + 1) * np.log(len(new)), rel=1e-12)


COVARIANCES = {"gaussian": "full", "gaussian_diag": "diag", "gaussian_spherical": "spherical"}


@pytest.mark.parametrize("family", COVARIANCES)
def test_it_is_that_of_scikit_learn(family):
    chosen = ef.DiagonalGaussian(alike=False) if family == "gaussian_diag" else family
    mixture = ef.Mixture(chosen, 2, random_state=0).fit(REAL)
    kind, params = COVARIANCES[family], mixture.params_
    other = GaussianMixture(2, covariance_type=kind)
    other.weights_, other.means_ = mixture.weights_, params["mean"]
    other.covariances_ = params["covariance" if kind == "full" else "variance"]
    root = np.linalg.cholesky(np.linalg.inv(other.covariances_)) if kind == "full" else other.covariances_**-0.5
    other.precisions_cholesky_ = root
    n_free = 1 + mixture.family_.n_free_parameters(2)
    assert n_free == other._n_parameters()
    # the same formula with the same parameters
    scores = densities_at(mixture, params)
    np.testing.assert_allclose(scores, other.score_samples(REAL), rtol=1e-9)
    same = -2.0 * scores.sum() + n_free * np.log(len(REAL))
    assert same == pytest.approx(other.bic(REAL), rel=1e-9)
    # densities of the posterior come close to it with many rows: by less than half of one parameter's penalty
    assert abs(mixture.bic(REAL) - other.bic(REAL)) < 0.5 * np.log(len(REAL))


def densities_at(mixture, params):
    """Log densities of the rows at parameters, by the family's own likelihood."""
    family = mixture.family_
    theta, g = family.from_params(**params)
    X = family.validate(REAL)
    each = family.log_likelihood(family.sufficient_statistics(X), theta, g) + family.log_base(X)[:, None]
    return logsumexp(each + np.log(mixture.weights_), axis=1)


def test_an_open_number_counts_the_clusters_that_were_found():
    mixture = ef.Mixture(ef.DiagonalGaussian(alike=False), random_state=0).fit(REAL)
    K = mixture.n_components_
    likelihood = mixture.score_samples(REAL).sum()
    assert mixture.bic(REAL) == pytest.approx(-2.0 * likelihood + (6 * K + K - 1) * np.log(2000), rel=1e-12)


def test_draws_do_not_enter():
    mixture = ef.Mixture("gaussian", 2, n_draws=5, n_steps=10, random_state=0).fit(REAL[::20])
    likelihood = mixture.score_samples(REAL[::20], average=False).sum()
    assert mixture.bic(REAL[::20]) == pytest.approx(-2.0 * likelihood + 19 * np.log(100), rel=1e-12)


def test_the_true_number_is_the_lowest():
    numbers = {K: ef.Mixture("gaussian", K, random_state=0).fit(REAL).bic(REAL) for K in (1, 2, 4)}
    assert min(numbers, key=numbers.get) == 2


def test_frames_with_holes_sparse_rows_and_files(tmp_path):
    table = pd.DataFrame({"size": REAL[::40, 0], "kind": ["a", "b", None, "c", "a"] * 10})
    table.loc[3, "size"] = np.nan
    mixture = ef.Mixture(n_components=2, random_state=0).fit(table)
    likelihood = mixture.score_samples(table).sum()
    n_free = 1 + mixture.family_.n_free_parameters(2)
    assert mixture.bic(table) == pytest.approx(-2.0 * likelihood + n_free * np.log(50), rel=1e-12)
    words = sparse.csr_array(COUNTS)
    counted = ef.Mixture(ef.Multinomial(), 2, random_state=0).fit(words)
    assert counted.bic(words) == pytest.approx(counted.bic(COUNTS), rel=1e-12)
    counted.save(tmp_path / "model")
    assert ef.Mixture.load(tmp_path / "model").bic(COUNTS) == counted.bic(COUNTS)


# ---- what is refused -------------------------------------------------------------------------------------------------


class Silent(ef.Family):
    """Poisson columns whose author says nothing of free parameters."""

    support = "counts"

    def sufficient_statistics(self, X):
        return X

    def log_marginal(self, n, S):
        return ef.Poisson(1.0, 1.0).log_marginal(n, S)


class Told(Silent):
    """The same with the line that the error names."""

    def n_free_parameters(self, n_clusters):
        return n_clusters * self.n_statistics_


def test_a_family_that_does_not_say_it_is_refused_with_the_line():
    line = r"write in class Silent def n_free_parameters\(self, n_clusters\): return n_clusters \* self\.n_statistics_"
    for family, X in (
        (Silent(), COUNTS),
        (ef.Columns([(Silent(), (0, 1)), (ef.Poisson(), (2,))]), COUNTS.astype(float)),
    ):
        mixture = ef.Mixture(family, 2, n_steps=5, random_state=0).fit(X)
        with pytest.raises(CapabilityError, match=rf"family 'silent' does not say how many free .*{line}"):
            mixture.bic(X)
    told = ef.Mixture(Told(), 2, n_steps=5, random_state=0).fit(COUNTS)
    likelihood = told.score_samples(COUNTS).sum()
    assert told.bic(COUNTS) == pytest.approx(-2.0 * likelihood + 7 * np.log(60), rel=1e-12)


@pytest.mark.parametrize("number", [3.5, -1, True, None])
def test_what_is_no_number_of_parameters_is_refused(number):
    cls = type("Odd", (Silent,), {"n_free_parameters": lambda self, n_clusters: number})
    mixture = ef.Mixture(cls(), 2, n_steps=5, random_state=0).fit(COUNTS)
    with pytest.raises(PluginError, match="family 'odd': n_free_parameters must return an integer of at least 0; got"):
        mixture.bic(COUNTS)


class Doubled(ef.Poisson):
    """Another law than that of its parent."""

    def sufficient_statistics(self, X):
        return 2.0 * super().sufficient_statistics(X)


def test_what_was_said_of_another_law_does_not_count():
    with pytest.raises(CapabilityError, match="write in class Doubled def n_free_parameters"):
        Doubled().bind(COUNTS).n_free_parameters(2)
    cls = type("Bounded", (ef.Poisson,), {"bounds": (0, 99)})
    assert cls().bind(COUNTS).n_free_parameters(2) == 6


def test_a_mixture_that_is_not_fitted_is_refused():
    with pytest.raises(NotFittedError):
        ef.Mixture().bic(REAL)


@pytest.mark.parametrize("kind", [ef.GroupedMixture, ef.TopicModel, ef.BayesianHierarchy])
def test_where_it_has_no_meaning_the_error_says_what_to_use(kind):
    with pytest.raises(AttributeError, match=rf"{kind.__name__} has no bic: .* write model\.log_joint_"):
        kind().bic(COUNTS)
