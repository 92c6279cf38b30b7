"""Exact Gibbs sampling of topic models, and of their pseudo-counts.

Weights and topics are integrated out. A sweep draws the topic of each token given the topics of all others, in
O(topics of its document) a token and O(K) a word: see `expfam.samplers.topics.tokens`. A sweep is sequential and
computes in float64; each word has its own random stream.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt
from scipy import sparse

from expfam.amounts import counted
from expfam.errors import ArchiveError, CapabilityError, DataError
from expfam.model.pseudo_counts import CountTable, draw_pseudocounts, draw_shared_pseudocount
from expfam.params import NON_NEGATIVE, Integer
from expfam.samplers.chain.kernel import Kernel
from expfam.samplers.states.storage import UnsharedState
from expfam.samplers.topics.corpus import SEEDED_ETA, check_admixture, count_tokens, memory_of_tokens
from expfam.samplers.topics.start import check_named, passes_of, start_of_sample
from expfam.samplers.topics.state import pseudocount_arrays, with_pseudocounts
from expfam.samplers.topics.statistics import log_evidence_of_topics
from expfam.samplers.topics.tokens import TokenTopics
from expfam.structures.ground.rng import generator
from expfam.structures.ground.stored import integers

if TYPE_CHECKING:
    from expfam.model.admixture import AdmixtureModel
    from expfam.model.data import Dataset

CALL_TOKENS = 1 << 20  # tokens of one call without the gil: Ctrl-C is noticed after each call


class TokenState(UnsharedState):
    """Topics of the tokens of documents.

    Parameters
    ----------
    model : AdmixtureModel
        With a bound family.
    data : Dataset
        Whole counts of words in documents.
    topics : (T,) array_like of int in 0..K-1
        Topic of each token; the tokens are sorted by word, and within a word by document.
    seed : int

    Attributes
    ----------
    labels : (T,) int32 ndarray
        Topic of each token.
    tokens : TokenTopics
        Tokens with the counts of topics in documents.
    log_joint : float
        Log probability of the topics and the tokens, nats.
    n_clusters : int
        Number of topics that hold tokens.

    Examples
    --------
    >>> from expfam import AdmixtureModel, Multinomial
    >>> from expfam.samplers import TopicGibbs
    >>> state = TopicGibbs().init(AdmixtureModel(Multinomial(0.1), 2), [[1, 1, 0], [0, 2, 1]], seed=0)
    >>> len(state.labels)
    5
    """

    model: Any  # the family has the methods of a Multinomial
    memory: dict[str, Any]

    def __init__(self, model: AdmixtureModel, data: Dataset, topics: npt.ArrayLike, *, seed: int) -> None:
        self.model, self.data, self.seed = model, data, int(seed)
        self.tokens = TokenTopics(sparse.csr_array(data.X), model.n_components, model.seeds)
        self.n_steps, self.stamp, self.memory = 0, 0, {}
        self.set_topics(topics)

    @property
    def labels(self) -> npt.NDArray[np.int32]:
        """Return the topic of each token: (T,) int32."""
        return self.tokens.topic

    @property
    def n_clusters(self) -> int:
        """Return the number of topics that hold tokens."""
        return int(np.count_nonzero(self.tokens.topic_size))

    @property
    def eta(self) -> npt.NDArray[np.float64]:
        """Return the pseudo-count of each word: (V,) float64."""
        return self.model.family.pseudocounts()[0]

    def word_topics(self) -> Any:
        """Return the tokens of each word in each topic: (V, K) CSR."""
        return self.tokens.word_topics()

    def add_word_topics(self, total: npt.NDArray[np.float64]) -> None:
        """Add the tokens of each word in each topic to `total` (V, K)."""
        self.tokens.add_word_topics(total)

    def set_topics(self, topics: npt.ArrayLike) -> None:
        """Set the topics of all tokens, and recompute the counts and the log joint."""
        topics = np.asarray(topics)
        T, K = self.tokens.n_tokens, self.model.n_components
        if topics.shape != (T,) or topics.dtype.kind not in "iu":
            raise ValueError(
                f"topics must be {counted(T, 'integer')}, one for each token; got {topics.dtype} {topics.shape}"
            )
        if T and not 0 <= topics.min() <= topics.max() < K:
            raise ValueError(f"topics must lie in 0..{K - 1}; found {topics.min()} to {topics.max()}")
        self.tokens.topic[:] = topics
        self.tokens.count_topics()
        self.stamp += 1
        histogram = self.new_histogram()
        self.tokens.count_words(histogram)
        self.note_counts(histogram)

    def new_histogram(self) -> npt.NDArray[np.int64]:
        """Return zeros, one for each count that a word can have in a topic, 0 included."""
        return np.zeros(self._most_of_word + 1, dtype=np.int64)

    @cached_property
    def _most_of_word(self):
        return int(np.diff(self.tokens.word_start).max(initial=0))

    def note_counts(self, histogram: npt.NDArray[np.int64]) -> None:
        """Recompute the tables of counts and the log joint.

        `histogram` says how often each count of a word in a topic occurs.
        """
        self.word_table = CountTable.of_histogram(histogram)
        counts = self.tokens.list_count
        width = int(counts.max()) + 1 if len(counts) else 1
        self.topic_table = CountTable(self.tokens.list_keys(width), width=width, n_groups=self.model.n_components)
        self.log_joint = self.compute_log_joint()

    def compute_log_joint(self) -> float:
        """Compute the log joint from the tables, nats."""
        alpha, eta = self.model.pseudocounts, self.eta
        total = self.topic_table.log_rising(alpha) - self.length_table.log_rising(np.array([alpha.sum()]))
        seeds = self.model.seeds
        if seeds is not None:
            return total + log_evidence_of_topics(self.tokens.word_topics(), eta, seeds)
        if np.ndim(self.model.family.concentration) == 0:
            words = self.word_table.log_rising(eta[:1])
        else:
            found = self.tokens.word_topics().tocoo()
            words = CountTable.of_counts(found.coords[0], found.data, len(eta)).log_rising(eta)
        topics = CountTable.of_counts(np.zeros(self.model.n_components, dtype=np.int64), self.tokens.topic_size, 1)
        return total + words - topics.log_rising(np.array([eta.sum()]))

    @cached_property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Number of tokens of each document: (D,) int64. It never changes, and each step reads it."""
        return np.bincount(self.tokens.doc, minlength=self.data.n_rows)

    @cached_property
    def length_table(self) -> CountTable:
        """Table of `lengths`."""
        return CountTable.of_histogram(np.bincount(self.lengths))

    def set_model(self, model: AdmixtureModel) -> None:
        """Use a model with other pseudo-counts; the topics stay the same."""
        self.model = model
        self.log_joint = self.compute_log_joint()

    def check(self) -> None:
        """Recompute the counts from the topics; raise an AssertionError that names a difference."""
        by_doc, sizes, log_joint = self.tokens.document_topics(), self.tokens.topic_size.copy(), self.log_joint
        self.set_topics(self.labels.copy())
        assert (by_doc != self.tokens.document_topics()).nnz == 0, "counts of documents differ from the topics"
        assert np.array_equal(sizes, self.tokens.topic_size), "counts of topics differ from the topics"
        assert abs(log_joint - self.log_joint) <= 1e-9 * abs(log_joint), "log joint differs from the topics"

    def to_arrays(self) -> dict[str, Any]:
        """Return all that a later step reads, exactly, as a dict of arrays."""
        return self.token_arrays() | pseudocount_arrays(self.model)

    def token_arrays(self) -> dict[str, Any]:
        """Return topics and counters of the tokens, which every state of this kind stores."""
        tokens = self.tokens
        return {
            "labels": tokens.topic.copy(),
            # the order within a list decides which topic a random number stands for
            "lists": np.stack([tokens.list_topic, tokens.list_count]),
            "list_size": tokens.list_size.copy(),
            "counters": np.array([self.n_steps, self.stamp], dtype=np.int64),
        }

    def from_arrays(self, arrays: dict[str, Any]) -> None:
        """Restore what `to_arrays` returned; later steps give the same bits as without a break."""
        tokens, K = self.tokens, self.model.n_components
        model = with_pseudocounts(self.model, arrays)
        labels = integers(arrays, "labels", tokens.topic.shape, 0, K)
        size = integers(arrays, "list_size", tokens.list_size.shape)
        lists = integers(arrays, "lists", (2, *tokens.list_topic.shape), 0, max(K, tokens.n_tokens) + 1)
        counters = integers(arrays, "counters", (2,)).tolist()
        self.model = model
        self.set_topics(labels)
        by_doc, counted = tokens.document_topics(), tokens.list_size.copy()
        if not np.array_equal(size, counted) or lists[0].max(initial=0) >= K:
            raise ArchiveError("the lists of topics are not those of the tokens: the file was altered")
        tokens.list_topic[:], tokens.list_count[:] = lists
        if (by_doc != tokens.document_topics()).nnz:
            raise ArchiveError("the counts of topics are not those of the tokens: the file was altered")
        self.n_steps, self.stamp = counters


