"""Which picture fits a fitted model."""

from __future__ import annotations

from typing import Any

from expfam.displays.dendrogram import DendrogramDisplay
from expfam.displays.evidence import ColumnEvidenceDisplay
from expfam.displays.means import ClusterMeansDisplay
from expfam.displays.scatter import ScatterDisplay
from expfam.displays.sizes import SizesDisplay

_MOST_COLUMNS = 64  # of means that a heat map shows


def chosen_display(estimator: Any, X: Any = None) -> Any:
    """Return the display that fits a fitted estimator, not yet drawn.

    Parameters
    ----------
    estimator : Estimator
    X : array_like, sparse matrix or frame, optional
        Rows for the displays of rows; by default those that were kept of the fit.

    Examples
    --------
    >>> from expfam import BayesianHierarchy
    >>> from expfam.estimators.plotted import chosen_display
    >>> type(chosen_display(BayesianHierarchy("gaussian_diag").fit([[0.0], [0.1], [9.0]]))).__name__
    'DendrogramDisplay'
    """
    if estimator.saved_kind == "hierarchy":
        return DendrogramDisplay.from_estimator(estimator)
    if estimator.family_.name == "columns":
        return ColumnEvidenceDisplay.from_estimator(estimator)
    if _has_telling_means(estimator):
        return ClusterMeansDisplay.from_estimator(estimator, X if _is_array(X) else None)
    if X is not None or estimator._kept_rows() is not None:
        return ScatterDisplay.from_estimator(estimator, X)
    return SizesDisplay.from_estimator(estimator)


def _has_telling_means(estimator):
    """Return whether a reader sees something in the means of the columns."""
    family, V = estimator.family_, estimator.n_features_in_
    if family.name == "von_mises_fisher" or not hasattr(family, "to_params"):
        return False
    if estimator.saved_kind == "topic_model" or estimator.__dict__.get("documents_") is not None:
        return True
    has_names = getattr(estimator, "feature_names_in_", None) is not None
    return V <= _MOST_COLUMNS or (family.has_counts and (has_names or round(V**0.5) ** 2 == V))


def _is_array(X):
    """Return whether X is a plain array, whose rows may be points of the plane."""
    return hasattr(X, "dtype") and hasattr(X, "ndim") and not hasattr(X, "tocsr")
