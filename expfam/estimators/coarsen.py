"""`Mixture.coarsen`: the merges of a mixture's clusters, and the mixture of their unions."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from expfam.amounts import counted
from expfam.coarsening.merges import Merges, Wish, check_wish, hard_log_joint, shared_mass, united
from expfam.coarsening.recognised_groups import groups_found_again, models_compared
from expfam.coarsening.rows import KeptRows, some_rows
from expfam.errors import DataError
from expfam.estimators.classes import keep_classes
from expfam.estimators.loaded import rows_of_fit
from expfam.estimators.mixture_results import set_model
from expfam.estimators.row_results import keep_row_names
from expfam.model.mixture import MixtureModel
from expfam.params import is_auto

if TYPE_CHECKING:
    from expfam.coarsening.curve import CoarseningCurve

_FEWEST_ROWS = 4
_OF_THE_FIT = ("n_iter_", "interrupted_", "n_features_in_", "feature_names_in_", "_not_kept", "_backend", "_output")
_OF_ROWS = ("_row_index", "row_names_")


def coarser(mixture: Any, wish: Wish, X: Any = None) -> Any:
    """Return a fitted mixture whose clusters are unions of those of another: `Mixture.coarsen`."""
    check_wish(wish)
    home = merges_of(mixture).home(wish, partial(curve_of_fit, mixture, X), partial(_shared_mass, mixture, X))
    coarse = _of_unions(mixture, home)
    if X is not None:
        keep_row_names(coarse, X)
        coarse.labels_ = home[mixture.predict(X)].astype(np.int32) if wish.needs_rows else coarse.predict(X)
    return coarse


def merges_of(mixture: Any) -> Merges:
    """Return the merges of a mixture's clusters, which are kept until its next fit."""
    held = mixture.__dict__.get("_merges")
    if held is None or not held.are_of(mixture.n_, mixture.S_):
        classes = getattr(mixture, "cluster_classes_", None)
        names = () if classes is None else mixture.classes_
        held = Merges(mixture.model_, mixture.n_, mixture.S_, mixture.cluster_sizes_, classes, names)
        mixture.__dict__["_merges"] = held
    return held


def curve_of_fit(mixture: Any, X: Any = None) -> CoarseningCurve:
    """Return how halves of given rows, or of those of the fit, agree on every cut of the merges."""
    merges = merges_of(mixture)
    if X is None and merges.found_again is not None:
        return merges.found_again
    seed = mixture._seed()
    rows = _rows(mixture, X, seed)
    models = models_compared(mixture.model_, rows.data, mixture._asked(), is_left=is_auto(mixture.family), seed=seed)
    merges.found_again = groups_found_again(
        models,
        rows,
        merges.sizes,
        merges.tree,
        merges.log_joint_of_cuts,
        classes=merges.classes,
        seed=seed,
        n_threads=mixture.n_threads,
    )
    return merges.found_again


def groups_text(mixture: Any) -> str:
    """Return the end of a line: how many groups halves of the data agree on, if it is known."""
    held = mixture.__dict__.get("_merges")
    if held is None or held.found_again is None or held.n is not mixture.n_:
        return "; coarsen() merges them"
    n_groups = held.found_again.n_clusters
    if n_groups == mixture.n_components_:
        return ", on which halves of the data agree"
    return f", of which halves of the data agree on {n_groups:,}: coarsen()"


def _rows(mixture: Any, X: Any, seed: int) -> KeptRows:
    """Return some of the given rows with their clusters, or those that are kept of the fit."""
    if X is None:
        rows = rows_of_fit(mixture)
    else:
        data = mixture._clusters().loaded(mixture._validate(X, reset=False))[0]
        rows = some_rows(data, mixture.predict(X), seed=seed)
    if rows is None:
        raise DataError(
            f"coarsen: halves of the rows, known merges and overlap need rows, and this {type(mixture).__name__} holds"
            " none, because it was loaded, copied, merged, coarsened or learned from chunks: write coarsen(X=X), or"
            " coarsen(n_clusters=...)"
        )
    if rows.data.n_rows < _FEWEST_ROWS:
        raise DataError(
            f"coarsen: halves of {counted(rows.data.n_rows, 'row')} tell nothing, and at least {_FEWEST_ROWS} are"
            " needed: write coarsen(n_clusters=...)"
        )
    return rows


def _shared_mass(mixture, X):
    return shared_mass(mixture._clusters(), _rows(mixture, X, mixture._seed()))


def _of_unions(mixture: Any, home: npt.NDArray[np.integer]) -> Any:
    """Return a mixture whose clusters are unions of the clusters of another."""
    coarse = type(mixture)(**mixture.get_params(deep=False))
    for name in _OF_THE_FIT:
        if name in mixture.__dict__:
            setattr(coarse, name, mixture.__dict__[name])
    coarse.n_, coarse.S_, coarse.cluster_sizes_ = united(home, mixture.n_, mixture.S_, mixture.cluster_sizes_)
    set_model(coarse, MixtureModel(mixture.model_.family, mixture.model_.weights))
    is_same = len(coarse.n_) == len(mixture.n_)
    found = hard_log_joint(coarse.model_, coarse.n_, coarse.S_, coarse.cluster_sizes_)
    coarse.log_joint_ = mixture.log_joint_ if is_same else found
    if "labels_" in mixture.__dict__:
        coarse.__dict__.update({name: mixture.__dict__[name] for name in _OF_ROWS if name in mixture.__dict__})
        coarse.labels_ = home[mixture.labels_].astype(np.int32)
    keep_classes(coarse, [mixture], [home])
    return coarse


__all__ = ["coarser", "curve_of_fit", "groups_text", "merges_of"]
