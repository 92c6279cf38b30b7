"""Starts of variational topics of unknown number: few clusters of documents, then more.

A local step is attracted to the topics it begins with. Topics that begin as mixtures of all documents end as too many,
and merges of two do not undo that. Clusters of documents are apart from the first step on, and a few steps from each
number of them tell which number has the highest bound. Births and merges do the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from expfam.fitting.topic_starts import clusters_as_topics, document_clusters, forecast_with_search
from expfam.forecast.memory import forecast_topics
from expfam.model.admixture import AdmixtureModel
from expfam.samplers.chain.driver import advance
from expfam.samplers.nonparametric.topics import default_n_topics

if TYPE_CHECKING:
    from expfam.forecast.memory import Forecast
    from expfam.model.data import Dataset
    from expfam.model.hierarchical import HierarchicalProcess
    from expfam.samplers.nonparametric.topic_variational import TopicProcessVariational

_FEWEST = 5  # clusters of documents, and twice as many each time
_STEPS = 8  # from each number: the shared weights and the pseudo-count of words are learned from the fifth step on
_PATIENCE = 2  # numbers in a row that do not raise the bound, after which larger ones are not looked at
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
    data : Dataset
        Documents.
    own : str
        Name of the kernel's own start.
    seed : int
    n_threads : int or None
        The start does not depend on it.

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
