"""The largest clusters of a fit, as JSON and as a table that fits the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from expfam.amounts import counted
from expfam.cli.contents import contents, fitting, fitting_words
from expfam.cli.known import class_of_cluster
from expfam.cli.results import as_text, plain, short

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

LISTED = 10  # clusters in a printed table
_WORDS = 8


def largest_clusters(estimator: Any, column_names: Any) -> list[dict[str, Any]]:
    """Return the largest clusters, each as a dict: number, size and contents.

    Clusters of counts have typical words, others what their columns hold.

    Parameters
    ----------
    estimator : Mixture or GroupedMixture
        Fitted.
    column_names : (V,) ndarray of str, or None
        Names of the columns in the file.
    """
    import numpy as np

    order = np.argsort(-estimator.cluster_sizes_, kind="stable")[:LISTED].tolist()
    order = [k for k in order if estimator.cluster_sizes_[k] > 0] or order[:1]
    clusters: list[dict[str, Any]] = [{"cluster": k, "size": int(estimator.cluster_sizes_[k])} for k in order]
    if estimator.labels is not None:
        for entry in clusters:
            entry["class"] = class_of_cluster(estimator, entry["cluster"])
    if column_names is not None and estimator.family_.has_counts:
        from expfam.displays.means import ClusterMeansDisplay

        display = ClusterMeansDisplay.from_estimator(estimator, feature_names=column_names, clusters=order)
        for entry, words in zip(clusters, display.top_words(_WORDS)):
            entry["words"] = words
    columns = contents(estimator, order)
    for place, entry in enumerate(clusters):
        if columns:
            entry["columns"] = {name: plain(cells[place]) for name, cells in columns.items()}
    return clusters


def cluster_text(clusters: Sequence[Mapping[str, Any]], estimator: Any) -> str:
    """Return the clusters as a table of text, as wide as the terminal."""
    total = int(estimator.cluster_sizes_.sum())
    head = ["cluster", "size", "share"]
    rows = [[entry["cluster"], f"{entry['size']:,}", f"{entry['size'] / total:.1%}"] for entry in clusters]
    if "class" in clusters[0]:
        head.append("class")
        for row, entry in zip(rows, clusters):
            row.append("-" if entry["class"] is None else entry["class"])
    if "words" in clusters[0]:
        words = [fitting_words(entry["words"], _width(head, rows)) for entry in clusters]
        head.append("words")
        for row, text in zip(rows, words):
            row.append(text)
    more = estimator.n_components_ - len(clusters)
    others = f"\n  and {counted(more, 'smaller one')}" if more > 0 else ""
    columns = {name: [short(entry["columns"][name]) for entry in clusters] for name in clusters[0].get("columns", {})}
    shown, left = fitting(columns, _width(head, rows))
    for place, row in enumerate(rows):
        row += [columns[name][place] for name in shown]
    return as_text([*head, *shown], rows) + others + (f"\n  {left}" if left else "")


def _width(head, rows):
    """Return the number of characters of the widest line."""
    return max(map(len, as_text(head, rows).splitlines()))
