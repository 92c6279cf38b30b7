"""
A family of your own
====================

Waiting times follow Weibull's law with a known shape. Two functions, the sufficient statistics and the log marginal,
make a family that every sampler and both priors on the number of clusters understand.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import gammaln

from expfam import Family, Mixture


class Weibull(Family):
    """Positive columns, x ** c exponential with a Gamma(a, b) prior on the rate."""

    support = "nonnegative"
    hyper = {"a": "positive", "b": "positive"}

    def __init__(self, a=1.0, b=1.0, c=1.5):
        self.a, self.b, self.c = a, b, c

    def sufficient_statistics(self, X):
        """Return phi."""
        return X**self.c

    def log_base(self, X):
        """Return the part of the log density without the rate."""
        return (np.log(self.c) + (self.c - 1.0) * np.log(X)).sum(axis=1)

    def log_marginal(self, n, S):
        """Return the log evidence of n rows with the sum S."""
        shape = self.a + n[:, None]
        return (gammaln(shape) - gammaln(self.a) + self.a * np.log(self.b) - shape * np.log(self.b + S)).sum(axis=1)


rng = np.random.default_rng(0)
kind = rng.integers(0, 3, 900)
X = np.array([[1.0, 20.0], [20.0, 1.0], [0.1, 0.1]])[kind] * rng.weibull(1.5, size=(900, 2))
mixture = Mixture(Weibull(), random_state=0).fit(X)

figure, ax = plt.subplots(figsize=(5.4, 4.0), layout="constrained")
ax.scatter(*X.T, c=mixture.labels_, s=8, cmap="tab10", vmax=9)
ax.set_xscale("log")
ax.set_yscale("log")
ax.set_xlabel("time of the first part")
ax.set_ylabel("time of the second part")
ax.set_title(f"{mixture.n_components_} clusters")
