"""What fits of unknown numbers share: how long they run, and means over their sweeps.

Means are of the clusters that were there in at least half of the counted sweeps; all others together are the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from expfam.amounts import counted
from expfam.errors import CapabilityError
from expfam.estimators.base import alpha_or, check_learn_hyper
from expfam.estimators.sweep_means import FourthSweeps
from expfam.params import is_auto

if TYPE_CHECKING:
    from collections.abc import Callable

LONGEST_WARMUP = 600  # sweeps of a warm-up whose number of large clusters goes on falling
_LEAST = 1e-10  # pseudo-count of the rest
_EVERY, _FALL = 10, 0.01  # sweeps from one look to the next, and the share of the clusters
_PART = 10  # of the sweeps so far, one in this many is compared with as many before
_SHORTEST = 8  # sweeps that are compared: few differ by chance


class StillFalling:
    """Rule of a warm-up: it ends where the number of large clusters no longer falls.

    The mean over the last tenth of the sweeps is compared with that over the tenth before.
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
        part = len(self.numbers) // _PART
        if part < _SHORTEST or len(self.numbers) % _EVERY:
            return False
        before = sum(self.numbers[-2 * part : -part]) / part
        return before - sum(self.numbers[-part:]) / part < max(_FALL * before, 0.05)


class MeansBySweeps(FourthSweeps):
    """Callback that averages what `parts` returns of a state, cluster by cluster.

    ``parts(state, slots)`` returns arrays with the clusters of `slots` along their first axis. The first state that
    counts is the reference. A cluster of a later state is the same as one of the reference where each of both shares
    more data with the other than with any third; parts of one that has been divided, of which it had more than half,
    belong to it too. Known clusters are the same by their numbers, and come first. What is left out counts as 0.
    """

    def __init__(self, parts: Callable[[Any, Any], list[Any]]) -> None:
        super().__init__()
        self.parts, self.reference = parts, np.empty(0, dtype=np.int64)
        self.totals: list[Any] = []
        self.times = np.empty(0, dtype=np.int64)
        self.pseudocounts, self.concentrations = np.empty(0), np.zeros(2)

    def add(self, state: Any) -> None:
        """Add a state to the sums."""
        shared = state.shared
        if not self.n_kept:
            slots = np.flatnonzero(shared.names >= 0)
            places = np.arange(len(slots))
            self.reference = np.searchsorted(slots, state.labels)
            self.times, self.pseudocounts = np.zeros(len(slots), dtype=np.int64), np.zeros(len(slots))
        else:
            sizes = len(self.times), shared.capacity
            places, slots = _same_clusters(self.reference, state.labels, *sizes, shared.n_known)
        into = sparse.csr_array((np.ones(len(slots)), (places, np.arange(len(slots)))), (len(self.times), len(slots)))
        found = [into @ part for part in self.parts(state, slots)]
        self.totals = [total + part for total, part in zip(self.totals or [0.0] * len(found), found)]
        self.times[np.unique(places)] += 1
        np.add.at(self.pseudocounts, places, shared.pseudocounts[slots])
        self.concentrations = self.concentrations + np.array([state.model.alpha, state.model.gamma])

    def means(self, state: Any) -> tuple[list[Any], npt.NDArray[np.float64], float, float]:
        """Return the means of the parts, of the pseudo-counts, and of both concentrations.

        They are of the clusters that were there in at least half of the states.
        """
        self.keep_one(state)
        kept = 2 * self.times >= self.n_kept
        alpha, gamma = (self.concentrations / self.n_kept).tolist()
        return (
            [total[kept] / self.n_kept for total in self.totals],
            self.pseudocounts[kept] / self.n_kept,
            alpha,
            gamma,
        )


