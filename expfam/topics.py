"""Topic models in the conventions of scikit-learn: weights of topics for documents, words for topics, held-out scores.

A fitted model is pseudo-counts of words in topics and of topics in documents, whichever method found them; weights of
new documents, scores and saved files need no more than these.
"""

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from expfam.errors import CapabilityError, DataError
from expfam.families.multinomial import Multinomial
from expfam.model.admixture import AdmixtureModel
from expfam.model.data import Dataset
from expfam.samplers._topic_step import collapsed_counts
from expfam.samplers.callbacks import Progress
from expfam.samplers.sampling import sample
from expfam.samplers.schedules import Stochastic
from expfam.samplers.topic_gibbs import TopicGibbs
from expfam.samplers.topic_pass import Counts, TopicPass
from expfam.samplers.topics import TopicState, TopicVariational, seed_counts
from expfam.structures._rng import generator, resolve_seed
from expfam.structures._threads import run, segments

_ALPHA, _ETA = 0.1, 0.01  # where learning begins
_KEEP_EVERY = 4  # sweeps from one that counts to the next
_ITERATIONS, _TOLERANCE = 100, 1e-2  # of a new document's weights, in tokens


class TopicModel(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Latent Dirichlet allocation: topics that documents mix, by exact Gibbs sampling or variational inference.

    Parameters
    ----------
    n_topics : int
        K.
    alpha : "auto", float or (K,) array_like
        Pseudo-count of each topic in a document. "auto" learns one for each topic where `local` is "gibbs", and is 0.1
        elsewhere.
    eta : "auto", float or (V,) array_like
        Pseudo-count of each word in a topic. "auto" learns one for all words where `local` is "gibbs", from the
        second half of the warm-up on, and is 0.01 elsewhere.
    local : {"auto", "gibbs", "active", "dense", "tokens"}
        "gibbs" samples the topic of each token exactly; the others are ways of the local step of
        `TopicVariational`. "auto" is "gibbs" for whole counts, and variational for others and in `partial_fit`.
    n_steps : int
        Sweeps over which the topics are averaged, or variational passes at most.
    n_warmup : int or "auto"
        Sweeps before them; "auto" is as many. Variational inference has none.
    n_active, documents, schedule, n_restarts : optional
        As of `TopicVariational`.
    total_documents : int, optional
        Documents that `partial_fit` will see in all; if not given, those that it has seen.
    n_threads : int or None
        None for one, -1 for all cores. Results do not depend on it; Gibbs sampling uses one.
    random_state : None, int, numpy Generator or RandomState
    callbacks : sequence of callable, optional
        Called as ``callback(info, state)`` after each step; a true result ends the run.
    verbose : int
        1 for a progress bar.

    Attributes
    ----------
    components_ : (K, V) float64 ndarray
        Pseudo-counts of words in topics: `eta` and the mean or expected number of tokens.
    alpha_ : (K,) float64 ndarray
    eta_ : float or (V,) float64 ndarray
    log_joint_ : float
        Log joint of the last topics of tokens, or the lower bound of the log evidence; nats.
    method_ : str
        What "auto" was resolved to.
    trace_ : Trace
        Not after `partial_fit` or `load`.
    n_iter_ : int
        Sweeps, passes or batches.
    interrupted_ : bool
    n_features_in_ : int
    feature_names_in_ : (V,) ndarray of str
        Only for data with column names.

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

    def __init__(
        self,
        n_topics=50,
        *,
        alpha="auto",
        eta=0.01,
        local="auto",
        n_steps=100,
        n_warmup="auto",
        n_active=None,
        documents="cold",
        schedule=None,
        n_restarts=5,
        total_documents=None,
        n_threads=None,
        random_state=None,
        callbacks=None,
        verbose=0,
    ):
        self.n_topics = n_topics
        self.alpha = alpha
        self.eta = eta
        self.local = local
        self.n_steps = n_steps
        self.n_warmup = n_warmup
        self.n_active = n_active
        self.documents = documents
        self.schedule = schedule
        self.n_restarts = n_restarts
        self.total_documents = total_documents
        self.n_threads = n_threads
        self.random_state = random_state
        self.callbacks = callbacks
        self.verbose = verbose

    # ---- fitting -----------------------------------------------------------------------------------------------------

    def fit(self, X, y=None):
        """Find the topics of documents.

        Parameters
        ----------
        X : array_like or sparse matrix, shape (D, V)
            Counts of words.
        y : ignored

        Returns
        -------
        self
        """
        n_steps, n_warmup = self._numbers()
        X = self._validate(X, reset=True)
        model, data = self._model(X)
        method = self._method(X)
        phases = self._phases(method, n_warmup, n_steps)
        # from random topics the sampler needs twice the sweeps, and ends behind on long documents
        start = "variational" if method == "gibbs" else "auto"
        state = phases[0][0].init(model, data, seed=resolve_seed(self.random_state), start=start)
        average = _Average()
        self._run(state, phases, average)
        self._adopt(state, average)
        self.method_ = method
        return self

    def _numbers(self):
        n_steps = self.n_steps
        n_warmup = n_steps if isinstance(self.n_warmup, str) and self.n_warmup == "auto" else self.n_warmup
        for name, value in (("n_steps", n_steps), ("n_warmup", n_warmup)):
            if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 0:
                raise ValueError(f"TopicModel: {name} must be a non-negative integer; got {value!r}")
        if self.local not in ("auto", "gibbs", "active", "dense", "tokens"):
            raise ValueError(
                f"TopicModel: local must be 'auto', 'gibbs', 'active', 'dense' or 'tokens'; got {self.local!r}"
            )
        return int(n_steps), int(n_warmup)

    def _model(self, X):
        family = Multinomial(_ETA if _is_auto(self.eta) else self.eta, allow_fractional=True)
        data = Dataset(X, family)
        return AdmixtureModel(data.family, self.n_topics, _ALPHA if _is_auto(self.alpha) else self.alpha), data

    def _method(self, X):
        if self.local != "auto":
            return self.local
        values = X.data if sparse.issparse(X) else X
        return "gibbs" if (values == np.floor(values)).all() else self._kernel("auto").local_of(self.n_topics)

    def _phases(self, method, n_warmup, n_steps):
        """Kernels and numbers of steps, in order.

        A pseudo-count of words that is learned from topics which are still nearly random keeps them so: it waits.
        """
        kernel = self._kernel(method)
        if method != "gibbs":
            return [(kernel, n_steps)]
        first = TopicGibbs(learn_alpha=kernel.learn_alpha)
        return [(first, n_warmup // 2), (kernel, n_warmup - n_warmup // 2), (kernel, n_steps)]

    def _kernel(self, method):
        if method == "gibbs":
            return TopicGibbs(learn_alpha=_is_auto(self.alpha), learn_eta=_is_auto(self.eta))
        return TopicVariational(
            self.n_active,
            local=method,
            documents=self.documents,
            schedule=self.schedule,
            n_restarts=self.n_restarts,
            n_threads=self.n_threads,
        )

    def _run(self, state, phases, average):
        total = sum(n_steps for _, n_steps in phases)
        callbacks = [*(self.callbacks or ()), *([Progress(total)] if self.verbose else [])]
        trace = None
        try:
            for place, (kernel, n_steps) in enumerate(phases, start=1):
                watched = [_Watched(callback) for callback in callbacks]
                counted = [average] if isinstance(kernel, TopicGibbs) and place == len(phases) else []
                trace = sample(kernel, state, n_steps, callbacks=[*watched, *counted], trace=trace)
                if trace.interrupted or any(callback.has_stopped for callback in watched):
                    break
        finally:
            for callback in callbacks:
                if hasattr(callback, "close"):
                    callback.close()
        self.trace_, self.n_iter_, self.interrupted_ = trace, len(trace), trace.interrupted

    def _adopt(self, state, average):
        counts, self.alpha_ = average.means(state)
        eta = state.model.family.concentration
        self.eta_ = float(eta) if np.ndim(eta) == 0 else np.array(eta)
        self.components_ = np.ascontiguousarray((counts + state.eta[:, None]).T)
        self.log_joint_ = float(state.log_joint)
        self._n_features_out = len(self.components_)

    def partial_fit(self, X, y=None):
        """One stochastic step of variational inference from a batch of documents.

        Parameters
        ----------
        X : array_like or sparse matrix, shape (D, V)
        y : ignored

        Returns
        -------
        self

        Notes
        -----
        The first batch also gives the topics to begin with; sizes of the steps are those of `schedule`, if that is a
        Stochastic, else of its defaults (Hoffman, Blei, Wang and Paisley 2013, "Stochastic variational inference").
        """
        self._numbers()
        if self.local == "gibbs":
            raise CapabilityError("TopicModel: partial_fit is variational; use another local than 'gibbs'")
        is_first = not hasattr(self, "word_counts_")
        X = self._validate(X, reset=is_first)
        model, data = self._model(X)
        schedule = self.schedule if isinstance(self.schedule, Stochastic) else Stochastic()
        kernel = self._kernel("auto" if self.local == "auto" else self.local)
        if is_first:
            self.n_seen_, self.n_iter_ = 0, 0
            self.seed_ = resolve_seed(self.random_state)
            self.word_counts_ = seed_counts(data, self.n_topics, generator(self.seed_, "start"))
        kernel.schedule = Stochastic(data.n_rows, schedule.kappa, schedule.delay)
        kernel.documents = "cold"
        kernel.check(model, data)
        state = TopicState(model, data, self.word_counts_, settings=kernel, seed=self.seed_)
        self.n_seen_ += data.n_rows
        self.n_iter_ += 1
        rows = np.arange(data.n_rows, dtype=np.int64)
        state.follow(rows, schedule.step_size(self.n_iter_), float(self.total_documents or self.n_seen_))
        self.word_counts_ = state.word_counts
        self._adopt(state, _Average())
        self.method_, self.interrupted_ = kernel.local_of(self.n_topics), False
        return self

    # ---- use ---------------------------------------------------------------------------------------------------------

    def transform(self, X, n_top=None):
        """Weights of topics in documents.

        Parameters
        ----------
        X : array_like or sparse matrix, shape (D, V)
        n_top : int, optional
            Keep only the so many largest of a document, in a CSR matrix whose rows then sum to less than 1.

        Returns
        -------
        (D, K) float64 ndarray, or CSR array
            Rows sum to 1.

        Notes
        -----
        Expected counts by collapsed responsibilities at fixed topics (Asuncion, Welling, Smyth and Teh 2009, "On
        smoothing and inference for topic models", their CVB0).
        """
        check_is_fitted(self)
        X = self._validate(X, reset=False)
        K = len(self.components_)
        if n_top is None:
            return document_weights(self.components_, self.alpha_, X, n_threads=self.n_threads)
        if isinstance(n_top, bool) or n_top != int(n_top) or n_top < 1:
            raise ValueError(f"n_top must be a positive integer; got {n_top!r}")
        L, blocks = min(int(n_top), K), []
        for start, stop in segments(X.shape[0], 1 + X.shape[0] * K // (1 << 22)):
            weights = document_weights(self.components_, self.alpha_, X[start:stop], n_threads=self.n_threads)
            columns = np.sort(np.argpartition(weights, K - L, axis=1)[:, K - L :], axis=1)
            blocks.append((columns, np.take_along_axis(weights, columns, axis=1)))
        columns, values = (np.concatenate([block[i] for block in blocks]).ravel() for i in (0, 1))
        return sparse.csr_array((values, columns, np.arange(X.shape[0] + 1) * L), shape=(X.shape[0], K))

    def score(self, X, y=None):
        """Mean log probability of left-out tokens of documents, nats: see `document_completion`."""
        check_is_fitted(self)
        X = self._validate(X, reset=False)
        return document_completion(self.components_, self.alpha_, X, n_threads=self.n_threads)[0]

    def perplexity(self, X):
        """exp(-score) of documents."""
        return float(np.exp(-self.score(X)))

    def top_words(self, n=10, vocabulary=None):
        """Most probable words of each topic.

        Parameters
        ----------
        n : int
        vocabulary : (V,) array_like, optional
            Names of the columns; if not given, those of the data, or their numbers.

        Returns
        -------
        (K, n) ndarray
            Most probable first.
        """
        check_is_fitted(self)
        V = self.components_.shape[1]
        if isinstance(n, bool) or n != int(n) or n < 1:
            raise ValueError(f"n must be a positive integer; got {n!r}")
        names = getattr(self, "feature_names_in_", np.arange(V)) if vocabulary is None else np.asarray(vocabulary)
        if names.shape != (V,):
            raise ValueError(f"vocabulary must name the {V} columns of the data; got shape {names.shape}")
        return names[np.argsort(-self.components_, axis=1, kind="stable")[:, : int(n)]]

    # ---- storage -----------------------------------------------------------------------------------------------------

    def save(self, path):
        """Write the fitted model to a directory of JSON and npz, without pickle."""
        from expfam.persistence import save_topics

        check_is_fitted(self)
        save_topics(self, path)

    @classmethod
    def load(cls, path):
        """Model read back from `save`; settings that are functions or generators come back as their defaults."""
        from expfam.persistence import load_topics

        return load_topics(path)

    # ---- scikit-learn ------------------------------------------------------------------------------------------------

    def _validate(self, X, *, reset):
        X = validate_data(self, X, reset=reset, accept_sparse="csr", dtype=[np.float64, np.float32, np.int64, np.int32])
        values = X.data if sparse.issparse(X) else X
        if (values < 0).any():
            # the words that scikit-learn's checks look for
            raise DataError(f"Negative values in data passed to TopicModel: {values.min()}; give counts of words")
        return X

    def __sklearn_is_fitted__(self):
        return hasattr(self, "components_")

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse, tags.input_tags.positive_only = True, True
        return tags


class _Average:
    """Callback that sums counts of words in topics over sweeps, in place of which others have their last ones."""

    def __init__(self):
        self.counts, self.alpha, self.n_kept, self.n_seen = None, 0.0, 0, 0

    def __call__(self, info, state):
        self.n_seen += 1
        if self.n_seen % _KEEP_EVERY == 0:
            self._keep(state)
        return False

    def _keep(self, state):
        if self.counts is None:
            self.counts = np.zeros((state.tokens.n_words, state.model.n_topics))
        state.tokens.add_word_topics(self.counts)
        self.alpha = self.alpha + state.model.pseudocounts
        self.n_kept += 1

    def means(self, state):
        """Counts (V, K) and pseudo-counts of topics."""
        if not hasattr(state, "tokens"):
            return state.word_counts, state.model.pseudocounts
        if self.n_kept == 0:
            self._keep(state)
        return self.counts / self.n_kept, self.alpha / self.n_kept


class _Watched:
    """A callback that notes whether it has asked for the end, and stays open."""

    def __init__(self, callback):
        self.callback, self.has_stopped = callback, False

    def __call__(self, info, state):
        stop = bool(self.callback(info, state))
        self.has_stopped |= stop
        return stop


def document_weights(components, alpha, X, *, rule="collapsed", n_threads=None):
    """Weights of given topics in documents.

    Parameters
    ----------
    components : (K, V) array_like
        Pseudo-counts of words in topics.
    alpha : float or (K,) array_like
        Pseudo-count of each topic in a document.
    X : array_like or sparse matrix, shape (D, V)
    rule : {"collapsed", "variational"}
        Collapsed responsibilities at the topics' means (CVB0), or coordinate ascent of the variational bound over all
        topics, neither with restarts.
    n_threads : int or None

    Returns
    -------
    (D, K) float64 ndarray
        Rows sum to 1.

    Examples
    --------
    >>> from expfam.topics import document_weights
    >>> document_weights([[9.0, 1.0], [1.0, 9.0]], 0.1, [[5, 0]]).round(1)
    array([[1., 0.]])
    """
    components = np.asarray(components, dtype=np.float64)
    K = len(components)
    alpha = np.array(np.broadcast_to(np.asarray(alpha, dtype=np.float64), K))
    if rule not in ("collapsed", "variational"):
        raise ValueError(f"rule must be 'collapsed' or 'variational'; got {rule!r}")
    X = sparse.csr_array(X)
    N = (_collapsed if rule == "collapsed" else _variational)(components, alpha, X, n_threads)
    N += alpha
    return N / N.sum(axis=1, keepdims=True)


def _collapsed(components, alpha, X, n_threads):
    phi = (components / components.sum(axis=1, keepdims=True)).T
    phi = np.ascontiguousarray(phi / phi.max(axis=1, keepdims=True), dtype=np.float32)
    indices, counts = X.indices.astype(np.int32, copy=False), X.data.astype(np.float64)
    N = np.zeros((X.shape[0], len(components)))
    if len(indices):
        documents = (X.indptr.astype(np.int64), indices, counts)
        tasks = [(documents, phi, alpha, a, b, _ITERATIONS, _TOLERANCE, N[a:b]) for a, b in segments(X.shape[0])]
        run(collapsed_counts, tasks, n_threads, uses_blas=False)
    return N


def _variational(components, alpha, X, n_threads):
    settings = TopicVariational(local="dense", n_restarts=0, tol=_TOLERANCE, n_threads=n_threads)
    data = Dataset(X, Multinomial(1.0, allow_fractional=True))
    passes = TopicPass(data, len(components), settings)
    tables = passes.tables(np.ascontiguousarray(components.T), np.zeros(components.shape[1]))
    N = np.zeros((X.shape[0], len(components)))
    for part in passes.parts(passes.step(tables, alpha), np.arange(X.shape[0])):
        counts = Counts.joined([part])
        N[np.repeat(part.rows, part.sizes), counts.topics] = counts.N
    return N


def document_completion(components, alpha, X, *, share=0.2, seed=0, rule="collapsed", n_threads=None):
    """Held-out score of topics: how well they complete documents of which they saw a part.

    Of each document a share of its word types, with all their tokens, is left out; weights come from the others.

    Parameters
    ----------
    components : (K, V) array_like
        Pseudo-counts of words in topics; words that were never seen should have some.
    alpha : float or (K,) array_like
    X : array_like or sparse matrix, shape (D, V)
        Documents; those with fewer than two word types are skipped.
    share : float in (0, 1)
        Rounded for each document, at least one word type on each side.
    seed : int
        Of the choice of word types.
    rule : {"collapsed", "variational"}
        How the weights are worked out: see `document_weights`.
    n_threads : int or None

    Returns
    -------
    score : float
        Mean of log sum_k weight_k phi_kv over all left-out tokens, nats.
    n_tokens : int
        Left-out tokens.
    n_skipped : int
        Documents skipped.

    Raises
    ------
    DataError
        If no document has two word types.

    Examples
    --------
    >>> from expfam.topics import document_completion
    >>> X = [[3, 3, 0, 0], [0, 0, 3, 3]]
    >>> good, bad = [[9, 9, 1, 1], [1, 1, 9, 9]], [[9, 1, 9, 1], [1, 9, 1, 9]]
    >>> document_completion(good, 0.1, X)[0] > document_completion(bad, 0.1, X)[0]
    True
    """
    if not 0 < share < 1:
        raise ValueError(f"share must lie between 0 and 1; got {share!r}")
    components = np.asarray(components, dtype=np.float64)
    seen, held, n_skipped = split_documents(X, share=share, seed=seed)
    if held.shape[0] == 0:
        raise DataError("document completion needs documents with at least two word types; there is none")
    weights = document_weights(components, alpha, seen, rule=rule, n_threads=n_threads)
    phi = np.ascontiguousarray((components / components.sum(axis=1, keepdims=True)).T)
    docs = np.repeat(np.arange(held.shape[0]), np.diff(held.indptr))
    total, step = 0.0, max(1, (1 << 20) // len(components))
    for start in range(0, held.nnz, step):
        part = slice(start, start + step)
        p = np.einsum("ik,ik->i", weights[docs[part]], phi[held.indices[part]])
        total += float(held.data[part] @ np.log(p))
    n_tokens = held.data.sum()
    return total / float(n_tokens), int(n_tokens), n_skipped


def split_documents(X, *, share=0.2, seed=0):
    """Documents in two: what is seen and what is left out, by word types; and how many were too short.

    Parameters
    ----------
    X : array_like or sparse matrix, shape (D, V)
    share : float
    seed : int

    Returns
    -------
    seen, held : CSR arrays (D', V)
    n_skipped : int

    Examples
    --------
    >>> from expfam.topics import split_documents
    >>> seen, held, n_skipped = split_documents([[1, 2, 0], [0, 5, 0]])
    >>> seen.shape, held.nnz, n_skipped
    ((1, 3), 1, 1)
    """
    X = sparse.csr_array(X, copy=True)
    X.eliminate_zeros()
    types = np.diff(X.indptr)
    kept = np.flatnonzero(types >= 2)
    n_skipped, X, types = int(len(types) - len(kept)), X[kept], types[kept]
    docs = np.repeat(np.arange(len(kept)), types)
    order = np.lexsort((generator(seed, "subsample").random(X.nnz), docs))
    rank = np.empty(X.nnz, dtype=np.int64)
    rank[order] = np.arange(X.nnz) - np.repeat(np.cumsum(types) - types, types)
    is_held = rank < np.clip(np.round(share * types), 1, types - 1)[docs]
    parts = []
    for chosen in (~is_held, is_held):
        indptr = np.concatenate([[0], np.cumsum(np.bincount(docs[chosen], minlength=len(kept)))])
        parts.append(sparse.csr_array((X.data[chosen], X.indices[chosen], indptr), shape=X.shape))
    return parts[0], parts[1], n_skipped


def _is_auto(value):
    return isinstance(value, str) and value == "auto"


__all__ = ["TopicModel", "document_completion", "document_weights", "split_documents"]
