"""Families are bound to weighted rows as to the rows repeated, whatever the order and the container."""

import numpy as np
import pytest
from scipy import sparse

from expfam import Categorical, Columns, Dataset, DiagonalGaussian, Family, Poisson, SphericalGaussian
from expfam.errors import DataError
from expfam.families.all_rows import RowsHere
from expfam.families.base import bound_family
from expfam.families.column_sums import column_sums, mean_squares_of_rows, means_of_rows
from expfam.families.weighing import counted_rows, takes_weight
from expfam.plugins.registry import load_family
from expfam.samplers.geometry.coordinates import Rows

N = 60
RNG = np.random.default_rng(0)
TIMES = RNG.integers(0, 4, N)
FRACTIONS = RNG.gamma(1.0, size=N)
REAL = RNG.normal(size=(N, 3)) * [1, 5, 0.1] + [0, 100, 3]
COUNTS = RNG.poisson(3, (N, 4))
UNIT = RNG.normal(size=(N, 4)) + 1
UNIT /= np.linalg.norm(UNIT, axis=1, keepdims=True)
CODES = RNG.integers(0, 4, (N, 2)).astype(float)
HOLES = np.where(RNG.random((N, 3)) < 0.2, np.nan, REAL)
TABLE = np.column_stack([HOLES, np.where(RNG.random(N) < 0.2, np.nan, COUNTS[:, 0]), CODES])
PARTS = [(DiagonalGaussian(), (0, 1, 2)), (Poisson(), (3,)), (Categorical(), (4, 5))]
GAUSSIANS = ("gaussian", "gaussian_diag", "gaussian_spherical", "gaussian_zero")
CASES = {
    **{
        name: (load_family(name), REAL) for name in ("gaussian", "gaussian_diag", "gaussian_spherical", "gaussian_zero")
    },
    **{name: (load_family(name), np.exp(REAL / 100)) for name in ("lognormal", "exponential")},
    **{name: (load_family(name), COUNTS) for name in ("poisson", "multinomial", "negative_binomial", "geometric")},
    "bernoulli": (load_family("bernoulli"), COUNTS > 2),
    "categorical": (load_family("categorical"), CODES),
    "frequencies": (Categorical(), CODES),
    "von_mises_fisher": (load_family("von_mises_fisher"), UNIT),
    "negative_binomial, r": (load_family("negative_binomial").with_hyper(r="auto"), COUNTS),
    "shared variance": (SphericalGaussian("shared"), REAL),
    "rounded": (DiagonalGaussian(), REAL[:, :1].round(1)),
    "holes": (DiagonalGaussian(missing=True), HOLES),
    "table": (Columns(PARTS), TABLE),
    "informative table": (Columns(PARTS, missing="informative"), TABLE),
}


def values(family):
    """Return all numbers of a bound family by name, of a table those of its parts."""
    if isinstance(family, Columns):
        return {f"{place} {k}": v for place, part in enumerate(family.parts) for k, v in values(part[0]).items()}
    return {name: np.asarray(v) for name, v in vars(family).items() if isinstance(v, (float, int, np.ndarray))}


def assert_equal(a, b, **tolerance):
    a, b = values(a), values(b)
    assert a.keys() == b.keys()
    for name in a:
        np.testing.assert_allclose(a[name], b[name], err_msg=name, **(tolerance or {"rtol": 0, "atol": 0}))


def containers(family, X):
    return [X, sparse.csr_array(X)] if family.accepts_sparse else [X]


