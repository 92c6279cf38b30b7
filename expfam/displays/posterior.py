"""Figures and cards of a posterior of partitions."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from expfam.amounts import counted
from expfam.displays._axes import _CHAINS, _GREY, _INK, _PALE, _SECOND, _amount, _clean, _pyplot
from expfam.errors import DataError
from expfam.families.columns.family import Columns

_PARTS = ("upper bound", "point", "lower bound")
_LEAST_NAMED = 0.03  # share of the rows of a cluster whose number is written
_MOST_COLUMNS = 6  # columns of a parameter that a card shows


class ClusterCountDisplay:
    """Share of the draws with each number of clusters, by chain.

    Parameters
    ----------
    n_clusters : (M,) array_like of int
        Number of clusters of each draw.
    chain : (M,) array_like of int, optional
        Chain of each draw.
    n_point : int, optional
        Number of clusters of the point partition, which is marked.

    Attributes
    ----------
    values : (V,) int64 ndarray
        Numbers of clusters from the least to the largest.
    shares : (C, V) float64 ndarray
        Share of the draws of each chain.
    figure_, ax_ : matplotlib Figure and Axes

    Examples
    --------
    >>> from expfam.displays.posterior import ClusterCountDisplay
    >>> ClusterCountDisplay([3, 3, 5, 3]).shares
    array([[0.75, 0.  , 0.25]])
    """

    def __init__(
        self, n_clusters: npt.ArrayLike, *, chain: npt.ArrayLike | None = None, n_point: int | None = None
    ) -> None:
        K = np.asarray(n_clusters)
        chain = np.zeros(len(K), dtype=np.int64) if chain is None else np.asarray(chain)
        if K.ndim != 1 or not K.size or chain.shape != K.shape:
            raise DataError(f"numbers of clusters and chains of each draw are needed; got {K.shape} and {chain.shape}")
        self.values, self.n_point = np.arange(K.min(), K.max() + 1), n_point
        rows = [K[chain == one] - K.min() for one in np.unique(chain)]
        self.shares = np.array([np.bincount(row, minlength=len(self.values)) / len(row) for row in rows])

    @classmethod
    def from_posterior(cls, posterior: Any) -> ClusterCountDisplay:
        """Make the display of a `PartitionPosterior`."""
        return cls(posterior.n_clusters, chain=posterior.chain, n_point=int(posterior.point.max()) + 1)

    @classmethod
    def from_estimator(cls, estimator: Any) -> ClusterCountDisplay:
        """Make the display of the draws that a fitted estimator has kept, its `posterior_`."""
        return cls.from_posterior(estimator.posterior_)

    def plot(self, ax: Any = None) -> ClusterCountDisplay:
        """Draw a group of bars for each number of clusters, one bar a chain; return self."""
        if ax is None:
            _, ax = _pyplot().subplots(figsize=(5.2, 3.0), layout="constrained")
        C = len(self.shares)
        for c, shares in enumerate(self.shares):
            x = self.values + 0.8 * ((c + 0.5) / C - 0.5)
            ax.bar(x, shares, width=0.8 / C, color=_CHAINS[c % len(_CHAINS)], label=f"chain {c}")
        if C > 1:
            ax.legend(frameon=False, fontsize="small")
        if self.n_point is not None:
            ax.axvline(self.n_point, color="#1b2530", lw=1.4, ls="--")
        ax.xaxis.get_major_locator().set_params(integer=True)
        ax.set_xlabel("clusters")
        ax.set_ylabel("share of draws")
        point = "" if self.n_point is None else f"; dashed: {self.n_point} of the point partition"
        ax.set_title(f"number of clusters{point}", loc="left", fontsize="medium", color=_GREY)
        _clean(ax, grid="y")
        self.ax_, self.figure_ = ax, ax.figure
        return self


class SimilarityDisplay:
    """How often rows are together in the draws, for some rows ordered by cluster.

    Parameters
    ----------
    posterior : PartitionPosterior
    n_rows : int
        Largest number of rows. More are sampled evenly: each cluster keeps its share, and at least one row.

    Attributes
    ----------
    rows : (n,) intp ndarray
        Rows that are shown, in order: by cluster of the point partition, then the surest first.
    similarity : (n, n) float64 ndarray
        Share of the draws in which two rows are together.
    ends : (K,) int64 ndarray
        Number of the rows up to the end of each cluster.
    figure_, ax_ : matplotlib Figure and Axes

    Examples
    --------
    >>> from expfam.displays.posterior import SimilarityDisplay
    >>> from expfam.evaluation.posterior import PartitionPosterior
    >>> SimilarityDisplay(PartitionPosterior([[0, 1, 0], [0, 1, 1], [0, 1, 0]])).rows
    array([0, 2, 1])
    """

    def __init__(self, posterior: Any, n_rows: int = 400) -> None:
        if n_rows != int(n_rows) or n_rows < 1:
            raise ValueError(f"n_rows must be a positive integer; got {n_rows!r}")
        point = posterior.point
        order = np.lexsort([-posterior.certainty, point])
        if len(order) > n_rows:
            order = _evenly(order, point, int(n_rows))
        self.rows = order
        self.ends = np.cumsum(np.bincount(point[order]))
        draws = posterior.draws()[:, order]
        self.similarity = np.zeros((len(order), len(order)))
        for labels in draws:
            self.similarity += labels[:, None] == labels
        self.similarity /= len(draws)

    @classmethod
    def from_posterior(cls, posterior: Any, n_rows: int = 400) -> SimilarityDisplay:
        """Make the display of a `PartitionPosterior`.

        Parameters
        ----------
        posterior : PartitionPosterior
        n_rows : int
            Largest number of rows that are shown.
        """
        return cls(posterior, n_rows)

    @classmethod
    def from_estimator(cls, estimator: Any, n_rows: int = 400) -> SimilarityDisplay:
        """Make the display of the draws that a fitted estimator has kept, its `posterior_`.

        Parameters
        ----------
        estimator : Mixture
            Fitted, with kept draws: ``Mixture(n_draws=...)``.
        n_rows : int
            Largest number of rows that are shown.
        """
        return cls(estimator.posterior_, n_rows)

    def plot(self, ax: Any = None) -> SimilarityDisplay:
        """Draw the shares as a picture, with lines between the clusters; return self."""
        if ax is None:
            _, ax = _pyplot().subplots(figsize=(5.0, 4.4), layout="constrained")
        n = len(self.rows)
        image = ax.imshow(self.similarity, cmap="Blues", vmin=0, vmax=1, interpolation="nearest", extent=(0, n, n, 0))
        for end in self.ends[:-1]:
            ax.axhline(end, color=_SECOND, lw=0.7)
            ax.axvline(end, color=_SECOND, lw=0.7)
        middle = self.ends - np.diff(self.ends, prepend=0) / 2.0
        shown = np.flatnonzero(np.diff(self.ends, prepend=0) >= _LEAST_NAMED * n)
        ax.set_xticks(middle[shown], [str(k) for k in shown])
        ax.set_yticks(middle[shown], [str(k) for k in shown])
        ax.set_xlabel("cluster")
        ax.set_ylabel("cluster")
        ax.set_title(
            f"{counted(n, 'row')}: share of draws in which two are together",
            loc="left",
            fontsize="medium",
            color=_GREY,
        )
        ax.figure.colorbar(image, ax=ax, shrink=0.8)
        _clean(ax, grid=None)
        self.ax_, self.figure_ = ax, ax.figure
        return self


def _evenly(order, point, n):
    """Return some rows in their order: an even share of each cluster, at least one row."""
    chosen = []
    for k in range(int(point.max()) + 1):
        rows = order[point[order] == k]
        keep = max(1, round(n * len(rows) / len(order)))
        chosen.append(rows[np.linspace(0, len(rows) - 1, keep).astype(np.intp)])
    return np.concatenate(chosen)


class BallDisplay:
    """Sizes of the clusters of the point partition and of the bounds of its credible ball.

    Parameters
    ----------
    sizes : sequence of three (K,) array_like of int
        Of the upper bound, the point partition and the lower bound; largest first.
    radius : float
        Variation of information, nats.
    probability : float

    Attributes
    ----------
    sizes : list of three (K,) int64 ndarrays
    figure_, ax_ : matplotlib Figure and Axes

    Examples
    --------
    >>> from expfam.displays.posterior import BallDisplay
    >>> from expfam.evaluation.posterior import PartitionPosterior
    >>> posterior = PartitionPosterior([[0, 1, 0], [0, 1, 1], [0, 1, 0]])
    >>> [sizes.tolist() for sizes in BallDisplay.from_posterior(posterior).sizes]
    [[2, 1], [2, 1], [2, 1]]
    """

    def __init__(self, sizes: Sequence[npt.ArrayLike], *, radius: float, probability: float) -> None:
        if len(sizes) != 3:
            raise DataError(f"sizes of three partitions are needed; got {len(sizes)}")
        self.sizes = [np.sort(np.asarray(part, dtype=np.int64))[::-1] for part in sizes]
        self.radius, self.probability = float(radius), float(probability)

    @classmethod
    def from_posterior(cls, posterior: Any, probability: float = 0.9) -> BallDisplay:
        """Make the display of the credible ball of a `PartitionPosterior`.

        Parameters
        ----------
        posterior : PartitionPosterior
        probability : float in (0, 1]
            Probability of the ball.
        """
        ball = posterior.ball(probability)
        parts = [np.bincount(labels) for labels in (ball.upper, posterior.point, ball.lower)]
        return cls(parts, radius=ball.radius, probability=probability)

    @classmethod
    def from_estimator(cls, estimator: Any, probability: float = 0.9) -> BallDisplay:
        """Make the display of the draws that a fitted estimator has kept, its `posterior_`.

        Parameters
        ----------
        estimator : Mixture
            Fitted, with kept draws: ``Mixture(n_draws=...)``.
        probability : float in (0, 1]
            Probability of the ball.
        """
        return cls.from_posterior(estimator.posterior_, probability)

    def plot(self, ax: Any = None) -> BallDisplay:
        """Draw one bar for each partition, cut into its clusters; return self."""
        if ax is None:
            _, ax = _pyplot().subplots(figsize=(6.4, 2.4), layout="constrained")
        for y, sizes in enumerate(self.sizes):
            left = np.cumsum(sizes) - sizes
            colours = np.where(np.arange(len(sizes)) % 2, _PALE, _INK)
            ax.barh(np.full(len(sizes), y), sizes, left=left, color=colours, height=0.7, lw=0)
            for at, size in zip(left, sizes):
                if size > 0.05 * sizes.sum():
                    colour = "white" if colours[np.searchsorted(left, at)] == _INK else "#1b2530"
                    ax.text(at + size / 2, y, _amount(size), ha="center", va="center", fontsize="small", color=colour)
        names = [f"{name}: {len(sizes)}" for name, sizes in zip(_PARTS, self.sizes)]
        ax.set_yticks(range(3), names)
        ax.set_ylabel("partition: its clusters")
        ax.invert_yaxis()
        ax.set_xlim(0, self.sizes[0].sum())
        ax.set_xlabel("rows, by cluster")
        title = f"{self.probability:.0%} of the draws are within {self.radius:.3g} nats of the point partition"
        ax.set_title(title, loc="left", fontsize="medium", color=_GREY)
        _clean(ax, grid=None)
        self.ax_, self.figure_ = ax, ax.figure
        return self


class ClusterCards:
    """Cards about clusters: size, how sure they are, nearest other one, parameters.

    Parameters
    ----------
    mixture : Mixture
        Fitted, with kept draws.
    X : array_like, sparse matrix or frame, shape (N, V)
        The rows that were fitted.
    probability : float in (0, 1]
        Of the intervals.

    Attributes
    ----------
    cards : list of K dicts
        With "title" and "lines", a list of texts.
    intervals : dict of str to Interval
        Parameters of the clusters.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from expfam import Mixture
    >>> from expfam.displays.posterior import ClusterCards
    >>> X = load_iris().data
    >>> mixture = Mixture("gaussian", 3, n_draws=20, n_steps=20, random_state=0).fit(X)
    >>> ClusterCards(mixture, X).cards[0]["title"]
    'cluster 0: 50 rows'
    """

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, *, probability: float = 0.9) -> ClusterCards:
        """Make the cards of a fitted mixture that has kept draws, and of its rows.

        Parameters
        ----------
        estimator : Mixture
            Fitted, with kept draws: ``Mixture(n_draws=...)``.
        X : array_like, sparse matrix or frame, shape (N, V)
            The rows that were fitted.
        probability : float in (0, 1]
            Of the intervals.
        """
        return cls(estimator, X, probability=probability)

    def __init__(self, mixture: Any, X: Any, *, probability: float = 0.9) -> None:
        posterior = mixture.posterior_
        around, between = posterior.sizes_around(probability), posterior.between
        self.intervals = posterior.parameters(X, probability=probability)
        columns = getattr(mixture, "feature_names_in_", None)
        family = mixture.family_
        entries = family.entries_of_params() if isinstance(family, Columns) else {}
        sizes = np.bincount(posterior.point)
        self.cards: list[dict[str, Any]] = []
        for k, size in enumerate(sizes):
            lines = [
                f"{around.low[k]:.0f} to {counted(around.high[k], 'row is', 'rows are', spec='.0f')} with its rows, in "
                f"{probability:.0%} of draws",
                f"cohesion {between[k, k]:.2f}: how often two of its rows are together",
            ]
            if len(sizes) > 1:
                others = np.where(np.arange(len(sizes)) == k, -1.0, between[k])
                lines.append(f"nearest other cluster {others.argmax()}: together with it {others.max():.2f}")
            for name, interval in self.intervals.items():
                lines += _parameter_lines(name, interval, k, entries.get(name.rpartition(".")[0], columns))
            self.cards.append({"title": f"cluster {k}: {_amount(size, 'row')}", "lines": lines})

    def __repr__(self):
        return "\n\n".join("\n".join([card["title"], *(f"  {line}" for line in card["lines"])]) for card in self.cards)

    def _repr_html_(self) -> str:
        """Return the cards as HTML, which notebooks show."""
        style = "border:1px solid #c9dceb;border-radius:6px;padding:.5em .8em;margin:.3em;display:inline-block"
        cards = [
            f'<div style="{style};vertical-align:top"><b>{html.escape(card["title"])}</b><br>'
            + "<br>".join(html.escape(line) for line in card["lines"])
            + "</div>"
            for card in self.cards
        ]
        return "".join(cards)


def _parameter_lines(name, interval, k, columns):
    """Return lines of one parameter of a cluster; of a matrix those of its diagonal."""
    mean, low, high = (np.asarray(part[k]) for part in interval)
    if mean.ndim == 2:
        name, (mean, low, high) = f"{name} (diagonal)", (np.diag(part) for part in (mean, low, high))
    mean, low, high = (np.atleast_1d(part) for part in (mean, low, high))
    shown = np.sort(np.argsort(-np.abs(mean), kind="stable")[:_MOST_COLUMNS])
    more = f", {len(shown)} largest of {len(mean)}" if len(mean) > len(shown) else ""
    named = columns if columns is not None and len(columns) == len(mean) else [f"column {j}" for j in range(len(mean))]
    lines = [f"{name}{more}"]
    for j in shown:
        column = f"{named[j]}: " if len(mean) > 1 or named is columns else ""
        lines.append(f"  {column}{mean[j]:.3g}  ({low[j]:.3g} to {high[j]:.3g})")
    return lines
