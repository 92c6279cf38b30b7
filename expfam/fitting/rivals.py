"""Partitions beside which the end of a run is set: k-means with the number that was found or given, and one cluster.

Which mode a run of k-means leads to is chance. Where runs differ by as much as the end is above them, another run may
pass it: then more of them are made.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Iterable

    from expfam.samplers.warm_starts.candidates import Divisions
    from expfam.samplers.warm_starts.settle import Fitted, Settler

_NUMBERS_BESIDE_ONE = (2, 3, 4, 5)
_NEAR = 0.5  # of the nats between the best and the median run
_FIRST_RUNS, _MOST_RUNS = 4, 12  # of k-means in each metric, with a number that was given
_MOST_PASSES = 100  # modes above k-means of overlapping groups are many passes away
_TRIED = 3  # best ones from which merges, splits and exchanges go on


def simple_rivals(divisions: Divisions, n_clusters: int, runs: Iterable[int]) -> list[npt.NDArray[np.int32]]:
    """Return the partitions to which an end with an open number of clusters is compared.

    Parameters
    ----------
    divisions : Divisions
        Of the rows.
    n_clusters : int
        Number that was found.
    runs : iterable of int
        Runs of k-means in each metric.

    Returns
    -------
    list of (N,) int32 ndarray
        k-means with as many clusters, and one cluster. Beside one cluster k-means with several numbers: no cut of one
        wide cluster in two pays where its groups overlap, and one in more may.
    """
    if n_clusters == 1:
        return [divisions.kmeans(metric, n) for metric, n in product(divisions.metrics, _NUMBERS_BESIDE_ONE)]
    found = [divisions.kmeans(metric, n_clusters, run) for metric, run in product(divisions.metrics, runs)]
    return [*found, np.zeros(divisions.n_rows, dtype=np.int32)]


def may_be_passed(log_joint: float, of_runs: npt.NDArray[np.float64]) -> bool:
    """Tell whether another run of k-means may be above an end.

    Parameters
    ----------
    log_joint : float
        Of the end, nats.
    of_runs : (M, R) float64 ndarray
        Of the modes above R runs in each of M metrics, nats.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam.fitting.rivals import may_be_passed
    >>> may_be_passed(-500.0, np.array([[-520.0, -580.0, -640.0]])), may_be_passed(-500.0, np.array([[-520.0] * 3]))
    (True, False)
    """
    best = of_runs.max(axis=1)
    return bool((best + _NEAR * (best - np.median(of_runs, axis=1)) > log_joint).any())


def best_of_given_number(settler: Settler, reached: Fitted, divisions: Divisions) -> Fitted:
    """Return the best partition beside an end whose clusters may be no more than were given.

    Parameters
    ----------
    settler : Settler
        Of up to 6,000 rows.
    reached : Fitted
        The end.
    divisions : Divisions
        Of the rows.

    Returns
    -------
    Fitted
        A mode above one cluster or above k-means with the number that was found or given. Fewer clusters than groups
        share these out in many ways. Where another run may pass the end, more are made, and merges, splits and
        exchanges go on from the best ones and from one cluster.
    """
    one = settler.ascended(settler.fitted(np.zeros(divisions.n_rows, dtype=np.int32)))
    numbers = _numbers(int(reached.labels.max()) + 1, settler.model.weights.max_components)
    places = list(product(numbers, divisions.metrics))
    if not places:
        return one
    first, more = (
        range(1, 1 + _FIRST_RUNS),
        range(1 + _FIRST_RUNS, 1 + _MOST_RUNS),
    )  # run 0 was a candidate of the start
    found = [[_mode(settler, divisions, place, run) for run in first] for place in places]
    joints = np.array([[each.log_joint for each in modes] for modes in found])
    modes = [one, *(each for modes in found for each in modes)]
    if may_be_passed(reached.log_joint, joints):
        modes += [_mode(settler, divisions, place, run) for place, run in product(places, more)]
        begun = [one, *sorted(modes, key=_log_joint)[-_TRIED:]]
        modes += [settler.settled(each, exchanges=True)[0] for each in begun]
    return max(modes, key=_log_joint)


def _numbers(found, given):
    """Return the numbers of clusters of k-means: the number that was found, a small given one, some beside one."""
    others = _NUMBERS_BESIDE_ONE if found == 1 else (given,) if given <= _NUMBERS_BESIDE_ONE[-1] else ()
    return sorted({n for n in (found, *others) if 1 < n <= given})


def _mode(settler, divisions, place, run):
    n_clusters, metric = place
    begun = settler.fitted(divisions.kmeans(metric, n_clusters, run))
    return settler.ascended(begun, max_passes=_MOST_PASSES)


def _log_joint(fitted):
    return fitted.log_joint
