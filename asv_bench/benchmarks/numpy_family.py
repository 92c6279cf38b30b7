"""A family as a stranger writes it: the methods of docs/plugins.md in NumPy, and no compiled components."""

import numpy as np
from scipy.special import digamma, gammaln

from expfam import Family


class NumpyPoisson(Family):
    """What a stranger writes: the methods of docs/plugins.md, and no compiled components."""

    name = "numpy_poisson"
    support = "counts"

    def __init__(self, shape=1.0, rate=1.0):
        self.shape, self.rate = shape, rate

    def sufficient_statistics(self, X):
        return X.astype(np.float64)

    def log_base(self, X):
        return -gammaln(X + 1.0).sum(axis=1)

    def log_marginal(self, n, S):
        shape = self.shape + S
        terms = gammaln(shape) - gammaln(self.shape) - shape * np.log(self.rate + n)[:, None]
        return (terms + self.shape * np.log(self.rate)).sum(axis=1)

    def expected_natural(self, n, S):
        rate = (self.rate + n)[:, None]
        return digamma(self.shape + S) - np.log(rate), ((self.shape + S) / rate).sum(axis=1)

    def draw_natural(self, n, S, rng):
        theta = np.log(rng.standard_gamma(self.shape + S) / (self.rate + n)[:, None])
        return theta, np.exp(theta).sum(axis=1)

    def map_natural(self, n, S):
        theta = np.log((self.shape + S) / (self.rate + n)[:, None])
        return theta, np.exp(theta).sum(axis=1)

    def log_prior(self, theta, g):
        return self.shape * theta.sum(axis=1) - self.rate * g
