"""Variational inference of topic models whose number of topics is unknown.

A pass is that of a given number of topics at the pseudo-counts alpha E beta_k. Then the posterior of the weights that
all documents share is set, and topics are merged, left out and divided where that raises the bound. It is one bound for
any number of topics.
"""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from expfam.errors import CapabilityError
from expfam.model.admixture import AdmixtureModel
from expfam.model.hierarchical import HierarchicalProcess
from expfam.params import Integer, check_settings
from expfam.samplers.chain.driver import advance
from expfam.samplers.nonparametric.process_posterior import Occupied, ProcessPosterior, add_documents
from expfam.samplers.nonparametric.stick_posterior import StickPosterior
from expfam.samplers.nonparametric.topic_stream import TopicProcessStream
from expfam.samplers.nonparametric.topics import check_process_of_words, default_n_topics
from expfam.samplers.nonparametric.variational_moves import Allocation, Moves, try_moves
from expfam.samplers.states.large import count_large
from expfam.samplers.topics.local_step import TopicPass
from expfam.samplers.topics.state import TopicLocalStep, largest_topics
from expfam.samplers.topics.statistics import TopicSums
from expfam.samplers.topics.variational import TopicState, TopicVariational
from expfam.samplers.variational.schedules import Memoized, Schedule, Stochastic
from expfam.structures.ground.rng import generator
from expfam.structures.ground.stored import integers

if TYPE_CHECKING:
    from expfam.model.data import Dataset
    from expfam.samplers.variational.held_rows import Batch

_SETTLE = 4  # passes before the shared weights are set, and topics merged: topics that are nearly random tell nothing
_FIRST_STEPS = 20  # with the first chunk, before a stream learns it
_QUIET = 3  # steps without an accepted move and without gain, after which a run has converged


