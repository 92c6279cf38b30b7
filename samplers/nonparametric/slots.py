"""Slots of clusters whose number is unknown: their weights, names, and free slots.

A cluster has a slot, which may change; its name, a number that no other cluster of the chain has, stays the same. The
first slots are those of clusters that are known to exist: they stay, also without data.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from expfam.errors import ArchiveError
from expfam.samplers.nonparametric.weights import SharedWeights
from expfam.structures.ground.stored import integers, numbers

_SPARE = 16  # slots more than a quarter of the clusters


def capacity_for(n_clusters: int) -> int:
    """Return the number of slots to hold for so many clusters."""
    return n_clusters + n_clusters // 4 + _SPARE


class Slots:
    """Weights and names of the clusters, by slot.

    Parameters
    ----------
    capacity : int
        Number of slots.
    n_known : int
        Clusters that are known to exist; they have the first slots, and their numbers as names.

    Attributes
    ----------
    pseudocounts : (capacity,) float64 ndarray
        alpha beta_k of each cluster; that of the slot `rest` is shared by all clusters that are not listed, and those
        of free slots are 0.
    rest : int
        Slot without data that stands for all clusters that are not listed.
    names : (capacity,) int64 ndarray
        Name of each cluster that holds data or is known; -1 for other slots.
    n_named : int
        Names given so far.
    """

    def __init__(self, capacity: int, n_known: int = 0) -> None:
        self.pseudocounts, self.rest, self.n_known = np.zeros(capacity), -1, n_known
        self.names, self.n_named = np.full(capacity, -1, dtype=np.int64), n_known
        self.names[:n_known] = np.arange(n_known)

    @property
    def capacity(self) -> int:
        """Return the number of slots."""
        return len(self.names)

    @property
    def n_live(self) -> int:
        """Return the number of clusters that hold data or are known."""
        return int(np.count_nonzero(self.names >= 0))

    @property
    def free(self) -> npt.NDArray[np.intp]:
        """Return the slots without data and weight: the last is the first to be used."""
        is_free = self.pseudocounts == 0.0
        is_free[self.rest] = False
        return np.flatnonzero(is_free)[::-1]

    def resize(self, capacity: int) -> None:
        """Change the number of slots; those from `capacity` on hold no data."""
        kept = min(capacity, self.capacity)
        pseudocounts, names = np.zeros(capacity), np.full(capacity, -1, dtype=np.int64)
        pseudocounts[:kept], names[:kept] = self.pseudocounts[:kept], self.names[:kept]
        self.pseudocounts, self.names = pseudocounts, names

    def name(self, sizes: npt.NDArray[np.int64]) -> None:
        """Name clusters that have data and no name yet; forget unknown ones without data."""
        self.names[self.n_known :][sizes[self.n_known :] == 0] = -1
        fresh = np.flatnonzero((sizes > 0) & (self.names < 0))
        self.names[fresh] = self.n_named + np.arange(len(fresh))
        self.n_named += len(fresh)

    def by_age(self, a: int, b: int) -> tuple[int, int]:
        """Return the slots of two clusters, the older one first.

        A merge keeps its name. A cluster that loses a part and gets it back thus keeps its name, whichever part has
        become the larger one.
        """
        return (a, b) if self.names[a] <= self.names[b] else (b, a)

    def set_weights(self, weights: SharedWeights) -> None:
        """Set the weights of the named clusters, and of the rest; other slots are free."""
        self.pseudocounts = weights.alpha * weights.beta
        self.rest = int(np.flatnonzero(weights.beta == 0.0)[0])
        self.pseudocounts[self.rest] = weights.alpha * weights.rest

    def weights(self, alpha: float, gamma: float) -> SharedWeights:
        """Return the weights of the named clusters, and of the rest."""
        beta = np.where(self.names >= 0, self.pseudocounts, 0.0) / alpha
        return SharedWeights(alpha, gamma, beta, float(self.pseudocounts[self.rest]) / alpha)

    def compacted(self) -> npt.NDArray[np.int32] | None:
        """Return new slots of all clusters where far too many slots are empty, else None.

        The order of the clusters stays. Slots without data get 0.
        """
        live = self.names >= 0
        n_live = self.n_live
        if self.capacity <= 2 * capacity_for(n_live):
            return None
        places = np.zeros(self.capacity, dtype=np.int32)
        places[live] = np.arange(n_live, dtype=np.int32)
        return places

    def renumber(self, places: npt.NDArray[np.int32], capacity: int) -> None:
        """Move the clusters to the slots that `compacted` returned, of `capacity` in all."""
        live = np.flatnonzero(self.names >= 0)
        moved = Slots(capacity, self.n_known)
        moved.pseudocounts[places[live]], moved.names[places[live]] = self.pseudocounts[live], self.names[live]
        moved.pseudocounts[len(live)], moved.rest = self.pseudocounts[self.rest], len(live)
        self.pseudocounts, self.names, self.rest = moved.pseudocounts, moved.names, moved.rest

    def to_arrays(self) -> dict[str, Any]:
        """Return everything as a dict of arrays."""
        return {
            "pseudocounts": self.pseudocounts.copy(),
            "names": self.names.copy(),
            "slots": np.array([self.rest, self.n_named], dtype=np.int64),
        }

    @classmethod
    def from_arrays(cls, arrays: dict[str, Any], labels: npt.NDArray[np.int32], n_known: int = 0) -> Slots:
        """Return the slots that `to_arrays` stored; the labels must be theirs."""
        names = integers(arrays, "names", (None,), -1)
        slots = cls(len(names), min(n_known, len(names)))
        slots.names, slots.pseudocounts = names, numbers(arrays, "pseudocounts", (len(names),), low=0.0)
        slots.rest, slots.n_named = integers(arrays, "slots", (2,)).tolist()
        sizes = np.bincount(labels, minlength=len(names))
        held = names[names >= 0]
        is_right = len(sizes) == len(names) >= n_known and np.array_equal(names[:n_known], np.arange(n_known))
        is_right = is_right and np.array_equal(sizes[n_known:] > 0, names[n_known:] >= 0)
        is_right = is_right and len(np.unique(held)) == len(held) and held.max(initial=-1) < slots.n_named
        if not is_right or not n_known <= slots.rest < len(names) or sizes[slots.rest]:
            raise ArchiveError("the slots are not those of the labels: the file was altered")
        return slots
