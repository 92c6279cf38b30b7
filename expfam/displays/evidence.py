"""Figure of how much each column tells clusters apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from expfam.amounts import counted
from expfam.displays._axes import _clean, _pyplot
from expfam.errors import DataError

if TYPE_CHECKING:
    import numpy.typing as npt

_MOST_LABELLED = 400  # cells with a number


class ColumnEvidenceDisplay:
    """Log Bayes factors of clusters by columns, as `Mixture.explain` returns them.

    Parameters
    ----------
    evidence : (K, V) array_like
        Nats.
    sizes : (K,) array_like
        Number of rows of each cluster.
    feature_names : (V,) sequence of str, optional
        Numbers of the columns if not given.

    Attributes
    ----------
    figure_, ax_ : matplotlib Figure and Axes

    Examples
    --------
    >>> from expfam.displays.evidence import ColumnEvidenceDisplay
    >>> ColumnEvidenceDisplay([[20.0, -2.0]], [30], feature_names=["age", "job"]).plot().ax_.get_title(loc="left")
    'How much each column tells a cluster apart, nats'
    """

    def __init__(
        self, evidence: npt.ArrayLike, sizes: npt.ArrayLike, *, feature_names: Sequence[str] | None = None
    ) -> None:
        self.evidence, self.sizes = np.asarray(evidence, dtype=np.float64), np.asarray(sizes)
        K, V = self.evidence.shape
        self.feature_names = [str(j) for j in range(V)] if feature_names is None else list(feature_names)
        if self.sizes.shape != (K,) or len(self.feature_names) != V:
            raise DataError(
                f"evidence of {counted(K, 'cluster')} and {counted(V, 'column')} needs {counted(K, 'size')} and {V} "
                "feature_names"
            )

    @classmethod
    def from_estimator(cls, estimator: Any) -> ColumnEvidenceDisplay:
        """Make the display of a fitted `Mixture`."""
        names, evidence = estimator.column_evidence()
        return cls(evidence, estimator.cluster_sizes_, feature_names=names)

    def plot(self, ax: Any = None) -> ColumnEvidenceDisplay:
        """Draw one square for each cluster and column.

        Parameters
        ----------
        ax : matplotlib Axes, optional
        """
        K, V = self.evidence.shape
        if ax is None:
            _, ax = _pyplot().subplots(
                figsize=(min(14, max(5.0, 2.6 + 0.7 * V)), max(2.6, 1.4 + 0.34 * K)), layout="constrained"
            )
        values = np.sign(self.evidence) * np.sqrt(np.abs(self.evidence))  # else one strong column hides the others
        most = float(np.nanmax(np.abs(values), initial=1.0))
        ax.imshow(values, cmap="RdBu_r", vmin=-most, vmax=most, aspect="auto", interpolation="nearest")
        ax.set_xticks(range(V), self.feature_names, rotation=40, ha="right", fontsize="small")
        ax.set_yticks(
            range(K),
            [f"{k}  ({counted(size, 'row', spec='.0f')})" for k, size in enumerate(self.sizes)],
            fontsize="small",
        )
        ax.set_xlabel("column")
        ax.set_ylabel("cluster, and its rows")
        if K * V <= _MOST_LABELLED:
            for (k, j), value in np.ndenumerate(self.evidence):
                colour = "white" if abs(values[k, j]) > 0.6 * most else "black"
                text = f"{round(value):d}" if np.isfinite(value) else ""
                ax.text(j, k, text, ha="center", va="center", fontsize="small", color=colour)
        ax.set_title("How much each column tells a cluster apart, nats", loc="left", fontsize="medium")
        _clean(ax, grid=None)
        self.ax_, self.figure_ = ax, ax.figure
        return self
