"""Posterior of topics of unknown number and of shared weights, with local steps under it.

Runs that hold their documents and streams of chunks have it in common.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln, psi

from expfam.model.hierarchical import HierarchicalProcess
from expfam.samplers.nonparametric.stick_posterior import StickPosterior, Tables
from expfam.samplers.topics.local_step import Counts
from expfam.samplers.topics.state import TopicDiagnostics, TopicLocalStep, TopicPosterior, largest_topics
from expfam.samplers.variational.alpha_bound import rising_slopes, tangent
from expfam.structures.ground.stored import TINY

if TYPE_CHECKING:
    from expfam.model.data import Dataset
    from expfam.samplers.topics.local_step import TopicPass
    from expfam.samplers.topics.statistics import TopicSums

UPDATE_STEPS = 10  # of the shared weights after a batch


class Occupied(NamedTuple):
    """Documents as the shared weights see them.

    Attributes
    ----------
    lengths : (D,) float64 ndarray
        Words of each document.
    weight : (D,) float64 ndarray
        Multiplicities, 0 for documents without words.
    """

    lengths: npt.NDArray[np.float64]
    weight: npt.NDArray[np.float64]

    @classmethod
    def of(cls, data: Dataset) -> Occupied:
        """Return those of all documents of some data."""
        lengths = np.asarray(data.X.sum(axis=1), dtype=np.float64).ravel()
        weight = np.ones(len(lengths)) if data.weight is None else data.weight
        return cls(lengths, np.where(lengths > 0, weight, 0.0))

    def take(self, rows: npt.NDArray[np.int64]) -> Occupied:
        """Return those of some documents."""
        return Occupied(self.lengths[rows], self.weight[rows])


class ProcessPosterior(TopicPosterior):
    """Topics that the sums imply, at pseudo-counts alpha E beta_k.

    Attributes
    ----------
    sticks : StickPosterior
        Posterior of the weights that all documents share.
    """

    sticks: StickPosterior

    @property
    def process(self) -> HierarchicalProcess:
        """Return the model with the present concentrations and pseudo-count of words."""
        return HierarchicalProcess(self.model.family, self.sticks.alpha, self.sticks.gamma)

    def process_step(
        self, passes: TopicPass, rows: npt.NDArray[np.int64], occupied: Occupied, stored: Counts | None
    ) -> TopicLocalStep:
        """Make the local step of the documents `rows`, in ascending order; keep all of it.

        `stored` are counts of topics in these documents after an earlier local step.
        """
        M, sums = self.model.pseudocounts, self.empty_sums()
        diagnostics = TopicDiagnostics()
        tables = passes.tables(self.word_counts, self.eta)
        labels, kept, parts = [np.empty(0, dtype=np.int32)], [], []
        for part in passes.parts(passes.step(tables, M), rows, stored, entropy_under=tables):
            here = occupied.take(part.rows)
            passes.add(part, sums.counts)
            entropy = part.entropy - _value_of_given(M, part, here)
            add_documents(sums, self.sticks.alpha, M, part.counts(), entropy, here)
            diagnostics.add(TopicDiagnostics(part.counters, len(part.topics), len(part.rows)))
            labels.append(largest_topics(part))
            kept.append(part.counts())
            parts.append(part.copied())
        counts = Counts.joined(kept) if kept else None
        return TopicLocalStep(sums, np.concatenate(labels), counts, diagnostics, parts)

    def tables_of(self, sums: TopicSums) -> Tables:
        """Return what the documents of some sums say of the shared weights."""
        return Tables(np.maximum(sums.rising, 0.0), max(sums.falling, 0.0), sums.weight)

    def bound_of(self, sums: TopicSums) -> float:
        """Return the bound of some sums at their posterior, nats."""
        flat = np.ones(sums.rising.shape[1])  # the tangents' part is in the value of the sticks
        words = sums.bound(flat, self.eta) - tangent(flat, sums.rising, sums.falling)
        return words + self.sticks.value(self.tables_of(sums))

    def compute_log_joint(self) -> float:
        """Compute the bound of the sums at their posterior, nats."""
        return self.bound_of(self.sums)

    def raise_sticks(self) -> None:
        """Raise the bound by the posterior of the shared weights, in a few steps."""
        learn = self.settings.learn_alpha
        self.set_sticks(self.sticks.best(self.tables_of(self.sums), learn=learn, n_steps=UPDATE_STEPS))

    def set_sticks(self, sticks: StickPosterior) -> None:
        """Use another posterior of the shared weights."""
        self.sticks = sticks
        self.model = self.model.with_alpha(np.maximum(sticks.pseudocounts, TINY))


def _value_of_given(M, part, occupied):
    """Return what the bounds of a part hold of weights under a given number of topics."""
    (lengths, weight), a = occupied, M[part.topics]
    value = float((np.repeat(weight, part.sizes) * (gammaln(a + part.N) - gammaln(a))).sum())
    return value + float((weight * (gammaln(M.sum()) - gammaln(M.sum() + lengths))).sum())


def add_documents(
    sums: TopicSums,
    alpha: float,
    M: npt.NDArray[np.float64],
    counts: Counts,
    entropy: float,
    occupied: Occupied,
) -> None:
    """Add some documents to sums that hold their words already.

    Parameters
    ----------
    sums : TopicSums
    alpha : float
        Concentration of the documents.
    M : (K,) float64 ndarray
        Pseudo-counts of the topics.
    counts : Counts
        Of the topics in these documents.
    entropy : float
        Of their responsibilities, nats.
    occupied : Occupied
        Of these documents.
    """
    lengths, weight = occupied
    a, of_pairs = M[counts.topics], np.repeat(weight, np.diff(counts.starts))
    slopes = rising_slopes(a, counts.N)
    rising: npt.NDArray[Any] = np.stack([np.bincount(counts.topics, of_pairs * x, minlength=len(M)) for x in slopes])
    falling = float((weight * (psi(alpha + lengths) - psi(alpha))).sum())
    value = float((of_pairs * (gammaln(a + counts.N) - gammaln(a))).sum())
    value += float((weight * (gammaln(alpha) - gammaln(alpha + lengths))).sum())
    sums.rising += rising
    sums.falling += falling
    sums.rest += entropy + value - tangent(M, rising, 0.0) + falling * alpha
    sums.weight += float(weight.sum())
