"""Variational inference of topic models: latent Dirichlet allocation by coordinate ascent.

A pass computes weights and responsibilities of each document at fixed topics, and sums words by topic; the posterior of
the topics follows from the sums. Only the start and the order of batches are random.
"""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from scipy import sparse

from expfam.errors import ArchiveError, CapabilityError, ExpFamError
from expfam.params import Integer
from expfam.samplers.topics.corpus import SEEDED_ETA, check_admixture
from expfam.samplers.topics.local_step import Counts, Part, TopicPass, check_distinct, entries_at_work
from expfam.samplers.topics.state import LEARN_AFTER, TopicPosterior, pseudocount_arrays, with_pseudocounts
from expfam.samplers.topics.statistics import TopicSums
from expfam.samplers.topics.stream import TopicStream
from expfam.samplers.variational.held_rows import Batch, HeldRows
from expfam.samplers.variational.learner import weight_of
from expfam.samplers.variational.schedules import Full, Memoized, Schedule, Stochastic
from expfam.samplers.variational.stream_kernel import LOCAL_ITERATIONS, StreamKernel
from expfam.structures.ground.rng import generator
from expfam.structures.ground.stored import integers, numbers
from expfam.structures.ground.threads import segments

if TYPE_CHECKING:
    from expfam.model.admixture import AdmixtureModel
    from expfam.model.data import Dataset
    from expfam.samplers.topics.state import TopicLocalStep

_SEED_DOCUMENTS = 10  # documents from which the start makes a topic, at most
_MANY_DOCUMENTS = 20  # documents for each topic
_OWN_SHARE = 0.05  # of a few documents, in the words of a topic that begins near the corpus
_SUMMED = 1 << 20  # stored entries that are summed in one piece
_FEW_TOPICS = 32  # below this number of topics local="auto" is "dense"
_ENTRY_BYTES = 64  # working memory of a stored entry, beside its responsibilities
_USUAL_TOPICS = 24  # active topics of a document; more are rare
_TOKEN_TOPICS = 8  # topics of each word with local="tokens" and no n_active


