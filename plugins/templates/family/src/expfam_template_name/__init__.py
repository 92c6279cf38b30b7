"""The family template_name."""

import numpy as np
from scipy.special import digamma, gammaln

from expfam import Family


class TemplateName(Family):
    """Independent Poisson columns with a Gamma(a, b) prior on each rate.

    Parameters
    ----------
    a, b : float, positive
        Shape and rate of the prior, which counts like b data with mean a / b.

    Examples
    --------
    >>> import numpy as np
    >>> TemplateName(a=1.0, b=1.0).log_marginal(np.array([1.0]), np.array([[0.0]])).round(6)
    array([-0.693147])

    Notes
    -----
    phi = x, theta = log rate, g = sum of the rates.
    """

    support = "counts"
    hyper = {"a": "positive", "b": "positive"}  # hyper-parameters that samplers may learn

    def __init__(self, a=1.0, b=1.0):  # store each keyword unchanged
        self.a, self.b = a, b

    # required

    def sufficient_statistics(self, X):
        return X

    def log_marginal(self, n, S):
        shape = self.a + S
        ratio = gammaln(shape) - gammaln(self.a) + self.a * np.log(self.b)
        return (ratio - shape * np.log(self.b + n[:, None])).sum(axis=1)

    # optional; the log base measure is zero without it

    def log_base(self, X):
        return -gammaln(np.asarray(X, dtype=np.float64) + 1.0).sum(axis=1)

    # for variational samplers and fast proposals; without it they use numeric differences of log_marginal

    def expected_natural(self, n, S):
        shape, rate = self.a + S, self.b + n[:, None]
        return digamma(shape) - np.log(rate), (shape / rate).sum(axis=1)

    # for samplers that keep parameters

    def draw_natural(self, n, S, rng):
        shape = self.a + S
        # log G(a) and log G(a + 1) + log(U) / a have the same law; the latter never underflows
        log_gamma = np.log(rng.standard_gamma(shape + 1.0)) + np.log1p(-rng.random(shape.shape)) / shape
        theta = log_gamma - np.log(self.b + n[:, None])
        return theta, self.log_partition(theta)

    # for expectation maximisation

    def map_natural(self, n, S):
        theta = np.log(self.a + S) - np.log(self.b + n[:, None])
        return theta, self.log_partition(theta)

    def log_prior(self, theta, g):
        return self.a * theta.sum(axis=1) - self.b * g

    # for synthetic data and predictive checks

    def log_partition(self, theta):
        return np.exp(theta).sum(axis=1)

    def to_params(self, theta, g):
        return {"mean": np.exp(theta)}

    def sample(self, theta, size, rng):
        return rng.poisson(np.repeat(np.exp(theta), size, axis=0)).astype(np.float64)

    # for Mixture.bic

    def n_free_parameters(self, n_clusters):
        return n_clusters * self.n_statistics_
