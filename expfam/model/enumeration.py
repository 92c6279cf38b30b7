"""Exact posteriors of few rows: all their set partitions with their probabilities.

The evidence of a partition is a product over its blocks, so the evidence of the 2^n - 1 sets of rows is computed once,
in one call of the family.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from expfam.amounts import counted
from expfam.families.support import dense_rows
from expfam.model.data import Dataset

if TYPE_CHECKING:
    from collections.abc import Iterable

    from expfam.model.mixture import MixtureModel

MOST_ROWS = 9  # of which all 21,147 partitions are listed


def set_partitions(n: int) -> list[tuple[int, ...]]:
    """Return all set partitions of n items, as label tuples in order of first appearance.

    For n = 1, 2, ... there are 1, 2, 5, 15, 52, 203, 877 of them.
    """
    partitions: list[tuple[int, ...]] = [(0,)]
    for _ in range(n - 1):
        partitions = [(*p, k) for p in partitions for k in range(max(p) + 2)]
    return partitions


def canonical(labels: Iterable[Any]) -> tuple[int, ...]:
    """Return the labels renumbered by first appearance, as a tuple."""
    names: dict[int, int] = {}
    return tuple(names.setdefault(int(k), len(names)) for k in labels)


class _Partitions(NamedTuple):
    """All partitions of n rows; P partitions have M different lists of sizes."""

    labels: npt.NDArray[np.int8]  # (P, n)
    blocks: npt.NDArray[np.int64]  # (P, n) rows of each block as bits, 0 where there is no such block
    sizes: list[npt.NDArray[np.int64]]  # M arrays
    which: npt.NDArray[np.intp]  # (P,) place of a partition's sizes among them
    codes: npt.NDArray[np.int64]  # (P,) ascending


@cache
def _partitions_of(n: int) -> _Partitions:
    labels = np.array(set_partitions(n), dtype=np.int8)
    bits = np.zeros(labels.shape, dtype=np.int64)
    for k in range(n):
        bits[:, k] = (labels == k) @ (1 << np.arange(n))
    sizes = -np.sort(-np.stack([(labels == k).sum(axis=1) for k in range(n)], axis=1), axis=1)
    patterns, which = np.unique(sizes, axis=0, return_inverse=True)
    return _Partitions(labels, bits, [row[row > 0] for row in patterns], which.ravel(), _codes(labels))


def _codes(labels: npt.NDArray[np.integer]) -> npt.NDArray[np.int64]:
    """Return a number of each partition: its labels as digits, in the order of `set_partitions`."""
    n = labels.shape[-1]
    codes: npt.NDArray[np.int64] = labels.astype(np.int64) @ n ** np.arange(n - 1, -1, -1)
    return codes


class ExactPosterior:
    """All partitions of few rows with their posterior probabilities.

    Parameters
    ----------
    model : MixtureModel
        Bound.
    X : array_like or sparse matrix, shape (n, V), or Dataset
        At most 9 rows.

    Attributes
    ----------
    labels : (P, n) int8 ndarray
        Partitions with positive prior probability, numbered by first appearance.
    log_joint : (P,) float64 ndarray
        Log joint of each partition and the rows, nats, without log-base.
    probability : (P,) float64 ndarray
        Posterior probabilities, which sum to 1.

    Examples
    --------
    >>> from expfam import DirichletProcess, MixtureModel, Poisson
    >>> from expfam.model.enumeration import ExactPosterior
    >>> X = [[0], [1], [40]]
    >>> exact = ExactPosterior(MixtureModel(Poisson(shape=1.0, rate=0.1), DirichletProcess()).bind(X), X)
    >>> exact.labels[exact.probability.argmax()]
    array([0, 0, 1], dtype=int8)
    """

    def __init__(self, model: MixtureModel, X: Any) -> None:
        data = X if isinstance(X, Dataset) else Dataset(X, model.family)
        n = data.n_rows
        if n > MOST_ROWS:
            raise ValueError(
                f"{counted(n, 'row has', 'rows have')} too many partitions to enumerate: give at most {MOST_ROWS}"
            )
        every = _partitions_of(n)
        evidence = _evidence_of_sets(model.family, data)
        log_prior = np.array([model.weights.log_prior(sizes) for sizes in every.sizes])[every.which]
        is_possible = log_prior > -np.inf
        self.labels: npt.NDArray[np.int8] = every.labels[is_possible]
        self.log_joint = (log_prior + evidence[every.blocks].sum(axis=1))[is_possible]
        weight = np.exp(self.log_joint - self.log_joint.max())
        self.probability: npt.NDArray[np.float64] = weight / weight.sum()
        self._codes = every.codes[is_possible]

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def n_effective(self) -> float:
        """Return the exponential of the entropy: the effective number of partitions."""
        p = self.probability[self.probability > 0]
        return float(np.exp(-(p @ np.log(p))))

    def row(self, partition: npt.NDArray[np.integer]) -> int:
        """Return the position of a partition in `labels`, or -1 if it is impossible.

        Its clusters are numbered by first appearance.
        """
        code = int(_codes(np.asarray(partition)))
        place = int(np.searchsorted(self._codes, code))
        return place if place < len(self) and self._codes[place] == code else -1


def _evidence_of_sets(family, data):
    """Return log evidence of each set of rows, by its bits: (2^n,), 0 for the empty set."""
    n = data.n_rows
    phi = np.asarray(dense_rows(family.sufficient_statistics(data.X)), dtype=np.float64)
    inside = (np.arange(1 << n)[:, None] >> np.arange(n)) & 1
    evidence = np.zeros(1 << n)
    evidence[1:] = family.log_marginal_of_rows(inside[1:].sum(axis=1).astype(np.float64), inside[1:] @ phi)
    return evidence
