import numpy as np
import pytest
from expfam_rayleigh import Rayleigh
from scipy import stats

from expfam import load_family
from expfam.plugins.conformance import parametrize_with_checks


@parametrize_with_checks([Rayleigh(), Rayleigh(a=2.0, b=3.0)])
def test_laws(family, check):
    check(family)


def test_it_is_found_by_name():
    assert load_family("rayleigh", a=2.0) == Rayleigh(a=2.0)


def test_a_known_scale_is_recovered():
    X = stats.rayleigh.rvs(scale=3.0, size=(5000, 1), random_state=0)
    theta, _ = Rayleigh().expected_natural(np.array([5000.0]), (0.5 * X**2).sum(axis=0)[None])
    assert (-theta[0, 0]) ** -0.5 == pytest.approx(3.0, abs=5 * 3.0 / np.sqrt(4 * 5000))
