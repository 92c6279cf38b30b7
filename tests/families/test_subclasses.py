"""Families below a compiled family: which ones may keep its components."""

import numpy as np
import pytest
from scipy import sparse

from expfam import Dataset, DiagonalGaussian, Multinomial, Poisson
from expfam.families.base import Family
from expfam.families.components import Components
from expfam.families.generic import GenericComponents

COUNTS = np.random.default_rng(0).poisson(2.0, size=(30, 4))


class Halved(Multinomial):
    """Half of the log evidence of its parent."""

    def log_marginal(self, n, S):
        return 0.5 * super().log_marginal(n, S)


class Below(Halved):
    """States no law of its own."""


class Again(Halved):
    """States how to compute the new law."""

    def components(self, data, capacity, *, layout="features"):
        return GenericComponents(self, data, capacity)

    def separable(self):
        a, f = Multinomial.separable(self)
        return (lambda n, total: 0.5 * a(n, total)), (lambda w, s: 0.5 * f(w, s))


class HalfOfAnother:
    """Not a family itself."""

    def log_marginal(self, n, S):
        return 0.5 * super().log_marginal(n, S)


class Mixed(HalfOfAnother, Multinomial):
    """Gets its law from a class that is no family."""


class Doubled(Poisson):
    """Reads twice the counts."""

    def sufficient_statistics(self, X):
        return 2.0 * super().sufficient_statistics(X)


class Bounded(DiagonalGaussian):
    """The law of its parent under another prior."""

    def resolve(self, X):
        return {**super().resolve(X), "dof": 9.0}


@pytest.mark.parametrize("cls", [Halved, Below, Again, Mixed, Doubled])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_components_follow_the_law_that_a_subclass_states(cls, kind):
    data = Dataset(kind(COUNTS), cls())
    labels = (np.arange(30) % 3).astype(np.int32)
    components = Components(data.family, data, 3)
    components.refresh(labels)
    n, S = data.statistics(labels, 3)
    dense = S.toarray() if sparse.issparse(S) else S
    A = data.family.log_marginal(n, dense)
    phi = np.asarray(data.family.sufficient_statistics(COUNTS), dtype=float)[7]
    predictives = data.family.log_marginal(n + 1, dense + phi) - A
    np.testing.assert_allclose(components.log_marginal(), A, rtol=1e-10)
    np.testing.assert_allclose(components.log_predictive(7, [0, 1, 2]), predictives, rtol=1e-9)
    np.testing.assert_allclose(data.family.log_predictive(kind(COUNTS)[7:8], n, S)[0], predictives, rtol=1e-9)
    assert data.family.total_log_marginal(n, S) == pytest.approx(A.sum(), rel=1e-12)


def test_a_law_of_its_own_is_told_from_one_that_is_inherited():
    for cls in (Halved, Below, Mixed, Doubled):
        assert cls.components is Family.components
        assert "compiled" not in cls().capabilities
    assert Again.components is not Family.components
    assert Again.separable is not Family.separable
    assert Bounded.components is DiagonalGaussian.components
    assert type(Dataset(COUNTS.astype(float), Bounded()).family).components is DiagonalGaussian.components
