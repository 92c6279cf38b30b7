"""Partitions beside which the end of a run is set: k-means and one cluster.

Which mode a run of k-means leads to is chance. Where runs differ by as much as the end is above them, another run may
pass it: then more of them are made.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from expfam.samplers.warm_starts.candidates import may_be_passed

if TYPE_CHECKING:
    from expfam.samplers.warm_starts.candidates import Divisions
    from expfam.samplers.warm_starts.settle import Fitted, Settler

NUMBERS_BESIDE_ONE = (2, 3, 4, 5)  # of k-means, where one cluster was found
_FIRST_RUNS, _MOST_RUNS = 4, 12  # of k-means in each metric, with a number that was given
_MOST_PASSES = 100  # modes above k-means of overlapping groups are many passes away
_TRIED = 3  # best ones from which merges, splits and exchanges go on


def best_of_given_number(settler: Settler, reached: Fitted, divisions: Divisions) -> Fitted:
    """Return the best partition beside an end with a given largest number of clusters.

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
    first = range(1, 1 + _FIRST_RUNS)  # run 0 was a candidate of the start
    more = range(first.stop, 1 + _MOST_RUNS)
    found = [[_mode(settler, divisions, place, run) for run in first] for place in places]
    joints = np.array([[each.log_joint for each in modes] for modes in found])
    modes = [one, *(each for modes in found for each in modes)]
    if may_be_passed(reached.log_joint, joints):
        modes += [_mode(settler, divisions, place, run) for place, run in product(places, more)]
        begun = [one, *sorted(modes, key=_log_joint)[-_TRIED:]]
        modes += [settler.settled(each, exchanges=True)[0] for each in begun]
    return max(modes, key=_log_joint)


def _numbers(found, given):
    """Return the numbers of clusters of k-means: found, given if small, some beside one."""
    others = NUMBERS_BESIDE_ONE if found == 1 else (given,) if given <= NUMBERS_BESIDE_ONE[-1] else ()
    return sorted({n for n in (found, *others) if 1 < n <= given})


def _mode(settler, divisions, place, run):
    n_clusters, metric = place
    begun = settler.fitted(divisions.kmeans(metric, n_clusters, run))
    return settler.ascended(begun, max_passes=_MOST_PASSES)


def _log_joint(fitted):
    return fitted.log_joint
