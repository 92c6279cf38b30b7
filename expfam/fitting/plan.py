"""What a fit is going to do, decided once before any work: model, rows, kernel, steps."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from expfam.fitting.free_columns import FreeColumns, free_columns
from expfam.fitting.free_covariances import comparison_memory
from expfam.fitting.kept import drawn_memory
from expfam.fitting.known_rows import kernel_of_rows
from expfam.fitting.smaller_fits import with_remedy_of_rows
from expfam.fitting.spread_endings import has_few_distinct_rows
from expfam.fitting.spread_statistics import AddedSquares, OtherSpreads, added_squares
from expfam.forecast.memory import forecast_memory, label_bytes
from expfam.params import is_auto
from expfam.samplers.warm_starts.sample_rows import search_memory
from expfam.samplers.warm_starts.ties import Ties, spread_memory, spread_ties, tied_columns

if TYPE_CHECKING:
    from collections.abc import Callable

    from expfam.families.base import Family
    from expfam.forecast.memory import Forecast
    from expfam.model.data import Dataset
    from expfam.model.mixture import MixtureModel
    from expfam.protocols import Weights
    from expfam.samplers.chain.kernel import Kernel

LOSSES = {"vi": "vi", "point": "vi", "binder": "binder", "omari": "omari"}
PARTITIONS = ("mode", *LOSSES, "last")
_DRAW_BYTES = 10**8  # of the draws that "auto" keeps


class Asked(NamedTuple):
    """What was asked of a fit, whatever the estimator.

    Attributes
    ----------
    family : Family
        As it was given, which tells what may be learned.
    weights : Weights
        Of a mixture of all rows.
    n_components : int or None
    learn_hyper : bool or "auto"
    n_threads : int or None
    line : callable
        ``line(**changes)`` is the text that makes the estimator with some settings changed, for messages.
    owner : str
        Name of the estimator, for messages.
    """

    family: Family
    weights: Weights
    n_components: int | None
    learn_hyper: Any
    n_threads: int | None
    line: Callable[..., str]
    owner: str

    def learned_of(self, family: Family) -> tuple[str, ...]:
        """Return the names of the hyper-parameters of a family that are learned."""
        return learned_hyper(self.learn_hyper, family)


@dataclass(frozen=True)
class Plan:
    """Everything that a run needs to know; nothing of it changes while the run goes on.

    Attributes
    ----------
    asked : Asked
    model : MixtureModel
        Its family is bound to the data.
    whole : Dataset
        All rows.
    data : Dataset
        Rows of weight above 0.
    seen : Dataset
        The same rows as the chains see them: repeated real values may be spread.
    sampler : str or Kernel
        As it was given.
    kernel : Kernel
        Makes the steps over all rows.
    n_chains : int
    starts : tuple
        Labels or the name of a start, for each chain; the plan of one chain has its own alone.
    has_own_starts : bool
        Whether each chain was given its own start.
    seed : int
    n_steps, n_warmup : int
        As given, or what "auto" stands for where no rule decides.
    is_automatic : bool
        Whether the sampler was left to the package.
    has_rule : bool
        Whether a rule on the log joint ends the run.
    is_warmup_left : bool
        Whether the length of the warm-up was left to the package.
    partition : str
        Which partition becomes the result.
    n_draws : int
        Draws that are kept at most, of all chains together.
    callbacks : tuple of callable

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import Mixture
    >>> plan = Mixture("poisson", 2, n_steps=30).plan_fit(np.arange(8).reshape(4, 2))
    >>> plan.n_steps, plan.n_chains, plan.max_clusters, plan.has_rule
    (30, 1, 2, False)
    """

    asked: Asked
    model: MixtureModel
    whole: Dataset
    data: Dataset
    seen: Dataset
    sampler: Any
    kernel: Kernel
    n_chains: int
    starts: tuple[Any, ...]
    has_own_starts: bool
    seed: int
    n_steps: int
    n_warmup: int
    is_automatic: bool
    has_rule: bool
    is_warmup_left: bool
    partition: str
    n_draws: int
    callbacks: tuple[Callable[[Any, Any], Any], ...] = ()

    @cached_property
    def learned(self) -> tuple[str, ...]:
        """Hyper-parameters of the family that are learned."""
        return self.asked.learned_of(self.asked.family)

    @property
    def n_threads(self) -> int | None:
        """Threads of the run."""
        return self.asked.n_threads

    @cached_property
    def max_clusters(self) -> int | None:
        """Most clusters that the prior allows; None where the number is open."""
        return self.model.weights.max_components

    @property
    def draws_of_chain(self) -> int:
        """Draws that one chain keeps at most."""
        return min(self.n_draws, max(1, self.n_draws // self.n_chains))

    @property
    def keeps_number(self) -> bool:
        """Tell whether the result has as many clusters as were asked for."""
        return self.asked.n_components is not None and not self.data.family.is_discrete

    @property
    def seeks_open_mode(self) -> bool:
        """Tell whether the end of a run is a mode, with a number of clusters that may change."""
        return self.has_rule and self.partition == "mode" and self.data.known is None and not self.keeps_number

    @cached_property
    def adapts_prior(self) -> bool:
        """Tell whether the prior of the clusters' shape is left to the package."""
        return is_auto(getattr(self.asked.family, "scale", None))

    def searches_start(self, start: Any) -> bool:
        """Tell whether a start is left to the search."""
        return is_auto(start)

    def shares_variance(self, start: Any) -> bool:
        """Tell whether one variance of all clusters is learned, and labels come from k-means.

        It has to fit before rows move: under one that is too small each row opens a cluster of its own, whose evidence
        says nothing about the variance, and no step comes back from there.
        """
        return is_auto(start) and "shared_variance" in self.learned

    @cached_property
    def free(self) -> FreeColumns | None:
        """The columns that chains see where others are left out; else None."""
        return free_columns(self.asked.family, self.data) if self.is_automatic else None

    def of_free_columns(self) -> Plan:
        """Return the plan of a fit of the free columns, the plan itself where no column is left out."""
        if self.free is None:
            return self
        whole = self.free.part(self.whole)
        data = whole.counted()
        model = self.model.with_family(whole.family)
        kernel = kernel_of_rows(self.sampler, model, data, n_threads=self.n_threads)
        plan = replace(self, model=model, whole=whole, data=data, seen=data, kernel=kernel)
        return plan.with_spread_ties()

    def with_spread_ties(self) -> Plan:
        """Return the plan whose chains see repeated real values spread.

        Nothing is spread where a sampler was given. Densities of repeated values are infinite; the result has the data
        as they are. Where columns are left out, the plan of the others spreads its own.
        """
        if not self.is_automatic or self.free is not None:
            return self
        return replace(self, seen=spread_ties(self.data, self.max_clusters, seed=self.seed, tied=self._tied))

    @cached_property
    def _tied(self) -> Ties:
        """Columns of the data with repeated values, which the chains see spread."""
        return tied_columns(self.data, self.max_clusters)

    @cached_property
    def _added_ties(self) -> Ties:
        """Columns whose values the end of a run has spread; of categories, constant ones."""
        if self.seen is self.data or hasattr(self.data.family, "real_columns"):  # categories hold clusters together
            return {}
        if self.ends_on_seen:
            return self._tied
        X = self.data.X
        return {j: tie for j, tie in self._tied.items() if (X[:, j] == X[0, j]).all()}

    @cached_property
    def added(self) -> AddedSquares | None:
        """What seeing repeated values spread adds to rows on average."""
        return added_squares(self.data, self._added_ties) if self._added_ties else None

    @cached_property
    def other_spreads(self) -> OtherSpreads:
        """The rows with repeated values spread otherwise than the chains see them."""
        return OtherSpreads(self.data, self.max_clusters, self._added_ties, self.seed)

    @cached_property
    def ends_on_seen(self) -> bool:
        """Tell whether the end is one of the spread rows.

        Those of tables, of categories and with known rows are not: what is known holds clusters together.
        """
        is_plain = self.data.known is None and not hasattr(self.data.family, "real_columns")
        return self.seen is not self.data and is_plain and not has_few_distinct_rows(self.data)

    def of_chain(self, chain: int, *, n_threads: int, callback: Callable[[Any, Any], Any]) -> Plan:
        """Return the plan of one of several chains, with its own start, threads and callback."""
        kernel = kernel_of_rows(self.sampler, self.model, self.seen, n_threads=n_threads)
        asked, starts = self.asked._replace(n_threads=n_threads), (self.starts[chain],)
        return replace(self, asked=asked, kernel=kernel, starts=starts, callbacks=(callback,))

    def without_learning(self) -> Plan:
        """Return the plan with hyper-parameters that stay as they are."""
        return replace(self, asked=self.asked._replace(learn_hyper=False))

    def forecast(self, *, is_copy: bool = False) -> Forecast:
        """Forecast the memory of the fit, with that of the search for a start.

        Parameters
        ----------
        is_copy : bool
            Whether the rows are held beside those of the user.
        """
        K, data = self.max_clusters, self.data
        sizes: dict[str, Any] = {"n_components": K, "kernel": self.kernel, "model": self.model}
        forecast = forecast_memory(data, n_draws=self.n_draws, **sizes)
        if self.n_chains > 1:
            forecast = forecast.with_chains(self.n_chains - 1, forecast_memory(data, **sizes))
        more = search_memory(data, K) if any(map(self.searches_start, self.starts)) else 0
        more += spread_memory(data, K, self._tied) if self.is_automatic else 0
        more += comparison_memory(data, K) if self.has_rule else 0
        more += forecast.data if is_copy else 0
        more += drawn_memory(self.n_draws, forecast.n_components, data.n_statistics)
        forecast = replace(forecast, scratch=forecast.scratch + more)
        return with_remedy_of_rows(forecast, self) if forecast.is_of_tables else forecast


def n_automatic_draws(n_rows: int, n_components: int | None) -> int:
    """Return how many draws are kept where the number was left open.

    Examples
    --------
    >>> from expfam.fitting.plan import n_automatic_draws
    >>> n_automatic_draws(1000, 3), n_automatic_draws(10**6, 3), n_automatic_draws(10**8, 3)
    (400, 100, 20)
    """
    return int(np.clip(_DRAW_BYTES // (n_rows * label_bytes(n_components or 1)), 20, 400))


def learned_hyper(learn_hyper: Any, family: Family) -> tuple[str, ...]:
    """Return the names of the hyper-parameters that are learned.

    Parameters
    ----------
    learn_hyper : bool or "auto"
        "auto" learns those that the family learns by default and that were left at "auto".
    family : Family
        As it was given.
    """
    if is_auto(learn_hyper):
        return tuple(name for name in family.learned_by_default if is_auto(getattr(family, name)))
    return tuple(family.hyper) if learn_hyper else ()
