"""Statistics of some draws of the partition, for means over draws.

Densities and probabilities of new rows under one partition are too sure. Their means over draws need the statistics of
the draws, which are made once, at the end of a fit, while its rows are there. Their size does not depend on the number
of rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from scipy import sparse

from expfam.model.drawn import DrawnStatistics
from expfam.model.statistics import weighted_statistics

if TYPE_CHECKING:
    from collections.abc import Sequence

    from expfam.families.base import Family
    from expfam.fitting.run import ChainRun
    from expfam.model.data import Dataset

MOST_DRAWS = 20
MOST_BYTES = 1 << 26  # of the statistics of more than two draws


def drawn_statistics(
    runs: Sequence[ChainRun], data: Dataset, labels: npt.NDArray[np.integer], family: Family
) -> list[DrawnStatistics]:
    """Return the statistics of at most 20 draws of all chains, evenly spaced.

    They are fewer where they would take more than 64 MB, down to two. The list is empty where no draws were kept.

    Parameters
    ----------
    runs : sequence of ChainRun
    data : Dataset
        Rows of the draws.
    labels : (N,) ndarray of int
        Partition that the fit reports, numbers from 0 without gaps.
    family : Family
        Of the fit, where no hyper-parameters were drawn.
    """
    n_kept = min(run.trace.n_kept for run in runs)
    draws = [draw for run in runs for draw in _draws_of(run, n_kept, family)]
    if not draws:
        return []
    first = _statistics(draws[0], data, labels)
    most = max(2, min(MOST_DRAWS, MOST_BYTES // max(1, n_bytes(first))))
    chosen = np.unique(np.linspace(0, len(draws) - 1, most).round().astype(int))
    return [first, *(_statistics(draws[place], data, labels) for place in chosen[1:])]


def drawn_memory(n_draws: int, n_clusters: int, n_statistics: int) -> int:
    """Return the bytes that the statistics of draws may need.

    Examples
    --------
    >>> from expfam.fitting.drawn_statistics import drawn_memory
    >>> drawn_memory(400, 3, 4), drawn_memory(0, 3, 4), drawn_memory(1, 3, 4)
    (3840, 0, 192)
    """
    each = 8 * n_clusters * (n_statistics + 1 + n_clusters)
    return min(n_draws, MOST_DRAWS, max(2, MOST_BYTES // each)) * each


def n_bytes(draw: DrawnStatistics) -> int:
    """Return the bytes of the arrays of one draw."""
    S = draw.S
    of_S = S.data.nbytes + S.indices.nbytes + S.indptr.nbytes if sparse.issparse(S) else S.nbytes
    return int(draw.n.nbytes + draw.home.nbytes + of_S)


def _draws_of(run, n_kept, family):
    """Return the partitions that a chain has kept, and their families."""
    partitions, families = run.trace.partitions[:n_kept], [family] * n_kept
    if run.hyper is not None:
        steps = run.trace.kept_steps[:n_kept] - 1 - run.trace.n_warmup
        families = [run.hyper.prior.model_at(run.hyper.values[step]).family for step in steps]
    return zip(partitions, families)


def _statistics(draw, data, labels):
    drawn, family = draw
    K_m, K = int(drawn.max()) + 1, int(labels.max()) + 1
    n, S = weighted_statistics(data, drawn.astype(np.int32), K_m)
    shared = np.bincount(drawn.astype(np.intp) * K + labels, minlength=K_m * K).reshape(K_m, K).astype(np.float64)
    return DrawnStatistics(family, n, S, shared / shared.sum(axis=1, keepdims=True))


__all__ = ["MOST_BYTES", "MOST_DRAWS", "drawn_memory", "drawn_statistics", "n_bytes"]