class TopicVariational(StreamKernel):
    """Variational inference of topics; one step is one pass over the documents.

    Parameters
    ----------
    n_active : int or None
        Largest number of topics that each word of a document keeps in the end; None for all.
    local : {"auto", "active", "dense", "tokens"}
        Topics on which the local step of a document works: "active" uses the document's active topics, "dense" all
        topics, "tokens" `n_active` topics for each of its words (8 if `n_active` is None). "auto" is "active" for 32 or
        more topics, else "dense". "tokens" searches each word's few topics among all topics that the document may have.
        So it costs about twice as much as "dense", and more for many topics: use it for comparison with the published
        algorithm, or for responsibilities with a fixed number of topics that raise the bound in every iteration.
    schedule : Full, Memoized or Stochastic
        When the topics are updated; None is `Full`, and `Memoized` for chunks.
    documents : {"cold", "warm", "best"}
        Where a document starts in later passes: "cold" starts anew, "warm" starts from its last counts, "best" tries
        both and keeps the better. "warm" and "best" remember each document's topics, and need Full or Memoized.
    n_restarts : int
        Number of topics of each document that are removed on trial, one after the other, the smallest first.
    restart_iterations : int
        Iterations of each trial.
    max_iterations : int
        Largest number of iterations of a document in one pass.
    tol : float
        A document has converged where no count of a topic changes by more than this, in tokens.
    bound_tol : float
        The run has converged where a pass gains less than this share of the bound.
    dtype : {"float32", "float64"}
        Type of a document's block of tables; sums are float64.
    learn_alpha, learn_eta : bool
        Raise the bound also by pseudo-counts of the model, from the sixth pass on: `learn_alpha` by those of topics in
        documents, one for each topic, and `learn_eta` by the one of words in topics.
    n_threads : int or None
        The result does not depend on it.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import AdmixtureModel, Multinomial
    >>> from expfam.samplers import TopicVariational, sample
    >>> X = np.repeat([[4, 4, 0, 0], [0, 0, 4, 4], [4, 4, 4, 4]], 20, axis=0)
    >>> kernel = TopicVariational()
    >>> state = kernel.init(AdmixtureModel(Multinomial(0.1), 2, alpha=0.5), X, seed=0)
    >>> trace = sample(kernel, state, 20)
    >>> (state.word_counts.argmax(axis=1)[0] != state.word_counts.argmax(axis=1)[3]).item()
    True

    Notes
    -----
    Hughes and Sudderth 2016, "Fast learning of clusters and topics via sparse posteriors"; Blei, Ng and Jordan 2003,
    "Latent Dirichlet allocation". With "dense" or "tokens", one start and no restarts, every iteration raises a
    document's bound. With documents "warm" or "best" and the schedule Full or Memoized, every pass from the second one
    on raises the whole bound, too. "active" leaves out topics, which restricts the posterior; only "best" compares the
    bounds with and without this restriction.

    Hughes and Sudderth 2016 keep the largest L topics of each word; this is local="tokens". Otherwise the arithmetic is
    dense, on the active topics of a document.
    """

    takes_weight = True
    _constraints: ClassVar = {
        **LOCAL_ITERATIONS,
        "n_active": (Integer(1), None),
        "local": ("auto", "active", "dense", "tokens"),
        "documents": ("cold", "warm", "best"),
        "n_restarts": Integer(0, 64),
    }

    def __init__(
        self,
        n_active: int | None = None,
        *,
        local: Literal["auto", "active", "dense", "tokens"] = "auto",
        schedule: Schedule | None = None,
        documents: Literal["cold", "warm", "best"] = "cold",
        n_restarts: int = 5,
        restart_iterations: int = 2,
        max_iterations: int = 100,
        tol: float = 0.05,
        bound_tol: float = 1e-5,
        dtype: Literal["float32", "float64"] = "float32",
        learn_alpha: bool = False,
        learn_eta: bool = False,
        n_threads: int | None = None,
    ) -> None:
        self.n_active, self.local, self.schedule, self.documents = n_active, local, schedule, documents
        self.n_restarts, self.restart_iterations, self.max_iterations = n_restarts, restart_iterations, max_iterations
        self.tol, self.bound_tol, self.dtype, self.n_threads = tol, bound_tol, dtype, n_threads
        self.learn_alpha, self.learn_eta = learn_alpha, learn_eta

    # ---- settings ----------------------------------------------------------------------------------------------------

    def check(self, model: Any, data: Dataset) -> None:
        """Raise an error for settings out of range, and for models that are no admixtures of words."""
        self._check_settings(model, data)
        self.schedule_of().check(data.n_rows)

    def _check_settings(self, model, data):
        super()._check_settings(model, data)
        check_admixture(model, "TopicVariational")
        if self.learn_eta and np.ndim(model.family.concentration):
            raise CapabilityError("TopicVariational: learn_eta needs one concentration for all words, not a vector")
        if self.learn_eta and model.seeds is not None:
            raise CapabilityError(SEEDED_ETA.format("TopicVariational"))
        schedule = self.schedule_of()
        if not isinstance(schedule, Schedule):
            raise ValueError(f"TopicVariational: schedule must be Full(), Memoized() or Stochastic(); got {schedule!r}")
        if self.documents != "cold" and isinstance(schedule, Stochastic):
            raise ValueError(f"TopicVariational: documents={self.documents!r} needs the schedule Full() or Memoized()")

    def schedule_of(self) -> Schedule:
        """Return the schedule; `Full` where none is given."""
        return Full() if self.schedule is None else self.schedule

    def stream_schedule(self) -> Schedule:
        """Return the schedule of a run that learns chunks; `Memoized` where none is given."""
        return Memoized() if self.schedule is None else self.schedule

    def local_of(self, n_topics: int) -> str:
        """Return "active", "dense" or "tokens": the value of `local` that "auto" stands for."""
        return self.local if self.local != "auto" else "active" if n_topics >= _FEW_TOPICS else "dense"

    def n_active_of(self, n_topics: int) -> int:
        """Return the number of topics that each word keeps, of `n_topics` topics."""
        L = _TOKEN_TOPICS if self.n_active is None and self.local == "tokens" else self.n_active
        return n_topics if L is None else min(int(L), n_topics)

    def memory(self, model: Any, data: Dataset, n_clusters: int | None) -> int:
        """Return the bytes of tables, sums and responsibilities of one chunk.

        Under `Memoized` the responsibilities of all documents need memory, too, which is not counted here.
        """
        each = 20 if isinstance(self.schedule_of(), Full) else 44  # with the sums of a batch, before and after
        each += 8 if model.seeds is not None else 0  # counts with the seeds added
        K, local = model.n_components, self.local_of(model.n_components)
        L = self.n_active_of(K) if local != "active" else min(self.n_active_of(K), _USUAL_TOPICS)
        of_entry = _ENTRY_BYTES + np.dtype(self.dtype).itemsize * L
        return each * data.n_features * K + of_entry * entries_at_work(data)

    # ---- kernel ------------------------------------------------------------------------------------------------------

    def first_labels(self, start: Any, model: Any, data: Dataset, seed: int, n_clusters: int | None) -> Any:
        """Return the counts of words in topics that a start stands for: (V, K) float64.

        For "documents" a topic has the words of a few random documents, one with seeds those of the documents that hold
        most tokens of its seeds. For "corpus" it begins near the words of all documents. "auto" is "corpus" for 20
        documents a topic or more, where no topic has seeds. Given counts are checked.
        """
        if isinstance(start, str):
            if start not in ("auto", "documents", "corpus"):
                raise ValueError(
                    f"TopicVariational: start must be 'documents', 'corpus' or counts (V, K); got {start!r}: write"
                    " start='documents'"
                )
            K, rng = model.n_components, generator(seed, "start")
            return seed_counts(data, K, rng, model.seeds, near_corpus=self._is_near_corpus(start, model, data))
        start = np.array(start, dtype=np.float64, order="C")
        shape = (data.n_features, model.n_components)
        if start.shape != shape or not (np.isfinite(start) & (start >= 0)).all():
            raise ValueError(f"start must be finite non-negative counts of shape {shape}; got {start.shape}")
        return start

    def _is_near_corpus(self, start, model, data):
        """Return whether topics begin near the words of the corpus."""
        has_many = data.n_rows >= _MANY_DOCUMENTS * model.n_components
        return start == "corpus" or (start == "auto" and has_many and model.seeds is None)

    def sample_start(self, start: Any, data: Dataset, rows: Any) -> Any:
        """Return the start itself: counts of words in topics serve any documents."""
        return start

    def _empty_stream(self, model, data, seed):
        return TopicStream(model, settings=self, seed=seed)

    def init_state(self, model: Any, data: Dataset, labels: Any, *, seed: int) -> TopicState:
        """Make the state whose topics follow from the counts `labels` (V, K)."""
        return TopicState(model, data, labels, settings=self, seed=seed)

    def move(self, state: Any) -> tuple[int, int, dict[str, Any]]:
        """Make one pass over the documents."""
        seconds = perf_counter()
        before = state.log_joint
        diagnostics = state.make_pass().diagnostics
        state.mean_active = diagnostics.n_pairs / max(1, state.data.n_rows)
        counters = diagnostics.counters
        gain = (state.log_joint - before) / max(abs(before), 1.0)
        state.converged = bool(np.isfinite(before)) and not state.is_noisy and abs(gain) < self.bound_tol
        extra = {"iterations": counters[0], "active": state.mean_active, "seconds_pass": perf_counter() - seconds}
        return int(counters[1]), int(counters[2]), extra

    def is_done(self, state: Any) -> bool:
        """Return whether the last pass gained less than the tolerance."""
        return state.converged


