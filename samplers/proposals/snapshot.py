"""Statistics of the clusters that a proposal may read; labels are not among them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from expfam.errors import CapabilityError
from expfam.families.support import dense_rows, read_only_array


class Snapshot:
    """Statistics and prior weights of the clusters at one moment.

    They are statistics of all data, or of the data outside a block.

    Parameters
    ----------
    family : Family
        Bound to the data.
    n : (K,) array_like
        Number of data in each cluster.
    slots : (K,) array_like of int
        Name of each cluster; a cluster has the same name in all snapshots.
    statistics : callable
        Called without arguments, once, when S is first read; returns S, (K, F) dense or CSR.
    log_weight : (K,) array_like
        Log prior weight of each cluster, nats, not normalised.
    log_weight_new : float
        Log prior weight of a cluster that has no slot yet, on the same scale; -inf if no cluster can be opened.
    natural : ((K, F), (K,)) array_likes, optional
        Theta and G, if the parameters are known; without it their posterior means are computed.
    step : int
        Number of the sweep, for proposals that draw random numbers.

    Attributes
    ----------
    n, log_weight : (K,) float64 ndarray
    slots : (K,) intp ndarray
    S : (K, F) float64 ndarray or CSR
        Sums of the sufficient statistics; CSR if the statistics of the data are.
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

    def __init__(
        self,
        family: Any,
        n: npt.ArrayLike,
        slots: npt.ArrayLike,
        statistics: Callable[[], Any],
        *,
        log_weight: npt.ArrayLike,
        log_weight_new: float = -np.inf,
        natural: tuple[npt.ArrayLike, npt.ArrayLike] | None = None,
        step: int = 0,
    ) -> None:
        self.family, self.step = family, step
        self.n = read_only_array(np.ascontiguousarray(n, dtype=np.float64))
        self.slots = read_only_array(np.ascontiguousarray(slots, dtype=np.intp))
        self.log_weight = read_only_array(np.ascontiguousarray(log_weight, dtype=np.float64))
        self.log_weight_new = float(log_weight_new)
        self._statistics = statistics
        if natural is not None:
            parts = (np.ascontiguousarray(part, dtype=np.float64) for part in natural)
            self.__dict__["_natural"] = tuple(map(read_only_array, parts))

    @classmethod
    def of_parameters(
        cls,
        family: Any,
        Theta: npt.ArrayLike,
        G: npt.ArrayLike,
        log_pi: npt.ArrayLike,
        *,
        n_rows: int,
        step: int = 0,
    ) -> Snapshot:
        """Make a snapshot of given parameters, without statistics of the labels.

        Parameters
        ----------
        family : Family
            Bound to the data.
        Theta : (K, F) array_like
            Natural parameters.
        G, log_pi : (K,) array_like
            Log partition function and log weight of each component.
        n_rows : int
            Number of data.
        step : int
            Number of the sweep.

        Returns
        -------
        Snapshot
            It has all K components, with n = n_rows pi. It has no S, and reading S is an error: S depends on the labels
            that the proposal moves, so a law made from S would not leave the posterior invariant.

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

        def no_statistics() -> NoReturn:
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
    def S(self) -> Any:
        """Sums of phi: (K, F), a read-only array or CSR."""
        return read_only_array(self._statistics())

    @cached_property
    def _natural(self):
        return tuple(map(read_only_array, self.family.expected_natural(self.n, dense_rows(self.S))))

    @property
    def Theta(self) -> npt.NDArray[np.float64]:
        """Natural parameters, known or their posterior mean: (K, F) float64."""
        return self._natural[0]

    @property
    def G(self) -> npt.NDArray[np.float64]:
        """Log partition function, known or its posterior mean: (K,) float64."""
        return self._natural[1]
