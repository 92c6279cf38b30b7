"""Base of the states of variational runs over rows in groups.

The weights belong to the groups and are a part of the bound. A run that holds its groups computes this part from the
groups' counts, a stream from sums over the groups.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from expfam.model.pseudo_counts import LEAST, PRIOR_RATE
from expfam.samplers.grouped.local_step import GroupedPass, GroupProportions, weights_evidence
from expfam.samplers.variational.alpha_bound import PseudoCountBound
from expfam.samplers.variational.local_step import Sums
from expfam.samplers.variational.soft_state import SoftState
from expfam.samplers.variational.state import held_clusters
from expfam.structures.ground.stored import numbers

if TYPE_CHECKING:
    from expfam.model.data import Dataset
    from expfam.samplers.variational.features import PhiBlocks


@dataclass
class GroupedSums(PseudoCountBound, Sums):
    """Expected statistics of rows in groups, with the part of the bound of the groups' weights.

    Attributes
    ----------
    n, S, entropy
        As in `Sums`.
    rising, falling, rest
        As in `PseudoCountBound`.
    """

    rising: np.ndarray = field(kw_only=True)
    falling: float = field(default=0.0, kw_only=True)
    rest: float = field(default=0.0, kw_only=True)

    least_alpha: ClassVar[float] = LEAST
    alpha_rate: ClassVar[float] = PRIOR_RATE

    @classmethod
    def zeros(cls, n_clusters: int, n_statistics: int) -> GroupedSums:
        """Return the sums of no rows."""
        return cls.of_groups(Sums.zeros(n_clusters, n_statistics))

    @classmethod
    def of_groups(cls, sums: Sums, alpha: Any = None, counts: Any = None, *, learns: bool = False) -> GroupedSums:
        """Return the sums of the rows of some groups.

        Parameters
        ----------
        sums : Sums
            Sums of the rows.
        alpha : (K,) float64 ndarray, optional
            Pseudo-count of each cluster; needed with `counts`.
        counts : (G, K) CSR, optional
            Sums of the responsibilities of each group's rows. Without them the groups are not known.
        learns : bool
            Whether alpha is learned: a tangent at `alpha` then replaces the groups' part of the bound.
        """
        self = cls(sums.n, sums.S, sums.entropy, rising=np.zeros((2, len(sums.n))))
        if counts is not None:
            self.rest = weights_evidence(alpha, counts)
            if learns:
                self.add_tangent(alpha, counts.indices, counts.data, 1.0, (1.0, counts.sum(axis=1)))
        return self

    def to_arrays(self) -> dict[str, npt.NDArray[np.float64]]:
        """Return the counts, sums and tangents, without the entropy, as a dict of arrays."""
        return super().to_arrays() | {"rising": self.rising.copy(), "urns": np.array([self.falling, self.rest])}

    @classmethod
    def from_arrays(cls, arrays: dict[str, Any], entropy: Any, shape: tuple[int, ...]) -> GroupedSums:
        """Return the sums that `to_arrays` stored, with an entropy; S has the shape (K, F).

        Parameters
        ----------
        arrays : dict of ndarrays
            Result of `to_arrays`.
        entropy : float
            Entropy of the responsibilities, nats.
        shape : tuple of int
            Shape (K, F) of the sums, against which the arrays are checked.
        """
        self = cls.of_groups(Sums.from_arrays(arrays, entropy, shape))
        self.rising = numbers(arrays, "rising", self.rising.shape)
        self.falling, self.rest = numbers(arrays, "urns", (2,)).tolist()
        return self


class GroupedSoft(SoftState):
    """Expected statistics of clusters that groups of rows mix; subclasses write `groups_bound`."""

    groups_bound: Any

    def proportions(self) -> GroupProportions:
        """Return proportions without weights: each group has its own."""
        return GroupProportions()

    def group_passes(self, phi: PhiBlocks, data: Dataset) -> GroupedPass:
        """Return passes over the groups of some data.

        Parameters
        ----------
        phi : PhiBlocks
            Blocks of the statistics of the rows.
        data : Dataset
            With groups.
        """
        L = self.settings.n_active_of(self.K)
        groups: Any = data.groups
        return GroupedPass(phi, self.K, L, groups, self.settings, weight=data.weight, held=held_clusters(data))

    def prior_of_alpha(self) -> float:
        """Return the log prior density of the pseudo-counts, nats; 0 where they are not learned."""
        alpha = self.model.pseudocounts
        return float(alpha.size * np.log(PRIOR_RATE) - PRIOR_RATE * alpha.sum()) if self.settings.learn_alpha else 0.0

    def compute_log_joint(self) -> float:
        """Return the bound of statistics, weights of groups and entropy at their posterior, nats."""
        return super().compute_log_joint() + self.groups_bound() + self.prior_of_alpha()
