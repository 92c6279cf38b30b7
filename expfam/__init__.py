"""Fast Bayesian clustering with exponential families.

Public names are loaded on first use, so that importing the package stays cheap.
"""

from importlib import import_module
from typing import Any

from expfam.lazy import load_name

_HOMES = {
    "expfam.families.base": ["Family"],
    "expfam.families.counts.multinomial": ["Multinomial"],
    "expfam.families.counts.categorical": ["Categorical"],
    "expfam.families.counts.poisson": ["Poisson"],
    "expfam.families.gaussian.full": ["Gaussian", "ZeroMeanGaussian"],
    "expfam.families.gaussian.diagonal": ["DiagonalGaussian"],
    "expfam.families.gaussian.lognormal": ["LogNormal"],
    "expfam.families.gaussian.spherical": ["SphericalGaussian"],
    "expfam.families.columns.family": ["Columns"],
    "expfam.families.trials.bernoulli": ["Bernoulli"],
    "expfam.families.waiting.exponential": ["Exponential"],
    "expfam.families.trials.geometric": ["Geometric"],
    "expfam.families.trials.negative_binomial": ["NegativeBinomial"],
    "expfam.families.directions.von_mises": ["VonMises"],
    "expfam.families.directions.von_mises_fisher": ["VonMisesFisher"],
    "expfam.model.data": ["Dataset"],
    "expfam.model.known": ["Known"],
    "expfam.model.links": ["link_groups"],
    "expfam.model.groups": ["Groups"],
    "expfam.model.weights": ["SymmetricDirichlet", "DirichletProcess", "PitmanYor"],
    "expfam.model.mixture": ["MixtureModel"],
    "expfam.model.admixture": ["AdmixtureModel"],
    "expfam.model.finite_process": ["FiniteProcess"],
    "expfam.model.hierarchical": ["HierarchicalProcess"],
    "expfam.estimators.mixture": ["Mixture"],
    "expfam.estimators.topics": ["TopicModel"],
    "expfam.estimators.grouped": ["GroupedMixture"],
    "expfam.estimators.hierarchy": ["BayesianHierarchy"],
    "expfam.estimators.merge": ["merge"],
    "expfam.evaluation.certificate": ["check_model"],
    "expfam.evaluation.posterior": ["PartitionPosterior"],
    "expfam.evaluation.metrics": ["variation_of_information", "purity"],
    "expfam.evaluation.tree_purity": ["dendrogram_purity"],
    "expfam.plugins.registry": ["load_family", "load_proposal", "list_plugins", "register"],
}

# loaded on first use, as `expfam.displays` after `import expfam`
_MODULES = ("displays", "engines", "errors", "samplers", "structures")

__all__ = ["__version__", "get_include", *(name for names in _HOMES.values() for name in names)]


def get_include() -> str:
    """Return the directory of this package's C headers.

    Put it on the include path of a C compiler. Cython finds the headers without it.

    Examples
    --------
    >>> from pathlib import Path
    >>> from expfam import get_include
    >>> (Path(get_include()) / "contracts.pxd").exists()
    True
    """
    from pathlib import Path

    return str(Path(__file__).parent)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version  # which imports much that nothing else needs

        return version("expfam")
    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    return load_name(__name__, _HOMES, name)


def __dir__() -> list[str]:
    return sorted([*__all__, *_MODULES])
