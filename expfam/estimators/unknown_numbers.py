"""What fits of unknown numbers share: how long they run, and means over their sweeps.

A cluster has a name that it keeps for life. Means are of the clusters that were there in every counted sweep; all
others together are the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from expfam.amounts import counted
from expfam.errors import CapabilityError
from expfam.params import is_auto

if TYPE_CHECKING:
    from collections.abc import Callable

LONGEST_WARMUP = 600  # sweeps of a warm-up whose number of large clusters goes on falling
KEEP_EVERY = 4  # sweeps from one that counts to the next
_LEAST = 1e-10  # pseudo-count of the rest
_EVERY, _FALL = 20, 0.01


class StillFalling:
    """Rule of a warm-up: it ends where the number of large clusters no longer falls.

    The mean over the last quarter of the sweeps is compared with that over the quarter before.
    """

    def __init__(self) -> None:
        self.numbers: list[float] = []

    def watch(self, info: Any, state: Any) -> bool:
        """Note the number of large clusters; never end the phase."""
        self.numbers.append(info.extra["n_large"])
        return False

    def __call__(self, info: Any, state: Any) -> bool:
        """Note the number of large clusters; return whether it has stopped to fall."""
        self.watch(info, state)
        quarter = len(self.numbers) // 4
        if quarter == 0 or len(self.numbers) % _EVERY:
            return False
        before = sum(self.numbers[-2 * quarter : -quarter]) / quarter
        return before - sum(self.numbers[-quarter:]) / quarter < max(_FALL * before, 0.05)


class MeansBySweeps:
    """Callback that averages what `parts` returns of a state, cluster by cluster.

    ``parts(state, slots)`` returns arrays with the clusters of `slots` along their first axis.
    """

    def __init__(self, parts: Callable[[Any, Any], list[Any]]) -> None:
        self.parts, self.names = parts, np.empty(0, dtype=np.int64)
        self.totals: list[Any] = []
        self.pseudocounts, self.concentrations = np.empty(0), np.zeros(2)
        self.n_kept = self.n_seen = 0

    def __call__(self, info: Any, state: Any) -> bool:
        """Keep every fourth state; never end the run."""
        self.n_seen += 1
        if self.n_seen % KEEP_EVERY == 0:
            self.keep(state)
        return False

    def keep(self, state: Any) -> None:
        """Add a state to the sums; clusters that it does not have leave them."""
        shared = state.shared
        slots = np.flatnonzero(shared.names >= 0)
        slots = slots[np.argsort(shared.names[slots])]
        if self.n_kept:
            stays = np.isin(self.names, shared.names[slots])
        if self.n_kept and not stays.any():  # of few data that all changed their clusters
            self.n_kept, self.concentrations = 0, np.zeros(2)
        if self.n_kept:
            slots = slots[np.isin(shared.names[slots], self.names)]
            if not stays.all():
                self.names, self.pseudocounts = self.names[stays], self.pseudocounts[stays]
                self.totals = [part[stays] for part in self.totals]
        found = self.parts(state, slots)
        if not self.n_kept:
            self.names, self.pseudocounts, self.totals = shared.names[slots], np.zeros(len(slots)), [0.0] * len(found)
        self.totals = [total + part for total, part in zip(self.totals, found)]
        self.pseudocounts = self.pseudocounts + shared.pseudocounts[slots]
        self.concentrations = self.concentrations + np.array([state.model.alpha, state.model.gamma])
        self.n_kept += 1

    def means(self, state: Any) -> tuple[list[Any], npt.NDArray[np.float64], float, float]:
        """Return the means of the parts, of the pseudo-counts, and of both concentrations."""
        if not self.n_kept:
            self.keep(state)
        alpha, gamma = (self.concentrations / self.n_kept).tolist()
        return [total / self.n_kept for total in self.totals], self.pseudocounts / self.n_kept, alpha, gamma


def set_weights(estimator: Any, pseudocounts: npt.NDArray[np.float64], alpha: float, gamma: float) -> None:
    """Set the weights of the clusters of a fit, and of all others together."""
    estimator.alpha_, estimator.concentration_, estimator.gamma_ = pseudocounts, alpha, gamma
    estimator.beta_ = pseudocounts / alpha
    estimator.rest_ = float(max(0.0, 1.0 - estimator.beta_.sum()))


def rest_pseudocount(estimator: Any) -> float:
    """Return the pseudo-count of all clusters that a fit does not list."""
    return max(estimator.concentration_ * estimator.rest_, _LEAST)


def concentration_of(estimator: Any) -> float:
    """Return the concentration to begin with, or refuse one pseudo-count for each cluster."""
    alpha = estimator._alpha_or(1.0)
    if np.ndim(alpha):
        owner = type(estimator).__name__
        raise ValueError(
            f"{owner}: with n_components=None alpha is one number, the concentration of each group; got"
            f" {counted(np.size(alpha), 'number')}: write {owner}(n_components={np.size(alpha)}, alpha=...) or"
            " alpha='auto'"
        )
    return float(alpha)


def learns_concentrations(estimator: Any) -> bool:
    """Return whether both concentrations are learned."""
    estimator._check_learn_hyper(estimator.learn_hyper)
    return is_auto(estimator.alpha) if is_auto(estimator.learn_hyper) else bool(estimator.learn_hyper)


def refuse_unknown(owner: str, what: str, line: str) -> None:
    """Raise the error of what needs a given number of topics or clusters."""
    raise CapabilityError(f"{owner}: {what} needs a given number, and n_components is None: write {line}")


__all__ = [
    "LONGEST_WARMUP",
    "MeansBySweeps",
    "StillFalling",
    "concentration_of",
    "learns_concentrations",
    "refuse_unknown",
    "rest_pseudocount",
    "set_weights",
]
