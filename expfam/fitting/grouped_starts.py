"""Starts of rows in groups: one that is searched among the rows alone, or random clusters.

A row of few counts says little by itself. Where the other rows of its group tell its cluster, random clusters are the
better start, because sweeps over the groups see that; where rows tell it themselves, the searched start is.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from expfam.fitting.kept_run import kept_value
from expfam.fitting.searched_starts import searched_start
from expfam.params import is_auto
from expfam.samplers.chain.driver import advance
from expfam.samplers.grouped.variational import GroupedVariational
from expfam.samplers.variational.schedules import Stochastic
from expfam.samplers.warm_starts.sample_rows import search_memory

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from expfam.families.base import Family
    from expfam.forecast.memory import Forecast
    from expfam.model.admixture import AdmixtureModel
    from expfam.model.data import Dataset

_STEPS = 10


def kept_state(begin: Callable[[], Any], blank: Callable[[], Any]) -> Any:
    """Return the state that `begin` makes, or the one that a kept run has stored.

    Parameters
    ----------
    begin : callable
        Makes the state in which a run begins.
    blank : callable
        Makes any state of the same kernel, model and data, into which the kept one is read.
    """

    def read(arrays):
        state = blank()
        state.from_arrays(arrays)
        return state

    return kept_value(begin, lambda state: state.to_arrays(), read)


def grouped_start(
    kernel: Any,
    model: AdmixtureModel,
    data: Dataset,
    start: Any,
    family: Family,
    *,
    learn_hyper: Any = "auto",
    seed: int,
    n_threads: int | None,
) -> Any:
    """Return the state in which a run begins.

    Parameters
    ----------
    kernel : GroupedGibbs or GroupedVariational
    model : AdmixtureModel
        Bound.
    data : Dataset
        With groups.
    start : str or (N,) array_like of int
        It is searched where it is "auto", and no classes of rows are known.
    family : Family
        As it was given, which tells what may be learned.
    learn_hyper : bool or "auto"
        Which hyper-parameters of the family are fitted to a searched start: all, none, or those left at "auto".
    seed : int
    n_threads : int or None

    Returns
    -------
    State
        With the hyper-parameters of the family that fit a searched start.
    """
    K = model.n_components
    found = searched_start(data, start, K, family, learn_hyper=learn_hyper, seed=seed, n_threads=n_threads)
    searched = kernel.init(model.with_family(found.family), data, seed=seed, start=found.start)
    is_searched = is_auto(start) and not isinstance(found.start, str)
    if not is_searched or not data.family.is_discrete or K == 1:
        return searched
    random = kernel.init(searched.model, data, seed=seed, start="random")
    for state in (searched, random):
        advance(kernel, state, _STEPS)
    best = searched if searched.log_joint >= random.log_joint else random
    return kernel.init(searched.model, data, seed=seed, start=np.array(best.labels))


def forecast_with_start(forecast: Forecast, data: Dataset, start: Any, n_components: int) -> Forecast:
    """Return the forecast of memory of a fit, with that of `grouped_start`.

    The search looks at some rows of counts, from which the fit begins twice; of other data it looks at all rows.

    Parameters
    ----------
    forecast : Forecast
        Without the search.
    data : Dataset
    start : str or (N,) array_like of int
    n_components : int
    """
    if not is_auto(start):
        return forecast
    forecast = replace(forecast, scratch=forecast.scratch + search_memory(data, n_components))
    if not data.family.is_discrete or n_components == 1:
        return forecast
    return forecast.with_chains(1, replace(forecast, scratch=0))


def start_of_groups(
    kernel: GroupedVariational, model: AdmixtureModel, data: Dataset, start: Any, family: Family, **options: Any
) -> tuple[npt.NDArray[np.int32], Family]:
    """Return the clusters in which a stream begins, and the family whose prior fits them.

    Passes over its first groups decide. The parameters are those of `grouped_start`.
    """
    if isinstance(kernel.schedule, Stochastic):  # only for chunks
        kernel = GroupedVariational(kernel.n_active, learn_alpha=kernel.learn_alpha, n_threads=kernel.n_threads)
    state = grouped_start(kernel, model, data, start, family, **options)
    return np.array(state.labels), state.model.family
