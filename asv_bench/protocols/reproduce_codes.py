"""The paper's proposal with codes of any number of bits, in NumPy: what `HashProposal` does in words of 64 bits."""

import numpy as np

from expfam.samplers import CellProposal


class ShortCodes(CellProposal):
    """Clusters by the Hamming distance of sign codes of l bits, times the norms (Ahmed et al. 2012, eq. 14).

    The natural parameters are taken about their mean over the clusters, which adds the same to all scores of a row.
    """

    def __init__(self, n_bits, *, floor=0.02, seed=0):
        super().__init__(floor=floor)
        self.n_bits, self.seed = n_bits, seed

    def groups(self, data):
        """Each row has a law of its own; its code and norm are kept."""
        X = data.X
        self._planes = np.random.default_rng(self.seed).standard_normal((X.shape[1], self.n_bits))
        self._codes = np.where(X @ self._planes >= 0, 1.0, -1.0)
        self._norms = np.sqrt(np.asarray((X * X).sum(axis=1)).ravel())
        return np.arange(X.shape[0])

    def probabilities(self, snapshot):
        """Softmax of the scores that the codes estimate, rows x clusters."""
        theta = snapshot.Theta - snapshot.Theta.mean(axis=0)
        codes = np.where(theta @ self._planes >= 0, 1.0, -1.0)
        differing = 0.5 - 0.5 / self.n_bits * (self._codes @ codes.T)
        scores = self._norms[:, None] * np.sqrt((theta**2).sum(axis=1)) * np.cos(np.pi * differing)
        scores += np.log(np.maximum(snapshot.n, 0.1))
        return np.exp(scores - scores.max(axis=1, keepdims=True))
