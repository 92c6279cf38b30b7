"""What is kept of a draw of the partition, or of topics, when the data are gone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from expfam.families.base import Family
    from expfam.protocols import Floats

_LEAST = 1e-100  # pseudo-count of words that occur in no document, which are perhaps none


class DrawnStatistics(NamedTuple):
    """Statistics of the clusters of one draw.

    Attributes
    ----------
    family : Family
        Bound, with the hyper-parameters of the draw.
    n, S : (K_m,) and (K_m, F)
        Statistics of its clusters, S dense or CSR.
    home : (K_m, K) float64 ndarray
        Share of the rows of each cluster that each cluster of the labels holds.
    """

    family: Family
    n: Floats
    S: Any
    home: Floats


class DrawnTopics(NamedTuple):
    """Counts of words in the topics of one draw, and its pseudo-counts.

    Attributes
    ----------
    counts : (V, K_m) CSR array of int32
        Tokens of words in topics, those of seeds too. Where the number of topics was unknown, the last one holds none:
        it stands for all topics that the draw has not.
    alpha : (K_m,) float64 ndarray
        Pseudo-counts of the topics in documents.
    eta : (V,) float64 ndarray, or (1,) for all words alike
        Pseudo-counts of words in topics.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from expfam.model.drawn import DrawnTopics
    >>> draw = DrawnTopics(sparse.csr_array([[2, 0], [0, 1]], dtype=np.int32), np.ones(2), np.array([0.5]))
    >>> draw.components().tolist(), draw.components(np.array([1])).tolist()
    ([[2.5, 0.5], [0.5, 1.5]], [[0.5, 2.5], [1.5, 0.5]])
    """

    counts: Any
    alpha: Floats
    eta: Floats

    def components(self, words: npt.NDArray[np.integer] | None = None) -> Floats:
        """Return the pseudo-counts of words in topics: (K_m, V) float64.

        Parameters
        ----------
        words : (n,) ndarray of int, optional
            Words that are wanted, each once. All others together are then a last column: (K_m, n + 1).
        """
        if words is None:
            whole: Floats = self.counts.T.toarray().astype(np.float64)
            return whole + self.eta
        found = np.empty((self.counts.shape[1], len(words) + 1))
        found[:, :-1] = self.counts[words].T.toarray()
        found[:, -1] = np.asarray(self.counts.sum(axis=0)) - found[:, :-1].sum(axis=1)
        eta = np.broadcast_to(self.eta, self.counts.shape[0])
        found[:, :-1] += eta[words]
        found[:, -1] += max(eta.sum() - eta[words].sum(), _LEAST)
        return found
