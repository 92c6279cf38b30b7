"""Times until the k-th event: the Erlang family, with compiled components."""

import numpy as np
from scipy.special import digamma, gammaln

from expfam import Family
from expfam.errors import SupportError


class Erlang(Family):
    """Independent Erlang columns of a known number of stages, Gamma(a, b) prior on each rate.

    Parameters
    ----------
    stages : int or float, positive
        Number of events until the end of a time; it is not learned.
    a, b : float, positive
        Shape and rate of the prior, which counts like a / stages data with mean b stages / a.

    Examples
    --------
    >>> import numpy as np
    >>> Erlang(stages=1.0, a=1.0, b=1.0).log_marginal(np.array([1.0]), np.array([[1.0]])).round(6)
    array([-1.386294])

    Notes
    -----
    phi = x, theta = -rate, g = -stages log(-theta), base measure x^(stages - 1) / Gamma(stages).
    """

    support = "nonnegative"
    hyper = {"a": "positive", "b": "positive"}

    def __init__(self, stages=2.0, a=1.0, b=1.0):
        self.stages, self.a, self.b = stages, a, b

    def validate(self, X):
        X = super().validate(X)
        if not self.stages > 0:
            raise ValueError(f"stages must be positive; got {self.stages!r}")
        if not X.all():
            raise SupportError(f"{self.name} needs positive values; row, column {np.argwhere(X == 0)[0]} holds 0")
        return X

    def sufficient_statistics(self, X):
        return X.astype(np.float64)

    def log_base(self, X):
        return ((self.stages - 1.0) * np.log(X, dtype=np.float64) - gammaln(self.stages)).sum(axis=1)

    def log_marginal(self, n, S):
        shape = self.a + self.stages * n[:, None]
        return (gammaln(shape) - gammaln(self.a) + self.a * np.log(self.b) - shape * np.log(self.b + S)).sum(axis=1)

    def expected_natural(self, n, S):
        shape, rate = self.a + self.stages * n[:, None], self.b + S
        return -shape / rate, self.stages * (np.log(rate) - digamma(shape)).sum(axis=1)

    def draw_natural(self, n, S, rng):
        rate = rng.standard_gamma(np.broadcast_to(self.a + self.stages * n[:, None], S.shape)) / (self.b + S)
        return -rate, -self.stages * np.log(rate).sum(axis=1)

    def sample(self, theta, size, rng):
        return rng.gamma(self.stages, np.repeat(-1.0 / theta, size, axis=0))

    def n_free_parameters(self, n_clusters):
        return n_clusters * self.n_statistics_  # rates

    def components(self, data, capacity, *, layout="features"):
        from expfam_erlang.components import ErlangComponents

        return ErlangComponents(self, data, capacity)
