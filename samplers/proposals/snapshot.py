"""What a proposal may know of the clusters: their statistics, never the labels."""

from functools import cached_property

import numpy as np

from expfam.errors import CapabilityError
from expfam.families.support import dense_rows, read_only_array


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
    natural : ((K, F), (K,)) array_likes, optional
        Theta and G where parameters are known rather than to be averaged.
    step : int
        Number of the sweep, for proposals with random numbers of their own.

    Attributes
    ----------
    n, log_weight : (K,) float64 ndarray
    slots : (K,) intp ndarray
    S : (K, F) float64 ndarray, or CSR where the data's statistics are
    Theta : (K, F) float64 ndarray
        Natural parameters: the known ones, or their posterior mean.
    G : (K,) float64 ndarray
        Log partition function: the known one, or its posterior mean.

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

    def __init__(self, family, n, slots, statistics, *, log_weight, log_weight_new=-np.inf, natural=None, step=0):
        self.family, self.step = family, step
        self.n = read_only_array(np.ascontiguousarray(n, dtype=np.float64))
        self.slots = read_only_array(np.ascontiguousarray(slots, dtype=np.intp))
        self.log_weight = read_only_array(np.ascontiguousarray(log_weight, dtype=np.float64))
        self.log_weight_new = float(log_weight_new)
        self._statistics = statistics
        if natural is not None:
            natural = (np.ascontiguousarray(part, dtype=np.float64) for part in natural)
            self.__dict__["_natural"] = tuple(map(read_only_array, natural))

    @classmethod
    def of_parameters(cls, family, Theta, G, log_pi, *, n_rows, step=0):
        """What a proposal may know where parameters are given: those, and nothing of the labels.

        Parameters
        ----------
        family : Family
            Bound.
        Theta : (K, F) array_like
        G, log_pi : (K,) array_like
        n_rows : int
        step : int

        Returns
        -------
        Snapshot
            Of all K components, with n = n_rows pi. It has no S, and asking for it is an error: a law made from the
            statistics of the very labels that it is to move would not leave their law as it is.

        Examples
        --------
        >>> import numpy as np
        >>> from expfam import Poisson
        >>> from expfam.samplers import Snapshot
        >>> family = Poisson().bind([[0], [3]])
        >>> view = Snapshot.of_parameters(family, [[0.0], [1.0]], [1.0, np.e], np.log([0.25, 0.75]), n_rows=4)
        >>> view.n, view.Theta.ravel(), view.log_weight_new
        (array([1., 3.]), array([0., 1.]), -inf)
        """

        def no_statistics():
            raise CapabilityError(
                "this proposal reads the clusters' statistics S; with parameters drawn it may know Theta, G and log_pi"
                " only, because S depends on the labels that it is to move"
            )

        log_pi = np.asarray(log_pi, dtype=np.float64)
        return cls(
            family,
            n_rows * np.exp(log_pi),
            np.arange(len(log_pi)),
            no_statistics,
            log_weight=log_pi,
            natural=(Theta, G),
            step=step,
        )

    @cached_property
    def S(self):
        """Sums of phi: (K, F); a dense array cannot be written to."""
        return read_only_array(self._statistics())

    @cached_property
    def _natural(self):
        return tuple(map(read_only_array, self.family.expected_natural(self.n, dense_rows(self.S))))

    @property
    def Theta(self):
        """Natural parameters, known or their posterior mean: (K, F) float64."""
        return self._natural[0]

    @property
    def G(self):
        """Log partition function, known or its posterior mean: (K,) float64."""
        return self._natural[1]
