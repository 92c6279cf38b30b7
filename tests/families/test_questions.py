"""The questions that samplers and estimators ask a family about its data."""

import numpy as np
import pytest
from holes import HoledGaussian, three_clusters
from scipy import sparse

from expfam import Categorical, DiagonalGaussian, Multinomial, Poisson, SphericalGaussian, load_family
from expfam.plugins.laws.data_case import made_up_data
from expfam.plugins.registry import list_plugins

NAMES = sorted({plugin.name for plugin in list_plugins("family")} & {
    "bernoulli", "categorical", "exponential", "gaussian", "gaussian_diag", "gaussian_spherical", "gaussian_zero",
    "geometric", "multinomial", "negative_binomial", "poisson", "von_mises_fisher",
})  # fmt: skip


def test_answers_follow_from_the_support():
    for name in NAMES:
        family = load_family(name)
        bound = family.bind(made_up_data(family.support, 3, np.random.default_rng(0)))
        discrete = family.support in ("counts", "categories", "binary")
        assert family.is_discrete is family.has_exact_sums is discrete, name
        assert family.has_counts is (family.support == "counts"), name
        assert bound.nonnegative_statistics.tolist() == [discrete or name == "exponential"] * bound.n_statistics_
        assert family.is_metric is (name in ("gaussian_spherical", "von_mises_fisher")), name
        assert family.allows_missing is False
        assert family.has_own_coordinates is (name == "von_mises_fisher"), name


def test_tags_say_what_data_a_family_takes():
    plain = dict.fromkeys(("sparse", "allow_nan", "positive_only", "categorical", "string", "real"), False)
    assert DiagonalGaussian().tags() == plain | {"real": True}
    assert SphericalGaussian().tags() == plain | {"real": True, "sparse": True}
    assert Poisson().tags() == plain | {"sparse": True, "positive_only": True}
    assert Categorical().tags() == plain | {"categorical": True}
    assert HoledGaussian().tags() == plain | {"real": True, "allow_nan": True}


@pytest.mark.filterwarnings("ignore::expfam.errors.DataWarning")  # constant columns
def test_coordinates_of_each_kind_of_data():
    X = np.array([[1.0, 5.0], [3.0, 5.0], [5.0, 5.0]])
    assert np.allclose(DiagonalGaussian().bind(X).coordinates(X), [[-(1.5**0.5), 0], [0, 0], [1.5**0.5, 0]])
    assert np.array_equal(Poisson().bind(X).coordinates(X), np.sqrt(X))
    codes = np.array([[0.0, 1.0], [1.0, 0.0]])
    assert np.array_equal(Categorical().bind(codes).coordinates(codes).toarray(), [[1, 0, 0, 1], [0, 1, 1, 0]])
    scaled = SphericalGaussian().bind(sparse.csr_array(X)).coordinates(sparse.csr_array(X))
    assert np.allclose(scaled.toarray()[:, 0], X[:, 0] / np.std(X[:, 0]))
    shares = Multinomial().bind(X).neighbour_map(X)(X)
    assert np.allclose((shares**2).sum(axis=1), 1.0)
    assert np.array_equal(SphericalGaussian().bind(X).neighbour_map(X)(X), X)


def test_a_missing_value_has_the_coordinate_of_the_mean(monkeypatch):
    X, _ = three_clusters()
    X = np.concatenate([X, np.full((len(X), 1), np.nan)], axis=1)  # a column without values
    family = HoledGaussian().bind(X)
    points = family.coordinates(X)
    assert not points[np.isnan(X)].any()
    assert np.allclose(points[:, :3].sum(axis=0), 0.0)
    assert np.allclose((points[:, :3] ** 2).sum(axis=0), (~np.isnan(X[:, :3])).sum(axis=0))
    monkeypatch.setattr("expfam.families.column_summaries._READ_AS_THEY_LIE", ())
    monkeypatch.setattr("expfam.families.column_summaries._BLOCK_CELLS", 4 * 7)
    assert np.allclose(family.coordinates(X), points, rtol=1e-12, atol=1e-12)


class Positive(DiagonalGaussian):
    """Has coordinates of its own."""

    def coordinates(self, X):
        return np.log1p(np.abs(X)).astype(np.float32)


class Shifted(DiagonalGaussian):
    """Has coordinates that depend on all data."""

    def coordinate_map(self, X):
        lowest = X.min(axis=0)
        return lambda rows: rows - lowest


@pytest.mark.parametrize("cls", [Positive, Shifted])
def test_own_coordinates_are_those_of_starts_and_of_proposals(cls):
    X = np.random.default_rng(0).normal(size=(9, 2))
    family = cls().bind(X)
    assert family.has_own_coordinates
    expected = np.log1p(np.abs(X)).astype(np.float32) if cls is Positive else X - X.min(axis=0)
    for of_rows in (family.coordinates, family.coordinate_map(X), family.neighbour_map(X)):
        assert np.array_equal(of_rows(X), expected)


@pytest.mark.filterwarnings("ignore::expfam.errors.DataWarning")  # rows of zeros
def test_example_rows_bind_every_family():
    for name in NAMES:
        family = load_family(name)
        for n_columns in (2, 5):
            rows = family.example_rows(n_columns)
            assert rows.shape == (2, n_columns)
            assert family.bind(rows).n_features_in_ == n_columns
    bound = Categorical(n_levels=[2, 5]).bind([[0, 3]])
    assert bound.example_rows(2).tolist() == [[0, 0], [1, 4]]
