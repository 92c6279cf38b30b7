"""`TopicModel`: topics of documents in the conventions of scikit-learn.

A fitted model is pseudo-counts of words in topics and of topics in documents, whichever method found them; weights of
new documents, scores and saved files need no more than these.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.metaestimators import available_if

from expfam.amounts import counted
from expfam.errors import DataError
from expfam.estimators.arguments import with_whole_lines
from expfam.estimators.base import Estimator, step_numbers
from expfam.estimators.chunks import learn, learn_all
from expfam.estimators.documents import validated_documents
from expfam.estimators.loaded import clusters_of_fit, names_of_fit
from expfam.estimators.matrices import checked_input
from expfam.estimators.resumed import kept_fit, seeded_fit
from expfam.estimators.row_results import asked_output, in_asked_form
from expfam.estimators.topic_chunks import DOCUMENTS, kernel_of_chunks, learns_documents
from expfam.estimators.topic_coarsen import coarser_topics, topic_curve, topics_text, words_tree
from expfam.estimators.topic_draws import all_topics, predicting_topics
from expfam.estimators.topic_plan import planned_topics
from expfam.estimators.topic_results import adopt_documents, adopt_run
from expfam.estimators.topic_scores import bounds_of_documents
from expfam.estimators.topic_words import names_of_words
from expfam.estimators.unknown_numbers import refuse_rest
from expfam.estimators.unknown_topics import restored_stream
from expfam.evaluation.held_out import completed_documents
from expfam.evaluation.mean_error import error_of_mean
from expfam.families.counts.multinomial import Multinomial
from expfam.families.support import as_matrix, first_where
from expfam.fitted.clusters import checked_n_top, largest, stacked_largest
from expfam.fitting.topic_run import run_topics
from expfam.frames.names import named_columns
from expfam.lazy import made_on_use
from expfam.model.admixture import AdmixtureModel
from expfam.model.assignment import LoadedClusters
from expfam.samplers.topics.document_gibbs import DocumentGibbs
from expfam.samplers.topics.gibbs import TopicGibbs
from expfam.samplers.topics.new_documents import collapsed_weights, document_weights
from expfam.samplers.topics.stream import TopicStream
from expfam.samplers.topics.variational import TopicVariational
from expfam.structures.ground.threads import segments

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Self

    from expfam.coarsening.curve import CoarseningCurve
    from expfam.samplers.variational.schedules import Schedule


_LEAST_TOKENS = 0.5  # of a topic that is counted
_WEIGHTS, _ENTRIES = 1 << 22, 1 << 17  # of the documents of a block: data on a disk are not copied at once


class TopicModel(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Estimator):
    """Latent Dirichlet allocation: topics that documents mix.

    Exact Gibbs sampling finds them, or variational inference; docs/settings.md says more of each setting and result.

    Parameters
    ----------
    n_components : int or None
        Number of topics; None: it is unknown, and found under a hierarchical Dirichlet process.
    alpha, eta : "auto", float or array_like
        Pseudo-counts of topics in documents and words in topics; "auto" learns them, None if sampled: 0.015 or more.
    sampler : str, TopicGibbs, DocumentGibbs or TopicVariational
        "gibbs" and, on threads, "documents" are exact; "variational" takes fractions, weights and chunks; or "auto".
    n_steps, n_warmup, n_draws : int or "auto"
        Steps that count, 100 by default, steps before them, and draws that are kept for the probabilities of words.
    learn_hyper : bool or "auto"
        Learn `eta`, the hyper-parameter of the words: always, never, or as `eta` says.
    seeds, seed_tokens, vocabulary : dict of int to sequence of str, int or "auto", (V,) array_like
        Words that belong to a topic, as in ``{0: ["goal", "match"]}``, pseudo-tokens of each; names of the columns.
    start : str or array_like
        Where the kernel begins; "auto" searches it.
    n_threads, random_state, callbacks, memory_limit, time_limit
        Threads (-1: all cores), seed, functions ``callback(info, state)`` called after each step or "progress" for a
        progress bar, and bytes and seconds that a fit may need, also as text such as "4GB" and "10min".

    Attributes
    ----------
    labels_, probabilities_ : (N,) int32 and float32 ndarrays
        Main topic of each document, and its weight there.
    n_components_, n_clusters_ : int
        Topics that hold tokens.
    cluster_sizes_, weights_ : (K,) ndarrays
        Tokens of each topic; share of all tokens.
    params_, clusters_ : dict of (K, ...) ndarrays, frame
        Probabilities of words, "probability" (K, V); a table of sizes and typical words.
    log_joint_, converged_, n_iter_, interrupted_ : float, bool, int, bool
        Log joint, or lower bound; whether it was level at the end; steps; whether Ctrl-C ended them.
    components_ : (K, V) float64 ndarray
        Pseudo-counts of words in topics: `eta`, the seeds, and the mean or expected number of tokens.
    alpha_, eta_, seeds_, family_, method_, n_documents_, trace_
        Pseudo-counts, seeds as a matrix, family of words, method, number of documents, numbers of each step. With
        ``n_components=None`` further results are `beta_`, `rest_`, `concentration_`, `gamma_`, `sizes_`.

    See Also
    --------
    Mixture, GroupedMixture, BayesianHierarchy : rows of one cluster each; rows in groups; a tree of clusters.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import TopicModel
    >>> X = np.repeat([[4, 4, 0, 0], [0, 0, 4, 4], [4, 4, 4, 4]], 20, axis=0)
    >>> model = TopicModel(2, random_state=0).fit(X)
    >>> model.transform([[8, 8, 0, 0]]).max() > 0.8
    np.True_

    Notes
    -----
    Griffiths and Steyvers 2004, "Finding scientific topics"; Hughes and Sudderth 2016, "Fast learning of clusters and
    topics via sparse posteriors". On short documents the factorised posterior of variational inference loses much of
    what its documents tell about each other, and predicts left-out words clearly worse.
    """

    saved_kind = "topic_model"
    of_clusters, of_sizes = "topic", "token"
    no_components = "an unknown number of topics"

    __metadata_request__fit = {"resume": UNUSED}  # noqa: RUF012 - of this call alone

    def __init__(
        self,
        n_components: int | None = 50,
        *,
        alpha: float | npt.ArrayLike | Literal["auto"] = "auto",
        eta: float | npt.ArrayLike | Literal["auto"] | None = None,
        sampler: str | TopicGibbs | DocumentGibbs | TopicVariational = "auto",
        n_steps: int | Literal["auto"] = "auto",
        n_warmup: int | Literal["auto"] = "auto",
        n_draws: int | Literal["auto"] = "auto",
        learn_hyper: bool | Literal["auto"] = "auto",
        seeds: Mapping[int, Sequence[str | int]] | None = None,
        seed_tokens: int | Literal["auto"] = "auto",
        vocabulary: npt.ArrayLike | None = None,
        start: Any = "auto",
        n_threads: int | None = None,
        random_state: Any = None,
        callbacks: Sequence[Callable] | Literal["progress"] | None = None,
        memory_limit: float | str | None = None,
        time_limit: float | str | None = None,
    ) -> None:
        self.n_components, self.alpha, self.eta, self.sampler = n_components, alpha, eta, sampler
        self.n_steps, self.n_warmup, self.n_draws = n_steps, n_warmup, n_draws
        self.learn_hyper, self.start = learn_hyper, start
        self.seeds, self.seed_tokens, self.vocabulary = seeds, seed_tokens, vocabulary
        self.n_threads, self.random_state, self.callbacks = n_threads, random_state, callbacks
        self.memory_limit, self.time_limit = memory_limit, time_limit

    # ---- fitting -----------------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, sample_weight: npt.ArrayLike | None = None, *, resume: Any = None) -> Self:
        """Find the topics of documents.

        Parameters
        ----------
        X : array_like, sparse matrix or sequence of documents, shape (D, V)
            Counts of words; those of texts and of lists of tokens are counted, see `vectorizer_`. CSR parts on a disk
            (float64 or whole counts with int32 indices, as memory maps) are read where they lie by variational
            inference.
        y : ignored
        sample_weight : (D,) array_like of non-negative float, optional
            Multiplicity of each document, for variational inference: of weight 2 it counts as two copies.
        resume : path_like or Checkpoint, optional
            Folder in which the run is kept, every minute; where it holds the run of an earlier call with the same data
            and settings, the fit goes on from there, and ends as if it had never been stopped, bit for bit.
            ``Checkpoint(path, every_seconds=5)`` says how often.

        Returns
        -------
        self

        Raises
        ------
        CapabilityError
            For weights other than 1 with Gibbs sampling: the copies of a document have topics of their own there. For
            options that the chosen method does not use.
        ResourceError
            Where `memory_limit` or `time_limit` would not suffice.
        """
        X = self._validate(X, reset=True)
        with seeded_fit(self, resume):
            plan = planned_topics(self, X, sample_weight)
        with kept_fit(self, resume, plan.data, plan.seed):
            run = run_topics(plan, self.callbacks)
        adopt_run(self, plan, run)
        adopt_documents(self, X, sample_weight)
        return self

    def _names(self, n_words):
        return names_of_words(self, n_words)

    # ---- chunks ------------------------------------------------------------------------------------------------------

    @available_if(learns_documents)
    @with_whole_lines
    def partial_fit(
        self, X: Any, y: Any = None, sample_weight: npt.ArrayLike | None = None, *, batch: int | str | None = None
    ) -> Self:
        """Learn one more chunk of documents, which is not kept: one local step, one update.

        Parameters
        ----------
        X : array_like or sparse matrix, shape (D, V)
        y : ignored
        sample_weight : (D,) array_like of non-negative float, optional
            Multiplicity of each document.
        batch : int or str, optional
            Name of the chunk under a memoized schedule. A chunk that comes again under its name replaces its earlier
            contribution; that of a chunk without a name is never replaced. A stochastic schedule takes no names.

        Returns
        -------
        self

        Raises
        ------
        AttributeError
            Where `sampler` is "gibbs" or "documents", or such a kernel.
        CapabilityError
            For settings that changed since the first chunk.

        Notes
        -----
        The first chunk also gives the topics to begin with. After `fit` or `load` learning goes on from the topics of
        the fit. The schedule is that of the kernel; where it has none, ``Memoized()`` for documents "warm" or "best",
        and ``Stochastic()`` for others. Steps of a stochastic schedule are those of Hoffman, Blei, Wang and Paisley
        2013, "Stochastic variational inference"; pseudo-counts that are learned are so from the tenth chunk on.

        With ``n_components=None`` a short fit of the first chunk gives the number to begin with, later chunks divide
        and merge topics, and the schedule is ``Memoized()``. Learning goes on from chunks and their files, but not from
        `fit`.

        Examples
        --------
        >>> import numpy as np
        >>> from expfam import TopicModel
        >>> from expfam.samplers import Memoized, TopicVariational
        >>> rng = np.random.default_rng(0)
        >>> model = TopicModel(2, sampler=TopicVariational(schedule=Memoized()), random_state=0)
        >>> for chunk in 3 * list(range(4)):
        ...     X = np.random.default_rng(chunk).poisson([[3, 3, 0, 0], [0, 0, 3, 3]] * 20)
        ...     model = model.partial_fit(X, batch=chunk)
        >>> model.n_documents_
        160.0
        """
        learn(self, DOCUMENTS, X, {"weight": sample_weight}, batch, is_first=not hasattr(self, "components_"))
        return self

    @available_if(learns_documents)
    @with_whole_lines
    def fit_chunks(self, chunks: Iterable, y: Any = None) -> Self:
        """Fit to documents that come in chunks and are never held together.

        Parameters
        ----------
        chunks : iterable
            Arrays or sparse matrices of documents, or pairs of one and its ``sample_weight`` as a tuple. From an
            iterator, which gives each chunk once, one pass is made. From anything that can be gone through again, such
            as a list of CSR matrices over memory maps, up to `n_steps` passes, until the bound has settled; the same
            chunks must then come in the same order.
        y : ignored

        Returns
        -------
        self

        Raises
        ------
        AttributeError, DataError
            As `partial_fit` raises it; when there is no chunk.

        Notes
        -----
        Each chunk is a batch of the schedule of the kernel, whatever its number or size of batches; ``Memoized()``
        where the kernel has none. ``Stochastic(n_total=...)`` says how many documents the chunks stand for in all.

        Examples
        --------
        >>> import numpy as np
        >>> from expfam import TopicModel
        >>> rng = np.random.default_rng(0)
        >>> chunks = [rng.poisson([[3, 3, 0, 0], [0, 0, 3, 3]] * 20) for _ in range(4)]
        >>> TopicModel(2, random_state=0).fit_chunks(chunks).n_documents_
        160.0
        """
        step_numbers(self)
        learn_all(self, DOCUMENTS, chunks)
        return self

    def _fitted_model(self):
        family = Multinomial(self.eta_, allow_fractional=True).bind(np.ones((1, self.n_features_in_)))
        return AdmixtureModel(family, len(self.components_), self.alpha_, getattr(self, "seeds_", None))

    def _word_counts(self):
        """Return the tokens of words in topics (V, K), without pseudo-counts."""
        counts = self.components_.T - self._fitted_model().family.pseudocounts()[0][:, None]
        if hasattr(self, "seeds_"):
            found = self.seeds_.tocoo()
            counts[found.coords] -= found.data
        return np.maximum(counts, 0.0, order="C")

    def restore_stream(self, arrays: dict[str, Any], schedule: Schedule) -> TopicStream:
        """Return the stream of chunks that `to_arrays` stored; it goes on with the given schedule.

        Parameters
        ----------
        arrays : dict of ndarrays
            Result of `to_arrays` of a stream of this fitted model.
        schedule : Memoized or Stochastic
        """
        kernel = kernel_of_chunks(self)
        kernel = type(kernel)(**kernel.get_params() | {"schedule": schedule})
        if self.n_components is None:
            return restored_stream(self, arrays, kernel, self._fitted_model().family)
        return TopicStream.from_arrays(self._fitted_model(), kernel, arrays)

    # ---- use ---------------------------------------------------------------------------------------------------------

    def transform(self, X: Any, n_top: int | None = None, *, rest: bool = False) -> Any:
        """Return the weights of topics in documents.

        Parameters
        ----------
        X : array_like or sparse matrix, shape (D, V)
        n_top : int, optional
            Keep only this number of the largest weights of a document, in a CSR matrix whose rows then sum to less
            than 1.
        rest : bool
            Where the number of topics was unknown: add a last column with the weight of all topics that are not listed.
            Otherwise it is spread over the topics in proportion to their weights.

        Returns
        -------
        (D, K) float64 ndarray, or CSR array; a frame where `set_output` asks for one
            Rows sum to 1. (D, K + 1) with `rest`.

        Notes
        -----
        Expected counts by collapsed responsibilities at fixed topics (Asuncion, Welling, Smyth and Teh 2009, "On
        smoothing and inference for topic models", their CVB0).
        """
        self._check_fitted()
        X = self._validate(X, reset=False)
        refuse_rest(self, rest, "transform(X)")
        if rest and n_top is None and asked_output(self) != "default":
            raise ValueError(
                "transform(rest=True) has a column more than get_feature_names_out names, and frames need all names:"
                " write set_output(transform='default').transform(X, rest=True)"
            )
        L = checked_n_top(n_top)
        if L is None:
            return self._document_weights(X, rest)
        return stacked_largest([self._largest_weights(X, L, rest)], len(self.components_) + bool(rest))

    def predict(self, X: Any) -> npt.NDArray[np.int32]:
        """Return the main topic of each document, that of the largest weight.

        Parameters
        ----------
        X : array_like or sparse matrix, shape (D, V)

        Returns
        -------
        (D,) int32 ndarray
        """
        self._check_fitted()
        return self._largest_weights(self._validate(X, reset=False), 1)[0][:, 0]

    def predict_proba(self, X: Any, n_top: int | None = None) -> Any:
        """Return the weights of topics in documents, as `transform` does.

        They are the probabilities of the topic of a token.

        Parameters
        ----------
        X : array_like or sparse matrix, shape (D, V)
        n_top : int, optional
            Keep only this number of the largest weights of a document, in a CSR matrix.

        Returns
        -------
        (D, K) float64 ndarray, or CSR array; a frame where `set_output` asks for one
        """
        self._check_fitted()
        counts, L = self._validate(X, reset=False), checked_n_top(n_top)
        if L is None:
            return in_asked_form(self, X, self._document_weights(counts))
        return stacked_largest([self._largest_weights(counts, L)], len(self.components_))

    def predict_log_proba(self, X: Any) -> Any:
        """Return the log of the weights of topics in documents.

        Parameters
        ----------
        X : array_like or sparse matrix, shape (D, V)

        Returns
        -------
        (D, K) float64 ndarray, nats; a frame where `set_output` asks for one
        """
        self._check_fitted()
        with np.errstate(divide="ignore"):
            return in_asked_form(self, X, np.log(self._document_weights(self._validate(X, reset=False))))

    def _largest_weights(self, X, n_top, rest=False):
        """Return columns and values of the largest weights of each document, by blocks of documents."""
        n_weights = X.shape[0] * (len(self.components_) + bool(rest))
        n_entries = X.nnz if sparse.issparse(X) else X.size
        blocks = [
            largest(self._document_weights(X[start:stop], rest), n_top)
            for start, stop in segments(X.shape[0], 1 + n_weights // _WEIGHTS + n_entries // _ENTRIES)
        ]
        return tuple(np.concatenate([block[i] for block in blocks]) for i in (0, 1))

    def _document_weights(self, X, rest=False):
        """Return the weights of topics in documents, on request with those not listed."""
        weights = document_weights(*all_topics(self), X, n_threads=self.n_threads)
        if rest or not hasattr(self, "rest_"):
            return weights
        return weights[:, :-1] / weights[:, :-1].sum(axis=1, keepdims=True)

    def score(self, X: Any, y: Any = None) -> float:
        """Return the mean log probability of a left-out token, nats per token.

        A fifth of the word types of each document is left out, and predicted from the others: see
        `document_completion`. All left-out tokens count alike, whichever document they are of. The larger the better.
        Probabilities of words are means over the draws of the topics, where the fit has kept some (`n_draws`).

        Parameters
        ----------
        X : array_like or sparse matrix, shape (D, V)
        y : ignored

        Returns
        -------
        float
        """
        self._check_fitted()
        log_probability, n_tokens = self._completed(X)
        return float(log_probability.sum() / n_tokens.sum())

    def score_error(self, X: Any, y: Any = None) -> float:
        """Return the standard error of `score` of the same documents, nats per token.

        Documents are the units that are drawn: the tokens of one share its topics, and their scores go together.

        Parameters
        ----------
        X : array_like or sparse matrix, shape (D, V)
        y : ignored

        Raises
        ------
        DataError
            Fewer than two documents have two word types.
        """
        self._check_fitted()
        return error_of_mean(*self._completed(X), unit="document")

    def _completed(self, X, n_before=0):
        """Return log probability and number of left-out tokens of each document."""
        X, draws = predicting_topics(self, self._validate(X, reset=False))
        return completed_documents(draws, X, n_before=n_before, n_threads=self.n_threads)[:2]

    def score_samples(self, X: Any) -> npt.NDArray[np.float64]:
        """Return a lower bound of the log probability of each document: (D,) nats, with log-base.

        The topics are at their posterior means, and the weights of the topics in the document are integrated out by
        the variational bound at the pseudo-counts of `transform`. Documents that fit no topic have small values, and
        long documents too: divide by the number of tokens to compare documents of different lengths. The numbers
        compare with ``Mixture("multinomial").score_samples``. Unlike here, `score` predicts words that were left out.
        Where the fit has kept draws of the topics (`n_draws`), it is a bound of the mean probability under them.

        Parameters
        ----------
        X : array_like or sparse matrix, shape (D, V)

        Examples
        --------
        >>> import numpy as np
        >>> from expfam import TopicModel
        >>> model = TopicModel(2, random_state=0).fit([[4, 4, 0, 0], [0, 0, 4, 4]] * 20)
        >>> usual, strange = model.score_samples([[4, 4, 0, 0], [4, 0, 4, 0]])
        >>> bool(usual > strange)
        True
        """
        self._check_fitted()
        X = self._validate(X, reset=False)
        X = sparse.csr_array(as_matrix(X, family="TopicModel", accepts_sparse=True, n_features=X.shape[1]))
        log_base = self._fitted_model().family.log_base(X)
        X, draws = predicting_topics(self, X)
        bounds = [self._bounds(X, *topics) for topics in draws]
        return log_base + np.logaddexp.reduce(bounds, axis=0) - np.log(len(bounds))  # type: ignore[no-any-return]

    def _bounds(self, X, components, alpha):
        """Return lower bounds of the log probability of documents given topics, without log-base."""
        probability, found = components / components.sum(axis=1, keepdims=True), np.empty(X.shape[0])
        for start, stop in segments(X.shape[0], 1 + X.shape[0] * len(alpha) // (1 << 22)):
            part = X[start:stop]
            gamma = collapsed_weights(components, alpha, part, self.n_threads) + alpha
            found[start:stop] = bounds_of_documents(part, probability, alpha, gamma)
        return found

    def perplexity(self, X: Any) -> float:
        """Return the perplexity per left-out token, exp(-score).

        This number of equally probable words would be as hard to predict.
        """
        return float(np.exp(-self.score(X)))

    def top_words(self, n: int = 10, vocabulary: npt.ArrayLike | None = None) -> np.ndarray:
        """Return the most probable words of each topic.

        Parameters
        ----------
        n : int
        vocabulary : (V,) array_like, optional
            Names of the columns; if not given, those of the model's `vocabulary` or of the data, or their numbers.

        Returns
        -------
        (K, n) ndarray
            Most probable first, by the tokens of the data: seeds do not count.
        """
        self._check_fitted()
        V = self.components_.shape[1]
        if isinstance(n, bool) or n != int(n) or n < 1:
            raise ValueError(f"n must be a positive integer; got {n!r}")
        names = self._names(V) if vocabulary is None else np.asarray(vocabulary)
        names = np.arange(V) if names is None else names
        if names.shape != (V,):
            raise ValueError(f"vocabulary must name the {counted(V, 'column')} of the data; got shape {names.shape}")
        counts = self.components_ if not hasattr(self, "seeds_") else self.components_ - self.seeds_.toarray().T
        return names[np.argsort(-counts, axis=1, kind="stable")[:, : int(n)]]

    @property
    @made_on_use
    def params_(self) -> dict[str, np.ndarray]:
        """Return the probabilities of the words in each topic: ``{"probability": (K, V)}``.

        They are the posterior means: the rows of `components_` over their sums.

        Examples
        --------
        >>> from expfam import TopicModel
        >>> model = TopicModel(2, random_state=0).fit([[4, 4, 0, 0], [0, 0, 4, 4]] * 20)
        >>> model.params_["probability"].sum(axis=1).round(6)
        array([1., 1.])
        """
        self._check_fitted()
        return {"probability": self.components_ / self.components_.sum(axis=1, keepdims=True)}

    @property
    @made_on_use
    def family_(self) -> Any:
        """Return the `Multinomial` of the words of a topic, bound, with `eta_`."""
        self._check_fitted()
        return self._fitted_model().family

    @property
    @made_on_use
    def cluster_sizes_(self) -> npt.NDArray[np.float64]:
        """Return the mean or expected number of tokens of each topic: (K,). Seeds do not count."""
        self._check_fitted()
        return self._word_counts().sum(axis=0)

    @property
    @made_on_use
    def weights_(self) -> npt.NDArray[np.float64]:
        """Return the share of each topic of all tokens: (K,)."""
        self._check_fitted()
        sizes = self.cluster_sizes_
        return sizes / sizes.sum()

    @property
    @made_on_use
    def n_components_(self) -> int:
        """Return the number of topics that hold tokens: at least half a one on average."""
        self._check_fitted()
        return int(np.count_nonzero(self.cluster_sizes_ >= _LEAST_TOKENS))

    def _clusters(self):
        counts = np.ascontiguousarray(self._word_counts().T)
        sizes = counts.sum(axis=1)
        with np.errstate(divide="ignore"):
            log_weights = np.log(sizes / sizes.sum())
        read = {"sizes": sizes, "weights": sizes / sizes.sum(), "load": LoadedClusters}
        return clusters_of_fit(self, sizes, counts, log_weights=log_weights, **read)

    def _form(self):
        names = self._names(self.n_features_in_)
        return super()._form() if names is None else replace(super()._form(), columns=list(map(str, names)))

    # ---- fewer topics ------------------------------------------------------------------------------------------------

    def coarsen(
        self, n_clusters: int | None = None, X: Any = None, *, tree: Literal["words", "known"] | None = None
    ) -> Self:
        """Return a new fitted model with fewer topics, those of this one merged.

        Without arguments the result has the topics that halves of the documents find again.

        Parameters
        ----------
        n_clusters : int, optional
            Number of topics.
        X : array_like, sparse matrix or sequence of documents, optional
            Documents to label; also for a model without documents of its own.
        tree : {"words", "known"}, optional
            Merge topics that their words tell apart least, or that fits of halves of the documents tell apart least.
            By default "words" where a number is given, and otherwise the tree with the better answer.

        Returns
        -------
        TopicModel
            Counts of words and pseudo-counts of topics are sums over the merged topics; `n_components` is their number
            where it was given. `labels_` are those of this model, renamed, where it has any and `X` is not given.
            `log_joint_` is NaN where topics were merged.

        Raises
        ------
        ValueError
            For a number of topics that this model cannot be merged to.
        DataError
            Where documents are needed and the model holds none, as after `load`.

        Notes
        -----
        As many topics are found in both halves of four random splits of the documents, of at most 5,000. All fits give
        each token of all documents its most probable topic. From there on the rule is that of `Mixture.coarsen`, with
        tokens in place of rows: the score of a cut is its mean agreement with the most similar cut of each half, times
        the chance that few large topics do not agree by themselves. The fit stays as it is where halves agree on its
        topics by 0.9, or on nothing. `coarsening_curve_` has all scores, and in `found_again` how well each topic is
        found again.

        Examples
        --------
        >>> import numpy as np
        >>> from expfam import TopicModel
        >>> X = np.random.default_rng(0).poisson([[5, 5, 5, 0, 0, 0], [0, 0, 0, 5, 5, 5]] * 60)
        >>> model = TopicModel(4, random_state=0).fit(X)
        >>> model.coarsen().n_components, model.coarsen(n_clusters=3).n_components
        (2, 3)
        """
        self._check_fitted()
        return coarser_topics(self, n_clusters, X, tree)  # type: ignore[no-any-return]

    @property
    @made_on_use
    def coarsening_curve_(self) -> CoarseningCurve:
        """Agreement of halves of the documents on every cut, and the answer of `coarsen()`."""
        self._check_fitted()
        return topic_curve(self)

    @property
    @made_on_use
    def coarsening_(self) -> npt.NDArray[np.float64]:
        """Return merges of the topics that words tell apart least: (K - 1, 4) float64."""
        self._check_fitted()
        return words_tree(self)

    def _summary_parts(self):
        return topics_text(self)

    # ---- scikit-learn ------------------------------------------------------------------------------------------------

    def _validate(self, X, *, reset, family=None, learns=False):
        """Return counts of words; `learns` tells that X is a chunk, and `family` is not used."""
        options = {"reset": reset, "is_chunk": learns, "takes_nothing_else": True}
        return validated_documents(self, X, partial(self._validate_matrix, reset=reset), **options)

    def _validate_matrix(self, X, *, reset):
        X = checked_input(self, X, reset=reset, accepts_sparse=True)
        negative = first_where(X, lambda values: values < 0)
        if negative is not None:
            # the words that scikit-learn's checks look for
            row, column, value = negative
            with named_columns(names_of_fit(self)):
                raise DataError(
                    f"Negative values in data passed to TopicModel: row {row}, column {column} holds {value}; give"
                    " counts of words"
                )
        return X

    def __sklearn_is_fitted__(self):
        return hasattr(self, "components_")

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse, tags.input_tags.positive_only = True, True
        return tags
