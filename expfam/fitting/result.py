"""The partition that a fit ends with: a mode, the least expected loss, or the last draw."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from expfam.fitting.automatic import summed_out
from expfam.fitting.endings import FEW_ROWS, GivenEnding, best_labels, exchanged_ending, given_ending, open_ending
from expfam.fitting.plan import LOSSES
from expfam.fitting.predicted_endings import predicted_ending
from expfam.fitting.spread_endings import above_simple, has_few_distinct_rows
from expfam.fitting.spread_statistics import with_constants
from expfam.model.partitions import by_first_appearance
from expfam.samplers.starts.equal_rows import EqualRows
from expfam.samplers.starts.refill import refilled
from expfam.samplers.warm_starts.sample_rows import has_many_rows
from expfam.samplers.warm_starts.settle import Settler
from expfam.structures.ground.threads import single_blas

if TYPE_CHECKING:
    from collections.abc import Callable

    from expfam.evaluation.posterior import PartitionPosterior
    from expfam.fitting.plan import Plan
    from expfam.fitting.run import ChainRun
    from expfam.model.mixture import MixtureModel

_MOST_PASSES = 100  # of the ascent; nearly always it takes a few
_SEARCH_STARTS = 4


class Chosen(NamedTuple):
    """Partition that a plan asks for.

    Attributes
    ----------
    model : MixtureModel
    labels : (N,) ndarray of int
    shares : (N,) float32 ndarray or None
        Probability of the cluster of each row among the clusters, where the last pass over the rows has told it.
    """

    model: MixtureModel
    labels: npt.NDArray[np.integer]
    shares: npt.NDArray[np.float32] | None = None


def chosen_partition(plan: Plan, run: ChainRun, start: Any, posterior: Callable[[], PartitionPosterior]) -> Chosen:
    """Return the model and the partition that the plan asks for; the last one after Ctrl-C.

    Parameters
    ----------
    plan : Plan
    run : ChainRun
        Of the chain with the best draw.
    start : (N,) ndarray of int, or None
        Labels that the search has found for chain 0.
    posterior : callable
        Makes the posterior of the kept draws.
    """
    state = run.state
    try:
        if plan.partition in LOSSES and run.trace.n_kept:
            return Chosen(state.model, _least_loss(plan, state, posterior()))
        if plan.partition == "mode":
            with single_blas():  # once: to make the setting takes as long as a pass over a few rows
                chosen = _mode(plan, run, start)
                if plan.added is None or plan.data.known is not None:
                    return chosen
                return Chosen(chosen.model, predicted_ending(plan, chosen.model, chosen.labels, run.others()))
    except KeyboardInterrupt:
        run.trace.interrupted = True
    return Chosen(state.model, state.partition)


def _mode(plan, run, start):
    """Return the model and the mode that is reached from the best draw."""
    state, ending = run.state, run.ending
    data = _compared(plan, state)
    best = state.partition if run.best.labels is None else run.best.labels
    if plan.keeps_number and data.known is None:  # a cluster of known rows is never halved
        return Chosen(state.model, *_mode_of_given_number(plan, run, best, start))
    if ending is None and plan.seeks_open_mode and not run.trace.interrupted:
        # draws are of one model, which stays
        candidates = {"chain": best} if start is None else {"chain": best, "start": start}
        settler = Settler(state.model, state.data, seed=state.seed, n_threads=plan.n_threads)
        ending = open_ending(settler, candidates)
    model, labels = (state.model, best) if ending is None else (ending.model, ending.labels)
    rows = EqualRows(model, data, n_threads=plan.n_threads)
    options = {"keep_clusters": plan.keeps_number, "max_passes": _MOST_PASSES}
    found, _, _, shares = rows.climb(labels, **options)
    if ending is not None and not has_many_rows(data.n_rows, None):
        # the last model differs from those under which they were compared, and so may the rows
        before = found
        found = best_labels(rows, found, [rows.climb(each, **options).labels for each in run.others()])
        if data is not state.data:
            found = above_simple(model, data, found, seed=state.seed, n_threads=plan.n_threads, spread=state.data)
        shares = shares if found is before else None
    return Chosen(model, by_first_appearance(found)[1], shares)


def _compared(plan, state):
    """Return the rows that decide at the end of a run."""
    if plan.ends_on_seen:
        return state.data
    return plan.data if plan.added is None else with_constants(plan.data, state.data)


def _mode_of_given_number(plan, run, labels, start):
    """Return the mode that is reached from labels, by way of the data that the chain has seen.

    It is a `GivenEnding`. On the data that the chain has seen repeated values are spread: the densities of the data as
    they are prefer clusters of single values.
    """
    state, n_clusters = run.state, plan.asked.n_components
    options = {"max_passes": _MOST_PASSES, "seed": state.seed, "n_threads": plan.n_threads}
    if plan.has_rule:
        labels = summed_out(state, labels, start, n_threads=plan.n_threads)
        if _compared(plan, state) is state.data:
            options["divisions"] = run.divisions
            return given_ending(state.model, state.data, labels, n_clusters, run.others(), **options)
        return _mode_of_spread_rows(plan, run, labels, options)
    return GivenEnding(refilled(state.model, _compared(plan, state), labels, n_clusters, **options))


def _mode_of_spread_rows(plan, run, labels, options):
    """Return the mode of the rows as they are, by one of the rows whose ties are spread.

    What exchanges gain on spread rows may be due to the random numbers: the rows as they are decide.
    """
    state, n_clusters = run.state, plan.asked.n_components
    compared = _compared(plan, state)
    before = given_ending(state.model, state.data, labels, n_clusters, run.others(), exchanges=False, **options).labels
    after = exchanged_ending(state.model, state.data, before, n_clusters, **options)
    # of more rows none are made, and to look at all of them takes time; those of categories seek no dense value
    exchanges = plan.data.n_rows <= FEW_ROWS and has_few_distinct_rows(plan.data)
    ways = {"exchanges": exchanges, "spread": None if has_few_distinct_rows(plan.data) else state.data}
    found = given_ending(state.model, compared, before, n_clusters, run.others(), **ways, **options)
    if after is not before:
        rows = EqualRows(state.model, compared, n_threads=plan.n_threads)
        other = refilled(state.model, compared, after, n_clusters, **options)
        if best_labels(rows, found.labels, [other]) is other:
            return GivenEnding(other)
    return found


def _least_loss(plan, state, posterior):
    """Return the partition with the least expected loss.

    With known rows it is the best draw, which keeps what is known.
    """
    loss = LOSSES[plan.partition]
    if state.data.known is not None:
        draws = posterior.draws().astype(np.int32)
        return min(draws, key=lambda labels: posterior.expected_loss(labels, loss))
    return posterior.labels(loss, n_starts=_SEARCH_STARTS, max_clusters=plan.max_clusters)
