"""What a `Mixture` does without settings: its start, its phases, and its warnings."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from expfam.amounts import counted
from expfam.errors import CapabilityError, DataWarning
from expfam.estimators.base import Phase
from expfam.estimators.lines import line_of
from expfam.model.assignment import extended_labels
from expfam.samplers.chain.kernel import Cycle
from expfam.samplers.chain.plateau import Plateau
from expfam.samplers.hyper.slice import UpdateHyper
from expfam.samplers.named import SplitMerge
from expfam.samplers.warm_starts.classes import start_with_classes
from expfam.samplers.warm_starts.em_race import best_by_em
from expfam.samplers.warm_starts.sample_rows import has_few_rows, has_many_rows, search_rows
from expfam.samplers.warm_starts.search import search_start
from expfam.user_warnings import warn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from expfam.model.data import Dataset
    from expfam.model.mixture import MixtureModel
    from expfam.samplers.chain.kernel import Kernel

MOST_STEPS = 100  # of n_steps="auto"
_FIRST_SWEEPS = 2
_MOST_LEARNING = 15
_WINDOW_OF_ALL_ROWS = 1
# rule for a given number of clusters: little but borders between clusters is left to settle
_SHORT: dict[str, Any] = {"window": 2, "gain_per_row": 1e-3}
_MOST_STEPS_ON_A_SAMPLE = 25  # where each cluster has few rows, the log joint rises slowly for hundreds of steps
_MOST_SWEEPS_OF_ALL_ROWS = 4  # after the steps on a sample
_ROWS_OF_A_SETTLED = 50  # fewer rows a cluster of the sample, and more rows would show ever more clusters
_FEWEST_ROWS = 2  # of a cluster on average, from which it is said that they are few for a covariance
_MANY_COLUMNS = 20  # of a full covariance with an open number of clusters, from which crumbs are counted
_MANY_CRUMBS = 0.05  # share of the rows


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
    """

    model: MixtureModel
    start: Any
    name: str | None
    is_sampled: bool
    splits: bool = True
    others: dict[str, npt.NDArray[np.int32]] = {}  # noqa: RUF012


def begin(
    mixture: Any, model: MixtureModel, data: Dataset, kernel: Kernel, learned: Sequence[str], *, seed: int
) -> Begun:
    """Find the start of a fit; make most steps on a sample where there are many rows.

    Parameters
    ----------
    mixture : Mixture
    model : MixtureModel
    data : Dataset
    kernel : Kernel
        Kernel of all rows.
    learned : sequence of str
        Hyper-parameters of the family that are learned.
    seed : int

    Returns
    -------
    Begun
    """
    K = model.weights.max_components
    rows = search_rows(data.n_rows, K, seed)
    part = data if rows is None else data.take(rows)
    moves = SplitMerge(n_threads=mixture.n_threads)
    found = search_start(
        model,
        part.without_known(),
        n_init=mixture.n_init,
        adapt_prior=mixture._adapts_prior(),
        learned=learned,
        moves=moves,
        seed=seed,
        n_threads=mixture.n_threads,
    )
    model, labels = found.model, found.labels
    if data.known is not None:
        labels = start_with_classes(model, part, labels, moves=moves, seed=seed, n_threads=mixture.n_threads)
    if rows is None:
        return Begun(model, labels, found.name, False, others=found.others)
    if mixture._is_automatic() and not has_few_rows(model, data):
        state = kernel.init(model, part, seed=seed, start=labels)
        phases = automatic_phases(kernel, learned, part.n_rows, is_open=K is None)
        mixture._run_on_sample(
            state, [each._replace(n_steps=min(each.n_steps, _MOST_STEPS_ON_A_SAMPLE)) for each in phases]
        )
        model, labels = state.model, state.partition
    splits = not has_small_clusters(labels, part.n_rows)
    labels = extended_labels(model, part, labels, data, n_threads=mixture.n_threads)
    others = {
        name: extended_labels(found.model, part, one, data, n_threads=mixture.n_threads)
        for name, one in found.others.items()
    }
    if data.known is not None:
        labels = data.known.agreeing(labels, limit=K)
    return Begun(model, labels, found.name, True, splits, others)


def has_small_clusters(labels: npt.NDArray[Any], n_rows: int) -> bool:
    """Return whether the clusters of a sample of `n_rows` have few rows each.

    Their number then grows with the rows, as it does where columns depend on each other within every cluster: splits
    on all rows would go on for hours.
    """
    return _ROWS_OF_A_SETTLED * (int(labels.max()) + 1) > n_rows


