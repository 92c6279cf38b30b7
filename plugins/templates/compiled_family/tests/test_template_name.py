import numpy as np
from expfam_template_name import TemplateName
from scipy import stats

from expfam import Mixture, load_family
from expfam.plugins.conformance import parametrize_with_checks


@parametrize_with_checks([TemplateName(), TemplateName(a=0.5, b=2.0)])
def test_laws(family, check):
    check(family)


def test_it_is_found_by_name():
    assert load_family("template_name", a=2.0) == TemplateName(a=2.0)


def test_the_predictive_is_the_known_one():
    """Compare with SciPy: the laws also hold for a correct family that is not the one you want."""
    n, S, x = np.array([3.0]), np.array([[7.0]]), np.arange(9.0)[:, None]
    family = TemplateName(a=2.0, b=1.5).bind(x)
    known = stats.nbinom(2.0 + 7.0, (1.5 + 3.0) / (1.5 + 4.0)).logpmf(x[:, 0])
    log_density = family.log_predictive(x, n, S)[:, 0] + family.log_base(x)
    np.testing.assert_allclose(log_density, known, rtol=1e-12)


def test_a_mixture_finds_planted_clusters():
    X = np.random.default_rng(0).poisson(np.repeat([[1.0, 30.0], [30.0, 1.0]], 40, axis=0))
    labels = Mixture("template_name", 2, n_steps=20, random_state=0).fit(X).labels_
    assert (labels[:40] == labels[0]).all()
    assert (labels[40:] == 1 - labels[0]).all()
