"""Variational inference of topics from chunks of documents that are not kept.

Memory beside one chunk: O(V K), and for each chunk that a memoized schedule remembers its counts of words in topics,
as CSR where most are 0, with documents "warm" or "best" also the topics of its documents.
"""

from dataclasses import dataclass

import numpy as np

from expfam.errors import ExpFamError
from expfam.samplers.topics.local_step import Counts, TopicPass
from expfam.samplers.topics.state import LEARN_AFTER, TopicDiagnostics, TopicPosterior
from expfam.samplers.topics.statistics import TopicSums
from expfam.samplers.variational.stream_base import ChunkStream, weight_of
from expfam.structures.ground.stored import integers, numbers

_LEARN_EVERY = 10  # visits from one learning of the pseudo-count of words to the next, and before the first


@dataclass
class TopicContribution:
    """What a chunk contributed when it was last learned.

    Attributes
    ----------
    n_rows, weight : int, float
        By which the chunk is recognised when it comes again.
    sums : TopicSums
        Compact.
    counts : Counts or None
        Of topics in documents.
    """

    n_rows: int
    weight: float
    sums: TopicSums
    counts: Counts | None = None

    def to_arrays(self):
        """As a dict of arrays."""
        arrays = {"n_rows": np.array(self.n_rows), "weight": np.array(self.weight), "sums": self.sums.to_arrays()}
        return arrays if self.counts is None else arrays | {"counts": self.counts.to_arrays()}

    @classmethod
    def from_arrays(cls, arrays, stream):
        """What `to_arrays` gave, of a chunk of that stream."""
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
        Its family bound.
    settings : TopicVariational
    seed : int

    Attributes
    ----------
    total_weight : float
        Of the documents learned so far, each counted once.
    labels : (m,) int32 ndarray
        Largest topic of each document of the chunk learned last; -1 of an empty one.
    memo : dict
        `TopicContribution` of each chunk that was named.

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

    empty_diagnostics, contribution_type = TopicDiagnostics, TopicContribution

    def __init__(self, model, *, settings, seed):
        super().__init__(model, settings=settings, seed=seed)
        self.start_stream(settings.stream_schedule())

    def begin(self, data, word_counts):
        """Take counts of words in topics that stand for a chunk; the first one that is learned takes their place."""
        weight = weight_of(data)
        self.take_start(TopicSums.of_counts(word_counts, weight=weight), weight)

    # ---- chunks ------------------------------------------------------------------------------------------------------

    def check_kind(self, data):
        """Every chunk of words will do."""

    def local_step(self, data, last, *, all_clusters):
        """Local step of all documents of a chunk."""
        passes = TopicPass(data, self.model.n_components, self.settings)
        stored = None if last is None else last.counts
        return self.local_step_of_rows(passes, np.arange(data.n_rows, dtype=np.int64), stored), True

    def sums_of_contribution(self, last, local):
        """Sums of what a chunk contributed before this local step."""
        return last.sums.dense()

    def contribution(self, local, data, last, scores_all):
        """What is remembered of a local step."""
        return TopicContribution(data.n_rows, weight_of(data), local.sums.compact(), local.counts)

    def update(self):
        """Learn what is to be learned; the topics are those of the sums."""
        has_settled = self.n_steps >= _LEARN_EVERY or self.n_sweeps >= LEARN_AFTER
        if has_settled and not self.is_guess:
            self.learn_alpha()
            if self.n_steps % _LEARN_EVERY == 0:
                self.learn_eta()

    def end_sweep(self):
        """The pseudo-count of words is learned once a pass."""
        if self.n_sweeps >= LEARN_AFTER:
            self.learn_eta()

    def settled_gain(self):
        """Share of the bound that a pass gains at least while it has not settled."""
        return self.settings.bound_tol

    # ---- storage -----------------------------------------------------------------------------------------------------

    def to_arrays(self):
        """All that learning goes on from, as a dict of arrays."""
        return {
            "sums": self.sums.to_arrays(),
            "labels": self.labels.copy(),
            "scalars": np.array([self.log_joint, self.total_weight]),
            "counters": np.array([self.n_steps, self.n_updates, self.n_sweeps, self.is_guess], dtype=np.int64),
            "seed": np.array(self.seed, dtype=np.uint64),
        } | (self.memo_arrays() | self.model_arrays())

    @classmethod
    def from_arrays(cls, model, settings, arrays):
        """The stream that `to_arrays` described, for the same model and settings.

        Raises
        ------
        ExpFamError
            Where the model has another number of topics.
        """
        if len(arrays["alpha"]) != model.n_components:
            raise ExpFamError(
                f"the stored stream has {len(arrays['alpha'])} topics, the model {model.n_components}:"
                " use the same model"
            )
        self = cls(model, settings=settings, seed=int(integers(arrays, "seed", (), 0, 2**64, dtype=np.uint64)))
        self.take_model_arrays(arrays)
        self.sums = TopicSums.from_arrays(arrays["sums"], (model.family.n_features_in_, model.n_components))
        self.labels = integers(arrays, "labels", (None,), -1, model.n_components, dtype=np.int32)
        self.log_joint, self.total_weight = numbers(arrays, "scalars", (2,), finite=False).tolist()
        self.n_steps, self.n_updates, self.n_sweeps, is_guess = integers(arrays, "counters", (4,)).tolist()
        self.is_guess = bool(is_guess)
        self.take_memo(arrays)
        return self


__all__ = ["TopicContribution", "TopicStream"]
