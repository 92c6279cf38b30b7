"""Threads that read rows while a family is bound: same bits, same errors."""

import numpy as np
import pytest

from expfam import (
    Categorical,
    Columns,
    Dataset,
    DiagonalGaussian,
    LogNormal,
    MixtureModel,
    Poisson,
    SphericalGaussian,
    SymmetricDirichlet,
)
from expfam.errors import DataError
from expfam.plugins.registry import load_family
from expfam.structures.ground import threads
from expfam.structures.ground.threads import of_parts, rows_read_by

N = 3000
RNG = np.random.default_rng(0)
REAL = RNG.normal(size=(N, 3)) * [1, 5, 0.1] + [0, 100, 3]
HOLES = np.where(RNG.random((N, 3)) < 0.2, np.nan, REAL)
COUNTS, CODES = RNG.poisson(3, (N, 4)), RNG.integers(0, 4, (N, 2)).astype(float)
PARTS = [(DiagonalGaussian(), (0, 1, 2)), (Poisson(), (3,)), (Categorical(), (4, 5))]
CASES = {
    **{
        name: (load_family(name), REAL) for name in ("gaussian", "gaussian_diag", "gaussian_spherical", "gaussian_zero")
    },
    **{name: (load_family(name), COUNTS) for name in ("poisson", "multinomial", "negative_binomial")},
    "float32": (DiagonalGaussian(), REAL.astype(np.float32)),
    "rounded": (DiagonalGaussian(), REAL.round(1)),
    "lognormal": (LogNormal(), np.exp(REAL / 100)),
    "shared variance": (SphericalGaussian("shared"), REAL),
    "bernoulli": (load_family("bernoulli"), COUNTS > 2),
    "categorical": (Categorical(), CODES),
    "von_mises_fisher": (load_family("von_mises_fisher", normalize=True), REAL),
    "holes": (DiagonalGaussian(missing=True), HOLES),
    "table": (Columns(PARTS), np.column_stack([HOLES, COUNTS[:, 0], CODES])),
}


def numbers(family):
    """Return all numbers of a bound family by name, of a table those of its parts."""
    if isinstance(family, Columns):
        return {f"{place} {k}": v for place, part in enumerate(family.parts) for k, v in numbers(part[0]).items()}
    return {name: np.asarray(v) for name, v in vars(family).items() if isinstance(v, (float, int, np.ndarray))}


def assert_same(a, b):
    a, b = numbers(a), numbers(b)
    assert a.keys() == b.keys()
    for name in a:
        np.testing.assert_array_equal(a[name], b[name], err_msg=name)


@pytest.fixture
def small_parts(monkeypatch):
    monkeypatch.setattr(threads, "_PART_CELLS", 8)


@pytest.mark.parametrize(
    "weight", [None, RNG.integers(0, 4, N), RNG.gamma(1.0, size=N)], ids=["none", "times", "parts"]
)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.usefixtures("small_parts")
def test_families_are_bound_to_the_same_bits(name, weight):
    family, X = CASES[name]
    one, *others = (Dataset(X, family, weight=weight, n_threads=n_threads) for n_threads in (1, 2, 5))
    for other in others:
        assert_same(other.family, one.family)


@pytest.mark.usefixtures("small_parts")
def test_models_are_bound_to_the_same_bits():
    family, X = CASES["gaussian_diag"]
    model = MixtureModel(family, SymmetricDirichlet(3))
    bound = model.bind(X)
    assert_same(model.bind(X, n_threads=4).family, bound.family)
    assert_same(model.bind(Dataset(X, family), n_threads=4).family, bound.family)


@pytest.mark.usefixtures("small_parts")
def test_errors_name_the_first_cell():
    X = np.ones((40, 2))
    X[[13, 35], [1, 0]] = np.nan
    with pytest.raises(DataError, match="row 13, column 1 holds nan"):
        Dataset(X, DiagonalGaussian(), n_threads=4)


@pytest.mark.usefixtures("small_parts")
def test_threads_keep_what_is_silenced():
    large = np.full(10, 1e300)
    with rows_read_by(3), np.errstate(over="ignore"):
        found = of_parts(lambda start, stop: large[start:stop] ** 2, 10, 80)
    assert np.isinf(np.concatenate(found)).all()
    with rows_read_by(3), pytest.raises(RuntimeWarning, match="overflow"):
        of_parts(lambda start, stop: large[start:stop] ** 2, 10, 80)


@pytest.mark.usefixtures("small_parts")
def test_parts_are_all_rows_in_order():
    with rows_read_by(3):
        assert of_parts(lambda start, stop: list(range(start, stop)), 10, 80) == [[0, 1, 2], [3, 4, 5], [6, 7, 8, 9]]
        assert of_parts(lambda start, stop: (start, stop), 10, 15) == [(0, 10)]
        nested = of_parts(lambda start, stop: of_parts(lambda a, b: (a, b), stop - start, 80), 10, 80)
    assert nested == [[(0, 3)], [(0, 3)], [(0, 4)]]
    assert of_parts(lambda start, stop: (start, stop), 10, 80) == [(0, 10)]


def test_numbers_of_threads_are_checked():
    with pytest.raises(ValueError, match="n_threads"):
        Dataset([[1]], Poisson(), n_threads=0)
