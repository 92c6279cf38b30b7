"""Exact Gibbs sampling of topics of documents that lie in parts.

A step draws the probabilities of words in topics given the topics of all tokens, then the topics of the tokens of each
document given these probabilities. Weights of documents are integrated out. Given the probabilities documents do not
depend on each other, so they may lie on many machines; only counts, which are whole numbers, are added up.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.special import logsumexp

from expfam.errors import ArchiveError
from expfam.families.independent_columns import draw_log_gamma
from expfam.model.finite_process import law_arrays, log_shared_density, redrawn_pseudocounts, stored_law
from expfam.model.pseudo_counts import CountTable
from expfam.params import Integer
from expfam.samplers.chain.kernel import Kernel
from expfam.samplers.topics.corpus import check_admixture
from expfam.samplers.topics.document_parts import DocumentParts, TopicCounts
from expfam.samplers.topics.statistics import log_evidence_of_topics
from expfam.structures.ground.rng import generator, resolve_seed
from expfam.structures.ground.stored import integers

_FLAT = 1e12  # pseudo-counts beside which the counts of a document do not matter


class DocumentState:
    """Counts of the topics of documents that lie in parts.

    Parameters
    ----------
    model : AdmixtureModel
        With a bound family.
    data : DocumentParts
    start : "random" or (V, K) array_like
        Probabilities of words in topics, from which the first topics of tokens are drawn.
    seed : None, int, numpy Generator or RandomState

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

    def __init__(self, model: Any, data: DocumentParts, start: Any, *, seed: Any) -> None:
        self.model, self.data, self.seed, self.n_steps = model, data, resolve_seed(seed), 0
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
        self._take(data.engine.change("begin", first, alpha, self.seed))

    def _take(self, counts: TopicCounts) -> None:
        """Make counts those of the state."""
        self.word_counts = counts.words
        self.topic_table = CountTable.of_pairs(
            counts.pairs >> 32, counts.pairs & 0xFFFFFFFF, counts.times, self.model.n_components
        )
        self._log_joint: float | None = None

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
        return int(np.count_nonzero(self.word_counts.sum(axis=0)))

    def compute_log_joint(self) -> float:
        """Compute the log joint of topics and tokens, nats; parameters are integrated out."""
        alpha = self.model.pseudocounts
        lengths = CountTable.of_histogram(np.bincount(self.data.lengths))
        documents = self.topic_table.log_rising(alpha) - lengths.log_rising(np.array([alpha.sum()]))
        counts = sparse.csr_array(self.word_counts.astype(np.float64))
        shared = log_shared_density(self.model, self.word_counts.sum(axis=0))
        return documents + shared + log_evidence_of_topics(counts, self.eta, self.model.seeds)

    def set_model(self, model: Any) -> None:
        """Use a model with other pseudo-counts; the topics stay the same."""
        self.model, self._log_joint = model, None

    def draw_words(self) -> npt.NDArray[np.float64]:
        """Draw the probabilities of words in topics given the topics of tokens: (V, K)."""
        shape = self.model.seeded(self.word_counts.astype(np.float64)) + self.eta[:, None]
        logs = draw_log_gamma(shape, generator(self.seed, "posterior", unit=0, step=self.n_steps))
        return np.ascontiguousarray(np.exp(logs - logsumexp(logs, axis=0)))

    def redraw(self) -> int:
        """Have the parts draw the topics of all tokens; return how many changed."""
        counts = self.data.engine.change("redraw", self.draw_words(), self.model.pseudocounts, self.seed, self.n_steps)
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
        model = stored_law(self.model, arrays)
        words = integers(arrays, "words", self.word_counts.shape)
        (n_steps,) = integers(arrays, "counters", (1,)).tolist()
        counts = counts_of_topics()
        if not np.array_equal(counts.words, words):
            raise ArchiveError("the counts are not those of the topics: the file was altered, or is of other data")
        self.n_steps = n_steps
        self.set_model(model)
        self._take(counts)

    def check(self) -> None:
        """Recompute the counts from the topics; raise AssertionError if any differs."""
        counts = self.data.engine.total("counts", *self.word_counts.shape)
        assert np.array_equal(counts.words, self.word_counts), "counts of words differ from the topics"
        assert np.array_equal(counts.times, self.topic_table.times), "counts of documents differ from the topics"


class DocumentGibbs(Kernel):
    """Exact Gibbs sweeps over documents, given topics that are drawn.

    Weights of documents are integrated out. The kernel runs on documents in parts; the results are the same bits for
    any number of parts, engines and workers. A step costs O(K) a token. `TopicGibbs`, which integrates topics out too,
    moves further in a step; it runs on one machine.

    Parameters
    ----------
    learn_alpha : bool
        Draw the pseudo-counts of topics in documents from their conditional law, or the concentrations of a
        `FiniteProcess`, whose weights are drawn in any case. Their priors are Gamma(1, 1).
    learn_every : int
        Sweeps from one draw of the pseudo-counts to the next.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import AdmixtureModel, Multinomial
    >>> from expfam.samplers import sample
    >>> from expfam.samplers.topics.document_gibbs import DocumentGibbs
    >>> from expfam.samplers.topics.document_parts import DocumentParts
    >>> X = np.repeat([[4, 4, 0, 0], [0, 0, 4, 4], [4, 4, 4, 4]], 20, axis=0)
    >>> def labels_of(n_parts):
    ...     data, kernel = DocumentParts(X, Multinomial(0.1), n_parts=n_parts), DocumentGibbs()
    ...     state = kernel.init(AdmixtureModel(data.family, 2, alpha=0.5), data, seed=0)
    ...     trace = sample(kernel, state, 10)
    ...     return state.labels
    >>> bool((labels_of(1) == labels_of(3)).all())
    True

    Notes
    -----
    Magnusson, Jonsson, Villani and Broman 2018, "Sparse partially collapsed MCMC for parallel inference in topic
    models", has the sampler; here probabilities are drawn from their Dirichlet law itself.
    """

    state_type = DocumentState
    on_shards = True
    _constraints: ClassVar = {"learn_every": Integer(1)}

    def __init__(self, *, learn_alpha: bool = True, learn_every: int = 10) -> None:
        self.learn_alpha, self.learn_every = learn_alpha, learn_every

    def check(self, model: Any, data: Any) -> None:
        """Raise an error for models that are no admixtures of words."""
        super().check(model, data)
        check_admixture(model, "DocumentGibbs")

    def init(
        self, model: Any, data: Any, *, seed: Any = None, start: Any = "random", n_clusters: int | None = None
    ) -> Any:
        """Make the first state of a chain; an array is one part. See `DocumentParts.first_state`."""
        data = data if isinstance(data, DocumentParts) else DocumentParts(data, model.family)
        return data.first_state(self, model, seed=seed, start=start, n_clusters=n_clusters)

    def move(self, state: DocumentState) -> tuple[int, int, dict[str, Any]]:
        """Draw topics and tokens, and in every `learn_every`-th step the pseudo-counts."""
        n_moved = state.redraw()
        if (state.n_steps + 1) % self.learn_every == 0:
            rng = generator(state.seed, "hyper", unit=0, step=state.n_steps)
            counts = (state.topic_table, state.data.lengths)
            state.set_model(redrawn_pseudocounts(state.model, *counts, rng, learn=self.learn_alpha))
        return int(state.data.lengths.sum()), n_moved, {}
