"""A family of your own: two functions in NumPy, a name, and clusters."""

import numpy as np
from scipy.special import betaln

from expfam import Family, Mixture, register


class Coin(Family):
    """Independent columns of 0 and 1 with a Beta(a, b) prior on each."""

    support = "binary"

    def __init__(self, a=1.0, b=1.0):
        self.a, self.b = a, b

    def sufficient_statistics(self, X):
        """Return phi of each row."""
        return X

    def log_marginal(self, n, S):
        """Return the log evidence of n rows with the sum S."""
        return (betaln(self.a + S, self.b + n[:, None] - S) - betaln(self.a, self.b)).sum(axis=1)


register("coin", Coin)
rng = np.random.default_rng(0)
X = (rng.random((200, 8)) < np.array([[0.9], [0.1]])[rng.integers(0, 2, 200)]).astype(int)
mixture = Mixture("coin", random_state=0).fit(X)
print(mixture.summary())
