"""Compiled posterior means of one cluster, and statistics of one row: those of the family's own NumPy functions."""

import numpy as np
import pytest
from scipy.special import digamma
from tiny import FAMILIES

from expfam import Categorical, Columns, Dataset, DiagonalGaussian, Multinomial, Poisson, load_family
from expfam.families.components import Components
from expfam.families.natural import natural_law_of
from expfam.families.row_statistics import RowStatistics

pytestmark = pytest.mark.filterwarnings("ignore:multinomial. 1 of 5 rows is empty")
NUMPY_ONLY = ["von_mises_fisher_cluster"]


def a_table(missing="ignorable"):
    """Rows of seven columns of several kinds, with holes in four of them, and their family."""
    rng = np.random.default_rng(4)
    X = np.column_stack(
        [
            *(rng.normal(size=40), rng.normal(7.0, 3.0, 40), rng.poisson(4.0, 40), rng.poisson(2.0, 40)),
            *(rng.integers(0, 3, 40), rng.integers(0, 2, 40), rng.exponential(2.0, 40)),
        ]
    )
    for column in (1, 3, 4, 6):
        X[rng.random(40) < 0.3, column] = np.nan
    parts = [
        *((DiagonalGaussian(), (0, 1)), (Poisson(), (2,)), (load_family("negative_binomial"), (3,))),
        *((Categorical(), (4,)), (load_family("bernoulli"), (5,))),
    ]
    return X, parts, missing


def with_exponential(missing="ignorable"):
    X, parts, missing = a_table(missing)
    return Columns([*parts, (load_family("exponential"), (6,))], missing=missing), X


def compiled_only(missing="ignorable"):
    X, parts, missing = a_table(missing)
    return Columns(parts, missing=missing), X[:, :6]


CASES = FAMILIES | {
    "table": compiled_only(),
    "table_informative": compiled_only("informative"),
    "table_with_numpy": with_exponential(),
    "geometric": (load_family("geometric"), np.random.default_rng(0).poisson(3.0, (6, 3))),
    "fractions": (Multinomial(allow_fractional=True), np.random.default_rng(0).random((6, 4))),
}


def made(name):
    family, X = CASES[name]
    data = Dataset(X, family)
    labels = np.arange(data.n_rows) % 4
    return data, *data.statistics(labels, 5)  # one empty cluster


@pytest.mark.parametrize("name", CASES)
def test_one_cluster_has_the_posterior_means_of_its_family(name):
    data, n, S = made(name)
    S = S if isinstance(S, np.ndarray) else S.toarray()
    law = natural_law_of(data.family)
    theta, g = data.family.expected_natural(n, S)
    for k in range(5):
        own, own_g = law(n[k], S[k])
        np.testing.assert_allclose(own, theta[k], rtol=1e-10, atol=1e-10 * np.abs(theta[k]).max())
        assert own_g == pytest.approx(g[k], rel=1e-10)
    assert law.is_compiled is (name not in [*NUMPY_ONLY, "table_with_numpy"])


@pytest.mark.parametrize("name", CASES)
def test_statistics_of_a_row_are_added_and_taken_away(name):
    data, _, _ = made(name)
    statistics = RowStatistics(Components(data.family, data, 1).owner, data)
    start = np.arange(data.n_statistics) * 3.0
    for i in range(data.n_rows):
        for sign in (1.0, -1.0):
            expected = start + sign * data.phi(i, i + 1)[0]
            np.testing.assert_allclose(statistics.added(i, sign, start), expected, rtol=1e-13, atol=1e-13)


def test_components_that_read_other_rows_add_their_statistics():
    family, X = compiled_only()
    data = Dataset(X, family)
    components = Components(data.family, data, 2)
    other = Dataset(X[::-1].copy(), data.family)
    components.owner.set_data(other)
    found = RowStatistics(components.owner, other).added(3, 1.0, np.zeros(data.n_statistics))
    np.testing.assert_allclose(found, data.phi(36, 37)[0])


def test_sums_of_no_observed_row_count_as_zero():
    family, X = compiled_only()
    data = Dataset(X, family)
    n, S = data.statistics(np.zeros(len(X), dtype=int), 1)
    place = [part.reading for part in data.family._parts].index("observed")
    first = data.family.offsets_[place]
    S[0, first], S[0, first + 1] = -1e-17, 1e-9  # what rounding may leave
    theta, g = data.family.expected_natural(n, S)
    own, own_g = natural_law_of(data.family)(n[0], S[0])
    np.testing.assert_allclose(own, theta[0], rtol=1e-12)
    assert own_g == pytest.approx(g[0])


def test_a_subclass_with_other_means_is_asked_itself():
    class Halved(Poisson):
        def expected_natural(self, n, S):
            theta, g = super().expected_natural(n, S)
            return theta / 2, g

    class Heir(Halved):
        pass

    for kind in (Halved, Heir):
        family = kind(shape=1.0, rate=1.0).bind([[0, 1], [2, 3]])
        law = natural_law_of(family)
        assert not law.is_compiled
        np.testing.assert_allclose(law(1.0, [2.0, 0.0])[0], (digamma([3.0, 1.0]) - np.log(2.0)) / 2)


def test_an_exception_of_a_part_arrives():
    class Failing(Poisson):
        def expected_natural(self, n, S):
            raise RuntimeError("out of order")

    family = Columns([(DiagonalGaussian(), (0,)), (Failing(), (1,))]).bind(np.array([[0.5, 1.0], [0.7, 3.0]]))
    law = natural_law_of(family)
    for _ in range(2):  # the exception is not kept
        with pytest.raises(RuntimeError, match="out of order"):
            law(1.0, [0.5, 0.25, 1.0])
        assert law.pending is None


def test_an_exception_in_the_statistics_of_a_part_arrives():
    class Failing(Poisson):
        is_broken = False

        def sufficient_statistics(self, X):
            if Failing.is_broken:
                raise RuntimeError("no statistics")
            return super().sufficient_statistics(X)

    data = Dataset(np.array([[0.5, 1.0], [0.7, 3.0]]), Columns([(DiagonalGaussian(), (0,)), (Failing(), (1,))]))
    statistics = RowStatistics(Components(data.family, data, 1).owner, data)
    before = statistics.added(1, 1.0, np.zeros(data.n_statistics))
    Failing.is_broken = True
    with pytest.raises(RuntimeError, match="no statistics"):
        statistics.added(1, 1.0, before)
