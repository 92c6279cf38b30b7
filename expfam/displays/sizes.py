"""Figure of the sizes of clusters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from expfam.amounts import counted
from expfam.displays._axes import _GREY, _INK, _amount, _clean, _pyplot

if TYPE_CHECKING:
    import numpy.typing as npt


class SizesDisplay:
    """Sizes of the clusters, largest first.

    Parameters
    ----------
    sizes : (K,) array_like of int or float
        Numbers of rows, or sums of their weights.

    Attributes
    ----------
    figure_, ax_ : matplotlib Figure and Axes

    Examples
    --------
    >>> from expfam.displays.sizes import SizesDisplay
    >>> SizesDisplay([5, 40, 12]).plot().ax_.get_title(loc="left")
    '57 data in 3 clusters'
    """

    def __init__(self, sizes: npt.ArrayLike) -> None:
        self.sizes = np.asarray(sizes)

    @classmethod
    def from_estimator(cls, estimator: Any) -> SizesDisplay:
        """Make the display of a fitted estimator's `cluster_sizes_`."""
        return cls(estimator.cluster_sizes_)

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
        ax.set_xlabel("cluster, largest first")
        ax.set_ylabel("data")
        ax.set_title(
            f"{_amount(sizes.sum(), 'datum', 'data')} in {counted(len(sizes), 'cluster')}",
            loc="left",
            fontsize="medium",
            color=_GREY,
        )
        _clean(ax, grid="y")
        self.ax_, self.figure_ = ax, ax.figure
        return self
