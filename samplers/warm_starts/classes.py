"""The start of a fit with known rows: the best of some, by a few steps from each.

The search for a start knows no classes. Here its clusters are made to agree with the known rows, or the known rows are
the seeds of the clusters. The log joint of a start that is only begun says little: seeds still lack the clusters of
classes that nobody has named. So each start makes a few steps first.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from expfam.model.assignment import assigned_labels
from expfam.model.data import Dataset
from expfam.model.mixture import MixtureModel
from expfam.model.partitions import by_first_appearance
from expfam.model.statistics import weighted_statistics
from expfam.samplers.chain.driver import advance
from expfam.samplers.chain.kernel import Cycle, Kernel
from expfam.samplers.collapsed.gibbs import CollapsedGibbs
from expfam.samplers.collapsed.linked import LinkedGibbs
from expfam.samplers.starts.ascent import ascend
from expfam.samplers.warm_starts.sample_rows import has_few_rows

_STEPS = 5


def start_with_classes(
    model: MixtureModel,
    data: Dataset,
    labels: npt.ArrayLike,
    *,
    moves: Kernel,
    seed: int,
    n_threads: int | None = None,
) -> npt.NDArray[np.int32]:
    """Return the best of some starts that agree with what is known: (N,) int32 ndarray.

    Parameters
    ----------
    model : MixtureModel
        Bound to the data.
    data : Dataset
        With known rows.
    labels : (N,) array_like of non-negative int
        Start that a search has found without the known rows.
    moves : Kernel
        Splits and merges, to be used in turn with Gibbs sweeps.
    seed : int
    n_threads : int or None
        The labels do not depend on it.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import Dataset, DiagonalGaussian, DirichletProcess, Known, MixtureModel
    >>> from expfam.samplers import SplitMerge
    >>> from expfam.samplers.warm_starts.classes import start_with_classes
    >>> data = Dataset([[0.0], [0.1], [9.0], [9.2]], DiagonalGaussian(), known=Known([0, -1, 1, -1]))
    >>> model = MixtureModel(data.family, DirichletProcess())
    >>> start_with_classes(model, data, [0, 0, 0, 0], moves=SplitMerge(), seed=0)
    array([0, 0, 1, 1], dtype=int32)

    Notes
    -----
    The first start is near to the given labels, see `Known.agreeing`. In the second each row joins the most probable
    of the clusters that the known rows of the classes make (Basu, Banerjee & Mooney 2002). In the third it may also
    stay in, or join, one of the given clusters in which no row is known: classes that nobody has named. All ascend.
    That with the highest log joint, of its own or after five steps from it, is returned as it was before these steps,
    of equal ones the first. The log joints of the starts themselves decide where the family has no compiled components,
    rows have weights, or clusters have few rows for their covariances.
    """
    found = [ascend(model, data, start, n_threads=n_threads) for start in _starts(model, data, labels, n_threads)]
    if len(found) == 1:
        return found[0]
    scores = [model.log_joint(data, start) for start in found]
    if _may_step(model, data):
        reached = [_reached(model, data, start, moves, seed, n_threads) for start in found]
        scores = np.maximum(scores, reached).tolist()
    return found[int(np.argmax(scores))]


def _starts(model, data, labels, n_threads):
    """Return the different starts: (N,) int32 arrays, numbered by first appearance."""
    known, limit = data.known, model.weights.max_components
    found = [known.agreeing(labels, limit=limit)]
    if known.classes is None or known.n_classes < 2:
        return found
    of_rows = known.classes >= 0
    seeds = [known.classes]
    n_clusters, clusters = by_first_appearance(labels)
    is_free = np.bincount(clusters[of_rows], minlength=n_clusters) == 0
    if is_free.any():
        number = np.where(is_free, known.n_classes + np.cumsum(is_free) - 1, -1)
        seeds.append(np.where(of_rows, known.classes, number[clusters]))
    for seed in seeds:
        rows = np.flatnonzero(seed >= 0)
        n, S = weighted_statistics(data.without_known().take(rows), seed[rows], int(seed.max()) + 1)
        log_mass = np.where(n > 0, 0.0, -np.inf)  # a class without a row here has no cluster to join
        joined = assigned_labels(model, data, n, S, log_mass, n_threads=n_threads)
        found.append(known.agreeing(joined, limit=limit))
    return list({start.tobytes(): start for start in found}.values())


def _may_step(model: Any, data: Any) -> bool:
    is_weighted = data.weight is not None and bool((data.weight != 1.0).any())
    return bool(data.family.is_compiled) and not is_weighted and not has_few_rows(model, data)


def _reached(model, data, start, moves, seed, n_threads):
    """Return the log joint after a few steps from a start and an ascent."""
    kernel: Any = Cycle(moves, CollapsedGibbs(), *([LinkedGibbs()] if data.known.groups else []))
    state = kernel.init(model, data, seed=seed, start=start)
    advance(kernel, state, _STEPS)
    return model.log_joint(data, ascend(model, data, state.partition, n_threads=n_threads))
