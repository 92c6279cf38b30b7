"""A proposal by the total of a datum's counts, for data that differ mainly in size."""

import numpy as np

from expfam.samplers import CellProposal


class ByTotal(CellProposal):
    """Proposal of clusters whose mean total is near the datum's, on a logarithmic scale.

    Parameters
    ----------
    n_levels : int
        Number of levels of totals. There are two levels for each doubling; totals above 2^(n_levels / 2) share one.
    floor : float in [1e-6, 1)
        Share of the draws that choose each cluster with equal probability.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import Dataset, Poisson
    >>> data = Dataset(np.array([[1, 0], [3, 1], [700, 20]]), Poisson())
    >>> ByTotal().groups(data).tolist()
    [2, 5, 19]

    Notes
    -----
    p_gk = w_k exp(-(level of g - level of k's mean total)^2 / 2), where w_k is the prior mass of cluster k.
    """

    def __init__(self, n_levels=40, *, floor=0.02):
        super().__init__(floor=floor)
        self.n_levels = n_levels

    def groups(self, data):
        return np.rint(self._level(np.asarray(data.X.sum(axis=1), dtype=np.float64).ravel())).astype(int)

    def probabilities(self, snapshot):
        totals = np.asarray(snapshot.S.sum(axis=1), dtype=np.float64).ravel() / snapshot.n
        distance = np.arange(self.n_levels)[:, None] - self._level(totals)
        weight = np.exp(snapshot.log_weight - snapshot.log_weight.max()) if len(snapshot.n) else snapshot.n
        return weight * np.exp(-0.5 * distance**2)

    def _level(self, totals):
        return np.minimum(2.0 * np.log2(1.0 + totals), self.n_levels - 1)
