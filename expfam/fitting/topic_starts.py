"""Starts of topic models: documents divided by k-means, or the kernel's own.

Documents of one topic each are told by k-means at once, while topics that begin as mixtures of all stay so for many
sweeps. Sweeps over many documents, also over those that mix many topics, predict as well from the division as from
other starts, and sooner. Few documents may be divided by chance, and variational passes stay near to where they begin:
there a few steps from each start decide.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from expfam.fitting.kept_run import kept_value
from expfam.model.assignment import extended_labels
from expfam.model.data import Dataset
from expfam.model.mixture import MixtureModel
from expfam.model.weights import SymmetricDirichlet
from expfam.params import is_auto
from expfam.samplers.chain.driver import advance
from expfam.samplers.geometry.drawn_rows import drawn_rows
from expfam.samplers.topics.gibbs import TopicGibbs
from expfam.samplers.topics.variational import TopicVariational
from expfam.samplers.warm_starts.candidates import Divisions
from expfam.samplers.warm_starts.settle import Settler

if TYPE_CHECKING:
    from collections.abc import Callable

    from expfam.forecast.memory import Forecast
    from expfam.model.admixture import AdmixtureModel

_MOST_CELLS = 1 << 22  # of sparse counts that are looked at as they are
_STEPS = 10
_CLEARLY = 0.002  # of the bound: where it is no more, passes from the division predict better
_FEW_DOCUMENTS = 1000
_RUNS = 4  # of k-means in each metric
_DOCUMENTS, _DOCUMENTS_EACH = 500, 50  # that are looked at, and of these for each topic
_UNIT = 11  # stream of the purpose "start"


def kept_start(search: Callable[..., Any], kernel: Any, model: Any, data: Dataset, own: Any, **options: Any) -> Any:
    """Return what a search finds, such as `topic_start`, or what a kept run has stored."""
    return kept_value(
        lambda: search(kernel, model, data, own, **options),
        lambda start: {} if isinstance(start, str) else {"start": np.asarray(start)},
        lambda arrays: np.array(arrays["start"]) if arrays else own,
    )


def topic_start(
    kernel: TopicGibbs | TopicVariational,
    model: AdmixtureModel,
    data: Dataset,
    own: Any,
    *,
    seed: int,
    n_threads: int | None,
) -> Any:
    """Return the start of documents divided by k-means, or the kernel's own if that is better.

    Parameters
    ----------
    kernel : TopicGibbs or TopicVariational
    model : AdmixtureModel
        Bound. With seeds of topics, whose numbers have a meaning, the kernel's own start is taken.
    data : Dataset
        Documents.
    own : str
        Name of the kernel's own start.
    seed : int
    n_threads : int or None
        The start does not depend on it.

    Returns
    -------
    str or ndarray
        `own`, or topics of tokens, or counts of words in topics.
    """
    if model.n_components == 1 or model.seeds is not None or data.n_rows <= model.n_components:
        return own
    data = data.counted()  # documents of weight 0 have no part in the fit
    rows = drawn_rows(data.n_rows, _n_looked_at(model.n_components), seed=seed, unit=_UNIT)
    part = data if rows is None else data.take(rows)
    labels = document_clusters(model, part, seed=seed, n_threads=n_threads)
    if labels is None:
        return own
    is_sampled = isinstance(kernel, TopicGibbs)
    if is_sampled and rows is not None:
        labels = extended_labels(_mixture(model), part, labels, data, n_threads=n_threads)
        part = data
    divided = _topics_of_tokens(part, labels) if is_sampled else clusters_as_topics(part, labels, model.n_components)
    if is_sampled and part.n_rows > _FEW_DOCUMENTS:
        return divided
    reached, by_division = (_reached(kernel, model, part, start, seed) for start in (own, divided))
    more = 0.0 if is_sampled else _CLEARLY * abs(by_division)
    return own if reached >= by_division + more else divided


def document_clusters(
    model: AdmixtureModel, data: Dataset, *, seed: int, n_threads: int | None
) -> npt.NDArray[np.int32] | None:
    """Divide documents by k-means in several metrics.

    Returns
    -------
    (D,) int32 ndarray
        Of the division with the highest log joint, whose documents have moved to their most probable cluster; None
        where all documents are in one.
    """
    settler = Settler(_mixture(model), data, seed=seed, n_threads=n_threads)
    divisions = Divisions(data, seed=seed, n_threads=n_threads)
    K = model.n_components
    found = [settler.fitted(divisions.kmeans(metric, K, run)) for metric in divisions.metrics for run in range(_RUNS)]
    best = settler.ascended(max(found, key=lambda one: one.log_joint))
    return best.labels if best.labels.any() else None


def clusters_as_topics(data: Dataset, labels: npt.NDArray[np.int32], n_clusters: int) -> npt.NDArray[np.float64]:
    """Return the counts of words in clusters of documents, weights counted: (V, K) float64.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import Dataset, Multinomial
    >>> from expfam.fitting.topic_starts import clusters_as_topics
    >>> clusters_as_topics(Dataset([[1, 2], [3, 4], [5, 6]], Multinomial()), np.array([0, 1, 1]), 2)
    array([[ 1.,  8.],
           [ 2., 10.]])
    """
    weight = np.ones(data.n_rows) if data.weight is None else data.weight
    sums = sparse.csr_array((weight, (labels, np.arange(data.n_rows))), shape=(n_clusters, data.n_rows))
    counts = sums @ sparse.csr_array(data.X, dtype=np.float64)
    return np.ascontiguousarray(counts.toarray().T)


def start_memory(data: Dataset, n_topics: int) -> int:
    """Return the bytes that the division of documents needs, beside the states of its steps.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import Dataset, Multinomial
    >>> from expfam.fitting.topic_starts import start_memory
    >>> start_memory(Dataset(np.ones((10, 5), dtype=int), Multinomial()), 2)
    3360
    """
    n = min(data.n_rows, _n_looked_at(n_topics))
    cells = n * data.n_features
    # coordinates of sparse rows are projections; counts and their logarithms are looked at where they are few
    columns = 64 if data.is_sparse else data.n_features
    return n * (28 * columns + 76) + (24 * cells if cells <= _MOST_CELLS or not data.is_sparse else 0)


def forecast_with_search(forecast: Forecast, data: Dataset, start: Any, n_topics: int) -> Forecast:
    """Return the forecast of memory of a fit with the search for a start before it.

    Parameters
    ----------
    forecast : Forecast
        Without the search.
    data : Dataset
    start : str or array_like
    n_topics : int
    """
    search = start_memory(data, n_topics) if is_auto(start) else 0
    return replace(forecast, scratch=forecast.scratch + max(0, search + forecast.statistics - forecast.beside_data))


def _n_looked_at(n_topics):
    return _DOCUMENTS + _DOCUMENTS_EACH * n_topics


def _mixture(model):
    return MixtureModel(model.family, SymmetricDirichlet(model.n_components, 1.0))


def _reached(kernel, model, data, start, seed):
    """Return the log joint or bound after a few steps."""
    # without what waits for topics that have settled
    plain = {"learn_eta": False} if isinstance(kernel, TopicGibbs) else {"schedule": None}
    kernel = type(kernel)(**kernel.get_params() | plain)
    state = kernel.init(model, data, seed=seed, start=start)
    advance(kernel, state, _STEPS)
    return state.log_joint


def _topics_of_tokens(data, labels):
    """Return the topics of documents as those of their tokens, sorted by word, then by document."""
    X = sparse.csc_array(data.X)
    X.sort_indices()
    return np.repeat(labels[X.indices], X.data.astype(np.int64)).astype(np.int32)
