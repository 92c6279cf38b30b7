"""`coarsen` of mixtures: the merges of the clusters, and the mixture of their unions."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from expfam.amounts import counted
from expfam.coarsening.merges import Merges, Wish, check_wish, hard_log_joint, shared_mass, united
from expfam.coarsening.recognised_groups import groups_found_again, models_compared
from expfam.coarsening.rows import KeptRows, some_rows
from expfam.errors import DataError
from expfam.estimators.classes import keep_classes
from expfam.estimators.loaded import rows_of_fit
from expfam.estimators.mixture_results import set_model
from expfam.estimators.row_results import keep_row_names
from expfam.estimators.unknown_numbers import set_weights
from expfam.model.mixture import MixtureModel
from expfam.params import is_auto

if TYPE_CHECKING:
    from expfam.coarsening.curve import CoarseningCurve

_FEWEST_ROWS = 4
_OF_THE_FIT = (
    *("n_iter_", "interrupted_", "n_features_in_", "feature_names_in_", "documents_", "family_scores_"),
    *("family_agreement_", "_not_kept", "_backend", "_sklearn_output_config"),
)
_OF_ROWS = ("_row_index", "row_names_")
_OF_THE_GROUPS = ("classes_", "n_known_", "group_names_", "converged_")


def coarser(mixture: Any, X: Any = None, *, groups: Any = None, **wishes: Any) -> Any:
    """Return a fitted mixture whose clusters are unions of those of another.

    Parameters
    ----------
    mixture : Mixture or GroupedMixture
    X : array_like, optional
        Rows to label.
    groups : array_like, optional
        Of these rows, for a `GroupedMixture`.
    **wishes : int, float, str or None
        Fields of `Wish`.
    """
    wish = Wish(**wishes)
    check_wish(wish)
    rows = None if X is None else (X,) if groups is None else (X, groups)
    home = merges_of(mixture).home(wish, partial(_curve, mixture, rows), partial(_shared_mass, mixture, rows))
    coarse = (_of_unions if hasattr(mixture, "model_") else grouped_unions)(mixture, home)
    if rows is not None:
        keep_row_names(coarse, X)
        coarse.labels_ = home[mixture.predict(*rows)].astype(np.int32) if wish.needs_rows else coarse.predict(*rows)
    return coarse


def merges_of(mixture: Any) -> Merges:
    """Return the merges of a mixture's clusters, which are kept until its next fit."""
    held = mixture.__dict__.get("_merges")
    if held is None or not held.are_of(mixture.n_, mixture.S_):
        classes = getattr(mixture, "cluster_classes_", None)
        names = () if classes is None else mixture.classes_
        if classes is None and not hasattr(mixture, "model_") and "classes_" in mixture.__dict__:
            places, names = np.arange(len(mixture.n_)), mixture.classes_  # class j is cluster j
            classes = np.where(places < len(names), places, -1)
        held = Merges(_model_of(mixture), mixture.n_, mixture.S_, mixture.cluster_sizes_, classes, names)
        mixture.__dict__["_merges"] = held
    return held


def _model_of(mixture):
    """Return the model of the rows, of rows in groups that of the rows without their groups."""
    found = mixture.__dict__.get("model_")
    return MixtureModel(mixture.family_, mixture._asked().weights) if found is None else found


def curve_of_fit(mixture: Any) -> CoarseningCurve:
    """Return how halves of the rows of a fit agree on every cut of the merges."""
    return _curve(mixture, None)


def _curve(mixture, given):
    """Return how halves of given rows, or of those of the fit, agree on every cut of the merges."""
    merges = merges_of(mixture)
    if given is None and merges.found_again is not None:
        return merges.found_again
    seed = mixture._seed()
    rows = _rows(mixture, given, seed)
    models = models_compared(merges.model, rows.data, mixture._asked(), is_left=is_auto(mixture.family), seed=seed)
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
    """Return the end of a line: how many groups halves of the data agree on, if it is known.

    Empty where the number of clusters was given, and for one cluster.
    """
    if mixture.n_components is not None or mixture.n_components_ < 2:
        return ""
    held = mixture.__dict__.get("_merges")
    if held is None or held.found_again is None or held.n is not mixture.n_:
        return "; coarsen() merges them"
    n_groups = held.found_again.n_clusters
    if n_groups == mixture.n_components_:
        return ", on which halves of the data agree"
    return f", of which halves of the data agree on {n_groups:,}: coarsen()"