class TopicProcessVariational(TopicVariational):
    """Variational inference of topics of unknown number, with merges, deletions and births.

    One step is one memoized pass over the documents, and then trials: pairs of topics are merged, and topics divided,
    where this raises the bound. The bound never falls from the second step on.

    Parameters
    ----------
    n_active : int or None
        As in `TopicVariational`: largest number of topics that each word of a document keeps in the end.
    local : {"auto", "active", "dense", "tokens"}
        As in `TopicVariational`.
    schedule : Full, Memoized or Stochastic, optional
        When the topics are updated; None is `Memoized`. Full is for documents in memory, Stochastic for chunks.
    merge : bool
        Join pairs of similar topics.
    n_deletions : int
        Topics that a step tries to do without: their tokens go to others. Small topics are drawn more often. A chunk
        tries those of which it has half of all tokens, and leaves out one at most; under Stochastic none.
    n_births : int
        Topics that a step, or a chunk, tries to divide, drawn with probability proportional to their tokens.
    max_iterations, tol, bound_tol, dtype, n_threads
        As in `TopicVariational`.
    learn_alpha : bool
        Raise the bound also by both concentrations, which have Gamma(1, 1) priors.
    learn_eta : bool
        Raise the bound also by the pseudo-count of words in topics.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import HierarchicalProcess, Multinomial
    >>> from expfam.samplers import TopicProcessVariational, sample
    >>> X = np.repeat([[8, 8, 0, 0], [0, 0, 8, 8]], 20, axis=0)
    >>> kernel = TopicProcessVariational()
    >>> state = kernel.init(HierarchicalProcess(Multinomial(0.1)), X, seed=0, n_clusters=6)
    >>> trace = sample(kernel, state, 20)
    >>> state.n_clusters
    2

    Notes
    -----
    The bound is that of Hughes, Kim and Sudderth 2015, "Reliable and scalable variational inference for the
    hierarchical Dirichlet process", made tighter; merges and births are of the kind of Hughes and Sudderth 2013,
    "Memoized online variational inference for Dirichlet process mixture models".

    Unlike in both papers, a move changes the responsibilities of two topics alone and is judged by the whole bound; the
    next pass does the rest.
    """

    _constraints: ClassVar = {"n_deletions": Integer(0), "n_births": Integer(0)}

    def __init__(
        self,
        n_active: int | None = None,
        *,
        local: Literal["auto", "active", "dense", "tokens"] = "auto",
        schedule: Schedule | None = None,
        merge: bool = True,
        n_deletions: int = 1,
        n_births: int = 5,
        max_iterations: int = 100,
        tol: float = 0.05,
        bound_tol: float = 1e-5,
        dtype: Literal["float32", "float64"] = "float32",
        learn_alpha: bool = True,
        learn_eta: bool = False,
        n_threads: int | None = None,
    ) -> None:
        self.n_active, self.local, self.schedule = n_active, local, schedule
        self.merge, self.n_deletions, self.n_births = merge, n_deletions, n_births
        self.max_iterations, self.tol, self.bound_tol, self.dtype = max_iterations, tol, bound_tol, dtype
        self.learn_alpha, self.learn_eta, self.n_threads = learn_alpha, learn_eta, n_threads

    # the bound never falls only where the better of a document's last topics and new ones is kept
    documents = "best"
    n_restarts, restart_iterations = 0, 1

    # ---- settings ----------------------------------------------------------------------------------------------------

    def _check_settings(self, model, data):
        check_settings(self)
        name = type(self).__name__
        check_process_of_words(model, name)
        if model.n_known:
            raise CapabilityError(
                f"{name} has no place for known topics and seeds: write TopicProcessGibbs().init(model, X)"
            )
        if self.learn_eta and np.ndim(model.family.concentration):
            raise CapabilityError(f"{name}: learn_eta needs one concentration for all words, not a vector")

    def check(self, model: Any, data: Dataset) -> None:
        """Raise an error for settings out of range, and for what is no process of words."""
        schedule = self.schedule_of()
        if not isinstance(schedule, Schedule) or isinstance(schedule, Stochastic):
            raise ValueError(
                f"{type(self).__name__}: schedule must be Full() or Memoized() for documents in memory; got"
                f" {schedule!r}: learn them in chunks"
            )
        super().check(model, data)

    def check_stream(self, model: Any, data: Dataset) -> None:
        """Raise as `check` does, for a run that learns chunks; `data` is one of them."""
        schedule = self.schedule_of()
        if not isinstance(schedule, (Memoized, Stochastic)):
            raise ValueError(
                f"{type(self).__name__}: schedule must be Memoized() or Stochastic() for chunks; got {schedule!r}"
            )
        super().check_stream(model, data)

    def schedule_of(self) -> Schedule:
        """Return the schedule; `Memoized` where none is given."""
        return self.stream_schedule()

    def _empty_stream(self, model, data, seed):
        return TopicProcessStream(model, settings=self, seed=seed)

    def _stream_start(self, stream, data, start):
        """Return the state of a run that holds the first chunk: its topics begin the stream."""
        kernel = type(self)(**self.get_params() | {"schedule": None})
        state = kernel.init_state(stream.process, data, start, seed=stream.seed)
        advance(kernel, state, _FIRST_STEPS)
        return state

    def memory(self, model: Any, data: Dataset, n_clusters: int | None) -> int:
        """Return the bytes of tables and sums, and of the responsibilities of all documents."""
        K = self._first_number(data, n_clusters)
        n_entries = data.X.nnz if data.is_sparse else data.X.size
        each = min(self.n_active_of(K), 24)
        return super().memory(AdmixtureModel(model.family, K), data, K) + 40 * n_entries * each

    def _first_number(self, data, n_clusters):
        """Return the number of topics to begin with."""
        found = default_n_topics(int(data.X.sum()), data.n_rows) if n_clusters is None else int(n_clusters)
        return min(found, max(1, data.n_rows))

    # ---- kernel ------------------------------------------------------------------------------------------------------

    def first_labels(self, start: Any, model: Any, data: Dataset, seed: int, n_clusters: int | None) -> Any:
        """Return the counts of words in topics that a start stands for: (V, K) float64.

        `n_clusters` is the number of topics to begin with; counts may have any number of columns.
        """
        K = self._first_number(data, n_clusters) if isinstance(start, str) else np.shape(start)[-1]
        start = "documents" if isinstance(start, str) and start == "auto" else start  # births need topics far apart
        return super().first_labels(start, AdmixtureModel(model.family, K), data, seed, None)

    def init_state(
        self, model: HierarchicalProcess, data: Dataset, labels: Any, *, seed: int
    ) -> TopicProcessVariationalState:
        """Make the state whose topics follow from the counts `labels` (V, K)."""
        return TopicProcessVariationalState(model, data, labels, settings=self, seed=seed)

    def move(self, state: Any) -> tuple[int, int, dict[str, Any]]:
        """Make one pass over the documents, then try merges, deletions and births."""
        seconds, before = perf_counter(), state.log_joint
        diagnostics = state.make_pass().diagnostics
        n_tried, n_accepted, kinds = self._moves(state)
        state.mean_active = diagnostics.n_pairs / max(1, state.data.n_rows)
        gain = (state.log_joint - before) / max(abs(before), 1.0)
        is_quiet = np.isfinite(before) and not n_accepted and gain < self.bound_tol and state.n_steps > _SETTLE
        state.n_quiet = state.n_quiet + 1 if is_quiet else 0
        state.converged = state.n_quiet >= _QUIET
        extra = {"n_large": count_large(state.word_counts.sum(axis=0)), "active": state.mean_active, **kinds}
        return n_tried, n_accepted, extra | {"seconds_pass": perf_counter() - seconds}

    def _moves(self, state):
        """Try merges and births; return how many were tried and accepted, and of which kind."""
        if state.n_steps < _SETTLE or not (self.merge or self.n_deletions or self.n_births):
            return Moves(0, 0, {})
        allocation = Allocation(state)
        rng = generator(state.seed, "choice", unit=1, step=state.n_steps)
        found = try_moves(allocation, self, rng)
        if found.n_accepted:
            state.take_moves(allocation)
        return found


