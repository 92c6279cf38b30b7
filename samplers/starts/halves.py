"""Ways to cut the rows of one cluster in two, and the best of them by the log joint.

This is an optimiser, not a sampler. A run has not converged while a cluster can be cut in two such that the log joint
rises.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from expfam.model.assignment import extended_labels
from expfam.model.mixture import MixtureModel
from expfam.model.statistics import weighted_statistics
from expfam.model.weights import DirichletProcess
from expfam.samplers.geometry.column_cuts import best_cut
from expfam.samplers.geometry.drawn_rows import drawn_rows
from expfam.samplers.geometry.metrics import metrics_of
from expfam.samplers.starts.ascent import ascend
from expfam.structures.ground.rng import generator
from expfam.structures.kmeans import RowTiles

if TYPE_CHECKING:
    from expfam.model.data import Dataset

_MOST_ROWS = 2000  # of a cluster, in which cuts are looked for
_HOPE = 1.5  # times the rise of a sample of the rows that all may have
_FEWEST_ROWS = 4
_PASSES = 4  # of the ascent from each cut
_MOST_COLUMNS = 4096
_UNIT = 9  # stream of the purpose "start"


def best_halves(
    model: MixtureModel,
    data: Dataset,
    rows: npt.NDArray[np.integer] | None = None,
    *,
    seed: int,
    run: int = 0,
    n_threads: int | None = None,
) -> tuple[npt.NDArray[np.int32], float] | None:
    """Cut the rows of a cluster in two so that their log evidence is highest.

    Parameters
    ----------
    model : MixtureModel
        Bound.
    data : Dataset
    rows : (n,) ndarray of int, optional
        Rows of the cluster; all if not given.
    seed, run : int
        Decide the random numbers.
    n_threads : int or None
        The result does not depend on it.

    Returns
    -------
    halves : (n,) int32 ndarray of 0 and 1
    rise : float
        Log evidence of the halves less that of the whole, nats, without the prior of the partition.
        None in place of both where nothing can be cut, or where a sample of many rows shows that it does not pay.

    Examples
    --------
    >>> from expfam import Dataset, DiagonalGaussian, DirichletProcess, MixtureModel
    >>> from expfam.samplers.starts.halves import best_halves
    >>> data = Dataset([[0.0], [0.1], [0.2], [8.0], [8.1]], DiagonalGaussian())
    >>> best_halves(MixtureModel(data.family, DirichletProcess()), data, seed=0)[0]
    array([0, 0, 0, 1, 1], dtype=int32)

    Notes
    -----
    Cuts are 2-means in each metric of `metrics_of`, and the cut of one column that gains most under normal densities.
    Rows then move to the likelier side in a few passes. Cuts of more than 2000 rows are looked for in 2000 of them, and
    made in all only if the rise for each row would outweigh the prior of the partition.
    """
    members: npt.NDArray[np.int64] = np.arange(data.n_rows, dtype=np.int64) if rows is None else rows.astype(np.int64)
    n = members.size
    if n < _FEWEST_ROWS:
        return None
    free = MixtureModel(model.family, DirichletProcess())
    chosen = drawn_rows(n, _MOST_ROWS, seed=seed, unit=_UNIT, step=2 * run)
    part = data.take(members if chosen is None else members[chosen])
    found = _best_of_cuts(free, part, seed, run, n_threads)
    if found is None or chosen is None:
        return found
    share = np.bincount(found[0]) * (n / part.n_rows)
    if _HOPE * found[1] * (n / part.n_rows) + free.weights.log_prior(share) - free.weights.log_prior([n]) < 0.0:
        return None
    whole = data.take(members)
    begun = extended_labels(free, part, found[0], whole, n_threads=n_threads)
    moved = ascend(free, whole, begun, max_passes=_PASSES, n_threads=n_threads)
    if not moved.any() or moved.all():
        return None
    return moved, _evidence(free, whole, moved) - _evidence(free, whole, np.zeros_like(moved))


def _best_of_cuts(free, part, seed, run, n_threads):
    """Return the best halves of rows and their rise, or None."""
    whole = _evidence(free, part, np.zeros(part.n_rows, dtype=np.int32))
    best: tuple[float, float, npt.NDArray[np.int32]] | None = None
    seen = set()
    for cut in _cuts(part, seed, run):
        moved = ascend(free, part, cut, max_passes=_PASSES, n_threads=n_threads)
        key = (moved ^ moved[0]).tobytes()
        if key in seen or not moved.any() or moved.all():
            continue
        seen.add(key)
        rise = _evidence(free, part, moved) - whole
        score = rise + free.weights.log_prior(np.bincount(moved))  # else even halves always win
        if best is None or score > best[0]:
            best = score, rise, moved
    return None if best is None else (best[2], best[1])


def _evidence(model, data, labels):
    return float(model.family.total_log_marginal(*weighted_statistics(data, labels, int(labels.max()) + 1)))


def _cuts(data, seed, run):
    """Yield labels of 0 and 1 for the rows."""
    metrics = metrics_of(data, seed=seed)
    rng = generator(seed, "start", unit=_UNIT, step=2 * run + 1)
    for points in metrics.values():
        yield RowTiles(points).kmeans(2, rng)[0]
    points = metrics["own"]
    if points.shape[1] <= _MOST_COLUMNS and (cut := best_cut(points)) is not None:
        yield (points[:, cut.column] >= cut.threshold).astype(np.int32)
