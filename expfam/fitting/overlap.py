"""Groups that overlap, which the most probable partition joins: a user is told.

The log joint of a partition takes each label for certain. Where two groups overlap, it is highest if they are one
cluster, and a given number of clusters is then made up of crumbs. The log evidence sums over the labels of such rows:
it tells that there are more groups, and variational passes divide the rows between them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from expfam.amounts import counted
from expfam.errors import CapabilityError, DataWarning
from expfam.model.partitions import by_first_appearance, compact_labels
from expfam.samplers.geometry.drawn_rows import drawn_rows
from expfam.samplers.starts.many_exchanges import has_many_clusters
from expfam.samplers.variational.mixture import SparseVariational
from expfam.samplers.warm_starts.bound_race import bounds_of
from expfam.samplers.warm_starts.candidates import Divisions
from expfam.samplers.warm_starts.em_race import best_by_em
from expfam.samplers.warm_starts.sample_rows import has_few_rows
from expfam.samplers.warm_starts.settle import Settler
from expfam.structures.ground.threads import single_blas
from expfam.user_warnings import warn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from expfam.fitting.plan import Plan
    from expfam.fitting.run import ChainRun
    from expfam.model.mixture import MixtureModel

ROWS_OF_OVERLAP = 1000  # fewer tell little about groups that overlap, and the passes would take as long as the fit
_MOST_ROWS = 5000  # of a sample, as many as decide where variational passes begin
_MOST_WORK = 1 << 29  # products of a statistic and a parameter in all passes
_PASSES = 8
_LEAST = 10.0  # nats of the log evidence that must be gained
_OTHER = 0.05  # share of the rows in other clusters, from which two partitions differ
_UNIT = 16  # stream of the purpose "start"


class Divided(NamedTuple):
    """Another partition that describes the rows clearly better.

    Attributes
    ----------
    n_clusters : int
    gain : float
        By how much, nats: of the bound of the log evidence for an open number of clusters, of the log density with
        labels summed out for a given one.
    n_rows : int
        Number of rows that were looked at.
    """

    n_clusters: int
    gain: float
    n_rows: int


def warn_of_overlap(plan: Plan, runs: Sequence[ChainRun], model: MixtureModel, labels: npt.NDArray[np.integer]) -> None:
    """Warn where clusters that overlap describe the rows better than the labels.

    Only fits without a given sampler are looked at, with a number of rows that is no tiny one. Ctrl-C leaves it out.

    Parameters
    ----------
    plan : Plan
    runs : sequence of ChainRun
        The search has found the start of the first one.
    model : MixtureModel
        Of the result.
    labels : (N,) ndarray of int
        Of the result.
    """
    is_mode = plan.is_automatic and plan.has_rule and plan.partition == "mode"
    is_free = plan.data.known is None and plan.seen is plan.data  # equal rows have equal labels, whatever their density
    if not is_mode or not is_free or any(run.trace.interrupted for run in runs):
        return
    start = runs[0].start if plan.searches_start(plan.starts[0]) else None
    settler = Settler(model, plan.data, plan.learned, plan.adapts_prior, runs[0].state.seed, plan.n_threads)
    try:
        found = divided(settler, labels, start)
    except KeyboardInterrupt:  # the fit itself is done
        return
    if found is None:
        return
    warn(_told(found, plan, len(np.unique(labels))), DataWarning)


def _told(found, plan, n_clusters):
    """Return the warning: labels, what describes the rows better, and the line to type."""
    own = counted(n_clusters, "cluster")
    own, judge = (f"is one into {own}", "density") if plan.max_clusters is not None else (f"has {own}", "evidence")
    return (
        f"{plan.asked.owner}: labels_, the most probable partition, {own}; {counted(found.n_clusters, 'cluster')} that"
        f" overlap describe {found.n_rows:,} of the rows better, by {found.gain:.0f} nats of the log {judge}. If you"
        f" want such clusters, write {plan.asked.line(sampler='variational')}"
    )


def divided(settler: Settler, labels: npt.ArrayLike, start: npt.ArrayLike | None) -> Divided | None:
    """Return how many clusters describe the rows clearly better than the labels, or None.

    Parameters
    ----------
    settler : Settler
        Its model is that of the labels, its data are real values; of others nothing is told. A given number of clusters
        stays; of an open one, more clusters are tried, with the hyper-parameters that fit them. The seed decides the
        sample of many rows, and k-means.
    labels : (N,) array_like of int
    start : (N,) array_like of int, or None
        Partition into a given number that a search has found.

    Returns
    -------
    Divided or None
        Of about as good numbers of clusters the smallest.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import Dataset, DiagonalGaussian, DirichletProcess, MixtureModel
    >>> from expfam.fitting.overlap import divided
    >>> from expfam.samplers.warm_starts.settle import Settler
    >>> X = np.random.default_rng(0).normal(size=(2000, 1)) + 2.6 * np.repeat([[0.0], [1.0]], 1000, axis=0)
    >>> data = Dataset(X, DiagonalGaussian())
    >>> settler = Settler(MixtureModel(data.family, DirichletProcess()), data, ("mean_strength", "rate"))
    >>> divided(settler, np.zeros(2000, dtype=int), None).n_clusters
    2
    """
    model, data, labels = settler.model, settler.data, np.asarray(labels)
    if data.family.is_discrete or data.n_rows < ROWS_OF_OVERLAP or _has_other_labels(model, data):
        return None
    if model.weights.max_components is None:
        start = None
    elif start is None or not _differ(labels, np.asarray(start)):
        return None
    n_rows = _n_rows(data, int(labels.max()) + 1)
    if n_rows < ROWS_OF_OVERLAP:
        return None
    rows = drawn_rows(data.n_rows, n_rows, seed=settler.seed, unit=_UNIT)
    part = settler if rows is None else replace(settler, data=data.take(rows))
    own = compact_labels(labels if rows is None else labels[rows])
    with single_blas():
        try:
            if start is None:
                return _of_open_number(part, own)
            return _of_given_number(
                part, own, compact_labels(np.asarray(start) if rows is None else np.asarray(start)[rows])
            )
        except CapabilityError:  # no mode, no bound, or no prior density
            return None


def _of_open_number(settler, labels):
    """Return the best of more clusters by the bound of the log evidence, or None."""
    K = int(labels.max()) + 1
    divisions = Divisions(settler.data, seed=settler.seed, n_threads=settler.n_threads)
    kernel = SparseVariational(n_threads=settler.n_threads)
    kernel.check(settler.model, settler.data)

    def bounds(metric, sizes):
        candidates = {size: divisions.kmeans(metric, size) for size in sizes}
        return bounds_of(kernel, settler, candidates, n_passes=_PASSES)

    own = bounds_of(kernel, settler, {K: labels}, n_passes=_PASSES)[K]
    found = bounds("own", (K + 1, (3 * K + 3) // 2, 2 * K + 2))
    if max(found.values()) - own <= _LEAST:
        return None
    for metric in divisions.metrics:  # in another one, fewer clusters may do as well
        for size, bound in bounds(metric, [size for size in found if metric != "own"]).items():
            found[size] = max(found[size], bound)
    best = max(found.values())
    fewest = min(size for size in found if best - found[size] <= _LEAST)
    return Divided(fewest, found[fewest] - own, settler.data.n_rows)


def _of_given_number(settler, labels, start):
    """Return the start, if its density is higher with labels summed out, or None.

    The evidence would prefer clusters of few rows, because they need no parameters: but so many clusters are asked for.
    """
    model, data, partitions = settler.model, settler.data, {"labels": labels, "start": start}
    scores = best_by_em(model, data, partitions, seed=settler.seed, n_threads=settler.n_threads).scores
    gain = scores["start"] - scores["labels"]
    return Divided(model.weights.max_components, gain, data.n_rows) if gain > _LEAST else None


def _has_other_labels(model, data):
    """Tell whether the labels of a fit are not those of a mode that was sought in all clusters."""
    return has_few_rows(model, data) or has_many_clusters(model, data)


def _differ(labels, start):
    """Tell whether two partitions put more than a few rows into other clusters."""
    first, second = by_first_appearance(labels)[1], by_first_appearance(start)[1]
    return bool(np.count_nonzero(first != second) > _OTHER * len(first))


def _n_rows(data, n_clusters):
    """Return how many rows are looked at: fewer where they are wide."""
    return min(data.n_rows, _MOST_ROWS, _MOST_WORK // (4 * _PASSES * 2 * n_clusters * data.n_statistics))
