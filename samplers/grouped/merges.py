"""Merges of clusters that groups of rows share, as long as the log joint rises.

All clusters have their own pseudo-count, so it matters which of two clusters takes the rows of the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln

from expfam.model.statistics import weighted_statistics
from expfam.samplers.grouped.ascent import counts_of_groups
from expfam.samplers.starts.greedy_merge import cluster_evidences

if TYPE_CHECKING:
    from expfam.model.admixture import AdmixtureModel
    from expfam.model.data import Dataset

_LEAST_GAIN = 1e-6  # nats; less is rounding


def merged_slots(model: AdmixtureModel, data: Dataset, labels: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Merge clusters greedily.

    Parameters
    ----------
    model, data : bound AdmixtureModel and Dataset
        The data have groups and no weights.
    labels : (N,) ndarray of int in 0..K-1

    Returns
    -------
    (K,) int64 ndarray
        Cluster that takes the rows of each cluster. ``merged_slots(...)[labels]`` is never worse than `labels`.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import AdmixtureModel, Dataset, Poisson
    >>> from expfam.samplers.grouped.merges import merged_slots
    >>> data = Dataset([[0], [1], [0], [40], [41]], Poisson(), groups=[0, 1, 0, 1, 0])
    >>> merged_slots(AdmixtureModel(data.family, 4), data, np.array([0, 1, 0, 2, 2]))
    array([0, 0, 2, 3])
    """
    home, used = np.arange(model.n_components), np.unique(labels)
    gains = _Gains(model, data, labels, used)
    while used.size > 1:
        a, b = np.unravel_index(np.argmax(gains.table), gains.table.shape)
        if not gains.table[a, b] > _LEAST_GAIN:
            break
        home[home == used[b]] = used[a]
        gains.absorb(int(a), int(b))
    return home


class _Gains:
    """What each merge gains: `table[a, b]` where the a-th cluster takes the rows of the b-th."""

    def __init__(self, model, data, labels, used):
        n, S = weighted_statistics(data, np.searchsorted(used, labels), used.size)
        self.evidences = cluster_evidences(model.family, n, S)
        self.alpha = model.pseudocounts[used]
        self.counts = counts_of_groups(data, labels, model.n_components)[:, used]
        slots = np.arange(used.size)
        self.own = self.evidences.log_marginal(slots)
        self.table = np.full((used.size, used.size), -np.inf)
        self.left = np.ones(used.size, dtype=bool)
        for k in slots:
            self._compare(k, slots[:k])

    def _compare(self, k, others):
        """Set the gains of all merges of cluster k."""
        if not others.size:
            return
        together = self.evidences.log_merged(k, others) - self.own[k] - self.own[others]
        self.table[k, others] = together + self._prior(np.full(others.size, k), others)
        self.table[others, k] = together + self._prior(others, np.full(others.size, k))

    def _prior(self, a, b):
        """Return the change of the groups' log prior where clusters `a` take the rows of `b`."""
        change = np.empty(len(a))
        for place, (taking, given) in enumerate(zip(a, b)):
            held = self.counts[:, given] > 0
            moved, first = self.counts[held, given], self.alpha[taking] + self.counts[held, taking]
            risen = gammaln(first + moved) - gammaln(first)
            change[place] = (risen - gammaln(self.alpha[given] + moved) + gammaln(self.alpha[given])).sum()
        return change

    def absorb(self, a, b):
        """Give the rows of cluster b to cluster a."""
        self.evidences.absorb(a, b)
        self.counts[:, a] += self.counts[:, b]
        self.counts[:, b], self.left[b] = 0.0, False
        self.own[a] = self.evidences.log_marginal(np.array([a]))[0]
        self.table[[a, b]] = self.table[:, [a, b]] = -np.inf
        others = np.flatnonzero(self.left)
        self._compare(a, others[others != a])
