"""The plan of a grouped fit: its settings, checked, and what "auto" stands for in them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from expfam.estimators.base import alpha_or, check_learn_hyper, refuse_warmup, step_numbers
from expfam.estimators.family_estimator import compared_rows
from expfam.estimators.group_names import grouped_rows
from expfam.estimators.group_places import placed_start, process_with_limit
from expfam.estimators.lines import line_of
from expfam.estimators.loaded import names_of_fit
from expfam.estimators.unknown_groups import (
    GIVEN_CLUSTERS,
    GUESSED_CLUSTERS,
    unknown_kernel,
    unknown_model,
    unknown_start,
)
from expfam.estimators.unknown_numbers import refuse_unknown
from expfam.fitting.free_columns import FreeColumns, free_columns
from expfam.fitting.grouped_starts import forecast_with_start, grouped_start
from expfam.fitting.known_rows import known_rows
from expfam.fitting.phases import Phase
from expfam.fitting.plan import Asked
from expfam.fitting.weighted_rows import check_weights, start_of_counted
from expfam.forecast.memory import forecast_memory
from expfam.model.admixture import AdmixtureModel
from expfam.model.data import Dataset
from expfam.model.groups import as_groups
from expfam.model.weights import DirichletProcess, SymmetricDirichlet
from expfam.params import check_value, is_auto
from expfam.samplers.chain.kernel import check_known
from expfam.samplers.grouped.gibbs import GroupedGibbs
from expfam.samplers.grouped.variational import GroupedVariational
from expfam.samplers.named import find_sampler
from expfam.samplers.nonparametric.group_variational import GroupedProcessVariational
from expfam.samplers.shards.grouped_gibbs import GroupedUncollapsedGibbs
from expfam.samplers.warm_starts.ties import spread_memory, spread_ties

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from expfam.families.base import Family
    from expfam.model.groups import Groups
    from expfam.model.known import Known

_ALPHA = 1.0  # of all clusters together, where learning begins


@dataclass(frozen=True)
class GroupedPlan:
    """Everything that a grouped fit needs to know; nothing changes while the fit goes on.

    Attributes
    ----------
    asked : Asked
        Of a mixture of the rows without their groups.
    model : AdmixtureModel or HierarchicalProcess
    every : Dataset
        All rows with all columns.
    whole : Dataset
        The same rows with the columns that the run sees.
    data : Dataset
        Rows of weight above 0.
    seen : Dataset
        The same rows as the run sees them: repeated real values may be spread.
    groups : Groups
        Of all rows.
    known : Known or None
        Classes and links of rows as they were given.
    classes : ndarray or None
        Names of the classes.
    kernel : Kernel
    phases : list of Phase
        The warm-up, and the steps that count.
    start : str or (N,) array_like of int
    seed : int
    begin : callable
        ``begin(data)`` returns the state in which a run begins.
    free : FreeColumns or None
        The columns that the run sees, where others are left out.
    """

    asked: Asked
    model: Any
    every: Dataset
    whole: Dataset
    data: Dataset
    seen: Dataset
    groups: Groups
    known: Known | None
    classes: npt.NDArray[Any] | None
    kernel: Any
    phases: list[Phase]
    start: Any
    seed: int
    begin: Callable[[Dataset], Any]
    free: FreeColumns | None

    @property
    def makes_means(self) -> bool:
        """Tell whether the result has means over sweeps."""
        return self.kernel.is_sampler

    @property
    def is_placed(self) -> bool:
        """Tell whether parameters of the clusters are drawn, so that clusters have places."""
        return isinstance(self.kernel, GroupedUncollapsedGibbs)

    @property
    def is_held(self) -> bool:
        """Tell whether known classes or links hold rows where they are."""
        return self.data.known is not None


def planned_groups(mixture: Any, X: Any, y: Any, groups: Any, sample_weight: Any, links: Any) -> GroupedPlan:
    """Return the plan of a fit; all that can be refused is refused here."""
    step_numbers(mixture)
    kernel = kernel_of_groups(mixture)
    X, y, groups = grouped_rows(X, groups, y, labels=mixture.labels)
    asked, groups, known, classes, every = _asked_rows(mixture, X, y, groups, sample_weight, links)
    is_automatic = is_auto(mixture.sampler)
    free = free_columns(asked.family, every.counted()) if is_automatic else None
    whole = every if free is None else free.part(every)
    model, seed = model_of_groups(mixture, whole.family, whole.known), mixture._seed()
    _check_weights(mixture, kernel, model, whole)
    is_placed = isinstance(kernel, GroupedUncollapsedGibbs)
    if is_placed and mixture.n_components is None:
        model = process_with_limit(whole.family, model.alpha)
    data = whole.counted()  # rows of weight 0 have no part in the fit
    if known is not None:
        check_known(kernel, model, known)
    start = start_of_counted(whole, mixture.start)
    find = placed_start if is_placed else grouped_start if mixture.n_components else unknown_start
    begin = partial(find, kernel, model, start=start)
    options = {"family": asked.family, "learn_hyper": mixture.learn_hyper, "seed": seed}
    begin = partial(begin, **options, n_threads=mixture.n_threads)
    seen = spread_ties(data, mixture.n_components, seed=seed) if is_automatic else data
    phases = _phases(mixture, kernel)
    mixture._check_run(
        model,
        data,
        phases,
        kernel=kernel,
        forecast=partial(_forecast, mixture, data, kernel=kernel, model=model, start=start),
        start=start,
        begin=begin if is_auto(start) else None,
        seed=seed,
        has_labels=not is_placed,  # the rows of their states lie in a part
    )
    rows = (every, whole, data, seen, groups, known, classes)
    return GroupedPlan(asked, model, *rows, kernel, phases, start, seed, begin, free)


def asked_of_groups(mixture: Any) -> Asked:
    """Return what is asked of a mixture of the rows without their groups."""
    K, line = mixture.n_components, partial(line_of, mixture)
    return Asked(mixture._family(), _weights_of_rows(K), K, "auto", mixture.n_threads, line, type(mixture).__name__)


def kernel_of_groups(mixture: Any) -> Any:
    """Return the kernel that was given, or one with the settings of the mixture."""
    if mixture.n_components is None:
        return unknown_kernel(mixture)
    found = find_sampler(mixture.sampler, model="GroupedMixture")
    check_learn_hyper(mixture)
    if isinstance(found, (GroupedGibbs, GroupedUncollapsedGibbs, GroupedVariational)):
        return found
    if found is GroupedUncollapsedGibbs:
        return GroupedUncollapsedGibbs(learn_alpha=is_auto(mixture.alpha), n_threads=mixture.n_threads)
    if found is GroupedVariational:
        return GroupedVariational(learn_alpha=is_auto(mixture.alpha), n_threads=mixture.n_threads)
    return GroupedGibbs(learn_alpha=is_auto(mixture.alpha))


def model_of_groups(mixture: Any, family: Family, known: Known | None = None) -> Any:
    """Return the model with the pseudo-counts from which learning begins."""
    K = mixture._check_components()
    if K is None:
        return unknown_model(mixture, family, known)
    return AdmixtureModel(family, K, alpha_or(mixture, _ALPHA / K))


def _weights_of_rows(K):
    return DirichletProcess() if K is None else SymmetricDirichlet(K, 1.0)


def _asked_rows(mixture, X, y, groups, sample_weight, links):
    """Return what is asked, groups, known rows, the names of their classes, and all rows."""
    read, K = mixture._validate(X, reset=True), mixture._check_components()
    X = compared_rows(mixture, X, read, lambda: _weights_of_rows(K), sample_weight)
    groups = as_groups(groups, X.shape[0])
    check_value("GroupedMixture: labels", mixture.labels, (None, "clusters"))
    if links is not None and K is None:
        sampler = {} if is_auto(mixture.sampler) else {"sampler": "gibbs"}  # which takes links
        line = line_of(mixture, n_components=GIVEN_CLUSTERS, **sampler)
        refuse_unknown("GroupedMixture", "links", f"{line}.fit(X, groups=groups, links=links)")
    known, classes = known_rows("GroupedMixture", mixture.labels, y, links, X.shape[0])
    held = known if known is not None and (known.n_classes or known.groups) else None
    options = {"weight": sample_weight, "groups": groups, "known": held, "names": names_of_fit(mixture)}
    options["n_threads"] = mixture.n_threads
    asked = asked_of_groups(mixture)
    return asked, groups, known, classes, Dataset(X, asked.family, **options)


def _check_weights(mixture, kernel, model, whole):
    """Refuse weights of rows for kernels that take none."""
    check_weights(
        kernel,
        model,
        whole,
        sampler=mixture.sampler,
        owner="GroupedMixture",
        line=partial(line_of, mixture),
        others=lambda: {"variational": GroupedVariational() if mixture.n_components else GroupedProcessVariational()},
        fit="fit(X, groups=groups",
    )


def _phases(mixture, kernel):
    """Return the warm-up and the steps that count; variational inference has no warm-up."""
    n_steps, n_warmup = step_numbers(mixture)
    if not kernel.is_sampler:
        refuse_warmup(mixture, "take sampler='gibbs'")
        n_warmup = 0
    return [Phase(kernel, n_warmup), Phase(kernel, n_steps)]


def _forecast(mixture, data, *, kernel, model, start):
    """Forecast the memory of a fit, with that of the search for a start."""
    K = GUESSED_CLUSTERS if mixture.n_components is None else model.n_components
    forecast = forecast_memory(data, n_components=K, kernel=kernel, model=model)
    if is_auto(mixture.sampler):
        forecast = replace(forecast, scratch=forecast.scratch + spread_memory(data, mixture.n_components))
    return forecast_with_start(forecast, data, start, K)
