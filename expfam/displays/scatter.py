"""Figure of the rows in the plane, coloured by cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from expfam.amounts import counted
from expfam.displays._axes import _GREY, _amount, _clean, _pyplot
from expfam.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

_MOST_POINTS = 20_000  # more would hide each other
OTHERS = "#b8c0c7"  # of clusters beyond those that have a colour
COLOURS = 10


class ScatterDisplay:
    """Rows in the plane of two columns or two principal components, coloured by cluster.

    Parameters
    ----------
    points : (N, 2) array_like of float
    labels : (N,) array_like of int
        Cluster of each row, from 0 on; -1 for none.
    names : pair of str, optional
        Of the axes.

    Attributes
    ----------
    figure_, ax_ : matplotlib Figure and Axes

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import Mixture
    >>> from expfam.displays import ScatterDisplay
    >>> X = np.random.default_rng(0).normal(size=(60, 4)) + 9.0 * np.repeat(np.eye(2, 4), 30, axis=0)
    >>> mixture = Mixture("gaussian_diag", 2, random_state=0).fit(X)
    >>> ScatterDisplay.from_estimator(mixture, X).names
    ('first principal component', 'second principal component')
    """

    def __init__(
        self,
        points: npt.ArrayLike,
        labels: npt.ArrayLike,
        *,
        names: tuple[str, str] = ("first column", "second column"),
    ) -> None:
        self.points, self.labels, self.names = np.asarray(points, dtype=np.float64), np.asarray(labels), names
        if self.points.ndim != 2 or self.points.shape[1] != 2 or self.labels.shape != self.points.shape[:1]:
            raise DataError(
                f"a scatter needs points (N, 2) and labels (N,); got {self.points.shape} and {self.labels.shape}: from"
                " more columns write ScatterDisplay.from_estimator(mixture, X)"
            )

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any = None, *, columns: Sequence[int | str] | None = None
    ) -> ScatterDisplay:
        """Make the display of rows, with the clusters that a fitted estimator predicts for them.

        Parameters
        ----------
        estimator : Mixture, GroupedMixture or BayesianHierarchy
        X : (N, V) array_like, sparse matrix or frame, optional
            Rows as in `fit`; by default those that the estimator has kept of its fit, at most 5,000.
        columns : pair of int or str, optional
            Numbers of two columns, or their names in a frame. By default two columns are the axes, and of more columns
            the two principal components of the coordinates of the family: standardised columns, square roots of counts.

        Returns
        -------
        ScatterDisplay
        """
        rows, labels = labelled_rows(estimator, X, owner=cls.__name__)
        if columns is not None:
            known = list(map(str, estimator._form().columns))
            chosen = [_column(rows if X is None else X, column, known) for column in columns]
            return cls(np.column_stack(chosen), labels, names=(str(columns[0]), str(columns[1])))
        names = getattr(estimator, "feature_names_in_", ("first column", "second column"))
        if rows.shape[1] == 2 and not getattr(estimator.family_, "roles", None):
            return cls(
                rows.toarray() if hasattr(rows, "toarray") else rows, labels, names=(str(names[0]), str(names[1]))
            )
        points = _components(estimator.family_.coordinates(rows))
        return cls(points, labels, names=("first principal component", "second principal component"))

    def plot(self, ax: Any = None) -> ScatterDisplay:
        """Draw the rows; the ten largest clusters have a colour each; return self."""
        if ax is None:
            _, ax = _pyplot().subplots(figsize=(5.8, 4.8), layout="constrained")
        step = -(-len(self.labels) // _MOST_POINTS)
        clusters, sizes = np.unique(self.labels[self.labels >= 0], return_counts=True)
        largest = np.sort(np.argsort(-sizes, kind="stable")[:COLOURS])
        coloured, width = clusters[largest], 20.0 if len(self.labels) < 2000 else 8.0
        points, labels = self.points[::step], self.labels[::step]
        rest = ~np.isin(labels, coloured)
        if rest.any():
            ax.scatter(*points[rest].T, s=width, color=OTHERS, lw=0, label="others", rasterized=True)
        colours = _pyplot().get_cmap("tab10")
        for place, (k, size) in enumerate(zip(coloured, sizes[largest])):
            shown = points[labels == k]
            ax.scatter(*shown.T, s=width, color=colours(place), lw=0, label=f"{k}  ·  {_amount(size)}", rasterized=True)
        ax.set_xlabel(self.names[0])
        ax.set_ylabel(self.names[1])
        ax.set_title(
            f"{counted(len(self.labels), 'row', spec=',')} in {counted(len(clusters), 'cluster')}",
            loc="left",
            fontsize="medium",
            color=_GREY,
        )
        ax.legend(
            title="cluster  ·  rows", frameon=False, fontsize="small", loc="upper left", bbox_to_anchor=(1.0, 1.0)
        )
        _clean(ax, grid="both")
        self.ax_, self.figure_ = ax, ax.figure
        return self


def labelled_rows(estimator: Any, X: Any, *, owner: str) -> tuple[Any, npt.NDArray[np.integer]]:
    """Return rows as the family reads them, and their clusters.

    Parameters
    ----------
    estimator : Estimator
    X : array_like, sparse matrix, frame or None
        None: the rows that were kept of the fit.
    owner : str
        For the message.

    Raises
    ------
    DataError
        There is no X, and no rows were kept.
    """
    if X is not None:
        return estimator._validate(X, reset=False), _labels(estimator, X, owner)
    kept = estimator._kept_rows()
    if kept is None:
        raise DataError(
            f"{owner}: the {type(estimator).__name__} has kept no rows of its fit: write"
            f" {owner}.from_estimator(estimator, X)"
        )
    return kept


def _labels(estimator, X, owner):
    """Return the clusters of rows; those of rows in groups are the labels of the fit."""
    if estimator.saved_kind != "grouped_mixture":
        return estimator.predict(X)
    labels, n_rows = estimator.__dict__.get("labels_"), X.shape[0] if hasattr(X, "shape") else len(X)
    if labels is None or len(labels) != n_rows:
        raise DataError(
            f"{owner}: rows of new groups need their groups to be predicted: write {owner}(values,"
            " mixture.predict(X, groups=groups))"
        )
    return labels


def _column(X, column, names=()):
    """Return a column of an array by number, or of a frame by name."""
    if isinstance(column, str) and not hasattr(X, "columns") and column in names:
        column = list(names).index(column)
    if hasattr(X, "columns"):
        name = X.columns[column] if isinstance(column, (int, np.integer)) and column not in X.columns else column
        if name not in X.columns:
            raise DataError(f"the frame has no column {column!r}; it has {list(X.columns)}")
        return np.asarray(X[name], dtype=np.float64)
    values = np.asarray(X[:, [int(column)]].todense() if hasattr(X, "todense") else np.asarray(X)[:, [int(column)]])
    return values.ravel().astype(np.float64)


def _components(coordinates):
    """Return the first two principal components of rows: (N, 2); a missing one is zero."""
    from scipy import sparse
    from sklearn.decomposition import PCA

    is_sparse = sparse.issparse(coordinates)
    rows = coordinates if is_sparse else np.asarray(coordinates, dtype=np.float64)
    n_found = min(2, *rows.shape)
    solver = "arpack" if is_sparse and n_found < min(rows.shape) else "auto"
    rows = rows.toarray() if is_sparse and solver == "auto" else rows
    found = PCA(n_found, svd_solver=solver, random_state=0).fit_transform(rows)
    return np.column_stack([found, np.zeros((len(found), 2 - n_found))])
