"""Compiled statistics of rows have the bits of the family's own, for each family that has them."""

import numpy as np
import pytest

import expfam
from expfam.families.compiled_phi import compiled_phi_of


def rows(n_columns, *, is_open=False):
    X = np.random.default_rng(n_columns).normal(1e3, 2.0, size=(40, n_columns))
    if is_open:
        X[::3, 0] = np.nan
    return X


FAMILIES = {
    "diagonal": (expfam.DiagonalGaussian(), False),
    "diagonal, holes": (expfam.DiagonalGaussian(missing=True), True),
    "spherical": (expfam.SphericalGaussian(), False),
    "spherical, known": (expfam.SphericalGaussian(variance=2.0), False),
}


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("n_columns", [1, 7, 16, 33])
@pytest.mark.parametrize("name", FAMILIES)
def test_statistics_have_the_same_bits(name, n_columns, kind):
    family, is_open = FAMILIES[name]
    X = rows(n_columns, is_open=is_open).astype(kind)
    family = family.bind(X)
    assert np.array_equal(compiled_phi_of(family)(X), family.sufficient_statistics(X))


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_unit_rows_are_their_own_statistics(kind):
    X = rows(5).astype(kind)
    X /= np.sqrt((X * X).sum(axis=1, keepdims=True))
    family = expfam.VonMisesFisher(normalize=False).bind(X)
    assert np.array_equal(compiled_phi_of(family)(X), X)


@pytest.mark.parametrize(
    "family", [expfam.VonMisesFisher(normalize=True), expfam.LogNormal(), expfam.Gaussian(), expfam.Poisson()]
)
def test_other_families_have_none(family):
    X = np.abs(rows(4)).round()
    assert compiled_phi_of(family.bind(X)) is None


def test_a_family_with_its_own_statistics_does_not_inherit_them():
    class Doubled(expfam.DiagonalGaussian):
        def sufficient_statistics(self, X):
            return 2.0 * super().sufficient_statistics(X)

    assert compiled_phi_of(Doubled().bind(rows(3))) is None


def test_the_compiled_form_is_that_of_the_bound_center():
    X = rows(3)
    first, second = expfam.DiagonalGaussian().bind(X), expfam.DiagonalGaussian().bind(X + 100.0)
    assert not np.array_equal(compiled_phi_of(first)(X), compiled_phi_of(second)(X))
