"""Compiled learning of the hyper-parameters of columns gives the bits of the general way."""

import numpy as np
import pytest

from expfam import Dataset, DiagonalGaussian, Family
from expfam.families.gaussian._evidence import ColumnHyper

NAMES = ("mean_strength", "rate", "alike")


def clusters(n_noise=3, n_rows=240, seed=0):
    """A family whose last columns tell nothing, and the statistics of four clusters."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 4, n_rows)
    X = rng.normal(size=(n_rows, 2 + n_noise)) * np.linspace(0.5, 3.0, 2 + n_noise)
    X[:, :2] += 6.0 * rng.normal(size=(4, 2))[labels]
    data = Dataset(X, DiagonalGaussian(shape=np.linspace(1.0, 3.0, 2 + n_noise)))
    return data.family, *data.statistics(labels, 4)


def assert_same(a, b):
    assert not a.differences(b)
    assert a.__dict__.keys() == b.__dict__.keys()
    assert a.hyper_factors_ == b.hyper_factors_


@pytest.mark.parametrize("names", [NAMES, NAMES[::-1], ("rate",), ("alike", "rate")])
@pytest.mark.parametrize("n_noise", [0, 9])
def test_modes_are_those_of_the_general_way(names, n_noise):
    family, n, S = clusters(n_noise)
    fitted = family.fit_hyper(n, S, names=names)
    assert_same(fitted, Family.fit_hyper(family, n, S, names=names))
    assert fitted.differences(family)
    assert np.any(fitted.alike) == ("alike" in names and n_noise > 0)
    assert_same(fitted.fit_hyper(n, S, names=names), Family.fit_hyper(fitted, n, S, names=names))


@pytest.mark.parametrize("n_noise", [0, 9])
def test_draws_are_those_of_the_general_way(n_noise):
    family, n, S = clusters(n_noise)
    other, rngs = family, [np.random.default_rng(1), np.random.default_rng(1)]
    for _ in range(20):
        family = family.update_hyper(n, S, rngs[0], names=NAMES)
        other = Family.update_hyper(other, n, S, rngs[1], names=NAMES)
        assert_same(family, other)
    assert rngs[0].random() == rngs[1].random()


def test_nothing_is_left_where_all_columns_are_alike():
    family, n, S = clusters()
    alike = family.with_hyper(alike=np.ones(5))
    names = ("mean_strength", "rate")
    assert_same(alike.fit_hyper(n, S, names=names), Family.fit_hyper(alike, n, S, names=names))
    ways = (Family.update_hyper, type(alike).update_hyper)
    drawn = [way(alike, n, S, np.random.default_rng(2), names=names) for way in ways]
    assert_same(*drawn)


def test_evidences_beyond_the_range_are_computed_in_the_general_way():
    family, n, S = clusters()
    tiny = family.with_hyper(rate=np.full(5, 1e-303))  # the compiled evidence leaves its range along the rate
    n, S = np.append(n, 0.0), np.vstack([S, np.zeros(10)])
    assert_same(tiny.fit_hyper(n, S, names=("rate",)), Family.fit_hyper(tiny, n, S, names=("rate",)))
    rngs = [np.random.default_rng(3), np.random.default_rng(3)]
    drawn = tiny.update_hyper(n, S, rngs[0], names=("rate",)), Family.update_hyper(tiny, n, S, rngs[1], names=("rate",))
    assert_same(*drawn)


def test_impossible_statistics_are_refused():
    family, n, S = clusters()
    S = S.copy()
    S[1, 5:] = np.nan
    with pytest.raises(FloatingPointError, match="cluster 1"):
        family.update_hyper(n, S, np.random.default_rng(0), names=("alike",))
    with pytest.raises(FloatingPointError, match="cluster 1"):
        family.fit_hyper(n, S, names=("alike",))
    with pytest.raises(ValueError, match="do not agree"):
        ColumnHyper(np.ones((3, 1)), S, family._prior(), family.alike, {})


def test_a_family_with_other_evidence_keeps_the_general_way():
    class Flat(DiagonalGaussian):
        def _evidence_along(self, name, n, S):
            return lambda t: 0.0  # only the prior of the factor is left: its mode is the value at binding

    _, n, S = clusters()
    flat = Flat().bind(np.random.default_rng(0).normal(size=(30, 5)))
    fitted = flat.fit_hyper(n, S, names=("rate",))
    assert abs(np.log(fitted.hyper_factors_["rate"])) < 0.05
