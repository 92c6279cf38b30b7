"""Tiny data and priors on which posteriors can be enumerated: every family, every kind of weights."""

import numpy as np
from scipy import sparse

import expfam as ef
from expfam.families.base import Family
from expfam.families.directions.von_mises_fisher import VonMisesFisher
from expfam.families.generic import GenericComponents
from expfam.families.trials.bernoulli import Bernoulli
from expfam.families.trials.negative_binomial import NegativeBinomial


class PlainPoisson(ef.Poisson):
    """The same law through the components that serve any NumPy family."""

    def components(self, data, capacity, *, layout="features"):
        return GenericComponents(self, data, capacity)


_REAL = np.array([[0.3, -1.0], [0.5, -0.7], [2.0, 1.5], [1.7, 2.2], [-0.4, 0.1]])
_COUNTS = np.array([[3, 0, 1, 0], [2, 1, 0, 0], [0, 0, 4, 1], [0, 0, 0, 0], [1, 0, 2, 12]])
_HOLES = np.array([[0.3, -1.0], [np.nan, -0.7], [2.0, np.nan], [1.7, 2.2], [np.nan, np.nan]])

FAMILIES = {
    "multinomial": (ef.Multinomial(concentration=0.4), sparse.csr_array(_COUNTS)),
    "multinomial_vector": (ef.Multinomial(concentration=np.array([0.2, 1.0, 0.5, 2.0])), _COUNTS),
    "categorical": (ef.Categorical(concentration=0.6), np.array([[0, 1], [0, 2], [1, 0], [-1, 1], [1, 2]])),
    "poisson": (ef.Poisson(shape=0.8, rate=0.5), sparse.csr_array(_COUNTS)),
    "plain_poisson": (PlainPoisson(shape=0.8, rate=0.5), _COUNTS),
    "gaussian": (ef.Gaussian(mean=0.2, mean_strength=0.3, dof=4.0, scale=np.array([[1.0, 0.2], [0.2, 0.8]])), _REAL),
    "gaussian_diag": (ef.DiagonalGaussian(mean=0.2, mean_strength=0.3, shape=1.5, rate=0.7), _REAL),
    "gaussian_spherical": (ef.SphericalGaussian(mean=0.2, mean_strength=0.3, shape=2.5, rate=0.7), _REAL),
    "gaussian_spherical_known": (ef.SphericalGaussian(variance=0.6, mean=0.1, mean_variance=2.0), _REAL),
    "gaussian_spherical_shared": (ef.SphericalGaussian("shared", 0.1, mean_variance=2.0, shared_variance=0.6), _REAL),
    "lognormal": (ef.LogNormal(mean=0.2, mean_strength=0.3, shape=1.5, rate=0.7), np.exp(_REAL)),
    "gaussian_diag_missing": (
        ef.DiagonalGaussian(mean=0.2, mean_strength=0.3, shape=[1.5, 2.0], rate=0.7, missing=True),
        _HOLES,
    ),
    "gaussian_diag_alike": (ef.DiagonalGaussian(mean=0.2, mean_strength=0.3, rate=0.7, alike=[False, True]), _REAL),
    "gaussian_diag_alike_missing": (
        ef.DiagonalGaussian(mean=0.2, mean_strength=0.3, rate=0.7, missing=True, alike=[True, False]),
        _HOLES,
    ),
    "lognormal_missing": (ef.LogNormal(mean=0.2, mean_strength=0.3, shape=1.5, rate=0.7, missing=True), np.exp(_HOLES)),
    "gaussian_zero": (ef.ZeroMeanGaussian(dof=3.5, scale=np.array([[1.0, 0.2], [0.2, 0.8]])), _REAL),
    "bernoulli": (Bernoulli(a=0.6, b=np.array([0.5, 1.5, 1.0, 2.0])), sparse.csr_array(np.minimum(_COUNTS, 1))),
    "von_mises_fisher_cluster": (VonMisesFisher(mean=[0.6, 0.8], strength=0.5, normalize=True), _REAL),
    "negative_binomial": (NegativeBinomial(r=2.5, a=0.8, b=np.array([1.5, 1.0, 2.0, 3.0])), _COUNTS),
}

WEIGHTS = {
    "dirichlet_process": ef.DirichletProcess(alpha=0.7),
    "pitman_yor": ef.PitmanYor(alpha=0.5, discount=0.3),
    "dirichlet_3": ef.SymmetricDirichlet(3, alpha=0.4),
    "dirichlet_8": ef.SymmetricDirichlet(8, alpha=0.25),
}

assert all(isinstance(family, Family) for family, _ in FAMILIES.values())
