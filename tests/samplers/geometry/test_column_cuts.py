"""The best cut of one column, against all cuts one by one."""

from math import log

import numpy as np
import pytest

from expfam.samplers.geometry.column_cuts import best_cut


def slow_best(points):
    """Return the highest gain of all cuts, in plain Python."""
    n = len(points)
    least = max(2, -(-n * 5 // 1000))
    best = (-np.inf, None, None)
    for j in range(points.shape[1]):
        column = sorted(points[:, j].tolist())
        variance = float(np.var(column))
        for low in range(least, n - least + 1):
            if variance == 0.0 or column[low - 1] == column[low]:
                continue
            gain = 0.5 * n * log(variance)
            for side in (column[:low], column[low:]):
                m = len(side)
                gain += m * log(m / n) - 0.5 * m * log(max(float(np.var(side)), 1e-3 * variance))
            if gain > best[0]:
                best = gain, j, column[low]
    return best


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("is_rounded", [False, True])
def test_the_cut_is_the_best_of_all(seed, is_rounded):
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(37, 70))  # more columns than are looked at together
    points[:, 66] += 3.0 * (rng.random(37) < 0.4)
    points[:, 3] = 1.0
    points = np.round(points) if is_rounded else points
    cut, (gain, column, threshold) = best_cut(points), slow_best(points)
    assert cut.gain == pytest.approx(gain, abs=1e-8)
    assert is_rounded or (cut.column, cut.threshold) == (column, threshold)


@pytest.mark.parametrize("points", [np.ones((20, 3)), np.arange(3.0)[:, None]])
def test_what_cannot_be_cut_gives_none(points):
    assert best_cut(points) is None
