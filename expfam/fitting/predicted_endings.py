"""The end of a run that has seen repeated values spread: what its clusters predict.

Which of several modes of spread rows is the best may be due to their random numbers, and so may be small clusters. The
log joint on rows that are spread by other random numbers decides, and there the end is not below simple partitions.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from expfam.fitting.endings import FEW_ROWS
from expfam.fitting.spread_statistics import moved_one_by_one, predicted_labels
from expfam.model.partitions import by_first_appearance, compact_labels
from expfam.samplers.starts.refill import refilled
from expfam.samplers.warm_starts.candidates import Divisions
from expfam.samplers.warm_starts.sample_rows import has_few_rows
from expfam.samplers.warm_starts.settle import least_gain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from expfam.fitting.plan import Plan
    from expfam.model.mixture import MixtureModel

_MOST_PASSES = 100
_FIRST_PASSES, _RISEN = 3, 3  # passes after which partitions are ranked, and how many of the best go on
_MOST_ROUNDS = 3
_SLIGHTLY = 2.0  # nats that labels may lose to be those of a prediction


def predicted_ending(
    plan: Plan, model: MixtureModel, labels: npt.NDArray[np.int32], others: Sequence[npt.NDArray[np.integer]]
) -> npt.NDArray[np.int32]:
    """Return the labels that the clusters of a mode of spread rows predict, or better ones.

    Parameters
    ----------
    plan : Plan
        Of a run that has seen repeated values spread.
    model : MixtureModel
        Of the end of the run.
    labels : (N,) int32 ndarray
        The mode.
    others : sequence of (N,) ndarray of int
        Earlier partitions of the run.

    Returns
    -------
    (N,) int32 ndarray
        Numbered by first appearance. Rows that are equal have equal labels.
    """
    ends = _PredictedEnds(plan, model)
    found = ends.predicted(labels)
    if found is None:  # rows that are equal would have to be divided, which an open number never asks for
        options: dict[str, Any] = {"max_passes": _MOST_PASSES, "seed": plan.seed, "n_threads": plan.n_threads}
        found = refilled(model, plan.data, labels, plan.asked.n_components or int(labels.max()) + 1, **options)
    elif ends.are_compared:
        found = ends.as_predicted(ends.above_simple(ends.best(found, others)))
    return by_first_appearance(found)[1]


class _PredictedEnds:
    """Partitions that are predicted by their own clusters."""

    def __init__(self, plan, model):
        self.plan, self.model, self.least_gain = plan, model, least_gain(plan.data.n_rows)
        self.others = plan.other_spreads

    @property
    def are_compared(self):
        """Tell whether other partitions are looked at."""
        plan = self.plan
        return plan.data.known is None and plan.has_rule and plan.data.n_rows <= FEW_ROWS

    def predicted(self, labels, max_passes=_MOST_PASSES):
        plan = self.plan
        options = {"keep_clusters": plan.keeps_number, "n_threads": plan.n_threads, "max_passes": max_passes}
        return predicted_labels(self.model, plan.data, compact_labels(labels), plan.added, self.others, **options)

    def log_joint(self, labels):
        return self.others.log_joint(self.model, labels)

    def best(self, found, begun):
        """Return the labels or what one of some partitions leads to, if that is clearly better."""
        for one in self._modes(begun):
            is_full = not self.plan.keeps_number or one.max() == found.max()
            if is_full and self.others.gain(self.model, found, one, least=self.least_gain) > self.least_gain:
                found = one
        return found

    def _modes(self, begun):
        return [mode for one in begun if (mode := self.predicted(one)) is not None]

    def above_simple(self, found):
        """Return the labels, or better ones to which k-means of the rows or one cluster leads."""
        plan = self.plan
        divisions, seen = Divisions(plan.data, seed=plan.seed, n_threads=plan.n_threads), set()
        for _ in range(_MOST_ROUNDS):
            fresh = [pair for pair in product(divisions.metrics, self._numbers(found)) if pair not in seen]
            seen.update(fresh)
            begun = [divisions.kmeans(metric, n) for metric, n in fresh if metric != "white" or not self._is_narrow]
            better = self.best(found, self._promising(begun))
            if better is found:
                break
            found = better
        return found

    def as_predicted(self, found):
        """Return labels that are those of a prediction, if they lose little by it."""
        plan = self.plan
        moved = moved_one_by_one(self.model, plan.data, found, plan.added, n_threads=plan.n_threads)
        if moved is None or moved is found:
            return found
        return moved if self.others.gain(self.model, found, moved, least=-_SLIGHTLY) > -_SLIGHTLY else found

    @property
    def _is_narrow(self):
        return self.plan.keeps_number and has_few_rows(self.model, self.plan.data)

    def _numbers(self, found):
        """Return the numbers of clusters to try: of an open one its half, quarter and so on, too."""
        K = int(found.max()) + 1
        if self.plan.keeps_number:
            return [K]
        return sorted({1, *(-(-K // 2**power) for power in range(K.bit_length()))})

    def _promising(self, begun):
        """Return the best of some partitions after a few passes."""
        tried = [one for each in begun if (one := self.predicted(each, _FIRST_PASSES)) is not None]
        return sorted(tried, key=self.log_joint, reverse=True)[:_RISEN]
