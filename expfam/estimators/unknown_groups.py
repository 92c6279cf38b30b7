"""How `GroupedMixture(family, None)` is fitted: exact sampling, or variational inference."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from expfam.estimators.unknown_numbers import (
    MeansBySweeps,
    concentration_of,
    falling_sizes,
    learns_concentrations,
    refuse_unknown,
    set_weights,
)
from expfam.fitting.searched_starts import searched_start
from expfam.model.hierarchical import HierarchicalProcess
from expfam.model.weights import DirichletProcess
from expfam.params import is_auto
from expfam.samplers.chain.driver import advance
from expfam.samplers.chain.kernel import Cycle
from expfam.samplers.grouped.gibbs import GroupedGibbs
from expfam.samplers.grouped.variational import GroupedVariational, soft_sums
from expfam.samplers.hyper.slice import UpdateHyper
from expfam.samplers.named import find_sampler
from expfam.samplers.nonparametric.group_moves import GroupedProcessSplitMerge
from expfam.samplers.nonparametric.group_variational import GroupedProcessVariational
from expfam.samplers.nonparametric.groups import GroupedProcessGibbs
from expfam.samplers.shards.grouped_gibbs import GroupedUncollapsedGibbs
from expfam.samplers.variational.mixture import SparseVariational

if TYPE_CHECKING:
    from expfam.families.base import Family
    from expfam.model.data import Dataset
    from expfam.model.known import Known

GIVEN_CLUSTERS = 10  # of lines to type
GUESSED_CLUSTERS = 100  # of a forecast of the memory
UNKNOWN_RESULTS = ("beta_", "rest_", "concentration_", "gamma_")
_STEPS = 10


def unknown_kernel(estimator: Any) -> Any:
    """Return the kernel that was given, or one with the settings of the estimator."""
    learns = learns_concentrations(estimator)
    if _is_process(estimator.sampler) or isinstance(estimator.sampler, GroupedProcessVariational):
        return estimator.sampler
    found = find_sampler(estimator.sampler, model="GroupedMixture")
    if isinstance(found, GroupedUncollapsedGibbs):
        return found
    if found is GroupedUncollapsedGibbs:
        return GroupedUncollapsedGibbs(learn_alpha=learns, n_threads=estimator.n_threads)
    if found is GroupedVariational:
        return GroupedProcessVariational(learn_alpha=learns, n_threads=estimator.n_threads)
    if found not in (None, GroupedGibbs):
        name = found.__name__ if isinstance(found, type) else type(found).__name__
        line, own = "GroupedMixture(n_components=None, sampler='auto')", ", or with sampler=GroupedProcessGibbs()"
        refuse_unknown("GroupedMixture", f"sampler={name}", line + own * (not isinstance(estimator.sampler, str)))
    return Cycle(GroupedProcessSplitMerge(), GroupedProcessGibbs(learn_alpha=learns))


def _is_process(kernel):
    """Return whether every kernel that moves rows samples clusters of unknown number."""
    parts = [part for part in getattr(kernel, "kernels", (kernel,)) if not isinstance(part, UpdateHyper)]
    return bool(parts) and all(isinstance(part, GroupedProcessGibbs) for part in parts)


def unknown_model(estimator: Any, family: Family, known: Known | None = None) -> HierarchicalProcess:
    """Return the model of an unknown number of clusters, those of known classes first."""
    return HierarchicalProcess(family, concentration_of(estimator), n_known=0 if known is None else known.n_classes)


def unknown_start(
    kernel: Any,
    model: HierarchicalProcess,
    data: Dataset,
    start: Any,
    family: Family,
    *,
    learn_hyper: Any = "auto",
    seed: int,
    n_threads: int | None,
) -> Any:
    """Return the state in which a run begins; see `grouped_start`.

    A start that is left open is searched among all rows, whatever their groups, as for a Dirichlet process. Of counts,
    random clusters are a candidate as well, and a few steps over the groups decide.
    """
    passes = SparseVariational(n_threads=n_threads) if isinstance(kernel, GroupedProcessVariational) else None
    options: dict[str, Any] = {"passes": passes, "learn_hyper": learn_hyper, "seed": seed, "n_threads": n_threads}
    found = searched_start(data, start, None, family, weights=DirichletProcess(), **options)
    model = model.with_family(found.family)
    searched = kernel.init(model, data, seed=seed, start=found.start)
    is_searched = is_auto(start) and not isinstance(found.start, str)
    if not is_searched or not data.family.is_discrete:
        return searched
    random = kernel.init(model, data, seed=seed, start="random")
    for state in (searched, random):
        advance(kernel, state, _STEPS)
    best = searched if searched.log_joint >= random.log_joint else random
    learned = getattr(searched, "process", searched.model)
    return kernel.init(learned, data, seed=seed, start=best.partition)


class ClusterMeans(MeansBySweeps):
    """Means over sweeps of counts, sums, and rows of groups, by cluster."""

    def __init__(self) -> None:
        super().__init__(_parts)

    def means(self, state: Any) -> Any:
        """Return counts (K,), sums (K, F), counts of groups (G, K) and pseudo-counts.

        Clusters of known classes come first, then the others in falling order of size.
        """
        (n, S, counts), pseudocounts, alpha, gamma = super().means(state)
        order = falling_sizes(n, state.model.n_known)
        if sparse.issparse(S) and not state.data.has_sparse_phi:
            S = S.toarray()
        self.concentrations_of_fit = alpha, gamma
        return n[order], S[order], sparse.csr_array(counts[order].T), pseudocounts[order]


class VariationalClusters:
    """What a variational run has found, known clusters first, others in falling order of size."""

    n_kept = 1  # labels are those of the ordered clusters

    def means(self, state: Any) -> Any:
        """Return counts (K,), sums (K, F), counts of groups (G, K) and pseudo-counts."""
        order, sticks = falling_sizes(state.n, state.sticks.n_known), state.sticks
        self.concentrations_of_fit = sticks.alpha, sticks.gamma
        counts = sparse.csr_array(state.group_counts().tocsc()[:, order])
        return state.n[order], soft_sums(state)[order], counts, sticks.pseudocounts[order]


def _parts(state, slots):
    """Return counts (k,), sums (k, F) and rows of each group (k, G) of some clusters."""
    n, S = state.statistics()
    counts = state.group_counts().astype(np.float64).T.tocsr()
    return [n[slots], S[slots], counts[slots]]


def adopt_unknown(estimator: Any, means: ClusterMeans | VariationalClusters) -> None:
    """Set the weights that all groups share."""
    alpha, gamma = means.concentrations_of_fit
    set_weights(estimator, estimator.alpha_, alpha, gamma)


def drop_empty(estimator: Any) -> None:
    """Leave out clusters without rows at the end of a fit; the rest gets their weight."""
    kept = np.flatnonzero(estimator.n_ > 0)
    kept = kept[np.argsort(-estimator.n_[kept], kind="stable")]
    place = np.full(len(estimator.n_), -1, dtype=np.int32)
    place[kept] = np.arange(len(kept), dtype=np.int32)
    estimator.n_, estimator.S_ = estimator.n_[kept], estimator.S_[kept]
    estimator.group_counts_ = estimator.group_counts_.tocsc()[:, kept].tocsr()
    estimator.labels_ = place[estimator._labels]
    set_weights(estimator, estimator.alpha_[kept], estimator.concentration_, estimator.gamma_)
