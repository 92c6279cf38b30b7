"""How `GroupedMixture(sampler="uncollapsed_gibbs")` begins, and what it keeps.

Clusters have places of their own: parameters are drawn, so rows are drawn on several threads. Where the number of
clusters is unknown, it has a limit above any that is likely to be found.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from expfam.estimators.place_means import PlaceMeans, parts_of_groups
from expfam.estimators.unknown_groups import GUESSED_CLUSTERS, unknown_start
from expfam.fitting.grouped_starts import grouped_start
from expfam.fitting.kept_run import kept_value
from expfam.model.assignment import assigned_labels
from expfam.model.data import Dataset
from expfam.model.finite_process import FiniteProcess, default_n_places
from expfam.model.groups import Groups
from expfam.model.hierarchical import HierarchicalProcess
from expfam.params import is_auto
from expfam.samplers.chain.driver import advance
from expfam.samplers.chain.kernel import Cycle
from expfam.samplers.grouped.gibbs import GroupedGibbs
from expfam.samplers.nonparametric.group_moves import GroupedProcessSplitMerge
from expfam.samplers.nonparametric.groups import GroupedProcessGibbs
from expfam.samplers.shards.sample import chosen_rows
from expfam.samplers.states.storage import family_arrays, with_family_arrays

if TYPE_CHECKING:
    from expfam.families.base import Family

_SAMPLED_ROWS, _UNIT = 4000, 5  # in which a start looks for clusters, and their random stream
_SWEEPS = 60  # of the start


def process_with_limit(family: Family, concentration: float, n_clusters: int = GUESSED_CLUSTERS) -> FiniteProcess:
    """Return the process of an unknown number of clusters, with four times as many places.

    Parameters
    ----------
    family : Family
    concentration : float
        Of the groups.
    n_clusters : int
        Clusters of a start.
    """
    L = default_n_places(n_clusters)
    return FiniteProcess(family, max(L, n_clusters), alpha=concentration / max(L, n_clusters))


def placed_start(
    kernel: Any,
    model: Any,
    data: Dataset,
    start: Any,
    family: Family,
    *,
    learn_hyper: Any = "auto",
    seed: int,
    n_threads: int | None,
) -> Any:
    """Return the state in which a run begins; the parameters are those of `grouped_start`.

    Clusters of the start are those of a collapsed sampler: parameters that are drawn for clusters of random rows are
    nearly alike. Of an unknown number it makes some sweeps, with splits and merges, over at most 4,000 rows; all other
    rows begin in their most probable cluster.

    Parameters
    ----------
    kernel : GroupedUncollapsedGibbs
    model : AdmixtureModel or FiniteProcess
        Bound.
    data, start, family, learn_hyper, seed, n_threads
        As of `grouped_start`.

    Returns
    -------
    GroupedPartsState
    """
    options: dict[str, Any] = {"learn_hyper": learn_hyper, "seed": seed, "n_threads": n_threads}
    is_open = isinstance(model, FiniteProcess)
    find = _found_process if is_open else _found_given

    def pack(found):
        return {"labels": found[0], "family": family_arrays(found[1])}

    def unpack(arrays):
        return np.array(arrays["labels"]), with_family_arrays(model.family, arrays["family"])

    labels, fitted = kept_value(lambda: find(model, data, start, family, options), pack, unpack)
    if is_open:
        model = process_with_limit(fitted, model.concentration, int(labels.max(initial=0)) + 1)
    return kernel.init(model.with_family(fitted), data, seed=seed, start=labels)


def _found_given(model, data, start, family, options):
    """Return labels and the family of a start with a given number of clusters."""
    state = grouped_start(GroupedGibbs(), model, data, start, family, **options)
    return state.labels.copy(), state.model.family


def _found_process(model, data, start, family, options):
    """Return labels and the family of a start with an unknown number of clusters."""
    kernel = Cycle(GroupedProcessSplitMerge(), GroupedProcessGibbs())
    process = HierarchicalProcess(model.family, model.concentration)
    rows = chosen_rows(data.n_rows, _SAMPLED_ROWS, options["seed"], _UNIT)
    if not is_auto(start) or len(rows) == data.n_rows:
        rows, part = None, data
    else:
        groups = Groups(np.unique(data.groups.of_row[rows], return_inverse=True)[1])
        part = Dataset(data.X[rows], data.family, groups=groups)
    state = unknown_start(kernel, process, part, start, family, **options)
    if is_auto(start):
        advance(kernel, state, _SWEEPS)
    labels, fitted = state.partition, state.model.family
    if rows is None:
        return labels, fitted
    n, S = part.statistics(labels, int(labels.max()) + 1)
    log_mass = np.log(n / n.sum())
    return assigned_labels(fitted, data, n, S, log_mass, n_threads=options["n_threads"]), fitted


class PlacedClusters(PlaceMeans):
    """Means over sweeps of the statistics of clusters with places.

    Parameters
    ----------
    is_listed : bool
        Whether only clusters that had rows in half of the sweeps are kept, the largest first.
    """

    def __init__(self, *, is_listed: bool) -> None:
        super().__init__(parts_of_groups)
        self.is_listed = is_listed
        self.concentrations_of_fit = [0.0, 0.0]

    def means(self, state: Any) -> Any:
        """Return counts (K,), sums (K, F), counts of groups (G, K) and pseudo-counts."""
        n, S, counts, alpha = super().means(state)
        if sparse.issparse(S) and not state.data.has_sparse_phi:
            S = S.toarray()
        places: npt.NDArray[np.intp] = self.listed() if self.is_listed else np.arange(len(n))
        alpha, *self.concentrations_of_fit = self.weights(places)
        return n[places], S[places], sparse.csr_array(counts.tocsc()[:, places]), alpha