def automatic_phases(
    kernel: Kernel, learned: Sequence[str], n_rows: int, *, is_sampled: bool = False, is_open: bool = False
) -> list[Phase]:
    """Return the phases of a run that ends when the log joint has stopped rising.

    Parameters
    ----------
    kernel : Kernel
        Splits and merges with sweeps, or sweeps alone.
    learned : sequence of str
        Hyper-parameters of the family that are learned.
    n_rows : int
    is_sampled : bool
        Whether the same phases were run on a sample: a few steps on all rows then remain. Splits and merges are part of
        them only if the number of clusters `is_open`: the sample had enough rows to find as many as were asked for, and
        the hash tables of all rows cost as much as the other steps together.
    is_open : bool
    """
    sweeps = kernel.kernels[-1] if isinstance(kernel, Cycle) else kernel
    if is_sampled:
        kernel = kernel if is_open else sweeps
        return [Phase(kernel, _MOST_SWEEPS_OF_ALL_ROWS, Plateau(n_rows, window=_WINDOW_OF_ALL_ROWS))]
    rule = partial(Plateau, n_rows, **({} if is_open else _SHORT))
    steps = [Phase(sweeps, _FIRST_SWEEPS)]
    if learned:
        steps.append(Phase(learning(kernel, learned), _MOST_LEARNING, rule()))
    return [*steps, Phase(kernel, MOST_STEPS, rule())]


def learning(kernel: Kernel, learned: Sequence[str]) -> Cycle:
    """Return the kernel, or those of a cycle, followed by an update of hyper-parameters."""
    kernels = kernel.kernels if type(kernel) is Cycle else (kernel,)
    return Cycle(*kernels, UpdateHyper(family=tuple(learned), weights=False))


def summed_out(state: Any, best: Any, start: Any, *, n_threads: int | None) -> npt.NDArray[np.int32]:
    """Return the labels of the higher mode, of those above the best draw and above the start.

    Draws are chosen by the log joint of their labels, which prefers lopsided clusters where clusters overlap. Labels
    stay as they are where the search has drawn a sample of the rows, where these are the labels of EM already, and
    for families without a mode.

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
    if has_many_rows(data.n_rows, K) or has_few_rows(model, data):
        return best
    candidates = {"chain": best} if start is None else {"chain": best, "start": start}
    try:
        return best_by_em(model, data, candidates, seed=state.seed, n_threads=n_threads).labels
    except CapabilityError:  # no mode or prior density
        return best


def warn_of_few_rows(mixture: Any, model: MixtureModel, data: Dataset) -> None:
    """Warn where a cluster has fewer rows on average than a full covariance has parameters.

    Nothing is said of fewer than two rows a cluster, of which no family makes clusters with a spread.
    """
    K = model.weights.max_components
    if K is None or data.n_rows < _FEWEST_ROWS * K or not has_few_rows(model, data):
        return
    warn(
        f"Mixture: {counted(data.n_rows // K, 'row')} a cluster for {counted(data.n_statistics, 'parameter')} of a "
        "full covariance: the labels are those of EM from k-means, because the posterior prefers one wide cluster "
        f"here. Write {line_of(mixture, family='gaussian_diag')}, or take fewer columns or fewer clusters",
        DataWarning,
    )


def warn_of_crumbs(mixture: Any, model: MixtureModel, sizes: npt.NDArray[Any]) -> None:
    """Warn where many rows are in clusters with fewer rows than columns of a full covariance."""
    d = model.family.n_features_in_
    if model.weights.max_components is not None or not model.family.has_full_covariance or d <= _MANY_COLUMNS:
        return
    crumbs = sizes[sizes < d]
    if crumbs.sum() > _MANY_CRUMBS * sizes.sum():
        warn(
            f"Mixture: {counted(crumbs.size, 'cluster')} of fewer than {counted(d, 'row')} "
            f"{'holds' if crumbs.size == 1 else 'hold'} {crumbs.sum() / sizes.sum():.0%} of the rows: they carry the "
            f"tails of wider ones. coarsen() merges them; or write {line_of(mixture, family='gaussian_diag')}",
            DataWarning,
        )


class BestDraw:
    """Callback that keeps the partition of the highest log joint.

    Examples
    --------
    >>> from expfam.estimators.automatic import BestDraw
    >>> BestDraw().labels is None
    True
    """

    def __init__(self) -> None:
        self.labels: npt.NDArray[np.int32] | None = None
        self.log_joint = -np.inf

    def __call__(self, info: Any, state: Any) -> bool:
        """Keep the labels of the step if it is the best so far."""
        if info.objective > self.log_joint:
            self.labels, self.log_joint = state.partition, info.objective
        return False
