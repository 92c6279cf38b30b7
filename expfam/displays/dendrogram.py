"""Picture of merges: those of a Bayesian hierarchy, coloured by odds, or of a mixture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from expfam.amounts import counted
from expfam.displays._axes import _GREY, _INK, _amount, _clean, _pyplot
from expfam.displays.linkage import LinkageTree

if TYPE_CHECKING:
    import numpy.typing as npt

    from expfam.samplers.hierarchy.tree import HierarchyTree

_MANY = 40  # tips whose names are not written


class DendrogramDisplay:
    """The highest merges of a hierarchy, coloured by their odds, or of a mixture's clusters.

    Parameters
    ----------
    tree : HierarchyTree or LinkageTree
        A hierarchy may be a forest. The merges of a linkage have one colour.
    names : sequence of str, optional
        Names of the leaves; by default their numbers.
    labels : (N,) array_like of int, optional
        Cluster of each leaf, for the number of clusters in the title; by default a hierarchy is cut by its odds, and
        each leaf of a linkage is a cluster.
    noun, unit : str, optional
        What the title counts: clusters of rows, or topics of tokens.

    Attributes
    ----------
    figure_, ax_ : matplotlib Figure and Axes

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from expfam import BayesianHierarchy
    >>> from expfam.displays.dendrogram import DendrogramDisplay
    >>> hierarchy = BayesianHierarchy("gaussian").fit(load_iris().data)
    >>> DendrogramDisplay.from_estimator(hierarchy).plot().ax_.get_title(loc="left")
    '150 rows in 2 clusters'
    """

    def __init__(
        self,
        tree: HierarchyTree | LinkageTree,
        *,
        names: Sequence[Any] | npt.NDArray[Any] | None = None,
        labels: npt.ArrayLike | None = None,
        noun: str = "cluster",
        unit: str = "row",
    ) -> None:
        self.tree, self.noun, self.unit = tree, noun, unit
        self.names = None if names is None else [str(name) for name in names]
        if self.names is not None and len(self.names) != tree.n_leaves:
            raise ValueError(
                f"there are {counted(len(self.names), 'name')} for {counted(tree.n_leaves, 'leaf', 'leaves')}: give "
                "one name for each leaf"
            )
        self.labels = _own_labels(tree) if labels is None else np.asarray(labels)
        if self.labels.shape != (tree.n_leaves,):
            raise ValueError(f"labels must have shape ({tree.n_leaves},); got {self.labels.shape}")

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, names: Sequence[Any] | npt.NDArray[Any] | None = None
    ) -> DendrogramDisplay:
        """Make the display of a hierarchy's `tree_` and `labels_`, or of `coarsening_`.

        Parameters
        ----------
        estimator : BayesianHierarchy, Mixture, GroupedMixture or TopicModel
            Fitted.
        names : sequence of str, optional
            Of a mixture names of the clusters. Of a hierarchy names of the rows, or of the leaves; by default the names
            that the rows of the fit had. Names of the rows of one leaf are joined by "+", at most three of them.

        Returns
        -------
        DendrogramDisplay
        """
        if hasattr(type(estimator), "coarsening_"):
            counted_as = {"noun": estimator.of_clusters, "unit": estimator.of_sizes}
            return cls(LinkageTree(estimator.coarsening_, estimator.cluster_sizes_), names=names, **counted_as)
        labels = np.empty(estimator.tree_.n_leaves, dtype=np.int64)
        labels[estimator.leaf_] = estimator._labels
        return cls(estimator.tree_, names=estimator._leaf_names(names, is_short=True), labels=labels)

    def plot(
        self, ax: Any = None, *, n_tips: int = 30, height: Literal["odds", "loss", "rank"] | None = None
    ) -> DendrogramDisplay:
        """Draw the merges above the `n_tips` highest nodes.

        Parameters
        ----------
        ax : matplotlib Axes, optional
        n_tips : int
            Largest number of nodes that are drawn without their children. A node that is no leaf is marked with the
            number of its rows in parentheses.
        height : {"odds", "loss", "rank"}, optional
            ``"odds"``, the default of a hierarchy, is -log r, where r is the posterior probability that the data of the
            merge are one cluster, and the alternative is any cut of its two sides. A merge is drawn at least as high as
            the merges below it. ``"loss"``, the default of a linkage, is its own height; that of a mixture is the fall
            of the log joint after all merges so far, nats. ``"rank"`` is the number of the merge among the drawn ones,
            from the lowest on.

        Returns
        -------
        self
        """
        own: Literal["odds", "loss"] = "loss" if isinstance(self.tree, LinkageTree) else "odds"
        height = height or own
        if height not in (own, "rank"):
            raise ValueError(f"height must be {own!r} or 'rank'; got {height!r}")
        if n_tips != int(n_tips) or n_tips < 1:
            raise ValueError(f"n_tips must be a positive integer; got {n_tips!r}")
        tips, merges = self._top(int(n_tips))
        y = self._heights(merges, height)
        x = {node: float(place) for place, node in enumerate(tips)}
        segments, order = [], sorted(merges)
        ground = -0.4 if height == "odds" else 0.0  # a certain merge has height 0, so the tips start below
        for node in order:
            i, j = self.tree.children[node - self.tree.n_leaves].tolist()
            top = y[node]
            segments.append([(x[i], y.get(i, ground)), (x[i], top), (x[j], top), (x[j], y.get(j, ground))])
            x[node] = (x[i] + x[j]) / 2
        rows = np.array(order, dtype=np.int64) - self.tree.n_leaves
        odds = None if isinstance(self.tree, LinkageTree) else self.tree.log_odds[rows]
        self._draw(ax, segments, odds, tips, height)
        return self

    def _top(self, n_tips):
        """Return the tips from left to right, and the merges above them.

        The merges are the highest ones that give at most `n_tips` tips.
        """
        tree = self.tree
        merges, frontier = set(), [int(root) for root in tree.roots]
        while len(frontier) < n_tips and max(frontier) >= tree.n_leaves:
            node = max(frontier)  # the latest merge
            frontier.remove(node)
            merges.add(node)
            frontier += tree.children[node - tree.n_leaves].tolist()
        tips, pending = [], [int(root) for root in tree.roots]
        while pending:
            node = pending.pop()
            if node in merges:
                sides = tree.children[node - tree.n_leaves].tolist()
                pending += sorted(sides, key=lambda side: tree.counts[side])
            else:
                tips.append(node)
        return tips, merges

    def _heights(self, merges, height):
        tree, y = self.tree, {}
        for rank, node in enumerate(sorted(merges), start=1):
            own = rank
            if height == "odds":
                own = np.logaddexp(0.0, -tree.log_odds[node - tree.n_leaves])
            elif height == "loss":
                own = tree.heights[node - tree.n_leaves]
            below = [y[side] for side in tree.children[node - tree.n_leaves].tolist() if side in y]
            y[node] = float(max([own, *below]))
        return y

    def _draw(self, ax, segments, odds, tips, height):
        from matplotlib.collections import LineCollection

        if ax is None:
            _, ax = _pyplot().subplots(figsize=(7.2, 3.8), layout="constrained")
        # lines with a colour of their own do not take those of the odds
        lines = LineCollection(segments, colors=_INK if odds is None else None, lw=1.6)
        ax.add_collection(lines)
        ax.set_xlim(-0.7, len(tips) - 0.3)
        if height == "odds":
            ax.set_yscale("symlog", linthresh=1.0)
        ax.set_ylabel(
            {
                "odds": "\N{MINUS SIGN}log probability of one cluster (nats)",
                "loss": "fall of the log joint (nats)",
                "rank": "merge",
            }[height]
        )
        tops = [points[1][1] for points in segments] or [1.0]
        limits = (-0.4, 1.6 * max([1.0, *tops])) if height == "odds" else (0.0, 1.05 * max(tops) or 1.0)
        ax.set_ylim(*limits)
        ax.set_yticks([tick for tick in ax.get_yticks() if tick >= 0])
        ax.set_ylim(*limits)
        self._name_tips(ax, tips)
        if odds is not None:
            _colour_by_odds(lines, odds, ax)
        n, n_leaves = self.tree.counts[self.tree.roots].sum(), self.tree.n_leaves
        n_clusters = len(np.unique(self.labels))
        leaves = "" if n_leaves in (n, n_clusters) else f"{counted(n_leaves, 'leaf', 'leaves', spec=',')}, "
        title = f"{leaves}{_amount(n, self.unit)} in {counted(n_clusters, self.noun)}"
        ax.set_title(title, loc="left", fontsize="medium", color=_GREY)
        _clean(ax, grid=None)
        ax.spines["bottom"].set_visible(False)
        self.ax_, self.figure_ = ax, ax.figure

    def _name_tips(self, ax, tips):
        names = [self._name(tip) for tip in tips]
        if len(tips) > _MANY and self.names is None:
            ax.set_xticks([])
            return
        turned = 90 if max(map(len, names)) > 2 and len(tips) > 12 else 0
        ax.set_xticks(range(len(tips)), names, rotation=turned, fontsize="small")
        ax.tick_params(axis="x", length=0)
        ax.set_xlabel(self._about_tips(tips))

    def _about_tips(self, tips):
        """Return in words what the names below the tips are."""
        tree = self.tree
        own = self.unit if tree.n_leaves == tree.counts[tree.roots].sum() else "leaf"
        leaf = self.noun if isinstance(tree, LinkageTree) else own
        return f"{leaf}, or (number of {self.unit}s)" if max(tips) >= tree.n_leaves else leaf

    def _name(self, tip):
        if tip < self.tree.n_leaves:
            return str(tip) if self.names is None else self.names[tip]
        return f"({_amount(self.tree.counts[tip])})"


def _own_labels(tree):
    return np.arange(tree.n_leaves) if isinstance(tree, LinkageTree) else tree.cut("odds")


def _colour_by_odds(lines, odds, ax):
    from matplotlib.colors import LinearSegmentedColormap, TwoSlopeNorm

    # 9.2 nats are odds of 10,000 to 1: beyond them the colour stays the same
    lines.set_cmap(LinearSegmentedColormap.from_list("odds", ["#c8553d", "#e9c9c1", "#b7cfe2", "#1f5a85"]))
    lines.set_array(np.clip(odds, -9.2, 9.2))
    lines.set_norm(TwoSlopeNorm(0.0, -9.2, 9.2))
    bar = ax.figure.colorbar(lines, ax=ax, pad=0.01, aspect=30, ticks=[-9.2, -4.6, 0.0, 4.6, 9.2])
    bar.ax.set_yticklabels(["1 : 10,000", "1 : 100", "even", "100 : 1", "10,000 : 1"], color=_GREY, fontsize="small")
    bar.outline.set_visible(False)
    bar.set_label("odds of one cluster", color=_GREY)