class TopicProcessVariationalState(ProcessPosterior, TopicState):
    """Expected counts of words in topics of unknown number, and posterior of their weights.

    Parameters
    ----------
    process : HierarchicalProcess
        With a bound family.
    data : Dataset
    word_counts : (V, K) float64 ndarray
        Counts of the start.
    settings : TopicProcessVariational
    seed : int

    Attributes
    ----------
    process : HierarchicalProcess
        With the present concentrations.
    model : AdmixtureModel
        The present number of topics, and alpha E beta_k as their pseudo-counts.
    sticks : StickPosterior
        Posterior of the weights that all documents share.
    word_counts, labels, log_joint, converged
        As in `TopicState`; `log_joint` is a lower bound of the log density of words and concentrations.

    Examples
    --------
    >>> from expfam import HierarchicalProcess, Multinomial
    >>> from expfam.samplers import TopicProcessVariational
    >>> kernel = TopicProcessVariational()
    >>> state = kernel.init(HierarchicalProcess(Multinomial(0.1)), [[1, 1, 0], [0, 2, 1]], seed=0)
    >>> info = kernel.step(state)
    >>> round(float(state.word_counts.sum()), 6)
    5.0
    """

    def __init__(
        self,
        process: HierarchicalProcess,
        data: Dataset,
        word_counts: npt.NDArray[np.float64],
        *,
        settings: TopicProcessVariational,
        seed: int,
    ) -> None:
        K = word_counts.shape[1]
        self.occupied = Occupied.of(data)
        n_groups = float(self.occupied.weight.sum())
        self.sticks = StickPosterior.around(np.full(K, 1.0 / (K + 1.0)), n_groups, process.alpha, process.gamma)
        finite = AdmixtureModel(process.family, K, self.sticks.pseudocounts)
        super().__init__(finite, data, word_counts, settings=settings, seed=seed)
        self.total_weight, self.n_quiet = n_groups, 0

    # ---- passes ------------------------------------------------------------------------------------------------------

    def step_of(self, batch: Batch, *, all_clusters: bool) -> tuple[TopicLocalStep, bool]:
        """Return the local step of the documents of a batch, and True: it scores all topics."""
        return self.process_step(self.passes, batch.rows, self.occupied, self.counts[batch.place]), True

    def weight_of(self, batch: Batch) -> float:
        """Return the number of documents with words of a batch, or the sum of their weights."""
        return float(self.occupied.weight[batch.rows].sum())

    def remember(self, batch: Batch, local: TopicLocalStep, *, scores_all: bool) -> None:
        """Keep labels, counts and responsibilities of the documents."""
        occupied = local.labels >= 0
        self.labels[batch.rows[occupied]] = local.labels[occupied]
        self.counts[batch.place], self.remembered[batch.place] = local.counts, local.parts
        self.batch_sums[batch.place] = local.sums.without_counts()

    def update(self) -> None:
        """Set the posterior of the shared weights; the topics follow from the sums."""
        if self.n_steps >= _SETTLE:
            self.raise_sticks()

    def end_pass(self) -> None:
        """Learn the pseudo-count of words that is due."""
        if self.n_steps >= _SETTLE:
            self.learn_eta()

    # ---- moves -------------------------------------------------------------------------------------------------------

    def take_moves(self, allocation: Allocation) -> None:
        """Take responsibilities that moves have changed, with their number of topics."""
        K = len(allocation.columns)
        self.resize(K)
        self.set_sticks(allocation.sticks)
        self.sums, total = TopicSums.zeros(self.passes.n_words, K), self.model.pseudocounts
        for b, (rows, part, counts, entropy) in enumerate(allocation.parts()):
            sums = self.empty_sums()
            self.passes.add(part, sums.counts)
            add_documents(sums, self.sticks.alpha, total, counts, entropy, self.occupied.take(rows))
            part.N = counts.N
            labels = largest_topics(part)
            self.labels[rows[labels >= 0]] = labels[labels >= 0]
            part.N = None
            self.sums.add(sums)
            self.counts[b], self.remembered[b], self.batch_sums[b] = counts, [part], sums.without_counts()
        self.stamp += 1
        self.log_joint = self.compute_log_joint()

    def resize(self, n_topics: int) -> None:
        """Make room for another number of topics."""
        self.model = AdmixtureModel(self.model.family, n_topics)
        self.passes = TopicPass(self.data, n_topics, self.settings)
        self.start_counts = np.zeros((self.passes.n_words, n_topics))

    # ---- chains ------------------------------------------------------------------------------------------------------

    def set_model(self, model: HierarchicalProcess) -> None:  # type: ignore[override]
        """Use another pseudo-count of words or other concentrations; all else stays."""
        self.model = self.model.with_family(model.family)
        self.set_sticks(self.sticks._replace(alpha=model.alpha, gamma=model.gamma))
        self.converged = False

    def to_arrays(self) -> dict[str, Any]:
        """Return all that a later step reads, exactly, as a dict of arrays."""
        return super().to_arrays() | self.sticks.to_arrays() | {"n_quiet": np.array(self.n_quiet)}

    def from_arrays(self, arrays: dict[str, Any]) -> None:
        """Restore what `to_arrays` returned; later steps give the same bits as without a break."""
        sticks = StickPosterior.from_arrays(arrays)
        self.resize(len(sticks.mean))
        self.sums = self.empty_sums()
        super().from_arrays(arrays)
        self.sticks = sticks
        self.n_quiet = int(integers(arrays, "n_quiet", ()))


TopicProcessVariational.state_type = TopicProcessVariationalState
