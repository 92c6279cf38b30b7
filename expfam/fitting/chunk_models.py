"""How the chunks of each model are opened: rows of a mixture, rows in groups, documents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from expfam.errors import CapabilityError
from expfam.families.columns.family import Columns
from expfam.fitted.scoring import opened_rows
from expfam.fitting.chunks import ChunkPlan, Opened
from expfam.fitting.few_rows import other_families, warn_of_others
from expfam.fitting.grouped_starts import forecast_with_start, start_of_groups
from expfam.fitting.kept_chunks import complete_rows
from expfam.fitting.searched_starts import passes_of, searched_start
from expfam.fitting.topic_starts import forecast_with_search, topic_start
from expfam.fitting.unknown_topic_starts import forecast_process, process_start
from expfam.fitting.weighted_rows import start_of_counted
from expfam.forecast.memory import check_memory, forecast_memory, forecast_topics
from expfam.model.admixture import AdmixtureModel
from expfam.model.data import Dataset
from expfam.model.mixture import MixtureModel
from expfam.params import is_auto
from expfam.samplers.chain.kernel import check_known
from expfam.samplers.warm_starts.sample_rows import rows_for_start

if TYPE_CHECKING:
    import numpy.typing as npt

    from expfam.fitting.kept_chunks import Chunk
    from expfam.fitting.plan import Asked
    from expfam.model.hierarchical import HierarchicalProcess
    from expfam.samplers.topics.statistics import TopicSums


class FitOfRows(NamedTuple):
    """A mixture from which chunks go on: its model and statistics.

    Attributes
    ----------
    model : MixtureModel
    n, S : (K,) and (K, F)
    is_weighted : bool
        Whether rows had weights.
    n_classes : int
        Classes of which cluster j is that of class j; 0 if there are none.
    """

    model: MixtureModel
    n: npt.NDArray[np.float64]
    S: Any
    is_weighted: bool
    n_classes: int

    def told(self, stream: Any) -> Any:
        """Return a stream that knows whether rows had weights, and the number of classes."""
        stream.is_weighted, stream.n_classes = self.is_weighted, self.n_classes
        return stream


class FitOfGroups(NamedTuple):
    """A grouped mixture from which chunks go on."""

    model: AdmixtureModel
    n: npt.NDArray[np.float64]
    S: Any
    group_counts: Any
    log_joint: float


@dataclass(frozen=True)
class _ChunksOfRows(ChunkPlan):
    """Chunks of rows whose family is bound to the first ones.

    Attributes
    ----------
    asked : Asked
        Family, prior of the weights, and what is learned.
    """

    asked: Asked

    def first_data(self, chunk: Chunk) -> Dataset:
        """Return the first chunk; its family takes missing cells and other values in later ones."""
        family = self.asked.family
        is_open = not isinstance(family, Columns) or family.is_bound
        family = family if is_open else family.with_hyper(holes="any")
        data = Dataset(chunk.X, family, names=self.names, **chunk.options)
        if not self.asked.family.is_bound:
            data.family = data.family.for_more_rows()
        return data

    def rows_for_start(self, data: Dataset) -> int:
        """Return the number of rows that the search for a start looks at; `data` is the first chunk."""
        return rows_for_start(MixtureModel(data.family, self.asked.weights), data)

    def sample_of(self, joined: Chunk) -> Chunk:
        """Return joined chunks without the rows to which the family cannot be bound.

        It is opened for these rows later. The first chunk alone has shown that some rows remain.
        """
        return joined if self.asked.family.allows_missing else complete_rows(joined)

    def tells(self, data: Dataset, start: Any, *, is_told: bool, seed: int) -> bool:
        """Warn, once for a run of chunks, where another family describes the first ones better.

        Parameters
        ----------
        data : Dataset
            Rows of the first chunks that count.
        start : str or (N,) array_like of int
            Their labels where they were searched.
        is_told : bool
            Whether an earlier stream of the run has told it.
        seed : int

        Returns
        -------
        bool
            Whether it has been told.
        """
        if is_told or not is_auto(self.start) or isinstance(start, str):
            return is_told
        labels = np.asarray(start)
        found = other_families(self.asked, data, labels, seed=seed)
        return warn_of_others(self.asked, data, int(labels.max()) + 1, found)


@dataclass(frozen=True)
class RowChunks(_ChunksOfRows):
    """Chunks of a mixture.

    Attributes
    ----------
    has_classes : bool
        Whether rows have classes, which give a start.
    fit : FitOfRows or None
        Where learning goes on from; None before a first chunk.
    """

    has_classes: bool = False
    fit: FitOfRows | None = None

    @property
    def searches(self) -> bool:
        """Whether a start is searched, so that first chunks are kept for it."""
        return self.fit is None and is_auto(self.start) and not self.has_classes

    def opened(self, chunk: Chunk, *, is_told: bool = False) -> Opened:
        """Return the stream of a first chunk, or one that goes on from a fit."""
        kernel, fit = self.kernel, self.fit
        if self.asked.learn_hyper is True:
            raise CapabilityError(
                "learn_hyper=True: hyper-parameters are not learned from chunks: write"
                f" {self.asked.owner}(learn_hyper=False), and give their values to the family"
            )
        if fit is None:
            data, S = self.first_data(chunk), None
            model = MixtureModel(data.family, self.asked.weights)
        else:
            data, S = opened_rows(chunk.X, fit.model.family, fit.n, fit.S, names=self.names, **chunk.options)
            model = fit.model.with_family(data.family)
        forecast = forecast_memory(data, n_components=kernel.max_clusters(model), kernel=kernel, model=model)
        check_memory(forecast, self.memory_limit)
        seed = self.seed
        if fit is None:
            return self._first(model, data, seed, is_told)
        if data.known is not None:
            check_known(kernel, model, data.known)
        return Opened(fit.told(kernel.resumed_stream(model, data, fit.n, S, seed=seed)), data)

    def _first(self, model, data, seed, is_told):
        """Return the stream of a first chunk; the start is searched where none was given."""
        weighted, start = data.counted(), start_of_counted(data, self.start)
        if model.weights.max_components is not None or self.searches:
            start, model = self._searched(model, weighted, start, seed)
            is_told = self.tells(weighted, start, is_told=is_told, seed=seed)
        stream = self.kernel.stream(model, weighted, seed=seed, start=start)
        stream.n_classes = 0 if data.known is None else data.known.n_classes
        return Opened(stream, data, is_told)

    def _searched(self, model, data, start, seed):
        """Return the start, and the model whose prior fits it."""
        found = searched_start(
            data,
            start,
            model.weights.max_components,
            self.asked.family,
            weights=model.weights,
            most_clusters=self.kernel.max_clusters(model),
            passes=passes_of(self.kernel),
            learn_hyper=False if self.asked.learn_hyper is False else "auto",
            seed=seed,
            n_threads=self.n_threads,
        )
        return found.start, model.with_family(found.family)


@dataclass(frozen=True)
class GroupChunks(_ChunksOfRows):
    """Chunks of whole groups.

    Attributes
    ----------
    learn_hyper : bool or "auto"
        Which hyper-parameters of the family are fitted to a searched start.
    model : AdmixtureModel or None
        Of a first chunk, with a family that need not be bound.
    fit : FitOfGroups or None
        Where learning goes on from; None before a first chunk.
    """

    learn_hyper: Any = "auto"
    model: Any = None
    fit: FitOfGroups | None = None

    @property
    def searches(self) -> bool:
        """Whether a start is searched, so that first chunks are kept for it."""
        return self.fit is None and is_auto(self.start)

    def opened(self, chunk: Chunk, *, is_told: bool = False) -> Opened:
        """Return the stream of a first chunk, or one that goes on from a fit."""
        kernel, fit, seed = self.kernel, self.fit, self.seed
        if fit is not None:
            data, S = opened_rows(chunk.X, fit.model.family, fit.n, fit.S, names=self.names, **chunk.options)
            so_far = (fit.n, S, fit.group_counts, fit.log_joint)
            return Opened(kernel.resumed_stream(fit.model.with_family(data.family), data, *so_far, seed=seed), data)
        data = self.first_data(chunk)
        model, weighted, start = self.model.with_family(data.family), data.counted(), start_of_counted(data, self.start)
        K = model.n_components
        forecast = forecast_memory(weighted, n_components=K, kernel=kernel, model=model)
        check_memory(forecast_with_start(forecast, weighted, start, K), self.memory_limit)
        options = {"learn_hyper": self.learn_hyper, "seed": seed, "n_threads": self.n_threads}
        labels, family = start_of_groups(kernel, model, weighted, start, self.asked.family, **options)
        is_told = self.tells(weighted, labels, is_told=is_told, seed=seed)
        return Opened(kernel.stream(model.with_family(family), weighted, seed=seed, start=labels), data, is_told)


@dataclass(frozen=True)
class DocumentChunks(ChunkPlan):
    """Chunks of documents.

    Attributes
    ----------
    model : AdmixtureModel
        Bound: of a first chunk, or of the fit from which learning goes on.
    sums : TopicSums or None
        Of that fit.
    """

    model: AdmixtureModel
    sums: TopicSums | None = None

    def counted(self, data: Dataset) -> Dataset:
        """Return all documents; those of weight 0 add nothing."""
        return data

    def opened(self, chunk: Chunk, *, is_told: bool = False) -> Opened:
        """Return the stream of a first chunk, or one that goes on from a fit."""
        kernel, model, start, seed = self.kernel, self.model, self.start, self.seed
        data = Dataset(chunk.X, model.family, names=self.names, **chunk.options)
        if self.sums is not None:
            return Opened(kernel.resumed_stream(model, data, self.sums, seed=seed), data)
        forecast = forecast_topics(data, kernel=kernel, model=model)
        check_memory(forecast_with_search(forecast, data, start, model.n_components), self.memory_limit)
        if is_auto(start):
            start = topic_start(kernel, model, data, start, seed=seed, n_threads=self.n_threads)
        return Opened(kernel.stream(model, data, seed=seed, start=start), data)


@dataclass(frozen=True)
class ProcessChunks(ChunkPlan):
    """Chunks of documents whose number of topics is unknown.

    Attributes
    ----------
    model : HierarchicalProcess
        Bound: of a first chunk.
    """

    model: HierarchicalProcess

    def counted(self, data: Dataset) -> Dataset:
        """Return all documents; those of weight 0 add nothing."""
        return data

    def opened(self, chunk: Chunk, *, is_told: bool = False) -> Opened:
        """Return the stream of a first chunk."""
        kernel, model, start, seed = self.kernel, self.model, self.start, self.seed
        data = Dataset(chunk.X, model.family, names=self.names, **chunk.options)
        check_memory(forecast_process(data, kernel, start), self.memory_limit)
        if is_auto(start):
            start = process_start(kernel, model, data, start, seed=seed, n_threads=self.n_threads)
        return Opened(kernel.stream(model, data, seed=seed, start=start), data)