class TopicState(HeldRows, TopicPosterior):
    """Expected counts of words in topics, and what the run remembers of the documents.

    Parameters
    ----------
    model : AdmixtureModel
        With a bound family.
    data : Dataset
    word_counts : (V, K) float64 ndarray
        Counts of the start.
    settings : TopicVariational
    seed : int

    Attributes
    ----------
    word_counts : (V, K) float64 ndarray
        Expected number of tokens of each word in each topic.
    labels : (D,) int32 ndarray
        Largest topic of each document.
    log_joint : float
        Lower bound of the log evidence, nats; NaN before the first pass, an estimate under a stochastic schedule.
    converged : bool

    Examples
    --------
    >>> from expfam import AdmixtureModel, Multinomial
    >>> from expfam.samplers import TopicVariational
    >>> kernel = TopicVariational()
    >>> state = kernel.init(AdmixtureModel(Multinomial(0.1), 2), [[1, 1, 0], [0, 2, 1]], seed=0)
    >>> info = kernel.step(state)
    >>> round(float(state.word_counts.sum()), 6)
    5.0
    """

    way_on = "state.word_counts"

    def __init__(
        self,
        model: AdmixtureModel,
        data: Dataset,
        word_counts: npt.NDArray[np.float64],
        *,
        settings: TopicVariational,
        seed: int,
    ) -> None:
        super().__init__(model, settings=settings, seed=seed)
        self.hold(data, settings.schedule_of())
        self.passes = TopicPass(data, model.n_components, settings)
        self.total_weight = weight_of(data)
        self.sums = TopicSums.of_counts(word_counts)
        self.start_counts = word_counts.copy()
        self.labels, self.mean_active = np.zeros(data.n_rows, dtype=np.int32), np.nan
        B = len(self.batches)
        self.remembered: list[Any] = [None] * B  # list of parts of each batch
        self.counts: list[Any] = [None] * B  # Counts of each batch
        self.batch_sums = [None] * B  # TopicSums of each batch, without counts of words

    # ---- passes ------------------------------------------------------------------------------------------------------

    def step_of(self, batch: Batch, *, all_clusters: bool) -> tuple[TopicLocalStep, bool]:
        """Return the local step of the documents of a batch, and True: it scores all topics."""
        stored = None if batch.place is None else self.counts[batch.place]
        return self.local_step_of_rows(self.passes, batch.rows, stored, keep=len(self.batches) > 1), True

    def weight_of(self, batch: Batch) -> float:
        """Return the number of documents of a batch, or the sum of their weights."""
        return self.passes.weight_of(batch.rows)

    def last_sums(self, batch: Batch, local: TopicLocalStep) -> TopicSums:
        """Return the sums of a batch before this local step, computed from what is remembered.

        In the first pass the start stands for the batches that follow.
        """
        if self.batch_sums[batch.place] is None:
            return TopicSums.of_counts(local.sums.weight / self.total_weight * self.start_counts)
        sums = self.batch_sums[batch.place].with_counts(np.zeros_like(self.word_counts))
        for part in self.remembered[batch.place]:
            self.passes.add(part, sums.counts)
        return sums

    def remember(self, batch: Batch, local: TopicLocalStep, *, scores_all: bool) -> None:
        """Keep the labels of the documents, and what a later pass needs of a batch."""
        occupied = local.labels >= 0
        self.labels[batch.rows[occupied]] = local.labels[occupied]
        if batch.place is not None:
            self.counts[batch.place] = local.counts
        if len(self.batches) > 1:
            self.remembered[batch.place], self.batch_sums[batch.place] = local.parts, local.sums.without_counts()

    def update(self) -> None:
        """Learn the pseudo-counts of topics that are due; the topics follow from the sums."""
        if self.n_steps >= LEARN_AFTER:
            self.learn_alpha()

    def end_pass(self) -> None:
        """Learn the pseudo-count of words that is due."""
        if self.n_steps >= LEARN_AFTER:
            self.learn_eta()

    # ---- chains ------------------------------------------------------------------------------------------------------

    def set_model(self, model: AdmixtureModel) -> None:
        """Use a model with other pseudo-counts; the expected counts stay the same."""
        self.model, self.converged = model, False

    def check(self) -> None:
        """Compare the counts with the documents; raise an AssertionError where they differ."""
        tokens = np.asarray(self.data.X.sum(axis=1)).ravel()
        tokens = tokens if self.data.weight is None else tokens * self.data.weight
        if not self.is_noisy and self.n_steps:
            slack = 1e-9 if self.passes.dtype == np.float64 else 1e-4
            found = self.word_counts.sum()
            assert abs(found - tokens.sum()) <= slack * max(1.0, tokens.sum()), "counts do not sum to the tokens"

    def to_arrays(self) -> dict[str, Any]:
        """Return all that a later step reads, exactly, as a dict of arrays."""
        arrays = {
            "labels": self.labels.copy(),
            "sums": self.sums.to_arrays(),
            "start_counts": self.start_counts.copy(),
            "scalars": np.array([self.log_joint, self.mean_active]),
            "counters": np.array([self.n_steps, self.stamp, self.n_updates, self.converged], dtype=np.int64),
            "n_batches": np.array(len(self.batches)),
        } | pseudocount_arrays(self.model)
        for b in range(len(self.batches)):
            if self.counts[b] is not None:
                arrays[f"counts_{b}"] = self.counts[b].to_arrays()
            if self.batch_sums[b] is not None:
                arrays[f"batch_sums_{b}"] = self.batch_sums[b].to_arrays()
            if self.remembered[b]:
                names = ("rows", "sizes", "bounds", "topics", "values")
                joined = {n: np.concatenate([getattr(p, n) for p in self.remembered[b]]) for n in names}
                arrays[f"batch_{b}"] = joined
        return arrays

    def from_arrays(self, arrays: dict[str, Any]) -> None:
        """Restore what `to_arrays` returned; later steps give the same bits as without a break."""
        found = arrays["sums"]["counts"].shape
        if found != self.word_counts.shape or int(arrays["n_batches"]) != len(self.batches):
            raise ExpFamError(
                f"the checkpoint has counts {found}, this state {self.word_counts.shape}, or other batches"
            )
        shape, K = self.word_counts.shape, self.model.n_components
        labels = integers(arrays, "labels", (self.data.n_rows,), -1, K, dtype=np.int32)
        start, sums = numbers(arrays, "start_counts", shape), TopicSums.from_arrays(arrays["sums"], shape)
        log_joint, mean_active = numbers(arrays, "scalars", (2,), finite=False).tolist()
        *counters, converged = integers(arrays, "counters", (4,)).tolist()
        kept = [self._stored_batch(arrays, b) for b in range(len(self.batches))]
        self.model = with_pseudocounts(self.model, arrays)
        self.labels, self.start_counts, self.sums = labels, start, sums
        self.log_joint, self.mean_active, self.converged = log_joint, mean_active, bool(converged)
        self.n_steps, self.stamp, self.n_updates = counters
        self.counts, self.batch_sums, self.remembered = ([part[i] for part in kept] for i in range(3))

    def _stored_batch(self, arrays, b):
        """Return the stored counts, sums and parts of a batch; None for each that is not stored."""
        n_rows, K = len(self.batches[b]), self.model.n_components
        stored, light, joined = (arrays.get(f"{name}_{b}") for name in ("counts", "batch_sums", "batch"))
        if (light is None) != (joined is None):
            raise ArchiveError(f"what is stored of batch {b} is incomplete: the file was altered")
        counts = None if stored is None else Counts.from_arrays(stored, n_rows, K)
        if light is None:
            return counts, None, None
        return counts, TopicSums.from_arrays(light, (0, K)), [_restored(joined, self.batches[b], self.passes)]


