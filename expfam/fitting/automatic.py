"""Where a fit without settings begins: the search for a start."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from expfam.errors import CapabilityError
from expfam.fitting.kept_run import kept_model, kept_value, packed, restored_model, unpacked
from expfam.fitting.phases import automatic_phases
from expfam.fitting.searched_starts import open_start, passes_of
from expfam.model.assignment import extended_labels
from expfam.model.partitions import by_first_appearance
from expfam.samplers.chain.driver import sample
from expfam.samplers.named import SplitMerge
from expfam.samplers.starts.many_exchanges import has_many_clusters
from expfam.samplers.warm_starts.candidates import Divisions
from expfam.samplers.warm_starts.classes import start_with_classes
from expfam.samplers.warm_starts.em_race import best_by_em
from expfam.samplers.warm_starts.sample_rows import has_few_rows, has_many_rows, search_rows
from expfam.samplers.warm_starts.search import search_start
from expfam.samplers.warm_starts.settle import Settler

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from expfam.fitting.phases import Phase
    from expfam.fitting.plan import Plan
    from expfam.model.mixture import MixtureModel

_MOST_STEPS_ON_A_SAMPLE = 25  # where each cluster has few rows, the log joint rises slowly for hundreds of steps
_FEW_ROWS = 6000  # of more rows between two clusters some move in each sweep
_ROWS_OF_A_SETTLED = 50  # fewer rows a cluster of the sample, and more rows would show ever more clusters


class Begun(NamedTuple):
    """Where the steps over all rows begin.

    Attributes
    ----------
    model : MixtureModel
    start : str or (N,) array_like of int
    name : str or None
        Candidate that the search has chosen; None if there was no search.
    is_sampled : bool
        Whether steps on a sample of the rows were made already.
    splits : bool
        Whether splits and merges on all rows are worth their time, see `has_small_clusters`.
    others : dict of str to (N,) int32 ndarray
        Partitions to which the end of the run is to be compared.
    divisions : Divisions or None
        Of all rows, if the search has made some.
    """

    model: MixtureModel
    start: Any
    name: str | None
    is_sampled: bool
    splits: bool = True
    others: dict[str, npt.NDArray[np.int32]] = {}  # noqa: RUF012
    divisions: Divisions | None = None


def kept_begin(plan: Plan, *, on_sample: Sequence[Callable] = ()) -> Begun:
    """Return the result of `begin`, or the one that a kept run has stored."""
    return kept_value(lambda: begin(plan, on_sample=on_sample), _packed, lambda arrays: _unpacked(plan, arrays))


def _packed(begun):
    """Return a start as arrays: that of a search are labels."""
    return {
        "model": kept_model(begun.model),
        "values": packed(
            {"start": np.asarray(begun.start), "flags": [begun.is_sampled, begun.splits, begun.divisions is not None]}
        ),
        "name": {} if begun.name is None else {begun.name: np.zeros(0)},
        "others": {name: np.asarray(labels) for name, labels in begun.others.items()},
    }


def _unpacked(plan, arrays):
    """Return a start from `_packed`; its divisions are made again as the search made them."""
    values = unpacked(arrays["values"])
    is_sampled, splits, has_divisions = values["flags"]
    rows = plan.seen.without_known()
    divisions = Divisions(rows, seed=plan.seed, n_threads=plan.n_threads) if has_divisions else None
    name = next(iter(arrays.get("name", {})), None)
    model = restored_model(plan.model, arrays["model"])
    return Begun(model, values["start"], name, is_sampled, splits, dict(arrays.get("others", {})), divisions)


def begin(plan: Plan, *, on_sample: Sequence[Callable] = ()) -> Begun:
    """Find the start of a fit; make most steps on a sample where there are many rows.

    Parameters
    ----------
    plan : Plan
    on_sample : sequence of callable
        Callbacks of the steps on a sample, which those of the user do not see.

    Returns
    -------
    Begun

    Raises
    ------
    KeyboardInterrupt
        Ctrl-C was pressed before all rows had labels.
    """
    data, K, seed, n_threads = plan.seen, plan.max_clusters, plan.seed, plan.n_threads
    rows = search_rows(data.n_rows, K, seed)
    part = data if rows is None else data.take(rows)
    moves = SplitMerge(n_threads=n_threads)
    plain = part.without_known()
    found = search_start(
        plan.model,
        plain,
        adapt_prior=plan.adapts_prior,
        learned=list(plan.learned),
        moves=moves,
        seed=seed,
        n_threads=n_threads,
    )
    if K is None and not plan.is_automatic:
        limit, is_drawn = plan.kernel.max_clusters(plan.model), plan.kernel.makes_draws
        settler = Settler(plan.model, plain, plan.learned, plan.adapts_prior, seed, n_threads)
        found = open_start(found, part, limit, passes=passes_of(plan.kernel), settler=settler, is_drawn=is_drawn)
    model, labels = found.model, found.labels
    if data.known is not None:
        labels = start_with_classes(model, part, labels, moves=moves, seed=seed, n_threads=n_threads)
    if rows is None:
        return Begun(model, labels, found.name, False, others=found.others, divisions=found.divisions)
    if plan.is_automatic and not has_few_rows(model, data):
        state = plan.kernel.init(model, part, seed=seed, start=labels)
        options = {"is_open": K is None, "is_mode": plan.keeps_number}
        phases = automatic_phases(plan.kernel, plan.learned, part.n_rows, **options)
        shorter = [each._replace(n_steps=min(each.n_steps, _MOST_STEPS_ON_A_SAMPLE)) for each in phases]
        run_on_sample(state, shorter, on_sample)
        model, labels = state.model, state.partition
    splits = not has_small_clusters(labels, part.n_rows)
    labels = extended_labels(model, part, labels, data, n_threads=n_threads)
    others = {
        name: extended_labels(found.model, part, one, data, n_threads=n_threads) for name, one in found.others.items()
    }
    if data.known is not None:
        labels = data.known.agreeing(labels, limit=K)
    return Begun(model, labels, found.name, True, splits, others)


def run_on_sample(state: Any, phases: Sequence[Phase], callbacks: Sequence[Callable] = ()) -> None:
    """Run phases on a sample of the rows.

    Raises
    ------
    KeyboardInterrupt
        Ctrl-C was pressed: no row outside the sample has a label yet.
    """
    for phase in phases:
        watched = [*callbacks, *([phase.rule] if phase.rule else [])]
        if sample(phase.kernel, state, phase.n_steps, callbacks=watched).interrupted:
            raise KeyboardInterrupt


def has_small_clusters(labels: npt.NDArray[Any], n_rows: int) -> bool:
    """Return whether the clusters of a sample of `n_rows` have few rows each.

    Their number then grows with the rows, as it does where columns depend on each other within every cluster: splits
    on all rows would go on for hours.
    """
    return _ROWS_OF_A_SETTLED * (int(labels.max()) + 1) > n_rows


def summed_out(state: Any, best: Any, start: Any, *, n_threads: int | None) -> npt.NDArray[np.int32]:
    """Return the labels of the higher of two modes: above the best draw, and above the start.

    Draws are chosen by the log joint of their labels, which prefers clusters of unequal sizes where clusters overlap.
    Labels stay as they are where the search has drawn a sample of the rows, where these are the labels of EM already,
    where clusters are so many that their labels are drawn together, for families without a mode, and where the best
    draw of more than 6,000 rows is the start: if rows lay between clusters, some would have moved.

    Parameters
    ----------
    state : State
        With the model of the last step, and the data that the chain has seen.
    best : (N,) array_like of int
        Labels of the best draw.
    start : (N,) array_like of int, or None
        Labels that the search has found.
    n_threads : int or None
    """
    model, data = state.model, state.data
    K = model.weights.max_components
    if has_many_rows(data.n_rows, K) or has_few_rows(model, data) or has_many_clusters(model, data):
        return best
    is_start = start is not None and np.array_equal(by_first_appearance(start)[1], by_first_appearance(best)[1])
    if is_start and data.n_rows > _FEW_ROWS:
        return best
    candidates = {"chain": best} if is_start or start is None else {"chain": best, "start": start}
    try:
        return best_by_em(model, data, candidates, seed=state.seed, n_threads=n_threads).labels
    except CapabilityError:  # no mode or prior density
        return best
