"""Variational inference of topics from chunks of documents that are not kept.

Memory beside one chunk is O(V K). A memoized schedule also remembers each chunk's counts of words in topics, as CSR
where most of them are 0; with documents "warm" or "best" it remembers the topics of the chunk's documents, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from expfam.samplers.topics.local_step import Counts, TopicPass
from expfam.samplers.topics.state import LEARN_AFTER, TopicPosterior, pseudocount_arrays, with_pseudocounts
from expfam.samplers.topics.statistics import TopicSums
from expfam.samplers.variational.learner import weight_of
from expfam.samplers.variational.stream_base import ChunkStream
from expfam.structures.ground.stored import integers, numbers

if TYPE_CHECKING:
    from expfam.model.admixture import AdmixtureModel
    from expfam.model.data import Dataset
    from expfam.samplers.topics.state import TopicLocalStep
    from expfam.samplers.topics.variational import TopicVariational
    from expfam.samplers.variational.stream_base import Chunk

_LEARN_EVERY = 10  # steps between two updates of the pseudo-count of words, and before the first


@dataclass
class TopicContribution:
    """Contribution of a chunk to the sums when it was last learned.

    Attributes
    ----------
    n_rows, weight : int, float
        Size and weight of the chunk; they are compared when it comes again.
    sums : TopicSums
        In compact form.
    counts : Counts or None
        Counts of topics in documents; None where they are not remembered.
    """

    n_rows: int
    weight: float
    sums: TopicSums
    counts: Counts | None = None

    def to_arrays(self) -> dict[str, Any]:
        """Return the contribution as a dict of arrays."""
        arrays = {"n_rows": np.array(self.n_rows), "weight": np.array(self.weight), "sums": self.sums.to_arrays()}
        return arrays if self.counts is None else arrays | {"counts": self.counts.to_arrays()}

    @classmethod
    def from_arrays(cls, arrays: dict[str, Any], stream: TopicStream) -> TopicContribution:
        """Restore what `to_arrays` returned, for a chunk of `stream`.

        Parameters
        ----------
        arrays : dict of ndarrays
            Result of `to_arrays`.
        stream : TopicStream
            It determines the shapes, against which the arrays are checked.
        """
        n_rows, weight = int(integers(arrays, "n_rows", ())), float(numbers(arrays, "weight", (), low=0.0))
        counts = None
        if "counts" in arrays:
            counts = Counts.from_arrays(arrays["counts"], n_rows, stream.model.n_components)
        return cls(n_rows, weight, TopicSums.from_arrays(arrays["sums"], stream.sums.counts.shape), counts)


class TopicStream(ChunkStream, TopicPosterior):
    """Topics learned chunk by chunk; made by `TopicVariational.stream`.

    Parameters
    ----------
    model : AdmixtureModel
        With a bound family.
    settings : TopicVariational
    seed : int

    Attributes
    ----------
    total_weight : float
        Weight of the documents learned so far; each document counts once.
    labels : (m,) int32 ndarray
        Largest topic of each document of the last chunk; -1 for an empty document.
    memo : dict
        `TopicContribution` of each chunk that has a name.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import AdmixtureModel, Dataset, Multinomial
    >>> from expfam.samplers import Memoized, TopicVariational
    >>> X = np.repeat([[4, 4, 0, 0], [0, 0, 4, 4]], 20, axis=0)
    >>> chunks = [Dataset(X, Multinomial(0.1)) for _ in range(3)]
    >>> model = AdmixtureModel(chunks[0].family, 2, alpha=0.5)
    >>> stream = TopicVariational(schedule=Memoized()).stream(model, chunks[0], seed=0)
    >>> for place, chunk in enumerate([*chunks, *chunks]):
    ...     info = stream.learn(chunk, batch=place % 3)
    >>> round(float(stream.word_counts.sum()))
    960
    """

    contribution_type = TopicContribution

    def __init__(self, model: AdmixtureModel, *, settings: TopicVariational, seed: int) -> None:
        super().__init__(model, settings=settings, seed=seed)
        self.start_stream(settings.stream_schedule())

    def begin(self, data: Dataset, word_counts: npt.NDArray[np.float64]) -> None:
        """Begin with counts of words in topics (V, K) that stand for the chunk `data`.

        The first chunk that is learned replaces them.

        Parameters
        ----------
        data : Dataset
            The first chunk.
        word_counts : (V, K) float64 ndarray
            Counts of words in topics.
        """
        weight = weight_of(data)
        self.start_from(TopicSums.of_counts(word_counts, weight=weight), weight)

    def resume(self, sums: TopicSums) -> None:
        """Begin with the sums of a finished fit, whose documents are not known."""
        self.continue_from(sums, sums.weight)

    # ---- chunks ------------------------------------------------------------------------------------------------------

    def check_kind(self, data: Dataset) -> None:
        """Accept every chunk: a Dataset of words needs no further check."""

    def step_of(self, batch: Chunk, *, all_clusters: bool) -> tuple[TopicLocalStep, bool]:
        """Return the local step of the documents of a chunk, and True: it scores all topics."""
        data, last = batch.data, batch.last
        passes = TopicPass(data, self.model.n_components, self.settings)
        stored = None if last is None else last.counts
        return self.local_step_of_rows(passes, np.arange(data.n_rows, dtype=np.int64), stored), True

    def sums_of_contribution(self, last: TopicContribution, local: TopicLocalStep) -> TopicSums:
        """Return the sums that a chunk contributed before this local step."""
        return last.sums.dense()

    def contribution(
        self, local: TopicLocalStep, data: Dataset, last: TopicContribution | None, scores_all: bool
    ) -> TopicContribution:
        """Return what the stream remembers of a local step."""
        return TopicContribution(data.n_rows, weight_of(data), local.sums.compact(), local.counts)

    def update(self) -> None:
        """Learn the pseudo-counts that are due; the topics follow from the sums."""
        has_settled = self.n_steps >= _LEARN_EVERY or self.n_sweeps >= LEARN_AFTER
        if has_settled and not self.is_guess:
            self.learn_alpha()
            if self.n_steps % _LEARN_EVERY == 0:
                self.learn_eta()

    def end_pass(self) -> None:
        """Learn the pseudo-count of words, which `update` does under a stochastic schedule."""
        if self.n_sweeps >= LEARN_AFTER and not self.is_noisy:
            self.learn_eta()

    def gain_tolerance(self) -> float:
        """Return the share of the bound below which the gain of a pass means convergence."""
        return self.settings.bound_tol

    # ---- storage -----------------------------------------------------------------------------------------------------

    def to_arrays(self) -> dict[str, Any]:
        """Return all that later learning depends on, as a dict of arrays."""
        return {
            "sums": self.sums.to_arrays(),
            "labels": self.labels.copy(),
            "scalars": np.array([self.log_joint, self.total_weight]),
            "counters": np.array([self.n_steps, self.n_updates, self.n_sweeps, self.is_guess], dtype=np.int64),
            "seed": np.array(self.seed, dtype=np.uint64),
        } | (self.memo_arrays() | pseudocount_arrays(self.model))

    @classmethod
    def from_arrays(cls, model: Any, settings: TopicVariational, arrays: dict[str, Any]) -> TopicStream:
        """Restore the stream that `to_arrays` described, for the same model and settings.

        Parameters
        ----------
        model : AdmixtureModel
            With the bound family of the stored stream.
        settings : TopicVariational
            Kernel of the stored stream.
        arrays : dict of ndarrays
            Result of `to_arrays`.

        Raises
        ------
        ExpFamError
            Where the model has a different number of topics.
        """
        seed = int(integers(arrays, "seed", (), 0, 2**64, dtype=np.uint64))
        self = cls(with_pseudocounts(model, arrays), settings=settings, seed=seed)
        self._restore_run(arrays)
        return self

    def _restore_run(self, arrays):
        """Restore all but the model and the seed."""
        model = self.model
        self.sums = TopicSums.from_arrays(arrays["sums"], (model.family.n_features_in_, model.n_components))
        self.labels = integers(arrays, "labels", (None,), -1, model.n_components, dtype=np.int32)
        self.log_joint, self.total_weight = numbers(arrays, "scalars", (2,), finite=False).tolist()
        self.n_steps, self.n_updates, self.n_sweeps, is_guess = integers(arrays, "counters", (4,)).tolist()
        self.is_guess = bool(is_guess)
        self.restore_memo(arrays)