def _same_clusters(reference, labels, n_reference, n_slots, n_known=0):
    """Return places in the reference, and the slots of a later state that belong to them."""
    pairs = np.bincount(reference.astype(np.int64) * n_slots + labels, minlength=n_reference * n_slots)
    table = pairs.reshape(n_reference, n_slots)
    totals, known = table.sum(axis=0)[n_known:], np.arange(n_known)
    table = table[n_known:, n_known:]  # known clusters are the same by their numbers
    if not table.size:
        return known, known
    best, back, most = table.argmax(axis=1), table.argmax(axis=0), table.max(axis=0)
    is_same = (best[back] == np.arange(len(back))) & (most > 0)
    slots = np.flatnonzero(is_same | (2 * most > totals))
    return np.append(known, n_known + back[slots]), np.append(known, n_known + slots)


def falling_sizes(sizes: npt.NDArray[np.float64], n_known: int) -> npt.NDArray[np.intp]:
    """Return the order of clusters: known ones first, the others in falling order of size.

    >>> import numpy as np
    >>> from expfam.estimators.unknown_numbers import falling_sizes
    >>> falling_sizes(np.array([1.0, 3.0, 5.0, 8.0]), 1)
    array([0, 3, 2, 1])
    """
    return np.append(np.arange(n_known), n_known + np.argsort(-sizes[n_known:], kind="stable"))


def set_weights(estimator: Any, pseudocounts: npt.NDArray[np.float64], alpha: float, gamma: float) -> None:
    """Set the weights of the clusters of a fit, and of all others together."""
    estimator.alpha_, estimator.concentration_, estimator.gamma_ = pseudocounts, alpha, gamma
    estimator.beta_ = pseudocounts / alpha
    estimator.rest_ = float(max(0.0, 1.0 - estimator.beta_.sum()))


def drop_weights(estimator: Any) -> None:
    """Drop what `set_weights` has set, and the sizes: the number of clusters is given now."""
    for name in ("beta_", "rest_", "concentration_", "gamma_", "sizes_"):
        estimator.__dict__.pop(name, None)


def rest_pseudocount(estimator: Any) -> float:
    """Return the pseudo-count of all clusters that a fit does not list."""
    return max(estimator.concentration_ * estimator.rest_, _LEAST)


def concentration_of(estimator: Any) -> float:
    """Return the concentration to begin with, or refuse one pseudo-count for each cluster."""
    alpha = alpha_or(estimator, 1.0)
    if np.ndim(alpha):
        owner = type(estimator).__name__
        raise ValueError(
            f"{owner}: with n_components=None alpha is one number, the concentration of each group; got"
            f" {counted(np.size(alpha), 'number')}: write {owner}(n_components={np.size(alpha)}, alpha=...) or"
            " alpha='auto'"
        )
    return float(alpha)


def learns_concentrations(estimator: Any) -> bool:
    """Return whether both concentrations are learned: where `alpha` was left at "auto"."""
    check_learn_hyper(estimator)
    return is_auto(estimator.alpha)


def refuse_unknown(owner: str, what: str, line: str) -> None:
    """Raise the error of what needs a given number of topics or clusters.

    Parameters
    ----------
    owner : str
        Name of the estimator.
    what : str
        What needs the number.
    line : str
        What to type, the end of the message.

    Raises
    ------
    CapabilityError
    """
    raise CapabilityError(f"{owner}: {what} needs a given number, and n_components is None: write {line}")


def refuse_rest(estimator: Any, rest: bool, line: str) -> None:
    """Raise where `rest` is asked for and all clusters are listed, with the line that works.

    Parameters
    ----------
    estimator : TopicModel or GroupedMixture
    rest : bool
    line : str
        What to type, for the message.

    Raises
    ------
    ValueError
    """
    if rest and not hasattr(estimator, "rest_"):
        owner, what = type(estimator).__name__, f"{estimator.of_clusters}s"
        raise ValueError(
            f"transform(rest=True) needs a fit with an unknown number of {what}: write {line}, or"
            f" {owner}(n_components=None)"
        )
