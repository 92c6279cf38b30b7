"""Means over the draws of a mixture: the clusters of its draws."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from expfam.estimators.loaded import names_of_fit
from expfam.fitted.clusters import FittedClusters
from expfam.fitted.drawn_clusters import DrawnClusters
from expfam.params import check_value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from expfam.model.drawn import DrawnStatistics


def keep_drawn(mixture: Any, draws: Sequence[DrawnStatistics]) -> None:
    """Keep the statistics of the draws of a fit, in the place of those of an earlier one."""
    mixture.__dict__.pop("_drawn", None)
    if draws:
        mixture._drawn = (mixture.n_, tuple(draws))


def drawn_of(mixture: Any) -> tuple[DrawnStatistics, ...]:
    """Return the statistics of the draws: none if none were kept, or more was learned since."""
    n, draws = mixture.__dict__.get("_drawn", (None, ()))
    return tuple(draws) if n is mixture.n_ else ()


def drawn_clusters(mixture: Any) -> DrawnClusters | None:
    """Return the clusters of the draws; None if there are none."""
    draws = drawn_of(mixture)
    if not draws:
        return None
    parts = []
    for family, n, S, _ in draws:
        weights, new = mixture.model_.weights.posterior_mean(n)
        with np.errstate(divide="ignore"):
            log_weights = np.log(np.append(weights, max(new, 0.0)))
        names = names_of_fit(mixture)
        parts.append(FittedClusters(family, n, S, log_weights, n, weights, names, mixture.n_threads))
    return DrawnClusters(tuple(parts), tuple(draw.home for draw in draws))


def answering_clusters(mixture: Any, average: bool) -> FittedClusters | DrawnClusters:
    """Return the clusters under which rows are scored: those of all draws, or of the labels."""
    check_value("Mixture: average", average, bool)
    drawn = drawn_clusters(mixture) if average else None
    return mixture._clusters() if drawn is None else drawn