TopicVariational.state_type = TopicState


def _restored(arrays, rows, passes):
    """Return the stored part of a batch; raise an ArchiveError unless it has these documents."""
    part = Part.__new__(Part)
    part.documents = part.places = part.N = None
    part.rows = integers(arrays, "rows", (len(rows),), dtype=np.int64)
    if not np.array_equal(np.sort(part.rows), np.sort(rows)):
        raise ArchiveError("the stored results of a batch belong to other documents: the file was altered")
    part.sizes = integers(arrays, "sizes", (len(rows),), 0, passes.n_topics + 1, dtype=arrays["sizes"].dtype)
    part.bounds = numbers(arrays, "bounds", (len(rows),), dtype=arrays["bounds"].dtype)
    n_pairs, n_values = int(part.sizes.sum()), int((part.sizes.astype(np.int64) * passes.n_types[part.rows]).sum())
    part.topics = integers(arrays, "topics", (n_pairs,), 0, passes.n_topics, dtype=arrays["topics"].dtype)
    check_distinct(part.sizes, part.topics, passes.n_topics)
    part.values = numbers(arrays, "values", (n_values,), low=0.0, dtype=arrays["values"].dtype)
    return part


def seed_counts(
    data: Dataset, n_topics: int, rng: np.random.Generator, seeds: Any = None, *, near_corpus: bool = False
) -> npt.NDArray[np.float64]:
    """Draw counts of words in topics (V, K) for the start.

    They are the sum of two parts. In the first part all tokens are divided among the topics; in the second part each
    topic has the words of a few random documents. Both have about the same total, and tokens are divided in random
    shares: topics begin far from each other.

    Parameters
    ----------
    data : Dataset
    n_topics : int
        K.
    rng : numpy Generator
    seeds : (V, K) CSR, optional
        A topic with seeds has the words of the documents with most tokens of its seeds.
    near_corpus : bool
        Whether the first part has equal shares and nearly all of the total. Passes then draw topics of many documents
        apart, which otherwise keep what a few documents have in common by chance.
    """
    rows = np.arange(data.n_rows) if data.weight is None else np.flatnonzero(data.weight > 0)
    D = len(rows)
    each = max(1, min(_SEED_DOCUMENTS, D // n_topics))
    chosen = rows[rng.permutation(np.resize(rng.permutation(D), each * n_topics)).reshape(n_topics, each)]
    if seeds is not None:
        _choose_seeded(chosen, data.X, rows, seeds)
    times, total = np.ones(data.n_rows) if data.weight is None else data.weight, np.zeros(data.n_features)
    size = data.X.nnz if data.is_sparse else data.X.size
    for a, b in segments(data.n_rows, 1 + size // _SUMMED):  # in pieces: a product makes a float64 copy of the counts
        total += times[a:b] @ data.X[a:b]
    shape, own = (len(total), n_topics), _OWN_SHARE if near_corpus else 0.5
    counts = np.ones(shape) if near_corpus else rng.standard_gamma(1.0, shape)
    counts *= (1.0 - own) / n_topics * total[:, None]
    starts = np.arange(0, chosen.size + 1, chosen.shape[1])
    chooses = sparse.csr_array((np.ones(chosen.size), np.sort(chosen).ravel(), starts), (n_topics, data.n_rows))
    words = sparse.coo_array(chooses @ data.X)
    topic, word = words.coords
    sizes = np.maximum(np.bincount(topic, weights=words.data, minlength=n_topics), 1.0)
    counts[word, topic] += words.data * (own * total.sum() / n_topics / sizes)[topic]
    return counts


def _choose_seeded(chosen, X, rows, seeds):
    """Replace the documents of topics with seeds by those with most tokens of the seeds."""
    of_topic = seeds.tocsc()
    for k in np.flatnonzero(np.diff(of_topic.indptr)):
        words = of_topic.indices[of_topic.indptr[k] : of_topic.indptr[k + 1]]
        found = np.asarray(X[:, words].sum(axis=1)).ravel()[rows]
        best = np.argsort(-found, kind="stable")[: chosen.shape[1]]
        best = best[found[best] > 0]
        chosen[k, : len(best)] = rows[best]
