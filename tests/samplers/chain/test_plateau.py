"""The rule that ends a run: a function of log joints and accepted cluster moves alone."""

import pytest

from expfam.protocols import Info
from expfam.samplers.chain.callbacks import Plateau


def steps_made(objectives, *, n_rows=100, window=5, extras=(), **options):
    """Return after how many steps the rule ends a run; None if it does not."""
    plateau = Plateau(n_rows, window=window, **options)
    for t, objective in enumerate(objectives, start=1):
        extra = extras[t - 1] if t <= len(extras) else {}
        if plateau(Info(t, objective, 3, 0, 0, float(t), extra), None):
            assert plateau.is_reached
            return t
    assert not plateau.is_reached
    return None


def test_two_windows_are_made_at_least():
    assert steps_made([-1.0] * 50) == 10
    assert steps_made([-1.0] * 50, window=2) == 4
    assert steps_made([-1.0] * 9) is None


def test_a_run_that_rises_goes_on():
    assert steps_made([float(t) for t in range(50)]) is None
    assert steps_made([min(float(t), 20.0) for t in range(50)]) == 26  # the last rise of .5 or more is step 21


@pytest.mark.parametrize(("n_rows", "gain", "ends"), [(100, 0.4, 10), (100, 0.6, None), (10_000, 0.9, 10)])
def test_the_least_gain_grows_with_the_rows(n_rows, gain, ends):
    rises = [-gain, *([-gain] * 4), *([0.0] * 5)]
    assert steps_made(rises, n_rows=n_rows) == ends


def test_the_least_gain_of_a_row_is_a_setting():
    rises = [-9.0] * 5 + [0.0] * 5
    assert steps_made(rises, n_rows=10_000) is None
    assert steps_made(rises, n_rows=10_000, gain_per_row=1e-3) == 10


def test_the_best_of_each_window_counts_and_not_the_last():
    noisy = [0.0, -3.0, -1.0, -4.0, -2.0, -0.3, -5.0, -1.0, -2.0, -3.0]
    assert steps_made(noisy) == 10


@pytest.mark.parametrize("name", ["splits_accepted", "merges_accepted"])
def test_accepted_splits_and_merges_put_the_end_off(name):
    moves = Info(1, 0.0, 3, 1, 1, 0.0, {name: 1})
    sweep = Info(1, 0.0, 3, 1, 1, 0.0, {})
    extras = [{}] * 7 + [{"parts": [moves, sweep]}]
    assert steps_made([0.0] * 50, extras=extras) == 13
    nested = [{}] * 7 + [{"parts": [Info(1, 0.0, 3, 1, 1, 0.0, {"parts": [moves]}), sweep]}]
    assert steps_made([0.0] * 50, extras=nested) == 13


def test_the_rule_does_not_read_the_clock():
    plateau = Plateau(10)
    ends = [plateau(Info(t, 0.0, 3, 0, 0, 1e9 if t % 2 else 0.0, {}), None) for t in range(10)]
    assert ends == [False] * 9 + [True]


def test_a_log_joint_that_stays_is_level_although_clusters_still_change():
    plateau = Plateau(2, window=5)
    for t in range(100):
        plateau(Info(t, -4.0 - (t % 3), 2, 0, 0, 0.0, {"splits_accepted": 1}), None)
    assert not plateau.is_reached
    assert plateau.is_level
    rising = Plateau(2, window=5)
    for t in range(100):
        rising(Info(t, float(t), 2, 0, 0, 0.0, {"splits_accepted": 1}), None)
    assert not rising.is_level
    assert not Plateau(2).is_level  # no step was made
