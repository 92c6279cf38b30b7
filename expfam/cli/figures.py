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


def figure_writer(mixture: Any, table: Any) -> Callable[[Path], None]:
    """Return the function that draws the clusters of a mixture to a path.

    Tables are drawn by how much each column tells the clusters apart, other data by the means of the clusters.
    """

    def draw(path: Path) -> None:
        from matplotlib.figure import Figure  # not pyplot: it opens windows and changes global settings

        from expfam.displays.evidence import ColumnEvidenceDisplay
        from expfam.displays.means import ClusterMeansDisplay

        K, V = mixture.n_components_, mixture.n_features_in_
        figure = Figure(figsize=(min(14.0, 3.0 + 0.4 * V), min(12.0, 2.0 + 0.35 * K)), layout="constrained")
        if mixture.family_.name == "columns":
            ColumnEvidenceDisplay.from_estimator(mixture).plot(figure.subplots())
        else:
            names = table.column_names
            display = ClusterMeansDisplay.from_estimator(mixture, feature_names=names)
            if names is not None and V > 64:
                figure.set_size_inches(9.0, 2.0 * -(-min(K, 20) // 5))
            display.plot(figure.subplots())
        save_figure(figure, path, dpi=150)

    return draw
