"""Candidate clusters of a variational pass that does not score all clusters.

A pass always adds the clusters that a row had last to its candidates, so the bound never falls.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


class GraphCandidates:
    """The nearest clusters of the cluster that a row had last; rows of one cluster share them.

    `near` (K, G) int32 is ascending, from `Posterior.cluster_graph`.
    """

    def __init__(self, near: npt.NDArray[np.int32]) -> None:
        self.near, self.n_scores = near, near.shape[1]

    def of_block(self, last: npt.NDArray[np.int32]) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        """Return the candidates of a block of rows: (B, G), ascending, and each row's place in them.

        `last` (m, L) are the clusters that the rows had last, the most probable one first.
        """
        return self.near, np.ascontiguousarray(last[:, 0])
