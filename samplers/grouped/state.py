"""What variational runs over rows in groups have in common: weights that belong to groups, and their part of the bound.

A run that holds its groups has that part from their counts; one that does not, from sums over them.
"""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from scipy import sparse

from expfam.errors import ArchiveError
from expfam.model.pseudo_counts import LEAST, PRIOR_RATE
from expfam.samplers.grouped.local_step import GroupedPass, GroupProportions, weights_evidence
from expfam.samplers.variational.alpha_bound import UrnTangents
from expfam.samplers.variational.local_step import Sums
from expfam.samplers.variational.soft_state import SoftState
from expfam.structures.ground.stored import numbers


@dataclass
class GroupedSums(UrnTangents, Sums):
    """Soft statistics of rows in groups, with what the bound has of the groups' weights.

    Attributes
    ----------
    n, S, entropy
        As of `Sums`.
    rising, falling, rest
        As of `UrnTangents`.
    """

    rising: np.ndarray = field(kw_only=True)
    falling: float = field(default=0.0, kw_only=True)
    rest: float = field(default=0.0, kw_only=True)

    least_alpha: ClassVar[float] = LEAST
    alpha_rate: ClassVar[float] = PRIOR_RATE

    @classmethod
    def zeros(cls, n_clusters, n_statistics):
        """Of no rows."""
        return cls.of_groups(Sums.zeros(n_clusters, n_statistics))

    @classmethod
    def of_groups(cls, sums, alpha=None, counts=None, *, learns=False):
        """Sums of the rows of some groups.

        Parameters
        ----------
        sums : Sums
        alpha : (K,) float64 ndarray, optional
        counts : (G, K) CSR, optional
            What the rows of each group give each cluster; without them the groups are not known.
        learns : bool
            Whether alpha is to be learned: the groups' part of the bound is then a tangent at `alpha`.
        """
        self = cls(sums.n, sums.S, sums.entropy, rising=np.zeros((2, len(sums.n))))
        if counts is not None:
            self.rest = weights_evidence(alpha, counts)
            if learns:
                self.add_tangent(alpha, counts.indices, counts.data, 1.0, (1.0, counts.sum(axis=1)))
        return self

    def to_arrays(self):
        """As of `Sums`."""
        return super().to_arrays() | {"rising": self.rising.copy(), "urns": np.array([self.falling, self.rest])}

    @classmethod
    def from_arrays(cls, arrays, entropy, shape=(None, None)):
        """As of `Sums`."""
        self = cls.of_groups(Sums.from_arrays(arrays, entropy, shape))
        self.rising = numbers(arrays, "rising", self.rising.shape)
        self.falling, self.rest = numbers(arrays, "urns", (2,)).tolist()
        return self


def stored_counts(arrays, name, shape):
    """Counts (G, K) CSR of groups from a file; ArchiveError unless they have that shape."""
    counts = arrays[name]
    if not sparse.issparse(counts) or any(want not in (None, got) for want, got in zip(shape, counts.shape)):
        raise ArchiveError(f"{name!r} is no CSR matrix of shape {shape}: the file was altered")
    numbers({name: counts.data}, name, (None,), low=0.0)
    return sparse.csr_array(counts)


class GroupedSoft(SoftState):
    """Soft statistics of clusters that groups of rows mix; subclasses write `groups_bound`."""

    def proportions(self):
        """Weights are the groups'."""
        return GroupProportions()

    def group_passes(self, phi, data):
        """Passes over the groups of some data, in blocks `phi` of their statistics."""
        L = self.settings.n_active_of(self.K)
        return GroupedPass(phi, self.K, L, data.groups, self.settings, weight=data.weight)

    def prior_of_alpha(self):
        """Log density of the pseudo-counts where they are learned: nats."""
        alpha = self.model.pseudocounts
        return float(alpha.size * np.log(PRIOR_RATE) - PRIOR_RATE * alpha.sum()) if self.settings.learn_alpha else 0.0

    def compute_log_joint(self):
        """Bound of the statistics, weights of groups and entropy, at the posterior that they imply: nats."""
        return super().compute_log_joint() + self.groups_bound() + self.prior_of_alpha()


__all__ = ["GroupedSoft", "GroupedSums"]
