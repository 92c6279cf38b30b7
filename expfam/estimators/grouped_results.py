"""What a grouped fit keeps of its run: clusters, weights of groups, and labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from expfam.estimators.base import run_steps, set_trace
from expfam.estimators.group_places import PlacedClusters
from expfam.estimators.known_doubts import drop_known, set_doubts
from expfam.estimators.loaded import loaded_clusters
from expfam.estimators.sweep_means import FourthSweeps
from expfam.estimators.unknown_groups import (
    UNKNOWN_RESULTS,
    ClusterMeans,
    VariationalClusters,
    adopt_unknown,
    drop_empty,
)
from expfam.fitted.row_certainty import certainty_of_labels
from expfam.fitting.few_rows import other_families, warn_of_others
from expfam.fitting.grouped_endings import grouped_ending, slots_joined
from expfam.fitting.grouped_starts import kept_state
from expfam.fitting.spread_statistics import added_squares
from expfam.fitting.steps import was_level
from expfam.fitting.weighted_rows import label_sizes, labels_of_all
from expfam.params import is_auto
from expfam.samplers.grouped.ascent import counts_of_groups
from expfam.samplers.grouped.variational import soft_sums
from expfam.samplers.warm_starts.ties import tied_columns
from expfam.stages import stage

if TYPE_CHECKING:
    from expfam.estimators.grouped_plan import GroupedPlan
    from expfam.model.data import Dataset
    from expfam.model.groups import Groups
    from expfam.samplers.chain.trace import Trace

_MOST_RUNS = 3  # from better and better partitions


class GroupedRun(NamedTuple):
    """What a run has made.

    Attributes
    ----------
    state : State
        As the last step left it.
    means : SweepMeans, ClusterMeans, VariationalClusters or PlacedClusters
    trace : Trace
    """

    state: Any
    means: Any
    trace: Trace


class SweepMeans(FourthSweeps):
    """Callback that averages statistics, counts of groups and pseudo-counts over sweeps.

    Variational inference has its last ones in place of averages.
    """

    def __init__(self) -> None:
        super().__init__()
        self.total: Any = None

    def add(self, state: Any) -> None:
        """Add a state to the sums."""
        parts = [*state.statistics(), state.group_counts().astype(np.float64), state.model.pseudocounts]
        self.total = parts if self.total is None else [a + b for a, b in zip(self.total, parts)]

    def means(self, state: Any) -> tuple[Any, Any, Any, Any]:
        """Return counts, sums, counts of groups and pseudo-counts."""
        if hasattr(state, "posterior"):
            return state.n.copy(), soft_sums(state), state.group_counts(), state.model.pseudocounts
        self.keep_one(state)
        n, S, counts, alpha = (part / self.n_kept for part in self.total)
        if sparse.issparse(S) and not state.data.has_sparse_phi:
            S = S.toarray()
        return n, S, sparse.csr_array(counts), alpha


def run_plan(mixture: Any, plan: GroupedPlan) -> GroupedRun:
    """Find a start and make all steps of a plan."""
    kernel, model = plan.kernel, plan.model
    means = _new_means(mixture, plan)
    with stage("searching a start"):
        if plan.is_placed:  # it keeps the labels, on which the number of places depends
            state = plan.begin(plan.seen)
        else:
            state = kept_state(
                lambda: plan.begin(plan.seen), lambda: kernel.init(model, plan.seen, seed=plan.seed, start="random")
            )
    trace = run_steps(mixture, state, plan.phases, counted=[means] if plan.makes_means else [])
    return GroupedRun(state, means, trace)


def _new_means(mixture, plan):
    """Return what averages clusters over sweeps, or has those of the last step."""
    if plan.is_placed:
        return PlacedClusters(is_listed=mixture.n_components is None)
    if mixture.n_components is not None:
        return SweepMeans()
    return ClusterMeans() if plan.makes_means else VariationalClusters()


# ---- clusters --------------------------------------------------------------------------------------------------------


def adopt_run(mixture: Any, plan: GroupedPlan, run: GroupedRun) -> None:
    """Keep clusters and labels of a run; sampled labels are taken to a mode."""
    _adopt(mixture, plan.seen, run.state, run.means)
    if plan.makes_means and not plan.is_held:
        _end(mixture, plan, run)
    if plan.seen is not plan.data:
        _take_back(mixture, plan.data)


def _adopt(mixture, data, state, means):
    """Set the clusters that a run has made, and the labels that they give."""
    mixture.n_, mixture.S_, mixture.group_counts_, mixture.alpha_ = means.means(state)
    for name in UNKNOWN_RESULTS:
        mixture.__dict__.pop(name, None)
    if mixture.n_components is None:
        adopt_unknown(mixture, means)
    mixture.family_, mixture.log_joint_ = state.model.family, float(state.log_joint)
    if means.n_kept == 0:
        mixture.labels_ = state.labels.copy()
        return
    mixture.labels_ = most_probable(mixture, data, data.groups.of_row)


def _end(mixture, plan, run):
    """Take the labels to a mode; run again from a simple partition where that is better."""
    is_default = is_auto(mixture.n_steps) and is_auto(mixture.n_warmup) and mixture.n_components is not None
    data, state, trace = plan.seen, run.state, run.trace
    try:
        for left in reversed(range(_MOST_RUNS if is_default else 1)):
            if trace.interrupted:
                return
            model, options = mixture._fitted_model(), {"seed": state.seed, "n_threads": mixture.n_threads}
            ending = grouped_ending(model, data, mixture._labels, **options)
            if ending.name == "chain" or not left:
                _adopt_ending(mixture, ending, model, data)
                if mixture.n_components is None:
                    drop_empty(mixture)
                return
            state = plan.kernel.init(model, data, seed=state.seed, start=ending.labels)
            means = _new_means(mixture, plan)
            run_steps(mixture, state, plan.phases, counted=[means], trace=trace)
            _adopt(mixture, data, state, means)
    except KeyboardInterrupt:
        trace.interrupted = True


def _adopt_ending(mixture, ending, model, data):
    """Store the labels of an ending; means over sweeps stay where they are of the same clusters."""
    mixture.labels_, mixture.log_joint_ = ending.labels, model.log_joint(data, ending.labels)
    if ending.name == "chain":
        counts = mixture.group_counts_.T.tocsr()
        mixture.n_, mixture.S_, counts = slots_joined(ending.slots, mixture.n_, mixture.S_, counts)
        mixture.group_counts_ = counts.T.tocsr()
        return
    K = model.n_components
    mixture.n_, mixture.S_ = data.statistics(ending.labels, K)
    mixture.group_counts_ = sparse.csr_array(counts_of_groups(data, ending.labels, K))


def _take_back(mixture, data):
    """Set sums and the log joint of the rows as they are, after a run on spread ones."""
    n, S = data.statistics(mixture._labels, len(mixture.n_))
    has_rows = n > 0
    share = np.divide(mixture.n_, n, out=np.zeros_like(mixture.n_), where=has_rows)  # means over sweeps count rows
    mixture.S_ = np.where(has_rows[:, None], S * share[:, None], mixture.S_)
    added = added_squares(data, tied_columns(data, mixture.n_components))
    if added is not None:
        mixture.S_ += added.of_labels(data, mixture._labels, len(n)) * share[:, None]
    mixture.log_joint_ = mixture._fitted_model().log_joint(data, mixture._labels)


def _take_all_columns(mixture, free, data, labels):
    """Give the result of a fit of the free columns all columns, of which `data` has the rows."""
    mixture.S_ = free.all_sums(mixture.family_, mixture.n_, mixture.S_)
    mixture.family_ = free.all_columns(mixture.family_)
    mixture.log_joint_ = mixture._fitted_model().log_joint(data, labels)


# ---- rows ------------------------------------------------------------------------------------------------------------


def adopt_rows(mixture: Any, plan: GroupedPlan, run: GroupedRun) -> None:
    """Keep what all rows have of the clusters, and warn of what a user should know about them."""
    whole, counted = plan.whole, mixture._labels
    set_trace(mixture, run.trace)
    mixture.converged_ = was_level(run.trace, plan.kernel, run.state, plan.data.n_rows)
    label_all(mixture, whole)
    _set_known(mixture, plan.known, plan.classes)
    mixture.cluster_sizes_ = label_sizes(mixture._labels, len(mixture.n_), whole.weight)
    set_group_names(mixture, plan.groups)
    try:
        _set_certainty(mixture, whole)
        if not mixture.interrupted_:  # else nobody waits for more
            _set_doubts(mixture, whole, plan.kernel)
            _warn_of_families(mixture, plan, counted)
    except KeyboardInterrupt:
        mixture.interrupted_ = mixture.trace_.interrupted = True
    if plan.free is not None:
        _take_all_columns(mixture, plan.free, plan.every.counted(), counted)


def label_all(mixture: Any, data: Dataset) -> None:
    """Give rows of weight 0 their most probable cluster; `labels_` had only the others."""

    def of_rows(rows):
        return most_probable(mixture, data.take(rows), data.groups.of_row[rows])

    mixture.labels_ = labels_of_all(data, mixture._labels, of_rows)


def most_probable(mixture: Any, data: Dataset, groups_of_rows: npt.NDArray[np.integer]) -> npt.NDArray[np.int32]:
    """Return the most probable cluster of rows of groups of the fit: (N,).

    Parameters
    ----------
    mixture : GroupedMixture
    data : Dataset
    groups_of_rows : (N,) ndarray of int
        Group of each row.
    """
    log_weights = np.log(mixture.group_weights_)

    def reduce(scores, start, stop):
        return (scores[:, :-1] + log_weights[groups_of_rows[start:stop]]).argmax(axis=1).astype(np.int32)

    labels = np.concatenate(_log_densities(mixture, data, reduce))
    if data.known is not None and data.known.groups:
        labels[data.known.grouped_rows] = _of_linked(mixture, data, log_weights[groups_of_rows])
    return labels


def _of_linked(mixture, data, log_weights):
    """Return the most probable cluster of each link group, for each of its rows."""
    rows, starts = data.known.grouped_rows, data.known.group_starts
    blocks = _log_densities(mixture, data.take(rows), lambda scores, start, stop: scores[:, :-1].copy())
    scores = np.concatenate(blocks) + log_weights[rows]
    return np.repeat(np.add.reduceat(scores, starts[:-1], axis=0).argmax(axis=1), np.diff(starts))


def _log_densities(mixture, data, reduce):
    """Reduce blocks of log predictive densities; the last column is that of no cluster."""
    clusters = loaded_clusters(mixture, mixture.family_, mixture.n_, mixture.S_)
    return clusters.each_block(data, np.zeros(len(mixture.n_) + 1), reduce, n_threads=mixture.n_threads)


def set_group_names(mixture: Any, groups: Groups) -> None:
    """Keep the names of the groups, where they have some."""
    mixture.__dict__.pop("group_names_", None)
    if groups.names is not None and groups.n_groups == mixture.group_counts_.shape[0]:
        mixture.group_names_ = groups.names


def _set_known(mixture, known, classes):
    drop_known(mixture)
    mixture.__dict__.pop("classes_", None)
    if known is not None and known.classes is not None:
        is_known = known.classes >= 0
        mixture._labels[is_known] = known.classes[is_known]
        mixture.classes_, mixture.n_known_ = classes, int(is_known.sum())
    elif known is not None and known.groups:
        mixture.n_known_ = 0


def _set_certainty(mixture, data):
    """Set `probabilities_`, by the weights of the group of each row."""
    mixture.__dict__.pop("probabilities_", None)
    mass, clusters = np.log(mixture.group_weights_), (mixture.family_, data, mixture.n_, mixture.S_)
    mixture.probabilities_ = certainty_of_labels(
        *clusters, mixture._labels, mass, kind_of_row=data.groups.of_row, n_threads=mixture.n_threads
    )


def _set_doubts(mixture, data, kernel):
    """Set which known rows the data contradict."""
    if data.known is None or data.known.classes is None:
        return
    places, labels = np.arange(len(mixture.n_)), mixture._labels

    def log_mass(rows):
        counts = mixture.group_counts_[data.groups.of_row[rows]].toarray() + mixture.alpha_
        counts[np.arange(len(rows)), labels[rows]] -= 1.0  # a known row counts as one
        return np.log(np.maximum(counts, mixture.alpha_))

    set_doubts(
        mixture,
        mixture._fitted_model(),
        data,
        np.where(places < data.known.n_classes, places, -1),
        log_mass,
        schedule=getattr(kernel, "schedule", None),
        remedy="Give the parts of these classes names of their own in y, or leave their rows unknown",
    )


def _warn_of_families(mixture, plan, labels):
    """Warn where another family describes held-out rows better."""
    is_left = all(is_auto(value) for value in (mixture.sampler, mixture.n_steps, mixture.n_warmup, mixture.start))
    if is_left:
        found = other_families(plan.asked, plan.data, labels, seed=plan.seed)
        warn_of_others(plan.asked, plan.data, int(labels.max()) + 1, found)
