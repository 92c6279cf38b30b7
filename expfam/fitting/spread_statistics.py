"""The clusters of a run that has seen repeated real values spread, on the rows as they are.

A cluster learns how narrow each column is there, and a value that its rows share makes it as narrow as the prior lets
it be: rows of one value outweigh far groups, and large clusters take the rows of small ones. Rows whose repeated values
are spread prefer no such cluster. So a run that has seen them spread ends on them, and its statistics are what those of
spread rows are on average: sums as they are, and squares with the variance of what was added.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from expfam.fitting.endings import FEW_ROWS
from expfam.model.assignment import LoadedClusters
from expfam.model.data import Dataset
from expfam.model.equal_rows import first_equal_rows
from expfam.model.partitions import compact_labels
from expfam.model.statistics import weighted_statistics
from expfam.samplers.starts.greedy_merge import merged_clusters
from expfam.samplers.warm_starts.settle import least_gain
from expfam.samplers.warm_starts.ties import spread_ties

if TYPE_CHECKING:
    from expfam.families.base import Family
    from expfam.model.mixture import MixtureModel
    from expfam.samplers.warm_starts.ties import Ties

_MOST_PASSES = 100
_MOST_MOVED = 100
_SPREADS, _MOST_SPREADS = 4, 64  # of one alone, chance decides between clusters that overlap


def with_constants(data: Dataset, spread: Dataset) -> Dataset:
    """Return the rows, with constant columns as `spread` has them.

    Parameters
    ----------
    data, spread : Dataset
        The same rows as they are, and with repeated values spread.

    Returns
    -------
    Dataset
        The rows themselves if no constant column was spread.

    Examples
    --------
    >>> from expfam import Dataset, SphericalGaussian
    >>> from expfam.fitting.spread_statistics import with_constants
    >>> spread = Dataset([[0.1, 1.2], [1.9, 0.9]], SphericalGaussian())
    >>> with_constants(Dataset([[0.0, 1.0], [2.0, 1.0]], spread.family), spread).X
    array([[0. , 1.2],
           [2. , 0.9]])
    """
    if spread is data or data.is_sparse:
        return data
    constant = np.flatnonzero((data.X[:1] == data.X).all(axis=0) & (spread.X != data.X).any(axis=0))
    if not constant.size:
        return data
    X = np.array(data.X, dtype=spread.X.dtype)
    X[:, constant] = spread.X[:, constant]
    return Dataset(X, data.family, weight=data.weight, groups=data.groups, known=data.known)


@dataclass(frozen=True)
class AddedSquares:
    """What spreading repeated values adds to the statistics of rows on average.

    Attributes
    ----------
    columns : tuple of int
        Those with repeated values.
    phi : (J, F) float64 ndarray
        What a variance of one in each of these columns adds.
    of_all, of_frequent : (J,) float64 ndarray
        Variance that all rows are given, and that of rows with a frequent value.
    frequent : tuple of ndarray
        Frequent values of each of these columns.

    Examples
    --------
    >>> from expfam import Dataset, DiagonalGaussian
    >>> from expfam.fitting.spread_statistics import added_squares
    >>> from expfam.samplers.warm_starts.ties import tied_columns
    >>> family = DiagonalGaussian().bind([[0.0, 1.0], [2.0, 1.5]])
    >>> rows = Dataset([[0.0, 1.0], [2.0, 1.0]], family)
    >>> added_squares(rows, tied_columns(rows, 1)).of_labels(rows, [0, 1], 2)
    array([[0.  , 0.  , 0.  , 0.03],
           [0.  , 0.  , 0.  , 0.03]])
    """

    columns: tuple[int, ...]
    phi: npt.NDArray[np.float64]
    of_all: npt.NDArray[np.float64]
    of_frequent: npt.NDArray[np.float64]
    frequent: tuple[npt.NDArray[np.float64], ...]

    def of_labels(self, data: Dataset, labels: npt.ArrayLike, n_clusters: int) -> npt.NDArray[np.float64]:
        """Return what is added to the sums of clusters.

        Parameters
        ----------
        data : Dataset
            The rows as they are.
        labels : (N,) array_like of int
        n_clusters : int

        Returns
        -------
        (K, F) float64 ndarray
        """
        labels = np.asarray(labels)
        n = np.bincount(labels, weights=data.weight, minlength=n_clusters)
        variance = n[:, None] * self.of_all
        for place, (j, values) in enumerate(zip(self.columns, self.frequent, strict=True)):
            more = self.of_frequent[place] - self.of_all[place]
            if values.size and more > 0.0:
                has_value = np.isin(data.X[:, j], values)
                weight = has_value if data.weight is None else has_value * data.weight
                variance[:, place] += more * np.bincount(labels, weights=weight, minlength=n_clusters)
        return variance @ self.phi


@dataclass(frozen=True)
class OtherSpreads:
    """Rows whose repeated values are spread by other random numbers than a run has seen.

    Partitions are compared there. The log joint at the mean of their statistics would prefer few clusters: there no
    cluster has a narrow direction by chance, as each cluster of spread rows has. With full covariances that is some
    d^2 / 4 nats for each cluster, where d columns hold little but repeated values.

    Parameters
    ----------
    data : Dataset
        The rows as they are.
    n_clusters : int or None
        As `spread_ties` takes it.
    ties : dict
        What `tied_columns` has found.
    seed : int
        That of the run.
    """

    data: Dataset
    n_clusters: int | None
    ties: Ties
    seed: int
    _few: list[Dataset] = field(default_factory=list, init=False, repr=False, compare=False)

    def log_joint(self, model: MixtureModel, labels: npt.NDArray[np.int32]) -> float:
        """Return the mean log joint of labels 0..K-1 on a few spreads, nats, without log-base."""
        joints = [_log_joint(model, rows, labels) for rows in islice(self._made(), _SPREADS)]
        return sum(joints) / len(joints)

    def gain(
        self,
        model: MixtureModel,
        labels: npt.NDArray[np.int32],
        better: npt.NDArray[np.int32],
        *,
        least: float = 0.0,
    ) -> float:
        """Return by how much the log joint of other labels is higher on average, nats.

        Parameters
        ----------
        model : MixtureModel
        labels, better : (N,) int32 ndarray
            Numbers from 0 without gaps.
        least : float
            What they have to gain. The rows are spread until the mean is three standard errors away from it; of up to
            6,000 rows at most 64 times.
        """
        gains: list[float] = []
        for rows in self._made():
            gains.append(_log_joint(model, rows, better) - _log_joint(model, rows, labels))
            if len(gains) >= _SPREADS and abs(np.mean(gains) - least) > 3.0 * np.std(gains, ddof=1) / len(gains) ** 0.5:
                break
        return float(np.mean(gains))

    def _made(self):
        """Make the rows one after the other; the first ones of few rows are kept."""
        is_of_few = self.data.n_rows <= FEW_ROWS
        if is_of_few and not self._few:
            self._few.extend([self._spread(number) for number in range(_SPREADS)])
        yield from self._few
        for number in range(len(self._few), _MOST_SPREADS if is_of_few else _SPREADS):
            yield self._spread(number)

    def _spread(self, number):
        seed = (self.seed + 1 + number) % 2**64
        return spread_ties(self.data, self.n_clusters, seed=seed, tied=self.ties)


def _log_joint(model, rows, labels):
    n, S = weighted_statistics(rows, labels, int(labels.max()) + 1)
    return float(model.weights.log_prior(n) + model.family.total_log_marginal(n, S))


def added_squares(data: Dataset, ties: Ties) -> AddedSquares | None:
    """Return what spreading repeated values adds to the statistics of rows.

    Parameters
    ----------
    data : Dataset
        Of a Gaussian family.
    ties : dict
        What `tied_columns` has found.

    Returns
    -------
    AddedSquares or None
        Nothing without ties, and of tables, whose categories hold clusters together.
    """
    if not ties or hasattr(data.family, "real_columns"):
        return None
    columns = tuple(sorted(ties))
    width, values, of_values = zip(*(ties[j] for j in columns), strict=True)
    of_all = np.square(width) / 12.0
    return AddedSquares(columns, _squares(data, columns), of_all, np.square(of_values) / 12.0, values)


def _squares(data: Dataset, columns: tuple[int, ...]) -> npt.NDArray[np.float64]:
    """Return what a step of one to either side adds to the statistics on average: (J, F)."""
    family: Family = data.family
    # one column at a time: products of columns stay as they are
    step = np.zeros((len(columns), data.n_features))
    step[np.arange(len(columns)), columns] = 1.0
    phi = family.sufficient_statistics(np.concatenate([step, -step, np.zeros((1, data.n_features))]))
    return 0.5 * (phi[: len(columns)] + phi[len(columns) : -1]) - phi[-1]


def predicted_labels(
    model: MixtureModel,
    data: Dataset,
    labels: npt.ArrayLike,
    added: AddedSquares,
    others: OtherSpreads,
    *,
    keep_clusters: bool,
    n_threads: int | None,
    max_passes: int = _MOST_PASSES,
) -> npt.NDArray[np.int32] | None:
    """Return labels that the clusters with what was added predict, from those of spread rows.

    Random numbers have moved some rows between clusters that overlap. Rows that are equal have equal labels. Clusters
    that differ in these numbers alone are merged: those that are as probable as one where others were added.

    Parameters
    ----------
    model : MixtureModel
    data : Dataset
        The rows as they are.
    labels : (N,) array_like of int
        Numbers from 0 without gaps.
    added : AddedSquares
    others : OtherSpreads
    keep_clusters : bool
        Whether no cluster may lose its last row.
    n_threads : int or None
        The result does not depend on it.
    max_passes : int

    Returns
    -------
    (N,) int32 ndarray or None
        They change until they are those that a prediction has, unless others on the way had a clearly higher log joint,
        of up to 6,000 rows. None if nothing else is left than a cluster that would lose its last row.
    """
    found = np.asarray(labels, dtype=np.int32)
    best: npt.NDArray[np.int32] | None = None
    highest = log_joint = -np.inf
    for n_passes in range(max_passes):
        n, S = _sums(data, found, added)
        K = len(n)
        log_joint = model.weights.log_prior(n) + model.family.total_log_marginal(n, S)
        if log_joint > highest and (n_passes or _joins_equal_rows(data, found)):
            best, highest = found, log_joint
        moved = _most_probable(model, data, n, S, n_threads)
        if keep_clusters and np.unique(moved).size < K:
            return best
        if np.array_equal(moved, found):
            if keep_clusters:
                break
            moved = compact_labels(merged_clusters(model, n, S)[found])
            if moved.max() + 1 == K or others.gain(model, found, moved) < 0.0:
                break
            best, highest = None, -np.inf  # of another number of clusters
        found = compact_labels(moved)
    is_judged = data.n_rows <= FEW_ROWS and best is not None  # of more rows no other partitions are compared
    return best if is_judged and highest > log_joint + least_gain(data.n_rows) else found


def moved_one_by_one(
    model: MixtureModel,
    data: Dataset,
    labels: npt.NDArray[np.int32],
    added: AddedSquares,
    *,
    n_threads: int | None,
    most: int = _MOST_MOVED,
) -> npt.NDArray[np.int32] | None:
    """Return labels that the clusters with what was added predict, by moves of single rows.

    Where all rows move together, as in `predicted_labels`, some rows at borders move on and on.

    Parameters
    ----------
    model : MixtureModel
    data : Dataset
        The rows as they are.
    labels : (N,) int32 ndarray
        Numbers from 0 without gaps; equal rows have equal ones.
    added : AddedSquares
    n_threads : int or None
        The result does not depend on it.
    most : int
        Number of moves at most, each of a row and of those that are equal to it.

    Returns
    -------
    (N,) int32 ndarray or None
        The given array where no row moves. None where a cluster would lose its last row, or after too many moves.
    """
    found, first = labels, None
    for _ in range(most + 1):
        n, S = _sums(data, found, added)
        moved = _most_probable(model, data, n, S, n_threads)
        wanted = np.flatnonzero(moved != found)
        if not wanted.size:
            return found
        first = first_equal_rows(data.X) if first is None else first
        rows = first == first[wanted[0]]
        if np.array_equal(rows, found == found[wanted[0]]):
            break
        found = np.where(rows, moved, found)
    return None


def _sums(data, labels, added):
    """Return counts and sums of the clusters, with what was added."""
    n_clusters = int(labels.max()) + 1
    n, S = weighted_statistics(data, labels, n_clusters)
    return n, S + added.of_labels(data, labels, n_clusters)


def _most_probable(model, data, n, S, n_threads):
    log_weights = np.log(model.weights.posterior_mean(n)[0])
    return LoadedClusters(model.family, n, S).most_probable(data, log_weights, n_threads=n_threads)


def _joins_equal_rows(data, labels):
    return np.array_equal(labels[first_equal_rows(data.X)], labels)
