"""Rows of every kind of family, and parts of them."""

import itertools

import numpy as np
from scipy import sparse

from expfam import (
    Bernoulli,
    Categorical,
    Columns,
    DiagonalGaussian,
    Exponential,
    Gaussian,
    Geometric,
    LogNormal,
    Multinomial,
    NegativeBinomial,
    Poisson,
    SphericalGaussian,
    VonMises,
    VonMisesFisher,
    ZeroMeanGaussian,
)
from expfam.engines import Part
from expfam.families.base import Family

RNG = np.random.default_rng(8)
N = 700
CENTRES = RNG.normal(scale=3.0, size=(6, 3))[RNG.integers(0, 6, N)]
REAL = CENTRES + RNG.normal(size=(N, 3))
COUNTS = RNG.poisson(np.exp(0.4 * np.hstack([CENTRES, -CENTRES])))
COUNTS[:, 0] += 1  # no row is empty
MIXED = np.hstack([REAL[:, :2], np.minimum(COUNTS[:, :2], 3), COUNTS[:, 2:3]])
HOLED = np.where(RNG.random(REAL.shape) < 0.1, np.nan, REAL)


class UnitNormal(Family):
    """A family of another distribution: normal rows with a unit variance and a normal prior, in plain NumPy."""

    support = "real"

    def __init__(self, tau=0.1):
        self.tau = tau

    def sufficient_statistics(self, X):
        return X

    def log_marginal(self, n, S):
        lam = self.tau + n
        return 0.5 * (S.shape[1] * np.log(self.tau / lam) + (S**2).sum(axis=1) / lam)

    def log_base(self, X):
        return -0.5 * (X**2 + np.log(2 * np.pi)).sum(axis=1)

    def draw_natural(self, n, S, rng):
        """Draw means from their normal posteriors."""
        lam = (self.tau + n)[:, None]
        theta = S / lam + rng.normal(size=S.shape) / np.sqrt(lam)
        return theta, 0.5 * (theta**2).sum(axis=1)

    def map_natural(self, n, S):
        """Return the modes of the posteriors."""
        theta = S / (self.tau + n)[:, None]
        return theta, 0.5 * (theta**2).sum(axis=1)

    expected_natural = map_natural

    def log_prior(self, theta, g):
        """Return the log prior density of means."""
        return 0.5 * (theta.shape[1] * np.log(self.tau / (2 * np.pi)) - self.tau * (theta**2).sum(axis=1))


DIRECTIONS = np.where(np.abs(REAL) > 1.0, REAL, 0.0)
DIRECTIONS[:, 0] += 0.1  # no row is zero
DATA = {
    "third_party": (UnitNormal(), REAL),
    "gaussian": (Gaussian(), REAL),
    "gaussian_zero": (ZeroMeanGaussian(), REAL),
    "diagonal": (DiagonalGaussian(), REAL),
    "diagonal_float32": (DiagonalGaussian(), REAL.astype(np.float32)),
    "lognormal": (LogNormal(), np.exp(REAL)),
    "spherical": (SphericalGaussian(), REAL),
    "spherical_sparse": (SphericalGaussian(variance=1.0), sparse.csr_array(REAL * (REAL > 0))),
    "exponential": (Exponential(), np.exp(REAL)),
    "von_mises_fisher": (VonMisesFisher(mean=[0.6, 0.0, 0.8], normalize=True), REAL),
    "multinomial": (Multinomial(), COUNTS),
    "multinomial_sparse": (Multinomial(), sparse.csr_array(COUNTS)),
    "multinomial_tfidf": (Multinomial(allow_fractional=True), sparse.csr_array(COUNTS * 0.3)),
    "poisson": (Poisson(), COUNTS),
    "poisson_sparse": (Poisson(), sparse.csr_array(COUNTS)),
    "geometric": (Geometric(), COUNTS),
    "geometric_sparse": (Geometric(), sparse.csr_array(COUNTS)),
    "negative_binomial_sparse": (NegativeBinomial(), sparse.csr_array(COUNTS)),
    "von_mises_fisher_sparse": (VonMisesFisher(mean=[0.6, 0.0, 0.8], normalize=True), sparse.csr_array(DIRECTIONS)),
    "negative_binomial": (NegativeBinomial(), COUNTS),
    "bernoulli": (Bernoulli(), (COUNTS > 2).astype(float)),
    "bernoulli_sparse": (Bernoulli(), sparse.csr_array((COUNTS > 2).astype(float))),
    "categorical": (Categorical(), np.minimum(COUNTS, 4)),
    "von_mises": (VonMises(), REAL),
    "columns": (Columns([(DiagonalGaussian(), [0, 1]), (Categorical(), [2, 3]), (Poisson(), [4])]), MIXED),
    "gaussian_missing": (DiagonalGaussian(missing=True), HOLED),
}
BOUNDS = {2: [512], 3: [1, 650], 7: [64, 65, 128, 300, 511, 699]}


def cut(X, bounds):
    """Parts that begin at the bounds."""
    bounds = [0, *bounds, X.shape[0]]
    return [Part(a, b - a, X[a:b]) for a, b in itertools.pairwise(bounds)]
