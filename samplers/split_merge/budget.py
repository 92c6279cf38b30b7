"""How many split and merge moves a step makes, and in which steps.

The numbers follow counted work, so no result depends on a clock. The unit of work is one predictive of one cluster.
Early in a chain, moves are worth more than their share of a sweep. A step then makes at least as many moves as cost its
own overhead, and while moves are accepted it makes more before the next sweep. These numbers depend on the labels, so
they are adapted only in the first steps of a chain; after that the last number stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from expfam.errors import ArchiveError
from expfam.structures.ground.stored import integers, numbers

if TYPE_CHECKING:
    from expfam.samplers.split_merge.moves import Move

FEWEST_MOVES = 42
_MOST_MOVES = 1 << 20  # in one batch of anchors
_N_ADAPTING = 50  # steps in which the numbers follow the work
_SHARE = 0.1  # work of the moves, in sweeps
_LIVELY_WORK = 4.0  # while moves are accepted, a step may cost a sweep and this work for each datum
_LIVELY_SHARE = 0.2  # further moves are made before the sweep while an accepted move costs less than this share of it
_STEP_WORK = 6000.0  # fixed work of a step with moves, beside 1 / _SWEEP_RATE for each datum; measured
_RAREST = 100  # largest number of steps from one with moves to the next
_SWEEP_DATUM = 2.5  # fixed work of a sweep for each datum, beside the work for each cluster; measured
_SWEEP_RATE = 12.0  # clusters that a sweep scores in the time in which a move scores one; measured


def sweep_work(n_rows: int, n_clusters: int) -> float:
    """Return the work of a Gibbs sweep over `n_rows` data and `n_clusters` clusters."""
    return n_rows * ((n_clusters + 1.0) / _SWEEP_RATE + _SWEEP_DATUM)


def most_moves(n_rows: int, n_clusters: int) -> float:
    """Return the largest number of moves whose anchors a step may hold in memory."""
    return max(min(_MOST_MOVES, _SHARE * sweep_work(n_rows, n_clusters) / 20.0), n_rows // 4)


def _number(n_moves):
    return int(np.clip(n_moves, FEWEST_MOVES, _MOST_MOVES))


class MoveSchedule:
    """Numbers of moves of one chain, adapted in its first steps.

    Attributes
    ----------
    n_moves, n_next : int
        Moves of a step after the adaptation, and of the next run; 0 before the first guess.
    period : int
        Steps from one with moves to the next, after the adaptation.
    n_resting : int
        Number of coming steps that make no moves.
    n_calls : int
        Steps with moves so far.
    work_per_move : float
        Present estimate; nan before any move.
    """

    def __init__(self, n_rows: int) -> None:
        self.n_rows = n_rows
        self.n_moves, self.n_next, self.period, self.n_resting, self.n_calls = FEWEST_MOVES, 0, 1, 0, 0
        self.work_per_move = np.nan

    @property
    def is_adapting(self) -> bool:
        """Return whether the numbers still follow the work."""
        return self.n_calls < _N_ADAPTING

    def guess(self, moves: Sequence[Move], n_clusters: int) -> None:
        """Set the numbers before any move was made.

        The guess counts splits of clusters of average size, and merges that are refused before a member is read.
        """
        size = self.n_rows / n_clusters
        share = np.array([move.weight for move in moves], dtype=np.float64)
        cost = [20.0 + (1.5 * size if getattr(move, "most", np.inf) == np.inf else 0.0) for move in moves]
        self._set(float(share @ cost / share.sum()), n_clusters, True)

    def note(self, *, work: float, n_moves: int, n_clusters: int, is_lively: bool) -> None:
        """Update the numbers by the work of a run of moves.

        Parameters
        ----------
        work : float
            Work of the run, in predictives of one cluster.
        n_moves : int
            Number of its moves.
        n_clusters : int
        is_lively : bool
            Whether any move of the step was accepted.
        """
        now = work / n_moves
        self.work_per_move = now if np.isnan(self.work_per_move) else 0.5 * (self.work_per_move + now)
        self._set(self.work_per_move, n_clusters, is_lively)

    def goes_on(self, *, work: float, n_accepted: int, work_of_step: float, n_clusters: int) -> bool:
        """Return whether a step makes a further run of moves.

        Parameters
        ----------
        work : float
            Work of the last run, in predictives of one cluster.
        n_accepted : int
            Number of its accepted moves.
        work_of_step : float
            Work of all runs of the step.
        n_clusters : int
        """
        sweep = sweep_work(self.n_rows, n_clusters)
        pays = n_accepted * _LIVELY_SHARE * sweep > work
        return pays and work_of_step < sweep + _LIVELY_WORK * self.n_rows

    def rest(self) -> None:
        """Set the moves of the next step with moves, and the number of steps before it."""
        self.n_next, self.n_resting = self.n_moves, self.period - 1

    def _set(self, work_per_move, n_clusters, is_lively):
        # where even the fewest moves cost more than their share of a sweep, only every period-th step makes moves
        sweep, each = sweep_work(self.n_rows, n_clusters), max(work_per_move, 1.0)
        most = sweep + _LIVELY_WORK * self.n_rows
        fixed, allowed = _STEP_WORK + self.n_rows / _SWEEP_RATE, _SHARE * sweep
        self.period = int(np.clip(np.ceil((fixed + FEWEST_MOVES * each) / allowed), 1, _RAREST))
        share = self.period * allowed - fixed
        self.n_moves = _number(share / each)
        self.n_next = _number(max(share, fixed) / each)
        if is_lively:  # at most a quarter of the data in one run: whether another follows depends on what it gains
            self.n_next = max(self.n_next, _number(min(most / each, self.n_rows // 4)))

    # ---- files -----------------------------------------------------------------------------------------------------

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return all numbers as a dict of arrays, for files."""
        numbers = [self.n_calls, self.n_moves, self.n_next, self.period, self.n_resting]
        return {"numbers": np.array(numbers, dtype=np.int64), "work": np.array(self.work_per_move)}

    def from_arrays(self, arrays: dict[str, npt.NDArray[Any]]) -> None:
        """Restore what `to_arrays` returned.

        Raises
        ------
        ArchiveError
            For numbers that no schedule for this number of rows can have.
        """
        most = max(FEWEST_MOVES, min(_MOST_MOVES, _RAREST * most_moves(self.n_rows, self.n_rows)))
        counts = integers(arrays, "numbers", (5,)).tolist()
        work = float(numbers(arrays, "work", (), finite=False))
        if not (0 < counts[1] <= most and counts[2] <= most and 0 < counts[3] <= _RAREST and counts[4] < _RAREST):
            raise ArchiveError(f"the schedule of moves has the numbers {counts}: the file was altered")
        if not (np.isnan(work) or 0 <= work < np.inf):
            raise ArchiveError(f"a move costs {work} by the schedule of moves: the file was altered")
        self.n_calls, self.n_moves, self.n_next, self.period, self.n_resting = counts
        self.work_per_move = work
