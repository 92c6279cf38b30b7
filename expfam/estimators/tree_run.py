"""The search for the trees of a hierarchy: settings, leaves, and all merges of each order."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from expfam.estimators.leaves import MANY_ROWS, fitted_leaves
from expfam.estimators.tree_choice import has_ward_tree, order_for
from expfam.estimators.tree_plan import check_cut, check_tree_memory, kernel_of_tree, tunes_by_evidence
from expfam.families.support import check_structure
from expfam.fitting.kept_run import not_keeping
from expfam.fitting.phases import Phase
from expfam.fitting.steps import run_phases, with_progress
from expfam.forecast.time import check_duration, forecast_tree_duration
from expfam.model.data import Dataset
from expfam.model.mixture import MixtureModel
from expfam.model.weights import DirichletProcess
from expfam.params import is_auto
from expfam.samplers.hierarchy.tuning import tuned_alpha, tuned_family, tuned_worth, ward_state
from expfam.samplers.warm_starts.ties import spread_alike
from expfam.stages import shows_progress, stage

if TYPE_CHECKING:
    from expfam.estimators.tree_plan import TreePlan
    from expfam.samplers.hierarchy.kernel import MergeState


def searched_trees(hierarchy: Any, plan: TreePlan) -> dict[str, MergeState]:
    """Return finished searches by the name of their order, after leaves and settings are found."""
    start, seed, was_stopped = plan.start, plan.seed, False
    with stage("choosing hyper-parameters"):
        model, seen = model_of_tree(hierarchy, plan.data, seed)
    data = Dataset(plan.data.X, model.family)
    if plan.is_fitted:
        start, was_stopped = _leaves_of_mixture(hierarchy, data, plan)
        check_tree_memory(hierarchy, data, start)
    if hierarchy.time_limit is not None and not was_stopped:
        grow = partial(_grow_sample, hierarchy, model, start)
        with not_keeping():
            duration = forecast_tree_duration(grow, seen, seed=seed)
        check_duration(duration, hierarchy.time_limit)
    return _grown_trees(hierarchy, model, seen, start, data, was_stopped=was_stopped)


def model_of_tree(hierarchy: Any, data: Dataset, seed: int) -> tuple[MixtureModel, Dataset]:
    """Return the model and the data as trees see them, after hyper-parameters were chosen.

    Repeated real values are spread over what they stand for: a cluster of rows that are equal in one column has
    infinite density, so that one common value of a column outweighs all others.
    """
    alpha, data = 1.0 if isinstance(hierarchy.alpha, str) else hierarchy.alpha, spread_alike(data)
    if tunes_by_evidence(hierarchy):
        grid: Any = hierarchy.learn_hyper if isinstance(hierarchy.learn_hyper, Mapping) else None
        data = Dataset(data.X, tuned_family(data.family, data.X, grid=grid, seed=seed, alpha=alpha))
    elif is_auto(hierarchy.learn_hyper):
        data = Dataset(data.X, tuned_worth(data.family, data.X, given=hierarchy._family(), alpha=alpha))
    if isinstance(hierarchy.alpha, str):
        alpha = tuned_alpha(data, seed=seed)
    hierarchy.alpha_ = float(alpha)
    return MixtureModel(data.family, DirichletProcess(alpha)).bind(data), data


def _leaves_of_mixture(hierarchy, data, plan):
    """Return the leaf of each datum, and whether Ctrl-C ended the fit of the mixture."""
    labels, was_stopped = fitted_leaves(
        data.family if tunes_by_evidence(hierarchy) else hierarchy._family(),
        data,
        links=plan.links,
        alpha=hierarchy.alpha_,
        seed=plan.seed,
        n_threads=hierarchy.n_threads,
        shows_progress=shows_progress(hierarchy.callbacks),
        memory_limit=hierarchy.memory_limit,
        time_limit=hierarchy.time_limit,
    )
    lacks_clusters = hierarchy.n_components is not None and hierarchy.n_components > labels.max() + 1
    if lacks_clusters and hierarchy.leaves == "auto" and data.n_rows <= MANY_ROWS and not was_stopped:
        return plan.start, False  # rows, of which as many clusters as were asked for can be cut
    check_cut(hierarchy, labels, kind="clusters of a mixture")
    return labels, was_stopped


def _grown_trees(hierarchy, model, data, start, rows, *, was_stopped=False):
    """Return finished searches by the name of their order; after Ctrl-C those that were begun.

    `rows` are the data before repeated values were spread.
    """
    kernel = kernel_of_tree(hierarchy)
    order = order_for(kernel.order, data.family)
    is_best = order == "best"
    if was_stopped:
        state = _with_settings(kernel, order="auto" if is_best else order).init(model, data, start=start)
        hierarchy.interrupted_ = True
        return {state.order: state}
    states, hierarchy.interrupted_, forest = {}, False, None
    for each in ("odds", "odds_size") if is_best else (order,):
        if not hierarchy.interrupted_:
            kernel = _with_settings(kernel, order=each)
            state = kernel.init(model, data, start=start) if forest is None else forest
            forest = state.by_size(n_threads=kernel.n_threads) if is_best and each == "odds" else None
            _grow(hierarchy, kernel, state, each)
            states[state.order] = state
    if is_best and kernel.candidates is None and not hierarchy.interrupted_ and has_ward_tree(data):
        collapse = kernel.duplicates == "collapse"
        states["ward"] = ward_state(model, data, states["odds"].leaf, rows=rows, collapse=collapse)
    if hierarchy.interrupted_:  # forests of different sizes do not compare
        states = {name: state for name, state in states.items() if state.n_clusters == 1} or states
    return states


def _grow_sample(hierarchy, model, start, rows, data):
    """Grow the trees of some rows, for the time that they take."""
    probe = type(hierarchy)(**hierarchy.get_params(deep=False)).set_params(callbacks=None)
    start = start if isinstance(start, str) else np.asarray(start)[rows]
    kernel = kernel_of_tree(hierarchy)
    if sparse.issparse(kernel.candidates):
        check_structure(kernel.candidates, owner="candidates")
        probe.sampler = _with_settings(kernel, candidates=sparse.csr_array(kernel.candidates)[rows][:, rows])
    _grown_trees(probe, model, data, start, data)
    if probe.interrupted_:
        raise KeyboardInterrupt


def _grow(hierarchy, kernel, state, order):
    """Make all merges of a forest."""
    n_steps = -(-(state.n_clusters - 1) // kernel.n_merges)
    trace = run_phases(
        state,
        [Phase(kernel, n_steps, None)],
        callbacks=lambda total: with_progress(hierarchy.callbacks, total),
        name=f"merges in the order {order!r}",
    )
    hierarchy.interrupted_ = trace.interrupted


def _with_settings(kernel, **settings):
    """Return the kernel with some other settings."""
    return type(kernel)(**kernel.get_params() | settings)
