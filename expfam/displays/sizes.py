"""Figure of the sizes of clusters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from expfam.amounts import counted
from expfam.displays._axes import _GREY, _INK, _amount, _clean, _pyplot

if TYPE_CHECKING:
    import numpy.typing as npt


class SizesDisplay:
    """Sizes of the clusters or topics, largest first.

    Parameters
    ----------
    sizes : (K,) array_like of int or float
        Numbers of rows, or sums of their weights; of topics numbers of tokens.
    noun, unit : str, optional
        What is drawn, and what its sizes count.

    Attributes
    ----------
    figure_, ax_ : matplotlib Figure and Axes

    Examples
    --------
    >>> from expfam.displays.sizes import SizesDisplay
    >>> SizesDisplay([5, 40, 12]).plot().ax_.get_title(loc="left")
    '57 rows in 3 clusters'
    """

    def __init__(self, sizes: npt.ArrayLike, *, noun: str = "cluster", unit: str = "row") -> None:
        self.sizes, self.noun, self.unit = np.asarray(sizes), noun, unit

    @classmethod
    def from_estimator(cls, estimator: Any) -> SizesDisplay:
        """Make the display of a fitted estimator's `cluster_sizes_`."""
        return cls(estimator.cluster_sizes_, noun=estimator.of_clusters, unit=estimator.of_sizes)

    def plot(self, ax: Any = None) -> SizesDisplay:
        """Draw a bar for each cluster, the largest first; return self.

        The axis of sizes is logarithmic if the largest is 100 times the smallest or more.
        """
        if ax is None:
            _, ax = _pyplot().subplots(figsize=(6.4, 3.0), layout="constrained")
        sizes = np.sort(self.sizes)[::-1]
        rank = np.arange(1, len(sizes) + 1)
        if sizes[0] >= 100 * max(sizes[-1], 1):
            ax.set_yscale("log")
        if len(sizes) <= 60:
            ax.bar(rank, sizes, color=_INK, width=0.8)
        else:  # bars thinner than a pixel would be drawn unevenly
            ax.fill_between(rank, sizes, step="mid", color=_INK, lw=0)
        ax.set_xlim(0.4, len(sizes) + 0.6)
        ax.xaxis.get_major_locator().set_params(integer=True)
        ax.set_xlabel(f"{self.noun}, largest first")
        ax.set_ylabel(f"{self.unit}s")
        ax.set_title(
            f"{_amount(sizes.sum(), self.unit)} in {counted(len(sizes), self.noun)}",
            loc="left",
            fontsize="medium",
            color=_GREY,
        )
        _clean(ax, grid="y")
        self.ax_, self.figure_ = ax, ax.figure
        return self
