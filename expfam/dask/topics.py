"""Topics of documents that lie on the workers of a Dask cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator

from expfam.dask.likeness import engine_on  # isort: skip  (it says what to install where Dask is missing)
import distributed

from expfam.amounts import counted
from expfam.dask.collections import free_bytes, labels_of, mapped, parts_of
from expfam.dask.completion import completion_of_blocks
from expfam.dask.runs import stored_run
from expfam.dask.unknown_numbers import check_limit, first_shares, n_places
from expfam.errors import CapabilityError, ResourceError
from expfam.estimators.lines import line_of
from expfam.estimators.place_means import PlaceMeans, parts_of_topics
from expfam.estimators.topic_results import adopt_given
from expfam.estimators.topics import TopicModel as LocalTopicModel
from expfam.estimators.unknown_numbers import concentration_of, drop_weights, set_weights
from expfam.estimators.unknown_topics import adopt_found
from expfam.families.counts.multinomial import Multinomial
from expfam.fitting.steps import with_progress
from expfam.model.admixture import AdmixtureModel
from expfam.model.finite_process import FiniteProcess
from expfam.params import is_auto
from expfam.samplers.shards.checkpoint import stored_seed
from expfam.samplers.shards.sample import chosen_rows
from expfam.samplers.topics.corpus import LEAST_ETA
from expfam.samplers.topics.document_gibbs import DocumentGibbs
from expfam.samplers.topics.document_parts import DocumentParts
from expfam.structures.ground.rng import resolve_seed

_ALPHA, _ETA = 0.1, 0.01  # where learning begins
_SAMPLED_DOCUMENTS = 4000  # in which a start looks for topics
_TABLES = 6  # of words and topics that a worker, or the client, holds at a time


class TopicModel(BaseEstimator):
    """Latent Dirichlet allocation of documents on a Dask cluster.

    The documents stay on the workers. A step sends the probabilities of words in topics to them, and fetches counts.
    The topics of all tokens are the same bits for any number of workers, chunks and threads, also if workers are lost
    on the way. The sampler is exact: see `expfam.samplers.topics.document_gibbs.DocumentGibbs`.

    Parameters
    ----------
    n_components : int or None
        Number of topics; None: it is unknown, and found under a hierarchical Dirichlet process.
    max_components : int, optional
        Where the number is unknown, the most topics that there can be: four times as many as 4,000 documents have, from
        50 to 1,000, if not given. The tables that a step sends have so many columns.
    alpha : "auto", float or (K,) array_like
        Pseudo-counts of topics in documents; "auto" draws them with the topics. Of an unknown number one number, the
        concentration of documents.
    eta : float or (V,) array_like, optional
        Pseudo-counts of words in topics. If not given they are learned, but never below 0.015, from topics that are not
        random, and 0.01 from those that are; of an unknown number they are what 4,000 documents tell.
    n_steps : int
        Sweeps that count.
    n_warmup : int
        Sweeps before them.
    start : "auto", "random" or (K, V) array_like
        Probabilities of words in topics, from which the first topics are drawn. "auto" takes those that an
        `expfam.TopicModel` finds in 4,000 documents, drawn at random.
    random_state : None, int, numpy Generator or RandomState
    callbacks : sequence of callable or "progress", optional
        Called as ``callback(info, state)`` after each step.
    client : distributed.Client, optional
        The current one if not given.

    Attributes
    ----------
    labels_ : dask array of shape (D,), int32
        Main topic of each document. It lies on the workers, which make lost pieces of it again.
    components_ : (K, V) float64 ndarray
        Pseudo-counts of words in topics: `eta` and the mean number of tokens.
    alpha_ : (K,) float64 ndarray
    beta_, rest_, concentration_, gamma_ : (K,) float64 ndarray and floats
        Of an unknown number: weights of the topics in all documents, that of all others, and both concentrations.
    log_joint_ : float
    trace_ : Trace
    n_documents_, n_features_in_ : int
    n_lost_ : int
        Number of workers that were lost during the fit.

    Examples
    --------
    >>> import dask.array as da
    >>> from distributed import Client
    >>> from expfam.dask import TopicModel
    >>> client = Client(n_workers=2, threads_per_worker=1)                                          # doctest: +SKIP
    >>> X = da.from_array([[4, 4, 0, 0], [0, 0, 4, 4]] * 500, chunks=(300, 4))                      # doctest: +SKIP
    >>> topics = TopicModel(2, random_state=0, client=client).fit(X)                                # doctest: +SKIP
    >>> topics.to_local().save("model.npz")                                                         # doctest: +SKIP
    """

    def __init__(
        self,
        n_components: int | None = 50,
        *,
        max_components: int | None = None,
        alpha: Any = "auto",
        eta: Any = None,
        n_steps: int = 100,
        n_warmup: int = 100,
        start: Any = "auto",
        random_state: Any = None,
        callbacks: Sequence[Callable[..., Any]] | str | None = None,
        client: distributed.Client | None = None,
    ) -> None:
        self.n_components, self.max_components, self.alpha, self.eta = n_components, max_components, alpha, eta
        self.n_steps, self.n_warmup, self.start = n_steps, n_warmup, start
        self.random_state, self.callbacks, self.client = random_state, callbacks, client

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        sample_weight: Any = None,
        columns: Sequence[str] | None = None,
        checkpoint: str | PathLike[str] | None = None,
        every_seconds: float = 600.0,
        resume: str | PathLike[str] | None = None,
    ) -> TopicModel:
        """Find the topics of documents on the cluster.

        Parameters
        ----------
        X : dask array, dask frame, list of delayed blocks or futures, path or list of paths, ndarray or CSR
            Whole counts of words, as of `expfam.dask.Mixture.fit`.
        y : ignored
        sample_weight : None
            Refused: the copies of a document have topics of their own.
        columns : sequence of str, optional
            Columns of Parquet files; all if not given.
        checkpoint : path_like, optional
            Folder that all workers see, or an address that fsspec opens, such as "s3://bucket/run". The run is stored
            there while it lasts and at its end; workers write the topics of their tokens.
        every_seconds : float
            Wall time between checkpoints.
        resume : path_like, optional
            Folder of the checkpoint of a run over the same documents, with the same settings. It goes on
            from there, bit for bit, over any workers and chunks.

        Returns
        -------
        TopicModel
            The estimator itself.

        Raises
        ------
        CapabilityError
            Documents have weights, or `max_components` is given beside the number of topics.
        DataError, SupportError
            The counts are no whole numbers; the message names the row among all.
        ResourceError
            The tables of words and topics do not fit into the memory of a worker.
        ArchiveError
            There is no checkpoint to go on from, it is of another run, or one would be overwritten.
        """
        self._check(sample_weight)
        client = distributed.get_client() if self.client is None else self.client
        engine = engine_on(client)
        with engine:
            parts, sizes = parts_of(X, client, columns)
            self._check_memory(sizes.n_columns, self.n_components or self.max_components or 1, free_bytes(client))
            data = DocumentParts(parts, Multinomial(_ETA if self.eta is None else self.eta), engine=engine)
            seed = resolve_seed(self.random_state) if resume is None else stored_seed(resume)
            if self.n_components is None:
                model, start = self._process(data, seed)
                self._check_memory(sizes.n_columns, model.n_components, free_bytes(client))
            else:
                alpha = _ALPHA if is_auto(self.alpha) else self.alpha
                model = AdmixtureModel(data.family, self.n_components, alpha)
                start = self._start(data, seed) if resume is None else "random"
            kernel = DocumentGibbs(**self._learned())
            state = kernel.init(model, data, seed=seed, start=start)
            mean = PlaceMeans(parts_of_topics, self.n_warmup)
            n_all = self.n_warmup + self.n_steps
            watching: list[Any] = [*with_progress(self.callbacks, n_all), mean]
            kept: dict[str, Any] = {"checkpoint": checkpoint, "every_seconds": every_seconds, "resume": resume}
            self.trace_ = stored_run(kernel, state, n_all, watching, {"mean": mean}, n_warmup=self.n_warmup, **kept)
            self._adopt(state, mean)
            self.labels_ = labels_of(engine.parts, engine.mapped(main_topics, self.to_local()))
            self.n_lost_ = engine.n_lost
        return self

    def _check(self, sample_weight):
        check_limit(self, partial(line_of, self))
        if sample_weight is not None:
            raise CapabilityError(
                "the tokens of each copy of a document have topics of their own, so documents on a cluster have no"
                " weights: write fit(X), or on one machine expfam.TopicModel(sampler='variational').fit(X,"
                " sample_weight=sample_weight)"
            )

    def _check_memory(self, n_words, n_topics, free):
        """Refuse tables of words and topics that no worker can hold."""
        needed = _TABLES * 8 * n_words * n_topics
        if needed > free:
            fewer = max(1, int(free // (_TABLES * 8 * max(n_words, 1))))
            line = line_of(self, **{"max_components" if self.n_components is None else "n_components": fewer})
            raise ResourceError(
                f"the tables of {counted(n_words, 'word')} and {counted(n_topics, 'topic')} take {needed / 1e9:.3g} GB"
                f" on each worker, which has {max(free, 0) / 1e9:.3g} GB left: leave out rare words, or write {line}"
            )

    def _learned(self):
        if self.n_components is None:  # topics die by the draws of their weights
            return {"learn_alpha": is_auto(self.alpha), "learn_every": 1}
        is_random = isinstance(self.start, str) and self.start == "random"  # topics that are would stay so
        of_words = {"learn_eta": True, "least_eta": LEAST_ETA} if self.eta is None and not is_random else {}
        return {"learn_alpha": is_auto(self.alpha), **of_words}

    def _start(self, data, seed):
        """Return the start of the kernel."""
        if isinstance(self.start, str) and self.start == "random":
            return "random"
        if not isinstance(self.start, str):
            return np.asarray(self.start, dtype=np.float64).T
        local = self._sampled(data, seed)
        return (local.components_ / local.components_.sum(axis=1, keepdims=True)).T

    def _sampled(self, data, seed):
        """Return the topics of some documents."""
        if not is_auto(self.start):
            raise ValueError(
                f"TopicModel: start must be 'auto', 'random' or probabilities of words; got {self.start!r}: write"
                f" {line_of(self, start='auto')}"
            )
        numbers = chosen_rows(data.n_rows, _SAMPLED_DOCUMENTS, seed, 4)
        return self._local().set_params(random_state=seed, n_draws=0).fit(data.gathered(numbers))

    def _process(self, data, seed):
        """Return the model of an unknown number of topics, and the start of the kernel.

        Places of topics that nobody has seen yet begin with all words alike, and share the weight that is left.
        """
        alpha, gamma, family = concentration_of(self), 1.0, data.family
        found, beta = np.empty((0, data.n_features)), np.empty(0)
        if not isinstance(self.start, str):
            found = np.asarray(self.start, dtype=np.float64)
            beta = np.full(len(found), 1.0 / len(found))
        elif self.start != "random":
            local = self._sampled(data, seed)
            found, beta = local.components_ / local.components_.sum(axis=1, keepdims=True), local.beta_
            alpha, gamma = local.concentration_ if is_auto(self.alpha) else alpha, local.gamma_
            family = family.with_hyper(concentration=local.eta_) if self.eta is None else family
        L = n_places(self.max_components, len(found), np.sqrt(float(data.lengths.sum())) / 2, partial(line_of, self))
        start: Any = "random"
        if len(found):
            start = np.vstack([found, np.full((L - len(found), data.n_features), 1.0 / data.n_features)]).T
        return FiniteProcess(family, L, alpha=alpha * first_shares(beta, L), gamma=gamma), start

    def _local(self):
        """Return the topic model of one machine with the same settings."""
        return LocalTopicModel(
            self.n_components, alpha=self.alpha, eta=self.eta, sampler="gibbs", random_state=self.random_state
        )

    def _adopt(self, state, mean):
        _, counts, self.alpha_ = mean.means(state)
        self._state = _Fitted(state.model, state.eta, state.log_joint)
        drop_weights(self)
        if self.n_components is None:
            listed = mean.listed()
            counts = counts[:, listed]
            set_weights(self, *mean.weights(listed))
        self._counts = counts
        self.components_ = np.ascontiguousarray((counts + state.eta[:, None]).T)
        self.log_joint_, self.n_documents_ = float(state.log_joint), int(state.data.n_rows)
        self.n_features_in_ = int(state.data.n_features)

    # ---- results -----------------------------------------------------------------------------------------------------

    def to_local(self) -> LocalTopicModel:
        """Return the fitted `expfam.TopicModel`, without documents and labels."""
        if not hasattr(self, "_counts"):
            raise CapabilityError("the model is not fitted: write model.fit(X) first")
        local = self._local()
        local.n_features_in_ = self.n_features_in_
        if self.n_components is None:
            weights = self.alpha_, self.concentration_, self.gamma_
            adopt_found(local, self._state, self._counts.T, self._counts.sum(axis=0), weights, self.n_documents_)
        else:
            adopt_given(local, self._state, self._counts, self.alpha_, self.n_documents_)
        local.method_ = "gibbs"
        return local

    def predict(self, X: Any) -> Any:
        """Return the main topic of each document: lazily for a dask array, else at once."""
        return mapped(self.to_local().predict, X, np.int32, None)

    def transform(self, X: Any) -> Any:
        """Return the weights of the topics in each document, (D, K), as `predict` does."""
        return mapped(self.to_local().transform, X, np.float64, len(self.components_))

    def predict_proba(self, X: Any) -> Any:
        """Return the weights of the topics in each document, as `transform` does."""
        return self.transform(X)

    def predict_log_proba(self, X: Any) -> Any:
        """Return the log of the weights of the topics in each document, (D, K), as `predict` does."""
        return mapped(self.to_local().predict_log_proba, X, np.float64, len(self.components_))

    def score_samples(self, X: Any) -> Any:
        """Return the log probability of each document, as `expfam.TopicModel` and `predict` do."""
        return mapped(self.to_local().score_samples, X, np.float64, None)

    def score(self, X: Any, y: Any = None) -> Any:
        """Return the mean log probability of a left-out token, nats, as `expfam.TopicModel` does.

        It is a lazy number for a dask array or frame. The same words are left out for any blocks.

        Parameters
        ----------
        X : dask array, dask frame, or (D, V) array_like or sparse matrix
            Documents.
        y : ignored

        Returns
        -------
        dask array of one number, or float
        """
        return completion_of_blocks(self.to_local(), X)


def main_topics(documents: Any, model: LocalTopicModel) -> npt.NDArray[np.int32]:
    """Return the main topics of documents under a fitted model, on the worker."""
    return model.predict(documents)


class _Fitted:
    """What a topic model reads of the state at the end of a run."""

    def __init__(self, model: Any, eta: Any, log_joint: float) -> None:
        self.model, self.eta, self.log_joint = model, eta, log_joint
