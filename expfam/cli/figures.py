"""Figures that commands draw into files."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from expfam.cli.errors import UsageError
from expfam.cli.outputs import save_figure

if TYPE_CHECKING:
    from pathlib import Path

FIGURE_SUFFIXES = (".png", ".pdf", ".svg")


def require_matplotlib() -> None:
    """Refuse ``--figure`` before any work if matplotlib is not installed."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise UsageError("--figure: drawing needs matplotlib: pip install 'expfam[plot]'") from error


def figure_writer(estimator: Any, table: Any) -> Callable[[Path], None]:
    """Return the function that draws the clusters, or topics, to a path.

    Tables are drawn by how much each column tells the clusters apart, words and a few columns by the means of the
    clusters, and embeddings and other wide rows as points in the plane.
    """

    def draw(path: Path) -> None:
        from matplotlib.figure import Figure  # not pyplot: it opens windows and changes global settings

        display = _display(estimator, table.column_names)
        figure = Figure(figsize=_size(display, estimator), layout="constrained")
        display.plot(figure.subplots())
        save_figure(figure, path, dpi=150)

    return draw


def _display(estimator, names):
    """Return the display of a fitted model; the file may name its columns."""
    from expfam.displays.means import ClusterMeansDisplay
    from expfam.estimators.plotted import chosen_display

    family = estimator.family_
    if names is not None and family.name != "columns" and family.has_counts:
        return ClusterMeansDisplay.from_estimator(estimator, feature_names=names)
    display = chosen_display(estimator)
    if names is not None and isinstance(display, ClusterMeansDisplay):
        return ClusterMeansDisplay.from_estimator(estimator, feature_names=names)
    return display


def _size(display, estimator):
    """Return width and height in inches."""
    K, V = estimator.n_components_, estimator.n_features_in_
    if type(display).__name__ == "ScatterDisplay":
        return 7.0, 5.6
    if getattr(display, "are_words", False) or (V > 64 and getattr(display, "feature_names", None) is not None):
        return 9.0, 2.0 * -(-min(K, 20) // 5)
    return min(14.0, max(5.6, 3.0 + 0.4 * V)), min(12.0, 2.0 + 0.35 * K)