def _rows(mixture: Any, given: tuple[Any, ...] | None, seed: int) -> KeptRows:
    """Return some of the given rows with their clusters, or those that are kept of the fit."""
    if given is None:
        rows = rows_of_fit(mixture)
    else:
        X = mixture._validate(given[0], reset=False) if len(given) == 1 else mixture._checked(*given)[0]
        rows = some_rows(mixture._clusters().loaded(X)[0], mixture.predict(*given), seed=seed)
    if rows is None:
        owner = type(mixture).__name__
        arguments = "X=X" if hasattr(mixture, "model_") else "X=X, groups=groups"
        raise DataError(
            f"coarsen: halves of the rows, known merges and overlap need rows, and this {owner} holds none, because it"
            f" was loaded, copied, merged, coarsened or learned from chunks: write coarsen({arguments}), or"
            " coarsen(n_clusters=...)"
        )
    if rows.data.n_rows < _FEWEST_ROWS:
        raise DataError(
            f"coarsen: halves of {counted(rows.data.n_rows, 'row')} tell nothing, and at least {_FEWEST_ROWS} are"
            " needed: write coarsen(n_clusters=...)"
        )
    return rows


def _shared_mass(mixture, given):
    return shared_mass(mixture._clusters(), _rows(mixture, given, mixture._seed()))


def _of_unions(mixture: Any, home: npt.NDArray[np.integer]) -> Any:
    """Return a mixture whose clusters are unions of the clusters of another."""
    coarse = carried(mixture)
    coarse.n_, coarse.S_, coarse.cluster_sizes_ = united(home, mixture.n_, mixture.S_, mixture.cluster_sizes_)
    set_model(coarse, MixtureModel(mixture.model_.family, mixture.model_.weights))
    is_same = len(coarse.n_) == len(mixture.n_)
    found = hard_log_joint(coarse.model_, coarse.n_, coarse.S_, coarse.cluster_sizes_)
    coarse.log_joint_ = mixture.log_joint_ if is_same else found
    rename_labels(coarse, mixture, home)
    keep_classes(coarse, [mixture], [home])
    return coarse


def grouped_unions(mixture: Any, home: npt.NDArray[np.integer]) -> Any:
    """Return a `GroupedMixture` whose clusters are unions of the clusters of another.

    Pseudo-counts of unions are sums, as those of a Dirichlet law are.
    """
    coarse, K = carried(mixture), int(home.max()) + 1
    coarse.n_, coarse.S_, coarse.cluster_sizes_ = united(home, mixture.n_, mixture.S_, mixture.cluster_sizes_)
    coarse.family_ = mixture.family_
    pseudocounts = np.bincount(home, weights=mixture.alpha_, minlength=K).astype(np.float64)
    if mixture.n_components is None:
        set_weights(coarse, pseudocounts, mixture.concentration_, mixture.gamma_)
    else:
        coarse.alpha_, coarse.n_components = pseudocounts, K
        coarse.alpha = pseudocounts if np.ndim(mixture.alpha) else mixture.alpha
    if "group_counts_" in mixture.__dict__:
        member = sparse.csr_array((np.ones(len(home)), (np.arange(len(home)), home)), shape=(len(home), K))
        coarse.group_counts_ = sparse.csr_array(mixture.group_counts_ @ member)
    coarse.log_joint_ = mixture.log_joint_ if len(mixture.n_) == K else np.nan  # statistics are means over sweeps
    rename_labels(coarse, mixture, home)
    return coarse


def rename_labels(coarse, mixture, home):
    """Give a coarser mixture the labels of another, renamed, and the names of their rows."""
    if "labels_" in mixture.__dict__:
        coarse.__dict__.update({name: mixture.__dict__[name] for name in _OF_ROWS if name in mixture.__dict__})
        coarse.labels_ = home[mixture._labels].astype(np.int32)


def carried(mixture: Any) -> Any:
    """Return an estimator with the settings of another, and the results of it that stay valid."""
    coarse = type(mixture)(**mixture.get_params(deep=False))
    names = _OF_THE_FIT if hasattr(mixture, "model_") else (*_OF_THE_FIT, *_OF_THE_GROUPS)
    for name in names:
        if name in mixture.__dict__:
            setattr(coarse, name, mixture.__dict__[name])
    return coarse
