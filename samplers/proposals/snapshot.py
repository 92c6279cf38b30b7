"""What a proposal may know of the clusters: their statistics, never the labels."""

from functools import cached_property

import numpy as np

from expfam.families.support import dense_rows


class Snapshot:
    """Statistics and prior weights of the clusters at one moment, or of the part of the data outside a block.

    Parameters
    ----------
    family : Family
        Bound.
    n : (K,) array_like
        Data in each cluster.
    slots : (K,) array_like of int
        Name of each cluster; names are stable between snapshots.
    statistics : callable
        Without arguments; returns S, (K, F) dense or CSR. Called once, and only if somebody asks.
    log_weight : (K,) array_like
        Log prior weight of each cluster, nats, not normalised.
    log_weight_new : float
        Log prior weight of a cluster that has no slot yet, on the same scale; -inf where none can be opened.

    Attributes
    ----------
    n, log_weight : (K,) float64 ndarray
    slots : (K,) intp ndarray
    S : (K, F) float64 ndarray, or CSR where the data's statistics are
    Theta : (K, F) float64 ndarray
        Posterior mean of the natural parameters.
    G : (K,) float64 ndarray
        Posterior mean of the log partition function.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import Poisson
    >>> from expfam.samplers.proposals.snapshot import Snapshot
    >>> family = Poisson(shape=1.0, rate=1.0).bind([[0], [3]])
    >>> view = Snapshot(family, [2.0], [0], lambda: np.array([[3.0]]), log_weight=[0.0])
    >>> view.S, view.slots, view.Theta.shape
    (array([[3.]]), array([0]), (1, 1))
    """

    def __init__(self, family, n, slots, statistics, *, log_weight, log_weight_new=-np.inf):
        self.family = family
        self.n = np.ascontiguousarray(n, dtype=np.float64)
        self.slots = np.ascontiguousarray(slots, dtype=np.intp)
        self.log_weight = np.ascontiguousarray(log_weight, dtype=np.float64)
        self.log_weight_new = float(log_weight_new)
        self._statistics = statistics

    @cached_property
    def S(self):
        """Sums of phi: (K, F), not to be changed."""
        return self._statistics()

    @cached_property
    def _natural(self):
        return self.family.expected_natural(self.n, dense_rows(self.S))

    @property
    def Theta(self):
        """Posterior mean of the natural parameters: (K, F) float64."""
        return self._natural[0]

    @property
    def G(self):
        """Posterior mean of the log partition function: (K,) float64."""
        return self._natural[1]
