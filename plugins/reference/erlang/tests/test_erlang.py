import numpy as np
import pytest
from expfam_erlang import Erlang
from scipy import stats

from expfam import Mixture, load_family
from expfam.plugins.conformance import parametrize_with_checks


@parametrize_with_checks([Erlang(), Erlang(stages=1.0, a=2.0, b=3.0), Erlang(stages=7.0, a=0.5, b=0.1)])
def test_laws(family, check):
    check(family)


def test_it_is_found_by_name():
    assert load_family("erlang", stages=3.0) == Erlang(stages=3.0)


def test_densities_are_those_of_scipy():
    X = np.array([[0.5], [2.0]])
    family = Erlang(stages=3.0)
    theta, g = np.array([[-1.5]]), np.array([-3.0 * np.log(1.5)])
    log_density = family.sufficient_statistics(X) @ theta.T - g + family.log_base(X)[:, None]
    assert log_density[:, 0] == pytest.approx(stats.gamma.logpdf(X[:, 0], 3.0, scale=1 / 1.5), abs=1e-12)


def test_a_sampler_finds_two_paces():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.gamma(3.0, 1.0, size=(100, 6)), rng.gamma(3.0, 6.0, size=(100, 6))])
    labels = Mixture(Erlang(stages=3.0), n_components=2, random_state=0).fit(X).labels_
    assert len(set(labels[:100])) == len(set(labels[100:])) == 1
    assert labels[0] != labels[100]
