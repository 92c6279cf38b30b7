"""Figures of the means of clusters: images, points or bars."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy import sparse

from expfam.amounts import counted
from expfam.displays._axes import _GREY, _PALE, _amount, _blank_axes, _clean, _pyplot
from expfam.errors import CapabilityError, DataError

if TYPE_CHECKING:
    import numpy.typing as npt

_MAX_POINTS = 20_000  # dots in a scatter plot; more only hide each other


class ClusterMeansDisplay:
    """The largest clusters as images, words, a heat map, or ellipses in the plane.

    Parameters
    ----------
    means : (K, V) array_like
        Location of each cluster, in the data's coordinates.
    sizes : (K,) array_like
        Number of data, or sum of weights, of each cluster.
    names : (K,) sequence, optional
        Number or name of each cluster; counted from 0 if not given.
    feature_names : (V,) sequence of str, optional
    background : (V,) array_like, optional
        Location of all data as one cluster: words are ranked by how much more probable they are in a cluster.
    covariances : (K, V, V) array_like, optional
        Covariances that the ellipses show.
    points, point_labels : (N, V) and (N,) array_like, optional
        Data to draw below the ellipses, and their clusters.
    are_words : bool
        Whether the columns are words of texts, which are drawn as words however few they are.

    Attributes
    ----------
    figure_, ax_ : matplotlib Figure and Axes

    Examples
    --------
    >>> import numpy as np
    >>> from expfam.displays.means import ClusterMeansDisplay
    >>> display = ClusterMeansDisplay(np.eye(64)[:4], sizes=[4, 3, 2, 1])
    >>> display.plot().kind_
    'image'
    """

    def __init__(
        self,
        means: npt.ArrayLike,
        sizes: npt.ArrayLike,
        *,
        names: Sequence[Any] | None = None,
        feature_names: npt.ArrayLike | None = None,
        background: npt.ArrayLike | None = None,
        covariances: npt.ArrayLike | None = None,
        points: npt.NDArray[Any] | None = None,
        point_labels: npt.ArrayLike | None = None,
        are_words: bool = False,
    ) -> None:
        self.means, self.sizes = np.asarray(means, dtype=np.float64), np.asarray(sizes)
        K, V = self.means.shape
        self.names = list(range(K)) if names is None else list(names)
        self.feature_names = None if feature_names is None else np.asarray(feature_names)
        if self.sizes.shape != (K,) or len(self.names) != K:
            raise DataError(
                f"{counted(K, 'mean needs', 'means need')} as many sizes and names; got {self.sizes.shape} and "
                f"{len(self.names)}"
            )
        if self.feature_names is not None and self.feature_names.shape != (V,):
            raise DataError(
                f"{counted(V, 'column needs', 'columns need')} as many feature_names; got shape "
                f"{self.feature_names.shape}"
            )
        self.background, self.covariances = background, covariances
        self.points, self.point_labels = points, point_labels
        self.are_words = bool(are_words)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: npt.ArrayLike | None = None,
        *,
        feature_names: npt.ArrayLike | None = None,
        n_max: int = 20,
        clusters: Sequence[int] | None = None,
    ) -> ClusterMeansDisplay:
        """Make the display of a fitted estimator's largest clusters at their posterior means.

        Parameters
        ----------
        estimator : Mixture, GroupedMixture, TopicModel or BayesianHierarchy
            Clusters of texts, and topics, are drawn as words.
        X : (N, V) array_like, optional
            Rows to draw below the ellipses, if there are two columns; by default those that were kept of the fit.
        feature_names : (V,) sequence of str, optional
            By default the estimator's `feature_names_in_`, if it has them.
        n_max : int
            Largest number of clusters to show.
        clusters : sequence of int, optional
            Numbers of the clusters to show, in place of the largest.

        Returns
        -------
        ClusterMeansDisplay

        Raises
        ------
        CapabilityError
            The family has no `map_natural` or no `to_params`, or its means are no picture: those of tables and of
            embeddings.
        """
        family = estimator.family_
        if family.name == "columns":
            raise CapabilityError(
                f"{cls.__name__} draws columns of one family; the clusters of a table are in `clusters_`, and"
                " ColumnEvidenceDisplay draws what tells them apart"
            )
        if family.name == "von_mises_fisher":
            raise CapabilityError(
                f"{cls.__name__}: columns of embeddings have no meaning of their own: write"
                " ScatterDisplay.from_estimator(mixture, X), which draws the rows in the plane"
            )
        family.require("map", cls.__name__)
        if not hasattr(family, "to_params"):
            raise CapabilityError(f"{cls.__name__} needs to_params(), which family {family.name!r} does not implement")
        fitted = estimator._clusters()
        n, S = np.asarray(fitted.n, dtype=np.float64), fitted.S
        largest = np.argsort(-n, kind="stable")[:n_max]
        top = largest if clusters is None else np.asarray(clusters, dtype=np.intp)
        params = family.to_params(*family.map_natural(n[top], _rows(S, top)))
        everything = np.asarray(S.sum(axis=0), dtype=np.float64).reshape(1, -1)
        background = family.to_params(*family.map_natural(np.array([n.sum()]), everything))
        location = next(iter(params))
        means = np.asarray(params[location])
        points, labels = None, None
        if means.shape[1] == 2:
            points, labels = _points_of(estimator, X)
        return cls(
            means,
            estimator.cluster_sizes_[top],
            names=top.tolist(),
            feature_names=_names_of(estimator) if feature_names is None else feature_names,
            background=np.asarray(background[location])[0],
            covariances=_covariances(params, means.shape),
            points=points,
            point_labels=None if labels is None else _renamed(labels, top),
            are_words=_are_words(estimator),
        )

    def plot(
        self,
        ax: Any = None,
        *,
        kind: Literal["auto", "image", "words", "heat", "ellipses"] = "auto",
        image_shape: tuple[int, int] | None = None,
        n_words: int = 8,
    ) -> ClusterMeansDisplay:
        """Draw the clusters.

        Parameters
        ----------
        ax : matplotlib Axes, optional
        kind : {"auto", "image", "words", "heat", "ellipses"}
            ``"auto"`` draws ellipses for two columns. It draws images if `image_shape` is given, or if there are no
            names of columns and their number is a square of at least 64. It draws words for texts, topics, and more
            than 64 named columns of non-negative means, and otherwise a heat map.
        image_shape : (height, width), optional
        n_words : int
            Number of words for each cluster.

        Returns
        -------
        self
        """
        kinds: dict[str, Any] = {"image": self._image, "words": self._words, "heat": self._heat}
        kinds["ellipses"] = self._ellipses
        kind = self._automatic(image_shape) if kind == "auto" else kind
        if kind not in kinds:
            raise ValueError(f"kind must be 'auto' or one of {sorted(kinds)}; got {kind!r}")
        self.kind_ = kind
        options: dict[str, dict[str, Any]] = {"image": {"image_shape": image_shape}, "words": {"n_words": n_words}}
        self.ax_ = kinds[kind](ax, **options.get(kind, {}))
        self.figure_ = self.ax_.figure
        return self

    def top_words(self, n_words: int = 8) -> list[list[str]]:
        """Return words of each cluster, the most distinctive ones first.

        Parameters
        ----------
        n_words : int

        Returns
        -------
        list of K lists of str
            Columns whose mean is zero are left out.

        Notes
        -----
        Words are ranked by p log(p / background), which is the word's term of the Kullback-Leibler divergence.
        """
        if self.feature_names is None:
            raise DataError("words need feature_names: give the vocabulary")
        return [self.feature_names[self._top_columns(k, n_words)].tolist() for k in range(len(self.means))]

    def image_size(self) -> tuple[float, float]:
        """Return width and height in inches of a figure for the images of these clusters."""
        columns, rows = self._grid()
        return 0.95 * columns + 0.1, 1.22 * rows + 0.1

    def _grid(self):
        """Return columns and rows of the grid of images.

        The grid is a little wider than high, and as full as possible.
        """
        K = len(self.means)
        rows = -(-K // min(K, max(5, math.ceil(math.sqrt(1.6 * K)))))
        return -(-K // rows), rows

    def _automatic(self, image_shape):
        V = self.means.shape[1]
        if self.are_words and self.feature_names is not None:
            return "words"
        if V == 2:
            return "ellipses"
        if V > 64 and self.feature_names is None and image_shape is None and (self.means < 0).any():
            raise CapabilityError(
                f"{type(self).__name__}: {counted(V, 'column')} without names, with means of either sign, are hardly"
                " a picture: write ScatterDisplay.from_estimator(mixture, X), which draws the rows in the plane, or"
                " plot(kind='heat')"
            )
        if image_shape is not None or (self.feature_names is None and V >= 64 and math.isqrt(V) ** 2 == V):
            return "image"
        return "words" if self.feature_names is not None and V > 64 and (self.means >= 0).all() else "heat"

    def _title(self, k):
        return f"{self.names[k]}  ·  {_amount(self.sizes[k])}"

    def _image(self, ax, image_shape):
        """Draw one image with a tile for each cluster, each scaled to its own range."""
        K, V = self.means.shape
        h, w = (math.isqrt(V),) * 2 if image_shape is None else image_shape
        if h * w != V:
            raise DataError(
                f"{counted(V, 'column makes', 'columns make')} no image of shape {(h, w)}: give image_shape"
            )
        columns, rows = self._grid()
        gap_x, gap_y = max(1.0, 0.15 * w), max(1.5, 0.38 * h)
        ax = _blank_axes(ax, self.image_size())
        for k in range(K):
            tile = self.means[k].reshape(h, w)
            left, top = (k % columns) * (w + gap_x), (k // columns) * (h + gap_y)
            ax.imshow(tile, cmap="gray_r", extent=(left, left + w, top + h, top), interpolation="nearest")
            ax.text(left, top - 0.06 * h, self._title(k), fontsize="small", color=_GREY)
        ax.set_xlim(-0.5, columns * (w + gap_x) - gap_x + 0.5)
        ax.set_ylim(rows * (h + gap_y) - gap_y + 0.5, -gap_y)
        return ax

    def _words(self, ax, n_words):
        """Draw a list of words for each cluster, with bars for their probabilities or rates."""
        if self.feature_names is None:
            raise DataError("words need feature_names: give the vocabulary")
        K, V = self.means.shape
        n_words = min(n_words, V)
        columns = min(K, 5)
        rows = -(-K // columns)
        ax = _blank_axes(ax, (1.75 * columns, (0.19 * n_words + 0.45) * rows))
        line = 1.0 / (n_words + 2.2)
        for k in range(K):
            left, top = k % columns, k // columns
            ax.text(left, top + 0.6 * line, self._title(k), va="center", fontsize="small", color=_GREY, weight="bold")
            words = self._top_columns(k, n_words)
            values = self.means[k, words] / self.means[k, words].max(initial=0.0)
            middle = top + line * (1.7 + np.arange(len(words)))
            ax.barh(middle, 0.9 * values, left=left, height=0.84 * line, color=_PALE, lw=0)
            for y, word in zip(middle, self.feature_names[words]):
                ax.text(left + 0.02, y, str(word)[:20], va="center", fontsize="small", color="#1b2530")
        ax.set_xlim(-0.02, columns)
        ax.set_ylim(rows, 0)
        return ax

    def _top_columns(self, k, n_words):
        mean = self.means[k]
        background = self.means.mean(axis=0) if self.background is None else np.asarray(self.background)
        with np.errstate(divide="ignore", invalid="ignore"):
            gain = np.where(mean > 0, mean * np.log(mean / background), -np.inf)
        best = np.argsort(-gain, kind="stable")[:n_words]
        return best[mean[best] > 0]

    def _heat(self, ax):
        """Draw means by cluster and column, each column standardised over clusters."""
        K, V = self.means.shape
        if ax is None:
            size = (min(12, 3.0 + 0.32 * V), max(3.0, 1.2 + 0.26 * K))
            _, ax = _pyplot().subplots(figsize=size, layout="constrained")
        spread = self.means.std(axis=0)
        values = (self.means - self.means.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
        image = ax.imshow(values, cmap="RdBu_r", vmin=-2.5, vmax=2.5, aspect="auto", interpolation="nearest")
        ax.set_yticks(range(K), [self._title(k) for k in range(K)], fontsize="small")
        if self.feature_names is not None and V <= 64:
            ax.set_xticks(range(V), self.feature_names, rotation=60, ha="right", fontsize="small")
        else:
            ax.xaxis.get_major_locator().set_params(integer=True)
        ax.set_xlabel("column")
        ax.set_ylabel("cluster  ·  size")
        ax.figure.colorbar(image, ax=ax, label="standardised mean", extend="both")
        _clean(ax, grid=None)
        return ax

    def _ellipses(self, ax):
        """Draw means in the plane.

        If covariances are known, the ellipse of two standard deviations is drawn, too.
        """
        if self.means.shape[1] != 2:
            raise DataError(f"ellipses need two columns; the means have {self.means.shape[1]}: choose another kind")
        plt = _pyplot()
        from matplotlib.patches import Ellipse

        if ax is None:
            _, ax = plt.subplots(figsize=(5.6, 5.0), layout="constrained")
        colors = plt.get_cmap("tab20")(np.arange(len(self.means)) % 20)
        if self.points is not None:
            step = -(-len(self.points) // _MAX_POINTS)
            labels = np.asarray(self.point_labels)[::step]
            shades = np.where((labels >= 0)[:, None], colors[labels], (0.8, 0.8, 0.8, 1.0))
            ax.scatter(*self.points[::step].T, s=4, c=shades, alpha=0.6, lw=0, rasterized=True)
        for k, covariance in enumerate(() if self.covariances is None else self.covariances):
            values, vectors = np.linalg.eigh(covariance)
            angle = math.degrees(math.atan2(vectors[1, 1], vectors[0, 1]))
            width, height = 4.0 * np.sqrt(np.maximum(values[::-1], 0.0))
            ax.add_patch(
                Ellipse(self.means[k], width, height, angle=angle, fill=False, ec="#1b2530", lw=1.0, alpha=0.8)
            )
        ax.scatter(*self.means.T, s=28, c=colors, ec="#1b2530", lw=0.8, zorder=3)
        names = ("first column", "second column") if self.feature_names is None else self.feature_names
        ax.set_xlabel(names[0])
        ax.set_ylabel(names[1])
        ax.autoscale_view()
        _clean(ax, grid="both")
        return ax


def _names_of(estimator):
    """Return the names of the columns, if they have any."""
    if estimator.saved_kind == "topic_model":
        return estimator._names(estimator.n_features_in_)
    return getattr(estimator, "feature_names_in_", None)


def _are_words(estimator):
    """Return whether the columns are words of texts or of topics."""
    return estimator.saved_kind == "topic_model" or estimator.__dict__.get("documents_") is not None


def _points_of(estimator, X):
    """Return rows of two columns and their clusters, by default those kept of the fit."""
    if X is not None:
        return np.asarray(X), estimator.predict(X)
    kept = estimator._kept_rows()
    if kept is None:
        return None, None
    rows, labels = kept
    return (rows.toarray() if sparse.issparse(rows) else np.asarray(rows)), labels


def _rows(S, chosen):
    return S.tocsr()[chosen].toarray() if sparse.issparse(S) else np.asarray(S)[chosen]


def _covariances(params, shape):
    """Return (K, V, V) covariances of a Gaussian in the plane, None for other families."""
    K, V = shape
    if V != 2 or not {"covariance", "variance"} & set(params):
        return None
    if "covariance" in params:
        return np.asarray(params["covariance"])
    variance = np.asarray(params["variance"]).reshape(K, -1)
    return np.einsum("kv,vw->kvw", np.broadcast_to(variance, (K, V)), np.eye(V))


def _renamed(labels, top):
    """Return labels as positions in `top`, -1 for clusters that are not shown."""
    position = np.full(int(max(labels.max(), top.max())) + 1, -1)
    position[top] = np.arange(len(top))
    return position[labels]
