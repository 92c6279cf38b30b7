"""Fast Bayesian clustering with exponential families.

Public names are loaded on first use, so that importing the package stays cheap.
"""

from importlib import import_module
from importlib.metadata import version as _version

__version__ = _version("expfam")

_HOMES = {
    "expfam.families.base": ["Family"],
    "expfam.families.counts.multinomial": ["Multinomial"],
    "expfam.families.counts.categorical": ["Categorical"],
    "expfam.families.counts.poisson": ["Poisson"],
    "expfam.families.gaussian.diagonal": ["Gaussian", "DiagonalGaussian", "SphericalGaussian", "ZeroMeanGaussian"],
    "expfam.model.data": ["Dataset"],
    "expfam.model.groups": ["Groups"],
    "expfam.model.weights": ["SymmetricDirichlet", "DirichletProcess", "PitmanYor"],
    "expfam.model.mixture": ["MixtureModel"],
    "expfam.model.admixture": ["AdmixtureModel"],
    "expfam.estimators.mixture": ["Mixture"],
    "expfam.estimators.topics": ["TopicModel"],
    "expfam.estimators.grouped": ["GroupedMixture"],
    "expfam.estimators.hierarchy": ["BayesianHierarchy"],
    "expfam.estimators.merge": ["merge"],
    "expfam.evaluation.metrics": ["variation_of_information", "purity"],
    "expfam.plugins.registry": ["load_family", "load_proposal", "list_plugins", "register"],
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = ["__version__", "get_include", *_HOME_OF]


def get_include():
    """Directory to put on a C compiler's include path for the headers of this package; Cython needs none."""
    from pathlib import Path

    return str(Path(__file__).parent)


def __getattr__(name):
    if name in _HOME_OF:
        value = globals()[name] = getattr(import_module(_HOME_OF[name]), name)
        return value
    raise AttributeError(f"module 'expfam' has no attribute {name!r}")


def __dir__():
    return sorted(__all__)
