"""A proposal written in NumPy, as an author would: clusters by the score of the mean of a group of data."""

import numpy as np

from expfam.samplers import CellProposal


class ByMean(CellProposal):
    """p_gk = exp(<mean phi of g, Theta_k> - G_k + log prior mass of k): geometric means of the members' weights.

    `data_cells` are groups with prototypes of phi.
    """

    def __init__(self, data_cells, *, floor=0.02):
        self.data_cells, self.floor = data_cells, floor

    def groups(self, data):
        """Return the group of each datum."""
        return self.data_cells.group

    def probabilities(self, snapshot):
        """Return the weights of the clusters for the mean of each group."""
        if not len(snapshot.slots):
            return np.zeros((self.data_cells.n_groups, 0))
        # BLAS is not used: its sums may depend on the number of threads
        score = np.einsum("gf,kf->gk", self.data_cells.prototype, snapshot.Theta)
        score += snapshot.log_weight - snapshot.G
        return np.exp(np.maximum(score - score.max(axis=1, keepdims=True), -80.0))
