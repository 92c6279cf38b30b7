"""Where counts differ in size before they differ in kind: clusters proposed by the total of a datum's counts."""

import numpy as np

from expfam.samplers import CellProposal


class ByTotal(CellProposal):
    """Clusters whose mean total is near to the datum's, on a logarithmic scale.

    Parameters
    ----------
    n_levels : int
        Totals up to 2^(n_levels / 2) are told apart, two levels for each doubling.
    floor : float in [1e-6, 1)
        Share of the draws that go to any cluster with equal probability.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import Dataset, Poisson
    >>> data = Dataset(np.array([[1, 0], [3, 1], [700, 20]]), Poisson())
    >>> ByTotal().groups(data).tolist()
    [2, 5, 19]

    Notes
    -----
    p_gk = w_k exp(-(level of g - level of k's mean total)^2 / 2), w_k the prior mass of the cluster.
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
