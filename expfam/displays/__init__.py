"""Figures of fitted models, traces and posteriors."""

from typing import Any

from expfam.lazy import load_name

_HOMES = {
    "expfam.displays.trace": ["TraceDisplay"],
    "expfam.displays.sizes": ["SizesDisplay"],
    "expfam.displays.pairs": ["PairsDisplay"],
    "expfam.displays.scatter": ["ScatterDisplay"],
    "expfam.displays.means": ["ClusterMeansDisplay"],
    "expfam.displays.evidence": ["ColumnEvidenceDisplay"],
    "expfam.displays.dendrogram": ["DendrogramDisplay"],
    "expfam.displays.coarsening": ["CoarseningDisplay"],
    "expfam.displays.posterior": ["BallDisplay", "ClusterCards", "ClusterCountDisplay", "SimilarityDisplay"],
}

__all__ = [name for names in _HOMES.values() for name in names]


def __getattr__(name: str) -> Any:
    return load_name(__name__, _HOMES, name)


def __dir__() -> list[str]:
    return sorted(__all__)
