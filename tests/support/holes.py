"""A Gaussian that leaves out missing values, in NumPy, as the author of a family would write it."""

import numpy as np
from scipy.special import digamma, gammaln

from expfam import Family


class HoledGaussian(Family):
    """Independent Gaussian columns of unknown mean and precision; NaN is a value that is missing.

    phi = (o, o x, o x^2) for each column, where o tells whether the value is there; theta = (-g_j, lam mu, -lam / 2)
    and g = 0, since the indicator carries each column's g. Values are those about the means of the columns at binding.
    """

    support = "real"
    allows_missing = True
    hyper = {"rate": "positive"}  # noqa: RUF012

    def __init__(self, strength=0.1, shape=2.0, rate=1.0):
        self.strength, self.shape, self.rate = strength, shape, rate

    def resolve(self, X):
        return {"center_": np.nanmean(np.where(np.isnan(X).all(axis=0), 0.0, X), axis=0)}

    def sufficient_statistics(self, X):
        here = ~np.isnan(X)
        Z = np.where(here, X - self.center_, 0.0)
        return np.concatenate([here.astype(float), Z, Z**2], axis=1)

    def log_base(self, X):
        return -0.5 * np.log(2 * np.pi) * (~np.isnan(X)).sum(axis=1)

    def _posterior(self, S):
        n, s, q = np.split(S, 3, axis=1)
        strength, shape = self.strength + n, self.shape + 0.5 * n
        return strength, s / strength, shape, self.rate + 0.5 * np.maximum(q - s**2 / strength, 0.0)

    def log_marginal(self, n, S):
        strength, _, shape, rate = self._posterior(S)
        per_column = gammaln(shape) - gammaln(self.shape) + self.shape * np.log(self.rate) - shape * np.log(rate)
        return (per_column + 0.5 * np.log(self.strength / strength)).sum(axis=1)

    def _natural(self, mean, precision, minus_g):
        return np.concatenate([minus_g, precision * mean, -0.5 * precision], axis=1), np.zeros(len(mean))

    def expected_natural(self, n, S):
        strength, mean, shape, rate = self._posterior(S)
        minus_g = 0.5 * (digamma(shape) - np.log(rate)) - 0.5 * (1.0 / strength + mean**2 * shape / rate)
        return self._natural(mean, shape / rate, minus_g)

    def draw_natural(self, n, S, rng):
        strength, mean, shape, rate = self._posterior(S)
        precision = rng.standard_gamma(shape) / rate
        mean = mean + rng.standard_normal(mean.shape) / np.sqrt(strength * precision)
        return self._natural(mean, precision, 0.5 * np.log(precision) - 0.5 * precision * mean**2)

    def map_natural(self, n, S):
        _, mean, shape, rate = self._posterior(S)
        precision = (shape - 0.5) / rate
        return self._natural(mean, precision, 0.5 * np.log(precision) - 0.5 * precision * mean**2)

    def log_prior(self, theta, g):
        _, eta, half = np.split(theta, 3, axis=1)
        precision = -2.0 * half
        mean = eta / precision
        density = (self.shape - 0.5) * np.log(precision) - precision * (self.rate + 0.5 * self.strength * mean**2)
        return density.sum(axis=1)

    def sample(self, theta, size, rng):
        _, eta, half = (np.repeat(part, size, axis=0) for part in np.split(theta, 3, axis=1))
        return self.center_ + eta / (-2.0 * half) + rng.standard_normal(eta.shape) / np.sqrt(-2.0 * half)


def three_clusters(n_rows=90, n_columns=3, share=0.2, seed=0):
    """Rows of three distant clusters with holes, and their clusters; the last row has no value at all."""
    rng = np.random.default_rng(seed)
    labels = np.arange(n_rows) % 3
    X = 8.0 * labels[:, None] + rng.normal(size=(n_rows, n_columns))
    X[rng.random(X.shape) < share] = np.nan
    X[-1] = np.nan
    return X, labels
