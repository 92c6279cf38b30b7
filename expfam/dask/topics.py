"""Topics of documents that lie on the workers of a Dask cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
from expfam.errors import CapabilityError, ResourceError
from expfam.estimators.lines import line_of
from expfam.estimators.topic_results import adopt_given
from expfam.estimators.topics import TopicModel as LocalTopicModel
from expfam.families.counts.multinomial import Multinomial
from expfam.fitting.steps import with_progress
from expfam.model.admixture import AdmixtureModel
from expfam.params import is_auto
from expfam.samplers.shards.checkpoint import stored_seed
from expfam.samplers.shards.sample import chosen_rows
from expfam.samplers.topics.document_gibbs import DocumentGibbs
from expfam.samplers.topics.document_parts import DocumentParts
from expfam.structures.ground.rng import resolve_seed

_ALPHA, _ETA = 0.1, 0.01  # where learning begins, and the pseudo-count of words, as of one machine
_SAMPLED_DOCUMENTS = 4000  # in which a start looks for topics
_KEEP_EVERY = 4  # sweeps from one that counts to the next
_TABLES = 6  # of words and topics that a worker, or the client, holds at a time


class TopicModel(BaseEstimator):
    """Latent Dirichlet allocation of documents on a Dask cluster.

    The documents stay on the workers. A step sends the probabilities of words in topics to them, and fetches counts.
    The topics of all tokens are the same bits for any number of workers, chunks and threads, also if workers are lost
    on the way. The sampler is exact: see `expfam.samplers.topics.document_gibbs.DocumentGibbs`.

    Parameters
    ----------
    n_components : int
        Number of topics.
    alpha : "auto", float or (K,) array_like
        Pseudo-counts of topics in documents; "auto" draws them with the topics.
    eta : float or (V,) array_like, optional
        Pseudo-counts of words in topics; 0.01 if not given.
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
        n_components: int = 50,
        *,
        alpha: Any = "auto",
        eta: Any = None,
        n_steps: int = 100,
        n_warmup: int = 100,
        start: Any = "auto",
        random_state: Any = None,
        callbacks: Sequence[Callable[..., Any]] | str | None = None,
        client: distributed.Client | None = None,
    ) -> None:
        self.n_components, self.alpha, self.eta = n_components, alpha, eta
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
            The number of topics is not given, or documents have weights.
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
            self._check_memory(sizes.n_columns, free_bytes(client))
            family = Multinomial(_ETA if self.eta is None else self.eta)
            data = DocumentParts(parts, family, engine=engine)
            alpha, seed = _ALPHA if is_auto(self.alpha) else self.alpha, resolve_seed(self.random_state)
            model, kernel = AdmixtureModel(data.family, self.n_components, alpha), DocumentGibbs(**self._learned())
            seed, start = (seed, self._start(data, seed)) if resume is None else (stored_seed(resume), "random")
            state = kernel.init(model, data, seed=seed, start=start)
            mean = _Mean(self.n_warmup)
            n_all = self.n_warmup + self.n_steps
            watching: list[Any] = [*with_progress(self.callbacks, n_all), mean]
            kept: dict[str, Any] = {"checkpoint": checkpoint, "every_seconds": every_seconds, "resume": resume}
            self.trace_ = stored_run(kernel, state, n_all, watching, {"mean": mean}, n_warmup=self.n_warmup, **kept)
            self._adopt(state, mean)
            self.labels_ = labels_of(engine.parts, engine.mapped(main_topics, self.to_local()))
            self.n_lost_ = engine.n_lost
        return self

    def _check(self, sample_weight):
        if self.n_components is None:
            raise CapabilityError(
                "an unknown number of topics is found on one machine only: write"
                f" {line_of(self, n_components=50)}, or expfam.TopicModel(None)"
            )
        if sample_weight is not None:
            raise CapabilityError(
                "the tokens of each copy of a document have topics of their own, so documents on a cluster have no"
                " weights: write fit(X), or on one machine expfam.TopicModel(sampler='variational').fit(X,"
                " sample_weight=sample_weight)"
            )

    def _check_memory(self, n_words, free):
        """Refuse tables of words and topics that no worker can hold."""
        needed = _TABLES * 8 * n_words * self.n_components
        if needed > free:
            fewer = max(1, int(free // (_TABLES * 8 * max(n_words, 1))))
            raise ResourceError(
                f"the tables of {counted(n_words, 'word')} and {counted(self.n_components, 'topic')} take"
                f" {needed / 1e9:.3g} GB on each worker, which has {max(free, 0) / 1e9:.3g} GB left: leave out rare"
                f" words, or write {line_of(self, n_components=fewer)}"
            )

    def _learned(self):
        return {"learn_alpha": is_auto(self.alpha)}

    def _start(self, data, seed):
        """Return the start of the kernel."""
        if isinstance(self.start, str) and self.start == "random":
            return "random"
        if not isinstance(self.start, str):
            return np.asarray(self.start, dtype=np.float64).T
        if not is_auto(self.start):
            raise ValueError(
                f"TopicModel: start must be 'auto', 'random' or probabilities of words; got {self.start!r}: write"
                f" {line_of(self, start='auto')}"
            )
        numbers = chosen_rows(data.n_rows, _SAMPLED_DOCUMENTS, seed, 4)
        local = self._local().set_params(random_state=seed).fit(data.gathered(numbers))
        return (local.components_ / local.components_.sum(axis=1, keepdims=True)).T

    def _local(self):
        """Return the topic model of one machine with the same settings."""
        return LocalTopicModel(
            self.n_components, alpha=self.alpha, eta=self.eta, sampler="gibbs", random_state=self.random_state
        )

    def _adopt(self, state, mean):
        counts, self.alpha_ = mean.of(state)
        self._counts, self._state = counts, _Fitted(state.model, state.eta, state.log_joint)
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
        adopt_given(local, self._state, self._counts, self.alpha_, self.n_documents_)
        local.method_ = "gibbs"
        return local

    def predict(self, X: Any) -> Any:
        """Return the main topic of each document: lazily for a dask array, else at once."""
        return mapped(self.to_local().predict, X, np.int32, None)

    def transform(self, X: Any) -> Any:
        """Return the weights of the topics in each document, (D, K), as `predict` does."""
        return mapped(self.to_local().transform, X, np.float64, self.n_components)

    def predict_proba(self, X: Any) -> Any:
        """Return the weights of the topics in each document, as `transform` does."""
        return self.transform(X)

    def predict_log_proba(self, X: Any) -> Any:
        """Return the log of the weights of the topics in each document, (D, K), as `predict` does."""
        return mapped(self.to_local().predict_log_proba, X, np.float64, self.n_components)

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


class _Mean:
    """Callback that sums counts of words in topics over some sweeps after the warm-up."""

    def __init__(self, n_warmup: int) -> None:
        self.n_warmup, self.n_kept = n_warmup, 0
        self.counts: Any = 0
        self.alpha: Any = 0.0

    def __call__(self, info: Any, state: Any) -> bool:
        if info.step > self.n_warmup and (info.step - self.n_warmup) % _KEEP_EVERY == 0:
            self._keep(state)
        return False

    def _keep(self, state):
        self.counts, self.alpha = self.counts + state.word_counts, self.alpha + state.model.pseudocounts
        self.n_kept += 1

    def to_arrays(self) -> dict[str, Any]:
        """Return the sums as arrays."""
        return {"n_kept": np.array(self.n_kept), "counts": np.asarray(self.counts), "alpha": np.asarray(self.alpha)}

    def from_arrays(self, arrays: dict[str, Any]) -> None:
        """Restore the sums from the arrays of `to_arrays`."""
        self.n_kept, self.counts, self.alpha = int(arrays["n_kept"]), arrays["counts"], arrays["alpha"]

    def of(self, state: Any) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Return mean counts (V, K) and mean pseudo-counts (K,)."""
        if not self.n_kept:
            self._keep(state)
        return self.counts / self.n_kept, np.asarray(self.alpha / self.n_kept)
