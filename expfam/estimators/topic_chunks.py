"""`TopicModel.partial_fit` and `fit_chunks`: chunks of documents."""

from __future__ import annotations

from typing import Any, ClassVar

from expfam.estimators.chunks import ChunkLearner
from expfam.estimators.lines import line_of
from expfam.estimators.loaded import names_of_fit
from expfam.fitting.topic_starts import topic_start
from expfam.forecast.memory import check_memory
from expfam.model.data import Dataset
from expfam.params import is_auto
from expfam.samplers.named import find_sampler
from expfam.samplers.topics.gibbs import TopicGibbs
from expfam.samplers.topics.statistics import TopicSums, log_evidence_of_topics
from expfam.samplers.topics.variational import TopicVariational
from expfam.samplers.variational.schedules import Memoized, Stochastic


def learns_documents(model: Any) -> bool:
    """Return True; AttributeError says what to write where no chunks are learned."""
    if model.n_components is None:
        raise AttributeError(
            "chunks are learned with a given number of topics, and n_components is None: write"
            f" {line_of(model, n_components=50, sampler='variational')}"
        )
    if isinstance(model.sampler, TopicGibbs) or model.sampler == "gibbs":
        raise AttributeError(
            "Gibbs sampling needs all documents at once; chunks are learned with sampler='auto', 'variational' or"
            f" TopicVariational(...): write {line_of(model, sampler='variational')}"
        )
    return True


class TopicChunks(ChunkLearner):
    """What a topic model does with chunks of documents."""

    of_rows: ClassVar[tuple[str, ...]] = ("labels_", "probabilities_")

    def kernel(self, *, in_passes: bool = False) -> Any:
        """Return the kernel that learns chunks, with its schedule."""
        topics = self.estimator
        found = find_sampler(topics.sampler, model="TopicModel")
        kernel = topics._kernel(TopicVariational if found is None else found)
        if kernel.schedule is not None:
            return kernel
        if hasattr(topics, "stream_"):
            schedule = topics.stream_.schedule
        else:
            schedule = Memoized() if in_passes or kernel.documents != "cold" else Stochastic()
        return type(kernel)(**kernel.get_params() | {"schedule": schedule})

    def validated(self, X: Any, family: Any, *, reset: bool) -> Any:
        """Return the rows of a chunk, checked."""
        return self.estimator._validate(X, reset=reset, is_chunk=True)

    def open(self, X: Any, options: dict[str, Any], *, is_first: bool, in_passes: bool = False) -> tuple[Any, Dataset]:
        """Return the stream of a first chunk, or one that goes on from a fit; and the chunk."""
        topics = self.estimator
        kernel, seed = self.kernel(in_passes=in_passes), topics._seed()
        if is_first:
            model, data = topics._model(X, **options)
            check_memory(topics._forecast(data, kernel=kernel, model=model), topics.memory_limit)
            start = topics.start
            if is_auto(start):
                start = topic_start(kernel, model, data, start, seed=seed, n_threads=topics.n_threads)
            return kernel.stream(model, data, seed=seed, start=start), data
        model = topics._fitted_model()
        data, eta = Dataset(X, model.family, names=names_of_fit(topics), **options), model.family.pseudocounts()[0]
        counts = topics._word_counts()
        rest = topics.log_joint_ - log_evidence_of_topics(
            counts, eta, model.seeds
        )  # its documents' part of the bound, as it stands
        sums = TopicSums.of_counts(counts, rest=rest, weight=getattr(topics, "n_documents_", 0.0))
        return kernel.resumed_stream(model, data, sums, seed=seed), data

    def read(self, stream: Any) -> None:
        """Set the results of the estimator."""
        topics = self.estimator
        topics._adopt(stream, stream.total_weight)
        topics.method_ = stream.settings.local_of(stream.model.n_components)


__all__ = ["TopicChunks", "learns_documents"]
