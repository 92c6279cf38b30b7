"""Posterior of the topics of a variational run, and what a local step of documents gives it.

Invariant: the topics are those that the sums imply; the pseudo-counts of the model are learned from the sums alone.
"""

from dataclasses import dataclass, field

import numpy as np

from expfam.samplers.topics.local_step import Counts
from expfam.samplers.topics.statistics import TopicSums, better_shared_pseudocount, log_evidence_of_topics
from expfam.structures.ground.stored import numbers

_TINY = np.finfo(np.float64).tiny

LEARN_AFTER = 5  # passes; pseudo-counts learned from topics that are nearly random keep them so


@dataclass
class TopicDiagnostics:
    """What visits took; of several, added up.

    Attributes
    ----------
    counters : (3,) int64 ndarray
        Iterations, and restarts tried and accepted.
    n_pairs : int
        Topics of documents.
    n_documents : int
    """

    counters: np.ndarray = field(default_factory=lambda: np.zeros(3, dtype=np.int64))
    n_pairs: int = 0
    n_documents: int = 0

    def add(self, other):
        """Add another diagnostics, in place."""
        self.counters += other.counters
        self.n_pairs += other.n_pairs
        self.n_documents += other.n_documents

    def extra(self):
        """As numbers by name, for an Info."""
        names = ("iterations", "restarts", "restarts_accepted")
        return dict(zip(names, self.counters.tolist())) | {"active": self.n_pairs / max(1, self.n_documents)}


@dataclass
class TopicLocalStep:
    """What a local step found.

    Attributes
    ----------
    sums : TopicSums
    labels : (R,) int32 ndarray
        Largest topic of each document; -1 of an empty one.
    counts : Counts or None
        Of topics in documents, where they are remembered.
    diagnostics : TopicDiagnostics
    """

    sums: TopicSums
    labels: np.ndarray
    counts: Counts | None
    diagnostics: TopicDiagnostics


class TopicPosterior:
    """Sums over documents with the topics that they imply; the base of runs that hold their documents or do not.

    Parameters
    ----------
    model : AdmixtureModel
        Its family bound.
    settings : TopicVariational
    seed : int

    Attributes
    ----------
    sums : TopicSums
    log_joint : float
        Lower bound of the log evidence, nats: NaN before the first local step; of a stochastic schedule an estimate.
    """

    def __init__(self, model, *, settings, seed):
        self.model, self.settings, self.seed = model, settings, int(seed)
        self.log_joint = np.nan

    @property
    def word_counts(self):
        """Expected number of tokens of each word in each topic: (V, K) float64."""
        return self.sums.counts

    @property
    def eta(self):
        """Pseudo-count of each word: (V,) float64."""
        return self.model.family.pseudocounts()[0]

    @property
    def n_clusters(self):
        """Topics that hold at least half a token."""
        return int((self.word_counts.sum(axis=0) >= 0.5).sum())

    def empty_sums(self):
        """Sums of no documents."""
        return TopicSums.zeros(self.model.family.n_features_in_, self.model.n_components)

    # ---- documents ---------------------------------------------------------------------------------------------------

    def local_step_of_rows(self, passes, rows, stored=None, take=None):
        """Local step of some documents.

        Parameters
        ----------
        passes : TopicPass
        rows : (R,) int64 ndarray
            Ascending.
        stored : Counts, optional
            What the documents had before.
        take : callable, optional
            Called with each `Part` when it has been summed.

        Returns
        -------
        TopicLocalStep
        """
        alpha, sums, diagnostics = self.model.pseudocounts, self.empty_sums(), TopicDiagnostics()
        tables = passes.tables(self.word_counts, self.eta)
        labels, kept = [np.empty(0, dtype=np.int32)], []
        for part in passes.parts(passes.step(tables, alpha), rows, stored):
            passes.add(part, sums.counts)
            sums.rest += passes.entropy(part, tables)
            if self.settings.learn_alpha:
                passes.add_tangent(part, sums, alpha)
            diagnostics.add(TopicDiagnostics(part.counters, len(part.topics), len(part.rows)))
            labels.append(largest_topics(part))
            if self.settings.documents != "cold":
                kept.append(part.counts())
            if take is not None:
                take(part)
        sums.weight = passes.weight_of(rows)
        return TopicLocalStep(sums, np.concatenate(labels), Counts.joined(kept) if kept else None, diagnostics)

    # ---- bound -------------------------------------------------------------------------------------------------------

    def compute_log_joint(self):
        """Bound of the documents under the topics that they imply: nats."""
        return self.sums.bound(self.model.pseudocounts, self.eta)

    def noisy_bound(self, local, scale, total):
        """The bound at the optimum for a local step's documents repeated `scale` times: an estimate for the trace."""
        documents = local.sums.documents_bound(self.model.pseudocounts)
        return scale * documents + log_evidence_of_topics(scale * local.sums.counts, self.eta)

    def learn_alpha(self):
        """Pseudo-counts of topics that raise the bound, if they are to be learned."""
        if self.settings.learn_alpha:
            self.model = self.model.with_alpha(self.sums.best_alpha(self.model.pseudocounts))

    def learn_eta(self):
        """Pseudo-count of words that raises the bound, if it is to be learned."""
        if self.settings.learn_eta:
            eta = better_shared_pseudocount(self.word_counts, float(self.model.family.concentration))
            self.model = self.model.with_family(self.model.family.with_hyper(concentration=eta))

    # ---- storage -----------------------------------------------------------------------------------------------------

    def model_arrays(self):
        """Pseudo-counts of the model, as a dict of arrays."""
        return {
            "alpha": self.model.pseudocounts,
            "eta": np.asarray(self.model.family.concentration, dtype=np.float64),
        }

    def take_model_arrays(self, arrays):
        """Use the pseudo-counts that `model_arrays` gave."""
        self.model = stored_model(self.model, arrays)


def stored_model(model, arrays):
    """The model with pseudo-counts from a file; ArchiveError unless they are those of its topics and words."""
    shape = np.shape(model.family.concentration)
    eta = numbers(arrays, "eta", shape if np.ndim(arrays["eta"]) else (), low=_TINY)
    family = model.family.with_hyper(concentration=float(eta) if eta.ndim == 0 else eta)
    return model.with_family(family).with_alpha(numbers(arrays, "alpha", (model.n_components,), low=_TINY))


def largest_topics(part):
    """Largest topic of each document of a part: (R,) int32, -1 of an empty one."""
    labels, occupied = np.full(len(part.sizes), -1, dtype=np.int32), part.sizes > 0
    if not occupied.any():
        return labels
    starts = (np.cumsum(part.sizes) - part.sizes)[occupied]
    best = np.maximum.reduceat(part.N, starts)
    hits = np.flatnonzero(np.repeat(best, part.sizes[occupied]) == part.N)
    labels[occupied] = part.topics[hits[np.searchsorted(hits, starts)]]
    return labels


__all__ = ["LEARN_AFTER", "TopicDiagnostics", "TopicLocalStep", "TopicPosterior", "largest_topics"]