class TopicGibbs(Kernel):
    """Exact Gibbs sweeps over the topics of tokens, weights and topics integrated out.

    The time of a token hardly depends on K: it depends on the number of topics that its document has.

    Parameters
    ----------
    learn_alpha : bool
        Draw the pseudo-counts of topics in documents, one for each topic, from their conditional law. Their priors are
        Gamma(1, 1).
    learn_eta : bool
        Draw the pseudo-count of words in topics, one for all words, from its conditional law. Its prior is Gamma(1, 1).
        A chain that starts from random topics learns a pseudo-count that keeps many topics as they were at the start:
        use this with few topics, or late in a run.
    least_eta : float
        Smallest pseudo-count of words that is learned. If it is not 0, the prior is exponential from there on, with
        this mean beyond it, so that few documents hardly move it.
    learn_every : int
        Sweeps from one draw of the pseudo-counts to the next.
    backward : bool
        Make the reversed step: draw the pseudo-counts first, then go from the last token to the first. Checks of the
        sampler use it.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import AdmixtureModel, Multinomial
    >>> from expfam.samplers import TopicGibbs, sample
    >>> X = np.repeat([[4, 4, 0, 0], [0, 0, 4, 4], [4, 4, 4, 4]], 20, axis=0)
    >>> kernel = TopicGibbs()
    >>> state = kernel.init(AdmixtureModel(Multinomial(0.1), 2, alpha=0.5), X, seed=0)
    >>> trace = sample(kernel, state, 50)
    >>> counts = state.tokens.word_topics().toarray()
    >>> (counts.argmax(axis=1)[0] != counts.argmax(axis=1)[3]).item()
    True

    Notes
    -----
    Griffiths and Steyvers 2004, "Finding scientific topics", eq. 5. The sum over topics is split into a part over the
    topics of the document and a part that all tokens of a word share, and the sweep goes word by word, as in Yu, Hsieh,
    Yun, Vishwanathan and Dhillon 2015, "A scalable asynchronous distributed algorithm for topic modeling". Blocks of
    sums replace the tree of that paper.
    """

    state_type = TokenState
    _constraints: ClassVar = {"least_eta": NON_NEGATIVE, "learn_every": Integer(1), "backward": bool}

    def __init__(
        self,
        *,
        learn_alpha: bool = True,
        learn_eta: bool = False,
        least_eta: float = 0.0,
        learn_every: int = 10,
        backward: bool = False,
    ) -> None:
        self.learn_alpha, self.learn_eta, self.least_eta = learn_alpha, learn_eta, least_eta
        self.learn_every, self.backward = learn_every, backward

    def reversed(self) -> Kernel | None:
        """Return the kernel with the opposite order; None where a subclass moves in another way.

        Draws of pseudo-counts by auxiliary variables are reversible.
        """
        if type(self).move is not TopicGibbs.move:
            return None
        return type(self)(**self.get_params() | {"backward": not self.backward})

    def check(self, model: Any, data: Dataset) -> None:
        """Raise an error for models that are no admixtures of words, and for fractional counts."""
        super().check(model, data)
        check_admixture(model, "TopicGibbs")
        if self.learn_eta and np.ndim(model.family.concentration):
            raise CapabilityError("TopicGibbs: learn_eta needs one concentration for all words, not a vector of them")
        if self.learn_eta and model.seeds is not None:
            raise CapabilityError(SEEDED_ETA.format("TopicGibbs"))
        check_whole_counts(data, "TopicGibbs")

    def first_labels(self, start: Any, model: Any, data: Dataset, seed: int, n_clusters: int | None) -> Any:
        """Return the topics of the tokens that a start stands for: (T,) int.

        They are uniform for "auto" and "random", and drawn after variational passes for "variational" and for a
        `VariationalStart`. Given topics are returned unchanged.
        """
        passes = passes_of(start)
        if passes is not None:
            return passes.topics(model, data, seed=seed, kernel=TopicGibbs())
        if isinstance(start, str):
            check_named(start, "TopicGibbs")
            return generator(seed, "start").integers(0, model.n_components, int(data.X.sum()))
        return start

    def sample_start(self, start: Any, data: Dataset, rows: Any) -> Any:
        """Return the start of a sample of documents; see `start_of_sample`."""
        return start_of_sample(start, data)

    def memory(self, model: Any, data: Dataset, n_clusters: int | None) -> int:
        """Return the bytes of tokens, lists and one word's tables."""
        return memory_of_tokens(*count_tokens(data), data.n_rows, model.n_components)

    def start_memory(self, start: Any, model: Any, data: Dataset) -> int:
        """Return the bytes of a start at its peak: variational passes and draws of topics."""
        passes = passes_of(start)
        return 0 if passes is None else passes.memory(model, data)

    def init_state(self, model: Any, data: Dataset, labels: Any, *, seed: int) -> TokenState:
        """Make the state of the topics `labels` (T,)."""
        return self.state_type(model, data, labels, seed=seed)

    def move(self, state: Any) -> tuple[int, int, dict[str, Any]]:
        """Make one sweep, and draw the pseudo-counts in every `learn_every`-th step."""
        learns = (state.n_steps + 1) % self.learn_every == 0
        if learns and self.backward:
            self.learn(state)
        n_moved = self._sweep(state)
        if learns and not self.backward:
            self.learn(state)
        return state.tokens.n_tokens, n_moved, {}

    def _sweep(self, state):
        """Redraw the topics of all tokens; return how many changed."""
        tokens, alpha, eta = state.tokens, state.model.pseudocounts, state.eta
        histogram = state.new_histogram()
        parts, n_moved = _parts_of(tokens), 0
        for start, stop in reversed(parts) if self.backward else parts:
            n_moved += tokens.sweep(alpha, eta, start, stop, state.seed, state.n_steps, histogram, self.backward)
            state.stamp += 1
        state.note_counts(histogram)
        return n_moved

    def learn(self, state: TokenState) -> None:
        """Draw the pseudo-counts that the settings name."""
        model = state.model
        if self.learn_alpha:
            rng = generator(state.seed, "hyper", unit=0, step=state.n_steps)
            model = model.with_alpha(draw_pseudocounts(model.pseudocounts, state.topic_table, state.lengths, rng))
        if self.learn_eta:
            rng = generator(state.seed, "hyper", unit=1, step=state.n_steps)
            eta, V, sizes = model.family.concentration, state.tokens.n_words, state.tokens.topic_size
            eta = draw_shared_pseudocount(eta, V, state.word_table, sizes, rng, least=self.least_eta)
            model = model.with_family(model.family.with_hyper(concentration=eta))
        if model is not state.model:
            state.set_model(model)


def _parts_of(tokens):
    """Return the words of each call without the gil, as pairs (start, stop)."""
    parts, start = [], 0
    while start < tokens.n_words:
        reach = tokens.word_start[start] + CALL_TOKENS
        stop = max(start + 1, int(np.searchsorted(tokens.word_start, reach, side="right")) - 1)
        parts.append((start, stop))
        start = stop
    return parts


def check_whole_counts(data: Dataset, kernel: str) -> None:
    """Raise a DataError for fractional counts; `kernel` is the name in the message."""
    values = data.X.data if sparse.issparse(data.X) else np.asarray(data.X)
    if (values != np.floor(values)).any():
        raise DataError(f"{kernel} needs whole counts, which are numbers of tokens; use TopicVariational for fractions")
