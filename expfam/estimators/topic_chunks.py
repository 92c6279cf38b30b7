"""`TopicModel.partial_fit` and `fit_chunks`: chunks of documents."""

from __future__ import annotations

from typing import Any

from expfam.estimators.chunks import ChunkWays, rows_and_weight, settings_of_plan
from expfam.estimators.lines import line_of
from expfam.estimators.topic_draws import refuse_draws
from expfam.estimators.topic_plan import given_model, kernel_of_topics
from expfam.estimators.topic_results import OF_DOCUMENTS, adopt_given
from expfam.estimators.topic_words import documents_of
from expfam.estimators.unknown_topics import adopt_stream, chunk_kernel, chunk_model
from expfam.fitting.chunk_models import DocumentChunks, ProcessChunks
from expfam.samplers.named import find_sampler
from expfam.samplers.nonparametric.topics import TopicProcessGibbs
from expfam.samplers.topics.document_gibbs import DocumentGibbs
from expfam.samplers.topics.gibbs import TopicGibbs
from expfam.samplers.topics.statistics import TopicSums, log_evidence_of_topics
from expfam.samplers.topics.variational import TopicVariational
from expfam.samplers.variational.schedules import Memoized, Stochastic


def learns_documents(model: Any) -> bool:
    """Return True; AttributeError says what to write where no chunks are learned."""
    if is_sampled(model.sampler):
        raise AttributeError(
            "Gibbs sampling needs all documents at once; chunks are learned with sampler='auto', 'variational' or"
            f" TopicVariational(...): write {line_of(model, sampler='variational')}"
        )
    return True


def is_sampled(sampler: Any) -> bool:
    """Return whether a sampler, or any part of a `Cycle`, draws topics of tokens."""
    parts = getattr(sampler, "kernels", (sampler,))
    kernels = (TopicGibbs, TopicProcessGibbs, DocumentGibbs)
    return any(isinstance(part, kernels) or part in ("gibbs", "documents") for part in parts)


def kernel_of_chunks(topics: Any, *, in_passes: bool = False) -> Any:
    """Return the kernel that learns chunks, with its schedule."""
    kernel = _given_kernel(topics)
    if kernel.schedule is not None:
        return kernel
    if hasattr(topics, "stream_"):
        schedule = topics.stream_.schedule
    else:
        schedule = Memoized() if in_passes or kernel.documents != "cold" else Stochastic()
    return type(kernel)(**kernel.get_params() | {"schedule": schedule})


def _given_kernel(topics):
    """Return the kernel of the settings, whose schedule may be None."""
    if topics.n_components is None:
        return chunk_kernel(topics)
    found = find_sampler(topics.sampler, model="TopicModel")
    return kernel_of_topics(topics, TopicVariational if found is None else found)


def _plan(topics, *, is_first, in_passes, X, options):
    refuse_draws(topics, "learning from chunks")
    kernel, sums = kernel_of_chunks(topics, in_passes=in_passes), None
    if topics.n_components is None:
        model = chunk_model(topics, X, options, is_first=is_first)
        return ProcessChunks(**settings_of_plan(topics, kernel), model=model)
    if hasattr(topics, "stream_"):
        model = topics.stream_.model
    elif is_first:
        model = given_model(topics, documents_of(topics, X, **options))
    else:
        model, sums = topics._fitted_model(), _sums_of_fit(topics)
    return DocumentChunks(**settings_of_plan(topics, kernel), model=model, sums=sums)


def _sums_of_fit(topics):
    """Return the sums from which learning goes on."""
    counts, model = topics._word_counts(), topics._fitted_model()
    evidence = log_evidence_of_topics(counts, model.family.pseudocounts()[0], model.seeds)
    rest = topics.log_joint_ - evidence  # its documents' part of the bound, as it stands
    return TopicSums.of_counts(counts, rest=rest, weight=getattr(topics, "n_documents_", 0.0))


def _read(topics, stream):
    """Set the results of a topic model."""
    if topics.n_components is None:
        adopt_stream(topics, stream)
        return
    adopt_given(topics, stream, stream.word_counts, stream.model.pseudocounts, stream.total_weight)
    topics.method_ = stream.settings.local_of(stream.model.n_components)


def _parts(topics, chunk):
    return rows_and_weight(chunk)


DOCUMENTS = ChunkWays(_plan, _read, _parts, of_rows=OF_DOCUMENTS)
