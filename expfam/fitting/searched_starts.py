"""Starts that are searched, as those of `Mixture` are, for groups and first chunks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from expfam.fitting.plan import learned_hyper
from expfam.model.assignment import extended_labels
from expfam.model.mixture import MixtureModel
from expfam.model.weights import SymmetricDirichlet
from expfam.params import is_auto
from expfam.samplers.chain.kernel import Cycle
from expfam.samplers.named import SplitMerge
from expfam.samplers.starts.greedy_merge import merged_labels
from expfam.samplers.variational.mixture import SparseVariational
from expfam.samplers.warm_starts.bound_race import best_by_bound
from expfam.samplers.warm_starts.sample_rows import search_rows
from expfam.samplers.warm_starts.search import search_start
from expfam.samplers.warm_starts.settle import Settler

if TYPE_CHECKING:
    from expfam.families.base import Family
    from expfam.model.data import Dataset
    from expfam.samplers.warm_starts.search import FoundStart


class SearchedStart(NamedTuple):
    """Start of a fit with a given number of clusters.

    Attributes
    ----------
    start : str or (N,) array of int
        The given one, unless it was left to the search.
    family : Family
        Bound, with the hyper-parameters that fit the start where it was searched.
    """

    start: Any
    family: Family


def searched_start(
    data: Dataset,
    start: Any,
    n_clusters: int | None,
    family: Family,
    *,
    weights: Any = None,
    most_clusters: int | None = None,
    passes: SparseVariational | None = None,
    learn_hyper: Any = "auto",
    seed: int,
    n_threads: int | None,
) -> SearchedStart:
    """Search a start where it was left at "auto", and no classes of rows are known.

    Counts are searched on the rows that `search_rows` draws, and the others join their most probable cluster.

    Parameters
    ----------
    data : Dataset
        Groups of rows have no part in the search.
    start : str or (N,) array_like of int
    n_clusters : int or None
        None for an open number.
    family : Family
        As it was given, which tells what may be learned.
    weights : weights of a mixture, optional
        For an open number of clusters.
    most_clusters : int, optional
        An open number of clusters is at most this one.
    passes : SparseVariational, optional
        Kernel of a run with an open number of clusters; the start is that from which its bound ends highest.
    learn_hyper : bool or "auto"
        Which hyper-parameters of the family are learned: all, none, or those left at "auto".
    seed : int
    n_threads : int or None

    Returns
    -------
    SearchedStart
    """
    is_open = is_auto(start)
    known = data.known
    if not is_open or (known is not None and known.classes is not None):
        return SearchedStart(start, data.family)
    plain = data.without_groups().without_known()
    rows = search_rows(data.n_rows, n_clusters, seed) if family.is_discrete else None
    part = plain if rows is None else plain.take(rows)
    if n_clusters is not None:  # pseudo-counts of 1/K prefer empty clusters, which real values would have lost
        weights = SymmetricDirichlet(n_clusters) if family.is_discrete else SymmetricDirichlet(n_clusters, 1.0)
    model, learned = MixtureModel(data.family, weights), learned_hyper(learn_hyper, family)
    adapts_prior = learn_hyper is not False and is_auto(getattr(family, "scale", None))
    found = search_start(
        model,
        part,
        adapt_prior=adapts_prior,
        moves=SplitMerge(n_threads=n_threads),
        learned=learned,
        seed=seed,
        n_threads=n_threads,
    )
    if n_clusters is None:
        settler = Settler(model, part, learned, adapts_prior, seed, n_threads)
        found = open_start(found, part, most_clusters, passes=passes, settler=settler)
    labels = found.labels
    if rows is not None:
        labels = extended_labels(found.model, part, labels, plain, n_threads=n_threads)
    labels = labels if known is None else known.agreeing(labels, limit=n_clusters)
    return SearchedStart(labels, found.model.family)


def open_start(
    found: FoundStart,
    data: Dataset,
    most_clusters: int | None,
    *,
    passes: SparseVariational | None = None,
    settler: Settler | None = None,
    is_drawn: bool = False,
) -> FoundStart:
    """Return what a search has found, with the labels that a run of an open number begins with.

    Parameters
    ----------
    found : FoundStart
    data : Dataset
        The rows of the search.
    most_clusters : int or None
        More clusters than the sampler has are merged.
    passes : SparseVariational, optional
        Kernel of the run. What was found then is one of several candidates, see `best_by_bound`.
    settler : Settler, optional
        Learns the hyper-parameters of these candidates.
    is_drawn : bool
        Whether the run draws labels. Such runs begin with random labels of counts; others would leave them as they are,
        and begin with the partition that is compared with the end of the former.
    """
    labels = next(iter(found.others.values())) if found.others and not is_drawn else found.labels
    if most_clusters is not None and labels.max() >= most_clusters:
        labels = merged_labels(found.model, data, labels, n_clusters=most_clusters)
    found = found._replace(labels=labels)
    if passes is None or settler is None or passes.objective != "vb":
        return found
    best = best_by_bound(passes, settler, labels)
    return found if best.name == "given" else found._replace(labels=best.labels, name=best.name, model=best.model)


def passes_of(kernel: Any) -> SparseVariational | None:
    """Return the kernel of variational passes, alone or first in a cycle, or None."""
    first = kernel.kernels[0] if type(kernel) is Cycle else kernel
    return first if isinstance(first, SparseVariational) else None
