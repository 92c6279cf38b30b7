"""Lengths of two-dimensional noise: the Rayleigh family with a Gamma prior on its precision."""

import numpy as np
from scipy.special import digamma, gammaln

from expfam import Family
from expfam.errors import SupportError


class Rayleigh(Family):
    """Independent Rayleigh columns, Gamma(a, b) prior on each precision 1 / scale^2.

    Parameters
    ----------
    a, b : float, positive
        Shape and rate of the prior, which counts like a data with mean square 2 b / a.

    Examples
    --------
    >>> import numpy as np
    >>> Rayleigh(a=1.0, b=1.0).log_marginal(np.array([1.0]), np.array([[1.0]])).round(6)
    array([-1.386294])

    Notes
    -----
    phi = x^2 / 2, theta = -1 / scale^2, g = -log(-theta), base measure x.
    """

    support = "nonnegative"
    hyper = {"a": "positive", "b": "positive"}

    def __init__(self, a=1.0, b=1.0):
        self.a, self.b = a, b

    def validate(self, X):
        X = super().validate(X)
        if not X.all():
            raise SupportError(f"{self.name} needs positive values; row, column {np.argwhere(X == 0)[0]} holds 0")
        return X

    def sufficient_statistics(self, X):
        return 0.5 * np.square(X, dtype=np.float64)

    def log_base(self, X):
        return np.log(X, dtype=np.float64).sum(axis=1)

    def log_marginal(self, n, S):
        shape = self.a + n[:, None]
        return (gammaln(shape) - gammaln(self.a) + self.a * np.log(self.b) - shape * np.log(self.b + S)).sum(axis=1)

    def expected_natural(self, n, S):
        shape, rate = self.a + n[:, None], self.b + S
        return -shape / rate, (np.log(rate) - digamma(shape)).sum(axis=1)

    def draw_natural(self, n, S, rng):
        precision = rng.standard_gamma(np.broadcast_to(self.a + n[:, None], S.shape)) / (self.b + S)
        return -precision, -np.log(precision).sum(axis=1)

    def sample(self, theta, size, rng):
        return rng.rayleigh(np.repeat((-theta) ** -0.5, size, axis=0))

    def n_free_parameters(self, n_clusters):
        return n_clusters * self.n_statistics_  # precisions
