"""How many split and merge moves a step makes, and how often: by counted work, so that no result depends on a clock.

Work is counted in predictives of one cluster. Early in a chain moves are worth more than their share of a sweep: then a
step makes as many as cost what the step itself does, and where moves are accepted they go on before the next sweep.
How many that is depends on labels, so it ends with the steps of adaptation; then the last number stays.
"""

import numpy as np

from expfam.errors import ArchiveError
from expfam.structures.ground.stored import integers, numbers

FEWEST_MOVES = 42
_MOST_MOVES = 1 << 20  # whose anchors are drawn at once
_N_ADAPTING = 50  # steps in which the numbers follow the work
_SHARE = 0.1  # work of the moves, in sweeps
_LIVELY_WORK = 4.0  # work for each datum beyond a sweep's while moves are accepted
_LIVELY_SHARE = 0.2  # of a sweep's work: what an accepted move may cost, for moves to go on before the sweep
_STEP_WORK = 6000.0  # of a step of any number of moves, and 1 / _SWEEP_RATE for each datum; measured
_RAREST = 100  # steps from one with moves to the next, at most
_SWEEP_DATUM = 2.5  # work of a sweep for each datum beside that for each cluster; measured
_SWEEP_RATE = 12.0  # clusters that a sweep scores while a move scores one; measured


def sweep_work(n_rows, n_clusters):
    """Work of a Gibbs sweep over as many data and clusters."""
    return n_rows * ((n_clusters + 1.0) / _SWEEP_RATE + _SWEEP_DATUM)


def most_moves(n_rows, n_clusters):
    """Moves whose anchors a step may have to hold at once."""
    return max(min(_MOST_MOVES, _SHARE * sweep_work(n_rows, n_clusters) / 20.0), n_rows // 4)


def _number(n_moves):
    return int(np.clip(n_moves, FEWEST_MOVES, _MOST_MOVES))


class MoveSchedule:
    """Numbers of moves of one chain, adapted while it is young.

    Parameters
    ----------
    n_rows : int

    Attributes
    ----------
    n_moves : int
        Of a step once nothing is adapted any more.
    n_next : int
        Of the next run of moves, 0 before the first guess.
    period : int
        Steps from one with moves to the next, once nothing is adapted any more.
    n_resting : int
        Steps without moves that are to come.
    n_calls : int
        Steps with moves so far.
    work_per_move : float
        As of now; nan before any move.

    Examples
    --------
    >>> from expfam.samplers.split_merge.budget import MoveSchedule
    >>> schedule = MoveSchedule(100_000)
    >>> schedule.note(work=30_000.0, n_moves=1000, n_clusters=50, is_lively=False)
    >>> schedule.n_moves
    1772
    """

    def __init__(self, n_rows):
        self.n_rows = n_rows
        self.n_moves, self.n_next, self.period, self.n_resting, self.n_calls = FEWEST_MOVES, 0, 1, 0, 0
        self.work_per_move = np.nan

    @property
    def is_adapting(self):
        """Whether the numbers still follow the work."""
        return self.n_calls < _N_ADAPTING

    def guess(self, moves, n_clusters):
        """Numbers before any move was made: splits of a cluster of average size, merges refused at once."""
        size = self.n_rows / n_clusters
        share = np.array([move.weight for move in moves], dtype=np.float64)
        cost = [20.0 + (1.5 * size if getattr(move, "most", np.inf) == np.inf else 0.0) for move in moves]
        self._set(float(share @ cost / share.sum()), n_clusters, True)

    def note(self, *, work, n_moves, n_clusters, is_lively):
        """What moves have cost, and whether any of them was accepted."""
        now = work / n_moves
        self.work_per_move = now if np.isnan(self.work_per_move) else 0.5 * (self.work_per_move + now)
        self._set(self.work_per_move, n_clusters, is_lively)

    def goes_on(self, *, work, n_accepted, work_of_step, n_clusters):
        """Whether moves are worth going on with, by the work and the gain of the last ones and the work of the step."""
        sweep = sweep_work(self.n_rows, n_clusters)
        pays = n_accepted * _LIVELY_SHARE * sweep > work
        return pays and work_of_step < sweep + _LIVELY_WORK * self.n_rows

    def rest(self):
        """After a step of the number that stays."""
        self.n_next, self.n_resting = self.n_moves, self.period - 1

    def _set(self, work_per_move, n_clusters, is_lively):
        # where few moves would cost more than their share, later steps with moves are rare
        sweep, each = sweep_work(self.n_rows, n_clusters), max(work_per_move, 1.0)
        most = sweep + _LIVELY_WORK * self.n_rows
        fixed, allowed = _STEP_WORK + self.n_rows / _SWEEP_RATE, _SHARE * sweep
        self.period = int(np.clip(np.ceil((fixed + FEWEST_MOVES * each) / allowed), 1, _RAREST))
        share = self.period * allowed - fixed
        self.n_moves = _number(share / each)
        self.n_next = _number(max(share, fixed) / each)
        if is_lively:  # no more at once than a quarter of the data: later runs go by what these have gained
            self.n_next = max(self.n_next, _number(min(most / each, self.n_rows // 4)))

    # ---- files -----------------------------------------------------------------------------------------------------

    def to_arrays(self):
        """All numbers, for files."""
        numbers = [self.n_calls, self.n_moves, self.n_next, self.period, self.n_resting]
        return {"numbers": np.array(numbers, dtype=np.int64), "work": np.array(self.work_per_move)}

    def from_arrays(self, arrays):
        """Restore `to_arrays`; ArchiveError for numbers that no schedule of so many rows has."""
        most = max(FEWEST_MOVES, min(_MOST_MOVES, _RAREST * most_moves(self.n_rows, self.n_rows)))
        counts = integers(arrays, "numbers", (5,)).tolist()
        work = float(numbers(arrays, "work", (), finite=False))
        if not (0 < counts[1] <= most and counts[2] <= most and 0 < counts[3] <= _RAREST and counts[4] < _RAREST):
            raise ArchiveError(f"the schedule of moves has the numbers {counts}: the file was altered")
        if not (np.isnan(work) or 0 <= work < np.inf):
            raise ArchiveError(f"a move costs {work} by the schedule of moves: the file was altered")
        self.n_calls, self.n_moves, self.n_next, self.period, self.n_resting = counts
        self.work_per_move = work
