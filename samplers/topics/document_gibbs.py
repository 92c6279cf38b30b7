"""Exact Gibbs sampling of topics of documents that lie in parts.

A step draws the probabilities of words in topics given the topics of all tokens, then the topics of the tokens of each
document given these probabilities. Weights of documents are integrated out. Given the probabilities documents do not
depend on each other, so they may lie on many machines; only counts, which are whole numbers, are added up.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from scipy import sparse

from expfam.amounts import counted
from expfam.errors import ArchiveError, CapabilityError
from expfam.families.independent_columns import draw_log_gamma
from expfam.model.data import Dataset
from expfam.model.finite_process import (
    FiniteProcess,
    law_arrays,
    log_shared_density,
    redrawn_pseudocounts,
    stored_law,
    with_first_weights,
)
from expfam.model.pseudo_counts import CountTable, draw_shared_pseudocount
from expfam.params import NON_NEGATIVE, Integer
from expfam.samplers.chain.kernel import Kernel
from expfam.samplers.states.large import count_large
from expfam.samplers.states.storage import UnsharedState
from expfam.samplers.topics.corpus import SEEDED_ETA, check_admixture, count_tokens, memory_of_tokens
from expfam.samplers.topics.document_parts import DocumentParts, TopicCounts, blocks_of_words
from expfam.samplers.topics.gibbs import TopicGibbs, check_whole_counts
from expfam.samplers.topics.start import check_named, passes_of, start_of_sample
from expfam.samplers.topics.statistics import log_evidence_of_topics
from expfam.structures.ground.rng import generator, resolve_seed
from expfam.structures.ground.stored import TINY, integers, numbers
from expfam.structures.ground.threads import run

_FLAT = 1e12  # pseudo-counts beside which the counts of a document do not matter
_TABLES = 5  # of words and topics that a step holds
_FEW_TOKENS, _EVERY = 0.01, 16  # draws that a sweep may be expected to miss of a topic which takes part in every 16th


class DocumentState(UnsharedState):
    """Counts of the topics of documents that lie in parts.

    Parameters
    ----------
    model : AdmixtureModel
        With a bound family.
    data : DocumentParts
    start : "random", (V, K) array_like or (T,) array_like of int
        Probabilities of words in topics, from which the first topics of tokens are drawn; or the topics of all tokens,
        document by document.
    seed : None, int, numpy Generator or RandomState
    n_threads : int or None

    Attributes
    ----------
    word_counts : (V, K) int64 ndarray
        Tokens of each word in each topic.
    labels : (T,) int32 ndarray
        Topic of each token, document by document, fetched from the parts at each use.
    log_joint : float
        Log probability of the topics and the tokens, nats.
    n_clusters : int
        Topics that hold tokens.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import AdmixtureModel, Multinomial
    >>> from expfam.samplers.topics.document_gibbs import DocumentGibbs
    >>> X = np.array([[2, 0], [0, 1]])
    >>> DocumentGibbs().init(AdmixtureModel(Multinomial(0.1), 2), X, seed=0).labels.shape
    (3,)
    """

    def __init__(self, model: Any, data: DocumentParts, start: Any, *, seed: Any, n_threads: int | None = None) -> None:
        self.model, self.data, self.seed, self.n_steps = model, data, resolve_seed(seed), 0
        self.memory: dict[str, Any] = {}
        if not isinstance(start, str) and np.ndim(start) == 1:
            self._take(self._taken(_checked_topics(start, int(data.lengths.sum()), self.K)))
            return
        shape = (data.n_features, model.n_components)
        if isinstance(start, str) and start == "random":
            first, alpha = np.ones(shape), np.full(shape[1], _FLAT)
        else:
            first, alpha = np.ascontiguousarray(start, dtype=np.float64), model.pseudocounts
        if first.shape != shape or not (np.isfinite(first) & (first >= 0)).all() or not first.sum(axis=1).all():
            raise ValueError(
                f"start must be 'random' or probabilities of words in topics {shape}, with each word in a topic; got"
                f" {start!r:.100}"
            )
        self._take(data.engine.change("begin", first, alpha, self.seed, n_threads))

    def _taken(self, topics):
        """Give the parts the topics of all tokens, document by document; return their counts."""
        return self.data.engine.change("take_topics", topics, self.K)

    def _take(self, counts: TopicCounts) -> None:
        """Make counts those of the state."""
        self.word_counts = counts.words
        self.topic_table = CountTable.of_pairs(
            counts.pairs >> 32, counts.pairs & 0xFFFFFFFF, counts.times, self.model.n_components
        )
        for name in ("word_table", "sizes"):
            self.__dict__.pop(name, None)
        self._log_joint: float | None = None

    @cached_property
    def word_table(self) -> CountTable:
        """Table of how often a word has each number of tokens in a topic."""
        return CountTable.of_histogram(np.bincount(self.word_counts.ravel(), minlength=1))

    @cached_property
    def length_table(self) -> CountTable:
        """Table of the numbers of tokens of the documents."""
        return CountTable.of_histogram(np.bincount(self.data.lengths, minlength=1))

    @cached_property
    def sizes(self) -> npt.NDArray[np.int64]:
        """Number of tokens of each topic: (K,) int64."""
        return np.asarray(self.word_counts.sum(axis=0))

    def word_topics(self) -> Any:
        """Return the tokens of each word in each topic: (V, K) CSR."""
        return sparse.csr_array(self.word_counts)

    def add_word_topics(self, total: npt.NDArray[np.float64]) -> None:
        """Add the tokens of each word in each topic to `total` (V, K)."""
        total += self.word_counts

    @property
    def log_joint(self) -> float:
        """Return the log joint, computed when it is first read."""
        if self._log_joint is None:
            self._log_joint = self.compute_log_joint()
        return self._log_joint

    @property
    def labels(self) -> npt.NDArray[np.int32]:
        """Return the topic of each token, document by document."""
        return np.concatenate(self.data.engine.each("topics_now"))

    @property
    def eta(self) -> npt.NDArray[np.float64]:
        """Return the pseudo-count of each word: (V,) float64."""
        return np.asarray(self.model.family.pseudocounts()[0])

    @property
    def n_clusters(self) -> int:
        """Return the number of topics that hold tokens."""
        return int(np.count_nonzero(self.sizes))

    def compute_log_joint(self) -> float:
        """Compute the log joint of topics and tokens, nats; parameters are integrated out."""
        alpha, eta, sizes = self.model.pseudocounts, self.eta, self.sizes
        total = self.topic_table.log_rising(alpha) - self.length_table.log_rising(np.array([alpha.sum()]))
        total += log_shared_density(self.model, sizes)
        if self.model.seeds is not None or np.ndim(self.model.family.concentration):
            counts = sparse.csr_array(self.word_counts.astype(np.float64))
            return total + log_evidence_of_topics(counts, eta, self.model.seeds)
        topics = CountTable.of_counts(np.zeros(self.K, dtype=np.int64), sizes, 1)
        return total + self.word_table.log_rising(eta[:1]) - topics.log_rising(np.array([eta.sum()]))

    def set_model(self, model: Any) -> None:
        """Use a model with other pseudo-counts; the topics stay the same."""
        self.model, self._log_joint = model, None

    def taking_part(self) -> npt.NDArray[np.intp]:
        """Return the topics that take part in the next sweep.

        They are all topics of an `AdmixtureModel`. Of a `FiniteProcess`, topics of so little weight that hardly any
        token is drawn to them take part in every sixteenth sweep. Sweeps leave the posterior invariant by any choice
        that weights and the number of the step make, because weights do not change in the sweep.
        """
        K, alpha = self.model.n_components, self.model.pseudocounts
        if not isinstance(self.model, FiniteProcess):
            return np.arange(K)
        is_large = alpha * max(1, int(self.data.lengths.sum())) > _FEW_TOKENS
        is_large[alpha.argmax()] = True
        return np.flatnonzero(is_large | ((np.arange(K) + self.n_steps) % _EVERY == 0))

    def draw_words(self, topics: npt.NDArray[np.intp], n_threads: int | None = None) -> npt.NDArray[np.float64]:
        """Draw the probabilities of words in some topics given the topics of tokens: (V, A).

        Each block of words has a random stream of its own.

        Parameters
        ----------
        topics : (A,) ndarray of int
        n_threads : int or None
        """
        phi, eta, seeds = np.empty((len(self.word_counts), len(topics))), self.eta, self.model.seeds
        blocks = blocks_of_words(*phi.shape)

        def draw(unit, start, stop):
            shape = self.word_counts[start:stop, topics] + eta[start:stop, None]
            if seeds is not None:
                shape += seeds[start:stop, topics].toarray()
            phi[start:stop] = draw_log_gamma(shape, generator(self.seed, "posterior", unit=unit, step=self.n_steps))
            return phi[start:stop].max(axis=0)

        def exponentiate(start, stop):
            part = phi[start:stop]
            np.exp(np.subtract(part, largest, out=part), out=part)
            return part.sum(axis=0)

        def divide(start, stop):
            phi[start:stop] /= totals

        options: dict[str, Any] = {"n_threads": n_threads, "uses_blas": False}
        largest = np.max(run(draw, [(unit, *block) for unit, block in enumerate(blocks)], **options), axis=0)
        totals = np.sum(run(exponentiate, blocks, **options), axis=0)
        run(divide, blocks, **options)
        return phi

    def redraw(self, n_threads: int | None = None) -> int:
        """Have the parts draw the topics of all tokens; return how many changed."""
        topics, places = self.taking_part(), np.full(self.K, -1, dtype=np.int32)
        places[topics] = np.arange(len(topics))
        masses = self.draw_words(topics, n_threads), self.model.pseudocounts[topics]
        counts = self.data.engine.change("redraw", *masses, places, self.seed, self.n_steps, n_threads)
        self._take(counts)
        return int(counts.n_moved)

    # ---- storage -----------------------------------------------------------------------------------------------------

    @property
    def K(self) -> int:
        """Return the number of topics."""
        return int(self.model.n_components)

    def _open_to(self, arrays: dict[str, Any]) -> None:
        """Do nothing: the number of topics is fixed."""

    def arrays_without_labels(self) -> dict[str, Any]:
        """Return everything that a later step reads, but for the topics of the tokens."""
        return {
            **law_arrays(self.model),
            "eta": np.asarray(self.model.family.concentration, dtype=np.float64),
            "words": self.word_counts.copy(),
            "counters": np.array([self.n_steps], dtype=np.int64),
        }

    def restore(self, arrays: dict[str, Any], counts_of_topics: Callable[[], TopicCounts]) -> None:
        """Restore the state from the arrays of `arrays_without_labels`.

        Parameters
        ----------
        arrays : dict
        counts_of_topics : callable
            Restores the topics of the tokens, and returns their counts.

        Raises
        ------
        ArchiveError
            The arrays are of another chain, or their counts are not those of the topics.
        """
        family = self.model.family
        eta = numbers(arrays, "eta", np.shape(family.concentration), low=TINY)
        family = family.with_hyper(concentration=float(eta) if eta.ndim == 0 else eta)
        model = stored_law(self.model.with_family(family), arrays)
        words = integers(arrays, "words", self.word_counts.shape)
        (n_steps,) = integers(arrays, "counters", (1,)).tolist()
        counts = counts_of_topics()
        if not np.array_equal(counts.words, words):
            raise ArchiveError("the counts are not those of the topics: the file was altered, or is of other data")
        self.n_steps = n_steps
        self.set_model(model)
        self._take(counts)

    def to_arrays(self) -> dict[str, Any]:
        """Return all that a later step reads, exactly, as a dict of arrays."""
        return self.arrays_without_labels() | {"labels": self.labels}

    def from_arrays(self, arrays: dict[str, Any]) -> None:
        """Restore what `to_arrays` returned; later steps give the same bits as without a break."""
        labels = integers(arrays, "labels", (int(self.data.lengths.sum()),), 0, self.K, dtype=np.int32)
        self.restore(arrays, lambda: self._taken(labels))

    def check(self) -> None:
        """Recompute the counts from the topics; raise AssertionError if any differs."""
        counts = self.data.engine.total("counts", *self.word_counts.shape)
        assert np.array_equal(counts.words, self.word_counts), "counts of words differ from the topics"
        assert np.array_equal(counts.times, self.topic_table.times), "counts of documents differ from the topics"


def _checked_topics(topics, n_tokens, n_topics):
    """Return the topics of all tokens as (T,) int32, or refuse what are none."""
    found = np.asarray(topics)
    if found.shape != (n_tokens,) or found.dtype.kind not in "iu":
        raise ValueError(
            f"topics must be {counted(n_tokens, 'integer')}, one for each token; got {found.dtype} {found.shape}"
        )
    if n_tokens and not 0 <= found.min() <= found.max() < n_topics:
        raise ValueError(f"topics must lie in 0..{n_topics - 1}; found {found.min()} to {found.max()}")
    return found.astype(np.int32)


def _by_document(topics, X):
    """Return the topics of tokens that are sorted by word in the order of the documents."""
    by_word = np.argsort(np.repeat(X.indices, X.data.astype(np.int64)), kind="stable")
    if topics.shape != by_word.shape:
        return topics  # the state refuses them
    found = np.empty_like(topics)
    found[by_word] = topics
    return found


class DocumentGibbs(Kernel):
    """Exact Gibbs sweeps over documents, given topics that are drawn.

    Weights of documents are integrated out. Documents are drawn on several threads, and may lie in parts; the results
    are the same bits for any number of threads, parts, engines and workers. The time of a token depends on the number
    of topics that its document has; a step takes a time of O(V K) more. `TopicGibbs`, which integrates topics out too,
    moves further in a step; it runs on one thread of one machine.

    Parameters
    ----------
    learn_alpha : bool
        Draw the pseudo-counts of topics in documents from their conditional law, or the concentrations of a
        `FiniteProcess`, whose weights are drawn in any case. Their priors are Gamma(1, 1).
    learn_eta : bool
        Draw the pseudo-count of words in topics, one for all words, from its conditional law; see `TopicGibbs`.
    least_eta : float
        Smallest pseudo-count of words that is learned. If it is not 0, the prior is exponential from there on, with
        this mean beyond it, so that few documents hardly move it.
    learn_every : int
        Sweeps from one draw of the pseudo-counts to the next.
    n_threads : int or None
        Threads of each part.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import AdmixtureModel, Multinomial
    >>> from expfam.samplers import DocumentGibbs, sample
    >>> X = np.repeat([[4, 4, 0, 0], [0, 0, 4, 4], [4, 4, 4, 4]], 20, axis=0)
    >>> def labels_of(n_threads):
    ...     kernel = DocumentGibbs(n_threads=n_threads)
    ...     state = kernel.init(AdmixtureModel(Multinomial(0.1), 2, alpha=0.5), X, seed=0)
    ...     trace = sample(kernel, state, 10)
    ...     return state.labels
    >>> bool((labels_of(1) == labels_of(2)).all())
    True

    Notes
    -----
    Magnusson, Jonsson, Villani and Broman 2018, "Sparse partially collapsed MCMC for parallel inference in topic
    models", has the sampler; here probabilities are drawn from their Dirichlet law itself.
    """

    state_type = DocumentState
    on_shards = True
    _constraints: ClassVar = {"least_eta": NON_NEGATIVE, "learn_every": Integer(1)}

    def __init__(
        self,
        *,
        learn_alpha: bool = True,
        learn_eta: bool = False,
        least_eta: float = 0.0,
        learn_every: int = 10,
        n_threads: int | None = None,
    ) -> None:
        self.learn_alpha, self.learn_eta, self.least_eta = learn_alpha, learn_eta, least_eta
        self.learn_every, self.n_threads = learn_every, n_threads

    def check(self, model: Any, data: Any) -> None:
        """Raise an error for models that are no admixtures of words, and for fractional counts."""
        super().check(model, data)
        check_admixture(model, "DocumentGibbs")
        if self.learn_eta and np.ndim(model.family.concentration):
            raise CapabilityError(
                "DocumentGibbs: learn_eta needs one concentration for all words, not a vector of them: write"
                " DocumentGibbs(learn_eta=False)"
            )
        if self.learn_eta and model.seeds is not None:
            raise CapabilityError(SEEDED_ETA.format("DocumentGibbs"))
        if isinstance(data, Dataset):  # parts look at their own
            check_whole_counts(data, "DocumentGibbs")

    def first_labels(self, start: Any, model: Any, data: Dataset, seed: int, n_clusters: int | None) -> Any:
        """Return topics of the tokens (T,), or the start that the state draws them by.

        They are drawn after variational passes for "variational" and for a `VariationalStart`. Topics and probabilities
        of words are returned unchanged, and "random" for "auto".
        """
        passes = passes_of(start)
        if passes is not None:
            return passes.topics(model, data, seed=seed, kernel=TopicGibbs())
        if isinstance(start, str):
            check_named(start, "DocumentGibbs", "topics of tokens, or probabilities of words")
            return "random"
        return start

    def sample_start(self, start: Any, data: Dataset, rows: Any) -> Any:
        """Return the start of a sample of documents; see `start_of_sample`."""
        return start_of_sample(start, data)

    def memory(self, model: Any, data: Dataset, n_clusters: int | None) -> int:
        """Return the bytes of tokens and of tables of words and topics."""
        tokens = memory_of_tokens(*count_tokens(data), data.n_rows, model.n_components)
        return tokens + self.table_bytes(model, data)

    def table_bytes(self, model: Any, data: Dataset) -> int:
        """Return the bytes of tables of words and topics in a step."""
        return int(_TABLES * 8 * data.n_features * model.n_components)

    def start_memory(self, start: Any, model: Any, data: Dataset) -> int:
        """Return the bytes of a start at its peak: variational passes and draws of topics."""
        passes = passes_of(start)
        return 0 if passes is None else passes.memory(model, data)

    def init(
        self, model: Any, data: Any, *, seed: Any = None, start: Any = "random", n_clusters: int | None = None
    ) -> Any:
        """Make the first state of a chain; other data than `DocumentParts` are one part.

        Parameters
        ----------
        model : AdmixtureModel
        data : DocumentParts, Dataset or array_like
        seed : None, int, numpy Generator or RandomState
        start : str, (V, K) array_like or (T,) array_like of int
            "random"; probabilities of words in topics, from which the first topics of tokens are drawn; and where the
            documents are one part "variational" or the topics of all tokens, sorted by word and within a word by
            document.
        n_clusters : None
            Not used: the model has the number of topics.
        """
        if isinstance(data, DocumentParts):
            return data.first_state(self, model, seed=seed, start=start, n_clusters=n_clusters)
        return super().init(model, data, seed=seed, start=start, n_clusters=n_clusters)

    def init_state(self, model: Any, data: Any, labels: Any, *, seed: int) -> DocumentState:
        """Make the state of documents in one part, from what `first_labels` returns."""
        X = sparse.csr_array(data.X)
        parts = DocumentParts(X, model.family)
        if not isinstance(labels, str) and np.ndim(labels) == 1:
            labels = _by_document(np.asarray(labels), X)
        state = self.state_type(model, parts, labels, seed=seed, n_threads=self.n_threads)
        state.set_model(with_first_weights(model, state.sizes))
        return state

    def move(self, state: DocumentState) -> tuple[int, int, dict[str, Any]]:
        """Draw topics and tokens, and in every `learn_every`-th step the pseudo-counts."""
        n_moved = state.redraw(self.n_threads)
        if (state.n_steps + 1) % self.learn_every == 0:
            self.learn(state)
        return int(state.data.lengths.sum()), n_moved, {"n_large": count_large(state.sizes)}

    def learn(self, state: DocumentState) -> None:
        """Draw the weights that documents share, and the pseudo-counts that the settings name."""
        rng = generator(state.seed, "hyper", unit=0, step=state.n_steps)
        counts = (state.topic_table, state.data.lengths)
        model = redrawn_pseudocounts(state.model, *counts, rng, learn=self.learn_alpha)
        if self.learn_eta:
            rng, family = generator(state.seed, "hyper", unit=1, step=state.n_steps), model.family
            V, least = state.data.n_features, self.least_eta
            eta = draw_shared_pseudocount(family.concentration, V, state.word_table, state.sizes, rng, least=least)
            model = model.with_family(family.with_hyper(concentration=eta))
        state.set_model(model)
