"""Means over sweeps of clusters that have places of their own.

Parameters of such clusters are drawn beside the rows, so a cluster is the same in all sweeps by its place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from expfam.estimators.sweep_means import FourthSweeps
from expfam.fitting.kept_run import packed, unpacked

if TYPE_CHECKING:
    from collections.abc import Callable


class PlaceMeans(FourthSweeps):
    """Callback that averages parts of a state over sweeps, place by place.

    Parameters
    ----------
    parts : callable
        ``parts(state)`` returns arrays or sparse matrices: sizes of the clusters first, pseudo-counts last.
    n_warmup : int
        Steps of the chain before those that count, where the callback sees all of them.
    """

    def __init__(self, parts: Callable[[Any], list[Any]], n_warmup: int = 0) -> None:
        super().__init__()
        self.parts, self.n_warmup = parts, n_warmup
        self.totals: list[Any] = []
        self.times: Any = 0
        self.gamma = 0.0

    def __call__(self, info: Any, state: Any) -> bool:
        """Keep every fourth state after the warm-up; never end the run."""
        return info.step > self.n_warmup and super().__call__(info, state)

    def add(self, state: Any) -> None:
        """Add a state to the sums."""
        found = self.parts(state)
        self.totals = [total + part for total, part in zip(self.totals, found)] if self.n_kept else found
        self.times = self.times + (found[0] > 0)
        self.gamma += getattr(state.model, "gamma", 0.0)

    def means(self, state: Any) -> list[Any]:
        """Return the means of the parts; of the state where no sweep was kept."""
        self.keep_one(state)
        return [total / self.n_kept for total in self.totals]

    def listed(self) -> npt.NDArray[np.intp]:
        """Return the places of clusters that had rows in half of the sweeps, the largest first."""
        found = np.flatnonzero(2 * self.times >= self.n_kept)
        return found[np.argsort(-self.totals[0][found], kind="stable")]

    def weights(self, listed: npt.NDArray[np.intp]) -> tuple[npt.NDArray[np.float64], float, float]:
        """Return mean pseudo-counts of some places, and the means of both concentrations."""
        alpha = self.totals[-1] / self.n_kept
        return alpha[listed], float(alpha.sum()), self.gamma / self.n_kept

    def to_arrays(self) -> dict[str, Any]:
        """Return the sums as arrays."""
        return packed(vars(self))

    def from_arrays(self, arrays: dict[str, Any]) -> None:
        """Restore the sums from the arrays of `to_arrays`."""
        vars(self).update(unpacked(arrays))


def parts_of_topics(state: Any) -> list[Any]:
    """Return tokens of topics (K,), tokens of words in topics (V, K), and pseudo-counts (K,).

    Parameters
    ----------
    state : DocumentState
    """
    return [state.sizes, state.word_counts, state.model.pseudocounts]


def parts_of_groups(state: Any) -> list[Any]:
    """Return rows of clusters (K,), sums (K, F), rows of groups (G, K), pseudo-counts (K,).

    Parameters
    ----------
    state : GroupedPartsState
    """
    return [state.n, state.S, state.group_counts(), state.model.pseudocounts]
