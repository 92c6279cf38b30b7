"""Means over draws of the partition: densities, probabilities and missing cells of new rows.

The predictive density of a row is the mean of its densities under the draws, so that all draws together are one mixture
of all their clusters, each with the share 1 / M of its weight.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from expfam.fitted.clusters import checked_n_top, largest, stacked_largest
from expfam.fitted.scoring import log_sum_exp

if TYPE_CHECKING:
    from expfam.families.base import Family
    from expfam.fitted.clusters import FittedClusters
    from expfam.protocols import Floats

_SCORES = 1 << 20  # of a block of rows under all clusters of all draws


@dataclass(frozen=True)
class DrawnClusters:
    """Clusters of several draws of the partition.

    Attributes
    ----------
    parts : sequence of M FittedClusters
        The clusters of each draw, under its own hyper-parameters.
    homes : sequence of M ndarrays, (K_m, K) each
        Share of the rows of each cluster of a draw that each cluster of the labels holds.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import Dataset, Poisson
    >>> from expfam.fitted.clusters import FittedClusters
    >>> from expfam.fitted.drawn_clusters import DrawnClusters
    >>> data = Dataset([[0], [1], [30], [31]], Poisson())
    >>> parts = []
    >>> for labels in ([0, 0, 1, 1], [0, 1, 2, 2]):
    ...     n, S = data.statistics(labels, max(labels) + 1)
    ...     parts.append(FittedClusters(data.family, n, S, np.log(n / 4), n, n / 4))
    >>> drawn = DrawnClusters(parts, [np.eye(2), np.eye(2)[[0, 0, 1]]])
    >>> drawn.probabilities(np.array([[2], [40]])).round(3).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    >>> row = np.array([[2]])
    >>> mean = np.logaddexp(*(part.log_densities(row) for part in parts)) - np.log(2)
    >>> bool(np.isclose(drawn.log_densities(row), mean).all())
    True
    """

    parts: tuple[FittedClusters, ...]
    homes: tuple[Floats, ...]

    @property
    def family(self) -> Family:
        """Return the family of the first draw; those of the others differ in hyper-parameters alone."""
        return self.parts[0].family

    def conditional_family(self) -> Family:
        """Return the family under which rows are read whose columns are scored given others."""
        return self.parts[0].conditional_family()

    def probabilities(self, X: Any, n_top: int | None = None) -> Any:
        """Return the probability of each cluster of the labels for each row.

        A row of a draw's cluster belongs to the clusters of the labels as the rows of this cluster do.

        Parameters
        ----------
        X : array_like, sparse matrix or frame, shape (N, V)
        n_top : int, optional
            Number of probabilities of a row that are kept, the largest ones; all if not given.

        Returns
        -------
        (N, K) float64 ndarray, or CSR with `n_top`
        """
        L, K, found = checked_n_top(n_top), self.homes[0].shape[1], []
        for start, stop in self._blocks(X.shape[0]):
            p = np.mean(
                [part.probabilities(X[start:stop]) @ home for part, home in zip(self.parts, self.homes)], axis=0
            )
            found.append(p if L is None else largest(p, L))
        return np.concatenate(found) if L is None else stacked_largest(found, K)

    def log_probabilities(self, X: Any) -> npt.NDArray[np.float64]:
        """Return the log of `probabilities`: (N, K) nats, -inf where a probability is 0."""
        with np.errstate(divide="ignore"):
            return np.log(self.probabilities(X))

    def probabilities_at(self, X: Any, labels: npt.NDArray[np.integer]) -> npt.NDArray[np.float32]:
        """Return the probability of one cluster of each row: (N,) float32."""
        found = np.empty(len(labels), dtype=np.float32)
        for start, stop in self._blocks(len(labels)):
            p = self.probabilities(X[start:stop])
            found[start:stop] = p[np.arange(stop - start), labels[start:stop]]
        return found

    def log_densities(self, X: Any) -> npt.NDArray[np.float64]:
        """Return the log of the mean density of each row: (N,) nats, with log-base."""
        return _log_mean([part.log_densities(X) for part in self.parts])

    def conditional_log_densities(
        self, X: npt.NDArray[np.float64], known: npt.NDArray[np.bool_], mass_of: Any = None
    ) -> npt.NDArray[np.float64]:
        """Return the log density of each row given some of its columns: (N,) nats.

        It is that of all draws as one mixture: draws under which the given columns are likelier count for more.
        `mass_of` is there for the same call as of `FittedClusters`.
        """
        pairs = [part.joint_and_given(X, known, mass_of) for part in self.parts]
        return _log_mean([joint for joint, _ in pairs]) - _log_mean([given for _, given in pairs])

    def each_conditional_block(
        self, X: npt.NDArray[np.float64], reduce: Callable[[Floats, int, int], Any], mass: Any = None
    ) -> list[Any]:
        """Apply `reduce` to blocks of scores of rows with holes, under the clusters of all draws.

        The clusters of a draw follow those of the draw before it. `mass` is there for the same call as of
        `FittedClusters`.
        """
        return [reduce(self._scores(X[start:stop]), start, stop) for start, stop in self._blocks(len(X))]

    def _scores(self, X):
        blocks = [part.each_conditional_block(X, lambda scores, start, stop: scores.copy()) for part in self.parts]
        return np.hstack([np.concatenate(of_part) for of_part in blocks])

    def _blocks(self, n_rows):
        size = max(1, _SCORES // sum(len(part.log_weights) for part in self.parts))
        return [(start, min(start + size, n_rows)) for start in range(0, n_rows, size)]


def _log_mean(values):
    """Return the log of the mean of exponentials of M arrays (N,)."""
    return log_sum_exp(np.stack(values, axis=1)) - np.log(len(values))
