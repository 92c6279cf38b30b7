"""The schedule of split-merge moves follows the work of the moves."""

import numpy as np

from expfam.samplers.split_merge.budget import MoveSchedule


def test_moves_follow_their_work():
    schedule = MoveSchedule(100_000)
    assert np.isnan(schedule.work_per_move)
    schedule.note(work=30_000.0, n_moves=1000, n_clusters=50, is_lively=False)
    assert (schedule.n_moves, schedule.work_per_move) == (1772, 30.0)
    schedule.note(work=50_000.0, n_moves=1000, n_clusters=50, is_lively=False)
    assert schedule.work_per_move == 40.0
    assert schedule.n_moves < 1772
