"""How `TopicModel(None, sampler="documents")` is fitted: by exact sampling on threads.

The number of topics has a limit, above any that is likely to be found, so that each topic has a place of its own.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import Any

import numpy as np
from scipy import sparse

from expfam.errors import DataError
from expfam.estimators.base import step_numbers
from expfam.estimators.place_means import PlaceMeans, parts_of_topics
from expfam.estimators.topic_draws import draws_to_keep
from expfam.estimators.topic_words import learns_eta
from expfam.estimators.unknown_numbers import concentration_of, learns_concentrations, refuse_unknown
from expfam.estimators.unknown_topics import adopt_found, check_data, observed_rules, phases_of, refuse_learn_hyper
from expfam.fitting.kept_run import not_keeping
from expfam.fitting.topic_run import TopicPlan
from expfam.fitting.topic_starts import kept_start
from expfam.fitting.unknown_topic_starts import most_sampled_topics
from expfam.forecast.memory import forecast_topics
from expfam.model.admixture import AdmixtureModel
from expfam.model.data import Dataset
from expfam.model.finite_process import FiniteProcess, default_n_places
from expfam.model.hierarchical import HierarchicalProcess
from expfam.params import is_auto
from expfam.samplers.named import find_sampler
from expfam.samplers.nonparametric.topics import TopicProcessGibbs, default_n_topics
from expfam.samplers.shards.sample import chosen_rows
from expfam.samplers.topics.document_gibbs import DocumentGibbs

_SAMPLED_TOKENS, _UNIT = 1 << 20, 4  # in whose documents a start looks for topics, and the stream that draws these
_FEW_SWEEPS = {"n_warmup": 80, "n_steps": 20, "n_draws": 0}  # of the start
_KNOWN = "TopicModel(None, sampler='gibbs')"


def draws_documents(sampler: Any) -> bool:
    """Return whether a sampler is `DocumentGibbs`, or its name."""
    return isinstance(sampler, DocumentGibbs) or (isinstance(sampler, str) and sampler == "documents")


def planned_places(topics: Any, data: Dataset) -> TopicPlan:
    """Return the plan of a fit of an unknown number of topics, each of which has a place."""
    n_steps, n_warmup = step_numbers(topics)
    check_data(topics, data)
    if not data.X.sum():
        raise DataError("TopicModel: the documents have no words, so there are no topics to be counted: give others")
    if topics.seeds is not None:
        refuse_unknown("TopicModel", "seeds with sampler='documents'", f"{_KNOWN}, which takes seeds")
    kernel, seed = _kernel_of(topics), topics._seed()
    process = HierarchicalProcess(data.family, concentration_of(topics))
    model = _model_of(topics, process, data)
    kept = draws_to_keep(topics, n_steps)
    named = "variational" if is_auto(topics.start) else topics.start
    few = _few_documents(data, seed) if is_auto(topics.start) else None
    forecast = partial(_forecast, data, few, process, kernel=kernel, model=model, start=named, kept=kept)
    phases = phases_of(topics, kernel, n_warmup, n_steps)
    begin = partial(_begun, kernel, model, process, named, seed)
    options = {"start": named, "begin": begin, "seed": seed, "has_labels": False}
    topics._check_run(model, data, phases, kernel=kernel, forecast=forecast, **options)
    first = partial(_named_start, process) if few is None else partial(_found_start, topics, few)
    search = partial(kept_start, first, kernel, model, data, named, seed=seed)
    run = (model, data, kernel, phases, named, seed, search)
    return TopicPlan(*run, means=PlaceMeans(parts_of_topics), kept=kept, observed=observed_rules(phases))


def _few_documents(data, seed):
    """Return documents with words, of about a million tokens."""
    X = sparse.csr_array(data.X)
    lengths = np.asarray(X.sum(axis=1)).ravel()
    filled = np.flatnonzero(lengths)
    n_documents = int(np.ceil(_SAMPLED_TOKENS / lengths[filled].mean()))
    return Dataset(X[filled[chosen_rows(len(filled), n_documents, seed, _UNIT)]], data.family)


def _forecast(data, few, process, **options):
    """Forecast the memory of a fit, or of the start among few documents if that is more."""
    own = forecast_topics(data, **options)
    if few is None:
        return own
    given = AdmixtureModel(few.family, most_sampled_topics(process, few))
    start = forecast_topics(few, kernel=TopicProcessGibbs(), model=given, start="variational")
    start = replace(start, data=own.data, scratch=start.scratch + start.data, remedy=own.remedy)
    return max(own, start, key=attrgetter("beside_data"))


def _found_start(topics, few, kernel, model, data, named, *, seed):
    """Return topics of tokens (T,), drawn given those that some documents have.

    A collapsed sampler finds these. Its splits, merges and searches for equal topics save hundreds of sweeps.
    """
    settings = {name: getattr(topics, name) for name in ("alpha", "eta", "learn_hyper")}
    collapsed = type(topics)(None, sampler="gibbs", random_state=seed, **settings, **_FEW_SWEEPS)
    with not_keeping():
        collapsed.fit(few.X)
    found = collapsed.components_[: model.n_components]
    given = AdmixtureModel(data.family, len(found), collapsed.alpha_[: len(found)])
    drawing = DocumentGibbs(n_threads=kernel.n_threads)
    state = drawing.init(given, data, seed=seed, start=(found / found.sum(axis=1, keepdims=True)).T)
    X = sparse.csr_array(data.X)
    words = np.repeat(X.indices, X.data.astype(np.int64))
    return state.labels[np.argsort(words, kind="stable")]


def _named_start(process, kernel, model, data, named, *, seed):
    """Return the topics of tokens that a start of `TopicProcessGibbs` stands for: (T,) int."""
    return TopicProcessGibbs().first_labels(named, process, data, seed, None)


def _begun(kernel, model, process, named, seed, data):
    """Return the state in which a run over a sample of documents begins."""
    start = TopicProcessGibbs().sample_start(named, data, None)
    return kernel.init(model, data, seed=seed, start=_named_start(process, kernel, model, data, start, seed=seed))


def _model_of(topics, process, data):
    """Return the process with a limit of topics: four times as many as a sampler begins with."""
    L = default_n_places(default_n_topics(int(data.X.sum()), data.n_rows))
    if not isinstance(topics.start, str):
        L = max(L, int(np.max(topics.start, initial=0)) + 1)
    return FiniteProcess(data.family, L, alpha=process.alpha / L)


def _kernel_of(topics):
    """Return the kernel that was given, or one with the settings of the estimator."""
    if isinstance(find_sampler(topics.sampler, model="TopicModel"), DocumentGibbs):
        refuse_learn_hyper(topics)
        return topics.sampler
    learned = {"learn_alpha": learns_concentrations(topics), "learn_eta": learns_eta(topics)}
    return DocumentGibbs(**learned, learn_every=1, n_threads=topics.n_threads)


def adopt_places(topics: Any, state: Any, means: PlaceMeans) -> None:
    """Keep the topics that a run has found, the largest first.

    Parameters
    ----------
    topics : TopicModel
    state : DocumentState
    means : PlaceMeans
        Over the counted sweeps.
    """
    sizes, counts, _ = means.means(state)
    listed = means.listed()
    adopt_found(topics, state, counts[:, listed].T, sizes[listed], means.weights(listed), float(state.data.n_rows))
    topics.method_ = "gibbs"
