"""The plan of a tree: its settings, checked, and the leaves that it begins from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from expfam.amounts import counted
from expfam.errors import DataError
from expfam.estimators.leaves import has_cluster_leaves
from expfam.estimators.loaded import names_of_fit
from expfam.estimators.tree_choice import has_ward_tree, order_for
from expfam.forecast.memory import check_memory, forecast_tree
from expfam.model.data import Dataset
from expfam.model.known import Known
from expfam.params import check_value, is_auto, refuse_unused
from expfam.samplers.hierarchy.kernel import HierarchicalClustering
from expfam.samplers.named import find_sampler
from expfam.samplers.warm_starts.ties import spread_memory
from expfam.stages import tell

if TYPE_CHECKING:
    import numpy.typing as npt

_LEAVES = ("auto", "rows", "clusters")
_SPREAD_COPIES = 3  # of rows whose repeated values are spread: distinct ones, these spread, and all of them


@dataclass(frozen=True)
class TreePlan:
    """What is known of a tree before any work.

    Attributes
    ----------
    data : Dataset
        Rows as they are.
    start : "auto" or (N,) ndarray of int
        Labels of rows that stay together.
    links : (N,) array_like of int or None
        As they were given.
    seed : int
    is_fitted : bool
        Whether leaves are clusters of a mixture that is fitted first.
    """

    data: Dataset
    start: Any
    links: npt.ArrayLike | None
    seed: int
    is_fitted: bool


def planned_tree(hierarchy: Any, X: Any, links: npt.ArrayLike | None) -> TreePlan:
    """Return the plan of a fit; all that can be refused before any work is refused here."""
    check_value("BayesianHierarchy: cut", hierarchy.cut, ("odds", "map"))
    K = hierarchy._check_components()
    if K is not None:
        refuse_unused(hierarchy, ["cut"], why=f"n_components={K!r}", remedy="leave out n_components")
    kernel_of_tree(hierarchy).refuse_unused()
    check_learning(hierarchy)
    _check_leaves(hierarchy)
    data = Dataset(hierarchy._validate(X, reset=True), hierarchy._family(), names=names_of_fit(hierarchy))
    if K is not None and data.n_rows < K:
        raise ValueError(f"n_components must be from 1 to the {counted(data.n_rows, 'datum', 'data')}; got {K!r}")
    if not isinstance(hierarchy.start, str):
        check_cut(hierarchy, hierarchy.start, kind="the labels of start")
    plan = TreePlan(
        data, _start_of(hierarchy, links, data.n_rows), links, hierarchy._seed(), _has_cluster_leaves(hierarchy, data)
    )
    if not plan.is_fitted:
        check_tree_memory(hierarchy, data, plan.start)
    return plan


def kernel_of_tree(hierarchy: Any) -> HierarchicalClustering:
    """Return the kernel that was given, or the one that "auto" stands for."""
    found = find_sampler(hierarchy.sampler, model="BayesianHierarchy")
    return HierarchicalClustering(n_threads=hierarchy.n_threads) if found is None else found


def check_learning(hierarchy: Any) -> None:
    """Refuse what is no value of `alpha` or `learn_hyper`."""
    if isinstance(hierarchy.alpha, str) and hierarchy.alpha != "auto":
        raise ValueError(f"alpha must be a positive number or 'auto'; got {hierarchy.alpha!r}")
    learned = hierarchy.learn_hyper
    if not (is_auto(learned) or isinstance(learned, (bool, np.bool_, Mapping))):
        raise ValueError(
            f"BayesianHierarchy: learn_hyper must be 'auto', True, False or a grid for each hyper-parameter; got"
            f" {learned!r}"
        )


def tunes_by_evidence(hierarchy: Any) -> bool:
    """Return whether hyper-parameters are chosen by evidence."""
    learned = hierarchy.learn_hyper
    return isinstance(learned, Mapping) or (not is_auto(learned) and bool(learned))


def check_cut(hierarchy: Any, labels: Any, *, kind: str) -> None:
    """Refuse a cut into more clusters than there are leaves, before the tree is made."""
    n_leaves, K = len(np.unique(labels)), hierarchy.n_components
    if K is not None and n_leaves < K:
        raise ValueError(
            f"n_components={K} is more than the {counted(n_leaves, 'leaf', 'leaves')} of the tree, which are "
            f"{kind}: write BayesianHierarchy(n_components={n_leaves}), or "
            "BayesianHierarchy(leaves='rows', start='auto') for a tree over single rows, or give the labels of a"
            " finer partition as start"
        )


def check_tree_memory(hierarchy: Any, data: Dataset, start: Any) -> None:
    """Tell the memory that the tree needs, and refuse it if there is less."""
    needed = _memory(hierarchy, data, start).with_copy(hierarchy._n_copied)
    check_memory(needed, hierarchy.memory_limit)
    tell(lambda: f"{counted(data.n_rows, 'row', spec=',')}; memory: about {needed}")


def _memory(hierarchy, data, start):
    """Forecast the memory of the trees that are held together, and of the graph for one."""
    kernel = kernel_of_tree(hierarchy)
    n_leaves = None if isinstance(start, str) else len(np.unique(start))
    n_neighbors = 0 if kernel.candidates is None else kernel.n_neighbors
    is_best = order_for(kernel.order, data.family) == "best"
    n_trees = 2 + (kernel.candidates is None and has_ward_tree(data)) if is_best else 1
    found = forecast_tree(data, n_leaves=n_leaves, n_neighbors=n_neighbors, n_trees=n_trees)
    return replace(found, scratch=found.scratch + _SPREAD_COPIES * spread_memory(data, None))


def _check_leaves(hierarchy):
    """Refuse leaves that are unknown, and those that other settings replace."""
    if not isinstance(hierarchy.leaves, str) or hierarchy.leaves not in _LEAVES:
        raise ValueError(f"leaves must be one of {', '.join(map(repr, _LEAVES))}; got {hierarchy.leaves!r}")
    if not isinstance(hierarchy.start, str):
        refuse_unused(hierarchy, ["leaves"], why="a tree over the labels of start", remedy="take start='auto'")
    if hierarchy.leaves == "clusters" and kernel_of_tree(hierarchy).duplicates == "collapse":
        why, remedy = "duplicates='collapse', which makes leaves of its own,", "take duplicates='exact'"
        refuse_unused(hierarchy, ["leaves"], why=why, remedy=remedy)


def _has_cluster_leaves(hierarchy, data):
    """Return whether leaves are clusters of a mixture that is fitted first."""
    if hierarchy.leaves != "auto" or not is_auto(hierarchy.start):
        return hierarchy.leaves == "clusters" and is_auto(hierarchy.start)
    kernel = kernel_of_tree(hierarchy)
    return kernel.candidates is None and kernel.duplicates != "collapse" and has_cluster_leaves(data)


def _start_of(hierarchy, links, n_rows):
    """Return `start`, or where rows are linked the labels of the leaves that they begin from."""
    if links is None:
        return hierarchy.start
    if not isinstance(hierarchy.start, str):
        raise ValueError("BayesianHierarchy: start and links both say which rows are together: give one of them")
    known = Known(links=links)
    if known.n_rows != n_rows:
        raise DataError(
            f"BayesianHierarchy: links has {counted(known.n_rows, 'value')}, X has {counted(n_rows, 'row')}"
        )
    leaves = known.agreeing(np.arange(n_rows))
    check_cut(hierarchy, leaves, kind="rows and groups of linked rows")
    return leaves
