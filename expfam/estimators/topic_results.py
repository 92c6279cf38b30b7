"""What a fit of topics keeps of its run: topics, their draws, and labels of documents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from expfam.estimators.base import set_trace
from expfam.estimators.loaded import keep_rows
from expfam.estimators.place_means import PlaceMeans
from expfam.estimators.sweep_means import FourthSweeps
from expfam.estimators.topic_draws import keep_topics
from expfam.estimators.topic_places import adopt_places
from expfam.estimators.unknown_numbers import drop_weights
from expfam.estimators.unknown_topics import adopt_unknown
from expfam.fitting.steps import was_level
from expfam.model.data import Dataset
from expfam.samplers.variational.learner import weight_of

if TYPE_CHECKING:
    from expfam.fitting.topic_run import TopicPlan, TopicRun
    from expfam.protocols import Floats

OF_DOCUMENTS = ("labels_", "probabilities_")


class SweepMeans(FourthSweeps):
    """Callback that averages counts of words in topics and pseudo-counts over sweeps."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Any = None
        self.alpha: Any = 0.0

    def add(self, state: Any) -> None:
        """Add a state to the sums."""
        if self.counts is None:
            self.counts = np.zeros((len(state.eta), state.model.n_components))
        state.add_word_topics(self.counts)
        self.alpha = self.alpha + state.model.pseudocounts

    def means(self, state: Any) -> tuple[Floats, Floats]:
        """Return counts (V, K) and pseudo-counts; of the state where no sweep was counted."""
        self.keep_one(state)
        return self.counts / self.n_kept, self.alpha / self.n_kept


def adopt_run(topics: Any, plan: TopicPlan, run: TopicRun) -> None:
    """Keep the topics of a run, and draws of them."""
    state, data = run.state, plan.data
    set_trace(topics, run.trace)
    topics.converged_ = was_level(run.trace, plan.kernel, state, data.X.sum())
    topics.__dict__.pop("stream_", None)
    if isinstance(plan.means, PlaceMeans):
        adopt_places(topics, state, plan.means)
    elif topics.n_components is None:
        adopt_unknown(topics, state, plan.means)
    else:
        given = state.model.pseudocounts
        counts, alpha = plan.means.means(state) if plan.is_sampled else (state.word_counts, given)
        adopt_given(topics, state, counts, alpha, weight_of(data))
        topics.method_ = "gibbs" if plan.is_sampled else plan.kernel.local_of(plan.model.n_components)
    keep_topics(topics, plan.kept)


def adopt_given(topics: Any, state: Any, counts: Floats, alpha: Floats, n_documents: float) -> None:
    """Keep a given number of topics.

    Parameters
    ----------
    topics : TopicModel
    state : State or TopicStream
        It has the model, the pseudo-counts of words and the log joint.
    counts : (V, K) float64 ndarray
        Tokens of words in topics, without seeds.
    alpha : (K,) float64 ndarray
    n_documents : float
        Sum of their weights.
    """
    drop_weights(topics)
    eta = state.model.family.concentration
    topics.alpha_, topics.eta_ = alpha, float(eta) if np.ndim(eta) == 0 else np.array(eta)
    topics.__dict__.pop("seeds_", None)
    if state.model.seeds is not None:
        topics.seeds_ = state.model.seeds
    topics.components_ = np.ascontiguousarray((state.model.seeded(counts) + state.eta[:, None]).T)
    topics.log_joint_, topics.n_documents_ = float(state.log_joint), float(n_documents)
    topics._n_features_out = len(topics.components_)


def adopt_documents(topics: Any, X: Any, weight: Any) -> None:
    """Keep the main topic of each document, and some documents for `coarsen`."""
    set_main_topics(topics, X)
    if not topics.interrupted_:
        keep_rows(topics, Dataset(X, topics.family_, weight=weight), topics._labels, seed=topics._seed())


def set_main_topics(topics: Any, X: Any) -> None:
    """Set the main topic of each document and its share; Ctrl-C leaves them out."""
    for name in OF_DOCUMENTS:
        topics.__dict__.pop(name, None)
    if topics.interrupted_:
        return
    try:
        columns, shares = topics._largest_weights(X, 1)
    except KeyboardInterrupt:
        topics.interrupted_ = topics.trace_.interrupted = True
        return
    topics.labels_, topics.probabilities_ = columns[:, 0], shares[:, 0].astype(np.float32)
