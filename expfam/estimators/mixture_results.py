"""What a mixture keeps of its chains: a partition with its statistics, and draws."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from expfam.estimators.base import set_trace
from expfam.estimators.classes import line_of_classes
from expfam.estimators.known_doubts import drop_known, log_mass_of_rows, set_doubts
from expfam.estimators.lines import completed
from expfam.estimators.loaded import names_of_fit
from expfam.fitted.clusters import FittedClusters
from expfam.fitted.drawn_clusters import DrawnClusters
from expfam.fitted.row_certainty import certainty_of_labels
from expfam.fitting.disagreement import warn_of_disagreement
from expfam.fitting.drawn_hyper import mean_model, model_of_best
from expfam.fitting.few_rows import warn_of_covariances, warn_of_equal_rows
from expfam.fitting.kept import KeptDraws, drawn_statistics, kept_draws
from expfam.fitting.known_rows import classes_of_clusters
from expfam.fitting.overlap import ROWS_OF_OVERLAP, warn_of_overlap
from expfam.fitting.phases import MOST_STEPS
from expfam.fitting.result import chosen_partition
from expfam.fitting.weighted_rows import label_sizes, labels_of_all
from expfam.model.statistics import weighted_statistics
from expfam.params import check_value
from expfam.user_warnings import warn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from expfam.evaluation.posterior import PartitionPosterior
    from expfam.fitting.free_columns import FreeColumns
    from expfam.fitting.plan import Plan
    from expfam.fitting.run import ChainRun
    from expfam.model.data import Dataset
    from expfam.model.drawn import DrawnStatistics
    from expfam.model.mixture import MixtureModel


def adopt_runs(mixture: Any, plan: Plan, runs: Sequence[ChainRun]) -> None:
    """Keep the draws of all chains, and one partition with its statistics."""
    _keep_draws(mixture, plan, runs)
    best = max(runs, key=lambda run: run.best.log_joint)
    trace, data = runs[0].trace, plan.data
    state = (best if plan.partition == "mode" else runs[0]).state
    if runs[0].hyper is not None and plan.partition != "last":
        state.set_model(model_of_best(best) if plan.partition == "mode" else mean_model(runs))
    if hasattr(state, "soft_partition"):
        labels, n, S = state.soft_partition()
        adopt(mixture, state.model, data, labels, n, S, bound=state.log_joint)
        shares = None
    else:
        model, labels, shares = chosen_partition(plan, best, runs[0].start, partial(posterior_of_draws, mixture))
        adopt(
            mixture,
            model,
            data,
            labels if data.known is None else data.known.numbered_by_class(np.asarray(labels, dtype=np.int32)),
        )
        if plan.added is not None:
            mixture.S_ = mixture.S_ + plan.added.of_labels(data, mixture._labels, len(mixture.n_))
    labels = mixture._labels
    keep_drawn(mixture, drawn_statistics(runs, data, labels, mixture.family_, added=plan.added))
    mixture.cluster_sizes_ = label_sizes(labels, len(mixture.n_), data.weight)
    label_all(mixture, plan.whole)
    _set_known(mixture, plan.whole.known)
    _set_certainty(mixture, plan.whole, trace, shares if plan.whole is data else None)
    _set_doubts(mixture, plan.whole, trace, runs[0].phases[-1].kernel)
    mixture.n_init_chosen_, mixture.traces_ = runs[0].name, [run.trace for run in runs]
    set_trace(mixture, trace)
    mixture.converged_ = all(run.has_converged() for run in runs)


def adopt(
    mixture: Any, model: MixtureModel, data: Any, labels: Any, n: Any = None, S: Any = None, bound: Any = None
) -> None:
    """Store labels with their statistics, or soft statistics with their bound as the log joint.

    Parameters
    ----------
    mixture : Mixture
    model : MixtureModel
    data : Dataset
    labels : (N,) array_like of int
    n : (K,) float64 ndarray, optional
        Soft counts; those of the labels if not given.
    S : (K, F) ndarray or CSR, optional
        Soft sums of phi; needed with `n`.
    bound : float, optional
        Lower bound of the log evidence, nats; needed with `n`.
    """
    labels = mixture.labels_ = np.asarray(labels, dtype=np.int32)
    is_hard = n is None
    if is_hard:
        n, S = weighted_statistics(data, labels, int(labels.max()) + 1)
    mixture.n_, mixture.S_ = n, S
    log_joint = model.weights.log_prior(n) + model.family.total_log_marginal(n, S) if is_hard else bound
    mixture.log_joint_ = float(log_joint)
    set_model(mixture, model)


def set_model(mixture: Any, model: MixtureModel) -> None:
    """Store a model with what follows from it and the statistics."""
    mixture.model_, mixture.family_ = model, model.family
    mixture.n_components_ = len(mixture.n_)
    mixture.weights_, new = model.weights.posterior_mean(mixture.n_)
    mixture.log_weight_new_ = float(np.log(new)) if new > 0 else -np.inf


def take_all_columns(mixture: Any, data: Dataset, free: FreeColumns) -> None:
    """Give the result of a fit of the free columns all columns.

    Parameters
    ----------
    mixture : Mixture
    data : Dataset
        Rows of all columns; those of weight 0 have no part in the log joint.
    free : FreeColumns
    """
    draws = [
        draw._replace(family=free.all_columns(draw.family), S=free.all_sums(draw.family, draw.n, draw.S))
        for draw in drawn_of(mixture)
    ]
    mixture.S_ = free.all_sums(mixture.family_, mixture.n_, mixture.S_)
    set_model(mixture, mixture.model_.with_family(free.all_columns(mixture.family_)))
    keep_drawn(mixture, draws)
    rows = data.counted_rows
    labels = mixture._labels if rows is None else mixture._labels[rows]
    mixture.log_joint_ = float(mixture.model_.log_joint(data.counted(), labels))


def warn_of_runs(mixture: Any, plan: Plan, runs: Sequence[ChainRun]) -> None:
    """Warn of what a user should know about the result."""
    trace = runs[0].trace
    if not mixture.converged_ and runs[0].rises_still():
        warn(
            f"Mixture: the log joint was still rising after {MOST_STEPS} steps; set n_steps to a larger number:"
            f" write Mixture(n_steps={4 * MOST_STEPS}), or look at trace_",
            ConvergenceWarning,
        )
    if len(runs) > 1 and hasattr(mixture, "_draws") and not trace.interrupted:
        warn_of_disagreement(mixture.sampler, mixture.posterior_.diagnostics, mixture._steps, n_warmup=trace.n_warmup)
    rows = plan.whole.counted_rows
    counted = mixture._labels if rows is None else mixture._labels[rows]
    is_chosen = "family_scores_" in mixture.__dict__
    sizes = mixture.cluster_sizes_
    is_other = warn_of_covariances(plan, runs, mixture.model_, counted, sizes, is_chosen=is_chosen)
    warn_of_equal_rows(plan.data, mixture.n_components, mixture.n_components_)
    if counted.size >= ROWS_OF_OVERLAP and not is_other:  # of another family, clusters have another overlap
        warn_of_overlap(plan, runs, mixture.model_, counted)


def label_all(mixture: Any, whole: Dataset) -> None:
    """Give rows of weight 0 their most probable cluster; `labels_` had only the others."""
    if whole.counted_rows is not None:
        mixture.labels_ = labels_of_all(
            whole, mixture._labels, lambda rows: mixture._clusters().most_probable(whole.take(rows).X)
        )


def _set_certainty(mixture, data, trace, shares):
    """Set `probabilities_`, to `shares` where no draws are kept; Ctrl-C leaves it out.

    `shares` is None where the last pass over the rows has not told them.
    """
    mixture.__dict__.pop("probabilities_", None)
    with np.errstate(divide="ignore"):
        log_weights = np.log(mixture.weights_)
    clusters, n_threads = (mixture.family_, data, mixture.n_, mixture.S_), mixture.n_threads
    drawn = drawn_clusters(mixture)
    try:
        if drawn is not None:
            mixture.probabilities_ = drawn.probabilities_at(data.X, mixture._labels)
            return
        if shares is not None:
            mixture.probabilities_ = shares
            return
        mixture.probabilities_ = certainty_of_labels(*clusters, mixture._labels, log_weights, n_threads=n_threads)
    except KeyboardInterrupt:
        trace.interrupted = True


def _set_doubts(mixture, data, trace, kernel):
    """Set which known rows the data contradict; Ctrl-C leaves it out."""
    if data.known is None or trace.interrupted:  # then nobody waits for more
        return
    try:
        set_doubts(
            mixture,
            mixture.model_,
            data,
            mixture.cluster_classes_,
            log_mass_of_rows(mixture, data),
            schedule=getattr(kernel, "schedule", None),
            remedy=line_of_classes(mixture, data),
        )
    except KeyboardInterrupt:
        trace.interrupted = True


def _set_known(mixture, known):
    drop_known(mixture)
    if known is None:
        del mixture.classes_
        return
    mixture.cluster_classes_ = classes_of_clusters(mixture._labels, len(mixture.n_), known)
    mixture.n_known_ = 0 if known.classes is None else int((known.classes >= 0).sum())


def _keep_draws(mixture, plan, runs):
    """Keep the draws of all chains, cut to the shortest, with the numbers of their steps."""
    for name in ("_draws", "_posterior_of_draws", "_steps"):
        mixture.__dict__.pop(name, None)
    mixture._makes_no_draws = not plan.kernel.makes_draws
    kept = kept_draws(runs)
    if kept is not None:
        mixture._draws = kept.columns
    if kept is not None and kept.steps is not None:
        mixture._steps = kept.steps


def posterior_of_draws(mixture: Any) -> PartitionPosterior:
    """Return the posterior of the kept draws."""
    names, family = getattr(mixture, "feature_names_in_", None), getattr(mixture, "family_", None)
    kept = KeptDraws(mixture._draws, mixture.__dict__.get("_steps"))
    return kept.posterior(family=family, names=names, n_threads=mixture.n_threads)


def no_posterior(mixture: Any) -> str:
    """Return why a mixture has no posterior of its partition, and the whole line to write."""
    if getattr(mixture, "_makes_no_draws", False):
        reason = (
            "this sampler has soft labels and makes no draws: use predict_proba; samplers with draws: write"
            " Mixture(sampler='gibbs', n_draws=100), or 'split_merge', 'fastex', 'uncollapsed_gibbs'"
        )
    elif hasattr(mixture, "trace_") and not hasattr(mixture, "labels_"):
        reason = "the saved model holds no draws: write model.save(path, labels=True)"
    else:
        reason = (
            "no draws were kept: write Mixture(n_draws=100), or Mixture(partition='vi', n_draws='auto'), with steps"
            " after the warm-up"
        )
    return completed(f"Mixture has no posterior_: {reason}", mixture)


# ---- clusters of the draws -------------------------------------------------------------------------------------------


def keep_drawn(mixture: Any, draws: Sequence[DrawnStatistics]) -> None:
    """Keep the statistics of the draws of a fit, in the place of those of an earlier one."""
    mixture.__dict__.pop("_drawn", None)
    if draws:
        mixture._drawn = (mixture.n_, tuple(draws))


def drawn_of(mixture: Any) -> tuple[DrawnStatistics, ...]:
    """Return the statistics of the draws: none if none were kept, or more was learned since."""
    n, draws = mixture.__dict__.get("_drawn", (None, ()))
    return tuple(draws) if n is mixture.n_ else ()


def drawn_clusters(mixture: Any) -> DrawnClusters | None:
    """Return the clusters of the draws; None if there are none."""
    draws = drawn_of(mixture)
    if not draws:
        return None
    parts = []
    for family, n, S, _ in draws:
        weights, new = mixture.model_.weights.posterior_mean(n)
        with np.errstate(divide="ignore"):
            log_weights = np.log(np.append(weights, max(new, 0.0)))
        names = names_of_fit(mixture)
        parts.append(FittedClusters(family, n, S, log_weights, n, weights, names, mixture.n_threads))
    return DrawnClusters(tuple(parts), tuple(draw.home for draw in draws))


def answering_clusters(mixture: Any, average: bool) -> FittedClusters | DrawnClusters:
    """Return the clusters under which rows are scored: those of all draws, or of the labels."""
    check_value("Mixture: average", average, bool)
    drawn = drawn_clusters(mixture) if average else None
    return mixture._clusters() if drawn is None else drawn
