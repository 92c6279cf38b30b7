"""Starts of topics of unknown number.

Variational inference begins with few clusters of documents, then with more. A local step is attracted to the topics it
begins with. Topics that begin as mixtures of all documents end as too many, and merges of two do not undo that.
Clusters of documents are apart from the first step on, and a few steps from each number of them tell which number has
the highest bound. Births and merges do the rest.

Sampling begins with more topics than will be left, because single tokens hardly begin one. How many more depends on the
documents: where many are nearly alike, chains of few topics stay thousands of nats below chains of many. A few sweeps
tell it.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from expfam.fitting.topic_starts import clusters_as_topics, document_clusters, forecast_with_search
from expfam.forecast.memory import forecast_topics
from expfam.model.admixture import AdmixtureModel
from expfam.samplers.chain.driver import advance
from expfam.samplers.nonparametric.topics import TopicProcessGibbs, default_n_topics
from expfam.samplers.nonparametric.weights import TINY, log_density_given_tables
from expfam.structures.ground.rng import generator

if TYPE_CHECKING:
    from expfam.forecast.memory import Forecast
    from expfam.model.data import Dataset
    from expfam.model.hierarchical import HierarchicalProcess
    from expfam.samplers.nonparametric.topic_variational import TopicProcessVariational

_FEWEST = 5  # clusters of documents, and twice as many each time
_STEPS = 8  # from each number: the shared weights and the pseudo-count of words are learned from the fifth step on
_PATIENCE = 2  # numbers in a row that do not raise the bound, after which larger ones are not looked at
_SWEEPS = 5  # from each number of topics of a sampler, after which their order hardly changes
_TRIED, _MOST = 2, (8, 4)  # times as many topics that are tried; the first in reach is tried where these are better
_CLEARLY = 0.005  # of the log joint: chains of one number differ by 0.3 % from seed to seed
_SHORTEST = 10.0  # tokens of a document: to try more topics for shorter ones takes a fifth of their fit
_UNIT = 1  # of the random numbers that count tables
_MOST_ENTRIES = 1 << 25  # words times topics of a start,
_ENTRIES_EACH = 8  # and of each token, for each time: starts from a larger vocabulary take longer than many sweeps
_MOVES = {"merge": False, "n_deletions": 0, "n_births": 0}


def process_start(
    kernel: TopicProcessVariational,
    model: HierarchicalProcess,
    data: Dataset,
    own: str,
    *,
    seed: int,
    n_threads: int | None,
) -> str | npt.NDArray[np.float64]:
    """Return counts of words in the topics that reach the highest bound in a few steps.

    Parameters
    ----------
    kernel : TopicProcessVariational
        The steps are made with its settings, without moves.
    model : HierarchicalProcess
        Bound.
    data, own, seed, n_threads
        As of `topic_start`.

    Returns
    -------
    str or (V, K) float64 ndarray
        `own` where there are no more documents than the fewest clusters.
    """
    data = data.counted()  # documents of weight 0 have no part in the fit
    plain = type(kernel)(**kernel.get_params() | _MOVES | {"schedule": None})
    best, found, n_failed, most = -np.inf, own, 0, _most_topics(data)
    n_clusters = _FEWEST
    while n_clusters <= most and n_clusters < data.n_rows and n_failed < _PATIENCE:
        start = _divided(model, data, n_clusters, seed, n_threads)
        state = plain.init(model, data, seed=seed, start=start)
        advance(plain, state, _STEPS)
        n_failed = 0 if state.log_joint > best else n_failed + 1
        if not n_failed:
            best, found = state.log_joint, state.word_counts.copy()
        n_clusters *= 2
    return found


def sampled_start(
    kernel: Any, model: HierarchicalProcess, data: Dataset, own: str, *, seed: int, n_threads: int | None = None
) -> str | npt.NDArray[np.int32]:
    """Return the topics of tokens from which a sampler of an unknown number begins.

    Twice the usual number of topics is compared with the usual number. Where its log joint is clearly higher after a
    few sweeps, eight times the usual number is tried too, or four times, and the highest of the three is the start. Few
    sweeps do not tell four from eight times, which end higher.

    Parameters
    ----------
    kernel : TopicProcessGibbs or Cycle
        Not used: the sweeps learn the concentrations alone.
    model : HierarchicalProcess
        Bound.
    data : Dataset
        Whole counts.
    own : str
        Name of the kernel's own start.
    seed : int
    n_threads : int or None
        Not used.

    Returns
    -------
    str or (T,) int32 ndarray
        `own` where more topics are not tried; see `most_sampled_topics`.
    """
    n_few, n_most = _usual_topics(model, data), most_sampled_topics(model, data)
    if n_most == n_few:
        return own
    few, more = (_swept(model, data, times * n_few, seed) for times in (1, _TRIED))
    if more.value - few.value < _CLEARLY * abs(few.value):
        return few.topics
    return max(more, _swept(model, data, n_most, seed), key=attrgetter("value")).topics


def most_sampled_topics(model: HierarchicalProcess, data: Dataset) -> int:
    """Return the largest number of topics that a sampler of an unknown number begins with.

    It is the usual number where documents are few or short, or words so many that a start takes long or much memory.
    """
    few, n_tokens = _usual_topics(model, data), float(data.X.sum())
    if n_tokens < _SHORTEST * data.n_rows:
        return few
    for times in _MOST:
        most = times * few
        has_many_words = most * data.n_features > min(_MOST_ENTRIES, times * _ENTRIES_EACH * n_tokens)
        if most <= data.n_rows and not has_many_words:
            return most
    return few


def forecast_process(data: Dataset, kernel: Any, start: Any, **options: Any) -> Forecast:
    """Return the forecast of memory of a variational fit, with the search for its start.

    Parameters
    ----------
    data : Dataset
        Documents.
    kernel : TopicProcessVariational
    start : str or array_like
    **options : object
        Of `forecast_topics`.
    """
    most = _most_topics(data)
    given = AdmixtureModel(data.family, most)
    forecast = forecast_topics(data, kernel=kernel, model=given, start=start, **options)
    return forecast_with_search(forecast, data, start, most)


def _usual_topics(model, data):
    """Return the number of topics that a sampler begins with by itself."""
    return max(default_n_topics(int(data.X.sum()), data.n_rows), model.n_known)


class _Reached(NamedTuple):
    """Log joint after some sweeps, without the shared weights, and topics of tokens before them."""

    value: float
    topics: npt.NDArray[np.int32]


def _swept(model, data, n_topics, seed):
    """Return what a few sweeps reach from some topics, and these topics.

    The chain of the fit begins with them, and makes the same sweeps.
    """
    kernel = TopicProcessGibbs()
    state = kernel.init(model, data, seed=seed, start="variational", n_clusters=n_topics)
    topics = state.labels.copy()
    advance(kernel, state, _SWEEPS)
    rng = generator(seed, "start", unit=_UNIT)
    tables = state.topic_table.draw_tables(np.maximum(state.shared.pseudocounts, TINY), rng)
    return _Reached(state.log_joint - log_density_given_tables(state.weights, tables, model.n_known), topics)


def _most_topics(data):
    """Return the largest number of topics that a fit of some documents begins with."""
    return min(default_n_topics(int(data.X.sum()), data.n_rows), data.n_rows)


def _divided(model, data, n_clusters, seed, n_threads):
    """Return counts of words in clusters of documents, (V, K): one where they are all alike."""
    given = AdmixtureModel(model.family, n_clusters)
    labels = document_clusters(given, data, seed=seed, n_threads=n_threads)
    labels = np.zeros(data.n_rows, dtype=np.int32) if labels is None else labels
    counts = clusters_as_topics(data, labels, n_clusters)
    return counts[:, counts.any(axis=0)]
