"""The proposal template_name."""

import numpy as np

from expfam.samplers import CellProposal


class TemplateName(CellProposal):
    """Proposal of clusters in which the column of a datum's largest count is frequent.

    Parameters
    ----------
    sharpness : float, positive
        Power of a column's share in a cluster. With larger values, clusters with a large share are proposed more often.
    floor : float in [1e-6, 1)
        Share of the draws that choose each cluster with equal probability.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import Dataset, Poisson
    >>> TemplateName().groups(Dataset(np.array([[1, 0], [3, 7]]), Poisson())).tolist()
    [0, 1]

    Notes
    -----
    p_gk = w_k (share of column g in cluster k) ** sharpness, where w_k is the prior mass of cluster k.
    """

    def __init__(self, sharpness=1.0, *, floor=0.02):
        super().__init__(floor=floor)
        self.sharpness = sharpness

    def groups(self, data):
        """Return the group of each datum: (N,) integers from 0. Data of one group share a law."""
        return np.asarray(data.X.argmax(axis=1)).ravel()

    def probabilities(self, snapshot):
        """Return the law of each group over the clusters: (G, K), non-negative.

        Rows need not sum to one.
        """
        S = snapshot.S.toarray() if hasattr(snapshot.S, "toarray") else snapshot.S
        share = (S + 1.0) / (S + 1.0).sum(axis=1, keepdims=True)
        weight = np.exp(snapshot.log_weight - snapshot.log_weight.max()) if len(snapshot.n) else snapshot.n
        return weight * share.T**self.sharpness
