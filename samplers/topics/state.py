"""Posterior of the topics of a variational run, and the results of its local steps.

Invariant: the topics are those that the sums imply; the pseudo-counts of the model are learned from the sums alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from expfam.amounts import counted
from expfam.errors import ExpFamError
from expfam.samplers.topics.local_step import Counts
from expfam.samplers.topics.statistics import TopicSums, better_shared_pseudocount, log_evidence_of_topics
from expfam.samplers.variational.learner import Learner
from expfam.structures.ground.stored import TINY, numbers

if TYPE_CHECKING:
    from expfam.model.admixture import AdmixtureModel
    from expfam.samplers.topics.local_step import Part, TopicPass
    from expfam.samplers.topics.variational import TopicVariational

LEARN_AFTER = 5  # passes; pseudo-counts that are learned from nearly random topics keep the topics random


@dataclass
class TopicDiagnostics:
    """Counters of a local step, or of several, added up.

    Attributes
    ----------
    counters : (3,) int64 ndarray
        Iterations, restarts tried and restarts accepted.
    n_pairs : int
        Active topics, summed over the documents.
    n_documents : int
    """

    counters: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(3, dtype=np.int64))
    n_pairs: int = 0
    n_documents: int = 0

    def add(self, other: TopicDiagnostics) -> None:
        """Add other diagnostics, in place."""
        self.counters += other.counters
        self.n_pairs += other.n_pairs
        self.n_documents += other.n_documents

    def extra(self) -> dict[str, float]:
        """Return the numbers by name, for an `Info`."""
        names = ("iterations", "restarts", "restarts_accepted")
        return dict(zip(names, self.counters.tolist())) | {"active": self.n_pairs / max(1, self.n_documents)}


@dataclass
class TopicLocalStep:
    """Results of a local step.

    Attributes
    ----------
    sums : TopicSums
    labels : (R,) int32 ndarray
        Largest topic of each document; -1 for an empty document.
    counts : Counts or None
        Counts of topics in documents; None where they are not remembered.
    diagnostics : TopicDiagnostics
    parts : list of Part
        Topics and responsibilities of the documents; empty where they are not remembered.
    """

    sums: TopicSums
    labels: npt.NDArray[np.int32]
    counts: Counts | None
    diagnostics: TopicDiagnostics
    parts: list[Part]


class TopicPosterior(Learner):
    """Sums over documents, and the topics that they imply.

    Base of runs that hold their documents, and of streams that do not. The family is bound. `log_joint` is a lower
    bound of the log evidence, nats; NaN before the first local step, an estimate under a stochastic schedule.
    """

    model: Any  # the family has the methods of a Multinomial
    empty_diagnostics = TopicDiagnostics
    sums: TopicSums

    def __init__(self, model: AdmixtureModel, *, settings: TopicVariational, seed: int) -> None:
        self.model, self.settings, self.seed = model, settings, int(seed)
        self.log_joint = np.nan

    @property
    def word_counts(self) -> npt.NDArray[np.float64]:
        """Return the expected number of tokens of each word in each topic: (V, K) float64."""
        return self.sums.counts

    @property
    def eta(self) -> npt.NDArray[np.float64]:
        """Return the pseudo-count of each word: (V,) float64."""
        return self.model.family.pseudocounts()[0]

    @property
    def n_clusters(self) -> int:
        """Return the number of topics that hold at least half a token."""
        return int((self.word_counts.sum(axis=0) >= 0.5).sum())

    def empty_sums(self) -> TopicSums:
        """Return the sums over no documents."""
        return TopicSums.zeros(self.model.family.n_features_in_, self.model.n_components)

    # ---- documents ---------------------------------------------------------------------------------------------------

    def local_step_of_rows(
        self,
        passes: TopicPass,
        rows: npt.NDArray[np.int64],
        stored: Counts | None = None,
        *,
        keep: bool = False,
    ) -> TopicLocalStep:
        """Make the local step of some documents.

        Parameters
        ----------
        passes : TopicPass
            Passes over the documents of a data set.
        rows : (R,) int64 ndarray
            Numbers of the documents, ascending.
        stored : Counts, optional
            Counts of topics in these documents after an earlier local step.
        keep : bool
            Whether copies of the parts are returned, too.

        Returns
        -------
        TopicLocalStep
        """
        alpha, sums, diagnostics = self.model.pseudocounts, self.empty_sums(), TopicDiagnostics()
        tables = passes.tables(self.model.seeded(self.word_counts), self.eta)
        labels, kept, parts = [np.empty(0, dtype=np.int32)], [], []
        for part in passes.parts(passes.step(tables, alpha), rows, stored, entropy_under=tables):
            passes.add(part, sums.counts)
            sums.rest += part.entropy
            if self.settings.learn_alpha:
                passes.add_tangent(part, sums, alpha)
            diagnostics.add(TopicDiagnostics(part.counters, len(part.topics), len(part.rows)))
            labels.append(largest_topics(part))
            if self.settings.documents != "cold":
                kept.append(part.counts())
            if keep:
                parts.append(part.copied())
        sums.weight = passes.weight_of(rows)
        counts = Counts.joined(kept) if kept else None
        return TopicLocalStep(sums, np.concatenate(labels), counts, diagnostics, parts)

    # ---- bound -------------------------------------------------------------------------------------------------------

    def compute_log_joint(self) -> float:
        """Compute the bound of the documents under the topics that they imply, nats."""
        return self.sums.bound(self.model.pseudocounts, self.eta, self.model.seeds)

    def noisy_bound(self, local: TopicLocalStep, scale: float, total: float) -> float:
        """Estimate the bound of all documents from a local step, nats, for the trace.

        It is the bound at the best topics for the documents of this local step, each repeated `scale` times.
        """
        documents = local.sums.documents_bound(self.model.pseudocounts)
        return scale * documents + log_evidence_of_topics(scale * local.sums.counts, self.eta, self.model.seeds)

    def learn_alpha(self) -> None:
        """Raise the bound by the pseudo-counts of topics, if the settings say so."""
        if self.settings.learn_alpha:
            self.model = self.model.with_alpha(self.sums.best_alpha(self.model.pseudocounts))

    def learn_eta(self) -> None:
        """Raise the bound by the pseudo-count of words, if the settings say so."""
        if self.settings.learn_eta:
            eta = better_shared_pseudocount(self.word_counts, float(self.model.family.concentration))
            self.model = self.model.with_family(self.model.family.with_hyper(concentration=eta))


def pseudocount_arrays(model: Any) -> dict[str, npt.NDArray[np.float64]]:
    """Return the pseudo-counts of a model as a dict of arrays."""
    return {"alpha": model.pseudocounts, "eta": np.asarray(model.family.concentration, dtype=np.float64)}


def with_pseudocounts(model: Any, arrays: dict[str, Any]) -> Any:
    """Return the model with pseudo-counts from a file.

    Parameters
    ----------
    model : AdmixtureModel
    arrays : dict of ndarrays
        With "alpha" and "eta".

    Raises
    ------
    ExpFamError
        For pseudo-counts that do not fit the model's topics and words.
    """
    if len(arrays["alpha"]) != model.n_components:
        found = f"{counted(len(arrays['alpha']), 'topic')}, the model {model.n_components}"
        raise ExpFamError(f"the file has {found}: use the same model")
    shape = np.shape(model.family.concentration)
    eta = numbers(arrays, "eta", shape if np.ndim(arrays["eta"]) else (), low=TINY)
    family = model.family.with_hyper(concentration=float(eta) if eta.ndim == 0 else eta)
    return model.with_family(family).with_alpha(numbers(arrays, "alpha", (model.n_components,), low=TINY))


def largest_topics(part: Part) -> npt.NDArray[np.int32]:
    """Return the largest topic of each document of a part: (R,) int32, -1 for an empty one."""
    labels, occupied = np.full(len(part.sizes), -1, dtype=np.int32), part.sizes > 0
    if not occupied.any():
        return labels
    starts = (np.cumsum(part.sizes) - part.sizes)[occupied]
    best = np.maximum.reduceat(part.N, starts)
    hits = np.flatnonzero(np.repeat(best, part.sizes[occupied]) == part.N)
    labels[occupied] = part.topics[hits[np.searchsorted(hits, starts)]]
    return labels
