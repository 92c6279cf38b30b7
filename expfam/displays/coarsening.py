"""Figure of how well halves of the rows agree on each number of groups."""

from __future__ import annotations

from typing import Any

import numpy as np

from expfam.amounts import counted
from expfam.displays._axes import _GREY, _INK, _SECOND, _clean, _pyplot
from expfam.displays.dendrogram import DendrogramDisplay
from expfam.displays.linkage import LinkageTree

_COLOURS = {"cost": _INK, "words": _INK, "known": _SECOND}
_NAMES = {
    "cost": "merges of least cost",
    "words": "merges of like words",
    "known": "merges of what halves tell apart least",
}
_LINEAR = 40  # groups up to which the axis is linear


class CoarseningDisplay:
    """Score of each number of groups with the best ones marked, beside the tree.

    Parameters
    ----------
    curve : CoarseningCurve
        Such as `Mixture.coarsening_curve_`.
    noun : str
        What the curve counts: "cluster" or "topic".

    Attributes
    ----------
    figure_ : matplotlib Figure
    ax_, tree_ax_ : matplotlib Axes

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import Mixture
    >>> from expfam.displays.coarsening import CoarseningDisplay
    >>> X = np.random.default_rng(0).normal(size=(90, 2)) + 20 * np.repeat(np.eye(3, 2), 30, axis=0)
    >>> display = CoarseningDisplay.from_estimator(Mixture(random_state=0).fit(X)).plot()
    >>> display.ax_.get_title(loc="left")
    'halves of the data agree on 3 of 3 clusters'
    """

    def __init__(self, curve: Any, *, noun: str = "cluster") -> None:
        self.curve, self.noun = curve, noun

    @classmethod
    def from_estimator(cls, estimator: Any) -> CoarseningDisplay:
        """Make the display of the `coarsening_curve_` of a fitted mixture or topic model."""
        return cls(estimator.coarsening_curve_, noun=estimator.of_clusters)

    def plot(self, ax: Any = None, tree_ax: Any = None, *, n_tips: int = 30) -> CoarseningDisplay:
        """Draw the scores with their spread over halves, and the tree; return self.

        Parameters
        ----------
        ax, tree_ax : matplotlib Axes, optional
            Of the curve and of the tree; a new figure where neither is given, and no tree where `ax` alone is.
        n_tips : int
            Largest number of nodes of the tree that are drawn without their children.
        """
        if ax is None:
            _, (ax, tree_ax) = _pyplot().subplots(1, 2, figsize=(11.0, 3.8), layout="constrained")
        self._draw_curve(ax)
        self.ax_, self.figure_, self.tree_ax_ = ax, ax.figure, tree_ax
        if tree_ax is not None:
            self._draw_tree(tree_ax, n_tips)
        return self

    def _draw_curve(self, ax):
        curve, K = self.curve, len(self.curve.sizes)
        k = np.arange(1, K + 1)
        for name, score in curve.score.items():
            colour = _COLOURS.get(name, _GREY)
            told = np.divide(score, curve.agreement[name], out=np.zeros(K), where=curve.agreement[name] > 0)
            spread = told * curve.spread[name]
            ax.fill_between(k, score - spread, score + spread, color=colour, alpha=0.13, lw=0)
            ax.plot(
                k, score, color=colour, lw=1.6, label=_NAMES.get(name, name), marker="o" if K < _LINEAR else None, ms=3
            )
        (tree, n_groups, top), *others = curve.peaks(3)
        ax.plot([n_groups], [top], "o", ms=10, mfc="none", mew=2.0, color=_COLOURS.get(tree, _GREY))
        ax.annotate(f"{n_groups}", (n_groups, top), (0, 9), textcoords="offset points", ha="center", weight="bold")
        for name, number, score in others:
            ax.plot([number], [score], "o", ms=8, mfc="none", mew=1.0, color=_COLOURS.get(name, _GREY))
            ax.annotate(f"{number}", (number, score), (0, 8), textcoords="offset points", ha="center", color=_GREY)
        if K > _LINEAR:
            ax.set_xscale("log")
            ticks = [tick for tick in (1, 2, 3, 5, 10, 20, 30, 50, 100, 200, 300, 500, 1000) if tick <= K]
            ax.set_xticks(ticks, [str(tick) for tick in ticks])
            ax.minorticks_off()
        else:
            ax.xaxis.get_major_locator().set_params(integer=True)
        ax.set_ylim(0.0, 1.12)
        ax.set_xlabel("number of groups" if self.noun == "cluster" else f"number of {self.noun}s")
        ax.set_ylabel("score (agreement of halves)")
        ax.legend(frameon=False, fontsize="small", loc="lower right", labelcolor=_GREY)
        title = f"halves of the data agree on {n_groups} of {counted(K, self.noun)}"
        ax.set_title(title, loc="left", fontsize="medium", color=_GREY)
        _clean(ax, grid="y")

    def _draw_tree(self, ax, n_tips):
        curve, K = self.curve, len(self.curve.sizes)
        tree = LinkageTree(curve.trees[curve.tree], curve.sizes)
        n_drawn = min(K, max(n_tips, curve.n_clusters))
        unit = "token" if self.noun == "topic" else "row"
        DendrogramDisplay(tree, noun=self.noun, unit=unit).plot(ax, n_tips=n_drawn, height="rank")
        if K > 1:
            ax.axhline(n_drawn - curve.n_clusters + 0.5, color=_SECOND, lw=1.2, ls="--")
        ax.set_title(f"{_NAMES[curve.tree]}, cut into {curve.n_clusters}", loc="left", fontsize="medium", color=_GREY)
