"""Figure of pairs of columns: the rows in the plane of each two, coloured by cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from expfam.amounts import counted
from expfam.displays._axes import _GREY, _amount, _clean, _pyplot
from expfam.displays.scatter import COLOURS, OTHERS, labelled_rows
from expfam.errors import CapabilityError, DataError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

_MOST_POINTS = 5000  # in each of many small pictures
_BINS = 24
_JITTER = 0.3  # of the step between whole numbers, where a column has few of them
_FEW_VALUES = 12


class PairsDisplay:
    """Rows in the plane of each two columns, and histograms of columns, coloured by cluster.

    Parameters
    ----------
    values : (N, C) array_like of float
        Columns to show; NaN is a missing cell.
    labels : (N,) array_like of int
        Cluster of each row, from 0 on; -1 for none.
    names : (C,) sequence of str
    levels : dict of str to sequence of str, optional
        Levels of the columns that hold numbers of levels, by the name of the column.

    Attributes
    ----------
    figure_, axes_ : matplotlib Figure and (C, C) ndarray of Axes

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import Mixture
    >>> from expfam.displays import PairsDisplay
    >>> X = np.random.default_rng(0).normal(size=(60, 6)) + 9.0 * np.repeat(np.eye(2, 6), 30, axis=0)
    >>> mixture = Mixture("gaussian_diag", 2, random_state=0).fit(X)
    >>> PairsDisplay.from_estimator(mixture, n_max=2).names
    ('0', '1')
    """

    def __init__(
        self,
        values: npt.ArrayLike,
        labels: npt.ArrayLike,
        names: Sequence[str],
        *,
        levels: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        self.values, self.labels = np.asarray(values, dtype=np.float64), np.asarray(labels)
        self.names, self.levels = tuple(map(str, names)), dict(levels or {})
        if self.values.ndim != 2 or self.values.shape != (self.labels.size, len(self.names)):
            raise DataError(
                f"pairs of columns need values (N, C), labels (N,) and C names; got {self.values.shape},"
                f" {self.labels.shape} and {counted(len(self.names), 'name')}: write"
                " PairsDisplay.from_estimator(mixture, X)"
            )

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any = None, *, columns: Sequence[int | str] | None = None, n_max: int = 4
    ) -> PairsDisplay:
        """Make the display of the columns that tell the clusters apart most.

        Parameters
        ----------
        estimator : Mixture, GroupedMixture or BayesianHierarchy
        X : (N, V) array_like, sparse matrix or frame, optional
            Rows as in `fit`; by default those that the estimator has kept of its fit, at most 5,000.
        columns : sequence of int or str, optional
            Numbers or names of the columns, in place of the most telling ones.
        n_max : int
            Largest number of columns.

        Returns
        -------
        PairsDisplay

        Raises
        ------
        DataError
            The estimator has kept no rows, or has no such column.
        """
        rows, labels = labelled_rows(estimator, X, owner=cls.__name__)
        names = list(map(str, estimator._form().columns))
        if len(names) != rows.shape[1]:
            names = [str(column) for column in range(rows.shape[1])]
        if columns is None:
            places = np.sort(_most_telling(estimator, rows.shape[1])[:n_max])
        else:
            places = np.array([_place(column, names) for column in columns], dtype=np.intp)
        values = rows[:, places]
        values = values.toarray() if hasattr(values, "toarray") else np.asarray(values, dtype=np.float64)
        roles = getattr(estimator.family_, "roles", None) or ()
        levels = {role["column"]: [*map(str, role["levels"])] for role in roles if role.get("levels")}
        return cls(values, labels, [names[place] for place in places], levels=levels)

    def plot(self) -> PairsDisplay:
        """Draw the pairs; the ten largest clusters have a colour each; return self."""
        C, plt = len(self.names), _pyplot()
        size = 1.9 * C + 1.4
        self.figure_, axes = plt.subplots(C, C, figsize=(size, 1.9 * C + 0.5), layout="constrained", squeeze=False)
        colours = plt.get_cmap("tab10")
        clusters, sizes = np.unique(self.labels[self.labels >= 0], return_counts=True)
        largest = np.sort(np.argsort(-sizes, kind="stable")[:COLOURS])
        shades = {int(clusters[place]): colours(at) for at, place in enumerate(largest)}
        step = -(-len(self.labels) // _MOST_POINTS)
        shown = _spread(self.values[::step])
        colour_of_row = [shades.get(int(k), OTHERS) for k in self.labels[::step]]
        for row in range(C):
            for column in range(C):
                ax = axes[row, column]
                if row == column:
                    self._histogram(ax, column, shades)
                else:
                    ax.scatter(shown[:, column], shown[:, row], s=5, c=colour_of_row, lw=0, rasterized=True)
                _clean(ax, grid=None)
                self._name_levels(ax, row, column)
                ax.tick_params(labelsize="x-small", labelbottom=row == C - 1, labelleft=column == 0 and row > 0)
            axes[-1, row].set_xlabel(self.names[row], fontsize="small")
            axes[row, 0].set_ylabel(self.names[row], fontsize="small")
        handles = [
            plt.Line2D([], [], marker="o", ls="", ms=5, color=shades[int(clusters[place])], label=label)
            for place in largest
            for label in [f"{clusters[place]}  ·  {_amount(sizes[place])}"]
        ]
        self.figure_.legend(
            handles=handles, title="cluster  ·  rows", frameon=False, fontsize="small", loc="outside right upper"
        )
        title = f"{counted(len(self.labels), 'row', spec=',')} in {counted(len(clusters), 'cluster')}"
        self.figure_.suptitle(title, x=0.02, ha="left", fontsize="medium", color=_GREY)
        self.axes_ = axes
        return self

    def _name_levels(self, ax, row, column):
        """Write the levels of a column at its axis, if they are few."""
        for name, set_ticks in ((self.names[column], ax.set_xticks), (self.names[row], ax.set_yticks)):
            levels = self.levels.get(name, ())
            if 0 < len(levels) <= _FEW_VALUES and not (row == column and set_ticks == ax.set_yticks):
                set_ticks(range(len(levels)), [str(level)[:10] for level in levels])

    def _histogram(self, ax, column, shades):
        """Draw how the cells of a column are spread in each cluster."""
        cells = self.values[:, column]
        seen = cells[np.isfinite(cells)]
        if not seen.size:
            return
        distinct = np.unique(seen)
        steps = np.diff(distinct)
        few = 1 < distinct.size <= _FEW_VALUES
        bins = np.append(distinct - steps.min() / 2, distinct[-1] + steps.min() / 2) if few else _BINS
        edges = np.histogram_bin_edges(seen, bins=bins)
        for k, colour in shades.items():
            ax.hist(cells[(self.labels == k) & np.isfinite(cells)], bins=edges, color=colour, alpha=0.6)
        ax.set_yticks([])


def _most_telling(estimator, n_columns):
    """Return the numbers of the columns, the one with most evidence first."""
    try:
        evidence = np.asarray(estimator.column_evidence()[1])
    except CapabilityError:
        return np.arange(n_columns)
    most = np.nan_to_num(evidence, nan=-np.inf).max(axis=0)
    return np.argsort(-most, kind="stable") if len(most) == n_columns else np.arange(n_columns)


def _place(column, names):
    """Return the number of a column that was given as number or name."""
    if isinstance(column, str) and column in names:
        return names.index(column)
    if isinstance(column, (int, np.integer)) and 0 <= column < len(names):
        return int(column)
    raise DataError(f"there is no column {column!r}; there are {names[:20]}")


def _spread(values):
    """Return cells with some noise where whole numbers would hide each other."""
    shown, rng = values.copy(), np.random.default_rng(0)
    for column in range(values.shape[1]):
        distinct = np.unique(values[np.isfinite(values[:, column]), column])
        if 1 < distinct.size <= _FEW_VALUES and (distinct == np.floor(distinct)).all():
            shown[:, column] += rng.uniform(-_JITTER, _JITTER, len(values)) * np.diff(distinct).min()
    return shown
