"""The plan of a fit of topics: its settings, checked, and what "auto" stands for in them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from expfam.errors import CapabilityError
from expfam.estimators.base import alpha_or, check_learn_hyper, refuse_warmup, step_numbers
from expfam.estimators.topic_draws import draws_to_keep, refuse_draws
from expfam.estimators.topic_places import draws_documents, planned_places
from expfam.estimators.topic_results import SweepMeans
from expfam.estimators.topic_seeds import seed_matrix
from expfam.estimators.topic_words import documents_of, learns_eta, names_of_words, sampled_eta
from expfam.estimators.unknown_topics import planned_unknown
from expfam.families.support import first_where, repeated
from expfam.fitting.phases import Phase
from expfam.fitting.topic_run import TopicPlan
from expfam.fitting.topic_starts import forecast_with_search, kept_start, topic_start
from expfam.forecast.memory import forecast_topics
from expfam.model.admixture import AdmixtureModel
from expfam.params import is_auto, refuse_unused
from expfam.samplers.named import find_sampler
from expfam.samplers.topics.document_gibbs import DocumentGibbs
from expfam.samplers.topics.gibbs import TopicGibbs
from expfam.samplers.topics.variational import TopicVariational

if TYPE_CHECKING:
    from expfam.model.data import Dataset

_ALPHA = 0.1  # where learning begins
_SAMPLERS = (TopicGibbs, DocumentGibbs)


def planned_topics(topics: Any, X: Any, sample_weight: Any) -> TopicPlan:
    """Return the plan of a fit; all that can be refused is refused here."""
    step_numbers(topics)
    plan = planned_places if draws_documents(topics.sampler) else planned_unknown
    if topics._check_components() is not None:
        plan = _planned_given
    return plan(topics, documents_of(topics, X, weight=sample_weight))


def _planned_given(topics, data):
    """Return the plan of a fit of a given number of topics."""
    n_steps, n_warmup = step_numbers(topics)
    model = given_model(topics, data)
    kernel, seed = kernel_of_topics(topics, _method(topics, data)), topics._seed()
    is_sampled, start = isinstance(kernel, _SAMPLERS), topics.start
    kept = draws_to_keep(topics, n_steps)
    if is_sampled:
        phases = _sweeps(kernel, n_warmup, n_steps)
        # from random topics the sampler needs twice the sweeps, and ends behind on long documents
        start = "variational" if is_auto(start) else start
    else:
        refuse_draws(topics, "variational inference")
        refuse_warmup(topics, "take sampler='gibbs', for whole counts without weights")
        phases = [Phase(kernel, n_steps)]
    run = {"kernel": kernel, "model": model, "start": start}
    forecast = partial(_forecast, topics, data, kept=kept, **run)
    topics._check_run(data=data, phases=phases, forecast=forecast, seed=seed, has_labels=False, **run)
    searching = TopicGibbs(learn_alpha=kernel.learn_alpha) if isinstance(kernel, DocumentGibbs) else kernel
    search = partial(kept_start, topic_start, searching, model, data, start, seed=seed, n_threads=topics.n_threads)
    of_draws = {"means": SweepMeans(), "kept": kept} if is_sampled else {}
    return TopicPlan(model, data, kernel, phases, start, seed, search if is_auto(topics.start) else None, **of_draws)


def given_model(topics: Any, data: Dataset) -> AdmixtureModel:
    """Return the model of a given number of topics, as learning begins."""
    K, alpha = topics._check_components(), alpha_or(topics, _ALPHA)
    seeds = seed_matrix(topics.seeds, topics.seed_tokens, data.X, K, names_of_words(topics, data.n_features))
    return AdmixtureModel(data.family, K, alpha, seeds)


def _method(topics, data):
    """Return the kernel that was given, or the class that suits the data."""
    found = find_sampler(topics.sampler, model="TopicModel")
    is_weighted = data.weight is not None and (data.weight != 1.0).any()
    if found is None:
        is_whole = first_where(data.X, lambda values: values != np.floor(values)) is None
        return TopicGibbs if is_whole and not is_weighted else TopicVariational
    if is_weighted and (found in _SAMPLERS or isinstance(found, _SAMPLERS)):
        raise CapabilityError(
            "TopicModel: Gibbs sampling cannot use sample_weight, for the tokens of each copy of a document have"
            f" topics of their own: write TopicModel(sampler='variational').fit(X,"
            f" sample_weight=sample_weight), or where all weights are whole numbers {repeated('sample_weight')}"
        )
    return found


def kernel_of_topics(topics: Any, method: Any) -> Any:
    """Return the kernel of a class with this model's settings, or a given kernel as it is."""
    check_learn_hyper(topics)
    if isinstance(method, (*_SAMPLERS, TopicVariational)):
        why = "a kernel, which says itself what it learns,"
        refuse_unused(topics, ["learn_hyper"], why=why, remedy="give the kernel learn_alpha and learn_eta")
        return method
    if method in _SAMPLERS:
        own = {} if method is TopicGibbs else {"n_threads": topics.n_threads}
        return method(learn_alpha=is_auto(topics.alpha), **sampled_eta(topics), **own)
    # the bound of variational inference prefers smaller pseudo-counts than predict best
    return TopicVariational(learn_eta=learns_eta(topics), n_threads=topics.n_threads)


def _sweeps(kernel, n_warmup, n_steps):
    """Return the phases of the sweeps.

    A pseudo-count of words that is learned from topics which are still nearly random keeps them so: it waits.
    """
    first = type(kernel)(**kernel.get_params() | {"learn_eta": False})
    half = n_warmup // 2
    return [Phase(first, half), Phase(kernel, n_warmup - half), Phase(kernel, n_steps)]


def _forecast(topics, data, **run):
    """Forecast the memory of a fit, or of the search before it if that is more."""
    return forecast_with_search(forecast_topics(data, **run), data, topics.start, topics.n_components)
