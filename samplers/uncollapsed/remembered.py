"""When draws by products of integers keep lists of the clusters that matter to rows.

Lists are no part of a state: labels are the same bits with and without them. Counts of rows tell whether they save
time, never a clock: a few rows get lists, and if the next step shows that these would decide enough, all rows do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from expfam.samplers.uncollapsed import coded as coded_draw
from expfam.samplers.uncollapsed.coded_costs import (
    BOUND_COST,
    LISTED_COST,
    PAIR_COST,
    READ_COST,
    ROW_COST,
    SCATTERED,
    SCORE_COST,
)
from expfam.samplers.uncollapsed.kept_lists import MOST_CLUSTERS, NEEDS_PASS, KeptLists, Needs
from expfam.samplers.uncollapsed.kept_moves import Moves
from expfam.structures.ground.threads import run

if TYPE_CHECKING:
    import numpy.typing as npt

    from expfam.model.data import Dataset

_LEAST_CLUSTERS = 64
_MOST_FOR_PAIRS = 0.25  # of a pass without lists
_TRIAL_SHARE = 8  # of so many tasks one has lists at first
_FIRST_WAIT, _MOST_WAIT = 8, 64  # steps without lists after they did not pay
_WORTH, _WORTH_TRIED = 0.85, 0.5  # of the cost of a pass without lists, and of what a trial shows
_FINE = 0.25  # of it, up to which no restless clusters are looked for

_memories: WeakKeyDictionary[Any, Memory] = WeakKeyDictionary()


def memory_of(state: Any) -> Memory:
    """Return what is remembered of the rows of a state."""
    return _memories.setdefault(state, Memory())


class _Found(NamedTuple):
    """What lists tell of rows."""

    needs: Needs
    labels: npt.NDArray[np.int32]
    left: npt.NDArray[np.uint8]
    n_visits: int
    cost: float  # of the pass, relative to one without lists


class Memory:
    """Lists of the rows of a state, or the number of steps until they are tried."""

    def __init__(self) -> None:
        self.lists: KeptLists | None = None
        self.is_trial = False
        self.wait, self.last_wait = 1, 0
        self.least_cost, self.lost = 1.0, 0.0

    def draw(
        self, state: Any, n_threads: int | None, coded: coded_draw.CodedScores
    ) -> tuple[npt.NDArray[np.int32], dict[str, float]]:
        """Draw all labels, by lists where these save time."""
        if self.lists is not None and not self.lists.suit(state):
            self.lists = None
        if self.lists is not None:
            if self.lost > 1.0:  # a pass without lists costs no more than old ones did
                return self._record(state, n_threads, coded, 1)
            found = self._sifted(state, n_threads)
            if found is None or found.cost > (_WORTH_TRIED if self.is_trial else _WORTH):
                self._give_up()
            elif self.is_trial:
                return self._record(state, n_threads, coded, 1)
            else:
                return self._finished(state, n_threads, coded, found)
        self.wait -= 1
        if self.wait >= 0 or not may_pay(state.data, state.K):
            return coded_draw.draw_labels(state, n_threads, coded)
        return self._record(state, n_threads, coded, _TRIAL_SHARE)

    def _record(self, state, n_threads, coded, share):
        """Draw all labels without lists, and make those of one task of so many."""
        lists = KeptLists(state, coded.scores.centre, coded.column_scale)
        found = coded_draw.draw_labels(state, n_threads, coded, lists, share)
        lists.close()
        self.lists, self.is_trial = lists, share > 1
        self.least_cost, self.lost = 1.0, 0.0
        return found

    def _give_up(self):
        """Drop the lists for some steps."""
        self.lists = None
        self.wait = self.last_wait = min(max(_FIRST_WAIT, 2 * self.last_wait), _MOST_WAIT)

    def _sifted(self, state, n_threads):
        """Draw the labels that lists decide; None where single precision lacks the range."""
        moves = Moves(self.lists, state.Theta, state.log_pi - state.G, coded_draw.SCORED_DEPTH)
        if not moves.fits:
            return None
        found = self._sifted_by(state, n_threads, moves.compute(n_threads))
        restless = moves.compute_restless(n_threads) if found.cost > _FINE else None
        if restless is None:
            return found
        return min(found, self._sifted_by(state, n_threads, restless), key=lambda each: each.cost)

    def _sifted_by(self, state, n_threads, needs):
        N = state.data.n_rows
        labels, left = np.empty(N, dtype=np.int32), np.zeros(N, dtype=np.uint8)
        weight = coded_draw.others_weight(state.K)
        rows = coded_draw.task_rows(N)[:: _TRIAL_SHARE if self.is_trial else 1]
        tasks = [(needs, labels, left, *task, state.seed, state.n_steps, weight) for task in rows]
        n_visits = sum(run(self.lists.sift, tasks, n_threads, uses_blas=False))
        cost = relative_cost(state, left, n_visits, sum(stop - start for start, stop in rows))
        return _Found(needs, labels, left, n_visits, cost)

    def _finished(self, state, n_threads, coded, found):
        """Draw all other labels."""
        n_passed = coded_draw.draw_left(state, n_threads, coded, self.lists, *found[:3])
        self.last_wait, self.least_cost = 0, min(self.least_cost, found.cost)
        self.lost += found.cost - self.least_cost
        return found.labels, {"visits": (found.n_visits + n_passed) / state.data.n_rows}


def may_pay(data: Dataset, K: int) -> bool:
    """Tell whether lists can save time for data in K clusters."""
    return _LEAST_CLUSTERS <= K <= MOST_CLUSTERS and _pairs_cost(data, K) < _MOST_FOR_PAIRS * _pass_cost(data, K)


def bytes_of_lists(data: Dataset, K: int) -> int:
    """Return the bytes of lists, and of what compares parameters with those of before."""
    return 54 * data.n_rows + 24 * K * data.n_statistics if may_pay(data, K) else 0


def _pass_cost(data, K):
    """Return the nanoseconds of a pass without lists for a row."""
    return ROW_COST + BOUND_COST * K * data.n_statistics


def _pairs_cost(data, K):
    """Return the nanoseconds of comparing all clusters for a row."""
    fixed, slope = PAIR_COST
    return K**2 * (fixed + slope * data.n_statistics) / max(1, data.n_rows)


def relative_cost(state: Any, left: npt.NDArray[np.uint8], n_visits: int, n_rows: int) -> float:
    """Return the cost of a pass with lists beside that of one without.

    Parameters
    ----------
    state : UncollapsedState
    left : (N,) uint8 ndarray
        Of `KeptLists.sift`; 0 for other rows.
    n_visits : int
        Clusters that may matter to rows whose lists tell enough.
    n_rows : int
        Number of the rows.
    """
    F, n_left, n_passed = state.data.n_statistics, np.count_nonzero(left), np.count_nonzero(left == NEEDS_PASS)
    n_scores = n_visits - (n_rows - n_left)
    fixed, slope = SCORE_COST
    cost = LISTED_COST * n_rows + READ_COST * (n_left - n_passed) + (fixed + slope * F) * n_scores
    cost = cost / n_rows + _pairs_cost(state.data, state.K)
    return float(cost / _pass_cost(state.data, state.K) + SCATTERED * n_passed / n_rows)
