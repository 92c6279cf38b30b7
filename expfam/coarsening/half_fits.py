"""Fits of halves of the rows, each of which labels all rows.

A fit of a half is the search for a start without the chain that follows it: division, merges, splits and ascent, of the
best division alone. That takes a tenth of the time of a fit, and halves find the same groups by it. Of counts, whose
kinds the search alone does not find, a short chain follows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from expfam.coarsening.found_again import shared_rows
from expfam.model.assignment import extended_labels
from expfam.model.mixture import MixtureModel
from expfam.model.partitions import compact_labels
from expfam.model.statistics import weighted_statistics
from expfam.samplers.chain.driver import advance
from expfam.samplers.chain.kernel import Cycle
from expfam.samplers.collapsed.gibbs import CollapsedGibbs
from expfam.samplers.hyper.slice import UpdateHyper
from expfam.samplers.warm_starts.search import search_start
from expfam.samplers.warm_starts.settle import Settler
from expfam.structures.ground.rng import generator
from expfam.structures.ground.threads import run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from expfam.model.data import Dataset
    from expfam.protocols import Floats
    from expfam.samplers.chain.kernel import Kernel

N_SPLITS = 4
_FEW_SPLITS, _FEW_ROWS = 2, 1000  # with more rows two splits find the groups that four find
_SWEEPS = 40  # of a chain of counts; each takes a hundredth of the time of the search
_UNIT = 14  # stream of the purpose "start"


class ComparedModel(NamedTuple):
    """A model that is fitted to halves of rows.

    Attributes
    ----------
    model : MixtureModel
    data : Dataset
        All rows, for the family of the model.
    learned : sequence of str
        Hyper-parameters that are learned.
    adapts_prior : bool
        Whether the prior takes the shape of the clusters.
    """

    model: MixtureModel
    data: Dataset
    learned: Sequence[str]
    adapts_prior: bool


class HalfFit(NamedTuple):
    """Clusters of a half of the rows.

    Attributes
    ----------
    family : str
        Name of the family.
    model : MixtureModel
        With the hyper-parameters that fit the half.
    n, S : (K,) and (K, F)
        Statistics of the clusters that label some row.
    labels : (N,) int32 ndarray
        Most probable cluster of every row, numbers from 0 without gaps.
    """

    family: str
    model: MixtureModel
    n: Floats
    S: Any
    labels: npt.NDArray[np.int32]

    @property
    def n_clusters(self) -> int:
        """Return the number of clusters."""
        return len(self.n)


def halves(n_rows: int, *, seed: int, n_splits: int = N_SPLITS) -> list[npt.NDArray[np.int64]]:
    """Return both halves of some random splits: sorted numbers of rows.

    Parameters
    ----------
    n_rows, seed : int
        Of the fit; the seed has 64 bits.
    n_splits : int
        Number of splits; each gives two halves.

    Examples
    --------
    >>> from expfam.coarsening.half_fits import halves
    >>> [len(half) for half in halves(7, seed=0, n_splits=2)]
    [3, 4, 3, 4]
    """
    found = []
    for step in range(n_splits):
        order = generator(seed, "start", unit=_UNIT, step=step).permutation(n_rows)
        found += [np.sort(order[: n_rows // 2]), np.sort(order[n_rows // 2 :])]
    return found


def half_fits(models: Sequence[ComparedModel], *, seed: int, n_threads: int | None) -> list[HalfFit]:
    """Fit both halves of four random splits with each model, of two where rows are many.

    Parameters
    ----------
    models : sequence of ComparedModel
        Of the same rows; of more than 1,000 two splits are fitted.
    seed : int
    n_threads : int or None
        Halves are fitted at the same time. The result does not depend on it.

    Returns
    -------
    list of HalfFit
        Halves of the first model first, in the order of `halves`.
    """
    n_rows = models[0].data.n_rows
    parts = halves(n_rows, seed=seed, n_splits=N_SPLITS if n_rows <= _FEW_ROWS else _FEW_SPLITS)
    tasks = [(*model, rows, seed + place) for model in models for place, rows in enumerate(parts)]
    return run(_fit, tasks, n_threads)


def _fit(model, data, learned, adapts_prior, rows, seed):
    part = data.take(rows)
    found = search_start(model, part, adapt_prior=adapts_prior, learned=learned, is_quick=True, seed=seed)
    fitted, own = found.model, compact_labels(found.labels)
    if found.others:  # counts begin a chain with random labels; what the search has found is beside them
        settler = Settler(model, part, learned, adapts_prior, seed, n_threads=1)
        fitted, own = _best_of_chain(settler, found)
    n, S = weighted_statistics(part, own, int(own.max()) + 1)
    labels = extended_labels(fitted, part, own, data)
    used = np.unique(labels)  # a cluster may lose all its rows to others
    return HalfFit(model.family.name, fitted, n[used], S[used], np.searchsorted(used, labels).astype(np.int32))


def _best_of_chain(settler, found):
    """Return model and labels of the better of a search of counts and a short chain after it.

    Many short texts of many kinds are one large cluster to the search, and the chain finds their kinds in a fraction of
    the time.
    """
    searched = settler.fitted(next(iter(found.others.values())))
    data = settler.data
    if not data.family.is_compiled or (data.weight is not None and (data.weight != 1.0).any()):
        return found.model, searched.labels
    kernel: Kernel = CollapsedGibbs()
    if settler.learned:
        kernel = Cycle(kernel, UpdateHyper(family=settler.learned, weights=False))
    state = kernel.init(found.model, data, seed=settler.seed, start=found.labels)
    advance(kernel, state, _SWEEPS)
    # a draw has rows in improbable clusters
    drawn = settler.merged(settler.ascended(settler.fitted(state.partition)))
    best = max(searched, drawn, key=lambda one: one.log_joint)
    return best.model, best.labels


def tables_of(labels: npt.ArrayLike, n_clusters: int, others: Sequence[HalfFit], weight: Any = None) -> list[Floats]:
    """Return the rows that clusters share with those of each half fit: arrays (K, K').

    Parameters
    ----------
    labels : (N,) array_like of int
        Cluster of each row; K clusters.
    n_clusters : int
        K.
    others : sequence of HalfFit
    weight : (N,) float64 ndarray, optional
        How often each row counts.
    """
    return [shared_rows(labels, other.labels, (n_clusters, other.n_clusters), weight) for other in others]
