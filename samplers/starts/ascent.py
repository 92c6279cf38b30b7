"""Ascent of the log joint: rows move to their most probable clusters as long as it rises.

This is an optimiser, not a sampler. It turns a draw of a chain into a partition whose labels are those that a mixture
fitted to it predicts for its own rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from expfam.amounts import counted
from expfam.model.assignment import LoadedClusters
from expfam.model.partitions import by_first_appearance
from expfam.model.statistics import moved_statistics, weighted_statistics
from expfam.samplers.starts.few_rows import FewRows, are_few_rows, first_lost

if TYPE_CHECKING:
    from collections.abc import Callable

    from expfam.model.data import Dataset
    from expfam.model.mixture import MixtureModel

_MOST_PASSES = 10
_MANY_ROWS = 20_000  # of fewer rows a pass costs little more than its calls
_FEW_MOVED = 0.02  # share of the rows that a pass moves, below which the rows near borders are moved by themselves
_NEAR_SHARE = 0.1  # of the rows
_SPARE_CLUSTERS = 4  # without rows, which cost less than other owners of the clusters
_HOPE = 3e-3  # nats a row that each pass may gain yet: wide groups without borders move for tens of passes
_MANY_CLUSTERS, _BEST = 24, 8  # of as many clusters the best ones of each row are looked at until none moves


def ascend(
    model: MixtureModel,
    data: Dataset,
    labels: npt.ArrayLike,
    *,
    keep_clusters: bool = False,
    max_passes: int = _MOST_PASSES,
    n_threads: int | None = None,
) -> npt.NDArray[np.int32]:
    """Move all rows to their most probable cluster, again and again while the log joint rises.

    Parameters
    ----------
    model : MixtureModel
        Bound to the data.
    data : Dataset
    labels : (N,) array_like of non-negative int
    keep_clusters : bool
        Whether no cluster may lose all its rows. Where a pass would empty a cluster, the row with the highest log
        predictive under it, of equal ones the first, keeps its label.
    max_passes : int
        Number of passes at most.
    n_threads : int or None
        The labels do not depend on it.

    Returns
    -------
    (N,) int32 ndarray
        Clusters keep their numbers; without `keep_clusters` some may have lost all their rows. The log joint of these
        labels is never lower than that of the given ones.

    Raises
    ------
    FloatingPointError
        The log predictive of a row is NaN.
    ValueError
        The labels are not N non-negative integers.

    Examples
    --------
    >>> from expfam import Dataset, DirichletProcess, MixtureModel, Poisson
    >>> from expfam.samplers.starts.ascent import ascend
    >>> data = Dataset([[0], [1], [30], [31], [2]], Poisson())
    >>> ascend(MixtureModel(data.family, DirichletProcess()), data, [0, 0, 1, 1, 1])
    array([0, 0, 1, 1, 0], dtype=int32)

    Notes
    -----
    One pass computes the statistics of the clusters, and the scores log(posterior mean of the weight) + log predictive
    of `Mixture.predict`; a row is not taken out of its cluster. Clusters with equal scores: the first. The passes end
    when no label changes, when the log joint would not rise (the labels before that pass are kept), or after
    `max_passes`. In the first case every row has its most probable cluster, but for the rows that `keep_clusters` has
    held back. Rows of which something is known, see `Dataset.known`, keep their clusters.

    Where a pass over 20,000 rows or more moves less than 2 % of them, further passes go over the tenth of the rows
    whose two best scores are closest, until none of these moves; then all rows are looked at again. Of 24 clusters or
    more all passes over so many rows look at the 8 that were best for each row, until no row moves to one of them; then
    at all.
    """
    return climb(model, data, labels, keep_clusters=keep_clusters, max_passes=max_passes, n_threads=n_threads).labels


class Summit(NamedTuple):
    """End of an ascent.

    Attributes
    ----------
    labels : (N,) int32 ndarray
    most_probable : (N,) int32 ndarray
        Most probable cluster of each row, as of the last pass. Rows differ from `labels` that were held back, or that
        would lower the log joint.
    is_hopeless : bool
        Whether the ascent has ended early, because it would not have reached the log joint that was wanted.
    """

    labels: npt.NDArray[np.int32]
    most_probable: npt.NDArray[np.int32]
    is_hopeless: bool = False


def climb(
    model: MixtureModel,
    data: Dataset,
    labels: npt.ArrayLike,
    *,
    keep_clusters: bool,
    max_passes: int,
    n_threads: int | None,
    first_equal: Callable[[], npt.NDArray[np.intp]] | None = None,
) -> Summit:
    """Do what `ascend` does, and tell also where each row would go.

    The parameters are those of `ascend`; `first_equal` returns the first row that is equal to each row. With it the
    rows of a cluster that are equal to the row which keeps its label keep theirs too.
    """
    ascents = Ascents(model, data, n_threads=n_threads)
    return ascents.climb(labels, keep_clusters=keep_clusters, max_passes=max_passes, first_equal=first_equal)


class Ascents:
    """Ascents under one model; what all of them need is made once.

    Parameters
    ----------
    model : MixtureModel
        Bound to the data.
    data : Dataset
    n_threads : int or None
        No result depends on it.

    Examples
    --------
    >>> from expfam import Dataset, DirichletProcess, MixtureModel, Poisson
    >>> from expfam.samplers.starts.ascent import Ascents
    >>> data = Dataset([[0], [1], [30], [31], [2]], Poisson())
    >>> ascents = Ascents(MixtureModel(data.family, DirichletProcess()), data)
    >>> ascents.climb([0, 0, 1, 1, 1], keep_clusters=False, max_passes=10).labels
    array([0, 0, 1, 1, 0], dtype=int32)
    >>> ascents.log_joint([0, 0, 1, 1, 0]) > ascents.log_joint([0, 0, 1, 1, 1])
    True
    """

    def __init__(self, model: MixtureModel, data: Dataset, *, n_threads: int | None = None) -> None:
        self.model, self.data, self.n_threads = model, data, n_threads
        self._few: tuple[int, FewRows | None] = 0, None  # of the last number of clusters
        self._modes: set[tuple[bool, bytes]] = set()  # of few rows, by first appearance

    def climb(
        self,
        labels: npt.ArrayLike,
        *,
        keep_clusters: bool,
        max_passes: int,
        first_equal: Callable[[], npt.NDArray[np.intp]] | None = None,
        least: float = -np.inf,
    ) -> Summit:
        """Do what the function `climb` does; end early where a log joint of `least` is out of reach.

        It is where it would not be reached although each pass that is left gained twice what the last one has gained,
        and no less than 0.003 nats a row.
        """
        ascent, data = self._begun(_checked(labels, self.data.n_rows)), self.data
        wanted = ascent.labels
        for number in range(max_passes):
            wanted = ascent.wanted(is_last=number == max_passes - 1)
            moved = _held_back(wanted, ascent.labels, ascent.clusters, data, first_equal) if keep_clusters else wanted
            before = ascent.log_joint
            if not np.array_equal(moved, ascent.labels) and ascent.move(moved):
                ascent.move_borders(max_passes, keep_clusters=keep_clusters)
            elif not ascent.goes_back():
                break
            if self._is_known_mode(ascent.labels, keep_clusters=keep_clusters):
                return Summit(ascent.labels, ascent.labels)
            if before is not None:  # the first pass is no guide: it takes a partition to another law
                hope = max(2.0 * (ascent.log_joint - before), _HOPE * data.n_rows)
                if ascent.log_joint + (max_passes - 1 - number) * hope < least:
                    return Summit(ascent.labels, wanted, is_hopeless=True)
        if np.array_equal(wanted, ascent.labels) and data.n_rows < _MANY_ROWS:
            self._modes.add((keep_clusters, by_first_appearance(wanted)[1].tobytes()))
        return Summit(ascent.labels, wanted)

    def _is_known_mode(self, labels, *, keep_clusters):
        """Tell whether an earlier ascent has ended at the same partition, where no row moves."""
        if not self._modes:
            return False
        return (keep_clusters, by_first_appearance(labels)[1].tobytes()) in self._modes

    def log_joint(self, labels: npt.ArrayLike) -> float:
        """Return the log joint of labels 0..K-1, nats, without log-base; clusters may hold no row."""
        labels = _checked(labels, self.data.n_rows)
        if (few := self._few_rows(labels)) is None:
            return self.model.log_joint(self.data, labels)
        few.load(labels)
        return few.log_joint()

    def _begun(self, labels):
        few = self._few_rows(labels)
        return _Ascent(self.model, self.data, labels, self.n_threads) if few is None else _AscentOfFewRows(few, labels)

    def _few_rows(self, labels):
        """Return `FewRows` with at least as many clusters as the labels have; None for many rows."""
        K = int(labels.max()) + 1
        if not K <= self._few[0] <= K + _SPARE_CLUSTERS:
            is_few = self.data.n_rows < _MANY_ROWS and are_few_rows(self.model, self.data, K)
            self._few = K, FewRows(self.model, self.data, K) if is_few else None
        return self._few[1]


class _Ascent:
    """Labels on their way uphill, with their statistics."""

    def __init__(self, model, data, labels, n_threads):
        self.model, self.data, self.labels, self.n_threads = model, data, labels, n_threads
        self.held = None if data.known is None else data.known.stays
        self.near, self.is_near_end = None, False
        self.best, self.is_partial = None, False  # best clusters of each row, where there are many and few rows move
        self._is_plain = data.weight is None and self.held is None and data.n_rows >= _MANY_ROWS
        n, S = weighted_statistics(data, labels, int(labels.max()) + 1)
        self.has_many = self._is_plain and len(n) >= _MANY_CLUSTERS
        self.clusters = LoadedClusters(model.family, n, S, keeps_rows=True)
        self.log_joint = None

    def wanted(self, *, is_last):
        """Return the most probable cluster of each row; note the best ones, and rows near borders.

        In the last pass all clusters are looked at, so that the result is what it says.
        """
        if self.is_near_end or self.has_many:
            return self._wanted_of_best(is_last)
        self.best, self.is_partial = None, False
        wanted = self.clusters.most_probable(self.data, self._log_mass(), n_threads=self.n_threads)
        if self.held is not None:
            wanted[self.held] = self.labels[self.held]
        return wanted

    def _wanted_of_best(self, is_last):
        """Look at the best clusters of each row; at all clusters where no row moves to one of these."""
        log_mass, options = self._log_mass(), {"n_threads": self.n_threads}
        if self.best is not None and not is_last:
            wanted, margins = self.clusters.most_probable_of(self.data, log_mass, self.best, **options)
            if not np.array_equal(wanted, self.labels):
                self._note_near(margins)
                self.is_partial = True
                return wanted
        found, margins = self.clusters.ranked(self.data, log_mass, _BEST if self.has_many else 2, **options)
        self.best, self.is_partial = found if self.has_many else None, False
        self._note_near(margins)
        return np.ascontiguousarray(found[:, 0])

    def _note_near(self, margins):
        self.near = _lowest(margins) if self.is_near_end else None

    def goes_back(self):
        """Tell whether the last pass has looked at some clusters only; prepare one over all."""
        if not self.is_partial:
            return False
        self.best, self.is_partial = None, False
        self.clusters.load(*weighted_statistics(self.data, self.labels, len(self.clusters.n)))
        return True

    def move(self, labels):
        """Take other labels if they raise the log joint; tell whether they do."""
        if self.log_joint is None:
            self.log_joint = self._log_joint(self.data)
        self.clusters.load(*weighted_statistics(self.data, labels, len(self.clusters.n)))
        log_joint = self._log_joint(self.data)
        if not log_joint > self.log_joint:
            return False
        n_moved, N = np.count_nonzero(labels != self.labels), self.data.n_rows
        self.is_near_end = self._is_plain and n_moved <= _FEW_MOVED * N
        self.labels, self.log_joint = labels, log_joint
        return True

    def move_borders(self, max_passes, *, keep_clusters):
        """Make passes over the rows whose two best clusters are closest, until none of these moves."""
        if self.near is None:
            return
        near, self.near = self.near, None
        part, best = self.data.take(near), None if self.best is None else self.best[near]
        own, (n, S) = self.labels[near], (self.clusters.n, self.clusters.S)
        begun, log_joint = own, self.log_joint
        clusters = LoadedClusters(self.model.family, n, S, keeps_rows=True)  # those of all rows keep their rows
        for _ in range(max_passes):
            moved = self._wanted_of(clusters, part, best)
            if np.array_equal(moved, own):
                break
            n, S = moved_statistics(part, n, S, own, moved)
            if keep_clusters and not n.all():  # the next pass over all rows holds a row back
                break
            clusters.load(n, S)
            if not (risen := self._log_joint(part, clusters)) > log_joint:
                break
            own, log_joint = moved, risen
        labels = self.labels.copy()
        labels[near] = own
        if own is not begun and not self.move(labels):  # a pass that lowered the log joint may have been the last one
            self.clusters.load(*weighted_statistics(self.data, self.labels, len(self.clusters.n)))

    def _wanted_of(self, clusters, part, best):
        log_mass = self._log_mass(clusters)
        if best is None:
            return clusters.most_probable(part, log_mass, n_threads=self.n_threads)
        return clusters.most_probable_of(part, log_mass, best, n_threads=self.n_threads)[0]

    def _log_mass(self, clusters=None):
        with np.errstate(divide="ignore"):
            return np.log(self.model.weights.posterior_mean((clusters or self.clusters).n)[0])

    def _log_joint(self, data, clusters=None):
        clusters = clusters or self.clusters
        log_marginal = clusters.log_marginal(data).sum()
        return float(self.model.weights.log_prior(clusters.n) + log_marginal)


class _AscentOfFewRows:
    """Labels of few rows on their way uphill: each method is one compiled call."""

    def __init__(self, few, labels):
        self.labels, self.clusters = labels, few
        few.load(labels)
        self.log_joint = None

    def wanted(self, *, is_last):
        return self.clusters.most_probable()

    def goes_back(self):
        return False

    def move(self, labels):
        if self.log_joint is None:
            self.log_joint = self.clusters.log_joint()
        self.clusters.load(labels)
        log_joint = self.clusters.log_joint()
        if not log_joint > self.log_joint:
            return False
        self.labels, self.log_joint = labels, log_joint
        return True

    def move_borders(self, max_passes, *, keep_clusters):
        """Do nothing: a pass over all of few rows takes no longer than one over those near borders."""


def _held_back(wanted, labels, clusters, data, first_equal):
    """Give a row back to each cluster that would be emptied; return the labels with these rows.

    A row that is given back may be the only one that another cluster has gained, so the clusters are counted again.
    """
    n_clusters, moved = len(clusters.n), wanted
    while (lost := first_lost(labels, moved, n_clusters)) >= 0:
        moved = wanted.copy() if moved is wanted else moved
        members = np.flatnonzero(labels == lost)
        kept = members[clusters.log_predictive(data, members, lost).argmax()]
        if first_equal is not None:
            kept = members[first_equal()[members] == first_equal()[kept]]
        moved[kept] = lost
    return moved


def _lowest(margins):
    """Return the rows of the lowest margins, in order."""
    n_near = max(1, int(_NEAR_SHARE * len(margins)))
    return np.sort(np.argpartition(margins, n_near)[:n_near])


def _checked(labels, n_rows):
    labels = np.asarray(labels)
    if labels.shape != (n_rows,) or labels.dtype.kind not in "iu" or labels.min() < 0:
        wanted = counted(n_rows, "non-negative integer")
        raise ValueError(f"labels must be {wanted}; got {labels.dtype} of shape {labels.shape}")
    return labels.astype(np.int32)
