"""Exact Gibbs sampling of topic models whose number of topics is unknown.

A sweep draws the topic of each token given the topics of all others and the weights that the documents share, by the
code of a given number of topics; then weights and concentrations are drawn. Topics begin and end by themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt
from scipy import sparse

from expfam.amounts import counted
from expfam.errors import ArchiveError, CapabilityError
from expfam.model.admixture import AdmixtureModel
from expfam.model.hierarchical import HierarchicalProcess
from expfam.model.pseudo_counts import CountTable, draw_shared_pseudocount
from expfam.params import Integer
from expfam.samplers.nonparametric.slots import Slots, capacity_for
from expfam.samplers.nonparametric.weights import SharedWeights, draw_shared_weights, first_weights, log_density
from expfam.samplers.states.large import count_large
from expfam.samplers.topics.corpus import count_tokens, memory_of_tokens
from expfam.samplers.topics.gibbs import CALL_TOKENS, TokenState, TopicGibbs, check_whole_counts
from expfam.samplers.topics.statistics import log_evidence_of_topics
from expfam.samplers.topics.tokens import TokenTopics
from expfam.structures.ground.rng import generator
from expfam.structures.ground.stored import TINY, integers, numbers

if TYPE_CHECKING:
    from expfam.model.data import Dataset

_NO_LIMIT = 1 << 30  # topics of a document
_START_ALPHA = 0.1  # pseudo-count of a topic in a document where variational passes find the start
_FEWEST, _MOST = 20, 1000  # topics to begin with
_SHORT = 10.0  # tokens; shorter documents begin with fewer topics


def default_n_topics(n_tokens: int, n_documents: int) -> int:
    """Return the number of topics to begin with: more than will be left.

    Topics end by themselves within some sweeps, while single tokens hardly begin one.
    """
    length = n_tokens / max(1, n_documents)
    found = 0.5 * np.sqrt(n_tokens) * min(1.0, length / _SHORT)
    return int(np.clip(found, _FEWEST, _MOST))


def check_process_of_words(model: Any, name: str) -> None:
    """Raise CapabilityError if a model is no hierarchical process of words.

    Parameters
    ----------
    model : object
        The model that a kernel was given.
    name : str
        Name of the kernel, for the message.
    """
    if not isinstance(model, HierarchicalProcess):
        raise CapabilityError(
            f"{name} works on a HierarchicalProcess; got {type(model).__name__}: write"
            f" {name}().init(HierarchicalProcess(Multinomial(0.1)), X)"
        )
    if getattr(model.family, "count_model", None) != "multinomial":
        raise CapabilityError(f"{name} needs the family Multinomial; got {model.family!r}")


class TopicProcessState(TokenState):
    """Topics of tokens, their number unknown, and the weights that all documents share.

    Parameters
    ----------
    model : HierarchicalProcess
        With a bound family.
    data : Dataset
        Whole counts of words in documents.
    topics : (T,) array_like of non-negative int
        Topic of each token; the tokens are sorted by word, and within a word by document.
    seed : int

    Attributes
    ----------
    labels : (T,) int32 ndarray
        Slot of the topic of each token. Some slots hold no topic.
    shared : Slots
        Pseudo-counts and names of the topics.
    tokens : TokenTopics
        Tokens with the counts of topics in documents.
    weights : SharedWeights
        Concentrations and weights of the topics.
    log_joint : float
        Log density of topics, tokens and the shared weights, nats.
    n_clusters : int
        Number of topics that hold tokens.

    Examples
    --------
    >>> from expfam import HierarchicalProcess, Multinomial
    >>> from expfam.samplers import TopicProcessGibbs
    >>> state = TopicProcessGibbs().init(HierarchicalProcess(Multinomial(0.1)), [[1, 1, 0], [0, 2, 1]], seed=0)
    >>> len(state.labels)
    5
    """

    model: HierarchicalProcess  # type: ignore[assignment]

    def __init__(self, model: HierarchicalProcess, data: Dataset, topics: npt.ArrayLike, *, seed: int) -> None:
        self.model, self.data, self.seed = model, data, int(seed)
        found = _checked_topics(topics, int(data.X.sum()))
        self.shared = Slots(capacity_for(max(int(found.max(initial=-1)) + 1, model.n_known)), model.n_known)
        seeds = model.seeds_of(self.shared.capacity)
        self.tokens = TokenTopics(sparse.csr_array(data.X), self.shared.capacity, seeds, _NO_LIMIT)
        self.n_steps, self.stamp, self.memory = 0, 0, {}
        self.tokens.topic[:] = found
        self.tokens.count_topics()
        self.shared.name(self.tokens.topic_size)
        self.shared.set_weights(first_weights(self.tokens.topic_size, model.alpha, model.gamma, model.n_known))
        self.count_all()

    @property
    def weights(self) -> SharedWeights:
        """Return the concentrations, and the weights of the topics by slot."""
        return self.shared.weights(self.model.alpha, self.model.gamma)

    def set_topics(self, topics: npt.ArrayLike) -> None:
        """Set the topics of all tokens to slots of topics; recompute counts and log joint."""
        found = _checked_topics(topics, self.tokens.n_tokens)
        if found.max(initial=-1) >= self.shared.capacity or (self.shared.pseudocounts[found] == 0.0).any():
            raise ValueError("topics must be slots that hold topics; see `shared.names`")
        self.tokens.topic[:] = found
        self.tokens.count_topics()
        self.count_all()

    def count_all(self) -> None:
        """Recompute the tables of counts and the log joint from the counts of topics."""
        self.stamp += 1
        histogram = self.new_histogram()
        self.tokens.count_words(histogram)
        self.note_counts(histogram)

    def note_counts(self, histogram: npt.NDArray[np.int64]) -> None:
        """Recompute the tables of counts and the log joint; see `TokenState`."""
        self.word_table = CountTable.of_histogram(histogram)
        self.count_documents()
        self.log_joint = self.compute_log_joint()

    def count_documents(self) -> None:
        """Recompute the table of counts of topics in documents."""
        counts = self.tokens.list_count
        width = int(counts.max()) + 1 if len(counts) else 1
        self.topic_table = CountTable(self.tokens.list_keys(width), width=width, n_groups=self.shared.capacity)

    def compute_log_joint(self) -> float:
        """Compute the log density of topics, tokens and shared weights from the tables, nats."""
        eta, table, lengths = self.eta, self.topic_table, self.length_table
        total = log_density(self.weights, table, lengths, self.shared.pseudocounts, self.model.n_known)
        if self.model.seeds is not None:
            seeds = self.model.seeds_of(self.shared.capacity)
            return total + log_evidence_of_topics(self.tokens.word_topics(), eta, seeds)
        if np.ndim(self.model.family.concentration) == 0:
            words = self.word_table.log_rising(eta[:1])
        else:
            found = self.tokens.word_topics().tocoo()
            words = CountTable.of_counts(found.coords[0], found.data, len(eta)).log_rising(eta)
        sizes = self.tokens.topic_size
        topics = CountTable.of_counts(np.zeros(len(sizes), dtype=np.int64), sizes, 1)
        return total + words - topics.log_rising(np.array([eta.sum()]))

    def set_model(self, model: HierarchicalProcess) -> None:  # type: ignore[override]
        """Use a model with another eta or other concentrations; topics and weights stay."""
        self.shared.pseudocounts *= model.alpha / self.model.alpha
        self.model = model
        self.log_joint = self.compute_log_joint()

    def set_weights(self, weights: SharedWeights) -> None:
        """Use other concentrations and weights of the topics; slots without tokens become free."""
        self.model = self.model.with_concentrations(weights.alpha, weights.gamma)
        self.shared.name(self.tokens.topic_size)
        self.shared.set_weights(weights)
        places = self.shared.compacted()
        if places is not None:
            capacity = capacity_for(self.shared.n_live)
            self.tokens.renumber(places)
            self.tokens.resize(capacity)
            self.shared.renumber(places, capacity)
            self.count_documents()
            self.stamp += 1

    def grow(self) -> None:
        """Make more slots; tokens keep theirs."""
        self.shared.resize(capacity_for(self.shared.capacity))
        self.tokens.resize(self.shared.capacity)

    def to_arrays(self) -> dict[str, Any]:
        """Return all that a later step reads, exactly, as a dict of arrays."""
        return {
            **self.token_arrays(),
            "concentrations": np.array([self.model.alpha, self.model.gamma]),
            "eta": np.asarray(self.model.family.concentration, dtype=np.float64),
            "slots": self.shared.to_arrays(),
        }

    def from_arrays(self, arrays: dict[str, Any]) -> None:
        """Restore what `to_arrays` returned; later steps give the same bits as without a break.

        Raises
        ------
        ArchiveError
            The arrays do not belong to a chain over these documents.
        """
        tokens = self.tokens
        labels = integers(arrays, "labels", tokens.topic.shape, 0, _NO_LIMIT)
        slots = Slots.from_arrays(arrays["slots"], labels, self.model.n_known)
        size = integers(arrays, "list_size", tokens.list_size.shape)
        lists = integers(arrays, "lists", (2, *tokens.list_topic.shape), 0, _NO_LIMIT)
        counters = integers(arrays, "counters", (2,)).tolist()
        alpha, gamma = numbers(arrays, "concentrations", (2,), low=TINY).tolist()
        shape = np.shape(self.model.family.concentration)
        eta = numbers(arrays, "eta", shape, low=TINY)
        family = self.model.family.with_hyper(concentration=float(eta) if eta.ndim == 0 else eta)
        self.model = self.model.with_family(family).with_concentrations(alpha, gamma)
        self.shared = slots
        tokens.resize(slots.capacity)
        self.set_topics(labels)
        by_doc = tokens.document_topics()
        if not np.array_equal(size, tokens.list_size):
            raise ArchiveError("the lists of topics are not those of the tokens: the file was altered")
        tokens.list_topic[:], tokens.list_count[:] = lists
        if tokens.list_topic.max(initial=0) >= slots.capacity or (by_doc != tokens.document_topics()).nnz:
            raise ArchiveError("the counts of topics are not those of the tokens: the file was altered")
        self.n_steps, self.stamp = counters


class TopicProcessGibbs(TopicGibbs):
    """Exact Gibbs sweeps over the topics of tokens, for an unknown number of topics.

    Weights of documents and topics are integrated out. After each sweep the kernel draws the weights that all documents
    share, and, where they are learned, the concentrations and the pseudo-count of words.

    Parameters
    ----------
    learn_alpha : bool
        Draw both concentrations from their conditional laws. Their priors are Gamma(1, 1).
    learn_eta : bool
        Draw the pseudo-count of words in topics, one for all words, from its conditional law. Its prior is Gamma(1, 1).
    learn_every : int
        Sweeps from one draw of the pseudo-count of words to the next.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import HierarchicalProcess, Multinomial
    >>> from expfam.samplers import TopicProcessGibbs, sample
    >>> X = np.repeat([[8, 8, 0, 0], [0, 0, 8, 8]], 20, axis=0)
    >>> kernel = TopicProcessGibbs()
    >>> state = kernel.init(HierarchicalProcess(Multinomial(0.1)), X, seed=0)
    >>> trace = sample(kernel, state, 50)
    >>> bool(np.median(trace.column("n_clusters")[25:]) < 6)
    True

    Notes
    -----
    Teh, Jordan, Beal and Blei 2006, "Hierarchical Dirichlet processes", section 5.3: sampling by direct assignment.
    """

    state_type = TopicProcessState  # type: ignore[assignment]
    _constraints: ClassVar = {"learn_every": Integer(1)}

    def __init__(self, *, learn_alpha: bool = True, learn_eta: bool = False, learn_every: int = 1) -> None:
        super().__init__(learn_alpha=learn_alpha, learn_eta=learn_eta, learn_every=learn_every)

    def check(self, model: Any, data: Dataset) -> None:
        """Raise an error for models of another kind, and for fractional counts."""
        super(TopicGibbs, self).check(model, data)
        name = type(self).__name__
        check_process_of_words(model, name)
        if self.learn_eta and np.ndim(model.family.concentration):
            raise CapabilityError(f"{name}: learn_eta needs one concentration for all words, not a vector")
        check_whole_counts(data, name)

    def reversed(self) -> None:
        """Return None: a step backwards would draw the weights before a sweep in the opposite order."""
        return

    def max_clusters(self, model: Any) -> None:
        """Return None: the number of topics has no limit."""
        return

    def first_labels(self, start: Any, model: Any, data: Dataset, seed: int, n_clusters: int | None) -> Any:
        """Return the topics of the tokens that a start stands for: (T,) int; see `TopicGibbs`.

        `n_clusters` is the number of topics to begin with.
        """
        K = default_n_topics(int(data.X.sum()), data.n_rows) if n_clusters is None else int(n_clusters)
        K = max(K, model.n_known)
        given = AdmixtureModel(model.family, K, _START_ALPHA, model.seeds_of(K))
        return super().first_labels(_named(start), given, data, seed, None)

    def memory(self, model: Any, data: Dataset, n_clusters: int | None) -> int:
        """Return the bytes of tokens, lists and one word's tables."""
        return memory_of_tokens(*count_tokens(data), data.n_rows, _NO_LIMIT) - 60 * (_NO_LIMIT - _MOST)

    def start_memory(self, start: Any, model: Any, data: Dataset) -> int:
        """Return the bytes of a start at its peak."""
        n_tokens, _ = count_tokens(data)
        K = max(default_n_topics(n_tokens, data.n_rows), getattr(model, "n_components", 0))
        return super().start_memory(_named(start), AdmixtureModel(model.family, K, _START_ALPHA), data)

    def move(self, state: Any) -> tuple[int, int, dict[str, Any]]:
        """Make one sweep; draw the shared weights, and what is learned."""
        tokens, eta = state.tokens, state.eta
        histogram = state.new_histogram()
        n_moved, at, end = 0, 0, tokens.n_tokens
        while at < end:
            stop = max(int(np.searchsorted(tokens.word_start, at + CALL_TOKENS, side="right")) - 1, 1)
            stop = max(stop, int(np.searchsorted(tokens.word_start, at, side="right")))
            at, moved = self._part(state, at, stop, eta, histogram)
            n_moved += moved
        state.word_table = CountTable.of_histogram(histogram)
        state.count_documents()
        self.learn(state)
        state.log_joint = state.compute_log_joint()
        return end, n_moved, {"n_large": count_large(tokens.topic_size)}

    def _part(self, state, at, stop, eta, histogram):
        """Sweep from a token up to a word; return the first token not drawn, and how many moved."""
        slots, free = state.shared, state.shared.free.astype(np.int32)
        if not len(free):
            state.grow()
            free = slots.free.astype(np.int32)
        at, moved, slots.rest, _ = state.tokens.sweep_open(
            *(slots.pseudocounts, eta, at, stop, state.seed, state.n_steps, histogram),
            *(slots.rest, free, len(free), state.model.gamma),
        )
        state.stamp += 1
        return at, moved

    def learn(self, state: Any) -> None:
        """Draw the shared weights, and what the settings name."""
        rng, model = generator(state.seed, "hyper", unit=0, step=state.n_steps), state.model
        weights = draw_shared_weights(
            *(state.shared.pseudocounts, model.alpha, model.gamma, state.topic_table, state.lengths, rng),
            learn=self.learn_alpha,
            n_known=model.n_known,
        )
        state.set_weights(weights)
        if self.learn_eta and (state.n_steps + 1) % self.learn_every == 0:
            rng = generator(state.seed, "hyper", unit=1, step=state.n_steps)
            sizes, family = state.tokens.topic_size, state.model.family
            V, seeds = state.tokens.n_words, _seeds_of_counts(state)
            eta = draw_shared_pseudocount(family.concentration, V, state.word_table, sizes, rng, seeds=seeds)
            state.model = state.model.with_family(family.with_hyper(concentration=eta))


def _seeds_of_counts(state):
    """Return tokens and seeds of each seed word in its topic, and sums of seeds by topic.

    None without seeds.
    """
    if state.model.seeds is None:
        return None
    found, totals = state.model.seeds.tocoo(), np.zeros(state.shared.capacity)
    totals[: state.model.n_known] = state.model.seeds.sum(axis=0)
    counts = state.tokens.word_topics()[found.coords]
    return np.asarray(counts.toarray() if sparse.issparse(counts) else counts).ravel(), found.data, totals


def _named(start):
    """Return the name of the start that "auto" is; other starts unchanged."""
    return "variational" if isinstance(start, str) and start == "auto" else start


def _checked_topics(topics: npt.ArrayLike, n_tokens: int) -> npt.NDArray[Any]:
    """Return the topics of all tokens, or refuse what are none."""
    found = np.asarray(topics)
    if found.shape != (n_tokens,) or found.dtype.kind not in "iu":
        raise ValueError(
            f"topics must be {counted(n_tokens, 'integer')}, one for each token; got {found.dtype} {found.shape}"
        )
    if found.min(initial=0) < 0:
        raise ValueError(f"topics must be numbers from 0 on; found {found.min()}")
    return found