@pytest.mark.parametrize("case", CASES)
def test_whole_weights_are_repeats(case):
    family, X = CASES[case]
    for rows in containers(family, X):
        repeated = rows[np.repeat(np.arange(N), TIMES)]
        assert_equal(family.bind(rows, weight=TIMES), family.bind(repeated), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("case", CASES)
def test_weights_of_zero_and_one_leave_out_rows(case):
    family, X = CASES[case]
    for rows in containers(family, X):
        assert_equal(family.bind(rows, weight=(TIMES > 0) * 1.0), family.bind(rows[TIMES > 0]))
        assert_equal(family.bind(rows, weight=np.ones(N)), family.bind(rows))


@pytest.mark.parametrize("case", CASES)
def test_binding_to_weighted_rows_does_not_see_their_order(case):
    family, X = CASES[case]
    order = np.random.default_rng(1).permutation(N)
    for rows in containers(family, X):
        assert_equal(
            family.bind(rows, weight=FRACTIONS), family.bind(rows[order], weight=FRACTIONS[order]), rtol=3e-16, atol=0
        )


@pytest.mark.parametrize("case", [name for name, (family, _) in CASES.items() if family.accepts_sparse])
@pytest.mark.parametrize("weight", [None, TIMES, FRACTIONS], ids=["none", "whole", "fractions"])
def test_dense_and_csr_rows_bind_alike(case, weight):
    family, X = CASES[case]
    if "gaussian" in case or "variance" in case:
        pytest.skip("the centre of CSR rows is 0")
    assert_equal(family.bind(X, weight=weight), family.bind(sparse.csr_array(X), weight=weight))


@pytest.mark.parametrize("case", CASES)
def test_coordinates_are_those_of_the_rows_repeated(case):
    family, X = CASES[case]
    for rows in containers(family, X):
        bound = family.bind(rows)
        weighted = Rows(Dataset(rows, bound, weight=TIMES)).dense(slice(None), None)
        repeated = Rows(Dataset(rows[np.repeat(np.arange(N), TIMES)], bound)).dense(slice(None), None)
        np.testing.assert_allclose(weighted[np.repeat(np.arange(N), TIMES)], repeated, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("case", ["gaussian_diag", "poisson", "categorical", "table", "von_mises_fisher"])
def test_a_row_of_weight_0_must_be_valid(case):
    family, X = CASES[case]
    X = np.array(X, dtype=float)
    X[7, -1] = np.inf
    with pytest.raises(DataError, match="row 7"):
        family.bind(X, weight=np.where(np.arange(N) == 7, 0.0, 1.0))


def test_a_level_of_a_row_of_weight_0_is_known():
    bound = Categorical().bind([[0.0], [1.0], [2.0]], weight=[1, 1, 0])
    assert bound.levels_.tolist() == [3]


def test_a_column_without_a_row_that_counts_is_named():
    X = np.array([[1.0, np.nan], [2.0, np.nan], [3.0, 5.0]])
    with pytest.raises(DataError, match=r"no row has .*1"):
        Columns([(DiagonalGaussian(), (0,)), (Poisson(), (1,))]).bind(X, weight=[1, 1, 0])


class OwnMean(DiagonalGaussian):
    """Family of an author who knows nothing of weights."""

    def resolve(self, X):
        return {**super().resolve(X), "mean": X.mean(axis=0)}


class OwnBinding(DiagonalGaussian):
    def bind(self, X):
        return super().bind(np.asarray(X))


@pytest.mark.parametrize("cls", [OwnMean, OwnBinding])
def test_a_family_that_takes_no_weights_gets_the_rows_that_count(cls):
    X, weight = [[0.0], [4.0], [1e6]], [1.0, 3.0, 0.0]
    for bound in (bound_family(cls(), X, weight), Dataset(X, cls(), weight=weight).family):
        assert bound.mean.tolist() == [2.0]
    assert not takes_weight(cls().bind) or not takes_weight(cls().resolve)


def test_a_family_in_numpy_may_take_weights():
    class Weighted(Family):
        def sufficient_statistics(self, X):
            return X

        def log_marginal(self, n, S):
            return np.zeros(len(n))

        def log_base(self, X):
            return np.zeros(len(X))

        def resolve(self, X, weight=None):
            return {"seen_": None if weight is None else weight.tolist()}

    assert Weighted().bind(np.eye(3), weight=[2, 0, 0.5]).seen_ == [2.0, 0.5]
    assert Weighted().bind(np.eye(3), weight=[1, 0, 1]).seen_ is None


def test_zero_weights_alone_are_refused():
    with pytest.raises(DataError, match="leave out such columns"):
        counted_rows(np.mean, np.ones((3, 1)), np.zeros(3))


@pytest.mark.parametrize("X", [COUNTS, UNIT, COUNTS / 7, UNIT.astype(np.float32)], ids=["whole", "unit", "7ths", "f4"])
@pytest.mark.parametrize("weight", [None, FRACTIONS], ids=["none", "fractions"])
def test_sums_of_columns_are_the_same_for_every_order_and_container(X, weight):
    order = np.random.default_rng(2).permutation(N)
    functions = [column_sums]
    functions += [lambda X, w, f=f: f(RowsHere(X, w)) for f in (means_of_rows, mean_squares_of_rows)]
    for function in functions:
        dense = function(X, weight)
        assert np.array_equal(dense, function(sparse.csr_array(X), weight))
        other = None if weight is None else weight[order]
        assert np.array_equal(dense, function(X[order], other))
        assert np.array_equal(dense, function(sparse.csr_array(X[order]), other))
    terms = X.astype(float) * (1.0 if weight is None else weight[:, None])
    np.testing.assert_allclose(column_sums(X, weight), terms.sum(axis=0), rtol=1e-13)


def test_sums_beyond_the_range_are_infinite():
    X = np.array([[1.5e300, 1.5], [1.5, 2.5]])
    assert column_sums(X).tolist() == column_sums(sparse.csr_array(X)).tolist() == [np.inf, 4.0]
