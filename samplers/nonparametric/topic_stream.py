"""Topics of unknown number from chunks of documents that are not kept.

A chunk that is learned may divide topics among its own documents; what other documents have of these topics stays with
one of the two. It may leave out a topic of which it has most tokens, see `memo_deletions`. Merges need all documents:
they are judged by the tokens of each topic of each document, which a memoized schedule remembers. Under a stochastic
schedule the documents of a chunk stand for all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from expfam.errors import CapabilityError
from expfam.model.admixture import AdmixtureModel
from expfam.samplers.nonparametric.memo_deletions import ChunkAllocation, try_deletion, with_homes
from expfam.samplers.nonparametric.memo_merges import MemoAllocation, renumbered, spread_of
from expfam.samplers.nonparametric.process_posterior import Occupied, ProcessPosterior, add_documents
from expfam.samplers.nonparametric.stick_posterior import StickPosterior
from expfam.samplers.nonparametric.variational_moves import Allocation, Behind, try_births, try_merges
from expfam.samplers.topics.local_step import Counts, TopicPass
from expfam.samplers.topics.state import largest_topics, with_pseudocounts
from expfam.samplers.topics.statistics import TopicSums
from expfam.samplers.topics.stream import TopicContribution, TopicStream
from expfam.samplers.variational.learner import weight_of
from expfam.structures.ground.rng import generator
from expfam.structures.ground.stored import integers, numbers

if TYPE_CHECKING:
    from expfam.model.data import Dataset
    from expfam.model.hierarchical import HierarchicalProcess
    from expfam.protocols import Info
    from expfam.samplers.nonparametric.topic_variational import (
        TopicProcessVariational,
        TopicProcessVariationalState,
    )
    from expfam.samplers.topics.state import TopicLocalStep
    from expfam.samplers.variational.learner import Pass
    from expfam.samplers.variational.stream_base import Chunk

_LEARN_EVERY = 10  # stochastic steps between two updates of the pseudo-count of words


@dataclass
class TopicProcessContribution(TopicContribution):
    """Contribution of a chunk to the sums when it was last learned.

    Attributes
    ----------
    n_rows, weight, sums, counts
        As in `TopicContribution`.
    occupied : Occupied
        Of its documents.
    spread : (2, P) float64 ndarray
        Entropy and squares of each pair of `counts`, see `Remembered`.
    """

    occupied: Any = None
    spread: Any = None

    def to_arrays(self) -> dict[str, Any]:
        """Return the contribution as a dict of arrays."""
        lengths, weight = self.occupied
        return super().to_arrays() | {"lengths": lengths, "occupied": weight, "spread": self.spread}

    @classmethod
    def from_arrays(cls, arrays: dict[str, Any], stream: Any) -> TopicProcessContribution:
        """Restore what `to_arrays` returned, for a chunk of `stream`."""
        n_rows, weight = int(integers(arrays, "n_rows", ())), float(numbers(arrays, "weight", (), low=0.0))
        counts = Counts.from_arrays(arrays["counts"], n_rows, stream.model.n_components)
        V, K = stream.sums.counts.shape
        n_words = 0 if arrays["sums"]["counts"].shape[0] == 0 else V  # a chunk without a name leaves no words
        sums = TopicSums.from_arrays(arrays["sums"], (n_words, K))
        of_rows = [numbers(arrays, name, (n_rows,), low=0.0) for name in ("lengths", "occupied")]
        spread = numbers(arrays, "spread", (2, len(counts.N)))
        return cls(n_rows, weight, sums, counts, Occupied(*of_rows), spread)

    def becomes(self, homes: npt.NDArray[np.int64], n_topics: int) -> None:
        """Give the topics other numbers, ``homes[k]`` for k; there may be more of them then."""
        rising = np.zeros((2, n_topics))
        rising[:, homes] = self.sums.rising
        counts = _columns_joined(self.sums.counts, homes, n_topics)
        self.sums = TopicSums(counts, rising, self.sums.falling, self.sums.rest, self.sums.weight)
        self.counts = renumbered(self.counts, homes) if self.counts is not None else None


class DocumentsAtHand(NamedTuple):
    """Documents of a chunk with the results of their local step, as `Allocation` reads them."""

    eta: npt.NDArray[np.float64]
    sticks: StickPosterior
    sums: TopicSums
    passes: TopicPass
    remembered: list[Any]
    occupied: Occupied
    data: Dataset
    settings: Any


class TopicProcessStream(ProcessPosterior, TopicStream):
    """Topics of unknown number learned chunk by chunk, by `TopicProcessVariational.stream`.

    Parameters
    ----------
    process : HierarchicalProcess
        With a bound family.
    settings : TopicProcessVariational
    seed : int

    Attributes
    ----------
    process, model, sticks
        As of `TopicProcessVariationalState`: present concentrations, pseudo-counts, posterior of the shared weights.
    total_weight, wordless_weight : float
        Weights of the documents with words, and of those without any, learned so far; each document counts once.
    labels : (m,) int32 ndarray
        Largest topic of each document of the last chunk; -1 for an empty document.
    memo : dict
        `TopicProcessContribution` of each chunk that has a name.
    unnamed : list
        The same of the chunks without a name, without their words.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import Dataset, HierarchicalProcess, Multinomial
    >>> from expfam.samplers import TopicProcessVariational
    >>> X = np.repeat([[8, 8, 0, 0], [0, 0, 8, 8]], 20, axis=0)
    >>> chunks = [Dataset(X, Multinomial(0.1)) for _ in range(3)]
    >>> kernel, model = TopicProcessVariational(), HierarchicalProcess(chunks[0].family)
    >>> stream = kernel.stream(model, chunks[0], seed=0, n_clusters=6)
    >>> for place, chunk in enumerate([*chunks, *chunks]):
    ...     info = stream.learn(chunk, batch=place % 3)
    >>> stream.n_clusters, round(float(stream.word_counts.sum()))
    (2, 1920)
    """

    contribution_type = TopicProcessContribution

    def __init__(self, process: HierarchicalProcess, *, settings: TopicProcessVariational, seed: int) -> None:
        self.sticks = StickPosterior.around([0.5], 1.0, process.alpha, process.gamma)
        finite = AdmixtureModel(process.family, 1, self.sticks.pseudocounts)
        super().__init__(finite, settings=settings, seed=seed)
        self.unnamed: list[TopicProcessContribution] = []
        self.due = 1  # the step before which merges are tried
        self.wordless_weight = 0.0

    def begin(self, data: Dataset, state: TopicProcessVariationalState) -> None:  # type: ignore[override]
        """Begin with the topics of a run that holds `data`; the first learned chunk replaces them."""
        self.model = state.model
        self.sticks = state.sticks
        self.start_from(state.sums.copy(), state.total_weight)

    def resume(self, sums: Any) -> None:
        """Raise CapabilityError: a fit keeps nothing of what documents say of shared weights."""
        raise CapabilityError("topics of unknown number do not go on from a fit: learn its documents as a first chunk")

    # ---- chunks ------------------------------------------------------------------------------------------------------

    def learn(self, data: Dataset, *, batch: int | str | None = None, all_clusters: bool = False) -> Info:
        """Learn a chunk, update the posterior, and try to divide and to leave out topics.

        Merges are tried first, once for as many steps as there are chunks. Arguments and results are those of
        `ChunkStream.learn`.
        """
        if self.n_steps >= self.due:
            self.end_pass()
            self.due = self.n_steps + (_LEARN_EVERY if self.is_noisy else len(self.memo) + len(self.unnamed))
        return super().learn(data, batch=batch, all_clusters=all_clusters)

    def step_of(self, batch: Chunk, *, all_clusters: bool) -> tuple[TopicLocalStep, bool]:
        """Return the local step of the documents of a chunk, and True: it scores all topics."""
        data, last = batch.data, batch.last
        self.passes, self.at_hand = TopicPass(data, self.model.n_components, self.settings), Occupied.of(data)
        stored = None if last is None else last.counts
        return self.process_step(self.passes, np.arange(data.n_rows, dtype=np.int64), self.at_hand, stored), True

    def weight_of(self, batch: Chunk) -> float:
        """Return the number of documents with words of a chunk, or the sum of their weights."""
        return float(Occupied.of(batch.data).weight.sum())

    def _replace(self, old, batch, new):
        """Replace the last sums of a chunk; count the documents of a new one that have no words."""
        if self.is_guess:
            self.wordless_weight = 0.0
        if old is None:
            self.wordless_weight += weight_of(batch.data) - self.weight_of(batch)
        super()._replace(old, batch, new)

    def _step_towards(self, batch, local, done):
        """Move the sums towards those of a chunk; count its documents that have no words."""
        if not self._repeats:
            self.wordless_weight += weight_of(batch.data) - self.weight_of(batch)
        super()._step_towards(batch, local, done)

    def contribution(
        self, local: TopicLocalStep, data: Dataset, last: Any, scores_all: bool
    ) -> TopicProcessContribution:
        """Return what the stream remembers of a local step."""
        weight = weight_of(data)
        count = self.passes.X.data.astype(np.float64)
        n_types = self.passes.n_types.astype(np.int64)
        spread = spread_of(local.parts, n_types, count) if local.parts else np.zeros((2, 0))
        counts = local.counts or Counts(np.zeros(data.n_rows + 1, dtype=np.int64), np.empty(0, np.int32), np.empty(0))
        return TopicProcessContribution(data.n_rows, weight, local.sums.compact(), counts, self.at_hand, spread)

    def remember(self, batch: Chunk, local: TopicLocalStep, *, scores_all: bool) -> None:
        """Keep the labels of a chunk, and what merges need of its documents."""
        super().remember(batch, local, scores_all=scores_all)
        if batch.name is None and not self.is_noisy:
            kept = self.contribution(local, batch.data, None, scores_all)
            kept.sums = kept.sums.without_counts()
            self.unnamed.append(kept)

    def follow(self, batch: Chunk, done: Pass, *, all_clusters: bool, is_last: bool = False) -> None:
        """Make the local step of a chunk and its update; divide and leave out topics."""
        done.n_rows += batch.data.n_rows
        done.weight += self.weight_of(batch)
        local, scores_all = self.step_of(batch, all_clusters=all_clusters)
        done.diagnostics.add(local.diagnostics)
        done.n_batches += 1
        if self.is_noisy:
            self._step_towards(batch, local, done)
        else:
            self._replace(self.last_sums(batch, local), batch, local.sums)
        self.remember(batch, local, scores_all=scores_all)
        self.update()
        self._try_moves(batch, local)
        if not self.is_noisy:
            self.log_joint = self.compute_log_joint()
        elif done.bounds:  # chunks without words have none
            self.log_joint = done.bounds[-1]
        self.n_steps += 1

    def update(self) -> None:
        """Set the posterior of the shared weights; the topics follow from the sums."""
        if not self.is_guess:
            self.raise_sticks()

    def is_complete(self, done: Pass) -> bool:
        """Tell whether a pass learned every chunk that the sums hold."""
        return done.n_batches == len(self.memo) and not self.unnamed

    def set_total(self, done: Pass) -> None:
        """Keep the sums: chunks have replaced theirs one by one."""

    def end_pass(self) -> None:
        """Merge topics where that raises the bound, and learn the pseudo-count of words."""
        if not self.is_noisy and self.settings.merge:
            self._try_merges()
        self.learn_eta()
        if not self.is_noisy:
            self.log_joint = self.compute_log_joint()

    # ---- moves -------------------------------------------------------------------------------------------------------

    def _try_moves(self, batch, local):
        """Divide and leave out topics of the chunk at hand; merge some under a stochastic schedule."""
        weight = self.weight_of(batch)
        if not weight or not local.parts:
            return
        rng = generator(self.seed, "choice", unit=2, step=self.n_steps)
        factor = 1.0
        if self.is_noisy:
            scale = (self.schedule.n_total or self.total_weight) / weight
            factor = self.schedule.step_size(self.n_updates) * scale
        allocation = self._allocation(batch, local, factor)
        is_divided = try_births(allocation, self.settings.n_births, rng)[1] > 0
        if is_divided:
            local = self._take_births(batch, allocation, local, factor)
        if not self.is_noisy:
            allocation = self._allocation(batch, local, factor) if is_divided else allocation
            self._try_deletions(batch, allocation, local)
        elif self.settings.merge:
            allocation = Allocation(*self._documents_at_hand(batch, local, scale, 0.0))
            if try_merges(allocation)[1]:
                allocation.finish(learn=self.settings.learn_alpha)
                self._become(allocation, merges=True)

    def _allocation(self, batch, local, factor):
        """Return the documents at hand with what is remembered of the others."""
        here = self._documents_at_hand(batch, local, factor, factor)
        if self.is_noisy:
            return Allocation(*here)
        own = self.unnamed[-1] if batch.name is None else self.memo[batch.name]
        return ChunkAllocation(*here, [kept for kept in (*self.memo.values(), *self.unnamed) if kept is not own])

    def _documents_at_hand(self, batch, local, factor, share):
        """Return the documents at hand, `factor` times each, and what the others have.

        The sums hold `share` times the documents; with 0 they stand for the others, too, but for words.
        """
        words = self.word_counts - factor * local.sums.counts
        slopes = self.sums.rising - share * local.sums.rising if share else np.zeros_like(self.sums.rising)
        occupied = Occupied(self.at_hand.lengths, factor * self.at_hand.weight)
        state = (self.eta, self.sticks, self.sums, self.passes, [local.parts], occupied, batch.data, self.settings)
        return DocumentsAtHand(*state), Behind(words, slopes)

    def _take_births(self, batch, allocation, local, factor):
        """Take topics that were divided; return the local step with them."""
        allocation.finish(learn=self.settings.learn_alpha)
        others = self.sums.copy().add(local.sums, -factor)
        homes, K = allocation.homes(), len(allocation.columns)
        self._become(allocation)
        ((_, part, counts, entropy),) = allocation.parts()
        sums = self.empty_sums()
        self.passes = TopicPass(batch.data, K, self.settings)
        self.passes.add(part, sums.counts)
        add_documents(sums, self.sticks.alpha, self.model.pseudocounts, counts, entropy / factor, self.at_hand)
        rising = np.zeros((2, K))
        rising[:, homes] = others.rising
        words = np.maximum(_columns_joined(others.counts, homes, K), 0.0)
        self.sums = TopicSums(words, np.maximum(rising, 0.0), others.falling, others.rest, others.weight)
        self.sums.add(sums, factor)
        divided = type(local)(sums, local.labels, counts, local.diagnostics, [part])
        self._relabel(part, counts)
        self._replace_contribution(batch, divided)
        return divided

    def _try_deletions(self, batch, allocation, local):
        """Leave out a topic of which the documents at hand have most, where the bound rises."""
        rng = generator(self.seed, "choice", unit=3, step=self.n_steps)
        for _ in range(self.settings.n_deletions):
            if try_deletion(allocation, rng):
                self._take_deletion(batch, allocation, local)
                return

    def _take_deletion(self, batch, allocation, local):
        """Take the topics that are left; every contribution gets their numbers, and new tangents."""
        allocation.finish(learn=self.settings.learn_alpha)
        K, homes = len(allocation.columns), allocation.homes()
        self.model = AdmixtureModel(self.model.family, K)
        self.set_sticks(allocation.sticks)
        ((_, part, counts, entropy),) = allocation.parts()
        sums, self.passes = self.empty_sums(), TopicPass(batch.data, K, self.settings)
        self.passes.add(part, sums.counts)
        add_documents(sums, self.sticks.alpha, self.model.pseudocounts, counts, entropy, self.at_hand)
        self.sums = TopicSums.of_counts(np.stack([column.words for column in allocation.columns], axis=1))
        _add_all_but_words(self.sums, sums)
        for kept in allocation.others:
            self._renew(kept, homes, *with_homes(kept, homes, K))
        self._relabel(part, counts)
        self._replace_contribution(batch, type(local)(sums, local.labels, counts, local.diagnostics, [part]))

    def _become(self, allocation, *, merges=False):
        """Use the topics and weights of an allocation; every contribution gets their numbers."""
        K, homes = len(allocation.columns), allocation.homes()
        self.model = AdmixtureModel(self.model.family, K)
        self.set_sticks(allocation.sticks)
        if merges:
            rising = np.zeros((2, K))
            np.add.at(rising.T, homes, self.sums.rising.T)
            words = _columns_joined(self.word_counts, homes, K)
            self.sums = TopicSums(words, rising, self.sums.falling, self.sums.rest, self.sums.weight)
            return
        for kept in (*self.memo.values(), *self.unnamed):
            kept.becomes(homes, K)

    def _relabel(self, part, counts):
        part.N = counts.N
        self.labels = largest_topics(part)
        part.N = None

    def _replace_contribution(self, batch, local):
        """Remember the divided topics of the chunk at hand."""
        if self.is_noisy:
            return
        kept = self.contribution(local, batch.data, None, True)
        if batch.name is None:
            kept.sums = kept.sums.without_counts()
            self.unnamed[-1] = kept
        else:
            self.memo[batch.name] = kept

    def _try_merges(self):
        """Merge topics of all documents where the bound, by what is remembered of them, rises."""
        contributions = [*self.memo.values(), *self.unnamed]
        if not contributions or self.model.n_components < 2:
            return
        allocation = MemoAllocation(self, contributions)
        if not try_merges(allocation)[1]:
            return
        allocation.finish(learn=self.settings.learn_alpha)
        homes, K = allocation.homes(), len(allocation.columns)
        words = _columns_joined(self.word_counts, homes, K)
        self.model = AdmixtureModel(self.model.family, K)
        self.set_sticks(allocation.sticks)
        self.sums = TopicSums.of_counts(words)
        for kept, (starts, topics, pairs) in zip(contributions, allocation.by_document()):
            self._renew(kept, homes, starts, topics, pairs)

    def _renew(self, kept, homes, starts, topics, pairs):
        """Give a contribution other topics and new tangents, and add it to the sums."""
        K, counts = self.model.n_components, Counts(starts, topics, pairs.N)
        sums, of_pairs = TopicSums.zeros(0, K), np.repeat(kept.occupied.weight, np.diff(starts))
        entropy = float((of_pairs * pairs.entropy).sum())
        add_documents(sums, self.sticks.alpha, self.model.pseudocounts, counts, entropy, kept.occupied)
        _add_all_but_words(self.sums, sums)
        kept.sums = sums.with_counts(_columns_joined(kept.sums.counts, homes, K))
        kept.counts, kept.spread = counts, np.stack([pairs.entropy, pairs.squares])

    # ---- storage -----------------------------------------------------------------------------------------------------

    def to_arrays(self) -> dict[str, Any]:
        """Return all that later learning depends on, as a dict of arrays."""
        return (
            super().to_arrays()
            | self.sticks.to_arrays()
            | {
                "unnamed": {str(place): kept.to_arrays() for place, kept in enumerate(self.unnamed)},
                "due": np.array(self.due),
                "wordless": np.array(self.wordless_weight),
            }
        )

    @classmethod
    def from_arrays(  # type: ignore[override]
        cls, process: HierarchicalProcess, settings: TopicProcessVariational, arrays: dict[str, Any]
    ) -> TopicProcessStream:
        """Restore the stream that `to_arrays` described, for the same model and settings."""
        seed = int(integers(arrays, "seed", (), 0, 2**64, dtype=np.uint64))
        self = cls(process, settings=settings, seed=seed)
        self.sticks = StickPosterior.from_arrays(arrays)
        self.model = with_pseudocounts(AdmixtureModel(process.family, len(self.sticks.mean)), arrays)
        self._restore_run(arrays)
        unnamed = arrays.get("unnamed", {})
        self.unnamed = [TopicProcessContribution.from_arrays(unnamed[str(i)], self) for i in range(len(unnamed))]
        self.due = int(integers(arrays, "due", ()))
        if "wordless" in arrays:  # earlier files have none
            self.wordless_weight = float(numbers(arrays, "wordless", (), low=0.0))
        return self


def _columns_joined(counts, homes, n_topics):
    """Return counts of words (V, K), dense or CSR, with topic k added to topic ``homes[k]``."""
    if sparse.issparse(counts):
        found = sparse.csr_array((counts.data, homes[counts.indices], counts.indptr), (counts.shape[0], n_topics))
        found.sum_duplicates()
        return found
    joined = np.zeros((len(counts), n_topics))
    np.add.at(joined.T, homes, counts.T)
    return joined


def _add_all_but_words(total, sums):
    """Add the documents of some sums, whose words `total` holds already."""
    total.rising += sums.rising
    total.falling += sums.falling
    total.rest += sums.rest
    total.weight += sums.weight
