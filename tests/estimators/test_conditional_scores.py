"""Scores given some columns are probabilities of the other columns, also where absence is itself a fact."""

import itertools

import numpy as np
import pytest
from holes import HoledGaussian, three_clusters
from scipy.special import logsumexp

from expfam import BayesianHierarchy, Categorical, Columns, DiagonalGaussian, GroupedMixture, Mixture, Poisson
from expfam.errors import CapabilityError

SIZE, KIND, EGGS, OWNER = range(4)
VALUES = {KIND: (0.0, 1.0, 2.0), EGGS: tuple(np.arange(150.0)), OWNER: (0.0, 1.0)}
HOLEY = (SIZE, KIND, EGGS)  # columns with holes in the data of the fit
MAY_BE_ABSENT = range(4)  # OWNER is of one part with KIND, which has a level for absent cells
NUMBERS = np.linspace(-400.0, 400.0, 40_001)


def rows():
    """Two clusters of a number, a category and a count with holes, mostly in one of them, and a whole category."""
    rng = np.random.default_rng(0)
    z = np.arange(80) % 2
    X = np.column_stack([rng.normal(9.0 * z, 1.0), (rng.random(80) < 0.3) + z, rng.poisson(3 + 20 * z), z])
    X[:, :3][rng.random((80, 3)) < np.where(z == 1, 0.5, 0.05)[:, None]] = np.nan
    return X


def fitted(kind, missing):
    parts = [(DiagonalGaussian(), (SIZE,)), (Categorical(), (KIND, OWNER)), (Poisson(), (EGGS,))]
    family = Columns(parts, missing=missing)
    if kind == "mixture":
        return Mixture(family, 2, n_steps=5, n_warmup=5, random_state=0).fit(rows())
    if kind == "tree":
        return BayesianHierarchy(family).fit(rows())
    groups = np.arange(80) % 4
    return GroupedMixture(family, 2, n_steps=20, n_warmup=5, random_state=0).fit(rows(), groups=groups)


@pytest.fixture(scope="module", params=["mixture", "tree", "groups"])
def kind(request):
    return request.param


@pytest.fixture(scope="module", params=["informative", "ignorable"])
def missing(request):
    return request.param


@pytest.fixture(scope="module")
def score(kind, missing):
    """Function of rows, each in a group of its own, and of the columns that are given."""
    model = fitted(kind, missing)

    def scored(X, given=None):
        options = {"groups": np.arange(len(X))} if kind == "groups" else {}
        return model.score_samples(X, given=given, **options)

    return scored


def every_row(base, columns, missing):
    """The row with each cell of some columns; where absence has a probability, also with each of them absent."""
    values = [VALUES[j] + (np.nan,) * (missing == "informative" and j in MAY_BE_ABSENT) for j in columns]
    X = np.array([base] * int(np.prod([len(some) for some in values])))
    X[:, columns] = list(itertools.product(*values))
    return X


BASE = np.array([8.5, 1.0, 21.0, 1.0])
GONE = [(), (SIZE,), (EGGS,), (KIND, EGGS), HOLEY]


@pytest.mark.parametrize("gone", GONE)
@pytest.mark.parametrize("columns", [[KIND], [OWNER], [KIND, OWNER], [KIND, EGGS], [EGGS, OWNER]])
def test_levels_and_counts_that_are_not_given_sum_to_one(score, missing, columns, gone):
    base = BASE.copy()
    base[list(gone)] = np.nan
    given = [j for j in range(4) if j not in columns]
    total = np.exp(logsumexp(score(every_row(base, columns, missing), given)))
    assert total == pytest.approx(1.0, abs=1e-6 if EGGS in columns else 1e-9)


@pytest.mark.parametrize("gone", GONE)
def test_numbers_that_are_not_given_integrate_to_one(score, missing, gone):
    X = np.tile(BASE, (len(NUMBERS) + 1, 1))
    X[:, gone] = np.nan
    X[:, SIZE] = np.append(NUMBERS, np.nan)
    density = np.exp(score(X, [KIND, EGGS, OWNER]))
    total = np.trapezoid(density[:-1], NUMBERS) + (density[-1] if missing == "informative" else 0.0)
    assert total == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("gone", GONE)
def test_all_but_one_given_is_joint_minus_marginal(score, kind, missing, gone):
    if kind == "groups":
        pytest.skip("the weights of a group come from the given cells alone")
    base = BASE.copy()
    base[list(gone)] = np.nan
    X = every_row(base, [KIND], missing)
    joint = score(X)
    np.testing.assert_allclose(score(X, [SIZE, EGGS, OWNER]), joint - logsumexp(joint), atol=1e-9)


def test_nothing_given_is_the_score_of_the_row(score, kind):
    if kind == "groups":
        pytest.skip("the weights of a group come from the given cells alone")
    np.testing.assert_allclose(score(rows()[:9], []), score(rows()[:9]), atol=1e-9)


def test_parts_of_categories_have_their_own_levels_and_concentration():
    X = np.array([[0, 2, 1], [1, 0, 0], [1, 1, 3]])
    family = Categorical(np.arange(1.0, 10.0)).bind(X)
    part, columns = family.of_columns([2, 0])
    assert columns.tolist() == [5, 6, 7, 8, 0, 1]
    assert part.concentration.tolist() == [6.0, 7.0, 8.0, 9.0, 1.0, 2.0]
    n, S = np.array([3.0]), family.sufficient_statistics(X.astype(float)).sum(axis=0)[None]
    alone = family.log_marginal_by_column(n, S)[0, [2, 0]].sum()
    assert part.log_marginal(n, S[:, columns])[0] == pytest.approx(alone)
    assert Categorical(n_levels=[2, 3, 4]).of_columns([1])[0].n_levels.tolist() == [3]


class Telling(HoledGaussian):
    """A family of somebody's own in which absence is a fact."""

    missing = "informative"


def test_a_family_that_takes_absence_for_a_fact_is_refused_by_name():
    X = three_clusters()[0]
    mixture = Mixture(Telling(), 3, n_steps=2, n_warmup=2, random_state=0).fit(X)
    with pytest.raises(CapabilityError, match="telling: absence itself tells something"):
        mixture.score_samples(X, given=[0])
